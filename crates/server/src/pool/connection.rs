//! A connection of a pool: its endpoint, how long it has been idle, and what becomes of it after a request.

use std::rc::Rc;
use std::time::{Duration, Instant};

use script::fastcgi::client::Client;

use super::Pool;
use super::message::{EndpointId, EndpointOrigin, Fault, Lease, PoolRequest};
use super::names::EndpointNames;
use super::selection::EndpointEntry;
use super::session::Session;
use super::stream::Stream;
use crate::clock;
use crate::tls::Offer;

/// How long a worker may reuse a connection that other workers wait for, so that not every request needs a connection
/// of its own.
const FAIR_SHARE: Duration = Duration::from_millis(20);

/// How the pool checks that an idle connection is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// By a system call.
    Socket,
    /// By the events that the loop has received since the connection became idle, or, if it has received none, by a
    /// system call. A later event may still report the end of the connection, so this is only for a request that can
    /// be sent again.
    Events,
}

/// Whether a connection was idle or had a request before: then its endpoint may have closed it in the meantime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reuse {
    #[default]
    New,
    Reused,
}

/// A connection to an endpoint. Dropping it closes it, and returns its lease.
pub struct PooledConnection {
    pub stream: Rc<Stream>,
    /// The state of FastCGI, where that is spoken on it.
    pub fastcgi: Option<Box<Client>>,
    pub(super) lease: Lease,
    origin: EndpointOrigin,
    endpoint_names: EndpointNames,
    pub(super) entry: Rc<EndpointEntry>,
    /// Requests that were sent on it.
    pub(super) requests: u64,
    leased: Instant,
    /// `None`: a request uses it.
    pub(super) idle: Option<Idle>,
    /// It has been kept. A connection that came when no request waited any more has been, too.
    pub(super) was_idle: bool,
    pub(super) pool: Rc<Pool>,
}

/// Since when a connection is idle.
#[derive(Clone, Copy)]
pub(super) struct Idle {
    /// By `clock::coarse_micros`.
    since: u64,
    /// By `clock::turns`.
    turn: u64,
}

/// Reports failures of the endpoint of a connection, as long as that is open.
pub struct Reporter {
    pool: Rc<Pool>,
    lease: u64,
}

impl Idle {
    pub(super) fn begin() -> Idle {
        Idle { since: clock::coarse_micros(), turn: clock::turns() }
    }

    pub(super) fn duration(self) -> Duration {
        Duration::from_micros(clock::coarse_micros().saturating_sub(self.since))
    }
}

impl Reporter {
    pub fn report(&self, fault: Fault, reason: &str) {
        self.pool.send(PoolRequest::Failed { lease: self.lease, fault, reason: reason.to_owned() });
    }
}

impl PooledConnection {
    /// Has no request yet, and is not idle.
    pub(super) fn leased(
        pool: &Rc<Pool>,
        stream: Stream,
        lease: Lease,
        origin: EndpointOrigin,
    ) -> Box<PooledConnection> {
        let entry = pool.table.borrow_mut().entry(lease.endpoint, Instant::now());
        entry.in_flight.update(|count| count + 1);
        Box::new(PooledConnection {
            stream: Rc::new(stream),
            fastcgi: None,
            lease,
            origin,
            endpoint_names: pool.names.endpoint(origin),
            entry,
            requests: 0,
            leased: Instant::now(),
            idle: None,
            was_idle: false,
            pool: pool.clone(),
        })
    }

    pub fn endpoint(&self) -> EndpointId {
        self.lease.endpoint
    }

    pub fn endpoint_names(&self) -> &EndpointNames {
        &self.endpoint_names
    }

    pub fn reuse(&self) -> Reuse {
        if self.was_idle || self.requests > 0 { Reuse::Reused } else { Reuse::New }
    }

    /// Whether nothing was sent on it, also if it has been kept: its protocol is still to be chosen.
    pub fn is_unused(&self) -> bool {
        self.requests == 0
    }

