//! Sessions are resumed by every process that serves a site, and private keys are in no process but the signer.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Client, Rows, Server, Signal, Site, TIMEOUT, Tls, authority, is_root, signal_process, stop_process, tool,
    wait_until,
};

const TLS: &str = "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
                   workers = 3\n";
const NAMES: &[&str] = &["localhost"];
const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

fn site(settings: &str) -> Site {
    let user = if is_root() { "user = \"nobody\"\n" } else { "" };
    Site::new().file("index.html", "hello").certificate().config(&format!("{user}{TLS}[tls]\n{settings}"))
}

/// A session of OpenSSL's client.
struct Session {
    version: &'static str,
    file: PathBuf,
}

impl Session {
    /// A new session, which the server may give a ticket for.
    fn new(server: &Server, version: &'static str) -> Session {
        let file = server.home().join(format!("session{version}"));
        let session = Session { version, file };
        let file = session.file.clone();
        assert!(!connect(server, version, &["-sess_out".as_ref(), &file]), "it is new");
        session
    }

    /// Whether a server resumes it.
    fn is_resumed(&self, server: &Server) -> bool {
        connect(server, self.version, &["-sess_in".as_ref(), &self.file])
    }
}

/// Connects, and reads a response to its end. Returns whether a session was resumed.
fn connect(server: &Server, version: &str, session: &[&Path]) -> bool {
    let mut command = tool("openssl");
    command.args(["s_client", "-servername", "localhost", "-ign_eof", version, "-connect"]);
    command.arg(server.addr().to_string()).args(session).stdin(Stdio::piped());
    let mut client = command.spawn().expect("it can be started");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.stdin.as_mut().expect("it is a pipe").write_all(request).expect("it reads");
    let output = client.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("hello"), "{text}\n{}", server.stderr());
    let is_resumed = text.contains("Reused, TLS");
    assert!(is_resumed || text.contains("New, TLS"), "{text}");
    is_resumed
}

fn signer(server: &Server) -> u32 {
    // Its threads start last.
    assert!(wait_until(TIMEOUT, || !server.processes("signer").is_empty()), "{}", server.stderr());
    server.processes("signer").last().copied().expect("there is a signer")
}

#[test]
fn every_worker_resumes_sessions() {
    let server = site("").start();
    for version in VERSIONS {
        let session = Session::new(&server, version);
        // The kernel chooses among three workers.
        for connection in 0..10 {
            assert!(session.is_resumed(&server), "{version}: connection {connection}");
        }
    }
}

