//! The way to an upstream through the cache: a stored response is sent, validated, refreshed in the background, or
//! requested and stored. It follows all checks of access, so that a stored response is for those who would get it from
//! the upstream.

mod fetch;
mod next_hop;
mod purge;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::cache::directives::RequestDirectives;
use ::cache::fields::only;
use ::cache::key::{Key, Mapping, Parts};
use ::cache::policy::{Policy, Use, Why};
use ::cache::request::{self, ClientIdentity};
use ::cache::settings::{Report, Settings};
use ::cache::status::{CacheStatus, Forwarded, Kept};
use ::cache::stored::Stored;
use ::cache::update;
use ::cache::{Field as StoredField, invalidation};
use site::log_line::StepKind;
use site::model::Route;
use site::plan::{Plan, PlannedAction};
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::date;
use taipan_http::head::{Method, Names, OwnedHead};
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme, normalized};

use self::fetch::{Fetch, Fetched, Refresh, Unconfirmed, Unstored, may_serve_if_error, whole, with_more};
use self::next_hop::NextHop;
use super::tunnel::OtherServer;
use super::{Exchange, on_heap};
use crate::cache::{self, CachedResponse, Found, Leader, PartialResponse, Placement, Recording, Role};
use crate::clock;
use crate::content::{compress, fixed};
use crate::log::upstream::UpstreamLog;
use crate::request::owned::{as_get, with_fields};
use crate::request::{ConnectionInfo, Request};
use crate::response::{Body, BodyStream, RequestOrigin, Response};
use crate::response_head::HeadWriter;
use crate::stats::Count;
use crate::tasks::spawn_local;
use crate::upstream::{Content, Form, Handler, HandlerKind, Outcome, Unrendered};

/// What a stored response leads to.
enum CacheLookup {
    Respond(Rc<CachedResponse>, CacheStatus),
    /// It is sent, and a newer one is requested.
    Refresh(Rc<CachedResponse>),
    /// The request is forwarded, perhaps to validate what is stored.
    Forward(Option<Rc<CachedResponse>>, Forwarded),
    GatewayTimeout,
}

/// What is requested to complete a response.
struct Rest {
    parts: Rc<PartialResponse>,
    /// The value of `Range`.
    range: String,
}

/// What is stored by one key.
struct Resource<'a> {
    /// `None`: a URL of another server.
    route: Option<&'a Route>,
    settings: Arc<Settings>,
    /// The text of its key.
    text: String,
}

/// What responds to a request that no stored response answers.
#[derive(Clone, Copy)]
struct Origin<'o> {
    mapping: Mapping,
    /// The name of the upstream.
    upstream: &'o str,
}

/// Of a URL: no upstream has this name.
const OF_URLS: Origin<'static> = Origin { mapping: Mapping::NONE, upstream: "/" };

impl Origin<'_> {
    fn is_of_urls(self) -> bool {
        self.upstream == OF_URLS.upstream
    }
}

impl<'a> Exchange<'a> {
    /// A stored response for the fast path. `None`: there is none, or it cannot be sent without more.
    pub(super) fn stored_fast(&self, plan: &Plan<'a, '_>) -> Option<Response> {
        let PlannedAction::Upstream(planned) = &plan.action else { return None };
        let route = self.route_at(planned.route);
        let settings = route.cache()?;
        let began = self.services.access.sends_spans().then(clock::micros);
        let is_checked = route.authorizers.is_empty()
            && route.jwt.is_none()
            && plan.walk.is_none()
            && !route.passes_raw_paths()
            && !route.files.includes.cover_responses();
        if !is_checked || !request::is_eligible(self.head) {
            return None;
        }
        let upstream = &self.services.site.upstreams.get(planned.upstream)?.name;
        let origin = Origin { mapping: route.mapping, upstream };
        let cache = &self.responder.cache;
        let found = cache.find_written(|text| self.write_key(settings, origin, text), self.head.fields);
        let Found::Entry(entry) = found else { return None };
        let (directives, identity) = (request::directives(self.head), ClientIdentity::of(self.head));
        let (status, count) = match entry.policy.decide(&directives, identity, settings, self.now) {
            Use::Fresh => (CacheStatus::Hit, Count::ResponseHits),
            Use::Stale => (CacheStatus::Stale, Count::ResponsesStale),
            Use::WhileRevalidating | Use::Validate(_) | Use::GatewayTimeout | Use::Bypass => return None,
        };
        self.services.counts.add(count, 1);
        let response =
            self.of_stored(Some(route), &entry, status, |text| self.write_key(settings, origin, text));
        Some(match began {
            Some(began) => self.traced_lookup(began, response),
            None => response,
        })
    }

