//! Repeats the requests of a test over TLS and HTTP/2, and compares the responses: the protocol must make no
//! difference but those that the protocols themselves have.

use std::fmt;
use std::net::SocketAddr;

use crate::client::{Client, ReadError};
use crate::exchange::{Exchange, Rows, exchange};
use crate::http2::{Http2, Http2Error, Http2Request};
use crate::response::{Response, chunked, find};
use crate::tls::Tls;

/// Fields that belong to HTTP/1, or to the moment.
const NOT_COMPARED: &[&str] = &["connection", "date", "keep-alive", "transfer-encoding"];
/// Fields of a request that HTTP/2 does not have (RFC 9113 §8.2.2), or has as `:authority`.
const NOT_SENT: &[&str] =
    &["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// What a malformed request gets: PROTOCOL_ERROR.
const MALFORMED: &str = "RST_STREAM with code 1";

/// Where a server speaks the other protocols, and a connection for each. When dropped, it fails the test with
/// all differences.
#[derive(Debug)]
pub(crate) struct Repeater {
    tls: SocketAddr,
    http2: SocketAddr,
    connections: [Option<Connection>; 3],
    rows: Rows,
    compared: usize,
}

/// A protocol that is compared with plain HTTP/1.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    Http1OverTls,
    Http2,
    Http2OverTls,
}

#[derive(Debug)]
enum Connection {
    Http1(Client),
    Http2(Http2),
}

/// A request of HTTP/1.1 with nothing in it that HTTP/2 could not say.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: Vec<u8>,
    authority: Vec<u8>,
    target: Vec<u8>,
    /// Names in lower case.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Repeater {
    pub(crate) fn new(tls: SocketAddr, http2: SocketAddr) -> Repeater {
        Repeater { tls, http2, connections: [None, None, None], rows: Rows::new(), compared: 0 }
    }

    /// Responses that have been compared.
    pub(crate) fn compared(&self) -> usize {
        self.compared
    }

    /// Sends the request, which had this response over plain HTTP/1, over each other protocol. A request that
    /// is not complete, or that HTTP/2 cannot have, is not repeated there.
    pub(crate) fn repeat(&mut self, request: &[u8], expected: &Response) {
        let Some(parsed) = Request::parse(request) else { return };
        self.compare(Protocol::Http1OverTls, request, &parsed, expected);
        self.compare(Protocol::Http2, request, &parsed, expected);
        self.compare(Protocol::Http2OverTls, request, &parsed, expected);
    }

    /// As `repeat`, for any bytes: TLS carries them as they are.
    pub(crate) fn repeat_exchange(&mut self, input: &[u8], expected: &str, found: &Exchange) {
        let over_tls = exchange(&mut Client::tls(self.tls, &Tls::new()), input, expected);
        let all = |exchange: &Exchange| {
            let responses = exchange.responses.iter().map(Comparable::of).collect::<Vec<_>>();
            (exchange.summary.clone(), responses)
        };
        self.compared += 1;
        self.rows.check([b"HTTP/1 over TLS: ", input].concat(), all(&over_tls), all(found));
        let ([response], Some(request)) = (&found.responses[..], Request::parse(input)) else { return };
        self.compare(Protocol::Http2, input, &request, response);
        self.compare(Protocol::Http2OverTls, input, &request, response);
    }

    fn compare(&mut self, protocol: Protocol, bytes: &[u8], request: &Request, expected: &Response) {
        self.compared += 1;
        let mut found = match self.response(protocol, bytes, request) {
            Ok(response) => Ok(Comparable::of(&response)),
            // A request that is malformed has no response in HTTP/2 (RFC 9113 §8.1.1).
            Err(why) if expected.status == 400 && why == MALFORMED => return,
            Err(why) => Err(why),
        };
        let mut expected = Ok(Comparable::of(expected));
        if let (Ok(one), Ok(other)) = (&mut expected, &mut found) {
            one.ignore_chance(other);
        }
        if found != expected {
            let input = [protocol.to_string().as_bytes(), b": ", bytes].concat();
            self.rows.check(input, found, expected);
        }
    }

    /// The response over a connection that is kept, as long as the server keeps it.
    fn response(&mut self, protocol: Protocol, bytes: &[u8], request: &Request) -> Result<Response, String> {
        let kept = self.connections[protocol as usize].take();
        let was_kept = kept.is_some();
        let mut connection = kept.map_or_else(|| self.connect(protocol), Ok)?;
        let response = match connection.request(protocol, bytes, request) {
            // The server may close an idle connection at any time.
            Err(
                Http2Error::Connection(ReadError::Closed { after: 0 } | ReadError::Reset)
                | Http2Error::GoAway(0),
            ) if was_kept => {
                connection = self.connect(protocol)?;
                connection.request(protocol, bytes, request)
            }
            other => other,
        };
        let response = response.map_err(|e| e.to_string())?;
        let closes = response.values("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
        self.connections[protocol as usize] = (!closes).then_some(connection);
        Ok(response)
    }

    fn connect(&self, protocol: Protocol) -> Result<Connection, String> {
        let client = match protocol {
            Protocol::Http1OverTls => return Ok(Connection::Http1(Client::tls(self.tls, &Tls::new()))),
            Protocol::Http2 => Client::tcp(self.http2),
            Protocol::Http2OverTls => Client::tls(self.tls, &Tls::new().protocols(&["h2"])),
        };
        Http2::over(client).map(Connection::Http2).map_err(|e| e.to_string())
    }
}

