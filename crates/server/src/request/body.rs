//! The body of a request: a reader with back-pressure. Nothing is read before the consumer reads.
//!
//! Knows nothing of the protocol: a connection implements `ReadBody`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::rule::{BODY_TOO_LARGE, Rule};
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

/// The length of a body, as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    None,
    /// Bytes.
    Sized(u64),
    /// Known when the body has been read to its end.
    Unknown,
}

impl Length {
    /// Bytes. `None`: they are not known.
    pub fn known(self) -> Option<u64> {
        match self {
            Length::None => Some(0),
            Length::Sized(bytes) => Some(bytes),
            Length::Unknown => None,
        }
    }
}

/// The body is malformed or too large: the status of the response, and the broken rule.
pub type Rejection = (Status, &'static Rule);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    Rejected(Rejection),
    /// The client has disconnected, or is too slow.
    Broken,
    /// The client, which has the beginning of the response, has ended it short of its length. The response goes on.
    Cut,
}

pub trait ReadBody {
    fn length(&self) -> Length;

    /// Bytes of content.
    fn bytes_read(&self) -> u64;

    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). Reading sends it.
    fn awaits_continue(&self) -> bool;

    /// The fields behind the body that may be passed on, once, at its end.
    fn take_trailers(&self) -> Trailers {
        Trailers::new()
    }

    /// The client and the consumer send by turns from now on, as with gRPC, and either may be silent for a while. Only
    /// a connection that passes content in both directions at the same time knows that.
    fn converse(&self) {}

    /// The next bytes, never empty; `None` at the end. Errors: the body is malformed, or larger than `limit`.
    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>>;
}

#[derive(Clone)]
pub enum RequestBody {
    None,
    Stream(Rc<dyn ReadBody>),
}

impl RequestBody {
    pub fn length(&self) -> Length {
        match self {
            RequestBody::None => Length::None,
            RequestBody::Stream(body) => body.length(),
        }
    }

    pub fn take_trailers(&self) -> Trailers {
        match self {
            RequestBody::None => Trailers::new(),
            RequestBody::Stream(body) => body.take_trailers(),
        }
    }

    /// As `ReadBody::converse`.
    pub fn converse(&self) {
        if let RequestBody::Stream(body) = self {
            body.converse();
        }
    }

    pub fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        match self {
            RequestBody::None => Poll::Ready(Ok(None)),
            RequestBody::Stream(body) => body.poll_read(cx, limit),
        }
    }

    /// The next bytes, never empty; `None` at the end. Errors: the body is malformed, or larger than `limit`. Never
    /// returns if the client has disconnected: the connection drops the future.
    pub async fn read(&self, limit: u64) -> Result<Option<Vec<u8>>, Rejection> {
        poll_fn(|cx| match ready!(self.poll_read(cx, limit)) {
            Ok(bytes) => Poll::Ready(Ok(bytes)),
            Err(BodyError::Rejected(rejection)) => Poll::Ready(Err(rejection)),
            Err(BodyError::Broken | BodyError::Cut) => Poll::Pending,
        })
        .await
    }

    /// Discards a body of which nothing has been read, unless the client waits for 100 (Continue). Errors: the body is
    /// malformed, or larger than `limit`.
    pub async fn discard(&self, limit: u64, extent: Discard) -> Result<(), Rejection> {
        let RequestBody::Stream(body) = self else { return Ok(()) };
        if body.awaits_continue() || body.bytes_read() > 0 {
            return Ok(());
        }
        if matches!(body.length(), Length::Sized(bytes) if bytes > limit) {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE));
        }
        let mut all = pin!(async {
            while self.read(limit).await?.is_some() {}
            Ok(())
        });
        poll_fn(|cx| match all.as_mut().poll(cx) {
            Poll::Pending if extent == Discard::Received => Poll::Ready(Ok(())),
            discarded => discarded,
        })
        .await
    }
}

/// The part of a body to discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// What the client has sent so far.
    Received,
    ToTheEnd,
}
