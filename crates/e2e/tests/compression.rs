//! Compression: files, of which compressed copies are made once and kept; and what is compressed while it is sent.

use std::fs;
use std::io::Read;
use std::time::Duration;

use e2e::{Client, Random, Response, Rows, Server, Site, TIMEOUT, tool, wait_until};

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

/// Text that gains: words in random order.
fn text(bytes: usize) -> String {
    let words = ["server", "request", "response", "the ", "<p>", "</p>\n", "connection", "a", "head", "of"];
    let (mut random, mut text) = (Random::new(7), String::new());
    while text.len() < bytes {
        text.push_str(random.one_of::<&str>(&words));
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

fn decode(coding: Option<&str>, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        None => plain.extend_from_slice(bytes),
        Some("gzip") => {
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("it is gzip");
        }
        Some("br") => {
            brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).expect("it is br");
        }
        Some("zstd") => {
            plain.reserve(16 << 20);
            zstd_safe::decompress(&mut plain, bytes).expect("it is zstd");
        }
        Some(other) => panic!("{other} was not accepted"),
    }
    plain
}

fn request(client: &mut Client, method: &str, path: &str, coding: &str, fields: &str) -> Response {
    client
        .request(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n{fields}\r\n"))
}

/// Requests `path` until its copy in `coding` is made.
fn made(server: &Server, path: &str, coding: &str) -> Response {
    let mut client = server.connect();
    let mut response = None;
    let is_made = wait_until(TIMEOUT * 6, || {
        let next = request(&mut client, "GET", path, coding, "");
        let is_made = next.field("content-encoding") == Some(coding);
        response = Some(next);
        is_made
    });
    assert!(is_made, "{path} in {coding}: {response:?}");
    response.expect("there was one")
}

#[test]
fn a_file_is_compressed_once_and_kept() {
    let contents = [("small.html", text(5000)), ("page.html", text(64 << 10)), ("large.json", text(1 << 20))];
    let site = contents.iter().fold(Site::new(), |site, (name, content)| site.file(name, content));
    let server = site.config("workers = 1").start();
    let mut rows = Rows::new();
    for (name, content) in &contents {
        let path = format!("/{name}");
        let plain = server.get(&path);
        rows.check(&path, plain.field("vary"), Some("Accept-Encoding"));
        let mut tags = vec![plain.field("etag").expect("files have one").to_owned()];
        for coding in CODINGS {
            let row = format!("{path} {coding}");
            let response = made(&server, &path, coding);
            rows.holds(&row, "is smaller", response.body.len() < content.len() / 2);
            rows.holds(&row, "decodes", decode(Some(coding), &response.body) == content.as_bytes());
            rows.check(&row, response.field("vary"), Some("Accept-Encoding"));
            rows.check(&row, response.field("content-type"), plain.field("content-type"));
            rows.check(&row, response.field("last-modified"), plain.field("last-modified"));
            rows.check(&row, response.field("accept-ranges"), None);
            let length = response.body.len().to_string();
            rows.check(&row, response.field("content-length"), Some(length.as_str()));
            tags.push(response.field("etag").expect("files have one").to_owned());
            let mut client = server.connect();
            let head = request(&mut client, "HEAD", &path, coding, "");
            rows.check(&row, head.fields_but(&["date"]), response.fields_but(&["date"]));
            let again = request(&mut client, "GET", &path, coding, "");
            rows.holds(&row, "is kept", again.body == response.body);
        }
        let mut different = tags.clone();
        different.sort();
        different.dedup();
        rows.check(&path, different.len(), 4);
        rows.holds(&path, "has strong tags", tags.iter().all(|tag| tag.starts_with('"')));
    }
}

/// RFC 9110 §12.5.3: such a client does not take the plain file, of which there is no copy yet.
#[test]
fn a_client_that_takes_only_a_coding_has_it_at_once() {
    let mut site = Site::new();
    let sizes = [5000, 64 << 10, 1 << 20];
    for size in sizes {
        for coding in CODINGS {
            site = site.file(&format!("{size}.{coding}.html"), text(size));
        }
    }
    let server = site.config("workers = 1").start();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for size in sizes {
        for coding in CODINGS {
            let path = format!("/{size}.{coding}.html");
            let first = request(&mut client, "GET", &path, &format!("{coding}, *;q=0"), "");
            rows.check(&path, first.field("content-encoding"), Some(coding));
            rows.check(&path, first.field("vary"), Some("Accept-Encoding"));
            rows.holds(
                &path,
                "decodes",
                decode(first.field("content-encoding"), &first.body) == text(size).as_bytes(),
            );
            let fields = format!("If-None-Match: {}\r\n", first.field("etag").expect("files have one"));
            let again = request(&mut client, "GET", &path, &format!("identity;q=0, {coding}"), &fields);
            rows.check(&path, again.status, 304);
            made(&server, &path, coding);
        }
    }
}

#[test]
fn each_copy_has_its_own_tag() {
    let server = Site::new().file("a.html", text(20_000)).config("workers = 1").start();
    let plain = server.get("/a.html").field("etag").expect("files have one").to_owned();
    let tags: Vec<(&str, String)> = CODINGS
        .iter()
        .map(|coding| {
            (*coding, made(&server, "/a.html", coding).field("etag").expect("it has one").to_owned())
        })
        .collect();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for coding in CODINGS {
        for (of, tag) in &tags {
            let row = format!("{coding} with the tag of {of}");
            let fields = format!("If-None-Match: {tag}\r\n");
            let response = request(&mut client, "GET", "/a.html", coding, &fields);
            rows.check(&row, response.status, if coding == *of { 304 } else { 200 });
            rows.check(&row, response.field("vary"), Some("Accept-Encoding"));
            if coding == *of {
                rows.check(&row, response.field("etag"), Some(tag.as_str()));
            }
            // The parts are those of the plain file. Without it, the client gets the whole, in its coding.
            let fields = format!("Range: bytes=0-9\r\nIf-Range: {tag}\r\n");
            let response = request(&mut client, "GET", "/a.html", coding, &fields);
            rows.check(&row, (response.status, response.field("content-encoding")), (200, Some(coding)));
        }
        let row = format!("{coding} with the plain tag");
        let response = request(&mut client, "GET", "/a.html", coding, &format!("If-None-Match: {plain}\r\n"));
        rows.check(&row, (response.status, response.field("etag")), (304, Some(plain.as_str())));
        let fields = format!("Range: bytes=0-9\r\nIf-Range: {plain}\r\n");
        let response = request(&mut client, "GET", "/a.html", coding, &fields);
        rows.check(&row, (response.status, response.body.len()), (206, 10));
        rows.check(&row, response.field("content-encoding"), None);
        rows.check(&row, response.field("vary"), Some("Accept-Encoding"));
    }
}

/// Where files are compressed while they are sent, whatever their size.
#[test]
fn an_empty_file_is_sent_as_it_is() {
    let server = Site::new()
        .every_protocol()
        .file("empty.html", "")
        .file("a.html", "a")
        .config("compress_kept = \"off\"\ncompress_from = 0")
        .start();
    let mut client = server.connect();
    for _ in 0..2 {
        let response = request(&mut client, "GET", "/empty.html", "gzip", "");
        assert_eq!((response.status, response.field("content-length")), (200, Some("0")), "{response}");
        assert!(!response.has("content-encoding"), "{response}");
        let response = request(&mut client, "GET", "/a.html", "gzip", "");
        assert_eq!(decode(response.field("content-encoding"), &response.body), b"a");
    }
}

#[test]
fn what_does_not_gain_is_not_compressed() {
    let noise = Random::new(3).bytes(30_000);
    let server = Site::new()
        .file("small.html", text(1023))
        .file("image.png", text(30_000))
        .file("unknown", text(30_000))
        .file("noise.html", &noise)
        .file("private.html", text(30_000))
        .file("set.html", text(30_000))
        .file("with.html", text(30_000))
        .file("with.html.gz", "it need not be gzip")
        .config(
            "workers = 1\ncache_control = { \"/private.html\" = \"no-transform\" }\n\
             [[route]]\npath = \"/set.html\"\nheaders = { Cache-Control = \"max-age=1, no-transform\" }",
        )
        .start();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for (path, vary) in [
        ("/small.html", None),
        ("/image.png", None),
        ("/unknown", None),
        ("/noise.html", Some("Accept-Encoding")),
        ("/private.html", None),
        ("/set.html", None),
        ("/with.html", Some("Accept-Encoding")),
    ] {
        for coding in ["br", "zstd", "identity", "deflate", "br;q=0", "*;q=0"] {
            let row = format!("{path} {coding}");
            let response = request(&mut client, "GET", path, coding, "");
            rows.check(&row, (response.status, response.field("content-encoding")), (200, None));
            rows.check(&row, response.field("vary"), vary);
        }
    }
    // Copies of other files are made behind those of this one.
    fs::write(server.root().join("last.html"), text(5000)).unwrap();
    made(&server, "/last.html", "br");
    let response = request(&mut client, "GET", "/noise.html", "br, zstd", "");
    rows.check("noise", (response.field("content-encoding"), response.body == noise), (None, true));
    rows.check(
        "precompressed",
        request(&mut client, "GET", "/with.html", "gzip", "").text().as_str(),
        "it need not be gzip",
    );
}

#[test]
fn a_change_of_the_file_is_seen() {
    let server = Site::new()
        .file("a.html", text(400_000))
        .config("workers = 1\n[cache]\ncheck = \"0s\"\nmissing = \"0s\"")
        .start();
    let mut client = server.connect();
    let path = server.root().join("a.html");
    for round in 0..6 {
        let content = format!("{round}{}", text(300_000 + 1000 * round));
        // While the copy of the content before is made, or when it is.
        fs::write(path.with_extension("new"), &content).unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        if round % 2 == 0 {
            made(&server, "/a.html", "br");
        }
        for coding in ["br", "gzip", "identity"] {
            let response = request(&mut client, "GET", "/a.html", coding, "");
            let found = decode(response.field("content-encoding"), &response.body);
            assert!(found == content.as_bytes(), "{round} {coding}: {}", response.body.len());
        }
    }
}

#[test]
fn copies_are_evicted_with_their_files() {
    let mut site = Site::new().config("workers = 1\n[cache]\nbytes = \"256KiB\"\nentries = 50");
    for number in 0..100 {
        site = site.file(&format!("{number}.html"), format!("{number} {}", text(20_000)));
    }
    let server = site.start();
    let mut client = server.connect();
    for round in 0..3 {
        for number in 0..100 {
            let path = format!("/{number}.html");
            let response = request(&mut client, "GET", &path, "gzip", "");
            let content = decode(response.field("content-encoding"), &response.body);
            assert!(content.starts_with(format!("{number} ").as_bytes()), "{round} {path}");
        }
    }
    made(&server, "/7.html", "zstd");
    let pid = server.serving_pid();
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(wait_until(TIMEOUT, || open() < 150), "{} descriptors", open());
}

#[test]
fn curl_decodes_what_it_asks_for() {
    let content = text(64 << 10);
    let server = Site::new().file("a.html", &content).config("workers = 1").start();
    for coding in CODINGS {
        made(&server, "/a.html", coding);
        let mut curl = tool("curl");
        curl.args([
            "-s",
            "--compressed",
            "-H",
            &format!("Accept-Encoding: {coding}"),
            &server.url("/a.html"),
        ]);
        let output = e2e::output_within(&mut curl, Duration::from_secs(20));
        assert!(output.status.success() && output.stdout == content.as_bytes(), "{coding}");
    }
}

/// As far as the bytes of a stream can be decoded.
fn decode_start(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain)),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain)),
        _ => {
            plain.reserve(1 << 20);
            let mut output = zstd_safe::OutBuffer::around(&mut plain);
            let mut input = zstd_safe::InBuffer::around(bytes);
            zstd_safe::DCtx::create().decompress_stream(&mut output, &mut input).expect("it is zstd");
        }
    }
    plain
}

