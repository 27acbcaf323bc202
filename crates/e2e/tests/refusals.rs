//! Rejected requests: the error page and the log; and targets that are accepted though no URI allows them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use e2e::{Rows, Site, TIMEOUT, path_of};
use serde_json::Value;

/// With one worker, so that lines come in the order of requests.
fn site(format: &str) -> Site {
    Site::new().file("a.txt", "hello\n").config(&format!(
        "workers = 1\n[log]\naccess = \"stdout\"\nformat = \"{format}\"\n[limits]\nbody = 1000"
    ))
}

#[test]
fn rejections_name_the_rule_on_the_page_and_in_the_log() {
    let get = |line: &str| format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{line}\r\n");
    let path = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let chunked = |body: &str| get("Transfer-Encoding: chunked\r\n") + body;
    let table = [
        ("\x16\x03\x01\x02\0\x01\0".to_owned(), 400, "tls"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505, "http2"),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), 505, "version"),
        ("GET / HTP/1.1\r\n\r\n".to_owned(), 400, "version-syntax"),
        ("GET /\r\n\r\n".to_owned(), 400, "request-line"),
        ("\u{1}\u{2}\u{3}".to_owned(), 400, "method"),
        (format!("{} / HTTP/1.1\r\n\r\n", "A".repeat(40)), 501, "method-too-long"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400, "host-missing"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), 400, "host-twice"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(), 400, "host-invalid"),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), 400, "bare-lf"),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n".to_owned(), 400, "bare-cr"),
        (get("X : y\r\n"), 400, "field-space"),
        (get("X: y\r\n z\r\n"), 400, "field-folded"),
        (get("X\r\n"), 400, "field-name"),
        (get("X: \0\r\n"), 400, "field-value"),
        (get(&"X: y\r\n".repeat(200)), 431, "too-many-fields"),
        (get(&format!("X: {}\r\n", "y".repeat(20_000))), 431, "head-too-large"),
        (path(&format!("/{}", "x".repeat(9000))), 414, "target-too-long"),
        (path("a.txt"), 400, "target-form"),
        (path("/a#b"), 400, "target-byte"),
        (path("/\"a\""), 400, "target-byte"),
        (path("ftp://h/"), 400, "target-scheme"),
        (path("http://u@h/"), 400, "target-user"),
        (path("http://h:99999/"), 400, "target-host"),
        (path("/%2f"), 400, "path-slash"),
        (path("/%5c"), 400, "path-backslash"),
        (path("/%00"), 400, "path-control"),
        (path("/%zz"), 400, "path-escape"),
        (path("/../x"), 400, "path-above-root"),
        (get("Expect: x\r\n"), 417, "expectation"),
        (get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, "length-and-coding"),
        (get("Content-Length: 5\r\nContent-Length: 5\r\n"), 400, "length-twice"),
        (get("Content-Length: five\r\n"), 400, "length-syntax"),
        (get("Content-Length: 05\r\n"), 400, "length-zeros"),
        (get("Content-Length: 99999999999999999999\r\n"), 400, "length-too-large"),
        (get("Content-Length: 1001\r\n"), 413, "body-too-large"),
        (get("Transfer-Encoding: gzip, chunked\r\n"), 501, "coding-unknown"),
        (get("Transfer-Encoding: gzip\r\n"), 400, "chunked-not-last"),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400, "coding-on-http10"),
        (chunked("x\r\n"), 400, "chunk-size"),
        (chunked("1\r\nabc\r\n"), 400, "chunk-data"),
        (chunked("3e9\r\n"), 413, "body-too-large"),
        (chunked("0\r\nX\r\n\r\n"), 400, "trailer"),
    ];
    let (combined, json) = (site("combined").start(), site("json").start());
    let mut rows = Rows::new();
    for (input, status, token) in &table {
        for server in [&combined, &json] {
            let response = server.request(input);
            rows.check(input, response.status, *status);
            rows.check(input, response.field("connection"), Some("close"));
            let page = response.text();
            let named = format!("<p><code>{token}</code></p>");
            rows.holds(input, &format!("{named} is on the page: {page}"), page.contains(&named));
        }
    }
    let of_json = json.wait_for_lines(table.len());
    for ((at, (input, status, token)), line) in
        table.iter().enumerate().zip(combined.wait_for_lines(table.len()))
    {
        let page = combined.request(input).text();
        let (before, _) = page.split_once(".</p>\n<p><code>").expect("there is a sentence");
        let sentence = before.rsplit_once("<p>").expect("it begins").1;
        let why = format!("{token}: {}{}", sentence[..1].to_ascii_lowercase(), &sentence[1..]);
        rows.holds(
            input,
            &format!("{line} ends with {why}"),
            line.to_ascii_lowercase().ends_with(&format!(" \"{}\"", why.to_ascii_lowercase())),
        );
        let object: Value =
            serde_json::from_str(&of_json[at]).unwrap_or_else(|e| panic!("{e}: {}", of_json[at]));
        rows.check(input, object["status"].as_u64(), Some((*status).into()));
        let found = object["why"].as_str().unwrap_or_default().to_ascii_lowercase();
        rows.check(input, found, why.to_ascii_lowercase());
        rows.check(input, &object["ended"], &Value::Null);
    }
    // A successful request has broken no rule.
    json.get("/a.txt");
    let line: Value =
        serde_json::from_str(&json.wait_for_lines(table.len() + 1)[table.len()]).expect("it is JSON");
    rows.check("/a.txt", &line["why"], &Value::Null);
}

