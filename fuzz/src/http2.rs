//! Frames of a client, as the server's side of a connection reads them. The result does not depend on how the bytes are
//! cut. What the server sends is valid, and within the windows of the client.

use std::io::Write;

use taipan_h2::decoder::{self, FrameDecoder};
use taipan_h2::fields::{ExtendedConnect, FieldList};
use taipan_h2::frame::{DEFAULT_WINDOW, MAX_PAYLOAD, PREFACE, SETTINGS, write_frame};
use taipan_h2::server::{Connection, EndStream, Event, Limits, StreamId};
use taipan_http::head::{self, FieldStore};

use crate::cuts::{cuts, number, unescaped};

/// Small, so that short inputs reach them.
const SMALL: Limits = Limits {
    streams: 3,
    list: 300,
    fields: 8,
    window: 1000,
    connection_window: 0,
    resets: 3,
    frames: 20,
    extended_connect: ExtendedConnect::Announced,
};

/// The body of each response.
static BODY: [u8; 50_000] = [b'x'; 50_000];

/// A frame in a line: its type, flags and stream as numbers, and its payload with `%` and two hexadecimal digits for a
/// byte. Other lines are bytes as they are.
pub fn http2(data: &[u8]) {
    let mut input = PREFACE.to_vec();
    write_frame(&mut input, SETTINGS, 0, 0, &[]);
    data.split(|&byte| byte == b'\n').for_each(|line| write_line(line, &mut input));
    let [a, b, c, d] = cuts(&input);
    let parts = [&input[..a], &input[a..b], &input[b..c], &input[c..d], &input[d..]];
    for limits in [SMALL, Limits::default()] {
        let whole = receive([&*input], &limits);
        assert_eq!(receive(input.chunks(1), &limits), whole, "byte by byte");
        assert_eq!(receive(parts, &limits), whole, "cut at {a}, {b}, {c}, {d}");
        check_sent(&whole.sent, &input);
    }
}

fn write_line(line: &[u8], out: &mut Vec<u8>) {
    let mut words = line.splitn(4, |&byte| byte == b' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(kind), Some(flags), Some(stream), Some(payload)) => {
            let payload = unescaped(payload);
            let payload = &payload[..payload.len().min(2 * MAX_PAYLOAD)];
            write_frame(out, number(kind), number(flags), number(stream), payload);
        }
        _ => out.extend(unescaped(line)),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Result {
    /// The events, without the places where data are cut.
    events: Vec<u8>,
    sent: Vec<u8>,
}

/// Responds to each request when it is complete, and to every second one before that.
fn receive<'a>(parts: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Result {
    let mut result = Result::default();
    let (mut list, sent) = (FieldList::new(), &mut result.sent);
    let mut connection = Connection::new(limits, sent);
    for mut part in parts {
        // Bounded: each pass takes part of the input, or is the last.
        loop {
            let event = match connection.receive(part, &mut list, sent) {
                Ok((used, event)) => {
                    part = &part[used..];
                    event
                }
                Err(error) => {
                    write!(result.events, "{error:?}: {}", error.sentence()).unwrap();
                    let length = sent.len();
                    assert_eq!(connection.receive(b"x", &mut list, sent), Err(error), "an error is final");
                    assert_eq!((sent.len(), connection.is_finished()), (length, true));
                    return result;
                }
            };
            let Some(event) = event else { break };
            match event {
                Event::Data { data, .. } => result.events.extend_from_slice(data),
                Event::Request { stream, end: EndStream::Unset } if stream.get() % 4 == 1 => {
                    write!(result.events, "{event:?}").unwrap();
                    connection.headers(stream, &[0x88], EndStream::when(stream.get() % 8 == 1), sent);
                }
                event => write!(result.events, "{event:?}").unwrap(),
            }
            if let Event::Request { .. } = event {
                check_list(&list, limits);
            }
            if let Some(stream) = complete(&event) {
                connection.headers(stream, &[0x88], EndStream::Unset, sent);
                connection.data(stream, &BODY, EndStream::Set, sent);
                connection.set_ready(stream, true);
            }
            if let Event::Data { end: EndStream::Set, .. } | Event::WindowOpened = event
                && let Some(stream) = connection.next_stream()
            {
                connection.data(stream, b"more", EndStream::Unset, sent);
                connection.consumed(stream, u32::MAX, sent);
            }
            assert!(connection.open_streams() <= limits.streams as usize);
        }
    }
    connection.trim();
    result
}

/// The stream whose request has ended.
fn complete(event: &Event) -> Option<StreamId> {
    match *event {
        Event::Request { stream, end: EndStream::Set }
        | Event::Rejected { stream, .. }
        | Event::Data { stream, end: EndStream::Set, .. }
        | Event::Trailers { stream } => Some(stream),
        _ => None,
    }
}

/// A list keeps to its limits, and its head has the same fields.
fn check_list(list: &FieldList, limits: &Limits) {
    let size: usize = list.fields().map(|field| field.name.len() + field.value.len() + 32).sum();
    // Crumbs of a cookie are joined, with two characters between them.
    assert!(size <= limits.list as usize && list.fields().len() <= limits.fields as usize);
    let mut store = FieldStore::new();
    if let Ok(head) = list.head(&mut store, &head::Limits::default()) {
        assert_eq!(Some(head.token.as_bytes()), list.method());
        assert!(!head.authority.is_empty() && head.fields.len() >= list.fields().len());
    }
}

/// The frames are valid, and their data are within the window that the client has given to the connection.
fn check_sent(sent: &[u8], input: &[u8]) {
    let window = u64::from(DEFAULT_WINDOW) + increments(input);
    let (mut frames, mut rest, mut data) = (FrameDecoder::new(1 << 20), sent, 0);
    loop {
        let (used, event) = frames.next(rest).expect("a valid frame");
        rest = &rest[used..];
        match event {
            decoder::Event::NeedMore => break,
            decoder::Event::DataHeader { length, .. } => data += u64::from(length),
            decoder::Event::GoAway { .. } => assert!(rest.is_empty(), "GOAWAY is the last frame"),
            _ => {}
        }
    }
    assert!(!frames.is_within_frame() && data <= window, "{data} bytes in a window of {window}");
}

/// The sum of all increments of the connection's window.
fn increments(input: &[u8]) -> u64 {
    let (mut frames, mut rest, mut sum) = (FrameDecoder::new(1 << 20), &input[PREFACE.len()..], 0);
    while let Ok((used, event)) = frames.next(rest) {
        rest = &rest[used..];
        match event {
            decoder::Event::NeedMore => break,
            decoder::Event::WindowUpdate { stream: 0, increment } => sum += u64::from(increment),
            _ => {}
        }
    }
    sum
}
