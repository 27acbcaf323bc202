//! CONNECT (RFC 9110 §9.3.6): a tunnel to the destination that the client names, if this server is its forward proxy.

use std::rc::Rc;

use site::forward_proxy::{ForwardProxy, ProxyRejection};
use site::upstream::Protocol;
use taipan_http::head::Method;
use taipan_http::status::Status;
use tokio::io::Interest;

use super::other_server::OtherServer;
use super::{Exchange, Responder};
use crate::content::fixed;
use crate::forward_proxy::message::{ConnectFailure, Connected, Failure};
use crate::log::upstream::{AttemptLog, UpstreamLog};
use crate::peer::Peer;
use crate::pool::Stream;
use crate::response::{Body, Response};
use crate::response_head::HeadWriter;
use crate::semaphore::Permit;
use crate::stats::Count;
use crate::upstream::upgrade::UpgradedConnection;
use crate::{log, sys};

/// A connection that was just made, with its permit.
pub(super) struct NewConnection {
    pub stream: Stream,
    pub address: Rc<str>,
    pub permit: Permit,
    pub attempt: AttemptLog,
}

impl Exchange<'_> {
    /// Whether the request asks for a tunnel, and the site has a forward proxy. By HTTP/2 it is a stream (RFC 9113
    /// §8.5).
    pub(super) fn asks_for_tunnel(&self) -> bool {
        self.services.site.forward_proxy.is_some() && self.head.method == Method::Connect
    }

    pub(super) async fn open_tunnel(&mut self) -> Response {
        match self.tunnel().await {
            Ok(response) => response,
            Err(status) => fixed::status(self.services, None, status),
        }
    }

    async fn tunnel(&mut self) -> Result<Response, Status> {
        let services = self.services;
        let rules = services.site.forward_proxy.as_ref().ok_or(Status::METHOD_NOT_ALLOWED)?;
        if self.is_too_early() {
            return Err(Status::TOO_EARLY);
        }
        // What the client sends behind the head belongs to the tunnel.
        if self.head.framing.has_body() {
            return Err(Status::BAD_REQUEST);
        }
        let authority = self.head.target.authority().unwrap_or_default();
        let server = self.check_destination(rules, authority)?;
        if services.sheds_cold() {
            return Err(Status::SERVICE_UNAVAILABLE);
        }
        let log = self.upstream.get_or_insert_default().clone();
        let NewConnection { stream, permit, attempt, .. } =
            self.responder.connect_to(&server, self.client, &log).await?;
        attempt.on_connection();
        Ok(self.established(UpgradedConnection::of_stream(stream, Rc::new(permit), attempt)))
    }

    pub(super) fn check_destination(
        &self,
        rules: &ForwardProxy,
        authority: &str,
    ) -> Result<OtherServer, Status> {
        let checked = match self.client {
            Peer::Unknown => Err(ProxyRejection::Client),
            client => rules.check(client.ip(), authority),
        };
        match checked {
            Ok((host, port)) => Ok(OtherServer { authority: authority.to_owned(), host, port }),
            Err(rejection) => {
                self.responder.note_rejected(self.client, authority, &rejection.to_string());
                Err(Status::FORBIDDEN)
            }
        }
    }

    fn established(&self, end: UpgradedConnection) -> Response {
        let head = HeadWriter::new(self.services, None, Status::OK).finish();
        Response { body: Body::Tunnel(Box::new(end)), ..Response::from_head(head) }
    }
}

impl Responder {
    /// A permit for a tunnel or a forwarded request. A worker has a limited number of both together.
    pub(super) fn tunnel_permit(&self, client: Peer, authority: &str) -> Result<Permit, Status> {
        self.upstreams.upgrades.take().ok_or_else(|| {
            self.services.counts.add(Count::UpgradesRejected, 1);
            self.note_rejected(client, authority, "there are too many tunnels; see \"upgraded\"");
            Status::SERVICE_UNAVAILABLE
        })
    }

    /// Connects for a request of this client.
    pub(super) async fn connect_to(
        &self,
        server: &OtherServer,
        client: Peer,
        log: &Rc<UpstreamLog>,
    ) -> Result<NewConnection, Status> {
        let authority = server.authority.as_str();
        let proxy = self.forward_proxy.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
        let permit = self.tunnel_permit(client, authority)?;
        let attempt = log.begin(&authority.into(), Protocol::Http);
        match proxy.connect(server.host.clone(), server.port).await {
            Ok(Connected { stream, address }) => {
                let address: Rc<str> = address.to_string().into();
                attempt.on_endpoint(&address);
                let socket = sys::watch(stream, Interest::READABLE | Interest::WRITABLE);
                let stream = Stream::new(socket.map_err(|_| Status::BAD_GATEWAY)?, None);
                Ok(NewConnection { stream, address, permit, attempt })
            }
            Err(ConnectFailure { failure, why }) => {
                self.note_rejected(client, authority, &why);
                Err(status_of(failure))
            }
        }
    }

    /// Logs why there is no tunnel. A thousand clients may cause it at the same time.
    pub(super) fn note_rejected(&self, client: Peer, authority: &str, why: &str) {
        if let Some(omitted) = self.rejected_tunnels.admit(self.services.clock.now()) {
            let authority = authority.escape_debug();
            log::warn(format_args!(
                "forward proxy: no connection from {client} to {authority}: {why}{omitted}"
            ));
        }
    }
}

fn status_of(failure: Failure) -> Status {
    match failure {
        Failure::Rejected => Status::FORBIDDEN,
        Failure::Failed => Status::BAD_GATEWAY,
        Failure::TimedOut => Status::GATEWAY_TIMEOUT,
        Failure::Busy => Status::SERVICE_UNAVAILABLE,
    }
}
