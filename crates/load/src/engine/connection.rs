//! One client connection of a thread, opened again and again: it takes a request from the thread's schedule,
//! opens a socket if it has none, sends, and handles the events of the event loop. `reading` receives.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustls::ClientConnection;

use super::response::{Persistence, ResponseReader};
use super::sending::SendQueue;
use super::socket::{self, Opened};
use super::tally::Pending;
use super::thread_state::{First, Next, ThreadState};
use super::transport::Transport;
use crate::h2::Client;
use crate::plan::{Endpoint, Protocol, Reuse, Scheme};
use crate::run::Fault;
use crate::shape::{Closing, RateLimiter};
use crate::tls;

/// Pause before the next attempt after a connection without any response.
const BACK_OFF: Duration = Duration::from_millis(100);
/// How long the client waits for the server's FIN after the last response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// After the end of a run, a response that is still arriving is cut off after this; a silent one has its full
/// timeout.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No socket.
    Down,
    Connecting,
    Handshake,
    Open,
    /// The last response is complete; the client waits for the server's FIN.
    Ending,
    /// No further request will be sent.
    Retired,
}

/// The protocol state of a connection.
pub enum Codec {
    H1(ResponseReader),
    H2(Box<Client>),
}

/// Whether a connection is in the thread's queue of free connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Free,
    Not,
}

/// Whether the socket may hold data for which no event will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Perhaps,
    Nothing,
}

/// A place in the load: its socket is another one after each close.
pub struct Connection {
    /// The number in its thread.
    index: usize,
    /// The number in the whole run.
    number: usize,
    pub(super) stage: Stage,
    pub(super) socket: Option<OwnedFd>,
    pub(super) transport: Transport,
    pub(super) codec: Codec,
    /// The target that `socket` is connected to.
    pub(super) target: usize,
    /// Oldest first. In HTTP/1 the next response belongs to the first.
    pub(super) pending: VecDeque<Pending>,
    /// How many at the end of `pending` were not handed to the socket yet.
    pub(super) unsent: usize,
    pub(super) send_queue: SendQueue,
    /// When the stage began.
    since: Instant,
    /// Responses received on this socket.
    pub(super) served: u64,
    pub finished: u64,
    /// Requests for another target, and requests that the server did not process before it closed as announced.
    deferred: VecDeque<(u32, Instant)>,
    paused_until: Instant,
    /// The earliest timer that is set, so that none is set twice.
    next_wake: Option<Instant>,
    cursor: usize,
    opened: usize,
    listed: Listed,
    pub(super) reading: Option<RateLimiter>,
    pub(super) unread: Unread,
    /// The persistence that the last head announced.
    pub(super) persistence: Persistence,
}

impl Connection {
    /// Without a socket. `number` is that in the whole run.
    pub fn new(index: usize, number: usize, now: Instant) -> Connection {
        Connection {
            index,
            number,
            stage: Stage::Down,
            socket: None,
            transport: Transport::Plain,
            codec: Codec::H1(ResponseReader::new()),
            target: 0,
            pending: VecDeque::new(),
            unsent: 0,
            send_queue: SendQueue::default(),
            since: now,
            served: 0,
            finished: 0,
            deferred: VecDeque::new(),
            paused_until: now,
            next_wake: None,
            cursor: 0,
            opened: 0,
            listed: Listed::Not,
            reading: None,
            unread: Unread::Nothing,
            persistence: Persistence::KeepAlive,
        }
    }

    /// Whether it sends no further request.
    pub fn is_retired(&self) -> bool {
        self.stage == Stage::Retired
    }

    /// The event loop took it out of the queue of free connections.
    pub fn mark_taken(&mut self) {
        self.listed = Listed::Not;
    }

