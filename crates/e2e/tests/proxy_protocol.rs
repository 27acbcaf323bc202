//! The PROXY protocol, on addresses that are marked for it: the client that a trusted proxy names counts everywhere,
//! below TLS and HTTP/2, too, and nothing else is served there.

use std::net::{IpAddr, SocketAddr, TcpStream};

use e2e::http2::Http2;
use e2e::{
    BackgroundProcess, Client, Response, Rows, Signal, Site, TIMEOUT, Tls, free_port, output_of, tool,
    wait_until,
};

/// An address in the network that the tests trust, and one outside.
const PROXY: &str = "127.0.0.2";
const STRANGER: &str = "127.0.1.1";

const ENVIRONMENT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
     echo \"[$REMOTE_ADDR] [$REMOTE_PORT] [$HTTP_X_FORWARDED_FOR] [${HTTPS-off}]\"\n";

const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n";

/// Listens for proxies in plain HTTP/1, TLS and HTTP/2, and for everyone, and on a Unix socket for proxies.
const LISTEN: &str = "listen = [\"127.0.0.1:0 proxy\", \"127.0.0.2:0 tls proxy\", \"127.0.0.3:0 http2 proxy\", \
     \"127.0.0.4:0\", \"unix:proxy.sock proxy\"]\ntrusted_proxies = [\"127.0.0.0/30\", \"unix\"]\n\
     certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";

fn site(more: &str) -> Site {
    Site::new().script("env.cgi", ENVIRONMENT).file("page.html", "page").certificate().config(&format!(
        "{LISTEN}[[route]]\npath = \"*.cgi\"\ncgi = true\n{more}\n[log]\naccess = \"stdout\"\n"
    ))
}

fn from(peer: &str, address: SocketAddr) -> Client {
    Client::tcp_from(peer.parse::<IpAddr>().expect("an address"), address)
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("it is short").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, rest].concat()
}

fn ipv4() -> Vec<u8> {
    version_2(0x21, 0x11, &[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0x01, 0xbb])
}

const GET: &str = "GET /env.cgi HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn scripts_see_the_client_that_the_header_names() {
    let server = site("").start();
    let ipv6: Vec<u8> = [&[0x20, 0x01, 0x0d, 0xb8][..], &[0; 11], &[1], &[0; 15], &[1, 0, 1, 0, 2]].concat();
    let with_extensions =
        [&[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0x01, 0xbb][..], &[4, 0, 2, 1, 2]].concat();
    let known = "[192.0.2.1] [4711] [] [off]";
    let unknown = "[] [] [] [off]";
    let mut rows = Rows::new();
    for (what, header, expected) in [
        ("version 1", LINE.as_bytes().to_vec(), known),
        ("IPv6", b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n".to_vec(), "[2001:db8::1] [1] [] [off]"),
        ("mapped", b"PROXY TCP6 ::ffff:192.0.2.1 ::1 4711 2\r\n".to_vec(), known),
        ("unknown", b"PROXY UNKNOWN\r\n".to_vec(), unknown),
        ("version 2", ipv4(), known),
        ("version 2, IPv6", version_2(0x21, 0x21, &ipv6), "[2001:db8::1] [1] [] [off]"),
        ("extensions", version_2(0x21, 0x11, &with_extensions), known),
        ("a Unix socket", version_2(0x21, 0x31, &[b'/'; 216]), unknown),
        ("unspecified", version_2(0x21, 0x00, b""), unknown),
    ] {
        let mut client = from(PROXY, server.tcp(0));
        client.send([&header, GET.as_bytes()].concat());
        rows.check(what, client.read_response().text().trim_end(), expected);
        rows.check(format!("{what}, again"), client.request(GET).text().trim_end(), expected);
        let mut client = from(PROXY, server.tcp(0));
        client.dribble(&header);
        rows.check(format!("{what}, in pieces"), client.request(GET).text().trim_end(), expected);
        let mut client = Client::unix(&server.home().join("proxy.sock"));
        client.send([&header, GET.as_bytes()].concat());
        rows.check(format!("{what}, from a Unix socket"), client.read_response().text().trim_end(), expected);
    }
    // The proxy's own connection.
    let mut client = from(PROXY, server.tcp(0));
    client.send(version_2(0x20, 0x00, b""));
    let own = client.request(GET).text();
    rows.holds("local", &own, own.starts_with("[127.0.0.2] ["));
    rows.check("an address for everyone", from(STRANGER, server.tcp(3)).get("/page.html").status, 200);
    rows.check("a header to it", from(PROXY, server.tcp(3)).request([LINE, GET].concat()).status, 400);
}

