//! The acceptor of a worker: accepting connections, finding room for them, and telling those for whom there
//! is none.
//!
//! When all connections are in use, the one that has been idle longest makes room, or one that has been sent its last
//! response, or the one whose client is the slowest below the least rate. When there is none of these, every response
//! becomes its connection's last, and new clients wait in the kernel for a while; then they get 503. When more clients
//! connect than can be rejected at one time, the first of those closes at once for the next.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use site::model::Site;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connection::Connections;
use crate::connection::client::Client;
use crate::connection::{ConnectionState, Leaving};
use crate::listen::Listener;
use crate::log;
use crate::peer::Family;
use crate::semaphore::{Permit, Semaphore};
use crate::stats::Count;

/// How long a listener rests when there is no descriptor or no memory for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How long the last client waits at most that has come when there had been no room for long.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// How often it is looked whether a connection has been idle long enough to make room.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Connections that had come before a door was closed; the kernel keeps no more.
const LAST_ACCEPTS: usize = 4096;

pub struct Acceptor {
    /// Does somebody wait for room, or has had to since there last was some?
    at_capacity: Cell<bool>,
    room_timeout: Duration,
    refusals: Semaphore,
    refused: Leaving,
    /// Those that have been sent their last answer, and whose clients have not closed yet.
    pub lingering: Leaving,
    /// Acceptor that are still accepted at.
    open: Cell<usize>,
    closing: Cell<bool>,
    close: Notify,
    /// The second in which it was last said that there are no descriptors.
    complained: Cell<i64>,
}

/// The clients of one listener that wait in the kernel.
struct Queue<'a> {
    listener: &'a Listener,
    /// Since when there has been no room for one of them.
    full_since: Option<Instant>,
}

impl Queue<'_> {
    /// There is room. If more of them wait, that is not for all.
    fn has_room(&mut self) {
        if self.full_since.is_some() && !self.listener.has_waiting() {
            self.full_since = None;
        }
    }

    /// How long one that `came` may still wait. When the first has waited for `room`, those behind it have waited as
    /// well, and only the last may wait a little longer.
    fn patience(&mut self, came: Instant, room: Duration) -> Duration {
        let now = Instant::now();
        let first = (*self.full_since.get_or_insert(now) + room).saturating_duration_since(now);
        if first.is_zero() && !self.listener.has_waiting() {
            (came + room.min(LAST_WAIT)).saturating_duration_since(now)
        } else {
            first
        }
    }
}

/// There is no room, and has not been for too long.
struct Full;

impl Acceptor {
    pub fn new(site: &Site) -> Acceptor {
        Acceptor {
            at_capacity: Cell::new(false),
            room_timeout: site.timeouts.accept,
            refusals: Semaphore::new(site.limits.rejections),
            refused: Leaving::default(),
            lingering: Leaving::default(),
            open: Cell::new(0),
            closing: Cell::new(false),
            close: Notify::new(),
            complained: Cell::new(0),
        }
    }

    #[inline]
    pub fn is_at_capacity(&self) -> bool {
        self.at_capacity.get()
    }

    pub fn close(&self) {
        self.closing.set(true);
        self.close.notify_waiters();
    }

    pub fn is_accepting(&self) -> bool {
        self.open.get() > 0
    }

    /// Connections that are being told that there is no room.
    pub fn refusals(&self) -> usize {
        self.refusals.taken()
    }

    async fn closed(&self) {
        loop {
            let closed = self.close.notified();
            if self.closing.get() {
                return;
            }
            closed.await;
        }
    }

    /// Waits until another connection may come.
    async fn room(&self, connections: &Connections, queue: &mut Queue<'_>) -> Result<(), Full> {
        if !connections.is_full() {
            self.at_capacity.set(false);
            queue.has_room();
            return Ok(());
        }
        let came = Instant::now();
        while connections.is_full() {
            if connections.evict() {
                queue.has_room();
                break;
            }
            let patience = if self.lingering.evict_first() || connections.evict_slowest() {
                LOOK_AGAIN
            } else {
                self.at_capacity.set(true);
                queue.patience(came, self.room_timeout)
            };
            if patience.is_zero() {
                return Err(Full);
            }
            tokio::select! {
                () = connections.a_place() => {}
                () = tokio::time::sleep(patience.min(LOOK_AGAIN)) => {}
                () = self.closed() => break,
            }
        }
        Ok(())
    }

