//! Files that the kernel encrypts (`kernel` in `[tls]`). On a kernel without TLS, the same requests have the same
//! responses, and one line says so.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use e2e::records::{ALERT, DATA, HANDSHAKE, Incoming, Raw};
use e2e::{Client, Random, Rows, Server, Site, TIMEOUT, Tls, run};
use rustls::version::TLS12;

const CONTENT: &str = "hello\n";
const SIZE: usize = 1_000_000;
const CONFIG: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\n\
                      certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
                      [[route]]\npath = \"*.cgi\"\ncgi = true\n\
                      [tls]\nkernel = true\n";
const MISSING: &str = "the kernel does not encrypt TLS (";

fn site() -> Site {
    Site::new()
        .certificate()
        .file("a.txt", CONTENT)
        .file("big.bin", Random::new(1).bytes(SIZE))
        .script("echo.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\n'\ncat\n")
}

fn secure(server: &Server) -> SocketAddr {
    server.tcp(1)
}

fn kernel_has_tls() -> bool {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    available.split_whitespace().any(|name| name == "tls")
}

/// Sessions whose keys the kernel has had for sending.
fn sessions_of_the_kernel() -> u64 {
    let counts = std::fs::read_to_string("/proc/net/tls_stat").unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix("TlsTxSw"));
    count.map_or(0, |count| count.trim().parse().expect("it is a number"))
}

#[test]
fn says_once_that_the_kernel_has_no_tls() {
    let site = site().config(CONFIG);
    let config = site.write_config();
    let checked = run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let checked_errors = String::from_utf8_lossy(&checked.stderr).into_owned();
    let server = site.start();
    assert_eq!(Client::tls(secure(&server), &Tls::new()).get("/big.bin").body.len(), SIZE);
    assert_eq!(Client::tls(secure(&server), &Tls::new()).get("/big.bin").body.len(), SIZE);
    let said = server.stderr().matches(MISSING).count();
    assert!(checked.status.success(), "it is no error: {checked_errors}");
    match kernel_has_tls() {
        true => assert_eq!((said, checked_errors.matches(MISSING).count()), (0, 0)),
        false => {
            assert_eq!((said, checked_errors.matches(MISSING).count()), (1, 1));
            assert!(checked_errors.contains("load the kernel's module tls"), "{checked_errors}");
        }
    }
}

