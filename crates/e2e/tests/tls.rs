//! TLS: versions and ciphers, handshakes and records that no proper client sends, and how a connection ends.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e::http2::{Http2, Http2Request, flag, frame};
use e2e::records::{
    ALERT, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, Incoming, MAX_CONTENT, Raw, Traffic, client_hello,
    fragmented, outgoing, record,
};
use e2e::{Client, Random, ReadError, Rows, Server, Site, TIMEOUT, Tls, tool, wait_until};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion};

const CONTENT: &str = "hello\n";
const LISTEN: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\n\
                      certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"";
const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Suites of TLS 1.2 that are secure: ECDHE-ECDSA with AES-GCM and with ChaCha20.
const SECURE: &[u16] = &[0xc02b, 0xc02c, 0xcca9];
/// The alerts of RFC 8446 §6, as tests expect them.
const UNEXPECTED_MESSAGE: &str = "alert 10";
const HANDSHAKE_FAILURE: &str = "alert 40";
const DECODE_ERROR: &str = "alert 50";
const PROTOCOL_VERSION: &str = "alert 70";

/// A site with a plain listener and one for TLS.
fn site() -> Site {
    Site::new()
        .certificate()
        .config(LISTEN)
        .file("a.txt", CONTENT)
        .file("big.bin", Random::new(1).bytes(300_000))
}

/// The address of the listener for TLS.
fn secure(server: &Server) -> SocketAddr {
    server.tcp(1)
}

fn client(server: &Server) -> Client {
    Client::tls(secure(server), &Tls::new())
}

/// Whether the server still serves another client.
fn still_serves(server: &Server) {
    assert_eq!(client(server).get("/a.txt").text(), CONTENT);
    assert_eq!(server.get("/a.txt").text(), CONTENT);
}

#[test]
fn speaks_tls_1_2_and_1_3_and_nothing_older() {
    let server = site().start();
    let mut rows = Rows::new();
    for (version, expected) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut client = Client::tls(secure(&server), &Tls::version(version));
        rows.check(format!("{expected:?}"), client.get("/a.txt").text().as_str(), CONTENT);
        rows.check("negotiated", client.tls_state().protocol_version(), Some(expected));
    }
    for (name, version, expected) in [
        ("SSL 3.0", [3, 0], PROTOCOL_VERSION),
        ("TLS 1.0", [3, 1], PROTOCOL_VERSION),
        ("TLS 1.1", [3, 2], PROTOCOL_VERSION),
        ("TLS 1.2", [3, 3], "ServerHello"),
        // Higher versions are negotiated by an extension, so this is 1.2 (RFC 8446 §4.1.2).
        ("a version to come", [3, 9], "ServerHello"),
    ] {
        let mut raw = Raw::connect(secure(&server));
        raw.send(&client_hello(version, SECURE, &[0]));
        rows.check(name, raw.outcome().as_str(), expected);
    }
    let why = "failed: the client offers TLS 1.1 at most, which this server does not speak";
    rows.holds("the log", &server.stderr(), wait_until(TIMEOUT, || server.stderr().contains(why)));
    still_serves(&server);
}

#[test]
fn a_version_can_be_switched_off() {
    let server = site().config("[tls]\nversions = [\"1.3\"]").start();
    let mut raw = Raw::connect(secure(&server));
    raw.send(&client_hello([3, 3], SECURE, &[0]));
    assert_eq!(raw.outcome(), PROTOCOL_VERSION);
    still_serves(&server);
}