#[test]
fn the_header_precedes_tls_and_http2() {
    let server = site("").start();
    let mut rows = Rows::new();
    for header in [LINE.as_bytes().to_vec(), ipv4()] {
        for protocol in ["http/1.1", "h2"] {
            let mut client = Client::tls(server.tcp(1), &Tls::new().protocols(&[protocol]));
            client.send_beneath_tls(&header).expect("the server reads");
            let response = match protocol {
                "h2" => Http2::over(client).expect("it speaks HTTP/2").get("/env.cgi"),
                _ => client.request(GET),
            };
            rows.check(protocol, response.text().trim_end(), "[192.0.2.1] [4711] [] [on]");
        }
        let mut client = Client::tcp(server.tcp(2));
        client.send(&header);
        let response = Http2::over(client).expect("it speaks HTTP/2").get("/env.cgi");
        rows.check("http2", response.text().trim_end(), "[192.0.2.1] [4711] [] [off]");
        // The handshake is received with the header.
        let mut tls = Client::tls(server.tcp(1), &Tls::new());
        tls.send_beneath_tls(&header[..9]).expect("the server reads");
        tls.send_beneath_tls(&header[9..]).expect("the server reads");
        rows.check("a file by TLS", tls.get("/page.html").text().as_str(), "page");
    }
    let lines = server.stdout();
    rows.holds("the log", &lines, lines.lines().all(|line| line.starts_with("192.0.2.1 - ")));
}

