//! The sandbox: before it serves, a process gives up capabilities, new privileges, access to other files, and system
//! calls that it does not need. An attacker who takes over the process gains no more than that.
//!
//! Every step affects the calling thread and the threads that it starts later. So it happens while there is only one
//! thread, after the change of user and the chroot.
//!
//! Of the configuration, it knows only how much the sandbox matters.

mod capabilities;
mod landlock;
// The filter knows the call numbers of three 64-bit architectures; others have the rest of the sandbox.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "seccomp_absent.rs"
)]
mod seccomp;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::thread::{CapabilitySet, no_new_privs, set_no_new_privs};
use site::model::Sandbox;

use crate::sys;

pub use capabilities::{drop_capabilities, empty_bounding_set, held, hold_only, keep_only};

/// What the process may still do inside the sandbox.
#[derive(Debug, Clone)]
pub struct Confinement<'a> {
    pub reads: Reads<'a>,
    /// An open folder that is readable, too, even if the process cannot reach it by its name.
    pub open: Option<BorrowedFd<'a>>,
    pub connects: Connects,
    pub pipes: Pipes,
    pub writes: Writes<'a>,
    /// Folders beneath which clients publish: everything there can be made, changed, renamed and removed, and is
    /// readable.
    pub publishes: Vec<&'a Path>,
}

/// The files and folders that can be opened, for reading only.
#[derive(Debug, Clone)]
pub enum Reads<'a> {
    /// These folders with everything beneath them, and the next targets of links to them: see `landlock`. A folder that
    /// does not exist yet stays unreadable.
    Beneath(Vec<&'a Path>),
    /// Everything that the user may read, for roots whose links may lead out of them (`symlinks = "follow"` and
    /// `"owner"`).
    Everywhere,
}

/// Ports that a process can be limited to.
pub const MAX_PORTS: usize = 9;

/// The connections that can be opened. Open and accepted connections are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connects {
    Nowhere,
    /// To Unix sockets.
    Unix,
    /// Over IP: by TCP to these ports, of which 0 is none; and by UDP, to look up names.
    Ports([u16; MAX_PORTS]),
}

/// Can the process create pipes? It communicates with scripts through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipes {
    None,
    Made,
}

/// The files that can be made, changed, renamed and removed. Open files, such as logs, are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes<'a> {
    Nowhere,
    /// In this folder and those beneath it, which are readable, too.
    Beneath(&'a Path),
}

/// The protection in force. Its text is for the log and for `taipan check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// The capabilities that the process has or could acquire.
    pub capabilities: CapabilitySet,
    /// Executed programs gain no privileges from their files.
    pub no_new_privs: bool,
    /// The version of Landlock that is in force.
    pub landlock: Option<u32>,
    pub seccomp: bool,
    /// The missing parts, one sentence each: what is missing, why, and what to do.
    pub missing: Vec<String>,
}

/// Restricts the process to `confinement`, irrevocably. Errors: a required part is missing; the text says what to do,
/// and the process, which may be confined in part, must end.
pub fn apply(confinement: &Confinement<'_>, sandbox: Sandbox) -> Result<Active, String> {
    if sandbox == Sandbox::Off {
        return Ok(Active { landlock: None, seccomp: false, ..as_is() });
    }
    satisfying(sandbox, confine(confinement, Filter::OfServing, other_threads().into_iter().collect()))
}

/// Restricts the process, irrevocably, to computing and to exchanging messages over open sockets. Errors: as of
/// `apply`.
pub fn keep_only_channels(sandbox: Sandbox) -> Result<Active, String> {
    if sandbox == Sandbox::Off {
        return Ok(as_is());
    }
    satisfying(sandbox, confine(&nothing(), Filter::OfChannels, other_threads().into_iter().collect()))
}

fn satisfying(sandbox: Sandbox, active: Active) -> Result<Active, String> {
    match active.problem().filter(|_| sandbox == Sandbox::Required) {
        Some(problem) => Err(problem),
        None => Ok(active),
    }
}

impl Active {
    /// Why a process that requires the sandbox cannot serve, with what to do. `None`: nothing is missing.
    pub fn problem(&self) -> Option<String> {
        let missing = self.missing.join("; ");
        let text = format!(
            "the sandbox is required, but not all of it is available: {missing}; or set `sandbox = \"on\"`, to do without"
        );
        (!self.missing.is_empty()).then_some(text)
    }
}

/// Programs that this process executes gain nothing from their files. Errors: the kernel cannot forbid it.
pub fn forbid_new_privileges() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    empty_bounding_set();
    Ok(())
}

