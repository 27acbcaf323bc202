//! Limits of speed and of requests: what they slow and reject, in every protocol, and what they leave alone.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use e2e::http2::{Http2, Http2Request, flag, frame};
use e2e::{Client, Response, Rows, Server, Site, TIMEOUT, Tls, wait_until};

const LISTEN: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\", \"127.0.0.3:0 http2\"]\n\
                      certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http1OverTls,
    Http2,
    Http2OverTls,
}

const EVERY: [Protocol; 4] =
    [Protocol::Http1, Protocol::Http1OverTls, Protocol::Http2, Protocol::Http2OverTls];

/// A site on addresses for every protocol.
fn site(config: &str) -> Site {
    Site::new().certificate().config(&format!("{LISTEN}{config}"))
}

/// One request on a connection of its own, without a response after a long time.
fn request(
    server: &Server,
    protocol: Protocol,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let (mut client, is_http2) = match protocol {
        Protocol::Http1 => (Client::tcp(server.tcp(0)), false),
        Protocol::Http1OverTls => (Client::tls(server.tcp(1), &Tls::new()), false),
        Protocol::Http2 => (Client::tcp(server.tcp(2)), true),
        Protocol::Http2OverTls => (Client::tls(server.tcp(1), &Tls::new().protocols(&["h2"])), true),
    };
    if is_http2 {
        let mut request = Http2Request::new(method, path, fields);
        request.body = body.to_vec();
        let response = Http2::over(client).and_then(|mut http2| http2.request(&request));
        return response.unwrap_or_else(|e| panic!("{protocol:?} {path}: {e}"));
    }
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let mut bytes =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    client.request(bytes)
}

fn get(server: &Server, protocol: Protocol, path: &str, fields: &[(&str, &str)]) -> Response {
    request(server, protocol, "GET", path, fields, b"")
}

/// How long something takes.
fn timed<T>(of: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (of(), began.elapsed())
}

#[test]
fn requests_above_a_rate_get_429_and_are_told_when_to_come_back() {
    let server = site(
        "[[limit]]\nby = \"field:X-Key\"\nrequests = \"5/m\"\nrequests_burst = 2\n\
         [[limit]]\nby = \"cookie:sid\"\npaths = \"*.cgi\"\nrequests = \"1/h\"\nstatus = 503\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n",
    )
    .file("a.txt", "hello\n")
    .script("s.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nscript'\n")
    .start();
    let mut rows = Rows::new();
    for protocol in EVERY {
        let key = format!("{protocol:?}");
        let status = |path: &str, fields: &[(&str, &str)]| get(&server, protocol, path, fields).status;
        let own = [("x-key", key.as_str())];
        rows.check(
            format!("{protocol:?} burst"),
            [status("/a.txt", &own), status("/a.txt", &own)],
            [200, 200],
        );
        let third = get(&server, protocol, "/a.txt", &own);
        let fields =
            ["retry-after", "ratelimit-policy", "ratelimit"].map(|name| third.field(name).map(str::to_owned));
        let seconds = fields[0].clone().unwrap_or_default();
        rows.check(format!("{protocol:?} third"), third.status, 429);
        rows.check(
            format!("{protocol:?} fields"),
            (fields[1].as_deref(), fields[2].as_deref()),
            (Some("\"field-x-key\";q=2;w=24"), Some(format!("\"field-x-key\";r=0;t={seconds}").as_str())),
        );
        rows.check(format!("{protocol:?} seconds"), ["11", "12"].contains(&seconds.as_str()), true);
        rows.check(format!("{protocol:?} absent file"), status("/none", &own), 429);
        rows.check(format!("{protocol:?} without the field"), status("/a.txt", &[]), 200);
        rows.check(
            format!("{protocol:?} another key"),
            status("/a.txt", &[("x-key", &format!("{key}2"))]),
            200,
        );
        let cookie = format!("a=b; sid={key}");
        let own = [("cookie", cookie.as_str())];
        rows.check(
            format!("{protocol:?} script"),
            [status("/s.cgi", &own), status("/s.cgi", &own)],
            [200, 503],
        );
        rows.check(
            format!("{protocol:?} HEAD"),
            {
                let own = [("x-key", key.as_str())];
                let head = request(&server, protocol, "HEAD", "/a.txt", &own, b"");
                (head.status, head.body.len())
            },
            (429, 0),
        );
    }
    drop(rows);
    assert_eq!(server.count("limited_requests"), 4 * 4);
}

