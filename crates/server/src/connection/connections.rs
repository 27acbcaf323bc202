//! All connections of a worker, and how it goes on with them: those at rest, those with a task, those that are
//! accepted, and those that go to another process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use site::memory;
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;

use super::client::Client;
use super::h1::{Http1, Next};
use super::idle::IdleSet;
use super::output::Output;
use super::stream::{self, Stream};
use super::task::{self, Task};
use super::{ConnectionTable, Deadlines, Phase};
use crate::clock::Ticks;
use crate::connection::acceptor::Acceptor;
use crate::content::fixed;
use crate::exchange::Responder;
use crate::ipc::{Channel, InheritedConnection};
use crate::peer::Family;
use crate::peer::Peer;
use crate::response::Response;
use crate::response_head::DatedHead;
use crate::semaphore::Permit;
use crate::services::Services;
use crate::stats::{Count, Snapshot};
use crate::{log, sys};

/// Why a request ends whose connection cannot have a task, for the log.
const NO_ROOM: &str = "server out of memory";
/// How long connections wait for a successor of one that has ended.
const HEIR_PATIENCE: Duration = Duration::from_secs(5);

pub struct Connections {
    pub services: Rc<Services>,
    pub responder: Responder,
    pub deadlines: Deadlines,
    pub idle: IdleSet,
    pub acceptor: Acceptor,
    pub table: Rc<ConnectionTable>,
    /// The response to a client for which there is no room.
    at_capacity: DatedHead,
    going: Cell<Going>,
    /// Connections on their way to the process that serves from now on.
    handoffs: RefCell<VecDeque<InheritedConnection>>,
    handoff_added: Notify,
    /// The process that they go to, until it has been taken up.
    successor: RefCell<Option<Channel>>,
    new_heir: Notify,
}

/// How a worker goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    On,
    /// Every answer is its connection's last.
    Home,
    /// A connection that has been answered goes to another process.
    Elsewhere,
}

impl Connections {
    /// Within the worker's runtime.
    pub fn new(responder: Responder) -> io::Result<Connections> {
        let services = responder.services.clone();
        let site = &services.site;
        Ok(Connections {
            deadlines: Deadlines::new(&site.timeouts, site.limits.min_rate),
            idle: IdleSet::open()?,
            acceptor: Acceptor::new(site),
            table: ConnectionTable::new(),
            at_capacity: DatedHead::new(fixed::at_capacity(site, &services.clock), &services.clock),
            going: Cell::new(Going::On),
            handoffs: RefCell::default(),
            handoff_added: Notify::new(),
            successor: RefCell::default(),
            new_heir: Notify::new(),
            services,
            responder,
        })
    }

    /// Is every answer its connection's last: because the worker leaves, or because others wait for room?
    #[inline]
    pub fn closes_connections(&self) -> bool {
        self.going.get() == Going::Home || self.acceptor.is_at_capacity()
    }

