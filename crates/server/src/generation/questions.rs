//! Answers the workers' questions about statistics, and makes the points of the history.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::responses::in_time;
use super::{MainThread, Phase};
use crate::main_thread::Question;
use crate::process::ipc::GenerationEvent;
use crate::worker::WorkerCommand;
use crate::{clock, control, log, tasks};

/// Acts of users of the page at the same time. A reload may take a while, and then it is one of them.
pub(super) const MAX_ACTS: usize = 8;

impl MainThread {
    pub(super) fn on_question(&mut self, question: Question) {
        match question {
            // Its client may have closed the connection.
            Question::Report(to) => self.report_stats(|report| _ = to.send(report)),
            Question::Recent(from, to) => {
                let mut number = from.into_iter();
                let responses =
                    self.request(|response| WorkerCommand::Recent(number.next().unwrap_or(0), response));
                tasks::spawn(async move { to.send(in_time(responses).await) });
            }
            Question::Act(text, to) => {
                let Ok(permit) = self.acts.clone().try_acquire_owned() else {
                    if let Some(omitted) = self.refused_acts.admit(clock::wall()) {
                        let (who, _) =
                            text.split_at(text.iter().position(|byte| *byte == b'\n').unwrap_or(0));
                        let who = String::from_utf8_lossy(who).escape_debug().to_string();
                        log::warn(format_args!("page, {who}: refused, {MAX_ACTS} acts are running{omitted}"));
                    }
                    _ = to.send(None);
                    return;
                };
                let Ok((ours, theirs)) = UnixStream::pair() else { return };
                if self.master.send(&GenerationEvent::Act { text, to: theirs.into() }).is_ok() {
                    tasks::spawn(async move {
                        let response = control::response_from(ours).await;
                        drop(permit);
                        // Its client may have closed the connection.
                        _ = to.send(Some(response));
                    });
                }
            }
            Question::Activity if self.phase == Phase::Serving => {
                self.sample();
                self.go_on_sampling();
            }
            Question::Activity => {}
        }
    }

    /// Makes the points of the history that are due, until nothing happens any more. Then what requests needed is given
    /// back.
    pub(super) fn on_sample_due(&mut self) {
        if !self.sample() {
            self.release_later();
        }
    }

    /// Makes the points that are due. `false`: nothing happens, and there is no next one.
    pub(super) fn sample(&mut self) -> bool {
        self.next_sample = None;
        let Some(history) = &self.main_thread.history else { return false };
        let now = clock::wall_micros();
        // First: what happens from here on is noticed.
        self.main_thread.rests.store(true, Ordering::SeqCst);
        let is_busy = self.sampler.sample(now / 1_000_000, &self.ledger.moment(), history);
        if is_busy {
            self.go_on_sampling();
        }
        is_busy
    }

    /// Makes the next point at the end of this second. A connection that begins counts as present only at the next tick
    /// of its worker.
    fn go_on_sampling(&mut self) {
        self.main_thread.rests.store(false, Ordering::SeqCst);
        let rest = Duration::from_micros(1_000_000 - clock::wall_micros() % 1_000_000);
        self.next_sample = Some(tokio::time::Instant::now() + rest);
    }
}
