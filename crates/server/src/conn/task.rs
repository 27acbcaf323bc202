//! A connection that has to wait: for the rest of a request, for a disk, or for its client to take an
//! answer. It has a task of its own, a seat, and a deadline for whatever it waits for. As soon as it has
//! answered a request without waiting, it goes back to the lot.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::h1::{Http1, Next, Part};
use super::output::{self, Manner, Output, Sent};
use super::stream::Stream;
use super::{Call, Peer, Phase, Seated};
use crate::worker::Worker;

/// What a lingering connection may still send before it is closed all the same.
const LINGER_BYTES: usize = 1024 * 1024;

/// Where a task takes over.
pub enum Start {
    /// There is input in `rest`, or there is not enough of it.
    Input,
    /// An answer is on its way.
    Answer(Output),
    /// The last answer has been sent.
    Linger,
}

pub struct Task {
    stream: Stream,
    peer: Peer,
    worker: Rc<Worker>,
    seated: Seated,
    http: Http1,
    /// Did the request at hand have to wait for anything?
    waited: Waited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Yes,
    No,
}

/// How a connection leaves its task.
enum End {
    Close,
    /// Our last answer is sent, but the client may still be sending.
    Linger,
    /// Nothing is going on.
    Park,
}

/// Why the connection cannot go on.
enum Broken {
    /// The client closed, or the connection failed.
    Gone,
    /// A deadline passed.
    Late,
    Park,
}

impl Task {
    pub fn new(stream: Stream, peer: Peer, worker: Rc<Worker>, seated: Seated, http: Http1) -> Task {
        Task { stream, peer, worker, seated, http, waited: Waited::Yes }
    }

    /// Serves until the connection ends or goes back to the lot.
    pub async fn serve(mut self, start: Start) {
        let end = match self.run(start).await {
            Ok(end) => end,
            Err(Broken::Park) => End::Park,
            Err(Broken::Late) => self.too_late().await,
            Err(Broken::Gone) => {
                self.http.break_off(&self.worker, "client closed");
                End::Close
            }
        };
        match end {
            End::Close => {}
            End::Linger => self.linger().await,
            End::Park => self.park(),
        }
    }

