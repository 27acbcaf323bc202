//! A connection that has to wait: for the rest of a request, for what its response needs, or for its client to
//! take that. It has a task of its own, a state, and a deadline for whatever it waits for. As soon as it has
//! answered a request without waiting, it goes back to the idle set.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::head::{FieldStore, escape_target, parse};
use taipan_http::status::Status;

use super::client::Client;
use super::h1::{Answered, Http1, Next};
use super::idle;
use super::log_guard::LogGuard;
use super::output::{self, Output, Persistence, SLICES_PER_TURN, Sent};
use super::stream::Stream;
use super::table::TableEntry;
use super::transport::{Broken, Transport};
use super::{Event, Phase};
use crate::connection::Connections;
use crate::request::ConnectionInfo;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::semaphore::Permit;
use crate::stats::Count;

/// What a lingering connection may still send before it is closed all the same.
const LINGER_BYTES: usize = 1024 * 1024;

/// Where a task takes over.
pub enum Start {
    /// There may be more in `rest`.
    Input,
    /// What the idle set could not do without waiting.
    Next(Next),
    /// The last answer has been sent.
    Linger,
    /// There is no room: one request is read, and refused with this.
    Reject(Permit, Response),
}

/// Why a request ends whose connection had to make room, for the log.
const EVICTED: &str = "too slow while others waited";

pub struct Task {
    transport: Rc<Transport>,
    client: Client,
    connections: Rc<Connections>,
    http: Http1,
    /// Did the request at hand have to wait for anything?
    waited: Waited,
    /// Held to the end, where there is no room for the connection.
    place: Option<Permit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Yes,
    No,
}

/// How a connection leaves its task.
enum End {
    Close,
    /// Our last answer is sent, and the client will send no more.
    Leave,
    /// Our last answer is sent, but the client may still be sending.
    Linger,
    /// Nothing is going on.
    Park,
}

impl Task {
    /// Of a connection of which `input` has come and is not used up.
    pub fn new(
        stream: Stream,
        client: Client,
        connections: Rc<Connections>,
        entry: TableEntry,
        http: Http1,
        input: Vec<u8>,
    ) -> Task {
        let transport = Rc::new(Transport::new(connections.clone(), stream, entry, input));
        Task { transport, client, connections, http, waited: Waited::Yes, place: None }
    }

    /// Serves until the connection ends or goes back to the idle set.
    pub async fn serve(mut self, start: Start) {
        let serving = Serving(&mut self);
        let task = &mut *serving.0;
        let end = match task.run(start).await {
            Ok(end) => end,
            Err(Broken::Park) => End::Park,
            Err(Broken::Late) => task.too_late().await,
            Err(Broken::Evicted) => task.evicted().await,
            Err(Broken::Ended | Broken::Gone) => {
                task.break_off(Status::BAD_REQUEST, output::CLIENT_CLOSED);
                End::Close
            }
        };
        std::mem::forget(serving);
        match end {
            End::Close => {}
            End::Leave => self.drain(),
            End::Linger => {
                self.linger().await;
                self.drain();
            }
            End::Park => self.park(),
        }
    }

    async fn run(&mut self, start: Start) -> Result<End, Broken> {
        let mut begun = match start {
            Start::Linger => {
                // What came behind the last request comes too late.
                self.transport.buffered.borrow_mut().clear();
                return Ok(End::Linger);
            }
            Start::Reject(place, response) => {
                self.place = Some(place);
                return self.refuse(&response).await;
            }
            Start::Input => None,
            Start::Next(next) => Some(next),
        };
        loop {
            let next = match begun.take() {
                Some(next) => next,
                None => {
                    if !self.transport.has_input() {
                        if self.waited == Waited::No || self.connections.is_leaving() {
                            return Ok(End::Park);
                        }
                        self.transport.enter(Phase::Idle);
                        self.waited = Waited::No;
                        self.transport.receive().await?;
                        self.http.began = self.connections.services.access_time();
                    }
                    self.answer()
                }
            };
            let output = match next {
                Next::Read => {
                    self.wait_for_head();
                    self.transport.receive().await?;
                    continue;
                }
                Next::Send(output) => output,
                Next::Respond(head) => self.respond(head).await?,
            };
            if let Some(end) = self.write(output).await? {
                return Ok(end);
            }
        }
    }

