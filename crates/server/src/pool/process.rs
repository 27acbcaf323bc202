//! A pool as a process: who it is, and its loop.

use std::io;
use std::path::PathBuf;

use nix::sys::signal::SigSet;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use site::application::Application;
use site::model::{Sandbox, Scripts, Site};
use tokio::io::Interest;

use super::hub::Hub;
use super::message::Order;
use crate::channel::{Channel, Received};
use crate::privilege::{self, Identity};
use crate::{log, sandbox, sys, terminal};

/// Signals have numbers up to this.
const LAST_SIGNAL: i32 = 64;
/// Behind 0, 1 and 2.
const FIRST_OTHER: u32 = 3;
const FAILED: u8 = 1;

/// What a pool begins with.
pub struct Beginning {
    pub application: Application,
    pub scripts: Scripts,
    pub keeper: Channel,
    pub chroot: Option<PathBuf>,
    /// `None`: it stays who it is.
    pub identity: Option<Identity>,
    pub sandbox: Sandbox,
}

impl Beginning {
    /// For an application of the site, by its place in it.
    pub fn of(site: &Site, place: usize, keeper: Channel, identity: Option<Identity>) -> Beginning {
        let mut inside = site.clone();
        site.chroot.iter().for_each(|folder| inside.enter(folder));
        Beginning {
            application: inside.applications.swap_remove(place),
            scripts: inside.scripts,
            keeper,
            chroot: site.chroot.clone(),
            identity,
            sandbox: site.sandbox,
        }
    }
}

/// Until nobody is there whom it could serve; gives the exit code. To be called while there is one thread
/// only.
pub fn run(beginning: Beginning) -> u8 {
    let name = beginning.application.name.clone();
    match begin(beginning) {
        Ok(()) => 0,
        Err(why) => {
            terminal::err(format_args!("taipan: application \"{name}\": {why}"));
            FAILED
        }
    }
}

fn begin(beginning: Beginning) -> Result<(), String> {
    let Beginning { application, scripts, keeper, chroot, identity, sandbox } = beginning;
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    setsid().map_err(|e| format!("cannot begin a session: {e}"))?;
    // Of ours, none is; but whoever started the program may have left it some.
    _ = sys::keep_from_programs(FIRST_OTHER);
    chroot.map_or(Ok(()), |folder| privilege::chroot(&folder))?;
    identity.map_or(Ok(()), |identity| identity.become_it())?;
    if sandbox != Sandbox::Off {
        sandbox::give_up_privileges().map_err(|e| format!("cannot give up privileges: {e}"))?;
    }
    // What it starts may be the same user, and might trace it or read its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| format!("cannot be closed: {e}"))?;
    (1..=LAST_SIGNAL).for_each(sys::reset_signal);
    // The keeper ends this process by leaving it.
    SigSet::all().thread_block().map_err(|e| format!("cannot block signals: {e}"))?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(Default::default()).map_err(failed("run"))?;
    runtime.block_on(serve(application, scripts, keeper)).map_err(failed("go on"))
}

async fn serve(application: Application, scripts: Scripts, keeper: Channel) -> io::Result<()> {
    let hub = Hub::new(application, scripts)?;
    let mut keeper = Some(sys::watch(keeper, Interest::READABLE)?);
    loop {
        let until = hub.tend();
        if hub.is_over() {
            return Ok(());
        }
        let order = async {
            match &keeper {
                Some(keeper) => keeper.async_io(Interest::READABLE, Channel::receive::<Order>).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = order => match order {
                Ok(Received::Message(Order::Join(channel))) => hub.join(channel),
                Ok(Received::Message(Order::Log(file))) => log::replace(0, file),
                Ok(Received::End) | Err(_) => {
                    keeper = None;
                    hub.keeper_has_gone();
                }
            },
            () = hub.changed(until) => {}
        }
    }
}
