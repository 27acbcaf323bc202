//! HTTP/1.1 upstreams that answer wrongly, or not at all: the server must not misread their bytes, least of
//! all as the next response. The peers are threads of the test.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use e2e::upstream::{read_head, read_request};
use e2e::{Rows, Server, Signal, Site, TIMEOUT, runs, signal_process, stop_process, wait_until};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// The peer's bytes for a request for `row-N`, and whether it closes then.
struct Row {
    bytes: String,
    closes: bool,
    expected: &'static str,
}

fn stays(bytes: impl Into<String>, expected: &'static str) -> Row {
    Row { bytes: bytes.into(), closes: false, expected }
}

fn closes(bytes: impl Into<String>, expected: &'static str) -> Row {
    Row { bytes: bytes.into(), closes: true, expected }
}

/// Passes everything below `/app/` to a peer, which has a thread for each connection.
fn start(
    peer: impl Fn(&mut UnixStream, usize) -> io::Result<()> + Send + Sync + 'static,
    settings: &str,
) -> Server {
    let site = Site::new().file("static", "still here");
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let peer = Arc::new(peer);
    thread::spawn(move || {
        for number in 0.. {
            let (mut stream, _) = listener.accept().expect("it listens");
            let peer = peer.clone();
            thread::spawn(move || _ = peer(&mut stream, number));
        }
    });
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"http\"\naddress = \"unix:{}\"\n{settings}\n",
        path.display()
    );
    site.config(&config).start()
}

