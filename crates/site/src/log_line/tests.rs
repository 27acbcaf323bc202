use proptest::prelude::*;

use super::*;
use crate::model::{ErrorFormat, ErrorLines, Level, LoggedHost};

const TIME: i64 = 1_795_160_981;

fn plain() -> Line<'static> {
    Line {
        client: Client::Ip([192, 0, 2, 7].into()),
        name: None,
        forwarded_for: None,
        host: b"example.org",
        user: None,
        time: TIME,
        request: Some(Request { method: b"GET", target: b"/a?b", version: "HTTP/1.1" }),
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
    check(
        LogFormat::ThttpdHost,
        &Line { host: b"Example.ORG:8080", ..plain() },
        &format!(r#"{begin}/example.org/a?b HTTP/1.1{end}"" "curl/8""#),
    );
    // What neither of them escaped.
    let line = Line { user_agent: Some(b"\x1b]0;x\x07\"\n"), ..line };
    check(LogFormat::Boa, &line, &format!(r#"{begin}/a?b HTTP/1.1{end}"-" "\x1b]0;x\x07\x22\x0a""#));
    let line = Line { host: b"", request: None, ..line };
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
    let unread = Line { request: None, host: b"", status: Status::BAD_REQUEST, ..plain() };
    let too_slow = Line { ended: Some("request too slow"), status: Status::REQUEST_TIMEOUT, ..unread };
    let (file, boa) = (Some(&b"/srv/www/a\"\xff"[..]), ErrorFormat::Boa);
    for (format, host, line, file, expected) in [
        (
            boa,
            nothing,
            missing,
            file,
            r#"192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "GET /a?b HTTP/1.1" ("/srv/www/a\x22\xff"): document open: No such file or directory"#,
        ),
        (
            boa,
            nothing,
            Line { status: Status::FORBIDDEN, ..missing },
            file,
            r#"192.0.2.7 - - [20/Nov/2026:04:19:41 -0330] request "GET /a?b HTTP/1.1" ("/srv/www/a\x22\xff"): document open: Permission denied"#,
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
            Line { host: b"192.0.2.1", ..missing },
            Some(&b"/srv/a"[..]),
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
            r#"2026-11-20T07:49:41Z warn: 404 Not Found for 192.0.2.7: "GET /a?b HTTP/1.1", host example.org, file /srv/www/a\x22\xff"#,
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
    write(&LogFormat::Json, &Line { cache: Some("hit"), ..plain() }, &mut TimeText::new(0, None), &mut line);
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
    let end =
        r#""sni":"example.org","client":"CN=\"a\",O=\u00e9","resumed":true,"early":false},"upstream":null}"#;
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
        host: b"",
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
        host: b"a b\"",
        user: Some(b"o'neil jr"),
        request: Some(Request { method: b"G\"", target: b"/ \x1b]0;x\x07", version: "HTTP/1.1" }),
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
            host: host.as_bytes(), user: Some(user.as_bytes()), time, sent, duration_micros,
            request: Some(Request { method: user.as_bytes(), target: target.as_bytes(), version: "HTTP/2.0" }),
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
    let parts = crate::log_fields::parse("$status \"$http_referer\" $upstream_addr $request_uri|").unwrap();
    let mut out = Vec::new();
    write(&LogFormat::Fields(parts), &line, &mut TimeText::new(0, None), &mut out);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out, "200 \"a\\x22b\\x0ac\" - /a?b|\n");
}
