//! `taipan resolve` and `taipan report`: what they make of logs, and of what is no log. Names of clients in logs that
//! are written.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;

use e2e::dns::{Answer, Dns, PTR, ip, name};
use e2e::{Folder, Rows, Server, Site, TIMEOUT, command, output_of, run, wait_until};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A DNS server that knows names of 192.0.2.1, 192.0.2.3 and 2001:db8::1.
fn names() -> Dns {
    let dns = Dns::start();
    let six = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
    for (address, host) in [
        ("1.2.0.192.in-addr.arpa", "one.example"),
        // A name that belongs to another host.
        ("3.2.0.192.in-addr.arpa", "liar.example"),
        // A name that would break a line.
        ("4.2.0.192.in-addr.arpa", "a b\"\n127"),
        (&six, "six.example"),
    ] {
        dns.set(address, Answer::Records(vec![(PTR, 60, name(host))]));
    }
    dns.set("one.example", Answer::Records(vec![ip("192.0.2.1", 60)]));
    dns.set("liar.example", Answer::Records(vec![ip("198.51.100.1", 60)]));
    dns
}

const TIME: &str = "[20/Nov/2026:07:49:41 +0000]";

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("it is text")
}

/// Runs a command with this standard input.
fn with_input(words: &[&str], input: impl Into<Vec<u8>>) -> Output {
    let mut child = command()
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (mut stdin, input) = (child.stdin.take().expect("it is a pipe"), input.into());
    let writer = thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    output
}

#[test]
fn resolve_replaces_the_first_address_of_each_line_and_leaves_the_rest_as_it_is() {
    let dns = names();
    let mut rows = Rows::new();
    for (line, expected) in [
        (
            format!("192.0.2.1 - - {TIME} \"GET /192.0.2.1 HTTP/1.1\" 200 1"),
            format!("one.example - - {TIME} \"GET /192.0.2.1 HTTP/1.1\" 200 1"),
        ),
        (
            format!("2001:db8::1 - - {TIME} \"GET / HTTP/1.1\" 200 1"),
            format!("six.example - - {TIME} \"GET / HTTP/1.1\" 200 1"),
        ),
        (
            format!("a.example 192.0.2.1 - - {TIME} \"-\" 400 0"),
            format!("a.example one.example - - {TIME} \"-\" 400 0"),
        ),
        (
            "{\"time\":\"2026-11-20T07:49:41Z\",\"client\":\"192.0.2.1\",\"status\":200}".to_owned(),
            "{\"time\":\"2026-11-20T07:49:41Z\",\"client\":\"one.example\",\"status\":200}".to_owned(),
        ),
        // No name, an answer that is no name, no address, no format, and nothing.
        ("192.0.2.2 - - x".to_owned(), "192.0.2.2 - - x".to_owned()),
        ("192.0.2.4 - - x".to_owned(), "192.0.2.4 - - x".to_owned()),
        ("host.example - - x".to_owned(), "host.example - - x".to_owned()),
        ("\u{1}\u{2}{{ [ \"".to_owned(), "\u{1}\u{2}{{ [ \"".to_owned()),
        (String::new(), String::new()),
    ] {
        let found = text(&with_input(&["resolve", "--dns", &dns.address.to_string()], format!("{line}\n")));
        rows.check(&line, found, format!("{expected}\n"));
    }
}

