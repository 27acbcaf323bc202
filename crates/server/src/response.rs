//! A response: its head and its body. A body that is made while it is sent is a stream, which may transform another
//! stream.
//!
//! Knows nothing of the client, nor of the protocol: the connection takes as much as it can send.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cache::status::CacheStatus;
use site::memory;
use site::route::RouteId;
use taipan_http::response::ResponseHead;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use crate::disk::Work;
use crate::files::beneath::Wait;
use crate::files::open::{self, OpenFile};
use crate::limits::Throttle;
use crate::log::EndReason;
use crate::log::access::LoggedResponse;
use crate::log::upstream::UpstreamLog;
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::trace::Trace;
use crate::watch::Watched;

pub struct Response {
    /// The head, with a small body behind it.
    pub head: Rc<ResponseHead>,
    /// The part of the bytes of `head` that is sent. For HEAD, it ends before the body.
    pub start: usize,
    pub end: usize,
    /// The body behind the bytes of `head`.
    pub body: Body,
    /// The rule that the request has broken. The connection closes, because the start of the next request is not
    /// certain.
    pub broken_rule: Option<&'static Rule>,
    /// `None`: the request has neither a user nor an upstream.
    pub origin: Option<Box<RequestOrigin>>,
    /// The endpoint that has responded, where nothing more of it is logged.
    pub endpoint: Option<Rc<str>>,
    /// `None`: no limit slows it, or counts it while it is sent.
    pub throttle: Option<Box<Throttle>>,
    /// What the cache of responses did, for the log. `None`: the route has none.
    pub cache: Option<CacheStatus>,
}

/// Whose request it was, and who has responded to it, for the log.
#[derive(Default)]
pub struct RequestOrigin {
    /// The authenticated user.
    pub user: Option<Rc<str>>,
    /// The applications that the request was sent to.
    pub upstream: Option<Rc<UpstreamLog>>,
    /// The route of the script that has responded.
    pub script: Option<RouteId>,
    /// `None`: requests have no trace.
    pub trace: Option<Trace>,
    /// For those that watch the request, until its response is recorded.
    pub watched: Cell<Option<Box<Watched>>>,
}

pub enum Body {
    Nothing,
    File(FilePart),
    Parts(VecDeque<Part>),
    /// Of unknown length.
    Stream(Box<dyn BodyStream>),
    /// Of this many bytes.
    Sized(Box<dyn BodyStream>, u64),
    /// None. Behind the head, a 101, the connection has another protocol.
    Tunnel(Box<dyn Tunnel>),
}

pub enum Part {
    Bytes(Vec<u8>),
    File(FilePart),
}

/// Bytes that are read at once of a file that is not in memory. They stay with the connection until the client has
/// taken them.
const READ_SIZE: u64 = memory::RESPONSE;

/// `left` bytes of a file from `at`.
#[derive(Clone)]
pub struct FilePart {
    pub file: Rc<OpenFile>,
    pub at: u64,
    pub left: u64,
}

impl FilePart {
    /// Reads the next bytes from the disk, on a helper thread.
    pub async fn read(&self, services: &Services) -> Result<Vec<u8>, EndReason> {
        let FilePart { file, at, left } = self;
        let (fd, at, length) = (file.fd.clone(), *at, READ_SIZE.min(*left));
        let read = move || open::read(&fd, at, length as usize, Wait::Allowed);
        let read = services.disk.run(file.stamp.device, Work::File, read);
        match services.disk.wait(read).await {
            Ok(Ok(Ok(Some(_)))) if length == *left && !file.is_unchanged() => Err(EndReason::FileChanged),
            Ok(Ok(Ok(Some(bytes)))) => Ok(bytes),
            Ok(Ok(Ok(None) | Err(_)) | Err(_)) | Err(_) => Err(EndReason::Unreadable),
        }
    }

    /// Whether so many bytes may be sent next. Before its last bytes are, the file must still be the one that the head
    /// describes. If it is not, the response ends short, and the client can tell.
    #[inline]
    pub fn may_send(&self, count: u64) -> bool {
        count < self.left || self.file.is_unchanged_lately()
    }

    /// So many bytes are sent, or on their way.
    #[inline]
    pub fn advance(&mut self, count: u64) {
        self.at += count;
        self.left = self.left.saturating_sub(count);
    }
}