    /// The response that a lookup since `began` of `clock::micros` has found.
    fn traced_lookup(&self, began: u64, response: Response) -> Response {
        let trace = self.services.access.tracer.as_ref().map(|tracer| tracer.begin(self.head));
        let spans = self.services.access.sends_spans_of(trace);
        let upstream = spans.map(|ids| {
            let log = Rc::new(UpstreamLog::of_trace(Some(ids)));
            log.note_lookup(began);
            log
        });
        let origin = RequestOrigin { upstream, trace, ..RequestOrigin::default() };
        Response { origin: Some(Box::new(origin)), ..response }
    }

    /// A stored response, or a compressed copy of it. Without a copy, it is compressed while it is sent, and a copy is
    /// made. `write_key` appends its key.
    #[inline]
    fn of_stored(
        &self,
        route: Option<&Route>,
        entry: &Rc<CachedResponse>,
        status: CacheStatus,
        write_key: impl FnOnce(&mut Vec<u8>),
    ) -> Response {
        let response = entry.respond(self.services, route, self.head, status);
        let Some(route) = route else { return response };
        let rules = &route.files.compress;
        // A page is assembled for each request.
        if !rules.scripts || route.files.includes.cover_responses() {
            return self.processed(route, response);
        }
        if response.status() != entry.stored.status {
            return self.without_whole(route, &entry.stored, Some(entry.body.length()), response);
        }
        let Some(coding) = compress::wanted(rules, self.head, &response) else {
            return self.processed(route, response);
        };
        if let Some(copy) = entry.copies.get(coding) {
            return copy.respond(self.services, Some(route), self.head, status);
        }
        let mut text = Vec::new();
        write_key(&mut text);
        if let Ok(text) = std::str::from_utf8(&text) {
            self.responder.cache.make_copy(text, entry, coding, rules.kept);
        }
        self.processed(route, response)
    }

    /// A 304, or a part, of a stored response whose body has `size` bytes, if that is known.
    #[cold]
    fn without_whole(
        &self,
        route: &Route,
        stored: &Stored,
        size: Option<u64>,
        response: Response,
    ) -> Response {
        let rules = &route.files.compress;
        let fields = stored.fields.iter().map(|field| (&*field.name, &*field.value));
        match rules.scripts && compress::may_gain(rules, fields, size) {
            true => compress::without_whole(self.head, response),
            false => response,
        }
    }

    /// Appends the text of the key of the request.
    fn write_key(&self, settings: &Settings, origin: Origin<'_>, out: &mut Vec<u8>) {
        let (path, query) = (self.head.target.path().unwrap_or("/"), self.head.target.query());
        self.write_key_of(settings, origin, (path, query), out);
    }

    fn write_key_of(
        &self,
        settings: &Settings,
        origin: Origin<'_>,
        (raw_path, query): (&str, Option<&str>),
        out: &mut Vec<u8>,
    ) {
        let authority = self.head.authority;
        let path = match origin.is_of_urls() {
            // Another server reads the path as it was sent.
            true => Cow::Borrowed(raw_path),
            false => normalized(raw_path),
        };
        let (scheme, Origin { mapping, upstream }) = (self.scheme_of(origin), origin);
        Parts { scheme, authority, raw_path, path: &path, query, mapping, upstream }.write(settings, out);
    }

