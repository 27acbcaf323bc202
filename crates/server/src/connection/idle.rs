//! The idle set, where connections are as long as nothing keeps them waiting: a descriptor in an epoll
//! instance of the idle set's own, which is itself one descriptor in the worker's loop, and a connection in a table.
//! No task, no buffer, no registration with the runtime.
//!
//! Most requests are answered right here: what comes is read into the worker's buffer, answered from what
//! is known, and sent, all without waiting. Whatever has to wait gets a task (`task`) and comes back when
//! it is done. A connection that is over stays here, too, while its client has yet to take the last answer.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::client::Client;
use super::h1::{Answered, Http1, Next};
use super::log_guard::LogGuard;
use super::output::{self, Output, Persistence, Sent};
use super::stream::{self, Bare};
use super::task::Start;
use super::{Deadlines, EVICT_AFTER, Phase};
use crate::clock::Ticks;
use crate::connection::Connections;
use crate::peer::Family;
use crate::stats::{Count, Counts};
use crate::sys::{self, calls};

/// Connections that are looked at in one turn of the loop, before tasks have theirs.
const EVENTS_PER_TURN: usize = 256;
/// Full buffers that a connection may send in one visit; then it gets a task, and others have their turn.
const READS_PER_VISIT: usize = 4;

/// Bytes that the kernel may keep for a client whose connection is closed. What is closed belongs to nobody,
/// and of those the kernel resets some when its memory for sockets is short (`tcp(7)`, `tcp_mem`).
pub const KEPT: u64 = 128 * 1024;

/// A table of more than a few entries gets room for many at once: so large, it is mapped by itself, takes only the
/// pages that are used, and grows without leaving a place behind in the heap.
const FEW: usize = 512;
const MANY: usize = 16 * 1024;

pub struct IdleSet {
    epoll: AsyncFd<OwnedFd>,
    entries: RefCell<Slab<IdleConnection>>,
    events: RefCell<Vec<Event>>,
}

/// A connection at rest.
struct IdleConnection {
    fd: OwnedFd,
    family: Family,
    requests: u32,
    state: State,
    /// When it last had something to say, or came.
    since: Ticks,
    /// Of an answer, when the deadline had come.
    unsent: Option<u64>,
    client: Client,
}

/// What a connection stays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request.
    Open,
    /// What the kernel still has for its client. Nothing more is said on it.
    Draining,
}

/// A short read has emptied a TCP socket, and what comes later is a new edge: but not where the peer has
/// closed its side, for that end must be read now, nor where urgent data cut the read short.
const MORE_TO_READ: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// What becomes of a connection after a visit.
enum Visit {
    Stay,
    Close,
    /// It has to wait for something; this has come and is not used up.
    Leave(Box<(Http1, Start, Vec<u8>)>),
}

impl IdleConnection {
    /// What it waits for, and what it means when that takes too long.
    fn deadline(&self) -> (Phase, Count) {
        match (self.state, self.requests) {
            (State::Draining, _) => (Phase::Write, Count::LateWrite),
            (State::Open, 0) => (Phase::Head, Count::LateHead),
            (State::Open, _) => (Phase::Idle, Count::LateIdle),
        }
    }

    /// From now on it stays only until its client has all.
    fn drain(&mut self, now: Ticks) {
        stream::shut_down(&self.fd);
        self.state = State::Draining;
        self.since = now;
        self.unsent = None;
    }

    /// Is the client still taking an answer that has left us, but not the kernel? Then it is idle only
    /// from now on, as long as it takes at the least rate.
    fn is_taking(&mut self, phase: Phase, deadlines: &Deadlines, now: Ticks) -> bool {
        let unsent = sys::unsent(self.fd.as_fd()).unwrap_or(0);
        let taken = self.unsent.map(|before| before.saturating_sub(unsent));
        self.since = now;
        self.unsent = Some(unsent);
        unsent > 0 && taken.is_none_or(|taken| deadlines.is_enough(phase, taken))
    }
}

impl Visit {
    fn leave(http: Http1, start: Start, input: Vec<u8>) -> Visit {
        Visit::Leave(Box::new((http, start, input)))
    }
}

impl IdleSet {
    /// To be called within the worker's runtime.
    pub fn open() -> io::Result<IdleSet> {
        let epoll = sys::watch(epoll::create(CreateFlags::CLOEXEC)?, Interest::READABLE)?;
        Ok(IdleSet { epoll, entries: RefCell::default(), events: RefCell::default() })
    }

    /// Takes a connection in, until it has something to say or its deadline has come.
    pub fn admit(
        &self,
        fd: OwnedFd,
        family: Family,
        client: Client,
        requests: u32,
        since: Ticks,
    ) -> io::Result<()> {
        self.insert(IdleConnection { fd, family, requests, state: State::Open, since, unsent: None, client })
    }

