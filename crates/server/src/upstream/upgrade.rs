//! Requests that ask for another protocol on their connection (RFC 9110 §7.8), such as WebSocket, and the upstream's
//! end of a connection that has got it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use site::forwarding::Forwarding;
use taipan_http::fields::trim_ows;
use taipan_http::head::{Head, Method, Names, Version};

use crate::log::upstream::AttemptLog;
use crate::pool::{PooledConnection, Stream};
use crate::response::{Tunnel, TunnelError};
use crate::semaphore::Permit;
use crate::sys;

/// A request for another protocol, which the upstream may grant or ignore.
#[derive(Clone)]
pub struct Upgrade {
    pub protocol: Rc<str>,
    /// Held as long as the connection has the protocol.
    pub permit: Option<Rc<Permit>>,
    pub by: AskedBy,
}

/// How the client has asked.
#[derive(Clone)]
pub enum AskedBy {
    /// With `Upgrade`, by HTTP/1.1.
    Upgrade,
    /// With an extended CONNECT, by HTTP/2 (RFC 8441). The upstream is asked with `Upgrade`, for WebSocket with a key
    /// of this server (RFC 6455 §4.1).
    Connect { key: Option<Rc<str>> },
}

const WEBSOCKET: &str = "websocket";
/// RFC 6455 §1.3.
const ACCEPT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

impl Upgrade {
    /// The protocol that the request asks for, if the route allows it. A request with a body, or by HTTP/1.0, cannot
    /// ask.
    pub fn requested(head: &Head<'_>, forwarding: &Forwarding) -> Option<Upgrade> {
        if !head.names.contains(Names::UPGRADE) {
            return None;
        }
        let is_plain =
            head.version != Version::Http10 && head.method == Method::Get && !head.framing.has_body();
        let mut options = head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        if !is_plain || !options.any(|option| trim_ows(option).eq_ignore_ascii_case(b"upgrade")) {
            return None;
        }
        let mut values = head.values("upgrade");
        let (value, None) = (values.next()?, values.next()) else { return None };
        let allowed = |protocol: &&String| protocol.as_bytes().eq_ignore_ascii_case(trim_ows(value));
        let protocol = forwarding.upgrades.iter().find(allowed)?;
        let by = match is_extended_connect(head) {
            false => AskedBy::Upgrade,
            true if protocol.eq_ignore_ascii_case(WEBSOCKET) => AskedBy::Connect { key: Some(key()?) },
            true => AskedBy::Connect { key: None },
        };
        Some(Upgrade { protocol: protocol.as_str().into(), permit: None, by })
    }

    pub fn is_websocket(&self) -> bool {
        self.protocol.eq_ignore_ascii_case(WEBSOCKET)
    }

    pub fn is_by_connect(&self) -> bool {
        matches!(self.by, AskedBy::Connect { .. })
    }

    /// The key of this server.
    pub fn key(&self) -> Option<&str> {
        match &self.by {
            AskedBy::Connect { key } => key.as_deref(),
            AskedBy::Upgrade => None,
        }
    }

    /// Whether the upstream has accepted the key of this server, if it got one.
    pub fn is_accepted(&self, accept: Option<&[u8]>) -> bool {
        self.key().is_none_or(|key| accept == Some(self::accept(key).as_bytes()))
    }
}

/// Whether the head stands for an extended CONNECT, as no field of HTTP/2 does (RFC 9113 §8.2.2).
pub fn is_extended_connect(head: &Head<'_>) -> bool {
    head.version == Version::Http2 && head.value("upgrade").is_some()
}

/// The value of `Sec-WebSocket-Accept` (RFC 6455 §4.2.2).
fn accept(key: &str) -> String {
    BASE64_STANDARD.encode(Sha1::new().chain_update(key).chain_update(ACCEPT).finalize())
}

/// A value of `Sec-WebSocket-Key`. `None`: the kernel has no random bytes.
fn key() -> Option<Rc<str>> {
    let mut bytes = [0; 16];
    sys::random(&mut bytes).ok().map(|()| BASE64_STANDARD.encode(bytes).into())
}

/// The upstream's end.
pub struct UpgradedConnection {
    stream: Rc<Stream>,
    /// Received behind the head of the 101.
    received: RefCell<Vec<u8>>,
    /// Held: the endpoint has the connection as a part of its load. `None`: it is that of a tunnel.
    _connection: Option<Box<PooledConnection>>,
    _permit: Option<Rc<Permit>>,
    attempt: Option<AttemptLog>,
}

impl UpgradedConnection {
    /// Such a connection to an address leaves its place to others. A process that the server manages has it as one of
    /// its requests, and must not end meanwhile.
    pub fn new(
        mut connection: Box<PooledConnection>,
        received: Vec<u8>,
        is_managed: bool,
        permit: Option<Rc<Permit>>,
        attempt: Option<AttemptLog>,
    ) -> UpgradedConnection {
        connection.begin_protocol();
        if !is_managed {
            connection.leave_capacity();
        }
        UpgradedConnection {
            stream: connection.stream.clone(),
            received: RefCell::new(received),
            _connection: Some(connection),
            _permit: permit,
            attempt,
        }
    }

    /// Of a forward proxy: the bytes follow the head of a response to CONNECT.
    pub fn of_stream(stream: Stream, permit: Rc<Permit>, attempt: AttemptLog) -> UpgradedConnection {
        UpgradedConnection {
            stream: Rc::new(stream),
            received: RefCell::default(),
            _connection: None,
            _permit: Some(permit),
            attempt: Some(attempt),
        }
    }
}

impl Tunnel for UpgradedConnection {
    fn take_received(&self) -> Vec<u8> {
        self.received.take()
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, TunnelError>> {
        let received = self.stream.poll_read(cx, buffer);
        if let (Some(attempt), Poll::Ready(Ok(bytes))) = (&self.attempt, &received) {
            attempt.add_received(*bytes);
        }
        received.map_err(TunnelError::Upstream)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = self.stream.poll_write(cx, bytes);
        if let (Some(attempt), Poll::Ready(Ok(bytes))) = (&self.attempt, &sent) {
            attempt.add_sent(*bytes);
        }
        sent
    }

    fn shut_down(&self) {
        self.stream.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_key_as_the_rfc_does() {
        // RFC 6455 §1.3.
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let upgrade = |key: Option<&str>| Upgrade {
            protocol: WEBSOCKET.into(),
            permit: None,
            by: AskedBy::Connect { key: key.map(Into::into) },
        };
        let sample = upgrade(Some("dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(sample.is_accepted(Some(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
        assert!(!sample.is_accepted(Some(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOO=")));
        assert!(!sample.is_accepted(None));
        assert!(upgrade(None).is_accepted(None));
        assert_ne!(key(), key());
    }
}
