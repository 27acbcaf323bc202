//! The key `proxy` of routes: URLs, paths, fields, and redirects. The upstreams are threads of the test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use e2e::http2::{Http2, Http2Request};
use e2e::upstream::read_head;
use e2e::{Rows, Server, Site, TIMEOUT, free_port, wait_until};
use serde_json::Value;
use taipan_h2::error::HpackError;
use taipan_h2::hpack::Decoder;

/// Reads the head of a request, and sends it back with further `fields`.
fn echo(stream: &mut (impl Read + Write), fields: &str) -> io::Result<()> {
    loop {
        let head = read_head(stream)?;
        let response = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{head}", head.len());
        stream.write_all(response.as_bytes())?;
    }
}

/// An upstream that sends the head of each request back, with `fields` for this address.
fn upstream(fields: impl Fn(SocketAddr) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let fields = fields(address);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, fields) = (stream.expect("it listens"), fields.clone());
            thread::spawn(move || _ = echo(&mut stream, &fields));
        }
    });
    address
}

/// As `upstream`, with the same fields, at a Unix socket.
fn upstream_at(socket: &Path, fields: &'static str) {
    let listener = UnixListener::bind(socket).expect("it is our folder");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("it listens");
            thread::spawn(move || _ = echo(&mut stream, fields));
        }
    });
}

