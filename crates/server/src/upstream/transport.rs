//! The transport of one request to an upstream, and of its response. `cgi`, `fastcgi`, `scgi` and `http` each implement
//! it. An exchange uses them through this interface alone.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use script::fastcgi::client::Client;
use taipan_http::head::Persistence;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use super::head::HeadParser;
use super::idle_connections::OriginConnection;
use crate::pool::message::{EndpointId, Fault};
use crate::pool::{PooledConnection, Reuse, Stream};
use crate::services::Services;
use crate::spawner::Exit;

/// A request writer, which begins behind the head of the request, and a response reader. Dropping it before `finish`
/// aborts the request.
pub trait Transport {
    /// Sends what is buffered. Ready: more of the body can be written. Errors: the upstream takes no more of it.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes the start of `bytes`, which belong to the body. Errors: the upstream takes no more of it.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ends the body. Ready: all of it has been sent.
    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(cx)
    }

    /// The fields that follow the body, where the framing of the request has a place for them.
    fn put_trailers(&self, _: Trailers) {}

    /// The rest of the body will not be written.
    fn abandon_body(&self) {}

    /// The upstream has received the head of the request.
    fn is_connected(&self) -> bool {
        true
    }

    /// The grammar of the response's head.
    fn head_parser(&self) -> HeadParser {
        HeadParser::cgi()
    }

    /// The next bytes of the response, never none; `None` at its end.
    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>>;

    /// Whether the upstream has said that its output is whole, although it has not ended the request.
    fn has_whole_output(&self) -> bool {
        false
    }

    /// How the upstream has ended its response, as far as it is known soon.
    fn poll_exit(&self, _: &mut Context<'_>) -> Poll<Option<Exit>> {
        Poll::Ready(None)
    }

    /// The reason with which the upstream has rejected the request itself.
    fn rejection(&self) -> Option<(Status, String)> {
        None
    }

    /// Whether the request can be repeated, as no response has come.
    fn retry(&self) -> Retry {
        Retry::Never
    }

    /// Tells the pool that the endpoint has not responded as it should.
    fn report_failure(&self, _: Fault, _reason: &str) {}

    /// The fields behind the response, once, at its end.
    fn trailers(&self) -> Trailers {
        Trailers::new()
    }

    fn has_trailers(&self) -> bool {
        false
    }

    /// The connection, where the upstream has switched its protocol. This ends the exchange.
    fn take_connection(&self) -> Option<Box<PooledConnection>> {
        None
    }

    /// No more of the response is read. With `KeepAlive` all of it has been.
    fn finish(&self, persistence: Persistence);
}

/// Why the response cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    Timeout(Limit),
    /// The script has run for as long as it may. Its monitor has reported that.
    Expired,
    Failed(io::ErrorKind),
    /// The end of a sentence whose subject is the upstream.
    Broken(Rc<str>),
}

/// A limit of time, by the key that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    FirstByte,
    Idle,
    Total,
}

impl Limit {
    fn key(self) -> &'static str {
        match self {
            Limit::FirstByte => "first_byte",
            Limit::Idle => "idle",
            Limit::Total => "total",
        }
    }
}

/// Where a request without a response can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// A part of the response has come, or it is a script.
    Never,
    /// The upstream rejects a request that shares its connection with others.
    Alone,
    /// On another connection: the endpoint has ended this one, and has not processed the request.
    Left,
    /// On a connection of its own: the endpoint has broken a rule of the protocol on the one that it shared, perhaps with
    /// the response to another request.
    Apart,
    /// On a new connection: this one was kept, and may have been closed in the meantime.
    Anew,
    /// At another endpoint, if there is one: this one has not processed it, and may have no place for it.
    Refused(EndpointId),
    /// At another endpoint.
    AtAnother { endpoint: EndpointId, connection: Reuse, sent: Sent },
}

/// Whether the endpoint may have processed any of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Nothing,
    Something,
}

