//! Responses of scripts and upstreams to clients that are slower: the upstream is soon free for others, within bounds,
//! and the client gets each byte in its place.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use e2e::http2::{Http2, Http2Request, flag, frame};
use e2e::upstream::{read_head, read_request, upstream};
use e2e::{Client, Response, Rows, Server, Signal, Site, SmallDisk, TIMEOUT, signal_process, wait_until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// More than the kernel buffers between an upstream and a client that takes nothing (tcp(7), `tcp_wmem` and
/// `tcp_rmem`).
const LARGE: usize = 16 << 20;
const PART: usize = 64 * 1024;
/// The longest time until more comes. A client whose receive buffer became small when it was connected has dropped
/// packets, and the kernel sends them again ever later (tcp(7), `tcp_retries2`).
const LONGEST: Duration = Duration::from_secs(60);

/// Content in which no two parts are alike.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut content = Vec::with_capacity(LARGE);
    for number in 0..LARGE as u32 / 4 {
        content.extend_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    }
    content
});

/// With which a page begins.
const PAGE: &[u8] = b"<!--#include virtual=\"/included.bin\" -->";

/// Responds to the requests of a connection. `/large` is `LARGE`, `/half` is half of it, and everything else is short.
fn serve(mut stream: TcpStream, mut head: String) -> io::Result<()> {
    loop {
        let length = if head.contains("/large") { LARGE } else { 5 };
        let body = &CONTENT[..if head.contains("/half") { LARGE / 2 } else { length }];
        let (mut fields, mut chunks) = (format!("Content-Length: {}\r\n", body.len()), false);
        if head.contains("unbuffered") {
            fields += "X-Accel-Buffering: no\r\n";
        }
        if head.contains("chunked") {
            (fields, chunks) = ("Transfer-Encoding: chunked\r\n".to_owned(), true);
        }
        if head.contains("cached") {
            fields += "Cache-Control: max-age=60\r\n";
        }
        if head.contains("text") {
            fields += "Content-Type: text/plain\r\n";
        }
        if head.contains("page") {
            fields += "Content-Type: text/html\r\n";
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes())?;
            stream.write_all(PAGE)?;
            stream.write_all(&body[PAGE.len()..])?;
            head = read_head(&mut stream)?;
            continue;
        }
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes())?;
        let sent = if head.contains("incomplete") { &body[..LARGE - 1] } else { body };
        for part in sent.chunks(PART) {
            if chunks {
                write!(stream, "{:x}\r\n", part.len())?;
            }
            stream.write_all(part)?;
            if chunks {
                stream.write_all(b"\r\n")?;
            }
        }
        if sent.len() < body.len() {
            return Ok(());
        }
        if head.contains("endless") {
            // Until the server closes.
            return stream.read(&mut [0]).map(drop);
        }
        if chunks {
            stream.write_all(b"0\r\nX-Sum: 7\r\n\r\n")?;
        }
        head = read_head(&mut stream)?;
    }
}

/// A site of one worker. Its upstream has one connection, for which requests wait three seconds.
fn site(route: &str, more: &str) -> Site {
    site_of(1, route, more)
}

/// As `site`, of which the upstream has so many connections.
fn site_of(connections: usize, route: &str, more: &str) -> Site {
    site_with("10m", connections, route, more)
}

/// As `site_of`. A client that takes nothing for so long is disconnected.
fn site_with(write: &str, connections: usize, route: &str, more: &str) -> Site {
    let address = upstream(serve);
    let site = Site::new()
        .file_beside_root("spool/none", "")
        .script("large.cgi", format!("#!/bin/sh\nprintf 'X-A: b\\n\\n'; exec head -c {LARGE} ../content\n"))
        .script("short.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\nshort'\n")
        .file_beside_root("content", &*CONTENT);
    fs::set_permissions(site.home().join("spool"), Permissions::from_mode(0o777)).unwrap();
    site.config(&format!(
        "workers = 1\n[[route]]\npath = \"/\"\napplication = \"app\"\n{route}\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\nroot = \"www\"\nscript_processes = 1\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{}\"\nconnections = {connections}\nwait = \"3s\"\n\
         [timeouts]\nwrite = \"{write}\"\n[scripts]\nspool = \"spool\"\nqueue = 0\n{more}",
        address.trim_start_matches("http://")
    ))
}

