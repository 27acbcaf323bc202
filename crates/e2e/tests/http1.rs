//! HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112), for a client that follows the rules.

use std::thread;
use std::time::{Instant, SystemTime};

use e2e::{Client, ReadError, Response, Rows, Server, Site, TIMEOUT, chunked, wait_until};

/// Sun, 06 Nov 1994 08:49:37 GMT
const MODIFIED: u64 = 784_111_777;

fn site() -> Site {
    plain_site().every_protocol()
}

fn plain_site() -> Site {
    Site::new()
        .file("a.txt", "hello\n")
        .modified("a.txt", MODIFIED)
        .file("big.bin", e2e::Random::new(1).bytes(300_000))
        .file("empty", "")
        .file("dir/inside.txt", "inside\n")
        .file("with-index/index.html", "<h1>index</h1>\n")
        .config("listing = true")
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// Each row: the bytes sent, and the responses.
fn check(server: &Server, rows: &[(&str, &str)]) {
    let mut table = Rows::new();
    for (input, expected) in rows {
        table.check(input, server.exchange(input, expected).summary.as_str(), *expected);
    }
}

#[test]
fn the_version_and_the_connection_field_decide_persistence() {
    let server = site().start();
    let mut table = Rows::new();
    // The fields, the state of the connection in 1.1 and in 1.0, and the Connection field of the response.
    for (fields, on_11, on_10) in [
        ("", ("open", None), ("closed", Some("close"))),
        ("Connection: close\r\n", ("closed", Some("close")), ("closed", Some("close"))),
        ("Connection: CLOSE\r\n", ("closed", Some("close")), ("closed", Some("close"))),
        ("Connection: keep-alive\r\n", ("open", None), ("open", Some("keep-alive"))),
        ("Connection: Keep-Alive\r\n", ("open", None), ("open", Some("keep-alive"))),
        ("Connection: keep-alive, close\r\n", ("closed", Some("close")), ("closed", Some("close"))),
        ("Connection: x\r\nConnection: close\r\n", ("closed", Some("close")), ("closed", Some("close"))),
        ("Connection: x-close\r\n", ("open", None), ("closed", Some("close"))),
        ("Connection: upgrade\r\nUpgrade: h2c\r\n", ("open", None), ("closed", Some("close"))),
        ("Proxy-Connection: close\r\n", ("open", None), ("closed", Some("close"))),
    ] {
        for (version, (then, field)) in [("1.1", on_11), ("1.0", on_10)] {
            let input = format!("GET /a.txt HTTP/{version}\r\nHost: localhost\r\n{fields}\r\n");
            let exchange = server.exchange(&input, "200");
            table.check(&input, exchange.summary, format!("200 {then}"));
            let printed =
                exchange.responses.first().and_then(|r| r.field("connection")).map(str::to_lowercase);
            table.check(&input, printed.as_deref(), field);
        }
    }
}

#[test]
fn accepts_only_request_lines_of_three_parts_and_a_known_version() {
    check(
        &site().start(),
        &[
            ("GET /a.txt HTTP/1.0\r\n\r\n", "200 closed"),
            ("GET /a.txt HTTP/1.0\r\nHost: localhost\r\n\r\n", "200 closed"),
            ("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 open"),
            ("GET /a.txt HTTP/1.2\r\nHost: localhost\r\n\r\n", "200 open"),
            ("GET /a.txt HTTP/1.9\r\nHost: localhost\r\n\r\n", "200 open"),
            ("GET /a.txt HTTP/0.9\r\n\r\n", "505 closed"),
            ("GET /a.txt HTTP/2.0\r\nHost: localhost\r\n\r\n", "505 closed"),
            ("GET /a.txt HTTP/3.0\r\nHost: localhost\r\n\r\n", "505 closed"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 closed"),
            ("GET /a.txt\r\n\r\n", "400 closed"),
            ("\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 open"),
            ("\r\n\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 open"),
            ("\r\n\r\n\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 closed"),
            ("\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 closed"),
            ("\x16\x03\x01\x02\x00\x01\x00", "400 closed"),
        ],
    );
}

#[test]
fn responds_with_http_1_1_to_every_version() {
    let server = site().start();
    for version in ["1.0", "1.1", "1.2", "2.0"] {
        let response = server.request(format!("GET /a.txt HTTP/{version}\r\nHost: localhost\r\n\r\n"));
        assert_eq!(response.version, "HTTP/1.1", "{version}");
    }
}

#[test]
fn answers_405_and_501_to_methods_that_are_not_allowed_or_unknown() {
    let server = site().start();
    let mut table = Rows::new();
    let allow = Some("GET, HEAD, OPTIONS");
    for (method, path, expected, allowed) in [
        ("GET", "/a.txt", "200 open", None),
        ("HEAD", "/a.txt", "200h open", None),
        ("OPTIONS", "/a.txt", "204 open", allow),
        ("OPTIONS", "*", "204 open", allow),
        ("POST", "/a.txt", "405 open", allow),
        ("PUT", "/a.txt", "405 open", allow),
        ("DELETE", "/a.txt", "405 open", allow),
        ("PATCH", "/a.txt", "405 open", allow),
        ("TRACE", "/a.txt", "405 open", allow),
        ("CONNECT", "localhost:80", "405 closed", allow),
        ("POST", "/dir/", "405 open", allow),
        ("BREW", "/a.txt", "501 open", None),
        ("get", "/a.txt", "501 open", None),
        ("PROPFIND", "/dir/", "501 open", None),
        ("HEAD", "*", "400h closed", None),
        ("GET", "*", "400 closed", None),
        ("CONNECT", "/a.txt", "400 closed", None),
        ("CONNECT", "localhost", "400 closed", None),
        ("OPTIONS", "a.txt", "400 closed", None),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", "/a.txt", "501 closed", None),
    ] {
        let input = request(method, path, "");
        let exchange = server.exchange(&input, expected);
        table.check(&input, exchange.summary.as_str(), expected);
        table.check(&input, exchange.responses.first().and_then(|r| r.field("allow")), allowed);
    }
}

#[test]
fn does_not_echo_a_trace_request() {
    let response = site().start().request(request("TRACE", "/a.txt", "Cookie: secret\r\n"));
    assert!(!response.text().contains("secret"), "{response}");
}

#[test]
fn requires_exactly_one_valid_host() {
    let server = site().start();
    let mut table = Rows::new();
    for (fields, expected) in [
        ("Host: localhost\r\n", "200 open"),
        ("hOsT:localhost\r\n", "200 open"),
        ("Host: \t localhost \t\r\n", "200 open"),
        ("Host: localhost:8080\r\n", "200 open"),
        ("Host: localhost:\r\n", "200 open"),
        ("Host: 127.0.0.1\r\n", "200 open"),
        ("Host: [::1]\r\n", "200 open"),
        ("Host: [::1]:8080\r\n", "200 open"),
        ("Host: a_b.example\r\n", "200 open"),
        ("Host: unknown.example\r\n", "200 open"),
        ("", "400 closed"),
        ("X: y\r\n", "400 closed"),
        ("Host:\r\n", "400 closed"),
        ("Host: a\r\nHost: a\r\n", "400 closed"),
        ("Host: a\r\nX: y\r\nhost: b\r\n", "400 closed"),
        ("Host: a b\r\n", "400 closed"),
        ("Host: a, b\r\n", "400 closed"),
        ("Host: a/b\r\n", "400 closed"),
        ("Host: http://a\r\n", "400 closed"),
        ("Host: u@a\r\n", "400 closed"),
        ("Host: a:99999\r\n", "400 closed"),
        ("Host: a:8x\r\n", "400 closed"),
        ("Host: :80\r\n", "400 closed"),
        ("Host: [::1\r\n", "400 closed"),
        ("Host: a\\b\r\n", "400 closed"),
        ("Host: a#b\r\n", "400 closed"),
        ("Host: <a>\r\n", "400 closed"),
        ("Host: h\u{e9}\r\n", "400 closed"),
    ] {
        let input = format!("GET /a.txt HTTP/1.1\r\n{fields}\r\n");
        table.check(&input, server.exchange(&input, expected).summary.as_str(), expected);
    }
    for (fields, expected) in
        [("", "200 closed"), ("Host:\r\n", "400 closed"), ("Host: a\r\nHost: b\r\n", "400 closed")]
    {
        let input = format!("GET /a.txt HTTP/1.0\r\n{fields}\r\n");
        table.check(&input, server.exchange(&input, expected).summary.as_str(), expected);
    }
}

#[test]
fn prefers_the_host_of_the_target_over_the_field() {
    let server = site()
        .file_beside_root("other/who", "other\n")
        .file_beside_root("wild/who", "wild\n")
        .file("who", "default\n")
        .config("[[host]]\nnames = [\"other.example\"]\nroot = \"other\"")
        .config("[[host]]\nnames = [\"*.wild.example\"]\nroot = \"wild\"")
        .start();
    let mut table = Rows::new();
    for (target, host, expected) in [
        ("/who", "other.example", "other\n"),
        ("/who", "OTHER.example", "other\n"),
        ("/who", "other.example:8080", "other\n"),
        ("/who", "a.wild.example", "wild\n"),
        ("/who", "a.b.wild.example", "wild\n"),
        ("/who", "wild.example", "default\n"),
        ("/who", "localhost", "default\n"),
        ("/who", "127.0.0.1", "default\n"),
        ("http://other.example/who", "localhost", "other\n"),
        ("http://other.example:80/who", "localhost", "other\n"),
        ("HTTP://Other.Example/who?x=y", "localhost", "other\n"),
        ("http://localhost/who", "other.example", "default\n"),
        ("http://unknown.example/who", "other.example", "default\n"),
        ("https://other.example/who", "localhost", "other\n"),
    ] {
        let input = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let exchange = server.exchange(&input, "200");
        table.check(&input, exchange.summary.as_str(), "200 open");
        table.check(&input, exchange.responses[0].text().as_str(), expected);
    }
    for (input, expected) in [
        ("GET http://other.example HTTP/1.1\r\nHost: a\r\n\r\n", "200 open"),
        ("GET http://other.example?x HTTP/1.1\r\nHost: a\r\n\r\n", "200 open"),
        ("GET http://other.example/who HTTP/1.0\r\n\r\n", "200 closed"),
        ("GET http://other.example/who HTTP/1.1\r\n\r\n", "400 closed"),
        ("GET http://other.example/who HTTP/1.1\r\nHost: u@a\r\n\r\n", "400 closed"),
        ("GET http://u@other.example/who HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
        ("GET http:///who HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
        ("GET http://other.example:99999/who HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
        ("GET ftp://other.example/who HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
        ("GET other.example:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
        ("GET who HTTP/1.1\r\nHost: a\r\n\r\n", "400 closed"),
    ] {
        let found = server.exchange(input, expected).summary;
        table.check(input, found.as_str(), expected);
    }
}

#[test]
fn answers_an_expectation_finally_and_closes() {
    check(
        &site().start(),
        &[
            (
                "POST /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
                "405 closed",
            ),
            (
                "POST /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\nhello",
                "405 closed",
            ),
            (
                "GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
                "200 closed",
            ),
            (
                "POST /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
                "405 closed",
            ),
            (
                "PUT /none HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
                "405 closed",
            ),
            // No body, so the server waits for nothing.
            ("GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", "200 open"),
            (
                "POST /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
                "405 open",
            ),
            // HTTP/1.0 has no expectations (RFC 9110 §10.1.1).
            (
                "POST /a.txt HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
                "405 open",
            ),
            ("GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\n\r\n", "417 closed"),
            (
                "GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue, x\r\nContent-Length: 5\r\n\r\n",
                "417 closed",
            ),
            (
                "GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nExpect: x=\"a,b\"\r\n\r\n",
                "417 closed",
            ),
        ],
    );
}

#[test]
fn a_client_that_sends_before_100_continue_still_gets_its_response() {
    let server = site().start();
    let mut client = server.connect();
    client.send("POST /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 500000\r\n\r\n");
    _ = client.try_send(vec![b'x'; 500_000]);
    assert_eq!(client.read_response().status, 405);
    assert!(client.is_closed());
}

/// Fields that frame a body, the empty line, and the body.
fn bodies() -> Vec<String> {
    let sized = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let coded = |body: &str| format!("Transfer-Encoding: chunked\r\n\r\n{body}");
    vec![
        sized(""),
        sized("x"),
        sized("hello"),
        sized("GET /a.txt HTTP/1.1\r\nHost: inner\r\n\r\n"),
        sized("\r\n\r\n\r\n"),
        coded("0\r\n\r\n"),
        coded("000\r\n\r\n"),
        coded("5\r\nhello\r\n0\r\n\r\n"),
        coded("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"),
        coded("A\r\n0123456789\r\n0\r\n\r\n"),
        coded("a\r\n0123456789\r\n0\r\n\r\n"),
        coded("00a\r\n0123456789\r\n0\r\n\r\n"),
        coded("2\r\n\r\n\r\n0\r\n\r\n"),
        coded("5;a=b;c=\"d;\\\"\"\r\nhello\r\n0;e\r\n\r\n"),
        coded("5 ; a = b\r\nhello\r\n0\r\n\r\n"),
        coded("5\r\nhello\r\n0\r\nDigest: x\r\nY:\r\n\r\n"),
        coded("24\r\nGET /a.txt HTTP/1.1\r\nHost: inner\r\n\r\n\r\n0\r\n\r\n"),
        "transfer-ENCODING:\t Chunked \r\n\r\n1\r\nx\r\n0\r\n\r\n".to_owned(),
    ]
}

#[test]
fn drains_an_unused_body_and_keeps_the_connection() {
    let server = site().start();
    let mut table = Rows::new();
    for body in bodies() {
        for (line, status) in
            [("POST /a.txt HTTP/1.1", 405), ("GET /a.txt HTTP/1.1", 200), ("BREW / HTTP/1.1", 501)]
        {
            let input = format!("{line}\r\nHost: h\r\n{body}");
            table.check(&input, server.exchange(&input, "").summary, format!("{status} open"));
        }
        let three = format!("POST /a.txt HTTP/1.1\r\nHost: h\r\n{body}").repeat(3);
        table.check(&three, server.exchange(&three, "").summary.as_str(), "405 405 405 open");
        let on_10 = format!("POST /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n{body}");
        if body.starts_with("Content-Length") {
            table.check(&on_10, server.exchange(&on_10, "").summary.as_str(), "405 open");
        }
    }
}

#[test]
fn accepts_a_body_byte_by_byte() {
    let server = site().start();
    let mut client = server.connect();
    for body in bodies() {
        client.dribble(format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{body}"));
        assert_eq!(client.read_response().status, 200, "{body:?}");
    }
    assert_eq!(client.get("/a.txt").body, b"hello\n");
}

#[test]
fn rejects_a_method_before_its_body_arrives() {
    let server = site().config("[limits]\nbody = \"8MiB\"").start();
    let mut table = Rows::new();
    for fields in ["Content-Length: 4000000\r\n", "Transfer-Encoding: chunked\r\n"] {
        for (line, status) in [
            ("POST /a.txt HTTP/1.1", 405),
            ("PUT /dir/ HTTP/1.1", 405),
            ("DELETE /none HTTP/1.1", 405),
            ("BREW / HTTP/1.1", 501),
        ] {
            let input = format!("{line}\r\nHost: h\r\n{fields}\r\n");
            let mut client = server.connect();
            client.send(&input);
            let response = client.read_response();
            table.check(&input, (response.status, response.field("connection")), (status, Some("close")));
            // The server reads what the client sends nevertheless, so that no reset destroys the response.
            table.holds(&input, "the body is still taken", client.try_send(vec![b'0'; 500_000]).is_ok());
            client.half_close();
            table.holds(&input, "the connection is closed", client.is_finished());
        }
    }
    // A redirect is no error: the body is read, and the connection stays.
    let server = site().config("redirects = { \"/old\" = \"/new\" }").start();
    let mut client = server.connect();
    client.send("POST /old HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n").send("hello");
    assert_eq!(client.read_response().status, 302);
    assert_eq!(client.get("/a.txt").status, 200);
}

#[test]
fn reads_a_large_body_within_the_limit() {
    let server = site().start();
    let large = "x".repeat(1_000_000);
    let pieces: String = (0..1000).map(|_| format!("3e8\r\n{}\r\n", "x".repeat(1000))).collect();
    let mut table = Rows::new();
    for input in [
        format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n{large}"),
        format!(
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nf4240\r\n{large}\r\n0\r\n\r\n"
        ),
        format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{pieces}0\r\n\r\n"),
    ] {
        table.check(&input, server.exchange(&input, "").summary.as_str(), "200 open");
    }
}

#[test]
fn keeps_the_connection_whenever_the_framing_is_certain() {
    let server = site().config("[[route]]\npath = \"/gone\"\nreturn = 410").start();
    let etag = server.get("/a.txt").field("etag").expect("files have one").to_owned();
    let mut table = Rows::new();
    for (path, fields, expected) in [
        ("/a.txt", "", "200 open"),
        ("/a.txt", "Range: bytes=0-1\r\n", "206 open"),
        ("/a.txt", "Range: bytes=0-0,2-2\r\n", "206 open"),
        ("/big.bin", "", "200 open"),
        ("/empty", "", "200 open"),
        ("/dir", "", "301 open"),
        ("/dir/", "", "200 open"),
        ("/with-index/", "", "200 open"),
        ("/a.txt", &format!("If-None-Match: {etag}\r\n"), "304 open"),
        ("/none", "", "404 open"),
        ("/a.txt/b", "", "404 open"),
        ("/.hidden", "", "404 open"),
        ("/gone", "", "410 open"),
        ("/a.txt", "If-Match: \"x\"\r\n", "412 open"),
        ("/a.txt", "Range: bytes=100-\r\n", "416 open"),
    ] {
        let input = get(path, fields);
        let found = server.exchange(&input, expected).summary;
        table.check(&input, found.as_str(), expected);
        let twice = input.repeat(2);
        let expected = format!("{} {expected}", &expected[..3]);
        table.check(&twice, server.exchange(&twice, &expected).summary, expected);
    }
}

#[test]
fn head_is_get_without_the_body() {
    let server = site().config("[[route]]\npath = \"/old\"\nredirect = \"/new\"").start();
    let etag = server.get("/a.txt").field("etag").expect("files have one").to_owned();
    let mut table = Rows::new();
    for (path, fields, status) in [
        ("/a.txt", "", 200),
        ("/big.bin", "", 200),
        ("/empty", "", 200),
        ("/with-index/", "", 200),
        ("/dir/", "", 200),
        ("/dir/", "Accept: application/json\r\n", 200),
        ("/dir", "", 301),
        ("/old", "", 302),
        ("/none", "", 404),
        ("/a.txt", &format!("If-None-Match: {etag}\r\n"), 304),
        ("/a.txt", "If-Match: \"x\"\r\n", 412),
        ("/a.txt", "Connection: close\r\n", 200),
    ] {
        for version in ["1.1", "1.0"] {
            let exchange = |method: &str| {
                let input = format!("{method} {path} HTTP/{version}\r\nHost: localhost\r\n{fields}\r\n");
                let response = server.request(&input);
                (input, response.status, response.fields_but(&["Date"]))
            };
            let (_, get_status, get_fields) = exchange("GET");
            let (input, head_status, head_fields) = exchange("HEAD");
            table.check(&input, (get_status, head_status), (status, status));
            table.check(&input, head_fields, get_fields);
        }
        let input = request("HEAD", path, fields);
        let end = if fields.contains("close") { "closed" } else { "open" };
        let expected = format!("{status}h {end}");
        table.check(&input, server.exchange(&input, &expected).summary, expected);
    }
}

#[test]
fn sends_no_body_in_an_error_response_to_head() {
    check(
        &plain_site().config("[limits]\ntarget = 64\nfields = 3\nbody = 10").start(),
        &[
            ("HEAD /a.txt HTTP/1.1\r\n\r\n", "400h closed"),
            ("HEAD /%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400h closed"),
            ("HEAD /a.txt HTTP/2.0\r\n\r\n", "505h closed"),
            ("HEAD /a.txt HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", "417h closed"),
            ("HEAD /a.txt HTTP/1.1\r\nHost: h\r\nA: a\r\nB: b\r\nC: c\r\n\r\n", "431h closed"),
            ("HEAD /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n", "413h closed"),
            (
                "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
                "413h closed",
            ),
            ("HEAD /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400h closed"),
            (
                "HEAD /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: h\r\n\r\n",
                "414h closed",
            ),
        ],
    );
}

#[test]
fn sends_a_correct_date_that_advances() {
    let server = site().start();
    let mut client = server.connect();
    let begin = Instant::now();
    for path in ["/a.txt", "/big.bin", "/none", "/dir"] {
        let first = client.get(path).field("date").expect("it has a clock").to_owned();
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970").as_secs();
        assert!((now - 3..=now + 1).any(|second| date(second) == first), "{first} is not now");
        while client.get(path).field("date") == Some(&first) {
            assert!(begin.elapsed() < TIMEOUT, "{path}: Date stands still");
            thread::yield_now();
        }
    }
}

/// The date format of RFC 9110 §5.6.7, computed by counting days.
fn date(seconds: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut days, clock) = (seconds / 86_400, seconds % 86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", days + 1, MONTHS[month])
}

#[test]
fn server_names_itself_as_configured() {
    for (config, expected) in
        [("", Some("taipan")), ("server_header = \"else\"", Some("else")), ("server_header = false", None)]
    {
        let server = site().config(config).start();
        let mut table = Rows::new();
        for input in [
            get("/a.txt", ""),
            get("/big.bin", ""),
            get("/a.txt", "Range: bytes=0-1\r\n"),
            get("/a.txt", "If-None-Match: *\r\n"),
            get("/dir", ""),
            get("/dir/", ""),
            get("/none", ""),
            request("POST", "/a.txt", ""),
            request("OPTIONS", "*", ""),
            "rubbish\r\n\r\n".to_owned(),
        ] {
            table.check(&input, server.request(&input).field("server"), expected);
        }
    }
}

#[test]
fn the_validators_of_a_file_change_with_it() {
    let server =
        site().file("b.txt", "hello\n").modified("b.txt", MODIFIED).config("[cache]\ncheck = 0").start();
    let validators = |path: &str| {
        let response = server.get(path);
        let field = |name: &str| response.field(name).expect("files have validators").to_owned();
        (field("etag"), field("last-modified"))
    };
    let (a, date) = validators("/a.txt");
    assert_eq!(date, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert!(a.len() > 2 && a.starts_with('"') && a.ends_with('"'), "{a} is not strong");
    assert_ne!(a, validators("/b.txt").0, "same size and time, another file");
    assert_eq!((a.clone(), date), validators("/a.txt"));
    server.files().set_modified("www/a.txt", MODIFIED + 1);
    let (later, date) = validators("/a.txt");
    assert_eq!(date, "Sun, 06 Nov 1994 08:49:38 GMT");
    assert_ne!(a, later);
    // A modification time in the future is not sent (RFC 9110 §8.8.2.1).
    server.files().set_modified("www/a.txt", 4_000_000_000);
    let response = server.get("/a.txt");
    if let Some(date) = response.field("last-modified") {
        assert_ne!(date, "Tue, 02 Oct 2096 07:06:40 GMT");
    }
}

#[test]
fn a_modification_time_that_was_in_the_future_is_sent_when_it_has_passed() {
    let server = site().file("b.txt", "other\n").start();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later than 1970");
    let seconds = now.as_secs() + 3;
    server.files().set_modified("www/a.txt", seconds);
    // No request is repeated in the next second.
    let modified =
        |path: &str| Client::tcp(server.addr()).get(path).field("last-modified").map(str::to_owned);
    let first = modified("/a.txt");
    assert!(wait_until(TIMEOUT, || modified("/a.txt") != first), "it stays {first:?}");
    // It is in the past now.
    server.files().set_modified("www/b.txt", seconds);
    assert_eq!(modified("/a.txt"), modified("/b.txt"));
}

#[test]
fn sends_the_whole_response_to_a_half_closed_client() {
    let content = e2e::Random::new(2).bytes(8_000_000);
    let server = site().file("huge.bin", &content).start();
    let mut client = server.connect();
    client.send([get("/a.txt", ""), get("/huge.bin", ""), get("/none", ""), get("/a.txt", "")].concat());
    client.half_close();
    assert_eq!(client.read_response().body, b"hello\n");
    assert!(client.read_response().body == content);
    assert_eq!(client.read_response().status, 404);
    assert_eq!(client.read_response().body, b"hello\n");
    assert!(client.is_closed());
}

#[test]
fn answers_pipelined_requests_in_order() {
    const REQUESTS: usize = 4000;
    let big = e2e::Random::new(1).bytes(300_000);
    let server = site().start();
    let kinds = |n: usize| match n % 100 {
        7 | 57 => (get("/big.bin", ""), 200, false),
        n if n % 10 == 1 => (get("/none", ""), 404, false),
        n if n % 10 == 2 => (request("HEAD", "/big.bin", ""), 200, true),
        n if n % 10 == 3 => (request("POST", "/a.txt", "Content-Length: 0\r\n"), 405, false),
        n if n % 10 == 8 => (get("/a.txt", "Content-Length: 3\r\n") + "abc", 200, false),
        n if n % 10 == 4 => (get("/big.bin", "Range: bytes=-5\r\n"), 206, false),
        n if n % 10 == 5 => (get("/dir", ""), 301, false),
        n if n % 10 == 6 => (get("/dir/", ""), 200, false),
        _ => (get("/a.txt", ""), 200, false),
    };
    let mut reader = server.connect();
    let mut writer = reader.another_handle();
    let writing = thread::spawn(move || {
        let all: String = (0..REQUESTS).map(|n| kinds(n).0).collect();
        writer.send(all);
    });
    for n in 0..REQUESTS {
        let (input, status, head) = kinds(n);
        let response = if head { reader.read_response_to_head() } else { reader.read_response() };
        assert_eq!(response.status, status, "request {n}, {input:?}");
        match (status, head) {
            (_, true) => assert_eq!(response.field("content-length"), Some("300000"), "request {n}"),
            (206, _) => assert!(response.body == big[big.len() - 5..], "request {n}"),
            (200, _) if input.contains("big") => assert!(response.body == big, "request {n}"),
            (200, _) if input.contains("a.txt") => assert_eq!(response.body, b"hello\n", "request {n}"),
            _ => {}
        }
    }
    writing.join().expect("all was sent");
    assert_eq!(reader.get("/a.txt").body, b"hello\n");
}

#[test]
fn does_not_answer_an_incomplete_request() {
    let server = site().start();
    let body = get("/a.txt", "Content-Length: 5\r\n") + "hell";
    let chunks = get("/a.txt", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n";
    for (input, answered) in [
        (String::new(), 0),
        ("\r\n".to_owned(), 0),
        ("G".to_owned(), 0),
        ("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n".to_owned(), 0),
        (body.clone(), 0),
        (chunks, 0),
        (get("/a.txt", "") + "GET /a", 1),
        (get("/big.bin", "") + &body, 1),
    ] {
        let mut client = server.connect();
        client.send(&input);
        client.half_close();
        for _ in 0..answered {
            assert_eq!(client.read_response().status, 200, "{input:?}");
        }
        // RFC 9112 §8: an error, or no response.
        match client.try_read_response() {
            Ok(response) => assert_eq!(response.status, 400, "{input:?}"),
            Err(why) => assert!(matches!(why, ReadError::Closed { after: 0 }), "{input:?}: {why}"),
        }
        assert!(client.is_finished(), "{input:?}");
    }
}

#[test]
fn connections_of_one_worker_do_not_mix_their_bytes() {
    const CLIENTS: usize = 60;
    let files: Vec<Vec<u8>> =
        (0..CLIENTS).map(|n| e2e::Random::new(n as u64).bytes(100 + 3000 * n)).collect();
    let site = files
        .iter()
        .enumerate()
        .fold(site().config("workers = 1"), |site, (n, content)| site.file(&format!("file-{n}"), content));
    let server = site.start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let mut random = e2e::Random::new(4);
    for round in 0..4 {
        // All connections at once, each in pieces, in random order.
        let mut unsent: Vec<(usize, Vec<u8>)> = (0..CLIENTS)
            .map(|n| {
                let body = "x".repeat(n);
                let sized =
                    request("HEAD", &format!("/file-{n}"), &format!("Content-Length: {n}\r\n")) + &body;
                (
                    n,
                    (sized + &get(&format!("/file-{n}"), &format!("X: {}\r\n", "y".repeat(round * 50))))
                        .into_bytes(),
                )
            })
            .collect();
        while !unsent.is_empty() {
            let which = random.below(unsent.len() as u64) as usize;
            let (n, bytes) = &mut unsent[which];
            let count = (1 + random.below(60) as usize).min(bytes.len());
            clients[*n].send(&bytes[..count]);
            bytes.drain(..count);
            if bytes.is_empty() {
                unsent.swap_remove(which);
            }
        }
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.read_response_to_head().status, 200, "connection {n}");
            assert!(client.read_response().body == files[n], "connection {n}");
        }
    }
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    const ANSWERS: usize = 100;
    let big = e2e::Random::new(1).bytes(300_000);
    let server = site().config("workers = 1").start();
    let mut blocked = server.connect();
    let pair = get("/big.bin", "") + &get("/a.txt", "");
    blocked.send(pair.repeat(ANSWERS));
    let mut other = server.connect();
    let first = other.get("/a.txt").field("date").expect("it has a clock").to_owned();
    let begin = Instant::now();
    // Until the next second, so that the waiting response is older than those of other clients.
    while other.get("/a.txt").field("date") == Some(&first) {
        assert!(begin.elapsed() < TIMEOUT, "Date stands still");
    }
    assert!(other.get("/big.bin").body == big);
    for n in 0..ANSWERS {
        assert!(blocked.read_response().body == big, "response {n}");
        assert_eq!(blocked.read_response().body, b"hello\n", "response {n}");
    }
}

#[test]
fn a_client_that_disconnects_midway_disturbs_no_other() {
    let server = site().config("workers = 1").start();
    for n in 0..200 {
        let mut client = server.connect();
        match n % 4 {
            0 => _ = client.send(get("/big.bin", "").repeat(20)),
            1 => _ = client.send("GET /a.txt HT"),
            2 => _ = client.send(request("POST", "/a.txt", "Content-Length: 10\r\n") + "hell"),
            _ => assert_eq!(client.get("/dir/").status, 200),
        }
    }
    assert_eq!(server.get("/a.txt").body, b"hello\n");
}

#[test]
fn responses_do_not_depend_on_how_requests_are_split() {
    let server = site().start();
    let pipeline = [
        "\r\n".to_owned(),
        get("/a.txt", ""),
        request("OPTIONS", "/a.txt", "Content-Length: 7\r\n") + "G\r\n\r\nxy",
        request("HEAD", "/a.txt", ""),
        get("/a.txt?\u{e4}=\"<b>\"", "Transfer-Encoding: chunked\r\n")
            + "3;a=\"b\"\r\nabc\r\n0\r\nT: x\r\n\r\n",
        get("/%6eone", "If-None-Match: \"a\", W/\"b\"\r\n"),
        get("http://localhost/a.txt", "Range: bytes=1-2, -1\r\n"),
        get("/dir?\u{e4}", ""),
        get("/a.txt", "Transfer-Encoding: chunked\r\n") + "1\r\nx\r\nZ",
    ]
    .concat();
    let responses = |cut: &[usize]| {
        let mut client = server.connect();
        let mut from = 0;
        for &at in cut.iter().chain([&pipeline.len()]) {
            if client.try_send(&pipeline.as_bytes()[from..at]).is_err() {
                break;
            }
            from = at;
        }
        timeless(&client.read_to_end())
    };
    let whole = responses(&[]);
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 8, "{whole}");
    assert!(whole.contains("HTTP/1.1 400 "), "{whole}");
    for at in 1..pipeline.len() {
        assert_eq!(responses(&[at]), whole, "cut at {at}");
    }
    let everywhere: Vec<usize> = (1..pipeline.len()).collect();
    assert_eq!(responses(&everywhere), whole, "cut everywhere");
    let mut random = e2e::Random::new(3);
    for _ in 0..50 {
        let mut cuts: Vec<usize> = (0..5).map(|_| random.below(pipeline.len() as u64) as usize).collect();
        cuts.sort_unstable();
        assert_eq!(responses(&cuts), whole, "cut at {cuts:?}");
    }
}

/// Removes dates and boundaries; the rest of a response is deterministic.
fn timeless(responses: &[u8]) -> String {
    let text = String::from_utf8_lossy(responses).into_owned();
    let boundary = text.split_once("boundary=").and_then(|(_, rest)| rest.split_once("\r\n"));
    let boundary = boundary.map_or("no boundary", |(boundary, _)| boundary).to_owned();
    let lines = text.split("\r\n").filter(|line| !line.starts_with("Date: "));
    lines.map(|line| line.replace(&boundary, "B")).collect::<Vec<_>>().join("\r\n")
}

#[test]
fn a_unix_socket_behaves_like_tcp() {
    let home = e2e::Folder::new();
    let socket = home.path().join("taipan.sock");
    let server = plain_site().config(&format!("listen = [\"unix:{}\"]", socket.display())).start();
    assert_eq!(server.addresses(), [e2e::Address::Unix(socket)]);
    check(
        &server,
        &[
            ("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 open"),
            ("HEAD /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n", "200h open"),
            ("GET /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 open"),
            ("GET /a.txt HTTP/1.0\r\n\r\n", "200 closed"),
            ("rubbish\r\n\r\n", "400 closed"),
        ],
    );
    let mut client = server.connect();
    let responses: Vec<Response> = (0..100).map(|_| client.get("/big.bin")).collect();
    assert!(responses.iter().all(|r| r.body.len() == 300_000));
}

#[test]
fn frames_a_listing_for_the_version_of_the_client() {
    let server = site().start();
    let new = server.get("/dir/");
    assert!(new.has("content-length") != new.has("transfer-encoding"), "{new}");
    let mut client = server.connect();
    client.send("GET /dir/ HTTP/1.0\r\n\r\n");
    let old = client.read_response();
    assert!(!old.has("transfer-encoding"), "{old}");
    assert_eq!(old.body, new.body);
}

#[test]
fn the_response_parser_of_these_tests_is_strict() {
    for bad in [
        "5\nhello\n0\n\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
    ] {
        assert!(!matches!(chunked(bad.as_bytes()), Ok(Some(_))), "{bad:?}");
    }
    let (body, trailers, used) = chunked(b"5\r\nhello\r\n0\r\nA: b\r\n\r\nrest").unwrap().unwrap();
    assert_eq!((&*body, trailers.len(), used), (&b"hello"[..], 1, 21));
    for bad in [
        "HTTP/1.1 200\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
    ] {
        assert!(Response::parse_head(bad.as_bytes()).is_err(), "{bad:?}");
    }
    assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(date(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT");
}

/// The client sends more than the server reads at once, so that unread bytes remain when the server closes. If the
/// server did not send its FIN first, the kernel would drop what it still has of the response (RFC 9112 §9.6).
#[test]
fn a_client_that_sends_more_behind_its_last_request_gets_the_response() {
    for config in ["", "[cache]\nentries = 0"] {
        let site = plain_site().file("medium.bin", e2e::Random::new(2).bytes(65_536));
        let server = site.config(config).start();
        let mut rows = Rows::new();
        for (path, length) in [("/a.txt", 6), ("/empty", 0), ("/medium.bin", 65_536), ("/none", 0)] {
            for _ in 0..5 {
                let mut input = get(path, "Connection: close\r\n").into_bytes();
                input.resize(48 * 1024, b'x');
                let mut client = server.connect();
                client.send(input);
                let response = client.try_read_response().expect("all of it");
                let status = if path == "/none" { 404 } else { 200 };
                rows.check(path, response.status, status);
                rows.holds(path, "the whole content", status == 404 || response.body.len() == length);
                rows.holds(path, "the connection ends", client.is_closed());
            }
        }
    }
}
