//! Scripts and applications: forwarding a request to one, and acting on its response, or on that of an authorizer.

use std::rc::Rc;
use std::time::Duration;

use site::decide::ALLOW_OF_PROGRAMS;
use site::forwarding::{Forwards, Spelling};
use site::model::Route;
use site::plan::{Plan, PlannedAction};
use site::route::RouteId;
use taipan_http::fields::is_name;
use taipan_http::head::{FieldStore, Head, Method, Version, parse};
use taipan_http::path_text::is_overlong;
use taipan_http::rule::PROXY_LOOP;
use taipan_http::status::Status;
use taipan_http::target::{PathError, has_dots_with_parameters};

use super::{Exchange, Sending, Way, on_heap};
use crate::clock::in_seconds;
use crate::content::{compress, fixed};
use crate::log;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::upstream::http_head::goes_in_a_circle;
use crate::upstream::immediate::{Outgoing, SentRequest};
use crate::upstream::request::label;
use crate::upstream::{self, Form, ForwardedRequest, Handler, HandlerKind, Outcome};

/// Internal redirects of one request. RFC 3875 leaves the number to the server.
const MAX_INTERNAL_REDIRECTS: usize = 10;

/// Fields of a request that describe its body.
const BODY_FIELDS: [&str; 4] = ["content-length", "content-type", "transfer-encoding", "expect"];

