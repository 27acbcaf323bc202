//! What an administrator does to a running program by the control socket: hosts in maintenance, the level of the error log,
//! drained endpoints, reopened logs. Each act is logged with who did it, and outlives a reload.

use std::fs;
use std::io::Write;

use e2e::upstream::upstream;
use e2e::{Rows, Server, Signal, Site, TIMEOUT, wait_until};

const HOSTS: &str = "workers = 2\npid_file = \"pid\"\n[timeouts]\ndelay = 0\n[[host]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"www\"\n\
                     error_pages = { 503 = \"/down.html\" }\n[[host]]\nnames = \"b.example\"\nroot = \"www\"\n\
                     [[host.route]]\npath = \"/-/healthy\"\nmonitor = \"healthy\"\n";

fn site() -> Site {
    Site::new().file("a.txt", "a").file("down.html", "back soon").config(HOSTS)
}

fn run(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let output = server.run_command(words);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The status of a path of a host, its Retry-After, and its content.
fn get(server: &Server, host: &str, path: &str) -> (u16, Option<String>, String) {
    let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    (response.status, response.field("retry-after").map(str::to_owned), response.text().to_owned())
}

#[test]
fn a_host_in_maintenance_gets_503_until_it_is_switched_back() {
    let mut server = site().start();
    let mut rows = Rows::new();
    let serves = (200, None, "a".to_owned());
    // So that the file is in the cache of each worker, and the fast path would respond.
    for _ in 0..8 {
        assert_eq!(get(&server, "a.example", "/a.txt"), serves);
    }
    assert_eq!(
        run(&server, &["maintenance", "www.a.example", "--retry-after", "90s"]),
        (Some(0), String::new())
    );
    let is_down =
        |server: &Server| wait_until(TIMEOUT, || (0..8).all(|_| get(server, "a.example", "/a.txt").0 == 503));
    rows.holds("maintenance", "is for all names of the host", is_down(&server));
    let found = get(&server, "www.a.example", "/");
    rows.holds(
        "503",
        &format!("{found:?}"),
        found.1.as_deref() == Some("90") && found.2.contains("back soon"),
    );
    let posted = server.request("POST /a.txt HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx");
    rows.holds("POST", &format!("gets {}", posted.status), posted.status == 503);
    rows.holds("another host", "serves", get(&server, "b.example", "/a.txt") == serves);
    server.reload();
    rows.holds("after a reload", "is the same", get(&server, "a.example", "/a.txt").0 == 503);
    assert_eq!(run(&server, &["upgrade"]).0, Some(0));
    let pid = || fs::read_to_string(server.home().join("pid")).ok()?.trim().parse().ok();
    assert!(wait_until(TIMEOUT, || pid().is_some_and(|pid: u32| pid != server.pid())));
    let pid = pid().expect("it has one");
    server.succeeded_by(pid);
    rows.holds("after an upgrade", "is the same", get(&server, "a.example", "/a.txt").0 == 503);
    assert_eq!(run(&server, &["maintenance", "b.example"]).0, Some(0));
    let is_other = wait_until(TIMEOUT, || get(&server, "b.example", "/a.txt").0 == 503);
    rows.holds("b.example", "is down for five minutes", is_other);
    rows.holds("b.example", "says so", get(&server, "b.example", "/a.txt").1.as_deref() == Some("300"));
    rows.holds("its health", "is shown", get(&server, "b.example", "/-/healthy").0 == 200);
    for host in ["www.a.example", "b.example"] {
        assert_eq!(run(&server, &["maintenance", host, "--off"]).0, Some(0));
        let is_back = wait_until(TIMEOUT, || (0..8).all(|_| get(&server, host, "/a.txt") == serves));
        rows.holds(host, "serves again", is_back);
    }
    let uid = format!("control: uid {}, process ", rustix::process::getuid().as_raw());
    for act in ["maintenance 90 www.a.example", "reload", "upgrade", "maintenance off b.example"] {
        let logged =
            server.stderr().lines().any(|line| line.contains(&uid) && line.ends_with(&format!(": {act}")));
        rows.holds(act, &format!("is logged:\n{}", server.stderr()), logged);
    }
}

#[test]
fn refuses_acts_that_mean_nothing() {
    let server = site().start();
    let mut rows = Rows::new();
    for (words, code, expected) in [
        (
            &["maintenance", "c.example"][..],
            1,
            "there is no host \"c.example\", but a.example, www.a.example, b.example",
        ),
        (&["maintenance"], 2, "maintenance takes a host"),
        (
            &["maintenance", "a.example", "--off", "--retry-after", "5s"],
            2,
            "give --off or --retry-after, not both",
        ),
        (
            &["maintenance", "a.example", "--retry-after", "2d"],
            2,
            "--retry-after needs a time from 1s to 24h",
        ),
        (&["log-level", "loud"], 2, "loud is no level; write error, warn, info or debug"),
        (&["log-level"], 2, "log-level takes a level"),
        (&["log-level", "debug", "--for", "soon"], 2, "--for needs a time"),
        (&["reopen", "x"], 2, "name the configuration"),
    ] {
        let (found, text) = run(&server, words);
        let row = words.join(" ");
        rows.holds(&row, &format!("{expected}: {text}"), text.contains(expected) && found == Some(code));
    }
}

#[test]
fn the_error_log_has_another_level_for_a_time() {
    let config = "listen = [\"127.0.0.1:0 http2\"]\n[log]\nlevel = \"error\"";
    let server = Site::new().config(config).start();
    // PING without its eight bytes (RFC 9113 §6.7).
    let err = |server: &Server| {
        let mut client = server.connect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x06\0\0\0\0\0");
        client.read_to_end();
    };
    let count = |server: &Server| server.stderr().matches("ended with an error").count();
    err(&server);
    assert_eq!(run(&server, &["log-level", "info"]), (Some(0), String::new()));
    let logs = wait_until(TIMEOUT, || {
        err(&server);
        count(&server) > 0
    });
    assert!(logs, "{}", server.stderr());
    server.reload();
    server.wait_for_line("info: the configuration has been reloaded", TIMEOUT);
    let before = count(&server);
    let logs = wait_until(TIMEOUT, || {
        err(&server);
        count(&server) > before
    });
    assert!(logs, "after a reload: {}", server.stderr());
    assert_eq!(run(&server, &["log-level", "error"]).0, Some(0));
    server.reload();
    assert_eq!(server.stderr().matches("has been reloaded").count(), 1, "{}", server.stderr());
}

#[test]
fn logs_are_opened_again() {
    let server = Site::new().file("a.txt", "a").config("[log]\naccess = \"./access.log\"").start();
    server.get("/a.txt");
    let (log, old) = (server.home().join("access.log"), server.home().join("old.log"));
    let has_line = || fs::read_to_string(&log).is_ok_and(|text| text.contains("/a.txt"));
    assert!(wait_until(TIMEOUT, has_line));
    fs::rename(&log, &old).expect("it is ours");
    assert_eq!(run(&server, &["reopen"]), (Some(0), String::new()));
    let is_new = wait_until(TIMEOUT, || {
        server.get("/a.txt");
        has_line()
    });
    assert!(is_new, "{}", server.stderr());
}

#[test]
fn a_drained_endpoint_stays_so_over_a_reload() {
    let app = |name: &'static str| {
        upstream(move |mut stream, _| {
            stream.write_all(
                format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n{name}").as_bytes(),
            )
        })
    };
    let (one, two) = (app("1").replace("http://", ""), app("2").replace("http://", ""));
    let config = |wait: &str| {
        format!(
            "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"{one}\", \"{two}\"]\nwait = \"{wait}\"\n\
             [[route]]\npath = \"/\"\napplication = \"app\"\n"
        )
    };
    let mut server = Site::new().config(&config("1s")).start();
    let names = |server: &Server| -> String {
        let mut names: Vec<String> = (0..12).map(|_| server.get("/").text().to_owned()).collect();
        names.sort();
        names.dedup();
        names.concat()
    };
    assert_eq!(run(&server, &["drain", "app", &two]).0, Some(0));
    assert!(wait_until(TIMEOUT, || names(&server) == "1"), "{}", server.stderr());
    // Another pool, because its application has changed.
    server.configure(&config("2s"));
    server.reload();
    assert!(wait_until(TIMEOUT, || names(&server) == "1"), "{}", server.stderr());
    assert_eq!(names(&server), "1");
    assert_eq!(run(&server, &["undrain", "app", &two]).0, Some(0));
    assert!(wait_until(TIMEOUT, || names(&server) == "12"), "{}", server.stderr());
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
}
