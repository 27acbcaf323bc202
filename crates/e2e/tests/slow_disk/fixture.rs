//! A server with a fast and the slow file system, which is `/slow/`, and its clients.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{Client, Random, ReadError, Response, Server, Site, run, wait_until};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::file_system::{Call, Contents, IN_IT, LARGE, Mounted, Names, Pages, Slowness, contents};
use crate::{CLIENTS, SECOND};

const BROWSED: &str = "workers = 1\nlisting = true\n";
/// A long timeout for the disk, so that no client gets 503, and no warning about the delay.
pub const LONG_DISK_TIMEOUT: &str = "[timeouts]\ndisk = \"10m\"\ndelay = 0\n[limits]\nbody_streams = 1000\n";
/// The longest time of anything, on a machine with thousands of clients that does much else.
pub const LONGEST: Duration = Duration::from_secs(60);
const FAST_REQUESTS: usize = 200;
/// How much longer 99 of 100 requests for fast files may take than on a server without a slow disk.
const AT_ONCE: Duration = Duration::from_millis(20);
/// A server that stalls does so in every round; a busy machine does not.
const ROUNDS: usize = 10;

/// Where the slow file system is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// As a separate root.
    BesideRoot,
    /// On a folder of the fast root.
    Beneath,
}

pub struct Fixture {
    // Dropped first: a server that waits for it could not end.
    pub disk: Mounted,
    pub server: Server,
    large: Vec<u8>,
    /// The same server without a slow disk: its delays are those of the machine.
    control: OnceLock<Server>,
}

/// Resources that a server holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub descriptors: usize,
    pub threads: usize,
    pub connections: u64,
}

/// Helper threads in use, and requests that wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Helpers {
    pub running: u64,
    pub waiting: u64,
}

impl Fixture {
    pub fn new(place: Place, names: Names, pages: Pages, config: &str) -> Fixture {
        Fixture::start(place, names, pages, config, |_| {})
    }

    /// As `new`; `slow` makes the file system slow before the server starts.
    pub fn start(
        place: Place,
        names: Names,
        pages: Pages,
        config: &str,
        slow_down: impl FnOnce(&Mounted),
    ) -> Fixture {
        let large = Random::new(1).bytes(LARGE);
        let site = fast_site(&large).file("packed.bin.gz", &*contents().packed).folder("folder/deep");
        let site = site.script("hello.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\nhello'\n");
        let at = match place {
            Place::BesideRoot => site.home().join("slow"),
            Place::Beneath => site.root().join("slow"),
        };
        let disk = Mounted::new(&at, names, pages);
        slow_down(&disk);
        let route = match place {
            Place::BesideRoot => {
                format!("[[route]]\npath = \"/slow/\"\nalias = \"{}\"\n", at.display())
            }
            Place::Beneath => String::new(),
        };
        let server = site.config(&format!("{BROWSED}{config}{route}")).start();
        // The server prints its address before its worker has opened the roots.
        // Created first: should this fail, it releases the server.
        let fixture = Fixture { disk, server, large, control: OnceLock::new() };
        assert_eq!(fixture.server.get("/small.txt").body, b"small");
        fixture
    }

    /// Clients that each request another file, if `path` has `{n}`.
    pub fn request(&self, path: &str, count: usize) -> Vec<Client> {
        (0..count).map(|n| self.request_one(path, n)).collect()
    }

    pub fn request_one(&self, path: &str, n: usize) -> Client {
        let mut client = self.server.connect();
        client.set_timeout(LONGEST);
        client.send(get(&path.replace("{n}", &n.to_string())));
        client
    }

    /// Holds a call, and starts clients until all of them wait for it.
    pub fn have_wait(&self, call: Call, slowness: Slowness, path: &str) -> Result<Vec<Client>, String> {
        self.disk.slow_down(call, slowness);
        let waiting = self.request(path, CLIENTS);
        ensure(self.disk.a_call_waits(), || "no request waits".to_owned())?;
        Ok(waiting)
    }

