//! HTTP/2 (RFC 9113), the client's half of one connection: bytes go in, events come out, and what has to be
//! sent is gathered. Cutting the same bytes differently never changes the events. Knows nothing of sockets.

mod head;

use std::collections::VecDeque;

use taipan_h2::frame::*;
use taipan_h2::hpack::{Decoder, TABLE_SIZE};

use crate::plan::{Ask, Target};
use head::{Encoder, Fields};

/// The largest there is: a load generator always has room.
const WINDOW: u32 = MAX_WINDOW;
/// When so much has come, the connection's window is filled up again.
const REFILL: u32 = 1 << 30;
/// A head with all its continuations.
const HEAD_MAX: usize = 256 * 1024;
/// Streams that a server should be asked for before it has said how many it wants (RFC 9113 §6.5.2).
const STREAMS_BEFORE_SETTINGS: usize = 100;

/// What the bytes up to the reported one were.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing that concerns a request. If all input is used up, more will come.
    More,
    /// A final head: bytes on the wire with their frames, and bytes of the names and values.
    Head {
        stream: u32,
        status: u16,
        length: Option<u64>,
        bytes: u32,
        plain_bytes: u32,
    },
    Body {
        stream: u32,
        data: &'a [u8],
    },
    /// The answer is complete.
    End {
        stream: u32,
    },
    /// There will be no (more) answer. `Refused`: the server has not looked at the request.
    Reset {
        stream: u32,
        why: Why,
    },
    /// Streams above `last` will not be answered, and no new ones.
    Leaving {
        last: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Refused,
    Other,
}

/// A rule of the connection is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotHttp2;

#[derive(Debug)]
enum State {
    /// The nine bytes before a frame, or the payload of one that is read as a whole.
    Gather,
    /// Of a DATA frame, how many bytes of body and of padding are still to come.
    Data { body: usize, padding: usize },
}

/// A body that waits for the peer's windows.
#[derive(Debug)]
struct Upload {
    stream: u32,
    body: Vec<u8>,
    at: usize,
    window: i64,
}

#[derive(Debug)]
pub struct Client {
    out: Vec<u8>,
    state: State,
    frame: Option<Frame>,
    gathered: Vec<u8>,
    /// The head that is being gathered, and the stream it belongs to.
    head: Option<(u32, u8)>,
    block: Vec<u8>,
    block_frames: u32,
    /// A stream that ended with its head.
    ended: Option<u32>,
    decoder: Decoder,
    encoder: Encoder,
    next_stream: u32,
    most_streams: usize,
    seen_settings: Settings,
    leaving: Leaving,
    received: u32,
    uploads: VecDeque<Upload>,
    window: i64,
    stream_window: i64,
    server_name: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Settings {
    Awaited,
    Seen,
}

#[derive(Debug, PartialEq, Eq)]
enum Leaving {
    Not,
    Announced,
}

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

impl Client {
    /// With the preface ready to be sent.
    pub fn new() -> Client {
        let mut client = Client {
            out: PREFACE.to_vec(),
            state: State::Gather,
            frame: None,
            gathered: Vec::new(),
            head: None,
            block: Vec::new(),
            block_frames: 0,
            ended: None,
            decoder: Decoder::new(TABLE_SIZE),
            encoder: Encoder::Fresh,
            next_stream: 1,
            most_streams: STREAMS_BEFORE_SETTINGS,
            seen_settings: Settings::Awaited,
            leaving: Leaving::Not,
            received: 0,
            uploads: VecDeque::new(),
            window: i64::from(DEFAULT_WINDOW),
            stream_window: i64::from(DEFAULT_WINDOW),
            server_name: String::new(),
        };
        // ENABLE_PUSH 0, INITIAL_WINDOW_SIZE.
        let mut settings = [0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
        settings[8..].copy_from_slice(&WINDOW.to_be_bytes());
        client.put(SETTINGS, 0, 0, &settings);
        client.put(WINDOW_UPDATE, 0, 0, &(WINDOW - DEFAULT_WINDOW).to_be_bytes());
        client
    }

    /// How many streams the server lets be open at a time.
    pub fn room(&self) -> usize {
        if self.is_leaving() { 0 } else { self.most_streams }
    }

    pub fn is_leaving(&self) -> bool {
        // Numbers of streams are used up, too, after some hours.
        self.leaving == Leaving::Announced || self.next_stream > WINDOW / 2
    }

    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// Opens a stream. Returns its number.
    pub fn request(&mut self, ask: &Ask, target: &Target) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let start = self.out.len();
        self.put(HEADERS, 0, stream, &[]);
        self.encoder.encode(ask, target, &mut self.out);
        let end = if ask.body.is_empty() { END_STREAM } else { 0 };
        self.close_head(start, stream, end);
        if !ask.body.is_empty() {
            let window = self.stream_window;
            self.uploads.push_back(Upload { stream, body: ask.body.clone(), at: 0, window });
            self.upload();
        }
        stream
    }