/// Whether another client gets a response, while the one before has taken nothing of a large one.
fn is_free(server: &Server, path: &str) -> bool {
    match server.get(path).status {
        200 => true,
        503 => false,
        status => panic!("{path}: {status}\n{}", server.stderr()),
    }
}

/// The same, sooner or later.
fn becomes_free(server: &Server, path: &str) -> bool {
    wait_until(TIMEOUT, || is_free(server, path))
}

fn is_whole(response: &Response) -> bool {
    response.body == *CONTENT
}

/// The length of the head, and what was read with it.
fn read_past_head(client: &mut Client) -> (usize, Vec<u8>) {
    let mut taken = Vec::new();
    loop {
        taken.extend(client.read_some().expect("more comes"));
        if let Some(end) = taken.windows(4).position(|end| end == b"\r\n\r\n") {
            return (end + 4, taken);
        }
    }
}

/// The files of responses that the server has open.
fn open_files(server: &Server) -> usize {
    files_of(server, server.serving_pid())
}

/// The same, of a process that may have ended.
fn files_of(server: &Server, process: u32) -> usize {
    let spool = server.home().join("spool");
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
    let targets = open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(&spool)).count()
}

#[test]
fn a_client_that_takes_nothing_does_not_occupy_an_upstream() {
    let server = site("", "").start();
    let mut rows = Rows::new();
    for path in ["/large", "/large-text", "/large-cached"] {
        let mut slow = server.begin_download(path);
        rows.check(path, becomes_free(&server, "/short"), true);
        let response = slow.read_response();
        rows.check(path, is_whole(&response), true);
        rows.check(path, slow.get("/short").status, 200);
    }
    let mut slow = server.begin_download("/large.cgi");
    rows.check("a script", becomes_free(&server, "/short.cgi"), true);
    rows.check("a script", is_whole(&slow.read_response()), true);
    rows.check("statistics", server.count("responses_buffered"), 4);
}

#[test]
fn a_client_of_http2_whose_window_is_full_does_not_occupy_an_upstream() {
    let server = site("", "").every_protocol().start();
    // Without larger windows.
    let mut client = Http2::with(Client::tcp(server.tcp(2)), &[], &[]).expect("it accepts");
    let stream = client.open(&Http2Request::get("/large-chunked")).expect("it is open");
    assert!(becomes_free(&server, "/short"), "{}", server.stderr());
    let (mut body, mut trailers) = (Vec::new(), 0);
    loop {
        let next = client.next_frame_of(stream);
        match next.kind {
            frame::DATA => {
                let taken = (next.payload.len() as u32).to_be_bytes();
                body.extend(next.payload);
                for stream in [0, stream] {
                    client.send_frame(frame::WINDOW_UPDATE, 0, stream, &taken).expect("it is open");
                }
            }
            frame::HEADERS => trailers += usize::from(!body.is_empty()),
            kind => panic!("a frame of kind {kind}"),
        }
        if next.flags & flag::END_STREAM != 0 {
            break;
        }
    }
    assert!(body == *CONTENT, "{} bytes", body.len());
    assert_eq!(trailers, 1, "the fields behind the content");
}

#[test]
fn a_client_whose_speed_is_limited_does_not_occupy_an_upstream() {
    let server = site("", "[[limit]]\npaths = [\"/large\"]\ndownload = \"1MiB/s\"\n").start();
    let mut slow = server.connect();
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(slow.read_exactly(PART).expect("it begins").len(), PART);
    assert!(becomes_free(&server, "/short.cgi"));
    assert!(becomes_free(&server, "/short"), "{}", server.stderr());
}

