//! Tells all workers of the process that files have changed, so that the next request for any of them sees the change,
//! whichever worker has it.

use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::files::Files;
use crate::mutex::locked;

/// How long a change waits for workers that are busy. Their entries are compared with the disk soon after, anyway.
const PATIENCE: Duration = Duration::from_millis(500);

/// Dropped when the worker has done it.
type Change = oneshot::Sender<()>;

/// The workers of this process that serve files which clients may change. Each has a queue that is no longer than the
/// number of requests that wait for it.
static WORKERS: Mutex<Vec<UnboundedSender<Change>>> = Mutex::new(Vec::new());

/// The changes that a worker learns of.
pub struct Changes(UnboundedReceiver<Change>);

/// For a worker that starts.
pub fn subscribe() -> Changes {
    let (sender, receiver) = unbounded_channel();
    locked(&WORKERS).push(sender);
    Changes(receiver)
}

impl Changes {
    /// Has `files` compare its entries with the disk, for as long as the worker lives.
    pub async fn receive(mut self, files: Rc<Files>) -> std::io::Result<()> {
        while let Some(done) = self.0.recv().await {
            files.expire();
            drop(done);
        }
        Ok(())
    }
}

/// Returns when all workers know of a change that has been made.
pub async fn announce(files: &Files) {
    files.expire();
    let mut waiting = Vec::new();
    locked(&WORKERS).retain(|worker| {
        let (done, receiver) = oneshot::channel();
        let lives = worker.send(done).is_ok();
        waiting.extend(lives.then_some(receiver));
        lives
    });
    let all = async {
        for done in waiting {
            // An error says that it was dropped, which is the response.
            _ = done.await;
        }
    };
    _ = tokio::time::timeout(PATIENCE, all).await;
}
