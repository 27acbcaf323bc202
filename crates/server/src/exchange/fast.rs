//! The fast path where the cache has no file.

use site::plan::{Plan, PlannedAction};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fallback::unserved;
use super::{Exchange, Resolution};
use crate::request::Arrival;
use crate::response::Response;
use crate::upstream::immediate::SentRequest;

/// Whether the fast path may send a request to an application, which responds later.
#[derive(Clone, Copy)]
pub enum Sending<'a> {
    No,
    /// It may. The request has arrived in this way.
    Yes(Arrival<'a>),
}

/// Why the fast path has no response.
pub enum Unfinished {
    /// The response has to wait for something.
    Waits,
    /// The request has been sent to an application.
    Sent(SentRequest),
}

impl<'a> Exchange<'a> {
    #[inline(never)]
    pub(super) fn resolve_fast(
        &self,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&str>,
    ) -> Result<Resolution<'a>, Unfinished> {
        if self.responder.needs.caches
            && let Some(response) = self.stored_fast(&plan)
        {
            return Ok(Resolution::Response(response));
        }
        // A script or an application as the fallback takes methods that files do not take.
        if plan.may_run()
            || (!self.is_get_or_head() && plan.route.fallback.is_some())
            || self.publishing_method(plan.route, path).is_some()
        {
            return Err(self.send_fast(&plan, fallback).map_or(Unfinished::Waits, Unfinished::Sent));
        }
        if let PlannedAction::Files(planned) = &plan.action
            && let Err(status) = self.user_status_fast(planned).ok_or(Unfinished::Waits)?
        {
            return Ok(unserved(plan.route, status));
        }
        self.resolve_action(path, plan.route, plan.action, fallback).map_err(|_| Unfinished::Waits)
    }

    #[inline(never)]
    pub(super) fn finish_fast(&self, resolution: Resolution<'a>) -> Option<Response> {
        match resolution {
            Resolution::Response(response) => Some(response),
            Resolution::Status(route, status) => self.status_fast(route, status),
            Resolution::Absent(route, _) => self.status_fast(route, Status::NOT_FOUND),
            Resolution::Rejected(rejected) => self.rejected_fast(rejected),
            Resolution::List(_) | Resolution::Monitor(..) => None,
            Resolution::Assemble(_) | Resolution::Forward(..) => None,
        }
    }
}
