//! The lines of the logs: one for each exchange in the access log, and one for each message in the error log. No
//! request can break a line: it is printable ASCII in the access log, and printable text in the error log.
//!
//! Knows nothing of where the lines are written.

mod errors;
mod json;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use taipan_http::date;
use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::host_and_port;
use taipan_http::rule::Rule;
use taipan_http::status::Status;

pub use self::errors::{client_error, error_line, process_ended, process_started};
use crate::log_fields::{Field, Part};
use crate::model::LogFormat;
use crate::text;
use crate::timezone::TimeZone;
use crate::upstream::Protocol;

/// An exchange that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub client: Client,
    /// The name of the client, if it is known.
    pub name: Option<&'a str>,
    /// What stands in place of the client, except in `Json`. Empty if the client sent none. `None`: nothing.
    pub forwarded_for: Option<&'a [u8]>,
    /// As the client sent it. Empty if it sent none. With `BoaAddress`, the local address.
    pub host: &'a [u8],
    /// The authenticated user.
    pub user: Option<&'a [u8]>,
    /// The time of the response, in seconds since 1970.
    pub time: i64,
    /// `None`: the head is incomplete or malformed.
    pub request: Option<Request<'a>>,
    pub status: Status,
    /// Bytes of the body of the response that the kernel has taken.
    pub sent: u64,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    pub duration_micros: u64,
    /// Why the connection ended before the response was complete, in a few words.
    pub ended: Option<&'a str>,
    /// The rule that the rejected request breaks.
    pub why: Option<&'static Rule>,
    /// Of the connection. Only `Json` has it. `None`: it has no TLS.
    pub tls: Option<Tls<'a>>,
    /// The applications that the request was sent to, one after the other. Only `Json` has them.
    pub upstream: &'a [Attempt],
    /// What the cache of responses did, in a word. Only `Json` has it. `None`: the route has none.
    pub cache: Option<&'a str>,
    /// `None`: requests have no trace.
    pub trace: Option<TraceIds>,
}

/// Of the trace that a request is part of, and of the request in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceIds {
    pub trace: u128,
    pub span: u64,
}

/// Something that was done for a request, and waited for. It has a span of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    /// Among the attempts and the steps of its request, from 0 on in the order in which they began.
    pub number: u32,
    /// In microseconds, of the clock of [`Attempt::began`].
    pub began: u64,
    /// Until its end. `None`: until the line is written.
    pub micros: Option<u64>,
    /// Of the response of a script. `None`: there was none.
    pub status: Option<Status>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// In the cache of responses. Waiting for the response to another request counts.
    Lookup,
    /// SCRIPT_NAME.
    Script(Rc<str>),
}

/// A request that was sent to an upstream. Times are in microseconds since it began to wait for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// As [`Step::number`].
    pub number: u32,
    /// In microseconds since some time before.
    pub began: u64,
    pub protocol: Protocol,
    /// Of the endpoint, or the name of its application.
    pub address: Rc<str>,
    /// `None`: there was no response.
    pub status: Option<Status>,
    /// Until a connection had taken the head of the request. `None`: none did.
    pub connect_micros: Option<u64>,
    /// Until the head of the response had come.
    pub first_byte_micros: Option<u64>,
    /// Until the end of the response. `None`: until the line is written.
    pub total_micros: Option<u64>,
    /// Bytes of the request's body, or of the client behind a 101.
    pub sent: u64,
    /// Bytes of the response's body, or of what the upstream has sent behind a 101.
    pub received: u64,
}

impl Attempt {
    pub fn new(address: Rc<str>) -> Attempt {
        let (connect_micros, first_byte_micros, total_micros) = (None, None, None);
        Attempt {
            number: 0,
            began: 0,
            protocol: Protocol::Http,
            address,
            status: None,
            connect_micros,
            first_byte_micros,
            total_micros,
            sent: 0,
            received: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tls<'a> {
    /// `TLSv1.3`
    pub protocol: &'a str,
    /// As OpenSSL names it.
    pub cipher: &'a str,
    /// What the client has asked for.
    pub name: Option<&'a str>,
    /// The distinguished name in the client's certificate.
    pub client: Option<&'a str>,
    /// The session began on another connection.
    pub is_resumed: bool,
    /// The request came before the end of the handshake (RFC 8470).
    pub is_early: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Ip(IpAddr),
    /// The peer of a Unix socket has no address.
    Unix,
}

/// The request line, as it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    /// `HTTP/1.1`
    pub version: &'static str,
}

/// The text of the time of the last line. The next line nearly always has the same.
#[derive(Debug, Clone)]
pub struct TimeText {
    time: i64,
    /// Of `common`. `None`: UTC.
    zone: Option<Arc<TimeZone>>,
    /// `20/Nov/2026:07:49:41 +0000`
    common: [u8; 26],
    rfc3339: [u8; text::RFC3339_LEN],
}

impl TimeText {
    pub fn new(time: i64, zone: Option<Arc<TimeZone>>) -> TimeText {
        let common = common_time(time, zone.as_deref());
        TimeText { time, zone, common, rfc3339: text::rfc3339(time) }
    }