impl ReadError {
    /// What the endpoint has done wrong.
    pub fn fault(&self) -> Fault {
        match self {
            ReadError::Timeout(Limit::FirstByte | Limit::Idle) | ReadError::Expired => Fault::Timeout,
            // Within `total`, it may have sent all the time.
            ReadError::Timeout(Limit::Total) | ReadError::Failed(_) | ReadError::Broken(_) => Fault::Other,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Timeout(limit) => write!(f, "it has taken too long (`{}`)", limit.key()),
            ReadError::Expired => write!(f, "it has taken too long (`{}`)", Limit::Total.key()),
            ReadError::Failed(kind) => write!(f, "its output cannot be read: {kind}"),
            ReadError::Broken(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.get_ref() {
            Some(why) => ReadError::Broken(why.to_string().into()),
            None => ReadError::Failed(error.kind()),
        }
    }
}

/// A connection that one request has for itself: a buffer of what is to be sent, and what has been received.
pub struct Connection {
    services: Rc<Services>,
    /// `None` behind the end of the exchange.
    inner: RefCell<Option<HeldConnection>>,
    out: RefCell<SendBuffer>,
    /// Received before.
    ahead: Cell<Vec<u8>>,
    /// All of the request's head has been sent.
    is_connected: Cell<bool>,
    /// Some of the response has been received.
    pub has_response: Cell<bool>,
    /// A send has met a reset. A socket has an error only once: a later read would find an end.
    is_reset: Cell<bool>,
}

/// A connection, by where it comes from and goes back to.
pub enum HeldConnection {
    Pooled(Box<PooledConnection>),
    /// Of the forward proxy.
    Direct(Box<OriginConnection>),
}

impl HeldConnection {
    fn stream(&self) -> &Stream {
        match self {
            HeldConnection::Pooled(connection) => &connection.stream,
            HeldConnection::Direct(connection) => &connection.stream,
        }
    }

    /// As in `PooledConnection`.
    fn fastcgi(&mut self) -> Option<&mut Client> {
        match self {
            HeldConnection::Pooled(connection) => connection.fastcgi.as_deref_mut(),
            HeldConnection::Direct(_) => None,
        }
    }

    /// Where a request without a response can be repeated.
    fn retry(&self, sent: Sent) -> Retry {
        match self {
            HeldConnection::Pooled(connection) => {
                let (endpoint, connection) = (connection.endpoint(), connection.reuse());
                Retry::AtAnother { endpoint, connection, sent }
            }
            HeldConnection::Direct(connection) if connection.is_kept => Retry::Anew,
            HeldConnection::Direct(_) => Retry::Never,
        }
    }

    fn report_failure(&self, fault: Fault, reason: &str) {
        match self {
            HeldConnection::Pooled(connection) => connection.report_failure(fault, reason),
            HeldConnection::Direct(_) => {}
        }
    }

    fn into_pooled(self) -> Option<Box<PooledConnection>> {
        match self {
            HeldConnection::Pooled(connection) => Some(connection),
            HeldConnection::Direct(_) => None,
        }
    }

    /// Ends a request. The connection can have another one.
    fn finish(self) {
        match self {
            HeldConnection::Pooled(connection) => connection.finish(),
            HeldConnection::Direct(connection) => connection.finish(),
        }
    }

    /// Ends a request, and closes the connection.
    fn close(self) {
        match self {
            HeldConnection::Pooled(connection) => connection.close(),
            HeldConnection::Direct(connection) => drop(connection),
        }
    }
}

impl From<Box<PooledConnection>> for HeldConnection {
    fn from(connection: Box<PooledConnection>) -> HeldConnection {
        HeldConnection::Pooled(connection)
    }
}

impl From<Box<OriginConnection>> for HeldConnection {
    fn from(connection: Box<OriginConnection>) -> HeldConnection {
        HeldConnection::Direct(connection)
    }
}

/// What is to be sent, and how much of it has been.
#[derive(Default)]
struct SendBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl SendBuffer {
    fn new(bytes: Vec<u8>) -> SendBuffer {
        SendBuffer { bytes, sent: 0 }
    }

    /// Ready: all of it has been sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<io::Result<()>> {
        ready!(stream.poll_send(cx, &self.bytes, &mut self.sent))?;
        self.bytes.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl Connection {
    /// `head` is the start of the request.
    pub fn new(services: &Rc<Services>, connection: impl Into<HeldConnection>, head: Vec<u8>) -> Connection {
        Connection {
            services: services.clone(),
            inner: RefCell::new(Some(connection.into())),
            out: RefCell::new(SendBuffer::new(head)),
            ahead: Cell::default(),
            is_connected: Cell::new(false),
            has_response: Cell::new(false),
            is_reset: Cell::new(false),
        }
    }

    /// With a request that has been sent, apart from `unsent`, and the bytes of the response so far.
    pub fn begun(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        unsent: Vec<u8>,
        received: Vec<u8>,
    ) -> Connection {
        let begun = Connection::new(services, connection, unsent);
        begun.is_connected.set(begun.is_flushed());
        begun.has_response.set(!received.is_empty());
        begun.ahead.set(received);
        begun
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected.get()
    }

    pub fn is_flushed(&self) -> bool {
        self.out.borrow().bytes.is_empty()
    }

    /// Buffers the records that `write` appends.
    pub fn push_records(&self, write: impl FnOnce(&mut Client, &mut Vec<u8>)) {
        if let Some(client) = self.inner.borrow_mut().as_mut().and_then(HeldConnection::fastcgi) {
            write(client, &mut self.out.borrow_mut().bytes);
        }
    }

    /// Ready: all that was buffered has been sent.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.inner.borrow();
        let Some(connection) = &*inner else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let flushed = ready!(self.out.borrow_mut().poll_flush(cx, connection.stream()));
        match &flushed {
            Ok(()) => self.is_connected.set(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.is_reset.set(true),
            // Behind an end, it is that of a whole response.
            Err(_) => {}
        }
        Poll::Ready(flushed)
    }

    /// Writes all of `bytes`, when all that was buffered has been sent.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_append(cx, |out| out.extend_from_slice(bytes)).map_ok(|()| bytes.len())
    }

    /// As `poll_write`, of what `write` appends. Pending: it has not been called.
    pub fn poll_append(
        &self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        write(&mut self.out.borrow_mut().bytes);
        _ = self.poll_flush(cx)?;
        Poll::Ready(Ok(()))
    }

    /// Receives into the buffer of the worker, so that a waiting request holds none. No bytes: the end.
    pub fn poll_receive<T>(
        &self,
        cx: &mut Context<'_>,
        on_bytes: impl FnOnce(&[u8], Option<&mut Client>) -> T,
    ) -> Poll<io::Result<T>> {
        let mut inner = self.inner.borrow_mut();
        let Some(connection) = &mut *inner else { return Poll::Ready(Ok(on_bytes(&[], None))) };
        let ahead = self.ahead.take();
        if !ahead.is_empty() {
            return Poll::Ready(Ok(on_bytes(&ahead, connection.fastcgi())));
        }
        let scratch = &mut *self.services.scratch.borrow_mut();
        let space = scratch.space();
        let length = ready!(connection.stream().poll_read(cx, space))?;
        if length == 0 && self.is_reset.get() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.has_response.set(self.has_response.get() || length > 0);
        Poll::Ready(Ok(on_bytes(&space[..length], connection.fastcgi())))
    }

    /// As `poll_receive`, of a protocol whose bytes are the response.
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        let bytes = ready!(self.poll_receive(cx, |bytes, _| bytes.to_vec()))?;
        Poll::Ready(Ok((!bytes.is_empty()).then_some(bytes)))
    }

    pub fn retry(&self) -> Retry {
        if self.has_response.get() { Retry::Never } else { self.at_another() }
    }

    pub fn at_another(&self) -> Retry {
        let inner = self.inner.borrow();
        let Some(connection) = &*inner else { return Retry::Never };
        let has_sent = self.is_connected() || self.out.borrow().sent > 0;
        connection.retry(if has_sent { Sent::Something } else { Sent::Nothing })
    }

    /// As that of a transport.
    pub fn report_failure(&self, fault: Fault, reason: &str) {
        self.inner.borrow().iter().for_each(|connection| connection.report_failure(fault, reason));
    }

    /// `None`: the exchange has ended, or a part of the request is still unsent, or no pool has the connection.
    pub fn take(&self) -> Option<Box<PooledConnection>> {
        if self.is_flushed() { self.inner.take().and_then(HeldConnection::into_pooled) } else { None }
    }

    /// Returns the connection to where it comes from, or closes it.
    pub fn finish(&self, persistence: Persistence) {
        let Some(connection) = self.inner.take() else { return };
        match persistence {
            Persistence::KeepAlive if self.is_flushed() => connection.finish(),
            _ => connection.close(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.finish(Persistence::Close);
    }
}