    /// Looks at the input, in the worker's buffer, which others have used meanwhile.
    fn answer(&mut self) -> Next {
        // Should an answer panic, the requests in it have had theirs.
        let mut buffered = self.transport.buffered.take();
        self.connections.services.scratch.borrow_mut().space_behind(&buffered);
        let Answered { used, next } = self.http.answer(&self.connections, buffered.len());
        buffered.drain(..used);
        self.transport.buffered.replace(buffered);
        next
    }

    /// Answers the request whose head is the next `bytes` bytes.
    async fn respond(&mut self, bytes: usize) -> Result<Output, Broken> {
        self.waited = Waited::Yes;
        let bytes = self.transport.take(bytes);
        let bytes = escape_target(&bytes).map_or(bytes, |(escaped, _)| escaped.into());
        self.http.current = Some(bytes.clone());
        let mut store = Box::new(FieldStore::new());
        let Ok(Some((mut head, _))) = parse(&bytes, &mut store, &self.connections.services.site.limits.head)
        else {
            return Err(Broken::Gone);
        };
        self.transport.begin_body(&head);
        self.http.find_client(&self.connections, &mut head);
        let connection =
            ConnectionInfo { client: self.http.client, via: self.http.via, local: self.transport.local() };
        let body = RequestBody::Stream(self.transport.clone());
        let request = Request { head: &head, connection };
        let response = Box::pin(self.connections.responder.respond(request, body));
        let response = self.unless_broken(response).await?;
        self.http.current = None;
        Ok(self.http.output(&self.connections, &head, response, self.transport.is_body_read()))
    }

    /// Waits for what is being made, unless the client leaves: then nothing wants it any more.
    async fn unless_broken<T>(&self, made: impl Future<Output = T>) -> Result<T, Broken> {
        // One piece of code for whatever is waited for: what waits can do without the speed.
        let watch: Pin<Box<dyn Future<Output = Broken>>> = Box::pin(self.transport.watch());
        tokio::select! {
            biased;
            made = made => Ok(made),
            broken = watch => {
                let has_left = matches!(broken, Broken::Ended | Broken::Gone);
                self.connections.services.counts.add(Count::Left, u64::from(has_left));
                Err(broken)
            }
        }
    }

    /// More of a head is waited for.
    fn wait_for_head(&mut self) {
        self.waited = Waited::Yes;
        if self.transport.entry.state.phase() != Phase::Head {
            self.transport.enter(Phase::Head);
        }
    }

    /// Sends all of it and writes its log lines. `Some`: it was the last.
    async fn write(&mut self, mut output: Output) -> Result<Option<End>, Broken> {
        output.gather();
        self.write_on(&mut output);
        let ends_with_connection = output.ends_with_connection();
        if ends_with_connection {
            self.transport.stream.borrow().reset_when_closed();
        }
        let sent = self.send(&mut output).await;
        if ends_with_connection && sent.is_ok() {
            self.transport.stream.borrow().close_normally();
        }
        if sent.is_ok() {
            self.transport.enter(Phase::Idle);
        }
        let ended = sent.as_ref().err().map(|(_, why)| *why);
        let persistence = output.persistence;
        self.connections.finish(output, ended);
        match (sent, persistence) {
            (Err((broken, _)), _) => {
                self.transport.buffered.take();
                // What the client did not take in time is not kept for it in the kernel, either.
                if matches!(broken, Broken::Late | Broken::Evicted) {
                    self.transport.stream.borrow().reset_when_closed();
                }
                Err(broken)
            }
            (Ok(()), Persistence::KeepAlive | Persistence::KeepAliveHttp10) => Ok(None),
            (Ok(()), Persistence::Close) => Ok(Some(End::Leave)),
            (Ok(()), Persistence::LingeringClose) => Ok(Some(End::Linger)),
        }
    }

    /// From now on it is the client that is waited for.
    fn write_on(&self, output: &mut Output) {
        self.transport.enter(Phase::Write);
        output.unmark();
    }

