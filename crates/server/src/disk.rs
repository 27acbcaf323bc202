//! The helper threads: whatever may wait for a disk is done there, never in a worker's loop.
//!
//! Knows nothing of files or requests: it runs closures, bounds how many wait, and gives up on those
//! that take too long.

use std::time::Duration;

use crate::places::Places;

/// Why a closure gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// As many wait already as may.
    Full,
    /// It took longer than it may; it goes on in its thread, and its result is dropped.
    Late,
    /// It panicked.
    Failed,
}

/// One worker's way to the helper threads, which are those of its runtime.
pub struct Disk {
    queue: Places,
    timeout: Duration,
}

impl Disk {
    pub fn new(queue: usize, timeout: Duration) -> Disk {
        Disk { queue: Places::new(queue), timeout }
    }

    /// Runs `work` on a helper thread. Dropping the future does not stop work that has begun.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let _place = self.queue.take().ok_or(Busy::Full)?;
        match tokio::time::timeout(self.timeout, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(Busy::Failed),
            Err(_) => Err(Busy::Late),
        }
    }
}
