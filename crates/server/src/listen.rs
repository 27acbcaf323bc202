//! Listening sockets. The master binds them; a worker accepts connections from them in its loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketAddrAny, SocketFlags};
use site::listener::Protocols;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::peer::{Family, Peer};
use crate::sys::{self, calls};

/// Connections that may wait in the kernel to be accepted, until a configuration says how many. The kernel limits them
/// to net.core.somaxconn, too.
pub const BACKLOG: i32 = 4096;

/// A bound socket of a worker.
#[derive(Clone)]
pub struct Socket {
    /// One descriptor for all who share it: a process may have few.
    pub fd: Arc<OwnedFd>,
    pub family: Family,
    pub protocols: Protocols,
}

/// A listening socket in a worker's loop.
pub struct Listener {
    fd: AsyncFd<Arc<OwnedFd>>,
    family: Family,
    protocols: Protocols,
}

/// A connection that was accepted.
pub struct Accepted {
    /// Does not block.
    pub fd: OwnedFd,
    pub family: Family,
    pub protocols: Protocols,
    /// The client, or a proxy whose header is still to be read.
    pub peer: Peer,
    /// The address that the client connected to, as a proxy reports it. `None`: that of the socket.
    pub destination: Option<SocketAddr>,
}

impl Socket {
    /// Calls listen(2), from which on the kernel completes connections. On a socket that listens already, it changes
    /// only how many may wait.
    pub fn listen(&self, backlog: u16) -> io::Result<()> {
        Ok(rustix::net::listen(&self.fd, backlog.into())?)
    }

    /// Must be called in the worker's runtime.
    pub fn into_listener(self) -> io::Result<Listener> {
        let Socket { fd, family, protocols } = self;
        Ok(Listener { fd: sys::watch(fd, Interest::READABLE)?, family, protocols })
    }
}

impl Listener {
    /// Waits until a connection may be accepted. The caller clears the guard when `accept` returns `WouldBlock`.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, Arc<OwnedFd>>> {
        sys::readable(&self.fd).await
    }

    /// Errors: `WouldBlock` if no connection waits.
    pub fn accept(&self) -> io::Result<Accepted> {
        let (fd, address) = calls::accept(self.fd.get_ref(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        let Listener { family, protocols, .. } = *self;
        Ok(Accepted { fd, family, protocols, peer: peer(address), destination: None })
    }

    /// Whether connections wait to be accepted.
    pub fn has_waiting(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&no_wait)).is_ok_and(|ready| ready > 0)
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    address.and_then(|a| SocketAddr::try_from(a).ok()).map_or(Peer::Unix, Peer::Ip)
}