#[test]
fn accepts_only_suites_with_forward_secrecy_and_authenticated_encryption() {
    let server = site().start();
    let mut rows = Rows::new();
    for (name, suites, expected) in [
        ("ECDHE-ECDSA-AES128-GCM", &[0xc02b][..], "ServerHello"),
        ("ECDHE-ECDSA-AES256-GCM", &[0xc02c], "ServerHello"),
        ("ECDHE-ECDSA-CHACHA20", &[0xcca9], "ServerHello"),
        // A known one behind unknown ones and a reserved value (RFC 8701).
        ("GREASE", &[0x0a0a, 0xfefe, 0xc02b], "ServerHello"),
        ("NULL", &[0x0000, 0x0001, 0x0002, 0xc006], HANDSHAKE_FAILURE),
        ("EXPORT", &[0x0003, 0x0006, 0x0008, 0x0014], HANDSHAKE_FAILURE),
        ("RC4", &[0x0004, 0x0005, 0xc007, 0xc011], HANDSHAKE_FAILURE),
        ("DES and 3DES", &[0x0009, 0x000a, 0x0016, 0xc008, 0xc012], HANDSHAKE_FAILURE),
        ("CBC", &[0xc009, 0xc00a, 0xc023, 0xc024], HANDSHAKE_FAILURE),
        ("RSA key exchange", &[0x002f, 0x0035, 0x009c, 0x009d], HANDSHAKE_FAILURE),
        ("anonymous", &[0x0018, 0x001b, 0x0034, 0x00a6, 0xc018], HANDSHAKE_FAILURE),
        ("DHE", &[0x0033, 0x0039, 0x009e, 0x009f], HANDSHAKE_FAILURE),
        ("none that is known", &[0x0a0a, 0xfefe], HANDSHAKE_FAILURE),
    ] {
        let mut raw = Raw::connect(secure(&server));
        raw.send(&client_hello([3, 3], suites, &[0]));
        rows.check(name, raw.outcome().as_str(), expected);
    }
    // CRIME: a client that offers compression gets none, and one that offers nothing else is rejected.
    let mut raw = Raw::connect(secure(&server));
    raw.send(&client_hello([3, 3], SECURE, &[1, 0]));
    match raw.read() {
        Incoming::Record { kind: HANDSHAKE, content } => {
            // Version, random, session, suite.
            let session = usize::from(content[38]);
            rows.check("compression", content[39 + session + 2], 0);
        }
        other => panic!("{other:?}"),
    }
    still_serves(&server);
}

#[test]
fn marks_a_downgrade_to_tls_1_2() {
    let server = site().start();
    let mut raw = Raw::connect(secure(&server));
    raw.send(&client_hello([3, 3], SECURE, &[0]));
    let Incoming::Record { kind: HANDSHAKE, content } = raw.read() else { panic!("no ServerHello") };
    // The end of the random number (RFC 8446 §4.1.3).
    assert_eq!(&content[30..38], b"DOWNGRD\x01");
}

#[test]
fn rejects_a_renegotiation() {
    let server = site().start();
    let mut openssl = tool("openssl");
    openssl.args(["s_client", "-tls1_2", "-connect", &secure(&server).to_string()]);
    openssl.stdin(std::process::Stdio::piped());
    let mut child = openssl.spawn().expect("openssl starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    // `R` is the command to renegotiate, and is read once the handshake is done.
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Verify return code") {
        let mut space = [0; 4096];
        match stdout.read(&mut space) {
            Ok(count @ 1..) => seen.extend_from_slice(&space[..count]),
            _ => break,
        }
    }
    std::io::Write::write_all(&mut stdin, b"R\n").expect("openssl reads");
    let output = child.wait_with_output().expect("it is our child");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("RENEGOTIATING") && errors.contains("renegotiation"), "{errors}");
    drop(stdin);
    still_serves(&server);
}

#[test]
fn tolerates_a_change_cipher_spec_for_middleboxes_and_no_flood_of_them() {
    let server = site().start();
    let ccs = record(CHANGE_CIPHER_SPEC, &[1]);
    let mut rows = Rows::new();
    // rustls itself sends one in a handshake of TLS 1.3.
    for (more, expected) in [(0, "HTTP/1.1 200 OK"), (10_000, "Closed")] {
        let mut raw = Raw::connect(secure(&server));
        let mut is_first = true;
        let connection = raw.handshake(&Tls::version(&TLS13), |bytes| {
            let is_hello = std::mem::replace(&mut is_first, false);
            if is_hello { [bytes, ccs.repeat(more)].concat() } else { bytes }
        });
        // The client has all that it needs. The library has no alert for a flood.
        let found = match connection {
            Ok(mut connection) => {
                std::io::Write::write_all(&mut connection.writer(), GET).expect("a Vec takes all");
                raw.send(&outgoing(&mut connection));
                response(&mut raw, &mut connection).unwrap_or_else(|why| why)
            }
            Err(why) => why,
        };
        rows.check(format!("{more} more"), found.as_str(), expected);
    }
    // After the handshake there is none.
    let mut raw = Raw::connect(secure(&server));
    let mut keys = raw.keys(&Tls::version(&TLS13));
    raw.send(&ccs);
    rows.check("after the handshake", raw.sealed_outcome(&mut keys).as_str(), UNEXPECTED_MESSAGE);
    still_serves(&server);
}

/// The status line that comes next. Errors: why there is none.
fn response(raw: &mut Raw, connection: &mut rustls::ClientConnection) -> Result<String, String> {
    loop {
        raw.feed(connection)?;
        let mut space = [0; 15];
        if connection.reader().read_exact(&mut space).is_ok() {
            return Ok(String::from_utf8_lossy(&space).into_owned());
        }
    }
}

