//! Signals as something that can be waited for beside other things.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What the master is told by signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEvent {
    /// SIGTERM
    Leave,
    /// SIGINT
    Stop,
    /// SIGHUP
    Reload,
    /// SIGUSR1
    ReopenLogs,
    /// SIGUSR2
    Upgrade,
    /// SIGCHLD
    ChildEnded,
}

const SIGNALS: [(Signal, SignalEvent); 6] = [
    (Signal::SIGTERM, SignalEvent::Leave),
    (Signal::SIGINT, SignalEvent::Stop),
    (Signal::SIGHUP, SignalEvent::Reload),
    (Signal::SIGUSR1, SignalEvent::ReopenLogs),
    (Signal::SIGUSR2, SignalEvent::Upgrade),
    (Signal::SIGCHLD, SignalEvent::ChildEnded),
];

pub struct Signals(SignalFd);

impl Signals {
    /// From now on these signals do nothing but be read here. Serving processes inherit that, and so are
    /// ended by their master alone, also where a terminal signals both.
    pub fn take() -> io::Result<Signals> {
        let mut set = SigSet::empty();
        SIGNALS.iter().for_each(|(signal, _)| set.add(*signal));
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next one that has come.
    pub fn next(&self) -> Option<SignalEvent> {
        let signal = self.0.read_signal().ok()??.ssi_signo as i32;
        SIGNALS.iter().find(|(known, _)| *known as i32 == signal).map(|(_, told)| *told)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
