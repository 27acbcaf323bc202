//! The processes that have the servers of applications: one for each application. They outlive
//! configurations that have the same servers.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use site::model::{Level, Log, Site};
use site::upstream::Upstream;

use super::process::{Circumstances, PoolProcess, State};
use super::{Master, Phase};
use crate::ipc::Channel;
use crate::log::{self, OpenSink};
use crate::pool::message::PoolCommand;
use crate::pool::process::{self, PoolSetup};
use crate::privilege::Identity;
use crate::sys::{self, Fork};

impl Master {
    /// Starts the pools of the applications that have none, and names all of them. Errors: there can be no
    /// more processes, or there is no such user.
    pub(super) fn start_pools(&mut self, identity: Option<&Identity>) -> io::Result<Vec<Pid>> {
        let Some(site) = self.preparation.as_ref().map(|preparation| preparation.site.clone()) else {
            return Ok(Vec::new());
        };
        let mut pools = Vec::new();
        for (place, application) in site.upstreams.iter().enumerate() {
            let circumstances = circumstances(&site, application, identity)?;
            pools.push(match self.pool_of(application, &circumstances) {
                Some(pool) => pool.pid,
                None => self.start_pool(&site, place, circumstances)?,
            });
        }
        Ok(pools)
    }

    /// Channels to these pools, for each worker of a new serving process.
    pub(super) fn join_pools(&self, pools: &[Pid], workers: usize) -> io::Result<Vec<Vec<Channel>>> {
        let mut all: Vec<Vec<Channel>> = (0..workers).map(|_| Vec::new()).collect();
        for pid in pools {
            let pool = self.pools.iter().find(|pool| pool.pid == *pid);
            let Some(channel) = pool.and_then(|pool| pool.channel.as_ref()) else { continue };
            for channels in &mut all {
                let (ours, theirs) = Channel::pair()?;
                channel.send_until(&PoolCommand::Join(theirs.into()), Instant::now() + super::GRACE)?;
                channels.push(ours);
            }
        }
        Ok(all)
    }

    fn pool_of(&self, application: &Upstream, circumstances: &Circumstances) -> Option<&PoolProcess> {
        self.pools.iter().find(|pool| {
            pool.channel.is_some() && pool.application == *application && pool.circumstances == *circumstances
        })
    }

    fn start_pool(&mut self, site: &Site, place: usize, circumstances: Circumstances) -> io::Result<Pid> {
        let (ours, theirs) = Channel::pair()?;
        let identity = circumstances.identity.clone();
        let beginning = PoolSetup::of(site, place, theirs, identity);
        match sys::fork()? {
            Fork::Parent(pid) => {
                let application = site.upstreams[place].clone();
                let channel = Some(ours);
                self.pools.push(PoolProcess { pid, application, circumstances, channel, until: None });
                Ok(pid)
            }
            Fork::Child => {
                drop(ours);
                let Log { error, level, .. } = &site.log;
                // Where it is written to has been opened before, as whoever this is now.
                let errors = OpenSink::open(error).or_else(|_| OpenSink::open(&site::model::Sink::Stderr));
                self.forget();
                if let Ok(errors) = errors {
                    log::write_to(errors, (*level).max(Level::Error));
                }
                std::process::exit(process::run(beginning).into())
            }
        }
    }

    /// Leaves the pools of applications that are served no more: each ends when nobody has it.
    pub(super) fn leave_pools(&mut self) {
        let coming = self.change.as_ref().map(|change| &change.site);
        let sites: Vec<&Site> = self.site.iter().chain(coming).collect();
        for (at, newer) in newest(&self.pools).into_iter().enumerate() {
            let pool = &mut self.pools[at];
            let is_served = |site: &&Site| site.upstreams.contains(&pool.application);
            if !newer || !sites.iter().any(is_served) {
                pool.channel = None;
            }
        }
    }

    /// Has what pools say written to the log as it is now.
    pub(super) fn tell_pools_of_log(&self) {
        let Some(log) = self.site.as_ref().map(|site| &site.log) else { return };
        let Ok(Some(file)) = OpenSink::open(&log.error).map(OpenSink::into_file) else { return };
        for channel in self.pools.iter().filter_map(|pool| pool.channel.as_ref()) {
            if let Ok(file) = file.as_fd().try_clone_to_owned().map(File::from) {
                _ = channel.send(&PoolCommand::Log(file.into()));
            }
        }
    }

    /// `false`: it was none. Without its pools a process cannot serve, and is replaced with them.
    pub(super) fn pool_ended(&mut self, pid: Pid, end: &str) -> bool {
        let Some(place) = self.pools.iter().position(|pool| pool.pid == pid) else { return false };
        let pool = self.pools.remove(place);
        if pool.channel.is_none() || self.phase != Phase::Keeping {
            return true;
        }
        let name = &pool.application.name;
        log::error(format_args!("the process that manages the application \"{name}\" has ended: {end}"));
        // Who is about to serve without it does not begin; who serves already is replaced, and finishes.
        for generation in self.generations.iter().filter(|generation| generation.state == State::Starting) {
            // Fails only if it has ended, too.
            _ = kill(generation.pid, Signal::SIGKILL);
        }
        let now = Instant::now();
        self.restart = Some(now + self.restart_limit.count(now));
        true
    }

    /// When nobody is served any more, nobody needs them.
    pub(super) fn end_pools(&mut self, now: Instant) {
        if self.phase == Phase::Keeping || !self.generations.is_empty() {
            return;
        }
        for pool in &mut self.pools {
            pool.channel = None;
            match pool.until {
                None => pool.until = Some(now + pool.patience() + super::GRACE),
                Some(until) if until <= now => {
                    // The kernel then kills what it has started, too.
                    _ = kill(pool.pid, Signal::SIGKILL);
                    pool.until = Some(now + super::GRACE);
                }
                Some(_) => {}
            }
        }
    }
}

/// Of each, whether there is none after it for the same application.
fn newest(pools: &[PoolProcess]) -> Vec<bool> {
    let has_newer =
        |at: usize| pools[at + 1..].iter().any(|other| other.application == pools[at].application);
    (0..pools.len()).map(|at| !has_newer(at)).collect()
}

fn circumstances(
    site: &Site,
    application: &Upstream,
    identity: Option<&Identity>,
) -> io::Result<Circumstances> {
    let identity = match application.managed().and_then(|managed| managed.account.as_ref()) {
        None => identity.cloned(),
        Some(account) => Identity::of_account(account)
            .map_err(|why| io::Error::other(format!("application \"{}\": {why}", application.name)))?,
    };
    Ok(Circumstances {
        identity,
        chroot: site.chroot.clone(),
        sandbox: site.sandbox,
        resources: site.scripts.resources,
        spool: site.scripts.spool.clone(),
    })
}
