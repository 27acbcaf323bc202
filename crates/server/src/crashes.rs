//! Counting ends that nobody has asked for: one is put right, a row of them is not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many within the time are a loop.
const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Crashes(VecDeque<Instant>);

impl Crashes {
    /// Counts one more. Have there been too many?
    pub fn is_loop(&mut self, now: Instant) -> bool {
        self.0.retain(|then| now.duration_since(*then) < WITHIN);
        self.0.push_back(now);
        self.0.len() >= MOST
    }

    /// How long to wait before it is tried again: not at all after the first.
    pub fn pause(&self) -> Duration {
        match self.0.len() {
            0 | 1 => Duration::ZERO,
            n => Duration::from_millis(125 << n.min(MOST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_in_a_minute_are_a_loop() {
        let start = Instant::now();
        let check = |seconds: &[u64], expected: bool| {
            let mut crashes = Crashes::default();
            let found = seconds.iter().map(|s| crashes.is_loop(start + Duration::from_secs(*s))).last();
            assert_eq!(found, Some(expected), "{seconds:?}");
        };
        check(&[0, 1, 2, 3], false);
        check(&[0, 1, 2, 3, 4], true);
        check(&[0, 1, 2, 3, 59], true);
        check(&[0, 1, 2, 3, 60], false);
        check(&[0, 30, 60, 90, 120, 150], false);
    }
}
