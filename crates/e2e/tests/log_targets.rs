//! Logs that go to commands and TCP peers, and files that the server rotates: no line is lost where it can be
//! delivered, no request waits where it cannot, and what is lost is counted.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use e2e::{
    Rows, Server, Signal, Site, SmallDisk, TIMEOUT, command, output_of, run, runs, signal_process, wait_until,
};

fn site(log: &str) -> Site {
    Site::new().file("a.txt", "0123456789").config(&format!("workers = 2\n[log]\nformat = \"boa\"\n{log}"))
}

/// Requests with numbers, so that each line is different.
fn request(server: &Server, numbers: std::ops::Range<u32>) {
    let mut client = server.connect();
    for number in numbers {
        assert_eq!(client.get(&format!("/a.txt?{number}")).status, 200);
    }
}

/// How often each number is in these lines.
fn numbers<'l>(lines: impl IntoIterator<Item = &'l str>) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for line in lines {
        let number = line.split_once("/a.txt?").and_then(|(_, rest)| rest.split_once(' '));
        let number = number.and_then(|(number, _)| number.parse().ok());
        *found.entry(number.unwrap_or_else(|| panic!("no line of a request: {line}"))).or_default() += 1;
    }
    found
}

/// Each number once.
fn each_once(numbers: std::ops::Range<u32>) -> BTreeMap<u32, usize> {
    numbers.map(|number| (number, 1)).collect()
}

/// The lines on standard error that begin so, without the beginning.
fn lines_with(server: &Server, start: &str) -> Vec<String> {
    server.errors().all().iter().filter_map(|line| line.strip_prefix(start)).map(str::to_owned).collect()
}

fn wait_for_lines(server: &Server, start: &str, count: usize) -> Vec<String> {
    wait_until(TIMEOUT, || lines_with(server, start).len() >= count);
    let found = lines_with(server, start);
    assert!(found.len() >= count, "{} of {count} lines with {start}:\n{}", found.len(), server.stderr());
    found
}

