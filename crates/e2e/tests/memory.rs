//! `taipan check` prints the most memory that a connection may use. Clients that send as much as they can and
//! read nothing do not exceed it.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Client, ControlGroup, Server, Site, TIMEOUT, exclusive, run, wait_until};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

const CLIENTS: usize = 990;
/// More than a connection may buffer of its input.
const INPUT: usize = 200_000;

fn site() -> Site {
    let top = "workers = 1\n[[route]]\npath = \"*.cgi\"\ncgi = true\nmax_body = \"10MiB\"";
    let limits = "[limits]\nconnections = 1000\nrejections = 8\nunsent = \"64KiB\"\n[timeouts]\ndelay = \"0s\"\nwrite = \"5m\"\nbody = \"5m\"\n\
                  [scripts]\nqueue = 2000\nwait = \"5m\"\nprocesses = 8\n[log]\naccess = \"./access.log\"";
    Site::new().file("a.bin", vec![7; 60_000]).config(top).config(limits)
}

/// Parses `128.0 KiB` into bytes.
fn bytes(text: &str) -> u64 {
    let (number, unit) = text.trim().split_once(' ').expect("it has a unit");
    let unit = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        other => panic!("what is {other}?"),
    };
    (number.parse::<f64>().expect("it is a number") * unit) as u64
}

/// The limits that `taipan check` prints for one connection, and for all scripts together.
fn promised_limits(server: &Server) -> (u64, u64) {
    let config = server.home().join("site.toml");
    let checked = run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let stdout = String::from_utf8(checked.stdout).expect("it is text");
    let line = |name: &str| {
        let found =
            stdout.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name}: {stdout}"));
        let (sum, rest) = found.split_once('=').expect("it is a sum");
        let (_, each) = rest.split_once(" x ").expect("it is a product");
        (bytes(sum), bytes(each.trim_start().split("  ").next().unwrap_or_default()))
    };
    (line("connections: task").1, line("scripts that run").0)
}

/// The peak memory of a process, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    line.trim_matches(['\t', ' ', 'k', 'B']).parse::<u64>().expect("it is a number") * 1024
}

