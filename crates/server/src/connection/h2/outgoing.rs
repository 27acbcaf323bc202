//! What a stream has yet to send of its response behind the HEADERS: content in memory, the rest of a file, or what its
//! task has made last.
//!
//! Knows nothing of frames and windows.

use std::rc::Rc;

use tokio::time::Instant;

use crate::clock;
use crate::files::open;
use crate::log::EndReason;
use crate::log::access::Records;
use crate::response::{Body, FilePart, Part, Response};
use crate::services::Services;

pub struct Outgoing {
    services: Rc<Services>,
    /// What is left of it. Its head has been sent.
    response: Response,
    /// The next bytes, behind those of the head's buffer and before those of the body.
    chunk: Vec<u8>,
    /// Bytes of the chunk that are sent.
    at: usize,
    stream: Stream,
    /// The client cannot take what is left of the chunk: all that it can take has been sent.
    is_behind: bool,
    cached: Cached,
    /// What its limits grant now. `None`: as much as is asked for.
    granted: Option<u64>,
    records: Records,
    /// Bytes for the log: of the head and of the content.
    sent: u64,
    /// When its head was sent, of `clock::micros`.
    first: u64,
    /// Why it ends before its end. `None`: it is complete.
    ended: Option<EndReason>,
}

/// A body that the stream's task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    /// What passes in a tunnel, until either side ends it.
    Tunnel,
    Ended,
}

/// Whether the next bytes of the file are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cached {
    Perhaps,
    No,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Content that is in memory, as far as that is known.
    Content,
    /// The next chunk of the stream's task.
    Chunk,
    /// Bytes of a file that are on its disk.
    Disk,
    /// The limits of the response grant more at this time.
    Later(Instant),
    End,
}

impl Outgoing {
    /// For a response whose head is sent with `sent` bytes. The caller has taken the stream out of its body.
    pub fn new(services: Rc<Services>, mut response: Response, records: Records, sent: u64) -> Outgoing {
        response.start = response.head.head_len();
        let granted = response.throttle.as_mut().map(|throttle| {
            throttle.used(sent);
            0
        });
        Outgoing {
            services,
            response,
            chunk: Vec::new(),
            at: 0,
            stream: Stream::Ended,
            is_behind: false,
            cached: Cached::Perhaps,
            granted,
            records,
            sent,
            first: clock::micros(),
            ended: Some(EndReason::ClientClosed),
        }
    }

    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Notes why a whole response is what it is, for the log.
    pub fn note_reason(&mut self, why: EndReason) {
        self.records.end_early(why);
    }

    /// From now on the stream's task makes the content. `chunk` is the first, perhaps empty.
    pub fn begin_stream(&mut self, chunk: Vec<u8>) {
        self.stream = Stream::Open;
        self.put(chunk);
    }

    /// As `begin_stream`, for a connection whose protocol was switched.
    pub fn begin_tunnel(&mut self, chunk: Vec<u8>) {
        self.stream = Stream::Tunnel;
        self.put(chunk);
    }

    /// Whether a script, an application or a disk has yet to make what comes next.
    pub fn is_awaited(&mut self) -> bool {
        self.stream != Stream::Tunnel && matches!(self.next_content(), Next::Chunk | Next::Disk)
    }

    /// Adds the next chunk of the stream's task, when the one before is sent.
    pub fn put(&mut self, chunk: Vec<u8>) {
        (self.chunk, self.at, self.is_behind) = (chunk, 0, false);
    }

    /// All that the client can take has been sent. `true`: its stream's task can read ahead from now on.
    pub fn fall_behind(&mut self) -> bool {
        let falls_behind = !self.is_behind && self.stream == Stream::Open && self.left() > 0;
        self.is_behind |= falls_behind;
        falls_behind
    }

    /// Whether the client cannot take what has been made for it.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// The stream's task has made all.
    pub fn end_stream(&mut self) {
        self.stream = Stream::Ended;
    }

    /// Adds bytes of the file that the stream's task has read from its disk.
    pub fn put_from_disk(&mut self, bytes: Vec<u8>) {
        if let Some(part) = self.file() {
            part.advance(bytes.len() as u64);
        }
        self.cached = Cached::Perhaps;
        self.put(bytes);
    }

    /// The file that comes next.
    pub fn file(&mut self) -> Option<&mut FilePart> {
        self.response.body.file()
    }

    /// What comes next, as far as limits allow.
    pub fn next(&mut self) -> Next {
        match self.next_content() {
            Next::Content if self.granted == Some(0) => self.ask(),
            next => next,
        }
    }

