//! The steps of the fast path, but for the cache of files. Each returns what the next one needs, or why it is the last.

use site::plan::{Plan, PlannedAction};
use site::route::RouteId;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::fallback::unserved;
use super::{Exchange, Resolution};
use crate::content::fixed;
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

/// Why a step of the fast path is the last one.
pub(super) enum Stop {
    /// It has the response.
    Respond(Response),
    Unfinished(Unfinished),
}

impl Stop {
    pub(super) const WAIT: Stop = Stop::Unfinished(Unfinished::Waits);

    pub(super) fn result(self) -> Result<Response, Unfinished> {
        match self {
            Stop::Respond(response) => Ok(response),
            Stop::Unfinished(unfinished) => Err(unfinished),
        }
    }
}

impl From<Response> for Stop {
    fn from(response: Response) -> Stop {
        Stop::Respond(response)
    }
}

impl<'a> Exchange<'a> {
    /// Whether what is at `path` may be served. `route`: its route, if it has been found.
    #[inline]
    pub(super) fn check_fast(&mut self, path: &SafePath<'_>, route: Option<RouteId>) -> Result<(), Stop> {
        if self.services.sheds_everything() {
            return Err(fixed::status(self.services, None, Status::SERVICE_UNAVAILABLE).into());
        }
        if self.responder.rejects.get() {
            self.check_connection_fast(path)?;
        }
        if self.responder.needs.canonical
            && let Some(response) = self.redirect_to_canonical(path)
        {
            return Err(response.into());
        }
        if self.responder.needs.host_folders {
            self.choose_folder_fast()?;
        }
        if self.names_origin()
            && let Some(response) = self.preflight(path)
        {
            return Err(response.into());
        }
        if self.responder.needs.rules {
            self.check_rules_fast(path, route)?;
        }
        if self.responder.needs.authorizers && self.must_authorize(path, self.route(path)) {
            return Err(Stop::WAIT);
        }
        Ok(())
    }

    fn check_rules_fast(&self, path: &SafePath<'_>, route: Option<RouteId>) -> Result<(), Stop> {
        if self.responder.needs.tls_rules && self.head.scheme == Scheme::Https {
            return Err(Stop::WAIT);
        }
        // The fast path does not know the address of every connection. This is rare.
        if self.responder.needs.address_rules && self.is_fast() && self.server_address().is_none() {
            return Err(Stop::WAIT);
        }
        let route = route.unwrap_or_else(|| self.host().routes.find(path));
        match self.check_access_in(path, route) {
            Ok(()) => Ok(()),
            Err(rejected) => Err(self.rejected_fast(rejected)?.into()),
        }
    }

    #[inline(never)]
    pub(super) fn resolve_fast(
        &self,
        path: &SafePath<'_>,
        plan: Plan<'a, '_>,
        fallback: Option<&str>,
    ) -> Result<Resolution<'a>, Stop> {
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
            let sent = self.send_fast(&plan, fallback);
            return Err(Stop::Unfinished(sent.map_or(Unfinished::Waits, Unfinished::Sent)));
        }
        if let PlannedAction::Files(planned) = &plan.action
            && let Err(status) = self.known_user_status(planned).ok_or(Stop::WAIT)?
        {
            return Ok(unserved(plan.route, status));
        }
        self.resolve_action(path, plan.route, plan.action, fallback).map_err(|_| Stop::WAIT)
    }

    #[inline(never)]
    pub(super) fn finish_fast(&self, resolution: Resolution<'a>) -> Result<Response, Stop> {
        match resolution {
            Resolution::Response(response) => Ok(response),
            Resolution::Status(route, status) => self.status_fast(route, status),
            Resolution::Absent(route, _) => self.status_fast(route, Status::NOT_FOUND),
            Resolution::Rejected(rejected) => self.rejected_fast(rejected),
            Resolution::List(_) | Resolution::Monitor(..) => Err(Stop::WAIT),
            Resolution::Assemble(_) | Resolution::Forward(..) => Err(Stop::WAIT),
        }
    }
}
