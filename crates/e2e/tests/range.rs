//! Byte ranges (RFC 9110 §14), from files in memory and from files sent by the kernel, compared byte by byte.

use e2e::{Client, Random, Response, Rows, Server, Site};

const MODIFIED: u64 = 784_111_777;
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const SMALL: usize = 1000;
const BIG: usize = 3_000_000;
/// Cache settings: small files in memory, no file in memory, no cache.
const CACHES: [&str; 3] = ["", "[cache]\nfile = 0\n", "[cache]\nentries = 0\n"];

fn small() -> Vec<u8> {
    Random::new(1).bytes(SMALL)
}

fn big() -> Vec<u8> {
    Random::new(2).bytes(BIG)
}

fn site() -> Site {
    Site::new()
        .every_protocol()
        .file("small.bin", small())
        .modified("small.bin", MODIFIED)
        .file("big.bin", big())
        .modified("big.bin", MODIFIED)
        .file("empty.bin", "")
}

fn request(client: &mut Client, path: &str, fields: &str) -> Response {
    client.get_with(path, fields)
}

/// The content of a response in short: `whole`, `0-9`, `0-9 20-29` or `none`. Panics if its fields and its
/// body do not agree.
fn sent(response: &Response, content: &[u8]) -> String {
    let size = content.len();
    let same = |from: usize, to: usize, body: &[u8]| {
        assert!(from <= to && to < size, "{response}");
        assert!(body == &content[from..=to], "wrong bytes of {from}-{to}:\n{response}");
        format!("{from}-{to}")
    };
    match response.status {
        200 => {
            assert!(response.body == content, "wrong bytes:\n{response}");
            assert_eq!(response.field("content-range"), None, "{response}");
            "whole".to_owned()
        }
        416 => {
            assert_eq!(response.field("content-range"), Some(&*format!("bytes */{size}")), "{response}");
            "none".to_owned()
        }
        206 => match response.field("content-range") {
            Some(range) => {
                let (from, to) = content_range(range, size);
                same(from, to, &response.body)
            }
            None => {
                let parts = parts(response);
                assert!(parts.len() > 1, "one range needs no parts:\n{response}");
                let parts = parts.iter().map(|part| {
                    let (from, to) = content_range(part.field("content-range"), size);
                    assert!(part.fields.iter().any(|(name, _)| name == "content-type"), "{response}");
                    same(from, to, &part.body)
                });
                parts.collect::<Vec<_>>().join(" ")
            }
        },
        _ => panic!("{response}"),
    }
}

/// `bytes 0-9/SIZE`
fn content_range(value: &str, size: usize) -> (usize, usize) {
    let range = value.strip_prefix("bytes ").and_then(|rest| rest.strip_suffix(&format!("/{size}")));
    let (from, to) = range.and_then(|range| range.split_once('-')).unwrap_or_else(|| panic!("{value}"));
    (from.parse().expect("digits"), to.parse().expect("digits"))
}

/// One part of a `multipart/byteranges`.
struct Part {
    /// Names in lower case.
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Part {
    fn field(&self, wanted: &str) -> &str {
        let mut values = self.fields.iter().filter(|(name, _)| name == wanted);
        let (Some((_, value)), None) = (values.next(), values.next()) else { panic!("{wanted}: not once") };
        value
    }
}

/// RFC 2046 §5.1, with CRLF only. The length of each part comes from its `Content-Range`, so that no content
/// can be taken for a boundary.
fn parts(response: &Response) -> Vec<Part> {
    let boundary =
        response.field("content-type").and_then(|v| v.strip_prefix("multipart/byteranges; boundary="));
    let boundary = boundary.unwrap_or_else(|| panic!("no boundary:\n{response}"));
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    assert!((1..=70).contains(&boundary.len()) && boundary.bytes().all(valid), "{boundary:?}");
    let mut rest = response.body.strip_prefix(b"\r\n").unwrap_or(&response.body);
    let mut parts = Vec::new();
    let delimiter = format!("--{boundary}");
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).unwrap_or_else(|| panic!("no delimiter:\n{response}"));
        if let Some(end) = rest.strip_prefix(b"--") {
            assert!(matches!(end, b"" | b"\r\n"), "behind the end:\n{response}");
            return parts;
        }
        rest = rest.strip_prefix(b"\r\n").expect("a delimiter is a line");
        let end = rest.windows(4).position(|w| w == b"\r\n\r\n").expect("a part has a head");
        let head = std::str::from_utf8(&rest[..end]).expect("a head is text");
        let fields: Vec<(String, String)> = head
            .split("\r\n")
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line:?}")))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let mut part = Part { fields, body: Vec::new() };
        let range = part.field("content-range");
        let size = range.rsplit_once('/').and_then(|(_, size)| size.parse().ok()).expect("a size");
        let (from, to) = content_range(range, size);
        rest = &rest[end + 4..];
        part.body = rest[..to + 1 - from].to_vec();
        rest = rest[to + 1 - from..].strip_prefix(b"\r\n").expect("CRLF before a delimiter");
        parts.push(part);
    }
}

