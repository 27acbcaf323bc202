//! Every wrong response is counted once, under the right fault.

mod common;

use std::time::Duration;

use common::{Action, Request, Server, answer, faults, ok, run};

/// Runs a script over one connection and checks that the faults are as expected, and all other requests right.
fn check(flags: &str, requests: u64, script: fn(&Request) -> Action, expected: &[(&'static str, u64)]) {
    let server = Server::start(script);
    let run = run(&format!("-c 1 -n {requests} {flags} {}", server.url("/x")));
    assert_eq!(faults(&run), expected);
    let failed: u64 = expected.iter().map(|(_, count)| count).sum();
    let measured = &run.measured;
    assert_eq!((measured.done, measured.started), (requests - failed, requests), "{expected:?}");
    assert_eq!(measured.total.count(), measured.done);
}

fn every_tenth(request: &Request) -> bool {
    request.number % 10 == 9
}

#[test]
fn counts_no_failures_for_a_right_server() {
    check("", 50, |_| ok("hello"), &[]);
    check("--check checksum", 50, |_| ok("hello"), &[]);
}

#[test]
fn a_status_above_399_is_a_failure() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Send(answer("500 Internal Server Error", b"sorry")),
        false => ok("hello"),
    };
    check("", 50, script, &[("status", 5)]);
    check("--status 500", 50, script, &[("status", 45)]);
    check("--status 200,500", 50, script, &[]);
}

#[test]
fn another_length_is_a_failure_with_check_length() {
    let script = |request: &Request| if every_tenth(request) { ok("hell") } else { ok("hello") };
    check("", 50, script, &[]);
    check("--check length", 50, script, &[("wrong_length", 5)]);
}

#[test]
fn other_bytes_are_a_failure_with_check_checksum() {
    let script = |request: &Request| if every_tenth(request) { ok("jello") } else { ok("hello") };
    check("--check length", 50, script, &[]);
    check("--check checksum", 50, script, &[("wrong_body", 5)]);
}

#[test]
fn a_body_that_ends_early_is_a_failure() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("short_body", 5)]);
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Reset(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("short_body", 5)]);
}

#[test]
fn a_body_longer_than_content_length_is_a_failure() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("wrong_length", 5)]);
}

#[test]
fn a_connection_closed_without_a_response_is_a_failure() {
    let reset =
        |request: &Request| if every_tenth(request) { Action::Reset(Vec::new()) } else { ok("hello") };
    check("", 50, reset, &[("reset", 5)]);
    let closed =
        |request: &Request| if every_tenth(request) { Action::Last(Vec::new()) } else { ok("hello") };
    check("", 50, closed, &[("reset", 5)]);
}

#[test]
fn a_server_that_never_responds_times_out() {
    let script = |request: &Request| if every_tenth(request) { Action::Silence } else { ok("hello") };
    check("--timeout 2s", 20, script, &[("timeout", 2)]);
}

#[test]
fn a_slow_response_within_the_timeout_is_right() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Wait(Duration::from_millis(200), answer("200 OK", b"hello")),
        false => ok("hello"),
    };
    let server = Server::start(script);
    let run = run(&format!("-c 1 -n 20 --timeout 2 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (20, vec![]));
    assert!(run.measured.total.longest() >= 200_000);
    assert!(run.measured.first_byte.longest() >= 200_000);
}

#[test]
fn a_response_that_is_not_http_is_malformed() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Last(b"SMTP ready\r\n\r\n".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("malformed", 5)]);
}

#[test]
fn gives_up_when_the_first_connection_is_refused() {
    // Bound, so that no other process gets the port, and not listening.
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = std::net::SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    for flags in ["-c 1 -n 4", "-c 50 -n 1M -t 4", "-c 4 -z 1h --rate 10 -t 2"] {
        let words = format!("{flags} http://{address}/");
        let why = common::try_run(&words).map(|_| ()).unwrap_err();
        let expected = format!("{address} refuses connections; start the server, or correct the URL");
        assert_eq!(why, expected, "{words}");
    }
    let folder = common::folder("unix");
    let words = format!("-c 4 -n 40 --unix {}/missing.sock http://h/", folder.display());
    let why = common::try_run(&words).map(|_| ()).unwrap_err();
    assert!(why.contains("missing.sock refuses connections"), "{why}");
}

#[test]
fn counts_refusals_after_the_first_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(&mut stream, answer).unwrap();
    });
    let run = run(&format!("-c 1 -n 4 http://{address}/"));
    server.join().unwrap();
    assert_eq!((run.measured.done, faults(&run)), (1, vec![("refused", 3)]));
}

#[test]
fn names_the_url_of_a_wrong_response() {
    let server = Server::start(|request| match request.line.contains("/2") {
        true => Action::Send(answer("404 Not Found", b"")),
        false => ok("hello"),
    });
    let run = run(&format!("-c 2 -n 30 --order sequence -t 1 {}", server.url("/{1..3}")));
    let wrong: Vec<(&str, u64)> =
        run.measured.wrong.iter().map(|(url, wrong)| (url.as_str(), wrong.count)).collect();
    assert_eq!(wrong, [(server.url("/2").as_str(), 10)]);
    let statuses: Vec<(u16, u64)> = run.measured.statuses.iter().collect();
    assert_eq!(statuses, [(200, 20), (404, 10)]);
}

#[test]
fn verifies_bodies_by_folder_and_by_manifest() {
    let folder = common::folder("reference");
    std::fs::write(folder.join("a.html"), "hello").unwrap();
    let sum = ring::digest::digest(&ring::digest::SHA256, b"hello");
    let hex: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(folder.join("SHA256SUMS"), format!("{hex}  a.html\n")).unwrap();
    for reference in
        [format!("--folder {}", folder.display()), format!("--manifest {}/SHA256SUMS", folder.display())]
    {
        let server = Server::start(|request| if every_tenth(request) { ok("jello") } else { ok("hello") });
        let run = run(&format!("-c 3 -n 50 {reference} {}", server.url("/a.html")));
        assert_eq!(faults(&run), [("wrong_body", 5)], "{reference}");
    }
}
