//! Tunnels by CONNECT.

use std::net::UdpSocket;
use std::time::Instant;

use super::*;

fn connect(server: &Server, authority: &str) -> (Client, u16) {
    let mut client = server.connect();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    let status = client.read_response_to_head().status;
    (client, status)
}

#[test]
fn curl_reaches_a_server_with_tls_and_one_without() {
    let site = Site::new().certificate().file("b.txt", "from afar").config(
        "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\ncertificate = \"certificate.pem\"\n\
         certificate_key = \"key.pem\"\n",
    );
    let afar = site.start();
    let addresses: Vec<std::net::SocketAddr> = afar
        .addresses()
        .into_iter()
        .filter_map(|address| if let e2e::Address::Tcp(address) = address { Some(address) } else { None })
        .collect();
    let ports: Vec<u16> = addresses.iter().map(std::net::SocketAddr::port).collect();
    let server = proxy(&ports, LOOPBACK);
    let mut rows = Rows::new();
    for (scheme, address) in [("http", addresses[0]), ("https", addresses[1])] {
        let mut curl = tool("curl");
        curl.args(["-sS", "-k", "-p", "-x", &format!("http://{}", server.addr())]);
        let output = output_of(curl.arg(format!("{scheme}://{address}/b.txt")));
        rows.check(scheme, &*String::from_utf8_lossy(&output.stdout), "from afar");
        let line = server.wait_for_output(&format!("\"target\":\"{address}\""), TIMEOUT);
        rows.check(scheme, line.contains("\"status\":200"), true);
        rows.check(scheme, line.contains("\"method\":\"CONNECT\""), true);
    }
    // The site itself is served as before.
    rows.check("a file", server.get("/a.txt").text().as_str(), "a file");
}

