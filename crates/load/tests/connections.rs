//! How connections are used: kept, renewed, pipelined, slowed down and aborted.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Action, Request, Server, answer, faults, ok, run, run_until};

fn hello(_: &Request) -> Action {
    ok("hello")
}

fn check(flags: &str, connections: usize) {
    let server = Server::start(hello);
    let run = run(&format!("-n 40 {flags} {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (40, vec![]), "{flags}");
    assert_eq!(server.connections(), connections, "{flags}");
    assert_eq!(run.measured.connections, connections as u64, "{flags}");
    assert_eq!(server.seen().len(), 40, "{flags}");
    assert_eq!(run.measured.body_bytes, 200, "{flags}");
}

#[test]
fn keeps_or_renews_connections_by_flag() {
    check("-c 4", 4);
    check("-c 4 --close", 40);
    // One connection at a time: two of different speed may need another connection for the last requests.
    check("-c 1 --session 5", 8);
    check("-c 1 --http 1.0", 1);
    check("-c 2 --pipeline 4", 2);
    check("-c 2 -t 2 --pipeline 4 --session 10", 4);
}

#[test]
fn opens_a_new_connection_after_connection_close() {
    let server = Server::start(|request| match request.on_connection {
        9 => Action::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        _ => ok(""),
    });
    for flags in ["", "--pipeline 4"] {
        let run = run(&format!("-c 1 -n 40 {flags} {}", server.url("/")));
        assert_eq!((run.measured.done, faults(&run)), (40, vec![]), "{flags}");
        assert_eq!(run.measured.connections, 4, "{flags}");
    }
}

#[test]
fn an_idle_connection_that_the_server_closes_is_not_a_failure() {
    let server = Server::start(|_| Action::Last(answer("200 OK", b"hello")));
    // Long enough for the server to close on a busy machine.
    let run = run(&format!("-c 1 -n 5 --think 400ms {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (5, vec![]));
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let server = Server::start(|_| Action::Last(b"HTTP/1.0 200 OK\r\n\r\nhello".to_vec()));
    let run = run(&format!("-c 2 -n 10 --check checksum {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run), run.measured.body_bytes), (10, vec![], 50));
}

#[test]
fn counts_every_byte_of_a_large_body() {
    let body = "x".repeat(3_000_000);
    let server = Server::start(move |_| ok(&body));
    for flags in ["", "--check checksum", "--pipeline 2"] {
        let run = run(&format!("-c 2 -n 6 {flags} {}", server.url("/")));
        assert_eq!((run.measured.done, run.measured.body_bytes), (6, 18_000_000), "{flags}");
    }
}

#[test]
fn connects_to_a_unix_socket() {
    let path = common::folder("unix").join("s");
    common::start_unix(&path, hello);
    let run = run(&format!("-c 3 -n 30 --unix {} http://any.example/x", path.display()));
    assert_eq!((run.measured.done, faults(&run)), (30, vec![]));
}

#[test]
fn uses_local_addresses_in_turn() {
    let server = Server::start(hello);
    let run = run(&format!("-c 4 -n 8 --source 127.0.0.2,127.0.0.3 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (8, vec![]));
}

#[test]
fn an_abort_by_flag_counts_as_right() {
    let body = "x".repeat(2_000_000);
    let server = Server::start(move |_| ok(&body));
    let run = run(&format!("-c 1 -n 3 --abort 10000 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (3, vec![]));
    assert!((30_000..1_000_000).contains(&run.measured.body_bytes), "{}", run.measured.body_bytes);
    assert_eq!(server.connections(), 3);
}

#[test]
fn receives_the_response_after_half_close() {
    let server = Server::start(hello);
    let run = run(&format!("-c 2 -n 6 --half-close {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (6, vec![]));
}

#[test]
fn reads_at_the_rate_of_a_slow_reader() {
    let body = "x".repeat(30_000);
    let server = Server::start(move |_| ok(&body));
    let begin = Instant::now();
    let run = run(&format!("-c 2 -n 2 --read-rate 40000 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run), run.measured.body_bytes), (2, vec![], 60_000));
    assert!(begin.elapsed() >= Duration::from_millis(700), "{:?}", begin.elapsed());
}

#[test]
fn a_body_still_arriving_at_the_end_is_neither_right_nor_failed() {
    let body = "x".repeat(1_000_000);
    let server = Server::start(move |_| ok(&body));
    let run = run(&format!("-c 2 -z 1s --read-rate 10000 {}", server.url("/")));
    assert_eq!((run.measured.started, run.measured.finished()), (2, 0));
    assert!((10_000..100_000).contains(&run.measured.body_bytes), "{}", run.measured.body_bytes);
}

#[test]
fn writes_at_the_rate_of_a_slow_writer() {
    let server = Server::start(hello);
    for (flags, least) in
        [("--slow-head 200", 300), ("--slow-body 1000 -m POST -d ".to_owned().as_str(), 300)]
    {
        let body = if flags.contains("-d") { "y".repeat(500) } else { String::new() };
        let run = run(&format!("-c 1 -n 1 {flags}{body} {}", server.url("/")));
        assert_eq!((run.measured.done, faults(&run)), (1, vec![]), "{flags}");
        assert!(run.measured.total.longest() >= least * 1000, "{flags}: {}", run.measured.total.longest());
    }
    assert!(server.seen().iter().any(|request| request.body.len() == 500));
}

#[test]
fn pauses_between_requests_for_the_think_time() {
    let server = Server::start(hello);
    let run = run(&format!("-c 2 -n 10 --think 40ms {}", server.url("/")));
    assert_eq!(run.measured.done, 10);
    assert!(run.measured.micros >= 160_000, "{}", run.measured.micros);
}

#[test]
fn does_not_count_requests_of_the_warm_up() {
    let server = Server::start(hello);
    let run = run(&format!("-c 1 -n 20 --warm-up 500ms {}", server.url("/")));
    assert_eq!(run.measured.done, 20);
    assert!(server.seen().len() > 20);
}

#[test]
fn ends_a_run_when_stopped() {
    let server = Server::start(hello);
    let stop = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while server.seen().len() < 10 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        run_until(&format!("-c 2 -z 1h {}", server.url("/")), &stop)
    });
    assert!(run.measured.done >= 5, "{}", run.measured.done);
}
