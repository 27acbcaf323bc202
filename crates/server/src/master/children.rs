//! The children of the master as one value: each process that it has forked, by its kind. Knows which there are, how long
//! they take to end, and kills those that exceed their time. The file of each kind starts it and handles its end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::certificates::AcmeProcesses;
use super::generations::Generation;
use super::lifecycle::State;
use super::loggers::Loggers;
use super::pools::{PoolProcess, Pools};
use crate::logger::process::LONGEST_END;
use crate::process::ipc::Channel;
use crate::process::supervisor::KillTimer;
use crate::signer::SignerProcess;
use crate::spawner::cgroup;

pub(super) struct Children {
    pub(super) generations: Vec<Generation>,
    /// Spawners and signers without a generation: it has ended, or could not be started.
    pub(super) helpers: Vec<ChildProcess>,
    pub(super) pools: Pools,
    pub(super) loggers: Loggers,
    pub(super) certificates: AcmeProcesses,
    /// Folders in which scripts have had control groups.
    pub(super) cgroups: BTreeSet<PathBuf>,
    /// When the error log is sent again to those that have not received it.
    pub(super) next_log: Option<Instant>,
}

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    Generation,
    /// Of the generation with this ID.
    Spawner(Pid),
    /// Of the generation with this ID.
    Signer(Pid),
    Helper,
    Pool,
    Logger,
    /// The process that gets certificates.
    Acme,
}

/// A child that ends when the master leaves it, or with the last process that uses it.
pub(super) struct ChildProcess {
    pub(super) pid: Pid,
    /// `None`: the master has left it, or has none.
    channel: Option<Channel>,
    /// When it is killed, if it has not ended.
    kill: Option<KillTimer>,
}

impl Children {
    pub(super) fn new() -> Children {
        Children {
            generations: Vec::new(),
            helpers: Vec::new(),
            pools: Pools::default(),
            loggers: Loggers::new(),
            certificates: AcmeProcesses::new(),
            cgroups: BTreeSet::new(),
            next_log: None,
        }
    }

    /// Drops in a forked child what the master has of the others.
    pub(super) fn release(&mut self) {
        let Children { generations, helpers, pools, loggers, certificates, cgroups: _, next_log: _ } = self;
        generations.clear();
        helpers.clear();
        pools.clear();
        loggers.clear();
        certificates.clear();
    }

    /// Each child with its kind.
    fn all(&self) -> impl Iterator<Item = (Pid, Child)> {
        let of_generation = |generation: &Generation| {
            let pid = generation.pid;
            let spawner = generation.spawner.map(|spawner| (spawner.pid, Child::Spawner(pid)));
            let signer = generation.signer.as_ref().and_then(SignerProcess::pid);
            let signer = signer.map(|signer| (signer, Child::Signer(pid)));
            [Some((pid, Child::Generation)), spawner, signer].into_iter().flatten()
        };
        let of_kind = |child| move |process: &ChildProcess| (process.pid, child);
        self.generations
            .iter()
            .flat_map(of_generation)
            .chain(self.helpers.iter().map(of_kind(Child::Helper)))
            .chain(self.pools.processes().map(of_kind(Child::Pool)))
            .chain(self.loggers.processes().map(of_kind(Child::Logger)))
            .chain(self.certificates.processes().map(of_kind(Child::Acme)))
    }

    /// Those that end when the master leaves them.
    fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        let others = self.loggers.processes().chain(self.certificates.processes());
        self.helpers.iter().chain(self.pools.processes()).chain(others)
    }

    fn processes_mut(&mut self) -> impl Iterator<Item = &mut ChildProcess> {
        let others = self.loggers.processes_mut().chain(self.certificates.processes_mut());
        self.helpers.iter_mut().chain(self.pools.processes_mut()).chain(others)
    }

    /// `None`: the process is no child, or a program that was started for an upgrade.
    pub(super) fn kind(&self, process: Pid) -> Option<Child> {
        self.all().find(|(pid, _)| *pid == process).map(|(_, child)| child)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether a child may still write to a logger.
    pub(super) fn have_writers(&self) -> bool {
        self.all().any(|(_, child)| child != Child::Logger)
    }

    pub(super) fn serving(&self) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.state == State::Serving)
    }

    pub(super) fn generation(&self, pid: Pid) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.pid == pid)
    }

    pub(super) fn generation_mut(&mut self, pid: Pid) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.pid == pid)
    }

    /// How long what is behind the generations may take to end, each at the same time as the others.
    pub(super) fn longest_end(&self) -> Duration {
        let spawners = self.generations.iter().filter_map(|generation| generation.spawner);
        let pools = self.pools.iter().map(PoolProcess::patience);
        let loggers = self.loggers.processes().map(|_| LONGEST_END);
        let all = spawners.map(|spawner| spawner.patience()).chain(pools).chain(loggers);
        all.max().unwrap_or_default()
    }

    /// Sends a signal to each child. SIGCONT has those go on that an administrator or a debugger has stopped, so that
    /// they end, too. Returns them.
    pub(super) fn signal(&self, signal: Signal) -> Vec<Pid> {
        let children: Vec<Pid> = self.all().map(|(pid, _)| pid).collect();
        for child in &children {
            // Fails only if it has ended.
            _ = kill(*child, signal);
        }
        children
    }

    /// When the next one is killed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.processes().filter_map(|process| Some(process.kill?.due())).min()
    }

    /// Kills those that have not ended in time. The kernel then kills what they have started, too (PR_SET_PDEATHSIG).
    pub(super) fn kill_overdue(&mut self, now: Instant) {
        for process in self.processes_mut() {
            if process.kill.as_mut().is_some_and(|timer| timer.expires(now)) {
                // Fails only if it has ended.
                _ = kill(process.pid, Signal::SIGKILL);
            }
        }
    }

    /// Has a spawner or a signer without a generation end within this time.
    pub(super) fn add_helper(&mut self, pid: Pid, time: Duration) {
        let mut process = ChildProcess { pid, channel: None, kill: None };
        process.end_within(time, Instant::now());
        self.helpers.push(process);
    }

    pub(super) fn remove_helper(&mut self, pid: Pid) {
        self.helpers.retain(|helper| helper.pid != pid);
    }

    /// Removes the control groups of scripts whose spawner has ended.
    pub(super) fn sweep_cgroups(&self) {
        self.cgroups.iter().for_each(|folder| cgroup::sweep(folder));
    }
}

impl ChildProcess {
    pub(super) fn new(pid: Pid, channel: Channel) -> ChildProcess {
        ChildProcess { pid, channel: Some(channel), kill: None }
    }

    /// `None`: it is to end, and its end is no failure.
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    /// It ends with the last process that uses it.
    pub(super) fn leave(&mut self) {
        self.channel = None;
    }

    /// It ends within this time from the first call on, or is killed.
    pub(super) fn end_within(&mut self, time: Duration, now: Instant) {
        self.leave();
        self.kill.get_or_insert_with(|| KillTimer::start(now, time));
    }
}
