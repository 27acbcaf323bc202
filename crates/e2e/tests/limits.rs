//! Limits: each at its last allowed value and one above, by default and as configured.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use e2e::{Address, ReadError, Rows, Server, Signal, Site, exchange, signal_process, stop_process};

/// Long enough that the server can tell which of two connections was used before the other.
const PAUSE: Duration = Duration::from_millis(600);

fn site(config: &str) -> Site {
    Site::new()
        .file("a.txt", "hello\n")
        .file("up/a.txt", "hello\n")
        .file("more/a.txt", "hello\n")
        .config(config)
}

/// A GET whose head has exactly so many bytes, most of them in one field.
fn head_of(bytes: usize) -> String {
    let start = "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: ";
    format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
}

/// A GET with exactly so many fields.
fn fields(count: usize) -> String {
    let more: String = (1..count).map(|n| format!("X{n}: y\r\n")).collect();
    format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{more}\r\n")
}

/// A GET with a target of exactly so many bytes.
fn target_of(bytes: usize) -> String {
    format!("GET /a.txt?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(bytes - "/a.txt?".len()))
}

fn sized(path: &str, bytes: usize) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
}

/// Chunked, with chunks of at most `chunk` bytes.
fn chunked(path: &str, bytes: usize, chunk: usize) -> String {
    let data = "x".repeat(chunk);
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for at in (0..bytes).step_by(chunk) {
        let len = chunk.min(bytes - at);
        request.push_str(&format!("{len:x}\r\n{}\r\n", &data[..len]));
    }
    request + "0\r\n\r\n"
}

fn check(server: &Server, rows: &[(String, &str)]) {
    let mut table = Rows::new();
    for (input, expected) in rows {
        table.check(input, server.exchange(input, expected).summary.as_str(), *expected);
        // Earlier requests are answered all the same.
        let input = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n{input}");
        let expected = format!("200 {expected}");
        table.check(&input, server.exchange(&input, &expected).summary, expected);
    }
}

#[test]
fn limits_the_size_of_a_head() {
    for (config, limit) in [
        ("", 16 * 1024),
        ("[limits]\nhead = 256", 256),
        ("[limits]\nhead = \"1KiB\"", 1024),
        ("[limits]\nhead = \"64KiB\"", 64 * 1024),
        ("[limits]\nhead = \"1MiB\"", 1024 * 1024),
    ] {
        check(
            &site(config).start(),
            &[
                (head_of(limit - 1), "200 open"),
                (head_of(limit), "200 open"),
                (head_of(limit + 1), "431 closed"),
                (head_of(limit * 3), "431 closed"),
                (head_of(limit).replace("\r\nX", "\r\nY: y\r\nX"), "431 closed"),
            ],
        );
    }
}

#[test]
fn limits_the_number_of_fields() {
    for (config, limit) in [("", 100), ("[limits]\nfields = 3", 3), ("[limits]\nfields = 256", 256)] {
        check(
            &site(config).start(),
            &[
                (fields(limit - 1), "200 open"),
                (fields(limit), "200 open"),
                (fields(limit + 1), "431 closed"),
                (fields(limit * 2), "431 closed"),
                // Repetitions of the same field count.
                (
                    format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{}\r\n", "Cookie: a=b\r\n".repeat(limit)),
                    "431 closed",
                ),
            ],
        );
    }
    // One field is enough for this request, and too few for the request that the helper sends after it.
    let server = site("[limits]\nfields = 1").start();
    assert_eq!((server.request(fields(1)).status, server.request(fields(2)).status), (200, 431));
}

