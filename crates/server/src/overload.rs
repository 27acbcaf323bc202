//! How late a worker's loop is, and which requests it sheds because of that. Knows nothing of requests: it receives the
//! delay of each tick with their number, and returns what to shed.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::TICK;

/// Which requests are shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shedding {
    Nothing,
    /// Requests that may wait for a disk, or whose response is made while it is sent.
    Cold,
    /// Every request.
    Everything,
}

/// Shedding begins after the loop has been late for this long.
const INTERVAL: Duration = Duration::from_secs(1);
/// Everything is shed when the delay exceeds this multiple of the target.
const FAR: u32 = 10;
/// So few requests in progress are not what makes a loop late, and 503 would not make them faster: nothing is shed
/// while there are no more.
const FEW: usize = 64;

pub struct Overload {
    /// The delay that a tick may have. Zero: nothing is ever shed.
    target: Duration,
    shedding: Cell<Shedding>,
    /// The delay of the last tick.
    delay: Cell<Duration>,
    /// How long every tick has exceeded the target, and `FAR` times the target.
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

    /// Receives a tick that came `delay` after it was due, with so many requests in progress.
    pub fn on_tick(&self, delay: Duration, requests: impl FnOnce() -> usize) {
        self.delay.set(delay);
        let lasted = |clock: &Cell<Duration>, limit: Duration| {
            clock.set(if delay > limit { clock.get() + TICK + delay } else { Duration::ZERO });
            !limit.is_zero() && clock.get() >= INTERVAL
        };
        let (late, far) = (lasted(&self.late, self.target), lasted(&self.far, self.target * FAR));
        self.shedding.set(match (late, far) {
            (false, false) => Shedding::Nothing,
            _ if requests() <= FEW => Shedding::Nothing,
            (_, true) => Shedding::Everything,
            (true, false) => Shedding::Cold,
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
        for (requests, expected) in [(FEW, Shedding::Nothing), (FEW + 1, expected)] {
            let overload = Overload::new(Duration::from_millis(target_ms));
            for &delay in delays_ms {
                overload.on_tick(Duration::from_millis(delay), || requests);
            }
            assert_eq!(overload.shedding(), expected, "{delays_ms:?}, {requests} requests");
        }
    }

    #[test]
    fn sheds_cold_requests_first_and_only_after_the_interval() {
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
