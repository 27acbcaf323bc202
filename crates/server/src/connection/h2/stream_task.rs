//! The task of one stream that waits: for what its response needs, for the body of its request, or for its client to
//! take the content that it makes. Whatever it waits for has a deadline. It ends with its stream.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use site::proxies::Via;
use taipan_h2::error::ErrorCode;
use taipan_h2::server::StreamId;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, FieldStore, Head, Method, Names};
use taipan_http::status::Status;
use taipan_http::target::Target;
use tokio::time::Instant;

use super::log_lines::{Received, log_unanswered};
use super::outgoing::Next;
use super::shared::Shared;
use super::stream_body::StreamBody;
use super::tunnel_stream::TunnelStream;
use super::{Http2, PendingRequest, Start};
use crate::connection::table::TableEntry;
use crate::connection::{Event, Phase, client};
use crate::exchange;
use crate::log::EndReason;
use crate::request::body::RequestBody;
use crate::request::interim::SendInterim;
use crate::request::{ConnectionInfo, Request};
use crate::response::{Body, BodyStream, Response};
use crate::services::Services;
use crate::stats::Count;

pub struct StreamTask {
    pub shared: Rc<Shared>,
    pub stream: StreamId,
    pub entry: TableEntry,
    /// With which the stream is reset when its content cannot be completed, and that is not because of the client.
    pub failure: Cell<ErrorCode>,
    /// Why its stream has ended before its end, for the log.
    pub ended: Rc<Cell<Option<EndReason>>>,
}

/// What the content of a request is.
#[derive(Clone, Copy)]
enum Content {
    /// Its body.
    Body,
    /// What passes in a tunnel.
    Tunnel,
}

impl StreamTask {
    /// Responds, and makes the content until all of it is sent.
    pub async fn serve(self) {
        let start = self.shared.http2.borrow_mut().take_start(self.stream);
        let Some(start) = start else { return };
        let ended = {
            let responding = pin!(self.respond_or_go_on(start));
            let disconnected = poll_fn(|cx| {
                let ended = self.entry.state.poll_disconnected(cx.waker());
                // Before the request is dropped, which writes its log line.
                ended.map(|()| self.ended.set(Some(EndReason::Disconnected)))
            });
            tokio::select! {
                biased;
                () = disconnected => true,
                () = responding => false,
            }
        };
        if ended {
            self.abort(EndReason::Disconnected);
        }
    }

    async fn respond_or_go_on(&self, start: Start) {
        let body = match start {
            Start::Request(request) => self.respond(*request).await,
            Start::Response(client, body) => {
                self.entry.state.set_client(client);
                body
            }
        };
        self.make_content(body).await;
    }

    async fn respond(&self, request: PendingRequest) -> Option<Box<dyn BodyStream>> {
        let connections = &self.shared.connections;
        let Http2 { peer, destination, scheme, connection: id, .. } = *self.shared.http2.borrow();
        let group = destination.group;
        let url: String;
        let mut store = Box::new(FieldStore::new());
        // It was read before, without an error.
        let mut head = request.fields.head(&mut store, &connections.services.site.limits.head).ok()?;
        (head.scheme, head.is_early) = (scheme, request.is_early);
        let (client, via) = client::origin(&connections.services.site, peer, &mut head);
        self.entry.state.set_client(client);
        // What a trusted proxy forwards is for this server: scheme and port are those of the way to the proxy.
        let may_leave = via == Via::Nothing && request.fields.protocol().is_none();
        let scheme_sent = request.fields.scheme().filter(|_| may_leave);
        let elsewhere = connections.responder.url_elsewhere(&head, scheme_sent, client, self.shared.local);
        if let Some(elsewhere) = elsewhere {
            url = elsewhere;
            head.target = Target::parse(head.method, &url).ok()?;
            head.raw_target = &url;
        }
        // As the client has sent it, for the counts and the log.
        let sent = head;
        let fields: Vec<Field<'_>>;
        let content = match (request.fields.protocol(), head.method) {
            (Some(protocol), _) => {
                // RFC 8441 §5.
                self.failure.set(ErrorCode::CANCEL);
                fields = with_upgrade(&head, protocol);
                let (method, framing) = (Method::Get, Framing::None);
                // So that no cache answers.
                let names = head.names.union(Names::UPGRADE);
                head = Head { method, token: "GET", framing, fields: &fields, names, ..head };
                Content::Tunnel
            }
            (None, Method::Connect) => {
                // RFC 9113 §8.5.
                self.failure.set(ErrorCode::CONNECT_ERROR);
                head.framing = Framing::None;
                Content::Tunnel
            }
            (None, _) => Content::Body,
        };
        let received = Received { head: Some(&sent), client, destination, began: request.began };
        let Shared { local, ref tls, .. } = *self.shared;
        let connection = ConnectionInfo { id, client, group, via, local, tls: tls.as_deref() };
        let with_head = Request { head: &head, connection, interim: Some(self) };
        self.respond_to(with_head, content, received).await
    }