    /// Takes a connection in that is over, until its client has closed it, or takes too little.
    pub fn drain(&self, fd: OwnedFd, family: Family, client: Client, now: Ticks) -> io::Result<()> {
        let mut connection =
            IdleConnection { fd, family, requests: 0, state: State::Open, since: now, unsent: None, client };
        connection.drain(now);
        self.insert(connection)
    }

    fn insert(&self, connection: IdleConnection) -> io::Result<()> {
        let mut entries = self.entries.borrow_mut();
        if entries.len() == entries.capacity() && entries.len() >= FEW {
            entries.reserve(MANY);
        }
        let entry = entries.vacant_entry();
        let data = EventData::new_u64(entry.key() as u64);
        // Edge-triggered: a visit reads all there is, and what comes later is a new edge. What is there
        // already is told of at once.
        let what = EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | EventFlags::ET;
        calls::epoll_add(self.epoll.get_ref(), &connection.fd, data, what)?;
        entry.insert(connection);
        Ok(())
    }

    /// Closes those whose deadline has passed: that of a first request, that between requests, or that of
    /// taking an answer.
    pub fn sweep(&self, deadlines: &Deadlines, now: Ticks, counts: &Counts) {
        let mut entries = self.entries.borrow_mut();
        entries.retain(|_, connection| {
            let (phase, late) = connection.deadline();
            let stays = now.wrapping_sub(connection.since) < deadlines.of(phase)
                || connection.is_taking(phase, deadlines, now);
            if !stays {
                counts.add(late, 1);
                // What the client did not take in time is not kept for it in the kernel, either.
                if connection.unsent.is_some_and(|unsent| unsent > 0) {
                    stream::reset_when_closed(&connection.fd);
                }
            }
            stays
        });
        if entries.is_empty() && entries.capacity() > 0 {
            *entries = Slab::new();
        }
    }

    /// Closes the one that has been silent longest. `false`: none has been for long: whoever has asked
    /// just now is likely to ask again, and must not find its connection closed on the way.
    pub fn evict(&self, now: Ticks) -> bool {
        let mut entries = self.entries.borrow_mut();
        let idle = |connection: &IdleConnection| now.wrapping_sub(connection.since);
        let oldest = entries
            .iter()
            .filter(|(_, connection)| idle(connection) >= EVICT_AFTER)
            .max_by_key(|(_, connection)| idle(connection));
        oldest.map(|(key, _)| key).is_some_and(|key| {
            entries.remove(key);
            true
        })
    }

    /// Takes all connections out that may have another request, for somebody else. The others are closed.
    pub fn take_all(&self) -> Vec<(OwnedFd, Family, Client, u32)> {
        let entries = std::mem::take(&mut *self.entries.borrow_mut());
        let out = |(_, connection): (usize, IdleConnection)| {
            // Fails only for a descriptor that is not there, and then there is nothing to take out.
            _ = epoll::delete(self.epoll.get_ref(), &connection.fd);
            (connection.fd, connection.family, connection.client, connection.requests)
        };
        entries.into_iter().filter(|(_, connection)| connection.state == State::Open).map(out).collect()
    }

