//! WebSocket by HTTP/2 (RFC 8441): an extended CONNECT becomes a request with `Upgrade` to the upstream, which is a
//! thread of the test.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::http2::{Http2, Http2Request, flag, frame};
use e2e::upstream::{echo, upstream};
use e2e::{Random, Rows, Server, Site, TIMEOUT, wait_until};
use serde_json::Value;
use sha1::{Digest, Sha1};
use taipan_h2::error::HpackError;
use taipan_h2::hpack::{self, Decoder};

const CANCEL: u32 = 8;

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let pairs = head.lines().filter_map(|line| line.split_once(": "));
    pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

fn switch(head: &str) -> String {
    let key = value(head, "sec-websocket-key").unwrap_or_default();
    let hash = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    let accept = BASE64_STANDARD.encode(hash);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
    )
}

/// Switches, and sends back what comes, until the end.
fn switch_and_echo(mut stream: TcpStream, head: String) -> io::Result<()> {
    stream.write_all(switch(&head).as_bytes())?;
    echo(stream)
}

fn site(upstream: &str, settings: &str) -> Site {
    let (top, route) = settings.split_once("---\n").unwrap_or(("", settings));
    Site::new().file("a.txt", "a file").config(&format!(
        "listen = [\"127.0.0.1:0 http2\"]\nworkers = 1\n{top}\n[[route]]\npath = \"/ws/\"\nproxy = \"{upstream}\"\n\
         {route}\n"
    ))
}

/// Opens a stream with an extended CONNECT.
fn open(client: &mut Http2, path: &str, protocol: &str) -> u32 {
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "of the client"),
        ("origin", "http://localhost"),
    ];
    let fields = pseudo.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    // With a body, so that HEADERS does not end the stream.
    client.open(&Http2Request { fields, body: vec![0], trailers: Vec::new() }).expect("the server reads")
}

/// The fields of the head of the response.
fn head(client: &mut Http2, stream: u32) -> Vec<(String, String)> {
    let frame = client.next_frame_of(stream);
    assert_eq!(
        (frame.kind, frame.flags & flag::END_HEADERS),
        (frame::HEADERS, flag::END_HEADERS),
        "{frame:?}"
    );
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let read = |name: &[u8], value: &[u8]| {
        fields.push((text(name), text(value)));
        Ok::<(), HpackError>(())
    };
    Decoder::new(hpack::TABLE_SIZE, usize::MAX).decode(&frame.payload, read).expect("a field block");
    fields
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// The status of the response to an extended CONNECT.
fn status(server: &Server, path: &str, protocol: &str) -> String {
    let mut client = server.connect_http2();
    let stream = open(&mut client, path, protocol);
    field(&head(&mut client, stream), ":status").unwrap_or_default().to_owned()
}

/// SETTINGS_ENABLE_CONNECT_PROTOCOL of the server.
fn announced(server: &Server) -> bool {
    let frame = server.connect_http2().read_frame().expect("SETTINGS");
    assert_eq!(frame.kind, frame::SETTINGS);
    frame.payload.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1])
}

#[test]
fn is_announced_only_where_a_route_can_use_it() {
    let mut rows = Rows::new();
    for (config, expected) in [
        (site("http://127.0.0.1:1", ""), true),
        (site("http://127.0.0.1:1", "proxy_upgrade = []"), false),
        (Site::new().config("listen = [\"127.0.0.1:0 http2\"]\n"), false),
    ] {
        rows.check("announced", announced(&config.start()), expected);
    }
}

