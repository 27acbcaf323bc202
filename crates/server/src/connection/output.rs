//! What is being sent over HTTP/1.1: bytes that a batch has gathered, one response behind them, and how much of both
//! has been sent. A batch fills it where it lies, and it is empty again when all is sent: its parts are never copied.
//!
//! Knows nothing of requests.

use std::io;
use std::mem::take;
use std::rc::Rc;
use std::task::{Context, Poll};

use taipan_http::chunked::write_chunk;
use taipan_http::response::ResponseHead;
use taipan_http::trailers;
use tokio::time::Instant;

use super::stream::{More, SendStream};
use crate::clock;
use crate::log::EndReason;
use crate::log::access::Records;
use crate::response::{Body, FilePart, Part, Response, Tunnel};
use crate::services::{OutputBuffers, Services};

/// The bytes of a file that the first calls send.
const SLICE: u64 = 128 * 1024;
/// The most bytes that one call sends, when as many have been sent: then the kernel has room for more, and a response
/// takes fewer calls.
const LARGE_SLICE: u64 = 1024 * 1024;
/// What is left of a response is sent in the same turn of the loop, as far as the stream takes it, if it is no more.
const SHORT: u64 = 1024 * 1024;
/// Of a longer response, a turn sends no more than one slice from this on. So the clients receive alternately, and what
/// one has yet to read stays short.
pub const TURN: u64 = 64 * 1024;

/// Whether the connection stays open behind a response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// An HTTP/1.1 connection stays open without a `Connection` field.
    KeepAlive,
    /// An HTTP/1.0 connection stays open with a `Connection: keep-alive`.
    KeepAliveHttp10,
    /// By its version or its `Connection` field, the request is the client's last.
    Close,
    /// The server closes, while the client may still be sending (RFC 9112 §9.6).
    LingeringClose,
}

impl Persistence {
    pub fn closes(self) -> bool {
        matches!(self, Persistence::Close | Persistence::LingeringClose)
    }
}

/// How the end of a body of unknown length is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferCoding {
    Chunked,
    /// By closing the connection, for HTTP/1.0.
    None,
}

impl TransferCoding {
    fn write(self, chunk: Vec<u8>, out: &mut Vec<u8>) {
        match self {
            TransferCoding::None => out.extend_from_slice(&chunk),
            TransferCoding::Chunked => write_chunk(&chunk, out),
        }
    }
}

pub struct Output {
    pub(super) out: Vec<u8>,
    /// Behind `out`.
    pub(super) response: Option<Response>,
    /// Bytes sent of `out` and of the response head behind it.
    at: usize,
    /// Bytes of `out` that no throttle slows: the responses before the last one.
    pub(super) free: usize,
    /// All bytes sent.
    sent: u64,
    /// When the first was, of `clock::micros`. `None`: all of it was sent at once.
    first: Option<u64>,
    /// Bytes that the client had taken when this was last measured, from the first byte of this output on. Negative
    /// while earlier output is still in flight.
    taken: Option<i64>,
    pub(super) coding: TransferCoding,
    /// What follows the last bytes.
    behind_last: More,
    pub records: Records,
    pub persistence: Persistence,
}

/// How far `Output::send` came.
pub enum Sent {
    All,
    /// One slice is sent, and there are more.
    Slice,
    /// All there was is sent, and the body's stream has more.
    NeedsBody,
    /// The next bytes of a file are on its disk, and not in memory.
    NotInMemory,
    /// The limits of the response grant more at this time.
    Throttled(Instant),
}

/// Why sending failed.
pub enum SendError {
    /// Of the stream, or of a disk.
    Io(io::Error),
    /// The file is not the one that the head describes.
    FileChanged,
}

impl SendError {
    pub fn reason(&self) -> EndReason {
        match self {
            SendError::Io(error) => EndReason::of(error),
            SendError::FileChanged => EndReason::FileChanged,
        }
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::Io(error)
    }
}

/// How many bytes may be sent now.
#[derive(Clone, Copy)]
enum Allowed {
    Bytes(u64),
    Later(Instant),
}

