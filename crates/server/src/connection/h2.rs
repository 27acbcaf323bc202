//! HTTP/2 without a socket (RFC 9113): it makes requests of frames, responds from the fast path at once, and keeps what
//! the other streams have received and have yet to send.
//!
//! Knows nothing of TLS, and of tasks only how to wake and end them.

mod block;
mod gathered;
mod incoming;
mod outgoing;
mod shared;
mod stream_task;
pub mod task;
mod tunnel_stream;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use site::disconnect::ConnectionId;
use site::proxies::Via;
use taipan_h2::error::ErrorCode;
use taipan_h2::fields::{ExtendedConnect, FieldList};
use taipan_h2::frame::{DEFAULT_WINDOW, PREFACE, Settings, write_goaway};
use taipan_h2::response::{write_fields, write_head};
use taipan_h2::server::{self, Connection, Event, StreamId};
use taipan_http::head::{Field, FieldStore, Head, HeadError, Method};
use taipan_http::status::Status;
use taipan_http::target::Scheme;
use taipan_http::trailers::{self, Trailers};
use tokio::task::AbortHandle;

use super::client;
use super::output::Output;
use super::table::ConnectionState;
use crate::clock;
use crate::connection::Connections;
use crate::destination::DestinationId;
use crate::exchange::{self, Sending};
use crate::handshake::TlsFacts;
use crate::log::EndReason;
use crate::log::access::{LoggedRequest, LoggedResponse, Records};
use crate::peer::Peer;
use crate::response::{Body, BodyStream, Response};
use crate::semaphore::Permit;
use crate::services::{ScratchInput, Services};
use crate::stats::Count;
use gathered::{Gathered, space};
use incoming::{Incoming, Reader};
use outgoing::{Next, Outgoing};

/// The state of HTTP/2 on one connection.
pub struct Http2 {
    services: Rc<Services>,
    peer: Peer,
    /// Where the connection was made to.
    pub destination: DestinationId,
    /// `None`: it has had no task yet.
    pub connection: Option<ConnectionId>,
    /// The scheme of requests that do not come by a trusted proxy.
    scheme: Scheme,
    /// Whether what is received now was sent before the TLS handshake was complete.
    pub is_early: bool,
    /// For the log.
    pub tls: Option<Rc<TlsFacts>>,
    frames: Connection,
    /// What is to be sent before anything else.
    out: Vec<u8>,
    /// Streams whose response is not complete, apart from those of the fast path.
    streams: HashMap<StreamId, Stream>,
    /// Streams that are to get a task, if they have not ended before.
    unstarted: Vec<StreamId>,
    /// Responses whose last bytes are being sent.
    finished: Vec<Outgoing>,
    /// Responses so far.
    requests: u32,
    state: State,
    /// If its window is larger than by default.
    _large_window: Option<Permit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The client opens no more streams, or the server accepts no more.
    Ending,
    /// The connection ends when all is sent.
    Failed,
}

/// A stream that waits for something.
struct Stream {
    /// What its task has not taken yet. Other streams may have their turn before it.
    start: Option<Start>,
    incoming: Incoming,
    /// `None`: the response has not begun.
    outgoing: Option<Outgoing>,
    /// Of its task, which waits until it has to make more content.
    waker: Option<Waker>,
    task: Option<TaskHandle>,
    _permit: Option<Permit>,
}

/// The task of a stream, from outside.
pub struct TaskHandle {
    abort: AbortHandle,
    /// Its deadlines.
    deadline: Rc<ConnectionState>,
    /// Why its stream has ended before its end.
    ended: Rc<Cell<Option<EndReason>>>,
}

/// Where the task of a stream begins.
pub enum Start {
    /// The request has to wait, or has a body.
    Request(Box<PendingRequest>),
    /// The response to this client has begun, and this makes its body.
    Body(Peer, Box<dyn BodyStream>),
    /// The response to this client has begun. Its content is in memory, or in a file.
    Content(Peer),
}

pub struct PendingRequest {
    fields: FieldList,
    /// Of `clock::micros`.
    began: u64,
    /// Whether it came before the end of the handshake, so that it may be repeated (RFC 8470).
    is_early: bool,
}

