//! Connections to the servers of URLs that wait for another request: few, not for long, and each to an address that the
//! rules of the forward proxy allow. Knows nothing of requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use site::forward_proxy::Host;
use tokio::time::{Instant, sleep_until};

use crate::pool::Stream;
use crate::semaphore::Permit;
use crate::tasks::spawn_local;

/// Those of a worker.
pub struct IdleConnections {
    keep: Duration,
    most: usize,
    /// Those that were returned last are at the end.
    entries: RefCell<VecDeque<Waiting>>,
    /// Whether a task closes those that have waited for too long.
    is_closing: Cell<bool>,
}

struct Waiting {
    origin: Rc<OriginServer>,
    stream: Stream,
    until: Instant,
}

/// What a connection leads to.
#[derive(Debug)]
pub struct OriginServer {
    pub host: Host,
    pub port: u16,
    /// The address that was checked, with its port.
    pub address: Rc<str>,
}

/// A connection to the server of a URL, which one request has for itself.
pub struct OriginConnection {
    pub stream: Stream,
    pub origin: Rc<OriginServer>,
    /// It has waited for this request.
    pub is_kept: bool,
    /// Where it may wait for another one. `None`: nowhere.
    pub idle_connections: Option<Rc<IdleConnections>>,
    /// Held until the end of the response.
    pub permit: Permit,
}

impl OriginConnection {
    /// Ends a request. The connection can have another one.
    pub fn finish(self) {
        let OriginConnection { stream, origin, idle_connections, permit, .. } = self;
        drop(permit);
        if let Some(idle_connections) = idle_connections {
            idle_connections.put(origin, stream);
        }
    }
}

impl IdleConnections {
    /// `keep`: how long each waits. Zero: none does.
    pub fn new(keep: Duration, most: usize) -> Rc<IdleConnections> {
        let (entries, is_closing) = (RefCell::default(), Cell::default());
        Rc::new(IdleConnections { keep, most, entries, is_closing })
    }

    /// Whether any is kept.
    pub fn keeps(&self) -> bool {
        !self.keep.is_zero() && self.most > 0
    }

    /// The connection to a server that has waited for the shortest time. It has sent nothing meanwhile.
    pub fn take(&self, host: &Host, port: u16) -> Option<(Rc<OriginServer>, Stream)> {
        let mut entries = self.entries.borrow_mut();
        let now = Instant::now();
        // Bounded: each turn removes one.
        loop {
            let is_same = |waiting: &Waiting| waiting.origin.port == port && waiting.origin.host == *host;
            let at = entries.iter().rposition(is_same)?;
            let waiting = entries.remove(at)?;
            if waiting.until > now && waiting.stream.is_quiet() {
                return Some((waiting.origin, waiting.stream));
            }
        }
    }

    /// Keeps a connection on which a whole request and its whole response have passed.
    pub fn put(self: &Rc<Self>, origin: Rc<OriginServer>, stream: Stream) {
        if !self.keeps() {
            return;
        }
        let mut entries = self.entries.borrow_mut();
        while entries.len() >= self.most {
            entries.pop_front();
        }
        let now = Instant::now();
        entries.push_back(Waiting { origin, stream, until: now.checked_add(self.keep).unwrap_or(now) });
        if !self.is_closing.replace(true) {
            spawn_local(self.clone().close_in_time());
        }
    }

    /// Ends when none is left.
    async fn close_in_time(self: Rc<Self>) {
        loop {
            let first = self.entries.borrow().front().map(|waiting| waiting.until);
            let Some(until) = first else { break };
            sleep_until(until).await;
            let now = Instant::now();
            self.entries.borrow_mut().retain(|waiting| waiting.until > now && waiting.stream.is_quiet());
        }
        self.is_closing.set(false);
    }
}
