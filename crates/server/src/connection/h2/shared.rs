//! What the task of a connection shares with the tasks of its streams.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use taipan_h2::server::StreamId;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use super::Http2;
use super::incoming::{Incoming, Interim, Reader, Silence};
use crate::connection::Connections;
use crate::connection::stream::Stream;
use crate::request::body::{BodyError, Length, ReadBody};
use crate::tls_facts::TlsFacts;

pub struct Shared {
    pub connections: Rc<Connections>,
    pub http2: RefCell<Http2>,
    /// The server's address.
    pub local: Option<SocketAddr>,
    /// `None`: it has no TLS.
    pub tls: Option<Rc<TlsFacts>>,
    /// Wakes the connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Shared {
    /// For a connection with this stream.
    pub fn new(connections: Rc<Connections>, http2: Http2, stream: &Stream) -> Shared {
        let local = http2.destination.address().or_else(|| stream.local());
        let (http2, tls) = (RefCell::new(http2), stream.tls_facts());
        Shared { connections, http2, local, tls, waker: RefCell::default() }
    }

    /// `None`: a stream's task still has it.
    pub fn into_http2(shared: Rc<Shared>) -> Option<Http2> {
        Rc::into_inner(shared).map(|shared| shared.http2.into_inner())
    }

    /// From now on `wake` wakes this task.
    pub fn set_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Wakes the connection's task, because there is something to send.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

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
