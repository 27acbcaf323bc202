//! A configuration takes over: everything it needs is made ready beside what is served now, which is not
//! touched before the new process serves.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use nix::unistd::Pid;
use site::memory;
use site::model::{Level, Sink, Site};

use super::process::{ChannelState, Generation, Retires, SpawnerProcess, State};
use super::sockets::{ListenError, Sockets};
use super::{GRACE, Master, NO_ADDRESS, Phase, START_PATIENCE};
use crate::control::SiteSource;
use crate::control::{self, Client};
use crate::files::beneath::Root;
use crate::generation::{self, Beginning};
use crate::ipc::{Channel, MasterCommand};
use crate::log::{self, OpenSink};
use crate::privilege::Accounts;
use crate::spawner::cgroup;
use crate::supervisor::KillTimer;
use crate::sys::{self, Fork};
use crate::worker::WorkerSockets;
use crate::{announce, privileged_file, spawner, start, terminal};

/// A configuration on its way.
pub(super) struct Change {
    pub(super) site: Site,
    pub(super) sockets: Sockets,
    pub(super) generation: Pid,
    pub(super) errors: Option<OpenSink>,
    /// Where the process that serves now is to send its connections.
    pub(super) handoff: Option<OwnedFd>,
    /// When the generation is killed if it does not serve.
    pub(super) kill: KillTimer,
    pub(super) why: Why,
}

pub(super) struct Preparation {
    pub(super) site: Site,
    /// That of `taipan DIR`, opened with the rights of this process.
    pub(super) folder: Option<Root>,
    pub(super) sockets: Sockets,
    pub(super) why: Why,
}

/// What a change is made for.
pub(super) enum Why {
    Start,
    Reload(Vec<Client>),
    Crash,
}

impl Master {
    pub(super) fn reload(&mut self, clients: Vec<Client>) {
        if self.phase != Phase::Keeping || self.successor.is_some() {
            let why = "another program is about to take over, or this one is ending";
            log::warn(format_args!("the configuration is not read again: {why}"));
            return refuse_clients(clients, why);
        }
        if self.change.is_some() {
            self.again.get_or_insert_default().extend(clients);
            return;
        }
        self.notify.reloading();
        let loaded = start::site(&self.asked);
        let begun = match loaded {
            Ok(site) if self.generations.len() >= site.limits.generations => {
                let line =
                    "too many earlier configurations still finish their answers (limit \"generations\")";
                Err((vec![line.to_owned()], Why::Reload(clients)))
            }
            Ok(site) => self.begin_change(site, Why::Reload(clients)),
            Err(lines) => Err((lines, Why::Reload(clients))),
        };
        if let Err((lines, why)) = begun {
            self.tell_failure(&lines, why);
        }
    }

    /// Makes everything that a configuration needs, and a process that serves it. What is served now is
    /// not touched.
    pub(super) fn begin_change(&mut self, mut site: Site, why: Why) -> Result<(), (Vec<String>, Why)> {
        let workers = start::workers(&site).get();
        memory::fit(&mut site, workers, self.descriptors);
        let prepared = (|| {
            let line = |text: String| vec![text];
            let accounts = Accounts::of(&site).map_err(line)?;
            let folder = self.open_folder(&site).map_err(line)?;
            site.pid_file
                .as_deref()
                .and_then(privileged_file::pid_file_problem)
                .map_or(Ok(()), |why| Err(line(why)))?;
            cgroup::problem(&site.scripts).map_or(Ok(()), |why| Err(line(why)))?;
            let sockets = self.sockets.changed_to(&site.listeners, workers);
            let sockets = sockets.map_err(|e| line(self.why_not_listening(&e)))?;
            if sockets.is_empty() {
                return Err(line(NO_ADDRESS.to_owned()));
            }
            match log::open(&site) {
                Ok(sinks) => Ok((sockets, folder, accounts, sinks)),
                Err(why) => {
                    sockets.remove_files(&self.sockets);
                    Err(line(why))
                }
            }
        })();
        let (sockets, folder, accounts, sinks) = match prepared {
            Ok(prepared) => prepared,
            Err(lines) => return Err((lines, why)),
        };
        // Of what is served already it is changed when the configuration is.
        if self.site.is_none() {
            sockets.set_options(&site);
        }
        self.preparation = Some(Preparation { site, folder, sockets, why });
        let started = self.start_generation(workers, accounts, sinks);
        let Some(Preparation { site, sockets, why, .. }) = self.preparation.take() else { return Ok(()) };
        match started {
            Ok((generation, errors, handoff)) => {
                let kill = KillTimer::start(Instant::now(), START_PATIENCE);
                self.change = Some(Change { site, sockets, generation, errors, handoff, kill, why });
                Ok(())
            }
            Err(error) => {
                sockets.remove_files(&self.sockets);
                Err((vec![format!("cannot start a serving process: {error}")], why))
            }
        }
    }

