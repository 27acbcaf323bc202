//! A client of HTTP/2 (RFC 9113) with one stream at a time. It frames by itself, and accepts only what the RFC
//! allows: what a lenient client would accept is an error here.

use std::fmt;

use taipan_h2::error::HpackError;
use taipan_h2::hpack::{self, Decoder, Indexing};

use crate::client::{Client, ReadError};
use crate::response::Response;

pub use taipan_h2::frame::PREFACE;

/// Types of frames (§6).
pub mod frame {
    pub use taipan_h2::frame::{
        CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS,
        WINDOW_UPDATE,
    };
}

/// Flags of frames.
pub mod flag {
    pub use taipan_h2::frame::{ACK, END_HEADERS, END_STREAM, PADDED, PRIORITY_FLAG as PRIORITY};
}

/// Bytes of a frame's header.
const HEADER: usize = 9;
/// The largest payload: this client allows no more (SETTINGS_MAX_FRAME_SIZE).
const MAX_PAYLOAD: usize = 16_384;
/// The windows of this client, in bytes: a response never waits for it (§6.9.1).
const WINDOW: u32 = (1 << 31) - 1;
const INITIAL_WINDOW: i64 = 65_535;
/// SETTINGS_ENABLE_PUSH = 0, SETTINGS_INITIAL_WINDOW_SIZE = `WINDOW`.
const SETTINGS: [u8; 12] = [0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];

/// A frame as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A request, with its pseudo-header fields first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http2Request {
    /// Names in lower case.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
    /// Behind the body.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why there is no response.
#[derive(Debug)]
pub enum Http2Error {
    /// RST_STREAM, with its code.
    Reset(u32),
    /// GOAWAY, with its code.
    GoAway(u32),
    Malformed(String),
    Connection(ReadError),
}

/// One connection, after the preface of both sides has been sent.
#[derive(Debug)]
pub struct Http2 {
    client: Client,
    decoder: Decoder,
    next_stream: u32,
    /// Bytes that the server still takes on the connection, and on a new stream.
    window: i64,
    stream_window: i64,
    has_settings: bool,
}

/// What has come of a response.
struct Incoming {
    stream: u32,
    is_head: bool,
    /// Bytes that the server still takes on this stream.
    window: i64,
    response: Option<Response>,
}

impl Http2Request {
    /// `GET path` of the host `localhost`.
    pub fn get(path: &str) -> Http2Request {
        Http2Request::new("GET", path, &[])
    }

    pub fn new(method: &str, path: &str, fields: &[(&str, &str)]) -> Http2Request {
        let pseudo = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
        let fields = pseudo.iter().chain(fields).map(|(name, value)| ((*name).into(), (*value).into()));
        Http2Request { fields: fields.collect(), body: Vec::new(), trailers: Vec::new() }
    }

    fn is_head(&self) -> bool {
        self.fields.iter().any(|(name, value)| name == b":method" && value == b"HEAD")
    }
}

impl Http2 {
    /// Sends the preface on a new connection, and windows that never close.
    pub fn over(client: Client) -> Result<Http2, Http2Error> {
        let mut window = Vec::new();
        append(&mut window, frame::WINDOW_UPDATE, 0, 0, &(WINDOW - INITIAL_WINDOW as u32).to_be_bytes());
        Http2::with(client, &SETTINGS, &window)
    }

    /// Sends the preface on a new connection, these settings, and then `bytes`.
    pub fn with(mut client: Client, settings: &[u8], more: &[u8]) -> Result<Http2, Http2Error> {
        let mut bytes = PREFACE.to_vec();
        append(&mut bytes, frame::SETTINGS, 0, 0, settings);
        bytes.extend_from_slice(more);
        client.try_send(bytes).map_err(|e| Http2Error::Connection(ReadError::of(e)))?;
        Ok(Http2 {
            client,
            decoder: Decoder::new(hpack::TABLE_SIZE, usize::MAX),
            next_stream: 1,
            window: INITIAL_WINDOW,
            stream_window: INITIAL_WINDOW,
            has_settings: false,
        })
    }

