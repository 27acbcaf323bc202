//! How connections are used: kept, renewed, filled, shaped and left.

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
fn connections_are_kept_or_renewed_as_asked() {
    check("-c 4", 4);
    check("-c 4 --close", 40);
    // One connection at a time: two that are not equally fast need another one for their remainders.
    check("-c 1 --session 5", 8);
    check("-c 1 --http 1.0", 1);
    check("-c 2 --pipeline 4", 2);
    check("-c 2 -t 2 --pipeline 4 --session 10", 4);
}

#[test]
fn a_server_that_says_close_is_believed() {
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
fn an_idle_connection_that_is_closed_is_no_failure() {
    let server = Server::start(|_| Action::Last(answer("200 OK", b"hello")));
    // Long enough for a busy server to close in.
    let run = run(&format!("-c 1 -n 5 --think 400ms {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (5, vec![]));
}

#[test]
fn a_body_without_length_lasts_until_the_end() {
    let server = Server::start(|_| Action::Last(b"HTTP/1.0 200 OK\r\n\r\nhello".to_vec()));
    let run = run(&format!("-c 2 -n 10 --check checksum {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run), run.measured.body_bytes), (10, vec![], 50));
}

#[test]
fn a_large_body_is_counted_to_the_byte() {
    let body = "x".repeat(3_000_000);
    let server = Server::start(move |_| ok(&body));
    for flags in ["", "--check checksum", "--pipeline 2"] {
        let run = run(&format!("-c 2 -n 6 {flags} {}", server.url("/")));
        assert_eq!((run.measured.done, run.measured.body_bytes), (6, 18_000_000), "{flags}");
    }
}

#[test]
fn a_unix_socket_is_a_way() {
    let path = common::folder("unix").join("s");
    common::start_unix(&path, hello);
    let run = run(&format!("-c 3 -n 30 --unix {} http://any.example/x", path.display()));
    assert_eq!((run.measured.done, faults(&run)), (30, vec![]));
}

#[test]
fn local_addresses_are_used_in_turn() {
    let server = Server::start(hello);
    let run = run(&format!("-c 4 -n 8 --source 127.0.0.2,127.0.0.3 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (8, vec![]));
}

#[test]
fn an_abort_is_what_was_asked_for() {
    let body = "x".repeat(2_000_000);
    let server = Server::start(move |_| ok(&body));
    let run = run(&format!("-c 1 -n 3 --abort 10000 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (3, vec![]));
    assert!((30_000..1_000_000).contains(&run.measured.body_bytes), "{}", run.measured.body_bytes);
    assert_eq!(server.connections(), 3);
}

#[test]
fn half_a_connection_is_answered() {
    let server = Server::start(hello);
    let run = run(&format!("-c 2 -n 6 --half-close {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (6, vec![]));
}

#[test]
fn a_slow_reader_takes_its_time() {
    let body = "x".repeat(30_000);
    let server = Server::start(move |_| ok(&body));
    let begin = Instant::now();
    let run = run(&format!("-c 2 -n 2 --read-rate 40000 {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run), run.measured.body_bytes), (2, vec![], 60_000));
    assert!(begin.elapsed() >= Duration::from_millis(700), "{:?}", begin.elapsed());
}

#[test]
fn what_is_still_coming_in_at_the_end_is_neither_right_nor_wrong() {
    let body = "x".repeat(1_000_000);
    let server = Server::start(move |_| ok(&body));
    let run = run(&format!("-c 2 -z 1s --read-rate 10000 {}", server.url("/")));
    assert_eq!((run.measured.started, run.measured.finished()), (2, 0));
    assert!((10_000..100_000).contains(&run.measured.body_bytes), "{}", run.measured.body_bytes);
}

#[test]
fn a_slow_writer_takes_its_time() {
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
fn who_thinks_asks_less() {
    let server = Server::start(hello);
    let run = run(&format!("-c 2 -n 10 --think 40ms {}", server.url("/")));
    assert_eq!(run.measured.done, 10);
    assert!(run.measured.micros >= 160_000, "{}", run.measured.micros);
}

#[test]
fn what_happens_in_the_warm_up_is_not_counted() {
    let server = Server::start(hello);
    let run = run(&format!("-c 1 -n 20 --warm-up 500ms {}", server.url("/")));
    assert_eq!(run.measured.done, 20);
    assert!(server.seen().len() > 20);
}

#[test]
fn a_run_can_be_stopped() {
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
