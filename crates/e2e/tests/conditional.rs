//! Preconditions (RFC 9110 §13): five fields, their order, and the fields of 304.

use std::fs::File;
use std::time::{Duration, SystemTime};

use e2e::{Response, Rows, Server, Site, TIMEOUT, wait_until};

const MODIFIED: u64 = 784_111_777;
/// `MODIFIED` in the three date formats of RFC 9110 §5.6.7, and the seconds around it.
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const DATE_850: &str = "Sunday, 06-Nov-94 08:49:37 GMT";
const DATE_ASCTIME: &str = "Sun Nov  6 08:49:37 1994";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const EARLIER_850: &str = "Sunday, 06-Nov-94 08:49:36 GMT";
const EARLIER_ASCTIME: &str = "Sun Nov  6 08:49:36 1994";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn site() -> Site {
    Site::new()
        .every_protocol()
        .file("a.txt", "0123456789")
        .modified("a.txt", MODIFIED)
        .file("large.bin", vec![7; 200_000])
        .modified("large.bin", MODIFIED)
        .folder("dir")
}

fn request(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.request(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

/// Each row: field lines joined by ` & `, in which `{E}` is the entity tag, and the status for GET and for
/// HEAD.
fn check(server: &Server, rows: &[(String, u16)]) {
    let mut table = Rows::new();
    for path in ["/a.txt", "/large.bin"] {
        let whole = server.get(path);
        let etag = whole.field("etag").expect("files have one");
        for (lines, status) in rows {
            let fields: String = lines.split(" & ").map(|line| format!("{line}\r\n")).collect();
            let fields = fields.replace("{E}", etag);
            for method in ["GET", "HEAD"] {
                let response = request(server, method, path, &fields);
                let input = format!("{method} {path} {lines}");
                table.check(&input, response.status, *status);
                if *status == 200 && method == "GET" {
                    table.holds(&input, "200 has the whole content", response.body == whole.body);
                }
                if *status == 304 {
                    table.check(&input, response.field("etag"), Some(etag));
                    table.check(&input, response.body.len(), 0);
                }
            }
        }
    }
}

fn rows(rows: &[(&str, u16)]) -> Vec<(String, u16)> {
    rows.iter().map(|(lines, status)| ((*lines).to_owned(), *status)).collect()
}

#[test]
fn entity_tags_are_compared_weakly_or_strongly() {
    check(
        &site().start(),
        &rows(&[
            ("X: y", 200),
            ("If-None-Match: {E}", 304),
            ("if-none-match:{E}", 304),
            ("If-None-Match: W/{E}", 304),
            ("If-None-Match: \"other\"", 200),
            ("If-None-Match: \"other\", {E}", 304),
            ("If-None-Match: {E}, \"other\"", 304),
            ("If-None-Match: \"a,b\",W/\"c\" ,\t{E}", 304),
            ("If-None-Match: , {E},", 304),
            ("If-None-Match: \"other\" & If-None-Match: {E}", 304),
            ("If-None-Match: \"a\", \"b\"", 200),
            ("If-None-Match: *", 304),
            ("If-None-Match: \"*\"", 200),
            ("If-None-Match: \"\"", 200),
            // An invalid entity tag: the client gets the file.
            ("If-None-Match: other", 200),
            ("If-None-Match: \"other", 200),
            ("If-None-Match: w/{E}", 200),
            ("If-None-Match: W/ {E}", 200),
            ("If-None-Match:", 200),
            ("If-Match: {E}", 200),
            ("If-Match: \"other\", {E}", 200),
            ("If-Match: \"other\" & If-Match: {E}", 200),
            ("If-Match: *", 200),
            ("If-Match: W/{E}", 412),
            ("If-Match: \"other\"", 412),
            ("If-Match: \"a\", \"b\"", 412),
            ("If-Match: \"*\"", 412),
        ]),
    );
}

#[test]
fn dates_are_read_in_three_formats_or_ignored() {
    let mut all = Vec::new();
    for (date, since, unmodified) in [
        (DATE, 304, 200),
        (DATE_850, 304, 200),
        (DATE_ASCTIME, 304, 200),
        (LATER, 304, 200),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 304, 200),
        ("Wednesday, 01-Jan-20 00:00:00 GMT", 304, 200),
        ("Wed Jan  1 00:00:00 2020", 304, 200),
        (EARLIER, 200, 412),
        (EARLIER_850, 200, 412),
        (EARLIER_ASCTIME, 200, 412),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 200, 412),
        // A wrong weekday.
        ("Tue, 06 Nov 1994 08:49:37 GMT", 304, 200),
        ("Tuesday, 06-Nov-94 08:49:36 GMT", 200, 412),
        // None of these is a date.
        ("", 200, 200),
        ("yesterday", 200, 200),
        ("784111777", 200, 200),
        ("1994-11-06T08:49:37Z", 200, 200),
        ("Sun, 06 Nov 1994 08:49:37", 200, 200),
        ("Sun, 06 Nov 1994 08:49:37 CET", 200, 200),
        ("Sun, 06 Nov 1994 08:49:37 +0000", 200, 200),
        ("Sun, 6 Nov 1994 08:49:37 GMT", 200, 200),
        ("Sun, 31 Feb 1994 08:49:37 GMT", 200, 200),
        ("Sun, 06 Nov 1994 24:49:37 GMT", 200, 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT; length=10", 200, 200),
    ] {
        all.push((format!("If-Modified-Since: {date}"), since));
        all.push((format!("If-Unmodified-Since: {date}"), unmodified));
    }
    // A repeated field is not a valid date either.
    all.push((format!("If-Modified-Since: {DATE} & If-Modified-Since: {DATE}"), 200));
    all.push((format!("If-Unmodified-Since: {EARLIER} & If-Unmodified-Since: {EARLIER}"), 200));
    check(&site().start(), &all);
}

#[test]
fn evaluates_preconditions_in_order() {
    let date = |name: &str, date: &str| format!("{name}: {date}");
    let (since, unmodified) =
        (|d: &str| date("If-Modified-Since", d), |d: &str| date("If-Unmodified-Since", d));
    let all = [
        // Step 1 excludes step 2.
        (format!("If-Match: {{E}} & {}", unmodified(EARLIER)), 200),
        (format!("If-Match: \"x\" & {}", unmodified(LATER)), 412),
        (format!("{} & If-Match: *", unmodified(EARLIER)), 200),
        // Steps 1 and 2 come before 3 and 4.
        ("If-Match: \"x\" & If-None-Match: {E}".to_owned(), 412),
        ("If-None-Match: {E} & If-Match: \"x\"".to_owned(), 412),
        ("If-Match: {E} & If-None-Match: {E}".to_owned(), 304),
        ("If-Match: {E} & If-None-Match: \"x\"".to_owned(), 200),
        (format!("{} & If-None-Match: {{E}}", unmodified(EARLIER)), 412),
        (format!("{} & If-None-Match: {{E}}", unmodified(DATE)), 304),
        (format!("{} & {}", unmodified(EARLIER), since(DATE)), 412),
        (format!("{} & {}", unmodified(DATE), since(DATE)), 304),
        (format!("{} & {}", unmodified(DATE), since(EARLIER)), 200),
        (format!("If-Match: {{E}} & {}", since(DATE)), 304),
        (format!("If-Match: \"x\" & {}", since(DATE)), 412),
        // Step 3 excludes step 4.
        (format!("If-None-Match: \"x\" & {}", since(LATER)), 200),
        (format!("If-None-Match: {{E}} & {}", since(EARLIER)), 304),
        (format!("{} & If-None-Match: \"x\"", since(LATER)), 200),
        // All of them.
        (format!("If-Match: {{E}} & {} & If-None-Match: \"x\" & {}", unmodified(EARLIER), since(LATER)), 200),
        (
            format!("If-Match: {{E}} & {} & If-None-Match: {{E}} & {}", unmodified(EARLIER), since(EARLIER)),
            304,
        ),
    ];
    check(&site().start(), &all);
}

#[test]
fn evaluates_preconditions_before_ranges() {
    let server = site().start();
    let etag = server.get("/a.txt").field("etag").expect("files have one").to_owned();
    let mut table = Rows::new();
    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 206),
        (format!("If-Match: {etag}\r\n"), 206),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Modified-Since: {DATE}\r\n"), 304),
        (format!("If-Modified-Since: {EARLIER}\r\n"), 206),
        (format!("If-Unmodified-Since: {DATE}\r\n"), 206),
        (format!("If-Unmodified-Since: {EARLIER}\r\n"), 412),
        (format!("If-None-Match: {etag}\r\nIf-Range: \"x\"\r\n"), 304),
        (format!("If-Match: {etag}\r\nIf-Range: \"x\"\r\n"), 200),
        (format!("If-Match: {etag}\r\nIf-Range: {etag}\r\n"), 206),
        (format!("If-Match: \"x\"\r\nIf-Range: {etag}\r\n"), 412),
    ] {
        let found = request(&server, "GET", "/a.txt", &format!("Range: bytes=2-3\r\n{fields}"));
        table.check(&fields, found.status, status);
        let found = request(&server, "GET", "/a.txt", &format!("{fields}Range: bytes=100-\r\n"));
        table.check(&fields, found.status, if status == 206 { 416 } else { status });
    }
}