/// Otherwise a reset may destroy the alert before the client has read it.
#[test]
fn reads_what_follows_an_error_until_the_client_closes() {
    let server = site().start();
    let mut raw = Raw::connect(secure(&server));
    raw.send(&record(HANDSHAKE, &[99, 0, 0, 1, 0]));
    let outcome = raw.outcome();
    assert!(outcome.starts_with("alert "), "{outcome}");
    assert_eq!(raw.outcome(), "closed");
    for write in 0..3 {
        let sent = std::io::Write::write_all(&mut raw.socket, &[0; 1000]);
        assert!(sent.is_ok(), "write {write}: {sent:?}");
    }
}

#[test]
fn a_handshake_may_come_in_fragments_of_one_byte() {
    let server = site().start();
    let mut rows = Rows::new();
    for version in [&TLS12, &TLS13] {
        // Each byte in its own record.
        let mut raw = Raw::connect(secure(&server));
        let connection = raw.handshake(&Tls::version(version), |bytes| fragmented(bytes, 1));
        rows.check(format!("{:?} in records", version), connection.map(|_| ()), Ok(()));
        // Each byte in its own packet, the request too.
        let mut raw = Raw::connect(secure(&server));
        let mut dribble = raw.socket.try_clone().expect("there is a descriptor left");
        let connection = raw.handshake(&Tls::version(version), |bytes| {
            for byte in bytes {
                std::io::Write::write_all(&mut dribble, &[byte]).expect("the server reads");
            }
            Vec::new()
        });
        rows.check(format!("{:?} in packets", version), connection.map(|_| ()), Ok(()));
    }
    still_serves(&server);
}

#[test]
fn a_request_may_come_in_records_of_any_size() {
    let server = site().start();
    let mut rows = Rows::new();
    for (name, size, padding, empty) in [
        ("one record", GET.len(), 0, 0),
        ("a byte each", 1, 0, 0),
        ("padded", 7, 100, 0),
        ("with an empty one each", 3, 0, 1),
        ("padded to the most", GET.len(), MAX_CONTENT - GET.len(), 0),
    ] {
        let mut raw = Raw::connect(secure(&server));
        let mut keys = raw.keys(&Tls::version(&TLS13));
        let mut bytes = Vec::new();
        for piece in GET.chunks(size) {
            bytes.extend((0..empty).flat_map(|_| keys.sealing.seal(DATA, &[], 0)));
            bytes.extend(keys.sealing.seal(DATA, piece, padding));
        }
        raw.send(&bytes);
        rows.check(name, raw.sealed_outcome(&mut keys).as_str(), "HTTP/1.1 200 OK");
    }
}

#[test]
fn rejects_records_that_are_too_long_or_not_authentic() {
    let server = site().start();
    let mut rows = Rows::new();
    // Before the handshake. What is no handshake gets a response without TLS, which is no record.
    for (name, bytes, expected) in [
        ("a handshake of more than 2^14 bytes", record(HANDSHAKE, &[1; MAX_CONTENT + 2049]), "alert "),
        ("data", record(DATA, b"GET / HTTP/1.1\r\n\r\n"), "closed"),
        ("an alert", record(ALERT, &[2, 40]), "closed"),
        ("an empty handshake", record(HANDSHAKE, &[]), "alert "),
        ("an unknown message", record(HANDSHAKE, &[99, 0, 0, 1, 0]), "alert "),
        ("a message of 16 MB", record(HANDSHAKE, &[1, 0xff, 0xff, 0xff, 3, 3]), DECODE_ERROR),
    ] {
        let mut raw = Raw::connect(secure(&server));
        raw.send(&bytes);
        let outcome = raw.outcome();
        rows.holds(name, &format!("{expected}, not: {outcome}"), outcome.starts_with(expected));
    }
    // Under the keys of the session. Without a type there is no alert either: the library has none for it.
    type Make = fn(&mut Traffic) -> Vec<u8>;
    let sealed: &[(&str, Make, &str)] = &[
        ("the longest record", |keys| keys.seal(DATA, &[b'a'; MAX_CONTENT], 0), "HTTP/1.1 "),
        ("content of more than 2^14 bytes", |keys| keys.seal(DATA, &[b'a'; MAX_CONTENT + 1], 0), "alert 22"),
        (
            "a record of more than 2^14 + 256 bytes",
            |keys| keys.seal(DATA, &[b'a'; MAX_CONTENT], 300),
            "alert 22",
        ),
        ("no type", |keys| keys.seal(0, &[], 100), "closed"),
        ("an unknown type", |keys| keys.seal(99, b"abc", 0), "alert "),
        ("a handshake message", |keys| keys.seal(HANDSHAKE, &[1, 0, 0, 0], 0), "alert "),
        (
            "a record under the wrong key",
            |keys| {
                let mut record = keys.seal(DATA, GET, 0);
                let last = record.len() - 1;
                record[last] ^= 1;
                record
            },
            "alert 20",
        ),
        ("plaintext", |_| record(ALERT, &[1, 0]), "alert "),
    ];
    for (name, make, expected) in sealed {
        let mut raw = Raw::connect(secure(&server));
        let mut keys = raw.keys(&Tls::version(&TLS13));
        raw.send(&make(&mut keys.sealing));
        if expected.starts_with("HTTP") {
            // More of the head than a server takes.
            raw.send(&keys.sealing.seal(DATA, &[b'a'; MAX_CONTENT], 0));
            raw.send(&keys.sealing.seal(DATA, &[b'a'; MAX_CONTENT], 0));
        }
        let outcome = raw.sealed_outcome(&mut keys);
        rows.holds(name, &format!("{expected}, not: {outcome}"), outcome.starts_with(expected));
    }
    still_serves(&server);
}

