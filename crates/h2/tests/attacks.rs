//! Attacks on a connection, as raw frames. Each ends with GOAWAY and its code, or has no effect, and the memory of the
//! connection has a ceiling. An allocator counts the bytes of each test's thread.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use taipan_h2::error::{ConnectionError, ErrorCode, FrameError};
use taipan_h2::fields::{ExtendedConnect, FieldList};
use taipan_h2::frame::{
    ACK, CONTINUATION, DATA, DEFAULT_WINDOW, END_HEADERS, END_STREAM, FrameHeader, GOAWAY, HEADER_LEN,
    HEADERS, MAX_PAYLOAD, PADDED, PING, PREFACE, PRIORITY, PRIORITY_UPDATE, SETTINGS, write_frame,
    write_reset, write_window_update,
};
use taipan_h2::hpack::{FIRST_DYNAMIC, Indexing, write_field, write_indexed, write_value};
use taipan_h2::server::{Connection, EndStream, Event, Limits, StreamId};

struct Counting;

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { is_on: false, live: 0, peak: 0, allocations: 0 }) };
}

/// What the thread has allocated while it was on.
#[derive(Debug, Clone, Copy)]
struct Counts {
    is_on: bool,
    /// Bytes now, and the most bytes.
    live: isize,
    peak: isize,
    allocations: usize,
}

impl Counts {
    /// Bytes that are allocated, or freed if negative.
    fn add(bytes: isize) {
        let _ = COUNTS.try_with(|cell| {
            let mut counts = cell.get();
            if counts.is_on {
                counts.live += bytes;
                counts.peak = counts.peak.max(counts.live);
                counts.allocations += usize::from(bytes > 0);
                cell.set(counts);
            }
        });
    }

    /// Counts what `run` allocates and frees.
    fn within<T>(run: impl FnOnce() -> T) -> T {
        COUNTS.set(Counts { is_on: true, ..COUNTS.get() });
        let result = run();
        COUNTS.set(Counts { is_on: false, ..COUNTS.get() });
        result
    }
}

// SAFETY: every call goes to the system allocator with the same arguments; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counts::add(layout.size() as isize);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Counts::add(-(layout.size() as isize));
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LIMITS: Limits = Limits {
    streams: 100,
    list: 16 * 1024,
    fields: 100,
    window: 256 * 1024,
    connection_window: 1024 * 1024,
    resets: 200,
    frames: 1000,
    extended_connect: ExtendedConnect::Unknown,
};

/// Bytes of a connection under attack, with the field list and the output of one visit. Most of it is one field block
/// in frames, the list of its fields, and the dynamic table.
const CEILING: isize = 160 * 1024;
/// Bytes of input in one visit. What it appends to the output is sent after it.
const VISIT: usize = 16 * 1024;

/// A connection whose output a client reads.
struct Server {
    connection: Connection,
    list: FieldList,
    out: Vec<u8>,
    /// The code of GOAWAY.
    code: Option<ErrorCode>,
    error: Option<ConnectionError>,
    requests: usize,
}

impl Server {
    fn new() -> Server {
        let mut out = Vec::new();
        let connection = Counts::within(|| Connection::new(&LIMITS, &mut out));
        let list = FieldList::new();
        let mut server = Server { connection, list, out, code: None, error: None, requests: 0 };
        let mut preface = PREFACE.to_vec();
        write_frame(&mut preface, SETTINGS, 0, 0, &[]);
        write_frame(&mut preface, SETTINGS, ACK, 0, &[]);
        server.receive(&preface);
        server.connection.set_time(1_000_000);
        server
    }

    /// Receives the input in visits, and sends the output after each. Returns the streams of requests.
    fn receive(&mut self, input: &[u8]) -> Vec<StreamId> {
        let mut streams = Vec::new();
        for mut rest in input.chunks(VISIT) {
            // Bounded: each pass takes part of the input, or is the last.
            loop {
                let Server { connection, list, out, .. } = self;
                match Counts::within(|| connection.receive(rest, list, out)) {
                    Ok((used, event)) => {
                        rest = &rest[used..];
                        match event {
                            Some(Event::Request { stream, .. }) => streams.push(stream),
                            Some(Event::Rejected { stream, .. }) => {
                                Counts::within(|| connection.headers(stream, &[0x8c], EndStream::Set, out));
                            }
                            Some(_) => {}
                            None => break,
                        }
                    }
                    Err(error) => {
                        self.error = Some(error);
                        break;
                    }
                }
            }
            assert!(self.out.len() <= 2 * VISIT, "{} bytes of output for {VISIT}", self.out.len());
            self.send();
        }
        self.requests += streams.len();
        streams
    }

