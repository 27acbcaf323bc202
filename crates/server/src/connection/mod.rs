//! Connections. An idle connection is an entry of the `idle` set. A connection that has to wait has a `task`, an entry
//! in the connection `table` with its phase, and a deadline for each phase. `h1` reads requests, and `output` sends
//! responses.
//!
//! Knows nothing of content.

pub mod acceptor;

pub mod client;

mod proxied;

pub mod handshake_rate;

mod connections;

pub mod idle;

mod h1;

mod h2;

mod batch;

mod output;

mod log_guard;

mod task;

mod table;

pub mod stream;

#[cfg_attr(not(feature = "tls"), path = "tls_absent.rs")]
mod tls;

mod transport;
mod tunnel;

use std::cmp::Reverse;
use std::time::Duration;

use site::model::Site;

pub use connections::{Connections, Disconnected};
pub use table::{ConnectionState, Leaving};

use crate::clock::{Ticks, in_ticks};

/// What a connection with a task waits for. Each phase has a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The rest of a request head.
    Head,
    /// A request body.
    Body,
    /// The response, or more of its body. What makes it has deadlines of its own.
    Respond,
    /// The response of an application to a request that the fast path has sent. When this phase is over, the driver
    /// awaits it.
    Receive,
    /// The client takes the response.
    Write,
    /// The next request, or the first.
    Idle,
    /// Its protocol was switched: bytes pass between the client and an upstream.
    Upgraded,
    /// The last response is sent, and the client has not closed yet (RFC 9112 §9.6).
    Linger,
    /// The worker is at capacity: one request is read, and rejected.
    Rejected,
}

/// What the worker notifies a connection of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has been idle for a while: its task and buffers are to be freed.
    Park,
    /// The time of its phase has passed. It continues if enough bytes were sent or received.
    CheckRate,
    /// Its deadline has passed.
    TimeOut,
    /// It is to measure how much of the response the client has taken.
    Measure,
    /// It is to close, for another connection.
    Evict,
    /// An administrator ends it, or one of its streams.
    Disconnect,
}

/// How long a connection may wait for the same.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    pub ticks: Ticks,
    /// So many bytes within that time extend it.
    enough: u64,
}

impl Deadline {
    /// True if this many bytes in one whole phase are enough for another.
    pub fn is_extended_by(self, bytes: u64) -> bool {
        bytes >= self.enough
    }
}

/// The deadlines of all phases, and that of an idle connection within its TLS handshake.
#[derive(Debug, Clone)]
pub struct Deadlines {
    pub handshake: Deadline,
    head: Deadline,
    body: Deadline,
    respond: Deadline,
    receive: Deadline,
    write: Deadline,
    idle: Deadline,
    upgraded: Deadline,
    linger: Deadline,
    /// The least rate, in bytes per tick.
    rate: u64,
}

/// Whether a task of a connection had to wait: the connection returns to the idle set when it need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Yes,
    No,
}

/// The task of a connection that has been idle this long ends.
const PARK_AFTER: Ticks = 4;
/// If a request that the fast path has sent has no response by then, the driver goes on with it.
const DRIVER_AFTER: Ticks = 2;
/// A connection that has been idle, or too slow, this long may be closed for another.
const EVICT_AFTER: Ticks = 4;

impl Deadlines {
    pub fn new(site: &Site) -> Deadlines {
        let (timeouts, bytes_per_second) = (&site.timeouts, site.limits.min_rate);
        let per_second = in_ticks(Duration::from_secs(1));
        let rate = bytes_per_second.div_ceil(u64::from(per_second));
        let extended = |ticks: Ticks| Deadline { ticks, enough: rate.saturating_mul(ticks.max(1).into()) };
        // Without a least rate, a head still has to be complete in time.
        let total = |ticks| match rate {
            0 => Deadline { ticks, enough: u64::MAX },
            _ => extended(ticks),
        };
        Deadlines {
            handshake: total(in_ticks(site.tls.handshake_timeout)),
            head: total(in_ticks(timeouts.head)),
            body: extended(in_ticks(timeouts.body)),
            respond: extended(Ticks::MAX),
            receive: extended(DRIVER_AFTER),
            write: extended(in_ticks(timeouts.write)),
            idle: extended(in_ticks(timeouts.idle)),
            upgraded: extended(in_ticks(timeouts.upgraded)),
            linger: extended(in_ticks(timeouts.linger)),
            rate,
        }
    }

    /// How long a phase may last before it is checked.
    pub fn of(&self, phase: Phase) -> Deadline {
        match phase {
            Phase::Head => self.head,
            Phase::Body => self.body,
            Phase::Respond => self.respond,
            Phase::Receive => self.receive,
            Phase::Write => self.write,
            Phase::Idle => self.idle,
            Phase::Upgraded => self.upgraded,
            Phase::Linger | Phase::Rejected => self.linger,
        }
    }

    /// What a connection is due for.
    fn event(&self, state: &ConnectionState, now: Ticks) -> Option<Event> {
        let phase = state.phase();
        let lasted = now.wrapping_sub(state.since());
        let over = lasted >= self.of(phase).ticks;
        match phase {
            Phase::Idle => (lasted >= PARK_AFTER).then_some(Event::Park),
            Phase::Head | Phase::Body | Phase::Write => over.then_some(Event::CheckRate),
            Phase::Respond | Phase::Receive | Phase::Upgraded | Phase::Linger | Phase::Rejected => {
                over.then_some(Event::TimeOut)
            }
        }
    }

    /// How slow a client is: its bytes per tick, and for how long. The smallest is the slowest. `None`: it is at the
    /// least rate or above, or has not been slow for long enough, or the connection does not wait for the client.
    fn slowness(&self, state: &ConnectionState, now: Ticks) -> Option<(u64, Reverse<Ticks>)> {
        let until = match state.phase() {
            Phase::Head | Phase::Body => now,
            Phase::Write => state.measured(),
            Phase::Respond
            | Phase::Receive
            | Phase::Idle
            | Phase::Upgraded
            | Phase::Linger
            | Phase::Rejected => return None,
        };
        let (lasted, bytes) = (until.wrapping_sub(state.since()), state.window());
        let is_fast = bytes > 0 && bytes >= self.rate * u64::from(lasted);
        (lasted >= EVICT_AFTER && !is_fast).then(|| (bytes / u64::from(lasted), Reverse(lasted)))
    }
}
