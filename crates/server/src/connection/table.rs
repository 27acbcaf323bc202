//! The connection table: the state of every connection of a worker that has a task. The worker's clock sweeps it, and
//! notifies connections of events that are due.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use site::disconnect::{Clients, ConnectionId, Selection};
use slab::Slab;
use tokio::sync::Notify;

use super::{Deadlines, EVICT_AFTER, Event, Phase};
use crate::clock::Ticks;
use crate::peer::{CompactPeer, Peer};
use crate::sys;

/// Slow connections that may be closed for others between two ticks.
const EVICTIONS_PER_TICK: usize = 1024;
/// When so many tasks have ended, their memory is given back.
const TRIM_AFTER: usize = 128;

/// Which connection it is, and whose.
#[derive(Clone, Copy)]
pub struct ConnectionIdentity {
    /// `None`: it is a stream, or the kernel does not number sockets.
    pub id: Option<ConnectionId>,
    pub peer: CompactPeer,
}

/// The state of one connection.
pub struct ConnectionState {
    identity: ConnectionIdentity,
    /// The client of the present request: the peer, unless that is a trusted proxy.
    client: Cell<CompactPeer>,
    phase: Cell<Phase>,
    /// When the phase, or the present window of it, began.
    since: Cell<Ticks>,
    /// Bytes sent or received in this window.
    bytes: Cell<u64>,
    /// When `bytes` was last equal to the bytes sent.
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
        if !self.is_disconnected() {
            self.event.set(None);
        }
    }

    pub fn id(&self) -> Option<ConnectionId> {
        self.identity.id
    }

    /// A request of this client begins.
    pub fn set_client(&self, client: Peer) {
        self.client.set(client.into());
    }

    /// No request runs.
    pub fn reset_client(&self) {
        self.client.set(self.identity.peer);
    }

    /// Whether an administrator ends it.
    pub fn is_disconnected(&self) -> bool {
        self.event.get() == Some(Event::Disconnect)
    }

    /// Ready when an administrator ends it. Leaves other events alone.
    pub fn poll_disconnected(&self, waker: &Waker) -> Poll<()> {
        self.set_waker(waker);
        if self.is_disconnected() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_selected(&self, selection: &Selection) -> bool {
        match selection {
            Selection::Connection(id) => self.identity.id == Some(*id),
            Selection::Clients(clients) => {
                is_of(self.identity.peer, clients) || is_of(self.client.get(), clients)
            }
        }
    }

    /// As `is_selected`, for a stream of a connection that goes on: the client of its request came by a trusted proxy.
    fn is_selected_alone(&self, selection: &Selection) -> bool {
        match selection {
            Selection::Connection(_) => false,
            Selection::Clients(clients) => {
                !is_of(self.identity.peer, clients) && is_of(self.client.get(), clients)
            }
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// When the phase, or the present window of it, began.
    pub fn since(&self) -> Ticks {
        self.since.get()
    }

    pub fn measured(&self) -> Ticks {
        self.measured.get()
    }

    /// Bytes sent or received in this window.
    pub fn window(&self) -> u64 {
        self.bytes.get()
    }

    /// Counts bytes that were sent or received.
    pub fn moved(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Counts what the client has taken of a response up to now.
    pub fn measure(&self, taken: u64, now: Ticks) {
        self.moved(taken);
        self.measured.set(now);
    }

    /// The event that the connection was notified of, once; but `Disconnect` stays. The next one wakes `waker`.
    #[inline]
    pub fn take_event(&self, waker: &Waker) -> Option<Event> {
        self.set_waker(waker);
        let event = self.event.take();
        if event == Some(Event::Disconnect) {
            self.event.set(event);
        }
        event
    }

    #[inline]
    fn set_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Wakes the connection's task for an event. Nothing replaces `Disconnect`, and only that replaces `Evict`.
    pub fn notify(&self, event: Event) {
        match (self.event.get(), event) {
            (Some(Event::Disconnect), _) => {}
            (_, Event::Disconnect) => self.event.set(Some(event)),
            (Some(Event::Evict), _) => {}
            _ => self.event.set(Some(event)),
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Connections that have been sent their last response, or are being rejected, in the order in which they can be closed
/// for others. Some may have ended.
#[derive(Default)]
pub struct Leaving(RefCell<VecDeque<Weak<ConnectionState>>>);

impl Leaving {
    /// Adds one of at most `limit`.
    pub fn add(&self, state: &Rc<ConnectionState>, limit: usize) {
        let mut states = self.0.borrow_mut();
        while states.front().is_some_and(|state| state.strong_count() == 0) {
            states.pop_front();
        }
        if states.len() >= 2 * limit {
            states.retain(|state| state.strong_count() > 0);
        }
        states.push_back(Rc::downgrade(state));
    }

    /// Notifies the first of them to close. `false`: there is none.
    pub fn evict_first(&self) -> bool {
        let mut states = self.0.borrow_mut();
        let first = std::iter::from_fn(|| states.pop_front()).find_map(|state| state.upgrade());
        first.inspect(|state| state.notify(Event::Evict)).is_some()
    }
}

/// Whether a peer is one of these clients. A client that its proxy does not name is not.
pub fn is_of(peer: CompactPeer, clients: &Clients) -> bool {
    match Peer::from(peer) {
        Peer::Unknown => false,
        peer => clients.contains(peer.ip()),
    }
}

pub struct ConnectionTable {
    states: RefCell<Slab<Rc<ConnectionState>>>,
    added: Notify,
    ended: Notify,
    /// Connections below the least rate, the slowest last, as they were in one tick.
    slow: RefCell<(Ticks, Vec<Weak<ConnectionState>>)>,
    /// Tasks that have ended since the heap was last trimmed.
    tasks_ended: Cell<usize>,
}

/// An entry of the table, which is removed when this is dropped.
pub struct TableEntry {
    pub state: Rc<ConnectionState>,
    key: usize,
    table: Rc<ConnectionTable>,
}

impl ConnectionTable {
    pub fn new() -> Rc<ConnectionTable> {
        Rc::new(ConnectionTable {
            states: RefCell::new(Slab::new()),
            added: Notify::new(),
            ended: Notify::new(),
            slow: RefCell::default(),
            tasks_ended: Cell::new(0),
        })
    }

    pub fn insert(
        self: &Rc<ConnectionTable>,
        identity: ConnectionIdentity,
        phase: Phase,
        now: Ticks,
    ) -> TableEntry {
        let state = Rc::new(ConnectionState {
            identity,
            client: Cell::new(identity.peer),
            phase: Cell::new(phase),
            since: Cell::new(now),
            bytes: Cell::new(0),
            measured: Cell::new(now),
            event: Cell::new(None),
            waker: RefCell::new(None),
        });
        let key = self.states.borrow_mut().insert(state.clone());
        self.wake_clock();
        TableEntry { state, key, table: self.clone() }
    }

    pub fn len(&self) -> usize {
        self.states.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes the worker's clock: there is a connection, here or in the idle set, and deadlines count.
    pub fn wake_clock(&self) {
        self.added.notify_waiters();
    }

    /// Waits until there is a connection.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Waits until a connection ends, here or elsewhere.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Notifies of the end of a connection that is not in the table, or of a listener.
    pub fn notify_ended(&self) {
        self.ended.notify_waiters();
    }

    /// Gives memory back to the kernel after many tasks have ended.
    pub fn trim(&self) {
        let ended = self.tasks_ended.get();
        if ended >= TRIM_AFTER || (ended > 0 && self.is_empty()) {
            self.tasks_ended.set(0);
            sys::trim_heap();
        }
    }

    /// Notifies each connection of its event that is due.
    pub fn sweep(&self, deadlines: &Deadlines, now: Ticks) {
        for (_, state) in &*self.states.borrow() {
            if let Some(event) = deadlines.event(state, now) {
                state.notify(event);
            }
        }
    }

    /// Has connections measure how much of a response their clients have taken, each about once a second.
    pub fn measure(&self, now: Ticks) {
        for (_, state) in &*self.states.borrow() {
            if state.phase() == Phase::Write && now.wrapping_sub(state.measured()) >= EVICT_AFTER {
                state.notify(Event::Measure);
            }
        }
    }

    /// Notifies the connection with the slowest client to close. `false`: none is below the least rate.
    pub fn evict_slowest(&self, deadlines: &Deadlines, now: Ticks) -> bool {
        let (of, slow) = &mut *self.slow.borrow_mut();
        if *of != now {
            *of = now;
            *slow = self.slowest(deadlines, now);
        }
        while let Some(state) = slow.pop() {
            // It may have ended, or caught up.
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
        let states = self.states.borrow();
        let slow = |(_, state): (usize, &Rc<ConnectionState>)| {
            Some((deadlines.slowness(state, now)?, Rc::downgrade(state)))
        };
        let mut slow: Vec<_> = states.iter().filter_map(slow).collect();
        slow.sort_unstable_by_key(|(slowness, _)| *slowness);
        slow.into_iter().take(EVICTIONS_PER_TICK).rev().map(|(_, state)| state).collect()
    }

    /// Notifies the connections that are selected to end. Returns how many there are.
    pub fn disconnect(&self, selection: &Selection) -> u64 {
        self.notify_end(|state| state.is_selected(selection))
    }

    /// As `disconnect`, in a table of streams: those whose connection goes on.
    pub fn disconnect_streams(&self, selection: &Selection) -> u64 {
        self.notify_end(|state| state.is_selected_alone(selection))
    }

    fn notify_end(&self, is_selected: impl Fn(&ConnectionState) -> bool) -> u64 {
        let states = self.states.borrow();
        let selected = states.iter().filter(|(_, state)| !state.is_disconnected() && is_selected(state));
        selected.map(|(_, state)| state.notify(Event::Disconnect)).count() as u64
    }

    /// Notifies connections between two requests: their tasks are to end.
    pub fn park_idle(&self) {
        for (_, state) in &*self.states.borrow() {
            if state.phase() == Phase::Idle {
                state.notify(Event::Park);
            }
        }
    }

    /// Connections between two requests.
    pub fn idle(&self) -> usize {
        self.states.borrow().iter().filter(|(_, state)| state.phase() == Phase::Idle).count()
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let mut states = self.table.states.borrow_mut();
        states.remove(self.key);
        // What a wave of connections needed is given back after it.
        if states.is_empty() && states.capacity() > 1024 {
            states.shrink_to_fit();
        }
        self.table.tasks_ended.set(self.table.tasks_ended.get() + 1);
        self.table.ended.notify_waiters();
    }
}
