//! What a child of the master gives up before it does its work. Does not know the work.

use std::path::PathBuf;

use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use rustix::thread::CapabilitySet;
use site::model::NewPrivileges;

use super::privilege::{self, Identity};
use super::sandbox;
use crate::sys;

/// Signals have numbers up to this.
const LAST_SIGNAL: i32 = 64;
/// The first descriptor behind the standard streams.
const FIRST_OTHER: i32 = 3;

/// Makes this process one that starts programs, for good, with no capabilities but those that it `keeps`. Errors: what
/// could not be done.
pub fn settle_in(
    chroot: Option<PathBuf>,
    identity: Option<Identity>,
    new_privileges: NewPrivileges,
    keeps: CapabilitySet,
) -> Result<(), String> {
    // Without a controlling terminal, no terminal sends signals to this process and its programs.
    setsid().map_err(cannot("begin a session"))?;
    // Ours are already; the program may have inherited others.
    sys::keep_from_programs(FIRST_OTHER);
    chroot.map_or(Ok(()), |folder| privilege::chroot(&folder))?;
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

fn cannot(what: &'static str) -> impl Fn(Errno) -> String {
    move |errno| format!("cannot {what}: {errno}")
}
