//! Requests for URLs, which are forwarded.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

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
    let allowed = Some("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
    for request in ["TRACE", "OPTIONS"] {
        let head = format!("{request} {base}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n");
        rows.check(request, client.request(head).field("allow"), allowed);
    }
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
        ("inner.test", &["127.0.0.1"]),
        ("metadata.test", &["169.254.169.254"]),
        ("mixed.test", &["10.0.0.1", "127.0.0.1"]),
        ("zero.test", &["0.0.0.0"]),
        ("other.example", &["127.0.0.1"]),
    ]);
    let rules = "destinations = [\"*.test\", \"localhost\", \"127.*\", \"0*\", \"21*\"]\nhttp = true\n";
    let section = format!(
        "[resolver]\nservers = \"{}\"\ntimeout = \"500ms\"\n---\nclients = \"127.0.0.1\"\n{rules}",
        dns.address
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
