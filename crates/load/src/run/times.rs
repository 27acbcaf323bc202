//! A distribution of durations in microseconds, with the exact shortest, longest and sum. Merging two gives what
//! recording all durations into one would give.

use hdrhistogram::Histogram;

/// Significant digits: a precision of a thousandth.
pub const DIGITS: u8 = 3;
/// Longer durations are counted as one hour in the distribution.
const LONGEST_KEPT: u64 = 3_600_000_000;

/// A recorder of durations in microseconds. The first one allocates its memory (some 190 KB).
#[derive(Clone, Debug, Default)]
pub struct Times {
    histogram: Option<Box<Histogram<u64>>>,
    shortest: u64,
    longest: u64,
    sum: u64,
}

impl PartialEq for Times {
    fn eq(&self, other: &Self) -> bool {
        (self.count(), self.shortest, self.longest, self.sum)
            == (other.count(), other.shortest, other.longest, other.sum)
            && match (&self.histogram, &other.histogram) {
                (Some(ours), Some(theirs)) => ours == theirs,
                _ => self.count() == 0 && other.count() == 0,
            }
    }
}

impl Times {
    /// In microseconds.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        self.record_many(micros, 1);
    }

    /// The same duration, so many times.
    #[inline]
    pub fn record_many(&mut self, micros: u64, count: u64) {
        if count == 0 {
            return;
        }
        let first = self.histogram.is_none();
        let Some(histogram) = self.histogram_mut() else { return };
        histogram.saturating_record_n(micros, count);
        self.shortest = if first { micros } else { self.shortest.min(micros) };
        self.longest = self.longest.max(micros);
        self.sum = self.sum.saturating_add(micros.saturating_mul(count));
    }

    /// Never None: the bounds are constants that the histogram accepts.
    #[inline]
    fn histogram_mut(&mut self) -> Option<&mut Histogram<u64>> {
        if self.histogram.is_none() {
            self.histogram = Self::empty_histogram().map(Box::new);
        }
        self.histogram.as_deref_mut()
    }

    pub fn merge(&mut self, other: &Times) {
        let Some(theirs) = &other.histogram else { return };
        self.shortest =
            if self.histogram.is_none() { other.shortest } else { self.shortest.min(other.shortest) };
        self.longest = self.longest.max(other.longest);
        self.sum = self.sum.saturating_add(other.sum);
        if let Some(ours) = self.histogram_mut() {
            // Both have the same bounds, so nothing can fall outside.
            let _ = ours.add(theirs.as_ref());
        }
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |histogram| histogram.len())
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Exact; 0 without any.
    pub fn shortest(&self) -> u64 {
        self.shortest
    }

    /// Exact; 0 without any.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Exact; 0 without any.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// Standard deviation; 0 without any.
    pub fn deviation(&self) -> f64 {
        self.histogram.as_ref().map_or(0.0, |histogram| histogram.stdev())
    }

    /// The duration that `per_cent` of all did not exceed; at most the longest. 0 without any.
    pub fn percentile(&self, per_cent: f64) -> u64 {
        let Some(histogram) = &self.histogram else { return 0 };
        if per_cent >= 100.0 {
            return self.longest;
        }
        histogram.value_at_quantile(per_cent / 100.0).clamp(self.shortest, self.longest)
    }

    /// In microseconds; 0 without any.
    pub fn median(&self) -> u64 {
        self.percentile(50.0)
    }

    /// The share, in per cent, of those that lie within one standard deviation of the mean.
    pub fn within_deviation(&self) -> f64 {
        let (Some(histogram), mean, deviation) = (&self.histogram, self.mean(), self.deviation()) else {
            return 0.0;
        };
        let near = |value: u64| (value as f64 - mean).abs() <= deviation;
        let inside: u64 = histogram
            .iter_recorded()
            .filter(|step| near(histogram.median_equivalent(step.value_iterated_to())))
            .map(|step| step.count_since_last_iteration())
            .sum();
        inside as f64 * 100.0 / histogram.len().max(1) as f64
    }

    /// Value and count of every step of the distribution that has any, in ascending order.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        self.histogram.iter().flat_map(|histogram| {
            histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
        })
    }

    /// An empty histogram with the bounds of all.
    pub(crate) fn empty_histogram() -> Option<Histogram<u64>> {
        Histogram::new_with_bounds(1, LONGEST_KEPT, DIGITS).ok()
    }

    pub(crate) fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_deref()
    }

    /// From parts that were read; the histogram has the bounds of `empty_histogram`.
    pub(crate) fn from_parts(read: Histogram<u64>, shortest: u64, longest: u64, sum: u64) -> Self {
        if read.is_empty() {
            return Self::default();
        }
        Self { histogram: Some(Box::new(read)), shortest, longest, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_share_within_a_standard_deviation() {
        let mut times = Times::default();
        assert_eq!(times.within_deviation(), 0.0);
        // Mean 110, deviation 30.
        times.record_many(100, 9);
        times.record(200);
        assert_eq!((times.mean(), times.deviation(), times.within_deviation()), (110.0, 30.0, 90.0));
        assert_eq!(times.steps().collect::<Vec<_>>(), [(100, 9), (200, 1)]);
    }

    #[test]
    fn counts_more_than_an_hour_as_an_hour_and_keeps_the_exact_longest() {
        let mut times = Times::default();
        times.record(LONGEST_KEPT * 5);
        assert_eq!((times.count(), times.longest()), (1, LONGEST_KEPT * 5));
        assert!(times.percentile(50.0) >= LONGEST_KEPT);
    }
}
