//! A circuit breaker: whether an application has requests, by how many of the last ones have failed. Pure: the time is
//! handed in, and a change of the state is returned.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use site::health::Breaker;

use crate::stats::BreakerState;

/// Parts of the window, each with one count: the memory does not grow with the requests.
const PARTS: u32 = 10;

pub struct CircuitBreaker {
    settings: Breaker,
    state: State,
    /// The last pause since it was closed.
    last_pause: Option<Duration>,
    /// How often the state has changed. A request counts only in the era in which it began.
    era: u64,
}

enum State {
    /// Counts by the time at which each part began, the earliest first. At most `PARTS` and one more.
    Closed(VecDeque<Part>),
    Open {
        until: Instant,
    },
    HalfOpen {
        running: u32,
        succeeded: u32,
    },
}

struct Part {
    began: Instant,
    requests: u32,
    failures: u32,
}

/// A request that the breaker has let through. Its result is to be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    era: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure,
    /// The request has ended without telling anything of the application.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// `failures` of `requests` have failed in the window, or a request after a pause has.
    Opened {
        failures: u32,
        requests: u32,
        pause: Duration,
    },
    Closed,
}

impl CircuitBreaker {
    pub fn new(settings: Breaker) -> CircuitBreaker {
        CircuitBreaker { settings, state: State::Closed(VecDeque::new()), last_pause: None, era: 0 }
    }

