//! Latencies in buckets that are at most 1.6 % wide, and the exact longest one. Small enough to stay in the
//! processor's cache.

use std::time::Duration;

/// Buckets per doubling.
const STEPS: u64 = 64;
/// Half an hour in microseconds is below 2^31: 25 doublings above the linear start.
const BUCKETS: usize = 27 * STEPS as usize;

pub struct Latency {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

impl Latency {
    #[expect(clippy::new_without_default)]
    pub fn new() -> Latency {
        Latency { counts: vec![0; BUCKETS], total: 0, longest: Duration::ZERO }
    }

    pub fn record(&mut self, took: Duration) {
        self.counts[bucket(took.as_micros() as u64)] += 1;
        self.total += 1;
        self.record_longest(took);
    }

    /// Records a time for the longest only. A failed request may be the longest, but is not part of the
    /// percentiles.
    pub fn record_longest(&mut self, waited: Duration) {
        self.longest = self.longest.max(waited);
    }

    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The time in microseconds within which the fraction `part` (0 to 1) of the responses came; 0 without any.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (part * self.total as f64).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, lower_edge)
    }
}

/// Linear below two times `STEPS`, then `STEPS` buckets for every doubling.
fn bucket(microseconds: u64) -> usize {
    let doublings = u64::from(microseconds.max(1).ilog2()).saturating_sub(u64::from(STEPS.ilog2()));
    ((doublings * STEPS + (microseconds >> doublings)) as usize).min(BUCKETS - 1)
}

fn lower_edge(bucket: usize) -> u64 {
    let doublings = (bucket as u64 / STEPS).saturating_sub(1);
    (bucket as u64 - doublings * STEPS) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_at_most_a_sixty_fourth_wide() {
        for microseconds in (0..5000).chain([99_999, 1_234_567, 1_799_999_999]) {
            let edge = lower_edge(bucket(microseconds));
            assert!(edge <= microseconds && microseconds - edge <= edge / STEPS, "{microseconds}: {edge}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_count_responses_and_the_longest_counts_failures() {
        let mut latency = Latency::new();
        assert_eq!(latency.percentile(0.99), 0);
        for microseconds in 1..=100 {
            latency.record(Duration::from_micros(microseconds));
        }
        latency.record_longest(Duration::from_secs(2));
        assert_eq!((latency.percentile(0.5), latency.percentile(0.99)), (50, 99));
        assert_eq!(latency.longest(), Duration::from_secs(2));
    }
}
