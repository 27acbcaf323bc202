//! Receives on a connection: from the socket into the shared buffer, through the codec, into the tally. The
//! kernel discards a body that is not verified.

use std::cmp::Ordering;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use super::connection::{Codec, Connection, Stage, Unread};
use super::response::{Eof, Event, Expected, Head, NotHttp, Persistence, field};
use super::socket::{self, Received};
use super::tally::Pending;
use super::thread_state::{BUFFER, ThreadState};
use super::transport::{self, Transport};
use crate::h2;
use crate::run::Fault;
use crate::shape::Closing;

/// Reads of one connection before the other connections get their turn.
const READS_PER_TURN: usize = 64;
/// Below this, discarding costs more than copying.
const DISCARD_MIN: u64 = 4096;

/// Why reading stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    Fault(Fault),
    /// The client read as much as `--abort` allows.
    AbortLimit,
    /// The connection is closed.
    Closed,
}

/// What one read of the socket gave.
enum ReadOutcome {
    /// More may be there.
    More,
    /// The socket is empty; more data is a new edge.
    Empty,
    End,
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Halt {
        Halt::Fault(fault)
    }
}

impl Connection {
    /// Reads what has arrived, then starts the next requests.
    pub(super) fn receive(&mut self, state: &mut ThreadState<'_>, ready: EventFlags, now: Instant) {
        let gone = ready.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        // Updated with every read that returns data, because a batch of events takes time.
        let mut now = now;
        self.unread = Unread::Nothing;
        for turn in 0..=READS_PER_TURN {
            if turn == READS_PER_TURN {
                // The socket may hold more; the next turn reads it.
                self.unread = Unread::Perhaps;
                self.schedule_wake(state, now);
                break;
            }
            match self.read_once(state, &mut now) {
                // No response is pending: another read would cost as much as a request, and more data is a new edge.
                Ok(ReadOutcome::More) if self.pending.is_empty() && self.stage == Stage::Open && !gone => {
                    break;
                }
                Ok(ReadOutcome::More) if self.socket.is_some() => {}
                Ok(ReadOutcome::Empty) if gone && self.socket.is_some() && self.reading.is_none() => {}
                Ok(ReadOutcome::More | ReadOutcome::Empty) => break,
                Ok(ReadOutcome::End) => {
                    self.on_eof(state, now);
                    break;
                }
                Err(Halt::Fault(fault)) => {
                    self.fail_connection(state, fault, now);
                    break;
                }
                Err(Halt::AbortLimit) => {
                    self.finish_aborted(state, now);
                    break;
                }
                Err(Halt::Closed) => break,
            }
        }
        self.start_requests(state, now);
    }

    fn read_once(&mut self, state: &mut ThreadState<'_>, now: &mut Instant) -> Result<ReadOutcome, Halt> {
        let Some(socket) = &self.socket else { return Err(Halt::Closed) };
        let mut allowed = usize::MAX;
        if let Some(limiter) = &mut self.reading {
            allowed = limiter.due(*now);
            if allowed == 0 {
                let next = limiter.next(*now);
                self.schedule_wake(state, next);
                return Ok(ReadOutcome::Empty);
            }
        }
        let discard = self.discardable(state);
        let (received, wanted) = if discard >= DISCARD_MIN {
            let wanted = discard.min(state.discard_buffer.len() as u64).min(allowed as u64) as usize;
            (socket::discard(socket, &mut state.discard_buffer[..wanted]), wanted)
        } else {
            let wanted = self.wanted(state).min(allowed);
            (socket::receive(socket, &mut state.buffer[..wanted]), wanted)
        };
        let count = match received {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(ReadOutcome::Empty),
            Received::End => return Ok(ReadOutcome::End),
            Received::Lost(fault) => return Err(Halt::Fault(fault)),
        };
        *now = Instant::now();
        if let Some(limiter) = &mut self.reading {
            limiter.take(count);
        }
        if discard >= DISCARD_MIN {
            self.skip(state, count, *now)?;
        } else {
            let buffer = std::mem::take(&mut state.buffer);
            let fed = self.take(state, &buffer[..count], *now);
            state.buffer = buffer;
            fed?;
        }
        // A rate-limited read leaves data in the socket, for which no new edge comes.
        Ok(if count == wanted || self.reading.is_some() { ReadOutcome::More } else { ReadOutcome::Empty })
    }

