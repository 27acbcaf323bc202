//! Statistics: every worker counts for itself, in plain cells that nobody else sees, and hands out a
//! snapshot when it is asked. Whoever asks adds them up and writes them, as text or as JSON.

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use crate::disk::Queue;
use crate::ipc::Form;

macro_rules! counts {
    ($($name:ident $key:literal $text:literal,)*) => {
        /// What is counted.
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
    Refused "refused" "connections refused with 503: no room",
    PerClient "refused_per_client" "connections refused with 503: too many of one client",
    AcceptFailed "accept_failed" "accepting failed for want of descriptors or memory",
    Evicted "evicted" "idle connections closed to make room",
    EvictedSlow "evicted_slow" "slow connections ended to make room",
    Panicked "panicked" "connections ended by a panic",
    Status1xx "status_1xx" "answers 1xx",
    Status2xx "status_2xx" "answers 2xx",
    Status3xx "status_3xx" "answers 3xx",
    Status4xx "status_4xx" "answers 4xx",
    Status5xx "status_5xx" "answers 5xx",
    Bytes "bytes" "bytes sent",
    CacheHits "cache_hits" "cache hits",
    CacheMisses "cache_misses" "cache misses",
    ShedCold "shed_cold" "requests shed: what they need may wait for a disk",
    ShedAll "shed_all" "requests shed: the loop is far too late",
    LateHead "late_head" "timed out: request head",
    LateBody "late_body" "timed out: request body",
    LateWrite "late_write" "timed out: client did not take its answer",
    LateIdle "late_idle" "timed out: idle",
    LateDisk "late_disk" "timed out: disk",
    Left "left" "given up: look-ups and scripts of clients that left",
    Scripts "scripts" "scripts started",
    Asked "asked" "requests to applications",
    ScriptsFailed "scripts_failed" "scripts failed: not started, or no proper answer",
    ScriptsLate "scripts_late" "scripts ended because they took too long",
    ScriptsKilled "scripts_killed" "scripts that ended by a signal",
    ScriptsRefused "scripts_refused" "requests refused with 503: too many scripts",
}

/// The counts of one worker. Counting is an addition, without a lock and without an atomic.
pub struct Counts([Cell<u64>; NAMES.len()]);

/// What is true of a worker at this moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    counts: [u64; NAMES.len()],
    /// Connections whose request is being read, looked up or answered.
    pub active: u64,
    /// Connections between two requests that still have a task.
    pub idle: u64,
    /// Connections at rest.
    pub parked: u64,
    /// Scripts that run, and requests that wait until one may.
    pub scripts_running: u64,
    pub scripts_waiting: u64,
    /// How late the loop last was.
    pub delay: Duration,
    /// Per device, what is done on helper threads.
    pub queues: Vec<Queue>,
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

    /// Counts an answer under its class.
    #[inline]
    pub fn answered(&self, status: taipan_http::status::Status) {
        let class = usize::from(status.code() / 100).clamp(1, 5);
        let cell = &self.0[Count::Status1xx as usize + class - 1];
        cell.set(cell.get() + 1);
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut counts = [0; NAMES.len()];
        for (n, cell) in counts.iter_mut().zip(&self.0) {
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
        for (sum, n) in self.counts.iter_mut().zip(other.counts) {
            *sum += n;
        }
        self.active += other.active;
        self.idle += other.idle;
        self.parked += other.parked;
        self.scripts_running += other.scripts_running;
        self.scripts_waiting += other.scripts_waiting;
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
    }

    /// Counts, and what is true at this moment, each with its key and its words.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let now = [
            ("active", "connections at work now", self.active),
            ("idle", "connections idle now", self.idle),
            ("parked", "connections parked now", self.parked),
            ("scripts_running", "scripts running now", self.scripts_running),
            ("scripts_waiting", "requests waiting for a script now", self.scripts_waiting),
            ("delay_us", "microseconds that the loop was last late", self.delay.as_micros() as u64),
        ];
        let counts = NAMES.iter().zip(self.counts).map(|((key, text), n)| (*key, *text, n));
        now.into_iter().chain(counts)
    }
}

/// The statistics of a process. A worker that does not answer has no snapshot.
pub struct Report {
    pub process: u32,
    pub uptime: Duration,
    pub dropped_lines: u64,
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
                    None => _ = write!(out, "{:>16}", "no answer"),
                }
            }
            out.push('\n');
        }
        _ = writeln!(out, "{:<52}{:>16}", "log lines dropped", self.dropped_lines);
        for queue in self.total().queues {
            let what = format!("helper threads on device {}:{}", queue.device.0, queue.device.1);
            _ = writeln!(out, "{what:<52}{:>16}  running, {} waiting", queue.running, queue.waiting);
        }
        out
    }

    fn json(&self) -> String {
        let mut out = format!(
            "{{\"version\":\"{}\",\"process\":{},\"uptime_s\":{},\"log_lines_dropped\":{},\"all\":",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.uptime.as_secs(),
            self.dropped_lines
        );
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
        out.push_str("]}\n");
        out
    }
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
    fn every_count_has_one_place_in_both_forms() {
        let counts = Counts::new();
        counts.add(Count::Bytes, 7);
        counts.answered(taipan_http::status::Status::NOT_FOUND);
        let worker = Snapshot { parked: 3, ..counts.snapshot() };
        let report = Report {
            process: 1,
            uptime: Duration::from_secs(5),
            dropped_lines: 2,
            workers: vec![Some(worker.clone()), None, Some(worker)],
        };
        let json = report.write(Form::Json);
        let all = json.split("\"workers\"").next().unwrap();
        for (key, _) in NAMES {
            assert_eq!(json.matches(&format!("\"{key}\":")).count(), 3, "{key}");
        }
        assert!(all.contains("\"bytes\":14,") && all.contains("\"status_4xx\":2,"), "{all}");
        assert!(all.contains("\"parked\":6,") && json.contains(",null,"), "{json}");
        let text = report.write(Form::Text);
        for (_, words) in NAMES {
            assert_eq!(
                text.lines().filter(|line| line.starts_with(&format!("{words}  "))).count(),
                1,
                "{words}"
            );
        }
        assert!(text.contains("no answer"));
    }
}