    /// Requests all fast files until 99 of 100 responses come at once, or almost as fast as from the server
    /// without a slow disk. Errors: a request without a response, or no fast round.
    pub fn others_are_unaffected(&self) -> Result<(), String> {
        let mut rounds = Vec::new();
        while rounds.len() < ROUNDS {
            let (p99, most) = self.request_fast_files()?;
            rounds.push(format!("{p99:?}, slowest {most:?}"));
            let mut least = Duration::ZERO;
            if p99 > AT_ONCE {
                least = self.request_all_of(self.control())?.0;
                rounds.push(format!("{least:?} without a slow disk"));
            }
            if p99 <= least + AT_ONCE {
                eprintln!("99 of 100 within {}", rounds.join("; "));
                return Ok(());
            }
        }
        Err(format!("99 of 100 within {}", rounds.join("; ")))
    }

    fn control(&self) -> &Server {
        self.control.get_or_init(|| fast_site(&self.large).config(BROWSED).start())
    }

    /// Requests all fast files. Returns the time of 99 of 100 responses, and the time of all.
    pub fn request_fast_files(&self) -> Result<(Duration, Duration), String> {
        self.request_all_of(&self.server)
    }

    /// Requests every fast path, one after the other.
    fn request_all_of(&self, server: &Server) -> Result<(Duration, Duration), String> {
        let mut kept = server.connect();
        let mut all = Vec::new();
        for n in 0..FAST_REQUESTS {
            let (path, expected) = match n % 3 {
                0 => ("/small.txt".to_owned(), &b"small"[..]),
                1 => (format!("/new-{n}.txt"), &b"new"[..]),
                _ => ("/large.bin".to_owned(), &self.large[..]),
            };
            let since = Instant::now();
            let mut fresh = (n % 2 == 1).then(|| server.connect());
            let client = fresh.as_mut().unwrap_or(&mut kept);
            client.set_timeout(SECOND * 3);
            client.send(get(&path));
            match client.try_read_response() {
                Ok(response) if response.status == 200 && response.body == expected => {}
                Ok(response) => return Err(format!("{path}, {n}: {response}")),
                Err(broken) => return Err(format!("{path}, {n}: {broken}")),
            }
            all.push(since.elapsed());
        }
        all.sort();
        Ok((all[all.len() * 99 / 100 - 1], all[all.len() - 1]))
    }

    /// Requests every file of the slow file system, with and without compression.
    pub fn serves_everything(&self) -> Result<(), String> {
        let last = CLIENTS.to_string();
        for path in ["small-{n}.txt", "large-{n}.bin", "packed-{n}.bin", "folder-{n}/", "none-{n}.txt"] {
            let path = format!("/slow/{path}").replace("{n}", &last);
            let response = self.request_one(&path, 0).try_read_response();
            is_answer(&path, &response.map_err(|broken| format!("{path}: {broken}"))?)?;
        }
        let precompressed = self.server.connect().get_with("/slow/small-7.txt", "Accept-Encoding: gzip\r\n");
        let is_packed = precompressed.field("content-encoding") == Some("gzip");
        ensure(is_packed && precompressed.body == *contents().packed, || {
            format!("a precompressed file: {precompressed}")
        })
    }

    pub fn held(&self) -> Resources {
        let count = |what: &str| {
            let folder = Path::new("/proc").join(self.server.serving_pid().to_string()).join(what);
            fs::read_dir(folder).expect("it runs").count()
        };
        let stats = self.stats();
        let connections = ["active", "idle", "parked"].map(|what| stats[what].as_u64().expect("a number"));
        Resources { descriptors: count("fd"), threads: count("task"), connections: connections.iter().sum() }
    }

    /// Whether all connections are closed and no request is active.
    pub fn is_quiet(&self) -> bool {
        wait_until(LONGEST, || self.held().connections == 0)
    }