    fn at(&mut self, time: i64) -> &TimeText {
        if self.time != time {
            *self = TimeText::new(time, self.zone.take());
        }
        self
    }
}

/// Appends one line, with its newline.
///
/// `Common` and `Combined` begin as other programs write and read them. Then follow the host, the seconds of the
/// exchange, and why the connection ended early or which rule the request breaks:
///
/// ```text
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 2448 a.example 0.000123 -
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 17 "-" "curl" a.example 30.000456 "client too slow"
/// ```
///
/// In place of the client's address stands its name, if it is known. An absent value is `-`. The characters `"` and
/// `\`, controls and all other than ASCII become `\xHH`. `Json` is an object with the same keys in every line. An
/// absent value is `null`.
pub fn write(format: &LogFormat, line: &Line<'_>, time: &mut TimeText, out: &mut Vec<u8>) {
    let time = time.at(line.time);
    match format {
        LogFormat::Common => {
            common(line, time, out);
            extras(line, out);
        }
        LogFormat::Combined => {
            combined(line, time, out);
            extras(line, out);
        }
        LogFormat::Boa => combined(line, time, out),
        LogFormat::BoaHost | LogFormat::BoaAddress => {
            word(line.host, out);
            out.push(b' ');
            combined(line, time, out);
        }
        LogFormat::Thttpd => thttpd(line, time, b"", out),
        LogFormat::ThttpdHost => {
            // As the name of the folder: in lower case, and without the port.
            let host = String::from_utf8_lossy(line.host);
            thttpd(line, time, host_and_port(&host).0.to_ascii_lowercase().as_bytes(), out);
        }
        LogFormat::Json => json::write(line, time, out),
        LogFormat::Fields(parts) => fields(parts, line, time, out),
    }
    out.push(b'\n');
}

/// In quotes. `host` comes before the target, as a folder.
fn request_line(request: Option<&Request<'_>>, host: &[u8], absent: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    match request {
        Some(request) => {
            text::quoted(request.method, out);
            out.push(b' ');
            if !host.is_empty() {
                out.push(b'/');
                text::word(host, out);
            }
            // A space in the target would move the fields that follow it.
            text::word(request.target, out);
            out.push(b' ');
            text::quoted(request.version.as_bytes(), out);
        }
        None => out.extend_from_slice(absent.as_bytes()),
    }
    out.push(b'"');
}

/// The Combined Log Format, which is that of Boa.
fn combined(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    common(line, time, out);
    out.push(b' ');
    quoted(line.referer, out);
    out.push(b' ');
    quoted(line.user_agent, out);
}

/// As thttpd writes it to a file. `host` comes before the target, as a folder.
fn thttpd(line: &Line<'_>, time: &TimeText, host: &[u8], out: &mut Vec<u8>) {
    beginning(line, time, host, out);
    for value in [line.referer, line.user_agent] {
        out.extend_from_slice(b" \"");
        text::quoted(value.unwrap_or_default(), out);
        out.push(b'"');
    }
}

/// The start of `Common` and `Combined`, up to the bytes sent.
fn common(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    beginning(line, time, b"", out);
}

/// `host` comes before the target, as a folder.
fn beginning(line: &Line<'_>, time: &TimeText, host: &[u8], out: &mut Vec<u8>) {
    client_or_name(line, out);
    out.extend_from_slice(b" - ");
    word(line.user.unwrap_or_default(), out);
    out.extend_from_slice(b" [");
    out.extend_from_slice(&time.common);
    out.extend_from_slice(b"] ");
    request_line(line.request.as_ref(), host, "-", out);
    out.push(b' ');
    write_number(line.status.code().into(), out);
    out.push(b' ');
    write_number(line.sent, out);
}

fn client_or_name(line: &Line<'_>, out: &mut Vec<u8>) {
    match (line.forwarded_for, line.name) {
        (Some(b""), _) => {
            out.push(b'(');
            client(line.client, out);
            out.push(b')');
        }
        (Some(clients), _) => out.extend(clients.iter().map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'.' | b':' | b',' => *byte,
            _ => b'_',
        })),
        (None, Some(name)) => text::word(name.as_bytes(), out),
        (None, None) => client(line.client, out),
    }
}

