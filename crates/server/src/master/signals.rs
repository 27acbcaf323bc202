//! Signals as a descriptor that can be polled (signalfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::getppid;
use site::model::SignalSet;

use crate::generation::INTERRUPTED;
use crate::sys;

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEvent {
    Leave,
    /// End at once, with this exit code.
    Stop(u8),
    Reload,
    ReopenLogs,
    Upgrade,
    /// Write the statistics to the error log.
    LogStats,
    /// SIGCHLD
    ChildEnded,
}

/// All signals that have a meaning in some set. One that has none in the set in use is ignored.
const SIGNALS: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCHLD,
];

/// The meaning of a signal in a set. `None`: it has none.
const fn meaning(set: SignalSet, signal: Signal) -> Option<SignalEvent> {
    use SignalEvent::{ChildEnded, Leave, LogStats, Reload, ReopenLogs, Stop, Upgrade};
    Some(match (set, signal) {
        (_, Signal::SIGCHLD) => ChildEnded,
        (_, Signal::SIGINT) => Stop(INTERRUPTED),
        (SignalSet::Taipan | SignalSet::Boa, Signal::SIGTERM) => Leave,
        // No failure: it is how a service is stopped.
        (SignalSet::Thttpd | SignalSet::Busybox, Signal::SIGTERM) => Stop(0),
        (SignalSet::Thttpd, Signal::SIGHUP) => ReopenLogs,
        (_, Signal::SIGHUP) => Reload,
        (SignalSet::Taipan, Signal::SIGUSR1) => ReopenLogs,
        (SignalSet::Thttpd, Signal::SIGUSR1) => Leave,
        (SignalSet::Taipan, Signal::SIGUSR2) => Upgrade,
        (SignalSet::Thttpd, Signal::SIGUSR2) | (SignalSet::Boa, Signal::SIGALRM) => LogStats,
        _ => return None,
    })
}

pub struct Signals {
    descriptor: SignalFd,
    terminal: Terminal,
}

/// What the end of the controlling terminal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terminal {
    /// The program ends: its window or its connection is closed.
    EndsProgram,
    /// Nothing: SIGHUP was ignored, as by nohup(1).
    Ignored,
}

fn all() -> SigSet {
    SIGNALS.into_iter().collect()
}

/// Keeps the signals that come before `Signals::take`, in the first process of a PID namespace such as a container: the
/// kernel drops those that it neither blocks nor handles (pid_namespaces(7)). They end any other process, which a
/// start that hangs needs.
pub fn keep_for_first_process() {
    if is_first_process() {
        // Fails only with a wrong set.
        _ = all().thread_block();
    }
}

/// For a program that does not take them.
pub fn keep_no_more() {
    if is_first_process() {
        _ = all().thread_unblock();
    }
}

/// Whether all processes of the namespace end with this one.
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Whether that process has started this one, if nothing has ended that did.
pub fn is_child_of_first_process() -> bool {
    getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == 1)
}

impl Signals {
    /// Blocks these signals, so that they can only be read here. Children inherit the mask: when a terminal signals all
    /// processes, only the master ends the children.
    pub fn take() -> io::Result<Signals> {
        let set = all();
        set.thread_block()?;
        let terminal = match sys::is_ignored(Signal::SIGHUP as i32) {
            true => Terminal::Ignored,
            false => Terminal::EndsProgram,
        };
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Signals { descriptor, terminal })
    }

    /// What the next pending signals mean, up to the first one that has a meaning.
    pub fn next(&self, set: SignalSet) -> Option<SignalEvent> {
        loop {
            let received = self.descriptor.read_signal().ok()??;
            let signal = SIGNALS.into_iter().find(|known| *known as u32 == received.ssi_signo);
            // The kernel sends it when the terminal hangs up; one for a reload comes from a process.
            let is_hangup = signal == Some(Signal::SIGHUP) && received.ssi_code == libc::SI_KERNEL;
            if is_hangup && self.terminal == Terminal::EndsProgram {
                return Some(SignalEvent::Leave);
            }
            if let Some(event) = signal.and_then(|signal| meaning(set, signal)) {
                return Some(event);
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
