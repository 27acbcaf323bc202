//! Statistics: each worker counts in memory of its own (`layout`, `memory`), and sends its present state on request.
//! The main thread adds them up, and writes them as text, as JSON or as metrics.

mod exemplars;
pub mod histogram;
mod history;
mod layout;
pub mod live;
mod memory;
mod metrics;
mod page;
mod process;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use site::text::json_string;
use site::zones::Zone;
use taipan_http::date;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

pub use self::exemplars::{Exemplar, Exemplars};
pub use self::history::{History, Moment, SERIES, STEPS, Sampler};
pub use self::layout::{Block, Count, Counts, Values, ZoneValues};
use self::layout::{NAMES, ZONE};
pub use self::memory::{CounterMemory, SharedCounters, ZoneSums};
pub use self::page::EventState;
pub use self::process::{ProcessFiles, Usage};
use crate::disk::Queue;
use crate::handshake::Validity;
use crate::process::ipc::Form;

/// Endpoints in one report, which fits into the buffer of a socket.
const MAX_ENDPOINTS: usize = 200;
/// Certificates in one report.
const MAX_CERTIFICATES: usize = 200;

/// The counters and the present state of a worker.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub counts: Values,
    /// Connections with a running request.
    pub active: u64,
    /// Connections between two requests that still have a task.
    pub idle: u64,
    /// Connections in the idle set.
    pub parked: u64,
    /// Scripts that run, and requests that wait for a script.
    pub scripts_running: u64,
    pub scripts_waiting: u64,
    /// Connections that have another protocol.
    pub upgraded: u64,
    /// How late the last tick was.
    pub delay: Duration,
    /// Operations on helper threads, per device.
    pub queues: Vec<Queue>,
    /// Of all applications.
    pub endpoints: Vec<EndpointSnapshot>,
    pub breakers: Vec<BreakerSnapshot>,
    pub exemplars: Exemplars,
}

/// The circuit breaker of an application, as a worker knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSnapshot {
    pub application: String,
    pub state: BreakerState,
}

/// A later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    Closed,
    HalfOpen,
    Open,
}

impl BreakerState {
    fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half-open",
            BreakerState::Open => "open",
        }
    }
}

impl EndpointSnapshot {
    fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// An endpoint of an application, as a worker knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSnapshot {
    pub application: String,
    /// The address, or the process.
    pub name: String,
    pub state: &'static str,
    /// How long it has had this state.
    pub age: Duration,
    /// Requests at the moment, and since the worker began.
    pub in_flight: u64,
    pub requests: u64,
    /// Failures, over all workers, and the reason of the last one.
    pub failures: u64,
    pub reason: String,
}

impl Snapshot {
    /// The counters, without the present state.
    pub fn of(counts: &Counts) -> Snapshot {
        Snapshot { counts: counts.values(), ..Snapshot::default() }
    }

    fn add(&mut self, other: &Snapshot) {
        self.counts.add(&other.counts);
        self.active += other.active;
        self.idle += other.idle;
        self.parked += other.parked;
        self.scripts_running += other.scripts_running;
        self.scripts_waiting += other.scripts_waiting;
        self.upgraded += other.upgraded;
        self.delay = self.delay.max(other.delay);
        self.exemplars.merge(&other.exemplars);
        for queue in &other.queues {
            match self.queues.iter_mut().find(|q| q.device == queue.device) {
                Some(sum) => {
                    sum.running += queue.running;
                    sum.waiting += queue.waiting;
                }
                None => self.queues.push(queue.clone()),
            }
        }
        for endpoint in &other.endpoints {
            let same = |own: &&mut EndpointSnapshot| {
                (&own.application, &own.name) == (&endpoint.application, &endpoint.name)
            };
            match self.endpoints.iter_mut().find(same) {
                Some(sum) => {
                    sum.in_flight += endpoint.in_flight;
                    sum.requests += endpoint.requests;
                }
                None => self.endpoints.push(endpoint.clone()),
            }
        }
        for breaker in &other.breakers {
            match self.breakers.iter_mut().find(|own| own.application == breaker.application) {
                // The worst of all workers.
                Some(own) => own.state = own.state.max(breaker.state),
                None => self.breakers.push(breaker.clone()),
            }
        }
    }

