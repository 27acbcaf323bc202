//! Requests for URLs of other servers (RFC 9112 §3.2.2), if this server is the forward proxy of their client.

use std::net::SocketAddr;
use std::rc::Rc;

use site::decide::ALLOW_OF_PROGRAMS;
use site::forward_proxy::{ForwardProxy, Host, HttpForwarding};
use site::forwarding::Forwards;
use site::host::name_of;
use site::model::Site;
use site::upstream::Protocol;
use taipan_http::fields::host_and_port;
use taipan_http::head::{Head, Method};
use taipan_http::status::Status;
use taipan_http::target::{Scheme, Target};

use super::tunnel::NewConnection;
use super::{Exchange, Responder, on_heap};
use crate::content::fixed;
use crate::log::upstream::UpstreamLog;
use crate::peer::Peer;
use crate::request::Request;
use crate::request::body::{Length, RequestBody};
use crate::response::Response;
use crate::stats::Count;
use crate::upstream::direct::{self, OriginAttempt, Stale};
use crate::upstream::idle_connections::{OriginConnection, OriginServer};
use crate::upstream::{Form, Outcome};

/// The server that a tunnel or a URL leads to, which the rules allow.
#[derive(Clone)]
pub(super) struct OtherServer {
    /// The host and the port.
    pub authority: String,
    pub host: Host,
    pub port: u16,
}

impl Responder {
    /// Whether requests of a client for URLs of this authority are forwarded, before the rules of destinations are
    /// asked.
    pub fn forwards(&self, authority: &[u8], client: Peer) -> bool {
        let Some(rules) = &self.services.site.forward_proxy else { return false };
        rules.http.is_some()
            && client != Peer::Unknown
            && rules.clients.contains(client.ip())
            && self.services.site.hosts.names().find(name_of(authority)).is_none()
    }

    /// Whether a request by HTTP/2 with this scheme may be for another server.
    pub fn may_lead_elsewhere(&self, scheme: Option<&[u8]>) -> bool {
        self.forward_proxy.is_some() && scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"))
    }

    /// The URL of a request by HTTP/2, if it is for another server. HTTP/2 has no absolute form: each request has a
    /// scheme and an authority (RFC 9113 §8.3.1). By TLS, one for plain HTTP is not for this server; without TLS, it
    /// may be, unless its port is another one than that of `local`.
    pub fn url_elsewhere(
        &self,
        head: &Head<'_>,
        scheme: Option<&[u8]>,
        client: Peer,
        local: Option<SocketAddr>,
    ) -> Option<String> {
        let is_forwarded = self.may_lead_elsewhere(scheme)
            && head.method != Method::Connect
            && self.forwards(head.authority, client);
        let authority = std::str::from_utf8(head.authority).ok().filter(|_| is_forwarded)?;
        let port = host_and_port(authority).1.unwrap_or(Scheme::Http.default_port());
        if head.scheme == Scheme::Http && local.is_none_or(|local| local.port() == port) {
            return None;
        }
        let path = if head.target == Target::Asterisk { "" } else { head.raw_target };
        Some(format!("http://{authority}{path}"))
    }

    /// Whether the request is for another server, and may be forwarded. To a client that is not one of the proxy, its
    /// URL names this server.
    #[inline]
    pub(super) fn is_for_another_server(&self, head: &Head<'_>, client: Peer) -> bool {
        matches!(head.target, Target::Absolute { .. }) && self.forwards(head.authority, client)
    }
}

impl<'a> Exchange<'a> {
    pub(super) async fn forward_to_other_server(&mut self, request: Request<'_>) -> Response {
        match self.forwarded(request).await {
            Ok(response) => response,
            Err(Status::METHOD_NOT_ALLOWED) => {
                let page = fixed::status(self.services, None, Status::METHOD_NOT_ALLOWED);
                page.with_replaced("Allow", ALLOW_OF_PROGRAMS)
            }
            Err(status) => fixed::status(self.services, None, status),
        }
    }

    /// Errors: the status of the response.
    async fn forwarded(&mut self, request: Request<'_>) -> Result<Response, Status> {
        let services = self.services;
        let (rules, http) = rules_of_urls(&services.site).ok_or(Status::NOT_FOUND)?;
        let authority = Scheme::Http.without_default_port(self.head.authority);
        let authority = std::str::from_utf8(authority).unwrap_or_default();
        let authority = match host_and_port(authority) {
            (_, None) => format!("{authority}:{}", Scheme::Http.default_port()),
            (_, Some(_)) => authority.to_owned(),
        };
        self.check_request(&authority)?;
        if Forwards::of(self.head) == Forwards::None {
            return Ok(fixed::options(services, None, ALLOW_OF_PROGRAMS));
        }
        let server = self.check_destination(rules, &authority)?;
        match &http.cache {
            Some(settings) => {
                Ok(on_heap(|| self.forward_url_through_cache(request, &server, settings)).await)
            }
            None => {
                let outcome = self.send_to_other_server(request, &server, Form::Response).await;
                Ok(self.of_other_server(outcome))
            }
        }
    }

