//! The transport of a connection that has a task: its stream, its input, its deadline, and the body of the present
//! request, which its consumer pulls.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use taipan_http::head::{Field, Head};
use taipan_http::response::{CONTINUE, write_interim};
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use super::h1::body::{Progress, Remaining};
use super::stream::{More, SendStream, Socket, Stream};
use super::table::TableEntry;
use super::{Event, Phase};
use crate::buffer::append;
use crate::clock::Ticks;
use crate::connection::Connections;
use crate::log::EndReason;
use crate::request::body::{BodyError, Length, ReadBody};
use crate::request::interim::SendInterim;
use crate::services::ScratchInput;
use crate::stats::Count;

/// Bytes of input that are kept while a response is being made. Then no more is read.
const READ_AHEAD: usize = 16 * 1024;
/// Full buffers of input that are dropped before a connection is closed at once.
const LAST_READS: usize = 16;
/// How long a response is still made for a client that has closed its side.
pub const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Why a task stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The client has closed its side.
    EndOfInput,
    /// The client has closed its side within the body of its request.
    IncompleteBody,
    /// The connection failed.
    Failed,
    /// A deadline passed.
    TimedOut,
    /// The connection is closed for another one.
    Evicted,
    /// An administrator ends the connection.
    Disconnected,
    Park,
}

/// Why a response ends before all of it is sent.
#[derive(Debug, Clone, Copy)]
pub struct Broken {
    pub by: Interruption,
    /// For the log.
    pub reason: EndReason,
}

impl Broken {
    pub fn failed(reason: EndReason) -> Broken {
        Broken { by: Interruption::Failed, reason }
    }
}

impl From<Interruption> for Broken {
    fn from(by: Interruption) -> Broken {
        let reason = match by {
            Interruption::EndOfInput
            | Interruption::IncompleteBody
            | Interruption::Failed
            | Interruption::Park => EndReason::ClientClosed,
            Interruption::TimedOut => EndReason::RequestTooSlow,
            Interruption::Evicted => EndReason::Evicted,
            Interruption::Disconnected => EndReason::Disconnected,
        };
        Broken { by, reason }
    }
}

pub struct Transport {
    connections: Rc<Connections>,
    pub stream: Stream,
    pub entry: TableEntry,
    /// Input that is not used up.
    pub buffered: RefCell<Vec<u8>>,
    body: RefCell<Incoming>,
    /// Interim responses that are still to be sent ahead of anything else.
    interims: RefCell<Vec<u8>>,
    /// True while the body's consumer waits for the client.
    reads_body: Cell<bool>,
    /// Why the body could not be read on.
    broken: Cell<Option<Interruption>>,
    local: OnceCell<Option<SocketAddr>>,
}

/// The body of the present request.
struct Incoming {
    length: Length,
    rest: Remaining,
    taken: u64,
    /// The fields behind it.
    trailers: Trailers,
    /// The most bytes of content that its consumer accepts.
    limit: u64,
    /// The client expects `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    is_awaited: bool,
    /// `100 Continue`, where it is still to be sent.
    interim: &'static [u8],
}

impl Incoming {
    const NONE: Incoming = Incoming {
        length: Length::None,
        rest: Remaining::Done,
        taken: 0,
        trailers: Trailers::new(),
        limit: u64::MAX,
        is_awaited: false,
        interim: b"",
    };
}

impl Transport {
    pub fn new(
        connections: Rc<Connections>,
        stream: Stream,
        entry: TableEntry,
        buffered: Vec<u8>,
    ) -> Transport {
        Transport {
            connections,
            stream,
            entry,
            buffered: RefCell::new(buffered),
            body: RefCell::new(Incoming::NONE),
            interims: RefCell::default(),
            reads_body: Cell::new(false),
            broken: Cell::new(None),
            local: OnceCell::new(),
        }
    }

    /// The server's address.
    pub fn local(&self) -> Option<SocketAddr> {
        *self.local.get_or_init(|| self.stream.local())
    }

