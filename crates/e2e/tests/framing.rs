//! Requests that two parsers could read in two ways are rejected with 400 and a close: nothing is repaired,
//! and nothing after them is answered. And no path escapes the root.

use e2e::{Rows, Server, Site};

const SECRET: &str = "the secret beside the root";
/// The request that an attacker tries to smuggle.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
const SMUGGLED_CONTENT: &str = "what was smuggled";

fn site() -> Site {
    Site::new()
        .every_protocol()
        .file("index.html", "index\n")
        .file("a.txt", "hello\n")
        .file("a/b.txt", "deep\n")
        .file("smuggled", SMUGGLED_CONTENT)
        .file_beside_root("secret", SECRET)
        .file_beside_root("www-secret/secret", SECRET)
}

/// Expects exactly one response, an error, and then the end.
fn refused(server: &Server, table: &mut Rows, input: impl AsRef<[u8]>, status: u16) {
    let input = [input.as_ref(), SMUGGLED.as_bytes()].concat();
    let mut client = server.connect();
    // The server need not read all of a request that it rejects.
    _ = client.try_send(&input);
    let first = match client.try_read_response() {
        Ok(response) => response,
        Err(why) => return table.check(&input, format!("no answer: {why}"), format!("{status}")),
    };
    table.check(&input, (first.status, first.field("connection")), (status, Some("close")));
    table.holds(&input, "one answer, then the connection closes", client.is_finished());
    table.holds(&input, "nothing is smuggled", !first.text().contains(SMUGGLED_CONTENT));
}

fn post(lines: &str, body: &str) -> String {
    format!("POST /a.txt HTTP/1.1\r\nHost: h\r\n{lines}\r\n{body}")
}

#[test]
fn rejects_an_ambiguous_length() {
    let server = site().start();
    let mut table = Rows::new();
    for lines in [
        // Two lengths.
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 0\r\ncontent-length: 5\r\n",
        "Content-Length: 5\r\nX: y\r\nContent-Length: 0\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5,6\r\n",
        "Content-Length: 5,\r\n",
        // Not a number of digits.
        "Content-Length:\r\n",
        "Content-Length: \t\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: -0\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 5\t5\r\n",
        "Content-Length: 5.0\r\n",
        "Content-Length: 5e0\r\n",
        "Content-Length: 5;x\r\n",
        "Content-Length: \"5\"\r\n",
        "Content-Length: five\r\n",
        "Content-Length: \u{0b}5\r\n",
        "Content-Length: 5\u{0c}\r\n",
        "Content-Length: 5\u{a0}\r\n",
        "Content-Length: \u{665}\r\n",
        "Content-Length: 05\r\n",
        "Content-Length: 00\r\n",
        "Content-Length: 0000000000000000005\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 18446744073709551621\r\n",
        "Content-Length: 99999999999999999999999999\r\n",
        // Length with coding.
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: x\r\nContent-Length: 5\r\n",
        "Transfer-Encoding:\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nConnection: Content-Length\r\nTransfer-Encoding: chunked\r\n",
        // Codings that are not exactly `chunked`.
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: ,\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunkedx\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: , chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: 'chunked'\r\n",
        "Transfer-Encoding: chun ked\r\n",
        "Transfer-Encoding: gzip chunked\r\n",
        "Transfer-Encoding: \u{0b}chunked\r\n",
        "Transfer-Encoding: chunked\u{0b}\r\n",
        "Transfer-Encoding: chunked\0\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        // Names that some readers take for these.
        "Content-Length : 5\r\n",
        "Content-Length\t: 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "\tContent-Length: 5\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding\r\n: chunked\r\n",
        "Transfer-Encoding\0: chunked\r\n",
        "Content-Length\u{0b}: 5\r\n",
        "\u{feff}Content-Length: 5\r\n",
        "\"Content-Length\": 5\r\n",
        "Content Length: 5\r\n",
    ] {
        refused(&server, &mut table, post(lines, "0\r\n\r\n"), 400);
        refused(&server, &mut table, format!("GET /a.txt HTTP/1.1\r\n{lines}Host: h\r\n\r\n0\r\n\r\n"), 400);
    }
    for lines in
        ["Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n"]
    {
        // RFC 9112 §6.1: an unknown coding.
        refused(&server, &mut table, post(lines, "0\r\n\r\n"), 501);
    }
    // Other names, which have no effect on framing.
    for lines in [
        "Content_Length: 5\r\n",
        "Transfer_Encoding: chunked\r\n",
        "Content-Length_: 5\r\n",
        "TE: chunked\r\n",
    ] {
        let input = post(lines, SMUGGLED);
        table.check(&input, server.exchange(&input, "").summary.as_str(), "405 200 open");
    }
}

