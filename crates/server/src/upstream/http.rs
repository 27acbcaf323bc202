//! A request by HTTP/1.1 (RFC 9112): the client's side. The response decides whether the connection can have another
//! request.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use site::authorizer::Subrequest;
use site::forwarding::{Forwarding, Forwards, Spelling, UNCHANGED};
use site::model::HeaderRule;
use site::proxies::Via;
use taipan_http::client::request::{write_fields, write_line, write_via};
use taipan_http::digits::write_number;
use taipan_http::fields::{is_name, is_plain_name, trim_ows};
use taipan_http::forwarded::{self, Origin};
use taipan_http::head::{Head, Method, Names, Persistence};
use taipan_http::target::{SafePath, with_query};
use taipan_http::trailers::{self, Trailers};
use taipan_http::write::put;

use super::head::HeadParser;
use super::transport::{Connection, ReadError, Retry, Transport, write_chunk};
use crate::peer::Peer;
use crate::pool::PooledConnection;
use crate::request::body::Length;
use crate::services::Services;

/// In `Via`.
const NAME: &str = "taipan";
/// Bytes that this server adds to most requests, beside the authority in three fields.
const OWN_BYTES: usize = 256;
/// Fields about the response to the client, and about connections of the client: not for the answer of an authorizer.
const OF_THE_REQUEST: [&str; 8] = [
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "x-original-method",
];

/// What becomes of the connection behind a request.
#[derive(Clone, Copy)]
pub enum Next<'a> {
    Request,
    Close,
    /// It has this protocol, if the upstream agrees. For WebSocket, perhaps with a key of this server.
    Upgrade(&'a [u8], Option<&'a str>),
}

impl Next<'_> {
    pub fn of(persistence: Persistence) -> Next<'static> {
        match persistence {
            Persistence::KeepAlive => Next::Request,
            Persistence::Close => Next::Close,
        }
    }
}

/// What the client reads of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    Content,
    /// Also the fields behind it.
    Trailers,
}

pub struct Http {
    connection: Connection,
    head_parser: fn() -> HeadParser,
    body_ended: Cell<bool>,
    coding: Coding,
    trailers: RefCell<Trailers>,
}

/// How the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// By `Content-Length`, or there is none.
    Length,
    Chunked,
}

impl Http {
    /// `head` is that of `request_head`.
    pub fn new(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        head: &[u8],
        head_parser: fn() -> HeadParser,
    ) -> Http {
        let connection = Connection::new(services, connection, head.to_vec());
        let trailers = RefCell::default();
        Http { connection, head_parser, body_ended: Cell::new(false), coding: Coding::Length, trailers }
    }

    /// Of a request without a body that has been sent, apart from `unsent`. `received`: bytes of the response.
    pub fn begun(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        unsent: Vec<u8>,
        received: Vec<u8>,
    ) -> Http {
        let connection = Connection::begun(services, connection, unsent, received);
        let (body_ended, coding, trailers) = (Cell::new(true), Coding::Length, RefCell::default());
        Http { connection, head_parser: HeadParser::http, body_ended, coding, trailers }
    }

    /// As `new`, with a body of unknown length, behind which there may be fields of these names.
    pub fn chunked(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        head: &[u8],
        trailer: Option<&str>,
    ) -> Http {
        let fields = head.strip_suffix(b"\r\n").unwrap_or(head);
        let mut head = [fields, b"Transfer-Encoding: chunked\r\n"].concat();
        if let Some(names) = trailer {
            put(&mut head, &[b"Trailer: ", names.as_bytes(), b"\r\n"]);
        }
        put(&mut head, &[b"\r\n"]);
        Http { coding: Coding::Chunked, ..Http::new(services, connection, &head, HeadParser::http) }
    }
}

