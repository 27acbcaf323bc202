//! How long to wait until a process or a worker that has ended is started again: not at all after the first
//! end, and longer after each further one within a minute, up to some seconds. It is never given up: what makes
//! them end may pass, and until then some requests are answered.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ends that are older do not count.
const WITHIN: Duration = Duration::from_secs(60);
/// Of so many the pause is the longest.
const MOST: usize = 5;

#[derive(Default)]
pub struct Crashes(VecDeque<Instant>);

impl Crashes {
    /// Counts one more. Gives the pause until the next start.
    pub fn count(&mut self, now: Instant) -> Duration {
        self.0.retain(|then| now.duration_since(*then) < WITHIN);
        self.0.truncate(MOST - 1);
        self.0.push_front(now);
        match self.0.len() {
            0 | 1 => Duration::ZERO,
            n => Duration::from_millis(125 << n),
        }
    }
}

/// When something is started again, for a message.
pub fn text(pause: Duration) -> String {
    if pause.is_zero() { "at once".to_owned() } else { format!("in {} s", pause.as_secs_f32()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_after_each_end_within_a_minute_and_never_longer_than_seconds() {
        let start = Instant::now();
        let check = |seconds: &[u64], expected_ms: u128| {
            let mut crashes = Crashes::default();
            let found = seconds.iter().map(|s| crashes.count(start + Duration::from_secs(*s))).last();
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