impl Default for Output {
    /// Nothing.
    fn default() -> Output {
        Output {
            out: Vec::new(),
            response: None,
            at: 0,
            free: 0,
            sent: 0,
            first: None,
            taken: None,
            coding: TransferCoding::None,
            behind_last: More::Nothing,
            records: Records::default(),
            persistence: Persistence::KeepAlive,
        }
    }
}

impl Output {
    /// `out`, with the log lines of its responses.
    pub fn of_bytes(out: Vec<u8>, records: Records, persistence: Persistence) -> Output {
        Output { out, records, persistence, ..Output::default() }
    }

    /// Whether the stream may take all that is left in one visit: bytes, or one slice of a file behind them.
    pub fn is_short(&self) -> bool {
        let Some(response) = &self.response else { return true };
        let is_short = match &response.body {
            Body::Nothing => true,
            Body::File(part) => part.left <= SLICE,
            Body::Parts(_) | Body::Stream(_) | Body::Sized(..) | Body::Tunnel(_) => false,
        };
        is_short && response.throttle.is_none()
    }

    /// Whether no more than `SHORT` is left of the file or its parts.
    pub fn ends_soon(&self) -> bool {
        self.response.as_ref().is_none_or(|response| response.body.left() <= SHORT)
    }

    /// Whether a file is sent behind the bytes.
    pub fn has_file(&self) -> bool {
        let body = self.response.as_ref().map(|response| &response.body);
        matches!(body, Some(Body::File(part)) if part.left > 0)
    }

    /// `More::Follows`: the caller ends the connection as soon as all is sent, and the kernel keeps the last bytes back
    /// until then. The caller corks the socket (`Socket::cork`) if they are those of a file.
    pub fn set_behind_last(&mut self, more: More) {
        self.behind_last = more;
    }

    /// Sends what the stream takes, and at most one slice of a file. `now` is the present second. Errors: `WouldBlock`
    /// when the stream takes no more.
    #[inline]
    pub fn send(&mut self, stream: &impl SendStream, now: i64) -> Result<Sent, SendError> {
        let sent = self.send_some(stream, now);
        if !matches!(sent, Ok(Sent::All)) {
            self.note_first();
        }
        let sent = sent?;
        if matches!(sent, Sent::All | Sent::NeedsBody | Sent::Throttled(_)) {
            stream.try_flush()?;
        }
        Ok(sent)
    }

    /// Not all is sent: notes when the first byte was.
    fn note_first(&mut self) {
        if self.sent > 0 && self.first.is_none() {
            self.first = Some(clock::micros());
        }
    }

    #[inline]
    fn send_some(&mut self, stream: &impl SendStream, now: i64) -> Result<Sent, SendError> {
        if self.response.as_ref().is_some_and(|response| response.throttle.is_some()) {
            return self.send_throttled(stream, now);
        }
        self.send_bytes(stream)?;
        let Some(response) = &mut self.response else { return Ok(Sent::All) };
        match &mut response.body {
            Body::Nothing | Body::Tunnel(_) => Ok(Sent::All),
            Body::File(part) => send_file(stream, part, &mut self.sent, LARGE_SLICE, now),
            Body::Parts(_) => self.send_parts(stream, LARGE_SLICE, now),
            Body::Stream(_) | Body::Sized(..) => Ok(Sent::NeedsBody),
        }
    }

