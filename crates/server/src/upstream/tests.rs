//! What a client sees of scripts: whole exchanges, with real programs, over a connection of a worker. The
//! spawner is a thread here.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use script::environment::{Additions, Credentials};
use site::model::{Action, Resources, Route, Script, Site};
use site::route::{Pattern, Routes};

use crate::connection::Connections;
use crate::connection::client::Client;
use crate::connection::idle;
use crate::files::roots::OpenRoots;
use crate::ipc::Channel;
use crate::peer::Family;
use crate::peer::Peer;
use crate::spawner::groups::{self, Settings};
use crate::stats::Count;
use crate::worker;

/// Longer than a slow machine takes.
const PATIENCE: Duration = Duration::from_secs(60);

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
        processes: 8,
        account: None,
    };
    let action = Action::Files { root: folder.to_owned(), strip: 0 };
    let fallback = Route::new(Pattern::EVERYTHING, action);
    let scripts =
        Route { script: Some(script), pattern: Pattern::parse("*.cgi").unwrap(), ..fallback.clone() };
    for routes in site.hosts.routes_mut() {
        *routes = Routes::new(fallback.clone(), vec![scripts.clone()]).unwrap();
    }
    site.scripts.spool = folder.to_owned();
    site
}

/// A worker that serves connections, as long as the test takes.
fn serve<T, F: Future<Output = T>>(site: Site, test: impl FnOnce(Rc<Connections>) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let (ours, theirs) = Channel::pair().unwrap();
        let settings = Settings {
            resources: Resources { files: None, ..Resources::default() },
            grace: Duration::from_millis(200),
            spool: site.scripts.spool.clone(),
        };
        let spawner_thread = std::thread::spawn(move || groups::serve(theirs, settings, None, None));
        let roots = OpenRoots::of(&site);
        let (connections, _closing) = worker::build(site, roots, Some(ours), Vec::new()).unwrap();
        let spawner = connections.responder.upstreams.spawner.clone().unwrap();
        let listening = tokio::task::spawn_local(spawner.receive_events());
        let serving = tokio::task::spawn_local(idle::serve(connections.clone()));
        let done =
            tokio::time::timeout(PATIENCE, test(connections.clone())).await.expect("it comes to an end");
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
    connections.idle.insert(server.into(), Family::Unix, Client::known(Peer::Unix), 0, 0).unwrap();
    client
}

/// Sends `request`, and reads until the connection ends.
async fn ask(connections: &Connections, request: &[u8]) -> String {
    let (mut client, request) = (connect(connections), request.to_vec());
    let asked = tokio::task::spawn_blocking(move || {
        let mut writer = client.try_clone().unwrap();
        let sending = std::thread::spawn(move || _ = writer.write_all(&request));
        let mut answer = Vec::new();
        _ = client.read_to_end(&mut answer);
        _ = client.shutdown(Shutdown::Both);
        sending.join().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    });
    asked.await.unwrap()
}

/// `200 OK|A: b|body`: an answer without what every one of them has. A body that breaks off ends with
/// `(cut)`.
fn read(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, "(no head)"));
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

/// What a script of this text answers to a GET.
fn check(text: &str, expected: &str) {
    let folder = Folder::new();
    folder.script("a.cgi", text);
    let answer = serve(site(&folder.0), |connections| async move { ask(&connections, &get("/a.cgi")).await });
    assert_eq!(read(&answer), expected, "{text}");
}

