//! The cache of responses: what is stored, for whom, how long, and what a stored response becomes. The upstream is a thread
//! of the test, which counts the requests that reach it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use e2e::{Response, Server, Site, TIMEOUT, wait_until};

/// An upstream, and the server in front of it.
struct Fixture {
    server: Server,
    requests: Arc<AtomicUsize>,
}

/// Reads the head of the next request, and its body if it has a length.
fn read_request(stream: &mut UnixStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.map_or(0, |length| length.parse().expect("a number"));
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(head)
}

/// `answer` gets the head of a request and its number, from 1, and gives the bytes of the response. After an empty one, or
/// one that ends with `<cut>`, the connection is closed.
fn start_with(
    settings: &str,
    top: &str,
    answer: impl Fn(&str, usize) -> String + Send + Sync + 'static,
) -> Fixture {
    let site = Site::new().file("static", "still here");
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let (answer, counted) = (Arc::new(answer), requests.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, counted) =
                (stream.expect("it listens"), answer.clone(), counted.clone());
            thread::spawn(move || {
                while let Some(head) = read_request(&mut stream) {
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
    let config = format!(
        "workers = 1\n{top}\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n{settings}\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
        path.display()
    );
    Fixture { server: site.config(&config).start(), requests }
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
fn selects_by_the_fields_that_vary_names() {
    let app = start(|head, number| {
        let language = head.lines().find(|line| line.starts_with("Accept-Language")).unwrap_or("none");
        let body = format!("{number} for {language}");
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\
             Vary: Accept-Encoding, Accept-Language\r\n\r\n{body}",
            body.len()
        )
    });
    let get = |fields: &str| app.get("", fields).text();
    assert_eq!(get(""), "1 for none");
    assert_eq!(get("Accept-Language: de\r\n"), "2 for Accept-Language: de");
    assert_eq!(get(""), "1 for none");
    assert_eq!(get("Accept-Language: DE\r\n"), "2 for Accept-Language: de");
    assert_eq!(get("Accept-Encoding: gzip, br\r\n"), "3 for none");
    assert_eq!(get("Accept-Encoding: br;q=0.9,gzip\r\n"), "3 for none");
    assert_eq!(get("Accept-Encoding: gzip\r\n"), "4 for none");
    let other = app.get("", "Accept-Encoding: x\r\n");
    assert!(did(&other).starts_with("taipan; fwd=vary-miss"), "{}", did(&other));
}

#[test]
fn answers_conditions_ranges_and_head_from_the_whole() {
    for size in [10, 100_000, 300_000] {
        let app = start_with("response_cache_largest = \"1MiB\"", "", move |_, _| {
            let body: String = ('a'..='z').cycle().take(size).collect();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n\
                 Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nContent-Type: text/x\r\n\r\n{body}"
            )
        });
        let whole = app.get("", "").text();
        assert_eq!(whole.len(), size);
        assert_eq!(app.get("", "").text(), whole);
        let unchanged = app.get("", "If-None-Match: \"b\", \"a\"\r\n");
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some("\"a\"")));
        assert!(unchanged.has("age") && unchanged.has("cache-control"));
        assert_eq!(app.get("", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n").status, 304);
        assert_eq!(app.get("", "If-None-Match: \"c\"\r\n").text(), whole);
        let part = app.get("", "Range: bytes=2-5\r\n");
        assert_eq!((part.status, part.text()), (206, "cdef".to_owned()));
        assert_eq!(part.field("Content-Range"), Some(format!("bytes 2-5/{size}").as_str()));
        assert_eq!(app.get("", "Range: bytes=-3\r\n").text(), whole[size - 3..]);
        let parts = app.get("", "Range: bytes=0-0, 3-3\r\n");
        assert!(
            parts.text().contains("\r\n\r\na\r\n") && parts.text().contains("\r\n\r\nd\r\n"),
            "{}",
            parts.text()
        );
        assert_eq!(app.get("", &format!("Range: bytes={size}-\r\n")).status, 416);
        assert_eq!(app.get("", "Range: bytes=0-1\r\nIf-Range: \"b\"\r\n").text(), whole);
        let mut client = app.server.connect();
        client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.read_response_to_head();
        assert_eq!(head.field("Content-Length"), Some(size.to_string().as_str()));
        assert!(did(&head).starts_with("taipan; hit"));
        assert_eq!(app.requests(), 1);
    }
}

#[test]
fn validates_what_is_stale_and_takes_the_fields_of_the_answer() {
    let app = start(|head, number| match head.contains("If-None-Match: \"a\"\r\n") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nX-New: yes\r\n\r\n"
            .to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\nX-Old: yes\r\n", number),
    });
    assert_eq!(app.get("", "").text(), "number 1");
    // Whatever the client has, the server asks for what it has stored.
    let validated = app.get("", "If-None-Match: \"b\"\r\n");
    assert_eq!(validated.text(), "number 1");
    assert!(did(&validated).contains("fwd=stale; fwd-status=304"), "{}", did(&validated));
    assert_eq!((validated.field("X-Old"), validated.field("X-New")), (Some("yes"), Some("yes")));
    let hit = app.get("", "");
    assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
    assert_eq!((hit.text(), hit.field("X-New")), ("number 1".to_owned(), Some("yes")));
    assert_eq!(app.requests(), 2);
}

#[test]
fn a_change_invalidates_what_is_stored() {
    let app = start(|head, number| match head.split(' ').next() {
        Some("POST") if head.contains("X-Fail") => "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Some("POST") => {
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /app/b?x=1\r\n\r\n".to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\n", number),
    });
    let post = |fields: &str| {
        app.server
            .request(format!("POST /app/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{fields}\r\n"))
            .status
    };
    let get = |path: &str| app.get(path, "").text();
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(post("X-Fail: 1\r\n"), 500);
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(post(""), 201);
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 6", "number 7", "number 3"]);
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
fn requests_for_the_same_wait_for_one_response() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opened = gate.clone();
    let app = start(move |head, number| {
        if head.contains("slow") {
            let (open, changed) = &*gate;
            drop(changed.wait_while(open.lock().expect("no panic"), |open| !*open));
        }
        ok(
            if head.contains("private") {
                "Cache-Control: private\r\n"
            } else {
                "Cache-Control: max-age=60\r\n"
            },
            number,
        )
    });
    let mut clients: Vec<_> = (0..20).map(|_| app.server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(wait_until(TIMEOUT, || app.requests() == 1));
    // The worker has read all requests when it answers one that came later.
    assert_eq!(app.get("other", "").text(), "number 2");
    let (open, changed) = &*opened;
    *open.lock().expect("no panic") = true;
    changed.notify_all();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "number 1");
    }
    assert_eq!(app.requests(), 2);
    // What is not stored is requested by each.
    for _ in 0..3 {
        app.get("private", "");
    }
    assert_eq!(app.requests(), 5);
}

