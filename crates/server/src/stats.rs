//! Statistics: each worker counts in memory of its own (`layout`, `memory`), and sends its present state on request.
//! The main thread adds them up, and writes them as text, as JSON or as metrics.

mod exemplars;
pub mod histogram;
mod history;
mod json;
mod layout;
pub mod live;
mod memory;
mod metrics;
mod page;
mod process;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use site::zones::Zone;

pub use self::exemplars::{Exemplar, Exemplars};
pub use self::history::{History, Moment, SERIES, STEPS, Sampler};
pub use self::layout::{Block, Count, Counts, Values, ZoneValues};
use self::layout::{NAMES, ZONE};
pub use self::memory::{CounterMemory, SharedCounters, ZoneSums};
pub use self::page::EventState;
pub use self::process::{ProcessFiles, Usage};
use crate::disk::Queue;
use crate::process::ipc::Form;
use crate::tls_facts::Validity;

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
    /// The serving process.
    pub process: u32,
    /// Its parent, which takes signals. `None`: it has ended.
    pub master: Option<u32>,
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
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use taipan_http::status::Status;

    use super::*;

    /// What these workers have counted, in a program that has run for five seconds.
    pub fn report_of(workers: Vec<Option<Snapshot>>) -> Report {
        let mut counts = Values::default();
        workers.iter().flatten().for_each(|worker| counts.add(&worker.counts));
        Report {
            since: 5,
            counts,
            process: 2,
            master: Some(1),
            uptime: Duration::from_secs(5),
            files: Some(StoredFiles::default()),
            workers,
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
        }
    }

    #[test]
    fn text_and_json_have_every_counter_once() {
        let block = Block::private();
        block.dropped_lines().store(2, Ordering::Relaxed);
        let counts = Counts::over(block);
        counts.add(Count::Bytes, 7);
        counts.add_response(Status::NOT_FOUND, None);
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
        let report = Report {
            files: Some(StoredFiles { bytes: 4096, evicted: 9, ..StoredFiles::default() }),
            ..report_of(vec![Some(worker), None, Some(other)])
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