    /// As `send_some`, no more than the limits of the response grant now.
    #[cold]
    #[inline(never)]
    fn send_throttled(&mut self, stream: &impl SendStream, now: i64) -> Result<Sent, SendError> {
        let head = self.response.as_ref().map_or(0, |response| response.bytes().len());
        let total = self.out.len() + head;
        while self.at < total {
            let allowed = match self.at < self.free {
                true => self.free - self.at,
                false => match self.ask((total - self.at) as u64) {
                    Allowed::Later(until) => return Ok(Sent::Throttled(until)),
                    Allowed::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                },
            };
            let block = self.response.as_ref().map_or(&[][..], Response::bytes);
            let rest = match self.at.checked_sub(self.out.len()) {
                None => &self.out[self.at..],
                Some(at) => &block[at..],
            };
            let sent = stream.try_send(&rest[..rest.len().min(allowed)], More::Nothing)?;
            self.at += sent;
            self.sent += sent as u64;
            if self.at > self.free {
                self.count_throttled(sent as u64);
            }
        }
        let left = match self.response.as_ref().map(|response| &response.body) {
            None | Some(Body::Nothing | Body::Tunnel(_)) => return Ok(Sent::All),
            Some(Body::Stream(_) | Body::Sized(..)) => return Ok(Sent::NeedsBody),
            Some(Body::File(part)) => part.left,
            Some(Body::Parts(parts)) => parts.front().map_or(0, Part::length),
        };
        let most = match self.ask(left) {
            Allowed::Later(until) => return Ok(Sent::Throttled(until)),
            Allowed::Bytes(bytes) => bytes.min(SLICE),
        };
        let before = self.sent;
        let sent = match self.response.as_mut().map(|response| &mut response.body) {
            Some(Body::File(part)) => send_file(stream, part, &mut self.sent, most, now),
            _ => self.send_parts(stream, most, now),
        };
        self.count_throttled(self.sent - before);
        sent
    }

    fn ask(&mut self, wanted: u64) -> Allowed {
        match self.response.as_mut().and_then(|response| response.throttle.as_mut()) {
            None => Allowed::Bytes(u64::MAX),
            Some(throttle) => throttle.ask(wanted).map_or_else(Allowed::Later, Allowed::Bytes),
        }
    }

    fn count_throttled(&mut self, bytes: u64) {
        if let Some(throttle) = self.response.as_mut().and_then(|response| response.throttle.as_mut()) {
            throttle.used(bytes);
        }
    }

    /// True where the end of the connection is the end of the body. Then an incomplete response must end with a reset
    /// (RFC 9112 §8).
    pub fn ends_with_connection(&self) -> bool {
        self.coding == TransferCoding::None && self.response.as_ref().is_some_and(Response::is_streamed)
    }

    /// Adds what the body's stream has buffered to the head, so that both are sent in one write.
    pub fn gather(&mut self) {
        let Some(response) = &mut self.response else { return };
        let Some(stream) = response.body.stream() else { return };
        let chunk = stream.take_buffered();
        if !chunk.is_empty() {
            self.out.extend_from_slice(response.bytes());
            response.start = response.end;
            self.coding.write(chunk, &mut self.out);
        }
    }