    /// The present state and the counters, each with its key and its text.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let counts = NAMES.iter().zip(self.counts.counts()).map(|((key, text), n)| (*key, *text, *n));
        self.now().into_iter().chain(counts)
    }

    /// The present state.
    fn now(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("active", "connections active now", self.active),
            ("idle", "connections idle now", self.idle),
            ("parked", "connections parked now", self.parked),
            ("scripts_running", "scripts running now", self.scripts_running),
            ("scripts_waiting", "requests waiting for a script now", self.scripts_waiting),
            ("upgraded_now", "upgraded connections now", self.upgraded),
            ("delay_us", "microseconds by which the last tick was late", self.delay.as_micros() as u64),
        ]
    }
}

/// The files of the cache of responses: what there is now, and what has happened since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredFiles {
    pub bytes: u64,
    pub entries: u64,
    pub stored: u64,
    pub evicted: u64,
    pub failed: u64,
    pub damaged: u64,
    pub purged: u64,
}

impl StoredFiles {
    /// Each with its key and its text.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
        [
            ("file_bytes", "stored responses: bytes of files now", self.bytes),
            ("files", "stored responses: files now", self.entries),
            ("files_written", "stored responses: files written", self.stored),
            ("files_evicted", "stored responses: files removed to make room", self.evicted),
            ("files_purged", "stored responses: files purged", self.purged),
            ("files_damaged", "stored responses: damaged files removed", self.damaged),
            ("files_failed", "stored responses: files not written, read or removed", self.failed),
        ]
        .into_iter()
    }
}

/// The counters of a process and of those before it.
#[derive(Clone)]
pub struct Ledger {
    /// When the counting began, in seconds since 1970.
    pub since: i64,
    /// Of processes that had ended when this one began.
    pub past: Values,
    pub past_zones: Arc<ZoneSums>,
    /// Of processes that had not. They may still count.
    pub earlier: Arc<[SharedCounters]>,
    /// Of the workers of this process.
    pub own: Vec<Block>,
    /// The names of its zones, in the order of their numbers.
    pub zones: Arc<[String]>,
    /// `None`: there was no memory for it.
    pub history: Option<Arc<History>>,
}

/// What a worker asks of the main thread.
pub enum Question {
    /// The statistics of all workers.
    Report(oneshot::Sender<Report>),
    /// For each worker, its requests from the one with this number on.
    Recent(Vec<u64>, oneshot::Sender<Vec<Option<RecentText>>>),
    /// An act of a user of the page, as text. `None`: too many are running. Errors: why it was not done.
    Act(Vec<u8>, oneshot::Sender<Option<Result<String, String>>>),
    /// There are connections again.
    Activity,
}

/// A worker's way to the main thread.
#[derive(Clone)]
pub struct Reporter {
    pub questions: UnboundedSender<Question>,
    /// Whether the main thread makes no points of the history, because nothing happens.
    pub rests: Arc<AtomicBool>,
    pub history: Option<Arc<History>>,
}

impl Reporter {
    /// `None`: the main thread is ending.
    pub async fn report(&self) -> Option<Report> {
        let (sender, report) = oneshot::channel();
        self.questions.send(Question::Report(sender)).ok()?;
        report.await.ok()
    }

    /// `from`: the number of the first request of each worker.
    pub async fn recent(&self, from: Vec<u64>) -> Option<Vec<Option<RecentText>>> {
        let (sender, recent) = oneshot::channel();
        self.questions.send(Question::Recent(from, sender)).ok()?;
        recent.await.ok()
    }

    /// `None`: too many acts are running, or the main thread is ending.
    pub async fn act(&self, text: Vec<u8>) -> Option<Result<String, String>> {
        let (sender, done) = oneshot::channel();
        self.questions.send(Question::Act(text, sender)).ok()?;
        done.await.ok()?
    }