#[test]
fn sends_a_stale_response_while_a_newer_one_is_requested() {
    let app = start(|_, number| {
        let age = if number == 1 { "Age: 100\r\n" } else { "" };
        ok(&format!("Cache-Control: max-age=60, stale-while-revalidate=1000\r\n{age}"), number)
    });
    assert_eq!(app.get("", "").text(), "number 1");
    let stale = app.get("", "");
    assert_eq!(stale.text(), "number 1");
    assert!(did(&stale).starts_with("taipan; hit; ttl=-"), "{}", did(&stale));
    assert!(wait_until(TIMEOUT, || app.get("", "").text() == "number 2"));
    assert_eq!(app.requests(), 2);
}

#[test]
fn sends_a_stale_response_if_the_upstream_fails() {
    const FAILURES: [&str; 4] = [
        "",
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        "nonsense\r\n\r\n<cut>",
    ];
    let app = start(|head, number| match head.contains("If-None-Match") {
        false => ok("Cache-Control: max-age=60, stale-if-error=1000\r\nAge: 100\r\nETag: \"a\"\r\n", number),
        true => row(head, &FAILURES).to_owned(),
    });
    for (number, failure) in FAILURES.iter().enumerate() {
        let first = app.get(&number.to_string(), "").text();
        let failed = app.get(&number.to_string(), "");
        assert_eq!((failed.status, failed.text()), (200, first), "{failure:?}");
        assert!(did(&failed).contains("stale-if-error"), "{}", did(&failed));
    }
    let strict = start(|head, number| match head.contains("If-None-Match") {
        false => ok("Cache-Control: max-age=60, must-revalidate\r\nAge: 100\r\nETag: \"a\"\r\n", number),
        true => FAILURES[1].to_owned(),
    });
    assert_eq!([strict.get("", "").status, strict.get("", "").status], [200, 503]);
}

