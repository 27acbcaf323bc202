//! Mutexes that stay in use after a panic, which ends one connection and not the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value, as a holder that panicked has left it, too: each holder keeps it valid at every step.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
