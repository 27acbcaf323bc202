//! Ends: of serving processes, wanted and not, and of the master; and what is done when its time has come.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::change::{Why, refuse_clients};
use super::process::{Generation, Retires, State};
use super::sockets::Sockets;
use super::takeover::report_failed_upgrade;
use super::{GRACE, Master, Phase, could_not_start};
use crate::control::Control;
use crate::ipc::MasterCommand;
use crate::spawner::cgroup;
use crate::supervisor::KillTimer;
use crate::{log, privileged_file, spawner, supervisor};

impl Master {
    /// Has every process end, and with the last of them this one.
    pub(super) fn end_all(&mut self, order: &MasterCommand, code: u8) {
        // Where another program serves, this one has to finish all the same.
        if self.phase != Phase::Succeeded {
            self.phase = Phase::Ending(code);
            self.notify.stopping();
        }
        self.drop_change("the program is ending");
        let patience = match (order, &self.site) {
            (MasterCommand::Leave, Some(site)) => site.timeouts.shutdown,
            _ => Duration::ZERO,
        };
        for generation in &mut self.generations {
            _ = generation.channel.send(order);
            generation.state = State::Leaving(Instant::now() + patience + GRACE);
        }
        if let Some(clients) = self.again.take() {
            refuse_clients(clients, "the program is ending");
        }
        if self.phase != Phase::Succeeded {
            self.abandon_upgrade_quietly();
        }
        self.restart = None;
        self.next_ping = None;
        self.control = None;
        // Nobody who comes now is accepted; files are removed at the end.
        self.sockets.close();
    }

    pub(super) fn kill_all(&self) {
        for generation in &self.generations {
            // Fails only if it has ended.
            _ = kill(generation.pid, Signal::SIGKILL);
        }
    }

