//! Endpoints that end, reset or stop at each byte of a response, by HTTP/1.1 and HTTP/2: alone, with a cache in front,
//! with a second endpoint for retries, and with one for hedges. Each request ends in the whole response, in an error,
//! or visibly cut, and what was cut is never what a later request gets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use e2e::http2::{PREFACE, append, flag, frame};
use e2e::upstream::{read_head, read_headers};
use e2e::{Rows, Server, Site, TIMEOUT};
use rustix::net::sockopt::set_socket_linger;
use taipan_h2::hpack::{Indexing, write_field};

/// How an endpoint responds. The second byte of the path names the fault, and the rest of it the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It closes the connection.
    End,
    Reset,
    /// It sends no more.
    Stop,
    Twice,
    TooLong,
    TooShort,
}

const CUTS: [Fault; 2] = [Fault::End, Fault::Reset];

impl Fault {
    fn letter(self) -> char {
        match self {
            Fault::End => 'e',
            Fault::Reset => 'r',
            Fault::Stop => 's',
            Fault::Twice => 't',
            Fault::TooLong => 'l',
            Fault::TooShort => 'c',
        }
    }

    fn of(letter: u8) -> Option<Fault> {
        let all = [Fault::End, Fault::Reset, Fault::Stop, Fault::Twice, Fault::TooLong, Fault::TooShort];
        all.into_iter().find(|fault| fault.letter() == char::from(letter))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

const BODY: &str = "hello";

/// The bytes of a response whose content has another length than it announces by `surplus`.
fn response(protocol: Protocol, stream: u32, surplus: i64) -> Vec<u8> {
    let announced = (BODY.len() as i64 - surplus).to_string();
    match protocol {
        Protocol::Http1 => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {announced}\r\n\r\n{BODY}"
        )
        .into_bytes(),
        Protocol::Http2 => {
            let (mut block, mut bytes) = (Vec::new(), Vec::new());
            let fields =
                [(":status", "200"), ("cache-control", "max-age=60"), ("content-length", &announced)];
            for (name, value) in fields {
                write_field(&mut block, Indexing::Without, name.as_bytes(), value.as_bytes());
            }
            append(&mut bytes, frame::HEADERS, flag::END_HEADERS, stream, &block);
            append(&mut bytes, frame::DATA, flag::END_STREAM, stream, BODY.as_bytes());
            bytes
        }
    }
}

/// What is sent for a request of `path`, and what follows it.
fn faulty(protocol: Protocol, path: &str, stream: u32) -> (Vec<u8>, Fault) {
    let whole = response(protocol, stream, 0);
    let fault = path.as_bytes().get(1).copied().and_then(Fault::of).unwrap_or(Fault::Stop);
    let at = path.get(2..).and_then(|rest| rest.parse().ok()).unwrap_or(whole.len());
    let bytes = match fault {
        Fault::Twice => [&whole[..], &response(protocol, stream, 0)].concat(),
        Fault::TooLong => response(protocol, stream, 2),
        Fault::TooShort => response(protocol, stream, -2),
        Fault::End | Fault::Reset | Fault::Stop => whole[..at.min(whole.len())].to_vec(),
    };
    (bytes, fault)
}

/// The path of the first request, and its stream. Errors: the connection has ended.
fn first_request(stream: &mut TcpStream, protocol: Protocol) -> io::Result<(String, u32)> {
    if protocol == Protocol::Http1 {
        let head = read_head(stream)?;
        return Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), 0));
    }
    stream.read_exact(&mut [0; PREFACE.len()])?;
    let mut settings = Vec::new();
    append(&mut settings, frame::SETTINGS, 0, 0, b"");
    stream.write_all(&settings)?;
    let headers = read_headers(stream)?;
    let mut path = String::new();
    let read = |name: &[u8], value: &[u8]| {
        if name == b":path" {
            path = String::from_utf8_lossy(value).into_owned();
        }
        Ok::<(), taipan_h2::error::HpackError>(())
    };
    let mut decoder = taipan_h2::hpack::Decoder::new(taipan_h2::hpack::TABLE_SIZE, usize::MAX);
    decoder.decode(&headers.payload, read).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((path, headers.stream))
}