#[test]
fn rejects_a_transfer_coding_in_http_1_0() {
    let server = site().start();
    let mut table = Rows::new();
    for fields in [
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
        "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        for method in ["GET", "POST"] {
            let input = format!("{method} /a.txt HTTP/1.0\r\n{fields}\r\n0\r\n\r\n");
            refused(&server, &mut table, input, 400);
        }
    }
}

#[test]
fn accepts_only_lines_that_end_with_crlf() {
    let server = site().start();
    let mut table = Rows::new();
    for input in [
        "GET /a.txt HTTP/1.1\nHost: h\n\n",
        "GET /a.txt HTTP/1.1\nHost: h\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\n\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\n\n",
        "GET /a.txt HTTP/1.1\rHost: h\r\r",
        "GET /a.txt HTTP/1.1\r\rHost: h\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: y\rContent-Length: 5\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: y\nContent-Length: 5\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\n\rX: y\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: \r\r\n\r\n",
        "\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "\rGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\n\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\n\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        refused(&server, &mut table, input, 400);
    }
}

#[test]
fn rejects_an_ambiguous_request_line() {
    let server = site().start();
    let mut table = Rows::new();
    for line in [
        " GET /a.txt HTTP/1.1",
        "\tGET /a.txt HTTP/1.1",
        "GET  /a.txt HTTP/1.1",
        "GET /a.txt  HTTP/1.1",
        "GET /a.txt HTTP/1.1 ",
        "GET\t/a.txt\tHTTP/1.1",
        "GET\u{0b}/a.txt HTTP/1.1",
        "GET /a.txt\u{a0}HTTP/1.1",
        "GET /a b.txt HTTP/1.1",
        "GET /a.txt",
        "GET",
        "GET ",
        "GET HTTP/1.1",
        "/a.txt HTTP/1.1",
        "GET /a.txt http/1.1",
        "GET /a.txt Http/1.1",
        "GET /a.txt HTTP/1",
        "GET /a.txt HTTP/1.",
        "GET /a.txt HTTP/.1",
        "GET /a.txt HTTP/1.10",
        "GET /a.txt HTTP/01.1",
        "GET /a.txt HTTP/1,1",
        "GET /a.txt HTTP/+1.1",
        "GET /a.txt HTTP /1.1",
        "GET /a.txt HTTP/1.1x",
        "GET /a.txt HTTPS/1.1",
        "GET /a.txt ICY/1.1",
        "GET /a.txt HTTP/1.1, HTTP/1.1",
        "G(T /a.txt HTTP/1.1",
        "G\0T /a.txt HTTP/1.1",
        "G\u{e9}T /a.txt HTTP/1.1",
        "\"GET\" /a.txt HTTP/1.1",
        "GET: /a.txt HTTP/1.1",
        "GET /a.txt\0 HTTP/1.1",
        "GET /a.txt#x HTTP/1.1",
        "GET /\"a HTTP/1.1",
        "GET /<a> HTTP/1.1",
        "GET /<\u{e9}>?x HTTP/1.1",
        "GET /?#\u{e9} HTTP/1.1",
        "GET /?\u{e9} \u{e9} HTTP/1.1",
        "GET /?\u{e9}\0 HTTP/1.1",
        "GET \u{e9} HTTP/1.1",
        "GET http://h\u{e9}/ HTTP/1.1",
        "GET http://h\u{e9}/\u{e9} HTTP/1.1",
        "GET /a\u{7f} HTTP/1.1",
        "GET /\u{1b}[31m HTTP/1.1",
        "GET a.txt HTTP/1.1",
        "GET ../a.txt HTTP/1.1",
        "GET \\a.txt HTTP/1.1",
        "GET ?x HTTP/1.1",
        "GET * HTTP/1.1",
        "GET http:/a.txt HTTP/1.1",
        "GET http:a.txt HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET file:///a.txt HTTP/1.1",
        "GET javascript:x HTTP/1.1",
        "CONNECT http://h/ HTTP/1.1",
        "SSH-2.0-OpenSSH_9.6",
        "{\"json\": true}",
    ] {
        refused(&server, &mut table, format!("{line}\r\nHost: h\r\n\r\n"), 400);
    }
}

