//! The access log and the error log: one line per request, whatever its content and outcome.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Random, Rows, Server, Signal, Site, TIMEOUT, has_open, signal_process, tool, wait_until,
    without_privilege,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

/// A parsed line in the format `common` or `combined`.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    client: String,
    request: String,
    status: u16,
    sent: u64,
    referer: Option<String>,
    agent: Option<String>,
    host: String,
    duration: f64,
    ended: Option<String>,
}

/// Takes the text up to `end` off the front.
fn take<'a>(rest: &mut &'a str, end: &str) -> Option<&'a str> {
    let (taken, left) = rest.split_once(end)?;
    *rest = left;
    Some(taken)
}

fn parse(line: &str, combined: bool) -> Option<Line> {
    let mut rest = line;
    let client = take(&mut rest, " - - [")?.to_owned();
    let time = take(&mut rest, "] \"")?;
    // 20/Nov/2026:07:49:41 +0000
    let (date, clock) = time.split_once(':')?;
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let date: Vec<&str> = date.split('/').collect();
    let clock: Vec<&str> = clock.strip_suffix(" +0000")?.split(':').collect();
    let right = matches!(date[..], [day, month, year] if digits(day, 2) && month.len() == 3 && digits(year, 4))
        && clock.len() == 3
        && clock.iter().all(|part| digits(part, 2));
    let request = take(&mut rest, "\" ")?.to_owned();
    let status = take(&mut rest, " ")?.parse().ok()?;
    let sent = take(&mut rest, " ")?.parse().ok()?;
    let mut quoted = || {
        rest = rest.strip_prefix('"')?;
        take(&mut rest, "\" ").map(str::to_owned)
    };
    let (referer, agent) = if combined { (Some(quoted()?), Some(quoted()?)) } else { (None, None) };
    let host = take(&mut rest, " ")?.to_owned();
    let duration = take(&mut rest, " ")?.parse().ok()?;
    let ended = match rest {
        "-" => None,
        reason => Some(reason.strip_prefix('"')?.strip_suffix('"')?.to_owned()),
    };
    right.then_some(Line { client, request, status, sent, referer, agent, host, duration, ended })
}

/// Ends the server, which completes the log; returns all lines.
fn all_lines(server: &mut Server) -> Vec<Line> {
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    let parsed = |line: &String| parse(line, true).unwrap_or_else(|| panic!("no line of a log: {line}"));
    server.output().all().iter().map(parsed).collect()
}

/// Waits until a file has at least `count` lines.
fn file_lines(path: &Path, count: usize) -> Vec<String> {
    let mut text = String::new();
    let is_written = wait_until(TIMEOUT, || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.lines().count() >= count && text.ends_with('\n')
    });
    assert!(is_written, "{}: no {count} lines:\n{text}", path.display());
    text.lines().map(str::to_owned).collect()
}

/// With one worker, so that lines come in the order of requests.
fn site(log: &str) -> Site {
    Site::new()
        .file("a.txt", "0123456789")
        .file("index.html", "<p>")
        .config(&format!("workers = 1\n[log]\n{log}"))
}

