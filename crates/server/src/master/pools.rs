//! The pools of applications: one process for each application, one for the forward proxy, and one for names of
//! clients. A pool outlives a configuration if the next one has the same application.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::endpoint::Resolution;
use site::forward_proxy::ForwardProxy;
use site::model::{Level, Resources, Sandbox, Sink, Site};
use site::upstream::Upstream;

use super::acts::Acts;
use super::change::Preparation;
use super::children::ChildProcess;
use super::generations::{ChannelState, Generation};
use super::lifecycle::State;
use super::loggers::LoggerPlan;
use super::logs::{ErrorLog, LogWriter};
use super::{GRACE, Master};
use crate::control::{Client, Drain, DrainChange};
use crate::file_stamps::FileStamps;
use crate::forward_proxy::process as forward_proxy;
use crate::log::{self, OpenSink};
use crate::name_lookup;
use crate::pool::message::PoolCommand;
use crate::pool::process::{self, PoolSetup};
use crate::process::ipc::Channel;
use crate::process::privilege::{Accounts, Identity};
use crate::service_process::ServiceSetup;
use crate::spawner::KILL_TIMEOUT;
use crate::sys::Fork;

/// In the order of their starts.
#[derive(Default)]
pub(super) struct Pools(Vec<PoolProcess>);

/// A process that connects for workers. It outlives a generation if the next one has the same service. Without the
/// master, it ends when the last generation leaves it.
pub(super) struct PoolProcess {
    process: ChildProcess,
    service: Service,
    circumstances: Circumstances,
    log: ErrorLog,
    /// Closed: it has ended, or takes no more workers, because it had no descriptor for one.
    channel_state: ChannelState,
}

/// What a process connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Service {
    /// The endpoints of an application.
    Application(Box<Upstream>),
    /// The destinations of the forward proxy.
    ForwardProxy(Box<ForwardProxy>),
    /// DNS servers, for the names of clients.
    ClientNames,
}

/// A pool is replaced when one of these changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Circumstances {
    identity: Option<Identity>,
    chroot: Option<PathBuf>,
    sandbox: Sandbox,
    resources: Resources,
    spool: PathBuf,
    /// `None`: nothing is resolved.
    names: Option<(Resolution, FileStamps)>,
    /// The files of its TLS. `None`: it has none.
    tls: Option<FileStamps>,
}

impl Service {
    fn application(&self) -> Option<&Upstream> {
        match self {
            Service::Application(application) => Some(application),
            Service::ForwardProxy(_) | Service::ClientNames => None,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Application(application) => out.write_str(&application.label()),
            Service::ForwardProxy(_) => out.write_str("forward proxy"),
            Service::ClientNames => out.write_str("names of clients"),
        }
    }
}

impl PoolProcess {
    fn log_writer(&mut self) -> Option<LogWriter<'_>> {
        Some(LogWriter {
            what: format!("the process that manages the {}", self.service).into(),
            channel: self.process.channel()?,
            log: &mut self.log,
            send: |channel, command| channel.send(&PoolCommand::Log(command)),
        })
    }

    /// How long the process may take to end.
    pub(super) fn patience(&self) -> Duration {
        self.service.application().and_then(Upstream::managed).map_or(Duration::ZERO, |managed| managed.grace)
            + KILL_TIMEOUT
    }
}

impl Pools {
    pub(super) fn iter(&self) -> impl Iterator<Item = &PoolProcess> {
        self.0.iter()
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        self.0.iter().map(|pool| &pool.process)
    }

    pub(super) fn processes_mut(&mut self) -> impl Iterator<Item = &mut ChildProcess> {
        self.0.iter_mut().map(|pool| &mut pool.process)
    }

