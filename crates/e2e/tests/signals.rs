//! Shutdown by signals, and the next start.

use std::fs;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{
    Address, Client, Folder, Random, ReadError, Server, Signal, Site, SmallDisk, TIMEOUT, children_of,
    command, free_port, is_root, output_of, output_within, program, runs, signal_process, stop_process, tool,
    wait_until,
};
use rustix::process::{Pid, kill_process};

const LONG: usize = 32 * 1024 * 1024;

/// Long enough for immediate actions, and far less than any timeout that would end them.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Waits until the server accepts no connection.
fn wait_until_refused(server: &Server) {
    let address = server.addr();
    // A connection from before the listener closed is closed without a response.
    assert!(wait_until(TIMEOUT, || TcpStream::connect(address).is_err()), "{address} still accepts");
}

#[test]
fn a_program_that_was_started_with_sigchld_ignored_notices_the_end_of_its_processes() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let started = command();
    let mut serve = tool("env");
    serve.arg("--ignore-signal=CHLD").arg(started.get_program()).args(started.get_args());
    serve.arg(home.path().join("www")).args(["--listen", "127.0.0.1:0"]);
    if is_root() {
        serve.args(["--user", "root"]);
    }
    let mut server = Server::start(serve, 1, None);
    server.replace_workers();
    assert_eq!(server.get("/a.txt").text(), "a");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
}

#[test]
fn a_full_disk_that_is_mounted_costs_no_pid_file_and_leaves_no_empty_one() {
    let site = |name: &str| Site::new().file("a.txt", "a").config(&format!("pid_file = \"small/{name}\""));
    let fill = |site: &Site| {
        let folder = site.home().join("small");
        fs::create_dir(&folder).expect("it is a new folder");
        let disk = SmallDisk::mount(&folder, "size=64k,mode=755");
        fs::write(folder.join("old"), "99999999\n").expect("there is space");
        // The last bytes do not fit.
        _ = fs::write(folder.join("ballast"), vec![0; 128 * 1024]);
        (folder, disk)
    };
    let rejected = site("new");
    let (folder, _disk) = fill(&rejected);
    let output = output_within(command().arg("-c").arg(rejected.write_config()), TIMEOUT);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot write the pid file") && text.contains("No space left"), "{text}");
    assert!(!folder.join("new").exists(), "no empty file is left");
    let replaced = site("old");
    let (folder, _disk) = fill(&replaced);
    let server = replaced.start();
    assert_eq!(fs::read_to_string(folder.join("old")).unwrap(), format!("{}\n", server.pid()));
}

#[test]
fn sigterm_finishes_running_requests_and_exits_with_0() {
    for workers in [1, 2] {
        let content = Random::new(1).bytes(LONG);
        let site = Site::new().file("long", &content).file("a.txt", "a");
        // So that the silent client is accepted at once.
        let config = format!("workers = {workers}\n[timeouts]\ndefer_accept = \"0s\"");
        let mut server = site.config(&config).start();
        let downloads: Vec<Client> = (0..3).map(|_| server.begin_download("/long")).collect();
        let mut half = server.connect();
        half.send("GET /a.txt HTTP/1.1\r\nHo");
        let mut idle = server.connect();
        assert_eq!(idle.get("/a.txt").status, 200);
        let mut silent = server.connect();
        // With one worker, all earlier input has been read by now.
        assert_eq!(server.get("/a.txt").status, 200);

        server.signal(Signal::TERM);
        wait_until_refused(&server);
        let closed = Instant::now();
        assert!(idle.is_closed() && silent.is_closed(), "idle connections close at once");
        assert!(closed.elapsed() < AT_ONCE, "{:?}", closed.elapsed());

        if workers == 1 {
            half.send("st: a\r\n\r\n");
            let answer = half.read_response();
            let status_and_connection = (answer.status, answer.field("connection"));
            assert_eq!(status_and_connection, (200, Some("close")), "a running request is answered");
            assert!(half.is_closed());
        }
        drop(half);
        for mut download in downloads {
            let response = download.read_response();
            assert!(response.status == 200 && response.body == content, "{} bytes", response.body.len());
            assert!(download.is_closed(), "and its connection closes");
        }
        let ended = Instant::now();
        assert_eq!(server.wait(TIMEOUT).code(), Some(0));
        assert!(ended.elapsed() < AT_ONCE, "{:?}", ended.elapsed());
    }
}

