//! Requests whose response was complete before they were. Their streams have ended for the caller, and what the client
//! still sends is dropped. Knows nothing of frames.

use super::stream::{Rest, Stream};
use crate::frame::{EndStream, MAX_WINDOW};

/// How many are remembered.
const MAX: usize = 16;

/// Bytes that are read of the rest of a request whose length is not known.
const MOST_OF_UNKNOWN_LENGTH: u32 = 16 * 1024 * 1024;

/// A request, as far as its client has yet to send it.
#[derive(Debug, Clone, Copy)]
pub struct Unread {
    stream: u32,
    awaited: Awaited,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// The acknowledgement of a PING behind the response.
    Acknowledgement,
    /// The rest, of at most so many bytes.
    Rest(u32),
}

/// What becomes of a stream of which something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Wait,
    Reset,
}

impl Unread {
    pub fn new(stream: &Stream) -> Unread {
        let awaited = match stream.rest {
            Some(Rest::Read) => Awaited::Rest(match stream.remaining {
                Some(bytes) => bytes.min(MAX_WINDOW.into()) as u32,
                None => MOST_OF_UNKNOWN_LENGTH,
            }),
            Some(Rest::Unneeded) | None => Awaited::Acknowledgement,
        };
        Unread { stream: stream.id, awaited }
    }

    pub fn awaits_acknowledgement(&self) -> bool {
        matches!(self.awaited, Awaited::Acknowledgement)
    }

    /// The increment of a window of so many bytes, which lets the client send the rest.
    pub fn increment(&self, window: u32) -> Option<u32> {
        let Awaited::Rest(bytes) = self.awaited else { return None };
        bytes.checked_sub(window).filter(|increment| *increment > 0)
    }

    fn receive(&mut self, bytes: u32) -> Then {
        let Awaited::Rest(left) = &mut self.awaited else { return Then::Wait };
        match left.checked_sub(bytes) {
            Some(less) => {
                *left = less;
                Then::Wait
            }
            None => Then::Reset,
        }
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

    /// So many bytes have come. `None`: the stream is not one of them.
    pub fn on_data(&mut self, stream: u32, bytes: u32, end: EndStream) -> Option<Then> {
        let at = self.0.iter().position(|unread| unread.stream == stream)?;
        let then = if end.is_set() { Then::Wait } else { self.0[at].receive(bytes) };
        if end.is_set() || then == Then::Reset {
            self.0.remove(at);
        }
        Some(then)
    }

    /// The client has acknowledged the PING behind the response. `false`: none is awaited on this stream.
    pub fn on_acknowledgement(&mut self, stream: u32) -> bool {
        let is_it = |unread: &Unread| unread.stream == stream && unread.awaits_acknowledgement();
        self.0.iter().any(is_it) && self.remove(stream)
    }

    /// The client has reset the stream, or ended its request. `false`: the stream is not one of them.
    pub fn remove(&mut self, stream: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|unread| unread.stream != stream);
        self.0.len() < before
    }

    /// Gives up the memory of those that have ended.
    pub fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}
