//! The TLS session of a connection to an endpoint. It has no socket of its own.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ClientConnection;
use tokio::io::unix::AsyncFd;

use crate::sys;
use crate::tls::{ClientTls, HTTP2, Offer, reasons};

/// Plaintext that waits to be encrypted, or ciphertext that waits to be sent.
const BUFFER: usize = 32 * 1024;
/// Records that are read from an idle connection at a time, such as session tickets.
const IDLE_READS: usize = 8;

pub struct Session {
    connection: ClientConnection,
    /// Why it cannot go on.
    failure: Option<(io::ErrorKind, String)>,
}

/// The socket, without waiting.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, buffer, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    /// With the endpoint of this configured address. `None`: there is no such address.
    pub fn new(tls: &ClientTls, address: usize, offer: Offer) -> Option<Session> {
        let mut connection = tls.connect(address, offer)?;
        connection.set_buffer_limit(Some(BUFFER));
        Some(Session { connection, failure: None })
    }

    /// Whether the endpoint has chosen HTTP/2, behind the handshake.
    pub fn is_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(HTTP2)
    }

    /// Ready when the handshake is complete.
    pub fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        socket: &AsyncFd<OwnedFd>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        while self.connection.is_handshaking() {
            _ = self.poll_flush(cx, socket)?;
            if self.connection.is_handshaking() {
                ready!(self.poll_receive(cx, socket))?;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives plaintext. 0: the endpoint has ended the session.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        socket: &AsyncFd<OwnedFd>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        // Bounded by the runtime's budget, which every wait for a descriptor uses.
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(self.fail(error.kind(), TRUNCATED.to_owned()))),
                Ok(length) => return Poll::Ready(Ok(length)),
            }
            _ = self.poll_flush(cx, socket)?;
            ready!(self.poll_receive(cx, socket))?;
        }
    }

    /// Takes the start of `bytes`, when all that it has taken before has been sent.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &AsyncFd<OwnedFd>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(cx, socket))?;
        ready!(self.poll_flush(cx, socket))?;
        let taken = self.connection.writer().write(bytes)?;
        _ = self.poll_flush(cx, socket)?;
        Poll::Ready(Ok(taken))
    }

    /// Ready when all that it has taken has been sent.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &AsyncFd<OwnedFd>) -> Poll<io::Result<()>> {
        self.check()?;
        while self.connection.wants_write() {
            let mut ready = ready!(socket.poll_write_ready(cx))?;
            match ready.try_io(|fd| self.connection.write_tls(&mut Socket(fd.get_ref()))) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(self.fail(error.kind(), error.to_string()))),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether nothing but records of the session itself has come.
    pub fn is_open(&mut self, socket: &OwnedFd) -> bool {
        for _ in 0..IDLE_READS {
            match self.connection.read_tls(&mut Socket(socket)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
            let is_quiet =
                |state: rustls::IoState| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed();
            if !self.connection.process_new_packets().is_ok_and(is_quiet) {
                return false;
            }
        }
        let unread = self.connection.reader().read(&mut [0]);
        self.failure.is_none() && unread.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Says that nothing follows, as far as that works at once.
    pub fn close(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        _ = self.connection.write_tls(&mut Socket(socket));
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, socket: &AsyncFd<OwnedFd>) -> Poll<io::Result<()>> {
        let read = |socket: &OwnedFd| self.connection.read_tls(&mut Socket(socket));
        let read = ready!(sys::poll_receive(socket, cx, read)).map(|(bytes, _)| bytes);
        Poll::Ready(match read {
            Err(error) => Err(self.fail(error.kind(), error.to_string())),
            Ok(0) if self.connection.is_handshaking() => {
                let why = "it has closed the connection within the TLS handshake".to_owned();
                Err(self.fail(io::ErrorKind::UnexpectedEof, why))
            }
            Ok(_) => match self.connection.process_new_packets() {
                Ok(_) => Ok(()),
                Err(error) => {
                    // The alert, which tells the endpoint why.
                    _ = self.connection.write_tls(&mut Socket(socket.get_ref()));
                    Err(self.fail(io::ErrorKind::InvalidData, reasons::of_server(&error).into_owned()))
                }
            },
        })
    }

    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }

    fn fail(&mut self, kind: io::ErrorKind, why: String) -> io::Error {
        self.failure = Some((kind, why.clone()));
        io::Error::new(kind, why)
    }
}

const TRUNCATED: &str = "it has ended the connection without ending the TLS session";
