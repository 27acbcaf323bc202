//! A request to an upstream that the cache makes: for a client, or in the background.

use std::rc::Rc;
use std::sync::Arc;

use ::cache::Field as StoredField;
use ::cache::policy::{self, Policy, Received, StoredPart};
use ::cache::request::{ClientIdentity, is_for_one_client};
use ::cache::settings::Settings;
use ::cache::stored::{Stored, Times};
use ::cache::update::{self, Validated};
use ::cache::vary;
use ::script::environment::Additions;
use site::authorizer::is_same_name;
use taipan_http::conditional::is_condition;
use taipan_http::head::{Field, Head, Method, OwnedHead};
use taipan_http::status::Status;

use super::super::Responder;
use super::Resource;
use super::next_hop::OwnedNextHop;
use crate::cache::{
    Cache, CachedResponse, Leader, PartialResponse, Placement, Recording, Reserved, stored_body,
};
use crate::clock;
use crate::request::body::RequestBody;
use crate::request::{ConnectionInfo, Request};
use crate::response::BodyStream;
use crate::services::Services;
use crate::stats::Count;
use crate::upstream::{Content, Outcome, Unrendered, Upstreams};

/// Fields that tell an upstream who the client is. This server writes them.
const WRITTEN: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// What the response of an upstream is stored for.
pub struct Fetch {
    cache: Rc<Cache>,
    upstreams: Rc<Upstreams>,
    settings: Arc<Settings>,
    /// Of the key.
    text: String,
    identity: ClientIdentity,
    /// What is validated.
    stale: Option<Rc<CachedResponse>>,
    /// Others wait for the response.
    leader: Option<Leader>,
    placement: Placement,
}

/// The fields of a response that are not stored.
pub type Unstored = Vec<(String, Vec<u8>)>;

/// What becomes of an upstream's response.
pub enum Fetched {
    /// It has confirmed what was stored.
    Confirmed(Rc<CachedResponse>, Unstored),
    /// It is stored.
    Entry(Rc<CachedResponse>, Unstored),
    /// It is stored when all of it is there.
    Recording(Box<BeingStored>),
    /// The upstream has failed, and the stale response may be used.
    Stale(Rc<CachedResponse>),
    /// It is not stored.
    Passed(Unrendered),
}

/// A response that is stored while it is sent.
pub struct BeingStored {
    pub stored: Stored,
    pub policy: Policy,
    pub recording: Recording,
    /// Bytes of the body, if the upstream has announced them.
    pub length: Option<u64>,
    pub unstored: Unstored,
}

/// An upstream has confirmed another response than what was stored, which is gone.
pub struct Unconfirmed(pub Option<Leader>);

/// A request in the background.
pub struct Refresh {
    pub head: OwnedHead,
    pub connection: ConnectionInfo<'static>,
    pub to: OwnedNextHop,
    /// Those that authorizers have set.
    pub variables: Additions,
    pub responder: Rc<Responder>,
    pub fetch: Fetch,
}

impl Fetch {
    pub(super) fn new(
        responder: &Responder,
        resource: &Resource<'_>,
        identity: ClientIdentity,
        stale: Option<Rc<CachedResponse>>,
        leader: Option<Leader>,
    ) -> Fetch {
        let cache = &responder.cache;
        Fetch {
            cache: cache.clone(),
            upstreams: responder.upstreams.clone(),
            settings: resource.settings.clone(),
            text: resource.text.clone(),
            identity,
            stale,
            leader,
            placement: Placement::now(&resource.text),
        }
    }

    /// The times of a response that comes now. The delay counts in whole seconds, so that one that came at once is not a
    /// second old.
    fn times(&self, services: &Services) -> Times {
        let received = services.clock.read();
        let delay = clock::micros().saturating_sub(self.placement.requested) / 1_000_000;
        Times { requested: received.saturating_sub_unsigned(delay), received }
    }

