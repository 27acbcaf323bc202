//! What the client gets: of a stored response, of one that is being stored, and of one that is not.

use std::rc::Rc;
use std::time::Duration;

use ::cache::Field as StoredField;
use ::cache::directives::RequestDirectives;
use ::cache::fields::only;
use ::cache::policy::Use;
use ::cache::settings::{Report, Settings};
use ::cache::status::{CacheStatus, Forwarded, Kept};
use ::cache::stored::Stored;
use site::model::Route;
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::date;
use taipan_http::head::Names;
use taipan_http::status::Status;

use super::Resource;
use super::fetch::{BeingStored, Fetched, may_serve_if_error};
use crate::cache::{self, CachedResponse, Found, Placement, Recording};
use crate::content::{compress, fixed};
use crate::exchange::Exchange;
use crate::exchange::pages::is_page;
use crate::response::{Body, BodyStream, Response};
use crate::response_head::HeadWriter;
use crate::stats::Count;
use crate::tasks::spawn_local;
use crate::upstream::{Content, Unrendered};

impl Exchange<'_> {
    /// A stored response, or a compressed copy of it. Without a copy, it is compressed while it is sent, and a copy is
    /// made. `write_key` appends its key.
    #[inline]
    pub(super) fn of_stored(
        &self,
        route: Option<&Route>,
        entry: &Rc<CachedResponse>,
        status: CacheStatus,
        write_key: impl FnOnce(&mut String),
    ) -> Response {
        let reuse = entry.reuse(self.services, route, status);
        let Some(route) = route else { return reuse.respond(self.head) };
        if is_page(route, entry.stored.status, || stored_fields(&entry.stored)) {
            return self.processed(route, reuse.full());
        }
        let response = reuse.respond(self.head);
        let rules = &route.files.compress;
        if !rules.scripts || route.files.includes.cover_responses() {
            return self.processed(route, response);
        }
        if response.status() != entry.stored.status {
            return self.without_whole(route, &entry.stored, response);
        }
        let Some(coding) = compress::wanted(rules, self.head, &response) else {
            return self.processed(route, response);
        };
        if let Some(copy) = entry.copies.get(coding) {
            return copy.reuse(self.services, Some(route), status).respond(self.head);
        }
        let mut text = String::new();
        write_key(&mut text);
        self.responder.cache.make_copy(&text, entry, coding, rules.kept);
        self.processed(route, response)
    }

    /// A 304, or a part, of a stored response.
    #[cold]
    fn without_whole(&self, route: &Route, stored: &Stored, response: Response) -> Response {
        let rules = &route.files.compress;
        match rules.scripts && compress::may_gain(rules, stored_fields(stored)) {
            true => compress::without_whole(self.head, response),
            false => response,
        }
    }

    /// The response to a request for a range, if no whole response is stored, and the parts that are have all of it.
    pub(super) fn of_parts(
        &self,
        resource: &Resource<'_>,
        directives: &RequestDirectives,
    ) -> Option<Response> {
        if !self.head.names.contains(Names::RANGE) {
            return None;
        }
        let cache = &self.responder.cache;
        if matches!(cache.find(&resource.text, self.head.fields), Found::Entry(_)) {
            return None;
        }
        let parts = cache.find_parts(&resource.text, self.head.fields)?;
        let now = self.services.clock.now();
        match parts.policy.decide(directives, self.identity(&resource.settings), &resource.settings, now) {
            Use::Fresh => {}
            Use::WhileRevalidating | Use::Stale | Use::Validate(_) | Use::GatewayTimeout | Use::Bypass => {
                return None;
            }
        }
        let response = parts.respond(self.services, resource.route, self.head, CacheStatus::Hit)?;
        self.services.counts.add(Count::ResponseHits, 1);
        Some(self.by_route(resource, response))
    }

    pub(super) fn of_entry(
        &self,
        resource: &Resource<'_>,
        entry: &Rc<CachedResponse>,
        status: CacheStatus,
    ) -> Response {
        let count = match status {
            CacheStatus::Hit => Some(Count::ResponseHits),
            CacheStatus::Stale | CacheStatus::StaleIfError => Some(Count::ResponsesStale),
            CacheStatus::Revalidated(_) => Some(Count::ResponsesRevalidated),
            // It is counted once, behind all requests to the upstream.
            CacheStatus::Forwarded(_) | CacheStatus::OnlyIfCached => None,
        };
        if let Some(count) = count {
            self.services.counts.add(count, 1);
        }
        self.of_stored(resource.route, entry, status, |text| text.push_str(&resource.text))
    }

    /// What the client gets of the response of an upstream.
    pub(super) fn of_fetched(&self, resource: &Resource<'_>, fetched: Fetched, why: Forwarded) -> Response {
        match fetched {
            Fetched::Confirmed(entry, unstored) => {
                let response = self.of_entry(resource, &entry, CacheStatus::Revalidated(why));
                response.with_fields(&unstored)
            }
            Fetched::Entry(entry, unstored) => {
                let status = CacheStatus::Forwarded(why);
                let is_page = resource.route.is_some_and(|route| {
                    is_page(route, entry.stored.status, || stored_fields(&entry.stored))
                });
                let reuse = entry.reuse(self.services, resource.route, status);
                let response = match is_page {
                    true => reuse.full(),
                    false => reuse.respond(self.head),
                };
                let response = response.with_fields(&unstored);
                match resource.route {
                    Some(route) if response.status() != entry.stored.status => {
                        self.without_whole(route, &entry.stored, response)
                    }
                    _ => self.by_route(resource, response),
                }
            }
            Fetched::Stale(entry) => self.of_entry(resource, &entry, CacheStatus::StaleIfError),
            Fetched::Recording(response) => self.of_recording(resource, *response, why),
            Fetched::Passed(response) => {
                let response = self.of_passed(resource, response, why);
                self.by_route(resource, response)
            }
        }
    }

    /// The upstream has not responded. A stale response is used, if it allows that.
    pub(super) async fn on_upstream_failure(
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
    pub(super) async fn on_suspended(&self, resource: &Resource<'_>, left: Duration) -> Response {
        match resource.route {
            Some(route) => self.unavailable(route, left).await,
            None => self.status_of(resource, Status::SERVICE_UNAVAILABLE).await,
        }
    }

    /// A status, with the error page of the route, if there is one.
    pub(super) async fn status_of(&self, resource: &Resource<'_>, status: Status) -> Response {
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

    pub(super) fn stale_if_error(
        &self,
        resource: &Resource<'_>,
        stale: Option<Rc<CachedResponse>>,
    ) -> Option<Response> {
        let entry = stale.filter(|entry| may_serve_if_error(entry, self.services.clock.read()))?;
        Some(self.of_entry(resource, &entry, CacheStatus::StaleIfError))
    }

    /// A response that is sent while it is stored.
    fn of_recording(&self, resource: &Resource<'_>, response: BeingStored, why: Forwarded) -> Response {
        let BeingStored { stored, policy, recording, length, unstored } = response;
        let Resource { route, settings, .. } = resource;
        let status = CacheStatus::Forwarded(why);
        // What is asked of the whole can be answered before its content is there.
        let unsent = cache::StoredBody::Bytes(Rc::default());
        let entry = CachedResponse::new(stored, policy, settings.clone(), unsent, Placement::NOWHERE);
        let is_page =
            route.is_some_and(|route| is_page(route, entry.stored.status, || stored_fields(&entry.stored)));
        if !is_page && entry.is_unmodified_for(self.head, self.services.clock.now()) {
            let services = self.responder.services.clone();
            spawn_local(async move { recording.read_to_the_end(&services).await });
            let response = entry.reuse(self.services, *route, status).not_modified();
            let response = match route {
                Some(route) => self.without_whole(route, &entry.stored, response),
                None => response,
            };
            return response.with_fields(&unstored);
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
        self.by_route(resource, Response { cache: Some(status), ..response }).with_fields(&unstored)
    }

    /// A response that is not stored. The upstream has not seen the condition of the client.
    fn of_passed(&self, resource: &Resource<'_>, response: Unrendered, why: Forwarded) -> Response {
        let Unrendered { status, mut fields, content } = response;
        let date = self.services.clock.date_of(only(&fields, "date"));
        let of_fields = || fields.iter().map(|field| (&*field.name, &*field.value));
        let is_page = resource.route.is_some_and(|route| is_page(route, status, of_fields));
        let (status, content) = match !is_page && self.is_unmodified(status, &fields) {
            true => {
                fields.retain(|field| conditional::is_of_not_modified(&field.name));
                self.discard(resource, content);
                (Status::NOT_MODIFIED, Content::None(None))
            }
            false => (status, content),
        };
        let mut writer = HeadWriter::dated(&self.services.site, &date, resource.route, status);
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
        let discarded = Recording::new(stream, length, reserved, |_, _| {}, || {});
        spawn_local(async move { discarded.read_to_the_end(&services).await });
    }
}

fn stored_fields(stored: &Stored) -> impl Iterator<Item = (&str, &[u8])> {
    stored.fields.iter().map(|field| (&*field.name, &*field.value))
}

/// A response that is no stored one, with what the cache did.
pub(super) fn reported(settings: &Settings, status: CacheStatus, response: Response) -> Response {
    let response = Response { cache: Some(status), ..response };
    match settings.report {
        Report::On => response.with_fields(&[("Cache-Status", &status.field(None, Kept::No))]),
        Report::Off => response,
    }
}

/// Whether a stored response was sent.
pub(super) fn is_stored(response: &Response) -> bool {
    match response.cache {
        Some(
            CacheStatus::Hit | CacheStatus::Stale | CacheStatus::StaleIfError | CacheStatus::Revalidated(_),
        ) => true,
        Some(CacheStatus::Forwarded(_) | CacheStatus::OnlyIfCached) | None => false,
    }
}

/// With the cookie that leads the client to the endpoint that has responded.
pub(super) fn with_cookie(response: Response, cookie: Option<String>) -> Response {
    match cookie {
        Some(cookie) => response.with_fields(&[("Set-Cookie", &cookie)]),
        None => response,
    }
}