#[test]
fn a_flood_of_records_without_content_does_not_delay_others() {
    let server = site().start();
    for (name, kind, content) in
        [("empty data", DATA, &[][..]), ("key updates", HANDSHAKE, &[24, 0, 0, 1, 0][..])]
    {
        let mut raw = Raw::connect(secure(&server));
        let mut keys = raw.keys(&Tls::version(&TLS13));
        // Made before, so that the server has more to do than the client.
        let flood: Vec<u8> = (0..100_000).flat_map(|_| keys.sealing.seal(kind, content, 0)).collect();
        let ended = AtomicBool::new(false);
        let mut longest = Duration::ZERO;
        thread::scope(|scope| {
            scope.spawn(|| {
                raw.send(&flood);
                ended.store(true, Ordering::Relaxed);
            });
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                let mut client = client(&server);
                let served = client.try_send(GET).is_ok() && client.try_read_response().is_ok();
                longest = longest.max(if served { began.elapsed() } else { TIMEOUT });
            }
        });
        assert!(longest < Duration::from_secs(1), "{name}: another client waited for {longest:?}");
    }
    still_serves(&server);
}

#[test]
fn ends_every_connection_with_a_close_notify() {
    let site = site()
        .script("stream.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nhead -c 3000000 /dev/zero\n")
        .script("dies.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\nabcdef'\nsleep 0.2\nkill -9 $$\n");
    let site = site.config("[[route]]\npath = \"*.cgi\"\ncgi = true\n[timeouts]\nidle = \"1s\"");
    let server = site.start();
    let mut rows = Rows::new();
    for version in [&TLS12, &TLS13] {
        let tls = Tls::version(version);
        for (request, body) in [
            ("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", CONTENT.len()),
            ("GET /a.txt HTTP/1.0\r\n\r\n", CONTENT.len()),
            ("GET /big.bin HTTP/1.0\r\n\r\n", 300_000),
            ("GET /none HTTP/1.0\r\n\r\n", 0),
            ("BAD\r\n\r\n", 0),
            // The end of the body is the end of the connection.
            ("GET /stream.cgi HTTP/1.0\r\n\r\n", 3_000_000),
        ] {
            let mut client = Client::tls(secure(&server), &tls);
            client.send(request);
            let response = client.try_read_response();
            rows.holds(
                request,
                &format!("there is a whole response: {response:?}").chars().take(300).collect::<String>(),
                response.is_ok(),
            );
            let length = response.map_or(0, |response| response.body.len());
            rows.holds(request, &format!("{length} bytes are enough"), length >= body);
            rows.holds(request, "the end is a close_notify", client.is_finished());
        }
        // The idle timeout.
        let mut client = Client::tls(secure(&server), &tls);
        client.get("/a.txt");
        rows.holds("idle", "the end is a close_notify", client.is_finished());
        // A body that has no end must not look complete.
        let mut client = Client::tls(secure(&server), &tls);
        client.send("GET /dies.cgi HTTP/1.0\r\n\r\n");
        let read = client.try_read_response();
        rows.holds("a script that dies", &format!("is no whole response: {read:?}"), read.is_err());
        let mut client = Client::tls(secure(&server), &tls);
        client.send("GET /dies.cgi HTTP/1.1\r\nHost: h\r\n\r\n");
        let read = client.try_read_response();
        rows.holds("a script that dies", &format!("is no whole response: {read:?}"), read.is_err());
    }
}

