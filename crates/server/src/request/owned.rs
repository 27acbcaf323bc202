//! The connection of a request that outlives its own, and heads that are made of another: for a request that is made
//! later.

use std::net::SocketAddr;

use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::proxies::Via;
use taipan_http::fields::is_name;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Head, Method, Names, Persistence};
use taipan_http::target::Target;

use super::ConnectionInfo;
use crate::handshake::TlsFacts;
use crate::peer::Peer;

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

/// The head of a GET for the same, with other fields and without a body.
pub fn as_get<'h>(head: &Head<'h>, fields: &'h [Field<'h>]) -> Head<'h> {
    Head {
        method: Method::Get,
        token: "GET",
        is_early: false,
        persistence: Persistence::KeepAlive,
        framing: Framing::None,
        expects_continue: false,
        ..with_fields(head, fields)
    }
}

/// The same head for another target. `None`: it is not one.
pub fn with_target<'h>(head: &Head<'h>, raw_target: &'h str) -> Option<Head<'h>> {
    Some(Head { raw_target, target: Target::parse(head.method, raw_target).ok()?, ..*head })
}

/// The same head with other fields.
pub fn with_fields<'h>(head: &Head<'h>, fields: &'h [Field<'h>]) -> Head<'h> {
    Head { fields, names: Names::of_fields(fields), ..*head }
}

/// The fields of a head, except those with these names.
pub fn fields_without<'h>(head: &Head<'h>, names: &[&'static str]) -> Vec<Field<'h>> {
    let is_other = |field: &&Field<'_>| !names.iter().any(|name| is_name(field.name, name));
    head.fields.iter().filter(is_other).copied().collect()
}
