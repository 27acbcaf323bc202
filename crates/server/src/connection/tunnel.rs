//! A connection whose protocol has been switched by a 101 (RFC 9110 §15.2.2): bytes are passed between the client and
//! an upstream, in both directions, as fast as the other side takes them. An end of one direction is passed on, too.
//!
//! Knows nothing of what the bytes mean.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use super::stream::{More, SendStream};
use super::transport::{Broken, Interruption, Transport};
use super::{Event, Phase};
use crate::connection::Connections;
use crate::log::EndReason;
use crate::response::{Tunnel, TunnelError};
use crate::stats::Count;

/// Reads of each side in one turn of the loop.
const READS_PER_TURN: usize = 8;

/// What is on its way in one direction. Nothing more is read before all of it is sent.
#[derive(Default)]
struct Direction {
    bytes: Vec<u8>,
    sent: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Open,
    /// The sender has ended. The receiver is told so behind the last byte.
    Ending,
    Ended,
}

impl Direction {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn needs_bytes(&self) -> bool {
        self.state == State::Open && self.rest().is_empty()
    }

    fn fill(&mut self, bytes: Vec<u8>) {
        (self.bytes, self.sent) = (bytes, 0);
    }

    /// Advances over bytes that were sent. An idle direction holds no buffer.
    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.rest().is_empty() {
            self.fill(Vec::new());
        }
    }
}

pub struct Tunneling<'a> {
    transport: &'a Transport,
    connections: &'a Connections,
    tunnel: &'a dyn Tunnel,
    to_client: Direction,
    to_upstream: Direction,
    /// The session has taken bytes that the socket has not.
    is_unflushed: bool,
    /// Bytes that were sent to the client.
    pub sent: u64,
}

impl<'a> Tunneling<'a> {
    pub fn new(
        transport: &'a Transport,
        connections: &'a Connections,
        tunnel: &'a dyn Tunnel,
    ) -> Tunneling<'a> {
        let mut to_client = Direction::default();
        to_client.fill(tunnel.take_received());
        let to_upstream = Direction::default();
        Tunneling { transport, connections, tunnel, to_client, to_upstream, is_unflushed: false, sent: 0 }
    }

    /// Returns when both directions have ended.
    pub async fn run(&mut self) -> Result<(), Broken> {
        self.transport.enter(Phase::Upgraded);
        let connections = self.connections;
        let mut closing = pin!(connections.services.mode.closing());
        poll_fn(|cx| match closing.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(Broken::failed(EndReason::Stopped))),
            Poll::Pending => self.poll(cx),
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match self.transport.entry.state.take_event(cx.waker()) {
            None | Some(Event::Park | Event::Measure) => {}
            Some(Event::Disconnect) => return Poll::Ready(Err(Interruption::Disconnected.into())),
            // The upstream has ended, and the client does not.
            Some(_) if self.to_client.state == State::Ended => return Poll::Ready(Ok(())),
            Some(Event::Evict) => {
                return Poll::Ready(Err(Broken {
                    by: Interruption::Evicted,
                    reason: EndReason::UpgradedIdle,
                }));
            }
            Some(Event::TimeOut | Event::CheckRate) => {
                self.connections.services.counts.add(Count::TimeoutUpgraded, 1);
                return Poll::Ready(Err(Broken {
                    by: Interruption::TimedOut,
                    reason: EndReason::UpgradedIdle,
                }));
            }
        }
        for _ in 0..READS_PER_TURN {
            let up = self.poll_to_upstream(cx).map_err(Broken::failed)?;
            let down = self.poll_to_client(cx).map_err(Broken::failed)?;
            if self.to_client.state == State::Ended && self.to_upstream.state == State::Ended {
                return Poll::Ready(Ok(()));
            }
            if up.is_pending() && down.is_pending() {
                return Poll::Pending;
            }
            self.transport.enter(match self.to_client.state {
                State::Ended => Phase::Linger,
                State::Open | State::Ending => Phase::Upgraded,
            });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready: bytes were moved, or the direction has just ended.
    fn poll_to_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        if self.to_upstream.state == State::Ended {
            return Poll::Pending;
        }
        if self.to_upstream.needs_bytes() {
            match ready!(self.transport.poll_take(cx)) {
                Ok(bytes) => self.to_upstream.fill(bytes),
                Err(Interruption::EndOfInput) => self.to_upstream.state = State::Ending,
                Err(_) => return Poll::Ready(Err(EndReason::ClientClosed)),
            }
        }
        while !self.to_upstream.rest().is_empty() {
            match ready!(self.tunnel.poll_write(cx, self.to_upstream.rest())) {
                Ok(bytes) => self.to_upstream.advance(bytes),
                // What it has still sent goes to the client.
                Err(_) => {
                    self.to_upstream.fill(Vec::new());
                    self.to_upstream.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        if self.to_upstream.state == State::Ending {
            self.tunnel.shut_down();
            self.to_upstream.state = State::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// As `poll_to_upstream`.
    fn poll_to_client(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        if self.to_client.state == State::Ended {
            return Poll::Pending;
        }
        if self.to_client.needs_bytes() && !self.is_unflushed {
            let scratch = &mut *self.connections.services.scratch.borrow_mut();
            match ready!(self.tunnel.poll_read(cx, scratch.space())) {
                Ok(0) => self.to_client.state = State::Ending,
                Ok(bytes) => {
                    let bytes = scratch.space()[..bytes].to_vec();
                    self.to_client.fill(bytes);
                }
                Err(TunnelError::NoPong) => {
                    self.connections.services.counts.add(Count::TimeoutUpgraded, 1);
                    return Poll::Ready(Err(EndReason::NoPong));
                }
                Err(TunnelError::Upstream(_)) => {
                    // The client must not take this for an end.
                    self.transport.stream.reset_when_closed();
                    return Poll::Ready(Err(EndReason::ApplicationEnded));
                }
            }
        }
        ready!(self.poll_send(cx)).map_err(|error| EndReason::of(&error))?;
        if self.to_client.state == State::Ending {
            self.transport.stream.shut_down();
            self.to_client.state = State::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready: the socket has all bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = &self.transport.stream;
        loop {
            let sent = match self.to_client.rest() {
                [] if !self.is_unflushed => return Poll::Ready(Ok(())),
                [] => stream.try_flush().map(|()| 0),
                rest => stream.try_send(rest, More::Nothing),
            };
            match sent {
                Ok(0) if self.to_client.rest().is_empty() => self.is_unflushed = false,
                Ok(bytes) => {
                    self.is_unflushed = true;
                    self.sent += bytes as u64;
                    self.to_client.advance(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(stream.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
