//! Whether an endpoint may have requests: what its requests and its checks have shown. Pure: the time is handed in, and
//! a change of the state is returned.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use site::health::{Checks, Health};

use crate::pool::message::Availability;
use crate::terminal;

/// What the pool knows of the health of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointHealth {
    /// The last failures of requests, no more than take it out of service.
    recent: VecDeque<Instant>,
    /// It is out of service until then, because of them.
    paused_until: Option<Instant>,
    /// The last pause. `None`: the next one is the first.
    last_pause: Option<Duration>,
    checked: Checked,
    next_check: Instant,
    is_draining: bool,
    state: Availability,
    pub since: Instant,
    /// How many requests and checks have failed.
    pub failures: u64,
    /// Why the last one has failed.
    pub reason: String,
}

/// What the checks have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// It has not been checked. The first check decides alone.
    Never,
    /// Checks since have failed `failures` times in a row.
    Up { failures: u32 },
    /// Checks since have succeeded `successes` times in a row.
    Down { successes: u32 },
}

impl EndpointHealth {
    pub fn new(now: Instant) -> EndpointHealth {
        EndpointHealth {
            recent: VecDeque::new(),
            paused_until: None,
            last_pause: None,
            checked: Checked::Never,
            next_check: now,
            is_draining: false,
            state: Availability::Up,
            since: now,
            failures: 0,
            reason: String::new(),
        }
    }

    pub fn state(&self) -> Availability {
        self.state
    }

    /// When it is down: until when at least. The least bad of several is the earliest.
    pub fn down_until(&self) -> Option<Instant> {
        (self.state == Availability::Down).then(|| self.paused_until.unwrap_or(self.since).max(self.since))
    }

    /// A request has failed.
    pub fn on_failure(&mut self, settings: &Health, reason: &str, now: Instant) {
        self.count(reason);
        let Some(allowed) = settings.failures.checked_sub(1) else { return };
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        self.recent.retain(|at| *at + settings.window > now);
        if is_paused {
            // Requests that had begun before.
            return;
        }
        // An endpoint that has just been down is down again at its first failure.
        let is_on_probation = self.paused_until.is_some_and(|until| now < until + settings.window);
        if self.recent.len() < allowed as usize && !is_on_probation {
            return self.recent.push_back(now);
        }
        self.recent.clear();
        let last = self.last_pause.filter(|_| is_on_probation);
        let pause = last.map_or(settings.pause, |last| (last * 2).min(settings.longest_pause));
        (self.paused_until, self.last_pause) = (Some(now + pause), Some(pause));
    }

    /// A check has ended. Errors: why it has failed.
    pub fn on_checked(&mut self, checks: &Checks, found: Result<(), &str>, now: Instant) {
        self.next_check = now + checks.interval;
        self.checked = match (self.checked, found) {
            (Checked::Never, Ok(())) => Checked::Up { failures: 0 },
            (Checked::Never, Err(_)) => Checked::Down { successes: 0 },
            (Checked::Up { .. }, Ok(())) => Checked::Up { failures: 0 },
            (Checked::Up { failures }, Err(_)) if failures + 1 >= checks.fall => {
                Checked::Down { successes: 0 }
            }
            (Checked::Up { failures }, Err(_)) => Checked::Up { failures: failures + 1 },
            (Checked::Down { successes }, Ok(())) if successes + 1 >= checks.rise => {
                // The checks know better than the requests before them.
                self.paused_until = None;
                Checked::Up { failures: 0 }
            }
            (Checked::Down { successes }, Ok(())) => Checked::Down { successes: successes + 1 },
            (Checked::Down { .. }, Err(_)) => Checked::Down { successes: 0 },
        };
        if let Err(reason) = found {
            self.count(reason);
        }
    }

    pub fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Whether a check is due. Then the next one is due only after it.
    pub fn begin_check(&mut self, checks: &Checks, now: Instant) -> bool {
        let is_due = self.next_check <= now;
        if is_due {
            self.next_check = now + checks.interval + checks.timeout;
        }
        is_due
    }

    /// Whether the state has changed.
    pub fn update(&mut self, now: Instant) -> bool {
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        let state = match (self.is_draining, self.checked) {
            (true, _) => Availability::Draining,
            (false, Checked::Down { .. }) => Availability::Down,
            (false, _) if is_paused => Availability::Down,
            (false, _) => Availability::Up,
        };
        let has_changed = state != self.state;
        if has_changed {
            (self.state, self.since) = (state, now);
        }
        has_changed
    }