    /// Begins the response to a request. `received`: as the client has sent it. Returns the stream that makes the body.
    async fn respond_to(
        &self,
        request: Request<'_>,
        content: Content,
        received: Received<'_>,
    ) -> Option<Box<dyn BodyStream>> {
        let connections = &self.shared.connections;
        let guard = Unanswered { task: self, request: received };
        let body = match content {
            Content::Tunnel => RequestBody::None,
            Content::Body => self.request_body(),
        };
        let response = Box::pin(connections.responder.respond(request, body, None));
        let (response, too_slow) = match self.unless_too_slow(response).await {
            Ok(response) => (response, None),
            Err(why) => {
                let (services, status) = (&connections.services, Status::REQUEST_TIMEOUT);
                (exchange::error_response(services, request.head.method, status, None), Some(why))
            }
        };
        let response = match content {
            Content::Tunnel => self.switch(response),
            Content::Body => response,
        };
        std::mem::forget(guard);
        let body = self.begin(received, response);
        if let Some(why) = too_slow {
            self.shared.http2.borrow_mut().note_reason(self.stream, why);
        }
        body
    }

    fn services(&self) -> &Services {
        &self.shared.connections.services
    }

    fn request_body(&self) -> RequestBody {
        let body = self.stream_body();
        match body.has_content() {
            true => RequestBody::Stream(Rc::new(body)),
            false => RequestBody::None,
        }
    }

    fn stream_body(&self) -> StreamBody {
        StreamBody { shared: self.shared.clone(), stream: self.stream }
    }

    /// The response to CONNECT. Only a destination, or an upstream that has switched the protocol, may make it a
    /// success.
    fn switch(&self, response: Response) -> Response {
        let services = self.services();
        match response {
            Response { body: Body::Tunnel(tunnel), .. } => {
                services.counts.add(Count::Upgraded, 1);
                let stream = TunnelStream::new(tunnel, self.stream_body(), services.site.timeouts.upgraded);
                Response { body: Body::Stream(Box::new(stream)), ..response }
            }
            response if response.status().is_successful() => {
                exchange::error_response(services, Method::Get, Status::NOT_IMPLEMENTED, None)
            }
            response => response,
        }
    }

    /// Begins the response. Returns the stream that makes its body.
    fn begin(&self, request: Received<'_>, mut response: Response) -> Option<Box<dyn BodyStream>> {
        response.settle();
        let http2 = &mut *self.shared.http2.borrow_mut();
        let connections = &self.shared.connections;
        connections.services.clock.read();
        let mut out = std::mem::take(&mut http2.out);
        let body = http2.begin(&connections.streams, self.stream, request, response, &mut out);
        http2.out = out;
        self.shared.wake();
        body
    }

    /// Awaits the response, or more of it, unless the client is too slow with the body of its request.
    async fn unless_too_slow<T>(&self, made: impl Future<Output = T>) -> Result<T, EndReason> {
        let mut made = pin!(made);
        poll_fn(|cx| match made.as_mut().poll(cx) {
            Poll::Ready(made) => Poll::Ready(Ok(made)),
            Poll::Pending => self.poll_watch(cx).map(Err),
        })
        .await
    }

