//! The pool of an application: a process that has its servers, which it has started or whose addresses it
//! knows, and gives workers connections to them. A worker can neither connect nor execute; and who has least
//! to do is known only where all workers ask.
//!
//! Here is the worker's end. It keeps connections between two requests, and knows nothing of what is said
//! over them.

pub mod message;

pub mod process;

mod hub;
mod servers;
mod started;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use script::fastcgi::client::Client;
use site::application::Application;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use crate::channel::{Channel, Received};
use crate::sys;
use message::{Answer, Lease, Outcome, Request, ServerId};

/// How long a connection that others wait for may still be used by whoever has it, so that not every
/// request needs a connection of its own.
const FAIR: Duration = Duration::from_millis(20);
/// Servers that are known to end: those before them have ended.
const RETIRED: usize = 256;
/// How often connections between two requests are looked at.
const SWEEP: Duration = Duration::from_secs(1);
const SWEEP_LEAST: Duration = Duration::from_millis(50);

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many wait already as may.
    Full,
    /// Its turn has not come in time.
    Late,
    /// The application does not start, or ends again and again.
    Failing,
    /// Nobody listens at its addresses.
    Unreachable,
    /// The pool has gone.
    Lost,
}

impl Refusal {
    const ALL: [Refusal; 5] =
        [Refusal::Full, Refusal::Late, Refusal::Failing, Refusal::Unreachable, Refusal::Lost];

    fn number(self) -> u64 {
        self as u64
    }

    fn of(number: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|why| why.number() == number).unwrap_or(Refusal::Lost)
    }

    pub fn why(self) -> &'static str {
        match self {
            Refusal::Full => "too many requests wait for it already",
            Refusal::Late => "it has had no room in time",
            Refusal::Failing => "its processes end again and again",
            Refusal::Unreachable => "nobody listens at its address",
            Refusal::Lost => "the process that manages it has gone",
        }
    }
}

/// The worker's end.
pub struct Pool {
    channel: AsyncFd<Channel>,
    wait: Duration,
    keep: Duration,
    waiting: RefCell<VecDeque<Waiting>>,
    idle: RefCell<Vec<Connection>>,
    /// Is a connection to be given back, because others wait?
    recalled: Cell<bool>,
    /// Servers that are to end.
    retired: RefCell<VecDeque<ServerId>>,
    /// What is to be said as soon as the channel has room.
    queue: RefCell<VecDeque<Request>>,
    changed: Notify,
    next: Cell<u64>,
    /// Has the pool gone?
    lost: Cell<bool>,
}

struct Waiting {
    number: u64,
    tell: oneshot::Sender<Result<Connection, Refusal>>,
}

/// A connection to a server. Dropping it closes it.
pub struct Connection {
    pub stream: AsyncFd<OwnedFd>,
    /// What is known of it by who speaks FastCGI.
    pub records: Option<Box<Client>>,
    lease: Lease,
    /// Requests that it has had.
    requests: u64,
    outcome: Outcome,
    /// Is it between two requests, and since when?
    kept: bool,
    since: Instant,
    began: Instant,
    pool: Rc<Pool>,
}

impl Pool {
    /// Within the worker's runtime, which has to run `listen`.
    pub fn new(channel: Channel, application: &Application) -> io::Result<Rc<Pool>> {
        Ok(Rc::new(Pool {
            channel: sys::watch(channel, Interest::READABLE | Interest::WRITABLE)?,
            wait: application.wait,
            // A process is not kept by who does not use it.
            keep: application
                .managed()
                .map_or(application.keep, |managed| managed.unused.min(application.keep)),
            waiting: RefCell::default(),
            idle: RefCell::default(),
            recalled: Cell::new(false),
            retired: RefCell::default(),
            queue: RefCell::default(),
            changed: Notify::new(),
            // 0 is nobody.
            next: Cell::new(1),
            lost: Cell::new(false),
        }))
    }

    /// A connection for one request: one that was kept, or a new one. `avoid` is a server that has failed
    /// just now.
    pub async fn connection(self: &Rc<Pool>, avoid: Option<ServerId>) -> Result<Connection, Refusal> {
        if avoid.is_none() {
            // Bounded: each is taken out.
            while let Some(connection) = self.take_idle() {
                if connection.is_open() {
                    return Ok(Connection::taken(connection));
                }
            }
        }
        if self.lost.get() {
            return Err(Refusal::Lost);
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let (tell, told) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { number, tell });
        let place = Place { pool: self, number };
        self.say(Request::Ask { number, avoid });
        let told = tokio::time::timeout(self.wait, told).await;
        drop(place);
        match told {
            Ok(told) => told.unwrap_or(Err(Refusal::Lost)),
            Err(_) => Err(Refusal::Late),
        }
    }

    /// Requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Hears what the pool says, for as long as it is there. Does not end: without a pool the keeper
    /// replaces this process.
    pub async fn listen(self: Rc<Pool>) -> io::Result<()> {
        loop {
            let has_idle = !self.idle.borrow().is_empty();
            tokio::select! {
                answer = self.channel.async_io(Interest::READABLE, Channel::receive::<Answer>) => match answer {
                    Ok(Received::Message(answer)) => self.hear(answer),
                    Ok(Received::End) | Err(_) => break,
                },
                () = self.send_queued() => {}
                () = tokio::time::sleep(self.keep.clamp(SWEEP_LEAST, SWEEP)), if has_idle => self.sweep(),
            }
        }
        self.lost.set(true);
        self.idle.borrow_mut().clear();
        // Whoever waits learns that nobody will answer.
        self.waiting.borrow_mut().clear();
        std::future::pending().await
    }