/// Chunks joined; `(cut)` behind them where the last is missing.
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
fn what_a_script_writes_is_the_answer() {
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
fn what_is_no_answer_is_the_scripts_fault() {
    check("exit 3", "502 Bad Gateway|(page)");
    check("kill -9 $$", "502 Bad Gateway|(page)");
    check("echo hello", "502 Bad Gateway|(page)");
    check("printf 'A: b\nC'", "502 Bad Gateway|(page)");
    check("exec >&-; sleep 0.3", "502 Bad Gateway|(page)");
}

#[test]
fn an_answer_that_breaks_off_can_be_told() {
    check("printf 'A: b\n\nhello'; sleep 0.1; kill -9 $$", "200 OK|A: b|hello(cut)");
    check("printf 'Content-Length: 9\n\nhello'", "200 OK||hello(cut)");
    check("printf 'Transfer-Encoding: chunked\n\n5\r\nhello\r\n'", "200 OK||hello(cut)");
}

/// What the script of this text answers to a request.
async fn answer(connections: &Connections, folder: &Folder, text: &str, request: &str) -> String {
    folder.script("a.cgi", text);
    read(&ask(connections, request.as_bytes()).await)
}

const CAT: &str = "printf 'A: %s\n\n' \"$CONTENT_LENGTH\"; cat";

#[test]
fn a_body_reaches_its_script() {
    let folder = Folder::new();
    let big = "x".repeat(1_000_000);
    serve(site(&folder.0), |connections| async move {
        let post = |fields: &str, body: &str| {
            format!("POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n\r\n{body}")
        };
        let sized = |body: &str| post(&format!("Content-Length: {}", body.len()), body);
        let expected = |length: usize, body: &str| format!("200 OK|A: {length}|{body}");
        for body in ["hello", "", &big] {
            let found = answer(&connections, &folder, CAT, &sized(body)).await;
            assert!(found == expected(body.len(), body), "{} bytes: {:.200}", body.len(), found);
        }
        let chunks = "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
        let chunked = post("Transfer-Encoding: chunked", chunks);
        assert_eq!(answer(&connections, &folder, CAT, &chunked).await, expected(6, "hello!"));
        let chunks = format!("{:x}\r\n{big}\r\n0\r\n\r\n", big.len());
        let chunked = post("Transfer-Encoding: chunked", &chunks);
        assert!(answer(&connections, &folder, CAT, &chunked).await == expected(big.len(), &big));
        let malformed = post("Transfer-Encoding: chunked", "x\r\n");
        assert_eq!(answer(&connections, &folder, CAT, &malformed).await, "400 Bad Request|(page)");
        let too_large = post("Content-Length: 1048577", &big);
        assert_eq!(answer(&connections, &folder, CAT, &too_large).await, "413 Content Too Large|(page)");
        let chunks = format!("{:x}\r\n{big}\r\n", big.len()).repeat(2);
        let too_large = post("Transfer-Encoding: chunked", &chunks);
        assert_eq!(answer(&connections, &folder, CAT, &too_large).await, "413 Content Too Large|(page)");
        // One that does not read it does not keep its answer back.
        let deaf = "printf 'A: b\n\nhello'";
        assert_eq!(answer(&connections, &folder, deaf, &sized(&big)).await, "200 OK|A: b|hello");
        // Nor does one that writes much before it reads.
        let late = "printf 'A: b\n\n'; head -c 500000 /dev/zero | tr '\\0' y; cat";
        let found = answer(&connections, &folder, late, &sized(&big)).await;
        assert!(found == format!("200 OK|A: b|{}{big}", "y".repeat(500_000)), "{:.200}", found);
    });
}

#[test]
fn a_client_that_waits_is_told_to_send() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        let request = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
            Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        folder.script("a.cgi", CAT);
        let mut client = connect(&connections);
        let asked = tokio::task::spawn_blocking(move || {
            client.write_all(request.as_bytes()).unwrap();
            let mut told = [0; 25];
            client.read_exact(&mut told).unwrap();
            assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
            client.write_all(b"hello").unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            String::from_utf8(answer).unwrap()
        });
        assert_eq!(read(&asked.await.unwrap()), "200 OK|A: 5|hello");
    });
}

#[test]
fn a_connection_goes_on_after_a_script() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        folder.script("a.cgi", "read x; printf 'Content-Length: 6\n\n%s\n' \"$x\"");
        std::fs::write(folder.0.join("b.txt"), "file").unwrap();
        let post = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nhello\n";
        let last = "GET /b.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let file = "GET /b.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        let answers = ask(&connections, [file, post, post, file, post, last].concat().as_bytes()).await;
        let bodies: Vec<_> =
            answers.split("HTTP/1.1 200 OK").map(|one| one.rsplit("\r\n\r\n").next().unwrap()).collect();
        assert_eq!(bodies, ["", "file", "hello\n", "hello\n", "file", "hello\n", "file"]);
    });
}

