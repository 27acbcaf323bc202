//! Faults of an authority and of what helps to prove names. A front passes requests on to pebble, and responds to some of
//! them in its place.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Folder, Server, Signal, Site, TIMEOUT, Tls, authority, command, free_port, output_of, runs,
    signal_process, wait_until,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{ISSUED, ORDER, Pebble, USUAL, check_has, rejected, stored};

/// What the front does with a request whose path contains `path`.
#[derive(Clone)]
pub struct Fault {
    pub path: &'static str,
    /// Of such requests, the first ones.
    pub times: usize,
    pub what: What,
}

#[derive(Clone)]
pub enum What {
    /// This response, from its status on.
    Response(String),
    /// The response of pebble, with this field.
    Field(&'static str),
    /// The response of pebble, or this one, as soon as there is this file.
    Behind(PathBuf, Option<String>),
    /// None.
    Silence,
}

pub struct Front {
    port: u16,
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl Front {
    pub fn start(pebble: &Pebble, faults: &[Fault]) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let faults = Arc::new(Mutex::new(faults.to_vec()));
        let (config, shared, behind) = (Arc::new(config()), faults.clone(), pebble.port);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, faults) = (config.clone(), shared.clone());
                // A client that leaves is no fault of the test.
                thread::spawn(move || _ = pass(stream, config, &faults, behind));
            }
        });
        Front { port, faults }
    }

    /// The lines of `[certificates]` for a site that orders here.
    pub fn settings(&self) -> String {
        format!("authorities = \"https://localhost:{}/dir\"\n", self.port)
    }

    /// Whether the faults of this path have had their requests.
    pub fn has_used(&self, path: &str) -> bool {
        let faults = self.faults.lock().expect("no panic");
        faults.iter().filter(|fault| fault.path == path).all(|fault| fault.times == 0)
    }

    pub fn add(&self, fault: Fault) {
        self.faults.lock().expect("no panic").push(fault);
    }
}

fn config() -> ServerConfig {
    let own = authority().server(&["localhost"]);
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the versions are known");
    let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes());
    let chain = chain.collect::<Result<_, _>>().expect("it is PEM");
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("it is PEM");
    builder.with_no_client_auth().with_single_cert(chain, key).expect("the key fits")
}

fn pass(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    faults: &Mutex<Vec<Fault>>,
    behind: u16,
) -> io::Result<()> {
    let connection = ServerConnection::new(config).expect("the settings are valid");
    let mut client = StreamOwned::new(connection, stream);
    let request = read_request(&mut client)?;
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let fault = faults
        .lock()
        .expect("no panic")
        .iter_mut()
        .find(|fault| fault.times > 0 && line.contains(fault.path))
        .map(|fault| {
            fault.times -= 1;
            fault.what.clone()
        });
    if let Some(What::Behind(file, _)) = &fault {
        wait_until(TIMEOUT, || file.exists());
    }
    let response = match fault {
        Some(What::Silence) => return client.read(&mut [0]).map(drop),
        Some(What::Response(response) | What::Behind(_, Some(response))) => {
            format!("HTTP/1.1 {response}").into_bytes()
        }
        fault => {
            let socket = TcpStream::connect(("127.0.0.1", behind))?;
            let mut pebble = StreamOwned::new(Tls::new().server("localhost").connection(), socket);
            pebble.write_all(&request)?;
            let mut response = Vec::new();
            pebble.read_to_end(&mut response)?;
            if let Some(What::Field(field)) = fault {
                let end = response.iter().position(|byte| *byte == b'\n').expect("it has a status line") + 1;
                response.splice(end..end, format!("{field}\r\n").into_bytes());
            }
            response
        }
    };
    client.write_all(&response)?;
    client.conn.send_close_notify();
    client.flush()
}

/// With its body.
fn read_request(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = e2e::upstream::read_head(stream)?.into_bytes();
    let head = String::from_utf8_lossy(&request).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("it is a number"))];
    stream.read_exact(&mut body)?;
    request.extend(body);
    Ok(request)
}