    /// Does the worker accept no more?
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.going.get() != Going::On
    }

    /// Writes the log lines of an answer that has left, or failed, and takes its buffers back.
    #[inline]
    pub fn finish(&self, output: Output, ended: Option<&str>) {
        self.services.counts.add(Count::Bytes, output.sent());
        self.services.access.write(&output.records, output.sent(), ended);
        self.services.scratch.borrow_mut().take_back(output.into_buffers());
    }

    /// A connection between two requests, which has been silent since then, goes to the idle set, until the next
    /// one; or, when the worker leaves, to the process that serves from now on, if there is one.
    pub fn rest(&self, fd: OwnedFd, family: Family, client: Client, requests: u32, since: Ticks) {
        match self.going.get() {
            Going::On => {
                if let Err(error) = self.idle.insert(fd, family, client, requests, since) {
                    log::error(format_args!("cannot take a connection in: {error}"));
                }
                self.table.wake_clock();
            }
            Going::Home => {}
            Going::Elsewhere => {
                self.handoffs.borrow_mut().push_back(InheritedConnection { fd, requests });
                self.handoff_added.notify_one();
            }
        }
    }

    /// A connection that is over, but for what its client has yet to take.
    pub fn drain(&self, fd: OwnedFd, family: Family, client: Client) {
        // When the worker leaves, or the insertion fails, the kernel is left to send the rest.
        if self.going.get() == Going::On {
            _ = self.idle.drain(fd, family, client, self.services.clock.ticks());
            self.table.wake_clock();
        }
    }

    /// A connection that an earlier process has begun with. Its clients are not turned away.
    pub fn admit(&self, connection: InheritedConnection) {
        let Some((family, peer)) = Peer::of(&connection.fd) else { return };
        self.services.counts.add(Count::Inherited, 1);
        if self.is_full() {
            self.evict();
        }
        self.rest(
            connection.fd,
            family,
            Client::known(peer),
            connection.requests,
            self.services.clock.ticks(),
        );
    }

    /// Gives a connection of the idle set, which has to wait, a task of its own.
    pub fn give_task(
        self: &Rc<Connections>,
        fd: OwnedFd,
        family: Family,
        client: Client,
        mut http: Http1,
        input: Vec<u8>,
        start: task::Start,
    ) {
        if matches!(&start, task::Start::Next(Next::Send(output)) if output.ends_with_connection()) {
            stream::reset_when_closed(&fd);
        }
        match Stream::adopt(fd, family) {
            Ok(stream) => {
                let is_rejected = matches!(&start, task::Start::Refusal(..));
                let phase = if is_rejected { Phase::Refused } else { Phase::Idle };
                let entry = self.table.take(phase, self.services.clock.ticks());
                if is_rejected {
                    self.acceptor.rejects(&entry.state);
                }
                let serving = Task::new(stream, client, self.clone(), entry, http, input).serve(start);
                debug_assert!(size_of_val(&serving) as u64 <= memory::TASK);
                spawn_local(serving);
            }
            Err(error) => {
                log::error(format_args!("cannot go on with a connection: {error}"));
                match start {
                    task::Start::Next(Next::Send(output)) => self.finish(output, Some(NO_ROOM)),
                    task::Start::Input | task::Start::Next(_) => {
                        http.break_off(self, &input, Status::SERVICE_UNAVAILABLE, NO_ROOM)
                    }
                    task::Start::Linger | task::Start::Refusal(..) => {}
                }
            }
        }
    }

    /// Gives a connection for which there is no room a task, too, in which it is told so.
    pub fn reject(self: &Rc<Connections>, fd: OwnedFd, family: Family, place: Permit) {
        let Some((_, peer)) = Peer::of(&fd) else { return };
        let response = Response::from_head(self.at_capacity.get(&self.services.clock));
        let mut http = Http1::new(peer, 0);
        http.began = self.services.access_time();
        let start = task::Start::Refusal(place, response);
        self.give_task(fd, family, Client::known(peer), http, Vec::new(), start);
    }

    /// Closes the connection that has been silent longest. `false`: none has been silent long enough.
    pub fn evict(&self) -> bool {
        let evicted = self.idle.evict(self.services.clock.ticks());
        self.services.counts.add(Count::Evicted, u64::from(evicted));
        evicted
    }

    /// Has the connection with the slowest client leave, which takes it a turn of the loop. `false`: none is slower
    /// than the least rate.
    pub fn evict_slowest(&self) -> bool {
        self.table.evict_slowest(&self.deadlines, self.services.clock.ticks())
    }

    /// Are all connections taken?
    pub fn is_full(&self) -> bool {
        self.connections() >= self.services.site.limits.connections
    }

    /// Those that count against the limit.
    pub fn connections(&self) -> usize {
        self.table.len() + self.idle.len() - self.acceptor.rejections()
    }

    /// A place has become free, if a client waits for one.
    #[inline]
    pub fn on_closed(&self) {
        if self.acceptor.is_at_capacity() {
            self.notify_ended();
        }
    }

    /// Waits until a place may have become free.
    pub async fn ended(&self) {
        self.table.ended().await;
    }

    /// Somebody has left, or a door is closed.
    pub fn notify_ended(&self) {
        self.table.notify_ended();
    }

    /// What is true of them now, and what has been counted.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.services.counts.snapshot();
        snapshot.idle = self.table.idle() as u64;
        snapshot.active = self.table.len() as u64 - snapshot.idle;
        snapshot.parked = self.idle.len() as u64;
        snapshot.scripts_running = self.responder.upstreams.concurrency.running() as u64;
        snapshot.scripts_waiting = self.responder.upstreams.concurrency.waiting() as u64;
        snapshot.delay = self.services.overload.delay();
        snapshot.queues = self.services.disk.queues();
        snapshot
    }

    pub async fn leave(self: Rc<Connections>) {
        self.go(Going::Home);
        self.idle.close_all();
        self.table.send_idle_home();
        self.finish_within(self.services.site.timeouts.shutdown).await;
    }

    pub fn set_successor(&self, successor: Channel) {
        *self.successor.borrow_mut() = Some(successor);
        self.new_heir.notify_one();
    }

    pub async fn hand_over(self: Rc<Connections>, closed: oneshot::Sender<()>) {
        self.go(Going::Elsewhere);
        for (fd, family, client, requests) in self.idle.take_all() {
            self.rest(fd, family, client, requests, self.services.clock.ticks());
        }
        self.table.send_idle_home();
        let acceptor = async {
            while self.acceptor.is_accepting() {
                self.table.ended().await;
            }
            // Whoever has asked may have stopped waiting.
            _ = closed.send(());
        };
        let everybody = async {
            tokio::select! {
                () = self.finish_within(self.services.site.timeouts.reload) => {}
                // Nobody is there to hand anything over to: those who are idle are closed.
                () = self.see_off() => self.clone().leave().await,
            }
        };
        tokio::join!(acceptor, everybody);
    }

    fn go(&self, going: Going) {
        self.going.set(going);
        self.acceptor.close();
    }

    async fn finish_within(&self, time: Duration) {
        let everybody = async {
            while !self.table.is_empty() || !self.handoffs.borrow().is_empty() || self.acceptor.is_accepting()
            {
                self.table.ended().await;
            }
        };
        if tokio::time::timeout(time, everybody).await.is_err() {
            log::warn(format_args!("not finished in time: connections: {}", self.table.len()));
        }
    }

    /// Sends those who rest to the process that serves from now on, or to the one that serves after it.
    /// Ends when there is none.
    async fn see_off(&self) {
        while tokio::time::timeout(HEIR_PATIENCE, self.heir_comes()).await.is_ok() {
            let Some(successor) = self.successor.borrow_mut().take() else { continue };
            tokio::select! {
                // It has ended. If it has been replaced, there is another one soon.
                _ = self.send_handoffs(successor) => {}
                () = self.heir_comes() => {}
            }
        }
    }

    async fn heir_comes(&self) {
        while self.successor.borrow().is_none() {
            self.new_heir.notified().await;
        }
    }

    /// Ends only with an error.
    async fn send_handoffs(&self, successor: Channel) -> io::Result<Infallible> {
        let successor = sys::watch(successor, Interest::WRITABLE)?;
        loop {
            if self.handoffs.borrow().is_empty() {
                self.table.notify_ended();
                self.handoff_added.notified().await;
                continue;
            }
            // It is among the handoffs until it is sent, so that the worker does not end before.
            let send = |successor: &Channel| {
                self.handoffs.borrow().front().map_or(Ok(()), |connection| successor.send(connection))
            };
            successor.async_io(Interest::WRITABLE, send).await?;
            self.handoffs.borrow_mut().pop_front();
            self.services.counts.add(Count::HandedOver, 1);
        }
    }
}
