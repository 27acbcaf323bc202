//! The end of children, expected and not, and the end of the program.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::change::{Cause, Change, reject_clients};
use super::lifecycle::{Ended, Event, Phase, State, Wait};
use super::loggers::LoggerProcess;
use super::process::{Generation, PoolProcess, blocked};
use super::sockets::Sockets;
use super::upgrade::{ended_before_serving, report_failed_upgrade};
use super::{GRACE, Master, could_not_start, oom};
use crate::log;
use crate::logger::process::LONGEST_END;
use crate::process::ipc::MasterCommand;
use crate::process::supervisor;
use crate::process::supervisor::KillTimer;
use crate::signer::SignerProcess;
use crate::spawner::cgroup;

impl Master {
    /// Ends all children, and then the program with this exit code.
    pub(super) fn end_all(&mut self, command: &MasterCommand, code: u8) {
        if !self.phase.is_replaced() {
            self.notify.stopping();
        }
        self.drop_change("the program is ending");
        let patience = match (command, &self.site) {
            (MasterCommand::Leave, Some(site)) => site.timeouts.shutdown,
            _ => Duration::ZERO,
        };
        let now = Instant::now();
        for generation in &mut self.generations {
            generation.end(command);
            generation.on_event(Event::Stopped(now + patience + GRACE), now);
        }
        // The process that gets certificates ends at the same time as the generations.
        let until = now + (patience + GRACE + self.longest_end()).max(self.certificates.patience());
        self.phase = self.phase.end(code, until);
        self.signal_children(Signal::SIGCONT);
        if let Some(clients) = self.queued_reload.take() {
            reject_clients(clients, "the program is ending");
        }
        if !self.phase.is_replaced() {
            self.cancel_upgrade();
        }
        self.restart = None;
        self.next_ping = None;
        self.control = None;
        // Closed now, to accept no more clients; `clean_up` removes the files.
        self.sockets.close();
    }

    /// How long what is behind the generations may take to end, each at the same time as the others.
    fn longest_end(&self) -> Duration {
        let spawners = self.generations.iter().filter_map(|generation| generation.spawner);
        let pools = self.pools.iter().map(PoolProcess::patience);
        let loggers = self.loggers.running.iter().map(|_| LONGEST_END);
        let all = spawners.map(|spawner| spawner.patience()).chain(pools).chain(loggers);
        all.max().unwrap_or_default()
    }

    /// Sends a signal to each child. SIGCONT has those go on that an administrator or a debugger has stopped, so that
    /// they end, too. Returns them.
    fn signal_children(&self, signal: Signal) -> Vec<Pid> {
        let of_generation = |generation: &Generation| {
            let spawner = generation.spawner.map(|spawner| spawner.pid);
            let signer = generation.signer.as_ref().and_then(SignerProcess::pid);
            [Some(generation.pid), spawner, signer].into_iter().flatten()
        };
        let generations = self.generations.iter().flat_map(of_generation);
        let helpers = self.helpers.iter().map(|(pid, _)| *pid);
        let pools = self.pools.iter().map(|pool| pool.pid);
        let loggers = self.loggers.running.iter().map(LoggerProcess::pid);
        let children = generations.chain(helpers).chain(pools).chain(loggers).chain(self.certificates.pids());
        let children: Vec<Pid> = children.collect();
        for child in &children {
            // Fails only if it has ended.
            _ = kill(*child, signal);
        }
        children
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
                let children = self.signal_children(Signal::SIGKILL);
                log::error(format_args!(
                    "{} processes have not ended in time, and are killed",
                    children.len()
                ));
            }
            Wait::Over => {
                for child in self.signal_children(Signal::SIGKILL) {
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
            if self.helper_ended(pid) || self.spawner_ended(status) {
                self.cgroups.iter().for_each(|folder| cgroup::sweep(folder));
                continue;
            }
            if self.signer_ended(status) {
                continue;
            }
            if self.on_pool_exit(pid, &end) || self.on_acme_exit(pid, &end) || self.on_logger_exit(pid, &end)
            {
                continue;
            }
            if self.successor.as_ref().is_some_and(|s| s.pid() == pid) {
                // After its takeover, its end does not concern this program.
                if self.phase.is_serving()
                    && let Some(successor) = self.successor.take()
                {
                    report_failed_upgrade(successor, &ended_before_serving(&end));
                }
                continue;
            }
            // Its last events may contain the reason.
            if let Some(code) = self.on_generation(pid) {
                return Some(code);
            }
            let Some(index) = self.generations.iter().position(|g| g.pid == pid) else { continue };
            let mut generation = self.generations.remove(index);
            self.counters.end(pid);
            if let Some(spawner) = generation.spawner {
                let grace = spawner.patience() + GRACE;
                self.helpers.push((spawner.pid, KillTimer::start(Instant::now(), grace)));
            }
            if let Some(signer) = generation.signer.as_ref().and_then(SignerProcess::pid) {
                self.helpers.push((signer, KillTimer::start(Instant::now(), GRACE)));
            }
            generation.on_retired();
            self.advance_purges();
            self.advance_disconnects();
            if let Some(code) = self.on_exit(generation, status) {
                return Some(code);
            }
        }
    }

    /// Returns `false` if `pid` is no spawner or signer of a generation that has ended.
    fn helper_ended(&mut self, pid: Pid) -> bool {
        let before = self.helpers.len();
        self.helpers.retain(|(helper, _)| *helper != pid);
        self.helpers.len() < before
    }

