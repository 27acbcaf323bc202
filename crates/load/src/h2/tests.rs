//! Tables of frames and their events, however they are cut.

use taipan_h2::frame::{
    CONTINUATION, END_HEADERS, GOAWAY, HEADERS, PADDED, PRIORITY_FLAG, PUSH_PROMISE, RST_STREAM,
    WINDOW_UPDATE,
};

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, flags, stream, payload);
    out
}

/// The events of `bytes` in parts of `size`.
fn read(bytes: &[u8], size: usize) -> String {
    let (mut client, mut out) = (Client::new(), String::new());
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        loop {
            match client.next(rest) {
                Err(NotHttp2) => return out + "!",
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        Event::More => break,
                        Event::Head { stream, status, bytes, .. } => {
                            out += &format!("[{stream}:{status} {bytes}]");
                        }
                        Event::Body { data, .. } => out += &String::from_utf8_lossy(data),
                        Event::End { stream } => out += &format!("({stream})"),
                        Event::Reset { stream, reason } => out += &format!("<{stream} {reason:?}>"),
                        Event::Leaving { last } => out += &format!("bye {last}"),
                    }
                }
            }
        }
    }
    out
}

fn check(frames: &[Vec<u8>], expected: &str) {
    let bytes = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
    for size in 1..=bytes.len() {
        assert_eq!(read(&bytes, size), expected, "in pieces of {size}");
    }
}

#[test]
fn reads_responses() {
    check(
        &[
            frame(HEADERS, END_HEADERS, 1, &[0x88]),
            frame(DATA, 0, 1, b"ab"),
            frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0x8d]),
            frame(DATA, END_STREAM | PADDED, 1, &[2, b'c', 0, 0]),
        ],
        "[1:200 10]ab[3:404 10](3)c(1)",
    );
    check(&[frame(HEADERS, END_HEADERS, 1, &[0x88]), frame(DATA, END_STREAM, 1, b"")], "[1:200 10](1)");
    check(
        &[
            frame(HEADERS, PADDED | PRIORITY_FLAG, 1, &[1, 0, 0, 0, 0, 9, 0x88, 0]),
            frame(CONTINUATION, END_HEADERS, 1, &[]),
        ],
        "[1:200 19]",
    );
    check(
        &[frame(RST_STREAM, 0, 1, &[0, 0, 0, 7]), frame(RST_STREAM, 0, 3, &[0, 0, 0, 2])],
        "<1 Refused><3 Other>",
    );
    check(&[frame(GOAWAY, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0]), frame(0xbe, 0, 0, b"new")], "bye 5");
}

#[test]
fn rejects_frames_that_break_a_rule() {
    check(&[frame(DATA, 0, 0, b"x")], "!");
    check(&[frame(HEADERS, 0, 1, &[0x88]), frame(DATA, 0, 1, b"x")], "!");
    check(&[frame(CONTINUATION, END_HEADERS, 1, &[0x88])], "!");
    check(&[frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])], "!");
    check(&[frame(HEADERS, END_HEADERS, 1, &[0xff])], "!");
    check(&[frame(DATA, PADDED, 1, &[9, 1])], "!");
    assert_eq!(read(b"HTTP/1.1 400 Bad Request\r\n\r\n", 100), "!");
    assert_eq!(read(&frame(PING, 0, 0, &[0; 8]), 100), "!");
}

#[test]
fn sends_a_body_as_the_windows_allow() {
    let mut client = Client::new();
    let target = crate::plan::target::Url::parse("http://a/")
        .unwrap()
        .target_at(crate::plan::Endpoint::Unix("".into()));
    let request = Request {
        url: String::new(),
        target: 0,
        method: "POST".to_owned(),
        path: "/".to_owned(),
        fields: Vec::new(),
        body: vec![7; 70_000],
        weight: 1,
        bytes: Vec::new(),
        head_length: 0,
    };
    let sent = |client: &mut Client| {
        let mut out = Vec::new();
        client.drain_into(&mut out);
        out.iter().filter(|&&byte| byte == 7).count()
    };
    assert_eq!(client.send_request(&request, &target), 1);
    assert!((65_535..65_540).contains(&sent(&mut client)));
    let update = |stream| frame(WINDOW_UPDATE, 0, stream, &10_000u32.to_be_bytes());
    client.next(&frame(SETTINGS, 0, 0, &[])).unwrap();
    for (bytes, at_least) in [(update(0), 0), (update(1), 4465)] {
        client.next(&bytes[..9]).unwrap();
        client.next(&bytes[9..]).unwrap();
        assert!((at_least..at_least + 5).contains(&sent(&mut client)));
    }
}
