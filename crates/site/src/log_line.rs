//! The lines of the logs: one for each exchange in the access log, and one for each message in the error log. No
//! request can break a line: it is printable ASCII in the access log, and printable text in the error log.
//!
//! Knows nothing of where the lines are written.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use taipan_http::date;
use taipan_http::digits::{write_ip, write_number};
use taipan_http::rule::Rule;
use taipan_http::status::Status;

use crate::log_fields::{Field, Part};
use crate::model::{ErrorFormat, ErrorLines, Level, LogFormat, LoggedHost};
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
    pub host: &'a str,
    /// The authenticated user.
    pub user: Option<&'a str>,
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
    pub method: &'a str,
    pub target: &'a str,
    /// `HTTP/1.1`
    pub version: &'a str,
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
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 2448 example.org 0.000123 -
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8" example.org 30.000456 "client too slow"
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
            common(line, time, out);
            out.push(b' ');
            quoted(line.referer, out);
            out.push(b' ');
            quoted(line.user_agent, out);
            extras(line, out);
        }
        LogFormat::Boa => boa(line, time, out),
        LogFormat::BoaHost | LogFormat::BoaAddress => {
            word(line.host, out);
            out.push(b' ');
            boa(line, time, out);
        }
        LogFormat::Thttpd => thttpd(line, time, "", out),
        LogFormat::ThttpdHost => thttpd(line, time, line.host, out),
        LogFormat::Json => json(line, time, out),
        LogFormat::Fields(parts) => fields(parts, line, time, out),
    }
    out.push(b'\n');
}

/// Appends one line of the error log: `2026-11-20T07:49:41Z error: text`, or as Boa
/// `[20/Nov/2026:08:49:41 +0100] text`. Controls and newlines in `text` become `\u{h}`. `time` is in seconds since
/// 1970.
pub fn error_line(lines: &ErrorLines, level: Level, time: i64, text: &str, out: &mut Vec<u8>) {
    match lines.format {
        ErrorFormat::Boa => {
            out.push(b'[');
            out.extend_from_slice(&common_time(time, lines.zone.as_deref()));
            out.extend_from_slice(b"] ");
        }
        ErrorFormat::Taipan => {
            out.extend_from_slice(&text::rfc3339(time));
            out.extend_from_slice(match level {
                Level::Error => b" error: ",
                Level::Warn => b" warn: ",
                Level::Info => b" info: ",
                Level::Debug => b" debug: ",
            });
        }
    }
    text::line(text, out);
    out.push(b'\n');
}

/// Appends a line of the error log about a request that got a status from 400 to 499. `file`: what it was for. `None`:
/// no file.
///
/// ```text
/// 2026-11-20T07:49:41Z warn: 404 Not Found for 192.0.2.7: "GET /a HTTP/1.1", host example.org, file /srv/www/a
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] request "GET /a HTTP/1.1" ("/srv/www/a"): document open: No such file or directory
/// ```
///
/// In the second one, which is as Boa's, `host` may stand in front; the name of a host also stands behind `request`.
pub fn client_error(
    format: ErrorFormat,
    host: LoggedHost,
    line: &Line<'_>,
    file: Option<&str>,
    time: &mut TimeText,
    out: &mut Vec<u8>,
) {
    let time = time.at(line.time);
    match format {
        ErrorFormat::Boa => {
            if host != LoggedHost::Nothing {
                word(line.host, out);
                out.push(b' ');
            }
            client(line.client, out);
            out.extend_from_slice(b" - - [");
            out.extend_from_slice(&time.common);
            out.extend_from_slice(b"] request ");
            if host == LoggedHost::Name {
                out.push(b'[');
                text::word(absent_if_empty(line.host).as_bytes(), out);
                out.extend_from_slice(b"] ");
            }
            request_line(line.request.as_ref(), "", ABSENT, out);
            out.extend_from_slice(b" (\"");
            text::quoted(file.unwrap_or(ABSENT).as_bytes(), out);
            out.extend_from_slice(b"\"): ");
            match line.status {
                _ if line.ended.is_some() || line.why.is_some() => write_reason(line, out),
                Status::NOT_FOUND => out.extend_from_slice(b"document open: No such file or directory"),
                Status::FORBIDDEN => out.extend_from_slice(b"document open: Permission denied"),
                status => out.extend_from_slice(status.to_string().as_bytes()),
            }
        }
        ErrorFormat::Taipan => {
            out.extend_from_slice(&time.rfc3339);
            out.extend_from_slice(format!(" warn: {} for ", line.status).as_bytes());
            client(line.client, out);
            out.extend_from_slice(b": ");
            request_line(line.request.as_ref(), "", "-", out);
            if !line.host.is_empty() {
                out.extend_from_slice(b", host ");
                text::word(line.host.as_bytes(), out);
            }
            if let Some(file) = file {
                out.extend_from_slice(b", file ");
                text::quoted(file.as_bytes(), out);
            }
            if line.ended.is_some() || line.why.is_some() {
                out.extend_from_slice(b", ");
                write_reason(line, out);
            }
        }
    }
    out.push(b'\n');
}

