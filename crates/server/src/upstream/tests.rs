//! Whole exchanges with scripts, which are real programs, over a connection of a worker. The spawner is a thread here.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use script::environment::{Additions, Credentials};
use site::model::{Action, BackgroundJobs, Resources, Route, Script, Site};
use site::route::{Pattern, Routes};

use crate::connection::Connections;
use crate::connection::client::Client;
use crate::connection::idle::{self, IdleConnection};
use crate::connection::stream::Socket;
use crate::files::roots::OpenRoots;
use crate::peer::Family;
use crate::peer::Peer;
use crate::process::ipc::Channel;
use crate::services::Services;
use crate::spawner::groups::{self, Settings};
use crate::stats::Count;
use crate::worker;

/// Longer than a slow machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("taipan-cgi-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn site(folder: &Path) -> Site {
    let mut site = Site::folder(folder.to_owned(), Vec::new());
    let mut environment = Additions::default();
    environment.add("PATH", b"/usr/local/bin:/usr/bin:/bin").unwrap();
    let script = Script {
        interpreter: None,
        environment,
        credentials: Credentials::Withheld,
        remote_host: Default::default(),
        processes: 8,
        account: None,
        forwarding: Default::default(),
        buffering: Default::default(),
    };
    let action = Action::Files { root: folder.to_owned(), strip: 0 };
    let fallback = Route::new(Pattern::EVERYTHING, action);
    let scripts = Route {
        script: Some(Box::new(script)),
        pattern: Pattern::parse("*.cgi").unwrap(),
        ..fallback.clone()
    };
    for routes in site.hosts.routes_mut() {
        *routes = Routes::new(fallback.clone(), vec![scripts.clone()]).unwrap();
    }
    site.scripts.spool = folder.to_owned();
    site
}

/// Runs a worker for the time of a test.
fn serve<T, F: Future<Output = T>>(site: Site, test: impl FnOnce(Rc<Connections>) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let (ours, theirs) = Channel::pair().unwrap();
        let settings = Settings {
            resources: Resources { files: None, ..Resources::default() },
            grace: Duration::from_millis(200),
            background_jobs: BackgroundJobs::Ended,
            spool: site.scripts.spool.clone(),
            reports_starts: false,
        };
        let spawner_thread = std::thread::spawn(move || groups::serve(theirs, settings, None, None));
        let roots = OpenRoots::of(&site);
        let (connections, _closing) =
            worker::build(Services::new(site, None), roots, Some(ours), Vec::new(), None).unwrap();
        let spawner = connections.responder.upstreams.spawner.clone().unwrap();
        let listening = tokio::task::spawn_local(spawner.receive_events());
        let serving = tokio::task::spawn_local(idle::serve(connections.clone()));
        let done = tokio::time::timeout(TIMEOUT, test(connections.clone())).await.expect("the test ends");
        listening.abort();
        serving.abort();
        _ = (listening.await, serving.await);
        drop(connections);
        drop(spawner_thread);
        done
    })
}

fn connect(connections: &Connections) -> UnixStream {
    let (client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let socket = Socket::new(server.into(), Family::Unix, Default::default(), None);
    let own = Client::known(Peer::Unix, Default::default());
    connections.idle.insert(IdleConnection::new(socket, own, 0, 0)).unwrap();
    client
}

/// Sends `request`, and reads until the connection ends.
async fn exchange(connections: &Connections, request: &[u8]) -> String {
    let (mut client, request) = (connect(connections), request.to_vec());
    let response = tokio::task::spawn_blocking(move || {
        let mut writer = client.try_clone().unwrap();
        let sending = std::thread::spawn(move || _ = writer.write_all(&request));
        let mut response = Vec::new();
        _ = client.read_to_end(&mut response);
        _ = client.shutdown(Shutdown::Both);
        sending.join().unwrap();
        String::from_utf8_lossy(&response).into_owned()
    });
    response.await.unwrap()
}

/// `200 OK|A: b|body`: a response without the fields that all have. An incomplete body ends with `(cut)`.
fn read(response: &str) -> String {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, "(no head)"));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).unwrap_or("(no status)");
    let own =
        ["Date: ", "Server: ", "Connection: ", "Transfer-Encoding: ", "Content-Length: ", "Retry-After: "];
    let fields: Vec<_> = lines.filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
    let length = |name| head.split("\r\n").find_map(|line| line.strip_prefix(name));
    let body = match length("Content-Length: ").map(|length| length.parse::<usize>().unwrap()) {
        _ if body.starts_with("<!DOCTYPE html>") => return format!("{status}|(page)"),
        Some(length) if body.len() < length => format!("{body}(cut)"),
        None if length("Transfer-Encoding: ").is_some() => unchunk(body),
        _ => body.to_owned(),
    };
    format!("{status}|{}|{body}", fields.join("|"))
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Checks the response to a GET of a script.
fn check(text: &str, expected: &str) {
    let folder = Folder::new();
    folder.script("a.cgi", text);
    let response =
        serve(site(&folder.0), |connections| async move { exchange(&connections, &get("/a.cgi")).await });
    assert_eq!(read(&response), expected, "{text}");
}