const COMPRESSED_SCRIPTS: &str =
    "workers = 1\ncompress_scripts = true\n[[route]]\npath = \"*.cgi\"\ncgi = true";

/// A script that prints this head and `bytes` of text.
fn printing(head: &str, bytes: usize) -> String {
    format!("#!/bin/sh\nprintf '{head}\\n\\n'\nhead -c {bytes} \"$DOCUMENT_ROOT/text.txt\"\n")
}

#[test]
fn output_of_a_script_is_compressed_and_flushed() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nfor part in 1 2 3; do\n\
                  echo \"this is part $part\"\nuntil test -e \"$DOCUMENT_ROOT/go$part\"; do sleep 0.02; done\ndone\n";
    for coding in CODINGS {
        let server = Site::new().script("a.cgi", script).config(COMPRESSED_SCRIPTS).start();
        let mut client = server.connect();
        client.send(format!("GET /a.cgi HTTP/1.0\r\nAccept-Encoding: {coding}\r\n\r\n"));
        let (mut seen, mut plain) = (Vec::new(), String::new());
        for part in 1..=3 {
            // The client has a part before the script goes on.
            while !plain.contains(&format!("part {part}\n")) {
                let more = client.read_some().expect("the server sends");
                assert!(!more.is_empty(), "{coding} ends after {plain}");
                seen.extend(more);
                let head = seen.windows(4).position(|end| end == b"\r\n\r\n").map_or(seen.len(), |at| at + 4);
                plain = String::from_utf8(decode_start(coding, &seen[head..])).expect("it is text");
            }
            server.files().file(&format!("www/go{part}"), "");
        }
        seen.extend(client.read_to_end());
        let head = seen.windows(4).position(|end| end == b"\r\n\r\n").expect("it has a head") + 4;
        let expected = "this is part 1\nthis is part 2\nthis is part 3\n";
        assert_eq!(String::from_utf8(decode(Some(coding), &seen[head..])).as_deref(), Ok(expected));
    }
}

