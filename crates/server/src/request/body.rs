//! The body of a request: a reader with back-pressure. Nothing of it is read before its consumer pulls.
//!
//! Knows nothing of the protocol that it comes by: a connection, or a stream of one, is behind it.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::rule::{BODY_TOO_LARGE, Rule};
use taipan_http::status::Status;

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    None,
    /// Bytes, of which none has been read.
    Sized(u64),
    /// It is known when the body has been read to its end.
    Unknown,
}

/// It is malformed, or too large: the status of the response, and the rule that is broken.
pub type Rejection = (Status, &'static Rule);

/// Why a body cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    Rejected(Rejection),
    /// The client has gone, or is too slow.
    Broken,
}

/// Where a body comes from.
pub trait ReadBody {
    fn length(&self) -> Length;

    /// Content bytes that have been read.
    fn bytes_read(&self) -> u64;

    /// Does the client send it only when it is asked to (RFC 9110 §10.1.1)? Reading asks.
    fn awaits_continue(&self) -> bool;

    /// The next bytes, never none; `None` at the end. Beyond `limit` bytes in all it is refused.
    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>>;
}

#[derive(Clone)]
pub enum RequestBody {
    None,
    Stream(Rc<dyn ReadBody>),
}

impl RequestBody {
    /// How long it was announced to be.
    pub fn length(&self) -> Length {
        match self {
            RequestBody::None => Length::None,
            RequestBody::Stream(body) => body.length(),
        }
    }

    /// Is nothing of it gone?
    pub fn is_unread(&self) -> bool {
        match self {
            RequestBody::None => true,
            RequestBody::Stream(body) => body.bytes_read() == 0,
        }
    }

    pub fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        match self {
            RequestBody::None => Poll::Ready(Ok(None)),
            RequestBody::Stream(body) => body.poll_read(cx, limit),
        }
    }

    /// The next bytes, never none; `None` at the end. Errors: it is malformed, or larger than `limit`. Waits for
    /// ever where the client has gone: its connection ends this.
    pub async fn read(&self, limit: u64) -> Result<Option<Vec<u8>>, Rejection> {
        poll_fn(|cx| match ready!(self.poll_read(cx, limit)) {
            Ok(piece) => Poll::Ready(Ok(piece)),
            Err(BodyError::Rejected(rejection)) => Poll::Ready(Err(rejection)),
            Err(BodyError::Broken) => Poll::Pending,
        })
        .await
    }

    /// Discards a body of which nothing has been read, unless the client waits for 100 (Continue). Errors: it is
    /// malformed, or larger than `limit`.
    pub async fn discard(&self, limit: u64, how_far: Discard) -> Result<(), Rejection> {
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
            Poll::Pending if how_far == Discard::Received => Poll::Ready(Ok(())),
            discarded => discarded,
        })
        .await
    }
}

/// How much of a body is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    Received,
    ToTheEnd,
}
