//! Requests whose response was complete before they were. Their streams have ended for the caller, and what the client
//! still sends is dropped. Knows nothing of frames.

use super::flow::ReceiveWindow;
use crate::frame::{DEFAULT_WINDOW, MAX_WINDOW};

/// How many are remembered.
const MAX: usize = 16;

/// The rest of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    stream: u32,
    /// Bytes that the client could send before it had the response.
    left: u32,
    /// Whether it was one of them at the last call of `take_old`.
    is_old: bool,
}

/// What a client may do that goes on with its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    MayFollow,
    /// It has sent what it could not send before it had the response.
    IsTooMuch,
}

impl Unread {
    /// `window`: of the stream, for received data.
    pub fn new(stream: u32, window: &ReceiveWindow) -> Unread {
        Unread { stream, left: window.left(), is_old: false }
    }

    /// The increment of the window of the stream, with which the client can show that it has the response.
    pub fn more(&self) -> u32 {
        DEFAULT_WINDOW.min(MAX_WINDOW - self.left)
    }
}

#[derive(Debug)]
pub struct UnreadRequests(Vec<Unread>);

impl UnreadRequests {
    pub const fn new() -> UnreadRequests {
        UnreadRequests(Vec::new())
    }

    /// Returns the stream of the oldest if there are too many. It is forgotten.
    pub fn push(&mut self, unread: Unread) -> Option<u32> {
        let oldest = (self.0.len() == MAX).then(|| self.0.remove(0).stream);
        self.0.push(unread);
        oldest
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets those that have been here since the last call, and returns their streams.
    pub fn take_old(&mut self) -> Vec<u32> {
        let old = self.0.extract_if(.., |unread| std::mem::replace(&mut unread.is_old, true));
        old.map(|unread| unread.stream).collect()
    }

    /// `None`: the stream is not one of them.
    pub fn on_data(&mut self, stream: u32, bytes: u32, end: bool) -> Option<Rest> {
        let at = self.0.iter().position(|unread| unread.stream == stream)?;
        let left = self.0[at].left.checked_sub(bytes);
        match left {
            Some(left) if !end => self.0[at].left = left,
            _ => _ = self.0.remove(at),
        }
        Some(if end || left.is_some() { Rest::MayFollow } else { Rest::IsTooMuch })
    }

    /// The client has reset the stream, or ended its request.
    pub fn remove(&mut self, stream: u32) {
        self.0.retain(|unread| unread.stream != stream);
    }

    /// Gives up the memory of those that have ended.
    pub fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}
