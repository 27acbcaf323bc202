//! Lines that were dropped, and the reports of them in the error log.

use std::sync::atomic::Ordering;
use std::time::Instant;

use site::model::{Level, Sink};

use super::{Logs, OpenSink, REPORT_EVERY, error_line};
use crate::mutex::locked;
use crate::terminal;

/// Of lines that were dropped, a report names this many logs.
const NAMED_LOGS: usize = 3;

/// Lines of one log that were dropped.
pub struct Dropped {
    pub(super) lines: u64,
    /// The log, and what was wrong with it when the first was dropped.
    pub(super) why: String,
}

/// What the error log says of lines that were dropped.
#[derive(Default)]
pub struct Reports {
    last: Option<Instant>,
    /// There are some that it does not say yet.
    pub(super) has_more: bool,
    /// Of those that the error log did not take.
    counted: u64,
}

impl Reports {
    /// Reports the lines that were dropped, if that is due.
    pub(super) fn update(&mut self, logs: &Logs, errors: &mut OpenSink) {
        self.count(logs, errors);
        if self.last.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.report(logs, errors);
        }
    }

    /// Reports them now: the process may end.
    pub(super) fn finish(&mut self, logs: &Logs, errors: &mut OpenSink) {
        self.count(logs, errors);
        self.report(logs, errors);
    }

    fn count(&mut self, logs: &Logs, errors: &OpenSink) {
        let lost = errors.lost();
        // Now: the error log may be on the same full disk, and have no report for long.
        logs.dropped_ever.fetch_add(lost.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = lost;
        self.has_more = lost > 0 || !locked(&logs.dropped).is_empty();
    }

    fn report(&mut self, logs: &Logs, errors: &mut OpenSink) {
        if !self.has_more {
            return;
        }
        self.last = Some(Instant::now());
        // No worker waits for the lock until the report is written.
        let dropped = std::mem::take(&mut *locked(&logs.dropped));
        if !report_dropped(errors, dropped.values().collect()) {
            let mut later = locked(&logs.dropped);
            for (sink, Dropped { lines, why }) in dropped {
                later.entry(sink).or_insert(Dropped { lines: 0, why }).lines += lines;
            }
        }
        self.counted = errors.lost();
        self.has_more = false;
    }
}

impl Dropped {
    /// Why lines of a log are dropped whose queue is full.
    pub(super) fn too_slow(sink: &Sink) -> String {
        format!("the disk or the reader of {sink} is too slow")
    }
}

/// How a message about things that were dropped begins. `what`: one of them.
pub fn were_dropped(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what} was dropped") } else { format!("{count} {what}s were dropped") }
}

/// Reports dropped lines, and those that the error log did not take. `false`: it has not taken the report either, and
/// the next one has them.
pub(super) fn report_dropped(errors: &mut OpenSink, dropped: Vec<&Dropped>) -> bool {
    let lost = errors.lost();
    let own = (lost > 0).then(|| Dropped { lines: lost, why: errors.why_lost() });
    let mut all = dropped;
    all.extend(&own);
    let lines = all.iter().map(|dropped| dropped.lines).sum();
    let mut reasons: Vec<&str> = all.iter().map(|dropped| dropped.why.as_str()).collect();
    if reasons.len() > NAMED_LOGS {
        reasons.truncate(NAMED_LOGS);
        reasons.push("and other logs");
    }
    let text = format!("{}: {}", were_dropped(lines, "log line"), reasons.join("; "));
    errors.write(&error_line(Level::Error, &terminal::plain(&text)));
    let is_taken = errors.lost() == lost;
    // A report that is lost does not count itself.
    errors.subtract_lost(if is_taken { lost } else { 1 });
    is_taken
}