fn respond(path: &'static str, times: usize, status: &str, body: &str) -> Fault {
    let response = format!("{status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Fault { path, times, what: What::Response(response) }
}

/// An authority that asks for a renewal of every certificate.
fn renewal_at_once() -> Fault {
    let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
    respond("renewalInfo", usize::MAX, "200 OK", window)
}

fn issued(server: &Server, count: usize) {
    let enough = || server.errors().text().matches(ISSUED).count() >= count;
    assert!(wait_until(ORDER, enough), "{}", server.stderr());
}

#[test]
fn an_authority_that_wants_every_certificate_renewed_is_asked_more_and_more_seldom() {
    let pebble = Pebble::start(&USUAL);
    let front = Front::start(&pebble, &[renewal_at_once()]);
    let server = pebble.site(&front.settings()).start();
    issued(&server, 2);
    let second = Instant::now();
    issued(&server, 5);
    // The pauses are at least 2, 3 and 6 seconds. Without them, each order takes one.
    assert!(second.elapsed() >= Duration::from_secs(7), "{}", server.stderr());
}

#[test]
fn a_certificate_that_cannot_be_served_is_ordered_again() {
    let pebble = Pebble::start(&USUAL);
    let other = authority().server(&["x.example"]).certificate;
    let long = other.repeat(60 * 1024 / other.len() + 1);
    let faults = [respond("/certZ/", 1, "200 OK", &other), respond("/certZ/", 1, "200 OK", &long)];
    let server = pebble.site(&Front::start(&pebble, &faults).settings()).start();
    server.wait_for_line("it sent what cannot be served: the certificate is not for the names", ORDER);
    server.wait_for_line("it sent what cannot be served: the chain has more than", ORDER);
    assert_eq!(server.get("/hello").text(), "hello");
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn an_authority_that_is_busy_is_left_alone_as_long_as_it_says() {
    let pebble = Pebble::start(&USUAL);
    let page = "503 Service Unavailable\r\nRetry-After: 7200";
    let front = Front::start(&pebble, &[respond("/order-plz", usize::MAX, page, "<html>busy</html>")]);
    let server = pebble.site(&front.settings()).start();
    let line = server.wait_for_line("error: no certificate", ORDER);
    check_has(
        &line,
        &["/order-plz responds with 503 Service Unavailable", "it is tried again in 7", " s; a self-made"],
    );
}

#[test]
fn an_authority_that_is_busy_during_a_validation_is_not_asked_for_the_next_challenge() {
    let pebble = Pebble::start(&USUAL);
    let problem = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many requests"}"#;
    let busy = respond("/my-order/", usize::MAX, "429 Too Many Requests\r\nRetry-After: 7200", problem);
    let front = Front::start(&pebble, &[busy]);
    let server = pebble.site(&front.settings()).start();
    let line = server.wait_for_line("error: no certificate", ORDER);
    check_has(&line, &["too many requests", "it is tried again in 7"]);
}

#[test]
fn what_an_authority_says_about_one_certificate_does_not_delay_the_order_of_another_one() {
    let pebble = Pebble::start(&USUAL);
    let front = Front::start(&pebble, &[]);
    let settings = front.settings() + "timeout = \"3s\"\nfolder = \"certificates\"\nretry = \"1s\"\n";
    let listen = format!("listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\n", pebble.http, pebble.tls);
    let config = listen + &pebble.settings(&settings);
    let server = Site::new().file_beside_root("c/hello", "hello").config(&config).start();
    server.wait_for_line(ISSUED, ORDER);
    assert!(wait_until(ORDER, || pebble.log().contains("/renewalInfo/")), "{}", pebble.log());
    // The response to the other order does not come.
    front.add(Fault { path: "/order-plz", times: 1, what: What::Silence });
    let go = server.home().join("go");
    let busy = "503 Service Unavailable\r\nRetry-After: 7200\r\nContent-Length: 0\r\n\r\n".to_owned();
    front.add(Fault { path: "/renewalInfo/", times: 1, what: What::Behind(go.clone(), Some(busy)) });
    server.configure(&format!("{config}[[host]]\nnames = \"c.example\"\nroot = \"c\"\n"));
    server.reload();
    assert!(wait_until(ORDER, || front.has_used("/order-plz") && front.has_used("/renewalInfo/")));
    fs::write(&go, "").expect("it is our folder");
    let line = server.wait_for_line("error: no certificate for c.example", ORDER);
    check_has(&line, &["did not respond within 3 s", "it is tried again in 1 s"]);
}

#[test]
fn an_order_with_too_many_authorizations_is_given_up_at_once() {
    let pebble = Pebble::start(&USUAL);
    let status = "201 Created\r\nReplay-Nonce: bm9uY2U\r\nLocation: https://localhost/order";
    let authorizations = vec!["\"https://localhost/authorization\""; 3000].join(",");
    let order = format!(
        r#"{{"status":"pending","authorizations":[{authorizations}],"finalize":"https://localhost/"}}"#
    );
    let front = Front::start(&pebble, &[respond("/order-plz", usize::MAX, status, &order)]);
    let server = pebble.site(&front.settings()).start();
    let line = server.wait_for_line("error: no certificate", ORDER);
    assert!(line.contains("the order has 3000 authorizations; for its names, at most "), "{line}");
}

#[test]
fn an_authority_that_names_an_absurd_time_gets_the_order_done() {
    let pebble = Pebble::start(&USUAL);
    let what = What::Field("Retry-After: 18446744073709551615");
    let front = Front::start(&pebble, &[Fault { path: "/my-order/", times: usize::MAX, what }]);
    let server = pebble.site(&format!("{}order_timeout = \"5s\"\n", front.settings())).start();
    server.wait_for_line(ISSUED, ORDER);
}

#[test]
fn an_authority_that_does_not_know_the_certificate_renews_it() {
    let mut pebble = Pebble::start(&USUAL);
    let front = Front::start(&pebble, &[]);
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is our folder");
    let settings = front.settings() + &format!("folder = \"{}\"\nretry = \"1s\"", folder.path().display());
    let site = || {
        let listen = format!("listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\n", pebble.http, pebble.tls);
        Site::new().file("hello", "hello").config(&format!("{listen}{}", pebble.settings(&settings)))
    };
    let server = site().start();
    server.wait_for_line(ISSUED, ORDER);
    drop(server);
    let site = site();
    pebble.restart();
    front.add(renewal_at_once());
    let server = site.start();
    server.wait_for_line(ISSUED, ORDER);
}

/// Such as one by which a configuration was tried out.
#[test]
fn a_certificate_of_an_authority_that_is_named_no_more_is_replaced() {
    let pebble = Pebble::start(&USUAL);
    let front = Front::start(&pebble, &[]);
    let settings = |authorities: &str| {
        let settings = pebble.settings(&format!("folder = \"certificates\"\n{authorities}"));
        format!("listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\n{settings}", pebble.http, pebble.tls)
    };
    let server = Site::new().file("hello", "hello").config(&settings(&front.settings())).start();
    issued(&server, 1);
    server.configure(&settings(""));
    server.reload();
    issued(&server, 2);
    let status = fs::read_to_string(stored(&server).join("a.example.status")).expect("it is stored");
    assert!(status.contains(&format!("authority {}\n", pebble.directory())), "{status}");
    pebble.check_trusted(pebble.tls);
}

#[test]
fn a_challenge_that_is_never_decided_is_followed_by_the_next_one() {
    let pebble = Pebble::start(&USUAL);
    let processing = r#"{"type":"http-01","url":"https://localhost/","token":"a","status":"processing"}"#;
    // Both names of the first order.
    let front = Front::start(&pebble, &[respond("/chalZ/", 2, "200 OK", processing)]);
    let settings = front.settings() + "challenges = [\"http-01\", \"tls-alpn-01\"]\norder_timeout = \"6s\"\n";
    let server = pebble.site(&settings).start();
    server.wait_for_line("the authority has not decided in time on the challenge http-01", ORDER);
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn records_are_removed_and_their_program_is_ended_when_an_order_takes_too_long() {
    let pebble = Pebble::start(&USUAL);
    let silence = Fault { path: "/my-order/", times: usize::MAX, what: What::Silence };
    let front = Front::start(&pebble, &[silence]);
    let home = Folder::new();
    let log = home.path().join("log");
    let program = home.script("dns", format!("#!/bin/sh\necho \"$1 $2\" >>{}\n", log.display()));
    let server = pebble
        .site(&format!(
            "{}challenges = [\"dns-01\"]\ndns_command = \"{}\"\ndns_wait = 0\norder_timeout = \"2s\"",
            front.settings(),
            program.display()
        ))
        .start();
    server.wait_for_line("the order was not finished within 2 s", ORDER);
    let lines = fs::read_to_string(&log).expect("the program was run");
    for line in ["set ", "unset "].iter().flat_map(|what| ["a", "b"].map(|name| (what, name))) {
        let line = format!("{}_acme-challenge.{}.example\n", line.0, line.1);
        assert!(lines.contains(&line), "{line} is not in {lines}");
    }
}

#[test]
fn records_are_removed_when_the_server_stops_during_an_order() {
    let pebble = Pebble::start(&USUAL);
    let home = Folder::new();
    let log = home.path().join("log");
    let program = home.script("dns", format!("#!/bin/sh\nsleep 0.2\necho \"$*\" >>{}\n", log.display()));
    let settings =
        format!("challenges = [\"dns-01\"]\ndns_command = \"{}\"\ndns_wait = \"1000s\"", program.display());
    let mut server = pebble.site(&settings).start();
    let lines = |what: &str| -> Vec<String> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix(what)).map(str::to_owned).collect()
    };
    assert!(wait_until(ORDER, || lines("set ").len() == 2), "{}", server.stderr());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0), "{}", server.stderr());
    let mut removed = lines("unset ");
    removed.reverse();
    assert_eq!(removed, lines("set "), "each record is removed, the last one first");
    assert!(!server.stderr().contains("killed"), "{}", server.stderr());
    let lock = fs::read_to_string(stored(&server).join("a.example.lock")).unwrap();
    assert!(lock.ends_with(" 0\n"), "another server need not wait until the lock expires: {lock}");
}

