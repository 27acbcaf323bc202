//! Raw frames of a client, and what the connection makes of them, however they are cut.

use super::*;
use crate::error::FrameError;
use crate::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHeader, GOAWAY, HEADER_LEN, HEADERS, MAX_PAYLOAD,
    PADDED, PING, PRIORITY, PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, write_frame,
};
use crate::hpack::{Indexing, write_field, write_indexed};

const LIMITS: Limits = Limits {
    streams: 4,
    list: 1000,
    fields: 10,
    window: 100_000,
    connection_window: 200_000,
    resets: 5,
    frames: 20,
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
        let mut server = Server::before_preface(limits);
        assert_eq!(server.receive(&[PREFACE.to_vec(), settings(&[])].concat()), "");
        server.out.clear();
        server
    }

    fn before_preface(limits: &Limits) -> Server {
        let mut out = Vec::new();
        let connection = Connection::new(limits, &mut out);
        Server { connection, list: FieldList::new(), out }
    }

    /// Sends response heads without a body on streams.
    fn respond(&mut self, streams: &[u32]) {
        for stream in streams {
            self.connection.headers(StreamId(*stream), &[0x88], EndStream::Set, &mut self.out);
        }
    }

    fn data(&mut self, stream: u32, bytes: &[u8], end: EndStream) -> usize {
        self.connection.data(StreamId(stream), bytes, end, &mut self.out)
    }

    fn consumed(&mut self, stream: u32, bytes: u32) {
        self.connection.consumed(StreamId(stream), bytes, &mut self.out);
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
                    format!("[{} request{}]", stream.0, if end.is_set() { " end" } else { "" })
                }
                Some(Event::Rejected { stream, error, .. }) => format!("[{} rejected {error:?}]", stream.0),
                Some(Event::Refused { stream }) => format!("[{} refused]", stream.0),
                Some(Event::Malformed { stream, error }) => format!("[{} malformed {error:?}]", stream.0),
                Some(Event::Data { data, end, .. }) => {
                    let data = String::from_utf8_lossy(data);
                    if end.is_set() { format!("{data}.") } else { data.into_owned() }
                }
                Some(Event::Cut { stream }) => format!("[{} cut]", stream.0),
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
                PING if flags & ACK == 0 => format!("(ping {})", payload[7]),
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
            if server.connection.is_finished() {
                break;
            }
        }
        assert_eq!(found, events, "in parts of {size}");
        assert_eq!(server.sent(), sent, "in parts of {size}");
    }
}

/// As `check`, after stream 1 was opened and has got its response.
fn check_after_1(frames: &[Vec<u8>], events: &str, sent: &str) {
    for size in [1, 7, usize::MAX] {
        let mut server = Server::new(&LIMITS);
        server.receive(&get(1));
        server.respond(&[1]);
        server.out.clear();
        let mut found = String::new();
        for part in frames.concat().chunks(size) {
            found += &server.receive(part);
            if server.connection.is_finished() {
                break;
            }
        }
        assert_eq!((found.as_str(), server.sent().as_str()), (events, sent), "in parts of {size}");
    }
}

#[test]
fn a_client_goes_on_behind_the_end_of_a_tunnel() {
    let data = |flags| frame(DATA, flags, 1, b"ab");
    let half_closed = || {
        let mut server = Server::new(&LIMITS);
        server.receive(&post(1));
        assert_eq!(server.data(1, b"c", EndStream::Unset), 1);
        server.connection.half_close(StreamId(1), &mut server.out);
        assert_eq!((server.receive(&data(0)).as_str(), server.sent().as_str()), ("ab", "(1 \"c\")(1 \"\".)"));
        server
    };
    let mut server = half_closed();
    assert_eq!(server.receive(&data(END_STREAM)), "ab.");
    assert_eq!((server.data(1, b"", EndStream::Set), server.connection.open_streams()), (0, 0));
    assert_eq!(server.sent(), "", "both sides have ended");
    let mut server = half_closed();
    server.data(1, b"", EndStream::Set);
    assert_eq!((server.connection.open_streams(), server.sent().as_str()), (0, "(1 reset 0)"));
    let mut server = half_closed();
    assert_eq!(
        (server.receive(&rst(1)).as_str(), server.connection.open_streams()),
        ("[1 reset 8 Client]", 0)
    );
}

#[test]
fn sends_its_settings_first() {
    let mut server = Server::before_preface(&LIMITS);
    let Some((header, payload)) = server.out.split_first_chunk() else { panic!("a frame") };
    let length = FrameHeader::parse(header).length;
    let found = Settings::parse(&payload[..length]).unwrap();
    let expected = Settings {
        max_concurrent_streams: Some(4),
        max_header_list_size: Some(1000),
        no_rfc7540_priorities: Some(1),
        ..Settings::default()
    };
    assert_eq!(found, expected);
    assert_eq!(server.sent(), "(settings)(0 window 134465)");
    let limits =
        Limits { window: 100, connection_window: 0, extended_connect: ExtendedConnect::Announced, ..LIMITS };
    let mut server = Server::before_preface(&limits);
    let found = Settings::parse(&server.out[HEADER_LEN..]).unwrap();
    assert_eq!((found.initial_window_size, found.enable_connect_protocol), (Some(100), Some(1)));
    assert_eq!(server.sent(), "(settings)", "the connection's window cannot be smaller");
}

