//! HTTP/2 connections to endpoints, by the crate `h2`. Requests share a connection, each as a stream. Knows nothing of
//! what a request is.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderValue, Request, Uri};
use site::memory;
use taipan_http::status::Status;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::Idle;
use super::message::EndpointId;
use super::names::EndpointNames;
use super::selection::EndpointEntry;
use super::{Pool, PooledConnection, Reporter, Reuse, Sharing, Stream};
use crate::tasks::spawn_local;

/// Bytes of the head of a response, with 32 for each field.
const MAX_HEAD: u32 = 64 * 1024;
/// Bytes that an endpoint may send on a stream before the client has taken them.
const WINDOW: u32 = memory::HTTP2_WINDOW as u32;
/// The same, for all streams of a connection. It is as many windows as there may be streams.
const CONNECTION_WINDOW: u32 = memory::HTTP2_CONNECTION as u32;
/// Bytes of a request's body that wait to be sent.
const SEND_BUFFER: usize = memory::SCRIPT as usize;
/// Requests at a time on one connection, even if the endpoint allows more.
const MAX_STREAMS: usize = memory::HTTP2_STREAMS as usize;
/// The same, until the endpoint has said how many it allows: RFC 9113 §6.5.2 recommends to allow no fewer.
const MAX_UNANNOUNCED: usize = 100;
/// What stands for the number of requests that an endpoint allows, until it has said it. No endpoint can say so much.
const UNANNOUNCED: usize = usize::MAX - 1;
/// `User-Agent` of health checks.
pub const HEALTH_AGENT: &str = "taipan-health";
/// How long an endpoint may take to answer a PING, after a stream has ended without a response.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Http2Connection {
    endpoint: EndpointId,
    endpoint_names: EndpointNames,
    entry: Rc<EndpointEntry>,
    pool: Rc<Pool>,
    /// `None`: it gets no more requests, and ends with its streams.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// `None`: it has ended.
    lease: RefCell<Option<Box<PooledConnection>>>,
    streams: Cell<usize>,
    /// Whether it had several streams when the first of them noticed that it has ended.
    had_others: OnceCell<bool>,
    /// Since when it has no stream.
    unused: Cell<Instant>,
    /// A stream has ended without a response, so that the endpoint may not be there.
    doubt: Notify,
}

/// A stream for one request. The request is sent by the sender.
pub struct Http2Stream {
    pub sender: SendRequest<Bytes>,
    connection: Rc<Http2Connection>,
    has_response: Cell<bool>,
    /// Whether streams were opened on the connection before this one.
    reuse: Reuse,
}

