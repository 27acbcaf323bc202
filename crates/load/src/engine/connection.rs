//! One connection of a thread, over and over: it asks the desk for work, opens a socket when it has some,
//! sends, and is told of what happens by the loop. What comes in is read in `reading`.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustls::ClientConnection;

use super::answer::{After, Reader};
use super::desk::{Desk, First, Next};
use super::sending::Out;
use super::socket::{self, Opened};
use super::tally::Pending;
use super::wire::Wire;
use crate::h2::Client;
use crate::plan::{Protocol, Reuse, Scheme, Way};
use crate::run::Fault;
use crate::shape::{Closing, Ration};
use crate::tls;

/// A server that refuses is not stormed.
const BACK_OFF: Duration = Duration::from_millis(100);
/// How long the server's end of a connection is waited for after its last answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// After the end of a run, what is still coming in is let go of after this; what is silent is waited for.
const LAST_BYTES: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No socket.
    Down,
    Connecting,
    Handshake,
    Open,
    /// The last answer is here and the server owes its FIN.
    Ending,
    /// Nothing will ever be asked here again.
    Retired,
}

/// How the bytes of a connection are understood.
pub enum Talk {
    H1(Reader),
    H2(Box<Client>),
}

/// Where a connection without work is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Free,
    Not,
}

/// Whether the socket may hold something that no event will tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Perhaps,
    Nothing,
}

pub struct Connection {
    /// In its thread.
    index: usize,
    /// In the run.
    number: usize,
    pub(super) stage: Stage,
    pub(super) socket: Option<OwnedFd>,
    pub(super) wire: Wire,
    pub(super) talk: Talk,
    /// Where `socket` leads.
    pub(super) target: usize,
    /// Oldest first; in HTTP/1 the first one is being answered.
    pub(super) pending: VecDeque<Pending>,
    /// Of `pending`, so many at the end have not been handed to the socket.
    pub(super) unsent: usize,
    pub(super) out: Out,
    /// When the stage began.
    since: Instant,
    /// Answers on this connection.
    pub(super) served: u64,
    pub finished: u64,
    /// Taken from the desk for another target, or not answered before the server closed as announced.
    held: VecDeque<(u32, Instant)>,
    rest_until: Instant,
    /// The earliest moment at which it will be woken, so that it does not ask twice.
    next_wake: Option<Instant>,
    cursor: usize,
    opened: usize,
    listed: Listed,
    pub(super) reading: Option<Ration>,
    pub(super) unread: Unread,
    /// What the last head said of the connection.
    pub(super) after: After,
}

impl Connection {
    pub fn new(index: usize, number: usize, now: Instant) -> Connection {
        Connection {
            index,
            number,
            stage: Stage::Down,
            socket: None,
            wire: Wire::Plain,
            talk: Talk::H1(Reader::new()),
            target: 0,
            pending: VecDeque::new(),
            unsent: 0,
            out: Out::default(),
            since: now,
            served: 0,
            finished: 0,
            held: VecDeque::new(),
            rest_until: now,
            next_wake: None,
            cursor: 0,
            opened: 0,
            listed: Listed::Not,
            reading: None,
            unread: Unread::Nothing,
            after: After::Stays,
        }
    }

    pub fn is_retired(&self) -> bool {
        self.stage == Stage::Retired
    }

    /// The desk has taken it off its list of free ones.
    pub fn unlisted(&mut self) {
        self.listed = Listed::Not;
    }

    /// Takes what there is to be done, as far as there is room, and sends it.
    pub fn seek(&mut self, desk: &mut Desk<'_>, now: Instant) {
        if matches!(self.stage, Stage::Ending | Stage::Retired) || now < self.rest_until {
            return;
        }
        // Bounded by the depth.
        while self.has_room(desk) && now >= self.rest_until {
            let (ask, intended) = match self.held.pop_front() {
                Some(held) => held,
                None => match desk.next(now, &mut self.cursor) {
                    Next::Start(ask, intended) => {
                        if desk.counts_starts() {
                            desk.tally.started(intended);
                        }
                        (ask, intended)
                    }
                    Next::Wait => {
                        self.list(desk);
                        break;
                    }
                    Next::Over if self.pending.is_empty() => return self.retire(desk),
                    Next::Over => break,
                },
            };
            if self.socket.is_some() && desk.plan.asks[ask as usize].target != self.target {
                if !self.pending.is_empty() {
                    self.held.push_back((ask, intended));
                    break;
                }
                self.hang_up(desk, now);
            }
            let mut pending = Pending::new(ask, intended);
            pending.sum = desk.judge.sum();
            self.pending.push_back(pending);
            self.unsent += 1;
            if self.socket.is_none() {
                self.target = desk.plan.asks[ask as usize].target;
                self.open(desk, now);
            }
        }
        if self.stage == Stage::Open && self.unsent > 0 {
            self.send(desk, now);
        }
    }