#[test]
fn requires_the_preface_and_settings() {
    for (input, error) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], ConnectionError::Preface),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", ConnectionError::Preface),
        (&[PREFACE, &frame(PING, 0, 0, &[0; 8])].concat(), FrameError::NoSettings.into()),
    ] {
        for size in [1, 5, input.len()] {
            let mut server = Server::before_preface(&LIMITS);
            server.out.clear();
            let mut found = String::new();
            for part in input.chunks(size) {
                found = server.receive(part);
            }
            assert_eq!(found, format!("[{error:?}]"));
            assert_eq!(server.sent(), "(goaway 0 1)", "once");
            assert!(server.connection.is_finished());
        }
    }
}

#[test]
fn receives_requests_and_bodies() {
    check(&[get(1), get(3)], "[1 request end][3 request end]", "");
    check(&[post(1), frame(DATA, 0, 1, b"ab"), frame(DATA, END_STREAM, 1, b"c")], "[1 request]abc.", "");
    check(&[post(1), frame(DATA, END_STREAM, 1, b"")], "[1 request].", "");
    check(&[post(1), frame(DATA, END_STREAM | PADDED, 1, &[2, b'a', 0, 0])], "[1 request]a.", "");
    check(&[post(1), frame(DATA, END_STREAM | PADDED, 1, &[2, 0, 0])], "[1 request].", "");
    let half = request(1, END_STREAM, &[]);
    let (first, last) = half[HEADER_LEN..].split_at(5);
    check(
        &[frame(HEADERS, END_STREAM, 1, first), frame(CONTINUATION, END_HEADERS, 1, last)],
        "[1 request end]",
        "",
    );
}

#[test]
fn knows_whether_a_frame_is_incomplete() {
    let mut server = Server::before_preface(&LIMITS);
    let input = [PREFACE.to_vec(), settings(&[]), get(1), frame(DATA, 0, 3, b"x")].concat();
    let complete = [0, PREFACE.len(), PREFACE.len() + HEADER_LEN, PREFACE.len() + HEADER_LEN + get(1).len()];
    for (at, byte) in input[..input.len() - 1].iter().enumerate() {
        assert_eq!(server.connection.is_within_frame(), !complete.contains(&at), "after {at} bytes");
        server.receive(&[*byte]);
        server.connection.trim();
    }
}

#[test]
fn receives_trailers() {
    let trailers = |flags, fields: &[(&str, &str)]| frame(HEADERS, flags | END_HEADERS, 1, &block(fields));
    let data = || frame(DATA, 0, 1, b"ab");
    check(
        &[post(1), data(), trailers(END_STREAM, &[("a", "b")]), get(3)],
        "[1 request]ab[1 trailers][3 request end]",
        "",
    );
    for malformed in [
        trailers(0, &[("a", "b")]),
        trailers(END_STREAM, &[(":method", "GET")]),
        trailers(END_STREAM, &[("A", "b")]),
        trailers(END_STREAM, &[("connection", "close")]),
    ] {
        check(
            &[post(1), data(), malformed, get(3)],
            "[1 request]ab[1 reset 1 Server][3 request end]",
            "(1 reset 1)",
        );
    }
}

#[test]
fn a_malformed_request_resets_its_stream_only() {
    for (fields, error) in [
        (&[("a", "b\n")][..], "Value"),
        (&[("Upper", "b")], "Name"),
        (&[("connection", "close")], "ConnectionSpecific"),
        (&[("te", "gzip")], "Te"),
        (&[(":status", "200")], "UnknownPseudo"),
        (&[("content-length", "1")], "Length"),
    ] {
        check(
            &[request(1, END_STREAM, fields), get(3)],
            &format!("[1 malformed {error}][3 request end]"),
            "(1 reset 1)",
        );
    }
}

#[test]
fn a_body_has_the_length_of_content_length() {
    let with_length = |length| request(1, 0, &[("content-length", length)]);
    let data = |flags, bytes: &[u8]| frame(DATA, flags, 1, bytes);
    let trailers = || frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    check(&[with_length("3"), data(0, b"ab"), data(END_STREAM, b"c")], "[1 request]abc.", "");
    check(&[with_length("2"), data(0, b"ab"), trailers()], "[1 request]ab[1 trailers]", "");
    check(&[with_length("2"), data(0, b"ab"), data(END_STREAM, b"")], "[1 request]ab.", "");
    let reset = "(1 reset 1)";
    check(&[with_length("3"), data(0, b"ab"), trailers()], "[1 request]ab[1 reset 1 Server]", reset);
    check(&[with_length("1"), data(0, b"ab"), get(3)], "[1 request][1 reset 1 Server][3 request end]", reset);
    check(&[with_length("3"), data(END_STREAM, b"")], "[1 request][1 reset 1 Server]", reset);
    check(&[with_length("3"), data(END_STREAM, b"ab")], "[1 request][1 reset 1 Server]", reset);
    // The request is rejected when its head is made, so the length does not count here.
    check(&[with_length("x"), data(END_STREAM, b"ab")], "[1 request]ab.", "");
}

