//! HTTP/2 (RFC 9113) by prior knowledge: what real clients get, what a connection with many streams does, and what
//! clients cannot do to others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use e2e::http2::{Frame, Http2, Http2Error, Http2Request, append, flag, frame};
use e2e::upstream::upstream;
use e2e::{
    Client, Random, Rows, Server, Site, TIMEOUT, Tls, output_of, output_within, runs, tool, wait_until,
};

const LISTEN: &str = "listen = [\"127.0.0.1:0 http2\"]\n";
const EVERY_CGI: &str = "[[route]]\npath = \"*.cgi\"\ncgi = true\n";
/// A busy machine must not make the server shed requests.
const PATIENT: &str = "[timeouts]\ndelay = 0\n";
/// A type of frames that is ignored.
const UNKNOWN: u8 = 0xfa;
const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
/// Frames of a flood: more than the server takes in a row, and few enough for the kernel's buffers.
const FLOOD: usize = 2000;

fn site() -> Site {
    Site::new().config(LISTEN).file("a.txt", "a")
}

/// A connection whose streams begin with this window.
fn connect_with_window(server: &Server, window: u32) -> Http2 {
    let mut settings = vec![0, 4];
    settings.extend_from_slice(&window.to_be_bytes());
    Http2::with(Client::tcp(server.addr()), &settings, &[]).expect("the server accepts")
}

/// The next frame that is about a stream, or GOAWAY.
fn next_frame(client: &mut Http2) -> Frame {
    loop {
        let frame = client.read_frame().expect("there is another frame");
        match frame.kind {
            frame::SETTINGS | frame::WINDOW_UPDATE | frame::PING => {}
            _ => return frame,
        }
    }
}

fn code(frame: &Frame, at: usize) -> u32 {
    u32::from_be_bytes(frame.payload[at..at + 4].try_into().expect("four bytes"))
}

/// The code of GOAWAY, which must come.
fn goaway(client: &mut Http2) -> u32 {
    loop {
        match client.read_frame() {
            Ok(frame) if frame.kind == frame::GOAWAY => return code(&frame, 4),
            Ok(_) => {}
            Err(error) => panic!("no GOAWAY: {error}"),
        }
    }
}

fn window_update(client: &mut Http2, stream: u32, bytes: u32) {
    client.send_frame(frame::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()).expect("the server reads");
}

#[test]
fn responds_as_to_http1() {
    let server = site()
        .file("long.txt", "0123456789".repeat(100))
        .file("errors/404.html", "not here")
        .folder("folder")
        .config("error_pages = { 404 = \"/errors/404.html\" }\nlisting = true\n")
        .start();
    let mut client = server.connect_http2();
    let etag = client.get("/long.txt").field("etag").expect("there is one").to_owned();
    let none_match = [("if-none-match", &*etag)];
    let mut rows = Rows::new();
    for (method, path, fields, status, body) in [
        ("GET", "/a.txt", &[][..], 200, Some("a")),
        ("HEAD", "/a.txt", &[], 200, Some("")),
        ("GET", "/missing", &[], 404, Some("not here")),
        ("HEAD", "/missing", &[], 404, Some("")),
        ("GET", "/folder", &[], 301, None),
        ("GET", "/folder/", &[], 200, None),
        ("GET", "/../a.txt", &[], 400, None),
        ("POST", "/a.txt", &[], 405, None),
        ("OPTIONS", "*", &[], 204, Some("")),
        ("GET", "/long.txt", &[("range", "bytes=3-5")], 206, Some("345")),
        ("GET", "/long.txt", &[("range", "bytes=9999-")], 416, None),
        ("GET", "/long.txt", &none_match, 304, Some("")),
        ("GET", "/long.txt", &[("if-match", "\"other\"")], 412, None),
        ("GET", "/a.txt", &[("expect", "something")], 417, None),
    ] {
        let response = client.request(&Http2Request::new(method, path, fields));
        let response = response.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let found = (response.status, body.map(|_| response.text()));
        let expected = (status, body.map(str::to_owned));
        rows.check(format!("{method} {path} {fields:?}"), found, expected);
    }
}