impl Exchange<'_> {
    /// Sends the request to the application of a plan, if nothing else has to be done. Other origins learn of the
    /// response in the driver.
    pub(super) fn send_fast(&self, plan: &Plan<'_, '_>, fallback: Option<&str>) -> Option<SentRequest> {
        let (PlannedAction::Upstream(planned), Way::Fast(destination, Sending::Yes(arrival))) =
            (&plan.action, self.way)
        else {
            return None;
        };
        let route = self.route_at(planned.route);
        let needs_driver = fallback.is_some()
            || plan.query.is_some()
            || plan.walk.is_some()
            || self.names_origin()
            || route.passes_raw_paths()
            || route.files.includes.cover_responses()
            || self.services.is_overloaded()
            || self.check_forwarded().is_err();
        if needs_driver {
            return None;
        }
        let upstreams = &self.responder.upstreams;
        let outgoing = Outgoing {
            head: self.head,
            client: self.client,
            group: destination.group,
            arrival,
            host: self.host,
            folder: self.folder_path(),
            planned,
            trace: None,
        };
        let Some(tracer) = &self.services.access.tracer else {
            return SentRequest::send(upstreams, &outgoing);
        };
        let trace = tracer.begin(self.head);
        let context = trace.fields(self.head);
        let fields = context.in_place(self.head.fields);
        let head = self.head.with_fields(&fields);
        SentRequest::send(upstreams, &Outgoing { head: &head, trace: Some(trace), ..outgoing })
    }

    /// `query`: what the upstream gets in place of the query of the request.
    pub(super) async fn forward(
        &mut self,
        request: Request<'_>,
        id: RouteId,
        kind: HandlerKind,
        query: Option<Box<str>>,
    ) -> Response {
        if let HandlerKind::Script(_) = kind {
            self.script.get_or_insert(id);
        }
        let throttle = match self.responder.limits {
            Some(limits) => on_heap(|| self.admit_handler(limits, id, &kind)).await,
            None => Ok(None),
        };
        match throttle {
            Ok(throttle) => self.forward_admitted(request, id, kind, query).await.throttled(throttle),
            Err(response) => response,
        }
    }

    async fn forward_admitted(
        &mut self,
        request: Request<'_>,
        id: RouteId,
        kind: HandlerKind,
        query: Option<Box<str>>,
    ) -> Response {
        let route = self.route_at(id);
        self.cors = route.cors.as_deref();
        if self.responder.needs.rules
            && let HandlerKind::Script(step) = &kind
            && let Err(response) =
                on_heap(|| self.enforce(request, |exchange| exchange.check_path(&step.script_name).map(drop)))
                    .await
        {
            return response;
        }
        // The route of a script may be another one than that of the path.
        if self.responder.needs.authorizers {
            if let Err(response) = self.verify_tokens(route).await {
                return response;
            }
            for authorizer in &route.authorizers {
                if let Err(response) = on_heap(|| self.call_authorizer(request, id, authorizer)).await {
                    return response;
                }
            }
        }
        let spelling = match self.raw.as_ref().is_some_and(|raw| raw.route == id) {
            true => Spelling::Raw,
            false => Spelling::Normalized,
        };
        if let HandlerKind::Application { name, path_info } = &kind
            && let Err(response) = self.check_application(route, name, path_info, query.as_deref())
        {
            return response;
        }
        // A script would send the fields that proxies have added back to the client (RFC 9110 §9.3.8).
        if self.head.method == Method::Trace {
            let page = on_heap(|| self.status(route, Status::METHOD_NOT_ALLOWED)).await;
            return page.with_replaced("Allow", ALLOW_OF_PROGRAMS);
        }
        if let Some(response) = self.withhold() {
            return response;
        }
        let (host, folder, max_body) = (self.host, self.folder_path(), route.max_body);
        let form = Form::Response;
        let handler = Handler { host, folder, route: id, kind, query, max_body, spelling, form };
        self.max_body = route.max_body;
        let response = match route.cache() {
            Some(settings) => on_heap(|| self.forward_through_cache(request, handler, settings)).await,
            None => self.forward_to(request, &handler).await,
        };
        match self.is_part_of_page(route, &response) {
            true => on_heap(|| self.forward_for_whole(request)).await,
            false => response,
        }
    }

    /// Whether an application may have the request, with these SCRIPT_NAME and PATH_INFO. Errors: the response.
    fn check_application(
        &self,
        route: &Route,
        name: &str,
        path_info: &str,
        query: Option<&str>,
    ) -> Result<(), Response> {
        self.check_forwarded()?;
        if goes_in_a_circle(self.head) {
            return Err(fixed::rejection(
                self.services,
                Some(route),
                Status::LOOP_DETECTED,
                Some(PROXY_LOOP),
            ));
        }
        // A rewrite may have put a path together.
        if query.is_some() && has_dots_with_parameters(&[name, path_info].concat()) {
            return Err(self.reject_path(PathError::DotSegment));
        }
        if is_overlong(name) || is_overlong(path_info) {
            return Err(self.reject_path(PathError::Overlong));
        }
        match Forwards::of(self.head) {
            Forwards::None => Err(fixed::options(self.services, Some(route), ALLOW_OF_PROGRAMS)),
            _ => Ok(()),
        }
    }

    /// `Some`: nothing may be run or changed for this request. The response stands for one that is not known.
    pub(super) fn withhold(&self) -> Option<Response> {
        self.responder.withheld.as_ref()?.set(true);
        Some(fixed::status(self.services, None, Status::SERVICE_UNAVAILABLE))
    }

    /// The response of the upstream.
    pub(super) async fn forward_to(&mut self, request: Request<'_>, handler: &Handler) -> Response {
        match self.may_mean_template(self.route_at(handler.route)) {
            true => on_heap(|| self.forward_without_conditions(request, handler)).await,
            false => self.forward_as_it_is(request, handler).await,
        }
    }

    pub(super) async fn forward_as_it_is(&mut self, request: Request<'_>, handler: &Handler) -> Response {
        // An application that has the request is at work already.
        if self.sent.is_none() && self.services.sheds_cold() {
            let route = self.route_at(handler.route);
            return on_heap(|| self.status(route, Status::SERVICE_UNAVAILABLE)).await;
        }
        let body = std::mem::replace(&mut self.body, RequestBody::None);
        let sent = self.sent.take();
        if let Some(sent) = &sent {
            self.upstream = Some(Rc::new(sent.upstream_log()));
        }
        let log = self.upstream.get_or_insert_default().clone();
        let upstreams = &self.responder.upstreams;
        let variables = &self.grants.variables;
        let forwarded = ForwardedRequest { request, handler, variables, body, log: &log, sent };
        let outcome = upstream::forward(upstreams, forwarded).await;
        self.on_outcome(request, handler, outcome).await
    }

    pub(super) async fn on_outcome(
        &mut self,
        request: Request<'_>,
        handler: &Handler,
        outcome: Outcome,
    ) -> Response {
        let route = self.route_at(handler.route);
        match outcome {
            Outcome::Response(response) => self.processed(route, response),
            Outcome::Sendfile(file) => {
                let response = on_heap(|| self.sendfile(route, &file)).await;
                self.processed(route, response)
            }
            Outcome::InternalRedirect(target) => {
                on_heap(|| self.redirect_internally(request, handler, &target)).await
            }
            Outcome::Rejected((status, rule)) => on_heap(|| self.reject(route, status, Some(rule))).await,
            Outcome::Failed(status) => on_heap(|| self.status(route, status)).await,
            Outcome::Suspended(left) => on_heap(|| self.unavailable(route, left)).await,
            Outcome::Authorized(..) | Outcome::Unrendered(..) => {
                on_heap(|| self.status(route, Status::BAD_GATEWAY)).await
            }
        }
    }

    /// The upstream has no requests for a time, or the host is in maintenance.
    pub(super) async fn unavailable(&self, route: &Route, left: Duration) -> Response {
        let page = self.status(route, Status::SERVICE_UNAVAILABLE).await;
        page.with_replaced("Retry-After", &in_seconds(left).max(1).to_string())
    }

    /// The response of a script or an upstream, with its directives carried out, and compressed.
    pub(super) fn processed(&self, route: &Route, response: Response) -> Response {
        let response = match route.files.includes.cover_responses() {
            true => self.assemble_response(route, response),
            false => response,
        };
        compress::of_upstream(self.services, &route.files.compress, self.head, response)
    }

    /// The client and its request, in front of a line of the error log.
    pub(super) fn label(&self) -> String {
        label(self.original.unwrap_or(self.head), self.client)
    }

    /// Responds as if the request were a GET of `target` (RFC 3875 §6.2.2).
    async fn redirect_internally(
        &mut self,
        request: Request<'_>,
        handler: &Handler,
        target: &str,
    ) -> Response {
        let (label, script, shown) = (self.label(), handler.name(), target.escape_default());
        let route = self.route_at(handler.route);
        if self.internal_redirects == MAX_INTERNAL_REDIRECTS {
            log::error(format_args!(
                "{label}: {script}: too many internal redirects ({MAX_INTERNAL_REDIRECTS}), last to {shown}"
            ));
            return self.status(route, Status::BAD_GATEWAY).await;
        }
        let bytes = redirected_head(self.head, target);
        let mut store = Box::new(FieldStore::new());
        let Ok(Some((head, _))) = parse(&bytes, &mut store, &self.services.site.limits.head) else {
            log::error(format_args!(
                "{label}: {script}: {shown} is not a path that an internal redirect can lead to"
            ));
            return self.status(route, Status::BAD_GATEWAY).await;
        };
        // The authority and the scheme may come from fields of a trusted proxy, and the request by another version.
        let Head { authority, scheme, version, .. } = *self.head;
        let head = Head { authority, scheme, version, ..head };
        // They decide by the path: a permission for one is none for another.
        if !self.grants.authorized_by.is_empty() {
            self.grants.authorized_by.clear();
        }
        self.go_on_as(Request { head: &head, ..request }).await
    }

    /// Responds to another request in place of this one. What has let this one pass counts for it.
    pub(super) async fn go_on_as(&mut self, request: Request<'_>) -> Response {
        let mut exchange = Exchange {
            internal_redirects: self.internal_redirects + 1,
            grants: std::mem::take(&mut self.grants),
            original: Some(self.original.unwrap_or(self.head)),
            upstream: self.upstream.take(),
            inclusion: self.inclusion.clone(),
            ..Exchange::new(self.responder, self.host, request.head, self.client, self.way)
        };
        let response = on_heap(|| exchange.respond(request)).await;
        // The CORS rules of the route that has responded count.
        let response =
            if exchange.names_origin() { exchange.share(exchange.cors, response) } else { response };
        (self.grants, self.cors, self.upstream) = (exchange.grants, None, exchange.upstream);
        response
    }
}

/// The head of a request for `target`, with the fields of `head` that do not describe its body.
fn redirected_head(head: &Head<'_>, target: &str) -> Vec<u8> {
    let method = if head.method == Method::Head { "HEAD" } else { "GET" };
    let version = if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut bytes = format!("{method} {target} {version}\r\n").into_bytes();
    for field in head.fields {
        if !BODY_FIELDS.iter().any(|name| is_name(field.name, name)) {
            for part in [field.name, b": ", field.value, b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