#[test]
fn a_list_over_a_limit_is_rejected_by_a_response() {
    let long = "a".repeat(1000);
    let rest = "[3 request end]";
    check(&[request(1, END_STREAM, &[("x", &long)]), get(3)], &format!("[1 rejected TooLarge]{rest}"), "");
    let many = [("a", "b"); 11];
    check(&[request(1, END_STREAM, &many), get(3)], &format!("[1 rejected TooManyFields]{rest}"), "");
    let crumbs = [("cookie", "b"); 11];
    check(&[request(1, END_STREAM, &crumbs), get(3)], &format!("[1 request end]{rest}"), "");
    let mut server = Server::new(&LIMITS);
    server.receive(&request(1, END_STREAM, &many));
    server.respond(&[1]);
    assert_eq!(server.sent(), "(1 headers 1.)");
    assert_eq!(server.list.path(), Some(&b"/"[..]), "for the log");
}

/// RFC 9113 §5.1.
/// A request with these fields, in frames that are full.
fn long_request(stream: u32, fields: &[u8]) -> Vec<u8> {
    let block = [block(&REQUEST), fields.to_vec()].concat();
    let last = block.len().div_ceil(MAX_PAYLOAD) - 1;
    let part = |(index, part)| {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let ends = if index == 0 { END_STREAM } else { 0 } | if index == last { END_HEADERS } else { 0 };
        frame(kind, ends, stream, part)
    };
    block.chunks(MAX_PAYLOAD).enumerate().flat_map(part).collect()
}

#[test]
fn a_block_over_its_limit_is_rejected_by_a_response_and_leaves_the_table_valid() {
    let mut fields = Vec::new();
    write_field(&mut fields, Indexing::Incremental, b"first", b"1");
    let inserted = fields.clone();
    write_field(&mut fields, Indexing::Without, b"long", &[b'a'; 100_000]);
    write_field(&mut fields, Indexing::Incremental, b"last", b"2");
    let mut empties = fields.clone();
    write_field(&mut empties, Indexing::Incremental, &[b'b'; 70_000], &[b'c'; 50_000]);
    let mut many = Vec::new();
    (0..5000).for_each(|_| write_field(&mut many, Indexing::Incremental, b"name", b"value"));
    let by_index = |stream, index| {
        let mut fields = block(&REQUEST);
        write_indexed(&mut fields, index);
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)
    };
    let rejected = "[1 rejected TooLarge]";
    for (fields, index, field) in [
        (&fields, 63, Some(("first", "1"))),
        (&fields, 62, Some(("last", "2"))),
        (&empties, 62, None),
        (&many, 62 + 4096 / 41 - 1, Some(("name", "value"))),
        (&many, 62 + 4096 / 41, None),
    ] {
        for size in [usize::MAX, 16_393, 5000, 1] {
            let mut server = Server::new(&Limits::default());
            let input = long_request(1, fields);
            let events: String =
                input.chunks(size.min(input.len())).map(|part| server.receive(part)).collect();
            assert_eq!(events, rejected, "in parts of {size}");
            assert!(server.connection.frames.block().len() <= 2 * MIN_BLOCK as usize);
            let expected = if field.is_some() { "[3 request end]" } else { "[Compression]" };
            assert_eq!(server.receive(&by_index(3, index)), expected);
            if let Some((name, value)) = field {
                assert_eq!(server.list.value(name), Some(value.as_bytes()));
            }
        }
    }
    let mut server = Server::new(&Limits::default());
    let cut = [inserted, vec![b'a'; 0], vec![0, 0x7f, 0xff, 0xff, 0x3f]].concat();
    let cut = [cut, vec![b'a'; 100_000]].concat();
    assert_eq!(server.receive(&long_request(1, &cut)), "[Compression]", "a name without its end");
    let mut server = Server::new(&Limits::default());
    write_field(&mut fields, Indexing::Without, b"longer", &[b'a'; 200_000]);
    assert_eq!(server.receive(&long_request(1, &fields)), "[Frame(BlockTooLarge)]");
}

#[test]
fn an_idle_stream_has_no_frames_but_headers_and_priority() {
    for early in
        [frame(DATA, 0, 5, b"x"), rst(5), window(5, 1), window(6, 1), rst(2), frame(DATA, 0, 2, b"x")]
    {
        check_after_1(&[early], "[Idle]", "(goaway 1 1)");
    }
    check_after_1(&[frame(PRIORITY, 0, 5, &[0; 5])], "", "");
    for even in [frame(DATA, 0, 2, b"x"), rst(2), window(2, 1)] {
        check_after_1(&[get(5), even], "[5 request end][Idle]", "(goaway 5 1)");
    }
}

