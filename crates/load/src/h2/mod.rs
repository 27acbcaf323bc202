//! The client's side of an HTTP/2 connection (RFC 9113): parses what the server sends and collects what must be sent.
//! The events do not depend on how the input is cut. Knows nothing of sockets.

mod head;

use std::collections::VecDeque;

use taipan_h2::decoder::{self, FrameDecoder};
use taipan_h2::error::{ErrorCode, FrameError, HpackError};
use taipan_h2::frame::{
    ACK, DATA, DEFAULT_WINDOW, END_STREAM, MAX_PAYLOAD, MAX_WINDOW, PING, PREFACE, SETTINGS, Settings,
    write_frame, write_headers, write_reset, write_window_update,
};
use taipan_h2::hpack::{Decoder, TABLE_SIZE};

use crate::plan::{Request, Target};
use head::{Encoder, Fields};

/// The window of each stream and of the connection: the largest, because the load generator reads at once.
const WINDOW: u32 = MAX_WINDOW;
/// After this number of bytes, a WINDOW_UPDATE refills the connection's window.
const REFILL: u32 = 1 << 30;
/// Bytes of a field block.
const HEAD_MAX: usize = 256 * 1024;
/// Concurrent streams before the server's SETTINGS. RFC 9113 §6.5.2 recommends that servers allow at least 100.
const STREAMS_BEFORE_SETTINGS: usize = 100;

/// What the client found.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed.
    More,
    /// The head of a final response. `bytes` counts its field block with the frame headers, `plain_bytes` names and
    /// values.
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
    /// The response is complete.
    End {
        stream: u32,
    },
    /// The server has ended the stream. `Refused`: it has not processed the request.
    Reset {
        stream: u32,
        reason: ResetReason,
    },
    /// GOAWAY: the server does not process streams above `last`.
    Leaving {
        last: u32,
    },
}

/// Why the server has reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    Refused,
    Other,
}

/// The server has broken a rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotHttp2;

impl From<FrameError> for NotHttp2 {
    fn from(_: FrameError) -> NotHttp2 {
        NotHttp2
    }
}

impl From<HpackError> for NotHttp2 {
    fn from(_: HpackError) -> NotHttp2 {
        NotHttp2
    }
}

/// A request body that waits for the server's windows.
#[derive(Debug)]
struct Upload {
    stream: u32,
    body: Vec<u8>,
    at: usize,
    window: i64,
}

/// The client's side of a connection (RFC 9113).
#[derive(Debug)]
pub struct Client {
    out: Vec<u8>,
    frames: FrameDecoder,
    decoder: Decoder,
    encoder: Encoder,
    next_stream: u32,
    most_streams: usize,
    settings: Handshake,
    leaving: Leaving,
    received: u32,
    uploads: VecDeque<Upload>,
    window: i64,
    stream_window: i64,
    server_name: String,
}

/// Whether the server has sent its first SETTINGS.
#[derive(Debug, PartialEq, Eq)]
enum Handshake {
    Awaited,
    Complete,
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
    /// The preface and SETTINGS are ready to be sent.
    pub fn new() -> Client {
        let mut client = Client {
            out: PREFACE.to_vec(),
            frames: FrameDecoder::new(HEAD_MAX),
            decoder: Decoder::new(TABLE_SIZE, usize::MAX),
            encoder: Encoder::Fresh,
            next_stream: 1,
            most_streams: STREAMS_BEFORE_SETTINGS,
            settings: Handshake::Awaited,
            leaving: Leaving::Not,
            received: 0,
            uploads: VecDeque::new(),
            window: i64::from(DEFAULT_WINDOW),
            stream_window: i64::from(DEFAULT_WINDOW),
            server_name: String::new(),
        };
        let settings =
            Settings { enable_push: Some(0), initial_window_size: Some(WINDOW), ..Settings::default() };
        settings.write(&mut client.out);
        write_window_update(&mut client.out, 0, WINDOW - DEFAULT_WINDOW);
        client
    }

    /// The limit of concurrent streams.
    pub fn capacity(&self) -> usize {
        if self.is_leaving() { 0 } else { self.most_streams }
    }

