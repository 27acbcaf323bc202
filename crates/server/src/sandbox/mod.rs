//! What the serving process gives up for good before it serves: capabilities, privileges to come, files
//! that it need not read, system calls that it need not make. Whoever takes it over is left with what it
//! was left.
//!
//! Every step is for the calling thread and the threads that it starts later. So it is done while there is
//! one thread only, after the user has been changed and the folder for `chroot` has been entered.
//!
//! Knows nothing of configurations or routes.

mod capabilities;
mod landlock;
// The filter's numbers are those of 64-bit architectures; others have the rest of the sandbox.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "seccomp_absent.rs"
)]
mod seccomp;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::thread::{CapabilitySet, no_new_privs, set_no_new_privs};

pub use capabilities::{drop_capabilities, empty_bounding_set, held, hold_only, keep_only};

/// What the process may go on doing.
#[derive(Debug, Clone)]
pub struct Confinement<'a> {
    pub reads: Reads<'a>,
    /// A folder that is open already, which is read as well, whether it can be reached by its name or not.
    pub open: Option<BorrowedFd<'a>>,
    pub connects: Connects,
    pub pipes: Pipes,
}

/// Which files and folders can be opened, and for reading only.
#[derive(Debug, Clone)]
pub enum Reads<'a> {
    /// These, and what is beneath them. Where a link leads to one of them, its next target, too: see
    /// `landlock`. Those that are not there stay closed, also when they come later.
    Beneath(Vec<&'a Path>),
    /// All that the user may read: for roots whose links may lead out of them (`symlinks = "follow"` and
    /// `"owner"`).
    Everywhere,
}

/// Which connections can be opened. Those that were open before, and those that are accepted, go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connects {
    Nowhere,
    /// To Unix sockets.
    Unix,
    /// To Unix sockets and over IP. Names are looked up in files, which must be among what is read.
    Anywhere,
}

/// Can pipes be made? Scripts are spoken to through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipes {
    None,
    Made,
}

/// How much the sandbox matters (`sandbox = false | true | "required"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// Nothing is given up.
    Off,
    /// What the kernel has, and what it has not is said.
    #[default]
    Preferred,
    /// All of it, or the program does not serve.
    Required,
}

/// What holds. Its text is for the log and for `taipan check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// Capabilities that the process has, or could take up.
    pub capabilities: CapabilitySet,
    /// Programs that it executes get no privileges by their files.
    pub no_new_privs: bool,
    /// The version of Landlock that is in force.
    pub landlock: Option<u32>,
    pub seccomp: bool,
    /// What is not to be had, one sentence each: what, why, and what to do.
    pub missing: Vec<String>,
}

/// Gives up everything but `confinement`, for good. Errors: something is required and not to be had; the
/// text says what to do, and the process, of which parts may be confined already, is to end.
pub fn apply(confinement: &Confinement<'_>, demand: Demand) -> Result<Active, String> {
    if demand == Demand::Off {
        return Ok(Active { landlock: None, seccomp: false, ..as_is() });
    }
    find_clock();
    let active = confine(confinement, other_threads().into_iter().collect());
    if demand == Demand::Required && !active.missing.is_empty() {
        return Err(format!(
            "the sandbox is required, and not all of it is to be had: {}; or set `sandbox = \"on\"`, to do without",
            active.missing.join("; ")
        ));
    }
    Ok(active)
}

/// What a process that executes programs can do without: its capabilities but for `kept`, and those that a
/// program would get by its file. Errors: they could not be given up.
pub fn give_up_privileges(kept: CapabilitySet) -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    capabilities::hold_only(kept)
}

/// What `apply` would give on this machine. Nothing is given up, but by a thread that ends.
pub fn available() -> Active {
    let tried = std::thread::spawn(|| {
        let reads = Reads::Beneath(Vec::new());
        let nothing = Confinement { reads, open: None, connects: Connects::Nowhere, pipes: Pipes::None };
        confine(&nothing, Vec::new())
    });
    let failed = |_| Active { missing: vec!["the sandbox could not be tried".to_owned()], ..as_is() };
    tried.join().unwrap_or_else(failed)
}

/// Each step needs the one before: Landlock and seccomp ask for `no_new_privs` of who is not root, and the
/// filter forbids the calls of all the others.
fn confine(confinement: &Confinement<'_>, mut missing: Vec<String>) -> Active {
    if let Err(error) = set_no_new_privs(true) {
        missing.push(format!("no_new_privs cannot be set ({error}); it needs Linux 3.5 or later"));
    }
    let landlock = landlock::restrict(confinement).map_err(|why| missing.push(why)).ok();
    if let Err(error) = capabilities::give_up() {
        missing.push(format!("capabilities cannot be given up ({error})"));
    }
    let rest = as_is();
    let seccomp =
        seccomp::restrict(confinement.connects, confinement.pipes).map_err(|why| missing.push(why)).is_ok();
    Active { landlock, seccomp, missing, ..rest }
}

/// Of the calling thread. Neither Landlock nor the filter can be asked for afterwards.
fn as_is() -> Active {
    Active {
        capabilities: capabilities::held(),
        no_new_privs: no_new_privs().unwrap_or(false),
        landlock: None,
        seccomp: false,
        missing: Vec::new(),
    }
}

/// rustix looks for the kernel's clock in memory (vDSO) when it is first asked for the time, in ways that are
/// closed afterwards, and in a changed root. Without it, every look at the clock is a system call.
pub fn find_clock() {
    _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}

/// Threads that run already stay outside. Without `/proc`, as in a changed root, they are not seen.
fn other_threads() -> Option<String> {
    let others = std::fs::read_dir("/proc/self/task").ok()?.count().saturating_sub(1);
    (others > 0).then(|| {
        format!("threads ({others}) that were there before stay outside; start without what LD_PRELOAD names")
    })
}

/// One line.
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
    fn the_text_says_what_holds_and_what_is_missing() {
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
    fn trying_leaves_the_process_as_it_was() {
        let before = as_is();
        let tried = available();
        assert_eq!(tried.capabilities, CapabilitySet::empty());
        assert!(tried.no_new_privs);
        assert_eq!(as_is(), before);
        assert!(std::fs::read("/proc/self/status").is_ok(), "files are read as before");
    }

    #[test]
    fn nothing_is_given_up_where_nothing_is_asked() {
        let before = as_is();
        let reads = Reads::Beneath(Vec::new());
        let confinement = Confinement { reads, open: None, connects: Connects::Nowhere, pipes: Pipes::None };
        assert_eq!(apply(&confinement, Demand::Off), Ok(before.clone()));
        assert_eq!(as_is(), before);
    }
}
