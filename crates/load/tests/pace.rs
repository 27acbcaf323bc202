//! When requests start, and that a stall of the server shows in the times.

mod common;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Action, Server, answer, faults, ok, run};

/// Responds at once, except for one second that begins with a request.
fn stalling() -> Server {
    let times: Mutex<(Option<Instant>, Option<Instant>)> = Mutex::default();
    Server::start(move |_| {
        let now = Instant::now();
        let (begin, stall) = &mut *times.lock().unwrap();
        let begin = *begin.get_or_insert(now);
        let wait = if now >= begin + Duration::from_millis(500) {
            (*stall.get_or_insert(now) + Duration::from_secs(1)).saturating_duration_since(now)
        } else {
            Duration::ZERO
        };
        Action::Wait(wait, answer("200 OK", b"hello"))
    })
}

#[test]
fn an_open_loop_shows_a_stall_in_its_percentiles() {
    for arrivals in ["even", "poisson"] {
        let server = stalling();
        let run = run(&format!("--rate 200 --arrivals {arrivals} -n 500 -c 2 -t 1 {}", server.url("/")));
        let times = &run.measured.total;
        assert_eq!((run.measured.done, faults(&run)), (500, vec![]), "{arrivals}");
        // A second of 200 requests out of 500 waited, half a second on average.
        assert!(times.percentile(99.0) >= 900_000, "{arrivals}: {}", times.percentile(99.0));
        assert!(times.percentile(80.0) >= 300_000, "{arrivals}: {}", times.percentile(80.0));
    }
}

#[test]
fn a_closed_loop_shows_a_stall_only_in_the_longest_time() {
    let server = stalling();
    let run = run(&format!("-z 2s -c 2 -t 1 {}", server.url("/")));
    assert!(run.measured.total.percentile(99.0) < 500_000);
    assert!(run.measured.longest >= 900_000, "the longest time shows it nevertheless");
}

#[test]
fn keeps_the_wanted_rate() {
    // A slow generator fails in all rounds, a busy machine does not.
    const ROUNDS: usize = 5;
    for arrivals in ["even", "poisson"] {
        let server = Server::start(|_| ok("hello"));
        let mut took = Vec::new();
        while took.last().is_none_or(|micros| *micros > 1_330_000) {
            assert!(took.len() < ROUNDS, "{arrivals}: {took:?}");
            let run = run(&format!("--rate 400 --arrivals {arrivals} -n 400 -c 8 {}", server.url("/")));
            assert_eq!((run.measured.done, faults(&run)), (400, vec![]), "{arrivals}");
            assert!(run.measured.micros >= 800_000, "{arrivals}: {}", run.measured.micros);
            took.push(run.measured.micros);
        }
    }
}

#[test]
fn a_due_request_that_was_never_sent_is_a_failure() {
    let server = Server::start(|_| Action::Silence);
    let run =
        run(&format!("--rate 100 --arrivals even -n 10 -z 200ms -c 1 --timeout 300ms {}", server.url("/")));
    assert_eq!(run.measured.started, 10);
    assert_eq!(run.measured.failed(), 10);
    assert!(run.measured.longest >= 290_000);
}

#[test]
fn replays_a_log_at_its_pace() {
    let folder = common::folder("replay");
    let line = |second: u32, path: &str| {
        format!(
            "127.0.0.1 - - [10/Oct/2000:13:55:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"x\"\n"
        )
    };
    let text = [line(10, "/a"), line(10, "/b"), line(11, "/c"), line(12, "/d"), "junk\n".to_owned()].concat();
    std::fs::write(folder.join("log"), text).unwrap();
    let server = Server::start(|_| ok("hello"));
    let flags = format!("--log {}/log --order replay --speed 4 -c 2 -t 1", folder.display());
    let run = run(&format!("{flags} {}", server.url("/")));
    assert_eq!((run.measured.done, faults(&run)), (4, vec![]));
    let mut lines: Vec<String> = server.seen().into_iter().map(|request| request.line).collect();
    // The server may read two connections in any order.
    lines.sort();
    assert_eq!(lines, ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1", "GET /d HTTP/1.1"]);
    assert!(run.measured.micros >= 490_000, "{}", run.measured.micros);
}

#[test]
fn reads_a_url_file_of_siege() {
    let folder = common::folder("siege");
    let server = Server::start(|_| ok("hello"));
    let text =
        format!("# comment\nHOST = {}\nhttp://$(HOST)/a\n\nhttp://$(HOST)/b POST x=1&y=2\n", server.address);
    std::fs::write(folder.join("urls.txt"), text).unwrap();
    let run = run(&format!("-n 4 -c 1 --order sequence -f {}/urls.txt", folder.display()));
    assert_eq!((run.measured.done, faults(&run)), (4, vec![]));
    let seen: Vec<(String, Vec<u8>)> =
        server.seen().into_iter().map(|request| (request.line, request.body)).collect();
    let (a, b) =
        (("GET /a HTTP/1.1".to_owned(), vec![]), ("POST /b HTTP/1.1".to_owned(), b"x=1&y=2".to_vec()));
    assert_eq!(seen, [a.clone(), b.clone(), a, b]);
}

#[test]
fn a_session_begins_with_the_first_url() {
    let server = Server::start(|_| ok("hello"));
    run(&format!("-n 6 -c 1 --order sequence --session 2 {}", server.url("/{1..3}")));
    let lines: Vec<String> =
        server.seen().into_iter().map(|request| request.line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(lines, ["/1", "/2", "/1", "/2", "/1", "/2"]);
}

#[test]
fn a_seed_repeats_the_order() {
    let order = |seed: u32| {
        let server = Server::start(|_| ok("hello"));
        run(&format!("-n 30 -c 1 --seed {seed} {}", server.url("/{1..9}")));
        server.seen().into_iter().map(|request| request.line).collect::<Vec<_>>()
    };
    assert_eq!(order(3), order(3));
    assert_ne!(order(3), order(4));
}
