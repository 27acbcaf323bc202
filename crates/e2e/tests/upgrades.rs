//! Requests for another protocol, such as WebSocket, over a reverse proxy. The upstreams are threads of the test.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use e2e::upstream::{echo, upstream};
use e2e::{Client, Random, Rows, Server, Signal, Site, TIMEOUT, Tls, wait_until};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const LISTEN: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\n\
                      certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";

/// Switches, and sends back what comes, until the end.
fn switch_and_echo(mut stream: TcpStream, _: String) -> io::Result<()> {
    stream.write_all(SWITCH.as_bytes())?;
    echo(stream)
}

fn site(upstream: &str, settings: &str) -> Site {
    let (top, route) = settings.split_once("---\n").unwrap_or(("", settings));
    Site::new().certificate().file("a.txt", "a file").config(&format!(
        "{LISTEN}workers = 1\n{top}\n[[route]]\npath = \"/ws/\"\nproxy = \"{upstream}\"\n{route}\n"
    ))
}

fn request(fields: &str) -> String {
    format!("GET /ws/chat?x=1 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn websocket() -> String {
    request(
        "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    )
}

/// A client whose connection has been switched.
fn switched(mut client: Client) -> Client {
    client.send(websocket());
    let response = client.read_response_to_head();
    assert_eq!(response.status, 101);
    client
}

fn secure(server: &Server) -> Client {
    Client::tls(server.tcp(1), &Tls::new())
}

#[test]
fn passes_bytes_in_both_directions_and_their_ends() {
    let server = site(&upstream(switch_and_echo), "[log]\naccess = \"stdout\"\n").start();
    let mut rows = Rows::new();
    for (name, client) in [("plain", server.connect()), ("TLS", secure(&server))] {
        let mut client = client;
        client.send(websocket());
        let response = client.read_response_to_head();
        rows.check(name, response.status, 101);
        rows.check(name, response.field("upgrade"), Some("websocket"));
        rows.check(name, response.field("connection"), Some("Upgrade"));
        rows.check(name, response.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        rows.check(name, response.field("content-length"), None);
        for length in [1, 5, 4096, 70_000] {
            let sent = Random::new(length as u64).bytes(length);
            client.send(&sent);
            rows.holds(name, "the same bytes", client.read_exactly(length).expect("more bytes") == sent);
        }
        client.send("last").half_close();
        rows.check(name, client.read_to_end().as_slice(), &b"last"[..]);
        let line = server.wait_for_output("/ws/chat", TIMEOUT);
        rows.holds(&line, "one line, with the bytes", line.contains(" 101 74106 "));
    }
}

#[test]
fn a_cookie_of_the_response_that_switches_is_for_the_path_that_the_client_requests() {
    let cookie = SWITCH.replace("\r\n\r\n", "\r\nSet-Cookie: a=b; Path=/chat\r\n\r\n");
    let sets_cookie = upstream(move |mut stream, _| stream.write_all(cookie.as_bytes()));
    let server = site(&format!("{sets_cookie}/"), "").start();
    let mut client = server.connect();
    client.send(websocket());
    assert_eq!(client.read_response_to_head().field("set-cookie"), Some("a=b; Path=/ws/chat"));
}

#[test]
fn sends_bytes_that_come_with_either_head() {
    let early = upstream(|mut stream, _| {
        stream.write_all(format!("{SWITCH}hello ").as_bytes())?;
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)
    });
    let server = site(&early, "").start();
    let mut client = server.connect();
    client.send(websocket() + "early");
    assert_eq!(client.read_response_to_head().status, 101);
    assert_eq!(client.read_to_end(), b"hello early");
}

#[test]
fn a_broken_upstream_breaks_the_connection_of_the_client() {
    let breaks = upstream(|mut stream, _| {
        stream.write_all(SWITCH.as_bytes())?;
        // Closed with an unread byte, the connection is reset.
        stream.peek(&mut [0]).map(drop)
    });
    let server = site(&breaks, "[log]\naccess = \"stdout\"\n").start();
    let mut client = switched(server.connect());
    client.send("x");
    let read = client.read_some().map_err(|error| error.kind());
    assert_eq!(read, Err(io::ErrorKind::ConnectionReset));
    let line = server.wait_for_output("/ws/chat", TIMEOUT);
    assert!(line.contains(" 101 0 ") && line.contains("application ended early"), "{line}");
}

#[test]
fn reads_no_more_than_the_other_side_takes() {
    const SENT: usize = 64 << 20;
    let (counted, counts) = mpsc::channel();
    let flood = upstream(move |mut stream, _| {
        stream.write_all(SWITCH.as_bytes())?;
        stream.set_write_timeout(Some(Duration::from_millis(500)))?;
        let mut sent = 0;
        while sent < SENT {
            match stream.write(&[7; 65536]) {
                Ok(n) => sent += n,
                Err(_) => break,
            }
        }
        _ = counted.send(sent);
        Ok(())
    });
    let server = site(&flood, "").start();
    let _client = switched(server.connect());
    let sent = counts.recv_timeout(TIMEOUT).expect("the upstream is stopped");
    assert!(sent < SENT / 2, "the upstream could send {sent} bytes to a client that reads none");
    assert_eq!(server.get("/a.txt").text(), "a file");
}

#[test]
fn answers_refused_and_malformed_upgrades() {
    let mut rows = Rows::new();
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (name, answer, status) in [
        ("refused", "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403),
        ("ignored", ok, 200),
        (
            "another version",
            "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n",
            426,
        ),
        (
            "another protocol",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            502,
        ),
        ("no protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", 502),
        (
            "with a length",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello",
            502,
        ),
        ("incomplete", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: webso", 502),
        ("none", "", 502),
    ] {
        let peer = upstream(move |mut stream, head| {
            let upgrade = head.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
            stream.write_all(
                if upgrade { answer } else { "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n" }.as_bytes(),
            )
        });
        let server = site(&peer, "").start();
        let mut client = server.connect();
        client.send(websocket());
        rows.check(name, client.read_response().status, status);
        // The connection still speaks HTTP.
        rows.check(name, client.get("/a.txt").text().as_str(), "a file");
    }
}

#[test]
fn forwards_only_upgrades_that_are_allowed() {
    let echo_head = || {
        upstream(|mut stream, head| {
            let seen = head.lines().any(|line| line.to_lowercase().starts_with("upgrade:"));
            let text = if seen { "seen" } else { "none" };
            stream.write_all(
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n{text}").as_bytes(),
            )
        })
    };
    let mut rows = Rows::new();
    for (fields, settings, expected) in [
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", "", "seen"),
        ("Connection: Upgrade\r\nUpgrade: h2c\r\n", "", "none"),
        ("Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", "", "none"),
        ("Upgrade: websocket\r\n", "", "none"),
        ("Connection: Upgrade\r\n", "", "none"),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n", "", "seen"),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", "proxy_upgrade = []", "none"),
        ("Connection: Upgrade\r\nUpgrade: spdy/3\r\n", "proxy_upgrade = [\"spdy/3\"]", "seen"),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", "proxy_upgrade = [\"spdy/3\"]", "none"),
    ] {
        let server = site(&echo_head(), settings).start();
        let found = server.request(request(fields)).text();
        rows.check(format!("{fields} {settings}"), found.as_str(), expected);
    }
    let server = site(&echo_head(), "").start();
    let with_body = server.request(
        "GET /ws/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx",
    );
    rows.check("with a body", with_body.text().as_str(), "none");
}

#[test]
fn limits_their_number_and_how_long_they_are_idle() {
    let settings = "[limits]\nupgraded = 2\n[timeouts]\nupgraded = \"2s\"\n[log]\naccess = \"stdout\"\n";
    let server = site(&upstream(switch_and_echo), settings).start();
    let (mut busy, mut idle) = (switched(server.connect()), switched(server.connect()));
    let mut third = server.connect();
    third.send(websocket());
    assert_eq!(third.read_response().status, 503);
    server.wait_for_line("too many connections are upgraded", TIMEOUT);
    let began = Instant::now();
    // One stays, because bytes pass.
    idle.set_timeout(Duration::from_millis(50));
    while !idle.is_closed() && began.elapsed() < TIMEOUT {
        busy.send("x");
        assert_eq!(busy.read_exactly(1).expect("more bytes"), b"x");
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    server.wait_for_output("upgraded connection idle", TIMEOUT);
    busy.send("y");
    assert_eq!(busy.read_exactly(1).expect("more bytes"), b"y");
    // There is room for another.
    switched(server.connect());
}

const PING: [u8; 2] = [0x89, 0];
/// With a mask.
const PONG: [u8; 6] = [0x8a, 0x80, 1, 2, 3, 4];

#[test]
fn pings_a_silent_client_and_closes_one_that_does_not_answer() {
    let settings = "[timeouts]\nwebsocket_ping = \"2s\"\n[log]\naccess = \"stdout\"\n---\n";
    let server = site(&upstream(switch_and_echo), settings).start();
    let mut client = switched(server.connect());
    for _ in 0..2 {
        assert_eq!(client.read_exactly(2).expect("a ping"), PING);
        client.send(PONG);
        assert_eq!(client.read_exactly(6).expect("the upstream has the pong"), PONG);
    }
    assert_eq!(client.read_exactly(2).expect("a ping"), PING);
    assert!(client.is_finished(), "it ends without a pong");
    server.wait_for_output("client does not answer a ping", TIMEOUT);
    assert_eq!(server.count("timeout_upgraded"), 1);
}

#[test]
fn does_not_take_a_client_for_silent_whose_upstream_reads_nothing() {
    const BYTES: usize = 32 * 1024 * 1024;
    let (read_on, reads) = mpsc::channel();
    let reads = Arc::new(Mutex::new(reads));
    let busy = upstream(move |mut stream, _| {
        stream.write_all(SWITCH.as_bytes())?;
        reads.lock().expect("no other thread panics").recv().expect("the test sends");
        let mut bytes = vec![0; BYTES];
        stream.read_exact(&mut bytes)?;
        stream.write_all(b"\x81\x04done")?;
        echo(stream)
    });
    let settings = "[timeouts]\nwebsocket_ping = \"500ms\"\n---\n";
    let server = site(&busy, settings).start();
    let mut client = switched(server.connect());
    let sender = thread::spawn(move || {
        client.send(vec![0; BYTES]);
        client
    });
    // Pings of another connection show that the time has passed.
    let clock = site(&upstream(switch_and_echo), settings).start();
    let mut other = switched(clock.connect());
    for _ in 0..4 {
        assert_eq!(other.read_exactly(2).expect("a ping"), PING);
        other.send(PONG);
        assert_eq!(other.read_exactly(6).expect("its pong"), PONG);
    }
    read_on.send(()).expect("the upstream waits");
    let mut client = sender.join().expect("it can send everything");
    let mut head = client.read_exactly(2).expect("a frame");
    while head == PING {
        head = client.read_exactly(2).expect("another frame");
    }
    assert_eq!(
        (head.as_slice(), client.read_exactly(4).expect("its text").as_slice()),
        (&b"\x81\x04"[..], &b"done"[..])
    );
}

#[test]
fn sends_no_ping_within_a_frame_or_by_another_protocol() {
    let peer = upstream(|mut stream, head| {
        if head.contains("Upgrade: other") {
            stream.write_all(b"HTTP/1.1 101 Other\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")?;
            thread::sleep(Duration::from_millis(1500));
            return stream.write_all(b"other");
        }
        stream.write_all(format!("{SWITCH}\u{1}\u{3}a").as_bytes())?;
        thread::sleep(Duration::from_millis(1500));
        stream.write_all(b"bc\x80\x01")?;
        thread::sleep(Duration::from_millis(1500));
        stream.write_all(b"d")?;
        echo(stream)
    });
    let settings =
        "[timeouts]\nwebsocket_ping = \"500ms\"\n---\nproxy_upgrade = [\"websocket\", \"other\"]\n";
    let server = site(&peer, settings).start();
    let mut client = switched(server.connect());
    assert_eq!(client.read_exactly(5).expect("a frame"), b"\x01\x03abc");
    assert_eq!(client.read_exactly(3).expect("another one"), b"\x80\x01d");
    assert_eq!(client.read_exactly(2).expect("a ping"), PING);
    let mut client = server.connect();
    client.send(request("Connection: Upgrade\r\nUpgrade: other\r\n"));
    assert_eq!(client.read_response_to_head().status, 101);
    assert_eq!(client.read_to_end(), b"other");
}

#[test]
fn outlives_a_reload_and_ends_with_the_server() {
    let mut server = site(&upstream(switch_and_echo), "").start();
    let mut client = switched(server.connect());
    let before = server.serving_pid();
    server.signal(Signal::HUP);
    assert!(e2e::wait_until(TIMEOUT, || server.children().iter().any(|pid| *pid != before)));
    assert_eq!(server.get("/a.txt").text(), "a file");
    client.send("still here");
    assert_eq!(client.read_exactly(10).expect("more bytes"), b"still here");
    server.signal(Signal::TERM);
    assert!(client.is_finished(), "it ends with the server");
    let began = Instant::now();
    assert!(server.wait(TIMEOUT).success());
    assert!(began.elapsed() < Duration::from_secs(20), "it does not wait for `shutdown`");
}

#[test]
fn upgraded_connections_are_a_part_of_the_load_and_not_of_the_capacity() {
    for balance in ["least", "round_robin", "sticky"] {
        let (connected, accepted) = mpsc::channel();
        let of = |name: &'static str| {
            let connected = connected.clone();
            upstream(move |stream, head| {
                connected.send(name).expect("the test waits");
                match head.starts_with("GET /ws/chat") {
                    true => switch_and_echo(stream, head),
                    false => {
                        let mut stream = stream;
                        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                    }
                }
            })
        };
        let addresses = ["a", "b"].map(|name| of(name).replace("http://", ""));
        let config = format!(
            "workers = 1\n[[route]]\npath = \"/ws/\"\nproxy = \"http://app\"\n[[application]]\n\
             name = \"app\"\nprotocol = \"http\"\naddress = [\"{}\", \"{}\"]\nconnections = 1\nbalance = \"{balance}\"\n",
            addresses[0], addresses[1]
        );
        let server = Site::new().config(&config).start();
        // Six at a time, where each endpoint has a place for one.
        let mut clients: Vec<Client> = (0..6).map(|_| switched(server.connect())).collect();
        let found: Vec<&str> = accepted.try_iter().collect();
        assert_eq!(found.iter().filter(|name| **name == "a").count(), 3, "{balance}: {found:?}");
        let stats = server.stats();
        let requests = [0, 1].map(|at| stats["endpoints"][at]["requests"].as_u64());
        assert_eq!(requests, [Some(3); 2], "{balance}: those that last are counted");
        if balance == "least" {
            // They end at one endpoint, which then has the fewest.
            let of_a = found.iter().zip(&mut clients).filter(|(name, _)| **name == "a");
            of_a.for_each(|(_, client)| {
                client.half_close();
                assert_eq!(client.read_to_end(), b"");
            });
            let in_flight = || {
                let stats = server.stats();
                [0, 1].map(|at| stats["endpoints"][at]["in_flight"].as_u64().expect("a number"))
            };
            assert!(wait_until(TIMEOUT, || in_flight() == [0, 3]), "{:?}", in_flight());
            for _ in 0..4 {
                assert_eq!(server.get("/ws/plain").status, 200);
            }
            let found: Vec<&str> = accepted.try_iter().collect();
            assert_eq!(found, ["a"; 4]);
        }
    }
}