#[test]
fn passes_bytes_within_the_windows_in_both_directions() {
    let (sender, heads) = mpsc::channel();
    let peer = upstream(move |stream, head| {
        sender.send(head.clone()).expect("the test waits");
        switch_and_echo(stream, head)
    });
    let server = site(&peer, "[log]\naccess = \"stdout\"\nformat = \"json\"\n---\n").start();
    let mut client = server.connect_http2();
    assert_eq!(client.get("/a.txt").text(), "a file");
    let stream = open(&mut client, "/ws/chat?x=1", "websocket");
    let response = head(&mut client, stream);
    let request = heads.recv_timeout(TIMEOUT).expect("a request");
    let mut rows = Rows::new();
    rows.holds(&request, "it asks with Upgrade", request.starts_with("GET /ws/chat?x=1 HTTP/1.1\r\n"));
    rows.check("protocol", value(&request, "upgrade"), Some("websocket"));
    rows.check("version", value(&request, "sec-websocket-version"), Some("13"));
    rows.check("key", value(&request, "sec-websocket-key").map(str::len), Some(24));
    rows.check("via", value(&request, "via"), Some("2.0 taipan"));
    rows.check("status", field(&response, ":status"), Some("200"));
    rows.check("subprotocol", field(&response, "sec-websocket-protocol"), Some("chat"));
    for name in ["sec-websocket-accept", "upgrade", "connection", "content-length"] {
        rows.check(name, field(&response, name), None);
    }
    // More than any window of the server.
    let bytes = Random::new(8441).bytes(3 * 1024 * 1024);
    // The window of the connection is by default 256 KiB, as the server has said by now.
    let (mut of_connection, mut of_stream, mut sent, mut received) = (256 * 1024, 65_535, 0, Vec::new());
    while received.len() < bytes.len() {
        let most = 16_384.min(of_connection).min(of_stream).min(bytes.len() - sent);
        if most > 0 {
            client.send_frame(frame::DATA, 0, stream, &bytes[sent..sent + most]).expect("it reads");
            (sent, of_connection, of_stream) = (sent + most, of_connection - most, of_stream - most);
            continue;
        }
        let frame = client.read_frame().expect("another frame");
        let number = || u32::from_be_bytes(frame.payload[..4].try_into().expect("four bytes")) as usize;
        match (frame.kind, frame.stream) {
            (frame::WINDOW_UPDATE, 0) => of_connection += number(),
            (frame::WINDOW_UPDATE, _) => of_stream += number(),
            (frame::DATA, _) => received.extend_from_slice(&frame.payload),
            _ => {}
        }
    }
    rows.holds("3 MiB", "they come back", received == bytes);
    client.send_frame(frame::DATA, flag::END_STREAM, stream, b"end").expect("it reads");
    let mut rest = Vec::new();
    loop {
        let frame = client.next_frame_of(stream);
        rest.extend_from_slice(&frame.payload);
        if frame.flags & flag::END_STREAM != 0 {
            break;
        }
    }
    rows.check("the end", String::from_utf8_lossy(&rest).as_ref(), "end");
    rows.check("the connection goes on", client.get("/a.txt").text().as_str(), "a file");
    let line = server.wait_for_output("/ws/chat", TIMEOUT);
    let line: Value = serde_json::from_str(&line).expect("it is JSON");
    let count = Some(bytes.len() as u64 + 3);
    rows.check("status", line["status"].as_u64(), Some(200));
    rows.check("upstream", line["upstream"][0]["status"].as_u64(), Some(101));
    rows.check("sent", line["upstream"][0]["sent"].as_u64(), count);
    rows.check("received", line["upstream"][0]["received"].as_u64(), count);
}

#[test]
fn only_an_upstream_that_switches_makes_it_a_success() {
    let answers = |answer: &'static str| upstream(move |mut stream, _| stream.write_all(answer.as_bytes()));
    let server = site(&upstream(switch_and_echo), "").start();
    let mut rows = Rows::new();
    for (path, protocol, expected) in [
        ("/ws/x", "websocket", "200"),
        ("/ws/x", "WebSocket", "200"),
        ("/ws/x", "connect-udp", "501"),
        ("/ws/x", "h2c", "501"),
        ("/a.txt", "websocket", "501"),
        ("/missing", "websocket", "404"),
        ("/ws/%2F", "websocket", "400"),
    ] {
        rows.check(format!("{path} {protocol}"), status(&server, path, protocol).as_str(), expected);
    }
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "502"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "502"),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "401"),
        ("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "502"),
        (
            "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: \
             s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            "502",
        ),
        ("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "502"),
        ("", "502"),
    ] {
        let server = site(&answers(answer), "").start();
        rows.check(answer, status(&server, "/ws/x", "websocket").as_str(), expected);
    }
}

