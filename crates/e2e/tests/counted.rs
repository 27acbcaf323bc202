//! Every count against what the clients of the test have done: by each protocol, through scripts, applications and
//! caches, over both workers, a reload and an upgrade. A count that is not expected must not have changed.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::http2::{Http2, Http2Request};
use e2e::upstream::{read_head, upstream};
use e2e::{Address, Client, Response, Server, Site, TIMEOUT, Tls, Traffic, free_port, wait_until};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::version::{TLS12, TLS13};
use sha1::{Digest, Sha1};

/// What is not counted: the state of now, and how late the loop is.
const NOW: [&str; 9] = [
    "active",
    "idle",
    "parked",
    "delay_us",
    "helpers",
    "scripts_running",
    "scripts_waiting",
    "upgraded_now",
    "duration_us",
];
const CLIENTS: usize = 4;
const ROUNDS: usize = 8;
const TEXT: usize = 8 * 1024;

/// What the clients have done, by the keys of `taipan stats --json`. Statuses are `codes.200`.
#[derive(Debug, Default)]
struct Counted(BTreeMap<String, u64>);

impl Counted {
    fn add(&mut self, key: &str, n: u64) {
        if n > 0 {
            *self.0.entry(key.to_owned()).or_default() += n;
        }
    }

    fn response(&mut self, version: &str, method: &str, status: u16) {
        self.add(version, 1);
        match method {
            "" => {}
            "BREW" => self.add("method_other", 1),
            method => self.add(&format!("method_{}", method.to_ascii_lowercase()), 1),
        }
        self.add(&format!("status_{}xx", status / 100), 1);
        self.add(&format!("codes.{status}"), 1);
    }

    /// The client closes.
    fn close(&mut self, client: &Client) {
        let Traffic { sent, received } = client.traffic();
        self.add("accepted", 1);
        self.add("received", sent);
        self.add("bytes", received);
    }

    fn merge(&mut self, other: Counted) {
        other.0.into_iter().for_each(|(key, n)| self.add(&key, n));
    }
}

/// Everything that `taipan stats` has counted.
fn found(server: &Server) -> BTreeMap<String, u64> {
    let stats = server.stats();
    let all = stats["all"].as_object().expect("it is an object");
    let mut found = BTreeMap::new();
    for (key, value) in all.iter().filter(|(key, _)| !NOW.contains(&key.as_str())) {
        match value.as_object() {
            Some(values) => {
                let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
                found.extend(values.iter().map(|(name, value)| (format!("{key}.{name}"), number(value))));
            }
            None => _ = found.insert(key.clone(), value.as_u64().unwrap_or_else(|| panic!("{key}: {value}"))),
        }
    }
    // Whether a lookup is a hit depends on the worker.
    let lookups = ["cache_hits", "cache_misses"].map(|key| found.remove(key).unwrap_or(0));
    found.insert("lookups".to_owned(), lookups.iter().sum());
    found.retain(|key, n| *n > 0 && !key.starts_with("duration") && !key.starts_with("first_byte"));
    found
}

/// The server has counted exactly what was done. It counts a response when it has been sent, which its client may see
/// earlier.
fn check(server: &Server, expected: &Counted, when: &str) {
    _ = wait_until(TIMEOUT, || found(server) == expected.0);
    let found = found(server);
    let keys: std::collections::BTreeSet<&String> = found.keys().chain(expected.0.keys()).collect();
    let differences: Vec<String> = keys
        .into_iter()
        .filter(|key| found.get(*key) != expected.0.get(*key))
        .map(|key| format!("{key}: {:?}, not {:?}", found.get(key), expected.0.get(key)))
        .collect();
    assert!(differences.is_empty(), "{when}:\n{}\n{}", differences.join("\n"), server.stderr());
}

struct Fixture {
    server: Server,
    plain: SocketAddr,
    tls: SocketAddr,
    keys: AtomicUsize,
    /// Bytes that the precompressed file saves, and that one whose content is compressed while it is sent does.
    saved: u64,
}

