//! What the caller sends on the streams of a connection, and in which order. Knows nothing of what is received.

use super::stream::{ClosedBy, Local, Remote, Rest, StreamId};
use super::unread::Unread;
use super::{Connection, TableSize};
use crate::error::ErrorCode;
use crate::frame::{
    DATA, END_STREAM, EndStream, HEADER_LEN, MAX_PAYLOAD, PING, write_frame, write_header, write_headers,
    write_reset, write_window_update,
};
use crate::hpack::write_table_size;

/// Where the flags are in a frame header (RFC 9113 §4.1).
const FLAGS_AT: usize = 4;

/// Useless frames that a complete response makes up for.
pub(super) const FRAMES_PER_RESPONSE: u32 = 4;

/// Bytes of sent data that make up for one useless frame, besides the one of the stream and of the connection. A client
/// that reads little at a time sends many WINDOW_UPDATE frames.
const BYTES_PER_FRAME: usize = 2048;

/// What the payload of a PING behind a response begins with. The number of the stream follows.
const HAS_RESPONSE: [u8; 4] = *b"resp";

impl Connection {
    /// Appends the head of a response that is not an interim one. `block` is the field block. Does nothing if the stream
    /// is not open.
    pub fn response(
        &mut self,
        stream: StreamId,
        block: &[u8],
        end: EndStream,
        rest: Rest,
        out: &mut Vec<u8>,
    ) {
        let Some(at) = self.streams.find(stream.0) else { return };
        self.streams[at].rest = Some(rest);
        self.headers_at(at, block, end, out);
    }

    /// Appends the head of an interim response, or trailers. Does nothing if the stream is not open.
    pub fn headers(&mut self, stream: StreamId, block: &[u8], end: EndStream, out: &mut Vec<u8>) {
        if let Some(at) = self.streams.find(stream.0) {
            self.headers_at(at, block, end, out);
        }
    }

    #[inline]
    fn headers_at(&mut self, at: usize, block: &[u8], end: EndStream, out: &mut Vec<u8>) {
        let table = std::mem::replace(&mut self.table, TableSize::Unchanged);
        write_headers(out, self.streams[at].id, end.flags(), |out| {
            if table == TableSize::Reduced {
                write_table_size(out, 0);
            }
            out.extend_from_slice(block);
        });
        if end.is_set() {
            self.end(at, out);
        }
    }

    /// Appends as much of `bytes` as the windows allow, as DATA frames. `end` is for the frame with the last of the
    /// bytes. Returns the number of bytes; 0 if the stream is not open.
    pub fn data(&mut self, stream: StreamId, bytes: &[u8], end: EndStream, out: &mut Vec<u8>) -> usize {
        let mut rest = bytes;
        // Bounded: each pass takes at least a byte, or is the last.
        loop {
            let sent = self.data_from(stream, rest.len(), end, out, |out, length| {
                out.extend_from_slice(&rest[..length]);
            });
            rest = &rest[sent..];
            if sent == 0 || rest.is_empty() {
                return bytes.len() - rest.len();
            }
        }
    }

