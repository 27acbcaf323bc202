//! The system calls of a connection, and the fault that each error means. Knows nothing of HTTP.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::run::Fault;

/// A new socket, connected or connecting.
#[derive(Debug)]
pub enum Opened {
    Connected(OwnedFd),
    Connecting(OwnedFd),
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Bytes(usize),
    Nothing,
    End,
    Lost(Fault),
}

/// All events of a connection. Edge-triggered, so `OUT` costs nothing while the send buffer has room.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Receive buffer of a slow reader, in bytes. A larger one would let the kernel read ahead.
pub const SLOW_READER_BUFFER: usize = 4096;

/// Nonblocking. Errors: the fault of the attempt, if it is known at once.
pub fn tcp(to: &SocketAddr, from: Option<IpAddr>, receive_buffer: Option<usize>) -> Result<Opened, Fault> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = new_socket(family)?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(fault_of)?;
    if let Some(bytes) = receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes).map_err(fault_of)?;
    }
    if let Some(from) = from {
        // Otherwise bind reserves a port for this address regardless of the server, and there are only 28,000.
        let _ = nix::sys::socket::setsockopt(&socket, IpBindAddressNoPort, &true);
        net::bind(&socket, &SocketAddr::new(from, 0)).map_err(fault_of)?;
    }
    match net::connect(&socket, to) {
        Ok(()) => Ok(Opened::Connected(socket)),
        Err(Errno::INPROGRESS) => Ok(Opened::Connecting(socket)),
        Err(error) => Err(fault_of(error)),
    }
}

/// Nonblocking. Errors: the fault of the attempt.
pub fn unix(path: &Path, receive_buffer: Option<usize>) -> Result<Opened, Fault> {
    let address = SocketAddrUnix::new(path).map_err(|_| Fault::Unreachable)?;
    let socket = new_socket(AddressFamily::UNIX)?;
    if let Some(bytes) = receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes).map_err(fault_of)?;
    }
    match net::connect(&socket, &address) {
        Ok(()) => Ok(Opened::Connected(socket)),
        // Unix sockets do not connect in the background: the listener's queue is full.
        Err(Errno::AGAIN) => Err(Fault::Refused),
        Err(error) => Err(fault_of(error)),
    }
}

fn new_socket(family: AddressFamily) -> Result<OwnedFd, Fault> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None).map_err(fault_of)
}

/// Has epoll report all events of the socket with `index`. Errors: the kernel has no space for it.
pub fn watch(epoll: &OwnedFd, socket: &OwnedFd, index: usize) -> Result<(), Fault> {
    epoll::add(epoll, socket, EventData::new_u64(index as u64), INTEREST).map_err(fault_of)
}

/// The error of a connection attempt, if it failed.
pub fn pending_error(socket: &OwnedFd) -> Option<Fault> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(fault_of(error)),
    }
}

/// Reads once, without waiting.
#[inline]
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    received(net::recv(socket, buffer, RecvFlags::empty()).map(|(count, _)| count))
}

/// Reads up to the length of `buffer` and discards it in the kernel; the buffer is not written to.
#[inline]
pub fn discard(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    received(net::recv(socket, buffer, RecvFlags::TRUNC).map(|(_, count)| count))
}

#[inline]
fn received(result: Result<usize, Errno>) -> Received {
    match result {
        Ok(0) => Received::End,
        Ok(count) => Received::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(error) => Received::Lost(fault_of(error)),
    }
}

/// How many bytes the socket took; 0 when it is full.
#[inline]
pub fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Fault> {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(fault_of(error)),
    }
}

/// The server reads the end of the stream.
pub fn shut_down_writing(socket: &OwnedFd) {
    // If the peer has closed, the next read reports it.
    let _ = net::shutdown(socket, net::Shutdown::Write);
}

/// Makes close send RST, as from a client that crashed.
pub fn reset_on_close(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Raises the soft limit of descriptors to the hard limit.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, running out of descriptors is reported as the client's fault.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The fault that an error of a socket means.
pub fn fault_of(error: Errno) -> Fault {
    match error {
        Errno::CONNREFUSED | Errno::NOENT => Fault::Refused,
        Errno::TIMEDOUT => Fault::Timeout,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::NOBUFS => Fault::NoPorts,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC => Fault::NoDescriptors,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::NOTCONN => Fault::Reset,
        _ => Fault::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Side;

    #[test]
    fn blames_the_client_for_its_own_limits() {
        for (error, expected, side) in [
            (Errno::ADDRNOTAVAIL, Fault::NoPorts, Side::Client),
            (Errno::ADDRINUSE, Fault::NoPorts, Side::Client),
            (Errno::MFILE, Fault::NoDescriptors, Side::Client),
            (Errno::NFILE, Fault::NoDescriptors, Side::Client),
            (Errno::CONNREFUSED, Fault::Refused, Side::Server),
            (Errno::CONNRESET, Fault::Reset, Side::Server),
            (Errno::PIPE, Fault::Reset, Side::Server),
            (Errno::TIMEDOUT, Fault::Timeout, Side::Server),
            (Errno::NETUNREACH, Fault::Unreachable, Side::Server),
        ] {
            assert_eq!((fault_of(error), fault_of(error).side()), (expected, side), "{error}");
        }
    }
}