#[test]
fn responses_of_scripts_are_compressed_if_they_gain() {
    let html = "Content-Type: text/html";
    let gains = [
        ("plain", html.to_owned(), 100_000),
        ("ready", html.to_owned(), 5000),
        ("sized", format!("{html}\\nContent-Length: 50000"), 50_000),
        ("error", format!("Status: 404\\n{html}"), 5000),
        ("tag", format!("{html}\\nETag: \"a\"\\nVary: Cookie\\nAccept-Ranges: bytes"), 5000),
        ("json", "Content-Type: application/problem+json".to_owned(), 30_000),
    ];
    let not = [
        ("small", format!("{html}\\nContent-Length: 100"), 100),
        ("image", "Content-Type: image/png".to_owned(), 5000),
        ("untyped", "X-A: b".to_owned(), 5000),
        ("coded", format!("{html}\\nContent-Encoding: x-own"), 5000),
        ("forbidden", format!("{html}\\nCache-Control: private, no-transform"), 5000),
        ("digest", format!("{html}\\nContent-Digest: sha-256=:AAAA:"), 5000),
        ("repr-digest", format!("{html}\\nRepr-Digest: sha-256=:AAAA:"), 5000),
        ("part", format!("Status: 206\\n{html}\\nContent-Range: bytes 0-4999/9999"), 5000),
    ];
    let all = text(100_000);
    let site =
        gains.iter().chain(&not).fold(Site::new().file("text.txt", &all), |site, (name, head, bytes)| {
            site.script(&format!("{name}.cgi"), printing(head, *bytes))
        });
    let server = site.config(COMPRESSED_SCRIPTS).start();
    let mut rows = Rows::new();
    for coding in CODINGS {
        for (name, _, bytes) in &gains {
            let (row, path) = (format!("{name} {coding}"), format!("/{name}.cgi"));
            let response = request(&mut server.connect(), "GET", &path, coding, "");
            rows.check(&row, response.field("content-encoding"), Some(coding));
            let body = decode(response.field("content-encoding"), &response.body);
            rows.holds(&row, "decodes", body == all.as_bytes()[..*bytes]);
            rows.holds(&row, "is smaller", response.body.len() < bytes / 2);
            rows.holds(&row, "varies", response.values("vary").contains(&"Accept-Encoding"));
            rows.check(&row, response.status, if *name == "error" { 404 } else { 200 });
            if *name == "tag" {
                rows.check(&row, response.field("etag"), Some("W/\"a\""));
                rows.check(&row, response.values("vary"), vec!["Cookie", "Accept-Encoding"]);
                rows.check(&row, response.has("accept-ranges"), false);
            }
            let head = request(&mut server.connect(), "HEAD", &path, coding, "");
            // Without the content, only a length tells whether it gains.
            let is_known = (*name == "sized").then_some(coding);
            rows.check(format!("HEAD {row}"), head.field("content-encoding"), is_known);
            rows.check(format!("HEAD {row}"), (head.has("content-length"), head.body.len()), (false, 0));
            check_head(&mut rows, &row, &head, &response);
            let plain = request(&mut server.connect(), "GET", &path, "identity", "");
            rows.check(&row, (plain.has("content-encoding"), plain.body.len()), (false, *bytes));
            rows.holds(&row, "varies", plain.values("vary").contains(&"Accept-Encoding"));
            let range = request(&mut server.connect(), "GET", &path, coding, "Range: bytes=0-9\r\n");
            rows.check(format!("range {row}"), range.field("content-encoding"), None);
        }
        for (name, _, bytes) in &not {
            let row = format!("{name} {coding}");
            let response = request(&mut server.connect(), "GET", &format!("/{name}.cgi"), coding, "");
            let expected = (*name == "coded").then_some("x-own");
            rows.check(&row, (response.field("content-encoding"), response.body.len()), (expected, *bytes));
            // A longer one would be compressed, and the whole that a part is of.
            rows.check(&row, response.has("vary"), ["part", "small"].contains(name));
        }
    }
}

