//! An exchange: one request and its response. The steps are: find the host, plan the path, look the file up, decide,
//! make the response. `explain` shows the result of each.
//!
//! There are two ways. `fast` responds to what needs neither waiting nor a body. `respond` responds to everything: it
//! awaits lookups, authorizers, scripts and applications.
//!
//! Does not know by which protocol the request came.

mod access;
mod acts;
mod authentication;
mod authorizer;
mod caching;
mod connection_check;
mod cors;
mod digest;
mod error_page;
mod fallback;
mod fast;
mod finish;
mod folder;
mod folder_listing;
mod folder_passwords;
mod forward;
mod grants;
mod limit;
mod login_attempts;
mod logins;
mod monitor;
mod other_server;
mod pages;
mod panic_guard;
mod publishing;
mod raw_path;
mod recording;
mod remembered;
mod responder;
mod sendfile;
mod token;
mod token_checks;
mod tunnel;
mod walk;

use std::pin::Pin;
use std::rc::Rc;

use site::certificates::key_authorization;
use site::cors::Cors;
use site::decide::{self, Decision};
use site::forwarding::RawReading;
use site::model::{Host, Listing, Route};
use site::monitor::Monitor;
use site::plan::{Cause, FallbackPlan, FilesPlan, Plan, PlannedAction, RedirectPlan, plan};
use site::route::RouteId;
use taipan_http::head::{Head, Method, Names};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::{PathError, SafePath};

use self::access::Rejected;
pub use self::authorizer::authorizers;
use self::fallback::unserved;
use self::fast::Stop;
pub use self::fast::{Sending, Unfinished};
pub use self::finish::error_response;
use self::finish::omit_content_for_head;
use self::grants::Grants;
use self::pages::Inclusion;
use self::panic_guard::PanicGuard;
pub use self::responder::Responder;
use crate::clock;
use crate::content::{compress, copies, delta, file, fixed, image_map, listing};
use crate::destination::DestinationId;
use crate::files::folders::Folder;
use crate::files::{DiskLookup, Entry, HostKey, Probe};
use crate::log::access::LoggedRequest;
use crate::log::upstream::UpstreamLog;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::{ConnectionInfo, Request};
use crate::response::Response;
use crate::services::Services;
use crate::stats::Count;
use crate::upstream::HandlerKind;
use crate::upstream::immediate::SentRequest;

struct Exchange<'a> {
    responder: &'a Rc<Responder>,
    services: &'a Services,
    host: usize,
    /// Whose files are served.
    key: HostKey,
    /// The folder of the host's name, or of a user, while it is in use.
    folder: Option<Rc<Folder>>,
    head: &'a Head<'a>,
    client: Peer,
    way: Way<'a>,
    /// The page that includes the response. `None`: it is for the client.
    inclusion: Option<Inclusion>,
    now: i64,
    /// `None` once an upstream reads it.
    body: RequestBody,
    /// Bytes of a body that is discarded. A larger one is rejected.
    max_body: u64,
    grants: Grants,
    /// Of the route that responds, or of that of the path while that is not known.
    cors: Option<&'a Cors>,
    /// The route of the script that has the request, the first of several. `None`: there is none.
    script: Option<RouteId>,
    internal_redirects: usize,
    /// Of an internal redirect: the head that the client has sent. `None`: `head` is that.
    original: Option<&'a Head<'a>>,
    /// The applications that the request was sent to, apart from authorizers.
    upstream: Option<Rc<UpstreamLog>>,
    /// `None`: no upstream gets the path as it was sent.
    raw: Option<Box<RawReading<'a>>>,
    /// `None`: the request has not been sent to an application.
    sent: Option<SentRequest>,
}

