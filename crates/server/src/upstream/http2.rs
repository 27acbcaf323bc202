//! A request by HTTP/2 (RFC 9113), on a stream of a connection that requests share; or by HTTP/1.1, where the upstream
//! chooses that in the TLS handshake.
//!
//! The request is made of the head that HTTP/1.1 would have, and the response becomes one: so there is one writer and
//! one strict reader of heads. The content is not framed again.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use taipan_http::head::Persistence;
use taipan_http::known::is_hop_by_hop;
use taipan_http::trailers::{self, Trailers};

use super::head::HeadParser;
use super::http::Http;
use super::transport::{ReadError, Retry, Sent, Transport};
use crate::pool::http2::{Http2Connection, Http2Stream, Protocol, handshake};
use crate::pool::message::{EndpointId, Fault};
use crate::pool::{PooledConnection, Reporter, Reuse, Sharing};
use crate::services::Services;

/// Bytes that are passed at a time.
const PIECE: usize = 16 * 1024;

pub struct Http2 {
    state: RefCell<State>,
    endpoint: EndpointId,
    /// `None`: its connection had ended before.
    reporter: Option<Reporter>,
    /// The request's body has ended, perhaps before the request was sent.
    body_ended: Cell<bool>,
    /// The fields behind it.
    request_trailers: RefCell<Trailers>,
}

enum State {
    /// Until the protocol is known.
    Opening(Opening),
    Http1(Http),
    /// Until the endpoint allows another stream.
    Waiting(Box<Http2Stream>, Request<()>),
    Open(Box<Open>),
    Failed(Failed),
    Done,
}

type Opening = Pin<Box<dyn Future<Output = Result<Opened, Failed>>>>;

enum Opened {
    Http1(Http),
    Http2(Http2Stream, Request<()>),
}

/// Why there is no response, or not all of it.
#[derive(Clone)]
struct Failed {
    why: Rc<str>,
    retry: Retry,
}

struct Open {
    stream: Http2Stream,
    body: SendStream<Bytes>,
    /// `None`: its head has been read.
    head: Option<ResponseFuture>,
    /// `None` until then.
    content: Option<RecvStream>,
    trailers: Trailers,
}

/// What is sent: the head that HTTP/1.1 would have, and whether trailers may be received.
pub struct Http2Request<'a> {
    pub head: &'a [u8],
    pub scheme: &'static str,
    pub accepts_trailers: bool,
    /// The length of its body is not known.
    pub is_open_ended: bool,
    /// The names of the fields that may follow the body.
    pub trailer: Option<&'a str>,
}