    /// The peer need not go on with this stream.
    pub fn cancel(&mut self, stream: u32) {
        self.uploads.retain(|upload| upload.stream != stream);
        self.put(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }

    /// Moves what is to be sent behind what is in `out` already.
    pub fn drain_into(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.out);
        } else {
            out.append(&mut self.out);
        }
    }

    /// Reads up to the next event. The number is how many bytes of `input` are used up; call until they all
    /// are, and the event is `More`.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), NotHttp2> {
        if let Some(stream) = self.ended.take() {
            return Ok((0, Event::End { stream }));
        }
        let (used, event) = self.step(input)?;
        Ok(match (event, self.ended) {
            (Event::More, Some(stream)) => {
                self.ended = None;
                (used, Event::End { stream })
            }
            (event, _) => (used, event),
        })
    }

    fn step<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), NotHttp2> {
        if input.is_empty() {
            return Ok((0, Event::More));
        }
        match self.state {
            State::Data { body: 0, padding } => {
                let taken = padding.min(input.len());
                self.state = State::Data { body: 0, padding: padding - taken };
                if padding == taken {
                    self.end_data();
                }
                Ok((taken, Event::More))
            }
            State::Data { body, padding } => {
                let taken = body.min(input.len());
                self.state = State::Data { body: body - taken, padding };
                let stream = self.frame.map_or(0, |frame| frame.stream);
                if body == taken && padding == 0 {
                    self.end_data();
                }
                Ok((taken, Event::Body { stream, data: &input[..taken] }))
            }
            State::Gather => self.gather(input),
        }
    }

    fn gather(&mut self, input: &[u8]) -> Result<(usize, Event<'static>), NotHttp2> {
        let wanted = match self.frame {
            None => HEADER,
            // The length of the padding stands before the data.
            Some(frame) if frame.kind == DATA => usize::from(frame.flags & PADDED != 0),
            Some(frame) => frame.length,
        };
        let taken = wanted.saturating_sub(self.gathered.len()).min(input.len());
        self.gathered.extend_from_slice(&input[..taken]);
        if self.gathered.len() < wanted {
            return Ok((taken, Event::More));
        }
        let gathered = std::mem::take(&mut self.gathered);
        let event = match self.frame {
            None => self.begin(&gathered),
            Some(frame) => self.whole(frame, &gathered),
        };
        self.gathered = gathered;
        self.gathered.clear();
        Ok((taken, event?))
    }

    /// The nine bytes are here.
    fn begin(&mut self, nine: &[u8]) -> Result<Event<'static>, NotHttp2> {
        let frame = Frame::parse(nine.try_into().map_err(|_| NotHttp2)?);
        let Frame { kind, flags, .. } = frame;
        let in_head = self.head.map(|(stream, _)| stream);
        let expected = match (in_head, &self.seen_settings) {
            // RFC 9113 §4.3: nothing comes between the parts of a head.
            (Some(stream), _) => kind == CONTINUATION && frame.stream == stream,
            (None, Settings::Awaited) => kind == SETTINGS && flags & ACK == 0,
            (None, Settings::Seen) => kind != CONTINUATION && kind != PUSH_PROMISE,
        };
        if !expected || frame.length > MAX_FRAME {
            return Err(NotHttp2);
        }
        self.frame = Some(frame);
        if kind == DATA && frame.flags & PADDED == 0 {
            return self.data(frame, frame.length, 0);
        }
        if frame.length == 0 {
            return self.whole(frame, &[]);
        }
        Ok(Event::More)
    }

    fn data(&mut self, frame: Frame, body: usize, padding: usize) -> Result<Event<'static>, NotHttp2> {
        if frame.stream == 0 {
            return Err(NotHttp2);
        }
        self.received += frame.length as u32;
        if self.received >= REFILL {
            let received = std::mem::take(&mut self.received);
            self.put(WINDOW_UPDATE, 0, 0, &received.to_be_bytes());
        }
        self.state = State::Data { body, padding };
        if body == 0 && padding == 0 {
            self.end_data();
        }
        Ok(Event::More)
    }

    fn end_data(&mut self) {
        self.state = State::Gather;
        if let Some(frame) = self.frame.take()
            && frame.flags & END_STREAM != 0
        {
            self.ended = Some(frame.stream);
        }
    }

    /// A frame that is read as a whole, or the length of a DATA frame's padding.
    fn whole(&mut self, frame: Frame, payload: &[u8]) -> Result<Event<'static>, NotHttp2> {
        if frame.kind == DATA {
            let padding = usize::from(*payload.first().ok_or(NotHttp2)?);
            let body = frame.length.checked_sub(1 + padding).ok_or(NotHttp2)?;
            return self.data(frame, body, padding);
        }
        self.frame = None;
        match frame.kind {
            HEADERS => {
                let mut block = payload;
                if frame.flags & PADDED != 0 {
                    let (&padding, rest) = block.split_first().ok_or(NotHttp2)?;
                    block = rest.get(..rest.len().saturating_sub(usize::from(padding))).ok_or(NotHttp2)?;
                }
                if frame.flags & PRIORITY != 0 {
                    block = block.get(5..).ok_or(NotHttp2)?;
                }
                self.block.clear();
                self.block_frames = 1;
                self.head = Some((frame.stream, frame.flags));
                self.add_to_head(frame, block)
            }
            CONTINUATION => {
                self.block_frames += 1;
                self.add_to_head(frame, payload)
            }
            RST_STREAM => {
                let why = if number(payload)? == REFUSED_STREAM { Why::Refused } else { Why::Other };
                self.uploads.retain(|upload| upload.stream != frame.stream);
                Ok(Event::Reset { stream: frame.stream, why })
            }
            SETTINGS if frame.flags & ACK == 0 => self.settings(payload),
            PING if frame.flags & ACK == 0 && payload.len() == 8 => {
                self.put(PING, ACK, 0, payload);
                Ok(Event::More)
            }
            GOAWAY => {
                self.leaving = Leaving::Announced;
                let last = number(payload.get(..4).ok_or(NotHttp2)?)? & 0x7fff_ffff;
                Ok(Event::Leaving { last })
            }
            WINDOW_UPDATE => {
                let more = i64::from(number(payload)? & 0x7fff_ffff);
                match frame.stream {
                    0 => self.window += more,
                    stream => {
                        if let Some(upload) = self.uploads.iter_mut().find(|upload| upload.stream == stream) {
                            upload.window += more;
                        }
                    }
                }
                self.upload();
                Ok(Event::More)
            }
            // RFC 9113 §5.5: what is not known is ignored.
            _ => Ok(Event::More),
        }
    }

    fn add_to_head(&mut self, frame: Frame, block: &[u8]) -> Result<Event<'static>, NotHttp2> {
        if self.block.len() + block.len() > HEAD_MAX {
            return Err(NotHttp2);
        }
        self.block.extend_from_slice(block);
        if frame.flags & END_HEADERS == 0 {
            return Ok(Event::More);
        }
        let (stream, flags) = self.head.take().ok_or(NotHttp2)?;
        let fields = Fields::read(&mut self.decoder, &self.block).map_err(|_| NotHttp2)?;
        if flags & END_STREAM != 0 {
            self.ended = Some(stream);
        }
        if let (true, Some(name)) = (self.server_name.is_empty(), fields.server) {
            self.server_name = name;
        }
        match fields.status {
            Some(status) if status >= 200 => Ok(Event::Head {
                stream,
                status,
                length: fields.length,
                bytes: self.block.len() as u32 + 9 * self.block_frames,
                plain_bytes: fields.plain_bytes,
            }),
            // Interim heads, and trailers.
            _ => Ok(Event::More),
        }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<Event<'static>, NotHttp2> {
        if !payload.len().is_multiple_of(6) {
            return Err(NotHttp2);
        }
        for setting in payload.chunks_exact(6) {
            let value = number(&setting[2..])?;
            match u16::from_be_bytes([setting[0], setting[1]]) {
                1 => self.encoder.limit(value),
                3 => self.most_streams = value as usize,
                4 => {
                    let change = i64::from(value) - self.stream_window;
                    self.stream_window = i64::from(value);
                    for upload in &mut self.uploads {
                        upload.window += change;
                    }
                }
                _ => {}
            }
        }
        if self.seen_settings == Settings::Awaited {
            self.seen_settings = Settings::Seen;
            // Without a word about it, there is no limit.
            let said = payload.chunks_exact(6).any(|setting| setting[..2] == [0, 3]);
            if !said {
                self.most_streams = usize::MAX;
            }
        }
        self.put(SETTINGS, ACK, 0, &[]);
        self.upload();
        Ok(Event::More)
    }

    /// Sends of the bodies what the windows allow.
    fn upload(&mut self) {
        let mut uploads = std::mem::take(&mut self.uploads);
        for upload in &mut uploads {
            // Bounded by the body: each pass takes some of it.
            while upload.at < upload.body.len() {
                let room = self.window.min(upload.window).clamp(0, MAX_FRAME as i64) as usize;
                let count = room.min(upload.body.len() - upload.at);
                if count == 0 {
                    break;
                }
                let end = upload.at + count == upload.body.len();
                let piece = &upload.body[upload.at..upload.at + count];
                self.put(DATA, if end { END_STREAM } else { 0 }, upload.stream, piece);
                upload.at += count;
                upload.window -= count as i64;
                self.window -= count as i64;
            }
        }
        uploads.retain(|upload| upload.at < upload.body.len());
        self.uploads = uploads;
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        put_frame(&mut self.out, payload.len(), kind, flags, stream);
        self.out.extend_from_slice(payload);
    }

    /// Sets length and flags of the head that was begun at `start`; what is too long goes into continuations.
    fn close_head(&mut self, start: usize, stream: u32, end: u8) {
        let block = self.out.len() - start - 9;
        if block <= MAX_FRAME {
            self.out[start..start + 3].copy_from_slice(&(block as u32).to_be_bytes()[1..]);
            self.out[start + 4] = END_HEADERS | end;
            return;
        }
        let bytes = self.out.split_off(start + 9);
        self.out.truncate(start);
        let last = bytes.len().div_ceil(MAX_FRAME) - 1;
        for (index, piece) in bytes.chunks(MAX_FRAME).enumerate() {
            let (kind, flags) = if index == 0 { (HEADERS, end) } else { (CONTINUATION, 0) };
            let flags = if index == last { flags | END_HEADERS } else { flags };
            self.put(kind, flags, stream, piece);
        }
    }
}

fn number(bytes: &[u8]) -> Result<u32, NotHttp2> {
    bytes.try_into().map(u32::from_be_bytes).map_err(|_| NotHttp2)
}

#[cfg(test)]
mod tests;