/// Each row: the value of `Range`, and what is sent of 1000 bytes.
fn check(server: &Server, rows: &[(&str, &str)]) {
    let content = small();
    let mut client = server.connect();
    let mut table = Rows::new();
    for (value, expected) in rows {
        let response = request(&mut client, "/small.bin", &format!("Range: {value}\r\n"));
        table.check(value, sent(&response, &content).as_str(), *expected);
    }
}

#[test]
fn sends_the_requested_ranges() {
    let too_many: Vec<String> = (0..101).map(|n| format!("{}-{}", n * 9, n * 9)).collect();
    let hundred = too_many[..100].join(",");
    let reversed: Vec<String> = too_many[..100].iter().rev().cloned().collect();
    let many = vec!["0-"; 100].join(",");
    let overlapping: Vec<String> = (0..200).map(|n| format!("{n}-{}", n + 5)).collect();
    let flood: Vec<String> = (0..1300).map(|n| format!("{n}-")).collect();
    let rows = [
        // One.
        ("bytes=0-0", "0-0"),
        ("bytes=0-499", "0-499"),
        ("bytes=500-999", "500-999"),
        ("bytes=999-999", "999-999"),
        ("bytes=0-999", "0-999"),
        ("bytes=0-1000", "0-999"),
        ("bytes=990-5000", "990-999"),
        ("bytes=007-008", "7-8"),
        ("BYTES=0-1", "0-1"),
        // Open.
        ("bytes=0-", "0-999"),
        ("bytes=500-", "500-999"),
        ("bytes=999-", "999-999"),
        // Suffix.
        ("bytes=-1", "999-999"),
        ("bytes=-500", "500-999"),
        ("bytes=-1000", "0-999"),
        ("bytes=-5000", "0-999"),
        // Numbers without end.
        ("bytes=0-18446744073709551615", "0-999"),
        ("bytes=0-18446744073709551616", "0-999"),
        ("bytes=0-99999999999999999999999999", "0-999"),
        ("bytes=-99999999999999999999999999", "0-999"),
        ("bytes=99999999999999999999999999-", "none"),
        // Beyond.
        ("bytes=1000-", "none"),
        ("bytes=1000-2000", "none"),
        ("bytes=-0", "none"),
        ("bytes=1000-,2000-", "none"),
        ("bytes=-0,1000-1001", "none"),
        // Several.
        ("bytes=0-0,2-2", "0-0 2-2"),
        ("bytes=0-1, 4-5", "0-1 4-5"),
        ("bytes=0-1 ,\t4-5", "0-1 4-5"),
        ("bytes=0-1,,4-5,", "0-1 4-5"),
        ("bytes=10-11,0-1", "10-11 0-1"),
        ("bytes=-1,0-0", "999-999 0-0"),
        ("bytes=0-0,500-,10-10", "0-0 500-999 10-10"),
        ("bytes=0-1,1000-", "0-1"),
        ("bytes=1000-,0-1,2000-,5-6", "0-1 5-6"),
        // Overlapping and adjacent ranges are merged.
        ("bytes=0-1,2-3", "0-3"),
        ("bytes=0-5,3-8", "0-8"),
        ("bytes=3-8,0-5", "0-8"),
        ("bytes=0-9,2-3", "0-9"),
        ("bytes=0-0,0-0", "0-0"),
        ("bytes=0-,-1", "0-999"),
        ("bytes=20-29,0-5,3-8", "0-8 20-29"),
        ("bytes=0-499,500-999", "0-999"),
        (&format!("bytes={many}"), "0-999"),
        (&format!("bytes={}", overlapping.join(",")), "0-204"),
        // A hundred parts, the maximum.
        (&format!("bytes={hundred}"), &too_many[..100].join(" ")),
        (&format!("bytes={}", reversed.join(",")), &reversed.join(" ")),
        (&format!("bytes={}", too_many.join(",")), "whole"),
        (&format!("bytes={hundred},5-5"), "whole"),
        (&format!("bytes={}", flood.join(",")), "whole"),
        // Invalid ranges are ignored.
        ("", "whole"),
        ("bytes", "whole"),
        ("bytes=", "whole"),
        ("bytes=,", "whole"),
        ("bytes=-", "whole"),
        ("bytes=5-2", "whole"),
        ("bytes=0-1,5-2", "whole"),
        ("bytes=1000-,5-2", "whole"),
        ("bytes=a-b", "whole"),
        ("bytes=0-b", "whole"),
        ("bytes=0", "whole"),
        ("bytes=0-1-2", "whole"),
        ("bytes=--1", "whole"),
        ("bytes=+0-1", "whole"),
        ("bytes=0x0-1", "whole"),
        ("bytes=0 -1", "whole"),
        ("bytes=0-1;2-3", "whole"),
        ("bytes:0-1", "whole"),
        ("bytes 0-1", "whole"),
        ("lines=0-1", "whole"),
        ("0-1", "whole"),
        // Not a list: two field lines have no common value.
        ("bytes=0-1\r\nRange: bytes=4-5", "whole"),
        ("bytes=0-1, bytes=4-5", "whole"),
    ];
    for cache in CACHES {
        check(&site().config(cache).start(), &rows);
    }
}

