//! Histograms of durations: how many fell into each of a fixed number of buckets, whose width grows with the duration.
//! Pure. Each octave has 32 buckets, so that the middle of a bucket differs from what fell into it by at most 1.6 %.

/// Buckets of an octave, as a power of two.
const BITS: u32 = 5;
const PER_OCTAVE: usize = 1 << BITS;
/// The largest duration, in bits of microseconds: 71 minutes. What is longer counts as the longest.
const LARGEST: u32 = 32;
pub const BUCKETS: usize = PER_OCTAVE * (LARGEST - BITS + 1) as usize;

/// The bucket of a duration in microseconds.
#[inline]
pub fn bucket(micros: u64) -> usize {
    let micros = micros.min((1 << LARGEST) - 1);
    let octave = (micros | (PER_OCTAVE as u64 - 1)).ilog2() - (BITS - 1);
    match octave {
        // One microsecond each.
        0 => micros as usize,
        octave => octave as usize * PER_OCTAVE + (micros >> (octave - 1)) as usize - PER_OCTAVE,
    }
}

/// The least duration of a bucket, in microseconds. Of the bucket behind the last one, too.
pub fn least(bucket: usize) -> u64 {
    let (octave, within) = ((bucket / PER_OCTAVE) as u32, (bucket % PER_OCTAVE) as u64);
    match octave {
        0 => within,
        octave => (PER_OCTAVE as u64 + within) << (octave - 1),
    }
}

/// The number of durations below `micros`, which is the least duration of a bucket.
pub fn below(buckets: &[u64], micros: u64) -> u64 {
    buckets[..bucket(micros).min(buckets.len())].iter().sum()
}

/// The duration that this part of all durations does not exceed, in microseconds: the middle of its bucket. `None`:
/// there are no durations.
pub fn quantile(buckets: &[u64], part: f64) -> Option<u64> {
    let total: u64 = buckets.iter().sum();
    let rank = ((total as f64 * part).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    let at = buckets.iter().position(|count| {
        seen += count;
        seen >= rank
    })?;
    Some((least(at) + least(at + 1) - 1) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(least(at)), at, "{at}");
            assert_eq!(bucket(least(at + 1) - 1), at, "{at}");
        }
        assert_eq!(least(BUCKETS), 1 << LARGEST);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_middle_of_a_bucket_differs_by_less_than_two_percent() {
        let mut micros = 1;
        while micros < 1 << LARGEST {
            let mut buckets = [0; BUCKETS];
            buckets[bucket(micros)] = 1;
            let middle = quantile(&buckets, 0.5).unwrap_or(0) as f64;
            assert!((middle - micros as f64).abs() < 0.02 * micros as f64, "{micros}: {middle}");
            micros += micros / 7 + 1;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_durations() {
        let mut buckets = [0; BUCKETS];
        (1..=1000u64).for_each(|n| buckets[bucket(n * 100)] += 1);
        for (part, exact) in
            [(0.0, 100.0), (0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0), (1.0, 100_000.0)]
        {
            let found = quantile(&buckets, part).map_or(0.0, |micros| micros as f64);
            assert!((found - exact).abs() < 0.02 * exact, "{part}: {found}");
        }
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
        assert_eq!(below(&buckets, 1 << 16), 655);
    }
}
