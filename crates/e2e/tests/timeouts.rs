//! Every connection has a deadline: slow requests get 408 or a close, idle connections are closed, and
//! clients above the minimum rate get everything. The pauses here are under test; nothing else waits.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{Client, Random, ReadError, Server, Site, TIMEOUT, wait_until};

/// Short timeouts; no deadline is extended except by the row's own bytes.
const TIMEOUTS: &str = "[timeouts]\nhead = 1\nbody = 1\nwrite = 1\nidle = 1\nlinger = 1\n";
const SECOND: Duration = Duration::from_secs(1);
/// The server checks deadlines a few times a second, and the machine may be busy.
const LATE: Duration = Duration::from_secs(6);
const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

fn site() -> Site {
    Site::new().file("a.txt", "hello\n")
}

fn wait_until_parked(server: &Server, connections: u64) {
    assert!(wait_until(TIMEOUT, || server.count("parked") == connections), "{}", server.stats());
}

/// The end of a connection and its time: `408`, `closed` without a response, or still `open`.
#[derive(Debug, PartialEq)]
enum End {
    Timeout,
    Closed,
    Open,
    Other(String),
}

/// Sends `begin`, then each byte of `then` 100 ms after the last, until the server closes.
fn end(server: &Server, begin: &str, then: &[u8]) -> (End, Duration) {
    let since = Instant::now();
    let mut client = server.connect();
    client.set_timeout(Duration::from_millis(100));
    client.send(begin);
    let mut pieces = then.iter();
    let first = loop {
        match client.try_read_response() {
            Err(ReadError::Silent) if since.elapsed() < LATE => {
                if let Some(piece) = pieces.next() {
                    _ = client.try_send([*piece]);
                }
            }
            other => break other,
        }
    };
    let took = since.elapsed();
    client.set_timeout(LATE);
    let end = match first {
        Ok(response) if response.status == 408 => {
            assert_eq!(response.field("connection"), Some("close"), "{response}");
            assert!(client.is_finished(), "408, and not closed");
            End::Timeout
        }
        Ok(response) => End::Other(response.to_string()),
        Err(ReadError::Closed { after: 0 }) => End::Closed,
        Err(ReadError::Silent) => End::Open,
        Err(other) => End::Other(other.to_string()),
    };
    (end, took)
}

#[test]
fn stops_waiting_for_a_request_after_its_deadline() {
    let server = site().config(TIMEOUTS).start();
    let dribble = [b'x'; 100];
    let rows = [
        // No bytes.
        ("", &b""[..], End::Closed),
        // An empty line before a request is not part of it (RFC 9112 §2.2): no request has begun.
        ("\r\n", b"", End::Closed),
        // A head that stops, and a head that comes byte by byte.
        ("G", b"", End::Timeout),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\n", b"", End::Timeout),
        ("GET /", &dribble, End::Timeout),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\nX: ", &dribble, End::Timeout),
        // The same with a body.
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", b"", End::Timeout),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", &dribble, End::Timeout),
        ("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", b"", End::Timeout),
        (
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
            &dribble,
            End::Timeout,
        ),
        (
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
            &dribble,
            End::Timeout,
        ),
    ];
    thread::scope(|scope| {
        let ends = rows.map(|(begin, then, expected)| {
            let server = &server;
            (begin, expected, scope.spawn(move || end(server, begin, then)))
        });
        for (begin, expected, found) in ends {
            let (found, took) = found.join().expect("it does not panic");
            assert_eq!(found, expected, "{begin:?} after {took:?}");
            assert!((SECOND - SECOND / 10..LATE).contains(&took), "{begin:?} after {took:?}");
        }
    });
}