#[test]
fn stream_numbers_are_odd_and_increase() {
    check(&[get(2)], "[StreamNumber]", "(goaway 0 1)");
    check(&[get(5), get(3)], "[5 request end][StreamNumber]", "(goaway 5 1)");
}

#[test]
fn the_client_ends_a_stream_once() {
    let trailers = || frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    for late in [frame(DATA, 0, 1, b"x"), frame(DATA, END_STREAM, 1, b""), trailers()] {
        check(&[get(1), late], "[1 request end][1 reset 5 Server]", "(1 reset 5)");
    }
    check(&[get(1), window(1, 5), frame(PRIORITY, 0, 1, &[0; 5])], "[1 request end]", "");
}

#[test]
fn a_closed_stream_takes_no_requests_and_no_data() {
    check_after_1(&[get(1)], "[Closed]", "(goaway 1 5)");
    check_after_1(&[frame(DATA, 0, 1, b"x"), get(3)], "[3 request end]", "(1 reset 5)");
    check_after_1(&[window(1, 1), rst(1), frame(PRIORITY, 0, 1, &[0; 5]), get(3)], "[3 request end]", "");
    check(&[post(1), rst(1), frame(DATA, 0, 1, b"x")], "[1 request][1 reset 8 Client]", "(1 reset 5)");
    check(&[post(1), rst(1), get(1)], "[1 request][1 reset 8 Client][Closed]", "(goaway 1 5)");
}

/// The client sends these frames before it knows that the server has reset the stream.
#[test]
fn what_follows_a_reset_by_the_server_is_ignored() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    server.connection.reset(StreamId(1), ErrorCode::CANCEL, &mut server.out);
    assert_eq!(server.sent(), "(1 reset 8)");
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    assert_eq!(server.receive(&[frame(DATA, 0, 1, b"ab"), window(1, 1), trailers, rst(1)].concat()), "");
    assert_eq!(server.sent(), "");
    let large = frame(DATA, 0, 1, &[0; MAX_PAYLOAD]);
    assert_eq!(server.receive(&large.repeat(7)), "");
    assert_eq!(server.sent(), "(0 window 114690)", "ignored data return to the connection's window");
}

#[test]
fn trailers_behind_a_reset_have_a_budget() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    server.connection.reset(StreamId(1), ErrorCode::CANCEL, &mut server.out);
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    assert_eq!(server.receive(&trailers), "");
    assert_eq!(server.receive(&trailers.repeat(LIMITS.frames as usize)), "[Flood]");
}

#[test]
fn what_follows_a_reset_of_many_streams_is_ignored_on_all() {
    let mut server = Server::new(&Limits { streams: 100, frames: 100, ..LIMITS });
    let streams: Vec<u32> = (1..200).step_by(2).collect();
    for stream in &streams {
        server.receive(&post(*stream));
        server.respond(&[*stream]);
    }
    for stream in (201..300).step_by(2) {
        server.receive(&get(stream));
        server.respond(&[stream]);
    }
    server.sent();
    let trailers = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("a", "b")]));
    for stream in streams {
        assert_eq!(
            server.receive(&[frame(DATA, 0, stream, b"abc").repeat(4), trailers(stream)].concat()),
            ""
        );
    }
    assert_eq!(server.sent(), "");
    assert_eq!(server.receive(&get(301)), "[301 request end]");
}

#[test]
fn a_response_before_the_end_of_its_request_is_read_before_the_reset() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[post(1), post(3), post(5), post(7)].concat());
    server.respond(&[1]);
    server.receive(&post(9));
    assert_eq!(server.data(3, b"abc", EndStream::Set), 3);
    assert_eq!(server.sent(), "(1 headers 1.)(ping 1)(3 \"abc\".)(ping 3)");
    server.respond(&[5, 7, 9]);
    assert_eq!(server.sent(), "(5 headers 1.)(ping 5)(7 headers 1.)(ping 7)(9 headers 1.)(ping 9)");
    assert_eq!(server.connection.open_streams(), 0);
    let data = |stream, flags, bytes| frame(DATA, flags, stream, &vec![0; bytes]);
    assert_eq!(server.receive(&data(1, 0, 16_383).repeat(4)), "");
    assert_eq!(server.sent(), "", "it may not have read the response");
    let trailers = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("a", "b")]));
    assert_eq!(server.receive(&[data(5, END_STREAM, 2), trailers(3), rst(7)].concat()), "");
    assert_eq!(server.sent(), "", "they have ended");
    let acknowledgement = |stream: u32| frame(PING, ACK, 0, &[b"resp", &stream.to_be_bytes()[..]].concat());
    let all: Vec<u8> = [3, 5, 7, 9, 9, 11].into_iter().flat_map(acknowledgement).collect();
    assert_eq!(server.receive(&all), "");
    assert_eq!(server.sent(), "(9 reset 0)");
    assert_eq!(server.receive(&[acknowledgement(1), data(1, 0, 4), trailers(9)].concat()), "");
    assert_eq!(server.sent(), "(1 reset 0)", "the client does not know of the reset");
}

