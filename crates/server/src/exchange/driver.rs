//! The driver: it responds to everything, and awaits lookups, authorizers, scripts and applications.

use std::cell::Cell;
use std::rc::Rc;

use site::model::Route;
use site::plan::{FallbackPlan, Plan, PlannedAction};
use taipan_http::head::Method;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fallback::unserved;
use super::{Exchange, Resolution, Responder, Way, omit_content_for_head, on_heap};
use crate::clock;
use crate::content::fixed;
use crate::destination::DestinationId;
use crate::log::access::LoggedRequest;
use crate::log::upstream::UpstreamLog;
use crate::request::body::{Discard, RequestBody};
use crate::request::owned::with_fields;
use crate::request::{ConnectionInfo, Request};
use crate::response::{RequestOrigin, Response};
use crate::upstream::immediate::SentRequest;
impl Responder {
    /// The response to a request. `sent`: the fast path has sent it to an application. A body that nothing has read is
    /// discarded first, unless the client waits for 100 (Continue).
    pub async fn respond(
        self: &Rc<Self>,
        request: Request<'_>,
        body: RequestBody,
        sent: Option<SentRequest>,
    ) -> Response {
        let leaves = self.is_for_another_server(request.head, request.connection.client);
        // Other servers learn nothing of the traces of this site.
        let trace = self.services.access.tracer.as_ref().filter(|_| !leaves).map(|tracer| {
            let trace = sent.as_ref().and_then(SentRequest::trace);
            trace.unwrap_or_else(|| tracer.begin(request.head))
        });
        let context = trace.map(|trace| trace.fields(request.head));
        let fields = context.as_ref().map(|context| context.in_place(request.head.fields));
        let head = fields.as_deref().map(|fields| with_fields(request.head, fields));
        let request = Request { head: head.as_ref().unwrap_or(request.head), ..request };
        let ConnectionInfo { client, group, tls, .. } = request.connection;
        let host = self.services.site.hosts.find_in(group, request.head.authority);
        let way = Way::Driver(request.connection);
        let spans = self.services.access.sends_spans_of(trace);
        let upstream = spans.map(|ids| Rc::new(UpstreamLog::of_trace(Some(ids))));
        let mut exchange =
            Exchange { body, sent, upstream, ..Exchange::new(self, host, request.head, client, way) };
        let _running = self.services.access.recent.run(&LoggedRequest {
            client,
            connection: request.connection.id,
            head: Some(request.head),
            host,
            destination: DestinationId::default(),
            time: self.services.clock.now(),
            began: clock::micros(),
            tls: None,
        });
        let watches = &self.services.access.watches;
        let watched = match watches.is_on() {
            true => watches.begin(request.head, (client, exchange.server_address()), host, tls),
            false => None,
        };
        let admitted = match self.limits {
            // Limits are for paths of this server.
            Some(limits) if !leaves => Box::pin(exchange.admit(limits)).await,
            _ => Ok(None),
        };
        let response = match admitted {
            Ok(_) if leaves => on_heap(|| exchange.forward_to_other_server(request)).await,
            Ok(throttle) => Response { throttle, ..exchange.respond(request).await },
            Err(response) => response,
        };
        let response = exchange.discard_body(response).await;
        let response = match (exchange.user(), exchange.upstream.take()) {
            (None, None) if trace.is_none() && watched.is_none() => response,
            (user, upstream) => {
                let origin = RequestOrigin { user, upstream, trace, watched: Cell::new(watched) };
                Response { origin: Some(Box::new(origin)), ..response }
            }
        };
        omit_content_for_head(exchange.head.method, exchange.with_own_fields(response))
    }
}

impl<'a> Exchange<'a> {
    pub(super) async fn respond(&mut self, request: Request<'_>) -> Response {
        let path = match self.path() {
            Ok(path) => path,
            Err(_) if self.asks_for_tunnel() => return on_heap(|| self.open_tunnel()).await,
            Err(response) => return response,
        };
        if self.services.sheds_everything() {
            return fixed::status(self.services, None, Status::SERVICE_UNAVAILABLE);
        }
        if self.responder.refuses.get() {
            if let Some((route, time)) = self.maintenance(&path) {
                return on_heap(|| self.unavailable(route, time)).await;
            }
            if let Some(response) = self.refused(&path) {
                return response;
            }
        }
        if self.responder.needs.canonical
            && let Some(response) = self.redirect_to_canonical(&path)
        {
            return response;
        }
        if self.responder.needs.raw_paths
            && let Err(response) = self.read_raw()
        {
            return response;
        }
        if self.responder.needs.host_folders
            && let Err(response) = on_heap(|| self.choose_folder()).await
        {
            return response;
        }
        if self.names_origin()
            && let Some(response) = self.preflight(&path)
        {
            return response;
        }
        let plan = self.plan(path.clone());
        self.max_body = plan.route.max_body;
        let (route, status) = match self.follow(request, &path, plan, None).await {
            Ok(response) => return response,
            Err(absent) => absent,
        };
        let Some(mut fallback) = self.fallback(&path, route) else {
            return on_heap(|| self.status(route, status)).await;
        };
        loop {
            let next = fallback.next(self.host(), self.head.target.query());
            let FallbackPlan { path, plan, path_info, .. } = fallback;
            match (on_heap(|| self.follow(request, &path, plan, Some(&path_info))).await, next) {
                (Ok(response), _) => return response,
                (Err(_), Some(next)) => fallback = next,
                (Err((route, _)), None) => {
                    return on_heap(|| self.status(route, Status::NOT_FOUND)).await;
                }
            }
        }
    }

