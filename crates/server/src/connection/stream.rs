//! A connected socket, whatever family it is of: reads, sends, and sends from files.
//!
//! Knows nothing of what the bytes mean.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::net::{SendFlags, Shutdown, sockopt};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::peer::Family;
use crate::sys::calls;

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Is there more to come at once? Then the kernel waits for it before it sends a packet that is not full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    Follows,
    Nothing,
}

impl Stream {
    /// Into the unfilled part of `buf`; nothing filled means that the peer has closed its side.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(s) => calls::poll_read(s, cx, buf),
            Stream::Unix(s) => calls::poll_read(s, cx, buf),
        }
    }

    /// As many bytes as there are and as fit; 0 means that the peer has closed its side.
    #[inline]
    pub fn poll_receive(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        loop {
            match ready!(self.poll_read(cx, &mut buf)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read.map(|()| buf.filled().len())),
            }
        }
    }

    /// Our end.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(s) => s.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    #[inline]
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(s) => s.poll_write_ready(cx),
            Stream::Unix(s) => s.poll_write_ready(cx),
        }
    }

    /// As the function of that name.
    pub fn shut_down(&self) {
        shut_down(self);
    }

    /// As `reset_when_closed`.
    pub fn reset(&self) {
        reset_when_closed(self);
    }

    /// Takes `reset` back.
    pub fn end_well(&self) {
        _ = sockopt::set_socket_linger(self.as_fd(), None);
    }

    /// The bare socket, which this runtime forgets.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Stream::Tcp(s) => s.into_std()?.into(),
            Stream::Unix(s) => s.into_std()?.into(),
        })
    }

    /// Bytes that are sent but that the peer has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        crate::sys::unsent(self.as_fd()).unwrap_or(0)
    }

    /// Takes up a bare socket.
    pub fn adopt(fd: OwnedFd, family: Family) -> io::Result<Stream> {
        Ok(match family {
            Family::Tcp => Stream::Tcp(calls::adopt_tcp(fd)?),
            Family::Unix => Stream::Unix(calls::adopt_unix(fd)?),
        })
    }

    pub fn family(&self) -> Family {
        match self {
            Stream::Tcp(_) => Family::Tcp,
            Stream::Unix(_) => Family::Unix,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// Something that bytes can be written to without waiting.
pub trait Wire {
    /// Runs `send` on the descriptor, if it is not known to be full; a `WouldBlock` is remembered.
    fn try_write<T>(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T>;

    fn fd(&self) -> BorrowedFd<'_>;

    /// Bytes of content that fill one packet (`tcp(7)`, TCP_MAXSEG); 1 where there are no packets.
    fn segment(&self) -> u64 {
        let segment = nix::sys::socket::getsockopt(&self.fd(), nix::sys::socket::sockopt::TcpMaxSeg);
        segment.map_or(1, |bytes| u64::from(bytes.max(1)))
    }
}

impl Wire for Stream {
    #[inline]
    fn try_write<T>(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        match self {
            Stream::Tcp(s) => s.try_io(Interest::WRITABLE, || send(s.as_fd())),
            Stream::Unix(s) => s.try_io(Interest::WRITABLE, || send(s.as_fd())),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

/// A socket that no runtime knows.
pub struct Bare<'a>(pub BorrowedFd<'a>);

impl Wire for Bare<'_> {
    #[inline]
    fn try_write<T>(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        send(self.0)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

/// No more will be sent; the peer reads an end.
pub fn shut_down(fd: impl AsFd) {
    // Fails only when the peer is gone, and then there is nobody to tell.
    _ = rustix::net::shutdown(fd, Shutdown::Write);
}

/// What is not sent yet is forgotten when this is closed, however that comes, and the peer reads a reset.
pub fn reset_when_closed(fd: impl AsFd) {
    _ = sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO));
}

/// One send; never a signal when the peer is gone.
#[inline]
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], more: More) -> io::Result<usize> {
    let flags = match more {
        More::Follows => SendFlags::NOSIGNAL | SendFlags::MORE,
        More::Nothing => SendFlags::NOSIGNAL,
    };
    Ok(calls::send(fd, bytes, flags)?)
}