#[test]
fn clients_learn_what_remains_where_a_limit_announces_it() {
    let server = site(
        "[[limit]]\nby = \"field:X-Key\"\nrequests = \"3/m\"\nrequests_burst = 3\nannounce = true\n\
         [[limit]]\nby = \"cookie:sid\"\nrequests = \"99/h\"\nrequests_burst = 99\n",
    )
    .file("a.txt", "a")
    .start();
    for protocol in EVERY {
        let key = format!("{protocol:?}");
        let limits = |path: &str| {
            let response =
                get(&server, protocol, path, &[("x-key", &key), ("cookie", &format!("sid={key}"))]);
            let field = |name| response.field(name).map(str::to_owned);
            (response.status, field("RateLimit-Policy"), field("RateLimit"))
        };
        let policy = Some("\"field-x-key\";q=3;w=60".to_owned());
        let expected =
            |status, remaining: &str| (status, policy.clone(), Some(format!("\"field-x-key\";{remaining}")));
        // From the cache, and of a file that is not there.
        assert_eq!(limits("/a.txt"), expected(200, "r=2;t=20"), "{protocol:?}");
        assert_eq!(limits("/absent"), expected(404, "r=1;t=40"), "{protocol:?}");
        assert_eq!(limits("/a.txt"), expected(200, "r=0;t=60"), "{protocol:?}");
        assert_eq!(limits("/a.txt"), expected(429, "r=0;t=20"), "{protocol:?}");
        let others = get(&server, protocol, "/a.txt", &[("cookie", "sid=other")]);
        assert_eq!((others.status, others.field("RateLimit")), (200, None), "{others}");
    }
}

#[test]
fn a_rejection_has_the_error_page_of_its_route_and_its_fields() {
    let server = site(
        "error_pages = { 429 = \"/busy.html\", 503 = \"/busy.html\" }\n\
         [[limit]]\nby = \"field:x\"\npaths = \"/a.txt\"\nrequests = \"1/m\"\n\
         [[limit]]\nby = \"field:x\"\npaths = \"/b.txt\"\nrequests = \"1/m\"\nstatus = 503\n",
    )
    .file("a.txt", "hello\n")
    .file("b.txt", "hello\n")
    .file("busy.html", "later")
    .start();
    for protocol in EVERY {
        let own = format!("{protocol:?}");
        let fields = [("x", own.as_str())];
        for (path, status) in [("/a.txt", 429), ("/b.txt", 503)] {
            assert_eq!(get(&server, protocol, path, &fields).status, 200);
            let rejected = get(&server, protocol, path, &fields);
            let retry = rejected.values("retry-after");
            assert_eq!((rejected.status, rejected.text().as_str()), (status, "later"), "{protocol:?}");
            assert!(matches!(retry[..], ["59" | "60"]), "{protocol:?} {retry:?}");
            assert_eq!(rejected.field("ratelimit-policy"), Some("\"field-x\";q=1;w=60"));
        }
    }
}

#[test]
fn a_request_that_one_limit_rejects_does_not_count_for_another() {
    let server = site(
        "[[limit]]\nby = \"all\"\nrequests = \"3/h\"\nrequests_burst = 3\n\
         [[limit]]\nby = \"field:x\"\nrequests = \"1/h\"\n",
    )
    .file("a.txt", "hello\n")
    .start();
    let status = |x: &str| get(&server, Protocol::Http1, "/a.txt", &[("x", x)]).status;
    assert_eq!((status("1"), status("1"), status("1"), status("1")), (200, 429, 429, 429));
    assert_eq!((status("2"), status("3"), status("4")), (200, 200, 429));
}

