//! What is counted together: numbers that all workers change without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use site::limit::bucket::{self, Grant, Nanos};
use site::limit::{ByteRate, Concurrency, Limit, RequestRate};
use tokio::sync::Semaphore;

pub struct Bucket {
    pub download: Flow,
    pub upload: Flow,
    /// When all of the burst of requests may come again.
    requests: AtomicU64,
    /// `None`: any number of requests may be in progress.
    permits: Option<Arc<Semaphore>>,
    /// Requests that wait for a permit.
    queued: AtomicUsize,
}

/// Bytes in one direction.
#[derive(Default)]
pub struct Flow {
    /// When all that is reserved has been sent.
    due: AtomicU64,
    /// Responses, or request bodies, that share the rate.
    pub senders: AtomicU64,
}

impl Bucket {
    pub fn new(concurrent: Option<Concurrency>) -> Bucket {
        Bucket {
            download: Flow::default(),
            upload: Flow::default(),
            requests: AtomicU64::new(0),
            permits: concurrent.map(|concurrent| Arc::new(Semaphore::new(concurrent.most))),
            queued: AtomicUsize::new(0),
        }
    }

    /// Whether it is as a new one: every burst may come again.
    pub fn is_quiet(&self, limit: &Limit, now: Nanos) -> bool {
        let bytes = |rate: Option<ByteRate>| rate.map_or(0, |rate| rate.tolerance());
        let requests = limit.requests.map_or(0, |rate| rate.tolerance());
        [
            (&self.download.due, bytes(limit.download)),
            (&self.upload.due, bytes(limit.upload)),
            (&self.requests, requests),
        ]
        .iter()
        .all(|(due, tolerance)| due.load(Ordering::Relaxed).saturating_add(*tolerance) <= now)
    }

    /// Returns how many may follow at once, and how long it takes until the burst may. Errors: how long to wait.
    pub fn take_request(&self, rate: &RequestRate, now: Nanos) -> Result<(u64, Nanos), Nanos> {
        let (interval, tolerance) = (rate.interval(), rate.tolerance());
        let mut wait = 0;
        let take = |due| bucket::take(due, now, tolerance, interval).inspect_err(|time| wait = *time).ok();
        let taken = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before = taken.map_err(|_| wait)?;
        let due = bucket::reserve(before, now, tolerance, interval).due;
        Ok(bucket::remaining(due, now, tolerance, interval))
    }

    pub fn return_request(&self, rate: &RequestRate) {
        subtract(&self.requests, rate.interval());
    }

    pub fn permits(&self) -> Option<&Arc<Semaphore>> {
        self.permits.as_ref()
    }

    /// `false`: so many wait already.
    pub fn enter_queue(&self, most: usize) -> bool {
        let enter = |queued| (queued < most).then_some(queued + 1);
        self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).is_ok()
    }

    pub fn leave_queue(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// What is reserved was reserved at another rate.
    pub fn forget_reservations(&self) {
        self.download.due.store(0, Ordering::Relaxed);
        self.upload.due.store(0, Ordering::Relaxed);
    }
}

impl Flow {
    /// Reserves what costs `cost`. Returns when it may be sent.
    pub fn reserve(&self, now: Nanos, tolerance: Nanos, cost: Nanos) -> Nanos {
        let next = |due| bucket::reserve(due, now, tolerance, cost);
        let reserve = |due| Some(next(due).due);
        let before = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
        let Grant { at, .. } = next(before.unwrap_or_else(|due| due));
        at
    }

    /// Returns a part of a reservation that was not used.
    pub fn give_back(&self, cost: Nanos) {
        subtract(&self.due, cost);
    }
}

fn subtract(from: &AtomicU64, nanos: Nanos) {
    let less = |due: Nanos| Some(due.saturating_sub(nanos));
    // It never fails.
    _ = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}