#[test]
fn sigterm_closes_long_idle_connections() {
    let mut server = Site::new().file("a.txt", "a").start();
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().take(10).for_each(|client| drop(client.get("/a.txt")));
    assert!(wait_until(TIMEOUT, || server.count("parked") == 20), "{}", server.stats());
    server.signal(Signal::TERM);
    assert!(clients.iter_mut().all(Client::is_closed));
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn sigterm_right_after_the_start_exits_with_0() {
    for _ in 0..20 {
        let mut server = Site::new().config("pid_file = \"pid\"").start();
        server.signal(Signal::TERM);
        assert_eq!(server.wait(AT_ONCE).code(), Some(0));
        assert!(!server.home().join("pid").exists());
    }
}

#[test]
fn cuts_off_responses_after_the_shutdown_timeout() {
    let site = Site::new().config("[timeouts]\nshutdown = \"500ms\"\n[log]\naccess = \"stdout\"");
    std::fs::File::create(site.root().join("long")).unwrap().set_len(LONG as u64).unwrap();
    let mut server = site.start();
    let mut client = server.begin_download("/long");
    let started = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(450) && took < AT_ONCE, "{took:?}");
    let cut = matches!(client.try_read_response(), Err(ReadError::Closed { .. } | ReadError::Reset));
    assert!(cut, "the download has an end, and not its own");
    let line = server.stdout();
    assert!(line.lines().count() == 1 && line.contains("\"GET /long HTTP/1.1\" 200 "), "{line}");
    assert!(!line.ends_with(" -"), "the line has the reason: {line}");
    let said = "connections cut off after 0.5 s: 1; to let them finish, raise shutdown in [timeouts]";
    assert!(server.stderr().contains(said), "{}", server.stderr());
}

#[test]
fn sigterm_ends_children_that_are_stopped() {
    let site = Site::new().file("a.txt", "a").config(
        "[[route]]\npath = \"*.cgi\"\ncgi = true\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"127.0.0.1:9\"\n\
         [log]\naccess = \"./access.log\"\n[log.rotate]\nsize = \"1MB\"",
    );
    let mut server = site.start();
    assert_eq!(server.get("/a.txt").status, 200);
    let children = server.children();
    assert_eq!(children.len(), 4, "a logger, a pool, a spawner and a generation");
    children.iter().for_each(|pid| stop_process(*pid));
    let started = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    assert!(!children.iter().any(|pid| runs(*pid)));
}

