//! Decodes the frames of a peer (RFC 9113 §4, §6 and §10.5.1). The events do not depend on how the input is cut. DATA
//! is not copied; the decoder stores a field block until its last CONTINUATION, up to a limit, and at most one other payload.
//!
//! Knows nothing of the states of streams, of flow-control windows and of HPACK. PRIORITY and frames of unknown types
//! (§5.5) are checked and ignored.

use crate::error::{ErrorCode, FrameError};
use crate::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, EndStream, FrameHeader, GOAWAY, HEADER_LEN, HEADERS,
    MAX_PAYLOAD, PADDED, PING, PRIORITY, PRIORITY_FLAG, PRIORITY_UPDATE, PUSH_PROMISE, RST_STREAM, SETTINGS,
    Settings, WINDOW_UPDATE,
};
use crate::priority::Priority;

/// The most HEADERS and CONTINUATION frames of a field block, unless the limit of its bytes needs more full ones.
/// Without this limit, a peer could send empty frames for ever (CVE-2024-27316).
pub const MAX_BLOCK_FRAMES: u32 = 32;

/// The most bytes of a field block that is over its limit and discarded, unless that limit is larger than half of it.
const DISCARDED: usize = 256 * 1024;

/// What the decoder found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed.
    NeedMore,
    /// A DATA frame begins. Flow control counts all of its `length` bytes, of which `padding` are not data (§6.9.1).
    DataHeader {
        stream: u32,
        length: u32,
        padding: u32,
        end: EndStream,
    },
    /// Part of the data, never empty.
    Data {
        stream: u32,
        bytes: &'a [u8],
    },
    /// A field block is complete, which has arrived in `frames` frames. `whole` is the block if it was all in the
    /// input; else `FrameDecoder::block` has it.
    Headers {
        stream: u32,
        frames: u32,
        whole: Option<&'a [u8]>,
    },
    /// A field block is over its limit as soon as the next frame is there. `FrameDecoder::block` has what has arrived.
    /// The caller takes as much of it as it can, by `FrameDecoder::take_block`; the rest stays in front of the frame.
    BlockPart,
    /// The last frame of the stream is complete. `FrameDecoder::take_end_stream` prevents this event.
    EndStream {
        stream: u32,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
    },
    Settings(Settings),
    SettingsAck,
    /// The response has the same payload and `ACK`.
    Ping([u8; 8]),
    PingAck([u8; 8]),
    GoAway {
        last_stream: u32,
        code: ErrorCode,
    },
    /// Stream 0 is the connection. The increment is not 0.
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    /// RFC 9218 §7.1.
    PriorityUpdate {
        stream: u32,
        priority: Priority,
    },
    /// A frame without a meaning here.
    Ignored,
}

/// Decodes the frames of one direction of a connection, after the preface of a client. After an error the result of
/// further calls is unspecified.
#[derive(Debug)]
pub struct FrameDecoder {
    /// Bytes of a field block.
    max_block: usize,
    state: State,
    /// The incomplete header or payload of a frame.
    partial: Vec<u8>,
    block: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The first frame must be SETTINGS (§3.4).
    FirstHeader,
    Header,
    /// Within a field block.
    BlockHeader(Block),
    Payload(FrameHeader),
    BlockPayload(Block, FrameHeader),
    PadLength(FrameHeader),
    Data {
        header: FrameHeader,
        data: usize,
        padding: usize,
    },
    Skip(usize),
    EndStream(u32),
}

/// A field block without END_HEADERS so far.
#[derive(Debug, Clone, Copy)]
struct Block {
    stream: u32,
    /// Those of HEADERS.
    flags: u8,
    frames: u32,
    /// Bytes of the payloads.
    bytes: u32,
}

impl FrameDecoder {
    /// With a limit of the bytes of a field block.
    pub const fn new(max_block: usize) -> FrameDecoder {
        FrameDecoder { max_block, state: State::FirstHeader, partial: Vec::new(), block: Vec::new() }
    }

