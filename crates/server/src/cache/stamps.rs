//! When stored responses were invalidated, for all workers of a process: a request that changes a resource reaches one
//! worker, and the others have stored it, too.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys with the same remainder share a time: what one of them invalidates is requested again for all of them.
const SLOTS: usize = 4096;

/// Microseconds of the monotonic clock.
static STAMPS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

fn slot(hash: u128) -> &'static AtomicU64 {
    &STAMPS[(hash % SLOTS as u128) as usize]
}

/// What was requested before `now` is not used any more.
pub fn invalidate(hash: u128, now: u64) {
    slot(hash).fetch_max(now, Ordering::Relaxed);
}

/// Whether what was requested at `requested` may be used.
#[inline]
pub fn is_valid(hash: u128, requested: u64) -> bool {
    slot(hash).load(Ordering::Relaxed) < requested
}
