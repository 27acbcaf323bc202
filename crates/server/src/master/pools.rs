//! The pools of applications: one process for each application, one for the forward proxy, and one for names of
//! clients. A pool outlives a configuration if the next one has the same application.

use std::io;
use std::path::Path;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use site::model::{Level, Site};
use site::upstream::Upstream;

use super::Master;
use super::change::Preparation;
use super::lifecycle::State;
use super::loggers::LoggerPlan;
use super::process::{Circumstances, ErrorLog, PoolProcess, Service};
use crate::control::{Client, Drain};
use crate::file_stamps::FileStamps;
use crate::forward_proxy::process as forward_proxy;
use crate::log::{self, LogCommand, OpenSink, SharedLog};
use crate::name_lookup;
use crate::pool::message::PoolCommand;
use crate::pool::process::{self, PoolSetup};
use crate::process::ipc::Channel;
use crate::process::privilege::Accounts;
use crate::process::supervisor::KillTimer;
use crate::service_process::ServiceSetup;
use crate::sys::{self, Fork};

impl Master {
    /// Starts the pools of the applications that have none, and returns the pools of all, behind them those of the
    /// forward proxy and of the names of clients. Errors: of `fork`.
    pub(super) fn start_pools(
        &mut self,
        preparation: &mut Preparation,
        loggers: &[LoggerPlan],
    ) -> io::Result<Vec<Pid>> {
        let services: Vec<Service> = services(&preparation.site).collect();
        let mut pools = Vec::new();
        for (index, service) in services.into_iter().enumerate() {
            let circumstances = circumstances(&preparation.site, &service, &preparation.accounts);
            pools.push(match self.pool_of(&service, &circumstances) {
                Some(pool) => pool.pid,
                None => {
                    let pid = self.start_pool(preparation, index, service, circumstances, loggers)?;
                    self.drain_in_pool(pid);
                    pid
                }
            });
        }
        Ok(pools)
    }

    /// Channels to these pools, for each worker of a new generation.
    pub(super) fn join_pools(&self, pools: &[Pid], workers: usize) -> io::Result<Vec<Vec<Channel>>> {
        let mut all: Vec<Vec<Channel>> = (0..workers).map(|_| Vec::new()).collect();
        for pid in pools {
            let Some(pool) = self.pools.iter().find(|pool| pool.pid == *pid) else { continue };
            let Some(channel) = &pool.channel else { continue };
            for channels in &mut all {
                let (ours, theirs) = Channel::pair()?;
                let sent =
                    channel.send_until(&PoolCommand::AddWorker(theirs.into()), Instant::now() + super::GRACE);
                // It may have ended, and is replaced then.
                sent.map_err(|error| {
                    let service = &pool.service;
                    io::Error::other(format!(
                        "the process that manages the {service} cannot be reached: {error}"
                    ))
                })?;
                channels.push(ours);
            }
        }
        Ok(all)
    }

    fn pool_of(&self, service: &Service, circumstances: &Circumstances) -> Option<&PoolProcess> {
        self.pools.iter().find(|pool| {
            pool.channel.is_some() && pool.service == *service && pool.circumstances == *circumstances
        })
    }

    fn start_pool(
        &mut self,
        preparation: &mut Preparation,
        index: usize,
        service: Service,
        circumstances: Circumstances,
        loggers: &[LoggerPlan],
    ) -> io::Result<Pid> {
        let (ours, theirs) = Channel::pair()?;
        let identity = circumstances.identity.clone();
        let errors = self
            .open_log(&preparation.site.log.error, loggers)
            .or_else(|_| OpenSink::open(&site::model::Sink::Stderr));
        match sys::fork()? {
            Fork::Parent(pid) => {
                let channel = Some(ours);
                self.pools.push(PoolProcess {
                    pid,
                    service,
                    circumstances,
                    channel,
                    log: ErrorLog::Current,
                    kill: None,
                });
                Ok(pid)
            }
            Fork::Child => {
                drop(ours);
                self.release_in_child(Some(preparation));
                let site = &preparation.site;
                if let Ok(errors) = errors {
                    log::write_to(errors, site.log.level.max(Level::Error));
                }
                let code = match service {
                    Service::Application(_) => process::run(PoolSetup::of(site, index, theirs, identity)),
                    Service::ForwardProxy(rules) => {
                        forward_proxy::run(*rules, ServiceSetup::of(site, theirs, identity))
                    }
                    Service::ClientNames => name_lookup::run(ServiceSetup::of(site, theirs, identity)),
                };
                std::process::exit(code.into())
            }
        }
    }