#[test]
fn a_slow_reader_gets_the_close_notify_behind_the_whole_body() {
    let script = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nhead -c 4000000 /dev/zero\n";
    let server = site().script("a.cgi", script).config("[[route]]\npath = \"*.cgi\"\ncgi = true").start();
    let mut client = client(&server);
    client.set_receive_buffer(64 * 1024);
    client.send("GET /a.cgi HTTP/1.0\r\n\r\n");
    // Time for the server to fill all buffers between it and the client.
    thread::sleep(Duration::from_millis(500));
    let response = client.read_response();
    assert_eq!(response.body.len(), 4_000_000);
    assert!(client.is_finished(), "no close_notify");
}

#[test]
fn a_body_that_is_cut_is_not_a_complete_one() {
    // It would go on behind the end of its input, whatever else it gets.
    let script = "#!/bin/sh\ntrap '' TERM\ncat >\"$PWD/../got\"\nmv \"$PWD/../got\" \"$PWD/../complete\"\n\
                  echo 'X-A: b'\necho\n";
    let server = site().script("put.cgi", script).config("[[route]]\npath = \"*.cgi\"\ncgi = true").start();
    for body in ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let mut client = client(&server);
        client.send(format!("POST /put.cgi HTTP/1.1\r\nHost: h\r\n{body}"));
        // Without a close_notify, and with one. A body without a length is stored before the script starts.
        if body.contains("chunked") {
            client.half_close();
        } else {
            assert!(wait_until(TIMEOUT, || server.home().join("got").exists()), "the script starts");
        }
        drop(client);
        still_serves(&server);
    }
    // Time for a script that has the end of its input to go on.
    thread::sleep(Duration::from_millis(300));
    assert!(!server.home().join("complete").exists(), "a script has a body that is cut for a complete one");
}

#[test]
fn a_client_may_half_close_after_its_request() {
    let script = "#!/bin/sh\nsleep 0.3\nprintf 'X-A: b\\n\\nslow'\n";
    let server = site().script("slow.cgi", script).config("[[route]]\npath = \"*.cgi\"\ncgi = true").start();
    let mut rows = Rows::new();
    for version in [&TLS12, &TLS13] {
        for (path, expected) in [("/a.txt", CONTENT), ("/slow.cgi", "slow")] {
            let mut client = Client::tls(secure(&server), &Tls::version(version));
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client.half_close();
            let body = client.try_read_response().map(|response| response.text()).map_err(|e| e.to_string());
            rows.check(path, body.as_deref(), Ok(expected));
            rows.holds(path, "the end is a close_notify", client.is_finished());
        }
    }
}

#[test]
fn http2_that_has_waited_ends_with_a_close_notify() {
    let script = "#!/bin/sh\nsleep 0.3\nprintf 'X-A: b\\n\\nslow'\n";
    let server = site().script("slow.cgi", script).config("[[route]]\npath = \"*.cgi\"\ncgi = true").start();
    let client = Client::tls(secure(&server), &Tls::version(&TLS13).protocols(&["h2"]));
    let mut http2 = Http2::over(client).expect("the connection is open");
    http2.open(&Http2Request::get("/slow.cgi")).expect("the connection is open");
    http2.client().half_close();
    let mut is_complete = false;
    while let Ok(frame) = http2.read_frame() {
        is_complete |= frame.kind == frame::DATA && frame.flags & flag::END_STREAM != 0;
    }
    assert!(is_complete, "the response is complete");
    assert!(http2.client().is_finished(), "no close_notify");
}

