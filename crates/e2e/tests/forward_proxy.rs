//! The forward proxy: tunnels by CONNECT, and requests for URLs. Destinations are threads of the test, or another
//! taipan; so is the DNS server.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use e2e::http2::{Http2, Http2Request, flag, frame};
use e2e::upstream::read_head;
use e2e::{Client, Rows, Server, Site, TIMEOUT, Tls, output_of, tool, wait_until};
use taipan_h2::error::HpackError;
use taipan_h2::hpack::{self, Decoder};

/// A destination that runs `serve` for each connection.
fn destination(serve: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    destination_at(listener, serve);
    port
}

fn destination_at(listener: TcpListener, serve: impl Fn(TcpStream) + Send + Clone + 'static) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("it listens"), serve.clone());
            thread::spawn(move || serve(stream));
        }
    });
}

/// Sends back what comes, until the end, and then how much it was.
fn echo(mut stream: TcpStream) {
    let (mut buffer, mut total) = ([0; 4096], 0);
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            _ = stream.write_all(format!("end of {total}").as_bytes());
            _ = stream.shutdown(Shutdown::Write);
            return;
        }
        total += n;
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

/// A DNS server that knows the addresses of names, all of IPv4.
fn dns(table: &'static [(&'static str, &'static [[u8; 4]])]) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let mut packet = [0; 1024];
        while let Ok((_, peer)) = socket.recv_from(&mut packet) {
            let (mut labels, mut at) = (Vec::new(), 12);
            while packet[at] > 0 {
                let end = at + 1 + usize::from(packet[at]);
                labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_lowercase());
                at = end;
            }
            let question = &packet[12..at + 5];
            let known = table.iter().find(|(name, _)| *name == labels.join("."));
            let code = if known.is_some() { 0 } else { 3 };
            let is_v4 = packet[at + 2] == 1;
            let ips = known.filter(|_| is_v4).map_or(&[][..], |(_, ips)| ips);
            let head = [0x81, 0x80 | code, 0, 1, 0, ips.len() as u8, 0, 0, 0, 0];
            let mut answer = [&packet[..2], &head, question].concat();
            for ip in ips {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                answer.extend(ip);
            }
            _ = socket.send_to(&answer, peer);
        }
    });
    port
}

fn proxy(ports: &[u16], section: &str) -> Server {
    proxy_with("listen = \"127.0.0.1:0\"", ports, section)
}

/// `keys`: of the top level.
fn proxy_with(keys: &str, ports: &[u16], section: &str) -> Server {
    let (top, section) = section.split_once("---\n").unwrap_or(("", section));
    Site::new()
        .file("a.txt", "a file")
        .config(&format!(
            "{keys}\nworkers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n{top}\n\
             [forward_proxy]\nports = {ports:?}\n{section}\n"
        ))
        .start()
}

const LOOPBACK: &str = "clients = \"127.0.0.0/8\"\ndestinations = \"127.0.0.0/8\"\n";

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
        ("inner.test", &[[127, 0, 0, 1]]),
        ("metadata.test", &[[169, 254, 169, 254]]),
        ("mixed.test", &[[10, 0, 0, 1], [127, 0, 0, 1]]),
        ("other.example", &[[127, 0, 0, 1]]),
    ]);
    let resolver = format!("[resolver]\nservers = \"127.0.0.1:{dns}\"\ntimeout = \"500ms\"\n---\n");
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

/// A server whose responses are heads and bodies of HTTP. It sends the head of each request, with its body, to the
/// test.
fn origin(response: impl Fn(&str) -> String + Send + Clone + 'static) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    (port, origin_at(listener, response))
}

fn origin_at(
    listener: TcpListener,
    response: impl Fn(&str) -> String + Send + Clone + 'static,
) -> Receiver<String> {
    let (sender, heads) = channel();
    destination_at(listener, move |mut stream| {
        let Ok(head) = read_head(&mut stream) else { return };
        let mut body = Vec::new();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        if let Some(length) = length {
            body.resize(length, 0);
            if stream.read_exact(&mut body).is_err() {
                return;
            }
        }
        while head.contains("Transfer-Encoding: chunked") && !body.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            body.push(byte[0]);
        }
        let response = response(&head);
        _ = sender.send(head + &String::from_utf8_lossy(&body));
        _ = stream.write_all(response.as_bytes());
    });
    heads
}

fn hello(_: &str) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Origin: yes\r\n\r\nhello"
        .to_owned()
}