    /// The bare socket, and since when it is idle. `None`: something else still has the transport.
    pub fn into_socket(self: Rc<Transport>) -> Option<(Socket, Ticks)> {
        let Transport { stream, entry, .. } = Rc::into_inner(self)?;
        Some((stream.into_socket(), entry.state.since()))
    }

    pub fn enter(&self, phase: Phase) {
        self.entry.state.enter(phase, self.connections.services.clock.ticks());
    }

    pub fn has_input(&self) -> bool {
        !self.buffered.borrow().is_empty() || self.stream.has_plaintext()
    }

    /// Moves the buffered input to the worker's buffer. The caller gives back what it does not use (`keep`).
    pub fn lend_buffered(&self) -> ScratchInput {
        let mut buffered = self.buffered.borrow_mut();
        let input = self.connections.services.scratch.borrow_mut().put(&buffered);
        buffered.clear();
        input
    }

    /// Buffers input that is not used yet, behind what is buffered.
    pub fn keep(&self, input: ScratchInput) {
        if !input.is_empty() {
            let scratch = &*self.connections.services.scratch.borrow();
            append(&mut self.buffered.borrow_mut(), scratch.input(input));
        }
    }

    /// The body of the request with this head comes next.
    pub fn begin_body(&self, head: &Head<'_>) {
        let rest = Remaining::of(head.framing);
        let length = match rest {
            Remaining::Done => Length::None,
            Remaining::Sized(bytes) => Length::Sized(bytes),
            Remaining::Chunked { .. } => Length::Unknown,
        };
        let is_awaited = head.expects_continue;
        // A client that has begun to send the body does not wait.
        let interim = if is_awaited && !self.has_input() { CONTINUE } else { b"" };
        self.reads_body.set(false);
        *self.body.borrow_mut() = Incoming { length, rest, is_awaited, interim, ..Incoming::NONE };
    }

    /// The present request has no body.
    pub fn begin_without_body(&self) {
        self.reads_body.set(false);
        *self.body.borrow_mut() = Incoming::NONE;
    }

    /// True when all of the body has been read.
    pub fn is_body_read(&self) -> bool {
        matches!(self.body.borrow().rest, Remaining::Done)
    }

