//! A keep-alive GET of a warm small file allocates nothing, by HTTP/1.1 and by HTTP/2, compressed or not. A worker runs
//! in this process, with an allocator that counts the allocations of its thread.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use server::files::roots::OpenRoots;
use server::master::sockets::Sockets;
use server::worker::{self, Start, WorkerSockets};
use site::address::Address;
use site::listener::Listener;
use site::model::Site;
use taipan_h2::frame::{
    DATA, END_STREAM, FrameHeader, HEADER_LEN, PREFACE, Settings, write_headers, write_window_update,
};
use taipan_h2::hpack::{Indexing, write_field, write_indexed};

struct Counting;

static IN_WORKER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call goes to the system allocator with the same arguments; counting touches none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_WORKER.try_with(Cell::get).unwrap_or(false) {
            IN_WORKER.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PLAIN: &str = "GET /file.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\r\n";
const COMPRESSED: &str = "GET /file.html HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br\r\n\r\n";

/// One request, and its whole response of `length` bytes.
fn get(client: &mut TcpStream, request: &str, length: usize) {
    client.write_all(request.as_bytes()).unwrap();
    let mut response = vec![0; length];
    client.read_exact(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// The head of the response to a request, and the bytes of the whole response.
fn first_response(client: &mut TcpStream, request: &str) -> (String, usize) {
    client.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut content = vec![0; length.parse().unwrap()];
    client.read_exact(&mut content).unwrap();
    let length = head.len() + content.len();
    (head, length)
}

/// The allocations of the worker in 10,000 requests, when the response has `part` in its head.
fn allocations(client: &mut TcpStream, request: &str, part: &str) -> u64 {
    // A compressed copy is made behind the first request.
    let length = loop {
        let (head, length) = first_response(client, request);
        if head.contains(part) {
            break length;
        }
        std::thread::yield_now();
    };
    for _ in 0..100 {
        get(client, request, length);
    }
    let before = IN_WORKER.load(Ordering::Relaxed);
    for _ in 0..10_000 {
        get(client, request, length);
    }
    IN_WORKER.load(Ordering::Relaxed) - before
}

/// A request by HTTP/2 on each of these streams, and their responses.
fn get_streams(client: &mut TcpStream, streams: std::ops::Range<u32>) {
    let mut requests = Vec::new();
    for stream in streams.clone() {
        write_headers(&mut requests, 2 * stream + 1, END_STREAM, |out| {
            write_indexed(out, 2); // :method: GET
            write_indexed(out, 6); // :scheme: http
            write_field(out, Indexing::Without, b":authority", b"localhost");
            write_field(out, Indexing::Without, b":path", b"/file.html");
            write_field(out, Indexing::Without, b"user-agent", b"test");
        });
    }
    client.write_all(&requests).unwrap();
    let mut ended = 0;
    while ended < streams.len() {
        let mut header = [0; HEADER_LEN];
        client.read_exact(&mut header).unwrap();
        let header = FrameHeader::parse(&header);
        client.read_exact(&mut vec![0; header.length]).unwrap();
        ended += usize::from(header.kind == DATA && header.has(END_STREAM));
    }
}

#[test]
fn a_warm_request_allocates_nothing() {
    let root = std::env::temp_dir().join(format!("taipan-allocation-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("file.html"), format!("{}</html>", "x".repeat(2000))).unwrap();
    let listener = Listener::parse("127.0.0.1:0 http2", &root).unwrap();
    let bound = Sockets::default().changed_to(std::slice::from_ref(&listener), 1).unwrap();
    let Some(Address::Tcp(address)) = bound.iter().next().map(|b| b.actual.clone()) else { panic!("one") };
    let listeners = bound.per_worker(&[listener], 1).remove(0);
    let mut site = Site::folder(root.clone(), Vec::new());
    // The check of the disk, once a second, is not part of a warm request.
    site.cache.check = std::time::Duration::from_secs(3600);
    let (leave, commands) = tokio::sync::mpsc::unbounded_channel();
    let worker = std::thread::spawn(move || {
        IS_WORKER.set(true);
        let roots = OpenRoots::of(&site);
        let sockets = WorkerSockets { listeners, ..WorkerSockets::default() };
        let counts = server::stats::Block::private();
        let (questions, _) = tokio::sync::mpsc::unbounded_channel();
        let main_thread =
            server::main_thread::MainThreadHandle { questions, rests: Default::default(), history: None };
        let (clients, maintenance) = (Vec::new(), Vec::new());
        let start = Start { site, tls: None, clients, roots, sockets, counts, main_thread, maintenance };
        worker::run(start, commands, || ())
    });
    let mut client = TcpStream::connect(address).unwrap();
    let plain = allocations(&mut client, PLAIN, "Accept-Ranges");
    let compressed = allocations(&mut client, COMPRESSED, "Content-Encoding");
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(PREFACE).unwrap();
    let mut settings = Vec::new();
    Settings::default().write(&mut settings);
    write_window_update(&mut settings, 0, 1 << 30);
    client.write_all(&settings).unwrap();
    get_streams(&mut client, 0..1);
    for round in 0..100 {
        get_streams(&mut client, 1 + round * 10..11 + round * 10);
    }
    let before_http2 = IN_WORKER.load(Ordering::Relaxed);
    for round in 100..1000 {
        get_streams(&mut client, 1 + round * 10..11 + round * 10);
    }
    let after_http2 = IN_WORKER.load(Ordering::Relaxed);
    leave.send(worker::WorkerCommand::Leave).unwrap();
    worker.join().unwrap().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!((plain, compressed), (0, 0), "allocations in 10000 requests");
    assert_eq!(after_http2 - before_http2, 0, "allocations in 9000 requests by HTTP/2");
}