/// Browsers send each cookie of a site as a field of its own (RFC 9113 §8.2.3).
#[test]
fn as_many_cookies_and_fields_as_in_http1() {
    let server = site().file("a.txt", "a").start();
    let mut client = server.connect_http2();
    let cookies: Vec<_> = (0..180).map(|at| format!("c{at}=1")).collect();
    let mut crumbs: Vec<_> = cookies.iter().map(|cookie| ("cookie", &**cookie)).collect();
    crumbs.push(("user-agent", "browser"));
    assert_eq!(client.request(&Http2Request::new("GET", "/a.txt", &crumbs)).unwrap().status, 200);
    let line = format!("Cookie: {}\r\nUser-Agent: browser", cookies.join("; "));
    assert_eq!(server.request(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n")).status, 200);
    // Host, or the authority, is one of a hundred.
    for (count, status) in [(99, 200), (100, 431)] {
        let fields = vec![("x", "y"); count];
        assert_eq!(client.request(&Http2Request::new("GET", "/a.txt", &fields)).unwrap().status, status);
        let lines = "x: y\r\n".repeat(count);
        let response = server.request(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(response.status, status, "{count} fields");
    }
}

#[test]
fn sends_several_ranges_and_large_files() {
    let content = Random::new(3).bytes(3_000_000);
    let server = site().file("large", &content).start();
    let mut client = server.connect_http2();
    assert!(client.get("/large").body == content);
    let ranges = [("range", "bytes=0-9,2000000-2999999")];
    let response = client.request(&Http2Request::new("GET", "/large", &ranges)).expect("a response");
    assert_eq!(response.status, 206);
    let parts = [&content[..10], &content[2_000_000..]];
    let has = |part: &[u8]| response.body.windows(part.len().min(64)).any(|window| part.starts_with(window));
    assert!(parts.iter().all(|part| has(part)) && response.body.len() > 1_000_010);
}

#[test]
fn serves_curl_and_nghttp() {
    let content = Random::new(4).bytes(500_000);
    let server = site()
        .file("large", &content)
        .script("echo.cgi", "#!/bin/sh\nprintf 'X-Length: %s\\n\\n' \"$CONTENT_LENGTH\"\nexec cat\n")
        .config(EVERY_CGI)
        .start();
    let upload = server.home().join("upload");
    fs::write(&upload, &content).expect("the folder is writable");
    let curl = |args: &[&str]| {
        let mut command = tool("curl");
        command.args(["--silent", "--show-error", "--http2-prior-knowledge"]).args(args);
        let output = output_of(&mut command);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(curl(&["--write-out", "%{http_version}", &server.url("/a.txt")]), b"a2");
    assert!(curl(&[&server.url("/large")]) == content);
    assert_eq!(curl(&["--range", "0-4", &server.url("/large")]), content[..5]);
    let upload = format!("@{}", upload.display());
    assert!(curl(&["--data-binary", &upload, &server.url("/echo.cgi")]) == content);
    // Without a length, and after 100 (Continue).
    let chunked = ["--header", "Expect: 100-continue", "--upload-file", "-", &server.url("/echo.cgi")];
    assert_eq!(curl(&chunked), b"", "the standard input is empty");
    let mut command = tool("nghttp");
    command.args(["--null-out", "--stat", &server.url("/large"), &server.url("/a.txt")]);
    let output = output_of(&mut command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.matches(" 200 ").count() == 2, "{text}");
}

/// A reset right behind a response hides it from clients such as curl 7.88, which sends no more behind an error, and
/// takes a reset behind another response for a failure.
#[test]
fn curl_has_a_response_that_is_there_before_its_upload() {
    let server = site()
        .script("early.cgi", "#!/bin/sh\nprintf 'Status: 422\\n\\nearly'\n")
        .script("parts.cgi", "#!/bin/sh\nprintf 'Status: 422\\n\\nin '\nsleep 1\nprintf parts\n")
        .script("reading.cgi", "#!/bin/sh\nprintf 'Status: 422\\n\\nall '\ncat >/dev/null\nprintf read\n")
        .script("success.cgi", "#!/bin/sh\nprintf 'Status: 200\\n\\nsuccess'\n")
        .config("max_body = 20000000\n[[route]]\npath = \"/small\"\nmax_body = 1000\n")
        .config(EVERY_CGI)
        .start();
    let upload = server.home().join("upload");
    fs::write(&upload, vec![0; 10_000_000]).expect("the folder is writable");
    let mut rows = Rows::new();
    let file = upload.to_str().expect("it is UTF-8");
    // When it has a response, it does not read how large the windows are.
    let small = server.home().join("small");
    fs::write(&small, vec![0; 60_000]).expect("the folder is writable");
    let small = small.to_str().expect("it is UTF-8");
    // From standard input, the length is not known.
    for (path, source, end) in [
        ("/small", file, "413"),
        ("/a.txt", file, "405"),
        ("/a.txt", "-", "405"),
        ("/early.cgi", file, "early422"),
        ("/early.cgi", "-", "early422"),
        ("/parts.cgi", file, "in parts422"),
        ("/reading.cgi", file, "all read422"),
        ("/success.cgi", small, "success200"),
    ] {
        let mut curl = tool("curl");
        curl.args(["--silent", "--show-error", "--http2-prior-knowledge", "--write-out", "%{http_code}"]);
        curl.args(["--upload-file", source, &server.url(path)]);
        curl.stdin(File::open(&upload).expect("it is there"));
        let output = output_of(&mut curl);
        let text = String::from_utf8_lossy(&output.stdout);
        rows.check(format!("{path} {source}"), (text.ends_with(end), output.status.code()), (true, Some(0)));
    }
}

/// A client that stops sending at an error may wait for the end of its stream.
#[test]
fn an_upload_is_reset_when_its_client_has_the_error() {
    let server =
        site().script("early.cgi", "#!/bin/sh\nprintf 'Status: 422\\n\\nearly'\n").config(EVERY_CGI).start();
    let mut client = server.connect_http2();
    for path in ["/a.txt", "/early.cgi", "/a.txt"] {
        let mut request = Http2Request::new("POST", path, &[("content-length", "1000")]);
        request.body = vec![0];
        let stream = client.open(&request).expect("it is open");
        loop {
            let frame = next_frame(&mut client);
            if frame.stream == stream && frame.flags & flag::END_STREAM != 0 {
                break;
            }
        }
        let ping = loop {
            let frame = client.read_frame().expect("a PING follows the response");
            if frame.kind == frame::PING {
                break frame;
            }
        };
        client.send_frame(frame::PING, flag::ACK, 0, &ping.payload).expect("the server reads");
        let end = next_frame(&mut client);
        let found = (end.kind, end.stream, code(&end, 0));
        assert_eq!(found, (frame::RST_STREAM, stream, NO_ERROR), "{path}");
    }
}

#[test]
fn serves_h2load() {
    let server = site().config(PATIENT).start();
    let mut command = tool("h2load");
    command.args(["--clients=4", "--max-concurrent-streams=100", "--requests=4000", &server.url("/a.txt")]);
    let output = output_within(&mut command, TIMEOUT * 3);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("4000 succeeded, 0 failed"), "{text}");
}

/// Not run where Go is missing, with which `tests/run` installs it.
#[test]
fn passes_h2spec() {
    // Such a client may speak HTTP/1 on the same port, and gets 400.
    const NOT_OURS: &str = "Sends invalid connection preface";
    // A response before the end of its request would hide what is wrong with the rest.
    let script = "#!/bin/sh\ncat > /dev/null\nprintf 'Content-Type: text/plain\\n\\n%099d' 0\n";
    let server = site().script("read.cgi", script).config(EVERY_CGI).config(PATIENT).start();
    let report = server.home().join("report.xml");
    let port = server.addr().port().to_string();
    let mut command = tool("h2spec");
    command.args(["--host", "127.0.0.1", "--port", &port, "--path", "/read.cgi", "--timeout", "5"]);
    command.arg("--junit-report").arg(&report);
    let output = output_within(&mut command, TIMEOUT * 30);
    let report = fs::read_to_string(&report).unwrap_or_default();
    let failed: Vec<&str> = report
        .split("<testcase")
        .skip(1)
        .filter(|case| case.contains("<failure") || case.contains("<error"))
        .filter(|case| !case.contains(NOT_OURS))
        .collect();
    let cases = report.matches("<testcase").count();
    assert!(cases > 140, "{cases} cases: {}", String::from_utf8_lossy(&output.stdout));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn takes_a_preface_in_single_bytes() {
    let server = site().start();
    let mut bytes = e2e::http2::PREFACE.to_vec();
    append(&mut bytes, frame::SETTINGS, 0, 0, &[]);
    append(&mut bytes, frame::PING, 0, 0, b"12345678");
    let mut client = Client::tcp(server.addr());
    client.dribble(&bytes);
    let mut received = Vec::new();
    while !received.ends_with(b"12345678") {
        let some = client.read_some().expect("the server answers");
        assert!(!some.is_empty(), "closed after {received:?}");
        received.extend_from_slice(&some);
    }
}

#[test]
fn speaks_http2_only_where_the_listener_says_so() {
    let server = Site::new().file("a.txt", "a").start();
    let mut client = Client::tcp(server.addr());
    client.send(e2e::http2::PREFACE);
    assert_eq!(client.read_response().status, 505);
    let server = site().start();
    assert_eq!(server.get("/a.txt").status, 200, "HTTP/1 is spoken there, too");
}

#[test]
fn answers_a_thousand_requests_on_one_connection() {
    let server = site().config(PATIENT).start();
    let mut client = server.connect_http2();
    for _ in 0..10 {
        let streams: Vec<u32> =
            (0..100).map(|_| client.open(&Http2Request::get("/a.txt")).expect("it is open")).collect();
        let mut ended = Vec::new();
        while ended.len() < streams.len() {
            let frame = next_frame(&mut client);
            if frame.flags & flag::END_STREAM != 0 {
                assert_eq!((frame.kind, &frame.payload[..]), (frame::DATA, &b"a"[..]));
                ended.push(frame.stream);
            }
        }
        ended.sort_unstable();
        assert_eq!(ended, streams);
    }
}

#[test]
fn logs_each_request_once_with_its_version() {
    let server = site()
        .file("large", vec![b'x'; 300_000])
        .script("slow.cgi", "#!/bin/sh\nsleep 30\n")
        .config(EVERY_CGI)
        .config("[log]\naccess = \"./access.log\"\n")
        .start();
    let mut client = server.connect_http2();
    client.get("/a.txt");
    client.get("/large");
    client.request(&Http2Request::new("HEAD", "/missing", &[])).expect("a response");
    let stream = client.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    client.send_frame(frame::RST_STREAM, 0, stream, &8u32.to_be_bytes()).expect("the server reads");
    let malformed = Http2Request::new("GET", "/", &[("Upper", "x")]);
    assert!(matches!(client.request(&malformed), Err(Http2Error::Reset(1))));
    let log = server.home().join("access.log");
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    assert!(wait_until(TIMEOUT, || lines().lines().count() >= 5), "{}", lines());
    let lines = lines();
    let expected = [
        "\"GET /a.txt HTTP/2.0\" 200 1 ",
        "\"GET /large HTTP/2.0\" 200 300000 ",
        "\"HEAD /missing HTTP/2.0\" 404 0 ",
        "\"GET /slow.cgi HTTP/2.0\" 400 0 ",
        "\"-\" 400 0 ",
    ];
    for text in expected {
        assert_eq!(lines.matches(text).count(), 1, "{text}: {lines}");
    }
}

#[test]
fn logs_each_request_whose_stream_ends_at_once_and_why() {
    const MANY: usize = 50;
    let server = site()
        .script("read.cgi", "#!/bin/sh\ncat > /dev/null\n")
        .config(EVERY_CGI)
        .config(PATIENT)
        .config("[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let mut client = server.connect_http2();
    let post = |target: &str| Http2Request {
        body: vec![0],
        ..Http2Request::new("POST", target, &[("content-length", "9")])
    };
    // While one stream waits, the connection has a task. It reads the resets before the other streams' tasks have a turn.
    client.open(&post("/read.cgi?first")).expect("it is open");
    client.get("/a.txt");
    let (mut frames, mut resets) = (Vec::new(), Vec::new());
    for _ in 0..MANY {
        let (stream, bytes) = client.opening(&post("/read.cgi"));
        frames.extend(bytes);
        append(&mut resets, frame::RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }
    while frames.len() < 128 * 1024 {
        append(&mut frames, UNKNOWN, 0, 0, &[0; 16_384]);
    }
    frames.extend(resets);
    client.client().send(frames);
    for _ in 0..MANY {
        let stream = client.open(&post("/read.cgi?long")).expect("it is open");
        // Its task waits when this is answered.
        client.get("/a.txt");
        client.send_frame(frame::DATA, flag::END_STREAM, stream, b"a").expect("the server reads");
        assert_eq!(code(&client.next_frame_of(stream), 0), 1, "PROTOCOL_ERROR");
    }
    let counts = || {
        let log = server.stdout();
        ["/read.cgi stream reset by the client", "/read.cgi?long the client sent malformed frames"]
            .map(|line| log.matches(line).count())
    };
    assert!(wait_until(TIMEOUT, || counts() == [MANY, MANY]), "{:?} of {MANY}", counts());
}

#[test]
fn refuses_a_large_file_without_a_head_while_too_many_streams_wait() {
    let server = site()
        .script("slow.cgi", "#!/bin/sh\nsleep 30\n")
        .file("large", vec![b'x'; 300_000])
        .config(EVERY_CGI)
        .config("[http2]\nwaiting = 1\n[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let mut client = server.connect_http2();
    client.get("/a.txt");
    // The first stream that waits needs no place.
    for _ in 0..2 {
        client.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    }
    let refused = client.open(&Http2Request::get("/large")).expect("it is open");
    let frame = next_frame(&mut client);
    assert_eq!((frame.kind, frame.stream, code(&frame, 0)), (frame::RST_STREAM, refused, 7));
    server.wait_for_output("/large too many streams wait", TIMEOUT);
}

#[test]
fn a_client_that_takes_nothing_gets_no_more_interim_responses() {
    // More than the kernel takes for one connection.
    const REQUESTS: usize = 600;
    let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n", "a".repeat(15_000));
    let response = format!("{hint}HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let peer = upstream(move |mut stream, _| stream.write_all(response.as_bytes()));
    let server = site()
        .config(PATIENT)
        .config(&format!(
            "[http2]\nstreams = 1000\n[[route]]\npath = \"/app/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\n\
             protocol = \"http\"\naddress = \"{}\"\nqueue = 1000\n",
            peer.trim_start_matches("http://")
        ))
        .start();
    let mut client = Client::tcp(server.addr());
    client.set_receive_buffer(4096);
    let mut client = Http2::over(client).expect("the server accepts");
    let requests: Vec<u32> =
        (0..REQUESTS).map(|_| client.open(&Http2Request::get("/app/")).expect("it is open")).collect();
    let responded = || server.count("status_2xx") >= REQUESTS as u64;
    assert!(wait_until(TIMEOUT, responded), "{}", server.stats());
    client.client().set_receive_buffer(1024 * 1024);
    let (mut hints, mut ended) = (0, Vec::new());
    while ended.len() < REQUESTS {
        let frame = next_frame(&mut client);
        assert_eq!(frame.kind, frame::HEADERS);
        match frame.flags & flag::END_STREAM {
            0 => hints += 1,
            _ => ended.push(frame.stream),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, requests);
    assert!((1..REQUESTS).contains(&hints), "{hints} hints");
}

#[test]
fn passes_bodies_to_scripts_and_back_while_they_come() {
    let server = site()
        .script("echo.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec cat\n")
        .config(EVERY_CGI)
        .start();
    let mut client = server.connect_http2();
    // A body without a length would be stored first.
    let mut request = Http2Request::new("POST", "/echo.cgi", &[("content-length", "11")]);
    request.body = vec![0];
    let stream = client.open(&request).expect("it is open");
    for part in [&b"one"[..], b"two", b"three"] {
        client.send_frame(frame::DATA, 0, stream, part).expect("the server reads");
        let mut received = Vec::new();
        while received.len() < part.len() {
            let frame = next_frame(&mut client);
            assert_eq!(frame.stream, stream);
            if frame.kind == frame::DATA {
                received.extend_from_slice(&frame.payload);
            }
        }
        assert_eq!(received, part);
    }
    client.send_frame(frame::DATA, flag::END_STREAM, stream, &[]).expect("the server reads");
    while next_frame(&mut client).flags & flag::END_STREAM == 0 {}
}

#[test]
fn takes_only_as_much_of_a_body_as_is_read() {
    let server = site()
        .script("stuck.cgi", "#!/bin/sh\nexec sleep 60\n")
        .config(EVERY_CGI)
        .config("max_body = \"1GiB\"\n[http2]\nwindow = \"64KiB\"\nconnection_window = \"128KiB\"\n")
        .start();
    let mut client = server.connect_http2();
    let mut request = Http2Request::new("POST", "/stuck.cgi", &[("content-length", "100000000")]);
    request.body = vec![0];
    let stream = client.open(&request).expect("it is open");
    let part = vec![0; 16_384];
    let mut window = 65_535i64;
    let mut sent = 0;
    client.client().set_timeout(Duration::from_secs(1));
    loop {
        while window >= part.len() as i64 {
            client.send_frame(frame::DATA, 0, stream, &part).expect("the server reads");
            window -= part.len() as i64;
            sent += part.len();
        }
        match client.read_frame() {
            Ok(frame) if frame.kind == frame::WINDOW_UPDATE && frame.stream == stream => {
                window += i64::from(code(&frame, 0));
            }
            Ok(_) => {}
            Err(_) => break,
        }
        assert!(sent < 1 << 20, "the server takes more than the script reads");
    }
    // A pipe has 64 KiB, and the server one window.
    assert!(sent >= 64 * 1024, "{sent}");
    assert_eq!(server.connect_http2().get("/a.txt").status, 200);
}

#[test]
fn a_client_whose_other_streams_fill_the_window_of_the_connection_is_not_too_slow() {
    let server = site()
        .script("stuck.cgi", "#!/bin/sh\nexec sleep 60\n")
        .script("read.cgi", "#!/bin/sh\nbody=$(cat)\nprintf 'Content-Type: text/plain\\n\\n%s' \"$body\"\n")
        .config(EVERY_CGI)
        .config("max_body = \"1GiB\"\n[timeouts]\nbody = \"1s\"\n[http2]\nwindow = \"1MiB\"\nconnection_window = \"64KiB\"\n")
        .start();
    let mut client = server.connect_http2();
    let post = |path: &str, length: &str| {
        let mut request = Http2Request::new("POST", path, &[("content-length", length)]);
        request.body = vec![0];
        request
    };
    let stuck = [(); 2].map(|()| client.open(&post("/stuck.cgi", "100000000")).expect("it is open"));
    // Of the connection, and of the streams.
    let mut windows = BTreeMap::from([(0, 65_535), (stuck[0], 65_535), (stuck[1], 65_535)]);
    client.client().set_timeout(Duration::from_secs(1));
    loop {
        for stream in stuck {
            while let bytes @ 1.. = windows[&0].min(windows[&stream]).min(16_384) {
                client.send_frame(frame::DATA, 0, stream, &vec![0; bytes]).expect("the server reads");
                [0, stream].iter().for_each(|of| *windows.get_mut(of).expect("it is one of them") -= bytes);
            }
        }
        match client.read_frame() {
            Ok(frame) if frame.kind == frame::WINDOW_UPDATE => {
                *windows.entry(frame.stream).or_default() += code(&frame, 0) as usize;
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert_eq!(windows[&0], 0, "the window of the connection is full");
    let waiting = client.open(&post("/read.cgi", "2")).expect("it is open");
    for _ in 0..2 {
        client.read_frame().expect_err("nothing comes in a second");
    }
    client.client().set_timeout(TIMEOUT);
    client.send_frame(frame::RST_STREAM, 0, stuck[0], &[0, 0, 0, 8]).expect("the server reads");
    client.send_frame(frame::DATA, flag::END_STREAM, waiting, b"ok").expect("the server reads");
    let frames = std::iter::from_fn(|| Some(next_frame(&mut client)));
    let kinds =
        frames.filter(|frame| frame.stream == waiting).take(2).map(|frame| (frame.kind, frame.payload));
    let kinds: Vec<_> = kinds.collect();
    assert_eq!((kinds[0].0, kinds[0].1[0], &kinds[1].1[..]), (frame::HEADERS, 0x88, &b"ok"[..]));
}

#[test]
fn sends_a_large_file_through_small_windows() {
    let content = Random::new(5).bytes(200_000);
    let server = site().file("large", &content).start();
    let mut client = connect_with_window(&server, 1000);
    let stream = client.open(&Http2Request::get("/large")).expect("it is open");
    let (mut received, mut window) = (Vec::new(), 1000);
    loop {
        let frame = next_frame(&mut client);
        if frame.kind != frame::DATA {
            continue;
        }
        assert!(frame.payload.len() <= window, "more than the window");
        window -= frame.payload.len();
        received.extend_from_slice(&frame.payload);
        if frame.flags & flag::END_STREAM != 0 {
            break;
        }
        if window == 0 {
            window_update(&mut client, stream, 1500);
            window_update(&mut client, 0, 1500);
            window = 1500;
        }
    }
    assert!(received == content);
}

/// Requests `/urgent` with a priority, where a large response has filled the window of the connection, and receives all
/// of it before the rest of the large one. Returns its stream.
fn open_urgent(client: &mut Http2, priority: &str) -> u32 {
    let mut received = 0;
    while received < 65_535 {
        let frame = next_frame(client);
        received += if frame.kind == frame::DATA { frame.payload.len() } else { 0 };
    }
    let request = Http2Request::new("GET", "/urgent", &[("priority", priority)]);
    let urgent = client.open(&request).expect("it is open");
    while next_frame(client).stream != urgent {}
    window_update(client, 0, 1_000_000);
    let mut of_urgent = 0;
    while of_urgent < 40_000 {
        let frame = next_frame(client);
        assert_eq!((frame.kind, frame.stream), (frame::DATA, urgent), "the urgent one is first");
        of_urgent += frame.payload.len();
    }
    urgent
}

#[test]
fn an_urgent_response_overtakes_another() {
    let server = site().file("large", vec![b'x'; 4_000_000]).file("urgent", vec![b'y'; 40_000]).start();
    let mut client = connect_with_window(&server, 1 << 30);
    client.open(&Http2Request::new("GET", "/large", &[("priority", "u=7")])).expect("it is open");
    let urgent = open_urgent(&mut client, "u=0");
    assert_ne!(next_frame(&mut client).stream, urgent);
}

/// RFC 9218 §8: the priority of the request, changed by the field of its response.
#[test]
fn a_response_can_say_how_urgent_it_is() {
    let server = site()
        .file("large", vec![b'x'; 4_000_000])
        .file("urgent", vec![b'y'; 40_000])
        .config("[[route]]\npath = \"/urgent\"\nheaders = { Priority = \"u=0\" }\n")
        .start();
    let mut client = connect_with_window(&server, 1 << 30);
    client.open(&Http2Request::new("GET", "/large", &[("priority", "u=1")])).expect("it is open");
    open_urgent(&mut client, "u=7");
}

#[test]
fn names_the_error_of_a_client_and_counts_refused_streams() {
    let server = site()
        .script("slow.cgi", "#!/bin/sh\nexec sleep 60\n")
        .config(&format!("{EVERY_CGI}[http2]\nstreams = 1\n[log]\nlevel = \"info\"\n"))
        .start();
    let mut client = server.connect_http2();
    client.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    let refused = client.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    let frame = next_frame(&mut client);
    assert_eq!((frame.kind, frame.stream, code(&frame, 0)), (frame::RST_STREAM, refused, 7));
    assert_eq!(server.count("streams_refused"), 1);
    // DATA on a stream that was not opened.
    client.send_frame(frame::DATA, 0, 99, b"x").expect("the server reads");
    assert_eq!(goaway(&mut client), 1);
    server.wait_for_line("there is a frame on a stream that was not opened", TIMEOUT);
}

/// A client of HTTP/2 learns in its own protocol that there is no capacity, and that it can send its requests again.
#[test]
fn a_client_above_the_capacity_gets_goaway() {
    let config = "workers = 1\nlisten = [\"127.0.0.1:0 http2\"]\n[limits]\nconnections = 1\n[timeouts]\naccept = \"0s\"\n";
    let server = Site::new()
        .file("a.txt", "a")
        .script("slow.cgi", "#!/bin/sh\nexec sleep 60\n")
        .config(&format!("{config}{EVERY_CGI}"))
        .start();
    let mut busy = server.connect_http2();
    busy.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    assert!(wait_until(TIMEOUT, || server.count("scripts_running") == 1), "{}", server.stats());
    let mut late = server.connect_http2();
    late.open(&Http2Request::get("/a.txt")).expect("it is open");
    let last = loop {
        match late.read_frame() {
            Ok(frame) if frame.kind == frame::GOAWAY => break (code(&frame, 0), code(&frame, 4)),
            Ok(frame) => assert_eq!(frame.kind, frame::SETTINGS),
            Err(error) => panic!("no GOAWAY: {error}"),
        }
    };
    assert_eq!(last, (0, 0), "no stream was read, and it is no error");
    assert!(late.client().is_finished(), "closed without a reset");
    assert_eq!(server.count("rejected"), 1);
    // A client of HTTP/1 still gets a response that people can read.
    assert_eq!(Client::tcp(server.addr()).get("/a.txt").status, 503);
}

#[test]
fn a_reset_ends_the_script_of_its_stream() {
    let server = site()
        .script("slow.cgi", "#!/bin/sh\necho $$ > \"$DOCUMENT_ROOT/pid\"\nexec sleep 60\n")
        .config(EVERY_CGI)
        .start();
    let mut client = server.connect_http2();
    let stream = client.open(&Http2Request::get("/slow.cgi")).expect("it is open");
    let pid = || fs::read_to_string(server.root().join("pid")).ok()?.trim().parse::<u32>().ok();
    assert!(wait_until(TIMEOUT, || pid().is_some()), "the script starts");
    let pid = pid().expect("it has started");
    client.send_frame(frame::RST_STREAM, 0, stream, &8u32.to_be_bytes()).expect("the server reads");
    assert!(wait_until(TIMEOUT, || !runs(pid)), "the script still runs");
    assert_eq!(client.get("/a.txt").status, 200, "the connection goes on");
}

#[test]
fn a_reset_within_a_response_counts_as_abandoned_if_more_is_awaited() {
    let server = site()
        .script("slow.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbegun'\nexec sleep 60\n")
        .file("large", vec![b'x'; 200_000])
        .config(EVERY_CGI)
        .config("[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let mut client = connect_with_window(&server, 1000);
    // All of a file is there.
    for (path, abandoned) in [("/large", 0), ("/slow.cgi", 1)] {
        let stream = client.open(&Http2Request::get(path)).expect("it is open");
        while next_frame(&mut client).kind != frame::DATA {}
        client.send_frame(frame::RST_STREAM, 0, stream, &CANCEL.to_be_bytes()).expect("the server reads");
        server.wait_for_output(&format!("{path} stream reset by the client"), TIMEOUT);
        assert_eq!(server.count("abandoned"), abandoned, "{path}");
    }
}

/// Sends one frame, or a few, of a flood.
type Flood<'a> = dyn Fn(&mut Http2) -> Result<(), Http2Error> + 'a;

#[test]
fn floods_end_their_connection_and_no_other() {
    let server =
        site().script("slow.cgi", "#!/bin/sh\nexec sleep 60\n").config(EVERY_CGI).config(PATIENT).start();
    let mut other = server.connect_http2();
    let request = Http2Request::get("/slow.cgi");
    let floods: [(&str, &Flood<'_>); 5] = [
        ("PING", &|client| client.send_frame(frame::PING, 0, 0, &[0; 8])),
        ("SETTINGS", &|client| client.send_frame(frame::SETTINGS, 0, 0, &[])),
        ("rapid reset", &|client| {
            let stream = client.open(&request)?;
            client.send_frame(frame::RST_STREAM, 0, stream, &8u32.to_be_bytes())
        }),
        // The server resets the stream itself.
        ("made you reset", &|client| {
            let stream = client.open(&request)?;
            client.send_frame(frame::WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes())
        }),
        ("PRIORITY_UPDATE", &|client| client.send_frame(0x10, 0, 0, b"\0\0\0\x01u=1")),
    ];
    let mut rows = Rows::new();
    for (name, flood) in floods {
        let mut client = server.connect_http2();
        for _ in 0..FLOOD {
            flood(&mut client).expect("the server reads, or the kernel does");
        }
        rows.check(name, goaway(&mut client), ENHANCE_YOUR_CALM);
        rows.check(name, other.get("/a.txt").status, 200);
    }
}

#[test]
fn a_reload_finishes_the_streams_and_sends_goaway_twice() {
    let content = Random::new(6).bytes(2_000_000);
    let server = site().file("large", &content).start();
    let mut client = connect_with_window(&server, 1 << 30);
    client.open(&Http2Request::get("/large")).expect("it is open");
    let mut received = Vec::new();
    while received.len() < 65_535 {
        let frame = next_frame(&mut client);
        if frame.kind == frame::DATA {
            received.extend_from_slice(&frame.payload);
        }
    }
    server.reload();
    let first = next_frame(&mut client);
    assert_eq!((first.kind, code(&first, 0), code(&first, 4)), (frame::GOAWAY, 0x7fff_ffff, 0));
    let second = next_frame(&mut client);
    assert_eq!((second.kind, code(&second, 0), code(&second, 4)), (frame::GOAWAY, 1, 0));
    window_update(&mut client, 0, 1 << 30);
    loop {
        let frame = next_frame(&mut client);
        received.extend_from_slice(&frame.payload);
        if frame.flags & flag::END_STREAM != 0 {
            break;
        }
    }
    assert!(received == content);
    assert!(matches!(client.read_frame(), Err(Http2Error::Connection(_))), "the connection is closed");
    assert_eq!(server.connect_http2().get("/a.txt").status, 200);
}

/// What has come of each stream until the connection closes: its content, and how it has ended.
fn until_closed(client: &mut Http2) -> BTreeMap<u32, (Vec<u8>, &'static str)> {
    let mut streams = BTreeMap::<u32, (Vec<u8>, &str)>::new();
    while let Ok(frame) = client.read_frame() {
        let (content, end) = streams.entry(frame.stream).or_insert((Vec::new(), "cut"));
        match frame.kind {
            frame::DATA => content.extend_from_slice(&frame.payload),
            frame::RST_STREAM => *end = "reset",
            _ => {}
        }
        if matches!(frame.kind, frame::DATA | frame::HEADERS) && frame.flags & flag::END_STREAM != 0 {
            *end = "whole";
        }
    }
    streams.remove(&0);
    streams
}

#[test]
fn finishes_the_requests_of_a_client_that_has_half_closed() {
    let large = Random::new(4).bytes(3_000_000);
    let parts = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nfor i in 1 2 3 4; do sleep 0.4; printf $i; done\n";
    let listen = "listen = [\"127.0.0.1:0 http2\", \"127.0.0.2:0 tls\"]\n\
                  certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";
    let server = Site::new()
        .certificate()
        .config(listen)
        .file("a.txt", "a")
        .file("large", &large)
        .script("slow.cgi", "#!/bin/sh\nsleep 0.3\nprintf 'X-A: b\\n\\nslow'\n")
        .script("parts.cgi", parts)
        .script("echo.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\n'\ncat\n")
        .script("never.cgi", "#!/bin/sh\nexec sleep 100\n")
        .config(EVERY_CGI)
        .config(PATIENT)
        .config("[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let secure = server.tcp(1);
    let mut rows = Rows::new();
    for (name, client) in
        [("plain", Client::tcp(server.addr())), ("TLS", Client::tls(secure, &Tls::new().protocols(&["h2"])))]
    {
        let mut client = Http2::over(client).expect("the server accepts");
        for path in ["/large", "/slow.cgi", "/parts.cgi", "/a.txt", "/never.cgi"] {
            client.open(&Http2Request::get(path)).expect("it is open");
        }
        let mut cut = Http2Request::new("POST", "/echo.cgi", &[("content-length", "10")]);
        cut.body = vec![b'x'; 10];
        let cut = client.open(&cut).expect("it is open");
        client.send_frame(frame::DATA, 0, cut, b"xxx").expect("it is sent");
        client.client().half_close();
        let streams = until_closed(&mut client);
        let got = |stream: u32| streams.get(&stream).map(|(content, end)| (content.as_slice(), *end));
        for (stream, path, expected) in [
            (1, "/large", &large[..]),
            (3, "/slow.cgi", b"slow"),
            (5, "/parts.cgi", b"1234"),
            (7, "/a.txt", b"a"),
        ] {
            rows.holds(name, path, got(stream) == Some((expected, "whole")));
        }
        rows.check(format!("{name}: no response in time"), got(9), None);
        rows.check(format!("{name}: a request without its end"), got(cut).map(|(_, end)| end), Some("reset"));
    }
    let ended = |path: &str| server.stdout().matches(&format!("{path} client closed")).count();
    rows.holds("log", "both", wait_until(TIMEOUT, || ended("/never.cgi") == 2 && ended("/echo.cgi") == 2));
}

#[test]
fn a_reload_closes_idle_connections_with_goaway() {
    let server = site().start();
    let mut client = server.connect_http2();
    client.get("/a.txt");
    server.reload();
    assert_eq!(goaway(&mut client), 0);
    assert_eq!(goaway(&mut client), 0);
    assert!(matches!(client.read_frame(), Err(Http2Error::Connection(_))), "the connection is closed");
}

#[test]
fn the_last_request_of_a_connection_is_followed_by_goaway() {
    let server = site().config("[limits]\nrequests = 3\n").start();
    let mut client = server.connect_http2();
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    assert_eq!(goaway(&mut client), 0);
}

/// Requests of one packet, and those that wait for an application, count as they come.
#[test]
fn a_burst_has_no_more_responses_than_the_limit_of_requests() {
    let server = site()
        .script("slow.cgi", "#!/bin/sh\nsleep 0.3\nprintf 'Content-Type: text/plain\\n\\n'\n")
        .config(EVERY_CGI)
        .config("[limits]\nrequests = 3\n")
        .start();
    for path in ["/a.txt", "/slow.cgi"] {
        let mut client = server.connect_http2();
        let mut ended = Vec::new();
        for _ in 0..8 {
            _ = client.open(&Http2Request::get(path));
        }
        let mut last = None;
        while let Ok(frame) = client.read_frame() {
            match frame.kind {
                frame::GOAWAY => last = Some(code(&frame, 0)),
                frame::DATA | frame::HEADERS if frame.flags & flag::END_STREAM != 0 => {
                    ended.push(frame.stream);
                }
                _ => {}
            }
        }
        ended.sort_unstable();
        assert_eq!((ended, last), (vec![1, 3, 5], Some(5)), "{path}");
    }
}

#[test]
fn takes_heads_up_to_the_largest_limit_again_and_again() {
    let server = site().config("[limits]\nhead = \"1MiB\"\n").start();
    let mut client = server.connect_http2();
    let mut rows = Rows::new();
    for (name, length, rounds, status) in
        [("below the limit", 1_000_000, 20, 200), ("above it", 1_100_000, 3, 431)]
    {
        let value = "v".repeat(length);
        for round in 0..rounds {
            let request = Http2Request::new("GET", "/a.txt", &[("x-long", &value)]);
            let response = client.request(&request).map(|response| response.status);
            rows.check(format!("{name}, {round}"), response.map_err(|e| e.to_string()), Ok(status));
        }
    }
}

#[test]
fn a_head_far_above_the_limit_gets_431_and_a_line() {
    let server = site().config("[log]\naccess = \"stdout\"\n").start();
    let mut client = server.connect_http2();
    for (name, method, length) in [
        ("x-long", "GET", 50_000),
        ("x-long", "GET", 200_000),
        ("cookie", "HEAD", 250_000),
        ("x-long", "GET", 100_000),
    ] {
        let value = "v".repeat(length);
        let response = client.request(&Http2Request::new(method, "/a.txt", &[(name, &value)]));
        let response = response.unwrap_or_else(|error| panic!("{length}: {error}"));
        assert_eq!((response.status, response.body.is_empty()), (431, method == "HEAD"), "{length}");
        let line = server.wait_for_output("head-too-large", TIMEOUT);
        assert!(line.contains(" 431 "), "{line}");
    }
    assert_eq!(client.get("/none").status, 404, "the connection goes on");
    let value = "v".repeat(300_000);
    client.request(&Http2Request::new("GET", "/a.txt", &[("x-long", &value)])).expect_err("it is too long");
}

#[test]
fn streams_of_slow_clients_end_and_their_connection_goes_on() {
    let server = site()
        .file("large", vec![b'x'; 200_000])
        .script("read.cgi", "#!/bin/sh\ncat > /dev/null\nprintf 'Content-Type: text/plain\\n\\n'\n")
        .config(EVERY_CGI)
        .config("[timeouts]\nbody = \"1s\"\nwrite = \"1s\"\ndelay = 0\n[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let mut client = connect_with_window(&server, 1000);
    let mut request = Http2Request::new("POST", "/read.cgi", &[("content-length", "10")]);
    request.body = vec![0; 10];
    let slow = client.open(&request).expect("it is open");
    let stalled = client.open(&Http2Request::get("/large")).expect("it is open");
    let began = Instant::now();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let frame = next_frame(&mut client);
        if frame.kind == frame::RST_STREAM {
            ends.push((frame.stream, Some(code(&frame, 0))));
        } else if frame.flags & flag::END_STREAM != 0 {
            ends.push((frame.stream, None));
        }
    }
    assert!(began.elapsed() >= Duration::from_secs(1));
    ends.sort_unstable();
    // The first has got its response, and the other is no error of the server.
    assert_eq!(ends, [(slow, None), (stalled, Some(CANCEL))]);
    server.wait_for_output("/large client too slow", TIMEOUT);
    server.wait_for_output("/read.cgi request too slow", TIMEOUT);
    let next = client.open(&Http2Request::get("/a.txt")).expect("the connection goes on");
    while next_frame(&mut client).stream != next {}
}

#[test]
fn a_client_that_is_silent_within_its_body_ends_a_response_that_has_begun() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbegun\\n'\ncat > /dev/null\n";
    let server = site()
        .script("read.cgi", script)
        .config(EVERY_CGI)
        .config("[timeouts]\nbody = \"1s\"\ndelay = 0\n[log]\naccess = \"stdout\"\nfields = '$request_uri $ended'\n")
        .start();
    let mut client = server.connect_http2();
    let mut request = Http2Request::new("POST", "/read.cgi", &[("content-length", "10")]);
    request.body = vec![0; 10];
    let stream = client.open(&request).expect("it is open");
    client.send_frame(frame::DATA, 0, stream, b"1").expect("the server reads");
    let kinds = [(); 3].map(|()| next_frame(&mut client));
    assert_eq!(kinds.each_ref().map(|frame| frame.kind), [frame::HEADERS, frame::DATA, frame::RST_STREAM]);
    assert_eq!((kinds[1].payload.as_slice(), code(&kinds[2], 0)), (&b"begun\n"[..], CANCEL));
    server.wait_for_output("/read.cgi request too slow", TIMEOUT);
    assert_eq!(server.count("timeout_body"), 1, "{}", server.stats());
    let next = client.open(&Http2Request::get("/a.txt")).expect("the connection goes on");
    while next_frame(&mut client).stream != next {}
}

#[test]
fn an_idle_connection_that_is_closed_gets_goaway() {
    let mut rows = Rows::new();
    for (why, config) in
        [("the timeout", "[timeouts]\nidle = \"1s\"\n"), ("another client", "[limits]\nconnections = 1\n")]
    {
        let server = site().config("workers = 1\n").config(config).start();
        let mut client = server.connect_http2();
        client.get("/a.txt");
        // It waits for the place of one that has been idle for a second.
        let _other = (why == "another client").then(|| server.connect());
        let is_closed = || server.count("evicted") + server.count("timeout_idle") == 1;
        rows.check(why, wait_until(TIMEOUT, is_closed), true);
        let frame = next_frame(&mut client);
        rows.check(why, (frame.kind, code(&frame, 0), code(&frame, 4)), (frame::GOAWAY, 1, NO_ERROR));
        rows.check(why, client.client().is_finished(), true);
    }
}

#[test]
fn serves_many_connections_at_the_same_time() {
    let server = site().file("large", vec![b'x'; 500_000]).config(PATIENT).start();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.connect_http2();
                for _ in 0..5 {
                    assert_eq!(client.get("/large").body.len(), 500_000);
                    assert_eq!(client.get("/a.txt").text(), "a");
                }
            });
        }
    });
}
