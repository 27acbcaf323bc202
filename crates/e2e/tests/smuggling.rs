//! Requests whose end two servers might see in different places, through the proxy: an upstream gets as many requests
//! as the client gets responses, each with the body that the client has sent, and never one that was hidden in another.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use e2e::http2::{Http2, Http2Request};
use e2e::upstream::read_head;
use e2e::{Rows, Server, Site, chunked};

/// Reads requests as RFC 9112 says, tells their methods, paths and bodies, and responds.
fn serve(mut stream: TcpStream, tell: &Sender<String>) -> io::Result<()> {
    loop {
        let head = read_head(&mut stream)?.to_lowercase();
        let values = |name: &str| -> Vec<String> {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(own, _)| *own == name).map(|(_, value)| value.to_owned()).collect()
        };
        let body = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
            ([], []) => Vec::new(),
            ([length], []) => {
                let mut body = vec![0; length.parse().map_err(io::Error::other)?];
                stream.read_exact(&mut body)?;
                body
            }
            ([], [coding]) if coding == "chunked" => {
                let mut bytes = Vec::new();
                loop {
                    let mut byte = [0];
                    stream.read_exact(&mut byte)?;
                    bytes.extend(byte);
                    if let Ok(Some((body, _, _))) = chunked(&bytes) {
                        break body;
                    }
                }
            }
            other => {
                _ = tell.send(format!("an ambiguous length: {other:?}"));
                return Ok(());
            }
        };
        let line: Vec<&str> = head.split(' ').take(2).collect();
        _ = tell.send(format!("{} {}", line.join(" "), String::from_utf8_lossy(&body)));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
    }
}

fn upstream() -> (SocketAddr, Receiver<String>) {
    let (tell, told) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.expect("it listens"), tell.clone());
            thread::spawn(move || serve(stream, &tell));
        }
    });
    (address, told)
}

fn start(buffering: &str) -> (Server, Receiver<String>) {
    let (address, told) = upstream();
    let site = Site::new();
    let config = format!(
        "listen = \"127.0.0.1:0 http2\"\nworkers = 1\n[scripts]\nspool = \"{}\"\n[[route]]\npath = \"/\"\n\
         proxy = \"http://{address}\"\n{buffering}\n",
        site.home().display()
    );
    (site.config(&config).start(), told)
}

