//! HTTP/2 upstreams that break the rules of frames, streams, field blocks and windows: each request ends in a whole
//! response, in 502, or visibly cut, and the next one is answered. The peer is a thread of the test.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use e2e::http2::{PREFACE, append, flag, frame};
use e2e::upstream::read_headers;
use e2e::{Rows, Server, Site, TIMEOUT, wait_until};
use taipan_h2::error::HpackError;
use taipan_h2::hpack::{Decoder, Indexing, TABLE_SIZE, write_field};

/// `:status: 200`, by the static table.
const OK: &[u8] = &[0x88];

struct Row {
    name: &'static str,
    /// The frames for a request on this stream.
    frames: fn(u32) -> Vec<u8>,
    /// What the client may get.
    expected: &'static [&'static str],
}

fn row(name: &'static str, frames: fn(u32) -> Vec<u8>, expected: &'static [&'static str]) -> Row {
    Row { name, frames, expected }
}

fn one(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, kind, flags, stream, payload);
    bytes
}

fn head(stream: u32, block: &[u8]) -> Vec<u8> {
    one(frame::HEADERS, flag::END_HEADERS, stream, block)
}

fn with(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        write_field(&mut block, Indexing::Without, name.as_bytes(), value.as_bytes());
    }
    block
}

fn data(stream: u32, content: &str) -> Vec<u8> {
    one(frame::DATA, 0, stream, content.as_bytes())
}

fn last(stream: u32, content: &str) -> Vec<u8> {
    one(frame::DATA, flag::END_STREAM, stream, content.as_bytes())
}

fn hello(stream: u32) -> Vec<u8> {
    [head(stream, OK), last(stream, "hello")].concat()
}

fn goaway(stream: u32, code: u32) -> Vec<u8> {
    one(frame::GOAWAY, 0, 0, &[stream.to_be_bytes(), code.to_be_bytes()].concat())
}

