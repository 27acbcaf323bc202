//! The bytes of a connection to an endpoint: a socket, perhaps with a TLS session. Nothing above knows which.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt::socket_domain,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::session::Session;
use crate::sys;

pub struct Stream {
    socket: AsyncFd<OwnedFd>,
    /// Which descriptor is watched for the event that the socket takes more.
    space: Space,
    /// In a box: a session has a thousand bytes, and most connections have none.
    session: Option<Box<RefCell<Session>>>,
}

/// The descriptor that is watched for the event that a socket takes more.
enum Space {
    /// The socket itself, which is also watched for input.
    OfSocket,
    /// A second descriptor of the socket, while something waits for the event. The kernel reports it for a Unix socket
    /// whenever the peer has read something, so that each request would wake the worker once more.
    OfCopy(RefCell<Option<AsyncFd<OwnedFd>>>),
}

impl Stream {
    /// `socket` is watched for reading and for writing.
    pub fn new(socket: AsyncFd<OwnedFd>, session: Option<Session>) -> Stream {
        let session = session.map(|session| Box::new(RefCell::new(session)));
        Stream { socket, space: Space::OfSocket, session }
    }

    /// Watches a socket that is connected, or being connected.
    pub fn open(socket: OwnedFd, session: Option<Session>) -> io::Result<Stream> {
        if session.is_none() && socket_domain(&socket)? == AddressFamily::UNIX {
            let socket = sys::watch(socket, Interest::READABLE)?;
            return Ok(Stream { socket, space: Space::OfCopy(RefCell::default()), session: None });
        }
        Ok(Stream::new(sys::watch(socket, Interest::READABLE | Interest::WRITABLE)?, session))
    }

    /// Whether there is a TLS session, in which the endpoint has chosen HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_http2())
    }

    pub fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Begins with another session. Nothing has been sent on this one.
    pub fn replace_session(&self, session: Session) {
        if let Some(own) = &self.session {
            own.replace(session);
        }
    }

    /// Ready when a TLS session, if there is one, has begun.
    pub fn poll_handshake(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.session {
            Some(session) => session.borrow_mut().poll_handshake(cx, &self.socket),
            None => Poll::Ready(Ok(())),
        }
    }

    /// 0: the end.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Some(session) = &self.session {
            return session.borrow_mut().poll_read(cx, &self.socket, buffer);
        }
        sys::poll_read(&self.socket, cx, buffer)
    }

    /// Sends `out` from `sent` on. Ready when all of it is sent.
    pub fn poll_send(&self, cx: &mut Context<'_>, out: &[u8], sent: &mut usize) -> Poll<io::Result<()>> {
        while *sent < out.len() {
            *sent += ready!(self.poll_write(cx, &out[*sent..]))?;
        }
        self.poll_flush(cx)
    }

    /// Sends all of `bytes`.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        poll_fn(|cx| self.poll_send(cx, bytes, &mut sent)).await
    }

    /// Takes the start of `bytes`.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(session) = &self.session {
            return session.borrow_mut().poll_write(cx, &self.socket, bytes);
        }
        loop {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(self.socket.get_ref(), bytes, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready!(self.poll_space(cx))?,
                sent => {
                    let sent = sent?;
                    if sent == bytes.len() {
                        self.end_watch_of_space();
                    }
                    return Poll::Ready(Ok(sent));
                }
            }
        }
    }

    /// Ready when the socket may take more. Called after a `send` that would have blocked.
    fn poll_space(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let copy = match &self.space {
            Space::OfSocket => {
                ready!(self.socket.poll_write_ready(cx))?.clear_ready();
                return Poll::Ready(Ok(()));
            }
            Space::OfCopy(copy) => &mut *copy.borrow_mut(),
        };
        let copy = match copy {
            Some(copy) => copy,
            None => {
                let watched = self.socket.get_ref().try_clone();
                let watched = watched.and_then(|copy| sys::watch(copy, Interest::WRITABLE));
                // What writes leaves errors to what reads, which must then find the end.
                let end = |_: &io::Error| _ = shutdown(self.socket.get_ref(), Shutdown::Both);
                copy.insert(watched.inspect_err(end)?)
            }
        };
        ready!(copy.poll_write_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Ends the watch on the second descriptor: nothing waits to be sent.
    fn end_watch_of_space(&self) {
        if let Space::OfCopy(copy) = &self.space {
            copy.take();
        }
    }

    /// Ready when the socket has what was written.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.session {
            Some(session) => session.borrow_mut().poll_flush(cx, &self.socket),
            None => Poll::Ready(Ok(())),
        }
    }

    /// No more is sent.
    pub fn shut_down(&self) {
        if let Some(session) = &self.session {
            session.borrow_mut().close(self.socket.get_ref());
        }
        // Fails only if the endpoint has ended the connection.
        _ = shutdown(self.socket.get_ref(), Shutdown::Write);
    }

    /// `false`: the endpoint has closed it, or has sent something. Looks at the socket even if no event has come.
    pub fn is_quiet(&self) -> bool {
        match &self.session {
            Some(session) => session.borrow_mut().is_open(self.socket.get_ref()),
            None => !self.has_unread(),
        }
    }

    /// Whether the endpoint has closed it or sent something that the socket still has, perhaps a record of the TLS
    /// session itself. Looks at the socket even if no event has come, and leaves it as it is.
    pub fn has_unread(&self) -> bool {
        !is_blocked(peek(self.socket.get_ref()))
    }

    /// As `is_quiet`, but without a system call if there was no event. With TLS, it is `is_quiet`: records of the
    /// session itself, such as tickets, are events, too.
    pub fn seems_quiet(&self) -> bool {
        match &self.session {
            Some(_) => self.is_quiet(),
            None => is_blocked(self.socket.try_io(Interest::READABLE, peek)),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.get_mut().close(self.socket.get_ref());
        }
    }
}

fn peek(socket: &OwnedFd) -> io::Result<usize> {
    Ok(recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0)
}

fn is_blocked(peeked: io::Result<usize>) -> bool {
    peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;
    use std::thread;

    use super::*;

    #[test]
    fn a_full_unix_socket_takes_more_when_its_peer_has_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (own, mut peer) = UnixStream::pair().unwrap();
            own.set_nonblocking(true).unwrap();
            let stream = Stream::open(own.into(), None).unwrap();
            let is_watched =
                |stream: &Stream| matches!(&stream.space, Space::OfCopy(copy) if copy.borrow().is_some());
            let (chunk, mut sent) = ([b'x'; 64 * 1024], 0);
            // Bounded by what the kernel buffers.
            while let Poll::Ready(written) =
                stream.poll_write(&mut Context::from_waker(Waker::noop()), &chunk)
            {
                assert!(!is_watched(&stream));
                sent += written.unwrap();
            }
            assert!(is_watched(&stream));
            let reader = thread::spawn(move || {
                peer.read_exact(&mut vec![0; sent]).unwrap();
                let mut last = [0];
                peer.read_exact(&mut last).unwrap();
                last
            });
            assert_eq!(poll_fn(|cx| stream.poll_write(cx, b"y")).await.unwrap(), 1);
            assert!(!is_watched(&stream), "nothing waits");
            assert_eq!(reader.join().unwrap(), *b"y");
        });
    }
}