#[test]
fn the_responses_are_those_of_a_program_that_encrypts() {
    let big = Random::new(1).bytes(SIZE);
    let mut rows = Rows::new();
    for cipher in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] {
        let server = site().config(&format!("{CONFIG}ciphers = [\"{cipher}\"]\n")).start();
        let before = sessions_of_the_kernel();
        let mut client = Client::tls(secure(&server), &Tls::new());
        for round in 0..2 {
            let name = format!("{cipher}, round {round}");
            rows.check(&name, client.get("/a.txt").text().as_str(), CONTENT);
            rows.holds(&name, "the file is whole", client.get("/big.bin").body == big);
            let part = client.get_with("/big.bin", "Range: bytes=300000-800000\r\n");
            rows.holds(&name, "the part is whole", part.body == big[300_000..=800_000]);
            let parts = client.get_with("/big.bin", "Range: bytes=0-99999,300000-500000\r\n");
            let has = |part: &[u8]| parts.body.windows(part.len()).any(|window| window == part);
            rows.holds(&name, "both parts are whole", has(&big[..100_000]) && has(&big[300_000..=500_000]));
            rows.check(&name, client.request("HEAD /big.bin HTTP/1.1\r\nHost: h\r\n\r\n").body.len(), 0);
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /big.bin HTTP/1.1\r\nHost: h\r\n\r\n");
            rows.check(&name, client.read_response().text().as_str(), CONTENT);
            rows.holds(&name, "the file behind it is whole", client.read_response().body == big);
        }
        client.send("GET /big.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        rows.holds(cipher, "the last file is whole", client.read_response().body == big);
        rows.holds(cipher, "the end is a close_notify", client.is_finished());
        let by_kernel = sessions_of_the_kernel() - before;
        rows.holds(cipher, "the kernel has encrypted if it can", (by_kernel >= 1) == kernel_has_tls());
        // What the client sends in many records is decrypted by the kernel, too.
        let mut client = Client::tls(secure(&server), &Tls::new());
        rows.check(cipher, client.get("/big.bin").body.len(), SIZE);
        let body = &big[..100_000];
        client.send(format!("POST /echo.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()));
        client.send(body);
        rows.holds(cipher, "the echo is whole", client.read_response().body == body);
        // HTTP/2 and TLS 1.2 stay in the program.
        let mut client = Client::tls(secure(&server), &Tls::version(&TLS12));
        rows.holds(cipher, "by TLS 1.2, too", client.get("/big.bin").body == big);
    }
}

#[test]
fn a_slow_reader_gets_the_whole_file_and_the_close_notify() {
    let server = site().config(CONFIG).start();
    // At the same time: each waits for the kernel most of its time.
    thread::scope(|scope| {
        for (request, pause) in [
            ("GET /big.bin HTTP/1.0\r\n\r\n", 300),
            ("GET /big.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 300),
            ("GET /big.bin HTTP/1.0\r\n\r\n", 0),
        ] {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::tls(secure(server), &Tls::new());
                client.set_receive_buffer(8 * 1024);
                client.send(request);
                thread::sleep(Duration::from_millis(pause));
                assert_eq!(client.read_response().body, Random::new(1).bytes(SIZE));
                assert!(client.is_finished(), "no close_notify");
            });
        }
    });
    assert!(server.stderr().lines().all(|line| line.contains(MISSING) || !line.contains("error")));
}

#[test]
fn a_client_may_end_its_side_while_it_reads() {
    let server = site().config(CONFIG).start();
    let mut client = Client::tls(secure(&server), &Tls::new());
    assert_eq!(client.get("/big.bin").body.len(), SIZE);
    client.send("GET /big.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    client.half_close();
    assert_eq!(client.read_response().body.len(), SIZE);
    assert!(client.is_finished());
    // A connection that waits for a request ends at once.
    let mut client = Client::tls(secure(&server), &Tls::new());
    assert_eq!(client.get("/big.bin").body.len(), SIZE);
    client.half_close();
    assert!(client.is_finished());
}

/// Records behind the handshake that are no content (RFC 8446 §4.6 and §6).
#[test]
fn other_records_than_content_have_the_outcome_that_they_have_without_the_kernel() {
    const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut rows = Rows::new();
    let server = site().config(CONFIG).start();
    let (update, request_update) = ([24, 0, 0, 1, 0], [24, 0, 0, 1, 1]);
    for (name, kind, content, by_program, by_kernel) in [
        ("close_notify", ALERT, &[1, 0][..], "alert 0", "alert 0"),
        ("an alert", ALERT, &[2, 40], "closed", "closed"),
        ("a client's certificate", HANDSHAKE, &[11, 0, 0, 0], "alert 50", "closed"),
        // The kernel cannot change keys, and the connection ends.
        ("new keys", HANDSHAKE, &update, "any", "closed"),
        ("new keys of both", HANDSHAKE, &request_update, "any", "closed"),
        ("nothing", DATA, &[], "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
    ] {
        let mut raw = Raw::connect(secure(&server));
        let mut keys = raw.keys(&Tls::new());
        raw.send(&keys.sealing.seal(DATA, b"GET /big.bin HTTP/1.1\r\nHost: h\r\n\r\n", 0));
        let mut got = 0;
        while got < SIZE {
            match raw.read_sealed(&mut keys) {
                Incoming::Record { kind: DATA, content } => got += content.len(),
                other => panic!("{name}: {other:?} after {got}"),
            }
        }
        raw.send(&keys.sealing.seal(kind, content, 0));
        if content.is_empty() {
            raw.send(&keys.sealing.seal(DATA, GET, 7));
        }
        let outcome = raw.sealed_outcome(&mut keys);
        let expected = if kernel_has_tls() { by_kernel } else { by_program };
        rows.holds(name, &format!("{outcome:?} is {expected:?}"), expected == "any" || outcome == expected);
    }
    let mut client = Client::tls(secure(&server), &Tls::new());
    rows.check("others", client.get("/a.txt").text().as_str(), CONTENT);
    if kernel_has_tls() {
        server.wait_for_line("the client changes its keys, which the kernel cannot", TIMEOUT);
    }
}
