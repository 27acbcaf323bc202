//! The server's side of an HTTP/2 connection (RFC 9113): the states of its streams, the windows of both directions, and
//! the order of responses (RFC 9218). Bytes go in, and events and bytes come out. The events do not depend on how the
//! input is cut.
//!
//! Knows nothing of sockets, clocks, and what a request means. Every misuse that a client can repeat has a budget
//! (RFC 9113 §10.5). A client that exceeds one loses its connection.

mod budget;
mod flow;
mod send;
mod stream;

use taipan_http::head::{Body, HeadError};

use crate::decoder::{self, FrameDecoder};
use crate::error::{ConnectionError, ErrorCode, HpackError};
use crate::fields::{Class, ExtendedConnect, FieldList, Malformed, Section, SectionError};
use crate::frame::{
    ACK, DEFAULT_WINDOW, MAX_PAYLOAD, MAX_WINDOW, PING, PREFACE, SETTINGS, Settings, write_frame,
    write_goaway, write_reset, write_window_update,
};
use crate::hpack::{BlockDecoder, TABLE_SIZE};
use crate::priority::Priority;
use budget::Budget;
use flow::{ReceiveWindow, SendWindow};
use stream::{Closed, ClosedBy, EarlyPriorities, Remote, Stream, Streams};

pub use stream::StreamId;

/// Seconds in which the client has to acknowledge SETTINGS. Then it opens no more streams.
const SETTINGS_TIMEOUT: u32 = 30;

