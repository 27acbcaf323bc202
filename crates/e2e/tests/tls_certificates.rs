//! Certificates of hosts and of clients: which one a client gets, which clients a host serves, and what happens when
//! files change.

use std::fs;
use std::process::Stdio;

use e2e::{
    Authority, Certificate, Client, Response, Rows, Server, Site, TIMEOUT, Tls, authority, free_port,
    output_of, tool, wait_until,
};

/// Prints what it knows of TLS.
const CGI: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv | grep -E '^(HTTPS|SSL_)' | sort\n";

fn write(server: &Server, name: &str, certificate: &Certificate) {
    let Certificate { certificate, key, .. } = certificate;
    server.files().file(name, format!("{certificate}{key}"));
}

fn pair(certificate: &Certificate) -> String {
    format!("{}{}", certificate.certificate, certificate.key)
}

fn get(server: &Server, tls: &Tls, host: &str, path: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    Client::tls(server.tcp(0), tls).request(request)
}

/// The certificate that a client gets. `None`: the handshake fails.
fn try_served(server: &Server) -> Option<Vec<u8>> {
    let mut client = Client::tls(server.tcp(0), &Tls::new());
    client.handshake().ok()?;
    Some(client.tls_state().peer_certificates()?.first()?.to_vec())
}

fn served(server: &Server) -> Vec<u8> {
    try_served(server).expect("the handshake succeeds")
}

