//! The throttle of one response or of one request body: it asks the buckets for a slice of bytes, and has to wait until
//! each of them grants it. Each has one reservation at most, so that all throttles of a bucket have their turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use site::limit::ByteRate;
use site::limit::bucket::{MAX_SLICE, Nanos, cost, slice};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::bucket::{Bucket, Flow};
use super::{Applied, Excess, LIFTED, LimitState, now};

/// Bytes of the first slice: the first of many throttles does not know of the others yet.
const FIRST_SLICE: u64 = 4096;
/// A change of the rates ends a longer wait.
const LONGEST_WAIT: Nanos = 1_000_000_000;

pub struct Throttle {
    lanes: Vec<Lane>,
    /// Bytes that are reserved and not sent.
    reserved: u64,
    /// When they may be sent.
    at: Nanos,
    /// The most bytes of the next slice.
    most: u64,
    /// Of requests that may be in progress at the same time.
    permits: Vec<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Download,
    Upload,
}

/// A bucket that a response or a body takes bytes from.
struct Lane {
    state: &'static LimitState,
    bucket: Arc<Bucket>,
    direction: Direction,
    /// The version of the rate at which bytes are reserved.
    version: u32,
}

/// One that limits nothing yet.
impl Default for Throttle {
    fn default() -> Throttle {
        Throttle { lanes: Vec::new(), reserved: 0, at: 0, most: FIRST_SLICE, permits: Vec::new() }
    }
}

impl Throttle {
    /// Adds a limit, if it has a rate in this direction. Errors: the share of each response would be too small.
    pub fn add(&mut self, applied: &Applied, direction: Direction) -> Result<(), Excess> {
        let Applied { state, bucket } = applied;
        let limit = &state.limit;
        let (rate, min) = match direction {
            Direction::Download => (limit.download, limit.min_download),
            Direction::Upload => (limit.upload, 0),
        };
        if rate.is_none() || !state.is_enforced() {
            return Ok(());
        }
        let version = state.version.load(Ordering::Acquire);
        let lane = Lane { state, bucket: bucket.clone(), direction, version };
        // From now on it counts until it is dropped.
        let senders = lane.flow().senders.fetch_add(1, Ordering::Relaxed) + 1;
        let rate = lane.rate();
        self.lanes.push(lane);
        if rate / senders < min { Err(Excess::Share) } else { Ok(()) }
    }

    /// Holds a permit until this is dropped.
    pub fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permits.push(permit);
    }

    /// Both in one. Neither has been asked for bytes.
    pub fn and(mut self, mut other: Throttle) -> Throttle {
        self.lanes.append(&mut other.lanes);
        self.permits.append(&mut other.permits);
        self
    }

    /// Whether it limits anything.
    pub fn is_needed(&self) -> bool {
        !self.lanes.is_empty() || !self.permits.is_empty()
    }

    /// The bytes that may be sent now, of so many that are wanted. Errors: when to ask again.
    pub fn ask(&mut self, wanted: u64) -> Result<u64, Instant> {
        if self.lanes.is_empty() {
            return Ok(u64::MAX);
        }
        let now = now();
        if self.reserved > 0 && self.at > now && self.lanes.iter().any(Lane::has_changed) {
            self.give_back();
        }
        if self.reserved == 0 {
            let smallest = |bytes: u64, lane: &Lane| bytes.min(lane.slice());
            let bytes = self.lanes.iter().fold(wanted.max(1).min(self.most), smallest);
            self.most = MAX_SLICE;
            self.reserve(bytes, now);
        }
        match self.at.checked_sub(now) {
            None | Some(0) => Ok(self.reserved),
            Some(wait) => Err(Instant::now() + Duration::from_nanos(wait.min(LONGEST_WAIT))),
        }
    }

    /// Whether so many bytes can be sent at once, as the last ones: bursts have all of them.
    pub fn passes(&mut self, bytes: u64) -> bool {
        if !self.lanes.iter().all(|lane| lane.has_burst(bytes)) {
            return false;
        }
        let now = now();
        self.reserve(bytes, now);
        let passes = self.at <= now;
        match passes {
            true => self.used(bytes),
            false => self.give_back(),
        }
        passes
    }

    /// So many bytes have been sent. Those that were not reserved delay the next ones.
    pub fn used(&mut self, bytes: u64) {
        if let Some(more) = bytes.checked_sub(self.reserved).filter(|more| *more > 0) {
            let now = now();
            self.lanes.iter_mut().for_each(|lane| _ = lane.reserve(now, more));
        }
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    fn reserve(&mut self, bytes: u64, now: Nanos) {
        self.at = self.lanes.iter_mut().map(|lane| lane.reserve(now, bytes)).max().unwrap_or(now);
        self.reserved = bytes;
    }

    fn give_back(&mut self) {
        for lane in &self.lanes {
            lane.give_back(self.reserved);
        }
        self.reserved = 0;
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if self.reserved > 0 {
            self.give_back();
        }
    }
}

impl Lane {
    fn flow(&self) -> &Flow {
        match self.direction {
            Direction::Download => &self.bucket.download,
            Direction::Upload => &self.bucket.upload,
        }
    }

    /// Bytes per second.
    fn rate(&self) -> u64 {
        match self.direction {
            Direction::Download => self.state.download.load(Ordering::Relaxed),
            Direction::Upload => self.state.upload.load(Ordering::Relaxed),
        }
    }

    fn slice(&self) -> u64 {
        slice(self.rate(), self.flow().senders.load(Ordering::Relaxed))
    }

    fn has_changed(&self) -> bool {
        self.version != self.state.version.load(Ordering::Acquire)
    }

    /// How long a burst takes at the rate.
    fn tolerance(&self) -> Nanos {
        let limit = &self.state.limit;
        let rate = match self.direction {
            Direction::Download => limit.download,
            Direction::Upload => limit.upload,
        };
        ByteRate { rate: self.rate(), burst: rate.and_then(|rate| rate.burst) }.tolerance()
    }

    fn has_burst(&self, bytes: u64) -> bool {
        cost(self.rate(), bytes) <= self.tolerance()
    }

    /// Returns when so many bytes may be sent.
    fn reserve(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.version = self.state.version.load(Ordering::Acquire);
        let rate = self.rate();
        if rate == LIFTED {
            return now;
        }
        let tolerance = self.tolerance();
        self.flow().reserve(now, tolerance, cost(rate, bytes))
    }

    /// What was reserved at another rate has been forgotten.
    fn give_back(&self, bytes: u64) {
        if !self.has_changed() {
            self.flow().give_back(cost(self.rate(), bytes));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.flow().senders.fetch_sub(1, Ordering::Relaxed);
    }
}
