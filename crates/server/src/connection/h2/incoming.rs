//! The body of a request, as far as its DATA frames have come. The window of its stream bounds it.

use std::task::Waker;

use taipan_h2::server::EndStream;
use taipan_http::framing::Framing;
use taipan_http::head::Head;
use taipan_http::trailers::Trailers;

use crate::connection::Phase;
use crate::request::body::Length;

pub struct Incoming {
    pub length: Length,
    /// What has come and is not consumed.
    pub bytes: Vec<u8>,
    pub is_ended: bool,
    /// Whether it has ended short of its length.
    pub is_cut: bool,
    /// The fields behind it.
    pub trailers: Trailers,
    /// Bytes consumed.
    pub consumed: u64,
    /// The client expects 100 (Continue) before it sends the body (RFC 9110 §10.1.1).
    pub is_awaited: bool,
    /// Whether 100 (Continue) is still to be sent.
    pub interim: Interim,
    /// Whether something reads it.
    pub reader: Reader,
    pub silence: Silence,
    /// Wakes the reader that waits for more of it.
    pub waker: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interim {
    Unsent,
    NotNeeded,
}

/// Whether the client may be silent while something waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    TooSlow,
    /// As long as nothing is sent to it either.
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// It may read, but does not wait now.
    Idle,
    /// It waits for the client.
    Waiting,
    /// There is none any more: what comes is dropped.
    Gone,
}

impl Incoming {
    /// Of a request whose HEADERS have this flag.
    pub fn new(head: &Head<'_>, end: EndStream) -> Incoming {
        let length = match head.framing {
            Framing::None => Length::None,
            Framing::Sized(bytes) => Length::Sized(bytes),
            Framing::Chunked => Length::Unknown,
        };
        let interim = if head.expects_continue { Interim::Unsent } else { Interim::NotNeeded };
        let (is_ended, is_awaited) = (end.is_set(), head.expects_continue);
        Incoming { length, is_ended, is_awaited, interim, reader: Reader::Idle, ..Incoming::none() }
    }

    /// Of a request without a body, which has its response.
    pub const fn none() -> Incoming {
        Incoming {
            length: Length::None,
            bytes: Vec::new(),
            is_ended: true,
            is_cut: false,
            trailers: Trailers::new(),
            consumed: 0,
            is_awaited: false,
            interim: Interim::NotNeeded,
            reader: Reader::Gone,
            silence: Silence::TooSlow,
            waker: None,
        }
    }

    /// What the task of its stream waits for, while its response, or more of that, is being made.
    pub const fn phase(&self) -> Phase {
        match (self.reader, self.silence) {
            (Reader::Waiting, Silence::TooSlow) => Phase::Body,
            (Reader::Waiting, Silence::Allowed) => Phase::Upgraded,
            (Reader::Idle | Reader::Gone, _) => Phase::Respond,
        }
    }

    /// Adds what has come. Returns how many bytes of it are dropped, because nothing reads them.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        // A client that has begun to send does not wait.
        self.interim = Interim::NotNeeded;
        if self.reader == Reader::Gone {
            return bytes.len();
        }
        self.bytes.extend_from_slice(bytes);
        self.wake();
        0
    }

    pub fn end(&mut self) {
        self.is_ended = true;
        self.wake();
    }

    /// It ends here, short of its length.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.end();
    }

    /// Nothing reads it any more. Returns the bytes that are dropped.
    pub fn abandon(&mut self) -> usize {
        self.reader = Reader::Gone;
        std::mem::take(&mut self.bytes).len()
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