    /// Sends the preface and a request without a body at once, and reads its response.
    pub fn first(client: Client, request: &Http2Request) -> Result<(Http2, Response), Http2Error> {
        let mut connection = Http2::with(client, &SETTINGS, &headers(1, request))?;
        connection.next_stream += 2;
        let (is_head, window) = (request.is_head(), connection.stream_window);
        let mut incoming = Incoming { stream: 1, is_head, window, response: None };
        while !connection.receive(&mut incoming)? {}
        Ok((connection, incoming.finish()?))
    }

    /// The connection, for other bytes than frames.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The stream of the next request.
    pub fn next_stream(&self) -> u32 {
        self.next_stream
    }

    /// `GET path`, and its response. Panics if there is none.
    pub fn get(&mut self, path: &str) -> Response {
        self.request(&Http2Request::get(path)).unwrap_or_else(|e| panic!("{path}: no response: {e}"))
    }

    /// Sends a request on a new stream, and reads its response.
    pub fn request(&mut self, request: &Http2Request) -> Result<Response, Http2Error> {
        let stream = self.open(request)?;
        let (is_head, window) = (request.is_head(), self.stream_window);
        let mut incoming = Incoming { stream, is_head, window, response: None };
        let mut rest = &request.body[..];
        while !rest.is_empty() {
            let most = usize::try_from(self.window.min(incoming.window)).unwrap_or(0).min(MAX_PAYLOAD);
            let (part, after) = rest.split_at(most.min(rest.len()));
            if part.is_empty() {
                // A server may respond before it has read the body (§8.1).
                if self.receive(&mut incoming)? {
                    self.send_frame(frame::RST_STREAM, 0, stream, &8u32.to_be_bytes())?;
                    break;
                }
                continue;
            }
            let ends = after.is_empty() && request.trailers.is_empty();
            let flags = if ends { flag::END_STREAM } else { 0 };
            self.send_frame(frame::DATA, flags, stream, part)?;
            self.window -= part.len() as i64;
            incoming.window -= part.len() as i64;
            rest = after;
        }
        if rest.is_empty() && !request.trailers.is_empty() {
            let flags = flag::END_HEADERS | flag::END_STREAM;
            self.send_frame(frame::HEADERS, flags, stream, &block(&request.trailers))?;
        }
        while !self.receive(&mut incoming)? {}
        incoming.finish()
    }

    /// Sends HEADERS on a new stream, which ends with it if there is no body. Returns the stream.
    pub fn open(&mut self, request: &Http2Request) -> Result<u32, Http2Error> {
        let (stream, bytes) = self.opening(request);
        self.send(bytes)?;
        Ok(stream)
    }

    /// As `open`, but the caller sends the bytes.
    pub fn opening(&mut self, request: &Http2Request) -> (u32, Vec<u8>) {
        let stream = self.next_stream;
        self.next_stream += 2;
        (stream, headers(stream, request))
    }

    pub fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Http2Error> {
        let mut bytes = Vec::new();
        append(&mut bytes, kind, flags, stream, payload);
        self.send(bytes)
    }

