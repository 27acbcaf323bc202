//! `taipan watch`: what becomes of the requests that are watched. A worker copies facts of a request into an event, and
//! sends it through a bounded queue; the main thread makes text of it. Nothing is copied while there is no watcher.
//!
//! Knows nothing of the control socket, nor of the logs.

pub mod stream;
mod text;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use site::log_line::Attempt;
use site::watch::Filter;
use taipan_http::head::{Head, Method, Version};
use taipan_http::response::ResponseHead;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::Scheme;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::clock;
use crate::peer::Peer;
use crate::tls_facts::TlsFacts;

/// The most watchers of a process.
pub const MAX_WATCHERS: usize = 8;
/// Events that wait for a watcher. Further ones are left out and counted.
const QUEUE: usize = 128;

/// A watcher, for the workers.
pub struct Watch {
    filter: Filter,
    queue: Sender<Event>,
    /// Of the next request that it is shown.
    number: AtomicU64,
    /// Requests and events that it was not shown, and has not learned of.
    left_out: AtomicU64,
    /// A second in the upper half, and the requests that were shown in it.
    shown: AtomicU64,
    /// Notified when this process serves no more.
    ended: Notify,
}

/// What a watcher is shown of a request. The parts of one request have the same number.
pub enum Event {
    Request(u64, Arc<WatchedRequest>),
    Response(u64, Arc<WatchedResponse>),
    End(u64, Arc<WatchedEnd>),
    /// All at once.
    Whole(u64, Arc<WatchedRequest>, Arc<WatchedResponse>, Arc<WatchedEnd>),
}

/// How a request has arrived.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub client: Peer,
    /// The address of the server that the connection was made to. `None`: a Unix socket, or it is not known.
    pub server: Option<IpAddr>,
    /// The index of the host.
    pub host: usize,
    pub tls: Option<&'a TlsFacts>,
}

/// A request, as it was received.
pub struct WatchedRequest {
    client: Peer,
    /// The address of the server that the connection was made to. `None`: a Unix socket, or it is not known.
    server: Option<IpAddr>,
    /// The index of the host.
    host: usize,
    /// Microseconds since 1970.
    time: u64,
    method: Method,
    token: String,
    raw_target: String,
    scheme: Scheme,
    version: Version,
    authority: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    tls: Option<TlsFacts>,
}

/// The response, when its head was made.
pub struct WatchedResponse {
    pub status: Status,
    pub fields: Vec<(String, Vec<u8>)>,
    pub user: Option<String>,
    pub cache: Option<&'static str>,
}

impl WatchedResponse {
    pub fn new(status: Status, head: Option<&ResponseHead>, user: Option<&str>) -> WatchedResponse {
        let field = |(name, value): (&str, &[u8])| (name.to_owned(), value.to_vec());
        let fields = head.map(|head| head.fields().map(field).collect()).unwrap_or_default();
        WatchedResponse { status, fields, user: user.map(str::to_owned), cache: None }
    }
}

/// The end of the exchange.
pub struct WatchedEnd {
    /// Bytes of the content.
    pub sent: u64,
    pub micros: u64,
    /// Why it has ended early.
    pub why: Option<String>,
    /// The rule that the request broke.
    pub rule: Option<&'static Rule>,
    pub attempts: Vec<WatchedAttempt>,
}

/// A request that was sent to an upstream. Times are in microseconds.
pub struct WatchedAttempt {
    address: String,
    status: Option<Status>,
    connect: Option<u64>,
    first_byte: Option<u64>,
    total: Option<u64>,
}

impl From<&Attempt> for WatchedAttempt {
    fn from(attempt: &Attempt) -> WatchedAttempt {
        WatchedAttempt {
            address: attempt.address.to_string(),
            status: attempt.status,
            connect: attempt.connect_micros,
            first_byte: attempt.first_byte_micros,
            total: attempt.total_micros,
        }
    }
}

impl Watch {
    /// Also returns its events.
    pub fn new(filter: Filter) -> (Arc<Watch>, Receiver<Event>) {
        let (queue, events) = channel(QUEUE);
        let watch = Watch {
            filter,
            queue,
            number: AtomicU64::new(1),
            left_out: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            ended: Notify::new(),
        };
        (Arc::new(watch), events)
    }

    /// Whether the watcher still reads.
    pub fn is_open(&self) -> bool {
        !self.queue.is_closed()
    }