    /// When `update` or `begin_check` has something to do without an event.
    pub fn deadline(&self, checks: Option<&Checks>) -> Option<Instant> {
        let is_paused = self.state == Availability::Down && !matches!(self.checked, Checked::Down { .. });
        let pause = self.paused_until.filter(|_| is_paused);
        [pause, checks.map(|_| self.next_check)].into_iter().flatten().min()
    }

    fn count(&mut self, reason: &str) {
        self.failures += 1;
        self.reason = terminal::plain(reason).into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Availability::{Down, Draining, Up};

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Fail,
        Good,
        Bad,
        Drain(bool),
        Tick,
    }
    use Event::*;

    /// Each event with its time in milliseconds, and the state behind it.
    fn check(settings: &Health, steps: &[(u64, Event, Availability)]) {
        let began = Instant::now();
        let mut health = EndpointHealth::new(began);
        let checks = settings.checks.clone().unwrap_or_default();
        for (at, (ms, event, expected)) in steps.iter().enumerate() {
            let now = began + Duration::from_millis(*ms);
            match event {
                Fail => health.on_failure(settings, "reset", now),
                Good => health.on_checked(&checks, Ok(()), now),
                Bad => health.on_checked(&checks, Err("refused"), now),
                Drain(is_draining) => health.set_draining(*is_draining),
                Tick => {}
            }
            health.update(now);
            assert_eq!(health.state(), *expected, "step {at}: {event:?} at {ms} ms");
        }
    }

    #[test]
    fn failures_in_a_window_pause_an_endpoint_for_growing_times() {
        let one = Health::default();
        check(
            &one,
            &[
                (0, Fail, Down),
                // A request that had begun before.
                (900, Fail, Down),
                (999, Tick, Down),
                (1000, Tick, Up),
                (1500, Fail, Down),
                (3499, Tick, Down),
                (3500, Tick, Up),
                (4000, Fail, Down),
                (8000, Tick, Up),
                // It has served for a window.
                (18_001, Fail, Down),
                (19_001, Tick, Up),
            ],
        );
        let short = Health { longest_pause: Duration::from_millis(1500), ..Health::default() };
        check(&short, &[(0, Fail, Down), (1000, Fail, Down), (2499, Tick, Down), (2500, Tick, Up)]);
        let three = Health { failures: 3, ..Health::default() };
        check(
            &three,
            &[
                (0, Fail, Up),
                (1, Fail, Up),
                (10_001, Fail, Up),
                (10_002, Fail, Up),
                (10_003, Fail, Down),
                (11_003, Tick, Up),
                (11_004, Fail, Down),
            ],
        );
        let never = Health { failures: 0, ..Health::default() };
        check(&never, &[(0, Fail, Up), (0, Fail, Up)]);
    }

    #[test]
    fn checks_take_an_endpoint_out_of_service_and_back() {
        let settings = Health { checks: Some(Checks::default()), ..Health::default() };
        check(
            &settings,
            &[
                (0, Good, Up),
                (1, Bad, Up),
                (2, Bad, Up),
                (3, Good, Up),
                (4, Bad, Up),
                (5, Bad, Up),
                (6, Bad, Down),
                (7, Good, Down),
                (8, Bad, Down),
                (9, Good, Down),
                (10, Good, Up),
            ],
        );
        check(&settings, &[(0, Bad, Down), (1, Good, Down), (2, Good, Up)]);
        // A check that succeeds does not end the pause of an endpoint whose requests fail.
        check(&settings, &[(0, Good, Up), (1, Fail, Down), (2, Good, Down), (1001, Tick, Up)]);
    }

    #[test]
    fn the_last_reason_is_for_people() {
        let mut health = EndpointHealth::new(Instant::now());
        health.on_failure(&Health::default(), "Connection refused (os error 111)", Instant::now());
        assert_eq!((health.failures, &*health.reason), (1, "Connection refused"));
    }

    #[test]
    fn draining_overrides_the_rest() {
        check(
            &Health::default(),
            &[(0, Drain(true), Draining), (1, Fail, Draining), (2, Drain(false), Down), (1001, Tick, Up)],
        );
    }

    #[test]
    fn checks_are_due_after_the_interval_and_never_two_at_a_time() {
        let checks = Checks::default();
        let began = Instant::now();
        let mut health = EndpointHealth::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        assert!(health.begin_check(&checks, began));
        assert!(!health.begin_check(&checks, at(5)));
        health.on_checked(&checks, Ok(()), at(1));
        assert_eq!(health.deadline(Some(&checks)), Some(at(6)));
        assert_eq!(health.deadline(None), None);
        assert!(health.begin_check(&checks, at(6)));
        health.on_failure(&Health::default(), "reset", at(2));
        health.update(at(2));
        assert_eq!(health.deadline(None), Some(at(3)), "when it is up again");
        assert_eq!(health.down_until(), Some(at(3)));
    }
}