    /// `head` is that of the client.
    pub fn take(
        self,
        services: &Services,
        head: &Head<'_>,
        response: Unrendered,
    ) -> Result<Fetched, Unconfirmed> {
        if let Some(stale) = &self.stale {
            match update::validated(response.status) {
                Validated::NotModified => return self.confirm(services, head, &response.fields),
                Validated::Failed => {
                    self.settle();
                    return Ok(match may_serve_if_error(stale, services.clock.read()) {
                        true => Fetched::Stale(stale.clone()),
                        false => Fetched::Passed(response),
                    });
                }
                Validated::Rejected => {
                    self.settle();
                    return Ok(Fetched::Passed(response));
                }
                Validated::Replaced => {}
            }
        }
        if head.method == Method::Head {
            self.on_head(services, head, &response);
            return Ok(Fetched::Passed(response));
        }
        if response.status == Status::PARTIAL_CONTENT {
            return Ok(Fetched::Passed(self.take_part(services, head, response)));
        }
        Ok(self.take_whole(services, head, response))
    }

    fn take_whole(self, services: &Services, head: &Head<'_>, response: Unrendered) -> Fetched {
        let Unrendered { status, fields, content } = response;
        let received = Received { status, fields: &fields, times: self.times(services) };
        let storable = policy::store(head, self.identity, received, &self.settings);
        let fits = match &content {
            Content::None(_) => !status.allows_body(),
            Content::Whole(body) => body.len() as u64 <= self.settings.largest,
            Content::Stream(_, length) => {
                // The body is in memory while it is received.
                length.is_none_or(|length| length <= self.settings.largest && self.cache.may_receive(length))
            }
        };
        let Some((stored, policy)) = storable.filter(|_| fits && !self.varies_by_own_field(&fields)) else {
            match update::is_about_request(status) {
                true => self.settle(),
                false => self.forget(head),
            }
            return Fetched::Passed(Unrendered { status, fields, content });
        };
        let unstored = owned_fields(policy::unstored(&fields, &stored));
        match content {
            Content::None(_) => Fetched::Entry(self.store(stored, policy, Vec::new(), None), unstored),
            Content::Whole(body) => Fetched::Entry(self.store(stored, policy, body, None), unstored),
            Content::Stream(stream, length) => {
                let reserved = self.cache.reserve(self.settings.largest);
                let (cache, key) = (self.cache.clone(), self.leader.as_ref().map(Leader::key));
                let pace = self.leader.as_ref().map(Leader::pace).unwrap_or_default();
                let do_not_collapse = move || key.iter().for_each(|key| cache.do_not_collapse(key));
                let own = (stored.clone(), policy.clone());
                let store = move |body, reserved| drop(self.store(own.0, own.1, body, Some(reserved)));
                let recording =
                    Recording::new(stream, length, reserved, store, do_not_collapse).with_pace(pace);
                Fetched::Recording(Box::new(BeingStored { stored, policy, recording, length, unstored }))
            }
        }
    }

    /// A part that is sent to the client that has asked for it, and stored, if it may be.
    fn take_part(self, services: &Services, head: &Head<'_>, response: Unrendered) -> Unrendered {
        let Unrendered { status, fields, content } = response;
        let length = match &content {
            Content::Whole(body) => Some(body.len() as u64),
            Content::Stream(_, length) => *length,
            Content::None(_) => None,
        };
        let part = length.and_then(|length| self.part(services, head, &fields, length));
        let (Some(part), Some(length)) = (part, length) else {
            return Unrendered { status, fields, content };
        };
        let reserved = self.cache.reserve(self.settings.largest);
        let store = move |body| drop(self.store_part(part, body));
        let content = match content {
            Content::Stream(stream, _) => {
                let recording = Recording::new(stream, Some(length), reserved, |body, _| store(body), || {});
                Content::Stream(Box::new(recording), Some(length))
            }
            Content::Whole(body) => {
                store(body.clone());
                Content::Whole(body)
            }
            Content::None(length) => Content::None(length),
        };
        Unrendered { status, fields, content }
    }

    fn part(
        &self,
        services: &Services,
        head: &Head<'_>,
        fields: &[StoredField],
        length: u64,
    ) -> Option<StoredPart> {
        let received = Received { status: Status::PARTIAL_CONTENT, fields, times: self.times(services) };
        let part = policy::store_part(head, self.identity, received, length, &self.settings);
        part.filter(|part| part.range.len <= self.settings.largest && !self.varies_by_own_field(fields))
    }