#[test]
fn a_file_counts_in_its_limits_by_a_name_with_a_language_too() {
    let server = site(
        "language_fallback = [\"suffix\", \"folder\"]\n\
         [[limit]]\npaths = \"/few/\"\nby = \"field:X-Key\"\nrequests = \"1/h\"\n\
         [[limit]]\nname = \"slow\"\nby = \"field:X-Key\"\nrequests = \"1/h\"\n\
         [[route]]\npath = \"/named/\"\n[[route.rule]]\nthen = \"limit\"\nlimit = \"slow\"\n",
    )
    .file("few/a.html", "few\n")
    .file("named/a.html", "named\n")
    .start();
    let mut rows = Rows::new();
    for (key, paths) in [
        ("suffix", ["/few/a.de.html", "/few/a.html"]),
        ("folder", ["/few/a.html", "/(de)/few/a.html"]),
        ("both names", ["/(de)/few/a.html", "/(fr)/few/a.html"]),
        ("a rule", ["/named/a.html", "/(de)/named/a.html"]),
    ] {
        let of_key = [("X-Key", key)];
        let statuses = paths.map(|path| get(&server, Protocol::Http1, path, &of_key).status);
        rows.check(key, statuses, [200, 429]);
    }
}

/// Some applications take `/login;a` for `/login`.
#[test]
fn a_path_with_parameters_counts_in_the_limits_of_the_path_without_them() {
    let server = site(
        "[[limit]]\npaths = \"/api/\"\nby = \"field:X-Key\"\nrequests = \"1/h\"\n\
         [[route]]\npath = \"/login\"\nrespond = \"x\"\n\
         [[route.limit]]\nby = \"field:X-Key\"\nrequests = \"1/h\"\n",
    )
    .start();
    let mut rows = Rows::new();
    for (key, paths, expected) in [
        ("exact", ["/login", "/login;a"], [200, 429]),
        ("folder", ["/api;b/a", "/api/a"], [404, 429]),
        ("dots", ["/x/..;/api/a", "/api/b;c"], [404, 429]),
        ("others", ["/x;/api/a", "/api/b"], [404, 404]),
    ] {
        let of_key = [("X-Key", key)];
        let statuses = paths.map(|path| get(&server, Protocol::Http1, path, &of_key).status);
        rows.check(key, statuses, expected);
    }
}

/// By each of its names: with PATH_INFO, as an index file, and as a fallback.
#[test]
fn a_request_counts_in_the_limits_of_the_script_that_responds() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nscript'\n";
    let server = site(
        "index = [\"index.html\", \"index.cgi\"]\nfallback = \"/none.cgi\"\n\
         [[limit]]\nname = \"slow\"\nby = \"field:X-Key\"\nrequests = \"1/h\"\n\
         [[rule]]\npath = \"/ruled/index.cgi\"\nthen = \"limit\"\nlimit = \"slow\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route.limit]]\nby = \"field:X-Key\"\nrequests = \"2/h\"\nrequests_burst = 2\n\
         [[route]]\npath = \"/ruled/index.cgi\"\ncgi = true\n",
    )
    .file("page/index.html", "page\n")
    .script("a.cgi", script)
    .script("none.cgi", script)
    .script("folder/index.cgi", script)
    .script("ruled/index.cgi", script)
    .start();
    let mut rows = Rows::new();
    for (key, paths, expected) in [
        ("its own", ["/a.cgi", "/a.cgi", "/a.cgi"], [200, 200, 429]),
        ("path info", ["/a.cgi/", "/a.cgi/x", "/a.cgi"], [200, 200, 429]),
        ("each once", ["/a.cgi/x", "/a.cgi", "/a.cgi/y"], [200, 200, 429]),
        ("index", ["/folder/", "/folder/index.cgi/x", "/folder/"], [200, 200, 429]),
        ("fallback", ["/missing", "/gone", "/none.cgi"], [200, 200, 429]),
        ("a file", ["/page/", "/page/", "/page/"], [200, 200, 200]),
        ("rule", ["/ruled/", "/ruled/", "/ruled/index.cgi/x"], [200, 429, 429]),
    ] {
        let of_key = [("X-Key", key)];
        let statuses = paths.map(|path| get(&server, Protocol::Http1, path, &of_key).status);
        rows.check(key, statuses, expected);
    }
    drop(rows);
    for path in ["/a.cgi/x", "/folder/", "/missing"] {
        let output = server.run_command(&["explain", "GET", path]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("\nlimit     requests 2 per 3600s"), "{path}: {text}");
    }
}

