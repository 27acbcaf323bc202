//! The fields behind a content, between clients and upstreams by HTTP/1.1 and HTTP/2, in both directions.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use e2e::http2::{Http2, Http2Request};
use e2e::upstream::{async_upstream, upstream};
use e2e::{Response, Rows, Server, Site};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request};

/// The trailers of a response, of which the first two pass.
const TRAILERS: [(&str, &str); 6] = [
    ("x-sum", "5"),
    ("etag", "\"e\""),
    ("set-cookie", "a=b"),
    ("content-type", "text/evil"),
    ("x-route", "of the upstream"),
    ("content-length", "9"),
];

fn lines() -> String {
    TRAILERS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// The rest of a chunked message, as it was sent.
fn read_chunked(stream: &mut impl Read) -> io::Result<String> {
    let mut bytes = b"\r\n".to_vec();
    let is_whole =
        |bytes: &[u8]| bytes.ends_with(b"\r\n\r\n") && bytes.windows(5).any(|part| part == b"\r\n0\r\n");
    while !is_whole(&bytes) {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        bytes.extend(byte);
    }
    Ok(String::from_utf8_lossy(&bytes[2..]).into_owned())
}

/// Responds to one request by the end of its path: with trailers, or with what it has received.
fn respond(mut stream: TcpStream, head: String) -> io::Result<()> {
    let lower = head.to_lowercase();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let content =
        if lower.contains("transfer-encoding: chunked") { read_chunked(&mut stream)? } else { String::new() };
    let mut response = "HTTP/1.1 200 OK\r\nConnection: close\r\n".to_owned();
    let trailers = match path.rsplit('/').next() {
        Some("trailers" | "page") => lines(),
        Some("many") => "a: b\r\n".repeat(65),
        Some("none") => String::new(),
        _ => {
            let text = format!("{head}{content}");
            response += &format!("Content-Length: {}\r\n\r\n{text}", text.len());
            return stream.write_all(response.as_bytes());
        }
    };
    let is_asked = lower.contains("\r\nte: trailers\r\n") && lower.contains("te\r\n");
    if path.ends_with("/page") {
        response += "Content-Type: text/html\r\nCache-Control: max-age=60\r\n";
    }
    response += &format!("X-Asked: {is_asked}\r\nTrailer: X-Sum, Content-Length, ETag\r\n");
    response += "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n";
    stream.write_all((response + &trailers + "\r\n").as_bytes())
}

/// The same by HTTP/2.
async fn respond_by_http2(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let is_asked = request.headers().get("te").is_some_and(|te| te == "trailers");
    let path = request.uri().path().to_owned();
    let fields = |fields: &HeaderMap| {
        fields
            .iter()
            .map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap_or("?")))
            .collect::<String>()
    };
    let mut trailers = HeaderMap::new();
    match path.rsplit('/').next() {
        Some("trailers" | "sized") => {
            // The crate would reject what another upstream may send.
            for (name, value) in TRAILERS {
                trailers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
        }
        Some("many") => {
            for _ in 0..65 {
                trailers.append(HeaderName::from_static("a"), HeaderValue::from_static("b"));
            }
        }
        Some("none") => {}
        _ => {
            let head = fields(request.headers());
            let mut body = request.into_body();
            let mut text = head;
            while let Some(data) = body.data().await {
                let data = data?;
                text += &String::from_utf8_lossy(&data);
                body.flow_control().release_capacity(data.len())?;
            }
            text += "\r\n";
            text += &body.trailers().await?.map(|trailers| fields(&trailers)).unwrap_or_default();
            let response = http::Response::new(());
            return respond.send_response(response, false)?.send_data(Bytes::from(text), true);
        }
    }
    let mut response = http::Response::builder().header("x-asked", is_asked.to_string());
    response = response.header("trailer", "X-Sum, Content-Length, ETag");
    if path.ends_with("/sized") {
        response = response.header("content-length", "5");
    }
    let response = response.body(()).map_err(|_| Reason::INTERNAL_ERROR)?;
    let mut body = respond.send_response(response, false)?;
    body.send_data(Bytes::from_static(b"hello"), trailers.is_empty())?;
    if !trailers.is_empty() {
        body.send_trailers(trailers)?;
    }
    Ok(())
}

