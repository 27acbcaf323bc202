//! All connections of a worker: the idle ones, those with a task, and those that are handed off to another process.

mod failures;
mod handoffs;
mod leaving;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};
use site::disconnect::Selection;
use site::listener::Protocols;
use site::memory;
use taipan_http::status::Status;
use tokio::task::spawn_local;

use self::failures::FailureLog;
use self::handoffs::Handoffs;
use super::acceptor::Acceptor;
use super::client::Client;
use super::h1::{Http1, Next};
use super::h2;
use super::h2::task::Http2Task;
use super::idle::{IdleConnection, IdleSet};
use super::output::Output;
use super::stream::{Socket, Stream};
use super::table::{ConnectionIdentity, ConnectionTable, is_of};
use super::task::{Begin, Start, Task};
use super::{Deadlines, Phase, tls};
use crate::clock;
use crate::content::fixed;
use crate::destination::{Destination, TooMany};
use crate::exchange::Responder;
use crate::log::EndReason;
use crate::peer::{Family, Peer, connection_id};
use crate::process::ipc::InheritedConnection;
use crate::response::Response;
use crate::response_head::DatedHead;
use crate::semaphore::{Permit, Semaphore};
use crate::services::{Mode, Services};
use crate::stats::{Count, Snapshot};
use crate::{log, sys};

/// Bytes that may wait unsent in the kernel for an HTTP/2 client, unless the configuration has a limit: no response
/// that is more urgent overtakes what is there already.
const HTTP2_UNSENT: u32 = 128 * 1024;

pub struct Connections {
    pub services: Rc<Services>,
    pub responder: Rc<Responder>,
    pub deadlines: Deadlines,
    pub idle: IdleSet,
    pub acceptor: Acceptor,
    pub table: Rc<ConnectionTable>,
    /// `None`: no listener is for TLS.
    tls: Option<tls::Acceptor>,
    pub failures: FailureLog,
    /// The deadlines of HTTP/2 streams that have a task.
    pub stream_table: Rc<ConnectionTable>,
    /// Permits of HTTP/2 streams that wait.
    pub streams: Semaphore,
    /// Permits of HTTP/2 connections whose window is larger than by default.
    pub large_windows: Semaphore,
    /// The response to a client when the worker is at capacity.
    at_capacity: DatedHead,
    pub handoffs: Handoffs,
}

/// What an administrator has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disconnected {
    pub connections: u64,
    /// Streams of connections that go on.
    pub streams: u64,
}

impl Connections {
    /// To be called within the worker's runtime.
    pub fn new(responder: Responder) -> io::Result<Connections> {
        let services = responder.services.clone();
        let site = &services.site;
        Ok(Connections {
            deadlines: Deadlines::new(site),
            idle: IdleSet::open()?,
            acceptor: Acceptor::new(site),
            failures: FailureLog::new(services.clone()),
            table: ConnectionTable::new(),
            tls: services.tls.clone().map(|tls| tls::Acceptor::new(tls, services.clone())),
            stream_table: ConnectionTable::new(),
            streams: Semaphore::new(site.http2.waiting),
            large_windows: Semaphore::new(site.http2.large_windows),
            at_capacity: DatedHead::new(fixed::at_capacity(site, &services.clock), &services.clock),
            handoffs: Handoffs::default(),
            services,
            responder: Rc::new(responder),
        })
    }

    /// True where every connection closes behind its response: the worker shuts down, or clients wait for capacity.
    #[inline]
    pub fn closes_connections(&self) -> bool {
        self.services.mode.get() == Mode::Closing || self.acceptor.is_at_capacity()
    }

    /// Writes the log lines of responses that were sent, or failed, and takes their buffers back.
    #[inline]
    pub fn finish(&self, output: &mut Output, ended: Option<EndReason>) {
        let Services { counts, access, .. } = &*self.services;
        counts.add(Count::Bytes, output.sent());
        access.write(counts, &output.records, output.sent(), output.first(), ended);
        let (buffers, head) = output.take_buffers();
        let mut scratch = self.services.scratch.borrow_mut();
        scratch.take_back(buffers);
        if let Some(head) = head {
            scratch.take_back_head(head);
        }
    }

