//! The task of a connection that waits: for the rest of a request, for what its response needs, or for its client to
//! take the response. Whatever it waits for has a deadline. When it has answered a request without waiting, it goes
//! back to the idle set.

mod ending;
mod immediate;

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::head::{Field, Version};
use taipan_http::status::Status;
use tokio::time::Instant;

use super::client::Client;
use super::h1::{Answered, Http1, Next, Reading};
use super::h2::{self, Http2, is_preface};
use super::idle::IdleConnection;
use super::log_guard::LogGuard;
use super::output::{Output, Persistence, SendError, Sent, TURN};
use super::stream::Stream;
use super::table::TableEntry;
use super::transport::{Broken, Interruption, Transport};
use super::tunnel::Tunneling;
use super::{Event, Phase, Waited};
use crate::clock;
use crate::connection::Connections;
use crate::log::EndReason;
use crate::request::ConnectionInfo;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::request::interim::SendInterim;
use crate::response::Response;
use crate::semaphore::Permit;
use crate::services::ScratchInput;
use crate::stats::Count;
use crate::upstream::immediate::SentRequest;

/// What a task begins with.
pub struct Begin {
    pub http: Http1,
    pub start: Start,
    /// Received bytes that are not used yet.
    pub input: Vec<u8>,
}

/// Where a task begins.
pub enum Start {
    /// With the input, which may hold more requests.
    Input,
    /// With what the idle set could not finish without waiting, and its output.
    Next(Next, Output),
    /// Behind the last response.
    Linger,
    /// At capacity: one request is read, and gets this response.
    Reject(Permit, Response),
}

pub struct Task {
    transport: Rc<Transport>,
    client: Client,
    connections: Rc<Connections>,
    http: Http1,
    /// Whether the present request had to wait.
    waited: Waited,
    /// Held to the end by a connection that is being rejected.
    permit: Option<Permit>,
}

impl Begin {
    /// With nothing received.
    pub fn empty(http: Http1, start: Start) -> Begin {
        Begin { http, start, input: Vec::new() }
    }
}

/// How a connection leaves its task.
enum End {
    Close,
    /// An administrator ends it: at once, whatever is not sent.
    Disconnect,
    /// The last response is sent, and the client sends no more.
    Drain,
    /// The last response is sent, but the client may still be sending.
    Linger,
    /// It is idle.
    Park,
    /// The client has begun with the preface of HTTP/2, which did not come at once.
    Http2,
}

impl End {
    /// `None`: the next request follows.
    fn after(persistence: Persistence) -> Option<End> {
        match persistence {
            Persistence::KeepAlive | Persistence::KeepAliveHttp10 => None,
            Persistence::Close => Some(End::Drain),
            Persistence::LingeringClose => Some(End::Linger),
        }
    }
}

impl Task {
    /// For a connection whose `input` was received and is not used yet.
    pub fn new(
        stream: Stream,
        client: Client,
        connections: Rc<Connections>,
        entry: TableEntry,
        mut http: Http1,
        input: Vec<u8>,
    ) -> Task {
        http.connection = entry.state.id();
        let transport = Rc::new(Transport::new(connections.clone(), stream, entry, input));
        Task { transport, client, connections, http, waited: Waited::Yes, permit: None }
    }

    /// Serves until the connection ends or goes back to the idle set.
    pub async fn serve(mut self, start: Start) {
        let serving = Serving(&mut self);
        let task = &mut *serving.0;
        let end = match task.run(start).await {
            Ok(end) => end,
            Err(Interruption::Park) => End::Park,
            Err(Interruption::TimedOut) => task.on_timeout().await,
            Err(Interruption::Evicted) => task.on_evicted().await,
            Err(Interruption::IncompleteBody) => task.on_incomplete_body().await,
            Err(Interruption::Disconnected) => {
                task.log_aborted(Status::BAD_REQUEST, EndReason::Disconnected);
                End::Disconnect
            }
            Err(Interruption::EndOfInput | Interruption::Failed) => {
                task.log_failed_session();
                task.log_aborted(Status::BAD_REQUEST, EndReason::ClientClosed);
                End::Close
            }
        };
        std::mem::forget(serving);
        // Also where it had nothing to wait for.
        let end = if self.transport.entry.state.is_disconnected() { End::Disconnect } else { end };
        match end {
            End::Disconnect => {
                let stream = &self.transport.stream;
                stream.close_session();
                if stream.unacknowledged() > 0 {
                    stream.reset_when_closed();
                }
            }
            End::Close => self.transport.stream.close_session(),
            End::Drain => self.drain(),
            End::Linger => {
                self.linger().await;
                self.drain();
            }
            End::Park => self.park(),
            End::Http2 => self.speak_http2(),
        }
    }