#[test]
fn resolve_keeps_names_between_runs_and_asks_once_for_each_address() {
    let (dns, folder) = (names(), Folder::new());
    let log: String = (0..3000).map(|at| format!("192.0.2.{} - - x{at}\n", 1 + at % 3)).collect();
    let (log, names) = (folder.file("access.log", log), folder.path().join("names"));
    let resolve = || {
        text(&run([
            Path::new("resolve"),
            "--dns".as_ref(),
            dns.address.to_string().as_ref(),
            "--names".as_ref(),
            &names,
            &log,
        ]))
    };
    let first = resolve();
    assert_eq!(dns.questions(), 3, "one for each address, also for one without a name");
    assert!(first.starts_with("one.example - - x0\n192.0.2.2 - - x1\nliar.example - - x2\n"), "{first:.200}");
    assert_eq!(first.lines().count(), 3000);
    assert!(
        first.lines().enumerate().all(|(at, line)| line.ends_with(&format!(" x{at}"))),
        "the order is kept"
    );
    assert_eq!(resolve(), first);
    assert_eq!(dns.questions(), 3, "the second run asks nothing");
    // What is not written by the program is left out.
    fs::write(&names, "192.0.2.1 99999999999999 evil\n192.0.2.1 x y\n\u{0}\n192.0.2.2 1 old.example\n")
        .expect("it is ours");
    assert_eq!(resolve(), first);
}

#[test]
fn resolve_confirms_names_by_request() {
    let dns = names();
    let found = with_input(
        &["resolve", "--confirm", "--dns", &dns.address.to_string()],
        "192.0.2.1 a\n192.0.2.3 b\n",
    );
    assert_eq!(text(&found), "one.example a\n192.0.2.3 b\n");
}

#[test]
fn resolve_leaves_addresses_as_they_are_where_no_server_answers() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let found = with_input(&["resolve", "--timeout", "1", "--dns", &address], "192.0.2.1 a\nb\n");
    assert_eq!(text(&found), "192.0.2.1 a\nb\n");
}

#[test]
fn resolve_stops_asking_where_no_server_answers() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let log: String = (0..250).map(|number| format!("192.0.2.{number} a\n")).collect();
    let found = with_input(&["resolve", "--timeout", "1", "--jobs", "16", "--dns", &address], log.clone());
    assert_eq!(text(&found), log);
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(errors.contains("none of 64 questions had an answer"), "{errors}");
    silent.set_nonblocking(true).expect("it can be");
    let asked: HashSet<Vec<u8>> = std::iter::from_fn(|| {
        let mut packet = [0; 512];
        // Without the number of the question, which each attempt has of its own.
        silent.recv(&mut packet).ok().map(|length| packet[2..length].to_vec())
    })
    .collect();
    assert!((1..=64).contains(&asked.len()), "{}", asked.len());
}

#[test]
fn resolve_splits_lines_by_host() {
    let (dns, folder) = (names(), Folder::new());
    let line = |host: &str| format!("{host} 192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n");
    let input =
        [line("a.example"), line("B.example:80"), line("../up"), "nonsense\n".to_owned(), line("a.example")]
            .concat();
    let to = folder.path().join("by-host");
    let found =
        with_input(&["resolve", "--dns", &dns.address.to_string(), "--split", &to.to_string_lossy()], input);
    assert_eq!(text(&found), "");
    let read = |name: &str| fs::read_to_string(to.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut names: Vec<_> =
        fs::read_dir(&to).expect("it is there").map(|e| e.expect("it can be read").file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.example.log", "b.example.log", "other.log"]);
    assert_eq!(read("a.example.log").lines().count(), 2);
    assert!(read("a.example.log").contains("one.example - -"));
    assert_eq!(read("other.log").lines().count(), 2);
}

#[test]
fn report_counts_a_day_in_every_format_plain_or_compressed() {
    let folder = Folder::new();
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0";
    let lines = [
        format!("192.0.2.1 - - {TIME} \"GET /page?x=1 HTTP/1.1\" 200 1000 \"https://r.example/\" \"{agent}\" a.example 0.5 -"),
        format!("192.0.2.1 - - {TIME} \"GET /style.css HTTP/1.1\" 200 500 \"-\" \"{agent}\""),
        format!("a.example 192.0.2.2 - - {TIME} \"GET /missing HTTP/1.0\" 404 0 \"\" \"Testbot/1.0\""),
        "{\"time\":\"2026-11-20T07:49:41Z\",\"client\":\"192.0.2.3\",\"host\":\"b.example\",\"method\":\"GET\",\"target\":\"/page\",\"version\":\"HTTP/2\",\"status\":200,\"sent\":1000,\"duration\":2.25,\"referer\":null,\"user_agent\":null}".to_owned(),
        "no line of a log".to_owned(),
    ]
    .join("\n");
    let plain = folder.file("access.log", &lines);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).expect("memory suffices");
    let gzip = folder.file("access.log.gz", gzip.finish().expect("memory suffices"));
    let mut rows = Rows::new();
    for path in [&plain, &gzip] {
        let found = text(&run([Path::new("report"), path]));
        let squeezed: String = found.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "2026-11-20 07:49:41 to 2026-11-20 07:49:41",
            "4 requests",
            "3 visits",
            "2.5 kB sent",
            "1 not found",
            "1 lines of no known format",
            "/page 2",
            "/style.css 1",
            "/missing 1",
            "r.example 1",
            "Testbot 1",
            "Firefox 2",
            "/page 2.25 s",
        ] {
            rows.holds(
                path.to_string_lossy().as_bytes(),
                &format!("has {part}: {squeezed}"),
                squeezed.contains(part),
            );
        }
    }
    let both = text(&run([Path::new("report"), &plain, &gzip]));
    assert!(both.contains("8  requests"), "{both}");
}

