//! Frames become requests, and the bodies of requests. A request that needs neither waiting nor a body has its response
//! at once.

use taipan_h2::error::ErrorCode;
use taipan_h2::fields::FieldList;
use taipan_h2::server::{self, EndStream, Event, StreamId};
use taipan_http::head::{FieldStore, HeadError, Method};
use taipan_http::status::Status;
use taipan_http::trailers;

use super::gathered::Gathered;
use super::incoming::Incoming;
use super::log_lines::{Received, log_unanswered};
use super::{Http2, PendingRequest, Start, State, Stream};
use crate::clock;
use crate::connection::{Connections, client};
use crate::exchange::{self, Sending};
use crate::log::EndReason;
use crate::response::Response;
use crate::semaphore::Semaphore;
use crate::services::Services;
use crate::stats::Count;

impl Http2 {
    /// Reads frames, as long as there is space for responses, and at most up to the last request that the connection
    /// may have: streams that the client opens behind GOAWAY are ignored. Returns how many bytes of the input are used up.
    #[inline]
    pub(super) fn read(
        &mut self,
        connections: &Connections,
        input: &[u8],
        fields: &mut FieldList,
        gathered: &mut Gathered<'_>,
    ) -> usize {
        let began = clock::micros();
        let mut used = 0;
        while used < input.len()
            && gathered.accepts_more()
            && self.state != State::Failed
            && !self.has_last_request()
        {
            match self.frames.receive(&input[used..], fields, &mut gathered.out) {
                Ok((bytes, event)) => {
                    used += bytes;
                    let Some(event) = event else { break };
                    self.on_event(connections, event, fields, began, gathered);
                }
                Err(error) => {
                    connections.failures.log_http2(self.peer, error.sentence());
                    self.fail();
                }
            }
        }
        used
    }

    /// `fields`: those of a request, or behind the body of one.
    #[inline]
    fn on_event(
        &mut self,
        connections: &Connections,
        event: Event<'_>,
        fields: &FieldList,
        began: u64,
        gathered: &mut Gathered<'_>,
    ) {
        match event {
            Event::Request { stream, end } => {
                self.requests = self.requests.saturating_add(1);
                self.on_request(connections, stream, fields, began, end, gathered);
            }
            Event::Rejected { stream, error, .. } => {
                self.requests = self.requests.saturating_add(1);
                let response = rejection(&self.services, fields, error);
                self.respond(&connections.streams, stream, self.unread(began), response, gathered);
            }
            Event::Malformed { error, .. } => {
                let (unread, why) = (self.unread(began), EndReason::MalformedHead(error));
                log_unanswered(&self.services, unread, self.tls.logged.as_ref(), Status::BAD_REQUEST, why);
            }
            Event::Refused { .. } => self.services.counts.add(Count::StreamsRefused, 1),
            Event::WindowOpened => {}
            Event::Data { stream, data, end } => self.on_data(stream, data, end, gathered),
            Event::Cut { stream } => {
                if let Some(incoming) = self.incoming(stream) {
                    incoming.cut();
                }
            }
            Event::Trailers { stream } => {
                if let Some(incoming) = self.incoming(stream) {
                    let fields = fields.fields().map(|field| (field.name, field.value));
                    incoming.trailers = trailers::passed(fields, |_| false);
                }
                self.on_data(stream, &[], EndStream::Set, gathered);
            }
            Event::Reset { stream, by, .. } => {
                let reason = match by {
                    server::Peer::Client => EndReason::StreamReset,
                    server::Peer::Server => EndReason::MalformedFrames,
                };
                self.end(stream, reason);
            }
            Event::GoAway { .. } => self.state = State::Ending,
        }
    }

    #[inline]
    fn on_request(
        &mut self,
        connections: &Connections,
        stream: StreamId,
        fields: &FieldList,
        began: u64,
        end: EndStream,
        gathered: &mut Gathered<'_>,
    ) {
        let mut store = FieldStore::new();
        let mut head = match fields.head(&mut store, &connections.services.site.limits.head) {
            Ok(head) => head,
            Err(error) => {
                let response = rejection(&self.services, fields, error);
                return self.respond(&connections.streams, stream, self.unread(began), response, gathered);
            }
        };
        (head.scheme, head.is_early) = (self.scheme, self.tls.is_early);
        let (client, _) = client::origin(&connections.services.site, self.peer, &mut head);
        let responder = &connections.responder;
        if end.is_set()
            && !responder.may_lead_elsewhere(fields.scheme())
            && let Ok(response) = responder.fast(&head, client, self.destination, began, Sending::No)
        {
            let received = Received { head: Some(&head), client, ..self.unread(began) };
            return self.respond(&connections.streams, stream, received, response, gathered);
        }
        let incoming = Incoming::new(&head, end);
        if self.insert(&connections.streams, stream, incoming, &mut gathered.out) {
            let request = PendingRequest { fields: fields.clone(), began, is_early: self.tls.is_early };
            self.start(stream, Start::Request(Box::new(request)));
        }
    }

    /// Adds a stream that waits. `false`: too many do, and it is refused.
    pub(super) fn insert(
        &mut self,
        permits: &Semaphore,
        stream: StreamId,
        incoming: Incoming,
        out: &mut Vec<u8>,
    ) -> bool {
        let permit = match self.streams.is_empty() {
            true => None,
            false => {
                let permit = permits.take();
                if permit.is_none() {
                    self.services.counts.add(Count::StreamsRefused, 1);
                    self.frames.reset(stream, ErrorCode::REFUSED_STREAM, out);
                    return false;
                }
                permit
            }
        };
        let waiting =
            Stream { start: None, incoming, outgoing: None, waker: None, task: None, _permit: permit };
        self.streams.insert(stream, waiting);
        true
    }

    /// The stream is to get a task, which begins so.
    pub(super) fn start(&mut self, stream: StreamId, start: Start) {
        if let Some(waiting) = self.streams.get_mut(&stream) {
            waiting.start = Some(start);
            self.unstarted.push(stream);
        }
    }

    fn on_data(&mut self, stream: StreamId, data: &[u8], end: EndStream, gathered: &mut Gathered<'_>) {
        let dropped = match self.streams.get_mut(&stream) {
            Some(waiting) => {
                if let Some(task) = &waiting.task {
                    task.deadline.moved(data.len() as u64);
                }
                let dropped = waiting.incoming.receive(data);
                if end.is_set() {
                    waiting.incoming.end();
                }
                dropped
            }
            None => data.len(),
        };
        if dropped > 0 {
            self.frames.consumed(stream, dropped as u32, &mut gathered.out);
        }
    }
}

/// The response to a request whose head breaks a rule.
#[cold]
fn rejection(services: &Services, fields: &FieldList, error: HeadError) -> Response {
    let method = if fields.method() == Some(b"HEAD") { Method::Head } else { Method::Unknown };
    exchange::error_response(services, method, error.status(), Some(error.rule()))
}