    /// Starts as many requests as are due and fit, and sends them.
    pub fn start_requests(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        if matches!(self.stage, Stage::Ending | Stage::Retired) || now < self.paused_until {
            return;
        }
        // Bounded by the depth.
        while self.accepts_request(state) && now >= self.paused_until {
            let (request, intended) = match self.deferred.pop_front() {
                Some(deferred) => deferred,
                None => match state.next(now, &mut self.cursor) {
                    Next::Start(request, intended) => {
                        if state.counts_starts() {
                            state.tally.started(intended);
                        }
                        (request, intended)
                    }
                    Next::Wait => {
                        self.mark_free(state);
                        break;
                    }
                    Next::Over if self.pending.is_empty() => return self.retire(state),
                    Next::Over => break,
                },
            };
            if self.socket.is_some() && state.plan.requests[request as usize].target != self.target {
                if !self.pending.is_empty() {
                    self.deferred.push_back((request, intended));
                    break;
                }
                self.close(state, now);
            }
            let mut pending = Pending::new(request, intended);
            pending.sum = state.verifier.sum();
            self.pending.push_back(pending);
            self.unsent += 1;
            if self.socket.is_none() {
                self.target = state.plan.requests[request as usize].target;
                self.open(state, now);
            }
        }
        if self.stage == Stage::Open && self.unsent > 0 {
            self.send(state, now);
        }
    }

    fn accepts_request(&self, state: &ThreadState<'_>) -> bool {
        let limit = match state.plan.reuse {
            Reuse::KeepAlive => u64::MAX,
            Reuse::PerRequest => 1,
            Reuse::Session(requests) => requests,
        };
        let capacity = match &self.codec {
            Codec::H1(_) => state.plan.protocol.depth(),
            Codec::H2(client) => client.capacity().min(state.plan.protocol.depth()),
        };
        !matches!(self.stage, Stage::Ending | Stage::Retired)
            && self.pending.len() < capacity
            && self.served + (self.pending.len() as u64) < limit
    }

    fn mark_free(&mut self, state: &mut ThreadState<'_>) {
        if self.listed == Listed::Not {
            self.listed = Listed::Free;
            state.free.push_back(self.index);
        }
    }

    fn retire(&mut self, state: &mut ThreadState<'_>) {
        self.drop_socket(state);
        self.stage = Stage::Retired;
    }

    fn open(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let plan = state.plan;
        let target = &plan.targets[self.target];
        let buffer = plan.shape.read.map(|_| socket::SLOW_READER_BUFFER);
        let turn = self.number.wrapping_add(self.opened);
        self.opened += 1;
        self.since = Instant::now();
        let opened = match &target.endpoint {
            Endpoint::Tcp(addresses) => {
                let from = plan.sources.get(turn % plan.sources.len().max(1)).copied();
                socket::tcp(&addresses[turn % addresses.len()], from, buffer)
            }
            Endpoint::Unix(path) => socket::unix(path, buffer),
        };
        let (socket, connected) = match opened {
            Ok(Opened::Connected(socket)) => (socket, true),
            Ok(Opened::Connecting(socket)) => (socket, false),
            Err(fault) => return self.fail_connection(state, fault, now),
        };
        if let Err(fault) = socket::watch(&state.epoll, &socket, self.index) {
            return self.fail_connection(state, fault, now);
        }
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        if connected {
            self.connected(state, Instant::now());
        }
    }

