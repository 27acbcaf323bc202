//! A command or a peer that reads lines, or a collector that is sent spans: what is queued for it is written as fast as
//! it reads, and it is started or connected again when it has ended.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use site::endpoint::EndpointAddress;
use site::model::Sink;
use site::sink::Collector;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::collector::{self, Encryption, Failure};
use super::connection::Connection;
use super::queue::Queue;
use crate::log;
use crate::process::supervisor::{self, RestartLimit};
use crate::resolver::Resolver;

/// How long the last lines may take to be delivered, and a command to end then.
pub const DELIVERY: Duration = Duration::from_secs(5);
/// A reader that lasts so long has done its work: the pauses before the next one begin anew.
const LASTS: Duration = Duration::from_secs(10);
/// How long spans are gathered for one request, and the bytes of it.
const GATHER: Duration = Duration::from_millis(500);
const MAX_EXPORT: usize = 512 * 1024;
/// Dropped lines are reported at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// A command or a peer, with what waits for it.
pub struct Reader {
    sink: Sink,
    /// Of a collector.
    encryption: Encryption,
    queue: RefCell<Queue>,
    /// Something was queued, or nothing more will be.
    changed: Notify,
    is_ending: Cell<bool>,
    /// `is_ending` was set.
    ended: Notify,
    reported: Cell<Option<Instant>>,
    dropped: &'static AtomicU64,
}

impl Reader {
    /// `limit`: bytes that may wait. `dropped` counts the log lines that it drops.
    pub fn new(sink: Sink, encryption: Encryption, limit: usize, dropped: &'static AtomicU64) -> Reader {
        Reader {
            sink,
            encryption,
            queue: RefCell::new(Queue::new(limit)),
            changed: Notify::new(),
            is_ending: Cell::new(false),
            ended: Notify::new(),
            reported: Cell::new(None),
            dropped,
        }
    }

    pub fn has_name(&self) -> bool {
        self.sink.address().is_some_and(EndpointAddress::is_name)
    }

    /// Adds whole lines to those that wait.
    pub fn push(&self, lines: &[u8]) {
        self.queue.borrow_mut().push(lines);
        self.changed.notify_one();
        self.report_lost("it reads too slowly, or cannot be reached");
    }

    /// The logger ends: `feed` returns when the last lines are delivered, or the time for that is over.
    pub fn end(&self) {
        self.is_ending.set(true);
        self.ended.notify_one();
        self.changed.notify_one();
    }

    /// Keeps the reader running or connected, and writes what is queued, until the logger ends.
    pub async fn feed(&self, resolver: Option<&Resolver>) {
        let mut limit = RestartLimit::of_applications();
        if let Sink::Collector(collector) = &self.sink {
            self.feed_collector(collector, resolver, &mut limit).await;
        }
        while !self.is_done() {
            let began = Instant::now();
            let mut connection = match self.connect(resolver).await {
                Ok(connection) => connection,
                Err(why) => {
                    self.pause(&mut limit, &why).await;
                    continue;
                }
            };
            let Some(why) = self.pump(&connection).await else {
                self.finish(connection).await;
                break;
            };
            connection.end().await;
            self.queue.borrow_mut().rewind(connection.unread());
            if began.elapsed() >= LASTS {
                limit.reset();
            }
            self.pause(&mut limit, &why).await;
        }
        self.queue.borrow_mut().clear();
        self.reported.set(None);
        self.report_lost("it did not take the last lines in time");
    }

    /// Sends what is queued to a collector, until the logger ends. One request has what was queued within `GATHER`.
    async fn feed_collector(
        &self,
        collector: &Collector,
        resolver: Option<&Resolver>,
        limit: &mut RestartLimit,
    ) {
        while !self.is_done() {
            if self.queue.borrow().is_empty() {
                self.changed.notified().await;
                continue;
            }
            _ = timeout(GATHER, self.ending()).await;
            let lines = self.queue.borrow().gather(MAX_EXPORT);
            match collector::send(collector, &self.encryption, resolver, &lines).await {
                Ok(rejected) => {
                    self.queue.borrow_mut().remove(&lines, rejected);
                    limit.reset();
                    self.report_lost("it has rejected them");
                }
                Err(Failure::Rejected(why)) => {
                    self.queue.borrow_mut().remove(&lines, u64::MAX);
                    self.report_lost(&why);
                }
                Err(Failure::Retry(why)) => self.pause(limit, &why).await,
            }
        }
    }

    async fn connect(&self, resolver: Option<&Resolver>) -> Result<Connection, String> {
        match &self.sink {
            Sink::Command(words) => Connection::start(words),
            Sink::Tcp(address) => Connection::connect(address, resolver).await,
            Sink::Stdout | Sink::Stderr | Sink::Syslog | Sink::File(_) | Sink::Collector(_) => {
                Err("it is no reader".to_owned())
            }
        }
    }

    /// Writes until the reader ends, and says why it has. `None`: the logger ends, and everything is written, or the
    /// time for it is over.
    async fn pump(&self, connection: &Connection) -> Option<String> {
        let late = async {
            self.ending().await;
            sleep(DELIVERY).await;
        };
        let written = async {
            loop {
                if self.is_done() {
                    return None;
                }
                let block = self.queue.borrow().front().map(<[u8]>::to_vec);
                match block {
                    Some(block) => match connection.write(&block).await {
                        Ok(count) => self.queue.borrow_mut().advance(count),
                        Err(error) => return Some(format!("cannot write to it: {error}")),
                    },
                    None => self.changed.notified().await,
                }
                self.report_lost("it has read too slowly, or could not be reached");
            }
        };
        tokio::select! {
            // Its end says more than an error of `write`.
            biased;
            why = connection.ended() => Some(why),
            () = late => None,
            failed = written => failed,
        }
    }

    /// Lets the reader read to the end.
    async fn finish(&self, mut connection: Connection) {
        if self.queue.borrow().is_empty() {
            _ = timeout(DELIVERY, connection.close()).await;
        }
        connection.end().await;
        self.queue.borrow_mut().rewind(connection.unread());
    }

    async fn pause(&self, limit: &mut RestartLimit, why: &str) {
        let pause = limit.count(Instant::now());
        log::error(format_args!("{}: {why}; it is tried again {}", self.label(), supervisor::text(pause)));
        let is_ending = timeout(pause, self.ending()).await.is_ok();
        // At the end, one more attempt follows at once, and then no other.
        if is_ending && limit.ends() > 1 {
            self.queue.borrow_mut().clear();
        }
    }

    /// Pending until the logger ends.
    async fn ending(&self) {
        while !self.is_ending.get() {
            self.ended.notified().await;
        }
    }

    /// The logger ends, and nothing waits.
    fn is_done(&self) -> bool {
        self.is_ending.get() && self.queue.borrow().is_empty()
    }

    fn label(&self) -> String {
        match &self.sink {
            Sink::Collector(collector) => format!("collector {collector}"),
            sink => format!("log {sink}"),
        }
    }

    fn report_lost(&self, why: &str) {
        if self.reported.get().is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return;
        }
        let lost = self.queue.borrow_mut().take_lost();
        if lost > 0 {
            self.reported.set(Some(Instant::now()));
            let is_of_spans = matches!(self.sink, Sink::Collector(_));
            if !is_of_spans {
                self.dropped.fetch_add(lost, Ordering::Relaxed);
            }
            let what = log::were_dropped(lost, if is_of_spans { "span" } else { "log line" });
            log::error(format_args!("{what}: {}: {why}", self.label()));
        }
    }
}
