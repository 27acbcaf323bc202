//! Clients of TLS: what the log says of them, their early data and their certificates, by real programs, too.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use e2e::http2::{Http2, Http2Request};
use e2e::{Authority, Certificate, Client, Rows, Server, Site, TIMEOUT, Tls, authority, tool, wait_until};
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};

const TLS: &str = "listen = [\"127.0.0.1:0 tls\", \"127.0.0.2:0\"]\n\
                   certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";
const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn site() -> Site {
    Site::new().certificate().file("a.txt", "a").file_beside_root("clients.pem", authority().pem())
}

/// The lines of the access log, when there are so many.
fn logged(server: &Server, count: usize) -> Vec<Value> {
    let path = server.home().join("access.log");
    let lines = || fs::read_to_string(&path).unwrap_or_default();
    assert!(wait_until(TIMEOUT, || lines().lines().count() >= count), "{}", lines());
    lines().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn the_log_says_what_a_handshake_has_established() {
    let log = "[log]\naccess = \"./access.log\"\nformat = \"json\"\n";
    let clients = "client_certificates = \"optional\"\nclient_ca = \"clients.pem\"\n";
    let server = site().config(&format!("{TLS}workers = 1\n{clients}{log}")).start();
    let secure = server.tcp(0);
    let certificate = authority().client("Alice");
    Client::tcp(server.tcp(1)).request(GET);
    Client::tls(secure, &Tls::version(&TLS12)).request(GET);
    Client::tls(secure, &Tls::with_certificate(&certificate).server("example.org")).request(GET);
    // A client that connects to an address asks for no name.
    Client::tls(secure, &Tls::new().server("127.0.0.1")).request("BAD\r\n\r\n");
    let resuming = Tls::version(&TLS13).resuming().protocols(&["h2"]);
    for _ in 0..2 {
        Http2::over(Client::tls(secure, &resuming)).expect("it accepts").get("/a.txt");
    }
    let lines = logged(&server, 6);
    let tls = |at: usize| lines[at]["tls"].clone();
    assert_eq!(tls(0), Value::Null);
    let mut rows = Rows::new();
    for (at, protocol, sni, client, is_resumed) in [
        (1, "TLSv1.2", json!("localhost"), Value::Null, false),
        (2, "TLSv1.3", json!("example.org"), json!("CN=Alice"), false),
        (3, "TLSv1.3", Value::Null, Value::Null, false),
        (4, "TLSv1.3", json!("localhost"), Value::Null, false),
        (5, "TLSv1.3", json!("localhost"), Value::Null, true),
    ] {
        let tls = tls(at);
        let cipher = tls["cipher"].as_str().unwrap_or_default();
        rows.holds(
            at.to_string(),
            cipher,
            cipher.contains(if protocol == "TLSv1.2" { "ECDHE-ECDSA-" } else { "TLS_" }),
        );
        let expected = json!({
            "protocol": protocol, "cipher": cipher, "sni": sni, "client": client, "resumed": is_resumed, "early": false,
        });
        rows.check(at.to_string(), tls, expected);
    }
}

/// RFC 8470 §5: what may be repeated is served, and the rest is rejected with 425.
#[test]
fn requests_in_early_data_must_be_safe() {
    let log = "[log]\naccess = \"./access.log\"\nformat = \"json\"\n[tls]\nearly_data = true\n";
    let cgi = "[[route]]\npath = \"*.cgi\"\ncgi = true\n[[route]]\npath = \"/ws\"\nproxy = \"http://127.0.0.1:1\"\n";
    let script = "#!/bin/sh\necho 'X-A: b'\necho\necho $HTTP_EARLY_DATA\n";
    let server = site().script("a.cgi", script).config(&format!("{TLS}workers = 1\n{cgi}{log}")).start();
    let secure = server.tcp(0);
    let mut rows = Rows::new();
    let tls = Tls::version(&TLS13).early();
    // A session is used once, and each connection brings others.
    Client::tls(secure, &tls).request(GET);
    for (method, path, fields, status, text) in [
        ("GET", "/a.txt", "", 200, Some("a")),
        ("GET", "/a.cgi", "", 200, Some("1\n")),
        // RFC 8470 §5.1: the server knows better than the client.
        ("GET", "/a.cgi", "Early-Data: 0\r\n", 200, Some("1\n")),
        ("GET", "/a.cgi", "Early-Data: 1\r\nEarly-Data: a\r\n", 200, Some("1\n")),
        ("POST", "/a.cgi", "", 425, None),
    ] {
        let name = format!("{method} {path} {fields}");
        let mut client = Client::tls(secure, &tls);
        let response = client.request(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 0\r\n\r\n"
        ));
        rows.holds(&name, "it was early", client.tls_state().is_early_data_accepted());
        rows.check(&name, response.status, status);
        rows.holds(&name, &response.text(), text.is_none_or(|text| response.text() == text));
        // An early response may come before the sessions for the next connections, and this one comes after them.
        rows.check(&name, client.request(GET).status, 200);
    }
    let tls = Tls::version(&TLS13).early().protocols(&["h2"]);
    Http2::over(Client::tls(secure, &tls)).expect("it accepts").get("/a.txt");
    for (method, path, status, text) in [
        ("GET", "/a.txt", 200, Some("a")),
        ("GET", "/a.cgi", 200, Some("1\n")),
        ("POST", "/a.cgi", 425, None),
    ] {
        let name = format!("HTTP/2 {method} {path}");
        let (mut http2, response) =
            Http2::first(Client::tls(secure, &tls), &Http2Request::new(method, path, &[]))
                .expect("it responds");
        rows.holds(&name, "it was early", http2.client().tls_state().is_early_data_accepted());
        rows.check(&name, response.status, status);
        rows.holds(&name, &response.text(), text.is_none_or(|text| response.text() == text));
        // The same request, again, is not early.
        let again = http2.request(&Http2Request::new(method, path, &[])).expect("it responds");
        rows.check(&name, again.status, 200);
    }
    // What another protocol does, is not known.
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let tls = Tls::version(&TLS13).early();
    Client::tls(secure, &tls).request(GET);
    let mut client = Client::tls(secure, &tls);
    let response = client.request(format!("GET /ws HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n"));
    rows.check("an upgrade", (response.status, client.tls_state().is_early_data_accepted()), (425, true));
    let tls = Tls::version(&TLS13).early().protocols(&["h2"]);
    Http2::over(Client::tls(secure, &tls)).expect("it accepts").get("/a.txt");
    let mut connect = Http2Request::new("CONNECT", "/ws", &[]);
    connect.fields.insert(1, (b":protocol".to_vec(), b"websocket".to_vec()));
    // With a body, so that HEADERS does not end the stream.
    connect.body = vec![0];
    let (mut http2, response) = Http2::first(Client::tls(secure, &tls), &connect).expect("it responds");
    let early = http2.client().tls_state().is_early_data_accepted();
    rows.check("an extended CONNECT", (response.status, early), (425, true));
    let early = logged(&server, 22).iter().filter(|line| line["tls"]["early"] == true).count();
    rows.check("logged as early", early, 10);
}