#[test]
fn rejects_malformed_field_lines() {
    let server = site().start();
    let mut table = Rows::new();
    for line in [
        ": x",
        "X",
        "X y",
        "X : y",
        "X\t: y",
        " X: y",
        "\tX: y",
        "X: y\r\n z",
        "X: y\r\n\tz",
        "X: y\r\n ",
        "X\0: y",
        "X\u{7f}: y",
        "X\u{1}: y",
        "(X): y",
        "X/Y: z",
        "X=Y: z",
        "X,Y: z",
        "X;Y: z",
        "X@Y: z",
        "X[0]: z",
        "X{Y}: z",
        "X\\Y: z",
        "\"X\": y",
        "\u{e9}: y",
        "X: \0",
        "X: y\0",
        "X: \u{1}",
        "X: \u{8}",
        "X: \u{b}",
        "X: \u{c}",
        "X: \u{1b}[31m",
        "X: \u{7f}",
    ] {
        for input in [
            format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n"),
            format!("GET /a.txt HTTP/1.1\r\n{line}\r\nHost: h\r\n\r\n"),
        ] {
            refused(&server, &mut table, input, 400);
        }
    }
    for line in [
        "X:",
        "X: ",
        "X:y",
        "X: \t y \t",
        "!#$%&'*+-.^_`|~9: y",
        "X: \u{e9}",
        "X: \"(),/:;<=>?@[\\]{}",
        "X: a\tb",
    ] {
        let input = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n{SMUGGLED}");
        table.check(&input, server.exchange(&input, "").summary.as_str(), "200 200 open");
    }
}

