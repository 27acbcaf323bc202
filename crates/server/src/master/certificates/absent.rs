//! A build without ACME: no process gets certificates.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::model::Level;

use super::Master;
use crate::log::SharedLog;
use crate::process::ipc::Channel;

pub(super) struct CertificateKeeper;

impl CertificateKeeper {
    pub(super) fn new() -> CertificateKeeper {
        CertificateKeeper
    }

    pub(super) fn end_pause(&mut self) {}

    pub(super) fn clear(&mut self) {}

    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        std::iter::empty()
    }

    pub(super) fn on_log(&mut self) {}

    pub(super) fn awaits_log(&self) -> bool {
        false
    }

    pub(super) fn send_log(&mut self, _log: &SharedLog, _level: Level) {}

    pub(super) fn patience(&self) -> Duration {
        Duration::ZERO
    }

    pub(super) fn is_empty(&self) -> bool {
        true
    }

    pub(super) fn channel(&self) -> Option<&Channel> {
        None
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl Master {
    pub(super) fn look_after_certificates(&mut self) {}

    pub(super) fn on_acme(&mut self) {}

    pub(super) fn on_challenge_set(&self, _number: u32) {}

    pub(super) fn resend_challenges(&self) {}

    pub(super) fn serve_renewed(&mut self) {}

    pub(super) fn serve_renewed_later(&mut self) {}

    pub(super) fn send_level_to_acme(&self, _level: Level, _time: Duration) {}

    pub(super) fn on_acme_exit(&mut self, _pid: Pid, _end: &str) -> bool {
        false
    }
}
