//! A request by HTTP/1.1 (RFC 9112): the client's side. The response decides whether the connection can have another
//! request.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use site::proxies::Via;
use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::{is_name, trim_ows};
use taipan_http::forwarded;
use taipan_http::head::{Head, Persistence};
use taipan_http::target::normalized;

use super::head::HeadParser;
use super::transport::{Connection, ReadError, Retry, Transport};
use crate::pool::PooledConnection;
use crate::request::ConnectionInfo;
use crate::services::Services;

/// In `Via`.
const NAME: &str = "taipan";
/// Fields that are for the next hop alone, that the server writes itself, or that programs misread; beside those of
/// `taipan_http::forwarded`.
const OWN_FIELDS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub struct Http {
    connection: Connection,
    body_ended: Cell<bool>,
}

impl Http {
    /// `head` is that of `request_head`.
    pub fn new(services: &Rc<Services>, connection: PooledConnection, head: &[u8]) -> Http {
        let connection = Connection::new(services, connection, head.to_vec());
        Http { connection, body_ended: Cell::new(false) }
    }
}

impl Transport for Http {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_flush(cx)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(cx, bytes)
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.body_ended.set(true);
        self.connection.poll_flush(cx)
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn head_parser(&self) -> HeadParser {
        HeadParser::http()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        self.connection.poll_read(cx)
    }

    fn retry(&self) -> Retry {
        self.connection.retry()
    }

    fn finish(&self, persistence: Persistence) {
        self.connection.finish(match self.body_ended.get() {
            true => persistence,
            // The endpoint would take the next request for the rest of the body.
            false => Persistence::Close,
        });
    }
}

/// The head of the request, whose body has `length` bytes. The client is named by this server alone. A name with an
/// underscore is left out, because programs take it for the same name with a hyphen.
pub fn request_head(
    head: &Head<'_>,
    connection: ConnectionInfo,
    length: Option<u64>,
    persistence: Persistence,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let path = normalized(head.target.path().unwrap_or("*"));
    put(&mut out, &[head.token.as_bytes(), b" ", path.as_bytes()]);
    if let Some(query) = head.target.query() {
        put(&mut out, &[b"?", query.as_bytes()]);
    }
    put(&mut out, &[b" HTTP/1.1\r\nHost: ", head.authority, b"\r\n"]);
    let options = || head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
    for field in head.fields {
        let is_named = || options().any(|option| trim_ows(option).eq_ignore_ascii_case(field.name));
        let is_claim = match connection.via {
            Via::Nothing => forwarded::is_claim(field.name),
            Via::TrustedProxy => forwarded::is_interpreted(field.name),
        };
        let is_own = OWN_FIELDS.iter().any(|own| is_name(field.name, own));
        if !is_own && !is_claim && !field.name.contains(&b'_') && !is_named() {
            put(&mut out, &[field.name, b": ", field.value, b"\r\n"]);
        }
    }
    // RFC 9110 §7.6.3, behind those of other proxies.
    let received = head.version.as_str().trim_start_matches("HTTP/");
    put(&mut out, &[b"Via: ", received.as_bytes(), b" ", NAME.as_bytes(), b"\r\n"]);
    if let Some(ip) = connection.client.ip() {
        out.extend_from_slice(b"X-Forwarded-For: ");
        write_ip(ip, &mut out);
        out.extend_from_slice(b"\r\n");
    }
    put(&mut out, &[b"X-Forwarded-Proto: ", head.scheme.as_str().as_bytes(), b"\r\n"]);
    put(&mut out, &[b"X-Forwarded-Host: ", head.authority, b"\r\n"]);
    if head.needs_early_data() {
        put(&mut out, &[b"Early-Data: 1\r\n"]);
    }
    if let Some(bytes) = length {
        out.extend_from_slice(b"Content-Length: ");
        write_number(bytes, &mut out);
        out.extend_from_slice(b"\r\n");
    }
    let end: &[u8] = match persistence {
        Persistence::KeepAlive => b"\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    };
    put(&mut out, &[end]);
    out
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