const VARIES: Option<&str> = Some("Accept-Encoding");

/// The fields of the response to HEAD are those of the response to GET, but for some that it may leave out.
fn check_head(rows: &mut Rows, row: &str, head: &Response, get: &Response) {
    rows.check(format!("HEAD {row}"), (head.status, head.body.len()), (get.status, 0));
    let of_get = get.fields_but(&["date"]);
    for field in head.fields_but(&["date"]) {
        rows.holds(format!("HEAD {row}"), &format!("GET has {field:?}, too"), of_get.contains(&field));
    }
}

#[test]
fn the_response_to_head_has_no_other_fields_than_that_to_get() {
    let fields = "Content-Type: text/html\\nETag: \"a\"\\nAccept-Ranges: bytes";
    let scripts = [("tiny", 10), ("small", 900), ("ready", 5000), ("large", 90_000)];
    let mut site = Site::new()
        .file("text.txt", text(90_000))
        .file("noise.txt", Random::new(5).bytes(5000))
        .file("part.html", text(5000))
        .file("tiny.shtml", "<!--#include file=\"none.txt\" -->")
        .file("none.txt", "")
        .file("page.shtml", "<!--#include file=\"part.html\" -->")
        .file("mixed.shtml", "<!--#include virtual=\"ready.cgi\" --><!--#include file=\"part.html\" -->")
        .file("time.shtml", text(5000) + "<!--#echo var=\"DATE_GMT\" -->")
        .script(
            "noise.cgi",
            format!("#!/bin/sh\nprintf '{fields}\\nContent-Length: 5000\\n\\n'\ncat \"$DOCUMENT_ROOT/noise.txt\"\n"),
        );
    for (name, bytes) in scripts {
        let sized = format!("{fields}\\nContent-Length: {bytes}");
        site = site
            .script(&format!("{name}.cgi"), printing(fields, bytes))
            .script(&format!("{name}-sized.cgi"), printing(&sized, bytes));
    }
    let server = site
        .config(&format!(
            "includes = true\ncache_control = \"public, max-age=60\"\n{COMPRESSED_SCRIPTS}\nincludes = false"
        ))
        .start();
    let paths = scripts.iter().flat_map(|(name, _)| [format!("/{name}.cgi"), format!("/{name}-sized.cgi")]);
    let pages = ["tiny.shtml", "page.shtml", "mixed.shtml", "time.shtml", "noise.cgi"];
    let paths = paths.chain(pages.map(|name| format!("/{name}")));
    let mut rows = Rows::new();
    for path in paths {
        // The files are in the cache then.
        request(&mut server.connect(), "GET", &path, "identity", "");
        for coding in ["gzip", "br, gzip", "identity"] {
            let row = format!("{path} {coding}");
            let get = request(&mut server.connect(), "GET", &path, coding, "");
            let head = request(&mut server.connect(), "HEAD", &path, coding, "");
            check_head(&mut rows, &row, &head, &get);
            rows.holds(&row, "HEAD has the type", head.has("content-type"));
            rows.check(&row, (head.field("vary"), get.field("vary")), (VARIES, VARIES));
            if coding == "identity" && !path.ends_with(".shtml") {
                rows.check(&row, head.field("etag"), Some("\"a\""));
            }
            if path == "/page.shtml" {
                rows.check(&row, head.field("content-encoding"), get.field("content-encoding"));
                rows.check(&row, head.field("content-length"), get.field("content-length"));
                let tag = get.field("etag").expect("files alone decide the content");
                let fields = format!("If-None-Match: {tag}\r\n");
                let same = request(&mut server.connect(), "GET", &path, coding, &fields);
                rows.check(&row, (same.status, same.field("etag")), (304, Some(tag)));
                rows.check(&row, same.field("vary"), Some("Accept-Encoding"));
            }
        }
    }
}