#[test]
fn preconditions_change_only_responses_of_200() {
    let server = site()
        .file("404.html", "not here\n")
        .modified("404.html", MODIFIED)
        .config("error_pages = { 404 = \"/404.html\" }\n[[route]]\npath = \"/old\"\nredirect = \"/new\"")
        .start();
    let mut table = Rows::new();
    for fields in [
        "If-Match: *\r\n",
        "If-Match: \"x\"\r\n",
        "If-None-Match: *\r\n",
        &format!("If-Modified-Since: {LATER}\r\n"),
    ] {
        for (method, path, status) in [
            ("GET", "/none", 404),
            ("HEAD", "/none", 404),
            ("OPTIONS", "/a.txt", 204),
            ("OPTIONS", "*", 204),
            ("GET", "/dir", 301),
            ("GET", "/dir/", 403),
            ("GET", "/old", 302),
            ("POST", "/a.txt", 405),
            ("DELETE", "/a.txt", 405),
            ("BREW", "/a.txt", 501),
            ("GET", "/%zz", 400),
        ] {
            let input = format!("{method} {path} {fields}");
            table.check(&input, request(&server, method, path, fields).status, status);
        }
    }
}

#[test]
fn sends_the_fields_for_caches_with_304() {
    let server = site()
        .file("both.js", "plain")
        .file("both.js.gz", "not really gzip")
        .config("cache_control = \"max-age=60\"\nheaders = { X-Own = \"yes\", Expires = \"0\" }")
        .start();
    let mut table = Rows::new();
    for (path, encoding) in
        [("/a.txt", ""), ("/large.bin", ""), ("/both.js", ""), ("/both.js", "Accept-Encoding: gzip\r\n")]
    {
        let input = format!("{path} {encoding}");
        let whole = request(&server, "GET", path, encoding);
        let etag = whole.field("etag").expect("files have one");
        let again = request(&server, "GET", path, &format!("{encoding}If-None-Match: {etag}\r\n"));
        table.check(&input, (whole.status, again.status), (200, 304));
        // RFC 9110 §15.4.5.
        for name in ["etag", "cache-control", "vary", "expires", "content-location"] {
            table.check(format!("{input} {name}"), again.field(name), whole.field(name));
        }
        table.check(&input, again.has("date"), true);
        for name in ["content-type", "content-encoding", "content-range", "transfer-encoding"] {
            table.check(format!("{input} {name}"), again.field(name), None);
        }
        let length = again.field("content-length");
        table.holds(
            &input,
            "its length is that of 200, if any",
            length.is_none() || length == whole.field("content-length"),
        );
    }
}