/// The values of a field in the head that an upstream has received.
fn values(head: &str, name: &str) -> Vec<String> {
    let pairs = head.lines().filter_map(|line| line.split_once(": "));
    pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

/// The path that the upstream gets.
fn path(server: &Server, target: &str) -> String {
    let response = server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    match response.status {
        200 => response.text().split(' ').nth(1).unwrap_or_default().to_owned(),
        status => status.to_string(),
    }
}

#[test]
fn the_last_content_type_of_an_upstream_counts_and_is_logged() {
    let address = upstream(|_| "Content-Type: text/plain\r\ncontent-type: text/html\r\n".to_owned());
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Type: text/html\\n\\nhi'\n";
    let lengths = "#!/bin/sh\nprintf 'Content-Length: 2\\nContent-Length: 3\\n\\nhi'\n";
    let config = format!(
        "[[route]]\npath = \"/proxy/\"\nproxy = \"http://{address}\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n"
    );
    let server = Site::new().script("a.cgi", script).script("b.cgi", lengths).config(&config).start();
    let mut rows = Rows::new();
    for path in ["/a.cgi", "/proxy/", "/proxy/"] {
        let response = server.get(path);
        let types = response.values("content-type");
        rows.check(path, (response.status, types), (200, vec!["text/html"]));
        let line = format!("\"GET {path}\": ");
        let is_logged = |lines: &str| {
            lines.lines().any(|l| l.contains(&line) && l.contains("has sent Content-Type more than once"))
        };
        rows.holds(path, "the log", wait_until(TIMEOUT, || is_logged(&server.stderr())));
    }
    rows.check("two lengths", server.get("/b.cgi").status, 502);
}

/// RFC 9110 §6.6.1.
#[test]
fn the_date_of_an_upstream_is_passed_on() {
    const DATE: &str = "Thu, 01 Jan 2015 00:00:00 GMT";
    let dated = upstream(|_| format!("Date: {DATE}\r\n"));
    let malformed = upstream(|_| "Date: x\r\n".to_owned());
    let config = format!(
        "[[route]]\npath = \"/dated\"\nproxy = \"http://{dated}\"\n\
         [[route]]\npath = \"/cached\"\nproxy = \"http://{dated}\"\nresponse_cache = true\n\
         [[route]]\npath = \"/malformed\"\nproxy = \"http://{malformed}\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n"
    );
    let script = format!("#!/bin/sh\nprintf 'Date: {DATE}\\nContent-Type: text/plain\\n\\nhi'\n");
    let server = Site::new().script("a.cgi", script).config(&config).start();
    let mut rows = Rows::new();
    for (path, is_passed) in [("dated", true), ("cached", true), ("malformed", false), ("a.cgi", true)] {
        for attempt in 1..=2 {
            let dates = server.get(&format!("/{path}")).values("Date").join(",");
            rows.check(format!("{path} {attempt}"), (dates.len(), dates == DATE), (DATE.len(), is_passed));
        }
    }
}

#[test]
fn the_log_has_a_line_a_second_of_an_upstream_that_is_not_there() {
    for line in ["cannot connect to 127.0.0.1:", "nothing listens at its address"] {
        let config = format!("[[route]]\npath = \"/\"\nproxy = \"http://127.0.0.1:{}\"\n", free_port());
        let server = Site::new().config(&config).start();
        // Each worker has its lines.
        let mut client = server.connect();
        server.expect_a_line_a_second(line, || {
            assert_eq!(client.get("/").status, 502);
        });
    }
}

/// As where clients that take nothing of their responses occupy all connections.
#[test]
fn the_log_has_a_line_a_second_of_requests_that_get_no_connection() {
    let (sender, occupied) = channel();
    let endpoint = e2e::upstream::upstream(move |mut stream, _| {
        _ = sender.send(());
        // Without a response, until the server closes the connection.
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    let address = endpoint.trim_start_matches("http://");
    let config = format!(
        "[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\nprotocol = \"http\"\n\
         address = \"{address}\"\nconnections = 1\nwait = \"20ms\"\n"
    );
    let server = Site::new().config(&config).start();
    let mut clients = Vec::new();
    let is_occupied = wait_until(TIMEOUT, || {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        clients.push(client);
        occupied.recv_timeout(Duration::from_millis(100)).is_ok()
    });
    assert!(is_occupied);
    // Each worker has its lines.
    let mut client = server.connect();
    server.expect_a_line_a_second("none of its connections was free in time", || {
        assert_eq!(client.get("/").status, 503);
    });
}

#[test]
fn a_request_that_goes_in_a_circle_gets_508() {
    let address = upstream(|_| String::new());
    let port = free_port();
    let config = format!(
        "listen = [\"127.0.0.1:{port}\"]\n[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n\
         [[route]]\npath = \"/circle/\"\nproxy = \"http://127.0.0.1:{port}\"\n\
         [log]\naccess = \"stdout\"\n"
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();
    rows.check("a circle", server.get("/circle/").status, 508);
    // The tenth pass ends it.
    let lines = server.wait_for_lines(11);
    rows.check(
        "lines",
        lines.iter().filter(|line| line.contains("\"GET /circle/ HTTP/1.1\" 508 ")).count(),
        11,
    );
    rows.check("the rule", lines.iter().filter(|line| line.contains("proxy-loop: ")).count(), 1);
    let status = |fields: &str| server.request(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).status;
    // The connection to the upstream is a new one, and then one that is idle.
    for name in ["new", "idle"] {
        rows.check(name, status(&"Via: 1.1 taipan, 1.1 other\r\n".repeat(9)), 200);
        rows.check(name, status(&"Via: 1.1 taipan\r\n".repeat(10)), 508);
        rows.check(name, status(&format!("Via: 1.1 a{}\r\n", ", 2.0 taipan".repeat(10))), 508);
        rows.check(name, status(&"Via: 1.1 other\r\n".repeat(10)), 200);
    }
}

/// Each pass could wait for the response to the one before it.
#[test]
fn a_cached_request_that_goes_in_a_circle_gets_508_before_a_third_pass_has_waited() {
    let port = free_port();
    let server = Site::new()
        .config(&format!(
            "listen = [\"127.0.0.1:{port}\"]\n[[route]]\npath = \"/\"\nproxy = \"http://127.0.0.1:{port}\"\n\
             response_cache = true\nresponse_cache_wait = \"4s\"\n"
        ))
        .start();
    assert_eq!(server.get("/").status, 508);
}

#[test]
fn forwards_to_a_url_and_replaces_the_path_of_the_route() {
    let address = upstream(|_| String::new());
    let route = |path: &str, rest: &str| {
        format!("[[route]]\npath = \"{path}\"\nproxy = \"http://{address}{rest}\"\n")
    };
    let routes = [
        route("/plain/", ""),
        route("/strip/", "/"),
        route("/deep/a b/", "/api/"),
        route("/login", "/sso/in"),
        "[[route]]\npath = \"/named/\"\nproxy = \"http://app/n/\"\n".to_owned(),
        route("*.png", ""),
        "[[route]]\npath = \"/files/\"\nfallback = \"/strip/\"\n".to_owned(),
        format!("[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{address}\"\n"),
    ];
    let server =
        Site::new().file("a.txt", "a file").file("files/b.txt", "b").config(&routes.concat()).start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/plain/x?y", "/plain/x?y"),
        ("/strip/x/y%2Cz/?q", "/x/y%2Cz/?q"),
        ("/strip", "/"),
        ("/strip/", "/"),
        ("/strip/x/../../strip/y", "/y"),
        ("/strip//x", "/x"),
        ("/strip/../../x", "400"),
        ("/strip/%2fx", "400"),
        ("/deep/a%20b/c", "/api/c"),
        ("/deep/%61%20b/%63", "/api/%63"),
        ("/login?next=/", "/sso/in?next=/"),
        ("/named/x", "/n/x"),
        ("/x/y.png", "/x/y.png"),
        ("/files/missing", "/files/missing"),
        ("/missing", "404"),
    ] {
        rows.check(target, path(&server, target).as_str(), expected);
    }
    rows.check("a file", server.get("/a.txt").text().as_str(), "a file");
    rows.check("a file before a fallback", server.get("/files/b.txt").text().as_str(), "b");
}

#[test]
fn forwards_to_unix_sockets_and_to_several_endpoints() {
    let site = Site::new();
    let socket = site.home().join("app.sock");
    upstream_at(&socket, "X-By: unix\r\n");
    let [one, other] =
        ["one", "other"].map(|name| upstream(move |_| format!("X-By: {name}\r\nConnection: close\r\n")));
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/unix/\"\nproxy = \"http://unix:app.sock\"\n\
         [[route]]\npath = \"/strip/\"\nproxy = \"http://unix:{}:/x/\"\n\
         [[route]]\npath = \"/two/\"\nproxy = [\"http://{one}\", \"http://{other}\"]\n\
         [[route]]\npath = \"/half/\"\nproxy = [\"http://127.0.0.1:1\", \"http://{one}\"]\n\
         [[route]]\npath = \"/dead/\"\nproxy = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]\n\
         [[route]]\npath = \"/none/\"\nproxy = \"http://127.0.0.1:1\"\n",
        socket.display()
    );
    let server = site.config(&config).start();
    let mut rows = Rows::new();
    rows.check("unix", server.get("/unix/a").field("x-by"), Some("unix"));
    rows.check("unix with a path", path(&server, "/strip/a").as_str(), "/x/a");
    let by: Vec<String> =
        (0..8).map(|_| server.get("/two/").field("x-by").unwrap_or_default().to_owned()).collect();
    rows.holds(
        format!("{by:?}"),
        "both have requests",
        by.contains(&"one".to_owned()) && by.contains(&"other".to_owned()),
    );
    for _ in 0..4 {
        rows.check("an endpoint that is down", server.get("/half/").status, 200);
    }
    let post = server.request("POST /dead/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    rows.check("two that are down", post.status, 502);
    let line = server.wait_for_line("\"POST /dead/x\": ", e2e::TIMEOUT);
    let names_one = line.contains("http://127.0.0.1:1") || line.contains("http://127.0.0.1:2");
    rows.holds(&line, "it names the endpoint", names_one);
    rows.check("all are down", server.get("/none/x").status, 502);
    let expected = "\"GET /none/x\": cannot forward to the upstream http://127.0.0.1:1: ";
    let line = server.wait_for_line(expected, e2e::TIMEOUT);
    rows.holds(&line, "it names the reason", line.contains("nothing listens"));
}

/// By HTTP/1.0, a request needs no host, but the upstream gets it by HTTP/1.1.
#[test]
fn a_request_without_a_host_has_that_of_the_upstream() {
    let site = Site::new();
    let socket = site.home().join("app.sock");
    upstream_at(&socket, "");
    let address = upstream(|_| String::new());
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n\
         [[route]]\npath = \"/unix/\"\nproxy = \"http://unix:app.sock\"\n\
         [[route]]\npath = \"/set/\"\nproxy = \"http://{address}\"\nproxy_host = \"b\"\n"
    );
    let server = site.config(&config).start();
    let mut rows = Rows::new();
    // The second request is sent at once, by an idle connection.
    for (path, expected) in
        [("/", &*address.to_string()), ("/", &address.to_string()), ("/unix/", "localhost"), ("/set/", "b")]
    {
        let head = server.request(format!("GET {path} HTTP/1.0\r\n\r\n")).text();
        rows.check(path, values(&head, "host"), vec![expected.to_owned()]);
        rows.check(path, values(&head, "x-forwarded-host"), vec![]);
        let forwarded = values(&head, "forwarded").concat();
        rows.holds(path, &forwarded, !forwarded.contains("host=") && forwarded.ends_with(";proto=http"));
        let named = server.request(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n")).text();
        rows.check(path, values(&named, "x-forwarded-host"), vec!["a".to_owned()]);
    }
}

#[test]
fn sets_and_removes_fields_of_requests() {
    let address = upstream(|_| "X-Secret: 1\r\nVia: 1.1 inner\r\n".to_owned());
    let config = format!(
        "trusted_proxies = [\"127.0.0.2\"]\n\
         [[route]]\npath = \"/plain/\"\nproxy = \"http://{address}\"\n\
         [[route]]\npath = \"/set/\"\nproxy = \"http://{address}\"\nproxy_host = \"inner.example:81\"\n\
         proxy_headers = {{ \"X-Site\" = \"blue\", \"Cookie\" = false, \"x-forwarded-for\" = false }}\n\
         headers = {{ \"X-Secret\" = false, \"Via\" = false, \"X-Added\" = \"yes\" }}\n"
    );
    let server = Site::new().config(&config).start();
    let fields = "Host: www.example:8080\r\nCookie: a=b\r\nX-Site: red\r\nForwarded: for=evil\r\n\
                  X-Forwarded-Host: evil\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n";
    let request = |path: &str| server.request(format!("GET {path} HTTP/1.1\r\n{fields}\r\n"));
    let (plain, set) = (request("/plain/x"), request("/set/x"));
    let mut rows = Rows::new();
    for (name, in_plain, in_set) in [
        ("Host", &["www.example:8080"][..], &["inner.example:81"][..]),
        ("X-Forwarded-Host", &["www.example:8080"], &["www.example:8080"]),
        ("X-Forwarded-For", &["127.0.0.1"], &[]),
        ("X-Real-IP", &["127.0.0.1"], &[]),
        ("X-Forwarded-Proto", &["http"], &["http"]),
        (
            "Forwarded",
            &["for=127.0.0.1;host=\"www.example:8080\";proto=http"],
            &["for=127.0.0.1;host=\"www.example:8080\";proto=http"],
        ),
        ("Via", &["1.1 taipan"], &["1.1 taipan"]),
        ("Cookie", &["a=b"], &[]),
        ("X-Site", &["red"], &["blue"]),
        ("Connection", &["TE"], &["TE"]),
        ("X-Hop", &[], &[]),
        ("TE", &["trailers"], &["trailers"]),
        ("Upgrade", &[], &[]),
    ] {
        rows.check(name, values(&plain.text(), name), in_plain.iter().map(|v| (*v).to_owned()).collect());
        rows.check(name, values(&set.text(), name), in_set.iter().map(|v| (*v).to_owned()).collect());
    }
    rows.check(
        "of the upstream",
        (plain.field("x-secret"), plain.field("via")),
        (Some("1"), Some("1.1 inner")),
    );
    rows.check(
        "of the route",
        (set.field("x-secret"), set.field("via"), set.field("x-added")),
        (None, None, Some("yes")),
    );
}

#[test]
fn rewrites_redirects_to_the_upstream_itself() {
    let mut rows = Rows::new();
    for (location, url_path, expected) in [
        ("http://ADDRESS/x?y", "", "/x?y"),
        ("http://ADDRESS/in/x", "/in/", "/app/x"),
        ("/in/x", "/in/", "/app/x"),
        ("http://a/in/x", "/in/", "http://a/app/x"),
        ("/in/x", "", "/in/x"),
        ("https://other.example/in/x", "/in/", "https://other.example/in/x"),
        ("http://127.0.0.1:1/x", "/", "http://127.0.0.1:1/x"),
        ("x/y", "/", "x/y"),
    ] {
        let address =
            upstream(move |own| format!("Location: {}\r\n", location.replace("ADDRESS", &own.to_string())));
        let config = format!("[[route]]\npath = \"/app/\"\nproxy = \"http://{address}{url_path}\"\n");
        let server = Site::new().config(&config).start();
        let response = server.request("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(format!("{location} {url_path}"), response.field("location"), Some(expected));
    }
}

#[test]
fn a_426_names_the_protocols_that_may_pass() {
    let url = e2e::upstream::upstream(|mut stream, _| {
        let named = "Connection: Upgrade\r\nUpgrade: h2c, WebSocket\r\n";
        stream.write_all(format!("HTTP/1.1 426 No\r\n{named}Content-Length: 0\r\n\r\n").as_bytes())
    });
    let config = format!(
        "[[route]]\npath = \"/\"\nproxy = \"{url}\"\n\
         [[route]]\npath = \"/cached/\"\nproxy = \"{url}\"\nresponse_cache = true\n\
         [[route]]\npath = \"/none/\"\nproxy = \"{url}\"\nproxy_upgrade = []\n"
    );
    let server = Site::new().config(&format!("listen = [\"127.0.0.1:0 http2\"]\n{config}")).start();
    let mut rows = Rows::new();
    for (path, expected) in [("/", Some("WebSocket")), ("/cached/", Some("WebSocket")), ("/none/", None)] {
        for _ in 0..2 {
            let response = server.get(path);
            rows.check(path, (response.status, response.field("upgrade")), (426, expected));
            let is_named = response.values("connection").contains(&"Upgrade");
            rows.check(path, is_named, expected.is_some());
        }
        let by_http2 = Http2::over(server.connect()).expect("it speaks HTTP/2").get(path);
        rows.check(path, (by_http2.status, by_http2.field("upgrade")), (426, None));
    }
}

#[test]
fn check_rejects_what_cannot_be_forwarded_to() {
    let mut rows = Rows::new();
    for (settings, expected) in [
        ("proxy = \"127.0.0.1:80\"", "begin it with http://"),
        ("proxy = \"http://backend/\"", "there is no application \"backend\"; add a port"),
        ("proxy_path = \"raw\"", "is for a route whose upstream speaks HTTP"),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_path = \"sent\"", "proxy_path"),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_headers = { \"+A\" = false }", "without the + it is removed"),
        ("proxy = \"http://127.0.0.1:1\"\nheaders = { \"+A\" = false }", "without the + it is removed"),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_headers = { \"+Host\" = \"a\" }", "see \"proxy_host\""),
        ("proxy = \"http://127.0.0.1:1/api\"", "end it with a slash"),
        ("proxy = \"http://127.0.0.1:1/a?b\"", "without a query"),
        ("proxy = []", "name 1 to 64"),
        ("proxy = [\"http://127.0.0.1:1\", \"http://127.0.0.1:1\"]", "is given twice"),
        ("proxy = [\"http://127.0.0.1:1/a/\", \"http://127.0.0.1:2/b/\"]", "write the same path in each URL"),
        ("proxy = \"http://php/\"", "the application \"php\" does not speak HTTP"),
        ("proxy = \"http://127.0.0.1:1\"\nroot = \"/\"", "exclude each other"),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_host = \"a b\"", "write a host name"),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_headers = { Host = \"a\" }", "see \"proxy_host\""),
        ("proxy = \"http://127.0.0.1:1\"\nproxy_headers = { A = \"b\\nc\" }", "cannot be sent in a field"),
        ("application = \"php\"\nproxy_host = \"a\"", "is for a route whose upstream speaks HTTP"),
        ("proxy_host = \"a\"", "is for a route whose upstream speaks HTTP"),
    ] {
        let site = Site::new().config(&format!(
            "[[route]]\npath = \"/a/\"\n{settings}\n[[application]]\nname = \"php\"\naddress = \"127.0.0.1:1\"\n"
        ));
        let config = site.write_config();
        let output = e2e::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        rows.holds(
            settings,
            &format!("{expected}: {text}"),
            !output.status.success() && text.contains(expected),
        );
    }
}

#[test]
fn passes_a_raw_path_that_no_program_can_misread() {
    let address = upstream(|_| String::new());
    let config = format!(
        "[[route]]\npath = \"/v2/\"\nproxy = \"http://{address}\"\nproxy_path = \"raw\"\n\
         [[route]]\npath = \"/strip/\"\nproxy = \"http://{address}/\"\nproxy_path = \"raw\"\n\
         [[route]]\npath = \"/v2/private/\"\nproxy = \"http://{address}\"\nproxy_path = \"raw\"\n\
         [[route.rule]]\nthen = \"deny\"\n\
         [[route]]\npath = \"/files/\"\nfallback = \"/v2/\"\n\
         [[rule]]\npath = \"/v2/secret/\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/v2/open/\"\nthen = \"allow\"\n\
         [[rule]]\npath = \"/v2/*/admin\"\nthen = \"deny\"\n"
    );
    let server = Site::new().file("a%2Fb", "a file").config(&config).start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/v2/a%2Fb/tags/list?n=1", "/v2/a%2Fb/tags/list?n=1"),
        ("/v2/a%2fb", "/v2/a%2fb"),
        ("/v2/%61//b%20c", "/v2/%61//b%20c"),
        ("/v2/a%2F", "/v2/a%2F"),
        ("/strip/a%2Fb//c", "/a%2Fb//c"),
        // The readings lead to different routes.
        ("/v2%2Fa", "400"),
        ("/v2/private%2Fa", "400"),
        ("/v2//private/a", "403"),
        ("/strip//x", "400"),
        ("/strip/%2Fx", "400"),
        // Dot segments.
        ("/v2/a/../../x", "404"),
        ("/v2/a/../b", "400"),
        ("/v2/a/..", "400"),
        ("/v2/a/%2e%2E/b", "400"),
        ("/v2/a%2F..%2Fsecret/x", "400"),
        ("/v2/..%2fsecret/x", "400"),
        ("/v2/a/..;/x", "400"),
        ("/v2/a%5C..%5Cx", "400"),
        ("/v2/a%00", "400"),
        ("/v2/a%0a", "400"),
        ("//v2/a", "400"),
        ("/%2Fv2/a", "400"),
        // Either reading is denied.
        ("/v2/secret/x", "403"),
        ("/v2/secret%2Fx", "403"),
        ("/v2/secret//x", "403"),
        ("/v2/a/admin", "403"),
        ("/v2/a%2Fadmin", "403"),
        ("/v2/a%2Fb/admin", "403"),
        ("/v2/private/a", "403"),
        // Other routes.
        ("/a%2Fb", "400"),
        ("/files/a%2Fb", "400"),
        ("/files/a//b", "/files/a/b"),
        ("/a%252Fb", "200"),
    ] {
        let found = match target {
            "/a%252Fb" => server.get(target).status.to_string(),
            _ => path(&server, target),
        };
        rows.check(target, found.as_str(), expected);
    }
}

#[test]
fn refuses_dot_segments_that_only_some_applications_see() {
    let address = upstream(|_| String::new());
    let server =
        Site::new().config(&format!("[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n")).start();
    let mut rows = Rows::new();
    for (target, expected) in
        [("/a/..;/b", "400"), ("/a/%2e%2E%3bx/b", "400"), ("/a;x/b;..", "/a;x/b;.."), ("/a/../b", "/b")]
    {
        rows.check(target, path(&server, target).as_str(), expected);
    }
}

#[test]
fn rewrites_refresh_and_cookies_with_the_path() {
    let address = upstream(|own| {
        format!(
            "Refresh: 1; url=http://{own}/in/x\r\nSet-Cookie: a=1; Path=/in/; Secure\r\n\
             Set-Cookie: b=2; Domain=inner.example; Path=/in\r\nSet-Cookie: __Host-c=3; Path=/\r\n"
        )
    });
    let config = format!(
        "[[route]]\npath = \"/app/\"\nproxy = \"http://{address}/in/\"\nproxy_host = \"inner.example\"\n\
         [[route]]\npath = \"/in/\"\nproxy = \"http://{address}\"\n"
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();
    let (mapped, plain) = (server.get("/app/x"), server.get("/in/x"));
    rows.check("refresh", mapped.field("refresh"), Some("1; url=/app/x"));
    rows.check(
        "cookies",
        mapped.values("set-cookie"),
        vec!["a=1; Path=/app/; Secure", "b=2; Path=/app", "__Host-c=3; Path=/"],
    );
    rows.check("refresh without a prefix", plain.field("refresh"), Some("1; url=/in/x"));
    rows.check(
        "cookies without a prefix",
        plain.values("set-cookie"),
        vec!["a=1; Path=/in/; Secure", "b=2; Domain=inner.example; Path=/in", "__Host-c=3; Path=/"],
    );
}

#[test]
fn rewrites_cookies_beside_a_file_that_an_upstream_names() {
    let file = Arc::new(Mutex::new(String::new()));
    let named = file.clone();
    let url = e2e::upstream::upstream(move |mut stream, _| {
        let file = named.lock().expect("no panic").clone();
        let fields = "Set-Cookie: a=1; Path=/in/\r\nContent-Length: 0\r\nConnection: close\r\n";
        write!(stream, "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {file}\r\n{fields}\r\n")
    });
    let config =
        format!("[[route]]\npath = \"/app/\"\nproxy = \"{url}/in/\"\n[scripts]\nsendfile = [\"private\"]\n");
    let server = Site::new().file_beside_root("private/a", "a private file").config(&config).start();
    *file.lock().expect("no panic") = server.home().join("private/a").display().to_string();
    let response = server.get("/app/x");
    assert_eq!(response.text(), "a private file");
    assert_eq!(response.values("set-cookie"), ["a=1; Path=/app/"]);
}

#[test]
fn counts_the_forwards_of_options() {
    let address = upstream(|_| String::new());
    let server =
        Site::new().config(&format!("[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n")).start();
    let request = |method: &str, forwards: &str| {
        server.request(format!("{method} / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {forwards}\r\n\r\n"))
    };
    let mut rows = Rows::new();
    let last = request("OPTIONS", "0");
    let allowed = Some("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
    rows.check("the last", (last.status, last.field("allow")), (204, allowed));
    rows.check("one less", values(&request("OPTIONS", "10").text(), "Max-Forwards"), vec!["9".to_owned()]);
    rows.check("no number", values(&request("OPTIONS", "x").text(), "Max-Forwards"), vec!["x".to_owned()]);
    rows.check("another method", values(&request("GET", "0").text(), "Max-Forwards"), vec!["0".to_owned()]);
    let trace = request("TRACE", "5");
    rows.check("trace", (trace.status, trace.field("allow")), (405, allowed));
}

#[test]
fn adds_fields_in_both_directions() {
    let address = upstream(|_| "Link: </a>\r\nVary: Cookie\r\n".to_owned());
    let config = format!(
        "[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n\
         proxy_headers = {{ \"+X-Tag\" = \"server\", \"+Cookie\" = \"c=d\" }}\n\
         headers = {{ \"+Link\" = \"</b>\", \"+X-New\" = \"1\", \"Vary\" = \"Accept\", \"+Vary\" = \"Origin\" }}\n"
    );
    let server = Site::new().config(&config).start();
    let response = server.request("GET / HTTP/1.1\r\nHost: a\r\nX-Tag: client\r\n\r\n");
    let mut rows = Rows::new();
    rows.check("request", values(&response.text(), "X-Tag"), vec!["client".to_owned(), "server".to_owned()]);
    rows.check("request without one", values(&response.text(), "Cookie"), vec!["c=d".to_owned()]);
    rows.check("response", response.values("link"), vec!["</a>", "</b>"]);
    rows.check("a new field", response.values("x-new"), vec!["1"]);
    rows.check("set and added", response.values("vary"), vec!["Accept", "Origin"]);
}

#[test]
fn logs_the_endpoints_of_a_request() {
    let address = upstream(|_| String::new());
    let config = format!(
        "workers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n[[route]]\npath = \"/two/\"\n\
         proxy = \"http://{address}\"\n\
         [[route]]\npath = \"/none/\"\nproxy = \"http://127.0.0.1:1\"\n"
    );
    let server = Site::new().file("a.txt", "a").config(&config).start();
    let body = server.request("POST /two/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").body;
    _ = (server.get("/none/x"), server.get("/a.txt"));
    let lines = server.output().wait_for(e2e::TIMEOUT, |lines| (lines.len() == 3).then(|| lines.to_vec()));
    let lines = lines.unwrap_or_else(|| panic!("no 3 lines:\n{}", server.stdout()));
    let upstream = |at: usize| {
        let line: Value = serde_json::from_str(&lines[at]).unwrap_or_else(|e| panic!("{e}: {}", lines[at]));
        line["upstream"].clone()
    };
    let mut rows = Rows::new();
    let answered = upstream(0);
    rows.check("one attempt", answered.as_array().map(Vec::len), Some(1));
    let attempt = &answered[0];
    rows.check("address", attempt["address"].as_str(), Some(address.to_string().as_str()));
    rows.check("status", attempt["status"].as_u64(), Some(200));
    rows.check("sent", attempt["sent"].as_u64(), Some(5));
    rows.check("received", attempt["received"].as_u64(), Some(body.len() as u64));
    let time = |name: &str| attempt[name].as_f64().unwrap_or(f64::NAN);
    rows.holds(
        format!("{attempt}"),
        "the times follow one another",
        time("connect") <= time("first_byte") && time("first_byte") <= time("total") && time("total") < 60.0,
    );
    let failed = upstream(1);
    rows.check("one that is down", failed[0]["address"].as_str(), Some("http://127.0.0.1:1"));
    rows.check("no response", (&failed[0]["status"], &failed[0]["connect"]), (&Value::Null, &Value::Null));
    rows.check("a file", upstream(2), Value::Null);
}

#[test]
fn logs_each_endpoint_that_a_request_was_sent_to() {
    let good = upstream(|_| String::new());
    // It takes each request, and closes.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let bad = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            _ = stream.expect("it listens").read(&mut [0; 1024]);
        }
    });
    let config = format!(
        "workers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n[[route]]\npath = \"/\"\n\
         proxy = [\"http://{bad}\", \"http://{good}\"]\n"
    );
    let server = Site::new().config(&config).start();
    for _ in 0..4 {
        server.get("/x");
    }
    let lines = server.output().wait_for(e2e::TIMEOUT, |lines| (lines.len() == 4).then(|| lines.to_vec()));
    let lines = lines.unwrap_or_else(|| panic!("no 4 lines:\n{}", server.stdout()));
    let repeated = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let mut repeated = repeated.filter(|line| line["upstream"].as_array().is_some_and(|all| all.len() == 2));
    let line = repeated.next().unwrap_or_else(|| panic!("no request was repeated:\n{}", server.stdout()));
    let mut rows = Rows::new();
    let name = |at: usize| line["upstream"][at]["address"].as_str().unwrap_or_default().to_owned();
    rows.check("first", (name(0), &line["upstream"][0]["status"]), (bad.to_string(), &Value::Null));
    rows.check("second", (name(1), line["upstream"][1]["status"].as_u64()), (good.to_string(), Some(200)));
}

