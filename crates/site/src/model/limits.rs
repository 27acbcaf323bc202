//! Bounds, timeouts, and the settings of HTTP/2, the caches and scripts, with their defaults.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::includes::IncludeLimits;

/// Counts and bytes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections per worker.
    pub connections: usize,
    /// Connections that may wait in the kernel to be accepted, for each socket. At most 65535.
    pub backlog: u16,
    /// Connections of one client address, over all workers. 0: no limit.
    pub connections_per_client: usize,
    /// Connections per worker, above `connections`, that are receiving their 503.
    pub rejections: usize,
    /// Requests on one connection. 0: no limit.
    pub requests: u32,
    pub head: taipan_http::head::Limits,
    /// The default of `max_body`.
    pub body: u64,
    /// Bytes per second that a client must send or receive after the timeout of that phase. 0: no limit.
    pub min_rate: u64,
    /// Threads per worker for operations that may wait for a disk.
    pub disk_threads: usize,
    /// Requests per worker that may wait for a disk. Further ones get 503. See also `waiting_for_disks`.
    pub disk_queue: usize,
    /// The last requests that are kept to be shown, over all workers.
    pub recent_requests: usize,
    /// Responses per worker whose body is generated while it is sent: huge listings and decompressed files.
    pub body_streams: usize,
    /// Connections per worker whose protocol was switched, as to WebSocket. Further requests for that get 503.
    pub upgraded: usize,
    /// Responses per worker that are compressed while they are sent. Further ones are not compressed.
    pub compressed_streams: usize,
    /// Bytes that may wait unsent in the kernel for one client (tcp(7), TCP_NOTSENT_LOWAT). 0: the kernel's default.
    pub unsent: u64,
    /// Serving processes at the same time.
    pub generations: usize,
    /// Entries in one listing.
    pub listing_entries: usize,
    pub includes: IncludeLimits,
}

#[derive(Debug, Clone)]
pub struct Timeouts {
    pub head: Duration,
    pub body: Duration,
    pub write: Duration,
    pub idle: Duration,
    pub linger: Duration,
    /// For a connection whose protocol was switched, and on which nothing passes.
    pub upgraded: Duration,
    /// How long nothing may pass on a WebSocket connection until its client gets a ping. Zero: it gets none.
    pub websocket_ping: Duration,
    /// For a response with the events of a status page.
    pub events: Duration,
    /// For a lookup on a disk. Then the response is 503.
    pub disk: Duration,
    /// For responses in progress at SIGTERM.
    pub shutdown: Duration,
    /// For responses in progress when another configuration or program takes over.
    pub reload: Duration,
    /// For a new connection while the worker is at capacity. Then it gets 503.
    pub accept: Duration,
    /// How long the kernel holds a new connection back until its client has sent something. Zero: it does not.
    pub defer_accept: Duration,
    /// How late a worker's loop may be before it sheds requests. Zero: never.
    pub delay: Duration,
}

/// HTTP/2 (RFC 9113).
#[derive(Debug, Clone)]
pub struct Http2 {
    /// Whether it is offered to clients of TLS.
    pub enabled: bool,
    /// Streams of one connection at the same time.
    pub streams: u32,
    /// Streams per worker that wait, beyond the first of each connection. Further ones are refused.
    pub waiting: usize,
    /// Bytes of a stream that a client may send before the server has consumed them.
    pub window: u32,
    /// The same for all streams of a connection together. At least 65535 (RFC 9113 §6.9.2).
    pub connection_window: u32,
    /// Connections per worker that may have so much. Further ones have 65535.
    pub large_windows: usize,
}

/// The open-file cache of one worker.
#[derive(Debug, Clone)]
pub struct CacheLimits {
    pub entries: usize,
    pub descriptors: usize,
    pub bytes: usize,
    /// Larger files are sent from their descriptor.
    pub file: u64,
    /// How long a cached file is not compared with the disk.
    pub check: Duration,
    /// How long the cache remembers that a file does not exist.
    pub missing: Duration,
    /// Folders of names and users that are open.
    pub folders: usize,
    /// Bytes of stored responses of upstreams.
    pub responses: usize,
}

/// The files in which responses of upstreams are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFiles {
    pub folder: PathBuf,
    /// Of all files, in blocks of 4 KiB.
    pub bytes: u64,
    pub entries: usize,
    /// Bytes of the largest body.
    pub largest: u64,
    /// Bytes of the file system that stay free.
    pub min_free: u64,
}

impl CacheFiles {
    /// With the default limits.
    pub fn new(folder: PathBuf) -> CacheFiles {
        CacheFiles { folder, bytes: 1 << 30, entries: 100_000, largest: 64 << 20, min_free: 256 << 20 }
    }
}

/// An account of the system. User and group are names or numbers. `None`: the first group of the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    pub user: String,
    pub group: Option<String>,
}

/// `user`, or `user:group`.
impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.user)?;
        self.group.iter().try_for_each(|group| write!(out, ":{group}"))
    }
}