#[test]
fn a_response_is_read_as_the_client_takes_it_where_the_configuration_or_the_upstream_says_so() {
    let mut rows = Rows::new();
    for (route, more, path) in [
        ("response_buffering = false", "", "/large"),
        ("", "[limits]\nbuffered_responses = 0\n", "/large"),
        ("", "", "/large-unbuffered"),
    ] {
        let server = site(route, more).start();
        let mut slow = server.begin_download(path);
        rows.check(format!("{route}{more}{path}"), is_free(&server, "/short"), false);
        rows.check(format!("{route}{more}{path}"), is_whole(&slow.read_response()), true);
        rows.check(format!("{route}{more}{path}"), becomes_free(&server, "/short"), true);
    }
}

#[test]
fn a_client_that_stops_and_goes_on_gets_each_byte_in_its_place() {
    let server = site("", "").start();
    let mut slow = server.begin_download("/large");
    let (head, mut taken) = read_past_head(&mut slow);
    while taken.len() < LARGE {
        // Behind the first second the rest waits in a file, which the client reaches several times.
        if taken.len() % (2 << 20) < PART {
            sleep(Duration::from_millis(300));
        }
        taken.extend(slow.read_some().expect("more comes"));
    }
    taken.extend(slow.read_exactly(LARGE + head - taken.len()).expect("the rest"));
    assert!(taken[head..] == *CONTENT);
}

#[test]
fn a_response_that_does_not_fit_into_the_files_waits_for_its_client() {
    // Responses may have half of it.
    let server = site("", "spool_bytes = \"4MiB\"\n").start();
    let mut rows = Rows::new();
    // A part of a response whose length is known would not free the upstream.
    for (path, files) in [("/large", 0), ("/large-chunked", 1)] {
        let mut slow = server.begin_download(path);
        rows.check(path, is_free(&server, "/short"), false);
        rows.check(path, open_files(&server), files);
        rows.check(path, is_whole(&slow.read_response()), true);
        rows.check(path, becomes_free(&server, "/short"), true);
    }
}

#[test]
fn a_client_that_catches_up_with_an_endless_response_leaves_its_place_to_others() {
    let server = site_of(2, "", "[limits]\nbuffered_responses = 1\n").start();
    let mut endless = server.connect();
    endless.set_receive_buffer(16 * 1024);
    // Which gets the content as it is.
    endless.send("GET /large-chunked-endless HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(wait_until(TIMEOUT, || open_files(&server) == 1), "{}", server.stderr());
    let (head, taken) = read_past_head(&mut endless);
    let rest = endless.read_exactly(LARGE - (taken.len() - head)).expect("the rest");
    assert!([&taken[head..], &rest].concat() == *CONTENT);
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0), "its file is closed");
    let mut slow = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"), "{}", server.stderr());
    assert!(is_whole(&slow.read_response()));
}

#[test]
fn a_client_of_http2_that_keeps_up_has_nothing_read_ahead() {
    let server = site("", "").every_protocol().start();
    let mut client = Http2::over(Client::tcp(server.tcp(2))).expect("it accepts");
    for _ in 0..10 {
        assert_eq!(client.get("/short-chunked").body, CONTENT[..5]);
    }
    assert_eq!(server.count("responses_buffered"), 0);
}

