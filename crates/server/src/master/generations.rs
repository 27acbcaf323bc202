//! The generations: what the master has of each, how one is started with the processes that it needs, and what its end
//! means.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use site::model::{Sink, Site};
use site::zones::{Zone, Zones};

use super::change::{Cause, Change, Preparation};
use super::counters::Counters;
use super::end::{blocked, exit_text};
use super::lifecycle::{Action, Ended, Event, State};
use super::loggers::LoggerPlan;
use super::spawners::{SpawnerProcess, place_of_cgroups};
use super::unsent::{Progress, Unsent};
use super::{GRACE, Master, START_TIMEOUT, could_not_start, oom};
use crate::control::Client;
use crate::generation::GenerationSetup;
use crate::listen::Socket;
use crate::log::{self, OpenSink};
use crate::process::ipc::{Channel, MasterCommand, TOO_MANY_IN_FLIGHT};
use crate::process::privilege;
use crate::process::supervisor::{self, what_to_do};
use crate::signer::SignerProcess;
use crate::sys::{self, Fork};
use crate::worker::WorkerSockets;

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

/// A generation that is starting, in each of the two processes.
pub(super) enum Started {
    Child(Box<GenerationSetup>),
    Parent(NewGeneration),
}

/// What the master has of a generation until it serves, beside the process.
pub(super) struct NewGeneration {
    pub(super) pid: Pid,
    /// They write its logs.
    pub(super) loggers: Vec<LoggerPlan>,
    /// The error log, for the master.
    pub(super) errors: Option<OpenSink>,
    /// The predecessor sends its connections through this channel.
    pub(super) handoff: Option<OwnedFd>,
}

/// Why a generation has not been started.
pub(super) enum NotStarted {
    ByKernel(io::Error),
    /// Lines that say what is wrong with keys and certificates.
    ByTls(Vec<String>),
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> NotStarted {
        NotStarted::ByKernel(error)
    }
}

impl NotStarted {
    /// `earlier`: generations that still finish their responses, for each of which the master needs descriptors.
    pub(super) fn lines(self, earlier: usize) -> Vec<String> {
        let error = match self {
            NotStarted::ByKernel(error) => error,
            NotStarted::ByTls(lines) => return lines,
        };
        let advice = match error.raw_os_error() {
            Some(libc::ETOOMANYREFS) => format!("; {TOO_MANY_IN_FLIGHT}; try again later"),
            Some(libc::EMFILE) if earlier > 0 => format!(
                "; the master has no descriptor left: raise `ulimit -Hn` (LimitNOFILE), or wait until {earlier} earlier \
                 processes have finished their responses"
            ),
            Some(libc::EMFILE) => {
                "; the master has no descriptor left: raise `ulimit -Hn` (LimitNOFILE)".to_owned()
            }
            Some(libc::EFBIG) => {
                "; raise the limit of the size of files, `ulimit -Hf` (LimitFSIZE)".to_owned()
            }
            _ => what_to_do(&error).to_owned(),
        };
        vec![format!("cannot start a serving process: {error}{advice}")]
    }
}

impl Master {
    pub(super) fn start_generation(&mut self, preparation: &mut Preparation) -> Result<Started, NotStarted> {
        let workers = preparation.workers;
        let place = place_of_cgroups(&preparation.site);
        let loggers = self.start_loggers(preparation)?;
        // First, so that pools do not inherit the channels that follow.
        let pools = self.start_pools(preparation, &loggers)?;
        let (spawner, spawners, complaint) = self.start_spawner(preparation, place)?;
        if let Some(spawner) = spawner {
            // If the fork below fails, the spawner is killed.
            self.children.add_helper(spawner.pid, START_TIMEOUT);
        }
        let pools = self.children.pools.join(&pools, workers)?;
        // Behind those, which must not inherit the channels to the signer.
        let (tls, signer) = self.prepare_tls(preparation).map_err(NotStarted::ByTls)?;
        let zones = Zones::of(&preparation.site);
        let zones = zones.iter().flat_map(|zones| zones.list()).map(Zone::to_string).collect();
        let counters = self.counters.create(workers, zones)?;
        let (ours, theirs) = Channel::pair()?;
        let (handoff, predecessor) =
            match !self.children.generations.is_empty() || self.upgrade.has_serving_predecessor() {
                true => {
                    Channel::pair().map(|(handoff, predecessor)| (Some(handoff.into()), Some(predecessor)))?
                }
                false => (None, None),
            };
        let listeners = preparation.sockets.per_worker(&preparation.site.listeners, workers);
        // As late as possible, so that no other process has the pipes: a logger ends with its writers.
        let mut sinks = std::mem::take(&mut preparation.sinks);
        self.children.loggers.connect(&mut sinks, &loggers)?;
        match sys::fork()? {
            Fork::Parent(pid) => {
                let names = sinks.iter().map(|sink| sink.sink().clone()).collect();
                spawner.iter().for_each(|spawner| self.children.remove_helper(spawner.pid));
                self.counters.begin(pid, counters);
                self.children.generations.push(Generation::starting(pid, ours, names, spawner, signer));
                let errors = sinks.into_iter().next();
                // One of its own: lines of two processes in one pipe could mix.
                let errors =
                    errors.and_then(|errors| self.children.loggers.open(errors.sink(), &loggers).ok());
                Ok(Started::Parent(NewGeneration { pid, loggers, errors, handoff }))
            }
            Fork::Child => {
                drop((ours, handoff, signer));
                // The generation goes on with these, which the release would drop.
                let folder = preparation.folder.take();
                let warnings = std::mem::take(&mut preparation.tls.warnings);
                let withheld = privilege::withheld_from_programs(&preparation.site);
                let earlier = std::mem::replace(&mut self.counters, Counters::new(Vec::new(), None));
                let ledger = earlier.into_ledger(counters);
                let maintenance = self.acts.maintenance.clone();
                let challenges = self.open_challenges();
                let unusable = preparation.cause.unusable();
                self.release_in_child(Some(preparation));
                Ok(Started::Child(Box::new(GenerationSetup {
                    tls,
                    folder,
                    workers: worker_sockets(&preparation.site, listeners, spawners, pools),
                    sinks,
                    identity: preparation.accounts.own.clone(),
                    master: theirs,
                    predecessor,
                    warnings: complaint.into_iter().chain(withheld).chain(warnings).collect(),
                    ledger,
                    maintenance,
                    challenges,
                    unusable,
                })))
            }
        }
    }

