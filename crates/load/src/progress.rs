//! Shows the progress of a run on a terminal: one line a second for all threads together, and below it a bar with
//! the time left. Prints nothing if standard error is not a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::engine::SecondReport;
use crate::flags::Progress;
use crate::plan::{Pace, Plan};
use crate::run::Point;

/// Reports that may wait for a slow terminal. A thread that finds the channel full waits.
const REPORTS_MAX: usize = 4096;

/// Characters of the bar.
const BAR: usize = 30;
/// Moves to the first column and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// Prints until all senders are dropped.
pub struct Watcher {
    pub sender: SyncSender<SecondReport>,
    printer: JoinHandle<()>,
}

/// `None`: no terminal, or `--quiet`.
pub fn watch(progress: Progress, plan: &Plan) -> Option<Watcher> {
    if progress == Progress::Never || !std::io::stderr().is_terminal() {
        return None;
    }
    let (sender, reports) = sync_channel(REPORTS_MAX);
    let (goal, threads) = (Goal::of(plan), plan.threads);
    let printer = thread::spawn(move || print(&reports, goal, threads));
    Some(Watcher { sender, printer })
}

impl Watcher {
    /// Waits until the last line is printed.
    pub fn end(self) {
        drop(self.sender);
        // A printer that panicked has printed what it could.
        let _ = self.printer.join();
    }
}

/// Where a run ends. With neither, it ends with its input.
#[derive(Debug, Clone, Copy, Default)]
struct Goal {
    requests: Option<u64>,
    time: Option<Duration>,
}

impl Goal {
    fn of(plan: &Plan) -> Goal {
        let replay = match &plan.pace {
            Pace::Replay(steps) => steps.last().map(|(at, _)| *at),
            Pace::Closed | Pace::Open { .. } => None,
        };
        Goal { requests: plan.stop.requests, time: plan.stop.time.or(replay) }
    }

    /// The part of the run that is over, from 0 to 1, by the end that comes first.
    fn reached(self, seconds: u64, finished: u64) -> Option<f64> {
        let by_requests = self.requests.map(|all| finished as f64 / all.max(1) as f64);
        let by_time = self.time.map(|time| seconds as f64 / time.as_secs_f64().max(0.001));
        let parts = by_requests.into_iter().chain(by_time);
        parts.reduce(f64::max).map(|part| part.clamp(0.0, 1.0))
    }
}

fn print(reports: &Receiver<SecondReport>, goal: Goal, threads: usize) {
    let mut finished = 0;
    // If the terminal was closed, the run goes on.
    let show = |text: &str| _ = write!(std::io::stderr(), "{CLEAR}{text}");
    show(&goal.reached(0, 0).map_or(String::new(), |part| bar(part, 0)));
    let mut seconds: BTreeMap<u64, (usize, Point)> = BTreeMap::new();
    while let Ok(report) = reports.recv() {
        let (reported, point) = seconds.entry(report.second).or_default();
        *reported += 1;
        point.merge(&report.point);
        if *reported == threads {
            let text = line(report.second, point);
            finished += point.done + point.failed;
            seconds.remove(&report.second);
            let elapsed = report.second + 1;
            let bar = goal.reached(elapsed, finished).map_or(String::new(), |part| bar(part, elapsed));
            show(&format!("{text}\n{bar}"));
        }
    }
    show("");
}

/// How much is done, and how long the rest takes at the same pace.
fn bar(part: f64, elapsed: u64) -> String {
    let full = (part * BAR as f64) as usize;
    let mut text = format!("[{:<BAR$}] {:>3.0} %", "#".repeat(full), (part * 100.0).floor());
    if part > 0.0 {
        let left = elapsed as f64 / part - elapsed as f64;
        _ = write!(text, "  {} left", duration(left.ceil() as u64));
    }
    text
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// A rate never stands without the failures and the longest time.
fn line(second: u64, point: &Point) -> String {
    let milliseconds = |micros: u64| micros as f64 / 1000.0;
    let mut text = format!("{:>5} s  {:>9} requests/s  {:>7} failed", second + 1, point.done, point.failed);
    if let Some(p99) = point.percentile(99.0) {
        _ = write!(text, "  p99 {:>9.2} ms", milliseconds(p99));
    }
    _ = write!(text, "  longest {:>9.2} ms", milliseconds(point.longest));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Series;

    #[test]
    fn a_bar_shows_the_part_done_and_the_time_left() {
        let by_requests = Goal { requests: Some(1000), time: None };
        let by_both = Goal { time: Some(Duration::from_secs(10)), ..by_requests };
        assert_eq!(by_requests.reached(3, 250), Some(0.25));
        assert_eq!(by_both.reached(5, 250), Some(0.5));
        assert_eq!(by_both.reached(20, 0), Some(1.0));
        assert_eq!(Goal::default().reached(3, 250), None);
        assert_eq!(bar(0.0, 0), "[                              ]   0 %");
        assert_eq!(bar(0.5, 5), "[###############               ]  50 %  5 s left");
        assert_eq!(bar(0.1, 100), "[###                           ]  10 %  15:00 min left");
        assert_eq!(bar(1.0, 10), "[##############################] 100 %  0 s left");
        assert_eq!(duration(7265), "2:01 h");
    }

    #[test]
    fn a_line_shows_rate_failures_p99_and_longest_time() {
        let mut series = Series::default();
        series.done(0, 1500, 10);
        series.failed(0, 250_000, 0);
        let text = line(4, &series.points()[0]);
        assert_eq!(
            text,
            "    5 s          1 requests/s        1 failed  p99      1.53 ms  longest    250.00 ms"
        );
        assert!(!line(0, &Point::default()).contains("p99"));
    }
}
