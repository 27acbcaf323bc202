//! `taipan disconnect`: an administrator ends connections, whatever they do, and no others.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use e2e::http2::{Http2, Http2Request, frame};
use e2e::upstream::upstream;
use e2e::{Client, Random, Rows, Server, Signal, Site, TIMEOUT, Tls, runs, wait_until};
use serde_json::Value;

const LISTENERS: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\", \"127.0.0.3:0 http2\"]\nworkers = 2\n\
                         certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\npid_file = \"pid\"\n\
                         trusted_proxies = [\"127.0.0.8\"]\n[timeouts]\ndelay = 0\n\
                         defer_accept = \"0s\"\n[log]\naccess = \"stdout\"\n\
                         format = \"json\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n";
/// Notes its process, and takes longer than any test.
const SLOW: &str = "#!/bin/sh\necho $$ >> ../processes\nexec sleep 600\n";
/// As `SLOW`, when its response has begun.
const ENDLESS: &str =
    "#!/bin/sh\necho $$ >> ../processes\nprintf 'Content-Type: text/plain\\n\\nbegun'\nexec sleep 600\n";
const REASON: &str = "disconnected by an administrator";
/// The clients that are ended, those that are not, and a proxy.
const ENDED: &str = "127.0.0.9";
const OTHER: &str = "127.0.0.10";
const PROXY: &str = "127.0.0.8";