#[test]
fn streams_of_one_connection_go_on_while_others_wait_for_their_windows() {
    let server = site_of(8, "", "").every_protocol().start();
    let mut client = Http2::with(Client::tcp(server.tcp(2)), &[], &[]).expect("it accepts");
    let stalled: Vec<u32> = (0..4).map(|_| client.open(&Http2Request::get("/large")).unwrap()).collect();
    let mut bodies: Vec<Vec<u8>> = vec![Vec::new(); 4];
    let mut read = |client: &mut Http2, grants: &dyn Fn(u32) -> bool, until: &dyn Fn(&[Vec<u8>]) -> bool| {
        while !until(&bodies) {
            let next = client.read_frame().expect("another frame");
            if next.kind != frame::DATA || next.payload.is_empty() {
                continue;
            }
            let at = stalled.iter().position(|stream| *stream == next.stream).expect("it is open");
            let taken = (next.payload.len() as u32).to_be_bytes();
            bodies[at].extend(next.payload);
            client.send_frame(frame::WINDOW_UPDATE, 0, 0, &taken).expect("it is open");
            if grants(next.stream) {
                client.send_frame(frame::WINDOW_UPDATE, 0, next.stream, &taken).expect("it is open");
            }
        }
    };
    let last = stalled[3];
    read(&mut client, &|stream| stream == last, &|bodies| bodies[3].len() == LARGE);
    assert!(wait_until(TIMEOUT, || open_files(&server) == 3), "the others wait in files");
    for stream in &stalled[..3] {
        client.send_frame(frame::WINDOW_UPDATE, 0, *stream, &(LARGE as u32).to_be_bytes()).unwrap();
    }
    read(&mut client, &|_| false, &|bodies| bodies.iter().all(|body| body.len() == LARGE));
    assert!(bodies.iter().all(|body| *body == *CONTENT));
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0), "the files are closed");
}

#[test]
fn files_of_other_responses_leave_no_space_until_their_clients_have_taken_them() {
    let server = site("", "spool_bytes = \"36MiB\"\n").start();
    let mut first = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"));
    let mut second = server.begin_download("/large");
    let line = server.wait_for_line("no space in", TIMEOUT);
    assert!(
        line.contains(
            "for a response, which waits for its client: others use too much of the 18874368 bytes of all"
        ),
        "{line}"
    );
    assert!(!is_free(&server, "/short"));
    assert_eq!(open_files(&server), 1, "a file without bytes is closed");
    assert!(is_whole(&first.read_response()));
    assert!(is_whole(&second.read_response()));
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0), "the files are closed");
    let mut third = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"), "the space is given back");
    assert!(is_whole(&third.read_response()));
}

#[test]
fn an_endless_response_leaves_as_much_space_as_it_takes() {
    // Responses have half of it.
    let server = site_of(2, "", "spool_bytes = \"32MiB\"\n").start();
    let _endless = server.begin_download("/large-chunked-endless");
    assert!(wait_until(TIMEOUT, || open_files(&server) == 1), "{}", server.stderr());
    let mut other = server.begin_download("/half");
    assert!(becomes_free(&server, "/short"), "{}", server.stderr());
    assert!(other.read_response().body == CONTENT[..LARGE / 2]);
}

#[test]
fn the_first_of_many_responses_that_begin_together_has_space_for_all_of_it() {
    // For one.
    let server = site_of(3, "", "spool_bytes = \"36MiB\"\n").start();
    let slow: Vec<_> = (0..3).map(|_| server.begin_download("/large")).collect();
    assert!(becomes_free(&server, "/short"), "none of the upstream's connections is free");
    for mut client in slow {
        client.set_timeout(LONGEST);
        assert!(is_whole(&client.read_response()));
    }
}

#[test]
fn a_response_waits_for_its_client_while_a_mounted_disk_is_full() {
    let site = site("", "");
    let spool = site.home().join("spool");
    fs::remove_file(spool.join("none")).unwrap();
    let _disk = SmallDisk::mount(&spool, "size=1m,mode=777");
    let server = site.start();
    let mut slow = server.begin_download("/large");
    let line = server.wait_for_line("cannot write a response, which waits for its client", TIMEOUT);
    assert!(line.contains("free space there, or set `spool` in [scripts]"), "{line}");
    assert!(!is_free(&server, "/short"));
    assert!(is_whole(&slow.read_response()));
}

