//! Scripts that misbehave, on purpose or not, and the effects on their clients and on other clients.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use e2e::{
    ControlGroup, ReadError, Rows, Server, Signal, Site, TIMEOUT, group_of, is_root, parent_of, runs,
    signal_process, wait_until,
};

/// Scripts with enough time to run, and little time to end.
const CGI: &str = "[[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\ngrace = \"300ms\"\n";
/// Added to `CGI`: the idle timeout after the first output, and the total timeout.
const SHORT: &str = "idle = \"1s\"\ntotal = \"4s\"\n";
/// The timeout of the first output, long enough to start a script on a busy machine.
const FIRST_BYTE: Duration = Duration::from_secs(2);

/// A script in Perl that first writes its process number to the file `pid`.
fn perl(text: &str) -> String {
    format!(
        "#!/usr/bin/perl\n$| = 1;\nopen(my $f, '>', \"$ENV{{DOCUMENT_ROOT}}/pid\"); print $f $$; close $f;\n\
         rename \"$ENV{{DOCUMENT_ROOT}}/pid\", \"$ENV{{DOCUMENT_ROOT}}/pid.done\";\n{text}\n"
    )
}

fn start(config: &str, text: &str) -> Server {
    Site::new().script("a.cgi", perl(text)).file("static", "still here").config(config).start()
}

/// The process number of the running script.
fn pid(server: &Server) -> u32 {
    let file = server.root().join("pid.done");
    wait_for("the script starts", || file.exists());
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    text.parse().unwrap()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    assert!(wait_until(TIMEOUT, holds), "{what}: not in time");
}

/// All running processes of a group.
fn group(leader: u32) -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| group_of(*pid) == Some(leader) && runs(*pid)).collect()
}

#[test]
fn answers_502_with_a_log_line_to_a_missing_or_partial_header() {
    // Code of the script; words that the log has next to the script's name.
    let table = [
        ("exit 0;", ""),
        ("print '';", ""),
        ("print \"Content-Type: text/x\";", ""),
        ("print \"Content-Type: text/x\\n\";", ""),
        ("print \"no header at all\\n\\n\";", ""),
        ("print \" folded\\n\\n\";", ""),
        ("print \"X-A: a\\0b\\n\\n\";", ""),
        ("print \"\\x7fELF\\x02\\x01\\x01\\0\\0\";", ""),
        ("print \"Status: 99\\n\\n\";", ""),
        ("print \"Status: x\\n\\n\";", ""),
        ("print \"Status: 200\\nStatus: 404\\n\\n\";", ""),
        ("print \"Content-Length: 1\\nContent-Length: 2\\n\\nab\";", ""),
        ("print \"Content-Length: -1\\n\\nab\";", ""),
        ("print \"Content-Length: 1\\nTransfer-Encoding: chunked\\n\\nab\";", ""),
        ("print \"Location: \\n\\n\";", ""),
        ("print 'X-A: ', 'x' x (1 << 20), \"\\n\\n\";", ""),
        ("print 'x' x (1 << 20);", ""),
        ("print \"X-$_: x\\n\" for 1..1000; print \"X-A: b\\n\\n\";", ""),
        ("kill 'KILL', $$;", ""),
        ("kill 'SEGV', $$;", ""),
        ("print STDERR \"the reason\\n\"; exit 3;", "the reason"),
        ("close STDOUT; sleep 1;", ""),
    ];
    let site = table
        .iter()
        .enumerate()
        .fold(Site::new(), |site, (at, (text, _))| site.script(&format!("{at}.cgi"), perl(text)));
    let server = site.file("static", "still here").config(CGI).start();
    let mut rows = Rows::new();
    for (at, (text, printed)) in table.iter().enumerate() {
        let mut client = server.connect();
        let response = client.get(&format!("/{at}.cgi"));
        rows.check(text, response.status, 502);
        rows.holds(text, "the response has none of its output", !response.text().contains("header at all"));
        let line = server.errors().wait_for(TIMEOUT, |lines| {
            lines.iter().find(|line| line.contains(&format!("/{at}.cgi")) && line.contains(printed)).cloned()
        });
        rows.holds(text, "the log reports it", line.is_some());
        rows.check(text, server.get("/static").text().as_str(), "still here");
    }
}

