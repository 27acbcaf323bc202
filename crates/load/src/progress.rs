//! What is seen of a run while it lasts: one line a second, of all threads together. Only on a terminal;
//! what is piped away gets nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::engine::Beat;
use crate::flags::Progress;
use crate::run::Point;

/// Seconds that wait for a slow terminal; further ones wait with their threads' next look.
const BEATS: usize = 4096;

/// Ends when all senders are gone.
pub struct Watcher {
    pub listener: SyncSender<Beat>,
    printer: JoinHandle<()>,
}

/// `None`: nobody is watching.
pub fn watch(progress: Progress, threads: usize) -> Option<Watcher> {
    if progress == Progress::Never || !std::io::stderr().is_terminal() {
        return None;
    }
    let (listener, beats) = sync_channel(BEATS);
    let printer = thread::spawn(move || print(&beats, threads));
    Some(Watcher { listener, printer })
}

impl Watcher {
    /// Waits until the last line is printed.
    pub fn end(self) {
        drop(self.listener);
        // A printer that panicked has printed what it could.
        let _ = self.printer.join();
    }
}

fn print(beats: &Receiver<Beat>, threads: usize) {
    let mut seconds: BTreeMap<u64, (usize, Point)> = BTreeMap::new();
    while let Ok(beat) = beats.recv() {
        let (told, point) = seconds.entry(beat.second).or_default();
        *told += 1;
        point.merge(&beat.point);
        if *told == threads {
            let text = line(beat.second, point);
            seconds.remove(&beat.second);
            // Who closed the terminal is not watching.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

/// Never a rate without the failures and the longest time beside it.
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
    fn a_line_has_rate_failures_p99_and_the_longest() {
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
