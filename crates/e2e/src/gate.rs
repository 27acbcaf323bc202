//! A gate that keeps threads of a test waiting until the test opens it.

use std::sync::{Arc, Condvar, Mutex};

use crate::TIMEOUT;

/// Opens once, for all threads.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("no thread panics") = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open. Panics if that takes too long.
    pub fn wait(&self) {
        let closed = self.0.0.lock().expect("no thread panics");
        let waited = self.0.1.wait_timeout_while(closed, 3 * TIMEOUT, |open| !*open);
        assert!(*waited.expect("no thread panics").0, "the gate is not opened");
    }
}
