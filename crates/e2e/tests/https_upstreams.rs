//! Upstreams by HTTPS: what is verified, what a failure tells, and that sessions are resumed. The upstreams are threads
//! of the test, by rustls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use e2e::upstream::read_head;
use e2e::{Authority, Certificate, Client, Rows, Server, Site, TIMEOUT, authority, wait_until};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// An upstream that responds with the name that was asked for (SNI), the clients' certificates, and how the session
/// began.
struct Upstream {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
}

fn config(certificate: &Certificate, clients: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.expect("the versions are known");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(clients.roots(), provider);
            builder.with_client_cert_verifier(verifier.build().expect("it is an authority"))
        }
    };
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("it is PEM");
    let chain = chain.collect::<Result<_, _>>().expect("it is PEM");
    let mut config = builder.with_single_cert(chain, key).expect("the key fits");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

impl Upstream {
    fn start(config: ServerConfig) -> Upstream {
        Upstream::serving(config, |stream, heads| {
            while let Ok(head) = read_head(stream) {
                let how = match stream.conn.handshake_kind() {
                    Some(HandshakeKind::Resumed) => "resumed",
                    _ => "full",
                };
                let sni = stream.conn.server_name().unwrap_or("none").to_owned();
                let client = stream.conn.peer_certificates().map_or("none", |_| "a certificate");
                let body = format!("{sni}, {client}, {how}");
                heads.lock().expect("no panic").push(head);
                let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    fn serving(
        config: ServerConfig,
        serve: impl Fn(&mut Stream, &Mutex<Vec<String>>) + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (connections, heads) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (config, serve) = (Arc::new(config), Arc::new(serve));
        let (count, of_heads) = (connections.clone(), heads.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
                let connection = ServerConnection::new(config.clone()).expect("it is valid");
                let mut stream = StreamOwned::new(connection, stream.expect("it listens"));
                let (serve, heads) = (serve.clone(), of_heads.clone());
                thread::spawn(move || serve(&mut stream, &heads));
            }
        });
        Upstream { address, connections, heads }
    }
}

fn application(name: &str, address: SocketAddr, keys: &str) -> String {
    format!(
        "[[route]]\npath = \"/{name}\"\nproxy = \"https://{name}\"\n[[application]]\nname = \"{name}\"\n\
         protocol = \"https\"\naddress = \"{address}\"\n{keys}\n"
    )
}

fn site() -> (Site, String) {
    let site = Site::new().file_beside_root("ca.pem", authority().pem());
    (site, "tls_ca = \"ca.pem\"\n".to_owned())
}

fn answer(server: &Server, path: &str) -> String {
    let response = server.get(path);
    if response.status == 200 { response.text() } else { response.status.to_string() }
}

#[test]
fn verifies_the_name_and_the_authority_of_an_upstream() {
    let clients = Authority::new("the clients");
    let good = Upstream::start(config(&authority().server(&["127.0.0.1", "app.test"]), None));
    let other = Upstream::start(config(&authority().server(&["other.test"]), None));
    let expired = Upstream::start(config(&authority().server_between(&["127.0.0.1"], 2001, 2002), None));
    let future = Upstream::start(config(&authority().server_between(&["127.0.0.1"], 2090, 2095), None));
    let strange = Upstream::start(config(&Authority::new("another").server(&["127.0.0.1"]), None));
    let demanding = Upstream::start(config(&authority().server(&["127.0.0.1"]), Some(&clients)));
    let plain = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let plain_address = plain.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in plain.incoming() {
            _ = stream
                .expect("it listens")
                .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let mute = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mute_address = mute.local_addr().expect("it is bound");
    let (site, ca) = site();
    let alice = clients.client("Alice");
    let site = site
        .file_beside_root("alice.pem", [alice.certificate.clone(), alice.key.clone()].concat())
        .file_beside_root("alice.crt", &alice.certificate)
        .file_beside_root("alice.key", &alice.key);
    let named = |name: &str| format!("{ca}tls_name = \"{name}\"\n");
    let together = format!("{ca}tls_certificate = \"alice.pem\"\n");
    let apart = format!("{ca}tls_certificate = \"alice.crt\"\ntls_certificate_key = \"alice.key\"\n");
    let brief = format!("{ca}connect = \"200ms\"\n");
    let rows = [
        ("good", good.address, ca.clone(), "none, none, full"),
        ("sni", good.address, named("app.test"), "app.test, none, full"),
        ("wrong-name", good.address, named("wrong.test"), "502"),
        ("of-another", other.address, ca.clone(), "502"),
        ("other", other.address, named("other.test"), "other.test, none, full"),
        ("expired", expired.address, ca.clone(), "502"),
        ("future", future.address, ca.clone(), "502"),
        ("strange", strange.address, ca.clone(), "502"),
        ("system", strange.address, String::new(), "502"),
        ("unverified", strange.address, "tls_verify = false\n".to_owned(), "none, none, full"),
        ("unverified-expired", expired.address, "tls_verify = false\n".to_owned(), "none, none, full"),
        ("no-certificate", demanding.address, ca.clone(), "502"),
        ("certificate", demanding.address, together, "none, a certificate, full"),
        ("certificate-and-key", demanding.address, apart, "none, a certificate, full"),
        ("plain", plain_address, ca.clone(), "502"),
        ("mute", mute_address, brief, "504"),
    ];
    let mut text = String::from("workers = 1\n");
    rows.iter().for_each(|(name, address, keys, _)| text += &application(name, *address, keys));
    let server = site.config(&text).start();
    let mut results = Rows::new();
    for (name, _, _, expected) in &rows {
        results.check(name, answer(&server, &format!("/{name}")).as_str(), expected);
    }
    let errors = server.stderr();
    for (name, why) in [
        ("wrong-name", "its certificate is not for the name wrong.test, but for app.test; see tls_name"),
        ("of-another", "its certificate is not for the name 127.0.0.1, but for other.test; see tls_name"),
        ("expired", "its certificate has expired"),
        ("future", "its certificate is not valid yet"),
        ("strange", "its certificate is of an unknown authority; see tls_ca"),
        (
            "no-certificate",
            "it has ended the TLS session with the alert CertificateRequired; see tls_certificate",
        ),
        ("plain", "it does not speak TLS"),
    ] {
        let line = format!("GET /{name}\": the application \"{name}\" did not respond: {why}");
        results.check(name, errors.matches(&line).count(), 1);
    }
}

#[test]
fn a_url_is_verified_by_the_authorities_of_the_system() {
    let good = Upstream::start(config(&authority().server(&["localhost"]), None));
    let site = Site::new().file_beside_root("ca.pem", authority().pem());
    let ca = site.home().join("ca.pem");
    let route = format!("[[route]]\npath = \"/\"\nproxy = \"https://localhost:{}/\"\n", good.address.port());
    let server = site.config(&route).env("SSL_CERT_FILE", ca).start();
    assert_eq!(answer(&server, "/"), "localhost, none, full", "{}", server.stderr());
}

#[test]
fn keeps_connections_resumes_sessions_and_streams_large_bodies() {
    let good = Upstream::start(config(&authority().server(&["127.0.0.1"]), None));
    let closing = Upstream::serving(config(&authority().server(&["127.0.0.1"]), None), |stream, _| {
        if read_head(stream).is_ok() {
            let how = matches!(stream.conn.handshake_kind(), Some(HandshakeKind::Resumed));
            let body = if how { "resumed" } else { "full" };
            let response = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            _ = stream.write_all(response.as_bytes());
            stream.conn.send_close_notify();
            _ = stream.flush();
        }
    });
    let large = Upstream::serving(config(&authority().server(&["127.0.0.1"]), None), |stream, _| {
        while let Ok(head) = read_head(stream) {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("it is sent");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), &body].concat()).expect("it is read");
        }
    });
    let cut = Upstream::serving(config(&authority().server(&["127.0.0.1"]), None), |stream, _| {
        if read_head(stream).is_ok() {
            // No length, and no end of the session.
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").expect("it is read");
            stream.flush().expect("it is read");
        }
    });
    let (site, ca) = site();
    let text = [("good", &good), ("closing", &closing), ("large", &large), ("cut", &cut)]
        .map(|(name, upstream)| application(name, upstream.address, &ca));
    let config = format!("workers = 1\nmax_body = \"16MiB\"\n{}", text.concat());
    let server = site.config(&config).start();
    for _ in 0..5 {
        assert_eq!(answer(&server, "/good"), "none, none, full");
    }
    assert_eq!(good.connections.load(Ordering::Relaxed), 1, "it is kept");
    assert_eq!(good.heads.lock().expect("no panic").len(), 5);
    assert_eq!(answer(&server, "/closing"), "full");
    assert!(wait_until(TIMEOUT, || answer(&server, "/closing") == "resumed"), "{}", server.stderr());
    let body: Vec<u8> = (0..5_000_000u32).map(|at| (at / 7) as u8).collect();
    let head = format!("POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = server.request([head.as_bytes(), &body].concat());
    assert!(response.body == body, "{} bytes", response.body.len());
    let mut client: Client = server.connect();
    client.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_read_response().is_err(), "a truncated response must not look whole");
}

