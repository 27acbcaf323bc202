//! What an administrator does to a running program by the control socket: hosts in maintenance, the level of the error
//! log, drained endpoints, reopened logs. Each act is logged with who did it, and outlives a reload.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use e2e::upstream::upstream;
use e2e::{Rows, Server, Signal, Site, TIMEOUT, has_open, signal_process, stop_process, wait_until};

const HOSTS: &str = "workers = 2\npid_file = \"pid\"\n[timeouts]\ndelay = 0\n[[host]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"www\"\n\
                     error_pages = { 503 = \"/down.html\" }\n[[host]]\nnames = \"b.example\"\nroot = \"www\"\n\
                     [[host.route]]\npath = \"/-/healthy\"\nmonitor = \"healthy\"\n";

/// Its scripts have a process of their own.
const SCRIPTS: &str = "[timeouts]\ndelay = 0\n[[route]]\npath = \"*.cgi\"\ncgi = true\n";

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
        let end = format!(": {act}");
        let is_logged = |line: &String| line.contains(&uid) && line.ends_with(&end);
        let logged =
            server.errors().wait_for(TIMEOUT, |lines| lines.iter().any(is_logged).then_some(())).is_some();
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
        (&["maintenance", "a.example", "off"], 2, "; --off ends it"),
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
        (&["reopen", "x"], 2, "reopen takes no argument but -c FILE"),
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

/// `ann:a`
const ANN: &str = "Authorization: Basic YW5uOmE=\r\n";
const ACTS: &str = "[[route]]\npath = \"/-/acts\"\nmonitor = \"acts\"\nauth = \"basic\"\nplain_passwords = true\n\
                    users = { ann = \"a\" }\n";

/// Sends a form of the page, with these fields in its head. Returns the status and the page.
fn send_form(server: &Server, fields: &str, form: &str) -> (u16, String) {
    let length = form.len();
    let media_type = "Content-Type: application/x-www-form-urlencoded";
    let request = format!(
        "POST /-/acts HTTP/1.1\r\nHost: a\r\n{fields}{media_type}\r\nContent-Length: {length}\r\n\r\n{form}"
    );
    let response = server.request(request);
    (response.status, response.text().to_owned())
}

fn token(server: &Server) -> String {
    let page = server.request(format!("GET /-/acts HTTP/1.1\r\nHost: a\r\n{ANN}\r\n"));
    assert_eq!((page.status, page.field("cache-control")), (200, Some("no-store")));
    let text = page.text();
    let (_, rest) = text.split_once("name=\"token\" value=\"").expect("it has a token");
    rest.split('"').next().unwrap_or_default().to_owned()
}