/// As Boa has it in place of what a request lacks.
const ABSENT: &str = "(null)";

fn absent_if_empty(text: &str) -> &str {
    if text.is_empty() { ABSENT } else { text }
}

/// In quotes. `host` comes before the target, as a folder.
fn request_line(request: Option<&Request<'_>>, host: &str, absent: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    match request {
        Some(request) => {
            text::quoted(request.method.as_bytes(), out);
            out.push(b' ');
            if !host.is_empty() {
                out.push(b'/');
                text::word(host.as_bytes(), out);
            }
            // A space in the target would move the fields that follow it.
            text::word(request.target.as_bytes(), out);
            out.push(b' ');
            text::quoted(request.version.as_bytes(), out);
        }
        None => out.extend_from_slice(absent.as_bytes()),
    }
    out.push(b'"');
}

/// Why the request stayed incomplete, or the rule that it breaks.
fn write_reason(line: &Line<'_>, out: &mut Vec<u8>) {
    match (line.ended, line.why) {
        (Some(reason), _) => text::quoted(reason.as_bytes(), out),
        (None, Some(rule)) => write_rule(rule, out),
        (None, None) => {}
    }
}

/// The text of the error log when a script was started.
pub fn process_started(format: ErrorFormat, program: &str, pid: u32) -> String {
    match format {
        ErrorFormat::Boa => format!("Forked child \"{program}\" pid {pid}"),
        ErrorFormat::Taipan => format!("process {pid} was started: {program}"),
    }
}

/// The text of the error log when a script has ended. `status`: as of wait(2). `how`: in words.
pub fn process_ended(format: ErrorFormat, pid: u32, status: i32, how: &str) -> String {
    match format {
        ErrorFormat::Boa => format!("reaping child {pid}: status {status}"),
        ErrorFormat::Taipan => format!("process {pid} has ended: {how}"),
    }
}

/// The Combined Log Format, which is that of Boa.
fn boa(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    common(line, time, out);
    out.push(b' ');
    quoted(line.referer, out);
    out.push(b' ');
    quoted(line.user_agent, out);
}

/// As thttpd writes it to a file. `host` comes before the target, as a folder.
fn thttpd(line: &Line<'_>, time: &TimeText, host: &str, out: &mut Vec<u8>) {
    beginning(line, time, host, out);
    for value in [line.referer, line.user_agent] {
        out.extend_from_slice(b" \"");
        text::quoted(value.unwrap_or_default(), out);
        out.push(b'"');
    }
}

/// The start of `Common` and `Combined`, up to the bytes sent.
fn common(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    beginning(line, time, "", out);
}

