//! The set itself: its epoll instance, and the table of its connections.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{IdleConnection, State};
use crate::clock::Ticks;
use crate::connection::client::Client;
use crate::connection::stream::Socket;
use crate::connection::tls::Failure;
use crate::connection::{Connections, EVICT_AFTER, PARK_AFTER};
use crate::peer::Peer;
use crate::stats::Count;
use crate::sys::{self, calls};

/// Connections that are visited in one turn of the loop, before tasks have theirs.
const EVENTS_PER_TURN: usize = 256;

/// How long a connection must be unused for another generation to have no use of it, if it cannot be handed off: a
/// client that has just received a response is likely to send the next request.
const UNUSED_AFTER: Ticks = 8;

/// A full table of `FEW` entries or more grows by `MANY` at once. An allocation of this size has its own mapping, uses
/// only the pages that are written, and leaves no hole in the heap when it grows.
const FEW: usize = 512;
const MANY: usize = 16 * 1024;

pub struct IdleSet {
    epoll: AsyncFd<OwnedFd>,
    pub(super) entries: RefCell<Slab<IdleConnection>>,
    pub(super) events: RefCell<Vec<Event>>,
}

impl IdleSet {
    /// To be called within the worker's runtime.
    pub fn open() -> io::Result<IdleSet> {
        let epoll = sys::watch(epoll::create(CreateFlags::CLOEXEC)?, Interest::READABLE)?;
        Ok(IdleSet { epoll, entries: RefCell::default(), events: RefCell::default() })
    }

    /// Adds a connection, until its next request comes or its deadline passes.
    pub fn insert(&self, connection: IdleConnection) -> io::Result<()> {
        let mut entries = self.entries.borrow_mut();
        if entries.len() == entries.capacity() && entries.len() >= FEW {
            entries.reserve(MANY);
        }
        let entry = entries.vacant_entry();
        let data = EventData::new_u64(entry.key() as u64);
        // Edge-triggered: a visit reads all there is, and what comes later is a new edge. What has already come is
        // reported at once.
        let events = EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | EventFlags::ET;
        calls::epoll_add(self.epoll.get_ref(), &connection.socket, data, events)?;
        entry.insert(connection);
        Ok(())
    }

    /// Adds a connection after its last response, until the client closes it or receives too slowly.
    pub fn drain(&self, socket: Socket, client: Client, now: Ticks) -> io::Result<()> {
        let mut connection = IdleConnection::new(socket, client, 0, now);
        connection.drain(now);
        self.insert(connection)
    }

    /// Closes the connections whose deadline has passed.
    pub fn sweep(&self, connections: &Connections, now: Ticks) {
        let (deadlines, counts) = (&connections.deadlines, &connections.services.counts);
        let mut entries = self.entries.borrow_mut();
        entries.retain(|_, connection| {
            let (deadline, count) = connection.deadline(deadlines);
            let stays =
                now.wrapping_sub(connection.since) < deadline.ticks || connection.is_taking(deadline, now);
            // Once, when nothing has come for a while.
            if let Some(http2) = &mut connection.http2
                && now.wrapping_sub(connection.since) == PARK_AFTER
            {
                http2.trim();
            }
            if !stays {
                counts.add(count, 1);
                if count == Count::TimeoutHandshake && !connection.socket.can_be_handed_off() {
                    connections.failures.log_session(connection.client.peer(), &Failure::TimedOut);
                }
                // The kernel is not to hold what the client did not take in time.
                if connection.unsent.is_some() {
                    connection.socket.reset_when_closed();
                }
                connection.send_close_notice();
            }
            stays
        });
        if entries.is_empty() && entries.capacity() > 0 {
            *entries = Slab::new();
        }
    }

    /// Closes the connection that has been idle longest. `false`: none has been idle for long. A client that has just
    /// sent a request is likely to send the next one, and must not find its connection closed.
    pub fn evict(&self, now: Ticks) -> bool {
        self.evict_oldest(now, |connection| now.wrapping_sub(connection.since) >= EVICT_AFTER)
    }

    /// Closes the connection that has been idle longest of those that have had a response: their clients have to expect
    /// it. `false`: there is none.
    pub fn evict_used(&self, now: Ticks) -> bool {
        self.evict_oldest(now, |connection| connection.requests > 0)
    }

    fn evict_oldest(&self, now: Ticks, may_close: impl Fn(&IdleConnection) -> bool) -> bool {
        let mut entries = self.entries.borrow_mut();
        let oldest = entries
            .iter()
            .filter(|(_, connection)| may_close(connection))
            .max_by_key(|(_, connection)| now.wrapping_sub(connection.since));
        oldest.map(|(key, _)| key).is_some_and(|key| {
            entries.remove(key).send_close_notice();
            true
        })
    }

    /// Takes out all connections that may have another request. The others are closed.
    pub fn take_all(&self) -> Vec<IdleConnection> {
        let entries = std::mem::take(&mut *self.entries.borrow_mut());
        let all = entries.into_iter().map(|(_, connection)| connection);
        let open: Vec<IdleConnection> = all.filter(|connection| connection.state == State::Open).collect();
        open.iter().for_each(|connection| self.unregister(&connection.socket));
        open
    }

    /// Closes connections that have not been used for a moment. One that awaits its first request, or the rest of a
    /// record, is in use until its deadline: its client may be slow.
    pub fn close_unused(&self, now: Ticks) {
        self.entries.borrow_mut().retain(|_, connection| {
            let is_used = connection.requests == 0
                || connection.socket.is_within_record()
                || now.wrapping_sub(connection.since) < UNUSED_AFTER;
            if !is_used {
                connection.socket.close_session();
            }
            is_used
        });
    }

    /// Closes the connections that are selected by their sockets and peers. Returns how many there were.
    pub fn disconnect(&self, is_selected: impl Fn(BorrowedFd<'_>, Peer) -> bool) -> u64 {
        let mut ended = 0;
        self.entries.borrow_mut().retain(|_, connection| {
            let stays = !is_selected(connection.socket.as_fd(), connection.client.peer());
            if !stays {
                connection.disconnect();
                ended += 1;
            }
            stays
        });
        ended
    }

    pub(super) fn unregister(&self, socket: &Socket) {
        // Fails only for a descriptor that is not registered.
        _ = epoll::delete(self.epoll.get_ref(), socket);
    }

    pub fn close_all(&self) {
        for (_, connection) in std::mem::take(&mut *self.entries.borrow_mut()) {
            connection.socket.close_session();
        }
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Waits for events of connections, and notes them.
    pub(super) async fn poll_events(&self) -> io::Result<()> {
        let mut ready = sys::readable(&self.epoll).await?;
        let mut events = self.events.borrow_mut();
        events.clear();
        events.reserve(EVENTS_PER_TURN);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match calls::epoll_wait(self.epoll.get_ref(), &mut events, &at_once) {
            // As many as fit: there may be more.
            Ok(n) if n == EVENTS_PER_TURN => {}
            Ok(_) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}
