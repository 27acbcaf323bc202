//! The body of the request of one stream, as its consumer reads it: what has come of it is in `incoming`.

use std::rc::Rc;
use std::task::{Context, Poll};

use taipan_h2::server::StreamId;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use super::incoming::{Incoming, Interim, Reader, Silence};
use super::shared::Shared;
use crate::request::body::{BodyError, Length, ReadBody};

/// The body of the request of one stream.
pub struct StreamBody {
    pub shared: Rc<Shared>,
    pub stream: StreamId,
}

impl StreamBody {
    /// Whether the request has a body, or trailers behind an empty one. They may have come already.
    pub fn has_content(&self) -> bool {
        self.with(false, |incoming| {
            !incoming.is_ended || !incoming.bytes.is_empty() || !incoming.trailers.is_empty()
        })
    }

    /// The next bytes of a stream whose protocol was switched, never none; `None` at its end. The client need not send
    /// any.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let http2 = &mut *self.shared.http2.borrow_mut();
        let Some(incoming) = http2.incoming(self.stream) else { return Poll::Ready(None) };
        if incoming.bytes.is_empty() && !incoming.is_ended {
            incoming.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = std::mem::take(&mut incoming.bytes);
        if bytes.is_empty() {
            return Poll::Ready(None);
        }
        incoming.consumed += bytes.len() as u64;
        http2.consumed(self.stream, bytes.len());
        self.shared.wake();
        Poll::Ready(Some(bytes))
    }

    /// Nothing more is sent on a stream whose protocol was switched. The client may go on.
    pub fn half_close(&self) {
        self.shared.http2.borrow_mut().half_close(self.stream);
        self.shared.wake();
    }

    fn with<T>(&self, none: T, read: impl FnOnce(&mut Incoming) -> T) -> T {
        let mut http2 = self.shared.http2.borrow_mut();
        http2.incoming(self.stream).map_or(none, read)
    }
}

impl ReadBody for StreamBody {
    fn length(&self) -> Length {
        self.with(Length::None, |incoming| incoming.length)
    }

    fn bytes_read(&self) -> u64 {
        self.with(0, |incoming| incoming.consumed)
    }

    fn awaits_continue(&self) -> bool {
        self.with(false, |incoming| incoming.is_awaited)
    }

    fn take_trailers(&self) -> Trailers {
        self.with(Trailers::new(), |incoming| std::mem::take(&mut incoming.trailers))
    }

    fn converse(&self) {
        self.with((), |incoming| incoming.silence = Silence::Allowed);
    }

    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        let http2 = &mut *self.shared.http2.borrow_mut();
        let Some(incoming) = http2.incoming(self.stream) else {
            return Poll::Ready(Err(BodyError::Broken));
        };
        if !incoming.bytes.is_empty() {
            incoming.reader = Reader::Idle;
            let bytes = std::mem::take(&mut incoming.bytes);
            incoming.consumed += bytes.len() as u64;
            let is_too_large = incoming.consumed > limit;
            http2.consumed(self.stream, bytes.len());
            self.shared.wake();
            return Poll::Ready(match is_too_large {
                true => Err(BodyError::Rejected((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE))),
                false => Ok(Some(bytes)),
            });
        }
        if incoming.is_ended {
            incoming.reader = Reader::Idle;
            return Poll::Ready(if incoming.is_cut { Err(BodyError::Cut) } else { Ok(None) });
        }
        incoming.reader = Reader::Waiting;
        incoming.waker = Some(cx.waker().clone());
        if incoming.interim == Interim::Unsent {
            incoming.interim = Interim::NotNeeded;
            http2.send_continue(self.stream);
            self.shared.wake();
        }
        Poll::Pending
    }
}
