//! The life of a generation, and that of the program: their states, and what each event makes of them. Pure: knows no
//! process, and the time is an argument. The master sends the commands and signals, and reports the events.

use std::time::Instant;

use super::GRACE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Serving,
    /// It finishes running requests, and is killed at this time.
    Leaving(Instant),
    /// It has been killed. A disk that hangs can delay its end; a master that is ending waits for it until this time.
    Killed(Instant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It accepts connections.
    Ready,
    /// Another generation serves. Running requests may take until this time.
    Replaced(Instant),
    /// It must end by this time.
    Stopped(Instant),
    TimeOver,
}

/// What the master has to do after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// The configuration takes over.
    TakeOver,
    Kill,
    /// The master ends without waiting any longer.
    Abandon,
}

/// What the end of the process means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    AsExpected,
    /// It never served: the configuration is rejected.
    BeforeServing,
    /// It is replaced.
    Crashed,
}

impl State {
    pub(super) fn next(self, event: Event, now: Instant) -> (State, Action) {
        match (self, event) {
            (State::Starting, Event::Ready) => (State::Serving, Action::TakeOver),
            (State::Serving, Event::Replaced(until)) => (State::Leaving(until), Action::Nothing),
            (_, Event::Stopped(until)) => (State::Leaving(until), Action::Nothing),
            (State::Leaving(until), Event::TimeOver) if until <= now => {
                (State::Killed(now + GRACE), Action::Kill)
            }
            (State::Killed(until), Event::TimeOver) if until <= now => (self, Action::Abandon),
            // A generation may report that it is ready after a command to leave.
            (state, Event::Ready | Event::Replaced(_) | Event::TimeOver) => (state, Action::Nothing),
        }
    }

    pub(super) fn on_exit(self) -> Ended {
        match self {
            State::Starting => Ended::BeforeServing,
            State::Serving => Ended::Crashed,
            State::Leaving(_) | State::Killed(_) => Ended::AsExpected,
        }
    }

    /// When `Event::TimeOver` is due.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            State::Leaving(until) | State::Killed(until) => Some(until),
            State::Starting | State::Serving => None,
        }
    }
}

/// The life of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// The program ends with this exit code when all children have ended.
    Ending(u8, Wait),
    /// The successor serves; this program ends when all children have ended. `None`: each generation has its own time.
    Replaced(Option<Wait>),
}

impl Phase {
    pub(super) fn is_serving(self) -> bool {
        self == Phase::Serving
    }

    pub(super) fn is_replaced(self) -> bool {
        matches!(self, Phase::Replaced(_))
    }

    /// The program is to end, and its children by this time. One that was replaced only finishes running requests.
    pub(super) fn end(self, code: u8, until: Instant) -> Phase {
        let wait = self.wait().map_or(Wait::Until(until), |wait| wait.shortened_to(until));
        match self {
            Phase::Serving | Phase::Ending(..) => Phase::Ending(code, wait),
            Phase::Replaced(_) => Phase::Replaced(Some(wait)),
        }
    }

    /// The successor serves.
    pub(super) fn replace(self) -> Phase {
        Phase::Replaced(self.wait())
    }

    /// `None`: the end has not been ordered.
    pub(super) fn wait(self) -> Option<Wait> {
        match self {
            Phase::Serving => None,
            Phase::Ending(_, wait) => Some(wait),
            Phase::Replaced(wait) => wait,
        }
    }

    pub(super) fn wait_mut(&mut self) -> Option<&mut Wait> {
        match self {
            Phase::Serving => None,
            Phase::Ending(_, wait) => Some(wait),
            Phase::Replaced(wait) => wait.as_mut(),
        }
    }
}

/// How long the end of the program waits for its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Those that are left at this time are killed.
    Until(Instant),
    /// They have been killed. A disk that hangs can delay their end; it is awaited until this time.
    Killed(Instant),
    /// The program ends without them.
    Over,
}

