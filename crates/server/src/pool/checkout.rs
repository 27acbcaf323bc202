//! How a request gets a connection: a stream of one that it shares, one that is idle, or a new one, for which it waits.

use std::rc::Rc;
use std::time::{Duration, Instant};

use site::balance::Balance;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::Pool;
use super::connection::{Check, PooledConnection};
use super::endpoint_table::EndpointTable;
use super::http2::{Http2Connection, Http2Stream};
use super::message::{EndpointId, PoolError, Tried};
use super::multiplexed::{FastCgiStream, SharedConnection};
use super::names::EndpointNames;
use super::selection::{Affinity, Candidates, Choice};
use crate::admission::Ticket;
use crate::services::Services;

/// How long a request waits for the pool to list the endpoints, at the start of a worker.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);
/// Turns of the loop in which a request lets a connection read what its endpoint has sent while it had no request.
const READING_TURNS: usize = 4;

/// Whether a request can be a stream of a connection by HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    Allowed,
    /// Of one that has announced how many requests it takes: it refuses none for their number.
    Announced,
    No,
}

/// What one request gets.
pub enum Checkout {
    /// A connection of its own.
    Exclusive(Box<PooledConnection>),
    /// A stream of a connection that it shares.
    Multiplexed(FastCgiStream),
    /// A stream of a shared connection by HTTP/2.
    Http2(Box<Http2Stream>),
}

/// Removes a request that waits no more.
struct WaitGuard<'a> {
    pool: &'a Pool,
    ticket: Ticket,
}

impl Pool {
    /// For one request: a stream of a shared connection, an idle connection, or a new one. `tried` are endpoints that
    /// have just failed.
    pub async fn check_out(
        self: &Rc<Pool>,
        affinity: Affinity,
        tried: &Tried,
        sharing: Sharing,
    ) -> Result<Checkout, PoolError> {
        if self.tls.is_none() && self.upstream.tls.is_some() {
            return Err(PoolError::NoSettings);
        }
        if self.upstream.balance == Balance::Least {
            return self.check_out_of(Choice::Any, tried, sharing).await;
        }
        let mut tried = tried.clone();
        // Bounded: each turn tries another endpoint.
        loop {
            let choice = self.choose(affinity, &tried).await;
            match self.check_out_of(choice, &tried, sharing).await {
                Err(PoolError::Unreachable)
                    if let Choice::Only(endpoint) = choice
                        && tried.try_push(endpoint).is_ok() => {}
                found => return found,
            }
        }
    }

    async fn choose(&self, affinity: Affinity, tried: &[EndpointId]) -> Choice {
        if !self.table.borrow().is_complete() {
            // Without the table, the pool chooses.
            _ = tokio::time::timeout(LIST_TIMEOUT, self.listed.notified()).await;
        }
        // A linear congruential generator (Knuth): chance need not be secret here.
        let random = self.random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random.set(random);
        let mixed = random ^ (random >> 29);
        self.candidates(&self.table.borrow()).choose(&self.upstream.balance, affinity, tried, mixed)
    }

