//! The pool of an application: a process that has the endpoints of the application, and gives workers connections to
//! them. An endpoint is a process that the pool has started, or an address. A worker can neither connect nor execute,
//! and only a process that all workers ask knows which endpoint has the fewest requests.
//!
//! `process` is this process, with the modules in its folder. The other modules are the worker's end, of which this file
//! keeps idle connections, and connections that several requests share; the process uses some of them, too, such as
//! `message` and `selection`. Knows nothing of what is in a response.

pub mod message;

pub mod process;

pub mod multiplexed;

pub mod selection;

pub mod breaker;

pub mod http2;

pub mod hedging;

mod acquisitions;
mod checkout;
mod connection;
mod endpoint_table;
mod names;
#[cfg(feature = "tls")]
mod session;
#[cfg(not(feature = "tls"))]
#[path = "session_absent.rs"]
mod session;
mod stream;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use site::upstream::Upstream;
use tokio::sync::{Notify, oneshot};

use crate::clock;
use crate::log::LineLimit;
use crate::process::ipc::{self, AsyncChannel, Channel, Received};
use crate::stats::{BreakerSnapshot, EndpointSnapshot};
use crate::tls::{ClientTls, Offer};
use acquisitions::Acquisitions;
use breaker::CircuitBreaker;
pub use checkout::{Checkout, Sharing};
pub use connection::{Check, PooledConnection, Reporter, Reuse};
use endpoint_table::EndpointTable;
use http2::Http2Connection;
pub use message::PoolError;
use message::{Availability, EndpointId, EndpointOrigin, Lease, PoolEvent, PoolRequest};
use multiplexed::SharedConnection;
use names::Names;
use selection::{Choice, EndpointEntry};
pub use session::Session;
pub use stream::Stream;

/// Retired endpoints that are remembered. Older ones have ended.
const MAX_RETIRED: usize = 256;
/// How long a surplus acquisition is left with the pool: under load, a request needs it soon.
const SURPLUS_DELAY: Duration = Duration::from_millis(2);
/// How often idle connections are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// The worker's end of a pool.
pub struct Pool {
    channel: AsyncChannel<PoolRequest>,
    /// How long a request waits for a connection.
    wait: Duration,
    /// How long a connection may be idle.
    keep: Duration,
    acquisitions: RefCell<Acquisitions<Grant>>,
    /// In the order in which they became idle.
    #[expect(clippy::vec_box, reason = "each request moves a connection into it, and out of its middle")]
    idle: RefCell<Vec<Box<PooledConnection>>>,
    /// Whether `run` waits for `SURPLUS_DELAY` to be over.
    delays_cancel: Cell<bool>,
    /// The most requests at a time on one connection. 1 as soon as the application has rejected a second one.
    multiplex: Cell<u16>,
    shared: RefCell<Vec<Rc<SharedConnection>>>,
    http2: RefCell<Vec<Rc<Http2Connection>>>,
    /// A recall while no connection was idle.
    recalled: Cell<Recalled>,
    upstream: Rc<Upstream>,
    /// Counts the requests of this worker. `None`: none is configured.
    breaker: Option<RefCell<CircuitBreaker>>,
    table: RefCell<EndpointTable>,
    /// The table is complete.
    listed: Notify,
    /// The random number of the last choice.
    random: Cell<u64>,
    /// Requests that two endpoints have.
    hedges: Cell<usize>,
    /// Endpoints that take no further request.
    retired: RefCell<Vec<EndpointId>>,
    /// `None`: connections are not encrypted, or are not to be made.
    tls: Option<ClientTls>,
    offer: Offer,
    /// Wakes `run`, which then determines anew what it waits for.
    changed: Notify,
    /// `run` looks at idle connections after a time.
    sweeps: Cell<bool>,
    phase: Cell<Phase>,
    names: Names,
    /// Limits the lines about requests that find no descriptor or a full queue, or that have waited in vain.
    pub overflows: LineLimit,
    /// Limits the lines about requests for which there is no endpoint.
    pub outages: LineLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The process has ended: there are no new connections.
    Lost,
    /// The pool keeps no connection any more.
    Ended,
}

/// A connection that another worker waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Recalled {
    #[default]
    None,
    Any,
    Of(EndpointId),
}

type Grant = oneshot::Sender<Result<Checkout, PoolError>>;