impl Fixture {
    fn new(site: Site, saved: u64) -> Fixture {
        let server = site.start();
        let [Address::Tcp(plain), Address::Tcp(tls)] = server.addresses()[..] else {
            panic!("two addresses: {:?}", server.addresses())
        };
        Fixture { server, plain, tls, keys: AtomicUsize::new(0), saved }
    }

    fn key(&self) -> usize {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    fn connect(&self) -> Client {
        Client::tcp(self.plain)
    }
}

/// Sends a request by HTTP/1.1, and counts it.
fn request(
    client: &mut Client,
    counted: &mut Counted,
    (method, path, fields, body): (&str, &str, &str, &str),
    status: u16,
) -> Response {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let response =
        client.request(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n{body}"));
    assert_eq!(response.status, status, "{method} {path} {fields}\n{response}");
    counted.response("http_1_1", method, status);
    response
}

fn get(client: &mut Client, counted: &mut Counted, path: &str, fields: &str, status: u16) -> Response {
    request(client, counted, ("GET", path, fields, ""), status)
}

fn files(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    for (method, path, fields, body, status) in [
        ("GET", "/a.txt", "", "", 200),
        ("HEAD", "/a.txt", "", "", 200),
        ("GET", "/a.txt", "Range: bytes=1-2\r\n", "", 206),
        ("GET", "/a.txt", "If-None-Match: *\r\n", "", 304),
        ("GET", "/a.txt", "If-Match: \"x\"\r\n", "", 412),
        ("GET", "/a.txt", "Range: bytes=99-\r\n", "", 416),
        ("GET", "/missing", "", "", 404),
    ] {
        request(&mut client, counted, (method, path, fields, body), status);
        counted.add("lookups", 1);
    }
    for (method, path, body, status) in [
        ("GET", "/moved", "", 302),
        ("GET", "/sorry", "", 503),
        ("POST", "/moved", "abc", 302),
        ("DELETE", "/sorry", "", 503),
        ("PATCH", "/sorry", "abc", 503),
        ("PUT", "/sorry", "abc", 503),
        ("OPTIONS", "*", "", 204),
        ("BREW", "/sorry", "", 503),
    ] {
        request(&mut client, counted, (method, path, "", body), status);
    }
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20));
    for _ in 0..20 {
        assert_eq!(client.read_response().status, 200);
        counted.response("http_1_1", "GET", 200);
        counted.add("lookups", 1);
    }
    counted.close(&client);
}

fn first_versions(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    assert_eq!(client.request("GET /a.txt HTTP/1.0\r\n\r\n").status, 200);
    counted.response("http_1_0", "GET", 200);
    counted.add("lookups", 1);
    counted.close(&client);
    for nonsense in ["nonsense\r\n\r\n", "GET /a.txt HTTP/1.1\r\n\r\n"] {
        let mut client = fixture.connect();
        assert_eq!(client.request(nonsense).status, 400);
        counted.response("unreadable", "", 400);
        counted.close(&client);
    }
}

/// Requests by HTTP/2, up to the end of the connection.
fn speak_http2(client: Client, counted: &mut Counted) {
    let mut client = Http2::over(client).expect("it speaks HTTP/2");
    let body = "x".repeat(40_000);
    for (method, path, fields, body, status) in [
        ("GET", "/a.txt", &[][..], "", 200),
        ("HEAD", "/a.txt", &[], "", 200),
        ("GET", "/missing", &[], "", 404),
        ("GET", "/a.txt", &[("if-none-match", "*")], "", 304),
        ("GET", "/moved", &[], "", 302),
        ("POST", "/app/x", &[], &*body, 200),
        ("GET", "/app/x", &[], "", 200),
        ("GET", "/cgi-bin/hello", &[], "", 200),
    ] {
        let request =
            Http2Request { body: body.as_bytes().to_vec(), ..Http2Request::new(method, path, fields) };
        let response = client.request(&request).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        assert_eq!(response.status, status, "{method} {path}");
        counted.response("http_2", method, status);
        match path {
            "/a.txt" | "/missing" => counted.add("lookups", 1),
            "/app/x" => counted.add("upstream_requests", 1),
            "/cgi-bin/hello" => counted.add("scripts", 1),
            _ => {}
        }
    }
    let client = client.client();
    client.half_close();
    while client.read_some().is_ok_and(|bytes| !bytes.is_empty()) {}
    counted.close(client);
}