/// An endpoint whose connections have one request each. While `is_well`, its responses are whole.
fn endpoint(protocol: Protocol, is_well: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, is_well) = (stream.expect("it listens"), is_well.clone());
            thread::spawn(move || {
                let Ok((path, id)) = first_request(&mut stream, protocol) else { return };
                let (bytes, fault) = match is_well.load(Ordering::SeqCst) {
                    true => (response(protocol, id, 0), Fault::End),
                    false => faulty(protocol, &path, id),
                };
                // The server may have closed it.
                _ = stream.write_all(&bytes);
                match fault {
                    Fault::Reset => _ = set_socket_linger(&stream, Some(std::time::Duration::ZERO)),
                    Fault::End => {
                        _ = stream.shutdown(Shutdown::Write);
                        _ = io::copy(&mut stream, &mut io::sink());
                    }
                    _ => _ = io::copy(&mut stream, &mut io::sink()),
                }
            });
        }
    });
    address
}

/// What stands beside the first endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Cache,
    /// A second endpoint, which is well.
    Retry,
    Hedge,
}

struct Fixture {
    server: Server,
    is_well: Arc<AtomicBool>,
}

fn start(protocol: Protocol, beside: Beside) -> Fixture {
    let is_well = Arc::new(AtomicBool::new(false));
    let first = endpoint(protocol, is_well.clone());
    let second = endpoint(protocol, Arc::new(AtomicBool::new(true)));
    let cache = if beside == Beside::Cache { "response_cache = true\n" } else { "" };
    let endpoints = match beside {
        Beside::Nothing | Beside::Cache => format!("address = \"{first}\"\n"),
        Beside::Retry | Beside::Hedge => {
            format!("address = [\"{first}\", \"{second}\"]\nbalance = \"round_robin\"\nweights = [1000, 1]\n")
        }
    };
    let hedge = if beside == Beside::Hedge { "hedge_after = \"20ms\"\nhedge_budget = 100\n" } else { "" };
    let config = format!(
        "workers = 1\n[timeouts]\ndelay = 0\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n{cache}[[application]]\n\
         name = \"app\"\nprotocol = \"http\"\n{endpoints}{hedge}http2 = {}\nkeep = \"0s\"\nretries = 1\n\
         first_byte = \"1s\"\nidle = \"1s\"\n[application.health]\nfailures = 0\n",
        protocol == Protocol::Http2
    );
    Fixture { server: Site::new().config(&config).start(), is_well }
}

impl Fixture {
    fn get(&self, path: &str) -> String {
        self.server.connect().send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).outcome()
    }

    /// Requests `path` of an endpoint with a fault, and then of one that is well.
    fn check(&self, rows: &mut Rows, what: &str, path: &str, expected: &[&str]) {
        self.is_well.store(false, Ordering::SeqCst);
        let got = self.get(path);
        rows.holds(format!("{what} {path}: {got}"), &expected.join(" or "), expected.contains(&&*got));
        self.is_well.store(true, Ordering::SeqCst);
        rows.check(format!("{what}: behind {path}"), self.get(path).as_str(), "200 hello");
    }
}

/// A response that breaks off at each byte.
fn breaks_off(protocol: Protocol) {
    let mut rows = Rows::new();
    let length = response(protocol, 1, 0).len();
    for beside in [Beside::Nothing, Beside::Cache, Beside::Retry, Beside::Hedge] {
        let fixture = start(protocol, beside);
        let has_second = matches!(beside, Beside::Retry | Beside::Hedge);
        for fault in CUTS {
            for at in 0..=length {
                let expected: &[&str] = match at {
                    // A reset may overtake what was sent before it.
                    _ if at == length && fault == Fault::End => &["200 hello"],
                    0 if has_second => &["200 hello"],
                    _ if at == length || has_second => &["200 hello", "502", "cut"],
                    _ => &["502", "cut"],
                };
                let what = format!("{protocol:?} {beside:?} {fault:?}");
                fixture.check(&mut rows, &what, &format!("/{}{at}", fault.letter()), expected);
            }
        }
    }
}

#[test]
fn a_response_that_breaks_off_at_any_byte_by_http1_is_never_a_whole_one() {
    breaks_off(Protocol::Http1);
}

#[test]
fn a_response_that_breaks_off_at_any_byte_by_http2_is_never_a_whole_one() {
    breaks_off(Protocol::Http2);
}

/// A server whose endpoint sends this behind each head, and then does something with the connection.
fn in_front_of(response: &'static str, then: fn(&mut TcpStream)) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("it listens");
            read_head(&mut stream).expect("a request");
            stream.write_all(response.as_bytes()).expect("it reads");
            then(&mut stream);
        }
    });
    Site::new().config(&format!("[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n")).start()
}