#[test]
fn the_trailers_of_a_request_that_has_its_response_end_it_whatever_streams_came_later() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    server.respond(&[1]);
    for stream in (3..50).step_by(2) {
        server.receive(&get(stream));
        server.respond(&[stream]);
    }
    server.sent();
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    assert_eq!(server.receive(&[trailers, get(51)].concat()), "[51 request end]");
}

#[test]
fn the_end_of_a_frame_in_which_the_response_was_complete_is_that_of_the_request() {
    let mut server = Server::new(&LIMITS);
    let data = frame(DATA, END_STREAM, 1, b"abcd");
    server.receive(&[post(1), data[..HEADER_LEN + 2].to_vec()].concat());
    server.respond(&[1]);
    server.sent();
    server.receive(&data[HEADER_LEN + 2..]);
    server.receive(&frame(PING, ACK, 0, b"resp\0\0\0\x01"));
    assert_eq!(server.sent(), "", "the stream is closed");
}

#[test]
fn what_follows_a_response_without_an_error_is_read_up_to_the_length() {
    let mut server = Server::new(&LIMITS);
    let sized = |stream, length| request(stream, 0, &[("content-length", length)]);
    let data = |stream, flags, bytes| frame(DATA, flags, stream, &vec![0; bytes]);
    server.receive(&[sized(1, "100000"), data(1, 0, 16_000), data(1, 0, 16_000), sized(3, "10")].concat());
    for stream in [1, 3] {
        let out = &mut server.out;
        server.connection.response(StreamId(stream), &[0x88], EndStream::Set, Rest::Read, out);
    }
    // All of the rest fits, beyond the 33535 bytes that the client may send already.
    assert_eq!(server.sent(), "(1 headers 1.)(1 window 34465)(3 headers 1.)");
    server.receive(&[data(1, 0, 16_000).repeat(4), data(1, END_STREAM, 4000), data(3, 0, 11)].concat());
    assert_eq!(server.sent(), "(0 window 100000)(3 reset 0)", "more than it has announced");
}

#[test]
fn a_request_that_is_cut_behind_the_beginning_of_its_response_ends_there() {
    let sized = |stream| request(stream, 0, &[("content-length", "5")]);
    let mut server = Server::new(&LIMITS);
    server.receive(&[sized(1), sized(3), sized(5)].concat());
    for stream in [1, 3] {
        let out = &mut server.out;
        server.connection.response(StreamId(stream), &[0x88], EndStream::Unset, Rest::Unneeded, out);
    }
    server.sent();
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[("a", "b")]));
    let cut = [frame(DATA, END_STREAM, 1, b"abc"), trailers, frame(DATA, END_STREAM, 5, b"abc")].concat();
    assert_eq!(server.receive(&cut), "[1 cut][3 cut][5 reset 1 Server]");
    assert_eq!(server.sent(), "(5 reset 1)");
    assert_eq!(server.data(1, b"more", EndStream::Set), 4);
    assert_eq!(server.sent(), "(1 \"more\".)");
    assert_eq!(server.receive(&frame(DATA, 0, 3, b"x")), "[3 reset 5 Server]");
}

#[test]
fn of_many_requests_that_have_a_response_before_their_end_the_oldest_are_reset() {
    let mut server = Server::new(&LIMITS);
    for stream in (1..=33).step_by(2) {
        server.receive(&post(stream));
        server.respond(&[stream]);
    }
    assert!(server.sent().ends_with("(33 headers 1.)(ping 33)(1 reset 0)"));
    assert_eq!(server.receive(&frame(DATA, 0, 1, b"ab")), "");
    assert_eq!(server.sent(), "", "the client does not know of the reset");
}

#[test]
fn streams_above_the_limit_are_refused() {
    check(
        &[get(1), get(3), get(5), get(7), get(9), post(11), frame(DATA, END_STREAM, 11, b"x")],
        "[1 request end][3 request end][5 request end][7 request end][9 refused][11 refused]",
        "(9 reset 7)(11 reset 7)",
    );
    let mut server = Server::new(&LIMITS);
    server.receive(&[get(1), get(3), get(5), get(7)].concat());
    server.respond(&[3]);
    assert_eq!(server.receive(&get(9)), "[9 request end]");
}

#[test]
fn a_block_is_decoded_even_if_its_stream_is_refused() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[get(1), get(3), get(5), get(7)].concat());
    let mut with_entry = block(&REQUEST);
    write_field(&mut with_entry, Indexing::Incremental, b"x-a", b"b");
    server.receive(&frame(HEADERS, END_HEADERS | END_STREAM, 9, &with_entry));
    server.respond(&[1]);
    let mut indexed = block(&REQUEST);
    indexed.push(0x80 | 62);
    assert_eq!(server.receive(&frame(HEADERS, END_HEADERS | END_STREAM, 11, &indexed)), "[11 request end]");
    assert_eq!(server.list.value("x-a"), Some(&b"b"[..]));
}

