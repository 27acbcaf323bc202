//! A change: a configuration takes over. The master prepares everything that it needs and starts a generation. What is
//! served now stays untouched until the new generation serves.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use nix::unistd::Pid;
use site::listener::Listener;
use site::memory;
use site::model::{Limits, Site};

use super::files;
use super::generations::{ChannelState, Generation, NewGeneration, Retirement, Started};
use super::lifecycle::{Event, State};
use super::loggers::LoggerPlan;
use super::served::Served;
use super::sockets::{ListenError, Sockets};
use super::tls::Tls;
use super::{GRACE, Master, NO_ADDRESS, START_TIMEOUT, UPGRADING};
use super::{announce, examine};
use crate::control::{self, Client, ConfigSource, SiteSource};
use crate::file_stamps::FileStamps;
use crate::files::beneath::Root;
use crate::finding::Unusable;
use crate::generation;
use crate::log::{self, OpenSink};
use crate::process::ipc::{MasterCommand, Rates};
use crate::process::privilege::Accounts;
use crate::process::privileged_file::{self, Holder, PidFile};
use crate::process::supervisor::KillTimer;
use crate::spawner::cgroup;
use crate::{limits, start, sys, terminal};

/// A server with fewer is hardly one.
const FEW_CONNECTIONS: usize = 100;

/// A change whose generation is starting.
pub(super) struct Change {
    pub(super) site: Site,
    pub(super) accounts: Accounts,
    pub(super) tls: Tls,
    /// The files of users and groups.
    pub(super) users: FileStamps,
    pub(super) sockets: Sockets,
    pub(super) new: NewGeneration,
    /// Runs out if the generation does not serve.
    pub(super) kill: KillTimer,
    pub(super) cause: Cause,
}

/// The change that is in progress, and what follows it.
#[derive(Default)]
pub(super) struct Changes {
    /// Its generation is starting.
    pub(super) running: Option<Change>,
    /// Clients that have requested a reload during a change; `Some` without clients after a signal.
    queued: Option<Vec<Client>>,
    /// When what the last change needed is given back.
    pub(super) release: Option<Instant>,
}

impl Changes {
    /// Whether the configuration of this generation is to take over.
    pub(super) fn starts(&self, generation: Pid) -> bool {
        self.running.as_ref().is_some_and(|change| change.new.pid == generation)
    }

    /// The generation has ended before it served.
    pub(super) fn take_of(&mut self, generation: Pid) -> Option<Change> {
        self.running.take_if(|change| change.new.pid == generation)
    }

    /// The loggers of the configuration that is to take over.
    pub(super) fn loggers(&self) -> &[LoggerPlan] {
        self.running.as_ref().map_or(&[], |change| &change.new.loggers)
    }

    /// One reload serves all clients that have requested one during the change.
    fn queue(&mut self, clients: Vec<Client>) {
        self.queued.get_or_insert_default().extend(clients);
    }

    pub(super) fn take_queued(&mut self) -> Option<Vec<Client>> {
        self.queued.take()
    }

    /// Whether what the last change needed is to be given back now.
    pub(super) fn must_release(&mut self) -> bool {
        self.release.take_if(|at| *at <= Instant::now()).is_some()
    }
}

/// What a generation needs that is opened with the rights of the master.
struct Resources {
    accounts: Accounts,
    tls: Tls,
    folder: Option<Root>,
    sockets: Sockets,
    sinks: Vec<OpenSink>,
}

/// A change that is being prepared, with its resources.
pub(super) struct Preparation {
    pub(super) site: Site,
    pub(super) workers: usize,
    pub(super) accounts: Accounts,
    pub(super) tls: Tls,
    /// The folder of `taipan DIR`, opened with the rights of this process.
    pub(super) folder: Option<Root>,
    pub(super) sockets: Sockets,
    pub(super) sinks: Vec<OpenSink>,
    pub(super) cause: Cause,
}

pub(super) enum Cause {
    Start,
    Reload(Vec<Client>),
    /// There are new certificates by ACME.
    #[cfg_attr(not(feature = "acme"), allow(dead_code))]
    Renewal,
    Crash,
}