fn get(server: &Server, name: &str) -> String {
    let mut client = server.connect();
    client.send(format!("GET /app/{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.outcome()
}

#[test]
fn parses_upstream_responses_as_rfc_9112_says() {
    let large = format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n", "x".repeat(1 << 20));
    let ok = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}");
    // Either: the server may or may not have sent a part of it.
    let rows = Arc::new(vec![
        stays(HELLO, "200 hello"),
        closes(HELLO, "200 hello"),
        stays(ok("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "200 hello"),
        stays(ok("Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-A: b\r\n\r\n"), "200 hello"),
        closes(ok("\r\nhello"), "200 hello"),
        closes("HTTP/1.0 200 OK\r\n\r\nhello", "200 hello"),
        closes("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 hello"),
        stays(format!("HTTP/1.1 100 Continue\r\n\r\n{HELLO}"), "200 hello"),
        stays(format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{HELLO}"), "103, 200 hello"),
        stays(ok("Content-Length: 0\r\n\r\n"), "200 "),
        stays("HTTP/1.1 204 No Content\r\n\r\n", "204"),
        stays("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", "304"),
        stays("HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\nhello", "205"),
        stays(
            "HTTP/1.1 205 Reset Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "205",
        ),
        closes("HTTP/1.1 205 Reset Content\r\n\r\nhello", "205"),
        stays("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", "404"),
        // An ordinary field, which only a script may not send.
        stays(ok("Status: 404\r\nContent-Length: 5\r\n\r\nhello"), "200 hello"),
        // Bytes after the response belong to no request.
        stays(format!("{HELLO}{}", ok("Content-Length: 4\r\n\r\nevil")), "200 hello"),
        stays(format!("{HELLO}x"), "200 hello"),
        stays(format!("HTTP/1.1 204 No Content\r\n\r\n{}", ok("Content-Length: 4\r\n\r\nevil")), "204"),
        stays(
            ok(
                "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            ),
            "200 hello",
        ),
        stays(ok("Connection: close\r\nContent-Length: 5\r\n\r\nhello"), "200 hello"),
        // None at all.
        closes("", "502"),
        closes("HTTP/1.1 200 OK\r\n", "502"),
        closes("HTTP/1.1 100 Continue\r\n\r\n", "502"),
        stays("SSH-2.0-peer\r\n\r\n", "502"),
        stays("Content-Type: text/plain\r\n\r\nhello", "502"),
        stays("HTTP/2 200\r\n\r\n", "502"),
        stays("HTTP/1.1 99 Low\r\n\r\n", "502"),
        stays("HTTP/1.1 2000 High\r\n\r\n", "502"),
        stays("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "502"),
        stays(ok("X-A: b\r\n folded\r\nContent-Length: 0\r\n\r\n"), "502"),
        stays(ok("X-A : b\r\nContent-Length: 0\r\n\r\n"), "502"),
        stays(ok("X-A: a\0b\r\nContent-Length: 0\r\n\r\n"), "502"),
        stays(large, "502"),
        // No certain length (RFC 9112 §6.3).
        stays(ok("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), "502"),
        stays(ok("Content-Length: -5\r\n\r\nhello"), "502"),
        stays(ok("Content-Length: 0x5\r\n\r\nhello"), "502"),
        stays(ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "502"),
        stays(ok("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "502"),
        stays(ok("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), "502"),
        // Incomplete.
        closes(ok("Content-Length: 9\r\n\r\nhello"), "cut"),
        closes(ok("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), "cut"),
        stays(ok("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n"), "cut"),
        stays(ok("Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n"), "cut"),
        stays(ok("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello"), "cut"),
    ]);
    let of_peer = rows.clone();
    let server = start(
        move |stream, _| {
            loop {
                let head = read_request(stream)?;
                let name = head.split(' ').nth(1).unwrap_or_default().rsplit('/').next().unwrap_or_default();
                let Some(row) =
                    name.strip_prefix("row-").map(|at| &of_peer[at.parse::<usize>().expect("a number")])
                else {
                    stream.write_all(HELLO.as_bytes())?;
                    continue;
                };
                stream.write_all(row.bytes.as_bytes())?;
                if row.closes {
                    return Ok(());
                }
            }
        },
        "first_byte = \"5s\"",
    );
    let mut found = Rows::new();
    for (at, row) in rows.iter().enumerate() {
        let name = format!("row-{at}");
        let is = get(&server, &name);
        // The server may or may not have sent a part before the error.
        let is_right = is == row.expected || (row.expected == "cut" && is == "502");
        found.holds(&row.bytes, &format!("{}: {is}", row.expected), is_right);
        found.check(
            format!("behind {:?}", e2e::shown(&row.bytes)),
            get(&server, "hello"),
            "200 hello".to_owned(),
        );
        if matches!(row.expected, "502" | "cut") {
            let path = format!("/app/{name}");
            let logged = server
                .errors()
                .wait_for(TIMEOUT, |lines| lines.iter().find(|line| line.contains(&path)).map(drop));
            found.holds(&row.bytes, "the log reports it", logged.is_some());
        }
    }
}

#[test]
fn does_not_forward_connection_fields() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-A: b\r\n\
                  Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nServer: of mine\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let server = start(
        move |stream, _| {
            loop {
                read_request(stream)?;
                stream.write_all(answer.as_bytes())?;
            }
        },
        "",
    );
    let response = server.get("/app/x");
    let mut rows = Rows::new();
    for (name, expected) in
        [("x-hop", &[][..]), ("keep-alive", &[]), ("x-a", &["b"]), ("set-cookie", &["a=1", "b=2"])]
    {
        rows.check(name, response.values(name).as_slice(), expected);
    }
    rows.check("body", response.text().as_str(), "hello");
}

#[test]
fn reuses_connections_and_retries_a_get_on_a_stale_one() {
    // The peer's bytes; connections for three requests.
    for (response, settings, expected) in [
        (HELLO, "", 1),
        (HELLO, "keep = \"0s\"", 3),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "", 3),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "", 3),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let server = start(
            move |stream, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                loop {
                    read_request(stream)?;
                    stream.write_all(response.as_bytes())?;
                }
            },
            settings,
        );
        let mut client = server.connect();
        for _ in 0..3 {
            client.send("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.outcome(), "200 hello", "{response:?}");
        }
        assert_eq!(count.load(Ordering::SeqCst), expected, "{response:?} {settings}");
    }
    let mut rows = Rows::new();
    for (method, expected) in [("GET", "200 hello"), ("DELETE", "200 hello"), ("POST", "502")] {
        // One request per connection; the second request finds it closed after sending.
        let server = start(
            |stream, _| {
                read_request(stream)?;
                stream.write_all(HELLO.as_bytes())?;
                read_request(stream).map(drop)
            },
            "",
        );
        rows.check(method, get(&server, "x"), "200 hello".to_owned());
        let mut client = server.connect();
        client.send(format!("{method} /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        rows.check(method, client.outcome(), expected.to_owned());
    }
}

#[test]
fn a_request_whose_first_connection_breaks_has_its_body_from_the_beginning() {
    const LARGE: usize = 400_000;
    // The method, the length of the body, and the bytes of it that are sent before the first connection ends.
    for (method, length, taken, expected) in [
        ("PUT", 5, 5, "200 hello"),
        ("PUT", 5, 2, "200 hello"),
        ("PUT", 5, 0, "200 hello"),
        ("QUERY", 100_000, 60_000, "200 hello"),
        // It may have been processed.
        ("POST", 5, 5, "502"),
        // Its beginning is gone.
        ("PUT", LARGE, LARGE, "502"),
    ] {
        let is_repeated = Arc::new(AtomicUsize::new(0));
        let repeated = is_repeated.clone();
        let body: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
        let sent = body.clone();
        let server = start(
            move |stream, number| {
                read_head(stream)?;
                let mut received = vec![0; length];
                stream.read_exact(&mut received[..taken])?;
                repeated.store(number, Ordering::SeqCst);
                if number == 0 {
                    return Ok(());
                }
                stream.read_exact(&mut received[taken..])?;
                stream.write_all(if received == sent { HELLO } else { "wrong" }.as_bytes())
            },
            "",
        );
        let mut client = server.connect();
        client.send(format!("{method} /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        client.send(&body[..taken]);
        if taken < length {
            assert!(wait_until(TIMEOUT, || is_repeated.load(Ordering::SeqCst) == 1), "{method} {length}");
            client.send(&body[taken..]);
        }
        assert_eq!(client.outcome(), expected, "{method} {length} {taken}: {}", server.stderr());
    }
}

#[test]
fn a_connection_is_free_when_a_file_is_sent_in_place_of_the_body() {
    let files = Site::new().file("file", "of the folder");
    let settings = format!(
        "connections = 1\nwait = \"5s\"\n[scripts]\nsendfile = [\"{}\"]\n",
        files.home().join("www").display()
    );
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, path) = (count.clone(), files.home().join("www/file"));
    let server = start(
        move |stream, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            loop {
                let head = read_request(stream)?;
                let response = match head.contains("/app/file") {
                    true => format!(
                        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {}\r\nContent-Length: 7\r\n\r\nignored",
                        path.display()
                    ),
                    false => HELLO.to_owned(),
                };
                stream.write_all(response.as_bytes())?;
            }
        },
        &settings,
    );
    for (name, expected) in [
        ("file", "200 of the folder"),
        ("file", "200 of the folder"),
        ("x", "200 hello"),
        ("file", "200 of the folder"),
    ] {
        assert_eq!(get(&server, name), expected);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1, "one connection");
}

#[test]
fn logs_the_name_of_the_application_and_no_error_for_a_successful_retry() {
    // One request per connection; the peer closes it on the next request, without a response.
    let server = start(
        |stream, number| {
            let head = read_request(stream)?;
            if head.contains("/cut") {
                return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
            }
            if number > 0 {
                stream.write_all(HELLO.as_bytes())?;
                read_request(stream)?;
            }
            Ok(())
        },
        "keep = \"60s\"\n[log]\naccess = \"stdout\"\n",
    );
    let mut rows = Rows::new();
    // The first connection is closed at once.
    rows.check("a new connection", get(&server, "new"), "200 hello".to_owned());
    // The second one was kept, and is closed on its next use.
    rows.check("a kept connection", get(&server, "kept"), "200 hello".to_owned());
    let mut client = server.connect();
    client.send("POST /app/post HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    rows.check("POST", client.outcome(), "502".to_owned());
    rows.check("a cut one", get(&server, "cut"), "cut".to_owned());
    server.wait_for_line("the response of the application \"app\" is incomplete", TIMEOUT);
    let errors = server.stderr();
    rows.check(&errors, errors.matches("did not respond").count(), 1);
    rows.holds(
        &errors,
        "it is POST",
        errors.contains("\"POST /app/post\": the application \"app\" did not respond"),
    );
    let again = "\"GET /app/new\": the application \"app\" sent nothing on a new connection";
    rows.holds(&errors, "the request was retried", errors.contains(again));
    rows.holds(&errors, "a kept connection causes no log line", !errors.contains("/app/kept"));
    rows.holds(&errors, "there is no script", !errors.contains("script"));
    let line = server
        .output()
        .wait_for(TIMEOUT, |lines| lines.iter().find(|line| line.contains("/app/cut")).cloned());
    let line = line.unwrap_or_default();
    rows.holds(
        &line,
        "the line names the side that ended early",
        line.contains("\"application ended early\""),
    );
}

#[test]
fn a_response_that_announces_the_greatest_length_is_cut_and_logged_as_such() {
    let greatest = u64::MAX;
    let server = start(
        move |stream, _| {
            read_request(stream)?;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {greatest}\r\n\r\nhello")
        },
        "[log]\naccess = \"stdout\"\n",
    );
    assert_eq!(get(&server, "huge"), "cut");
    let line = server
        .output()
        .wait_for(TIMEOUT, |lines| lines.iter().find(|line| line.contains("/app/huge")).cloned())
        .unwrap_or_else(|| panic!("no line: {}", server.stderr()));
    assert!(line.contains("\" 200 5 ") && line.ends_with("\"application ended early\""), "{line}");
    assert!(!server.stderr().contains("panic"), "{}", server.stderr());
}

#[test]
fn reads_no_body_in_a_response_to_head() {
    let server = start(
        |stream, _| {
            loop {
                let head = read_request(stream)?;
                let whole = HELLO.len() - if head.starts_with("HEAD") { 5 } else { 0 };
                stream.write_all(&HELLO.as_bytes()[..whole])?;
            }
        },
        "",
    );
    let mut client = server.connect();
    for _ in 0..3 {
        let head = client.request("HEAD /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, Some("5"), 0));
        assert_eq!(client.get("/app/x").text(), "hello");
    }
}

#[test]
fn does_not_reuse_a_connection_when_the_end_of_a_response_is_unsure() {
    const LATE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let mut rows = Rows::new();
    // Method and path, the peer's bytes, and whether the connection may have the next request.
    for (method, bytes, keeps) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n", false),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HEAD", "HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n", true),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\n", false),
        ("GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", true),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 43\r\n\r\n", false),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true),
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 43\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            false,
        ),
        (
            "GET",
            "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            false,
        ),
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            true,
        ),
    ] {
        // On a new connection, and on one that had a request before.
        for earlier in [0, 1] {
            let server = start(
                move |stream, number| {
                    if number == 0 {
                        for _ in 0..earlier {
                            read_request(stream)?;
                            stream.write_all(HELLO.as_bytes())?;
                        }
                        read_request(stream)?;
                        stream.write_all(bytes.as_bytes())?;
                        // The announced bytes come when the next request has arrived.
                        read_request(stream)?;
                        return stream.write_all(if keeps { HELLO } else { LATE }.as_bytes());
                    }
                    read_request(stream)?;
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew")
                },
                // The timeout does not close it.
                "keep = \"60s\"",
            );
            let mut client = server.connect();
            for _ in 0..earlier {
                assert_eq!(client.get("/app/earlier").text(), "hello");
            }
            let mut first = client.request(format!("{method} /app/x HTTP/1.1\r\nHost: a\r\n\r\n"));
            if first.status == 103 {
                first = client.read_response();
            }
            rows.holds(bytes, "it is answered", (200..400).contains(&first.status));
            let expected = if keeps { "200 hello" } else { "200 new" };
            rows.check(
                format!("{method} {bytes} behind {earlier}"),
                get(&server, "next"),
                expected.to_owned(),
            );
        }
    }
}

#[test]
fn gives_no_request_a_response_that_came_before_it() {
    for method in ["GET", "POST"] {
        let step = Arc::new(Barrier::new(2));
        let step_of_peer = step.clone();
        let server = start(
            move |stream, number| {
                if number > 0 {
                    loop {
                        read_request(stream)?;
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew")?;
                    }
                }
                read_request(stream)?;
                stream.write_all(HELLO.as_bytes())?;
                step_of_peer.wait();
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")?;
                step_of_peer.wait();
                read_request(stream).map(drop)
            },
            "keep = \"60s\"",
        );
        let mut client = server.connect();
        assert_eq!(client.get("/app/x").text(), "hello");
        // The client has the first response before the second comes.
        step.wait();
        step.wait();
        client.send(format!("{method} /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(client.outcome(), "200 new", "{method}");
    }
}

#[test]
fn serves_on_by_open_connections_when_the_process_that_manages_them_is_killed() {
    let server = start(
        |stream, _| {
            loop {
                read_request(stream)?;
                stream.write_all(HELLO.as_bytes())?;
            }
        },
        "keep = \"60s\"",
    );
    let mut client = server.connect();
    assert_eq!(client.get("/app/x").text(), "hello");
    // A master that is stopped replaces nothing.
    stop_process(server.pid());
    let pool = server.children()[0];
    signal_process(pool, Signal::KILL);
    assert!(wait_until(TIMEOUT, || !runs(pool)), "process {pool} still runs");
    let mut rows = Rows::new();
    for number in 0..20 {
        let method = if number % 2 == 0 { "GET" } else { "POST" };
        client.send(format!("{method} /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        rows.check(format!("{method} {number}"), client.outcome(), "200 hello".to_owned());
    }
    server.signal(Signal::CONT);
    server.wait_for_line("the process that manages the application \"app\" has ended", TIMEOUT);
    assert!(wait_until(TIMEOUT, || get(&server, "x") == "200 hello"), "it is replaced");
}

#[test]
fn waits_for_the_rest_of_a_response_on_a_kept_connection() {
    let long = "x".repeat(300_000);
    let (head, body) = (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len()), long.clone());
    let server = start(
        move |stream, _| {
            loop {
                let request = read_request(stream)?;
                let parts: &[&str] = match request.split(' ').nth(1) {
                    Some("/app/split") => &["HTTP/1.1 200 OK\r\nCont", "ent-Length: 5\r\n\r\nhe", "llo"],
                    Some("/app/long") => &[&head, &body],
                    Some("/app/moved") => &[
                        "HTTP/1.1 302 Found\r\nLocation: http://localhost/app/to\r\nContent-Length: 0\r\n\r\n",
                    ],
                    Some("/app/never") => &[],
                    _ => &[HELLO],
                };
                for part in parts {
                    stream.write_all(part.as_bytes())?;
                    stream.flush()?;
                    thread::yield_now();
                }
            }
        },
        "first_byte = \"1s\"",
    );
    let mut client = server.connect();
    assert_eq!(client.get("/app/first").text(), "hello");
    for (name, expected) in [("split", "hello"), ("long", long.as_str()), ("hello", "hello")] {
        assert_eq!(client.get(&format!("/app/{name}")).text(), expected, "{name}");
    }
    assert_eq!(client.get("/app/moved").status, 302);
    assert_eq!(client.get("/app/never").status, 504);
    assert_eq!(get(&server, "hello"), "200 hello");
}

#[test]
fn closes_a_connection_with_unread_bytes_even_when_a_request_waits_for_it() {
    // The response fills the read buffer, so that the rest is still in the kernel.
    let head = "HTTP/1.1 200 OK\r\nContent-Length: ";
    let body = (64 << 10) - head.len() - "65535\r\n\r\n".len();
    let first = format!("{head}{body}\r\n\r\n{}", "x".repeat(body));
    assert_eq!(first.len(), 64 << 10);
    for _ in 0..20 {
        let (first, has_come, may_go) = (first.clone(), Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (comes, goes) = (has_come.clone(), may_go.clone());
        let server = start(
            move |stream, number| {
                read_request(stream)?;
                if number > 0 {
                    return stream.write_all(HELLO.as_bytes());
                }
                comes.wait();
                goes.wait();
                let late = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
                stream.write_all(format!("{first}{late}").as_bytes())?;
                read_request(stream).map(drop)
            },
            "connections = 1",
        );
        let (mut one, mut other) = (server.connect(), server.connect());
        one.send("GET /app/one HTTP/1.1\r\nHost: a\r\n\r\n");
        has_come.wait();
        // It waits for the only connection.
        other.send("GET /app/other HTTP/1.1\r\nHost: a\r\n\r\n");
        may_go.wait();
        assert_eq!(one.read_response().body.len(), body);
        assert_eq!(other.outcome(), "200 hello");
    }
}

/// Sends the head of the request back.
fn echo_head(stream: &mut UnixStream, _: usize) -> io::Result<()> {
    loop {
        let head = read_request(stream)?;
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len());
        stream.write_all(response.as_bytes())?;
    }
}

#[test]
fn forwards_the_path_as_the_routes_read_it() {
    let server = start(echo_head, "[[route]]\npath = \"/app/admin/\"\nreturn = 403\n");
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/app/x", "/app/x"),
        ("/app/%7ex%2Cy?..//", "/app/%7ex%2Cy?..//"),
        ("/app/admin/secret", "403"),
        ("/app/x/../admin/secret", "403"),
        ("/app/%61dmin/secret", "403"),
        ("//app//admin/secret", "403"),
        // A path that one route allows must not become one that another route denies.
        ("/app/admin/secret/../../x", "/app/x"),
        ("/app/admin/%2e%2E/x?q=/../", "/app/x?q=/../"),
        ("/app/admin/.%2e/x%2Cy", "/app/x%2Cy"),
        ("/app/./a/%2e/b", "/app/a/b"),
        ("//app///a//", "/app/a/"),
        ("/app/a/..", "/app/"),
        ("http://other/app/admin/../x", "/app/x"),
        ("/app/%252e%252e/x", "/app/%252e%252e/x"),
        ("/app/../../x", "400"),
        ("/app/..%2fx", "400"),
    ] {
        let response = server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = response.text();
        let found = match response.status {
            200 => head.split(' ').nth(1).unwrap_or_default().to_owned(),
            status => status.to_string(),
        };
        rows.check(target, found.as_str(), expected);
    }
}

#[test]
fn drops_forwarding_fields_of_the_client_and_adds_via() {
    let server = start(echo_head, "");
    let claims = [
        "Forwarded: for=192.0.2.1;proto=https",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-Host: evil",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Port: 443",
        "X-Forwarded-Prefix: /evil",
        "X-Forwarded-Server: evil",
        "X-Real-IP: 192.0.2.1",
        "X-Client-IP: 192.0.2.1",
        "True-Client-IP: 192.0.2.1",
        "CF-Connecting-IP: 192.0.2.1",
        "X-Original-URL: /evil",
        "X-Rewrite-URL: /evil",
        "Front-End-Https: on",
        "X-Script-Name: /evil",
        // A program that believes these names any file in place of its own.
        "X-Sendfile-Type: X-Accel-Redirect",
        "X-Accel-Mapping: /public/=/private/",
    ];
    let fields = claims.join("\r\n");
    let head = server
        .request(format!(
            "GET /app/x HTTP/1.1\r\nHost: a:81\r\n{fields}\r\nVia: 1.0 first\r\nX-Own: 1\r\n\r\n"
        ))
        .text();
    let values = |name: &str| -> Vec<String> {
        let pairs = head.lines().filter_map(|line| line.split_once(": "));
        let named = pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.to_owned()).collect()
    };
    let mut rows = Rows::new();
    for claim in claims {
        let name = claim.split(':').next().unwrap_or_default();
        let expected = match name {
            "X-Forwarded-For" | "X-Real-IP" => vec!["127.0.0.1".to_owned()],
            "X-Forwarded-Host" => vec!["a:81".to_owned()],
            "X-Forwarded-Proto" => vec!["http".to_owned()],
            "Forwarded" => vec!["for=127.0.0.1;host=\"a:81\";proto=http".to_owned()],
            _ => Vec::new(),
        };
        rows.check(name, values(name), expected);
    }
    rows.check("Via", values("via"), vec!["1.0 first".to_owned(), "1.1 taipan".to_owned()]);
    rows.check("X-Own", values("x-own"), vec!["1".to_owned()]);
    let old = server.request("GET /app/x HTTP/1.0\r\n\r\n").text();
    rows.holds("HTTP/1.0", "Via has the version", old.contains("\r\nVia: 1.0 taipan\r\n"));
}

#[test]
fn a_response_ahead_of_the_end_of_its_request_leaves_the_connection_to_no_other() {
    // The first connection takes what follows the early response for the next request.
    let server = start(
        |stream, number| {
            read_head(stream)?;
            if number > 0 {
                return stream.write_all(HELLO.as_bytes());
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")?;
            // Another request here has no response.
            stream.read_to_end(&mut Vec::new()).map(drop)
        },
        "keep = \"60s\"",
    );
    let mut client = server.connect();
    client.send("POST /app/early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234");
    assert_eq!(client.read_response().text(), "early");
    for _ in 0..3 {
        assert_eq!(get(&server, "next"), "200 hello");
    }
}

#[test]
fn interim_responses_without_end_are_an_error() {
    for interim in
        ["HTTP/1.1 103 E\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 P\r\nA: b\r\n\r\n"]
    {
        let server = start(
            move |stream, number| {
                let head = read_request(stream)?;
                while number == 0 || head.contains("/flood") {
                    stream.write_all(interim.as_bytes())?;
                }
                stream.write_all(HELLO.as_bytes())
            },
            "first_byte = \"30s\"\nretries = 0\n[application.health]\nfailures = 0",
        );
        let mut client = server.connect();
        client.send("GET /app/flood HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut response = client.read_response();
        let mut passed = 0;
        while response.status < 200 {
            (response, passed) = (client.read_response(), passed + 1);
        }
        assert!(response.status == 502 && passed <= 16, "{interim:?}: {} behind {passed}", response.status);
        assert_eq!(get(&server, "next"), "200 hello", "{interim:?}");
    }
}

#[test]
fn names_that_programs_take_for_others_do_not_pass() {
    let server = start(echo_head, "");
    let names = [
        "X_Forwarded_For",
        "X.Forwarded.For",
        "X-Forwarded.For",
        "X!Forwarded!For",
        "X~Real~IP",
        "Remote.User",
    ];
    let fields: String = names.iter().map(|name| format!("{name}: evil\r\n")).collect();
    let head =
        server.request(format!("GET /app/x HTTP/1.1\r\nHost: a\r\n{fields}X-Own-1: good\r\n\r\n")).text();
    assert!(!head.contains("evil") && head.contains("X-Own-1: good\r\n"), "{head}");
}

#[test]
fn cannot_smuggle_a_second_request_to_the_application() {
    // The client's bytes must neither end the head for the application nor begin another.
    let server = start(echo_head, "");
    let mut client = server.connect();
    let mut rows = Rows::new();
    rows.check("in a path", server.get("/app/a%0d%0aX-Evil:%201").status, 400);
    for (target, line) in [
        ("/app/a%20HTTP/1.1", "GET /app/a%20HTTP/1.1 HTTP/1.1"),
        ("/app/?a=%0d%0a%0d%0aGET%20/", "GET /app/?a=%0d%0a%0d%0aGET%20/ HTTP/1.1"),
        ("http://other/app/x?y", "GET /app/x?y HTTP/1.1"),
    ] {
        let response = client.request(format!("GET {target} HTTP/1.1\r\nHost: other\r\n\r\n"));
        let head = response.text();
        rows.check(target, head.lines().next().unwrap_or_default(), line);
        rows.holds(target, "there is no other field", !head.to_lowercase().contains("\nx-evil"));
        rows.check(target, head.matches("\r\n\r\n").count(), 1);
    }
}
