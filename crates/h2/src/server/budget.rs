//! How often a client may do what costs it little and the server much (RFC 9113 §10.5). Knows nothing of what that is.

/// Seconds until an empty budget is full again.
const REFILL_SECONDS: u32 = 30;

/// What is left of an allowance.
#[derive(Debug)]
pub struct Budget {
    left: u32,
    /// The time of the last refill.
    second: u32,
}

impl Budget {
    pub const fn new(limit: u32) -> Budget {
        Budget { left: limit, second: 0 }
    }

    /// `false` if the budget is exceeded.
    pub const fn spend(&mut self, cost: u32) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Returns part of the budget, up to `limit`.
    pub fn earn(&mut self, amount: u32, limit: u32) {
        self.left = self.left.saturating_add(amount).min(limit);
    }

    /// Refills for the time since the last call, or since the clock was set back.
    pub fn refill(&mut self, second: u32, limit: u32) {
        self.second = self.second.min(second);
        let passed = second.saturating_sub(self.second).min(REFILL_SECONDS);
        let amount = u64::from(limit) * u64::from(passed) / u64::from(REFILL_SECONDS);
        // A small limit needs more than a second for one.
        if amount > 0 || limit == 0 {
            self.second = second;
            self.earn(amount as u32, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refills_with_time_up_to_its_limit() {
        let mut budget = Budget::new(10);
        assert!(budget.spend(10) && !budget.spend(1));
        budget.refill(2, 10);
        assert!(!budget.spend(1), "a third of a unit each second");
        budget.refill(3, 10);
        assert!(budget.spend(1) && !budget.spend(1));
        budget.refill(1_000_000, 10);
        assert!(budget.spend(10) && !budget.spend(1));
        budget.earn(20, 10);
        assert!(budget.spend(10) && !budget.spend(1));
    }

    #[test]
    fn refills_after_the_clock_was_set_back() {
        let mut budget = Budget::new(10);
        budget.refill(1_000_000, 10);
        assert!(budget.spend(10));
        budget.refill(1000, 10);
        assert!(!budget.spend(1));
        budget.refill(1003, 10);
        assert!(budget.spend(1) && !budget.spend(1));
    }
}