    /// Passes the request's body to the script or upstream. Ready: it takes no more.
    pub fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.response.as_mut().and_then(|response| response.body.stream()) {
            Some(stream) => stream.poll_request_body(cx),
            None => Poll::Ready(()),
        }
    }

    /// Has more of the upstream's response read while the client takes nothing.
    pub fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(stream) = self.response.as_mut().and_then(|response| response.body.stream()) {
            stream.poll_read_ahead(cx);
        }
    }

    /// Takes the next chunk of the body's stream, when all before it is sent. Errors: the reason for the log.
    pub async fn next_chunk(&mut self, services: &Services) -> Result<(), EndReason> {
        let Some(response) = &mut self.response else { return Ok(()) };
        let Some(stream) = response.body.stream() else { return Ok(()) };
        let Ok(chunk) = stream.next(services).await else { return Err(stream.abort_reason()) };
        // The head has been sent; what is left of the response is its stream.
        (response.start, response.end) = (0, 0);
        self.out.clear();
        (self.at, self.free) = (0, 0);
        match (chunk, self.coding) {
            (Some(chunk), TransferCoding::None) => self.out = chunk,
            (Some(chunk), TransferCoding::Chunked) => TransferCoding::Chunked.write(chunk, &mut self.out),
            (None, TransferCoding::Chunked) => {
                trailers::write_last_chunk(&stream.take_trailers(), &mut self.out);
                self.response = None;
            }
            (None, TransferCoding::None) => self.response = None,
        }
        Ok(())
    }

    /// Reads the next bytes of a file from its disk, on a helper thread. They are sent from memory.
    pub async fn read_from_disk(&mut self, services: &Services) -> Result<(), EndReason> {
        let Some(Response { start, end, body, .. }) = &mut self.response else { return Ok(()) };
        let Some(part) = body.file() else { return Ok(()) };
        let bytes = part.read(services).await?;
        part.advance(bytes.len() as u64);
        if let Body::Parts(parts) = body {
            parts.push_front(Part::Bytes(bytes));
        } else {
            // The head has been sent; what is left of the response is its file.
            (*start, *end) = (0, 0);
            (self.out, self.at, self.free) = (bytes, 0, 0);
        }
        Ok(())
    }

    /// The upstream's end of a connection whose protocol is switched, once.
    pub fn take_tunnel(&mut self) -> Option<Box<dyn Tunnel>> {
        let response = self.response.as_mut().filter(|response| response.switches())?;
        match std::mem::replace(&mut response.body, Body::Nothing) {
            Body::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        }
    }

    /// Counts bytes that were sent behind the response.
    pub fn count_tunneled(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Whether all of it is in memory, and no limit slows it.
    pub fn is_in_memory(&self) -> bool {
        self.response
            .as_ref()
            .is_none_or(|response| matches!(response.body, Body::Nothing) && response.throttle.is_none())
    }

    /// There is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty() && self.response.is_none()
    }

    /// Bytes sent, for the log.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// When the first byte was sent. `None`: all of it was sent at once.
    #[inline]
    pub fn first(&self) -> Option<u64> {
        self.first
    }

    /// Notes how much the client has taken by now.
    pub fn mark_taken(&mut self, unacknowledged: u64) {
        self.taken = Some(self.sent as i64 - unacknowledged as i64);
    }

    /// As `mark_taken`, if the client was not yet awaited.
    pub fn mark_taken_once(&mut self, unacknowledged: impl FnOnce() -> u64) {
        if self.taken.is_none() {
            self.mark_taken(unacknowledged());
        }
    }

    /// The client is not awaited any more.
    pub fn unmark_taken(&mut self) {
        self.taken = None;
    }

    /// Bytes that the client has taken since this was last noted.
    pub fn taken(&mut self, unacknowledged: u64) -> u64 {
        let before = self.taken;
        self.mark_taken(unacknowledged);
        let more = self.taken.zip(before).map_or(0, |(now, before)| now - before);
        more.max(0) as u64
    }

    /// Empties it. Returns its buffers, for the next batch, and the head of the last response.
    #[inline]
    pub fn take_buffers(&mut self) -> (OutputBuffers, Option<Rc<ResponseHead>>) {
        let buffers = OutputBuffers { out: take(&mut self.out), records: take(&mut self.records) };
        let head = self.response.take().map(|response| response.head);
        (self.at, self.free, self.sent) = (0, 0, 0);
        (self.first, self.taken) = (None, None);
        (self.coding, self.behind_last) = (TransferCoding::None, More::Nothing);
        self.persistence = Persistence::KeepAlive;
        (buffers, head)
    }

    #[inline]
    fn send_bytes(&mut self, stream: &impl SendStream) -> io::Result<()> {
        let block = self.response.as_ref().map_or(&[][..], Response::bytes);
        let follows = match self.response.as_ref().map(|r| &r.body) {
            Some(Body::File(part)) if part.left > 0 => More::Follows,
            Some(Body::Parts(_)) => More::Follows,
            _ => self.behind_last,
        };
        let total = self.out.len() + block.len();
        while self.at < total {
            let (rest, more) = match self.at.checked_sub(self.out.len()) {
                None if block.is_empty() => (&self.out[self.at..], follows),
                None => (&self.out[self.at..], More::Follows),
                Some(at) => (&block[at..], follows),
            };
            let sent = stream.try_send(rest, more)?;
            self.at += sent;
            self.sent += sent as u64;
        }
        Ok(())
    }

    /// Sends at most `most` bytes of one part of a file, and whatever is between the parts.
    fn send_parts(&mut self, stream: &impl SendStream, most: u64, now: i64) -> Result<Sent, SendError> {
        let Some(Response { body: Body::Parts(parts), .. }) = &mut self.response else {
            return Ok(Sent::All);
        };
        loop {
            let more = if parts.len() > 1 { More::Follows } else { More::Nothing };
            let Some(part) = parts.front_mut() else { return Ok(Sent::All) };
            match part {
                Part::File(file) => match send_file(stream, file, &mut self.sent, most, now)? {
                    Sent::All => {}
                    other => return Ok(other),
                },
                Part::Bytes(bytes) => {
                    let n = stream.try_send(bytes, more)?;
                    self.sent += n as u64;
                    bytes.drain(..n);
                    if !bytes.is_empty() {
                        continue;
                    }
                }
            }
            parts.pop_front();
        }
    }
}

