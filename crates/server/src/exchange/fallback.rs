//! The fallback of a route, which responds where nothing exists.

use site::decide;
use site::model::Route;
use site::plan::{FallbackPlan, FilesPlan, plan_fallback};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fast::Stop;
use super::{Exchange, Resolution};
use crate::response::Response;

/// What a status of a folder results in: a missing one leaves the request to the fallback.
pub(super) fn unserved(route: &Route, status: Status) -> Resolution<'_> {
    match status {
        Status::NOT_FOUND => Resolution::Absent(route, status),
        status => Resolution::Status(route, status),
    }
}

impl<'a> Exchange<'a> {
    pub(super) fn fallback(&self, path: &SafePath<'_>, route: &'a Route) -> Option<FallbackPlan<'a>> {
        plan_fallback(self.host(), route, path, self.head.target.query())
    }

    #[cold]
    pub(super) fn fall_back_fast(
        &self,
        path: &SafePath<'_>,
        route: &'a Route,
        status: Status,
    ) -> Result<Response, Stop> {
        let Some(mut fallback) = self.fallback(path, route) else {
            return self.status_fast(route, status);
        };
        loop {
            let next = fallback.next(self.host(), self.head.target.query());
            let FallbackPlan { path, plan, path_info, .. } = fallback;
            if self.responder.needs.rules
                && let Err(rejected) = self.check_access(&path)
            {
                return self.rejected_fast(rejected);
            }
            if self.responder.needs.authorizers && self.must_authorize(&path, plan.route) {
                return Err(Stop::WAIT);
            }
            match (self.resolve_fast(&path, plan, Some(&path_info))?, next) {
                (Resolution::Absent(..), Some(next)) => fallback = next,
                (resolution, _) => return self.finish_fast(resolution),
            }
        }
    }

    /// For a method that files do not take, but the fallback does. `None`: the fallback does not respond.
    pub(super) async fn leave_to_fallback(
        &self,
        path: &SafePath<'_>,
        route: &'a Route,
        planned: &FilesPlan<'_, '_>,
    ) -> Option<Resolution<'a>> {
        if self.is_get_or_head() || !self.fallback(path, route)?.plan.may_run() {
            return None;
        }
        match self.find(path, planned).await {
            Ok(entry) => {
                let status = decide::absent(path, &entry.resource, route.files.listing)?;
                Some(Resolution::Absent(route, status))
            }
            Err(status) => Some(Resolution::Status(route, status)),
        }
    }
}