    /// Whether the connection takes no further stream.
    pub fn is_leaving(&self) -> bool {
        // Stream numbers run out after some hours.
        self.leaving == Leaving::Announced || self.next_stream > WINDOW / 2
    }

    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// Opens a stream. Returns its number.
    pub fn send_request(&mut self, request: &Request, target: &Target) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let flags = if request.body.is_empty() { END_STREAM } else { 0 };
        write_headers(&mut self.out, stream, flags, |out| self.encoder.encode(request, target, out));
        if !request.body.is_empty() {
            let window = self.stream_window;
            self.uploads.push_back(Upload { stream, body: request.body.clone(), at: 0, window });
            self.upload();
        }
        stream
    }

    /// Resets a stream.
    pub fn cancel(&mut self, stream: u32) {
        self.uploads.retain(|upload| upload.stream != stream);
        write_reset(&mut self.out, stream, ErrorCode::CANCEL);
    }

    /// Appends what must be sent to `out`.
    pub fn drain_into(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.out);
        } else {
            out.append(&mut self.out);
        }
    }

    /// Reads up to the next event and returns it with the number of consumed bytes. `More` consumes all input.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), NotHttp2> {
        let mut used = 0;
        // Bounded: each pass takes at least a byte, or is the last.
        loop {
            let (taken, event) = self.frames.next(&input[used..])?;
            used += taken;
            if let Some(event) = self.on_frame(event)? {
                return Ok((used, event));
            }
        }
    }

    /// `None`: the event does not concern a request.
    fn on_frame<'a>(&mut self, event: decoder::Event<'a>) -> Result<Option<Event<'a>>, NotHttp2> {
        Ok(Some(match event {
            decoder::Event::NeedMore => Event::More,
            decoder::Event::Data { stream, bytes } => Event::Body { stream, data: bytes },
            decoder::Event::EndStream { stream } => Event::End { stream },
            decoder::Event::Headers { stream, frames, whole } => {
                return self.on_headers(stream, frames, whole);
            }
            decoder::Event::Reset { stream, code } => {
                self.uploads.retain(|upload| upload.stream != stream);
                let reason =
                    if code == ErrorCode::REFUSED_STREAM { ResetReason::Refused } else { ResetReason::Other };
                Event::Reset { stream, reason }
            }
            decoder::Event::GoAway { last_stream, .. } => {
                self.leaving = Leaving::Announced;
                Event::Leaving { last: last_stream }
            }
            decoder::Event::DataHeader { length, .. } => {
                self.received += length;
                if self.received >= REFILL {
                    write_window_update(&mut self.out, 0, std::mem::take(&mut self.received));
                }
                return Ok(None);
            }
            decoder::Event::Settings(settings) => {
                self.on_settings(settings);
                return Ok(None);
            }
            decoder::Event::Ping(payload) => {
                write_frame(&mut self.out, PING, ACK, 0, &payload);
                return Ok(None);
            }
            // What is not taken of a block that is too large is an error.
            decoder::Event::SettingsAck
            | decoder::Event::PingAck(_)
            | decoder::Event::PriorityUpdate { .. }
            | decoder::Event::BlockPart
            | decoder::Event::Ignored => return Ok(None),
            decoder::Event::WindowUpdate { stream, increment } => {
                self.on_window_update(stream, i64::from(increment));
                return Ok(None);
            }
        }))
    }

    fn on_headers(
        &mut self,
        stream: u32,
        frames: u32,
        whole: Option<&[u8]>,
    ) -> Result<Option<Event<'static>>, NotHttp2> {
        let block = whole.unwrap_or(self.frames.block());
        let fields = Fields::read(&mut self.decoder, block)?;
        if let (true, Some(name)) = (self.server_name.is_empty(), fields.server) {
            self.server_name = name;
        }
        Ok(match fields.status {
            Some(status) if status >= 200 => Some(Event::Head {
                stream,
                status,
                length: fields.length,
                bytes: block.len() as u32 + 9 * frames,
                plain_bytes: fields.plain_bytes,
            }),
            // Interim responses and trailers.
            _ => None,
        })
    }

    fn on_settings(&mut self, settings: Settings) {
        if let Some(size) = settings.header_table_size {
            self.encoder.limit(size);
        }
        let most_streams = settings.max_concurrent_streams.map(|most| most as usize);
        if self.settings == Handshake::Awaited {
            self.settings = Handshake::Complete;
            // RFC 9113 §6.5.2: there is no limit by default.
            self.most_streams = usize::MAX;
        }
        self.most_streams = most_streams.unwrap_or(self.most_streams);
        if let Some(size) = settings.initial_window_size {
            let change = i64::from(size) - self.stream_window;
            self.stream_window = i64::from(size);
            for upload in &mut self.uploads {
                upload.window += change;
            }
        }
        write_frame(&mut self.out, SETTINGS, ACK, 0, &[]);
        self.upload();
    }

    fn on_window_update(&mut self, stream: u32, increment: i64) {
        match stream {
            0 => self.window += increment,
            stream => {
                if let Some(upload) = self.uploads.iter_mut().find(|upload| upload.stream == stream) {
                    upload.window += increment;
                }
            }
        }
        self.upload();
    }

    /// Sends as much of the bodies as the windows allow.
    fn upload(&mut self) {
        let mut uploads = std::mem::take(&mut self.uploads);
        for upload in &mut uploads {
            // Bounded: each pass takes part of the body.
            while upload.at < upload.body.len() {
                let allowed = self.window.min(upload.window).clamp(0, MAX_PAYLOAD as i64) as usize;
                let count = allowed.min(upload.body.len() - upload.at);
                if count == 0 {
                    break;
                }
                let end = upload.at + count == upload.body.len();
                let piece = &upload.body[upload.at..upload.at + count];
                write_frame(&mut self.out, DATA, if end { END_STREAM } else { 0 }, upload.stream, piece);
                upload.at += count;
                upload.window -= count as i64;
                self.window -= count as i64;
            }
        }
        uploads.retain(|upload| upload.at < upload.body.len());
        self.uploads = uploads;
    }
}

#[cfg(test)]
mod tests;
