//! The lifecycle of a script that runs: how far it has come, for whoever talks with it, and the watch over
//! it, which goes on when nobody does: it logs what the script writes to its error stream, ends a script
//! that nobody waits for or that takes too long, and knows how it has ended.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::concurrency::ScriptPermit;
use super::spool::SpoolSpace;
use crate::log;
use crate::log::stderr::Errors;
use crate::services::Services;
use crate::spawner::{Exit, Started};
use crate::stats::Count;

/// What is wanted of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its output.
    Wanted,
    /// Nothing more: it may finish what it does.
    Through,
    /// Nothing: it is to end.
    Unwanted,
    /// Its whole time is over: it is to end.
    Late,
}

/// What a exchange and the watch know of one another.
pub struct Lifecycle {
    state: Cell<State>,
    ended: Cell<Option<Exit>>,
    changed: Notify,
    /// Since when it is the script that is waited for; `None`: it waits for its client's body.
    since: Cell<Option<Instant>>,
}

impl Lifecycle {
    pub fn new() -> Rc<Lifecycle> {
        let (state, ended) = (Cell::new(State::Wanted), Cell::new(None));
        Rc::new(Lifecycle { state, ended, changed: Notify::new(), since: Cell::new(Some(Instant::now())) })
    }

    pub fn state(&self) -> State {
        self.state.get()
    }

    pub fn ended(&self) -> Option<Exit> {
        self.ended.get()
    }

    /// Waits until something of it changes; what has changed before counts if this was made before.
    pub fn change(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// Waits for its end, but not for long.
    pub async fn end(&self, timeout: Duration) -> Option<Exit> {
        let end = async {
            loop {
                let change = self.change();
                if let Some(ended) = self.ended.get() {
                    return ended;
                }
                change.await;
            }
        };
        tokio::time::timeout(timeout, end).await.ok()
    }

    /// It waits for its client.
    pub fn pause(&self) {
        self.since.set(None);
    }

    /// It has what the client has sent.
    pub fn resume(&self) {
        if self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
    }

    /// Until when something is expected of it that was to come within `timeout` of `from`.
    pub fn until(&self, from: Instant, timeout: Duration) -> Instant {
        self.since.get().map_or_else(Instant::now, |since| since.max(from)) + timeout
    }

    /// Only what is wanted can become anything else.
    pub fn becomes(&self, state: State) {
        if self.state.get() == State::Wanted {
            self.state.set(state);
            self.changed.notify_waiters();
        }
    }

    fn is_over(&self) -> bool {
        self.ended.get().is_some() && self.state.get() != State::Wanted
    }
}

/// Watches over a script until it has ended and nobody wants anything of it.
pub struct Monitor {
    pub services: Rc<Services>,
    pub lifecycle: Rc<Lifecycle>,
    pub started: Started,
    pub stderr: OwnedFd,
    pub who: Rc<str>,
    /// Until the script has ended: it runs, and has its body's file open.
    pub held: (ScriptPermit, Option<SpoolSpace>),
}

impl Monitor {
    pub async fn run(self) {
        let Monitor { services, lifecycle, mut started, stderr, who, held } = self;
        let mut errors = Errors::new(stderr, who.clone(), &services.site.scripts);
        let mut held = Some(held);
        let mut late = std::pin::pin!(tokio::time::sleep_until(Instant::now() + services.site.scripts.total));
        loop {
            let change = lifecycle.change();
            if lifecycle.is_over() {
                break;
            }
            match lifecycle.state() {
                State::Unwanted | State::Late => started.end(),
                State::Wanted | State::Through => {}
            }
            let runs = lifecycle.ended.get().is_none();
            tokio::select! {
                ended = started.ended(), if runs => {
                    errors.take_all();
                    held.take();
                    let killed = matches!(ended, Exit::Signal(_) | Exit::OutOfMemory);
                    services.counts.add(Count::ScriptsKilled, u64::from(killed));
                    lifecycle.ended.set(Some(ended));
                    lifecycle.changed.notify_waiters();
                }
                () = errors.take() => {}
                () = change => {}
                () = &mut late, if matches!(lifecycle.state(), State::Wanted | State::Through) => {
                    services.counts.add(Count::ScriptsLate, 1);
                    log::warn(format_args!("{who}: the script has run for as long as it may, and is ended"));
                    lifecycle.state.set(State::Late);
                    lifecycle.changed.notify_waiters();
                }
            }
        }
    }
}