    /// Also where the address is in use because this is the second start of the same.
    fn why_not_listening(&self, error: &ListenError) -> String {
        let what = &self.asked.source;
        if !error.is_in_use() || self.control.is_some() || !control::is_served(what) {
            return error.to_string();
        }
        let address = error.address();
        match what {
            SiteSource::Config(path) => format!(
                "cannot listen on {address}: it is in use, and a taipan that serves {0} is running already; to \
                 have that one read its configuration again, use taipan reload -c {0}",
                path.display()
            ),
            SiteSource::Folder(path) => format!(
                "cannot listen on {address}: it is in use, and a taipan that serves {} is running already; \
                 stop that one, or choose another address with --listen",
                path.display()
            ),
        }
    }

    /// The folder of `taipan DIR`. It may stand where only this process may go, as beneath root's home.
    fn open_folder(&self, site: &Site) -> Result<Option<Root>, String> {
        let root = match (&self.asked.source, site.roots().first()) {
            (SiteSource::Folder(_), Some(root)) => *root,
            _ => return Ok(None),
        };
        Root::open(root).map(Some).map_err(|e| format!("cannot open {}: {e}", root.display()))
    }

    pub(super) fn start_generation(
        &mut self,
        workers: usize,
        accounts: Accounts,
        mut sinks: Vec<OpenSink>,
    ) -> io::Result<(Pid, Option<OpenSink>, Option<OwnedFd>)> {
        let place = self.place_of_cgroups();
        // Before there is anything else that they must not have.
        let pools = self.start_pools(accounts.own.as_ref())?;
        let (spawner, spawners, complaint) = self.start_spawner(workers, &accounts, place, &mut sinks)?;
        if let Some(spawner) = spawner {
            // Until there is the process that it belongs to.
            self.spawners.push((spawner, KillTimer::start(Instant::now(), START_PATIENCE)));
        }
        let pools = self.join_pools(&pools, workers)?;
        let (ours, theirs) = Channel::pair()?;
        let (handoff, predecessor) = match !self.generations.is_empty() || self.predecessor.is_some() {
            true => {
                Channel::pair().map(|(handoff, predecessor)| (Some(handoff.into()), Some(predecessor)))?
            }
            false => (None, None),
        };
        let shares = self.preparation.as_ref().map(|p| p.sockets.per_worker(workers)).transpose()?;
        match sys::fork()? {
            Fork::Parent(pid) => {
                let names = sinks.iter().map(|sink| sink.sink().clone()).collect();
                let state = State::Starting;
                self.spawners.retain(|(other, _)| Some(other.pid) != spawner.map(|spawner| spawner.pid));
                self.generations.push(Generation {
                    pid,
                    channel: ours,
                    channel_state: ChannelState::Open,
                    sinks: names,
                    state,
                    spawner,
                    failure: Vec::new(),
                    waiting: Vec::new(),
                    retires: Retires::NotYet,
                });
                Ok((pid, sinks.into_iter().next(), handoff))
            }
            Fork::Child => {
                drop((ours, handoff));
                let prepared = self.preparation.take().map(|p| (p.site, p.folder));
                self.forget();
                let code = prepared.zip(shares).map(|((site, folder), listeners)| {
                    let (mut spawners, mut pools) = (spawners.into_iter(), pools.into_iter());
                    let worker = |listeners| WorkerSockets {
                        listeners,
                        spawner: spawners.next(),
                        pools: pools.next().unwrap_or_default(),
                    };
                    generation::run(Beginning {
                        site,
                        folder,
                        workers: listeners.into_iter().map(worker).collect(),
                        sinks,
                        identity: accounts.own,
                        master: theirs,
                        predecessor,
                        warning: complaint,
                    })
                });
                std::process::exit(code.unwrap_or(1).into())
            }
        }
    }

