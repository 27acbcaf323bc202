//! `taipan watch`: what it shows of which requests, and what a watcher costs the others.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::channel;

use e2e::upstream::upstream;
use e2e::{
    Authority, Client, Lines, Rows, Server, Signal, Site, TIMEOUT, Tls, authority, command, output_of,
    signal_process, stop_process, wait_until,
};

/// `taipan watch` with its lines. It ends with the test.
struct Watcher {
    child: Child,
    output: Lines,
    errors: Lines,
}

impl Watcher {
    /// Waits until it watches.
    fn start(server: &Server, flags: &[&str]) -> Watcher {
        let watcher = Watcher::spawn(server, flags);
        assert!(watcher.has("# watching process"), "{} {}", watcher.output.text(), watcher.errors.text());
        watcher
    }

    fn spawn(server: &Server, flags: &[&str]) -> Watcher {
        let mut command = command();
        command.arg("watch").args(flags).arg("-c").arg(server.home().join("site.toml"));
        let mut child = command.spawn().expect("it starts");
        let output = Lines::of(child.stdout.take().expect("it is a pipe"));
        let errors = Lines::of(child.stderr.take().expect("it is a pipe"));
        Watcher { child, output, errors }
    }

    /// Waits for a line with `pattern`.
    fn has(&self, pattern: &str) -> bool {
        let found = |lines: &[String]| lines.iter().any(|line| line.contains(pattern)).then_some(());
        self.output.wait_for(TIMEOUT, found).is_some()
    }

