//! The fast path: it responds at once to what needs neither waiting nor a body, or leaves the request to the driver.

use std::rc::Rc;

use site::plan::{Plan, PlannedAction};
use site::route::RouteId;
use taipan_http::head::Head;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::fallback::unserved;
use super::panic_guard::PanicGuard;
use super::refusal::Fast;
use super::{Exchange, Resolution, Responder, Way, omit_content_for_head};
use crate::content::{compress, fixed};
use crate::destination::DestinationId;
use crate::log::access::LoggedRequest;
use crate::peer::Peer;
use crate::request::Arrival;
use crate::response::Response;
use crate::stats::Count;
use crate::upstream::immediate::{RoutedResponse, SentRequest};

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

impl Responder {
    /// The response to a request without a body, which began at `began` of `clock::micros`. The request has its log
    /// line even if this panics. `sending`: whether the request may be sent to an application.
    #[inline]
    pub fn fast(
        self: &Rc<Self>,
        head: &Head<'_>,
        client: Peer,
        destination: DestinationId,
        began: u64,
        sending: Sending<'_>,
    ) -> Result<Response, Unfinished> {
        let host = self.services.site.hosts.find_in(destination.group, head.authority);
        let mut exchange = Exchange::new(self, host, head, client, Way::Fast(destination, sending));
        let request = LoggedRequest {
            client,
            connection: None,
            head: Some(head),
            host,
            destination,
            time: exchange.now,
            began,
            tls: None,
        };
        let guard = PanicGuard { services: &self.services, request };
        let mut response = exchange.fast();
        if exchange.names_origin() {
            response = response.map(|response| exchange.share_fast(response));
        }
        std::mem::forget(guard);
        Ok(omit_content_for_head(head.method, response?))
    }

    /// The response to a request that the fast path has sent to an application.
    pub fn complete(&self, head: &Head<'_>, routed: RoutedResponse) -> Response {
        let RoutedResponse { host, route, response } = routed;
        let route = self.services.site.hosts.at(host).routes.get(route);
        compress::of_upstream(&self.services, &route.files.compress, head, response)
    }
}

impl<'a> Exchange<'a> {
    #[inline]
    fn fast(&mut self) -> Result<Response, Unfinished> {
        if self.responder.is_for_another_server(self.head, self.client) {
            return Err(Unfinished::Waits);
        }
        let path = match self.path() {
            Ok(path) => path,
            Err(_) if self.asks_for_tunnel() => return Err(Unfinished::Waits),
            Err(response) => return Ok(response),
        };
        match self.responder.limits {
            None => self.fast_at(&path, None),
            Some(limits) => self.fast_within_limits(limits, &path),
        }
    }

    /// As `fast`, for a path that the limits admit. `route`: its route, if it has been found.
    #[inline]
    pub(super) fn fast_at(
        &mut self,
        path: &SafePath<'_>,
        route: Option<RouteId>,
    ) -> Result<Response, Unfinished> {
        if self.services.sheds_everything() {
            return Ok(fixed::status(self.services, None, Status::SERVICE_UNAVAILABLE));
        }
        if self.responder.refuses.get() {
            match self.refuse_fast(path) {
                Fast::Serve => {}
                Fast::Respond(response) => return Ok(response),
                Fast::Wait => return Err(Unfinished::Waits),
            }
        }
        if self.responder.needs.canonical
            && let Some(response) = self.redirect_to_canonical(path)
        {
            return Ok(response);
        }
        if self.responder.needs.host_folders {
            match self.choose_folder_fast() {
                Fast::Serve => {}
                Fast::Respond(response) => return Ok(response),
                Fast::Wait => return Err(Unfinished::Waits),
            }
        }
        if self.names_origin()
            && let Some(response) = self.preflight(path)
        {
            return Ok(response);
        }
        if self.responder.needs.rules {
            if self.responder.needs.tls_rules && self.head.scheme == Scheme::Https {
                return Err(Unfinished::Waits);
            }
            // The fast path does not know the address of every connection. This is rare.
            if self.responder.needs.address_rules && self.is_fast() && self.server_address().is_none() {
                return Err(Unfinished::Waits);
            }
            let route = route.unwrap_or_else(|| self.host().routes.find(path));
            if let Err(refused) = self.check_access_in(path, route) {
                return self.refused_fast(refused).ok_or(Unfinished::Waits);
            }
        }
        if self.responder.needs.authorizers && self.must_authorize(path, self.route(path)) {
            return Err(Unfinished::Waits);
        }
        let cached = match self.is_get_or_head() {
            true => self.responder.files.get(self.key, path.as_str(), self.now),
            false => None,
        };
        let resolution = match &cached {
            Some(entry) => self.serve(path, entry, None),
            None => self.resolve_fast(path, self.plan(path.clone()), None)?,
        };
        let response = match resolution {
            Resolution::Response(response) => response,
            Resolution::Absent(route, status) => {
                self.fall_back_fast(path, route, status).ok_or(Unfinished::Waits)?
            }
            resolution => self.finish_fast(resolution).ok_or(Unfinished::Waits)?,
        };
        // A request that is left to the driver has returned before: the driver counts it.
        if cached.is_some() {
            self.services.counts.add(Count::CacheHits, 1);
        }
        Ok(response)
    }

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
            Resolution::Refused(refused) => self.refused_fast(refused),
            Resolution::List(_) | Resolution::Monitor(..) => None,
            Resolution::Assemble(_) | Resolution::Forward(..) => None,
        }
    }
}