    /// The next frame, whatever it is.
    pub fn read_frame(&mut self) -> Result<Frame, Http2Error> {
        let header = self.client.read_exactly(HEADER).map_err(Http2Error::Connection)?;
        let &[a, b, c, kind, flags, d, e, f, g] = &header[..] else { unreachable!("nine bytes") };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_PAYLOAD {
            return Err(Http2Error::Malformed(format!("a frame of {length} bytes")));
        }
        let payload = self.client.read_exactly(length).map_err(Http2Error::Connection)?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload })
    }

    /// The next frame of a stream that is no WINDOW_UPDATE.
    pub fn next_frame_of(&mut self, stream: u32) -> Frame {
        loop {
            let frame = self.read_frame().expect("another frame");
            if frame.stream == stream && frame.kind != frame::WINDOW_UPDATE {
                return frame;
            }
        }
    }

    fn send(&mut self, bytes: Vec<u8>) -> Result<(), Http2Error> {
        self.client.try_send(bytes).map_err(|e| Http2Error::Connection(ReadError::of(e)))
    }

    /// Takes one frame. True if the stream has ended.
    fn receive(&mut self, incoming: &mut Incoming) -> Result<bool, Http2Error> {
        let frame = self.read_frame()?;
        let malformed = |why: &str| Err(Http2Error::Malformed(format!("{why}: {frame:?}")));
        if !self.has_settings && (frame.kind != frame::SETTINGS || frame.flags & flag::ACK != 0) {
            return malformed("the first frame is not SETTINGS");
        }
        match (frame.kind, frame.stream) {
            (frame::SETTINGS, 0) if frame.flags & flag::ACK != 0 => {}
            (frame::SETTINGS, 0) => {
                self.has_settings = true;
                for setting in frame.payload.chunks(6) {
                    let &[0, 4, a, b, c, d] = setting else { continue };
                    let window = i64::from(u32::from_be_bytes([a, b, c, d]));
                    // §6.9.2: also that of a stream that is open.
                    incoming.window += window - self.stream_window;
                    self.stream_window = window;
                }
                self.send_frame(frame::SETTINGS, flag::ACK, 0, &[])?;
            }
            (frame::PING, 0) if frame.flags & flag::ACK == 0 => {
                self.send_frame(frame::PING, flag::ACK, 0, &frame.payload)?;
            }
            (frame::PING, 0) => {}
            (frame::GOAWAY, 0) => {
                let [last, code] = [0, 4].map(|at| number(&frame.payload, at));
                // A stream that the server has seen still gets its response (§6.8).
                if code != 0 || last & WINDOW < incoming.stream {
                    return Err(Http2Error::GoAway(code));
                }
            }
            (frame::WINDOW_UPDATE, 0) => self.window += i64::from(number(&frame.payload, 0)),
            (frame::WINDOW_UPDATE, stream) if stream == incoming.stream => {
                incoming.window += i64::from(number(&frame.payload, 0));
            }
            // For streams that this client has given up.
            (frame::WINDOW_UPDATE | frame::RST_STREAM | frame::DATA, stream) if stream < incoming.stream => {}
            (frame::RST_STREAM, stream) if stream == incoming.stream => {
                let code = number(&frame.payload, 0);
                // §8.1: the response is complete, and the rest of the request is not needed.
                return if code == 0 && incoming.response.is_some() {
                    Ok(true)
                } else {
                    Err(Http2Error::Reset(code))
                };
            }
            (frame::HEADERS, stream) if stream == incoming.stream => {
                let ends = frame.flags & flag::END_STREAM != 0;
                let fields = self.fields(frame)?;
                incoming.on_fields(fields, ends)?;
                return Ok(ends);
            }
            (frame::DATA, stream) if stream == incoming.stream => {
                let data = unpadded(&frame)?;
                let Some(response) = &mut incoming.response else { return malformed("DATA without a head") };
                response.body.extend_from_slice(data);
                return Ok(frame.flags & flag::END_STREAM != 0);
            }
            _ => return malformed("not allowed here"),
        }
        Ok(false)
    }

    /// The fields of a HEADERS frame and its CONTINUATION frames.
    fn fields(&mut self, first: Frame) -> Result<Vec<(String, String)>, Http2Error> {
        let mut block = unpadded(&first)?.to_vec();
        let mut flags = first.flags;
        while flags & flag::END_HEADERS == 0 {
            let next = self.read_frame()?;
            if (next.kind, next.stream) != (frame::CONTINUATION, first.stream) {
                return Err(Http2Error::Malformed(format!("within a field block: {next:?}")));
            }
            block.extend_from_slice(&next.payload);
            flags = next.flags;
        }
        let mut fields = Vec::new();
        let decoded = self.decoder.decode(&block, |name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| HpackError::Malformed);
            fields.push((text(name)?, text(value)?));
            Ok::<(), HpackError>(())
        });
        decoded.map_err(|e| Http2Error::Malformed(format!("field block: {e:?}")))?;
        Ok(fields)
    }
}