#[test]
fn scripts_are_not_compressed_by_default() {
    let server = Site::new()
        .file("text.txt", text(5000))
        .script("a.cgi", printing("Content-Type: text/html", 5000))
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true")
        .start();
    let response = request(&mut server.connect(), "GET", "/a.cgi", "br, gzip", "");
    assert_eq!((response.field("content-encoding"), response.has("vary")), (None, false));
}

#[test]
fn large_files_are_compressed_while_they_are_sent() {
    let large = text(9 << 20);
    let server = Site::new()
        .file("large.html", &large)
        .file("once/small.html", text(3000))
        .file("once/page.html", text(40_000))
        .config("workers = 1\n[[route]]\npath = \"/once/\"\ncompress_kept = \"off\"")
        .start();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for (path, content) in
        [("/large.html", &large), ("/once/small.html", &text(3000)), ("/once/page.html", &text(40_000))]
    {
        let plain = server.get(path);
        rows.check(path, plain.field("vary"), Some("Accept-Encoding"));
        let weak = format!("W/{}", plain.field("etag").expect("files have one"));
        for coding in CODINGS {
            let row = format!("{path} {coding}");
            let response = request(&mut client, "GET", path, coding, "");
            rows.check(&row, response.field("content-encoding"), Some(coding));
            rows.holds(&row, "decodes", decode(Some(coding), &response.body) == content.as_bytes());
            rows.check(&row, response.field("etag"), Some(weak.as_str()));
            rows.check(
                &row,
                (response.field("vary"), response.has("accept-ranges")),
                (Some("Accept-Encoding"), false),
            );
            let fields = format!("If-None-Match: {weak}\r\n");
            let response = request(&mut client, "GET", path, coding, &fields);
            rows.check(&row, (response.status, response.field("etag")), (304, Some(weak.as_str())));
            let response = request(&mut client, "GET", path, coding, "Range: bytes=5-9\r\n");
            rows.check(&row, (response.status, response.text().as_str()), (206, &content[5..10]));
            let head = request(&mut client, "HEAD", path, coding, "");
            rows.check(&row, (head.field("content-encoding"), head.body.len()), (Some(coding), 0));
        }
    }
}

