//! The acceptor of a worker: it accepts connections, makes capacity for them, and rejects those for which there is
//! none.
//!
//! The first request of a new connection is read at once, and a connection that closes behind it is never registered
//! anywhere.
//!
//! At capacity, the connection that has been idle longest is closed for the new one, or one that has been sent its last
//! response, or the one whose client is the slowest below the least rate. When there is none of these, every response
//! becomes its connection's last, and new clients wait in the kernel for a while; then they get 503. When more clients
//! connect than can be rejected at one time, the first of those closes at once for the next.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use site::model::Site;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::clock::{self, Ticks};
use crate::connection::Connections;
use crate::connection::client::Client;
use crate::connection::idle::IdleConnection;
use crate::connection::proxied::Header;
use crate::connection::stream::Socket;
use crate::connection::{ConnectionState, Leaving, handshake_rate, idle, proxied};
use crate::listen::{Accepted, Listener};
use crate::log::{self, LineLimit};
use crate::process::supervisor::advice_on_descriptors;
use crate::semaphore::{Permit, Semaphore};
use crate::stats::Count;

/// Connections that are accepted before other tasks have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// How long a listener pauses when there is no descriptor or no memory for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The most that the last waiting client waits when there has been no capacity for long. Within it, each connection
/// that is idle when that client comes, or whose client takes nothing, may be closed for it.
const LAST_WAIT: Duration = Duration::from_millis(1500);
/// How often an acceptor at capacity checks whether a connection has been idle long enough to be closed.
const CHECK_AGAIN: Duration = Duration::from_millis(100);
/// How often an acceptor whose ticks are late checks whether the next one has come.
const LATE_TICK: Duration = Duration::from_millis(5);
/// Connections that are still accepted from a listener that closes; the kernel keeps no more.
const LAST_ACCEPTS: usize = 4096;

pub struct Acceptor {
    /// A client has had to wait for capacity, and there has been none to spare since.
    at_capacity: Cell<bool>,
    capacity_timeout: Duration,
    rejections: Semaphore,
    rejected: Leaving,
    /// Connections that have been sent their last response, and whose clients have not closed yet.
    pub lingering: Leaving,
    /// Listeners that are still accepted from.
    listeners: Cell<usize>,
    closing: Cell<bool>,
    close: Notify,
    /// For failures to accept.
    lines: LineLimit,
}

/// The clients of one listener that wait in the kernel.
struct Backlog<'a> {
    listener: &'a Listener,
    /// Since when there has been no capacity for the first of them.
    full_since: Option<Moment>,
}

/// A time by both clocks of the worker. Connections may be closed after a number of ticks, and ticks are late when the
/// worker is. So a client also waits for these ticks: a late worker shortens no wait.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    ticks: Ticks,
}

impl Moment {
    /// What is left of `timeout`, of which all whole ticks have to pass as well.
    fn left(self, timeout: Duration, now: Moment) -> Duration {
        let left = (self.instant + timeout).saturating_duration_since(now.instant);
        let ticks = timeout.as_millis() / clock::TICK.as_millis();
        let is_late = u128::from(now.ticks.wrapping_sub(self.ticks)) < ticks;
        if is_late { left.max(LATE_TICK) } else { left }
    }
}

impl Backlog<'_> {
    /// There is capacity for one. The clock of those behind it runs on.
    fn on_capacity(&mut self) {
        if self.full_since.is_some() && !self.listener.has_waiting() {
            self.full_since = None;
        }
    }

    /// How long a client that was accepted at `came` may still wait. The clients behind the first have waited as long
    /// as it has. Only the last may wait a little longer than `timeout`.
    fn wait(&mut self, came: Moment, timeout: Duration, now: Moment) -> Duration {
        let first = self.full_since.get_or_insert(now).left(timeout, now);
        if first.is_zero() && !self.listener.has_waiting() {
            came.left(timeout.min(LAST_WAIT), now)
        } else {
            first
        }
    }
}

/// There has been no capacity for longer than a client waits for it.
struct Full;

