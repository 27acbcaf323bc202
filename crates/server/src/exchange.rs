//! An exchange: one request, and the way to its response. Host, plan, lookup, decision, response: five steps,
//! each of which can be asked alone (`explain` does).
//!
//! There are two ways. `fast` answers at once what needs neither waiting nor a body. `respond` answers
//! everything, and awaits lookups, authorizers, scripts and applications itself.
//!
//! Does not know which protocol the request came by.

mod sendfile;

use std::rc::Rc;

use ::script::environment::Additions;
use site::decide::{self, Decision, decide};
use site::listing::{Format, SortOrder};
use site::model::{Host, Route};
use site::plan::{
    Cause, FallbackPlan, FallbackVariables, FilesPlan, Plan, PlannedAction, RedirectPlan, UpstreamPlan, plan,
    plan_fallback,
};
use site::route::RouteId;
use site::upstream::UpstreamId;
use site::walk::Verdict;
use taipan_http::conditional;
use taipan_http::fields::is_name;
use taipan_http::head::{FieldStore, Head, Method, parse};
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::content::{file, fixed, listing};
use crate::files::roots::{OpenRoots, Roots};
use crate::files::{self, DiskLookup, Entry, Files, Lookup, script};
use crate::log;
use crate::request::Request;
use crate::request::body::{Discard, RequestBody};
use crate::response::Response;
use crate::services::Services;
use crate::stats::Count;
use crate::upstream::concurrency::ConcurrencyLimit;
use crate::upstream::{self, Handler, HandlerKind, Outcome, Upstreams};

/// How often scripts may redirect one request internally (RFC 3875 leaves the number to the server).
const MAX_INTERNAL_REDIRECTS: usize = 10;

/// What it takes to answer a request.
pub struct Responder {
    pub services: Rc<Services>,
    pub files: Rc<Files>,
    pub upstreams: Upstreams,
    /// Has any route an authorizer?
    pub authorizes: bool,
}

impl Responder {
    /// For a site whose scripts and applications are not asked.
    pub fn without_upstreams(services: Rc<Services>, roots: OpenRoots) -> Responder {
        let files = Files::new(services.clone(), roots);
        let (concurrency, authorizes) =
            (ConcurrencyLimit::new(&services.site), services.site.has_authorizers());
        let upstreams =
            Upstreams { services: services.clone(), concurrency, spawner: None, pools: Vec::new() };
        Responder { services, files, upstreams, authorizes }
    }

    /// The response to a request without a body, if it can be had without waiting.
    #[inline]
    pub fn fast(&self, host: usize, head: &Head<'_>) -> Option<Response> {
        let exchange = Exchange::new(self, host, head);
        match exchange.path() {
            Ok(path) => exchange.fast(path),
            Err(response) => Some(response),
        }
    }

    /// Answers a request. A body that nothing takes is read to its end, unless the client waits to be asked for
    /// it.
    pub async fn respond(&self, request: Request<'_>, body: RequestBody) -> Response {
        let host = self.services.site.hosts.find(request.head.authority);
        let mut exchange = Exchange { body, ..Exchange::new(self, host, request.head) };
        let response = exchange.respond(request).await;
        // Where the method alone is likely to be refused, the response comes before the body.
        let is_refused = response.status().is_error() && !exchange.reads_first();
        let how_far = if is_refused { Discard::Received } else { Discard::ToTheEnd };
        match exchange.body.discard(exchange.max_body, how_far).await {
            Ok(()) => response,
            Err((status, rule)) => {
                exchange.finish(fixed::rejection(&self.services, None, status, Some(rule)))
            }
        }
    }

    /// As `respond`, as if every authorizer had let the request pass.
    pub async fn respond_without_authorizers(&self, request: Request<'_>) -> Response {
        let host = self.services.site.hosts.find(request.head.authority);
        let guard = Guard::Skipped;
        Exchange { guard, ..Exchange::new(self, host, request.head) }.respond(request).await
    }
}