    /// Keeps a connection between two requests in the idle set, hands it off, or closes it: the worker's mode
    /// decides.
    pub fn keep(self: &Rc<Connections>, connection: IdleConnection) {
        match (self.services.mode.get(), connection) {
            (Mode::Serving, connection) => self.add_idle(connection),
            // No other process can continue with it: the client is told to open another.
            (_, IdleConnection { socket, client, http2: Some(http2), .. }) => {
                self.give_http2_task(socket, client, h2::task::Begin::idle(*http2));
            }
            (Mode::Closing, connection) => connection.socket.close_session(),
            (Mode::HandingOff, connection) if !connection.socket.can_be_handed_off() => {
                self.add_idle(connection);
            }
            (Mode::HandingOff, IdleConnection { socket, client, requests, .. }) => {
                let protocols = socket.protocols();
                // Only the header has it.
                let destination = client.destination().address().filter(|_| protocols.proxy);
                let client = protocols.proxy.then(|| client.peer());
                let fd = socket.into_fd();
                let connection = InheritedConnection { fd, protocols, client, destination, requests };
                self.handoffs.add(connection);
            }
        }
    }

    /// One that cannot be added closes. This fails only without memory.
    fn add_idle(&self, connection: IdleConnection) {
        if let Err(error) = self.idle.insert(connection) {
            log::error(format_args!("cannot keep a connection: {error}"));
        }
        self.table.wake_clock();
    }

    /// Closes a connection whose last response is sent, but whose client may still be sending.
    pub fn linger(self: &Rc<Connections>, socket: Socket, client: Client) {
        let http = Http1::new(&client, 0, socket.scheme());
        self.give_task(socket, client, Begin::empty(http, Start::Linger));
    }

    /// Where a connection was made to: to the address that a proxy has named, or to that of the socket. Errors: proxies
    /// have named too many different ones.
    pub fn destination(&self, fd: &OwnedFd, named: Option<SocketAddr>) -> Result<Destination, TooMany> {
        let hosts = &self.services.site.hosts;
        if let Some(address) = named {
            return Destination::stored(hosts.group(named), address);
        }
        let is_stored = self.responder.needs.addresses;
        if !hosts.has_addresses() && !is_stored {
            return Ok(Destination::default());
        }
        let local = rustix::net::getsockname(fd).ok().and_then(|any| SocketAddr::try_from(any).ok());
        let group = hosts.group(local);
        let stored = local.filter(|_| is_stored).map(|address| Destination::stored(group, address));
        // Without it, requests are answered outside of the fast path, where the socket is asked.
        Ok(stored.and_then(Result::ok).unwrap_or_else(|| Destination::of_socket(group)))
    }

    /// A connection that was accepted from a listener of these protocols. `None`: it is closed, because TLS cannot
    /// begin.
    pub fn open(&self, fd: OwnedFd, family: Family, protocols: Protocols) -> Option<Socket> {
        let session = match protocols.tls {
            true => Some(Box::new(RefCell::new(self.tls.as_ref()?.accept()))),
            false => None,
        };
        Some(Socket::new(fd, family, protocols, session))
    }

    /// Keeps a connection after its last response, until the client has received all of it.
    pub fn drain(&self, socket: Socket, client: Client) {
        // When the worker shuts down, or the insertion fails, the kernel sends the rest.
        if self.services.mode.get() == Mode::Serving {
            _ = self.idle.drain(socket, client, self.services.clock.ticks());
            self.table.wake_clock();
        }
    }

    /// Takes over an idle connection of the predecessor, also above the limits as long as most descriptors are free: what
    /// it has above them, it opens no files with. When they are scarce, a connection that has had a response is closed
    /// rather than one whose first request may be on its way.
    pub fn inherit(self: &Rc<Connections>, connection: InheritedConnection) {
        if self.is_full() && !self.evict() && is_scarce(connection.fd.as_fd()) {
            self.services.counts.add(Count::Evicted, 1);
            if connection.requests > 0 || !self.idle.evict_used(self.services.clock.ticks()) {
                return;
            }
        }
        let Some((family, peer)) = Peer::of(&connection.fd) else { return };
        let peer = connection.client.unwrap_or(peer);
        let Ok(destination) = self.destination(&connection.fd, connection.destination) else { return };
        let Some(socket) = self.open(connection.fd, family, connection.protocols) else { return };
        self.services.counts.add(Count::Inherited, 1);
        let client = Client::known(peer, destination);
        let now = self.services.clock.ticks();
        self.keep(IdleConnection::new(socket, client, connection.requests, now));
    }

