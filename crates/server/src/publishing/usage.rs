//! How many bytes lie beneath the roots that have a quota. All workers of the process count together: bytes that an
//! upload is about to write are reserved first, so that two uploads cannot fill the same space.
//!
//! Files that others change are seen when all are counted again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::mutex::locked;

/// The files are counted again after this time, or later where counting takes long.
const RECOUNT: Duration = Duration::from_secs(60);
/// The share of time that counting may take.
const RECOUNT_SHARE: u32 = 100;

/// What a file or a folder counts at least: a block of most disks. So a quota bounds the number of names, too.
const LEAST: u64 = 4096;

/// What a file of so many bytes counts for a quota, or a folder, which has none.
pub fn cost(bytes: u64) -> u64 {
    bytes.max(LEAST)
}

#[derive(Debug, Default)]
struct Used {
    /// Bytes of files, as they count.
    stored: u64,
    /// Bytes that uploads will write.
    reserved: u64,
    /// When the files are counted again. `None`: they have not been counted.
    due: Option<Instant>,
}

static ALL: Mutex<BTreeMap<PathBuf, Used>> = Mutex::new(BTreeMap::new());

fn with<T>(root: &Arc<PathBuf>, change: impl FnOnce(&mut Used) -> T) -> T {
    let mut all = locked(&ALL);
    change(all.entry(root.to_path_buf()).or_default())
}

/// Whether the files beneath the root have to be counted. Says so to one caller, while others use the last count.
pub fn must_count(root: &Arc<PathBuf>, now: Instant) -> bool {
    with(root, |used| match used.due {
        None => true,
        Some(due) if due <= now => {
            used.due = Some(now + RECOUNT);
            true
        }
        Some(_) => false,
    })
}

/// The result of counting, which took this time.
pub fn counted(root: &Arc<PathBuf>, stored: u64, now: Instant, took: Duration) {
    let pause = RECOUNT.max(took.saturating_mul(RECOUNT_SHARE));
    with(root, |used| (used.stored, used.due) = (stored, Some(now + pause)));
}

/// So many bytes more are stored than were reserved.
pub fn added(root: &Arc<PathBuf>, bytes: u64) {
    with(root, |used| used.stored = used.stored.saturating_add(bytes));
}

/// Files of so many bytes have been removed.
pub fn removed(root: &Arc<PathBuf>, bytes: u64) {
    with(root, |used| used.stored = used.stored.saturating_sub(bytes));
}

/// Bytes of files beneath the root, as far as they are known, and of running uploads.
pub fn used(root: &Arc<PathBuf>) -> u64 {
    with(root, |used| used.stored.saturating_add(used.reserved))
}

/// Bytes that one upload may write, given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    root: Arc<PathBuf>,
    bytes: u64,
    /// `None`: there is no quota.
    quota: Option<u64>,
}

impl Reservation {
    pub fn new(root: &Arc<PathBuf>, quota: Option<u64>) -> Reservation {
        Reservation { root: root.clone(), bytes: 0, quota }
    }

    /// Reserves so many in all. Whether the quota allows it.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let (Some(quota), more) = (self.quota, bytes.saturating_sub(self.bytes)) else { return true };
        let fits = with(&self.root, |used| {
            let sum = used.stored.saturating_add(used.reserved).saturating_add(more);
            let fits = sum <= quota;
            used.reserved += if fits { more } else { 0 };
            fits
        });
        self.bytes += if fits { more } else { 0 };
        fits
    }

    /// So many of the reserved bytes are stored for good.
    pub fn keep(&mut self, bytes: u64) {
        if self.quota.is_some() {
            let kept = bytes.min(self.bytes);
            with(&self.root, |used| {
                used.stored = used.stored.saturating_add(kept);
                used.reserved = used.reserved.saturating_sub(kept);
            });
            self.bytes -= kept;
        }
    }

    /// The file is stored, and has replaced one of `replaced` bytes.
    pub fn store(self, bytes: u64, replaced: u64) {
        if self.quota.is_some() {
            with(&self.root, |used| used.stored = used.stored.saturating_add(bytes).saturating_sub(replaced));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            with(&self.root, |used| used.reserved = used.reserved.saturating_sub(self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_share_a_quota() {
        let root = Arc::new(PathBuf::from("/test/shared"));
        let now = Instant::now();
        assert!(must_count(&root, now));
        counted(&root, 40, now, Duration::ZERO);
        assert!(!must_count(&root, now));
        let (mut one, mut other) = (Reservation::new(&root, Some(100)), Reservation::new(&root, Some(100)));
        assert!(one.grow_to(30) && other.grow_to(30));
        assert!(!other.grow_to(31), "the quota is full");
        assert_eq!(used(&root), 100);
        one.store(20, 10);
        assert_eq!(used(&root), 80);
        assert!(other.grow_to(50));
        drop(other);
        removed(&root, 45);
        assert_eq!(used(&root), 5);
        assert!(must_count(&root, now + RECOUNT));
        assert!(!must_count(&root, now + RECOUNT), "another request counts");
    }

    #[test]
    fn without_a_quota_nothing_is_counted() {
        let root = Arc::new(PathBuf::from("/test/none"));
        let mut one = Reservation::new(&root, None);
        assert!(one.grow_to(u64::MAX));
        one.store(7, 0);
        assert_eq!(used(&root), 0);
    }
}
