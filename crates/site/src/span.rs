//! The span of a request as OTLP has it (OpenTelemetry Protocol 1, JSON Protobuf Encoding), and requests with many of them.
//! Queries are left out, as they may have secrets.

use taipan_http::digits::{write_ip, write_number};
use taipan_http::status::Status;

use crate::log_line::{Attempt, Client, Line};
use crate::sink::Collector;
use crate::text;

/// The names of spans. Other methods have that of the protocol, because names are few.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"];
/// `SPAN_KIND_SERVER`
const SERVER: &[u8] = b"2";
/// Bytes of a value that a client has sent. A longer one is cut.
const MAX_VALUE: usize = 1024;

/// What a span has beside the line of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanFacts {
    pub trace: u128,
    pub span: u64,
    /// `None`: the trace begins here.
    pub parent: Option<u64>,
    /// Microseconds since 1970.
    pub end: u64,
    pub is_tls: bool,
}

/// Appends a span as one line of JSON, with its newline.
pub fn write(facts: &SpanFacts, line: &Line<'_>, out: &mut Vec<u8>) {
    let SpanFacts { trace, span, parent, end, is_tls } = *facts;
    put(out, &[b"{\"traceId\":\"", format!("{trace:032x}").as_bytes()]);
    put(out, &[b"\",\"spanId\":\"", format!("{span:016x}").as_bytes()]);
    if let Some(parent) = parent {
        put(out, &[b"\",\"parentSpanId\":\"", format!("{parent:016x}").as_bytes()]);
    }
    let method = line.request.map_or("", |request| request.method);
    let name = if METHODS.contains(&method) { method } else { "HTTP" };
    put(out, &[b"\",\"name\":\"", name.as_bytes(), b"\",\"kind\":", SERVER]);
    put(out, &[b",\"startTimeUnixNano\":\""]);
    write_number(end.saturating_sub(line.duration_micros).saturating_mul(1000), out);
    put(out, &[b"\",\"endTimeUnixNano\":\""]);
    write_number(end.saturating_mul(1000), out);
    put(out, &[b"\",\"attributes\":["]);
    let mut attributes = Attributes { out, has_one: false };
    attributes.of_request(line, is_tls);
    attributes.of_response(line);
    put(out, &[b"],\"status\":", if has_failed(line) { b"{\"code\":2}" } else { b"{}" }, b"}\n"]);
}

fn has_failed(line: &Line<'_>) -> bool {
    line.status.code() >= 500 || line.ended.is_some()
}

struct Attributes<'o> {
    out: &'o mut Vec<u8>,
    has_one: bool,
}

/// The names are those of the semantic conventions for HTTP spans, and our own begin with `taipan.`.
impl Attributes<'_> {
    fn of_request(&mut self, line: &Line<'_>, is_tls: bool) {
        if let Some(request) = line.request {
            self.text("http.request.method", request.method.as_bytes());
            let path = request.target.split_once('?').map_or(request.target, |(path, _)| path);
            self.text("url.path", path.as_bytes());
            let version = request.version.strip_prefix("HTTP/").unwrap_or(request.version);
            self.text("network.protocol.version", version.as_bytes());
        }
        self.text("url.scheme", if is_tls { b"https" } else { b"http" });
        if !line.host.is_empty() {
            self.text("server.address", line.host.as_bytes());
        }
        if let Client::Ip(address) = line.client {
            let mut text = Vec::new();
            write_ip(address, &mut text);
            self.text("client.address", &text);
        }
        if let Some(agent) = line.user_agent {
            self.text("user_agent.original", agent);
        }
    }

    fn of_response(&mut self, line: &Line<'_>) {
        self.number("http.response.status_code", line.status.code().into());
        self.number("http.response.body.size", line.sent);
        let is_of_server = line.status.code() >= 500;
        match (line.ended, line.why) {
            (Some(why), _) => self.text("error.type", why.as_bytes()),
            (None, Some(rule)) => self.text("error.type", rule.token.as_bytes()),
            (None, None) if is_of_server => {
                self.text("error.type", line.status.code().to_string().as_bytes());
            }
            (None, None) => {}
        }
        if let Some(cache) = line.cache {
            self.text("taipan.cache", cache.as_bytes());
        }
        if let Some(Attempt { address, status, connect_micros, first_byte_micros, .. }) = line.upstream.last()
        {
            self.text("taipan.upstream.address", address.as_bytes());
            self.number("taipan.upstream.attempts", line.upstream.len() as u64);
            let status = status.map(Status::code).map(u64::from);
            for (name, number) in [
                ("taipan.upstream.status_code", status),
                ("taipan.upstream.connect_micros", *connect_micros),
                ("taipan.upstream.first_byte_micros", *first_byte_micros),
            ] {
                if let Some(number) = number {
                    self.number(name, number);
                }
            }
        }
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        self.begin(name);
        put(self.out, &[b"{\"stringValue\":"]);
        text::json(&value[..value.len().min(MAX_VALUE)], self.out);
        put(self.out, &[b"}}"]);
    }

    /// 64-bit integers are strings in JSON Protobuf.
    fn number(&mut self, name: &str, value: u64) {
        self.begin(name);
        put(self.out, &[b"{\"intValue\":\""]);
        write_number(value, self.out);
        put(self.out, &[b"\"}}"]);
    }

    fn begin(&mut self, name: &str) {
        if std::mem::replace(&mut self.has_one, true) {
            self.out.push(b',');
        }
        put(self.out, &[b"{\"key\":\"", name.as_bytes(), b"\",\"value\":"]);
    }
}