    /// Gives a connection a task of its own, because it has to wait.
    pub fn give_task(self: &Rc<Connections>, socket: Socket, client: Client, begin: Begin) {
        if matches!(&begin.start, Start::Next(_, output) if output.ends_with_connection()) {
            socket.reset_when_closed();
        }
        let identity = ConnectionIdentity { id: connection_id(socket.as_fd()), peer: client.peer().into() };
        let Some(stream) = register(socket) else { return self.end_without_task(begin) };
        let Begin { http, start, input } = begin;
        match &start {
            Start::Next(Next::Receive(sent), _) => sent.connect(identity.id),
            Start::Next(_, output) => self.services.access.connect(&output.records, identity.id),
            _ => {}
        }
        let is_rejected = matches!(&start, Start::Reject(..));
        let phase = if is_rejected { Phase::Rejected } else { Phase::Idle };
        let entry = self.table.insert(identity, phase, self.services.clock.ticks());
        if is_rejected {
            self.acceptor.rejects(&entry.state);
        }
        let serving = Task::new(stream, client, self.clone(), entry, http, input).serve(start);
        debug_assert!(size_of_val(&serving) as u64 <= memory::TASK);
        spawn_local(serving);
    }

    /// Writes the log lines of a connection that closes, because it cannot have a task.
    fn end_without_task(&self, Begin { mut http, start, input }: Begin) {
        let why = EndReason::OutOfMemory;
        match start {
            Start::Next(Next::Send, mut output) => self.finish(&mut output, Some(why)),
            Start::Input | Start::Next(..) => {
                http.log_aborted(&self.services, &input, Status::SERVICE_UNAVAILABLE, why);
            }
            Start::Linger | Start::Reject(..) => {}
        }
    }

    /// Gives a connection that speaks HTTP/2 a task.
    pub fn give_http2_task(self: &Rc<Connections>, socket: Socket, client: Client, begin: h2::task::Begin) {
        if self.services.site.limits.unsent == 0 {
            // Fails for a Unix socket.
            _ = sys::limit_unsent(socket.as_fd(), HTTP2_UNSENT);
        }
        let identity = ConnectionIdentity { id: connection_id(socket.as_fd()), peer: client.peer().into() };
        let Some(stream) = register(socket) else { return self.end_http2_without_task(begin) };
        if let Some(output) = &begin.output {
            self.services.access.connect(&output.records, identity.id);
        }
        let entry = self.table.insert(identity, Phase::Idle, self.services.clock.ticks());
        let task = Http2Task::new(self.clone(), stream, client, entry, begin);
        spawn_local(task.serve());
    }

    /// As `end_without_task`.
    fn end_http2_without_task(&self, begin: h2::task::Begin) {
        let h2::task::Begin { mut http2, output, .. } = begin;
        let why = EndReason::OutOfMemory;
        if let Some(mut output) = output {
            self.finish(&mut output, Some(why));
        }
        http2.on_sent(Some(why));
        http2.end_all(why);
    }

    /// Gives a connection above the worker's capacity a task that rejects its first request.
    pub fn reject(self: &Rc<Connections>, socket: Socket, client: Client, permit: Permit) {
        let response = Response::from_head(self.at_capacity.get(&self.services.clock));
        let mut http = Http1::new(&client, 0, socket.scheme());
        http.began = clock::micros();
        self.give_task(socket, client, Begin::empty(http, Start::Reject(permit, response)));
    }

    /// Closes the connection that has been idle longest. `false`: none has been idle long enough.
    pub fn evict(&self) -> bool {
        let evicted = self.idle.evict(self.services.clock.ticks());
        self.services.counts.add(Count::Evicted, u64::from(evicted));
        evicted
    }