/// The client of a request, and when it came.
#[derive(Clone, Copy)]
struct Origin {
    client: Peer,
    destination: DestinationId,
    via: Via,
    began: u64,
}

/// The result of `Http2::answer`.
pub struct Answered {
    /// What is not used up of the input.
    pub rest: ScratchInput,
    pub output: Output,
    pub then: Then,
}

/// What the connection does when the output is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It waits for the client, or continues with the rest of the input.
    Continue,
    /// There is more to send.
    SendMore,
    /// Streams wait: it needs a task.
    Wait,
    Close,
}

/// Whether all was gathered that can be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    All,
    Full,
}

/// Whether a connection begins with the preface of HTTP/2, as far as it has come. A method `PRI` does not exist.
pub fn is_preface(input: &[u8]) -> bool {
    input.len() >= 4 && input.starts_with(&PREFACE[..input.len().min(PREFACE.len())])
}

/// What a client gets above the capacity: the settings, and that none of its requests has been read (RFC 9113 §6.8).
pub fn refusal() -> Vec<u8> {
    let mut out = Vec::new();
    Settings::default().write(&mut out);
    write_goaway(&mut out, 0, ErrorCode::NO_ERROR);
    out
}

impl Http2 {
    pub fn new(connections: &Connections, peer: Peer, scheme: Scheme) -> Http2 {
        let services = &connections.services;
        let large_window = connections.large_windows.take();
        let site = &services.site;
        let limits = &site.limits.head;
        let limits = server::Limits {
            streams: site.http2.streams,
            list: u32::try_from(limits.head).unwrap_or(u32::MAX),
            fields: u32::try_from(limits.fields).unwrap_or(u32::MAX),
            window: site.http2.window,
            connection_window: match large_window {
                Some(_) => site.http2.connection_window,
                None => DEFAULT_WINDOW,
            },
            extended_connect: match connections.responder.needs.upgrades {
                true => ExtendedConnect::Announced,
                false => ExtendedConnect::Unknown,
            },
            ..server::Limits::default()
        };
        let mut out = Vec::new();
        Http2 {
            services: services.clone(),
            peer,
            destination: DestinationId::default(),
            connection: None,
            scheme,
            is_early: false,
            tls: None,
            frames: Connection::new(&limits, &mut out),
            out,
            streams: HashMap::new(),
            unstarted: Vec::new(),
            finished: Vec::new(),
            requests: 0,
            state: State::Open,
            _large_window: large_window,
        }
    }

    /// Reads frames from the input, answers their requests, and gathers what can be sent now.
    #[inline]
    pub fn answer(&mut self, connections: &Rc<Connections>, input: ScratchInput) -> Answered {
        let now = connections.services.clock.read();
        self.frames.set_time(now as u32);
        let scratch = &mut *connections.services.scratch.borrow_mut();
        let mut gathered = Gathered::new(&connections.services, scratch.lend());
        gathered.out.append(&mut self.out);
        let mut fields = std::mem::take(&mut scratch.fields);
        let used = self.read(connections, scratch.input(input), &mut fields, &mut gathered);
        scratch.fields = fields;
        let filled = self.fill(&mut gathered.out);
        self.shut_down_if_due(connections, &mut gathered.out);
        let then = self.then(filled);
        Answered { rest: input.behind(used), output: gathered.finish(), then }
    }

    /// The output was sent, or not, for this reason.
    pub fn on_sent(&mut self, ended: Option<EndReason>) {
        for mut outgoing in self.finished.drain(..) {
            match ended {
                None => outgoing.complete(),
                Some(why) => outgoing.end_early(why),
            }
        }
    }

    /// From now on the connection has a task.
    pub fn connect(&mut self, connection: Option<ConnectionId>) {
        self.connection = connection;
        for outgoing in self.streams.values().filter_map(|stream| stream.outgoing.as_ref()) {
            self.services.access.connect(outgoing.records(), connection);
        }
    }

    /// What an idle client is told before the connection closes: which of its requests have been read (RFC 9113 §6.8).
    pub fn goodbye(&mut self) -> Vec<u8> {
        self.shut_down();
        std::mem::take(&mut self.out)
    }