    fn wanted(&self, state: &ThreadState<'_>) -> usize {
        match (&self.transport, self.pending.front()) {
            (Transport::Plain, Some(first)) if first.first_byte.is_none() && first.sum.is_none() => {
                state.first_read_size(first.request)
            }
            _ => BUFFER,
        }
    }

    /// Bytes of the body that the kernel may discard.
    fn discardable(&self, state: &ThreadState<'_>) -> u64 {
        match (&self.transport, &self.codec, self.pending.front()) {
            (Transport::Plain, Codec::H1(reader), Some(first)) if first.sum.is_none() => {
                match state.plan.shape.closing {
                    Closing::AbortAfter(limit) => {
                        reader.discardable().min(limit.saturating_sub(first.body_bytes))
                    }
                    Closing::Polite | Closing::HalfClose => reader.discardable(),
                }
            }
            _ => 0,
        }
    }

    fn skip(&mut self, state: &mut ThreadState<'_>, count: usize, now: Instant) -> Result<(), Halt> {
        if let (Codec::H1(reader), Some(first)) = (&mut self.codec, self.pending.front_mut()) {
            reader.discarded(count as u64);
            first.body_bytes += count as u64;
            first.last_activity = now;
            check_abort_limit(state.plan.shape.closing, first.body_bytes)?;
        }
        self.read_h1(state, &[], now)
    }

    fn take(&mut self, state: &mut ThreadState<'_>, bytes: &[u8], now: Instant) -> Result<(), Halt> {
        if matches!(self.transport, Transport::Plain) {
            return self.feed(state, bytes, now);
        }
        match std::mem::replace(&mut self.transport, Transport::InUse) {
            Transport::Plain | Transport::InUse => Err(Halt::Closed),
            Transport::Tls(mut tls) => {
                let mut rest = bytes;
                // Bounded by the bytes: every pass takes some.
                while !rest.is_empty() {
                    transport::take(&mut tls, &mut rest)?;
                    if self.stage == Stage::Handshake {
                        if tls.is_handshaking() {
                            continue;
                        }
                        self.on_handshake(state, &tls, now);
                        self.transport = Transport::Tls(tls);
                        self.begin(state, now);
                        match std::mem::replace(&mut self.transport, Transport::InUse) {
                            Transport::Tls(same) => tls = same,
                            Transport::Plain | Transport::InUse => return Err(Halt::Closed),
                        }
                    }
                    let mut plain = std::mem::take(&mut state.plain);
                    let fed = self.take_plain(state, &mut tls, &mut plain, now);
                    state.plain = plain;
                    fed?;
                    if self.socket.is_none() {
                        return Ok(());
                    }
                }
                self.transport = Transport::Tls(tls);
                self.flush(state, now);
                Ok(())
            }
        }
    }

    fn take_plain(
        &mut self,
        state: &mut ThreadState<'_>,
        tls: &mut rustls::ClientConnection,
        plain: &mut [u8],
        now: Instant,
    ) -> Result<(), Halt> {
        // Bounded by the records of one call.
        while self.socket.is_some() {
            match transport::plain(tls, plain)? {
                0 => break,
                count => self.feed(state, &plain[..count], now)?,
            }
        }
        Ok(())
    }

    fn feed(&mut self, state: &mut ThreadState<'_>, bytes: &[u8], now: Instant) -> Result<(), Halt> {
        match (self.stage, &self.codec) {
            // Data after the last response is ignored.
            (Stage::Ending, _) => Ok(()),
            (_, Codec::H1(_)) => self.read_h1(state, bytes, now),
            (_, Codec::H2(_)) => self.read_h2(state, bytes, now),
        }
    }

