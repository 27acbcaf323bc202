//! Every option of a run as plain data, before files are read and hosts are resolved. The default is that of the
//! command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::{Arrivals, Check, GoodStatuses, Resumption, Think, Trust};
use crate::shape::Shape;

/// The flags of a run, as typed. `build` resolves them.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// URLs or patterns, as given. With a list or a log, the base of URLs without a host.
    pub urls: Vec<String>,
    pub lists: Vec<PathBuf>,
    pub log: Option<PathBuf>,
    /// `None`: at random, or as an option implies.
    pub order: Option<OrderWord>,
    pub speed: f64,
    pub seed: u64,
    pub requests: Option<u64>,
    pub time: Option<Duration>,
    pub connections: usize,
    /// `None`: one per core.
    pub threads: Option<usize>,
    pub rate: Option<f64>,
    pub arrivals: Arrivals,
    pub method: Option<String>,
    pub body: Option<Body>,
    pub fields: Vec<(String, String)>,
    pub close: Option<CloseWord>,
    pub think: Think,
    pub version: VersionWord,
    pub pipelined: usize,
    pub streams: usize,
    pub unix: Option<PathBuf>,
    pub connect_to: Option<SocketAddr>,
    pub sources: Vec<IpAddr>,
    pub ramp: Duration,
    pub warm_up: Duration,
    pub timeout: Duration,
    pub statuses: GoodStatuses,
    pub check: Check,
    pub shape: Shape,
    pub trust: Trust,
    pub resumption: Resumption,
    pub server_name: Option<String>,
}

/// The value of `--order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderWord {
    Random,
    Sequence,
    Replay,
}

/// The body of every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Text(String),
    File(PathBuf),
}

/// When connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseWord {
    AfterEach,
    After(u64),
}

/// The version of HTTP, with `pipelined` and `streams` beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionWord {
    Http10,
    Http11,
    Http2,
}

/// Default connections: enough for a load, too few for an attack.
pub const CONNECTIONS: usize = 10;
/// How long a run lasts without `--requests` and `--time`.
pub const TIME: Duration = Duration::from_secs(10);
/// How long a request may take, by default.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Streams at a time on a connection of HTTP/2, by default.
const STREAMS: usize = 1;

impl Default for Options {
    fn default() -> Options {
        Options {
            urls: Vec::new(),
            lists: Vec::new(),
            log: None,
            order: None,
            speed: 1.0,
            seed: 1,
            requests: None,
            time: None,
            connections: CONNECTIONS,
            threads: None,
            rate: None,
            arrivals: Arrivals::Poisson,
            method: None,
            body: None,
            fields: Vec::new(),
            close: None,
            think: Think::default(),
            version: VersionWord::Http11,
            pipelined: 1,
            streams: STREAMS,
            unix: None,
            connect_to: None,
            sources: Vec::new(),
            ramp: Duration::ZERO,
            warm_up: Duration::ZERO,
            timeout: TIMEOUT,
            statuses: GoodStatuses::Below400,
            check: Check::Nothing,
            shape: Shape::default(),
            trust: Trust::System,
            resumption: Resumption::On,
            server_name: None,
        }
    }
}
