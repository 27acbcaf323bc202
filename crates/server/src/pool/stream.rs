//! The bytes of a connection to an endpoint: a socket, perhaps with a TLS session. Nothing above knows which.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::session::Session;

pub struct Stream {
    socket: AsyncFd<OwnedFd>,
    /// In a box: a session has a thousand bytes, and most connections have none.
    session: Option<Box<RefCell<Session>>>,
}

impl Stream {
    pub fn new(socket: AsyncFd<OwnedFd>, session: Option<Session>) -> Stream {
        Stream { socket, session: session.map(|session| Box::new(RefCell::new(session))) }
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
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            match ready.try_io(|fd| Ok(recv(fd.get_ref(), &mut *buffer, RecvFlags::DONTWAIT)?.0)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(received) => {
                    if received.as_ref().is_ok_and(|length| (1..buffer.len()).contains(length)) {
                        // That was all there is. The arrival of more is an event of its own.
                        ready.clear_ready();
                    }
                    return Poll::Ready(received);
                }
                Err(_would_block) => {}
            }
        }
    }

    /// Takes the start of `bytes`.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(session) = &self.session {
            return session.borrow_mut().poll_write(cx, &self.socket, bytes);
        }
        loop {
            let mut ready = ready!(self.socket.poll_write_ready(cx))?;
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match ready.try_io(|fd| Ok(send(fd.get_ref(), bytes, flags)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(sent) => return Poll::Ready(sent),
                Err(_would_block) => {}
            }
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
            None => is_blocked(peek(self.socket.get_ref())),
        }
    }

    /// As `is_quiet`, but without a system call if there was no event.
    pub fn seems_quiet(&self) -> bool {
        is_blocked(self.socket.try_io(Interest::READABLE, peek))
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
