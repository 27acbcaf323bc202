//! The timers of the master: one list of all that is due at some time, of which the loop waits for the earliest.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Master;
use super::change::Cause;
use super::generations::{Generation, Retirement};
use super::lifecycle::{Action, Event, State, Wait};
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
    /// Of the generation with this ID.
    RestartSigner(Pid),
    /// A child that exceeds its time.
    Kill,
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
        let retirements =
            self.children.generations.iter().filter_map(|generation| match generation.retirement {
                Retirement::Until(until) => Some((until, Timer::Retirement(generation.pid))),
                Retirement::NotBegun | Retirement::Done => None,
            });
        let lifecycles = self.children.generations.iter().filter_map(|generation| {
            // While the program serves, it waits for a killed process without limit.
            let waits = matches!(generation.state, State::Killed(_)) && self.phase.is_serving();
            let until = generation.state.deadline().filter(|_| !waits)?;
            Some((until, Timer::Lifecycle(generation.pid)))
        });
        let unsent = self.children.generations.iter().filter_map(|g| Some((g.due()?, Timer::Unsent(g.pid))));
        let signers = self.children.generations.iter().filter_map(|generation| {
            let restart = generation.signer.as_ref()?.restart_time()?;
            Some((restart, Timer::RestartSigner(generation.pid)))
        });
        let while_serving =
            |at: Option<Instant>, timer| at.filter(|_| self.phase.is_serving()).map(|at| (at, timer));
        let successor = self.upgrade.successor().filter(|_| self.phase.is_serving());
        let served = self.served.as_ref();
        let predecessor = self.upgrade.leaving_predecessor();
        let others = [
            self.children.due().map(|at| (at, Timer::Kill)),
            self.changes.running.as_ref().map(|change| (change.kill.due(), Timer::StartTimeout)),
            successor.map(|successor| (successor.until, Timer::UpgradeTimeout)),
            successor.and_then(|successor| successor.unsent.due()).map(|at| (at, Timer::HandOff)),
            predecessor.and_then(|predecessor| predecessor.unsent.due()).map(|at| (at, Timer::TakeOver)),
            self.control.as_ref().and_then(Control::deadline).map(|at| (at, Timer::ControlTimeout)),
            self.purges.due().map(|at| (at, Timer::Purges)),
            self.disconnects.due().map(|at| (at, Timer::Disconnects)),
            self.notify.next_ping().map(|at| (at, Timer::Ping)),
            self.children.certificates.deadline().map(|at| (at, Timer::Acme)),
            while_serving(
                served.and_then(|served| served.watched.next_certificate_check),
                Timer::Certificates,
            ),
            while_serving(served.and_then(|served| served.watched.next_check), Timer::NamedFiles),
            served.and_then(|served| served.tls.next_epoch).map(|at| (at, Timer::Tickets)),
            self.changes.release.map(|at| (at, Timer::Release)),
            while_serving(self.children.loggers.restart, Timer::RestartLoggers),
            while_serving(self.children.next_log, Timer::SendLogs),
            self.phase.wait().and_then(Wait::deadline).map(|at| (at, Timer::End)),
            // The end of a change restarts the generation, or schedules it again.
            self.restart.due().filter(|_| self.changes.running.is_none()).map(|at| (at, Timer::Restart)),
        ];
        retirements
            .chain(lifecycles)
            .chain(unsent)
            .chain(signers)
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
                self.children.generation_mut(pid).into_iter().for_each(Generation::on_retired);
            }
            Timer::Lifecycle(pid) => self.children.generations.retain_mut(|generation| {
                generation.pid != pid || generation.on_event(Event::TimeOver, now) != Action::Abandon
            }),
            Timer::Unsent(pid) => {
                self.children.generation(pid).into_iter().for_each(Generation::send_unsent);
            }
            Timer::Kill => self.children.kill_overdue(now),
            Timer::RestartSigner(generation) => self.restart_signer(generation),
            Timer::Purges => self.advance_purges(),
            Timer::Disconnects => self.advance_disconnects(),
            // `on_timers` looks after it.
            Timer::Acme => {}
            Timer::RestartLoggers => self.replace_loggers(),
            Timer::SendLogs => self.send_awaited_logs(),
            Timer::StartTimeout => {
                if let Some(change) = &mut self.changes.running
                    && change.kill.expires(now)
                {
                    // `reap` then reports the failure.
                    _ = kill(change.new.pid, Signal::SIGKILL);
                }
            }
            Timer::UpgradeTimeout => {
                let why = self.upgrade.successor().map(Successor::why_not_in_time);
                self.upgrade.abandon(&why.unwrap_or_default());
            }
            Timer::HandOff => self.on_successor(),
            Timer::TakeOver => self.on_predecessor(),
            Timer::ControlTimeout => self.on_control(),
            Timer::Ping => {
                self.notify.schedule_ping(now);
                if let Some(generation) = self.children.serving() {
                    _ = generation.channel.send(&MasterCommand::Ping);
                }
            }
            Timer::Certificates => self.check_certificates(now),
            Timer::NamedFiles => self.check_files(now),
            Timer::Tickets => {
                self.served.iter_mut().for_each(|served| served.tls.forget_tickets(now));
            }
            Timer::End => self.end_waiting(now),
            // `wait` does it last: code that ran afterwards would map the program again.
            Timer::Release => {}
            // A client of the control socket may just have begun a reload.
            Timer::Restart if self.changes.running.is_some() => {}
            Timer::Restart => {
                self.restart.cancel();
                let begun = self.site().cloned().map(|site| self.begin_change(site, Cause::Crash));
                if let Some(Err((lines, _))) = begun {
                    self.on_failed_restart(&lines.join("; "));
                }
            }
        }
    }
}
