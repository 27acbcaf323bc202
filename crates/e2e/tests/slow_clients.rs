//! Clients that hold connections without using them: incomplete heads, slow bodies, slowly read responses,
//! and silence. However many there are, another client soon gets a response, or 503.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{Client, Server, Site, TIMEOUT, command_with_descriptors, exclusive, tool, wait_until};

/// How long a client may wait for a response: four seconds by the manual, and more on a busy machine, but far less than
/// the timeouts of the slow clients.
const SOON: Duration = Duration::from_secs(8);
/// The interval between the requests of the other client.
const EVERY: Duration = Duration::from_millis(100);
/// How long it sends requests, from the start of the attack.
const LASTS: Duration = Duration::from_secs(4);
const ATTACKERS: usize = 3000;

/// Files, and a script that reads its whole body. `config` begins with keys of the top level.
fn site(config: &str) -> Site {
    let script = "#!/bin/sh\ncat >/dev/null\nprintf 'Content-Type: text/plain\\n\\nread\\n'\n";
    Site::new()
        .file("a.txt", "hello\n")
        // More than the kernel buffers for a client that does not read (tcp(7), tcp_wmem: 4 MiB by default).
        .file("large.bin", vec![7; 16 << 20])
        .script("read.cgi", script)
        .config(config)
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true")
}

/// The outcome of the other client's request, and its time.
fn probe(server: &Server) -> (Result<u16, String>, Duration) {
    let started = Instant::now();
    let mut client = server.connect();
    client.set_timeout(TIMEOUT);
    let sent = client.try_send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let answer = client.try_read_response();
    let status = answer.map(|answer| answer.status).map_err(|error| format!("{error}, {sent:?}"));
    (status, started.elapsed())
}

/// Sends requests until `over`; each must soon get a response. Returns the number of each outcome.
fn probes(server: &Server, over: &AtomicBool, what: &str) -> (usize, usize) {
    thread::scope(|scope| {
        let mut probes = Vec::new();
        let mut next = Instant::now();
        while !over.load(Ordering::Relaxed) {
            probes.push(scope.spawn(|| probe(server)));
            next += EVERY;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let found: Vec<_> =
            probes.into_iter().map(|probe| probe.join().expect("it does not panic")).collect();
        for (status, took) in &found {
            assert!(matches!(status, Ok(200 | 503)) && *took < SOON, "{what}: {status:?} after {took:?}");
        }
        let with = |wanted| found.iter().filter(|(status, _)| *status == Ok(wanted)).count();
        let longest = found.iter().map(|(_, took)| *took).max().unwrap_or_default();
        eprintln!("  {what}: 200: {}, 503: {}, longest {longest:?}", with(200), with(503));
        (with(200), with(503))
    })
}

/// During an attack by slowhttptest, with so many descriptors.
fn slowhttptest(descriptors: u64, arguments: &[&str], path: &str) {
    let what = format!("{descriptors} descriptors, slowhttptest {}", arguments.join(" "));
    let server = site("").start_by(command_with_descriptors(descriptors));
    assert_eq!(server.get("/a.txt").status, 200);
    let connections = ATTACKERS.to_string();
    let mut attack = tool("slowhttptest");
    attack.args(arguments).args(["-c", &connections, "-r", "1500", "-l", "30", "-u", &server.url(path)]);
    let mut attack = attack.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let begun = wait_until(TIMEOUT, || server.count("accepted") > 100);
    let over = AtomicBool::new(false);
    let (served, _) = thread::scope(|scope| {
        let probes = scope.spawn(|| probes(&server, &over, &what));
        thread::sleep(LASTS);
        // A busy machine takes longer to connect them all.
        wait_until(TIMEOUT * 2, || server.count("accepted") as usize >= ATTACKERS);
        over.store(true, Ordering::Relaxed);
        probes.join().expect("each has an answer")
    });
    let accepted = server.count("accepted");
    let evicted = server.count("evicted") + server.count("evicted_slow");
    // It may have ended by itself.
    _ = attack.kill();
    _ = attack.wait();
    assert!(begun && accepted as usize >= ATTACKERS, "{what}: {accepted} connections");
    assert!(served > 0, "{what}: not one was served: {}", server.stats());
    assert!(descriptors > 256 || evicted > 0, "{what}: {}", server.stats());
    assert_eq!(server.count("accept_failed"), 0, "{what}");
}

#[test]
fn answers_other_clients_beside_unfinished_heads() {
    let _exclusive = exclusive();
    for descriptors in [256, 1024, 20_000] {
        slowhttptest(descriptors, &["-H", "-i", "3", "-x", "10"], "/a.txt");
    }
}

#[test]
fn answers_other_clients_beside_slow_bodies() {
    let _exclusive = exclusive();
    for descriptors in [256, 1024, 20_000] {
        slowhttptest(descriptors, &["-B", "-i", "3", "-x", "10", "-s", "100000"], "/read.cgi");
    }
    // A file needs no body, but the request has one.
    slowhttptest(1024, &["-B", "-t", "GET", "-i", "3", "-x", "10", "-s", "100000"], "/a.txt");
}

#[test]
fn answers_other_clients_beside_slow_readers() {
    let _exclusive = exclusive();
    for descriptors in [256, 1024, 20_000] {
        slowhttptest(descriptors, &["-X", "-n", "3", "-z", "16", "-w", "512", "-y", "1024"], "/large.bin");
    }
}

/// Clients that reconnect as fast as they can, send `begin` on each new connection, and nothing more.
fn rush(server: &Server, begin: &str, over: &AtomicBool) {
    // More of them than fit; the earlier ones stay open.
    let mut clients = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        if let Ok(mut client) = TcpStream::connect(server.addr()) {
            // The server may have rejected it already.
            _ = client.write_all(begin.as_bytes());
            clients.push_back(client);
        }
        if clients.len() > ATTACKERS {
            clients.pop_front();
        }
    }
}