impl Http2 {
    /// On a new connection, whose protocol may not be known yet. Errors: HTTP/2 has no form for the request.
    pub fn begin(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        sharing: Sharing,
        request: &Http2Request<'_>,
    ) -> Result<Http2, &'static str> {
        let (endpoint, reporter) = (connection.endpoint(), connection.reporter());
        let parts = request.to_http2()?;
        let (services, head, is_open_ended) =
            (services.clone(), request.head.to_vec(), request.is_open_ended);
        let trailer = request.trailer.map(str::to_owned);
        let reuse = connection.reuse();
        let opening = async move {
            let failed = |connection: Box<PooledConnection>, why: String| {
                // One that was kept may have been closed in the meantime.
                if reuse == Reuse::New {
                    connection.report_failure(Fault::Other, &why);
                }
                Failed { why: why.into(), retry: unsent(endpoint, reuse) }
            };
            match handshake(&connection).await {
                Err(error) => Err(failed(connection, error.to_string())),
                Ok(Protocol::Http1) => Ok(Opened::Http1(match is_open_ended {
                    true => Http::chunked(&services, connection, &head, trailer.as_deref()),
                    false => Http::new(&services, connection, &head, HeadParser::http),
                })),
                Ok(Protocol::Http2) => match Http2Connection::begin(connection, sharing).await {
                    Ok(stream) => Ok(Opened::Http2(stream, parts)),
                    Err((connection, error)) => Err(failed(connection, describe(&error))),
                },
            }
        };
        Ok(Http2::new(State::Opening(Box::pin(opening)), endpoint, Some(reporter)))
    }

    /// On a stream of a connection. Errors: HTTP/2 has no form for the request.
    pub fn on_stream(stream: Box<Http2Stream>, request: &Http2Request<'_>) -> Result<Http2, &'static str> {
        let (endpoint, reporter) = (stream.endpoint(), stream.reporter());
        Ok(Http2::new(State::Waiting(stream, request.to_http2()?), endpoint, reporter))
    }

    fn new(state: State, endpoint: EndpointId, reporter: Option<Reporter>) -> Http2 {
        let (state, request_trailers) = (RefCell::new(state), RefCell::default());
        Http2 { state, endpoint, reporter, body_ended: Cell::new(false), request_trailers }
    }

    /// Ready when the request has been sent, or is HTTP/1.1's.
    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.state.borrow_mut();
        // Each turn is another state.
        loop {
            *state = match state {
                State::Http1(_) | State::Open(_) => return Poll::Ready(Ok(())),
                State::Done => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                State::Failed(failed) => return Poll::Ready(Err(io::Error::other(failed.why.to_string()))),
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(Opened::Http1(http)) => {
                        if self.body_ended.get() {
                            http.put_trailers(self.request_trailers.take());
                            _ = http.poll_end_body(cx);
                        }
                        State::Http1(http)
                    }
                    Ok(Opened::Http2(stream, request)) => State::Waiting(Box::new(stream), request),
                    Err(failed) => State::Failed(failed),
                },
                State::Waiting(stream, request) => {
                    let sent = match ready!(stream.sender.poll_ready(cx)) {
                        Ok(()) => {
                            let request = std::mem::take(request);
                            stream.sender.send_request(request, self.body_ended.get())
                        }
                        Err(error) => Err(error),
                    };
                    match (sent, std::mem::replace(state, State::Done)) {
                        (Ok((head, body)), State::Waiting(stream, _)) => State::Open(Box::new(Open {
                            stream: *stream,
                            body,
                            head: Some(head),
                            content: None,
                            trailers: Trailers::new(),
                        })),
                        (Err(error), State::Waiting(stream, _)) => {
                            stream.retire_connection();
                            // It was not sent.
                            State::Failed(Failed { why: describe(&error).into(), retry: Retry::Left })
                        }
                        (_, other) => other,
                    }
                }
            };
        }
    }
}