#[test]
fn records_of_a_process_that_was_killed_are_removed_by_the_next_one() {
    let pebble = Pebble::start(&USUAL);
    let home = Folder::new();
    let log = home.path().join("log");
    let program = home.script("dns", format!("#!/bin/sh\necho \"$*\" >>{}\n", log.display()));
    let settings =
        format!("challenges = [\"dns-01\"]\ndns_command = \"{}\"\ndns_wait = \"1000s\"", program.display());
    let server = pebble.site(&settings).start();
    let lines = |what: &str| -> Vec<String> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix(what)).map(str::to_owned).collect()
    };
    assert!(wait_until(ORDER, || lines("set ").len() == 2), "{}", server.stderr());
    let left = lines("set ");
    let workers = server.processes("worker");
    let orders = server.children().into_iter().find(|pid| !workers.contains(pid));
    signal_process(orders.expect("a process orders"), Signal::KILL);
    assert!(wait_until(ORDER, || lines("unset ").len() == 2), "{}", server.stderr());
    assert_eq!(lines("unset "), left);
    // The next order sets others, which stay for now.
    assert!(wait_until(ORDER, || lines("set ").len() == 4), "{}", server.stderr());
    assert_eq!(lines("unset "), left);
}

#[test]
fn a_program_that_sets_records_ends_with_the_server() {
    let pebble = Pebble::start(&USUAL);
    let home = Folder::new();
    let path = home.path().join("pid");
    let program = home.script(
        "dns",
        format!("#!/bin/sh\necho $$ >{0}.new && mv {0}.new {0} && exec sleep 1000\n", path.display()),
    );
    let settings = format!("challenges = [\"dns-01\"]\ndns_command = \"{}\"", program.display());
    let server = pebble.site(&settings).start();
    assert!(wait_until(ORDER, || path.exists()), "{}", server.stderr());
    let text = fs::read_to_string(&path).expect("the program has written it");
    let pid = text.trim().parse().expect("it is a number");
    assert!(runs(pid));
    drop(server);
    assert!(wait_until(TIMEOUT, || !runs(pid)), "the program goes on");
}

