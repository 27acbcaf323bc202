//! What is being sent over HTTP/1.1: bytes that a batch has gathered, one response behind them, and how much of both
//! has been sent. Knows nothing of requests.

use std::io;
use std::task::{Context, Poll};

use site::memory;

use super::stream::{More, SendStream};
use crate::disk::Work;
use crate::files::beneath::Wait;
use crate::files::look;
use crate::log::access::Records;
use crate::response::{Body, FilePart, Part, Response};
use crate::services::Services;

/// The most that one `sendfile` is asked for. Measured: with more, the pages and buffers of ten connections fall out of
/// the cache; with less, there are too many calls.
const SLICE: u64 = 128 * 1024;
/// Slices that a connection may send in one turn of the loop.
pub const SLICES_PER_TURN: usize = 8;

/// What is not in memory is read by this much: it stays with the connection until the client has taken it.
const COLD: u64 = memory::RESPONSE;

/// Whether the connection stays open behind a response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1 stays open, and says nothing.
    KeepAlive,
    /// HTTP/1.0 stays open with a `Connection: keep-alive`.
    KeepAliveHttp10,
    /// The client asked to close, and will send no more.
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
pub enum Coding {
    Chunked,
    /// By closing, for HTTP/1.0.
    None,
}

impl Coding {
    fn write(self, piece: Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Coding::None => out.extend_from_slice(&piece),
            Coding::Chunked => {
                taipan_http::chunked::write_size_line(piece.len(), out);
                out.extend_from_slice(&piece);
                out.extend_from_slice(taipan_http::chunked::CRLF);
            }
        }
    }
}

/// Bytes on their way out.
pub struct Output {
    out: Vec<u8>,
    response: Option<Response>,
    /// How far into `out` and the block behind it.
    at: usize,
    /// Everything that has left.
    sent: u64,
    /// What the client had taken when it was last weighed, counted from the first byte of this answer:
    /// below 0 as long as earlier ones are on their way.
    taken: Option<i64>,
    coding: Coding,
    pub records: Records,
    pub persistence: Persistence,
}

/// How far one turn of sending came.
pub enum Sent {
    All,
    /// Enough for this turn.
    Slice,
    /// What there was; the body's stream has the rest.
    Piece,
    /// What comes next is on a disk, and not in memory.
    Cold,
}

impl Output {
    /// Sends `out`, then `response`.
    #[inline]
    pub fn new(
        out: Vec<u8>,
        response: Option<Response>,
        coding: Coding,
        records: Records,
        persistence: Persistence,
    ) -> Output {
        Output { out, response, at: 0, sent: 0, taken: None, coding, records, persistence }
    }

    /// Sends what the socket takes, of a file one slice, in this second, `now`. `WouldBlock`: call again
    /// when it takes more.
    #[inline]
    pub fn send(&mut self, stream: &impl SendStream, now: i64) -> io::Result<Sent> {
        self.send_bytes(stream)?;
        let Some(response) = &mut self.response else { return Ok(Sent::All) };
        match &mut response.body {
            Body::Nothing => Ok(Sent::All),
            Body::File(part) => send_file(stream, part, &mut self.sent, now),
            Body::Parts(_) => self.send_parts(stream, now),
            Body::Stream(_) | Body::Sized(..) => Ok(Sent::Piece),
        }
    }

    /// Does only the end of the connection tell the client that it has all of it? Then the connection must
    /// not end as if it had, where it has not (RFC 9112 §8).
    pub fn ends_with_connection(&self) -> bool {
        self.coding == Coding::None && self.response.as_ref().is_some_and(Response::is_streamed)
    }

    /// Puts what a script has written with its head behind the head, so that both leave at once.
    pub fn gather(&mut self) {
        let Some(response) = &mut self.response else { return };
        let Some(stream) = response.body.stream() else { return };
        let piece = stream.take_buffered();
        if !piece.is_empty() {
            self.out.extend_from_slice(response.bytes());
            response.start = response.end;
            self.coding.write(piece, &mut self.out);
        }
    }

