//! The pause before a process or a worker that has ended is started again: none after the first end, and a longer
//! one after each further end within a minute. The longest pause is a few seconds: the cause may pass, and until
//! then some requests are answered.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Older ends do not count.
const WITHIN: Duration = Duration::from_secs(60);
/// After this many ends the pause is the longest.
const MAX_ENDS: usize = 5;

#[derive(Default)]
pub struct RestartLimit(VecDeque<Instant>);

impl RestartLimit {
    /// Counts one more end. Returns the pause before the next start.
    pub fn count(&mut self, now: Instant) -> Duration {
        self.0.retain(|then| now.duration_since(*then) < WITHIN);
        self.0.truncate(MAX_ENDS - 1);
        self.0.push_front(now);
        match self.0.len() {
            0 | 1 => Duration::ZERO,
            n => Duration::from_millis(125 << n),
        }
    }
}

/// When the next start is due, for a log line.
pub fn text(pause: Duration) -> String {
    if pause.is_zero() { "at once".to_owned() } else { format!("in {} s", pause.as_secs_f32()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengthens_the_pause_with_each_end_within_a_minute_up_to_four_seconds() {
        let start = Instant::now();
        let check = |seconds: &[u64], expected_ms: u128| {
            let mut limit = RestartLimit::default();
            let found = seconds.iter().map(|s| limit.count(start + Duration::from_secs(*s))).last();
            assert_eq!(found.map(|pause| pause.as_millis()), Some(expected_ms), "{seconds:?}");
        };
        check(&[0], 0);
        check(&[0, 1], 500);
        check(&[0, 1, 2], 1000);
        check(&[0, 1, 2, 3], 2000);
        check(&[0, 1, 2, 3, 4], 4000);
        check(&(0..50).collect::<Vec<_>>(), 4000);
        check(&[0, 1, 2, 3, 63], 0);
        check(&[0, 1, 2, 3, 62], 500);
        check(&[0, 61, 122, 183], 0);
    }
}