impl Pool {
    /// Needs the worker's runtime, which also has to `run` it.
    pub fn new(channel: Channel, upstream: &Upstream, tls: Option<ClientTls>) -> io::Result<Rc<Pool>> {
        Ok(Rc::new(Pool {
            channel: AsyncChannel::new(channel)?,
            wait: upstream.wait,
            // An idle connection does not keep a process from being unused.
            keep: upstream.managed().map_or(upstream.keep, |managed| managed.unused.min(upstream.keep)),
            acquisitions: RefCell::new(Acquisitions::new()),
            idle: RefCell::default(),
            delays_cancel: Cell::new(false),
            multiplex: Cell::new(upstream.multiplex),
            shared: RefCell::default(),
            http2: RefCell::default(),
            recalled: Cell::default(),
            upstream: Rc::new(upstream.clone()),
            breaker: upstream.breaker.clone().map(CircuitBreaker::new).map(RefCell::new),
            table: RefCell::default(),
            listed: Notify::new(),
            random: Cell::new(clock::micros()),
            hedges: Cell::new(0),
            retired: RefCell::default(),
            tls: tls.map(|tls| tls.of_worker()),
            offer: if upstream.http2 { Offer::Http2 } else { Offer::Http1 },
            changed: Notify::new(),
            sweeps: Cell::new(false),
            phase: Cell::new(Phase::Serving),
            names: Names::of(upstream),
            overflows: LineLimit::default(),
            outages: LineLimit::default(),
        }))
    }

    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The name in the access log, while no endpoint is known.
    pub fn name(&self) -> &Rc<str> {
        &self.names.application
    }

    /// The endpoints, for the statistics.
    pub fn snapshot(&self) -> Vec<EndpointSnapshot> {
        let snapshot = |entry: &Rc<EndpointEntry>| EndpointSnapshot {
            application: self.upstream.name.clone(),
            name: entry.name.to_string(),
            state: match entry.state.get() {
                Availability::Up => "up",
                Availability::Down => "down",
                Availability::Draining => "draining",
            },
            age: entry.since.get().elapsed(),
            in_flight: entry.in_flight.get() as u64,
            requests: entry.requests.get(),
            failures: entry.failures.get(),
            reason: entry.reason.borrow().to_string(),
        };
        self.table.borrow().entries().iter().map(snapshot).collect()
    }

    pub fn breaker(&self) -> Option<&RefCell<CircuitBreaker>> {
        self.breaker.as_ref()
    }

    /// Whether the server is ready only with an endpoint of it.
    pub fn is_required(&self) -> bool {
        self.upstream.required
    }

    /// Whether no endpoint gets requests. One whose processes are started when they are needed is not down.
    pub fn is_down(&self) -> bool {
        let table = self.table.borrow();
        if table.entries().is_empty() {
            let has_minimum = self.upstream.managed().is_some_and(|managed| managed.min_processes > 0);
            return table.is_complete() && has_minimum;
        }
        table.entries().iter().all(|entry| entry.state.get() != Availability::Up)
    }

    /// The name of the application.
    pub fn application(&self) -> &str {
        &self.upstream.name
    }

    /// As of the upstream.
    pub fn is_of_route(&self) -> bool {
        self.upstream.is_of_route()
    }

    /// The circuit breaker, for the statistics. `None`: there is none.
    pub fn breaker_snapshot(&self) -> Option<BreakerSnapshot> {
        let state = self.breaker.as_ref()?.borrow().state(Instant::now());
        Some(BreakerSnapshot { application: self.upstream.name.clone(), state })
    }

    /// The value of the sticky cookie that leads to an endpoint.
    pub fn token(&self, endpoint: EndpointId) -> Option<String> {
        let table = self.table.borrow();
        table.entries().iter().find(|entry| entry.id == endpoint).map(|entry| entry.token())
    }

    /// Whether all endpoints are out of service, of several.
    pub fn are_all_out(&self) -> bool {
        self.table.borrow().are_all_out()
    }

    /// Whether another endpoint than this one gets requests, of those that were not tried.
    pub fn has_other(&self, endpoint: EndpointId, tried: &[EndpointId]) -> bool {
        let table = self.table.borrow();
        let is_other = |id| id != endpoint && !tried.contains(&id);
        table.entries().iter().any(|entry| table.has_requests(entry) && is_other(entry.id))
    }

