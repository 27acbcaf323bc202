//! What a connection reads from and sends to: a bare socket while it is idle, a socket of the runtime while it has a
//! task. Either may have a TLS session. Then what is received and sent is plaintext, here and nowhere below.
//!
//! Knows nothing of what the bytes mean.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, Shutdown, getsockname, sockopt};
use site::listener::Protocols;
use taipan_http::target::Scheme;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::tls::{Failure, Session};
use crate::peer::Family;
use crate::sys::{self, OwnsFd, calls};
use crate::tls::kernel;
use crate::tls_facts::{TlsFacts, TlsState};

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

    /// Sends up to `count` bytes of `file` from `at`, which is advanced. `left`: all that is still to be sent of it.
    /// `None`: the stream cannot send from a file.
    fn try_sendfile(
        &self,
        _file: &OwnedFd,
        _at: &mut u64,
        _count: usize,
        _left: u64,
    ) -> Option<io::Result<usize>> {
        None
    }

    /// Bytes of content that fill one packet (`tcp(7)`, TCP_MAXSEG); 1 where the stream does not know.
    fn segment(&self) -> u64 {
        1
    }

    /// Sends what the stream itself still holds of the bytes that it has taken. Errors: `WouldBlock` where that cannot
    /// be sent now.
    fn try_flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A connected socket that does not block, and that the runtime does not know.
pub struct Socket {
    fd: OwnedFd,
    family: Family,
    protocols: Protocols,
    session: TlsSession,
}

/// `None`: the connection is not encrypted.
pub type TlsSession = Option<Box<RefCell<Session>>>;

/// Bytes that were received.
pub struct ReceivedBytes {
    pub bytes: usize,
    /// Nothing is left to read: what is received later is a new event.
    pub is_drained: bool,
}

impl Socket {
    /// `session`: of a client that speaks TLS.
    pub fn new(fd: OwnedFd, family: Family, protocols: Protocols, session: TlsSession) -> Socket {
        Socket { fd, family, protocols, session }
    }

    /// The protocols of the listener that it was accepted from.
    pub fn protocols(&self) -> Protocols {
        self.protocols
    }

    pub fn session(&self) -> Option<&RefCell<Session>> {
        self.session.as_deref()
    }

    /// The local address. `None`: a Unix socket has none.
    pub fn local(&self) -> Option<SocketAddr> {
        match self.family {
            Family::Tcp => getsockname(&self.fd).ok()?.try_into().ok(),
            Family::Unix => None,
        }
    }

    pub fn scheme(&self) -> Scheme {
        if self.session.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Whether a client may begin with HTTP/2.
    pub fn may_speak_http2(&self) -> bool {
        self.protocols.http2 || self.has_negotiated_http2()
    }

    /// Then the client cannot begin with another protocol.
    pub fn has_negotiated_http2(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().has_negotiated_http2())
    }

    /// `None`: it has no TLS, or its handshake is not complete and there is no early data.
    pub fn tls_facts(&self) -> Option<Rc<TlsFacts>> {
        self.session.as_ref()?.borrow().facts()
    }