    pub fn state(&self, now: Instant) -> BreakerState {
        match self.state {
            State::Closed(_) => BreakerState::Closed,
            State::Open { until } if now < until => BreakerState::Open,
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Errors: how long the breaker is open at least.
    pub fn admit(&mut self, now: Instant) -> Result<Admitted, Duration> {
        if let State::Open { until } = self.state {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                return Err(left);
            }
            self.enter(State::HalfOpen { running: 0, succeeded: 0 });
        }
        if let State::HalfOpen { running, .. } = &mut self.state {
            if *running >= self.settings.probes {
                return Err(Duration::ZERO);
            }
            *running += 1;
        }
        Ok(Admitted { era: self.era })
    }

    /// A request that was let through has ended.
    pub fn on_end(&mut self, admitted: Admitted, verdict: Verdict, now: Instant) -> Option<Change> {
        if admitted.era != self.era {
            return None;
        }
        match &mut self.state {
            State::Closed(parts) => {
                let (requests, failures) = count(parts, verdict, self.settings.window, now);
                let Breaker { requests: least, failure_rate, .. } = self.settings;
                let is_over = u64::from(failures) * 100 >= u64::from(failure_rate) * u64::from(requests);
                (verdict == Verdict::Failure && requests >= least && is_over)
                    .then(|| self.open(failures, requests, now))
            }
            State::Open { .. } => None,
            State::HalfOpen { running, succeeded } => {
                *running = running.saturating_sub(1);
                match verdict {
                    Verdict::Unknown => None,
                    Verdict::Failure => Some(self.open(1, 1, now)),
                    Verdict::Success => {
                        *succeeded += 1;
                        let is_enough = *succeeded >= self.settings.probes;
                        is_enough.then(|| self.close())
                    }
                }
            }
        }
    }

    fn open(&mut self, failures: u32, requests: u32, now: Instant) -> Change {
        let Breaker { pause, longest_pause, .. } = self.settings;
        let pause = self.last_pause.map_or(pause, |last| last.saturating_mul(2).min(longest_pause));
        self.last_pause = Some(pause);
        self.enter(State::Open { until: now + pause });
        Change::Opened { failures, requests, pause }
    }

    fn close(&mut self) -> Change {
        self.last_pause = None;
        self.enter(State::Closed(VecDeque::new()));
        Change::Closed
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.era += 1;
    }
}

/// The requests and the failures of the window, with this one.
fn count(parts: &mut VecDeque<Part>, verdict: Verdict, window: Duration, now: Instant) -> (u32, u32) {
    parts.retain(|part| part.began + window > now);
    if parts.back().is_none_or(|part| part.began + window / PARTS <= now) {
        parts.push_back(Part { began: now, requests: 0, failures: 0 });
    }
    if let Some(part) = parts.back_mut() {
        part.requests = part.requests.saturating_add(u32::from(verdict != Verdict::Unknown));
        part.failures = part.failures.saturating_add(u32::from(verdict == Verdict::Failure));
    }
    parts.iter().fold((0_u32, 0_u32), |(requests, failures), part| {
        (requests.saturating_add(part.requests), failures.saturating_add(part.failures))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use BreakerState::{Closed, HalfOpen, Open};

    enum Event {
        /// A request that ends at once: it is let through with this result.
        Ends(Verdict),
        /// So many of them.
        Many(u32, Verdict),
        /// It is rejected, for so many milliseconds.
        Rejected(u64),
        /// It is let through, and goes on.
        Begins,
        /// The request that has gone on for the longest time ends.
        Finishes(Verdict),
        Nothing,
    }
    use Event::*;
    use Verdict::{Failure, Success, Unknown};

    fn check(settings: &Breaker, steps: &[(u64, Event, BreakerState)]) {
        let (began, mut breaker) = (Instant::now(), CircuitBreaker::new(settings.clone()));
        let mut running = VecDeque::new();
        for (at, (ms, event, expected)) in steps.iter().enumerate() {
            let now = began + Duration::from_millis(*ms);
            let end = |breaker: &mut CircuitBreaker, verdict| {
                let admitted = breaker.admit(now).unwrap_or_else(|_| panic!("step {at}: rejected"));
                breaker.on_end(admitted, verdict, now);
            };
            match event {
                Ends(verdict) => end(&mut breaker, *verdict),
                Many(count, verdict) => (0..*count).for_each(|_| end(&mut breaker, *verdict)),
                Rejected(left) => {
                    assert_eq!(breaker.admit(now), Err(Duration::from_millis(*left)), "step {at}")
                }
                Begins => running.push_back(breaker.admit(now).expect("let through")),
                Finishes(verdict) => {
                    breaker.on_end(running.pop_front().expect("one runs"), *verdict, now);
                }
                Nothing => {}
            }
            assert_eq!(breaker.state(now), *expected, "step {at} at {ms} ms");
        }
    }

    fn settings() -> Breaker {
        Breaker { requests: 4, ..Breaker::default() }
    }

    #[test]
    fn opens_at_the_rate_with_enough_requests_of_the_window() {
        check(
            &settings(),
            &[(0, Many(3, Failure), Closed), (1, Ends(Failure), Open), (2, Rejected(4999), Open)],
        );
        check(
            &settings(),
            &[(0, Many(4, Success), Closed), (1, Many(3, Failure), Closed), (2, Ends(Failure), Open)],
        );
        // A success never opens it, and what tells nothing does not count.
        check(
            &settings(),
            &[(0, Many(3, Failure), Closed), (1, Ends(Success), Closed), (2, Ends(Failure), Open)],
        );
        check(&settings(), &[(0, Many(3, Failure), Closed), (1, Many(9, Unknown), Closed)]);
        // The window moves.
        check(
            &settings(),
            &[
                (0, Many(3, Failure), Closed),
                (10_000, Ends(Failure), Closed),
                (15_000, Many(2, Failure), Closed),
                (19_999, Ends(Failure), Open),
            ],
        );
        let all = Breaker { failure_rate: 100, ..settings() };
        check(
            &all,
            &[(0, Ends(Success), Closed), (1, Many(99, Failure), Closed), (10_001, Many(4, Failure), Open)],
        );
    }

    #[test]
    fn lets_a_bounded_number_through_after_growing_pauses() {
        let settings = Breaker { probes: 2, longest_pause: Duration::from_secs(8), ..settings() };
        check(
            &settings,
            &[
                (0, Many(4, Failure), Open),
                (4999, Rejected(1), Open),
                (5000, Nothing, HalfOpen),
                (5000, Begins, HalfOpen),
                (5001, Begins, HalfOpen),
                (5002, Rejected(0), HalfOpen),
                (5003, Finishes(Success), HalfOpen),
                (5004, Ends(Unknown), HalfOpen),
                (5005, Finishes(Failure), Open),
                // 8 s, not 10.
                (13_004, Rejected(1), Open),
                (13_005, Ends(Success), HalfOpen),
                (13_006, Ends(Failure), Open),
                (21_006, Many(2, Success), Closed),
                (21_007, Many(4, Failure), Open),
                // The pauses begin anew.
                (26_006, Rejected(1), Open),
                (26_007, Begins, HalfOpen),
            ],
        );
    }

    #[test]
    fn requests_from_before_do_not_count() {
        check(
            &settings(),
            &[
                (0, Begins, Closed),
                (0, Begins, Closed),
                (1, Many(4, Failure), Open),
                (2, Finishes(Success), Open),
                (5001, Begins, HalfOpen),
                (5002, Finishes(Success), HalfOpen),
                (5003, Rejected(0), HalfOpen),
                (5004, Finishes(Success), Closed),
            ],
        );
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut breaker = CircuitBreaker::new(settings());
        let began = Instant::now();
        for ms in 0..30_000 {
            let now = began + Duration::from_millis(ms);
            let admitted = breaker.admit(now).expect("closed");
            breaker.on_end(admitted, Success, now);
        }
        let State::Closed(parts) = &breaker.state else { panic!("closed") };
        assert!(parts.len() <= PARTS as usize + 1, "{}", parts.len());
    }
}
