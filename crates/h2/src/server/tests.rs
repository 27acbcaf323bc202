//! Raw frames of a client, and what the connection makes of them, however they are cut.

use super::*;
use crate::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHeader, GOAWAY, HEADER_LEN, HEADERS, PADDED, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, WINDOW_UPDATE,
};
use crate::hpack::{Indexing, write_field};

const LIMITS: Limits = Limits {
    streams: 4,
    list: 1000,
    fields: 10,
    window: 100_000,
    connection_window: 200_000,
    resets: 5,
    frames: 10,
    extended_connect: ExtendedConnect::Unknown,
};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, flags, stream, payload);
    out
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        write_field(&mut out, Indexing::Without, name.as_bytes(), value.as_bytes());
    }
    out
}

const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.example")];

fn request(stream: u32, flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(&[&REQUEST[..], more].concat()))
}

fn get(stream: u32) -> Vec<u8> {
    request(stream, END_STREAM, &[])
}

fn post(stream: u32) -> Vec<u8> {
    request(stream, 0, &[])
}

fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
    frame(SETTINGS, 0, 0, &parameters.iter().flat_map(bytes).collect::<Vec<_>>())
}

fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn rst(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &ErrorCode::CANCEL.0.to_be_bytes())
}

/// A connection with its output, after the preface and an empty SETTINGS frame.
struct Server {
    connection: Connection,
    list: FieldList,
    out: Vec<u8>,
}

impl Server {
    fn new(limits: &Limits) -> Server {
        let mut out = Vec::new();
        let connection = Connection::new(limits, &mut out);
        let mut server = Server { connection, list: FieldList::new(), out };
        assert_eq!(server.receive(&[PREFACE.to_vec(), settings(&[])].concat()), "");
        server.out.clear();
        server
    }

    /// The events of `input`, in words.
    fn receive(&mut self, input: &[u8]) -> String {
        let (mut rest, mut text) = (input, String::new());
        loop {
            let (used, event) = match self.connection.receive(rest, &mut self.list, &mut self.out) {
                Ok((used, event)) => (used, event),
                Err(error) => return text + &format!("[{error:?}]"),
            };
            rest = &rest[used..];
            text += &match event {
                None => break,
                Some(Event::Request { stream, end }) => {
                    format!("[{} request{}]", stream.0, if end { " end" } else { "" })
                }
                Some(Event::Rejected { stream, error, .. }) => format!("[{} rejected {error:?}]", stream.0),
                Some(Event::Malformed { stream, error }) => format!("[{} malformed {error:?}]", stream.0),
                Some(Event::Data { data, end, .. }) => {
                    let data = String::from_utf8_lossy(data);
                    if end { format!("{data}.") } else { data.into_owned() }
                }
                Some(Event::Trailers { stream }) => format!("[{} trailers]", stream.0),
                Some(Event::Reset { stream, code, by }) => format!("[{} reset {} {by:?}]", stream.0, code.0),
                Some(Event::WindowOpened) => "[opened]".into(),
                Some(Event::GoAway { code }) => format!("[goaway {}]", code.0),
            };
        }
        assert!(rest.is_empty(), "all input is consumed");
        text
    }

    /// The frames of the output, in words.
    fn sent(&mut self) -> String {
        let out = std::mem::take(&mut self.out);
        let (mut rest, mut text) = (&out[..], String::new());
        while let Some((header, after)) = rest.split_first_chunk() {
            let FrameHeader { length, kind, flags, stream } = FrameHeader::parse(header);
            let (payload, after) = after.split_at(length);
            let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            let end = if flags & END_STREAM != 0 { "." } else { "" };
            text += &match kind {
                SETTINGS if flags & ACK != 0 => "(ack)".into(),
                SETTINGS => "(settings)".into(),
                PING => format!("(pong {})", payload[7]),
                WINDOW_UPDATE => format!("({stream} window {})", number(0)),
                RST_STREAM => format!("({stream} reset {})", number(0)),
                GOAWAY => format!("(goaway {} {})", number(0), number(4)),
                HEADERS => format!("({stream} headers {length}{end})"),
                CONTINUATION => format!("({stream} continuation {length})"),
                DATA if length > 20 => format!("({stream} data {length}{end})"),
                DATA => format!("({stream} {:?}{end})", String::from_utf8_lossy(payload)),
                kind => format!("({kind})"),
            };
            rest = after;
        }
        assert!(rest.is_empty(), "frames are complete");
        text
    }
}

/// Checks events and output of `frames`, whole and cut in parts of each size up to 40.
fn check(frames: &[Vec<u8>], events: &str, sent: &str) {
    let bytes = frames.concat();
    for size in (1..40).chain([bytes.len()]) {
        let mut server = Server::new(&LIMITS);
        let mut found = String::new();
        for part in bytes.chunks(size) {
            found += &server.receive(part);
            if found.ends_with(")]") || server.connection.is_finished() {
                break;
            }
        }
        assert_eq!(found, events, "in parts of {size}");
        assert_eq!(server.sent(), sent, "in parts of {size}");
    }
}

#[test]
fn receives_requests_and_bodies() {
    check(&[get(1), get(3)], "[1 request end][3 request end]", "");
    check(&[post(1), frame(DATA, 0, 1, b"ab"), frame(DATA, END_STREAM, 1, b"c")], "[1 request]abc.", "");
    check(&[post(1), frame(DATA, END_STREAM, 1, b"")], "[1 request].", "");
}

#[test]
fn sends_responses() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[get(1), get(3)].concat());
    let (one, three) = (StreamId(1), StreamId(3));
    let Server { connection, out, .. } = &mut server;
    connection.headers(one, &[0x88], false, out);
    assert_eq!(connection.data(one, b"abc", true, out), 3);
    connection.headers(three, &[0x8d], true, out);
    assert_eq!(connection.open_streams(), 0);
    assert_eq!(server.sent(), "(1 headers 1)(1 \"abc\".)(3 headers 1.)");
}