    /// The consumer of the body was polled before this.
    fn poll_watch(&self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let state = &self.entry.state;
        let phase =
            self.shared.http2.borrow_mut().incoming(self.stream).map_or(Phase::Respond, |i| i.phase());
        let has_broken_silence = phase == Phase::Upgraded && state.window() > 0;
        if state.phase() != phase || has_broken_silence {
            self.enter(phase);
        }
        self.poll_deadline(cx)
    }

    /// Makes content whenever the client has taken what there was, until the response is sent.
    async fn make_content(&self, mut body: Option<Box<dyn BodyStream>>) {
        loop {
            let next = poll_fn(|cx| self.poll_next(cx, body.as_deref_mut())).await;
            let made = match (next, &mut body) {
                (Ok(Next::Chunk), Some(body)) => self.make_chunk(&mut **body).await,
                (Ok(Next::Disk), _) => self.read_from_disk().await,
                (Ok(Next::Later(until)), body) => {
                    self.pause(until, body.as_deref_mut()).await;
                    Ok(())
                }
                (Ok(_), _) => return,
                (Err(why), _) => Err(why),
            };
            if let Err(why) = made {
                return self.abort(why);
            }
            self.shared.wake();
        }
    }

    /// Waits until more content has to be made. `End`: the response is sent, or the stream has ended.
    fn poll_next(
        &self,
        cx: &mut Context<'_>,
        mut body: Option<&mut (dyn BodyStream + '_)>,
    ) -> Poll<Result<Next, EndReason>> {
        self.read_request_body(cx, body.as_deref_mut());
        let mut http2 = self.shared.http2.borrow_mut();
        let Some(stream) = http2.streams.get_mut(&self.stream) else { return Poll::Ready(Ok(Next::End)) };
        stream.waker = Some(cx.waker().clone());
        let (next, is_behind) = match &mut stream.outgoing {
            Some(outgoing) => (outgoing.next(), outgoing.is_behind()),
            None => (Next::End, false),
        };
        // Its limits may have granted more since the connection's task asked them.
        if next == Next::Content && http2.resume_throttled(self.stream) {
            self.shared.wake();
        }
        drop(http2);
        match next {
            Next::Chunk | Next::Disk | Next::Later(_) => return Poll::Ready(Ok(next)),
            Next::Content | Next::End => {}
        }
        if is_behind {
            body.into_iter().for_each(|body| body.poll_read_ahead(cx));
        }
        if self.entry.state.phase() != Phase::Write {
            self.enter(Phase::Write);
        }
        self.poll_deadline(cx).map(Err)
    }

    /// Reads the rest of the request's body while the response, of which `body` makes more, is sent: a client may read
    /// only when it has sent all.
    fn read_request_body(&self, cx: &mut Context<'_>, body: Option<&mut (dyn BodyStream + '_)>) {
        if body.is_none_or(|body| body.poll_request_body(cx).is_ready()) {
            self.shared.http2.borrow_mut().abandon_body(self.stream);
        }
    }