#[test]
fn every_log_format_has_the_same_facts() {
    for format in ["common", "combined", "json"] {
        let server = site(&format!("access = \"stdout\"\nformat = \"{format}\"")).start();
        let fields = "Host: a.example\r\nUser-Agent: test/1\r\nReferer: http://r.example/\r\n";
        let started = Instant::now();
        assert_eq!(server.request(format!("GET /a.txt?q=1 HTTP/1.1\r\n{fields}\r\n")).status, 200);
        let line = &server.wait_for_lines(1)[0];
        let line = match format {
            "json" => {
                let json: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                let text =
                    |key: &str| json[key].as_str().unwrap_or_else(|| panic!("{key}: {line}")).to_owned();
                let time = text("time");
                assert!(time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
                Line {
                    client: text("client"),
                    request: format!("{} {} {}", text("method"), text("target"), text("version")),
                    status: json["status"].as_u64().unwrap() as u16,
                    sent: json["sent"].as_u64().unwrap(),
                    referer: Some(text("referer")),
                    agent: Some(text("user_agent")),
                    host: text("host"),
                    duration: json["duration"].as_f64().unwrap(),
                    ended: json["ended"].as_str().map(str::to_owned),
                }
            }
            _ => parse(line, format == "combined").unwrap_or_else(|| panic!("{format}: {line}")),
        };
        let expected = Line {
            client: "127.0.0.1".to_owned(),
            request: "GET /a.txt?q=1 HTTP/1.1".to_owned(),
            status: 200,
            sent: 10,
            referer: (format != "common").then(|| "http://r.example/".to_owned()),
            agent: (format != "common").then(|| "test/1".to_owned()),
            host: "a.example".to_owned(),
            duration: line.duration,
            ended: None,
        };
        assert_eq!(line, expected, "{format}");
        let took = started.elapsed().as_secs_f64();
        assert!((0.0..took).contains(&line.duration), "{format}: {} s", line.duration);
    }
}

/// A client's actions, and the lines that they cause: status, bytes sent, and how the request ended early.
type Row = (&'static str, fn(&Server), &'static [(u16, Option<u64>, Option<&'static str>)]);

const ROWS: &[Row] = &[
    (
        "no request",
        |s| {
            let mut client = s.connect();
            client.half_close();
            assert!(client.is_closed());
        },
        &[],
    ),
    (
        "only empty lines",
        |s| {
            let mut client = s.connect();
            client.send("\r\n");
            client.half_close();
            assert!(client.is_closed());
        },
        &[],
    ),
    ("GET", |s| drop(s.get("/a.txt")), &[(200, Some(10), None)]),
    ("HEAD", |s| drop(s.request("HEAD /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")), &[(200, Some(0), None)]),
    ("304", |s| drop(s.connect().get_with("/a.txt", "If-None-Match: *\r\n")), &[(304, Some(0), None)]),
    ("206", |s| drop(s.connect().get_with("/a.txt", "Range: bytes=2-4\r\n")), &[(206, Some(3), None)]),
    ("416", |s| drop(s.connect().get_with("/a.txt", "Range: bytes=99-\r\n")), &[(416, None, None)]),
    ("404", |s| drop(s.get("/missing")), &[(404, None, None)]),
    ("301", |s| drop(s.get("/folder")), &[(301, None, None)]),
    ("405", |s| drop(s.request("DELETE /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")), &[(405, None, None)]),
    ("501", |s| drop(s.request("BREW /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")), &[(501, None, None)]),
    ("505", |s| drop(s.request("GET / HTTP/2.0\r\nHost: a\r\n\r\n")), &[(505, None, Some("version"))]),
    ("OPTIONS *", |s| drop(s.request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")), &[(204, Some(0), None)]),
    ("no request", |s| drop(s.request("nonsense\r\n\r\n")), &[(400, None, Some("request-line"))]),
    ("binary", |s| drop(s.request(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")), &[(400, None, Some("tls"))]),
    (
        "two lengths",
        |s| drop(s.request("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")),
        &[(400, None, Some("length-twice"))],
    ),
    ("traversal", |s| drop(s.get("/../x")), &[(400, None, Some("path-above-root"))]),
    ("414", |s| drop(s.get(&format!("/{}", "x".repeat(9000)))), &[(414, None, Some("target-too-long"))]),
    (
        "431",
        |s| drop(s.connect().get_with("/a.txt", &"X: y\r\n".repeat(200))),
        &[(431, None, Some("too-many-fields"))],
    ),
    (
        "413",
        |s| drop(s.request("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n")),
        &[(413, None, Some("body-too-large"))],
    ),
    (
        "with a body",
        |s| drop(s.request("GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")),
        &[(200, Some(10), None)],
    ),
    ("HTTP/1.0", |s| drop(s.request("GET /a.txt HTTP/1.0\r\n\r\n")), &[(200, Some(10), None)]),
    ("large", |s| drop(s.get("/large")), &[(200, Some(LARGE as u64), None)]),
    ("listing", |s| drop(s.get("/list/")), &[(200, None, None)]),
    ("inflated", |s| drop(s.get("/empty-gzip")), &[(200, None, None)]),
    (
        "keep-alive",
        |s| {
            let mut client = s.connect();
            for path in ["/a.txt", "/missing", "/folder/"] {
                client.get(path);
            }
        },
        &[(200, Some(10), None), (404, None, None), (200, Some(3), None)],
    ),
    (
        "pipelined",
        |s| {
            let mut client = s.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
            (0..100).for_each(|_| drop(client.read_response()));
        },
        &[(200, Some(10), None); 100],
    ),
    (
        "pipelined with a mistake",
        |s| {
            let mut client = s.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read_response();
            client.read_response();
        },
        &[(200, Some(10), None), (400, None, Some("host-missing"))],
    ),
    (
        "408 for half a head",
        |s| {
            let mut client = s.connect();
            client.send("GET /a.txt HT");
            assert_eq!(client.read_response().status, 408);
        },
        &[(408, None, Some("request too slow"))],
    ),
    (
        "408 for half a body",
        |s| {
            let mut client = s.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
            assert_eq!(client.read_response().status, 408);
        },
        &[(408, None, Some("request too slow"))],
    ),
    (
        "gone in the head",
        |s| {
            s.connect().send("GET /a.txt HTTP/1.1\r\nHost");
        },
        &[(400, Some(0), Some("client closed"))],
    ),
    (
        "gone while it is sent",
        |s| {
            drop(s.begin_download("/huge"));
        },
        &[(200, None, Some("client closed"))],
    ),
    (
        "changed while it is sent",
        |s| {
            let mut client = s.begin_download("/huge");
            File::create(s.root().join("huge")).unwrap();
            assert!(client.try_read_response().is_err());
        },
        &[(200, None, Some("file changed while it was sent"))],
    ),
    (
        "changed while it is compressed",
        |s| {
            let noise = s.root().join("noise.txt");
            fs::write(&noise, Random::new(1).bytes(HUGE)).unwrap();
            let mut client = s.connect();
            client.set_receive_buffer(16 * 1024);
            client.send("GET /noise.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            let begun = client.read_exactly(1024).unwrap();
            assert!(String::from_utf8_lossy(&begun).contains("Content-Encoding: gzip"));
            File::create(noise).unwrap();
            assert!(client.try_read_response().is_err());
        },
        &[(200, None, Some("file changed while it was sent"))],
    ),
];

const LARGE: usize = 1_000_000;
const HUGE: usize = 32 * 1024 * 1024;

#[test]
fn logs_one_line_per_request() {
    let mut rows = Rows::new();
    for (what, act, expected) in ROWS {
        let site = Site::new()
            .config("listing = true\n[timeouts]\nhead = \"1s\"\nbody = \"1s\"\n[log]\naccess = \"stdout\"")
            .file("a.txt", "0123456789")
            .file("folder/x", "x")
            .file("folder/index.html", "<p>")
            .file("list/x", "x")
            .file("large", vec![1; LARGE])
            .file("empty-gzip.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0");
        File::create(site.root().join("huge")).unwrap().set_len(HUGE as u64).unwrap();
        let mut server = site.start();
        act(&server);
        // Lines of broken requests come when the server notices.
        server.output().wait_for(TIMEOUT, |lines| (lines.len() >= expected.len()).then_some(()));
        let found = all_lines(&mut server);
        for ((status, sent, ended), line) in expected.iter().zip(&found) {
            // The token of the broken rule.
            let why = line.ended.as_deref().map(|why| why.split(':').next().unwrap_or(why));
            rows.check(what, (line.status, why), (*status, *ended));
            if let Some(sent) = sent {
                rows.check(what, line.sent, *sent);
            }
            if ended.is_some() {
                rows.holds(what, "less was sent than there is", line.sent < HUGE as u64);
            }
            if *status < 400 {
                rows.holds(
                    what,
                    &format!("the line has the request: {}", line.request),
                    line.request.contains(" HTTP/1."),
                );
            }
        }
        if found.len() != expected.len() {
            rows.holds(what, &format!("these are its lines: {found:?}"), false);
        }
    }
}

/// A full disk or a power failure cuts a line.
#[test]
fn the_first_line_does_not_go_on_behind_a_half_one() {
    let mut rows = Rows::new();
    for (rotate, before, expected) in [
        ("", "cut", "cut\nGET /a.txt\n"),
        ("", "whole\n", "whole\nGET /a.txt\n"),
        ("", "", "GET /a.txt\n"),
        ("rotate = { size = \"1MiB\" }\n", "cut", "cut\nGET /a.txt\n"),
    ] {
        let log = "fields = '$request_method $request_uri'\n";
        let server = Site::new()
            .file("a.txt", "a")
            .file_beside_root("logs/access.log", before)
            .config(&format!("[log]\naccess = \"logs/access.log\"\n{log}{rotate}"))
            .start();
        server.get("/a.txt");
        let text = || fs::read_to_string(server.home().join("logs/access.log")).unwrap();
        wait_until(TIMEOUT, || text().contains("GET"));
        rows.check(format!("{rotate}{before}"), text(), expected.to_owned());
    }
}

#[test]
fn a_client_cannot_forge_a_log_line() {
    let hostile: [&[u8]; 7] = [
        b"quote\" 200 1 \"-\" \"-\"",
        b"back\\slash\\",
        b"tab\there",
        b"\x80\xff bytes",
        "é\u{202e}".as_bytes(),
        b"%0d%0aforged",
        b"'; DROP TABLE",
    ];
    for format in ["combined", "json"] {
        let server = site(&format!("access = \"stdout\"\nformat = \"{format}\"")).start();
        let mut client = server.connect();
        for value in hostile {
            let request = [
                &b"GET /a.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: "[..],
                value,
                b"\r\nReferer: ",
                value,
                b"\r\n\r\n",
            ]
            .concat();
            assert_eq!(client.request(request).status, 200, "{}", value.escape_ascii());
        }
        for target in ["/a.txt?\"quoted\"&\\", "/a.txt?<script>", "/a.txt?%1b[2J%0a"] {
            client.get(target);
            // A rejected request is the last one of its connection.
            client = server.connect();
        }
        let found = server.wait_for_lines(hostile.len() + 3);
        let mut rows = Rows::new();
        for (at, line) in found.iter().enumerate() {
            let printable = line.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            rows.holds(line, "printable ASCII", printable);
            if format == "json" {
                let json: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                rows.holds(line, "a line says its status", json["status"].is_u64());
                if let Some(value) = hostile.get(at) {
                    rows.check(value, json["user_agent"].as_str(), Some(&*String::from_utf8_lossy(value)));
                }
                continue;
            }
            let parsed = parse(line, true);
            rows.holds(line, "it is a line of a log", parsed.is_some());
            let Some(parsed) = parsed else { continue };
            rows.check(line, parsed.client.as_str(), "127.0.0.1");
            if let Some(value) = hostile.get(at) {
                let agent = parsed.agent.unwrap_or_default();
                rows.holds(
                    value,
                    &format!("escaped in {agent}"),
                    !agent.contains('"') && agent.len() >= value.len(),
                );
                rows.check(value, (parsed.status, parsed.sent), (200, 10));
            }
        }
    }
}

#[test]
fn reopens_the_log_on_sigusr1() {
    let server = site("access = \"./access.log\"\nerror = \"./error.log\"").start();
    let path = |name: &str| server.home().join(name);
    let mut client = server.connect();
    (0..5).for_each(|_| drop(client.get("/a.txt")));
    file_lines(&path("access.log"), 5);
    for name in ["access", "error"] {
        fs::rename(path(&format!("{name}.log")), path(&format!("{name}.1"))).unwrap();
    }
    // Until the signal, the server writes to the old file.
    client.get("/a.txt");
    file_lines(&path("access.1"), 6);
    server.signal(Signal::USR1);
    // The master passes the new file to the serving process, which writes to it from then on.
    let pid = server.serving_pid();
    let is_new = || has_open(pid, &path("access.log")) && !has_open(pid, &path("access.1"));
    assert!(wait_until(TIMEOUT, || is_new() && path("error.log").exists()), "the logs are not opened again");
    (0..3).for_each(|_| drop(client.get("/")));
    assert_eq!(file_lines(&path("access.log"), 3).len(), 3);
    assert_eq!(file_lines(&path("access.1"), 6).len(), 6);
}

#[test]
fn reopens_logs_after_giving_up_root() {
    // Without root, the server has no privilege to give up, and owns the files that it opens.
    let log = "[log]\naccess = \"./access.log\"\nerror = \"./error.log\"";
    let config = format!("{}\n{log}", without_privilege());
    let server = Site::new().file("a.txt", "a").config(&config).start();
    let mut client = server.connect();
    client.get("/a.txt");
    file_lines(&server.home().join("access.log"), 1);
    server.signal(Signal::USR1);
    client.get("/a.txt");
    file_lines(&server.home().join("access.log"), 2);
    assert_eq!(fs::read_to_string(server.home().join("error.log")).unwrap(), "");
}

#[test]
fn keeps_writing_to_a_log_that_cannot_be_reopened() {
    let server = site("access = \"logs/access.log\"").file_beside_root("logs/x", "").start();
    let mut client = server.connect();
    client.get("/a.txt");
    file_lines(&server.home().join("logs/access.log"), 1);
    fs::rename(server.home().join("logs"), server.home().join("old")).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_line("access.log", TIMEOUT);
    client.get("/a.txt");
    file_lines(&server.home().join("old/access.log"), 2);
}

#[test]
fn reopen_says_which_log_cannot_be_opened() {
    let server = site("access = \"./access.log\"").start();
    assert_eq!(server.get("/a.txt").status, 200);
    let path = server.home().join("access.log");
    assert!(wait_until(TIMEOUT, || path.exists()));
    fs::rename(&path, server.home().join("old")).unwrap();
    fs::create_dir(&path).unwrap();
    let reopen = server.run_command(&["reopen"]);
    let stderr = String::from_utf8_lossy(&reopen.stderr);
    assert_eq!(reopen.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("access.log: it is a folder; name a file in it"), "{stderr}");
    assert!(stderr.contains("the server continues to write to the old file"), "{stderr}");
    fs::remove_dir(&path).unwrap();
    assert_eq!(server.run_command(&["reopen"]).status.code(), Some(0));
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(wait_until(TIMEOUT, || fs::read_to_string(&path).is_ok_and(|log| log.contains("/a.txt"))));
}

#[test]
fn keeps_serving_without_a_syslog_daemon() {
    let server = site("access = \"syslog\"\nerror = \"syslog\"").start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    server.signal(Signal::USR1);
    assert_eq!(client.get("/a.txt").status, 200);
}

#[test]
fn reports_a_full_disk_and_keeps_serving() {
    let server = site("access = \"/dev/full\"").start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    let reported =
        server.wait_for_line("dropped: /dev/full cannot be written: No space left on device", TIMEOUT);
    assert!(reported.contains("error"), "{reported}");
    // Also those that are lost behind a report, while no further line comes.
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    let is_counted = |lines: u64| wait_until(TIMEOUT, || server.stats()["log_lines_dropped"] == lines);
    assert!(is_counted(53), "{}", server.stderr());
    // A counter does not go back: neither with another process, nor when the earlier one has ended.
    server.reload();
    assert!(wait_until(TIMEOUT, || server.children().len() == 1), "{:?}", server.children());
    assert!(is_counted(53), "{}", server.stats());
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(is_counted(54), "{}", server.stats());
}

#[test]
fn lines_that_a_logger_cannot_write_are_counted_and_the_reason_is_logged() {
    let server = site("access = \"/dev/full\"\nrotate = { size = \"1MiB\" }").start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    server.wait_for_line("dropped: /dev/full cannot be written: No space left on device", TIMEOUT);
    let is_counted = |lines: u64| wait_until(TIMEOUT, || server.stats()["log_lines_dropped"] == lines);
    assert!(is_counted(50), "{}", server.stats());
    server.reload();
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(is_counted(51), "{}", server.stats());
}

#[test]
fn losses_are_counted_also_while_the_error_log_is_on_the_same_full_disk() {
    let server = site("access = \"/dev/full\"\nerror = \"/dev/full\"").start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    let count = || server.stats()["log_lines_dropped"].as_u64().expect("it is a number");
    assert!(wait_until(TIMEOUT, || count() == 50), "{}", count());
    assert_eq!(client.get("/a.txt").status, 200);
    assert!(wait_until(TIMEOUT, || count() == 51), "{}", count());
}

#[test]
fn a_limit_of_the_size_of_files_costs_lines_and_no_request() {
    let server = site("access = \"./access.log\"").start();
    let serving = server.serving_pid();
    let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
    let pid = Pid::from_raw(serving as i32);
    prlimit(pid, Resource::Fsize, limit).expect("it is our process");
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    let lost = || server.stats()["log_lines_dropped"].as_u64().is_some_and(|lines| lines > 50);
    assert!(wait_until(TIMEOUT, lost), "{}", server.stats());
    assert_eq!(server.serving_pid(), serving);
}

#[test]
fn a_log_pipe_without_a_reader_delays_no_request_and_losses_are_counted() {
    const REQUESTS: usize = 20_000;
    let site = site("access = \"./fifo\"\nqueue = 2");
    let path = site.home().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // The pipe has a reader, which does not read.
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let server = site.start();
    let mut client = server.connect();
    let started = Instant::now();
    for _ in 0..REQUESTS / 100 {
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        (0..100).for_each(|_| assert_eq!(client.read_response().status, 200));
    }
    // One millisecond per request, far less than with a blocking log.
    assert!(started.elapsed() < Duration::from_millis(REQUESTS as u64), "{:?}", started.elapsed());
    // Now the test reads, with more requests, until all lines are accounted for.
    rustix::fs::fcntl_setfl(reader.as_fd(), OFlags::NONBLOCK).unwrap();
    let mut reader = File::from(reader);
    let (mut written, mut sent) = (Vec::new(), REQUESTS);
    let until = Instant::now() + TIMEOUT * 2;
    let dropped = |server: &Server| -> usize {
        let reported = server.stderr();
        let counts = reported.lines().filter(|line| line.contains(" dropped: "));
        counts.filter_map(|line| line.split(' ').find_map(|word| word.parse::<usize>().ok())).sum()
    };
    loop {
        let mut piece = [0; 65536];
        while let Ok(n @ 1..) = reader.read(&mut piece) {
            written.extend_from_slice(&piece[..n]);
        }
        let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let lost = dropped(&server);
        if lost > 0 && lines + lost == sent {
            break;
        }
        assert!(Instant::now() < until, "{lines} written and {lost} lost of {sent}");
        thread::sleep(Duration::from_millis(50));
        if Instant::now() + TIMEOUT * 3 / 2 < until || lost == 0 {
            client.get("/a.txt");
            sent += 1;
        }
    }
    let whole = String::from_utf8(written).unwrap();
    assert!(
        whole.lines().filter(|line| !line.is_empty()).all(|line| parse(line, true).is_some()),
        "each line is whole"
    );
    // A reader that closes does not end the server.
    drop(reader);
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
}

#[test]
fn errors_are_logged_while_the_reader_of_the_access_log_has_stopped() {
    let site = Site::new().file("a.txt", "a").script("bad.cgi", "#!/bin/sh\n");
    let path = site.home().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let config =
        "[[route]]\npath = \"*.cgi\"\ncgi = true\n[log]\naccess = \"./fifo\"\nqueue = 2\nformat = \"json\"\n";
    let server = site.config(config).start();
    let mut client = server.connect();
    let dropped = || server.stats()["log_lines_dropped"].as_u64().is_some_and(|lines| lines > 0);
    let is_full = || {
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        (0..100).for_each(|_| assert_eq!(client.read_response().status, 200));
        dropped()
    };
    assert!(wait_until(TIMEOUT, is_full), "{}", server.stats());
    server.wait_for_line(" dropped: the disk or the reader of ", TIMEOUT);
    assert_eq!(server.get("/bad.cgi").status, 502);
    server.wait_for_line("\"GET /bad.cgi\": the script did not respond", TIMEOUT);
}

/// The process that connects to it writes them. Its requests do not wait for the log, and no line is lost.
#[test]
fn errors_of_an_application_are_logged_when_the_reader_of_the_error_log_goes_on() {
    let site = Site::new().config(
        "workers = 1\n[log]\nerror = \"./fifo\"\nqueue = 2\nclient_errors = true\n[[route]]\npath = \"/app/\"\n\
         application = \"app\"\n[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"127.0.0.1:1\"\n",
    );
    let path = site.home().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let server = site.start();
    let mut client = server.connect();
    let dropped = || server.stats()["log_lines_dropped"].as_u64().is_some_and(|lines| lines > 0);
    let is_full = || {
        (0..100).for_each(|_| assert_eq!(client.get("/none").status, 404));
        dropped()
    };
    assert!(wait_until(TIMEOUT, is_full), "{}", server.stats());
    assert_eq!(server.get("/app/").status, 502);
    let (mut reader, mut written) = (File::from(reader), Vec::new());
    let comes = || {
        let mut piece = [0; 65536];
        while let Ok(n @ 1..) = reader.read(&mut piece) {
            written.extend_from_slice(&piece[..n]);
        }
        String::from_utf8_lossy(&written).contains("application \"app\": cannot connect to 127.0.0.1:1")
    };
    assert!(wait_until(TIMEOUT, comes), "it is lost");
}

#[test]
fn a_host_can_have_its_own_log() {
    let server = Site::new()
        .file("a.txt", "a")
        .file_beside_root("b/a.txt", "b")
        .config(
            "[[host]]\nnames = \"b.example\"\nroot = \"b\"\naccess_log = \"./b.log\"\n\
             [[host]]\nnames = \"c.example\"\nroot = \"b\"\n[log]\naccess = \"./all.log\"",
        )
        .start();
    let mut client = server.connect();
    for host in ["a.example", "b.example", "c.example", "b.example"] {
        assert_eq!(client.request(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n")).status, 200);
    }
    let hosts = |name: &str, count| -> Vec<String> {
        let lines = file_lines(&server.home().join(name), count);
        lines.iter().map(|line| parse(line, true).expect("a line").host).collect()
    };
    assert_eq!(hosts("b.log", 2), ["b.example", "b.example"]);
    assert_eq!(hosts("all.log", 2), ["a.example", "c.example"]);
}

#[test]
fn the_command_line_sets_the_destination_of_logs() {
    for (to, expected) in [("stdout", true), ("stderr", false), ("off", false), ("other.log", false)] {
        let mut server = site("access = \"./configured.log\"").arg("--access-log").arg(to).start();
        assert_eq!(server.get("/a.txt").status, 200);
        server.signal(Signal::TERM);
        server.wait(TIMEOUT);
        let line = "\"GET /a.txt HTTP/1.1\" 200 10";
        assert_eq!(server.stdout().contains(line), expected, "{to}: {}", server.stdout());
        assert_eq!(server.stderr().contains(line), to == "stderr", "{to}: {}", server.stderr());
        let other = fs::read_to_string(server.home().join("other.log")).unwrap_or_default();
        assert_eq!(other.contains(line), to == "other.log", "{to}");
        assert!(!server.home().join("configured.log").exists(), "{to}");
    }
}

#[test]
fn writes_log_lines_soon_and_all_of_them_at_exit() {
    let mut server = site("access = \"./access.log\"").config("format = \"common\"").start();
    let mut client = server.connect();
    client.get("/a.txt");
    file_lines(&server.home().join("access.log"), 1);
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500));
    (0..500).for_each(|_| drop(client.read_response()));
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
    let text = fs::read_to_string(server.home().join("access.log")).unwrap();
    assert_eq!(text.lines().filter(|line| parse(line, false).is_some()).count(), 501);
}

#[test]
fn client_errors_writes_the_errors_of_clients_into_the_error_log() {
    let config = |level: &str| {
        format!(
            "workers = 1\n[log]\nclient_errors = true\nlevel = \"{level}\"\n\
             [[route]]\npath = \"/old/\"\nredirect = \"/new/\"\n[[route]]\npath = \"/gone\"\nreturn = 410\n\
             [[route]]\npath = \"/broken\"\nreturn = 500\n"
        )
    };
    let server = Site::new().file("a.txt", "a").config(&config("warn")).start();
    let mut client = server.connect();
    for path in ["/a.txt", "/old/x", "/broken", "/none?a=b", "/gone"] {
        client.get(path);
    }
    client.request("PUT /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    server.request("GET / HTTP/1.1\r\n\r\n");
    let lines = server.errors().wait_for(TIMEOUT, |lines| {
        let of_clients: Vec<String> =
            lines.iter().filter_map(|line| Some(line.split_once(" warn: ")?.1.to_owned())).collect();
        (of_clients.len() >= 4).then_some(of_clients)
    });
    let root = server.root().display().to_string();
    let expected = [
        format!("404 Not Found for 127.0.0.1: \"GET /none?a=b HTTP/1.1\", host localhost, file {root}/none"),
        "410 Gone for 127.0.0.1: \"GET /gone HTTP/1.1\", host localhost".to_owned(),
        format!("405 Method Not Allowed for 127.0.0.1: \"PUT /a.txt HTTP/1.1\", host x, file {root}/a.txt"),
        "400 Bad Request for 127.0.0.1: \"-\", host-missing: an HTTP/1.1 request needs a Host field"
            .to_owned(),
    ];
    assert_eq!(lines.as_deref(), Some(&expected[..]), "{}", server.stderr());
    drop(server);
    // They are warnings.
    let server = Site::new().file("a.txt", "a").config(&config("error")).start();
    server.get("/none");
    let mut server = server;
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
    assert!(!server.stderr().contains("404 Not Found"), "{}", server.stderr());
}

#[test]
fn script_starts_writes_the_processes_of_scripts_into_the_error_log() {
    let server = Site::new()
        .script("cgi-bin/a.cgi", "#!/bin/sh\nprintf 'Status: 204\\n\\n'\nexit 3\n")
        .config("[[route]]\npath = \"/cgi-bin/\"\ncgi = true\n[log]\nscript_starts = true\nlevel = \"error\"")
        .start();
    assert_eq!(server.get("/cgi-bin/a.cgi").status, 204);
    let started = server.wait_for_line(" was started: ", TIMEOUT);
    let (process, program) = started
        .split_once(" info: ")
        .and_then(|(_, text)| text.split_once(" was started: "))
        .expect("a program");
    assert_eq!(program, server.root().join("cgi-bin/a.cgi").display().to_string());
    server.wait_for_line(&format!(" info: {process} has ended: exit status 3"), TIMEOUT);
}

/// As in a container whose runtime reads both streams by one pipe.
#[test]
fn lines_of_both_logs_are_whole_in_one_pipe() {
    let site = Site::new().script("fails.cgi", "#!/bin/sh\nexit 1\n").config(
        "listen = \"unix:a.sock\"\n[log]\naccess = \"stdout\"\nfields = '$request_uri end'\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n",
    );
    let (config, socket) = (site.write_config(), site.home().join("a.sock"));
    let mut shell = tool("sh");
    shell.arg("-c").arg("exec \"$0\" -c \"$1\" 2>&1").arg(e2e::program()).arg(&config);
    let mut server = shell.stdout(Stdio::piped()).spawn().expect("it starts");
    assert!(wait_until(TIMEOUT, || UnixStream::connect(&socket).is_ok()));
    let long = "x".repeat(3000);
    let mut client = UnixStream::connect(&socket).expect("it listens");
    // More than a pipe has space for, before anything is read.
    for number in 0..200 {
        let folder = if number % 2 == 0 { "fails.cgi/" } else { "" };
        let request = format!("GET /{folder}{long} HTTP/1.0\r\nHost: h\r\n\r\n");
        client.write_all(request.as_bytes()).expect("it reads");
        client.read_to_end(&mut Vec::new()).expect("it responds");
        client = UnixStream::connect(&socket).expect("it listens");
    }
    let output = server.stdout.take().expect("it is a pipe");
    signal_process(server.id(), Signal::TERM);
    let text = io::read_to_string(output).expect("it is text");
    server.wait().expect("it ends");
    let is_whole = |line: &&str| line.ends_with(&format!("{long} end")) || !line.contains("xxx");
    let is_error =
        |line: &&str| line.starts_with("20") && (line.contains(" error: ") || line.contains(" warn: "));
    let torn: Vec<&str> = text.lines().filter(|line| !is_whole(line) && !is_error(line)).collect();
    let (requests, errors) = (text.matches(" end\n").count(), text.matches(" error: ").count());
    assert!(torn.is_empty() && requests > 100 && errors > 50, "{requests}, {errors}, {torn:#?}");
}
