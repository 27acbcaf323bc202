//! Another program takes over: how the old one goes about it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::change::refuse_clients;
use super::end::how_it_ended;
use super::sockets::Sockets;
use super::upgrade::Successor;
use super::{GRACE, Master, Phase};
use crate::control::Client;
use crate::log;

impl Master {
    pub(super) fn upgrade(&mut self, client: Option<Client>) {
        if self.phase != Phase::Keeping || self.successor.is_some() || self.change.is_some() {
            let why = "a change is under way already; try again when it is over";
            log::warn(format_args!("no other program is started: {why}"));
            return refuse_clients(client, why);
        }
        match Successor::start(&self.program, &self.sockets, self.control.as_ref(), client) {
            Ok(successor) => self.successor = Some(successor),
            Err((line, client)) => {
                log::error(format_args!("{line}; this program goes on"));
                refuse_clients(client, &line);
            }
        }
    }

    pub(super) fn on_successor(&mut self) {
        let Some(successor) = &self.successor else { return };
        match successor.handoff() {
            Ok(Some(handoff)) => self.be_succeeded(handoff),
            Ok(None) => {}
            Err(_) => {
                let Some(mut successor) = self.successor.take() else { return };
                // Without this channel it is of no use.
                let end = successor.end().map_or_else(|e| e.to_string(), how_it_ended);
                report_failed_upgrade(
                    successor,
                    &format!("the new program has ended before it served: {end}"),
                );
            }
        }
    }

    pub(super) fn be_succeeded(&mut self, handoff: OwnedFd) {
        let Some(successor) = &mut self.successor else { return };
        if let Some(process) = rustix::process::Pid::from_raw(successor.pid().as_raw()) {
            self.notify.succeeded_by(process);
        }
        let asked_by = successor.asked_by.take();
        log::info(format_args!("process {} serves from now on", successor.pid()));
        self.phase = Phase::Succeeded;
        self.drop_change("another program has taken over");
        let patience = self.site.as_ref().map_or(Duration::ZERO, |site| site.timeouts.reload);
        self.retire(Pid::from_raw(0), Some(handoff), Instant::now() + patience + GRACE);
        self.tell_when_retired(asked_by.into_iter().collect());
        self.sockets = Sockets::default();
        self.control = None;
        self.next_ping = None;
        self.restart = None;
    }

    /// Why the new program does not take over, when it has not ended.
    pub(super) fn abandon_upgrade(&mut self, why: &str) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        report_failed_upgrade(successor, why);
    }

    pub(super) fn abandon_upgrade_quietly(&mut self) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        refuse_clients(successor.asked_by, "the program is ending");
    }
}

pub(super) fn report_failed_upgrade(successor: Successor, why: &str) {
    log::error(format_args!("{why}; this program goes on"));
    refuse_clients(successor.asked_by, why);
}
