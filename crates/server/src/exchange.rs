//! An exchange: one request and its response. The steps are: find the host, plan the path, look the file up, decide,
//! make the response. `explain` shows the result of each.
//!
//! There are two ways. `fast` responds to what needs neither waiting nor a body. The `driver` responds to everything: it
//! awaits lookups, authorizers, scripts and applications. Below is what both share: the path, the plan, and how a file
//! becomes a response.
//!
//! Does not know by which protocol the request came.

mod responder;
// The two ways.
mod driver;
mod fast;

pub mod access;
mod acts;
mod answers;
mod attempts;
mod authentication;
mod authorizer;
mod caching;
mod cors;
mod digest;
mod error_page;
mod fallback;
mod folder;
mod folder_listing;
mod folder_passwords;
mod forward;
mod grants;
mod limit;
mod logins;
mod monitor;
mod other_server;
mod pages;
mod panic_guard;
mod publishing;
mod raw;
mod refusal;
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
use site::plan::{Cause, FilesPlan, Plan, PlannedAction, RedirectPlan, plan};
use site::route::RouteId;
use taipan_http::head::{Head, Method};
use taipan_http::negotiate::Coding;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::{PathError, SafePath};

use self::access::Refused;
pub use self::authorizer::authorizers;
pub use self::fast::{Sending, Unfinished};
use self::grants::Grants;
use self::pages::Inclusion;
pub use self::responder::Responder;
use crate::content::{compress, delta, file, fixed, image_map, kept, listing};
use crate::destination::DestinationId;
use crate::files::folders::Folder;
use crate::files::{DiskLookup, Entry, HostKey, Probe};
use crate::log::upstream::UpstreamLog;
use crate::peer::Peer;
use crate::request::ConnectionInfo;
use crate::request::body::RequestBody;
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
    /// Of the route that responds.
    cors: Option<&'a Cors>,
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
    Refused(Refused<'a>),
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

/// The response to a request whose head could not be read, with the rule that it breaks.
pub fn error_response(
    services: &Services,
    method: Method,
    status: Status,
    rule: Option<&'static Rule>,
) -> Response {
    omit_content_for_head(method, fixed::rejection(services, None, status, rule))
}

/// The response to HEAD is that to GET, without the content (RFC 9110 §9.3.2).
#[inline]
fn omit_content_for_head(method: Method, response: Response) -> Response {
    if method == Method::Head { response.without_body() } else { response }
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
            internal_redirects: 0,
            original: None,
            upstream: None,
            raw: None,
            sent: None,
        }
    }

    /// The path of the request. Errors: the response to a request without a path, or with one that is not safe.
    #[inline]
    fn path(&self) -> Result<SafePath<'a>, Response> {
        let Some(path) = self.head.target.path() else {
            return Err(match self.head.method {
                // `OPTIONS *`.
                Method::Options => fixed::options(self.services, None),
                // CONNECT is for proxies.
                _ => fixed::status(self.services, None, Status::METHOD_NOT_ALLOWED),
            });
        };
        if let Some(thumbprint) = &self.services.site.certificates.thumbprint
            && let Some(answer) = key_authorization(path, thumbprint)
        {
            return Err(fixed::text(self.services, &answer));
        }
        if self.head.is_early && !self.head.method.is_safe() {
            return Err(fixed::status(self.services, None, Status::TOO_EARLY));
        }
        match SafePath::parse(path) {
            Err(PathError::EncodedSlash) if self.responder.needs.raw_paths => self.raw_path(path),
            path => path.map_err(|error| self.reject_path(error)),
        }
    }

    fn plan<'p>(&self, path: SafePath<'p>) -> Plan<'a, 'p> {
        plan(self.host(), path, self.head.target.query())
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
            (None, Method::Options) => Some(Resolution::Response(fixed::options(self.services, Some(route)))),
            (None, _) => None,
        }
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
            && let Err(refused) = self.check_served(path, entry, &decision)
        {
            return Resolution::Refused(refused);
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
                kept::make(&self.responder.files, self.key, path, entry, coding);
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

    /// With the fields of authorizers and of limits.
    fn with_added(&self, response: Response) -> Response {
        if self.grants.added.is_empty() {
            return response;
        }
        let added: Vec<(&str, &str)> =
            self.grants.added.iter().map(|(name, value)| (&**name, &**value)).collect();
        response.with_fields(&added)
    }

    /// The user that authorizers have named.
    fn user(&self) -> Option<Rc<str>> {
        let user = self.grants.variables.get("REMOTE_USER").filter(|user| !user.is_empty())?;
        Some(String::from_utf8_lossy(user).into())
    }

    fn is_get_or_head(&self) -> bool {
        matches!(self.head.method, Method::Get | Method::Head)
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
