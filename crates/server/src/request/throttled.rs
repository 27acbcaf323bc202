//! A request body that is read no faster than its limits allow. What has been received beyond that waits here, at most
//! one read, and the client waits for the server to read on.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::trailers::Trailers;
use tokio::time::Sleep;

use super::body::{BodyError, Length, ReadBody};
use crate::limits::Throttle;
use crate::services::Services;
use crate::stats::Count;

pub struct ThrottledBody {
    body: Rc<dyn ReadBody>,
    services: Rc<Services>,
    state: RefCell<State>,
}

struct State {
    throttle: Throttle,
    /// Bytes that were read, and how many of them were passed on.
    received: Vec<u8>,
    at: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ThrottledBody {
    pub fn new(body: Rc<dyn ReadBody>, throttle: Throttle, services: Rc<Services>) -> ThrottledBody {
        let state = State { throttle, received: Vec::new(), at: 0, pause: None };
        ThrottledBody { body, services, state: RefCell::new(state) }
    }
}

impl ReadBody for ThrottledBody {
    fn length(&self) -> Length {
        self.body.length()
    }

    fn bytes_read(&self) -> u64 {
        self.body.bytes_read()
    }

    fn awaits_continue(&self) -> bool {
        self.body.awaits_continue()
    }

    fn take_trailers(&self) -> Trailers {
        self.body.take_trailers()
    }

    fn converse(&self) {
        self.body.converse();
    }

    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        let State { throttle, received, at, pause } = &mut *self.state.borrow_mut();
        if *at == received.len() {
            match ready!(self.body.poll_read(cx, limit))? {
                None => return Poll::Ready(Ok(None)),
                Some(bytes) => (*received, *at) = (bytes, 0),
            }
        }
        // Twice at most: a pause is longer than nothing.
        loop {
            if let Some(pausing) = pause {
                ready!(pausing.as_mut().poll(cx));
                *pause = None;
            }
            let left = &received[*at..];
            match throttle.ask(left.len() as u64) {
                Ok(allowed) => {
                    let count = left.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
                    let bytes = left[..count].to_vec();
                    throttle.used(count as u64);
                    *at += count;
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Err(until) => {
                    self.services.counts.add(Count::ThrottlePauses, 1);
                    *pause = Some(Box::pin(tokio::time::sleep_until(until)));
                }
            }
        }
    }
}
