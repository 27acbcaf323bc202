//! What a request costs without sockets: 16 GETs in each read, as a load generator sends them, with a response of a
//! precompiled head and a small body. Prints the time of one. To count instructions:
//!
//!     cargo build --release -p taipan-h2 --example requests
//!     valgrind --tool=callgrind target/release/examples/requests 4000

use std::time::Instant;

use taipan_h2::fields::FieldList;
use taipan_h2::frame::{
    END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, write_frame, write_window_update,
};
use taipan_h2::hpack::{FIRST_DYNAMIC, Indexing, write_indexed, write_value};
use taipan_h2::response::{write_fields, write_head};
use taipan_h2::server::{Connection, EndStream, Event, Limits};
use taipan_http::head::{self, FieldStore};

const REQUESTS: u32 = 16;
const BODY: &[u8] = b"hello";

fn main() {
    let reads = std::env::args().nth(1).and_then(|reads| reads.parse().ok()).unwrap_or(100_000u32);
    let mut out = Vec::new();
    let mut connection = Connection::new(&Limits::default(), &mut out);
    let (mut list, limits) = (FieldList::new(), head::Limits::default());
    let response = response();
    let mut input = PREFACE.to_vec();
    write_frame(&mut input, SETTINGS, 0, 0, &[]);
    write_frame(&mut input, HEADERS, END_HEADERS | END_STREAM, 1, &request(Table::Empty));
    let request = request(Table::Filled);
    let (mut stream, mut served) = (3, 0u32);
    let start = Instant::now();
    for _ in 0..reads {
        let mut rest = &input[..];
        while let (used, Some(event)) =
            connection.receive(rest, &mut list, &mut out).expect("the requests are valid")
        {
            rest = &rest[used..];
            let Event::Request { stream, .. } = event else { continue };
            let mut store = FieldStore::new();
            let head = list.head(&mut store, &limits).expect("the requests are valid");
            assert_eq!(head.raw_target, "/index2.html");
            connection.headers(stream, &response, EndStream::Unset, &mut out);
            connection.data(stream, BODY, EndStream::Set, &mut out);
            served += 1;
        }
        out.clear();
        input.clear();
        for _ in 0..REQUESTS {
            write_frame(&mut input, HEADERS, END_HEADERS | END_STREAM, stream, &request);
            stream += 2;
        }
        write_window_update(&mut input, 0, REQUESTS * BODY.len() as u32);
    }
    println!("{:.0} ns for each of {served} requests", start.elapsed().as_nanos() as f64 / f64::from(served));
}

/// Whether the server's table has the fields that are the same in each request.
enum Table {
    Empty,
    Filled,
}

fn request(table: Table) -> Vec<u8> {
    let mut block = Vec::new();
    write_indexed(&mut block, 2);
    write_indexed(&mut block, 6);
    write_fields([(&b":path"[..], &b"/index2.html"[..])], &mut block);
    match table {
        Table::Empty => {
            write_value(&mut block, Indexing::Incremental, 1, b"127.0.0.1:8080");
            write_value(&mut block, Indexing::Incremental, 58, b"a load generator/1.0");
        }
        Table::Filled => {
            write_indexed(&mut block, FIRST_DYNAMIC + 1);
            write_indexed(&mut block, FIRST_DYNAMIC);
        }
    }
    block
}

fn response() -> Vec<u8> {
    let mut block = Vec::new();
    let fields: [(&[u8], &[u8]); 6] = [
        (b"server", b"taipan"),
        (b"date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"5"),
        (b"etag", b"\"5f3c-2a\""),
        (b"last-modified", b"Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    write_head(200, fields, &mut block);
    block
}
