//! What the connections of one thread share: the schedule of requests, the buffers, the tally and the timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags};

use super::pick::{Picker, Random};
use super::response::CachedHead;
use super::schedule::{Due, Schedule};
use super::tally::{Pending, Tally};
use crate::plan::{Order, Pace, Plan, Reuse};
use crate::run::Fault;
use crate::verify::Verifier;

/// How much is discarded at once. The buffer is never written to, so its pages are never allocated.
const DISCARD_BUFFER: usize = 1 << 20;
/// Bytes of one read that are parsed.
pub const BUFFER: usize = 64 * 1024;
/// Due requests that may wait for a connection. Further ones are counted as unsent.
const BACKLOG_MAX: usize = 1 << 20;
/// Requests of a plan whose last response head is cached.
const CACHED_MAX: usize = 1 << 16;
/// A response below this size is read in one call, head and body. Of a longer one the first call reads the head.
const SMALL_RESPONSE: u32 = 32 * 1024;
/// Bytes that the first read of a long response takes: about its head.
const HEAD_READ: usize = 1024;

/// One thread's part of a run.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The number of the thread.
    pub index: usize,
    /// The number, in the whole run, of its first connection.
    pub first: usize,
    pub connections: usize,
    /// Requests to start, warm-up excluded.
    pub requests: Option<u64>,
    pub start: Instant,
}

/// What a free connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Start(u32, Instant),
    /// Nothing is due.
    Wait,
    /// No further request starts.
    Over,
}

/// The outcome of the first connection of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum First {
    /// Not known yet.
    Expected,
    /// It was established, or belongs to another thread.
    Established,
    /// This address refused it.
    Refused(String),
}

pub struct ThreadState<'p> {
    pub first: First,
    pub plan: &'p Plan,
    pub verifier: &'p Verifier,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub epoll: OwnedFd,
    pub tally: Tally,
    pub random: Random,
    /// Connections that wait for a request to become due.
    pub free: VecDeque<usize>,
    pub wakes: BinaryHeap<Reverse<(Instant, usize)>>,
    pub buffer: Vec<u8>,
    pub plain: Vec<u8>,
    pub discard_buffer: Vec<u8>,
    picker: Picker,
    schedule: Schedule,
    backlog: VecDeque<Due>,
    cached_heads: Vec<CachedHead>,
    /// Body bytes of the last response to each request.
    sizes: Vec<u32>,
    left: Option<u64>,
    deadline: Option<Instant>,
    cursor: usize,
}