impl Transport for Http {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_flush(cx)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.coding {
            Coding::Length => self.connection.poll_write(cx, bytes),
            Coding::Chunked => {
                self.connection.poll_append(cx, |out| write_chunk(bytes, out)).map_ok(|()| bytes.len())
            }
        }
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.coding == Coding::Chunked && !self.body_ended.get() {
            let write = |out: &mut Vec<u8>| trailers::write_last_chunk(&self.trailers.take(), out);
            ready!(self.connection.poll_append(cx, write))?;
        }
        self.body_ended.set(true);
        self.connection.poll_flush(cx)
    }

    fn put_trailers(&self, trailers: Trailers) {
        self.trailers.replace(trailers);
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn head_parser(&self) -> HeadParser {
        (self.head_parser)()
    }

    fn take_connection(&self) -> Option<Box<PooledConnection>> {
        self.connection.take()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        self.connection.poll_read(cx)
    }

    fn retry(&self) -> Retry {
        self.connection.retry()
    }

    fn report_failure(&self, reason: &str) {
        self.connection.report_failure(reason);
    }

    fn finish(&self, persistence: Persistence) {
        self.connection.finish(match self.body_ended.get() {
            true => persistence,
            // The endpoint would take the next request for the rest of the body.
            false => Persistence::Close,
        });
    }
}

