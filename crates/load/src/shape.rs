//! The shape of a client that is not fast and patient: how slowly it reads and writes, and when it closes. Plain
//! data and arithmetic; the engine applies it.

use std::time::{Duration, Instant};

/// 33.6 kbit/s, the modem of the old measurements.
pub const MODEM: u64 = 33_600 / 8;

/// How often a slow reader or writer is served, unless a single byte takes longer.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// How every connection differs from a fast and polite one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes per second that are read.
    pub read: Option<u64>,
    /// Bytes per second at which heads of requests are written.
    pub write_head: Option<u64>,
    /// Bytes per second at which bodies of requests are written.
    pub write_body: Option<u64>,
    pub closing: Closing,
}

/// How a client ends a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Closing {
    /// After the response.
    #[default]
    Polite,
    /// The client shuts down its sending half after the request, and reads the response.
    HalfClose,
    /// The client resets the connection after this many bytes of a body.
    AbortAfter(u64),
}

/// Limits bytes to a rate.
#[derive(Debug, Clone, Copy)]
pub struct RateLimiter {
    per_second: u64,
    since: Instant,
    taken: u64,
}

impl Shape {
    /// Whether the client is fast and polite.
    pub const fn is_plain(self) -> bool {
        self.read.is_none()
            && self.write_head.is_none()
            && self.write_body.is_none()
            && matches!(self.closing, Closing::Polite)
    }
}

impl RateLimiter {
    /// Nothing may be read or written before `now`.
    pub const fn new(per_second: u64, now: Instant) -> RateLimiter {
        RateLimiter { per_second, since: now, taken: 0 }
    }

    /// Bytes that may be read or written now. A pause longer than a second is not made up for: a client does
    /// not read faster because the server was slow.
    pub fn due(&mut self, now: Instant) -> usize {
        let due = self.owed(now);
        if due > self.per_second {
            self.since = now - Duration::from_secs(1);
            self.taken = 0;
        }
        due.min(self.per_second) as usize
    }

    /// Bytes that were read or written.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes as u64;
    }

    /// When to try again.
    pub fn next(&self, now: Instant) -> Instant {
        let one_byte = Duration::from_nanos(1_000_000_000 / self.per_second.max(1) + 1);
        now + one_byte.max(INTERVAL)
    }

    fn owed(&self, now: Instant) -> u64 {
        let nanoseconds = now.saturating_duration_since(self.since).as_nanos();
        let earned = nanoseconds * u128::from(self.per_second) / 1_000_000_000;
        u64::try_from(earned).unwrap_or(u64::MAX).saturating_sub(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_a_rate_and_does_not_make_up_for_pauses() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut limiter = RateLimiter::new(1000, start);
        assert_eq!(limiter.due(at(0)), 0);
        assert_eq!(limiter.due(at(100)), 100);
        limiter.take(60);
        assert_eq!(limiter.due(at(100)), 40);
        limiter.take(40);
        assert_eq!(limiter.due(at(600)), 500);
        assert_eq!(limiter.due(at(60_000)), 1000);
        limiter.take(1000);
        assert_eq!(limiter.due(at(60_000)), 0);
        assert_eq!(limiter.next(at(0)), at(100));
        assert!(RateLimiter::new(1, start).next(start) > at(999));
    }
}