/// The body of an `ExportTraceServiceRequest` with the spans of `lines`.
pub fn export(collector: &Collector, version: &str, lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len() + 512);
    put(
        &mut out,
        &[b"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"],
    );
    text::json(collector.service.as_bytes(), &mut out);
    put(&mut out, &[b"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"taipan\",\"version\":"]);
    text::json(version.as_bytes(), &mut out);
    put(&mut out, &[b"},\"spans\":["]);
    let spans = lines.split(|byte| *byte == b'\n').filter(|span| !span.is_empty());
    for (at, span) in spans.enumerate() {
        put(&mut out, &[if at > 0 { b"," } else { b"" }, span]);
    }
    put(&mut out, &[b"]}]}]}"]);
    out
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::endpoint::EndpointAddress;
    use crate::log_line::Request;

    fn line() -> Line<'static> {
        Line {
            client: Client::Ip([192, 0, 2, 7].into()),
            name: None,
            host: "example.org",
            user: None,
            time: 0,
            request: Some(Request { method: "GET", target: "/a\u{1b}?token=secret", version: "HTTP/1.1" }),
            status: Status::OK,
            sent: 2448,
            referer: None,
            user_agent: Some(b"\"\n\xff"),
            duration_micros: 123,
            ended: None,
            why: None,
            tls: None,
            upstream: &[],
            cache: None,
            trace: None,
        }
    }

    fn collector() -> Collector {
        let address = EndpointAddress::parse("127.0.0.1:4318", Path::new(""), None).unwrap();
        let (authority, path) = ("127.0.0.1:4318".to_owned(), "/v1/traces".to_owned());
        Collector { address, authority, path, service: "a \"service\"".to_owned() }
    }

    fn written(facts: &SpanFacts, line: &Line<'_>) -> String {
        let mut out = Vec::new();
        write(facts, line, &mut out);
        assert!(out.ends_with(b"\n") && out.iter().filter(|byte| **byte == b'\n').count() == 1);
        String::from_utf8(out).unwrap()
    }

    const FACTS: SpanFacts =
        SpanFacts { trace: 0xab, span: 0xcd, parent: Some(1), end: 1_000_000, is_tls: true };

    fn value(spans: &serde_json::Value, key: &str) -> serde_json::Value {
        let all = spans["attributes"].as_array().unwrap();
        all.iter()
            .find(|attribute| attribute["key"] == key)
            .map_or(serde_json::Value::Null, |found| found["value"].clone())
    }

    #[test]
    fn writes_a_request_as_a_span() {
        let span: serde_json::Value = serde_json::from_str(&written(&FACTS, &line())).unwrap();
        assert_eq!(span["traceId"], "000000000000000000000000000000ab");
        assert_eq!(span["spanId"], "00000000000000cd");
        assert_eq!(span["parentSpanId"], "0000000000000001");
        assert_eq!((&span["name"], &span["kind"]), (&"GET".into(), &2.into()));
        assert_eq!(span["startTimeUnixNano"], "999877000");
        assert_eq!(span["endTimeUnixNano"], "1000000000");
        assert_eq!(value(&span, "url.path")["stringValue"], "/a\u{1b}");
        assert_eq!(value(&span, "url.scheme")["stringValue"], "https");
        assert_eq!(value(&span, "client.address")["stringValue"], "192.0.2.7");
        assert_eq!(value(&span, "http.response.status_code")["intValue"], "200");
        assert_eq!(value(&span, "user_agent.original")["stringValue"], "\"\n\u{fffd}");
        assert_eq!(span["status"], serde_json::json!({}));
        assert!(!span.to_string().contains("secret"));
    }

    #[test]
    fn an_error_of_the_server_is_one_of_the_span() {
        let attempt = Attempt { first_byte_micros: Some(7), ..Attempt::new("10.0.0.1:80".into()) };
        let line = Line { status: Status::BAD_GATEWAY, upstream: &[attempt], request: None, ..line() };
        let facts = SpanFacts { parent: None, ..FACTS };
        let span: serde_json::Value = serde_json::from_str(&written(&facts, &line)).unwrap();
        assert_eq!(span["status"]["code"], 2);
        assert_eq!((&span["name"], &span["parentSpanId"]), (&"HTTP".into(), &serde_json::Value::Null));
        assert_eq!(value(&span, "error.type")["stringValue"], "502");
        assert_eq!(value(&span, "taipan.upstream.address")["stringValue"], "10.0.0.1:80");
        assert_eq!(value(&span, "taipan.upstream.first_byte_micros")["intValue"], "7");
    }

    #[test]
    fn joins_spans_for_a_collector() {
        for count in [0, 1, 3] {
            let lines = written(&FACTS, &line()).repeat(count);
            let body = export(&collector(), "1.0", lines.as_bytes());
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let resource = &body["resourceSpans"][0];
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "a \"service\"");
            assert_eq!(resource["scopeSpans"][0]["spans"].as_array().map(Vec::len), Some(count));
        }
    }
}
