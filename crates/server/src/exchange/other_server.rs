//! Requests for URLs of other servers (RFC 9112 §3.2.2), if this server is the forward proxy of their client.

use std::rc::Rc;

use site::forwarding::Forwards;
use site::host::name_of;
use taipan_http::fields::host_and_port;
use taipan_http::head::{Head, Method};
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::{Scheme, Target};

use super::{Exchange, Responder};
use crate::content::fixed;
use crate::peer::Peer;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::stats::Count;
use crate::upstream::Outcome;
use crate::upstream::direct::{self, OriginConnection};

/// RFC 5842 §7.2.
const LOOP_DETECTED: u16 = 508;

type Refused = (Status, Option<&'static Rule>);

impl Responder {
    /// Whether the request is for another server, and may be forwarded. To a client that is not one of the proxy, its URL
    /// names this server.
    #[inline]
    pub(super) fn is_for_another_server(&self, head: &Head<'_>, client: Peer) -> bool {
        let Some(rules) = &self.services.site.forward_proxy else { return false };
        rules.http.is_some()
            && matches!(head.target, Target::Absolute { .. })
            && client != Peer::Unknown
            && rules.clients.contains(client.ip())
            && self.services.site.hosts.names().find(name_of(head.authority)).is_none()
    }
}

impl Exchange<'_> {
    pub(super) async fn forward_to_other_server(&mut self, request: Request<'_>) -> Response {
        match self.forwarded(request).await {
            Ok(response) => response,
            Err((status, rule)) => fixed::rejection(self.services, None, status, rule),
        }
    }

    async fn forwarded(&mut self, request: Request<'_>) -> Result<Response, Refused> {
        let services = self.services;
        let plain = |status: Status| (status, None);
        let rules = services.site.forward_proxy.as_ref();
        let (rules, timeouts) =
            rules.and_then(|rules| Some((rules, rules.http?))).ok_or(plain(Status::NOT_FOUND))?;
        let authority = std::str::from_utf8(self.head.authority).unwrap_or_default();
        let with_port = match host_and_port(authority) {
            (_, None) if !authority.ends_with(':') => format!("{authority}:{}", Scheme::Http.default_port()),
            _ => authority.to_owned(),
        };
        self.check_request(&with_port).map_err(plain)?;
        if self.head.method == Method::Options
            && Forwards::of(self.head.values("max-forwards")) == Forwards::None
        {
            return Ok(fixed::options(services, None));
        }
        let (host, port) = self.check_destination(rules, &with_port).map_err(plain)?;
        if services.sheds_cold() {
            return Err(plain(Status::SERVICE_UNAVAILABLE));
        }
        let connected = self.connect_to(&with_port, host, port).await;
        let (stream, permit, attempt) = connected.map_err(plain)?;
        services.counts.add(Count::Forwarded, 1);
        let name: Rc<str> = format!("the server {with_port}").into();
        let origin = OriginConnection { stream, permit, attempt, name, timeouts };
        let body = std::mem::replace(&mut self.body, RequestBody::None);
        let (services, max_body) = (&self.responder.services, services.site.limits.body);
        match direct::forward(services, request, &body, max_body, origin).await {
            Outcome::Response(response) => Ok(response),
            Outcome::Rejected((status, rule)) => Err((status, Some(rule))),
            Outcome::Failed(status) => Err(plain(status)),
            _ => Err(plain(Status::BAD_GATEWAY)),
        }
    }

    /// What does not depend on the destination.
    fn check_request(&self, authority: &str) -> Result<(), Status> {
        let is_https =
            self.head.raw_target.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
        if is_https {
            self.note(authority, "a URL with https needs a tunnel");
            return Err(Status::BAD_REQUEST);
        }
        if self.head.method == Method::Trace {
            return Err(Status::METHOD_NOT_ALLOWED);
        }
        if direct::has_passed(self.head) {
            self.note(authority, "the request has come back to this server");
            return Err(Status::new(LOOP_DETECTED).unwrap_or(Status::BAD_GATEWAY));
        }
        Ok(())
    }
}
