//! The cache of responses: what is stored, for whom, how long, and what a stored response becomes. The upstream is a
//! thread of the test, which counts the requests that reach it.

mod invalidation;
mod parts;
mod protocols;
mod selection;
mod validation;
mod waiting;

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use e2e::http2::{Http2, Http2Request};
use e2e::upstream::read_request;
use e2e::{Client, Folder, Gate, Response, Rows, Server, Site, TIMEOUT, Tls, free_port, wait_until};

/// An upstream, and the server in front of it.
struct Fixture {
    server: Server,
    requests: Arc<AtomicUsize>,
}

/// `answer` gets the head of a request and its number, from 1, and gives the bytes of the response. After an empty one,
/// or one that ends with `<cut>`, the connection is closed.
fn start_with(
    settings: &str,
    top: &str,
    answer: impl Fn(&str, usize) -> String + Send + Sync + 'static,
) -> Fixture {
    let site = Site::new().file("static", "still here");
    let path = site.home().join("peer");
    let requests = serve(&path, answer);
    let config = format!(
        "workers = 1\n{top}\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n{settings}\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
        path.display()
    );
    Fixture { server: site.config(&config).start(), requests }
}

/// Answers the requests at a socket, as `start_with`, and counts them.
fn serve(path: &Path, answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let (answer, counted) = (Arc::new(answer), requests.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, counted) =
                (stream.expect("it listens"), answer.clone(), counted.clone());
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("there is a descriptor left"));
                while let Ok(head) = read_request(&mut reader) {
                    let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                    let bytes = answer(&head, number);
                    let whole = bytes.strip_suffix("<cut>");
                    if stream.write_all(whole.unwrap_or(&bytes).as_bytes()).is_err()
                        || whole.is_some()
                        || bytes.is_empty()
                    {
                        return;
                    }
                }
            });
        }
    });
    requests
}