fn http2(fixture: &Fixture, counted: &mut Counted) {
    speak_http2(fixture.connect(), counted);
    let tls = Tls::version(&TLS13).protocols(&["h2"]);
    speak_http2(Client::tls(fixture.tls, &tls), counted);
    counted.add("handshakes", 1);
    counted.add("tls_1_3", 1);
}

fn tls(fixture: &Fixture, counted: &mut Counted) {
    for (version, key) in [(&TLS12, "tls_1_2"), (&TLS13, "tls_1_3")] {
        let tls = Tls::version(version).resuming();
        for is_resumed in [0, 1, 1] {
            let mut client = Client::tls(fixture.tls, &tls);
            get(&mut client, counted, "/a.txt", "", 200);
            get(&mut client, counted, "/app/x", "", 200);
            counted.add("lookups", 1);
            counted.add("upstream_requests", 1);
            counted.add("handshakes", 1);
            counted.add(key, 1);
            counted.add("handshakes_resumed", is_resumed);
            counted.close(&client);
        }
        // The end of the session comes with the request.
        let mut client = Client::tls(fixture.tls, &Tls::version(version));
        client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").half_close();
        assert_eq!(client.read_response().status, 200);
        counted.response("http_1_1", "GET", 200);
        counted.add("lookups", 1);
        counted.add("handshakes", 1);
        counted.add(key, 1);
        counted.close(&client);
    }
}

fn failed_handshakes(fixture: &Fixture, counted: &mut Counted) {
    // Its client does not accept the certificate.
    let mut client = Client::tls(fixture.tls, &Tls::version(&TLS12).server("another.example"));
    client.handshake().expect_err("it is for another name");
    counted.add("accepted", 1);
    counted.add("handshakes_failed", 1);
    // The beginning of a ClientHello, and the end of the connection.
    let mut client = Client::tcp(fixture.tls);
    client.send([22, 3, 1, 0, 100, 1, 0, 0]).half_close();
    assert!(client.is_closed());
    counted.add("accepted", 1);
    counted.add("handshakes_failed", 1);
    // Nothing at all is no handshake.
    let mut client = Client::tcp(fixture.tls);
    client.half_close();
    assert!(client.is_closed());
    counted.add("accepted", 1);
}

fn scripts(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    for (method, name, status, failed, killed) in [
        ("GET", "hello", 200, 0, 0),
        ("POST", "hello", 200, 0, 0),
        ("GET", "silent", 502, 1, 0),
        ("GET", "killed", 502, 1, 1),
    ] {
        let body = if method == "POST" { "abc" } else { "" };
        request(&mut client, counted, (method, &format!("/cgi-bin/{name}"), "", body), status);
        counted.add("scripts", 1);
        counted.add("scripts_failed", failed);
        counted.add("scripts_killed", killed);
    }
    get(&mut client, counted, "/cgi-bin/missing", "", 404);
    for path in ["/fcgi/x", "/fcgi/y"] {
        assert_eq!(get(&mut client, counted, path, "", 200).text(), "fast");
        counted.add("upstream_requests", 1);
    }
    counted.close(&client);
}