    /// The scheme of the URL of the request: `http` for one that is forwarded, also where the client itself uses TLS.
    fn scheme_of(&self, origin: Origin<'_>) -> Scheme {
        if origin.is_of_urls() { Scheme::Http } else { self.head.scheme }
    }

    pub(super) async fn forward_through_cache(
        &mut self,
        request: Request<'_>,
        handler: Handler,
        settings: &Arc<Settings>,
    ) -> Response {
        let route = self.route_at(handler.route);
        let upstream = self.upstream_of(&handler);
        let origin = Origin { mapping: route.mapping, upstream: &upstream };
        let resource = self.resource(Some(route), settings, origin);
        if self.head.token == "PURGE"
            && let Some(clients) = &route.purgers
        {
            return self.purge(&resource, clients, origin).await;
        }
        if !request::is_eligible(self.head) {
            return self.forward_past_cache(request, NextHop::Upstream(&handler), &resource, origin).await;
        }
        let handler = Handler { form: Form::Unrendered, ..handler };
        self.respond_from_cache(request, NextHop::Upstream(&handler), resource).await
    }

    /// As `forward_through_cache`, for a URL of another server.
    pub(super) async fn forward_url_through_cache(
        &mut self,
        request: Request<'_>,
        server: &OtherServer,
        settings: &Arc<Settings>,
    ) -> Response {
        let resource = self.resource(None, settings, OF_URLS);
        let to = NextHop::Server(server);
        match request::is_eligible(self.head) {
            true => self.respond_from_cache(request, to, resource).await,
            false => self.forward_past_cache(request, to, &resource, OF_URLS).await,
        }
    }

    /// The resource of the request.
    fn resource(
        &self,
        route: Option<&'a Route>,
        settings: &Arc<Settings>,
        origin: Origin<'_>,
    ) -> Resource<'a> {
        let mut text = Vec::with_capacity(256);
        self.write_key(settings, origin, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        Resource { route, settings: settings.clone(), text }
    }

    async fn respond_from_cache(
        &mut self,
        request: Request<'_>,
        to: NextHop<'_>,
        resource: Resource<'a>,
    ) -> Response {
        let settings = resource.settings.clone();
        let directives = request::directives(self.head);
        let (mut leader, mut has_waited, mut may_wait) = (None, false, true);
        // If the other request is abandoned, one of those that wait takes its place. All waits together have an end.
        let end = clock::micros().saturating_add(settings.wait.saturating_mul(1000));
        let lookup = self.upstream.as_ref().and_then(|log| log.begin_step(|| StepKind::Lookup));
        self.responder.cache.load(&resource.text, self.head.fields, &settings).await;
        if let Some(response) = self.of_parts(&resource, &directives) {
            return response;
        }
        loop {
            // The request may have waited for a disk, or for another request.
            self.services.clock.read();
            let (stale, why) = match self.look_up(&resource, &directives) {
                CacheLookup::Respond(entry, status) => return self.of_entry(&resource, &entry, status),
                CacheLookup::Refresh(entry) => {
                    self.refresh(request, to, &resource, &entry);
                    return self.of_entry(&resource, &entry, CacheStatus::Stale);
                }
                CacheLookup::GatewayTimeout => {
                    self.services.counts.add(Count::ResponseMisses, 1);
                    let response = self.status_of(&resource, Status::GATEWAY_TIMEOUT).await;
                    return reported(&settings, CacheStatus::OnlyIfCached, response);
                }
                CacheLookup::Forward(stale, why) => (stale, why),
            };
            // What answers a request for a part is of no use to others.
            let is_part = stale.is_none() && self.head.names.contains(Names::RANGE);
            if self.head.method == Method::Get && why != Forwarded::Bypass && !is_part && may_wait {
                match self.responder.cache.join(&resource.text, settings.waiting) {
                    Role::Leader(own) => leader = Some(own),
                    Role::Follower(follower) => {
                        self.services.counts.add(Count::ResponsesAwaited, (!has_waited).into());
                        has_waited = true;
                        let left = Duration::from_micros(end.saturating_sub(clock::micros()));
                        may_wait = follower.wait(left).await;
                        continue;
                    }
                    Role::Alone => {}
                }
            }
            drop(lookup);
            let response = self.fetch(request, to, resource, stale, why, leader).await;
            if !is_stored(&response) {
                self.services.counts.add(Count::ResponseMisses, 1);
            }
            return match response.cache {
                Some(_) => response,
                None => reported(&settings, CacheStatus::Forwarded(why), response),
            };
        }
    }