#[test]
fn answers_416_for_any_range_of_an_empty_file() {
    let server = site().start();
    let mut client = server.connect();
    let mut table = Rows::new();
    for (value, expected) in [
        ("bytes=0-", "none"),
        ("bytes=0-0", "none"),
        ("bytes=-0", "none"),
        ("bytes=-1", "whole"),
        ("bytes=x", "whole"),
    ] {
        let response = request(&mut client, "/empty.bin", &format!("Range: {value}\r\n"));
        table.check(value, sent(&response, b"").as_str(), expected);
    }
}

#[test]
fn partial_responses_have_the_fields_of_the_full_response() {
    let server = site()
        .config("cache_control = \"max-age=60\"\nheaders = { X-Own = \"yes\", \"+X-More\" = \"a\" }")
        .start();
    let mut client = server.connect();
    let mut table = Rows::new();
    for path in ["/small.bin", "/big.bin"] {
        let whole = request(&mut client, path, "");
        assert_eq!(whole.field("accept-ranges"), Some("bytes"));
        assert_eq!(whole.field("x-more"), Some("a"));
        let kept = ["etag", "last-modified", "cache-control", "vary", "x-own", "x-more", "server"];
        let one = request(&mut client, path, "Range: bytes=1-2\r\n");
        let two = request(&mut client, path, "Range: bytes=1-2,5-6\r\n");
        table.check(path, (one.status, two.status), (206, 206));
        for name in kept {
            table.check(
                format!("{path} {name}"),
                (one.field(name), two.field(name)),
                (whole.field(name), whole.field(name)),
            );
        }
        table.check(path, one.field("content-type"), whole.field("content-type"));
        table.check(path, two.field("content-range"), None);
        for part in parts(&two) {
            table.check(path, Some(part.field("content-type")), whole.field("content-type"));
        }
        let beyond = request(&mut client, path, "Range: bytes=9999999-\r\n");
        table.check(path, beyond.status, 416);
        table.check(path, beyond.field("content-encoding"), None);
    }
}

