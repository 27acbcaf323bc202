//! Requests that ask for another protocol on their connection (RFC 9110 §7.8), such as WebSocket, and the upstream's end
//! of a connection that has got it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use site::forwarding::Forwarding;
use taipan_http::fields::trim_ows;
use taipan_http::head::{Head, Method, Version};

use crate::log::upstream::AttemptLog;
use crate::pool::{PooledConnection, Stream};
use crate::response::Tunnel;
use crate::semaphore::Permit;

/// A request for another protocol, which the upstream may grant or ignore.
#[derive(Clone)]
pub struct Upgrade {
    pub protocol: Rc<str>,
    /// Held as long as the connection has the protocol.
    pub permit: Option<Rc<Permit>>,
}

impl Upgrade {
    /// The protocol that the request asks for, if the route allows it. A request with a body, or by another version than
    /// HTTP/1.1, cannot ask.
    pub fn requested(head: &Head<'_>, forwarding: &Forwarding) -> Option<Upgrade> {
        let is_plain =
            head.version == Version::Http11 && head.method == Method::Get && !head.framing.has_body();
        let mut options = head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        if !is_plain || !options.any(|option| trim_ows(option).eq_ignore_ascii_case(b"upgrade")) {
            return None;
        }
        let mut values = head.values("upgrade");
        let (value, None) = (values.next()?, values.next()) else { return None };
        let allowed = |protocol: &&String| protocol.as_bytes().eq_ignore_ascii_case(trim_ows(value));
        let protocol = forwarding.upgrades.iter().find(allowed)?;
        Some(Upgrade { protocol: protocol.as_str().into(), permit: None })
    }
}

/// The upstream's end.
pub struct UpgradedConnection {
    stream: Rc<Stream>,
    /// Received behind the head of the 101.
    received: RefCell<Vec<u8>>,
    /// Of a process that the server manages, which must not end meanwhile.
    _lease: Option<PooledConnection>,
    _permit: Option<Rc<Permit>>,
    attempt: Option<AttemptLog>,
}

impl UpgradedConnection {
    /// A connection to an address does not count as one of its requests any more.
    pub fn new(
        connection: PooledConnection,
        received: Vec<u8>,
        keeps_lease: bool,
        permit: Option<Rc<Permit>>,
        attempt: Option<AttemptLog>,
    ) -> UpgradedConnection {
        let stream = connection.stream.clone();
        let lease = if keeps_lease { Some(connection) } else { None };
        UpgradedConnection {
            stream,
            received: RefCell::new(received),
            _lease: lease,
            _permit: permit,
            attempt,
        }
    }
}

impl Tunnel for UpgradedConnection {
    fn take_received(&self) -> Vec<u8> {
        self.received.take()
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let received = self.stream.poll_read(cx, buffer);
        if let (Some(attempt), Poll::Ready(Ok(bytes))) = (&self.attempt, &received) {
            attempt.add_received(*bytes);
        }
        received
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
