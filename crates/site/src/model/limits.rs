//! Bounds, timeouts, and the settings of HTTP/2 and the caches, with their defaults.

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
    /// The last requests that are kept to be shown, over all workers. `None`: see `Site::recent_requests`.
    pub recent_requests: Option<usize>,
    /// Responses per worker whose body is generated while it is sent: huge listings and decompressed files.
    pub body_streams: usize,
    /// Connections per worker whose protocol was switched, as to WebSocket. Further requests for that get 503.
    pub upgraded: usize,
    /// Responses per worker that are read ahead of slow clients. Further ones are read as their clients take them.
    pub buffered_responses: usize,
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

/// How long something may take: the phases of a connection, and others.
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
            recent_requests: None,
            body_streams: 64,
            upgraded: 1024,
            buffered_responses: 1024,
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