#[test]
fn rejects_malformed_chunked_bodies() {
    let server = site().start();
    let mut table = Rows::new();
    for body in [
        // Sizes.
        "\r\n",
        "x\r\n",
        "g\r\nx\r\n0\r\n\r\n",
        " 1\r\nx\r\n0\r\n\r\n",
        "\t1\r\nx\r\n0\r\n\r\n",
        "1 \r\nx\r\n0\r\n\r\n",
        "1\t\r\nx\r\n0\r\n\r\n",
        "1 1\r\nx\r\n0\r\n\r\n",
        "+1\r\nx\r\n0\r\n\r\n",
        "-1\r\nx\r\n0\r\n\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        "1h\r\nx\r\n0\r\n\r\n",
        "1,1\r\nx\r\n0\r\n\r\n",
        "1_0\r\nx\r\n0\r\n\r\n",
        "1.0\r\nx\r\n0\r\n\r\n",
        "\"1\"\r\nx\r\n0\r\n\r\n",
        "1\0\r\nx\r\n0\r\n\r\n",
        "\u{ff11}\r\nx\r\n0\r\n\r\n",
        "10000000000000001\r\nx\r\n0\r\n\r\n",
        "00000000000000001\r\nx\r\n0\r\n\r\n",
        // Line ends.
        "1\nx\r\n0\r\n\r\n",
        "1\rx\r\n0\r\n\r\n",
        "1\r\rx\r\n0\r\n\r\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nx\r0\r\n\r\n",
        "1\r\nx0\r\n\r\n",
        "1\r\nxy\r\n0\r\n\r\n",
        "2\r\nx\r\n0\r\n\r\n",
        "1\r\nx \r\n0\r\n\r\n",
        "1\r\nx\r\n\r\n0\r\n\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\n\r\n",
        "0\r\r\n\r\n",
        // Extensions.
        "1;\r\nx\r\n0\r\n\r\n",
        "1;;\r\nx\r\n0\r\n\r\n",
        "1;=\r\nx\r\n0\r\n\r\n",
        "1;=b\r\nx\r\n0\r\n\r\n",
        "1;a=\r\nx\r\n0\r\n\r\n",
        "1;a b\r\nx\r\n0\r\n\r\n",
        "1;a=b c\r\nx\r\n0\r\n\r\n",
        "1;a=\"b\r\nx\r\n0\r\n\r\n",
        "1;a=\"b\"c\r\nx\r\n0\r\n\r\n",
        "1;a=\"b\r\nc\"\r\nx\r\n0\r\n\r\n",
        "1;a\nx\r\n0\r\n\r\n",
        "1;a\rx\r\n0\r\n\r\n",
        "1;\n\r\nx\r\n0\r\n\r\n",
        "1;a=\0\r\nx\r\n0\r\n\r\n",
        "1;\u{e9}\r\nx\r\n0\r\n\r\n",
        "1;a,b\r\nx\r\n0\r\n\r\n",
        "0;\r\n\r\n",
        // Trailers.
        "0\r\nX\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX: y\r\n\n",
        "0\r\nX: y\rZ: z\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    ] {
        for line in ["POST /a.txt HTTP/1.1", "GET /a.txt HTTP/1.1"] {
            let input = format!("{line}\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            refused(&server, &mut table, input, 400);
        }
    }
    let long_extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(100_000));
    let many_extensions = "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n".repeat(1000) + "0\r\n\r\n";
    let many_trailers = format!("0\r\n{}\r\n", "X: yyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(10_000));
    for body in [long_extension, many_extensions, many_trailers] {
        let input = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let status = server.request(&input).status;
        table.holds(&input, "refused without end", matches!(status, 400 | 413 | 431));
    }
}

#[test]
fn answers_requests_before_a_rejected_one() {
    let server = site().start();
    let mut table = Rows::new();
    let good = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    for bad in [
        "rubbish\r\n\r\n",
        "\0\0\0\0",
        "\r\n\r\n\r\n\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        "POST /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "GET /../secret HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        let input = format!("{good}{bad}{SMUGGLED}");
        table.check(&input, server.exchange(&input, "").summary.as_str(), "200 400 closed");
        let input = format!("{good}{good}{good}{bad}{SMUGGLED}");
        table.check(&input, server.exchange(&input, "").summary.as_str(), "200 200 200 400 closed");
    }
}

#[test]
fn ignores_an_upgrade() {
    let server = site().start();
    let mut table = Rows::new();
    for fields in [
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
        "Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n",
    ] {
        let input = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{fields}\r\n{SMUGGLED}");
        let exchange = server.exchange(&input, "");
        table.check(&input, exchange.summary.as_str(), "200 200 open");
        table.holds(&input, "nothing is upgraded", exchange.responses.iter().all(|r| !r.has("upgrade")));
    }
}

/// Requests each path. The file `secret` beside the root is never sent.
fn check_paths(site: Site, rows: &[(&str, &str)]) {
    let server = site.start();
    let mut table = Rows::new();
    for (path, expected) in rows {
        let input = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let exchange = server.exchange(&input, expected);
        table.check(&input, exchange.summary.as_str(), *expected);
        table.holds(
            &input,
            "the secret is not sent",
            exchange.responses.iter().all(|r| !r.text().contains(SECRET)),
        );
    }
}

#[test]
fn no_path_leads_above_the_root() {
    let site = site();
    let absolute = site.home().join("secret").display().to_string();
    let encoded: String = absolute.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let rows = [
        // Plain dots.
        ("/..", "400 closed"),
        ("/../", "400 closed"),
        ("/../secret", "400 closed"),
        ("/../www-secret/secret", "400 closed"),
        ("/../www/a.txt", "400 closed"),
        ("/a/../../secret", "400 closed"),
        ("/a/b.txt/../../../secret", "400 closed"),
        ("/./../secret", "400 closed"),
        ("//../secret", "400 closed"),
        ("/a/..//../secret", "400 closed"),
        ("/../../../../../../../../etc/passwd", "400 closed"),
        ("/a/../..", "400 closed"),
        ("/..?x", "400 closed"),
        ("http://h/../secret", "400 closed"),
        ("http://h/%2e%2e/secret", "400 closed"),
        ("http://h/a/../../secret", "400 closed"),
        // Encoded dots.
        ("/%2e%2e/secret", "400 closed"),
        ("/%2E%2E/secret", "400 closed"),
        ("/.%2e/secret", "400 closed"),
        ("/%2e./secret", "400 closed"),
        ("/a/%2e%2e/%2e%2e/secret", "400 closed"),
        // Encoded slashes.
        ("/..%2fsecret", "400 closed"),
        ("/..%2Fsecret", "400 closed"),
        ("/%2e%2e%2fsecret", "400 closed"),
        ("/a%2f..%2f..%2fsecret", "400 closed"),
        ("/a%2fb.txt", "400 closed"),
        ("/%2fetc%2fpasswd", "400 closed"),
        (&format!("/{encoded}"), "400 closed"),
        // Backslashes.
        ("/..\\secret", "400 closed"),
        ("/..%5csecret", "400 closed"),
        ("/..%5Csecret", "400 closed"),
        ("/a\\..\\..\\secret", "400 closed"),
        ("/a%5cb.txt", "400 closed"),
        ("/\\..\\secret", "400 closed"),
    ];
    check_paths(site, &rows);
}

#[test]
fn a_path_is_decoded_once_and_to_nothing_else_than_its_bytes() {
    let rows = [
        // Twice encoded.
        ("/%252e%252e/secret", "404 open"),
        ("/%252e%252e%252fsecret", "404 open"),
        ("/..%252fsecret", "404 open"),
        ("/..%255csecret", "404 open"),
        ("/%25%32%65%25%32%65/secret", "404 open"),
        ("/%2525252e%2525252e/secret", "404 open"),
        // Overlong forms, and other bytes that are not UTF-8, are letters of a name.
        ("/%c0%ae%c0%ae/secret", "404 open"),
        ("/..%c0%afsecret", "404 open"),
        ("/..%c1%9csecret", "404 open"),
        ("/%e0%80%ae%e0%80%ae/secret", "404 open"),
        ("/%f0%80%80%ae%f0%80%80%ae/secret", "404 open"),
        ("/%fe%fe/secret", "404 open"),
        ("/%ff", "404 open"),
        ("/%ed%a0%80", "404 open"),
        // Malformed.
        ("/%u002e%u002e/secret", "400 closed"),
        ("/%%32%65%%32%65/secret", "400 closed"),
        ("/%", "400 closed"),
        ("/%2", "400 closed"),
        ("/%zz", "400 closed"),
        ("/a.txt%", "400 closed"),
        // NUL and other controls.
        ("/a.txt%00", "400 closed"),
        ("/a.txt%00.jpg", "400 closed"),
        ("/%00/../secret", "400 closed"),
        ("/../secret%00.txt", "400 closed"),
        ("/a.txt%0a", "400 closed"),
        ("/%0d%0aSet-Cookie:%20x=y", "400 closed"),
        ("/%1b[31m", "400 closed"),
        ("/%7f", "400 closed"),
        ("/%c2%85", "400 closed"),
        // The same without the encoding.
        ("/\u{85}", "400 closed"),
        ("/a.txt\u{9b}", "400 closed"),
        ("/..\u{2215}secret", "404 open"),
        ("/\u{ff0e}\u{ff0e}/secret", "404 open"),
        ("/\u{2025}/secret", "404 open"),
        ("/\u{e9}/../../secret", "400 closed"),
        ("/a/\u{e9}/../b.txt", "200 open"),
        ("/\u{e9}%2f..%2fsecret", "400 closed"),
        ("/a.txt?\u{e9}\"<>", "200 open"),
        // Lookalike characters, and dots that are none.
        ("/\u{2e}\u{2e}./secret", "404 open"),
        ("/%ef%bc%8e%ef%bc%8e/secret", "404 open"),
        ("/%e2%80%a5/secret", "404 open"),
        ("/..;/secret", "404 open"),
        ("/..%3b/secret", "404 open"),
        ("/.../secret", "404 open"),
        ("/..%20/secret", "404 open"),
        ("/a/..a/secret", "404 open"),
    ];
    check_paths(site(), &rows);
}

#[test]
fn a_path_that_stays_below_the_root_begins_there() {
    let site = site();
    let absolute = site.home().join("secret").display().to_string();
    let rows = [
        // Those of other places.
        (absolute.as_str(), "404 open"),
        (&format!("/{absolute}"), "404 open"),
        ("/etc/passwd", "404 open"),
        ("/~root/", "404 open"),
        ("/C:/secret", "404 open"),
        ("/file:/etc/passwd", "404 open"),
        // A file is no folder.
        ("/a.txt/../a.txt/x", "404 open"),
        ("/a.txt/", "404 open"),
        // Paths that stay below the root.
        ("/a/../a.txt", "200 open"),
        ("/a/./b.txt", "200 open"),
        ("//a//b.txt", "200 open"),
        ("/%61.txt", "200 open"),
        ("/a/b/../../a.txt", "200 open"),
        ("/?/../../secret", "200 open"),
        ("/a.txt?x=../../secret%00%2f", "200 open"),
        ("/a/..", "200 open"),
        ("/a/%2e%2e/", "200 open"),
    ];
    check_paths(site, &rows);
}

#[test]
fn follows_links_only_when_allowed() {
    let links = |site: Site| {
        let secret = site.home().join("secret");
        let home = site.home().to_owned();
        site.symlink("out", secret)
            .symlink("up", "../secret")
            .symlink("folder", &home)
            .symlink("in", "a/b.txt")
            .symlink("through", "a/../a/b.txt")
            .symlink("loop", "loop")
            .symlink("gone", "nothing")
    };
    let ways = ["/out", "/up", "/folder/secret", "/in", "/through", "/loop", "/gone", "/out/", "/a/../out"];
    for (config, expected) in [
        ("symlinks = \"beneath\"", ["no", "no", "no", "yes", "yes", "no", "no", "no", "no"]),
        ("symlinks = \"never\"", ["no", "no", "no", "no", "no", "no", "no", "no", "no"]),
        ("symlinks = \"follow\"", ["yes", "yes", "yes", "yes", "yes", "no", "no", "no", "yes"]),
    ] {
        let server = links(site()).config(config).start();
        let mut table = Rows::new();
        for (path, expected) in ways.into_iter().zip(expected) {
            let response = server.get(path);
            let found = match response.status {
                200 => "yes",
                403 | 404 => "no",
                _ => "neither",
            };
            table.check(format!("{config} {path}"), found, expected);
        }
    }
}
