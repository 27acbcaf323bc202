//! Warnings: reasons to doubt the figures of a run.

use crate::run::{Fault, Pace, Run};

use super::units;

/// From this share of one core on, in per cent, the generator's busiest thread counts as the limit.
const BUSY: f64 = 90.0;
/// Below this share of the wanted rate, in per cent, the rate was not reached.
const REACHED: f64 = 95.0;

/// One sentence for each warning, the gravest first.
pub fn warnings(run: &Run) -> Vec<String> {
    let measured = &run.measured;
    let mut out = Vec::new();
    if measured.finished() == 0 {
        out.push("No request came to an end: there is nothing to judge the server by.".to_owned());
    }
    let ports = measured.faults.of(Fault::NoPorts);
    if ports > 0 {
        out.push(format!(
            "The client was the limit: {} requests found no local port left. Keep connections alive, add \
             source addresses, or widen net.ipv4.ip_local_port_range. These failures are not the server's.",
            units::count(ports)
        ));
    }
    let descriptors = measured.faults.of(Fault::NoDescriptors);
    if descriptors > 0 {
        out.push(format!(
            "The client was the limit: {} requests found no descriptor left. Raise ulimit -n, or use fewer \
             connections. These failures are not the server's.",
            units::count(descriptors)
        ));
    }
    let busy = units::share(measured.busiest_micros as f64, measured.micros as f64);
    if busy >= BUSY {
        out.push(format!(
            "The client was the limit: its busiest thread used {busy:.0} % of a core. The server may be \
             faster than this. Add threads, or generators on other machines."
        ));
    }
    if let Pace::Even(intended) | Pace::Poisson(intended) = run.settings.pace {
        let reached = measured.per_second(measured.finished());
        if measured.finished() > 0 && units::share(reached, intended) < REACHED {
            out.push(format!(
                "The rate that was asked for was not reached: {} of {} per second came to an end.",
                units::rate(reached),
                units::rate(intended)
            ));
        }
    }
    if measured.finished() > 0 && measured.micros < 1_000_000 {
        out.push(
            "The run was shorter than a second: mostly beginnings. Let it run for longer before believing it."
                .to_owned(),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Measured, Settings};

    fn check(change: impl Fn(&mut Run), expected: &[&str]) {
        let measured = Measured { done: 1000, micros: 10_000_000, ..Measured::default() };
        let mut run = Run { measured, settings: Settings::default(), ..Run::default() };
        change(&mut run);
        let found = warnings(&run);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?} lacks {expected:?}");
        }
    }

    #[test]
    fn warns_when_the_client_was_the_limit() {
        check(|_| (), &[]);
        check(|run| run.measured.busiest_micros = 8_900_000, &[]);
        check(|run| run.measured.busiest_micros = 9_900_000, &["used 99 % of a core"]);
        check(|run| run.measured.faults.add(Fault::NoPorts, 1200), &["1,200 requests found no local port"]);
        check(|run| run.measured.faults.add(Fault::NoDescriptors, 3), &["3 requests found no descriptor"]);
        check(|run| run.measured.faults.add(Fault::Refused, 3), &[]);
    }

    #[test]
    fn warns_when_the_rate_was_not_reached() {
        check(|run| run.settings.pace = Pace::Even(100.0), &[]);
        check(|run| run.settings.pace = Pace::Poisson(101.0), &[]);
        check(|run| run.settings.pace = Pace::Even(200.0), &["100.0 of 200.0 per second"]);
    }

    #[test]
    fn warns_about_runs_that_are_too_short_or_empty() {
        check(|run| run.measured.done = 0, &["No request came to an end"]);
        check(|run| run.measured.micros = 257_000, &["shorter than a second"]);
    }
}