    /// There is a connection.
    #[inline]
    pub fn on_activity(&self) {
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            // The main thread may be ending.
            _ = self.questions.send(Question::Activity);
        }
    }
}

/// The requests of one worker as JSON.
#[derive(Debug, Default)]
pub struct RecentText {
    /// The number of the next request.
    pub next: u64,
    /// Objects with commas between them, the oldest first.
    pub last: String,
    /// The same of requests that run.
    pub running: String,
}

impl Ledger {
    /// Everything that has been counted.
    pub fn sum(&self) -> Values {
        let mut sum = self.past.clone();
        self.earlier.iter().for_each(|memory| sum.add(&memory.sum()));
        self.own.iter().for_each(|block| sum.add(&Values::of(block.counts)));
        sum
    }

    /// Where this process counts the log lines that it drops.
    pub fn dropped_lines(&self) -> &'static AtomicU64 {
        self.own.first().copied().unwrap_or_else(Block::private).dropped_lines()
    }

    /// When the earlier processes began that still run, in seconds since 1970. Those of earlier programs are known if
    /// they say so.
    pub fn running(&self) -> Vec<i64> {
        self.earlier.iter().filter_map(|memory| memory.sum().began()).collect()
    }

    /// What has been counted for the zones of this process, in the order of the configuration.
    pub fn zones(&self) -> Vec<ZoneSnapshot> {
        let mut earlier = ZoneSums::default();
        if !self.zones.is_empty() {
            self.earlier.iter().for_each(|memory| memory.add_zones(&mut earlier));
        }
        let sum = |(at, name): (usize, &String)| {
            let mut values = self.past_zones.get(name).cloned().unwrap_or_default();
            earlier.get(name).into_iter().for_each(|more| values.add_values(more));
            self.own.iter().filter_map(|block| block.zones.get(at * ZONE..)).for_each(|own| values.add(own));
            Some(ZoneSnapshot { zone: name.parse().ok()?, values })
        };
        self.zones.iter().enumerate().filter_map(sum).collect()
    }

    /// Everything that has been counted, and the connections of now.
    pub fn moment(&self) -> Moment {
        let present = self.own.iter().map(|block| layout::present(block.counts));
        let (active, idle) =
            present.fold((0, 0), |(active, idle), (more, rest)| (active + more, idle + rest));
        Moment { counts: self.sum(), active, idle }
    }
}

/// What was counted for a host, or for a route.
pub struct ZoneSnapshot {
    pub zone: Zone,
    pub values: ZoneValues,
}

impl ZoneSnapshot {
    /// The name of the host, and the pattern of the route behind it.
    fn name(&self) -> String {
        match &self.zone {
            Zone::Host(host) => host.clone(),
            Zone::Route(host, pattern) => format!("{host} {pattern}"),
        }
    }
}

/// The statistics of a process. A worker that does not respond has no snapshot.
pub struct Report {
    /// When the counting began, in seconds since 1970.
    pub since: i64,
    /// Of all workers, and of the processes before this one.
    pub counts: Values,
    pub process: u32,
    pub uptime: Duration,
    /// `None`: stored responses have no files.
    pub files: Option<StoredFiles>,
    pub workers: Vec<Option<Snapshot>>,
    pub zones: Vec<ZoneSnapshot>,
    /// When the earlier processes began that still run, in seconds since 1970.
    pub earlier: Vec<i64>,
    /// `None`: there is no /proc.
    pub usage: Option<Usage>,
    /// Of the certificates of hosts.
    pub validities: Vec<Validity>,
    /// When this is, in seconds since 1970.
    pub now: i64,
}

impl Report {
    /// What Boa writes to its error log at SIGALRM.
    pub fn boa_line(&self) -> String {
        let sum = |counts: &[Count]| counts.iter().map(|count| self.counts.get(*count)).sum::<u64>();
        let requests = sum(&[Count::Http10, Count::Http11, Count::Http2, Count::Unreadable]);
        let errors = sum(&[Count::Status4xx, Count::Status5xx]);
        format!("{requests} requests, {errors} errors")
    }

