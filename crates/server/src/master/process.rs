//! The master's children: generations, spawners, signers and pools.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use site::endpoint::Resolution;
use site::forward_proxy::ForwardProxy;
use site::model::{Resources, Sandbox, Sink};
use site::upstream::Upstream;

use super::lifecycle::{Action, Event, State};
use super::unsent::{Progress, Unsent};
use crate::control::Client;
use crate::file_stamps::FileStamps;
use crate::log;
use crate::process::ipc::{self, Channel, MasterCommand, TOO_MANY_IN_FLIGHT};
use crate::process::privilege::Identity;
use crate::process::supervisor::KillTimer;
use crate::signer::SignerProcess;
use crate::spawner::KILL_TIMEOUT;

/// A process that serves one configuration.
pub(super) struct Generation {
    pub(super) pid: Pid,
    pub(super) channel: Channel,
    pub(super) channel_state: ChannelState,
    pub(super) sinks: Vec<Sink>,
    pub(super) state: State,
    /// `None`: its site has no scripts, or the spawner has ended.
    pub(super) spawner: Option<SpawnerProcess>,
    /// `None`: its workers have no private keys, or have them themselves.
    pub(super) signer: Option<SignerProcess>,
    /// The lines that it has sent before its end.
    pub(super) failure: Vec<String>,
    /// They receive their response when the generation has retired.
    pub(super) waiting: Vec<Client>,
    pub(super) retirement: Retirement,
    unsent: RefCell<Unsent<Rc<MasterCommand>>>,
}

/// A process that connects for workers. It outlives a generation if the next one has the same service.
pub(super) struct PoolProcess {
    pub(super) pid: Pid,
    pub(super) service: Service,
    pub(super) circumstances: Circumstances,
    /// `None`: the process ends when the last generation leaves it.
    pub(super) channel: Option<Channel>,
    pub(super) log: ErrorLog,
    /// When it is killed, if it has not ended.
    pub(super) kill: Option<KillTimer>,
}

/// Whether a child writes its messages to the error log as it is opened now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorLog {
    Current,
    /// It writes to the one before, until the new one can be sent.
    Earlier,
    /// As `Earlier`, and an administrator has been told.
    Missed,
}

impl ErrorLog {
    /// What is true after an attempt to send the log to the child `what`.
    pub(super) fn after(self, sent: io::Result<()>, what: &dyn fmt::Display) -> ErrorLog {
        match sent {
            Ok(()) => ErrorLog::Current,
            // It has ended, which `reap` finds out.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ErrorLog::Current,
            Err(_) if self == ErrorLog::Missed => self,
            Err(error) => {
                let why = match ipc::has_too_many_in_flight(&error) {
                    true => TOO_MANY_IN_FLIGHT.to_owned(),
                    false if error.kind() == io::ErrorKind::WouldBlock => "it reads no commands".to_owned(),
                    false => error.to_string(),
                };
                log::warn(format_args!(
                    "{what} still writes its messages to the error log as it was opened before: {why}; it is tried again"
                ));
                ErrorLog::Missed
            }
        }
    }
}

/// What a process connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Service {
    /// The endpoints of an application.
    Application(Box<Upstream>),
    /// The destinations of the forward proxy.
    ForwardProxy(Box<ForwardProxy>),
    /// DNS servers, for the names of clients.
    ClientNames,
}

/// A pool is replaced when one of these changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Circumstances {
    pub(super) identity: Option<Identity>,
    pub(super) chroot: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    pub(super) resources: Resources,
    pub(super) spool: PathBuf,
    /// `None`: nothing is resolved.
    pub(super) names: Option<(Resolution, FileStamps)>,
    /// The files of its TLS. `None`: it has none.
    pub(super) tls: Option<FileStamps>,
}

impl Service {
    pub(super) fn application(&self) -> Option<&Upstream> {
        match self {
            Service::Application(application) => Some(application),
            Service::ForwardProxy(_) | Service::ClientNames => None,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Application(application) => write!(out, "application \"{}\"", application.name),
            Service::ForwardProxy(_) => out.write_str("forward proxy"),
            Service::ClientNames => out.write_str("names of clients"),
        }
    }
}

