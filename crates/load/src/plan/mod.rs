//! The plan of a run as plain data: complete, valid, and with every name resolved. Knows nothing of command lines
//! and of sending.

pub mod request;

pub mod target;

pub mod options;

pub mod build;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use request::Request;
pub use target::{Endpoint, Scheme, Target};

use crate::shape::Shape;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub targets: Vec<Target>,
    /// The different requests; never empty.
    pub requests: Vec<Request>,
    pub order: Order,
    pub pace: Pace,
    pub stop: Stop,
    /// Connections at a time; at least 1.
    pub connections: usize,
    /// At least 1, and at most one per connection.
    pub threads: usize,
    pub reuse: Reuse,
    pub protocol: Protocol,
    pub think: Think,
    /// The time in which all connections are opened, or the full rate is reached.
    pub ramp: Duration,
    /// Requests whose intended start is within this time are sent and not measured.
    pub warm_up: Duration,
    /// How long a server may be silent while a response is pending.
    pub timeout: Duration,
    /// Local addresses, used in turn; empty for the system's choice.
    pub sources: Vec<IpAddr>,
    pub statuses: GoodStatuses,
    pub check: Check,
    pub shape: Shape,
    pub tls: TlsSettings,
    pub seed: u64,
}

/// Which request is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// At random, by weight; the same for the same seed.
    Random,
    /// This sequence, again and again.
    InOrder(Vec<u32>),
}

/// What starts a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// The end of the request before it on the same connection (closed loop).
    Closed,
    /// The clock, at this rate per second (open loop).
    Open { per_second: f64, arrivals: Arrivals },
    /// The clock, at the times of a log: time from the start, and which request.
    Replay(Vec<(Duration, u32)>),
}

/// How the requests of a rate are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At random intervals, as independent users arrive.
    Poisson,
}

/// When no more requests are started; the first limit counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stop {
    pub requests: Option<u64>,
    pub time: Option<Duration>,
}

/// How many requests a connection serves before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// As many as the server allows.
    KeepAlive,
    /// One, with `Connection: close`.
    PerRequest,
    /// This many: a session, which starts at the beginning of the list if there is an order.
    Session(u64),
}

/// The version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0, with `Connection: keep-alive` unless the connection is for one request.
    Http10,
    /// HTTP/1.1, with this many requests in flight on one connection.
    Http11 { pipelined: usize },
    /// HTTP/2 (by ALPN over TLS, with prior knowledge over TCP), with this many streams at a time.
    Http2 { streams: usize },
}

/// The pause after a response: at random between the two times, which may be equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Think {
    pub least: Duration,
    pub most: Duration,
}

/// Which statuses count as right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoodStatuses {
    /// All below 400.
    Below400,
    These(Vec<u16>),
}

/// What a response is verified against, beyond its status and its own Content-Length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    Nothing,
    /// As long as the first good response for the same URL.
    Length,
    /// The same bytes as the reference.
    Checksum(Reference),
}

/// Where the right bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The first good response for the same URL.
    First,
    /// Lines of `sha256sum`: a checksum, and the path of the URL.
    Manifest(PathBuf),
    /// The files below a folder, under the paths of the URLs.
    Folder(PathBuf),
}

/// How connections with TLS are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    pub trust: Trust,
    pub resumption: Resumption,
    /// The name for SNI and verification, in place of the URL's host.
    pub server_name: Option<String>,
}

/// Whose certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities of the system.
    System,
    /// The authorities in a file.
    File(PathBuf),
    /// Every certificate is accepted.
    Any,
}

/// Whether a connection may resume the session of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    On,
    Off,
}

impl Protocol {
    /// The most requests in flight on one connection.
    pub const fn depth(self) -> usize {
        match self {
            Protocol::Http10 => 1,
            Protocol::Http11 { pipelined } => pipelined,
            Protocol::Http2 { streams } => streams,
        }
    }
}

impl GoodStatuses {
    /// Whether a response with this status is right.
    pub fn contains(&self, status: u16) -> bool {
        match self {
            GoodStatuses::Below400 => status < 400,
            GoodStatuses::These(these) => these.contains(&status),
        }
    }
}
