//! A build without TLS, which has no private keys.

use std::io;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::model::Site;

use crate::process::privilege::Identity;
use crate::sys::Fork;
use crate::tls::{KeySource, Material};

pub enum SignerProcess {}

impl SignerProcess {
    pub fn start(
        _: Site,
        material: &Material,
        _: Option<Identity>,
        _: usize,
        _: impl FnOnce() -> io::Result<Fork>,
    ) -> Result<(SignerProcess, KeySource), Vec<String>> {
        match *material {}
    }

    pub fn restart(&mut self, _: impl FnOnce() -> io::Result<Fork>) -> Result<(), Vec<String>> {
        match *self {}
    }

    pub fn pid(&self) -> Option<Pid> {
        match *self {}
    }

    pub fn restart_time(&self) -> Option<Instant> {
        match *self {}
    }

    pub fn on_exit(&mut self, _: Instant) -> Duration {
        match *self {}
    }
}