#[test]
fn a_command_gets_every_line_and_the_last_ones_at_the_stop() {
    let mut server = site(r#"access = "|$exec sed -u s/^/one:/ >&2""#).start();
    request(&server, 0..20);
    wait_for_lines(&server, "one:", 20);
    request(&server, 20..300);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    let lines = wait_for_lines(&server, "one:", 300);
    assert_eq!(numbers(lines.iter().map(String::as_str)), each_once(0..300));
}

#[test]
fn a_command_that_ends_is_started_again_and_the_next_one_gets_the_rest_in_whole_lines() {
    // The shell reads byte by byte: it takes one line and the beginning of the next one.
    let server = site(r#"access = "|$read -r line; echo got:$line >&2; exec head -c 5 >/dev/null""#).start();
    request(&server, 0..6);
    let lines = wait_for_lines(&server, "got:", 6);
    assert_eq!(numbers(lines.iter().map(String::as_str)), each_once(0..6));
    let ended = server.wait_for_line("it has ended: exit code 0", TIMEOUT);
    assert!(ended.contains("it is tried again"), "{ended}");
}

#[test]
fn a_command_that_cannot_be_executed_is_refused() {
    let mut rows = Rows::new();
    for (access, reason) in [
        ("|/nonexistent/logger -x", "/nonexistent/logger, cannot be executed"),
        ("|/etc/passwd", "/etc/passwd, cannot be executed"),
        ("|cat", "expected"),
        ("|/bin/cat 'x", "expected"),
        ("tcp://example.org", "expected"),
    ] {
        let site = site(&format!("access = \"{access}\""));
        let config = site.write_config();
        let started = errors_of_start(&config);
        rows.holds(access, &format!("the start says {reason}: {started}"), started.contains(reason));
        let checked = run([Path::new("check"), Path::new("-c"), &config]);
        let checked = String::from_utf8_lossy(&checked.stderr).into_owned();
        rows.holds(access, &format!("the check says {reason}: {checked}"), checked.contains(reason));
        rows.holds(access, &format!("the check says where: {checked}"), checked.contains("site.toml:"));
    }
}

#[test]
fn a_command_that_does_not_read_delays_no_request_and_the_losses_are_counted() {
    let mut server = site("access = \"|/bin/sleep 1000\"\nqueue = 1").start();
    let started = Instant::now();
    request(&server, 0..8000);
    assert!(started.elapsed() < 2 * TIMEOUT);
    let reported = server.wait_for_line("dropped: log |/bin/sleep 1000", TIMEOUT);
    assert!(reported.contains("error"), "{reported}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(2 * TIMEOUT).code(), Some(0));
    // What was lost is all that was logged, because the command has read nothing.
    let lost = |line: &str| {
        let (before, _) = line.split_once(" log line")?;
        before.rsplit(' ').next()?.parse::<u32>().ok()
    };
    let lost: u32 = server.errors().all().iter().filter_map(|line| lost(line)).sum();
    assert_eq!(lost, 8000, "{}", server.stderr());
}

/// What a start says that fails.
fn errors_of_start(config: &Path) -> String {
    let output = output_of(command().arg("-c").arg(config));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines that a peer receives on its next connection.
fn receive(listener: &TcpListener, count: usize) -> Vec<String> {
    let (stream, _) = listener.accept().expect("the server connects");
    stream.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
    BufReader::new(stream).lines().take(count).map(|line| line.expect("a line comes")).collect()
}

#[test]
fn a_peer_gets_lines_by_tcp_and_again_after_it_was_away() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut server = site(&format!("access = \"tcp://localhost:{port}\"")).start();
    request(&server, 0..5);
    let first = receive(&listener, 5);
    assert_eq!(numbers(first.iter().map(String::as_str)), each_once(0..5));
    // The peer has closed the connection. It gets the lines on the next one.
    server.wait_for_line("closed the connection", TIMEOUT);
    request(&server, 5..10);
    let second = receive(&listener, 5);
    assert_eq!(numbers(second.iter().map(String::as_str)), each_once(5..10));
    drop(listener);
    server.wait_for_line("cannot connect to 127.0.0.1", TIMEOUT);
    request(&server, 10..12);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(2 * TIMEOUT).code(), Some(0));
    assert!(server.stderr().contains("2 log lines were dropped"), "{}", server.stderr());
}

#[test]
fn a_peer_that_never_reads_delays_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = site(&format!("access = \"tcp://127.0.0.1:{port}\"\nqueue = 1")).start();
    let (_stream, _) = listener.accept().expect("the server connects");
    let mut client = server.connect();
    let agent = "x".repeat(6000);
    // The kernel holds some megabytes for the peer.
    let is_reported = || {
        (0..100).for_each(|_| {
            assert_eq!(client.get_with("/a.txt", &format!("User-Agent: {agent}\r\n")).status, 200)
        });
        server.stderr().contains("dropped: log tcp://127.0.0.1")
    };
    assert!(wait_until(3 * TIMEOUT, is_reported), "{}", server.stderr());
}

#[test]
fn a_reload_keeps_a_logger_or_replaces_it_without_losing_lines() {
    let config = |name: &str, more: &str| {
        format!("{more}\n[log]\nformat = \"boa\"\naccess = \"|$exec sed -u s/^/{name}:/ >&2\"")
    };
    let server = Site::new().file("a.txt", "a").config(&config("one", "")).start();
    request(&server, 0..50);
    let before = server.children();
    server.configure(&config("one", "etag = \"content\""));
    server.reload();
    let after = server.children();
    assert_eq!(before[0], after[0], "the logger stays");
    request(&server, 50..100);
    server.configure(&config("two", ""));
    server.reload();
    request(&server, 100..150);
    let one = wait_for_lines(&server, "one:", 100);
    let two = wait_for_lines(&server, "two:", 50);
    assert_eq!(numbers(one.iter().map(String::as_str)), each_once(0..100));
    assert_eq!(numbers(two.iter().map(String::as_str)), each_once(100..150));
    assert!(wait_until(TIMEOUT, || !server.children().contains(&before[0])), "the old logger ends");
}

#[test]
fn a_logger_that_was_killed_is_replaced_and_gets_the_lines_of_the_time_between() {
    let server = site(r#"access = "|$exec sed -u s/^/one:/ >&2""#).start();
    request(&server, 0..10);
    wait_for_lines(&server, "one:", 10);
    let serving = server.serving_pid();
    let mut number = 10;
    for pause in ["at once", "in 0.5 s"] {
        let logger = server.children().into_iter().find(|child| *child != serving).expect("it runs");
        signal_process(logger, Signal::KILL);
        let line = format!("writes logs has ended: killed by SIGKILL; it is replaced {pause}");
        server.wait_for_line(&line, TIMEOUT);
        request(&server, number..number + 10);
        number += 10;
        let lines = wait_for_lines(&server, "one:", number as usize);
        assert_eq!(numbers(lines.iter().map(String::as_str)), each_once(0..number));
    }
    assert_eq!(server.stats()["log_lines_dropped"], 0);
}

#[test]
fn the_log_says_that_the_process_that_writes_it_has_ended() {
    let server = rotating("{ size = \"1MiB\" }").config("error = \"logs/error.log\"").start();
    let log = server.home().join("logs/error.log");
    assert!(wait_until(TIMEOUT, || log.exists()));
    signal_process(server.children()[0], Signal::KILL);
    let line = "the process that writes logs has ended: killed by SIGKILL; it is replaced at once";
    let is_logged = || fs::read_to_string(&log).is_ok_and(|text| text.contains(line));
    assert!(wait_until(TIMEOUT, is_logged), "{:?}", fs::read_to_string(&log));
    assert!(server.stderr().contains(line), "also where the log is not needed for it: {}", server.stderr());
}

#[test]
fn a_command_that_does_not_end_is_ended_with_what_it_has_started() {
    let mut server = site(r#"access = "|$sleep 1000 & echo pid:$! >&2; wait""#).start();
    request(&server, 0..1);
    let pid: u32 = wait_for_lines(&server, "pid:", 1)[0].parse().expect("it is a number");
    server.signal(Signal::TERM);
    server.wait(2 * TIMEOUT);
    assert!(wait_until(TIMEOUT, || !runs(pid)), "it goes on");
}

/// The log and all its rotated files, decompressed: name and text.
fn rotated(server: &Server) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(server.home().join("logs")).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // It has another name by now, or is compressed.
        let Ok(bytes) = fs::read(&path) else { return rotated(server) };
        let mut text = String::new();
        match () {
            () if name.starts_with('.') => continue,
            () if name.ends_with(".gz") => {
                flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("it is gzip");
            }
            () => text = String::from_utf8(bytes).expect("it is text"),
        }
        files.insert(name, text);
    }
    files
}

fn rotating(rotate: &str) -> Site {
    site(&format!("access = \"logs/access.log\"\nrotate = {rotate}")).file_beside_root("logs/x", "")
}

#[test]
fn a_file_is_rotated_by_its_size_without_losing_a_line_of_any_worker_nor_at_a_reload() {
    let server = rotating(r#"{ size = "4KiB", keep = 1000, names = "number" }"#).start();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let server = &server;
            scope.spawn(move || request(server, part * 200..(part + 1) * 200));
        }
        server.reload();
        server.signal(Signal::USR1);
    });
    let all = || -> Vec<String> {
        rotated(&server)
            .iter()
            .filter(|(name, _)| *name != "x")
            .flat_map(|(_, text)| text.lines().map(str::to_owned))
            .collect()
    };
    assert!(wait_until(TIMEOUT, || all().len() >= 800), "{} lines", all().len());
    let is_compressed = || {
        let files = rotated(&server);
        let of_log = files.keys().filter(|name| name.starts_with("access.log."));
        of_log.clone().count() > 15 && of_log.clone().all(|name| name.ends_with(".gz"))
    };
    assert!(wait_until(TIMEOUT, is_compressed), "{:?}", rotated(&server).keys());
    assert_eq!(numbers(all().iter().map(String::as_str)), each_once(0..800));
    for (name, text) in rotated(&server) {
        assert!(text.len() <= 4096, "{name} has {} bytes", text.len());
        assert!(name == "x" || text.is_empty() || text.ends_with('\n'), "{name}");
    }
}