impl Wait {
    /// All of them must end by this time. An earlier command may have said less.
    pub(super) fn shortened_to(self, until: Instant) -> Wait {
        match self {
            Wait::Until(earlier) => Wait::Until(earlier.min(until)),
            Wait::Killed(_) | Wait::Over => self,
        }
    }

    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Wait::Until(until) | Wait::Killed(until) => Some(until),
            Wait::Over => None,
        }
    }

    /// What follows when the deadline has passed.
    pub(super) fn next(self, now: Instant) -> Wait {
        match self {
            Wait::Until(until) if until <= now => Wait::Killed(now + GRACE),
            Wait::Killed(until) if until <= now => Wait::Over,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_generation_serves_leaves_and_is_killed_after_its_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (starting, serving) = (State::Starting, State::Serving);
        let (leaving, killed) = (State::Leaving(at(10)), State::Killed(at(10)));
        for (state, event, now, expected) in [
            (starting, Event::Ready, 1, (serving, Action::TakeOver)),
            (starting, Event::Replaced(at(10)), 1, (starting, Action::Nothing)),
            (starting, Event::Stopped(at(10)), 1, (leaving, Action::Nothing)),
            (starting, Event::TimeOver, 99, (starting, Action::Nothing)),
            (serving, Event::Ready, 1, (serving, Action::Nothing)),
            (serving, Event::Replaced(at(10)), 1, (leaving, Action::Nothing)),
            (serving, Event::Stopped(at(10)), 1, (leaving, Action::Nothing)),
            (leaving, Event::Ready, 1, (leaving, Action::Nothing)),
            (leaving, Event::Replaced(at(20)), 1, (leaving, Action::Nothing)),
            (leaving, Event::Stopped(at(5)), 1, (State::Leaving(at(5)), Action::Nothing)),
            (leaving, Event::TimeOver, 9, (leaving, Action::Nothing)),
            (leaving, Event::TimeOver, 10, (State::Killed(at(10) + GRACE), Action::Kill)),
            (killed, Event::Ready, 1, (killed, Action::Nothing)),
            (killed, Event::Replaced(at(20)), 1, (killed, Action::Nothing)),
            (killed, Event::Stopped(at(20)), 1, (State::Leaving(at(20)), Action::Nothing)),
            (killed, Event::TimeOver, 9, (killed, Action::Nothing)),
            (killed, Event::TimeOver, 10, (killed, Action::Abandon)),
        ] {
            assert_eq!(state.next(event, at(now)), expected, "{state:?} {event:?} at {now}");
        }
    }

    #[test]
    fn a_program_that_is_replaced_stays_so_when_it_is_to_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (sooner, later) = (Wait::Until(at(5)), Wait::Until(at(10)));
        for (phase, expected) in [
            (Phase::Serving, Phase::Ending(0, sooner)),
            (Phase::Ending(130, later), Phase::Ending(0, sooner)),
            (Phase::Ending(130, Wait::Over), Phase::Ending(0, Wait::Over)),
            (Phase::Replaced(None), Phase::Replaced(Some(sooner))),
            (Phase::Replaced(Some(later)), Phase::Replaced(Some(sooner))),
        ] {
            assert_eq!(phase.end(0, at(5)), expected, "{phase:?}");
        }
        for (phase, expected) in [
            (Phase::Serving, Phase::Replaced(None)),
            (Phase::Replaced(Some(later)), Phase::Replaced(Some(later))),
        ] {
            assert_eq!(phase.replace(), expected, "{phase:?}");
        }
    }

    #[test]
    fn the_end_waits_for_its_deadline_kills_and_waits_a_little_more() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (until, killed) = (Wait::Until(at(10)), Wait::Killed(at(10)));
        for (wait, now, expected) in [
            (until, 9, until),
            (until, 10, Wait::Killed(at(10) + GRACE)),
            (killed, 9, killed),
            (killed, 10, Wait::Over),
            (Wait::Over, 99, Wait::Over),
        ] {
            assert_eq!(wait.next(at(now)), expected, "{wait:?} at {now}");
        }
        for (wait, to, expected) in [
            (until, 5, Wait::Until(at(5))),
            (until, 20, until),
            (killed, 5, killed),
            (Wait::Over, 5, Wait::Over),
        ] {
            assert_eq!(wait.shortened_to(at(to)), expected, "{wait:?} to {to}");
        }
        assert_eq!((until.deadline(), Wait::Over.deadline()), (Some(at(10)), None));
    }

    #[test]
    fn an_exit_is_a_failure_unless_the_generation_was_stopped_or_replaced() {
        let now = Instant::now();
        for (state, expected) in [
            (State::Starting, Ended::BeforeServing),
            (State::Serving, Ended::Crashed),
            (State::Leaving(now), Ended::AsExpected),
            (State::Killed(now), Ended::AsExpected),
        ] {
            assert_eq!(state.on_exit(), expected, "{state:?}");
        }
    }
}