    /// Reads the rest of the body and drops it.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.body.borrow().is_awaited {
            return Poll::Ready(());
        }
        while let Ok(Some(_)) = ready!(self.poll_content(cx, u64::MAX)) {}
        Poll::Ready(())
    }

    /// Whether the client still waits for 100 (Continue). It does not get it any more.
    pub fn withholds_continue(&self) -> bool {
        let body = &mut *self.body.borrow_mut();
        body.is_awaited && !std::mem::take(&mut body.interim).is_empty()
    }

    /// As `poll_discard`, of a body that has been read in part, within the limit of what has read it.
    pub fn poll_drop_rest(&self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.body.borrow().limit;
        while let Ok(Some(_)) = ready!(self.poll_content(cx, limit)) {}
        Poll::Ready(())
    }

    /// Waits for more input.
    pub async fn receive(&self) -> Result<(), Interruption> {
        poll_fn(|cx| {
            self.poll_events(cx)?;
            self.poll_receive(cx)
        })
        .await
    }

    /// Reads the received input, without waiting.
    pub fn receive_at_once(&self) {
        // The connection is closed in any case.
        _ = self.poll_receive(&mut Context::from_waker(Waker::noop()));
    }

    /// Sends an end and drops the received input: unread, it would reset the connection when it is closed (RFC 9112
    /// §9.6). Later input is not awaited.
    pub fn close_at_once(&self) {
        let stream = &self.stream;
        stream.shut_down();
        let scratch = &mut *self.connections.services.scratch.borrow_mut();
        for _ in 0..LAST_READS {
            if !stream.discard_at_once(scratch.space()).is_ok_and(|n| n > 0) {
                break;
            }
        }
    }

    /// Waits until the response is not wanted any more: the client has closed, or is too slow, or is evicted. Reads
    /// input meanwhile, up to a limit. A client that has closed only its side still gets a response that is soon made,
    /// if what is buffered may have the rest of its request.
    pub async fn watch(&self) -> Interruption {
        match poll_fn(|cx| self.poll_watch(cx)).await {
            Interruption::EndOfInput if self.is_body_read() || !self.buffered.borrow().is_empty() => {
                let mut timer = pin!(tokio::time::sleep(HALF_CLOSED));
                poll_fn(|cx| {
                    if let Some(broken) = self.broken.take() {
                        return Poll::Ready(broken);
                    }
                    match self.entry.state.poll_disconnected(cx.waker()) {
                        Poll::Ready(()) => Poll::Ready(Interruption::Disconnected),
                        Poll::Pending => timer.as_mut().poll(cx).map(|()| Interruption::Failed),
                    }
                })
                .await
            }
            Interruption::EndOfInput => Interruption::IncompleteBody,
            broken => broken,
        }
    }

    fn poll_watch(&self, cx: &mut Context<'_>) -> Poll<Interruption> {
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(broken);
        }
        // The consumer of the body was polled before this.
        let phase = if self.reads_body.get() { Phase::Body } else { Phase::Respond };
        if let Err(broken) = self.poll_events_in(phase, cx) {
            return Poll::Ready(broken);
        }
        while self.buffered.borrow().len() < READ_AHEAD {
            if let Err(broken) = ready!(self.poll_receive(cx)) {
                return Poll::Ready(broken);
            }
        }
        Poll::Pending
    }

    /// As `poll_events`, in this phase.
    pub fn poll_events_in(&self, phase: Phase, cx: &mut Context<'_>) -> Result<(), Interruption> {
        if self.entry.state.phase() != phase {
            self.enter(phase);
        }
        self.poll_events(cx)
    }

    /// Handles the event that the worker has notified, if there is one.
    fn poll_events(&self, cx: &mut Context<'_>) -> Result<(), Interruption> {
        let state = &self.entry.state;
        match state.take_event(cx.waker()) {
            None => Ok(()),
            // The idle set waits for the socket alone.
            Some(Event::Park) if self.stream.is_signing() => Ok(()),
            Some(Event::Park) => Err(Interruption::Park),
            Some(Event::TimeOut) => Err(Interruption::TimedOut),
            Some(Event::Evict) => Err(Interruption::Evicted),
            Some(Event::Disconnect) => Err(Interruption::Disconnected),
            Some(Event::Measure) => {
                state.measure(0, self.connections.services.clock.ticks());
                Ok(())
            }
            Some(Event::CheckRate)
                if self.connections.deadlines.of(state.phase()).is_extended_by(state.window()) =>
            {
                self.enter(state.phase());
                Ok(())
            }
            Some(Event::CheckRate) => Err(Interruption::TimedOut),
        }
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Result<(), Interruption>> {
        let input = ready!(self.poll_receive_behind(cx))?;
        self.keep(input);
        Poll::Ready(Ok(()))
    }

    /// Reads input to the worker's buffer, behind what is buffered.
    fn poll_receive_behind(&self, cx: &mut Context<'_>) -> Poll<Result<ScratchInput, Interruption>> {
        let scratch = &mut *self.connections.services.scratch.borrow_mut();
        let before = self.buffered.borrow().len();
        let space = scratch.space_behind(&self.buffered.borrow());
        let bytes = match ready!(self.stream.poll_receive(cx, space)) {
            Ok(0) => return Poll::Ready(Err(Interruption::EndOfInput)),
            Ok(bytes) => bytes,
            Err(_) => return Poll::Ready(Err(Interruption::Failed)),
        };
        self.entry.state.moved(bytes as u64);
        self.connections.services.counts.add(Count::Received, bytes as u64);
        Poll::Ready(Ok(ScratchInput::first(before + bytes).behind(before)))
    }

    /// Waits for input while none is buffered.
    pub async fn receive_first(&self) -> Result<ScratchInput, Interruption> {
        poll_fn(|cx| {
            self.poll_events(cx)?;
            self.poll_receive_behind(cx)
        })
        .await
    }

    /// The next bytes of the input, never none.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Interruption>> {
        if self.buffered.borrow().is_empty() {
            ready!(self.poll_receive(cx))?;
        }
        Poll::Ready(Ok(self.buffered.take()))
    }

    /// Sends `100 Continue` to a client that expects it.
    fn poll_continue(&self, cx: &mut Context<'_>) -> Poll<Result<(), Interruption>> {
        let interim = {
            let body = &mut *self.body.borrow_mut();
            body.is_awaited &= body.interim.is_empty();
            std::mem::take(&mut body.interim)
        };
        self.interims.borrow_mut().extend_from_slice(interim);
        loop {
            match self.send_interims() {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write_ready(cx)).map_err(|_| Interruption::Failed)?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(Interruption::Failed)),
            }
        }
    }

    /// The next bytes of the body, as `ReadBody::poll_read`.
    fn poll_content(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        let broken = |by| {
            let is_end = by == Interruption::EndOfInput;
            self.broken.set(Some(if is_end { Interruption::IncompleteBody } else { by }));
            BodyError::Broken
        };
        // Bounded by the runtime's budget, which every read uses up.
        loop {
            ready!(self.poll_continue(cx)).map_err(broken)?;
            let mut content = Vec::new();
            let progress = {
                let Incoming { rest, taken, trailers, .. } = &mut *self.body.borrow_mut();
                let mut buffered = self.buffered.borrow_mut();
                let (used, progress) = rest
                    .take(&buffered, limit, |data| content.extend_from_slice(data))
                    .map_err(BodyError::Rejected)?;
                buffered.drain(..used);
                *taken += content.len() as u64;
                if matches!(progress, Progress::Complete) && !matches!(rest, Remaining::Done) {
                    *trailers = rest.take_trailers();
                    *rest = Remaining::Done;
                }
                progress
            };
            if !content.is_empty() || matches!(progress, Progress::Complete) {
                self.reads_body.set(false);
                return Poll::Ready(Ok((!content.is_empty()).then_some(content)));
            }
            self.reads_body.set(true);
            ready!(self.poll_receive(cx)).map_err(broken)?;
        }
    }

    /// Sends the interim responses that wait. Errors: `WouldBlock` when the stream takes no more.
    pub fn send_interims(&self) -> io::Result<()> {
        let mut interims = self.interims.borrow_mut();
        while !interims.is_empty() {
            let sent = self.stream.try_send(&interims, More::Nothing)?;
            self.connections.services.counts.add(Count::Bytes, sent as u64);
            interims.drain(..sent);
        }
        Ok(())
    }
}

impl SendInterim for Transport {
    fn send_interim(&self, status: Status, fields: &[Field<'_>]) {
        // A client that takes nothing gets no more of them.
        if !self.interims.borrow().is_empty() {
            return;
        }
        write_interim(status, fields, &mut self.interims.borrow_mut());
        let sent = self.send_interims().and_then(|()| self.stream.try_flush());
        // What is left is sent with the response, which meets the same error.
        _ = sent;
    }
}

impl ReadBody for Transport {
    fn length(&self) -> Length {
        self.body.borrow().length
    }

    fn bytes_read(&self) -> u64 {
        self.body.borrow().taken
    }

    fn awaits_continue(&self) -> bool {
        self.body.borrow().is_awaited
    }

    fn take_trailers(&self) -> Trailers {
        std::mem::take(&mut self.body.borrow_mut().trailers)
    }

    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        self.body.borrow_mut().limit = limit;
        self.poll_content(cx, limit)
    }
}
