//! When a certificate is ordered, from which authority and by which challenge. Pure: the time is an argument, and the
//! process `acme::process` reports the events and carries out the steps.

use std::time::Duration;

/// Seconds since 1970.
pub type Time = u64;

/// An authority that names no time is asked for its window this often (RFC 9773 §4.3.2).
const ASK_EVERY: Duration = Duration::from_secs(6 * 3600);
/// The bounds of the time that an authority names.
const ASK_AT_LEAST: Time = 60;
const ASK_AT_MOST: Time = 24 * 3600;
/// An authority is obeyed if it accepts nothing for this long, and no longer.
const MAX_RATE_LIMIT: Time = 8 * 24 * 3600;
/// Of the lifetime: the part that is left at a renewal without a window.
const LEFT: u64 = 3;
/// Of the lifetime: a window must begin before this part is left.
const LEFT_AT_LEAST: u64 = 10;
/// Of the lifetime: renewals are spread over this part, so that replicas and hosts do not begin at once.
const SPREAD: u64 = 30;
/// Clocks are corrected by so many seconds while they run. A larger step back is one of the clock itself.
const CORRECTION: Time = 60;

/// `share` is a random number: a point in every interval of which any point is good.
#[derive(Debug, Clone)]
pub struct Schedule {
    rules: Rules,
    share: u16,
    certificate: Option<Validity>,
    window: Option<Window>,
    ask_at: Time,
    /// Nothing is ordered before: a pause after failures, or another replica orders.
    not_before: Time,
    attempt: Attempt,
    /// Until when each authority accepts nothing.
    limited: Vec<Time>,
    /// Rounds of attempts that have failed since the last success.
    rounds: u32,
    renewed: Option<Renewed>,
    /// The first look has found a certificate, or none.
    has_looked: bool,
    /// The time of the last event or step.
    seen: Time,
}

/// A certificate that has replaced another one, or none, while this process ran.
#[derive(Debug, Clone, Copy)]
struct Renewed {
    at: Time,
    /// Renewals one after another that were early: the one before was not used for a third of its lifetime.
    early: u32,
    /// It is not renewed before. A wrong clock, or an authority that asks for a renewal at once, would otherwise lead
    /// to one order after another.
    not_before: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How many there are to try.
    pub authorities: usize,
    pub challenges: usize,
    /// The first pause, which doubles with each further round of attempts.
    pub retry: Duration,
    pub max_retry: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Time,
    pub not_after: Time,
}

/// In which an authority suggests to renew a certificate (RFC 9773 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start: Time,
    pub end: Time,
}

/// Numbers of an authority and a challenge, in the order of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempt {
    pub authority: usize,
    pub challenge: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The certificate that is stored. `None`: there is none for these names.
    Found(Option<Validity>),
    /// The authority suggests a renewal in this window, and is asked again after this time.
    Window(Window, Duration),
    /// The authority names no window.
    NoWindow,
    /// Another replica orders, at most until this time.
    Busy(Time),
    Failed(Failure),
}

/// What an attempt failed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The authority could not be reached, or rejected the order.
    Authority,
    /// The authority accepts no more before this time.
    RateLimited(Time),
    /// The authority rejected nonce after nonce.
    Nonce,
    /// The challenge failed.
    Challenge,
    /// This machine cannot make or store a certificate.
    Here,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    WaitUntil(Time),
    AskForWindow,
    Order(Attempt),
}

impl Schedule {
    pub fn new(rules: Rules, share: u16) -> Schedule {
        Schedule {
            rules,
            share,
            certificate: None,
            window: None,
            ask_at: 0,
            not_before: 0,
            attempt: Attempt::default(),
            limited: vec![0; rules.authorities],
            rounds: 0,
            renewed: None,
            has_looked: false,
            seen: 0,
        }
    }

    pub fn step(&mut self, now: Time) -> Step {
        self.notice_clock(now);
        let due = self.due();
        if due <= now {
            return Step::Order(self.attempt);
        }
        match self.certificate {
            Some(_) if self.ask_at <= now => Step::AskForWindow,
            Some(_) => Step::WaitUntil(due.min(self.ask_at)),
            None => Step::WaitUntil(due),
        }
    }

    /// When the next order begins, as far as is known.
    pub fn due(&self) -> Time {
        let renewal = self.certificate.map_or(0, |certificate| self.renewal(certificate));
        let renewed = self.renewed.map_or(0, |renewed| renewed.not_before);
        renewal.max(renewed).max(self.not_before)
    }

    fn renewal(&self, certificate: Validity) -> Time {
        let lifetime = certificate.not_after.saturating_sub(certificate.not_before);
        let latest = certificate.not_after.saturating_sub(lifetime / LEFT_AT_LEAST);
        match self.window {
            Some(Window { start, end }) => (start + self.part_of(end.saturating_sub(start))).min(latest),
            None => certificate.not_after.saturating_sub(lifetime / LEFT) + self.part_of(lifetime / SPREAD),
        }
    }

