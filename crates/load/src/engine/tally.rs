//! Counts the finished requests of one thread into a `Measured`.

use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::run::{Fault, Measured, Tls};
use crate::tls;
use crate::verify::Sum;

/// A request that is under way.
#[derive(Debug)]
pub struct Pending {
    /// Its index in the plan.
    pub request: u32,
    /// The stream of HTTP/2; 0 in HTTP/1.
    pub stream: u32,
    pub status: u16,
    /// When it was meant to start.
    pub intended: Instant,
    /// When its last byte was handed to the socket; `intended` until then.
    pub sent: Instant,
    pub first_byte: Option<Instant>,
    /// When bytes of it were last sent or received.
    pub last_activity: Instant,
    pub head_bytes: u32,
    pub plain_head_bytes: u32,
    pub body_bytes: u64,
    /// The Content-Length of an HTTP/2 response.
    pub announced: Option<u64>,
    pub sum: Option<Sum>,
}

/// What one thread has measured.
#[derive(Debug)]
pub struct Tally {
    pub measured: Measured,
    /// Requests with an earlier intended start are not counted (warm-up).
    pub begin: Instant,
    /// When the last counted request ended.
    pub last: Instant,
    pub server_name: Option<String>,
    /// Bytes of the first body.
    pub first_length: Option<u64>,
    pub tls: Option<Tls>,
    open: u64,
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

impl Pending {
    /// Not sent yet.
    pub const fn new(request: u32, intended: Instant) -> Pending {
        Pending {
            request,
            stream: 0,
            status: 0,
            intended,
            sent: intended,
            first_byte: None,
            last_activity: intended,
            head_bytes: 0,
            plain_head_bytes: 0,
            body_bytes: 0,
            announced: None,
            sum: None,
        }
    }
}

impl Tally {
    /// Nothing was measured yet.
    pub fn new(begin: Instant) -> Tally {
        Tally {
            measured: Measured::default(),
            begin,
            last: begin,
            server_name: None,
            first_length: None,
            tls: None,
            open: 0,
        }
    }

    #[inline]
    fn counts(&self, intended: Instant) -> bool {
        intended >= self.begin
    }

    /// A request was assigned to a connection.
    pub fn started(&mut self, intended: Instant) {
        if self.counts(intended) {
            self.measured.started += 1;
        }
    }

    /// A connection was established, which was begun at `since`.
    pub fn connected(&mut self, since: Instant, now: Instant) {
        self.open += 1;
        self.measured.most_connections = self.measured.most_connections.max(self.open);
        if self.counts(since) {
            self.measured.connections += 1;
            self.measured.connect.record(micros(now - since));
        }
    }

    /// A connection is closed.
    pub fn closed(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// A TLS handshake, begun at `since`, is complete.
    pub fn on_handshake(&mut self, since: Instant, now: Instant, tls: &ClientConnection) {
        if self.counts(since) {
            self.measured.handshake.record(micros(now - since));
            self.measured.resumed += u64::from(tls::is_resumed(tls));
        }
        if self.tls.is_none() {
            self.tls = tls::names(tls);
        }
    }

    /// Bytes that the socket has taken.
    pub fn sent(&mut self, bytes: usize) {
        self.measured.sent_bytes += bytes as u64;
    }

    /// A right response.
    pub fn done(&mut self, pending: &Pending, now: Instant) {
        if !self.counts(pending.intended) {
            return;
        }
        let total = micros(now.saturating_duration_since(pending.intended));
        let first = pending.first_byte.unwrap_or(now);
        let measured = &mut self.measured;
        measured.done += 1;
        measured.first_byte.record(micros(first.saturating_duration_since(pending.sent)));
        measured.last_byte.record(micros(now.saturating_duration_since(pending.sent)));
        measured.total.record(total);
        measured.longest = measured.longest.max(total);
        let bytes = count_response(measured, pending);
        measured.series.done(micros(now.saturating_duration_since(self.begin)), total, bytes);
        self.first_length.get_or_insert(pending.body_bytes);
        self.last = now;
    }

    /// A failed request.
    pub fn failed(&mut self, pending: &Pending, fault: Fault, url: &str, now: Instant) {
        if !self.counts(pending.intended) {
            return;
        }
        let total = micros(now.saturating_duration_since(pending.intended));
        let measured = &mut self.measured;
        measured.fail(fault, url);
        measured.longest = measured.longest.max(total);
        let bytes = count_response(measured, pending);
        measured.series.failed(micros(now.saturating_duration_since(self.begin)), total, bytes);
        self.last = now;
    }

    /// A response that was still arriving at the end of the run: neither right nor wrong, but its bytes count.
    pub fn cut_off(&mut self, pending: &Pending) {
        if self.counts(pending.intended) {
            self.measured.head_bytes += u64::from(pending.head_bytes);
            self.measured.plain_head_bytes += u64::from(pending.plain_head_bytes);
            self.measured.body_bytes += pending.body_bytes;
        }
    }

    /// The connection stayed open after a counted response.
    #[inline]
    pub fn kept(&mut self, intended: Instant) {
        self.measured.kept_alive += u64::from(self.counts(intended));
    }
}

/// Counts the status and bytes of a response, right or wrong. Returns its bytes.
#[inline]
fn count_response(measured: &mut Measured, pending: &Pending) -> u64 {
    if pending.status > 0 {
        measured.statuses.count(pending.status);
    }
    measured.head_bytes += u64::from(pending.head_bytes);
    measured.plain_head_bytes += u64::from(pending.plain_head_bytes);
    measured.body_bytes += pending.body_bytes;
    u64::from(pending.head_bytes) + pending.body_bytes
}
