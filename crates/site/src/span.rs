//! The spans of a request as OTLP has them (OpenTelemetry Protocol 1, JSON Protobuf Encoding): one of the request, and
//! below it one of each attempt at an upstream, lookup in the cache and script. And exports of many of them.
//! Queries are left out, as they may have secrets.

use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::host_and_port;
use taipan_http::status::Status;
use taipan_http::write::put;

use crate::log_line::{Attempt, Client, Line, Step, StepKind};
use crate::sink::Collector;
use crate::text;
use crate::upstream::Protocol;

/// The methods that spans have by their names, because names are few.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"];
/// Bytes of a value that a client has sent. A longer one is cut.
const MAX_VALUE: usize = 1024;

/// What a span has beside the line of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanFacts<'a> {
    pub trace: u128,
    pub span: u64,
    /// `None`: the trace begins here.
    pub parent: Option<u64>,
    /// Microseconds since 1970.
    pub end: u64,
    /// The same time by the clock of the attempts and the steps.
    pub now: u64,
    pub is_tls: bool,
    pub steps: &'a [Step],
}

/// `SpanKind` of OTLP.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// The identifier of an attempt or a step of a request: another one for each number, and never zero.
pub fn child(span: u64, number: u32) -> u64 {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    let state = span.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(number) + 1));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

fn known_method(method: &[u8]) -> Option<&'static str> {
    METHODS.into_iter().find(|known| known.as_bytes() == method)
}

/// Appends the span of a request, and those of its attempts and steps, each as one line of JSON with its newline.
/// Returns their number.
pub fn write(facts: &SpanFacts<'_>, line: &Line<'_>, out: &mut Vec<u8>) -> u64 {
    let SpanFacts { span, parent, end, is_tls, .. } = *facts;
    let method = line.request.map_or(&b""[..], |request| request.method);
    let name = known_method(method).unwrap_or("HTTP");
    let times = (end.saturating_sub(line.duration_micros), end);
    begin(facts, (span, parent), name, Kind::Server, times, out);
    let mut attributes = Attributes { out, has_one: false };
    attributes.of_request(line, is_tls);
    attributes.of_response(line);
    finish(line.status.code() >= 500 || line.ended.is_some(), out);
    let mut ordered: Vec<&Attempt> = line.upstream.iter().collect();
    sort::by_key(&mut ordered, |attempt| attempt.number);
    for (before, attempt) in ordered.into_iter().enumerate() {
        write_attempt(facts, method, attempt, before, out);
    }
    facts.steps.iter().for_each(|step| write_step(facts, line, step, out));
    1 + line.upstream.len() as u64 + facts.steps.len() as u64
}

/// `before`: attempts for the same request that began before.
fn write_attempt(facts: &SpanFacts<'_>, method: &[u8], attempt: &Attempt, before: usize, out: &mut Vec<u8>) {
    let (name, protocol) = match attempt.protocol {
        Protocol::Http => (known_method(method).unwrap_or("HTTP"), "http"),
        Protocol::FastCgi => ("FastCGI", "fastcgi"),
        Protocol::Scgi => ("SCGI", "scgi"),
    };
    let times = facts.times(attempt.began, attempt.total_micros);
    begin(facts, facts.child_of(attempt.number), name, Kind::Client, times, out);
    let mut attributes = Attributes { out, has_one: false };
    attributes.method(method);
    attributes.authority(&attempt.address);
    attributes.text("network.protocol.name", protocol.as_bytes());
    if before > 0 {
        attributes.number("http.request.resend_count", before as u64);
    }
    attributes.status(attempt.status);
    for (name, number) in [
        ("taipan.upstream.connect_micros", attempt.connect_micros),
        ("taipan.upstream.first_byte_micros", attempt.first_byte_micros),
    ] {
        if let Some(number) = number {
            attributes.number(name, number);
        }
    }
    // For a client, 4xx is an error, too.
    let has_failed = attempt.status.is_none_or(|status| status.code() >= 400);
    if has_failed {
        attributes.error(attempt.status, "no_response");
    }
    finish(has_failed, out);
}

