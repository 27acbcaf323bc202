//! What the other side of a connection on this machine has not read, as the kernel says by sock_diag(7). The table in
//! `/proc/net/tcp` has all connections of the machine, of which other tests have thousands.

use std::net::{SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// `SOCK_DIAG_BY_FAMILY`, of a request and of its response.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const TCP: u8 = 6;
/// Where `idiag_rqueue` is, behind a `nlmsghdr`.
const QUEUE: usize = 16 + 56;

/// Bytes in the receive queue of the other side; 0 if it has closed.
pub fn unread(stream: &TcpStream) -> u32 {
    let (ours, theirs) = (stream.local_addr(), stream.peer_addr());
    let [SocketAddr::V4(ours), SocketAddr::V4(theirs)] = [ours, theirs].map(|end| end.expect("it is open"))
    else {
        panic!("only IPv4 is needed here")
    };
    let padded = |end: &SocketAddrV4| [&end.ip().octets()[..], &[0; 12]].concat();
    let any_state = [0xff; 4];
    let any_interface = [0; 4];
    let any_cookie = [0xff; 8];
    let body = [
        &[AddressFamily::INET.as_raw() as u8, TCP, 0, 0][..],
        &any_state,
        // The other side is the local one of the socket that is asked for.
        &theirs.port().to_be_bytes(),
        &ours.port().to_be_bytes(),
        &padded(&theirs),
        &padded(&ours),
        &any_interface,
        &any_cookie,
    ]
    .concat();
    let head = [
        &(16 + body.len() as u32).to_ne_bytes()[..],
        &BY_FAMILY.to_ne_bytes(),
        &REQUEST.to_ne_bytes(),
        &[0; 8],
    ]
    .concat();
    let kernel = socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(SOCK_DIAG)).expect("a socket");
    send(&kernel, &[head, body].concat(), SendFlags::empty()).expect("the kernel receives");
    let mut response = [0; 4096];
    let (length, _) = recv(&kernel, &mut response, RecvFlags::empty()).expect("the kernel responds");
    let number = |at: usize| response[at..at + 4].try_into().map(u32::from_ne_bytes).expect("four bytes");
    match u16::from_ne_bytes([response[4], response[5]]) {
        BY_FAMILY if length >= QUEUE + 4 => number(QUEUE),
        _ => 0,
    }
}