    fn read_h1(&mut self, state: &mut ThreadState<'_>, bytes: &[u8], now: Instant) -> Result<(), Halt> {
        let mut rest = bytes;
        // Bounded by the bytes: every pass takes some, or ends a response.
        loop {
            let (Codec::H1(reader), Some(first)) = (&mut self.codec, self.pending.front_mut()) else {
                // A response without a request.
                return if rest.is_empty() { Ok(()) } else { Err(Halt::Fault(Fault::Malformed)) };
            };
            let (cached_heads, tally, _, plan) = state.reading();
            let mut unknown = super::response::CachedHead::default();
            let cached_head = cached_heads.get_mut(first.request as usize).unwrap_or(&mut unknown);
            let request = &plan.requests[first.request as usize];
            let result = reader.next(rest, Expected::of(request), cached_head);
            if !bytes.is_empty() {
                first.last_activity = now;
                first.first_byte.get_or_insert(now);
            }
            let (used, event) = result.map_err(|NotHttp| Halt::Fault(Fault::Malformed))?;
            let input = &rest[..used];
            rest = &rest[used..];
            match event {
                Event::More if rest.is_empty() => return Ok(()),
                Event::More => {}
                Event::Head(Head { status, persistence, .. }, length) => {
                    first.status = status;
                    first.head_bytes = length as u32;
                    first.plain_head_bytes = length as u32;
                    self.persistence = persistence;
                    if tally.server_name.is_none() {
                        let name = field(input, "server").map(String::from_utf8_lossy);
                        tally.server_name = Some(name.unwrap_or_default().into_owned());
                    }
                    check_abort_limit(plan.shape.closing, 0)?;
                }
                Event::Body(data) => {
                    first.body_bytes += data.len() as u64;
                    if let Some(sum) = &mut first.sum {
                        sum.update(data);
                    }
                    check_abort_limit(plan.shape.closing, first.body_bytes)?;
                }
                Event::End => {
                    let surplus = self.pending.len() == 1 && !rest.is_empty();
                    self.complete_h1(state, if surplus { Err(Fault::WrongLength) } else { Ok(()) }, now)?;
                    if self.stage != Stage::Open {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The response to the first pending request is complete.
    fn complete_h1(
        &mut self,
        state: &mut ThreadState<'_>,
        framing: Result<(), Fault>,
        now: Instant,
    ) -> Result<(), Halt> {
        let Some(mut done) = self.pending.pop_front() else { return Ok(()) };
        state.remember_size(&done);
        count(state, &mut done, framing, now);
        self.on_response(state, done.intended, self.persistence, now);
        // The bytes after the response cannot be framed.
        if framing.is_err() && self.socket.is_some() {
            self.close(state, now);
        }
        if self.socket.is_none() { Err(Halt::Closed) } else { Ok(()) }
    }

    fn read_h2(&mut self, state: &mut ThreadState<'_>, bytes: &[u8], now: Instant) -> Result<(), Halt> {
        let mut rest = bytes;
        // Bounded by the bytes: every pass takes some, or ends a response.
        loop {
            let Codec::H2(client) = &mut self.codec else { return Ok(()) };
            let (used, event) = client.next(rest).map_err(|_| Halt::Fault(Fault::Malformed))?;
            rest = &rest[used..];
            let stream = match event {
                h2::Event::More => break,
                h2::Event::Leaving { last } => {
                    self.on_goaway(state, last);
                    continue;
                }
                h2::Event::Head { stream, .. }
                | h2::Event::Body { stream, .. }
                | h2::Event::End { stream }
                | h2::Event::Reset { stream, .. } => stream,
            };
            // Data may still come on streams that timed out.
            let Some(at) = self.pending.iter().position(|pending| pending.stream == stream) else { continue };
            let pending = &mut self.pending[at];
            pending.last_activity = now;
            pending.first_byte.get_or_insert(now);
            match event {
                h2::Event::Head { status, length, bytes, plain_bytes, .. } => {
                    pending.status = status;
                    pending.announced = length;
                    pending.head_bytes += bytes;
                    pending.plain_head_bytes += plain_bytes;
                    if state.tally.server_name.is_none() {
                        state.tally.server_name = Some(client.server_name().to_owned());
                    }
                    check_abort_limit(state.plan.shape.closing, 0)?;
                }
                h2::Event::Body { data, .. } => {
                    pending.body_bytes += data.len() as u64;
                    if let Some(sum) = &mut pending.sum {
                        sum.update(data);
                    }
                    check_abort_limit(state.plan.shape.closing, pending.body_bytes)?;
                }
                h2::Event::End { .. } => self.complete_h2(state, at, now)?,
                h2::Event::Reset { reason: h2::ResetReason::Refused, .. } => self.retry(at),
                h2::Event::Reset { .. } => {
                    if let Some(pending) = self.pending.remove(at) {
                        let fault = if pending.status > 0 { Fault::ShortBody } else { Fault::Reset };
                        self.fail(state, &pending, fault, now);
                    }
                }
                h2::Event::More | h2::Event::Leaving { .. } => {}
            }
        }
        self.flush(state, now);
        Ok(())
    }

    fn complete_h2(&mut self, state: &mut ThreadState<'_>, at: usize, now: Instant) -> Result<(), Halt> {
        let Some(mut done) = self.pending.remove(at) else { return Ok(()) };
        let expected = Expected::of(&state.plan.requests[done.request as usize]);
        let framing = framing_h2(&done, expected);
        count(state, &mut done, framing, now);
        let leaving = matches!(&self.codec, Codec::H2(client) if client.is_leaving());
        let persistence =
            if leaving && self.pending.is_empty() { Persistence::Close } else { Persistence::KeepAlive };
        self.on_response(state, done.intended, persistence, now);
        if self.socket.is_none() { Err(Halt::Closed) } else { Ok(()) }
    }

    /// GOAWAY: the server does not process streams above `last`; they are sent on another connection.
    fn on_goaway(&mut self, state: &mut ThreadState<'_>, last: u32) {
        // Bounded by the streams: every pass removes one.
        while let Some(at) = self.pending.iter().position(|pending| pending.stream > last) {
            self.retry(at);
        }
        if self.pending.is_empty() {
            self.close_now(state);
        }
    }

    /// The server closed its side.
    fn on_eof(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        if self.stage == Stage::Ending {
            return self.close(state, now);
        }
        if self.stage == Stage::Handshake {
            return self.fail_connection(state, Fault::Handshake, now);
        }
        let Codec::H1(reader) = &mut self.codec else {
            return match self.pending.is_empty() {
                true => self.close(state, now),
                false => self.fail_connection(state, Fault::Reset, now),
            };
        };
        match reader.on_eof() {
            Eof::Between if self.pending.is_empty() => self.close(state, now),
            Eof::Between | Eof::InHead => self.fail_connection(state, Fault::Reset, now),
            Eof::InBody => self.fail_connection(state, Fault::ShortBody, now),
            Eof::End => {
                // The end completes the body.
                let _ = self.complete_h1(state, Ok(()), now);
                self.close(state, now);
            }
        }
    }

    /// The client aborts, as `--abort` demands, and the request counts as right.
    fn finish_aborted(&mut self, state: &mut ThreadState<'_>, now: Instant) {
        // Bounded by the depth.
        while let Some(pending) = self.pending.pop_front() {
            state.tally.done(&pending, now);
            self.finished += 1;
        }
        self.served += 1;
        self.close(state, now);
    }
}

/// Counts a response, which is right if its framing and its content are.
fn count(state: &mut ThreadState<'_>, done: &mut Pending, framing: Result<(), Fault>, now: Instant) {
    let verified = state.verifier.verify(done.request, done.status, done.body_bytes, done.sum.take());
    match framing.and(verified) {
        Ok(()) => state.tally.done(done, now),
        Err(fault) => {
            let url = &state.plan.requests[done.request as usize].url;
            state.tally.failed(done, fault, url, now);
        }
    }
}

/// RFC 9113 §8.1.1: a response has a head, and a body as long as its Content-Length.
fn framing_h2(done: &Pending, expected: Expected) -> Result<(), Fault> {
    match (expected, done.status, done.announced) {
        (_, 0, _) => Err(Fault::Malformed),
        (Expected::HeadOnly, ..) | (_, 204 | 304, _) | (.., None) => Ok(()),
        (Expected::Whole, _, Some(length)) => match done.body_bytes.cmp(&length) {
            Ordering::Less => Err(Fault::ShortBody),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Fault::WrongLength),
        },
    }
}

fn check_abort_limit(closing: Closing, bytes: u64) -> Result<(), Halt> {
    match closing {
        Closing::AbortAfter(limit) if bytes >= limit => Err(Halt::AbortLimit),
        _ => Ok(()),
    }
}