#[test]
fn rejected_uploads_name_the_rule_on_the_page_and_in_the_log() {
    let server = site("json")
        .config("[[route]]\npath = \"/\"\npublish = \"webdav\"\npublish_anonymous = true")
        .start();
    let table = [
        ("PUT", "Content-Range: bytes 0-0/4\r\nContent-Length: 1\r\n", 400, "content-range"),
        ("PUT", "Content-Encoding: gzip\r\nContent-Length: 1\r\n", 415, "content-encoding"),
        ("PUT", "Content-Length: 1001\r\n", 413, "body-too-large"),
        ("PUT", "Upload-Complete: ?1\r\nContent-Length: 1001\r\n", 413, "body-too-large"),
        ("PROPFIND", "Content-Length: 70000\r\n", 413, "body-too-large"),
    ];
    let mut rows = Rows::new();
    for (method, fields, status, token) in &table {
        let response = server.request(format!("{method} /a.txt HTTP/1.1\r\nHost: h\r\n{fields}\r\nx"));
        rows.check(fields, response.status, *status);
        let page = response.text();
        rows.holds(fields, &format!("{token} is on {page}"), page.contains(&format!("<code>{token}</code>")));
    }
    for ((_, fields, _, token), line) in table.iter().zip(server.wait_for_lines(table.len())) {
        let object: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let found = object["why"].as_str().unwrap_or_default();
        rows.holds(fields, &format!("{found} begins with {token}"), found.starts_with(&format!("{token}: ")));
    }
    assert_eq!(server.get("/a.txt").text(), "hello\n");
}