fn extras(line: &Line<'_>, out: &mut Vec<u8>) {
    out.push(b' ');
    word(line.host, out);
    out.push(b' ');
    text::seconds(line.duration_micros, out);
    out.push(b' ');
    match (line.ended, line.why) {
        (Some(reason), _) => quoted(Some(reason.as_bytes()), out),
        (None, Some(rule)) => {
            out.push(b'"');
            write_rule(rule, out);
            out.push(b'"');
        }
        (None, None) => out.push(b'-'),
    }
}

/// An absent value is `-`. Nothing in a value can end a quoted text or the line.
fn fields(parts: &[Part], line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    for part in parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Field(field) => write_field(*field, line, time, out),
        }
    }
}

fn write_field(field: Field, line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    let request = line.request.as_ref();
    let last = line.upstream.last();
    let value = match field {
        Field::Client => return client(line.client, out),
        Field::ClientName => return client_or_name(line, out),
        Field::TimeLocal => return out.extend_from_slice(&time.common),
        Field::TimeIso => return out.extend_from_slice(&time.rfc3339),
        Field::Status => return write_number(line.status.code().into(), out),
        Field::Sent => return write_number(line.sent, out),
        Field::Seconds => return text::seconds(line.duration_micros, out),
        Field::Request => {
            let Some(request) = request else { return out.push(b'-') };
            text::quoted(request.method, out);
            out.push(b' ');
            text::word(request.target, out);
            out.push(b' ');
            return text::quoted(request.version.as_bytes(), out);
        }
        Field::UpstreamStatus => match last.and_then(|attempt| attempt.status) {
            Some(status) => return write_number(status.code().into(), out),
            None => None,
        },
        Field::UpstreamSeconds => match last {
            Some(attempt) => return text::seconds(attempt.total_micros.unwrap_or(line.duration_micros), out),
            None => None,
        },
        Field::User => line.user,
        Field::Method => request.map(|request| request.method),
        Field::Target => request.map(|request| request.target),
        Field::Protocol => request.map(|request| request.version.as_bytes()),
        Field::Referer => line.referer,
        Field::UserAgent => line.user_agent,
        Field::Host => Some(line.host),
        Field::Ended => line.ended.map(str::as_bytes),
        Field::TlsProtocol => line.tls.as_ref().map(|tls| tls.protocol.as_bytes()),
        Field::TlsCipher => line.tls.as_ref().map(|tls| tls.cipher.as_bytes()),
        Field::TlsName => line.tls.as_ref().and_then(|tls| tls.name).map(str::as_bytes),
        Field::UpstreamAddress => last.map(|attempt| attempt.address.as_bytes()),
        Field::TraceId => {
            return match line.trace {
                Some(ids) => out.extend_from_slice(format!("{:032x}", ids.trace).as_bytes()),
                None => out.push(b'-'),
            };
        }
        Field::SpanId => {
            return match line.trace {
                Some(ids) => out.extend_from_slice(format!("{:016x}", ids.span).as_bytes()),
                None => out.push(b'-'),
            };
        }
        Field::Cache => line.cache.map(str::as_bytes),
    };
    text::quoted(value.filter(|value| !value.is_empty()).unwrap_or(b"-"), out);
}

fn quoted(value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(b'"');
    text::quoted(value.unwrap_or(b"-"), out);
    out.push(b'"');
}

/// `host-missing: an HTTP/1.1 request needs a Host field`. No rule has a character to escape.
fn write_rule(rule: &Rule, out: &mut Vec<u8>) {
    for part in [rule.token, ": ", rule.sentence] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn word(value: &[u8], out: &mut Vec<u8>) {
    text::word(if value.is_empty() { b"-" } else { value }, out);
}

fn client(client: Client, out: &mut Vec<u8>) {
    match client {
        // An IPv4 address that is mapped to IPv6 is written as IPv4.
        Client::Ip(address) => write_ip(address, out),
        Client::Unix => out.extend_from_slice(b"unix:"),
    }
}

fn common_time(time: i64, zone: Option<&TimeZone>) -> [u8; 26] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let offset = zone.map_or(0, |zone| zone.offset(time));
    let civil = date::civil(time.saturating_add(offset.into()));
    let month = 3 * (usize::from(civil.month).clamp(1, 12) - 1);
    let mut text = *b"00/---/0000:00:00:00 +0000";
    text::digits(civil.day.into(), &mut text[..2]);
    text[3..6].copy_from_slice(&MONTHS[month..month + 3]);
    text::digits(civil.year.into(), &mut text[7..11]);
    text::digits(civil.hour.into(), &mut text[12..14]);
    text::digits(civil.minute.into(), &mut text[15..17]);
    text::digits(civil.second.into(), &mut text[18..20]);
    if offset < 0 {
        text[21] = b'-';
    }
    let minutes = offset.unsigned_abs() / 60;
    text::digits(minutes / 60, &mut text[22..24]);
    text::digits(minutes % 60, &mut text[24..26]);
    text
}