impl Acceptor {
    pub fn new(site: &Site) -> Acceptor {
        Acceptor {
            at_capacity: Cell::new(false),
            capacity_timeout: site.timeouts.accept,
            rejections: Semaphore::new(site.limits.rejections),
            rejected: Leaving::default(),
            lingering: Leaving::default(),
            listeners: Cell::new(0),
            closing: Cell::new(false),
            close: Notify::new(),
            lines: LineLimit::default(),
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
        self.listeners.get() > 0
    }

    /// Connections that are being rejected.
    pub fn rejections(&self) -> usize {
        self.rejections.taken()
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

    /// Waits until there is capacity for another connection.
    async fn capacity(&self, connections: &Connections, backlog: &mut Backlog<'_>) -> Result<(), Full> {
        if !connections.is_full() {
            self.at_capacity.set(false);
            backlog.on_capacity();
            return Ok(());
        }
        let now = || Moment { instant: Instant::now(), ticks: connections.services.clock.ticks() };
        let came = now();
        while connections.is_full() {
            if connections.evict() {
                backlog.on_capacity();
                break;
            }
            let wait = if self.lingering.evict_first() || connections.evict_slowest() {
                CHECK_AGAIN
            } else {
                self.at_capacity.set(true);
                backlog.wait(came, self.capacity_timeout, now())
            };
            if wait.is_zero() {
                return Err(Full);
            }
            tokio::select! {
                () = connections.ended() => {}
                () = tokio::time::sleep(wait.min(CHECK_AGAIN)) => {}
                () = self.closed() => break,
            }
        }
        Ok(())
    }

    /// A permit to reject one more connection. When all are in use, the first that was rejected is closed. `None`: the
    /// worker accepts no more.
    async fn rejection(&self, connections: &Connections) -> Option<Permit> {
        loop {
            if let Some(permit) = self.rejections.take() {
                return Some(permit);
            }
            self.rejected.evict_first();
            tokio::select! {
                () = connections.ended() => {}
                () = tokio::time::sleep(CHECK_AGAIN) => {}
                () = self.closed() => return None,
            }
        }
    }

    /// Notes a connection that is being rejected.
    pub fn rejects(&self, state: &Rc<ConnectionState>) {
        self.rejected.add(state, self.rejections.limit());
    }

    fn log_failure(&self, error: &io::Error, now: i64) {
        if let Some(omitted) = self.lines.admit(now) {
            let advice = error.raw_os_error().map_or("", advice_on_descriptors);
            log::error(format_args!(
                "cannot accept a connection: {error}; those idle for longest are closed{advice}{omitted}"
            ));
        }
    }
}

/// Accepts until the worker shuts down.
pub async fn accept(connections: Rc<Connections>, listener: Listener) -> io::Result<()> {
    let acceptor = &connections.acceptor;
    acceptor.listeners.set(acceptor.listeners.get() + 1);
    let mut backlog = Backlog { listener: &listener, full_since: None };
    let mut closed = pin!(acceptor.closed());
    loop {
        let mut ready = tokio::select! {
            biased;
            () = &mut closed => break,
            ready = listener.readable() => ready?,
        };
        for _ in 0..ACCEPTS_PER_TURN {
            match listener.accept() {
                Ok(accepted) if accepted.protocols.proxy => {
                    let capacity = acceptor.capacity(&connections, &mut backlog).await;
                    if let Some(accepted) = client_of(&connections, accepted, capacity) {
                        receive(&connections, accepted, &mut backlog).await;
                    }
                }
                Ok(accepted) => receive(&connections, accepted, &mut backlog).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    break;
                }
                Err(error) => {
                    on_failure(&connections, &error).await;
                    break;
                }
            }
            if acceptor.closing.get() {
                break;
            }
        }
    }
    accept_last(&connections, &listener);
    drop(listener);
    acceptor.listeners.set(acceptor.listeners.get() - 1);
    connections.notify_ended();
    Ok(())
}

/// Accepts clients that have connected before the listener closes: they are served, or handed off.
fn accept_last(connections: &Rc<Connections>, listener: &Listener) {
    for _ in 0..LAST_ACCEPTS {
        let Ok(accepted) = listener.accept() else { break };
        let accepted = match accepted.protocols.proxy {
            true => client_of(connections, accepted, Ok(())),
            false => Some(accepted),
        };
        let Some(Accepted { fd, family, protocols, peer, destination }) = accepted else { continue };
        let Ok(destination) = connections.destination(&fd, destination) else { continue };
        let Some(socket) = connections.open(fd, family, protocols) else { continue };
        connections.services.counts.add(Count::Accepted, 1);
        connections.on_activity();
        let client = Client::known(peer, destination);
        connections.keep(IdleConnection::new(socket, client, 0, connections.services.clock.ticks()));
    }
}

/// Serves a new connection, or rejects it. One may wait here for capacity, the others wait in the kernel.
async fn receive(connections: &Rc<Connections>, accepted: Accepted, backlog: &mut Backlog<'_>) {
    let Some((socket, client)) = admit(connections, accepted).await else { return };
    match connections.acceptor.capacity(connections, backlog).await {
        Ok(()) => idle::visit_new(connections, socket, client),
        Err(Full) => {
            connections.services.counts.add(Count::Rejected, 1);
            reject(connections, socket, client).await;
        }
    }
}

/// A connection of a proxy, with its client as the peer. `None`: the proxy has yet to name it, for which the connection
/// waits if there is capacity, or the connection is closed.
fn client_of(
    connections: &Rc<Connections>,
    accepted: Accepted,
    capacity: Result<(), Full>,
) -> Option<Accepted> {
    match (proxied::receive(connections, accepted), capacity) {
        (Header::Complete(accepted), _) => return Some(accepted),
        (Header::Incomplete(accepted), Ok(())) => {
            _ = spawn_local(wait_for_client(connections.clone(), accepted))
        }
        (Header::Incomplete(_), Err(Full)) => connections.services.counts.add(Count::Rejected, 1),
        (Header::Failed, _) => {}
    }
    None
}

/// Serves a connection when its proxy has named the client. It has waited within the capacity.
async fn wait_for_client(connections: Rc<Connections>, accepted: Accepted) {
    let Some(accepted) = proxied::wait(&connections, accepted).await else { return };
    if let Some((socket, client)) = admit(&connections, accepted).await {
        idle::visit_new(&connections, socket, client);
    }
}

/// `None`: the client has too many connections or handshakes, or proxies tell too many addresses. This one is rejected
/// or closed.
async fn admit(connections: &Rc<Connections>, accepted: Accepted) -> Option<(Socket, Client)> {
    let Accepted { fd, family, protocols, peer, destination } = accepted;
    let counts = &connections.services.counts;
    if protocols.tls && !handshake_rate::admits(peer) {
        counts.add(Count::HandshakesPerClient, 1);
        return None;
    }
    let Ok(destination) = connections.destination(&fd, destination) else {
        counts.add(Count::ProxyFailed, 1);
        return None;
    };
    let socket = connections.open(fd, family, protocols)?;
    counts.add(Count::Accepted, 1);
    connections.on_activity();
    match Client::admit(peer, destination) {
        Ok(client) => Some((socket, client)),
        Err(destination) => {
            counts.add(Count::PerClient, 1);
            reject(connections, socket, Client::known(peer, destination)).await;
            None
        }
    }
}

/// Answers the one request that the connection may make with 503. The request is read first: some clients
/// treat a response before their request as an error.
async fn reject(connections: &Rc<Connections>, socket: Socket, mut client: Client) {
    client.release();
    let Some(permit) = connections.acceptor.rejection(connections).await else { return };
    connections.reject(socket, client, permit);
}

/// Errors of one connection (accept(2), RETURN VALUE): the next one can be accepted all the same.
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

/// After an error that does not pass by itself, such as the lack of descriptors or memory, the listener pauses, unless
/// an idle connection can be closed.
async fn on_failure(connections: &Connections, error: &io::Error) {
    if error.raw_os_error().is_some_and(|e| OF_THE_PEER.contains(&e)) {
        return;
    }
    connections.services.counts.add(Count::AcceptFailed, 1);
    connections.acceptor.log_failure(error, connections.services.clock.read());
    if connections.evict() {
        return;
    }
    let evicted = async {
        match connections.acceptor.lingering.evict_first() || connections.evict_slowest() {
            true => connections.ended().await,
            false => std::future::pending().await,
        }
    };
    _ = tokio::time::timeout(ACCEPT_PAUSE, evicted).await;
}