/// A response that ends with its connection is not whole where the connection is reset.
#[test]
fn a_response_without_a_length_whose_connection_is_reset_is_never_a_whole_one() {
    let server = in_front_of("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhel", |stream| {
        set_socket_linger(stream, Some(std::time::Duration::ZERO)).expect("it is a socket");
    });
    let mut rows = Rows::new();
    for at in 0..50 {
        let request = format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(format!("request {at}"), server.connect().send(request).outcome().as_str(), "cut");
    }
}

/// The end of a response without a length is that of a whole one only if its connection is not reset, also where that
/// is noticed by sending the body of the request.
#[test]
fn a_response_whose_reset_is_met_by_the_body_of_its_request_is_never_a_whole_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let route =
        format!("[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\nresponse_buffering = false\n");
    let server = Site::new().config(&route).start();
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    let (mut stream, _) = listener.accept().expect("a connection");
    read_head(&mut stream).expect("a request");
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").expect("it reads");
    // Until the server waits for the client, with some of the response unread.
    stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).expect("it is a socket");
    while stream.write(&[b'x'; 65536]).is_ok() {}
    set_socket_linger(&stream, Some(std::time::Duration::ZERO)).expect("it is a socket");
    drop(stream);
    client.send("0123456789");
    assert_eq!(client.outcome(), "cut");
}

/// A client that leaves within its body, behind the head of the response, is no failure of the endpoint.
#[test]
fn an_endpoint_is_not_blamed_for_a_request_that_breaks_off_within_its_response() {
    let server = in_front_of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nearly", |stream| {
        _ = io::copy(stream, &mut io::sink());
    });
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    let mut received = Vec::new();
    while !received.ends_with(b"early") {
        received.extend(client.read_some().expect("the beginning of the response"));
    }
    client.half_close();
    assert!(client.is_closed());
    server.wait_for_line("warn: 127.0.0.1 \"POST /\": the body of the request has broken off", TIMEOUT);
    assert!(!server.stderr().contains("error:"), "{}", server.stderr());
    assert_eq!(server.count("scripts_failed"), 0);
}

#[test]
fn a_response_that_stops_or_has_another_length_is_never_a_whole_one() {
    // At the same time: each waits for its endpoint most of its time, and a busy one has its time to respond.
    thread::scope(|scope| {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            for beside in [Beside::Nothing, Beside::Cache, Beside::Retry, Beside::Hedge] {
                scope.spawn(move || stops_or_has_another_length(protocol, beside));
            }
        }
    });
}

fn stops_or_has_another_length(protocol: Protocol, beside: Beside) {
    let mut rows = Rows::new();
    let length = response(protocol, 1, 0).len();
    let fixture = start(protocol, beside);
    let what = format!("{protocol:?} {beside:?}");
    for at in [0, 1, 9, 20, length - BODY.len() - 1, length - BODY.len(), length - 1] {
        // A hedge responds while the head is awaited. What has begun has no other endpoint.
        let expected: &[&str] = match (beside, at < length - BODY.len()) {
            (Beside::Hedge, true) if protocol == Protocol::Http1 || at <= 20 => &["200 hello"],
            (Beside::Hedge, _) => &["200 hello", "502", "504", "cut"],
            (_, true) => &["502", "504", "cut"],
            (_, false) => &["502", "504", "cut"],
        };
        fixture.check(&mut rows, &what, &format!("/{}{at}", Fault::Stop.letter()), expected);
    }
    let (twice, long): (&[&str], &[&str]) = match (protocol, beside) {
        // On a busy machine, a hedge responds before the first endpoint does.
        (Protocol::Http1, Beside::Hedge) => (&["200 hello"], &["200 hel", "200 hello"]),
        (Protocol::Http2, Beside::Hedge) => (&["200 hello", "502", "cut"], &["502", "cut", "200 hello"]),
        // What follows the announced end belongs to no response.
        (Protocol::Http1, _) => (&["200 hello"], &["200 hel"]),
        (Protocol::Http2, _) => (&["200 hello", "502", "cut"], &["502", "cut"]),
    };
    let short: &[&str] = match beside {
        Beside::Hedge => &["502", "504", "cut", "200 hello"],
        _ => &["502", "504", "cut"],
    };
    fixture.check(&mut rows, &what, &format!("/{}", Fault::Twice.letter()), twice);
    // The announced part is the response: another path is asked behind it.
    fixture.is_well.store(false, Ordering::SeqCst);
    let got = fixture.get(&format!("/{}", Fault::TooLong.letter()));
    rows.holds(format!("{what} too long: {got}"), &long.join(" or "), long.contains(&&*got));
    fixture.check(&mut rows, &what, &format!("/{}", Fault::TooShort.letter()), short);
}