    /// The address of the last connection attempt.
    fn address(&self, state: &ThreadState<'_>) -> String {
        match &state.plan.targets[self.target].endpoint {
            Endpoint::Tcp(addresses) => {
                let turn = self.number.wrapping_add(self.opened).wrapping_sub(1);
                addresses[turn % addresses.len()].to_string()
            }
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    fn connected(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let plan = state.plan;
        state.tally.connected(self.since, now);
        state.first = First::Established;
        self.served = 0;
        self.since = now;
        self.reading = plan.shape.read.map(|rate| RateLimiter::new(rate, now));
        match (plan.targets[self.target].scheme, &state.tls) {
            (Scheme::Https, Some(config)) => match tls::connection(config, plan, self.target) {
                Ok(connection) => {
                    self.transport = Transport::Tls(Box::new(connection));
                    self.stage = Stage::Handshake;
                    self.flush(state, now);
                }
                Err(fault) => self.fail_connection(state, fault, now),
            },
            _ => self.ready(state, now),
        }
    }

    /// The transport is ready for HTTP.
    fn ready(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        self.stage = Stage::Open;
        self.codec = match state.plan.protocol {
            Protocol::Http2 { .. } => Codec::H2(Box::default()),
            Protocol::Http10 | Protocol::Http11 { .. } => Codec::H1(ResponseReader::new()),
        };
        self.send(state, now);
    }

    pub(super) fn on_handshake(&mut self, state: &mut ThreadState<'_>, tls: &ClientConnection, now: Instant) {
        state.tally.on_handshake(self.since, now, tls);
        self.stage = Stage::Open;
    }

    /// Checks ALPN after the handshake and starts HTTP. The transport must not be in use.
    pub(super) fn begin(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        if let (Protocol::Http2 { .. }, Transport::Tls(tls)) = (state.plan.protocol, &self.transport)
            && tls.alpn_protocol() != Some(b"h2")
        {
            return self.fail_connection(state, Fault::Handshake, now);
        }
        self.ready(state, now);
    }

    /// Handles an event of epoll.
    pub fn on_event(&mut self, state: &mut ThreadState<'_>, ready: EventFlags, now: Instant) {
        match self.stage {
            Stage::Connecting => {
                let Some(socket) = &self.socket else { return };
                match socket::pending_error(socket) {
                    Some(fault) => self.fail_connection(state, fault, now),
                    None if ready.contains(EventFlags::OUT) => self.connected(state, now),
                    None => {}
                }
            }
            Stage::Handshake | Stage::Open | Stage::Ending => {
                if ready.contains(EventFlags::OUT) && self.has_output() {
                    self.flush(state, now);
                }
                if ready.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(state, ready, now);
                }
            }
            Stage::Down | Stage::Retired => {}
        }
    }

    /// Sets a timer, unless an earlier one is set.
    pub(super) fn schedule_wake(&mut self, state: &mut ThreadState<'_>, at: Instant) {
        if self.next_wake.is_none_or(|next| next > at) {
            self.next_wake = Some(at);
            state.wake(at, self.index);
        }
    }

    /// A timer has expired; the state tells what it was set for.
    pub fn on_timer(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        if self.next_wake.is_some_and(|next| next <= now) {
            self.next_wake = None;
        }
        if matches!(self.stage, Stage::Open | Stage::Handshake) {
            if self.has_output() {
                self.flush(state, now);
            }
            if self.reading.is_some() || self.unread == Unread::Perhaps {
                self.receive(state, EventFlags::empty(), now);
            }
        }
        self.start_requests(state, now);
        if now < self.paused_until {
            self.schedule_wake(state, self.paused_until);
        }
    }

    /// Ends what has lasted too long.
    pub fn check_timeouts(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let timeout = state.plan.timeout;
        let old = |since: Instant, limit: Duration| now.saturating_duration_since(since) > limit;
        match self.stage {
            Stage::Connecting | Stage::Handshake if old(self.since, timeout) => {
                self.fail_connection(state, Fault::Timeout, now);
            }
            Stage::Open => self.check_pending(state, now),
            Stage::Ending if old(self.since, CLOSE_TIMEOUT) => {
                self.close(state, now);
                self.start_requests(state, now);
            }
            _ => {}
        }
    }

    fn check_pending(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let over = state.over_since(now);
        let Some(first) = self.pending.front() else { return };
        let silent = now.saturating_duration_since(first.last_activity);
        match &self.codec {
            _ if over > Some(DRAIN_TIME) && first.first_byte.is_some() && silent < DRAIN_TIME => {
                // The response is still arriving: neither right nor wrong.
                for pending in self.pending.drain(..) {
                    state.tally.cut_off(&pending);
                }
                self.unsent = 0;
                self.retire(state);
            }
            Codec::H1(_) if silent > state.plan.timeout => self.fail_connection(state, Fault::Timeout, now),
            Codec::H1(_) => {}
            Codec::H2(_) => self.check_streams(state, now),
        }
    }

    fn check_streams(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let late =
            |pending: &Pending| now.saturating_duration_since(pending.last_activity) > state.plan.timeout;
        // Bounded by the streams: each pass takes one away.
        while let Some(at) = self.pending.iter().position(late) {
            let Some(pending) = self.pending.remove(at) else { break };
            if let Codec::H2(client) = &mut self.codec {
                client.cancel(pending.stream);
            }
            self.fail(state, &pending, Fault::Timeout, now);
        }
        self.flush(state, now);
        self.start_requests(state, now);
    }

    pub(super) fn fail(
        &mut self,
        state: &mut ThreadState<'_>,
        pending: &Pending,
        fault: Fault,
        now: Instant,
    ) {
        let url = &state.plan.requests[pending.request as usize].url;
        state.tally.failed(pending, fault, url, now);
        self.finished += 1;
    }

    /// The connection failed, and with it every pending request.
    pub(super) fn fail_connection(&mut self, state: &mut ThreadState<'_>, fault: Fault, now: Instant) {
        let unused = self.served == 0;
        if fault == Fault::Refused && state.first == First::Expected {
            state.first = First::Refused(self.address(state));
        }
        self.drop_socket(state);
        self.unsent = 0;
        // Bounded by the depth.
        while let Some(pending) = self.pending.pop_front() {
            let fault =
                if pending.first_byte.is_some() && fault == Fault::Reset { Fault::ShortBody } else { fault };
            self.fail(state, &pending, fault, now);
        }
        self.served = 0;
        if unused {
            self.paused_until = now + BACK_OFF;
        }
        self.schedule_wake(state, self.paused_until);
    }

    /// Closes a connection without pending requests.
    pub(super) fn close(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        self.drop_socket(state);
        self.since = now;
        self.served = 0;
    }

    fn drop_socket(&mut self, state: &mut ThreadState<'_>) {
        if let Some(socket) = self.socket.take() {
            if matches!(state.plan.shape.closing, Closing::AbortAfter(_)) {
                socket::reset_on_close(&socket);
            }
            if self.stage != Stage::Connecting {
                state.tally.closed();
            }
        }
        if self.stage != Stage::Retired {
            self.stage = Stage::Down;
        }
        self.transport = Transport::Plain;
        self.codec = Codec::H1(ResponseReader::new());
        self.send_queue = SendQueue::default();
        self.reading = None;
        self.cursor = 0;
    }

    /// A response is complete and counted: keeps or closes the connection.
    pub(super) fn on_response(
        &mut self,
        state: &mut ThreadState<'_>,
        intended: Instant,
        persistence: Persistence,
        now: Instant,
    ) {
        self.served += 1;
        self.finished += 1;
        let asked_to_close = match state.plan.reuse {
            Reuse::KeepAlive => false,
            Reuse::PerRequest => true,
            Reuse::Session(requests) => self.served >= requests,
        };
        match (persistence, asked_to_close) {
            (Persistence::KeepAlive, false) => state.tally.kept(intended),
            (Persistence::Close, _) => self.end(now),
            // The server does not know the length of a session, so the client closes. With one request
            // per connection in HTTP/1 the server was asked to close, and the side that closes first keeps
            // the port in TIME_WAIT.
            (Persistence::KeepAlive, true) => match (state.plan.reuse, &self.codec) {
                (Reuse::PerRequest, Codec::H1(_)) => self.end(now),
                _ => self.close(state, now),
            },
        }
        if !state.plan.think.most.is_zero() && self.pending.is_empty() {
            self.paused_until = now + state.pause();
            self.schedule_wake(state, self.paused_until);
        }
    }

    fn end(&mut self, now: Instant) {
        self.stage = Stage::Ending;
        self.since = now;
        // Pipelined requests that the server did not process are sent again.
        self.deferred.extend(self.pending.drain(..).map(|pending| (pending.request, pending.intended)));
        self.unsent = 0;
    }

    /// Closes after a GOAWAY without open streams.
    pub(super) fn close_now(&mut self, state: &mut ThreadState<'_>) {
        let now = self.since;
        self.close(state, now);
    }

    /// The server did not process the request: it is sent again and keeps its intended start.
    pub(super) fn retry(&mut self, at: usize) {
        if let Some(pending) = self.pending.remove(at) {
            self.deferred.push_back((pending.request, pending.intended));
        }
    }
}