#[test]
fn reports_a_script_that_cannot_be_started() {
    let server = Site::new()
        .script("none.cgi", "#!/no/such/program\n")
        .script("binary.cgi", "\x7fELF no binary")
        .script("empty.cgi", "")
        .script("crlf.cgi", "#!/bin/sh\r\necho\r\n")
        .script("no-program.cgi", "#!/etc/passwd\n")
        .config(CGI)
        .start();
    for (name, status, expected) in [
        ("none", 502, "the program that its first line names"),
        ("binary", 502, "/bin/sh"),
        ("empty", 502, "/bin/sh"),
        ("crlf", 502, "a line that ends with CRLF names another program"),
        ("no-program", 403, "its account may not execute it"),
    ] {
        let response = server.get(&format!("/{name}.cgi"));
        assert_eq!(response.status, status, "{name}: {response}");
        let line = server.wait_for_line(&format!("/{name}.cgi"), TIMEOUT);
        assert!(line.contains("cannot start the script: ") && line.contains(expected), "{name}: {line}");
    }
}

#[test]
fn ends_a_hung_script_with_all_its_children() {
    let table = [
        ("says nothing", "sleep 100;", 504),
        ("reads what does not come", "<STDIN>; sleep 100;", 504),
        ("has said half of its header", "print \"X-A: 1\\n\"; sleep 100;", 504),
        ("ignores SIGTERM", "$SIG{TERM} = 'IGNORE'; sleep 100 while 1;", 504),
        ("has children", "for (1..5) { fork // die; } sleep 100;", 504),
        ("has children that ignore SIGTERM", "fork; $SIG{TERM} = 'IGNORE'; sleep 100 while 1;", 504),
        ("spins", "1 while 1;", 504),
    ];
    let config = format!("{CGI}{SHORT}first_byte = {}\n", FIRST_BYTE.as_secs());
    let end = |what: &str, text: &str| {
        let server = start(&config, text);
        let mut client = server.connect();
        client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
        let leader = pid(&server);
        let status = client.read_response().status;
        wait_for(what, || group(leader).is_empty());
        server.wait_for_line("/a.cgi", TIMEOUT);
        (status, server.get("/static").text())
    };
    let mut rows = Rows::new();
    std::thread::scope(|scope| {
        let end = &end;
        let ends = table.map(|(what, text, status)| (what, status, scope.spawn(move || end(what, text))));
        for (what, status, found) in ends {
            let found = found.join().expect("it does not panic");
            rows.check(what, found, (status, "still here".to_owned()));
        }
    });
}

#[test]
fn an_incomplete_body_is_recognizable() {
    // Written after the header. HTTP/1.1 is chunked or sized, so that the end is visibly missing.
    let table = [
        ("is silent for too long", "print \"X-A: b\\n\\npart\"; sleep 100;"),
        (
            "takes too long in all",
            "print \"X-A: b\\n\\npart\"; while (1) { print 'x'; select undef, undef, undef, 0.1 }",
        ),
        ("writes less than it has said", "print \"Content-Length: 100\\n\\npart\";"),
        ("dies, having said how much", "print \"Content-Length: 100\\n\\npart\"; kill 'KILL', $$;"),
    ];
    let mut rows = Rows::new();
    for (what, text) in table {
        let server = start(&format!("{CGI}{SHORT}"), text);
        let mut client = server.connect();
        client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
        let leader = pid(&server);
        match client.try_read_response() {
            Err(ReadError::Closed { after }) => rows.holds(what, "its head was sent", after > 0),
            Err(ReadError::Reset) => {}
            other => rows.holds(what, &format!("expected a cut response, found {other:?}"), false),
        }
        wait_for(what, || group(leader).is_empty());
        server.wait_for_line("/a.cgi", TIMEOUT);
    }
}