    /// Why the session has failed, once. From then on the socket is not encrypted.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.session.take()?.into_inner().into_failure()
    }

    /// Reads the received bytes that fit into `buffer`: 0 if the client has closed its side. A session that has no
    /// content yet handshakes.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<ReceivedBytes, Errno> {
        match &self.session {
            None => {
                let bytes = calls::recv(&self.fd, buffer, RecvFlags::DONTWAIT)?;
                Ok(ReceivedBytes { bytes, is_drained: self.is_drained_by(bytes, buffer) })
            }
            Some(session) => self.receive_encrypted(&mut session.borrow_mut(), buffer),
        }
    }

    #[inline(never)]
    fn receive_encrypted(&self, session: &mut Session, buffer: &mut [u8]) -> Result<ReceivedBytes, Errno> {
        if session.is_in_kernel() {
            let read = |space: &mut [u8]| calls::recv(&self.fd, space, RecvFlags::DONTWAIT);
            let control = || kernel::receive_control(self.fd.as_fd());
            // A read returns no more than a record, whatever is behind it.
            let bytes = session.receive_from_kernel(buffer, read, control)?;
            return Ok(ReceivedBytes { bytes, is_drained: false });
        }
        let mut is_drained = false;
        let read = |space: &mut [u8]| {
            let bytes = calls::recv(&self.fd, &mut *space, RecvFlags::DONTWAIT)?;
            is_drained = self.is_drained_by(bytes, space);
            Ok(bytes)
        };
        let bytes = session.receive(buffer, read, |records| send(self.fd.as_fd(), records, More::Nothing))?;
        Ok(ReceivedBytes { bytes, is_drained: is_drained && !session.has_plaintext() })
    }

    /// A short read has emptied a TCP socket.
    fn is_drained_by(&self, bytes: usize, buffer: &[u8]) -> bool {
        self.family == Family::Tcp && bytes < buffer.len()
    }

    /// Sends an end. The client may still be sending.
    pub fn shut_down(&self) {
        self.close_session();
        // Fails only when the client has closed.
        _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    /// Whether a FIN that follows the last bytes at once can be in the same packet. A TLS session ends by a record.
    pub fn joins_end(&self) -> bool {
        self.family == Family::Tcp && self.session.is_none()
    }

    /// Has the kernel keep back a packet that is not full until the socket is uncorked or ends (`tcp(7)`, TCP_CORK).
    pub fn cork(&self) {
        // Fails only when the client has closed.
        _ = sockopt::set_tcp_cork(&self.fd, true);
    }

    /// Sends what was kept back.
    pub fn uncork(&self) {
        _ = sockopt::set_tcp_cork(&self.fd, false);
    }

    /// A TLS handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_handshaking())
    }

    /// A TLS handshake waits for its signature. Then no event of the socket is awaited.
    pub fn is_signing(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_signing())
    }

    /// Whether the rest of a TLS record is awaited.
    pub fn is_within_record(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_within_record())
    }

    /// For what is received now.
    pub fn tls_state(&self) -> TlsState {
        let Some(session) = &self.session else { return TlsState::default() };
        let session = session.borrow();
        TlsState { is_early: session.is_handshaking(), logged: session.logged_facts() }
    }

    /// Whether content can be received that is not in the socket any more. Then no event will tell of it.
    pub fn has_plaintext(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().has_plaintext())
    }

    /// Whether another process can continue with it.
    pub fn can_be_handed_off(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.borrow().is_new())
    }

    /// Tells the client that no more follows, where TLS does that. What the server itself then closes is no truncation.
    pub fn close_session(&self) {
        let Some(session) = &self.session else { return };
        let (mut session, fd) = (session.borrow_mut(), self.fd.as_fd());
        match session.is_in_kernel() {
            // Fails only when the client has closed, or takes nothing.
            true => _ = kernel::send_close_notify(fd),
            false => session.close(|records| send(fd, records, More::Nothing)),
        }
    }

    /// A client must not take a response that is cut for a complete one.
    pub fn cut_session(&self) {
        if let Some(session) = &self.session {
            session.borrow_mut().cut();
        }
    }

    /// Reads, to no purpose but that the socket has no unread bytes when it is closed. Errors: there are none.
    pub fn discard_at_once(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        calls::recv(&self.fd, buffer, RecvFlags::DONTWAIT)
    }

    /// What is not sent yet is dropped when this is closed, and the client receives a reset.
    pub fn reset_when_closed(&self) {
        _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    /// Undoes `reset_when_closed`.
    pub fn close_normally(&self) {
        _ = sockopt::set_socket_linger(&self.fd, None);
    }

    /// Bytes that the client has not acknowledged: what the kernel holds, and what the session holds. Of a Unix socket,
    /// the kernel does not say.
    pub fn unacknowledged(&self) -> u64 {
        let held = self.session.as_ref().map_or(0, |session| session.borrow().unsent() as u64);
        sys::unsent(self.fd.as_fd()).unwrap_or(0) + held
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl OwnsFd for Socket {}

/// A connected socket of the runtime.
pub struct Stream(AsyncFd<Socket>);

impl Stream {
    /// Registers a socket with the runtime.
    pub fn register(socket: Socket) -> io::Result<Stream> {
        calls::watch(socket).map(Stream)
    }

    /// The bare socket, which the runtime forgets.
    pub fn into_socket(self) -> Socket {
        self.0.into_inner()
    }

    /// Reads the received bytes that fit into `buffer`. Returns 0 if the client has closed its side.
    #[inline]
    pub fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match &self.session {
            None => calls::poll_read(&self.0, cx, buffer),
            Some(session) => self.poll_receive_encrypted(&mut session.borrow_mut(), cx, buffer),
        }
    }

    fn poll_receive_encrypted(
        &self,
        session: &mut Session,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(errno) = ready!(session.poll_signed(cx, |bytes| self.send(bytes, More::Nothing))) {
            return Poll::Ready(Err(errno.into()));
        }
        let received = match session.is_in_kernel() {
            true => {
                let read = |space: &mut [u8]| at_once(self.poll_receive_from_kernel(cx, space));
                session.receive_from_kernel(buffer, read, || kernel::receive_control(self.as_fd()))
            }
            false => {
                let read = |space: &mut [u8]| at_once(calls::poll_read(&self.0, cx, space));
                session.receive(buffer, read, |bytes| self.send(bytes, More::Nothing))
            }
        };
        match received {
            // What is awaited now is the signature.
            Err(Errno::AGAIN) if session.is_signing() => cx.waker().wake_by_ref(),
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => cx.waker().wake_by_ref(),
            received => return Poll::Ready(received.map_err(io::Error::from)),
        }
        // What a handshake could not send is sent when the socket takes it.
        while session.unsent() > 0 && ready!(self.poll_write_ready(cx)).is_ok() {
            match session.flush(|bytes| self.send(bytes, More::Nothing)) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                _ => {}
            }
        }
        Poll::Pending
    }

    /// The kernel returns no more than a record, and may have more, of which no event will tell.
    fn poll_receive_from_kernel(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let recv = |socket: &Socket| Ok(calls::recv(socket, &mut *buffer, RecvFlags::DONTWAIT)?);
        sys::poll_receive(&self.0, cx, recv).map_ok(|(bytes, _)| bytes)
    }

    #[inline]
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx).map_ok(|_| ())
    }
}