#[test]
fn a_limit_of_a_route_counts_what_globs_in_it_have_together_with_the_rest() {
    let server = site(
        "[[route]]\npath = \"/app/\"\n[[route.limit]]\nby = \"route\"\nrequests = \"2/h\"\nrequests_burst = 2\n\
         [[route]]\npath = \"*.txt\"\ncache_control = \"no-store\"\n",
    )
    .file("app/a.html", "a\n")
    .file("app/b.txt", "b\n")
    .start();
    let status = |path| get(&server, Protocol::Http1, path, &[]).status;
    assert_eq!([status("/app/a.html"), status("/app/b.txt"), status("/app/a.html")], [200, 200, 429]);
}

#[test]
fn requests_that_wait_for_a_disk_or_have_a_body_are_counted_once() {
    let server = site("[[limit]]\nby = \"all\"\nrequests = \"4/h\"\nrequests_burst = 4\n")
        .file("a.txt", "hello\n")
        .folder("folder")
        .start();
    // The driver responds to the first two.
    let mut found = vec![request(&server, Protocol::Http1, "POST", "/a.txt", &[], b"body").status];
    found.extend(
        ["/folder", "/a.txt", "/a.txt", "/a.txt"].map(|path| get(&server, Protocol::Http1, path, &[]).status),
    );
    assert_eq!(found, [405, 301, 200, 200, 429]);
}

#[test]
fn a_dry_run_rejects_and_slows_nothing_and_is_logged() {
    let server = site("[[limit]]\nby = \"all\"\nrequests = \"1/h\"\ndownload = 100\ndry_run = true\n")
        .file("a.txt", "x".repeat(10_000))
        .start();
    let (statuses, took) = timed(|| [0; 3].map(|_| get(&server, Protocol::Http1, "/a.txt", &[]).status));
    assert_eq!(statuses, [200, 200, 200]);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let line = server.wait_for_line("dry run", TIMEOUT);
    assert!(
        line.contains("limit all (") && line.contains("127.0.0.1 would be rejected, too many requests"),
        "{line}"
    );
    assert_eq!((server.count("limited_dry_run"), server.count("limited_requests")), (2, 0));
}

/// The content of what is downloaded, and the least time for it at 100 kB/s with a burst of 10 kB.
const CONTENT: usize = 110_000;
const LEAST: Duration = Duration::from_millis(850);

