//! The workers of a generation: starting them, replacing one that has failed, and sending commands to all.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::{MainThread, Phase};
use crate::process::ipc::GenerationEvent;
use crate::process::supervisor;
use crate::worker::{self, Start, WorkerCommand, WorkerSockets};
use crate::{log, sys};

pub struct WorkerHandle {
    pub commands: UnboundedSender<WorkerCommand>,
    /// For the worker's replacement.
    pub sockets: WorkerSockets,
    pub state: WorkerState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    Starting,
    Serving,
    /// The worker has failed and is replaced at this time.
    Failed(tokio::time::Instant),
    Gone,
}

pub enum WorkerEvent {
    Serving,
    Left,
    /// The worker panicked, or cannot continue.
    Failed(String),
}

impl WorkerHandle {
    pub fn restart(&self) -> Option<tokio::time::Instant> {
        match self.state {
            WorkerState::Failed(at) => Some(at),
            WorkerState::Starting | WorkerState::Serving | WorkerState::Gone => None,
        }
    }
}

impl MainThread {
    pub(super) fn spawn(&mut self, sockets: WorkerSockets) -> io::Result<()> {
        let commands = self.start_worker(self.workers.len(), &sockets)?;
        self.workers.push(WorkerHandle { commands, sockets, state: WorkerState::Starting });
        Ok(())
    }

    fn start_worker(
        &self,
        number: usize,
        sockets: &WorkerSockets,
    ) -> io::Result<UnboundedSender<WorkerCommand>> {
        let (commands, receiver) = unbounded_channel();
        let (site, tls, clients) = (self.site.clone(), self.tls.clone(), self.clients.clone());
        let (roots, sockets, counts) = (self.roots.clone(), sockets.try_clone()?, self.ledger.own[number]);
        let main_thread = self.main_thread.clone();
        let maintenance = self.maintenance.of(&site);
        let start = Start { site, tls, clients, roots, sockets, counts, main_thread, maintenance };
        let events = self.event_sender.clone();
        let work = move || {
            let on_serving = || _ = events.send((number, WorkerEvent::Serving));
            let ended = catch_unwind(AssertUnwindSafe(|| worker::run(start, receiver, on_serving)));
            let event = match ended {
                Ok(Ok(())) => WorkerEvent::Left,
                Ok(Err(error)) => WorkerEvent::Failed(error.to_string()),
                Err(_) => WorkerEvent::Failed("it panicked".to_owned()),
            };
            _ = events.send((number, event));
        };
        std::thread::Builder::new().name(format!("worker {number}")).spawn(work)?;
        Ok(commands)
    }

    pub(super) fn on_serving(&mut self, number: usize) -> io::Result<()> {
        self.workers[number].state = WorkerState::Serving;
        if self.phase != Phase::Starting || self.workers.iter().any(|w| w.state == WorkerState::Starting) {
            return Ok(());
        }
        self.phase = Phase::Serving;
        self.sample();
        self.release_later();
        self.master.send(&GenerationEvent::Ready)
    }

    /// Gives back what is seldom used as soon as what happens now has no further effects.
    pub(super) fn release_later(&mut self) {
        self.release = Some(tokio::time::Instant::now() + sys::RELEASE_AFTER);
    }

    /// A worker has panicked outside of a connection, or cannot continue. Its connections are lost, those of other
    /// workers are not. Errors: the process has not served yet.
    pub(super) fn on_failure(&mut self, number: usize, why: &str) -> io::Result<()> {
        let what = format!("worker {number} has ended: {why}");
        self.workers[number].state = match self.phase {
            Phase::Starting => return Err(io::Error::other(what)),
            Phase::Serving => {
                let pause = self.restart_limit.count(Instant::now());
                log::error(format_args!("{what}; it is replaced {}", supervisor::text(pause)));
                WorkerState::Failed(tokio::time::Instant::now() + pause)
            }
            Phase::Leaving => {
                log::error(format_args!("{what}"));
                WorkerState::Gone
            }
        };
        Ok(())
    }

    /// Replaces the failed workers whose pause has passed.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        let now = tokio::time::Instant::now();
        for number in 0..self.workers.len() {
            if self.workers[number].restart().is_none_or(|at| at > now) {
                continue;
            }
            match self.start_worker(number, &self.workers[number].sockets) {
                Ok(commands) => {
                    for watch in &self.watches {
                        _ = commands.send(WorkerCommand::Watch(watch.clone(), oneshot::channel().0));
                    }
                    self.workers[number].commands = commands;
                    self.workers[number].state = WorkerState::Serving;
                }
                Err(error) => self.on_failure(
                    number,
                    &format!("cannot be started ({error}{})", supervisor::what_to_do(&error)),
                )?,
            }
        }
        Ok(())
    }

    pub(super) fn end_replacing(&mut self) {
        self.phase = Phase::Leaving;
        self.next_sample = None;
        self.end_watches();
        for worker in self.workers.iter_mut().filter(|worker| worker.restart().is_some()) {
            worker.state = WorkerState::Gone;
        }
    }

    pub(super) fn send_to_all(&self, command: impl Fn() -> WorkerCommand) {
        for worker in &self.workers {
            // Fails if the worker has ended.
            _ = worker.commands.send(command());
        }
    }

    /// Closes the copies for replaced workers: a listener closes only with its last descriptor, and so does the channel
    /// of a worker's scripts.
    pub(super) fn close_sockets(&mut self) {
        self.end_replacing();
        self.workers.iter_mut().for_each(|worker| worker.sockets = WorkerSockets::default());
    }
}
