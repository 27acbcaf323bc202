//! The arithmetic of rates: the generic cell rate algorithm (ITU-T I.371), which is a token bucket whose whole state is
//! one time.
//!
//! `due` is when the bucket is full again if nothing more is taken. It may be ahead of the present by a burst, and for
//! bytes by more: then those who share the bucket wait, and each has its turn in the order of the reservations. So the
//! shares are equal, whatever the number of workers.

use super::{ByteRate, RequestRate};

/// A time or a duration in nanoseconds, of a monotonic clock.
pub type Nanos = u64;

pub const SECOND: Nanos = 1_000_000_000;
/// What the time of a clock that begins with 0 is added to: no burst reaches back before 0.
pub const EPOCH: Nanos = 1 << 62;

/// Slices of a share in a second, at low rates and at high ones.
const FEW_SLICES: u64 = 25;
const MANY_SLICES: u64 = 100;
/// Bytes of a slice at low rates: each slice costs a timer and a packet.
const LOW_SLICE: u64 = 2048;
/// From here on, slices become more frequent in place of longer: a response that is alone takes less in advance of
/// others that join.
const LONG_SLICE: u64 = 32 * 1024;
/// By how much a worker's timers may be late: what is lost by that is caught up.
const LATENESS: Nanos = SECOND / 10;
/// Bytes of the smallest slice, also for a share that is smaller than this in a second.
const MIN_SLICE: u64 = 64;
/// Bytes of the largest slice.
pub const MAX_SLICE: u64 = 1024 * 1024;

/// Bytes that may be sent at the time `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub at: Nanos,
    pub due: Nanos,
}

