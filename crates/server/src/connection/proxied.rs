//! Connections to listeners for proxies: each begins with a PROXY header, which names the client. Until it is complete,
//! the kernel keeps its bytes, and the connection has a task that only waits.
//!
//! Knows nothing of what follows the header.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Poll, ready};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use taipan_http::proxy_header::{self, ConnectionOrigin, MAX_HEADER, ProxyHeader, ProxyHeaderError};
use tokio::io::Interest;

use super::table::ConnectionIdentity;
use super::{ConnectionState, Connections, Event, Phase};
use crate::listen::Accepted;
use crate::log;
use crate::peer::{Peer, connection_id};
use crate::stats::Count;
use crate::sys::{self, calls};

/// Why a connection ends before its first request.
enum Failure {
    /// The peer is not a trusted proxy.
    Untrusted,
    Header(ProxyHeaderError),
    /// The proxy has closed, as after a health check, or the connection failed.
    Closed,
    Interrupted(Event),
}

impl From<Errno> for Failure {
    fn from(_: Errno) -> Failure {
        Failure::Closed
    }
}

/// The header that a connection begins with.
pub enum Header {
    /// The peer is now the client that it names.
    Complete(Accepted),
    /// The connection waits for the rest.
    Incomplete(Accepted),
    /// The connection does not begin with a header, and is closed.
    Failed,
}

/// Takes the header off a connection, if it is complete.
pub fn receive(connections: &Connections, accepted: Accepted) -> Header {
    let proxy = accepted.peer;
    let client = match connections.services.site.trusted_proxies.trust(proxy.ip()) {
        true => read(connections, &accepted.fd, proxy),
        false => Err(Failure::Untrusted),
    };
    match client {
        Ok(Some((peer, destination))) => Header::Complete(Accepted { peer, destination, ..accepted }),
        Ok(None) => Header::Incomplete(accepted),
        Err(failure) => {
            on_failure(connections, proxy, failure);
            Header::Failed
        }
    }
}

/// The client that a header names, and the address that it connected to, if the header has it.
type NamedClient = (Peer, Option<SocketAddr>);

/// Takes a complete header off the connection. `None`: it is incomplete.
fn read(connections: &Connections, fd: &OwnedFd, proxy: Peer) -> Result<Option<NamedClient>, Failure> {
    let mut buffer = [0; MAX_HEADER];
    let received = match calls::recv(fd, &mut buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok(0) => return Err(Failure::Closed),
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        received => received?,
    };
    let parsed = proxy_header::parse(&buffer[..received]).map_err(Failure::Header)?;
    let Some(ProxyHeader { length, origin }) = parsed else { return Ok(None) };
    let mut left = length;
    while left > 0 {
        match calls::recv(fd, &mut buffer[..left], RecvFlags::DONTWAIT)? {
            0 => return Err(Failure::Closed),
            taken => left -= taken,
        }
    }
    connections.services.counts.add(Count::Proxied, 1);
    Ok(Some(match origin {
        ConnectionOrigin::Proxy => (proxy, None),
        ConnectionOrigin::Unknown => (Peer::Unknown, None),
        ConnectionOrigin::Client { source, destination } => (Peer::Ip(source), Some(destination)),
    }))
}

/// Waits for the rest of the header. `None`: it has not come, and the connection is closed.
pub async fn wait(connections: &Connections, accepted: Accepted) -> Option<Accepted> {
    let proxy = accepted.peer;
    let identity = ConnectionIdentity { id: connection_id(&accepted.fd), peer: proxy.into() };
    let entry = connections.table.insert(identity, Phase::Head, connections.services.clock.ticks());
    let waited = tokio::select! {
        waited = wait_for_header(connections, &entry.state, accepted) => waited,
        () = connections.services.mode.closing() => Ok(Err(Failure::Closed)),
    };
    match waited {
        Ok(Ok(accepted)) => return Some(accepted),
        Ok(Err(failure)) => on_failure(connections, proxy, failure),
        Err(error) => log::error(format_args!("cannot register a connection: {error}")),
    }
    None
}

async fn wait_for_header(
    connections: &Connections,
    state: &ConnectionState,
    accepted: Accepted,
) -> io::Result<Result<Accepted, Failure>> {
    let Accepted { fd, family, protocols, peer: proxy, .. } = accepted;
    let socket = sys::watch(fd, Interest::READABLE)?;
    let client = poll_fn(|cx| {
        if let Some(event) = state.take_event(cx.waker()) {
            return Poll::Ready(Err(Failure::Interrupted(event)));
        }
        loop {
            let mut ready = ready!(socket.poll_read_ready(cx)).map_err(|_| Failure::Closed)?;
            match read(connections, socket.get_ref(), proxy)? {
                Some(client) => return Poll::Ready(Ok(client)),
                // What is missing does not come any more.
                None if ready.ready().is_read_closed() => return Poll::Ready(Err(Failure::Closed)),
                None => ready.clear_ready(),
            }
        }
    })
    .await;
    let fd = socket.into_inner();
    Ok(client.map(|(peer, destination)| Accepted { fd, family, protocols, peer, destination }))
}

fn on_failure(connections: &Connections, proxy: Peer, failure: Failure) {
    let counts = &connections.services.counts;
    match failure {
        Failure::Closed => {}
        Failure::Interrupted(Event::Evict) => counts.add(Count::EvictedSlow, 1),
        // It is counted.
        Failure::Interrupted(Event::Disconnect) => {}
        Failure::Interrupted(_) => counts.add(Count::TimeoutHead, 1),
        Failure::Untrusted => {
            counts.add(Count::ProxyFailed, 1);
            connections.failures.log_untrusted(proxy);
        }
        Failure::Header(error) => {
            counts.add(Count::ProxyFailed, 1);
            connections.failures.log_header(proxy, error);
        }
    }
}
