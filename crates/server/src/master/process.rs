//! A serving process, as its master sees it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::model::{Resources, Sandbox, Sink};
use site::upstream::Upstream;

use crate::control::Client;
use crate::ipc::Channel;
use crate::log;
use crate::privilege::Identity;
use crate::spawner::KILL_TIMEOUT;
use crate::supervisor::KillTimer;

/// A serving process.
pub(super) struct Generation {
    pub(super) pid: Pid,
    pub(super) channel: Channel,
    pub(super) channel_state: ChannelState,
    pub(super) sinks: Vec<Sink>,
    pub(super) state: State,
    /// What starts scripts for it.
    pub(super) spawner: Option<SpawnerProcess>,
    /// What it has said before it ended.
    pub(super) failure: Vec<String>,
    /// Who are to be told when requests come to its successor alone, or when it does not say so in time.
    pub(super) waiting: Vec<Client>,
    pub(super) retires: Retires,
}

/// The process that has the servers of an application. It outlives generations, as long as these have the
/// same servers in it.
pub(super) struct PoolProcess {
    pub(super) pid: Pid,
    pub(super) application: Upstream,
    /// Who it is, and where.
    pub(super) circumstances: Circumstances,
    /// `None`: it ends when no generation has it any more.
    pub(super) channel: Option<Channel>,
    /// When it is killed, if it has not ended.
    pub(super) kill: Option<KillTimer>,
}

/// What a process has to be started anew for when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Circumstances {
    pub(super) identity: Option<Identity>,
    pub(super) chroot: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    pub(super) resources: Resources,
    pub(super) spool: PathBuf,
}

impl PoolProcess {
    /// How long it may take when everybody has left it.
    pub(super) fn patience(&self) -> Duration {
        self.application.managed().map_or(Duration::ZERO, |managed| managed.grace) + KILL_TIMEOUT
    }
}

/// The process that starts scripts for a generation. It ends with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpawnerProcess {
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
pub(super) enum ChannelState {
    Open,
    /// Its end of the channel is closed.
    Closed,
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
