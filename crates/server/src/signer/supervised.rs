//! The signer as the master has it. The master keeps the signer's ends of the channels open: when a signer has ended,
//! the next one receives what it has not, and no worker notices.

use std::io;
use std::mem;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use site::model::Site;

use super::message::{PublicKey, SignerEvent};
use super::process::{self, SignerSetup};
use super::{RemoteKey, Signatures};
use crate::clock;
use crate::finding::Unusable;
use crate::process::ipc::{Channel, Received};
use crate::process::privilege::Identity;
use crate::process::supervisor::RestartLimit;
use crate::sys::Fork;
use crate::tls::material::Keys;
use crate::tls::{KeySource, Material};

/// How long a signer may take to read its keys.
const TIMEOUT: Duration = Duration::from_secs(30);
const FAILED: &str = "the process that signs handshakes";

/// The signer of a generation.
pub struct SignerProcess {
    site: Site,
    unusable: Unusable,
    identity: Option<Identity>,
    /// The signer's ends, one for each worker.
    channels: Vec<Channel>,
    keys: Vec<PublicKey>,
    state: State,
    restart_limit: RestartLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running(Pid),
    /// It is started again at this time.
    Ended(Instant),
}

impl SignerProcess {
    /// Starts the signer for the certificates of a site. `fork` makes the process, which has closed what the master has.
    /// Errors: lines that say what to do.
    pub fn start(
        site: Site,
        material: &Material,
        identity: Option<Identity>,
        workers: usize,
        fork: impl FnOnce() -> io::Result<Fork>,
    ) -> Result<(SignerProcess, KeySource), Vec<String>> {
        let pairs = (0..workers).map(|_| Channel::pair()).collect::<Result<Vec<_>, _>>();
        let pairs = pairs.map_err(|e| vec![format!("{FAILED} cannot be reached: {e}")])?;
        let (mut ours, channels): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let mut signer = SignerProcess {
            site,
            unusable: material.unusable(),
            identity,
            channels,
            keys: Vec::new(),
            state: State::Ended(Instant::now()),
            restart_limit: RestartLimit::of_servers(),
        };
        let (pid, keys) = signer.launch(|| {
            fork().inspect(|process| {
                if let Fork::Child = process {
                    ours.clear();
                }
            })
        })?;
        (signer.state, signer.keys) = (State::Running(pid), keys.clone());
        if keys.len() != material.certificates().len() {
            return Err(vec!["the certificates have changed while they were read; try again".to_owned()]);
        }
        let signatures = Signatures::new(ours);
        let remote = |(number, public)| RemoteKey::remote(number, public, &signatures);
        Ok((signer, KeySource::Remote(keys.into_iter().enumerate().map(remote).collect())))
    }

    /// Starts another process in place of the one that has ended. Errors: lines that say why that cannot be.
    pub fn restart(&mut self, fork: impl FnOnce() -> io::Result<Fork>) -> Result<(), Vec<String>> {
        let (pid, keys) = self.launch(fork)?;
        self.state = State::Running(pid);
        if keys != self.keys {
            // Fails only if it has ended.
            _ = kill(pid, Signal::SIGKILL);
            return Err(vec!["the certificates have changed since they were read".to_owned()]);
        }
        Ok(())
    }

    pub fn pid(&self) -> Option<Pid> {
        match self.state {
            State::Running(pid) => Some(pid),
            State::Ended(_) => None,
        }
    }

    /// When the next process is to be started.
    pub fn restart_time(&self) -> Option<Instant> {
        match self.state {
            State::Running(_) => None,
            State::Ended(restart) => Some(restart),
        }
    }

    /// The process has ended. Returns the pause until the next one.
    pub fn on_exit(&mut self, now: Instant) -> Duration {
        let pause = self.restart_limit.count(now);
        self.state = State::Ended(now + pause);
        pause
    }

    fn launch(
        &mut self,
        fork: impl FnOnce() -> io::Result<Fork>,
    ) -> Result<(Pid, Vec<PublicKey>), Vec<String>> {
        let failed = |e| vec![format!("{FAILED} cannot be started: {e}")];
        let (ours, theirs) = Channel::pair().map_err(failed)?;
        match fork().map_err(failed)? {
            Fork::Parent(pid) => {
                drop(theirs);
                receive(&ours).map(|keys| (pid, keys)).inspect_err(|_| {
                    // Fails only if it has ended.
                    _ = kill(pid, Signal::SIGKILL);
                    _ = waitpid(pid, None);
                })
            }
            Fork::Child => {
                drop(ours);
                let setup = SignerSetup {
                    master: theirs,
                    workers: mem::take(&mut self.channels),
                    identity: self.identity.take(),
                    sandbox: self.site.sandbox,
                };
                let (site, now, unusable) = (&self.site, clock::wall(), self.unusable);
                let read = || Material::read_with(site, Keys::Read, now, unusable).with_keys();
                std::process::exit(process::run(setup, || read().map(|(_, keys)| keys)).into())
            }
        }
    }
}

/// The public parts of the keys. Errors: those of the signer.
fn receive(signer: &Channel) -> Result<Vec<PublicKey>, Vec<String>> {
    let until = Instant::now() + TIMEOUT;
    let mut keys = Vec::new();
    loop {
        match signer.receive_until::<SignerEvent>(until) {
            Ok(Received::Message(SignerEvent::Key(key))) => keys.push(key),
            Ok(Received::Message(SignerEvent::Ready)) => return Ok(keys),
            Ok(Received::Message(SignerEvent::Failed(lines))) => return Err(lines),
            Ok(Received::End) => return Err(vec![format!("{FAILED} has ended before it had read its keys")]),
            Err(e) => return Err(vec![format!("{FAILED} does not start: {e}")]),
        }
    }
}
