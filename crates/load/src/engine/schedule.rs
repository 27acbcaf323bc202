//! When the clock starts the requests of one thread, for an open loop and for replays. Pure: the caller passes
//! the time.

use std::time::{Duration, Instant};

use super::pick::Random;
use crate::plan::{Arrivals, Pace, Plan};

/// When one thread's requests are meant to start.
#[derive(Debug)]
pub enum Schedule {
    /// Whenever a connection is free.
    WhenFree,
    Rate(Rate),
    Log {
        start: Instant,
        at: usize,
        step: usize,
    },
}

/// A rate per second, after a ramp.
#[derive(Debug)]
pub struct Rate {
    next: Instant,
    start: Instant,
    ramp: Duration,
    per_second: f64,
    arrivals: Arrivals,
}

/// A due request: its intended start, and which one if the schedule decides that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pub intended: Instant,
    pub request: Option<u32>,
}

impl Schedule {
    /// For thread `index` of `plan.threads`. The shares are shifted so that all threads together are even.
    pub fn new(plan: &Plan, index: usize, start: Instant, random: &mut Random) -> Schedule {
        match &plan.pace {
            Pace::Closed => Schedule::WhenFree,
            Pace::Replay(_) => Schedule::Log { start, at: index, step: plan.threads },
            Pace::Open { per_second, arrivals } => {
                let shift = Duration::from_secs_f64(index as f64 / per_second);
                let mut rate = Rate {
                    next: start,
                    start,
                    ramp: plan.ramp,
                    per_second: per_second / plan.threads as f64,
                    arrivals: *arrivals,
                };
                match arrivals {
                    Arrivals::Even => rate.next = start + shift,
                    Arrivals::Poisson => rate.advance(random),
                }
                Schedule::Rate(rate)
            }
        }
    }

    /// The next request that is due by now. Call until it returns `None`.
    pub fn due(&mut self, plan: &Plan, now: Instant, random: &mut Random) -> Option<Due> {
        match self {
            Schedule::WhenFree => None,
            Schedule::Rate(rate) => {
                let intended = rate.next;
                (intended <= now).then(|| {
                    rate.advance(random);
                    Due { intended, request: None }
                })
            }
            Schedule::Log { start, at, step } => {
                let Pace::Replay(steps) = &plan.pace else { return None };
                let &(after, request) = steps.get(*at)?;
                let intended = *start + after;
                (intended <= now).then(|| {
                    *at += *step;
                    Due { intended, request: Some(request) }
                })
            }
        }
    }

    /// When the next request is due. `None`: never again, or whenever a connection is free.
    pub fn next(&self, plan: &Plan) -> Option<Instant> {
        match (self, &plan.pace) {
            (Schedule::Rate(rate), _) => Some(rate.next),
            (Schedule::Log { start, at, .. }, Pace::Replay(steps)) => {
                steps.get(*at).map(|(after, _)| *start + *after)
            }
            _ => None,
        }
    }
}

impl Rate {
    fn advance(&mut self, random: &mut Random) {
        let since = self.next.saturating_duration_since(self.start);
        // The ramp begins at a hundredth of the rate, or the first request would never come.
        let part = match self.ramp.is_zero() {
            true => 1.0,
            false => (since.as_secs_f64() / self.ramp.as_secs_f64()).clamp(0.01, 1.0),
        };
        let mean = 1.0 / (self.per_second * part);
        let distance = match self.arrivals {
            Arrivals::Even => mean,
            Arrivals::Poisson => -random.part().ln() * mean,
        };
        self.next += Duration::from_secs_f64(distance.min(3600.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::build::build;
    use crate::plan::options::Options;
    use crate::urls::System;

    fn plan(change: impl FnOnce(&mut Options)) -> Plan {
        let mut options = Options { urls: vec!["http://127.0.0.1:1/".to_owned()], ..Options::default() };
        (options.rate, options.arrivals) = (Some(100.0), Arrivals::Even);
        change(&mut options);
        build(&options, &System).unwrap().plan
    }

    /// Milliseconds at which requests of all threads are due within `window`.
    fn due(plan: &Plan, window: Duration) -> Vec<u128> {
        let (start, mut out) = (Instant::now(), Vec::new());
        for thread in 0..plan.threads {
            let mut random = Random::new(7 + thread as u64);
            let mut schedule = Schedule::new(plan, thread, start, &mut random);
            while let Some(due) = schedule.due(plan, start + window, &mut random) {
                out.push((due.intended - start).as_millis());
            }
        }
        out.sort_unstable();
        out
    }

    #[test]
    fn threads_share_an_even_rate() {
        for threads in [1, 2, 5] {
            let plan = plan(|options| options.threads = Some(threads));
            let found = due(&plan, Duration::from_millis(99));
            assert_eq!(found, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90], "{threads} threads");
        }
    }

    #[test]
    fn random_arrivals_keep_the_rate_without_a_pattern() {
        let plan = plan(|options| options.arrivals = Arrivals::Poisson);
        let found = due(&plan, Duration::from_secs(100));
        assert!((9_500..10_500).contains(&found.len()), "{}", found.len());
        let together = found.windows(2).filter(|two| two[1] - two[0] <= 1).count();
        assert!(together > 1000, "{together} of them hardly a millisecond apart");
    }

    #[test]
    fn a_ramp_raises_the_rate_to_its_full_value() {
        let plan = plan(|options| (options.ramp, options.threads) = (Duration::from_secs(10), Some(1)));
        let found = due(&plan, Duration::from_secs(20));
        let within = |from: u128, to: u128| found.iter().filter(|&&at| (from..to).contains(&at)).count();
        assert!(within(0, 5_000) < 200, "{}", within(0, 5_000));
        assert!((950..=1050).contains(&within(10_000, 20_000)), "{}", within(10_000, 20_000));
    }
}
