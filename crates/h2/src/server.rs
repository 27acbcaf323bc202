//! The server's side of an HTTP/2 connection (RFC 9113): the states of its streams, the windows of both directions, and
//! the order of responses (RFC 9218). Bytes go in, and events and bytes come out. The events do not depend on how the
//! input is cut.
//!
//! Knows nothing of sockets, clocks, and what a request means. Every misuse that a client can repeat has a budget
//! (RFC 9113 §10.5). A client that exceeds one loses its connection.

mod budget;
mod flow;
mod frames;
mod send;
mod stream;
mod unread;

use taipan_http::head::HeadError;

use crate::decoder::{self, FrameDecoder};
use crate::error::{ConnectionError, ErrorCode};
use crate::fields::{Class, ExtendedConnect, FieldList, Malformed};
use crate::frame::{DEFAULT_WINDOW, MAX_WINDOW, PREFACE, Settings, write_goaway, write_window_update};
use crate::hpack::{BlockDecoder, Discarded, TABLE_SIZE};
use budget::Budget;
use flow::{ReceiveWindow, SendWindow};
use stream::{Closed, ClosedBy, EarlyPriorities, Streams};
use unread::UnreadRequests;

pub use crate::frame::EndStream;
pub use stream::{Rest, StreamId};

/// Seconds in which the client has to acknowledge SETTINGS. Then it opens no more streams.
const SETTINGS_TIMEOUT: u32 = 30;

/// What the client may use of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent streams.
    pub streams: u32,
    /// Bytes of a header list (RFC 9113 §6.5.2): those of its names and values, and 32 for each field.
    pub list: u32,
    /// Fields of a header list, without pseudo-fields and crumbs of a cookie.
    pub fields: u32,
    /// The largest window of a stream for received data, in bytes. It begins with at most 65,535, and grows while its
    /// consumer keeps up.
    pub window: u32,
    /// The window of all streams for received data, in bytes, at least 65,535: the most that the connection holds.
    pub connection_window: u32,
    /// Streams in a row that may end by a reset: by the client before their response is complete, or by the server for
    /// an error of the client.
    pub resets: u32,
    /// Frames in a row that may have no use: PING, SETTINGS, empty DATA, and others.
    pub frames: u32,
    pub extended_connect: ExtendedConnect,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 100,
            list: 16 * 1024,
            fields: 100,
            window: 256 * 1024,
            connection_window: 1024 * 1024,
            resets: 200,
            frames: 1000,
            extended_connect: ExtendedConnect::Unknown,
        }
    }
}

/// What the client has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The field list has the head of a request. With END_STREAM, it has no body.
    Request { stream: StreamId, end: EndStream },
    /// As `Request`, but the list is over a limit and has only the fields up to it. The caller responds with the status
    /// of the error.
    Rejected { stream: StreamId, error: HeadError, end: EndStream },
    /// A request was refused, because too many streams are open. Its stream is already reset.
    Refused { stream: StreamId },
    /// A request was malformed. Its stream is already reset. The list has the fields up to the error.
    Malformed { stream: StreamId, error: Malformed },
    /// Part of a body. It is empty only at the end.
    Data { stream: StreamId, data: &'a [u8], end: EndStream },
    /// The client has ended a request short of its length. Its response has begun, and may go on.
    Cut { stream: StreamId },
    /// The field list has the trailers, which end the request.
    Trailers { stream: StreamId },
    /// The stream has ended before its response was complete. Nothing can be sent on it.
    Reset { stream: StreamId, code: ErrorCode, by: Peer },
    /// A ready stream that was blocked can send: `next_stream` names one.
    WindowOpened,
    /// The client opens no more streams.
    GoAway { code: ErrorCode },
}

/// An end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Client,
    /// The server, for an error of the client.
    Server,
}