fn applications(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    for (path, status, requests, failed, late) in [
        ("/app/x", 200, 1, 0, 0),
        ("/app/x", 200, 1, 0, 0),
        ("/app/503", 503, 1, 0, 0),
        ("/app/bad", 502, 1, 1, 0),
        ("/late/x", 504, 1, 0, 1),
        ("/down/x", 502, 0, 1, 0),
    ] {
        get(&mut client, counted, path, "", status);
        counted.add("upstream_requests", requests);
        counted.add("scripts_failed", failed);
        counted.add("scripts_timeout", late);
    }
    // The interim response has bytes, and is no response.
    client
        .send("POST /app/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.read_response_to_head().status, 100);
    assert_eq!(client.send("abc").read_response().status, 200);
    counted.response("http_1_1", "POST", 200);
    counted.add("upstream_requests", 1);
    counted.close(&client);
}

fn stored(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    let key = fixture.key();
    let (fresh, old, failing) =
        (format!("/stored/fresh{key}"), format!("/stored/old{key}"), format!("/stored/failing{key}"));
    for (method, path, fields, status, count, requests, stored) in [
        ("GET", &fresh, "", 200, "response_misses", 1, 1),
        ("GET", &fresh, "", 200, "response_hits", 0, 0),
        ("HEAD", &fresh, "", 200, "response_hits", 0, 0),
        ("GET", &fresh, "Range: bytes=1-2\r\n", 206, "response_hits", 0, 0),
        ("GET", &fresh, "If-None-Match: \"a\"\r\n", 304, "response_hits", 0, 0),
        ("GET", &old, "", 200, "response_misses", 1, 1),
        ("GET", &old, "Cache-Control: max-stale=10000\r\n", 200, "responses_stale", 0, 0),
        ("GET", &old, "", 200, "responses_revalidated", 1, 0),
        ("GET", &failing, "", 200, "response_misses", 1, 1),
        ("GET", &failing, "", 200, "responses_stale", 1, 0),
        (
            "GET",
            &format!("/stored/none{key}"),
            "Cache-Control: only-if-cached\r\n",
            504,
            "response_misses",
            0,
            0,
        ),
        ("GET", &format!("/stored/private{key}"), "", 200, "response_misses", 1, 0),
        ("POST", &fresh, "", 200, "", 1, 0),
        ("GET", &fresh, "", 200, "response_misses", 1, 1),
    ] {
        let body = if method == "POST" { "abc" } else { "" };
        request(&mut client, counted, (method, path, fields, body), status);
        counted.add("upstream_requests", requests);
        counted.add("responses_stored", stored);
        if !count.is_empty() {
            counted.add(count, 1);
        }
    }
    counted.close(&client);
}

fn compressed(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    let accept = "Accept-Encoding: gzip\r\n";
    for (method, path, is_stored) in [
        ("GET", "/text.txt", true),
        ("HEAD", "/text.txt", true),
        ("GET", "/zip/text", false),
        ("HEAD", "/zip/text", false),
    ] {
        let response = request(&mut client, counted, (method, path, accept, ""), 200);
        assert_eq!(response.field("content-encoding"), Some("gzip"), "{method} {path}\n{response}");
        let saved = if method == "GET" { (TEXT - response.body.len()) as u64 } else { 0 };
        match is_stored {
            true => {
                assert!(method == "HEAD" || saved == fixture.saved);
                counted.add("saved_stored_bytes", saved);
                counted.add("lookups", 1);
            }
            false => {
                counted.add("saved_sending_bytes", saved);
                counted.add("upstream_requests", 1);
            }
        }
    }
    get(&mut client, counted, "/text.txt", "", 200);
    counted.add("lookups", 1);
    counted.close(&client);
}

fn websockets(fixture: &Fixture, counted: &mut Counted) {
    let mut client = fixture.connect();
    client.send(
        "GET /ws/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(client.read_response_to_head().status, 101);
    counted.response("http_1_1", "GET", 101);
    let bytes = vec![b'x'; 100_000];
    let mut sender = client.another_handle();
    let sending = thread::spawn(move || {
        sender.send(&bytes).half_close();
        sender.traffic().sent
    });
    assert_eq!(client.read_to_end().len(), 100_000);
    counted.add("received", sending.join().expect("it is sent"));
    counted.close(&client);
    let mut client = Http2::over(fixture.connect()).expect("it speaks HTTP/2");
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/ws/x"),
        ("sec-websocket-version", "13"),
    ];
    let fields = pseudo.map(|(name, value)| (name.into(), value.into())).to_vec();
    let asked = Http2Request { fields, body: b"ping".to_vec(), trailers: Vec::new() };
    let response = client.request(&asked).unwrap_or_else(|e| panic!("a tunnel: {e}"));
    assert_eq!((response.status, response.text()), (200, "ping".to_owned()));
    counted.response("http_2", "CONNECT", 200);
    let client = client.client();
    client.half_close();
    while client.read_some().is_ok_and(|bytes| !bytes.is_empty()) {}
    counted.close(client);
    counted.add("upgraded", 2);
    counted.add("upstream_requests", 2);
}

type Kind = fn(&Fixture, &mut Counted);
const KINDS: [Kind; 10] = [
    files,
    first_versions,
    http2,
    tls,
    failed_handshakes,
    scripts,
    applications,
    stored,
    compressed,
    websockets,
];

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

/// The response of the application. Empty: none, until the server gives up.
fn answer(head: &str) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let is_validation = head.to_ascii_lowercase().contains("\r\nif-none-match:");
    const OLD: &str = "Cache-Control: max-age=60, stale-if-error=100000\r\nAge: 100\r\nETag: \"a\"\r\n";
    match path.rsplit('/').next().unwrap_or_default() {
        _ if path.starts_with("/late/") => String::new(),
        "503" => "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "bad" => "this is not HTTP\r\n\r\n".to_owned(),
        "text" => ok("Content-Type: text/plain\r\n", &"text ".repeat(TEXT)[..TEXT]),
        name if name.starts_with("fresh") => ok("Cache-Control: max-age=10000\r\nETag: \"a\"\r\n", "fresh"),
        name if name.starts_with("old") && is_validation => format!("HTTP/1.1 304 x\r\n{OLD}\r\n"),
        name if name.starts_with("failing") && is_validation => {
            "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
        name if name.starts_with("old") || name.starts_with("failing") => ok(OLD, "old"),
        name if name.starts_with("private") => ok("Cache-Control: private\r\n", "private"),
        _ => ok("", "hello"),
    }
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream, first: String) -> io::Result<()> {
    let mut head = first;
    loop {
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.trim().parse().expect("a number"));
        stream.read_exact(&mut vec![0; length])?;
        let response = answer(&head);
        if response.is_empty() {
            return stream.read_exact(&mut [0]);
        }
        stream.write_all(response.as_bytes())?;
        if !response.starts_with("HTTP/") {
            return stream.shutdown(Shutdown::Both);
        }
        head = read_head(&mut stream)?;
    }
}