#[test]
fn children_that_hang_are_killed_at_one_deadline() {
    let config = "[timeouts]\nshutdown = \"1s\"\n[log]\naccess = \"|/bin/cat\"\n\
                  [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
                  [[application]]\nname = \"app\"\ncommand = [\"/bin/sleep\", \"1000\"]\ngrace = \"1s\"\n";
    let site = Site::new().config(config);
    std::fs::File::create(site.root().join("long")).unwrap().set_len(LONG as u64).unwrap();
    let mut server = site.start();
    // Without a client, all of them could have ended before the first is stopped.
    let _client = server.begin_download("/long");
    let began = Instant::now();
    server.signal(Signal::TERM);
    let stopped = || server.stderr().contains("processes have not ended in time, and are killed");
    // Each is stopped again when the program has had it go on.
    let is_reported = wait_until(Duration::from_secs(30), || {
        for pid in server.children() {
            let process = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("it is a process");
            // It may have been killed.
            _ = kill_process(process, Signal::STOP);
        }
        stopped()
    });
    assert!(is_reported, "{}", server.stderr());
    // One second, two of the process that serves, and 15 of the longest one behind it.
    assert!(began.elapsed() >= Duration::from_secs(18), "{:?}", began.elapsed());
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn sigint_stops_now() {
    let site = Site::new().config("[log]\naccess = \"stdout\"").file("a.txt", "a");
    std::fs::File::create(site.root().join("long")).unwrap().set_len(LONG as u64).unwrap();
    let mut server = site.start();
    let mut client = server.begin_download("/long");
    assert_eq!(server.get("/a.txt").status, 200);
    let started = Instant::now();
    server.signal(Signal::INT);
    assert_eq!(server.wait(TIMEOUT).code(), Some(130));
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    assert!(matches!(client.try_read_response(), Err(ReadError::Closed { .. } | ReadError::Reset)));
    let lines = server.stdout();
    assert_eq!(lines.lines().count(), 2, "one line per request, also for the one that was cut off: {lines}");
}

#[test]
fn sigint_ends_a_graceful_shutdown() {
    let site = Site::new();
    std::fs::File::create(site.root().join("long")).unwrap().set_len(LONG as u64).unwrap();
    let mut server = site.start();
    let _client = server.begin_download("/long");
    server.signal(Signal::TERM);
    wait_until_refused(&server);
    server.signal(Signal::INT);
    assert_eq!(server.wait(AT_ONCE).code(), Some(130));
}

#[test]
fn the_port_is_free_at_once_after_every_kind_of_end() {
    let home = Folder::new();
    home.file("a.txt", "a");
    let serve = |address: &str| {
        let mut serve = command();
        serve.arg(home.path()).args(["--listen", address, "--listen"]);
        serve.arg(format!("unix:{}", home.path().join("t.sock").display()));
        Server::start(serve, 2, None)
    };
    let address = format!("127.0.0.1:{}", free_port());
    let mut server = serve(&address);
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::KILL] {
        // Connections of every kind: answered and open, silent, and closed first by the server.
        let mut open = server.connect();
        assert_eq!(open.get("/a.txt").status, 200);
        let _silent = server.connect();
        assert_eq!(server.request("nonsense\r\n\r\n").status, 400);
        server.signal(signal);
        server.wait(TIMEOUT);
        server = serve(&address);
        assert_eq!(server.addr().to_string(), address);
        assert_eq!(server.get("/a.txt").status, 200);
        assert!(
            matches!(&server.addresses()[1], Address::Unix(path) if Client::unix(path).get("/a.txt").status == 200)
        );
    }
}

/// Runs a program on a terminal of its own, closes that when the program serves, and prints how the program has ended.
/// With `nohup` in front, SIGHUP is ignored at its start. The program then reloads, and gets SIGTERM.
const ON_A_TERMINAL: &str = r#"
import os, pty, signal, sys, time
ignores, program = sys.argv[1] == "nohup", sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores else signal.SIG_DFL)
    os.execv(program[0], program)
signal.alarm(60)
output = b""
while b"from this machine" not in output:
    output += os.read(terminal, 4096)
children = lambda: open(f"/proc/{pid}/task/{pid}/children").read()
before = children()
os.close(terminal)
if ignores:
    while children() == before:
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn the_end_of_its_terminal_ends_the_program_unless_nohup_keeps_it() {
    let folder = Folder::new();
    for keeps in ["", "nohup"] {
        let mut on_a_terminal = tool("python3");
        on_a_terminal.args(["-c", ON_A_TERMINAL, keeps]).arg(command().get_program()).arg(folder.path());
        let output = output_of(on_a_terminal.args(["--listen", "127.0.0.1:0"]));
        let [printed, errors] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(printed.trim(), "0", "{keeps}: {errors}");
    }
}

/// The program as the first process of a PID namespace, such as that of a container.
fn as_first_process() -> Command {
    let mut command = tool("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(program());
    command
}

/// The program below the first process of a PID namespace, which is a shell that runs `script`.
fn below_init(script: &str) -> Command {
    let mut command = tool("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "init"])
        .arg(program());
    command
}

/// The number of the first process outside of its namespace, as soon as it runs the program.
fn first_process(outside: u32) -> u32 {
    let runs =
        |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path.ends_with("taipan"));
    let mut found = None;
    let has_begun = wait_until(TIMEOUT, || {
        found = children_of(outside).into_iter().find(runs);
        found.is_some()
    });
    assert!(has_begun, "it does not start");
    found.expect("it has begun")
}

/// Whether a line of `/proc/PID/status` with signals has SIGTERM.
fn has_term(pid: u32, line: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|own| own.strip_prefix(line));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (Signal::TERM.as_raw() - 1) != 0
}