#[test]
fn answers_other_clients_beside_silent_ones() {
    let _exclusive = exclusive();
    for (descriptors, begin) in [(256, ""), (1024, ""), (256, "GET /a.txt HTTP/1.1\r\nHo"), (1024, "G")] {
        let server = site("").start_by(command_with_descriptors(descriptors));
        assert_eq!(server.get("/a.txt").status, 200);
        let over = AtomicBool::new(false);
        let what = format!("{descriptors} descriptors, clients that send {begin:?}");
        thread::scope(|scope| {
            scope.spawn(|| rush(&server, begin, &over));
            let probes = scope.spawn(|| probes(&server, &over, &what));
            thread::sleep(LASTS);
            over.store(true, Ordering::Relaxed);
            probes.join().expect("each has an answer");
        });
        assert_eq!(server.count("accept_failed"), 0);
        assert!(wait_until(TIMEOUT, || server.get("/a.txt").status == 200), "then all is as before");
    }
}

/// A site with capacity for four clients, with an access log.
fn small_site() -> Server {
    let config = "workers = 1\n[limits]\nconnections = 4\n[log]\naccess = \"stdout\"\nformat = \"json\"";
    site(config).start()
}

#[test]
fn ends_the_slowest_client_with_408_at_capacity() {
    let post = "POST /read.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    for (begin, is_told) in [
        ("GET /a.txt HTTP/1.1\r\nHo", true),
        (post, true),
        (&post.replace("POST /read.cgi", "GET /a.txt"), true),
        ("GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ] {
        let server = small_site();
        let mut slow = server.connect();
        slow.set_receive_buffer(4096);
        slow.send(begin);
        assert!(wait_until(TIMEOUT, || server.count("active") == 1), "{}", server.stats());
        // Three more slow clients, which came later.
        let mut others: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        thread::sleep(Duration::from_millis(300));
        for client in &mut others {
            client.send("GET /a.txt HTTP/1.1\r\nHo");
        }
        assert!(wait_until(TIMEOUT, || server.count("active") == 4), "{}", server.stats());
        let (status, _) = probe_until_served(&server);
        assert_eq!(status, Ok(200), "{begin:?}");
        assert!(server.count("evicted_slow") >= 1, "{begin:?}: {}", server.stats());
        let line = server.wait_for_output("too slow while others waited", TIMEOUT);
        match is_told {
            true => {
                assert_eq!(slow.read_response().status, 408, "{begin:?}");
                assert!(slow.is_finished(), "closed without a reset");
                assert!(line.contains("408"), "{line}");
            }
            false => {
                assert!(slow.try_read_response().is_err(), "it got everything");
                assert!(line.contains("/large.bin"), "{line}");
            }
        }
        // The others differ only in that they came later.
        let mut last = others.pop().expect("there are three");
        last.send("st: h\r\n\r\n");
        assert_eq!(last.read_response().status, 200, "{begin:?}");
    }
}

/// As `probe`, and repeats after 503: the server needs a while to find the slow clients.
fn probe_until_served(server: &Server) -> (Result<u16, String>, Duration) {
    let mut last = probe(server);
    assert!(wait_until(TIMEOUT, || {
        let is_served = last.0 == Ok(200);
        if !is_served {
            last = probe(server);
        }
        is_served
    }));
    last
}

#[test]
fn keeps_clients_above_the_least_rate_at_capacity() {
    let server = small_site();
    // Two kilobytes per second, four times the minimum rate, to send and to receive.
    let mut sender = server.connect();
    sender.send("POST /read.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n");
    let mut reader = server.connect();
    reader.set_receive_buffer(4096);
    reader.send("GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let mut attackers = Vec::new();
            // As long as the slow transfers take.
            while !over.load(Ordering::Relaxed) && attackers.len() < 200 {
                let mut attacker = server.connect();
                _ = attacker.try_send("GET /a.txt HTTP/1.1\r\nHo");
                attackers.push(attacker);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let began = Instant::now();
        for n in 1..=50 {
            sender.send([b'x'; 200]);
            reader.read_some().expect("it is not closed");
            thread::sleep((EVERY * n).saturating_sub(began.elapsed()));
        }
        over.store(true, Ordering::Relaxed);
        attack.join().expect("it does not panic");
    });
    assert_eq!(sender.read_response().body, b"read\n", "all of it");
    assert!(!reader.read_some().expect("it is not closed").is_empty());
    assert!(server.count("evicted_slow") > 10, "{}", server.stats());
}

#[test]
fn sends_no_body_with_503_to_head() {
    let config = "workers = 1\n[limits]\nconnections_per_client = 1";
    let server = site(config).start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    let mut refused = server.connect();
    refused.send("HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(refused.read_response_to_head().status, 503);
    assert!(refused.is_finished());
}
