//! A run second by second: how many requests ended in each second, how they ended and how long they took.
//! Bounded: when there are too many points, every two adjacent points are merged into one of double width.

/// The most points that are kept.
pub const POINTS: usize = 3600;

/// Steps of a point's distribution per doubling, for a precision of 6 %.
const STEPS_PER_OCTAVE: u32 = 16;

/// Consecutive points of equal width from the beginning of the measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Seconds that each point stands for: 1, or a power of two when the run was long.
    width: u64,
    points: Vec<Point>,
}

/// What ended within one point of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub done: u64,
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The longest total time, failed requests included, in microseconds.
    pub longest: u64,
    /// Counts by `step(total time)`, of right responses.
    pub(crate) steps: Vec<u64>,
}

impl Default for Series {
    fn default() -> Self {
        Self { width: 1, points: Vec::new() }
    }
}

impl Series {
    /// Counts a right request that ended `since_begin` microseconds after the beginning and took `total`.
    #[inline]
    pub fn done(&mut self, since_begin: u64, total: u64, bytes: u64) {
        let point = self.at(since_begin);
        point.done += 1;
        point.bytes = point.bytes.saturating_add(bytes);
        point.longest = point.longest.max(total);
        let step = step(total);
        if point.steps.len() <= step {
            point.steps.resize(step + 1, 0);
        }
        point.steps[step] += 1;
    }

    /// Counts a failed request.
    pub fn failed(&mut self, since_begin: u64, total: u64, bytes: u64) {
        let point = self.at(since_begin);
        point.failed += 1;
        point.bytes = point.bytes.saturating_add(bytes);
        point.longest = point.longest.max(total);
    }

    #[inline]
    fn at(&mut self, micros: u64) -> &mut Point {
        let mut index = micros / 1_000_000 / self.width;
        // Bounded: a time has 64 bits, so at most 64 rounds.
        while index >= POINTS as u64 {
            self.double();
            index /= 2;
        }
        let index = index as usize;
        if self.points.len() <= index {
            self.points.resize(index + 1, Point::default());
        }
        &mut self.points[index]
    }

    fn double(&mut self) {
        let halves = std::mem::take(&mut self.points);
        for (index, half) in halves.into_iter().enumerate() {
            match (index % 2, self.points.last_mut()) {
                (1, Some(whole)) => whole.merge(&half),
                _ => self.points.push(half),
            }
        }
        self.width = self.width.saturating_mul(2);
    }

    /// Adds what another thread or generator measured in the same seconds.
    pub fn merge(&mut self, other: &Series) {
        let mut other = other.clone();
        while self.width < other.width {
            self.double();
        }
        while other.width < self.width {
            other.double();
        }
        if self.points.len() < other.points.len() {
            self.points.resize(other.points.len(), Point::default());
        }
        for (ours, theirs) in self.points.iter_mut().zip(&other.points) {
            ours.merge(theirs);
        }
    }

    /// Seconds that each point stands for.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// In order of time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// A rate per second for each whole point. The last point is not whole, unless the measured time ends with
    /// it.
    pub fn whole_rates(&self, micros: u64, count: impl Fn(&Point) -> u64) -> impl Iterator<Item = f64> {
        let whole = (micros / 1_000_000 / self.width) as usize;
        self.points.iter().take(whole).map(move |point| count(point) as f64 / self.width as f64)
    }

    /// From parts that were read. None if the width is not a power of two or there are too many points.
    pub(crate) fn from_parts(width: u64, points: Vec<Point>) -> Option<Self> {
        (width.is_power_of_two() && points.len() <= POINTS).then_some(Self { width, points })
    }
}

impl Point {
    pub(crate) fn merge(&mut self, other: &Point) {
        self.done = self.done.saturating_add(other.done);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.longest = self.longest.max(other.longest);
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), 0);
        }
        for (ours, theirs) in self.steps.iter_mut().zip(&other.steps) {
            *ours = ours.saturating_add(*theirs);
        }
    }

    /// The time in microseconds, to 6 %, within which `per_cent` of the right responses came; none without
    /// any.
    pub fn percentile(&self, per_cent: f64) -> Option<u64> {
        let count = self.steps.iter().fold(0u64, |sum, &steps| sum.saturating_add(steps));
        let wanted = ((count as f64 * per_cent / 100.0).ceil() as u64).max(1);
        let mut seen = 0u64;
        let step = self.steps.iter().position(|&steps| {
            seen = steps.saturating_add(seen);
            seen >= wanted
        })?;
        Some(highest(step).min(self.longest))
    }
}

/// The number of the step of a value: exact below 16, then 16 steps to each doubling.
#[inline]
pub(crate) fn step(value: u64) -> usize {
    let octave = value.max(1).ilog2().saturating_sub(STEPS_PER_OCTAVE.ilog2());
    (octave * STEPS_PER_OCTAVE) as usize + (value >> octave) as usize
}

/// The highest value of a step.
pub(crate) fn highest(step: usize) -> u64 {
    let per_octave = STEPS_PER_OCTAVE as usize;
    let octave = (step / per_octave).saturating_sub(1).min(59);
    let low = (step - octave * per_octave) as u64;
    ((low + 1) << octave).wrapping_sub(1)
}

/// The number of steps.
pub(crate) const STEPS: usize = 61 * STEPS_PER_OCTAVE as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_a_precision_of_six_per_cent() {
        let values =
            (0..64).flat_map(|power| [1u64 << power, (1 << power) + 1, (1 << power) - 1, 3 << power >> 1]);
        for value in values.chain(0..5000).chain([u64::MAX]) {
            let step = step(value);
            assert!(step < STEPS, "{value}");
            let highest = highest(step);
            assert!(highest >= value && highest - value <= value / 16, "{value}: {highest}");
        }
    }

    #[test]
    fn percentiles_of_a_point_count_right_responses() {
        let mut series = Series::default();
        for total in 1..=100 {
            series.done(0, total * 10, 0);
        }
        series.failed(999_999, 60_000_000, 0);
        let point = &series.points()[0];
        assert_eq!(point.longest, 60_000_000);
        for (per_cent, expected) in [(1.0, 10), (50.0, 511), (99.0, 991), (100.0, 1023)] {
            assert_eq!(point.percentile(per_cent), Some(expected), "{per_cent}");
        }
        assert_eq!(Point::default().percentile(50.0), None);
    }

    #[test]
    fn only_whole_points_have_a_rate() {
        let mut series = Series::default();
        for micros in [0, 500_000, 1_999_999, 2_000_000] {
            series.done(micros, 1, 0);
        }
        let rates: Vec<f64> = series.whole_rates(2_500_000, |point| point.done).collect();
        assert_eq!(rates, [2.0, 1.0]);
    }
}
