//! The head and the connection of a request that outlives its own: of one that is made for it later.

use std::net::SocketAddr;

use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::proxies::Via;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Head, Method, Names, Persistence, Version};
use taipan_http::target::{Scheme, Target};

use super::ConnectionInfo;
use crate::handshake::TlsFacts;
use crate::peer::Peer;

/// The head of a GET.
pub struct OwnedHead {
    raw_target: String,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    authority: Vec<u8>,
    scheme: Scheme,
    version: Version,
}

/// A connection, and what is known of its TLS.
pub struct OwnedConnection {
    pub id: Option<ConnectionId>,
    pub client: Peer,
    pub group: AddressGroup,
    pub via: Via,
    pub local: Option<SocketAddr>,
    pub tls: Option<TlsFacts>,
}

impl OwnedHead {
    /// The head of a GET for the same, with these fields.
    pub fn of(head: &Head<'_>, fields: &[Field<'_>]) -> OwnedHead {
        OwnedHead {
            raw_target: head.raw_target.to_owned(),
            fields: fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect(),
            authority: head.authority.to_vec(),
            scheme: head.scheme,
            version: head.version,
        }
    }

    pub fn authority(&self) -> &[u8] {
        &self.authority
    }

    pub fn fields(&self) -> Vec<Field<'_>> {
        self.fields.iter().map(|(name, value)| Field { name, value }).collect()
    }

    pub fn head<'h>(&'h self, fields: &'h [Field<'h>]) -> Option<Head<'h>> {
        self.head_for(&self.raw_target, fields)
    }

    /// The same head for another target. `None`: it is not one.
    pub fn head_for<'h>(&'h self, raw_target: &'h str, fields: &'h [Field<'h>]) -> Option<Head<'h>> {
        Some(Head {
            method: Method::Get,
            token: "GET",
            raw_target,
            target: Target::parse(Method::Get, raw_target).ok()?,
            scheme: self.scheme,
            is_early: false,
            version: self.version,
            fields,
            names: names(fields),
            authority: &self.authority,
            persistence: Persistence::KeepAlive,
            framing: Framing::None,
            expects_continue: false,
        })
    }
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

/// The same head with other fields.
pub fn with_fields<'h>(head: &Head<'h>, fields: &'h [Field<'h>]) -> Head<'h> {
    Head { fields, names: names(fields), ..*head }
}

fn names(fields: &[Field<'_>]) -> Names {
    fields.iter().fold(Names::NONE, |names, field| names.union(Names::of(field.name)))
}
