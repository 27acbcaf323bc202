//! A connection that has to wait: for the rest of a request, for a disk, or for its client to take an
//! answer. It has a task of its own, a seat, and a deadline for whatever it waits for. As soon as it has
//! answered a request without waiting, it goes back to the lot.

mod script;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::status::Status;

use super::client::Client;
use super::h1::{Http1, Made, Next, Part};
use super::lot;
use super::output::{self, Manner, Output, Sent, WaitsFor};
use super::stream::Stream;
use super::way::OnItsWay;
use super::{Call, Phase, Seated};
use crate::buffer::append;
use crate::exchange::Trust;
use crate::places::Place;
use crate::serve::cgi::Feed;
use crate::stats::Count;
use crate::worker::Worker;

/// What a lingering connection may still send before it is closed all the same.
const LINGER_BYTES: usize = 1024 * 1024;

/// Bytes that may be unread while an answer is being made, or waits; then no more is read.
const READ_AHEAD: usize = 16 * 1024;
/// How long a client that has closed its side is taken to wait for an answer that has to be made.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Where a task takes over.
pub enum Start {
    /// There may be more in `rest`.
    Input,
    /// What the lot could not do without waiting.
    Next(Next),
    /// The last answer has been sent.
    Linger,
    /// There is no room: one request is read, and refused.
    Refusal(Place),
}

pub struct Task {
    stream: Stream,
    client: Client,
    worker: Rc<Worker>,
    seated: Seated,
    http: Http1,
    /// Did the request at hand have to wait for anything?
    waited: Waited,
    /// Held to the end, where there is no room for the connection.
    place: Option<Place>,
    /// Where the body at hand goes to: the input of a script that still takes it.
    feed: Option<Feed>,
    /// Our end of the connection, once somebody has asked.
    local: Option<Option<SocketAddr>>,
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

/// Why the connection cannot go on.
enum Broken {
    /// The client has closed its side.
    Ended,
    /// The connection failed.
    Gone,
    /// A deadline passed.
    Late,
    Park,
}

impl Task {
    pub fn new(stream: Stream, client: Client, worker: Rc<Worker>, seated: Seated, http: Http1) -> Task {
        Task {
            stream,
            client,
            worker,
            seated,
            http,
            waited: Waited::Yes,
            place: None,
            feed: None,
            local: None,
        }
    }

    /// Serves until the connection ends or goes back to the lot.
    pub async fn serve(mut self, start: Start) {
        let serving = Serving(&mut self);
        let task = &mut *serving.0;
        let end = match task.run(start).await {
            Ok(end) => end,
            Err(Broken::Park) => End::Park,
            Err(Broken::Late) => task.too_late().await,
            Err(Broken::Ended | Broken::Gone) => {
                task.http.break_off(&task.worker, Status::BAD_REQUEST, output::CLIENT_CLOSED);
                End::Close
            }
        };
        drop(serving);
        match end {
            End::Close => {}
            End::Leave => self.see_out(),
            End::Linger => {
                self.linger().await;
                self.see_out();
            }
            End::Park => self.park(),
        }
    }

    async fn run(&mut self, start: Start) -> Result<End, Broken> {
        let mut begun = match start {
            Start::Linger => {
                // What came behind the last request comes too late.
                self.http.rest.clear();
                return Ok(End::Linger);
            }
            Start::Refusal(place) => {
                self.place = Some(place);
                return self.refuse().await;
            }
            Start::Input => None,
            Start::Next(next) => Some(next),
        };
        loop {
            let next = match begun.take() {
                Some(next) => next,
                None if self.http.is_idle() => {
                    if self.waited == Waited::No || self.worker.is_leaving() {
                        return Ok(End::Park);
                    }
                    self.enter(Phase::Idle);
                    self.waited = Waited::No;
                    self.read().await?;
                    self.respond()
                }
                None => self.respond(),
            };
            match next {
                Next::Read(part) => {
                    self.wait_for(part);
                    self.read().await?;
                }
                Next::Send(output) => {
                    if let Some(end) = self.write(output).await? {
                        return Ok(end);
                    }
                }
                Next::Fetch(fetch) => {
                    self.wait_in(Phase::Fetch);
                    let fetched = self.unless_left(fetch.wait()).await?;
                    self.http.known.fetched.push(fetched);
                }
                Next::Later(reply) => {
                    self.wait_in(Phase::Fetch);
                    let reply = self.unless_left(reply).await?;
                    self.http.made = Some(Made::Reply(reply, Trust::Kept));
                }
                Next::Run(run) => self.run_script(*run).await?,
            }
        }
    }