#[test]
fn pebble_issues_for_an_address_by_tls_alpn_01() {
    let pebble = Pebble::start(&USUAL);
    let settings = pebble.settings("folder = \"certificates\"\nchallenges = [\"tls-alpn-01\"]");
    let settings = settings.replace("[\"a.example\", \"b.example\"]", "\"127.0.0.1\"");
    // The authority asks for 1.0.0.127.in-addr.arpa, which is no name of a host.
    for tls in ["", "[tls]\nunknown_name = \"reject\"\n"] {
        let config = format!("listen = \"127.0.0.1:{} tls\"\n{settings}{tls}", pebble.tls);
        let server = Site::new().file("hello", "hello").config(&config).start();
        server.wait_for_line(ISSUED, ORDER);
        let output = pebble.get("127.0.0.1", pebble.tls);
        assert_eq!(output.stdout.is_empty(), !tls.is_empty(), "{output:?}");
    }
}

#[test]
fn a_key_of_the_account_that_is_torn_is_explained() {
    let lines = format!(
        "listen = \"127.0.0.1:{} tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\nfolder = \"certificates\"\n",
        free_port()
    );
    let site = Site::new().file_beside_root("certificates/account.key", "").config(&lines);
    let folder = site.home().join("certificates");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("it is our folder");
    let checked = output_of(command().arg("check").arg("-c").arg(site.write_config()));
    for text in [rejected(&site), String::from_utf8_lossy(&checked.stderr).into_owned()] {
        let expected =
            "account.key: it has no private key in PEM; restore the file, or remove it to open another";
        assert!(text.contains(expected), "{text}");
    }
}