#[test]
fn report_has_what_could_be_read_and_names_what_could_not() {
    let folder = Folder::new();
    let line = format!("192.0.2.1 - - {TIME} \"GET /page HTTP/1.1\" 200 1000\n");
    let plain = folder.file("access.log", &line);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(line.as_bytes()).expect("memory suffices");
    let gzip = gzip.finish().expect("memory suffices");
    let padded = folder.file("padded.gz", [&gzip[..], &[0; 512]].concat());
    let cut = folder.file("cut.gz", &gzip[..gzip.len() - 8]);
    assert!(
        text(&run([Path::new("report"), &padded])).contains("1  requests"),
        "as gzip, which ignores zeros"
    );
    let output = run([Path::new("report"), &plain, &cut, &folder.path().join("missing"), &padded]);
    assert_eq!(output.status.code(), Some(1));
    let (report, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("3  requests"), "{report}");
    for name in ["cut.gz: unexpected end of file", "missing: No such file"] {
        assert!(errors.contains(name), "{errors}");
    }
}

#[test]
fn report_writes_a_page_that_shows_hostile_fields_as_text_and_loads_nothing() {
    let folder = Folder::new();
    let evil = "<script>alert(1)</script><img src=http://evil.example/>";
    let line = format!(
        "192.0.2.1 - - {TIME} \"GET /{evil} HTTP/1.1\" 200 1 \"http://{evil}\" \"\u{202e}\x1b[31m{evil}\"\n"
    );
    let (log, page) = (folder.file("access.log", line), folder.path().join("report.html"));
    assert_eq!(text(&run([Path::new("report"), "--html".as_ref(), &page, &log])), "");
    let mut html = String::new();
    fs::File::open(&page).and_then(|mut file| file.read_to_string(&mut html)).expect("it is written");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("&lt;script&gt;alert(1)"), "it is shown");
    assert!(
        !html.contains("<script")
            && !html.contains("<img")
            && !html.contains('\x1b')
            && !html.contains('\u{202e}')
    );
    assert!(html.contains("default-src 'none'") && html.contains("<svg"));
    let terminal = text(&run([Path::new("report"), &log]));
    assert!(!terminal.contains('\x1b') && terminal.contains("\\u{1b}"), "{terminal}");
}