    /// Forwards the request, which the rules allow.
    pub(super) async fn send_to_other_server(
        &mut self,
        request: Request<'_>,
        server: &OtherServer,
        form: Form,
    ) -> Outcome {
        let log = self.upstream.get_or_insert_default().clone();
        self.responder.ask_other_server(request, &mut self.body, server, form, &log).await
    }

    pub(super) fn of_other_server(&self, outcome: Outcome) -> Response {
        let (status, rule) = match outcome {
            Outcome::Response(response) => return response,
            Outcome::Rejected((status, rule)) => (status, Some(rule)),
            Outcome::Failed(status) => (status, None),
            _ => (Status::BAD_GATEWAY, None),
        };
        fixed::rejection(self.services, None, status, rule)
    }

    /// Checks what does not depend on the destination.
    fn check_request(&self, authority: &str) -> Result<(), Status> {
        if self.is_too_early() {
            return Err(Status::TOO_EARLY);
        }
        let is_https =
            self.head.raw_target.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
        if is_https {
            self.responder.note_rejected(self.client, authority, "a URL with https needs a tunnel");
            return Err(Status::BAD_REQUEST);
        }
        if self.head.method == Method::Trace {
            return Err(Status::METHOD_NOT_ALLOWED);
        }
        if direct::has_passed(self.head) {
            self.responder.note_rejected(self.client, authority, "the request has come back to this server");
            return Err(Status::LOOP_DETECTED);
        }
        Ok(())
    }
}

impl Responder {
    /// Forwards a request that the rules allow. Takes its body once there is a connection.
    pub(super) async fn ask_other_server(
        &self,
        request: Request<'_>,
        body: &mut RequestBody,
        server: &OtherServer,
        form: Form,
        log: &Rc<UpstreamLog>,
    ) -> Outcome {
        let services = &self.services;
        if services.sheds_cold() {
            return Outcome::Failed(Status::SERVICE_UNAVAILABLE);
        }
        let client = request.connection.client;
        let mut may_have_kept = direct::may_have_kept(request.head) && body.length() == Length::None;
        let mut taken = None;
        // Twice at most: the second time with a new connection.
        loop {
            let to = match self.connection_to(client, server, may_have_kept, log).await {
                Ok(to) => to,
                Err(status) => return Outcome::Failed(status),
            };
            let body = taken.get_or_insert_with(|| std::mem::replace(body, RequestBody::None));
            match direct::forward(services, request, body, form, to).await {
                Ok(outcome) => {
                    services.counts.add(Count::Forwarded, 1);
                    return outcome;
                }
                Err(Stale) => may_have_kept = false,
            }
        }
    }

    async fn connection_to(
        &self,
        client: Peer,
        server: &OtherServer,
        may_have_kept: bool,
        log: &Rc<UpstreamLog>,
    ) -> Result<OriginAttempt, Status> {
        let OtherServer { authority, host, port } = server;
        let http = rules_of_urls(&self.services.site).ok_or(Status::NOT_FOUND)?.1;
        let name: Rc<str> = format!("the server {authority}").into();
        let kept = if may_have_kept { self.idle_connections.take(host, *port) } else { None };
        let is_kept = kept.is_some();
        let (origin, stream, permit, attempt) = match kept {
            Some((origin, stream)) => {
                let permit = self.tunnel_permit(client, authority)?;
                let attempt = log.begin(&authority.as_str().into(), Protocol::Http);
                attempt.on_endpoint(&origin.address);
                (origin, stream, permit, attempt)
            }
            None => {
                let NewConnection { stream, address, permit, attempt } =
                    self.connect_to(server, client, log).await?;
                let origin = OriginServer { host: host.clone(), port: *port, address };
                (Rc::new(origin), stream, permit, attempt)
            }
        };
        let idle_connections = Some(self.idle_connections.clone()).filter(|kept| kept.keeps());
        let connection = Box::new(OriginConnection { stream, origin, is_kept, idle_connections, permit });
        Ok(OriginAttempt { connection, log: attempt, name, first_byte: http.first_byte, idle: http.idle })
    }
}

fn rules_of_urls(site: &Site) -> Option<(&ForwardProxy, &HttpForwarding)> {
    let rules = site.forward_proxy.as_ref()?;
    Some((rules, rules.http.as_ref()?))
}
