//! Scripts by CGI/1.1 (RFC 3875): which files run, their variables and input, and the responses that their
//! output makes.

use e2e::{Client, Response, Rows, Server, Site, TIMEOUT, wait_until};

/// Prints its environment, and its working folder and arguments like variables.
const ENVIRONMENT: &str = "#!/usr/bin/perl\nuse Cwd;\nprint \"Content-Type: text/plain\\n\\n\";\n\
     print \"$_=$ENV{$_}\\n\" for sort keys %ENV;\nprint 'CWD=', getcwd(), \"\\n\";\n\
     print 'ARGUMENTS=', join('|', @ARGV), \"\\n\";\n";

/// Sends the body back, with the value of CONTENT_LENGTH in a field.
const ECHO: &str = "#!/usr/bin/perl\nbinmode STDIN; binmode STDOUT;\n\
     my $body = do { local $/; <STDIN> };\n\
     my $told = $ENV{CONTENT_LENGTH} // 'nothing';\n\
     print 'Content-Length: ', length($body), \"\\nX-Told: $told\\n\\n\", $body;\n";

const EVERY_CGI: &str = "[[route]]\npath = \"*.cgi\"\ncgi = true\n";

/// A script whose response has `body`.
fn answering(body: &str) -> String {
    printing(&format!("X-A: b\\n\\n{body}"))
}

/// A script that prints `text`, with the escapes of `printf(1)`.
fn printing(text: &str) -> String {
    format!("#!/bin/sh\nprintf '{text}'\n")
}

#[test]
fn a_body_that_breaks_off_is_no_failure_of_the_script() {
    let server = Site::new().script("echo.cgi", ECHO).config(EVERY_CGI).start();
    let mut client = server.connect();
    client.send("POST /echo.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").half_close();
    assert_eq!(client.read_response().status, 400);
    server
        .wait_for_line("warn: 127.0.0.1 \"POST /echo.cgi\": the body of the request has broken off", TIMEOUT);
    assert_eq!(server.count("scripts_failed"), 0);
}

#[test]
fn a_response_after_a_wait_has_the_present_date() {
    let dates = "for s in -1 0 1; do LC_ALL=C date -u -d \"$s second\" '+%a, %d %b %Y %T GMT'; done";
    let script = format!("#!/bin/sh\nsleep 2.2\nprintf 'X-A: b\\n\\n'\n{dates}\n");
    let server = Site::new().script("slow.cgi", script).config(EVERY_CGI).start();
    let response = server.get("/slow.cgi");
    let (date, text) = (response.field("date").expect("it has a clock"), response.text());
    assert!(text.lines().any(|line| line == date), "{date}\n{text}");
}

#[test]
fn passes_a_script_its_request_and_nothing_else() {
    let server = Site::new()
        .env("SECRET", "of the server")
        .script("a/env.cgi", ENVIRONMENT)
        .config(&format!(
            "env = {{ OWN = \"of the site\" }}\n{EVERY_CGI}env = {{ HTTP_X_SET = \"of the route\" }}\n"
        ))
        .start();
    let port = server.addr().port();
    let root = server.root();
    let found = server
        .request(
            "GET /a/env.cgi/more%20path/%C3%A4?q=1&r=%20 HTTP/1.1\r\nHost: www.example:81\r\nX-Plain: one\r\n\
         x-plain: two\r\nX_Under: dropped\r\nX-Under: kept\r\nX-Set: of the client\r\nProxy: http://evil/\r\n\
         Accept: text/html\r\nCookie: a=1\r\nCookie: b=2\r\nAuthorization: Basic YTpi\r\nLD-Preload: x\r\n\
         Content-Type: text/x\r\n\r\n",
        )
        .variables();
    let mut rows = Rows::new();
    for (name, expected) in [
        ("GATEWAY_INTERFACE", Some("CGI/1.1")),
        ("REQUEST_METHOD", Some("GET")),
        ("SERVER_PROTOCOL", Some("HTTP/1.1")),
        ("QUERY_STRING", Some("q=1&r=%20")),
        ("REQUEST_URI", Some("/a/env.cgi/more%20path/%C3%A4?q=1&r=%20")),
        ("SCRIPT_NAME", Some("/a/env.cgi")),
        ("PATH_INFO", Some("/more path/ä")),
        ("PATH_TRANSLATED", Some(&*format!("{}/more path/ä", root.display()))),
        ("SCRIPT_FILENAME", Some(&*format!("{}/a/env.cgi", root.display()))),
        ("DOCUMENT_ROOT", Some(&*root.display().to_string())),
        ("SERVER_NAME", Some("www.example")),
        ("SERVER_PORT", Some(&*port.to_string())),
        ("SERVER_ADDR", Some("127.0.0.1")),
        ("REMOTE_ADDR", Some("127.0.0.1")),
        ("REQUEST_SCHEME", Some("http")),
        ("HTTPS", None),
        ("REDIRECT_STATUS", Some("200")),
        ("CONTENT_TYPE", Some("text/x")),
        ("CONTENT_LENGTH", None),
        ("HTTP_HOST", Some("www.example:81")),
        ("HTTP_ACCEPT", Some("text/html")),
        ("HTTP_X_PLAIN", Some("one, two")),
        ("HTTP_COOKIE", Some("a=1; b=2")),
        ("HTTP_X_UNDER", Some("kept")),
        ("HTTP_X_SET", Some("of the route")),
        ("HTTP_PROXY", None),
        ("HTTP_AUTHORIZATION", None),
        ("HTTP_LD_PRELOAD", Some("x")),
        ("LD_PRELOAD", None),
        ("HTTP_CONTENT_TYPE", None),
        ("OWN", Some("of the site")),
        ("SECRET", None),
        ("HOME", None),
        ("PATH", Some("/usr/local/bin:/usr/bin:/bin")),
        ("CWD", Some(&*root.join("a").display().to_string())),
        ("ARGUMENTS", Some("")),
    ] {
        rows.check(name, found.get(name).map(String::as_str), expected);
    }
    rows.holds("SERVER_SOFTWARE", "it names the server", found["SERVER_SOFTWARE"].starts_with("taipan"));
    rows.holds("REMOTE_PORT", "it is a port", found["REMOTE_PORT"].parse::<u16>().is_ok());
}