#[test]
fn is_never_answered_by_the_cache() {
    let peer = upstream(|mut stream, head| {
        match value(&head, "upgrade") {
        Some(_) => switch_and_echo(stream, head),
        None => stream.write_all(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\nContent-Length: 6\r\n\r\nstored",
        ),
    }
    });
    let server = site(&peer, "response_cache = true").start();
    let mut rows = Rows::new();
    let mut client = server.connect_http2();
    for _ in 0..2 {
        rows.check("a page", client.get("/ws/x").text().as_str(), "stored");
        rows.check("by CONNECT", status(&server, "/ws/x", "websocket").as_str(), "200");
        let stream = open(&mut client, "/ws/x", "websocket");
        rows.check("again", field(&head(&mut client, stream), ":status"), Some("200"));
        client.send_frame(frame::DATA, 0, stream, b"echo").expect("it reads");
        rows.check("content", client.next_frame_of(stream).payload, b"echo".to_vec());
        client.send_frame(frame::RST_STREAM, 0, stream, &CANCEL.to_be_bytes()).expect("it reads");
    }
}

#[test]
fn pings_a_silent_client_and_resets_a_stream_without_an_answer() {
    let settings = "[timeouts]\nwebsocket_ping = \"2s\"\n[log]\naccess = \"stdout\"\n---\n";
    let server = site(&upstream(switch_and_echo), settings).start();
    let mut client = server.connect_http2();
    assert_eq!(client.get("/a.txt").text(), "a file");
    let stream = open(&mut client, "/ws/x", "websocket");
    assert_eq!(field(&head(&mut client, stream), ":status"), Some("200"));
    assert_eq!(received(&mut client, stream, 2), [0x89, 0]);
    let pong = [0x8a, 0x80, 1, 2, 3, 4];
    client.send_frame(frame::DATA, 0, stream, &pong).expect("it reads");
    assert_eq!(received(&mut client, stream, 6), pong, "the upstream has the pong");
    assert_eq!(received(&mut client, stream, 2), [0x89, 0]);
    let reset = client.next_frame_of(stream);
    assert_eq!((reset.kind, reset.payload), (frame::RST_STREAM, CANCEL.to_be_bytes().to_vec()));
    server.wait_for_output("client does not answer a ping", TIMEOUT);
    assert_eq!(client.get("/a.txt").text(), "a file", "the connection goes on");
}

/// RFC 8441 §5: what ends a connection otherwise than in order is CANCEL.
#[test]
fn a_connection_that_the_upstream_resets_or_that_is_idle_is_cancelled() {
    let resets = upstream(|mut stream, head| {
        stream.write_all(switch(&head).as_bytes())?;
        // Unread bytes make a reset of the end.
        stream.peek(&mut [0]).map(drop)
    });
    let idle = "[timeouts]\nupgraded = \"1s\"\n---\n";
    let mut rows = Rows::new();
    for (name, server, sent) in [
        ("reset", site(&resets, "").start(), "unread"),
        ("idle", site(&upstream(switch_and_echo), idle).start(), ""),
    ] {
        let mut client = server.connect_http2();
        let stream = open(&mut client, "/ws/x", "websocket");
        rows.check(name, field(&head(&mut client, stream), ":status"), Some("200"));
        if !sent.is_empty() {
            client.send_frame(frame::DATA, 0, stream, sent.as_bytes()).expect("it reads");
        }
        let frame = client.next_frame_of(stream);
        rows.check(name, (frame.kind, frame.payload), (frame::RST_STREAM, CANCEL.to_be_bytes().to_vec()));
    }
}

/// The next bytes of the stream, at least `length` of them.
fn received(client: &mut Http2, stream: u32, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let frame = client.next_frame_of(stream);
        assert_eq!(frame.kind, frame::DATA, "{frame:?}");
        bytes.extend_from_slice(&frame.payload);
    }
    bytes
}