#[test]
fn if_range_uses_strong_comparison() {
    let server = site().start();
    let mut client = server.connect();
    let content = small();
    let etag = request(&mut client, "/small.bin", "").field("etag").expect("files have one").to_owned();
    let mut table = Rows::new();
    for (value, applies) in [
        (&*etag, true),
        (DATE, true),
        ("Sunday, 06-Nov-94 08:49:37 GMT", true),
        ("Sun Nov  6 08:49:37 1994", true),
        (&format!("W/{etag}"), false),
        ("\"other\"", false),
        (&format!("\"other\", {etag}"), false),
        (&format!("{etag}, {etag}"), false),
        (&format!("{etag}\r\nIf-Range: {etag}"), false),
        (etag.trim_matches('"'), false),
        ("*", false),
        ("", false),
        ("Sun, 06 Nov 1994 08:49:36 GMT", false),
        ("Sun, 06 Nov 1994 08:49:38 GMT", false),
        ("Sun, 06 Nov 1994 08:49:37", false),
        ("yesterday", false),
    ] {
        for (range, expected) in [("2-3", "2-3"), ("2-3,7-8", "2-3 7-8"), ("1000-", "none")] {
            let fields = format!("If-Range: {value}\r\nRange: bytes={range}\r\n");
            let response = request(&mut client, "/small.bin", &fields);
            table.check(
                &fields,
                sent(&response, &content).as_str(),
                if applies { expected } else { "whole" },
            );
        }
        let response = request(&mut client, "/small.bin", &format!("If-Range: {value}\r\n"));
        table.check(format!("If-Range: {value} without Range"), response.status, 200);
    }
}