    pub fn close_all(&self) {
        *self.entries.borrow_mut() = Slab::new();
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Waits until connections have something to say, and notes which.
    async fn events(&self) -> io::Result<()> {
        let mut ready = self.epoll.readable().await?;
        let mut events = self.events.borrow_mut();
        events.clear();
        events.reserve(EVENTS_PER_TURN);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match calls::epoll_wait(self.epoll.get_ref(), &mut events, &at_once) {
            // As many as fit: there may be more, so this is asked again.
            Ok(n) if n == EVENTS_PER_TURN => {}
            Ok(_) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}

/// Answers the connections of the idle set, for as long as the worker lives.
pub async fn serve(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        connections.idle.events().await?;
        let events = std::mem::take(&mut *connections.idle.events.borrow_mut());
        for event in &events {
            let (key, flags) = (event.data.u64() as usize, event.flags);
            guard(&connections, key, || visit(&connections, key, flags));
        }
        *connections.idle.events.borrow_mut() = events;
    }
}

/// A panic ends the connection that caused it, and nothing else. The hook has logged it.
#[inline]
fn guard(connections: &Connections, key: usize, visit: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(visit)).is_err() {
        connections.services.counts.add(Count::Panicked, 1);
        connections.idle.entries.borrow_mut().try_remove(key);
    }
}

/// Lets a connection have its say, and moves it to where it belongs after that.
#[inline]
fn visit(connections: &Rc<Connections>, key: usize, flags: EventFlags) {
    let mut entries = connections.idle.entries.borrow_mut();
    let Some(connection) = entries.get_mut(key) else { return };
    match hear(connections, connection, flags) {
        Visit::Stay => {}
        Visit::Close => {
            entries.remove(key);
            connections.freed();
        }
        Visit::Leave(leaving) => {
            let (http, start, input) = *leaving;
            let connection = entries.remove(key);
            drop(entries);
            // Fails only for a descriptor that is not there, and then there is nothing to take out.
            _ = epoll::delete(connections.idle.epoll.get_ref(), &connection.fd);
            connections.give_task(connection.fd, connection.family, connection.client, http, input, start);
        }
    }
}

/// Reads what has come, answers, and sends, as far as nothing has to wait.
#[inline]
fn hear(connections: &Rc<Connections>, connection: &mut IdleConnection, flags: EventFlags) -> Visit {
    for _ in 0..READS_PER_VISIT {
        let read = {
            let scratch = &mut *connections.services.scratch.borrow_mut();
            let space = scratch.space_behind(&[]);
            calls::recv(&connection.fd, &mut *space, RecvFlags::DONTWAIT).map(|n| (n, n == space.len()))
        };
        let (have, full) = match read {
            Ok((0, _)) => return Visit::Close,
            Ok(read) => read,
            Err(Errno::AGAIN) => return Visit::Stay,
            Err(Errno::INTR) => continue,
            Err(_) => return Visit::Close,
        };
        if connection.state == State::Draining {
            // Unread, it would have the connection reset when that is closed (RFC 9112 §9.6).
            continue;
        }
        let mut http = Http1::new(connection.client.peer(), connection.requests);
        http.began = connections.services.access_time();
        let Answered { used, next } = http.answer(connections, have);
        match next {
            Next::Send(output) => match send(connections, connection, http, output, used..have) {
                Visit::Stay => {}
                other => return other,
            },
            next => return Visit::leave(http, Start::Next(next), input(connections, used..have)),
        }
        if !full && !flags.intersects(MORE_TO_READ) && connection.family == Family::Tcp {
            return Visit::Stay;
        }
    }
    match connection.state {
        State::Open => {
            Visit::leave(Http1::new(connection.client.peer(), connection.requests), Start::Input, Vec::new())
        }
        State::Draining => Visit::Stay,
    }
}

/// What is left of the input, which others are about to overwrite.
fn input(connections: &Connections, left: Range<usize>) -> Vec<u8> {
    connections.services.scratch.borrow().buffer[left].to_vec()
}

/// Sends the answers to what has come; `left` of it is not used up.
#[inline]
fn send(
    connections: &Rc<Connections>,
    connection: &mut IdleConnection,
    http: Http1,
    mut output: Output,
    left: Range<usize>,
) -> Visit {
    let mut way = LogGuard::new(&connections.services, &mut output);
    let sent = loop {
        match way.send(&Bare(connection.fd.as_fd()), connections.services.clock.now()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => break sent,
        }
    };
    way.arrive();
    let why = match sent {
        Ok(Sent::All) => None,
        Ok(Sent::Slice | Sent::Piece | Sent::Cold) => {
            return Visit::leave(http, Start::Next(Next::Send(output)), input(connections, left));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Visit::leave(http, Start::Next(Next::Send(output)), input(connections, left));
        }
        Err(error) => Some(output::why(&error)),
    };
    let (persistence, length) = (output.persistence, output.sent());
    connections.finish(output, why);
    match persistence {
        _ if why.is_some() => Visit::Close,
        Persistence::Close
            if length > KEPT && sys::unsent(connection.fd.as_fd()).is_ok_and(|unsent| unsent > KEPT) =>
        {
            connection.drain(connections.services.clock.ticks());
            Visit::Stay
        }
        Persistence::Close => Visit::Close,
        Persistence::LingeringClose => Visit::leave(http, Start::Linger, Vec::new()),
        Persistence::KeepAlive | Persistence::KeepAliveHttp10 if !left.is_empty() => {
            Visit::leave(http, Start::Input, input(connections, left))
        }
        Persistence::KeepAlive | Persistence::KeepAliveHttp10 => {
            connection.requests = http.requests;
            connection.since = connections.services.clock.ticks();
            connection.unsent = None;
            Visit::Stay
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use site::model::Site;

    use super::*;
    use crate::exchange::Responder;
    use crate::peer::Peer;
    use crate::services::Services;

    /// A connection in the idle set, seen from its client's side.
    fn connection(connections: &Connections) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let client_of = Client::known(Peer::Unix);
        connections.idle.admit(server.into(), Family::Unix, client_of, 0, 0).unwrap();
        client
    }

    #[test]
    fn a_panic_ends_one_connection() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let site = Site::folder(std::env::temp_dir(), Vec::new());
            let (services, _closing) = Services::new(site);
            let responder = Responder::of_files(services, Default::default());
            let connections = Rc::new(Connections::new(responder).unwrap());
            let (mut one, mut other) = (connection(&connections), connection(&connections));
            // While it holds what visits hold.
            guard(&connections, 0, || {
                let _slots = connections.idle.entries.borrow_mut();
                let _desk = connections.services.scratch.borrow_mut();
                panic!("on purpose");
            });
            assert_eq!(one.read(&mut [0; 1]).unwrap(), 0, "closed");
            assert_eq!(connections.idle.len(), 1);
            other.write_all(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            guard(&connections, 1, || visit(&connections, 1, EventFlags::IN));
            let mut answer = [0; 12];
            other.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 204");
        });
    }
}
