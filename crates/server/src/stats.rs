//! Statistics: each worker counts in cells of its own, and sends a snapshot on request. The main thread adds the snapshots
//! up and writes them, as text or as JSON.

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use crate::disk::Queue;
use crate::ipc::Form;

/// Endpoints in one report, which fits into the buffer of a socket.
const MAX_ENDPOINTS: usize = 200;

macro_rules! counts {
    ($($name:ident $key:literal $text:literal,)*) => {
        /// The counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Count { $($name,)* }

        /// The key in JSON, and the words in text, in the order of `Count`.
        const NAMES: &[(&str, &str)] = &[$(($key, $text),)*];
    };
}

counts! {
    Accepted "accepted" "connections accepted",
    Inherited "inherited" "connections taken over from an earlier process",
    HandedOver "handed_over" "connections handed over to a later process",
    Rejected "rejected" "connections rejected with 503: at capacity",
    PerClient "rejected_per_client" "connections rejected with 503: too many of a client",
    AcceptFailed "accept_failed" "accepting failed: no descriptors or no memory",
    Evicted "evicted" "idle connections closed to make room",
    EvictedSlow "evicted_slow" "slow connections closed to make room",
    Panicked "panicked" "connections ended by a panic",
    Status1xx "status_1xx" "responses 1xx",
    Status2xx "status_2xx" "responses 2xx",
    Status3xx "status_3xx" "responses 3xx",
    Status4xx "status_4xx" "responses 4xx",
    Status5xx "status_5xx" "responses 5xx",
    Bytes "bytes" "bytes sent",
    CacheHits "cache_hits" "cache hits",
    CacheMisses "cache_misses" "cache misses",
    ResponseHits "response_hits" "stored responses sent: fresh",
    ResponsesStale "responses_stale" "stored responses sent: stale",
    ResponsesRevalidated "responses_revalidated" "stored responses sent: confirmed by the upstream",
    ResponseMisses "response_misses" "requests that no stored response could answer",
    ResponsesAwaited "responses_awaited" "requests that waited for the response to another one",
    ResponsesStored "responses_stored" "responses stored",
    ResponsesPurged "responses_purged" "requests with PURGE that removed what was stored",
    ResponsesRefreshed "responses_refreshed" "stored responses refreshed in the background",
    ShedCold "shed_cold" "requests shed: late loop, and they may need a disk",
    ShedAll "shed_all" "requests shed: very late loop",
    Proxied "proxied" "PROXY headers read",
    ProxyFailed "proxy_failed" "connections closed: no PROXY header, or not from a trusted proxy",
    WrongPasswords "wrong_passwords" "wrong passwords",
    LoginsDelayed "logins_delayed" "requests rejected with 429: they have to wait after wrong passwords",
    LoginsBusy "logins_busy" "requests rejected with 503: too many passwords to compare",
    Handshakes "handshakes" "TLS handshakes",
    HandshakesResumed "handshakes_resumed" "TLS handshakes that resumed a session",
    HandshakesFailed "handshakes_failed" "TLS handshakes that failed",
    HandshakesPerClient "handshakes_per_client" "TLS connections closed before the handshake: too many of a client",
    StreamsRefused "streams_refused" "HTTP/2 requests refused: too many at the same time",
    TimeoutHandshake "timeout_handshake" "timed out: TLS handshake",
    TimeoutHead "timeout_head" "timed out: request head",
    TimeoutBody "timeout_body" "timed out: request body",
    TimeoutWrite "timeout_write" "timed out: client did not read its response",
    TimeoutIdle "timeout_idle" "timed out: idle",
    TimeoutDisk "timeout_disk" "timed out: disk",
    TimeoutUpgraded "timeout_upgraded" "timed out: upgraded connection",
    Abandoned "abandoned" "lookups and scripts abandoned: client disconnected",
    Scripts "scripts" "scripts started",
    UpstreamRequests "upstream_requests" "requests to applications",
    Upgraded "upgraded" "connections upgraded to another protocol",
    UpgradesRejected "upgrades_rejected" "requests rejected with 503: too many upgraded connections",
    ScriptsFailed "scripts_failed" "scripts failed: not started, or invalid response",
    ScriptsTimeout "scripts_timeout" "scripts ended because they took too long",
    ScriptsKilled "scripts_killed" "scripts that ended by a signal",
    LimitedRequests "limited_requests" "requests rejected by a limit: too many in a time",
    LimitedConcurrent "limited_concurrent" "requests rejected by a limit: too many at once",
    LimitedShare "limited_share" "requests rejected with 503: shares too small",
    LimitedDryRun "limited_dry_run" "requests that a limit would reject: dry run",
    LimitQueued "limit_queued" "requests that waited for others to end",
    LimitAbandoned "limit_abandoned" "requests that left the queue: client disconnected",
    ThrottlePauses "throttle_pauses" "pauses of throttled responses and bodies",
    BreakersOpened "breakers_opened" "circuit breakers opened",
    BreakersRejected "breakers_rejected" "requests rejected with 503: circuit breaker open",
    ScriptsRejected "scripts_rejected" "requests rejected with 503: too many scripts",
}