/// Joins chunks. `(cut)` follows them where the last is missing.
fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole + "(cut)"
}

#[test]
fn sends_the_output_of_a_script_as_the_response() {
    check("printf 'Content-Type: text/plain\n\nhello'", "200 OK|Content-Type: text/plain|hello");
    check("printf 'A: b\r\n\r\n'; sleep 0.1; printf 'a\nb'; sleep 0.1; echo", "200 OK|A: b|a\nb\n");
    check("printf 'Status: 404 Gone\nX: y\n\nno'", "404 Not Found|X: y|no");
    check("printf 'Content-Length: 2\n\nabc'", "200 OK||ab");
    check("printf 'Content-Length: 2\n\n'; sleep 0.1; printf 'ab'; sleep 0.1; printf c", "200 OK||ab");
    check("printf 'HTTP/1.1 201 x\r\nDate: x\r\nA: b\r\n\r\nc'", "201 Created|A: b|c");
    check("printf 'Transfer-Encoding: chunked\n\n2\r\nab\r'; sleep 0.1; printf '\n0\r\n\r\n'", "200 OK||ab");
    check("printf 'Location: http://x/\n\n'", "302 Found|Location: http://x/|");
    check("printf 'Status: 204\nA: b\n\nxyz'", "204 No Content|A: b|");
    check("printf 'A: b\n\n'; exec >&-; sleep 0.3", "200 OK|A: b|");
}

#[test]
fn answers_502_to_output_that_is_no_response() {
    check("exit 3", "502 Bad Gateway|(page)");
    check("kill -9 $$", "502 Bad Gateway|(page)");
    check("echo hello", "502 Bad Gateway|(page)");
    check("printf 'A: b\nC'", "502 Bad Gateway|(page)");
    check("exec >&-; sleep 0.3", "502 Bad Gateway|(page)");
}

#[test]
fn cuts_the_response_when_the_output_is_incomplete() {
    check("printf 'A: b\n\nhello'; sleep 0.1; kill -9 $$", "200 OK|A: b|hello(cut)");
    check("printf 'Content-Length: 9\n\nhello'", "200 OK||hello(cut)");
    check("printf 'Transfer-Encoding: chunked\n\n5\r\nhello\r\n'", "200 OK||hello(cut)");
}

/// The response of a script to a request.
async fn response(connections: &Connections, folder: &Folder, text: &str, request: &str) -> String {
    folder.script("a.cgi", text);
    read(&exchange(connections, request.as_bytes()).await)
}

const CAT: &str = "printf 'A: %s\n\n' \"$CONTENT_LENGTH\"; cat";

