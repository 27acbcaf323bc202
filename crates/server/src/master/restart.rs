//! When the generation that serves is replaced, because it has ended, or a process that it needs. Restarts are not limited
//! in number.

use std::time::{Duration, Instant};

use super::Master;
use crate::log;
use crate::process::supervisor::{self, RestartLimit};

pub(super) struct Restart {
    limit: RestartLimit,
    due: Option<Instant>,
}

impl Restart {
    pub(super) fn new() -> Restart {
        Restart { limit: RestartLimit::of_servers(), due: None }
    }

    /// Counts one more end. The replacement is due no later than it was already. Returns the time until then.
    pub(super) fn schedule(&mut self) -> Duration {
        let now = Instant::now();
        let at = now + self.limit.count(now);
        let at = self.due.map_or(at, |earlier| earlier.min(at));
        self.due = Some(at);
        at.saturating_duration_since(now)
    }

    /// Another generation serves, or none is to.
    pub(super) fn cancel(&mut self) {
        self.due = None;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Master {
    /// No generation could be started in place of one that has ended, or that lacks another process.
    pub(super) fn on_failed_restart(&mut self, why: &str) {
        let pause = self.restart.schedule();
        let clients = match self.children.serving() {
            Some(_) => "the present one goes on",
            None => "clients wait",
        };
        log::error(format_args!(
            "a new serving process cannot take over: {why}; {clients}, and it is tried again {}",
            supervisor::text(pause)
        ));
    }
}
