//! A serving process, as its keeper sees it.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::model::Sink;

use crate::channel::Channel;
use crate::control::Client;
use crate::log;

/// A serving process.
pub(super) struct Generation {
    pub(super) pid: Pid,
    pub(super) channel: Channel,
    pub(super) voice: Voice,
    pub(super) sinks: Vec<Sink>,
    pub(super) state: State,
    /// What starts scripts for it.
    pub(super) runner: Option<RunnerProcess>,
    /// What it has said before it ended.
    pub(super) failure: Vec<String>,
    /// Who are to be told when requests come to its successor alone, or when it does not say so in time.
    pub(super) waiting: Vec<Client>,
    pub(super) retires: Retires,
}

/// The process that starts scripts for a generation. It ends with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunnerProcess {
    pub(super) pid: Pid,
    /// How long scripts may take that are told to end.
    pub(super) grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Serving,
    /// It finishes what runs, and is killed then.
    Leaving(Instant),
    /// It has been killed. A request in the hands of a file system that does not answer can keep it for
    /// long; nobody waits for it longer than this.
    Killed(Instant),
}

/// May more be heard of a process?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Heard,
    /// Its end of the channel is closed.
    Silent,
}

impl Generation {
    /// Has it been killed, and does not end? It does nothing any more, and goes when what holds it lets go.
    pub(super) fn is_beyond_help(&self, now: Instant) -> bool {
        let beyond = matches!(self.state, State::Killed(until) if until <= now);
        if beyond {
            log::error(format_args!(
                "process {} is killed, but does not end: a disk that does not answer holds it; it goes when that does",
                self.pid
            ));
        }
        beyond
    }

    /// Nothing is answered as before, or not for long.
    pub(super) fn answer_waiting(&mut self) {
        self.retires = Retires::Done;
        self.waiting.drain(..).for_each(|client| client.done(""));
    }
}

/// Does a process that has to leave still answer what comes now?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retires {
    NotYet,
    Until(Instant),
    Done,
}