    async fn send(&mut self, output: &mut Output) -> Result<(), (Broken, &'static str)> {
        // One log line per request, also when this task is dropped or panics in the middle.
        let connections = self.connections.clone();
        let mut output = LogGuard::new(&connections.services, output);
        let mut slices = 0;
        let result = loop {
            match self.send_some(&mut output).await {
                Ok(Sent::All) => break Ok(()),
                Ok(Sent::Slice) => {
                    self.waited = Waited::Yes;
                    slices += 1;
                    if slices % SLICES_PER_TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Sent::Piece) => {
                    if let Err(why) = self.wait_for_content(output.next_piece(&connections.services)).await {
                        break Err(why);
                    }
                    self.write_on(&mut output);
                }
                Ok(Sent::Cold) => {
                    if let Err(why) = self.wait_for_content(output.read_cold(&connections.services)).await {
                        break Err(why);
                    }
                    self.write_on(&mut output);
                }
                Err(why) => break Err(why),
            }
        };
        output.arrive();
        result
    }

    async fn wait_for_content(
        &mut self,
        content: impl Future<Output = Result<(), &'static str>>,
    ) -> Result<(), (Broken, &'static str)> {
        self.waited = Waited::Yes;
        match self.unless_broken(pin!(content)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err((Broken::Gone, why)),
            Err(Broken::Evicted) => Err((Broken::Evicted, EVICTED)),
            Err(broken) => Err((broken, output::CLIENT_CLOSED)),
        }
    }

    /// Sends what the socket takes. The request's body goes on meanwhile, if there is any of it left: a
    /// client may read only when it has sent all.
    async fn send_some(&mut self, output: &mut Output) -> Result<Sent, (Broken, &'static str)> {
        let Task { transport, connections, waited, .. } = self;
        poll_fn(|cx| {
            // Whatever is the matter with the body, the response is sent as far as the client takes it.
            if !transport.is_body_read() && output.poll_request_body(cx).is_ready() {
                _ = transport.poll_discard(cx);
            }
            poll_send(cx, transport, connections, waited, output)
        })
        .await
    }

    /// Reads one request, however far it gets in the time of lingering, and answers that there is no room. Where
    /// others are to be refused, it is answered as it is, and does not linger.
    async fn refuse(&mut self, response: &Response) -> Result<End, Broken> {
        loop {
            match self.transport.receive().await {
                Ok(()) => {}
                Err(Broken::Late) if !self.transport.has_input() => return Ok(End::Close),
                Err(Broken::Late | Broken::Evicted) => {
                    // It may have come by now, all of it.
                    self.transport.receive_at_once();
                    let input = self.transport.buffered.take();
                    let output = self.http.refuse_next(&self.connections, &input, response);
                    let output = output
                        .unwrap_or_else(|| self.http.refuse_unread(&self.connections, &input, response));
                    self.write(output).await?;
                    self.transport.close_at_once();
                    return Ok(End::Close);
                }
                Err(broken) => return Err(broken),
            }
            let input = self.transport.buffered.take();
            match self.http.refuse_next(&self.connections, &input, response) {
                Some(output) => {
                    self.write(output).await?;
                    self.linger_in(Phase::Rejected).await;
                    return Ok(End::Close);
                }
                None => _ = self.transport.buffered.replace(input),
            }
        }
    }

    /// Others need the place of this connection, which has been too slow: with 408 where a request had begun, and
    /// an answer is cut off.
    async fn evicted(&mut self) -> End {
        if self.place.is_some() {
            return End::Close;
        }
        self.connections.services.counts.add(Count::EvictedSlow, 1);
        let input = self.transport.buffered.take();
        let output = self.http.time_out(&self.connections, &input, Status::REQUEST_TIMEOUT, EVICTED);
        if let Some(output) = output
            && self.write(output).await.is_ok()
        {
            self.transport.close_at_once();
        }
        End::Close
    }

    /// Without a word, if no request had begun; with 408, if it is the client that was too slow.
    async fn too_late(&mut self) -> End {
        let (count, why) = match self.transport.entry.state.phase() {
            Phase::Head => (Count::LateHead, "request too slow"),
            Phase::Body => (Count::LateBody, "request too slow"),
            Phase::Write => (Count::LateWrite, "client too slow"),
            Phase::Respond | Phase::Idle | Phase::Linger | Phase::Rejected => {
                (Count::LateIdle, "request too slow")
            }
        };
        self.connections.services.counts.add(count, 1);
        let input = self.transport.buffered.take();
        let output = self.http.time_out(&self.connections, &input, Status::REQUEST_TIMEOUT, why);
        let Some(output) = output else { return End::Close };
        match self.write(output).await {
            Ok(_) => End::Linger,
            Err(_) => End::Close,
        }
    }

