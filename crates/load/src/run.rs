//! The result of a run as plain data. The engine fills one `Measured` per thread, `Run` adds the settings and the
//! server, and the reports read it. Knows nothing of sockets, clocks and formats.

mod fault;
mod series;
mod times;

use std::collections::BTreeMap;

pub use fault::{Fault, Faults, Side};
pub(crate) use series::STEPS;
pub use series::{Point, Series};
pub use times::Times;

/// How many URLs with wrong responses are kept by name; further ones are only counted.
pub const WRONG_KEPT: usize = 32;

/// A finished run: its settings, the server, and what was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub settings: Settings,
    pub server: Server,
    pub measured: Measured,
    /// The number of generators whose results are merged here; 1 for a single run.
    pub generators: u32,
}

/// The settings of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The first URL, as given.
    pub url: String,
    /// The number of different URLs.
    pub urls: u64,
    pub command_line: String,
    pub method: String,
    /// Connections at a time (HTTP/2: connections, not streams).
    pub concurrency: u32,
    pub threads: u32,
    /// Requests under way on one connection: pipelined, or streams of HTTP/2. At least 1.
    pub depth: u32,
    pub reuse: Reuse,
    pub pace: Pace,
    pub check: Check,
    /// When the run was to stop; none without such a limit.
    pub stop_requests: Option<u64>,
    pub stop_micros: Option<u64>,
    pub warm_up_micros: u64,
    pub timeout_micros: u64,
    pub seed: u64,
}

/// Whether connections are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    #[default]
    KeepAlive,
    PerRequest,
}

/// What starts a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// The end of the request before it: a fixed number of clients.
    #[default]
    Closed,
    /// The clock, at this many per second, at even intervals; times count from the intended start.
    Even(f64),
    /// The clock, at this many per second on average, at random intervals (a Poisson process).
    Poisson(f64),
}

/// What a response is verified against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Status and framing only.
    #[default]
    Status,
    Length,
    Checksum,
}

/// The server that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    /// The `Server` field of the first response; empty without one.
    pub name: String,
    pub host: String,
    pub port: u16,
    /// Path and query of the first URL.
    pub path: String,
    /// Bytes of the first body.
    pub length: u64,
    /// `http/1.1`, `h2`, `h2c`.
    pub protocol: String,
    /// None without TLS.
    pub tls: Option<Tls>,
}

/// What was negotiated, under registered names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// `TLSv1.3`
    pub version: String,
    /// `TLS_AES_256_GCM_SHA384`
    pub cipher: String,
}

/// What was measured, by one thread or by many. All times are microseconds.
///
/// Every request that is counted in `started` ends as one of `done`, or as one of `faults`
/// (`failed()` is their sum), or is still under way when the run stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// When the measured time began, in seconds since 1970.
    pub began_unix: u64,
    /// Measured time, without warm-up.
    pub micros: u64,
    pub started: u64,
    /// Answered, and everything about the response was right.
    pub done: u64,
    pub faults: Faults,
    /// Responses by status, right or wrong.
    pub statuses: Statuses,
    pub connections: u64,
    /// The most connections open at a time.
    pub most_connections: u64,
    /// Responses after which the connection stayed open.
    pub kept_alive: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
    /// Bytes of heads as received (compressed in HTTP/2), framing included.
    pub head_bytes: u64,
    /// Bytes of the same heads without compression; equal to `head_bytes` in HTTP/1.1.
    pub plain_head_bytes: u64,
    pub body_bytes: u64,
    pub sent_bytes: u64,
    /// From `connect` to the established connection; one per connection.
    pub connect: Times,
    /// The TLS handshake; one per handshake.
    pub handshake: Times,
    /// From the request being sent to the first byte of its response, of right responses.
    pub first_byte: Times,
    /// From the request being sent to the last byte of its response, of right responses.
    pub last_byte: Times,
    /// From the intended start, with connecting and waiting for a free connection, to the last byte of
    /// the response, of right responses. This is what a user would have waited.
    pub total: Times,
    /// The longest time of any request from its intended start, failed requests included.
    pub longest: u64,
    /// Requests finished per client (a client is one of `concurrency`), one record for each.
    pub per_client: Times,
    pub series: Series,
    /// URLs with a wrong response, by name: at most `WRONG_KEPT`.
    pub wrong: BTreeMap<String, Wrong>,
    /// Wrong responses of URLs that are not in `wrong`, because it is full.
    pub wrong_unnamed: u64,
    /// Processor time of the generator, all threads.
    pub cpu_micros: u64,
    /// Processor time of its busiest thread.
    pub busiest_micros: u64,
}

/// How many wrong responses a URL had, and the fault of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    pub first: Fault,
    pub count: u64,
}

/// Responses by status code.
#[derive(Clone, Debug, PartialEq)]
pub struct Statuses(Box<[u64; Statuses::CODES]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([0; Self::CODES]))
    }
}

impl Statuses {
    const CODES: usize = 1000;

    /// One more response.
    pub fn count(&mut self, status: u16) {
        self.add(status, 1);
    }