/// The authorizers that are asked for a path: those of its route, and those of `planned`, the route that its plan
/// leads to.
pub fn authorizers(
    services: &Services,
    host: usize,
    path: &SafePath<'_>,
    planned: &Route,
) -> Vec<(RouteId, UpstreamId)> {
    let routes = &services.site.hosts.at(host).routes;
    let at = routes.find(path);
    let mut all: Vec<(RouteId, UpstreamId)> = Vec::new();
    for &id in routes.get(at).authorizers.iter().chain(&planned.authorizers) {
        if !all.contains(&(at, id)) {
            all.push((at, id));
        }
    }
    all
}

/// The response to a request that could not be read, with the rule that it breaks.
pub fn error_response(
    services: &Services,
    method: Method,
    status: Status,
    rule: Option<&'static Rule>,
) -> Response {
    for_method(method, fixed::rejection(services, None, status, rule))
}

struct Exchange<'a> {
    responder: &'a Responder,
    services: &'a Services,
    host: usize,
    head: &'a Head<'a>,
    now: i64,
    /// Until something takes it.
    body: RequestBody,
    /// Bytes of the body that are read where nothing takes it.
    max_body: u64,
    /// Authorizers that have let the request pass, and the variables that they have set.
    passed: Vec<UpstreamId>,
    variables: Additions,
    guard: Guard,
    redirects: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Asked,
    Skipped,
}

/// There is no file under the path.
struct Absent<'a> {
    route: &'a Route,
    /// The status that says so.
    status: Status,
    /// The fallback, where it is planned already.
    fallback: Option<Box<FallbackPlan<'a>>>,
}