#[test]
fn writes_the_body_to_the_script() {
    let folder = Folder::new();
    let big = "x".repeat(1_000_000);
    serve(site(&folder.0), |connections| async move {
        let post = |fields: &str, body: &str| {
            format!("POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n\r\n{body}")
        };
        let sized = |body: &str| post(&format!("Content-Length: {}", body.len()), body);
        let expected = |length: usize, body: &str| format!("200 OK|A: {length}|{body}");
        for body in ["hello", "", &big] {
            let found = response(&connections, &folder, CAT, &sized(body)).await;
            assert!(found == expected(body.len(), body), "{} bytes: {:.200}", body.len(), found);
        }
        let chunks = "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
        let chunked = post("Transfer-Encoding: chunked", chunks);
        assert_eq!(response(&connections, &folder, CAT, &chunked).await, expected(6, "hello!"));
        let chunks = format!("{:x}\r\n{big}\r\n0\r\n\r\n", big.len());
        let chunked = post("Transfer-Encoding: chunked", &chunks);
        assert!(response(&connections, &folder, CAT, &chunked).await == expected(big.len(), &big));
        let malformed = post("Transfer-Encoding: chunked", "x\r\n");
        assert_eq!(response(&connections, &folder, CAT, &malformed).await, "400 Bad Request|(page)");
        let too_large = post("Content-Length: 1048577", &big);
        assert_eq!(response(&connections, &folder, CAT, &too_large).await, "413 Content Too Large|(page)");
        let chunks = format!("{:x}\r\n{big}\r\n", big.len()).repeat(2);
        let too_large = post("Transfer-Encoding: chunked", &chunks);
        assert_eq!(response(&connections, &folder, CAT, &too_large).await, "413 Content Too Large|(page)");
        // A script that does not read the body.
        let deaf = "printf 'A: b\n\nhello'";
        assert_eq!(response(&connections, &folder, deaf, &sized(&big)).await, "200 OK|A: b|hello");
        // A script that writes much before it reads.
        let late = "printf 'A: b\n\n'; head -c 500000 /dev/zero | tr '\\0' y; cat";
        let found = response(&connections, &folder, late, &sized(&big)).await;
        assert!(found == format!("200 OK|A: b|{}{big}", "y".repeat(500_000)), "{:.200}", found);
    });
}

#[test]
fn sends_100_continue_to_a_client_that_expects_it() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        let request = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
            Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        folder.script("a.cgi", CAT);
        let mut client = connect(&connections);
        let response = tokio::task::spawn_blocking(move || {
            client.write_all(request.as_bytes()).unwrap();
            let mut interim = [0; 25];
            client.read_exact(&mut interim).unwrap();
            assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
            client.write_all(b"hello").unwrap();
            let mut response = Vec::new();
            client.read_to_end(&mut response).unwrap();
            String::from_utf8(response).unwrap()
        });
        assert_eq!(read(&response.await.unwrap()), "200 OK|A: 5|hello");
    });
}

#[test]
fn keeps_the_connection_after_a_script() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        folder.script("a.cgi", "read x; printf 'Content-Length: 6\n\n%s\n' \"$x\"");
        std::fs::write(folder.0.join("b.txt"), "file").unwrap();
        let post = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nhello\n";
        let last = "GET /b.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let file = "GET /b.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        let responses =
            exchange(&connections, [file, post, post, file, post, last].concat().as_bytes()).await;
        let bodies: Vec<_> =
            responses.split("HTTP/1.1 200 OK").map(|one| one.rsplit("\r\n\r\n").next().unwrap()).collect();
        assert_eq!(bodies, ["", "file", "hello\n", "hello\n", "file", "hello\n", "file"]);
    });
}

#[test]
fn follows_internal_redirects() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        std::fs::write(folder.0.join("b.txt"), "file").unwrap();
        folder.script("query.cgi", "printf 'A: %s\n\n%s' \"$REQUEST_METHOD\" \"$QUERY_STRING\"; cat");
        folder.script("loop.cgi", "printf 'Location: /loop.cgi\n\n'");
        let post = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxy";
        let to = |target: &str| format!("read x; printf 'Location: {target}\n\n'");
        let found = response(&connections, &folder, &to("/query.cgi?a=b"), post).await;
        assert_eq!(found, "200 OK|A: GET|a=b");
        let found = response(&connections, &folder, &to("/missing"), post).await;
        assert_eq!(found, "404 Not Found|(page)");
        assert_eq!(response(&connections, &folder, &to("/loop.cgi"), post).await, "502 Bad Gateway|(page)");
        let found = response(&connections, &folder, &to("/b.txt"), post).await;
        assert!(found.starts_with("200 OK|Content-Type: text/plain") && found.ends_with("|file"), "{found}");
    });
}