    pub fn write(&self, form: Form) -> String {
        match form {
            Form::Text => self.text(),
            Form::Json => self.json(),
            Form::Metrics(syntax) => self.metrics(syntax),
            Form::Live => self.live(&[]),
        }
    }

    pub fn total(&self) -> Snapshot {
        let mut total = Snapshot::default();
        self.workers.iter().flatten().for_each(|worker| total.add(worker));
        Snapshot { counts: self.counts.clone(), ..total }
    }

    fn text(&self) -> String {
        let mut out = format!(
            "taipan {}, process {}, serving for {} s, counting since {}\n\n{:>52}{:>16}",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.uptime.as_secs(),
            String::from_utf8_lossy(&date::format(self.since)),
            "",
            "all"
        );
        for number in 0..self.workers.len() {
            _ = write!(out, "{:>16}", format!("worker {number}"));
        }
        out.push('\n');
        for (row, (_, text, n)) in self.total().rows().enumerate() {
            _ = write!(out, "{text:<52}{n:>16}");
            for worker in &self.workers {
                match worker.as_ref().and_then(|w| w.rows().nth(row)) {
                    Some((_, _, n)) => _ = write!(out, "{n:>16}"),
                    None => _ = write!(out, "{:>16}", "no response"),
                }
            }
            out.push('\n');
        }
        _ = writeln!(out, "{:<52}{:>16}", "log lines dropped", self.counts.dropped_lines());
        for (text, n) in self.state_rows() {
            _ = writeln!(out, "{text:<52}{n:>16}");
        }
        for (_, text, n) in self.files.iter().flat_map(StoredFiles::rows) {
            _ = writeln!(out, "{text:<52}{n:>16}");
        }
        let counts = &self.counts;
        for (what, (buckets, _)) in [("first byte", counts.first_byte()), ("last byte", counts.durations())] {
            for (name, part) in [("half", 0.5), ("90 %", 0.9), ("99 %", 0.99)] {
                let what = format!("microseconds until the {what}: {name} of the responses");
                _ = writeln!(out, "{what:<52}{:>16}", histogram::quantile(&buckets, part).unwrap_or(0));
            }
        }
        for queue in self.total().queues {
            let what = format!("helper threads on device {}:{}", queue.device.0, queue.device.1);
            _ = writeln!(out, "{what:<52}{:>16}  running, {} waiting", queue.running, queue.waiting);
        }
        let endpoints = self.total().endpoints;
        for endpoint in endpoints.iter().take(MAX_ENDPOINTS) {
            let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } =
                endpoint;
            let last = if reason.is_empty() { String::new() } else { format!(", the last: {reason}") };
            let line = format!(
                "{application} {name}: {state} for {} s, {in_flight} in flight, {requests} requests, \
                 {failures} failures{last}",
                age.as_secs()
            );
            push_line(&line, &mut out);
        }
        if endpoints.len() > MAX_ENDPOINTS {
            _ = writeln!(out, "and {} more endpoints", endpoints.len() - MAX_ENDPOINTS);
        }
        for BreakerSnapshot { application, state } in self.total().breakers.iter().take(MAX_ENDPOINTS) {
            push_line(&format!("{application}: the circuit breaker is {}", state.name()), &mut out);
        }
        for Validity { name, file, key, not_after, .. } in self.validities.iter().take(MAX_CERTIFICATES) {
            let until = date::format(*not_after);
            let days = (not_after - self.now).div_euclid(86_400);
            let until = String::from_utf8_lossy(&until);
            let line = format!("certificate of {name} ({key}, {file}): valid until {until}, {days} days");
            push_line(&line, &mut out);
        }
        self.push_zone_lines(&mut out);
        out
    }

    /// The processes that serve, and what this one uses.
    fn state_rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (started, _) = self.counts.generations();
        let usage = self.usage.iter().flat_map(|usage| {
            let memory = Some(("bytes of memory of the serving process", usage.memory));
            let open = usage.descriptors.map(|open| ("open descriptors of the serving process", open));
            let most = usage.max_descriptors.map(|most| ("most descriptors of the serving process", most));
            [memory, open, most].into_iter().flatten()
        });
        let earlier = self.earlier.len() as u64;
        [("serving processes started", started), ("earlier processes that finish responses now", earlier)]
            .into_iter()
            .chain(usage)
    }

    /// A line for each host and each route.
    fn push_zone_lines(&self, out: &mut String) {
        if self.zones.is_empty() {
            return;
        }
        _ = write!(out, "\n{:<52}{:>12}", "hosts and routes", "responses");
        for name in ["1xx", "2xx", "3xx", "4xx", "5xx", "bytes", "half: us", "99 %: us"] {
            _ = write!(out, "{name:>12}");
        }
        out.push('\n');
        for snapshot in &self.zones {
            let (name, values) = (snapshot.name(), &snapshot.values);
            let durations = values.durations().0;
            let quantile = |part| histogram::quantile(durations, part).unwrap_or(0);
            let numbers = [values.responses()].into_iter().chain(values.classes().iter().copied());
            let mut line = format!("{name:<52}");
            for number in numbers.chain([values.bytes(), quantile(0.5), quantile(0.99)]) {
                _ = write!(line, "{number:>12}");
            }
            push_line(&line, out);
        }
    }

    fn json(&self) -> String {
        let mut out = self.json_begin();
        _ = write!(out, "\"certificates\":[{}],", self.certificate_objects());
        if let Some(files) = &self.files {
            let rows: Vec<String> = files.rows().map(|(key, _, n)| format!("\"{key}\":{n}")).collect();
            _ = write!(out, "\"cache_files\":{{{}}},", rows.join(","));
        }
        out.push_str("\"all\":");
        object(&self.total(), &mut out);
        out.push_str(",\"workers\":[");
        for (number, worker) in self.workers.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            match worker {
                Some(worker) => object(worker, &mut out),
                None => out.push_str("null"),
            }
        }
        out.push(']');
        self.push_zone_arrays(&mut out, |_, _| true);
        self.push_upstream_arrays(&mut out);
        out.push_str("}\n");
        out
    }
}