    /// Bytes that the connection keeps when it is idle. The field list and the output belong to the worker.
    fn idle(&mut self) -> isize {
        Counts::within(|| {
            (self.list, self.out) = (FieldList::new(), Vec::new());
            self.connection.trim();
        });
        COUNTS.get().live
    }

    /// The client reads the output.
    fn send(&mut self) {
        let mut rest = &self.out[..];
        while let Some((header, after)) = rest.split_first_chunk() {
            let header = FrameHeader::parse(header);
            if header.kind == GOAWAY {
                self.code = Some(ErrorCode(u32::from_be_bytes(after[4..8].try_into().unwrap())));
            }
            rest = &after[header.length..];
        }
        self.out.clear();
    }
}

/// The most bytes of all connections of the thread.
fn peak() -> isize {
    COUNTS.get().peak
}

/// Sends `attack(n)` for n = 0, 1, … until GOAWAY, whose code must be `code`, after at most `most` times.
fn check(most: usize, code: ErrorCode, mut attack: impl FnMut(usize) -> Vec<u8>) -> Server {
    let mut server = Server::new();
    for round in 0..most {
        server.receive(&attack(round));
        if server.code.is_some() {
            break;
        }
    }
    assert_eq!(server.code, Some(code), "{:?}", server.error);
    assert!(peak() <= CEILING, "{} bytes", peak());
    assert!(server.connection.is_finished() && server.connection.open_streams() == 0);
    server
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, flags, stream, payload);
    out
}

fn head() -> Vec<u8> {
    let mut block = vec![0x82, 0x84, 0x86];
    write_value(&mut block, Indexing::Without, 1, b"a.example");
    block
}

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head())
}

fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &head())
}

/// The client's stream of a round.
fn stream(round: usize) -> u32 {
    2 * round as u32 + 1
}

const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    let server = check(201, CALM, |round| {
        let mut input = get(stream(round));
        write_reset(&mut input, stream(round), ErrorCode::CANCEL);
        input
    });
    assert_eq!(server.error, Some(ConnectionError::TooManyResets));
    assert_eq!(server.requests, 201);
}

/// CVE-2025-8671: the client makes the server reset the stream.
#[test]
fn made_you_reset() {
    let faults: [fn(u32) -> Vec<u8>; 5] = [
        |stream| {
            let mut input = get(stream);
            write_window_update(&mut input, stream, 1 << 30);
            write_window_update(&mut input, stream, 1 << 30);
            input
        },
        |stream| [get(stream), frame(DATA, 0, stream, b"x")].concat(),
        |stream| [get(stream), get(stream)].concat(),
        |stream| [post(stream), frame(HEADERS, END_HEADERS, stream, &[0x82])].concat(),
        // Without a request: the head is malformed.
        |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x82]),
    ];
    for fault in faults {
        let server = check(201, CALM, |round| fault(stream(round)));
        assert_eq!(server.error, Some(ConnectionError::TooManyResets));
    }
}

#[test]
fn honest_resets_are_forgotten() {
    let mut server = Server::new();
    let input = |server: &mut Server, round: usize| {
        let mut input = get(stream(round));
        write_reset(&mut input, stream(round), ErrorCode::CANCEL);
        server.receive(&input);
    };
    // With time: six in a second.
    for round in 0..1000 {
        server.connection.set_time(1_000_000 + round as u32 / 6);
        input(&mut server, round);
    }
    // With responses: as many as resets.
    for round in (1000..2000).step_by(2) {
        for stream in server.receive(&get(stream(round))) {
            server.connection.headers(stream, &[0x88], EndStream::Set, &mut server.out);
        }
        input(&mut server, round + 1);
    }
    assert_eq!((server.code, server.error), (None, None));
}

/// CVE-2024-27316.
#[test]
fn continuation_flood() {
    for payload in [0, 1, 1000, MAX_PAYLOAD] {
        let server = check(100, CALM, |round| match round {
            0 => frame(HEADERS, END_STREAM, 1, &[0x82]),
            _ => frame(CONTINUATION, 0, 1, &vec![0x84; payload]),
        });
        assert_eq!(server.error, Some(FrameError::BlockTooLarge.into()));
    }
}

#[test]
fn headers_in_many_small_frames() {
    let small = |round: usize| {
        let mut input = frame(HEADERS, END_STREAM, stream(round), &head());
        for _ in 0..30 {
            input.extend(frame(CONTINUATION, 0, stream(round), &[]));
        }
        input.extend(frame(CONTINUATION, END_HEADERS, stream(round), &[]));
        input
    };
    check(40, CALM, small);
}

/// CVE-2019-9518.
#[test]
fn empty_frames() {
    let frames: [fn(u32) -> Vec<u8>; 5] = [
        |_| frame(DATA, 0, 1, &[]),
        |_| frame(DATA, PADDED, 1, &[2, 0, 0]),
        |_| frame(PRIORITY, 0, 1, &[0; 5]),
        |_| frame(0xbe, 0, 1, &[]),
        |round| frame(PRIORITY, 0, round + 2, &[0; 5]),
    ];
    for empty in frames {
        check(1002, CALM, |round| if round == 0 { post(1) } else { empty(round as u32) });
    }
}