    fn has_room(&self, desk: &Desk<'_>) -> bool {
        let limit = match desk.plan.reuse {
            Reuse::KeepAlive => u64::MAX,
            Reuse::PerRequest => 1,
            Reuse::Session(requests) => requests,
        };
        let room = match &self.talk {
            Talk::H1(_) => desk.plan.protocol.depth(),
            Talk::H2(client) => client.room().min(desk.plan.protocol.depth()),
        };
        !matches!(self.stage, Stage::Ending | Stage::Retired)
            && self.pending.len() < room
            && self.served + (self.pending.len() as u64) < limit
    }

    fn list(&mut self, desk: &mut Desk<'_>) {
        if self.listed == Listed::Not {
            self.listed = Listed::Free;
            desk.free.push_back(self.index);
        }
    }

    fn retire(&mut self, desk: &mut Desk<'_>) {
        self.drop_socket(desk);
        self.stage = Stage::Retired;
    }

    fn open(&mut self, desk: &mut Desk<'_>, now: Instant) {
        let plan = desk.plan;
        let target = &plan.targets[self.target];
        let buffer = plan.shape.read.map(|_| socket::SLOW_READER_BUFFER);
        let turn = self.number.wrapping_add(self.opened);
        self.opened += 1;
        self.since = Instant::now();
        let opened = match &target.way {
            Way::Tcp(addresses) => {
                let from = plan.sources.get(turn % plan.sources.len().max(1)).copied();
                socket::tcp(&addresses[turn % addresses.len()], from, buffer)
            }
            Way::Unix(path) => socket::unix(path, buffer),
        };
        let (socket, connected) = match opened {
            Ok(Opened::Connected(socket)) => (socket, true),
            Ok(Opened::Connecting(socket)) => (socket, false),
            Err(fault) => return self.lose(desk, fault, now),
        };
        if let Err(fault) = socket::watch(&desk.epoll, &socket, self.index) {
            return self.lose(desk, fault, now);
        }
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        if connected {
            self.connected(desk, Instant::now());
        }
    }

