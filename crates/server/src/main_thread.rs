//! What a worker asks of the main thread of its process: the statistics of all workers, and acts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::stats::{History, RecentText, Report};

/// What a worker asks of the main thread.
pub enum Question {
    /// The statistics of all workers.
    Report(oneshot::Sender<Report>),
    /// For each worker, its requests from the one with this number on.
    Recent(Vec<u64>, oneshot::Sender<Vec<Option<RecentText>>>),
    /// An act of a user of the page, as text. `None`: too many are running. Errors: why it was not done.
    Act(Vec<u8>, oneshot::Sender<Option<Result<String, String>>>),
    /// There are connections again.
    Activity,
}

/// A worker's way to the main thread.
#[derive(Clone)]
pub struct MainThreadHandle {
    pub questions: UnboundedSender<Question>,
    /// Whether the main thread makes no points of the history, because nothing happens.
    pub rests: Arc<AtomicBool>,
    pub history: Option<Arc<History>>,
}

impl MainThreadHandle {
    /// `None`: the main thread is ending.
    pub async fn report(&self) -> Option<Report> {
        let (sender, report) = oneshot::channel();
        self.questions.send(Question::Report(sender)).ok()?;
        report.await.ok()
    }

    /// `from`: the number of the first request of each worker.
    pub async fn recent(&self, from: Vec<u64>) -> Option<Vec<Option<RecentText>>> {
        let (sender, recent) = oneshot::channel();
        self.questions.send(Question::Recent(from, sender)).ok()?;
        recent.await.ok()
    }

    /// `None`: too many acts are running, or the main thread is ending.
    pub async fn act(&self, text: Vec<u8>) -> Option<Result<String, String>> {
        let (sender, done) = oneshot::channel();
        self.questions.send(Question::Act(text, sender)).ok()?;
        done.await.ok()?
    }

    /// There is a connection.
    #[inline]
    pub fn on_activity(&self) {
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            // The main thread may be ending.
            _ = self.questions.send(Question::Activity);
        }
    }
}