    /// Waits for what is being made, unless the client leaves: then nobody wants it any more.
    async fn unless_left<T>(&mut self, made: impl Future<Output = T>) -> Result<T, Broken> {
        // One piece of code for whatever is waited for: what waits can do without the speed.
        let leaving: Pin<Box<dyn Future<Output = Broken>>> = Box::pin(self.leaving());
        tokio::select! {
            biased;
            made = made => Ok(made),
            broken = leaving => {
                self.worker.counts.add(Count::Left, u64::from(!matches!(broken, Broken::Late)));
                Err(broken)
            }
        }
    }

    /// Reads on, as far as there is room, until the client leaves. One that has only closed its side may
    /// still be waiting for the answer, but not for long.
    async fn leaving(&mut self) -> Broken {
        if let Err(broken) = self.hand_on().await {
            return broken;
        }
        loop {
            if self.http.unread() >= READ_AHEAD {
                return self.called_off().await;
            }
            match self.read().await {
                Ok(()) => {}
                Err(Broken::Ended) => {
                    tokio::time::sleep(HALF_CLOSED).await;
                    return Broken::Gone;
                }
                Err(broken) => return broken,
            }
        }
    }

    /// Waits until the worker ends the connection. Nothing is read.
    async fn called_off(&mut self) -> Broken {
        let Task { worker, seated, .. } = self;
        let called = poll_fn(|cx| match seated.seat.called(cx.waker()) {
            Some(call) => answer_call(call, worker, seated).map_or_else(Poll::Ready, |()| Poll::Pending),
            None => Poll::Pending,
        });
        called.await
    }

    /// Reads behind `rest`, which takes what came. Errors: the end of the connection, for whatever reason.
    async fn read(&mut self) -> Result<(), Broken> {
        let Task { stream, worker, seated, http, .. } = self;
        poll_fn(|cx| {
            if let Some(call) = seated.seat.called(cx.waker()) {
                answer_call(call, worker, seated)?;
            }
            poll_receive(cx, stream, worker, seated, http)
        })
        .await
    }

    /// Looks at the input, in the worker's buffer, which others have used meanwhile.
    fn respond(&mut self) -> Next {
        self.worker.desk.borrow_mut().space_behind(&self.http.rest);
        self.http.respond(&self.worker, self.http.rest.len())
    }

    fn wait_for(&mut self, part: Part) {
        self.waited = Waited::Yes;
        let phase = match part {
            // A request is under way, or this would not be asked.
            Part::All | Part::Head => Phase::Head,
            Part::Body => Phase::Body,
        };
        if self.seated.seat.phase() != phase {
            self.enter(phase);
        }
    }

    fn wait_in(&mut self, phase: Phase) {
        self.waited = Waited::Yes;
        self.enter(phase);
    }

    fn enter(&self, phase: Phase) {
        self.seated.seat.enter(phase, self.worker.clock.ticks());
    }

    /// Sends all of it and writes its log lines. `Some`: it was the last.
    async fn write(&mut self, mut output: Output) -> Result<Option<End>, Broken> {
        output.gather();
        self.write_on(&mut output);
        self.http.set_aside();
        let ends_with_connection = output.ends_with_connection();
        if ends_with_connection {
            self.stream.reset();
        }
        let sent = self.send(&mut output).await;
        if ends_with_connection && sent.is_ok() {
            self.stream.end_well();
        }
        if sent.is_ok() {
            self.enter(Phase::Idle);
        }
        let ended = sent.as_ref().err().map(|(_, why)| *why);
        let manner = output.manner;
        self.worker.finish(output, ended);
        if manner.closes() || sent.is_err() {
            self.http.forget_behind();
        }
        match (sent, manner) {
            (Err((broken, _)), _) => {
                // What the client did not take in time is not kept for it in the kernel, either.
                if matches!(broken, Broken::Late) {
                    self.stream.reset();
                }
                Err(broken)
            }
            (Ok(()), Manner::Stay | Manner::StayOld) => {
                self.http.take_up();
                Ok(None)
            }
            (Ok(()), Manner::Leave) => Ok(Some(End::Leave)),
            (Ok(()), Manner::Close) => Ok(Some(End::Linger)),
        }
    }