    /// Notifies the connection with the slowest client to close, in the next turn of the loop. `false`: none is slower
    /// than the least rate.
    pub fn evict_slowest(&self) -> bool {
        self.table.evict_slowest(&self.deadlines, self.services.clock.ticks())
    }

    pub fn is_full(&self) -> bool {
        self.connections() >= self.services.site.limits.connections
    }

    /// Connections that count against the limit.
    pub fn connections(&self) -> usize {
        self.table.len() + self.idle.len() - self.acceptor.rejections()
    }

    /// Called when an idle connection has closed.
    #[inline]
    pub fn on_closed(&self) {
        if self.acceptor.is_at_capacity() || self.services.mode.is_leaving() {
            self.notify_ended();
        }
    }

    /// Ends the connections that an administrator selects, whatever they do, and the streams of selected clients on
    /// connections of proxies.
    pub fn disconnect(&self, selection: &Selection) -> Disconnected {
        let is_selected = |fd: BorrowedFd<'_>, peer: Peer| match selection {
            Selection::Connection(id) => connection_id(fd) == Some(*id),
            Selection::Clients(clients) => is_of(peer.into(), clients),
        };
        let handed_off = self.handoffs.disconnect(|connection| {
            let peer = connection.client.or_else(|| Some(Peer::of(&connection.fd)?.1));
            is_selected(connection.fd.as_fd(), peer.unwrap_or(Peer::Unknown))
        });
        let connections = handed_off + self.idle.disconnect(is_selected) + self.table.disconnect(selection);
        let streams = self.stream_table.disconnect_streams(selection);
        self.services.counts.add(Count::Disconnected, connections + streams);
        self.notify_ended();
        Disconnected { connections, streams }
    }

    /// Waits until a connection or a listener ends.
    pub async fn ended(&self) {
        self.table.ended().await;
    }

    pub fn notify_ended(&self) {
        self.table.notify_ended();
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(&self.services.counts);
        snapshot.idle = self.table.idle() as u64;
        snapshot.active = self.table.len() as u64 - snapshot.idle;
        snapshot.parked = self.idle.len() as u64;
        snapshot.scripts_running = self.responder.upstreams.concurrency.running() as u64;
        snapshot.scripts_waiting = self.responder.upstreams.concurrency.waiting() as u64;
        snapshot.upgraded = self.responder.upstreams.upgrades.taken() as u64;
        snapshot.delay = self.services.overload.delay();
        snapshot.queues = self.services.disk.queues();
        snapshot.exemplars = self.services.access.exemplars();
        let pools = self.responder.upstreams.pools.iter();
        snapshot.endpoints = pools.clone().flat_map(|pool| pool.snapshot()).collect();
        snapshot.breakers = pools.filter_map(|pool| pool.breaker_snapshot()).collect();
        snapshot
    }

    /// Requests in progress. A connection by HTTP/2 is in one table and each of its streams in the other, so the larger
    /// count stands for both, and is too small where clients speak HTTP/1 and HTTP/2.
    pub fn requests(&self) -> usize {
        (self.table.len() - self.table.idle()).max(self.stream_table.len())
    }

    /// For the history.
    pub fn count_present(&self) {
        let waiting = self.table.idle() as u64;
        let active = self.table.len() as u64 - waiting;
        self.services.counts.set_present(active, waiting + self.idle.len() as u64);
    }

    /// There is a connection.
    #[inline]
    pub fn on_activity(&self) {
        if let Some(main_thread) = &self.services.main_thread {
            main_thread.on_activity();
        }
    }

    /// Closes connections that cannot be handed off and are not in use.
    pub fn close_unused(&self) {
        if self.services.mode.is_leaving() {
            self.idle.close_unused(self.services.clock.ticks());
            self.notify_ended();
        }
    }
}

/// `None`: the runtime does not take the socket, which is closed.
fn register(socket: Socket) -> Option<Stream> {
    let registered = Stream::register(socket);
    registered.inspect_err(|error| log::error(format_args!("cannot register a connection: {error}"))).ok()
}

/// Whether three quarters of the descriptors are in use: the kernel gives the lowest number that is free.
fn is_scarce(latest: BorrowedFd<'_>) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    latest.as_raw_fd() as u64 >= most / 4 * 3
}