#[test]
fn sessions_outlive_reloads_and_upgrades() {
    let mut server = site("").config("[log]\nlevel = \"info\"").start();
    let sessions = VERSIONS.map(|version| Session::new(&server, version));
    server.reload();
    for session in &sessions {
        assert!(session.is_resumed(&server), "after a reload: {}", session.version);
    }
    let output = server.run_command(&["upgrade"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = server.wait_for_line("has taken over", TIMEOUT);
    let pid = line.split(' ').find_map(|word| word.parse().ok()).expect("the line has its number");
    server.succeeded_by(pid);
    for session in &sessions {
        assert!(session.is_resumed(&server), "after an upgrade: {}", session.version);
    }
}

#[test]
fn servers_with_the_same_key_file_resume_each_others_sessions() {
    let with_key = |byte: u8| {
        let site = site("ticket_key_file = \"ticket.key\"\nticket_rotation = \"3h\"");
        site.file_beside_root("ticket.key", [byte; 48]).start()
    };
    let (one, same, other) = (with_key(1), with_key(1), with_key(2));
    for version in VERSIONS {
        let session = Session::new(&one, version);
        assert!(session.is_resumed(&same), "{version}");
        assert!(!session.is_resumed(&other), "{version}: another key");
    }
    other.files().file("ticket.key", [1; 48]);
    other.reload();
    assert!(Session::new(&one, VERSIONS[1]).is_resumed(&other), "a reload reads the file");
    other.files().file("ticket.key", "short");
    let error = other.reload_error();
    assert!(error.contains("ticket.key must have 32 to 4096 random bytes"), "{error}");
}

#[test]
fn a_session_is_not_resumed_when_its_key_is_forgotten() {
    let server = site("ticket_rotation = \"1s\"").start();
    for version in VERSIONS {
        let session = Session::new(&server, version);
        assert!(wait_until(TIMEOUT, || !session.is_resumed(&server)), "{version}");
    }
}

#[test]
fn sessions_are_not_resumed_without_tickets() {
    let server = site("tickets = false").start();
    for version in VERSIONS {
        for _ in 0..3 {
            let file = server.home().join("session");
            connect(&server, version, &["-sess_out".as_ref(), &file]);
            // Without a ticket, TLS 1.3 has no session that could be stored.
            let resumed = file.exists() && connect(&server, version, &["-sess_in".as_ref(), &file]);
            assert!(!resumed, "{version}");
        }
    }
}

#[test]
fn handshakes_go_on_when_the_signer_is_killed() {
    let server = site("signer = true").start();
    let (address, tls) = (server.addr(), Tls::new());
    let mut before = Client::tls(address, &tls);
    assert_eq!(before.get("/").status, 200);
    // After more of them, the pauses are longer than a handshake waits.
    for _ in 0..2 {
        let (killed, serving) = (signer(&server), server.processes("worker"));
        signal_process(killed, Signal::KILL);
        assert_eq!(Client::tls(address, &tls).get("/").status, 200, "waits for the next signer");
        assert_ne!(signer(&server), killed);
        assert_eq!(server.processes("worker"), serving, "the same process serves");
    }
    assert_eq!(before.get("/").status, 200, "on the same connection");
    assert!(server.stderr().contains("the process that signs handshakes has ended: killed by SIGKILL"));
}

/// One worker, with and without TLS, and its signer.
fn with_signer() -> (Server, u32) {
    let user = if is_root() { "user = \"nobody\"\n" } else { "" };
    let config = format!(
        "{user}listen = [\"127.0.0.1:0 tls\", \"127.0.0.2:0\"]\ncertificate = \"certificate.pem\"\n\
         certificate_key = \"key.pem\"\nworkers = 1\n[tls]\nsigner = true\n"
    );
    let site = Site::new().file("index.html", "hello").certificate().config(&config);
    let server = site.file_beside_root("roots.pem", authority().pem()).start();
    let signer = signer(&server);
    (server, signer)
}

/// Waits until a handshake waits for its signature.
fn wait_for_waiting_handshake(server: &Server) {
    let [serving] = server.processes("worker")[..] else { panic!("one process serves") };
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    let waits = || {
        let tasks = fs::read_dir(format!("/proc/{serving}/task")).expect("it runs");
        tasks.filter_map(name).any(|name| name == "background\n")
    };
    assert!(wait_until(TIMEOUT, waits), "{}", server.stderr());
}

#[test]
fn a_stopped_signer_delays_neither_plain_requests_nor_resumed_sessions() {
    let (server, signer) = with_signer();
    let sessions = VERSIONS.map(|version| Session::new(&server, version));
    let plain = server.tcp(1);
    stop_process(signer);
    let (address, tls) = (server.addr(), Tls::new());
    let waiting = thread::spawn(move || Client::tls(address, &tls).handshake());
    wait_for_waiting_handshake(&server);
    let (mut client, mut longest) = (Client::tcp(plain), Duration::ZERO);
    for session in sessions {
        assert!(session.is_resumed(&server), "{}", session.version);
    }
    while !waiting.is_finished() {
        let began = Instant::now();
        assert_eq!(client.get("/").status, 200);
        longest = longest.max(began.elapsed());
    }
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    assert!(waiting.join().expect("it does not panic").is_err());
    server.wait_for_line("the process that signs does not respond", TIMEOUT);
    signal_process(signer, Signal::CONT);
    let tls = Tls::new();
    // A handshake waits for a few milliseconds only, until the process that signs has responded to one.
    assert!(wait_until(TIMEOUT, || Client::tls(address, &tls).handshake().is_ok()), "{}", server.stderr());
    assert_eq!(Client::tls(address, &tls).get("/").status, 200);
}

#[test]
fn a_handshake_that_waits_for_its_signature_goes_on_with_it() {
    let mut rows = Rows::new();
    for (arguments, protocol) in [
        ("--http1.1 --tlsv1.3", "1.1"),
        ("--http1.1 --tls-max 1.2", "1.1"),
        ("--http2 --tlsv1.3", "2"),
        ("--http2 --tls-max 1.2", "2"),
        // The server asks for another key share (HelloRetryRequest).
        ("--http2 --tlsv1.3 --curves P-521:X25519", "2"),
    ] {
        let (server, signer) = with_signer();
        stop_process(signer);
        let mut curl = tool("curl");
        curl.current_dir(server.home()).args(["--silent", "--show-error", "--cacert", "roots.pem"]);
        curl.args(arguments.split(' ')).args(["--write-out", " %{http_version}"]);
        curl.arg(format!("https://localhost:{}/", server.addr().port()));
        let curl = curl.spawn().expect("curl starts");
        wait_for_waiting_handshake(&server);
        server.run_command(&["reload"]);
        signal_process(signer, Signal::CONT);
        let output = curl.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        rows.check(arguments, text(&output.stdout) + &text(&output.stderr), format!("hello {protocol}"));
    }
}

#[test]
fn another_process_serves_when_the_keys_have_changed_before_the_signer_is_killed() {
    let server = site("signer = true").start();
    let (killed, serving) = (signer(&server), server.processes("worker"));
    let other = authority().server(NAMES);
    server.files().file("certificate.pem", other.certificate);
    server.files().file("key.pem", other.key);
    signal_process(killed, Signal::KILL);
    assert!(wait_until(TIMEOUT, || server.processes("worker").iter().all(|pid| !serving.contains(pid))));
    assert_eq!(Client::tls(server.addr(), &Tls::new()).get("/").status, 200);
    assert!(server.stderr().contains("the certificates have changed since they were read"));
}

#[test]
fn a_key_that_does_not_fit_changes_nothing() {
    let server = site("signer = true").start();
    server.files().file("key.pem", authority().server(NAMES).key);
    let error = server.reload_error();
    assert!(error.contains("certificate.pem does not fit its key"), "{error}");
    assert_eq!(Client::tls(server.addr(), &Tls::new()).get("/").status, 200);
    assert_eq!(server.processes("signer").len(), 1, "the signer of the rejected configuration has ended");
}

/// The other host, and HTTP without TLS, go on when a process ends while a file cannot be used.
#[test]
fn a_key_that_does_not_fit_does_not_stop_the_hosts_that_have_others() {
    for signer in [false, true] {
        let server = site(&format!(
            "signer = {signer}\n[[host]]\nnames = \"other\"\nroot = \"www\"\ncertificate = \"other.pem\"\n"
        ));
        let other = authority().server(&["other"]);
        let pair = format!("{}{}", other.certificate, other.key);
        let server = server.file_beside_root("other.pem", &pair).start();
        let get = |name: &str| {
            let mut client = Client::tls(server.addr(), &Tls::new().server(name));
            client.handshake().map(|()| client.get("/").status).map_err(|e| e.to_string())
        };
        assert_eq!((get("localhost"), get("other")), (Ok(200), Ok(200)));
        server.files().file("other.pem", other.certificate.clone() + &authority().server(NAMES).key);
        let error = server.reload_error();
        assert!(error.contains("other.pem does not fit its key"), "{error}");
        let before = server.processes("worker");
        let has_others = || server.processes("worker").iter().any(|pid| !before.contains(pid));
        let killed = if signer { self::signer(&server) } else { before[0] };
        signal_process(killed, Signal::KILL);
        assert!(wait_until(TIMEOUT, has_others), "{}", server.stderr());
        assert!(wait_until(TIMEOUT, || get("localhost") == Ok(200)), "{}", server.stderr());
        // The process without a signer may still accept a connection or two.
        let is_without = || get("other").is_err_and(|error| error.contains("not valid for name"));
        assert!(wait_until(TIMEOUT, is_without), "{:?}", get("other"));
        server.wait_for_line("other goes on without it until a reload", TIMEOUT);
        // It can end again.
        let last = *server.processes(if signer { "signer" } else { "worker" }).last().expect("it runs");
        signal_process(last, Signal::KILL);
        assert!(wait_until(TIMEOUT, || get("localhost") == Ok(200)), "{}", server.stderr());
        server.files().file("other.pem", pair);
        server.reload();
        assert_eq!(get("other"), Ok(200));
    }
}

/// Whether the memory of a process has one of these texts. Only root can read it.
fn has_in_memory(pid: u32, texts: &[Vec<u8>]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).expect("root can read it");
    let is_writable = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"));
    maps.lines().filter(is_writable).any(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [from, to] = [range.0, range.1].map(|at| u64::from_str_radix(at, 16).expect("it is a number"));
        let mut bytes = vec![0; (to - from) as usize];
        let read = memory.seek(SeekFrom::Start(from)).and_then(|_| memory.read(&mut bytes));
        // Some regions of the kernel cannot be read.
        let bytes = &bytes[..read.unwrap_or(0)];
        texts.iter().any(|text| bytes.windows(text.len()).any(|window| window == text))
    })
}

