//! Signals as a descriptor that can be polled (signalfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The meaning of a signal.
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
    /// Blocks these signals, so that they can only be read here. Children inherit the mask: when a terminal signals all
    /// processes, only the master ends the children.
    pub fn take() -> io::Result<Signals> {
        let mut set = SigSet::empty();
        SIGNALS.iter().for_each(|(signal, _)| set.add(*signal));
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next pending signal.
    pub fn next(&self) -> Option<SignalEvent> {
        let signal = self.0.read_signal().ok()??.ssi_signo as i32;
        SIGNALS.iter().find(|(known, _)| *known as i32 == signal).map(|(_, event)| *event)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