#[test]
fn too_many_streams_are_not_compressed() {
    let large = text(9 << 20);
    let server = Site::new()
        .file("large.html", &large)
        .config("workers = 1\n[limits]\ncompressed_streams = 2")
        .start();
    // They read no further than the head.
    let mut slow: Vec<Client> = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect();
        client.set_receive_buffer(4096);
        client.send("GET /large.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        assert_eq!(client.read_response_to_head().field("content-encoding"), Some("gzip"));
        slow.push(client);
    }
    let response = request(&mut server.connect(), "GET", "/large.html", "gzip", "");
    assert_eq!((response.field("content-encoding"), response.field("vary")), (None, Some("Accept-Encoding")));
    assert!(response.body == large.as_bytes());
    drop(slow);
    made(&server, "/large.html", "gzip");
}

#[test]
fn listings_and_error_pages_are_compressed() {
    let mut site = Site::new().file("missing.html", text(20_000)).folder("few");
    for number in 0..200 {
        site = site.file(&format!("many/{number}.txt"), "");
    }
    let server = site
        .config("workers = 1\nlisting = true\nerror_pages = { 404 = \"/missing.html\" }\n[cache]\nbytes = \"200KiB\"")
        .start();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for coding in CODINGS {
        for path in ["/many/", "/many/", "/many/?json"] {
            let row = format!("{path} {coding}");
            let plain = request(&mut client, "GET", path, "identity", "").body;
            let response = request(&mut client, "GET", path, coding, "");
            rows.check(&row, response.field("content-encoding"), Some(coding));
            rows.check(&row, response.field("vary"), Some("Accept, Accept-Encoding"));
            rows.holds(&row, "decodes", decode(Some(coding), &response.body) == plain);
        }
        let page = wait_until(TIMEOUT * 6, || {
            let response = request(&mut client, "GET", "/none", coding, "");
            let body = decode(response.field("content-encoding"), &response.body);
            assert!(response.status == 404 && body == text(20_000).as_bytes(), "{coding}");
            response.field("content-encoding") == Some(coding)
        });
        rows.check(coding, page, true);
        // Without Accept-Encoding, and of a request with conditions and ranges.
        rows.check(coding, server.get("/none").text().as_str(), text(20_000).as_str());
        let fields = "Range: bytes=0-9\r\nIf-None-Match: *\r\n";
        let response = request(&mut client, "GET", "/none", coding, fields);
        rows.check(coding, (response.status, response.has("content-range")), (404, false));
    }
}