    /// From now on it is the client that is waited for.
    fn write_on(&self, output: &mut Output) {
        self.enter(Phase::Write);
        output.unmark();
    }

    async fn send(&mut self, output: &mut Output) -> Result<(), (Broken, &'static str)> {
        // One log line per request, also when this task is dropped or panics in the middle.
        let worker = self.worker.clone();
        let mut output = OnItsWay::new(&worker, output);
        let result = loop {
            match self.send_some(&mut output).await {
                Ok(Sent::All) => break Ok(()),
                Ok(Sent::Slice) => {
                    self.waited = Waited::Yes;
                    tokio::task::yield_now().await;
                }
                Ok(Sent::Piece) => match output.waits_for() {
                    WaitsFor::Script(cut) => {
                        if let Err(why) = self.next_of_script(&mut output, cut).await {
                            break Err(why);
                        }
                        self.write_on(&mut output);
                    }
                    WaitsFor::Disk => {
                        self.wait_in(Phase::Fetch);
                        match self.unless_left(output.next_piece(&worker)).await {
                            Ok(Ok(())) => self.write_on(&mut output),
                            Ok(Err(_)) => break Err((Broken::Gone, "content could not be made")),
                            Err(broken) => break Err(why_given_up(broken)),
                        }
                    }
                },
                Ok(Sent::Cold) => {
                    self.wait_in(Phase::Fetch);
                    match self.unless_left(output.read_cold(&worker)).await {
                        Ok(Ok(())) => self.write_on(&mut output),
                        Ok(Err(_)) => break Err((Broken::Gone, output::UNREADABLE)),
                        Err(broken) => break Err(why_given_up(broken)),
                    }
                }
                Err(why) => break Err(why),
            }
        };
        output.arrive();
        result
    }

    /// Sends what the socket takes, and hands the request's body on meanwhile, if there is any of it left:
    /// a client may read only when it has sent all.
    async fn send_some(&mut self, output: &mut Output) -> Result<Sent, (Broken, &'static str)> {
        let Task { stream, worker, seated, http, waited, feed, .. } = self;
        poll_fn(|cx| {
            // Whatever is the matter with the body, the answer is sent as far as the client takes it.
            if (http.left > 0 || feed.is_some())
                && script::poll_hand_on(cx, stream, worker, seated, http, feed).is_ready()
            {
                *feed = None;
            }
            poll_send(cx, stream, worker, seated, waited, output)
        })
        .await
    }

    /// Reads one request, however far it gets in the time of lingering, and answers that there is no room.
    async fn refuse(&mut self) -> Result<End, Broken> {
        self.enter(Phase::Linger);
        loop {
            self.read().await?;
            match self.respond() {
                Next::Read(_) => {}
                Next::Send(output) => return Ok(self.write(output).await?.unwrap_or(End::Close)),
                Next::Fetch(_) | Next::Later(_) | Next::Run(_) => return Ok(End::Close),
            }
        }
    }

    /// Without a word, if no request had begun; with 408, if it is the client that was too slow.
    async fn too_late(&mut self) -> End {
        let (count, status, why) = match self.seated.seat.phase() {
            Phase::Head => (Count::LateHead, Status::REQUEST_TIMEOUT, "request too slow"),
            Phase::Body => (Count::LateBody, Status::REQUEST_TIMEOUT, "request too slow"),
            Phase::Fetch => (Count::LateDisk, Status::SERVICE_UNAVAILABLE, "the disk is too slow"),
            Phase::Script => (Count::ScriptsLate, Status::GATEWAY_TIMEOUT, "the script is too slow"),
            Phase::Write => (Count::LateWrite, Status::REQUEST_TIMEOUT, "client too slow"),
            Phase::Idle | Phase::Linger => (Count::LateIdle, Status::REQUEST_TIMEOUT, "request too slow"),
        };
        self.worker.counts.add(count, 1);
        let Some(output) = self.http.time_out(&self.worker, status, why) else { return End::Close };
        match self.write(output).await {
            Ok(_) => End::Linger,
            Err(_) => End::Close,
        }
    }