impl<'a> Absent<'a> {
    fn new(route: &'a Route, status: Status) -> Absent<'a> {
        Absent { route, status, fallback: None }
    }
}

/// What an entry does not answer by itself.
enum Rest<'a> {
    Absent(Absent<'a>),
    /// The folder is to be listed.
    List(conditional::Verdict),
    /// A status, with the page of the route.
    Status(&'a Route, Status),
}

impl<'a> Exchange<'a> {
    #[inline]
    fn new(responder: &'a Responder, host: usize, head: &'a Head<'a>) -> Exchange<'a> {
        let services = &*responder.services;
        let (max_body, now) = (services.site.limits.body, services.clock.now());
        let (passed, variables) = (Vec::new(), Additions::default());
        Exchange {
            responder,
            services,
            host,
            head,
            now,
            body: RequestBody::None,
            max_body,
            passed,
            variables,
            guard: Guard::Asked,
            redirects: 0,
        }
    }

    /// The path that is asked for. Errors: the response where there is none that can be.
    #[inline]
    fn path(&self) -> Result<SafePath<'a>, Response> {
        let Some(path) = self.head.target.path() else { return Err(self.of_the_server()) };
        SafePath::parse(path).map_err(|error| {
            self.finish(fixed::rejection(self.services, None, error.status(), Some(error.rule())))
        })
    }

    /// Is a body that nothing takes read before the request is answered?
    fn reads_first(&self) -> bool {
        matches!(self.head.method, Method::Get | Method::Head | Method::Options)
    }

    /// `None`: something has to be waited for.
    #[inline]
    fn fast(&self, path: SafePath<'_>) -> Option<Response> {
        let services = self.services;
        if services.sheds_everything() {
            return Some(self.finish(fixed::status(services, None, Status::SERVICE_UNAVAILABLE)));
        }
        if self.responder.authorizes && !self.authorizers(&path, self.route(&path)).is_empty() {
            return None;
        }
        if self.is_of_files()
            && let Some(entry) = self.responder.files.get(self.host, path.as_str(), self.now)
        {
            services.counts.add(Count::CacheHits, 1);
            return self.of_entry_at_once(&path, &entry, None);
        }
        self.follow_at_once(&path, self.plan(path.clone()), None)
    }

    /// As `follow`, if it can be done without waiting.
    fn follow_at_once(
        &self,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&FallbackVariables>,
    ) -> Option<Response> {
        let Plan { route, walk: None, action } = plan else { return None };
        match action {
            PlannedAction::Upstream(_) => None,
            PlannedAction::Redirect(redirect) => Some(self.redirect(route, &redirect)),
            PlannedAction::Status(status, Cause::NoScript) => {
                self.absent_at_once(path, Absent::new(route, status), fallback)
            }
            PlannedAction::Status(status, _) => self.status_at_once(route, status),
            // The fallback may be a script or an application.
            PlannedAction::Files(_)
                if fallback.is_none() && !self.is_of_files() && route.fallback.is_some() =>
            {
                None
            }
            PlannedAction::Files(planned) => match self.without_content(route) {
                Some(Ok(response)) => Some(response),
                Some(Err(status)) => self.status_at_once(route, status),
                None => match self.probe(path, &planned) {
                    Lookup::Hit(entry) => self.of_entry_at_once(path, &entry, fallback),
                    Lookup::Failed(status) => self.status_at_once(route, status),
                    Lookup::WouldWait(_) => None,
                },
            },
        }
    }

    /// What the fallback answers where nothing stands under `path`, or else the status.
    fn absent_at_once(
        &self,
        path: &SafePath<'_>,
        Absent { route, status, .. }: Absent<'a>,
        fallback: Option<&FallbackVariables>,
    ) -> Option<Response> {
        if fallback.is_some() {
            return self.status_at_once(route, Status::NOT_FOUND);
        }
        let Some(FallbackPlan { path, plan, variables }) = self.fallback(path, route) else {
            return self.status_at_once(route, status);
        };
        if self.responder.authorizes && !self.authorizers(&path, plan.route).is_empty() {
            return None;
        }
        self.follow_at_once(&path, plan, Some(&variables))
    }

    async fn respond(&mut self, request: Request<'_>) -> Response {
        let services = self.services;
        let path = match self.path() {
            Ok(path) => path,
            Err(response) => return response,
        };
        if services.sheds_everything() {
            return self.finish(fixed::status(services, None, Status::SERVICE_UNAVAILABLE));
        }
        let plan = self.plan(path.clone());
        self.max_body = plan.route.max_body;
        if let Err(response) = self.pass(request, &path, plan.route).await {
            return response;
        }
        let absent = match self.follow(request, &path, plan, None).await {
            Ok(response) => return response,
            Err(absent) => absent,
        };
        let fallback = match absent.fallback {
            Some(fallback) => Some(*fallback),
            None => self.fallback(&path, absent.route),
        };
        let Some(FallbackPlan { path, plan, variables }) = fallback else {
            return self.status(absent.route, absent.status).await;
        };
        if let Err(response) = self.pass(request, &path, plan.route).await {
            return response;
        }
        match self.follow(request, &path, plan, Some(&variables)).await {
            Ok(response) => response,
            Err(absent) => self.status(absent.route, Status::NOT_FOUND).await,
        }
    }

    fn authorizers(&self, path: &SafePath<'_>, planned: &Route) -> Vec<(RouteId, UpstreamId)> {
        authorizers(self.services, self.host, path, planned)
    }

    /// Asks the authorizers of a path. Errors: the response to a request that may not pass.
    async fn pass(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        planned: &Route,
    ) -> Result<(), Response> {
        if self.responder.authorizes {
            for (at, id) in self.authorizers(path, planned) {
                self.authorize(request, at, id).await?;
            }
        }
        Ok(())
    }

    /// Does what the plan for `path` says. `fallback`: the variables of a fallback, if the plan is one.
    async fn follow(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&FallbackVariables>,
    ) -> Result<Response, Absent<'a>> {
        let Plan { route, walk, action } = plan;
        if let Some(walk) = walk {
            match script::find(&self.responder.files, &walk, self.now).await {
                Ok(Verdict::Run(at)) => {
                    let step = &walk.steps[at];
                    let fallback_step = fallback.map(|variables| step.with_path_info(&variables.path_info));
                    let what = HandlerKind::Script(fallback_step.unwrap_or_else(|| step.clone()));
                    return Ok(self.run(request, step.route, what, fallback).await);
                }
                Ok(Verdict::Denied(at)) => {
                    let route = self.route_at(walk.steps[at].route);
                    return Ok(self.status(route, Status::FORBIDDEN).await);
                }
                Ok(Verdict::Folder) => return Err(Absent::new(route, Status::FORBIDDEN)),
                Ok(Verdict::RedirectToFolder) => return self.to_folder_of(path, fallback),
                Ok(Verdict::NoScript) => {}
                Err(status) => return Ok(self.status(route, status).await),
            }
        }
        Ok(match action {
            PlannedAction::Upstream(UpstreamPlan { route, script_name: name, path_info, .. }) => {
                self.run(request, route, HandlerKind::Application { name, path_info }, fallback).await
            }
            PlannedAction::Redirect(redirect) => self.redirect(route, &redirect),
            PlannedAction::Status(status, Cause::NoScript) => return Err(Absent::new(route, status)),
            PlannedAction::Status(status, _) => self.status(route, status).await,
            PlannedAction::Files(planned) => {
                // A script or an application takes methods that files do not take.
                if fallback.is_none()
                    && !self.is_of_files()
                    && let Some(next) = self.fallback(path, route).filter(|next| next.plan.may_run())
                {
                    let next = Box::new(next);
                    match self.find(path, &planned).await {
                        Ok(entry) => {
                            let listing = route.files.listing;
                            if let Some(status) = decide::absent(path, &entry.resource, listing) {
                                return Err(Absent { route, status, fallback: Some(next) });
                            }
                        }
                        Err(status) => return Ok(self.status(route, status).await),
                    }
                }
                match self.without_content(route) {
                    Some(Ok(response)) => response,
                    Some(Err(status)) => self.status(route, status).await,
                    None => match self.find(path, &planned).await {
                        Ok(entry) => return self.of_entry(path, &entry, fallback).await,
                        Err(status) => self.status(route, status).await,
                    },
                }
            }
        })
    }

    fn fallback(&self, path: &SafePath<'_>, route: &'a Route) -> Option<FallbackPlan<'a>> {
        plan_fallback(self.host(), route, path, self.head.target.query())
    }

