//! The key `proxy` of routes: URLs, paths, fields, and redirects. The upstreams are threads of the test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::thread;

use e2e::{Rows, Server, Site};

/// Reads the head of a request, and sends it back with further `fields`.
fn echo(stream: &mut (impl Read + Write), fields: &str) -> io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
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
    let listener = UnixListener::bind(&socket).expect("it is our folder");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("it listens");
            thread::spawn(move || _ = echo(&mut stream, "X-By: unix\r\n"));
        }
    });
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
    let names_one = line.contains("the upstream http://127.0.0.1:1 did not respond")
        || line.contains("the upstream http://127.0.0.1:2 did not respond");
    rows.holds(&line, "it names the endpoint", names_one);
    rows.check("all are down", server.get("/none/x").status, 502);
    let expected = "\"GET /none/x\": the upstream http://127.0.0.1:1 did not respond: ";
    let line = server.wait_for_line(expected, e2e::TIMEOUT);
    rows.holds(&line, "it names the reason", line.contains("connection refused"));
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
        ("X-Forwarded-Proto", &["http"], &["http"]),
        (
            "Forwarded",
            &["for=127.0.0.1;host=\"www.example:8080\";proto=http"],
            &["for=127.0.0.1;host=\"www.example:8080\";proto=http"],
        ),
        ("Via", &["1.1 taipan"], &["1.1 taipan"]),
        ("Cookie", &["a=b"], &[]),
        ("X-Site", &["red"], &["blue"]),
        ("Connection", &[], &[]),
        ("X-Hop", &[], &[]),
        ("TE", &[], &[]),
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
fn check_rejects_what_cannot_be_forwarded_to() {
    let mut rows = Rows::new();
    for (settings, expected) in [
        ("proxy = \"https://127.0.0.1:443\"", "upstreams are reached by http:// only"),
        ("proxy = \"127.0.0.1:80\"", "begin it with http://"),
        ("proxy = \"http://localhost:3000\"", "names are not resolved; write \"127.0.0.1:3000\""),
        ("proxy = \"http://backend/\"", "there is no application \"backend\", and names are not resolved"),
        ("proxy = \"http://backend:81/\"", "write an IP address and a port"),
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
