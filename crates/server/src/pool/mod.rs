//! The pool of an application: a process that has its endpoints, which it has started or whose addresses it
//! knows, and gives workers connections to them. A worker can neither connect nor execute; and who has least
//! to do is known only where all workers ask.
//!
//! Here is the worker's end. It keeps connections between two requests, and those that several requests are
//! on, and knows nothing of what is in an answer.

pub mod message;

pub mod process;

pub mod multiplexed;

mod application_process;
mod balancer;
mod endpoints;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags};
use script::fastcgi::client::Client;
use site::upstream::Upstream;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use crate::ipc::{Channel, Received, SendQueue};
use crate::services::Services;
use crate::sys;
use message::{EndpointId, Lease, LeaseOutcome, PoolEvent, PoolRequest};
use multiplexed::{FastCgiStream, SharedConnection};

/// How long a connection that others wait for may still be used by whoever has it, so that not every
/// request needs a connection of its own.
const FAIR: Duration = Duration::from_millis(20);
/// Servers that are known to end: those before them have ended.
const RETIRED: usize = 256;
/// How long something is asked for that nobody waits for any more: where there is much to do, somebody will
/// soon.
const LINGER: Duration = Duration::from_millis(2);
/// How often connections between two requests are looked at.
const SWEEP: Duration = Duration::from_secs(1);
const SWEEP_LEAST: Duration = Duration::from_millis(50);

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolError {
    /// As many wait already as may.
    Full,
    /// Its turn has not come in time.
    TimedOut,
    /// The application does not start, or ends again and again.
    Failing,
    /// Nobody listens at its addresses.
    Unreachable,
    /// The pool has gone.
    Lost,
}

impl PoolError {
    const ALL: [PoolError; 5] =
        [PoolError::Full, PoolError::TimedOut, PoolError::Failing, PoolError::Unreachable, PoolError::Lost];

    fn number(self) -> u64 {
        self as u64
    }

    fn of(number: u64) -> PoolError {
        PoolError::ALL.into_iter().find(|why| why.number() == number).unwrap_or(PoolError::Lost)
    }

    pub fn why(self) -> &'static str {
        match self {
            PoolError::Full => "too many requests wait for it already",
            PoolError::TimedOut => "it has had no room in time",
            PoolError::Failing => "its processes end again and again",
            PoolError::Unreachable => "nothing listens at its address",
            PoolError::Lost => "the process that manages it has gone",
        }
    }
}

/// The worker's end.
pub struct Pool {
    channel: AsyncFd<Channel>,
    wait: Duration,
    keep: Duration,
    waiting: RefCell<VecDeque<Waiting>>,
    /// What the pool is asked for: for those who wait, whoever gets it.
    asked: RefCell<VecDeque<u64>>,
    idle: RefCell<Vec<PooledConnection>>,
    /// Is it about to be said that less is asked for? As `listen` has it.
    lingers: Cell<bool>,
    /// Requests at a time on one connection: 1 as soon as it is known that the application cannot.
    multiplex: Cell<u16>,
    /// Connections that several requests may be on.
    shared: RefCell<Vec<Rc<SharedConnection>>>,
    /// Is a connection to be given back, because others wait?
    recalled: Cell<bool>,
    /// Servers that are to end.
    retired: RefCell<VecDeque<EndpointId>>,
    send_queue: SendQueue<PoolRequest>,
    changed: Notify,
    next: Cell<u64>,
    /// Has the pool gone?
    lost: Cell<bool>,
}

struct Waiting {
    number: u64,
    avoid: Option<EndpointId>,
    tell: oneshot::Sender<Result<Checkout, PoolError>>,
}

/// The way of one request to a endpoint.
pub enum Checkout {
    /// Nobody else is on it.
    Exclusive(PooledConnection),
    /// Others may be on it, too.
    Multiplexed(FastCgiStream),
}

/// A connection to a endpoint. Dropping it closes it.
pub struct PooledConnection {
    pub stream: AsyncFd<OwnedFd>,
    /// What is known of it by who speaks FastCGI.
    pub records: Option<Box<Client>>,
    lease: Lease,
    /// Requests that it has had.
    requests: u64,
    outcome: LeaseOutcome,
    /// Is it between two requests, and since when?
    kept: bool,
    since: Instant,
    began: Instant,
    pool: Rc<Pool>,
}