#[test]
fn the_first_process_of_a_container_keeps_a_signal_that_comes_before_it_handles_any_as_root() {
    // It waits for the sockets of a program before it, which do not come.
    let (_old, new) = UnixStream::pair().expect("a pair can be made");
    rustix::io::fcntl_setfd(&new, rustix::io::FdFlags::empty()).expect("it is open");
    let home = Folder::new();
    let mut command = as_first_process();
    command.env("TAIPAN_UPGRADE", new.as_raw_fd().to_string()).arg(home.path());
    let mut outside = command.spawn().expect("it starts");
    let first = first_process(outside.id());
    let is_ready = wait_until(TIMEOUT, || has_term(first, "SigBlk:"));
    signal_process(first, Signal::TERM);
    let is_kept = has_term(first, "ShdPnd:");
    outside.kill().expect("it is our child");
    outside.wait().expect("it is our child");
    assert!(is_ready && is_kept);
}

#[test]
fn the_first_process_of_a_container_refuses_an_upgrade_by_which_the_container_would_end_as_root() {
    let mut server = Site::new().file("a.txt", "a").start_by(as_first_process());
    let first = first_process(server.pid());
    server.succeeded_by(first);
    // By a process outside of its namespace.
    let upgraded = server.run_command(&["upgrade"]);
    let text = String::from_utf8_lossy(&upgraded.stderr).into_owned();
    assert_eq!(upgraded.status.code(), Some(1), "{text}");
    assert!(text.contains("this program is process 1, as in a container"), "{text}");
    server.wait_for_line("control: uid 0, a process outside of this container: upgrade", TIMEOUT);
    server.signal(Signal::USR2);
    let count = || server.stderr().matches("no upgrade: this program is process 1").count();
    assert!(wait_until(TIMEOUT, || count() == 2), "{}", server.stderr());
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn an_upgrade_is_refused_where_what_has_started_the_program_would_end_with_it_as_root() {
    // The init process of a container, which ends when the program has ended.
    let init = below_init("\"$@\"; exit $?");
    // A unit without Type=notify.
    let mut unit = tool("sh");
    unit.args(["-c", "SYSTEMD_EXEC_PID=$$ exec \"$@\"", "systemd"]).arg(program());
    unit.env_remove("NOTIFY_SOCKET");
    let folder = Folder::new();
    folder.script("s6-supervise", "#!/bin/sh\n\"$@\"\nexit $?\n");
    let mut supervisor = Command::new(folder.path().join("s6-supervise"));
    supervisor.arg(program()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (command, why) in [
        (init, "which ends with it"),
        (unit, "write Type=notify into the unit"),
        (supervisor, "s6-supervise started this program, and would start it again"),
    ] {
        let mut server = Site::new().file("a.txt", "a").start_by(command);
        let is_program =
            |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path.ends_with("taipan"));
        let inits = children_of(server.pid());
        let below = inits.iter().copied().chain(inits.iter().flat_map(|init| children_of(*init)));
        if let Some(master) = below.filter(|pid| is_program(*pid)).min().filter(|_| !is_program(server.pid()))
        {
            server.succeeded_by(master);
        }
        let upgraded = server.run_command(&["upgrade"]);
        let text = String::from_utf8_lossy(&upgraded.stderr).into_owned();
        assert_eq!(upgraded.status.code(), Some(1), "{text}");
        assert!(text.contains(why), "{text}");
        assert_eq!(server.get("/a.txt").text(), "a");
    }
}

#[test]
fn a_program_that_process_1_has_only_adopted_is_upgraded_as_root() {
    // What has started it ends with it, and process 1 goes on.
    let script = "trap exit INT; sh -c '\"$@\"; :' starter \"$@\"; sleep 600 & wait";
    let mut server = Site::new().file("a.txt", "a").start_by(below_init(script));
    server.succeeded_by(children_of(server.pid())[0]);
    for _ in 0..2 {
        let upgraded = server.run_command(&["upgrade"]);
        assert!(upgraded.status.success(), "{}", String::from_utf8_lossy(&upgraded.stderr));
        assert_eq!(server.get("/a.txt").text(), "a");
    }
}