#[test]
fn tls_where_plain_http_is_expected_is_logged_and_closed() {
    let server = site().start();
    let mut client = server.connect();
    client.send(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
    let response = client.read_response();
    assert_eq!((response.status, response.field("connection")), (400, Some("close")), "{response}");
    assert!(client.is_finished());
    assert!(
        wait_until(TIMEOUT, || server
            .stderr()
            .contains("127.0.0.1 speaks TLS (https) to an address without TLS")),
        "{}",
        server.stderr()
    );
}

#[test]
fn plain_http_where_tls_is_expected_gets_a_readable_400() {
    let server = site().config("[log]\naccess = \"stderr\"").start();
    let mut client = Client::tcp(secure(&server));
    let response = client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").read_response();
    assert_eq!((response.status, response.field("connection")), (400, Some("close")), "{response}");
    assert!(response.text().contains("https://") || response.text().contains("TLS"), "{response}");
    assert!(client.is_finished());
    let line = server.wait_for_line("GET /a.txt", TIMEOUT);
    assert!(
        line.ends_with("\"plaintext: the client speaks plain HTTP, and this port speaks TLS (https)\""),
        "{line}"
    );
    let counted = || server.stats()["all"]["duration_us"].clone();
    assert!(wait_until(TIMEOUT, || counted()["count"] == 1), "{}", counted());
    let took = counted()["sum"].as_u64();
    assert!(took.is_some_and(|micros| u128::from(micros) < TIMEOUT.as_micros()), "{took:?}");
    // HTTP/2 by prior knowledge, and other protocols.
    let mut rows = Rows::new();
    for bytes in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0", "\r\n\r\n"] {
        let mut client = Client::tcp(secure(&server));
        _ = client.try_send(bytes);
        client.half_close();
        let end = client.try_read_response().map(|response| response.status);
        rows.holds(
            bytes,
            &format!("400 or an end, not {end:?}"),
            matches!(end, Ok(400 | 505) | Err(ReadError::Closed { .. } | ReadError::Reset)),
        );
    }
    still_serves(&server);
}