const HTTP: &str = "clients = \"127.0.0.1\"\ndestinations = \"127.0.0.0/8\"\nhttp = true\n";

fn via(text: &str) -> &str {
    let (_, rest) = text.split_once("1.1 taipan-").expect("it names this server");
    &rest[..8]
}

#[test]
fn forwards_requests_for_urls_as_they_are() {
    let (port, heads) = origin(hello);
    let server = proxy(&[port], HTTP);
    let mut client = server.connect();
    let mut rows = Rows::new();
    let url = format!("http://127.0.0.1:{port}/a%2fb/../c?q=1");
    let response = client.request(format!(
        "GET {url} HTTP/1.1\r\nHost: other.test\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nX_Odd: 1\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTE: trailers\r\nUpgrade: a\r\n\
         Via: 1.0 other\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    ));
    let head = heads.recv_timeout(TIMEOUT).expect("a request");
    let own = via(&head).to_owned();
    let expected = format!(
        "GET /a%2fb/../c?q=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX_Odd: 1\r\nVia: 1.0 other\r\n\
         X-Forwarded-For: 192.0.2.1\r\nVia: 1.1 taipan-{own}\r\n\r\n"
    );
    rows.check("the request", head.as_str(), expected.as_str());
    rows.check("the response", (response.status, response.text().as_str()), (200, "hello"));
    rows.check("its fields", (response.field("x-origin"), response.field("x-hop")), (Some("yes"), None));
    rows.check("via", response.field("via"), Some(&*format!("1.1 taipan-{own}")));
    let line = server.wait_for_output(&format!("\"target\":\"{url}\""), TIMEOUT);
    rows.holds("the log", &line, line.contains(&format!("\"address\":\"127.0.0.1:{port}\",\"status\":200")));
    // The connection of the client goes on. Without a port, it is 80.
    let mut ask = |method: &str, url: &str, fields: &str| {
        client.request(format!("{method} {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")).status
    };
    let base = format!("http://127.0.0.1:{port}");
    rows.check("no port", ask("GET", "http://127.0.0.1/", ""), 403);
    for (method, url, fields, expected) in [
        ("GET", base.clone(), "", "GET / HTTP/1.1"),
        ("GET", format!("{base}?a"), "", "GET /?a HTTP/1.1"),
        ("OPTIONS", base.clone(), "", "OPTIONS * HTTP/1.1"),
        ("OPTIONS", format!("{base}/"), "Max-Forwards: 5\r\n", "OPTIONS / HTTP/1.1"),
        ("DELETE", format!("{base}//x"), "", "DELETE //x HTTP/1.1"),
    ] {
        rows.check(&url, ask(method, &url, fields), 200);
        let head = heads.recv_timeout(TIMEOUT).expect("a request");
        rows.check(&url, head.lines().next().unwrap_or_default(), expected);
        rows.check(&url, head.contains("Max-Forwards: 4\r\n"), !fields.is_empty());
    }
    rows.check("count", server.count("forwarded"), 6);
    rows.check("no further hop", ask("OPTIONS", &base, "Max-Forwards: 0\r\n"), 204);
    rows.check("TRACE", ask("TRACE", &base, ""), 405);
    rows.check("HTTPS", ask("GET", &base.replace("http:", "https:"), ""), 400);
    rows.check("a loop", ask("GET", &base, &format!("Via: 1.1 a, 1.1\ttaipan-{own}, 1.1 b\r\n")), 508);
    rows.check("another proxy", ask("GET", &base, "Via: 1.1 taipan-00000000\r\n"), 200);
    rows.check("the site itself", ask("GET", "/a.txt", ""), 200);
}

#[test]
fn forwards_bodies_of_both_directions() {
    let (port, heads) = origin(|head| {
        let respond = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\n\r\n{body}");
        match head.split(' ').nth(1).unwrap_or_default() {
            "/chunked" => respond("200 OK\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
            "/closed" => "HTTP/1.0 200 OK\r\n\r\nhello".to_owned(),
            "/empty" => respond("204 No Content", ""),
            "/head" => respond("200 OK\r\nContent-Length: 77", ""),
            "/short" => respond("200 OK\r\nContent-Length: 77", "hello"),
            "/garbage" => "garbage\r\n\r\n".to_owned(),
            "/nothing" => String::new(),
            "/407" => respond("407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0", ""),
            "/switch" => respond("101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a", ""),
            "/early" => {
                respond("103 Early Hints\r\nLink: </a>", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            }
            _ => hello(""),
        }
    });
    let server = proxy(&[port], HTTP);
    let mut rows = Rows::new();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    for (path, method, status, body) in [
        ("/chunked", "GET", 200, "hello"),
        ("/closed", "GET", 200, "hello"),
        ("/empty", "GET", 204, ""),
        ("/early", "GET", 200, "hello"),
        ("/garbage", "GET", 502, ""),
        ("/nothing", "GET", 502, ""),
        ("/switch", "GET", 502, ""),
        // It would ask for a password of the proxy.
        ("/407", "GET", 502, ""),
    ] {
        let response = server.request(format!("{method} {} HTTP/1.1\r\nHost: x\r\n\r\n", url(path)));
        rows.check(path, response.status, status);
        if status < 300 {
            rows.check(path, response.text().as_str(), body);
        }
        heads.recv_timeout(TIMEOUT).expect("a request");
    }
    let mut client = server.connect();
    client.send(format!("HEAD {} HTTP/1.1\r\nHost: x\r\n\r\n", url("/head")));
    let head = client.read_response_to_head();
    rows.check("HEAD", (head.status, head.field("content-length")), (200, Some("77")));
    let mut client = server.connect();
    client.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", url("/short")));
    rows.check("a short response is no whole one", client.try_read_response().is_err(), true);
    for (fields, body, expected) in [
        ("Content-Length: 5\r\n", "hello", "Content-Length: 5\r\n\r\nhello"),
        (
            "Transfer-Encoding: chunked\r\n",
            "5;x=1\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
        ("Content-Length: 0\r\n", "", "Content-Length: 0\r\n\r\n"),
    ] {
        while heads.try_recv().is_ok() {}
        let response =
            server.request(format!("POST {} HTTP/1.1\r\nHost: x\r\n{fields}\r\n{body}", url("/post")));
        rows.check(fields, response.text().as_str(), "hello");
        let head = heads.recv_timeout(TIMEOUT).expect("a request");
        rows.holds(fields, &head, head.ends_with(expected));
    }
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    let request = format!("POST {} HTTP/1.1\r\nHost: x\r\n{both}\r\n0\r\n\r\n", url("/post"));
    rows.check("both framings", server.request(request).status, 400);
    let broken = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    let broken = broken.replacen('/', &url("/post"), 1);
    rows.check("a broken chunk", server.request(broken).status, 400);
}

#[test]
fn refuses_urls_that_lead_elsewhere_than_allowed() {
    let (port, heads) = origin(hello);
    let dns = dns(&[
        ("inner.test", &[[127, 0, 0, 1]]),
        ("metadata.test", &[[169, 254, 169, 254]]),
        ("mixed.test", &[[10, 0, 0, 1], [127, 0, 0, 1]]),
        ("zero.test", &[[0, 0, 0, 0]]),
        ("other.example", &[[127, 0, 0, 1]]),
    ]);
    let rules = "destinations = [\"*.test\", \"localhost\", \"127.*\", \"0*\", \"21*\"]\nhttp = true\n";
    let section = format!(
        "[resolver]\nservers = \"127.0.0.1:{dns}\"\ntimeout = \"500ms\"\n---\nclients = \"127.0.0.1\"\n{rules}"
    );
    let server = proxy_with("listen = \"127.0.0.1:0\"\nnames = \"own.test\"", &[port], &section);
    let mut rows = Rows::new();
    for (host, status) in [
        ("inner.test", 403),
        ("metadata.test", 403),
        ("mixed.test", 403),
        ("zero.test", 403),
        ("localhost", 403),
        ("LOCALHOST.", 403),
        ("127.0.0.1", 403),
        ("127.0.0.2", 403),
        ("127.0.0.1.", 403),
        ("127.1", 403),
        ("0", 403),
        ("0.0.0.0", 403),
        ("0x7f.1", 403),
        ("0x7f000001", 403),
        ("2130706433", 403),
        ("017700000001", 403),
        ("0177.0.0.1", 403),
        ("[::1]", 403),
        ("[::]", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("[::ffff:7f00:1]", 403),
        ("[0:0:0:0:0:ffff:127.0.0.1]", 403),
        ("[64:ff9b::7f00:1]", 403),
        ("[fe80::1]", 403),
        ("other.example", 403),
        ("missing.test", 502),
        ("user@inner.test", 400),
        ("inner.test%00", 403),
        ("", 400),
    ] {
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n");
        rows.check(host, server.request(request).status, status);
    }
    rows.check("nothing has come", heads.try_recv().is_err(), true);
    let get = |url: &str| format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n");
    rows.check("a port", server.request(get("http://inner.test:1/")).status, 403);
    rows.check("an own name", server.request(get("http://own.test/a.txt")).text().as_str(), "a file");
    let mut other = Client::tcp_from(IpAddr::from([127, 0, 0, 2]), server.addr());
    let url = format!("http://inner.test:{port}/a.txt");
    rows.check("a client of the site alone", other.request(get(&url)).text().as_str(), "a file");
    server.wait_for_line("is not a public address", TIMEOUT);
}

#[test]
fn a_forwarded_request_has_limits() {
    let silent = destination(|mut stream| _ = stream.read_to_end(&mut Vec::new()));
    let limits = "[limits]\nupgraded = 1\n---\n";
    let server = proxy(&[silent], &format!("{limits}{HTTP}first_byte = \"1s\"\n"));
    let request = format!("GET http://127.0.0.1:{silent}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut client = server.connect();
    client.send(&request);
    let is_full = || server.request(&request).status == 503;
    assert!(wait_until(TIMEOUT, is_full));
    assert_eq!(client.read_response().status, 504);
}

/// A server that tells which of its connections had which request. The path says what it does: `/end` closes the
/// connection in place of a response, `/close` says that it closes it, and `/late` sends more than the response.
fn keeping_origin() -> (u16, Receiver<String>) {
    let (sender, requests) = channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let port = destination(move |mut stream| {
        let number = connections.fetch_add(1, Ordering::SeqCst);
        let mut has_had_one = false;
        while let Ok(head) = read_head(&mut stream) {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            if stream.read_exact(&mut vec![0; length.unwrap_or(0)]).is_err() {
                return;
            }
            let line = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let closes = if head.contains("Connection: close") { " close" } else { "" };
            _ = sender.send(format!("{number}: {line}{closes}"));
            if line.ends_with("/end") && has_had_one {
                return;
            }
            has_had_one = true;
            let more = if line.ends_with("/close") { "Connection: close\r\n" } else { "" };
            let late = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
            let late = if line.ends_with("/late") { late } else { "" };
            let response =
                format!("HTTP/1.1 200 OK\r\n{more}Content-Length: {}\r\n\r\n{line}{late}", line.len());
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

#[test]
fn keeps_connections_and_uses_them_again() {
    let (port, requests) = keeping_origin();
    let mut rows = Rows::new();
    // Each request, its fields, and which connection had it, or which ones.
    let table: &[(&str, &str, &str, &[&str])] = &[
        ("GET", "/1", "", &["0: GET /1"]),
        ("HEAD", "/2", "", &["0: HEAD /2"]),
        // A response to HEAD that announces content may be followed by it.
        ("GET", "/3", "", &["1: GET /3"]),
        ("OPTIONS", "/4", "", &["1: OPTIONS /4"]),
        // It could not be sent again.
        ("POST", "/5", "Content-Length: 0\r\n", &["2: POST /5"]),
        ("GET", "/6", "", &["2: GET /6"]),
        // A server may take the connection for the user.
        ("GET", "/7", "Authorization: NTLM x\r\n", &["3: GET /7 close"]),
        ("GET", "/8", "", &["2: GET /8"]),
        // The server ends the connection meanwhile, and a new one has the request again.
        ("GET", "/end", "", &["2: GET /end", "4: GET /end"]),
        ("GET", "/close", "", &["4: GET /close"]),
        ("GET", "/late", "", &["1: GET /late"]),
        ("GET", "/9", "", &["5: GET /9"]),
    ];
    let server = proxy(&[port], HTTP);
    for (method, path, fields, expected) in table {
        let url = format!("http://127.0.0.1:{port}{path}");
        let mut client = server.connect();
        client.send(format!("{method} {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        let response = match *method {
            "HEAD" => client.read_response_to_head(),
            _ => client.read_response(),
        };
        rows.check(*path, response.status, 200);
        if *method != "HEAD" {
            rows.check(*path, response.text(), format!("{method} {path}"));
        }
        let had: Vec<String> = expected.iter().map_while(|_| requests.recv_timeout(TIMEOUT).ok()).collect();
        rows.check(*path, had, expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    }
    for (keys, expected) in [
        ("keep = \"0s\"", ["GET /a close", "GET /b close"]),
        ("idle_connections = 0", ["GET /a close", "GET /b close"]),
        ("idle_connections = 1", ["GET /a", "GET /b"]),
    ] {
        let server = proxy(&[port], &format!("{HTTP}{keys}\n"));
        let mut numbers = Vec::new();
        for (path, expected) in ["/a", "/b"].iter().zip(expected) {
            let url = format!("http://127.0.0.1:{port}{path}");
            server.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let had = requests.recv_timeout(TIMEOUT).expect("a request");
            let (number, line) = had.split_once(": ").expect("it has a number");
            rows.check(keys, line, expected);
            numbers.push(number.to_owned());
        }
        rows.check(keys, numbers[0] == numbers[1], keys == "idle_connections = 1");
    }
    // A connection is for one name, and one that has waited for too long is closed.
    let (other, of_other) = keeping_origin();
    let server = proxy(&[port, other], &format!("{HTTP}idle_connections = 1\nkeep = \"1s\"\n"));
    let get = |port: u16| {
        let url = format!("http://127.0.0.1:{port}/x");
        server.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).status
    };
    rows.check("the first", (get(port), get(other), get(port)), (200, 200, 200));
    let numbers: Vec<String> = (0..2).map_while(|_| requests.recv_timeout(TIMEOUT).ok()).collect();
    rows.holds("the first", "its connection had to go", numbers[0][..2] != numbers[1][..2]);
    rows.check("the other", of_other.recv_timeout(TIMEOUT).ok().as_deref(), Some("0: GET /x"));
}

/// A request by HTTP/2 with this authority.
fn by_http2(method: &str, scheme: &str, authority: &str, path: &str) -> Http2Request {
    let fields = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
    let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Http2Request { fields, body: Vec::new(), trailers: Vec::new() }
}

#[test]
fn forwards_requests_by_http2() {
    let (port, heads) = origin(hello);
    let server = proxy_with("listen = \"127.0.0.1:0 http2\"\nnames = \"own.test\"", &[port], HTTP);
    let mut client = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
    let mut rows = Rows::new();
    let (own, there) = (server.addr().to_string(), format!("127.0.0.1:{port}"));
    let mut get = by_http2("GET", "http", &there, "/a%2fb?q=1");
    get.fields.push((b"x-own".to_vec(), b"1".to_vec()));
    let response = client.request(&get).expect("a response");
    rows.check("GET", (response.status, response.text().as_str()), (200, "hello"));
    let head = heads.recv_timeout(TIMEOUT).expect("a request");
    let name = via(&head.replace("Via: 2.0", "Via: 1.1").replace("Via: 2 ", "Via: 1.1 ")).to_owned();
    rows.holds(
        "GET",
        &head,
        head.starts_with(&format!("GET /a%2fb?q=1 HTTP/1.1\r\nHost: {there}\r\nx-own: 1\r\n")),
    );
    rows.check("GET: one host", head.to_lowercase().matches("\r\nhost:").count(), 1);
    rows.check("its fields", (response.field("x-origin"), response.field("x-hop")), (Some("yes"), None));
    let line = server.wait_for_output(&format!("\"target\":\"http://{there}/a%2fb?q=1\""), TIMEOUT);
    rows.holds("the log", &line, line.contains(&format!("\"address\":\"{there}\",\"status\":200")));
    let mut post = by_http2("POST", "http", &there, "/post");
    post.body = b"hello".to_vec();
    rows.check("POST", client.request(&post).map(|response| response.status).ok(), Some(200));
    let head = heads.recv_timeout(TIMEOUT).expect("a request");
    rows.holds("POST", &head, head.starts_with("POST /post ") && head.contains("hello"));
    let options = client.request(&by_http2("OPTIONS", "http", &there, "*")).expect("a response");
    rows.check("OPTIONS", options.status, 200);
    rows.check(
        "OPTIONS",
        heads.recv_timeout(TIMEOUT).expect("a request").starts_with("OPTIONS * HTTP"),
        true,
    );
    for (scheme, authority, status, body) in [
        // These are for the site.
        ("http", own.as_str(), 200, "a file"),
        ("http", "own.test", 200, "a file"),
        ("http", "own.test:1", 200, "a file"),
        ("https", there.as_str(), 200, "a file"),
        ("http", "127.0.0.1:1", 403, ""),
        ("http", "192.0.2.1:80", 403, ""),
        ("http", "127.1:80", 403, ""),
    ] {
        let response = client.request(&by_http2("GET", scheme, authority, "/a.txt")).expect("a response");
        let row = format!("{scheme}://{authority}");
        rows.check(&row, response.status, status);
        if status == 200 {
            rows.check(&row, response.text().as_str(), body);
        }
    }
    let mut again = by_http2("GET", "http", &there, "/");
    again.fields.push((b"via".to_vec(), format!("1.1 taipan-{name}").into_bytes()));
    rows.check("a loop", client.request(&again).map(|response| response.status).ok(), Some(508));
    rows.check("nothing else has come", heads.try_recv().is_err(), true);
    let mut other = Client::tcp_from(IpAddr::from([127, 0, 0, 2]), server.addr());
    let request = format!("GET http://{there}/a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    rows.check("a client of the site alone", other.request(request).text().as_str(), "a file");
}

#[test]
fn stores_responses_of_other_servers_by_key() {
    let (port, heads) = origin(|head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let fields = match path.split('?').next().unwrap_or_default() {
            "/private" => "Cache-Control: private, max-age=60\r\n",
            "/cdn" => "CDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n",
            "/vary" => "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n",
            "/cookie" => "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
            "/stale" => "Cache-Control: max-age=0\r\nETag: \"a\"\r\n",
            _ => "Cache-Control: max-age=60\r\n",
        };
        match head.contains("If-None-Match: \"a\"") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
            false => format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{path}", path.len()),
        }
    });
    let server =
        proxy_with("listen = \"127.0.0.1:0 http2\"\n", &[port], &format!("{HTTP}store_responses = true\n"));
    let mut rows = Rows::new();
    let requests = || heads.try_iter().count();
    let ask = |method: &str, path: &str, fields: &str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        server.request(format!("{method} {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
    };
    // The path, the fields of two requests, and how many of them reach the other server.
    for (path, first, second, expected) in [
        ("/a", "", "", 1),
        ("/a?q", "", "", 1),
        // To the other server, these are other paths.
        ("/x/../a", "", "", 1),
        ("//a", "", "", 1),
        ("/%61", "", "", 1),
        ("/private", "", "", 2),
        ("/cdn", "", "", 2),
        ("/cookie", "", "", 2),
        ("/user", "Authorization: Basic eDp5\r\n", "", 2),
        ("/own", "Cookie: a=b\r\n", "", 2),
        ("/vary", "Accept-Language: de\r\n", "Accept-Language: de\r\n", 1),
        ("/vary", "Accept-Language: en\r\n", "Accept-Language: fr\r\n", 2),
        // The other server has not seen the field that would select it.
        ("/vary", "Connection: accept-language\r\nAccept-Language: it\r\n", "Accept-Language: it\r\n", 2),
        ("/stale", "", "", 2),
    ] {
        let row = format!("{path} {first}{second}");
        for fields in [first, second] {
            let response = ask("GET", path, fields);
            rows.check(&row, (response.status, response.text().as_str()), (200, path));
        }
        rows.check(&row, requests(), expected);
    }
    let hit = ask("GET", "/a", "");
    rows.holds(
        "a hit",
        "Cache-Status says so",
        hit.field("cache-status").unwrap_or_default().contains("hit"),
    );
    rows.holds("a hit", "it has Via", hit.field("via").unwrap_or_default().starts_with("1.1 taipan-"));
    rows.check("HEAD", ask("HEAD", "/a", "").status, 200);
    let mut http2 = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
    let by_http2 = http2.request(&by_http2("GET", "http", &format!("127.0.0.1:{port}"), "/a"));
    rows.check("by HTTP/2", by_http2.expect("a response").text().as_str(), "/a");
    rows.check("these are hits", requests(), 0);
    // A stored response is for those who may use the proxy.
    let mut other = Client::tcp_from(IpAddr::from([127, 0, 0, 2]), server.addr());
    let url = format!("http://127.0.0.1:{port}/a");
    rows.check("another client", other.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).status, 404);
    rows.check("the site", server.request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
    // What a request changes is not sent again.
    rows.check("POST", ask("POST", "/a", "Content-Length: 0\r\n").status, 200);
    rows.check("POST", requests(), 1);
    ask("GET", "/a", "");
    rows.check("behind it", requests(), 1);
    let without = proxy(&[port], HTTP);
    for _ in 0..2 {
        without.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    rows.check("without the key", requests(), 2);
}

/// RFC 9110 §4.2.3. `tests/run` leaves this test out where the user cannot listen at port 80.
#[test]
fn one_stored_response_is_for_a_url_with_and_without_the_port_of_http() {
    // An address of this process alone, because other tests may need the port.
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let address = IpAddr::from([127, 80, high, low.max(1)]);
    let listener = TcpListener::bind((address, 80)).expect("this user may listen at port 80");
    let heads = origin_at(listener, |_| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\na".to_owned()
    });
    let server = proxy(&[80], &format!("{HTTP}store_responses = true\n"));
    let mut rows = Rows::new();
    for (method, authority, expected) in [
        ("GET", address.to_string(), 1),
        ("GET", format!("{address}:80"), 0),
        ("GET", format!("{address}:"), 0),
        ("POST", format!("{address}:80"), 1),
        ("GET", address.to_string(), 1),
        ("POST", address.to_string(), 1),
        ("GET", format!("{address}:80"), 1),
    ] {
        let row = format!("{method} {authority}");
        let request =
            format!("{method} http://{authority}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        rows.check(&row, server.request(request).status, 200);
        rows.check(&row, heads.try_iter().count(), expected);
    }
}

#[test]
fn a_change_by_a_client_with_tls_invalidates_what_location_names() {
    let (port, heads) = origin(|head| {
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
        let location = match head.split(' ').nth(1) {
            Some("/relative") => "Location: /b\r\n".to_owned(),
            Some("/absolute") => format!("Location: http://{host}/b\r\n"),
            _ => String::new(),
        };
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{location}Content-Length: 1\r\n\r\na")
    });
    let server = Site::new()
        .certificate()
        .config(&format!(
            "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
             workers = 1\n[forward_proxy]\nports = [{port}]\n{HTTP}store_responses = true\n"
        ))
        .start();
    let mut client = Client::tls(server.addr(), &Tls::new());
    let mut rows = Rows::new();
    for (method, path, expected) in [
        ("GET", "/b", 1),
        ("GET", "/b", 0),
        ("POST", "/relative", 1),
        ("GET", "/b", 1),
        ("POST", "/absolute", 1),
        ("GET", "/b", 1),
    ] {
        let row = format!("{method} {path}");
        let url = format!("http://127.0.0.1:{port}{path}");
        let request = format!("{method} {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        rows.check(&row, client.request(request).status, 200);
        rows.check(&row, heads.try_iter().count(), expected);
    }
}

#[test]
fn sends_a_stale_response_of_another_server_while_a_newer_one_is_requested() {
    let (release, released) = channel::<&str>();
    let released = Arc::new(Mutex::new(released));
    let (sender, requests) = channel();
    let (port, _) = origin(move |head| {
        _ = sender.send(head.to_owned());
        let age = match head.contains("If-None-Match: \"a\"") {
            true => released.lock().expect("no thread has panicked").recv().map_or("", |_| "ETag: \"b\"\r\n"),
            false => "ETag: \"a\"\r\nAge: 100\r\n",
        };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, stale-while-revalidate=1000\r\n{age}\
             Content-Length: 3\r\n\r\n{}",
            if age.contains("\"a\"") { "old" } else { "new" }
        )
    });
    let server =
        proxy_with("listen = \"127.0.0.1:0 http2\"\n", &[port], &format!("{HTTP}store_responses = true\n"));
    let get = || {
        let url = format!("http://127.0.0.1:{port}/a");
        server.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).text()
    };
    let request = || requests.recv_timeout(TIMEOUT).expect("a request");
    let mut rows = Rows::new();
    rows.check("stored", get().as_str(), "old");
    rows.holds("the first request", "it has no condition", !request().contains("If-None-Match"));
    // The validation, of a request by HTTP/2, has no response yet.
    let mut http2 = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
    let stale = http2.request(&by_http2("GET", "http", &format!("127.0.0.1:{port}"), "/a"));
    rows.check("by HTTP/2", stale.expect("a response").text().as_str(), "old");
    for row in 0..3 {
        rows.check(format!("request {row}"), get().as_str(), "old");
    }
    let validation = request();
    rows.holds("the validation", "it names what is stored", validation.contains("If-None-Match: \"a\""));
    rows.holds("the validation", "it is for the same path", validation.starts_with("GET /a HTTP/1.1"));
    release.send("go on").expect("the server waits");
    rows.holds("then", "the newer one is sent", wait_until(TIMEOUT, || get() == "new"));
    rows.check("requests beside these", requests.try_iter().count(), 0);
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
             cache     looked up, and stored, if it says so\n",
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

#[test]
fn curl_uses_it_for_plain_http() {
    let (port, heads) = origin(hello);
    let server = proxy(&[port], HTTP);
    let mut curl = tool("curl");
    curl.args(["-sS", "-x", &format!("http://{}", server.addr())]);
    let output = output_of(curl.arg(format!("http://127.0.0.1:{port}/b.txt")));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello");
    assert!(heads.recv_timeout(TIMEOUT).expect("a request").starts_with("GET /b.txt HTTP/1.1\r\n"));
}

/// Opens a stream with CONNECT (RFC 9113 §8.5).
fn open(client: &mut Http2, authority: &str) -> u32 {
    let fields = [(":method", "CONNECT"), (":authority", authority)];
    let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    // With a body, so that HEADERS does not end the stream.
    client.open(&Http2Request { fields, body: vec![0], trailers: Vec::new() }).expect("the server reads")
}

fn status(client: &mut Http2, stream: u32) -> String {
    let frame = client.next_frame_of(stream);
    assert_eq!(frame.kind, frame::HEADERS, "{frame:?}");
    let mut status = String::new();
    let read = |name: &[u8], value: &[u8]| {
        if name == b":status" {
            status = String::from_utf8_lossy(value).into_owned();
        }
        Ok::<(), HpackError>(())
    };
    Decoder::new(hpack::TABLE_SIZE, usize::MAX).decode(&frame.payload, read).expect("a field block");
    status
}

/// Reads DATA until the end of the stream, or what resets it.
fn content(client: &mut Http2, stream: u32) -> Result<String, u32> {
    let mut content = Vec::new();
    loop {
        let frame = client.next_frame_of(stream);
        match frame.kind {
            frame::DATA => content.extend(&frame.payload),
            frame::RST_STREAM => {
                let code: [u8; 4] = frame.payload[..].try_into().expect("a code");
                return Err(u32::from_be_bytes(code));
            }
            other => panic!("frame {other}"),
        }
        if frame.flags & flag::END_STREAM != 0 {
            return Ok(String::from_utf8_lossy(&content).into_owned());
        }
    }
}

#[test]
fn opens_tunnels_by_http2() {
    let echoes = destination(echo);
    let resets = destination(|mut stream| {
        _ = stream.read(&mut [0]);
        // Unread bytes make a reset of the end.
        _ = stream.write_all(b"x");
    });
    let server = proxy_with("listen = \"127.0.0.1:0 http2\"", &[echoes, resets], LOOPBACK);
    let mut rows = Rows::new();
    let mut client = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
    let authority = format!("127.0.0.1:{echoes}");
    // Two streams of one connection.
    for number in 1..=2 {
        let stream = open(&mut client, &authority);
        rows.check(number.to_string(), status(&mut client, stream).as_str(), "200");
        client.send_frame(frame::DATA, 0, stream, b"hello ").expect("it is open");
        client.send_frame(frame::DATA, flag::END_STREAM, stream, b"world").expect("it is open");
        rows.check(number.to_string(), content(&mut client, stream), Ok("hello worldend of 11".to_owned()));
    }
    for (authority, expected) in [
        (format!("127.0.0.1:{}", 1), "403"),
        (format!("192.0.2.1:{echoes}"), "403"),
        ("127.1:80".to_owned(), "403"),
    ] {
        let mut own = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
        let stream = open(&mut own, &authority);
        rows.check(&authority, status(&mut own, stream).as_str(), expected);
    }
    let mut own = Http2::over(Client::tcp(server.addr())).expect("the server accepts");
    let stream = open(&mut own, &format!("127.0.0.1:{resets}"));
    rows.check("to be reset", status(&mut own, stream).as_str(), "200");
    own.send_frame(frame::DATA, 0, stream, b"more than one byte").expect("it is open");
    const CONNECT_ERROR: u32 = 10;
    rows.check("a reset", content(&mut own, stream).err(), Some(CONNECT_ERROR));
    let line = server.wait_for_output(&authority, TIMEOUT);
    rows.holds(
        "the log",
        &line,
        line.contains("\"method\":\"CONNECT\"") && line.contains("\"version\":\"HTTP/2"),
    );
    let plain = Site::new().config("listen = \"127.0.0.1:0 http2\"\n").start();
    let mut own = Http2::over(Client::tcp(plain.addr())).expect("the server accepts");
    let stream = open(&mut own, &authority);
    rows.check("without a proxy", status(&mut own, stream).as_str(), "405");
}