#[test]
fn each_content_coding_has_its_own_entity_tag() {
    let server = site().file("both.js", "plain").file("both.js.gz", "not really gzip").start();
    let etag = |encoding: &str| {
        request(&server, "GET", "/both.js", encoding).field("etag").expect("files have one").to_owned()
    };
    let gzip = "Accept-Encoding: gzip\r\n";
    let (plain_tag, gzip_tag) = (etag(""), etag(gzip));
    assert_ne!(plain_tag, gzip_tag);
    let mut table = Rows::new();
    for (encoding, tag, status) in
        [("", &plain_tag, 304), ("", &gzip_tag, 200), (gzip, &plain_tag, 200), (gzip, &gzip_tag, 304)]
    {
        let found = request(&server, "GET", "/both.js", &format!("{encoding}If-None-Match: {tag}\r\n"));
        table.check(format!("{encoding}{tag}"), found.status, status);
        let found = request(&server, "GET", "/both.js", &format!("{encoding}If-Match: {tag}\r\n"));
        table.check(format!("{encoding}{tag}"), found.status, if status == 304 { 200 } else { 412 });
    }
}

#[test]
fn content_entity_tags_do_not_depend_on_the_path() {
    let one = site().file("b.txt", "0123456789").config("etag = \"content\"").start();
    let other = site().config("etag = \"content\"").start();
    let tag = |server: &Server, path: &str| server.get(path).field("etag").map(str::to_owned);
    assert!(tag(&one, "/a.txt").is_some());
    assert_eq!(tag(&one, "/a.txt"), tag(&other, "/a.txt"));
    assert_eq!(tag(&one, "/a.txt"), tag(&one, "/b.txt"));
}