/// How the response is made, and what is known of the connection there.
#[derive(Clone, Copy)]
enum Way<'a> {
    Fast(DestinationId, Sending<'a>),
    Driver(ConnectionInfo<'a>),
}

/// What a plan results in.
enum Resolution<'a> {
    /// A user has to authenticate for what would be served.
    Rejected(Rejected<'a>),
    Response(Response),
    /// A status, with the error page of the route.
    Status(&'a Route, Status),
    /// There is nothing to serve. The fallback of the route responds, or else the server with this status.
    Absent(&'a Route, Status),
    /// A folder to list.
    List(Box<listing::Query>),
    /// How the server does.
    Monitor(&'a Route, Monitor),
    /// A page to assemble.
    Assemble(Rc<Entry>),
    /// A script or an application responds.
    Forward(RouteId, Box<HandlerKind>),
}

impl Responder {
    /// The response to a request without a body, which began at `began` of `clock::micros`. The request has its log
    /// line even if this panics. `sending`: whether the request may be sent to an application.
    #[inline]
    pub fn fast(
        self: &Rc<Self>,
        head: &Head<'_>,
        client: Peer,
        destination: DestinationId,
        began: u64,
        sending: Sending<'_>,
    ) -> Result<Response, Unfinished> {
        let request = self.services.logged_request(Some(head), client, destination, began);
        let mut exchange = Exchange::new(self, request.host, head, client, Way::Fast(destination, sending));
        let guard = PanicGuard { services: &self.services, request };
        let mut response = exchange.fast();
        if exchange.names_origin() {
            response = response.map(|response| exchange.share(exchange.cors_of_path(), response));
        }
        std::mem::forget(guard);
        Ok(omit_content_for_head(head.method, response?))
    }

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
        let trace = if leaves { None } else { self.trace(request.head, sent.as_ref()) };
        let context = trace.map(|trace| trace.fields(request.head));
        let fields = context.as_ref().map(|context| context.in_place(request.head.fields));
        let traced = fields.as_deref().map(|fields| request.head.with_fields(fields));
        let head = traced.as_ref().unwrap_or(request.head);
        let ConnectionInfo { client, group, tls, .. } = request.connection;
        let host = self.services.site.hosts.find_in(group, head.authority);
        let without_client = self.without_foreign_client(host, tls);
        let connection = ConnectionInfo { tls: without_client.as_ref().or(tls), ..request.connection };
        let request = Request { head, connection, ..request };
        let way = Way::Driver(connection);
        let spans = self.services.access.sends_spans_of(trace);
        let upstream = spans.map(|ids| Rc::new(UpstreamLog::of_trace(Some(ids))));
        let mut exchange = Exchange { body, sent, upstream, ..Exchange::new(self, host, head, client, way) };
        let _running = self.services.access.recent.run(&LoggedRequest {
            client,
            connection: connection.id,
            head: Some(head),
            host,
            destination: DestinationId::default(),
            time: self.services.clock.now(),
            began: clock::micros(),
            tls: None,
        });
        if !leaves && exchange.names_origin() {
            exchange.cors = exchange.cors_of_path();
        }
        let watched = exchange.begin_watch(connection.tls);
        let admitted = match self.limits {
            // Limits are for paths of this server.
            Some(limits) if !leaves => Box::pin(exchange.admit(limits)).await,
            _ => Ok(None),
        };
        let response = match admitted {
            Ok(_) if leaves => on_heap(|| exchange.forward_to_other_server(request)).await,
            Ok(throttle) => exchange.respond(request).await.throttled(throttle),
            Err(response) => response,
        };
        let response = exchange.discard_body(response).await;
        let response = exchange.with_origin(response, trace, watched);
        omit_content_for_head(exchange.head.method, exchange.with_own_fields(response))
    }
}

/// A future that is made in the frame of this function, and no other: the frames of nested redirects have to fit a
/// stack.
#[inline(never)]
fn on_heap<F: Future>(future: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(future())
}

impl<'a> Exchange<'a> {
    #[inline]
    fn new(
        responder: &'a Rc<Responder>,
        host: usize,
        head: &'a Head<'a>,
        client: Peer,
        way: Way<'a>,
    ) -> Exchange<'a> {
        let services = &*responder.services;
        Exchange {
            responder,
            services,
            host,
            key: host.into(),
            folder: None,
            head,
            client,
            way,
            inclusion: None,
            now: services.clock.now(),
            body: RequestBody::None,
            max_body: services.site.limits.body,
            grants: Grants::default(),
            cors: None,
            script: None,
            internal_redirects: 0,
            original: None,
            upstream: None,
            raw: None,
            sent: None,
        }
    }

    #[inline]
    fn fast(&mut self) -> Result<Response, Unfinished> {
        if self.responder.is_for_another_server(self.head, self.client) {
            return Err(Unfinished::Waits);
        }
        let path = match self.path() {
            Ok(path) => path,
            Err(_) if self.asks_for_tunnel() => return Err(Unfinished::Waits),
            Err(response) => return Ok(response),
        };
        match self.responder.limits {
            None => self.fast_at(&path, None),
            Some(limits) => self.fast_within_limits(limits, &path),
        }
    }

    /// As `fast`, for a path that the limits admit. `route`: its route, if it has been found.
    #[inline]
    fn fast_at(&mut self, path: &SafePath<'_>, route: Option<RouteId>) -> Result<Response, Unfinished> {
        if let Err(stop) = self.check_fast(path, route) {
            return stop.result();
        }
        let cached = match self.is_get_or_head() {
            true => self.responder.files.get(self.key, path.as_str(), self.now),
            false => None,
        };
        let resolution = match &cached {
            Some(entry) => Ok(self.serve(path, entry, None)),
            None => self.resolve_fast(path, self.plan(path.clone()), None),
        };
        let response = match resolution {
            Ok(Resolution::Response(response)) => Ok(response),
            Ok(Resolution::Absent(route, status)) => self.fall_back_fast(path, route, status),
            Ok(resolution) => self.finish_fast(resolution),
            Err(stop) => Err(stop),
        };
        // The driver counts a request that is left to it.
        if cached.is_some() && response.is_ok() {
            self.services.counts.add(Count::CacheHits, 1);
        }
        response.or_else(Stop::result)
    }

    async fn respond(&mut self, request: Request<'_>) -> Response {
        let path = match self.path() {
            Ok(path) => path,
            Err(_) if self.asks_for_tunnel() => return on_heap(|| self.open_tunnel()).await,
            Err(response) => return response,
        };
        if self.services.sheds_everything() {
            return fixed::status(self.services, None, Status::SERVICE_UNAVAILABLE);
        }
        if self.responder.rejects.get() {
            if let Some((route, time)) = self.maintenance(&path) {
                return on_heap(|| self.unavailable(route, time)).await;
            }
            if let Some(response) = self.rejected_by_connection(&path) {
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
                Resolution::Rejected(rejected) => match on_heap(|| self.satisfy(request, rejected)).await {
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
    async fn authorize(
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

    /// Carries out a plan that has no script. Errors: a lookup that has to wait for the disk.
    fn resolve_action(
        &self,
        path: &SafePath<'_>,
        route: &'a Route,
        action: PlannedAction<'a, '_>,
        fallback: Option<&str>,
    ) -> Result<Resolution<'a>, Box<DiskLookup>> {
        Ok(match action {
            PlannedAction::Upstream(planned) => {
                let (name, path_info) = planned.script_name_and_path_info();
                Resolution::Forward(planned.route, Box::new(HandlerKind::Application { name, path_info }))
            }
            PlannedAction::Redirect(redirect) => Resolution::Response(self.redirect(route, &redirect)),
            PlannedAction::Status(status, Cause::NoScript) => Resolution::Absent(route, status),
            PlannedAction::Status(status, _) => Resolution::Status(route, status),
            PlannedAction::Monitor(Monitor::Acts) if self.head.method == Method::Post => {
                Resolution::Monitor(route, Monitor::Acts)
            }
            PlannedAction::Monitor(monitor) => {
                self.other_method(route).unwrap_or(Resolution::Monitor(route, monitor))
            }
            PlannedAction::Publish(text) => self.other_method(route).unwrap_or_else(|| {
                let cache_control = self.services.cache_control(self.host, path, text.content_type());
                Resolution::Response(fixed::published(self.services, route, text, cache_control))
            }),
            PlannedAction::Files(planned) => match self.other_method(route) {
                Some(resolution) => resolution,
                None => match self.probe(path, &planned) {
                    Probe::Hit(entry) => self.serve(path, &entry, fallback),
                    Probe::Failed(status) => Resolution::Status(route, status),
                    Probe::WouldWait(lookup) => return Err(lookup),
                },
            },
        })
    }

    /// The response of what takes only GET and HEAD to another method.
    fn other_method(&self, route: &'a Route) -> Option<Resolution<'a>> {
        match (decide::reject_method(self.head.method), self.head.method) {
            (Some(status), _) => Some(Resolution::Status(route, status)),
            (None, Method::Options) => {
                Some(Resolution::Response(fixed::options(self.services, Some(route), route.allow())))
            }
            (None, _) => None,
        }
    }

    /// Responds to GET or HEAD with what is at `path`.
    #[inline]
    fn serve(&self, path: &SafePath<'_>, entry: &Rc<Entry>, fallback: Option<&str>) -> Resolution<'a> {
        let services = self.services;
        let entry = entry.select(self.head);
        let listing = match entry.folder_stamp() {
            Some(_) => self.route(path).files.listing,
            None => Listing::Off,
        };
        let decision = decide::decide(self.head, path, &entry.resource, listing, self.now);
        if (self.responder.needs.rules || self.responder.needs.authorizers)
            && let Err(rejected) = self.check_served(path, entry, &decision)
        {
            return Resolution::Rejected(rejected);
        }
        if entry.deltas.is_some()
            && let Decision::Full(_) | Decision::Make(..) = decision
            && let Some(delta) = delta::find(&self.responder.files, self.key, path, entry, self.head)
        {
            return Resolution::Response(file::full(services, &delta, 0));
        }
        Resolution::Response(match decision {
            Decision::Full(chosen) => {
                if chosen > 0 && self.head.method == Method::Get {
                    services.counts.add(Count::SavedStored, entry.saved(chosen));
                }
                file::full(services, entry, chosen)
            }
            Decision::Make(coding, meanwhile) => {
                copies::make(&self.responder.files, self.key, path, entry, coding);
                match meanwhile {
                    Some(chosen) => file::full(services, entry, chosen),
                    None => self.compressed(entry, coding),
                }
            }
            Decision::Stream(coding) => self.compressed(entry, coding),
            Decision::NotModified(selected) => {
                file::not_modified(services, self.route(path), entry, selected)
            }
            Decision::Part(chosen, range) => file::part(services, self.route(path), entry, chosen, range),
            Decision::Parts(chosen, ranges) => {
                file::parts(services, self.route(path), entry, chosen, &ranges)
            }
            Decision::Unsatisfiable(chosen) => {
                fixed::unsatisfiable(services, Some(self.route(path)), entry.size(chosen))
            }
            Decision::Click(map) => {
                let query = self.head.target.query();
                let response = image_map::response(services, self.route(path), path, &map, query);
                // The page of a redirect is not in the language of the map.
                let vary = entry.selected_fields().into_iter().filter(|(name, _)| *name == "Vary");
                response.with_fields(&vary.collect::<Vec<_>>())
            }
            Decision::RedirectToFolder => return self.redirect_to_folder(path, fallback),
            Decision::Assemble => return Resolution::Assemble(entry.clone()),
            Decision::List(preconditions) => return self.resolve_listing(path, entry, preconditions),
            Decision::Absent(status) => {
                return Resolution::Absent(self.route(path), status);
            }
            Decision::Reject(status) => return Resolution::Status(self.route(path), status),
        })
    }

    /// The file of an entry, compressed while it is sent.
    fn compressed(&self, entry: &Entry, coding: Coding) -> Response {
        let plain = file::full(self.services, entry, 0);
        compress::encoded(self.services, self.head.method, plain, coding)
    }

    /// What is at `path`. Errors: the status of the response.
    async fn find(&self, path: &SafePath<'_>, planned: &FilesPlan<'_, '_>) -> Result<Rc<Entry>, Status> {
        match self.probe(path, planned) {
            Probe::Hit(entry) => Ok(entry),
            Probe::Failed(status) => Err(status),
            Probe::WouldWait(lookup) => self.wait(*lookup).await,
        }
    }

    /// What is at `path`, if the cache has it or the kernel has it in memory.
    fn probe(&self, path: &SafePath<'_>, planned: &FilesPlan<'_, '_>) -> Probe {
        if let Some(entry) = self.responder.files.get(self.key, path.as_str(), self.now) {
            self.services.counts.add(Count::CacheHits, 1);
            return Probe::Hit(entry);
        }
        let found = self.responder.files.probe(self.key, path, planned, self.now);
        if !matches!(found, Probe::WouldWait(_)) {
            self.services.counts.add(Count::CacheMisses, 1);
        }
        found
    }

    async fn wait(&self, lookup: DiskLookup) -> Result<Rc<Entry>, Status> {
        let found = lookup.find().await;
        self.services.counts.add(Count::CacheMisses, 1);
        found
    }

    /// The path of the request. Errors: the response to a request without a path, or with one that is not safe.
    #[inline]
    fn path(&self) -> Result<SafePath<'a>, Response> {
        let Some(path) = self.head.target.path() else {
            return Err(match self.head.method {
                // `OPTIONS *`.
                Method::Options => fixed::options(self.services, None, decide::ALLOW),
                // CONNECT is for proxies.
                _ => fixed::status(self.services, None, Status::METHOD_NOT_ALLOWED),
            });
        };
        if let Some(thumbprint) = &self.services.site.certificates.thumbprint
            && let Some(answer) = key_authorization(path, thumbprint)
            && self.services.site.answers_challenges(self.host, self.head.authority)
        {
            return Err(fixed::text(self.services, &answer));
        }
        if self.is_too_early() {
            return Err(fixed::status(self.services, None, Status::TOO_EARLY));
        }
        match SafePath::parse(path) {
            Err(PathError::EncodedSlash) if self.responder.needs.raw_paths => self.raw_path(path),
            path => path.map_err(|error| self.reject_path(error)),
        }
    }

    /// Whether the request may be a repeated one that changes something (RFC 8470 §5.2). What another protocol does is
    /// not known.
    #[inline]
    fn is_too_early(&self) -> bool {
        self.head.is_early && (!self.head.is_safe() || self.head.names.contains(Names::UPGRADE))
    }

    fn is_get_or_head(&self) -> bool {
        matches!(self.head.method, Method::Get | Method::Head)
    }

    fn plan<'p>(&self, path: SafePath<'p>) -> Plan<'a, 'p> {
        plan(self.host(), path, self.head.target.query())
    }

    fn redirect(&self, route: &Route, redirect: &RedirectPlan<'_, '_>) -> Response {
        let Head { target, authority, scheme, .. } = *self.head;
        let location = redirect.location(target.query(), authority, scheme);
        fixed::redirect(self.services, Some(route), redirect.status, &location)
    }

    fn host(&self) -> &'a Host {
        self.services.site.hosts.at(self.host)
    }

    /// The route of a path, after rewrites.
    fn route(&self, path: &SafePath<'_>) -> &'a Route {
        self.services.route(self.host, path)
    }

    fn route_at(&self, id: RouteId) -> &'a Route {
        self.host().routes.get(id)
    }
}