#[test]
fn lives_through_a_reload_and_an_upgrade_of_the_program() {
    let log = "pid_file = \"pid\"\n[log]\naccess = \"stdout\"\nformat = \"json\"\n---\n";
    let mut server = site(&upstream(switch_and_echo), log).start();
    let mut by_http2 = server.connect_http2();
    let stream = open(&mut by_http2, "/ws/two", "websocket");
    assert_eq!(field(&head(&mut by_http2, stream), ":status"), Some("200"));
    let mut by_http1 = server.connect();
    by_http1.send(
        "GET /ws/one HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(by_http1.read_response_to_head().status, 101);
    let mut echoes = |what: &str| {
        by_http1.send(what);
        let echo = by_http1.read_exactly(what.len()).expect(what);
        assert_eq!(String::from_utf8_lossy(&echo), what, "by HTTP/1.1");
        by_http2.send_frame(frame::DATA, 0, stream, what.as_bytes()).expect("it reads");
        let echo = received(&mut by_http2, stream, what.len());
        assert_eq!(String::from_utf8_lossy(&echo), what, "by HTTP/2");
    };
    echoes("at first");
    server.reload();
    assert_eq!(server.get("/a.txt").text(), "a file");
    echoes("behind the reload");
    let (old, pid_file) = (server.pid(), server.home().join("pid"));
    let output = server.run_command(&["upgrade"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pid = || std::fs::read_to_string(&pid_file).ok().and_then(|pid| pid.trim().parse().ok());
    assert!(wait_until(TIMEOUT, || pid().is_some_and(|pid: u32| pid != old)));
    server.succeeded_by(pid().expect("it has one"));
    assert_eq!(server.get("/a.txt").text(), "a file");
    echoes("behind the upgrade");
    by_http1.half_close();
    by_http2.send_frame(frame::DATA, flag::END_STREAM, stream, b"").expect("it reads");
    let total = ["at first", "behind the reload", "behind the upgrade"].map(str::len).iter().sum::<usize>();
    for (path, status) in [("/ws/one", 101), ("/ws/two", 200)] {
        let line: Value = serde_json::from_str(&server.wait_for_output(path, TIMEOUT)).expect("it is JSON");
        let of_upstream = &line["upstream"][0];
        let found = [&line["status"], &of_upstream["sent"], &of_upstream["received"]].map(Value::as_u64);
        assert_eq!(found, [Some(status), Some(total as u64), Some(total as u64)], "{line}");
    }
}

#[test]
fn limits_their_number_and_how_long_they_are_idle() {
    let (sender, ended) = mpsc::channel();
    let peer = upstream(move |stream, head| {
        let result = switch_and_echo(stream, head);
        sender.send(()).expect("the test waits");
        result
    });
    let settings = "[limits]\nupgraded = 1\n[timeouts]\nupgraded = \"1s\"\n[log]\naccess = \"stdout\"\n---\n";
    let server = site(&peer, settings).start();
    let mut client = server.connect_http2();
    let stream = open(&mut client, "/ws/x", "websocket");
    assert_eq!(field(&head(&mut client, stream), ":status"), Some("200"));
    assert_eq!(status(&server, "/ws/x", "websocket"), "503");
    let frame = client.next_frame_of(stream);
    assert_eq!(frame.kind, frame::RST_STREAM, "{frame:?}");
    server.wait_for_output("upgraded connection idle", TIMEOUT);
    ended.recv_timeout(TIMEOUT).expect("the upstream sees the end");
    // There is room for another, and a reset by the client ends it, too.
    let stream = open(&mut client, "/ws/x", "websocket");
    assert_eq!(field(&head(&mut client, stream), ":status"), Some("200"));
    client.send_frame(frame::RST_STREAM, 0, stream, &CANCEL.to_be_bytes()).expect("it reads");
    ended.recv_timeout(TIMEOUT).expect("the upstream sees the end");
}