#[test]
fn compares_dates_when_entity_tags_are_off() {
    let server = site().config("etag = \"off\"").start();
    let mut table = Rows::new();
    for (fields, status) in [
        ("".to_owned(), 200),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        ("If-None-Match: \"\"\r\n".to_owned(), 200),
        ("If-Match: *\r\n".to_owned(), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        ("If-Match: \"\"\r\n".to_owned(), 412),
        (format!("If-Modified-Since: {DATE}\r\n"), 304),
        (format!("If-Unmodified-Since: {EARLIER}\r\n"), 412),
        (format!("If-Range: {DATE}\r\nRange: bytes=0-1\r\n"), 206),
        ("If-Range: \"x\"\r\nRange: bytes=0-1\r\n".to_owned(), 200),
    ] {
        let found = request(&server, "GET", "/a.txt", &fields);
        table.check(&fields, (found.status, found.field("etag")), (status, None));
    }
}

#[test]
fn compares_modification_times_in_whole_seconds() {
    let site = site();
    let time = SystemTime::UNIX_EPOCH + Duration::new(MODIFIED, 900_000_000);
    File::open(site.root().join("a.txt")).and_then(|f| f.set_modified(time)).expect("it is ours");
    let server = site.start();
    assert_eq!(server.get("/a.txt").field("last-modified"), Some(DATE));
    for (field, date, status) in [
        ("If-Modified-Since", DATE, 304),
        ("If-Unmodified-Since", DATE, 200),
        ("If-Modified-Since", EARLIER, 200),
        ("If-Unmodified-Since", EARLIER, 412),
    ] {
        assert_eq!(
            request(&server, "GET", "/a.txt", &format!("{field}: {date}\r\n")).status,
            status,
            "{field}: {date}"
        );
    }
}

#[test]
fn listings_have_no_validators_and_match_if_match_any() {
    // A small listing, and one too large to have a length.
    let site = (0..300).fold(site(), |site, n| site.file(&format!("many/{n:0>200}"), ""));
    let server = site.config("listing = true\n[cache]\nbytes = \"64KiB\"\nfile = \"1KiB\"").start();
    let mut table = Rows::new();
    for (fields, status) in [
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"x\"".to_owned(), 200),
        ("If-None-Match: \"\"".to_owned(), 200),
        ("If-Match: *".to_owned(), 200),
        ("If-Match: \"x\"".to_owned(), 412),
        ("If-Match: \"\"".to_owned(), 412),
        ("If-Match: \"x\"\r\nIf-None-Match: *".to_owned(), 412),
        ("If-Match: *\r\nIf-None-Match: *".to_owned(), 304),
        (format!("If-Modified-Since: {LATER}"), 200),
        (format!("If-Unmodified-Since: {EARLIER}"), 200),
        ("Range: bytes=0-1\r\nIf-Range: *".to_owned(), 200),
    ] {
        for path in ["/dir/", "/many/", "/dir/?format=json", "/many/?format=json"] {
            // Generated once, and once from the cache.
            for method in ["GET", "HEAD", "GET"] {
                let found = if method == "HEAD" {
                    let mut client = server.connect();
                    let request = format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
                    client.send(request).read_response_to_head()
                } else {
                    request(&server, method, path, &format!("{fields}\r\n"))
                };
                let input = format!("{method} {path} {fields}");
                table.check(&input, found.status, status);
                let vary = (status != 412).then_some("Accept, Accept-Encoding");
                table.check(&input, found.field("vary"), vary);
                if status == 304 {
                    table.check(&input, (found.body.len(), found.field("content-length")), (0, None));
                }
            }
        }
    }
    // If the response is no listing, preconditions do not count (§13.2.1).
    for (path, status) in [("/dir", 301), ("/none/", 404)] {
        table.check(
            path,
            request(&server, "GET", path, "If-None-Match: *\r\nIf-Match: \"x\"\r\n").status,
            status,
        );
    }
    let unlisted = crate::site().start();
    table.check("/dir/", request(&unlisted, "GET", "/dir/", "If-None-Match: *\r\n").status, 403);
}

#[test]
fn a_file_without_a_real_modification_time_has_that_of_its_inode() {
    // As OSTree, Nix and ZIP archives write them.
    for (number, seconds) in [0, 1, 315_532_800].into_iter().enumerate() {
        let server = Site::new().file("a.js", "old").modified("a.js", seconds).start();
        let old = server.get("/a.js");
        let date = old.field("last-modified").expect("there is one");
        assert!(!date.contains("1970") && !date.contains("1980"), "{date}");
        let tag = old.field("etag").expect("there is one").to_owned();
        let same = request(&server, "GET", "/a.js", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!(same.status, 304, "{number}");
        // The next version has the same inode, size and time.
        let path = server.root().join("a.js");
        std::fs::write(&path, "new").expect("it is our file");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("it is ours");
        let changed = || {
            let fields = format!("If-None-Match: {tag}\r\n");
            request(&server, "GET", "/a.js", &fields).body == b"new"
        };
        assert!(wait_until(TIMEOUT, changed), "clients keep the old file");
    }
}
