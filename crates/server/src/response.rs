//! A response: its head, and what follows. It knows nothing of its client and of the protocol: the connection asks
//! for as much of it as can be sent. A body that is made while it is sent is a stream, and a stream may be made of
//! another one.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use taipan_http::response::ResponseHead;
use taipan_http::rule::Rule;
use taipan_http::status::Status;

use crate::files::open::OpenFile;
use crate::log::access::LoggedResponse;
use crate::services::Services;

/// An answer: a head with, often, the whole body right behind it, and what follows.
pub struct Response {
    pub head: Rc<ResponseHead>,
    /// How much of the block belongs to this answer: all of it, or for HEAD only the head.
    pub end: usize,
    pub body: Body,
    /// Where in the block it begins, where the connection has written the head in another way.
    pub start: usize,
    /// The rule that the request has broken. Its connection closes: where the next one begins is not sure.
    pub broken_rule: Option<&'static Rule>,
}

/// What follows the block.
pub enum Body {
    Nothing,
    File(FilePart),
    Parts(VecDeque<Part>),
    /// Of unknown length, made while it is sent.
    Stream(Box<dyn BodyStream>),
    /// So many bytes, made while they are sent.
    Sized(Box<dyn BodyStream>, u64),
}

pub enum Part {
    Bytes(Vec<u8>),
    File(FilePart),
}

/// `left` bytes of a file from `at`.
#[derive(Clone)]
pub struct FilePart {
    pub file: Rc<OpenFile>,
    pub at: u64,
    pub left: u64,
}

/// What comes of asking a stream for more.
pub type NextChunk<'a> = Pin<Box<dyn Future<Output = io::Result<Option<Vec<u8>>>> + 'a>>;

/// A body that is made piece by piece, on demand.
pub trait BodyStream {
    /// The next piece, never empty; `None` at the end. Errors: the body cannot be completed.
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a>;

    /// Why a response ends before its body does, for the log.
    fn abort_reason(&self) -> &'static str {
        "content could not be made"
    }

    /// What can be sent together with the head.
    fn take_buffered(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Hands the request's body on to what answers. Ready: nothing takes any more of it.
    fn poll_request_body(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Body {
    /// What makes it, while it is sent.
    pub fn stream(&mut self) -> Option<&mut dyn BodyStream> {
        match self {
            Body::Stream(stream) | Body::Sized(stream, _) => Some(&mut **stream),
            Body::Nothing | Body::File(_) | Body::Parts(_) => None,
        }
    }
}

impl Response {
    /// The whole block and nothing behind it.
    pub fn from_head(head: impl Into<Rc<ResponseHead>>) -> Response {
        let head = head.into();
        Response { end: head.bytes().len(), head, body: Body::Nothing, start: 0, broken_rule: None }
    }

    pub fn status(&self) -> Status {
        self.head.status()
    }

    /// The same answer to HEAD.
    pub fn without_body(mut self) -> Response {
        self.end = self.head.head_len();
        self.body = Body::Nothing;
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.head.bytes()[self.start..self.end]
    }

    /// What its line in the log needs, where its head is longer by `line` bytes.
    pub fn logged(&self, line: usize) -> LoggedResponse {
        let head = (self.head.head_len() + line) as u64;
        LoggedResponse { status: self.status(), head, length: self.content_length() }
    }

    pub fn is_streamed(&self) -> bool {
        matches!(self.body, Body::Stream(_))
    }

    /// Bytes of content; `None` where they are known only when they have been sent.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        let behind = match &self.body {
            Body::Nothing => 0,
            Body::File(part) => part.left,
            Body::Parts(parts) => parts.iter().map(Part::length).sum(),
            Body::Stream(_) => return None,
            Body::Sized(_, length) => *length,
        };
        Some((self.end - self.head.head_len()) as u64 + behind)
    }
}

impl Part {
    pub fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(part) => part.left,
        }
    }
}
