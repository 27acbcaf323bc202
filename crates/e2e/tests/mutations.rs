//! Mutated bytes: TLS and HTTP/2 that was right before some bytes of it were changed. The server must neither panic nor
//! keep memory, and must serve others. `E2E_MUTATION_SECONDS` sets how long each test tries; by default two seconds.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use e2e::http2::{self, flag, frame};
use e2e::records::{ALERT, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, Raw};
use e2e::{Client, Random, Server, Site, Tls};
use taipan_h2::hpack::{self, Indexing};

/// Bytes by which the memory of the server may grow.
const MOST_GROWTH: u64 = 48 * 1024 * 1024;

fn site() -> Server {
    let script = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nexec cat\n";
    let config = "workers = 1\n[[route]]\npath = \"*.cgi\"\ncgi = true";
    let site = Site::new().every_protocol().config(config).script("echo.cgi", script);
    site.file("index.html", "hello\n").file("big.bin", Random::new(1).bytes(300_000)).start()
}

/// Tries random numbers for a while. Then the server still serves, and has little more memory than before.
fn mutate(server: &Server, seed: u64, mut attempt: impl FnMut(&mut Random)) {
    let seconds = std::env::var("E2E_MUTATION_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let until = Instant::now() + Duration::from_secs(seconds);
    assert_eq!(server.get("/").text(), "hello\n");
    let before = memory(server);
    let mut random = Random::new(seed);
    let mut count = 0;
    while Instant::now() < until {
        attempt(&mut random);
        count += 1;
    }
    assert!(count > 0);
    assert_eq!(server.get("/").text(), "hello\n");
    let grown = memory(server).saturating_sub(before);
    println!("{count} attempts, {grown} bytes more");
    assert!(grown < MOST_GROWTH, "{grown} bytes more after {count} attempts");
}

fn memory(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.serving_pid());
    let status = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel says it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Changes some bytes: flips, inserts, removes and repeats.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = *random.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes.insert(at, random.number() as u8),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => {
                let part = bytes[at..bytes.len().min(at + 64)].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

/// Reads what the server sends, without waiting long.
fn drain(raw: &mut Raw) {
    _ = raw.socket.set_read_timeout(Some(Duration::from_millis(1 + 20)));
    let mut space = [0; 16384];
    for _ in 0..8 {
        if !matches!(raw.socket.read(&mut space), Ok(1..)) {
            return;
        }
    }
}

#[test]
fn mutated_handshakes_end_their_connection() {
    let server = site();
    let mut number = 0;
    mutate(&server, 1, |random| {
        let mut raw = Raw::connect(server.tcp(1));
        _ = raw.socket.set_read_timeout(Some(Duration::from_millis(50)));
        let version = if random.below(2) == 0 { &rustls::version::TLS12 } else { &rustls::version::TLS13 };
        // Which flight is changed.
        let chosen = random.below(2);
        number = 0;
        _ = raw.handshake(&Tls::version(version), |mut bytes| {
            if number == chosen {
                change(&mut bytes, random);
            }
            number += 1;
            bytes
        });
    });
}

#[test]
fn mutated_records_end_their_connection() {
    let server = site();
    mutate(&server, 2, |random| {
        let mut raw = Raw::connect(server.tcp(1));
        let mut keys = raw.keys(&Tls::version(&rustls::version::TLS13));
        let requests = requests(random);
        let mut rest = &requests[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at((1 + random.below(5000) as usize).min(rest.len()));
            let kind = *random.one_of(&[
                DATA,
                DATA,
                DATA,
                DATA,
                DATA,
                DATA,
                ALERT,
                HANDSHAKE,
                CHANGE_CIPHER_SPEC,
                0,
            ]);
            let padding = if random.below(4) == 0 { random.below(300) as usize } else { 0 };
            let mut record = keys.sealing.seal(kind, now, padding);
            if random.below(20) == 0 {
                change(&mut record, random);
            }
            raw.send(&record);
            rest = later;
        }
        drain(&mut raw);
    });
}

#[test]
fn mutated_requests_over_tls_end_their_connection() {
    let server = site();
    mutate(&server, 3, |random| {
        let mut client = Client::tls(server.tcp(1), &Tls::new());
        client.set_timeout(Duration::from_millis(30));
        let mut bytes = requests(random);
        change(&mut bytes, random);
        _ = client.try_send(bytes);
        _ = client.read_some();
    });
}

#[test]
fn mutated_frames_end_their_connection() {
    let server = site();
    mutate(&server, 4, |random| {
        let mut raw = Raw::connect(server.tcp(2));
        let mut bytes = frames(random);
        if random.below(4) != 0 {
            change(&mut bytes, random);
        }
        raw.send(&bytes);
        drain(&mut raw);
    });
}

#[test]
fn mutated_frames_over_tls_end_their_connection() {
    let server = site();
    mutate(&server, 5, |random| {
        let mut client = Client::tls(server.tcp(1), &Tls::new().protocols(&["h2"]));
        client.set_timeout(Duration::from_millis(30));
        let mut bytes = frames(random);
        change(&mut bytes, random);
        _ = client.try_send(bytes);
        for _ in 0..4 {
            if !client.read_some().is_ok_and(|bytes| !bytes.is_empty()) {
                break;
            }
        }
    });
}

/// Some requests of HTTP/1.1.
fn requests(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(6) {
        match random.below(4) {
            0 => bytes.extend(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
            1 => bytes.extend(b"GET /big.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9,20-\r\n\r\n"),
            2 => bytes.extend(b"HEAD /none HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"),
            _ => {
                let length = random.below(20_000) as usize;
                bytes.extend(
                    format!("POST /echo.cgi HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n").bytes(),
                );
                bytes.extend(random.bytes(length));
            }
        }
    }
    bytes
}

/// A preface, and frames that are mostly right.
fn frames(random: &mut Random) -> Vec<u8> {
    let mut out = http2::PREFACE.to_vec();
    http2::append(&mut out, frame::SETTINGS, 0, 0, &settings(random));
    let mut stream = 1;
    for _ in 0..1 + random.below(30) {
        let other = 1 + 2 * random.below(u64::from(stream)) as u32;
        match random.below(14) {
            0..=4 => {
                let flags = flag::END_HEADERS | if random.below(2) == 0 { flag::END_STREAM } else { 0 };
                let mut block = block(random);
                if random.below(8) == 0 {
                    change(&mut block, random);
                }
                http2::append(&mut out, frame::HEADERS, flags, stream, &block);
                stream += 2;
            }
            5 | 6 => {
                let flags = if random.below(3) == 0 { flag::END_STREAM } else { 0 };
                let length = random.below(9000) as usize;
                http2::append(&mut out, frame::DATA, flags, other, &random.bytes(length));
            }
            7 => {
                http2::append(&mut out, frame::RST_STREAM, 0, other, &(random.below(16) as u32).to_be_bytes())
            }
            8 => {
                let on = if random.below(2) == 0 { 0 } else { other };
                http2::append(
                    &mut out,
                    frame::WINDOW_UPDATE,
                    0,
                    on,
                    &(random.below(1 << 31) as u32).to_be_bytes(),
                );
            }
            9 => http2::append(&mut out, frame::PING, random.below(2) as u8, 0, &random.bytes(8)),
            10 => http2::append(&mut out, frame::SETTINGS, 0, 0, &settings(random)),
            11 => http2::append(&mut out, frame::PRIORITY, 0, other, &random.bytes(5)),
            // PRIORITY_UPDATE (RFC 9218 §7.1).
            12 => {
                let value = [&other.to_be_bytes()[..], b"u=1, i"].concat();
                http2::append(&mut out, 0x10, 0, 0, &value);
            }
            _ => {
                let (kind, flags, length) =
                    (random.number() as u8, random.number() as u8, random.below(40) as usize);
                http2::append(&mut out, kind, flags, other, &random.bytes(length));
            }
        }
    }
    out
}

fn settings(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(4) {
        let (name, value) = match random.below(4) {
            0 => (1, random.below(10_000)),
            1 => (4, random.below(1 << 31)),
            2 => (5, 16_384 + random.below(1 << 20)),
            _ => (random.below(20), random.below(1 << 32)),
        };
        out.extend((name as u16).to_be_bytes());
        out.extend((value as u32).to_be_bytes());
    }
    out
}

/// A field block of a request.
fn block(random: &mut Random) -> Vec<u8> {
    let method = *random.one_of::<&str>(&["GET", "GET", "HEAD", "POST", "CONNECT"]);
    let path = *random.one_of::<&str>(&["/", "/big.bin", "/echo.cgi", "/none", "*"]);
    let length = random.below(20_000).to_string();
    let fields = [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "h"),
        ("accept-encoding", "gzip"),
        ("range", "bytes=0-9,20-"),
        ("content-length", &length),
        ("priority", "u=0, i"),
        ("cookie", "a=b"),
    ];
    let mut out = Vec::new();
    if random.below(6) == 0 {
        hpack::write_table_size(&mut out, random.below(5000) as usize);
    }
    for (at, (name, value)) in fields.iter().enumerate() {
        if at < 4 || random.below(4) == 0 {
            let indexing = if random.below(2) == 0 { Indexing::Incremental } else { Indexing::Without };
            hpack::write_field(&mut out, indexing, name.as_bytes(), value.as_bytes());
        }
        if random.below(10) == 0 {
            hpack::write_indexed(&mut out, 1 + random.below(70) as usize);
        }
    }
    out
}