    async fn run(&mut self, start: Start) -> Result<End, Interruption> {
        let (mut first, mut output) = match start {
            Start::Linger => {
                // Input behind the last request is ignored.
                self.transport.buffered.borrow_mut().clear();
                return Ok(End::Linger);
            }
            Start::Reject(permit, response) => {
                self.permit = Some(permit);
                return self.reject(&response).await;
            }
            Start::Input => (None, Output::default()),
            Start::Next(next, output) => (Some(next), output),
        };
        loop {
            let next = match first.take() {
                Some(next) => next,
                None => match self.read_next(&mut output).await? {
                    ControlFlow::Continue(next) => next,
                    ControlFlow::Break(end) => return Ok(end),
                },
            };
            if !matches!(next, Next::Read) {
                self.transport.entry.state.set_client(self.http.client);
            }
            match next {
                Next::Read => {
                    self.wait_for_head();
                    self.transport.receive().await?;
                    continue;
                }
                Next::Send => {}
                Next::Respond => self.respond(None, &mut output).await?,
                Next::Receive(sent) => self.receive(sent, &mut output).await?,
            }
            let end = match self.write_at_once(&mut output) {
                true => self.finish(&mut output),
                // Boxed: it would be most of this future.
                false => Box::pin(self.write(&mut output)).await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// What follows the last response: the requests in the input, which is awaited for a while, or the end.
    async fn read_next(&mut self, output: &mut Output) -> Result<ControlFlow<End, Next>, Interruption> {
        if !self.transport.is_body_read() && !self.read_rest_of_body().await {
            return Ok(ControlFlow::Break(End::Linger));
        }
        self.transport.entry.state.reset_client();
        let input = if self.transport.has_input() {
            self.transport.lend_buffered()
        } else {
            let may_park = self.waited == Waited::No || self.connections.services.mode.is_leaving();
            if may_park && !self.transport.stream.is_signing() {
                return Ok(ControlFlow::Break(End::Park));
            }
            self.transport.enter(Phase::Idle);
            self.waited = Waited::No;
            let input = self.transport.receive_first().await?;
            self.http.began = clock::micros();
            input
        };
        if self.begins_http2(self.connections.services.scratch.borrow().input(input)) {
            self.transport.keep(input);
            return Ok(ControlFlow::Break(End::Http2));
        }
        Ok(ControlFlow::Continue(self.read_requests(input, output)))
    }

    fn read_requests(&mut self, input: ScratchInput, output: &mut Output) -> Next {
        self.http.tls = self.transport.stream.tls_state();
        let Answered { rest, next } = {
            let local = || self.transport.local();
            self.http.answer(&self.connections, input, &local, output)
        };
        self.transport.keep(rest);
        next
    }

    /// Puts the response to the current request into `output`. `sent`: it has been sent to an application.
    async fn respond(&mut self, sent: Option<SentRequest>, output: &mut Output) -> Result<(), Interruption> {
        self.waited = Waited::Yes;
        let current = self.http.current().ok_or(Interruption::Failed)?;
        let fields: Vec<Field<'_>> = current.fields().collect();
        let head = current.head(&fields).ok_or(Interruption::Failed)?;
        self.transport.begin_body(&head);
        let (client, via, destination) = (self.http.client, self.http.via, self.http.destination);
        let local = destination.address().or_else(|| self.transport.local());
        let tls = self.transport.stream.tls_facts();
        let group = destination.group;
        let id = self.transport.entry.state.id();
        let connection = ConnectionInfo { id, client, group, via, local, tls: tls.as_deref() };
        // RFC 9110 §15.2.
        let takes_interim = head.version == Version::Http11;
        let interim = takes_interim.then_some(&*self.transport as &dyn SendInterim);
        let request = Request { head: &head, connection, interim };
        let body = RequestBody::Stream(self.transport.clone());
        let response = Box::pin(self.connections.responder.respond(request, body, sent));
        let mut response = self.unless_interrupted(response).await?;
        let reading = self.reading(&mut response).await;
        self.http.put_response(&self.connections, &head, response, reading, output);
        drop(fields);
        drop(current);
        self.http.finish_current();
        Ok(())
    }

    /// How much of the request's body has been read. Drops the received part of one that nothing reads any more.
    async fn reading(&self, response: &mut Response) -> Reading {
        poll_fn(|cx| {
            let stream = response.body.stream();
            let is_wanted = stream.is_some_and(|stream| stream.poll_request_body(cx).is_pending())
                && !self.transport.withholds_continue();
            if !self.transport.is_body_read() && !is_wanted {
                _ = self.transport.poll_discard(cx);
            }
            Poll::Ready(match self.transport.is_body_read() {
                true => Reading::Complete,
                false if is_wanted => Reading::Continues,
                false => Reading::Unread,
            })
        })
        .await
    }

    /// Drops the rest of the body of a request whose response has been sent. The next request follows it. `false`: it
    /// is malformed or too large, or the client is too slow or closes.
    async fn read_rest_of_body(&mut self) -> bool {
        self.waited = Waited::Yes;
        // Boxed for the same reason as in `unless_interrupted`. The request counts as answered.
        let watch: Pin<Box<dyn Future<Output = Interruption>>> = Box::pin(self.transport.watch());
        tokio::select! {
            biased;
            () = poll_fn(|cx| self.transport.poll_drop_rest(cx)) => self.transport.is_body_read(),
            _ = watch => false,
        }
    }

    /// Awaits `made`, unless the client closes, is too slow, or is evicted.
    async fn unless_interrupted<T>(&self, made: impl Future<Output = T>) -> Result<T, Interruption> {
        // Boxed, so that its code is not copied for every kind of future: what waits does not need the speed.
        let watch: Pin<Box<dyn Future<Output = Interruption>>> = Box::pin(self.transport.watch());
        tokio::select! {
            biased;
            made = made => Ok(made),
            broken = watch => {
                self.count_abandoned(broken);
                Err(broken)
            }
        }
    }

    /// Counts a response that nothing awaits any more, if that is because of the client.
    fn count_abandoned(&self, broken: Interruption) {
        let has_left = matches!(
            broken,
            Interruption::EndOfInput
                | Interruption::IncompleteBody
                | Interruption::Failed
                | Interruption::Disconnected
        );
        self.connections.services.counts.add(Count::Abandoned, u64::from(has_left));
    }

    /// The rest of a head is awaited.
    fn wait_for_head(&mut self) {
        self.waited = Waited::Yes;
        if self.transport.entry.state.phase() != Phase::Head {
            self.transport.enter(Phase::Head);
        }
    }

    /// Sends all of `output` and writes its log lines. `Some`: it was the last.
    async fn write(&mut self, output: &mut Output) -> Result<Option<End>, Interruption> {
        output.gather();
        self.begin_write(output);
        let ends_with_connection = output.ends_with_connection();
        if ends_with_connection {
            self.transport.stream.reset_when_closed();
        }
        let sent = self.send(output).await;
        if ends_with_connection && sent.is_ok() {
            self.transport.stream.close_normally();
        }
        if sent.is_ok() {
            self.transport.enter(Phase::Idle);
        }
        let ended = sent.as_ref().err().map(|broken| broken.reason);
        let persistence = output.persistence;
        self.connections.finish(output, ended);
        match (sent, persistence) {
            (Err(Broken { by, .. }), _) => {
                self.transport.buffered.take();
                self.transport.stream.cut_session();
                // The kernel is not to hold what the client did not take in time.
                if matches!(by, Interruption::TimedOut | Interruption::Evicted | Interruption::Disconnected) {
                    self.transport.stream.reset_when_closed();
                }
                Err(by)
            }
            (Ok(()), persistence) => Ok(End::after(persistence)),
        }
    }

    /// Writes the log lines of an output of which all is sent.
    fn finish(&self, output: &mut Output) -> Option<End> {
        let persistence = output.persistence;
        self.connections.finish(output, None);
        End::after(persistence)
    }

    /// Sends an output that is all in memory, as most are, if the stream takes all of it now.
    fn write_at_once(&self, output: &mut Output) -> bool {
        let is_disconnected = self.transport.entry.state.is_disconnected();
        if is_disconnected || !self.transport.is_body_read() || !output.is_in_memory() {
            return false;
        }
        let services = &self.connections.services;
        let mut output = LogGuard::new(services, output);
        let sent = self.transport.send_interims();
        // `write` meets an error again.
        let sent = sent
            .map_err(SendError::Io)
            .and_then(|()| output.send(&self.transport.stream, services.clock.read()));
        output.disarm();
        let is_sent = matches!(sent, Ok(Sent::All));
        if is_sent {
            self.transport.enter(Phase::Idle);
        }
        is_sent
    }

    /// From now on the client is awaited.
    fn begin_write(&self, output: &mut Output) {
        self.transport.enter(Phase::Write);
        output.unmark_taken();
    }

    async fn send(&mut self, output: &mut Output) -> Result<(), Broken> {
        // Every request has its log line, also when this task is dropped or panics.
        let connections = self.connections.clone();
        let mut output = LogGuard::new(&connections.services, output);
        let mut turn_start = output.sent();
        let result = loop {
            match self.send_some(&mut output).await {
                Ok(Sent::All) => break self.pass_bytes(&mut output).await,
                Ok(Sent::Slice) => {
                    self.waited = Waited::Yes;
                    if output.sent() - turn_start >= TURN {
                        tokio::task::yield_now().await;
                        turn_start = output.sent();
                    }
                }
                Ok(Sent::NeedsBody) => {
                    if let Err(why) = self.wait_for_content(output.next_chunk(&connections.services)).await {
                        break Err(why);
                    }
                    self.begin_write(&mut output);
                }
                Ok(Sent::NotInMemory) => {
                    // Boxed: it is rare, and would be most of the memory of a connection's task.
                    let content = Box::pin(output.read_from_disk(&connections.services));
                    if let Err(why) = self.wait_for_content(content).await {
                        break Err(why);
                    }
                    self.begin_write(&mut output);
                }
                Ok(Sent::Throttled(until)) => {
                    if let Err(why) = self.pause(&mut output, until).await {
                        break Err(why);
                    }
                    self.begin_write(&mut output);
                }
                Err(why) => break Err(why),
            }
        };
        output.disarm();
        result
    }

    /// Passes bytes between the client and an upstream, if the response has switched the protocol.
    async fn pass_bytes(&mut self, output: &mut Output) -> Result<(), Broken> {
        let Some(tunnel) = output.take_tunnel() else { return Ok(()) };
        self.waited = Waited::Yes;
        self.connections.services.counts.add(Count::Upgraded, 1);
        let mut tunneling = Box::new(Tunneling::new(&self.transport, &self.connections, &*tunnel));
        let passed = Box::pin(tunneling.run()).await;
        output.count_tunneled(tunneling.sent);
        passed
    }

    /// Waits until the limits of a response grant more. The client is not awaited meanwhile. Whether it has left is
    /// seen when more is sent.
    async fn pause(&mut self, output: &mut Output, until: Instant) -> Result<(), Broken> {
        self.waited = Waited::Yes;
        self.connections.services.counts.add(Count::ThrottlePauses, 1);
        self.transport.enter(Phase::Respond);
        let transport = &self.transport;
        let mut timer = Box::pin(tokio::time::sleep_until(until));
        poll_fn(|cx| {
            match transport.entry.state.take_event(cx.waker()) {
                Some(Event::Evict) => return Poll::Ready(Err(Interruption::Evicted.into())),
                Some(Event::Disconnect) => {
                    return Poll::Ready(Err(Interruption::Disconnected.into()));
                }
                None | Some(Event::Park | Event::CheckRate | Event::TimeOut | Event::Measure) => {}
            }
            read_request_body(cx, transport, output);
            output.poll_read_ahead(cx);
            timer.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    async fn wait_for_content(
        &mut self,
        content: impl Future<Output = Result<(), EndReason>>,
    ) -> Result<(), Broken> {
        self.waited = Waited::Yes;
        match self.unless_interrupted(pin!(content)).await {
            Ok(made) => made.map_err(Broken::failed),
            Err(by) => Err(by.into()),
        }
    }

    /// Sends what the stream takes.
    async fn send_some(&mut self, output: &mut Output) -> Result<Sent, Broken> {
        let Task { transport, connections, waited, .. } = self;
        poll_fn(|cx| {
            read_request_body(cx, transport, output);
            poll_send(cx, transport, connections, waited, output)
        })
        .await
    }

    /// `input`: all bytes that are not used yet.
    fn begins_http2(&self, input: &[u8]) -> bool {
        let stream = &self.transport.stream;
        self.http.requests == 0
            && stream.may_speak_http2()
            && (stream.has_negotiated_http2() || is_preface(input))
    }

    fn speak_http2(self) {
        let Task { transport, client, connections, .. } = self;
        let input = transport.buffered.take();
        if let Some((socket, _)) = transport.into_socket() {
            let http2 = Http2::new(&connections, &client, socket.scheme());
            connections.give_http2_task(socket, client, h2::task::Begin { http2, output: None, input });
        }
    }

    fn park(self) {
        let Task { transport, client, connections, http, .. } = self;
        // Fails where the stream has no socket; then the connection closes.
        if let Some((socket, since)) = transport.into_socket() {
            if socket.has_plaintext() {
                return connections.give_task(socket, client, Begin::empty(http, Start::Input));
            }
            connections.keep(IdleConnection::new(socket, client, http.requests, since));
        }
    }
}

/// Reads the rest of the request's body while the response is sent: a client may read only when it has sent all. The
/// response is sent even where the body cannot be read.
fn read_request_body(cx: &mut Context<'_>, transport: &Transport, output: &mut Output) {
    if !transport.is_body_read() && output.poll_request_body(cx).is_ready() {
        _ = transport.poll_discard(cx);
    }
}

/// Sends what the stream takes now. Pending, with a deadline, when it takes nothing.
fn poll_send(
    cx: &mut Context<'_>,
    transport: &Transport,
    connections: &Connections,
    waited: &mut Waited,
    output: &mut Output,
) -> Poll<Result<Sent, Broken>> {
    let state = &transport.entry.state;
    let stream = &transport.stream;
    loop {
        if let Some(event) = state.take_event(cx.waker()) {
            let now = connections.services.clock.ticks();
            // Bytes of the request's body count as well; the transport has counted them.
            state.measure(output.taken(stream.unacknowledged()), now);
            match event {
                Event::Measure | Event::Park => {}
                Event::Evict => return Poll::Ready(Err(Interruption::Evicted.into())),
                Event::Disconnect => {
                    return Poll::Ready(Err(Interruption::Disconnected.into()));
                }
                Event::CheckRate if connections.deadlines.of(Phase::Write).is_extended_by(state.window()) => {
                    state.enter(Phase::Write, now);
                }
                Event::CheckRate | Event::TimeOut => {
                    return Poll::Ready(Err(Broken {
                        by: Interruption::TimedOut,
                        reason: EndReason::ClientTooSlow,
                    }));
                }
            }
        }
        let sent = transport
            .send_interims()
            .map_err(SendError::Io)
            .and_then(|()| output.send(stream, connections.services.clock.read()));
        match sent {
            Ok(sent) => return Poll::Ready(Ok(sent)),
            Err(SendError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                *waited = Waited::Yes;
                output.mark_taken_once(|| stream.unacknowledged());
                output.poll_read_ahead(cx);
                if ready!(stream.poll_write_ready(cx)).is_err() {
                    return Poll::Ready(Err(Broken::failed(EndReason::ClientClosed)));
                }
            }
            Err(error) => return Poll::Ready(Err(Broken::failed(error.reason()))),
        }
    }
}

/// A running request. It is dropped only by a panic, or when the server stops, and then writes the log line.
struct Serving<'a>(&'a mut Task);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.log_aborted(Status::INTERNAL_SERVER_ERROR, EndReason::dropped());
    }
}
