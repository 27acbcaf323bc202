//! A server that lies is found out, and every lie is counted once and under its own name.

mod common;

use std::time::Duration;

use common::{Action, Request, Server, answer, faults, ok, run};

/// One connection and a script: what is counted. `None`: the kinds of failures are as given, and all else is
/// right.
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
fn an_honest_server_has_no_failures() {
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
fn another_length_is_a_failure_if_lengths_are_checked() {
    let script = |request: &Request| if every_tenth(request) { ok("hell") } else { ok("hello") };
    check("", 50, script, &[]);
    check("--check length", 50, script, &[("wrong_length", 5)]);
}

#[test]
fn other_bytes_are_a_failure_if_sums_are_checked() {
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
fn a_body_that_is_longer_than_announced_is_a_failure() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("wrong_length", 5)]);
}

#[test]
fn a_connection_that_is_lost_is_a_failure() {
    let reset =
        |request: &Request| if every_tenth(request) { Action::Reset(Vec::new()) } else { ok("hello") };
    check("", 50, reset, &[("reset", 5)]);
    let closed =
        |request: &Request| if every_tenth(request) { Action::Last(Vec::new()) } else { ok("hello") };
    check("", 50, closed, &[("reset", 5)]);
}

#[test]
fn who_never_answers_is_given_up() {
    let script = |request: &Request| if every_tenth(request) { Action::Silence } else { ok("hello") };
    check("--timeout 2s", 20, script, &[("timeout", 2)]);
}

#[test]
fn who_is_slow_is_not_given_up() {
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
fn what_is_no_http_is_a_failure() {
    let script = |request: &Request| match every_tenth(request) {
        true => Action::Last(b"SMTP ready\r\n\r\n".to_vec()),
        false => ok("hello"),
    };
    check("", 50, script, &[("malformed", 5)]);
}

#[test]
fn gives_up_when_the_first_connection_is_refused() {
    // Bound, so that nobody else is given the port, and not listening.
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let nobody = std::net::SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    for flags in ["-c 1 -n 4", "-c 50 -n 1M -t 4", "-c 4 -z 1h --rate 10 -t 2"] {
        let words = format!("{flags} http://{nobody}/");
        let why = common::try_run(&words).map(|_| ()).unwrap_err();
        let expected = format!("{nobody} refuses connections; start the server, or correct the URL");
        assert_eq!(why, expected, "{words}");
    }
    let folder = common::folder("unix");
    let words = format!("-c 4 -n 40 --unix {}/missing.sock http://h/", folder.display());
    let why = common::try_run(&words).map(|_| ()).unwrap_err();
    assert!(why.contains("missing.sock refuses connections"), "{why}");
}

#[test]
fn later_refusals_are_counted() {
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
fn a_wrong_answer_is_named_by_its_url() {
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
fn sums_are_known_from_a_folder_and_from_a_manifest() {
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