#[test]
fn limits_the_size_of_a_target() {
    for (config, limit) in
        [("", 8 * 1024), ("[limits]\ntarget = 64", 64), ("[limits]\ntarget = \"12KiB\"", 12 * 1024)]
    {
        check(
            &site(config).start(),
            &[
                (target_of(limit - 1), "200 open"),
                (target_of(limit), "200 open"),
                (target_of(limit + 1), "414 closed"),
                (target_of(limit * 4), "414 closed"),
                (format!("GET http://h/{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(limit)), "414 closed"),
                (format!("GET /{}", "x".repeat(limit * 2)), "414 closed"),
            ],
        );
    }
}

#[test]
fn rejects_an_endless_request_while_it_arrives() {
    let server = site("").start();
    let mut table = Rows::new();
    for (begin, piece, status) in [
        ("GET /", "x", 414),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\nX: ", "x", 431),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\n", "X: y\r\n", 431),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\n", "x", 431),
        ("", "A", 501),
    ] {
        let mut client = server.connect();
        let piece = piece.repeat(1000);
        client.send(begin);
        // More than any limit, less than the server drains after an error.
        let taken = (0..50).take_while(|_| client.try_send(&piece).is_ok()).count();
        let found = client.try_read_response().map(|r| r.status).map_err(|e| e.to_string());
        table.check(format!("{begin}… {taken}"), found, Ok(status));
        table.holds(begin, "closed without a reset", client.is_finished());
    }
}

#[test]
fn limits_the_size_of_a_body() {
    for (config, limit) in [
        ("", 1024 * 1024),
        ("[limits]\nbody = 10", 10),
        ("[limits]\nbody = 1", 1),
        ("[limits]\nbody = \"100KiB\"", 100 * 1024),
        ("[limits]\nbody = \"3MiB\"", 3 * 1024 * 1024),
    ] {
        let mut rows = vec![
            (sized("/a.txt", 0), "200 open"),
            (sized("/a.txt", limit), "200 open"),
            (sized("/a.txt", limit + 1), "413 closed"),
        ];
        for chunk in [limit.div_ceil(100), limit, limit + 1] {
            rows.push((chunked("/a.txt", limit, chunk), "200 open"));
            rows.push((chunked("/a.txt", limit + 1, chunk), "413 closed"));
        }
        for length in ["18446744073709551615", "9223372036854775808", "4294967296"] {
            let head = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
            rows.push((head, "413 closed"));
        }
        let head = "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        rows.push((format!("{head}ffffffffffffffff\r\n{}", "x".repeat(limit + 1)), "413 closed"));
        check(&site(config).start(), &rows);
    }
    check(
        &site("[limits]\nbody = 0").start(),
        &[
            (sized("/a.txt", 0), "200 open"),
            (sized("/a.txt", 1), "413 closed"),
            (chunked("/a.txt", 0, 1), "200 open"),
            (chunked("/a.txt", 1, 1), "413 closed"),
        ],
    );
}

#[test]
fn a_route_can_limit_the_size_of_a_body() {
    let server = site(
        "max_body = 20\n[limits]\nbody = 10\n\
         [[route]]\npath = \"/up/*\"\nmax_body = 5\n\
         [[route]]\npath = \"/more/*\"\nmax_body = \"2MiB\"",
    )
    .start();
    check(
        &server,
        &[
            (sized("/a.txt", 20), "200 open"),
            (sized("/a.txt", 21), "413 closed"),
            (chunked("/a.txt", 20, 7), "200 open"),
            (chunked("/a.txt", 21, 7), "413 closed"),
            (sized("/up/a.txt", 5), "200 open"),
            (sized("/up/a.txt", 6), "413 closed"),
            (chunked("/up/a.txt", 5, 7), "200 open"),
            (chunked("/up/a.txt", 6, 7), "413 closed"),
            (sized("/more/a.txt", 2 * 1024 * 1024), "200 open"),
            (sized("/more/a.txt", 2 * 1024 * 1024 + 1), "413 closed"),
            (chunked("/more/a.txt", 2 * 1024 * 1024, 70_000), "200 open"),
            (chunked("/more/a.txt", 2 * 1024 * 1024 + 1, 70_000), "413 closed"),
        ],
    );
}

#[test]
fn a_client_that_sends_too_much_can_still_read_the_response() {
    let server = site("[limits]\nbody = 10").start();
    for _ in 0..20 {
        let mut client = server.connect();
        client.send("POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 800000\r\n\r\n");
        client.send(vec![b'x'; 800_000]);
        assert_eq!(client.read_response().status, 413);
        assert!(client.is_finished());
    }
}

#[test]
fn limits_the_requests_of_a_connection() {
    let get = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let post = "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    let rows = [
        (1, get.to_owned(), "200 closed"),
        (3, get.repeat(2), "200 200 open"),
        (3, get.repeat(3), "200 200 200 closed"),
        (3, get.repeat(4), "200 200 200 closed"),
        (3, get.repeat(100), "200 200 200 closed"),
        (3, format!("{get}{post}{get}{get}"), "200 405 200 closed"),
        (0, get.repeat(5), "200 200 200 200 200 open"),
    ];
    let mut table = Rows::new();
    for (limit, input, expected) in rows {
        let server = site(&format!("[limits]\nrequests = {limit}")).start();
        let exchange = server.exchange(&input, expected);
        table.check(&input, exchange.summary.as_str(), expected);
        let printed: Vec<bool> =
            exchange.responses.iter().map(|r| r.field("connection") == Some("close")).collect();
        let last = printed.len() - 1;
        let closes: Vec<bool> = (0..=last).map(|n| n == last && expected.ends_with("closed")).collect();
        table.check(&input, printed, closes);
    }
    // One after the other, with a pause in which the connection is idle.
    let server = site("[limits]\nrequests = 3").start();
    let mut client = server.connect();
    for connection in [None, None, Some("close")] {
        assert_eq!(client.get("/a.txt").field("connection"), connection);
    }
    assert!(client.is_finished());
}

