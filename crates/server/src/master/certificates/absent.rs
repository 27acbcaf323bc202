//! A build without ACME: no process gets certificates.

use std::collections::BTreeMap;
use std::iter;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::Master;
use super::children::ChildProcess;
use super::logs::LogWriter;
use crate::process::ipc::Channel;

pub(super) struct AcmeProcesses;

impl AcmeProcesses {
    pub(super) fn new() -> AcmeProcesses {
        AcmeProcesses
    }

    pub(super) fn end_pause(&mut self) {}

    pub(super) fn clear(&mut self) {}

    pub(super) fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        iter::empty()
    }

    pub(super) fn processes_mut(&mut self) -> impl Iterator<Item = &mut ChildProcess> {
        iter::empty()
    }

    pub(super) fn log_writers(&mut self) -> impl Iterator<Item = LogWriter<'_>> {
        iter::empty()
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::ZERO
    }

    pub(super) fn finish_orders(&mut self, _now: Instant) {}

    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl Master {
    pub(super) fn look_after_certificates(&mut self) {}

    pub(super) fn acme_channel(&self) -> Option<&Channel> {
        None
    }

    pub(super) fn on_acme(&mut self) {}

    pub(super) fn on_challenge_set(&self, _number: u32) {}

    pub(super) fn open_challenges(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.upgrade.challenges()
    }

    pub(super) fn serve_renewed(&mut self) {}

    pub(super) fn serve_renewed_later(&mut self) {}

    pub(super) fn on_acme_exit(&mut self, _pid: Pid, _end: &str) {}
}