fn write_step(facts: &SpanFacts<'_>, line: &Line<'_>, step: &Step, out: &mut Vec<u8>) {
    let times = facts.times(step.began, step.micros);
    let name = match &step.kind {
        StepKind::Lookup => "cache lookup",
        StepKind::Script(_) => "script",
    };
    begin(facts, facts.child_of(step.number), name, Kind::Internal, times, out);
    let mut attributes = Attributes { out, has_one: false };
    let has_failed = match &step.kind {
        StepKind::Lookup => {
            attributes.text("taipan.cache", line.cache.unwrap_or("none").as_bytes());
            false
        }
        StepKind::Script(script) => {
            attributes.text("taipan.script", script.as_bytes());
            attributes.status(step.status);
            let has_failed = step.status.is_none_or(|status| status.code() >= 500);
            if has_failed {
                attributes.error(step.status, "no_response");
            }
            has_failed
        }
    };
    finish(has_failed, out);
}

impl SpanFacts<'_> {
    /// The identifiers of a part of the request, and of the request.
    fn child_of(&self, number: u32) -> (u64, Option<u64>) {
        (child(self.span, number), Some(self.span))
    }

    /// The times of a part of the request, in microseconds since 1970. `micros`: `None` if it has not ended.
    fn times(&self, began: u64, micros: Option<u64>) -> (u64, u64) {
        let start = self.end.saturating_sub(self.now.saturating_sub(began));
        (start, micros.map_or(self.end, |micros| start.saturating_add(micros).min(self.end)))
    }
}

/// Writes a span up to its attributes. `times`: its start and its end, in microseconds since 1970.
fn begin(
    facts: &SpanFacts<'_>,
    (span, parent): (u64, Option<u64>),
    name: &str,
    kind: Kind,
    times: (u64, u64),
    out: &mut Vec<u8>,
) {
    put(out, &[b"{\"traceId\":\"", format!("{:032x}", facts.trace).as_bytes()]);
    put(out, &[b"\",\"spanId\":\"", format!("{span:016x}").as_bytes()]);
    if let Some(parent) = parent {
        put(out, &[b"\",\"parentSpanId\":\"", format!("{parent:016x}").as_bytes()]);
    }
    put(out, &[b"\",\"name\":\"", name.as_bytes(), b"\",\"kind\":"]);
    write_number(kind as u64, out);
    put(out, &[b",\"startTimeUnixNano\":\""]);
    write_number(times.0.saturating_mul(1000), out);
    put(out, &[b"\",\"endTimeUnixNano\":\""]);
    write_number(times.1.saturating_mul(1000), out);
    put(out, &[b"\",\"attributes\":["]);
}

/// `STATUS_CODE_ERROR` is 2.
fn finish(has_failed: bool, out: &mut Vec<u8>) {
    put(out, &[b"],\"status\":", if has_failed { b"{\"code\":2}" } else { b"{}" }, b"}\n"]);
}

struct Attributes<'o> {
    out: &'o mut Vec<u8>,
    has_one: bool,
}