#[test]
fn a_handshake_has_a_deadline() {
    let server = site().config("[tls]\nhandshake_timeout = \"1s\"").start();
    let hello = client_hello([3, 3], SECURE, &[0]);
    for sent in [&[][..], &hello[..1], &hello[..40], &hello] {
        let mut raw = Raw::connect(secure(&server));
        let began = Instant::now();
        raw.send(sent);
        while let Incoming::Record { .. } = raw.read() {}
        let took = began.elapsed();
        assert!((500..5000).contains(&took.as_millis()), "{} bytes: {took:?}", sent.len());
    }
    // A byte now and then does not extend it.
    let mut raw = Raw::connect(secure(&server));
    let began = Instant::now();
    raw.socket.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a time");
    for byte in hello.iter().take(100) {
        raw.send(&[*byte]);
        if raw.read() != Incoming::Silent {
            break;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    server.wait_for_line("TLS with 127.0.0.1 failed: the handshake is not complete in time", TIMEOUT);
    still_serves(&server);
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let server = site().start();
    let mut random = Random::new(7);
    for number in 0..300 {
        let mut raw = Raw::connect(secure(&server));
        let length = random.below(3000) as usize;
        let mut bytes = random.bytes(length);
        if number % 2 == 0 {
            bytes.splice(..0, [HANDSHAKE, 3, 1]);
        }
        raw.send(&bytes);
    }
    // Encrypted garbage: what the client sends is not HTTP.
    for _ in 0..50 {
        let mut client = client(&server);
        let length = 1 + random.below(40_000) as usize;
        _ = client.try_send(random.bytes(length));
    }
    still_serves(&server);
}

#[test]
fn records_cut_differently_have_the_same_responses() {
    // It reads the body first: a response before that closes the connection.
    let script = "#!/bin/sh\nsum=$(md5sum)\nprintf 'X-A: b\\n\\n%s\\n' \"$sum\"\n";
    let server = site().script("sum.cgi", script).config("[[route]]\npath = \"*.cgi\"\ncgi = true").start();
    let mut random = Random::new(11);
    for round in 0..40 {
        // Requests one after another, some with a body, and the last one closes.
        let mut input = Vec::new();
        let count = 1 + random.below(40);
        for _ in 0..count {
            match random.below(4) {
                0 => {
                    let length = random.below(60_000) as usize;
                    input.extend(
                        format!("POST /sum.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")
                            .bytes(),
                    );
                    input.extend(random.bytes(length));
                }
                1 => input.extend(
                    format!(
                        "GET /none?{} HTTP/1.1\r\nHost: h\r\n\r\n",
                        "x".repeat(random.below(6000) as usize)
                    )
                    .bytes(),
                ),
                2 => input.extend(b"GET /big.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-99999\r\n\r\n"),
                _ => input.extend(GET),
            }
        }
        let expected = responses(Client::tcp(server.addr()), &input, &mut random, usize::MAX, count);
        for most in [1 << 20, 5000, 17] {
            let found = responses(client(&server), &input, &mut random, most, count);
            assert!(found == expected, "round {round}, writes of up to {most}: {found:?}\n{expected:?}");
        }
    }
}

/// The status and the body's length of every response, to input in writes of random sizes. The connection stays open.
fn responses(mut client: Client, input: &[u8], random: &mut Random, most: usize, count: u64) -> Vec<String> {
    client.set_timeout(Duration::from_secs(5));
    let mut rest = input;
    while !rest.is_empty() {
        let length = match most {
            usize::MAX => rest.len(),
            // Small writes for the first bytes alone, because there are many.
            _ if input.len() - rest.len() > 2000 && most < 100 => 30_000,
            most => 1 + random.below(most as u64) as usize,
        };
        let (now, later) = rest.split_at(length.min(rest.len()));
        client.send(now);
        rest = later;
    }
    let mut found = Vec::new();
    for _ in 0..count {
        match client.try_read_response() {
            Ok(response) => found.push(format!("{} {}", response.status, response.body.len())),
            Err(error) => {
                found.push(error.to_string());
                break;
            }
        }
    }
    found
}

#[test]
fn resumes_sessions_also_after_a_reload() {
    let server = site().config("workers = 2").start();
    let tls = Tls::new().resuming();
    let mut rows = Rows::new();
    let kind = |server: &Server, tls: &Tls| {
        let mut client = Client::tls(secure(server), tls);
        client.get("/a.txt");
        client.tls_state().handshake_kind()
    };
    rows.check("the first", kind(&server, &tls), Some(HandshakeKind::Full));
    for _ in 0..6 {
        rows.check("with a ticket of either worker", kind(&server, &tls), Some(HandshakeKind::Resumed));
    }
    let before = server.serving_pid();
    server.signal(e2e::Signal::HUP);
    assert!(wait_until(TIMEOUT, || server.serving_pid() != before), "no reload");
    rows.check("after a reload", kind(&server, &tls), Some(HandshakeKind::Resumed));
    // A ticket is used once (RFC 8446 §C.4), so the client must have got new ones.
    let old = Tls::version(&TLS12).resuming();
    rows.check("the first of TLS 1.2", kind(&server, &old), Some(HandshakeKind::Full));
    rows.check("TLS 1.2", kind(&server, &old), Some(HandshakeKind::Resumed));
}

#[test]
fn a_reload_waits_for_slow_handshakes_and_slow_records() {
    let server = site().start();
    let mut rows = Rows::new();
    let mut unused = client(&server);
    assert_eq!(unused.get("/a.txt").status, 200);

    let tls = Tls::version(&TLS13);
    let mut in_handshake = Raw::connect(secure(&server));
    let mut connection = tls.connection();
    let hello = outgoing(&mut connection);
    in_handshake.send(&hello[..hello.len() / 2]);

    let mut in_record = Raw::connect(secure(&server));
    let mut keys = in_record.keys(&tls);
    in_record.send(&keys.sealing.seal(DATA, GET, 0));
    rows.check(
        "a request before the reload",
        in_record.sealed_outcome(&mut keys).as_str(),
        "HTTP/1.1 200 OK",
    );
    let request = keys.sealing.seal(DATA, GET, 0);
    in_record.send(&request[..request.len() / 2]);

    let mut open = Client::tls(secure(&server), &Tls::new().protocols(&["h2"]));
    open.handshake().expect("the server accepts it");

    server.reload();
    assert!(unused.is_closed(), "a session that is not used ends");

    in_handshake.send(&hello[hello.len() / 2..]);
    while connection.is_handshaking() {
        in_handshake.feed(&mut connection).expect("the handshake goes on");
        in_handshake.send(&outgoing(&mut connection));
    }
    std::io::Write::write_all(&mut connection.writer(), GET).expect("it has space");
    in_handshake.send(&outgoing(&mut connection));
    rows.check("a handshake", response(&mut in_handshake, &mut connection), Ok("HTTP/1.1 200 OK".to_owned()));

    in_record.send(&request[request.len() / 2..]);
    rows.check("a record", in_record.sealed_outcome(&mut keys).as_str(), "HTTP/1.1 200 OK");

    let mut http2 = Http2::over(open).expect("the connection is open");
    http2.open(&Http2Request::get("/a.txt")).expect("the connection is open");
    let (mut statuses, mut goaways) = (Vec::new(), 0);
    // The first GOAWAY may come before the response.
    while (statuses.len(), goaways) != (1, 2)
        && let Ok(frame) = http2.read_frame()
    {
        match frame.kind {
            // `:status: 200` is entry 8 of the static table (RFC 7541, appendix A).
            frame::HEADERS => statuses.push(frame.payload[0] == 0x88),
            frame::GOAWAY => goaways += 1,
            _ => {}
        }
    }
    rows.check("the first request by HTTP/2", (statuses, goaways), (vec![true], 2));
}

#[test]
fn negotiates_a_protocol_that_it_speaks() {
    let server = site().start();
    let mut rows = Rows::new();
    for (offered, expected) in [
        (&["http/1.1"][..], Ok(Some("http/1.1"))),
        (&["h2", "http/1.1"], Ok(Some("h2"))),
        (&["http/1.1", "h2"], Ok(Some("h2"))),
        (&["spdy/3", "http/1.1"], Ok(Some("http/1.1"))),
        (&["http/1.0", "http/1.1"], Ok(Some("http/1.1"))),
        (&["http/1.0"], Ok(Some("http/1.0"))),
        // A client without ALPN speaks HTTP/1.1.
        (&[], Ok(None)),
        // RFC 7301 §3.2
        (&["spdy/3"], Err(())),
    ] {
        let mut client = Client::tls(secure(&server), &Tls::new().protocols(offered));
        let done = client.handshake();
        let found = done.map(|()| {
            client.tls_state().alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
        });
        let found = found.map_err(|e| assert!(e.to_string().contains("NoApplicationProtocol"), "{e}"));
        rows.check(offered.join(","), found, expected.map(|name| name.map(str::to_owned)));
    }
    let why = "failed: the client offers no protocol that this server speaks (ALPN), but \"spdy/3\"";
    rows.holds("the log", &server.stderr(), wait_until(TIMEOUT, || server.stderr().contains(why)));
}

#[test]
fn exchanges_keys_that_are_safe_from_quantum_computers() {
    let server = site().start();
    let mut client = client(&server);
    client.get("/a.txt");
    let group = client.tls_state().negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(group, Some(rustls::NamedGroup::X25519MLKEM768));
}

#[test]
fn an_idle_connection_has_little_memory() {
    const COUNT: usize = 1000;
    /// Bytes of the process's own memory for each.
    const MOST: u64 = 22_000;
    e2e::raise_descriptor_limit();
    let server = site().start();
    still_serves(&server);
    let memory = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", server.serving_pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel says it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    };
    let tls = Tls::new();
    let before = memory();
    let idle = |_| {
        let mut client = Client::tls(secure(&server), &tls);
        client.get("/a.txt");
        client
    };
    let clients: Vec<Client> = (0..COUNT).map(idle).collect();
    let each = memory().saturating_sub(before) / COUNT as u64;
    assert!(each < MOST, "{each} bytes for each idle connection");
    println!("{each} bytes for each idle connection");
    drop(clients);
}

/// Every request gets a response in time: the content, or 503 where a worker that is late may say so.
#[test]
fn serves_clients_beside_a_flood_of_handshakes() {
    for (config, allowed) in [
        ("workers = 1\n[timeouts]\ndelay = \"0s\"", &[200][..]),
        ("workers = 1\n[timeouts]\ndelay = \"100ms\"", &[200, 503]),
    ] {
        let server = site().config(config).start();
        let address = secure(&server);
        let (ended, handshakes) = (AtomicBool::new(false), AtomicUsize::new(0));
        let flood = || {
            let hello = outgoing(&mut Tls::new().connection());
            while !ended.load(Ordering::Relaxed) {
                // The server has answered with its signature; the client goes.
                let Ok(mut socket) = TcpStream::connect(address) else { continue };
                _ = std::io::Write::write_all(&mut socket, &hello);
                _ = socket.set_read_timeout(Some(TIMEOUT));
                let answered = socket.read(&mut [0; 1]).unwrap_or(0);
                handshakes.fetch_add(answered, Ordering::Relaxed);
            }
        };
        let statuses: Vec<u16> = thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(flood);
            }
            let mut client = client(&server);
            let began = Instant::now();
            let mut found = Vec::new();
            while began.elapsed() < Duration::from_secs(2) && found.last() != Some(&0) {
                _ = client.try_send(GET);
                // Within ten seconds.
                let status = client.try_read_response().map_or(0, |response| response.status);
                if status == 503 {
                    client = self::client(&server);
                }
                found.push(status);
            }
            ended.store(true, Ordering::Relaxed);
            found
        });
        let count = handshakes.load(Ordering::Relaxed);
        assert!(statuses.iter().all(|status| allowed.contains(status)), "{config}: {statuses:?}");
        assert!(count > 20, "only {count} handshakes");
        let is_served = || client(&server).get("/a.txt").status == 200;
        assert!(wait_until(TIMEOUT, is_served), "{config}: it recovers");
    }
}