/// CVE-2019-9512 and CVE-2019-9515.
#[test]
fn floods_of_frames_that_need_an_answer() {
    check(1001, CALM, |_| frame(PING, 0, 0, &[0; 8]));
    check(1001, CALM, |_| frame(PING, ACK, 0, &[0; 8]));
    check(1001, CALM, |_| frame(SETTINGS, 0, 0, &[]));
    check(1001, CALM, |_| frame(SETTINGS, ACK, 0, &[]));
    check(1001, CALM, |_| frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1].repeat(2000)));
}

/// In one visit, before any of it can be sent.
#[test]
fn a_flood_in_one_visit() {
    let mut server = Server::new();
    server.receive(&frame(PING, 0, 0, &[0; 8]).repeat(VISIT / 17));
    assert_eq!(server.code, None);
    server.receive(&frame(PING, 0, 0, &[0; 8]).repeat(VISIT / 17));
    assert_eq!(server.code, Some(CALM));
    assert!(peak() <= CEILING);
}

/// Blocks of the most bytes that are discarded, each with a response.
#[test]
fn blocks_over_the_limit() {
    let server = check(1001, CALM, |round| {
        let mut block = head();
        for part in 0..15 {
            let name = format!("x-{part}");
            write_field(&mut block, Indexing::Incremental, name.as_bytes(), &vec![b'x'; 16_300]);
        }
        let parts: Vec<&[u8]> = block.chunks(MAX_PAYLOAD).collect();
        let last = parts.len() - 1;
        let input = |(index, part): (usize, &&[u8])| match index {
            0 => frame(HEADERS, END_STREAM, stream(round), part),
            _ => frame(CONTINUATION, if index == last { END_HEADERS } else { 0 }, stream(round), part),
        };
        parts.iter().enumerate().flat_map(input).collect()
    });
    assert_eq!(server.requests, 0, "each is rejected");
}

/// Fields of 32 bytes and more for one byte of input. The list has limits of its bytes and of its fields.
#[test]
fn hpack_bomb() {
    let bomb = |value: usize, name: &'static [u8]| {
        move |round: usize| {
            let mut block = head();
            if round == 0 {
                write_field(&mut block, Indexing::Incremental, name, &vec![b'x'; value]);
            }
            for _ in 0..8000 {
                write_indexed(&mut block, FIRST_DYNAMIC);
            }
            frame(HEADERS, END_HEADERS | END_STREAM, stream(round), &block)
        }
    };
    for (value, name) in [(0, &b"x"[..]), (4000, b"x"), (0, b"cookie"), (4000, b"cookie")] {
        let server = check(1001, CALM, bomb(value, name));
        assert_eq!(server.requests, 0, "each is rejected");
    }
}

/// The Huffman code makes a string longer by at most 8/5, and the table has a limit.
#[test]
fn large_entries_of_the_table() {
    let mut server = Server::new();
    for round in 0..50 {
        let mut block = head();
        for part in 0..3 {
            let name = format!("x-{round}-{part}");
            write_field(&mut block, Indexing::Incremental, name.as_bytes(), &vec![b'x'; 3900]);
        }
        let input = frame(HEADERS, END_HEADERS | END_STREAM, stream(round), &block);
        for stream in server.receive(&input) {
            server.connection.headers(stream, &[0x88], EndStream::Set, &mut server.out);
        }
        assert!(peak() <= CEILING, "{} bytes", peak());
    }
    assert_eq!(server.requests, 50);
    let kept = server.idle();
    assert!(kept <= 6 * 1024, "{kept} bytes");
}

#[test]
fn windows_that_keep_changing() {
    let settings = |window: u32| frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    // Back and forth, with streams that wait.
    check(1102, CALM, |round| match round {
        0..100 => get(stream(round)),
        _ => settings(if round % 2 == 0 { 0 } else { 0x7fff_ffff }),
    });
    // One byte at a time, while nothing is sent.
    check(1002, CALM, |round| {
        let mut input = if round == 0 { get(1) } else { Vec::new() };
        write_window_update(&mut input, 1, 1);
        input
    });
}

#[test]
fn windows_with_each_byte_that_is_sent() {
    let mut server = Server::new();
    let mut input = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    input.extend(get(1));
    let streams = server.receive(&input);
    for _ in 0..10_000 {
        let mut input = Vec::new();
        write_window_update(&mut input, 1, 1);
        server.receive(&input);
        assert_eq!(server.connection.data(streams[0], b"xx", EndStream::Unset, &mut server.out), 1);
        server.send();
    }
    assert_eq!(server.code, None, "small windows are no error, only slow");
}