#[test]
fn passes_a_script_no_dot_segments_and_no_proxy_variables() {
    let server = Site::new()
        .script("a/env.cgi", ENVIRONMENT)
        .config(&format!("{EVERY_CGI}[[route]]\npath = \"/admin/\"\nreturn = 403\n"))
        .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/a/env.cgi/b?../", "/a/env.cgi/b?../"),
        ("/admin/../a/env.cgi/%62", "/a/env.cgi/%62"),
        ("/admin/%2e%2e//a/./env.cgi", "/a/env.cgi"),
        ("/a/env.cgi/x/%2E%2E/", "/a/env.cgi/"),
    ] {
        let found = server.request(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nForwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Proto: https\r\nX-Real-IP: 192.0.2.1\r\nX-Original-URL: /x\r\nX-Rewrite-URL: /x\r\n\
             X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /x\r\nX-Sendfile-Type: X-Sendfile\r\nVia: 1.1 before\r\n\r\n"
        )).variables();
        rows.check(target, found["REQUEST_URI"].as_str(), expected);
        let fields = found.keys().map(String::as_str).filter(|name| name.starts_with("HTTP_"));
        rows.check(target, fields.collect(), vec!["HTTP_HOST", "HTTP_VIA"]);
        rows.check(target, found["REMOTE_ADDR"].as_str(), "127.0.0.1");
    }
}

#[test]
fn runs_what_routes_name_and_serves_the_rest_as_files() {
    let script = |site: Site, name: &str| site.script(name, answering(name));
    let site = ["bin/a", "bin/more/b", "bin/more/index.cgi", "x.cgi", "folder/index.cgi", "one"]
        .into_iter()
        .fold(Site::new().every_protocol(), script);
    let server = site
        .file("bin/text", "#!/bin/sh\n")
        .file("locked.cgi", "#!/bin/sh\n")
        .file("read.sh", "printf 'X-A: b\\n\\nread.sh'\n")
        .file("up/a.jpg", "picture")
        .file("x.cgi~", "a copy")
        .file("plain/index.html", "static")
        .folder("bin/empty")
        .symlink("out.cgi", "/bin/true")
        .config(
            "index = [\"index.cgi\", \"index.html\"]\nrewrites = { \"/pretty/\" = \"/x.cgi/$rest\" }\n\
             [[route]]\npath = \"/bin/\"\ncgi = true\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/one\"\ncgi = true\n\
             [[route]]\npath = \"*.sh\"\ninterpreter = \"/bin/sh\"\n",
        )
        .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/bin/a", "200 bin/a"),
        ("/bin/a/x/y", "200 bin/a"),
        ("/bin/more/b?q", "200 bin/more/b"),
        ("/bin/more/", "200 bin/more/index.cgi"),
        ("/bin/more", "301"),
        ("/bin/empty/", "403"),
        ("/bin/", "403"),
        ("/bin", "403"),
        ("/bin/text", "403"),
        ("/bin/none", "404"),
        ("/bin/none/a", "404"),
        ("/x.cgi", "200 x.cgi"),
        ("/x.cgi/", "200 x.cgi"),
        ("/x.cgi/a.cgi/b", "200 x.cgi"),
        ("/%78.cgi", "200 x.cgi"),
        ("/y/../x.cgi", "200 x.cgi"),
        ("/pretty/a/b", "200 x.cgi"),
        ("/x.cgi~", "200 a copy"),
        ("/locked.cgi", "403"),
        ("/out.cgi", "403"),
        ("/none.cgi", "404"),
        ("/none.cgi/x", "404"),
        ("/up/a.jpg", "200 picture"),
        ("/up/a.jpg/b.cgi", "404"),
        ("/up/a.jpg/b", "404"),
        ("/folder/", "200 folder/index.cgi"),
        ("/folder", "301"),
        ("/plain/", "200 static"),
        ("/one", "200 one"),
        ("/one/more", "200 one"),
        ("/read.sh", "200 read.sh"),
    ] {
        let response = server.get(target);
        let text = if response.status == 200 {
            format!("200 {}", response.text())
        } else {
            response.status.to_string()
        };
        rows.check(target, text.as_str(), expected);
    }
}

#[test]
fn runs_scripts_below_a_root_whose_path_has_dots() {
    let script = answering("run");
    for root in ["./www", "./www/../www", ".//www//"] {
        let server =
            Site::new().script("a.cgi", &script).config(&format!("root = \"{root}\"\n{EVERY_CGI}")).start();
        assert_eq!(server.get("/a.cgi").text(), "run", "{root}");
    }
}