#[test]
fn each_phase_has_its_own_deadline() {
    let long = |short: &str| {
        let all = ["head", "body", "write", "idle"];
        all.map(|name| format!("{name} = {}\n", if name == short { 1 } else { 60 })).concat()
    };
    let with_body = "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
    let rows = [
        ("head", "G", End::Timeout),
        ("head", with_body, End::Open),
        ("body", "G", End::Open),
        ("body", with_body, End::Timeout),
        ("idle", "G", End::Open),
        ("idle", with_body, End::Open),
    ];
    thread::scope(|scope| {
        let ends = rows.map(|(short, begin, expected)| {
            let server = site().config(&format!("[timeouts]\n{}", long(short))).start();
            (short, begin, expected, scope.spawn(move || end(&server, begin, b"").0))
        });
        for (short, begin, expected, found) in ends {
            assert_eq!(found.join().expect("it does not panic"), expected, "{short} {begin:?}");
        }
    });
}

#[test]
fn accepts_a_body_at_the_minimum_rate() {
    let config = TIMEOUTS.replace("body = 1", "body = 2");
    let server = site().config(&format!("{config}[limits]\nmin_rate = 100\n")).start();
    let mut client = server.connect();
    let since = Instant::now();
    client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1200\r\n\r\n");
    // 300 bytes per second for four seconds.
    for n in 1..=40 {
        client.send([b'x'; 30]);
        thread::sleep((SECOND / 10 * n).saturating_sub(since.elapsed()));
    }
    assert_eq!(client.read_response().status, 200);
    assert_eq!(client.get("/a.txt").status, 200);
}

#[test]
fn closes_an_idle_connection_without_a_response() {
    let server = site().config("[timeouts]\nidle = 3").start();
    let mut client = server.connect();
    // Each response restarts the timeout.
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").status, 200);
        thread::sleep(SECOND * 3 / 2);
    }
    let since = Instant::now();
    assert_eq!(client.get("/a.txt").status, 200);
    assert!(client.is_finished());
    let took = since.elapsed();
    assert!((SECOND * 5 / 2..SECOND * 6).contains(&took), "{took:?}");
}

#[test]
fn closes_a_parked_connection_after_the_idle_timeout() {
    let server = site().config("[timeouts]\nidle = 3").start();
    let mut client = server.connect();
    let since = Instant::now();
    assert_eq!(client.get("/a.txt").status, 200);
    assert!(client.is_finished());
    let took = since.elapsed();
    assert!((SECOND * 5 / 2..SECOND * 6).contains(&took), "{took:?}");
}

#[test]
fn answers_the_next_request_of_a_parked_connection() {
    const MANY: usize = 2000;
    let server = site().file("big.bin", vec![7; 500_000]).start();
    let mut clients: Vec<Client> = (0..MANY).map(|_| server.connect()).collect();
    // Every tenth client has sent no request yet.
    for client in clients.iter_mut().enumerate().filter(|(n, _)| n % 10 > 0).map(|(_, client)| client) {
        assert_eq!(client.get("/a.txt").body, b"hello\n");
    }
    wait_until_parked(&server, MANY as u64);
    for (n, client) in clients.iter_mut().enumerate() {
        match n % 5 {
            0 => {
                client.send(GET.repeat(3));
                for _ in 0..3 {
                    assert_eq!(client.read_response().body, b"hello\n");
                }
            }
            1 => {
                client.send(&GET[..10]).send(&GET[10..]);
                assert_eq!(client.read_response().body, b"hello\n");
            }
            2 => assert_eq!(client.get("/big.bin").body.len(), 500_000),
            3 => {
                client.send(GET);
                client.half_close();
                assert_eq!(client.read_response().body, b"hello\n");
            }
            _ => {}
        }
    }
    // Some disconnect without a request, and others stay.
    drop(clients);
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    for _ in 0..2 {
        wait_until_parked(&server, 1);
        assert_eq!(client.get("/a.txt").body, b"hello\n");
    }
}