fn start(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Fixture {
    start_with("", "", answer)
}

impl Fixture {
    fn get(&self, path: &str, fields: &str) -> Response {
        self.server.request(format!("GET /app/{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A response whose body is the number of its request.
fn ok(fields: &str, number: usize) -> String {
    let body = format!("number {number}");
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

/// The fields of the response to `/app/ROW`, by the number in the path.
fn row<'r>(head: &str, rows: &[&'r str]) -> &'r str {
    let path = head.split(' ').nth(1).expect("a target");
    let number: String = path.chars().filter(char::is_ascii_digit).collect();
    rows[number.parse::<usize>().expect("a row")]
}

fn did(response: &Response) -> &str {
    response.field("Cache-Status").unwrap_or_default()
}

#[test]
fn sends_a_stored_response_again() {
    let app = start(|_, number| ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nX-Own: b\r\n", number));
    let first = app.get("", "");
    assert_eq!((first.text(), first.field("Age")), ("number 1".to_owned(), None));
    assert!(did(&first).starts_with("taipan; fwd=uri-miss; ttl="), "{}", did(&first));
    let second = app.get("", "");
    assert_eq!(second.text(), "number 1");
    assert!(did(&second).starts_with("taipan; hit; ttl="), "{}", did(&second));
    assert!(second.field("Age").expect("an age").parse::<u32>().expect("seconds") < 60);
    let constant = ["age", "cache-status"];
    assert_eq!(first.fields_but(&constant), second.fields_but(&constant));
    // On the same connection, and pipelined.
    let mut client = app.server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    for _ in 0..3 {
        assert_eq!(client.read_response().text(), "number 1");
    }
    assert_eq!(app.get("?q", "").text(), "number 2");
    assert_eq!(app.requests(), 2);
}

#[test]
fn a_response_that_does_not_fit_into_memory_is_not_announced_as_stored() {
    let body = "x".repeat(200_000);
    let app =
        start_with("response_cache_largest = \"1MiB\"", "[cache]\nresponses = \"64KiB\"", move |_, _| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n{body}")
        });
    for number in 1..=2 {
        let response = app.get("", "");
        assert_eq!((response.body.len(), app.requests()), (200_000, number));
        assert!(!did(&response).contains("stored"), "{}", did(&response));
    }
}

#[test]
fn stores_only_what_may_be_stored() {
    // The fields of the response, those of both requests, and how many of two requests reach the upstream.
    const ROWS: [(&str, &str, usize); 34] = [
        ("Cache-Control: max-age=60\r\n", "", 1),
        ("Cache-Control: max-age=0\r\n", "", 2),
        ("", "", 2),
        ("Cache-Control: max-age=60, no-store\r\n", "", 2),
        ("Cache-Control: max-age=60, private\r\n", "", 2),
        ("Cache-Control: max-age=60, no-cache\r\n", "", 2),
        ("Cache-Control: max-age=60\r\n", "Cache-Control: no-store\r\n", 2),
        ("Cache-Control: max-age=60\r\n", "Cache-Control: no-cache\r\n", 1),
        ("Cache-Control: max-age=60\r\nVary: *\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nVary: X\r\n", "X: 1\r\n", 1),
        ("Cache-Control: max-age=60\r\nAge: 61\r\n", "", 2),
        ("Cache-Control: s-maxage=60, max-age=0\r\n", "", 1),
        ("Cache-Control: max-age=60\r\nCDN-Cache-Control: max-age=0\r\n", "", 2),
        ("Cache-Control: no-store\r\nCDN-Cache-Control: max-age=60\r\n", "", 1),
        ("Expires: Fri, 31 Dec 2100 23:59:59 GMT\r\n", "", 1),
        ("Expires: 0\r\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\n", "", 2),
        ("Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\n", "", 1),
        // Users.
        ("Cache-Control: max-age=60\r\n", "Authorization: Bearer a\r\n", 2),
        ("Cache-Control: max-age=60, public\r\n", "Authorization: Bearer a\r\n", 1),
        ("Cache-Control: s-maxage=60\r\n", "Authorization: Bearer a\r\n", 1),
        ("Cache-Control: max-age=60, must-revalidate\r\n", "Authorization: Bearer a\r\n", 1),
        ("Cache-Control: max-age=60\r\n", "Cookie: user=a\r\n", 2),
        ("Cache-Control: max-age=60, public\r\n", "Cookie: user=a\r\n", 1),
        ("Cache-Control: max-age=60, must-revalidate\r\n", "Cookie: user=a\r\n", 2),
        ("Cache-Control: max-age=60\r\nSet-Cookie: user=a\r\n", "", 2),
        ("Cache-Control: max-age=60, public\r\nSet-Cookie: user=a\r\n", "", 1),
        ("Cache-Control: max-age=60, private=\"Set-Cookie\"\r\nSet-Cookie: user=a\r\n", "", 2),
        // Parts, and what names a state.
        // The upstream has sent the whole.
        ("Cache-Control: max-age=60\r\n", "Range: bytes=0-1\r\n", 1),
        ("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "If-Match: \"a\"\r\n", 2),
        ("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "If-None-Match: \"b\"\r\n", 1),
        ("Cache-Control: max-age=60\r\n", "Content-Length: 1\r\n", 2),
        ("Cache-Control: max-age=60\r\n", "Upgrade: x\r\nConnection: upgrade\r\n", 2),
        ("Cache-Control: max-age=60, must-understand, no-store\r\n", "", 1),
        ("Cache-Control: max-age=60\r\nSurrogate-Control: no-store\r\n", "", 1),
    ];
    let app = start(|head, number| ok(row(head, &ROWS.map(|row| row.0)), number));
    for (number, (response, fields, expected)) in ROWS.iter().enumerate() {
        let before = app.requests();
        let body = if fields.starts_with("Content-Length") { "x" } else { "" };
        for _ in 0..2 {
            let request = format!("GET /app/{number} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
            app.server.request(request);
        }
        assert_eq!(app.requests() - before, *expected, "{response:?} for {fields:?}");
    }
}

#[test]
fn never_sends_one_user_what_was_stored_for_others() {
    let app = start(|head, number| ok(row(head, &["Cache-Control: max-age=60\r\n"; 1]), number));
    assert_eq!(app.get("0", "").text(), "number 1");
    assert_eq!(app.get("0", "Cookie: user=a\r\n").text(), "number 2");
    assert_eq!(app.get("0", "Authorization: Basic YTpi\r\n").text(), "number 3");
    // What was requested without a name is for all that have none.
    assert_eq!(app.get("0", "").text(), "number 1");
    let ignored = start_with("response_cache_cookies = \"ignored\"", "", |_, number| {
        ok("Cache-Control: max-age=60\r\nSet-Cookie: seen=1\r\n", number)
    });
    assert!(ignored.get("", "Cookie: user=a\r\n").has("set-cookie"));
    let again = ignored.get("", "Cookie: user=b\r\n");
    assert_eq!((again.text(), again.has("set-cookie")), ("number 1".to_owned(), false));
    assert_eq!(ignored.get("", "Authorization: Basic YTpi\r\n").text(), "number 2");
}

#[test]
fn a_stored_response_passes_the_same_rules_of_access() {
    let rule = "[[rule]]\nfield = { X-Pass = \"!yes\" }\nthen = \"deny\"";
    let app = start_with("", rule, |_, number| ok("Cache-Control: max-age=60, public\r\n", number));
    assert_eq!(app.get("", "X-Pass: yes\r\n").text(), "number 1");
    assert_eq!(app.get("", "").status, 403);
    assert_eq!(app.get("", "X-Pass: yes\r\n").text(), "number 1");
    assert_eq!(app.requests(), 1);
}

#[test]
fn never_stores_an_incomplete_response() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n";
    const ROWS: [&str; 5] = [
        "Content-Length: 10\r\n\r\nhello<cut>",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n<cut>",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel<cut>",
        "Content-Length: 10\r\n\r\n<cut>",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n<cut>",
    ];
    let app = start(|head, _| format!("{HEAD}{}", row(head, &ROWS)));
    for (number, bytes) in ROWS.iter().enumerate() {
        for _ in 0..2 {
            let mut client = app.server.connect();
            client.send(format!("GET /app/{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(client.try_read_response().is_err(), "{bytes}");
        }
        assert_eq!(app.requests(), 2 * (number + 1), "{bytes}");
    }
    // A whole one, and one that is larger than what is stored.
    let app = start_with("response_cache_largest = 20", "", |head, number| match head.contains("large") {
        true => format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n15\r\n{}\r\n0\r\n\r\n", "x".repeat(21)),
        false => format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{number}\r\n0\r\n\r\n"),
    });
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["1", "1"]);
    assert_eq!([app.get("large", "").text().len(), app.get("large", "").text().len()], [21, 21]);
    assert_eq!(app.requests(), 3);
}

#[test]
fn says_in_each_response_what_the_cache_did() {
    let app = start(|head, number| {
        match head.split(' ').next() {
        Some("POST") => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Some("HEAD") => "HTTP/1.1 200 OK\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
        _ if head.contains("/fails") => String::new(),
        _ if head.contains("/old") => ok("Cache-Control: max-age=60\r\nAge: 100\r\nETag: \"a\"\r\n", number),
        _ if head.contains("/trailers") => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n"
                .to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\nCache-Status: inner; hit\r\n", number),
    }
    });
    let request = |method: &str, path: &str, fields: &str| {
        let mut client = app.server.connect();
        client.send(format!("{method} /app/{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let response = match method {
            "HEAD" => client.read_response_to_head(),
            _ => client.read_response(),
        };
        let said = response.values("Cache-Status");
        (response.status, said.join(", "))
    };
    let mut rows = Rows::new();
    for (method, path, fields, status, expected) in [
        ("GET", "", "Cache-Control: only-if-cached\r\n", 504, "taipan; detail=only-if-cached"),
        ("GET", "", "", 200, "inner; hit, taipan; fwd=uri-miss; ttl="),
        ("GET", "", "", 200, "inner; hit, taipan; hit; ttl="),
        ("GET", "", "Range: bytes=900-\r\n", 416, "taipan; hit; ttl="),
        ("POST", "", "Content-Length: 0\r\n", 200, "taipan; fwd=method"),
        ("GET", "fails", "", 502, "taipan; fwd=uri-miss"),
        ("GET", "old", "", 200, "taipan; fwd=uri-miss; ttl="),
        ("HEAD", "old", "", 200, "taipan; fwd=stale"),
        ("GET", "old", "", 200, "taipan; fwd=uri-miss; ttl="),
    ] {
        let (code, said) = request(method, path, fields);
        rows.check(format!("{method} {path} {fields}"), code, status);
        rows.holds(format!("{method} {path} {fields}"), &said, said.starts_with(expected));
    }
    let trailers = app.get("trailers", "TE: trailers\r\nConnection: TE\r\n");
    rows.check("trailers", trailers.field("Trailer"), Some("X-Sum"));
}

#[test]
fn says_in_the_log_and_in_the_statistics_what_the_cache_did() {
    let log = "[log]\naccess = \"stdout\"\nformat = \"json\"";
    let app = start_with("", log, |_, number| ok("Cache-Control: max-age=60\r\n", number));
    app.get("", "");
    app.server.wait_for_output("\"cache\":\"miss\"", TIMEOUT);
    app.get("", "");
    app.server.wait_for_output("\"cache\":\"hit\"", TIMEOUT);
}

#[test]
fn an_application_can_address_the_cache_as_a_surrogate() {
    let settings = "response_cache_surrogate = \"edge\"\nresponse_cache_targets = [\"Surrogate-Control\"]";
    let app = start_with(settings, "", |head, number| {
        assert!(head.contains("Surrogate-Capability: edge=\"Surrogate/1.0\"\r\n"), "{head}");
        assert!(!head.contains("ESI/1.0"), "{head}");
        ok(
            row(
                head,
                &[
                    "Surrogate-Control: max-age=60;edge\r\nCache-Control: no-store\r\n",
                    "Surrogate-Control: max-age=60;other\r\nCache-Control: no-store\r\n",
                ],
            ),
            number,
        )
    });
    // What the application would write for a surrogate that a client claims to be, others could not read.
    let claim = "Surrogate-Capability: own=\"ESI/1.0\"\r\n";
    let texts = |path: &str| [app.get(path, claim).text(), app.get(path, "").text()];
    assert_eq!(texts("0"), ["number 1", "number 1"]);
    assert_eq!(texts("1"), ["number 2", "number 3"]);
}

const GZIP: &str = "Accept-Encoding: gzip\r\n";
const LINE: &str = "<p>a line of a page</p>\n";

#[test]
fn compresses_a_stored_response_once() {
    let page = LINE.repeat(3000);
    let of_upstream = page.clone();
    let app = start_with("compress_scripts = true", "", move |head, _| {
        let fields = "Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Type: text/html\r\n";
        match head.contains("If-None-Match") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}X-New: yes\r\n\r\n"),
            false => {
                let old = if head.starts_with("GET /app/old") { "Age: 100\r\n" } else { "" };
                format!(
                    "HTTP/1.1 200 OK\r\n{fields}{old}Content-Length: {}\r\n\r\n{of_upstream}",
                    of_upstream.len()
                )
            }
        }
    });
    let inflated = |response: &Response| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&response.body[..]).read_to_string(&mut text).expect("it is gzip");
        text
    };
    for path in ["", "old"] {
        let made = app.server.count("response_copies");
        app.get(path, GZIP);
        // The copy of what was stored is made at the first hit.
        let is_made = || {
            assert_eq!(inflated(&app.get(path, GZIP)), page);
            app.server.count("response_copies") > made
        };
        assert!(wait_until(TIMEOUT, is_made), "{}", app.server.stats());
        let copy = app.get(path, GZIP);
        assert_eq!(inflated(&copy), page);
        assert_eq!(copy.field("Content-Length"), Some(copy.body.len().to_string().as_str()));
        assert_eq!(
            (copy.field("Content-Encoding"), copy.field("ETag"), copy.field("Vary")),
            (Some("gzip"), Some("W/\"a\""), Some("Accept-Encoding"))
        );
        assert!(did(&copy).starts_with("taipan; hit"), "{}", did(&copy));
        assert_eq!(copy.field("X-New"), (path == "old").then_some("yes"));
        let unmodified = app.get(path, &format!("{GZIP}If-None-Match: W/\"a\"\r\n"));
        assert_eq!(
            (unmodified.status, unmodified.field("ETag"), unmodified.field("Vary")),
            (304, Some("W/\"a\""), Some("Accept-Encoding"))
        );
        let unmodified = app.get(path, "If-None-Match: \"a\"\r\n");
        assert_eq!(
            (unmodified.status, unmodified.field("ETag"), unmodified.field("Vary")),
            (304, Some("\"a\""), Some("Accept-Encoding"))
        );
        let plain = app.get(path, "");
        assert_eq!(
            (plain.text(), plain.field("ETag"), plain.field("Vary")),
            (page.clone(), Some("\"a\""), Some("Accept-Encoding"))
        );
        let part = app.get(path, &format!("{GZIP}Range: bytes=3-8\r\n"));
        assert_eq!((part.status, part.text().as_str(), part.has("content-encoding")), (206, "a line", false));
        assert_eq!(part.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(app.server.count("response_copies"), made + 1);
    }
}

#[test]
fn a_response_that_is_too_small_to_be_compressed_varies_and_so_does_a_304() {
    // HEAD does not know the length. Of a 304 that is not stored, nothing is known.
    let app = start_with("compress_scripts = true", "", |head, number| match head.contains("private") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: private\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Type: text/html\r\n", number),
    });
    for (path, tag) in [("private", "\"a\""), ("private", "W/\"a\""), ("small", "\"a\"")] {
        for _ in 0..2 {
            let unmodified = app.get(path, &format!("{GZIP}If-None-Match: {tag}\r\n"));
            assert_eq!(
                (unmodified.status, unmodified.field("ETag"), unmodified.field("Vary")),
                (304, Some(tag), Some("Accept-Encoding")),
                "{path}"
            );
        }
    }
}

#[test]
fn a_part_varies_as_the_whole_does_whether_it_is_passed_on_or_stored() {
    let app = start_with("compress_scripts = true", "", |head, number| {
        let fields = match head {
            _ if head.contains("private") => "Cache-Control: private\r\nContent-Type: text/html",
            _ if head.contains("image") => "Cache-Control: max-age=60\r\nContent-Type: image/png",
            _ if head.contains("final") => {
                "Cache-Control: max-age=60, no-transform\r\nContent-Type: text/html"
            }
            _ if head.contains("several") => "Content-Type: multipart/byteranges; boundary=x",
            _ => "Cache-Control: max-age=60\r\nContent-Type: text/html",
        };
        let size = if head.contains("small") { 20 } else { 90_000 };
        let range = match head.contains("several") {
            true => String::new(),
            false => format!("Content-Range: bytes 0-8/{size}\r\n"),
        };
        format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\n{fields}\r\n{range}Content-Length: 9\r\n\r\nnumber {number:02}"
        )
    });
    for (path, vary, number) in [
        ("private", Some("Accept-Encoding"), "01"),
        ("stored", Some("Accept-Encoding"), "02"),
        ("stored", Some("Accept-Encoding"), "02"),
        ("several", Some("Accept-Encoding"), "03"),
        ("image", None, "04"),
        ("final", None, "05"),
        ("small", Some("Accept-Encoding"), "06"),
        ("small", Some("Accept-Encoding"), "06"),
    ] {
        let part = app.get(path, "Range: bytes=0-8\r\n");
        assert_eq!(
            (part.status, part.text(), part.field("Vary")),
            (206, format!("number {number}"), vary),
            "{path}"
        );
    }
}

#[test]
fn keeps_no_compressed_copy_without_the_key_or_where_copies_are_off() {
    let page = LINE.repeat(3000);
    for settings in ["", "compress_scripts = true\ncompress_kept = \"off\""] {
        let page = page.clone();
        let app = start_with(settings, "", move |_, _| {
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                page.len()
            )
        });
        let is_encoded = [0, 1, 2].map(|_| app.get("", GZIP).has("content-encoding"));
        assert_eq!(is_encoded, [!settings.is_empty(); 3]);
        assert_eq!((app.server.count("response_copies"), app.requests()), (0, 1), "{settings}");
    }
}
