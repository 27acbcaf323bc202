//! The task of an HTTP/2 connection, while a stream of it waits or its client does not take what is sent. It reads
//! frames, starts a task for each stream that waits, and sends what the streams have, by their priorities. When no
//! stream is open, the connection goes back to the idle set.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use site::memory;
use taipan_h2::error::ErrorCode;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::shared::Shared;
use super::stream_task::StreamTask;
use super::{Answered, Http2, TaskHandle, Then};
use crate::connection::client::Client;
use crate::connection::idle::IdleConnection;
use crate::connection::output::{Output, SendError};
use crate::connection::stream::{More, SendStream, Stream};
use crate::connection::table::{ConnectionIdentity, TableEntry};
use crate::connection::transport::HALF_CLOSED;
use crate::connection::{Connections, Event, Phase, Waited};
use crate::log::EndReason;
use crate::services::ScratchInput;
use crate::stats::Count;

/// Outputs that wait for the client. Then nothing more is read.
const OUTPUTS: usize = 2;
/// Outputs that are sent before other connections have their turn.
const OUTPUTS_PER_TURN: usize = 16;
/// Between the two GOAWAY frames of an end: what the client sends before it has read the first is still answered (RFC
/// 9113 §6.8).
const GRACE: Duration = Duration::from_millis(500);

/// Where the task of a connection begins.
pub struct Begin {
    pub http2: Http2,
    /// What is being sent.
    pub output: Option<Output>,
    /// Received bytes that are not used yet.
    pub input: Vec<u8>,
}

pub struct Http2Task {
    shared: Rc<Shared>,
    stream: Stream,
    client: Client,
    entry: TableEntry,
    /// What is being sent, in order.
    outputs: VecDeque<Output>,
    then: Then,
    /// Received bytes that are not used yet.
    input: Vec<u8>,
    /// `Some`: the client has closed its side. When nothing more is made for it.
    half_closed: Option<Pin<Box<Sleep>>>,
    /// Outputs that may still be sent in this turn.
    outputs_left: usize,
    /// All bytes sent.
    sent: u64,
    /// Bytes that the client had taken when this was last measured.
    taken: u64,
    streams: JoinSet<()>,
    /// Whether something had to wait since the connection was last idle.
    waited: Waited,
}

/// How a connection leaves its task.
enum End {
    /// The client has closed it, or it has failed.
    Closed,
    /// All is sent, GOAWAY too; but the client may still be sending.
    Linger,
    /// It is idle.
    Park,
    /// An administrator ends it.
    Disconnect,
    /// The client is too slow, or it is closed for another connection.
    Reset(Count, EndReason),
}

impl Begin {
    /// With nothing to send and nothing received.
    pub fn idle(http2: Http2) -> Begin {
        Begin { http2, output: None, input: Vec::new() }
    }
}

impl Http2Task {
    pub fn new(
        connections: Rc<Connections>,
        stream: Stream,
        client: Client,
        entry: TableEntry,
        begin: Begin,
    ) -> Http2Task {
        let Begin { mut http2, output, input } = begin;
        http2.connect(entry.state.id());
        Http2Task {
            shared: Rc::new(Shared::new(connections, http2, &stream)),
            stream,
            client,
            entry,
            outputs: output.into_iter().collect(),
            then: Then::Continue,
            input,
            half_closed: None,
            outputs_left: OUTPUTS_PER_TURN,
            sent: 0,
            taken: 0,
            streams: JoinSet::new(),
            waited: Waited::Yes,
        }
    }

    /// Serves until the connection ends or goes back to the idle set.
    pub async fn serve(mut self) {
        match self.run().await {
            End::Closed => {
                if self.outputs.is_empty() {
                    self.stream.close_session();
                }
                self.end(EndReason::ClientClosed);
            }
            End::Reset(count, why) => {
                self.shared.connections.services.counts.add(count, 1);
                self.stream.reset_when_closed();
                self.end(why);
            }
            End::Disconnect => {
                // Within a frame, nothing else can be sent.
                if self.outputs.is_empty() {
                    let goaway = self.shared.http2.borrow_mut().last_goaway();
                    _ = self.stream.try_send(&goaway, More::Nothing).and_then(|_| self.stream.try_flush());
                    self.stream.close_session();
                } else {
                    self.stream.reset_when_closed();
                }
                self.end(EndReason::Disconnected);
            }
            End::Linger => self.linger(),
            End::Park => self.park(),
        }
    }