#[test]
fn a_response_waits_for_its_client_where_no_file_can_be_made() {
    let site = site("", "");
    let server = site.start();
    fs::remove_dir_all(server.home().join("spool")).unwrap();
    let mut slow = server.begin_download("/large");
    let line = server.wait_for_line("cannot make a file in", TIMEOUT);
    assert!(line.contains("for a response, which waits for its client: No such file or directory"), "{line}");
    assert!(is_whole(&slow.read_response()));
}

#[test]
fn a_response_that_breaks_off_behind_its_client_is_incomplete_for_it() {
    let server = site("", "").start();
    let mut slow = server.begin_download("/large-incomplete");
    server.wait_for_line("is incomplete: it wrote less than its Content-Length", TIMEOUT);
    let error = slow.try_read_response().expect_err("a byte is missing").to_string();
    assert!(error.starts_with("closed after") || error == "reset", "{error}");
}

#[test]
fn a_file_that_finds_no_descriptor_is_reported_at_once() {
    let server = site_of(2, "", "").start();
    let mut slow = server.connect();
    slow.set_receive_buffer(16 * 1024);
    // From now on, the request needs no other descriptor.
    assert_eq!(slow.get("/short").status, 200);
    let process = Pid::from_raw(server.serving_pid() as i32);
    let before = getrlimit(Resource::Nofile);
    let limit = |current| Rlimit { current: Some(current), maximum: before.maximum };
    prlimit(process, Resource::Nofile, limit(3)).expect("it is ours");
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_line("for a response, which waits for its client: Too many open files", TIMEOUT);
    prlimit(process, Resource::Nofile, limit(1024)).expect("it is ours");
    assert!(is_whole(&slow.read_response()));
    let mut slow = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"), "files are opened again");
    assert!(is_whole(&slow.read_response()));
}

#[test]
fn responses_in_files_are_sent_to_their_end_whatever_becomes_of_the_server() {
    type Change = fn(&Server);
    let changes: [(&str, Change); 4] = [
        ("it is left alone", |_| {}),
        ("reload", Server::reload),
        ("the spawner ends", |server| signal_process(server.processes("spawner")[0], Signal::KILL)),
        ("SIGTERM", |server| server.signal(Signal::TERM)),
    ];
    let mut rows = Rows::new();
    for (what, change) in changes {
        let server = site_of(3, "", "").start();
        let mut in_file = server.begin_download("/large");
        let mut limited = server.begin_download("/large-chunked");
        rows.check(what, wait_until(TIMEOUT, || open_files(&server) == 2), true);
        let mut late = server.begin_download("/large");
        let process = server.serving_pid();
        change(&server);
        for client in [&mut in_file, &mut limited, &mut late] {
            rows.check(what, client.try_read_response().is_ok_and(|response| is_whole(&response)), true);
        }
        drop((in_file, limited, late));
        rows.check(what, wait_until(TIMEOUT, || files_of(&server, process) == 0), true);
    }
}

#[test]
fn a_client_that_takes_nothing_for_too_long_is_disconnected_although_its_response_waits_in_a_file() {
    let server = site_with("3s", 1, "", "").start();
    let mut slow = server.begin_download("/large");
    assert!(wait_until(TIMEOUT, || open_files(&server) == 1), "{}", server.stderr());
    assert!(wait_until(TIMEOUT, || server.count("timeout_write") == 1));
    assert_eq!(open_files(&server), 0);
    assert!(slow.try_read_response().is_err());
}

#[test]
fn the_file_of_a_client_that_leaves_is_closed() {
    let server = site("", "").start();
    let slow = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"));
    assert_eq!(open_files(&server), 1);
    slow.reset();
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0));
}

