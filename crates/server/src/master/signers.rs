//! The signers: one for each generation whose private keys are not in its workers. One that has ended is replaced, and
//! the generation goes on.

use std::time::{Duration, Instant};

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use super::end::exit_text;
use super::lifecycle::State;
use super::{GRACE, Master};
use crate::log;
use crate::process::supervisor;

impl Master {
    /// The generation goes on, and another signer is started.
    pub(super) fn on_signer_exit(&mut self, generation: Pid, status: WaitStatus) {
        let Some(generation) = self.children.generation_mut(generation) else { return };
        // Its workers have ended.
        if let WaitStatus::Exited(_, 0) = status {
            generation.signer = None;
            return;
        }
        let pause =
            generation.signer.as_mut().map_or(Duration::ZERO, |signer| signer.on_exit(Instant::now()));
        log::error(format_args!(
            "the process that signs handshakes has ended: {}; it is replaced {}",
            exit_text(status),
            supervisor::text(pause)
        ));
    }

    /// Starts the signer of a generation again. If that fails, another generation reads the certificates again.
    pub(super) fn restart_signer(&mut self, generation: Pid) {
        let signer = self.children.generation_mut(generation).and_then(|generation| generation.signer.take());
        let Some(mut signer) = signer else { return };
        let restarted = signer.restart(|| self.fork_child(None));
        let Some(generation) = self.children.generation_mut(generation) else { return };
        match restarted {
            Ok(()) => generation.signer = Some(signer),
            Err(lines) => {
                log::error(format_args!("no handshakes can be signed: {}", lines.join("; ")));
                match generation.state {
                    State::Starting => generation.kill(),
                    State::Serving => _ = self.restart.schedule(),
                    State::Leaving(_) | State::Killed(_) => {}
                }
                signer.pid().into_iter().for_each(|pid| self.children.add_helper(pid, GRACE));
            }
        }
    }
}