#[test]
fn passes_bytes_and_the_end_of_each_direction() {
    let port = destination(echo);
    let server = proxy(&[port], LOOPBACK);
    let authority = format!("127.0.0.1:{port}");
    let mut client = server.connect();
    // Some clients do not wait for the response.
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nearly"));
    let response = client.read_response_to_head();
    assert_eq!(response.status, 200);
    for name in ["content-length", "transfer-encoding", "connection"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(client.read_exactly(5).expect("more bytes"), b"early");
    let large = vec![b'x'; 1 << 20];
    let mut writer = client.another_handle();
    let sent = large.clone();
    let sender = thread::spawn(move || {
        writer.send(&sent);
        writer.half_close();
    });
    let received = client.read_to_end();
    sender.join().expect("it sends");
    let expected = [&large[..], format!("end of {}", large.len() + 5).as_bytes()].concat();
    assert!(received == expected, "{} bytes, not {}", received.len(), expected.len());
    let line = server.wait_for_output(&authority, TIMEOUT);
    let (to, from) = (large.len() + 5, large.len() + 5 + "end of 1048581".len());
    assert!(line.contains(&format!("\"address\":\"{authority}\"")), "{line}");
    for part in [format!("\"sent\":{to}"), format!("\"received\":{from}"), format!("\"sent\":{from}")] {
        assert!(line.contains(&part), "{part}: {line}");
    }
}

#[test]
fn refuses_clients_ports_and_destinations() {
    let port = destination(echo);
    let dns = dns(&[
        ("inner.test", &["127.0.0.1"]),
        ("metadata.test", &["169.254.169.254"]),
        ("mixed.test", &["10.0.0.1", "127.0.0.1"]),
        ("other.example", &["127.0.0.1"]),
    ]);
    let resolver = format!("[resolver]\nservers = \"{}\"\ntimeout = \"500ms\"\n---\n", dns.address);
    let names = format!(
        "{resolver}clients = \"127.0.0.1\"\ndestinations = [\"*.test\", \"localhost\", \"127.0.0.1*\"]\n"
    );
    let server = proxy(&[port], &names);
    let mut rows = Rows::new();
    for (host, status, why) in [
        ("inner.test", 403, "127.0.0.1 is not a public address"),
        ("metadata.test", 403, "169.254.169.254 is not a public address"),
        ("mixed.test", 403, "is not a public address"),
        ("localhost", 403, "is not a public address"),
        ("127.0.0.1", 403, "127.0.0.1 is not a public address"),
        ("[::ffff:127.0.0.1]", 403, "127.0.0.1 is not a public address"),
        ("[::1]", 403, "it is not within \"destinations\""),
        ("other.example", 403, "it is not within \"destinations\""),
        ("127.1", 403, "it is neither a name nor an address"),
        ("missing.test", 502, "it cannot be resolved: there is no such name"),
    ] {
        let authority = format!("{host}:{port}");
        let expected = format!("to {authority}: ");
        // The log has one line a second, for all of them.
        let is_logged = || {
            rows.check(host, connect(&server, &authority).1, status);
            server.stderr().contains(&expected)
        };
        assert!(wait_until(TIMEOUT, is_logged), "{host}: {}", server.stderr());
        rows.check(host, server.wait_for_line(&expected, TIMEOUT).contains(why), true);
    }
    rows.check("port", connect(&server, "inner.test:1").1, 403);
    let mut other = Client::tcp_from(IpAddr::from([127, 0, 0, 2]), server.addr());
    let request = format!("CONNECT inner.test:{port} HTTP/1.1\r\nHost: inner.test:{port}\r\n\r\n");
    rows.check("client", other.request(request).status, 403);

    // A network makes the same addresses allowed.
    let server =
        proxy(&[port], &format!("{resolver}clients = \"127.0.0.1\"\ndestinations = [\"127.0.0.1\"]\n"));
    for (host, status) in
        [("inner.test", 200), ("mixed.test", 200), ("127.0.0.1", 200), ("metadata.test", 403)]
    {
        rows.check(format!("network: {host}"), connect(&server, &format!("{host}:{port}")).1, status);
    }
}

#[test]
fn refuses_each_public_address_of_this_machine_as_root() {
    let home = Folder::new();
    home.file("www/a.txt", "a file");
    let config = "listen = \"0.0.0.0:8080\"\nuser = \"root\"\nroot = \"www\"\n[forward_proxy]\nclients = \"127.0.0.1\"\n\
                  destinations = \"*\"\nports = [8080]\nhttp = true\n";
    let config = home.file("site.toml", config);
    // The kernel connects to the second address from the first one.
    let mut command = tool("unshare");
    let script =
        "ip link set lo up && ip addr add 8.8.4.1/24 dev lo && ip addr add 8.8.4.2/24 dev lo && exec \"$@\"";
    command.args(["--net", "sh", "-c", script, "sh"]).arg(e2e::program()).arg("-c").arg(config);
    let server = Server::start(command, 1, None);
    let network = format!("--net=/proc/{}/ns/net", server.pid());
    let mut rows = Rows::new();
    for address in ["8.8.4.1", "8.8.4.2"] {
        let mut curl = tool("nsenter");
        curl.arg(&network).args("curl -sS -o /dev/null -w %{http_code} -x http://127.0.0.1:8080".split(' '));
        let output = output_of(curl.arg(format!("http://{address}:8080/a.txt")));
        rows.check(address, String::from_utf8_lossy(&output.stdout).into_owned(), "403".to_owned());
    }
}

#[test]
fn reports_destinations_that_do_not_respond() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("it is bound").port()
    };
    // It answers nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let dns = silent.local_addr().expect("it is bound").port();
    let settings = format!(
        "[resolver]\nservers = \"127.0.0.1:{dns}\"\ntimeout = \"10s\"\n---\n{LOOPBACK}connect_timeout = \"300ms\"\n"
    );
    let server = proxy(&[closed], &settings);
    let mut rows = Rows::new();
    rows.check("closed", connect(&server, &format!("127.0.0.1:{closed}")).1, 502);
    server.wait_for_line("refused", TIMEOUT);
    let began = Instant::now();
    rows.check("silent", connect(&server, &format!("a.test:{closed}")).1, 504);
    rows.check("in time", (0.3..5.0).contains(&began.elapsed().as_secs_f64()), true);
}