impl Pool {
    /// Within the worker's runtime, which has to run `listen`.
    pub fn new(channel: Channel, application: &Upstream) -> io::Result<Rc<Pool>> {
        Ok(Rc::new(Pool {
            channel: sys::watch(channel, Interest::READABLE | Interest::WRITABLE)?,
            wait: application.wait,
            // A process is not kept by who does not use it.
            keep: application
                .managed()
                .map_or(application.keep, |managed| managed.unused.min(application.keep)),
            waiting: RefCell::default(),
            asked: RefCell::default(),
            idle: RefCell::default(),
            lingers: Cell::new(false),
            multiplex: Cell::new(application.multiplex),
            shared: RefCell::default(),
            recalled: Cell::new(false),
            retired: RefCell::default(),
            send_queue: SendQueue::default(),
            changed: Notify::new(),
            // 0 is nobody.
            next: Cell::new(1),
            lost: Cell::new(false),
        }))
    }

    /// A connection for one request: one that others are on and that has room, one that was kept, or a new
    /// one. `avoid` is a endpoint that has failed just now.
    pub async fn connection(self: &Rc<Pool>, avoid: Option<EndpointId>) -> Result<Checkout, PoolError> {
        let can = |shared: &&Rc<SharedConnection>| Some(shared.endpoint()) != avoid && shared.has_room();
        if let Some(shared) = self.shared.borrow().iter().find(can) {
            return Ok(Checkout::Multiplexed(shared.share()));
        }
        // Bounded: each is taken out. Those to a endpoint that is avoided go back to the pool.
        while let Some(connection) = self.take_idle() {
            let is_fresh = connection.since.elapsed() < self.keep;
            if Some(connection.endpoint()) != avoid && is_fresh && connection.is_open() {
                return Ok(Checkout::Exclusive(PooledConnection::taken(connection)));
            }
        }
        if self.lost.get() {
            return Err(PoolError::Lost);
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let (tell, told) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { number, avoid, tell });
        let place = Place { pool: self, number };
        // Those before may have left something that was asked for.
        if avoid.is_some() || self.asked.borrow().len() < self.waiting() {
            self.asked.borrow_mut().push_back(number);
            self.say(PoolRequest::Acquire { number, avoid });
        }
        let told = tokio::time::timeout(self.wait, told).await;
        drop(place);
        match told {
            Ok(told) => told.unwrap_or(Err(PoolError::Lost)),
            Err(_) => Err(PoolError::TimedOut),
        }
    }

    /// Requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Hears what the pool says, for as long as it is there. Does not end: without a pool the master
    /// replaces this process.
    pub async fn listen(self: Rc<Pool>) -> io::Result<()> {
        let _end = Listening(self.clone());
        loop {
            let has_idle = !self.idle.borrow().is_empty();
            self.lingers.set(self.surplus() > 0);
            tokio::select! {
                answer = self.channel.async_io(Interest::READABLE, Channel::receive::<PoolEvent>) => match answer {
                    Ok(Received::Message(answer)) => self.hear(answer),
                    Ok(Received::End) | Err(_) => break,
                },
                () = self.send_queue.send_queued(&self.channel) => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(LINGER), if self.lingers.get() => self.forget(),
                () = tokio::time::sleep(self.keep.clamp(SWEEP_LEAST, SWEEP)), if has_idle => self.sweep(),
            }
        }
        self.end();
        std::future::pending().await
    }

    /// There is no pool, or nobody here any more who hears it. Connections that were kept keep this alive, too.
    fn end(&self) {
        self.lost.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        drop(idle);
        // They end with what is on them.
        self.shared.take();
        // Whoever waits learns that nobody will answer.
        self.waiting.borrow_mut().clear();
    }