fn window(stream: u32, bytes: u32) -> Vec<u8> {
    one(frame::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

const WHOLE: &[&str] = &["200 hello"];
const NONE: &[&str] = &["502"];
/// It depends on how much has come when the rule is broken.
const NONE_OR_CUT: &[&str] = &["502", "cut"];

fn rows() -> Vec<Row> {
    vec![
        row("a response", hello, WHOLE),
        row("a frame of an unknown type", |s| [one(99, 0xff, s, b"x"), hello(s)].concat(), WHOLE),
        row(
            "padding",
            |s| [head(s, OK), one(frame::DATA, flag::PADDED | 1, s, b"\x02hello\0\0")].concat(),
            WHOLE,
        ),
        row(
            "more padding than payload",
            |s| [head(s, OK), one(frame::DATA, flag::PADDED | 1, s, b"\x09hello")].concat(),
            NONE_OR_CUT,
        ),
        row("content before the head", |s| last(s, "hello"), NONE),
        row("a head of another stream", |s| hello(s + 2), NONE),
        row("a head of stream 0", |_| hello(0), NONE),
        row("a stream of the server", |_| hello(2), NONE),
        row(
            "a promise",
            |s| one(frame::PUSH_PROMISE, flag::END_HEADERS, s, &[&2u32.to_be_bytes(), OK].concat()),
            NONE,
        ),
        row("too large a frame", |s| [&[0xff, 0xff, 0xff, 0, 0][..], &s.to_be_bytes()].concat(), NONE),
        row("half a frame", |s| hello(s)[..5].to_vec(), NONE),
        row(
            "half a frame of content",
            |s| {
                let all = hello(s);
                all[..all.len() - 2].to_vec()
            },
            NONE_OR_CUT,
        ),
        row("nothing", |_| Vec::new(), NONE),
        row("HTTP/1.1", |_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec(), NONE),
        row("a reset", |s| one(frame::RST_STREAM, 0, s, &2u32.to_be_bytes()), NONE),
        row("a reset without an error", |s| one(frame::RST_STREAM, 0, s, &0u32.to_be_bytes()), NONE),
        row(
            "a reset within",
            |s| [head(s, OK), data(s, "hel"), one(frame::RST_STREAM, 0, s, &2u32.to_be_bytes())].concat(),
            NONE_OR_CUT,
        ),
        row("a reset of stream 0", |_| one(frame::RST_STREAM, 0, 0, &2u32.to_be_bytes()), NONE),
        row("an end within", |s| [head(s, OK), data(s, "hel")].concat(), NONE_OR_CUT),
        row("GOAWAY with an error", |_| goaway(0, 1), NONE),
        row("GOAWAY ahead", |s| [goaway(s, 0), hello(s)].concat(), WHOLE),
        row(
            "GOAWAY in the middle",
            |s| [head(s, OK), data(s, "hel"), goaway(s, 0), last(s, "lo")].concat(),
            WHOLE,
        ),
        row("GOAWAY within", |s| [head(s, OK), data(s, "hel"), goaway(s, 2)].concat(), NONE_OR_CUT),
        row(
            "too short",
            |s| [head(s, &with(&[(":status", "200"), ("content-length", "9")])), last(s, "hello")].concat(),
            NONE_OR_CUT,
        ),
        row(
            "too long",
            |s| [head(s, &with(&[(":status", "200"), ("content-length", "3")])), last(s, "hello")].concat(),
            NONE_OR_CUT,
        ),
        row(
            "two lengths",
            |s| {
                [
                    head(s, &with(&[(":status", "200"), ("content-length", "5"), ("content-length", "6")])),
                    last(s, "hello"),
                ]
                .concat()
            },
            NONE_OR_CUT,
        ),
        row(
            "a length of letters",
            |s| [head(s, &with(&[(":status", "200"), ("content-length", "x")])), last(s, "hello")].concat(),
            NONE,
        ),
        row("an index of nothing", |s| head(s, &[0x88, 0xfe]), NONE),
        row("an endless number", |s| head(s, &[0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), NONE),
        row("a block that ends early", |s| head(s, &[0x88, 0x00, 0x05, b'a']), NONE),
        // Each further byte stands for 4,000.
        row(
            "an HPACK bomb",
            |s| {
                let mut block = OK.to_vec();
                write_field(&mut block, Indexing::Incremental, b"a", &[b'b'; 4000]);
                block.extend([0xbe; 12_000]);
                [head(s, &block), last(s, "hello")].concat()
            },
            NONE,
        ),
        row(
            "endless continuations",
            |s| {
                let begin = one(frame::HEADERS, 0, s, OK);
                let more = one(frame::CONTINUATION, 0, s, &[0x00, 0x01, b'a', 0x01, b'b']);
                [begin, more.repeat(50_000)].concat()
            },
            NONE,
        ),
        row(
            "empty continuations",
            |s| [one(frame::HEADERS, 0, s, OK), one(frame::CONTINUATION, 0, s, b"").repeat(50_000)].concat(),
            NONE,
        ),
        row(
            "another frame within a block",
            |s| [one(frame::HEADERS, 0, s, OK), one(frame::PING, 0, 0, b"12345678")].concat(),
            NONE,
        ),
        row("a continuation of nothing", |s| one(frame::CONTINUATION, flag::END_HEADERS, s, OK), NONE),
        row(
            "more than the window",
            |s| [head(s, OK), data(s, &"x".repeat(16_000)).repeat(600)].concat(),
            NONE_OR_CUT,
        ),
        row("an empty update of the window", |s| window(s, 0), NONE),
        row("an empty update of the connection's", |_| window(0, 0), NONE),
        row("too large a window", |_| window(0, 0x7fff_ffff).repeat(2), NONE),
        row("settings of 5 bytes", |_| one(frame::SETTINGS, 0, 0, b"12345"), NONE),
        row(
            "too large an initial window",
            |_| one(frame::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]),
            NONE,
        ),
        row("a ping of 7 bytes", |_| one(frame::PING, 0, 0, b"1234567"), NONE),
        row("no status", |s| [head(s, &with(&[("a", "b")])), last(s, "hello")].concat(), NONE),
        row(
            "a status of letters",
            |s| [head(s, &with(&[(":status", "abc")])), last(s, "hello")].concat(),
            NONE,
        ),
        row(
            "a switch of the protocol",
            |s| [head(s, &with(&[(":status", "101")])), last(s, "hello")].concat(),
            NONE,
        ),
        row(
            "an interim response",
            |s| [head(s, &with(&[(":status", "103")])), hello(s)].concat(),
            &["103, 200 hello"],
        ),
        row(
            "an interim response that ends",
            |s| one(frame::HEADERS, flag::END_HEADERS | flag::END_STREAM, s, &with(&[(":status", "103")])),
            &["103, 502", "502"],
        ),
        row(
            "a name in capitals",
            |s| [head(s, &with(&[(":status", "200"), ("X-A", "b")])), last(s, "hello")].concat(),
            NONE,
        ),
        row(
            "a field of connections",
            |s| [head(s, &with(&[(":status", "200"), ("connection", "close")])), last(s, "hello")].concat(),
            NONE,
        ),
        row(
            "chunks",
            |s| {
                [head(s, &with(&[(":status", "200"), ("transfer-encoding", "chunked")])), last(s, "hello")]
                    .concat()
            },
            NONE,
        ),
        row(
            "a line end in a value",
            |s| [head(s, &with(&[(":status", "200"), ("a", "b\r\nc: d")])), last(s, "hello")].concat(),
            NONE,
        ),
        row(
            "trailers that do not end",
            |s| [hello(s)[..14].to_vec(), data(s, "hel"), head(s, &with(&[("a", "b")]))].concat(),
            NONE_OR_CUT,
        ),
    ]
}

/// Sends the frames of the present row for each request, and closes if that is not the first one.
fn serve(mut stream: TcpStream, present: &AtomicUsize) -> io::Result<()> {
    let rows = rows();
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&one(frame::SETTINGS, 0, 0, b""))?;
    loop {
        let headers = read_headers(&mut stream)?;
        let at = present.load(Ordering::SeqCst);
        // The server may have closed before the end.
        _ = stream.write_all(&(rows[at].frames)(headers.stream));
        if at > 0 {
            _ = stream.shutdown(Shutdown::Write);
            _ = io::copy(&mut stream, &mut io::sink());
            return Ok(());
        }
    }
}

fn get(server: &Server) -> String {
    server.connect().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").outcome()
}

#[test]
fn faults_of_http2_upstreams_end_in_a_response_or_visibly() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let present = Arc::new(AtomicUsize::new(0));
    let of_peer = present.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, present) = (stream.expect("it listens"), of_peer.clone());
            thread::spawn(move || _ = serve(stream, &present));
        }
    });
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"http\"\naddress = \"{address}\"\nhttp2 = true\n"
    );
    let server = Site::new().config(&config).start();
    let mut found = Rows::new();
    for (at, row) in rows().iter().enumerate() {
        present.store(at, Ordering::SeqCst);
        let got = get(&server);
        found.holds(
            format!("{}: {got}", row.name),
            &row.expected.join(" or "),
            row.expected.contains(&&*got),
        );
        present.store(0, Ordering::SeqCst);
        found.check(format!("behind {}", row.name), get(&server).as_str(), "200 hello");
    }
}