    /// Gives up the memory that an idle connection does not need.
    pub fn trim(&mut self) {
        self.frames.trim();
        self.out = Vec::new();
        self.streams.shrink_to_fit();
        (self.unstarted, self.finished) = (Vec::new(), Vec::new());
    }

    /// Whether the rest of a frame is awaited.
    pub fn is_within_frame(&self) -> bool {
        self.frames.is_within_frame()
    }

    pub fn requests(&self) -> u32 {
        self.requests
    }

    pub fn incoming(&mut self, stream: StreamId) -> Option<&mut Incoming> {
        self.streams.get_mut(&stream).map(|stream| &mut stream.incoming)
    }

    /// The consumer of a request's body has taken these bytes.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize) {
        self.frames.consumed(stream, bytes as u32, &mut self.out);
    }

    /// Sends 100 (Continue).
    pub fn send_continue(&mut self, stream: StreamId) {
        self.frames.headers(stream, block::CONTINUE, false, &mut self.out);
    }

    /// Sends an interim response ahead of the response. A client that takes nothing gets no more of them.
    pub fn send_interim(&mut self, stream: StreamId, status: Status, fields: &[Field<'_>]) {
        if space(&self.out) == 0 {
            return;
        }
        let mut block = Vec::new();
        write_head(status.code(), fields.iter().map(|field| (field.name, field.value)), &mut block);
        self.frames.headers(stream, &block, false, &mut self.out);
    }

    #[inline]
    fn read(
        &mut self,
        connections: &Rc<Connections>,
        input: &[u8],
        fields: &mut FieldList,
        gathered: &mut Gathered<'_>,
    ) -> usize {
        let began = clock::micros();
        let mut used = 0;
        while used < input.len() && gathered.accepts_more() && self.state != State::Failed {
            let event = match self.frames.receive(&input[used..], fields, &mut gathered.out) {
                Ok((bytes, event)) => {
                    used += bytes;
                    event
                }
                Err(error) => {
                    connections.log_failed_http2(self.peer, error.sentence());
                    self.fail();
                    None
                }
            };
            match event {
                None => break,
                Some(Event::Request { stream, end }) => {
                    self.on_request(connections, stream, fields, began, end, gathered);
                }
                Some(Event::Rejected { stream, error, .. }) => {
                    self.reject(connections, stream, fields, self.origin(began), error, gathered);
                }
                Some(Event::Malformed { error, .. }) => {
                    log_unanswered(
                        &self.services,
                        None,
                        self.origin(began),
                        self.tls.as_ref(),
                        Status::BAD_REQUEST,
                        EndReason::MalformedHead(error),
                    );
                }
                Some(Event::Refused { .. }) => self.services.counts.add(Count::StreamsRefused, 1),
                Some(Event::WindowOpened) => {}
                Some(Event::Data { stream, data, end }) => self.on_data(stream, data, end, gathered),
                Some(Event::Trailers { stream }) => {
                    if let Some(incoming) = self.incoming(stream) {
                        let fields = fields.fields().map(|field| (field.name, field.value));
                        incoming.trailers = trailers::passed(fields, |_| false);
                    }
                    self.on_data(stream, &[], true, gathered);
                }
                Some(Event::Reset { stream, by, .. }) => {
                    let reason = match by {
                        server::Peer::Client => EndReason::StreamReset,
                        server::Peer::Server => EndReason::MalformedFrames,
                    };
                    self.end(stream, reason);
                }
                Some(Event::GoAway { .. }) => self.state = State::Ending,
            }
        }
        used
    }

    #[inline]
    fn on_request(
        &mut self,
        connections: &Rc<Connections>,
        stream: StreamId,
        fields: &FieldList,
        began: u64,
        end: bool,
        gathered: &mut Gathered<'_>,
    ) {
        let mut store = FieldStore::new();
        let mut origin = self.origin(began);
        let mut head = match fields.head(&mut store, &connections.services.site.limits.head) {
            Ok(head) => head,
            Err(error) => return self.reject(connections, stream, fields, origin, error, gathered),
        };
        (head.scheme, head.is_early) = (self.scheme, self.is_early);
        (origin.client, origin.via) = client::origin(&connections.services.site, self.peer, &mut head);
        let responder = &connections.responder;
        if end
            && !responder.may_lead_elsewhere(fields.scheme())
            && let Ok(response) = responder.fast(&head, origin.client, self.destination, began, Sending::No)
        {
            return self.respond(connections, stream, Some(&head), origin, response, gathered);
        }
        let incoming = Incoming::new(&head, end);
        if self.insert(connections, stream, incoming, &mut gathered.out) {
            let request = PendingRequest { fields: fields.clone(), began, is_early: self.is_early };
            self.start(stream, Start::Request(Box::new(request)));
        }
    }

    /// A request that the peer makes for itself, as far as is known.
    fn origin(&self, began: u64) -> Origin {
        Origin { client: self.peer, destination: self.destination, via: Via::Nothing, began }
    }

    /// Adds a stream that waits. `false`: too many do, and it is refused.
    fn insert(
        &mut self,
        connections: &Connections,
        stream: StreamId,
        incoming: Incoming,
        out: &mut Vec<u8>,
    ) -> bool {
        let permit = match self.streams.is_empty() {
            true => None,
            false => {
                let permit = connections.streams.take();
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
    fn start(&mut self, stream: StreamId, start: Start) {
        if let Some(waiting) = self.streams.get_mut(&stream) {
            waiting.start = Some(start);
            self.unstarted.push(stream);
        }
    }

    /// Rejects a request whose head breaks a rule.
    #[cold]
    fn reject(
        &mut self,
        connections: &Rc<Connections>,
        stream: StreamId,
        fields: &FieldList,
        origin: Origin,
        error: HeadError,
        gathered: &mut Gathered<'_>,
    ) {
        let method = if fields.method() == Some(b"HEAD") { Method::Head } else { Method::Unknown };
        let services = &connections.services;
        let response = exchange::error_response(services, method, error.status(), Some(error.rule()));
        self.respond(connections, stream, None, origin, response, gathered);
    }

    fn on_data(&mut self, stream: StreamId, data: &[u8], end: bool, gathered: &mut Gathered<'_>) {
        let dropped = match self.streams.get_mut(&stream) {
            Some(waiting) => {
                if let Some(task) = &waiting.task {
                    task.deadline.moved(data.len() as u64);
                }
                let dropped = waiting.incoming.receive(data);
                if end {
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

    /// Sends a response at once and as a whole, if it is in memory and the windows allow it. Otherwise the stream
    /// waits.
    #[inline]
    fn respond(
        &mut self,
        connections: &Connections,
        stream: StreamId,
        head: Option<&Head<'_>>,
        origin: Origin,
        mut response: Response,
        gathered: &mut Gathered<'_>,
    ) {
        response.settle();
        let content = &response.bytes()[response.head.head_len()..];
        let is_whole = matches!(response.body, Body::Nothing)
            && response.throttle.is_none()
            && content.len() <= self.frames.sendable(stream)
            && gathered.has_space(content.len());
        if !is_whole {
            let body = self.begin(connections, stream, head, origin, response, &mut gathered.out);
            let client = origin.client;
            return self.start(stream, body.map_or(Start::Content(client), |body| Start::Body(client, body)));
        }
        let start = gathered.out.len();
        let block = response.head.block(block::encode);
        self.frames.headers(stream, block, content.is_empty(), &mut gathered.out);
        if !content.is_empty() {
            self.frames.data(stream, content, true, &mut gathered.out);
        }
        let added = gathered.out.len() - start - content.len();
        self.record(connections, head, origin, &response, added, &mut gathered.records);
    }

    /// Begins a response that is sent in parts.
    fn begin(
        &mut self,
        connections: &Connections,
        stream: StreamId,
        head: Option<&Head<'_>>,
        origin: Origin,
        mut response: Response,
        out: &mut Vec<u8>,
    ) -> Option<Box<dyn BodyStream>> {
        let is_empty = matches!(response.body, Body::Nothing) && response.end == response.head.head_len();
        let has_place = is_empty
            || self.streams.contains_key(&stream)
            || self.insert(connections, stream, Incoming::none(), out);
        if !has_place {
            self.log_refused(connections, head, origin, &response);
            return None;
        }
        let start = out.len();
        self.frames.headers(stream, response.head.block(block::encode), is_empty, out);
        let added = out.len() - start;
        for (_, value) in response.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("priority")) {
            self.frames.set_priority(stream, value);
        }
        let mut records = Records::default();
        self.record(connections, head, origin, &response, added, &mut records);
        let mut body = take_stream(&mut response.body);
        let mut outgoing = Outgoing::new(connections.services.clone(), response, records, added as u64);
        if is_empty {
            self.streams.remove(&stream);
            self.finished.push(outgoing);
            return None;
        }
        if let Some(body) = &mut body {
            match head.is_some_and(|head| head.method == Method::Connect) {
                true => outgoing.begin_tunnel(body.take_buffered()),
                false => outgoing.begin_stream(body.take_buffered()),
            }
        }
        let is_ready = outgoing.left().0 > 0;
        if let Some(waiting) = self.streams.get_mut(&stream) {
            waiting.outgoing = Some(outgoing);
        }
        self.frames.set_ready(stream, is_ready);
        body
    }

    /// Writes the log line of a response that is not sent, as too many streams wait. The client may request it again.
    #[cold]
    fn log_refused(
        &mut self,
        connections: &Connections,
        head: Option<&Head<'_>>,
        origin: Origin,
        response: &Response,
    ) {
        let (mut records, why) = (Records::default(), EndReason::TooManyStreams);
        self.record(connections, head, origin, response, 0, &mut records);
        records.end_early(why);
        self.services.access.write(&self.services.counts, &records, 0, None, Some(why));
    }

    /// Notes the log line of a response. `added`: bytes of its head and of frame headers.
    #[inline]
    fn record(
        &mut self,
        connections: &Connections,
        head: Option<&Head<'_>>,
        origin: Origin,
        response: &Response,
        added: usize,
        records: &mut Records,
    ) {
        self.requests = self.requests.saturating_add(1);
        let services = &connections.services;
        services.counts.add_response(response.status(), head);
        let request = LoggedRequest {
            client: origin.client,
            connection: self.connection,
            head,
            host: head
                .map_or(0, |head| services.site.hosts.find_in(origin.destination.group, head.authority)),
            destination: origin.destination,
            time: services.clock.now(),
            began: origin.began,
            tls: self.tls.as_ref(),
        };
        let logged = LoggedResponse { head: added as u64, ..response.logged(0) };
        services.access.record(records, &request, logged);
        if let Some(rule) = response.broken_rule {
            records.name_rule(rule);
        }
    }

    /// Appends content of streams, in the order of their priorities, as far as it is in memory and windows allow.
    #[inline]
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        if self.streams.is_empty() {
            return Filled::All;
        }
        loop {
            let space = space(out);
            match self.frames.next_stream() {
                None => return Filled::All,
                Some(_) if space == 0 => return Filled::Full,
                Some(stream) => self.fill_from(stream, space, out),
            }
        }
    }

    fn fill_from(&mut self, stream: StreamId, limit: usize, out: &mut Vec<u8>) {
        let Some(waiting) = self.streams.get_mut(&stream) else {
            return self.frames.set_ready(stream, false);
        };
        let Some(outgoing) = &mut waiting.outgoing else { return self.frames.set_ready(stream, false) };
        if let Next::Later(_) = outgoing.next() {
            return self.wait_for_content(stream);
        }
        let (left, ends) = outgoing.left();
        let limit = limit.min(outgoing.allowed());
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let mut filled = Ok(());
        let sent = self.frames.data_from(stream, wanted, ends, out, |out, allowed| {
            filled = outgoing.fill(allowed.min(limit), out);
        });
        if let Some(task) = &waiting.task {
            task.deadline.moved(sent as u64);
        }
        if let Err(why) = filled {
            self.frames.reset(stream, ErrorCode::INTERNAL_ERROR, out);
            return self.end(stream, why);
        }
        match outgoing.next() {
            Next::Content => {}
            Next::End if ends => self.finish(stream),
            Next::End | Next::Chunk | Next::Disk | Next::Later(_) => self.wait_for_content(stream),
        }
    }

    /// The stream's task has to make more content.
    fn wait_for_content(&mut self, stream: StreamId) {
        self.frames.set_ready(stream, false);
        if let Some(waker) = self.streams.get_mut(&stream).and_then(|waiting| waiting.waker.take()) {
            waker.wake();
        }
    }

    /// The last bytes of a response are in the output.
    fn finish(&mut self, stream: StreamId) {
        let Some(waiting) = self.streams.remove(&stream) else { return };
        self.finished.extend(waiting.outgoing);
        if let Some(waker) = waiting.waker {
            waker.wake();
        }
    }

    /// Forgets a stream that ends before its end.
    fn end(&mut self, stream: StreamId, why: EndReason) {
        let Some(waiting) = self.streams.remove(&stream) else { return };
        if let Some(Start::Request(request)) = waiting.start {
            log_unstarted(&self.services, (self.peer, self.destination), &request, self.tls.as_ref(), why);
        }
        if let Some(mut outgoing) = waiting.outgoing {
            let has_left =
                matches!(why, EndReason::StreamReset | EndReason::ClientClosed | EndReason::Disconnected);
            self.services.counts.add(Count::Abandoned, u64::from(has_left && outgoing.is_awaited()));
            outgoing.end_early(why);
        }
        if let Some(task) = waiting.task {
            task.ended.set(Some(why));
            task.abort.abort();
        }
    }

    /// Forgets all streams, for the connection ends.
    fn fail(&mut self) {
        self.end_all(EndReason::MalformedFrames);
        self.state = State::Failed;
    }

    /// Ends all streams before their end.
    pub fn end_all(&mut self, why: EndReason) {
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in streams {
            self.end(stream, why);
        }
    }

    /// Sends GOAWAY behind the last request that the connection may have, or when clients wait for capacity.
    fn shut_down_if_due(&mut self, connections: &Connections, out: &mut Vec<u8>) {
        let limit = connections.services.site.limits.requests;
        let is_last = limit != 0 && self.requests >= limit;
        if self.state == State::Open && (is_last || connections.acceptor.is_at_capacity()) {
            self.state = State::Ending;
            self.frames.shut_down(out);
        }
    }

    /// What the connection does when the gathered output is sent.
    fn then(&self, filled: Filled) -> Then {
        match (self.state, self.streams.is_empty(), filled) {
            (State::Failed, ..) | (State::Ending, true, _) => Then::Close,
            _ if self.frames.is_finished() => Then::Close,
            (_, true, _) => Then::Continue,
            (_, false, Filled::Full) => Then::SendMore,
            (_, false, Filled::All) => Then::Wait,
        }
    }

    /// Announces the graceful end of the connection.
    pub fn announce_shutdown(&mut self) {
        self.frames.announce_shutdown(&mut self.out);
    }

    /// The connection ends with the streams that are open by now.
    pub fn shut_down(&mut self) {
        self.frames.shut_down(&mut self.out);
    }

    /// Whether a stream waits for more of the body of its request.
    pub fn waits_for_body(&self) -> bool {
        self.streams.values().any(|stream| stream.incoming.reader == Reader::Waiting)
    }

    /// Takes the streams that are to get a task.
    pub fn take_unstarted(&mut self) -> Vec<StreamId> {
        let mut unstarted = std::mem::take(&mut self.unstarted);
        unstarted.retain(|stream| self.streams.contains_key(stream));
        unstarted
    }

    /// A stream has a task.
    pub fn on_started(&mut self, stream: StreamId, task: TaskHandle) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.task = Some(task);
        }
    }

    /// Where the task of a stream begins, once. `None`: the stream has ended before.
    pub fn take_start(&mut self, stream: StreamId) -> Option<Start> {
        self.streams.get_mut(&stream)?.start.take()
    }

    /// Ends the streams whose tasks have panicked.
    pub fn abort_panicked(&mut self) {
        let is_over = |stream: &Stream| stream.task.as_ref().is_some_and(|task| task.abort.is_finished());
        let over = self.streams.iter().filter(|(_, stream)| is_over(stream)).map(|(id, _)| *id);
        for stream in over.collect::<Vec<_>>() {
            self.abort(stream, ErrorCode::INTERNAL_ERROR, EndReason::Panicked);
        }
    }

    /// Resets a stream.
    pub fn abort(&mut self, stream: StreamId, code: ErrorCode, why: EndReason) {
        self.frames.reset(stream, code, &mut self.out);
        self.end(stream, why);
    }

    /// Nothing reads the body of this request any more.
    pub fn abandon_body(&mut self, stream: StreamId) {
        let Some(incoming) = self.incoming(stream) else { return };
        let dropped = incoming.abandon();
        if dropped > 0 {
            self.consumed(stream, dropped);
        }
    }

    /// As `resume`, if the response has limits. `false`: it has none.
    pub fn resume_throttled(&mut self, stream: StreamId) -> bool {
        let is_throttled = self.outgoing(stream).is_some_and(|outgoing| outgoing.is_throttled());
        if is_throttled {
            self.resume(stream);
        }
        is_throttled
    }

    /// The limits of a response grant more.
    pub fn resume(&mut self, stream: StreamId) {
        self.frames.set_ready(stream, true);
    }

    /// Adds a chunk that the stream's task has made. `None`: it has made all.
    pub fn put(&mut self, stream: StreamId, chunk: Option<Vec<u8>>) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        match chunk {
            Some(chunk) => outgoing.put(chunk),
            None => outgoing.end_stream(),
        }
        self.on_content(stream);
    }

    /// The stream's task has made all, and these fields are behind it. All content before them has been sent.
    pub fn put_trailers(&mut self, stream: StreamId, trailers: &Trailers) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        outgoing.end_stream();
        let mut block = Vec::new();
        let fields = trailers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        write_fields(fields, &mut block);
        self.frames.headers(stream, &block, true, &mut self.out);
        self.finish(stream);
    }

    /// Notes why a whole response is what it is, for the log.
    pub fn note_reason(&mut self, stream: StreamId, why: EndReason) {
        if let Some(outgoing) = self.outgoing(stream) {
            outgoing.note_reason(why);
        }
    }

    /// Adds bytes of a file that the stream's task has read.
    pub fn put_from_disk(&mut self, stream: StreamId, bytes: Vec<u8>) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        outgoing.put_from_disk(bytes);
        self.on_content(stream);
    }

    fn outgoing(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        self.streams.get_mut(&stream).and_then(|stream| stream.outgoing.as_mut())
    }

    fn on_content(&mut self, stream: StreamId) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        match outgoing.left() {
            // No window is needed for an empty DATA frame.
            (0, true) => {
                self.frames.data(stream, &[], true, &mut self.out);
                self.finish(stream);
            }
            (left, _) => self.frames.set_ready(stream, left > 0),
        }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.on_sent(Some(EndReason::ClientClosed));
    }
}