fn http2_upstream() -> SocketAddr {
    async_upstream(|stream| async {
        let mut connection = h2::server::handshake(stream).await?;
        while let Some(request) = connection.accept().await {
            let (request, respond) = request?;
            tokio::spawn(respond_by_http2(request, respond));
        }
        Ok::<(), h2::Error>(())
    })
}

fn start() -> Server {
    let (http1, http2) = (upstream(respond), http2_upstream());
    let route = |path: &str, keys: &str| {
        let url = if path.starts_with("/h2/") { "http://two" } else { &http1 };
        format!(
            "[[route]]\npath = \"{path}\"\nproxy = \"{url}\"\nheaders = {{ \"X-Route\" = \"own\" }}\n\
             proxy_headers = {{ \"X-Own\" = \"own\" }}\n{keys}\n"
        )
    };
    let routes = [
        route("/h1/", "request_buffering = false"),
        route("/h1/buffered/", "request_buffering = true"),
        route("/h1/responses/", "request_buffering = false\nproxy_trailers = \"responses\""),
        route("/h1/off/", "request_buffering = false\nproxy_trailers = \"none\""),
        route("/h1/compressed/", "compress_scripts = true\ncompress_from = 0"),
        route("/h1/stored/", "response_cache = true"),
        route("/h1/assembled/", "includes = [\"esi\"]"),
        route("/h2/", ""),
        route("/h2/off/", "proxy_trailers = \"none\""),
    ];
    let application = format!(
        "[[application]]\nname = \"two\"\nprotocol = \"http\"\naddress = \"{http2}\"\nhttp2 = true\n"
    );
    let listen = "listen = \"127.0.0.1:0 http2\"\n".to_owned();
    Site::new().config(&(listen + &routes.concat() + &application)).start()
}

/// The content, the announced names, and the trailers.
fn shown(response: &Response) -> String {
    let trailers: Vec<String> =
        response.trailers.iter().map(|(name, value)| format!("{}={value}", name.to_lowercase())).collect();
    let announced = response.field("trailer").unwrap_or("-");
    let asked = response.field("x-asked").unwrap_or("-");
    format!("{} asked={asked} trailer={announced} [{}]", response.text(), trailers.join(" "))
}

#[test]
fn passes_the_trailers_of_responses_to_clients_that_read_them() {
    let server = start();
    let mut rows = Rows::new();
    let passed = "trailer=X-Sum, ETag [x-sum=5 etag=\"e\"]";
    for (path, asking, silent, http2) in [
        ("/h1/trailers", passed, "trailer=- []", passed),
        ("/h2/trailers", passed, "trailer=- []", passed),
        ("/h2/sized", "trailer=- []", "trailer=- []", "trailer=- []"),
        ("/h1/many", "trailer=X-Sum, ETag []", "trailer=- []", "trailer=X-Sum, ETag []"),
        ("/h1/none", "trailer=X-Sum, ETag []", "trailer=- []", "trailer=X-Sum, ETag []"),
        ("/h1/responses/trailers", passed, "trailer=- []", passed),
        ("/h1/off/trailers", "trailer=- []", "trailer=- []", "trailer=- []"),
        ("/h2/off/trailers", "trailer=- []", "trailer=- []", "trailer=- []"),
    ] {
        let is_asked = !path.contains("/off/");
        let expected = |asked: bool, what: &str| format!("hello asked={asked} {what}");
        let mut client = server.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n");
        client.send(request);
        rows.check(path, shown(&client.read_response()), expected(is_asked, asking));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        rows.check(path, shown(&client.read_response()), expected(false, silent));
        let old =
            client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\nTE: trailers\r\n\r\n")).read_response();
        rows.check(path, (old.text().as_str(), old.trailers.len()), ("hello", 0));

        let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
        let asking = Http2Request::new("GET", path, &[("te", "trailers")]);
        let response = client.request(&asking).unwrap_or_else(|error| panic!("{path}: {error}"));
        rows.check(path, shown(&response), expected(is_asked, http2));
        rows.check(path, shown(&client.get(path)), expected(false, http2));
    }
    // Whether they are announced depends on how soon the content ends.
    let many = Http2::over(server.connect()).expect("it speaks HTTP/2").get("/h2/many");
    rows.check("/h2/many", (many.text().as_str(), many.trailers.len()), ("hello", 0));
}

