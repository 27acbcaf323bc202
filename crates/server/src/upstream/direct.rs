//! A request of a forward proxy: it goes to the server of its URL as it is, on a new connection or on one that was
//! kept. Knows neither rules nor names.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use taipan_http::chunked::{LAST_CHUNK, write_chunk};
use taipan_http::client::request::passes_of;
use taipan_http::fields::is_name;
use taipan_http::head::{Head, Method, Names, Persistence};
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use tokio::time::Instant;

use super::exchange::{BodySource, Failure, Opened, Timeouts, UpstreamExchange, UpstreamResponse};
use super::head::HeadParser;
use super::http_head::{Accepts, direct_head};
use super::idle_connections::{IdleConnections, OriginServer};
use super::interim::Interims;
use super::request::{Form, Message, Repeats, RequestTrailers, UpstreamRequest, Wanted, label};
use super::response::{content, date};
use super::transport::{ReadError, SendBuffer, Transport};
use super::{Outcome, Unrendered, report};
use crate::log;
use crate::log::upstream::AttemptLog;
use crate::pool::Stream;
use crate::request::Request;
use crate::request::body::{Length, RequestBody};
use crate::response_head::HeadWriter;
use crate::semaphore::Permit;
use crate::services::Services;
use crate::sys;

/// RFC 9110 §15.5.8.
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;
/// This server in `Via`. No other server has the name, so a request that passes this one again is recognized.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; 4];
    match sys::random(&mut bytes) {
        Ok(()) => format!("taipan-{:08x}", u32::from_ne_bytes(bytes)),
        Err(_) => format!("taipan-{}", std::process::id()),
    }
});

/// A connection to the server of a URL.
pub struct OriginConnection {
    pub stream: Stream,
    pub origin: Rc<OriginServer>,
    pub is_kept: bool,
    /// Where it may wait for another request.
    pub idle_connections: Rc<IdleConnections>,
    /// Held until the end of the response.
    pub permit: Permit,
    pub attempt: AttemptLog,
    /// In messages.
    pub name: Rc<str>,
    pub first_byte: Duration,
    pub idle: Duration,
}

/// The connection was kept, and its server has closed it meanwhile. A new one may do better.
pub struct Stale;

/// Whether this server has forwarded the request before (RFC 9110 §7.6.3).
pub fn has_passed(head: &Head<'_>) -> bool {
    passes_of(head, &NAME) > 0
}

/// Whether a request may have a connection that was kept: if it can be sent again when that turns out to be closed, and
/// the server cannot take another client for this one because of the connection, as those with NTLM do.
pub fn may_have_kept(head: &Head<'_>) -> bool {
    matches!(head.method, Method::Get | Method::Head | Method::Options)
        && !head.framing.has_body()
        && !head.names.contains(Names::AUTHORIZATION)
}