    /// Discards a body that nothing has read. The response is `response`, or that to a body that breaks a rule.
    async fn discard_body(&mut self, response: Response) -> Response {
        let discard = match self.head.method {
            Method::Get | Method::Head | Method::Options => Discard::ToTheEnd,
            // The method alone is likely to be the error. The client need not send the rest of the body to learn of it.
            _ if response.status().is_error() => Discard::Received,
            _ => Discard::ToTheEnd,
        };
        match self.body.discard(self.max_body, discard).await {
            Ok(()) => response,
            Err((status, rule)) => fixed::rejection(self.services, None, status, Some(rule)),
        }
    }

    /// With the fields that the exchange has for any response: of other origins, of authorizers, of limits, and of
    /// credentials. Without the one that its scheme forbids.
    fn with_own_fields(&self, response: Response) -> Response {
        let response = self.without_hsts(response);
        let response = if self.names_origin() { self.share(self.cors, response) } else { response };
        let response = self.with_added(response);
        match &self.grants.authentication_info {
            Some(info) => response.with_fields(&[("Authentication-Info", info)]),
            None => response,
        }
    }

    /// Carries out the plan for `path`, if the authorizers let the request pass. `fallback`: PATH_INFO of a
    /// fallback, if the plan is one. Errors: there is nothing to serve. The fallback of the route responds, or else the
    /// server with this status.
    async fn follow(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&str>,
    ) -> Result<Response, (&'a Route, Status)> {
        self.cors = plan.route.cors.as_deref();
        if self.responder.needs.rules
            && let Err(response) =
                on_heap(|| self.enforce(request, |exchange| exchange.check_access(path))).await
        {
            return Ok(response);
        }
        if let Err(response) = self.authorize(request, path, plan.route).await {
            return Ok(response);
        }
        if fallback.is_none()
            && let Some(method) = self.publishing_method(plan.route, path)
        {
            return Ok(on_heap(|| self.publish(request, path, plan.route, method)).await);
        }
        let mut plan = plan;
        let query = plan.query.take();
        loop {
            return Ok(match self.resolve(path, plan, fallback).await {
                Resolution::Response(response) => response,
                Resolution::Status(route, status) => on_heap(|| self.status(route, status)).await,
                Resolution::Absent(route, status) => return Err((route, status)),
                Resolution::List(query) => on_heap(|| self.list(*query)).await,
                Resolution::Monitor(route, monitor) => on_heap(|| self.monitor(route, monitor)).await,
                Resolution::Assemble(entry) => {
                    let response = on_heap(|| self.assemble(path, &entry)).await;
                    match response.status().is_error() {
                        true => response,
                        false => response.with_fields(&entry.selected_fields()),
                    }
                }
                // On the heap, because the internal redirects of a script nest.
                Resolution::Forward(route, kind) => {
                    on_heap(|| self.forward(request, route, *kind, query)).await
                }
                // A file that stands for the path, such as an index file.
                Resolution::Refused(refused) => match on_heap(|| self.satisfy(request, refused)).await {
                    Ok(()) => {
                        plan = self.plan(path.clone());
                        continue;
                    }
                    Err(response) => response,
                },
            });
        }
    }

    /// Calls the authorizers of a path. Errors: the response of the one that does not let the request pass.
    pub(super) async fn authorize(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        planned: &Route,
    ) -> Result<(), Response> {
        match self.responder.needs.authorizers {
            true => on_heap(|| self.call_authorizers(request, path, planned)).await,
            false => Ok(()),
        }
    }

    async fn resolve(
        &self,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&str>,
    ) -> Resolution<'a> {
        let Plan { route, walk, action, .. } = plan;
        if let Some(walk) = walk
            && let Some(resolution) = self.walk(path, route, &walk, fallback).await
        {
            return resolution;
        }
        if let PlannedAction::Files(planned) = &action
            && let Err(status) = self.user_status(planned).await
        {
            return unserved(route, status);
        }
        if fallback.is_none()
            && let PlannedAction::Files(planned) = &action
            && let Some(resolution) = self.leave_to_fallback(path, route, planned).await
        {
            return resolution;
        }
        match self.resolve_action(path, route, action, fallback) {
            Ok(resolution) => resolution,
            Err(lookup) => match self.wait(*lookup).await {
                Ok(entry) => self.serve(path, &entry, fallback),
                Err(status) => Resolution::Status(route, status),
            },
        }
    }
}
