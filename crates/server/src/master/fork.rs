//! How a child of the master begins: as a copy of it, which drops what the master has. A generation takes some of it over
//! before.

use std::io;

use super::Master;
use super::change::{Changes, Preparation};
use super::counters::Counters;
use super::notify::Notify;
use super::served::Served;
use super::sockets::Sockets;
use crate::sys::{self, Fork};

impl Master {
    /// Forks a child, in which it drops the master's resources and those of a change that is being prepared. Errors: of
    /// `fork`.
    pub(super) fn fork_child(&mut self, preparation: Option<&mut Preparation>) -> io::Result<Fork> {
        let fork = sys::fork()?;
        if let Fork::Child = fork {
            self.release_in_child(preparation);
        }
        Ok(fork)
    }

    /// Drops the master's resources in a forked child, and those of a change that is being prepared.
    pub(super) fn release_in_child(&mut self, preparation: Option<&mut Preparation>) {
        preparation.map(Preparation::release);
        // Every field is named, so that the compiler finds a new one.
        let Master {
            signals,
            control,
            notify,
            starter,
            upgrade,
            pid_file,
            sockets,
            children,
            served,
            changes,
            purges,
            disconnects,
            counters,
            // These have neither descriptors nor secrets.
            options: _,
            descriptors: _,
            acts: _,
            oom: _,
            restart: _,
            phase: _,
        } = self;
        *signals = None;
        *control = None;
        *notify = Notify::default();
        if let Some(starter) = starter {
            starter.release();
        }
        upgrade.release();
        *pid_file = None;
        *sockets = Sockets::default();
        children.release();
        served.iter_mut().for_each(Served::release);
        *changes = Changes::default();
        purges.release();
        disconnects.release();
        *counters = Counters::new(Vec::new(), None);
    }
}