impl Report {
    /// The start of the object.
    fn json_begin(&self) -> String {
        let mut out = format!(
            "{{\"version\":\"{}\",\"process\":{},\"uptime_s\":{},\"since\":{},\"log_lines_dropped\":{},",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.uptime.as_secs(),
            self.since,
            self.counts.dropped_lines()
        );
        self.push_state(&mut out);
        out
    }

    fn push_upstream_arrays(&self, out: &mut String) {
        let total = self.total();
        out.push_str(",\"endpoints\":[");
        for (number, endpoint) in total.endpoints.iter().take(MAX_ENDPOINTS).enumerate() {
            out.push_str(if number > 0 { "," } else { "" });
            endpoint_object(endpoint, out);
        }
        out.push_str("],\"breakers\":[");
        for (number, breaker) in total.breakers.iter().take(MAX_ENDPOINTS).enumerate() {
            let (comma, state) = (if number > 0 { "," } else { "" }, breaker.state.name());
            _ = write!(
                out,
                "{comma}{{\"application\":{},\"state\":\"{state}\"}}",
                json_string(&breaker.application)
            );
        }
        out.push(']');
    }

    /// The processes, and what this one uses. With a comma at the end.
    fn push_state(&self, out: &mut String) {
        let number = |n: Option<u64>| n.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let ages: Vec<String> =
            self.earlier.iter().map(|began| (self.now - began).max(0).to_string()).collect();
        let (started, _) = self.counts.generations();
        _ = write!(out, "\"generations\":{{\"started\":{started},\"earlier_s\":[{}]}},", ages.join(","));
        if let Some(Usage { memory, descriptors, max_descriptors }) = self.usage {
            let (open, most) = (number(descriptors), number(max_descriptors));
            _ = write!(out, "\"memory\":{memory},\"descriptors\":{open},\"max_descriptors\":{most},");
        }
    }