/// The other upstreams, and files, go on when a process ends while the file of an authority cannot be used.
#[test]
fn an_authority_that_cannot_be_used_does_not_stop_what_needs_another() {
    let (site, keys) = site();
    let certificate = authority().server(&["127.0.0.1"]);
    let upstreams = [(); 2].map(|()| Upstream::start(config(&certificate, None)));
    let applications = [
        application("good", upstreams[0].address, &keys),
        application("bad", upstreams[1].address, "tls_ca = \"other.pem\"\n"),
    ];
    let site = site.file("a.txt", "a").file_beside_root("other.pem", authority().pem());
    let server = site.config(&applications.concat()).start();
    let statuses = || ["/a.txt", "/good", "/bad"].map(|path| server.get(path).status);
    assert_eq!(statuses(), [200; 3]);
    server.files().file("other.pem", "no certificate");
    let error = server.reload_error();
    assert!(error.contains("other.pem has no certificate"), "{error}");
    let before = upstreams[1].connections.load(Ordering::Relaxed);
    server.replace_workers();
    assert_eq!(statuses(), [200, 200, 502]);
    assert_eq!(
        upstreams[1].connections.load(Ordering::Relaxed),
        before,
        "there is no connection without TLS"
    );
    let line = server.wait_for_line("until a reload, connections that need it are not made", TIMEOUT);
    assert!(line.contains("other.pem has no certificate"), "{line}");
    server.wait_for_line("\"bad\": its certificate, key or authority cannot be used", TIMEOUT);
    server.files().file("other.pem", authority().pem());
    server.reload();
    assert_eq!(statuses(), [200; 3]);
}