    fn expect(&self, patterns: &[&str]) {
        let mut rows = Rows::new();
        for pattern in patterns {
            rows.holds(pattern, &format!("is shown in\n{}", self.output.text()), self.has(pattern));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Fails only if it has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn site() -> Site {
    let rules = "[[route]]\npath = \"/private/\"\n[[route.rule]]\naddress = \"192.0.2.0/24\"\nthen = \"allow\"\n\
                 [[route.rule]]\nthen = \"deny\"\n\
                 [[route]]\npath = \"/inside/\"\n[[route.rule]]\nserver_address = \"127.0.0.0/8\"\nthen = \"deny\"\n";
    let app = upstream(|mut stream, _| {
        let fields = "Content-Length: 2\r\nSet-Cookie: id=secret\r\nX-Of-The-App: yes\r\nConnection: close";
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok").as_bytes())
    });
    let config =
        format!("workers = 2\n[timeouts]\ndelay = 0\n{rules}[[route]]\npath = \"/app\"\nproxy = \"{app}\"\n");
    Site::new().file("a.txt", "0123456789").file("private/a.txt", "a").config(&config)
}

#[test]
fn shows_requests_hop_by_hop() {
    let server = site().start();
    let watcher = Watcher::start(&server, &[]);
    let mut client = server.connect();
    let secret = "Authorization: Basic c2VjcmV0\r\nCookie: secret\r\n";
    client.request(format!("GET /a.txt?key=secret HTTP/1.1\r\nHost: www.example\r\n{secret}\r\n"));
    let root = server.root();
    watcher.expect(&[
        "127.0.0.1 GET /a.txt?key=… HTTP/1.1",
        "> Host: www.example",
        "> Authorization: (14 bytes, not shown)",
        "> Cookie: (6 bytes, not shown)",
        "host      the default host",
        "access    127.0.0.1 is allowed: no rule matches",
        &format!("route     /: files beneath {}", root.display()),
        &format!("file      {}", root.join("a.txt").display()),
        "response  200 OK",
        "< Content-Length: 10",
        "end       10 bytes in 0.",
    ]);
    client.get("/private/a.txt");
    watcher.expect(&[
        "access    127.0.0.1 is denied with 403 Forbidden, by the rule in",
        "response  403 Forbidden",
    ]);
    client.get("/app");
    watcher.expect(&[
        "route     /app: a reverse proxy",
        "run by    ",
        "< X-Of-The-App: yes",
        "< Set-Cookie: (9 bytes, not shown)",
        "upstream  127.0.0.1:",
        ": 200 OK, connected after 0.",
    ]);
    client.request("POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    watcher.expect(&["POST /app HTTP/1.1"]);
    client.get("/a/%2e%2e/%2e%2e/x");
    watcher.expect(&["path      rejected: "]);
    let shown = watcher.output.text();
    assert!(!shown.contains("secret"), "{shown}");
    // Requests by both workers and ways have different numbers.
    let numbers: Vec<&str> =
        shown.lines().filter(|line| line.contains(" request ")).map(|line| &line[..6]).collect();
    assert_eq!(numbers, ["#1    ", "#2    ", "#3    ", "#4    ", "#5    "], "{shown}");
}

#[test]
fn shows_only_the_requests_that_match() {
    let server = site().start();
    let mut rows = Rows::new();
    for (flags, expected) in [
        (&["--path", "/app*"][..], "/app /app?3"),
        (&["--host", "*.example"], "/a.txt?1 /app"),
        (&["--client", "127.0.0.0/8", "--status", "4xx"], "/missing"),
        (&["--client", "192.0.2.7"], ""),
        (&["--status", "404"], "/missing"),
        (&["--slower", "1h"], ""),
        (&["--upstream", "127.0.0.1:*"], "/app /app?3"),
        (&["--upstream", "10.*"], ""),
    ] {
        // The last request, which all filters but one for upstreams take, says that there are no more.
        let watcher = Watcher::start(&server, flags);
        let mut client = server.connect();
        for (path, host) in
            [("/a.txt?1", "a.example"), ("/missing", "b"), ("/app", "c.example"), ("/app?3", "d")]
        {
            client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        }
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let shown = |lines: &[String]| -> Vec<String> {
            let requests = lines.iter().filter(|line| line.contains(" request "));
            requests
                .filter_map(|line| line.split(' ').find(|word| word.starts_with('/')))
                .map(str::to_owned)
                .collect()
        };
        let ended = |lines: &[String]| lines.iter().filter(|line| line.contains(" end ")).count();
        let is_complete = |lines: &[String]| (ended(lines) >= expected.len()).then_some(());
        watcher.output.wait_for(TIMEOUT, is_complete);
        let found: Vec<String> =
            shown(&watcher.output.all()).iter().map(|path| path.replace("?…", "")).collect();
        let expected: Vec<String> =
            expected.iter().map(|path| path.split('?').next().unwrap_or("").to_owned()).collect();
        rows.holds(flags.join(" "), &format!("{found:?} are {expected:?}"), found == expected);
    }
}

#[test]
fn a_certificate_that_counts_for_another_host_matches_no_rule() {
    let clients = Authority::new("the clients");
    let own = authority().server(&["localhost", "wanted"]);
    let config = "listen = \"127.0.0.1:0 tls\"\nnames = \"localhost\"\ncertificate = \"certificate.pem\"\n\
                  [[rule]]\nclient_certificate = \"CN=Alice\"\nthen = \"deny\"\n\
                  [[host]]\nnames = \"wanted\"\nroot = \"www\"\nclient_certificates = \"optional\"\n\
                  client_ca = \"clients.pem\"\n";
    let server = Site::new()
        .file("a.txt", "a")
        .file_beside_root("certificate.pem", own.certificate + &own.key)
        .file_beside_root("clients.pem", clients.pem())
        .config(config)
        .start();
    let watcher = Watcher::start(&server, &[]);
    let alice = Tls::with_certificate(&clients.client("Alice")).server("wanted");
    let mut client = Client::tls(server.tcp(0), &alice);
    let response = client.request("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.status, 200);
    watcher.expect(&["access    127.0.0.1 is allowed: no rule matches"]);
}

#[test]
fn refuses_what_is_no_filter() {
    let server = site().start();
    let mut rows = Rows::new();
    for (flags, expected) in [
        (&["--status", "9xx"][..], "--status 9xx: write a status such as 404, or 5xx"),
        (&["--client", "10.0.0.1/8"], "--client 10.0.0.1/8: "),
        (&["--slower", "soon"], "--slower soon: write a time such as 500ms or 2s"),
        (&["--rate", "0"], "--rate 0: write a number from 1 to 10000"),
        (&["--path", "a\nb"], "has a control character"),
        (&["everything"], "watch takes flags alone"),
    ] {
        let output = server.run_command(&[&["watch"], flags].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(flags.join(" "), &format!("{expected}: {text}"), text.contains(expected));
        rows.holds(flags.join(" "), "exits with 2", output.status.code() == Some(2));
    }
}

/// A request that has not ended is shown up to the step that it has reached.
#[test]
fn shows_a_request_while_it_runs() {
    let (release, released) = channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    let app = upstream(move |mut stream, _| {
        // Returns when the test has seen the request, or has failed.
        _ = released.lock().expect("no thread panics").recv();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let server = Site::new().config(&format!("[[route]]\npath = \"/\"\nproxy = \"{app}\"\n")).start();
    let watcher = Watcher::start(&server, &[]);
    let mut client = server.connect();
    client.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    watcher.expect(&["POST /slow HTTP/1.1", "route     /: a reverse proxy"]);
    assert!(!watcher.output.text().contains("response"));
    drop(release);
    assert_eq!(client.read_response().status, 200);
    watcher.expect(&["response  200 OK", "end       2 bytes"]);
    client.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    watcher.expect(&["#2     request"]);
    drop(client);
    watcher.expect(&["#2     end"]);
}

#[test]
fn goes_on_after_a_reload_and_ends_with_the_program() {
    let mut server = site().start();
    let mut watcher = Watcher::start(&server, &["--path", "/a.txt"]);
    server.reload();
    let again = |lines: &[String]| {
        (lines.iter().filter(|line| line.contains("# watching process")).count() == 2).then_some(())
    };
    assert!(watcher.output.wait_for(TIMEOUT, again).is_some(), "{}", watcher.output.text());
    server.get("/a.txt");
    watcher.expect(&["GET /a.txt HTTP/1.1"]);
    server.signal(Signal::INT);
    server.wait(TIMEOUT);
    assert!(wait_until(TIMEOUT, || watcher.child.try_wait().expect("it is our child").is_some()));
    assert!(watcher.errors.text().contains("the program has ended"), "{}", watcher.errors.text());
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let server = site().start();
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let mut watch = command();
    let watch = watch.arg("watch").arg("-c").arg(server.home().join("site.toml")).stdout(full);
    let output = output_of(watch);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr, "taipan: cannot write to standard output: No space left on device\n");
}

#[test]
fn watchers_are_few_and_those_that_do_not_read_cost_nothing() {
    let server = site().start();
    let rate = |at| if at == 0 { "10000" } else { "1" };
    let watchers: Vec<Watcher> = (0..8).map(|at| Watcher::start(&server, &["--rate", rate(at)])).collect();
    for _ in 0..10 {
        let refused = server.run_command(&["watch"]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains("there are 8 watchers already") && refused.status.code() == Some(1), "{text}");
    }
    stop_process(watchers[0].child.id());
    let long = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(500));
    let mut client = server.connect();
    for _ in 0..3000 {
        assert_eq!(client.request(&long).status, 200);
    }
    watchers[1].expect(&["requests or parts of them were left out"]);
    signal_process(watchers[0].child.id(), Signal::CONT);
    watchers[0].expect(&["requests or parts of them were left out"]);
    drop(watchers);
    // Their places are free as soon as the server has seen that they have disconnected.
    let begins = || {
        let watcher = Watcher::spawn(&server, &["--path", "/x"]);
        let begins = |lines: &[String]| (!lines.is_empty()).then_some(());
        watcher.output.wait_for(TIMEOUT, begins).is_some()
    };
    assert!(wait_until(TIMEOUT, begins), "{}", server.stderr());
}

#[test]
fn garbage_on_the_control_socket_is_refused() {
    let server = site().start();
    let address = server.control_address();
    let mut rows = Rows::new();
    for garbage in [
        &b"watch x=y\n"[..],
        b"watch status=999\n",
        b"watch client=\xff\n",
        b"watch path=\x1b[2J\0\0\0=\n",
        b"watch\n",
        b"\n",
        b"\0\0\0\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\n",
        b"reload now\n",
        &[b'x'; 100_000],
    ] {
        let mut stream = UnixStream::connect_addr(&address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
        _ = stream.write_all(garbage);
        _ = stream.shutdown(std::net::Shutdown::Write);
        let mut response = String::new();
        let read = stream.read_to_string(&mut response);
        // An unread rest of the request resets the connection.
        let is_refused = read.is_err() || response.starts_with("failed\n") || response.is_empty();
        rows.holds(&garbage[..garbage.len().min(40)], &format!("is refused: {response}"), is_refused);
    }
    server.reload();
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn shows_rules_for_addresses_of_the_server_on_both_ways() {
    let server = site().start();
    let inside = Watcher::start(&server, &["--path", "/inside/*"]);
    let mut client = server.connect();
    for _ in 0..2 {
        client.get("/inside/a.txt");
    }
    let denied = "access    127.0.0.1 is denied with 403 Forbidden, by the rule in";
    let of_both =
        |lines: &[String]| (lines.iter().filter(|line| line.contains(denied)).count() == 2).then_some(());
    assert!(inside.output.wait_for(TIMEOUT, of_both).is_some(), "{}", inside.output.text());
}