    /// Closing over unread input would send a reset, which may destroy our last bytes on their way
    /// (RFC 9112 §9.6): so the client is told that there is no more, and read until it has closed.
    async fn linger(&mut self) {
        self.stream.shut_down();
        // What is left of a body has a limit, and a least rate.
        self.feed = None;
        if self.hand_on().await.is_err() {
            return;
        }
        self.http.rest.clear();
        self.enter(Phase::Linger);
        let mut left = LINGER_BYTES;
        while self.read().await.is_ok() {
            left = left.saturating_sub(self.http.rest.len());
            self.http.rest.clear();
            if left == 0 {
                return;
            }
        }
    }

    /// Closes, unless the client has yet to take much: that needs no task.
    fn see_out(self) {
        let Task { stream, client, worker, .. } = self;
        let family = stream.family();
        if stream.unacknowledged() > lot::KEPT
            && let Ok(fd) = stream.into_fd()
        {
            worker.see_out(fd, family, client);
        }
    }

    fn park(self) {
        let Task { stream, client, worker, http, seated, .. } = self;
        let family = stream.family();
        // A connection that cannot be parked is closed: it was idle.
        if let Ok(fd) = stream.into_fd() {
            worker.rest(fd, family, client, http.requests, seated.seat.since());
        }
    }
}

/// Why an answer ends whose content was still being made.
fn why_given_up(broken: Broken) -> (Broken, &'static str) {
    match broken {
        Broken::Late => (broken, "the disk is too slow"),
        Broken::Ended | Broken::Gone | Broken::Park => (broken, output::CLIENT_CLOSED),
    }
}

/// What the worker asks for, done if this phase can do it.
fn answer_call(call: Call, worker: &Worker, seated: &Seated) -> Result<(), Broken> {
    let seat = &seated.seat;
    match call {
        Call::Park => Err(Broken::Park),
        Call::Late => Err(Broken::Late),
        Call::Weigh if worker.deadlines.is_enough(seat.phase(), seat.window()) => {
            seat.enter(seat.phase(), worker.clock.ticks());
            Ok(())
        }
        Call::Weigh => Err(Broken::Late),
    }
}

/// Reads behind `rest`, which takes what came.
fn poll_receive(
    cx: &mut Context<'_>,
    stream: &mut Stream,
    worker: &Worker,
    seated: &Seated,
    http: &mut Http1,
) -> Poll<Result<(), Broken>> {
    let desk = &mut *worker.desk.borrow_mut();
    let space = desk.space_behind(&http.rest);
    let most = space.len().saturating_sub(http.unread() - http.rest.len());
    let space = &mut space[..most];
    let came = match ready!(stream.poll_receive(cx, space)) {
        Ok(0) => return Poll::Ready(Err(Broken::Ended)),
        Ok(n) => &space[..n],
        Err(_) => return Poll::Ready(Err(Broken::Gone)),
    };
    if http.is_idle() {
        http.began = worker.access_time();
    }
    seated.seat.moved(came.len() as u64);
    append(&mut http.rest, came);
    Poll::Ready(Ok(()))
}

/// Sends what the socket takes now; waits, with a deadline, when it takes nothing.
fn poll_send(
    cx: &mut Context<'_>,
    stream: &Stream,
    worker: &Worker,
    seated: &Seated,
    waited: &mut Waited,
    output: &mut Output,
) -> Poll<Result<Sent, (Broken, &'static str)>> {
    let seat = &seated.seat;
    loop {
        if let Some(call) = seat.called(cx.waker())
            && call != Call::Park
        {
            // A client that sends its body is not idle, either.
            let taken = output.taken(stream.unacknowledged()) + seat.window();
            if call == Call::Late || !worker.deadlines.is_enough(Phase::Write, taken) {
                return Poll::Ready(Err((Broken::Late, "client too slow")));
            }
            seat.enter(Phase::Write, worker.clock.ticks());
        }
        match output.send(stream, worker.clock.read()) {
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

/// Writes the log line of a request that is dropped before it was answered: by a panic, or because the server
/// stops.
struct Serving<'a>(&'a mut Task);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let Task { http, worker, .. } = &mut *self.0;
        http.break_off(worker, Status::INTERNAL_SERVER_ERROR, output::why_dropped());
    }
}