/// Two versions of a program: most lines are the same.
fn program(version: u32) -> String {
    let line = |number: u32| match number % 100 {
        50 => format!("export const changed{number} = {version};\n"),
        _ => format!("export const value{number} = \"{:08x}\";\n", number.wrapping_mul(0x9e37_79b9)),
    };
    (0..3000).map(line).collect()
}

/// The value of `Available-Dictionary`.
fn name_of(dictionary: &[u8]) -> String {
    let digest = <sha2::Sha256 as sha2::Digest>::digest(dictionary);
    format!(":{}:", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, digest))
}

fn decode_delta(coding: &str, dictionary: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let hash = <sha2::Sha256 as sha2::Digest>::digest(dictionary);
    if coding == "dcb" {
        assert_eq!((&bytes[..4], &bytes[4..36]), (&b"\xffDCB"[..], &hash[..]));
        let mut decoder = brotli::Decompressor::new(&bytes[36..], 4096);
        assert!(decoder.attach_dictionary(dictionary.to_vec().into()));
        decoder.read_to_end(&mut plain).expect("it is br");
    } else {
        assert_eq!((&bytes[..8], &bytes[8..40]), (&b"\x5e\x2a\x4d\x18\x20\0\0\0"[..], &hash[..]));
        plain.reserve(1 << 20);
        let mut context = zstd_safe::DCtx::create();
        context.ref_prefix(dictionary).expect("it is a dictionary");
        context.decompress(&mut plain, bytes).expect("it is zstd, behind a skippable frame");
    }
    plain
}

/// Requests `path` with a dictionary until its delta in `coding` is made.
fn made_with(server: &Server, path: &str, coding: &str, dictionary: &[u8]) -> Response {
    let fields = format!("Available-Dictionary: {}\r\n", name_of(dictionary));
    let mut response = None;
    let is_made = wait_until(TIMEOUT * 6, || {
        let next = request(&mut server.connect(), "GET", path, &format!("gzip, br, zstd, {coding}"), &fields);
        let is_made = next.field("content-encoding") == Some(coding);
        response = Some(next);
        is_made
    });
    assert!(is_made, "{path} in {coding}: {response:?}");
    response.expect("there was one")
}

const DICTIONARIES: &str = "workers = 1\n[[route]]\npath = \"/app/\"\ndictionary = \"/app/*.js\"\n\
                            cache_control = \"max-age=3600\"\n[cache]\ncheck = \"0s\"\nmissing = \"0s\"";

