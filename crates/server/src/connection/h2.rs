//! HTTP/2 without a socket (RFC 9113): it makes requests of frames, responds from the fast path at once, and keeps what
//! the other streams have received and have yet to send.
//!
//! Knows nothing of TLS, and of tasks only how to wake and end them.

mod receiving;
mod responding;
mod sending;
mod streams;

mod block;
mod gathered;
mod incoming;
mod log_lines;
mod outgoing;
mod shared;
mod stream_body;
mod stream_task;
pub mod task;
mod tunnel_stream;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use site::disconnect::ConnectionId;
use taipan_h2::error::ErrorCode;
use taipan_h2::fields::{ExtendedConnect, FieldList};
use taipan_h2::frame::{DEFAULT_WINDOW, PREFACE, Settings, write_goaway};
use taipan_h2::server::{self, Connection, StreamId};
use taipan_http::target::Scheme;
use tokio::task::AbortHandle;

use super::output::Output;
use super::table::ConnectionState;
use crate::connection::Connections;
use crate::connection::client::Client;
use crate::destination::DestinationId;
use crate::log::EndReason;
use crate::peer::Peer;
use crate::response::BodyStream;
use crate::semaphore::Permit;
use crate::services::{ScratchInput, Services};
use crate::stats::Count;
use crate::tls_facts::TlsState;
use gathered::Gathered;
use incoming::Incoming;
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
    /// Of the present input.
    pub tls: TlsState,
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
    /// Where its task begins. `None`: the task has begun.
    start: Option<Start>,
    incoming: Incoming,
    /// `None`: the response has not begun.
    outgoing: Option<Outgoing>,
    /// Wakes its task when that has to make more content.
    waker: Option<Waker>,
    task: Option<TaskHandle>,
    _permit: Option<Permit>,
}

/// The task of a stream, from outside.
pub struct TaskHandle {
    abort: AbortHandle,
    /// Its phase and deadline.
    deadline: Rc<ConnectionState>,
    /// Why its stream has ended before its end.
    ended: Rc<Cell<Option<EndReason>>>,
}

/// Where the task of a stream begins.
pub enum Start {
    /// The request has to wait, or has a body.
    Request(Box<PendingRequest>),
    /// The response to this client has begun, and this makes its body. `None`: its content is in memory, or in a file.
    Response(Peer, Option<Box<dyn BodyStream>>),
}

pub struct PendingRequest {
    fields: FieldList,
    /// By `clock::micros`.
    began: u64,
    /// Whether it came before the end of the handshake, so that it may be repeated (RFC 8470).
    is_early: bool,
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
    pub fn new(connections: &Connections, client: &Client, scheme: Scheme) -> Http2 {
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
            peer: client.peer(),
            destination: client.destination(),
            connection: None,
            scheme,
            tls: TlsState::default(),
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
    pub fn answer(&mut self, connections: &Connections, input: ScratchInput) -> Answered {
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

    /// The GOAWAY that says which requests have been read (RFC 9113 §6.8), before an idle connection closes.
    pub fn last_goaway(&mut self) -> Vec<u8> {
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

    /// Forgets a stream that ends before its end.
    fn end(&mut self, stream: StreamId, why: EndReason) {
        let Some(waiting) = self.streams.remove(&stream) else { return };
        if let Some(Start::Request(request)) = waiting.start {
            self.log_unstarted(&request, why);
        }
        if let Some(mut outgoing) = waiting.outgoing {
            let has_left =
                matches!(why, EndReason::StreamReset | EndReason::ClientClosed | EndReason::Disconnected);
            self.services.counts.add(Count::Abandoned, u64::from(has_left && outgoing.is_awaited()));
            // A client may end its side of a tunnel behind the other one in any way.
            match has_left && outgoing.next() == Next::End {
                true => outgoing.complete(),
                false => outgoing.end_early(why),
            }
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

    /// Whether the connection has had as many requests as it may have, and its client is to be told so.
    fn has_last_request(&self) -> bool {
        let limit = self.services.site.limits.requests;
        limit != 0 && self.requests >= limit && self.state == State::Open
    }

    /// Sends GOAWAY behind the last request that the connection may have, or when clients wait for capacity.
    fn shut_down_if_due(&mut self, connections: &Connections, out: &mut Vec<u8>) {
        let is_due = self.has_last_request() || connections.acceptor.is_at_capacity();
        if self.state == State::Open && is_due {
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
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.on_sent(Some(EndReason::ClientClosed));
    }
}