#[test]
fn files_listings_compressed_and_script_output_are_slowed_in_every_protocol() {
    let text: String = (0..CONTENT).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect();
    let mut site = site(
        "listing = true\n[[limit]]\nby = \"connection\"\npaths = [\"/slow/\", \"*.cgi\"]\ndownload = \"100kB\"\n\
         burst = \"10kB\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n",
    )
    .file("slow/a.bin", &text)
    .file("fast.bin", &text)
    .script("s.cgi", format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nhead -c {CONTENT} /dev/zero\n"));
    // A listing of about as many bytes.
    for n in 0..600 {
        site = site.file(&format!("slow/list/{n:060}"), "");
    }
    let server = site.start();
    let server = &server;
    let download = |protocol: Protocol| {
        let mut rows = Rows::new();
        for (path, fields) in [
            ("/slow/a.bin", &[][..]),
            ("/slow/a.bin", &[("range", "bytes=0-109998")][..]),
            ("/slow/a.bin", &[("range", "bytes=0-50000,55000-109998")][..]),
            ("/slow/list/", &[][..]),
            ("/s.cgi", &[][..]),
        ] {
            let (response, took) = timed(|| get(server, protocol, path, fields));
            let what = format!("{protocol:?} {path} {fields:?}: {took:?}");
            let is_whole = response.body.len() > 100_000 && [200, 206].contains(&response.status);
            rows.check(&what, (response.status, is_whole), (response.status, true));
            rows.check(&what, took >= LEAST && took < 8 * LEAST, true);
        }
        let (response, took) = timed(|| get(server, protocol, "/fast.bin", &[]));
        rows.check(
            format!("{protocol:?} fast {took:?}"),
            (response.body.len(), took < LEAST),
            (CONTENT, true),
        );
    };
    thread::scope(|scope| EVERY.map(|protocol| _ = scope.spawn(move || download(protocol))));
    assert!(server.count("throttle_pauses") > 20);
}

#[test]
fn request_bodies_are_slowed_in_every_protocol() {
    let server = site(
        "max_body = \"1MB\"\n[[limit]]\nby = \"connection\"\nupload = \"100kB\"\nburst = \"10kB\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n",
    )
    .script("count.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nwc -c | tr -d ' \\n'\n")
    .start();
    let body = vec![b'x'; CONTENT];
    let (server, body) = (&server, &body);
    let upload = |protocol: Protocol| {
        let (response, took) = timed(|| request(server, protocol, "POST", "/count.cgi", &[], body));
        assert_eq!((response.status, response.text()), (200, CONTENT.to_string()), "{protocol:?}");
        assert!(took >= LEAST && took < 8 * LEAST, "{protocol:?} {took:?}");
    };
    thread::scope(|scope| EVERY.map(|protocol| _ = scope.spawn(move || upload(protocol))));
}

#[test]
fn heads_count_in_every_protocol() {
    let server = site("[[limit]]\nby = \"all\"\ndownload = 2000\nburst = 0\n").file("a.txt", "abc").start();
    let connect = || Client::tcp(server.tcp(0));
    let http2 = |method: &str| {
        let client = Client::tls(server.tcp(1), &Tls::new().protocols(&["h2"]));
        let mut http2 = Http2::over(client).expect("it speaks HTTP/2");
        let request = Http2Request::new(method, "/a.txt", &[]);
        (0..10).for_each(|_| assert_eq!(http2.request(&request).expect("a response").status, 200));
    };
    let mut rows = Rows::new();
    let mut check = |what: &str, ten_requests: &dyn Fn()| {
        let ((), took) = timed(ten_requests);
        rows.check(format!("{what} {took:?}"), took >= Duration::from_millis(300), true);
    };
    check("HTTP/1.1, close", &|| {
        let request = "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        (0..10).for_each(|_| assert_eq!(connect().request(request).status, 200));
    });
    check("HTTP/1.0, keep-alive", &|| {
        let mut client = connect();
        let request = "HEAD /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        (0..10).for_each(|_| assert_eq!(client.request(request).status, 200));
    });
    check("HTTP/2, HEAD", &|| http2("HEAD"));
    check("HTTP/2, GET", &|| http2("GET"));
}

#[test]
fn a_throttled_stream_leaves_its_siblings_alone() {
    let server = site("[[limit]]\npaths = \"/slow.bin\"\ndownload = \"20kB\"\n")
        .file("slow.bin", vec![b'x'; 1_000_000])
        .file("fast.bin", vec![b'x'; 3_000_000])
        .start();
    for client in [Client::tcp(server.tcp(2)), Client::tls(server.tcp(1), &Tls::new().protocols(&["h2"]))] {
        let mut http2 = Http2::over(client).expect("it speaks HTTP/2");
        http2.open(&Http2Request::get("/slow.bin")).expect("the stream opens");
        let fast = http2.open(&Http2Request::get("/fast.bin")).expect("the stream opens");
        let (bytes, took) = timed(|| {
            let mut bytes = [0; 2];
            loop {
                let frame = http2.read_frame().expect("the connection stays open");
                if frame.kind == frame::DATA {
                    bytes[usize::from(frame.stream == fast)] += frame.payload.len();
                }
                if frame.stream == fast && frame.flags & flag::END_STREAM != 0 {
                    return bytes;
                }
            }
        });
        assert_eq!(bytes[1], 3_000_000);
        assert!(bytes[0] < 200_000, "{bytes:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[test]
fn a_client_that_the_server_slows_is_not_too_slow() {
    // Slower than the least rate, and longer than the timeout.
    let server = site(
        "[limits]\nmin_rate = 5000\n[timeouts]\nwrite = \"500ms\"\nbody = \"500ms\"\n\
         [[limit]]\nby = \"connection\"\ndownload = 2000\nburst = 0\n",
    )
    .file("a.bin", vec![b'x'; 6000])
    .start();
    thread::scope(|scope| {
        for protocol in EVERY {
            let server = &server;
            scope.spawn(move || {
                let (response, took) = timed(|| get(server, protocol, "/a.bin", &[]));
                assert_eq!((response.status, response.body.len()), (200, 6000), "{protocol:?}");
                assert!(took > Duration::from_secs(1), "{protocol:?} {took:?}");
            });
        }
    });
}

#[test]
fn a_throttled_client_that_does_not_read_is_closed() {
    let server =
        site("[limits]\nmin_rate = 5000\n[timeouts]\nwrite = \"500ms\"\n[[limit]]\ndownload = \"50MB\"\n")
            .file("a.bin", vec![b'x'; 20_000_000])
            .start();
    let _client = server.begin_download("/a.bin");
    assert!(wait_until(TIMEOUT, || server.count("timeout_write") == 1), "{}", server.stats());
}

#[test]
fn shares_below_the_minimum_are_refused_with_503() {
    let server =
        site("[[limit]]\nby = \"all\"\npaths = \"/a.bin\"\ndownload = 20000\nmin_download = 10000\n")
            .file("a.bin", vec![b'x'; 1_000_000])
            .file("b.bin", "x")
            .start();
    let (one, two) = (server.begin_download("/a.bin"), server.begin_download("/a.bin"));
    for protocol in EVERY {
        let refused = get(&server, protocol, "/a.bin", &[]);
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{protocol:?}");
        assert_eq!(get(&server, protocol, "/b.bin", &[]).status, 200);
    }
    drop((one, two));
    let begins = || {
        let mut client = server.connect();
        client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        client.read_response_to_head().status == 200
    };
    assert!(wait_until(TIMEOUT, begins), "those that have left count no more");
}

/// Runs until the file `go` exists, at most ten seconds.
const WAITS: &str = "#!/bin/sh\nn=0\nwhile [ ! -e go ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done\n\
                     printf 'Content-Type: text/plain\\r\\n\\r\\ndone'\n";

#[test]
fn requests_above_the_concurrent_ones_wait_in_a_queue_with_an_end() {
    let server = site(
        "[[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route.limit]]\nby = \"all\"\nconcurrent = 1\nqueue = 4\nstatus = 503\n",
    )
    .script("w.cgi", WAITS)
    .start();
    let send = |client: &mut Client| _ = client.send("GET /w.cgi HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut first = server.connect();
    send(&mut first);
    assert!(wait_until(TIMEOUT, || server.count("scripts_running") == 1));
    let mut waiting: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(send);
    assert!(wait_until(TIMEOUT, || server.count("limit_queued") == 4));
    for protocol in EVERY {
        assert_eq!(get(&server, protocol, "/w.cgi", &[]).status, 503, "{protocol:?}: the queue is full");
    }
    // One of those that wait leaves: its request never begins, and its place is free.
    drop(waiting.remove(0));
    assert!(wait_until(TIMEOUT, || server.count("limit_abandoned") == 1));
    let mut last = server.connect();
    send(&mut last);
    assert!(wait_until(TIMEOUT, || server.count("limit_queued") == 5));
    assert_eq!(server.count("scripts"), 1);
    fs::write(server.root().join("go"), "").expect("the folder is ours");
    waiting.push(last);
    waiting.insert(0, first);
    let texts: Vec<String> = waiting.iter_mut().map(|client| client.read_response().text()).collect();
    assert_eq!(texts, vec!["done"; 5]);
    assert_eq!((server.count("scripts"), server.count("limited_concurrent")), (5, 4));
}

#[test]
fn requests_in_a_queue_share_no_rate_of_bytes() {
    let server = site(
        "[[limit]]\nby = \"all\"\ndownload = \"20kB\"\nmin_download = \"10kB\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n[[route.limit]]\nby = \"all\"\nconcurrent = 1\nqueue = 4\n",
    )
    .script("w.cgi", WAITS)
    .start();
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /w.cgi HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    // Any of them may wait for a moment while another one goes from the fast path to the driver.
    let all_came = || server.count("limit_queued") >= 3 && server.count("scripts_running") == 1;
    assert!(wait_until(TIMEOUT, all_came), "{}", server.stats());
    fs::write(server.root().join("go"), "").expect("the folder is ours");
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.read_response().status).collect();
    assert_eq!(statuses, [200; 4]);
}

#[test]
fn a_request_waits_no_longer_than_it_may() {
    let server = site(
        "[[limit]]\nby = \"all\"\npaths = \"/w.cgi\"\nconcurrent = 1\nqueue = 9\nwait = \"300ms\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n",
    )
    .script("w.cgi", WAITS)
    .start();
    let mut first = server.connect();
    first.send("GET /w.cgi HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(wait_until(TIMEOUT, || server.count("scripts_running") == 1));
    for protocol in EVERY {
        let (response, took) = timed(|| get(&server, protocol, "/w.cgi", &[]));
        assert_eq!(response.status, 429, "{protocol:?}");
        assert!(took >= Duration::from_millis(300) && took < TIMEOUT, "{protocol:?} {took:?}");
    }
    fs::write(server.root().join("go"), "").expect("the folder is ours");
    assert_eq!(first.read_response().text(), "done");
    assert_eq!(get(&server, Protocol::Http1, "/w.cgi", &[]).text(), "done");
}

#[test]
fn a_rule_of_access_applies_a_named_limit() {
    let server = site(
        "[[limit]]\nname = \"bots\"\nby = \"all\"\nrequests = \"1/h\"\n\
         [[rule]]\nuser_agent = \"*bot*\"\nthen = \"limit\"\nlimit = \"bots\"\n",
    )
    .file("a.txt", "hello\n")
    .start();
    let status = |agent: &str| get(&server, Protocol::Http1, "/a.txt", &[("user-agent", agent)]);
    assert_eq!((status("a bot").status, status("browser").status, status("browser").status), (200, 200, 200));
    let rejected = status("another bot");
    assert_eq!((rejected.status, rejected.field("ratelimit-policy")), (429, Some("\"bots\";q=1;w=3600")));
}

/// The client chooses its name. Neither does it pass a password, nor a rule behind.
#[test]
fn a_rule_that_names_a_limit_allows_nothing() {
    let server = site(
        "[[limit]]\nname = \"bots\"\nby = \"all\"\nrequests = \"9/h\"\nrequests_burst = 9\n\
         [[limit]]\nname = \"texts\"\nby = \"all\"\nrequests = \"1/h\"\n\
         [[rule]]\nuser_agent = \"*bot*\"\nthen = \"limit\"\nlimit = \"bots\"\n\
         [[rule]]\npath = \"/texts/\"\nthen = \"limit\"\nlimit = \"texts\"\n\
         [[rule]]\npath = \"/admin/\"\nthen = \"deny\"\n\
         [[route]]\npath = \"/club/\"\nauth = \"basic\"\nsatisfy = \"any\"\n\
         users = { ann = \"{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=\" }\n",
    )
    .file("admin/a.txt", "admin\n")
    .file("club/a.txt", "club\n")
    .file("texts/a.txt", "text\n")
    .start();
    let mut rows = Rows::new();
    for (path, agent, expected) in [
        ("/admin/a.txt", "a bot", 403),
        ("/admin/a.txt", "browser", 403),
        ("/club/a.txt", "a bot", 401),
        ("/club/a.txt", "browser", 401),
        // Each of two limits counts.
        ("/texts/a.txt", "a bot", 200),
        ("/texts/a.txt", "browser", 429),
    ] {
        let fields = [("user-agent", agent)];
        rows.check(format!("{path} {agent}"), get(&server, Protocol::Http1, path, &fields).status, expected);
    }
}

#[test]
fn a_reload_changes_running_transfers() {
    let limit = |rate: &str| format!("[[limit]]\nby = \"all\"\ndownload = \"{rate}\"\n");
    let content = 4_000_000;
    let server = Site::new().config(&limit("20kB")).file("a.bin", vec![b'x'; content]).start();
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read_response_to_head().status, 200);
    let mut received = client.read_some().expect("the response begins").len();
    server.configure(&limit("50MB"));
    server.reload();
    let began = Instant::now();
    while received < content - 100_000 {
        received += client.read_some().expect("the response goes on").len();
        assert!(began.elapsed() < TIMEOUT, "{received} bytes");
    }
    assert!(began.elapsed() < TIMEOUT);
}

#[test]
fn a_limit_that_is_removed_slows_running_transfers_no_more() {
    let server =
        Site::new().config("[[limit]]\ndownload = \"20kB\"\n").file("a.bin", vec![b'x'; 4_000_000]).start();
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read_response_to_head().status, 200);
    server.configure("");
    server.reload();
    let (received, took) = timed(|| {
        let mut received = 0;
        while received < 3_900_000 {
            received += client.read_some().expect("the response goes on").len();
        }
        received
    });
    assert!(took < TIMEOUT, "{received} {took:?}");
}

#[test]
fn a_throttle_file_of_thttpd_works_with_its_bad_lines_reported() {
    let server = Site::new()
        .config("throttle_file = \"throttle\"\n")
        .file_beside_root(
            "throttle",
            "# thttpd\n\nbad line here\n/slow/**|**.iso   100000  # all\r\n** 50000000\n",
        )
        .file("slow/a", vec![b'x'; CONTENT])
        .file("b.iso", vec![b'x'; CONTENT])
        .file("c", vec![b'x'; CONTENT])
        .start();
    for (path, is_slow) in [("/slow/a", true), ("/b.iso", true), ("/c", false)] {
        let (response, took) = timed(|| server.get(path));
        assert_eq!(response.body.len(), CONTENT);
        assert_eq!(took > Duration::from_millis(600), is_slow, "{path}: {took:?}");
    }
    let check = server.run_command(&["check"]);
    let text = String::from_utf8_lossy(&check.stderr).into_owned() + &String::from_utf8_lossy(&check.stdout);
    assert!(text.contains("throttle:3: warning: there is text behind the rate"), "{text}");
    assert!(server.stderr().contains("throttle:3: there is text behind the rate"), "{}", server.stderr());
    let explain =
        e2e::run(["explain", "GET", "/slow/a", "-c", &server.home().join("site.toml").to_string_lossy()]);
    let text = String::from_utf8_lossy(&explain.stdout).into_owned();
    assert!(
        text.contains("limit     download 100000 B/s in all (") && text.contains("throttle:4)"),
        "{text}"
    );
}

#[test]
fn applies_the_last_of_many_limits() {
    let limits = |requests: u32| format!("[[route.limit]]\nby = \"all\"\nrequests = {requests}\n");
    let many = limits(1000).repeat(15);
    let server = Site::new()
        .file("new/x", "x")
        .config(&format!(
            "[[route]]\npath = \"/old/\"\nrewrite = \"/new/x\"\n{many}{}[[route]]\npath = \"/new/\"\n{many}\
             [[route.limit]]\nby = \"all\"\nrequests = \"1/d\"\n",
            limits(1000)
        ))
        .start();
    let statuses = [server.get("/old/a").status, server.get("/old/a").status];
    assert_eq!(statuses, [200, 429], "{}", server.stderr());
}

#[test]
fn a_client_that_leaves_while_it_is_slowed_ends_its_transfer() {
    let server = Site::new()
        .config("[[limit]]\nby = \"all\"\ndownload = 5000\nmin_download = 5000\n")
        .file("a.bin", vec![b'x'; 1_000_000])
        .start();
    let client = server.begin_download("/a.bin");
    assert_eq!(server.get("/a.bin").status, 503);
    client.reset();
    let begins = || {
        let mut client = server.connect();
        client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        client.read_response_to_head().status == 200
    };
    assert!(wait_until(TIMEOUT, begins));
}
