//! Pings of this server on a silent WebSocket connection (RFC 6455 §5.5.2): each goes to the client between two frames
//! of the upstream. The pong passes on to the upstream, which ignores one that it has not asked for (§5.5.3).
//!
//! Knows frames, and nothing of messages.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::upgrade::UpgradedConnection;
use crate::response::{Tunnel, TunnelError};

/// A whole frame without content.
const PING: [u8; 2] = [0x89, 0];
const CLOSE: u8 = 8;
/// Bytes of the head of a frame: opcode and length, a length of eight bytes, a mask.
const MAX_HEAD: usize = 14;
const FAR: Duration = Duration::from_secs(86400);

/// The upstream's end of a tunnel, whose client gets pings.
pub struct PingedConnection {
    connection: UpgradedConnection,
    frames: RefCell<Frames>,
    interval: Duration,
    timer: RefCell<Pin<Box<Sleep>>>,
    /// When a byte has come from either side, or a ping was sent.
    last: Cell<Instant>,
    ping: Cell<Ping>,
    /// The upstream takes nothing from the client, so a pong would not be read.
    is_blocked: Cell<bool>,
}

/// The last ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ping {
    /// Bytes have come since.
    None,
    /// Its bytes were read, and may wait for the client's socket.
    Read,
    /// The client has not answered it.
    Sent,
}

/// The position in the frames of the upstream.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; MAX_HEAD],
    /// Bytes of the head that have come.
    received: usize,
    /// Bytes of the frame that follow its head.
    left: u64,
    /// No ping may follow: the upstream has sent a close frame, or the client has ended its side.
    has_closed: bool,
}

impl PingedConnection {
    /// A ping follows each `interval` in which neither side has sent anything.
    pub fn new(connection: UpgradedConnection, interval: Duration) -> PingedConnection {
        let now = Instant::now();
        let timer = sleep_until(now.checked_add(interval).unwrap_or(now + FAR));
        PingedConnection {
            connection,
            frames: RefCell::default(),
            interval,
            timer: RefCell::new(Box::pin(timer)),
            last: Cell::new(now),
            ping: Cell::new(Ping::None),
            is_blocked: Cell::new(false),
        }
    }

    fn note_bytes(&self) {
        self.last.set(Instant::now());
        self.ping.set(Ping::None);
    }

    /// Ready: the bytes of a ping, or the client has not answered the one before.
    fn poll_ping(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, TunnelError>> {
        let mut timer = self.timer.borrow_mut();
        // Nothing is read before what was read has been sent.
        if self.ping.get() == Ping::Read {
            self.ping.set(Ping::Sent);
            self.last.set(Instant::now());
        }
        // Twice at most: the time of the next ping moves with each byte.
        loop {
            ready!(timer.as_mut().poll(cx));
            let now = Instant::now();
            let due = |since: Instant| since.checked_add(self.interval).unwrap_or(now + FAR);
            if due(self.last.get()) > now {
                timer.as_mut().reset(due(self.last.get()));
                continue;
            }
            if self.is_blocked.get() {
                self.note_bytes();
                timer.as_mut().reset(due(now));
                continue;
            }
            if self.ping.get() == Ping::Sent {
                return Poll::Ready(Err(TunnelError::NoPong));
            }
            self.last.set(now);
            timer.as_mut().reset(due(now));
            if let (true, Some(space)) = (self.frames.borrow().is_between(), buffer.first_chunk_mut()) {
                *space = PING;
                self.ping.set(Ping::Read);
                return Poll::Ready(Ok(PING.len()));
            }
        }
    }
}

impl Tunnel for PingedConnection {
    fn take_received(&self) -> Vec<u8> {
        let received = self.connection.take_received();
        self.frames.borrow_mut().pass(&received);
        received
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, TunnelError>> {
        match self.connection.poll_read(cx, buffer) {
            Poll::Ready(Ok(bytes)) => {
                self.frames.borrow_mut().pass(&buffer[..bytes]);
                self.note_bytes();
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_ping(cx, buffer),
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = self.connection.poll_write(cx, bytes);
        self.is_blocked.set(sent.is_pending());
        let sent = ready!(sent);
        self.note_bytes();
        Poll::Ready(sent)
    }

    fn shut_down(&self) {
        // A client that sends no more answers no ping.
        self.frames.borrow_mut().has_closed = true;
        self.connection.shut_down();
    }
}

impl Frames {
    fn is_between(&self) -> bool {
        self.received == 0 && self.left == 0 && !self.has_closed
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let passed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= passed as u64;
                bytes = &bytes[passed..];
                continue;
            }
            self.head[self.received] = *first;
            self.received += 1;
            bytes = rest;
            if let Some(length) = payload(&self.head[..self.received]) {
                self.has_closed |= self.head[0] & 0x0f == CLOSE;
                (self.received, self.left) = (0, length);
            }
        }
    }
}

/// The length of the payload, when all of the head is there (RFC 6455 §5.2).
fn payload(head: &[u8]) -> Option<u64> {
    let [_, second, rest @ ..] = head else { return None };
    let (length, mask) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
        127 => (u64::from_be_bytes(*rest.first_chunk()?), &rest[8..]),
        short => (u64::from(short), rest),
    };
    let is_whole = second & 0x80 == 0 || mask.len() == 4;
    is_whole.then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_ends_of_frames_wherever_the_bytes_are_cut() {
        let frame = |head: &[u8], length: usize| [head, &vec![0x88; length]].concat();
        let frames = [
            frame(&[0x81, 0], 0),
            frame(&[0x01, 5], 5),
            frame(&[0x89, 125], 125),
            frame(&[0x80, 126, 0, 126], 126),
            frame(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 1], 65_537),
            frame(&[0x82, 0x83, 1, 2, 3, 4], 3),
            frame(&[0x82, 0xfe, 0, 200, 1, 2, 3, 4], 200),
        ];
        for size in [1, 2, 3, 7, 4096, usize::MAX] {
            let mut state = Frames::default();
            for frame in &frames {
                let (last, before) = frame.split_last().unwrap();
                for part in before.chunks(size) {
                    state.pass(part);
                    assert!(!state.is_between(), "{:x?} by {size}", &frame[..2]);
                }
                state.pass(&[*last]);
                assert!(state.is_between(), "{:x?} by {size}", &frame[..2]);
            }
            state.pass(&[0x88, 2, 3, 232]);
            assert!(!state.is_between(), "nothing may follow a close");
        }
    }
}