#[test]
fn priority_flood() {
    let update = |stream: u32| frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=1"].concat());
    check(1001, CALM, |round| update(stream(round)));
    check(1002, CALM, |round| if round == 0 { get(1) } else { update(1) });
    let long = [&[0, 0, 0, 1][..], &b"u=1,".repeat(4000)].concat();
    check(1001, CALM, |_| frame(PRIORITY_UPDATE, 0, 0, &long));
}

#[test]
fn data_on_closed_streams() {
    check(202, CALM, |round| match round {
        0 => {
            let mut input = Vec::new();
            for round in 0..300 {
                input.extend(get(stream(round)));
                write_reset(&mut input, stream(round), ErrorCode::CANCEL);
                if round == 100 {
                    break;
                }
            }
            input
        }
        round => frame(DATA, 0, stream(round - 1).min(201), b"x"),
    });
}

/// The server ignores what it has itself reset, but it counts it.
#[test]
fn data_on_streams_that_the_server_has_reset() {
    let mut server = Server::new();
    for stream in server.receive(&post(1)) {
        server.connection.reset(stream, ErrorCode::CANCEL, &mut server.out);
    }
    let data = frame(DATA, 0, 1, &[0; MAX_PAYLOAD]);
    for _ in 0..1000 {
        server.receive(&data);
    }
    assert_eq!(server.code, None);
    assert!(peak() <= CEILING);
}

#[test]
fn more_streams_than_allowed() {
    let server = check(1101, CALM, |round| get(stream(round)));
    assert_eq!(server.requests, 100);
    assert_eq!(server.error, Some(ConnectionError::Flood));
}

#[test]
fn frames_behind_goaway() {
    let mut server = Server::new();
    server.receive(&get(1));
    server.connection.shut_down(&mut server.out);
    server.send();
    assert_eq!(server.code, Some(ErrorCode::NO_ERROR));
    for round in 1..1002 {
        let input = [post(stream(round)), frame(DATA, END_STREAM, stream(round), &[0; 1000])].concat();
        server.receive(&input);
    }
    assert_eq!((server.code, server.requests), (Some(CALM), 1));
    assert!(peak() <= CEILING);
}

/// The client fills the windows, and the server consumes nothing.
#[test]
fn bodies_that_nothing_consumes() {
    let mut server = Server::new();
    server.receive(&[post(1), post(3)].concat());
    let data = |stream: u32| frame(DATA, 0, stream, &[0; MAX_PAYLOAD]);
    let most = DEFAULT_WINDOW as usize / MAX_PAYLOAD;
    server.receive(&[data(1).repeat(most), data(3).repeat(most)].concat());
    assert_eq!(server.error, None);
    server.receive(&data(1));
    assert_eq!(server.connection.open_streams(), 1, "the stream is reset");
    assert_eq!(server.code, None);
}

/// Keeps to the limits of streams, fields and windows, and never reads a response.
#[test]
fn all_that_is_allowed_at_once() {
    let mut server = Server::new();
    for round in 0..100 {
        let mut block = head();
        write_field(&mut block, Indexing::Incremental, b"x", &[b'x'; 12_000]);
        server.receive(&frame(HEADERS, END_HEADERS, stream(round), &block));
    }
    server.receive(&frame(HEADERS, 0, 201, &[0; MAX_PAYLOAD])[..HEADER_LEN + 16_000]);
    assert_eq!((server.connection.open_streams(), server.code), (100, None));
    assert!(peak() <= CEILING, "{} bytes", peak());
}

#[test]
fn an_idle_connection_is_small_and_a_warm_request_allocates_nothing() {
    assert!(size_of::<Connection>() <= 440, "{} bytes", size_of::<Connection>());
    let mut server = Server::new();
    let mut rounds = 0;
    let input: Vec<Vec<u8>> =
        (0..10).map(|visit| (0..16).flat_map(|n| get(stream(16 * visit + n))).collect()).collect();
    let mut allocations = 0;
    for visit in &input {
        let before = COUNTS.get().allocations;
        Counts::within(|| {
            let Server { connection, list, out, .. } = &mut server;
            let mut rest = &visit[..];
            while let Ok((used, Some(event))) = connection.receive(rest, list, out) {
                rest = &rest[used..];
                if let Event::Request { stream, .. } = event {
                    connection.headers(stream, &[0x88], EndStream::Unset, out);
                    connection.data(stream, b"hello", EndStream::Set, out);
                    rounds += 1;
                }
            }
            out.clear();
        });
        allocations = COUNTS.get().allocations - before;
    }
    assert_eq!((rounds, allocations), (160, 0));
    assert_eq!(server.idle(), 0, "no memory besides the connection itself");
}
