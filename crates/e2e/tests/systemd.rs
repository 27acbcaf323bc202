//! Messages to the service manager, and its sockets: readiness, reloads, the watchdog, and socket activation.
//! The test itself is the manager.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Client, Folder, Signal, Site, TIMEOUT, output_of, program, signal_process, stop_process, tool, wait_until,
};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::time::{ClockId, clock_gettime};

/// The watchdog interval.
const WATCHDOG: Duration = Duration::from_millis(400);

/// The manager's end of the notification socket.
struct Manager {
    socket: UnixDatagram,
    folder: Folder,
}

impl Manager {
    fn new() -> Manager {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("it is our folder");
        socket.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
        Manager { socket, folder }
    }

    fn env(&self, site: Site) -> Site {
        site.env("NOTIFY_SOCKET", self.folder.path().join("notify"))
    }

    /// The next message. Panics if none comes.
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.socket.recv(&mut bytes).expect("the program sends a message");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// The next message that is not about the watchdog.
    fn next_but_alive(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    /// The number of messages within a time, which must all be the same.
    fn count(&self, expected: &str, time: Duration) -> usize {
        let until = Instant::now() + time;
        let mut count = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.socket.set_read_timeout(Some(left)).expect("it is a socket");
            let mut bytes = [0; 4096];
            let Ok(len) = self.socket.recv(&mut bytes) else { break };
            assert_eq!(String::from_utf8_lossy(&bytes[..len]), expected);
            count += 1;
        }
        self.socket.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
        count
    }
}

fn monotonic_micros() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Checks `RELOADING=1` with its start time.
fn check_reloading(message: &str, since: u64) {
    let time = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|text| text.parse::<u64>().ok());
    assert!(
        time.is_some_and(|time| (since..=monotonic_micros()).contains(&time)),
        "{message:?} after {since}"
    );
}

#[test]
fn notifies_the_manager_of_every_change_of_state() {
    let manager = Manager::new();
    let mut server = manager.env(Site::new().file("a.txt", "a")).start();
    assert_eq!(manager.next(), "READY=1");
    assert_eq!(server.get("/a.txt").status, 200, "the server is ready");

    let since = monotonic_micros();
    server.reload();
    check_reloading(&manager.next(), since);
    assert_eq!(manager.next(), "READY=1");

    let since = monotonic_micros();
    server.signal(Signal::HUP);
    check_reloading(&manager.next(), since);
    assert_eq!(manager.next(), "READY=1");

    let since = monotonic_micros();
    server.configure("lisen = 1");
    server.reload_error();
    check_reloading(&manager.next(), since);
    assert_eq!(manager.next(), "READY=1", "as before");

    server.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1");
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
}

#[test]
fn the_manager_learns_the_end_of_a_reload_that_an_upgrade_rules_out() {
    let manager = Manager::new();
    let folder = Folder::new();
    let installed = folder.path().join("taipan");
    fs::copy(program(), &installed).expect("it can be copied");
    let mut command = Command::new(&installed);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = manager.env(Site::new().file("a.txt", "a")).start_by(command);
    assert_eq!(manager.next(), "READY=1");
    // A new program that does nothing. One that runs cannot be written to.
    let mark = folder.path().join("mark");
    folder.script("new", format!("#!/bin/sh\ntouch {}\nexec sleep 1000\n", mark.display()));
    fs::rename(folder.path().join("new"), &installed).expect("it is our folder");
    server.signal(Signal::USR2);
    assert!(wait_until(TIMEOUT, || mark.exists()), "{}", server.stderr());
    let since = monotonic_micros();
    server.signal(Signal::HUP);
    check_reloading(&manager.next(), since);
    assert_eq!(manager.next(), "READY=1");
}

#[test]
fn only_the_master_has_the_socket_to_the_manager() {
    let manager = Manager::new();
    let server = manager.env(Site::new().file("a.txt", "a")).start();
    assert_eq!(manager.next(), "READY=1");
    assert_eq!(datagram_sockets(server.pid()), 1);
    for pid in server.children() {
        assert_eq!(datagram_sockets(pid), 0, "{pid}");
    }
}

/// The number of Unix datagram sockets that a process has open (proc_net(5)).
fn datagram_sockets(pid: u32) -> usize {
    let sockets = fs::read_to_string("/proc/net/unix").expect("there is procfs");
    let datagrams = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let datagrams: Vec<String> =
        datagrams.filter(|line| line[4] == "0002").map(|line| format!("socket:[{}]", line[6])).collect();
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs");
    let targets = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    targets.filter(|target| datagrams.iter().any(|datagram| target.as_os_str() == &**datagram)).count()
}

