//! Connections. At rest, and as long as nothing has to wait, a connection is a slot in the `idle` set;
//! where it must wait it has a `task`, with a state in the worker's table, a phase, and a deadline for each
//! phase. What the bytes mean is `h1`'s affair, and how answers leave `output`'s.
//!
//! A connection does not know what it carries.

pub mod acceptor;

pub mod client;

mod connections;

pub mod idle;

pub mod h1;

pub mod output;

mod log_guard;

pub mod task;

pub mod stream;

mod transport;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;

use slab::Slab;
use tokio::sync::Notify;

pub use connections::Connections;

use crate::clock::{Ticks, in_ticks};

/// Where a connection stands. Each phase has a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Part of a request head is here.
    Head,
    /// A request body is being read.
    Body,
    /// The response, or the rest of it, is being made. What it waits for has deadlines of its own.
    Respond,
    /// The client has not yet taken all of an answer.
    Write,
    /// Between two requests, or before the first.
    Idle,
    /// The last answer is sent; the client has not closed yet (RFC 9112 §9.6).
    Linger,
    /// There is no room for the connection: its one request is read, and refused.
    Refused,
}

/// What the worker asks of a connection when it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Nothing has happened for a while: give up task and buffers.
    Park,
    /// The phase's time is over: has enough been sent to go on?
    CheckRate,
    /// The deadline has passed.
    TimeOut,
    /// How much of its answer has the client taken by now?
    Measure,
    /// Another connection needs the place of this one.
    Evict,
}

/// The deadlines of all phases, in ticks, and the least rate that extends them.
#[derive(Debug, Clone)]
pub struct Deadlines {
    head: Ticks,
    body: Ticks,
    write: Ticks,
    idle: Ticks,
    linger: Ticks,
    /// Bytes per tick.
    rate: u64,
}

/// A task whose connection has been silent this long gives it back to the idle set.
const PARK_AFTER: Ticks = 4;
/// Ticks of silence, or of too little, after which a connection may be closed to make room for another.
const EVICT_AFTER: Ticks = 4;
/// Slow connections that are closed for others between two ticks.
const EVICTIONS_PER_TICK: usize = 1024;

impl Deadlines {
    pub fn new(timeouts: &site::model::Timeouts, bytes_per_second: u64) -> Deadlines {
        let per_second = in_ticks(std::time::Duration::from_secs(1));
        Deadlines {
            head: in_ticks(timeouts.head),
            body: in_ticks(timeouts.body),
            write: in_ticks(timeouts.write),
            idle: in_ticks(timeouts.idle),
            linger: in_ticks(timeouts.linger),
            rate: bytes_per_second.div_ceil(u64::from(per_second)),
        }
    }

    /// How long a phase may last before it is looked at.
    pub fn of(&self, phase: Phase) -> Ticks {
        match phase {
            Phase::Head => self.head,
            Phase::Body => self.body,
            Phase::Respond => Ticks::MAX,
            Phase::Write => self.write,
            Phase::Idle => self.idle,
            Phase::Linger | Phase::Refused => self.linger,
        }
    }

    /// Is this many bytes in one whole phase enough to be granted another?
    pub fn is_enough(&self, phase: Phase, bytes: u64) -> bool {
        // Without a least rate a head still has to be whole in time: nobody needs longer.
        let unlimited = self.rate == 0 && phase != Phase::Head;
        let fast = self.rate > 0 && bytes >= self.rate * u64::from(self.of(phase)).max(1);
        unlimited || fast
    }

    fn event(&self, state: &ConnectionState, now: Ticks) -> Option<Event> {
        let phase = state.phase.get();
        let lasted = now.wrapping_sub(state.since.get());
        let over = lasted >= self.of(phase);
        match phase {
            Phase::Idle => (lasted >= PARK_AFTER).then_some(Event::Park),
            Phase::Head | Phase::Body | Phase::Write => over.then_some(Event::CheckRate),
            Phase::Respond | Phase::Linger | Phase::Refused => over.then_some(Event::TimeOut),
        }
    }