#[test]
fn passes_every_method_to_the_script() {
    let text = "#!/bin/sh\nprintf 'X-A: b\\n\\n%s' \"$REQUEST_METHOD\"\n";
    let server = Site::new().every_protocol().script("a.cgi", text).config(EVERY_CGI).start();
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        let response =
            server.request(format!("{method} /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((response.status, response.text()), (200, method.to_owned()));
    }
    let response = server.request("HEAD /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((response.status, response.text().as_str()), (200, ""));
}

#[test]
fn turns_script_output_into_a_response() {
    // Output of the script; status, fields and body of the response.
    let table = [
        ("Content-Type: text/x\\n\\nhello", "200", "content-type: text/x", "hello"),
        ("Content-Type: text/x\\r\\n\\r\\nhello", "200", "content-type: text/x", "hello"),
        ("X-A: 1\\r\\nContent-Type: text/x\\n\\n\\nx", "200", "x-a: 1", "\nx"),
        ("\\nhello", "502", "", "*"),
        ("X-A: 1\\n  2\\n\\t3\\nX-B: c\\n\\nx", "200", "x-a: 1  2 3", "x"),
        ("Content-Length: 1\\nContent-Length: 1\\n\\nx", "200", "content-length: 1", "x"),
        ("Content-Length: 1\\nContent-Length: 2\\n\\nx", "502", "", "*"),
        ("X-A: b\\nTransfer-Encoding: identity\\n\\nx", "200", "x-a: b", "x"),
        ("X-A: b\\nnot a field\\n\\nx", "502", "", "*"),
        ("Content-Type: text/x\\n\\n", "200", "", ""),
        ("Status: 404 Not Here\\nContent-Type: text/x\\n\\ngone", "404", "content-type: text/x", "gone"),
        ("Content-Type: text/x\\nstatus: 201\\n\\nmade", "201", "", "made"),
        ("Status: 204\\n\\n", "204", "", ""),
        ("Status: 304\\nETag: \"x\"\\n\\n", "304", "etag: \"x\"", ""),
        ("Location: https://other.example/x\\n\\n", "302", "location: https://other.example/x", ""),
        (
            "Location: https://other.example/x\\nStatus: 303\\n\\nsee",
            "303",
            "location: https://other.example/x",
            "see",
        ),
        ("Location: /text?a=b\\n\\n", "200", "content-type: text/plain; charset=utf-8", "a file"),
        ("Location: /other.cgi?a=b\\n\\n", "200", "", "other a=b GET"),
        ("Location: /none\\n\\n", "404", "", "*"),
        ("Location: /text\\nSet-Cookie: a=b\\n\\n", "302", "set-cookie: a=b", ""),
        ("Set-Cookie: a\\nSet-Cookie: b\\n\\n", "200", "set-cookie: a, set-cookie: b", ""),
        ("Content-Length: 5\\n\\nhello", "200", "content-length: 5", "hello"),
        ("Content-Length: 3\\n\\nhello", "200", "content-length: 3", "hel"),
        ("Connection: close\\nKeep-Alive: x\\nTE: x\\nUpgrade: x\\nX-A: 1\\n\\nx", "200", "x-a: 1", "x"),
        ("Server: mine\\nX-A: 1\\n\\nx", "200", "x-a: 1", "x"),
        ("HTTP/1.1 418 Teapot\\r\\nX-A: 1\\r\\n\\r\\nx", "418", "x-a: 1", "x"),
    ];
    let site = table.iter().enumerate().fold(Site::new().every_protocol(), |site, (at, (text, ..))| {
        let name = if text.starts_with("HTTP/") { format!("nph-{at}.cgi") } else { format!("{at}.cgi") };
        site.script(&name, printing(text))
    });
    let server = site
        .file("text", "a file")
        .script(
            "other.cgi",
            "#!/bin/sh\nprintf 'X-A: b\\n\\nother %s %s' \"$QUERY_STRING\" \"$REQUEST_METHOD\"\n",
        )
        .config(&format!("default_type = \"text/plain\"\n{EVERY_CGI}"))
        .start();
    let mut rows = Rows::new();
    for (at, (text, status, fields, body)) in table.iter().enumerate() {
        let name = if text.starts_with("HTTP/") { format!("nph-{at}.cgi") } else { format!("{at}.cgi") };
        let request = format!("POST /{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
        let mut client = server.connect();
        let response = client.request(&request);
        rows.check(text, response.status.to_string().as_str(), *status);
        for field in fields.split(", ").filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once(": ").unwrap();
            rows.holds(text, field, response.values(name).contains(&value));
        }
        if *body != "*" {
            rows.check(text, response.text().as_str(), *body);
        }
        rows.holds(text, "it has a date", response.has("date"));
        rows.check(text, response.values("server").len(), 1);
        for name in ["keep-alive", "te", "upgrade", "status"] {
            rows.holds(text, "fields for the server do not reach the client", !response.has(name));
        }
        let head = server.request(request.replace("POST ", "HEAD ").replace("2\r\n\r\nab", "0\r\n\r\n"));
        rows.check(format!("HEAD {text}"), head.status.to_string().as_str(), *status);
        // The response ends at the right byte: the next one on the connection follows it.
        if response.field("connection") != Some("close") {
            rows.check(text, client.get("/text").text().as_str(), "a file");
        }
    }
}

/// Writes one part, and the rest when the test has read that.
const IN_TWO_PARTS: &str = "#!/bin/sh\nprintf 'X-A: b\\n\\nfirst'\n\
     until test -e \"$DOCUMENT_ROOT/go\"; do sleep 0.02; done\nprintf second\n";

#[test]
fn streams_output_in_chunks_or_until_the_connection_closes() {
    for (request, end, chunked) in [
        ("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n", "6\r\nsecond\r\n0\r\n\r\n", true),
        ("GET /a.cgi HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "second", false),
    ] {
        let server = Site::new().every_protocol().script("a.cgi", IN_TWO_PARTS).config(EVERY_CGI).start();
        let mut client = server.connect();
        client.send(request);
        let mut seen = String::new();
        while !seen.contains("first") {
            let more = client.read_some().unwrap();
            assert!(!more.is_empty(), "it ends after {seen}");
            seen.push_str(&String::from_utf8(more).unwrap());
        }
        let head = seen.to_lowercase();
        assert_eq!(head.contains("\r\ntransfer-encoding: chunked\r\n"), chunked, "{seen}");
        assert!(!head.contains("\r\ncontent-length:"), "{seen}");
        server.files().file("www/go", "");
        let mut rest = String::new();
        while !rest.ends_with(end) {
            let more = client.read_some().unwrap();
            assert!(!more.is_empty(), "it ends after {rest:?}");
            rest.push_str(&String::from_utf8(more).unwrap());
        }
        if !chunked {
            assert!(client.is_closed(), "{seen}");
        }
    }
}

#[test]
fn passes_whole_bodies_with_their_length() {
    let server = Site::new()
        .every_protocol()
        .script("echo.cgi", ECHO)
        .config(&format!("{EVERY_CGI}max_body = \"16MiB\"\n[scripts]\nspool = \".\"\n"))
        .start();
    let large: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for body in [&b""[..], b"x", b"hello\0world", &large] {
        let mut client = server.connect();
        let length = body.len();
        let response = post(&mut client, format!("Content-Length: {length}\r\n"), body.to_vec());
        assert_eq!(response.field("x-told"), Some(&*length.to_string()));
        assert!(response.body == body, "{length} bytes come back as {}", response.body.len());

        let mut chunked = Vec::new();
        for piece in body.chunks(70_001) {
            chunked.extend(format!("{:x};ext=1\r\n", piece.len()).bytes().chain(piece.iter().copied()));
            chunked.extend(b"\r\n");
        }
        chunked.extend(b"0\r\nX-Trailer: x\r\n\r\n");
        let response = post(&mut client, "Transfer-Encoding: chunked\r\n".into(), chunked);
        assert_eq!(response.field("x-told"), Some(&*length.to_string()), "chunked");
        assert!(response.body == body, "{length} bytes come back as {} (chunked)", response.body.len());
    }
    let response = server.get("/echo.cgi");
    assert_eq!((response.field("x-told"), response.text().as_str()), (Some("nothing"), ""));
}

/// Sends in a thread, as the response may begin before the body has ended.
fn post(client: &mut Client, fields: String, body: Vec<u8>) -> Response {
    let mut sender = client.another_handle();
    let sending = std::thread::spawn(move || {
        sender.send(format!("POST /echo.cgi HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).send(body);
    });
    let response = client.read_response();
    sending.join().expect("it was sent");
    response
}

#[test]
fn rejects_a_body_that_is_too_large_before_the_script_runs() {
    let text = "#!/bin/sh\n: >\"$DOCUMENT_ROOT/ran\"\nprintf 'X-A: b\\n\\n'\n";
    let server = Site::new()
        .every_protocol()
        .script("a.cgi", text)
        .config(&format!("{EVERY_CGI}max_body = 10\n[scripts]\nspool = \".\"\n"))
        .start();
    for request in [
        "POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901",
        "POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n",
        "POST /a.cgi/info HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901",
        "POST /a.cgi HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n",
    ] {
        assert_eq!(server.request(request).status, 413, "{request}");
    }
    assert!(!server.root().join("ran").exists());
    let fits = "POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234567890";
    assert_eq!(server.request(fits).status, 200);
}

#[test]
fn sends_100_continue_when_expected() {
    let server = Site::new().every_protocol().script("echo.cgi", ECHO).config(EVERY_CGI).start();
    let mut client = server.connect();
    client.send("POST /echo.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.read_response().status, 100);
    client.send("ok");
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(client.get("/echo.cgi").status, 200, "the connection stays open");
}

#[test]
fn a_body_that_the_script_does_not_read_does_no_harm() {
    let server = Site::new()
        .every_protocol()
        .script("echo.cgi", answering("not read"))
        .config(&format!("{EVERY_CGI}max_body = \"64MiB\"\n"))
        .start();
    let mut client = server.connect();
    // More than all pipes and sockets on the way can hold.
    let response = {
        let mut sender = client.another_handle();
        let sending = std::thread::spawn(move || {
            let head = format!("POST /echo.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 32 << 20);
            // The server may close before it has read everything.
            _ = sender.try_send(head).and_then(|()| sender.try_send(vec![b'x'; 32 << 20]));
        });
        let response = client.read_response();
        sending.join().unwrap();
        response
    };
    assert_eq!((response.status, response.text().as_str()), (200, "not read"));
    let mut client = server.connect();
    let small = "POST /echo.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(client.request(small).text(), "not read");
    assert_eq!(client.request(small).text(), "not read", "what was left of the body is not the next request");
}

#[test]
fn passes_the_query_as_arguments_only_when_configured() {
    let arguments = |server: &Server, query: &str| {
        server.get(&format!("/env.cgi{query}")).variables()["ARGUMENTS"].clone()
    };
    let site = || Site::new().script("env.cgi", ENVIRONMENT);
    let server = site().config(EVERY_CGI).start();
    assert_eq!(arguments(&server, "?one+two"), "");
    let server = site().config(&format!("{EVERY_CGI}[scripts]\nquery_arguments = true\n")).start();
    let mut rows = Rows::new();
    for (query, expected) in
        [("?one+t%20wo", "one|t wo"), ("?a=b", ""), ("?a+-d", ""), ("?%2Dd", ""), ("", ""), ("?", "")]
    {
        rows.check(query, arguments(&server, query).as_str(), expected);
    }
}

#[test]
fn passes_authorization_only_when_configured() {
    let passed = |config: &str| {
        let server = Site::new().script("env.cgi", ENVIRONMENT).config(config).start();
        let found = server.connect().get_with("/env.cgi", "Authorization: Basic YTpi\r\n").variables();
        found.get("HTTP_AUTHORIZATION").cloned()
    };
    assert_eq!(passed(EVERY_CGI), None);
    assert_eq!(passed(&format!("{EVERY_CGI}pass_authorization = true\n")), Some("Basic YTpi".into()));
}

#[test]
fn sends_the_file_that_a_script_names_if_allowed() {
    let naming = |field: &str, path: &str| {
        format!("#!/bin/sh\nprintf 'Content-Type: text/x\\n{field}: %s\\n\\nnot this' \"{path}\"\n")
    };
    let home = "${DOCUMENT_ROOT%/www}";
    let server = Site::new()
        .every_protocol()
        .script("in.cgi", naming("X-Sendfile", &format!("{home}/private/a")))
        .script("accel.cgi", naming("X-Accel-Redirect", &format!("{home}/private/a")))
        .script("dots.cgi", naming("X-Sendfile", &format!("{home}/private/../secret")))
        .script("out.cgi", naming("X-Sendfile", "/etc/passwd"))
        .script("link.cgi", naming("X-Sendfile", &format!("{home}/private/link")))
        .script("none.cgi", naming("X-Sendfile", &format!("{home}/private/none")))
        .file_beside_root("private/a", "a private file")
        .file_beside_root("secret", "a secret")
        .config(&format!("{EVERY_CGI}[scripts]\nsendfile = [\"private\"]\n"))
        .start();
    server.files().symlink("private/link", "/etc/passwd");
    for name in ["in", "accel"] {
        let response = server.get(&format!("/{name}.cgi"));
        assert_eq!((response.status, response.text().as_str()), (200, "a private file"), "{name}");
        assert_eq!(response.field("content-type"), Some("text/x"), "{name}: the fields of the script count");
        assert!(!response.has("x-sendfile") && !response.has("x-accel-redirect"), "{name}");
    }
    for name in ["dots", "out", "link", "none"] {
        let response = server.get(&format!("/{name}.cgi"));
        assert!(response.status >= 400, "{name}: {response}");
        assert!(!response.text().contains("root:") && !response.text().contains("secret"), "{name}");
    }
    server.wait_for_line(
        "127.0.0.1 \"GET /out.cgi\": a script names /etc/passwd, which is in no folder",
        TIMEOUT,
    );
}

/// A script that names the file `private/a` beside the root, behind these lines of fields.
fn naming_a_file(fields: &str) -> String {
    format!("#!/bin/sh\nprintf '{fields}X-Sendfile: %s\\n\\n' \"${{DOCUMENT_ROOT%/www}}/private/a\"\n")
}

#[test]
fn sends_no_file_with_a_status_that_has_no_content() {
    let script = |status: &str| naming_a_file(&format!("Status: {status}\\n"));
    let server = Site::new()
        .script("204.cgi", script("204"))
        .script("205.cgi", script("205"))
        .script("304.cgi", script("304"))
        .script("200.cgi", script("200"))
        .file_beside_root("private/a", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        .config(&format!("{EVERY_CGI}[scripts]\nsendfile = [\"private\"]\n"))
        .start();
    for status in [204, 304] {
        let mut client = server.connect();
        let response = client.get(&format!("/{status}.cgi"));
        assert_eq!(response.status, status, "{response}");
        assert!(!response.has("content-length") && !response.has("x-sendfile"), "{response}");
        let next = client.get("/missing");
        assert_eq!(next.status, 404, "the response to the next request on the connection: {next}");
    }
    let reset = server.get("/205.cgi");
    assert_eq!((reset.status, reset.text(), reset.has("x-sendfile")), (205, String::new(), false));
    assert!(server.get("/200.cgi").text().ends_with("evil"));
}

#[test]
fn the_file_of_a_script_has_ranges_and_conditions() {
    let naming = |fields: &str| naming_a_file(&format!("Content-Type: text/x\\n{fields}"));
    let server = Site::new()
        .script("a.cgi", naming(""))
        .script("own.cgi", naming("ETag: \"own\"\\nContent-MD5: x\\nCache-Control: no-cache\\n"))
        .script("none.cgi", naming("Accept-Ranges: none\\n"))
        .script("part.cgi", naming("Status: 206\\nContent-Range: bytes 0-3/9999\\n"))
        .script("unsatisfiable.cgi", naming("Status: 416\\nContent-Range: bytes */9999\\n"))
        .script("missing.cgi", naming("Status: 404\\n"))
        .file_beside_root("private/a", "0123456789")
        .modified("../private/a", 1_000_000_000)
        .config(&format!("{EVERY_CGI}[scripts]\nsendfile = [\"private\"]\n"))
        .start();
    let mut client = server.connect();
    let whole = client.get("/a.cgi");
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert_eq!(whole.field("accept-ranges"), Some("bytes"));
    assert_eq!(whole.field("last-modified"), Some("Sun, 09 Sep 2001 01:46:40 GMT"));
    let tag = whole.field("etag").expect("that of the file").to_owned();
    let mut rows = Rows::new();
    let part = "Range: bytes=2-4\r\n";
    for (path, fields, status, text, range) in [
        ("/a.cgi", part, 206, "234", Some("bytes 2-4/10")),
        ("/a.cgi", "Range: bytes=-2\r\n", 206, "89", Some("bytes 8-9/10")),
        ("/a.cgi", "Range: bytes=0-1,5-6\r\n", 200, "0123456789", None),
        ("/a.cgi", &format!("{part}If-Range: {tag}\r\n"), 206, "234", Some("bytes 2-4/10")),
        ("/a.cgi", &format!("{part}If-Range: \"b\"\r\n"), 200, "0123456789", None),
        (
            "/a.cgi",
            &format!("{part}If-Range: Sun, 09 Sep 2001 01:46:40 GMT\r\n"),
            206,
            "234",
            Some("bytes 2-4/10"),
        ),
        ("/a.cgi", &format!("If-None-Match: {tag}\r\n"), 304, "", None),
        ("/a.cgi", "If-None-Match: \"b\"\r\n", 200, "0123456789", None),
        ("/a.cgi", "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n", 304, "", None),
        ("/own.cgi", "If-None-Match: \"own\"\r\n", 304, "", None),
        ("/own.cgi", &format!("If-None-Match: {tag}\r\n"), 200, "0123456789", None),
        ("/own.cgi", "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n", 200, "0123456789", None),
        ("/own.cgi", part, 206, "234", Some("bytes 2-4/10")),
        ("/none.cgi", part, 200, "0123456789", None),
        // All of the file is sent, whatever the script says of a part.
        ("/part.cgi", "", 200, "0123456789", None),
        ("/part.cgi", part, 206, "234", Some("bytes 2-4/10")),
        ("/unsatisfiable.cgi", "", 416, "0123456789", Some("bytes */9999")),
        ("/missing.cgi", part, 404, "0123456789", None),
    ] {
        let response = client.get_with(path, fields);
        let name = format!("{path} {fields}");
        rows.check(&name, (response.status, response.text().as_str()), (status, text));
        rows.check(&name, response.field("content-range"), range);
        let length = (status != 304).then(|| text.len().to_string());
        rows.check(&name, response.field("content-length"), length.as_deref());
        let has_digest = path == "/own.cgi" && status == 200;
        rows.check(&name, response.has("content-md5"), has_digest);
        rows.check(&name, response.has("cache-control"), path == "/own.cgi");
    }
    let beyond = client.get_with("/a.cgi", "Range: bytes=10-\r\n");
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */10")));
    assert_eq!(client.get_with("/a.cgi", "If-Match: \"b\"\r\n").status, 412);
    client.send(format!("POST /a.cgi HTTP/1.1\r\nHost: a\r\n{part}Content-Length: 0\r\n\r\n"));
    assert_eq!(client.read_response().text(), "0123456789", "ranges are for GET");
}

/// RFC 9110 §15.3.6.
#[test]
fn a_reset_content_has_no_content() {
    let server = Site::new()
        .every_protocol()
        .script("a.cgi", "#!/bin/sh\nprintf 'Status: 205\\nX-A: b\\n\\nHTTP/1.1 200 OK'\n")
        .script("length.cgi", "#!/bin/sh\nprintf 'Status: 205\\nContent-Length: 5\\nX-A: b\\n\\nhello'\n")
        .config(EVERY_CGI)
        .start();
    let mut client = server.connect();
    for path in ["/a.cgi", "/length.cgi"] {
        let response = client.get(path);
        assert_eq!((response.status, response.text().as_str()), (205, ""), "{path}");
        assert_eq!(response.field("content-length"), Some("0"), "{path}");
        assert!(response.has("x-a"), "{path}");
        let head = client.request(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.fields_but(&["date"]), response.fields_but(&["date"]), "{path}");
    }
}

#[test]
fn stops_after_ten_internal_redirects() {
    let server = Site::new()
        .script(
            "loop.cgi",
            "#!/bin/sh\nprintf x >>\"$DOCUMENT_ROOT/count\"\nprintf 'Location: /loop.cgi\\n\\n'\n",
        )
        .config(EVERY_CGI)
        .start();
    let response = server.get("/loop.cgi");
    assert!(matches!(response.status, 500 | 502), "{response}");
    let count = std::fs::read(server.root().join("count")).unwrap().len();
    assert!((10..=11).contains(&count), "{count} times");
    server.wait_for_line("127.0.0.1 \"GET /loop.cgi\": /loop.cgi: too many internal redirects", TIMEOUT);
}

#[test]
fn the_client_follows_a_local_redirect_where_the_server_does_not() {
    let server = Site::new()
        .every_protocol()
        .script("a.cgi", "#!/bin/sh\nprintf 'Location: /docs/?q=1\\n\\nmoved'\n")
        .config(&format!("{EVERY_CGI}[scripts]\nlocal_redirects = false\n"))
        .start();
    let response = server.get("/a.cgi");
    assert_eq!((response.status, response.field("location")), (302, Some("/docs/?q=1")), "{response}");
    assert_eq!(response.text(), "moved");
}

#[test]
fn logs_one_access_line_per_request_and_stderr_as_errors() {
    let text = "#!/bin/sh\nprintf 'first\\nse\\033cond\\n' >&2\nprintf 'X-A: b\\n\\nhello'\n";
    let server = Site::new()
        .script("a.cgi", text)
        .config(&format!("{EVERY_CGI}[log]\naccess = \"stdout\"\nformat = \"common\"\n"))
        .start();
    server.get("/a.cgi/info?q");
    let line = server.wait_for_output("a.cgi", TIMEOUT);
    assert!(line.contains("\"GET /a.cgi/info?q HTTP/1.1\" 200 "), "{line}");
    let line = server.wait_for_line("first", TIMEOUT);
    assert!(line.contains("/a.cgi") && line.contains("GET") && line.contains("127.0.0.1"), "{line}");
    let line = server.wait_for_line("cond", TIMEOUT);
    assert!(!line.contains('\u{1b}'), "{line:?}");
    assert_eq!(server.stdout().lines().count(), 1);
}

#[test]
fn queues_requests_at_capacity_and_then_answers_503() {
    let text = "#!/bin/sh\n: >\"$DOCUMENT_ROOT/began-$QUERY_STRING\"\n\
                until test -e \"$DOCUMENT_ROOT/go\"; do sleep 0.02; done\nprintf 'X-A: b\\n\\ndone'\n";
    let server = Site::new()
        .every_protocol()
        .script("a.cgi", text)
        .config(&format!("workers = 1\n{EVERY_CGI}[scripts]\nprocesses = 1\nqueue = 1\nwait = \"3s\"\n"))
        .start();
    let request = |query: &str| {
        let mut client = server.connect();
        client.send(format!("GET /a.cgi?{query} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut first = request("1");
    wait_for(|| server.root().join("began-1").exists());
    // One of these two waits until its timeout; the other finds the queue full.
    let (mut second, mut third) = (request("2"), request("3"));
    for client in [&mut second, &mut third] {
        let response = client.read_response();
        assert_eq!(response.status, 503, "{response}");
        assert!(response.has("retry-after"), "{response}");
    }
    // A request whose client has disconnected leaves the queue.
    drop(request("4"));
    server.files().file("www/go", "");
    assert_eq!(first.read_response().text(), "done");
    assert_eq!(request("5").read_response().text(), "done");
    assert!(!server.root().join("began-2").exists() && !server.root().join("began-3").exists());
}

#[test]
fn a_route_can_limit_its_own_scripts() {
    let waiting = "#!/bin/sh\n: >\"$DOCUMENT_ROOT/began\"\n\
                   until test -e \"$DOCUMENT_ROOT/go\"; do sleep 0.02; done\nprintf 'X-A: b\\n\\ndone'\n";
    let server = Site::new()
        .every_protocol()
        .script("slow.cgi", waiting)
        .script("quick.cgi", answering("quick"))
        .config(
            "workers = 1\n[[route]]\npath = \"/slow.cgi\"\ncgi = true\nscript_processes = 1\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\nprocesses = 2\nqueue = 0\n",
        )
        .start();
    let mut first = server.connect();
    first.send("GET /slow.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_for(|| server.root().join("began").exists());
    assert_eq!(server.get("/slow.cgi").status, 503);
    assert_eq!(server.get("/quick.cgi").text(), "quick");
    server.files().file("www/go", "");
    assert_eq!(first.read_response().text(), "done");
}

#[test]
fn serves_files_while_scripts_run_at_their_limit() {
    let text = "#!/bin/sh\nprintf 'X-A: b\\n\\n'; umask; ulimit -n; ulimit -t; nice\n";
    let server = Site::new()
        .every_protocol()
        .script("a.cgi", text)
        .config(&format!("{EVERY_CGI}[scripts]\numask = \"027\"\nfiles = 99\ncpu = \"33s\"\nnice = 3\n"))
        .start();
    // Path segments up from the test's folder.
    let nice = rustix::process::getpriority_process(None).expect("it runs") + 3;
    assert_eq!(server.get("/a.cgi").text(), format!("0027\n99\n33\n{nice}\n"));
}

#[test]
fn passes_absolute_paths_and_runs_a_script_in_its_own_folder() {
    let site = Site::new().every_protocol().script("a/env.cgi", ENVIRONMENT).config(EVERY_CGI);
    let root = site.root();
    site.write_config();
    let mut command = e2e::command();
    command.args(["-c", "site.toml"]).current_dir(site.home());
    let server = Server::start(command, 1, None);
    let found = server.get("/a/env.cgi").variables();
    assert_eq!(found["SCRIPT_FILENAME"], format!("{}/a/env.cgi", root.display()));
    assert_eq!(found["DOCUMENT_ROOT"], root.display().to_string());
    assert_eq!(found["CWD"], format!("{}/a", root.display()));
}

#[test]
fn scripts_run_as_the_user_of_the_server() {
    let user = e2e::without_privilege();
    let site = Site::new().every_protocol().script("a.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\n'; id -u\n");
    std::fs::set_permissions(site.home(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = site.config(&format!("{user}\n{EVERY_CGI}")).start();
    let own = std::fs::metadata(format!("/proc/{}", server.serving_pid())).unwrap();
    let own = std::os::unix::fs::MetadataExt::uid(&own);
    assert_eq!(server.get("/a.cgi").text(), format!("{own}\n"));
    assert_ne!(own, 0, "not as root");
}

#[test]
fn a_reload_changes_script_routes_and_lets_running_scripts_finish() {
    let server = Site::new()
        .script("a.cgi", IN_TWO_PARTS)
        .script("b.cgi", answering("run"))
        .config("workers = 1\n[[route]]\npath = \"/a.cgi\"\ncgi = true\n")
        .start();
    assert!(server.get("/b.cgi").text().starts_with("#!/bin/sh"), "no route makes it a script");
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first") {
        let more = client.read_some().unwrap();
        assert!(!more.is_empty(), "it ends");
        seen.extend(more);
    }
    let config = std::fs::read_to_string(server.home().join("site.toml")).unwrap();
    server.files().file("site.toml", config.replace("/a.cgi", "*.cgi"));
    server.signal(e2e::Signal::HUP);
    wait_for(|| server.get("/b.cgi").text() == "run");
    server.files().file("www/go", "");
    assert_eq!(client.read_to_end(), b"second");
}

/// Static, so that it runs in an empty chroot.
const STATIC: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     int main(void) {\n\
     char folder[4096], body[100] = \"\"; size_t n = fread(body, 1, 99, stdin); body[n] = 0;\n\
     printf(\"X-A: b\\n\\n%s %s %s\", getenv(\"SCRIPT_FILENAME\"), getcwd(folder, sizeof folder), body);\n\
     return 0; }\n";

#[test]
fn scripts_run_in_the_chroot_as_root() {
    let site = Site::new()
        .every_protocol()
        .file_beside_root("a.c", STATIC)
        .file("b.x", "")
        .file_beside_root("spool/none", "")
        .folder("bin");
    let home = site.home().to_owned();
    let compiled = e2e::tool("cc").args(["-static", "-o", "www/a.cgi", "a.c"]).current_dir(&home).output();
    assert!(compiled.expect("cc starts").status.success());
    let copied = e2e::tool("cp").args(["www/a.cgi", "www/bin/run"]).current_dir(&home).status();
    assert!(copied.expect("cp starts").success());
    for folder in ["", "spool"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(home.join(folder), mode).unwrap();
    }
    let config = "chroot = \".\"\nuser = \"daemon\"\n[scripts]\nspool = \"spool\"\n\
                  [[route]]\npath = \"*.cgi\"\ncgi = true\n\
                  [[route]]\npath = \"*.x\"\ninterpreter = \"/HOME/www/bin/run\"\n";
    let server = site.config(&config.replace("/HOME", home.to_str().unwrap())).start();
    assert_eq!(server.get("/a.cgi").text(), "/www/a.cgi /www ");
    assert_eq!(server.get("/b.x").text(), "/www/b.x /www ");
    let chunked = "POST /a.cgi HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    assert_eq!(server.request(chunked).text(), "/www/a.cgi /www hi");
}

#[test]
fn passes_conditions_and_ranges_to_the_script() {
    let text = "#!/bin/sh\nprintf 'ETag: \"a\"\\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\\n\\n'\n\
                printf '%s ' \"$HTTP_IF_NONE_MATCH\" \"$HTTP_RANGE\"\n";
    let server = Site::new().script("a.cgi", text).config(EVERY_CGI).start();
    let fields = "If-None-Match: \"a\"\r\nRange: bytes=0-1\r\n";
    let response = server.connect().get_with("/a.cgi", fields);
    assert_eq!((response.status, response.text().as_str()), (200, "\"a\" bytes=0-1 "));
}

#[test]
fn lists_a_folder_among_scripts_like_any_other() {
    let server = Site::new()
        .every_protocol()
        .script("a/index.cgi", answering("index"))
        .file("b/file", "")
        .config(&format!("listing = true\nindex = [\"index.cgi\"]\n{EVERY_CGI}"))
        .start();
    assert_eq!(server.get("/a/").text(), "index");
    assert!(server.get("/b/?sort=size").text().contains("file"));
    server.files().script("www/b/index.cgi", answering("new"));
    wait_for(|| server.get("/b/").text() == "new");
}

#[test]
fn check_reports_a_missing_interpreter() {
    let site = Site::new().every_protocol().config("[[route]]\npath = \"*.x\"\ninterpreter = \"/no/such\"\n");
    let output = e2e::run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the interpreter /no/such cannot be executed"), "{printed}");
    let site = Site::new().every_protocol().config("[[route]]\npath = \"*.x\"\ninterpreter = \"/bin/sh\"\n");
    let output = e2e::run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("scripts that run"), "{printed}");
}

#[test]
fn check_reports_the_interpreter_that_the_first_line_of_a_program_names() {
    let site = Site::new()
        .script("a.cgi", "#!/usr/bin/env python3.99\n")
        .script("good.cgi", "#!/usr/bin/env sh\n")
        .script("text.cgi", "echo hi\n")
        .file("closed.cgi", "#!/bin/sh\n")
        .file("good.cgi.txt", "notes\n")
        .script_beside_root("app", "#!/no/such -x\n");
    let program = site.home().join("app");
    let site = site.config(&format!(
        "{EVERY_CGI}[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         command = \"{}\"\n",
        program.display()
    ));
    let output = e2e::run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    for expected in [
        "app:1: the interpreter /no/such cannot be executed",
        "warning: ",
        "a.cgi:1: env finds no python3.99 in PATH",
        "text.cgi:1: the line does not say which program runs the file",
        "closed.cgi is not executable, so that requests for it get 403; run `chmod +x ",
        "; it is the command of \"app\"",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    assert!(!printed.contains("good.cgi"), "{printed}");
}

#[test]
fn explain_names_the_script_without_running_it() {
    let site = Site::new()
        .every_protocol()
        .script("a.cgi", "#!/bin/sh\n: >\"$DOCUMENT_ROOT/ran\"\n")
        .file("b.cgi", "")
        .config(EVERY_CGI);
    let config = site.write_config();
    let explain = |url: &str| {
        let output =
            e2e::run(["explain".as_ref(), "-c".as_ref(), config.as_os_str(), "GET".as_ref(), url.as_ref()]);
        String::from_utf8(output.stdout).unwrap()
    };
    let explained = explain("/a.cgi/x");
    for part in
        [&*format!("script    {}/a.cgi\n", site.root().display()), "PATH_INFO /x\n", "SCRIPT_NAME /a.cgi\n"]
    {
        assert!(explained.contains(part), "{explained}");
    }
    assert!(explain("/b.cgi").contains("403"), "{}", explain("/b.cgi"));
    assert!(explain("/c.cgi").contains("404"), "{}", explain("/c.cgi"));
    assert!(!site.root().join("ran").exists());
}

/// Polls for a condition that no event reports.
fn wait_for(holds: impl Fn() -> bool) {
    assert!(wait_until(TIMEOUT, holds), "it does not happen");
}