/// The counters of one worker. Counting needs no lock and no atomic.
pub struct Counts([Cell<u64>; NAMES.len()]);

/// A value for each counter.
#[derive(Debug, Clone)]
struct Values([u64; NAMES.len()]);

impl Default for Values {
    fn default() -> Values {
        Values([0; NAMES.len()])
    }
}

/// The counters and the present state of a worker.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    counts: Values,
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

impl Counts {
    pub fn new() -> Counts {
        Counts([const { Cell::new(0) }; NAMES.len()])
    }

    #[inline]
    pub fn add(&self, what: Count, n: u64) {
        let cell = &self.0[what as usize];
        cell.set(cell.get() + n);
    }

    pub fn get(&self, what: Count) -> u64 {
        self.0[what as usize].get()
    }

    /// Counts a response by its status class.
    #[inline]
    pub fn add_response(&self, status: taipan_http::status::Status) {
        let class = usize::from(status.code() / 100).clamp(1, 5);
        let cell = &self.0[Count::Status1xx as usize + class - 1];
        cell.set(cell.get() + 1);
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut counts = Values::default();
        for (n, cell) in counts.0.iter_mut().zip(&self.0) {
            *n = cell.get();
        }
        Snapshot { counts, ..Snapshot::default() }
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::new()
    }
}

impl Snapshot {
    fn add(&mut self, other: &Snapshot) {
        for (sum, n) in self.counts.0.iter_mut().zip(other.counts.0) {
            *sum += n;
        }
        self.active += other.active;
        self.idle += other.idle;
        self.parked += other.parked;
        self.scripts_running += other.scripts_running;
        self.scripts_waiting += other.scripts_waiting;
        self.upgraded += other.upgraded;
        self.delay = self.delay.max(other.delay);
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
    fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let now = [
            ("active", "connections active now", self.active),
            ("idle", "connections idle now", self.idle),
            ("parked", "connections parked now", self.parked),
            ("scripts_running", "scripts running now", self.scripts_running),
            ("scripts_waiting", "requests waiting for a script now", self.scripts_waiting),
            ("upgraded_now", "upgraded connections now", self.upgraded),
            ("delay_us", "microseconds by which the last tick was late", self.delay.as_micros() as u64),
        ];
        let counts = NAMES.iter().zip(self.counts.0).map(|((key, text), n)| (*key, *text, n));
        now.into_iter().chain(counts)
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
            ("files_failed", "stored responses: files not written or read", self.failed),
        ]
        .into_iter()
    }
}

/// The statistics of a process. A worker that does not respond has no snapshot.
pub struct Report {
    pub process: u32,
    pub uptime: Duration,
    pub dropped_lines: u64,
    /// `None`: stored responses have no files.
    pub files: Option<StoredFiles>,
    pub workers: Vec<Option<Snapshot>>,
}