    /// The folder where scripts get control groups; `None`: they get none. No process that is started
    /// afterwards is in the way there. Errors: why they can have none.
    fn place_of_cgroups(&self) -> Result<Option<PathBuf>, String> {
        let site = self.preparation.as_ref().map(|preparation| &preparation.site);
        let scripts = site.filter(|site| site.has_scripts()).map(|site| &site.scripts);
        scripts.and_then(|scripts| scripts.cgroups.as_ref()).map(cgroup::place).transpose()
    }

    /// A process that starts scripts, where the site has any, and a channel to it for each worker; also
    /// what it does without.
    fn start_spawner(
        &mut self,
        workers: usize,
        accounts: &Accounts,
        place: Result<Option<PathBuf>, String>,
        sinks: &mut Vec<OpenSink>,
    ) -> io::Result<(Option<SpawnerProcess>, Vec<Channel>, Option<String>)> {
        let site = self.preparation.as_ref().map(|preparation| &preparation.site);
        let Some(site) = site.filter(|site| site.has_scripts()) else {
            return Ok((None, Vec::new(), None));
        };
        let pairs = (0..workers).map(|_| Channel::pair()).collect::<io::Result<Vec<_>>>()?;
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let cgroups = place.and_then(|place| {
            let Some((place, wanted)) = place.zip(site.scripts.cgroups.as_ref()) else { return Ok(None) };
            // A script that has ended may leave others behind, which take their time.
            let each = 2 * (site.scripts.processes / workers).max(1);
            let made = cgroup::make(&place, wanted, each * workers)?;
            self.cgroups.insert(place);
            Ok(Some(made))
        });
        let complaint =
            cgroups.as_ref().err().map(|why| format!("scripts have no control groups of their own: {why}"));
        let cgroups = cgroups.ok().flatten();
        let beginning = spawner::process::Beginning::of(site, theirs, accounts, cgroups);
        let grace = site.scripts.grace;
        match sys::fork()? {
            Fork::Parent(pid) => Ok((Some(SpawnerProcess { pid, grace }), ours, complaint)),
            Fork::Child => {
                drop(ours);
                sinks.clear();
                self.forget();
                // A log file that was removed must not be kept by who does not write it.
                if let Ok(stderr) = OpenSink::open(&Sink::Stderr) {
                    log::write_to(stderr, Level::Error);
                }
                std::process::exit(spawner::process::run(beginning).into())
            }
        }
    }

    /// Lets go of everything that is a master's: this is a process of another kind.
    pub(super) fn forget(&mut self) {
        self.signals = None;
        self.control = None;
        self.predecessor = None;
        self.successor = None;
        self.sockets = Sockets::default();
        self.generations.clear();
        self.spawners.clear();
        self.pools.clear();
        self.preparation = None;
        self.change = None;
        self.again = None;
    }