#[test]
fn keeps_as_many_connections_as_configured() {
    let server = site("workers = 1\n[limits]\nconnections = 3").start();
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/a.txt").status, 200);
        }
        thread::sleep(PAUSE);
    }
}

#[test]
fn closes_the_longest_idle_connection_for_a_new_one() {
    let server = site("workers = 1\n[limits]\nconnections = 3").start();
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    // Last used: the third first, the first last.
    for n in [0, 1, 2, 1, 0] {
        assert_eq!(clients[n].get("/a.txt").status, 200, "connection {n}");
        thread::sleep(PAUSE);
    }
    let mut fourth = server.connect();
    assert_eq!(fourth.get("/a.txt").status, 200);
    assert!(clients[2].is_finished(), "the longest idle one is closed");
    for n in [0, 1] {
        assert_eq!(clients[n].get("/a.txt").status, 200, "connection {n}");
    }
    assert_eq!(fourth.get("/a.txt").status, 200);
}

#[test]
fn does_not_close_a_busy_connection_for_a_new_one() {
    let server = site("workers = 1\n[limits]\nconnections = 2").start();
    let mut busy: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut busy {
        // One response shows that it is served; then half a request.
        assert_eq!(client.get("/a.txt").status, 200);
        client.send("GET /a.txt HTTP/1.1\r\n");
    }
    let waiting = thread::spawn({
        let mut client = server.connect();
        move || {
            _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            client.try_read_response().map(|r| r.status)
        }
    });
    for client in &mut busy {
        client.send("Host: h\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
    }
    drop(busy);
    let found = waiting.join().expect("it does not panic");
    // It was accepted after waiting, or got 503.
    assert!(matches!(found, Ok(200 | 503) | Err(ReadError::Closed { after: 0 })), "{found:?}");
    let again = exchange(&mut server.connect(), "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "200 open");
    assert_eq!(again.summary, "200 open");
}

#[test]
fn as_many_connections_wait_to_be_accepted_as_configured() {
    let mut rows = Rows::new();
    for (backlog, expected) in [(Some(2), 3), (None, 20)] {
        let key = backlog.map_or(String::new(), |count| format!("backlog = {count}\n"));
        let server = Site::new()
            .config(&format!("workers = 1\n[limits]\n{key}[timeouts]\ndefer_accept = 0\n"))
            .start();
        let Some(Address::Tcp(address)) = server.addresses().pop() else { panic!("{}", server.stderr()) };
        // A worker that is stopped accepts nothing.
        let serving = server.children();
        serving.iter().for_each(|pid| stop_process(*pid));
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok();
        let waiting: Vec<TcpStream> = (0..20).map_while(connect).collect();
        // The kernel counts from zero.
        rows.check(format!("{backlog:?}"), waiting.len(), expected);
        serving.iter().for_each(|pid| signal_process(*pid, Signal::CONT));
        drop(waiting);
        rows.check(format!("{backlog:?}: it serves again"), server.get("/").status, 403);
    }
}