    /// Whether `Vary` names a field that this server writes: what clients send in it selects nothing.
    fn varies_by_own_field(&self, fields: &[StoredField]) -> bool {
        let is_own = |name: &str| {
            let mut own = WRITTEN.iter().copied().chain(self.upstreams.asserted.iter().map(String::as_str));
            own.any(|own| is_same_name(name.as_bytes(), own))
        };
        vary::names(fields).is_some_and(|names| names.iter().any(|name| is_own(name)))
    }

    /// The whole response, if nothing is missing any more.
    fn store_part(&self, part: StoredPart, body: Vec<u8>) -> Option<Rc<CachedResponse>> {
        let part = PartialResponse::new(part, body, self.settings.clone(), self.placement)?;
        self.cache.services().counts.add(Count::ResponsePartsStored, 1);
        self.cache.store_part(&self.text, part)
    }

    /// The whole response, of which the upstream has sent the rest. `None`: it is the rest of another one.
    pub async fn complete(
        self,
        services: &Services,
        head: &Head<'_>,
        response: Unrendered,
    ) -> Option<Rc<CachedResponse>> {
        let Unrendered { status, fields, content } = response;
        if status != Status::PARTIAL_CONTENT {
            return None;
        }
        let body = match content {
            Content::Whole(body) => body,
            Content::Stream(stream, Some(length)) => self.read(services, stream, length).await?,
            Content::Stream(_, None) | Content::None(_) => return None,
        };
        let part = self.part(services, head, &fields, body.len() as u64)?;
        self.store_part(part, body)
    }

    /// Reads a body that is as long as this, and may be stored.
    async fn read(
        &self,
        services: &Services,
        mut stream: Box<dyn BodyStream>,
        length: u64,
    ) -> Option<Vec<u8>> {
        let mut reserved = self.cache.reserve(self.settings.largest);
        if !reserved.add(usize::try_from(length).ok()?) {
            return None;
        }
        let mut body = stream.take_buffered();
        while (body.len() as u64) < length {
            body.extend_from_slice(&stream.next(services).await.ok()??);
        }
        // As in `Recording::read_to_the_end`.
        _ = stream.next(services).await;
        (body.len() as u64 == length).then_some(body)
    }

    /// The upstream has responded, or has failed: no request that waits takes its place.
    pub fn settle(&self) {
        self.leader.iter().for_each(Leader::settle);
    }

    /// Stores a whole response, in place of the one that was validated.
    fn store(
        self,
        stored: Stored,
        policy: Policy,
        body: Vec<u8>,
        reserved: Option<Reserved>,
    ) -> Rc<CachedResponse> {
        self.settle();
        // It would be preferred to one that does not vary any more.
        if let Some(stale) = self.stale.as_ref().filter(|stale| stale.stored.variant != stored.variant) {
            self.cache.remove(&self.text, stale);
        }
        let services = self.cache.services();
        services.counts.add(Count::ResponsesStored, 1);
        let body = stored_body(services, body);
        let entry = Rc::new(CachedResponse::new(stored, policy, self.settings.clone(), body, self.placement));
        self.cache.store(&self.text, &entry, (self.leader, reserved));
        entry
    }

    /// A 304 has come. It confirms the stored response, unless its entity tag is another one.
    fn confirm(
        self,
        services: &Services,
        head: &Head<'_>,
        fields: &[StoredField],
    ) -> Result<Fetched, Unconfirmed> {
        let Some(stale) = &self.stale else { return Ok(Fetched::Passed(not_modified(fields))) };
        if !update::confirms(&stale.stored, fields) {
            if !is_for_one_client(head) {
                self.cache.remove(&self.text, stale);
            }
            return Err(Unconfirmed(self.leader));
        }
        self.settle();
        let entry = self.freshen(services, head, stale, fields);
        Ok(Fetched::Confirmed(entry, owned_fields(update::for_one_client(fields, &self.settings))))
    }

