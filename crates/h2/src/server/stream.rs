//! The streams of a connection that are open, and a little about those that were. Knows nothing of frames.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use super::flow::{ReceiveWindow, SendWindow};
use crate::priority::Priority;

/// The number of a stream that a client has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number in frames (RFC 9113 §5.1.1).
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What becomes of the rest of a request whose response is complete first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Its client need not send it: the stream is reset as soon as the client has the response (RFC 9113 §8.1).
    Unneeded,
    /// It is read and dropped. Clients such as curl 7.88 take a reset for a failure of a response without an error.
    Read,
}

/// A stream whose response is not complete.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    pub remote: Remote,
    pub local: Local,
    /// The caller has something to send.
    pub is_ready: bool,
    pub priority: Priority,
    /// When it was last its turn to send.
    pub turn: u32,
    pub send: SendWindow,
    pub receive: ReceiveWindow,
    /// Bytes of the body that `content-length` announces and that have not been received; `None` without that field.
    pub remaining: Option<u64>,
    /// `None`: the response has not begun.
    pub rest: Option<Rest>,
}

/// What the client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    Open,
    /// It has sent END_STREAM.
    Ended,
}

/// What the server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    Open,
    /// It has sent END_STREAM, and the client goes on.
    Ended,
}

impl Stream {
    pub const fn is_sendable(&self) -> bool {
        self.is_ready && self.send.get() > 0
    }
}

/// In the order of their numbers, because clients open streams in that order.
#[derive(Debug)]
pub struct Streams(Vec<Stream>);

impl Streams {
    pub const fn new() -> Streams {
        Streams(Vec::new())
    }

    pub fn find(&self, id: u32) -> Option<usize> {
        self.0.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// The number is higher than all others.
    pub fn push(&mut self, stream: Stream) {
        self.0.push(stream);
    }

    pub fn remove(&mut self, at: usize) -> Stream {
        self.0.remove(at)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Stream> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Stream> {
        self.0.iter_mut()
    }

    /// Gives up the memory of streams that have ended.
    pub fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl Index<usize> for Streams {
    type Output = Stream;

    fn index(&self, at: usize) -> &Stream {
        &self.0[at]
    }
}

impl IndexMut<usize> for Streams {
    fn index_mut(&mut self, at: usize) -> &mut Stream {
        &mut self.0[at]
    }
}

/// How a stream was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The server has reset it, and the client may not know that yet: what it still sends is ignored.
    Server,
    /// Both sides have sent their last frame, or the client has reset it.
    End,
}

/// The streams that were closed last.
#[derive(Debug)]
pub struct Closed {
    /// Those of `ClosedBy::Server`. Most connections have none.
    reset: Option<Box<Resets>>,
    most_reset: u16,
    /// Those of `ClosedBy::End`. 0 is no stream.
    ended: [u32; 15],
    next: u8,
}

/// Streams in the order of their resets.
#[derive(Debug, Default)]
struct Resets(VecDeque<u32>);

/// Streams that clients open before they know the limit (RFC 9113 §6.5.2).
const BEFORE_SETTINGS: u32 = 100;

impl Closed {
    /// `streams`: how many the client may have open. It may still send on as many that the server has reset.
    pub fn new(streams: u32) -> Closed {
        let most_reset = streams.max(BEFORE_SETTINGS).try_into().unwrap_or(u16::MAX);
        Closed { reset: None, most_reset, ended: [0; 15], next: 0 }
    }

    pub fn push(&mut self, id: u32, by: ClosedBy) {
        match by {
            ClosedBy::Server => {
                let Resets(reset) = &mut **self.reset.get_or_insert_default();
                reset.retain(|other| *other != id);
                if reset.len() == usize::from(self.most_reset) {
                    reset.pop_front();
                }
                reset.push_back(id);
            }
            ClosedBy::End => {
                let at = usize::from(self.next);
                self.ended[at] = id;
                self.next = ((at + 1) % self.ended.len()) as u8;
            }
        }
    }

    pub fn find(&self, id: u32) -> Option<ClosedBy> {
        if self.reset.as_ref().is_some_and(|reset| reset.0.contains(&id)) {
            return Some(ClosedBy::Server);
        }
        self.ended.contains(&id).then_some(ClosedBy::End)
    }

    pub fn trim(&mut self) {
        if let Some(reset) = &mut self.reset {
            reset.0.shrink_to_fit();
        }
    }
}

/// Priorities of streams that are not open yet (RFC 9218 §7.1), at most `EARLY`.
#[derive(Debug)]
pub struct EarlyPriorities(Vec<(u32, Priority)>);

const EARLY: usize = 16;

impl EarlyPriorities {
    pub const fn new() -> EarlyPriorities {
        EarlyPriorities(Vec::new())
    }

    /// Replaces the priority of the same stream, or else the oldest if there are too many.
    pub fn insert(&mut self, id: u32, priority: Priority) {
        if let Some(known) = self.0.iter_mut().find(|(known, _)| *known == id) {
            known.1 = priority;
            return;
        }
        if self.0.len() == EARLY {
            self.0.remove(0);
        }
        self.0.push((id, priority));
    }

    /// The priority of a stream that opens. Removes those of earlier streams, too, which are closed then.
    pub fn take(&mut self, id: u32) -> Option<Priority> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.iter().find(|(known, _)| *known == id).map(|(_, priority)| *priority);
        self.0.retain(|(known, _)| *known > id);
        found
    }

    pub fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}