    /// Waits until it holds no more than before: an idle helper thread ends after a while.
    pub fn becomes_as(&self, before: Resources) -> bool {
        let is_no_more = || {
            let now = self.held();
            let more = now.threads > before.threads || now.descriptors > before.descriptors;
            !more && now.connections == before.connections && self.helpers() == Helpers::default()
        };
        wait_until(SECOND * 30, is_no_more)
    }

    pub fn helpers(&self) -> Helpers {
        let stats = self.stats();
        let sum = |what: &str| {
            let devices = stats["helpers"].as_array().expect("a list");
            devices.iter().map(|device| device[what].as_u64().expect("a number")).sum()
        };
        Helpers { running: sum("running"), waiting: sum("waiting") }
    }

    /// The sums of `taipan stats`.
    pub fn stats(&self) -> serde_json::Value {
        let config = self.server.home().join("site.toml");
        let printed = run(["stats".as_ref(), "--json".as_ref(), "-c".as_ref(), config.as_os_str()]);
        assert!(printed.status.success(), "{printed:?}");
        let mut stats: serde_json::Value = serde_json::from_slice(&printed.stdout).expect("it is JSON");
        stats["all"].take()
    }
}

/// Requests for fast files.
fn fast_site(large: &[u8]) -> Site {
    let site = Site::new().file("small.txt", "small").file("large.bin", large);
    (0..FAST_REQUESTS).fold(site, |site, n| site.file(&format!("new-{n}.txt"), "new"))
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Checks the final response to a request for a path of the slow file system.
pub fn is_answer(path: &str, response: &Response) -> Result<(), String> {
    let Contents { small, large, .. } = contents();
    let body = &response.body;
    let is_right = match path.trim_start_matches("/slow/").split('-').next() {
        Some("small") => response.status == 200 && *body == **small,
        Some("large" | "packed") => response.status == 200 && *body == **large,
        Some("folder") => response.status == 200 && String::from_utf8_lossy(body).contains(IN_IT),
        _ => response.status == 404,
    };
    ensure(is_right, || format!("{path}: {response}"))
}

/// Checks that all clients get their responses.
pub fn are_answered(path: &str, waiting: Vec<Client>) -> Result<(), String> {
    for mut client in waiting {
        let response = client.try_read_response().map_err(|broken| broken.to_string())?;
        is_answer(path, &response)?;
    }
    Ok(())
}

/// Checks that no client has a complete response yet; the head may have come.
pub fn still_wait(waiting: &mut [Client]) -> Result<(), String> {
    for client in waiting {
        let seen = recv(&*client, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if matches!(seen, Err(Errno::AGAIN)) {
            continue;
        }
        client.set_timeout(Duration::from_millis(1));
        match client.try_read_response() {
            Err(ReadError::Silent) => client.set_timeout(LONGEST),
            Err(broken) => return Err(format!("a waiting client: {broken}")),
            Ok(response) => return Err(format!("a waiting client: {response}")),
        }
    }
    Ok(())
}

pub fn ensure(is: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is { Ok(()) } else { Err(what()) }
}

/// Checks one row after the other, for tests that measure time. Fails with all failed rows.
pub fn one_by_one<Row: std::fmt::Debug>(rows: &[Row], check: impl Fn(&Row) -> Result<(), String>) {
    let failed = rows.iter().filter_map(|row| {
        eprintln!("{row:?}:");
        check(row).err().map(|why| format!("{row:?}: {why}"))
    });
    none_failed(failed.collect());
}

/// Checks all rows in parallel, as they mostly wait. Fails with all failed rows.
pub fn in_parallel<Row: std::fmt::Debug + Sync>(
    rows: &[Row],
    check: impl Fn(&Row) -> Result<(), String> + Sync,
) {
    let check = |row| check(row).err().map(|why| format!("{row:?}: {why}"));
    let check = &check;
    let failed = thread::scope(|scope| {
        let checks: Vec<_> = rows.iter().map(|row| scope.spawn(move || check(row))).collect();
        checks.into_iter().filter_map(|check| check.join().expect("it has printed why")).collect()
    });
    none_failed(failed);
}

fn none_failed(failed: Vec<String>) {
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