/// The names are those of the semantic conventions for HTTP spans, and our own begin with `taipan.`.
impl Attributes<'_> {
    fn of_request(&mut self, line: &Line<'_>, is_tls: bool) {
        if let Some(request) = line.request {
            self.method(request.method);
            let path = request.target.split(|byte| *byte == b'?').next().unwrap_or_default();
            self.text("url.path", path);
            let version = match request.version.strip_prefix("HTTP/") {
                Some("2.0") => "2",
                Some(version) => version,
                None => request.version,
            };
            self.text("network.protocol.name", b"http");
            self.text("network.protocol.version", version.as_bytes());
        }
        self.text("url.scheme", if is_tls { b"https" } else { b"http" });
        if !line.host.is_empty() {
            self.authority(&String::from_utf8_lossy(line.host));
        }
        if let Client::Ip(address) = line.client {
            let mut text = Vec::new();
            write_ip(address, &mut text);
            self.text("client.address", &text);
        }
        if let Some(agent) = line.user_agent {
            self.text("user_agent.original", agent);
        }
        if let Some(tls) = &line.tls {
            let version = tls.protocol.strip_prefix("TLSv").unwrap_or(tls.protocol);
            self.text("tls.protocol.version", version.as_bytes());
        }
    }

    fn of_response(&mut self, line: &Line<'_>) {
        self.status(Some(line.status));
        self.number("http.response.body.size", line.sent);
        match line.ended {
            Some(why) => self.text("error.type", why.as_bytes()),
            None if line.status.code() >= 500 => self.error(Some(line.status), ""),
            None => {}
        }
        if let Some(rule) = line.why {
            self.text("taipan.rule", rule.token.as_bytes());
        }
        if let Some(cache) = line.cache {
            self.text("taipan.cache", cache.as_bytes());
        }
    }

    /// The method of a request. The names of other methods are as many as clients choose.
    fn method(&mut self, method: &[u8]) {
        if known_method(method).is_some() {
            return self.text("http.request.method", method);
        }
        self.text("http.request.method", b"_OTHER");
        self.text("http.request.method_original", method);
    }

    /// A host with its port, or the address of an endpoint.
    fn authority(&mut self, authority: &str) {
        let (host, port) = match authority.starts_with("unix:") {
            true => (authority, None),
            false => host_and_port(authority),
        };
        self.text("server.address", host.trim_start_matches('[').trim_end_matches(']').as_bytes());
        if let Some(port) = port {
            self.number("server.port", port.into());
        }
    }

    fn status(&mut self, status: Option<Status>) {
        if let Some(status) = status {
            self.number("http.response.status_code", status.code().into());
        }
    }

    fn error(&mut self, status: Option<Status>, otherwise: &str) {
        match status {
            Some(status) => self.text("error.type", status.code().to_string().as_bytes()),
            None => self.text("error.type", otherwise.as_bytes()),
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
            forwarded_for: None,
            host: b"example.org:8080",
            user: None,
            time: 0,
            request: Some(Request { method: b"GET", target: b"/a\x1b?token=secret", version: "HTTP/1.1" }),
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
        Collector { address, authority, path, service: "a \"service\"".to_owned(), tls: None }
    }

    fn written(facts: &SpanFacts<'_>, line: &Line<'_>) -> String {
        let mut out = Vec::new();
        let count = write(facts, line, &mut out);
        assert!(out.ends_with(b"\n"));
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count() as u64, count);
        String::from_utf8(out).unwrap()
    }

    fn spans(facts: &SpanFacts<'_>, line: &Line<'_>) -> Vec<serde_json::Value> {
        written(facts, line).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    const FACTS: SpanFacts<'_> = SpanFacts {
        trace: 0xab,
        span: 0xcd,
        parent: Some(1),
        end: 1_000_000,
        now: 5_000,
        is_tls: true,
        steps: &[],
    };

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
        assert_eq!(value(&span, "server.address")["stringValue"], "example.org");
        assert_eq!(value(&span, "server.port")["intValue"], "8080");
        assert_eq!(value(&span, "network.protocol.version")["stringValue"], "1.1");
        assert_eq!(value(&span, "url.scheme")["stringValue"], "https");
        assert_eq!(value(&span, "client.address")["stringValue"], "192.0.2.7");
        assert_eq!(value(&span, "http.response.status_code")["intValue"], "200");
        assert_eq!(value(&span, "user_agent.original")["stringValue"], "\"\n\u{fffd}");
        assert_eq!(span["status"], serde_json::json!({}));
        assert!(!span.to_string().contains("secret"));
    }

    #[test]
    fn a_method_that_is_not_known_is_one_of_few_names() {
        let request = Request { method: b"BREW", target: b"/", version: "HTTP/2.0" };
        let span = &spans(&FACTS, &Line { request: Some(request), ..line() })[0];
        assert_eq!(span["name"], "HTTP");
        assert_eq!(value(span, "http.request.method")["stringValue"], "_OTHER");
        assert_eq!(value(span, "http.request.method_original")["stringValue"], "BREW");
        assert_eq!(value(span, "network.protocol.version")["stringValue"], "2");
    }

    #[test]
    fn an_error_of_the_server_is_one_of_the_span() {
        let line = Line { status: Status::BAD_GATEWAY, request: None, ..line() };
        let span = &spans(&SpanFacts { parent: None, ..FACTS }, &line)[0];
        assert_eq!(span["status"]["code"], 2);
        assert_eq!((&span["name"], &span["parentSpanId"]), (&"HTTP".into(), &serde_json::Value::Null));
        assert_eq!(value(span, "error.type")["stringValue"], "502");
    }

    #[test]
    fn attempts_and_steps_are_children_of_the_request() {
        let attempt =
            |number, began, address: &str| Attempt { number, began, ..Attempt::new(address.into()) };
        // The one that was chosen is the last, and began first.
        let failed = Attempt { total_micros: Some(100), ..attempt(2, 4_200, "[::1]:80") };
        let chosen = Attempt {
            status: Some(Status::OK),
            first_byte_micros: Some(7),
            ..attempt(1, 4_100, "unix:/run/app")
        };
        let script = StepKind::Script("/cgi-bin/a".into());
        let step = |kind, number, micros| Step { kind, number, began: 4_000, micros, status: None };
        let steps = [step(StepKind::Lookup, 0, Some(50)), step(script, 3, None)];
        let line = Line { upstream: &[failed, chosen], cache: Some("miss"), ..line() };
        let all = spans(&SpanFacts { steps: &steps, ..FACTS }, &line);
        let names: Vec<&str> = all.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, ["GET", "GET", "GET", "cache lookup", "script"]);
        let kinds: Vec<u64> = all.iter().filter_map(|span| span["kind"].as_u64()).collect();
        assert_eq!(kinds, [2, 3, 3, 1, 1]);
        assert!(all[1..].iter().all(|span| span["parentSpanId"] == all[0]["spanId"]));
        let identifiers: std::collections::BTreeSet<&str> =
            all.iter().filter_map(|span| span["spanId"].as_str()).collect();
        assert_eq!(identifiers.len(), 5);
        let (chosen, failed, lookup, script) = (&all[1], &all[2], &all[3], &all[4]);
        assert_eq!(chosen["spanId"], format!("{:016x}", child(0xcd, 1)));
        assert_eq!(value(chosen, "server.address")["stringValue"], "unix:/run/app");
        assert_eq!(value(chosen, "http.response.status_code")["intValue"], "200");
        assert_eq!(value(chosen, "http.request.resend_count"), serde_json::Value::Null);
        assert_eq!((&chosen["status"], &failed["status"]["code"]), (&serde_json::json!({}), &2.into()));
        assert_eq!(value(failed, "server.address")["stringValue"], "::1");
        assert_eq!(value(failed, "server.port")["intValue"], "80");
        assert_eq!(value(failed, "http.request.resend_count")["intValue"], "1");
        assert_eq!(value(failed, "error.type")["stringValue"], "no_response");
        assert_eq!(value(lookup, "taipan.cache")["stringValue"], "miss");
        assert_eq!(
            (&lookup["startTimeUnixNano"], &lookup["endTimeUnixNano"]),
            (&"999000000".into(), &"999050000".into())
        );
        assert_eq!(
            (&script["startTimeUnixNano"], &script["endTimeUnixNano"]),
            (&"999000000".into(), &"1000000000".into())
        );
        assert_eq!(value(script, "taipan.script")["stringValue"], "/cgi-bin/a");
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
