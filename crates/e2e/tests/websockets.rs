//! WebSocket (RFC 6455) through the proxy, by HTTP/1.1 and by HTTP/2, to two implementations that verify what they get.
//! Each case must end as RFC 6455 says, and as it does on a connection without the proxy. So must the cases of
//! Autobahn's test suite, which has a client of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::http2::{Frame, Http2, Http2Request, flag, frame};
use e2e::{
    BackgroundProcess, Client, Random, Rows, Server, Site, TIMEOUT, free_port, npm_package, output_within,
    python_packages, python_source, tool, wait_until,
};
use sha1::{Digest, Sha1};

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Appends a frame; `first` is its first byte. The mask makes any two neighbours differ.
fn append(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    out.push(first);
    match payload.len() {
        length @ ..126 => out.push(MASKED | length as u8),
        length @ 126..65_536 => {
            out.push(MASKED | 126);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend((length as u64).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

fn frames(frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, payload) in frames {
        append(&mut bytes, *first, payload);
    }
    bytes
}

/// Takes a whole frame from the front: its first byte and its payload. A server does not mask.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (first, short) = (*bytes.first()?, *bytes.get(1)?);
    let (head, length) = match short {
        126 => (4, u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into()),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        short => (2, usize::from(short)),
    };
    let payload = bytes.get(head..head + length)?.to_vec();
    bytes.drain(..head + length);
    Some((first, payload))
}

/// What a frame of the server says, in one line.
fn shown(first: u8, payload: &[u8]) -> String {
    let content = match payload.len() {
        ..=200 => format!("\"{}\"", payload.escape_ascii()),
        length => format!("{length} bytes {:x?}", &Sha1::digest(payload)[..4]),
    };
    match (first, payload) {
        (0x81, _) => format!("text {content}"),
        (0x82, _) => format!("binary {content}"),
        (0x8a, _) => format!("pong {content}"),
        (0x88, []) => "close".to_owned(),
        (0x88, [high, low, ..]) => format!("close {}", u16::from_be_bytes([*high, *low])),
        _ => format!("frame {first:#x} {content}"),
    }
}

/// A client's connection after the handshake.
enum Link {
    Plain(Client),
    Stream { client: Http2, stream: u32, windows: [usize; 2] },
}

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn handshake(address: SocketAddr) -> (Link, Vec<u8>) {
    let mut client = Client::tcp(address);
    client.send(format!(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {KEY}\r\n\r\n"
    ));
    let mut bytes = Vec::new();
    let end = loop {
        bytes.extend(client.read_some().expect("a response"));
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let rest = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let hash = Sha1::new().chain_update(KEY).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains(&BASE64_STANDARD.encode(hash)), "{head}");
    (Link::Plain(client), rest)
}

fn extended_connect(address: SocketAddr) -> Link {
    let mut client = Http2::over(Client::tcp(address)).expect("the server accepts");
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/ws"),
        ("sec-websocket-version", "13"),
    ];
    let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    // With a body, so that HEADERS does not end the stream.
    let stream =
        client.open(&Http2Request { fields, body: vec![0], trailers: Vec::new() }).expect("the server reads");
    let mut link = Link::Stream { client, stream, windows: [65_535; 2] };
    loop {
        let frame = link.next_frame();
        if frame.kind == frame::HEADERS {
            // 200 in the static table (RFC 7541, appendix A).
            assert_eq!(frame.payload.first(), Some(&0x88), "{frame:?}");
            return link;
        }
    }
}

impl Link {
    /// The next frame of HTTP/2; those about windows count.
    fn next_frame(&mut self) -> Frame {
        let Link::Stream { client, windows, .. } = self else { unreachable!("only for streams") };
        let frame = client.read_frame().expect("another frame");
        if frame.kind == frame::WINDOW_UPDATE {
            let number = u32::from_be_bytes(frame.payload[..4].try_into().expect("four bytes"));
            windows[usize::from(frame.stream != 0)] += number as usize;
        }
        frame
    }

    /// Sends `bytes`, at most `piece` at a time. `received` gets what comes meanwhile. False: the server has ended.
    fn send(&mut self, bytes: &[u8], piece: usize, received: &mut Vec<u8>) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self {
                Link::Plain(client) => {
                    let (part, after) = rest.split_at(piece.min(rest.len()));
                    if client.try_send(part).is_err() {
                        return true;
                    }
                    rest = after;
                }
                Link::Stream { client, stream, windows } => {
                    let most = rest.len().min(piece).min(16_384).min(windows[0]).min(windows[1]);
                    if most == 0 {
                        if !self.receive(received) {
                            return false;
                        }
                        continue;
                    }
                    client.send_frame(frame::DATA, 0, *stream, &rest[..most]).expect("the server reads");
                    windows.iter_mut().for_each(|window| *window -= most);
                    rest = &rest[most..];
                }
            }
        }
        true
    }

    /// Waits for more bytes. False: there are none, because the server has ended.
    fn receive(&mut self, received: &mut Vec<u8>) -> bool {
        if let Link::Plain(client) = self {
            let bytes = client.read_some().expect("more or the end");
            received.extend(&bytes);
            return !bytes.is_empty();
        }
        let frame = self.next_frame();
        match frame.kind {
            frame::DATA => received.extend(&frame.payload),
            frame::RST_STREAM | frame::GOAWAY => panic!("the stream was broken off: {frame:?}"),
            _ => {}
        }
        !(frame.kind == frame::DATA && frame.flags & flag::END_STREAM != 0)
    }
}

