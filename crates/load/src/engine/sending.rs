//! Sends requests on a connection, into the socket or through TLS, at full speed or at the rate of the client's
//! shape.

use std::time::Instant;

use super::connection::{Codec, Connection, Stage};
use super::socket;
use super::thread_state::ThreadState;
use super::transport::{self, Transport};
use crate::run::Fault;
use crate::shape::{Closing, RateLimiter, Shape};

/// Bytes that the transport has not taken yet.
#[derive(Default)]
pub(super) struct SendQueue {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    /// Bytes before this position belong to a head, which may have a rate of its own.
    pub(super) head_end: usize,
    pub(super) limiter: Option<RateLimiter>,
}

impl SendQueue {
    /// What may be sent next without a change of rate: the bytes per second, if they are bounded, and the bytes.
    fn next_part(&self, shape: &Shape) -> (Option<u64>, usize) {
        let rest = self.bytes.len() - self.at;
        match self.head_end.checked_sub(self.at) {
            Some(head @ 1..) => (shape.write_head, head.min(rest)),
            _ => (shape.write_body, rest),
        }
    }

    fn clear(&mut self) {
        *self = SendQueue { bytes: std::mem::take(&mut self.bytes), ..SendQueue::default() };
        self.bytes.clear();
    }
}

impl Connection {
    /// Sends the pending requests that were not sent yet.
    pub(super) fn send(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        let plan = state.plan;
        let first = self.pending.len() - self.unsent;
        if let (Transport::Plain, Codec::H1(_), 1, true, true) = (
            &self.transport,
            &self.codec,
            self.unsent,
            self.send_queue.bytes.is_empty(),
            plan.shape.is_plain(),
        ) && let (Some(pending), Some(socket)) = (self.pending.get_mut(first), &self.socket)
        {
            // The fast path of nearly every request: nothing is copied.
            (pending.sent, pending.last_activity) = (now, now);
            let request = &plan.requests[pending.request as usize];
            self.unsent = 0;
            match socket::send(socket, &request.bytes) {
                Ok(count) => {
                    state.tally.sent(count);
                    if count < request.bytes.len() {
                        self.send_queue.bytes.extend_from_slice(&request.bytes[count..]);
                    }
                }
                Err(fault) => self.fail_connection(state, fault, now),
            }
            return;
        }
        for pending in self.pending.range_mut(first..) {
            (pending.sent, pending.last_activity) = (now, now);
            let request = &plan.requests[pending.request as usize];
            match &mut self.codec {
                Codec::H1(_) => {
                    self.send_queue.bytes.extend_from_slice(&request.bytes);
                    self.send_queue.head_end = self.send_queue.bytes.len() - request.body.len();
                }
                Codec::H2(client) => {
                    pending.stream = client.send_request(request, &plan.targets[request.target])
                }
            }
        }
        self.unsent = 0;
        self.flush(state, now);
    }

    /// Sends until the queue is empty, the socket is full or the rate is used up.
    pub(super) fn flush(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        if let Err(fault) = self.try_flush(state, now) {
            self.fail_connection(state, fault, now);
        }
    }

    fn try_flush(&mut self, state: &mut ThreadState<'_>, now: Instant) -> Result<(), Fault> {
        let (Some(socket), false) = (&self.socket, matches!(self.transport, Transport::InUse)) else {
            return Ok(());
        };
        if let Codec::H2(client) = &mut self.codec {
            client.drain_into(&mut self.send_queue.bytes);
        }
        // Bounded by the bytes: every pass sends some, or ends.
        while self.send_queue.at < self.send_queue.bytes.len() {
            let (rate, mut allowed) = self.send_queue.next_part(&state.plan.shape);
            if let Some(rate) = rate {
                let limiter = self.send_queue.limiter.get_or_insert_with(|| RateLimiter::new(rate, now));
                allowed = allowed.min(limiter.due(now));
                if allowed == 0 {
                    let at = limiter.next(now);
                    self.schedule_wake(state, at);
                    return Ok(());
                }
                limiter.take(allowed);
            }
            let bytes = &self.send_queue.bytes[self.send_queue.at..][..allowed];
            let count = match &mut self.transport {
                Transport::InUse => 0,
                Transport::Plain => socket::send(socket, bytes)?,
                Transport::Tls(tls) => {
                    let count = transport::write(tls, bytes)?;
                    transport::push(tls, socket)?;
                    count
                }
            };
            if count == 0 {
                return Ok(());
            }
            state.tally.sent(count);
            self.send_queue.at += count;
            if self.send_queue.at == self.send_queue.head_end {
                self.send_queue.limiter = None;
            }
            if let Some(first) = self.pending.front_mut() {
                // The timeout of the response starts when a slow writer has finished.
                first.last_activity = now;
                if rate.is_some() {
                    first.sent = now;
                }
            }
        }
        if let Transport::Tls(tls) = &mut self.transport {
            transport::push(tls, socket)?;
        }
        if !self.send_queue.bytes.is_empty() {
            self.send_queue.clear();
            if state.plan.shape.closing == Closing::HalfClose && self.stage == Stage::Open {
                socket::shut_down_writing(socket);
            }
        }
        Ok(())
    }

    pub(super) fn has_output(&self) -> bool {
        match &self.transport {
            Transport::Plain => !self.send_queue.bytes.is_empty(),
            Transport::Tls(_) | Transport::InUse => true,
        }
    }
}
