//! How late the loop is, and what is shed because of it. Knows nothing of requests: it is told how late
//! each tick came, and says what may still be asked for.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::TICK;

/// What is shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shedding {
    Nothing,
    /// Requests that need a look at a disk, or whose answer is made while it is sent.
    Cold,
    /// Every request.
    Everything,
}

/// The loop must have been late this long before anything is shed.
const INTERVAL: Duration = Duration::from_secs(1);
/// So many times the target, and everything is shed.
const FAR: u32 = 10;

pub struct Overload {
    /// How late a tick may come. Zero: nothing is ever shed.
    target: Duration,
    shedding: Cell<Shedding>,
    /// How late the last tick was.
    delay: Cell<Duration>,
    /// For how long every tick has been later than the target, and than `FAR` times it.
    late: Cell<Duration>,
    far: Cell<Duration>,
}

impl Overload {
    pub fn new(target: Duration) -> Overload {
        Overload {
            target,
            shedding: Cell::new(Shedding::Nothing),
            delay: Cell::default(),
            late: Cell::default(),
            far: Cell::default(),
        }
    }

    /// A tick came `delay` after it was due.
    pub fn ticked(&self, delay: Duration) {
        self.delay.set(delay);
        let lasted = |clock: &Cell<Duration>, limit: Duration| {
            clock.set(if delay > limit { clock.get() + TICK + delay } else { Duration::ZERO });
            !limit.is_zero() && clock.get() >= INTERVAL
        };
        let (late, far) = (lasted(&self.late, self.target), lasted(&self.far, self.target * FAR));
        self.shedding.set(match (late, far) {
            (_, true) => Shedding::Everything,
            (true, false) => Shedding::Cold,
            (false, false) => Shedding::Nothing,
        });
    }

    #[inline]
    pub fn shedding(&self) -> Shedding {
        self.shedding.get()
    }

    pub fn delay(&self) -> Duration {
        self.delay.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target_ms: u64, delays_ms: &[u64], expected: Shedding) {
        let overload = Overload::new(Duration::from_millis(target_ms));
        for &delay in delays_ms {
            overload.ticked(Duration::from_millis(delay));
        }
        assert_eq!(overload.shedding(), expected, "{delays_ms:?}");
    }

    #[test]
    fn sheds_what_is_cold_first_and_only_after_a_while() {
        check(100, &[0, 5, 99, 100, 100, 100, 100], Shedding::Nothing);
        check(100, &[150, 150], Shedding::Nothing);
        check(100, &[150, 150, 150], Shedding::Cold);
        check(100, &[150, 150, 20, 150, 150], Shedding::Nothing);
        check(100, &[150, 150, 150, 150, 20], Shedding::Nothing);
        check(100, &[1500], Shedding::Everything);
        check(100, &[1500, 500], Shedding::Cold);
        check(100, &[1500, 50], Shedding::Nothing);
        check(0, &[5000, 5000, 5000], Shedding::Nothing);
    }
}
