//! The cache of responses: what is stored, for whom, how long, and what a stored response becomes. The upstream is a
//! thread of the test, which counts the requests that reach it.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use e2e::http2::{Http2, Http2Request};
use e2e::{Client, Response, Rows, Server, Site, TIMEOUT, Tls, free_port, wait_until};

/// An upstream, and the server in front of it.
struct Fixture {
    server: Server,
    requests: Arc<AtomicUsize>,
}

/// Keeps the upstream from a response until the test opens it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (is_open, changed) = &*self.0;
        drop(changed.wait_while(is_open.lock().expect("no panic"), |is_open| !*is_open));
    }

    fn open(&self) {
        let (is_open, changed) = &*self.0;
        *is_open.lock().expect("no panic") = true;
        changed.notify_all();
    }
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
fn a_change_invalidates_what_other_routes_have_stored() {
    let site = Site::new();
    let path = site.home().join("peer");
    serve(&path, |head, number| match head.starts_with("POST ") {
        true => "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /b/x\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\n", number),
    });
    let server = site
        .config(&format!(
            "response_cache = true\n\
             [[route]]\npath = \"/a/\"\nproxy = \"http://app/1/\"\n\
             [[route]]\npath = \"/b/\"\nproxy = \"http://app/2/\"\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    assert_eq!(["/a/x", "/b/x"].map(|path| server.get(path).text()), ["number 1", "number 2"]);
    let post = server.request("POST /a/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post.status, 201);
    assert_eq!(["/a/x", "/b/x"].map(|path| server.get(path).text()), ["number 4", "number 5"]);
}

#[test]
fn hosts_of_different_addresses_share_no_response() {
    let port = free_port();
    let mut site = Site::new();
    let path = site.home().join("peer");
    serve(&path, |head, _| {
        let site = head.lines().find_map(|line| line.strip_prefix("X-Site: ")).unwrap_or_default();
        let target = head.split(' ').nth(1).expect("a target");
        let body = format!("{target} of {site}");
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let mut config = format!(
        "workers = 1\nlisten = [\"0.0.0.0:{port}\"]\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
        path.display()
    );
    for (host, last) in [("one", 1), ("two", 2)] {
        let program = format!(
            "#!/bin/sh\nprintf 'Cache-Control: max-age=60\\r\\nContent-Type: text/plain\\r\\n\\r\\n/cgi/x of {host}'\n"
        );
        site = site.script_beside_root(&format!("{host}/cgi/x"), program);
        config += &format!(
            "[[host]]\nnames = [\"h\"]\naddresses = [\"127.0.0.{last}\"]\nroot = \"{host}\"\n\
             headers = {{ \"X-Own\" = \"{host}\" }}\nresponse_cache = true\n\
             response_cache_purge = [\"127.0.0.0/8\"]\n\
             [[host.route]]\npath = \"/cgi/\"\ncgi = true\n\
             [[host.route]]\npath = \"/app/\"\napplication = \"app\"\nproxy_headers = {{ \"X-Site\" = \"{host}\" }}\n\
             [[host.route]]\npath = \"/proxy/\"\nproxy = \"http://app/{host}/\"\nproxy_headers = {{ \"X-Site\" = \"{host}\" }}\n",
        );
    }
    let server = site.config_without_root(&config).start();
    let request = |last: u8, line: &str| {
        let mut client = Client::tcp(SocketAddr::from(([127, 0, 0, last], port)));
        client.request(format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"))
    };
    let get = |last: u8, path: &str| {
        let response = request(last, &format!("GET {path}"));
        (
            response.text(),
            response.field("X-Own").unwrap_or_default().to_owned(),
            did(&response).contains("hit"),
        )
    };
    let mut rows = Rows::new();
    for (path, one, two) in [
        ("/cgi/x", "/cgi/x of one", "/cgi/x of two"),
        ("/app/x", "/app/x of one", "/app/x of two"),
        ("/proxy/x", "/one/x of one", "/two/x of two"),
    ] {
        let expected = |text: &str, own: &str, is_hit| (text.to_owned(), own.to_owned(), is_hit);
        for is_hit in [false, true] {
            rows.check(format!("{path} of one"), get(1, path), expected(one, "one", is_hit));
            rows.check(format!("{path} of two"), get(2, path), expected(two, "two", is_hit));
        }
        rows.check(format!("PURGE {path}"), request(2, &format!("PURGE {path}")).status, 200);
        rows.check(format!("{path} of one, purged"), get(1, path), expected(one, "one", true));
        rows.check(format!("{path} of two, purged"), get(2, path), expected(two, "two", false));
        let output = server.run_command(&["purge", "--host", "h", path]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        rows.holds(format!("taipan purge {path}"), &text, text.starts_with("removed: 2 "));
    }
}

/// RFC 9110 §4.2.3. The application sees how a client spells its host, and may redirect what another one spells well.
#[test]
fn another_spelling_of_the_host_finds_a_stored_response_and_makes_none() {
    let app = start(|head, number| {
        match head.split(' ').next() {
        Some("POST") => {
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: http://a:80/app/b\r\n\r\n".to_owned()
        }
        _ if !head.contains("Host: a\r\n") && !head.contains("Host: a:443\r\n") => {
            "HTTP/1.1 301 Moved\r\nLocation: http://a/app/a\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"
                .to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\n", number),
    }
    });
    let request = |method: &str, path: &str, host: &str| {
        app.server
            .request(format!("{method} /app/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"))
            .text()
    };
    let hosts = ["a:80", "A:80", "A", "a:"];
    for host in hosts {
        assert_eq!(request("GET", "a", host), "", "{host}");
    }
    assert_eq!([request("GET", "a", "a"), request("GET", "b", "a")], ["number 5", "number 6"]);
    for host in hosts {
        assert_eq!(
            [request("GET", "a", host), request("GET", "b", host)],
            ["number 5", "number 6"],
            "{host}"
        );
    }
    assert_eq!(request("GET", "a", "a:443"), "number 7");
    request("POST", "a", "a:80");
    assert_eq!([request("GET", "a", "a"), request("GET", "b", "a")], ["number 9", "number 10"]);
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
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains("slow") {
            of_upstream.wait();
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
    gate.open();
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

/// An upstream that holds the response to its first request back, and the client that waits for it. `wait`: how long
/// other requests wait for that response, too.
fn start_with_a_held_response(wait: &str) -> (Fixture, Client, Gate) {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start_with(&format!("response_cache_wait = \"{wait}\""), "", move |_, number| {
        if number == 1 {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    let mut first = app.server.connect();
    first.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait_until(TIMEOUT, || app.requests() == 1));
    (app, first, gate)
}

#[test]
fn one_request_takes_the_place_of_one_whose_client_disconnects() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |_, number| {
        of_upstream.wait();
        ok("Cache-Control: max-age=60\r\n", number)
    });
    let mut clients: Vec<_> = (0..20).map(|_| app.server.connect()).collect();
    let mut first = app.server.connect();
    for (client, awaited) in std::iter::once(&mut first).chain(&mut clients).zip(0..) {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            wait_until(TIMEOUT, || app.requests() == 1 && app.server.count("responses_awaited") == awaited)
        );
    }
    drop(first);
    assert!(wait_until(TIMEOUT, || app.requests() == 2));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "number 2");
    }
    assert_eq!(app.requests(), 2);
}

#[test]
fn no_request_waits_for_a_response_that_a_change_has_invalidated() {
    let (app, mut first, gate) = start_with_a_held_response("1h");
    app.server.request("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(app.get("", "").text(), "number 3");
    gate.open();
    assert_eq!(first.read_response().text(), "number 1");
    assert_eq!(app.get("", "").text(), "number 3", "the older response is not stored");
}

#[test]
fn a_response_is_no_older_because_its_request_waited_for_another() {
    let (app, mut first, gate) = start_with_a_held_response("3s");
    let second = app.get("", "");
    assert_eq!(second.text(), "number 2");
    assert!(["ttl=60", "ttl=59"].iter().any(|ttl| did(&second).contains(ttl)), "{}", did(&second));
    gate.open();
    assert_eq!(first.read_response().status, 200);
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
fn conditions_count_for_what_is_not_stored() {
    const ROWS: [(&str, &str, u16); 6] = [
        ("ETag: \"a\"\r\n", "If-None-Match: \"a\"\r\n", 304),
        ("ETag: \"a\"\r\n", "If-None-Match: \"b\"\r\n", 200),
        ("ETag: \"a\"\r\n", "", 200),
        (
            "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            304,
        ),
        (
            "Last-Modified: Thu, 01 Jan 2015 00:00:01 GMT\r\n",
            "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            200,
        ),
        ("", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n", 200),
    ];
    let mut rows = Rows::new();
    for (own, condition, expected) in ROWS {
        let app = start(move |_, number| {
            ok(&format!("Cache-Control: private\r\nContent-Type: text/x\r\nX-Own: b\r\n{own}"), number)
        });
        for number in 1..=2 {
            let (name, response) = (format!("{own}{condition}"), app.get("", condition));
            rows.check(&name, (response.status, response.field("X-Own")), (expected, Some("b")));
            rows.holds(&name, did(&response), did(&response) == "taipan; fwd=uri-miss");
            let (text, has_type) = match expected {
                304 => (String::new(), false),
                _ => (format!("number {number}"), true),
            };
            rows.check(&name, (response.text(), response.has("content-type")), (text, has_type));
        }
    }
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
fn a_request_that_the_application_has_not_seen_as_it_was_sent_is_not_stored() {
    let app = start(|head, number| {
        let language = if head.to_lowercase().contains("\r\naccept-language: en") { "en" } else { "none" };
        let vary =
            "Cache-Control: public, max-age=60\r\nVary: Accept-Language, X-Forwarded-For, Forwarded\r\n";
        let vary = if head.contains("/by-client") {
            vary
        } else {
            "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n"
        };
        ok(&format!("{vary}X-Language: {language}\r\n"), number)
    });
    // The application does not get the field, and answers for none.
    let poison = app.get("a", "Connection: close, accept-LANGUAGE\r\nAccept-Language: en\r\n");
    assert_eq!(poison.field("X-Language"), Some("none"));
    let victim = app.get("a", "Accept-Language: en\r\n");
    assert_eq!((victim.field("X-Language"), victim.text()), (Some("en"), "number 2".to_owned()));
    // What is stored is for such a request, too.
    let hit = app.get("a", "Connection: accept-language\r\nAccept-Language: en\r\n");
    assert_eq!(hit.text(), "number 2");
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let before = app.requests();
        app.get(name, &format!("{name}: POST\r\n"));
        assert_eq!(app.get(name, "").text(), format!("number {}", before + 2), "{name}");
        assert_eq!(app.get(name, "").text(), format!("number {}", before + 2), "{name}");
    }
    // The server writes these fields: what a client sends selects nothing.
    let before = app.requests();
    for claim in ["", "X-Forwarded-For: 192.0.2.1\r\n"] {
        app.get("by-client", claim);
    }
    assert_eq!(app.requests(), before + 2);
}

#[test]
fn a_response_for_a_path_or_a_host_that_a_field_names_is_not_stored() {
    // What a trusted proxy sends is passed on, and it may have the field from a client.
    let app = start_with("", "trusted_proxies = [\"127.0.0.1\"]", |head, number| {
        let fields: Vec<&str> = head.lines().filter(|line| line.contains(": /evil")).collect();
        ok(&format!("Cache-Control: max-age=60\r\nX-Seen: {}\r\n", fields.len()), number)
    });
    for name in ["X-Original-URL", "X-Rewrite-URL", "X-Host", "X-HTTP-Host-Override"] {
        let poison = app.get(name, &format!("{name}: /evil\r\n"));
        assert_eq!(poison.field("X-Seen"), Some("1"), "{name}");
        let victim = app.get(name, "");
        assert_eq!(victim.field("X-Seen"), Some("0"), "{name}");
        assert_eq!(app.get(name, "").text(), victim.text(), "{name}");
    }
}

#[test]
fn a_response_that_varies_by_the_user_of_an_authorizer_is_not_shared() {
    let settings = "authorizer = \"app\"\nauthorizer_fields = [\"Remote-User\"]";
    let app = start_with(settings, "", |head, number| {
        let value = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields
                .find(|(own, _)| own.eq_ignore_ascii_case(name))
                .map_or("none", |(_, value)| value)
                .to_owned()
        };
        match head.contains("X-Original-Method") {
            true => {
                format!("HTTP/1.1 200 OK\r\nRemote-User: {}\r\nContent-Length: 0\r\n\r\n", value("X-Who"))
            }
            false => {
                let user = value("Remote-User");
                ok(
                    &format!("Cache-Control: public, max-age=60\r\nVary: Remote-User\r\nX-For: {user}\r\n"),
                    number,
                )
            }
        }
    });
    for user in ["ann", "bob"] {
        assert_eq!(app.get("", &format!("X-Who: {user}\r\n")).field("X-For"), Some(user));
    }
}

#[test]
fn a_parameter_that_programs_read_as_one_that_counts_is_part_of_the_key() {
    let answer = |head: &str, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{target}",
            target.len()
        )
    };
    let some = start_with("response_cache_query = [\"q\", \"page\"]", "", answer);
    for evil in ["?%71=evil", "?Q=evil", "?q[]=evil", "?x=1;q=evil", "?+q=evil", "?q%00=evil"] {
        some.get(evil, "");
        assert_eq!(some.get("", "").text(), "/app/", "{evil}");
        some.get(&format!("?q=1&{}", &evil[1..]), "");
        assert_eq!(some.get("?q=1", "").text(), "/app/?q=1", "{evil}");
    }
    // Others do not count.
    assert_eq!(some.get("?x=2", "").text(), "/app/");
    let others = start_with("response_cache_query = [\"!utm_*\"]", "", answer);
    others.get("?utm_source=1;q=evil", "");
    assert_eq!(others.get("", "").text(), "/app/");
    assert_eq!(others.get("?utm_source=2", "").text(), "/app/");
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
fn a_validation_that_changes_what_selects_a_response_counts() {
    // `Vary` of the 304, and what requests with `de` and `fr` have then.
    const ROWS: [(&str, [&str; 4]); 4] = [
        ("Vary: Accept-Language\r\n", ["number 1", "number 3", "number 1", "number 3"]),
        ("Vary: *\r\n", ["number 3", "number 4", "number 5", "number 6"]),
        ("Vary: X-Forwarded-For\r\n", ["number 3", "number 4", "number 5", "number 6"]),
        ("", ["number 1"; 4]),
    ];
    let mut rows = Rows::new();
    for how in ["GET", "HEAD"] {
        for (vary, expected) in ROWS {
            let app = start(move |head, number| {
                match (head.starts_with("HEAD "), head.contains("If-None-Match")) {
                    (true, _) => {
                        format!("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n{vary}\r\n")
                    }
                    (false, true) => {
                        format!("HTTP/1.1 304 No\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n{vary}\r\n")
                    }
                    (false, false) => {
                        let (age, vary) = if number == 1 { ("100", "") } else { ("0", vary) };
                        ok(
                            &format!("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: {age}\r\n{vary}"),
                            number,
                        )
                    }
                }
            });
            let language = |language: &str| app.get("", &format!("Accept-Language: {language}\r\n")).text();
            rows.check(format!("{how} {vary}, first"), language("de").as_str(), "number 1");
            let mut client = app.server.connect();
            client.send(format!("{how} /app/ HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n"));
            match how {
                "GET" => rows.check(vary, client.read_response().text().as_str(), "number 1"),
                _ => rows.check(vary, client.read_response_to_head().status, 200),
            }
            let found = ["de", "fr", "de", "fr"].map(language);
            rows.check(format!("{how} {vary}"), found.each_ref().map(String::as_str), expected);
        }
    }
}

#[test]
fn a_304_with_another_entity_tag_confirms_nothing() {
    let app = start(|head, number| match head.contains("If-None-Match") {
        true => "HTTP/1.1 304 No\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
        false => {
            let (tag, age) = if number == 1 { ("a", "100") } else { ("b", "0") };
            ok(&format!("Cache-Control: max-age=60\r\nETag: \"{tag}\"\r\nAge: {age}\r\n"), number)
        }
    });
    assert_eq!(app.get("", "").text(), "number 1");
    // The second one is the condition, and the third one the same request without it.
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 3", "number 3"]);
    // An upstream that has nothing but 304 is asked twice.
    let app = start(|_, number| match number {
        1 => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        _ => "HTTP/1.1 304 No\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
    });
    assert_eq!(app.get("", "").text(), "number 1");
    assert_eq!((app.get("", "").status, app.requests()), (304, 3));
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

const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";

/// The range of the alphabet that a request asks for, as a 206, unless `If-Range` names another tag. Otherwise all of
/// it.
fn in_part(head: &str, fields: &str, etag: &str) -> String {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let etag_field = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
    let size = ALPHABET.len();
    let range = field("Range: bytes=").filter(|_| field("If-Range: ").is_none_or(|tag| tag == etag));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{etag_field}{fields}\r\n{ALPHABET}");
    };
    let number = |text: &str| text.parse::<usize>().ok();
    let (first, last) = match number(first) {
        Some(first) => (first, number(last).unwrap_or(size - 1)),
        None => (size - number(last).expect("a number"), size - 1),
    };
    let part = &ALPHABET[first..=last];
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{size}\r\n\
         Content-Length: {}\r\n{etag_field}{fields}\r\n{part}",
        part.len()
    )
}

#[test]
fn keeps_parts_and_completes_them() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let app = start(move |head, _| {
        seen.lock().expect("a head").push(head.to_owned());
        in_part(head, "Cache-Control: max-age=60\r\nContent-Type: text/x\r\n", "\"a\"")
    });
    let part = |range: &str| {
        let response = app.get("", &format!("Range: bytes={range}\r\n"));
        assert_eq!((response.status, response.field("Content-Type")), (206, Some("text/x")), "{range}");
        response.text()
    };
    assert_eq!(part("0-4"), "abcde");
    assert_eq!([part("0-4"), part("1-3"), part("4-4")], ["abcde", "bcd", "e"]);
    let hit = app.get("", "Range: bytes=2-3\r\nIf-Range: \"a\"\r\n");
    assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
    assert_eq!((hit.text().as_str(), hit.field("Content-Range")), ("cd", Some("bytes 2-3/26")));
    assert_eq!(app.requests(), 1);
    assert_eq!([part("-6"), part("-2"), part("24-"), part("20-21")], ["uvwxyz", "yz", "yz", "uv"]);
    assert_eq!(app.requests(), 2);
    // Not all of it is there; then it is.
    assert_eq!([part("3-8"), part("0-8"), part("8-8")], ["defghi", "abcdefghi", "i"]);
    assert_eq!((app.requests(), app.server.count("response_parts_stored")), (3, 3));
    // The whole: only what is missing is requested.
    let whole = app.get("", "");
    assert_eq!((whole.status, whole.text().as_str(), whole.has("content-range")), (200, ALPHABET, false));
    let last = heads.lock().expect("a head").last().cloned().expect("a head");
    assert!(last.contains("\r\nRange: bytes=9-19\r\n") && last.contains("\r\nIf-Range: \"a\"\r\n"), "{last}");
    assert_eq!([app.get("", "").text().as_str(), &part("5-6"), &part("-1")], [ALPHABET, "fg", "z"]);
    assert_eq!(app.get("", "If-None-Match: \"a\"\r\n").status, 304);
    assert_eq!(app.requests(), 4);
}

#[test]
fn never_combines_parts_of_different_responses() {
    const CONTROL: &str = "Cache-Control: max-age=60\r\n";
    // The upstream obeys `If-Range`, and sends another whole response.
    let app = start(|head, number| match number {
        1 => in_part(head, CONTROL, "\"a\""),
        _ => ok("Cache-Control: max-age=60\r\nETag: \"b\"\r\n", number),
    });
    assert_eq!(app.get("", "Range: bytes=0-3\r\n").text(), "abcd");
    assert_eq!([app.get("", "").text(), app.get("", "Range: bytes=0-3\r\n").text()], ["number 2", "numb"]);
    assert_eq!(app.requests(), 2);
    // It ignores `If-Range`, and sends the rest of another one; or says that there is no rest.
    let other = in_part("Range: bytes=4-\r\n", CONTROL, "\"b\"");
    let none = "HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n".to_owned();
    let weak = in_part("Range: bytes=4-\r\n", CONTROL, "W/\"a\"");
    let shorter = in_part("Range: bytes=4-\r\n", CONTROL, "\"a\"").replace("/26", "/27");
    let cut = in_part("Range: bytes=4-\r\n", CONTROL, "\"a\"").replace("xyz", "<cut>");
    for second in [other, none, weak, shorter, cut] {
        let shown = second.clone();
        let app = start(move |head, number| match number {
            1 => in_part(head, CONTROL, "\"a\""),
            2 => second.clone(),
            _ => ok("Cache-Control: max-age=60\r\n", number),
        });
        assert_eq!(app.get("", "Range: bytes=0-3\r\n").text(), "abcd", "{shown}");
        assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 3", "number 3"], "{shown}");
    }
    // Later parts replace those of another response.
    let app = start(|head, number| in_part(head, CONTROL, if number == 1 { "\"a\"" } else { "\"b\"" }));
    let part = |range: &str| app.get("", &format!("Range: bytes={range}\r\n")).text();
    assert_eq!([part("0-3"), part("4-7"), part("4-5"), part("0-1")], ["abcd", "efgh", "ef", "ab"]);
    assert_eq!(app.requests(), 3);
}

#[test]
fn stores_only_parts_that_say_what_they_are() {
    // The fields of a 206 with five bytes, those of the requests, and how many of two requests reach the upstream.
    const ROWS: [(&str, &str, usize); 12] = [
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "", 1),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-5/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/*\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/3\r\n", "", 2),
        ("Cache-Control: max-age=60\r\n", "", 2),
        ("Cache-Control: max-age=0\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: no-store\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: private, max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nSet-Cookie: a\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Authorization: a\r\n", 2),
        ("Cache-Control: public, max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Authorization: a\r\n", 1),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Cache-Control: no-store\r\n", 2),
    ];
    for (fields, request, expected) in ROWS {
        let app = start(move |_, _| {
            format!("HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n{fields}\r\nabcde")
        });
        for _ in 0..2 {
            let response = app.get("", &format!("Range: bytes=0-4\r\n{request}"));
            assert_eq!((response.status, response.text().as_str()), (206, "abcde"), "{fields}{request}");
        }
        assert_eq!(app.requests(), expected, "{fields}{request}");
    }
    // Without a strong tag, a part is used and never completed.
    for etag in ["", "W/\"a\""] {
        let app = start(move |head, _| {
            assert!(!head.contains("Range: bytes=5-"), "{head}");
            in_part(head, "Cache-Control: max-age=60\r\n", etag)
        });
        let part = |range: &str| app.get("", &format!("Range: bytes={range}\r\n")).text();
        assert_eq!([part("0-4"), part("1-2")], ["abcde", "bc"]);
        assert_eq!(app.requests(), 1, "{etag}");
        assert_eq!([app.get("", "").text(), app.get("", "").text()], [ALPHABET, ALPHABET]);
        assert_eq!(app.requests(), 2, "{etag}");
    }
}

#[test]
fn what_empties_the_cache_removes_parts_too() {
    let purges = "response_cache_purge = [\"127.0.0.1\"]";
    let app = start_with(purges, "", |head, _| match head.starts_with("POST ") {
        true => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        false => in_part(head, "Cache-Control: max-age=60\r\nCache-Tag: t\r\n", "\"a\""),
    });
    let part = || app.get("", "Range: bytes=0-3\r\n").text();
    let removes = |what: &str, remove: &dyn Fn()| {
        let before = app.requests();
        assert_eq!([part(), part()], ["abcd", "abcd"], "{what}");
        assert_eq!(app.requests(), before + 1, "{what}");
        remove();
    };
    let send = |method: &str| {
        app.server.request(format!("{method} /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).status
    };
    removes("POST", &|| assert_eq!(send("POST"), 204));
    // The POST itself has reached the upstream.
    removes("PURGE", &|| assert_eq!(send("PURGE"), 200));
    removes("taipan purge", &|| {
        let output = app.server.run_command(&["purge", "--tag", "t"]);
        assert!(output.status.success() && output.stdout.starts_with(b"removed: 1 "), "{output:?}");
    });
    removes("the last", &|| ());
}

#[test]
fn compresses_a_stored_response_once() {
    let page = "<p>a line of a page</p>\n".repeat(3000);
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
    let gzip = "Accept-Encoding: gzip\r\n";
    let inflated = |response: &Response| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&response.body[..]).read_to_string(&mut text).expect("it is gzip");
        text
    };
    for path in ["", "old"] {
        let made = app.server.count("response_copies");
        app.get(path, gzip);
        // The copy of what was stored is made at the first hit.
        let is_made = || {
            assert_eq!(inflated(&app.get(path, gzip)), page);
            app.server.count("response_copies") > made
        };
        assert!(wait_until(TIMEOUT, is_made), "{}", app.server.stats());
        let copy = app.get(path, gzip);
        assert_eq!(inflated(&copy), page);
        assert_eq!(copy.field("Content-Length"), Some(copy.body.len().to_string().as_str()));
        assert_eq!(
            (copy.field("Content-Encoding"), copy.field("ETag"), copy.field("Vary")),
            (Some("gzip"), Some("W/\"a\""), Some("Accept-Encoding"))
        );
        assert!(did(&copy).starts_with("taipan; hit"), "{}", did(&copy));
        assert_eq!(copy.field("X-New"), (path == "old").then_some("yes"));
        let unmodified = app.get(path, &format!("{gzip}If-None-Match: W/\"a\"\r\n"));
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
        let part = app.get(path, &format!("{gzip}Range: bytes=3-8\r\n"));
        assert_eq!((part.status, part.text().as_str(), part.has("content-encoding")), (206, "a line", false));
        assert_eq!(part.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(app.server.count("response_copies"), made + 1);
    }
    // What would not be compressed does not vary; of a 304 that is not stored, nothing is known.
    let app = start_with("compress_scripts = true", "", |head, number| match head.contains("private") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: private\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Type: text/html\r\n", number),
    });
    for (path, tag, vary) in [
        ("private", "\"a\"", Some("Accept-Encoding")),
        ("private", "W/\"a\"", Some("Accept-Encoding")),
        ("small", "\"a\"", None),
    ] {
        for _ in 0..2 {
            let unmodified = app.get(path, &format!("{gzip}If-None-Match: {tag}\r\n"));
            assert_eq!(
                (unmodified.status, unmodified.field("ETag"), unmodified.field("Vary")),
                (304, Some(tag), vary),
                "{path}"
            );
        }
    }
    // A part varies as the whole does, whether it is passed on or stored.
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
        ("small", None, "06"),
        ("small", None, "06"),
    ] {
        let part = app.get(path, "Range: bytes=0-8\r\n");
        assert_eq!(
            (part.status, part.text(), part.field("Vary")),
            (206, format!("number {number}"), vary),
            "{path}"
        );
    }
    // Without the key, and where copies are off, nothing is kept.
    for settings in ["", "compress_scripts = true\ncompress_kept = \"off\""] {
        let page = page.clone();
        let app = start_with(settings, "", move |_, _| {
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                page.len()
            )
        });
        let is_encoded = [0, 1, 2].map(|_| app.get("", gzip).has("content-encoding"));
        assert_eq!(is_encoded, [!settings.is_empty(); 3]);
        assert_eq!((app.server.count("response_copies"), app.requests()), (0, 1), "{settings}");
    }
}

#[test]
fn a_body_that_is_read_in_the_background_leaves_its_connection_to_the_next_request() {
    let site = Site::new();
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.expect("it listens");
            thread::spawn(move || {
                while let Some(head) = read_request(&mut stream) {
                    let whole = in_part(&head, "Cache-Control: max-age=60\r\n", "\"a\"");
                    let (first, last) = whole.split_at(whole.len() - 2);
                    stream.write_all(first.as_bytes()).expect("it reads");
                    thread::sleep(Duration::from_millis(50));
                    stream.write_all(last.as_bytes()).expect("it reads");
                }
            });
        }
    });
    let server = site
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    let get = |path: &str, fields: &str| {
        server.request(format!("GET /app/{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let stored = |number| {
        assert!(wait_until(TIMEOUT, || server.count("responses_stored") == number), "{}", server.stats());
    };
    // 304 to the client, while the whole is stored.
    for number in 1..=3 {
        assert_eq!(get(&number.to_string(), "If-None-Match: \"a\"\r\n").status, 304);
        stored(number);
    }
    // The rest of a response of which parts are stored.
    assert_eq!(get("part", "Range: bytes=0-9\r\n").status, 206);
    assert_eq!(get("part", "").text(), ALPHABET);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// Answers requests by FastCGI with the number of each.
fn serve_fastcgi(stream: &mut UnixStream, requests: &AtomicUsize) -> Option<()> {
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        stream.read_exact(&mut vec![0; length + usize::from(head[6])]).ok()?;
        // The end of the request's body.
        if head[1] == 5 && length == 0 {
            let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
            let output = format!("Cache-Control: max-age=60\r\nContent-Type: text/x\r\n\r\nnumber {number}");
            let record = |kind: u8, content: &[u8]| {
                [&[1, kind, head[2], head[3], 0, content.len() as u8, 0, 0], content].concat()
            };
            let bytes = [record(6, output.as_bytes()), record(6, b""), record(3, &[0; 8])].concat();
            stream.write_all(&bytes).ok()?;
        }
    }
}

#[test]
fn responses_of_every_kind_of_upstream_are_stored_for_every_protocol() {
    let site = Site::new().every_protocol();
    let listener = UnixListener::bind(site.home().join("fastcgi")).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.expect("it listens"), counted.clone());
            thread::spawn(move || serve_fastcgi(&mut stream, &counted));
        }
    });
    let counts = site.home().join("counts");
    let script = format!(
        "#!/bin/sh\necho >> {0}\nprintf 'Cache-Control: max-age=60\\nContent-Type: text/x\\n\\nnumber %d' $(wc -l < {0})\n",
        counts.display()
    );
    let address = site.home().join("fastcgi").display().to_string();
    let server = site
        .script("s.cgi", script)
        .config(&format!(
            "workers = 1\nresponse_cache = true\n[[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/fast/\"\napplication = \"fast\"\n\
             [[application]]\nname = \"fast\"\nprotocol = \"fastcgi\"\naddress = \"unix:{address}\"\n"
        ))
        .start();
    for path in ["/s.cgi", "/fast/x"] {
        let get = |method: &str, fields: &str| {
            let mut client = server.connect();
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            match method {
                "HEAD" => client.read_response_to_head(),
                _ => client.read_response(),
            }
        };
        // The key has the scheme: each response is stored once for it, and once by HTTP.
        let by_http = get("GET", "").text();
        for _ in 0..2 {
            let again = get("GET", "");
            assert_eq!(again.text(), by_http, "{path}");
            assert!(did(&again).starts_with("taipan; hit"), "{path}: {}", did(&again));
        }
        assert_eq!(get("HEAD", "").field("Content-Length"), Some("8"), "{path}");
        let part = get("GET", "Range: bytes=0-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "num"), "{path}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn hits_over_tls_and_http2_are_those_of_http1() {
    let site = Site::new().certificate();
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.expect("it listens"), counted.clone());
            thread::spawn(move || {
                while read_request(&mut stream).is_some() {
                    let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                    let bytes = ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", number);
                    if stream.write_all(bytes.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let server = site
        .config(&format!(
            "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\nworkers = 1\n\
             [[route]]\npath = \"/\"\napplication = \"app\"\nresponse_cache = true\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    let mut plain = Client::tls(server.addr(), &Tls::new());
    let first = plain.request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(first.text(), "number 1");
    let tls = Tls::new().protocols(&["h2"]);
    let mut http2 = Http2::over(Client::tls(server.addr(), &tls)).expect("it accepts");
    let secure = |method: &str, fields: &[(&str, &str)]| {
        let mut request = Http2Request::new(method, "/", fields);
        request
            .fields
            .iter_mut()
            .filter(|(name, _)| name == b":scheme")
            .for_each(|(_, value)| *value = b"https".to_vec());
        request
    };
    for _ in 0..2 {
        let hit = http2.request(&secure("GET", &[])).expect("a response");
        assert_eq!(hit.text(), "number 1");
        assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
        let hit = plain.request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(hit.text(), "number 1");
    }
    let part = http2.request(&secure("GET", &[("range", "bytes=-1")])).expect("a response");
    assert_eq!((part.status, part.text().as_str()), (206, "1"));
    let same = http2.request(&secure("GET", &[("if-none-match", "\"a\"")])).expect("a response");
    assert_eq!((same.status, same.body.len()), (304, 0));
    let head = http2.request(&secure("HEAD", &[])).expect("a response");
    assert_eq!((head.field("content-length"), head.body.len()), (Some("8"), 0));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_hit_is_refused_where_a_user_or_a_rule_refuses_it() {
    // Two users with the password "secret".
    let hash = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    let settings = format!(
        "auth = \"basic\"\nrealm = \"r\"\nusers = {{ ann = \"{hash}\", bob = \"{hash}\" }}\n\
         [[route.rule]]\nfield = {{ X-Denied = \"?*\" }}\nthen = \"deny\""
    );
    let ann = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    let bob = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";
    for (control, for_bob) in [("public, max-age=60", "number 1"), ("max-age=60", "number 2")] {
        let fields = format!("Cache-Control: {control}\r\n");
        let app = start_with(&settings, "", move |_, number| ok(&fields, number));
        assert_eq!(
            [app.get("", ann).text().as_str(), &app.get("", bob).text()],
            ["number 1", for_bob],
            "{control}"
        );
        let before = app.requests();
        assert_eq!(app.get("", "").status, 401, "{control}");
        assert_eq!(app.get("", "Authorization: Basic YW5uOng=\r\n").status, 401, "{control}");
        assert_eq!(app.get("", &format!("{ann}X-Denied: 1\r\n")).status, 403, "{control}");
        assert_eq!(app.requests(), before, "{control}");
    }
}

#[test]
fn a_purge_reaches_the_process_before_a_reload() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains(" /app/slow ") {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    assert_eq!([app.get("a", "").text(), app.get("a", "").text()], ["number 1", "number 1"]);
    let mut slow = app.server.connect();
    slow.send("GET /app/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait_until(TIMEOUT, || app.requests() == 2), "the request is running");
    app.server.reload();
    // The successor begins without it, and each of both has it then.
    assert_eq!([app.get("a", "").text(), app.get("a", "").text()], ["number 3", "number 3"]);
    let output = app.server.run_command(&["purge", "--prefix", "/app/"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("removed: 2 "), "{text}");
    assert_eq!(app.get("a", "").text(), "number 4");
    gate.open();
    assert_eq!(slow.read_response().text(), "number 2");
}