/// What the upstream has received. A last request tells that there is no more.
fn received(server: &Server, told: &Receiver<String>) -> Vec<String> {
    assert_eq!(server.get("/end").status, 200);
    let mut received = Vec::new();
    loop {
        match told.recv_timeout(e2e::TIMEOUT).expect("the upstream tells") {
            end if end == "get /end " => return received,
            request => received.push(request),
        }
    }
}

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// The fields and what follows the head of a POST, and the body that it has. `None`: it is rejected.
fn payloads() -> Vec<(String, Option<&'static str>)> {
    let row = |fields: &str, rest: &str, body| (format!("{fields}\r\n{rest}"), body);
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let te = "Transfer-Encoding: chunked\r\n";
    vec![
        row("Content-Length: 5\r\n", "hello", Some("hello")),
        row(te, chunks, Some("hello")),
        row("Transfer-Encoding: Chunked\r\n", chunks, Some("hello")),
        row(te, "5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\n", Some("hello")),
        row(te, "005\r\nhello\r\n000\r\n\r\n", Some("hello")),
        row(te, &format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len()), Some(HIDDEN)),
        // What frames a request is no field that `Connection` could take away.
        row("Connection: content-length\r\nContent-Length: 5\r\n", "hello", Some("hello")),
        row("Connection: Transfer-Encoding, host\r\nTransfer-Encoding: chunked\r\n", chunks, Some("hello")),
        row(&format!("Content-Length: 5\r\n{te}"), &format!("0\r\n\r\n{HIDDEN}"), None),
        row(&format!("{te}Content-Length: 5\r\n"), &format!("0\r\n\r\n{HIDDEN}"), None),
        row("Content-Length: 5\r\nContent-Length: 6\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length: 5, 6\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length: +5\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length: 0x5\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length: 5 5\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length: -0\r\n", HIDDEN, None),
        row("Content-Length: 99999999999999999999\r\n", HIDDEN, None),
        row("Content-Length : 5\r\n", &format!("hello{HIDDEN}"), None),
        row(" Content-Length: 5\r\n", &format!("hello{HIDDEN}"), None),
        row("X: y\r\n Content-Length: 5\r\n", &format!("hello{HIDDEN}"), None),
        row("Content-Length:\u{b}5\r\n", &format!("hello{HIDDEN}"), None),
        row("X: y\nContent-Length: 5\r\n\r\n", &format!("hello{HIDDEN}"), None),
        row("X: y\rContent-Length: 5\r\n", &format!("hello{HIDDEN}"), None),
        row("Transfer-Encoding : chunked\r\n", &format!("{chunks}{HIDDEN}"), None),
        row("Transfer-Encoding: xchunked\r\n", &format!("{chunks}{HIDDEN}"), None),
        row("Transfer-Encoding: identity\r\n", &format!("{chunks}{HIDDEN}"), None),
        row("Transfer-Encoding: chunked, identity\r\n", &format!("{chunks}{HIDDEN}"), None),
        row(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            &format!("{chunks}{HIDDEN}"),
            None,
        ),
        row("Transfer-Encoding: chunked, chunked\r\n", &format!("{chunks}{HIDDEN}"), None),
        row("Transfer-Encoding: \"chunked\"\r\n", &format!("{chunks}{HIDDEN}"), None),
        row("Transfer-Encoding:\u{b}chunked\r\n", &format!("{chunks}{HIDDEN}"), None),
        row(te, &format!("5 \r\nhellox\r\n0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("5\r\nhelloxx0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("5\nhello\r\n0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("5;\nx\r\nhello\r\n0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("-5\r\nhello\r\n0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("0x5\r\nhello\r\n0\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("fffffffffffffffff\r\n{HIDDEN}"), None),
        row(te, &format!("0\r\nContent-Length: 5\nX: y\r\n\r\n{HIDDEN}"), None),
        row(te, &format!("0\r\n X: y\r\n\r\n{HIDDEN}"), None),
    ]
}

#[test]
fn an_upstream_gets_the_requests_that_have_responses() {
    let mut rows = Rows::new();
    for buffering in ["", "request_buffering = false", "request_buffering = true"] {
        let (server, told) = start(buffering);
        for (payload, body) in payloads() {
            let row = format!("{buffering} {}", e2e::shown(&payload));
            let mut client = server.connect();
            client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\n{payload}"));
            let status = client.read_response().status;
            match body {
                Some(body) => {
                    rows.check(&row, status, 200);
                    rows.check(&row, client.get("/next").status, 200);
                    let expected = vec![format!("post /a {body}"), "get /next ".to_owned()];
                    rows.check(&row, received(&server, &told), expected);
                }
                None => {
                    rows.holds(
                        format!("{row}: {status}"),
                        "it is rejected",
                        matches!(status, 400 | 411 | 413 | 501),
                    );
                    rows.holds(&row, "the connection closes", client.is_closed());
                    rows.check(&row, received(&server, &told), Vec::new());
                }
            }
        }
    }
}

#[test]
fn the_server_of_a_url_gets_the_requests_that_have_responses() {
    let (address, requests) = upstream();
    let server = Site::new()
        .config(&format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n[forward_proxy]\nclients = \"127.0.0.1\"\n\
             destinations = \"127.0.0.1\"\nports = [{}]\nhttp = true\n",
            address.port()
        ))
        .start();
    let url = |path: &str| format!("http://{address}{path}");
    let get = |path: &str| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", url(path));
    let received = || {
        assert_eq!(server.request(get("/end")).status, 200);
        let received = || requests.recv_timeout(e2e::TIMEOUT).expect("the server of the URL has a request");
        std::iter::repeat_with(received).take_while(|request| request != "get /end ").collect::<Vec<_>>()
    };
    let mut rows = Rows::new();
    for (payload, body) in payloads() {
        let row = e2e::shown(payload.as_bytes());
        let mut client = server.connect();
        client.send(format!("POST {} HTTP/1.1\r\nHost: a\r\n{payload}", url("/a")));
        let status = client.read_response().status;
        let next = if body.is_some() { Some(client.request(get("/next")).status) } else { None };
        let expected = body.map(|body| [format!("post /a {body}"), "get /next ".to_owned()]);
        match body {
            Some(_) => rows.check(&row, (status, next), (200, Some(200))),
            None => {
                rows.check(&row, status / 100, 4);
                rows.holds(&row, "the connection closes", client.is_closed());
            }
        }
        rows.check(&row, received(), expected.into_iter().flatten().collect());
    }
}

/// A GET with another value of this pseudo-field.
fn with_pseudo(name: &str, value: &str) -> Http2Request {
    let mut request = Http2Request::new("GET", "/a", &[]);
    let found = request.fields.iter_mut().find(|(own, _)| own == name.as_bytes());
    found.expect("it has the field").1 = value.as_bytes().to_vec();
    request
}

fn with_authority(value: &str) -> Http2Request {
    with_pseudo(":authority", value)
}

fn with_scheme(value: &str) -> Http2Request {
    with_pseudo(":scheme", value)
}

#[test]
fn requests_by_http2_hide_no_others() {
    let mut rows = Rows::new();
    let (server, told) = start("request_buffering = false");
    let post = |fields: &[(&str, &str)], body: &str| {
        let mut request = Http2Request::new("POST", "/a", fields);
        request.body = body.as_bytes().to_vec();
        request
    };
    let hidden = format!("0\r\n\r\n{HIDDEN}");
    let length = hidden.len().to_string();
    let whole = format!("post /a {hidden}");
    let rejected = [
        post(&[("transfer-encoding", "chunked")], &hidden),
        post(&[("content-length", "1")], &hidden),
        post(&[("content-length", "999")], &hidden),
        post(&[("content-length", "5"), ("content-length", "6")], &hidden),
        post(&[("connection", "content-length")], &hidden),
        post(&[("x", "y\r\ntransfer-encoding: chunked")], &hidden),
        post(&[("x: y\r\ntransfer-encoding", "chunked")], &hidden),
        post(&[("x\r\n", "y")], &hidden),
        Http2Request::new("GET / HTTP/1.1\r\nX: y", "/a", &[]),
        Http2Request::new("GET", "/a HTTP/1.1\r\nHost: a\r\n\r\nGET /hidden", &[]),
        Http2Request::new("GET", "/a\r\nX: y", &[]),
        Http2Request::new("GET\r\nX: y", "/a", &[]),
        Http2Request::new("GET /hidden HTTP/1.1\r\n\r\n", "/a", &[]),
        Http2Request::new("", "/a", &[]),
        Http2Request::new("GET", "", &[]),
        Http2Request::new("GET", "hidden", &[]),
        Http2Request::new("GET", "/a\tb", &[]),
        Http2Request::new("GET", "/a#b", &[]),
        post(&[("x", "y\rz")], &hidden),
        post(&[("x", "y\nz: w")], &hidden),
        post(&[("x", "y\0z")], &hidden),
        post(&[("x", " y")], &hidden),
        post(&[("x", "y\t")], &hidden),
        post(&[("x\0y", "z")], &hidden),
        post(&[("x y", "z")], &hidden),
        post(&[("", "z")], &hidden),
        post(&[("X", "y")], &hidden),
        post(&[("te", "trailers, chunked")], &hidden),
        post(&[("te", "gzip")], &hidden),
        post(&[("keep-alive", "1")], &hidden),
        post(&[("proxy-connection", "keep-alive")], &hidden),
        post(&[("upgrade", "websocket")], &hidden),
        post(&[("host", "other")], &hidden),
        post(&[("host", "localhost"), ("host", "localhost")], &hidden),
        post(&[(":path", "/hidden")], &hidden),
        post(&[(":method", "GET")], &hidden),
        post(&[(":authority", "other")], &hidden),
        post(&[(":hidden", "x")], &hidden),
        post(&[("content-length", "+5")], "hello"),
        post(&[("content-length", "5, 5")], "hello"),
        with_authority("localhost\r\nX: y"),
        with_authority("local host"),
        with_authority("user@localhost"),
        with_authority("localhost/hidden"),
        with_authority("localhost:80:80"),
        with_authority(""),
        with_scheme("http://localhost/hidden?"),
        with_scheme("http\r\nX: y"),
        with_scheme(""),
    ];
    for request in [post(&[], &hidden), post(&[("content-length", &length)], &hidden)] {
        let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
        let row = format!("{request:?}");
        rows.check(&row, client.request(&request).map(|response| response.status).ok(), Some(200));
        rows.check(&row, received(&server, &told), vec![whole.clone()]);
    }
    for request in rejected {
        let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
        let row = format!("{request:?}");
        let status = client.request(&request).map(|response| response.status);
        rows.holds(format!("{row}: {status:?}"), "it is rejected", !matches!(status, Ok(200..=399)));
        rows.check(&row, received(&server, &told), Vec::new());
    }
}