    /// Requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.acquisitions.borrow().len()
    }

    /// Receives what the pool sends. Does not end, even if the pool does: then the master replaces this process.
    pub async fn run(self: Rc<Pool>) -> io::Result<()> {
        let _end = EndGuard(self.clone());
        loop {
            self.give_http2_streams();
            self.sweeps.set(!self.idle.borrow().is_empty() || !self.http2.borrow().is_empty());
            self.delays_cancel.set(self.acquisitions.borrow().surplus() > 0);
            tokio::select! {
                event = self.channel.receive::<PoolEvent>(), if !self.is_lost() => match event {
                    Ok(Received::Message(event)) => self.on_event(event),
                    Err(error) if ipc::lacks_descriptors(&error) => {}
                    Ok(Received::End) | Err(_) => self.on_lost(),
                },
                () = self.changed.notified() => {}
                () = tokio::time::sleep(SURPLUS_DELAY), if self.delays_cancel.get() => {
                    let cancelled = self.acquisitions.borrow_mut().cancel_surplus();
                    cancelled.into_iter().for_each(|request| self.send(request));
                }
                () = tokio::time::sleep(self.keep.clamp(MIN_SWEEP_INTERVAL, SWEEP_INTERVAL)), if self.sweeps.get() => {
                    self.sweep();
                }
            }
        }
    }

    /// The process that manages the application has ended. Connections to addresses serve on until the master has
    /// replaced this generation. The processes of a managed application end with theirs.
    fn on_lost(&self) {
        self.phase.set(Phase::Lost);
        self.acquisitions.borrow_mut().clear();
        if self.upstream.managed().is_some() {
            self.end();
        }
    }

    /// Ends all that keeps this value alive.
    fn end(&self) {
        self.phase.set(Phase::Ended);
        let idle = self.idle.take();
        drop(idle);
        // Each ends with the requests on it.
        self.shared.take();
        let http2 = self.http2.take();
        http2.iter().for_each(|connection| connection.retire());
        self.acquisitions.borrow_mut().clear();
    }

    fn on_event(self: &Rc<Pool>, event: PoolEvent) {
        match event {
            PoolEvent::Leased { number, lease, origin, stream } => {
                let grant = self.acquisitions.borrow_mut().on_leased(number, lease.endpoint);
                let Some(stream) = stream.and_then(|stream| self.open(stream, origin)) else {
                    // Fails only if the request waits no more.
                    _ = grant.map(|grant| grant.send(Err(PoolError::NoDescriptor)));
                    return self.return_lease(lease, 0, Duration::ZERO);
                };
                self.give(PooledConnection::leased(self, stream, lease, origin), grant);
            }
            PoolEvent::Rejected { number, why } => {
                let (grant, request) = self.acquisitions.borrow_mut().on_rejected(number);
                request.into_iter().for_each(|request| self.send(request));
                // Fails only if the request waits no more.
                if let Some(grant) = grant {
                    _ = grant.send(Err(why));
                }
            }
            PoolEvent::Recall { endpoint } => {
                let choice = endpoint.map_or(Choice::Any, Choice::Only);
                match self.take_idle(choice, &[]) {
                    Some(connection) => drop(connection),
                    None if self.retire_idle_http2(choice) => {}
                    None => {
                        if self.recalled.get() == Recalled::None {
                            self.retire_one_of_several_http2(choice);
                        }
                        self.recalled.set(endpoint.map_or(Recalled::Any, Recalled::Of));
                        self.send(PoolRequest::NothingIdle);
                    }
                }
            }
            PoolEvent::Endpoints { count } => {
                self.table.borrow_mut().on_list(count);
                self.on_list();
            }
            PoolEvent::Endpoint(notice) => {
                self.table.borrow_mut().on_notice(&notice, Instant::now());
                let without = self.table.borrow().without_requests();
                without.into_iter().for_each(|endpoint| self.close_idle(endpoint));
                self.on_list();
            }
            PoolEvent::Retire { endpoint } => {
                self.close_idle(endpoint);
                let mut retired = self.retired.borrow_mut();
                retired.push(endpoint);
                if retired.len() > MAX_RETIRED {
                    retired.remove(0);
                }
                drop(retired);
                self.retire_http2(Http2Connection::is_spent);
            }
        }
    }

    /// `None`: it cannot be watched.
    fn open(&self, socket: OwnedFd, origin: EndpointOrigin) -> Option<Stream> {
        let session = match &self.tls {
            Some(tls) => Some(Session::new(tls, origin.index, self.offer)?),
            None => None,
        };
        Stream::open(socket, session).ok()
    }

    fn on_list(&self) {
        if self.table.borrow().is_complete() {
            self.listed.notify_waiters();
        }
    }

    /// Closes idle connections to an endpoint that is not to have requests.
    fn close_idle(&self, endpoint: EndpointId) {
        let idle: Vec<_> =
            self.idle.borrow_mut().extract_if(.., |idle| idle.lease.endpoint == endpoint).collect();
        drop(idle);
    }

    /// Gives a free connection to a request that waits, or keeps it.
    fn give(&self, connection: Box<PooledConnection>, grant: Option<Grant>) {
        self.on_fewer_waiting();
        let Some(grant) = grant else {
            // The requests that wait may have tried this endpoint. If there is no other, the pool gives them this one.
            let is_avoided =
                self.waiting() > 0 && self.acquisitions.borrow().is_avoided(connection.endpoint());
            return if is_avoided { drop(connection) } else { self.keep(connection) };
        };
        if let Err(Ok(Checkout::Exclusive(connection))) = grant.send(Ok(Checkout::Exclusive(connection))) {
            self.keep(connection);
        }
    }

    fn on_fewer_waiting(&self) {
        if !self.delays_cancel.get() && self.acquisitions.borrow().surplus() > 0 {
            self.changed.notify_one();
        }
    }

    fn keep(&self, mut connection: Box<PooledConnection>) {
        if !self.keep.is_zero() && self.phase.get() != Phase::Ended {
            connection.end();
            connection.was_idle = true;
            self.idle.borrow_mut().push(connection);
            if !self.sweeps.get() {
                self.changed.notify_one();
            }
        }
    }

    /// Takes the connection that became idle last before this turn of the loop: its events have come. If there is none,
    /// takes the one that became idle last. A lost pool keeps those to endpoints that the request has tried.
    fn take_idle(&self, choice: Choice, tried: &[EndpointId]) -> Option<Box<PooledConnection>> {
        let mut idle = self.idle.borrow_mut();
        let is_chosen = |connection: &PooledConnection| {
            let endpoint = connection.endpoint();
            // `take_ready` would close it, and a lost pool gets no other.
            choice.is(endpoint) && !(self.is_lost() && tried.contains(&endpoint))
        };
        let settled = idle.partition_point(|connection| connection.is_settled());
        let last_of =
            |idle: &[Box<PooledConnection>]| idle.iter().rposition(|connection| is_chosen(connection));
        let at = last_of(&idle[..settled]).or_else(|| last_of(&idle))?;
        Some(idle.remove(at))
    }

    /// Closes connections that were idle for long, or that the endpoint has closed.
    fn sweep(&self) {
        let is_over = |connection: &mut Box<PooledConnection>| {
            connection.idle.is_some_and(|idle| idle.duration() >= self.keep)
                || !connection.is_open(Check::Socket)
        };
        let over: Vec<_> = self.idle.borrow_mut().extract_if(.., is_over).collect();
        drop(over);
        self.retire_http2(|connection| connection.is_unused(self.keep));
    }

    fn retire_http2(&self, which: impl Fn(&Http2Connection) -> bool) {
        let found: Vec<_> =
            self.http2.borrow().iter().filter(|connection| which(connection)).cloned().collect();
        found.iter().for_each(|connection| connection.retire());
    }

    /// Closes a connection by HTTP/2 that has no requests. `false`: there is none.
    fn retire_idle_http2(&self, choice: Choice) -> bool {
        let is_idle =
            |connection: &&Rc<Http2Connection>| choice.is(connection.endpoint()) && connection.streams() == 0;
        let idle = self.http2.borrow().iter().find(is_idle).cloned();
        idle.iter().for_each(|connection| connection.retire());
        idle.is_some()
    }

    /// Has the connection by HTTP/2 with the fewest requests end with these, if there are others for the next ones.
    fn retire_one_of_several_http2(&self, choice: Choice) {
        let connections: Vec<_> = {
            let http2 = self.http2.borrow();
            http2.iter().filter(|connection| choice.is(connection.endpoint())).cloned().collect()
        };
        if connections.len() > 1 {
            let least = connections.iter().min_by_key(|connection| connection.streams());
            least.into_iter().for_each(|connection| connection.retire());
        }
    }

    fn is_recalled(&self, endpoint: EndpointId) -> bool {
        match self.recalled.get() {
            Recalled::None => false,
            Recalled::Any => true,
            Recalled::Of(recalled) => recalled == endpoint,
        }
    }

    fn return_lease(&self, lease: Lease, requests: u64, idle: Duration) {
        self.send(PoolRequest::Return { lease: lease.number, requests, idle });
    }

    /// Whether there are no new connections.
    fn is_lost(&self) -> bool {
        self.phase.get() != Phase::Serving
    }

    fn send(&self, request: PoolRequest) {
        if !self.is_lost() {
            self.channel.send(request);
        }
    }
}

/// Ends the pool when `run` is dropped: nothing receives what the pool sends then.
struct EndGuard(Rc<Pool>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}