#[test]
fn users_of_the_page_act_on_the_server() {
    let server = Site::new().file("a.txt", "a").config(&format!("[timeouts]\ndelay = 0\n{ACTS}")).start();
    let own = format!("{ANN}Origin: http://a\r\n");
    let token = token(&server);
    let mut rows = Rows::new();
    for (fields, form, expected) in [
        ("Origin: http://a\r\n".to_owned(), format!("act=reload&token={token}"), 401),
        (ANN.to_owned(), format!("act=reload&token={token}"), 403),
        (format!("{ANN}Origin: http://evil.example\r\n"), format!("act=reload&token={token}"), 403),
        (format!("{ANN}Origin: null\r\n"), format!("act=reload&token={token}"), 403),
        (format!("{own}Origin: http://evil.example\r\n"), format!("act=reload&token={token}"), 403),
        (format!("{own}Sec-Fetch-Site: cross-site\r\n"), format!("act=reload&token={token}"), 403),
        (format!("{own}Sec-Fetch-Site: same-site\r\n"), format!("act=reload&token={token}"), 403),
        (own.clone(), "act=reload&token=".to_owned(), 403),
        (own.clone(), format!("act=reload&token={token}x"), 403),
        (own.clone(), "act=reload".to_owned(), 400),
        (own.clone(), format!("act=upgrade&token={token}"), 400),
        (own.clone(), format!("act=serve&host=a%0Areload&token={token}"), 400),
        (own.clone(), format!("act=reload&token={token}&x={}", "x".repeat(9000)), 413),
    ] {
        let (status, _) = send_form(&server, &fields, &form);
        rows.holds(format!("{fields}{form:.60}"), &format!("{status} is {expected}"), status == expected);
    }
    assert!(!server.stderr().contains("page, "), "{}", server.stderr());
    let (status, text) = send_form(&server, &own, &format!("act=serve&host=<b>&token={token}"));
    rows.holds(
        "a hostile name",
        "is text",
        status == 200 && text.contains("&lt;b&gt;") && !text.contains("<b>"),
    );
    let (_, text) = send_form(&server, &own, &format!("act=maintenance&host=c.example&token={token}"));
    rows.holds("an unknown host", &text, text.contains("Not done: ") && text.contains("there is no host"));
    let form = format!("act=maintenance&host=default&seconds=7&token={token}");
    let (_, text) = send_form(&server, &format!("{ANN}Sec-Fetch-Site: same-origin\r\n"), &form);
    rows.holds("maintenance", &text, text.contains("Done: maintenance 7 default"));
    rows.holds("maintenance", "is on", wait_until(TIMEOUT, || server.get("/a.txt").status == 503));
    let (_, text) = send_form(&server, &own, &format!("act=serve&host=default&token={token}"));
    rows.holds("serve", &text, text.contains("Done: maintenance off default"));
    rows.holds("serve", "is on", wait_until(TIMEOUT, || server.get("/a.txt").status == 200));
    let (_, text) = send_form(&server, &own, &format!("act=reload&token={token}"));
    rows.holds("reload", &text, text.contains("Done: reload"));
    server.files().file("site.toml", "listen = [\"127.0.0.1:0\"]\nlisen = 1\n");
    let token = self::token(&server);
    let (_, text) = send_form(&server, &own, &format!("act=reload&token={token}"));
    rows.holds(
        "a mistake",
        &text,
        text.contains("Not done: reload") && text.contains("unknown key &quot;lisen&quot;"),
    );
    let logged = server.stderr().contains("control: page, ann at 127.0.0.1: maintenance 7 default");
    rows.holds("the error log", &server.stderr(), logged);
}

#[test]
fn a_page_of_acts_allows_forms() {
    let server = Site::new().config(&format!("[timeouts]\ndelay = 0\n{ACTS}")).start();
    let mut rows = Rows::new();
    for (method, status) in [("OPTIONS", 204), ("PUT", 405)] {
        let found =
            server.request(format!("{method} /-/acts HTTP/1.1\r\nHost: a\r\n{ANN}Content-Length: 0\r\n\r\n"));
        let allow = found.field("allow").unwrap_or_default().to_owned();
        rows.check(method, (found.status, allow), (status, "GET, HEAD, OPTIONS, POST".to_owned()));
    }
}

/// Nothing waits for the master without a bound. It is stopped here, so that each act takes long.
#[test]
fn too_many_acts_at_the_same_time_get_503() {
    let server = Site::new().config(&format!("workers = 2\n[timeouts]\ndelay = 0\n{ACTS}")).start();
    let own = format!("{ANN}Origin: http://a\r\n");
    let form = format!("act=reopen&token={}", token(&server));
    server.signal(Signal::STOP);
    let (sender, responses) = std::sync::mpsc::channel();
    let all: Vec<(u16, Option<String>)> = thread::scope(|scope| {
        for _ in 0..12 {
            let (server, own, form, sender) = (&server, &own, &form, sender.clone());
            scope.spawn(move || {
                let mut client = server.connect();
                client.set_timeout(TIMEOUT * 3);
                let length = form.len();
                client.send(format!(
                    "POST /-/acts HTTP/1.1\r\nHost: a\r\n{own}Content-Type: \
                     application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
                ));
                let response = client.read_response();
                _ = sender.send((response.status, response.field("retry-after").map(str::to_owned)));
            });
        }
        let mut all: Vec<_> = (0..4).map(|_| responses.recv_timeout(TIMEOUT).expect("a response")).collect();
        assert!(responses.try_recv().is_err(), "8 acts wait for the master");
        server.signal(Signal::CONT);
        all.extend((0..8).map(|_| responses.recv_timeout(TIMEOUT).expect("a response")));
        all
    });
    assert_eq!(all[..4], vec![(503, Some("1".to_owned())); 4]);
    assert_eq!(all[4..], vec![(200, None); 8]);
    let log = server.stderr();
    assert!(log.contains("page, ann at 127.0.0.1: refused, 8 acts are running"), "{log}");
    assert_eq!(log.matches("control: page, ann at 127.0.0.1: reopen").count(), 8, "{log}");
    assert_eq!(send_form(&server, &own, &form).0, 200);
}