/// The secret number of a P-256 key (RFC 5915), and the lines of its text.
fn traces(pem: &str) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut openssl = tool("openssl");
    openssl.args(["pkey", "-text", "-noout"]).stdin(Stdio::piped());
    let mut child = openssl.spawn().expect("it can be started");
    child.stdin.take().expect("it is a pipe").write_all(pem.as_bytes()).expect("it reads");
    let text = String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("it is text");
    let hex = text.split("priv:").nth(1).and_then(|rest| rest.split("pub:").next()).expect("a P-256 key");
    let byte = |hex: &str| u8::from_str_radix(hex.trim(), 16).expect("a byte");
    let number: Vec<u8> = hex.trim().split(':').map(byte).collect();
    let number = number[number.len() - 32..].to_vec();
    // The library stores the number with its lowest word first.
    let reversed = number.iter().rev().copied().collect();
    // A part of the second line, which is of the secret; the first is the same for all keys.
    let line = lines[1].as_bytes()[..24].to_vec();
    vec![number, reversed, line]
}

#[test]
fn private_keys_are_in_no_process_but_the_one_that_signs_as_root() {
    for (settings, has_signer) in [("signer = true", true), ("", false)] {
        let certificate = authority().server(NAMES);
        let site = site(settings);
        // Also where the key is in the file with the certificates, which the master reads.
        let together = format!("{}{}", certificate.key, certificate.certificate);
        let site = site.file_beside_root("certificate.pem", &together);
        let server = site.file_beside_root("key.pem", &together).start();
        let texts = traces(&certificate.key);
        let check = |when: &str| {
            assert_eq!(Client::tls(server.addr(), &Tls::new()).get("/").status, 200);
            assert!(!has_in_memory(server.pid(), &texts), "{when}: the master");
            let generations = server.processes("worker");
            for pid in &generations {
                assert_eq!(has_in_memory(*pid, &texts), !has_signer, "{when}: a generation, {settings}");
            }
            let signers = server.processes("signer");
            assert_eq!((signers.len(), generations.len()), (usize::from(has_signer), 1), "{when}");
            assert!(signers.iter().all(|pid| has_in_memory(*pid, &texts)), "{when}: the signer");
        };
        check("at the start");
        server.reload();
        assert!(wait_until(TIMEOUT, || server.children().len() == 1 + usize::from(has_signer)));
        check("after a reload");
    }
}

#[test]
fn a_client_begins_only_so_many_handshakes_in_a_second() {
    let server = site("handshakes_per_client = 2").start();
    let handshakes = || {
        let mut connection = TcpStream::connect(server.addr()).expect("the kernel accepts");
        // A handshake record that is no message: the server answers it with an alert.
        _ = connection.write_all(&[22, 3, 1, 0, 4, 99, 0, 0, 0]);
        connection.set_read_timeout(Some(TIMEOUT)).expect("it is not zero");
        matches!(connection.read(&mut [0; 100]), Ok(1..))
    };
    let admitted = (0..30).filter(|_| handshakes()).count();
    assert!((2..30).contains(&admitted), "{admitted}");
    assert_eq!(server.count("handshakes_per_client"), 30 - admitted as u64);
    assert!(wait_until(TIMEOUT, handshakes), "in a later second");
    let lines = server.stderr().lines().filter(|line| line.contains("TLS with 127.0.0.1 failed")).count();
    // One line more is about the handshake of the later second.
    assert!((1..=admitted + 1).contains(&lines), "{}", server.stderr());
}