impl PoolProcess {
    /// How long the process may take to end.
    pub(super) fn patience(&self) -> Duration {
        self.service.application().and_then(Upstream::managed).map_or(Duration::ZERO, |managed| managed.grace)
            + KILL_TIMEOUT
    }
}

/// The process that starts scripts for a generation, and ends with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpawnerProcess {
    pub(super) pid: Pid,
    /// How long scripts may take to end after SIGTERM.
    pub(super) grace: Duration,
}

impl SpawnerProcess {
    /// How long the process may take to end.
    pub(super) fn patience(&self) -> Duration {
        self.grace + KILL_TIMEOUT
    }
}

/// Whether the generation can still send events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelState {
    Open,
    Closed,
}

/// A generation has retired when no new request can reach it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retirement {
    NotBegun,
    /// The clients are not kept waiting beyond this time.
    Until(Instant),
    Done,
}

impl Generation {
    pub(super) fn starting(
        pid: Pid,
        channel: Channel,
        sinks: Vec<Sink>,
        spawner: Option<SpawnerProcess>,
        signer: Option<SignerProcess>,
    ) -> Generation {
        Generation {
            pid,
            channel,
            channel_state: ChannelState::Open,
            sinks,
            state: State::Starting,
            spawner,
            signer,
            failure: Vec::new(),
            waiting: Vec::new(),
            retirement: Retirement::NotBegun,
            unsent: RefCell::default(),
        }
    }

    pub(super) fn on_event(&mut self, event: Event, now: Instant) -> Action {
        let (state, action) = self.state.next(event, now);
        self.state = state;
        match action {
            Action::Kill => {
                if self.unsent.borrow().has(|command| matches!(**command, MasterCommand::HandOver(_))) {
                    log::error(format_args!(
                        "the process {} has not learnt that it is replaced, and is killed: {TOO_MANY_IN_FLIGHT}",
                        self.pid
                    ));
                }
                self.kill();
            }
            Action::Abandon => log::error(format_args!("{}", blocked(self.pid))),
            Action::Nothing | Action::TakeOver => {}
        }
        action
    }

    /// Sends a command with a descriptor, now or as soon as the kernel takes it.
    pub(super) fn send_descriptor(&self, command: impl Into<Rc<MasterCommand>>) {
        if self.unsent.borrow_mut().push(command.into()) {
            self.send_unsent();
        } else {
            log::error(format_args!("the process {} does not read its commands, and misses one", self.pid));
        }
    }

    pub(super) fn send_unsent(&self) {
        let mut unsent = self.unsent.borrow_mut();
        while !unsent.is_empty() {
            match unsent.send(Instant::now(), |command| self.channel.send(&**command)) {
                Ok(Progress::AllSent | Progress::Waits) => return,
                Ok(Progress::Delayed) => {
                    return log::warn(format_args!(
                        "commands to the process {} wait: {TOO_MANY_IN_FLIGHT}",
                        self.pid
                    ));
                }
                // It has ended, which `reap` finds out.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => unsent.clear(),
                Err(error) => {
                    log::error(format_args!("a command to the process {} is lost: {error}", self.pid))
                }
            }
        }
    }

    /// It is to end, and earlier commands do not matter.
    pub(super) fn end(&self, command: &MasterCommand) {
        self.unsent.borrow_mut().clear();
        // Fails only if it has ended, or reads nothing; then it is killed.
        _ = self.channel.send(command);
    }

    /// When commands are sent again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unsent.borrow().due()
    }

    pub(super) fn waits_for_space(&self) -> bool {
        self.unsent.borrow().waits_for_space()
    }

    pub(super) fn kill(&self) {
        // Fails only if it has ended.
        _ = kill(self.pid, Signal::SIGKILL);
    }

    pub(super) fn on_retired(&mut self) {
        self.retirement = Retirement::Done;
        self.waiting.drain(..).for_each(|client| client.done(""));
    }
}

/// Why a process that has been killed is still there.
pub(super) fn blocked(pid: Pid) -> String {
    format!("process {pid} is still blocked in disk I/O after SIGKILL; it ends when the disk responds")
}