    /// Waits until the limits of the response grant more. The client is not awaited meanwhile.
    async fn pause(&self, until: Instant, mut body: Option<&mut (dyn BodyStream + '_)>) {
        self.enter(Phase::Respond);
        self.services().counts.add(Count::ThrottlePauses, 1);
        let mut timer = Box::pin(tokio::time::sleep_until(until));
        poll_fn(|cx| {
            self.read_request_body(cx, body.as_deref_mut());
            body.iter_mut().for_each(|body| body.poll_read_ahead(cx));
            timer.as_mut().poll(cx)
        })
        .await;
        self.shared.http2.borrow_mut().resume(self.stream);
    }

    async fn make_chunk(&self, body: &mut dyn BodyStream) -> Result<(), EndReason> {
        self.enter(Phase::Respond);
        let chunk = self.unless_too_slow(body.next(self.services())).await?;
        let chunk = chunk.map_err(|_| body.abort_reason())?;
        let trailers = if chunk.is_none() { body.take_trailers() } else { Vec::new() };
        let mut http2 = self.shared.http2.borrow_mut();
        match trailers.is_empty() {
            true => http2.put(self.stream, chunk),
            false => http2.put_trailers(self.stream, &trailers),
        }
        Ok(())
    }

    async fn read_from_disk(&self) -> Result<(), EndReason> {
        self.enter(Phase::Respond);
        let part = {
            let mut http2 = self.shared.http2.borrow_mut();
            let outgoing = http2.streams.get_mut(&self.stream).and_then(|stream| stream.outgoing.as_mut());
            outgoing.and_then(|outgoing| outgoing.file().cloned())
        };
        if let Some(part) = part {
            let bytes = part.read(self.services()).await?;
            self.shared.http2.borrow_mut().put_from_disk(self.stream, bytes);
        }
        Ok(())
    }

    /// Ends the stream before its end.
    fn abort(&self, why: EndReason) {
        let code = match why {
            EndReason::ClientClosed
            | EndReason::ClientTooSlow
            | EndReason::RequestTooSlow
            | EndReason::StreamIdle
            | EndReason::Disconnected => ErrorCode::CANCEL,
            _ => self.failure.get(),
        };
        self.shared.http2.borrow_mut().abort(self.stream, code, why);
        self.shared.wake();
    }

    fn enter(&self, phase: Phase) {
        self.entry.state.enter(phase, self.services().clock.ticks());
    }

    /// Ready when the deadline of the present phase has passed.
    fn poll_deadline(&self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let state = &self.entry.state;
        match state.take_event(cx.waker()) {
            // `serve` ends it.
            None | Some(Event::Park | Event::Measure | Event::Evict | Event::Disconnect) => Poll::Pending,
            Some(Event::CheckRate) if self.is_fast_enough() => {
                self.enter(state.phase());
                Poll::Pending
            }
            Some(Event::CheckRate | Event::TimeOut) => Poll::Ready(self.time_out()),
        }
    }

    fn time_out(&self) -> EndReason {
        let (count, why) = match self.entry.state.phase() {
            Phase::Write => (Count::TimeoutWrite, EndReason::ClientTooSlow),
            Phase::Upgraded => (Count::TimeoutUpgraded, EndReason::StreamIdle),
            Phase::Head
            | Phase::Body
            | Phase::Respond
            | Phase::Receive
            | Phase::Idle
            | Phase::Linger
            | Phase::Rejected => (Count::TimeoutBody, EndReason::RequestTooSlow),
        };
        self.services().counts.add(count, 1);
        why
    }

    /// A stream that could send, or whose client may not, is slow only because of others, which have deadlines, as the
    /// connection has one.
    fn is_fast_enough(&self) -> bool {
        let state = &self.entry.state;
        let frames = &self.shared.http2.borrow().frames;
        let waits_for_others = match state.phase() {
            Phase::Write => frames.sendable(self.stream) > 0,
            Phase::Body => frames.receivable() == 0,
            _ => false,
        };
        waits_for_others || self.shared.connections.deadlines.of(state.phase()).is_extended_by(state.window())
    }
}

impl SendInterim for StreamTask {
    fn send_interim(&self, status: Status, fields: &[Field<'_>]) {
        self.shared.http2.borrow_mut().send_interim(self.stream, status, fields);
        self.shared.wake();
    }
}

/// The fields of an extended CONNECT, and those with which a request by HTTP/1.1 asks for the protocol.
fn with_upgrade<'a>(head: &Head<'a>, protocol: &'a [u8]) -> Vec<Field<'a>> {
    let connection = Field { name: b"connection", value: b"Upgrade" };
    let upgrade = Field { name: b"upgrade", value: protocol };
    head.fields.iter().copied().chain([connection, upgrade]).collect()
}

/// A request without a response. It is dropped only when its stream ends, by a panic, or when the server stops, and
/// then writes the log line.
struct Unanswered<'a> {
    task: &'a StreamTask,
    request: Received<'a>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let connections = &self.task.shared.connections;
        let why = self.task.ended.get().unwrap_or_else(EndReason::dropped);
        let status = match why {
            EndReason::Panicked => Status::INTERNAL_SERVER_ERROR,
            _ => Status::BAD_REQUEST,
        };
        connections.services.counts.add(Count::Abandoned, u64::from(why != EndReason::Panicked));
        let tls = self.task.shared.tls.as_ref();
        log_unanswered(&connections.services, self.request, tls, status, why);
    }
}