    fn part_of(&self, length: Time) -> Time {
        (u128::from(length) * u128::from(self.share) / u128::from(u16::MAX)) as Time
    }

    pub fn on(&mut self, event: Event, now: Time) {
        self.notice_clock(now);
        match event {
            Event::Found(found) => self.on_found(found, now),
            Event::Window(window, again) => {
                self.window = Some(window);
                self.ask_at = now + again.as_secs().clamp(ASK_AT_LEAST, ASK_AT_MOST);
            }
            Event::NoWindow => {
                self.window = None;
                self.ask_at = now + ASK_EVERY.as_secs();
            }
            Event::Busy(until) => self.not_before = until.max(now + 1),
            Event::Failed(failure) => self.on_failure(failure, now),
        }
    }

    fn on_found(&mut self, found: Option<Validity>, now: Time) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        if found == self.certificate {
            return;
        }
        // A certificate that was removed does not end a pause.
        let not_before = if found.is_some() { 0 } else { self.not_before };
        let renewed = found.filter(|_| !is_first).map(|certificate| self.renewed_at(now, certificate));
        let Schedule { rules, share, seen, .. } = *self;
        let fresh = Schedule::new(rules, share);
        *self = Schedule { certificate: found, not_before, renewed, has_looked: true, seen, ..fresh };
    }

    fn renewed_at(&self, now: Time, certificate: Validity) -> Renewed {
        let third = certificate.not_after.saturating_sub(certificate.not_before) / LEFT;
        let is_early = |before: &Renewed| now < before.at.saturating_add(third);
        let early = self.renewed.filter(is_early).map_or(0, |before| before.early.saturating_add(1));
        Renewed { at: now, early, not_before: now + self.pause(early) }
    }

    /// A clock that was set back must not lengthen a pause.
    fn notice_clock(&mut self, now: Time) {
        let back = self.seen.saturating_sub(now);
        self.seen = now;
        if back > CORRECTION {
            let earlier = |time: &mut Time| *time = time.saturating_sub(back);
            let Schedule { not_before, ask_at, limited, .. } = self;
            [not_before, ask_at].into_iter().chain(limited).for_each(earlier);
            let renewed = self.renewed.iter_mut();
            renewed.flat_map(|renewed| [&mut renewed.at, &mut renewed.not_before]).for_each(earlier);
        }
    }

    fn on_failure(&mut self, failure: Failure, now: Time) {
        let Rules { challenges, .. } = self.rules;
        let Attempt { authority, challenge } = self.attempt;
        if let (Failure::RateLimited(until), Some(limited)) = (failure, self.limited.get_mut(authority)) {
            *limited = until.min(now + MAX_RATE_LIMIT);
        }
        let next = match failure {
            Failure::Challenge if challenge + 1 < challenges => {
                Some(Attempt { authority, challenge: challenge + 1 })
            }
            Failure::Challenge | Failure::Authority | Failure::RateLimited(_) | Failure::Nonce => {
                let next = self.accepting(authority + 1, now);
                next.map(|authority| Attempt { authority, challenge: 0 })
            }
            Failure::Here => None,
        };
        if let Some(next) = next {
            self.attempt = next;
            return;
        }
        self.not_before = now + self.pause(self.rounds);
        self.rounds = self.rounds.saturating_add(1);
        let first = self.accepting(0, self.not_before).unwrap_or_else(|| {
            // None accepts anything then: the first one that will.
            let (first, until) = self.limited.iter().enumerate().min_by_key(|(_, until)| **until).unzip();
            self.not_before = until.copied().unwrap_or(self.not_before);
            first.unwrap_or(0)
        });
        self.attempt = Attempt { authority: first, challenge: 0 };
    }

    /// The first authority from this one on that accepts orders at that time.
    fn accepting(&self, from: usize, at: Time) -> Option<usize> {
        (from..self.limited.len()).find(|number| self.limited[*number] <= at)
    }

    /// Between three and five quarters of the pause after so many other rounds.
    fn pause(&self, rounds: u32) -> Time {
        let doubled = self.rules.retry.saturating_mul(1 << rounds.min(30));
        let seconds = doubled.min(self.rules.max_retry).as_secs();
        (seconds - seconds / 4 + self.part_of(seconds / 2)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Time = 24 * 3600;
    const RULES: Rules = Rules {
        authorities: 2,
        challenges: 2,
        retry: Duration::from_secs(100),
        max_retry: Duration::from_secs(1000),
    };
    /// In the middle of every interval.
    const MIDDLE: u16 = u16::MAX / 2 + 1;

    fn order(authority: usize, challenge: usize) -> Step {
        Step::Order(Attempt { authority, challenge })
    }

    fn days(not_before: Time, not_after: Time) -> Event {
        Event::Found(Some(Validity { not_before: not_before * DAY, not_after: not_after * DAY }))
    }

    /// Reports each event at its time, and compares the step behind it.
    fn check(share: u16, rows: &[(Time, Event, Step)]) {
        let mut schedule = Schedule::new(RULES, share);
        for (row, (now, event, expected)) in rows.iter().enumerate() {
            schedule.on(*event, *now);
            assert_eq!(schedule.step(*now), *expected, "row {row}: {event:?} at {now}");
        }
    }

    #[test]
    fn orders_at_once_what_does_not_exist() {
        check(0, &[(5, Event::Found(None), order(0, 0))]);
    }

    #[test]
    fn renews_when_a_third_of_the_lifetime_is_left() {
        let no_window = |now: Time| (now, Event::NoWindow, Step::WaitUntil((now + 6 * 3600).min(60 * DAY)));
        check(0, &[(0, days(0, 90), Step::AskForWindow), no_window(0), no_window(59 * DAY)]);
        check(0, &[(60 * DAY, days(0, 90), order(0, 0))]);
        check(0, &[(60 * DAY - 1, days(0, 90), Step::AskForWindow)]);
        check(0, &[(99 * DAY, days(0, 90), order(0, 0))]);
        // Others renew up to three days later.
        check(u16::MAX, &[(63 * DAY - 1, days(0, 90), Step::AskForWindow)]);
        check(u16::MAX, &[(63 * DAY, days(0, 90), order(0, 0))]);
    }

    #[test]
    fn renews_in_the_window_of_the_authority() {
        let window = |start, end| Event::Window(Window { start, end }, Duration::from_secs(3600));
        let found = (0, days(0, 90), Step::AskForWindow);
        check(MIDDLE, &[found, (1, window(1000, 3000), Step::WaitUntil(2000))]);
        check(
            0,
            &[
                found,
                (1, window(9000, 9500), Step::WaitUntil(3601)),
                (3601, window(9000, 9500), Step::WaitUntil(7201)),
            ],
        );
        // A certificate that is revoked has a window in the past.
        check(MIDDLE, &[found, (7, window(0, 6), order(0, 0))]);
        // A window behind the end, or one that is no window, does not delay the renewal for ever.
        check(MIDDLE, &[found, (80 * DAY, window(200 * DAY, 300 * DAY), Step::WaitUntil(80 * DAY + 3600))]);
        check(MIDDLE, &[found, (81 * DAY, window(200 * DAY, 300 * DAY), order(0, 0))]);
        check(MIDDLE, &[found, (1, window(3000, 1000), Step::WaitUntil(3000))]);
        // The authority is asked neither every second nor never.
        let at =
            |seconds| Event::Window(Window { start: 80 * DAY, end: 80 * DAY }, Duration::from_secs(seconds));
        check(0, &[found, (0, at(0), Step::WaitUntil(60))]);
        check(0, &[found, (0, at(1 << 40), Step::WaitUntil(DAY))]);
    }

    #[test]
    fn tries_every_challenge_of_every_authority_and_then_pauses() {
        let failed = Event::Failed;
        check(
            MIDDLE,
            &[
                (0, Event::Found(None), order(0, 0)),
                (1, failed(Failure::Challenge), order(0, 1)),
                (2, failed(Failure::Challenge), order(1, 0)),
                (3, failed(Failure::Challenge), order(1, 1)),
                (4, failed(Failure::Challenge), Step::WaitUntil(104)),
                (104, Event::Found(None), order(0, 0)),
                // The authority's fault: another challenge would not help.
                (105, failed(Failure::Authority), order(1, 0)),
                (106, failed(Failure::Authority), Step::WaitUntil(306)),
                // What is wrong here is wrong with every authority.
                (306, failed(Failure::Here), Step::WaitUntil(706)),
                (706, failed(Failure::Here), Step::WaitUntil(1506)),
                (1506, failed(Failure::Here), Step::WaitUntil(2506)),
                (2506, failed(Failure::Here), Step::WaitUntil(3506)),
                // A success ends the pauses.
                (3506, days(0, 90), Step::AskForWindow),
                (3507, Event::Found(None), order(0, 0)),
                (3508, failed(Failure::Here), Step::WaitUntil(3608)),
            ],
        );
        // Replicas do not try again at the same time.
        check(0, &[(0, failed(Failure::Here), Step::WaitUntil(75))]);
        check(u16::MAX, &[(0, failed(Failure::Here), Step::WaitUntil(125))]);
    }

    #[test]
    fn obeys_an_authority_that_is_asked_too_often() {
        let limited = |until| Event::Failed(Failure::RateLimited(until));
        check(
            MIDDLE,
            &[
                (0, limited(5000), order(1, 0)),
                (1, limited(5000), Step::WaitUntil(5000)),
                (5000, limited(0), order(1, 0)),
                (5000, limited(0), Step::WaitUntil(5200)),
                (5200, limited(Time::MAX), order(1, 0)),
                (5200, limited(Time::MAX), Step::WaitUntil(5200 + 8 * DAY)),
            ],
        );
    }

    #[test]
    fn leaves_an_authority_alone_while_another_one_fails() {
        let failed = Event::Failed(Failure::Authority);
        check(
            MIDDLE,
            &[
                (0, Event::Failed(Failure::RateLimited(500)), order(1, 0)),
                (1, failed, Step::WaitUntil(101)),
                (101, Event::Found(None), order(1, 0)),
                (102, failed, Step::WaitUntil(302)),
                (302, Event::Found(None), order(1, 0)),
                (303, failed, Step::WaitUntil(703)),
                (703, Event::Found(None), order(0, 0)),
                (704, failed, order(1, 0)),
            ],
        );
    }

    #[test]
    fn waits_while_another_replica_orders_and_takes_what_it_has_got() {
        check(
            MIDDLE,
            &[
                (0, Event::Busy(60), Step::WaitUntil(60)),
                (60, Event::Found(None), order(0, 0)),
                (60, Event::Busy(0), Step::WaitUntil(61)),
                (61, days(0, 90), Step::AskForWindow),
            ],
        );
    }

    #[test]
    fn certificates_that_are_due_at_once_are_ordered_more_and_more_seldom() {
        // They have expired already, by this machine's clock.
        let expired = |n: Time| days(n, 90 + n);
        let mut rows = vec![(200 * DAY, Event::Found(None), order(0, 0))];
        let mut now = 200 * DAY;
        for (n, pause) in [100, 200, 400, 800, 1000, 1000].into_iter().enumerate() {
            rows.push((now + 1, expired(n as Time), Step::AskForWindow));
            rows.push((now + 1, Event::NoWindow, Step::WaitUntil(now + 1 + pause)));
            now += 1 + pause;
            rows.push((now, expired(n as Time), order(0, 0)));
        }
        check(MIDDLE, &rows);
        // The first one is as old as the program that was started.
        check(MIDDLE, &[(200 * DAY, days(0, 90), order(0, 0))]);
        // An authority that wants every certificate renewed.
        let past = Event::Window(Window { start: 0, end: 6 }, Duration::from_secs(3600));
        check(
            MIDDLE,
            &[
                (0, Event::Found(None), order(0, 0)),
                (1, days(0, 90), Step::AskForWindow),
                (1, past, Step::WaitUntil(101)),
                (101, days(0, 90), order(0, 0)),
                (102, days(0, 91), Step::AskForWindow),
                (102, past, Step::WaitUntil(302)),
                // One that was used for long is replaced as the first one.
                (40 * DAY, days(40, 130), Step::AskForWindow),
                (40 * DAY, past, Step::WaitUntil(40 * DAY + 100)),
            ],
        );
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_lengthen_a_pause() {
        let failed = Event::Failed(Failure::Here);
        check(
            MIDDLE,
            &[
                (900 * DAY, Event::Found(None), order(0, 0)),
                (900 * DAY, failed, Step::WaitUntil(900 * DAY + 100)),
                (5 * DAY, Event::Found(None), Step::WaitUntil(5 * DAY + 100)),
                (5 * DAY + 100, Event::Found(None), order(0, 0)),
                (5 * DAY + 101, days(0, 90), Step::AskForWindow),
                (5 * DAY + 101, Event::NoWindow, Step::WaitUntil(5 * DAY + 101 + 6 * 3600)),
                (DAY, days(0, 90), Step::WaitUntil(DAY + 6 * 3600)),
                // A correction.
                (DAY - 5, days(0, 90), Step::WaitUntil(DAY + 6 * 3600)),
            ],
        );
    }

    #[test]
    fn a_failed_renewal_does_not_shorten_the_life_of_the_certificate() {
        let mut schedule = Schedule::new(RULES, MIDDLE);
        schedule.on(days(0, 90), 70 * DAY);
        schedule.on(Event::NoWindow, 70 * DAY);
        for _ in 0..50 {
            schedule.on(Event::Failed(Failure::Here), 70 * DAY);
        }
        assert_eq!(schedule.step(70 * DAY), Step::WaitUntil(70 * DAY + 1000));
        assert_eq!(schedule.certificate, Some(Validity { not_before: 0, not_after: 90 * DAY }));
    }
}
