//! The doors of a worker: accepting connections, finding room for them, and telling those for whom there
//! is none.
//!
//! When all connections are taken, the one that has been idle longest makes room. When none has, every
//! answer becomes its connection's last, and new clients wait in the kernel for a while; then they are
//! told to come again.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use site::model::Site;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::conn::client::Client;
use crate::conn::stream::Family;
use crate::conn::task::Start;
use crate::listen::Listener;
use crate::log;
use crate::places::{Place, Places};
use crate::stats::Count;
use crate::worker::Worker;

/// How long a listener rests when there is no descriptor or no memory for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How often it is looked whether a connection has been idle long enough to make room.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Connections that had come before a door was closed; the kernel keeps no more.
const LAST_ACCEPTS: usize = 4096;

pub struct Doors {
    /// Does somebody wait for room, or has had to since there last was some?
    crowded: Cell<bool>,
    full_since: Cell<Option<Instant>>,
    room_timeout: Duration,
    limit: usize,
    refusals: Places,
    /// Doors that are still accepted at.
    open: Cell<usize>,
    closing: Cell<bool>,
    close: Notify,
    /// The second in which it was last said that there are no descriptors.
    complained: Cell<i64>,
}

/// There is no room, and has not been for too long.
struct Full;

impl Doors {
    pub fn new(site: &Site) -> Doors {
        Doors {
            crowded: Cell::new(false),
            full_since: Cell::new(None),
            room_timeout: site.timeouts.room,
            limit: site.limits.connections,
            refusals: Places::new(site.limits.refusals),
            open: Cell::new(0),
            closing: Cell::new(false),
            close: Notify::new(),
            complained: Cell::new(0),
        }
    }

    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.get()
    }

    pub fn close(&self) {
        self.closing.set(true);
        self.close.notify_waiters();
    }

    pub fn are_open(&self) -> bool {
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
    async fn room(&self, worker: &Worker) -> Result<(), Full> {
        if worker.connections() < self.limit {
            self.crowded.set(false);
        }
        while worker.connections() >= self.limit && !worker.evict() {
            self.crowded.set(true);
            let now = Instant::now();
            let since = self.full_since.get().unwrap_or(now);
            self.full_since.set(Some(since));
            let patience = (since + self.room_timeout).saturating_duration_since(now);
            if patience.is_zero() {
                return Err(Full);
            }
            tokio::select! {
                () = worker.a_place() => {}
                () = tokio::time::sleep(patience.min(LOOK_AGAIN)) => {}
                () = self.closed() => break,
            }
        }
        self.full_since.set(None);
        Ok(())
    }

    /// Waits for one of the places in which connections are refused.
    async fn refusal(&self, worker: &Worker) -> Option<Place> {
        loop {
            if let Some(place) = self.refusals.take() {
                return Some(place);
            }
            tokio::select! {
                () = worker.a_place() => {}
                () = self.closed() => return None,
            }
        }
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
pub async fn accept(worker: Rc<Worker>, listener: Listener) -> io::Result<()> {
    let doors = &worker.doors;
    doors.open.set(doors.open.get() + 1);
    loop {
        let accepted = tokio::select! {
            biased;
            () = doors.closed() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((fd, peer)) => receive(&worker, fd, listener.family(), Client::enter(peer)).await,
            Err(error) => fail(&worker, &error).await,
        }
    }
    // Whoever had come before is not turned away, if there is somebody to go to.
    for _ in 0..LAST_ACCEPTS {
        let Ok((fd, peer)) = listener.try_accept() else { break };
        worker.counts.add(Count::Accepted, 1);
        worker.rest(fd, listener.family(), Client::known(peer), 0, worker.clock.ticks());
    }
    drop(listener);
    doors.open.set(doors.open.get() - 1);
    worker.left();
    Ok(())
}

/// A new connection goes to the lot, where its first request is awaited. One may wait here for room, the
/// others wait in the kernel.
async fn receive(worker: &Rc<Worker>, fd: OwnedFd, family: Family, client: Option<Client>) {
    worker.counts.add(Count::Accepted, 1);
    let Some(client) = client else {
        worker.counts.add(Count::PerClient, 1);
        return refuse(worker, fd, family).await;
    };
    match worker.doors.room(worker).await {
        Ok(()) => worker.rest(fd, family, client, 0, worker.clock.ticks()),
        Err(Full) => {
            worker.counts.add(Count::Refused, 1);
            refuse(worker, fd, family).await;
        }
    }
}

/// Answers the one request that the connection may make with 503. It is read first: some clients take an
/// answer that they have not asked for as a fault.
async fn refuse(worker: &Rc<Worker>, fd: OwnedFd, family: Family) {
    let Some(place) = worker.doors.refusal(worker).await else { return };
    worker.refuse(fd, family, Start::Refusal(place));
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
async fn fail(worker: &Worker, error: &io::Error) {
    if error.raw_os_error().is_some_and(|e| OF_THE_PEER.contains(&e)) {
        return;
    }
    worker.counts.add(Count::AcceptFailed, 1);
    worker.doors.complain(error, worker.clock.read());
    if !worker.evict() {
        tokio::time::sleep(ACCEPT_REST).await;
    }
}