/// Such as `/dev/stdout`.
#[test]
fn a_page_or_names_replace_no_link_and_no_fifo() {
    let folder = Folder::new();
    let log = folder.file("access.log", format!("192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" 200 1\n"));
    let [fifo, link, target] = ["fifo", "link", "target"].map(|name| folder.path().join(name));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("the folder is ours");
    symlink("target", &link).expect("the folder is ours");
    let write = |path: &Path| run([Path::new("report"), "--html".as_ref(), path, &log]);
    assert!(!write(&link).status.success(), "it leads to nothing");
    fs::write(&target, "before").expect("the folder is ours");
    assert_eq!(text(&write(&link)), "");
    let page = fs::read_to_string(&target).expect("it is there");
    assert!(link.is_symlink() && page.starts_with("<!DOCTYPE html>"));
    let reader = thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).expect("it is a FIFO")
    });
    assert_eq!(text(&write(&fifo)), "");
    assert_eq!(reader.join().expect("it has read"), page);
    let output = run([Path::new("resolve"), "--names".as_ref(), &fifo, &log]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("it is not a regular file"));
    assert!(!fifo.is_file() && !output.status.success());
}

#[test]
fn report_and_resolve_reject_unusable_input() {
    let folder = Folder::new();
    let (page, damaged) =
        (folder.file("page.html", "<p>\n<p>\n"), folder.file("damaged.gz", [0x1f, 0x8b, 8, 0, 1, 2]));
    let mut rows = Rows::new();
    for (words, reason) in [
        (vec!["report".into(), page.clone()], "none of 2 lines has the format of an access log"),
        (vec!["report".into(), damaged.clone()], "cannot read"),
        (vec!["report".into(), folder.path().join("missing")], "No such file or directory; check its path"),
        (vec!["report".into(), folder.path().to_owned()], "cannot read"),
        (
            vec![
                "report".into(),
                "--html".into(),
                folder.path().join("no/folder.html"),
                folder.file("a", ""),
            ],
            "cannot write",
        ),
        (vec!["resolve".into(), folder.path().join("missing")], "cannot read"),
        (vec!["resolve".into(), "--names".into(), folder.path().to_owned(), page], "cannot read the names"),
        (vec!["resolve".into(), "--dns".into(), "nowhere".into()], "no address with a port"),
        (vec!["resolve".into(), "--jobs".into(), "0".into()], "1 to 1024"),
        (vec!["report".into(), "--split".into(), "x".into()], "not a flag of taipan report"),
    ] {
        let output = output_of(command().args(&words).stdin(Stdio::null()));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(format!("{words:?}"), &format!("says {reason}: {errors}"), errors.contains(reason));
        rows.check(format!("{words:?}"), output.status.success(), false);
    }
}

/// A server that logs, has a script, and asks this DNS server. Its clients are those that a trusted proxy names.
fn naming(dns: &str, more: &str) -> Server {
    let resolver = format!("[resolver]\nservers = \"{dns}\"\nclient_names = true\n");
    Site::new()
        .file("a", "a")
        .script("run.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho \"${REMOTE_HOST-none} $REMOTE_ADDR\"\n")
        .config(&format!(
            "workers = 1\ntrusted_proxies = \"127.0.0.1\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n[timeouts]\ndelay = 0\n\
             {resolver}[log]\naccess = \"./access.log\"\n{more}"
        ))
        .start()
}

fn request(server: &Server, path: &str, client: &str) -> String {
    let fields = format!("Host: x\r\nX-Forwarded-For: {client}\r\nRemote-Host: forged.example\r\n");
    server.request(format!("GET {path} HTTP/1.1\r\n{fields}\r\n")).text()
}

fn access_log(server: &Server) -> String {
    fs::read_to_string(server.home().join("access.log")).unwrap_or_default()
}

/// Requests until the log has a part.
fn until_logged(server: &Server, client: &str, part: &str) {
    let is = wait_until(TIMEOUT, || {
        request(server, "/a", client);
        access_log(server).contains(part)
    });
    assert!(is, "not in time: {part}\n{}", access_log(server));
}