#[test]
fn closes_connections_without_a_valid_header() {
    let server = site("[timeouts]\nhead = \"1s\"\n").start();
    let mut rows = Rows::new();
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
    for (what, bytes) in [
        ("no header", GET.as_bytes().to_vec()),
        ("garbage", vec![0xff; 64]),
        ("a long line", [long.as_bytes(), GET.as_bytes()].concat()),
        ("no family", [b"PROXY \r\n", GET.as_bytes()].concat()),
        ("a line without CR", [b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n", GET.as_bytes()].concat()),
        ("datagrams", [&version_2(0x21, 0x12, &[0; 12]), GET.as_bytes()].concat()),
        ("too short", [&version_2(0x21, 0x11, &[0; 11]), GET.as_bytes()].concat()),
        ("too large", version_2(0x20, 0x00, &[0; 4097])),
        ("bad extension", [&version_2(0x21, 0x00, &[4, 0, 9]), GET.as_bytes()].concat()),
        ("TLS", b"\x16\x03\x01\x02\0\x01\0".to_vec()),
    ] {
        let mut client = from(PROXY, server.tcp(0));
        client.try_send(&bytes).expect("it is one packet");
        rows.check(what, client.is_closed(), true);
    }
    rows.holds("the log", "", !server.wait_for_line("PROXY header", TIMEOUT).is_empty());
    let mut stranger = from(STRANGER, server.tcp(0));
    _ = stranger.try_send([LINE, GET].concat());
    rows.check("a stranger", stranger.is_closed(), true);
    let line = server.wait_for_line("not one of `trusted_proxies`", TIMEOUT);
    rows.holds("names it", &line, line.contains("127.0.1.1"));
    // Ends at its deadline, or when the proxy closes.
    for part in [&b""[..], b"PROXY TCP4 192.0.2.1", &ipv4()[..20]] {
        let mut client = from(PROXY, server.tcp(0));
        client.send(part);
        rows.check(format!("incomplete: {} bytes", part.len()), client.is_closed(), true);
        let mut client = from(PROXY, server.tcp(0));
        client.send(part);
        client.half_close();
        rows.check(format!("closed after {} bytes", part.len()), client.is_closed(), true);
    }
    rows.check("no request is logged", server.stdout().as_str(), "");
}

#[test]
fn counts_the_connections_of_each_client_behind_the_proxy() {
    let server = site("[limits]\nconnections_per_client = 2\n").start();
    let open = |client: &str| {
        let mut proxy = from(PROXY, server.tcp(0));
        proxy.send(format!("PROXY TCP4 {client} 198.51.100.2 4711 80\r\n"));
        let status = proxy.get("/page.html").status;
        (proxy, status)
    };
    let kept: Vec<(Client, u16)> = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"].map(open).into();
    assert_eq!(kept.iter().map(|(_, status)| *status).collect::<Vec<_>>(), [200, 200, 503, 200]);
    let rejected = server.wait_for_output(" 503 ", TIMEOUT);
    assert!(rejected.starts_with("192.0.2.1 - "), "{rejected}");
}

#[test]
fn a_client_without_an_address_is_not_on_a_unix_socket() {
    let rules =
        "[[rule]]\naddress = [\"unix\", \"192.0.2.0/24\"]\nthen = \"allow\"\n[[rule]]\nthen = \"deny\"\n";
    let server = site(rules).start();
    let status = |header: &str| {
        let mut client = from(PROXY, server.tcp(0));
        client.send(header);
        client.request(GET).status
    };
    assert_eq!(status(LINE), 200);
    assert_eq!(status("PROXY UNKNOWN\r\n"), 403);
}

#[test]
fn a_reload_keeps_the_client_of_an_idle_connection() {
    let server = site("").start();
    let first = server.serving_pid();
    let mut client = from(PROXY, server.tcp(0));
    client.send(LINE);
    assert_eq!(client.request(GET).text().trim_end(), "[192.0.2.1] [4711] [] [off]");
    let mut waiting = from(PROXY, server.tcp(0));
    waiting.send(&LINE[..20]);
    let mut unknown = from(PROXY, server.tcp(0));
    unknown.send("PROXY UNKNOWN\r\n");
    assert_eq!(unknown.request(GET).text().trim_end(), "[] [] [] [off]");
    server.signal(Signal::HUP);
    assert!(wait_until(TIMEOUT, || server.serving_pid() != first), "it is reloaded");
    assert_eq!(client.request(GET).text().trim_end(), "[192.0.2.1] [4711] [] [off]");
    assert_eq!(unknown.request(GET).text().trim_end(), "[] [] [] [off]");
    waiting.send(&LINE[20..]);
    assert_eq!(waiting.request(GET).text().trim_end(), "[192.0.2.1] [4711] [] [off]");
    assert_eq!(waiting.request(GET).text().trim_end(), "[192.0.2.1] [4711] [] [off]");
}

#[test]
fn the_address_that_the_header_names_is_that_of_the_server() {
    let cgi = "[[host.route]]\npath = \"*.cgi\"\ncgi = true\n";
    let script = "#!/bin/sh\nprintf 'X-A: b\\n\\n%s:%s %s' \"$SERVER_ADDR\" \"$SERVER_PORT\" \"${DOCUMENT_ROOT##*/}\"\n";
    let server = Site::new()
        .script("env.cgi", script)
        .script_beside_root("by/198.51.100.3/env.cgi", script)
        .script_beside_root("two/env.cgi", script)
        .certificate()
        .config(&format!(
            "{LISTEN}[[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[host]]\naddresses = [\"198.51.100.2:443\", \"2001:db8::2\"]\nroot = \"two\"\n{cgi}\
             [[host]]\nnames = [\"by.example\"]\nroot = \"by/$ip\"\n{cgi}"
        ))
        .start();
    let line = |to: &str, port: u16| match to.contains(':') {
        true => format!("PROXY TCP6 2001:db8::1 {to} 4711 {port}\r\n"),
        false => format!("PROXY TCP4 192.0.2.1 {to} 4711 {port}\r\n"),
    };
    let get = |host: &str| format!("GET /env.cgi HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let own = server.tcp(0);
    let mut rows = Rows::new();
    let mut kept = Vec::new();
    for (header, host, expected) in [
        (line("198.51.100.2", 443), "localhost", "198.51.100.2:443 two".to_owned()),
        (line("198.51.100.2", 80), "localhost", "198.51.100.2:80 www".to_owned()),
        (line("2001:db8::2", 80), "localhost", "2001:db8::2:80 two".to_owned()),
        (line("::ffff:198.51.100.2", 443), "localhost", "198.51.100.2:443 two".to_owned()),
        (line("198.51.100.3", 80), "by.example", "198.51.100.3:80 198.51.100.3".to_owned()),
        ("PROXY UNKNOWN\r\n".to_owned(), "localhost", format!("{own} www")),
    ] {
        let mut client = from(PROXY, own);
        client.send(format!("{header}{}", get(host)));
        rows.check(&*header, client.read_response().text().as_str(), &*expected);
        rows.check(format!("{header}, again"), client.request(get(host)).text().as_str(), &*expected);
        kept.push((client, header, host, expected));
    }
    let mut other = from(PROXY, own);
    other.send(format!("{}{}", line("198.51.100.4", 80), get("by.example")));
    rows.check("an address without a folder", other.read_response().status, 404);
    let plain = version_2(0x21, 0x11, &[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0x01, 0xbb]);
    let mut client = from(PROXY, server.tcp(2));
    client.send(plain);
    let mut client = Http2::over(client).expect("it speaks HTTP/2");
    rows.check("HTTP/2", client.get("/env.cgi").text().as_str(), "198.51.100.2:443 two");
    let first = server.serving_pid();
    server.signal(Signal::HUP);
    assert!(wait_until(TIMEOUT, || server.serving_pid() != first), "it is reloaded");
    for (mut client, header, host, expected) in kept {
        rows.check(format!("{header} after a reload"), client.request(get(host)).text().as_str(), &*expected);
    }
}

/// The fields of a client count if it is a trusted proxy itself, and never if its address is not known.
#[test]
fn believes_fields_of_the_client_that_the_header_names() {
    let server = site("").start();
    let mut rows = Rows::new();
    for (header, expected) in [
        ("PROXY TCP4 127.0.0.3 198.51.100.2 4711 80\r\n", "[203.0.113.9] [] [] [off]"),
        (LINE, "[192.0.2.1] [4711] [] [off]"),
        ("PROXY UNKNOWN\r\n", "[] [] [] [off]"),
    ] {
        for mut client in [from(PROXY, server.tcp(0)), Client::unix(&server.home().join("proxy.sock"))] {
            client.send(header);
            let response: Response = client.get_with("/env.cgi", "X-Forwarded-For: 203.0.113.9\r\n");
            rows.check(header, response.text().trim_end(), expected);
        }
    }
}

#[test]
fn haproxy_and_curl_send_headers_that_are_understood() {
    let server = site("").start();
    let (one, two) = (free_port(), free_port());
    let (plain, tls) = (server.tcp(0), server.tcp(1));
    let config = server.files().file(
        "haproxy.cfg",
        format!(
            "defaults\n mode tcp\n timeout connect 9s\n timeout client 9s\n timeout server 9s\n\
             listen one\n bind 127.0.0.1:{one}\n server s {plain} send-proxy source 127.0.0.2\n\
             listen two\n bind 127.0.0.1:{two}\n server s {tls} send-proxy-v2 proxy-v2-options crc32c,unique-id \
             check inter 100ms source 127.0.0.2\n"
        ),
    );
    let _haproxy = BackgroundProcess::start(tool("haproxy").arg("-db").arg("-f").arg(config));
    for port in [one, two] {
        assert!(
            wait_until(TIMEOUT, || TcpStream::connect(("127.0.0.1", port)).is_ok()),
            "it does not listen"
        );
    }
    let mut rows = Rows::new();
    let mut client = Client::tcp_from("127.0.3.4".parse().expect("an address"), ([127, 0, 0, 1], one).into());
    let found = client.request(GET).text();
    rows.holds("send-proxy", &found, found.starts_with("[127.0.3.4] ["));
    let mut client = Client::tls(([127, 0, 0, 1], two).into(), &Tls::new());
    let found = client.request(GET).text();
    rows.holds("send-proxy-v2", &found, found.starts_with("[127.0.0.1] [") && found.ends_with("[on]\n"));
    for (what, url, more) in [
        ("curl", format!("http://{plain}/env.cgi"), "-s"),
        ("curl, TLS", format!("https://{tls}/env.cgi"), "-sk"),
    ] {
        let curl = output_of(tool("curl").args([more, "--haproxy-protocol", "--max-time", "9", &url]));
        let found = String::from_utf8_lossy(&curl.stdout).into_owned();
        rows.holds(what, &found, found.starts_with("[127.0.0.1] ["));
    }
}

#[test]
fn an_address_for_proxies_needs_a_trusted_one() {
    let site = Site::new().config("listen = [\"127.0.0.1:0 proxy\"]\n");
    let config = site.write_config();
    let checked = e2e::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && errors.contains("no proxy is trusted"), "{errors}");
    let folder = e2e::run(["--listen".as_ref(), "127.0.0.1:0 proxy".as_ref(), site.root().as_os_str()]);
    let errors = String::from_utf8_lossy(&folder.stderr).into_owned();
    assert!(!folder.status.success() && errors.contains("`trusted_proxies`"), "{errors}");
}