impl Cause {
    pub(super) fn unusable(&self) -> Unusable {
        match self {
            Cause::Crash => Unusable::LeftOut,
            Cause::Start | Cause::Reload(_) | Cause::Renewal => Unusable::Rejected,
        }
    }
}

impl Preparation {
    /// Drops descriptors and secrets in a forked child.
    pub(super) fn release(&mut self) {
        let Preparation { site: _, workers: _, accounts: _, tls, folder, sockets, sinks, cause } = self;
        *tls = Tls::default();
        *folder = None;
        *sockets = Sockets::default();
        sinks.clear();
        *cause = Cause::Crash;
    }
}

impl Master {
    pub(super) fn reload(&mut self, clients: Vec<Client>) {
        if !self.phase.is_serving() || self.upgrade.successor().is_some() {
            log::warn(format_args!("no reload: {UPGRADING}"));
            if self.phase.is_serving() {
                // The manager waits for the end of the reload that it has requested.
                self.notify.reloading();
                self.notify.ready();
            }
            return reject_clients(clients, UPGRADING);
        }
        if self.changes.running.is_some() {
            return self.changes.queue(clients);
        }
        self.notify.reloading();
        let cause = Cause::Reload(clients);
        let begun = match start::site(&self.options) {
            Ok(site) if self.children.generations.len() >= site.limits.generations => {
                let line = "too many earlier processes still finish their responses (limit \"generations\")";
                Err((vec![line.to_owned()], cause))
            }
            Ok(site) => self.begin_change(site, cause).map_err(|(lines, mut cause)| {
                let lines = self.all_problems(lines, &mut cause);
                (lines, cause)
            }),
            Err(lines) => Err((lines, cause)),
        };
        if let Err((lines, cause)) = begun {
            self.on_failed_change(&lines, cause);
        }
    }

    /// Prepares the resources of a configuration, and starts its generation.
    pub(super) fn begin_change(&mut self, mut site: Site, cause: Cause) -> Result<(), (Vec<String>, Cause)> {
        let workers = start::workers(&site).get();
        if let Err(line) = self.fit_descriptors(&mut site, workers) {
            return Err((vec![line], cause));
        }
        if let Some(starter) = &mut self.starter {
            starter.prepare(&site);
        }
        let Resources { accounts, tls, folder, sockets, sinks } =
            match self.open_resources(&mut site, workers, &cause) {
                Ok(resources) => resources,
                Err(lines) => return Err((lines, cause)),
            };
        // For sockets in use, `complete_change` does it.
        if self.served.is_none() {
            sockets.set_options(&site);
        }
        let mut preparation = Preparation { site, workers, accounts, tls, folder, sockets, sinks, cause };
        let started = self.start_generation(&mut preparation);
        let Preparation { site, accounts, tls, sockets, cause, .. } = preparation;
        match started {
            Ok(Started::Child(setup)) => std::process::exit(generation::run(site, *setup).into()),
            Ok(Started::Parent(new)) => {
                let kill = KillTimer::start(Instant::now(), START_TIMEOUT);
                let users = files::stamps_of_users(&site);
                self.changes.running = Some(Change { site, accounts, tls, users, sockets, new, kill, cause });
                Ok(())
            }
            Err(why) => {
                sockets.remove_files(&self.sockets);
                let earlier = self.children.generations.iter().filter(|g| g.state != State::Serving).count();
                Err((why.lines(earlier), cause))
            }
        }
    }

    /// Lowers the limits of a site to the descriptors that are allowed. Errors: it needs more in any case.
    fn fit_descriptors(&self, site: &mut Site, workers: usize) -> Result<(), String> {
        let allowed = self.descriptors;
        examine::too_few_descriptors(site, workers, allowed).map_or(Ok(()), Err)?;
        let wanted = site.limits.connections;
        memory::fit(site, workers, allowed);
        // The default is for machines that allow it, and too much for many others.
        let is_noticed = wanted != Limits::default().connections || site.limits.connections < FEW_CONNECTIONS;
        if site.limits.connections < wanted && is_noticed {
            log::warn(format_args!(
                "`connections` is {} in place of {wanted}, because {allowed} descriptors are allowed (`ulimit -Hn`, \
                 LimitNOFILE); raise the limit, or lower what `taipan check` lists",
                site.limits.connections
            ));
        }
        Ok(())
    }

