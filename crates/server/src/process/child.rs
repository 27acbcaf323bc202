//! The frame of a child of the master: what it gives up, its loop, and its exit code. Does not know its work.

use std::io;
use std::path::PathBuf;

use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use rustix::thread::CapabilitySet;
use site::model::{NewPrivileges, Site};
use tokio::runtime::LocalRuntime;

use super::privilege::{self, Identity};
use super::sandbox;
use crate::{sys, terminal};

/// Signals have numbers up to this.
const LAST_SIGNAL: i32 = 64;
/// The first descriptor behind the standard streams.
const FIRST_OTHER: i32 = 3;
const FAILED: u8 = 1;

/// What a child keeps of the master's rights.
pub struct Privileges {
    pub chroot: Option<PathBuf>,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub new_privileges: NewPrivileges,
    pub keeps: CapabilitySet,
}

impl Privileges {
    /// Of a process that serves this site, and keeps no capabilities. `own`: what its programs may gain.
    pub fn of(site: &Site, identity: Option<Identity>, own: NewPrivileges) -> Privileges {
        Privileges {
            chroot: site.chroot.clone(),
            identity,
            new_privileges: site.new_privileges(own),
            keeps: CapabilitySet::empty(),
        }
    }

    /// Makes this process one that starts programs, for good. Errors: what could not be done.
    pub fn assume(self) -> Result<(), String> {
        let Privileges { chroot, identity, new_privileges, keeps } = self;
        // Without a controlling terminal, no terminal sends signals to this process and its programs.
        setsid().map_err(cannot("begin a session"))?;
        // Ours are already; the program may have inherited others.
        sys::keep_from_programs(FIRST_OTHER);
        chroot.map_or(Ok(()), |folder| privilege::chroot(&folder, identity.as_ref()))?;
        if new_privileges == NewPrivileges::None {
            // Before the change of user: only root may.
            sandbox::forbid_new_privileges().map_err(cannot("give up privileges"))?;
        }
        identity.map_or(Ok(()), |identity| identity.assume_keeping(keeps))?;
        sandbox::hold_only(keeps).map_err(cannot("give up privileges"))?;
        // Programs of the same user could otherwise trace this process or read its memory.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(cannot("be closed to programs"))?;
        // Programs inherit ignored signals. Rust ignores SIGPIPE, and a shell may ignore SIGHUP.
        (1..=LAST_SIGNAL).for_each(sys::reset_signal);
        // The master ends this process by leaving it. Programs begin with no signal blocked.
        SigSet::all().thread_block().map_err(|e| format!("cannot block signals: {e}"))
    }
}

/// Makes this process one that neither a terminal nor a program of its user reaches, with this identity, for good: no
/// terminal signals it, and no program traces it or reads its memory. Errors: what could not be done.
pub fn detach(identity: Option<Identity>) -> Result<(), String> {
    setsid().map_err(cannot("begin a session"))?;
    identity.map_or(Ok(()), |identity| identity.assume())?;
    // Behind the change of user, which resets the attribute.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(cannot("forbid tracing"))
}

/// Runs the work on a loop of this thread, until it ends. Errors: why it cannot begin or go on.
pub fn run_loop(work: impl Future<Output = io::Result<()>>) -> Result<(), String> {
    let runtime = local_runtime().map_err(|error| format!("cannot run: {error}"))?;
    let release = async {
        tokio::time::sleep(sys::RELEASE_AFTER).await;
        sys::release_when_parked();
        std::future::pending().await
    };
    let served = runtime.block_on(async {
        tokio::select! {
            served = work => served,
            never = release => never,
        }
    });
    served.map_err(|error| format!("cannot go on: {error}"))
}

/// A loop of the main thread, which gives back what [`sys::release_when_parked`] says.
pub fn local_runtime() -> io::Result<LocalRuntime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_io().enable_time().on_thread_park(sys::release_if_due).build_local(Default::default())
}

/// The exit code of a process. The message of a failure begins with `what`.
pub fn exit_code(what: &str, ended: Result<(), String>) -> u8 {
    match ended {
        Ok(()) => 0,
        Err(why) => {
            terminal::err(format_args!("taipan: {what}: {why}"));
            FAILED
        }
    }
}

fn cannot(what: &'static str) -> impl Fn(Errno) -> String {
    move |errno| format!("cannot {what}: {errno}")
}
