//! Parts of responses: they answer requests for a range of them, and become a whole response when nothing is missing.
//!
//! They are only in memory.

use std::rc::Rc;
use std::sync::Arc;

use cache::parts::{Parts, strong_etag};
use cache::policy::{Policy, StoredPart};
use cache::settings::Settings;
use cache::status::CacheStatus;
use cache::stored::Stored;
use cache::update::freshened;
use site::model::Route;
use taipan_http::conditional;
use taipan_http::head::{Head, Method, Names};
use taipan_http::range::{self, Selection};

use super::body::StoredBody;
use super::cached_response::{CachedResponse, Placement};
use super::stamps;
use crate::response::Response;
use crate::services::Services;

/// What there is of one response.
pub struct PartialResponse {
    pub stored: Stored,
    pub policy: Policy,
    pub settings: Arc<Settings>,
    pub parts: Parts,
    pub placement: Placement,
}

/// What asks for more than the bytes of a range.
const OTHER_CONDITIONS: Names = Names::IF_NONE_MATCH.union(Names::IF_MODIFIED_SINCE);

impl PartialResponse {
    /// `None`: the bytes are not those of the range.
    pub fn new(
        part: StoredPart,
        bytes: Vec<u8>,
        settings: Arc<Settings>,
        placement: Placement,
    ) -> Option<PartialResponse> {
        let StoredPart { stored, policy, range, size } = part;
        let parts = Parts::new(size, range.from, bytes).filter(|parts| parts.stored() == range.len)?;
        Some(PartialResponse { stored, policy, settings, parts, placement })
    }

    /// Whether nothing has invalidated it.
    pub fn is_valid(&self) -> bool {
        stamps::is_valid(self.placement.resource, self.placement.requested)
    }

    /// Bytes of memory that it takes.
    pub fn cost(&self) -> usize {
        size_of::<PartialResponse>() + self.stored.cost() + self.parts.stored() as usize
    }

    /// The validator by which more of it can be requested.
    pub fn etag(&self) -> Option<&[u8]> {
        strong_etag(&self.stored.fields)
    }

    /// With a later part of the same response (RFC 9111 §3.4). `None`: it is of another one, or there is too much of
    /// it.
    pub fn with(&self, later: &PartialResponse) -> Option<PartialResponse> {
        if !self.is_valid() || self.etag().is_none() || self.etag() != later.etag() {
            return None;
        }
        let parts = self.parts.with(&later.parts, self.settings.largest)?;
        let stored = freshened(&self.stored, &later.stored.fields, later.stored.times, &later.settings);
        let policy = Policy::of(&stored, &later.settings);
        // What was requested earlier may be invalidated earlier.
        let requested = self.placement.requested.min(later.placement.requested);
        let placement = Placement { requested, ..later.placement };
        Some(PartialResponse { stored, policy, settings: later.settings.clone(), parts, placement })
    }

    /// The response to a request for a range of it. `None`: it asks for something else, or not all of that is there.
    pub fn respond(
        &self,
        services: &Services,
        route: Option<&Route>,
        head: &Head<'_>,
        status: CacheStatus,
    ) -> Option<Response> {
        let wanted = head.only("range").filter(|_| head.method == Method::Get)?;
        let whole = self.without_body();
        if head.names.intersects(OTHER_CONDITIONS)
            || !conditional::range_applies(head, &whole.validators(), services.clock.now())
        {
            return None;
        }
        let Selection::One(range) = range::select(wanted, self.parts.size()) else { return None };
        let bytes = self.parts.get(range)?;
        let content_range = range::content_range(range, self.parts.size());
        Some(whole.reuse(services, route, status).part(&content_range, bytes))
    }

    /// The whole response, if nothing is missing.
    pub fn whole(&self) -> Option<Vec<u8>> {
        Some(self.parts.whole()?.to_vec())
    }

    /// The head of the whole response.
    fn without_body(&self) -> CachedResponse {
        let (stored, policy) = (self.stored.clone(), self.policy.clone());
        let body = StoredBody::Bytes(Rc::default());
        CachedResponse::new(stored, policy, self.settings.clone(), body, Placement::NOWHERE)
    }
}