    /// One of the places in which connections are refused. When all are taken, the first of them is made free.
    async fn refusal(&self, connections: &Connections) -> Option<Permit> {
        loop {
            if let Some(place) = self.refusals.take() {
                return Some(place);
            }
            self.refused.evict_first();
            tokio::select! {
                () = connections.a_place() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.closed() => return None,
            }
        }
    }

    /// Notes a connection that is being refused.
    pub fn refuses(&self, state: &Rc<ConnectionState>) {
        self.refused.add(state, self.refusals.limit());
    }

    /// Once a second at most: there may be a thousand clients at the door.
    fn complain(&self, error: &io::Error, now: i64) {
        if self.complained.replace(now) != now {
            log::error(format_args!(
                "cannot accept a connection: {error}; those idle for longest are closed"
            ));
        }
    }
}

/// Accepts until the worker leaves. Ends only then.
pub async fn accept(connections: Rc<Connections>, listener: Listener) -> io::Result<()> {
    let acceptor = &connections.acceptor;
    acceptor.open.set(acceptor.open.get() + 1);
    let mut queue = Queue { listener: &listener, full_since: None };
    loop {
        let accepted = tokio::select! {
            biased;
            () = acceptor.closed() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((fd, peer)) => {
                receive(&connections, fd, listener.family(), Client::enter(peer), &mut queue).await
            }
            Err(error) => fail(&connections, &error).await,
        }
    }
    // Whoever had come before is not turned away, if there is somebody to go to.
    for _ in 0..LAST_ACCEPTS {
        let Ok((fd, peer)) = listener.try_accept() else { break };
        connections.services.counts.add(Count::Accepted, 1);
        connections.rest(fd, listener.family(), Client::known(peer), 0, connections.services.clock.ticks());
    }
    drop(listener);
    acceptor.open.set(acceptor.open.get() - 1);
    connections.left();
    Ok(())
}

/// A new connection goes to the idle set, where its first request is awaited. One may wait here for room, the
/// others wait in the kernel.
async fn receive(
    connections: &Rc<Connections>,
    fd: OwnedFd,
    family: Family,
    client: Option<Client>,
    queue: &mut Queue<'_>,
) {
    connections.services.counts.add(Count::Accepted, 1);
    let Some(client) = client else {
        connections.services.counts.add(Count::PerClient, 1);
        return refuse(connections, fd, family).await;
    };
    match connections.acceptor.room(connections, queue).await {
        Ok(()) => connections.rest(fd, family, client, 0, connections.services.clock.ticks()),
        Err(Full) => {
            connections.services.counts.add(Count::Refused, 1);
            refuse(connections, fd, family).await;
        }
    }
}

/// Answers the one request that the connection may make with 503. It is read first: some clients take an
/// answer that they have not asked for as a fault.
async fn refuse(connections: &Rc<Connections>, fd: OwnedFd, family: Family) {
    let Some(place) = connections.acceptor.refusal(connections).await else { return };
    connections.refuse(fd, family, place);
}

/// The peer's affair (accept(2), RETURN VALUE): the next one may be accepted all the same.
const OF_THE_PEER: [i32; 12] = [
    libc::ECONNABORTED,
    libc::ECONNRESET,
    libc::EINTR,
    libc::EPERM,
    libc::EPROTO,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::ENOPROTOOPT,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::ENONET,
    libc::EOPNOTSUPP,
];

/// The want of descriptors or memory is ours, and whatever else does not pass by itself: the listener rests
/// for a while, unless somebody idle can make room.
async fn fail(connections: &Connections, error: &io::Error) {
    if error.raw_os_error().is_some_and(|e| OF_THE_PEER.contains(&e)) {
        return;
    }
    connections.services.counts.add(Count::AcceptFailed, 1);
    connections.acceptor.complain(error, connections.services.clock.read());
    if connections.evict() {
        return;
    }
    let place = async {
        match connections.acceptor.lingering.evict_first() || connections.evict_slowest() {
            true => connections.a_place().await,
            false => std::future::pending().await,
        }
    };
    _ = tokio::time::timeout(ACCEPT_REST, place).await;
}