#[test]
fn a_page_does_not_occupy_its_upstream_while_a_client_takes_what_it_includes() {
    let route = "includes = [\"ssi\"]\n[[route]]\npath = \"/included.bin\"\nroot = \"www\"\n";
    let site = site(route, "[limits]\ninclude_bytes = \"64MiB\"\n");
    let server = site.file("included.bin", &*CONTENT).start();
    let mut slow = server.begin_download("/large-page");
    assert!(becomes_free(&server, "/short"), "{}", server.stderr());
    let response = slow.read_response();
    assert_eq!(response.body.len(), 2 * LARGE - PAGE.len());
    assert!(response.body == [&CONTENT, &CONTENT[PAGE.len()..]].concat());
}

/// Denies all requests with so many bytes, whose number it does not announce. It has one connection.
fn guarded(bytes: usize, more: &str) -> Site {
    let address = upstream(move |mut stream, _| {
        loop {
            write!(stream, "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n")?;
            stream.write_all(&CONTENT[..bytes])?;
            stream.write_all(b"\r\n0\r\n\r\n")?;
            read_head(&mut stream)?;
        }
    });
    Site::new().every_protocol().config(&format!(
        "workers = 1\nauthorizer = \"guard\"\nauthorizer_path = \"/verify\"\n[[application]]\nname = \"guard\"\n\
         protocol = \"http\"\naddress = \"{}\"\nconnections = 1\nwait = \"3s\"\n[timeouts]\nwrite = \"10m\"\n{more}",
        address.trim_start_matches("http://")
    ))
}

#[test]
fn a_client_that_takes_nothing_of_a_denial_does_not_occupy_the_authorizer() {
    let mut rows = Rows::new();
    let with_scripts = "[[route]]\npath = \"*.cgi\"\ncgi = true\nauthorizer = false\n";
    for (bytes, more) in [(5, ""), (32 * 1024, ""), (5, with_scripts), (LARGE, with_scripts)] {
        let server = guarded(bytes, more).start();
        // The window of each stream is 0 (RFC 9113 §6.5.2).
        let mut slow = Http2::with(Client::tcp(server.tcp(2)), &[0, 4, 0, 0, 0, 0], &[]).expect("it accepts");
        let stream = slow.open(&Http2Request::get("/a")).expect("it is open");
        rows.check(more, slow.next_frame_of(stream).kind, frame::HEADERS);
        let is_free = wait_until(TIMEOUT, || server.connect().get("/b").status == 403);
        rows.check(format!("{bytes} {more}"), is_free, true);
        slow.send_frame(frame::WINDOW_UPDATE, 0, stream, &(LARGE as u32).to_be_bytes()).expect("it is open");
        slow.send_frame(frame::WINDOW_UPDATE, 0, 0, &(LARGE as u32).to_be_bytes()).expect("it is open");
        let mut taken = Vec::new();
        while taken.len() < bytes {
            taken.extend(slow.next_frame_of(stream).payload);
        }
        rows.check(format!("{bytes} {more}"), taken == CONTENT[..bytes], true);
    }
}

/// The client sends its body before it reads.
#[test]
fn the_body_of_a_request_passes_while_its_response_is_read_ahead() {
    let (sender, received) = channel();
    let address = upstream(move |mut stream, head| {
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes())?;
        let (first, last) = CONTENT.split_at(LARGE - 1);
        stream.write_all(first)?;
        // The head has been read.
        read_request(&mut head.as_bytes().chain(&mut stream))?;
        _ = sender.send(());
        stream.write_all(last)
    });
    let server = Site::new()
        .config(&format!(
            "workers = 1\nmax_body = \"64MiB\"\n[[route]]\npath = \"/\"\nproxy = \"{address}\"\n"
        ))
        .start();
    let mut client = server.connect();
    client.set_receive_buffer(16 * 1024);
    client.set_timeout(LONGEST);
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
    client.send(&*CONTENT);
    received.recv_timeout(TIMEOUT).expect("the upstream has all of the body");
    assert!(is_whole(&client.read_response()));
}