#[test]
fn check_reports_what_cannot_be_used() {
    let (site, _) = site();
    let alice = authority().client("Alice");
    let site = site.file_beside_root("alice.crt", &alice.certificate).file_beside_root("empty.pem", "");
    let site = site.file_beside_root("other.key", authority().client("Bob").key);
    let old = authority().server_between(&["a"], 2001, 2002);
    let site = site.file_beside_root("old.pem", [old.certificate, old.key].concat());
    let path = site.write_config();
    for (keys, expected) in [
        ("tls_ca = \"missing.pem\"", "cannot read"),
        ("tls_ca = \"empty.pem\"", "has no certificate"),
        ("tls_certificate = \"alice.crt\"", "has no private key, but a certificate; add tls_certificate_key"),
        ("tls_certificate = \"alice.crt\"\ntls_certificate_key = \"other.key\"", "does not fit its key"),
        ("tls_certificate = \"old.pem\"", "old.pem: the certificate has expired on 2002-01-01; renew it"),
        ("tls_certificate_key = \"other.key\"", "has no certificate beside it"),
        ("tls_verify = false", "warning: the application \"a\" is not verified"),
        ("tls_verify = false\ntls_ca = \"ca.pem\"", "has no effect without verification"),
        ("tls_name = \"a b\"", "\"tls_name\" cannot be \"a b\""),
    ] {
        let text = format!(
            "listen = \"127.0.0.1:1\"\nroot = \"/\"\n[[application]]\nname = \"a\"\nprotocol = \"https\"\n\
             address = \"127.0.0.1:2\"\n{keys}\n"
        );
        std::fs::write(&path, text).expect("it is our folder");
        let output = e2e::run(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{keys}: {said}");
        assert!(said.contains("site.toml:"), "{keys}: {said}");
    }
}