/// Whether a process waits for bytes of a socket: read(2) and recvfrom(2) in `/proc/PID/syscall`.
fn reads_a_socket(pid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let fields: Vec<&str> = call.split_whitespace().collect();
    let [_, fd, ..] = fields[..] else { return false };
    let fd = u32::from_str_radix(fd.trim_start_matches("0x"), 16).unwrap_or(u32::MAX);
    let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    target.to_string_lossy().starts_with("socket:")
}

/// The processes that a reload starts keep no response of another command open.
#[test]
fn commands_that_arrive_together_get_responses() {
    let server = Site::new().file("a.txt", "a").script("a.cgi", "#!/bin/sh\n").config(SCRIPTS).start();
    server.signal(Signal::STOP);
    let mut commands = [
        ["reload", "-c", "site.toml"].as_slice(),
        &["stats", "--json", "-c", "site.toml"],
        &["disconnect", "--client", "127.0.0.9", "-c", "site.toml"],
        &["log-level", "info", "-c", "site.toml"],
    ]
    .map(|words| {
        let child = e2e::command().args(words).current_dir(server.home()).spawn().expect("it starts");
        assert!(wait_until(TIMEOUT, || reads_a_socket(child.id())), "{words:?}");
        (words, child)
    });
    server.signal(Signal::CONT);
    let mut rows = Rows::new();
    for (words, child) in &mut commands {
        let ended = wait_until(TIMEOUT, || child.try_wait().is_ok_and(|status| status.is_some()));
        rows.holds(words[0], "ends", ended);
        _ = child.kill();
        rows.check(words[0], child.wait().expect("it is our child").code(), Some(0));
    }
}