    /// With commas between them.
    fn certificate_objects(&self) -> String {
        let certificate = |Validity { name, file, key, not_before, not_after }: &Validity| {
            let (name, file, key) = (json_string(name), json_string(file), json_string(key));
            format!(
                "{{\"name\":{name},\"file\":{file},\"key\":{key},\"not_before\":{not_before},\
                 \"not_after\":{not_after}}}"
            )
        };
        let certificates = self.validities.iter().take(MAX_CERTIFICATES).map(certificate);
        certificates.collect::<Vec<String>>().join(",")
    }

    /// The hosts and the routes, each as an array of JSON. `is_in`: whether the zone with this number is in it.
    fn push_zone_arrays(&self, out: &mut String, mut is_in: impl FnMut(usize, &ZoneSnapshot) -> bool) {
        let (mut hosts, mut routes) = (Vec::new(), Vec::new());
        for (number, snapshot) in self.zones.iter().enumerate() {
            if is_in(number, snapshot) {
                match snapshot.zone {
                    Zone::Host(_) => hosts.push(zone_object(snapshot)),
                    Zone::Route(..) => routes.push(zone_object(snapshot)),
                }
            }
        }
        _ = write!(out, ",\"hosts\":[{}],\"routes\":[{}]", hosts.join(","), routes.join(","));
    }
}

fn zone_object(ZoneSnapshot { zone, values }: &ZoneSnapshot) -> String {
    let mut out = match zone {
        Zone::Host(host) => format!("{{\"host\":{}", json_string(host)),
        Zone::Route(host, route) => {
            format!("{{\"host\":{},\"route\":{}", json_string(host), json_string(route))
        }
    };
    for (class, n) in (1..).zip(values.classes()) {
        _ = write!(out, ",\"status_{class}xx\":{n}");
    }
    _ = write!(out, ",\"bytes\":{},", values.bytes());
    let (buckets, sum) = values.durations();
    push_durations("duration_us", buckets, sum, &mut out);
    out.push('}');
    out
}

/// Their number, their sum and their quantiles.
fn push_durations(key: &str, buckets: &[u64], sum: u64, out: &mut String) {
    _ = write!(out, "\"{key}\":{{\"count\":{},\"sum\":{sum}", buckets.iter().sum::<u64>());
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        _ = write!(out, ",\"{name}\":{}", histogram::quantile(buckets, part).unwrap_or(0));
    }
    out.push('}');
}

/// Without control characters of `line`.
fn push_line(line: &str, out: &mut String) {
    let mut safe = Vec::new();
    site::text::line(line, &mut safe);
    out.push_str(&String::from_utf8_lossy(&safe));
    out.push('\n');
}

fn endpoint_object(endpoint: &EndpointSnapshot, out: &mut String) {
    let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } = endpoint;
    _ = write!(
        out,
        "{{\"application\":{},\"endpoint\":{},\"state\":\"{state}\",\"since_s\":{},\"in_flight\":{in_flight},\
         \"requests\":{requests},\"failures\":{failures},\"reason\":{}}}",
        json_string(application),
        json_string(name),
        age.as_secs(),
        json_string(reason)
    );
}