/// Answers `/slow` on every connection but the first, `/bad` by a field that is malformed, and anything else at once.
/// Counts the requests for `/slow` on the first connection.
fn serve_malformed(mut stream: TcpStream, number: usize, slow: &AtomicUsize) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&one(frame::SETTINGS, 0, 0, b""))?;
    let mut decoder = Decoder::new(TABLE_SIZE, usize::MAX);
    loop {
        let headers = read_headers(&mut stream)?;
        let mut path = Vec::new();
        let read = |name: &[u8], value: &[u8]| {
            if name == b":path" {
                path = value.to_vec();
            }
            Ok::<(), HpackError>(())
        };
        decoder.decode(&headers.payload, read).map_err(|_| io::ErrorKind::InvalidData)?;
        let response = match (path.as_slice(), number) {
            (b"/slow", 0) => {
                slow.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            (b"/bad", _) => head(headers.stream, &with(&[(":status", "200"), ("X-A", "b")])),
            _ => hello(headers.stream),
        };
        stream.write_all(&response)?;
    }
}

#[test]
fn a_malformed_response_fails_no_other_request_of_its_connection() {
    const SLOW: usize = 8;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (slow, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (of_peer, opened) = (slow.clone(), connections.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, slow) = (stream.expect("it listens"), of_peer.clone());
            let number = opened.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || _ = serve_malformed(stream, number, &slow));
        }
    });
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"http\"\naddress = \"{address}\"\nhttp2 = true\nretries = 0\n"
    );
    let server = Site::new().config(&config).start();
    assert_eq!(get(&server), "200 hello");
    let send = |request: &str| {
        let mut client = server.connect();
        client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut clients: Vec<_> = (0..SLOW).map(|_| send("GET /slow")).collect();
    let mut post = send("POST /slow");
    assert!(wait_until(TIMEOUT, || slow.load(Ordering::SeqCst) == SLOW + 1), "they share a connection");
    assert_eq!(send("GET /bad").outcome(), "502");
    for client in &mut clients {
        assert_eq!(client.outcome(), "200 hello");
    }
    assert_eq!(post.outcome(), "502", "it may have been processed");
    // One for each that is sent again.
    assert_eq!(connections.load(Ordering::SeqCst), 1 + SLOW + 1);
    ["GET /bad", "POST /slow"].into_iter().for_each(|of| _ = server.wait_for_line(of, TIMEOUT));
    let errors = server.stderr();
    let line = |of: &str| errors.lines().find(|line| line.contains(of)).unwrap_or_default().to_owned();
    let (bad, other) = (line("GET /bad"), line("POST /slow"));
    assert!(bad.ends_with("it breaks a rule of HTTP/2, as by a malformed field: PROTOCOL_ERROR"), "{errors}");
    assert!(other.ends_with(", perhaps in the response to another request"), "{errors}");
}