/// The protection that `apply` would give on this machine. Only a temporary thread gives up anything.
pub fn available() -> Active {
    let tried = std::thread::spawn(|| confine(&nothing(), Filter::OfServing, Vec::new()));
    let failed = |_| Active { missing: vec!["the sandbox could not be tested".to_owned()], ..as_is() };
    tried.join().unwrap_or_else(failed)
}

fn nothing() -> Confinement<'static> {
    let reads = Reads::Beneath(Vec::new());
    let (connects, pipes, writes) = (Connects::Nowhere, Pipes::None, Writes::Nowhere);
    Confinement { reads, open: None, connects, pipes, writes, publishes: Vec::new() }
}

/// Which system calls are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    OfServing,
    OfChannels,
}

/// The order matters: Landlock and seccomp need `no_new_privs` unless the process is root, and the filter forbids the
/// calls of the other steps.
fn confine(confinement: &Confinement<'_>, filter: Filter, mut missing: Vec<String>) -> Active {
    find_clock();
    if let Err(error) = set_no_new_privs(true) {
        missing.push(format!("no_new_privs cannot be set ({error}); it needs Linux 3.5 or later"));
    }
    let landlock = landlock::restrict(confinement).map_err(|why| missing.push(why)).ok();
    empty_bounding_set();
    if let Err(error) = hold_only(CapabilitySet::empty()) {
        missing.push(format!("capabilities cannot be given up ({error})"));
    }
    let rest = as_is();
    let filtered = match filter {
        Filter::OfServing => seccomp::restrict(confinement),
        Filter::OfChannels => seccomp::restrict_to_channels(),
    };
    let seccomp = filtered.map_err(|why| missing.push(why)).is_ok();
    Active { landlock, seccomp, missing, ..rest }
}

/// The protection of the calling thread. The kernel does not report Landlock and the filter.
fn as_is() -> Active {
    Active {
        capabilities: capabilities::held(),
        no_new_privs: no_new_privs().unwrap_or(false),
        landlock: None,
        seccomp: false,
        missing: Vec::new(),
    }
}

/// On its first call, rustix looks for the kernel's clock in memory (vDSO) with system calls and files that the sandbox
/// and a chroot forbid. Without the vDSO, every reading of the clock is a system call.
fn find_clock() {
    _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}

/// Threads that already run stay outside the sandbox.
fn other_threads() -> Option<String> {
    let others = sys::threads()?.saturating_sub(1);
    (others > 0)
        .then(|| format!("{others} earlier threads stay outside; start the program without LD_PRELOAD"))
}

impl fmt::Display for Active {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<&str> = self.capabilities.iter_names().map(|(name, _)| name).collect();
        match held.len() {
            0 => out.write_str("no capabilities")?,
            1..=4 => write!(out, "capabilities {}", held.join(", "))?,
            many => write!(out, "{many} capabilities")?,
        }
        out.write_str(if self.no_new_privs { ", no new privileges" } else { ", new privileges possible" })?;
        match self.landlock {
            Some(version) => write!(out, ", Landlock (version {version})")?,
            None => out.write_str(", no Landlock")?,
        }
        out.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })?;
        self.missing.iter().try_for_each(|text| write!(out, "; {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_active_and_missing_parts() {
        let all = Active {
            capabilities: CapabilitySet::empty(),
            no_new_privs: true,
            landlock: Some(7),
            seccomp: true,
            missing: Vec::new(),
        };
        let some = Active {
            capabilities: CapabilitySet::SETUID | CapabilitySet::SETGID,
            landlock: None,
            missing: vec!["this kernel has none; take another".to_owned()],
            ..all.clone()
        };
        let none = Active {
            capabilities: CapabilitySet::all(),
            no_new_privs: false,
            seccomp: false,
            missing: Vec::new(),
            ..some.clone()
        };
        for (active, text) in [
            (all, "no capabilities, no new privileges, Landlock (version 7), seccomp"),
            (
                some,
                "capabilities SETGID, SETUID, no new privileges, no Landlock, seccomp; this kernel has none; take another",
            ),
            (none, "41 capabilities, new privileges possible, no Landlock, no seccomp"),
        ] {
            assert_eq!(active.to_string(), text);
        }
    }

    #[test]
    fn available_does_not_restrict_the_process() {
        let before = as_is();
        let tried = available();
        assert_eq!(tried.capabilities, CapabilitySet::empty());
        assert!(tried.no_new_privs);
        assert_eq!(as_is(), before);
        assert!(std::fs::read("/proc/self/status").is_ok(), "files can still be read");
    }

    #[test]
    fn apply_changes_nothing_when_off() {
        let before = as_is();
        assert_eq!(apply(&nothing(), Sandbox::Off), Ok(before.clone()));
        assert_eq!(as_is(), before);
    }
}