    pub(super) fn log_writers(&mut self) -> impl Iterator<Item = LogWriter<'_>> {
        self.0.iter_mut().filter_map(PoolProcess::log_writer)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Channels to these pools, for each worker of a new generation.
    pub(super) fn join(&self, pools: &[Pid], workers: usize) -> io::Result<Vec<Vec<Channel>>> {
        let mut all: Vec<Vec<Channel>> = (0..workers).map(|_| Vec::new()).collect();
        for pid in pools {
            let Some(pool) = self.0.iter().find(|pool| pool.process.pid == *pid) else { continue };
            let Some(channel) = pool.process.channel() else { continue };
            for channels in &mut all {
                let (ours, theirs) = Channel::pair()?;
                let sent = channel.send_until(&PoolCommand::AddWorker(theirs.into()), Instant::now() + GRACE);
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

    /// Those whose channels may still be closed.
    pub(super) fn open_channels(&self) -> impl Iterator<Item = (Pid, &Channel)> {
        let open = self.0.iter().filter(|pool| pool.channel_state == ChannelState::Open);
        open.filter_map(|pool| Some((pool.process.pid, pool.process.channel()?)))
    }

    /// One that can be used again: not one that takes no more workers.
    fn of(&self, service: &Service, circumstances: &Circumstances) -> Option<&PoolProcess> {
        self.0.iter().find(|pool| {
            pool.process.channel().is_some_and(|channel| !channel.is_closed())
                && pool.service == *service
                && pool.circumstances == *circumstances
        })
    }

    /// Leaves the pools that none of these sites needs. Each ends when its last worker has ended.
    pub(super) fn release(&mut self, sites: &[&Site]) {
        for at in 0..self.0.len() {
            let (pool, later) = (&self.0[at], &self.0[at + 1..]);
            let is_replaced = later.iter().any(|other| other.service == pool.service);
            let is_served = sites.iter().any(|site| services(site).any(|service| service == pool.service));
            if is_replaced || !is_served {
                self.0[at].process.leave();
            }
        }
    }

    /// Whether a pool, of this configuration or of one before, is of an application with this name.
    pub(super) fn has_application(&self, name: &str) -> bool {
        self.0.iter().any(|pool| pool.service.application().is_some_and(|upstream| upstream.name == name))
    }

    /// Has the pool of an application take an endpoint out of service, or put it back. The pool responds.
    pub(super) fn drain(&self, client: Client, drain: Drain) {
        let Drain { application, endpoint, change } = drain;
        let is_named = |pool: &&PoolProcess| {
            pool.service.application().is_some_and(|upstream| upstream.name == application)
        };
        let pool = self.0.iter().rev().find(is_named);
        match pool.and_then(|pool| pool.process.channel()) {
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

    /// Has a new pool leave out the endpoints that have been drained. What it neither has nor may have when its names are
    /// resolved, it ignores.
    fn drain_in(&self, pid: Pid, acts: &Acts) {
        let Some(pool) = self.0.iter().find(|pool| pool.process.pid == pid) else { return };
        let (Some(application), Some(channel)) = (pool.service.application(), pool.process.channel()) else {
            return;
        };
        for endpoint in acts.drained_in(&application.name) {
            // Nothing reads the response.
            if let Ok((to, _)) = UnixStream::pair() {
                let (change, endpoint) = (DrainChange::Drain, endpoint.to_owned());
                _ = channel.send(&PoolCommand::Drain { change, endpoint, to: to.into() });
            }
        }
    }

    /// They are to end: there are no generations, and there will be no other.
    fn end(&mut self, now: Instant) {
        for pool in &mut self.0 {
            pool.process.end_within(pool.patience() + GRACE, now);
        }
    }
}

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
            pools.push(match self.children.pools.of(&service, &circumstances) {
                Some(pool) => pool.process.pid,
                None => {
                    let pid = self.start_pool(preparation, index, service, circumstances, loggers)?;
                    self.children.pools.drain_in(pid, &self.acts);
                    pid
                }
            });
        }
        Ok(pools)
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
            .children
            .loggers
            .open(&preparation.site.log.error, loggers)
            .or_else(|_| OpenSink::open(&Sink::Stderr));
        match self.fork_child(Some(preparation))? {
            Fork::Parent(pid) => {
                let process = ChildProcess::new(pid, ours);
                let log = ErrorLog::Current;
                let channel_state = ChannelState::Open;
                let pool = PoolProcess { process, service, circumstances, log, channel_state };
                self.children.pools.0.push(pool);
                Ok(pid)
            }
            Fork::Child => {
                drop(ours);
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

    /// Leaves the pools that no configuration needs.
    pub(super) fn release_pools(&mut self) {
        let served = self.served.as_ref().map(|served| &served.site);
        let next = self.changes.running.as_ref().map(|change| &change.site);
        let sites: Vec<&Site> = served.into_iter().chain(next).collect();
        self.children.pools.release(&sites);
    }

    /// A generation cannot serve without its pools, and is replaced with them. A pool that takes no more workers serves
    /// those that it has.
    pub(super) fn on_pool_closed(&mut self, pid: Pid) {
        let Some(pool) = self.children.pools.0.iter_mut().find(|pool| pool.process.pid == pid) else {
            return;
        };
        pool.channel_state = ChannelState::Closed;
        if !self.phase.is_serving() {
            return;
        }
        // A generation that is starting would serve without it. One that serves is replaced, and finishes its requests.
        let generations = self.children.generations.iter();
        generations.filter(|generation| generation.state == State::Starting).for_each(Generation::kill);
        self.restart.schedule();
    }

    pub(super) fn on_pool_exit(&mut self, pid: Pid, end: &str) {
        if self.children.pools.open_channels().any(|(open, _)| open == pid) {
            self.on_pool_closed(pid);
        }
        let pools = &mut self.children.pools.0;
        let Some(at) = pools.iter().position(|pool| pool.process.pid == pid) else { return };
        let pool = pools.remove(at);
        if pool.process.channel().is_some() && self.phase.is_serving() {
            log::error(format_args!("the process that manages the {} has ended: {end}", pool.service));
        }
    }

    /// Ends the pools when the last generation has ended and there will be no other.
    pub(super) fn end_pools(&mut self, now: Instant) {
        if !self.phase.is_serving() && self.children.generations.is_empty() {
            self.children.pools.end(now);
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
