//! The connection of a request that outlives its own, for a request that is made later.

use std::net::SocketAddr;

use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::proxies::Via;

use super::ConnectionInfo;
use crate::peer::Peer;
use crate::tls_facts::TlsFacts;

/// A connection, and what is known of its TLS.
pub struct OwnedConnection {
    pub id: Option<ConnectionId>,
    pub client: Peer,
    pub group: AddressGroup,
    pub via: Via,
    pub local: Option<SocketAddr>,
    pub tls: Option<TlsFacts>,
}

impl OwnedConnection {
    pub fn of(connection: &ConnectionInfo<'_>) -> OwnedConnection {
        let ConnectionInfo { id, client, group, via, local, tls } = *connection;
        OwnedConnection { id, client, group, via, local, tls: tls.cloned() }
    }

    pub fn info(&self) -> ConnectionInfo<'_> {
        let OwnedConnection { id, client, group, via, local, ref tls } = *self;
        ConnectionInfo { id, client, group, via, local, tls: tls.as_ref() }
    }
}