/// What does not wait is done by the socket.
impl Deref for Stream {
    type Target = Socket;

    #[inline]
    fn deref(&self) -> &Socket {
        self.0.get_ref()
    }
}

/// A socket that is sent to.
trait TryIo {
    fn socket(&self) -> &Socket;

    /// Runs `send` unless the socket is known to be full.
    fn try_io(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>) -> io::Result<usize>;

    #[inline]
    fn send(&self, bytes: &[u8], more: More) -> io::Result<usize> {
        self.try_io(|fd| send(fd, bytes, more))
    }
}

impl TryIo for Socket {
    #[inline]
    fn socket(&self) -> &Socket {
        self
    }

    #[inline]
    fn try_io(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>) -> io::Result<usize> {
        send(self.fd.as_fd())
    }
}

impl TryIo for Stream {
    #[inline]
    fn socket(&self) -> &Socket {
        self.0.get_ref()
    }

    /// The runtime notes a `WouldBlock`.
    #[inline]
    fn try_io(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |socket| send(socket.as_fd()))
    }
}

impl<S: TryIo> SendStream for S {
    #[inline]
    fn try_send(&self, bytes: &[u8], more: More) -> io::Result<usize> {
        match &self.socket().session {
            None => self.send(bytes, more),
            Some(session) => {
                let send = |bytes: &[u8], more| self.send(bytes, more);
                try_send_encrypted(&mut session.borrow_mut(), bytes, more, send)
            }
        }
    }

