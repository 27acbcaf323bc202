//! The past in points: a minute by the second, an hour by ten seconds, a day by five minutes. The memory is fixed, and
//! the master makes it, so that a reload and an upgrade keep it. One process writes, and every worker may read.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::{BUCKETS, quantile};
use super::layout::{Count, Values};
use crate::sys::SharedNumbers;

/// What a point has, by their names in JSON.
pub const SERIES: [&str; 18] = [
    "requests",
    "success",
    "redirect",
    "client_error",
    "server_error",
    "sent",
    "received",
    "accepted",
    "active",
    "idle",
    "first_byte_p50",
    "first_byte_p90",
    "first_byte_p99",
    "duration_p50",
    "duration_p99",
    "cache_hits",
    "cache_misses",
    "upstream_requests",
];
pub type Point = [u64; SERIES.len()];

/// Seconds of a step, and how many are kept.
pub const STEPS: [(u64, usize); 3] = [(1, 60), (10, 360), (300, 288)];
/// A point with its time.
const CELL: usize = 1 + SERIES.len();
/// Changes with what a point has.
const MAGIC: u64 = u64::from_le_bytes(*b"history1");

pub struct History {
    numbers: SharedNumbers,
    fd: OwnedFd,
}

/// What has been counted, and what happens now.
pub struct Moment {
    pub counts: Values,
    pub active: u64,
    pub idle: u64,
}

/// Makes points of what is counted.
pub struct Sampler {
    /// For each kind of step: the number of the present one, and what had been counted when it began.
    steps: [(u64, Values); STEPS.len()],
}

const fn length() -> usize {
    let (mut at, mut points) = (0, 0);
    while at < STEPS.len() {
        points += STEPS[at].1;
        at += 1;
    }
    1 + points * CELL
}

impl History {
    pub fn create() -> io::Result<History> {
        let (numbers, fd) = SharedNumbers::create("taipan-history", length())?;
        numbers.get()[0].store(MAGIC, Ordering::Relaxed);
        Ok(History { numbers, fd })
    }