    fn open_resources(
        &mut self,
        site: &mut Site,
        workers: usize,
        cause: &Cause,
    ) -> Result<Resources, Vec<String>> {
        let line = |text: String| vec![text];
        let accounts = self.accounts_of(site, cause).map_err(line)?;
        let folder = self.open_folder(site).map_err(line)?;
        if cause.unusable() == Unusable::Rejected {
            let pid_file = site.pid_file.as_deref().and_then(privileged_file::pid_file_problem);
            // Without control groups, a warning follows, and scripts run.
            let problem = pid_file.or_else(|| cgroup::problem(&site.scripts));
            problem.map_or(Ok(()), |why| Err(line(why)))?;
        }
        let tls = self.tls_of(site, cause)?;
        let sockets = self.sockets.changed_to(&site.listeners, workers);
        let sockets = sockets.map_err(|e| line(self.why_not_listening(e, self.control.is_some())))?;
        if sockets.is_empty() {
            return Err(line(NO_ADDRESS.to_owned()));
        }
        match log::open(site, cause.unusable()) {
            Ok(sinks) => Ok(Resources { accounts, tls, folder, sockets, sinks }),
            Err(why) => {
                sockets.remove_files(&self.sockets);
                Err(line(why))
            }
        }
    }

    /// The identities of a site. One that is served already keeps those that it has if the system has no such user
    /// any more.
    fn accounts_of(&self, site: &Site, cause: &Cause) -> Result<Accounts, String> {
        match (Accounts::of(site), cause, &self.served) {
            (Err(why), Cause::Crash | Cause::Renewal, Some(served)) => {
                log::error(format_args!("{why}; until a reload, the ids from before are used"));
                Ok(served.accounts.clone())
            }
            (found, ..) => found,
        }
    }

    /// Explains an address that is in use because the same site is already served.
    /// `has_control`: whether this program has the control socket of its site.
    pub(super) fn why_not_listening(&self, error: ListenError, has_control: bool) -> String {
        let what = &self.options.source;
        if !error.is_in_use() || has_control || !control::is_served(what) {
            let setting = match what {
                _ if !self.options.listen.is_empty() => "--listen",
                SiteSource::Folder(_) => "--listen",
                SiteSource::Config(ConfigSource::Own(_)) => "`listen`",
                SiteSource::Config(ConfigSource::Foreign(_)) => "the configuration",
            };
            return error.of_setting(setting).to_string();
        }
        let address = error.address();
        match what {
            SiteSource::Config(ConfigSource::Foreign(_)) => format!(
                "cannot listen on {address}: it is in use, and this configuration is served already; stop that program \
                 first"
            ),
            SiteSource::Config(ConfigSource::Own(path)) => format!(
                "cannot listen on {address}: it is in use, and a taipan that serves {0} is running already; to \
                 have that one read its configuration again, use taipan reload -c {0}",
                path.display()
            ),
            SiteSource::Folder(path) => format!(
                "cannot listen on {address}: it is in use, and a taipan that serves {} is running already; \
                 stop that one, or choose another address in --listen",
                path.display()
            ),
        }
    }

    /// Opens the folder of `taipan DIR`, which only the master may be able to reach, such as one in root's home.
    fn open_folder(&self, site: &Site) -> Result<Option<Root>, String> {
        let root = match (&self.options.source, site.roots().first()) {
            (SiteSource::Folder(_), Some(root)) => *root,
            _ => return Ok(None),
        };
        Root::open(root).map(Some).map_err(|e| format!("cannot open {}: {e}", root.display()))
    }