#[test]
fn counts_requests_of_a_parked_connection_toward_its_limit() {
    let server = site().config("[limits]\nrequests = 2").start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").field("connection"), None);
    wait_until_parked(&server, 1);
    assert_eq!(client.get("/a.txt").field("connection"), Some("close"));
    assert!(client.is_finished());
}

#[test]
fn accepts_a_request_with_a_pause_inside() {
    let server = site().start();
    let with_body = "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    thread::scope(|scope| {
        for (input, at, status) in [
            (GET, 1, 200),
            (GET, 20, 200),
            (GET, GET.len() - 1, 200),
            (with_body, 54, 200),
            (with_body, with_body.len() - 1, 200),
        ] {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                assert_eq!(client.get("/a.txt").status, 200);
                client.send(&input[..at]);
                thread::sleep(SECOND * 2);
                client.send(&input[at..]);
                assert_eq!(client.read_response().status, status, "{input:?} {at}");
                assert_eq!(client.get("/a.txt").status, 200);
            });
        }
    });
}

#[test]
fn answers_the_next_request_of_a_parked_unix_connection() {
    let home = e2e::Folder::new();
    let socket = home.path().join("taipan.sock");
    let server = site().config(&format!("listen = [\"unix:{}\"]", socket.display())).start();
    let mut clients: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    for _ in 0..2 {
        for client in &mut clients {
            assert_eq!(client.get("/a.txt").body, b"hello\n");
        }
        wait_until_parked(&server, 100);
    }
}