#[test]
fn a_script_may_lead_elsewhere() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        std::fs::write(folder.0.join("b.txt"), "file").unwrap();
        folder.script("query.cgi", "printf 'A: %s\n\n%s' \"$REQUEST_METHOD\" \"$QUERY_STRING\"; cat");
        folder.script("loop.cgi", "printf 'Location: /loop.cgi\n\n'");
        let post = "POST /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxy";
        let to = |target: &str| format!("read x; printf 'Location: {target}\n\n'");
        let found = answer(&connections, &folder, &to("/query.cgi?a=b"), post).await;
        assert_eq!(found, "200 OK|A: GET|a=b");
        let found = answer(&connections, &folder, &to("/missing"), post).await;
        assert_eq!(found, "404 Not Found|(page)");
        assert_eq!(answer(&connections, &folder, &to("/loop.cgi"), post).await, "502 Bad Gateway|(page)");
        let found = answer(&connections, &folder, &to("/b.txt"), post).await;
        assert!(found.starts_with("200 OK|Content-Type: text/plain") && found.ends_with("|file"), "{found}");
    });
}

#[test]
fn head_is_answered_without_content() {
    let folder = Folder::new();
    serve(site(&folder.0), |connections| async move {
        folder.script("a.cgi", "printf 'A: %s\nContent-Length: 5\n\nhello' $REQUEST_METHOD");
        let head = "HEAD /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let found = ask(&connections, head.as_bytes()).await;
        assert!(
            found.contains("\r\nA: HEAD\r\nContent-Length: 5\r\n") && found.ends_with("\r\n\r\n"),
            "{found}"
        );
    });
}

#[test]
fn what_takes_too_long_is_ended() {
    let folder = Folder::new();
    let mut site = site(&folder.0);
    site.scripts.first_byte = Duration::from_secs(2);
    site.scripts.idle = Duration::from_secs(1);
    site.scripts.total = Duration::from_secs(4);
    serve(site, |connections| async move {
        let get = "GET /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let found = answer(&connections, &folder, "exec sleep 60", get).await;
        assert_eq!(found, "504 Gateway Timeout|(page)");
        let found = answer(&connections, &folder, "printf 'A: b\n\nx'; exec sleep 60", get).await;
        assert_eq!(found, "200 OK|A: b|x(cut)");
        let drip = "printf 'A: b\n\n'; while :; do printf y; sleep 0.1; done";
        let found = answer(&connections, &folder, drip, get).await;
        assert!(found.starts_with("200 OK|A: b|y") && found.ends_with("y(cut)"), "{found}");
        while connections.responder.upstreams.concurrency.running() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(connections.services.counts.get(Count::Scripts), 3);
        assert_eq!(connections.services.counts.get(Count::ScriptsKilled), 3);
    });
}

#[test]
fn a_client_that_leaves_takes_its_script_with_it() {
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
fn when_too_many_run_others_wait_and_more_are_refused() {
    let folder = Folder::new();
    let mut site = site(&folder.0);
    (site.scripts.processes, site.scripts.queue) = (1, 1);
    serve(site, |connections| async move {
        folder.script("a.cgi", "printf 'A: b\n\n'; sleep 0.5; printf x");
        let get = get("/a.cgi");
        let asks = [ask(&connections, &get), ask(&connections, &get), ask(&connections, &get)];
        let [one, two, three] = asks;
        let (one, two, three) = tokio::join!(one, two, three);
        let mut found = [read(&one), read(&two), read(&three)];
        found.sort();
        assert_eq!(found, ["200 OK|A: b|x", "200 OK|A: b|x", "503 Service Unavailable|(page)"]);
    });
}

#[test]
fn a_file_may_be_sent_in_place_of_the_output() {
    let folder = Folder::new();
    let private = Folder::new();
    std::fs::write(private.0.join("a b"), "secret").unwrap();
    let mut site = site(&folder.0);
    site.scripts.sendfile = vec![private.0.clone()];
    let path = private.0.display().to_string();
    serve(site, |connections| async move {
        let get = "GET /a.cgi HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        for (name, expected) in [
            (format!("{path}/a b"), "200 OK|A: b|secret"),
            (format!("{path}/none"), "404 Not Found|(page)"),
            (path.clone(), "403 Forbidden|(page)"),
            (format!("{path}/../a"), "403 Forbidden|(page)"),
            ("/etc/passwd".to_owned(), "403 Forbidden|(page)"),
        ] {
            let text = format!("printf 'A: b\nX-Sendfile: {name}\n\nignored'");
            assert_eq!(answer(&connections, &folder, &text, get).await, expected, "{name}");
        }
    });
}