    /// The field block of the latest `Event::Headers`, if it was not all in the input.
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// Removes so many bytes from the start of the block.
    pub fn take_block(&mut self, bytes: usize) {
        self.block.drain(..bytes.min(self.block.len()));
    }

    /// Whether the event that was returned last is the last of its stream.
    pub fn take_end_stream(&mut self) -> EndStream {
        let end = EndStream::when(matches!(self.state, State::EndStream(_)));
        if end.is_set() {
            self.state = State::Header;
        }
        end
    }

    /// Whether the input so far ends within a frame or a field block.
    pub fn is_within_frame(&self) -> bool {
        !matches!(self.state, State::FirstHeader | State::Header) || !self.partial.is_empty()
    }

    /// Gives up the memory of the field block, and that of a partial frame if there is none.
    pub fn trim(&mut self) {
        self.block = match self.state {
            State::BlockHeader(_) | State::BlockPayload(..) => std::mem::take(&mut self.block),
            _ => Vec::new(),
        };
        self.partial.shrink_to_fit();
    }

    /// Reads up to the next event and returns it with the number of consumed bytes. The next call takes the rest of
    /// the input. The caller repeats it until `NeedMore`.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), FrameError> {
        let mut rest = input;
        // Bounded: each pass takes at least a byte, or changes from a header to an empty payload.
        loop {
            if let Some(event) = self.step(&mut rest)? {
                return Ok((input.len() - rest.len(), event));
            }
        }
    }

    fn step<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<Event<'a>>, FrameError> {
        match self.state {
            State::FirstHeader | State::Header | State::BlockHeader(_) => {
                // The fast path: most frames arrive whole.
                if let (true, Some((header, after))) = (self.partial.is_empty(), rest.split_first_chunk()) {
                    *rest = after;
                    return self.begin(FrameHeader::parse(header));
                }
                let mut partial = std::mem::take(&mut self.partial);
                let header = gather(&mut partial, rest, HEADER_LEN).and_then(<[u8]>::first_chunk);
                let event = header.map(|header| self.begin(FrameHeader::parse(header)));
                self.keep(partial, event)
            }
            State::Payload(header) => {
                let mut partial = std::mem::take(&mut self.partial);
                let event = gather(&mut partial, rest, header.length).map(|payload| {
                    self.state = State::Header;
                    self.payload(header, payload)
                });
                self.keep(partial, event)
            }
            State::BlockPayload(block, header) => {
                let whole = rest.split_at_checked(header.length);
                if let (true, Some((payload, after))) = (self.partial.is_empty(), whole) {
                    *rest = after;
                    return match (header.kind, header.has(END_HEADERS)) {
                        (HEADERS, true) => self.whole(block, header, payload),
                        _ => self.fragment(block, header, payload),
                    };
                }
                let mut partial = std::mem::take(&mut self.partial);
                let event = gather(&mut partial, rest, header.length)
                    .map(|payload| self.fragment(block, header, payload));
                self.keep(partial, event)
            }
            State::PadLength(header) => {
                let Some((&padding, after)) = rest.split_first() else { return Ok(Some(Event::NeedMore)) };
                *rest = after;
                let padding = usize::from(padding);
                let data = (header.length - 1).checked_sub(padding).ok_or(FrameError::Padding)?;
                Ok(Some(self.data_header(header, data, padding)))
            }
            State::Data { header, data: 0, padding } => {
                let taken = padding.min(rest.len());
                *rest = &rest[taken..];
                self.data(header, 0, padding - taken);
                Ok((taken < padding).then_some(Event::NeedMore))
            }
            State::Data { header, data, padding } => {
                let (bytes, after) = rest.split_at(data.min(rest.len()));
                *rest = after;
                if bytes.is_empty() {
                    return Ok(Some(Event::NeedMore));
                }
                self.data(header, data - bytes.len(), padding);
                Ok(Some(Event::Data { stream: header.stream, bytes }))
            }
            State::Skip(length) => {
                let taken = length.min(rest.len());
                *rest = &rest[taken..];
                self.state = if taken == length { State::Header } else { State::Skip(length - taken) };
                Ok((taken < length).then_some(Event::NeedMore))
            }
            State::EndStream(stream) => {
                self.state = State::Header;
                Ok(Some(Event::EndStream { stream }))
            }
        }
    }

    /// Stores an incomplete header or payload. `event` is `None` for an incomplete one.
    fn keep<'a>(
        &mut self,
        mut partial: Vec<u8>,
        event: Option<Result<Option<Event<'a>>, FrameError>>,
    ) -> Result<Option<Event<'a>>, FrameError> {
        if event.is_some() {
            partial.clear();
        }
        self.partial = partial;
        event.unwrap_or(Ok(Some(Event::NeedMore)))
    }

    fn begin<'a>(&mut self, header: FrameHeader) -> Result<Option<Event<'a>>, FrameError> {
        header.check()?;
        let FrameHeader { kind, stream, length, .. } = header;
        self.state = match (self.state, kind) {
            (State::BlockHeader(block), CONTINUATION) if block.stream == stream => {
                let max = DISCARDED.max(2 * self.max_block);
                let (frames, bytes) = (block.frames + 1, block.bytes as usize + length);
                if frames > MAX_BLOCK_FRAMES.max(max.div_ceil(MAX_PAYLOAD) as u32) || bytes > max {
                    return Err(FrameError::BlockTooLarge);
                }
                self.state = State::BlockPayload(Block { frames, bytes: bytes as u32, ..block }, header);
                return Ok((self.block.len() + length > self.max_block).then_some(Event::BlockPart));
            }
            (State::BlockHeader(_), _) => return Err(FrameError::Interrupted),
            (State::FirstHeader, SETTINGS) if !header.has(ACK) => State::Payload(header),
            (State::FirstHeader, _) => return Err(FrameError::NoSettings),
            (_, CONTINUATION) => return Err(FrameError::Continuation),
            (_, PUSH_PROMISE) => return Err(FrameError::PushPromise),
            (_, HEADERS) => {
                let block = Block { stream, flags: header.flags, frames: 1, bytes: length as u32 };
                State::BlockPayload(block, header)
            }
            (_, DATA) => match (header.has(PADDED), length) {
                (true, 0) => return Err(FrameError::Length),
                (true, _) => State::PadLength(header),
                (false, _) => return Ok(Some(self.data_header(header, length, 0))),
            },
            (_, SETTINGS) if header.has(ACK) => {
                self.state = State::Header;
                return Ok(Some(Event::SettingsAck));
            }
            (_, SETTINGS | PING | RST_STREAM | GOAWAY | WINDOW_UPDATE | PRIORITY | PRIORITY_UPDATE) => {
                State::Payload(header)
            }
            _ => {
                self.state = State::Skip(length);
                return Ok(Some(Event::Ignored));
            }
        };
        Ok(None)
    }

    fn data_header<'a>(&mut self, header: FrameHeader, data: usize, padding: usize) -> Event<'a> {
        let FrameHeader { stream, length, .. } = header;
        self.data(header, data, padding);
        Event::DataHeader {
            stream,
            length: length as u32,
            padding: (length - data) as u32,
            end: EndStream::when(header.has(END_STREAM)),
        }
    }

    /// So much data and padding of the frame is still to come.
    fn data(&mut self, header: FrameHeader, data: usize, padding: usize) {
        self.state = match data + padding {
            0 if header.has(END_STREAM) => State::EndStream(header.stream),
            0 => State::Header,
            _ => State::Data { header, data, padding },
        };
    }

    /// A frame that is neither DATA nor part of a field block. `FrameHeader::check` has checked its length.
    fn payload<'a>(&self, header: FrameHeader, payload: &[u8]) -> Result<Option<Event<'a>>, FrameError> {
        let FrameHeader { kind, stream, .. } = header;
        let number =
            |at: usize| payload.get(at..).and_then(<[u8]>::first_chunk).map(|four| u32::from_be_bytes(*four));
        // The first bit of both is reserved (§6.8 and §6.9).
        let (first, second) = (number(0).unwrap_or(0), number(4).unwrap_or(0));
        Ok(Some(match kind {
            SETTINGS => Event::Settings(Settings::parse(payload)?),
            PING => {
                let payload = *payload.first_chunk().ok_or(FrameError::Length)?;
                if header.has(ACK) { Event::PingAck(payload) } else { Event::Ping(payload) }
            }
            RST_STREAM => Event::Reset { stream, code: ErrorCode(first) },
            GOAWAY => Event::GoAway { last_stream: first & 0x7fff_ffff, code: ErrorCode(second) },
            PRIORITY if first & 0x7fff_ffff == stream => return Err(FrameError::Dependency),
            PRIORITY => Event::Ignored,
            PRIORITY_UPDATE => match first & 0x7fff_ffff {
                0 => return Err(FrameError::Stream),
                stream => Event::PriorityUpdate { stream, priority: Priority::parse(&payload[4..]) },
            },
            _ => match first & 0x7fff_ffff {
                0 => return Err(FrameError::Increment),
                increment => Event::WindowUpdate { stream, increment },
            },
        }))
    }

    /// HEADERS (§6.2) or CONTINUATION (§6.10) in a payload that is not part of the input.
    fn fragment<'a>(
        &mut self,
        block: Block,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'a>>, FrameError> {
        let fragment = if header.kind == HEADERS { unpadded(header, payload)? } else { payload };
        if header.kind == HEADERS {
            self.block.clear();
        }
        if self.block.len() + fragment.len() > self.max_block {
            return Err(FrameError::BlockTooLarge);
        }
        self.block.extend_from_slice(fragment);
        if !header.has(END_HEADERS) {
            self.state = State::BlockHeader(block);
            return Ok(None);
        }
        Ok(Some(self.headers(block, None)))
    }

    /// A block in one frame, in a payload of the input. It is not copied.
    fn whole<'a>(
        &mut self,
        block: Block,
        header: FrameHeader,
        payload: &'a [u8],
    ) -> Result<Option<Event<'a>>, FrameError> {
        let fragment = unpadded(header, payload)?;
        if fragment.len() > self.max_block {
            return Err(FrameError::BlockTooLarge);
        }
        Ok(Some(self.headers(block, Some(fragment))))
    }

    fn headers<'a>(&mut self, block: Block, whole: Option<&'a [u8]>) -> Event<'a> {
        let Block { stream, flags, frames, .. } = block;
        self.state = if flags & END_STREAM == 0 { State::Header } else { State::EndStream(stream) };
        Event::Headers { stream, frames, whole }
    }
}

