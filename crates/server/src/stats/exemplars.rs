//! Exemplars: for each bucket of the durations in metrics, the trace of the latest request that fell into it.

/// The upper bounds of the buckets are the powers of two with these exponents, in microseconds, each followed by the
/// middle to the next one: 64 µs to 201 s.
const BOUNDS: std::ops::Range<u32> = 6..28;
const BUCKETS: usize = 2 * (BOUNDS.end - BOUNDS.start) as usize;

/// A request as an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    pub trace: u128,
    /// How long it took.
    pub micros: u64,
    /// When it ended, in microseconds since 1970.
    pub time: u64,
}

/// One for each bucket, and for the durations above the last bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplars([Option<Exemplar>; BUCKETS + 1]);

impl Default for Exemplars {
    fn default() -> Exemplars {
        Exemplars([None; BUCKETS + 1])
    }
}

/// The upper bounds of the buckets in microseconds.
pub fn bounds() -> [u64; BUCKETS] {
    std::array::from_fn(|at| {
        let power = BOUNDS.start + at as u32 / 2;
        if at.is_multiple_of(2) { 1 << power } else { 3 << (power - 1) }
    })
}

impl Exemplars {
    pub fn note(&mut self, exemplar: Exemplar) {
        let at = bounds().partition_point(|bound| *bound <= exemplar.micros);
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(exemplar);
        }
    }

    /// The later ones of both.
    pub fn merge(&mut self, other: &Exemplars) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            if own.map_or(0, |own| own.time) < other.map_or(0, |other| other.time) {
                *own = *other;
            }
        }
    }

    /// That of a bucket.
    pub fn get(&self, at: usize) -> Option<Exemplar> {
        self.0.get(at).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_latest_request_below_its_bound() {
        let exemplar = |micros, time| Exemplar { trace: 1, micros, time };
        let (mut one, mut other) = (Exemplars::default(), Exemplars::default());
        for (micros, expected) in
            [(0, 0), (63, 0), (64, 1), (95, 1), (96, 2), (134_217_727, 42), (u64::MAX, BUCKETS)]
        {
            one.note(exemplar(micros, 5));
            assert_eq!(one.get(expected), Some(exemplar(micros, 5)), "{micros}");
        }
        other.note(exemplar(10, 6));
        other.note(exemplar(70, 4));
        one.merge(&other);
        assert_eq!((one.get(0), one.get(1)), (Some(exemplar(10, 6)), Some(exemplar(95, 5))));
        assert!(bounds().is_sorted() && bounds().len() == BUCKETS);
    }
}
