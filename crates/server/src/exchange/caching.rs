//! The way to an upstream through the cache: a stored response is sent, validated, refreshed in the background, or
//! requested and stored. It follows all checks of access, so that a stored response is for those who would get it from
//! the upstream.

mod fetch;
mod next_hop;
mod purge;
mod respond;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::cache::directives::RequestDirectives;
use ::cache::key::{Key, Mapping, Parts};
use ::cache::policy::{Use, Why};
use ::cache::request::{self, ClientIdentity};
use ::cache::settings::{Cookies, Settings};
use ::cache::status::{CacheStatus, Forwarded};
use ::cache::update;
use ::cache::{Field as StoredField, invalidation};
use site::log_line::StepKind;
use site::model::Route;
use site::plan::{Plan, PlannedAction};
use site::proxies::Via;
use taipan_http::fields::is_name;
use taipan_http::forwarded;
use taipan_http::head::{Field, Method, Names, OwnedHead};
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme, normalized};

use self::fetch::{Fetch, Refresh, Unconfirmed, whole, with_more};
use self::next_hop::{Forward, NextHop};
use self::respond::{is_stored, reported, with_cookie};
use super::other_server::OtherServer;
use super::{Exchange, on_heap};
use crate::cache::{CachedResponse, Found, Leader, PartialResponse, PendingKey, Role};
use crate::clock;
use crate::log::upstream::UpstreamLog;
use crate::request::{ConnectionInfo, Request};
use crate::response::{RequestOrigin, Response};
use crate::semaphore::Permit;
use crate::stats::Count;
use crate::tasks::spawn_local;
use crate::upstream::http_head::may_go_in_a_circle;
use crate::upstream::request::SURROGATE_CAPABILITY;
use crate::upstream::{Form, Handler, HandlerKind, Outcome};

/// What a stored response leads to.
enum CacheLookup {
    Respond(Rc<CachedResponse>, CacheStatus),
    /// It is sent, and a newer one is requested.
    Refresh(Rc<CachedResponse>),
    /// The request is forwarded, perhaps to validate what is stored.
    Forward(Option<Rc<CachedResponse>>, Forwarded),
    GatewayTimeout,
}

/// How a request waits for the responses to others.
struct Waiting {
    /// All waits together end then, by `clock::micros`.
    end: u64,
    is_counted: bool,
    may_go_on: bool,
    /// When the last wait began, in seconds since 1970.
    since: Option<i64>,
}

/// What a request without a usable stored response does next.
enum AfterMiss {
    /// It asks the upstream. The leader: others wait for the response.
    Fetch(Option<Leader>),
    /// The response may be stored by now.
    LookAgain,
}

/// What the upstream is asked for.
enum Wanted {
    /// Whether this is right still, or else what is.
    Newer(Rc<CachedResponse>),
    /// The part that the client wants: the whole may be far larger.
    Part,
    Rest(Rest),
    Whole,
}

/// What is missing of a response.
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
struct OriginServer<'o> {
    mapping: Mapping,
    /// The name of the upstream.
    upstream: &'o str,
}

/// Of a URL: no upstream has this name.
const OF_URLS: OriginServer<'static> = OriginServer { mapping: Mapping::NONE, upstream: "/" };