    /// The new generation serves. Errors: the pid file could not be written, and the start fails.
    pub(super) fn complete_change(&mut self) -> Result<(), Vec<String>> {
        let Some(change) = self.changes.running.take() else { return Ok(()) };
        let Change { site, accounts, tls, users, sockets, new, mut cause, .. } = change;
        let NewGeneration { pid: generation, loggers, errors, handoff } = new;
        if let Some(errors) = errors {
            log::write_to(errors, site.log.level);
        }
        if let Err(line) = self.replace_pid_file(&site, &cause) {
            if matches!(cause, Cause::Start) {
                self.children.generations.iter().for_each(Generation::kill);
                sockets.remove_files(&self.sockets);
                return Err(vec![line]);
            }
            log::error(format_args!("{line}"));
        }
        // Before the earlier generations leave: the last process that accepts from a socket must be the last to close
        // it.
        self.sockets.remove_files(&sockets);
        self.sockets = sockets;
        self.sockets.set_options(&site);
        // This generation replaces a crashed one, too.
        self.restart.cancel();
        // Running requests have the timeouts of the configuration that they began with.
        let patience = self.site().unwrap_or(&site).timeouts.reload;
        let until = Instant::now() + patience + GRACE;
        self.send_rates(&site, generation);
        match handoff {
            Some(handoff) if self.upgrade.has_serving_predecessor() => self.upgrade.take_over(handoff),
            handoff => self.retire_generations(Some(generation), handoff, until),
        }
        let clients = match &mut cause {
            Cause::Reload(clients) => std::mem::take(clients),
            Cause::Start | Cause::Renewal | Cause::Crash => Vec::new(),
        };
        self.respond_when_retired(clients);
        if self.phase.is_serving() {
            self.notify.ready();
        }
        let now = Instant::now();
        self.notify.schedule_ping(now);
        self.announce(&site, &cause);
        self.served = Some(Served::new(site, accounts, tls, users, now));
        self.release_pools();
        self.children.loggers.in_use = loggers;
        self.send_log_to_children();
        self.release_loggers();
        if let Some(starter) = &mut self.starter {
            starter.ready();
        }
        self.changes.release = Some(Instant::now() + sys::RELEASE_AFTER);
        self.begin_queued_reload();
        Ok(())
    }

    /// At the start, and when its path changes: writes the PID file of the new configuration, and removes the earlier
    /// one. Errors: the file could not be written.
    fn replace_pid_file(&mut self, site: &Site, cause: &Cause) -> Result<(), String> {
        if !matches!(cause, Cause::Start)
            && self.pid_file.as_ref().map(PidFile::path) == site.pid_file.as_deref()
        {
            return Ok(());
        }
        if let Some(before) = self.pid_file.take()
            && site.pid_file.as_deref() != Some(before.path())
        {
            before.remove();
        }
        let Some(path) = &site.pid_file else { return Ok(()) };
        let holder = match self.upgrade.has_serving_predecessor() {
            true => Holder::Predecessor,
            false if self.control.is_none() && control::is_served(&self.options.source) => Holder::Sibling,
            false => Holder::None,
        };
        self.pid_file = PidFile::write(path, holder)?;
        if self.pid_file.is_none() {
            let path = path.display();
            log::warn(format_args!("the pid file {path} stays that of the taipan that serves this already"));
        }
        Ok(())
    }

    /// Tells the administrator that the new generation serves.
    fn announce(&mut self, site: &Site, cause: &Cause) {
        match cause {
            Cause::Start => {
                let listeners = self.sockets.iter().map(|bound| bound.listener(&site.listeners));
                let listeners: Vec<Listener> = listeners.collect();
                announce::announce(site, &listeners);
                let warning = start::shared_account(&self.options, site);
                let trust = start::trust(&self.options, &listeners);
                warning.iter().chain(&trust).for_each(|line| terminal::err(format_args!("  {line}")));
                self.warn_of_missing_control();
            }
            Cause::Reload(_) => {
                self.children.certificates.end_pause();
                log::info(format_args!("the configuration has been reloaded"));
            }
            Cause::Renewal => log::info(format_args!("new certificates are served")),
            Cause::Crash => log::warn(format_args!("a new serving process has taken over")),
        }
    }