impl Connection {
    fn request(
        &mut self,
        protocol: Protocol,
        bytes: &[u8],
        request: &Request,
    ) -> Result<Response, Http2Error> {
        match self {
            Connection::Http1(client) => {
                client.try_send(bytes).map_err(|e| Http2Error::Connection(ReadError::of(e)))?;
                let is_head = request.method == b"HEAD";
                let read =
                    if is_head { client.try_read_response_to_head() } else { client.try_read_response() };
                read.map_err(Http2Error::Connection)
            }
            Connection::Http2(http2) => http2.request(&request.in_http2(protocol)),
        }
    }
}

impl Request {
    /// `None`: not one complete and valid request of HTTP/1.1.
    fn parse(bytes: &[u8]) -> Option<Request> {
        let end = find(bytes, b"\r\n\r\n")? + 4;
        let (head, body) = bytes.split_at(end);
        let mut lines =
            head[..end - 4].split(|byte| *byte == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
        let mut parts = lines.next()?.split(|byte| *byte == b' ');
        let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
        let is_path = target.starts_with(b"/") || target == b"*";
        if version != b"HTTP/1.1" || parts.next().is_some() || !is_path || !method.iter().all(is_token) {
            return None;
        }
        let fields = lines.map(field).collect::<Option<Vec<_>>>()?;
        let value = |name: &[u8]| fields.iter().find(|(n, _)| n == name).map(|(_, value)| &value[..]);
        let count = |name: &[u8]| fields.iter().filter(|(n, _)| n == name).count();
        // 100 is a response before the response, and an upgrade another protocol.
        if count(b"host") != 1 || value(b"expect").is_some() || value(b"upgrade").is_some() {
            return None;
        }
        let body = match (value(b"content-length"), value(b"transfer-encoding")) {
            (None, None) if body.is_empty() => Vec::new(),
            (Some(length), None) if length == body.len().to_string().as_bytes() => body.to_vec(),
            (None, Some(b"chunked")) => match chunked(body) {
                Ok(Some((data, trailers, used))) if used == body.len() && trailers.is_empty() => data,
                _ => return None,
            },
            _ => return None,
        };
        let authority = value(b"host")?.to_vec();
        let named = |name: &[u8]| {
            let options = value(b"connection").unwrap_or_default().split(|byte| *byte == b',');
            options.map(|option| option.trim_ascii().to_ascii_lowercase()).any(|option| option == name)
        };
        let is_sent = |name: &[u8]| !NOT_SENT.iter().any(|other| other.as_bytes() == name) && !named(name);
        let fields = fields.iter().filter(|(name, _)| is_sent(name)).cloned().collect();
        Some(Request { method: method.to_vec(), authority, target: target.to_vec(), fields, body })
    }

    fn in_http2(&self, protocol: Protocol) -> Http2Request {
        let scheme: &[u8] = if let Protocol::Http2OverTls = protocol { b"https" } else { b"http" };
        let pseudo = [
            (&b":method"[..], &self.method[..]),
            (b":scheme", scheme),
            (b":authority", &self.authority),
            (b":path", &self.target),
        ];
        let pseudo = pseudo.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        let fields = pseudo.chain(self.fields.iter().cloned()).collect();
        Http2Request { fields, body: self.body.clone(), trailers: Vec::new() }
    }
}

/// What must be the same: status, fields, body and trailers. The fields have no order, except those of one name.
#[derive(Debug, PartialEq, Eq)]
struct Comparable {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
    trailers: Vec<(String, String)>,
}

impl Comparable {
    /// The response of a script has a length only if the script has ended before the head is sent.
    fn ignore_chance(&mut self, other: &mut Comparable) {
        let has = |fields: &[(String, String)], wanted: &str| fields.iter().any(|(name, _)| name == wanted);
        let both = [&mut self.fields, &mut other.fields];
        let is_file = both.iter().any(|fields| has(fields, "etag"));
        if !is_file && both.iter().any(|fields| !has(fields, "content-length")) {
            for fields in both {
                fields.retain(|(name, _)| name != "content-length");
            }
        }
    }