#[test]
fn ignores_ranges_in_methods_other_than_get() {
    let server = site().start();
    let mut table = Rows::new();
    for path in ["/small.bin", "/big.bin"] {
        for range in ["0-1", "0-1,5-6", "9999999-", "-1"] {
            let head =
                |fields: &str| server.request(format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
            let (with, without) = (head(&format!("Range: bytes={range}\r\n")), head(""));
            let input = format!("HEAD {path} {range}");
            table.check(&input, with.status, 200);
            table.check(&input, with.fields_but(&["date"]), without.fields_but(&["date"]));
        }
        let post = server.request(format!("POST {path} HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n"));
        table.check(format!("POST {path}"), post.status, 405);
    }
}

#[test]
fn ignores_ranges_for_responses_that_are_not_files() {
    let server = site()
        .file("404.html", "not here, and not in parts\n")
        .file("dir/a.txt", "hello\n")
        .file("index/index.html", "<p>index</p>\n")
        .config("listing = true\nerror_pages = { 404 = \"/404.html\" }")
        .config("[[route]]\npath = \"/old\"\nredirect = \"/new\"\n[[route]]\npath = \"/gone\"\nreturn = 410")
        .start();
    let mut table = Rows::new();
    for (path, status) in [
        ("/none", 404),
        ("/dir", 301),
        ("/dir/", 200),
        ("/dir/?format=json", 200),
        ("/old", 302),
        ("/gone", 410),
        ("/%zz", 400),
        ("/index/", 206),
    ] {
        for range in ["0-1", "0-1,5-6"] {
            let whole = server.get(path);
            let response = server.connect().get_with(path, &format!("Range: bytes={range}\r\n"));
            let input = format!("{path} {range}");
            table.check(&input, response.status, status);
            if status != 206 {
                table.check(&input, response.field("content-range"), None);
                table.holds(&input, "the body is whole", response.body == whole.body);
            }
        }
    }
}

/// A gzip file with `content` in it, not compressed (RFC 1951 §3.2.4, RFC 1952 §2.3).
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks = content.chunks(65_535).collect::<Vec<_>>();
    for (n, block) in blocks.iter().enumerate() {
        let len = block.len() as u16;
        out.push(u8::from(n + 1 == blocks.len()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend_from_slice(block);
    }
    let crc = content.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    out.extend((!crc).to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out
}

#[test]
fn sends_an_inflated_file_whole_or_in_correct_ranges() {
    for len in [900, 60_000, 500_000] {
        let content = Random::new(8).bytes(len);
        let packed = gzip(&content);
        let server = site().file("only.txt.gz", &packed).start();
        let mut client = server.connect();
        let whole = request(&mut client, "/only.txt", "");
        assert!(whole.status == 200 && whole.body == content, "{whole}");
        for range in ["0-9", "500-", "-5", "0-0,100-101", "9999999-"] {
            let response = request(&mut client, "/only.txt", &format!("Range: bytes={range}\r\n"));
            let found = sent(&response, &content);
            let (from, to) = (len - 5, len - 1);
            let parts = match range {
                "500-" => format!("500-{to}"),
                "-5" => format!("{from}-{to}"),
                "9999999-" => "none".to_owned(),
                range => range.replace(',', " "),
            };
            // If the size is known only at the end, there are no ranges.
            let ranges = whole.field("accept-ranges") == Some("bytes");
            assert_eq!(found, if ranges { parts } else { "whole".to_owned() }, "{range} of {len}");
            let response = request(
                &mut client,
                "/only.txt",
                &format!("Accept-Encoding: gzip\r\nRange: bytes={range}\r\n"),
            );
            assert_eq!(response.status, if range == "9999999-" { 416 } else { 206 }, "{range} of {len}");
            sent(&response, &packed);
        }
    }
}

#[test]
fn ranges_apply_to_the_selected_content_coding() {
    let (plain, gzip, brotli) =
        (Random::new(3).bytes(900), Random::new(4).bytes(700), Random::new(5).bytes(100_000));
    for cache in CACHES {
        let server =
            site().file("a.js", &plain).file("a.js.gz", &gzip).file("a.js.br", &brotli).config(cache).start();
        let mut client = server.connect();
        let mut table = Rows::new();
        let mut tags = Vec::new();
        for (encoding, content, coding) in
            [("identity", &plain, None), ("gzip", &gzip, Some("gzip")), ("br", &brotli, Some("br"))]
        {
            let accept = format!("Accept-Encoding: {encoding}\r\n");
            let whole = request(&mut client, "/a.js", &accept);
            let etag = whole.field("etag").expect("files have one").to_owned();
            for (range, expected) in [
                ("0-9", "0-9".to_owned()),
                ("-1", format!("{0}-{0}", content.len() - 1)),
                ("0-0,5-6", "0-0 5-6".to_owned()),
                ("600-", format!("600-{}", content.len() - 1)),
                ("100000-", "none".to_owned()),
            ] {
                let response = request(&mut client, "/a.js", &format!("{accept}Range: bytes={range}\r\n"));
                let input = format!("{encoding} {range}");
                table.check(&input, sent(&response, content), expected);
                if response.status == 206 {
                    table.check(&input, response.field("content-encoding"), coding);
                    table.check(&input, response.field("etag"), Some(&*etag));
                    table.check(&input, response.field("vary"), Some("Accept-Encoding"));
                }
            }
            tags.push((accept, etag, content));
        }
        for (n, (accept, _, content)) in tags.iter().enumerate() {
            for (m, (_, etag, _)) in tags.iter().enumerate() {
                let fields = format!("{accept}If-Range: {etag}\r\nRange: bytes=1-2\r\n");
                let response = request(&mut client, "/a.js", &fields);
                table.check(&fields, sent(&response, content).as_str(), if n == m { "1-2" } else { "whole" });
            }
        }
    }
}

/// One requested range.
#[derive(Clone, Copy)]
enum RequestedRange {
    Between(usize, usize),
    From(usize),
    Last(usize),
}

impl RequestedRange {
    fn random(random: &mut Random, size: usize) -> RequestedRange {
        // Near each other, or anywhere; some slightly beyond the end.
        let at = |random: &mut Random| match random.below(3) {
            0 => random.below(40),
            1 => (size as u64).saturating_sub(20) + random.below(40),
            _ => random.below(size as u64 + size as u64 / 8 + 1),
        } as usize;
        match random.below(8) {
            0 => RequestedRange::From(at(random)),
            1 => RequestedRange::Last(at(random)),
            _ => {
                let from = at(random);
                RequestedRange::Between(from, from + random.below(30) as usize)
            }
        }
    }

    fn text(self) -> String {
        match self {
            RequestedRange::Between(from, to) => format!("{from}-{to}"),
            RequestedRange::From(from) => format!("{from}-"),
            RequestedRange::Last(count) => format!("-{count}"),
        }
    }

    /// The first byte and the last.
    fn of(self, size: usize) -> Option<(usize, usize)> {
        match self {
            RequestedRange::Between(from, to) => (from < size).then(|| (from, to.min(size - 1))),
            RequestedRange::From(from) => (from < size).then(|| (from, size - 1)),
            RequestedRange::Last(count) => (count > 0).then(|| (size - count.min(size), size - 1)),
        }
    }
}

/// The expected ranges, found by marking every requested byte.
fn naive(requested: &[RequestedRange], size: usize) -> String {
    let there: Vec<(usize, usize)> = requested.iter().filter_map(|one| one.of(size)).collect();
    let mut painted = vec![false; size];
    for (from, to) in &there {
        painted[*from..=*to].fill(true);
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in painted.iter().enumerate().filter(|(_, painted)| **painted) {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == at => *to = at,
            _ => runs.push((at, at)),
        }
    }
    let sent = if runs.len() < there.len() { &runs } else { &there };
    match sent.len() {
        0 => "none".to_owned(),
        17.. => "whole".to_owned(),
        _ => sent.iter().map(|(from, to)| format!("{from}-{to}")).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn random_ranges_match_a_naive_implementation() {
    let (small, big) = (small(), big());
    for cache in CACHES {
        let server = site().config(cache).start();
        let mut random = Random::new(6);
        let mut table = Rows::new();
        let mut client = server.connect();
        for (path, content, requests) in [("/small.bin", &small, 300), ("/big.bin", &big, 8)] {
            for _ in 0..requests {
                let count = 1 + random.below(*random.clone().one_of(&[1, 3, 8, 20, 40]));
                let requested: Vec<RequestedRange> =
                    (0..count).map(|_| RequestedRange::random(&mut random, content.len())).collect();
                let value = requested.iter().map(|one| one.text()).collect::<Vec<_>>().join(",");
                let response = request(&mut client, path, &format!("Range: bytes={value}\r\n"));
                table.check(
                    format!("{path} {value}"),
                    sent(&response, content),
                    naive(&requested, content.len()),
                );
            }
        }
    }
}

#[test]
fn sends_large_ranges_completely() {
    let content = big();
    for cache in CACHES {
        let server = site().config(cache).start();
        let mut client = server.connect();
        let mut table = Rows::new();
        for (value, expected) in [
            ("bytes=1-", "1-2999999"),
            ("bytes=65535-65536", "65535-65536"),
            ("bytes=0-999999,2000000-", "0-999999 2000000-2999999"),
            ("bytes=2000000-,0-1000000,1500000-1500000", "2000000-2999999 0-1000000 1500000-1500000"),
            ("bytes=-2999999", "1-2999999"),
        ] {
            let response = request(&mut client, "/big.bin", &format!("Range: {value}\r\n"));
            table.check(value, sent(&response, &content).as_str(), expected);
        }
    }
}

#[test]
fn answers_pipelined_range_requests_in_order() {
    let (small, big) = (small(), big());
    let server = site().start();
    let mut random = Random::new(7);
    let requested: Vec<(bool, RequestedRange)> = (0..300)
        .map(|_| {
            let of_big = random.below(4) == 0;
            (of_big, RequestedRange::random(&mut random, if of_big { BIG } else { SMALL }))
        })
        .filter(|(of_big, requested)| !of_big || matches!(requested, RequestedRange::Between(..)))
        .collect();
    let mut client = server.connect();
    let requests = requested.iter().map(|(of_big, requested)| {
        let path = if *of_big { "big" } else { "small" };
        format!("GET /{path}.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={}\r\n\r\n", requested.text())
    });
    client.send(requests.collect::<String>());
    let mut table = Rows::new();
    for (of_big, requested) in requested {
        let content = if of_big { &big } else { &small };
        let response = client.read_response();
        table.check(requested.text(), sent(&response, content), naive(&[requested], content.len()));
    }
}
