//! The end of children, expected and not, and the end of the program.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::change::reject_clients;
use super::children::Child;
use super::lifecycle::{Event, Phase, Wait};
use super::sockets::Sockets;
use super::{GRACE, Master};
use crate::log;
use crate::process::ipc::MasterCommand;

impl Master {
    /// Ends all children, and then the program with this exit code.
    pub(super) fn end_all(&mut self, command: &MasterCommand, code: u8) {
        if !self.phase.is_replaced() {
            self.notify.stopping();
        }
        self.drop_change("the program is ending");
        let patience = match (command, self.site()) {
            (MasterCommand::Leave, Some(site)) => site.timeouts.shutdown,
            _ => Duration::ZERO,
        };
        let now = Instant::now();
        for generation in &mut self.children.generations {
            generation.end(command);
            generation.on_event(Event::Stopped(now + patience + GRACE), now);
        }
        // The process that gets certificates ends at the same time as the generations.
        let longest_end = self.children.longest_end();
        let until = now + (patience + GRACE + longest_end).max(self.children.certificates.patience());
        self.phase = self.phase.end(code, until);
        self.children.signal(Signal::SIGCONT);
        reject_clients(self.changes.take_queued().into_iter().flatten(), "the program is ending");
        if !self.phase.is_replaced() {
            self.upgrade.cancel();
        }
        self.restart.cancel();
        self.notify.end_pings();
        self.control = None;
        // Closed now, to accept no more clients; `clean_up` removes the files.
        self.sockets.close();
    }

    /// The end of the program has waited for its children.
    pub(super) fn end_waiting(&mut self, now: Instant) {
        let Some(wait) = self.phase.wait_mut() else { return };
        let next = wait.next(now);
        let before = std::mem::replace(wait, next);
        match next {
            Wait::Until(_) => {}
            Wait::Killed(_) if before == next => {}
            Wait::Killed(_) => {
                let children = self.children.signal(Signal::SIGKILL);
                log::error(format_args!(
                    "{} processes have not ended in time, and are killed",
                    children.len()
                ));
            }
            Wait::Over => {
                for child in self.children.signal(Signal::SIGKILL) {
                    log::error(format_args!("{}", blocked(child)));
                }
            }
        }
    }

    /// Reaps the children that have ended.
    pub(super) fn reap(&mut self) -> Option<ExitCode> {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => status,
                _ => return None,
            };
            let pid = status.pid()?;
            let end = exit_text(status);
            match self.children.kind(pid) {
                Some(Child::Generation) => {
                    if let Some(code) = self.on_generation_exit(pid, status) {
                        return Some(code);
                    }
                }
                Some(Child::Spawner(generation)) => {
                    self.on_spawner_exit(generation, status);
                    self.children.sweep_cgroups();
                }
                Some(Child::Signer(generation)) => self.on_signer_exit(generation, status),
                Some(Child::Helper) => {
                    self.children.remove_helper(pid);
                    self.children.sweep_cgroups();
                }
                Some(Child::Pool) => self.on_pool_exit(pid, &end),
                Some(Child::Logger) => self.on_logger_exit(pid, &end),
                Some(Child::Acme) => self.on_acme_exit(pid, &end),
                None => self.on_program_exit(pid, &end),
            }
        }
    }

    /// The exit code when all children of an ending program have ended.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        match self.phase {
            _ if !self.children.is_empty() && self.phase.wait() != Some(Wait::Over) => None,
            Phase::Serving => None,
            Phase::Ending(code, _) => {
                self.clean_up();
                Some(code.into())
            }
            // The program behind the upgrade reaches the one before by this one.
            Phase::Replaced(_) => self.upgrade.leaving_predecessor().is_none().then_some(ExitCode::SUCCESS),
        }
    }

    /// Removes the sockets and the pid file.
    fn clean_up(&self) {
        self.sockets.remove_files(&Sockets::default());
        if let Some(pid_file) = &self.pid_file {
            pid_file.remove();
        }
    }
}

pub(super) fn exit_text(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("exit code {code}"),
        WaitStatus::Signaled(_, signal, _) => format!("killed by {signal}"),
        other => format!("{other:?}"),
    }
}

/// Why a process that has been killed is still there.
pub(super) fn blocked(pid: Pid) -> String {
    format!("process {pid} is still blocked in disk I/O after SIGKILL; it ends when the disk responds")
}