    fn of(response: &Response) -> Comparable {
        let lower = |fields: &[(String, String)]| {
            let fields = fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
            let mut fields: Vec<_> = fields.filter(|(name, _)| !NOT_COMPARED.contains(&&**name)).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            fields
        };
        let boundary = boundary(response);
        let body = without(&response.body, &boundary);
        let mut fields = lower(&response.fields);
        for (_, value) in &mut fields {
            *value = String::from_utf8_lossy(&without(value.as_bytes(), &boundary)).into_owned();
        }
        Comparable {
            status: response.status,
            fields,
            body: format!("{} {:x}", crate::shown(&body), sum(&body)),
            trailers: lower(&response.trailers),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Protocol::Http1OverTls => "HTTP/1 over TLS",
            Protocol::Http2 => "HTTP/2",
            Protocol::Http2OverTls => "HTTP/2 over TLS",
        })
    }
}

/// The boundary of a multipart body, which is random; empty for others.
fn boundary(response: &Response) -> String {
    let kinds = response.values("content-type");
    let boundary = kinds.first().and_then(|kind| kind.strip_prefix("multipart/byteranges; boundary="));
    boundary.unwrap_or_default().to_owned()
}

/// The bytes, with this part removed wherever it is.
fn without(bytes: &[u8], part: &str) -> Vec<u8> {
    let mut rest = bytes;
    let mut out = Vec::new();
    while !part.is_empty()
        && let Some(at) = find(rest, part.as_bytes())
    {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + part.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// FNV-1a, because only the beginning of a long body is shown.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A field line, with its name in lower case. `None`: invalid.
fn field(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_valid = !name.is_empty()
        && name.iter().all(is_token)
        && !value.iter().any(|b| b.is_ascii_control() && *b != b'\t');
    is_valid.then(|| (name.to_ascii_lowercase(), value.to_vec()))
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn repeats_only_what_both_protocols_can_say() {
        let is_repeated = |bytes: &str| Request::parse(bytes.as_bytes()).is_some();
        for (bytes, expected) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
            ("OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab", true),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: h\r\n", false),
            ("GET / HTTP/1.0\r\nHost: h\r\n\r\n", false),
            ("GET / HTTP/1.1\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\nName : v\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\nName: a\0\r\n\r\n", false),
            ("GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na", false),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabc", false),
            ("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", false),
        ] {
            assert_eq!(is_repeated(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn leaves_out_fields_that_belong_to_a_connection() {
        let bytes = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: X-A, close\r\nX-a: 1\r\nX-B: 2\r\n\r\n";
        let request = Request::parse(bytes).expect("it is valid");
        assert_eq!(request.fields, [(b"x-b".to_vec(), b"2".to_vec())]);
        assert_eq!((request.authority, request.target), (b"h".to_vec(), b"/a".to_vec()));
    }
}