    /// The history of another program. Errors: its points have other values, or it could be cut while it is in use.
    pub fn adopt(fd: OwnedFd) -> io::Result<History> {
        let numbers = SharedNumbers::adopt(fd.as_fd(), (length() * size_of::<u64>()) as u64)?;
        match numbers.get() {
            [magic, ..] if numbers.get().len() == length() && magic.load(Ordering::Relaxed) == MAGIC => {
                Ok(History { numbers, fd })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The points of one kind of step that are not older than all its steps, with the second at which each began.
    pub fn points(&self, kind: usize, now: u64) -> Vec<(u64, Point)> {
        let (seconds, count) = STEPS[kind];
        let oldest = (now / seconds).saturating_sub(count as u64);
        (oldest..now / seconds + 1).filter_map(|step| self.read(kind, step)).collect()
    }

    /// The points of the steps of a kind that have ended and did not begin before `from`, as far as they are kept.
    pub fn ended(&self, kind: usize, from: u64, now: u64) -> Vec<(u64, Point)> {
        let (seconds, count) = STEPS[kind];
        let present = now / seconds;
        let oldest = from.div_ceil(seconds).max(present.saturating_sub(count as u64));
        (oldest..present).filter_map(|step| self.read(kind, step)).collect()
    }

    /// The point of the step with this number, and the second at which it began.
    fn read(&self, kind: usize, step: u64) -> Option<(u64, Point)> {
        let (cell, began) = (self.cell(kind, step), step * STEPS[kind].0);
        if cell[0].load(Ordering::Acquire) != began {
            return None;
        }
        let mut point = Point::default();
        for (value, number) in point.iter_mut().zip(&cell[1..]) {
            *value = number.load(Ordering::Relaxed);
        }
        Some((began, point))
    }

    fn write(&self, kind: usize, step: u64, point: &Point) {
        let cell = self.cell(kind, step);
        for (number, value) in cell[1..].iter().zip(point) {
            number.store(*value, Ordering::Relaxed);
        }
        cell[0].store(step * STEPS[kind].0, Ordering::Release);
    }

    /// The place of the step with this number.
    fn cell(&self, kind: usize, step: u64) -> &[AtomicU64] {
        let before: usize = STEPS[..kind].iter().map(|(_, count)| count).sum();
        let at = before + (step % STEPS[kind].1 as u64) as usize;
        &self.numbers.get()[1 + at * CELL..][..CELL]
    }
}

impl Sampler {
    /// `now`: seconds since 1970.
    pub fn new(now: u64, counts: &Values) -> Sampler {
        Sampler { steps: STEPS.map(|(seconds, _)| (now / seconds, counts.clone())) }
    }

    /// Writes the points of the steps that have ended. `false`: nothing was counted in the last step, and there is no
    /// connection.
    pub fn sample(&mut self, now: u64, moment: &Moment, history: &History) -> bool {
        let mut is_busy = moment.active + moment.idle > 0;
        for (kind, (number, before)) in self.steps.iter_mut().enumerate() {
            let present = now / STEPS[kind].0;
            if present == *number {
                continue;
            }
            if present > *number + 1 {
                // It rested, because nothing happened: what has grown belongs to this step.
                *number = present;
                is_busy |= kind == 0;
                continue;
            }
            let point = point(before, moment);
            is_busy |= kind == 0 && point.iter().any(|value| *value > 0);
            history.write(kind, *number, &point);
            (*number, *before) = (present, moment.counts.clone());
        }
        is_busy
    }
}

/// What was counted between two moments.
fn point(before: &Values, Moment { counts, active, idle }: &Moment) -> Point {
    let grown = |count: Count| counts.get(count).saturating_sub(before.get(count));
    let between = |(now, _): (Vec<u64>, u64), (before, _): (Vec<u64>, u64)| -> Vec<u64> {
        now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect()
    };
    let first_byte = between(counts.first_byte(), before.first_byte());
    let durations = between(counts.durations(), before.durations());
    debug_assert_eq!(first_byte.len(), BUCKETS);
    let first_byte = |part| quantile(&first_byte, part).unwrap_or(0);
    let duration = |part| quantile(&durations, part).unwrap_or(0);
    let requests = [Count::Http10, Count::Http11, Count::Http2, Count::Unreadable].map(grown).iter().sum();
    [
        requests,
        grown(Count::Status2xx),
        grown(Count::Status3xx),
        grown(Count::Status4xx),
        grown(Count::Status5xx),
        grown(Count::Bytes),
        grown(Count::Received),
        grown(Count::Accepted),
        *active,
        *idle,
        first_byte(0.5),
        first_byte(0.9),
        first_byte(0.99),
        duration(0.5),
        duration(0.99),
        grown(Count::CacheHits),
        grown(Count::CacheMisses),
        grown(Count::UpstreamRequests),
    ]
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use taipan_http::status::Status;

    use super::*;
    use crate::stats::Counts;

    fn moment(counts: &Counts) -> Moment {
        Moment { counts: counts.values(), active: 0, idle: 3 }
    }

    #[test]
    fn is_below_a_mebibyte() {
        assert!(length() * size_of::<u64>() < 1024 * 1024);
    }

    #[test]
    fn a_day_of_seconds_leaves_each_kind_of_step_with_its_points() {
        const START: u64 = 1_800_000_000;
        const END: u64 = START + 2 * 86_400;
        let (history, counts) = (History::create().expect("there is memory"), Counts::new());
        let mut sampler = Sampler::new(START, &counts.values());
        // By tens, so that the test is fast; and by one in the last minutes.
        let times = (START..END - 600).step_by(10).chain(END - 600..=END);
        let mut last = START;
        for now in times {
            (last..now).for_each(|_| counts.add_response(Status::OK, None));
            last = now;
            assert!(sampler.sample(now, &moment(&counts), &history));
        }
        for (kind, (seconds, count)) in STEPS.into_iter().enumerate() {
            let points = history.points(kind, END);
            assert_eq!(points.len(), count, "{seconds}");
            assert_eq!(points.last().map(|(time, _)| *time), Some(END - seconds));
            assert!(points.iter().all(|(_, point)| (point[0], point[1], point[9]) == (seconds, seconds, 3)));
        }
        let later = END + 30;
        assert_eq!(history.points(0, later).len(), 30, "what is older than a minute is not shown");
        let other = History::adopt(history.fd().try_clone().expect("a descriptor")).expect("it is one");
        assert_eq!(other.points(2, END), history.points(2, END));
    }

    #[test]
    fn rests_when_nothing_happens() {
        let (history, counts) = (History::create().expect("there is memory"), Counts::new());
        let mut sampler = Sampler::new(100, &counts.values());
        let none = |counts: &Counts| Moment { idle: 0, ..moment(counts) };
        assert!(!sampler.sample(101, &none(&counts), &history));
        counts.add_response(Status::OK, None);
        assert!(sampler.sample(102, &none(&counts), &history));
        assert!(!sampler.sample(103, &none(&counts), &history));
    }

    #[test]
    fn what_ends_a_rest_belongs_to_the_step_in_which_it_happens() {
        let (history, counts) = (History::create().expect("there is memory"), Counts::new());
        let mut sampler = Sampler::new(100, &counts.values());
        sampler.sample(101, &moment(&counts), &history);
        counts.add_response(Status::OK, None);
        sampler.sample(200, &moment(&counts), &history);
        counts.add_response(Status::OK, None);
        sampler.sample(201, &moment(&counts), &history);
        let points: Vec<(u64, u64)> =
            history.points(0, 201).iter().map(|(time, point)| (*time, point[1])).collect();
        assert_eq!(points, [(200, 2)]);
    }

    #[test]
    fn a_reader_gets_each_point_once_however_late_it_is() {
        const START: u64 = 1_800_000_000;
        const END: u64 = START + 700;
        let (history, counts) = (History::create().expect("there is memory"), Counts::new());
        let mut sampler = Sampler::new(START, &counts.values());
        let mut found: [Vec<u64>; STEPS.len()] = Default::default();
        for now in START + 1..=END {
            sampler.sample(now, &moment(&counts), &history);
            // Late by up to half a minute.
            if now % 7 == 0 && now % 31 < 16 || now == END {
                for (kind, times) in found.iter_mut().enumerate() {
                    let from = times.last().map_or(0, |last| last + 1);
                    times.extend(history.ended(kind, from, now).iter().map(|(time, _)| time));
                }
            }
        }
        let [seconds, tens, minutes] = found;
        assert_eq!(seconds, (START..END).collect::<Vec<_>>());
        assert_eq!(tens, (START..END).step_by(10).collect::<Vec<_>>());
        assert_eq!(minutes, [START, START + 300]);
    }

    #[test]
    fn adopts_nothing_else() {
        let fd = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("there is memory");
        ftruncate(&fd, (length() * size_of::<u64>()) as u64).expect("there is memory");
        assert!(History::adopt(fd.try_clone().expect("a descriptor")).is_err(), "it is not sealed");
        fcntl_add_seals(&fd, SealFlags::SHRINK).expect("it can be sealed");
        assert!(History::adopt(fd).is_err(), "it has another beginning");
    }
}