/// What OpenSSL says of a handshake for this name.
fn s_client(server: &Server, name: &str) -> String {
    let mut command = tool("openssl");
    let address = server.tcp(0).to_string();
    command.args(["s_client", "-connect", &address, "-servername", name, "-verify_hostname", name]);
    command.args(["-CAfile", "ca.pem"]).current_dir(server.home()).stdin(Stdio::null());
    let output = output_of(&mut command);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_client_gets_the_certificate_of_its_name_and_an_alert_for_others() {
    let authority = authority();
    let server = Site::new()
        .file("index.html", "top")
        .file_beside_root("a/index.html", "a")
        .file_beside_root("ca.pem", authority.pem())
        .file_beside_root("top.pem", pair(&authority.server(&["localhost"])))
        .file_beside_root("a.pem", pair(&authority.server(&["a.example", "*.a.example"])))
        .config(
            "listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\ncertificate = \"top.pem\"\n\
             [tls]\nunknown_name = \"reject\"\n\
             [[host]]\nnames = [\"a.example\", \"*.a.example\"]\nroot = \"a\"\ncertificate = \"a.pem\"\n",
        )
        .start();
    for name in ["localhost", "a.example", "www.a.example"] {
        let said = s_client(&server, name);
        assert!(said.contains("Verify return code: 0 (ok)"), "{name}: {said}");
    }
    let said = s_client(&server, "other.example");
    assert!(said.contains("unrecognized name"), "{said}");
    let response = get(&server, &Tls::new().server("www.a.example"), "www.a.example", "/");
    assert_eq!((response.status, response.text().as_str()), (200, "a"));
}

#[test]
fn openssl_gets_an_rsa_certificate_if_it_can_use_no_other() {
    let site = Site::new().file_beside_root("ecdsa.pem", pair(&authority().server(&["localhost"])));
    let mut command = tool("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "rsa.key", "-out", "rsa.pem"]);
    command.args(["-days", "9", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    assert!(output_of(command.current_dir(site.home())).status.success());
    let server =
        site.config("listen = [\"127.0.0.1:0 tls\"]\ncertificate = [\"rsa.pem\", \"ecdsa.pem\"]\n").start();
    for (cipher, expected) in [
        ("ECDHE-RSA-AES128-GCM-SHA256", "Peer signature type: RSA"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "Peer signature type: ECDSA"),
    ] {
        let mut command = tool("openssl");
        command.args(["s_client", "-connect", &server.tcp(0).to_string(), "-tls1_2", "-cipher", cipher]);
        let output = output_of(command.stdin(Stdio::null()));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(expected), "{cipher}: {said}");
    }
}

#[test]
fn a_reload_takes_a_new_certificate_while_a_download_runs() {
    const LONG: usize = 16 * 1024 * 1024;
    let before = authority().server(&["localhost"]);
    let server = Site::new()
        .file("long", vec![b'x'; LONG])
        .file_beside_root("a.pem", pair(&before))
        .config("listen = [\"127.0.0.1:0 tls\"]\ncertificate = \"a.pem\"\n")
        .start();
    let first = served(&server);
    let mut download = Client::tls(server.tcp(0), &Tls::new());
    download.set_receive_buffer(16 * 1024);
    download.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!download.read_some().expect("the response begins").is_empty());
    write(&server, "a.pem", &authority().server(&["localhost"]));
    server.reload();
    let second = served(&server);
    assert_ne!(first, second);
    // The old process still has the old connection.
    let rest = download.read_to_end();
    assert!(rest.len() > LONG - 1024 * 1024 && rest.ends_with(b"xxx"), "{} bytes", rest.len());
    // A file that cannot be used changes nothing.
    let Certificate { certificate, .. } = authority().server(&["localhost"]);
    server.files().file("a.pem", format!("{certificate}{}", before.key));
    let error = server.reload_error();
    assert!(error.contains("a.pem does not fit its key") && error.contains("nothing was changed"), "{error}");
    assert_eq!(served(&server), second);
}

#[test]
fn notices_a_certificate_that_changes() {
    let server = Site::new()
        .file_beside_root("a.pem", pair(&authority().server(&["localhost"])))
        .config("listen = [\"127.0.0.1:0 tls\"]\ncertificate = \"a.pem\"\n[tls]\nwatch = \"100ms\"\n")
        .start();
    let first = served(&server);
    // As ACME clients do it: another file takes the place of the old one.
    let home = server.home();
    write(&server, "new.pem", &authority().server(&["localhost"]));
    fs::rename(home.join("new.pem"), home.join("a.pem")).expect("it can be renamed");
    assert!(wait_until(TIMEOUT, || try_served(&server).is_some_and(|now| now != first)));
}

/// As programs do it that write one file after the other.
#[test]
fn notices_the_key_that_follows_a_certificate() {
    let first = authority().server(&["localhost"]);
    let server = Site::new()
        .file_beside_root("a.crt", &first.certificate)
        .file_beside_root("a.key", &first.key)
        .config("listen = [\"127.0.0.1:0 tls\"]\ncertificate = \"a.crt\"\n[tls]\nwatch = \"100ms\"\n")
        .start();
    let before = served(&server);
    let next = authority().server(&["localhost"]);
    server.files().file("a.crt", &next.certificate);
    server.wait_for_line("does not fit its key", TIMEOUT);
    assert_eq!(served(&server), before);
    server.files().file("a.key", &next.key);
    assert!(wait_until(TIMEOUT, || try_served(&server).is_some_and(|now| now != before)));
}

/// Hosts with other rules, and a list that revokes nothing.
fn with_clients(authority: &Authority) -> Server {
    Site::new()
        .file("index.html", "open")
        .file_beside_root("needed/index.html", "needed")
        .script("wanted/a.cgi", CGI)
        .file_beside_root("certificate.pem", pair(&e2e::authority().server(&["localhost", "needed", "wanted"])))
        .file_beside_root("clients.pem", authority.pem())
        .config(
            "listen = [\"127.0.0.1:0 tls\", \"127.0.0.2:0\"]\nnames = \"localhost\"\ncertificate = \"certificate.pem\"\n\
             [tls]\nexport_client_certificate = true\n\
             [[host]]\nnames = \"needed\"\nroot = \"needed\"\nclient_certificates = \"required\"\n\
             client_ca = \"clients.pem\"\n\
             [[host]]\nnames = \"wanted\"\nroot = \"www/wanted\"\nclient_certificates = \"optional\"\n\
             client_ca = \"clients.pem\"\n\
             [[host.route]]\npath = \"*.cgi\"\ncgi = true\n",
        )
        .start()
}

#[test]
fn a_host_serves_the_clients_that_its_rules_allow() {
    let clients = Authority::new("the clients");
    let server = with_clients(&clients);
    let good = Tls::with_certificate(&clients.client("Alice"));
    let stranger = Tls::with_certificate(&Authority::new("another").client("Mallory"));
    assert_eq!(get(&server, &good.clone().server("needed"), "needed", "/").text(), "needed");
    for (tls, name) in [(Tls::new(), "needed"), (stranger.clone(), "needed"), (stranger, "wanted")] {
        let mut client = Client::tls(server.tcp(0), &tls.server(name));
        // In TLS 1.3, the client learns of it after its own last message.
        let refused = client.handshake().is_err()
            || client.try_send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")).is_err()
            || client.try_read_response().is_err();
        assert!(refused, "{name}");
    }
    // A connection for one host is not one for another.
    for (tls, host, expected) in [
        (Tls::new().server("localhost"), "needed", 421),
        (Tls::new().server("wanted"), "needed", 421),
        (good.clone().server("wanted"), "needed", 421),
        (Tls::new().server("localhost"), "wanted", 421),
        (good.server("needed"), "localhost", 200),
    ] {
        assert_eq!(get(&server, &tls, host, "/").status, expected, "{host}");
    }
    // Without TLS, the host that needs a certificate redirects.
    let plain = |request: &str| Client::tcp(server.tcp(1)).request(request);
    let response = plain("GET /a%20b?c HTTP/1.1\r\nHost: needed\r\n\r\n");
    assert_eq!(response.status, 301);
    assert!(
        response
            .field("location")
            .is_some_and(|to| to.starts_with("https://needed") && to.ends_with("/a%20b?c"))
    );
    assert_eq!(plain("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").text(), "open");
}

#[test]
fn scripts_know_what_the_handshake_has_established() {
    let clients = Authority::new("the clients");
    let server = with_clients(&clients);
    let good = Tls::with_certificate(&clients.client("Alice")).server("wanted");
    let said = get(&server, &good, "wanted", "/a.cgi").text();
    let has = |line: &str| said.lines().any(|own| own.starts_with(line));
    for line in [
        "HTTPS=on",
        "SSL_PROTOCOL=TLSv1.3",
        "SSL_CIPHER=TLS_",
        "SSL_CLIENT_VERIFY=SUCCESS",
        "SSL_CLIENT_S_DN=CN=Alice",
        "SSL_CLIENT_I_DN=CN=the clients",
        "SSL_CLIENT_M_SERIAL=",
        "SSL_CLIENT_V_START=Jan  1 00:00:00 1975 GMT",
        "SSL_CLIENT_V_END=Jan  1 00:00:00 4096 GMT",
        "SSL_CLIENT_CERT=-----BEGIN CERTIFICATE-----",
    ] {
        assert!(has(line), "{line}: {said}");
    }
    let said = get(&server, &Tls::new().server("wanted"), "wanted", "/a.cgi").text();
    assert!(said.contains("SSL_CLIENT_VERIFY=NONE") && !said.contains("SSL_CLIENT_S_DN"), "{said}");
    // The fields of a request cannot pretend.
    let request = "GET /a.cgi HTTP/1.1\r\nHost: wanted\r\nSSL_CLIENT_VERIFY: SUCCESS\r\nSSL-CLIENT-VERIFY: SUCCESS\r\n\r\n";
    let said = Client::tcp(server.tcp(1)).request(request).text();
    assert!(!said.contains("SSL_") && !said.contains("HTTPS"), "{said}");
}

/// Another authority may give its clients any name.
#[test]
fn a_certificate_counts_for_hosts_with_the_authorities_that_have_verified_it() {
    let clients = Authority::new("the clients");
    let rules = "[[rule]]\nclient_certificate = \"*CN=Alice*\"\nthen = \"allow\"\n\
                 [[rule]]\npath = \"/closed/\"\nthen = \"deny\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n";
    let server = Site::new()
        .script("a.cgi", CGI)
        .file("closed/a.txt", "closed")
        .file_beside_root("needed/a.txt", "needed")
        .file_beside_root("needed/closed/a.txt", "closed")
        .file_beside_root("certificate.pem", pair(&e2e::authority().server(&["localhost", "needed"])))
        .file_beside_root("clients.pem", clients.pem())
        .config(&format!(
            "listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\ncertificate = \"certificate.pem\"\n{rules}\
             [[host]]\nnames = \"needed\"\nroot = \"needed\"\nclient_certificates = \"required\"\n\
             client_ca = \"clients.pem\"\n"
        ))
        .start();
    let alice = Tls::with_certificate(&clients.client("Alice")).server("needed");
    assert_eq!(get(&server, &alice, "needed", "/closed/a.txt").text(), "closed");
    assert_eq!(get(&server, &alice, "localhost", "/closed/a.txt").status, 403);
    let said = get(&server, &alice, "localhost", "/a.cgi").text();
    assert!(said.contains("SSL_CLIENT_VERIFY=NONE") && !said.contains("Alice"), "{said}");
}

#[test]
fn a_host_with_hsts_redirects_and_names_its_age_over_tls_alone() {
    let port = free_port();
    let server = Site::new()
        .file("index.html", "secure")
        .file(".well-known/acme-challenge/token", "proof")
        .certificate()
        .config(&format!(
            "listen = [\"127.0.0.1:{port} tls\", \"127.0.0.1:0\"]\ncertificate = \"certificate.pem\"\n\
             certificate_key = \"key.pem\"\nhsts = \"1y\"\nnames = \"localhost\"\n\
             [[limit]]\nby = \"all\"\npaths = \"/few\"\nrequests = \"1/h\"\n"
        ))
        .start();
    let secure = get(&server, &Tls::new(), "localhost", "/");
    assert_eq!((secure.status, secure.field("strict-transport-security")), (200, Some("max-age=31536000")));
    let plain = |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 0\r\n\r\n");
        Client::tcp(server.tcp(1)).request(request)
    };
    for (method, path, status) in [("GET", "/a?b", 301), ("HEAD", "/a?b", 301), ("POST", "/a?b", 308)] {
        let response = plain(method, path);
        assert_eq!(response.status, status, "{method}");
        assert_eq!(response.field("location"), Some(format!("https://localhost:{port}/a?b").as_str()));
        assert!(!response.has("strict-transport-security"), "{method}");
    }
    // RFC 6797 §7.2: no response without TLS has it, wherever it comes from.
    let challenge = "/.well-known/acme-challenge/token";
    let proof = get(&server, &Tls::new(), "localhost", challenge);
    assert!(proof.status == 200 && proof.has("strict-transport-security"));
    plain("GET", "/few");
    let check = |path: &str, status: u16, text: Option<&str>| {
        let response = plain("GET", path);
        assert_eq!(response.status, status, "{path}");
        assert!(text.is_none_or(|text| response.text() == text), "{path}");
        assert!(!response.has("strict-transport-security"), "{path}, {status}");
    };
    check(challenge, 200, Some("proof"));
    check("/.well-known/acme-challenge/missing", 404, None);
    check("/few", 429, None);
    assert!(server.run_command(&["maintenance", "localhost"]).status.success());
    check(challenge, 503, None);
    check("/", 503, None);
    assert!(server.run_command(&["maintenance", "localhost", "--off"]).status.success());
    assert_eq!(plain("GET", "/.well-known/acme-challenge/../../index.html").status, 301);
}

#[test]
fn lists_the_certificates_that_can_be_read() {
    let site = Site::new()
        .file_beside_root("a.pem", pair(&authority().server(&["a.example"])))
        .file_beside_root("junk.pem", "junk")
        .config(
            "listen = [\"127.0.0.1:0 tls\"]\nnames = \"a.example\"\ncertificate = \"a.pem\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"www\"\ncertificate = \"junk.pem\"\n\
             [[host]]\nnames = \"c.example\"\nroot = \"www\"\ncertificate = \"missing.pem\"\n",
        );
    let config = site.write_config();
    let listed = e2e::run(["certificates".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let [said, errors] =
        [&listed.stdout, &listed.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!listed.status.success());
    assert!(said.starts_with("a.example\n") && said.contains("/a.pem\n"), "{said}");
    assert!(errors.contains("junk.pem has no certificate") && errors.contains("missing.pem"), "{errors}");
}

#[test]
fn the_list_of_certificates_says_that_one_has_no_names() {
    let site = Site::new()
        .file_beside_root("a.pem", pair(&authority().server(&[])))
        .config("listen = [\"127.0.0.1:0 tls\"]\ncertificate = \"a.pem\"\n");
    let config = site.write_config();
    let listed = e2e::run(["certificates".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let said = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(said.contains("  names         none\n"), "{said}");
}

#[test]
fn the_list_of_certificates_of_a_site_without_any_says_so() {
    let site = Site::new().config("listen = [\"127.0.0.1:0\"]\n");
    let config = site.write_config();
    let listed = e2e::run(["certificates".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let errors = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(listed.status.success() && listed.stdout.is_empty());
    assert!(errors.starts_with("taipan: no host in ") && errors.contains(" has a certificate"), "{errors}");
}

#[test]
fn check_shows_certificates_and_names_the_line_of_a_mistake() {
    let server = Site::new()
        .file_beside_root("a.pem", pair(&authority().server(&["localhost", "a.example"])))
        .config("listen = [\"127.0.0.1:0 tls\"]\nnames = \"a.example\"\ncertificate = \"a.pem\"\n")
        .start();
    let check = || {
        let output = server.run_command(&["check"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (is_good, said, errors) = check();
    assert!(is_good, "{errors}");
    for part in
        ["a.pem:\n", "localhost, a.example", "1975-01-01 to 4096-01-01", "ECDSA P-256", "CN=taipan's tests"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    server.files().file("a.pem", authority().server(&["localhost"]).certificate);
    let (is_good, _, errors) = check();
    assert!(
        !is_good && errors.contains("site.toml:5:") && errors.contains("a.pem has no private key"),
        "{errors}"
    );
}

#[test]
fn check_names_what_a_file_in_der_is_and_a_command_that_makes_pem_of_it() {
    let (certificate, authority) = (authority().server(&["localhost"]), authority());
    let server = Site::new()
        .file_beside_root("a.pem", pair(&certificate))
        .file_beside_root("a.crt", &certificate.certificate)
        .file_beside_root("ca.pem", authority.pem())
        .file_beside_root("list.pem", authority.revoke(&[&certificate], 4000))
        .start();
    let openssl = |words: &str| {
        let made = output_of(tool("openssl").args(words.split(' ')).current_dir(server.home()));
        assert!(made.status.success(), "{words}: {made:?}");
    };
    let clients = "certificate = \"a.pem\"\nclient_certificates = \"required\"\n";
    let mut rows = Rows::new();
    for (made_by, keys, what) in [
        ("x509 -in a.pem -outform der", "certificate = \"FILE\"", "a certificate"),
        ("x509 -in ca.pem -outform der", "CLIENTS client_ca = \"FILE\"", "a certificate"),
        (
            "pkey -in a.pem -outform der",
            "certificate = \"a.crt\"\ncertificate_key = \"FILE\"",
            "a private key",
        ),
        ("pkcs12 -export -in a.pem -passout pass:", "certificate = \"FILE\"", "a PKCS #12 store"),
        ("crl2pkcs7 -nocrl -certfile ca.pem -outform der", "CLIENTS client_ca = \"FILE\"", "a PKCS #7 file"),
        (
            "pkcs8 -topk8 -in a.pem -outform der -passout pass:x",
            "certificate = \"a.crt\"\ncertificate_key = \"FILE\"",
            "a private key with a password",
        ),
        (
            "crl -in list.pem -outform der",
            "CLIENTS client_ca = \"ca.pem\"\nclient_crl = \"FILE\"",
            "a list of revoked certificates",
        ),
    ] {
        openssl(&format!("{made_by} -out made.der"));
        let keys = keys.replace("CLIENTS ", clients);
        let check = |file: &str| {
            server.configure(&format!(
                "listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\n{}",
                keys.replace("FILE", file)
            ));
            String::from_utf8_lossy(&server.run_command(&["check"]).stderr).into_owned()
        };
        let said = check("made.der");
        let command = said.split("made.der is ").nth(1).and_then(|said| {
            let command =
                said.strip_prefix(what)?.strip_prefix(" in DER, not PEM; convert it with: openssl ")?;
            command.lines().next()
        });
        rows.holds(made_by, "names the file, what it is, and a command", command.is_some());
        let Some(command) = command else { continue };
        openssl(
            &command
                .replace("OLD", "made.der")
                .replace("NEW", "made.pem")
                .replace("pkcs12 ", "pkcs12 -passin pass: ")
                .replace("pkey ", "pkey -passin pass:x "),
        );
        let said = check("made.pem");
        // What is missing now is another file: only the store has the key, too.
        let is_read = !said.contains("made.pem has no") || said.contains("made.pem has no private key");
        rows.holds(format!("{made_by}: {said}"), "can be used then", is_read && !said.contains("DER"));
    }
}

#[test]
fn check_names_a_command_that_makes_of_a_text_what_it_looks_for() {
    let certificate = authority().server(&["localhost"]);
    let server = Site::new()
        .file_beside_root("a.pem", pair(&certificate))
        .file_beside_root("a.crt", &certificate.certificate)
        .start();
    let shell = |line: &str| {
        let made = output_of(tool("sh").args(["-c", line]).current_dir(server.home()));
        assert!(made.status.success(), "{line}: {made:?}");
    };
    let mut rows = Rows::new();
    for (made_by, keys) in [
        ("openssl x509 -in a.crt -trustout", "certificate = \"FILE\"\ncertificate_key = \"a.pem\""),
        ("openssl crl2pkcs7 -nocrl -certfile a.crt", "certificate = \"FILE\"\ncertificate_key = \"a.pem\""),
        ("iconv -f utf-8 -t utf-16 a.crt", "certificate = \"FILE\"\ncertificate_key = \"a.pem\""),
        ("iconv -f utf-8 -t utf-16be a.pem", "certificate = \"a.crt\"\ncertificate_key = \"FILE\""),
    ] {
        shell(&format!("{made_by} >old"));
        let check = |file: &str| {
            let keys = keys.replace("FILE", file);
            server.configure(&format!("listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\n{keys}"));
            let output = server.run_command(&["check"]);
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (is_good, said) = check("old");
        rows.holds(format!("{made_by}: {said}"), "is not used", !is_good && said.contains("/old "));
        let command = said.split("with: ").nth(1).and_then(|command| command.lines().next());
        rows.holds(format!("{made_by}: {said}"), "names a command", command.is_some());
        let Some(command) = command else { continue };
        shell(&command.replace("OLD", "old").replace("NEW", "new"));
        let (is_good, said) = check("new");
        rows.holds(format!("{made_by}: {said}"), "can be used then", is_good);
    }
}

#[test]
fn check_names_the_kinds_of_keys_that_are_supported() {
    let server = Site::new().start();
    server.configure(
        "listen = [\"127.0.0.1:0 tls\"]\nnames = \"localhost\"\n\
         certificate = \"a.pem\"\ncertificate_key = \"a.key\"\n",
    );
    let check = |curve: &str| {
        let words = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:{curve} -nodes -keyout a.key -out a.pem \
             -subj /CN=localhost -addext subjectAltName=DNS:localhost"
        );
        let made = output_of(tool("openssl").args(words.split(' ')).current_dir(server.home()));
        assert!(made.status.success(), "{made:?}");
        let output = server.run_command(&["check"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (takes_p521, said) = check("secp521r1");
    let (takes_other, other) = check("secp256k1");
    assert!(
        !takes_other && other.contains("a.key has a key that is not supported; use ECDSA with P-256"),
        "{other}"
    );
    assert!(other.contains("(the certificate is for ECDSA secp256k1)"), "{other}");
    assert_eq!(other.contains("P-521"), takes_p521, "{said}{other}");
}