    /// The endpoint could not be reached, or has not responded as it should.
    pub fn report_failure(&self, fault: Fault, reason: &str) {
        self.reporter().report(fault, reason);
    }

    pub fn reporter(&self) -> Reporter {
        Reporter { pool: self.pool.clone(), lease: self.lease.number }
    }

    /// Its request has got another protocol. It is one of those that the endpoint has had from now on, because it may
    /// last for days.
    pub fn begin_protocol(&mut self) {
        self.count_request();
    }

    /// It leaves its place to another connection. Its endpoint has it as a part of its load until it is dropped.
    pub fn leave_capacity(&self) {
        self.pool.send(PoolRequest::Upgraded { lease: self.lease.number });
    }

    /// A request uses it.
    pub(super) fn begin(&mut self) {
        self.idle = None;
        self.entry.in_flight.update(|count| count + 1);
    }

    /// No request uses it.
    pub(super) fn end(&mut self) {
        self.idle = Some(Idle::begin());
        self.entry.in_flight.update(|count| count - 1);
    }

    /// Offers no other protocol than HTTP/1.1 in the TLS handshake. To be called before that.
    pub fn offer_http1(&self) {
        if let Some(tls) = &self.pool.tls
            && let Some(session) = Session::new(tls, self.origin.index, Offer::Http1)
        {
            self.stream.replace_session(session);
        }
    }

    /// Ends a request. The connection can have another one.
    pub fn finish(mut self: Box<Self>) {
        self.count_request();
        self.release();
    }

    /// Ends a request, and closes the connection.
    pub fn close(mut self) {
        self.count_request();
    }

    pub(super) fn count_request(&mut self) {
        self.requests += 1;
        self.entry.requests.update(|count| count + 1);
    }

    /// Gives the connection back to the pool. It has had no request since it was taken, or the last one has ended.
    pub fn release(self: Box<Self>) {
        let pool = self.pool.clone();
        let is_awaited = pool.waiting() > 0;
        // If no request waits for a connection, this one is checked when it is used again.
        if self.is_spent() || is_awaited && !self.is_open(Check::Socket) {
            return;
        }
        let is_ours = is_awaited && self.leased.elapsed() < FAIR_SHARE;
        if !is_ours && pool.is_recalled(self.endpoint()) {
            pool.recalled.take();
            return;
        }
        let grant = match is_awaited {
            true => pool.acquisitions.borrow_mut().take_first(self.endpoint()),
            false => None,
        };
        pool.give(self, grant);
    }

    /// The endpoint takes no further request, or none on this connection.
    pub(super) fn is_spent(&self) -> bool {
        self.requests >= self.lease.requests
            || !self.pool.table.borrow().has_requests(&self.entry)
            || self.pool.retired.borrow().contains(&self.lease.endpoint)
    }

    /// Other workers wait for a connection, and this worker has had this one for its time.
    pub(super) fn is_recalled(&self) -> bool {
        self.pool.is_recalled(self.endpoint()) && self.leased.elapsed() >= FAIR_SHARE
    }

    /// Whether the loop has received events since this connection became idle.
    pub(super) fn is_settled(&self) -> bool {
        self.idle.is_some_and(|idle| idle.turn != clock::turns())
    }

    /// `false`: the endpoint has closed it, or has sent what no request is waiting for.
    pub(super) fn is_open(&self, check: Check) -> bool {
        // A late record of FastCGI names its request, and harms no other. A late byte of HTTP would be read as the next
        // response.
        if self.fastcgi.is_some() || check == Check::Events && self.is_settled() {
            self.stream.seems_quiet()
        } else {
            self.stream.is_quiet()
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if self.idle.is_none() {
            self.entry.in_flight.update(|count| count - 1);
        }
        let idle = self.idle.map_or(Duration::ZERO, Idle::duration);
        self.pool.return_lease(self.lease, self.requests, idle);
    }
}