/// Sends a request, whose body has at most `max_body` bytes, and makes the client's response from the server's.
pub async fn forward(
    services: &Rc<Services>,
    request: Request<'_>,
    body: &RequestBody,
    max_body: u64,
    form: Form,
    to: OriginConnection,
) -> Result<Outcome, Stale> {
    let Request { head, connection, .. } = request;
    let (length, source) = match body.length() {
        Length::None => (head.framing.empty_length().map_or(Length::None, Length::Sized), BodySource::Empty),
        Length::Sized(bytes) if bytes > max_body => {
            return Ok((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        length => (length, BodySource::Client(body.clone(), max_body)),
    };
    // A connection with credentials is for no other request.
    let is_shared = !head.names.contains(Names::AUTHORIZATION) && to.idle_connections.keeps();
    let next = if is_shared { Persistence::KeepAlive } else { Persistence::Close };
    let received = Rc::new(Cell::new(false));
    let transport = Direct {
        services: services.clone(),
        stream: RefCell::new(Some(to.stream)),
        out: RefCell::new(SendBuffer::new(direct_head(head, &NAME, length, next))),
        is_chunked: length == Length::Unknown,
        body_ended: Cell::new(false),
        is_connected: Cell::new(false),
        has_received: received.clone(),
        kept: is_shared.then_some((to.idle_connections, to.origin)),
        _permit: to.permit,
    };
    let request = UpstreamRequest {
        message: Message::Http(Vec::new()),
        wanted: if head.method == Method::Head { Wanted::Head } else { Wanted::All },
        repeats: Repeats::No,
        label: label(head, connection.client).into(),
        upgrade: None,
        accepts: Accepts::Content,
        trailers: RequestTrailers::default(),
        response_trailers: None,
        is_open_ended: length == Length::Unknown,
        authority: std::str::from_utf8(head.authority).unwrap_or_default().into(),
        upstream_name: to.name.clone(),
    };
    let OriginConnection { first_byte, idle, is_kept, name, .. } = to;
    let timeouts = Timeouts { connect: first_byte, first_byte, idle, total: Duration::MAX };
    let opened = Opened { transport: Box::new(transport), source, began: Instant::now() };
    let log = Some(to.attempt);
    let exchange = UpstreamExchange::with_application(services, &request, opened, timeouts, log);
    match exchange.receive_response(&Interims::dropped()).await {
        Ok(response) => Ok(respond(services, response, &request, form).await),
        Err(Failure::Reported(status)) => Ok(Outcome::Failed(status)),
        Err(Failure::Rejected(rejection)) => Ok(Outcome::Rejected(rejection)),
        Err(Failure::NoResponse(_)) if is_kept && !received.get() => Err(Stale),
        Err(Failure::NoResponse(failure)) => {
            Ok(Outcome::Failed(report(services, &request.label, &name, &failure)))
        }
    }
}

/// Makes the client's response from the server's.
async fn respond(
    services: &Services,
    response: UpstreamResponse,
    request: &UpstreamRequest,
    form: Form,
) -> Outcome {
    let UpstreamResponse { exchange, head, received } = response;
    // It would ask the client for a password of this proxy.
    if head.status.code() == PROXY_AUTHENTICATION_REQUIRED {
        let UpstreamRequest { label, upstream_name, .. } = request;
        log::warn(format_args!("{label}: {upstream_name} has responded with the status 407 of a proxy"));
        return Outcome::Failed(Status::BAD_GATEWAY);
    }
    let content = match Box::pin(content(exchange, request.wanted, &head, received)).await {
        Ok(content) => content,
        Err(outcome) => return outcome,
    };
    let via = format!("1.1 {}", *NAME);
    if form == Form::Unrendered {
        let field = |name: &str, value: &[u8]| cache::Field { name: name.into(), value: value.into() };
        let received = head.fields.iter().filter(|received| !is_name(received.name, "server"));
        let received =
            received.map(|received| field(&String::from_utf8_lossy(received.name), received.value));
        let fields = received.chain([field("Via", via.as_bytes())]).collect();
        return Outcome::Unrendered(Box::new(Unrendered { status: head.status, fields, content }), None);
    }
    let mut writer = HeadWriter::dated(&services.site, &date(services, &head), None, head.status);
    for field in head.fields.iter() {
        // They are there already.
        let is_own = ["date", "server"].iter().any(|own| is_name(field.name, own));
        if let (false, Ok(name)) = (is_own, std::str::from_utf8(field.name)) {
            writer = writer.field(name, field.value);
        }
    }
    Outcome::Response(content.respond(writer.field("Via", via)))
}

/// One request on a connection.
struct Direct {
    services: Rc<Services>,
    /// `None` behind the end of the exchange.
    stream: RefCell<Option<Stream>>,
    out: RefCell<SendBuffer>,
    is_chunked: bool,
    body_ended: Cell<bool>,
    /// All of the head has been sent.
    is_connected: Cell<bool>,
    /// Some of the response has come.
    has_received: Rc<Cell<bool>>,
    /// Where the connection may wait for another request. `None`: nowhere.
    kept: Option<(Rc<IdleConnections>, Rc<OriginServer>)>,
    _permit: Permit,
}

impl Transport for Direct {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream.borrow();
        let Some(stream) = &*stream else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        ready!(self.out.borrow_mut().poll_flush(cx, stream))?;
        self.is_connected.set(true);
        Poll::Ready(Ok(()))
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx))?;
        match self.is_chunked {
            true => write_chunk(bytes, &mut self.out.borrow_mut().bytes),
            false => self.out.borrow_mut().bytes.extend_from_slice(bytes),
        }
        _ = self.poll_ready(cx)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.body_ended.replace(true) && self.is_chunked {
            self.out.borrow_mut().bytes.extend_from_slice(LAST_CHUNK);
        }
        self.poll_ready(cx)
    }

    fn is_connected(&self) -> bool {
        self.is_connected.get()
    }

    fn head_parser(&self) -> HeadParser {
        HeadParser::http()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        let scratch = &mut *self.services.scratch.borrow_mut();
        let space = scratch.space();
        let stream = self.stream.borrow();
        let Some(stream) = &*stream else { return Poll::Ready(Ok(None)) };
        let length = ready!(stream.poll_read(cx, space))?;
        self.has_received.set(self.has_received.get() || length > 0);
        Poll::Ready(Ok((length > 0).then(|| space[..length].to_vec())))
    }

    /// A connection that is not kept is closed.
    fn finish(&self, persistence: Persistence) {
        let Some(stream) = self.stream.take() else { return };
        // Else the server would take the next request for the rest of this one.
        let is_sent = self.body_ended.get() && self.out.borrow().bytes.is_empty();
        if let (Persistence::KeepAlive, true, Some((idle_connections, origin))) =
            (persistence, is_sent, &self.kept)
        {
            idle_connections.put(origin.clone(), stream);
        }
    }
}
