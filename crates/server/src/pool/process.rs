//! A pool as a process: who it is, and its loop.

use std::io;
use std::path::PathBuf;

use rustix::thread::CapabilitySet;
use site::model::{Scripts, Site};
use site::upstream::Upstream;
use tokio::io::Interest;

use super::balancer::Balancer;
use super::message::PoolCommand;
use crate::ipc::{Channel, Received};
use crate::privilege::Identity;
use crate::spawner::process::{Privileges, settle_in};
use crate::{log, sys, terminal};

const FAILED: u8 = 1;

/// What a pool begins with.
pub struct PoolSetup {
    pub application: Upstream,
    pub scripts: Scripts,
    pub master: Channel,
    pub chroot: Option<PathBuf>,
    /// `None`: it stays who it is.
    pub identity: Option<Identity>,
    pub privileges: Privileges,
}

impl PoolSetup {
    /// For an application of the site, by its place in it.
    pub fn of(site: &Site, place: usize, master: Channel, identity: Option<Identity>) -> PoolSetup {
        let mut inside = site.clone();
        site.chroot.iter().for_each(|folder| inside.enter(folder));
        PoolSetup {
            application: inside.upstreams.swap_remove(place),
            scripts: inside.scripts,
            master,
            chroot: site.chroot.clone(),
            identity,
            privileges: Privileges::of(site),
        }
    }
}

/// Until nobody is there whom it could serve; gives the exit code. To be called while there is one thread
/// only.
pub fn run(beginning: PoolSetup) -> u8 {
    let name = beginning.application.name.clone();
    match begin(beginning) {
        Ok(()) => 0,
        Err(why) => {
            terminal::err(format_args!("taipan: application \"{name}\": {why}"));
            FAILED
        }
    }
}

fn begin(beginning: PoolSetup) -> Result<(), String> {
    let PoolSetup { application, scripts, master, chroot, identity, privileges } = beginning;
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    settle_in(chroot, identity, privileges, CapabilitySet::empty())?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(Default::default()).map_err(failed("run"))?;
    runtime.block_on(serve(application, scripts, master)).map_err(failed("go on"))
}

async fn serve(application: Upstream, scripts: Scripts, master: Channel) -> io::Result<()> {
    let balancer = Balancer::new(application, scripts)?;
    let mut master = Some(sys::watch(master, Interest::READABLE)?);
    loop {
        let until = balancer.tend();
        if balancer.is_over() {
            return Ok(());
        }
        let order = async {
            match &master {
                Some(master) => master.async_io(Interest::READABLE, Channel::receive::<PoolCommand>).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = order => match order {
                Ok(Received::Message(PoolCommand::Join(channel))) => balancer.join(channel),
                Ok(Received::Message(PoolCommand::Log(file))) => log::replace(0, file),
                Ok(Received::End) | Err(_) => {
                    master = None;
                    balancer.master_has_gone();
                }
            },
            () = balancer.changed(until) => {}
        }
    }
}