    /// Closes the channels to pools that no configuration needs. Each ends when its last worker has ended.
    pub(super) fn release_pools(&mut self) {
        let next = self.change.as_ref().map(|change| &change.site);
        let sites: Vec<&Site> = self.site.iter().chain(next).collect();
        for at in 0..self.pools.len() {
            let (pool, later) = (&self.pools[at], &self.pools[at + 1..]);
            let is_replaced = later.iter().any(|other| other.service == pool.service);
            let is_served = sites.iter().any(|site| services(site).any(|service| service == pool.service));
            if is_replaced || !is_served {
                self.pools[at].channel = None;
            }
        }
    }

    /// Sends the error log, as it is opened now, to the pools that do not have it.
    pub(super) fn send_log_to_pools(&mut self, log: &SharedLog, level: Level) {
        for pool in self.pools.iter_mut().filter(|pool| pool.log != ErrorLog::Current) {
            let Some(channel) = &pool.channel else { continue };
            let command = log.try_clone().map(|log| PoolCommand::Log(LogCommand::MoveTo { log, level }));
            let sent = command.and_then(|command| channel.send(&command));
            pool.log = pool.log.after(sent, &format_args!("the process that manages the {}", pool.service));
        }
    }

    /// Whether a pool, of this configuration or of one before, is of an application with this name.
    pub(super) fn has_application(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.service.application().is_some_and(|upstream| upstream.name == name))
    }

    /// Has the pool of an application take an endpoint out of service, or put it back. The pool responds.
    pub(super) fn drain(&self, client: Client, drain: Drain) {
        let Drain { application, endpoint, change } = drain;
        let is_named = |pool: &&PoolProcess| {
            pool.service.application().is_some_and(|upstream| upstream.name == application)
        };
        let pool = self.pools.iter().rev().find(is_named);
        match pool.and_then(|pool| pool.channel.as_ref()) {
            None => client.failed([&*format!("there is no application \"{}\"", application.escape_debug())]),
            Some(channel) => {
                let command = PoolCommand::Drain { change, endpoint, to: client.into_socket() };
                let sent = channel.send(&command);
                if let (Err(error), PoolCommand::Drain { to, .. }) = (sent, command) {
                    let line = format!(
                        "the process that manages the application does not take the command: {error}; try again"
                    );
                    Client::of(to).failed([&*line]);
                }
            }
        }
    }

    /// `false`: the process was no pool. A generation cannot serve without its pools, and is replaced with them.
    pub(super) fn on_pool_exit(&mut self, pid: Pid, end: &str) -> bool {
        let Some(at) = self.pools.iter().position(|pool| pool.pid == pid) else { return false };
        let pool = self.pools.remove(at);
        if pool.channel.is_none() || !self.phase.is_serving() {
            return true;
        }
        log::error(format_args!("the process that manages the {} has ended: {end}", pool.service));
        // A generation that is starting would serve without it. One that serves is replaced, and finishes its requests.
        for generation in self.generations.iter().filter(|generation| generation.state == State::Starting) {
            // Fails only if it has ended.
            _ = kill(generation.pid, Signal::SIGKILL);
        }
        self.schedule_restart();
        true
    }

    /// Ends the pools when the last generation has ended and there will be no other.
    pub(super) fn end_pools(&mut self, now: Instant) {
        if self.phase.is_serving() || !self.generations.is_empty() {
            return;
        }
        for pool in &mut self.pools {
            pool.channel = None;
            let grace = pool.patience() + super::GRACE;
            if pool.kill.get_or_insert_with(|| KillTimer::start(now, grace)).expires(now) {
                // The kernel then kills the processes of the application, too (PR_SET_PDEATHSIG).
                _ = kill(pool.pid, Signal::SIGKILL);
            }
        }
    }
}

/// In the order of the site's applications.
fn services(site: &Site) -> impl Iterator<Item = Service> {
    let forward_proxy = site.forward_proxy.iter().cloned().map(Box::new).map(Service::ForwardProxy);
    site.upstreams
        .iter()
        .map(|upstream| Service::Application(Box::new(upstream.clone())))
        .chain(forward_proxy)
        .chain(site.resolution.client_names.map(|_| Service::ClientNames))
}

fn circumstances(site: &Site, service: &Service, accounts: &Accounts) -> Circumstances {
    let own = accounts.own.as_ref();
    let identity = service.application().map_or(own, |application| accounts.of_application(application));
    Circumstances {
        identity: identity.cloned(),
        chroot: site.chroot.clone(),
        sandbox: site.sandbox,
        resources: site.scripts.resources,
        spool: site.scripts.spool.clone(),
        names: service.application().is_none_or(Upstream::has_names).then(|| {
            // With a changed file, a reload starts another pool, also where the old one cannot see the file.
            let files = ["/etc/resolv.conf", "/etc/hosts"];
            (site.resolution.clone(), FileStamps::of(files.map(Path::new)))
        }),
        tls: service
            .application()
            .filter(|application| application.checks_by_tls())
            .map(|application| FileStamps::of(application.tls_files())),
    }
}
