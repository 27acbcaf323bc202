//! The spawner as a process: its account and privileges, and a thread for each channel.

use std::io;
use std::sync::Arc;
use std::thread;

use site::model::{Account, Site};

use super::allowlist::Allowlist;
use super::cgroup::Cgroup;
use super::groups::{self, Settings};
use crate::process::child::{self, Privileges};
use crate::process::ipc::Channel;
use crate::process::privilege::{Accounts, Identity};
use crate::process::supervisor::what_to_do;
use crate::sys;

/// Bytes of the stack of a thread. The launcher has one of its own.
const STACK: usize = 128 * 1024;
/// Begins the message of a failure.
const FAILED: &str = "no scripts can be started";

pub struct SpawnerSetup {
    /// One channel to each worker.
    pub channels: Vec<Channel>,
    pub settings: Settings,
    pub allowlist: Allowlist,
    /// Each worker has an equal share. `None`: scripts are in the control group of this process.
    pub cgroups: Option<Vec<Cgroup>>,
    /// With the capabilities to start and to end scripts of other accounts.
    pub privileges: Privileges,
}

impl SpawnerSetup {
    pub fn of(
        site: &Site,
        channels: Vec<Channel>,
        accounts: &Accounts,
        cgroups: Option<Vec<Cgroup>>,
    ) -> SpawnerSetup {
        let mut inside = site.clone();
        site.chroot.iter().for_each(|folder| inside.enter(folder));
        let settings = Settings::of(&inside.scripts, &inside.log);
        let Accounts { own, scripts, .. } = accounts;
        let keeps = accounts.capabilities();
        let of_account = |account: Option<&Account>| match account {
            None => own.as_ref(),
            Some(account) => scripts.iter().find(|(name, _)| name == account)?.1.as_ref(),
        };
        // Where the spawner keeps capabilities, scripts of its own account must drop them, too.
        let allowlist = Allowlist::of(&inside, |account| {
            of_account(account).filter(|_| !keeps.is_empty()).map(Identity::credentials)
        });
        let own = Privileges::of(site, own.clone(), site.scripts.new_privileges);
        SpawnerSetup { channels, settings, allowlist, cgroups, privileges: Privileges { keeps, ..own } }
    }
}

/// Starts programs until every channel is closed, and returns the exit code. The process must have only one thread.
pub fn run(setup: SpawnerSetup) -> u8 {
    // Each thread ends its groups. A thread that fails ends the process.
    let ended = begin(setup).map(|threads| {
        thread::sleep(sys::RELEASE_AFTER);
        sys::release_start();
        threads.into_iter().for_each(|thread| _ = thread.join());
    });
    child::exit_code(FAILED, ended)
}

fn begin(setup: SpawnerSetup) -> Result<Vec<thread::JoinHandle<()>>, String> {
    let SpawnerSetup { channels, settings, allowlist, mut cgroups, privileges } = setup;
    privileges.assume()?;
    let allowlist = Arc::new(allowlist);
    let each = cgroups.as_ref().map_or(0, Vec::len) / channels.len().max(1);
    let start = |(number, channel)| {
        let own = cgroups.as_mut().map(|all| all.split_off(all.len() - each));
        start_thread(number, channel, settings.clone(), allowlist.clone(), own)
    };
    let threads = channels.into_iter().enumerate().map(start).collect::<io::Result<_>>();
    threads.map_err(|e| format!("cannot start a thread: {e}{}", what_to_do(&e)))
}

fn start_thread(
    number: usize,
    channel: Channel,
    settings: Settings,
    allowlist: Arc<Allowlist>,
    cgroups: Option<Vec<Cgroup>>,
) -> io::Result<thread::JoinHandle<()>> {
    let serve = move || {
        if let Err(error) = groups::serve(channel, settings, Some(allowlist), cgroups) {
            // The master replaces this process. Otherwise the worker would wait for events for ever.
            std::process::exit(child::exit_code(FAILED, Err(error.to_string())).into());
        }
    };
    thread::Builder::new().name(format!("spawner {number}")).stack_size(STACK).spawn(serve)
}