#[test]
fn a_client_with_an_earlier_version_gets_the_difference() {
    let (old, new) = (program(1), program(2));
    let server = Site::new()
        .file("app/a.1.js", &old)
        .file("app/a.2.js", &new)
        .file("app/image.png", &old)
        .file("other.js", &new)
        .config(DICTIONARIES)
        .start();
    let mut rows = Rows::new();
    let plain = server.get("/app/a.2.js");
    let vary = Some("Accept-Encoding, Available-Dictionary");
    rows.check("plain", plain.field("use-as-dictionary"), Some("match=\"/app/*.js\""));
    rows.check("plain", plain.field("vary"), vary);
    let weak = format!("W/{}", plain.field("etag").expect("files have one"));
    for coding in ["dcb", "dcz"] {
        // The old version was never requested: it is found in the folder.
        let response = made_with(&server, "/app/a.2.js", coding, old.as_bytes());
        rows.holds(coding, "decodes", decode_delta(coding, old.as_bytes(), &response.body) == new.as_bytes());
        rows.holds(coding, "is small", response.body.len() < new.len() / 50);
        rows.check(coding, response.field("vary"), vary);
        rows.check(coding, response.field("use-as-dictionary"), Some("match=\"/app/*.js\""));
        rows.check(coding, response.field("etag"), Some(weak.as_str()));
        let fields = format!("Available-Dictionary: {}\r\n", name_of(old.as_bytes()));
        let mut client = server.connect();
        let head = request(&mut client, "HEAD", "/app/a.2.js", coding, &fields);
        rows.check(coding, head.fields_but(&["date"]), response.fields_but(&["date"]));
        // The client has the present version.
        let fresh = format!("Available-Dictionary: {}\r\nIf-None-Match: {weak}\r\n", name_of(new.as_bytes()));
        let response = request(&mut client, "GET", "/app/a.2.js", coding, &fresh);
        rows.check(coding, (response.status, response.field("vary")), (304, vary));
        let range =
            request(&mut client, "GET", "/app/a.2.js", coding, &format!("{fields}Range: bytes=0-9\r\n"));
        rows.check(coding, (range.status, range.text().as_str()), (206, &new[..10]));
        // The dictionary alone, or the coding alone, is not enough.
        for (row, codings, fields) in [
            ("no coding", "gzip, *", fields.as_str()),
            ("refused", &format!("{coding};q=0"), fields.as_str()),
            ("lighter", &format!("{coding};q=0.1, gzip;q=0.9"), fields.as_str()),
            ("no dictionary", coding, ""),
            ("malformed", coding, "Available-Dictionary: :AAAA:\r\n"),
            (
                "a page that may not read it",
                coding,
                &format!("{fields}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"),
            ),
            ("unknown", coding, "Available-Dictionary: :47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\r\n"),
        ] {
            let response = request(&mut client, "GET", "/app/a.2.js", codings, fields);
            let found = response.field("content-encoding");
            rows.holds(
                format!("{row} {coding}"),
                "has no delta",
                !found.is_some_and(|c| c.starts_with("dc")),
            );
        }
    }
    for path in ["/app/image.png", "/other.js"] {
        rows.check(path, server.get(path).has("use-as-dictionary"), false);
    }
}

#[test]
fn a_file_that_is_replaced_is_a_dictionary_of_its_successor() {
    let server = Site::new().file("app/a.js", program(1)).config(DICTIONARIES).start();
    for version in 1..4 {
        let (old, new) = (program(version), program(version + 1));
        assert_eq!(server.get("/app/a.js").text(), old);
        // It is remembered behind what was asked for before.
        made(&server, "/app/a.js", "gzip");
        server.files().file("www/app/a.js~", &new);
        fs::rename(server.root().join("app/a.js~"), server.root().join("app/a.js")).unwrap();
        let response = made_with(&server, "/app/a.js", "dcz", old.as_bytes());
        assert!(decode_delta("dcz", old.as_bytes(), &response.body) == new.as_bytes(), "{version}");
        let other = request(&mut server.connect(), "GET", "/app/a.js", "identity", "");
        assert_eq!(other.text(), new);
    }
}
