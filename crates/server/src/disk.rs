//! The helper threads: whatever may wait for a disk is done there, never in a worker's loop.
//!
//! Knows nothing of files or requests: it runs closures, bounds how many wait, and gives up on those
//! that take too long.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

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
    waiting: Rc<Cell<usize>>,
    queue: usize,
    timeout: Duration,
}

impl Disk {
    pub fn new(queue: usize, timeout: Duration) -> Disk {
        Disk { waiting: Rc::default(), queue, timeout }
    }

    /// Runs `work` on a helper thread. Dropping the future does not stop work that has begun.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let _place = Place::take(&self.waiting, self.queue).ok_or(Busy::Full)?;
        match tokio::time::timeout(self.timeout, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(Busy::Failed),
            Err(_) => Err(Busy::Late),
        }
    }
}

/// A place in the queue, given back when dropped.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(waiting: &Rc<Cell<usize>>, limit: usize) -> Option<Place> {
        if waiting.get() >= limit {
            return None;
        }
        waiting.set(waiting.get() + 1);
        Some(Place(waiting.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