    fn hear(self: &Rc<Pool>, answer: PoolEvent) {
        match answer {
            PoolEvent::Leased { number, lease, stream } => {
                self.asked.borrow_mut().retain(|asked| *asked != number);
                let Ok(stream) = sys::watch(stream, Interest::READABLE | Interest::WRITABLE) else {
                    return self.give_back(lease, 0, Duration::ZERO, LeaseOutcome::Served);
                };
                let now = Instant::now();
                let connection = PooledConnection {
                    stream,
                    records: None,
                    lease,
                    requests: 0,
                    outcome: LeaseOutcome::Served,
                    kept: false,
                    since: now,
                    began: now,
                    pool: self.clone(),
                };
                // Whoever would rather have another endpoint has been told that there is none.
                let own = self.take_waiting_if(number, |waiting| waiting.avoid.is_some());
                self.give(connection, own);
            }
            PoolEvent::Rejected { number, why } => {
                self.asked.borrow_mut().retain(|asked| *asked != number);
                if let Some(waiting) = self.take_waiting(number) {
                    // Whoever has left need not be told.
                    _ = waiting.tell.send(Err(why));
                } else if self.asked.borrow().is_empty() {
                    self.ask_for_the_first();
                }
            }
            PoolEvent::Recall { endpoint: None } => match self.take_idle() {
                Some(connection) => drop(connection),
                None => {
                    self.recalled.set(true);
                    self.say(PoolRequest::NothingIdle);
                }
            },
            PoolEvent::Recall { endpoint: Some(endpoint) } => {
                let of_it: Vec<_> =
                    self.idle.borrow_mut().extract_if(.., |idle| idle.lease.endpoint == endpoint).collect();
                drop(of_it);
                let mut retired = self.retired.borrow_mut();
                retired.push_back(endpoint);
                if retired.len() > RETIRED {
                    retired.pop_front();
                }
            }
        }
    }

    /// To `own`, or else to who has waited longest.
    fn give(&self, connection: PooledConnection, own: Option<Waiting>) {
        let next = own.or_else(|| self.take_first(connection.endpoint()));
        self.look_at_surplus();
        let Some(next) = next else {
            // Whoever waits for another endpoint may get this one after all, from the pool.
            return if self.waiting.borrow().is_empty() { self.keep(connection) } else { drop(connection) };
        };
        if let Err(Ok(Checkout::Exclusive(connection))) = next.tell.send(Ok(Checkout::Exclusive(connection)))
        {
            self.keep(connection);
        }
    }

    /// Somebody waits for another endpoint, and may get this one when nothing else is on it.
    fn is_avoided(&self, endpoint: EndpointId) -> bool {
        self.waiting.borrow().iter().any(|waiting| waiting.avoid == Some(endpoint))
    }

    /// Who has waited longest, and does not avoid this endpoint.
    fn take_first(&self, endpoint: EndpointId) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|waiting| waiting.avoid != Some(endpoint))?;
        waiting.remove(at)
    }

    /// What is asked for, and nobody waits for: there was something nearer at hand.
    fn surplus(&self) -> usize {
        self.asked.borrow().len().saturating_sub(self.waiting())
    }

    fn look_at_surplus(&self) {
        if self.surplus() > 0 && !self.lingers.get() {
            self.changed.notify_one();
        }
    }

    /// Asks for it no more: nobody has come to whom it could go.
    fn forget(&self) {
        for _ in 0..self.surplus() {
            if let Some(number) = self.asked.borrow_mut().pop_back() {
                self.say(PoolRequest::Cancel { number });
            }
        }
    }

    fn ask_for_the_first(&self) {
        let first = self.waiting.borrow().front().map(|waiting| (waiting.number, waiting.avoid));
        if let Some((number, avoid)) = first {
            self.asked.borrow_mut().push_back(number);
            self.say(PoolRequest::Acquire { number, avoid });
        }
    }

    fn keep(&self, connection: PooledConnection) {
        if !self.keep.is_zero() && connection.requests > 0 && !self.lost.get() {
            let mut connection = connection;
            (connection.kept, connection.since) = (true, Instant::now());
            self.idle.borrow_mut().push(connection);
            self.changed.notify_one();
        }
    }

    fn take_idle(&self) -> Option<PooledConnection> {
        self.idle.borrow_mut().pop()
    }

    fn take_waiting(&self, number: u64) -> Option<Waiting> {
        self.take_waiting_if(number, |_| true)
    }

    fn take_waiting_if(&self, number: u64, which: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|waiting| waiting.number == number && which(waiting))?;
        waiting.remove(at)
    }

    /// Closes connections that were not used for long, or that the endpoint has closed.
    fn sweep(&self) {
        let over = |idle: &mut PooledConnection| idle.since.elapsed() >= self.keep || !idle.is_open();
        let old: Vec<_> = self.idle.borrow_mut().extract_if(.., over).collect();
        drop(old);
    }

    fn give_back(&self, lease: Lease, requests: u64, idle: Duration, outcome: LeaseOutcome) {
        self.say(PoolRequest::Return { lease: lease.number, requests, idle, outcome });
    }

    fn say(&self, request: PoolRequest) {
        self.send_queue.send(&self.channel, request);
    }
}