#[test]
fn sends_no_content_in_a_response_to_head() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        folder.script("a.cgi", "printf 'A: %s\nContent-Length: 5\n\nhello' $REQUEST_METHOD");
        let head = "HEAD /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let found = exchange(&connections, head.as_bytes()).await;
        assert!(
            found.contains("\r\nA: HEAD\r\nContent-Length: 5\r\n") && found.ends_with("\r\n\r\n"),
            "{found}"
        );
    });
}

#[test]
fn ends_scripts_at_their_timeouts() {
    let folder = Folder::new();
    let mut site = site(&folder.0);
    site.scripts.first_byte = Duration::from_secs(2);
    site.scripts.idle = Duration::from_secs(1);
    site.scripts.total = Duration::from_secs(4);
    serve(site, |connections| async move {
        let get = "GET /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let found = response(&connections, &folder, "exec sleep 60", get).await;
        assert_eq!(found, "504 Gateway Timeout|(page)");
        let found = response(&connections, &folder, "printf 'A: b\n\nx'; exec sleep 60", get).await;
        assert_eq!(found, "200 OK|A: b|x(cut)");
        let drip = "printf 'A: b\n\n'; while :; do printf y; sleep 0.1; done";
        let found = response(&connections, &folder, drip, get).await;
        assert!(found.starts_with("200 OK|A: b|y") && found.ends_with("y(cut)"), "{found}");
        while connections.responder.upstreams.concurrency.running() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(connections.services.counts.get(Count::Scripts), 3);
        assert_eq!(connections.services.counts.get(Count::ScriptsKilled), 3);
    });
}

#[test]
fn ends_a_script_when_its_client_disconnects() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        let get = "GET /a.cgi HTTP/1.1\r\nHost: h\r\n\r\n";
        let cases = [
            ("exec sleep 60", get),
            ("printf 'A: b\n\n'; exec sleep 60", get),
            ("printf 'A: b\n\n'; exec cat /dev/zero", get),
            ("exec sleep 60", "POST /a.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"),
        ];
        for (text, request) in cases {
            folder.script("a.cgi", text);
            let mut client = connect(&connections);
            client.write_all(request.as_bytes()).unwrap();
            while connections.responder.upstreams.concurrency.running() == 0 {
                tokio::task::yield_now().await;
            }
            drop(client);
            while connections.responder.upstreams.concurrency.running() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
}

#[test]
fn queues_requests_beyond_the_limit_and_rejects_those_beyond_the_queue() {
    let folder = Folder::new();
    let mut site = site(&folder.0);
    (site.scripts.processes, site.scripts.queue) = (1, 1);
    serve(site, |connections| async move {
        folder.script("a.cgi", "printf 'A: b\n\n'; sleep 0.5; printf x");
        let get = get("/a.cgi");
        let exchanges =
            [exchange(&connections, &get), exchange(&connections, &get), exchange(&connections, &get)];
        let [one, two, three] = exchanges;
        let (one, two, three) = tokio::join!(one, two, three);
        let mut found = [read(&one), read(&two), read(&three)];
        found.sort();
        assert_eq!(found, ["200 OK|A: b|x", "200 OK|A: b|x", "503 Service Unavailable|(page)"]);
    });
}

#[test]
fn sends_the_file_that_a_script_names() {
    let folder = Folder::new();
    let private = Folder::new();
    std::fs::write(private.0.join("a b"), "secret").unwrap();
    let mut site = site(&folder.0);
    site.scripts.sendfile = vec![private.0.clone()];
    let path = private.0.display().to_string();
    serve(site, |connections| async move {
        let get = "GET /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        for (name, expected) in [
            (format!("{path}/a b"), "200 OK|ETag: \"b\"|Accept-Ranges: bytes|secret"),
            (format!("{path}/none"), "404 Not Found|(page)"),
            (path.clone(), "403 Forbidden|(page)"),
            (format!("{path}/../a"), "403 Forbidden|(page)"),
            ("/etc/passwd".to_owned(), "403 Forbidden|(page)"),
        ] {
            let text = format!("printf 'ETag: \"b\"\nX-Sendfile: {name}\n\nignored'");
            assert_eq!(response(&connections, &folder, &text, get).await, expected, "{name}");
        }
    });
}