fn site(more: &str) -> Site {
    Site::new()
        .certificate()
        .file("a.txt", "a file")
        .file("big.bin", Random::new(1).bytes(8_000_000))
        .script("slow.cgi", SLOW)
        .script("endless.cgi", ENDLESS)
        .config(&format!("{LISTENERS}{more}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn plain(server: &Server, from: &str) -> Client {
    Client::tcp_from(ip(from), server.tcp(0))
}

fn secure(server: &Server, from: &str) -> Client {
    Client::tls_from(ip(from), server.tcp(1), &Tls::new())
}

fn http2(server: &Server, from: &str) -> Http2 {
    Http2::over(Client::tcp_from(ip(from), server.tcp(2))).expect("the server accepts")
}

fn begin(mut client: Client, path: &str) -> Client {
    client.set_receive_buffer(16 * 1024);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client
}

fn disconnect(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let output = server.run_command(&[&["disconnect"], words].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// The scripts that have begun.
fn processes(server: &Server) -> Vec<u32> {
    let text = fs::read_to_string(server.home().join("processes")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Whether a connection ends, whatever came before.
fn ends(client: &mut Client) -> bool {
    loop {
        match client.read_some() {
            Ok(some) if some.is_empty() => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// The next frame of a stream: its kind.
fn next_frame(client: &mut Http2, stream: u32) -> u8 {
    loop {
        let frame = client.read_frame().expect("another frame");
        if frame.stream == stream {
            return frame.kind;
        }
    }
}

fn responds(client: &mut Http2) -> bool {
    let stream = client.open(&Http2Request::get("/a.txt")).expect("the server reads");
    next_frame(client, stream) == frame::HEADERS
}

/// For each running request of `taipan top`, the ID of its connection, its client, and its target.
fn running(server: &Server) -> Vec<(String, String, String)> {
    let output = server.run_command(&["top", "--once"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().skip_while(|line| !line.contains("RUNNING NOW")).skip(1);
    rows.take_while(|line| !line.is_empty())
        .filter_map(|line| {
            // Its age has a unit.
            let fields: Vec<&str> = line.split_whitespace().skip(3).collect();
            let [id, client, _, target, ..] = fields[..] else { return None };
            Some((id.to_owned(), client.to_owned(), target.to_owned()))
        })
        .collect()
}

fn id_of(server: &Server, target: &str) -> String {
    let mut found = None;
    wait_until(TIMEOUT, || {
        found = running(server).into_iter().find(|(_, _, other)| other == target);
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("{target} runs: {}", server.stderr())).0
}

/// A server with a tunnel to a destination and WebSockets of an application, whose ends these report.
struct Kinds {
    server: Server,
    destination: u16,
    tunnels: Receiver<()>,
    sockets: Receiver<()>,
}

impl Kinds {
    fn start() -> Kinds {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let destination = listener.local_addr().expect("it is bound").port();
        let (ended_tunnel, tunnels) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, ended) = (stream.expect("it listens"), ended_tunnel.clone());
                thread::spawn(move || {
                    while stream.read(&mut [0; 100]).is_ok_and(|read| read > 0) {}
                    _ = ended.send(());
                });
            }
        });
        let (ended_socket, sockets) = channel();
        let application = upstream(move |mut stream, _| {
            stream.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            )?;
            while stream.read(&mut [0; 100]).is_ok_and(|read| read > 0) {}
            _ = ended_socket.send(());
            Ok(())
        });
        let server = site(&format!(
            "[[route]]\npath = \"/ws\"\nproxy = \"{application}\"\n[forward_proxy]\nports = [{destination}]\n\
             clients = \"127.0.0.0/8\"\ndestinations = \"127.0.0.0/8\"\n"
        ))
        .start();
        Kinds { server, destination, tunnels, sockets }
    }

    /// Those of HTTP/1.1. Three scripts run.
    fn all(&self, from: &str) -> [(&'static str, Client); 12] {
        let server = &self.server;
        [
            ("silent", plain(server, from)),
            ("idle", kept(plain(server, from))),
            ("half a head", half(plain(server, from))),
            ("a running script", begin(plain(server, from), "/slow.cgi")),
            ("a script that has begun", begin(plain(server, from), "/endless.cgi")),
            ("a download", begin(plain(server, from), "/big.bin")),
            ("a silent one before the handshake", secure(server, from)),
            ("idle, with TLS", kept(secure(server, from))),
            ("a running script, with TLS", begin(secure(server, from), "/slow.cgi")),
            ("a download, with TLS", begin(secure(server, from), "/big.bin")),
            ("a tunnel", self.tunnel(from)),
            ("a WebSocket", self.socket(from)),
        ]
    }

    fn tunnel(&self, from: &str) -> Client {
        let (mut client, port) = (plain(&self.server, from), self.destination);
        client.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"));
        assert_eq!(client.read_response_to_head().status, 200);
        client
    }

    fn socket(&self, from: &str) -> Client {
        let mut client = plain(&self.server, from);
        client
            .send("GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(client.read_response_to_head().status, 101);
        client
    }

    fn wait_for_scripts(&self, count: usize) {
        let begun = wait_until(TIMEOUT, || processes(&self.server).len() == count);
        assert!(begun, "{:?} {}", processes(&self.server), self.server.stderr());
    }
}

fn kept(mut client: Client) -> Client {
    assert_eq!(client.get("/a.txt").text(), "a file");
    client
}

fn half(mut client: Client) -> Client {
    client.send("GET /a.txt HTT");
    client
}

#[test]
fn ends_each_kind_of_connection_of_a_client() {
    let kinds = Kinds::start();
    let server = &kinds.server;
    let mut rows = Rows::new();
    let mut ended = kinds.all(ENDED);
    let mut idle = http2(server, ENDED);
    assert!(responds(&mut idle));
    let mut busy = http2(server, ENDED);
    busy.open(&Http2Request::get("/slow.cgi")).expect("the server reads");
    kinds.wait_for_scripts(4);
    // A connection that is silent is accepted by now, as one that was opened later has been served.
    let (code, text) = disconnect(server, &["--client", ENDED]);
    rows.holds("disconnect", &text, code == Some(0) && text == "ended: 14 connections\n");
    for (what, client) in &mut ended {
        rows.holds(*what, "ends", ends(client));
    }
    let mut end = idle.read_frame();
    while end.as_ref().is_ok_and(|frame| frame.kind == frame::DATA) {
        end = idle.read_frame();
    }
    rows.holds(
        "idle HTTP/2",
        &format!("is told: {end:?}"),
        end.is_ok_and(|frame| frame.kind == frame::GOAWAY),
    );
    rows.holds("idle HTTP/2", "ends", ends(idle.client()));
    rows.holds("busy HTTP/2", "ends", ends(busy.client()));
    rows.holds("the tunnel", "ends", kinds.tunnels.recv_timeout(TIMEOUT).is_ok());
    rows.holds("the WebSocket", "ends", kinds.sockets.recv_timeout(TIMEOUT).is_ok());
    let ended = wait_until(TIMEOUT, || !processes(server).into_iter().any(runs));
    rows.holds("scripts", "end", ended);
    rows.check("stats", server.count("disconnected"), 14);
}

#[test]
fn ends_no_connection_of_another_client() {
    let kinds = Kinds::start();
    let server = &kinds.server;
    let mut rows = Rows::new();
    let mut ended = kinds.all(ENDED);
    let mut others = kinds.all(OTHER);
    let mut other = http2(server, OTHER);
    assert!(responds(&mut other));
    kinds.wait_for_scripts(6);
    let (code, text) = disconnect(server, &["--client", ENDED]);
    rows.holds("disconnect", &text, code == Some(0) && text == "ended: 12 connections\n");
    for (what, client) in &mut ended {
        rows.holds(*what, "ends", ends(client));
    }
    let left = wait_until(TIMEOUT, || processes(server).into_iter().filter(|pid| runs(*pid)).count() == 3);
    rows.holds("scripts of another client", "go on", left);
    rows.holds("HTTP/2 of another client", "goes on", responds(&mut other));
    for (what, client) in &mut others {
        let goes_on = match *what {
            "silent" | "idle" | "a silent one before the handshake" | "idle, with TLS" => {
                client.get("/a.txt").text() == "a file"
            }
            "half a head" => client.request("P/1.1\r\nHost: localhost\r\n\r\n").text() == "a file",
            "a download" | "a download, with TLS" => client.read_response().body.len() == 8_000_000,
            _ => client.try_send("x").is_ok(),
        };
        rows.holds(*what, "of another client goes on", goes_on);
    }
    for (what, seen) in [("tunnel", &kinds.tunnels), ("WebSocket", &kinds.sockets)] {
        rows.holds(what, "ends", seen.recv_timeout(TIMEOUT).is_ok());
        rows.holds(what, "of another client goes on", seen.try_recv().is_err());
    }
    let is_line = |line: &String| line.contains("/slow.cgi") && line.contains(REASON);
    let logged = wait_until(TIMEOUT, || server.output().all().iter().any(is_line));
    rows.holds("that of the client", "is logged", logged);
    let lines = server.output().all();
    let wrong = lines.iter().find(|line| line.contains(REASON) && line.contains(OTHER));
    rows.holds("others", &format!("are not logged: {wrong:?}"), wrong.is_none());
}

#[test]
fn logs_the_act_and_each_request_that_it_has_ended() {
    let kinds = Kinds::start();
    let server = &kinds.server;
    let mut rows = Rows::new();
    let _ended = kinds.all(ENDED);
    kinds.wait_for_scripts(3);
    let (_, text) = disconnect(server, &["--client", ENDED]);
    rows.check("disconnect", text.as_str(), "ended: 12 connections\n");
    for target in ["/slow.cgi", "/endless.cgi", "/big.bin", "/ws"] {
        let is_line = |line: &String| line.contains(target) && line.contains(REASON) && line.contains(ENDED);
        let logged = wait_until(TIMEOUT, || server.output().all().iter().any(is_line));
        rows.holds(target, "is logged with its reason", logged);
    }
    let log = server.stderr();
    let act = format!("control: uid {}, process ", rustix::process::getuid().as_raw());
    let named =
        log.lines().any(|line| line.contains(&act) && line.ends_with(": disconnect client 127.0.0.9"));
    rows.holds("the act", &log, named);
    rows.holds("its result", &log, log.contains("disconnect client 127.0.0.9: ended: 12 connections"));
}

#[test]
fn ends_a_connection_by_the_id_that_top_shows() {
    let server = site("").start();
    let mut rows = Rows::new();
    let mut one = begin(plain(&server, ENDED), "/slow.cgi?one=1");
    let _other = begin(plain(&server, ENDED), "/slow.cgi?other=1");
    let (id, other) = (id_of(&server, "/slow.cgi?one=…"), id_of(&server, "/slow.cgi?other=…"));
    rows.holds("IDs", &format!("{id} {other}"), id != other);
    rows.check("disconnect", disconnect(&server, &[&id]), (Some(0), "ended: 1 connection\n".to_owned()));
    rows.holds("its connection", "ends", ends(&mut one));
    let unknown =
        |id: &str| format!("taipan: there is no connection {id}: it has ended, or the ID is another one\n");
    // No later connection gets its number.
    let mut later: Vec<Client> = (0..20).map(|_| plain(&server, ENDED)).collect();
    later.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    rows.check("again", disconnect(&server, &[&id]), (Some(1), unknown(&id)));
    rows.check("unknown", disconnect(&server, &["ffffffffffffffff"]), (Some(1), unknown("ffffffffffffffff")));
    for client in &mut later {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    rows.check("the other one", running(&server).iter().filter(|(own, ..)| *own == other).count(), 1);
    // The same connection without a request, and of another process, has the same ID.
    let mut client = begin(plain(&server, OTHER), "/big.bin");
    let id = id_of(&server, "/big.bin");
    assert_eq!(client.read_response().body.len(), 8_000_000);
    let is_idle = wait_until(TIMEOUT, || !running(&server).iter().any(|(own, ..)| *own == id));
    assert!(is_idle, "{:?}", running(&server));
    server.reload();
    assert_eq!(client.get("/a.txt").status, 200);
    rows.check("idle", disconnect(&server, &[&id]), (Some(0), "ended: 1 connection\n".to_owned()));
    rows.holds("idle", "ends", client.is_closed());
    for (words, code, expected) in [
        (&["0"][..], 2, "\"0\" is no ID of a connection"),
        (&["127.0.0.1"], 2, "is no ID of a connection"),
        (&[], 2, "disconnect takes the ID of a connection"),
        (&["1a", "--client", "127.0.0.1"], 2, "not both"),
        (&["--client", "localhost"], 2, "write an IP address"),
        (&["--client", "127.0.0.1/8"], 2, "write \"127.0.0.0/8\""),
    ] {
        let (found, text) = disconnect(&server, words);
        rows.holds(words.join(" "), &text, found == Some(code) && text.contains(expected));
    }
}

#[test]
fn ends_the_requests_of_a_client_behind_a_proxy_and_no_others_of_its_connection() {
    let server = site("").start();
    let mut rows = Rows::new();
    let of = |client: &str| format!("X-Forwarded-For: {client}\r\n");
    let request = |path: &str, client: &str| {
        Http2Request::new("GET", path, &[("host", "localhost"), ("x-forwarded-for", client)])
    };
    let mut shared = http2(&server, PROXY);
    let ended = shared.open(&request("/slow.cgi", "192.0.2.1")).expect("the server reads");
    shared.open(&request("/slow.cgi", "192.0.2.2")).expect("the server reads");
    let mut busy = plain(&server, PROXY);
    busy.send(format!("GET /slow.cgi HTTP/1.1\r\nHost: localhost\r\n{}\r\n", of("192.0.2.1")));
    let mut idle = plain(&server, PROXY);
    assert_eq!(idle.get_with("/a.txt", &of("192.0.2.1")).status, 200);
    assert!(wait_until(TIMEOUT, || processes(&server).len() == 3), "{}", server.stderr());
    let (code, text) = disconnect(&server, &["--client", "192.0.2.0/31"]);
    rows.holds("disconnect", &text, code == Some(0) && text.starts_with("ended: 1 connection, 1 stream of"));
    rows.check("the stream", next_frame(&mut shared, ended), frame::RST_STREAM);
    rows.holds("HTTP/1", "ends", ends(&mut busy));
    rows.holds("idle", "goes on", idle.get_with("/a.txt", &of("192.0.2.2")).status == 200);
    let left = wait_until(TIMEOUT, || processes(&server).into_iter().filter(|pid| runs(*pid)).count() == 1);
    rows.holds("scripts", "end", left);
    rows.holds("the shared connection", "goes on", responds(&mut shared));
    let (_, text) = disconnect(&server, &["--client", PROXY]);
    rows.holds("the proxy", &text, text == "ended: 2 connections\n");
    rows.holds("the shared connection", "ends", ends(shared.client()));
    let reasons = || server.output().all().iter().filter(|line| line.contains(REASON)).count();
    rows.holds("the log", "has each reason", wait_until(TIMEOUT, || reasons() == 3));
}

#[test]
fn finds_connections_of_processes_that_finish_their_requests() {
    let mut server = site("").start();
    let mut rows = Rows::new();
    let mut old = begin(plain(&server, ENDED), "/slow.cgi?old=1");
    let id = id_of(&server, "/slow.cgi?old=…");
    server.reload();
    let mut middle = begin(plain(&server, ENDED), "/slow.cgi?middle=1");
    id_of(&server, "/slow.cgi?middle=…");
    server.reload();
    let mut new = begin(plain(&server, ENDED), "/slow.cgi?new=1");
    id_of(&server, "/slow.cgi?new=…");
    rows.check("the first process", disconnect(&server, &[&id]).1, "ended: 1 connection\n".to_owned());
    rows.holds("its connection", "ends", ends(&mut old));
    rows.check("all", disconnect(&server, &["--client", ENDED]).1, "ended: 2 connections\n".to_owned());
    rows.holds("the second process", "ends", ends(&mut middle));
    rows.holds("the serving process", "ends", ends(&mut new));
    // And its spawner.
    let pids = wait_until(TIMEOUT, || server.children().len() == 2);
    rows.holds("the processes", "have nothing left to finish", pids);
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
}

#[test]
fn finds_connections_of_programs_before_an_upgrade() {
    let mut server = site("").start();
    let mut rows = Rows::new();
    let upgrade = |server: &Server| {
        let before = fs::read_to_string(server.home().join("pid")).expect("it has one");
        assert_eq!(server.run_command(&["upgrade"]).status.code(), Some(0), "{}", server.stderr());
        let pid = || fs::read_to_string(server.home().join("pid")).ok().filter(|now| *now != before);
        assert!(wait_until(TIMEOUT, || pid().is_some()), "{}", server.stderr());
        pid().and_then(|text| text.trim().parse().ok()).expect("it has one")
    };
    let mut oldest = begin(plain(&server, ENDED), "/slow.cgi?oldest=1");
    let id = id_of(&server, "/slow.cgi?oldest=…");
    let mut kept = begin(plain(&server, OTHER), "/endless.cgi");
    id_of(&server, "/endless.cgi");
    let first = upgrade(&server);
    let mut old = begin(plain(&server, ENDED), "/slow.cgi?old=1");
    id_of(&server, "/slow.cgi?old=…");
    let second = upgrade(&server);
    assert_ne!(first, second);
    let mut new = begin(plain(&server, ENDED), "/slow.cgi?new=1");
    id_of(&server, "/slow.cgi?new=…");
    rows.check("an unknown one", disconnect(&server, &["ffffffffff"]).0, Some(1));
    rows.check(
        "the first program",
        disconnect(&server, &[&id]),
        (Some(0), "ended: 1 connection\n".to_owned()),
    );
    rows.holds("its connection", "ends", ends(&mut oldest));
    rows.check("all", disconnect(&server, &["--client", ENDED]).1, "ended: 2 connections\n".to_owned());
    rows.holds("the second program", "ends", ends(&mut old));
    rows.holds("the serving program", "ends", ends(&mut new));
    let one = wait_until(TIMEOUT, || processes(&server).into_iter().filter(|pid| runs(*pid)).count() == 1);
    rows.holds("the script of another client", "goes on", one);
    rows.check(
        "another client",
        disconnect(&server, &["--client", OTHER]).1,
        "ended: 1 connection\n".to_owned(),
    );
    rows.holds("its connection", "ends", ends(&mut kept));
    rows.holds("the programs before", "end", wait_until(TIMEOUT, || !runs(first)));
    server.succeeded_by(second);
    server.signal(Signal::TERM);
}

#[test]
fn misses_no_connection_while_processes_are_replaced() {
    let server = site("").start();
    let count = 300;
    for round in 0..4 {
        let mut clients: Vec<Client> = (0..count).map(|_| plain(&server, ENDED)).collect();
        let mut others: Vec<Client> = (0..20).map(|_| plain(&server, OTHER)).collect();
        clients.iter_mut().chain(&mut others).for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
        let (code, text) = thread::scope(|scope| {
            let reload = scope.spawn(|| server.reload());
            let result = disconnect(&server, &["--client", "127.0.0.9/32"]);
            reload.join().expect("it reloads");
            result
        });
        assert_eq!((code, &*text), (Some(0), "ended: 300 connections\n"), "round {round}");
        assert!(clients.iter_mut().all(Client::is_closed), "round {round}");
        others.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    }
    assert_eq!(server.count("disconnected"), 4 * count);
}

/// The IDs are in the events of the page, too.
#[test]
fn the_page_shows_ids() {
    let server = site(
        "[[route]]\npath = \"/-/status\"\nmonitor = \"status\"\n[[route.rule]]\naddress = \"127.0.0.0/8\"\n\
         then = \"allow\"\n[[route.rule]]\nthen = \"deny\"\n",
    )
    .start();
    let mut busy = begin(plain(&server, ENDED), "/slow.cgi?page=1");
    let id = id_of(&server, "/slow.cgi?page=…");
    let mut client = plain(&server, OTHER);
    client.send("GET /-/status?events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.read_response_to_head().status, 200);
    let mut text = String::new();
    while !text.contains("\n\n") || !text.contains("data: ") {
        text.push_str(&String::from_utf8_lossy(&client.read_some().expect("there are events")));
    }
    let (_, event) = text.split_once("data: ").expect("an event");
    let event = event.lines().next().unwrap_or_default();
    let event: Value = serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {event}"));
    let workers = event["requests"].as_array().expect("there are workers");
    let all: Vec<&Value> =
        workers.iter().filter_map(|worker| worker["running"].as_array()).flatten().collect();
    let shown = all.iter().find(|request| request["target"] == "/slow.cgi?page=…");
    let shown = shown.unwrap_or_else(|| panic!("it runs: {all:?}"));
    assert_eq!(shown["connection"], *id);
    assert_eq!(disconnect(&server, &[&id]).0, Some(0));
    assert!(ends(&mut busy));
}
