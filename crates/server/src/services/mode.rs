//! What becomes of the connections of a worker: they stay until it ends.

use std::cell::Cell;

use tokio::sync::Notify;

/// What becomes of a connection behind a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It stays, and the worker accepts more.
    Serving,
    /// It closes.
    Closing,
    /// It is handed off to another process.
    HandingOff,
}

/// The present mode of a worker.
pub struct PresentMode {
    mode: Cell<Mode>,
    is_set: Notify,
}

impl PresentMode {
    /// Of a worker that begins to serve.
    pub fn new() -> PresentMode {
        PresentMode { mode: Cell::new(Mode::Serving), is_set: Notify::new() }
    }

    #[inline]
    pub fn get(&self) -> Mode {
        self.mode.get()
    }

    pub fn set(&self, mode: Mode) {
        self.mode.set(mode);
        self.is_set.notify_waiters();
    }

    /// True when the worker accepts no more.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.get() != Mode::Serving
    }

    /// Waits until the worker accepts no more.
    pub async fn leaving(&self) {
        self.wait_until(|mode| mode != Mode::Serving).await;
    }

    /// Waits until connections without a request close.
    pub async fn closing(&self) {
        self.wait_until(|mode| mode == Mode::Closing).await;
    }

    async fn wait_until(&self, is_awaited: impl Fn(Mode) -> bool) {
        loop {
            let is_set = self.is_set.notified();
            if is_awaited(self.get()) {
                return;
            }
            is_set.await;
        }
    }
}
