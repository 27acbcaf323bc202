//! The beginning of a response: it is sent at once and as a whole, or its stream waits.

use taipan_h2::server::{EndStream, Rest, StreamId};
use taipan_http::head::Method;
use taipan_http::status::Status;

use super::gathered::Gathered;
use super::incoming::Incoming;
use super::log_lines::Received;
use super::outgoing::Outgoing;
use super::{Http2, Start, block};
use crate::limits::Throttle;
use crate::log::access::Records;
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::semaphore::Semaphore;
use crate::services::Services;
use crate::stats::Count;

impl Http2 {
    /// Sends a response at once, if it is short enough for the windows and the buffer. Otherwise, its stream waits.
    /// `permits`: of streams that wait.
    #[inline]
    pub(super) fn respond(
        &mut self,
        permits: &Semaphore,
        stream: StreamId,
        request: Received<'_>,
        mut response: Response,
        gathered: &mut Gathered<'_>,
    ) {
        response.settle();
        let content = response.small_body();
        let is_whole = matches!(response.body, Body::Nothing)
            && response.throttle.is_none()
            && content.len() <= self.frames.sendable(stream)
            && gathered.has_space(content.len());
        if !is_whole {
            let body = self.begin(permits, stream, request, response, &mut gathered.out);
            return self.start(stream, Start::Response(request.client, body));
        }
        let start = gathered.out.len();
        let block = response.head.block(block::encode);
        let (end, rest) = (EndStream::when(content.is_empty()), rest_behind(response.head.status()));
        self.frames.response(stream, block, end, rest, &mut gathered.out);
        if !content.is_empty() {
            self.frames.data(stream, content, EndStream::Set, &mut gathered.out);
        }
        let added = gathered.out.len() - start - content.len();
        self.record(request, &response, added, &mut gathered.records);
    }

    /// Begins a response that is sent in parts.
    pub(super) fn begin(
        &mut self,
        permits: &Semaphore,
        stream: StreamId,
        request: Received<'_>,
        mut response: Response,
        out: &mut Vec<u8>,
    ) -> Option<Box<dyn BodyStream>> {
        let is_empty = matches!(response.body, Body::Nothing) && response.small_body().is_empty();
        let throttle = if is_empty { response.throttle.take() } else { None };
        let ends = is_empty && throttle.is_none();
        let has_place =
            ends || self.streams.contains_key(&stream) || self.insert(permits, stream, Incoming::none(), out);
        if !has_place {
            self.log_refused(request, &response);
            return None;
        }
        let start = out.len();
        let is_tunnel = request.head.is_some_and(|head| head.method == Method::Connect);
        let rest = if is_tunnel { Rest::Unneeded } else { rest_behind(response.head.status()) };
        let block = response.head.block(block::encode);
        self.frames.response(stream, block, EndStream::when(ends), rest, out);
        let added = out.len() - start;
        for (_, value) in response.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("priority")) {
            self.frames.set_priority(stream, value);
        }
        let mut records = Records::default();
        self.record(request, &response, added, &mut records);
        let mut body = match throttle {
            Some(throttle) => {
                let end: Box<dyn BodyStream> = Box::new(ThrottledEnd { throttle, left: added as u64 });
                Some(end)
            }
            None => take_stream(&mut response.body),
        };
        let mut outgoing = Outgoing::new(self.services.clone(), response, records, added as u64);
        if ends {
            self.streams.remove(&stream);
            self.finished.push(outgoing);
            return None;
        }
        if let Some(body) = &mut body {
            match is_tunnel {
                true => outgoing.begin_tunnel(body.take_buffered()),
                false => outgoing.begin_stream(body.take_buffered()),
            }
        }
        let is_ready = outgoing.left() > 0;
        if let Some(waiting) = self.streams.get_mut(&stream) {
            waiting.outgoing = Some(outgoing);
        }
        self.frames.set_ready(stream, is_ready);
        body
    }
}

/// The content of a response that has none, and that limits slow: it ends when they have granted the bytes of the head.
struct ThrottledEnd {
    throttle: Box<Throttle>,
    left: u64,
}

impl BodyStream for ThrottledEnd {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(async move {
            while self.left > 0 {
                match self.throttle.ask(self.left) {
                    Ok(granted) => {
                        let granted = granted.min(self.left);
                        self.throttle.used(granted);
                        self.left -= granted;
                    }
                    Err(until) => {
                        services.counts.add(Count::ThrottlePauses, 1);
                        tokio::time::sleep_until(until).await;
                    }
                }
            }
            Ok(None)
        })
    }
}

/// What becomes of the rest of a request behind a response with this status.
const fn rest_behind(status: Status) -> Rest {
    if status.is_error() { Rest::Unneeded } else { Rest::Read }
}

fn take_stream(body: &mut Body) -> Option<Box<dyn BodyStream>> {
    match std::mem::replace(body, Body::Nothing) {
        Body::Stream(stream) | Body::Sized(stream, _) => Some(stream),
        other => {
            *body = other;
            None
        }
    }
}