/// Switches to WebSocket (RFC 6455 §4.2.2), and sends back what comes.
fn echo(mut stream: TcpStream, head: String) -> io::Result<()> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut keys = lines.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let key = keys.next().map_or("", |(_, key)| key);
    let accept = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let accept = STANDARD.encode(accept);
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
    stream.write_all(format!("{switch}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes())?;
    e2e::upstream::echo(stream)
}

/// A FastCGI application that keeps its connections.
fn serve_fastcgi(mut stream: UnixStream) -> io::Result<()> {
    let record = |kind: u8, id: [u8; 2], content: &[u8]| {
        [&[1, kind, id[0], id[1], 0, content.len() as u8, 0, 0], content].concat()
    };
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let length = u16::from_be_bytes([head[4], head[5]]);
        stream.read_exact(&mut vec![0; usize::from(length) + usize::from(head[6])])?;
        // The end of the body.
        if (head[1], length) == (5, 0) {
            let id = [head[2], head[3]];
            let out = record(6, id, b"Content-Type: text/plain\r\n\r\nfast");
            stream.write_all(&[out, record(6, id, b""), record(3, id, &[0; 8])].concat())?;
        }
    }
}

fn site() -> (Site, u64) {
    let text = "text ".repeat(TEXT)[..TEXT].to_owned();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("it is in memory");
    let gzipped = encoder.finish().expect("it is in memory");
    let saved = (TEXT - gzipped.len()) as u64;
    let (app, sockets) = (upstream(serve), upstream(echo));
    let app = app.trim_start_matches("http://");
    let hello = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'\n";
    let site = Site::new()
        .certificate()
        .file("a.txt", "hello\n")
        .file("text.txt", &text)
        .file("text.txt.gz", gzipped)
        .script("cgi-bin/hello", hello)
        .script("cgi-bin/silent", "#!/bin/sh\nexit 0\n")
        .script("cgi-bin/killed", "#!/bin/sh\nkill -9 $$\n");
    let path = site.home().join("fast");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| _ = thread::spawn(|| serve_fastcgi(stream)));
    });
    let config = format!(
        "listen = [\"127.0.0.1:0 http2\", \"127.0.0.2:0 tls\"]\nworkers = 2\n\
         certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
         [timeouts]\ndelay = 0\nhead = \"1m\"\nlinger = \"1m\"\n\
         [cache]\ncheck = \"1h\"\nmissing = \"1h\"\n\
         [[route]]\npath = \"/moved\"\nredirect = \"/a.txt\"\n\
         [[route]]\npath = \"/sorry\"\nreturn = 503\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
         [[route]]\npath = \"/fcgi/\"\napplication = \"fast\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[route]]\npath = \"/late/\"\napplication = \"late\"\n\
         [[route]]\npath = \"/zip/\"\napplication = \"app\"\ncompress_scripts = true\n\
         [[route]]\npath = \"/stored/\"\napplication = \"app\"\nresponse_cache = true\n\
         [[route]]\npath = \"/down/\"\napplication = \"down\"\n\
         [[route]]\npath = \"/ws/\"\nproxy = \"{sockets}\"\n\
         [[application]]\nname = \"fast\"\nprotocol = \"fastcgi\"\naddress = \"unix:{}\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{app}\"\nretries = 0\n\
         [application.health]\nfailures = 0\n\
         [[application]]\nname = \"late\"\nprotocol = \"http\"\naddress = \"{app}\"\nretries = 0\n\
         first_byte = \"200ms\"\n[application.health]\nfailures = 0\n\
         [[application]]\nname = \"down\"\nprotocol = \"http\"\naddress = \"127.0.0.1:{}\"\nretries = 0\n\
         [application.health]\nfailures = 0\n",
        path.display(),
        free_port(),
    );
    (site.config(&config), saved)
}