fn object(snapshot: &Snapshot, out: &mut String) {
    out.push('{');
    for (key, _, n) in snapshot.rows() {
        _ = write!(out, "\"{key}\":{n},");
    }
    out.push_str("\"codes\":{");
    for (number, (code, n)) in snapshot.counts.codes().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        _ = write!(out, "{comma}\"{code}\":{n}");
    }
    out.push_str("},");
    for (key, (buckets, sum)) in
        [("first_byte_us", snapshot.counts.first_byte()), ("duration_us", snapshot.counts.durations())]
    {
        push_durations(key, &buckets, sum, out);
        out.push(',');
    }
    out.push_str("\"helpers\":[");
    for (number, queue) in snapshot.queues.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let Queue { device: (major, minor), running, waiting } = queue;
        _ = write!(
            out,
            "{comma}{{\"device\":\"{major}:{minor}\",\"running\":{running},\"waiting\":{waiting}}}"
        );
    }
    out.push_str("]}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_every_counter_once() {
        let block = Block::private();
        block.dropped_lines().store(2, Ordering::Relaxed);
        let counts = Counts::over(block);
        counts.add(Count::Bytes, 7);
        counts.add_response(taipan_http::status::Status::NOT_FOUND, None);
        let endpoint = EndpointSnapshot {
            application: "app".to_owned(),
            name: "10.0.0.1:80".to_owned(),
            state: "down",
            age: Duration::from_secs(7),
            in_flight: 1,
            requests: 20,
            failures: 3,
            reason: "a \"reason\"".to_owned(),
        };
        let breaker = |state| vec![BreakerSnapshot { application: "app".to_owned(), state }];
        let endpoints = vec![endpoint];
        let worker = Snapshot {
            parked: 3,
            endpoints,
            breakers: breaker(BreakerState::Closed),
            ..Snapshot::of(&counts)
        };
        let other = Snapshot { breakers: breaker(BreakerState::HalfOpen), ..worker.clone() };
        let mut sum = worker.counts.clone();
        sum.add(&other.counts);
        let report = Report {
            since: 0,
            counts: sum,
            process: 1,
            uptime: Duration::from_secs(5),
            files: Some(StoredFiles { bytes: 4096, evicted: 9, ..StoredFiles::default() }),
            workers: vec![Some(worker), None, Some(other)],
            zones: Vec::new(),
            earlier: vec![-60],
            usage: Some(Usage { memory: 8192, descriptors: Some(7), max_descriptors: None }),
            validities: vec![Validity {
                name: "a.example".to_owned(),
                file: "/a.pem".to_owned(),
                key: "RSA 2048".to_owned(),
                not_before: 0,
                not_after: 10 * 86_400,
            }],
            now: 0,
        };
        let json = report.write(Form::Json);
        let all = json.split("\"workers\"").next().unwrap();
        for (key, _) in NAMES {
            assert_eq!(json.matches(&format!("\"{key}\":")).count(), 3, "{key}");
        }
        assert!(all.contains("\"bytes\":14,") && all.contains("\"status_4xx\":2,"), "{all}");
        assert!(all.contains("\"parked\":6,") && json.contains(",null,"), "{json}");
        assert!(
            json.contains("\"cache_files\":{\"file_bytes\":4096,\"files\":0,")
                && json.contains("\"files_evicted\":9"),
            "{json}"
        );
        let text = report.write(Form::Text);
        assert!(
            text.contains(&format!("{:<52}{:>16}\n", "stored responses: bytes of files now", 4096)),
            "{text}"
        );
        for (_, words) in NAMES {
            assert_eq!(
                text.lines().filter(|line| line.starts_with(&format!("{words}  "))).count(),
                1,
                "{words}"
            );
        }
        assert!(text.contains("no response"));
        let line = "app 10.0.0.1:80: down for 7 s, 2 in flight, 40 requests, 3 failures, the last: a \"reason\"\n\
             app: the circuit breaker is half-open\n\
             certificate of a.example (RSA 2048, /a.pem): valid until Sun, 11 Jan 1970 00:00:00 GMT, 10 days\n";
        assert!(text.ends_with(line), "{text}");
        let state = "\"generations\":{\"started\":0,\"earlier_s\":[60]},\"memory\":8192,\"descriptors\":7,\
                     \"max_descriptors\":null,\"certificates\":[{\"name\":\"a.example\",\"file\":\"/a.pem\",\
                     \"key\":\"RSA 2048\",\"not_before\":0,\"not_after\":864000}],";
        assert!(json.contains(state), "{json}");
        let object = "\"endpoints\":[{\"application\":\"app\",\"endpoint\":\"10.0.0.1:80\",\"state\":\"down\",\
                      \"since_s\":7,\"in_flight\":2,\"requests\":40,\"failures\":3,\
                      \"reason\":\"a \\\"reason\\\"\"}],\
                      \"breakers\":[{\"application\":\"app\",\"state\":\"half-open\"}]}\n";
        assert!(json.ends_with(object), "{json}");
    }
}