#[test]
fn without_a_minimum_rate_only_the_head_has_a_deadline() {
    let server = site()
        .file("large.bin", vec![7; LARGE])
        .config(&format!("{TIMEOUTS}[limits]\nmin_rate = 0\n"))
        .start();
    let mut reader = server.connect();
    reader.set_receive_buffer(32 * 1024);
    reader.send("GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let with_body = "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
    thread::scope(|scope| {
        let head = scope.spawn(|| end(&server, "GET /a.txt HTTP/1.1\r\n", b"").0);
        let body = scope.spawn(|| end(&server, with_body, b"").0);
        let found = [head, body].map(|end| end.join().expect("it does not panic"));
        assert_eq!(found, [End::Timeout, End::Open]);
    });
    assert_eq!(reader.read_response().body.len(), LARGE);
}

const LARGE: usize = 8_000_000;
const MIN_RATE: usize = 500_000;

/// A site whose clients must read half a megabyte per second, with a file of 8 MB.
fn large() -> (Server, Vec<u8>) {
    let content = Random::new(1).bytes(LARGE);
    let config = format!(
        "[timeouts]\nwrite = 1\n[limits]\nmin_rate = {MIN_RATE}\n[log]\naccess = \"stdout\"\nformat = \"json\""
    );
    (site().file("large.bin", &content).config(&config).start(), content)
}

/// Reads at most `rate` bytes per second, with a small receive buffer.
fn read_slowly(server: &Server, rate: usize) -> Vec<u8> {
    let mut client = server.connect();
    client.set_receive_buffer(32 * 1024);
    client.send("GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let (since, mut all) = (Instant::now(), Vec::new());
    loop {
        match client.read_some() {
            Ok(bytes) if bytes.is_empty() => return all,
            Ok(bytes) => all.extend(bytes),
            // A reset: the server has dropped the connection.
            Err(_) => return all,
        }
        let due = Duration::from_secs_f64(all.len() as f64 / rate as f64);
        thread::sleep(due.saturating_sub(since.elapsed()));
    }
}

#[test]
fn sends_everything_to_a_reader_at_the_minimum_rate() {
    let (server, content) = large();
    let all = read_slowly(&server, MIN_RATE * 4);
    let head = all.windows(4).position(|w| w == b"\r\n\r\n").expect("there is a head") + 4;
    assert!(all[head..] == content, "{} of {LARGE} bytes", all.len() - head);
}

#[test]
fn drops_a_reader_below_the_minimum_rate() {
    let (server, _) = large();
    let since = Instant::now();
    let all = read_slowly(&server, MIN_RATE / 4);
    assert!(all.len() < LARGE, "it got everything");
    assert!(since.elapsed() < SECOND * 15, "after {:?}", since.elapsed());
    server.wait_for_output("client too slow", TIMEOUT);
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn drops_a_reader_that_reads_nothing() {
    let (server, _) = large();
    let mut client = server.connect();
    client.set_receive_buffer(32 * 1024);
    let since = Instant::now();
    client.send("GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for_output("client too slow", TIMEOUT);
    assert!(since.elapsed() > SECOND * 9 / 10, "after {:?}", since.elapsed());
    assert!(client.try_read_response().is_err(), "it got everything");
}

#[test]
fn a_body_that_is_too_slow_for_a_response_that_has_begun_has_its_reason_in_the_log() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbegun\\n'\nexec cat\n";
    let log = "[log]\naccess = \"stdout\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n";
    let server = site().script("echo.cgi", script).config(&format!("{TIMEOUTS}{log}")).start();
    let mut client = server.connect();
    client.send("POST /echo.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1");
    let line = server.wait_for_output("POST /echo.cgi", TIMEOUT);
    assert!(line.contains(" 200 ") && line.contains("request too slow"), "{line}");
    assert_eq!(server.count("timeout_body"), 1, "{}", server.stats());
}

/// Requests the last response of a connection, which is in the kernel when this returns, and reads none of
/// it.
fn begin_last(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /some.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(wait_until(TIMEOUT, || server.count("bytes") > SOME as u64), "{}", server.stats());
    client
}

/// As much as the kernel takes at once, but more than it may hold for a closed connection.
const SOME: usize = 400_000;

#[test]
fn lingers_until_the_client_closes() {
    let content = Random::new(5).bytes(SOME);
    let server = site().file("some.bin", &content).start();
    let mut client = begin_last(&server);
    wait_until_parked(&server, 1);
    // The server drains this.
    client.send(GET);
    thread::sleep(SECOND);
    assert!(client.read_response().body == content, "the wrong file");
    assert!(client.is_finished());
    drop(client);
    wait_until_parked(&server, 0);
    assert_eq!(server.count("timeout_write"), 0);
}

#[test]
fn drops_unsent_data_when_the_client_stops_reading() {
    let server = site().file("some.bin", vec![7; SOME]).config("[timeouts]\nwrite = 1").start();
    let mut client = begin_last(&server);
    wait_until_parked(&server, 0);
    assert_eq!(server.count("timeout_write"), 1);
    assert!(client.try_read_response().is_err(), "it got everything");
}

#[test]
fn drains_the_request_for_a_while_after_rejecting_it() {
    let server = site().config(&TIMEOUTS.replace("linger = 1", "linger = 3")).start();
    let mut client = server.connect();
    client.send("rubbish\r\n\r\n");
    // The server drains the bytes before and after the 400.
    for _ in 0..5 {
        client.send(vec![b'x'; 100_000]);
        thread::sleep(SECOND / 20);
    }
    assert_eq!(client.read_response().status, 400);
    assert!(client.is_finished());
    // Draining ends: a client may not send for ever.
    let since = Instant::now();
    while client.try_send("x").is_ok() {
        assert!(since.elapsed() < LATE * 2, "the server still reads");
        thread::sleep(SECOND / 20);
    }
}

#[test]
fn a_lingering_client_delays_no_other() {
    let server = site().config("workers = 1\n[timeouts]\nlinger = \"1m\"").start();
    let mut lingering: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut lingering {
        client.send("rubbish\r\n\r\n");
        assert_eq!(client.read_response().status, 400);
    }
    let (done, waits) = mpsc::channel();
    thread::spawn({
        let mut client = server.connect();
        move || done.send(client.get("/a.txt").status)
    });
    assert_eq!(waits.recv_timeout(TIMEOUT), Ok(200));
}