    /// Writes the log line of a request that has begun and will not be answered.
    fn break_off(&mut self, status: Status, why: &str) {
        let input = self.transport.buffered.take();
        self.http.break_off(&self.connections, &input, status, why);
    }

    /// Closing over unread input would send a reset, which may destroy our last bytes on their way
    /// (RFC 9112 §9.6): so the client is told that there is no more, and read until it has closed.
    async fn linger(&mut self) {
        self.connections
            .acceptor
            .lingering
            .add(&self.transport.entry.state, self.connections.services.site.limits.connections);
        self.linger_in(Phase::Linger).await;
    }

    async fn linger_in(&mut self, phase: Phase) {
        self.transport.stream.borrow().shut_down();
        if let Err(Broken::Evicted) = self.read_out(phase).await {
            self.connections.services.counts.add(Count::Evicted, u64::from(self.place.is_none()));
            self.transport.close_at_once();
        }
    }

    /// Reads what is not wanted, until the client closes. What is left of a body has a limit, and a least rate.
    async fn read_out(&mut self, phase: Phase) -> Result<(), Broken> {
        if !self.transport.is_body_read() {
            let discard = poll_fn(|cx| self.transport.poll_discard(cx));
            self.unless_broken(pin!(discard)).await?;
        }
        self.transport.buffered.take();
        self.transport.enter(phase);
        let mut left = LINGER_BYTES;
        while left > 0 {
            self.transport.receive().await?;
            left = left.saturating_sub(self.transport.buffered.take().len());
        }
        Ok(())
    }

    /// Closes, unless the client has yet to take much: that needs no task.
    fn drain(self) {
        let Task { transport, client, connections, .. } = self;
        if transport.stream.borrow().unacknowledged() > idle::KEPT
            && let Some((socket, _)) = transport.into_socket()
        {
            connections.drain(socket, client);
        }
    }

    fn park(self) {
        let Task { transport, client, connections, http, .. } = self;
        // A connection that cannot be parked is closed: it was idle.
        if let Some((socket, since)) = transport.into_socket() {
            connections.keep(socket, client, http.requests, since);
        }
    }
}

/// Sends what the socket takes now; waits, with a deadline, when it takes nothing.
fn poll_send(
    cx: &mut Context<'_>,
    transport: &Transport,
    connections: &Connections,
    waited: &mut Waited,
    output: &mut Output,
) -> Poll<Result<Sent, (Broken, &'static str)>> {
    let state = &transport.entry.state;
    let stream = &*transport.stream.borrow();
    loop {
        if let Some(event) = state.take_event(cx.waker()) {
            let now = connections.services.clock.ticks();
            // A client that sends its body is not idle, either: that is counted already.
            state.measure(output.taken(stream.unacknowledged()), now);
            match event {
                Event::Measure | Event::Park => {}
                Event::Evict => return Poll::Ready(Err((Broken::Evicted, EVICTED))),
                Event::CheckRate if connections.deadlines.is_enough(Phase::Write, state.window()) => {
                    state.enter(Phase::Write, now);
                }
                Event::CheckRate | Event::TimeOut => {
                    return Poll::Ready(Err((Broken::Late, "client too slow")));
                }
            }
        }
        match output.send(stream, connections.services.clock.read()) {
            Ok(sent) => return Poll::Ready(Ok(sent)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *waited = Waited::Yes;
                output.mark_once(|| stream.unacknowledged());
                if ready!(stream.poll_write_ready(cx)).is_err() {
                    return Poll::Ready(Err((Broken::Gone, output::CLIENT_CLOSED)));
                }
            }
            Err(error) => return Poll::Ready(Err((Broken::Gone, output::why(&error)))),
        }
    }
}

/// A request under way; dropped only by a panic, or because the server stops. Then it writes the log line.
struct Serving<'a>(&'a mut Task);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.break_off(Status::INTERNAL_SERVER_ERROR, output::why_dropped());
    }
}
