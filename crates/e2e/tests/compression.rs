//! Compression: files, of which compressed copies are made once and kept.

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
    let is_made = wait_until(TIMEOUT, || {
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
            // The parts are those of the plain file.
            let fields = format!("Range: bytes=0-9\r\nIf-Range: {tag}\r\n");
            let response = request(&mut client, "GET", "/a.html", coding, &fields);
            rows.check(&row, (response.status, response.field("content-encoding")), (200, None));
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