    /// This process serves no more: the watcher is to go to the next one.
    pub fn end(&self) {
        self.ended.notify_one();
    }

    /// The number of a request that is shown. `None`: there were too many in this second.
    fn admit(&self) -> Option<u64> {
        let second = clock::micros() / 1_000_000;
        let rate = u64::from(self.filter.rate());
        let count = |shown: u64| {
            let now = if shown >> 32 == second { shown } else { second << 32 };
            (now & u64::from(u32::MAX) < rate).then_some(now + 1)
        };
        match self.shown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) {
            Ok(_) => Some(self.number.fetch_add(1, Ordering::Relaxed)),
            Err(_) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn send(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The watchers, as one worker knows them.
#[derive(Default)]
pub struct Watches {
    is_on: Cell<bool>,
    all: RefCell<Vec<Arc<Watch>>>,
}

impl Watches {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    pub fn add(&self, watch: Arc<Watch>) {
        let mut all = self.all.borrow_mut();
        // A worker without requests would keep all that there ever were.
        all.retain(|watch| watch.is_open());
        all.push(watch);
        self.is_on.set(true);
    }

    /// A request of which watchers are shown something. `None`: none matches.
    #[cold]
    pub fn begin(&self, head: &Head<'_>, arrival: Arrival<'_>) -> Option<Box<Watched>> {
        let mut all = self.all.borrow_mut();
        all.retain(|watch| watch.is_open());
        self.is_on.set(!all.is_empty());
        let matches = |watch: &&Arc<Watch>| {
            watch.filter.matches_request(arrival.client.ip(), head.authority, head.raw_target)
        };
        let matching: Vec<&Arc<Watch>> = all.iter().filter(matches).collect();
        if matching.is_empty() {
            return None;
        }
        let request = Arc::new(WatchedRequest::of(head, arrival));
        let mut viewers = Vec::new();
        for watch in matching {
            if watch.filter.is_of_end() {
                viewers.push(Viewer { watch: watch.clone(), number: None });
            } else if let Some(number) = watch.admit() {
                watch.send(Event::Request(number, request.clone()));
                viewers.push(Viewer { watch: watch.clone(), number: Some(number) });
            }
        }
        (!viewers.is_empty()).then(|| Box::new(Watched { request, response: None, viewers }))
    }
}

/// A request that is watched. Its watchers are notified when it is dropped before its end.
pub struct Watched {
    request: Arc<WatchedRequest>,
    response: Option<Arc<WatchedResponse>>,
    viewers: Vec<Viewer>,
}

struct Viewer {
    watch: Arc<Watch>,
    /// `None`: the end decides whether it is shown.
    number: Option<u64>,
}

impl Watched {
    pub fn respond(&mut self, response: WatchedResponse) {
        let response = Arc::new(response);
        for Viewer { watch, number } in &self.viewers {
            if let Some(number) = number {
                watch.send(Event::Response(*number, response.clone()));
            }
        }
        self.response = Some(response);
    }

    pub fn end(&mut self, end: WatchedEnd) {
        let end = Arc::new(end);
        for Viewer { watch, number } in self.viewers.drain(..) {
            match (number, &self.response) {
                (Some(number), _) => watch.send(Event::End(number, end.clone())),
                (None, Some(response)) => {
                    let upstreams = end.attempts.iter().map(|attempt| attempt.address.as_str());
                    if watch.filter.matches_end(response.status, end.micros, upstreams)
                        && let Some(number) = watch.admit()
                    {
                        let (request, response) = (self.request.clone(), response.clone());
                        watch.send(Event::Whole(number, request, response, end.clone()));
                    }
                }
                (None, None) => {}
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.viewers.is_empty() {
            let micros = clock::wall_micros().saturating_sub(self.request.time);
            let why = Some("no response was sent".to_owned());
            self.end(WatchedEnd { sent: 0, micros, why, rule: None, attempts: Vec::new() });
        }
    }
}

impl WatchedRequest {
    fn of(head: &Head<'_>, Arrival { client, server, host, tls }: Arrival<'_>) -> WatchedRequest {
        WatchedRequest {
            client,
            server,
            host,
            time: clock::wall_micros(),
            method: head.method,
            token: head.token.to_owned(),
            raw_target: head.raw_target.to_owned(),
            scheme: head.scheme,
            version: head.version,
            authority: head.authority.to_vec(),
            fields: head.fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect(),
            tls: tls.cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