#[test]
fn only_if_cached_asks_for_what_is_stored_alone() {
    let app = start(|_, number| ok("Cache-Control: max-age=60\r\n", number));
    assert_eq!(app.get("", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(app.get("", "").text(), "number 1");
    assert_eq!(app.get("", "Cache-Control: only-if-cached\r\n").text(), "number 1");
    assert_eq!(app.requests(), 1);
    let reloaded = start_with("response_cache_reload = true", "", |_, number| {
        ok("Cache-Control: max-age=60\r\n", number)
    });
    assert_eq!(reloaded.get("", "").text(), "number 1");
    assert_eq!(reloaded.get("", "Cache-Control: no-cache\r\n").text(), "number 2");
    assert_eq!(reloaded.get("", "Pragma: no-cache\r\n").text(), "number 3");
    assert_eq!(reloaded.get("", "").text(), "number 3");
}

#[test]
fn parameters_that_do_not_count_are_left_out_of_the_key() {
    let answer = |_: &str, number| ok("Cache-Control: max-age=60\r\n", number);
    let without = start_with("response_cache_query = [\"!utm_*\"]", "", answer);
    assert_eq!(without.get("?a=1&utm_source=x", "").text(), "number 1");
    assert_eq!(without.get("?utm_medium=y&a=1", "").text(), "number 1");
    assert_eq!(without.get("?a=2", "").text(), "number 2");
    let none = start_with("response_cache_query = []", "", answer);
    assert_eq!([none.get("?a", "").text(), none.get("?b", "").text()], ["number 1", "number 1"]);
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
fn a_response_to_head_updates_what_is_stored_or_removes_it() {
    // The fields of the response to HEAD, and what a GET has then: a number, and `X-New`.
    const ROWS: [(&str, &str, Option<&str>); 5] = [
        ("Content-Length: 8\r\nETag: \"a\"\r\n", "number 1", Some("yes")),
        ("ETag: \"a\"\r\n", "number 1", Some("yes")),
        ("Content-Length: 9\r\nETag: \"a\"\r\n", "number 3", None),
        ("Content-Length: 8\r\nETag: \"b\"\r\n", "number 3", None),
        ("ETag: W/\"a\"\r\n", "number 3", None),
    ];
    for (answer, text, new) in ROWS {
        let app = start(move |head, number| match head.starts_with("HEAD ") {
            true => format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-New: yes\r\nSet-Cookie: own\r\n{answer}\r\n"
            ),
            false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        });
        assert_eq!(app.get("", "").text(), "number 1", "{answer}");
        let mut client = app.server.connect();
        client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.read_response_to_head().field("Set-Cookie"), Some("own"), "{answer}");
        let then = app.get("", "");
        assert_eq!(
            (then.text().as_str(), then.field("X-New"), then.has("set-cookie")),
            (text, new, false),
            "{answer}"
        );
    }
}

#[test]
fn a_validation_stores_no_cookie_that_is_for_one_user() {
    for settings in ["response_cache_cookies = \"ignored\"", ""] {
        let app = start_with(settings, "", |head, number| match head.contains("If-None-Match: \"a\"\r\n") {
            true => "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nSet-Cookie: id=secret\r\n\r\n"
                .to_owned(),
            false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        });
        assert_eq!(app.get("", "").text(), "number 1");
        let own = app.get("", "");
        assert_eq!((own.text().as_str(), own.field("Set-Cookie")), ("number 1", Some("id=secret")));
        let other = app.get("", "");
        assert!(did(&other).starts_with("taipan; hit"), "{}", did(&other));
        assert_eq!((other.text().as_str(), other.field("Set-Cookie")), ("number 1", None), "{settings}");
    }
    // What has become private is for the user that has asked, and not stored any more.
    let app = start(|head, number| match head.contains("If-None-Match: \"a\"\r\n") {
        true => "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60, private\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
    });
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 1", "number 1"]);
    assert_eq!(app.get("", "").text(), "number 3");
}

#[test]
fn clients_of_the_list_purge_what_is_stored_for_a_url() {
    let answer = |head: &str, number: usize| match head.starts_with("PURGE ") {
        true => "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", number),
    };
    let purge = |app: &Fixture, path: &str| {
        app.server.request(format!("PURGE /app/{path} HTTP/1.1\r\nHost: A\r\n\r\n")).status
    };
    let list = "response_cache_purge = [\"127.0.0.1\"]\nresponse_cache_query = [\"!utm_*\"]";
    let app = start_with(list, "", answer);
    let get = |path: &str| app.get(path, "").text();
    assert_eq!([get("a"), get("a?x"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(app.get("a", "Accept-Language: de\r\n").text(), "number 4");
    assert_eq!([purge(&app, "a?utm_x=1"), purge(&app, "never")], [200, 200]);
    assert_eq!([get("a"), get("a?x"), get("b")], ["number 5", "number 2", "number 3"]);
    assert_eq!(app.get("a", "Accept-Language: de\r\n").text(), "number 6");
    assert_eq!(app.server.count("responses_purged"), 2);
    // Others are refused, and without the key the application is asked.
    for (settings, status) in [
        ("response_cache_purge = [\"10.0.0.0/8\", \"unix\"]", 403),
        ("response_cache_purge = []", 403),
        ("", 405),
        ("response_cache_purge = [\"0.0.0.0/0\"]\n[[route.rule]]\nmethod = \"PURGE\"\nthen = \"deny\"", 403),
    ] {
        let app = start_with(settings, "", answer);
        assert_eq!(app.get("a", "").text(), "number 1", "{settings}");
        assert_eq!(purge(&app, "a"), status, "{settings}");
        assert_eq!(app.get("a", "").text(), "number 1", "{settings}");
    }
}

#[test]
fn an_application_can_address_the_cache_as_a_surrogate() {
    let settings = "response_cache_surrogate = \"edge\"\nresponse_cache_targets = [\"Surrogate-Control\"]";
    let app = start_with(settings, "", |head, number| {
        assert!(head.contains("Surrogate-Capability: edge=\"Surrogate/1.0\"\r\n"), "{head}");
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
    let texts = |path: &str| [app.get(path, "").text(), app.get(path, "").text()];
    assert_eq!(texts("0"), ["number 1", "number 1"]);
    assert_eq!(texts("1"), ["number 2", "number 3"]);
}