#[test]
fn a_block_that_cannot_be_decoded_ends_the_connection() {
    check(&[frame(HEADERS, END_HEADERS, 1, &[0x80 | 62])], "[Compression]", "(goaway 0 9)");
    check(&[frame(CONTINUATION, END_HEADERS, 1, &[])], "[Frame(Continuation)]", "(goaway 0 1)");
}

#[test]
fn acknowledges_settings_and_pings() {
    check(
        &[settings(&[(3, 5)]), frame(PING, 0, 0, &[7; 8]), frame(PING, ACK, 0, &[7; 8])],
        "",
        "(ack)(pong 7)",
    );
    check(&[settings(&[(4, 1 << 31)])], "[Frame(InitialWindow)]", "(goaway 0 3)");
    check(&[frame(0xbe, 0xff, 77, b"new")], "", "");
    check(&[frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 2]), get(1)], "[goaway 2][1 request end]", "");
}

#[test]
fn the_first_block_after_a_smaller_table_empties_it() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[settings(&[(1, 100)]), settings(&[(1, 4096)]), get(1), get(3)].concat());
    server.out.clear();
    server.respond(&[1]);
    assert_eq!(server.out[HEADER_LEN..], [0x20, 0x88]);
    server.out.clear();
    server.respond(&[3]);
    assert_eq!(server.out[HEADER_LEN..], [0x88]);
}

#[test]
fn received_data_return_to_the_windows_when_they_are_consumed() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    let data = |length| frame(DATA, 0, 1, &vec![b'x'; length]);
    server.receive(&[data(MAX_PAYLOAD), data(MAX_PAYLOAD)].concat());
    assert_eq!(server.sent(), "");
    server.consumed(1, 32_767);
    assert_eq!(server.sent(), "");
    server.consumed(1, 1);
    assert_eq!(server.sent(), "(1 window 67233)", "half is used, and the window grows up to the limit");
    server.receive(&data(MAX_PAYLOAD).repeat(6));
    let rest = 100_000 - 6 * MAX_PAYLOAD;
    assert_eq!(server.receive(&data(rest + 1)), "[1 reset 3 Server]");
    // Of the connection's window, the reset returns what was held.
    assert_eq!(server.sent(), "(1 reset 3)(0 window 132769)");
}

#[test]
fn padding_is_consumed_at_once() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    let mut payload = vec![0; 200];
    payload[0] = 198;
    let padded = frame(DATA, PADDED, 1, &payload);
    for _ in 0..164 {
        assert_eq!(server.receive(&padded), "\0");
    }
    assert_eq!(server.sent(), "");
    server.receive(&padded);
    assert_eq!(server.sent(), "(1 window 32835)", "165 bytes of data are still held");
}

#[test]
fn the_client_keeps_to_the_window_of_the_connection() {
    let mut server = Server::new(&Limits { connection_window: 0, ..LIMITS });
    server.receive(&[post(1), post(3)].concat());
    let data = |stream, length| frame(DATA, 0, stream, &vec![b'x'; length]);
    server.receive(&[data(1, MAX_PAYLOAD), data(1, MAX_PAYLOAD), data(3, MAX_PAYLOAD)].concat());
    server.receive(&data(3, MAX_PAYLOAD - 1));
    assert_eq!(server.receive(&data(3, 1)), "[Window]");
    assert_eq!(server.sent(), "(goaway 3 3)");
}

/// RFC 9113 §6.5.3: other frames do no harm, so the error is that of the next stream.
#[test]
fn a_client_that_never_acknowledges_settings_opens_no_more_streams() {
    let ack = frame(SETTINGS, ACK, 0, &[]);
    for (acknowledges, seconds, expected) in
        [(false, 30, "[3 request end]"), (false, 31, "[SettingsTimeout]"), (true, 31, "[3 request end]")]
    {
        let mut server = Server::new(&LIMITS);
        server.connection.set_time(1000);
        assert_eq!(server.receive(&get(1)), "[1 request end]");
        server.connection.set_time(1000 + seconds);
        if acknowledges {
            assert_eq!(server.receive(&ack), "");
        }
        server.connection.set_time(1000 + seconds);
        assert_eq!(server.receive(&get(3)), expected, "{seconds} {acknowledges}");
    }
}

/// Until the client knows the settings, it may send as much as by default (RFC 9113 §6.9.2).
#[test]
fn a_smaller_window_counts_when_the_client_has_acknowledged_it() {
    let limits = Limits { window: 100, ..LIMITS };
    let mut server = Server::new(&limits);
    server.receive(&[post(1), frame(DATA, 0, 1, &[b'x'; 300])].concat());
    let ack = frame(SETTINGS, ACK, 0, &[]);
    assert_eq!(server.receive(&[ack, post(3)].concat()), "[3 request]");
    assert_eq!(server.receive(&frame(DATA, 0, 3, &[b'x'; 101])), "[3 reset 3 Server]");
    assert_eq!(server.receive(&frame(DATA, 0, 1, b"x")), "[1 reset 3 Server]");
    let mut server = Server::new(&limits);
    let ack = frame(SETTINGS, ACK, 0, &[]);
    server.receive(&[post(1), frame(DATA, 0, 1, &[b'x'; 300]), ack].concat());
    server.consumed(1, 300);
    assert_eq!(server.sent(), "(1 window 300)");
    let hundred = frame(DATA, 0, 1, &[b'x'; 100]);
    assert_eq!(server.receive(&hundred), "x".repeat(100));
    assert_eq!(server.receive(&frame(DATA, 0, 1, b"x")), "[1 reset 3 Server]");
}