    fn warn_of_missing_control(&self) {
        if self.control.is_none() {
            let why = match control::is_served(&self.options.source) {
                true => "they reach the one that serves this already",
                false => "another program has the name of its control socket; signals reach it",
            };
            log::warn(format_args!("commands such as taipan reload do not reach this program: {why}"));
        }
    }

    fn begin_queued_reload(&mut self) {
        if let Some(clients) = self.changes.take_queued() {
            self.reload(clients);
        }
    }

    /// Responses in progress have the rates of the new configuration, too.
    fn send_rates(&self, site: &Site, new: Pid) {
        let rates = limits::rates(site);
        let mut messages: Vec<MasterCommand> = rates
            .chunks(Rates::IN_MESSAGE)
            .map(|rates| MasterCommand::Rates { follows: true, rates: rates.to_vec() })
            .collect();
        messages.push(MasterCommand::Rates { follows: false, rates: Vec::new() });
        let is_earlier = |generation: &&Generation| {
            generation.pid != new && generation.channel_state == ChannelState::Open
        };
        for generation in self.children.generations.iter().filter(is_earlier) {
            let sent = messages.iter().try_for_each(|message| generation.channel.send(message));
            if let Err(error) = sent {
                let pid = generation.pid;
                log::warn(format_args!("the process {pid} continues with its earlier rates: {error}"));
            }
        }
    }

    /// Makes all generations but the new one send their connections to it, and leave.
    pub(super) fn retire_generations(&mut self, new: Option<Pid>, handoff: Option<OwnedFd>, until: Instant) {
        let hand_over = |handoff| MasterCommand::HandOver(Some(handoff));
        let command = Rc::new(handoff.map_or(MasterCommand::Leave, hand_over));
        let now = Instant::now();
        for generation in self.children.generations.iter_mut().filter(|g| Some(g.pid) != new) {
            generation.send_descriptor(Rc::clone(&command));
            generation.on_event(Event::Replaced(until), now);
        }
    }

    /// The clients receive their response when no request can reach an earlier generation.
    pub(super) fn respond_when_retired(&mut self, clients: Vec<Client>) {
        let last = self.children.generations.iter_mut().rev().find(|g| matches!(g.state, State::Leaving(_)));
        match last {
            Some(last) if last.retirement != Retirement::Done => {
                last.waiting.extend(clients);
                last.retirement = Retirement::Until(Instant::now() + GRACE);
            }
            _ => clients.into_iter().for_each(|client| client.done("")),
        }
    }

    pub(super) fn on_failed_change(&mut self, lines: &[String], cause: Cause) {
        for line in lines {
            log::error(format_args!("{line}"));
        }
        self.notify.ready();
        // Ends the processes that only the failed change needed.
        self.release_pools();
        self.release_loggers();
        match cause {
            Cause::Start | Cause::Crash => {}
            Cause::Renewal => self.serve_renewed_later(),
            Cause::Reload(clients) => {
                log::error(format_args!("nothing was changed"));
                for client in clients {
                    client.failed(lines.iter().map(String::as_str).chain(["nothing was changed"]));
                }
            }
        }
        self.begin_queued_reload();
    }

    /// Ends the generation that is starting, if there is one.
    pub(super) fn drop_change(&mut self, why: &str) {
        let Some(change) = self.changes.running.take() else { return };
        let now = Instant::now();
        for generation in self.children.generations.iter_mut().filter(|g| g.pid == change.new.pid) {
            generation.end(&MasterCommand::Stop);
            generation.on_event(Event::Stopped(now + GRACE), now);
        }
        change.sockets.remove_files(&self.sockets);
        if let Cause::Reload(clients) = change.cause {
            reject_clients(clients, why);
        }
    }
}

pub(super) fn reject_clients(clients: impl IntoIterator<Item = Client>, why: &str) {
    clients.into_iter().for_each(|client| client.failed([why]));
}