/// A site whose authority does not respond, and its folder of certificates.
fn with_dead_authority() -> (Site, PathBuf) {
    let site = Site::new().file_beside_root("ca.pem", authority().pem()).config(&format!(
        "listen = [\"127.0.0.1:{}\", \"127.0.0.1:0 tls\"]\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates\"\nca = \"ca.pem\"\nauthorities = \"https://localhost:{}/dir\"\nretry = \"1s\"\n\
         max_retry = \"1s\"\n",
        free_port(),
        free_port()
    ));
    let folder = site.home().join("certificates");
    (site, folder)
}

#[test]
fn a_folder_of_certificates_that_is_gone_is_named_and_used_again_when_it_is_back() {
    let (site, folder) = with_dead_authority();
    let server = site.start();
    let state = folder.join("a.example.status");
    assert!(wait_until(TIMEOUT, || state.exists()), "{}", server.stderr());
    let away = server.home().join("away");
    fs::rename(&folder, &away).expect("it is our folder");
    fs::remove_file(away.join("a.example.status")).expect("it is our folder");
    let line = server.wait_for_line("the certificate cannot be locked", ORDER);
    check_has(&line, &["a.example.lock: the folder cannot be used: it is gone; put it there again"]);
    let reload = server.run_command(&["reload"]);
    let text = String::from_utf8_lossy(&reload.stderr).into_owned();
    check_has(&text, &["certificates, is gone; put it there again, or restart", "nothing was changed"]);
    assert!(!reload.status.success() && !folder.exists(), "no other account is made");
    fs::rename(&away, &folder).expect("it is our folder");
    assert!(wait_until(ORDER, || state.exists()), "{}", server.stderr());
}

#[test]
fn a_stored_certificate_without_its_key_is_named_before_it_is_replaced() {
    let (site, folder) = with_dead_authority();
    let made = authority().server(&["a.example"]);
    fs::create_dir(&folder).expect("it is our folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is our folder");
    fs::write(folder.join("a.example.pem"), made.certificate).expect("it is our folder");
    let file = site.write_config();
    let run = |word: &str| {
        let output = output_of(command().arg(word).arg("-c").arg(&file));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("it is text")
    };
    let expected = "a.example.pem: it contains no whole key; restore it, or a start replaces it";
    check_has(&run("check"), &["warning: cannot use ", expected]);
    check_has(&run("certificates"), &["none: it contains no whole key; the next start replaces the file"]);
}

#[test]
fn a_state_that_cannot_be_stored_is_logged_and_its_certificate_is_served() {
    let pebble = Pebble::start(&USUAL);
    let site = pebble.site("");
    let folder = site.home().join("certificates");
    let state = folder.join("a.example.status");
    fs::create_dir_all(&state).expect("the folder is writable");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is our folder");
    let server = site.start();
    server.wait_for_line(&format!("cannot be stored: {}: Is a directory", state.display()), ORDER);
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}