#[test]
fn a_response_waits_for_the_windows() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[settings(&[(4, 5)]), get(1)].concat());
    server.out.clear();
    let one = StreamId(1);
    assert_eq!(server.connection.sendable(one), 5);
    assert_eq!(server.data(1, b"abcdefgh", EndStream::Set), 5);
    assert_eq!(server.sent(), "(1 \"abcde\")");
    assert_eq!(server.data(1, b"fgh", EndStream::Set), 0);
    assert_eq!(server.sent(), "");
    server.connection.set_ready(one, true);
    assert_eq!(server.connection.next_stream(), None);
    assert_eq!(server.receive(&window(1, 2)), "[opened]");
    assert_eq!(server.connection.next_stream(), Some(one));
    assert_eq!(server.data(1, b"fgh", EndStream::Set), 2);
    assert_eq!(server.receive(&window(1, 1)), "[opened]");
    assert_eq!(server.data(1, b"h", EndStream::Set), 1);
    assert_eq!(server.sent(), "(1 \"fg\")(1 \"h\".)");
    assert_eq!(server.receive(&window(1, 1)), "", "it has ended");
}

#[test]
fn a_response_waits_for_the_window_of_the_connection() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[settings(&[(4, 1 << 20)]), get(1), get(3)].concat());
    server.out.clear();
    assert_eq!(server.data(1, &vec![b'x'; 70_000], EndStream::Set), 65_535);
    assert_eq!(server.sent(), "(1 data 16384)(1 data 16384)(1 data 16384)(1 data 16383)");
    assert_eq!(server.data(3, b"abc", EndStream::Set), 0);
    server.connection.set_ready(StreamId(3), true);
    assert_eq!(server.connection.next_stream(), None);
    assert_eq!(server.receive(&window(0, 2)), "[opened]");
    assert_eq!(server.data(3, b"abc", EndStream::Set), 2);
    assert_eq!(server.data(3, b"", EndStream::Set), 0, "the end needs no window");
    assert_eq!(server.sent(), "(3 \"ab\")(3 \"\".)");
}

/// RFC 9113 §6.9.2.
#[test]
fn a_change_of_the_initial_window_changes_open_streams() {
    let mut server = Server::new(&LIMITS);
    server.receive(&[settings(&[(4, 10)]), get(1)].concat());
    server.data(1, &[b'x'; 8], EndStream::Unset);
    server.connection.set_ready(StreamId(1), true);
    assert_eq!(server.receive(&settings(&[(4, 3)])), "");
    assert_eq!(server.connection.sendable(StreamId(1)), 0, "the window is -5");
    assert_eq!(server.receive(&window(1, 5)), "");
    assert_eq!(server.connection.sendable(StreamId(1)), 0);
    assert_eq!(server.receive(&settings(&[(4, 4)])), "[opened]");
    assert_eq!(server.connection.sendable(StreamId(1)), 1);
    assert_eq!(server.receive(&settings(&[(4, MAX_WINDOW)])), "");
    assert_eq!(server.receive(&window(1, 4)), "[1 reset 3 Server]");
}

#[test]
fn no_window_exceeds_its_maximum() {
    check(&[get(1), window(1, MAX_WINDOW)], "[1 request end][1 reset 3 Server]", "(1 reset 3)");
    check(&[get(1), window(0, MAX_WINDOW)], "[1 request end][WindowOverflow]", "(goaway 1 3)");
    check(
        &[get(1), window(1, 1000), settings(&[(4, MAX_WINDOW)])],
        "[1 request end][WindowOverflow]",
        "(ack)(goaway 1 3)",
    );
    check(&[get(1), window(1, 0)], "[1 request end][Frame(Increment)]", "(goaway 1 1)");
    check(&[window(0, 0)], "[Frame(Increment)]", "(goaway 0 1)");
}

#[test]
fn a_large_head_is_split() {
    let mut server = Server::new(&LIMITS);
    server.receive(&get(1));
    server.connection.headers(StreamId(1), &vec![0; MAX_PAYLOAD + 1], EndStream::Set, &mut server.out);
    assert_eq!(server.sent(), "(1 headers 16384.)(1 continuation 1)");
}

#[test]
fn a_source_may_append_less_than_allowed() {
    let mut server = Server::new(&LIMITS);
    server.receive(&get(1));
    let Server { connection, out, .. } = &mut server;
    let sent =
        connection.data_from(StreamId(1), 5, EndStream::Set, out, |out, _| out.extend_from_slice(b"abc"));
    assert_eq!(sent, 3);
    assert_eq!(connection.data_from(StreamId(1), 2, EndStream::Set, out, |_, _| {}), 0);
    assert_eq!(server.sent(), "(1 \"abc\")");
}