/// Sends one slice of at most `most` bytes.
fn send_file(
    stream: &impl SendStream,
    part: &mut FilePart,
    sent: &mut u64,
    most: u64,
    now: i64,
) -> Result<Sent, SendError> {
    if part.left == 0 {
        return Ok(Sent::All);
    }
    let slice = slice(stream, *sent, part.left).min(most);
    let slice = part.file.bytes_in_memory(part.at, part.at + slice, now);
    if slice == 0 {
        return Ok(Sent::NotInMemory);
    }
    if !part.may_send(slice) {
        return Err(SendError::FileChanged);
    }
    let n = match stream.try_sendfile(&part.file.fd, &mut part.at, slice as usize, part.left) {
        None => return Ok(Sent::NotInMemory),
        Some(Err(error)) if is_unable(&error) => return Ok(Sent::NotInMemory),
        Some(sent) => sent?,
    };
    if n == 0 {
        return Err(SendError::FileChanged);
    }
    *sent += n as u64;
    part.left -= n as u64;
    Ok(if part.left == 0 { Sent::All } else { Sent::Slice })
}

/// True for a file system that cannot send, but can be read.
fn is_unable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

/// How much of `left` to send next, when `sent` bytes are sent. A slice ends at the end of a segment: otherwise the
/// last segment is nearly empty, and costs a packet and its acknowledgement.
fn slice(stream: &impl SendStream, sent: u64, left: u64) -> u64 {
    let most = sent.clamp(SLICE, LARGE_SLICE);
    if left <= most {
        return left;
    }
    // Read each time: it grows with the window.
    let segment = stream.segment();
    let end = (sent + most) / segment * segment;
    if end > sent { end - sent } else { most }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Takes four bytes at a time, and records them with what `more` was.
    #[derive(Default)]
    struct Recorder(RefCell<Vec<(Vec<u8>, More)>>);

    impl SendStream for Recorder {
        fn try_send(&self, bytes: &[u8], more: More) -> io::Result<usize> {
            let taken = &bytes[..bytes.len().min(4)];
            self.0.borrow_mut().push((taken.to_vec(), more));
            Ok(taken.len())
        }
    }

    /// Fails, as a session does.
    struct Failing;

    impl SendStream for Failing {
        fn try_send(&self, _: &[u8], _: More) -> io::Result<usize> {
            Err(io::Error::other("a session has failed"))
        }
    }

    #[test]
    fn a_session_that_fails_is_no_changed_file() {
        let mut output = Output::of_bytes(b"1".to_vec(), Records::default(), Persistence::Close);
        let reason = output.send(&Failing, 0).err().map(|error| error.reason());
        assert_eq!(reason, Some(EndReason::ClientClosed));
    }

    #[test]
    fn says_what_follows_the_last_bytes() {
        for behind in [More::Nothing, More::Follows] {
            let persistence = Persistence::Close;
            let mut output = Output::of_bytes(b"123456".to_vec(), Records::default(), persistence);
            assert!(output.is_short() && !output.has_file());
            output.set_behind_last(behind);
            let stream = Recorder::default();
            assert!(matches!(output.send(&stream, 0), Ok(Sent::All)));
            assert_eq!(stream.0.take(), [(b"1234".to_vec(), behind), (b"56".to_vec(), behind)]);
        }
    }
}