    pub fn add(&mut self, status: u16, count: u64) {
        if let Some(slot) = self.0.get_mut(usize::from(status)) {
            *slot = slot.saturating_add(count);
        }
    }

    /// Those that occurred, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.0.iter().copied()).filter(|&(_, count)| count > 0)
    }

    /// The responses of a class: 2 for 2xx.
    pub fn class(&self, hundreds: u16) -> u64 {
        self.iter()
            .filter(|(status, _)| status / 100 == hundreds)
            .map(|(_, count)| count)
            .fold(0, u64::saturating_add)
    }

    /// All responses.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }
}

impl Measured {
    /// Requests without a right response.
    pub fn failed(&self) -> u64 {
        self.faults.total()
    }

    /// Requests that ended, right or wrong.
    pub fn finished(&self) -> u64 {
        self.done.saturating_add(self.failed())
    }

    /// The share of right requests among those that ended, in per cent. None when none ended.
    pub fn availability(&self) -> Option<f64> {
        let finished = self.finished();
        (finished > 0).then(|| self.done as f64 * 100.0 / finished as f64)
    }

    /// The measured time.
    pub fn seconds(&self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// An amount per second of the measured time; 0 when there was none.
    pub fn per_second(&self, amount: u64) -> f64 {
        if self.micros == 0 { 0.0 } else { amount as f64 * 1e6 / self.micros as f64 }
    }

    /// Bytes received: heads and bodies.
    pub fn received_bytes(&self) -> u64 {
        self.head_bytes.saturating_add(self.body_bytes)
    }

    /// Counts a failed request, and keeps the name of its URL if the server's response was wrong.
    pub fn fail(&mut self, fault: Fault, url: &str) {
        self.faults.count(fault);
        if fault.is_wrong_response() {
            self.add_wrong(url, Wrong { first: fault, count: 1 });
        }
    }

    fn add_wrong(&mut self, url: &str, wrong: Wrong) {
        if let Some(known) = self.wrong.get_mut(url) {
            known.count = known.count.saturating_add(wrong.count);
        } else if self.wrong.len() < WRONG_KEPT {
            self.wrong.insert(url.to_owned(), wrong);
        } else {
            self.wrong_unnamed = self.wrong_unnamed.saturating_add(wrong.count);
        }
    }

    /// Adds what another thread or generator measured at the same time.
    pub fn merge(&mut self, other: &Measured) {
        self.began_unix = match (self.began_unix, other.began_unix) {
            (0, began) | (began, 0) => began,
            (ours, theirs) => ours.min(theirs),
        };
        self.micros = self.micros.max(other.micros);
        self.longest = self.longest.max(other.longest);
        self.busiest_micros = self.busiest_micros.max(other.busiest_micros);
        for (ours, theirs) in [
            (&mut self.started, other.started),
            (&mut self.done, other.done),
            (&mut self.connections, other.connections),
            (&mut self.most_connections, other.most_connections),
            (&mut self.kept_alive, other.kept_alive),
            (&mut self.resumed, other.resumed),
            (&mut self.head_bytes, other.head_bytes),
            (&mut self.plain_head_bytes, other.plain_head_bytes),
            (&mut self.body_bytes, other.body_bytes),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.wrong_unnamed, other.wrong_unnamed),
            (&mut self.cpu_micros, other.cpu_micros),
        ] {
            *ours = ours.saturating_add(theirs);
        }
        self.faults.merge(&other.faults);
        for (status, count) in other.statuses.iter() {
            self.statuses.add(status, count);
        }
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        self.first_byte.merge(&other.first_byte);
        self.last_byte.merge(&other.last_byte);
        self.total.merge(&other.total);
        self.per_client.merge(&other.per_client);
        self.series.merge(&other.series);
        for (url, wrong) in &other.wrong {
            self.add_wrong(url, wrong.clone());
        }
    }
}

impl Run {
    /// Adds the run of another generator at the same time against the same server: clients, rates
    /// and counts are added up, and the other settings stay those of the first.
    pub fn merge(&mut self, other: &Run) {
        let (ours, theirs) = (&mut self.settings, &other.settings);
        ours.concurrency = ours.concurrency.saturating_add(theirs.concurrency);
        ours.threads = ours.threads.saturating_add(theirs.threads);
        ours.urls = ours.urls.max(theirs.urls);
        ours.stop_requests = match (ours.stop_requests, theirs.stop_requests) {
            (Some(ours), Some(theirs)) => Some(ours.saturating_add(theirs)),
            _ => None,
        };
        ours.pace = match (ours.pace, theirs.pace) {
            (Pace::Even(ours), Pace::Even(theirs)) => Pace::Even(ours + theirs),
            (Pace::Poisson(ours), Pace::Poisson(theirs) | Pace::Even(theirs))
            | (Pace::Even(ours), Pace::Poisson(theirs)) => Pace::Poisson(ours + theirs),
            (ours, _) => ours,
        };
        if self.server.name.is_empty() {
            self.server = other.server.clone();
        }
        self.generators = self.generators.max(1).saturating_add(other.generators.max(1));
        self.measured.merge(&other.measured);
    }
}