    pub(super) fn candidates<'t>(&self, table: &'t EndpointTable) -> Candidates<'t> {
        let slow_start = self.upstream.health.slow_start;
        Candidates { entries: table.entries(), slow_start, now: Instant::now() }
    }

    pub(super) async fn check_out_of(
        self: &Rc<Pool>,
        choice: Choice,
        tried: &Tried,
        sharing: Sharing,
    ) -> Result<Checkout, PoolError> {
        if let Some(stream) = self.open_http2_stream(choice, tried, sharing).await {
            return Ok(Checkout::Http2(Box::new(stream)));
        }
        let fits = |shared: &&Rc<SharedConnection>| {
            let endpoint = shared.endpoint();
            choice.is(endpoint) && !tried.contains(&endpoint) && shared.has_capacity()
        };
        if let Some(shared) = self.shared.borrow().iter().find(fits) {
            return Ok(Checkout::Multiplexed(shared.reserve()));
        }
        if let Some(connection) = self.take_ready(choice, tried, Check::Socket) {
            return Ok(Checkout::Exclusive(connection));
        }
        if self.is_lost() {
            // A connection to any other endpoint is better than none.
            let open = self.take_ready(Choice::Any, tried, Check::Socket);
            return open.map(Checkout::Exclusive).ok_or(PoolError::Lost);
        }
        let (grant, granted) = oneshot::channel();
        let (ticket, request) = self.acquisitions.borrow_mut().push(choice, tried.clone(), sharing, grant);
        let waiting = WaitGuard { pool: self, ticket };
        request.into_iter().for_each(|request| self.send(request));
        let granted = tokio::time::timeout(self.wait, granted).await;
        drop(waiting);
        match granted {
            Ok(granted) => granted.unwrap_or(Err(PoolError::Lost)),
            Err(_) => Err(PoolError::TimedOut),
        }
    }

    /// An idle connection for a request.
    pub fn take_ready(
        &self,
        choice: Choice,
        tried: &[EndpointId],
        check: Check,
    ) -> Option<Box<PooledConnection>> {
        // Each turn removes one. A connection to the avoided endpoint goes back to the pool.
        while let Some(mut connection) = self.take_idle(choice, tried) {
            let is_fresh = connection.idle.is_none_or(|idle| idle.duration() < self.keep);
            if !tried.contains(&connection.endpoint()) && is_fresh && connection.is_open(check) {
                connection.begin();
                return Some(connection);
            }
        }
        None
    }

    /// A stream of a connection by HTTP/2 that its endpoint has not ended. `None`: the request should get a new
    /// connection.
    async fn open_http2_stream(
        &self,
        choice: Choice,
        tried: &[EndpointId],
        sharing: Sharing,
    ) -> Option<Http2Stream> {
        let find = || match sharing {
            Sharing::Allowed => self.http2_connection(choice, tried, |_| true),
            Sharing::Announced => self.http2_connection(choice, tried, Http2Connection::has_announced),
            Sharing::No => None,
        };
        for _ in 0..READING_TURNS {
            match find() {
                // The loop looks for events, and the task of the connection reads.
                Some(connection) if connection.has_unread() => yield_now().await,
                found => return found?.reserve(),
            }
        }
        find()?.reserve()
    }

    /// The HTTP/2 connection with the fewest streams, of those that `may_have` more. `None`: the request should get a
    /// new connection.
    fn http2_connection(
        &self,
        choice: Choice,
        tried: &[EndpointId],
        may_have: impl Fn(&Http2Connection) -> bool,
    ) -> Option<Rc<Http2Connection>> {
        let connections = self.http2.borrow();
        let fits = |other: &&Rc<Http2Connection>| {
            let endpoint = other.endpoint();
            choice.is(endpoint) && !tried.contains(&endpoint) && other.has_capacity() && may_have(other)
        };
        let least = connections.iter().filter(fits).min_by_key(|other| other.streams())?;
        // Otherwise, all requests of this worker would have the endpoint of the first.
        let is_spread = matches!(choice, Choice::Only(_))
            || least.streams() == 0
            || self.is_lost()
            || connections.len() >= self.table.borrow().with_requests();
        is_spread.then(|| least.clone())
    }

    /// Gives free streams by HTTP/2 to requests that wait for a connection.
    pub(super) fn give_http2_streams(&self) {
        // Each turn takes a request out of the queue.
        loop {
            // Many may wait, and a new connection may allow few.
            let find = |choice, tried: &[EndpointId]| {
                self.http2_connection(choice, tried, Http2Connection::has_announced)?.reserve()
            };
            let found = self.acquisitions.borrow_mut().take_sharing(find);
            let Some((grant, stream)) = found else { return };
            self.on_fewer_waiting();
            // If the request waits no more, this drops the stream.
            _ = grant.send(Ok(Checkout::Http2(Box::new(stream))));
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let grant = self.pool.acquisitions.borrow_mut().remove(self.ticket);
        if grant.is_some() {
            self.pool.on_fewer_waiting();
        }
    }
}

impl Checkout {
    pub fn endpoint(&self) -> EndpointId {
        match self {
            Checkout::Exclusive(connection) => connection.endpoint(),
            Checkout::Multiplexed(stream) => stream.endpoint(),
            Checkout::Http2(stream) => stream.endpoint(),
        }
    }

    pub fn endpoint_names(&self) -> &EndpointNames {
        match self {
            Checkout::Exclusive(connection) => connection.endpoint_names(),
            Checkout::Multiplexed(stream) => stream.endpoint_names(),
            Checkout::Http2(stream) => stream.endpoint_names(),
        }
    }

    /// Shares the connection with later requests, if the application may support that.
    pub fn share(self, services: &Rc<Services>) -> Checkout {
        match self {
            Checkout::Exclusive(connection) if connection.pool.multiplex.get() > 1 => {
                Checkout::Multiplexed(SharedConnection::open(connection, services))
            }
            checkout => checkout,
        }
    }
}