    async fn run(&mut self) -> End {
        let connections = self.shared.connections.clone();
        tokio::select! {
            biased;
            end = poll_fn(|cx| self.poll(cx)) => return end,
            () = connections.services.mode.leaving() => {}
        }
        self.shared.http2.borrow_mut().announce_shutdown();
        tokio::select! {
            biased;
            end = poll_fn(|cx| self.poll(cx)) => return end,
            () = tokio::time::sleep(GRACE) => {}
        }
        self.shared.http2.borrow_mut().shut_down();
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.shared.set_waker(cx.waker());
        self.outputs_left = OUTPUTS_PER_TURN;
        // Bounded by what may be sent in one turn, and by the runtime's budget, which every read uses up.
        loop {
            self.reap(cx);
            if let Some(end) = self.on_event(cx) {
                return Poll::Ready(end);
            }
            let sent = match self.poll_send(cx) {
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                sent => sent.is_ready(),
            };
            if sent && self.then == Then::Close {
                return Poll::Ready(End::Linger);
            }
            match self.poll_receive(cx) {
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Ready(None) => {}
                Poll::Pending => break,
            }
        }
        let phase = self.phase();
        if phase == Phase::Idle
            && self.waited == Waited::No
            && !self.shared.connections.services.mode.is_leaving()
        {
            return Poll::Ready(End::Park);
        }
        if phase == Phase::Idle {
            self.waited = Waited::No;
        }
        if self.entry.state.phase() != phase {
            self.enter(phase);
        }
        self.poll_half_closed(phase, cx).map(|()| End::Closed)
    }

    /// Ready when the client has closed its side, and nothing of its responses was soon made. What it has not taken,
    /// and what only limits hold back, does not count.
    fn poll_half_closed(&mut self, phase: Phase, cx: &mut Context<'_>) -> Poll<()> {
        let Some(timer) = &mut self.half_closed else { return Poll::Pending };
        if phase == Phase::Write || self.shared.http2.borrow().has_content() {
            timer.as_mut().reset(Instant::now() + HALF_CLOSED);
        }
        timer.as_mut().poll(cx)
    }

    /// What the connection waits for.
    fn phase(&self) -> Phase {
        let http2 = self.shared.http2.borrow();
        match () {
            () if !self.outputs.is_empty() => Phase::Write,
            () if http2.streams.is_empty() && http2.is_within_frame() => Phase::Head,
            () if http2.streams.is_empty() && self.then == Then::Continue => Phase::Idle,
            () if http2.waits_for_body() => Phase::Body,
            () => Phase::Respond,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.entry.state.enter(phase, self.shared.connections.services.clock.ticks());
        self.taken = self.sent.saturating_sub(self.stream.unacknowledged());
    }

    /// Forgets the tasks of streams that have ended. A panic ends one stream.
    fn reap(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
            if ended.is_err_and(|error| error.is_panic()) {
                self.shared.connections.services.counts.add(Count::Panicked, 1);
                self.shared.http2.borrow_mut().abort_panicked();
            }
        }
    }

    /// Handles the event that the worker has notified, if there is one.
    fn on_event(&mut self, cx: &mut Context<'_>) -> Option<End> {
        let event = self.entry.state.take_event(cx.waker())?;
        let connections = &self.shared.connections;
        let (state, now) = (&self.entry.state, connections.services.clock.ticks());
        let phase = state.phase();
        if phase == Phase::Write {
            let taken = self.sent.saturating_sub(self.stream.unacknowledged());
            state.measure(taken.saturating_sub(self.taken), now);
            self.taken = self.taken.max(taken);
        }
        match event {
            Event::Park if !connections.services.mode.is_leaving() => Some(End::Park),
            Event::Park | Event::Measure => None,
            Event::Disconnect => Some(End::Disconnect),
            Event::Evict => Some(End::Reset(Count::EvictedSlow, EndReason::Evicted)),
            // Each stream has a deadline of its own.
            Event::CheckRate if phase == Phase::Body => {
                state.enter(phase, now);
                None
            }
            Event::CheckRate if connections.deadlines.of(phase).is_extended_by(state.window()) => {
                state.enter(phase, now);
                None
            }
            Event::CheckRate | Event::TimeOut => Some(match phase {
                Phase::Head => End::Reset(Count::TimeoutHead, EndReason::ClientTooSlow),
                _ => End::Reset(Count::TimeoutWrite, EndReason::ClientTooSlow),
            }),
        }
    }

