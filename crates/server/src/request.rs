//! A request: its head, its body and its connection. Knows nothing of the protocol by which it came.

pub mod body;
pub mod interim;
pub mod owned;
pub mod throttled;

use std::net::SocketAddr;

use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::proxies::Via;
use taipan_http::fields::host_and_port;
use taipan_http::head::Head;
use taipan_http::target::Scheme;

use self::interim::SendInterim;
use crate::peer::Peer;
use crate::tls_facts::TlsFacts;

#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub head: &'a Head<'a>,
    pub connection: ConnectionInfo<'a>,
    /// `None`: its client takes no interim responses.
    pub interim: Option<&'a dyn SendInterim>,
}

/// The connection by which a request came.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionInfo<'a> {
    /// `None`: it is not known, or there is none.
    pub id: Option<ConnectionId>,
    pub client: Peer,
    /// The hosts that the connection may have.
    pub group: AddressGroup,
    /// Whether a trusted proxy has sent the request for the client.
    pub via: Via,
    /// The address of the server. `None`: a Unix socket.
    pub local: Option<SocketAddr>,
    /// `None`: it has no TLS.
    pub tls: Option<&'a TlsFacts>,
}

impl ConnectionInfo<'_> {
    /// The port of the server, as the client of this request knows it.
    pub fn server_port(&self, head: &Head<'_>) -> u16 {
        match (self.via, self.local) {
            (Via::Nothing, Some(local)) => local.port(),
            // The port that the client knows is the proxy's, or is not known.
            _ => {
                let authority = std::str::from_utf8(head.authority).unwrap_or_default();
                host_and_port(authority).1.unwrap_or(head.scheme.default_port())
            }
        }
    }
}

/// How a request has arrived. What only a few requests need is looked up when it is needed.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub via: Via,
    /// That of the connection, whatever a trusted proxy says.
    pub scheme: Scheme,
    /// As in `ConnectionInfo`.
    pub tls: Option<&'a TlsFacts>,
    /// Finds the local address, as in `ConnectionInfo`.
    pub local: &'a dyn Fn() -> Option<SocketAddr>,
}