/// Streams of `requests`, with their value of `priority`, in the order in which they send parts of their responses.
fn turns(requests: &[(u32, &str)], updates: &[Vec<u8>], turns: usize) -> Vec<u32> {
    let mut server = Server::new(&LIMITS);
    for (stream, priority) in requests {
        server.receive(&request(*stream, END_STREAM, &[("priority", priority)]));
        server.connection.set_ready(StreamId(*stream), true);
    }
    assert_eq!(server.receive(&updates.concat()), "");
    (0..turns).map(|_| server.connection.next_stream().map_or(0, StreamId::get)).collect()
}

/// RFC 9218 §10.
#[test]
fn urgent_streams_send_first_and_incremental_ones_take_turns() {
    assert_eq!(turns(&[(1, ""), (3, ""), (5, "u=1")], &[], 3), [5, 5, 5]);
    assert_eq!(turns(&[(1, ""), (3, "")], &[], 3), [1, 1, 1], "in order");
    assert_eq!(turns(&[(1, "i"), (3, "i"), (5, "i")], &[], 6), [1, 3, 5, 1, 3, 5]);
    assert_eq!(turns(&[(1, ""), (3, "i"), (5, "i"), (7, "")], &[], 6), [1, 3, 5, 1, 3, 5]);
    assert_eq!(turns(&[(1, "u=7"), (3, "u=6, i"), (5, "u=6")], &[], 4), [3, 5, 3, 5]);
}

#[test]
fn streams_of_a_client_without_priorities_take_turns() {
    let mut server = Server::new(&LIMITS);
    for stream in [1, 3] {
        server.receive(&get(stream));
        server.connection.set_ready(StreamId(stream), true);
    }
    let turns = [(); 4].map(|()| server.connection.next_stream().map_or(0, StreamId::get));
    assert_eq!(turns, [1, 3, 1, 3]);
}

#[test]
fn a_priority_can_change() {
    let update = |stream: u32, value: &str| {
        frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes(), value.as_bytes()].concat())
    };
    assert_eq!(turns(&[(1, ""), (3, "u=5")], &[update(3, "u=0"), update(9, "u=0")], 2), [3, 3]);
    let mut server = Server::new(&LIMITS);
    server.receive(&[update(3, "u=0"), get(1), get(3)].concat());
    for stream in [1, 3] {
        server.connection.set_ready(StreamId(stream), true);
    }
    assert_eq!(server.connection.next_stream(), Some(StreamId(3)), "before the stream is open");
    check_after_1(&[update(1, "u=0")], "", "");
    check_after_1(&[update(2, "u=0")], "[Idle]", "(goaway 1 1)");
}

#[test]
fn an_end_need_not_be_announced() {
    let mut server = Server::new(&LIMITS);
    server.receive(&get(1));
    server.connection.shut_down(&mut server.out);
    server.connection.announce_shutdown(&mut server.out);
    server.respond(&[1]);
    assert_eq!(server.sent(), "(goaway 1 0)(1 headers 1.)");
    assert!(server.connection.is_finished());
}

#[test]
fn a_failed_connection_does_nothing_more() {
    let mut server = Server::new(&LIMITS);
    server.receive(&get(1));
    assert_eq!(server.receive(&get(4)), "[StreamNumber]");
    assert_eq!(server.sent(), "(goaway 1 1)");
    assert_eq!(server.receive(&get(3)), "[StreamNumber]");
    server.respond(&[1]);
    assert_eq!(server.data(1, b"x", EndStream::Set), 0);
    assert!(server.connection.is_finished() && server.sent().is_empty());
}

#[test]
fn a_graceful_end_announces_itself_and_finishes_streams() {
    let mut server = Server::new(&LIMITS);
    server.receive(&post(1));
    server.connection.announce_shutdown(&mut server.out);
    assert_eq!(server.sent(), "(goaway 2147483647 0)");
    assert_eq!(server.receive(&get(3)), "[3 request end]", "the client did not know");
    server.connection.shut_down(&mut server.out);
    assert_eq!(server.sent(), "(goaway 3 0)");
    let late = [get(5), post(7), frame(DATA, 0, 7, b"x"), window(7, 1), rst(7)].concat();
    assert_eq!(server.receive(&late), "", "ignored");
    assert_eq!(server.receive(&frame(DATA, END_STREAM, 1, b"x")), "x.");
    assert!(!server.connection.is_finished());
    server.respond(&[1, 3]);
    assert!(server.connection.is_finished());
    server.connection.shut_down(&mut server.out);
    assert_eq!(server.sent(), "(1 headers 1.)(3 headers 1.)");
    assert_eq!(server.receive(&get(4)), "[StreamNumber]");
    assert_eq!(server.sent(), "(goaway 3 1)");
}