/// Whoever hears what the pool says; without him nothing can be had of it.
struct Listening(Rc<Pool>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Somebody who waits.
struct Place<'a> {
    pool: &'a Pool,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.pool.take_waiting(self.number).is_some() {
            self.pool.look_at_surplus();
        }
    }
}

impl Checkout {
    /// So that others may be on it as well, where they might.
    pub fn shared(self, services: &Rc<Services>) -> Checkout {
        match self {
            Checkout::Exclusive(connection) if connection.pool.multiplex.get() > 1 => {
                Checkout::Multiplexed(SharedConnection::open(connection, services))
            }
            way => way,
        }
    }

    pub fn endpoint(&self) -> EndpointId {
        match self {
            Checkout::Exclusive(connection) => connection.endpoint(),
            Checkout::Multiplexed(share) => share.endpoint(),
        }
    }

    /// Had it been kept since another request? Then its endpoint may have closed it meanwhile.
    pub fn is_used(&self) -> bool {
        match self {
            Checkout::Exclusive(connection) => connection.is_used(),
            Checkout::Multiplexed(share) => share.is_used(),
        }
    }
}

impl PooledConnection {
    fn taken(mut self) -> PooledConnection {
        self.kept = false;
        self
    }

    pub fn endpoint(&self) -> EndpointId {
        self.lease.endpoint
    }

    /// Has it had a request before? Then its endpoint may have closed it meanwhile.
    pub fn is_used(&self) -> bool {
        self.requests > 0
    }

    /// The endpoint could not be reached, or has not answered.
    pub fn has_failed(&mut self) {
        self.outcome = LeaseOutcome::Failed;
    }

    /// A request is over, and the connection can have another.
    pub fn done(mut self) {
        self.requests += 1;
        self.rest();
    }

    /// Nobody is on it, and somebody could be.
    fn rest(self) {
        let pool = self.pool.clone();
        if self.is_to_end() || !self.is_open() {
            return;
        }
        let is_ours = self.began.elapsed() < FAIR && pool.waiting() > 0;
        if !is_ours && pool.recalled.take() {
            return;
        }
        pool.give(self, None);
    }

    /// Its endpoint takes no more, or not from it.
    fn is_to_end(&self) -> bool {
        self.requests >= self.lease.requests || self.pool.retired.borrow().contains(&self.lease.endpoint)
    }

    /// Others wait for one, and it has been here for its time.
    fn is_wanted_back(&self) -> bool {
        self.pool.recalled.get() && self.began.elapsed() >= FAIR
    }

    /// Sends `out` from `sent` on. Ready when all of it has left.
    pub fn poll_send(&self, cx: &mut Context<'_>, out: &[u8], sent: &mut usize) -> Poll<io::Result<()>> {
        while *sent < out.len() {
            let mut ready = ready!(self.stream.poll_write_ready(cx))?;
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match ready.try_io(|fd| Ok(rustix::net::send(fd, &out[*sent..], flags)?)) {
                Ok(Ok(n)) => *sent += n,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A request is over, and the connection with it.
    pub fn close(mut self) {
        self.requests += 1;
    }

    /// Has the endpoint neither closed it nor said anything that nobody has asked?
    fn is_open(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let mut peek = |fd: &OwnedFd| Ok(rustix::net::recv(fd, &mut byte, flags)?.0);
        let peeked = match self.records {
            // Nothing is asked of the kernel where nothing has happened: a record says what it belongs to.
            Some(_) => self.stream.try_io(Interest::READABLE, peek),
            // Bytes of HTTP would be the next answer, even if the loop has not been told of them yet.
            None => peek(self.stream.get_ref()),
        };
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let idle = if self.kept { self.since.elapsed() } else { Duration::ZERO };
        self.pool.give_back(self.lease, self.requests, idle, self.outcome);
    }
}
