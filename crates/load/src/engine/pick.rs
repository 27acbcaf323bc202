//! Random numbers that a seed repeats, and weighted choice. Not for secrets.

/// SplitMix64: eight bytes of state and no division.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// Picks indices in proportion to their weights.
#[derive(Debug, Clone)]
pub struct Picker {
    /// Sums of the weights up to each index; empty if all weights are equal.
    sums: Vec<u64>,
    total: u64,
}

impl Random {
    /// The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// All 64 bits.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Above 0, and at most 1.
    pub fn part(&mut self) -> f64 {
        ((self.number() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

impl Picker {
    /// In the order of the indices.
    pub fn new(weights: impl Iterator<Item = u32> + Clone) -> Picker {
        let count = weights.clone().count() as u64;
        let first = weights.clone().next().unwrap_or(1);
        if weights.clone().all(|weight| weight == first) {
            return Picker { sums: Vec::new(), total: count };
        }
        let sums: Vec<u64> = weights
            .scan(0u64, |sum, weight| {
                *sum += u64::from(weight);
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or(0);
        Picker { sums, total }
    }

    /// An index.
    pub fn pick(&self, random: &mut Random) -> u32 {
        if self.total <= 1 {
            return 0;
        }
        let number = random.below(self.total);
        match self.sums.is_empty() {
            true => number as u32,
            false => self.sums.partition_point(|&sum| sum <= number) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(seed: u64, weights: &[u32]) -> Vec<u32> {
        let (picker, mut random) = (Picker::new(weights.iter().copied()), Random::new(seed));
        (0..3000).map(|_| picker.pick(&mut random)).collect()
    }

    #[test]
    fn repeats_the_order_of_a_seed_and_picks_every_choice() {
        let weights = [1; 10];
        assert_eq!(picks(1, &weights), picks(1, &weights));
        assert_ne!(picks(1, &weights), picks(2, &weights));
        assert!((0..10).all(|choice| picks(1, &weights).contains(&choice)));
        assert!(picks(1, &[7]).iter().all(|&pick| pick == 0));
    }

    #[test]
    fn picks_in_proportion_to_the_weights() {
        let picks = picks(3, &[1, 0, 3]);
        let count = |choice| picks.iter().filter(|&&pick| pick == choice).count();
        assert_eq!(count(1), 0);
        let ratio = count(2) as f64 / count(0) as f64;
        assert!((2.5..3.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_part_is_above_zero_and_at_most_one() {
        let mut random = Random::new(5);
        assert!((0..1000).map(|_| random.part()).all(|part| part > 0.0 && part <= 1.0));
    }
}