    /// How slow a client is that is waited for, if it is slower than the least rate: its bytes per tick, and for how
    /// long it has been so slow. Smaller is worse. `None`: it is fast enough, or has not been waited for long enough,
    /// or it is not the client that is waited for.
    fn slowness(&self, state: &ConnectionState, now: Ticks) -> Option<(u64, Reverse<Ticks>)> {
        let until = match state.phase.get() {
            Phase::Head | Phase::Body => now,
            Phase::Write => state.measured.get(),
            Phase::Respond | Phase::Idle | Phase::Linger | Phase::Refused => return None,
        };
        let (lasted, bytes) = (until.wrapping_sub(state.since.get()), state.bytes.get());
        let is_fast = bytes > 0 && bytes >= self.rate * u64::from(lasted);
        (lasted >= EVICT_AFTER && !is_fast).then(|| (bytes / u64::from(lasted), Reverse(lasted)))
    }
}

/// A connection's place in its worker's table.
pub struct ConnectionState {
    phase: Cell<Phase>,
    /// When the phase, or the present window of it, began.
    since: Cell<Ticks>,
    /// Bytes that came or went in this window.
    bytes: Cell<u64>,
    /// Until when it is known what went.
    measured: Cell<Ticks>,
    event: Cell<Option<Event>>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionState {
    /// Begins a phase, and with it a new deadline.
    #[inline]
    pub fn enter(&self, phase: Phase, now: Ticks) {
        self.phase.set(phase);
        self.since.set(now);
        self.bytes.set(0);
        self.measured.set(now);
        self.event.set(None);
    }

    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// When the phase, or the present window of it, began.
    pub fn since(&self) -> Ticks {
        self.since.get()
    }

    /// Counts what came or went in this window.
    pub fn moved(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Counts what the client has taken of an answer up to now.
    pub fn measure(&self, taken: u64, now: Ticks) {
        self.moved(taken);
        self.measured.set(now);
    }

    pub fn window(&self) -> u64 {
        self.bytes.get()
    }

    /// What the worker asks, once; and who is to be woken when it asks again.
    #[inline]
    pub fn take_event(&self, waker: &Waker) -> Option<Event> {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        self.event.take()
    }

    /// Has the connection's task do what the worker asks. One that has to leave is asked nothing else.
    pub fn notify(&self, event: Event) {
        if self.event.get() != Some(Event::Evict) {
            self.event.set(Some(event));
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Connections that need their places no longer, in the order in which they can be closed for others: they have been
/// sent their last answer, or are being refused. Some may have ended.
#[derive(Default)]
pub struct Leaving(RefCell<VecDeque<Weak<ConnectionState>>>);

impl Leaving {
    /// Adds one of at most `most`.
    pub fn add(&self, state: &Rc<ConnectionState>, most: usize) {
        let mut table = self.0.borrow_mut();
        while table.front().is_some_and(|state| state.strong_count() == 0) {
            table.pop_front();
        }
        if table.len() >= 2 * most {
            table.retain(|state| state.strong_count() > 0);
        }
        table.push_back(Rc::downgrade(state));
    }

    /// Has the first of them leave. `false`: there is none.
    pub fn evict_first(&self) -> bool {
        let mut table = self.0.borrow_mut();
        let first = std::iter::from_fn(|| table.pop_front()).find_map(|state| state.upgrade());
        first.inspect(|state| state.notify(Event::Evict)).is_some()
    }
}

/// After so many tasks have ended, their memory is given back.
const TRIM_AFTER: usize = 128;

/// All connections of a worker that have a task; the others are in the idle set.
pub struct ConnectionTable {
    table: RefCell<Slab<Rc<ConnectionState>>>,
    taken: Notify,
    ended: Notify,
    /// Connections that are slower than the least rate, the worst last, as they were in one tick.
    slow: RefCell<(Ticks, Vec<Weak<ConnectionState>>)>,
    /// Tasks that have ended since the heap was last trimmed.
    tasks_ended: Cell<usize>,
}

/// A state that is given back when dropped, however its connection ends.
pub struct TableEntry {
    pub state: Rc<ConnectionState>,
    key: usize,
    table: Rc<ConnectionTable>,
}

impl ConnectionTable {
    pub fn new() -> Rc<ConnectionTable> {
        Rc::new(ConnectionTable {
            table: RefCell::new(Slab::new()),
            taken: Notify::new(),
            ended: Notify::new(),
            slow: RefCell::default(),
            tasks_ended: Cell::new(0),
        })
    }

    pub fn take(self: &Rc<ConnectionTable>, phase: Phase, now: Ticks) -> TableEntry {
        let state = Rc::new(ConnectionState {
            phase: Cell::new(phase),
            since: Cell::new(now),
            bytes: Cell::new(0),
            measured: Cell::new(now),
            event: Cell::new(None),
            waker: RefCell::new(None),
        });
        let key = self.table.borrow_mut().insert(state.clone());
        self.wake_clock();
        TableEntry { state, key, table: self.clone() }
    }

    pub fn len(&self) -> usize {
        self.table.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// There is a connection, here or in the idle set: deadlines count.
    pub fn wake_clock(&self) {
        self.taken.notify_waiters();
    }

    /// Waits until somebody comes.
    pub async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Waits until somebody leaves.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// After a wave of tasks, gives their memory back to the kernel.
    pub fn trim(&self) {
        let ended = self.tasks_ended.get();
        if ended >= TRIM_AFTER || (ended > 0 && self.is_empty()) {
            self.tasks_ended.set(0);
            crate::sys::trim_heap();
        }
    }

    /// Calls on every connection whose phase has lasted too long.
    pub fn sweep(&self, deadlines: &Deadlines, now: Ticks) {
        for (_, state) in &*self.table.borrow() {
            if let Some(event) = deadlines.event(state, now) {
                state.notify(event);
            }
        }
    }

    /// Has those whose clients take an answer find out how much they have taken, about once a second.
    pub fn measure(&self, now: Ticks) {
        for (_, state) in &*self.table.borrow() {
            if state.phase() == Phase::Write && now.wrapping_sub(state.measured.get()) >= EVICT_AFTER {
                state.notify(Event::Measure);
            }
        }
    }

    /// Has the connection with the slowest client leave. `false`: none is slower than the least rate.
    pub fn evict_slowest(&self, deadlines: &Deadlines, now: Ticks) -> bool {
        let (of, slow) = &mut *self.slow.borrow_mut();
        if *of != now {
            *of = now;
            *slow = self.slowest(deadlines, now);
        }
        while let Some(state) = slow.pop() {
            // It may have ended, or gone on, since.
            if let Some(state) = state.upgrade()
                && deadlines.slowness(&state, now).is_some()
            {
                state.notify(Event::Evict);
                return true;
            }
        }
        false
    }

    fn slowest(&self, deadlines: &Deadlines, now: Ticks) -> Vec<Weak<ConnectionState>> {
        let table = self.table.borrow();
        let slow = |(_, state): (usize, &Rc<ConnectionState>)| {
            Some((deadlines.slowness(state, now)?, Rc::downgrade(state)))
        };
        let mut slow: Vec<_> = table.iter().filter_map(slow).collect();
        slow.sort_unstable_by_key(|(slowness, _)| *slowness);
        slow.into_iter().take(EVICTIONS_PER_TICK).rev().map(|(_, state)| state).collect()
    }

    /// Has the connections that are between two requests give up their tasks; the others see that the
    /// worker is leaving.
    pub fn send_idle_home(&self) {
        for (_, state) in &*self.table.borrow() {
            if state.phase() == Phase::Idle {
                state.notify(Event::Park);
            }
        }
    }

    /// Those that are between two requests.
    pub fn idle(&self) -> usize {
        self.table.borrow().iter().filter(|(_, state)| state.phase() == Phase::Idle).count()
    }

    /// Somebody has left who had no state.
    pub fn notify_ended(&self) {
        self.ended.notify_waiters();
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let mut table = self.table.table.borrow_mut();
        table.remove(self.key);
        // What a wave of connections needed is given back after it.
        if table.is_empty() && table.capacity() > 1024 {
            table.shrink_to_fit();
        }
        self.table.tasks_ended.set(self.table.tasks_ended.get() + 1);
        self.table.ended.notify_waiters();
    }
}
