//! The purges of a process, which all of its workers and their helper threads see. While there is none, asking costs
//! one atomic read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use cache::store::head::Label;
use cache::store::purge::{Epoch, Purge, Purges};

use crate::clock;
use crate::mutex::locked;

#[derive(Debug, Default)]
pub struct SharedPurges {
    purges: Mutex<Purges>,
    /// How many have begun, and how many of them still remove files.
    begun: AtomicU64,
    removing: AtomicU64,
}

/// The purges of this process.
pub fn shared() -> &'static Arc<SharedPurges> {
    static PURGES: LazyLock<Arc<SharedPurges>> = LazyLock::new(Arc::default);
    &PURGES
}

/// What is requested now.
pub fn now() -> Epoch {
    Epoch(clock::micros())
}

impl SharedPurges {
    /// Begins a purge; `end` follows when the files are removed.
    pub fn begin(&self, purge: Purge) -> Epoch {
        let mut purges = self.lock();
        self.removing.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        purges.begin(purge, now())
    }

    pub fn end(&self, purge: Epoch) {
        let mut purges = self.lock();
        purges.end(purge);
        self.removing.store(purges.removing() as u64, Ordering::Release);
    }

    /// Whether a response to a request that began at `since` must not be stored.
    pub fn forbid_storing(&self, since: Epoch, label: &Label<'_>) -> bool {
        self.begun.load(Ordering::Acquire) > 0 && self.lock().forbid_storing(since, label)
    }

    /// Whether a file that was stored for a request of `since` must not be used.
    pub fn forbid_using(&self, since: Epoch, label: &Label<'_>) -> bool {
        self.removing.load(Ordering::Acquire) > 0 && self.lock().forbid_using(since, label)
    }

    fn lock(&self) -> MutexGuard<'_, Purges> {
        locked(&self.purges)
    }
}