impl Open {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = &bytes[..bytes.len().min(PIECE)];
        self.body.reserve_capacity(taken.len());
        while self.body.capacity() == 0 {
            match ready!(self.body.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let taken = &taken[..taken.len().min(self.body.capacity())];
        let sent = self.body.send_data(Bytes::copy_from_slice(taken), false);
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Poll::Ready(Ok(taken.len()))
    }

    fn end_body(&mut self, trailers: &Trailers) -> io::Result<()> {
        let mut fields = HeaderMap::new();
        for (name, value) in trailers {
            // Neither can fail: they were received as names and values.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
            {
                fields.append(name, value);
            }
        }
        let sent = match fields.is_empty() {
            true => self.body.send_data(Bytes::new(), true),
            false => self.body.send_trailers(fields),
        };
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Failed>> {
        if let Some(head) = &mut self.head {
            if let Poll::Ready(Some(interim)) = head.poll_informational(cx) {
                let interim = interim.map_err(|error| self.stream.failure(&error, Content::No))?;
                return Poll::Ready(render(&interim).map(Some).map_err(Failed::malformed));
            }
            let response = ready!(Pin::new(head).poll(cx));
            self.head = None;
            let response = response.map_err(|error| self.stream.failure(&error, Content::No))?;
            self.stream.on_response();
            let bytes = render(&response).map_err(Failed::malformed)?;
            self.content = Some(response.into_body());
            return Poll::Ready(Ok(Some(bytes)));
        }
        let Some(content) = &mut self.content else { return Poll::Ready(Ok(None)) };
        // Frames without content are bounded by `h2`.
        while let Some(data) = ready!(content.poll_data(cx)) {
            let data = data.map_err(|error| self.stream.failure(&error, Content::Some))?;
            // The endpoint may send as much again as is passed on here.
            _ = content.flow_control().release_capacity(data.len());
            if !data.is_empty() {
                return Poll::Ready(Ok(Some(data.to_vec())));
            }
        }
        let trailers = ready!(content.poll_trailers(cx));
        let trailers = trailers.map_err(|error| self.stream.failure(&error, Content::Some))?;
        self.content = None;
        self.trailers = trailers.map(|fields| of_trailers(&fields)).unwrap_or_default();
        Poll::Ready(Ok(None))
    }
}

/// Whether some of a response has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    No,
    Some,
}

impl Http2Stream {
    fn failure(&self, error: &h2::Error, content: Content) -> Failed {
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let has_left = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        // `h2` ends the connection for a malformed field, too, which is an error of the stream (RFC 9113 §8.1.1).
        let has_broken = error.is_go_away() && error.is_library();
        let is_others = has_broken && self.has_others();
        if !error.is_reset() {
            self.retire_connection();
        }
        let retry = match content {
            Content::Some => Retry::Never,
            // RFC 9113 §8.7: the endpoint has not processed it.
            Content::No if is_refused => Retry::Refused(self.endpoint()),
            Content::No if has_left => Retry::Left,
            // It has processed the request, and says no.
            Content::No if error.is_reset() => Retry::Never,
            // Together they would break down again.
            Content::No if is_others => Retry::Apart,
            Content::No => Retry::AtAnother {
                endpoint: self.endpoint(),
                connection: if has_broken { Reuse::New } else { self.reuse() },
                // RFC 9113 §6.8: only streams behind the last that the endpoint has processed have this error, whatever its
                // reason.
                sent: if error.is_go_away() && error.is_remote() { Sent::Nothing } else { Sent::Something },
            },
        };
        let others = if is_others { ", perhaps in the response to another request" } else { "" };
        Failed { why: (describe(error) + others).into(), retry }
    }
}

/// The request has not been sent on the connection to this endpoint.
fn unsent(endpoint: EndpointId, connection: Reuse) -> Retry {
    Retry::AtAnother { endpoint, connection, sent: Sent::Nothing }
}

impl Failed {
    fn malformed(why: &'static str) -> Failed {
        Failed { why: why.into(), retry: Retry::Never }
    }
}

impl Transport for Http2 {
    fn put_trailers(&self, trailers: Trailers) {
        self.request_trailers.replace(trailers);
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?;
        match &*self.state.borrow() {
            State::Http1(http) => http.poll_ready(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?;
        match &mut *self.state.borrow_mut() {
            State::Http1(http) => http.poll_write(cx, bytes),
            State::Open(open) => open.poll_write(cx, bytes),
            _ => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_open = matches!(*self.state.borrow(), State::Open(_));
        let is_first = !self.body_ended.replace(true);
        ready!(self.poll_open(cx))?;
        match &mut *self.state.borrow_mut() {
            State::Http1(http) => {
                if is_first {
                    http.put_trailers(self.request_trailers.take());
                }
                http.poll_end_body(cx)
            }
            State::Open(open) if is_first && is_open => {
                Poll::Ready(open.end_body(&self.request_trailers.take()))
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    fn is_connected(&self) -> bool {
        match &*self.state.borrow() {
            State::Opening(_) | State::Waiting(..) => false,
            State::Http1(http) => http.is_connected(),
            State::Open(_) | State::Failed(_) | State::Done => true,
        }
    }

    fn head_parser(&self) -> HeadParser {
        HeadParser::http()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        // The state has the error.
        let opened = ready!(self.poll_open(cx));
        let state = &mut *self.state.borrow_mut();
        let read = match state {
            State::Http1(http) => return http.poll_read(cx),
            State::Open(open) => ready!(open.poll_read(cx)),
            State::Failed(failed) => Err(failed.clone()),
            State::Opening(_) | State::Waiting(..) | State::Done => {
                return Poll::Ready(opened.map(|()| None).map_err(ReadError::from));
            }
        };
        Poll::Ready(read.map_err(|failed| {
            let why = failed.why.clone();
            *state = State::Failed(failed);
            ReadError::Broken(why)
        }))
    }

    fn retry(&self) -> Retry {
        match &*self.state.borrow() {
            State::Http1(http) => http.retry(),
            State::Failed(failed) => failed.retry,
            State::Opening(_) | State::Waiting(..) => unsent(self.endpoint, Reuse::New),
            State::Open(_) | State::Done => Retry::Never,
        }
    }

    fn report_failure(&self, fault: Fault, reason: &str) {
        match &*self.state.borrow() {
            State::Http1(http) => http.report_failure(fault, reason),
            // Other streams of the connection may have their responses.
            _ => self.reporter.iter().for_each(|reporter| reporter.report(Fault::Other, reason)),
        }
    }

    fn trailers(&self) -> Trailers {
        match &mut *self.state.borrow_mut() {
            State::Open(open) => std::mem::take(&mut open.trailers),
            _ => Trailers::new(),
        }
    }

    fn has_trailers(&self) -> bool {
        matches!(&*self.state.borrow(), State::Open(open) if !open.trailers.is_empty())
    }

    fn finish(&self, persistence: Persistence) {
        if let State::Http1(http) = &*self.state.borrow() {
            return http.finish(persistence);
        }
        // A stream that has not ended is reset when it is dropped. Its trailers are still to be sent.
        let state = &mut *self.state.borrow_mut();
        match state {
            State::Open(open) if !open.trailers.is_empty() => {}
            _ => *state = State::Done,
        }
    }
}

impl Http2Request<'_> {
    fn to_http2(&self) -> Result<Request<()>, &'static str> {
        const MALFORMED: &str = "HTTP/2 has no form for the request";
        let head = self.head.strip_suffix(b"\r\n\r\n").ok_or(MALFORMED)?;
        let mut lines =
            head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut words = lines.next().ok_or(MALFORMED)?.split(|byte| *byte == b' ');
        let (method, target) = (words.next().ok_or(MALFORMED)?, words.next().ok_or(MALFORMED)?);
        let (mut fields, mut authority) = (HeaderMap::new(), &b""[..]);
        for line in lines {
            let at = line.windows(2).position(|pair| pair == b": ").ok_or(MALFORMED)?;
            let (name, value) = (&line[..at], &line[at + 2..]);
            // It is `:authority` there.
            if name.eq_ignore_ascii_case(b"host") {
                authority = value;
                continue;
            }
            if is_hop_by_hop(name) {
                continue;
            }
            let name = HeaderName::from_bytes(name).map_err(|_| MALFORMED)?;
            fields.append(name, HeaderValue::from_bytes(value).map_err(|_| MALFORMED)?);
        }
        if self.accepts_trailers {
            fields.append(http::header::TE, HeaderValue::from_static("trailers"));
        }
        if let Some(names) = self.trailer {
            fields.append(http::header::TRAILER, HeaderValue::from_str(names).map_err(|_| MALFORMED)?);
        }
        let uri = Uri::builder().scheme(self.scheme).authority(authority).path_and_query(&*plain(target));
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = Method::from_bytes(method).map_err(|_| MALFORMED)?;
        *request.uri_mut() = uri.build().map_err(|_| MALFORMED)?;
        *request.headers_mut() = fields;
        Ok(request)
    }
}

/// With the bytes encoded that RFC 3986 does not allow, but clients send.
fn plain(target: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(target.len());
    for byte in target {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                plain.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => plain.push(*byte),
        }
    }
    plain
}

/// The head that HTTP/1.1 would have. Errors: the rule that it breaks.
fn render<B>(response: &Response<B>) -> Result<Vec<u8>, &'static str> {
    let status: StatusCode = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("its response has the status 101, which HTTP/2 does not have");
    }
    let mut out = format!("HTTP/1.1 {} \r\n", status.as_str()).into_bytes();
    for (name, value) in response.headers() {
        if is_hop_by_hop(name.as_str().as_bytes()) && name != http::header::TRAILER {
            return Err("its response has a field that HTTP/2 does not allow");
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

/// Those that a client may get.
fn of_trailers(fields: &HeaderMap) -> Trailers {
    let fields = fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    trailers::passed(fields, |_| false)
}

fn describe(error: &h2::Error) -> String {
    match error.reason() {
        Some(reason) if error.is_reset() && error.is_remote() => {
            format!("it has reset the stream: {}", name(reason))
        }
        Some(reason) if error.is_go_away() && error.is_remote() => {
            format!("it has ended the HTTP/2 connection: {}", name(reason))
        }
        // The head of an HTTP/1.1 response is a frame that is too large.
        Some(reason @ Reason::FRAME_SIZE_ERROR) => {
            format!("it does not speak HTTP/2 (`http2`), or breaks a rule of it: {}", name(reason))
        }
        Some(Reason::PROTOCOL_ERROR) => {
            "it breaks a rule of HTTP/2, as by a malformed field: PROTOCOL_ERROR".to_owned()
        }
        Some(reason) => format!("it breaks a rule of HTTP/2: {}", name(reason)),
        None => match error.get_io() {
            Some(error) => error.to_string(),
            None => format!("HTTP/2 has failed: {error}"),
        },
    }
}

fn name(reason: Reason) -> String {
    format!("{reason:?}")
}
