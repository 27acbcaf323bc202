//! The address of the other end of a connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// The address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Tcp,
    Unix,
}

/// The client's address: that of the socket, or the one that a trusted proxy reports. A port of 0 is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Ip(SocketAddr),
    Unix,
}

impl Peer {
    /// The peer of a connected socket, and the socket's family.
    pub fn of(fd: &OwnedFd) -> Option<(Family, Peer)> {
        let any = rustix::net::getpeername(fd).ok()??;
        match SocketAddr::try_from(any) {
            Ok(address) => Some((Family::Tcp, Peer::Ip(address))),
            Err(_) => Some((Family::Unix, Peer::Unix)),
        }
    }

    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Ip(address) => Some(address.ip().to_canonical()),
            Peer::Unix => None,
        }
    }

    pub fn port(self) -> Option<u16> {
        match self {
            Peer::Ip(address) => Some(address.port()).filter(|port| *port != 0),
            Peer::Unix => None,
        }
    }
}

impl From<(IpAddr, Option<u16>)> for Peer {
    fn from((address, port): (IpAddr, Option<u16>)) -> Peer {
        Peer::Ip(SocketAddr::new(address, port.unwrap_or(0)))
    }
}