impl Incoming {
    /// A head, an informational one, or trailers.
    fn on_fields(&mut self, fields: Vec<(String, String)>, ends: bool) -> Result<(), Http2Error> {
        let malformed = |why: &str| Err(Http2Error::Malformed(format!("{why}: {fields:?}")));
        if !fields.iter().skip(1).all(|(name, value)| is_valid(name, value)) {
            return malformed("a field that a response cannot have");
        }
        let status = fields.first().filter(|(name, _)| name == ":status").map(|(_, status)| status.as_str());
        match (&mut self.response, status) {
            (Some(response), None) if ends => response.trailers = fields,
            (Some(_), _) => return malformed("not trailers"),
            (None, None) => return malformed("no status"),
            (None, Some(status)) => {
                let is_number = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
                let Some(status) = status.parse().ok().filter(|_| is_number) else {
                    return malformed("no status");
                };
                if (100..=199).contains(&status) {
                    return if ends || status == 101 { malformed("no end here") } else { Ok(()) };
                }
                let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
                self.response = Some(Response {
                    version: "HTTP/2.0".to_owned(),
                    status,
                    reason: String::new(),
                    raw_head: lines.chain(["\r\n".to_owned()]).collect::<String>().into_bytes(),
                    fields: fields.into_iter().skip(1).collect(),
                    body: Vec::new(),
                    trailers: Vec::new(),
                });
            }
        }
        Ok(())
    }

    /// The complete response. Its length must be that of its Content-Length (§8.1.1).
    fn finish(self) -> Result<Response, Http2Error> {
        let response = self.response.ok_or_else(|| Http2Error::Malformed("an end without a head".into()))?;
        let has_body = !self.is_head && !matches!(response.status, 204 | 304);
        let is_right = match response.field("content-length") {
            Some(length) if has_body => length.parse() == Ok(response.body.len()),
            _ => has_body || response.body.is_empty(),
        };
        if is_right { Ok(response) } else { Err(Http2Error::Malformed(format!("wrong length:\n{response}"))) }
    }
}

impl fmt::Display for Http2Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Http2Error::Reset(code) => write!(out, "RST_STREAM with code {code}"),
            Http2Error::GoAway(code) => write!(out, "GOAWAY with code {code}"),
            Http2Error::Malformed(why) => out.write_str(why),
            Http2Error::Connection(error) => error.fmt(out),
        }
    }
}

/// HEADERS, and CONTINUATION if they are long.
fn headers(stream: u32, request: &Http2Request) -> Vec<u8> {
    let block = block(&request.fields);
    let mut kind = frame::HEADERS;
    let mut flags = if request.body.is_empty() && request.trailers.is_empty() { flag::END_STREAM } else { 0 };
    let mut bytes = Vec::new();
    let count = block.chunks(MAX_PAYLOAD).count();
    for (at, part) in block.chunks(MAX_PAYLOAD).enumerate() {
        let last = if at + 1 == count { flag::END_HEADERS } else { 0 };
        append(&mut bytes, kind, flags | last, stream, part);
        (kind, flags) = (frame::CONTINUATION, 0);
    }
    bytes
}

fn block(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::write_field(&mut block, Indexing::Without, name, value);
    }
    block
}

/// Appends a frame.
pub fn append(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The payload of HEADERS or DATA without padding and priority (§6.1 and §6.2).
fn unpadded(frame: &Frame) -> Result<&[u8], Http2Error> {
    let malformed = || Http2Error::Malformed(format!("too short: {frame:?}"));
    let mut payload = &frame.payload[..];
    let mut padding = 0;
    if frame.flags & flag::PADDED != 0 {
        let (length, rest) = payload.split_first().ok_or_else(malformed)?;
        (padding, payload) = (usize::from(*length), rest);
    }
    if frame.kind == frame::HEADERS && frame.flags & flag::PRIORITY != 0 {
        payload = payload.get(5..).ok_or_else(malformed)?;
    }
    payload.len().checked_sub(padding).map(|length| &payload[..length]).ok_or_else(malformed)
}

/// §8.2: a name in lower case, a value without control characters, and no field that belongs to a connection.
fn is_valid(name: &str, value: &str) -> bool {
    const FORBIDDEN: &[&str] =
        &["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is_token =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !FORBIDDEN.contains(&name);
    let is_value =
        value.trim_matches([' ', '\t']) == value && !value.chars().any(|c| c != '\t' && c.is_control());
    is_name && is_value
}

fn number(payload: &[u8], at: usize) -> u32 {
    payload.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
