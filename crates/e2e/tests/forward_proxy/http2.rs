//! Clients that use the forward proxy by HTTP/2.

use e2e::http2::{flag, frame};
use taipan_h2::error::HpackError;
use taipan_h2::hpack::{self, Decoder};

use super::*;

#[test]
fn forwards_requests_by_http2() {
    let (port, heads) = origin(hello);
    let server = proxy_with("listen = \"127.0.0.1:0 http2\"\nnames = \"own.test\"", &[port], HTTP);
    let mut client = server.connect_http2();
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
    let mut client = server.connect_http2();
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
        let mut own = server.connect_http2();
        let stream = open(&mut own, &authority);
        rows.check(&authority, status(&mut own, stream).as_str(), expected);
    }
    let mut own = server.connect_http2();
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
    let mut own = plain.connect_http2();
    let stream = open(&mut own, &authority);
    rows.check("without a proxy", status(&mut own, stream).as_str(), "405");
}

/// RFC 9113 §8.5: each side of a tunnel ends by itself.
#[test]
fn a_client_by_http2_goes_on_behind_the_end_of_its_destination() {
    let (received, receives) = channel();
    let ends = destination(move |mut stream| {
        _ = stream.write_all(b"bye");
        _ = stream.shutdown(Shutdown::Write);
        let mut rest = String::new();
        _ = stream.read_to_string(&mut rest);
        _ = received.send(rest);
    });
    let server = proxy_with("listen = \"127.0.0.1:0 http2\"", &[ends], LOOPBACK);
    let mut client = server.connect_http2();
    let mut rows = Rows::new();
    // A client that neither goes on nor ends has the time of `linger`.
    for (how, flags) in [("an end", flag::END_STREAM), ("a pause", 0)] {
        let stream = open(&mut client, &format!("127.0.0.1:{ends}"));
        rows.check(how, status(&mut client, stream).as_str(), "200");
        rows.check(how, content(&mut client, stream), Ok("bye".to_owned()));
        client.send_frame(frame::DATA, 0, stream, b"more ").expect("it is open");
        client.send_frame(frame::DATA, flags, stream, b"and all").expect("it is open");
        let rest = receives.recv_timeout(TIMEOUT).expect("the destination reads to the end");
        rows.check(how, rest.as_str(), "more and all");
    }
}