    fn redirect(&self, route: &Route, redirect: &RedirectPlan<'_, '_>) -> Response {
        let Head { target, authority, scheme, .. } = *self.head;
        let location = redirect.location(target.query(), authority, scheme);
        self.finish(fixed::redirect(self.services, Some(route), redirect.status, &location))
    }

    /// A folder that was asked for without its slash. The client has not asked for that of a fallback.
    fn to_folder_of(
        &self,
        path: &SafePath<'_>,
        fallback: Option<&FallbackVariables>,
    ) -> Result<Response, Absent<'a>> {
        match fallback {
            None => Ok(self.finish(self.to_folder(path))),
            Some(_) => Err(Absent::new(self.route(path), Status::NOT_FOUND)),
        }
    }

    /// Has a script or an application answer.
    async fn run(
        &mut self,
        request: Request<'_>,
        at: RouteId,
        kind: HandlerKind,
        fallback: Option<&FallbackVariables>,
    ) -> Response {
        let route = self.route_at(at);
        // A part of the path may have a route of its own.
        for &id in &route.authorizers {
            if let Err(response) = self.authorize(request, at, id).await {
                return response;
            }
        }
        // A script would show the client what others have sent (RFC 9110 §9.3.8).
        if self.head.method == Method::Trace {
            return self.status(route, Status::METHOD_NOT_ALLOWED).await;
        }
        if self.services.sheds_cold() {
            return self.status(route, Status::SERVICE_UNAVAILABLE).await;
        }
        let query = fallback.and_then(|variables| variables.query.clone());
        let run = Handler { host: self.host, route: at, kind, query, max_body: route.max_body };
        self.max_body = route.max_body;
        let body = std::mem::replace(&mut self.body, RequestBody::None);
        let outcome =
            upstream::forward(&self.responder.upstreams, request, &run, &self.variables, body).await;
        self.of_outcome(request, &run, outcome).await
    }

    /// Asks an authorizer, once, whether the request may pass. Errors: the response to one that may not.
    async fn authorize(&mut self, request: Request<'_>, at: RouteId, id: UpstreamId) -> Result<(), Response> {
        if self.guard == Guard::Skipped || self.passed.contains(&id) {
            return Ok(());
        }
        // The body is for what answers then.
        let max_body = self.max_body;
        let kind = HandlerKind::Authorizer(id);
        let run = Handler { host: self.host, route: at, kind, query: None, max_body };
        match upstream::forward(&self.responder.upstreams, request, &run, &self.variables, RequestBody::None)
            .await
        {
            Outcome::Authorized(id, variables) => {
                self.passed.push(id);
                for (name, value) in variables {
                    // What cannot be set, or is already, is left out.
                    _ = self.variables.add(&name, &value);
                }
                Ok(())
            }
            outcome => Err(self.of_outcome(request, &run, outcome).await),
        }
    }

    /// What the head that a script has written leads to.
    async fn of_outcome(&mut self, request: Request<'_>, run: &Handler, outcome: Outcome) -> Response {
        let route = self.route_at(run.route);
        match outcome {
            Outcome::Response(response) => response,
            Outcome::Sendfile(file) => self.sendfile(route, &file).await,
            Outcome::InternalRedirect(target) => {
                Box::pin(self.redirect_internally(request, run, &target)).await
            }
            Outcome::Rejected((status, rule)) => self.refusal(route, status, Some(rule)).await,
            Outcome::Failed(status) => self.status(route, status).await,
            Outcome::Authorized(..) => self.status(route, Status::BAD_GATEWAY).await,
        }
    }

    /// Answers as if `target` had been asked for with GET, as a script wants (RFC 3875 §6.2.2).
    async fn redirect_internally(&mut self, request: Request<'_>, run: &Handler, target: &str) -> Response {
        let (path, shown) = (run.name(), target.escape_default());
        let route = self.route_at(run.route);
        if self.redirects == MAX_INTERNAL_REDIRECTS {
            log::error(format_args!(
                "{path}: too many internal redirects ({MAX_INTERNAL_REDIRECTS}), last to {shown}"
            ));
            return self.status(route, Status::BAD_GATEWAY).await;
        }
        let bytes = head_for(self.head, target);
        let mut store = Box::new(FieldStore::new());
        let Ok(Some((head, _))) = parse(&bytes, &mut store, &self.services.site.limits.head) else {
            log::error(format_args!("{path}: {shown} is not a path that an internal redirect can lead to"));
            return self.status(route, Status::BAD_GATEWAY).await;
        };
        // Another path of the same client's request.
        let head = Head { authority: self.head.authority, scheme: self.head.scheme, ..head };
        let mut exchange = Exchange::new(self.responder, self.host, &head);
        exchange.redirects = self.redirects + 1;
        exchange.passed = std::mem::take(&mut self.passed);
        exchange.variables = std::mem::take(&mut self.variables);
        exchange.respond(Request { head: &head, ..request }).await
    }

    /// `OPTIONS *`, and CONNECT, which is for proxies.
    fn of_the_server(&self) -> Response {
        self.finish(match self.head.method {
            Method::Options => fixed::options(self.services, None),
            _ => fixed::status(self.services, None, Status::METHOD_NOT_ALLOWED),
        })
    }

    /// What a request for a file gets that needs no look at it. Errors: a status.
    fn without_content(&self, route: &Route) -> Option<Result<Response, Status>> {
        match (decide::reject_method(self.head.method), self.head.method) {
            (Some(status), _) => Some(Err(status)),
            (None, Method::Options) => Some(Ok(fixed::options(self.services, Some(route)))),
            (None, _) => None,
        }
    }

    fn is_of_files(&self) -> bool {
        matches!(self.head.method, Method::Get | Method::Head)
    }

    fn plan<'p>(&self, path: SafePath<'p>) -> Plan<'a, 'p> {
        plan(self.host(), path)
    }

    /// What stands under `path`, as far as it is known or the kernel has it in memory.
    fn probe(&self, path: &SafePath<'_>, planned: &FilesPlan<'_, '_>) -> Lookup {
        if let Some(entry) = self.responder.files.get(self.host, path.as_str(), self.now) {
            return Lookup::Hit(entry);
        }
        let wanted = files::Wanted {
            root: planned.root,
            below: planned.below(),
            rules: planned.rules,
            index: &planned.index,
        };
        let found = self.responder.files.probe(self.host, path, &wanted, self.now);
        // One that waits for a disk is counted when it is found.
        let is_over = !matches!(found, Lookup::WouldWait(_));
        self.services.counts.add(Count::CacheMisses, u64::from(is_over));
        found
    }

    /// What stands under `path`. Errors: the status to answer with.
    async fn find(&self, path: &SafePath<'_>, planned: &FilesPlan<'_, '_>) -> Result<Rc<Entry>, Status> {
        match self.probe(path, planned) {
            Lookup::Hit(entry) => Ok(entry),
            Lookup::Failed(status) => Err(status),
            Lookup::WouldWait(lookup) => self.wait(lookup).await,
        }
    }

    async fn wait(&self, lookup: DiskLookup) -> Result<Rc<Entry>, Status> {
        let found = lookup.find().await;
        self.services.counts.add(Count::CacheMisses, 1);
        found
    }

    async fn of_entry(
        &self,
        path: &SafePath<'_>,
        entry: &Entry,
        fallback: Option<&FallbackVariables>,
    ) -> Result<Response, Absent<'a>> {
        Ok(match self.decide(path, entry, fallback) {
            Ok(response) => response,
            Err(Rest::Absent(absent)) => return Err(absent),
            Err(Rest::Status(route, status)) => self.status(route, status).await,
            Err(Rest::List(preconditions)) => match self.listing(path, entry, preconditions) {
                Ok(wanted) => match listing::kept(&self.responder.files, &wanted, self.now) {
                    Some(response) => self.finish(response),
                    None if self.services.sheds_cold() => {
                        self.status(self.route(path), Status::SERVICE_UNAVAILABLE).await
                    }
                    None => self.finish(listing::list(&self.responder.files, wanted).await),
                },
                Err((route, status)) => self.status(route, status).await,
            },
        })
    }

    #[inline]
    fn of_entry_at_once(
        &self,
        path: &SafePath<'_>,
        entry: &Entry,
        fallback: Option<&FallbackVariables>,
    ) -> Option<Response> {
        match self.decide(path, entry, fallback) {
            Ok(response) => Some(response),
            Err(Rest::Absent(absent)) => self.absent_at_once(path, absent, fallback),
            Err(Rest::Status(route, status)) => self.status_at_once(route, status),
            Err(Rest::List(preconditions)) => match self.listing(path, entry, preconditions) {
                Ok(wanted) => listing::kept(&self.responder.files, &wanted, self.now)
                    .map(|response| self.finish(response)),
                Err((route, status)) => self.status_at_once(route, status),
            },
        }
    }

    #[inline]
    fn decide(
        &self,
        path: &SafePath<'_>,
        entry: &Entry,
        fallback: Option<&FallbackVariables>,
    ) -> Result<Response, Rest<'a>> {
        let services = self.services;
        let listing = match entry.folder_stamp() {
            Some(_) => self.route(path).files.listing,
            None => site::model::Listing::Off,
        };
        Ok(self.finish(match decide(self.head, path, &entry.resource, listing, self.now) {
            Decision::Full(chosen) => file::full(services, entry, chosen),
            Decision::NotModified(chosen) => file::not_modified(services, self.route(path), entry, chosen),
            Decision::Part(chosen, part) => file::part(services, self.route(path), entry, chosen, part),
            Decision::Parts(chosen, parts) => file::parts(services, self.route(path), entry, chosen, &parts),
            Decision::Unsatisfiable(chosen) => {
                fixed::unsatisfiable(services, Some(self.route(path)), entry.size(chosen))
            }
            Decision::RedirectToFolder => return self.to_folder_of(path, fallback).map_err(Rest::Absent),
            Decision::Absent(status) => return Err(Rest::Absent(Absent::new(self.route(path), status))),
            Decision::List(preconditions) => return Err(Rest::List(preconditions)),
            Decision::Reject(status) => return Err(Rest::Status(self.route(path), status)),
        }))
    }

    fn route(&self, path: &SafePath<'_>) -> &'a Route {
        self.services.route(self.host, path)
    }

    fn host(&self) -> &'a Host {
        self.services.site.hosts.at(self.host)
    }

    fn route_at(&self, at: RouteId) -> &'a Route {
        self.host().routes.get(at)
    }

    /// 301 to the same path with a slash, which is relative, and keeps the query.
    fn to_folder(&self, path: &SafePath<'_>) -> Response {
        let mut location = String::from("/");
        taipan_http::target::encode_path(path.as_str(), &mut location);
        location.push('/');
        if let Some(query) = self.head.target.query() {
            location.push('?');
            location.push_str(query);
        }
        fixed::redirect(self.services, Some(self.route(path)), Status::MOVED_PERMANENTLY, &location)
    }

    /// Which listing is asked for. Errors: the status where there can be none.
    fn listing(
        &self,
        path: &SafePath<'_>,
        entry: &Entry,
        preconditions: conditional::Verdict,
    ) -> Result<listing::Wanted, (&'a Route, Status)> {
        let target = self.head.target;
        let plan = self.plan(path.clone());
        let route = plan.route;
        let (Some(planned), Some(folder)) = (plan.files(), entry.folder_stamp()) else {
            return Err((route, Status::NOT_FOUND));
        };
        let root = Roots::get(&self.responder.files, planned.root, self.now);
        Ok(listing::Wanted {
            host: self.host,
            path: path.clone().into_owned(),
            root: root.map_err(|status| (route, status))?,
            below: planned.below().into_owned(),
            folder,
            order: SortOrder::from_query(target.query()),
            format: Format::choose(target.query(), self.head.values("accept")),
            preconditions,
        })
    }

    /// A status, with the page that the route has for it, or else the built-in one.
    async fn status(&self, route: &Route, status: Status) -> Response {
        self.refusal(route, status, None).await
    }

    /// As `status`, with the rule that the request has broken.
    async fn refusal(&self, route: &Route, status: Status, rule: Option<&'static Rule>) -> Response {
        if let Some((page, planned)) = self.error_page(route, status)
            && let Ok(entry) = self.find(page, &planned).await
        {
            let response = of_page(self.services, route, status, &entry);
            return self.finish(Response { broken_rule: rule, ..response });
        }
        self.finish(fixed::rejection(self.services, Some(route), status, rule))
    }

    /// As `status`, unless the page has to be waited for.
    fn status_at_once(&self, route: &Route, status: Status) -> Option<Response> {
        let response = match self.error_page(route, status).map(|(page, planned)| self.probe(page, &planned))
        {
            Some(Lookup::Hit(entry)) => of_page(self.services, route, status, &entry),
            Some(Lookup::WouldWait(_)) => return None,
            Some(Lookup::Failed(_)) | None => fixed::status(self.services, Some(route), status),
        };
        Some(self.finish(response))
    }

    fn error_page<'r>(
        &self,
        route: &'r Route,
        status: Status,
    ) -> Option<(&'r SafePath<'static>, FilesPlan<'a, 'r>)> {
        let (_, page) = route.error_pages.iter().find(|(of, _)| *of == status)?;
        Some((page, self.plan(page.clone()).files()?))
    }

    fn finish(&self, response: Response) -> Response {
        for_method(self.head.method, response)
    }
}

fn of_page(services: &Services, route: &Route, status: Status, entry: &Entry) -> Response {
    match entry.plain() {
        Some(chosen) => file::error_page(services, route, status, entry, chosen),
        None => fixed::status(services, Some(route), status),
    }
}

/// The head of a request for another target, in place of `head`.
fn head_for(head: &Head<'_>, target: &str) -> Vec<u8> {
    let method = if head.method == Method::Head { "HEAD" } else { "GET" };
    let mut other = format!("{method} {target} {}\r\n", head.version.as_str()).into_bytes();
    for field in head.fields {
        let of_the_body = ["content-length", "content-type", "transfer-encoding", "expect"];
        if !of_the_body.iter().any(|name| is_name(field.name, name)) {
            for part in [field.name, b": ", field.value, b"\r\n"] {
                other.extend_from_slice(part);
            }
        }
    }
    other.extend_from_slice(b"\r\n");
    other
}

/// HEAD gets what GET would get, without the content (RFC 9110 §9.3.2).
#[inline]
fn for_method(method: Method, response: Response) -> Response {
    if method == Method::Head { response.without_body() } else { response }
}