#[test]
fn logs_and_scripts_have_the_names_of_clients_that_are_confirmed() {
    let dns = names();
    let server = naming(&dns.address.to_string(), "");
    let mut rows = Rows::new();
    let asked = |name: &str| dns.asked(name);
    // What does not wait has no name yet.
    rows.check("first", request(&server, "/run.cgi", "192.0.2.1").as_str(), "none 192.0.2.1\n");
    until_logged(&server, "192.0.2.1", "\none.example - - [");
    rows.check("then", request(&server, "/run.cgi", "192.0.2.1").as_str(), "one.example 192.0.2.1\n");
    // One question for many requests, and one that confirms the answer.
    rows.check("questions", (asked("1.2.0.192.in-addr.arpa"), asked("one.example")), (1, 1));
    // A name that belongs to another host, one that would break a line, and none.
    for client in ["192.0.2.3", "192.0.2.4", "192.0.2.9"] {
        let name = format!("{}.2.0.192.in-addr.arpa", &client[8..]);
        let is_asked = wait_until(TIMEOUT, || {
            request(&server, "/a", client);
            asked(&name) > 0
        });
        rows.holds(client, "it is asked for", is_asked);
    }
    rows.holds("liar", "its name is not confirmed", wait_until(TIMEOUT, || asked("liar.example") > 0));
    for client in ["192.0.2.3", "192.0.2.4", "192.0.2.9"] {
        for _ in 0..20 {
            rows.check(client, request(&server, "/run.cgi", client), format!("none {client}\n"));
        }
        let name = format!("{}.2.0.192.in-addr.arpa", &client[8..]);
        rows.check(format!("{client} again"), asked(&name), 1);
    }
    let log = access_log(&server);
    rows.holds("log", "it has no such name", !log.contains("liar") && !log.contains("a b"));
}

#[test]
fn a_dns_server_that_does_not_answer_delays_nothing() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let server = naming(&silent.local_addr().expect("it is bound").to_string(), "");
    let mut rows = Rows::new();
    for number in 0..600 {
        // More clients than questions may wait.
        let client = format!("198.51.{}.{}", number / 250, number % 250);
        rows.check(&client, request(&server, "/a", &client).as_str(), "a");
    }
    rows.check("script", request(&server, "/run.cgi", "192.0.2.1").as_str(), "none 192.0.2.1\n");
    rows.holds(
        "log",
        "it has every line",
        wait_until(TIMEOUT, || access_log(&server).lines().count() == 601),
    );
}

#[test]
fn names_of_clients_stand_beside_their_addresses_where_a_format_has_both() {
    let dns = names();
    let server = naming(&dns.address.to_string(), "fields = \"$remote_addr=$remote_host\"\n");
    until_logged(&server, "2001:db8::1", "2001:db8::1=2001:db8::1\n");
    until_logged(&server, "192.0.2.1", "192.0.2.1=one.example\n");
    drop(server);
    let server = naming(&dns.address.to_string(), "format = \"json\"\n");
    until_logged(&server, "192.0.2.1", "\"client\":\"192.0.2.1\",\"client_name\":\"one.example\",");
}

#[test]
fn no_name_is_asked_for_without_the_key() {
    let dns = names();
    let server = Site::new()
        .file("a", "a")
        .config(&format!(
            "trusted_proxies = \"127.0.0.1\"\n[resolver]\nservers = \"{}\"\n[log]\naccess = \"./access.log\"",
            dns.address
        ))
        .start();
    request(&server, "/a", "192.0.2.1");
    let is_logged = || access_log(&server).starts_with("192.0.2.1 - - [");
    assert!(wait_until(TIMEOUT, is_logged), "{}", access_log(&server));
    assert_eq!(dns.questions(), 0);
    let site = Site::new().config("[resolver]\nclient_name_entries = 1000");
    let output = output_of(command().args(["check", "-c"]).arg(site.write_config()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("\"client_name_entries\" has no effect without \"client_names\""), "{said}");
}