impl Report {
    pub fn write(&self, form: Form) -> String {
        match form {
            Form::Text => self.text(),
            Form::Json => self.json(),
        }
    }

    fn total(&self) -> Snapshot {
        let mut total = Snapshot::default();
        self.workers.iter().flatten().for_each(|worker| total.add(worker));
        total
    }

    fn text(&self) -> String {
        let mut out = format!(
            "taipan {}, process {}, serving for {} s\n\n{:>52}{:>16}",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.uptime.as_secs(),
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
        _ = writeln!(out, "{:<52}{:>16}", "log lines dropped", self.dropped_lines);
        for (_, text, n) in self.files.iter().flat_map(StoredFiles::rows) {
            _ = writeln!(out, "{text:<52}{n:>16}");
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
        out
    }

    fn json(&self) -> String {
        let mut out = format!(
            "{{\"version\":\"{}\",\"process\":{},\"uptime_s\":{},\"log_lines_dropped\":{},",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.uptime.as_secs(),
            self.dropped_lines
        );
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
        out.push_str("],\"endpoints\":[");
        for (number, endpoint) in self.total().endpoints.iter().take(MAX_ENDPOINTS).enumerate() {
            out.push_str(if number > 0 { "," } else { "" });
            endpoint_object(endpoint, &mut out);
        }
        out.push_str("],\"breakers\":[");
        for (number, breaker) in self.total().breakers.iter().take(MAX_ENDPOINTS).enumerate() {
            let (comma, state) = (if number > 0 { "," } else { "" }, breaker.state.name());
            _ = write!(
                out,
                "{comma}{{\"application\":{},\"state\":\"{state}\"}}",
                quoted(&breaker.application)
            );
        }
        out.push_str("]}\n");
        out
    }
}

/// Without control characters of `line`.
fn push_line(line: &str, out: &mut String) {
    let mut safe = Vec::new();
    site::text::line(line, &mut safe);
    out.push_str(&String::from_utf8_lossy(&safe));
    out.push('\n');
}

/// As a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = Vec::new();
    site::text::json(text.as_bytes(), &mut quoted);
    String::from_utf8_lossy(&quoted).into_owned()
}

fn endpoint_object(endpoint: &EndpointSnapshot, out: &mut String) {
    let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } = endpoint;
    _ = write!(
        out,
        "{{\"application\":{},\"endpoint\":{},\"state\":\"{state}\",\"since_s\":{},\"in_flight\":{in_flight},\
         \"requests\":{requests},\"failures\":{failures},\"reason\":{}}}",
        quoted(application),
        quoted(name),
        age.as_secs(),
        quoted(reason)
    );
}

fn object(snapshot: &Snapshot, out: &mut String) {
    out.push('{');
    for (key, _, n) in snapshot.rows() {
        _ = write!(out, "\"{key}\":{n},");
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
        let counts = Counts::new();
        counts.add(Count::Bytes, 7);
        counts.add_response(taipan_http::status::Status::NOT_FOUND);
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
        let worker =
            Snapshot { parked: 3, endpoints, breakers: breaker(BreakerState::Closed), ..counts.snapshot() };
        let other = Snapshot { breakers: breaker(BreakerState::HalfOpen), ..worker.clone() };
        let report = Report {
            process: 1,
            uptime: Duration::from_secs(5),
            dropped_lines: 2,
            files: Some(StoredFiles { bytes: 4096, evicted: 9, ..StoredFiles::default() }),
            workers: vec![Some(worker), None, Some(other)],
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
             app: the circuit breaker is half-open\n";
        assert!(text.ends_with(line), "{text}");
        let object = "\"endpoints\":[{\"application\":\"app\",\"endpoint\":\"10.0.0.1:80\",\"state\":\"down\",\
                      \"since_s\":7,\"in_flight\":2,\"requests\":40,\"failures\":3,\
                      \"reason\":\"a \\\"reason\\\"\"}],\
                      \"breakers\":[{\"application\":\"app\",\"state\":\"half-open\"}]}\n";
        assert!(json.ends_with(object), "{json}");
    }
}