impl OriginServer<'_> {
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
            && route.jwts.is_empty()
            && plan.walk.is_none()
            && !route.passes_raw_paths()
            && !route.files.includes.cover_responses();
        if !is_checked || !request::is_eligible(self.head) {
            return None;
        }
        let upstream = &self.services.site.upstreams.get(planned.upstream)?.name;
        let origin = OriginServer { mapping: route.mapping, upstream };
        let cache = &self.responder.cache;
        let found = cache.find_written(|text| self.write_key(settings, origin, text), self.head.fields);
        let Found::Entry(entry) = found else { return None };
        let (directives, identity) =
            (request::directives(self.head), ClientIdentity::of(self.head, settings));
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

    /// Appends the text of the key of the request.
    fn write_key(&self, settings: &Settings, origin: OriginServer<'_>, out: &mut String) {
        let (path, query) = (self.head.target.path().unwrap_or("/"), self.head.target.query());
        self.write_key_of(self.scheme_of(origin), settings, origin, (path, query), out);
    }

    fn write_key_of(
        &self,
        scheme: Scheme,
        settings: &Settings,
        origin: OriginServer<'_>,
        (raw_path, query): (&str, Option<&str>),
        out: &mut String,
    ) {
        let authority = self.head.authority;
        let path = match origin.is_of_urls() {
            // Another server reads the path as it was sent.
            true => Cow::Borrowed(raw_path),
            false => normalized(raw_path),
        };
        let OriginServer { mapping, upstream } = origin;
        Parts { scheme, authority, raw_path, path: &path, query, mapping, upstream }.write(settings, out);
    }

    /// The scheme of the URL of the request: `http` for one that is forwarded, also where the client itself uses TLS.
    fn scheme_of(&self, origin: OriginServer<'_>) -> Scheme {
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
        let origin = OriginServer { mapping: route.mapping, upstream: &upstream };
        let resource = self.resource(Some(route), settings, origin);
        if self.head.token == "PURGE"
            && let Some(clients) = &route.purgers
        {
            return self.purge(&resource, clients, origin).await;
        }
        if !request::is_eligible(self.head) {
            let forward = Forward { request, to: NextHop::Upstream(&handler) };
            return self.forward_past_cache(forward, &resource, origin).await;
        }
        let handler = Handler { form: Form::Unrendered, ..handler };
        self.respond_from_cache(Forward { request, to: NextHop::Upstream(&handler) }, resource).await
    }

    /// As `forward_through_cache`, for a URL of another server.
    pub(super) async fn forward_url_through_cache(
        &mut self,
        request: Request<'_>,
        server: &OtherServer,
        settings: &Arc<Settings>,
    ) -> Response {
        let resource = self.resource(None, settings, OF_URLS);
        let forward = Forward { request, to: NextHop::Server(server) };
        // The other server may believe the client.
        let may_claim_url = || self.head.fields.iter().any(|field| forwarded::may_claim_url(field.name));
        match request::is_eligible(self.head) && !may_claim_url() {
            true => self.respond_from_cache(forward, resource).await,
            false => self.forward_past_cache(forward, &resource, OF_URLS).await,
        }
    }

    /// The resource of the request.
    fn resource(
        &self,
        route: Option<&'a Route>,
        settings: &Arc<Settings>,
        origin: OriginServer<'_>,
    ) -> Resource<'a> {
        let mut text = String::with_capacity(256);
        self.write_key(settings, origin, &mut text);
        Resource { route, settings: settings.clone(), text }
    }

    async fn respond_from_cache(&mut self, forward: Forward<'_>, resource: Resource<'a>) -> Response {
        let settings = resource.settings.clone();
        let directives = request::directives(self.head);
        let end = clock::micros().saturating_add(settings.wait.saturating_mul(1000));
        let may_go_on = !may_go_in_a_circle(self.head);
        let mut waiting = Waiting { end, is_counted: false, may_go_on, since: None };
        let lookup = self.upstream.as_ref().and_then(|log| log.begin_step(|| StepKind::Lookup));
        let (cache, fields) = (&self.responder.cache, self.head.fields);
        let mut loaded = cache.load(&resource.text, fields, &settings).await;
        if let Some(response) = self.of_parts(&resource, &directives) {
            return response;
        }
        loop {
            // The request may have waited for a disk, or for another request.
            self.services.clock.read();
            let (stale, why) = match self.look_up(&resource, &directives, loaded.take(), waiting.since) {
                CacheLookup::Respond(entry, status) => return self.of_entry(&resource, &entry, status),
                CacheLookup::Refresh(entry) => {
                    self.refresh(forward, &resource, &entry);
                    return self.of_entry(&resource, &entry, CacheStatus::Stale);
                }
                CacheLookup::GatewayTimeout => return self.gateway_timeout(&resource).await,
                CacheLookup::Forward(stale, why) => (stale, why),
            };
            // What answers a request for a part is of no use to others, nor is what is for one client.
            let is_part = stale.is_none() && self.head.names.contains(Names::RANGE);
            let is_for_others = !is_part && !request::is_for_one_client(self.head);
            let collapses = self.head.method == Method::Get && why != Forwarded::Bypass && is_for_others;
            let leader = match collapses && waiting.may_go_on {
                true => match self.join(forward, &resource, stale.as_ref(), &mut waiting).await {
                    AfterMiss::Fetch(leader) => leader,
                    AfterMiss::LookAgain => {
                        // Memory may be too small for what another request has stored.
                        loaded = cache.load(&resource.text, fields, &settings).await;
                        continue;
                    }
                },
                false => None,
            };
            drop(lookup);
            let response = self.fetch(forward, resource, stale, why, leader).await;
            if !is_stored(&response) {
                self.services.counts.add(Count::ResponseMisses, 1);
            }
            return match response.cache {
                Some(_) => response,
                None => reported(&settings, CacheStatus::Forwarded(why), response),
            };
        }
    }

    /// The response to a request that may have only what is stored (RFC 9111 §5.2.1.7).
    async fn gateway_timeout(&mut self, resource: &Resource<'_>) -> Response {
        self.services.counts.add(Count::ResponseMisses, 1);
        let response = self.status_of(resource, Status::GATEWAY_TIMEOUT).await;
        reported(&resource.settings, CacheStatus::OnlyIfCached, response)
    }

    /// Joins the requests for the same response, of which one asks the upstream. If that one is abandoned, one of those
    /// that wait takes its place.
    async fn join(
        &self,
        forward: Forward<'_>,
        resource: &Resource<'a>,
        stale: Option<&Rc<CachedResponse>>,
        waiting: &mut Waiting,
    ) -> AfterMiss {
        let cache = &self.responder.cache;
        match cache.join(self.pending_key(resource, stale), resource.settings.waiting) {
            Role::Leader(leader) => AfterMiss::Fetch(Some(leader)),
            Role::Substitute(leader) => match cache.refreshes.take() {
                // It waits for the response with the others.
                Some(permit) => {
                    self.fetch_in_background(forward, resource, stale.cloned(), leader, permit);
                    AfterMiss::LookAgain
                }
                None => AfterMiss::Fetch(Some(leader)),
            },
            Role::Follower(follower) => {
                self.services.counts.add(Count::ResponsesAwaited, (!waiting.is_counted).into());
                waiting.is_counted = true;
                waiting.since = Some(self.services.clock.now());
                let left = Duration::from_micros(waiting.end.saturating_sub(clock::micros()));
                waiting.may_go_on = follower.wait(left).await;
                AfterMiss::LookAgain
            }
            Role::Alone => AfterMiss::Fetch(None),
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

    fn identity(&self, settings: &Settings) -> ClientIdentity {
        let own = ClientIdentity::of(self.head, settings);
        ClientIdentity { credentials: own.credentials || self.is_known(), ..own }
    }

    /// What requests have in common that wait for one another.
    fn pending_key(&self, resource: &Resource<'_>, stale: Option<&Rc<CachedResponse>>) -> PendingKey {
        let identity = self.identity(&resource.settings);
        let cookies = identity.cookies && resource.settings.cookies != Cookies::Ignored;
        let variant = match stale {
            Some(entry) => entry.stored.variant.clone(),
            None => self.responder.cache.probable_variant(&resource.text, self.head.fields),
        };
        PendingKey::new(&resource.text, ClientIdentity { cookies, ..identity }, variant)
    }

    /// Whether something other than the fields of the request says who the client is.
    pub(super) fn is_known(&self) -> bool {
        let has_certificate = self.tls().is_some_and(|tls| tls.client.is_some());
        self.grants.variables.iter().next().is_some() || !self.grants.passed.is_empty() || has_certificate
    }

    /// `loaded`: what the files have. `waits_since`: when the request began to wait for others.
    fn look_up(
        &self,
        resource: &Resource<'_>,
        directives: &RequestDirectives,
        loaded: Option<Rc<CachedResponse>>,
        waits_since: Option<i64>,
    ) -> CacheLookup {
        let found = self.responder.cache.find(&resource.text, self.head.fields);
        let forward = |entry, why| match directives.only_if_cached {
            true => CacheLookup::GatewayTimeout,
            false => CacheLookup::Forward(entry, why),
        };
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::OtherVariant | Found::Nothing if let Some(loaded) = loaded => loaded,
            Found::OtherVariant => return forward(None, Forwarded::VaryMiss),
            Found::Nothing => return forward(None, Forwarded::UriMiss),
        };
        // What has come while the request waited for it answers it, if it was fresh then (RFC 9111 §4).
        let received = entry.stored.times.received;
        let now = match waits_since.is_some_and(|since| received >= since) {
            true => received,
            false => self.services.clock.now(),
        };
        match entry.policy.decide(directives, self.identity(&resource.settings), &resource.settings, now) {
            Use::Fresh => CacheLookup::Respond(entry, CacheStatus::Hit),
            Use::Stale => CacheLookup::Respond(entry, CacheStatus::Stale),
            Use::WhileRevalidating => CacheLookup::Refresh(entry),
            Use::GatewayTimeout => CacheLookup::GatewayTimeout,
            Use::Validate(Why::Stale) => CacheLookup::Forward(Some(entry), Forwarded::Stale),
            Use::Validate(Why::Request) => CacheLookup::Forward(Some(entry), Forwarded::Request),
            Use::Bypass => forward(None, Forwarded::Bypass),
        }
    }

    /// Forwards a request that no stored response answers, if it may be, and invalidates what it has changed.
    async fn forward_past_cache(
        &mut self,
        forward: Forward<'_>,
        resource: &Resource<'_>,
        origin: OriginServer<'_>,
    ) -> Response {
        let is_read = matches!(self.head.method, Method::Get | Method::Head);
        if is_read && request::directives(self.head).only_if_cached {
            return self.gateway_timeout(resource).await;
        }
        let response = self.pass_on(forward).await;
        if invalidation::invalidates(self.head, response.status()) {
            self.responder.cache.invalidate(&Key::new(&resource.text));
            self.invalidate_others(&response, resource, origin);
        }
        let why = if self.head.is_safe() { Forwarded::Bypass } else { Forwarded::Method };
        reported(&resource.settings, CacheStatus::Forwarded(why), response)
    }

    /// Invalidates what `Location` and `Content-Location` name (RFC 9111 §4.4).
    fn invalidate_others(&self, response: &Response, resource: &Resource<'_>, origin: OriginServer<'_>) {
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
                let mut text = String::new();
                let origin = OriginServer { mapping, ..origin };
                self.write_key_of(scheme, &resource.settings, origin, (raw_path, query), &mut text);
                self.responder.cache.invalidate(&Key::new(&text));
            }
        }
    }

    /// The mapping of the request, and that of the route of another path, if it is another one.
    fn mappings_of(&self, path: &str, origin: OriginServer<'_>) -> impl Iterator<Item = Mapping> + use<> {
        let of_path = match origin.is_of_urls() {
            true => None,
            false => SafePath::parse(path).ok().map(|path| self.route(&path).mapping),
        };
        [Some(origin.mapping), of_path.filter(|mapping| *mapping != origin.mapping)].into_iter().flatten()
    }

    /// Asks the upstream.
    async fn fetch(
        &mut self,
        forward: Forward<'_>,
        resource: Resource<'a>,
        stale: Option<Rc<CachedResponse>>,
        why: Forwarded,
        leader: Option<Leader>,
    ) -> Response {
        if self.services.sheds_cold() {
            return self.on_upstream_failure(&resource, stale, Status::SERVICE_UNAVAILABLE).await;
        }
        let wanted = self.wanted(&resource, stale.clone());
        let fetch =
            Fetch::new(self.responder, &resource, self.identity(&resource.settings), stale.clone(), leader);
        let outcome = self.ask_for(&wanted, forward, &resource.settings).await;
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
            outcome => return self.on_other_outcome(forward, outcome).await,
        };
        let is_rest = matches!(response.status, Status::PARTIAL_CONTENT | Status::RANGE_NOT_SATISFIABLE);
        if matches!(wanted, Wanted::Rest(_)) && is_rest {
            return match fetch.complete(self.services, self.head, response).await {
                Some(entry) => {
                    let response = self.of_entry(&resource, &entry, CacheStatus::Forwarded(why));
                    with_cookie(response, cookie)
                }
                // It is another one now. What was stored of it is of no use.
                None => {
                    self.responder.cache.remove_parts(&resource.text);
                    on_heap(|| self.fetch(forward, resource, None, why, None)).await
                }
            };
        }
        match fetch.take(self.services, self.head, response) {
            Ok(fetched) => with_cookie(self.of_fetched(&resource, fetched, why), cookie),
            // Without the stale response, the request has no conditions. Its own response has the cookie.
            Err(Unconfirmed(leader)) => on_heap(|| self.fetch(forward, resource, None, why, leader)).await,
        }
    }

    /// What is asked for, if what is stored is `stale`.
    fn wanted(&self, resource: &Resource<'_>, stale: Option<Rc<CachedResponse>>) -> Wanted {
        match stale {
            Some(stale) => Wanted::Newer(stale),
            None if self.head.names.contains(Names::RANGE) => Wanted::Part,
            None => self.rest(resource).map_or(Wanted::Whole, Wanted::Rest),
        }
    }

    async fn ask_for(&mut self, wanted: &Wanted, forward: Forward<'_>, settings: &Settings) -> Outcome {
        let capability = capability(settings);
        let added = wanted.fields(capability.as_deref());
        let fields = self.fields_for_all(forward.request);
        let fields = match wanted {
            Wanted::Part => with_more(fields, &added),
            Wanted::Newer(_) | Wanted::Rest(_) | Wanted::Whole => whole(fields, &added),
        };
        let head = self.head.with_fields(&fields);
        let request = Request { head: &head, ..forward.request };
        self.ask(Forward { request, ..forward }).await
    }

    /// The fields of a request whose response may be stored. A client is no surrogate: others could not read what an
    /// upstream writes for one.
    fn fields_for_all(&self, request: Request<'_>) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let is_client = request.connection.via == Via::Nothing;
        let passes = move |field: &&Field<'_>| !(is_client && is_name(field.name, "surrogate-capability"));
        self.head.fields.iter().filter(passes).copied()
    }

    /// What is missing of the response, if parts of it are stored and the rest is worth a request of its own.
    fn rest(&self, resource: &Resource<'_>) -> Option<Rest> {
        if self.head.method != Method::Get {
            return None;
        }
        let parts = self.responder.cache.find_parts(&resource.text, self.head.fields)?;
        let is_worthwhile = parts.etag().is_some()
            && parts.policy.is_for(self.identity(&resource.settings))
            && parts.parts.size() <= resource.settings.largest;
        let missing = parts.parts.missing().filter(|_| is_worthwhile)?;
        let range = ::cache::parts::range(missing, parts.parts.size());
        Some(Rest { parts, range })
    }

    /// Asks for a newer response than `entry`, in the background. Does nothing if that is being done, or if the response
    /// would be for this client alone.
    fn refresh(&self, forward: Forward<'_>, resource: &Resource<'a>, entry: &Rc<CachedResponse>) {
        if request::is_for_one_client(self.head) {
            return;
        }
        let cache = &self.responder.cache;
        let Some(permit) = cache.refreshes.take() else { return };
        let Some(leader) = cache.lead(self.pending_key(resource, Some(entry))) else { return };
        self.fetch_in_background(forward, resource, Some(entry.clone()), leader, permit);
    }

    /// Asks for the response, perhaps in place of `stale`, for all that wait for it.
    fn fetch_in_background(
        &self,
        forward: Forward<'_>,
        resource: &Resource<'a>,
        stale: Option<Rc<CachedResponse>>,
        leader: Leader,
        permit: Permit,
    ) {
        let identity = self.identity(&resource.settings);
        let wanted = stale.clone().map_or(Wanted::Whole, Wanted::Newer);
        let capability = capability(&resource.settings);
        let fields = whole(self.fields_for_all(forward.request), &wanted.fields(capability.as_deref()));
        let head = OwnedHead::from(&self.head.as_get(&fields));
        let refresh = Refresh {
            head,
            connection: ConnectionInfo { tls: None, ..forward.request.connection },
            to: forward.to.to_owned(),
            variables: self.grants.variables.clone(),
            responder: self.responder.clone(),
            fetch: Fetch::new(self.responder, resource, identity, stale, Some(leader)),
        };
        spawn_local(async move {
            refresh.run().await;
            drop(permit);
        });
    }
}

fn capability(settings: &Settings) -> Option<String> {
    (!settings.surrogate.is_empty()).then(|| format!("{}=\"Surrogate/1.0\"", settings.surrogate))
}

impl Wanted {
    /// The fields that the cache adds to the request.
    fn fields<'f>(&'f self, capability: Option<&'f str>) -> Vec<(&'static str, &'f [u8])> {
        let mut fields = match self {
            Wanted::Newer(stale) => update::conditions(&stale.stored),
            Wanted::Rest(Rest { parts, range }) => {
                let unchanged = parts.etag().map(|etag| ("If-Range", etag));
                [("Range", range.as_bytes())].into_iter().chain(unchanged).collect()
            }
            Wanted::Part | Wanted::Whole => Vec::new(),
        };
        fields.extend(capability.map(|value| (SURROGATE_CAPABILITY, value.as_bytes())));
        fields
    }
}