/// Why a body that is made of a file while it is sent is incomplete.
pub fn abort_reason(of: &OpenFile) -> EndReason {
    if of.is_unchanged() { EndReason::NotMade } else { EndReason::FileChanged }
}

pub type NextChunk<'a> = Pin<Box<dyn Future<Output = io::Result<Option<Vec<u8>>>> + 'a>>;

/// A body that is made while it is sent.
pub trait BodyStream {
    /// The next chunk, never empty; `None` at the end. Errors: the body cannot be completed.
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a>;

    /// Why the body is incomplete, for the log.
    fn abort_reason(&self) -> EndReason {
        EndReason::NotMade
    }

    /// Whether it goes on until the client leaves or a limit ends it, so that neither its duration nor its end says
    /// anything.
    fn is_endless(&self) -> bool {
        false
    }

    /// Whether the next chunk is likely to follow at once. If not, the client should get all chunks before it.
    fn has_more(&mut self) -> bool {
        true
    }

    /// The bytes that can be sent with the head.
    fn take_buffered(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The fields behind the content that the client reads, once, at its end.
    fn take_trailers(&mut self) -> Trailers {
        Trailers::new()
    }

    /// Sends the request's body on to the upstream that makes the stream. Ready: the upstream takes no more of it.
    fn poll_request_body(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Reads more of the upstream's response while the client takes nothing.
    fn poll_read_ahead(&mut self, _: &mut Context<'_>) {}
}

/// A body that exists already.
pub struct Whole(Option<Vec<u8>>);

impl Whole {
    pub fn new(bytes: Vec<u8>) -> Whole {
        Whole(Some(bytes))
    }
}

impl BodyStream for Whole {
    fn next<'a>(&'a mut self, _: &'a Services) -> NextChunk<'a> {
        Box::pin(std::future::ready(Ok(self.0.take())))
    }
}

/// The upstream's end of a connection whose protocol was switched.
pub trait Tunnel {
    /// The bytes that were received behind the head of the 101, once.
    fn take_received(&self) -> Vec<u8>;

    /// Reads what fits into `buffer`: 0 at the end.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, TunnelError>>;

    /// Writes the start of `bytes`.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends an end. The upstream may still be sending.
    fn shut_down(&self);
}

/// Why nothing more comes from the upstream's end of a tunnel.
#[derive(Debug)]
pub enum TunnelError {
    /// The connection to the upstream has failed.
    Upstream(io::Error),
    /// The client has not answered a ping.
    NoPong,
}

impl Body {
    pub fn stream(&mut self) -> Option<&mut dyn BodyStream> {
        match self {
            Body::Stream(stream) | Body::Sized(stream, _) => Some(&mut **stream),
            Body::Nothing | Body::File(_) | Body::Parts(_) | Body::Tunnel(_) => None,
        }
    }

    /// The file that comes next.
    pub fn file(&mut self) -> Option<&mut FilePart> {
        match self {
            Body::File(part) => Some(part),
            Body::Parts(parts) => match parts.front_mut() {
                Some(Part::File(part)) => Some(part),
                _ => None,
            },
            Body::Nothing | Body::Stream(_) | Body::Sized(..) | Body::Tunnel(_) => None,
        }
    }

    /// Bytes that are left, apart from those of a stream.
    #[inline]
    pub fn left(&self) -> u64 {
        match self {
            Body::File(part) => part.left,
            Body::Parts(parts) => parts.iter().map(Part::length).sum(),
            Body::Nothing | Body::Stream(_) | Body::Sized(..) | Body::Tunnel(_) => 0,
        }
    }
}

impl Response {
    /// A response without a body behind the bytes of `head`.
    pub fn from_head(head: impl Into<Rc<ResponseHead>>) -> Response {
        let head = head.into();
        let end = head.bytes().len();
        Response {
            end,
            head,
            body: Body::Nothing,
            start: 0,
            broken_rule: None,
            origin: None,
            endpoint: None,
            throttle: None,
            cache: None,
        }
    }

    pub fn status(&self) -> Status {
        self.head.status()
    }

    /// The response to HEAD, where this is the one to GET.
    pub fn without_body(mut self) -> Response {
        self.end = self.head.head_len();
        self.body = Body::Nothing;
        self
    }

    /// The response with this head, which has the same body in its buffer.
    pub fn with_head(self, head: ResponseHead) -> Response {
        let end = self.end - self.head.head_len() + head.head_len();
        Response { head: head.into(), end, ..self }
    }

    /// The response with further fields.
    pub fn with_fields<N: AsRef<str>, V: AsRef<[u8]>>(self, fields: &[(N, V)]) -> Response {
        if fields.is_empty() {
            return self;
        }
        let head = self.head.with_fields(fields.iter().map(|(name, value)| (name.as_ref(), value)));
        self.with_head(head)
    }

    /// The response with a field in place of others of its name.
    pub fn with_replaced(self, name: &str, value: &str) -> Response {
        let head = self.head.with_replaced(name, value);
        self.with_head(head)
    }

    /// The response without the fields of this name.
    pub fn without(self, name: &str) -> Response {
        if !self.head.has(name) {
            return self;
        }
        let head = self.head.without(name);
        self.with_head(head)
    }

    /// The response, slowed by further limits, too.
    pub fn throttled(self, by: Option<Box<Throttle>>) -> Response {
        let throttle = match (self.throttle, by) {
            (Some(own), Some(by)) => Some(Box::new(own.and(*by))),
            (own, by) => own.or(by),
        };
        Response { throttle, ..self }
    }

    /// The head, and the body behind it.
    pub fn bytes(&self) -> &[u8] {
        &self.head.bytes()[self.start..self.end]
    }

    /// The body behind the head, in its buffer.
    #[inline]
    pub fn small_body(&self) -> &[u8] {
        &self.head.bytes()[self.head.head_len()..self.end]
    }

    /// Takes what it needs from its limits, if all of it is in memory and can be sent at once.
    #[inline]
    pub fn settle(&mut self) {
        if self.throttle.is_some() {
            self.settle_throttle();
        }
    }

    #[cold]
    fn settle_throttle(&mut self) {
        let bytes = self.bytes().len() as u64;
        if matches!(self.body, Body::Nothing)
            && self.throttle.as_mut().is_some_and(|throttle| throttle.passes(bytes))
        {
            self.throttle = None;
        }
    }

    pub fn user(&self) -> Option<&str> {
        self.origin.as_ref()?.user.as_deref()
    }

    pub fn upstream(&self) -> Option<&Rc<UpstreamLog>> {
        self.origin.as_ref()?.upstream.as_ref()
    }

    pub fn trace(&self) -> Option<Trace> {
        self.origin.as_ref()?.trace
    }

    pub fn watched(&self) -> Option<&Cell<Option<Box<Watched>>>> {
        Some(&self.origin.as_ref()?.watched)
    }

    /// For the access log. `added`: bytes of the head that the connection adds.
    pub fn logged(&self, added: usize) -> LoggedResponse<'_> {
        let head = (self.head.head_len() + added) as u64;
        let (status, length) = (self.status(), self.content_length());
        let (user, upstream, trace) = (self.user(), self.upstream(), self.trace());
        LoggedResponse {
            status,
            head,
            length,
            is_endless: matches!(&self.body, Body::Stream(stream) if stream.is_endless()),
            broken_rule: self.broken_rule,
            user,
            upstream,
            script: self.origin.as_ref().and_then(|origin| origin.script),
            endpoint: self.endpoint.as_ref(),
            cache: self.cache.map(CacheStatus::word),
            trace,
            fields: Some(&self.head),
            watched: self.watched(),
        }
    }

    /// Whether the length of the content is unknown.
    pub fn is_streamed(&self) -> bool {
        matches!(self.body, Body::Stream(_))
    }

    /// Whether the connection has another protocol behind it.
    pub fn switches(&self) -> bool {
        matches!(self.body, Body::Tunnel(_))
    }

    /// Bytes of content. `None`: known only when all of it has been sent.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        let behind = match &self.body {
            Body::Nothing | Body::File(_) | Body::Parts(_) => self.body.left(),
            Body::Stream(_) | Body::Tunnel(_) => return None,
            Body::Sized(_, length) => *length,
        };
        Some((self.end - self.head.head_len()) as u64 + behind)
    }
}

impl Part {
    /// The response with this content alone, whose other fields have been written.
    pub fn respond(self, head: HeadWriter<'_>) -> Response {
        let head = head.length(self.length());
        match self {
            Part::Bytes(bytes) => Response::from_head(head.finish_with(&bytes)),
            Part::File(file) => Response { body: Body::File(file), ..Response::from_head(head.finish()) },
        }
    }

    pub fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(part) => part.left,
        }
    }
}