    fn hear(self: &Rc<Pool>, answer: Answer) {
        match answer {
            Answer::Lease { number, lease, stream } => {
                let Ok(stream) = sys::watch(stream, Interest::READABLE | Interest::WRITABLE) else {
                    return self.give_back(lease, 0, Duration::ZERO, Outcome::Served);
                };
                let now = Instant::now();
                self.offer(
                    Connection {
                        stream,
                        records: None,
                        lease,
                        requests: 0,
                        outcome: Outcome::Served,
                        kept: false,
                        since: now,
                        began: now,
                        pool: self.clone(),
                    },
                    Some(number),
                );
            }
            Answer::Refused { number, why } => {
                if let Some(waiting) = self.take_waiting(number) {
                    // Whoever has left need not be told.
                    _ = waiting.tell.send(Err(why));
                }
            }
            Answer::Recall { server: None } => match self.take_idle() {
                Some(connection) => drop(connection),
                None => {
                    self.recalled.set(true);
                    self.say(Request::Busy);
                }
            },
            Answer::Recall { server: Some(server) } => {
                let of_it: Vec<_> =
                    self.idle.borrow_mut().extract_if(.., |idle| idle.lease.server == server).collect();
                drop(of_it);
                let mut retired = self.retired.borrow_mut();
                retired.push_back(server);
                if retired.len() > RETIRED {
                    retired.pop_front();
                }
            }
        }
    }

    /// To who waits for it, or else to who waits.
    fn offer(self: &Rc<Pool>, connection: Connection, number: Option<u64>) {
        let waiting = match number {
            Some(number) => self.take_waiting(number),
            None => {
                let next = self.waiting.borrow_mut().pop_front();
                next.inspect(|waiting| self.say(Request::Forget { number: waiting.number }))
            }
        };
        let Some(waiting) = waiting else { return self.keep(connection) };
        if let Err(Ok(connection)) = waiting.tell.send(Ok(connection)) {
            self.keep(connection);
        }
    }

    fn keep(&self, connection: Connection) {
        if !self.keep.is_zero() && connection.requests > 0 {
            let mut connection = connection;
            (connection.kept, connection.since) = (true, Instant::now());
            self.idle.borrow_mut().push(connection);
            self.changed.notify_one();
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle.borrow_mut().pop()
    }

    fn take_waiting(&self, number: u64) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|waiting| waiting.number == number)?;
        waiting.remove(at)
    }

    /// Closes connections that were not used for long, or that the server has closed.
    fn sweep(&self) {
        let over = |idle: &mut Connection| idle.since.elapsed() >= self.keep || !idle.is_open();
        let old: Vec<_> = self.idle.borrow_mut().extract_if(.., over).collect();
        drop(old);
    }

    fn give_back(&self, lease: Lease, requests: u64, idle: Duration, outcome: Outcome) {
        self.say(Request::Return { lease: lease.number, requests, idle, outcome });
    }

    fn say(&self, request: Request) {
        let sent = match self.queue.borrow().is_empty() {
            true => self.channel.get_ref().send(&request),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.queue.borrow_mut().push_back(request);
                self.changed.notify_one();
            }
            // A pool that has gone needs to be told nothing.
            Ok(()) | Err(_) => {}
        }
    }

    /// Until one of those that had no room is sent, or there is something else to be looked at.
    async fn send_queued(&self) {
        let next = self.queue.borrow().front().copied();
        let Some(request) = next else { return self.changed.notified().await };
        _ = self.channel.async_io(Interest::WRITABLE, |channel| channel.send(&request)).await;
        self.queue.borrow_mut().pop_front();
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
            self.pool.say(Request::Forget { number: self.number });
        }
    }
}

impl Connection {
    fn taken(mut self) -> Connection {
        self.kept = false;
        self
    }

    pub fn server(&self) -> ServerId {
        self.lease.server
    }

    /// Has it had a request before? Then its server may have closed it meanwhile.
    pub fn is_used(&self) -> bool {
        self.requests > 0
    }

    /// The server could not be reached, or has not answered.
    pub fn has_failed(&mut self) {
        self.outcome = Outcome::Failed;
    }

    /// A request is over, and the connection can have another.
    pub fn done(mut self) {
        self.requests += 1;
        let pool = self.pool.clone();
        let is_to_end = pool.retired.borrow().contains(&self.lease.server);
        if is_to_end || self.requests >= self.lease.requests {
            return;
        }
        let is_ours = self.began.elapsed() < FAIR && pool.waiting() > 0;
        if !is_ours && pool.recalled.take() {
            return;
        }
        pool.offer(self, None);
    }

    /// A request is over, and the connection with it.
    pub fn close(mut self) {
        self.requests += 1;
    }

    /// Has the server neither closed it nor said anything that nobody has asked?
    fn is_open(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(
            rustix::net::recv(self.stream.get_ref(), &mut byte, flags),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
        )
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let idle = if self.kept { self.since.elapsed() } else { Duration::ZERO };
        self.pool.give_back(self.lease, self.requests, idle, self.outcome);
    }
}
