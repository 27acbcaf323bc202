//! The limits of speed and of requests: what has been counted, and what that allows.
//!
//! All workers of a process share the state, so that a limit is as exact with many workers as with one. A bucket is a
//! few numbers that change without a lock. Only the table that finds the bucket of a client has locks, one for each
//! part of it.
//!
//! Knows nothing of responses and of connections.

mod bucket;

mod throttle;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use site::applying::each_applying;
use site::limit::bucket::{EPOCH, Nanos};
use site::limit::{By, ByteRate, Concurrency, Enforcement, Limit, LimitId, MAX_OF_ROUTE};
use site::model::{Host, Site};
use site::route::RouteId;
use smallvec::SmallVec;
use taipan_http::head::Head;
use taipan_http::target::SafePath;
use tokio::sync::Semaphore;

use self::bucket::Bucket;
pub use self::throttle::{Direction, Throttle};
use crate::clock;
use crate::mutex::locked;
use crate::peer::{Peer, counted_address};
use crate::process::ipc::Rates;

/// The parts of a table of clients.
const PARTS: usize = 16;
/// Clients in one part. When all of them have a response in progress or have used up something, further clients count
/// as one client.
const PART: usize = site::memory::LIMITED_CLIENTS as usize / PARTS;
/// Clients of a full part that are looked at for a new one.
const LOOKED_AT: usize = 16;

/// A rate that limits nothing.
const LIFTED: u64 = u64::MAX;

static TABLE: OnceLock<LimitTable> = OnceLock::new();

/// The limits of a process, by their numbers in the site.
pub struct LimitTable {
    states: Box<[LimitState]>,
    hasher: RandomState,
}

/// One limit.
pub struct LimitState {
    pub limit: Limit,
    download: AtomicU64,
    upload: AtomicU64,
    /// Counts the changes of these rates.
    version: AtomicU32,
    buckets: Buckets,
}

enum Buckets {
    One(Arc<Bucket>),
    Many { parts: Box<[Mutex<Part>]>, others: Arc<Bucket> },
}

#[derive(Default)]
struct Part {
    buckets: HashMap<u64, Arc<Bucket>, RandomState>,
    /// Those of all buckets.
    keys: Vec<u64>,
    /// The one of `keys` that is looked at next.
    next: usize,
}

/// What a request is counted by.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub client: Peer,
    pub host: usize,
    pub route: RouteId,
    pub head: &'a Head<'a>,
}

/// A limit that applies to a request, and what counts for it.
#[derive(Clone)]
pub struct Applied {
    pub state: &'static LimitState,
    bucket: Arc<Bucket>,
}

/// The limits that apply to a request, each once. Those of most requests need no allocation.
pub type AppliedLimits = SmallVec<[Applied; FEW]>;

/// The tables of one route, and one that an access rule names.
const FEW: usize = MAX_OF_ROUTE + 1;

/// Requests that may follow at once, and how long it takes until all of the burst may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    pub requests: u64,
    pub reset: Duration,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It may be repeated after this time.
    Requests(Duration),
    /// Too many are in progress, and too many wait.
    Concurrent,
    /// The share of each response would be too small.
    Share,
}

/// The rates of all limits that have any.
pub fn rates(site: &Site) -> Vec<Rates> {
    let rate = |rate: Option<ByteRate>| rate.map(|rate| rate.rate);
    let rates = |limit: &Limit| Rates {
        identity: limit.identity,
        download: rate(limit.download),
        upload: rate(limit.upload),
    };
    site.traffic_limits.iter().filter(|limit| limit.has_rates()).map(rates).collect()
}

/// Begins to count for the limits of a site, once in a process.
pub fn begin(site: &Site) {
    if !site.traffic_limits.is_empty() {
        _ = TABLE.set(LimitTable::new(&site.traffic_limits));
    }
}

/// The present, for buckets.
pub fn now() -> Nanos {
    EPOCH + clock::nanos()
}

/// `None`: there are no limits.
pub fn of_process() -> Option<&'static LimitTable> {
    TABLE.get()
}

/// Changes the rates of responses and bodies in progress to those of a later configuration. Limits that it has not are
/// lifted.
pub fn change_rates(rates: &[Rates]) {
    for state in TABLE.get().iter().flat_map(|table| &table.states) {
        state.change_rates(rates.iter().find(|rates| rates.identity == state.limit.identity));
    }
}

impl LimitTable {
    fn new(limits: &[Limit]) -> LimitTable {
        let states = limits.iter().map(LimitState::new).collect();
        LimitTable { states, hasher: RandomState::default() }
    }

    /// The limits that apply to a request, and those that access rules name.
    #[inline(never)]
    pub fn applying(
        &'static self,
        limits: &[Limit],
        host: &Host,
        path: &SafePath<'_>,
        subject: Subject<'_>,
        named: &[LimitId],
    ) -> AppliedLimits {
        let mut applied = AppliedLimits::default();
        let mut apply = |id: LimitId| {
            if let Some(state) = self.states.get(usize::from(id.0))
                && let Some(bucket) = self.bucket(state, subject)
            {
                applied.push(Applied { state, bucket });
            }
        };
        named.iter().copied().for_each(&mut apply);
        each_applying(limits, host, host.routes.get(subject.route), path, &mut apply);
        applied
    }