    /// Asks the limits of the response for more.
    #[cold]
    fn ask(&mut self) -> Next {
        let left = self.left();
        let Some(throttle) = &mut self.response.throttle else { return Next::Content };
        match throttle.ask(left) {
            Ok(bytes) => {
                self.granted = Some(bytes);
                Next::Content
            }
            Err(until) => Next::Later(until),
        }
    }

    /// Whether limits slow it.
    pub fn is_throttled(&self) -> bool {
        self.granted.is_some()
    }

    /// Bytes that may be sent now.
    pub fn allowed(&self) -> usize {
        self.granted.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn next_content(&mut self) -> Next {
        if !self.response.bytes().is_empty() || self.at < self.chunk.len() {
            return Next::Content;
        }
        self.pop_sent_parts();
        match (&self.response.body, self.stream) {
            (Body::Nothing, Stream::Ended) => Next::End,
            (Body::File(part), _) if part.left == 0 => Next::End,
            (Body::Parts(parts), _) if parts.is_empty() => Next::End,
            (Body::File(_) | Body::Parts(_), _) if self.cached == Cached::No => Next::Disk,
            (Body::File(_) | Body::Parts(_), _) => Next::Content,
            (Body::Nothing | Body::Stream(_) | Body::Sized(..) | Body::Tunnel(_), _) => Next::Chunk,
        }
    }

    /// The bytes that are known to come.
    pub fn left(&self) -> u64 {
        let before = self.response.bytes().len() + self.chunk.len() - self.at;
        before as u64 + self.response.body.left()
    }

    /// Whether the content ends behind the bytes that are known.
    pub fn ends(&self) -> bool {
        self.stream == Stream::Ended
    }

    /// Appends at most `limit` bytes of content that is in memory to `out`. Errors: the content cannot be completed.
    pub fn fill(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let start = out.len();
        while out.len() - start < limit && self.next_content() == Next::Content {
            self.append(limit - (out.len() - start), out)?;
        }
        let filled = (out.len() - start) as u64;
        self.sent += filled;
        if let (Some(granted), Some(throttle)) = (&mut self.granted, &mut self.response.throttle) {
            throttle.used(filled);
            *granted = granted.saturating_sub(filled);
        }
        Ok(())
    }

    /// All of it is sent.
    pub fn complete(&mut self) {
        self.ended = None;
    }

    /// It ends before its end.
    pub fn end_early(&mut self, why: EndReason) {
        self.ended = Some(why);
    }

    fn append(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let head = self.response.bytes();
        if !head.is_empty() {
            let count = head.len().min(limit);
            out.extend_from_slice(&head[..count]);
            self.response.start += count;
        } else if self.at < self.chunk.len() {
            let count = (self.chunk.len() - self.at).min(limit);
            out.extend_from_slice(&self.chunk[self.at..self.at + count]);
            self.at += count;
            if self.at == self.chunk.len() {
                self.put(Vec::new());
            }
        } else if let Body::Parts(parts) = &mut self.response.body
            && let Some(Part::Bytes(bytes)) = parts.front_mut()
        {
            let bytes = std::mem::take(bytes);
            self.put(bytes);
        } else if let Some(part) = self.file() {
            self.cached = append_file(part, limit, out)?;
        }
        Ok(())
    }

    fn pop_sent_parts(&mut self) {
        let Body::Parts(parts) = &mut self.response.body else { return };
        while parts.front().is_some_and(|part| part.length() == 0) {
            parts.pop_front();
        }
    }
}

/// Reads into `out` what is in memory of a file.
fn append_file(part: &mut FilePart, limit: usize, out: &mut Vec<u8>) -> Result<Cached, EndReason> {
    let count = limit.min(usize::try_from(part.left).unwrap_or(usize::MAX));
    if !part.may_send(count as u64) {
        return Err(EndReason::FileChanged);
    }
    let start = out.len();
    out.resize(start + count, 0);
    let read = open::read_cached(&part.file.fd, part.at, &mut out[start..]);
    out.truncate(start + read.unwrap_or(0));
    match read {
        Some(0) => Err(EndReason::FileChanged),
        Some(count) => {
            part.advance(count as u64);
            Ok(Cached::Perhaps)
        }
        None => Ok(Cached::No),
    }
}

/// Every request has its log line, whatever ends its response.
impl Drop for Outgoing {
    fn drop(&mut self) {
        let ended = self.ended.map(|why| if std::thread::panicking() { EndReason::Panicked } else { why });
        self.services.access.write(&self.services.counts, &self.records, self.sent, Some(self.first), ended);
    }
}
