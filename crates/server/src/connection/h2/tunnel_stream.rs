//! A stream whose protocol has been switched (RFC 8441): what the upstream sends is the content of the response, and
//! the client's content goes to the upstream, as fast as it takes that.
//!
//! Knows nothing of what the bytes mean.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::stream_body::StreamBody;
use crate::log::EndReason;
use crate::response::{BodyStream, NextChunk, Tunnel, TunnelError};
use crate::services::Services;
use crate::stats::Count;

pub struct TunnelStream {
    tunnel: Box<dyn Tunnel>,
    body: StreamBody,
    /// What is on its way to the upstream. Nothing more is taken before all of it is sent.
    chunk: Vec<u8>,
    written: usize,
    to_upstream: State,
    from_upstream: State,
    /// Since when no byte has come from either side.
    idle_since: Instant,
    idle_timeout: Duration,
    why: EndReason,
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
}

impl TunnelStream {
    pub fn new(tunnel: Box<dyn Tunnel>, body: StreamBody, idle_timeout: Duration) -> TunnelStream {
        TunnelStream {
            tunnel,
            body,
            chunk: Vec::new(),
            written: 0,
            to_upstream: State::Open,
            from_upstream: State::Open,
            idle_since: Instant::now(),
            idle_timeout,
            why: EndReason::ApplicationEnded,
        }
    }

    /// Ready: the client sends no more, or the upstream takes no more.
    fn poll_to_upstream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Bounded by the window of the stream, which is filled again when the client's bytes are taken.
        while self.to_upstream == State::Open {
            while self.written < self.chunk.len() {
                match ready!(self.tunnel.poll_write(cx, &self.chunk[self.written..])) {
                    Ok(bytes) => self.written += bytes,
                    // What it has still sent goes to the client.
                    Err(_) => {
                        self.end();
                        return Poll::Ready(());
                    }
                }
            }
            (self.chunk, self.written) = (Vec::new(), 0);
            match ready!(self.body.poll_take(cx)) {
                Some(bytes) => {
                    self.chunk = bytes;
                    self.idle_since = Instant::now();
                }
                None => {
                    self.tunnel.shut_down();
                    self.end();
                }
            }
        }
        Poll::Ready(())
    }

    fn end(&mut self) {
        self.to_upstream = State::Ended;
        (self.chunk, self.written) = (Vec::new(), 0);
    }

    fn deadline(&self) -> Instant {
        let far = || Instant::now() + Duration::from_secs(86400);
        self.idle_since.checked_add(self.idle_timeout).unwrap_or_else(far)
    }

    fn time_out(&mut self, services: &Services, why: EndReason) -> io::Error {
        services.counts.add(Count::TimeoutUpgraded, 1);
        self.why = why;
        io::ErrorKind::TimedOut.into()
    }

    /// The upstream sends no more. The client may go on as long as it does not pause.
    fn end_from_upstream(&mut self, services: &Services) {
        self.from_upstream = State::Ended;
        self.idle_since = Instant::now();
        self.idle_timeout = services.site.timeouts.linger;
        self.body.half_close();
    }

    /// Reads from the upstream, into the worker's buffer. Ready: bytes, or an error.
    fn poll_from_upstream(&mut self, cx: &mut Context<'_>, services: &Services) -> Poll<io::Result<Vec<u8>>> {
        let scratch = &mut *services.scratch.borrow_mut();
        let read = ready!(self.tunnel.poll_read(cx, scratch.space()));
        self.idle_since = Instant::now();
        Poll::Ready(match read {
            Ok(bytes) => Ok(scratch.space()[..bytes].to_vec()),
            Err(TunnelError::Upstream(error)) => Err(error),
            Err(TunnelError::NoPong) => Err(self.time_out(services, EndReason::NoPong)),
        })
    }

    /// `None`: both directions have ended.
    async fn receive(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        let received = self.tunnel.take_received();
        if !received.is_empty() {
            return Ok(Some(received));
        }
        let mut timer = pin!(sleep_until(self.deadline()));
        poll_fn(|cx| {
            let sent = self.poll_to_upstream(cx);
            if self.from_upstream == State::Open
                && let Poll::Ready(read) = self.poll_from_upstream(cx, services)
            {
                match read {
                    Ok(bytes) if bytes.is_empty() => {
                        self.end_from_upstream(services);
                        timer.as_mut().reset(self.deadline());
                    }
                    read => return Poll::Ready(read.map(Some)),
                }
            }
            if self.from_upstream == State::Ended && sent.is_ready() {
                return Poll::Ready(Ok(None));
            }
            // Twice at most: the deadline moves while the client sends.
            while timer.as_mut().poll(cx).is_ready() {
                if self.deadline() <= Instant::now() {
                    return Poll::Ready(match self.from_upstream {
                        State::Open => Err(self.time_out(services, EndReason::UpgradedIdle)),
                        State::Ended => Ok(None),
                    });
                }
                timer.as_mut().reset(self.deadline());
            }
            Poll::Pending
        })
        .await
    }
}

impl BodyStream for TunnelStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.receive(services))
    }

    fn abort_reason(&self) -> EndReason {
        self.why
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_to_upstream(cx)
    }
}