#[test]
fn a_post_is_repeated_if_the_connection_has_ended_in_front_of_it_with_an_error() {
    /// The streams that are processed on the first connection, before `GOAWAY`.
    fn serve_one(mut stream: TcpStream, number: usize, processed: u32) -> io::Result<()> {
        stream.read_exact(&mut [0; PREFACE.len()])?;
        stream.write_all(&one(frame::SETTINGS, 0, 0, b""))?;
        loop {
            let headers = read_headers(&mut stream)?;
            if number > 0 {
                stream.write_all(&hello(headers.stream))?;
                continue;
            }
            // ENHANCE_YOUR_CALM.
            stream.write_all(&goaway(processed, 11))?;
            _ = stream.shutdown(Shutdown::Write);
            _ = io::copy(&mut stream, &mut io::sink());
            return Ok(());
        }
    }
    for (processed, expected) in [(0, "200 hello"), (1, "502")] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let stream = stream.expect("it listens");
                thread::spawn(move || _ = serve_one(stream, number, processed));
            }
        });
        let config = format!(
            "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\n\
             protocol = \"http\"\naddress = \"{address}\"\nhttp2 = true\n"
        );
        let server = Site::new().config(&config).start();
        let post = "POST / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(server.connect().send(post).outcome(), expected, "{processed}: {}", server.stderr());
    }
}