/// Sends as much of `input` as the socket takes at once; the rest stays in `input`.
fn send_what_is_taken(client: &Client, input: &mut &[u8]) {
    while !input.is_empty() {
        match send(client, input, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => *input = &input[sent..],
            Err(Errno::AGAIN) => break,
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// So many clients send `input` and read nothing.
fn attack(site: Site, what: &str, clients: usize, input: &[u8]) {
    let server = site.start();
    let pid = server.serving_pid();
    assert_eq!(server.get("/a.bin").status, 200);
    let (each, scripts) = promised_limits(&server);
    let before = peak(pid);
    let mut attackers: Vec<(Client, &[u8])> = (0..clients).map(|_| (server.connect(), input)).collect();
    attackers.iter_mut().for_each(|(attacker, _)| attacker.set_receive_buffer(4096));
    let holds = wait_until(TIMEOUT * 2, || {
        attackers.iter_mut().for_each(|(attacker, left)| send_what_is_taken(attacker, left));
        server.count("active") >= clients as u64
    });
    assert!(holds, "{what}: {}", server.stats());
    // The server has processed all that it can.
    let mut sent = server.count("bytes");
    for _ in 0..20 {
        assert_eq!(server.get("/a.bin").status, 200);
    }
    assert!(wait_until(TIMEOUT, || std::mem::replace(&mut sent, server.count("bytes")) == sent));
    let grown = peak(pid) - before;
    eprintln!("{what}: {} bytes for each of {clients} clients, {each} are promised", grown / clients as u64);
    assert!(
        grown <= each * clients as u64 + scripts,
        "{what}: {} bytes for each of {clients} clients, and only {each} are promised",
        grown / clients as u64
    );
}

/// Pipelined requests.
fn pipelined(request: &str) -> Vec<u8> {
    request.repeat(INPUT / request.len() + 1).into_bytes()
}

#[test]
fn pipelined_requests_for_cached_files_stay_within_the_promised_memory() {
    let _exclusive = exclusive();
    attack(site(), "files", CLIENTS, &pipelined("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n"));
}

#[test]
fn pipelined_range_requests_stay_within_the_promised_memory() {
    let _exclusive = exclusive();
    let request = "GET /a.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-59998\r\n\r\n";
    attack(site(), "parts", CLIENTS, &pipelined(request));
}

#[test]
fn pipelined_requests_for_a_few_bytes_stay_within_the_promised_memory() {
    let _exclusive = exclusive();
    attack(site(), "a few bytes", 300, &pipelined("HEAD /a.bin HTTP/1.1\r\nHost: h\r\n\r\n").repeat(20));
    let request = format!("HEAD /a.bin HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "x".repeat(600));
    attack(site(), "with much for the log", 300, &pipelined(&request).repeat(4));
}

#[test]
fn requests_pipelined_behind_a_script_stay_within_the_promised_memory() {
    let _exclusive = exclusive();
    let site = site().script("slow.cgi", "#!/bin/sh\nsleep 60\n");
    let mut input = b"GET /slow.cgi HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    input.extend(pipelined("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n"));
    attack(site, "behind a script", CLIENTS, &input);
}

#[test]
fn buffered_bodies_stay_within_the_promised_memory() {
    let _exclusive = exclusive();
    let site = site().script("slow.cgi", "#!/bin/sh\nsleep 60\n");
    let head = "POST /slow.cgi HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let input = format!("{head}{}", format!("7fff\r\n{}\r\n", "x".repeat(0x7fff)).repeat(6));
    // None of them complete.
    attack(site, "collected bodies", CLIENTS, &input.as_bytes()[..INPUT - 10_000]);
}

#[test]
fn unread_script_output_stays_within_the_promised_memory() {
    let _exclusive = exclusive();
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec head -c 120000 /dev/zero\n";
    let site = site().script("much.cgi", script);
    attack(site, "output", 100, "GET /much.cgi HTTP/1.1\r\nHost: h\r\n\r\n".repeat(100).as_bytes());
}

/// Private memory of a process, in bytes.
fn anonymous(pid: u32) -> u64 {
    memory(pid, "RssAnon:")
}

/// Pages of the program and its libraries that a process has in memory, in bytes.
fn of_files(pid: u32) -> u64 {
    memory(pid, "RssFile:")
}

fn memory(pid: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("it is there");
    line.trim_matches(['\t', ' ', 'k', 'B']).parse::<u64>().expect("it is a number") * 1024
}

/// The C library alone is one megabyte. Of a program without optimization, a start uses six more.
const FEW_BYTES_OF_FILES: u64 = 4 * 1024 * 1024;

fn gives_back(pid: u32) -> bool {
    wait_until(TIMEOUT, || of_files(pid) < FEW_BYTES_OF_FILES)
}

#[test]
fn what_only_the_start_needed_is_given_back() {
    // With a spawner and a logger.
    let site = Site::new()
        .file("a.txt", "a")
        .script("a.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\na'\n");
    let config = "workers = 1\n[[route]]\npath = \"*.cgi\"\ncgi = true\n[log]\naccess = \"|/bin/cat\"";
    let server = site.config(config).start();
    for pid in [vec![server.pid()], server.children()].concat() {
        assert!(gives_back(pid), "{pid} has {} bytes of files", of_files(pid));
    }
    for path in ["/a.txt", "/a.cgi"] {
        assert_eq!(server.request(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).body, b"a");
    }
}

#[test]
fn what_a_command_needed_is_given_back() {
    let server = Site::new().file("a.txt", "a").config("workers = 1").start();
    assert!(gives_back(server.pid()));
    server.reload();
    assert!(gives_back(server.pid()));
    // It responds to them itself, and nothing of it changes.
    server.stats();
    assert!(gives_back(server.pid()), "{} bytes of files", of_files(server.pid()));
}

#[test]
fn what_requests_needed_is_given_back_when_the_last_connection_has_ended() {
    let server = Site::new().file("a.txt", "a").config("workers = 2\nlisting = true").start();
    let pid = server.serving_pid();
    assert!(gives_back(pid));
    let client = server.connect();
    for path in ["/a.txt", "/", "/b", "/a.txt"] {
        server.request(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    assert!(of_files(pid) > FEW_BYTES_OF_FILES, "requests need {} bytes of files", of_files(pid));
    drop(client);
    assert!(gives_back(pid), "{} bytes of files", of_files(pid));
    assert_eq!(server.request("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").body, b"a");
}

#[test]
fn clients_that_take_files_cost_what_check_calls_typical() {
    let _exclusive = exclusive();
    let size = 20_000_000;
    let site = Site::new().file("a.bin", vec![7; size]).config("workers = 1\n[limits]\nunsent = \"64KiB\"");
    let server = site.start();
    let config = server.home().join("site.toml");
    let checked = run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let stdout = String::from_utf8(checked.stdout).expect("it is text");
    let typical = |when: &str| {
        let line =
            stdout.lines().find(|line| line.ends_with(when)).unwrap_or_else(|| panic!("no {when}: {stdout}"));
        bytes(line.trim_start().split("  ").next().unwrap_or_default())
    };
    let (start, busy) = (typical("at the start"), typical("while 100 clients take files at the same time"));
    let pid = server.serving_pid();
    assert_eq!(server.request("HEAD /a.bin HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
    let before = anonymous(pid);
    assert!(before + anonymous(server.pid()) < start, "{before}");
    let mut clients: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        // The response has begun, and does not end before it is read.
        assert!(client.read_some().expect("it is answered").starts_with(b"HTTP/1.1 200"));
    }
    let grown = anonymous(pid) - before;
    eprintln!("{grown} bytes for 100 clients; before them {before}");
    assert!(grown < busy - start, "{grown} bytes more, and not {}", busy - start);
}

/// A control group that allows so much memory, of either version (cgroups(7)).
struct MemoryGroup {
    folder: PathBuf,
    /// Of version 2.
    second: Option<ControlGroup>,
}

impl MemoryGroup {
    /// Where none can be made, `tests/run` leaves tests with `memory_group` in their names out.
    fn new(bytes: u64) -> MemoryGroup {
        let folder = Path::new("/sys/fs/cgroup/memory").join(format!("taipan-test-{}", std::process::id()));
        let (group, limit) = match fs::create_dir(&folder) {
            Ok(()) => (MemoryGroup { folder, second: None }, "memory.limit_in_bytes"),
            Err(_) => {
                let second = ControlGroup::new("memory", &["memory"]);
                (MemoryGroup { folder: second.path().to_owned(), second: Some(second) }, "memory.max")
            }
        };
        fs::write(group.folder.join(limit), bytes.to_string()).expect("the group is ours");
        group
    }

    fn add(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("the group is ours");
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if self.second.is_none() {
            wait_until(TIMEOUT, || fs::remove_dir(&self.folder).is_ok());
        }
    }
}

#[test]
fn a_memory_group_without_memory_left_costs_a_process_and_the_log_says_why() {
    let _exclusive = exclusive();
    let group = MemoryGroup::new(16 * 1024 * 1024);
    let server = site().start();
    [server.pid(), server.serving_pid()].into_iter().for_each(|pid| group.add(pid));
    let input = pipelined("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut attackers: Vec<(Client, &[u8])> = (0..CLIENTS).map(|_| (server.connect(), &input[..])).collect();
    let is_explained = wait_until(TIMEOUT * 3, || {
        for (attacker, left) in &mut attackers {
            // Their connections end with the process.
            attacker.set_receive_buffer(4096);
            while let Ok(sent @ 1..) = send(&*attacker, left, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                *left = &left[sent..];
            }
        }
        server.stderr().contains("had no memory left")
    });
    assert!(is_explained, "{}", server.stderr());
    drop(attackers);
    server.wait_for_line("a new serving process has taken over", TIMEOUT);
    assert_eq!(server.get("/a.bin").status, 200);
    drop(server);
}