/// Returns what the server says to the case, up to its end.
fn said(link: &mut Link, mut received: Vec<u8>, case: &Case) -> Vec<String> {
    let mut lines = Vec::new();
    let mut goes_on = link.send(&case.bytes, case.piece, &mut received);
    let mut close = case.close.as_deref();
    loop {
        while let Some((first, payload)) = take_frame(&mut received) {
            lines.push(shown(first, &payload));
        }
        // A server may forget its replies when it gets a close.
        if let Some(bytes) = close.take_if(|_| lines.len() + 2 >= case.expected.len()) {
            goes_on = goes_on && link.send(bytes, WHOLE, &mut received);
        }
        if !goes_on {
            lines.push("end".to_owned());
            return lines;
        }
        goes_on = link.receive(&mut received);
    }
}

/// What the client sends, in pieces of at most so many bytes, and what the server says.
struct Case {
    name: String,
    bytes: Vec<u8>,
    piece: usize,
    /// Sent when the server has said all but the last two of `expected`.
    close: Option<Vec<u8>>,
    expected: Vec<String>,
}

const WHOLE: usize = usize::MAX;

/// What is accepted: the messages and pongs come back, and the close that follows is confirmed.
fn accepted(name: &str, piece: usize, sent: &[(u8, &[u8])], expected: &[(u8, &[u8])]) -> Case {
    let close = Some(frames(&[(FIN | CLOSE, &1000u16.to_be_bytes())]));
    let expected = expected.iter().map(|(first, payload)| shown(*first, payload));
    let expected = expected.chain(["close 1000".to_owned(), "end".to_owned()]).collect();
    Case { name: name.to_owned(), bytes: frames(sent), piece, close, expected }
}

/// What the server answers by a close alone.
fn closed(name: &str, sent: &[(u8, &[u8])], expected: &str) -> Case {
    let expected = vec![expected.to_owned(), "end".to_owned()];
    Case { name: name.to_owned(), bytes: frames(sent), piece: WHOLE, close: None, expected }
}

fn sizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (length, piece) in [
        (0, WHOLE),
        (1, 1),
        (125, WHOLE),
        (126, WHOLE),
        (127, 1),
        (65_535, WHOLE),
        (65_536, WHOLE),
        (65_536, 997),
        (16 << 20, WHOLE),
    ] {
        let rest = "a".repeat(length % 10);
        let text = ["aä€𝄞".repeat(length / 10), rest].concat().into_bytes();
        let bytes = Random::new(length as u64).bytes(length);
        for (kind, payload) in [(TEXT, &text), (BINARY, &bytes)] {
            let name = format!("{length} bytes of opcode {kind}, in pieces of {}", piece.min(length));
            cases.push(accepted(&name, piece, &[(FIN | kind, payload)], &[(FIN | kind, payload)]));
        }
    }
    let large = Random::new(1).bytes(16 << 20);
    let mut parts: Vec<(u8, &[u8])> = large.chunks(64 * 1024).map(|part| (CONTINUATION, part)).collect();
    parts[0].0 = BINARY;
    parts.last_mut().expect("it has parts").0 = FIN;
    cases.push(accepted("16 MiB in fragments of 64 KiB", WHOLE, &parts, &[(FIN | BINARY, &large)]));
    let small = vec![(FIN | TEXT, &b"a message."[..]); 2000];
    cases.push(accepted("2000 small messages", WHOLE, &small, &small));
    cases
}

