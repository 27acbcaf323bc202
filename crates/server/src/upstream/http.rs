//! A request by HTTP/1.1 (RFC 9112): the client's side. The response decides whether the connection can have another
//! request.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use site::authorizer::Subrequest;
use site::forwarding::{Forwarding, Forwards, Spelling, UNCHANGED};
use site::model::HeaderRule;
use site::proxies::Via;
use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::{is_name, trim_ows};
use taipan_http::forwarded;
use taipan_http::head::{Field, Head, Method, Persistence};
use taipan_http::known::is_hop_by_hop;
use taipan_http::target::{SafePath, encode_path};
use taipan_http::trailers::{self, Trailers};
use taipan_http::write::put;

use super::head::HeadParser;
use super::transport::{Connection, ReadError, Retry, Transport};
use crate::peer::Peer;
use crate::pool::PooledConnection;
use crate::request::body::Length;
use crate::services::Services;

/// In `Via`.
const NAME: &str = "taipan";
/// Bytes that this server adds to most requests, beside the authority in three fields.
const OWN_BYTES: usize = 256;
/// Fields that the server writes itself, or that programs misread; beside those of this hop, and of
/// `taipan_http::forwarded`.
const OWN_FIELDS: [&str; 4] = ["content-length", "expect", "host", "proxy"];

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
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
                self.connection.poll_write(cx, &chunk).map_ok(|_| bytes.len())
            }
        }
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.coding == Coding::Chunked && !self.body_ended.get() {
            ready!(self.connection.poll_flush(cx))?;
            let mut end = Vec::new();
            trailers::write_last_chunk(&self.trailers.take(), &mut end);
            _ = ready!(self.connection.poll_write(cx, &end))?;
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
    put(out, &[head.token.as_bytes(), b" ", path.as_bytes()]);
    if let Some(query) = head.target.query() {
        put(out, &[b"?", query.as_bytes()]);
    }
    let host = forwarding.host.as_ref().map_or(head.authority, |host| host.as_bytes());
    put(out, &[b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
    let forwards = Forwards::of(head.values("max-forwards"));
    let counts_forwards = head.method == Method::Options && forwards != Forwards::Unlimited;
    let has_key = matches!(next, Next::Upgrade(_, Some(_)));
    put_fields(head, out, |name| {
        let is_claim = match via {
            Via::Nothing => forwarded::is_claim(name),
            Via::TrustedProxy => forwarded::is_interpreted(name),
        };
        let is_written =
            counts_forwards && is_name(name, "max-forwards") || has_key && is_name(name, "sec-websocket-key");
        !is_claim && !forwarding.replaces(name) && !is_written
    });
    if counts_forwards {
        forwards.write(out);
    }
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
    put(&mut out, &[head.token.as_bytes(), b" ", path.as_bytes()]);
    if let Some(query) = head.target.query() {
        put(&mut out, &[b"?", query.as_bytes()]);
    }
    put(&mut out, &[b" HTTP/1.1\r\nHost: ", head.authority, b"\r\n"]);
    let forwards = Forwards::of(head.values("max-forwards"));
    let counts_forwards = head.method == Method::Options && forwards != Forwards::Unlimited;
    for field in passed_fields(head) {
        let is_counted = counts_forwards && is_name(field.name, "max-forwards");
        if !is_counted && !is_name(field.name, "proxy-authorization") {
            put(&mut out, &[field.name, b": ", field.value, b"\r\n"]);
        }
    }
    if counts_forwards {
        forwards.write(&mut out);
    }
    put_via(head, name, &mut out);
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
    let mut uri = String::from("/");
    if let Some(Ok(path)) = head.target.path().map(SafePath::parse) {
        encode_path(path.as_str(), &mut uri);
    }
    if let Some(query) = head.target.query() {
        uri.push('?');
        uri.push_str(query);
    }
    let token = subrequest.token(head);
    let target = subrequest.target.as_ref().unwrap_or(&uri);
    let mut out = Vec::with_capacity(1024);
    put(
        &mut out,
        &[token.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\nHost: ", head.authority, b"\r\n"],
    );
    put_fields(head, &mut out, |name| {
        let is_of_content =
            |name: &[u8]| name.split_at_checked(8).is_some_and(|(start, _)| is_name(start, "content-"));
        let is_of_request = OF_THE_REQUEST.iter().any(|own| is_name(name, own));
        !forwarded::is_claim(name) && !is_of_content(name) && !is_of_request
    });
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
        let mut codings = head.values("te").flat_map(|value| value.split(|byte| *byte == b','));
        let is_asked = codings.any(|coding| trim_ows(coding).eq_ignore_ascii_case(b"trailers"));
        if is_asked && forwarding.trailers.pass_in_responses() { Accepts::Trailers } else { Accepts::Content }
    }
}

/// The client's fields that `passes` selects, without those of the connection. A name with an underscore or another
/// sign is left out, because programs take it for the same name with a hyphen.
fn put_fields(head: &Head<'_>, out: &mut Vec<u8>, passes: impl Fn(&[u8]) -> bool) {
    for field in passed_fields(head) {
        if is_plain_name(field.name) && passes(field.name) {
            put(out, &[field.name, b": ", field.value, b"\r\n"]);
        }
    }
}

/// Whether no program takes the name of a field for another one.
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The client's fields without those that are for this hop alone, or written by this server.
fn passed_fields<'a>(head: &'a Head<'a>) -> impl Iterator<Item = Field<'a>> {
    let is_own = |name: &[u8]| is_hop_by_hop(name) || OWN_FIELDS.iter().any(|own| is_name(name, own));
    let options = head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
    // Empty for most clients, so that it needs no memory.
    let options: Vec<&[u8]> = options.map(trim_ows).filter(|option| !is_own(option)).collect();
    let is_option = move |name: &[u8]| options.iter().any(|option| option.eq_ignore_ascii_case(name));
    head.fields.iter().copied().filter(move |field| !is_own(field.name) && !is_option(field.name))
}

/// RFC 9110 §7.6.3, behind those of other proxies.
fn put_via(head: &Head<'_>, own: &str, out: &mut Vec<u8>) {
    put(out, &[b"Via: ", head.version.number().as_bytes(), b" ", own.as_bytes(), b"\r\n"]);
}

/// What this server knows of the request, unless the route has fields of its own.
fn put_origin(head: &Head<'_>, peer: Peer, forwarding: &Forwarding, out: &mut Vec<u8>) {
    put_via(head, NAME, out);
    let client = peer.ip().map(|ip| ip.to_canonical());
    let scheme = head.scheme.as_str().as_bytes();
    if let Some(ip) = client.filter(|_| !forwarding.replaces(b"x-forwarded-for")) {
        out.extend_from_slice(b"X-Forwarded-For: ");
        write_ip(ip, out);
        out.extend_from_slice(b"\r\n");
    }
    if !forwarding.replaces(b"x-forwarded-proto") {
        put(out, &[b"X-Forwarded-Proto: ", scheme, b"\r\n"]);
    }
    if !forwarding.replaces(b"x-forwarded-host") {
        put(out, &[b"X-Forwarded-Host: ", head.authority, b"\r\n"]);
    }
    if !forwarding.replaces(b"forwarded") {
        // RFC 7239 §4 and §6.
        out.extend_from_slice(b"Forwarded: for=");
        match client {
            None => out.extend_from_slice(b"unknown"),
            Some(ip @ IpAddr::V4(_)) => write_ip(ip, out),
            Some(ip @ IpAddr::V6(_)) => {
                out.extend_from_slice(b"\"[");
                write_ip(ip, out);
                out.extend_from_slice(b"]\"");
            }
        }
        put(out, &[b";host=\"", head.authority, b"\";proto=", scheme, b"\r\n"]);
    }
    if head.needs_early_data() {
        out.extend_from_slice(b"Early-Data: 1\r\n");
    }
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