/// Appends the head of the request, whose body has `length` bytes. The client is named by this server alone, and the
/// user by its authorizers, in `asserted`.
pub fn write_request_head(
    head: &Head<'_>,
    (client, via): (Peer, Via),
    length: Option<u64>,
    (forwarding, spelling): (&Forwarding, Spelling),
    asserted: &[(&str, &[u8])],
    next: Next<'_>,
    out: &mut Vec<u8>,
) {
    let fields = head.fields.iter().map(|field| field.name.len() + field.value.len() + b": \r\n".len());
    out.reserve(OWN_BYTES + head.raw_target.len() + 3 * head.authority.len() + fields.sum::<usize>());
    let path = head.target.path().map_or("*".into(), |path| forwarding.path(path, spelling));
    let host = forwarding.host.as_ref().map_or(head.authority, |host| host.as_bytes());
    write_line(head.token, &path, head.target.query(), host, out);
    let forwards = Forwards::of(head);
    let counts_forwards = forwards != Forwards::Unlimited;
    let has_key = matches!(next, Next::Upgrade(_, Some(_)));
    let passes = |name: &[u8]| {
        let is_claim = match via {
            Via::Nothing => forwarded::is_claim(name),
            Via::TrustedProxy => forwarded::is_interpreted(name),
        };
        let is_written =
            counts_forwards && is_name(name, "max-forwards") || has_key && is_name(name, "sec-websocket-key");
        is_plain_name(name) && !is_claim && !forwarding.replaces(name) && !is_written
    };
    write_fields(head, &passes, out);
    forwards.write(out);
    for (name, value) in forwarding.fields.iter().filter_map(HeaderRule::field) {
        put(out, &[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    for (name, value) in asserted {
        put(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
    }
    put_origin(head, client, forwarding, out);
    if let Some(bytes) = length {
        out.extend_from_slice(b"Content-Length: ");
        write_number(bytes, out);
        out.extend_from_slice(b"\r\n");
    }
    let accepts = Accepts::of(head, forwarding);
    put_end(next, accepts, out);
}

/// The head of a request that a forward proxy, `name`, sends to the server of its URL: as the client has sent it
/// (RFC 9110 §7.7), in the form for origin servers. `length`: of the body, which is chunked where it is not known.
/// `persistence`: of the connection.
pub fn direct_head(head: &Head<'_>, name: &str, length: Length, persistence: Persistence) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let has_path = head.raw_target.matches('/').count() > 2 || head.target.query().is_some();
    let path = match head.target.path() {
        // RFC 9112 §3.2.4.
        Some("/") if head.method == Method::Options && !has_path => "*",
        path => path.unwrap_or("/"),
    };
    write_line(head.token, path, head.target.query(), head.authority, &mut out);
    let forwards = Forwards::of(head);
    let counts_forwards = forwards != Forwards::Unlimited;
    let passes = |name: &[u8]| {
        let is_counted = counts_forwards && is_name(name, "max-forwards");
        !is_counted && !is_name(name, "proxy-authorization")
    };
    write_fields(head, &passes, &mut out);
    forwards.write(&mut out);
    write_via(head.version, name, &mut out);
    match length {
        Length::None => {}
        Length::Unknown => put(&mut out, &[b"Transfer-Encoding: chunked\r\n"]),
        Length::Sized(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            write_number(bytes, &mut out);
            out.extend_from_slice(b"\r\n");
        }
    }
    put_end(Next::of(persistence), Accepts::Content, &mut out);
    out
}

/// The head of the request that asks an authorizer about that of `head`, without its body. The authorizer gets the path
/// in its shortest spelling: its rules need not know the others.
pub fn subrequest_head(
    head: &Head<'_>,
    client: Peer,
    subrequest: &Subrequest,
    persistence: Persistence,
) -> Vec<u8> {
    let path = head.target.path().and_then(|path| SafePath::parse(path).ok());
    let uri = with_query(path.map_or_else(|| "/".to_owned(), |path| path.encoded()), head.target.query());
    let token = subrequest.token(head);
    let target = subrequest.target.as_ref().unwrap_or(&uri);
    let mut out = Vec::with_capacity(1024);
    write_line(token, target, None, head.authority, &mut out);
    let passes = |name: &[u8]| {
        let is_of_content =
            |name: &[u8]| name.split_at_checked(8).is_some_and(|(start, _)| is_name(start, "content-"));
        let is_of_request = OF_THE_REQUEST.iter().any(|own| is_name(name, own));
        is_plain_name(name) && !forwarded::is_claim(name) && !is_of_content(name) && !is_of_request
    };
    write_fields(head, &passes, &mut out);
    put_origin(head, client, &UNCHANGED, &mut out);
    let scheme = head.scheme.as_str().as_bytes();
    for name in ["X-Forwarded-Method", "X-Original-Method"] {
        put(&mut out, &[name.as_bytes(), b": ", head.token.as_bytes(), b"\r\n"]);
    }
    for name in ["X-Forwarded-Uri", "X-Original-URI"] {
        put(&mut out, &[name.as_bytes(), b": ", uri.as_bytes(), b"\r\n"]);
    }
    put(&mut out, &[b"X-Original-URL: ", scheme, b"://", head.authority, uri.as_bytes(), b"\r\n"]);
    if !matches!(token, "GET" | "HEAD") {
        put(&mut out, &[b"Content-Length: 0\r\n"]);
    }
    put_end(Next::of(persistence), Accepts::Content, &mut out);
    out
}

impl Accepts {
    /// RFC 9110 §10.1.4.
    pub fn of(head: &Head<'_>, forwarding: &Forwarding) -> Accepts {
        // Most requests have none.
        if !head.names.contains(Names::TE) {
            return Accepts::Content;
        }
        let mut codings = head.values("te").flat_map(|value| value.split(|byte| *byte == b','));
        let is_asked = codings.any(|coding| trim_ows(coding).eq_ignore_ascii_case(b"trailers"));
        if is_asked && forwarding.trailers.pass_in_responses() { Accepts::Trailers } else { Accepts::Content }
    }
}

/// What this server knows of the request, unless the route has fields of its own.
fn put_origin(head: &Head<'_>, peer: Peer, forwarding: &Forwarding, out: &mut Vec<u8>) {
    write_via(head.version, NAME, out);
    let origin = Origin { client: peer.ip(), scheme: head.scheme, host: head.authority };
    forwarded::write(&origin, &|name| forwarding.replaces(name), out);
}

fn put_end(next: Next<'_>, accepts: Accepts, out: &mut Vec<u8>) {
    match (next, accepts) {
        (Next::Request, Accepts::Content) => out.extend_from_slice(b"\r\n"),
        (Next::Request, Accepts::Trailers) => put(out, &[b"Connection: TE\r\nTE: trailers\r\n\r\n"]),
        (Next::Close, Accepts::Content) => put(out, &[b"Connection: close\r\n\r\n"]),
        (Next::Close, Accepts::Trailers) => put(out, &[b"Connection: close, TE\r\nTE: trailers\r\n\r\n"]),
        (Next::Upgrade(protocol, key), _) => {
            if let Some(key) = key {
                put(out, &[b"Sec-WebSocket-Key: ", key.as_bytes(), b"\r\n"]);
            }
            put(out, &[b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n\r\n"]);
        }
    }
}