/// A connection. It allocates nothing while it is idle and has been trimmed, apart from the dynamic table of HPACK and
/// the numbers of streams that the server has reset.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    /// Bytes of the preface that have been received.
    preface: u8,
    state: State,
    frames: FrameDecoder,
    hpack: BlockDecoder<Class>,
    /// A field block over the limit, as far as it has arrived.
    discarded: Option<Box<Discarded>>,
    streams: Streams,
    closed: Closed,
    unread: UnreadRequests,
    early_priorities: EarlyPriorities,
    /// The highest stream of the client, even if it was refused.
    highest: u32,
    /// The highest stream that counts after the last GOAWAY.
    last: u32,
    send: SendWindow,
    receive: ReceiveWindow,
    /// SETTINGS_INITIAL_WINDOW_SIZE of the client.
    initial_send: u32,
    initial_receive: u32,
    table: TableSize,
    resets: Budget,
    useless: Budget,
    settings: Acknowledgement,
    /// Turns that the scheduler has given.
    turns: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// After GOAWAY with the highest number: the client knows that the connection is to end (RFC 9113 §6.8).
    Announced,
    /// After GOAWAY with the last stream: others are ignored.
    Draining,
    Failed(ConnectionError),
}

/// Whether the client knows the settings of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acknowledgement {
    /// They are sent, and the time is not known yet.
    Sent,
    AwaitedSince(u32),
    Late,
    Received,
}

/// Whether the client's table for responses is smaller than by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableSize {
    Unchanged,
    /// The next field block begins with the size 0 (RFC 7541 §4.2): the server uses no table.
    Reduced,
}

impl Connection {
    /// Appends SETTINGS, which must be sent first, to `out`.
    pub fn new(limits: &Limits, out: &mut Vec<u8>) -> Connection {
        let limits = Limits {
            connection_window: limits.connection_window.clamp(DEFAULT_WINDOW, MAX_WINDOW),
            ..*limits
        };
        let initial_receive = limits.window.min(DEFAULT_WINDOW);
        let announced = limits.extended_connect == ExtendedConnect::Announced;
        let settings = Settings {
            max_concurrent_streams: Some(limits.streams),
            initial_window_size: (initial_receive < DEFAULT_WINDOW).then_some(initial_receive),
            max_header_list_size: Some(limits.list),
            enable_connect_protocol: announced.then_some(1),
            no_rfc7540_priorities: Some(1),
            ..Settings::default()
        };
        settings.write(out);
        let more = limits.connection_window - DEFAULT_WINDOW;
        if more > 0 {
            write_window_update(out, 0, more);
        }
        Connection {
            preface: 0,
            state: State::Open,
            frames: FrameDecoder::new(2 * limits.list.max(MIN_BLOCK) as usize),
            hpack: BlockDecoder::new(TABLE_SIZE, limits.list as usize),
            discarded: None,
            streams: Streams::new(),
            closed: Closed::new(limits.streams),
            unread: UnreadRequests::new(),
            early_priorities: EarlyPriorities::new(),
            highest: 0,
            last: MAX_WINDOW,
            send: SendWindow::new(DEFAULT_WINDOW),
            receive: ReceiveWindow::new(limits.connection_window),
            initial_send: DEFAULT_WINDOW,
            // Until the client has acknowledged SETTINGS, it may use the default (RFC 9113 §6.5.3).
            initial_receive: DEFAULT_WINDOW,
            table: TableSize::Unchanged,
            resets: Budget::new(limits.resets),
            useless: Budget::new(limits.frames),
            settings: Acknowledgement::Sent,
            turns: 0,
            limits,
        }
    }

