//! The timers of the master: one list of all that is due at some time, of which the loop waits for the earliest.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Master;
use super::change::Cause;
use super::lifecycle::{Action, Event, State, Wait};
use super::process::{Generation, Retirement};
use super::upgrade::Successor;
use crate::control::Control;
use crate::process::ipc::MasterCommand;

/// What is due at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Timer {
    Retirement(Pid),
    Lifecycle(Pid),
    /// Of the generation with this ID.
    Unsent(Pid),
    KillHelper(Pid),
    /// Of the generation with this ID.
    RestartSigner(Pid),
    /// `end_pools` compares the deadlines of the pools.
    Pool,
    Logger,
    RestartLoggers,
    SendLogs,
    Acme,
    StartTimeout,
    UpgradeTimeout,
    /// Messages to the successor.
    HandOff,
    /// The command to the predecessor.
    TakeOver,
    ControlTimeout,
    Purges,
    Disconnects,
    Ping,
    Certificates,
    NamedFiles,
    Tickets,
    Release,
    Restart,
    /// The end of the program waits no longer.
    End,
}

impl Master {
    /// Everything that is due at some time.
    pub(super) fn timers(&self) -> Vec<(Instant, Timer)> {
        let retirements = self.generations.iter().filter_map(|generation| match generation.retirement {
            Retirement::Until(until) => Some((until, Timer::Retirement(generation.pid))),
            Retirement::NotBegun | Retirement::Done => None,
        });
        let lifecycles = self.generations.iter().filter_map(|generation| {
            // While the program serves, it waits for a killed process without limit.
            let waits = matches!(generation.state, State::Killed(_)) && self.phase.is_serving();
            let until = generation.state.deadline().filter(|_| !waits)?;
            Some((until, Timer::Lifecycle(generation.pid)))
        });
        let unsent = self.generations.iter().filter_map(|g| Some((g.due()?, Timer::Unsent(g.pid))));
        let helpers = self.helpers.iter().map(|(pid, timer)| (timer.due(), Timer::KillHelper(*pid)));
        let signers = self.generations.iter().filter_map(|generation| {
            let restart = generation.signer.as_ref()?.restart_time()?;
            Some((restart, Timer::RestartSigner(generation.pid)))
        });
        let pools = self.pools.iter().filter_map(|pool| Some((pool.kill.as_ref()?.due(), Timer::Pool)));
        let loggers = self
            .loggers
            .running
            .iter()
            .filter_map(|logger| Some((logger.kill.as_ref()?.due(), Timer::Logger)));
        let while_serving =
            |at: Option<Instant>, timer| at.filter(|_| self.phase.is_serving()).map(|at| (at, timer));
        let upgrade = self.successor.as_ref().filter(|_| self.phase.is_serving());
        let others = [
            self.change.as_ref().map(|change| (change.kill.due(), Timer::StartTimeout)),
            upgrade.map(|successor| (successor.until, Timer::UpgradeTimeout)),
            upgrade.and_then(|successor| successor.unsent.due()).map(|at| (at, Timer::HandOff)),
            self.leaving_predecessor
                .as_ref()
                .and_then(|predecessor| predecessor.unsent.due())
                .map(|at| (at, Timer::TakeOver)),
            self.control.as_ref().and_then(Control::deadline).map(|at| (at, Timer::ControlTimeout)),
            self.purges.running.iter().map(|running| running.until).min().map(|at| (at, Timer::Purges)),
            self.disconnects
                .running
                .iter()
                .map(|running| running.until)
                .min()
                .map(|at| (at, Timer::Disconnects)),
            self.next_ping.map(|at| (at, Timer::Ping)),
            self.certificates.deadline().map(|at| (at, Timer::Acme)),
            while_serving(self.watched.next_certificate_check, Timer::Certificates),
            while_serving(self.watched.next_check, Timer::NamedFiles),
            self.next_epoch.map(|at| (at, Timer::Tickets)),
            self.release.map(|at| (at, Timer::Release)),
            while_serving(self.loggers.restart, Timer::RestartLoggers),
            while_serving(self.next_log, Timer::SendLogs),
            self.phase.wait().and_then(Wait::deadline).map(|at| (at, Timer::End)),
            // The end of a change restarts the generation, or schedules it again.
            self.restart.filter(|_| self.change.is_none()).map(|at| (at, Timer::Restart)),
        ];
        retirements
            .chain(lifecycles)
            .chain(unsent)
            .chain(helpers)
            .chain(signers)
            .chain(pools)
            .chain(loggers)
            .chain(others.into_iter().flatten())
            .collect()
    }

    pub(super) fn on_timers(&mut self) {
        let now = Instant::now();
        for (_, timer) in self.timers().into_iter().filter(|(at, _)| *at <= now) {
            self.on_timer(timer, now);
        }
        self.end_pools(now);
        self.end_loggers(now);
        self.look_after_certificates();
        self.serve_renewed();
    }

    fn on_timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Retirement(pid) => {
                self.generations.iter_mut().filter(|g| g.pid == pid).for_each(Generation::on_retired);
            }
            Timer::Lifecycle(pid) => self.generations.retain_mut(|generation| {
                generation.pid != pid || generation.on_event(Event::TimeOver, now) != Action::Abandon
            }),
            Timer::Unsent(pid) => {
                self.generations.iter().filter(|g| g.pid == pid).for_each(Generation::send_unsent);
            }
            Timer::KillHelper(pid) => {
                for (_, timer) in self.helpers.iter_mut().filter(|(helper, _)| *helper == pid) {
                    if timer.expires(now) {
                        // The kernel then kills the scripts of a spawner, too (PR_SET_PDEATHSIG).
                        _ = kill(pid, Signal::SIGKILL);
                    }
                }
            }
            Timer::RestartSigner(generation) => self.restart_signer(generation),
            Timer::Purges => self.advance_purges(),
            Timer::Disconnects => self.advance_disconnects(),
            // `on_timers` looks after them.
            Timer::Pool | Timer::Logger | Timer::Acme => {}
            Timer::RestartLoggers => self.replace_loggers(),
            Timer::SendLogs => self.send_awaited_logs(),
            Timer::StartTimeout => {
                if let Some(change) = &mut self.change
                    && change.kill.expires(now)
                {
                    // `reap` then reports the failure.
                    _ = kill(change.new.pid, Signal::SIGKILL);
                }
            }
            Timer::UpgradeTimeout => {
                let why = self.successor.as_ref().map(Successor::why_not_in_time);
                self.abandon_upgrade(&why.unwrap_or_default());
            }
            Timer::HandOff => self.on_successor(),
            Timer::TakeOver => self.on_predecessor(),
            Timer::ControlTimeout => self.on_control(),
            Timer::Ping => {
                self.next_ping = self.notify.watchdog().map(|every| now + every);
                if let Some(generation) = self.serving() {
                    _ = generation.channel.send(&MasterCommand::Ping);
                }
            }
            Timer::Certificates => self.check_certificates(now),
            Timer::NamedFiles => self.check_files(now),
            Timer::Tickets => self.forget_tickets(),
            Timer::End => self.end_waiting(now),
            // `wait` does it last: code that ran afterwards would map the program again.
            Timer::Release => {}
            // A client of the control socket may just have begun a reload.
            Timer::Restart if self.change.is_some() => {}
            Timer::Restart => {
                self.restart = None;
                let begun = self.site.clone().map(|site| self.begin_change(site, Cause::Crash));
                if let Some(Err((lines, _))) = begun {
                    self.on_failed_restart(&lines.join("; "));
                }
            }
        }
    }
}