/// `host` comes before the target, as a folder.
fn beginning(line: &Line<'_>, time: &TimeText, host: &str, out: &mut Vec<u8>) {
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
            text::quoted(request.method.as_bytes(), out);
            out.push(b' ');
            text::word(request.target.as_bytes(), out);
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
        Field::User => line.user.map(str::as_bytes),
        Field::Method => request.map(|request| request.method.as_bytes()),
        Field::Target => request.map(|request| request.target.as_bytes()),
        Field::Protocol => request.map(|request| request.version.as_bytes()),
        Field::Referer => line.referer,
        Field::UserAgent => line.user_agent,
        Field::Host => Some(line.host.as_bytes()),
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

fn json(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    let request = line.request.as_ref();
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(&time.rfc3339);
    out.extend_from_slice(b"\",\"client\":\"");
    client(line.client, out);
    out.push(b'"');
    if let Some(name) = line.name {
        member(b",\"client_name\":", Some(name.as_bytes()), out);
    }
    member(b",\"host\":", Some(line.host.as_bytes()).filter(|host| !host.is_empty()), out);
    member(b",\"user\":", line.user.map(str::as_bytes), out);
    member(b",\"method\":", request.map(|request| request.method.as_bytes()), out);
    member(b",\"target\":", request.map(|request| request.target.as_bytes()), out);
    member(b",\"version\":", request.map(|request| request.version.as_bytes()), out);
    out.extend_from_slice(b",\"status\":");
    write_number(line.status.code().into(), out);
    out.extend_from_slice(b",\"sent\":");
    write_number(line.sent, out);
    out.extend_from_slice(b",\"duration\":");
    text::seconds(line.duration_micros, out);
    member(b",\"referer\":", line.referer, out);
    member(b",\"user_agent\":", line.user_agent, out);
    member(b",\"ended\":", line.ended.map(str::as_bytes), out);
    out.extend_from_slice(b",\"why\":");
    match line.why {
        Some(rule) => {
            out.push(b'"');
            write_rule(rule, out);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"tls\":");
    match &line.tls {
        Some(tls) => write_tls(tls, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"upstream\":");
    match line.upstream {
        [] => out.extend_from_slice(b"null"),
        attempts => write_attempts(attempts, line.duration_micros, out),
    }
    if let Some(cache) = line.cache {
        member(b",\"cache\":", Some(cache.as_bytes()), out);
    }
    if let Some(TraceIds { trace, span }) = line.trace {
        let ids = format!(",\"trace_id\":\"{trace:032x}\",\"span_id\":\"{span:016x}\"");
        out.extend_from_slice(ids.as_bytes());
    }
    out.push(b'}');
}

/// An attempt that has not ended cannot have lasted longer than the exchange, which took `duration_micros`.
fn write_attempts(attempts: &[Attempt], duration_micros: u64, out: &mut Vec<u8>) {
    for (at, attempt) in attempts.iter().enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        member(b"{\"address\":", Some(attempt.address.as_bytes()), out);
        out.extend_from_slice(b",\"status\":");
        match attempt.status {
            Some(status) => write_number(status.code().into(), out),
            None => out.extend_from_slice(b"null"),
        }
        time(b",\"connect\":", attempt.connect_micros, out);
        time(b",\"first_byte\":", attempt.first_byte_micros, out);
        time(b",\"total\":", attempt.total_micros.or(Some(duration_micros)), out);
        out.extend_from_slice(b",\"sent\":");
        write_number(attempt.sent, out);
        out.extend_from_slice(b",\"received\":");
        write_number(attempt.received, out);
        out.push(b'}');
    }
    out.push(b']');
}

fn time(name: &[u8], micros: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    match micros {
        Some(micros) => text::seconds(micros, out),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_tls(tls: &Tls<'_>, out: &mut Vec<u8>) {
    member(b"{\"protocol\":", Some(tls.protocol.as_bytes()), out);
    member(b",\"cipher\":", Some(tls.cipher.as_bytes()), out);
    member(b",\"sni\":", tls.name.map(str::as_bytes), out);
    member(b",\"client\":", tls.client.map(str::as_bytes), out);
    let flags: &[u8] = match (tls.is_resumed, tls.is_early) {
        (false, false) => b",\"resumed\":false,\"early\":false}",
        (true, false) => b",\"resumed\":true,\"early\":false}",
        (false, true) => b",\"resumed\":false,\"early\":true}",
        (true, true) => b",\"resumed\":true,\"early\":true}",
    };
    out.extend_from_slice(flags);
}

fn member(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => text::json(value, out),
        None => out.extend_from_slice(b"null"),
    }
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

fn word(value: &str, out: &mut Vec<u8>) {
    text::word(if value.is_empty() { b"-" } else { value.as_bytes() }, out);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: i64 = 1_795_160_981;

    fn plain() -> Line<'static> {
        Line {
            client: Client::Ip([192, 0, 2, 7].into()),
            name: None,
            forwarded_for: None,
            host: "example.org",
            user: None,
            time: TIME,
            request: Some(Request { method: "GET", target: "/a?b", version: "HTTP/1.1" }),
            status: Status::OK,
            sent: 2448,
            referer: None,
            user_agent: Some(b"curl/8"),
            duration_micros: 123,
            ended: None,
            why: None,
            tls: None,
            upstream: &[],
            cache: None,
            trace: None,
        }
    }

    fn check(format: LogFormat, line: &Line<'_>, expected: &str) {
        let mut out = Vec::new();
        write(&format, line, &mut TimeText::new(0, None), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn writes_a_name_in_place_of_an_address() {
        let line = Line { name: Some("one.example"), ..plain() };
        let end = r#" - - [20/Nov/2026:07:49:41 +0000] "GET /a?b HTTP/1.1" 200 2448 "-" "curl/8""#;
        check(LogFormat::Boa, &line, &format!("one.example{end}"));
        check(LogFormat::Boa, &Line { name: Some("a b\"\n"), ..plain() }, &format!(r"a\x20b\x22\x0a{end}"));
        let parts = crate::log_fields::parse("$remote_addr $remote_host").expect("they are fields");
        check(LogFormat::Fields(parts.clone()), &line, "192.0.2.7 one.example");
        check(LogFormat::Fields(parts), &plain(), "192.0.2.7 192.0.2.7");
    }

    #[test]
    fn writes_the_formats_of_other_servers() {
        let line = plain();
        let (begin, end) = (r#"192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET "#, r#"" 200 2448 "#);
        for (format, expected) in [
            (LogFormat::Boa, format!(r#"{begin}/a?b HTTP/1.1{end}"-" "curl/8""#)),
            (LogFormat::BoaHost, format!(r#"example.org {begin}/a?b HTTP/1.1{end}"-" "curl/8""#)),
            (LogFormat::BoaAddress, format!(r#"example.org {begin}/a?b HTTP/1.1{end}"-" "curl/8""#)),
            (LogFormat::Thttpd, format!(r#"{begin}/a?b HTTP/1.1{end}"" "curl/8""#)),
            (LogFormat::ThttpdHost, format!(r#"{begin}/example.org/a?b HTTP/1.1{end}"" "curl/8""#)),
        ] {
            check(format, &line, &expected);
        }
        // What neither of them escaped.
        let line = Line { user_agent: Some(b"\x1b]0;x\x07\"\n"), ..line };
        check(LogFormat::Boa, &line, &format!(r#"{begin}/a?b HTTP/1.1{end}"-" "\x1b]0;x\x07\x22\x0a""#));
        let line = Line { host: "", request: None, ..line };
        check(
            LogFormat::BoaHost,
            &line,
            r#"- 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "-" 200 2448 "-" "\x1b]0;x\x07\x22\x0a""#,
        );
    }

    #[test]
    fn writes_a_field_in_place_of_the_client() {
        let end = r#" - - [20/Nov/2026:07:49:41 +0000] "GET /a?b HTTP/1.1" 200 2448 "-" "curl/8""#;
        for (field, expected) in [
            (&b""[..], "(192.0.2.7)"),
            (b"198.51.100.9", "198.51.100.9"),
            (b"2001:DB8::a, 10.0.0.1", "2001:DB8::a,_10.0.0.1"),
            (b"\x1b[31m\"face\"\xff", "__31__face__"),
        ] {
            let line = Line { forwarded_for: Some(field), ..plain() };
            check(LogFormat::Boa, &line, &format!("{expected}{end}"));
            let mut json = Vec::new();
            write(&LogFormat::Json, &line, &mut TimeText::new(0, None), &mut json);
            assert!(String::from_utf8(json).unwrap().contains("\"client\":\"192.0.2.7\""));
        }
    }

    #[test]
    fn writes_the_time_of_a_place() {
        let zone = TimeZone::of_text("<-0330>3:30").map(Arc::new);
        let mut time = TimeText::new(0, zone.clone());
        for (format, expected) in [
            (LogFormat::Boa, "[20/Nov/2026:04:19:41 -0330]"),
            (LogFormat::Combined, "[20/Nov/2026:04:19:41 -0330]"),
            (LogFormat::Json, "\"2026-11-20T07:49:41Z\""),
        ] {
            let mut out = Vec::new();
            write(&format, &plain(), &mut time, &mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(expected), "{out}");
        }
        let lines = ErrorLines { format: ErrorFormat::Boa, zone };
        let mut out = Vec::new();
        error_line(&lines, Level::Warn, TIME, "a\nb", &mut out);
        assert_eq!(out, b"[20/Nov/2026:04:19:41 -0330] a\\u{a}b\n");
        let lines = ErrorLines { format: ErrorFormat::Boa, zone: None };
        out.clear();
        error_line(&lines, Level::Error, TIME, "x", &mut out);
        assert_eq!(out, b"[20/Nov/2026:07:49:41 +0000] x\n");
    }

    #[test]
    fn writes_the_errors_of_clients() {
        let (nothing, name, address) = (LoggedHost::Nothing, LoggedHost::Name, LoggedHost::Address);
        let missing = Line { status: Status::NOT_FOUND, ..plain() };
        let unread = Line { request: None, host: "", status: Status::BAD_REQUEST, ..plain() };
        let too_slow = Line { ended: Some("request too slow"), status: Status::REQUEST_TIMEOUT, ..unread };
        let (file, boa) = (Some("/srv/www/a\"b"), ErrorFormat::Boa);
        for (format, host, line, file, expected) in [
            (
                boa,
                nothing,
                missing,
                file,
                r#"192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "GET /a?b HTTP/1.1" ("/srv/www/a\x22b"): document open: No such file or directory"#,
            ),
            (
                boa,
                nothing,
                Line { status: Status::FORBIDDEN, ..missing },
                file,
                r#"192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "GET /a?b HTTP/1.1" ("/srv/www/a\x22b"): document open: Permission denied"#,
            ),
            (
                boa,
                name,
                Line { status: Status::METHOD_NOT_ALLOWED, ..missing },
                None,
                r#"example.org 192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request [example.org] "GET /a?b HTTP/1.1" ("(null)"): 405 Method Not Allowed"#,
            ),
            (
                boa,
                address,
                Line { host: "192.0.2.1", ..missing },
                Some("/srv/a"),
                r#"192.0.2.1 192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "GET /a?b HTTP/1.1" ("/srv/a"): document open: No such file or directory"#,
            ),
            (
                boa,
                nothing,
                too_slow,
                None,
                r#"192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "(null)" ("(null)"): request too slow"#,
            ),
            (
                ErrorFormat::Taipan,
                nothing,
                missing,
                file,
                r#"2026-11-20T07:49:41Z warn: 404 Not Found for 192.0.2.7: "GET /a?b HTTP/1.1", host example.org, file /srv/www/a\x22b"#,
            ),
            (
                ErrorFormat::Taipan,
                nothing,
                too_slow,
                None,
                r#"2026-11-20T07:49:41Z warn: 408 Request Timeout for 192.0.2.7: "-", request too slow"#,
            ),
        ] {
            let mut time = TimeText::new(0, TimeZone::of_text("<-0330>3:30").map(Arc::new));
            let mut out = Vec::new();
            client_error(format, host, &line, file, &mut time, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{expected}\n"));
        }
    }

    #[test]
    fn writes_the_processes_of_scripts() {
        for (format, started, ended) in [
            (ErrorFormat::Boa, "Forked child \"/cgi/a\" pid 7", "reaping child 7: status 256"),
            (ErrorFormat::Taipan, "process 7 was started: /cgi/a", "process 7 has ended: exit status 1"),
        ] {
            assert_eq!(process_started(format, "/cgi/a", 7), started);
            assert_eq!(process_ended(format, 7, 256, "exit status 1"), ended);
        }
    }

    #[test]
    fn writes_each_format() {
        let line = plain();
        check(
            LogFormat::Common,
            &line,
            r#"192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET /a?b HTTP/1.1" 200 2448 example.org 0.000123 -"#,
        );
        check(
            LogFormat::Combined,
            &line,
            r#"192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "GET /a?b HTTP/1.1" 200 2448 "-" "curl/8" example.org 0.000123 -"#,
        );
        check(
            LogFormat::Json,
            &line,
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"example.org","user":null,"method":"GET","target":"/a?b","version":"HTTP/1.1","status":200,"sent":2448,"duration":0.000123,"referer":null,"user_agent":"curl/8","ended":null,"why":null,"tls":null,"upstream":null}"#,
        );
    }

    #[test]
    fn writes_what_the_cache_did() {
        let end = r#""ended":null,"why":null,"tls":null,"upstream":null,"cache":"hit"}"#;
        let mut line = Vec::new();
        write(
            &LogFormat::Json,
            &Line { cache: Some("hit"), ..plain() },
            &mut TimeText::new(0, None),
            &mut line,
        );
        assert!(String::from_utf8_lossy(&line).trim_end().ends_with(end));
    }

    #[test]
    fn writes_the_trace() {
        let ids = TraceIds { trace: 0xab, span: 0xcd };
        let line = Line { trace: Some(ids), ..plain() };
        let json = lines_of(LogFormat::Json, &line);
        let end = "\"upstream\":null,\"trace_id\":\"000000000000000000000000000000ab\",\"span_id\":\"00000000000000cd\"}";
        assert!(json.ends_with(end), "{json}");
        let parts = crate::log_fields::parse("$trace_id $span_id").unwrap();
        assert_eq!(
            lines_of(LogFormat::Fields(parts.clone()), &line),
            "000000000000000000000000000000ab 00000000000000cd"
        );
        assert_eq!(lines_of(LogFormat::Fields(parts), &plain()), "- -");
    }

    #[test]
    fn writes_what_is_known_of_tls() {
        let tls = Tls {
            protocol: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            name: Some("example.org"),
            client: Some("CN=\"a\",O=\u{e9}"),
            is_resumed: true,
            is_early: false,
        };
        let begin = r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"example.org","user":null,"method":"GET","target":"/a?b","version":"HTTP/1.1","status":200,"sent":2448,"duration":0.000123,"referer":null,"user_agent":"curl/8","ended":null,"why":null,"tls":{"protocol":"TLSv1.3","cipher":"TLS_AES_128_GCM_SHA256","#;
        let end = r#""sni":"example.org","client":"CN=\"a\",O=\u00e9","resumed":true,"early":false},"upstream":null}"#;
        check(LogFormat::Json, &Line { tls: Some(tls), ..plain() }, &format!("{begin}{end}"));
        let tls = Tls { name: None, client: None, is_resumed: false, is_early: true, ..tls };
        let end = r#""sni":null,"client":null,"resumed":false,"early":true},"upstream":null}"#;
        check(LogFormat::Json, &Line { tls: Some(tls), ..plain() }, &format!("{begin}{end}"));
    }

    #[test]
    fn writes_each_attempt_of_an_upstream() {
        let failed = Attempt { total_micros: Some(1_000_000), ..Attempt::new("127.0.0.1:3000".into()) };
        let answered = Attempt {
            status: Some(Status::OK),
            connect_micros: Some(7),
            first_byte_micros: Some(90),
            sent: 5,
            received: 2448,
            ..Attempt::new("unix:/run/\"a\"".into())
        };
        let begin = r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"example.org","user":null,"method":"GET","target":"/a?b","version":"HTTP/1.1","status":200,"sent":2448,"duration":0.000123,"referer":null,"user_agent":"curl/8","ended":null,"why":null,"tls":null,"upstream":["#;
        let first = r#"{"address":"127.0.0.1:3000","status":null,"connect":null,"first_byte":null,"total":1.000000,"sent":0,"received":0},"#;
        let second = r#"{"address":"unix:/run/\"a\"","status":200,"connect":0.000007,"first_byte":0.000090,"total":0.000123,"sent":5,"received":2448}]}"#;
        let attempts = [failed, answered];
        check(LogFormat::Json, &Line { upstream: &attempts, ..plain() }, &format!("{begin}{first}{second}"));
    }

    #[test]
    fn writes_a_dash_or_null_for_absent_values() {
        let line = Line {
            client: Client::Unix,
            host: "",
            request: None,
            status: Status::REQUEST_TIMEOUT,
            sent: 0,
            user_agent: None,
            ended: Some("request too slow"),
            ..plain()
        };
        check(
            LogFormat::Combined,
            &line,
            r#"unix: - - [20/Nov/2026:07:49:41 +0000] "-" 408 0 "-" "-" - 0.000123 "request too slow""#,
        );
        check(
            LogFormat::Json,
            &line,
            r#"{"time":"2026-11-20T07:49:41Z","client":"unix:","host":null,"user":null,"method":null,"target":null,"version":null,"status":408,"sent":0,"duration":0.000123,"referer":null,"user_agent":null,"ended":"request too slow","why":null,"tls":null,"upstream":null}"#,
        );
    }

    #[test]
    fn names_the_rule_of_a_rejected_request() {
        let line = Line {
            request: None,
            status: Status::BAD_REQUEST,
            user_agent: None,
            why: Some(taipan_http::head::HeadError::HostMissing.rule()),
            ..plain()
        };
        check(
            LogFormat::Common,
            &line,
            r#"192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "-" 400 2448 example.org 0.000123 "host-missing: an HTTP/1.1 request needs a Host field""#,
        );
        check(
            LogFormat::Common,
            &Line { ended: Some("client closed"), ..line },
            r#"192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] "-" 400 2448 example.org 0.000123 "client closed""#,
        );
        check(
            LogFormat::Json,
            &line,
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"example.org","user":null,"method":null,"target":null,"version":null,"status":400,"sent":2448,"duration":0.000123,"referer":null,"user_agent":null,"ended":null,"why":"host-missing: an HTTP/1.1 request needs a Host field","tls":null,"upstream":null}"#,
        );
    }

    #[test]
    fn escapes_every_value_of_a_request() {
        let line = Line {
            host: "a b\"",
            user: Some("o'neil jr"),
            request: Some(Request { method: "G\"", target: "/ \u{1b}]0;x\u{7}", version: "HTTP/1.1" }),
            referer: Some(b"\xff\x9b2J"),
            user_agent: Some(b"x\" 200 1\r\n192.0.2.9 - - \\"),
            ..plain()
        };
        check(
            LogFormat::Combined,
            &line,
            r#"192.0.2.7 - o'neil\x20jr [20/Nov/2026:07:49:41 +0000] "G\x22 /\x20\x1b]0;x\x07 HTTP/1.1" 200 2448 "\xff\x9b2J" "x\x22 200 1\x0d\x0a192.0.2.9 - - \x5c" a\x20b\x22 0.000123 -"#,
        );
        check(
            LogFormat::Json,
            &line,
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"a b\"","user":"o'neil jr","method":"G\"","target":"/ \u001b]0;x\u0007","version":"HTTP/1.1","status":200,"sent":2448,"duration":0.000123,"referer":"\ufffd\ufffd2J","user_agent":"x\" 200 1\u000d\u000a192.0.2.9 - - \\","ended":null,"why":null,"tls":null,"upstream":null}"#,
        );
    }

    #[test]
    fn writes_addresses_without_ports() {
        for (address, expected) in [
            ("0.0.0.0", "0.0.0.0 "),
            ("255.10.9.100", "255.10.9.100 "),
            ("2001:db8::1", "2001:db8::1 "),
            ("::ffff:192.0.2.7", "192.0.2.7 "),
        ] {
            let mut out = Vec::new();
            let line = Line { client: Client::Ip(address.parse().unwrap()), ..plain() };
            write(&LogFormat::Common, &line, &mut TimeText::new(TIME, None), &mut out);
            assert!(out.starts_with(expected.as_bytes()), "{address}");
        }
    }

    #[test]
    fn writes_the_time_of_each_line() {
        let mut time = TimeText::new(TIME, None);
        for (at, expected) in [
            (TIME, "20/Nov/2026:07:49:41 +0000"),
            (TIME + 1, "20/Nov/2026:07:49:42 +0000"),
            (TIME, "20/Nov/2026:07:49:41 +0000"),
            (0, "01/Jan/1970:00:00:00 +0000"),
            (i64::MAX, "31/Dec/9999:23:59:59 +0000"),
        ] {
            let mut out = Vec::new();
            write(&LogFormat::Common, &Line { time: at, ..plain() }, &mut time, &mut out);
            assert_eq!(&out[15..41], expected.as_bytes());
        }
    }

    #[test]
    fn writes_an_error_as_one_line() {
        for (level, text, expected) in [
            (Level::Error, "it broke", "2026-11-20T07:49:41Z error: it broke\n"),
            (Level::Warn, "a\nb", "2026-11-20T07:49:41Z warn: a\\u{a}b\n"),
            (Level::Info, "日本\u{202e}", "2026-11-20T07:49:41Z info: 日本\\u{202e}\n"),
            (Level::Debug, "", "2026-11-20T07:49:41Z debug: \n"),
        ] {
            let mut out = Vec::new();
            error_line(&ErrorLines::default(), level, TIME, text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn writes_one_line_for_any_bytes(
            host in ".*", target in ".*", user in ".*", ended in ".*",
            referer: Vec<u8>, user_agent: Vec<u8>, time: i64, sent: u64, duration_micros: u64,
        ) {
            let line = Line {
                host: &host, user: Some(&user), time, sent, duration_micros,
                request: Some(Request { method: &user, target: &target, version: &host }),
                referer: Some(&referer), user_agent: Some(&user_agent), ended: Some(&ended),
                ..plain()
            };
            for (format, quotes) in [(LogFormat::Common, 4), (LogFormat::Combined, 8)] {
                let out = lines_of(format, &line);
                prop_assert_eq!(out.bytes().filter(|&byte| byte == b'"').count(), quotes);
            }
            let out = lines_of(LogFormat::Json, &line);
            let read: serde_json::Value = serde_json::from_str(&out).unwrap();
            prop_assert_eq!(read["host"].as_str().unwrap_or_default(), host);
            prop_assert_eq!(read["target"].as_str(), Some(target.as_str()));
            prop_assert_eq!(read["user_agent"].as_str(), Some(&*String::from_utf8_lossy(&user_agent)));
        }
    }

    fn lines_of(format: LogFormat, line: &Line<'_>) -> String {
        let mut out = Vec::new();
        write(&format, line, &mut TimeText::new(0, None), &mut out);
        assert_eq!(out.pop(), Some(b'\n'));
        assert!(out.iter().all(|byte| (b' '..=b'~').contains(byte)), "{out:?}");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_the_fields_that_a_format_names() {
        let line = Line { referer: Some(b"a\"b\nc"), ..plain() };
        let parts =
            crate::log_fields::parse("$status \"$http_referer\" $upstream_addr $request_uri|").unwrap();
        let mut out = Vec::new();
        write(&LogFormat::Fields(parts), &line, &mut TimeText::new(0, None), &mut out);
        let out = String::from_utf8(out).unwrap();
        let target = line.request.map_or("-", |request| request.target);
        assert_eq!(out, format!("{} \"a\\x22b\\x0ac\" - {target}|\n", line.status.code()));
    }
}
