//! What is asked of a run, as plain data: complete, valid, and with every name resolved. Knows nothing
//! of command lines, and nothing of how requests are sent.

pub mod ask;

pub mod pattern;

pub mod target;

pub mod options;

pub mod build;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use ask::Ask;
pub use target::{Scheme, Target, Way};

use crate::shape::Shape;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub targets: Vec<Target>,
    /// Different requests; never empty.
    pub asks: Vec<Ask>,
    pub order: Order,
    pub pace: Pace,
    pub stop: Stop,
    /// Connections at a time; at least 1.
    pub connections: usize,
    /// At least 1, and no more than connections.
    pub threads: usize,
    pub reuse: Reuse,
    pub protocol: Protocol,
    pub think: Think,
    /// How long it takes until all connections are open, or the full rate is reached.
    pub ramp: Duration,
    /// Requests that are meant to start within it are sent, and not measured.
    pub warm_up: Duration,
    /// How long a server may be silent while it owes something.
    pub timeout: Duration,
    /// Local addresses, used in turn; empty: the system's choice.
    pub sources: Vec<IpAddr>,
    pub statuses: GoodStatuses,
    pub check: Check,
    pub shape: Shape,
    pub tls: TlsSettings,
    pub seed: u64,
}

/// Which request comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// At random, by weight; the same for the same seed.
    Random,
    /// These, one after the other, and then from the start again.
    InOrder(Vec<u32>),
}

/// What makes a request start.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// The end of the one before it, on the same connection.
    Closed,
    /// The clock, so many times a second.
    Open { per_second: f64, arrivals: Arrivals },
    /// The clock, at the moments of a log: distance from the start, and which request.
    Replay(Vec<(Duration, u32)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// At random distances, as independent people arrive.
    Poisson,
}

/// When no more requests are started; whichever comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stop {
    pub requests: Option<u64>,
    pub time: Option<Duration>,
}

/// How many requests a connection serves before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// As many as the server lets it.
    KeepAlive,
    /// One, and the server is told so.
    PerRequest,
    /// So many: a session, which goes through the list from its beginning if there is an order.
    Session(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0, asking for the connection to be kept unless it is for one request.
    Http10,
    /// HTTP/1.1, with so many requests under way on one connection.
    Http11 { pipelined: usize },
    /// HTTP/2 (by ALPN over TLS, with prior knowledge over TCP), with so many streams at a time.
    Http2 { streams: usize },
}

/// How long a user looks at a response: at random between the two, which may be the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Think {
    pub least: Duration,
    pub most: Duration,
}

/// Which statuses are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoodStatuses {
    /// Below 400, as people count.
    Below400,
    These(Vec<u16>),
}

/// What a response is held against, beyond its status and its own announced length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    Nothing,
    /// As long as the first good response for the same URL.
    Length,
    /// The same bytes as the reference.
    Checksum(Reference),
}

/// Where the right bytes are known from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The first good response for the same URL.
    First,
    /// Lines as `sha256sum` writes them: a sum, and the path of the URL.
    Manifest(PathBuf),
    /// The files beneath a folder, named as the paths of the URLs.
    Folder(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    pub trust: Trust,
    pub resumption: Resumption,
    /// The name that is asked for, in place of the URL's host.
    pub server_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities of the system.
    System,
    /// Those in a file.
    File(PathBuf),
    /// Anybody.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    On,
    Off,
}

impl Protocol {
    /// Requests under way on one connection, at most.
    pub const fn depth(self) -> usize {
        match self {
            Protocol::Http10 => 1,
            Protocol::Http11 { pipelined } => pipelined,
            Protocol::Http2 { streams } => streams,
        }
    }
}

impl GoodStatuses {
    pub fn contains(&self, status: u16) -> bool {
        match self {
            GoodStatuses::Below400 => status < 400,
            GoodStatuses::These(these) => these.contains(&status),
        }
    }
}