    /// Reads up to the next event, and returns it with the number of consumed bytes. `None` consumes all input; the
    /// connection keeps an incomplete frame. The fields of an event are in `list`. What must be sent is appended to
    /// `out`; after an error, this is GOAWAY, and the connection ends as soon as it is sent.
    ///
    /// To bound `out`, the caller reads no more input while what it has appended is not sent.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'a>>), ConnectionError> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        let result = self.next(input, list, out);
        if let Err(error) = result {
            self.fail(error, out);
        }
        result
    }

    /// Refills the budgets of misuse for the time since the last call: each is full after half a minute. Notes how long
    /// SETTINGS has not been acknowledged.
    pub fn set_time(&mut self, second: u32) {
        self.settings = match self.settings {
            Acknowledgement::Sent => Acknowledgement::AwaitedSince(second),
            Acknowledgement::AwaitedSince(since) if second.saturating_sub(since) > SETTINGS_TIMEOUT => {
                Acknowledgement::Late
            }
            other => other,
        };
        self.resets.refill(second, self.limits.resets);
        self.useless.refill(second, self.limits.frames);
    }

    /// Changes the priority of a stream by the field `Priority` of its response (RFC 9218 §8).
    pub fn set_priority(&mut self, stream: StreamId, value: &[u8]) {
        if let Some(at) = self.streams.find(stream.0) {
            self.streams[at].priority = self.streams[at].priority.changed_by(value);
        }
    }

    /// Announces a graceful end to the client, which can still open streams (RFC 9113 §6.8). `shut_down` follows some
    /// time later.
    pub fn announce_shutdown(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Open {
            write_goaway(out, MAX_WINDOW, ErrorCode::NO_ERROR);
            self.state = State::Announced;
        }
    }

    /// Makes the last stream known to the client, and ignores those above it. The connection ends with its streams.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        if matches!(self.state, State::Open | State::Announced) {
            write_goaway(out, self.highest, ErrorCode::NO_ERROR);
            self.last = self.highest;
            self.state = State::Draining;
        }
    }

    /// Whether the connection can be closed as soon as all output is sent.
    pub fn is_finished(&self) -> bool {
        match self.state {
            State::Open | State::Announced => false,
            State::Draining => self.streams.is_empty(),
            State::Failed(_) => true,
        }
    }

    /// Streams whose response is not complete.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the input so far ends within the preface, a frame or a field block.
    pub fn is_within_frame(&self) -> bool {
        (1..PREFACE.len()).contains(&self.preface.into()) || self.frames.is_within_frame()
    }

    /// Gives up the memory that an idle connection does not need.
    pub fn trim(&mut self) {
        self.frames.trim();
        self.hpack.trim();
        self.streams.trim();
        self.closed.trim();
        self.unread.trim();
        self.early_priorities.trim();
    }

    fn fail(&mut self, error: ConnectionError, out: &mut Vec<u8>) {
        write_goaway(out, self.highest.min(self.last), error.code());
        self.state = State::Failed(error);
        self.streams = Streams::new();
    }

    fn next<'a>(
        &mut self,
        input: &'a [u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'a>>), ConnectionError> {
        let mut used = self.preface(input)?;
        // Bounded: each pass takes at least a byte, or is the last.
        loop {
            let (taken, event) = self.frames.next(&input[used..])?;
            used += taken;
            if event == decoder::Event::NeedMore {
                return Ok((used, None));
            }
            if let Some(event) = self.on_frame(event, list, out)? {
                return Ok((used, Some(event)));
            }
        }
    }

    /// Takes what is left of the preface.
    fn preface(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        let rest = &PREFACE[usize::from(self.preface)..];
        let taken = rest.len().min(input.len());
        if rest[..taken] != input[..taken] {
            return Err(ConnectionError::Preface);
        }
        self.preface += taken as u8;
        Ok(taken)
    }

    /// Ends a stream. What its consumer has not taken is no longer held for it.
    fn remove(&mut self, at: usize, by: ClosedBy, out: &mut Vec<u8>) {
        let stream = self.streams.remove(at);
        self.closed.push(stream.id, by);
        self.consume(stream.receive.unconsumed(), out);
    }

    fn spend_reset(&mut self) -> Result<(), ConnectionError> {
        if self.resets.spend(1) { Ok(()) } else { Err(ConnectionError::TooManyResets) }
    }

    fn spend_useless(&mut self, frames: u32) -> Result<(), ConnectionError> {
        if self.useless.spend(frames) { Ok(()) } else { Err(ConnectionError::Flood) }
    }
}

/// The lower bound of the limit for a field block: the table of HPACK is decoded within it, also from a block that is
/// over the limit, so that the request gets a response rather than an error of the connection.
const MIN_BLOCK: u32 = 16 * 1024;

#[cfg(test)]
mod tests;