fn controls() -> Vec<Case> {
    let full = Random::new(2).bytes(125);
    let mut cases = vec![
        accepted("ping", WHOLE, &[(FIN | PING, b"")], &[(FIN | PONG, b"")]),
        accepted("ping with bytes", 1, &[(FIN | PING, b"\0\xff\xfe")], &[(FIN | PONG, b"\0\xff\xfe")]),
        accepted("full ping", WHOLE, &[(FIN | PING, &full)], &[(FIN | PONG, &full)]),
        accepted("pong", WHOLE, &[(FIN | PONG, b"unasked")], &[]),
        accepted("pong and ping", WHOLE, &[(FIN | PONG, b"a"), (FIN | PING, b"b")], &[(FIN | PONG, b"b")]),
        closed("ping of 126 bytes", &[(FIN | PING, &[b'a'; 126])], "close 1002"),
        closed("fragment of a ping", &[(PING, b"a"), (FIN, b"b")], "close 1002"),
    ];
    for bit in [0x40, 0x20, 0x10] {
        cases.push(closed(&format!("reserved bit {bit:#x}"), &[(FIN | bit | TEXT, b"a")], "close 1002"));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(closed(&format!("reserved opcode {opcode}"), &[(FIN | opcode, b"")], "close 1002"));
    }
    let mut unmasked = closed("not masked", &[], "close 1002");
    unmasked.bytes = b"\x81\x01a".to_vec();
    cases.push(unmasked);
    cases
}

fn fragments() -> Vec<Case> {
    let text: (u8, &[u8]) = (FIN | TEXT, "aä€𝄞".as_bytes());
    let by_byte: Vec<(u8, &[u8])> = text.1.chunks(1).map(|byte| (CONTINUATION, byte)).collect();
    let by_byte = [&[(TEXT, &b""[..])], &by_byte[..], &[(FIN, &b""[..])]].concat();
    let pong: (u8, &[u8]) = (FIN | PONG, b"p");
    let abc: (u8, &[u8]) = (FIN | TEXT, b"abc");
    let with_ping: [(u8, &[u8]); 5] =
        [(TEXT, b"a"), (FIN | PING, b"p"), (CONTINUATION, b"b"), (FIN | PING, b"p"), (FIN, b"c")];
    vec![
        accepted("two fragments", WHOLE, &[(TEXT, b"a"), (FIN, b"bc")], &[abc]),
        accepted("empty fragments", WHOLE, &[(TEXT, b""), (0, b""), (FIN, b"")], &[(FIN | TEXT, b"")]),
        accepted("characters in fragments", WHOLE, &by_byte, &[text]),
        accepted("characters in fragments by byte", 1, &by_byte, &[text]),
        accepted("pings between fragments", WHOLE, &with_ping, &[pong, pong, abc]),
        accepted("pings between fragments by byte", 1, &with_ping, &[pong, pong, abc]),
        accepted("pong between", WHOLE, &[(TEXT, b"a"), (FIN | PONG, b""), (FIN, b"bc")], &[abc]),
        closed("a continuation of nothing", &[(FIN, b"a")], "close 1002"),
        closed("an open continuation of nothing", &[(CONTINUATION, b"a")], "close 1002"),
        closed("a text within a text", &[(TEXT, b"a"), (FIN | TEXT, b"b")], "close 1002"),
    ]
}

fn characters() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in
        ["\0", "\u{7f}\u{80}\u{7ff}\u{800}", "\u{d7ff}\u{e000}\u{fffe}\u{ffff}", "\u{10000}\u{10ffff}"]
    {
        let text = [(FIN | TEXT, text.as_bytes())];
        cases.push(accepted("characters at the limits", WHOLE, &text, &text));
    }
    for bytes in [
        &b"\xff"[..],
        b"\x80",
        b"a\xc3",
        b"\xc3(",
        b"\xc0\x80",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ] {
        let name = format!("no UTF-8: {}", bytes.escape_ascii());
        cases.push(closed(&name, &[(FIN | TEXT, bytes)], "close 1007"));
        let (last, before) = bytes.split_last().expect("it has bytes");
        let name = format!("{name}, in fragments");
        cases.push(closed(&name, &[(TEXT, before), (FIN, &[*last])], "close 1007"));
    }
    cases
}

fn closes() -> Vec<Case> {
    let mut cases = vec![
        closed("close", &[(FIN | CLOSE, b"")], "close"),
        closed("close of one byte", &[(FIN | CLOSE, b"\x03")], "close 1002"),
        closed("close with a reason", &[(FIN | CLOSE, b"\x03\xe8the end")], "close 1000"),
        closed("close with a bad reason", &[(FIN | CLOSE, b"\x03\xe8\xff")], "close 1007"),
        closed("close of 126 bytes", &[(FIN | CLOSE, &[3; 126])], "close 1002"),
        closed("a message after the close", &[(FIN | CLOSE, b"\x03\xe8"), (FIN | TEXT, b"a")], "close 1000"),
        closed("fragment of a close", &[(CLOSE, b"\x03\xe8")], "close 1002"),
    ];
    for code in [1000u16, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        cases.push(closed("a code", &[(FIN | CLOSE, &code.to_be_bytes())], &format!("close {code}")));
    }
    for code in [0u16, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535] {
        let name = format!("the code {code}");
        cases.push(closed(&name, &[(FIN | CLOSE, &code.to_be_bytes())], "close 1002"));
    }
    cases
}