    /// Where the last connection was opened to.
    fn address(&self, desk: &Desk<'_>) -> String {
        match &desk.plan.targets[self.target].way {
            Way::Tcp(addresses) => {
                let turn = self.number.wrapping_add(self.opened).wrapping_sub(1);
                addresses[turn % addresses.len()].to_string()
            }
            Way::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    fn connected(&mut self, desk: &mut Desk<'_>, now: Instant) {
        let plan = desk.plan;
        desk.tally.connected(self.since, now);
        desk.first = First::Made;
        self.served = 0;
        self.since = now;
        self.reading = plan.shape.read.map(|rate| Ration::new(rate, now));
        match (plan.targets[self.target].scheme, &desk.tls) {
            (Scheme::Https, Some(config)) => match tls::connection(config, plan, self.target) {
                Ok(connection) => {
                    self.wire = Wire::Tls(Box::new(connection));
                    self.stage = Stage::Handshake;
                    self.flush(desk, now);
                }
                Err(fault) => self.lose(desk, fault, now),
            },
            _ => self.ready(desk, now),
        }
    }

    /// The first byte of HTTP may be sent.
    fn ready(&mut self, desk: &mut Desk<'_>, now: Instant) {
        self.stage = Stage::Open;
        self.talk = match desk.plan.protocol {
            Protocol::Http2 { .. } => Talk::H2(Box::default()),
            Protocol::Http10 | Protocol::Http11 { .. } => Talk::H1(Reader::new()),
        };
        self.send(desk, now);
    }

    pub(super) fn shook_hands(&mut self, desk: &mut Desk<'_>, tls: &ClientConnection, now: Instant) {
        let resumed = tls::is_resumed(tls);
        desk.tally.shook_hands(self.since, now, resumed);
        if desk.tally.tls.is_none() {
            desk.tally.tls = tls::names(tls);
        }
        self.stage = Stage::Open;
    }

    /// After the handshake, with the wire in its place again.
    pub(super) fn begin(&mut self, desk: &mut Desk<'_>, now: Instant) {
        if let (Protocol::Http2 { .. }, Wire::Tls(tls)) = (desk.plan.protocol, &self.wire)
            && tls.alpn_protocol() != Some(b"h2")
        {
            return self.lose(desk, Fault::Handshake, now);
        }
        self.ready(desk, now);
    }

    /// What epoll told.
    pub fn turn(&mut self, desk: &mut Desk<'_>, ready: EventFlags, now: Instant) {
        match self.stage {
            Stage::Connecting => {
                let Some(socket) = &self.socket else { return };
                match socket::pending_error(socket) {
                    Some(fault) => self.lose(desk, fault, now),
                    None if ready.contains(EventFlags::OUT) => self.connected(desk, now),
                    None => {}
                }
            }
            Stage::Handshake | Stage::Open | Stage::Ending => {
                if ready.contains(EventFlags::OUT) && self.has_output() {
                    self.flush(desk, now);
                }
                if ready.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(desk, ready, now);
                }
            }
            Stage::Down | Stage::Retired => {}
        }
    }

    /// Wants to be woken at this moment, or before.
    pub(super) fn ask_wake(&mut self, desk: &mut Desk<'_>, at: Instant) {
        if self.next_wake.is_none_or(|next| next > at) {
            self.next_wake = Some(at);
            desk.wake(at, self.index);
        }
    }

    /// A moment has come for which it asked; what for, its state says.
    pub fn wake(&mut self, desk: &mut Desk<'_>, now: Instant) {
        if self.next_wake.is_some_and(|next| next <= now) {
            self.next_wake = None;
        }
        if matches!(self.stage, Stage::Open | Stage::Handshake) {
            if self.has_output() {
                self.flush(desk, now);
            }
            if self.reading.is_some() || self.unread == Unread::Perhaps {
                self.receive(desk, EventFlags::empty(), now);
            }
        }
        self.seek(desk, now);
        if now < self.rest_until {
            self.ask_wake(desk, self.rest_until);
        }
    }

    /// Looks for what has lasted too long.
    pub fn sweep(&mut self, desk: &mut Desk<'_>, now: Instant) {
        let timeout = desk.plan.timeout;
        let old = |since: Instant, limit: Duration| now.saturating_duration_since(since) > limit;
        match self.stage {
            Stage::Connecting | Stage::Handshake if old(self.since, timeout) => {
                self.lose(desk, Fault::Timeout, now);
            }
            Stage::Open => self.sweep_pending(desk, now),
            Stage::Ending if old(self.since, FAREWELL) => {
                self.hang_up(desk, now);
                self.seek(desk, now);
            }
            _ => {}
        }
    }

    fn sweep_pending(&mut self, desk: &mut Desk<'_>, now: Instant) {
        let over = desk.over_since(now);
        let Some(first) = self.pending.front() else { return };
        let silent = now.saturating_duration_since(first.heard);
        match &self.talk {
            _ if over > Some(LAST_BYTES) && first.first_byte.is_some() && silent < LAST_BYTES => {
                // It is under way, and nothing says that it is wrong.
                for pending in self.pending.drain(..) {
                    desk.tally.cut_off(&pending);
                }
                self.unsent = 0;
                self.retire(desk);
            }
            Talk::H1(_) if silent > desk.plan.timeout => self.lose(desk, Fault::Timeout, now),
            Talk::H1(_) => {}
            Talk::H2(_) => self.sweep_streams(desk, now),
        }
    }

    fn sweep_streams(&mut self, desk: &mut Desk<'_>, now: Instant) {
        let late = |pending: &Pending| now.saturating_duration_since(pending.heard) > desk.plan.timeout;
        // Bounded by the streams: each pass takes one away.
        while let Some(at) = self.pending.iter().position(late) {
            let Some(pending) = self.pending.remove(at) else { break };
            if let Talk::H2(client) = &mut self.talk {
                client.cancel(pending.stream);
            }
            self.fail(desk, &pending, Fault::Timeout, now);
        }
        self.flush(desk, now);
        self.seek(desk, now);
    }

    pub(super) fn fail(&mut self, desk: &mut Desk<'_>, pending: &Pending, fault: Fault, now: Instant) {
        let url = &desk.plan.asks[pending.ask as usize].url;
        desk.tally.failed(pending, fault, url, now);
        self.finished += 1;
    }

    /// The connection is gone, and with it everything that was asked on it.
    pub(super) fn lose(&mut self, desk: &mut Desk<'_>, fault: Fault, now: Instant) {
        let fruitless = self.served == 0;
        if fault == Fault::Refused && desk.first == First::Expected {
            desk.first = First::Refused(self.address(desk));
        }
        self.drop_socket(desk);
        self.unsent = 0;
        // Bounded by the depth.
        while let Some(pending) = self.pending.pop_front() {
            let fault =
                if pending.first_byte.is_some() && fault == Fault::Reset { Fault::ShortBody } else { fault };
            self.fail(desk, &pending, fault, now);
        }
        self.served = 0;
        if fruitless {
            self.rest_until = now + BACK_OFF;
        }
        self.ask_wake(desk, self.rest_until);
    }

    /// Closes a connection on which nothing is owed.
    pub(super) fn hang_up(&mut self, desk: &mut Desk<'_>, now: Instant) {
        self.drop_socket(desk);
        self.since = now;
        self.served = 0;
    }

    fn drop_socket(&mut self, desk: &mut Desk<'_>) {
        if let Some(socket) = self.socket.take() {
            if matches!(desk.plan.shape.closing, Closing::AbortAfter(_)) {
                socket::reset_on_close(&socket);
            }
            if self.stage != Stage::Connecting {
                desk.tally.closed();
            }
        }
        if self.stage != Stage::Retired {
            self.stage = Stage::Down;
        }
        self.wire = Wire::Plain;
        self.talk = Talk::H1(Reader::new());
        self.out = Out::default();
        self.reading = None;
        self.cursor = 0;
    }

    /// An answer is complete, and has been counted: what becomes of the connection.
    pub(super) fn answered(&mut self, desk: &mut Desk<'_>, intended: Instant, after: After, now: Instant) {
        self.served += 1;
        self.finished += 1;
        let asked_to_close = match desk.plan.reuse {
            Reuse::KeepAlive => false,
            Reuse::PerRequest => true,
            Reuse::Session(requests) => self.served >= requests,
        };
        match (after, asked_to_close) {
            (After::Stays, false) => desk.tally.kept(intended),
            (After::Closes, _) => self.end(now),
            // The server was not told that a session has a length, so it is us who close. In HTTP/1 with
            // one request it was told, and whoever closes first keeps the port.
            (After::Stays, true) => match (desk.plan.reuse, &self.talk) {
                (Reuse::PerRequest, Talk::H1(_)) => self.end(now),
                _ => self.hang_up(desk, now),
            },
        }
        if !desk.plan.think.most.is_zero() && self.pending.is_empty() {
            self.rest_until = now + desk.pause();
            self.ask_wake(desk, self.rest_until);
        }
    }

    fn end(&mut self, now: Instant) {
        self.stage = Stage::Ending;
        self.since = now;
        // What was sent behind the last request that the server wanted will be asked again.
        self.held.extend(self.pending.drain(..).map(|pending| (pending.ask, pending.intended)));
        self.unsent = 0;
    }

    /// A server that leaves owes nothing.
    pub(super) fn end_now(&mut self, desk: &mut Desk<'_>) {
        let now = self.since;
        self.hang_up(desk, now);
    }

    /// The server has not begun with it: it is asked for again, with its first intended start.
    pub(super) fn ask_again(&mut self, at: usize) {
        if let Some(pending) = self.pending.remove(at) {
            self.held.push_back((pending.ask, pending.intended));
        }
    }
}