/// Settings of all scripts.
#[derive(Debug, Clone)]
pub struct Scripts {
    /// Scripts that run at the same time, over all workers.
    pub processes: usize,
    /// Requests that wait until a script may run, over all workers. Further ones get 503.
    pub queue: usize,
    /// How long such a request waits. Then it gets 503.
    pub wait: Duration,
    /// From the start to the end of the head.
    pub first_byte: Duration,
    /// Without output, while the client receives all of it.
    pub idle: Duration,
    /// From the start to the end.
    pub total: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub resources: Resources,
    /// `None`: scripts have no control groups of their own.
    pub cgroups: Option<ControlGroups>,
    /// The account of scripts whose route names none. `None`: the server's.
    pub account: Option<Account>,
    /// The folder that stores request bodies of unknown length, in files without names.
    pub spool: PathBuf,
    /// Bytes of all stored bodies together.
    pub spool_bytes: u64,
    /// Whether the words of a query without `=` become arguments (RFC 3875 §4.4).
    pub query_arguments: QueryArguments,
    /// Lines per second of a script's standard error that are logged.
    pub stderr_lines: u32,
    /// Bytes of such a line.
    pub stderr_line: usize,
    /// Folders whose files a script may name in `X-Sendfile` and `X-Accel-Redirect`.
    pub sendfile: Vec<PathBuf>,
}

/// Limits of one process of a script. `None`: the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of address space (RLIMIT_AS).
    pub memory: Option<u64>,
    /// Seconds (RLIMIT_CPU).
    pub cpu: Option<u64>,
    /// Descriptors (RLIMIT_NOFILE).
    pub files: Option<u64>,
    /// Processes and threads of the user, also the server's own (RLIMIT_NPROC).
    pub tasks: Option<u64>,
    /// The file mode creation mask. `None`: the server's.
    pub umask: Option<u32>,
    /// Added to the nice value of the server.
    pub nice: u8,
}

/// A control group for each running script (cgroups(7), version 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    /// A folder that is delegated to the server. `None`: the server's own group.
    pub folder: Option<PathBuf>,
    /// Bytes of all processes of a script (memory.max).
    pub memory: Option<u64>,
    /// Processes and threads of a script (pids.max).
    pub tasks: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryArguments {
    Passed,
    Withheld,
}

/// Requests that may always wait for disks. With a small `connections`, a share of it would reject a few clients that
/// request files outside of the cache.
const MIN_WAITING: usize = 32;

impl Limits {
    /// Requests of one worker that may wait for disks before their response. A quarter of the connections stays free
    /// for other requests.
    pub fn waiting_for_disks(&self) -> usize {
        self.disk_queue.min((self.connections - self.connections / 4).max(MIN_WAITING))
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            backlog: 4096,
            connections_per_client: 0,
            rejections: 64,
            requests: 0,
            head: taipan_http::head::Limits::default(),
            body: 1024 * 1024,
            min_rate: 500,
            disk_threads: 8,
            disk_queue: 1024,
            recent_requests: 1000,
            body_streams: 64,
            upgraded: 1024,
            compressed_streams: 64,
            unsent: 0,
            generations: 16,
            listing_entries: 10_000,
            includes: IncludeLimits::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(20),
            body: Duration::from_secs(20),
            write: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            upgraded: Duration::from_secs(600),
            websocket_ping: Duration::ZERO,
            events: Duration::from_secs(3600),
            disk: Duration::from_secs(30),
            shutdown: Duration::from_secs(30),
            reload: Duration::from_secs(3600),
            accept: Duration::from_millis(1500),
            defer_accept: Duration::from_secs(1),
            delay: Duration::from_millis(100),
        }
    }
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            enabled: true,
            streams: 128,
            waiting: 1024,
            window: 64 * 1024,
            connection_window: 256 * 1024,
            large_windows: 256,
        }
    }
}

impl CacheLimits {
    /// Files that may wait to be compressed. Each is open, and counts as one that the cache keeps open.
    pub fn waiting_copies(&self) -> usize {
        (self.descriptors / 16).clamp(1, 64)
    }
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            entries: 4096,
            descriptors: 1024,
            bytes: 32 * 1024 * 1024,
            // Measured: up to here copying costs less than sendfile does, on one connection as on many.
            file: 8 * 1024,
            check: Duration::from_secs(1),
            missing: Duration::from_secs(1),
            folders: 1024,
            responses: 32 * 1024 * 1024,
        }
    }
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts {
            processes: 64,
            queue: 256,
            wait: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(3600),
            grace: Duration::from_secs(5),
            resources: Resources::default(),
            cgroups: None,
            account: None,
            spool: "/var/tmp".into(),
            spool_bytes: 256 * 1024 * 1024,
            query_arguments: QueryArguments::Withheld,
            stderr_lines: 10,
            stderr_line: 1024,
            sendfile: Vec::new(),
        }
    }
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            // Go, Java and Node reserve far more address space than they use.
            memory: None,
            // Timeouts end scripts that run too long.
            cpu: None,
            // The server may have raised its own limit. Programs that close all descriptors, or use select(2), need a
            // small one.
            files: Some(1024),
            // The kernel counts all processes of the user, not only those of scripts.
            tasks: None,
            umask: None,
            nice: 0,
        }
    }
}
