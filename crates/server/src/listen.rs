//! Listening sockets as a worker has them: bound by the master, accepted from in the worker's loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketAddrAny, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::peer::Family;
use crate::peer::Peer;
use crate::sys::{self, calls};

/// Connections that may wait in the kernel; it takes no more than net.core.somaxconn.
pub const BACKLOG: i32 = 4096;

/// A bound socket on its way to its worker.
pub enum Socket {
    Tcp(OwnedFd),
    Unix(OwnedFd),
}

/// A socket in a worker's loop.
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    family: Family,
}

impl Socket {
    /// The same socket once more.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(fd) => Socket::Tcp(fd.try_clone()?),
            Socket::Unix(fd) => Socket::Unix(fd.try_clone()?),
        })
    }

    /// Has the kernel take connections, if it does not do so already.
    pub fn open(&self) -> io::Result<()> {
        let (Socket::Tcp(fd) | Socket::Unix(fd)) = self;
        Ok(rustix::net::listen(fd, BACKLOG)?)
    }

    /// Within the worker's runtime.
    pub fn listen(self) -> io::Result<Listener> {
        let (fd, family) = match self {
            Socket::Tcp(fd) => (fd, Family::Tcp),
            Socket::Unix(fd) => (fd, Family::Unix),
        };
        Ok(Listener { fd: sys::watch(fd, Interest::READABLE)?, family })
    }
}

impl Listener {
    /// Waits until a client may be waiting. The guard is cleared where none is.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.fd.readable().await
    }

    /// The next connection, as a socket that does not block and that no other program inherits. Errors:
    /// `WouldBlock` when no client waits.
    pub fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let (fd, address) = calls::accept(self.fd.get_ref(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok((fd, peer(address)))
    }

    /// Do clients wait to be accepted?
    pub fn has_waiting(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    pub fn family(&self) -> Family {
        self.family
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    address.and_then(|a| SocketAddr::try_from(a).ok()).map_or(Peer::Unix, Peer::Ip)
}
