//! The heads of requests by HTTP/1.1: to an upstream, to another server, and to an authorizer.

use std::borrow::Cow;

use site::authorizer::Subrequest;
use site::forwarding::{Forwarding, Forwards, Spelling};
use site::model::HeaderRule;
use site::proxies::Via;
use site::upstream::Upstream;
use taipan_http::client::request::{passes_of, write_fields, write_line, write_via};
use taipan_http::conditional::is_condition;
use taipan_http::digits::write_number;
use taipan_http::fields::{is_name, is_plain_name, trim_ows};
use taipan_http::forwarded::{self, ForwardedElement};
use taipan_http::head::{Head, Method, Names, Persistence};
use taipan_http::target::{SafePath, with_query};
use taipan_http::write::put;

use crate::peer::Peer;
use crate::request::body::Length;

/// In `Via`.
const NAME: &str = "taipan";
/// A request that has passed servers of this name so often goes in a circle. A chain of several is usual, and all have
/// the same name.
const MAX_PASSES: usize = 10;
/// Bytes that this server adds to most requests, beside the authority in three fields.
const OWN_BYTES: usize = 256;
/// The address of the client, which a trusted proxy may have written, too.
const REAL_IP: &[u8] = b"x-real-ip";

/// What becomes of the connection behind a request (RFC 9110 §7.6.1).
#[derive(Clone, Copy)]
pub enum ConnectionOption<'a> {
    KeepAlive,
    Close,
    /// It has this protocol, if the upstream agrees. For WebSocket, perhaps with a key of this server.
    Upgrade(&'a [u8], Option<&'a str>),
}

impl ConnectionOption<'_> {
    pub fn of(persistence: Persistence) -> ConnectionOption<'static> {
        match persistence {
            Persistence::KeepAlive => ConnectionOption::KeepAlive,
            Persistence::Close => ConnectionOption::Close,
        }
    }
}

/// Whether a request goes in a circle: an upstream leads to this server, which leads to the upstream (RFC 9110 §7.6.3).
pub fn goes_in_a_circle(head: &Head<'_>) -> bool {
    passes_of(head, NAME) >= MAX_PASSES
}

/// Whether a request may go in a circle, so that it does not wait for another one, which may be itself.
pub fn may_go_in_a_circle(head: &Head<'_>) -> bool {
    passes_of(head, NAME) > 1
}

/// What the client reads of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    Content,
    /// Also the fields behind it.
    Trailers,
}

/// A request to an upstream. The client is named by this server alone.
pub struct ForwardedHead<'a> {
    pub head: &'a Head<'a>,
    pub client: Peer,
    pub via: Via,
    /// The bytes of the body. `None`: there is none, or its length is unknown.
    pub length: Option<u64>,
    pub upstream: &'a Upstream,
    pub forwarding: &'a Forwarding,
    pub spelling: Spelling,
    /// Fields that only authorizers set.
    pub asserted: &'a [(&'a str, &'a [u8])],
    pub connection: ConnectionOption<'a>,
}

impl ForwardedHead<'_> {
    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>) {
        let &ForwardedHead { head, client, via, length, upstream, forwarding, .. } = self;
        let &ForwardedHead { spelling, asserted, connection, .. } = self;
        let fields = head.fields.iter().map(|field| field.name.len() + field.value.len() + b": \r\n".len());
        out.reserve(OWN_BYTES + head.raw_target.len() + 3 * head.authority.len() + fields.sum::<usize>());
        let path = head.target.path().map_or("*".into(), |path| forwarding.path(path, spelling));
        let host =
            forwarding.host.as_ref().map_or_else(|| host(head, upstream), |host| host.as_bytes().into());
        write_line(head.token, &path, head.target.query(), &host, out);
        let forwards = Forwards::of(head);
        let counts_forwards = forwards != Forwards::Unlimited;
        let has_key = matches!(connection, ConnectionOption::Upgrade(_, Some(_)));
        let passes = |name: &[u8]| {
            let is_claim = match via {
                Via::Nothing => forwarded::is_claim(name),
                Via::TrustedProxy => forwarded::is_interpreted(name),
            };
            let is_written = counts_forwards && is_name(name, "max-forwards")
                || has_key && is_name(name, "sec-websocket-key");
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
        // A trusted proxy may know more than this server.
        let is_told =
            |name: &[u8]| via == Via::TrustedProxy && name == REAL_IP && head.value("x-real-ip").is_some();
        put_forwarded(head, client, &|name| forwarding.replaces(name) || is_told(name), out);
        if let Some(bytes) = length {
            out.extend_from_slice(b"Content-Length: ");
            write_number(bytes, out);
            out.extend_from_slice(b"\r\n");
        }
        let accepts = Accepts::of(head, forwarding);
        put_end(connection, accepts, out);
    }
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
    put_end(ConnectionOption::of(persistence), Accepts::Content, &mut out);
    out
}