    /// Returns `false` if the process was no signer of a generation. The generation goes on, and another signer is
    /// started.
    fn signer_ended(&mut self, status: WaitStatus) -> bool {
        let mut signers = self.generations.iter_mut().map(|generation| &mut generation.signer);
        let is_its = |signer: &SignerProcess| signer.pid().is_some() && signer.pid() == status.pid();
        let Some(signer) = signers.find(|signer| signer.as_ref().is_some_and(is_its)) else { return false };
        // Its workers have ended.
        if let WaitStatus::Exited(_, 0) = status {
            *signer = None;
            return true;
        }
        let pause = signer.as_mut().map_or(Duration::ZERO, |signer| signer.on_exit(Instant::now()));
        log::error(format_args!(
            "the process that signs handshakes has ended: {}; it is replaced {}",
            exit_text(status),
            supervisor::text(pause)
        ));
        true
    }

    /// Starts the signer of a generation again. If that fails, another generation reads the certificates again.
    pub(super) fn restart_signer(&mut self, generation: Pid) {
        let of_generation = |g: &Generation| g.pid == generation;
        let Some(at) = self.generations.iter().position(of_generation) else { return };
        let Some(mut signer) = self.generations[at].signer.take() else { return };
        match signer.restart(|| self.release_in_child(None)) {
            Ok(()) => self.generations[at].signer = Some(signer),
            Err(lines) => {
                self.helpers.extend(signer.pid().map(|pid| (pid, KillTimer::start(Instant::now(), GRACE))));
                log::error(format_args!("no handshakes can be signed: {}", lines.join("; ")));
                match self.generations[at].state {
                    State::Starting => self.generations[at].kill(),
                    State::Serving => _ = self.schedule_restart(),
                    State::Leaving(_) | State::Killed(_) => {}
                }
            }
        }
    }

    /// Returns `false` if the process was no spawner. A generation that serves is replaced with it, and finishes the
    /// requests that need no script.
    fn spawner_ended(&mut self, status: WaitStatus) -> bool {
        let is_its = |g: &&mut Generation| g.spawner.is_some_and(|spawner| Some(spawner.pid) == status.pid());
        let Some(generation) = self.generations.iter_mut().find(is_its) else { return false };
        generation.spawner = None;
        // With this code, its workers have ended before it.
        if matches!(status, WaitStatus::Exited(_, 0)) {
            return true;
        }
        let say =
            || log::error(format_args!("the process that starts scripts has ended: {}", exit_text(status)));
        match generation.state {
            State::Starting => {
                say();
                generation.kill();
            }
            State::Serving => {
                say();
                self.schedule_restart();
            }
            State::Leaving(_) | State::Killed(_) => {}
        }
        true
    }

    fn on_exit(&mut self, generation: Generation, status: WaitStatus) -> Option<ExitCode> {
        let end = exit_text(status);
        let Generation { pid, state, failure, .. } = generation;
        match state.on_exit() {
            Ended::AsExpected => {}
            Ended::BeforeServing => {
                let change = self.change.take_if(|change| change.new.pid == pid)?;
                let lines = match failure.is_empty() {
                    true => vec![format!("the serving process has ended before it served: {end}")],
                    false => failure,
                };
                change.sockets.remove_files(&self.sockets);
                let Change { mut cause, sockets, .. } = change;
                drop(sockets);
                match &cause {
                    Cause::Start => return Some(could_not_start(&self.all_problems(lines, &mut cause))),
                    Cause::Crash => self.on_failed_restart(&lines.join("; ")),
                    Cause::Renewal => self.on_failed_change(&lines, cause),
                    Cause::Reload(_) => {
                        let lines = self.all_problems(lines, &mut cause);
                        self.on_failed_change(&lines, cause);
                    }
                }
            }
            Ended::Crashed if failure.is_empty() => {
                let memory = match status {
                    WaitStatus::Signaled(_, Signal::SIGKILL, _) => self.oom.explanation(),
                    WaitStatus::Signaled(_, Signal::SIGABRT, _) => oom::ABORTED,
                    _ => "",
                };
                self.on_crash(&format!("{end}{memory}"));
            }
            Ended::Crashed => self.on_crash(&failure.join("; ")),
        }
        None
    }

    fn on_crash(&mut self, end: &str) {
        let pause = self.schedule_restart();
        log::error(format_args!(
            "the serving process has ended: {end}; it is replaced {}",
            supervisor::text(pause)
        ));
    }

    /// No generation could be started in place of one that has ended, or that lacks another process.
    pub(super) fn on_failed_restart(&mut self, why: &str) {
        let pause = self.schedule_restart();
        let clients = match self.serving() {
            Some(_) => "the present one goes on",
            None => "clients wait",
        };
        log::error(format_args!(
            "a new serving process cannot take over: {why}; {clients}, and it is tried again {}",
            supervisor::text(pause)
        ));
    }

    /// Schedules the replacement of the serving generation, no later than it was already. Restarts are not limited in
    /// number. Returns the time until then.
    pub(super) fn schedule_restart(&mut self) -> Duration {
        let now = Instant::now();
        let at = now + self.restart_limit.count(now);
        let at = self.restart.map_or(at, |earlier| earlier.min(at));
        self.restart = Some(at);
        at.saturating_duration_since(now)
    }

    /// The exit code when all children of an ending program have ended.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        let has_children = !self.generations.is_empty()
            || !self.helpers.is_empty()
            || !self.pools.is_empty()
            || !self.loggers.running.is_empty()
            || !self.certificates.is_empty();
        match self.phase {
            _ if has_children && self.phase.wait() != Some(Wait::Over) => None,
            Phase::Serving => None,
            Phase::Ending(code, _) => {
                self.clean_up();
                Some(code.into())
            }
            // The program behind the upgrade reaches the one before by this one.
            Phase::Replaced(_) => self.leaving_predecessor.is_none().then_some(ExitCode::SUCCESS),
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