#[test]
fn does_not_pass_an_invalid_body_to_a_script() {
    let server = Site::new()
        .script("a.cgi", "#!/bin/sh\ncat >/dev/null\nprintf 'X: y\\n\\nran'\n")
        .config("workers = 1\n[limits]\nbody = 1000\n[log]\naccess = \"stdout\"\nformat = \"json\"")
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true")
        .start();
    let mut rows = Rows::new();
    let post = |rest: &str| format!("POST /a.cgi HTTP/1.1\r\nHost: h\r\n{rest}");
    let table = [
        (post("Transfer-Encoding: chunked\r\n\r\n3e8\r\n"), None),
        // The size is enough; the data is not sent.
        (post("Transfer-Encoding: chunked\r\n\r\n3e9\r\n"), Some((413, "body-too-large"))),
        (post("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), Some((413, "body-too-large"))),
        (post("Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n3e8\r\n"), Some((413, "body-too-large"))),
        (post("Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"), Some((400, "chunk-data"))),
        (post("Content-Length: 1001\r\n\r\n"), Some((413, "body-too-large"))),
    ];
    for (at, (input, expected)) in table.iter().enumerate() {
        let mut client = server.connect();
        client.send(input);
        let Some((status, token)) = expected else {
            client.send("x".repeat(1000) + "\r\n0\r\n\r\n");
            rows.check(input, client.read_response().text().as_str(), "ran");
            continue;
        };
        let response = client.read_response();
        rows.check(input, (response.status, response.field("connection")), (*status, Some("close")));
        rows.holds(
            input,
            "the page names the rule",
            response.text().contains(&format!("<code>{token}</code>")),
        );
        let line: Value = serde_json::from_str(&server.wait_for_lines(at + 1)[at]).expect("it is JSON");
        let why = line["why"].as_str().unwrap_or_default().to_owned();
        rows.holds(input, &format!("the log names the rule: {why}"), why.starts_with(&format!("{token}: ")));
    }
}

#[test]
fn a_body_that_the_client_does_not_complete_is_named() {
    let server = site("json")
        .file("a.txt", "hello")
        .script("a.cgi", "#!/bin/sh\ncat >/dev/null\nprintf 'X: y\\n\\nran'\n")
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true")
        .start();
    let mut rows = Rows::new();
    let requests = ["POST /a.cgi", "GET /a.txt"];
    let bodies = [
        "Content-Length: 10\r\n\r\n123",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n123",
        "Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n",
    ];
    for (at, (request, body)) in requests.iter().flat_map(|r| bodies.map(|body| (r, body))).enumerate() {
        let name = format!("{request}: {body:?}");
        let mut client = server.connect();
        client.send(format!("{request} HTTP/1.1\r\nHost: h\r\n{body}")).half_close();
        let response = client.read_response();
        rows.check(&name, (response.status, response.field("connection")), (400, Some("close")));
        rows.holds(&name, "the page names it", response.text().contains("<code>body-incomplete</code>"));
        rows.holds(&name, "the connection is closed", client.is_closed());
        let line: Value = serde_json::from_str(&server.wait_for_lines(at + 1)[at]).expect("it is JSON");
        let why = line["why"].as_str().unwrap_or_default().to_owned();
        rows.holds(&name, &format!("the log names it: {why}"), why.starts_with("body-incomplete: "));
    }
}

/// Answers one request with the request's own head.
fn echo() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, heads) = mpsc::channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
            while !head.ends_with(b"\r\n\r\n") {
                match connection.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => head.extend_from_slice(&buffer[..n]),
                }
            }
            _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(String::from_utf8_lossy(&head).into_owned()).is_err() {
                return;
            }
        }
    });
    (port, heads)
}

