//! A request on its way to what answers it. Knows nothing of the protocol that it came by.

pub mod body;

use std::net::SocketAddr;

use site::proxies::Via;
use taipan_http::head::Head;

use crate::peer::Peer;

/// A request, and the connection that it came by.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub head: &'a Head<'a>,
    pub connection: ConnectionInfo,
}

/// Who has made a request, how it has come, and our end of the connection that it came by.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionInfo {
    pub client: Peer,
    pub via: Via,
    pub local: Option<SocketAddr>,
}