/// How long `bytes` take at a rate of bytes per second.
pub fn cost(rate: u64, bytes: u64) -> Nanos {
    let nanos = u128::from(bytes) * u128::from(SECOND) / u128::from(rate.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Reserves what costs `cost`. It is always granted, perhaps later.
pub fn reserve(due: Nanos, now: Nanos, burst: Nanos, cost: Nanos) -> Grant {
    let start = due.max(now.saturating_sub(burst));
    Grant { at: start.max(now), due: start.saturating_add(cost) }
}

/// Takes what costs `cost`, if that can be had at once. Returns the new `due`. Errors: how long to wait.
pub fn take(due: Nanos, now: Nanos, burst: Nanos, cost: Nanos) -> Result<Nanos, Nanos> {
    let Grant { at, due } = reserve(due, now, burst, cost);
    if at <= now { Ok(due) } else { Err(at - now) }
}

/// What may be taken at once, each for `cost`, from a bucket whose last taking returned `due`, and how long it takes
/// until all of the burst may be.
pub fn remaining(due: Nanos, now: Nanos, burst: Nanos, cost: Nanos) -> (u64, Nanos) {
    let count = if due > now { 0 } else { (now - due.max(now.saturating_sub(burst))) / cost.max(1) + 1 };
    (count, due.saturating_add(burst).saturating_sub(now))
}

/// Bytes of one slice, where so many share a rate of bytes per second.
pub fn slice(rate: u64, senders: u64) -> u64 {
    let share = rate / senders.max(1);
    let low = LOW_SLICE.min(share / 4);
    let long = LONG_SLICE.max(share / MANY_SLICES);
    (share / FEW_SLICES).min(long).max(low).clamp(MIN_SLICE, MAX_SLICE)
}

impl ByteRate {
    /// The time in which a burst is sent at the rate, or as long as timers may be late.
    pub fn tolerance(&self) -> Nanos {
        self.burst.map_or(LATENESS, |burst| cost(self.rate, burst).max(LATENESS))
    }
}

impl RequestRate {
    /// Between two requests.
    pub fn interval(&self) -> Nanos {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        (period / self.count.max(1)).max(1)
    }

    /// By how much a burst may be ahead.
    pub fn tolerance(&self) -> Nanos {
        self.interval().saturating_mul(self.burst.saturating_sub(1))
    }

    /// The quota of a window and its seconds, as the field `RateLimit-Policy` has them: after a pause the burst is
    /// admitted, and it takes the window to be admitted again.
    pub fn policy(&self) -> (u64, u64) {
        (self.burst, self.interval().saturating_mul(self.burst).div_ceil(SECOND))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::time::Duration;

    use super::*;

    const START: Nanos = EPOCH + 1000 * SECOND;

    /// The bytes that each of `readers` gets in `seconds`. They begin one after the other, half a millisecond apart,
    /// and their timers are up to `late` too late.
    fn simulate(rate: ByteRate, readers: usize, seconds: u64, late: Nanos) -> Vec<u64> {
        let (mut due, mut senders) = (0, 0);
        let mut sent = vec![0; readers];
        let mut seed = 1_u64;
        let mut delay = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if late == 0 { 0 } else { (seed >> 33) % late }
        };
        // When a reader may send its slice, its number and the bytes. It begins without any.
        let begins = |reader: usize| Reverse((START + reader as u64 * SECOND / 2000, reader, 0));
        let mut events: BinaryHeap<Reverse<(Nanos, usize, u64)>> = (0..readers).map(begins).collect();
        while let Some(Reverse((now, reader, bytes))) = events.pop() {
            if now >= START + seconds * SECOND {
                break;
            }
            sent[reader] += bytes;
            senders += u64::from(bytes == 0);
            let bytes = slice(rate.rate, senders);
            let grant = reserve(due, now, rate.tolerance(), cost(rate.rate, bytes));
            due = grant.due;
            let at = if grant.at > now { grant.at + delay() } else { now };
            events.push(Reverse((at, reader, bytes)));
        }
        sent
    }

    fn rate(rate: u64) -> ByteRate {
        ByteRate { rate, burst: None }
    }

    /// Jain's index of fairness: 1 if all are equal.
    fn jain(shares: &[u64]) -> f64 {
        let sum: f64 = shares.iter().map(|share| *share as f64).sum();
        let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
        sum * sum / (shares.len() as f64 * squares)
    }

    #[test]
    fn bytes_are_within_five_percent_of_the_rate_in_ten_seconds() {
        for bits in [64_000, 128_000, 512_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000_u64] {
            for readers in [1, 2, 7, 50] {
                for late in [0, SECOND / 1000, SECOND / 50] {
                    let expected = bits / 8 * 10;
                    let sent: u64 = simulate(rate(bits / 8), readers, 10, late).iter().sum();
                    let error = (sent as f64 - expected as f64) / expected as f64;
                    assert!(error.abs() < 0.05, "{bits} bit/s, {readers} readers, {late} ns: {error}");
                }
            }
        }
    }

    #[test]
    fn fifty_readers_of_one_rate_have_equal_shares() {
        for bits in [512_000, 10_000_000, 16_000_000, 100_000_000, 1_000_000_000_u64] {
            let shares = simulate(rate(bits / 8), 50, 10, SECOND / 1000);
            assert!(jain(&shares) >= 0.98, "{bits} bit/s: {} {shares:?}", jain(&shares));
        }
        assert!(jain(&[100, 0]) < 0.51 && jain(&[7, 7, 7]) > 0.999);
    }

    #[test]
    fn a_burst_is_sent_at_once_after_a_pause_and_only_then() {
        let rate = ByteRate { rate: 1000, burst: Some(10_000) };
        let mut due = 0;
        let at_once = |due: &mut Nanos, now: Nanos| {
            let mut bytes = 0;
            while let Ok(next) = take(*due, now, rate.tolerance(), cost(rate.rate, 500)) {
                *due = next;
                bytes += 500;
            }
            bytes
        };
        assert_eq!(at_once(&mut due, START), 10_500);
        assert_eq!(at_once(&mut due, START), 0);
        assert_eq!(at_once(&mut due, START + SECOND), 1000);
        assert_eq!(at_once(&mut due, START + 100 * SECOND), 10_500);
    }

    #[test]
    fn requests_have_a_burst_and_then_their_rate() {
        let rate = RequestRate { count: 5, period: Duration::from_secs(60), burst: 3 };
        let mut due = 0;
        let mut admitted = |now: Nanos| {
            let mut count = 0;
            while let Ok(next) = take(due, now, rate.tolerance(), rate.interval()) {
                due = next;
                count += 1;
            }
            count
        };
        for (seconds, expected) in [(0, 3), (0, 0), (11, 0), (12, 1), (36, 2), (36, 0), (1000, 3)] {
            assert_eq!(admitted(START + seconds * SECOND), expected, "at {seconds} s");
        }
        assert_eq!(remaining(due, START + 1000 * SECOND, rate.tolerance(), rate.interval()).0, 0);
        assert_eq!(take(due, START + 1000 * SECOND, rate.tolerance(), rate.interval()), Err(12 * SECOND));
        assert_eq!(rate.policy(), (3, 36));
    }

    #[test]
    fn no_rate_overflows() {
        assert_eq!(cost(1, u64::MAX), u64::MAX);
        assert_eq!(cost(0, 1), SECOND);
        assert_eq!(reserve(u64::MAX, 0, 0, u64::MAX), Grant { at: u64::MAX, due: u64::MAX });
        assert_eq!(slice(u64::MAX, 1), MAX_SLICE);
        assert_eq!(slice(1, u64::MAX), MIN_SLICE);
        assert_eq!(slice(8000, 0), slice(8000, 1));
    }
}