    /// The name of what would answer, which is the same after a restart.
    fn upstream_of(&self, handler: &Handler) -> Cow<'a, str> {
        let upstream = handler.upstream(self.services).and_then(|id| self.services.site.upstreams.get(id));
        match (upstream, &handler.kind) {
            (Some(upstream), HandlerKind::Application { .. }) => Cow::Borrowed(&*upstream.name),
            (Some(upstream), _) => format!("{}:{}", upstream.name, handler.name()).into(),
            (None, _) => format!("cgi:{}", handler.name()).into(),
        }
    }

    /// The response to a request for a range, if no whole response is stored, and the parts that are have all of it.
    fn of_parts(&self, resource: &Resource<'_>, directives: &RequestDirectives) -> Option<Response> {
        if !self.head.names.contains(Names::RANGE) {
            return None;
        }
        let cache = &self.responder.cache;
        if matches!(cache.find(&resource.text, self.head.fields), Found::Entry(_)) {
            return None;
        }
        let parts = cache.find_parts(&resource.text, self.head.fields)?;
        let now = self.services.clock.now();
        match parts.policy.decide(directives, self.identity(), &resource.settings, now) {
            Use::Fresh => {}
            Use::WhileRevalidating | Use::Stale | Use::Validate(_) | Use::GatewayTimeout | Use::Bypass => {
                return None;
            }
        }
        let response = parts.respond(self.services, resource.route, self.head, CacheStatus::Hit)?;
        self.services.counts.add(Count::ResponseHits, 1);
        Some(self.by_route(resource, response))
    }

    fn of_entry(&self, resource: &Resource<'_>, entry: &Rc<CachedResponse>, status: CacheStatus) -> Response {
        let count = match status {
            CacheStatus::Hit => Some(Count::ResponseHits),
            CacheStatus::Stale | CacheStatus::StaleIfError => Some(Count::ResponsesStale),
            CacheStatus::Revalidated => Some(Count::ResponsesRevalidated),
            // It is counted once, behind all requests to the upstream.
            CacheStatus::Forwarded(_) | CacheStatus::OnlyIfCached => None,
        };
        if let Some(count) = count {
            self.services.counts.add(count, 1);
        }
        self.of_stored(resource.route, entry, status, |text| text.extend_from_slice(resource.text.as_bytes()))
    }

    fn identity(&self) -> ClientIdentity {
        let own = ClientIdentity::of(self.head);
        ClientIdentity { credentials: own.credentials || self.is_known(), ..own }
    }

    /// Whether something other than the fields of the request says who the client is.
    pub(super) fn is_known(&self) -> bool {
        let has_certificate = self.tls().is_some_and(|tls| tls.client.is_some());
        self.grants.variables.iter().next().is_some() || !self.grants.passed.is_empty() || has_certificate
    }

    fn look_up(&self, resource: &Resource<'_>, directives: &RequestDirectives) -> CacheLookup {
        let found = self.responder.cache.find(&resource.text, self.head.fields);
        let forward = |entry, why| match directives.only_if_cached {
            true => CacheLookup::GatewayTimeout,
            false => CacheLookup::Forward(entry, why),
        };
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::OtherVariant => return forward(None, Forwarded::VaryMiss),
            Found::Nothing => return forward(None, Forwarded::UriMiss),
        };
        match entry.policy.decide(directives, self.identity(), &resource.settings, self.services.clock.now())
        {
            Use::Fresh => CacheLookup::Respond(entry, CacheStatus::Hit),
            Use::Stale => CacheLookup::Respond(entry, CacheStatus::Stale),
            Use::WhileRevalidating => CacheLookup::Refresh(entry),
            Use::GatewayTimeout => CacheLookup::GatewayTimeout,
            Use::Validate(Why::Stale) => CacheLookup::Forward(Some(entry), Forwarded::Stale),
            Use::Validate(Why::Request) => CacheLookup::Forward(Some(entry), Forwarded::Request),
            Use::Bypass => forward(None, Forwarded::Bypass),
        }
    }

    /// Forwards a request that no stored response answers, and invalidates what it has changed.
    async fn forward_past_cache(
        &mut self,
        request: Request<'_>,
        to: NextHop<'_>,
        resource: &Resource<'_>,
        origin: Origin<'_>,
    ) -> Response {
        let response = self.pass_on(request, to).await;
        if invalidation::invalidates(self.head.method, response.status()) {
            self.responder.cache.invalidate(&Key::new(resource.text.as_bytes()));
            self.invalidate_others(&response, resource, origin);
        }
        let why = if self.head.method.is_safe() { Forwarded::Bypass } else { Forwarded::Method };
        reported(&resource.settings, CacheStatus::Forwarded(why), response)
    }

    /// Invalidates what `Location` and `Content-Location` name (RFC 9111 §4.4).
    fn invalidate_others(&self, response: &Response, resource: &Resource<'_>, origin: Origin<'_>) {
        let fields: Vec<StoredField> = response
            .head
            .fields()
            .map(|(name, value)| StoredField { name: name.into(), value: value.into() })
            .collect();
        let authority = String::from_utf8_lossy(self.head.authority);
        let (scheme, path) = (self.scheme_of(origin), self.head.target.path().unwrap_or("/"));
        for target in invalidation::others(&fields, scheme, &authority, path) {
            let (raw_path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target.as_str(), None),
            };
            for mapping in self.mappings_of(raw_path, origin) {
                let mut text = Vec::new();
                let origin = Origin { mapping, ..origin };
                self.write_key_of(&resource.settings, origin, (raw_path, query), &mut text);
                self.responder.cache.invalidate(&Key::new(&text));
            }
        }
    }

    /// The mapping of the request, and that of the route of another path, if it is another one.
    fn mappings_of(&self, path: &str, origin: Origin<'_>) -> impl Iterator<Item = Mapping> + use<> {
        let of_path = match origin.is_of_urls() {
            true => None,
            false => SafePath::parse(path).ok().map(|path| self.route(&path).mapping),
        };
        [Some(origin.mapping), of_path.filter(|mapping| *mapping != origin.mapping)].into_iter().flatten()
    }

    /// Asks the upstream.
    async fn fetch(
        &mut self,
        request: Request<'_>,
        to: NextHop<'_>,
        resource: Resource<'a>,
        stale: Option<Rc<CachedResponse>>,
        why: Forwarded,
        leader: Option<Leader>,
    ) -> Response {
        if self.services.sheds_cold() {
            return self.on_upstream_failure(&resource, stale, Status::SERVICE_UNAVAILABLE).await;
        }
        let fetch = Fetch::new(self.responder, &resource, self.identity(), stale.clone(), leader);
        // A part of what is not stored is not worth the whole.
        let is_part = stale.is_none() && self.head.names.contains(Names::RANGE);
        let rest = if stale.is_none() && !is_part { self.rest(&resource) } else { None };
        let capability = capability(&resource.settings);
        let conditions = conditions(stale.as_deref(), rest.as_ref(), capability.as_deref());
        let fields = match is_part {
            true => with_more(self.head.fields, &conditions),
            false => whole(self.head.fields, &conditions),
        };
        let head = with_fields(self.head, &fields);
        let forwarded = Request { head: &head, ..request };
        let outcome = self.ask(forwarded, to).await;
        if !matches!(outcome, Outcome::Unrendered(..)) {
            fetch.settle();
        }
        let (response, cookie) = match outcome {
            Outcome::Unrendered(response, cookie) => (*response, cookie),
            Outcome::Failed(status) => return self.on_upstream_failure(&resource, stale, status).await,
            Outcome::Suspended(left) => {
                return match self.stale_if_error(&resource, stale) {
                    Some(response) => response,
                    None => self.on_suspended(&resource, left).await,
                };
            }
            outcome => return self.on_other_outcome(request, to, outcome).await,
        };
        let is_rest = matches!(response.status, Status::PARTIAL_CONTENT | Status::RANGE_NOT_SATISFIABLE);
        if rest.is_some() && is_rest {
            return match fetch.complete(self.services, self.head, response).await {
                Some(entry) => {
                    let response = self.of_entry(&resource, &entry, CacheStatus::Forwarded(why));
                    with_cookie(response, cookie)
                }
                // It is another one now. What was stored of it is of no use.
                None => {
                    self.responder.cache.remove_parts(&resource.text);
                    on_heap(|| self.fetch(request, to, resource, None, why, None)).await
                }
            };
        }
        match fetch.take(self.services, self.head, response) {
            Ok(fetched) => with_cookie(self.of_fetched(&resource, fetched, why), cookie),
            // Without the stale response, the request has no conditions. Its own response has the cookie.
            Err(Unconfirmed(leader)) => {
                on_heap(|| self.fetch(request, to, resource, None, why, leader)).await
            }
        }
    }

    /// What the client gets of the response of an upstream.
    fn of_fetched(&self, resource: &Resource<'_>, fetched: Fetched, why: Forwarded) -> Response {
        match fetched {
            Fetched::Confirmed(entry, unstored) => {
                let response = self.of_entry(resource, &entry, CacheStatus::Revalidated);
                with_unstored(response, &unstored)
            }
            Fetched::Entry(entry, unstored) => {
                let status = CacheStatus::Forwarded(why);
                let response = entry.respond(self.services, resource.route, self.head, status);
                let response = with_unstored(response, &unstored);
                match resource.route {
                    Some(route) if response.status() != entry.stored.status => {
                        self.without_whole(route, &entry.stored, Some(entry.body.length()), response)
                    }
                    _ => self.by_route(resource, response),
                }
            }
            Fetched::Stale(entry) => self.of_entry(resource, &entry, CacheStatus::StaleIfError),
            Fetched::Recording(parts, recording, length, unstored) => {
                let (stored, policy) = *parts;
                let response = self.of_recording(resource, stored, policy, recording, length, why);
                with_unstored(response, &unstored)
            }
            Fetched::Passed(response) => {
                let response = self.of_passed(resource, response, why);
                self.by_route(resource, response)
            }
        }
    }

    /// The upstream has not responded. A stale response is used, if it allows that.
    async fn on_upstream_failure(
        &self,
        resource: &Resource<'_>,
        stale: Option<Rc<CachedResponse>>,
        status: Status,
    ) -> Response {
        match self.stale_if_error(resource, stale) {
            Some(response) => response,
            None => self.status_of(resource, status).await,
        }
    }

    /// The response while the circuit breaker of the upstream is open, for `left` more.
    async fn on_suspended(&self, resource: &Resource<'_>, left: Duration) -> Response {
        match resource.route {
            Some(route) => self.unavailable(route, left).await,
            None => self.status_of(resource, Status::SERVICE_UNAVAILABLE).await,
        }
    }

    /// A status, with the error page of the route, if there is one.
    async fn status_of(&self, resource: &Resource<'_>, status: Status) -> Response {
        match resource.route {
            Some(route) => self.status(route, status).await,
            None => fixed::status(self.services, None, status),
        }
    }

    /// The response as the route, if there is one, has it processed.
    fn by_route(&self, resource: &Resource<'_>, response: Response) -> Response {
        match resource.route {
            Some(route) => self.processed(route, response),
            None => response,
        }
    }

    fn stale_if_error(&self, resource: &Resource<'_>, stale: Option<Rc<CachedResponse>>) -> Option<Response> {
        let entry = stale.filter(|entry| may_serve_if_error(entry, self.services.clock.read()))?;
        Some(self.of_entry(resource, &entry, CacheStatus::StaleIfError))
    }

    /// What is missing of the response, if parts of it are stored and the rest is worth a request of its own.
    fn rest(&self, resource: &Resource<'_>) -> Option<Rest> {
        if self.head.method != Method::Get {
            return None;
        }
        let parts = self.responder.cache.find_parts(&resource.text, self.head.fields)?;
        let is_worthwhile = parts.etag().is_some()
            && parts.policy.is_for(self.identity())
            && parts.parts.size() <= resource.settings.largest;
        let missing = parts.parts.missing().filter(|_| is_worthwhile)?;
        let range = ::cache::parts::range(missing, parts.parts.size());
        Some(Rest { parts, range })
    }

    /// A response that is sent while it is stored.
    fn of_recording(
        &self,
        resource: &Resource<'_>,
        stored: Stored,
        policy: Policy,
        recording: Recording,
        length: Option<u64>,
        why: Forwarded,
    ) -> Response {
        let Resource { route, settings, .. } = resource;
        let status = CacheStatus::Forwarded(why);
        // What is asked of the whole can be answered before its content is there.
        let unsent = cache::StoredBody::Bytes(Rc::default());
        let entry = CachedResponse::new(stored, policy, settings.clone(), unsent, Placement::NOWHERE);
        if entry.is_unmodified_for(self.head, self.services.clock.now()) {
            let services = self.responder.services.clone();
            spawn_local(async move { recording.read_to_the_end(&services).await });
            let response = entry.not_modified(self.services, *route, status);
            return match route {
                Some(route) => self.without_whole(route, &entry.stored, length, response),
                None => response,
            };
        }
        let fields = entry.last_fields(status, self.services.clock.now());
        let writer = cache::writer(self.services, *route, &entry.stored);
        let writer = fields.iter().fold(writer, |writer, (name, value)| writer.field(name, value));
        let body: Box<dyn BodyStream> = Box::new(recording);
        let response = match length {
            Some(length) => {
                let head = writer.length(length).finish();
                Response { body: Body::Sized(body, length), ..Response::from_head(head) }
            }
            None => Response { body: Body::Stream(body), ..Response::from_head(writer.finish()) },
        };
        self.by_route(resource, Response { cache: Some(status), ..response })
    }

    /// A response that is not stored. The upstream has not seen the condition of the client.
    fn of_passed(&self, resource: &Resource<'_>, response: Unrendered, why: Forwarded) -> Response {
        let Unrendered { status, mut fields, content } = response;
        let (status, content) = match self.is_unmodified(status, &fields) {
            true => {
                fields.retain(|field| cache::is_of_not_modified(&field.name));
                self.discard(resource, content);
                (Status::NOT_MODIFIED, Content::None(None))
            }
            false => (status, content),
        };
        let mut writer = HeadWriter::new(self.services, resource.route, status);
        for StoredField { name, value } in
            fields.iter().filter(|field| !field.name.eq_ignore_ascii_case("date"))
        {
            writer = writer.field(name, value);
        }
        let forwarded = CacheStatus::Forwarded(why);
        if resource.settings.report == Report::On {
            writer = writer.field("Cache-Status", forwarded.field(None, Kept::No));
        }
        Response { cache: Some(forwarded), ..content.respond(writer) }
    }

    /// Whether the client has what the upstream has sent.
    fn is_unmodified(&self, status: Status, fields: &[StoredField]) -> bool {
        let now = self.services.clock.now();
        let modified = only(fields, "last-modified").and_then(|value| date::parse(value, now));
        let current = Validators { etag: only(fields, "etag"), modified };
        status == Status::OK && conditional::evaluate(self.head, Some(&current), now) == Verdict::NotModified
    }

    /// Reads content that no client gets, if it is not too much, so that its connection can have another request.
    fn discard(&self, resource: &Resource<'_>, content: Content) {
        let Content::Stream(stream, length) = content else { return };
        let services = self.responder.services.clone();
        let reserved = self.responder.cache.reserve(resource.settings.largest);
        let discarded = Recording::new(stream, length, reserved, drop, || {});
        spawn_local(async move { discarded.read_to_the_end(&services).await });
    }

    /// Asks for a newer response than `entry`, in the background. Does nothing if that is being done.
    fn refresh(
        &self,
        request: Request<'_>,
        to: NextHop<'_>,
        resource: &Resource<'a>,
        entry: &Rc<CachedResponse>,
    ) {
        let cache = &self.responder.cache;
        let Some(permit) = cache.refreshes.take() else { return };
        let Role::Leader(leader) = cache.join(&resource.text, 0) else { return };
        let identity = self.identity();
        let capability = capability(&resource.settings);
        let conditions = conditions(Some(entry), None, capability.as_deref());
        let refresh = Refresh {
            head: OwnedHead::from(&as_get(self.head, &whole(self.head.fields, &conditions))),
            connection: ConnectionInfo { tls: None, ..request.connection },
            to: to.to_owned(),
            variables: self.grants.variables.clone(),
            responder: self.responder.clone(),
            fetch: Fetch::new(self.responder, resource, identity, Some(entry.clone()), Some(leader)),
        };
        spawn_local(async move {
            refresh.run().await;
            drop(permit);
        });
    }
}