#[test]
fn passes_the_trailers_of_requests() {
    let server = start();
    let mut rows = Rows::new();
    let sent = [
        ("x-sum", "5"),
        ("authorization", "Basic eDp5"),
        ("x-forwarded-for", "192.0.2.1"),
        ("content-length", "3"),
        ("host", "evil"),
        ("x-own", "of the client"),
        ("x_sum", "6"),
        ("server-timing", "a;dur=1"),
    ];
    let lines: String = sent.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (by_http1, by_http2) = (
        "5\r\nhello\r\n0\r\nx-sum: 5\r\nserver-timing: a;dur=1\r\n\r\n",
        "hello\r\nx-sum: 5\r\nserver-timing: a;dur=1\r\n",
    );
    for (path, expected, announced) in [
        ("/h1/echo", by_http1, true),
        ("/h1/buffered/echo", "\r\n\r\n", false),
        ("/h1/responses/echo", "5\r\nhello\r\n0\r\n\r\n", false),
        ("/h1/off/echo", "5\r\nhello\r\n0\r\n\r\n", false),
        ("/h2/echo", by_http2, true),
        ("/h2/off/echo", "hello\r\n", false),
    ] {
        let mut client = server.connect();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum, Host, X-Own\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n{lines}\r\n"
        );
        let mut check = |client: &str, received: String| {
            let row = format!("{client} {path}: {received:?}");
            let lower = received.to_lowercase();
            rows.holds(&row, "it ends with what passes", received.ends_with(expected));
            rows.check(&row, lower.contains("trailer: x-sum\r\n"), announced);
            rows.check(&row, lower.contains("evil") || lower.contains("of the client"), false);
            rows.check(&row, lower.matches("x-own:").count(), 1);
        };
        client.send(request);
        check("HTTP/1.1", client.read_response().text());
        rows.check(path, client.get("/h1/none").text().as_str(), "hello");

        let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
        let mut request = Http2Request::new("POST", path, &[("trailer", "X-Sum, Host, X-Own")]);
        request.body = b"hello".to_vec();
        request.trailers = sent.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let response = client.request(&request).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut check = |client: &str, received: String| {
            let row = format!("{client} {path}: {received:?}");
            rows.holds(&row, "it ends with what passes", received.ends_with(expected));
        };
        check("HTTP/2", response.text());
        // Behind an empty body, too, however soon they come.
        request.body.clear();
        for _ in 0..if announced { 20 } else { 0 } {
            let response = client.request(&request).unwrap_or_else(|error| panic!("{path}: {error}"));
            let passed = "\r\nx-sum: 5\r\nserver-timing: a;dur=1\r\n";
            rows.holds(response.text(), "it has what passes", response.text().contains(passed));
        }
    }
    // Malformed or too large, they end the request.
    for trailers in ["x sum: 5\r\n".to_owned(), "x: y\r\n".repeat(2000)] {
        let mut client = server.connect();
        client.send(format!(
            "POST /h1/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{trailers}\r\n"
        ));
        let status = client.read_response().status;
        rows.holds(format!("{}: {status}", e2e::shown(&trailers)), "rejected", matches!(status, 400 | 431));
    }
}

/// Where other bytes are sent than the upstream has, nothing follows them.
#[test]
fn announces_no_trailers_that_do_not_follow() {
    let server = start();
    let mut rows = Rows::new();
    let fields = [("te", "trailers"), ("accept-encoding", "gzip")];
    for path in ["/h1/compressed/page", "/h1/stored/page", "/h1/stored/page", "/h1/assembled/page"] {
        let mut http1 = server.connect();
        let lines = "Connection: TE\r\nTE: trailers\r\nAccept-Encoding: gzip\r\n";
        http1.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let mut http2 = Http2::over(server.connect()).expect("it speaks HTTP/2");
        let by_http2 = http2.request(&Http2Request::new("GET", path, &fields)).expect("it responds");
        for response in [http1.read_response(), by_http2] {
            rows.check(path, (response.status, response.field("trailer")), (200, None));
            rows.check(path, response.trailers.len(), 0);
            let is_compressed = response.field("content-encoding") == Some("gzip");
            rows.check(path, is_compressed, path.contains("compressed"));
        }
    }
}
