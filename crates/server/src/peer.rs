//! The address of the other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use site::access::ClientAddress;
use site::disconnect::ConnectionId;

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
    /// A client of a trusted proxy, which does not tell its address.
    Unknown,
}

/// A peer in 20 bytes, for connections that are idle. An IPv6 address has no zone here.
#[derive(Debug, Clone, Copy)]
pub struct CompactPeer {
    ip: [u8; 16],
    port: u16,
    kind: PeerKind,
}

#[derive(Debug, Clone, Copy)]
enum PeerKind {
    Ipv4,
    Ipv6,
    Unix,
    Unknown,
}

impl From<Peer> for CompactPeer {
    fn from(peer: Peer) -> CompactPeer {
        match peer {
            Peer::Unix => CompactPeer { ip: [0; 16], port: 0, kind: PeerKind::Unix },
            Peer::Unknown => CompactPeer { ip: [0; 16], port: 0, kind: PeerKind::Unknown },
            Peer::Ip(address) => {
                let (ip, kind) = match address.ip() {
                    IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), PeerKind::Ipv4),
                    IpAddr::V6(ip) => (ip.octets(), PeerKind::Ipv6),
                };
                CompactPeer { ip, port: address.port(), kind }
            }
        }
    }
}

impl CompactPeer {
    /// Bytes in a message.
    pub const BYTES: usize = 19;

    pub fn to_bytes(self) -> [u8; CompactPeer::BYTES] {
        let kind = match self.kind {
            PeerKind::Unix => 0,
            PeerKind::Ipv4 => 4,
            PeerKind::Ipv6 => 6,
            PeerKind::Unknown => 255,
        };
        let [high, low] = self.port.to_be_bytes();
        let mut bytes = [0; CompactPeer::BYTES];
        bytes[..3].copy_from_slice(&[kind, high, low]);
        bytes[3..].copy_from_slice(&self.ip);
        bytes
    }

    /// `None`: `bytes` are not a peer.
    pub fn from_bytes(bytes: [u8; CompactPeer::BYTES]) -> Option<CompactPeer> {
        let [kind, high, low, ip @ ..] = bytes;
        let kind = match kind {
            0 => PeerKind::Unix,
            4 => PeerKind::Ipv4,
            6 => PeerKind::Ipv6,
            255 => PeerKind::Unknown,
            _ => return None,
        };
        Some(CompactPeer { ip, port: u16::from_be_bytes([high, low]), kind })
    }
}

impl From<CompactPeer> for Peer {
    fn from(peer: CompactPeer) -> Peer {
        let [.., a, b, c, d] = peer.ip;
        let ip = match peer.kind {
            PeerKind::Unix => return Peer::Unix,
            PeerKind::Unknown => return Peer::Unknown,
            PeerKind::Ipv4 => IpAddr::from([a, b, c, d]),
            PeerKind::Ipv6 => IpAddr::from(peer.ip),
        };
        Peer::Ip(SocketAddr::new(ip, peer.port))
    }
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
            Peer::Unix | Peer::Unknown => None,
        }
    }

    /// As rules of access ask for it.
    pub fn address(self) -> ClientAddress {
        match self {
            Peer::Ip(address) => ClientAddress::Ip(address.ip().to_canonical()),
            Peer::Unix => ClientAddress::Unix,
            Peer::Unknown => ClientAddress::Unknown,
        }
    }

    pub fn port(self) -> Option<u16> {
        match self {
            Peer::Ip(address) => Some(address.port()).filter(|port| *port != 0),
            Peer::Unix | Peer::Unknown => None,
        }
    }
}

/// By which an administrator names the connection of this socket.
pub fn connection_id(socket: impl AsFd) -> Option<ConnectionId> {
    // Fails only in a kernel that has no such numbers.
    rustix::net::sockopt::socket_cookie(socket).ok().and_then(ConnectionId::new)
}

/// The addresses that count as one client: an IPv4 address, or the first 64 bits of an IPv6 address.
pub fn counted_address(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The IP address, or `unix`, or `unknown`.
impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ip(address) => write!(out, "{}", address.ip().to_canonical()),
            Peer::Unix => out.write_str("unix"),
            Peer::Unknown => out.write_str("unknown"),
        }
    }
}

impl From<(IpAddr, Option<u16>)> for Peer {
    fn from((address, port): (IpAddr, Option<u16>)) -> Peer {
        Peer::Ip(SocketAddr::new(address, port.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_peer_is_the_same_peer() {
        let addresses = ["192.0.2.1:80", "[2001:db8::1]:65535", "[::ffff:192.0.2.1]:0", "0.0.0.0:0"];
        let peers = addresses.map(|text| Peer::Ip(text.parse().expect(text)));
        for peer in peers.into_iter().chain([Peer::Unix, Peer::Unknown]) {
            let compact = CompactPeer::from(peer);
            assert_eq!(Peer::from(compact), peer);
            assert_eq!(CompactPeer::from_bytes(compact.to_bytes()).map(Peer::from), Some(peer));
        }
    }
}
