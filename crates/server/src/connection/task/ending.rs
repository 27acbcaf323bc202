//! How a connection ends in its task: rejected, evicted, too slow, or behind its last response.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;

use taipan_http::status::Status;

use super::{End, Task};
use crate::connection::Phase;
use crate::connection::h2;
use crate::connection::idle;
use crate::connection::output::{Output, Persistence};
use crate::connection::tls::Failure;
use crate::connection::transport::Interruption;
use crate::log::EndReason;
use crate::log::access::Records;
use crate::response::Response;
use crate::stats::Count;

/// Bytes that a client may still send after the last response. Then the connection is closed.
const LINGER_BYTES: usize = 1024 * 1024;

impl Task {
    /// Reads one request and rejects it with `response`. When the deadline passes, or another connection is to be
    /// rejected, it is rejected as far as it has come, and the connection does not linger.
    pub(super) async fn reject(&mut self, response: &Response) -> Result<End, Interruption> {
        loop {
            match self.transport.receive().await {
                Ok(()) => {}
                Err(Interruption::TimedOut) if !self.transport.has_input() => return Ok(End::Close),
                Err(Interruption::TimedOut | Interruption::Evicted) => {
                    // The rest may have come by now.
                    self.transport.receive_at_once();
                    let input = self.transport.buffered.take();
                    let output = self.http.reject_next(&self.connections, &input, response);
                    let mut output = output.unwrap_or_else(|| {
                        self.http.reject_unread(&self.connections.services, &input, response)
                    });
                    self.write(&mut output).await?;
                    self.transport.close_at_once();
                    return Ok(End::Close);
                }
                Err(broken) => return Err(broken),
            }
            if self.begins_http2(&self.transport.buffered.borrow()) {
                let mut output =
                    Output::of_bytes(h2::refusal(), Records::default(), Persistence::LingeringClose);
                self.write(&mut output).await?;
                self.linger_in(Phase::Rejected).await;
                return Ok(End::Close);
            }
            let input = self.transport.buffered.take();
            match self.http.reject_next(&self.connections, &input, response) {
                Some(mut output) => {
                    self.write(&mut output).await?;
                    self.linger_in(Phase::Rejected).await;
                    return Ok(End::Close);
                }
                None => _ = self.transport.buffered.replace(input),
            }
        }
    }

    /// Closes the connection for another one, because its client has been too slow: with 408 where a request had begun.
    pub(super) async fn on_evicted(&mut self) -> End {
        if self.permit.is_some() {
            return End::Close;
        }
        self.connections.services.counts.add(Count::EvictedSlow, 1);
        let input = self.transport.buffered.take();
        let output = self.http.time_out(
            &self.connections.services,
            &input,
            Status::REQUEST_TIMEOUT,
            EndReason::Evicted,
        );
        if let Some(mut output) = output
            && self.write(&mut output).await.is_ok()
        {
            self.transport.close_at_once();
        }
        End::Close
    }

    /// Responds with 408 if the client was too slow with a request. Without one, the connection just closes.
    pub(super) async fn on_timeout(&mut self) -> End {
        let (count, why) = match self.transport.entry.state.phase() {
            Phase::Head => (Count::TimeoutHead, EndReason::RequestTooSlow),
            Phase::Body => (Count::TimeoutBody, EndReason::RequestTooSlow),
            Phase::Write => (Count::TimeoutWrite, EndReason::ClientTooSlow),
            Phase::Respond
            | Phase::Receive
            | Phase::Idle
            | Phase::Upgraded
            | Phase::Linger
            | Phase::Rejected => (Count::TimeoutIdle, EndReason::RequestTooSlow),
        };
        self.connections.services.counts.add(count, 1);
        let input = self.transport.buffered.take();
        let output = self.http.time_out(&self.connections.services, &input, Status::REQUEST_TIMEOUT, why);
        let Some(mut output) = output else { return End::Close };
        match self.write(&mut output).await {
            Ok(_) => End::Linger,
            Err(_) => End::Close,
        }
    }

    /// Responds with 400 where a response had not begun (RFC 9112 §8): a client that closes only its side reads it.
    pub(super) async fn on_incomplete_body(&mut self) -> End {
        self.transport.buffered.take();
        let Some(mut output) = self.http.reject_incomplete(&self.connections.services) else {
            return End::Close;
        };
        match self.write(&mut output).await {
            Ok(_) => End::Drain,
            Err(_) => End::Close,
        }
    }

    pub(super) fn log_failed_session(&self) {
        let stream = &self.transport.stream;
        let session = stream.session().map(RefCell::borrow);
        let failure = session.as_ref().and_then(|session| session.failure());
        if let Some(failure) = failure.filter(|failure| !matches!(failure, Failure::Cut)) {
            self.connections.failures.log_session(self.client.peer(), failure);
        }
    }

    /// Writes the log line of a request that has begun and gets no response.
    pub(super) fn log_aborted(&mut self, status: Status, why: EndReason) {
        let input = self.transport.buffered.take();
        self.http.log_aborted(&self.connections.services, &input, status, why);
    }

    /// Closing with unread input would send a reset, which may destroy the last bytes of the response (RFC 9112 §9.6).
    /// So an end is sent, and input is read until the client has closed.
    pub(super) async fn linger(&mut self) {
        self.connections
            .acceptor
            .lingering
            .add(&self.transport.entry.state, self.connections.services.site.limits.connections);
        self.linger_in(Phase::Linger).await;
    }

    async fn linger_in(&mut self, phase: Phase) {
        self.transport.stream.shut_down();
        if let Err(Interruption::Evicted) = self.discard_input(phase).await {
            self.connections.services.counts.add(Count::Evicted, u64::from(self.permit.is_none()));
            self.transport.close_at_once();
        }
    }

    /// Reads and drops input until the client closes. The rest of a body has a limit, and a least rate.
    async fn discard_input(&mut self, phase: Phase) -> Result<(), Interruption> {
        if !self.transport.is_body_read() {
            let discard = poll_fn(|cx| self.transport.poll_discard(cx));
            self.unless_interrupted(pin!(discard)).await?;
        }
        self.transport.buffered.take();
        self.transport.enter(phase);
        let mut left = LINGER_BYTES;
        while left > 0 {
            self.transport.receive().await?;
            left = left.saturating_sub(self.transport.buffered.take().len());
        }
        Ok(())
    }

    /// Closes, or leaves the connection to the idle set while the client has yet to take much.
    pub(super) fn drain(self) {
        let Task { transport, client, connections, .. } = self;
        if transport.entry.state.is_disconnected() {
            transport.stream.reset_when_closed();
        } else if transport.stream.unacknowledged() <= idle::KEPT {
            transport.stream.close_session();
        } else if let Some((socket, _)) = transport.into_socket() {
            connections.drain(socket, client);
        }
    }
}