    #[inline]
    fn try_sendfile(
        &self,
        file: &OwnedFd,
        at: &mut u64,
        count: usize,
        left: u64,
    ) -> Option<io::Result<usize>> {
        match &self.socket().session {
            None => Some(self.try_io(|fd| sendfile(fd, file, at, count))),
            Some(session) => send_encrypted(
                session,
                self.socket().as_fd(),
                FileSlice { file, at, count, left },
                |bytes| self.send(bytes, More::Nothing),
                |at| self.try_io(|fd| sendfile(fd, file, at, count)),
            ),
        }
    }

    fn segment(&self) -> u64 {
        let segment = nix::sys::socket::getsockopt(self.socket(), nix::sys::socket::sockopt::TcpMaxSeg);
        segment.map_or(1, |bytes| u64::from(bytes.max(1)))
    }

    #[inline]
    fn try_flush(&self) -> io::Result<()> {
        let Some(session) = &self.socket().session else { return Ok(()) };
        let mut session = session.borrow_mut();
        match session.is_in_kernel() {
            // Records that the socket does not take wait in the kernel, and are lost if it is shut down before.
            true => self.try_io(is_writable).map(|_| ()),
            false => session.flush(|bytes| self.send(bytes, More::Nothing)),
        }
    }
}

fn try_send_encrypted(
    session: &mut Session,
    bytes: &[u8],
    more: More,
    mut send: impl FnMut(&[u8], More) -> io::Result<usize>,
) -> io::Result<usize> {
    match session.is_in_kernel() {
        true => session.send_by_kernel(|| send(bytes, more)),
        false => session.send(bytes, more, |records| send(records, More::Nothing)),
    }
}

/// Sends nothing. Errors: `WouldBlock` if the socket takes no more.
fn is_writable(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    match rustix::event::poll(&mut polled, Some(&Timespec::default()))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(0),
    }
}

/// A part of a file that is to be sent.
struct FileSlice<'a> {
    file: &'a OwnedFd,
    at: &'a mut u64,
    count: usize,
    left: u64,
}

/// As `SendStream::try_sendfile`. Never waits for a disk.
fn send_encrypted(
    session: &RefCell<Session>,
    fd: BorrowedFd<'_>,
    slice: FileSlice<'_>,
    mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    sendfile: impl FnOnce(&mut u64) -> io::Result<usize>,
) -> Option<io::Result<usize>> {
    let session = &mut *session.borrow_mut();
    let FileSlice { file, at, count, left } = slice;
    if !session.is_in_kernel()
        && let Err(error) = move_to_kernel(session, fd, left, &mut send)
    {
        return Some(Err(error));
    }
    if session.is_in_kernel() {
        return Some(session.send_by_kernel(|| sendfile(at)));
    }
    let read = |buffer: &mut [u8]| calls::preadv2(file, buffer, *at, ReadWriteFlags::NOWAIT);
    let sent = session.send_file(count, read, send);
    if let Some(Ok(bytes)) = sent {
        *at += bytes as u64;
    }
    sent
}

/// Gives the keys to the kernel, if that is configured and possible now. Errors: the session has failed, or
/// `WouldBlock` if the socket has yet to take what was sent before.
fn move_to_kernel(
    session: &mut Session,
    fd: BorrowedFd<'_>,
    left: u64,
    send: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    if !session.can_move_to_kernel(left) {
        return Ok(());
    }
    session.flush(send)?;
    // Fails when the client has closed its side.
    match kernel::attach(fd) {
        Ok(()) => session.move_to_kernel(|secrets| kernel::set_keys(fd, secrets)),
        Err(_) => Ok(()),
    }
}

/// What was read at once.
fn at_once(read: Poll<io::Result<usize>>) -> Result<usize, Errno> {
    match read {
        Poll::Pending => Err(Errno::AGAIN),
        Poll::Ready(read) => read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
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
