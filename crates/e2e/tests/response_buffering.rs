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
use e2e::{Client, Response, Rows, Server, Site, SmallDisk, TIMEOUT, wait_until};

/// More than the kernel buffers between an upstream and a client that takes nothing (tcp(7), `tcp_wmem` and
/// `tcp_rmem`).
const LARGE: usize = 16 << 20;
const PART: usize = 64 * 1024;

/// Content in which no two parts are alike.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut content = Vec::with_capacity(LARGE);
    for number in 0..LARGE as u32 / 4 {
        content.extend_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    }
    content
});

/// Responds to the requests of a connection. `/large` is `LARGE`, and everything else is short.
fn serve(mut stream: TcpStream, mut head: String) -> io::Result<()> {
    loop {
        let body = if head.contains("/large") { &CONTENT[..] } else { &CONTENT[..5] };
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
        if chunks {
            stream.write_all(b"0\r\nX-Sum: 7\r\n\r\n")?;
        }
        head = read_head(&mut stream)?;
    }
}

/// A site of one worker. Its upstream has one connection, for which requests wait three seconds.
fn site(route: &str, more: &str) -> Site {
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
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{}\"\nconnections = 1\nwait = \"3s\"\n\
         [timeouts]\nwrite = \"10m\"\n[scripts]\nspool = \"spool\"\nqueue = 0\n{more}",
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

/// The files of responses that the server has open.
fn open_files(server: &Server) -> usize {
    let spool = server.home().join("spool");
    let open = fs::read_dir(format!("/proc/{}/fd", server.serving_pid())).expect("it runs");
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
fn a_client_of_http2_that_keeps_up_has_nothing_read_ahead() {
    let server = site("", "").every_protocol().start();
    let mut client = Http2::over(Client::tcp(server.tcp(2))).expect("it accepts");
    for _ in 0..10 {
        assert_eq!(client.get("/short-chunked").body, CONTENT[..5]);
    }
    assert_eq!(server.count("responses_buffered"), 0);
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
    let mut taken = Vec::new();
    while taken.len() < LARGE {
        // Behind the first second the rest waits in a file, which the client reaches several times.
        if taken.len() % (2 << 20) < PART {
            sleep(Duration::from_millis(300));
        }
        taken.extend(slow.read_some().expect("more comes"));
    }
    let head = taken.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
    taken.extend(slow.read_exactly(LARGE + head - taken.len()).expect("the rest"));
    assert!(taken[head..] == *CONTENT);
}

#[test]
fn a_response_that_does_not_fit_into_the_files_waits_for_its_client() {
    // Responses may have half of it.
    let server = site("", "spool_bytes = \"4MiB\"\n").start();
    let mut slow = server.begin_download("/large");
    assert!(!is_free(&server, "/short"));
    assert!(is_whole(&slow.read_response()));
    assert!(becomes_free(&server, "/short"));
}

#[test]
fn files_of_other_responses_leave_no_space_until_their_clients_have_taken_them() {
    let server = site("", "spool_bytes = \"36MiB\"\n").start();
    let mut first = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"));
    let mut second = server.begin_download("/large");
    let line = server.wait_for_line("no space in", TIMEOUT);
    assert!(
        line.contains("for a response, which waits for its client: others use the 18874368 bytes of all"),
        "{line}"
    );
    assert!(!is_free(&server, "/short"));
    assert!(is_whole(&first.read_response()));
    assert!(is_whole(&second.read_response()));
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0), "the files are closed");
    let mut third = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"), "the space is given back");
    assert!(is_whole(&third.read_response()));
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
fn the_file_of_a_client_that_leaves_is_closed() {
    let server = site("", "").start();
    let slow = server.begin_download("/large");
    assert!(becomes_free(&server, "/short"));
    assert_eq!(open_files(&server), 1);
    slow.reset();
    assert!(wait_until(TIMEOUT, || open_files(&server) == 0));
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
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
    client.send(&*CONTENT);
    received.recv_timeout(TIMEOUT).expect("the upstream has all of the body");
    assert!(is_whole(&client.read_response()));
}