/// The error of a command that fails.
fn failure(server: &Server, words: &[&str]) -> String {
    let output = server.run_command(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An administrator must learn at once that a signal has stopped the program, or that its serving process hangs.
#[test]
fn a_command_to_a_program_that_is_stopped_says_so_and_waits_no_longer() {
    let server = site().start();
    stop_process(server.pid());
    thread::scope(|scope| {
        for words in [&["stats"][..], &["reload"], &["watch"]] {
            let server = &server;
            scope.spawn(move || {
                let found = failure(server, words);
                let expected = format!("is stopped; to continue it: kill -CONT {}", server.pid());
                assert!(found.contains(&expected), "{words:?}: {found}");
            });
        }
    });
    server.signal(Signal::CONT);
}

#[test]
fn a_command_to_a_process_that_hangs_says_so() {
    let server = site().start();
    let serving = server.serving_pid();
    stop_process(serving);
    let found = failure(&server, &["stats"]);
    assert!(found.contains("has not responded within 10 s"), "{found}");
    signal_process(serving, Signal::CONT);
    assert_eq!(server.run_command(&["stats"]).status.code(), Some(0));
}

/// What an administrator does next, such as to change files, meets no request that does not know of the maintenance.
#[test]
fn a_switch_to_maintenance_is_over_when_no_worker_serves_the_host() {
    let server = site().start();
    let serving = server.serving_pid();
    stop_process(serving);
    thread::scope(|scope| {
        let switched = scope.spawn(|| run(&server, &["maintenance", "a.example"]));
        server.wait_for_line(": maintenance 300 a.example", TIMEOUT);
        let has_ended = wait_until(Duration::from_millis(500), || switched.is_finished());
        signal_process(serving, Signal::CONT);
        assert!(!has_ended, "no worker knows it yet");
        assert_eq!(switched.join().expect("no panic"), (Some(0), String::new()));
    });
    for _ in 0..8 {
        assert_eq!(get(&server, "a.example", "/a.txt").0, 503);
    }
}

/// What an administrator does next, such as to compress the old file, must lose no line.
#[test]
fn no_process_writes_to_an_old_log_when_reopen_has_ended() {
    for rotate in ["", "rotate = { size = \"1GB\" }\n"] {
        let config = format!("[log]\naccess = \"./access.log\"\n{rotate}");
        let server = Site::new().file("a.txt", "a").config(&config).start();
        let (log, old) = (server.home().join("access.log"), server.home().join("old.log"));
        let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().lines().count();
        server.get("/a.txt");
        assert!(wait_until(TIMEOUT, || lines(&log) == 1));
        let writes = |pid: &u32| has_open(*pid, &log);
        let writer = server.children().into_iter().rev().find(writes).expect("a process writes the log");
        stop_process(writer);
        fs::rename(&log, &old).expect("it is ours");
        thread::scope(|scope| {
            let reopened = scope.spawn(|| run(&server, &["reopen"]));
            server.wait_for_line(": reopen", TIMEOUT);
            let has_ended = wait_until(Duration::from_millis(500), || reopened.is_finished());
            signal_process(writer, Signal::CONT);
            assert!(!has_ended, "it has only the old file");
            assert_eq!(reopened.join().expect("no panic"), (Some(0), String::new()));
        });
        assert!(!has_open(writer, &old), "{rotate}");
        server.get("/a.txt");
        assert!(wait_until(TIMEOUT, || lines(&log) == 1), "{rotate}");
        assert_eq!(lines(&old), 1, "{rotate}");
    }
}

#[test]
fn users_of_the_page_end_connections() {
    let server = Site::new().file("a.txt", "a").config(&format!("[timeouts]\ndelay = 0\n{ACTS}")).start();
    let own = format!("{ANN}Origin: http://a\r\n");
    let token = token(&server);
    let mut rows = Rows::new();
    let mut client = e2e::Client::tcp_from("127.0.0.9".parse().expect("an address"), server.addr());
    assert_eq!(client.get("/a.txt").status, 200);
    let (_, text) =
        send_form(&server, &own, &format!("act=disconnect&connection=&client=127.0.0.9&token={token}"));
    rows.holds("a client", &text, text.contains("Done: disconnect client 127.0.0.9\nended: 1 connection"));
    rows.holds("its connection", "ends", client.is_closed());
    for (form, expected) in [
        ("connection=ffff&client=", "Not done: disconnect connection ffff\nthere is no connection ffff"),
        ("connection=xyz&client=", "Not done: disconnect connection xyz\n"),
        ("connection=&client=a.example", "Not done: disconnect client a.example\n"),
    ] {
        let (status, text) = send_form(&server, &own, &format!("act=disconnect&{form}&token={token}"));
        rows.holds(form, &text, status == 200 && text.contains(expected));
    }
    let (status, _) = send_form(&server, &own, &format!("act=disconnect&token={token}"));
    rows.check("nothing", status, 400);
    let logged = server.stderr().contains("control: page, ann at 127.0.0.1: disconnect client 127.0.0.9");
    rows.holds("the error log", &server.stderr(), logged);
}

#[test]
fn a_form_for_acts_needs_credentials() {
    let rule = "[[route.rule]]\naddress = \"127.0.0.1\"\nthen = \"allow\"\n[[route.rule]]\nthen = \"deny\"\n";
    let none = "[[route]]\npath = \"/-/acts\"\nmonitor = \"acts\"\n";
    let any = format!("{ACTS}satisfy = \"any\"\n");
    for config in [none, &any] {
        let open = Site::new().config(&format!("{config}{rule}"));
        let file = open.write_config();
        let checked = e2e::run([std::path::Path::new("check"), std::path::Path::new("-c"), &file]);
        let text = String::from_utf8_lossy(&checked.stderr);
        assert!(text.contains("\"acts\" changes the running server, and asks for no credentials"), "{text}");
        assert_eq!(checked.status.code(), Some(1));
    }
    // Rules that ask some clients for a user let others have other pages, but not this one.
    let rules = "[[route.rule]]\naddress = \"127.0.0.1\"\nthen = \"allow\"\n[[route.rule]]\nthen = \"authenticate\"\n";
    let server = Site::new().config(&format!("{ACTS}satisfy = \"rules\"\n{rules}")).start();
    assert_eq!(server.get("/-/acts").status, 403);
    assert_eq!(send_form(&server, "Origin: http://a\r\n", "act=reload&token=x").0, 403);
}