/// The head of the request that asks an authorizer about that of `head`, without its body. The authorizer gets the path
/// in its shortest spelling: its rules need not know the others. `upstream`: the authorizer.
pub fn subrequest_head(
    head: &Head<'_>,
    client: Peer,
    subrequest: &Subrequest,
    upstream: &Upstream,
    persistence: Persistence,
) -> Vec<u8> {
    let path = head.target.path().and_then(|path| SafePath::parse(path).ok());
    let uri = with_query(path.map_or_else(|| "/".to_owned(), |path| path.encoded()), head.target.query());
    let token = subrequest.token(head);
    let target = subrequest.target.as_ref().unwrap_or(&uri);
    let mut out = Vec::with_capacity(1024);
    write_line(token, target, None, &host(head, upstream), &mut out);
    let passes = |name: &[u8]| {
        let is_of_content =
            |name: &[u8]| name.split_at_checked(8).is_some_and(|(start, _)| is_name(start, "content-"));
        // They are about the response to the client, its connection, and what this server says itself.
        let is_of_request =
            is_condition(name) || is_name(name, "http2-settings") || is_name(name, "x-original-method");
        is_plain_name(name) && !forwarded::is_claim(name) && !is_of_content(name) && !is_of_request
    };
    write_fields(head, &passes, &mut out);
    put_forwarded(head, client, &|_| false, &mut out);
    let scheme = head.scheme.as_str().as_bytes();
    for name in ["X-Forwarded-Method", "X-Original-Method"] {
        put(&mut out, &[name.as_bytes(), b": ", head.token.as_bytes(), b"\r\n"]);
    }
    for name in ["X-Forwarded-Uri", "X-Original-URI"] {
        put(&mut out, &[name.as_bytes(), b": ", uri.as_bytes(), b"\r\n"]);
    }
    if !head.authority.is_empty() {
        put(&mut out, &[b"X-Original-URL: ", scheme, b"://", head.authority, uri.as_bytes(), b"\r\n"]);
    }
    if !matches!(token, "GET" | "HEAD") {
        put(&mut out, &[b"Content-Length: 0\r\n"]);
    }
    put_end(ConnectionOption::of(persistence), Accepts::Content, &mut out);
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

/// The value of `Host`: the requested host, or that of the upstream, if the request names none, which HTTP/1.0 allows.
fn host<'h>(head: &Head<'h>, upstream: &Upstream) -> Cow<'h, [u8]> {
    match head.authority {
        b"" => upstream.authority().into_bytes().into(),
        authority => authority.into(),
    }
}

/// What this server knows of the request, but in the fields that are `replaced`.
fn put_forwarded(head: &Head<'_>, peer: Peer, replaced: &dyn Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    write_via(head.version, NAME, out);
    let element = ForwardedElement { client: peer.ip(), scheme: head.scheme, host: head.authority };
    forwarded::write(&element, replaced, out);
}

fn put_end(connection: ConnectionOption<'_>, accepts: Accepts, out: &mut Vec<u8>) {
    match (connection, accepts) {
        (ConnectionOption::KeepAlive, Accepts::Content) => out.extend_from_slice(b"\r\n"),
        (ConnectionOption::KeepAlive, Accepts::Trailers) => {
            put(out, &[b"Connection: TE\r\nTE: trailers\r\n\r\n"])
        }
        (ConnectionOption::Close, Accepts::Content) => put(out, &[b"Connection: close\r\n\r\n"]),
        (ConnectionOption::Close, Accepts::Trailers) => {
            put(out, &[b"Connection: close, TE\r\nTE: trailers\r\n\r\n"])
        }
        (ConnectionOption::Upgrade(protocol, key), _) => {
            if let Some(key) = key {
                put(out, &[b"Sec-WebSocket-Key: ", key.as_bytes(), b"\r\n"]);
            }
            put(out, &[b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n\r\n"]);
        }
    }
}