/// Tells an upstream that there is a cache which reads `Surrogate-Control`.
const CAPABILITY: &str = "Surrogate-Capability";

fn capability(settings: &Settings) -> Option<String> {
    (!settings.surrogate.is_empty()).then(|| format!("{}=\"Surrogate/1.0\"", settings.surrogate))
}

/// The fields that the cache adds to a request, to validate `stale` or to get `rest`.
fn conditions<'f>(
    stale: Option<&'f CachedResponse>,
    rest: Option<&'f Rest>,
    capability: Option<&'f str>,
) -> Vec<(&'static str, &'f [u8])> {
    let mut conditions = stale.map(|entry| update::conditions(&entry.stored)).unwrap_or_default();
    if let Some(Rest { parts, range }) = rest {
        conditions.push(("Range", range.as_bytes()));
        conditions.extend(parts.etag().map(|etag| ("If-Range", etag)));
    }
    conditions.extend(capability.map(|value| (CAPABILITY, value.as_bytes())));
    conditions
}

/// A response that is no stored one, with what the cache did.
fn reported(settings: &Settings, status: CacheStatus, response: Response) -> Response {
    let response = Response { cache: Some(status), ..response };
    match settings.report {
        Report::On => response.with_fields(&[("Cache-Status", &status.field(None, Kept::No))]),
        Report::Off => response,
    }
}

/// Whether a stored response was sent.
fn is_stored(response: &Response) -> bool {
    match response.cache {
        Some(
            CacheStatus::Hit | CacheStatus::Stale | CacheStatus::StaleIfError | CacheStatus::Revalidated,
        ) => true,
        Some(CacheStatus::Forwarded(_) | CacheStatus::OnlyIfCached) | None => false,
    }
}

/// With the cookie that leads the client to the endpoint that has responded.
fn with_cookie(response: Response, cookie: Option<String>) -> Response {
    match cookie {
        Some(cookie) => response.with_fields(&[("Set-Cookie", &cookie)]),
        None => response,
    }
}

/// With the fields that are for this client alone.
fn with_unstored(response: Response, unstored: &Unstored) -> Response {
    let fields: Vec<(&str, &str)> = unstored.iter().map(|(name, value)| (&**name, &**value)).collect();
    response.with_fields(&fields)
}