/// The fragment of a HEADERS frame without padding and priority.
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], FrameError> {
    let (mut fragment, mut padding) = (payload, 0);
    if header.has(PADDED) {
        let (&length, after) = fragment.split_first().ok_or(FrameError::Length)?;
        (padding, fragment) = (usize::from(length), after);
    }
    if header.has(PRIORITY_FLAG) {
        // §5.3.2: the priority of RFC 7540 is deprecated.
        let (&[a, b, c, d, _], after) = fragment.split_first_chunk().ok_or(FrameError::Length)?;
        if u32::from_be_bytes([a & 0x7f, b, c, d]) == header.stream {
            return Err(FrameError::Dependency);
        }
        fragment = after;
    }
    let length = fragment.len().checked_sub(padding).ok_or(FrameError::Padding)?;
    Ok(&fragment[..length])
}

/// Takes `wanted` bytes. Copies them into `partial` only if they have not arrived together.
fn gather<'b, 'a: 'b>(partial: &'b mut Vec<u8>, rest: &mut &'a [u8], wanted: usize) -> Option<&'b [u8]> {
    if let (true, Some((bytes, after))) = (partial.is_empty(), rest.split_at_checked(wanted)) {
        *rest = after;
        return Some(bytes);
    }
    let (bytes, after) = rest.split_at((wanted - partial.len()).min(rest.len()));
    *rest = after;
    partial.extend_from_slice(bytes);
    (partial.len() == wanted).then_some(partial.as_slice())
}

#[cfg(test)]
mod tests;