#[test]
fn explain_shows_the_request_for_the_upstream() {
    let site = Site::new().config(
        "[[route]]\npath = \"/a/\"\nproxy = \"http://127.0.0.1:3000/b/\"\nproxy_host = \"inner\"\n\
         proxy_headers = { \"X-Site\" = \"blue\", \"Cookie\" = false }\n",
    );
    let config = site.write_config();
    let output = e2e::run([
        "explain".as_ref(),
        "-c".as_ref(),
        config.as_os_str(),
        "GET".as_ref(),
        "/a/x/../y?z".as_ref(),
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "/a/: a reverse proxy",
        "run by    the upstream http://127.0.0.1:3000",
        "as        GET /b/y?z",
        "Host: inner",
        "X-Site: blue",
        "without Cookie",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// An upstream that sends interim responses before its response, by path. On `/hints`, the response waits for `gate`.
fn hinting_upstream(gate: Receiver<()>) -> SocketAddr {
    let gate = Arc::new(Mutex::new(gate));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, gate) = (stream.expect("it listens"), gate.clone());
            thread::spawn(move || {
                while let Ok(head) = read_head(&mut stream) {
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    let interim = match path {
                        "/hints" => {
                            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Secret: 1\r\n\
                                     Set-Cookie: a=b\r\nServer: x\r\nDate: x\r\nConnection: X-Hop\r\n\
                                     X-Hop: 1\r\n\r\n"
                                .to_owned()
                        }
                        "/others" => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 A\r\nA: b\r\n\r\n\
                                      HTTP/1.1 199\r\n\r\n"
                            .to_owned(),
                        "/many" => "HTTP/1.1 103 E\r\nA: b\r\n\r\n".repeat(40),
                        "/large" => {
                            let field = format!("A: {}\r\n", "a".repeat(9000));
                            format!("HTTP/1.1 103 E\r\n{field}{field}\r\nHTTP/1.1 103 E\r\nA: b\r\n\r\n")
                        }
                        "/endless" => "HTTP/1.1 103 E\r\nA: b\r\n\r\n".repeat(10_000),
                        _ => "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_owned(),
                    };
                    if stream.write_all(interim.as_bytes()).is_err() {
                        return;
                    }
                    if path == "/hints" {
                        gate.lock().expect("no thread panics").recv().expect("the test runs");
                    }
                    let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\nok";
                    if stream.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn passes_interim_responses() {
    let (open, gate) = channel();
    let address = hinting_upstream(gate);
    let config = format!(
        "listen = [\"127.0.0.1:0 http2\"]\n[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\n\
         headers = {{ \"X-Secret\" = false }}\n"
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();

    // The hints come before there is a response.
    let mut client = server.connect();
    let hints = client.get("/hints");
    rows.check("HTTP/1.1", (hints.status, hints.reason.as_str()), (103, "Early Hints"));
    let link = vec![("Link".to_owned(), "</a.css>; rel=preload".to_owned())];
    rows.check("fields", hints.fields, link);
    open.send(()).expect("the upstream waits");
    let response = client.read_response();
    rows.check("HTTP/1.1, response", (response.status, response.field("set-cookie")), (200, Some("a=b")));

    let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
    let stream = client.open(&Http2Request::get("/hints")).expect("it is open");
    let hints = loop {
        let frame = client.read_frame().expect("there are hints");
        if frame.stream == stream {
            break frame;
        }
    };
    let mut fields = Vec::new();
    let decoded = Decoder::new(0, usize::MAX).decode(&hints.payload, |name, value| {
        fields.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        Ok::<(), HpackError>(())
    });
    rows.holds(format!("{decoded:?}"), "a block", decoded.is_ok());
    // END_HEADERS alone: the stream goes on.
    rows.check("HTTP/2", (hints.kind, hints.flags), (1, 4));
    rows.check("HTTP/2, fields", fields.join(" "), ":status=103 link=</a.css>; rel=preload".to_owned());
    open.send(()).expect("the upstream waits");
    let frame = client.read_frame().expect("there is a response");
    rows.check("HTTP/2, response", (frame.kind, frame.stream, &frame.payload[..1]), (1, stream, &[0x88][..]));

    open.send(()).expect("the upstream waits");
    let old = server.request("GET /hints HTTP/1.0\r\nHost: a\r\n\r\n");
    rows.check("HTTP/1.0", (old.status, old.text().as_str()), (200, "ok"));

    let statuses = |path: &str| {
        let mut client = server.connect();
        let mut statuses = vec![client.get(path).status];
        while statuses.last().is_some_and(|last| *last < 200) {
            statuses.push(client.read_response().status);
        }
        statuses
    };
    rows.check("100 is the server's", statuses("/others"), vec![102, 199, 200]);
    rows.check("too many", statuses("/many"), [vec![103; 16], vec![200]].concat());
    rows.check("too large", statuses("/large"), vec![103, 200]);
    rows.check("endless", statuses("/endless").last().copied(), Some(502));
    rows.check("101 was not asked for", statuses("/switch"), vec![502]);
    let mut client = Http2::over(server.connect()).expect("it speaks HTTP/2");
    rows.check("HTTP/2, too many", client.get("/many").text().as_str(), "ok");
}

/// An upstream that tells each byte that it has received, and responds after `0\r\n\r\n`, or at once to a length.
fn telling_upstream(told: Sender<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, told) = (stream.expect("it listens"), told.clone());
            thread::spawn(move || {
                while let Ok(head) = read_head(&mut stream) {
                    _ = told.send(head.clone().into_bytes());
                    let is_chunked = !values(&head, "Transfer-Encoding").is_empty();
                    let length =
                        values(&head, "Content-Length").first().and_then(|length| length.parse().ok());
                    let is_whole = |body: &[u8]| match is_chunked {
                        true => body.ends_with(b"0\r\n\r\n"),
                        false => body.len() == length.unwrap_or(0),
                    };
                    let (mut body, mut byte) = (Vec::new(), [0]);
                    while !is_whole(&body) {
                        if stream.read_exact(&mut byte).is_err() {
                            _ = told.send(b"cut".to_vec());
                            return;
                        }
                        body.extend(byte);
                        _ = told.send(byte.to_vec());
                    }
                    _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    address
}

/// What the upstream tells, up to this end.
fn told(tells: &Receiver<Vec<u8>>, end: &str) -> String {
    let mut told = String::new();
    while !told.ends_with(end) {
        let bytes =
            tells.recv_timeout(e2e::TIMEOUT).unwrap_or_else(|_| panic!("{end:?} is missing: {told:?}"));
        told += &String::from_utf8_lossy(&bytes);
    }
    told
}

#[test]
fn streams_bodies_of_unknown_length_or_buffers_them() {
    let (tell, tells) = channel();
    let address = telling_upstream(tell);
    let site = Site::new();
    let config = format!(
        "[scripts]\nspool = \"{}\"\n[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\nmax_body = \"1KiB\"\nrequest_buffering = false\n\
         [[route]]\npath = \"/buffered/\"\nproxy = \"http://{address}\"\nrequest_buffering = true\n",
        site.home().display()
    );
    let server = site.config(&config).start();
    let mut rows = Rows::new();
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");

    // The first part comes before the second is sent. The framing is the server's own.
    let mut client = server.connect();
    client.send(head("/a")).send("5;x=y\r\nhello\r\n");
    let streamed = told(&tells, "hello\r\n");
    let request_head = streamed.split("\r\n\r\n").next().unwrap_or_default().to_owned();
    let framing = (values(&request_head, "Transfer-Encoding"), values(&request_head, "Content-Length"));
    rows.check("framing", framing, (vec!["chunked".to_owned()], vec![]));
    rows.holds(&streamed, "a chunk without the extension", streamed.ends_with("\r\n\r\n5\r\nhello\r\n"));
    client.send("3\r\nyou\r\n0\r\nAuthorization: a\r\n\r\n");
    rows.check("the rest", told(&tells, "0\r\n\r\n").as_str(), "3\r\nyou\r\n0\r\n\r\n");
    rows.check("its response", client.read_response().status, 200);
    rows.check("the connection goes on", client.request(head("/b") + "0\r\n\r\n").status, 200);
    told(&tells, "\r\n\r\n0\r\n\r\n");

    for (rest, status) in [("x\r\n", 400), ("401\r\n", 413)] {
        let mut client = server.connect();
        client.send(head("/c")).send("1\r\na\r\n");
        told(&tells, "1\r\na\r\n");
        rows.check(rest, client.send(rest).read_response().status, status);
        rows.check("the upstream sees no end", told(&tells, "cut").as_str(), "cut");
    }

    let mut client = server.connect();
    client.send(head("/buffered/a")).send("5\r\nhello\r\n");
    let mut sized = server.connect();
    sized.send("POST /buffered/b HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    // Another request overtakes them.
    rows.check("another", server.get("/d").status, 200);
    let first = tells.recv_timeout(e2e::TIMEOUT).expect("the upstream tells");
    rows.holds(&first, "only the other has come", first.starts_with(b"GET /d "));
    rows.check("buffered", client.send("3\r\nyou\r\n0\r\n\r\n").read_response().status, 200);
    let buffered = told(&tells, "helloyou");
    rows.check("its length", values(&buffered, "Content-Length"), vec!["8".to_owned()]);
    rows.check("buffered, sized", sized.send("def").read_response().status, 200);
    rows.check("its length", values(&told(&tells, "abcdef"), "Content-Length"), vec!["6".to_owned()]);
}

/// Responds before it has read the body of its request: with `early`, and when `proceed` says so, with `late`.
fn early_upstream(proceed: Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let head = read_head(&mut stream)?;
            if head.starts_with("POST") {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nearly")?;
                proceed.recv().map_err(io::Error::other)?;
                if head.starts_with("POST /all ") {
                    let mut body = vec![0; 700_000];
                    stream.read_exact(&mut body)?;
                }
                stream.write_all(b"late")?;
            } else {
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnext")?;
            }
            // Closed, it would be reset, because the body is unread.
            streams.push(stream);
        }
        io::Result::Ok(())
    });
    address
}

#[test]
fn keeps_the_connection_behind_a_response_that_begins_before_its_request_has_ended() {
    let (proceed, proceeds) = channel();
    let address = early_upstream(proceeds);
    let config = format!(
        "[[route]]\npath = \"/\"\nproxy = \"http://{address}\"\nmax_body = \"1MiB\"\nrequest_buffering = false\n"
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();
    let chunked = "Transfer-Encoding: chunked\r\n";
    let body = vec![b'x'; 700_000];
    let chunk = [b"aae60\r\n", &body[..], b"\r\n0\r\n\r\n"].concat();
    let (sized, endless) = ("Content-Length: 700000\r\n", [b"fffff\r\n", &body[..]].concat());
    for (path, fields, begin, rest) in [
        ("/all", sized, &body[..1], &body[1..]),
        ("/part", sized, &body[..1], &body[1..]),
        ("/part", chunked, &chunk[..9], &chunk[9..]),
        ("/part", sized, &body[..1], &[]),
        ("/part", chunked, &chunk[..9], b"nothing that ends a chunk"),
        ("/part", chunked, &chunk[..9], &endless),
    ] {
        let row = format!("{path} {fields}{} bytes", rest.len());
        let mut client = server.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        client.send(head).send(begin);
        let mut response = client.read_some().expect("the response begins");
        let goes_on = rest.len() >= body.len() - 1 && rest != endless;
        if path == "/all" {
            client.send(rest);
        }
        proceed.send(()).expect("the upstream waits");
        while !response.ends_with(b"early") {
            response.extend(client.read_some().expect("the response goes on"));
        }
        let announced = String::from_utf8_lossy(&response).to_lowercase().contains("connection: close");
        rows.check(&row, announced, false);
        while !response.ends_with(b"late") {
            response.extend(client.read_some().expect("the response goes on"));
        }
        match (path, goes_on) {
            ("/all", _) => rows.check(&row, client.get("/next").text().as_str(), "next"),
            (_, true) => {
                client.send(rest);
                rows.check(&row, client.get("/next").text().as_str(), "next");
            }
            (_, false) => {
                _ = client.try_send(rest);
                client.half_close();
                rows.holds(&row, "it is closed without a reset", client.is_finished());
            }
        }
    }
}