impl Http2Connection {
    /// Begins HTTP/2 on a connection, and shares it from now on, or never. Errors: the connection has failed, and is
    /// returned.
    pub async fn begin(
        mut connection: Box<PooledConnection>,
        sharing: Sharing,
    ) -> Result<Http2Stream, (Box<PooledConnection>, h2::Error)> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        builder.max_header_list_size(MAX_HEAD).max_send_buffer_size(SEND_BUFFER);
        builder.initial_max_send_streams(UNANNOUNCED);
        let (sender, mut driver) = match builder.handshake(Io(connection.stream.clone())).await {
            Ok(begun) => begun,
            Err(error) => return Err((connection, error)),
        };
        let (own, pings) = (sender.clone(), driver.ping_pong());
        // From now on, the streams count, and not the connection.
        connection.end();
        let shared = Rc::new(Http2Connection {
            endpoint: connection.endpoint(),
            endpoint_names: connection.endpoint_names().clone(),
            entry: connection.entry.clone(),
            pool: connection.pool.clone(),
            sender: RefCell::new(Some(sender)),
            lease: RefCell::new(Some(connection)),
            streams: Cell::new(0),
            had_others: OnceCell::new(),
            unused: Cell::new(Instant::now()),
            doubt: Notify::new(),
        });
        let of_driver = shared.clone();
        spawn_local(async move {
            let check = of_driver.check(pings);
            let mut has_announced = false;
            let drive = poll_fn(|cx| {
                let ended = Pin::new(&mut driver).poll(cx);
                if !has_announced && of_driver.has_announced() {
                    has_announced = true;
                    // Requests that wait may have its streams.
                    of_driver.pool.changed.notify_one();
                }
                ended
            });
            tokio::select! {
                _ = drive => {}
                () = check => {}
            }
            of_driver.end();
        });
        let stream = shared.open(own);
        match sharing {
            Sharing::Allowed | Sharing::Announced => shared.pool.http2.borrow_mut().push(shared.clone()),
            Sharing::No => shared.retire(),
        }
        shared.pool.changed.notify_one();
        Ok(stream)
    }

    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Streams on it now.
    pub fn streams(&self) -> usize {
        self.streams.get()
    }

    /// Whether it can take another request.
    pub fn has_capacity(&self) -> bool {
        let limit = match &*self.sender.borrow() {
            Some(sender) => match sender.current_max_send_streams() {
                UNANNOUNCED => MAX_UNANNOUNCED,
                announced => announced.min(MAX_STREAMS),
            },
            None => return false,
        };
        let is_usable = |lease: &PooledConnection| !lease.is_spent();
        self.streams.get() < limit && self.lease.borrow().as_deref().is_some_and(is_usable)
    }

    /// Whether the endpoint has said how many requests it allows.
    pub fn has_announced(&self) -> bool {
        self.sender.borrow().as_ref().is_some_and(|sender| sender.current_max_send_streams() != UNANNOUNCED)
    }

    /// Whether it has no stream, and its endpoint has sent something meanwhile that is not read yet: perhaps that it
    /// takes no more.
    pub fn has_unread(&self) -> bool {
        self.streams.get() == 0
            && self.lease.borrow().as_deref().is_some_and(|lease| lease.stream.has_unread())
    }

    /// A stream for one request. `None`: it gets no more requests.
    pub fn reserve(self: &Rc<Http2Connection>) -> Option<Http2Stream> {
        let sender = self.sender.borrow().clone()?;
        Some(self.open(sender))
    }

    fn open(self: &Rc<Http2Connection>, sender: SendRequest<Bytes>) -> Http2Stream {
        self.streams.set(self.streams.get() + 1);
        self.entry.in_flight.update(|count| count + 1);
        let mut reuse = Reuse::New;
        if let Some(lease) = &mut *self.lease.borrow_mut() {
            reuse = lease.reuse();
            lease.count_request();
        }
        Http2Stream { sender, connection: self.clone(), has_response: Cell::new(false), reuse }
    }

    /// It gets no more requests, and ends with its streams.
    pub fn retire(&self) {
        self.sender.take();
        self.pool.http2.borrow_mut().retain(|other| !std::ptr::eq(&**other, self));
    }

    /// Whether it has had no stream for as long as `keep`.
    pub fn is_unused(&self, keep: Duration) -> bool {
        self.streams.get() == 0 && self.unused.get().elapsed() >= keep
    }

    /// Whether it may have no further request.
    pub fn is_spent(&self) -> bool {
        self.lease.borrow().as_deref().is_none_or(PooledConnection::is_spent)
    }

    fn end(&self) {
        self.retire();
        self.lease.take();
    }

    /// Ends when the endpoint does not answer.
    async fn check(&self, pings: Option<h2::PingPong>) {
        let Some(mut pings) = pings else { return std::future::pending().await };
        loop {
            self.doubt.notified().await;
            if !matches!(timeout(PING_TIMEOUT, pings.ping(h2::Ping::opaque())).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}

impl Http2Stream {
    pub fn endpoint(&self) -> EndpointId {
        self.connection.endpoint
    }

    pub fn endpoint_names(&self) -> &EndpointNames {
        &self.connection.endpoint_names
    }

    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Whether its connection, which has ended, had other streams.
    pub fn has_others(&self) -> bool {
        *self.connection.had_others.get_or_init(|| self.connection.streams.get() > 1)
    }

    pub fn on_response(&self) {
        self.has_response.set(true);
    }

    /// `None`: its connection has ended.
    pub fn reporter(&self) -> Option<Reporter> {
        self.connection.lease.borrow().as_deref().map(PooledConnection::reporter)
    }

    /// The connection gets no more requests.
    pub fn retire_connection(&self) {
        self.connection.retire();
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.streams.set(connection.streams.get() - 1);
        connection.entry.in_flight.update(|count| count - 1);
        connection.unused.set(Instant::now());
        if let Some(lease) = &mut *connection.lease.borrow_mut() {
            lease.idle = Some(Idle::begin());
        }
        if !self.has_response.get() {
            connection.doubt.notify_one();
        }
        let is_recalled = connection.pool.is_recalled(connection.endpoint);
        if connection.streams.get() == 0
            && (connection.pool.keep.is_zero() || connection.is_spent() || is_recalled)
        {
            if is_recalled {
                connection.pool.recalled.take();
            }
            connection.retire();
        } else if connection.pool.waiting() > 0 {
            // A request that waits may have the stream.
            connection.pool.changed.notify_one();
        }
    }
}

/// What `h2` reads and writes.
struct Io(Rc<Stream>);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = ready!(self.0.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        _ = ready!(self.0.poll_flush(cx));
        self.0.shut_down();
        Poll::Ready(Ok(()))
    }
}

/// The status of the response to a GET, on a connection of its own.
pub async fn status(stream: Stream, scheme: &str, authority: &str, path: &str) -> io::Result<Status> {
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build();
    let mut request = Request::new(());
    *request.uri_mut() = uri.map_err(io::Error::other)?;
    request.headers_mut().insert(http::header::USER_AGENT, HeaderValue::from_static(HEALTH_AGENT));
    let mut builder = Builder::new();
    builder.enable_push(false).max_header_list_size(MAX_HEAD);
    let failed = |error: h2::Error| io::Error::other(format!("HTTP/2 has failed: {error}"));
    let (sender, driver) = builder.handshake::<_, Bytes>(Io(Rc::new(stream))).await.map_err(failed)?;
    let response = async {
        let (response, _) = sender.ready().await?.send_request(request, true)?;
        response.await
    };
    tokio::select! {
        biased;
        response = response => {
            let status = Status::new(response.map_err(failed)?.status().as_u16());
            status.ok_or_else(|| io::Error::other("its response has no status"))
        }
        _ = driver => Err(io::Error::other("it has closed the connection")),
    }
}

/// Ready when a TLS session has begun, and which protocol it has. Without TLS, it is known before.
pub async fn handshake(connection: &PooledConnection) -> io::Result<Protocol> {
    poll_fn(|cx| connection.stream.poll_handshake(cx)).await?;
    Ok(match connection.stream.is_encrypted() && !connection.stream.is_http2() {
        true => Protocol::Http1,
        false => Protocol::Http2,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}