    /// Sees to processes that have ended.
    pub(super) fn reap(&mut self) -> Option<ExitCode> {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => status,
                _ => return None,
            };
            let pid = status.pid()?;
            let end = how_it_ended(status);
            if self.spawner_ended(pid, &end) {
                self.cgroups.iter().for_each(|folder| cgroup::sweep(folder));
                continue;
            }
            if self.on_pool_exit(pid, &end) {
                continue;
            }
            if self.successor.as_ref().is_some_and(|s| s.pid() == pid) {
                // When it has taken over, there is nothing to be said.
                if self.phase == Phase::Keeping
                    && let Some(successor) = self.successor.take()
                {
                    report_failed_upgrade(
                        successor,
                        &format!("the new program has ended before it served: {end}"),
                    );
                }
                continue;
            }
            // It may have said why.
            if let Some(code) = self.on_generation(pid) {
                return Some(code);
            }
            let Some(place) = self.generations.iter().position(|g| g.pid == pid) else { continue };
            let mut dead = self.generations.remove(place);
            if let Some(spawner) = dead.spawner {
                let grace = spawner.grace + spawner::KILL_TIMEOUT + GRACE;
                self.spawners.push((spawner, KillTimer::start(Instant::now(), grace)));
            }
            dead.answer_waiting();
            if let Some(code) = self.on_exit(dead, &end) {
                return Some(code);
            }
        }
    }

    /// `false`: it was none. Without its spawner a process cannot serve, and is replaced with it.
    fn spawner_ended(&mut self, pid: Pid, end: &str) -> bool {
        let place = self.spawners.iter().position(|(spawner, _)| spawner.pid == pid);
        if let Some(place) = place {
            self.spawners.remove(place);
            return true;
        }
        let has_ended = |g: &&mut Generation| g.spawner.is_some_and(|spawner| spawner.pid == pid);
        let Some(generation) = self.generations.iter_mut().find(has_ended) else { return false };
        generation.spawner = None;
        if let State::Starting | State::Serving = generation.state {
            log::error(format_args!("the process that starts scripts has ended: {end}"));
            // Fails only if it has ended, too.
            _ = kill(generation.pid, Signal::SIGKILL);
        }
        true
    }

    pub(super) fn on_exit(&mut self, dead: Generation, end: &str) -> Option<ExitCode> {
        match dead.state {
            State::Leaving(_) | State::Killed(_) => {}
            State::Starting => {
                let change = self.change.take_if(|change| change.generation == dead.pid)?;
                let lines = match dead.failure.is_empty() {
                    true => vec![format!("the serving process has ended before it served: {end}")],
                    false => dead.failure,
                };
                change.sockets.remove_files(&self.sockets);
                match change.why {
                    Why::Start => return Some(could_not_start(&lines)),
                    Why::Crash => self.crashed(&lines.join("; ")),
                    why @ Why::Reload(_) => self.tell_failure(&lines, why),
                }
            }
            State::Serving if dead.failure.is_empty() => self.crashed(end),
            State::Serving => self.crashed(&dead.failure.join("; ")),
        }
        None
    }

    /// The serving process has ended, and was not told to. Another one is started, however often.
    pub(super) fn crashed(&mut self, end: &str) {
        let now = Instant::now();
        let pause = self.restart_limit.count(now);
        let next = supervisor::text(pause);
        log::error(format_args!("the serving process has ended: {end}; another one is started {next}"));
        self.restart = Some(now + pause);
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = Instant::now();
        for generation in &mut self.generations {
            if matches!(generation.retires, Retires::Until(until) if until <= now) {
                generation.answer_waiting();
            }
            if let State::Leaving(until) = generation.state
                && until <= now
            {
                // Fails only if it has ended.
                _ = kill(generation.pid, Signal::SIGKILL);
                generation.state = State::Killed(now + GRACE);
            }
        }
        if self.phase != Phase::Keeping {
            self.generations.retain(|generation| !generation.is_beyond_help(now));
        }
        for (spawner, timer) in &mut self.spawners {
            if timer.expires(now) {
                // The kernel then kills the scripts, too (PR_SET_PDEATHSIG).
                _ = kill(spawner.pid, Signal::SIGKILL);
            }
        }
        self.end_pools(now);
        if let Some(change) = &mut self.change
            && change.kill.expires(now)
        {
            // The change fails when the generation is reaped.
            _ = kill(change.generation, Signal::SIGKILL);
        }
        if self.phase == Phase::Keeping && self.successor.as_ref().is_some_and(|s| s.until <= now) {
            self.abandon_upgrade("the new program does not serve in time");
        }
        if self.control.as_ref().and_then(Control::deadline).is_some_and(|at| at <= now) {
            self.on_control();
        }
        if self.next_ping.is_some_and(|at| at <= now) {
            self.next_ping = self.notify.watchdog().map(|every| now + every);
            if let Some(generation) = self.serving() {
                _ = generation.channel.send(&MasterCommand::Ping);
            }
        }
        // A change that is under way puts it right, too, or asks for it again.
        if self.change.is_none() && self.restart.is_some_and(|at| at <= now) {
            self.restart = None;
            let begun = self.site.clone().map(|site| self.begin_change(site, Why::Crash));
            if let Some(Err((lines, _))) = begun {
                self.crashed(&lines.join("; "));
            }
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.generations.is_empty() && self.spawners.is_empty() && self.pools.is_empty()
    }

    /// All processes have ended: is that the end?
    pub(super) fn end(&mut self) -> Option<ExitCode> {
        match self.phase {
            Phase::Keeping => None,
            Phase::Ending(code) => {
                self.clean_up();
                Some(code.into())
            }
            Phase::Succeeded => Some(ExitCode::SUCCESS),
        }
    }

    /// Removes what would be left behind.
    pub(super) fn clean_up(&self) {
        self.sockets.remove_files(&Sockets::default());
        if let Some(path) = self.site.as_ref().and_then(|site| site.pid_file.as_ref()) {
            privileged_file::remove(path);
        }
    }
}

pub(super) fn how_it_ended(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("exit code {code}"),
        WaitStatus::Signaled(_, signal, _) => format!("killed by {signal}"),
        other => format!("{other:?}"),
    }
}