    /// Sends all output. Ready: there is no more.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        loop {
            let Some(output) = self.outputs.front_mut() else {
                self.shared.http2.borrow_mut().on_sent(None);
                if !self.gather() {
                    self.shared.http2.borrow_mut().on_client_behind();
                    return Poll::Ready(Ok(()));
                }
                continue;
            };
            if self.outputs_left == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = output.sent();
            let result = output.send(&self.stream, self.shared.connections.services.clock.now());
            self.sent += output.sent() - before;
            match result {
                Ok(_) => {
                    self.outputs_left -= 1;
                    if let Some(timer) = &mut self.half_closed {
                        timer.as_mut().reset(Instant::now() + HALF_CLOSED);
                    }
                    if let Some(mut output) = self.outputs.pop_front() {
                        self.shared.connections.finish(&mut output, None);
                    }
                }
                Err(SendError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waited = Waited::Yes;
                    match self.stream.poll_write_ready(cx) {
                        Poll::Pending => {
                            self.shared.http2.borrow_mut().on_client_behind();
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(_)) => return Poll::Ready(Err(End::Closed)),
                    }
                }
                Err(error) => {
                    self.end_outputs(error.reason());
                    return Poll::Ready(Err(End::Closed));
                }
            }
        }
    }

    /// Gathers what can be sent now, and answers the requests in the input that is left. `false`: there is nothing.
    fn gather(&mut self) -> bool {
        if self.then == Then::Close {
            return false;
        }
        let input = self.shared.connections.services.scratch.borrow_mut().put(&self.input);
        let rest = self.answer(input);
        self.input.drain(..input.len() - rest.len());
        !self.outputs.is_empty() || !self.input.is_empty()
    }

    /// Answers requests in the input. Returns what is not used up of it.
    fn answer(&mut self, input: ScratchInput) -> ScratchInput {
        let connections = &self.shared.connections;
        let mut http2 = self.shared.http2.borrow_mut();
        http2.tls = self.stream.tls_state();
        let Answered { rest, mut output, then } = http2.answer(connections, input);
        drop(http2);
        self.then = then;
        match output.is_empty() {
            true => connections.finish(&mut output, None),
            false => self.outputs.push_back(output),
        }
        self.start_streams();
        rest
    }

    fn start_streams(&mut self) {
        let connections = &self.shared.connections;
        let now = connections.services.clock.ticks();
        let unstarted = self.shared.http2.borrow_mut().take_unstarted();
        for stream in unstarted {
            self.waited = Waited::Yes;
            let identity = ConnectionIdentity { id: None, peer: self.client.peer().into() };
            let entry = connections.stream_table.insert(identity, Phase::Respond, now);
            let deadline = entry.state.clone();
            let failure = Cell::new(ErrorCode::INTERNAL_ERROR);
            let (shared, ended) = (self.shared.clone(), Rc::<Cell<_>>::default());
            let task = StreamTask { shared, stream, entry, failure, ended: ended.clone() }.serve();
            debug_assert!(size_of_val(&task) as u64 <= memory::TASK);
            let abort = self.streams.spawn_local(task);
            self.shared.http2.borrow_mut().on_started(stream, TaskHandle { abort, deadline, ended });
        }
    }

    /// Reads and answers, unless the client does not take what is sent. Ready: something was read, or the connection
    /// ends.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<End>> {
        let takes_more = self.outputs.len() < OUTPUTS && self.input.is_empty() && self.then != Then::Close;
        if !takes_more || self.half_closed.is_some() {
            return Poll::Pending;
        }
        let received = {
            let scratch = &mut *self.shared.connections.services.scratch.borrow_mut();
            ready!(self.stream.poll_receive(cx, scratch.space_behind(&[])))
        };
        let bytes = match received {
            Ok(0) => return Poll::Ready(self.on_end_of_input()),
            Ok(bytes) => bytes,
            Err(_) => return Poll::Ready(Some(End::Closed)),
        };
        self.entry.state.moved(bytes as u64);
        self.shared.connections.services.counts.add(Count::Received, bytes as u64);
        let mut input = ScratchInput::first(bytes);
        while !input.is_empty() && self.outputs.len() < OUTPUTS && self.then != Then::Close {
            input = self.answer(input);
        }
        self.input = self.shared.connections.services.scratch.borrow().input(input).to_vec();
        Poll::Ready(None)
    }

    /// The client has closed its side. It still gets the responses to the requests that it has sent as a whole.
    fn on_end_of_input(&mut self) -> Option<End> {
        let mut http2 = self.shared.http2.borrow_mut();
        http2.on_end_of_input();
        if http2.streams.is_empty() && self.outputs.is_empty() {
            return Some(End::Closed);
        }
        self.half_closed = Some(Box::pin(tokio::time::sleep(HALF_CLOSED)));
        None
    }

    /// Writes the log lines of everything that is not sent.
    fn end_outputs(&mut self, why: EndReason) {
        for mut output in self.outputs.drain(..) {
            self.shared.connections.finish(&mut output, Some(why));
        }
        self.shared.http2.borrow_mut().on_sent(Some(why));
    }

    /// Ends all streams with the connection.
    fn end(mut self, why: EndReason) {
        self.end_outputs(why);
        self.shared.http2.borrow_mut().end_all(why);
    }

    /// Closing with unread input would send a reset, which may destroy GOAWAY (RFC 9112 §9.6).
    fn linger(mut self) {
        self.end_outputs(EndReason::ClientClosed);
        let Http2Task { stream, client, shared, .. } = self;
        shared.connections.linger(stream.into_socket(), client);
    }

    fn park(self) {
        let Http2Task { stream, client, shared, streams, entry, .. } = self;
        drop(streams);
        let since = entry.state.since();
        let connections = shared.connections.clone();
        if let Some(mut http2) = Shared::into_http2(shared) {
            http2.trim();
            connections.keep(IdleConnection::of_http2(stream.into_socket(), client, Box::new(http2), since));
        }
    }
}
