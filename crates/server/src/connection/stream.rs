//! What a connection reads from and sends to: a bare socket while it is idle, a socket of the runtime while it has a
//! task. A stream that encrypts fits here, too: it sends and receives bytes, and lacks what needs the bare socket, which
//! are `try_sendfile`, `segment`, `unacknowledged` and `into_socket`.
//!
//! Knows nothing of what the bytes mean.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::peer::Family;
use crate::sys::{self, calls};

/// Says whether more is sent at once. Then the kernel waits for it before it sends a packet that is not full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    Follows,
    Nothing,
}

/// The sending side of a connection. No function waits.
pub trait SendStream {
    /// Errors: `WouldBlock` where nothing can be sent now.
    fn try_send(&self, bytes: &[u8], more: More) -> io::Result<usize>;

    /// Sends up to `count` bytes of `file` from `at`, which is advanced. `None`: the stream cannot send from a file.
    fn try_sendfile(&self, _file: &OwnedFd, _at: &mut u64, _count: usize) -> Option<io::Result<usize>> {
        None
    }

    /// Bytes of content that fill one packet (`tcp(7)`, TCP_MAXSEG); 1 where the stream does not know.
    fn segment(&self) -> u64 {
        1
    }
}

/// A connected socket that does not block, and that the runtime does not know.
pub struct Socket {
    fd: OwnedFd,
    family: Family,
}

impl Socket {
    pub fn new(fd: OwnedFd, family: Family) -> Socket {
        Socket { fd, family }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// Reads the received bytes that fit into `buffer`. Returns 0 if the client has closed its side.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, rustix::io::Errno> {
        calls::recv(&self.fd, buffer, RecvFlags::DONTWAIT)
    }

    /// Sends an end. The client may still be sending.
    pub fn shut_down(&self) {
        shut_down(&self.fd);
    }

    /// What is not sent yet is dropped when this is closed, and the client receives a reset.
    pub fn reset_when_closed(&self) {
        reset_when_closed(&self.fd);
    }

    /// Bytes that the client has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        sys::unsent(self.fd.as_fd()).unwrap_or(0)
    }

    pub fn as_fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl SendStream for Socket {
    #[inline]
    fn try_send(&self, bytes: &[u8], more: More) -> io::Result<usize> {
        send(self.fd.as_fd(), bytes, more)
    }

    #[inline]
    fn try_sendfile(&self, file: &OwnedFd, at: &mut u64, count: usize) -> Option<io::Result<usize>> {
        Some(sendfile(self.fd.as_fd(), file, at, count))
    }

    fn segment(&self) -> u64 {
        segment(self.fd.as_fd())
    }
}

/// A connected socket of the runtime.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Registers a socket with the runtime.
    pub fn register(socket: Socket) -> io::Result<Stream> {
        Ok(match socket.family {
            Family::Tcp => Stream::Tcp(calls::adopt_tcp(socket.fd)?),
            Family::Unix => Stream::Unix(calls::adopt_unix(socket.fd)?),
        })
    }

    /// The bare socket, which the runtime forgets. `None`: the stream has none, or failed.
    pub fn into_socket(self) -> Option<Socket> {
        Some(match self {
            Stream::Tcp(stream) => Socket::new(stream.into_std().ok()?.into(), Family::Tcp),
            Stream::Unix(stream) => Socket::new(stream.into_std().ok()?.into(), Family::Unix),
        })
    }

    /// Reads the received bytes that fit into `buffer`. Returns 0 if the client has closed its side.
    #[inline]
    pub fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        loop {
            let read = match self {
                Stream::Tcp(stream) => calls::poll_read(stream, cx, &mut buffer),
                Stream::Unix(stream) => calls::poll_read(stream, cx, &mut buffer),
            };
            match ready!(read) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read.map(|()| buffer.filled().len())),
            }
        }
    }

    /// As `poll_receive`, for a stream that is about to be closed. Errors: nothing was received.
    pub fn receive_at_once(&self, buffer: &mut [u8]) -> Result<usize, rustix::io::Errno> {
        calls::recv(self.as_fd(), buffer, RecvFlags::DONTWAIT)
    }

    #[inline]
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// The server's address.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Sends an end. The client may still be sending.
    pub fn shut_down(&self) {
        shut_down(self.as_fd());
    }

    /// What is not sent yet is dropped when this is closed, and the client receives a reset.
    pub fn reset_when_closed(&self) {
        reset_when_closed(self.as_fd());
    }

    /// Undoes `reset_when_closed`.
    pub fn close_normally(&self) {
        _ = sockopt::set_socket_linger(self.as_fd(), None);
    }

    /// Bytes that the client has not acknowledged; 0 where the stream does not know.
    pub fn unacknowledged(&self) -> u64 {
        sys::unsent(self.as_fd()).unwrap_or(0)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    /// Runs `send` unless the socket is known to be full. The runtime notes a `WouldBlock`.
    #[inline]
    fn try_io(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_io(Interest::WRITABLE, || send(stream.as_fd())),
            Stream::Unix(stream) => stream.try_io(Interest::WRITABLE, || send(stream.as_fd())),
        }
    }
}

impl SendStream for Stream {
    #[inline]
    fn try_send(&self, bytes: &[u8], more: More) -> io::Result<usize> {
        self.try_io(|fd| send(fd, bytes, more))
    }

    #[inline]
    fn try_sendfile(&self, file: &OwnedFd, at: &mut u64, count: usize) -> Option<io::Result<usize>> {
        Some(self.try_io(|fd| sendfile(fd, file, at, count)))
    }

    fn segment(&self) -> u64 {
        segment(self.as_fd())
    }
}

/// Sends without a signal when the client has closed.
#[inline]
fn send(fd: BorrowedFd<'_>, bytes: &[u8], more: More) -> io::Result<usize> {
    let flags = match more {
        More::Follows => SendFlags::NOSIGNAL | SendFlags::MORE,
        More::Nothing => SendFlags::NOSIGNAL,
    };
    Ok(calls::send(fd, bytes, flags)?)
}

#[inline]
fn sendfile(fd: BorrowedFd<'_>, file: &OwnedFd, at: &mut u64, count: usize) -> io::Result<usize> {
    Ok(calls::sendfile(fd, file, at, count)?)
}

fn segment(fd: BorrowedFd<'_>) -> u64 {
    let segment = nix::sys::socket::getsockopt(&fd, nix::sys::socket::sockopt::TcpMaxSeg);
    segment.map_or(1, |bytes| u64::from(bytes.max(1)))
}

fn shut_down(fd: impl AsFd) {
    // Fails only when the client has closed.
    _ = rustix::net::shutdown(fd, Shutdown::Write);
}

fn reset_when_closed(fd: impl AsFd) {
    _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}
