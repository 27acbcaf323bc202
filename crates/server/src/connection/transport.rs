//! The transport of a connection that has a task: its stream, what has come and is not used up, its deadline,
//! and the body of the request at hand, which its consumer pulls.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use taipan_http::head::Head;
use taipan_http::response::CONTINUE;

use super::h1::body::{Progress, Rest};
use super::stream::{More, SendStream, Socket, Stream};
use super::table::TableEntry;
use super::{Event, Phase};
use crate::buffer::append;
use crate::clock::Ticks;
use crate::connection::Connections;
use crate::request::body::{BodyError, Length, ReadBody};

/// Bytes that may be unread while a response is being made, or waits; then no more is read.
const READ_AHEAD: usize = 16 * 1024;
/// Full buffers of input that are thrown away before a connection is closed at once.
const LAST_READS: usize = 16;
/// How long a client that has closed its side is taken to wait for a response that has to be made.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Why the connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The client has closed its side.
    Ended,
    /// The connection failed.
    Gone,
    /// A deadline passed.
    Late,
    /// Another connection needs the place.
    Evicted,
    Park,
}

pub struct Transport {
    connections: Rc<Connections>,
    pub stream: RefCell<Stream>,
    pub entry: TableEntry,
    /// What has come and is not used up.
    pub buffered: RefCell<Vec<u8>>,
    body: RefCell<Incoming>,
    /// Is it the client that the body's consumer waits for?
    reads_body: Cell<bool>,
    /// What has kept the body from being read on.
    broken: Cell<Option<Broken>>,
    local: OnceCell<Option<SocketAddr>>,
}

/// The body of the request at hand.
struct Incoming {
    length: Length,
    rest: Rest,
    taken: u64,
    /// Does the client send it only when it is asked for, unless it has begun all the same?
    is_awaited: bool,
    /// What is still to be sent of `100 Continue` before any of it comes.
    interim: &'static [u8],
}