    /// Its last events may contain the reason of its end. Returns the exit code if the start of the program has failed.
    pub(super) fn on_generation_exit(&mut self, pid: Pid, status: WaitStatus) -> Option<ExitCode> {
        if let Some(code) = self.on_generation(pid) {
            return Some(code);
        }
        let generations = &mut self.children.generations;
        let index = generations.iter().position(|generation| generation.pid == pid)?;
        let mut generation = generations.remove(index);
        self.counters.end(pid);
        if let Some(spawner) = generation.spawner {
            self.children.add_helper(spawner.pid, spawner.patience() + GRACE);
        }
        if let Some(signer) = generation.signer.as_ref().and_then(SignerProcess::pid) {
            self.children.add_helper(signer, GRACE);
        }
        generation.on_retired();
        self.advance_purges();
        self.advance_disconnects();
        self.on_generation_end(generation, status)
    }

    fn on_generation_end(&mut self, generation: Generation, status: WaitStatus) -> Option<ExitCode> {
        let end = exit_text(status);
        let Generation { pid, state, failure, .. } = generation;
        match state.on_exit() {
            Ended::AsExpected => {}
            Ended::BeforeServing => {
                let change = self.changes.take_of(pid)?;
                let lines = match failure.is_empty() {
                    true => vec![format!("the serving process has ended before it served: {end}")],
                    false => failure,
                };
                change.sockets.remove_files(&self.sockets);
                let Change { mut cause, sockets, .. } = change;
                drop(sockets);
                match &cause {
                    Cause::Start => return Some(could_not_start(&self.all_problems(lines, &mut cause))),
                    Cause::Crash => self.on_failed_restart(&lines.join("; ")),
                    Cause::Renewal => self.on_failed_change(&lines, cause),
                    Cause::Reload(_) => {
                        let lines = self.all_problems(lines, &mut cause);
                        self.on_failed_change(&lines, cause);
                    }
                }
            }
            Ended::Crashed if failure.is_empty() => {
                let memory = match status {
                    WaitStatus::Signaled(_, Signal::SIGKILL, _) => self.oom.explanation(),
                    WaitStatus::Signaled(_, Signal::SIGABRT, _) => oom::ABORTED,
                    _ => "",
                };
                self.on_crash(&format!("{end}{memory}"));
            }
            Ended::Crashed => self.on_crash(&failure.join("; ")),
        }
        None
    }

    fn on_crash(&mut self, end: &str) {
        let pause = self.restart.schedule();
        log::error(format_args!(
            "the serving process has ended: {end}; it is replaced {}",
            supervisor::text(pause)
        ));
    }
}

/// The sockets of each worker. `pools`: its channels, as `start_pools` orders them.
fn worker_sockets(
    site: &Site,
    listeners: Vec<Vec<Socket>>,
    spawners: Vec<Channel>,
    pools: Vec<Vec<Channel>>,
) -> Vec<WorkerSockets> {
    let (mut spawners, mut pools) = (spawners.into_iter(), pools.into_iter());
    let worker = |listeners| {
        let mut pools = pools.next().unwrap_or_default();
        let client_names = site.resolution.client_names.and_then(|_| pools.pop());
        let forward_proxy = site.forward_proxy.as_ref().and_then(|_| pools.pop());
        WorkerSockets { listeners, spawner: spawners.next(), pools, forward_proxy, client_names }
    };
    listeners.into_iter().map(worker).collect()
}