#[test]
fn every_count_is_exact_over_workers_a_reload_and_an_upgrade() {
    let (site, saved) = site();
    let mut fixture = Fixture::new(site.config("[log]\nlevel = \"info\""), saved);
    let mut expected = Counted::default();
    for when in ["at the start", "behind a reload", "behind an upgrade"] {
        match when {
            "behind a reload" => fixture.server.reload(),
            "behind an upgrade" => {
                let output = fixture.server.run_command(&["upgrade"]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let line = fixture.server.wait_for_line("has taken over", TIMEOUT);
                let pid = line.split(' ').find_map(|word| word.parse().ok()).expect("it has its number");
                fixture.server.succeeded_by(pid);
            }
            _ => {}
        }
        let counted: Vec<Counted> = thread::scope(|scope| {
            let client = || {
                let mut counted = Counted::default();
                (0..ROUNDS).for_each(|_| KINDS.iter().for_each(|kind| kind(&fixture, &mut counted)));
                counted
            };
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().map(|client| client.join().expect("no request fails")).collect()
        });
        counted.into_iter().for_each(|counted| expected.merge(counted));
        check(&fixture.server, &expected, when);
        let stats = fixture.server.stats();
        let workers = stats["workers"].as_array().expect("it is an array");
        assert!(workers.iter().all(|worker| worker["accepted"].as_u64() > Some(0)), "{when}: {stats}");
    }
}

/// A server, and what its clients do there, with what it has counted then.
struct Case {
    name: &'static str,
    config: &'static str,
    act: fn(&Server, &mut Counted),
}

const WRONG: &str = "Authorization: Basic YW5uOndyb25n\r\n";

const CASES: [Case; 11] = [
    Case {
        name: "a rate",
        config: "[[limit]]\nby = \"field:X-Key\"\nrequests = \"1/h\"\nrequests_burst = 1\n",
        act: |server, counted| {
            let mut client = server.connect();
            for (key, status) in [("a", 200), ("a", 429), ("b", 200), ("a", 429)] {
                get(&mut client, counted, "/a.txt", &format!("X-Key: {key}\r\n"), status);
                counted.add("lookups", u64::from(status == 200));
                counted.add("limited_requests", u64::from(status == 429));
            }
            counted.close(&client);
        },
    },
    Case {
        name: "a rate that is tried out",
        config: "[[limit]]\nby = \"all\"\nrequests = \"1/h\"\nrequests_burst = 1\ndry_run = true\n",
        act: |server, counted| {
            let mut client = server.connect();
            for _ in 0..3 {
                get(&mut client, counted, "/a.txt", "", 200);
            }
            counted.add("lookups", 3);
            counted.add("limited_dry_run", 2);
            counted.close(&client);
        },
    },
    Case {
        name: "requests at the same time",
        config: "[[limit]]\nby = \"all\"\nconcurrent = 1\nstatus = 503\npaths = \"/gate/\"\n",
        act: |server, counted| {
            let first = waiting(server, counted);
            let mut second = server.connect();
            get(&mut second, counted, "/gate/y", "", 503);
            counted.add("limited_concurrent", 1);
            counted.close(&second);
            abandon(first, counted);
        },
    },
    Case {
        name: "connections of a client",
        config: "[limits]\nconnections_per_client = 1\n",
        act: |server, counted| {
            let mut first = server.connect();
            get(&mut first, counted, "/a.txt", "", 200);
            counted.add("lookups", 1);
            let mut second = server.connect();
            get(&mut second, counted, "/a.txt", "", 503);
            counted.add("rejected_per_client", 1);
            counted.close(&second);
            counted.close(&first);
        },
    },
    Case {
        name: "connections that are upgraded",
        config: "[limits]\nupgraded = 1\n",
        act: |server, counted| {
            let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            let mut first = server.connect();
            first.send(format!("GET /ws/x HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n"));
            assert_eq!(first.read_response_to_head().status, 101);
            counted.response("http_1_1", "GET", 101);
            let mut second = server.connect();
            get(&mut second, counted, "/ws/x", upgrade, 503);
            first.half_close();
            assert!(first.read_to_end().is_empty());
            counted.add("upgraded", 1);
            counted.add("upgrades_rejected", 1);
            counted.add("upstream_requests", 1);
            counted.close(&second);
            counted.close(&first);
        },
    },
    Case {
        name: "an open circuit breaker",
        config: "",
        act: |server, counted| {
            let mut client = server.connect();
            for (at, status) in [503, 503, 503, 503, 503].into_iter().enumerate() {
                get(&mut client, counted, "/broken/503", "", status);
                counted.add("upstream_requests", u64::from(at < 4));
                counted.add("breakers_opened", u64::from(at == 3));
                counted.add("breakers_rejected", u64::from(at == 4));
            }
            counted.close(&client);
        },
    },
    Case {
        name: "a full application",
        config: "",
        act: |server, counted| {
            let first = waiting(server, counted);
            let mut second = server.connect();
            get(&mut second, counted, "/full/y", "", 503);
            counted.add("scripts_rejected", 1);
            counted.close(&second);
            abandon(first, counted);
        },
    },
    Case {
        name: "wrong passwords",
        config: "",
        act: |server, counted| {
            let mut client = server.connect();
            get(&mut client, counted, "/private/a.txt", "", 401);
            get(&mut client, counted, "/private/a.txt", WRONG, 401);
            counted.add("wrong_passwords", 1);
            counted.close(&client);
        },
    },
    Case {
        name: "a client that leaves the head of its request",
        config: "",
        act: |server, counted| {
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHo").half_close();
            assert!(client.is_closed());
            // It has its line in the log.
            counted.response("unreadable", "", 400);
            counted.add("incomplete", 1);
            counted.close(&client);
        },
    },
    Case {
        name: "a client that leaves the body of a rejected request",
        config: "[limits]\nbody = 10\n",
        act: |server, counted| {
            let mut client = server.connect();
            client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nab");
            assert_eq!(client.read_response().status, 413);
            client.half_close();
            assert!(client.is_closed());
            counted.response("http_1_1", "POST", 413);
            counted.close(&client);
        },
    },
    Case {
        name: "a client that leaves in a pipeline",
        config: "",
        act: |server, counted| {
            let mut client = server.connect();
            client.set_receive_buffer(4096);
            let many = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5);
            client.send(many + "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
            for _ in 0..5 {
                assert_eq!(client.read_response().status, 200);
            }
            assert!(wait_until(TIMEOUT, || server.count("active") == 1));
            for _ in 0..6 {
                counted.response("http_1_1", "GET", 200);
            }
            counted.add("lookups", 6);
            // Only the last one.
            counted.add("incomplete", 1);
            counted.add("accepted", 1);
            counted.add("received", client.traffic().sent);
            client.reset();
        },
    },
];

/// A request whose application has it, and does not respond.
fn waiting(server: &Server, counted: &mut Counted) -> Client {
    let mut client = server.connect();
    client.send("GET /gate/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(wait_until(TIMEOUT, || server.count("upstream_requests") == 1));
    counted.add("upstream_requests", 1);
    client
}

/// The client of `waiting` leaves: the log has 400, and no response was sent.
fn abandon(mut client: Client, counted: &mut Counted) {
    client.half_close();
    assert!(client.is_closed());
    counted.response("http_1_1", "GET", 400);
    counted.add("abandoned", 1);
    counted.add("incomplete", 1);
    counted.close(&client);
}

#[test]
fn what_is_rejected_or_left_counts_once_by_its_reason() {
    let (app, sockets, gate) =
        (upstream(serve), upstream(echo), upstream(|mut stream, _| stream.read_exact(&mut [0])));
    let [app, gate] = [&app, &gate].map(|url| url.trim_start_matches("http://"));
    for Case { name, config, act } in CASES {
        let application = |name: &str, address: &str, more: &str| {
            format!(
                "[[application]]\nname = \"{name}\"\nprotocol = \"http\"\naddress = \"{address}\"\n\
                 retries = 0\n{more}\n[application.health]\nfailures = 0\nfailure_status = \"503\"\n"
            )
        };
        let routes = "[[route]]\npath = \"/gate/\"\napplication = \"gate\"\n\
                      [[route]]\npath = \"/full/\"\napplication = \"gate\"\n\
                      [[route]]\npath = \"/broken/\"\napplication = \"broken\"\n\
                      [[route]]\npath = \"/private/\"\nauth = \"basic\"\nuser_files = \"users\"\n";
        let config = format!(
            "workers = 1\n{config}[timeouts]\ndelay = 0\n{routes}\
             [[route]]\npath = \"/ws/\"\nproxy = \"{sockets}\"\n{}{}\
             [application.breaker]\nrequests = 4\nfailure_rate = 100\npause = \"1m\"\n",
            application("gate", gate, "connections = 1\nqueue = 0"),
            application("broken", app, ""),
        );
        let server = Site::new()
            .file("a.txt", "hello\n")
            .file("large", vec![b'x'; 32 << 20])
            .file_beside_root("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
            .config(&config)
            .start();
        let mut expected = Counted::default();
        act(&server, &mut expected);
        // The client does not know how many bytes of the last response were sent.
        if name.ends_with("pipeline") {
            assert!(wait_until(TIMEOUT, || server.count("active") == 0));
            expected.add("bytes", server.count("bytes"));
        }
        check(&server, &expected, name);
    }
}
