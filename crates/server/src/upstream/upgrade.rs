//! Requests that ask for another protocol on their connection (RFC 9110 §7.8), such as WebSocket, and the upstream's end
//! of a connection that has got it.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use site::forwarding::Forwarding;
use taipan_http::fields::trim_ows;
use taipan_http::head::{Head, Method, Version};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::log::upstream::AttemptLog;
use crate::pool::PooledConnection;
use crate::response::Tunnel;
use crate::semaphore::Permit;
use crate::sys;

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
    stream: AsyncFd<OwnedFd>,
    /// Received behind the head of the 101.
    received: RefCell<Vec<u8>>,
    /// Of a process that the server manages, which must not end meanwhile.
    _lease: Option<PooledConnection>,
    _permit: Option<Rc<Permit>>,
    attempt: Option<AttemptLog>,
}

impl UpgradedConnection {
    /// A connection to an address does not count as one of its requests any more. Errors: there is no memory, or no
    /// descriptor.
    pub fn new(
        connection: PooledConnection,
        received: Vec<u8>,
        keeps_lease: bool,
        permit: Option<Rc<Permit>>,
        attempt: Option<AttemptLog>,
    ) -> io::Result<UpgradedConnection> {
        // The lease goes back with the descriptor that came with it.
        let descriptor = connection.stream.get_ref().try_clone()?;
        let stream = sys::watch(descriptor, Interest::READABLE | Interest::WRITABLE)?;
        let lease = if keeps_lease { Some(connection) } else { None };
        Ok(UpgradedConnection {
            stream,
            received: RefCell::new(received),
            _lease: lease,
            _permit: permit,
            attempt,
        })
    }
}

impl Tunnel for UpgradedConnection {
    fn take_received(&self) -> Vec<u8> {
        self.received.take()
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.stream.poll_read_ready(cx))?;
            match ready.try_io(|fd| Ok(recv(fd.get_ref(), &mut *buffer, RecvFlags::DONTWAIT)?.0)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(received) => {
                    if let (Some(attempt), Ok(bytes)) = (&self.attempt, &received) {
                        attempt.add_received(*bytes);
                    }
                    return Poll::Ready(received);
                }
                Err(_would_block) => {}
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            let mut ready = ready!(self.stream.poll_write_ready(cx))?;
            match ready.try_io(|fd| Ok(send(fd.get_ref(), bytes, flags)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(sent) => {
                    if let (Some(attempt), Ok(bytes)) = (&self.attempt, &sent) {
                        attempt.add_sent(*bytes);
                    }
                    return Poll::Ready(sent);
                }
                Err(_would_block) => {}
            }
        }
    }

    fn shut_down(&self) {
        // Fails only if the upstream has ended the connection.
        _ = shutdown(self.stream.get_ref(), Shutdown::Write);
    }
}