#[test]
fn the_output_of_a_killed_script_is_incomplete_although_the_server_learns_of_it_late() {
    let server =
        start(CGI, "print \"X-A: b\\n\\npart\"; close STDOUT; print STDERR \"closed\\n\"; sleep 100;");
    let serving = server.serving_pid();
    // From the end of the output on, the server waits for the exit, but not for long: a busy machine may need some
    // attempts.
    let is_incomplete = || {
        let lines = server.stderr().matches("closed").count();
        let mut client = server.connect();
        client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
        let script = pid(&server);
        wait_for("it closes its output", || server.stderr().matches("closed").count() > lines);
        signal_process(serving, Signal::STOP);
        signal_process(script, Signal::KILL);
        wait_for("the script ends", || !runs(script));
        // The server is late by more than it waits.
        sleep(Duration::from_millis(200));
        signal_process(serving, Signal::CONT);
        client.try_read_response().map_or(true, |response| response.status == 502)
    };
    assert!(wait_until(TIMEOUT, is_incomplete), "{}", server.stderr());
}

#[test]
fn ends_a_script_when_its_client_disconnects() {
    let table = [
        ("writes without end", "$SIG{PIPE} = 'IGNORE'; print \"X-A: b\\n\\n\"; print 'x' x 65536 while 1;"),
        ("sleeps before its header", "sleep 100;"),
        ("sleeps after its header", "print \"X-A: b\\n\\npart\"; sleep 100;"),
        ("ignores SIGTERM", "$SIG{TERM} = 'IGNORE'; print \"X-A: b\\n\\npart\"; sleep 100 while 1;"),
        ("reads a body that does not come", "read STDIN, my $b, 1000; sleep 100;"),
    ];
    for (what, text) in table {
        let server = start(CGI, text);
        let mut client = server.connect();
        client.send("POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
        let leader = pid(&server);
        assert!(runs(leader), "{what}");
        drop(client);
        wait_for(what, || group(leader).is_empty());
        assert_eq!(server.get("/static").text(), "still here");
    }
}

#[test]
fn waits_for_a_slow_reader_without_ending_its_script() {
    // Far more than sockets and pipes hold; a script that blocks in a write is not idle.
    let text = "print \"X-A: b\\n\\n\"; print 'x' x 65536 for 1..256;";
    let server = start(&format!("{CGI}idle = \"1s\"\nspool_bytes = 0\n"), text);
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.0\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    // Twice its idle timeout.
    std::thread::sleep(Duration::from_secs(2));
    assert!(runs(leader), "it has not been ended");
    let response = client.read_response();
    assert_eq!(response.body.len(), 256 * 65536);
}

#[test]
fn waits_for_a_slow_sender_without_ending_its_script() {
    let text = "read STDIN, my $body, $ENV{CONTENT_LENGTH}; print \"X-A: b\\n\\n$body\";";
    let server = start(&format!("{CGI}first_byte = {}\n", FIRST_BYTE.as_secs()), text);
    let mut client = server.connect();
    client.send("POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
    let leader = pid(&server);
    // Twice its first-output timeout.
    std::thread::sleep(FIRST_BYTE * 2);
    assert!(runs(leader), "it has not been ended");
    assert_eq!(client.send("dy").read_response().text(), "body");
}

#[test]
fn does_not_deadlock_when_output_precedes_the_end_of_input() {
    let text = "binmode STDIN; binmode STDOUT; print \"X-A: b\\n\\n\";\n\
                while (read STDIN, my $piece, 4096) { print $piece, $piece; }";
    let server = start(&format!("max_body = \"64MiB\"\n{CGI}"), text);
    let mut client = server.connect();
    let mut sender = client.another_handle();
    let length = 16 << 20;
    let sending = std::thread::spawn(move || {
        sender.send(format!("POST /a.cgi HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        sender.send(vec![b'x'; length]);
    });
    let response = client.read_response();
    sending.join().unwrap();
    assert_eq!((response.status, response.body.len()), (200, 2 * length));
}

#[test]
fn responds_when_a_script_closes_its_output_and_runs_on() {
    let text = "print \"Content-Length: 5\\n\\nhello\"; close STDOUT; close STDERR; sleep 100;";
    let server = start(&format!("{CGI}{SHORT}"), text);
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    assert_eq!(client.read_response().text(), "hello");
    assert_eq!(client.get("/static").text(), "still here", "its connection stays open");
    wait_for("the process must end", || group(leader).is_empty());
}

#[test]
fn ends_a_child_that_keeps_the_output_open() {
    // A background process that has not closed the output of the script.
    let text = "print \"X-A: b\\n\\nhello\"; exit 0 if fork; sleep 100;";
    let server = start(&format!("{CGI}{SHORT}"), text);
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("hello") {
        let more = client.read_some().unwrap();
        assert!(!more.is_empty(), "it ends after {:?}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    wait_for("the child is ended", || group(leader).is_empty());
}

/// Leaves a job in the background, which has the output and the errors of the script, and writes when `go` is there.
const JOB: &str = "print \"X-A: b\\n\\nhello\"; sleep 1 and exit 0 if fork; chdir $ENV{DOCUMENT_ROOT}; \
                   select(undef, undef, undef, 0.02) until -e 'go'; print 'more'; print STDERR \"of the job\\n\"; \
                   print 'yet more'; open(my $done, '>', 'done');";

#[test]
fn keeps_jobs_in_the_background_where_a_key_says_so() {
    // The second response is complete before its script has exited.
    for text in [JOB, &JOB.replace("X-A: b", "Content-Length: 5")] {
        let server = start(&format!("{CGI}background_jobs = true\n"), text);
        let mut client = server.connect();
        assert_eq!(client.get("/a.cgi").text(), "hello");
        let leader = pid(&server);
        assert_eq!(client.get("/static").text(), "still here");
        wait_for("the script exits, and the job lives on", || group(leader).len() == 1);
        fs::write(server.root().join("go"), "").unwrap();
        wait_for("the job ends by itself", || server.root().join("done").exists());
        server.wait_for_line("of the job", TIMEOUT);
    }
}

#[test]
fn ends_all_processes_of_a_script_whose_client_leaves_whatever_becomes_of_jobs() {
    let text = "print \"X-A: b\\n\\nhello\"; fork; sleep 100;";
    let server = start(&format!("{CGI}background_jobs = true\n"), text);
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    wait_for("it has a child", || group(leader).len() == 2);
    drop(client);
    wait_for("both are ended", || group(leader).is_empty());
}

#[test]
fn streams_output_byte_by_byte() {
    let text =
        "print \"Content-Type: text/plain\\n\\n\"; for (1..8) { print $_; select undef, undef, undef, 0.2 }";
    let server = start(CGI, text);
    let response = server.get("/a.cgi");
    assert_eq!((response.status, response.text().as_str()), (200, "12345678"));
}

#[test]
fn reads_a_header_byte_by_byte() {
    let text = "for (split //, \"Status: 201\\r\\nX-A: b\\r\\n\\r\\nbody\") { print; select undef, undef, undef, 0.005 }";
    let response = start(CGI, text).get("/a.cgi");
    assert_eq!((response.status, response.field("x-a"), response.text().as_str()), (201, Some("b"), "body"));
}

#[test]
fn limits_logging_of_an_endless_error_stream() {
    let text = "print STDERR 'e' x 100, \"\\n\" for 1..20000; print STDERR 'x' x 1000000; print \"X-A: b\\n\\nhello\";";
    let server = start(&format!("{CGI}stderr_lines = 5\nstderr_line = 64\n"), text);
    assert_eq!(server.get("/a.cgi").text(), "hello");
    server.get("/static");
    server.wait_for_line("eee", TIMEOUT);
    let stderr = server.stderr();
    let lines = stderr.lines().filter(|line| line.contains("eee")).count();
    assert!((1..=50).contains(&lines), "{lines} lines");
    assert!(stderr.lines().all(|line| line.len() < 600), "no line is long");
}

#[test]
fn a_script_has_only_three_descriptors() {
    let text = "opendir(my $d, '/proc/self/fd'); my @own = map { readlink(\"/proc/self/fd/$_\") } grep { /\\d/ } readdir $d;\n\
                print \"X-A: b\\n\\n\", join(\"\\n\", grep { defined } @own);";
    let server = start(CGI, text);
    let found = server.get("/a.cgi").text();
    let strange: Vec<&str> = found
        .lines()
        .filter(|name| !name.starts_with("pipe:") && !name.starts_with("/proc/") && *name != "/dev/null")
        .filter(|name| !name.ends_with("/a.cgi"))
        .collect();
    assert_eq!(strange, [""; 0], "{found}");
}

#[test]
fn a_script_starts_with_no_signal_blocked_or_ignored_and_no_privilege() {
    let text = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nexec cat /proc/self/status\n";
    let found = Site::new().script("a.cgi", text).config(CGI).start().get("/a.cgi").text();
    let value = |name: &str| {
        let line = found.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_else(|| panic!("{name}: {found}"))
    };
    let bits = |name: &str| u64::from_str_radix(value(name), 16).unwrap();
    // 32 and 33 belong to the C library, which starts every program with them ignored.
    const OF_THE_LIBRARY: u64 = 0b11 << 31;
    for name in ["SigBlk", "SigIgn", "CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert_eq!(bits(name) & !OF_THE_LIBRARY, 0, "{name}: {found}");
    }
    assert_eq!(value("NoNewPrivs"), "1");
}

#[test]
fn the_process_limit_stops_a_fork_bomb() {
    // Perl pauses where fork fails; without that, the bomb would only use the processor.
    let text = "sub bomb { while (1) { my $child = fork; select undef, undef, undef, 0.02 unless defined $child } } bomb();";
    // The limit counts per user, and does not apply to root.
    let user = if is_root() { "user = \"daemon\"\n" } else { "" };
    let config = format!("{user}{CGI}{SHORT}first_byte = \"1s\"\ntasks = 60\n");
    let site = Site::new().script("a.cgi", format!("#!/usr/bin/perl\n{text}\n")).file("static", "still here");
    open_to_all(site.home());
    let server = site.config(&config).start();
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.read_response();
    assert!(matches!(response.status, 502..=504), "{response}");
    assert_eq!(server.get("/static").text(), "still here");
    wait_for("all of its processes have ended", || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let root = server.root().join("a.cgi");
        let root = root.to_str().unwrap();
        !all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
            .any(|line| line.contains(root))
    });
}

/// Lets the other user into the folder.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn fifty_sleeping_scripts_do_not_delay_files() {
    let server = Site::new()
        .script(
            "a.cgi",
            "#!/bin/sh\nuntil test -e \"$DOCUMENT_ROOT/go\"; do sleep 0.1; done\nprintf 'X-A: b\\n\\ndone'\n",
        )
        .file("static", "still here")
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true\n")
        .start();
    let mut clients: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let mut other = server.connect();
    for _ in 0..100 {
        assert_eq!(other.get("/static").text(), "still here");
    }
    server.files().file("www/go", "");
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "done");
    }
}

#[test]
fn scripts_end_with_the_server() {
    let mut server = start(CGI, "sleep 100;");
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    server.signal(e2e::Signal::INT);
    server.wait(TIMEOUT);
    wait_for("the script ends", || group(leader).is_empty());
}

#[test]
fn only_the_running_responses_fail_when_the_spawner_dies() {
    let server = start(CGI, "sleep 100 unless -e \"$ENV{DOCUMENT_ROOT}/go\"; print \"X-A: b\\n\\nagain\";");
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    let leader = pid(&server);
    let spawner = parent_of(leader);
    assert_ne!(spawner, server.serving_pid(), "the serving process must not start programs");
    signal_process(spawner, Signal::KILL);
    server.files().file("www/go", "");
    wait_for("scripts can be run again", || {
        let mut client = server.connect();
        client.try_send("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
            && client.try_read_response().is_ok_and(|response| response.text() == "again")
    });
}

/// All control group settings, for scripts that are not root.
fn in_groups(folder: &ControlGroup) -> String {
    let (user, folder) = (e2e::without_privilege(), folder.path().display());
    format!("{user}\n{CGI}cgroup = \"{folder}\"\ncgroup_memory = \"32MiB\"\ncgroup_tasks = 20\n")
}

/// Ends the server; none of its control groups may be left.
fn end_with_groups(mut server: Server, folder: &ControlGroup) {
    server.signal(e2e::Signal::TERM);
    server.wait(TIMEOUT);
    assert!(folder.folders().is_empty());
}

#[test]
fn kills_and_reports_a_script_beyond_the_memory_of_its_limited_control_group() {
    const KILLED: &str = "killed: it took more memory than `cgroup_memory`";
    let folder = ControlGroup::new("memory", &["memory", "pids"]);
    // No process takes too much on its own.
    let hog = "fork // die for 1..2; my $x = 'x' x (12 << 20); sleep 100;";
    let half = format!("print \"X-A: b\\n\\n\", 'x' x 100000; {hog}");
    let raise = "my ($line) = grep /^0::/, do { open(my $f, '<', '/proc/self/cgroup'); <$f> };\n\
                 my ($mount) = do { open(my $f, '<', '/proc/mounts'); map { /^\\S+ (\\S+) cgroup2 / } <$f> };\n\
                 my $folder = $mount . substr($line, 3); chomp $folder;\n\
                 open(my $f, '>', \"$folder/memory.max\"); print \"X-A: $!\\n\\n$line\";";
    let site = Site::new().script("hog.cgi", perl(hog)).script("half.cgi", perl(&half));
    let site = site.script("raise.cgi", perl(raise)).script("killed.cgi", perl("kill 'KILL', $$;"));
    let server = site.file("static", "still here").config(&in_groups(&folder)).start();
    let printed = |times: usize, words: &[&str]| {
        wait_for(words[0], || {
            let lines = server.errors().all();
            lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count() == times
        });
    };
    for times in 1..=3 {
        assert_eq!(server.connect().get("/hog.cgi").status, 502);
        printed(times, &["/hog.cgi", KILLED]);
        // The next script in the group is not blamed.
        assert_eq!(server.connect().get("/killed.cgi").status, 502);
        printed(times, &["/killed.cgi", "ended by signal 9"]);
    }
    let mut client = server.connect();
    client.send("GET /half.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_read_response().is_err());
    printed(1, &["/half.cgi", "it took more memory than `cgroup_memory`"]);
    let response = server.connect().get("/raise.cgi");
    assert!(response.text().contains("/scripts."), "{}", response.text());
    if is_root() {
        assert_eq!(response.field("X-A"), Some("Permission denied"));
    }
    assert_eq!(server.get("/static").text(), "still here");
    assert_eq!(folder.folders().len(), 1);
    end_with_groups(server, &folder);
}

#[test]
fn a_limited_control_group_stops_a_fork_bomb_that_leaves_its_session() {
    let folder = ControlGroup::new("tasks", &["memory", "pids"]);
    let text = "use POSIX; my $n = 0; while ($n < 1000) { my $child = fork; last unless defined $child;\n\
                unless ($child) { POSIX::setsid(); sleep 100 } $n++ } print \"X-A: $n\\n\\n\"; exit 0;";
    let server = start(&in_groups(&folder), text);
    let inside = || {
        let groups = fs::read_dir(&folder.folders()[0]).unwrap().flatten().map(|entry| entry.path());
        let procs = groups.filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok());
        procs.flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        let mut client = server.connect();
        client.send("GET /a.cgi HTTP/1.0\r\n\r\n");
        // The children hold its output, so the response ends when they have ended.
        assert_eq!(client.read_response_to_head().field("X-A"), Some("19"));
        wait_for("the script has ended", || inside().len() == 19);
        drop(client);
        wait_for("no process is left", || inside().is_empty());
    }
    assert_eq!(server.get("/static").text(), "still here");
    end_with_groups(server, &folder);
}

#[test]
fn a_new_start_removes_its_own_control_groups_after_it_was_killed() {
    let folder = ControlGroup::new("left", &[]);
    let config = format!("{CGI}cgroup = \"{}\"\n", folder.path().display());
    let text = "use POSIX; exit 0 if fork; POSIX::setsid(); sleep 100;";
    let site = || Site::new().script("a.cgi", perl(text)).file("static", "").config(&config);
    let mut server = site().start();
    let mut client = server.connect();
    client.send("GET /a.cgi HTTP/1.0\r\n\r\n");
    pid(&server);
    let spawners = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
    let all: Vec<u32> = spawners().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    for pid in all.into_iter().chain([server.pid()]) {
        e2e::signal_process(pid, e2e::Signal::KILL);
    }
    server.wait(TIMEOUT);
    let left = folder.folders();
    assert_eq!(left.len(), 1);
    let again = site().start();
    assert!(!left[0].exists());
    end_with_groups(again, &folder);
}

#[test]
fn scripts_run_after_a_crash_although_the_folder_of_their_own_control_groups_is_missing() {
    let folder = ControlGroup::new("gone", &[]);
    let config = format!("{CGI}cgroup = \"{}\"\n", folder.path().display());
    let text = "print \"X-A: b\\n\\nhello\";";
    let server = Site::new().script("a.cgi", perl(text)).config(&config).start();
    assert_eq!(server.get("/a.cgi").text(), "hello");
    let groups = || {
        folder.folders().into_iter().flat_map(|of_spawner| {
            let inside = fs::read_dir(&of_spawner).expect("it is there").flatten().map(|entry| entry.path());
            inside.filter(|path| path.is_dir()).chain([of_spawner]).collect::<Vec<_>>()
        })
    };
    // The group of a script that has just ended may still have its process.
    let is_removed = || {
        groups().for_each(|group| _ = fs::remove_dir(group));
        fs::remove_dir(folder.path()).is_ok()
    };
    assert!(wait_until(TIMEOUT, is_removed));
    let error = server.reload_error();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
    server.replace_workers();
    assert_eq!(server.get("/a.cgi").text(), "hello");
    server.wait_for_line("warn: scripts have no control groups of their own: cannot ", TIMEOUT);
    fs::create_dir(folder.path()).expect("it was there");
    server.reload();
    assert_eq!(server.get("/a.cgi").text(), "hello");
    assert_eq!(folder.folders().len(), 1);
    end_with_groups(server, &folder);
}

#[test]
fn scripts_run_without_control_groups() {
    // The server's own group holds other processes, this one among them.
    let server =
        start(&format!("{CGI}cgroup = \"auto\"\ncgroup_tasks = 20\n"), "print \"X-A: b\\n\\nhello\";");
    server.wait_for_line("scripts have no control groups of their own: ", TIMEOUT);
    assert_eq!(server.get("/a.cgi").text(), "hello");
    // A path that is no folder is an error.
    for (folder, expected) in
        [("/", "/ is not a control group (version 2)"), ("/no/such", "cannot use the control group /no/such")]
    {
        let site = Site::new().config(&format!("[scripts]\ncgroup = \"{folder}\"\n"));
        for words in [&["check", "-c"][..], &["-c"]] {
            let output = e2e::output_of(e2e::command().args(words).arg(site.write_config()));
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && stderr.contains(expected), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn reports_an_application_that_cannot_be_started() {
    let site = Site::new().script("app.cgi", "#!/etc/passwd\n");
    let program = site.root().join("app.cgi");
    let config = format!(
        "[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\ncommand = \"{}\"\n",
        program.display()
    );
    let server = site.config(&config).start();
    assert_eq!(server.get("/app/").status, 503);
    let line = server.wait_for_line("application \"app\": cannot start", TIMEOUT);
    assert!(
        line.contains("its account may not execute it, or the program that its first line names"),
        "{line}"
    );
}