    /// Appends one DATA frame, with as many of `wanted` bytes as the windows and the size of a frame allow. `fill`
    /// appends them, or fewer. `end` is for the frame with the last of the `wanted` bytes. Returns the number of bytes; 0
    /// if nothing can be sent.
    pub fn data_from(
        &mut self,
        stream: StreamId,
        wanted: usize,
        end: EndStream,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>, usize),
    ) -> usize {
        let Some(at) = self.streams.find(stream.0) else { return 0 };
        if self.streams[at].local == Local::Ended {
            if end.is_set() {
                self.end(at, out);
            }
            return 0;
        }
        let window = self.send.get().min(self.streams[at].send.get());
        let allowed = wanted.min(window).min(MAX_PAYLOAD);
        let start = out.len();
        write_header(out, 0, DATA, 0, stream.0);
        if allowed > 0 {
            fill(out, allowed);
        }
        let length = (out.len() - start - HEADER_LEN).min(allowed);
        let end = if length == wanted { end } else { EndStream::Unset };
        if length == 0 && end == EndStream::Unset {
            out.truncate(start);
            return 0;
        }
        out.truncate(start + HEADER_LEN + length);
        out[start..start + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        out[start + FLAGS_AT] = end.flags();
        self.send.send(length);
        self.streams[at].send.send(length);
        self.useless.earn(2 + (length / BYTES_PER_FRAME) as u32, self.limits.frames);
        if end.is_set() {
            self.end(at, out);
        }
        length
    }

    /// Appends the end of what the server sends on a stream whose client may go on, as in a tunnel (RFC 9113 §8.5). The
    /// stream is open until `data` ends it, which then appends nothing, or a reset does.
    pub fn half_close(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        let Some(at) = self.streams.find(stream.0) else { return };
        let open = &mut self.streams[at];
        if open.local == Local::Open {
            write_header(out, 0, DATA, END_STREAM, stream.0);
            (open.local, open.is_ready) = (Local::Ended, false);
        }
    }

    /// Bytes that the windows allow on the stream.
    pub fn sendable(&self, stream: StreamId) -> usize {
        let window = self.streams.find(stream.0).map_or(0, |at| self.streams[at].send.get());
        window.min(self.send.get())
    }

    /// Bytes that the window of the connection allows the client to send.
    pub fn receivable(&self) -> u32 {
        self.receive.left()
    }

    /// The caller has something to send on the stream, or not: whether `next_stream` may return it.
    pub fn set_ready(&mut self, stream: StreamId, is_ready: bool) {
        if let Some(at) = self.streams.find(stream.0) {
            self.streams[at].is_ready = is_ready;
        }
    }

    /// The stream that is to send next: ready, with open windows, of the highest urgency (RFC 9218 §10). Within an
    /// urgency, incremental streams and the first of the others take turns. Each call is a turn. An end without bytes
    /// needs neither a window nor a turn.
    pub fn next_stream(&mut self) -> Option<StreamId> {
        if self.send.get() == 0 {
            return None;
        }
        let (mut best, mut best_key) = (None, (u8::MAX, u32::MAX));
        let mut sequential = 0u8;
        for (at, stream) in self.streams.iter().enumerate() {
            let urgency = stream.priority.urgency;
            if !stream.is_sendable() || urgency > best_key.0 {
                continue;
            }
            if !stream.priority.incremental {
                if sequential & (1 << urgency) != 0 {
                    continue;
                }
                sequential |= 1 << urgency;
            }
            // The longest wait; correct while there are fewer than 2^31 turns between two.
            let age = self.turns.wrapping_sub(stream.turn);
            let key = (urgency, u32::MAX - age);
            if key < best_key {
                (best, best_key) = (Some(at), key);
            }
        }
        let at = best?;
        self.turns = self.turns.wrapping_add(1);
        self.streams[at].turn = self.turns;
        Some(StreamId(self.streams[at].id))
    }

    /// The consumer of a request body has taken `bytes`, or dropped them. Appends WINDOW_UPDATE when it is time. A
    /// stream that has ended needs no call.
    pub fn consumed(&mut self, stream: StreamId, bytes: u32, out: &mut Vec<u8>) {
        let Some(at) = self.streams.find(stream.0) else { return };
        let open = &mut self.streams[at];
        let bytes = bytes.min(open.receive.unconsumed());
        let increment = open.receive.consume(bytes, self.limits.window);
        if let (Some(increment), Remote::Open) = (increment, open.remote) {
            write_window_update(out, stream.0, increment);
        }
        self.consume(bytes, out);
    }

    /// Resets a stream. The caller gets no event.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        if let Some(at) = self.streams.find(stream.0) {
            write_reset(out, stream.0, code);
            self.remove(at, ClosedBy::Server, out);
        }
    }

    /// The response is complete. If the request is not, what the client still sends is dropped. A client may take a reset
    /// that it reads together with the response for a failure of the request. So a PING follows the response, and the
    /// reset its acknowledgement.
    fn end(&mut self, at: usize, out: &mut Vec<u8>) {
        let stream = &self.streams[at];
        let id = stream.id;
        match (stream.remote, stream.local) {
            (Remote::Ended, _) => self.remove(at, ClosedBy::End, out),
            (Remote::Open, Local::Ended) => self.reset(StreamId(id), ErrorCode::NO_ERROR, out),
            (Remote::Open, Local::Open) => {
                let unread = Unread::new(stream);
                let increment = unread.increment(stream.receive.left());
                if unread.awaits_acknowledgement() {
                    write_frame(out, PING, 0, 0, [HAS_RESPONSE, id.to_be_bytes()].as_flattened());
                }
                if let Some(increment) = increment {
                    write_window_update(out, id, increment);
                }
                self.remove(at, ClosedBy::Server, out);
                if let Some(oldest) = self.unread.push(unread) {
                    self.reset_unread(oldest, out);
                }
            }
        }
        self.resets.earn(1, self.limits.resets);
        self.useless.earn(FRAMES_PER_RESPONSE, self.limits.frames);
    }

    /// The client has acknowledged a PING. `false`: there was none.
    pub(super) fn on_ping_ack(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        let id = payload
            .strip_prefix(&HAS_RESPONSE)
            .and_then(<[u8]>::first_chunk)
            .map(|id| u32::from_be_bytes(*id));
        let id = id.filter(|id| self.unread.on_acknowledgement(*id));
        id.inspect(|id| self.reset_unread(*id, out)).is_some()
    }

    /// The client need not send the rest of a request whose response is complete.
    pub(super) fn reset_unread(&mut self, id: u32, out: &mut Vec<u8>) {
        write_reset(out, id, ErrorCode::NO_ERROR);
        self.closed.push(id, ClosedBy::Server);
    }

    /// Whether `next_stream` returns a stream.
    pub(super) fn has_next(&self) -> bool {
        self.send.get() > 0 && self.streams.iter().any(|stream| stream.is_sendable())
    }

    /// Counts received bytes that are no longer held in the connection's window.
    pub(super) fn consume(&mut self, bytes: u32, out: &mut Vec<u8>) {
        if let Some(increment) = self.receive.consume(bytes, self.limits.connection_window) {
            write_window_update(out, 0, increment);
        }
    }
}