impl Incoming {
    const NONE: Incoming =
        Incoming { length: Length::None, rest: Rest::Done, taken: 0, is_awaited: false, interim: b"" };
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
            stream: RefCell::new(stream),
            entry,
            buffered: RefCell::new(buffered),
            body: RefCell::new(Incoming::NONE),
            reads_body: Cell::new(false),
            broken: Cell::new(None),
            local: OnceCell::new(),
        }
    }

    /// The server's end.
    pub fn local(&self) -> Option<SocketAddr> {
        *self.local.get_or_init(|| self.stream.borrow().local())
    }

    /// The bare socket, and since when it is idle. `None`: the stream has none, or something else still has the transport.
    pub fn into_socket(self: Rc<Transport>) -> Option<(Socket, Ticks)> {
        let Transport { stream, entry, .. } = Rc::into_inner(self)?;
        Some((stream.into_inner().into_socket()?, entry.state.since()))
    }

    pub fn enter(&self, phase: Phase) {
        self.entry.state.enter(phase, self.connections.services.clock.ticks());
    }

    pub fn has_input(&self) -> bool {
        !self.buffered.borrow().is_empty()
    }

    /// The head of the next request, which has `bytes` bytes.
    pub fn take(&self, bytes: usize) -> Rc<[u8]> {
        self.buffered.borrow_mut().drain(..bytes).collect()
    }

    /// Behind `head` comes its body.
    pub fn begin_body(&self, head: &Head<'_>) {
        let rest = Rest::of(head.framing);
        let length = match rest {
            Rest::Done => Length::None,
            Rest::Sized(bytes) => Length::Sized(bytes),
            Rest::Chunked { .. } => Length::Unknown,
        };
        let is_awaited = head.expects_continue;
        // A client that has begun to send does not wait.
        let interim = if is_awaited && !self.has_input() { CONTINUE } else { b"" };
        self.reads_body.set(false);
        *self.body.borrow_mut() = Incoming { length, rest, taken: 0, is_awaited, interim };
    }

    /// Has all of the body come?
    pub fn is_body_read(&self) -> bool {
        matches!(self.body.borrow().rest, Rest::Done)
    }

    /// Throws away what comes of the body, which nothing wants any more.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.body.borrow().is_awaited {
            return Poll::Ready(());
        }
        while let Ok(Some(_)) = ready!(self.poll_read(cx, u64::MAX)) {}
        Poll::Ready(())
    }

    /// Reads what comes, behind what is there.
    pub async fn receive(&self) -> Result<(), Broken> {
        poll_fn(|cx| {
            self.poll_events(cx)?;
            self.poll_receive(cx)
        })
        .await
    }

    /// Reads what there is, without waiting.
    pub fn receive_at_once(&self) {
        // Whatever it is that cannot be read, the answer is the same.
        _ = self.poll_receive(&mut Context::from_waker(Waker::noop()));
    }

    /// What has come and is not read would have the connection reset when it is closed (RFC 9112 §9.6). What comes
    /// later is not waited for.
    pub fn close_at_once(&self) {
        let stream = self.stream.borrow();
        stream.shut_down();
        let scratch = &mut *self.connections.services.scratch.borrow_mut();
        for _ in 0..LAST_READS {
            if !stream.receive_at_once(scratch.space()).is_ok_and(|n| n > 0) {
                break;
            }
        }
    }

    /// Waits until the response at hand is not wanted any more: the client has left, or is too slow. Reads
    /// ahead meanwhile, as far as there is room. A client that has only closed its side may still be waiting
    /// for the response, but not for long.
    pub async fn watch(&self) -> Broken {
        match poll_fn(|cx| self.poll_watch(cx)).await {
            Broken::Ended if self.is_body_read() => {
                tokio::time::sleep(HALF_CLOSED).await;
                Broken::Gone
            }
            broken => broken,
        }
    }

    fn poll_watch(&self, cx: &mut Context<'_>) -> Poll<Broken> {
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(broken);
        }
        // The consumer of the body has been asked before this.
        let phase = if self.reads_body.get() { Phase::Body } else { Phase::Respond };
        if self.entry.state.phase() != phase {
            self.enter(phase);
        }
        if let Err(broken) = self.poll_events(cx) {
            return Poll::Ready(broken);
        }
        while self.buffered.borrow().len() < READ_AHEAD {
            if let Err(broken) = ready!(self.poll_receive(cx)) {
                return Poll::Ready(broken);
            }
        }
        Poll::Pending
    }

    /// What the worker asks for, done if this phase can do it.
    fn poll_events(&self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let state = &self.entry.state;
        match state.take_event(cx.waker()) {
            None => Ok(()),
            Some(Event::Park) => Err(Broken::Park),
            Some(Event::TimeOut) => Err(Broken::Late),
            Some(Event::Evict) => Err(Broken::Evicted),
            Some(Event::Measure) => {
                state.measure(0, self.connections.services.clock.ticks());
                Ok(())
            }
            Some(Event::CheckRate) if self.connections.deadlines.is_enough(state.phase(), state.window()) => {
                self.enter(state.phase());
                Ok(())
            }
            Some(Event::CheckRate) => Err(Broken::Late),
        }
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let mut buffered = self.buffered.borrow_mut();
        let scratch = &mut *self.connections.services.scratch.borrow_mut();
        let space = scratch.space_behind(&buffered);
        let came = match ready!(self.stream.borrow_mut().poll_receive(cx, space)) {
            Ok(0) => return Poll::Ready(Err(Broken::Ended)),
            Ok(n) => &space[..n],
            Err(_) => return Poll::Ready(Err(Broken::Gone)),
        };
        self.entry.state.moved(came.len() as u64);
        append(&mut buffered, came);
        Poll::Ready(Ok(()))
    }

    /// Tells a client that waits for it to send its body.
    fn poll_invite(&self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let mut body = self.body.borrow_mut();
        let stream = self.stream.borrow();
        while !body.interim.is_empty() {
            match stream.try_send(body.interim, More::Nothing) {
                Ok(n) => body.interim = &body.interim[n..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    ready!(stream.poll_write_ready(cx)).map_err(|_| Broken::Gone)?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(Broken::Gone)),
            }
        }
        Poll::Ready(Ok(()))
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

    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        let broken = |broken| {
            self.broken.set(Some(broken));
            BodyError::Broken
        };
        // Bounded by the runtime's budget, which every wait for a descriptor uses up.
        loop {
            ready!(self.poll_invite(cx)).map_err(broken)?;
            let mut content = Vec::new();
            let progress = {
                let Incoming { rest, taken, .. } = &mut *self.body.borrow_mut();
                let mut buffered = self.buffered.borrow_mut();
                let (used, progress) = rest
                    .take(&buffered, limit, |data| content.extend_from_slice(data))
                    .map_err(BodyError::Rejected)?;
                buffered.drain(..used);
                *taken += content.len() as u64;
                if matches!(progress, Progress::Through) {
                    *rest = Rest::Done;
                }
                progress
            };
            if !content.is_empty() || matches!(progress, Progress::Through) {
                self.reads_body.set(false);
                return Poll::Ready(Ok((!content.is_empty()).then_some(content)));
            }
            self.reads_body.set(true);
            ready!(self.poll_receive(cx)).map_err(broken)?;
        }
    }
}
