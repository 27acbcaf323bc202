//! The clock of one worker: the wall clock to the second, its text for `Date`, and a coarse count of ticks for
//! deadlines. Reading it costs no system call.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often deadlines are checked.
pub const TICK: Duration = Duration::from_millis(250);

thread_local! {
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Ticks since the worker started; wraps after 34 years.
pub type Ticks = u32;

pub struct Clock {
    now: Cell<i64>,
    date: Cell<[u8; taipan_http::date::LEN]>,
    ticks: Cell<Ticks>,
}

impl Clock {
    pub fn start() -> Clock {
        let now = wall();
        Clock { now: Cell::new(now), date: Cell::new(taipan_http::date::format(now)), ticks: Cell::new(0) }
    }

    /// Reads the clock and returns the seconds since 1970. A new second also updates the text of `Date`.
    #[inline]
    pub fn read(&self) -> i64 {
        let now = wall();
        if now != self.now.get() {
            self.now.set(now);
            self.date.set(taipan_http::date::format(now));
        }
        now
    }

    /// The second that was read last.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now.get()
    }

    /// The value of `Date` for the second that was read last.
    #[inline]
    pub fn date(&self) -> [u8; taipan_http::date::LEN] {
        self.date.get()
    }

    /// That of a received response, if it is one; else as `date` (RFC 9110 §6.6.1).
    pub fn date_of(&self, received: Option<&[u8]>) -> [u8; taipan_http::date::LEN] {
        let received = received.filter(|value| **value != self.date());
        let made = received.and_then(|value| taipan_http::date::parse(value, self.now()));
        made.map_or(self.date(), taipan_http::date::format)
    }

    #[inline]
    pub fn ticks(&self) -> Ticks {
        self.ticks.get()
    }

    /// Counts a tick, and reads the clock: a response after a wait has the present second.
    pub fn tick(&self) {
        self.read();
        self.ticks.set(self.ticks.get().wrapping_add(1));
    }
}

/// A duration in ticks, rounded up so that no deadline expires early.
pub fn in_ticks(duration: Duration) -> Ticks {
    duration.as_millis().div_ceil(TICK.as_millis()).try_into().unwrap_or(Ticks::MAX)
}

/// A duration in seconds, rounded up.
pub fn in_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add((duration.subsec_nanos() > 0).into())
}

/// Turns of this thread's loop: how often it has received events.
#[inline]
pub fn turns() -> u64 {
    TURNS.get()
}

/// Counts a turn: the loop of this thread has received events.
pub fn count_turn() {
    TURNS.set(TURNS.get().wrapping_add(1));
}

/// Microseconds of the monotonic clock.
#[inline]
pub fn micros() -> u64 {
    micros_of(ClockId::Monotonic)
}

/// As `micros`, some milliseconds ago: for what lasts for seconds. It costs a fraction.
#[inline]
pub fn coarse_micros() -> u64 {
    micros_of(ClockId::MonotonicCoarse)
}

/// Microseconds since 1970, as in the times of files.
pub fn wall_micros() -> u64 {
    micros_of(ClockId::Realtime)
}

#[inline]
fn micros_of(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// Nanoseconds of the monotonic clock.
pub fn nanos() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Seconds since 1970, some milliseconds late, as `coarse_micros`.
#[inline]
pub fn wall() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}
