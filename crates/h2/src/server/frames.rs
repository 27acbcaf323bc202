//! What each frame of the client does.

use taipan_http::head::{Body, HeadError};

use super::flow::{ReceiveWindow, SendWindow};
use super::send;
use super::stream::{ClosedBy, Local, Remote, Stream, StreamId};
use super::unread::Then;
use super::{Acknowledgement, Connection, Event, Peer, TableSize};
use crate::decoder;
use crate::error::{ConnectionError, ErrorCode, HpackError};
use crate::fields::{FieldList, Malformed, Section, SectionError};
use crate::frame::{
    ACK, DEFAULT_WINDOW, EndStream, MAX_PAYLOAD, PING, SETTINGS, Settings, write_frame, write_reset,
};
use crate::hpack::TABLE_SIZE;
use crate::priority::Priority;

/// The useless frames that a list over a limit counts for: more than those that the response makes up for.
const REJECTED: u32 = 2 * send::FRAMES_PER_RESPONSE;

impl Connection {
    /// `None`: the frame does not concern a request.
    pub(super) fn on_frame<'a>(
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
            decoder::Event::BlockPart => self.discard_block(list).map(|()| None),
            decoder::Event::DataHeader { stream, length, padding, end } => {
                self.on_data_header(stream, length, padding, end, out)
            }
            decoder::Event::Data { stream, bytes } => {
                let end = self.frames.take_end_stream();
                Ok(self.on_data(stream, bytes, end))
            }
            decoder::Event::EndStream { stream } => Ok(self.on_data(stream, &[], EndStream::Set)),
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
            decoder::Event::PingAck(payload) => match self.on_ping_ack(payload, out) {
                true => Ok(None),
                false => self.spend_useless(1).map(|()| None),
            },
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
        list.begin(section, if end.is_set() { Body::Absent } else { Body::Present });
        let max = self.limits.fields as usize;
        let decoded = match self.discarded.is_some() {
            true => self.end_of_discarded(list)?,
            false => {
                let block = whole.unwrap_or(self.frames.block());
                list.decode(&mut self.hpack, block, max, self.limits.extended_connect)
            }
        };
        if decoded == Err(SectionError::Hpack(HpackError::Malformed)) {
            return Err(ConnectionError::Compression);
        }
        match open {
            Some(at) => self.on_trailers(at, decoded, end, out),
            // They end it.
            None if self.unread.remove(id) => Ok(None),
            None if !self.opens(id)? => Ok(None),
            None => self.on_request(id, decoded, list, end, out),
        }
    }

    /// Decodes a part of a block that is over the limit, for the table.
    fn discard_block(&mut self, list: &mut FieldList) -> Result<(), ConnectionError> {
        let discarded = self.discarded.get_or_insert_default();
        let taken = list.discard(&mut self.hpack, self.frames.block(), discarded);
        self.frames.take_block(taken.map_err(|_| ConnectionError::Compression)?);
        Ok(())
    }

    /// As `discard_block`, for the last part. The list has nothing but the method, if that is HEAD.
    fn end_of_discarded(
        &mut self,
        list: &mut FieldList,
    ) -> Result<Result<(), SectionError>, ConnectionError> {
        self.discard_block(list)?;
        match self.discarded.take() {
            Some(discarded) if discarded.is_whole() && self.frames.block().is_empty() => {
                list.note_discarded(*discarded);
                Ok(Err(SectionError::Hpack(HpackError::ListTooLarge)))
            }
            _ => Err(ConnectionError::Compression),
        }
    }

    /// Whether HEADERS opens a stream (RFC 9113 §5.1 and §5.1.1). `false`: it is to be ignored.
    fn opens(&mut self, id: u32) -> Result<bool, ConnectionError> {
        if id.is_multiple_of(2) {
            return Err(ConnectionError::StreamNumber);
        }
        if id <= self.highest {
            return match self.closed.find(id) {
                Some(ClosedBy::Server) => self.spend_useless(1).map(|()| false),
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
        end: EndStream,
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
            Ok(()) if end.is_set() && length.is_some_and(|length| length > 0) => Some(Malformed::Length),
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
            remote: if end.is_set() { Remote::Ended } else { Remote::Open },
            local: Local::Open,
            is_ready: false,
            priority: early.unwrap_or_else(|| list.priority()),
            turn: self.turns,
            send: SendWindow::new(self.initial_send),
            receive: ReceiveWindow::new(self.initial_receive),
            remaining: length,
            rest: None,
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
        end: EndStream,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let stream = &mut self.streams[at];
        if stream.remote == Remote::Ended {
            return self.stream_error(at, ErrorCode::STREAM_CLOSED, out);
        }
        let is_short = stream.remaining.is_some_and(|length| length > 0);
        if end.is_set() && is_short && stream.rest.is_some() {
            stream.remote = Remote::Ended;
            return Ok(Some(Event::Cut { stream: StreamId(stream.id) }));
        }
        // The trailers of an oversized list are as useless as malformed ones.
        if !end.is_set() || decoded.is_err() || is_short {
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
        end: EndStream,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::Idle);
        }
        if !self.receive.receive(length) {
            return Err(ConnectionError::Window);
        }
        if length == padding && !end.is_set() {
            self.spend_useless(1)?;
        }
        let Some(at) = self.streams.find(id) else {
            return self.on_closed_data(id, length, padding, end, out);
        };
        let stream = &mut self.streams[at];
        let data = u64::from(length - padding);
        let is_short = end.is_set() && stream.remaining.is_some_and(|remaining| remaining > data);
        if is_short && stream.rest.is_some() && stream.remote == Remote::Open {
            // A client that has the beginning of a response, as of an error, may end its request there.
            stream.remote = Remote::Ended;
            self.consume(length, out);
            return Ok(Some(Event::Cut { stream: StreamId(id) }));
        }
        let error = if stream.remote == Remote::Ended {
            ErrorCode::STREAM_CLOSED
        } else if !stream.receive.receive(length) {
            ErrorCode::FLOW_CONTROL_ERROR
        } else if is_short || stream.remaining.is_some_and(|remaining| remaining < data) {
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
        padding: u32,
        end: EndStream,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.consume(length, out);
        match self.unread.on_data(id, length - padding, end) {
            None => {}
            Some(Then::Wait) => return Ok(None),
            Some(Then::Reset) => {
                self.reset_unread(id, out);
                return Ok(None);
            }
        }
        if id > self.last || self.closed.find(id) == Some(ClosedBy::Server) {
            return Ok(None);
        }
        write_reset(out, id, ErrorCode::STREAM_CLOSED);
        self.closed.push(id, ClosedBy::Server);
        self.spend_reset().map(|()| None)
    }

    /// Part of a DATA frame whose header was accepted, or is ignored: then the stream is not open.
    fn on_data<'a>(&mut self, id: u32, data: &'a [u8], end: EndStream) -> Option<Event<'a>> {
        let Some(at) = self.streams.find(id) else {
            // The response was complete in the middle of the frame.
            if end.is_set() {
                self.unread.remove(id);
            }
            return None;
        };
        // The rest of a frame that has ended the request short of its length.
        if self.streams[at].remote == Remote::Ended {
            return None;
        }
        if end.is_set() {
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
            self.unread.remove(id);
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
}