/// What a forward proxy passes on can be repeated as well.
#[test]
fn requests_in_early_data_for_other_servers_must_be_safe() {
    let destination = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = destination.local_addr().expect("it is bound").port();
    let proxy = "[forward_proxy]\nclients = \"127.0.0.1\"\ndestinations = \"127.0.0.1\"\nhttp = true\n";
    let config = format!("{TLS}workers = 1\n[tls]\nearly_data = true\n{proxy}ports = [{port}]\n");
    let server = site().config(&config).start();
    let secure = server.tcp(0);
    let mut rows = Rows::new();
    let tls = Tls::version(&TLS13).early();
    Client::tls(secure, &tls).request(GET);
    for target in [format!("POST http://127.0.0.1:{port}/"), format!("CONNECT 127.0.0.1:{port}")] {
        let mut client = Client::tls(secure, &tls);
        let response = client.request(format!("{target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"));
        rows.holds(&target, "it was early", client.tls_state().is_early_data_accepted());
        rows.check(&target, response.status, 425);
    }
    destination.set_nonblocking(true).expect("it is a socket");
    let connections = destination.accept().map_err(|error| error.kind()).err();
    rows.check("connections to the destination", connections, Some(ErrorKind::WouldBlock));
}

/// The facts of the session that is resumed are those of its early data.
#[test]
fn requests_in_early_data_follow_the_rules_of_the_host() {
    let clients = "client_certificates = \"required\"\nclient_ca = \"clients.pem\"\n";
    let server = Site::new()
        .file_beside_root("clients.pem", authority().pem())
        .file_beside_root("open.pem", {
            let open = authority().server(&["localhost", "closed"]);
            format!("{}{}", open.certificate, open.key)
        })
        .script("a.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s' \"$SSL_CLIENT_S_DN\" \"$SSL_SESSION_RESUMED\"\n")
        .config(&format!(
            "listen = \"127.0.0.1:0 tls\"\ncertificate = \"open.pem\"\nworkers = 1\n[tls]\nearly_data = true\n\
             [[host]]\nnames = \"closed\"\nroot = \"www\"\n{clients}\
             [[host.route]]\npath = \"*.cgi\"\ncgi = true\n"
        ))
        .start();
    let secure = server.tcp(0);
    let mut rows = Rows::new();
    let request = |host: &str| format!("GET /a.cgi HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let alice = Tls::with_certificate(&authority().client("Alice")).server("closed");
    let http1 = alice.clone().early();
    let open = Tls::version(&TLS13).server("localhost").early();
    for (tls, own) in [(&http1, "closed"), (&open, "localhost")] {
        Client::tls(secure, tls).request(request(own));
        let mut client = Client::tls(secure, tls);
        let response = client.request(request("closed"));
        rows.holds(own, "it was early", client.tls_state().is_early_data_accepted());
        let expected =
            if own == "closed" { (200, "CN=Alice Resumed".to_owned()) } else { (421, response.text()) };
        rows.check(own, (response.status, response.text()), expected);
    }
    let tls = alice.early().protocols(&["h2"]);
    Http2::over(Client::tls(secure, &tls)).expect("it accepts").get("/a.cgi");
    let mut asked = Http2Request::get("/a.cgi");
    asked.fields[2].1 = "closed".into();
    let (mut http2, response) = Http2::first(Client::tls(secure, &tls), &asked).expect("it responds");
    rows.holds("HTTP/2", "it was early", http2.client().tls_state().is_early_data_accepted());
    rows.check("HTTP/2", response.text(), "CN=Alice Resumed".to_owned());
}

fn curl(server: &Server, version: &str, protocol: &str, certificate: Option<&str>) -> Output {
    let mut curl = tool("curl");
    curl.current_dir(server.home()).args(["--silent", "--show-error", "--cacert", "roots.pem", protocol]);
    curl.args(["--tls-max", version, &format!("--tlsv{version}"), "--write-out", " %{http_version}"]);
    if let Some(name) = certificate {
        curl.args(["--cert", &format!("{name}.pem"), "--key", &format!("{name}.key")]);
    }
    curl.arg(format!("https://localhost:{}/a.cgi", server.tcp(0).port())).output().expect("curl starts")
}

#[test]
fn curl_shows_a_certificate_over_every_protocol() {
    let clients = Authority::new("the clients");
    let (good, revoked) = (clients.client("Alice"), clients.client("Mallory"));
    let stranger = Authority::new("another").client("Eve");
    let server = Site::new()
        .certificate()
        .script("a.cgi", "#!/bin/sh\necho 'X-A: b'\necho\necho $SSL_CLIENT_S_DN $SSL_TLS_SNI $SSL_SESSION_RESUMED\n")
        .file_beside_root("clients.pem", clients.pem())
        .file_beside_root("roots.pem", authority().pem())
        .file_beside_root("revoked.crl", clients.revoke(&[&revoked], 4000))
        .config(&format!(
            "{TLS}client_certificates = \"required\"\nclient_ca = \"clients.pem\"\nclient_crl = \"revoked.crl\"\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n"
        ))
        .start();
    for (name, certificate) in [("good", &good), ("revoked", &revoked), ("stranger", &stranger)] {
        let Certificate { certificate, key, .. } = certificate;
        fs::write(server.home().join(format!("{name}.pem")), certificate).expect("it can be written");
        fs::write(server.home().join(format!("{name}.key")), key).expect("it can be written");
    }
    let mut rows = Rows::new();
    for version in ["1.2", "1.3"] {
        for (protocol, http) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let name = |certificate: &str| format!("TLS {version}, HTTP/{http}, {certificate}");
            let output = curl(&server, version, protocol, Some("good"));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            rows.check(name("good"), said, format!("CN=Alice localhost Initial\n {http}"));
            for certificate in [Some("revoked"), Some("stranger"), None] {
                let output = curl(&server, version, protocol, certificate);
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                let name = name(certificate.unwrap_or("none"));
                rows.holds(&name, &said, !output.status.success() && !said.contains("Initial"));
            }
        }
    }
    drop(rows);
    assert!(
        wait_until(TIMEOUT, || server.stderr().contains("of the client is revoked")),
        "{}",
        server.stderr()
    );
    // A list that has expired rejects all.
    fs::write(server.home().join("revoked.crl"), clients.revoke(&[], 2021)).expect("it can be written");
    let reload = server.run_command(&["check"]);
    let warned = String::from_utf8_lossy(&reload.stderr).into_owned();
    assert!(
        reload.status.success() && warned.contains("revoked.crl: the list of CN=the clients has expired"),
        "{warned}"
    );
    let reload = server.run_command(&["reload"]);
    assert!(reload.status.success(), "{reload:?}");
    let output = curl(&server, "1.3", "--http2", Some("good"));
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn check_names_a_chain_that_clients_would_reject() {
    let mut rows = Rows::new();
    let good = authority().server(&["localhost"]);
    let old = authority().server_between(&["localhost"], 2020, 2021);
    let new = authority().server_between(&["localhost"], 3000, 3001);
    let other = Authority::new("another");
    for (name, chain, key, validity, warning) in [
        ("good", [good.certificate.clone(), authority().pem()], &good.key, " days left", None),
        (
            "expired",
            [old.certificate.clone(), authority().pem()],
            &old.key,
            "2020-01-01 to 2021-01-01: EXPIRED",
            Some("has expired on 2021-01-01"),
        ),
        (
            "not valid yet",
            [new.certificate.clone(), authority().pem()],
            &new.key,
            "3000-01-01 to 3001-01-01: NOT VALID YET",
            Some("is not valid before 3000-01-01"),
        ),
        (
            "another authority",
            [good.certificate.clone(), other.pem()],
            &good.key,
            " days left",
            Some("certificate 2 of the chain is not the issuer of the one before it"),
        ),
    ] {
        let site = Site::new()
            .file_beside_root("chain.pem", chain.concat())
            .file_beside_root("chain.key", key)
            .config("listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\ncertificate = \"chain.pem\"\n");
        let config = site.write_config();
        let run = |command: &str| e2e::run([command.as_ref(), "-c".as_ref(), config.as_os_str()]);
        let checked = run("check");
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        rows.holds(name, &said, checked.status.success());
        for output in [&checked, &run("certificates")] {
            let shown = String::from_utf8_lossy(&output.stdout);
            rows.holds(name, &shown, shown.contains(validity));
        }
        match warning {
            None => rows.holds(name, &said, !said.contains("chain.pem")),
            Some(warning) => rows.holds(name, &said, said.contains("warning: ") && said.contains(warning)),
        }
    }
    // The keys of tickets, which are no part of a chain.
    let keys = [
        ("a.key", 64, 0o600, None),
        ("short.key", 31, 0o600, Some("must have 32 to 4096 random bytes")),
        ("open.key", 64, 0o644, Some("warning: every user can read the keys of session tickets in ")),
    ];
    for (name, length, mode, problem) in keys {
        let site = Site::new()
            .certificate()
            .file_beside_root(name, vec![7; length])
            .config(&format!("{TLS}[tls]\nticket_key_file = \"{name}\"\n"));
        let config = site.write_config();
        fs::set_permissions(config.with_file_name(name), Permissions::from_mode(mode)).unwrap();
        let checked = e2e::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        rows.check(name, checked.status.success(), length >= 32);
        rows.holds(name, &said, problem.map_or(!said.contains(name), |problem| said.contains(problem)));
    }
    // The certificate of the authority first, whose key it is not.
    let site = Site::new()
        .file_beside_root("chain.pem", [authority().pem(), good.certificate.clone()].concat())
        .file_beside_root("chain.key", &good.key)
        .config("listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\ncertificate = \"chain.pem\"\n");
    let config = site.write_config();
    let checked = e2e::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    rows.holds("misordered", &said, !checked.status.success() && said.contains("chain.pem"));
}