#[test]
fn reports_the_new_main_process_after_an_upgrade() {
    let manager = Manager::new();
    let site = manager
        .env(Site::new().file("a.txt", "a").config("pid_file = \"pid\"").env("WATCHDOG_USEC", micros()));
    let mut server = site.start();
    assert_eq!(manager.next_but_alive(), "READY=1");
    assert_eq!(server.run_command(&["upgrade"]).status.code(), Some(0));
    let pid = || fs::read_to_string(server.home().join("pid")).ok()?.trim().parse::<u32>().ok();
    assert!(wait_until(TIMEOUT, || pid().is_some_and(|pid| pid != server.pid())));
    let new = pid().expect("it is there");
    let mut messages = vec![manager.next_but_alive(), manager.next_but_alive()];
    messages.sort();
    assert_eq!(messages, [format!("MAINPID={new}\nREADY=1"), "READY=1".to_owned()]);
    server.succeeded_by(new);
    server.wait_for_predecessor(TIMEOUT);
    // The new program sends the watchdog messages.
    while manager.count("WATCHDOG=1", WATCHDOG) == 0 {}
    assert_eq!(server.get("/a.txt").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(manager.next_but_alive(), "STOPPING=1");
}

fn micros() -> String {
    WATCHDOG.as_micros().to_string()
}

#[test]
fn pings_the_watchdog_only_while_every_event_loop_runs() {
    let manager = Manager::new();
    let site = Site::new().file("a.txt", "a").config("workers = 2").env("WATCHDOG_USEC", micros());
    let server = manager.env(site).start();
    assert_eq!(manager.next_but_alive(), "READY=1");
    for _ in 0..3 {
        let since = Instant::now();
        assert_eq!(manager.next(), "WATCHDOG=1");
        assert!(since.elapsed() < TIMEOUT);
    }
    let serving = server.serving_pid();
    stop_process(serving);
    // Earlier messages first; then none.
    manager.count("WATCHDOG=1", WATCHDOG * 2);
    assert_eq!(manager.count("WATCHDOG=1", WATCHDOG * 3), 0, "a stuck process sends nothing");
    signal_process(serving, Signal::CONT);
    assert_eq!(manager.next(), "WATCHDOG=1");
    assert_eq!(server.get("/a.txt").status, 200);
    // Also after a reload. The queued messages come first.
    manager.count("WATCHDOG=1", WATCHDOG);
    server.reload();
    let messages: Vec<String> = (0..2).map(|_| manager.next_but_alive()).collect();
    assert!(messages[0].starts_with("RELOADING=1") && messages[1] == "READY=1", "{messages:?}");
    assert_eq!(manager.next(), "WATCHDOG=1");
}

#[test]
fn keeps_serving_when_the_manager_reads_no_messages() {
    let manager = Manager::new();
    let site = Site::new().file("a.txt", "a").config("workers = 2").env("WATCHDOG_USEC", "20000");
    let mut server = manager.env(site).start();
    // Until the program has sent more than the socket takes (unix(7), max_dgram_qlen), which no event
    // reports.
    thread::sleep(Duration::from_secs(1));
    server.reload();
    assert_eq!(server.get("/a.txt").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
}

#[test]
fn sends_no_watchdog_pings_without_a_watchdog() {
    for site in [Site::new(), Site::new().env("WATCHDOG_USEC", "0")] {
        let manager = Manager::new();
        let server = manager.env(site.file("a.txt", "a")).start();
        assert_eq!(manager.next(), "READY=1");
        assert_eq!(manager.count("", Duration::from_millis(600)), 0);
        assert_eq!(server.get("/a.txt").status, 200);
    }
}

/// Starts the program of a site with these sockets, as `sd_listen_fds(3)` says: from descriptor 3 on.
fn start_with(site: &Site, sockets: &[OwnedFd], variables: &str) -> Command {
    // A shell sets LISTEN_PID, because only it knows the process that becomes the program's.
    const FROM: i32 = 100;
    let pass = |socket: &OwnedFd| {
        let fd = fcntl_dupfd_cloexec(socket, FROM).expect("there is a number left");
        fcntl_setfd(&fd, FdFlags::empty()).expect("it is open");
        fd.into_raw_fd()
    };
    let passed: Vec<i32> = sockets.iter().map(pass).collect();
    let mut moves = String::new();
    for (n, fd) in passed.iter().enumerate() {
        moves.push_str(&format!(" {}<&{fd} {fd}<&-", n + 3));
    }
    let config = site.write_config();
    let mut command = tool("bash");
    command.args(["-c", &format!("{variables} exec \"$@\"{moves}"), "bash"]).arg(program());
    command.arg("-c").arg(config).current_dir(site.home());
    command
}

/// An open TCP socket and an open Unix socket.
struct Opened {
    folder: Folder,
    fds: Vec<OwnedFd>,
    address: SocketAddr,
    path: PathBuf,
}

impl Opened {
    fn new() -> Opened {
        let folder = Folder::new();
        let path = folder.path().join("passed.sock");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let unix = UnixListener::bind(&path).expect("it is our folder");
        let address = tcp.local_addr().expect("it is bound");
        Opened { folder, fds: vec![tcp.into(), unix.into()], address, path }
    }

    fn answers(&self) -> bool {
        let (tcp, unix) = (Client::tcp(self.address).get("/a.txt"), Client::unix(&self.path).get("/a.txt"));
        (tcp.status, unix.status) == (200, 200)
    }
}

#[test]
fn serves_on_sockets_from_the_manager() {
    for (listen, own) in [("listen = []", 0), ("listen = [\"127.0.0.1:0\"]", 1)] {
        let opened = Opened::new();
        // A connection from before the start waits in the kernel.
        let mut early = Client::tcp(opened.address);
        early.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        let site =
            Site::new().file("a.txt", "a").config(&format!("{listen}\nworkers = 2\npid_file = \"pid\""));
        let mut server =
            site.start_with(own + 2, |site| start_with(site, &opened.fds, "LISTEN_PID=$$ LISTEN_FDS=2"));
        assert_eq!(early.read_response().status, 200);
        assert!(opened.answers());
        assert_eq!(server.addresses().len(), own + 2);

        // The sockets stay the same after every change.
        server.configure(&format!("{listen}\nworkers = 1\npid_file = \"pid\""));
        server.reload();
        assert!(opened.answers());
        assert_eq!(server.run_command(&["upgrade"]).status.code(), Some(0), "{}", server.stderr());
        let pid = || fs::read_to_string(server.home().join("pid")).ok()?.trim().parse::<u32>().ok();
        assert!(wait_until(TIMEOUT, || pid().is_some_and(|pid| pid != server.pid())));
        let new = pid().expect("it is there");
        server.succeeded_by(new);
        server.wait_for_predecessor(TIMEOUT);
        assert!(opened.answers());
        server.reload();
        assert!(opened.answers());

        // They belong to the manager, and stay when the program ends.
        server.signal(Signal::TERM);
        assert!(wait_until(TIMEOUT, || !Path::new(&format!("/proc/{new}")).exists()));
        assert!(opened.path.exists() && opened.folder.path().exists());
        assert!(TcpStream::connect(opened.address).is_ok(), "no connection is refused until the next start");
    }
}

#[test]
fn refuses_a_configuration_without_addresses_when_no_sockets_are_passed() {
    let opened = Opened::new();
    let site = || Site::new().file("a.txt", "a").config("listen = []");
    let rows: [(&[OwnedFd], &str, &str); 5] = [
        (&[], "", "there is no address to listen on, and no socket was passed to this program"),
        (&[], "LISTEN_PID=$$ LISTEN_FDS=0", "no socket was passed to this program"),
        (&opened.fds, "LISTEN_PID=1 LISTEN_FDS=2", "no socket was passed to this program"),
        (&[], "LISTEN_PID=$$ LISTEN_FDS=1", "descriptor 3 was promised, but is not open"),
        (
            &[fs::File::open("/dev/null").expect("it is there").into()],
            "LISTEN_PID=$$ LISTEN_FDS=1",
            "no socket was passed",
        ),
    ];
    for (sockets, variables, why) in rows {
        let site = site();
        let output = output_of(&mut start_with(&site, sockets, variables));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{variables}: {stderr}");
        assert!(stderr.contains(why), "{variables}: {stderr}");
    }
}

#[test]
fn units_pass_systemd_analyze() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let folder = Folder::new();
    let mut names = Vec::new();
    for unit in fs::read_dir(&units).expect("it is there").flatten() {
        let text = fs::read_to_string(unit.path()).expect("it is text");
        assert!(!text.contains("ExecStart=") || text.contains("ExecStart=/usr/bin/taipan -c "));
        // systemd-analyze checks that the program exists.
        let text = text.replace("/usr/bin/taipan", &program().display().to_string());
        names.push(folder.file(&unit.file_name().to_string_lossy(), text));
    }
    assert_eq!(names.len(), 2);
    let output = output_of(tool("systemd-analyze").args(["verify", "--man=no"]).args(&names));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    // Complaints about other units do not matter.
    let about_ours = stderr.lines().filter(|line| line.contains("taipan")).collect::<Vec<_>>();
    assert!(output.status.success() && about_ours.is_empty(), "{stderr}");
}