    /// Hands the request's body on to what answers. Ready: nothing takes any more of it.
    pub fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.response.as_mut().and_then(|response| response.body.stream()) {
            Some(stream) => stream.poll_request_body(cx),
            None => Poll::Ready(()),
        }
    }

    /// Takes the next chunk of the body's stream, once everything before it has been sent. Errors: why there is none, for the
    /// log.
    pub async fn next_piece(&mut self, services: &Services) -> Result<(), &'static str> {
        let Some(response) = &mut self.response else { return Ok(()) };
        let Some(stream) = response.body.stream() else { return Ok(()) };
        let why = stream.abort_reason();
        let piece = stream.next(services).await.map_err(|_| why)?;
        // The head has been sent; what is left of the response is its stream.
        (response.start, response.end) = (0, 0);
        self.out.clear();
        self.at = 0;
        match (piece, self.coding) {
            (Some(piece), Coding::None) => self.out = piece,
            (Some(piece), Coding::Chunked) => Coding::Chunked.write(piece, &mut self.out),
            (None, Coding::Chunked) => {
                self.out.extend_from_slice(taipan_http::chunked::LAST_CHUNK);
                self.response = None;
            }
            (None, Coding::None) => self.response = None,
        }
        Ok(())
    }

    /// Reads what comes next from its disk, on a helper thread; it is sent from memory then.
    pub async fn read_cold(&mut self, services: &Services) -> Result<(), &'static str> {
        let Some(Response { start, end, body, .. }) = &mut self.response else { return Ok(()) };
        let part = match body {
            Body::File(part) => part,
            Body::Parts(parts) => match parts.front_mut() {
                Some(Part::File(part)) => part,
                _ => return Ok(()),
            },
            Body::Nothing | Body::Stream(_) | Body::Sized(..) => return Ok(()),
        };
        let (fd, at, length) = (part.file.fd.clone(), part.at, part.left.min(COLD));
        let device = part.file.stamp.device;
        let look = move || look::read(&fd, at, length as usize, Wait::Allowed);
        let read =
            services.disk.wait(services.disk.run(device, Work::File, look)).await.and_then(|read| read);
        let bytes = match read {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => return Err(UNREADABLE),
            Ok(Err(_)) | Err(_) => return Err(UNREADABLE),
        };
        if length == part.left && !look::unchanged(&part.file.fd, &part.file.stamp) {
            return Err(UNREADABLE);
        }
        (part.at, part.left) = (at + length, part.left - length);
        if let Body::Parts(parts) = body {
            parts.push_front(Part::Bytes(bytes));
        } else {
            // The head has been sent; what is left of the response is its file.
            (*start, *end) = (0, 0);
            (self.out, self.at) = (bytes, 0);
        }
        Ok(())
    }

    /// Bytes that have left, for the log.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Notes how much the client has had by now, of this and of earlier answers.
    pub fn mark(&mut self, unacknowledged: u64) {
        self.taken = Some(self.sent as i64 - unacknowledged as i64);
    }

    /// As `mark`, if that was not done since the client is waited for.
    pub fn mark_once(&mut self, unacknowledged: impl FnOnce() -> u64) {
        if self.taken.is_none() {
            self.mark(unacknowledged());
        }
    }

    /// From now on it is the client that is waited for, if it has to be.
    pub fn unmark(&mut self) {
        self.taken = None;
    }

    /// How much more the client has had since the mark, which is set anew.
    pub fn taken(&mut self, unacknowledged: u64) -> u64 {
        let before = self.taken;
        self.mark(unacknowledged);
        let more = self.taken.zip(before).map_or(0, |(now, before)| now - before);
        more.max(0) as u64
    }

    /// The buffers, to be lent again.
    pub fn into_buffers(self) -> (Vec<u8>, Records) {
        (self.out, self.records)
    }

    #[inline]
    fn send_bytes(&mut self, stream: &impl SendStream) -> io::Result<()> {
        let block = self.response.as_ref().map_or(&[][..], Response::bytes);
        let follows = match self.response.as_ref().map(|r| &r.body) {
            Some(Body::File(part)) if part.left > 0 => More::Follows,
            Some(Body::Parts(_)) => More::Follows,
            _ => More::Nothing,
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

    fn send_parts(&mut self, stream: &impl SendStream, now: i64) -> io::Result<Sent> {
        let Some(Response { body: Body::Parts(parts), .. }) = &mut self.response else {
            return Ok(Sent::All);
        };
        loop {
            let more = if parts.len() > 1 { More::Follows } else { More::Nothing };
            let Some(part) = parts.front_mut() else { return Ok(Sent::All) };
            match part {
                Part::File(file) => match send_file(stream, file, &mut self.sent, now)? {
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

/// Sends one slice.
fn send_file(stream: &impl SendStream, part: &mut FilePart, gone: &mut u64, now: i64) -> io::Result<Sent> {
    if part.left == 0 {
        return Ok(Sent::All);
    }
    let slice = slice(stream, *gone, part.left);
    if !part.file.is_in_memory(part.at, part.at + slice, now) {
        return Ok(Sent::Cold);
    }
    // Before the last bytes leave, the file must still be the one that the head describes; if it is
    // not, the answer ends short, and the client can tell.
    if slice == part.left && !look::unchanged(&part.file.fd, &part.file.stamp) {
        return Err(io::Error::other(CHANGED));
    }
    let n = match stream.try_sendfile(&part.file.fd, &mut part.at, slice as usize) {
        None => return Ok(Sent::Cold),
        Some(Err(error)) if is_unable(&error) => return Ok(Sent::Cold),
        Some(sent) => sent?,
    };
    if n == 0 {
        return Err(io::Error::other(CHANGED));
    }
    *gone += n as u64;
    part.left -= n as u64;
    Ok(if part.left == 0 { Sent::All } else { Sent::Slice })
}

/// Not every file system can send by itself; what it cannot send can still be read.
fn is_unable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

/// How much of `left` to send next, when `gone` bytes have left. A slice ends where a segment does: one
/// that does not leaves a segment that is nearly empty, and costs a packet and its acknowledgement.
fn slice(stream: &impl SendStream, gone: u64, left: u64) -> u64 {
    if left <= SLICE {
        return left;
    }
    // Asked anew each time: it grows with the window.
    let segment = stream.segment();
    let end = (gone + SLICE) / segment * segment;
    if end > gone { end - gone } else { SLICE }
}

/// Why answers end short of their length, for the log.
pub const CLIENT_CLOSED: &str = "client closed";
const CHANGED: &str = "file changed while it was sent";
pub const UNREADABLE: &str = "content could not be read";

/// The answer panicked, or the server stopped: why one that nobody finished ends.
pub fn why_dropped() -> &'static str {
    if std::thread::panicking() { "the response failed" } else { "server stopped" }
}

/// Why sending failed: the only errors that are not the socket's are ours, and those of a disk.
pub fn why(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EIO | libc::ESTALE) => UNREADABLE,
        _ if error.kind() == io::ErrorKind::Other => CHANGED,
        _ => CLIENT_CLOSED,
    }
}