    /// The new process serves: from now on it is the one. Errors: the start has failed after all.
    pub(super) fn complete_change(&mut self) -> Result<(), Vec<String>> {
        let Some(change) = self.change.take() else { return Ok(()) };
        let Change { site, sockets, generation, errors, handoff, mut why, .. } = change;
        if let Some(errors) = errors {
            log::write_to(errors, site.log.level);
        }
        let before = self.site.as_ref().and_then(|site| site.pid_file.clone());
        if before != site.pid_file || matches!(why, Why::Start) {
            if let Some(path) = &site.pid_file
                && let Err(line) = privileged_file::write_pid_file(path)
            {
                if matches!(why, Why::Start) {
                    self.kill_all();
                    sockets.remove_files(&self.sockets);
                    return Err(vec![line]);
                }
                log::error(format_args!("{line}"));
            }
            if let Some(path) = before.filter(|before| Some(before) != site.pid_file.as_ref()) {
                privileged_file::remove(&path);
            }
        }
        // Before the others are told: who closes a socket last must be who has accepted from it last.
        self.sockets.remove_files(&sockets);
        self.sockets = sockets;
        self.sockets.set_options(&site);
        // Whatever has ended before is replaced by this.
        self.restart = None;
        // What runs ends under the configuration that it began with.
        let patience = self.site.as_ref().unwrap_or(&site).timeouts.reload;
        let until = Instant::now() + patience + GRACE;
        match (self.predecessor.take(), handoff) {
            (Some(predecessor), Some(handoff)) => {
                if let Err(error) = predecessor.take_over(handoff.into()) {
                    log::error(format_args!("the program before does not listen: {error}"));
                }
            }
            (_, handoff) => self.retire(generation, handoff, until),
        }
        let clients = match &mut why {
            Why::Reload(clients) => std::mem::take(clients),
            Why::Start | Why::Crash => Vec::new(),
        };
        self.tell_when_retired(clients);
        if self.phase == Phase::Keeping {
            self.notify.ready();
        }
        self.next_ping = self.notify.watchdog().map(|every| Instant::now() + every);
        match why {
            Why::Start => {
                announce::announce(&site, self.sockets.iter().map(|bound| &bound.actual));
                let said = start::shared_account(&self.asked, &site);
                said.iter().for_each(|line| terminal::err(format_args!("  {line}")));
            }
            Why::Reload(_) => log::info(format_args!("the configuration is read again, and served")),
            Why::Crash => log::warn(format_args!("another serving process has taken its place")),
        }
        self.site = Some(site);
        self.release_pools();
        self.send_log_to_pools();
        self.reload_again();
        Ok(())
    }

    /// Whoever wanted a reload while there was one gets one now, together.
    pub(super) fn reload_again(&mut self) {
        if let Some(waiting) = self.again.take() {
            self.reload(waiting);
        }
    }

    /// Has the process that has served until now hand over its connections, and finish. Those before it
    /// hand over to the same one from now on.
    pub(super) fn retire(&mut self, successor: Pid, handoff: Option<OwnedFd>, until: Instant) {
        let order = handoff.map_or(MasterCommand::Leave, MasterCommand::HandOver);
        for generation in self.generations.iter_mut().filter(|g| g.pid != successor) {
            _ = generation.channel.send(&order);
            if generation.state == State::Serving {
                generation.state = State::Leaving(until);
            }
        }
    }

    /// Whoever has asked for a change gets the answer when no request is answered as before.
    pub(super) fn tell_when_retired(&mut self, clients: Vec<Client>) {
        let last = self.generations.iter_mut().rev().find(|g| matches!(g.state, State::Leaving(_)));
        match last {
            Some(last) if last.retires != Retires::Done => {
                last.waiting.extend(clients);
                last.retires = Retires::Until(Instant::now() + GRACE);
            }
            _ => clients.into_iter().for_each(|client| client.done("")),
        }
    }

    pub(super) fn tell_failure(&mut self, lines: &[String], why: Why) {
        for line in lines {
            log::error(format_args!("{line}"));
        }
        self.notify.ready();
        // Those of what is not served after all.
        self.release_pools();
        match why {
            Why::Start | Why::Crash => {}
            Why::Reload(clients) => {
                log::error(format_args!("nothing was changed"));
                for client in clients {
                    client.failed(lines.iter().map(String::as_str).chain(["nothing was changed"]));
                }
            }
        }
        self.reload_again();
    }

    /// Has the process that is about to serve end, if there is one.
    pub(super) fn drop_change(&mut self, why: &str) {
        let Some(change) = self.change.take() else { return };
        for generation in self.generations.iter_mut().filter(|g| g.pid == change.generation) {
            _ = generation.channel.send(&MasterCommand::Stop);
            generation.state = State::Leaving(Instant::now() + GRACE);
        }
        change.sockets.remove_files(&self.sockets);
        if let Why::Reload(clients) = change.why {
            refuse_clients(clients, why);
        }
    }
}

pub(super) fn refuse_clients(clients: impl IntoIterator<Item = Client>, why: &str) {
    clients.into_iter().for_each(|client| client.failed([why]));
}
