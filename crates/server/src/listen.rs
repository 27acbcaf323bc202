//! Listening sockets. The master binds them; a worker accepts connections from them in its loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketAddrAny, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::peer::{Family, Peer};
use crate::sys::{self, calls};

/// Connections that may wait in the kernel to be accepted. The kernel limits them to net.core.somaxconn, too.
pub const BACKLOG: i32 = 4096;

/// A bound socket of a worker.
pub enum Socket {
    Tcp(OwnedFd),
    Unix(OwnedFd),
}

/// A listening socket in a worker's loop.
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    family: Family,
}

impl Socket {
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(fd) => Socket::Tcp(fd.try_clone()?),
            Socket::Unix(fd) => Socket::Unix(fd.try_clone()?),
        })
    }

    /// Calls listen(2), from which on the kernel completes connections. Does nothing on a socket that listens already.
    pub fn listen(&self) -> io::Result<()> {
        let (Socket::Tcp(fd) | Socket::Unix(fd)) = self;
        Ok(rustix::net::listen(fd, BACKLOG)?)
    }

    /// Must be called in the worker's runtime.
    pub fn into_listener(self) -> io::Result<Listener> {
        let (fd, family) = match self {
            Socket::Tcp(fd) => (fd, Family::Tcp),
            Socket::Unix(fd) => (fd, Family::Unix),
        };
        Ok(Listener { fd: sys::watch(fd, Interest::READABLE)?, family })
    }
}

impl Listener {
    /// Waits until a connection may be accepted. The caller clears the guard when `accept` returns `WouldBlock`.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.fd.readable().await
    }

    /// Returns a non-blocking socket. Errors: `WouldBlock` if no connection waits.
    pub fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let (fd, address) = calls::accept(self.fd.get_ref(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok((fd, peer(address)))
    }

    /// Whether connections wait to be accepted.
    pub fn has_waiting(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&no_wait)).is_ok_and(|ready| ready > 0)
    }

    pub fn family(&self) -> Family {
        self.family
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    address.and_then(|a| SocketAddr::try_from(a).ok()).map_or(Peer::Unix, Peer::Ip)
}
