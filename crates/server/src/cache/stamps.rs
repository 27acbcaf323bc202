//! When stored responses were invalidated, for all workers of a process: a request that changes a resource reaches one
//! worker, and the others have stored it, too.

use std::sync::atomic::{AtomicU64, Ordering};

/// The keys whose hashes have the same remainder. It takes one cache line.
#[repr(align(64))]
struct Bucket {
    /// The keys that were invalidated last: 16 bits of the hash, and 48 bits of the time in microseconds of the
    /// monotonic clock. 0: none.
    keys: [AtomicU64; KEYS],
    /// What was requested before this time is not used, whatever its key: another key has lost its place then.
    all: AtomicU64,
}

const BUCKETS: usize = 1024;
const KEYS: usize = 7;
/// How often a place is tried that another worker changes at the same time.
const TRIES: usize = 8;

static STAMPS: [Bucket; BUCKETS] = [const { Bucket::new() }; BUCKETS];

/// What was requested before `now` is not used any more.
pub fn invalidate(hash: u128, now: u64) {
    bucket(hash).invalidate(hash, now);
}

/// Whether what was requested at `requested` may be used.
#[inline]
pub fn is_valid(hash: u128, requested: u64) -> bool {
    bucket(hash).is_valid(hash, requested)
}

fn bucket(hash: u128) -> &'static Bucket {
    &STAMPS[(hash % BUCKETS as u128) as usize]
}

/// A part of the hash that the bucket does not tell.
fn mark(hash: u128) -> u64 {
    (hash >> 112) as u64
}

fn key(hash: u128, time: u64) -> u64 {
    mark(hash) << 48 | time
}

fn time(key: u64) -> u64 {
    key & LAST
}

/// A later time counts as this one: what was requested then is not used either.
const LAST: u64 = (1 << 48) - 1;

impl Bucket {
    const fn new() -> Bucket {
        Bucket { keys: [const { AtomicU64::new(0) }; KEYS], all: AtomicU64::new(0) }
    }

    fn invalidate(&self, hash: u128, now: u64) {
        let now = now.min(LAST);
        for _ in 0..TRIES {
            let Some((place, known)) = self.place(hash) else { break };
            if known >> 48 != mark(hash) {
                // Before the place is taken, so that one of both is seen.
                self.all.fetch_max(time(known), Ordering::AcqRel);
            } else if time(known) >= now {
                return;
            }
            let changed = place.compare_exchange(known, key(hash, now), Ordering::AcqRel, Ordering::Acquire);
            if changed.is_ok() {
                return;
            }
        }
        self.all.fetch_max(now, Ordering::AcqRel);
    }

    /// The place of the key, or the one that is free, or that of the key that was invalidated longest ago.
    fn place(&self, hash: u128) -> Option<(&AtomicU64, u64)> {
        let places = self.keys.iter().map(|place| (place, place.load(Ordering::Acquire)));
        places.min_by_key(|(_, known)| (known >> 48 != mark(hash) || *known == 0, time(*known)))
    }

    #[inline]
    fn is_valid(&self, hash: u128, requested: u64) -> bool {
        let requested = requested.min(LAST);
        let is_newer = |place: &AtomicU64| {
            let known = place.load(Ordering::Acquire);
            known >> 48 != mark(hash) || time(known) < requested
        };
        self.keys.iter().all(is_newer) && self.all.load(Ordering::Acquire) < requested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of a key of a bucket.
    fn hash(number: u64) -> u128 {
        u128::from(number) << 112
    }

    #[test]
    fn a_key_is_invalid_until_it_is_requested_again_and_no_other_one_is() {
        let bucket = Bucket::new();
        assert!(bucket.is_valid(hash(0), 1) && bucket.is_valid(hash(1), 1));
        bucket.invalidate(hash(1), 50);
        assert!(
            !bucket.is_valid(hash(1), 49) && !bucket.is_valid(hash(1), 50) && bucket.is_valid(hash(1), 51)
        );
        assert!(bucket.is_valid(hash(0), 1) && bucket.is_valid(hash(2), 1));
        bucket.invalidate(hash(1), 40);
        assert!(!bucket.is_valid(hash(1), 50));
        bucket.invalidate(hash(0), 60);
        assert!(
            !bucket.is_valid(hash(0), 60) && bucket.is_valid(hash(0), 61) && bucket.is_valid(hash(1), 51)
        );
    }

    #[test]
    fn a_key_that_loses_its_place_stays_invalid() {
        let bucket = Bucket::new();
        for number in 1..=20 {
            bucket.invalidate(hash(number), number);
            for earlier in 1..=number {
                assert!(!bucket.is_valid(hash(earlier), earlier), "{earlier} after {number}");
            }
        }
        // Nothing is known of the keys that have lost theirs, the last of which is 13.
        assert!(
            !bucket.is_valid(hash(90), 13) && bucket.is_valid(hash(90), 14) && bucket.is_valid(hash(20), 21)
        );
    }

    #[test]
    fn a_time_that_does_not_fit_counts_as_the_last_one() {
        let bucket = Bucket::new();
        assert!(bucket.is_valid(hash(1), u64::MAX));
        bucket.invalidate(hash(1), u64::MAX);
        assert!(!bucket.is_valid(hash(1), u64::MAX) && bucket.is_valid(hash(2), 1));
    }

    #[test]
    fn threads_that_invalidate_at_the_same_time_lose_nothing() {
        let bucket = Bucket::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bucket = &bucket;
                scope.spawn(move || {
                    for turn in 1..2000 {
                        let (own, now) = (hash(1 + thread * 3 + turn % 3), turn * 4 + thread);
                        bucket.invalidate(own, now);
                        assert!(!bucket.is_valid(own, now), "{thread} {turn}");
                    }
                });
            }
        });
    }
}