#[test]
fn refuses_requests_that_are_no_tunnels() {
    let port = destination(echo);
    let server = proxy(&[port], LOOPBACK);
    let plain = Site::new().file("a.txt", "a file").config("listen = \"127.0.0.1:0\"\n").start();
    let authority = format!("127.0.0.1:{port}");
    let connect = |fields: &str| format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n");
    let mut rows = Rows::new();
    let mut status = |name: &str, server: &Server, request: String, expected: u16| {
        rows.check(name, server.request(request).status, expected);
    };
    status("with a body", &server, connect("Content-Length: 1\r\n") + "x", 400);
    status("without a proxy", &plain, connect(""), 405);
    status(
        "absolute form",
        &server,
        format!("GET http://{authority}/a.txt HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        200,
    );
    status("without a port", &server, "CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), 400);
}

#[test]
fn limits_tunnels_and_how_long_they_are_idle() {
    let port = destination(echo);
    let limits = "[limits]\nupgraded = 1\n[timeouts]\nupgraded = \"1s\"\n---\n";
    let server = proxy(&[port], &format!("{limits}{LOOPBACK}"));
    let authority = format!("127.0.0.1:{port}");
    let (mut idle, status) = connect(&server, &authority);
    assert_eq!(status, 200);
    assert_eq!(connect(&server, &authority).1, 503);
    server.wait_for_line("too many tunnels", TIMEOUT);
    assert!(wait_until(TIMEOUT, || idle.is_closed()), "it stays open");
    server.wait_for_output("upgraded connection idle", TIMEOUT);
    assert_eq!(connect(&server, &authority).1, 200);
}

#[test]
fn a_tunnel_survives_a_reload() {
    let port = destination(echo);
    let server = proxy(&[port], LOOPBACK);
    let authority = format!("127.0.0.1:{port}");
    let (mut client, status) = connect(&server, &authority);
    assert_eq!(status, 200);
    server.reload();
    client.send("still");
    assert_eq!(client.read_exactly(5).expect("more bytes"), b"still");
    assert_eq!(connect(&server, &authority).1, 200);
}

#[test]
fn explain_says_where_a_tunnel_or_a_url_leads() {
    let server = proxy_with(
        "listen = \"127.0.0.1:0\"\nnames = \"own.test\"",
        &[80, 443],
        &format!("{HTTP}store_responses = true\n"),
    );
    let explain = |words: &[&str]| {
        let output = server.run_command(&[&["explain"], words].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut rows = Rows::new();
    for (words, expected) in [
        (&["CONNECT", "127.0.0.1:443"][..], "tunnel    to 127.0.0.1, port 443\n"),
        (&["CONNECT", "192.0.2.1:443"], "tunnel    no: 403 Forbidden; it is not within \"destinations\"\n"),
        (&["CONNECT", "127.0.0.1:25"], "tunnel    no: 403 Forbidden; the port is not one of \"ports\"\n"),
        (
            &["GET", "http://127.0.0.1/a%2fb/../c?q"],
            "forward   to 127.0.0.1, port 80\nas        GET /a%2fb/../c?q\n          Host: 127.0.0.1\n\
             cache     looked up, and stored, if the response allows it\n",
        ),
        (
            &["GET", "http://other.test/"],
            "forward   to other.test, port 80\n          if its address is allowed, which explain does not resolve\n",
        ),
        (&["POST", "http://127.0.0.1/"], "cache     passed"),
        (&["GET", "http://127.0.0.1:81/"], "forward   no: 403 Forbidden; the port is not one of \"ports\"\n"),
        (&["GET", "http://own.test/a.txt"], "found     a.txt"),
        (&["GET", "/a.txt"], "found     a.txt"),
        (&["GET", "http://127.0.0.1/a.txt", "--from", "192.0.2.7"], "found     a.txt"),
    ] {
        let said = explain(words);
        rows.holds(words.join(" "), &said, said.contains(expected));
    }
}