impl<'p> ThreadState<'p> {
    pub fn new(
        plan: &'p Plan,
        verifier: &'p Verifier,
        tls: Option<Arc<rustls::ClientConfig>>,
        share: Share,
    ) -> std::io::Result<ThreadState<'p>> {
        let begin = share.start + plan.warm_up;
        let mut random = Random::new(plan.seed.wrapping_add(share.index as u64));
        let schedule = Schedule::new(plan, share.index, share.start, &mut random);
        Ok(ThreadState {
            first: if share.index == 0 { First::Expected } else { First::Established },
            plan,
            verifier,
            tls,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            tally: Tally::new(begin),
            random,
            free: VecDeque::new(),
            wakes: BinaryHeap::new(),
            buffer: vec![0; BUFFER],
            plain: vec![0; BUFFER],
            discard_buffer: vec![0; DISCARD_BUFFER],
            picker: Picker::new(plan.requests.iter().map(|request| request.weight)),
            schedule,
            backlog: VecDeque::new(),
            cached_heads: vec![CachedHead::default(); plan.requests.len().min(CACHED_MAX)],
            sizes: vec![0; plan.requests.len()],
            left: share.requests,
            deadline: plan.stop.time.map(|time| begin + time),
            cursor: share.index,
        })
    }

    /// What a free connection does now. `cursor` is the position of its session in the list of URLs.
    #[inline]
    pub fn next(&mut self, now: Instant, cursor: &mut usize) -> Next {
        match self.schedule {
            Schedule::WhenFree => {
                if self.has_ended(now) {
                    return Next::Over;
                }
                self.count_start(now);
                Next::Start(self.pick(cursor), now)
            }
            Schedule::Rate(_) | Schedule::Log { .. } => match self.backlog.pop_front() {
                Some(due) => {
                    let request = due.request.unwrap_or_else(|| self.pick(cursor));
                    Next::Start(request, due.intended)
                }
                None if self.is_over(now) => Next::Over,
                None => Next::Wait,
            },
        }
    }

    /// Moves due requests into the backlog. Returns whether any wait there.
    pub fn collect(&mut self, now: Instant) -> bool {
        // Bounded by the rate and the time since the last call.
        while self.left != Some(0) {
            // A request that is due exactly at the end does not start.
            let until = self.deadline.map_or(now, |deadline| now.min(deadline - Duration::from_nanos(1)));
            let Some(due) = self.schedule.due(self.plan, until, &mut self.random) else { break };
            self.count_start(due.intended);
            self.tally.started(due.intended);
            match self.backlog.len() < BACKLOG_MAX {
                true => self.backlog.push_back(due),
                false => self.give_up(due, now),
            }
        }
        !self.backlog.is_empty()
    }

    /// When the next request becomes due.
    pub fn next_due(&self) -> Option<Instant> {
        match self.left {
            Some(0) => None,
            _ => self.schedule.next(self.plan).filter(|next| self.deadline.is_none_or(|end| *next < end)),
        }
    }

    /// No request will start any more, and none waits in the backlog.
    pub fn is_over(&self, now: Instant) -> bool {
        match self.schedule {
            Schedule::WhenFree => self.has_ended(now),
            Schedule::Rate(_) | Schedule::Log { .. } => self.backlog.is_empty() && self.next_due().is_none(),
        }
    }

    /// How long ago the time for starting requests ended; `None` if it has not.
    pub fn over_since(&self, now: Instant) -> Option<Duration> {
        self.deadline.and_then(|deadline| now.checked_duration_since(deadline))
    }

    /// Counts the due requests that were never sent.
    pub fn give_up_backlog(&mut self, now: Instant) {
        while let Some(due) = self.backlog.pop_front() {
            self.give_up(due, now);
        }
    }

    /// Whether due requests wait for a connection.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether the connections start requests, and not the clock (a closed loop).
    pub fn counts_starts(&self) -> bool {
        matches!(self.schedule, Schedule::WhenFree)
    }

    /// Sets a timer for the connection `index`.
    pub fn wake(&mut self, at: Instant, index: usize) {
        self.wakes.push(Reverse((at, index)));
    }

    /// The parts that parsing a response borrows at the same time.
    #[inline]
    pub fn reading(&mut self) -> (&mut [CachedHead], &mut Tally, &Verifier, &Plan) {
        (&mut self.cached_heads, &mut self.tally, self.verifier, self.plan)
    }

    /// Bytes of the first read of a response to this request.
    #[inline]
    pub fn first_read_size(&self, request: u32) -> usize {
        match self.sizes.get(request as usize) {
            Some(&size) if size > SMALL_RESPONSE => HEAD_READ,
            _ => SMALL_RESPONSE as usize,
        }
    }

    /// For `first_read_size` of the next response to the same request.
    #[inline]
    pub fn remember_size(&mut self, pending: &Pending) {
        if let Some(size) = self.sizes.get_mut(pending.request as usize) {
            *size = u32::try_from(pending.body_bytes).unwrap_or(u32::MAX);
        }
    }

    /// How long a client thinks before its next request.
    pub fn pause(&mut self) -> Duration {
        let think = self.plan.think;
        let more = think.most.saturating_sub(think.least);
        think.least + more.mul_f64(self.random.part())
    }

    #[inline]
    fn has_ended(&self, now: Instant) -> bool {
        self.left == Some(0) || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    #[inline]
    fn count_start(&mut self, intended: Instant) {
        if let Some(left) = &mut self.left
            && intended >= self.tally.begin
        {
            *left -= 1;
        }
    }

    #[inline]
    fn pick(&mut self, cursor: &mut usize) -> u32 {
        match &self.plan.order {
            Order::Random => self.picker.pick(&mut self.random),
            Order::InOrder(steps) => {
                let (at, step) = match self.plan.reuse {
                    Reuse::Session(_) => (cursor, 1),
                    Reuse::KeepAlive | Reuse::PerRequest => (&mut self.cursor, self.plan.threads),
                };
                let request = steps[*at % steps.len()];
                *at += step;
                request
            }
        }
    }

    fn give_up(&mut self, due: Due, now: Instant) {
        let request = due.request.unwrap_or(0);
        let url = self.plan.requests.get(request as usize).map_or("", |request| &request.url);
        self.tally.failed(&Pending::new(request, due.intended), Fault::Unsent, url, now);
    }
}

/// Whether the clock starts requests (an open loop).
pub fn is_open(plan: &Plan) -> bool {
    !matches!(plan.pace, Pace::Closed)
}