    /// `None`: the request is not counted.
    fn bucket(&self, state: &LimitState, subject: Subject<'_>) -> Option<Arc<Bucket>> {
        let Subject { client, host, route, head } = subject;
        let hasher = &self.hasher;
        let key = match &state.limit.by {
            By::All | By::OwnRoute => 0,
            By::Connection => hasher.hash_one((client.ip(), client.port())),
            By::Client => hasher.hash_one(client.ip().map(counted_address)),
            By::Route => hasher.hash_one((host, route)),
            By::Host => hasher.hash_one(host),
            by @ (By::Field(_) | By::Cookie(_)) => hasher.hash_one(by.value(head)?),
        };
        Some(state.bucket(key))
    }
}

impl LimitState {
    fn new(limit: &Limit) -> LimitState {
        let bucket = || Arc::new(Bucket::new(limit.concurrent));
        let buckets = match limit.by {
            By::All | By::OwnRoute => Buckets::One(bucket()),
            _ => Buckets::Many { parts: (0..PARTS).map(|_| Mutex::default()).collect(), others: bucket() },
        };
        let rate = |rate: Option<ByteRate>| AtomicU64::new(rate.map_or(LIFTED, |rate| rate.rate));
        LimitState {
            limit: limit.clone(),
            download: rate(limit.download),
            upload: rate(limit.upload),
            version: AtomicU32::new(0),
            buckets,
        }
    }

    fn bucket(&self, key: u64) -> Arc<Bucket> {
        let (parts, others) = match &self.buckets {
            Buckets::One(bucket) => return bucket.clone(),
            Buckets::Many { parts, others } => (parts, others),
        };
        let part = &mut *locked(&parts[key as usize % PARTS]);
        if let Some(bucket) = part.buckets.get(&key) {
            return bucket.clone();
        }
        if part.keys.len() < PART {
            part.keys.push(key);
        } else if !part.replace_quiet(key, &self.limit, now()) {
            return others.clone();
        }
        let bucket = Arc::new(Bucket::new(self.limit.concurrent));
        part.buckets.insert(key, bucket.clone());
        bucket
    }

    pub fn is_enforced(&self) -> bool {
        self.limit.enforcement == Enforcement::Enforced
    }

    fn change_rates(&self, rates: Option<&Rates>) {
        let set = |rate: &AtomicU64, new: Option<u64>| rate.store(new.unwrap_or(LIFTED), Ordering::Relaxed);
        set(&self.download, rates.and_then(|rates| rates.download));
        set(&self.upload, rates.and_then(|rates| rates.upload));
        self.version.fetch_add(1, Ordering::Release);
        let forget = |bucket: &Arc<Bucket>| bucket.forget_reservations();
        match &self.buckets {
            Buckets::One(bucket) => forget(bucket),
            Buckets::Many { parts, others } => {
                forget(others);
                for part in parts {
                    locked(part).buckets.values().for_each(forget);
                }
            }
        }
    }
}

impl Part {
    /// Forgets a client that nothing is counted of, and has `key` in its place. `false`: there is none among those that
    /// were looked at. The next call looks at further ones, so that no request has to look at all.
    #[cold]
    fn replace_quiet(&mut self, key: u64, limit: &Limit, now: Nanos) -> bool {
        let is_quiet = |bucket: &Arc<Bucket>| Arc::strong_count(bucket) == 1 && bucket.is_quiet(limit, now);
        for _ in 0..LOOKED_AT {
            let at = self.next;
            self.next = (at + 1) % self.keys.len();
            if self.buckets.get(&self.keys[at]).is_none_or(is_quiet) {
                self.buckets.remove(&self.keys[at]);
                self.keys[at] = key;
                return true;
            }
        }
        false
    }
}

impl Applied {
    /// Counts a request. Returns what remains, if clients learn that. Errors: there are too many.
    pub fn take_request(&self, now: Nanos) -> Result<Option<Remaining>, Excess> {
        let Some(rate) = self.state.limit.requests else { return Ok(None) };
        match self.bucket.take_request(&rate, now) {
            Ok((requests, reset)) => {
                let remaining = Remaining { requests, reset: Duration::from_nanos(reset) };
                Ok(self.state.limit.announced.then_some(remaining))
            }
            Err(wait) => Err(Excess::Requests(Duration::from_nanos(wait))),
        }
    }

    /// Whether the same bucket counts for both.
    pub fn counts_with(&self, other: &Applied) -> bool {
        Arc::ptr_eq(&self.bucket, &other.bucket)
    }

    /// Takes back `take_request`.
    pub fn return_request(&self) {
        if let Some(rate) = self.state.limit.requests {
            self.bucket.return_request(&rate);
        }
    }

    /// The permits of requests that are in progress at the same time, and how others wait for one.
    pub fn concurrency(&self) -> Option<(&Arc<Semaphore>, Concurrency)> {
        self.bucket.permits().zip(self.state.limit.concurrent)
    }

    /// Takes a place in the queue of those that wait for a permit. `None`: it is full.
    pub fn queue(&self) -> Option<Queued> {
        let (_, concurrent) = self.concurrency()?;
        self.bucket.enter_queue(concurrent.queue).then(|| Queued(self.bucket.clone()))
    }
}

/// A place in a queue, until this is dropped.
pub struct Queued(Arc<Bucket>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.leave_queue();
    }
}

#[cfg(test)]
mod tests;
