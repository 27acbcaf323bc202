//! Starts a generation, with the processes that it needs: loggers, pools, the spawner and the signer.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use nix::unistd::Pid;
use site::model::{Level, Sink, Site};
use site::zones::{Zone, Zones};

use super::change::Preparation;
use super::counters::Counters;
use super::loggers::LoggerPlan;
use super::notify::Notify;
use super::process::{Generation, SpawnerProcess};
use super::sockets::Sockets;
use super::tls::Tls;
use super::{Master, START_TIMEOUT};
use crate::generation::GenerationSetup;
use crate::listen::Socket;
use crate::log::{self, OpenSink};
use crate::process::ipc::{Channel, TOO_MANY_IN_FLIGHT};
use crate::process::privilege;
use crate::process::supervisor::{KillTimer, what_to_do};
use crate::spawner::{self, cgroup};
use crate::sys::{self, Fork};
use crate::worker::WorkerSockets;

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
            self.helpers.push((spawner.pid, KillTimer::start(Instant::now(), START_TIMEOUT)));
        }
        let pools = self.join_pools(&pools, workers)?;
        // Behind those, which must not inherit the channels to the signer.
        let (tls, signer) = self.prepare_tls(preparation).map_err(NotStarted::ByTls)?;
        let zones = Zones::of(&preparation.site);
        let zones = zones.iter().flat_map(|zones| zones.list()).map(Zone::to_string).collect();
        let counters = self.counters.create(workers, zones)?;
        let (ours, theirs) = Channel::pair()?;
        let (handoff, predecessor) = match !self.generations.is_empty() || self.predecessor.is_some() {
            true => {
                Channel::pair().map(|(handoff, predecessor)| (Some(handoff.into()), Some(predecessor)))?
            }
            false => (None, None),
        };
        let listeners = preparation.sockets.per_worker(&preparation.site.listeners, workers);
        // As late as possible, so that no other process has the pipes: a logger ends with its writers.
        let mut sinks = std::mem::take(&mut preparation.sinks);
        self.connect_logs(&mut sinks, &loggers)?;
        match sys::fork()? {
            Fork::Parent(pid) => {
                let names = sinks.iter().map(|sink| sink.sink().clone()).collect();
                self.helpers.retain(|(other, _)| Some(*other) != spawner.map(|spawner| spawner.pid));
                self.counters.begin(pid, counters);
                self.generations.push(Generation::starting(pid, ours, names, spawner, signer));
                let errors = sinks.into_iter().next();
                // One of its own: lines of two processes in one pipe could mix.
                let errors = errors.and_then(|errors| self.open_log(errors.sink(), &loggers).ok());
                Ok(Started::Parent(NewGeneration { pid, loggers, errors, handoff }))
            }
            Fork::Child => {
                drop((ours, handoff, signer));
                let folder = preparation.folder.take();
                let warnings = std::mem::take(&mut preparation.tls.warnings);
                let withheld = privilege::withheld_from_programs(&preparation.site);
                let earlier = std::mem::replace(&mut self.counters, Counters::new(Vec::new(), None));
                let ledger = earlier.into_ledger(counters);
                let maintenance = self.acts.maintenance.clone();
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
                    unusable,
                })))
            }
        }
    }

    /// Starts the spawner if the site has scripts. Also returns a channel for each worker, and a warning if scripts
    /// have no control groups.
    fn start_spawner(
        &mut self,
        preparation: &mut Preparation,
        place: Result<Option<PathBuf>, String>,
    ) -> io::Result<(Option<SpawnerProcess>, Vec<Channel>, Option<String>)> {
        let &mut Preparation { ref site, ref accounts, workers, .. } = preparation;
        if !site.has_scripts() {
            return Ok((None, Vec::new(), None));
        }
        let pairs = (0..workers).map(|_| Channel::pair()).collect::<io::Result<Vec<_>>>()?;
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let cgroups = place.and_then(|place| {
            let Some((place, wanted)) = place.zip(site.scripts.cgroups.as_ref()) else { return Ok(None) };
            // Twice as many as scripts: processes that an ended script leaves behind keep its group for a while.
            let each = 2 * (site.scripts.processes / workers).max(1);
            let made = cgroup::make(&place, wanted, each * workers)?;
            self.cgroups.insert(place);
            Ok(Some(made))
        });
        let complaint =
            cgroups.as_ref().err().map(|why| format!("scripts have no control groups of their own: {why}"));
        let cgroups = cgroups.ok().flatten();
        let setup = spawner::process::SpawnerSetup::of(site, theirs, accounts, cgroups);
        let grace = site.scripts.grace;
        match sys::fork()? {
            Fork::Parent(pid) => Ok((Some(SpawnerProcess { pid, grace }), ours, complaint)),
            Fork::Child => {
                drop(ours);
                self.release_in_child(Some(preparation));
                // The spawner must not keep a rotated log file open.
                if let Ok(stderr) = OpenSink::open(&Sink::Stderr) {
                    log::write_to(stderr, Level::Error);
                }
                std::process::exit(spawner::process::run(setup).into())
            }
        }
    }

    /// Drops the master's resources in a forked child, and those of a change that is being prepared.
    pub(super) fn release_in_child(&mut self, preparation: Option<&mut Preparation>) {
        preparation.map(Preparation::release);
        // Every field is named, so that the compiler finds a new one.
        let Master {
            signals,
            control,
            notify,
            starter,
            predecessor,
            leaving_predecessor,
            successor,
            pid_file,
            sockets,
            generations,
            helpers,
            pools,
            loggers,
            certificates,
            tls,
            change,
            queued_reload,
            purges,
            disconnects,
            counters,
            // These have neither descriptors nor secrets.
            options: _,
            program: _,
            is_child_of_first_process: _,
            descriptors: _,
            site: _,
            accounts: _,
            next_log: _,
            cgroups: _,
            acts: _,
            restart_limit: _,
            oom: _,
            restart: _,
            next_ping: _,
            watched: _,
            next_epoch: _,
            release: _,
            phase: _,
        } = self;
        *signals = None;
        *control = None;
        *notify = Notify::default();
        if let Some(starter) = starter {
            starter.release();
        }
        *predecessor = None;
        *leaving_predecessor = None;
        *successor = None;
        *pid_file = None;
        *sockets = Sockets::default();
        generations.clear();
        helpers.clear();
        pools.clear();
        loggers.running.clear();
        certificates.clear();
        *tls = Tls::default();
        *change = None;
        *queued_reload = None;
        // Their clients wait for the end of the stream, and so for each copy of its descriptor.
        purges.running.clear();
        disconnects.running.clear();
        *counters = Counters::new(Vec::new(), None);
    }
}

/// The folder for the control groups of scripts. `None`: the site has none. Errors: why there can be none.
fn place_of_cgroups(site: &Site) -> Result<Option<PathBuf>, String> {
    let wanted = site.scripts.cgroups.as_ref().filter(|_| site.has_scripts());
    wanted.map(cgroup::place).transpose()
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