    /// Stores new fields of a response, if the response may still be stored with them. `head` is that of the request
    /// that has selected it.
    fn freshen(
        &self,
        services: &Services,
        head: &Head<'_>,
        old: &Rc<CachedResponse>,
        fields: &[StoredField],
    ) -> Rc<CachedResponse> {
        let times = self.times(services);
        let mut stored = update::freshened(&old.stored, fields, times, &self.settings);
        let selecting = vary::selecting(&stored.fields, head.fields);
        let selecting = selecting.filter(|_| !self.varies_by_own_field(&stored.fields));
        let stays = selecting.is_some() && policy::stays_stored(&stored, self.identity, &self.settings);
        stored.variant = old.stored.variant.extended(selecting.unwrap_or_default(), head.fields);
        let is_same_variant = stored.variant == old.stored.variant;
        let policy = Policy::of(&stored, &self.settings);
        let entry =
            CachedResponse::new(stored, policy, self.settings.clone(), old.body.clone(), self.placement);
        let entry = Rc::new(entry.with_copies_of(old));
        match (stays && !is_for_one_client(head), is_same_variant) {
            (true, true) => self.cache.update(&self.text, &entry),
            (true, false) => {
                self.cache.remove(&self.text, old);
                self.cache.store(&self.text, &entry, ());
            }
            (false, _) => self.forget(head),
        }
        entry
    }

    /// A response to HEAD updates what is stored, or shows that it is not right any more (RFC 9111 §4.3.5).
    fn on_head(&self, services: &Services, head: &Head<'_>, response: &Unrendered) {
        let is_about_stored = response.status == Status::OK && !is_for_one_client(head);
        let Some(stale) = self.stale.as_ref().filter(|_| is_about_stored) else { return };
        let announced = match response.content {
            Content::None(length) => length,
            Content::Whole(_) | Content::Stream(..) => None,
        };
        match update::describes(&stale.stored, stale.body.length(), &response.fields, announced) {
            true => drop(self.freshen(services, head, stale, &response.fields)),
            false => self.cache.remove(&self.text, stale),
        }
    }

    /// The response to the request with this head is not stored: nor is the one that it replaces, and no request waits
    /// for the next one. A response for one client replaces nothing.
    fn forget(&self, head: &Head<'_>) {
        if let Some(stale) = self.stale.as_ref().filter(|_| !is_for_one_client(head)) {
            self.cache.remove(&self.text, stale);
        }
        if let Some(leader) = &self.leader {
            self.cache.do_not_collapse(&leader.key());
        }
    }
}

fn owned_fields<'f>(fields: impl Iterator<Item = &'f StoredField>) -> Unstored {
    fields.map(|field| (field.name.to_string(), field.value.to_vec())).collect()
}

fn not_modified(fields: &[StoredField]) -> Unrendered {
    Unrendered { status: Status::NOT_MODIFIED, fields: fields.to_vec(), content: Content::None(None) }
}

/// Whether a stored response is used although the upstream has failed (RFC 5861 §4).
pub fn may_serve_if_error(entry: &CachedResponse, now: i64) -> bool {
    entry.policy.freshness.serves_if_error(now)
}

impl Refresh {
    pub async fn run(self) {
        let Refresh { head, connection, to, variables, responder, fetch } = self;
        let services = responder.services.clone();
        services.counts.add(Count::ResponsesRefreshed, 1);
        let fields: Vec<Field<'_>> = head.fields().collect();
        let Some(head) = head.head(&fields) else { return };
        let request = Request { head: &head, connection, interim: None };
        // No log line names the upstream.
        let log = Rc::default();
        let outcome = to.borrowed().ask(&responder, request, &variables, &mut RequestBody::None, &log).await;
        let Outcome::Unrendered(response, _) = outcome else { return };
        if let Ok(Fetched::Recording(stored)) = fetch.take(&services, &head, *response) {
            stored.recording.read_to_the_end(&services).await;
        }
    }
}

/// The fields of a request for the whole response, with these conditions in place of its own.
pub fn whole<'f>(
    fields: impl Iterator<Item = Field<'f>>,
    conditions: &[(&'static str, &'f [u8])],
) -> Vec<Field<'f>> {
    with_more(fields.filter(|field| !is_condition(field.name)), conditions)
}

/// The fields of a request, and others.
pub fn with_more<'f>(
    fields: impl Iterator<Item = Field<'f>>,
    more: &[(&'static str, &'f [u8])],
) -> Vec<Field<'f>> {
    let more = more.iter().map(|(name, value)| Field { name: name.as_bytes(), value });
    fields.chain(more).collect()
}