#[test]
fn reads_raw_characters_in_targets_as_if_encoded() {
    let (port, heads) = echo();
    let perl = path_of("perl");
    let server = Site::new()
        .file("ä b.txt", "found\n")
        .file("ä/x.txt", "in a folder\n")
        .script(
            "env.cgi",
            format!(
                "#!{perl}\nprint \"X: y\\n\\n$ENV{{REQUEST_URI}} $ENV{{QUERY_STRING}} $ENV{{PATH_INFO}} @ARGV\";\n"
            ),
        )
        .config("workers = 1\nredirects = { \"/old/\" = \"/new/$rest$query\" }\n[log]\naccess = \"stdout\"")
        .config("[scripts]\nquery_arguments = true\n[[route]]\npath = \"*.cgi\"\ncgi = true")
        .config("[[route]]\npath = \"/app/\"\napplication = \"app\"")
        .config(&format!(
            "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"127.0.0.1:{port}\""
        ))
        .start();
    let mut rows = Rows::new();
    let request = |target: &[u8]| {
        server.request([&b"GET "[..], target, b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"].concat())
    };
    let latin: &[u8] = b"\xe4";
    for (target, status, text) in [
        ("/\u{e4}%20b.txt".as_bytes(), 200, "found\n"),
        ("/\u{e4}/x.txt?\u{e4}".as_bytes(), 200, "in a folder\n"),
        ("http://h/\u{e4}/x.txt?<>".as_bytes(), 200, "in a folder\n"),
        (&[b"/\xc3\xa4/x.txt?", latin, b"\"<>"].concat(), 200, "in a folder\n"),
        // Other bytes are those of names that no file has here.
        (&[b"/", latin].concat(), 404, ""),
        (b"/\xc3", 404, ""),
        (b"/\xc0\xae\xc0\xae/", 404, ""),
        (b"/\xed\xa0\x80", 404, ""),
        (b"/\xff", 404, ""),
        // One half of the character is encoded.
        (b"/\xc3%A4/x.txt", 200, "in a folder\n"),
        (
            "/env.cgi/\u{e4}/x?q=\u{e4}\"<b>\"".as_bytes(),
            200,
            "/env.cgi/%C3%A4/x?q=%C3%A4%22%3Cb%3E%22 q=%C3%A4%22%3Cb%3E%22 /\u{e4}/x ",
        ),
        (&[b"/env.cgi?", latin, b"+\"x"].concat(), 200, "/env.cgi?%E4+%22x %E4+%22x  \u{fffd} \"x"),
    ] {
        let response = request(target);
        rows.check(target, response.status, status);
        if status == 200 {
            rows.check(target, response.text().as_str(), text);
        }
    }
    for (target, location) in [
        ("/\u{e4}?\u{e4}\"<>".as_bytes(), "/%C3%A4/?%C3%A4%22%3C%3E"),
        ("/old/\u{e4}?\u{e4}\"<>".as_bytes(), "/new/%C3%A4?%C3%A4%22%3C%3E"),
        (&[b"/old/?", latin].concat(), "/new/?%E4"),
    ] {
        rows.check(target, request(target).field("location"), Some(location));
    }
    let target = "/app/\u{e4}?\u{e4}\"<>";
    rows.check(target, request(target.as_bytes()).status, 200);
    let head = heads.recv_timeout(TIMEOUT).expect("the application gets the request");
    rows.check(target, head.lines().next(), Some("GET /app/%C3%A4?%C3%A4%22%3C%3E HTTP/1.1"));
    let log = server.wait_for_lines(16);
    rows.holds(
        &log[15],
        "the log has it encoded",
        log[15].contains("\"GET /app/%C3%A4?%C3%A4%22%3C%3E HTTP/1.1\""),
    );

    // Limits count encoded bytes; and the connection stays open after it.
    let long = format!("GET /?{} HTTP/1.1\r\nHost: h\r\n\r\n", "\u{e4}".repeat(3000));
    rows.check(&long, server.exchange(&long, "").summary.as_str(), "414 closed");
    let one = "GET /\u{e4}/x.txt?<\u{e4}> HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab";
    let three = one.repeat(3);
    rows.check(&three, server.exchange(&three, "").summary.as_str(), "200 200 200 open");
    let mut client = server.connect();
    client.dribble(one);
    rows.check(one, client.read_response().text().as_str(), "in a folder\n");
}

#[test]
fn built_in_pages_have_their_own_content_security_policy() {
    let policy = "default-src 'self'";
    let server = Site::new()
        .config(&format!(
            "listing = true\nheaders = {{ Content-Security-Policy = \"{policy}\", X-Own = \"yes\" }}"
        ))
        .file("a/x.html", "x")
        .start();
    let mut rows = Rows::new();
    rows.check("/a/x.html", server.get("/a/x.html").field("content-security-policy"), Some(policy));
    for path in ["/none", "/a", "/a/"] {
        let response = server.get(path);
        let found = response.field("content-security-policy").unwrap_or_default();
        rows.holds(
            path,
            &format!("it allows its own style alone: {found}"),
            found.starts_with("default-src 'none'; "),
        );
        rows.check(path, response.field("x-own"), Some("yes"));
    }
}