#[test]
fn only_as_many_rotated_files_are_kept_as_configured() {
    let server = rotating(r#"{ size = "4KiB", keep = 3, compress = "none" }"#).start();
    request(&server, 0..400);
    let is_kept = || {
        let files = rotated(&server);
        let last = files.iter().any(|(_, text)| text.contains("?399 "));
        last && files.keys().filter(|name| name.starts_with("access.log-20")).count() == 3
    };
    assert!(wait_until(TIMEOUT, is_kept), "{:?}", rotated(&server).keys());
    assert!(!server.stderr().contains("error"), "{}", server.stderr());
}

#[test]
fn a_file_that_another_program_has_renamed_is_opened_again_at_the_signal() {
    let server = rotating(r#"{ every = "day" }"#).start();
    let path = |name: &str| server.home().join("logs").join(name);
    request(&server, 0..5);
    let has = |name: &str, count: usize| {
        wait_until(TIMEOUT, || fs::read_to_string(path(name)).unwrap_or_default().lines().count() == count)
    };
    assert!(has("access.log", 5));
    fs::rename(path("access.log"), path("moved")).expect("it is ours");
    request(&server, 5..8);
    assert!(has("moved", 8), "until the signal, the server writes to the old file");
    server.signal(Signal::USR1);
    assert!(wait_until(TIMEOUT, || path("access.log").exists()));
    request(&server, 8..10);
    assert!(has("access.log", 2) && has("moved", 8));
}

#[test]
fn a_file_of_an_earlier_day_is_rotated_when_the_server_starts_to_write() {
    let site = rotating(r#"{ every = "day" }"#).file_beside_root("logs/access.log", "old\n");
    let old = fs::File::options().write(true).open(site.home().join("logs/access.log")).expect("it is ours");
    old.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
        .expect("it is ours");
    drop(old);
    let server = site.start();
    request(&server, 0..1);
    let is_rotated = || {
        let files = rotated(&server);
        files.get("access.log").is_some_and(|text| text.contains("?0 "))
            && files.iter().any(|(name, text)| {
                name.starts_with("access.log-") && name.ends_with(".gz") && text == "old\n"
            })
    };
    assert!(wait_until(TIMEOUT, is_rotated), "{:?}", rotated(&server));
}

#[test]
fn a_folder_that_was_removed_costs_lines_but_no_request() {
    let server = rotating(r#"{ size = "4KiB" }"#).start();
    request(&server, 0..1);
    fs::remove_dir_all(server.home().join("logs")).expect("it is ours");
    request(&server, 1..200);
    let reported = server.wait_for_line("it is tried again", TIMEOUT);
    assert!(reported.contains("logs/access.log"), "{reported}");
    request(&server, 200..201);
}

#[test]
fn a_full_disk_costs_lines_which_are_counted_but_no_request() {
    let server = site("access = \"/dev/full\"\nrotate = { size = \"4KiB\" }").start();
    request(&server, 0..200);
    server.wait_for_line("dropped: /dev/full cannot be written", TIMEOUT);
    request(&server, 200..201);
    assert!(Path::new("/dev/full").exists(), "a device is not rotated");
}

#[test]
fn a_full_disk_that_is_mounted_has_no_rotated_file_removed_for_an_empty_one() {
    let site =
        site("access = \"logs/access.log\"\nrotate = { size = \"4KiB\", keep = 1000, compress = \"none\" }");
    let logs = site.home().join("logs");
    fs::create_dir(&logs).expect("it is our folder");
    let _disk = SmallDisk::mount(&logs, "size=64k,mode=700");
    let server = site.start();
    request(&server, 0..200);
    let has_line = |number: u32| {
        let line = format!("?{number} ");
        wait_until(TIMEOUT, || rotated(&server).values().any(|text| text.contains(&line)))
    };
    assert!(has_line(199), "{:?}", rotated(&server));
    // The last bytes do not fit.
    _ = fs::write(logs.join("ballast"), vec![0; 128 * 1024]);
    request(&server, 200..1000);
    let mut next = 1000;
    // The count is reported with a later line.
    let are_dropped = || {
        request(&server, next..next + 1);
        next += 1;
        let errors = server.stderr();
        let counts = errors.lines().filter_map(|line| line.split_once(" log line"));
        let counts = counts.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<u32>().ok());
        counts.sum::<u32>() > 600
    };
    assert!(wait_until(TIMEOUT, are_dropped), "{}", server.stderr());
    fs::remove_file(logs.join("ballast")).expect("it is ours");
    request(&server, 5000..5001);
    assert!(has_line(5000), "it is written again");
    let files = rotated(&server);
    let empty: Vec<&String> =
        files.iter().filter(|(_, text)| text.is_empty()).map(|(name, _)| name).collect();
    assert!(empty.is_empty(), "{empty:?} of {:?}", files.keys());
}

#[test]
fn what_a_full_disk_that_is_mounted_has_left_plain_is_compressed_when_there_is_room() {
    let site = site("access = \"logs/access.log\"\nrotate = { size = \"1MiB\", compress = \"gzip\" }");
    let logs = site.home().join("logs");
    fs::create_dir(&logs).expect("it is our folder");
    let _disk = SmallDisk::mount(&logs, "size=64k,mode=700");
    let plain = logs.join("access.log-20261122-153059");
    fs::write(&plain, "a line\n").expect("it fits");
    assert!(fs::write(logs.join("ballast"), vec![0; 128 * 1024]).is_err(), "it is full");
    let server = site.start();
    let line = server.wait_for_line("cannot compress access.log-20261122-153059", TIMEOUT);
    assert!(line.contains("No space left on device") && line.contains("tried again in 5 s"), "{line}");
    fs::remove_file(logs.join("ballast")).expect("it is ours");
    assert!(wait_until(TIMEOUT, || !plain.exists()), "{:?}", rotated(&server).keys());
    assert_eq!(rotated(&server)["access.log-20261122-153059.gz"], "a line\n");
}

#[test]
fn a_rotation_that_is_never_due_is_refused() {
    let mut rows = Rows::new();
    for (rotate, reason) in [
        ("{}", "does not say when"),
        ("{ keep = 5 }", "does not say when"),
        ("{ size = \"1\" }", "expected a size"),
        ("{ every = \"week\" }", "expected one of"),
        ("{ every = \"day\", at = \"25:00\" }", "no time of the day"),
        ("{ every = \"hour\", at = \"03:00\" }", "has no effect"),
        ("{ size = \"1MiB\", kept = 3 }", "keep"),
    ] {
        let site = rotating(rotate);
        let started = errors_of_start(&site.write_config());
        rows.holds(rotate, &format!("it says {reason}: {started}"), started.contains(reason));
    }
}

#[test]
fn only_errors_and_a_sample_of_the_others_have_lines_with_the_fields_that_are_named() {
    let server = Site::new()
        .file("a.txt", "0123456789")
        .config(
            "workers = 1\n[log]\naccess = \"stdout\"\nonly = [\"errors\"]\nsample = 10\n\
             fields = '$status \"$http_user_agent\" $request_uri ${body_bytes_sent}B'",
        )
        .start();
    let mut client = server.connect();
    for number in 0..20 {
        assert_eq!(client.get_with(&format!("/a.txt?{number}"), "User-Agent: a\"b\r\n").status, 200);
        assert_eq!(client.get(&format!("/missing?{number}")).status, 404);
    }
    let lines = server.output().wait_for(TIMEOUT, |lines| (lines.len() >= 22).then(|| lines.to_vec()));
    let lines = lines.unwrap_or_else(|| panic!("{}", server.stdout()));
    let sampled: Vec<&String> = lines.iter().filter(|line| line.starts_with("200 ")).collect();
    assert_eq!(sampled, [r#"200 "a\x22b" /a.txt?0 10B"#, r#"200 "a\x22b" /a.txt?10 10B"#]);
    let errors = lines.iter().filter(|line| line.starts_with("404 \"-\" /missing?")).count();
    assert_eq!((errors, lines.len()), (20, 22), "{lines:?}");
}

#[test]
fn a_selection_or_a_format_that_means_nothing_is_refused() {
    let mut rows = Rows::new();
    for (log, reason) in [
        ("fields = \"$nonsense\"", "unknown field $nonsense; known are $remote_addr"),
        ("fields = \"plain\"", "no field"),
        ("fields = \"$status\"\nformat = \"json\"", "exclude each other"),
        ("only = [\"slow\", \"fast\"]", "expected an array"),
        ("slow = \"1s\"", "has no effect"),
        ("sample = 0", "expected an integer from 1"),
    ] {
        let site = Site::new().config(&format!("[log]\naccess = \"stdout\"\n{log}"));
        let started = errors_of_start(&site.write_config());
        rows.holds(log, &format!("it says {reason}: {started}"), started.contains(reason));
    }
}

#[test]
fn what_scripts_write_to_standard_error_has_a_log_of_its_own() {
    let server = Site::new()
        .script("cgi-bin/a.cgi", "#!/bin/sh\necho of the script >&2\nprintf 'Status: 204\\n\\n'\n")
        .config("[[route]]\npath = \"/cgi-bin/\"\ncgi = true\n[log]\nscripts = \"./scripts.log\"")
        .start();
    assert_eq!(server.get("/cgi-bin/a.cgi").status, 204);
    let log = server.home().join("scripts.log");
    let has_line = || fs::read_to_string(&log).is_ok_and(|text| text.contains("of the script\n"));
    assert!(wait_until(TIMEOUT, has_line), "{}", server.stderr());
    assert!(!server.stderr().contains("of the script"), "{}", server.stderr());
}

/// The lines of a log and of the files that were rotated away, each with its target.
fn targets(server: &Server, name: &str) -> Vec<String> {
    let entries = fs::read_dir(server.home().join("logs")).expect("it is there").flatten();
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(name));
    let text: String = files.map(|file| fs::read_to_string(file.path()).unwrap_or_default()).collect();
    let mut targets: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').nth(6)).map(str::to_owned).collect();
    targets.sort();
    targets
}

#[test]
fn each_host_has_a_file_that_is_rotated_and_opened_again_and_no_client_names_one() {
    let config = |more: &str| {
        format!(
            "workers = 2\n[log]\naccess = \"logs/$host.log\"\n{more}\n\
             [log.rotate]\nsize = \"4KiB\"\nkeep = 1000\ncompress = \"none\"\n\
             [[host]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"www\"\n\
             [[host]]\nnames = \"*.b.example\"\nroot = \"www\"\n"
        )
    };
    let server = Site::new().file("a.txt", "hello\n").config(&config(""));
    fs::create_dir(server.home().join("logs")).expect("it is our folder");
    let server = server.start();
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    let mut next = 0;
    let mut send = |expected: &mut [Vec<String>; 3]| {
        for _ in 0..40 {
            for (host, log) in [
                ("a.example", 0),
                ("WWW.a.example:80", 0),
                ("x.b.example", 1),
                ("..", 2),
                ("unknown.example", 2),
                ("$host", 2),
            ] {
                let target = format!("/a.txt?{next:05}");
                next += 1;
                let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
                // Some are no names of hosts; they have a line, too.
                let status = server.request(request).status;
                assert!(status == 200 || status == 400, "{host}: {status}");
                if status == 200 {
                    expected[log].push(target);
                }
            }
        }
    };
    let names = ["a.example", "_.b.example", "default"];
    let found =
        || names.map(|name| targets(&server, name).into_iter().filter(|t| t != "-").collect::<Vec<_>>());
    send(&mut expected);
    assert!(wait_until(TIMEOUT, || found() == expected), "{:?}", found().map(|lines| lines.len()));
    server.signal(Signal::USR1);
    send(&mut expected);
    server.configure(&config("format = \"common\""));
    server.reload();
    send(&mut expected);
    assert!(wait_until(TIMEOUT, || found() == expected), "{:?}", found().map(|lines| lines.len()));
    let mut logs: Vec<String> = fs::read_dir(server.home().join("logs"))
        .expect("it is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    logs.sort();
    assert!(logs.len() > names.len(), "they are rotated: {logs:?}");
    assert!(
        logs.iter().all(|log| names.iter().any(|name| log.starts_with(&format!("{name}.log")))),
        "{logs:?}"
    );
    let checked = server.run_command(&["check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
    let config = server.home().join("site.toml");
    let refused = run(["-c".as_ref(), config.as_os_str(), "--access-log".as_ref(), "stdout".as_ref()]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("--access-log stdout cannot replace the logs of hosts"), "{text}");
}