/// Starts a program that sends messages back at the port, and the proxy before it.
fn start(command: &mut Command, port: u16) -> (BackgroundProcess, SocketAddr, Server) {
    let peer = BackgroundProcess::start(command.arg(port.to_string()));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listens = wait_until(TIMEOUT * 3, || TcpStream::connect(address).is_ok());
    assert!(listens, "{command:?}\n{}", peer.errors().text());
    let server = Site::new()
        .config(&format!(
            "listen = [\"127.0.0.1:0 http2\"]\nworkers = 1\n[[route]]\npath = \"/ws\"\nproxy = \"http://{address}\"\n"
        ))
        .start();
    (peer, address, server)
}

fn all_cases_pass(mut command: Command) {
    let (_peer, address, server) = start(&mut command, free_port());
    let mut rows = Rows::new();
    for case in [sizes(), controls(), fragments(), characters(), closes()].into_iter().flatten() {
        let links: [(&str, (Link, Vec<u8>)); 3] = [
            ("without the proxy", handshake(address)),
            ("by HTTP/1.1", handshake(server.addr())),
            ("by HTTP/2", (extended_connect(server.addr()), Vec::new())),
        ];
        for (way, (mut link, received)) in links {
            let found = said(&mut link, received, &case);
            rows.check(format!("{}, {way}", case.name), found, case.expected.clone());
        }
    }
}

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

fn node_ws() -> Command {
    let mut node = tool("node");
    node.env("NODE_PATH", npm_package("ws").parent().expect("it is in a folder"));
    node.arg(Path::new(PROGRAMS).join("echo_ws.js"));
    node
}

fn python_websockets() -> Command {
    let mut python = Command::new(python_packages().join("python3"));
    python.arg(Path::new(PROGRAMS).join("echo_websockets.py"));
    python
}

#[test]
fn node_ws_agrees_in_all_cases() {
    all_cases_pass(node_ws());
}

#[test]
fn python_websockets_agrees_in_all_cases() {
    all_cases_pass(python_websockets());
}

/// Autobahn's test suite takes some ten seconds of a processor, of which other tests may have the most.
const MINUTES: Duration = Duration::from_secs(180);

/// The cases of Autobahn's test suite, with its verdicts.
fn autobahn(address: SocketAddr) -> BTreeMap<String, String> {
    let mut client = Command::new(python_packages().join("python3"));
    client.arg(Path::new(PROGRAMS).join("autobahn_cases.py")).arg(python_source("autobahntestsuite"));
    client.arg(format!("ws://{address}/ws")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = output_within(&mut client, MINUTES);
    let (lines, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{lines}{errors}", output.status);
    let rows = lines.lines().map(|line| line.split_once('\t').expect("a name and verdicts"));
    rows.map(|(name, verdicts)| (name.to_owned(), verdicts.to_owned())).collect()
}

/// Each case must have the same verdicts with the proxy as without it, as far as `compared` keeps them. Only the cases
/// `failed` fail, which the server fails without the proxy, too.
fn autobahn_agrees(mut command: Command, failed: &[&str], compared: impl Fn(&str) -> String) {
    let (_peer, address, server) = start(&mut command, free_port());
    let (mut direct, proxied) = thread::scope(|scope| {
        let direct = scope.spawn(|| autobahn(address));
        let proxied = autobahn(server.addr());
        (direct.join().expect("it does not panic"), proxied)
    });
    assert_eq!(direct.len(), 517, "{direct:?}");
    let mut rows = Rows::new();
    for (name, verdicts) in proxied {
        let expected = direct.remove(&name).expect("the cases are the same");
        rows.check(&name, compared(&verdicts), compared(&expected));
        let passes = !["FAILED", "UNCLEAN", "UNIMPLEMENTED"].iter().any(|wrong| verdicts.contains(wrong));
        rows.check(format!("{name} passes: {verdicts}"), passes, !failed.contains(&name.as_str()));
    }
    rows.check("cases without a verdict", direct, BTreeMap::new());
}

#[test]
fn autobahn_agrees_with_node_ws() {
    autobahn_agrees(node_ws(), &[], str::to_owned);
}

#[test]
fn autobahn_agrees_with_python_websockets() {
    // A close within a message is a protocol error for it, and it limits the fragments of a message.
    let failed = ["7.1.5", "9.3.1", "9.3.2", "9.3.3", "9.4.1", "9.4.2", "9.4.3"];
    // Whether it sends a message back before it rejects the next frame is by chance.
    autobahn_agrees(python_websockets(), &failed, |verdicts| verdicts.replace("NON-STRICT", "OK"));
}
