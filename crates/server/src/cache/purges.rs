//! The purges of a process, which all of its workers and their helper threads see. While there is none, asking costs one
//! atomic read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cache::store::head::Label;
use cache::store::purge::{Epoch, Purge, Purges};

#[derive(Debug, Default)]
pub struct SharedPurges {
    purges: Mutex<Purges>,
    /// How many have begun, and how many of them still remove files.
    begun: AtomicU64,
    removing: AtomicU64,
}

impl SharedPurges {
    /// What begins now may be stored unless a later purge matches.
    pub fn epoch(&self) -> Epoch {
        if self.begun.load(Ordering::Acquire) == 0 { Epoch::default() } else { self.lock().epoch() }
    }

    /// Begins a purge; `end` follows when the files are removed.
    pub fn begin(&self, purge: Purge) -> Epoch {
        let mut purges = self.lock();
        self.removing.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        purges.begin(purge)
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
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