/// Writes the log line of a request that got no response.
fn log_unanswered(
    services: &Services,
    head: Option<&Head<'_>>,
    origin: Origin,
    tls: Option<&Rc<TlsFacts>>,
    status: Status,
    why: EndReason,
) {
    services.counts.add_response(status, head);
    let Origin { client, destination, began, .. } = origin;
    let host = head.map_or(0, |head| services.site.hosts.find_in(destination.group, head.authority));
    let time = services.clock.now();
    let request = LoggedRequest { client, connection: None, head, host, destination, time, began, tls };
    let mut records = Records::default();
    let response = LoggedResponse {
        status,
        head: 0,
        // It has not been sent.
        length: None,
        user: None,
        upstream: None,
        endpoint: None,
        cache: None,
        trace: None,
        fields: None,
        watched: None,
    };
    services.access.record(&mut records, &request, response);
    records.end_early(why);
    services.access.write(&services.counts, &records, 0, None, Some(why));
}

/// Writes the log line of a request whose stream ended before it had a task.
fn log_unstarted(
    services: &Services,
    (peer, destination): (Peer, DestinationId),
    request: &PendingRequest,
    tls: Option<&Rc<TlsFacts>>,
    why: EndReason,
) {
    services.counts.add(Count::Abandoned, 1);
    let mut store = FieldStore::new();
    let mut head = request.fields.head(&mut store, &services.site.limits.head).ok();
    let (client, via) =
        head.as_mut().map_or((peer, Via::Nothing), |head| client::origin(&services.site, peer, head));
    let origin = Origin { client, destination, via, began: request.began };
    log_unanswered(services, head.as_ref(), origin, tls, Status::BAD_REQUEST, why);
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