/// What the client may use of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent streams.
    pub streams: u32,
    /// Bytes of a header list (RFC 9113 §6.5.2): those of its names and values, and 32 for each field.
    pub list: u32,
    /// Fields of a header list, with the pseudo-fields and each crumb of a cookie.
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
    /// The field list has the head of a request. `end`: it has no body.
    Request { stream: StreamId, end: bool },
    /// As `Request`, but the list is over a limit and has only the fields up to it. The caller responds with the status
    /// of the error.
    Rejected { stream: StreamId, error: HeadError, end: bool },
    /// A request was refused, because too many streams are open. Its stream is already reset.
    Refused { stream: StreamId },
    /// A request was malformed. Its stream is already reset. The list has the fields up to the error.
    Malformed { stream: StreamId, error: Malformed },
    /// Part of a body. It is empty only at the end.
    Data { stream: StreamId, data: &'a [u8], end: bool },
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

/// A connection. It allocates nothing while it is idle and has been trimmed, apart from the dynamic table of HPACK.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    /// Bytes of the preface that have been received.
    preface: u8,
    state: State,
    frames: FrameDecoder,
    hpack: BlockDecoder<Class>,
    streams: Streams,
    closed: Closed,
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
            streams: Streams::new(),
            closed: Closed::new(),
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

    /// `None`: the frame does not concern a request.
    fn on_frame<'a>(
        &mut self,
        event: decoder::Event<'a>,
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        match event {
            decoder::Event::Headers { stream, frames, whole } => {
                // A block has frames without use only if it has more than its size requires.
                let required = match whole {
                    Some(_) => 1,
                    None => self.frames.block().len().div_ceil(MAX_PAYLOAD).max(1) as u32,
                };
                self.spend_useless(frames.saturating_sub(required))?;
                self.on_headers(stream, whole, list, out)
            }
            decoder::Event::DataHeader { stream, length, padding, end_stream } => {
                self.on_data_header(stream, length, padding, end_stream, out)
            }
            decoder::Event::Data { stream, bytes } => {
                let end = self.frames.take_end_stream();
                Ok(self.on_data(stream, bytes, end))
            }
            decoder::Event::EndStream { stream } => Ok(self.on_data(stream, &[], true)),
            decoder::Event::Reset { stream, code } => self.on_reset(stream, code, out),
            decoder::Event::WindowUpdate { stream, increment } => {
                self.on_window_update(stream, increment, out)
            }
            decoder::Event::Settings(settings) => self.on_settings(&settings, out),
            decoder::Event::SettingsAck => {
                self.on_settings_ack();
                self.spend_useless(1).map(|()| None)
            }
            decoder::Event::Ping(payload) => {
                write_frame(out, PING, ACK, 0, &payload);
                self.spend_useless(1).map(|()| None)
            }
            decoder::Event::PriorityUpdate { stream, priority } => self.on_priority(stream, priority),
            decoder::Event::GoAway { code, .. } => {
                self.spend_useless(1)?;
                Ok(Some(Event::GoAway { code }))
            }
            decoder::Event::Ignored => self.spend_useless(1).map(|()| None),
            decoder::Event::NeedMore => Ok(None),
        }
    }

    /// The field block is decoded even if it is ignored, because later blocks need the table (RFC 9113 §4.3).
    fn on_headers(
        &mut self,
        id: u32,
        whole: Option<&[u8]>,
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let end = self.frames.take_end_stream();
        let open = self.streams.find(id);
        let section = if open.is_some() { Section::Trailers } else { Section::Head };
        list.begin(section, if end { Body::Absent } else { Body::Present });
        let max = self.limits.fields as usize;
        let block = whole.unwrap_or(self.frames.block());
        let decoded = list.decode(&mut self.hpack, block, max, self.limits.extended_connect);
        if decoded == Err(SectionError::Hpack(HpackError::Malformed)) {
            return Err(ConnectionError::Compression);
        }
        match open {
            Some(at) => self.on_trailers(at, decoded, end, out),
            None if !self.opens(id)? => Ok(None),
            None => self.on_request(id, decoded, list, end, out),
        }
    }

    /// Whether HEADERS opens a stream (RFC 9113 §5.1 and §5.1.1). `false`: it is to be ignored.
    fn opens(&mut self, id: u32) -> Result<bool, ConnectionError> {
        if id.is_multiple_of(2) {
            return Err(ConnectionError::StreamNumber);
        }
        if id <= self.highest {
            return match self.closed.find(id) {
                Some(ClosedBy::Server) => Ok(false),
                Some(ClosedBy::End) => Err(ConnectionError::Closed),
                None => Err(ConnectionError::StreamNumber),
            };
        }
        self.highest = id;
        if id > self.last {
            self.spend_useless(1)?;
        }
        Ok(id <= self.last)
    }

    fn on_request(
        &mut self,
        id: u32,
        decoded: Result<(), SectionError>,
        list: &FieldList,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let early = self.early_priorities.take(id);
        // An acknowledgement that is only slow has arrived before the stream.
        if self.settings == Acknowledgement::Late {
            return Err(ConnectionError::SettingsTimeout);
        }
        if self.streams.len() >= self.limits.streams as usize {
            write_reset(out, id, ErrorCode::REFUSED_STREAM);
            self.closed.push(id, ClosedBy::Server);
            self.spend_useless(1)?;
            return Ok(Some(Event::Refused { stream: StreamId(id) }));
        }
        let stream = StreamId(id);
        let length = list.content_length();
        let error = match decoded {
            Err(SectionError::Malformed(error)) => Some(error),
            Ok(()) if end && length.is_some_and(|length| length > 0) => Some(Malformed::Length),
            _ => None,
        };
        if let Some(error) = error {
            write_reset(out, id, ErrorCode::PROTOCOL_ERROR);
            self.closed.push(id, ClosedBy::Server);
            self.spend_reset()?;
            return Ok(Some(Event::Malformed { stream, error }));
        }
        self.turns = self.turns.wrapping_add(1);
        self.streams.push(Stream {
            id,
            remote: if end { Remote::Ended } else { Remote::Open },
            is_ready: false,
            priority: early.unwrap_or_else(|| list.priority()),
            turn: self.turns,
            send: SendWindow::new(self.initial_send),
            receive: ReceiveWindow::new(self.initial_receive),
            remaining: length,
        });
        let error = match decoded {
            Ok(()) => return Ok(Some(Event::Request { stream, end })),
            Err(SectionError::TooMany) => HeadError::TooManyFields,
            Err(_) => HeadError::TooLarge,
        };
        self.spend_useless(REJECTED)?;
        Ok(Some(Event::Rejected { stream, error, end }))
    }

    fn on_trailers(
        &mut self,
        at: usize,
        decoded: Result<(), SectionError>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let stream = &mut self.streams[at];
        if stream.remote == Remote::Ended {
            return self.stream_error(at, ErrorCode::STREAM_CLOSED, out);
        }
        // The trailers of an oversized list are as useless as malformed ones.
        if !end || decoded.is_err() || stream.remaining.is_some_and(|length| length > 0) {
            return self.stream_error(at, ErrorCode::PROTOCOL_ERROR, out);
        }
        stream.remote = Remote::Ended;
        Ok(Some(Event::Trailers { stream: StreamId(stream.id) }))
    }

    /// Counts a DATA frame in the windows (RFC 9113 §6.9.1), and checks whether its stream takes data.
    fn on_data_header(
        &mut self,
        id: u32,
        length: u32,
        padding: u32,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::Idle);
        }
        if !self.receive.receive(length) {
            return Err(ConnectionError::Window);
        }
        if length == padding && !end {
            self.spend_useless(1)?;
        }
        let Some(at) = self.streams.find(id) else {
            return self.on_closed_data(id, length, out);
        };
        let stream = &mut self.streams[at];
        let data = u64::from(length - padding);
        let error = if stream.remote == Remote::Ended {
            ErrorCode::STREAM_CLOSED
        } else if !stream.receive.receive(length) {
            ErrorCode::FLOW_CONTROL_ERROR
        } else if stream.remaining.is_some_and(|remaining| remaining < data || end && remaining > data) {
            ErrorCode::PROTOCOL_ERROR
        } else {
            stream.remaining = stream.remaining.map(|remaining| remaining - data);
            self.consumed(StreamId(id), padding, out);
            return Ok(None);
        };
        if error != ErrorCode::PROTOCOL_ERROR {
            // The stream has not counted this frame.
            self.consume(length, out);
        }
        self.stream_error(at, error, out)
    }

    /// Data of a stream that has ended. If the server has reset it, the client did not know that yet (RFC 9113 §5.1).
    fn on_closed_data(
        &mut self,
        id: u32,
        length: u32,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.consume(length, out);
        if id > self.last || self.closed.find(id) == Some(ClosedBy::Server) {
            return Ok(None);
        }
        write_reset(out, id, ErrorCode::STREAM_CLOSED);
        self.closed.push(id, ClosedBy::Server);
        self.spend_reset().map(|()| None)
    }

    /// Part of a DATA frame whose header was accepted, or is ignored: then the stream is not open.
    fn on_data<'a>(&mut self, id: u32, data: &'a [u8], end: bool) -> Option<Event<'a>> {
        let at = self.streams.find(id)?;
        if end {
            self.streams[at].remote = Remote::Ended;
        }
        Some(Event::Data { stream: StreamId(id), data, end })
    }

    fn on_reset(
        &mut self,
        id: u32,
        code: ErrorCode,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::Idle);
        }
        let Some(at) = self.streams.find(id) else {
            return self.spend_useless(1).map(|()| None);
        };
        self.remove(at, ClosedBy::End, out);
        self.spend_reset()?;
        Ok(Some(Event::Reset { stream: StreamId(id), code, by: Peer::Client }))
    }

    fn on_window_update(
        &mut self,
        id: u32,
        increment: u32,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend_useless(1)?;
        if id == 0 {
            let was_blocked = self.send.get() == 0;
            if !self.send.add(increment.into()) {
                return Err(ConnectionError::WindowOverflow);
            }
            return Ok((was_blocked && self.has_next()).then_some(Event::WindowOpened));
        }
        if self.is_idle(id) {
            return Err(ConnectionError::Idle);
        }
        let Some(at) = self.streams.find(id) else { return Ok(None) };
        let stream = &mut self.streams[at];
        let was_blocked = stream.send.get() == 0;
        if !stream.send.add(increment.into()) {
            return self.stream_error(at, ErrorCode::FLOW_CONTROL_ERROR, out);
        }
        let opened = was_blocked && stream.is_sendable() && self.send.get() > 0;
        Ok(opened.then_some(Event::WindowOpened))
    }

    /// RFC 9113 §6.5.2 and §6.9.2.
    fn on_settings(
        &mut self,
        settings: &Settings,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend_useless(1)?;
        if settings.header_table_size.is_some_and(|size| (size as usize) < TABLE_SIZE) {
            self.table = TableSize::Reduced;
        }
        write_frame(out, SETTINGS, ACK, 0, &[]);
        let Some(size) = settings.initial_window_size else { return Ok(None) };
        let change = i64::from(size) - i64::from(self.initial_send);
        self.initial_send = size;
        let could_send = self.has_next();
        for stream in self.streams.iter_mut() {
            if !stream.send.add(change) {
                return Err(ConnectionError::WindowOverflow);
            }
        }
        Ok((!could_send && self.has_next()).then_some(Event::WindowOpened))
    }

    /// The client knows the initial window (RFC 9113 §6.5.3).
    fn on_settings_ack(&mut self) {
        self.settings = Acknowledgement::Received;
        let initial = self.limits.window.min(DEFAULT_WINDOW);
        let reduced_by = self.initial_receive - initial;
        self.initial_receive = initial;
        for stream in self.streams.iter_mut() {
            stream.receive.reduce(reduced_by);
        }
    }

    /// RFC 9218 §7.1.
    fn on_priority(
        &mut self,
        id: u32,
        priority: Priority,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.spend_useless(1)?;
        match self.streams.find(id) {
            Some(at) => self.streams[at].priority = priority,
            None if id.is_multiple_of(2) => return Err(ConnectionError::Idle),
            None if id > self.highest => self.early_priorities.insert(id, priority),
            None => {}
        }
        Ok(None)
    }

    /// Whether the stream was never opened. Those with even numbers are the server's, which opens none.
    const fn is_idle(&self, id: u32) -> bool {
        id > self.highest || id.is_multiple_of(2)
    }

    /// Resets a stream for an error of the client.
    fn stream_error<'a>(
        &mut self,
        at: usize,
        code: ErrorCode,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        let stream = StreamId(self.streams[at].id);
        self.reset(stream, code, out);
        self.spend_reset()?;
        Ok(Some(Event::Reset { stream, code, by: Peer::Server }))
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

/// The lower bound of the limit for a field block: fields that are over the limit of the list get a response rather
/// than an error of the connection.
const MIN_BLOCK: u32 = 16 * 1024;

/// The useless frames that a list over a limit counts for: more than those that the response makes up for.
const REJECTED: u32 = 2 * send::FRAMES_PER_RESPONSE;

#[cfg(test)]
mod tests;