    async fn run(&mut self, start: Start) -> Result<End, Broken> {
        match start {
            Start::Linger => return Ok(End::Linger),
            Start::Input => {}
            Start::Answer(output) => {
                if let Some(end) = self.write(output).await? {
                    return Ok(end);
                }
            }
        }
        loop {
            if self.http.is_idle() {
                if self.worker.is_leaving() {
                    return Ok(End::Close);
                }
                if self.waited == Waited::No {
                    return Ok(End::Park);
                }
                self.enter(Phase::Idle);
                self.waited = Waited::No;
                self.read().await?;
            }
            let have = self.restore();
            match self.http.respond(&self.worker, have) {
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
                    self.http.fetched.push(fetch.wait().await);
                }
                Next::Later(reply) => {
                    self.wait_in(Phase::Fetch);
                    self.http.made = Some(reply.await);
                }
            }
        }
    }

    /// Reads behind `rest`, which takes what came. Errors: the end of the connection, for whatever reason.
    async fn read(&mut self) -> Result<(), Broken> {
        let Task { stream, worker, seated, http, .. } = self;
        poll_fn(|cx| {
            loop {
                if let Some(call) = seated.seat.called(cx.waker()) {
                    answer_call(call, worker, seated)?;
                }
                let desk = &mut *worker.desk.borrow_mut();
                let mut buf = ReadBuf::new(desk.space_behind(&http.rest));
                match ready!(stream.poll_read(cx, &mut buf)) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return Poll::Ready(Err(Broken::Gone)),
                }
                let came = buf.filled();
                if came.is_empty() {
                    return Poll::Ready(Err(Broken::Gone));
                }
                if http.is_idle() {
                    http.began = worker.access_time();
                }
                seated.seat.moved(came.len() as u64);
                http.rest.extend_from_slice(came);
                return Poll::Ready(Ok(()));
            }
        })
        .await
    }

    /// Puts the input into the worker's buffer, which others have used meanwhile.
    fn restore(&mut self) -> usize {
        self.worker.desk.borrow_mut().space_behind(&self.http.rest);
        self.http.rest.len()
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
        self.write_on(&mut output);
        let sent = self.send(&mut output).await;
        self.enter(Phase::Idle);
        let ended = sent.as_ref().err().map(|(_, why)| *why);
        let manner = output.manner;
        self.worker.finish(output, ended);
        match (sent, manner) {
            (Err((broken, _)), _) => {
                // What the client did not take in time is not kept for it in the kernel, either.
                if matches!(broken, Broken::Late) {
                    self.stream.reset();
                }
                self.http.rest.clear();
                Err(broken)
            }
            (Ok(()), Manner::Stay | Manner::StayOld) => Ok(None),
            (Ok(()), Manner::Leave) => Ok(Some(End::Close)),
            (Ok(()), Manner::Close) => Ok(Some(End::Linger)),
        }
    }

    /// From now on it is the client that is waited for.
    fn write_on(&self, output: &mut Output) {
        self.enter(Phase::Write);
        output.mark(self.stream.unacknowledged());
    }

    async fn send(&mut self, output: &mut Output) -> Result<(), (Broken, &'static str)> {
        // One log line per request, also when this task is dropped or panics in the middle.
        let mut guard = Unfinished { worker: self.worker.clone(), output: Some(output) };
        let Some(output) = guard.output.as_deref_mut() else { return Ok(()) };
        let result = loop {
            let waited = &mut self.waited;
            match poll_fn(|cx| poll_send(cx, &self.stream, &self.worker, &self.seated, waited, output)).await
            {
                Ok(Sent::All) => break Ok(()),
                Ok(Sent::Slice) => {
                    self.waited = Waited::Yes;
                    tokio::task::yield_now().await;
                }
                Ok(Sent::Piece) => {
                    self.wait_in(Phase::Fetch);
                    if output.next_piece(&self.worker).await.is_err() {
                        break Err((Broken::Gone, "content could not be made"));
                    }
                    self.write_on(output);
                }
                Ok(Sent::Cold) => {
                    self.wait_in(Phase::Fetch);
                    if output.read_cold(&self.worker).await.is_err() {
                        break Err((Broken::Gone, "content could not be read"));
                    }
                    self.write_on(output);
                }
                Err(why) => break Err(why),
            }
        };
        guard.output = None;
        result
    }

    /// Without a word, if no request had begun; with 408, if one had.
    async fn too_late(&mut self) -> End {
        let Some(output) = self.http.time_out(&self.worker) else { return End::Close };
        match self.write(output).await {
            Ok(_) => End::Linger,
            Err(_) => End::Close,
        }
    }

    /// Closing over unread input would send a reset, which may destroy our last bytes on their way
    /// (RFC 9112 §9.6): so the client is told that there is no more, and read until it has closed.
    async fn linger(&mut self) {
        self.stream.shut_down();
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

    fn park(self) {
        let Task { stream, peer, worker, http, .. } = self;
        let family = stream.family();
        // A connection that cannot be parked is closed: it was idle.
        _ = stream
            .into_fd()
            .and_then(|fd| worker.lot.admit(fd, family, peer, http.requests, worker.clock.ticks()));
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
            let taken = output.taken(stream.unacknowledged());
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
                if ready!(stream.poll_write_ready(cx)).is_err() {
                    return Poll::Ready(Err((Broken::Gone, output::CLIENT_CLOSED)));
                }
            }
            Err(error) => return Poll::Ready(Err((Broken::Gone, output::why(&error)))),
        }
    }
}

/// Writes the log lines of an answer whose sending was dropped: by a panic, or because the server stops.
struct Unfinished<'a> {
    worker: Rc<Worker>,
    output: Option<&'a mut Output>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(output) = &self.output {
            self.worker.access.write(&output.records, output.sent(), Some("server stopped"));
        }
    }
}
