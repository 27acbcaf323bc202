//! A connection whose request a script answers: its body is handed on as the script takes it, or first
//! collected where nobody knows its length; what the client has left to send is read while the answer is
//! sent, and a client that leaves takes its script with it.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use http::reply::CONTINUE;
use http::rule::BODY_TOO_LARGE;
use http::status::Status;
use rustix::fs::{SeekFrom, fstat, major, minor, seek};
use site::application::Application;

use super::super::h1::script::{Content, Sender};
use super::super::h1::{Http1, Progress};
use super::super::output::{self, Output};
use super::super::stream::{self, More, Stream, Wire};
use super::super::{Phase, Seated};
use super::{Broken, Part, Task, Waited, answer_call, poll_receive};
use crate::disk::Work;
use crate::log;
use crate::pool::Refusal;
use crate::serve::cgi::collected::{Collected, NoRoom, Room};
use crate::serve::cgi::order::Order;
use crate::serve::cgi::{self, Call, Conversation, Feed, Input, Outcome, Repeats, Run};
use crate::stats::Count;
use crate::worker::Worker;

/// A collected body is written when there is this much of it; the next read brings it to what an answer may have
/// at most, for which there is no need yet.
const COLLECT: usize = 32 * 1024;

impl Task {
    /// Has a script run, and notes what it leads to.
    pub(super) async fn run_script(&mut self, run: Run) -> Result<(), Broken> {
        self.wait_in(Phase::Script);
        let outcome = match self.converse(&run).await? {
            Ok(outcome) => outcome,
            Err(status) => Outcome::Failed(status),
        };
        self.http.lead(&self.worker, &run, outcome);
        Ok(())
    }

    async fn converse(&mut self, run: &Run) -> Result<Result<Outcome, Status>, Broken> {
        let worker = self.worker.clone();
        // Who may pass is said of the head alone.
        let content = if run.is_authorizer() { Content::None } else { self.http.content() };
        let collected = match content {
            Content::Chunked => {
                self.invite().await?;
                match self.collect().await? {
                    Ok(collected) => Some(collected),
                    Err(status) => return Ok(Err(status)),
                }
            }
            Content::Sized(bytes) if bytes > run.max_body => {
                self.http.broken = Some(BODY_TOO_LARGE);
                return Ok(Err(Status::CONTENT_TOO_LARGE));
            }
            Content::Sized(_) | Content::None => None,
        };
        let length = match (&collected, content) {
            (Some(collected), _) => Some(collected.length),
            (None, Content::Sized(bytes)) => Some(bytes),
            (None, _) => None,
        };
        let stream = &self.stream;
        let local = *self.local.get_or_insert_with(|| stream.local());
        let order = match self.http.order(&worker, run, local, length) {
            Ok(order) => order,
            Err(status) => return Ok(Err(status)),
        };
        self.enter(Phase::Script);
        let Call::Program(program) = &order.call else {
            return self.ask(run, &order, content, collected).await;
        };
        let Some(runner) = worker.runner.clone() else { return Ok(Err(Status::SERVICE_UNAVAILABLE)) };
        let processes = run.processes(&worker);
        let Ok(turn) = self.unless_left(worker.turns.take(run.route(&worker), processes)).await? else {
            worker.counts.add(Count::ScriptsRefused, 1);
            return Ok(Err(Status::SERVICE_UNAVAILABLE));
        };
        let input = match (collected, content) {
            (Some(collected), _) => Input::File(collected),
            (None, Content::Sized(_)) => Input::Pipe,
            (None, _) => Input::Nothing,
        };
        let started = cgi::start(&worker, &runner, &order, program, input, turn).await;
        let (conversation, feed) = match started {
            Ok(started) => started,
            Err(status) => return Ok(Err(status)),
        };
        self.hear(run, &order, conversation, feed).await.map(Ok)
    }

    /// Asks an application, and another one of its servers if the first has not answered.
    async fn ask(
        &mut self,
        run: &Run,
        order: &Order,
        content: Content,
        collected: Option<Collected>,
    ) -> Result<Result<Outcome, Status>, Broken> {
        let worker = self.worker.clone();
        let found = run
            .application(&worker)
            .and_then(|id| Some((worker.site.applications.get(id)?, worker.pools.get(id)?)));
        let Some((application, pool)) = found else { return Ok(Err(Status::SERVICE_UNAVAILABLE)) };
        let collected = collected.map(Rc::new);
        let (mut failed, mut again, mut crowded) = (None, true, false);
        loop {
            let way = match self.unless_left(pool.connection(failed)).await? {
                Ok(way) => way,
                Err(refusal) => return Ok(Err(self.refused(order, application, refusal))),
            };
            let body = match (&collected, content) {
                (Some(collected), _) => cgi::Body::File(collected.clone()),
                (None, Content::Sized(_)) => cgi::Body::Coming,
                (None, _) => cgi::Body::Nothing,
            };
            let (conversation, feed) = cgi::ask(&worker, application, way, order, body);
            let is_coming = feed.is_some();
            // What has been handed on cannot be handed on again.
            let repeats = feed.is_none() && order.repeats == Repeats::Yes && again;
            let outcome = self.hear(run, order, conversation, feed).await?;
            let is_whole = !is_coming || matches!(content, Content::Sized(bytes) if bytes == self.http.left);
            let Order { who, what, .. } = order;
            match outcome {
                Outcome::Unanswered(_, unanswered) if repeats => {
                    (failed, again) = (unanswered.server, unanswered.kept);
                    // That a kept connection is closed says little. The next one is new.
                    if !unanswered.kept {
                        let why = unanswered.why;
                        log::warn(format_args!(
                            "{who}: {what} gave nothing on a new connection ({why}); asked again"
                        ));
                    }
                }
                // Nobody has looked at it: it may be made again, if all of it is still there.
                Outcome::Crowded(..) if is_whole && !crowded => crowded = true,
                Outcome::Unanswered(status, unanswered) | Outcome::Crowded(status, unanswered) => {
                    log::error(format_args!("{who}: {what} did not answer: {}", unanswered.why));
                    worker.counts.add(Count::ScriptsFailed, 1);
                    return Ok(Err(status));
                }
                outcome => return Ok(Ok(outcome)),
            }
        }
    }

    fn refused(&self, order: &Order, application: &Application, refusal: Refusal) -> Status {
        let who = &order.who;
        log::error(format_args!("{who}: {application} cannot be asked: {}", refusal.why()));
        self.worker.counts.add(Count::ScriptsRefused, 1);
        match refusal {
            Refusal::Unreachable => Status::BAD_GATEWAY,
            Refusal::Full | Refusal::Late | Refusal::Failing | Refusal::Lost => Status::SERVICE_UNAVAILABLE,
        }
    }

    /// What comes of it; the request's body is handed on meanwhile, if there is one.
    async fn hear(
        &mut self,
        run: &Run,
        order: &Order,
        conversation: Conversation,
        feed: Option<Feed>,
    ) -> Result<Outcome, Broken> {
        if feed.is_some() {
            self.feed = feed;
            self.http.pass_body();
            self.invite().await?;
        }
        self.unless_left(conversation.outcome(run, order.wanted)).await
    }

    /// Tells a client that waits for it to send its body.
    async fn invite(&mut self) -> Result<(), Broken> {
        if self.http.sender(&self.worker) == Sender::Sends {
            return Ok(());
        }
        self.enter(Phase::Write);
        let mut left = CONTINUE;
        let Task { stream, worker, seated, .. } = self;
        poll_fn(|cx| {
            while !left.is_empty() {
                if let Some(call) = seated.seat.called(cx.waker()) {
                    answer_call(call, worker, seated)?;
                }
                match stream.try_write(|fd| stream::send(fd, left, More::Nothing)) {
                    Ok(n) => left = &left[n..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        ready!(stream.poll_write_ready(cx)).map_err(|_| Broken::Gone)?;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return Poll::Ready(Err(Broken::Gone)),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        self.enter(Phase::Script);
        Ok(())
    }

    /// Collects a body whose length is not known in a file: a script is told how much it will read.
    async fn collect(&mut self) -> Result<Result<Collected, Status>, Broken> {
        let Some(runner) = self.worker.runner.clone() else { return Ok(Err(Status::LENGTH_REQUIRED)) };
        let mut file = match self.unless_left(runner.spool()).await? {
            Ok(file) => file,
            Err(error) => {
                let folder = self.worker.site.scripts.spool.display();
                log::error(format_args!("cannot make a file in {folder} for a chunked body: {error}"));
                return Ok(Err(Status::LENGTH_REQUIRED));
            }
        };
        let mut room = Room::none();
        loop {
            let mut bytes = Vec::new();
            let progress = loop {
                match self.http.take_chunks(&mut bytes) {
                    Ok(Progress::More) if bytes.len() < COLLECT => {}
                    Ok(progress) => break progress,
                    Err(status) => return Ok(Err(status)),
                }
                self.wait_for(Part::Body);
                self.read().await?;
            };
            let limit = self.worker.site.scripts.spool_bytes;
            match room.grow(bytes.len() as u64, limit) {
                Ok(()) => {}
                Err(NoRoom::TooLong) => return Ok(Err(Status::CONTENT_TOO_LARGE)),
                Err(NoRoom::Taken) => return Ok(Err(self.no_room(limit))),
            }
            file = match self.spool(file, bytes).await? {
                Ok(file) => file,
                Err(status) => return Ok(Err(status)),
            };
            if matches!(progress, Progress::Through) {
                return Ok(Ok(Collected::new(file, room)));
            }
        }
    }

    fn no_room(&self, limit: u64) -> Status {
        let folder = self.worker.site.scripts.spool.display();
        log::error(format_args!(
            "a chunked body has no room in {folder}: others take the {limit} bytes that all may take together; raise \
             `spool_bytes` in [scripts], or lower `max_body`"
        ));
        self.worker.counts.add(Count::ScriptsRefused, 1);
        Status::SERVICE_UNAVAILABLE
    }

    /// Writes on a helper thread, and goes back to the start of the file, from where a script reads.
    async fn spool(&mut self, file: OwnedFd, bytes: Vec<u8>) -> Result<Result<OwnedFd, Status>, Broken> {
        let device = fstat(&file).map_or((0, 0), |stat| (major(stat.st_dev), minor(stat.st_dev)));
        let write = move || {
            seek(&file, SeekFrom::End(0))?;
            let mut left = &bytes[..];
            while !left.is_empty() {
                let n = rustix::io::retry_on_intr(|| rustix::io::write(&file, left))?;
                left = &left[n..];
            }
            seek(&file, SeekFrom::Start(0))?;
            rustix::io::Result::Ok(file)
        };
        let worker = self.worker.clone();
        self.wait_in(Phase::Fetch);
        Ok(match self.unless_left(worker.disk.run(device, Work::File, write)).await? {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(errno)) => {
                let folder = self.worker.site.scripts.spool.display();
                log::error(format_args!("cannot write a chunked body in {folder}: {errno}"));
                Err(Status::INTERNAL_SERVER_ERROR)
            }
            Err(_) => Err(Status::SERVICE_UNAVAILABLE),
        })
    }

    /// Hands on what is left of the request's body. Errors: the client has left, or is too slow.
    pub(super) async fn hand_on(&mut self) -> Result<(), Broken> {
        while self.http.left > 0 || self.feed.is_some() {
            let Task { stream, worker, seated, http, feed, .. } = self;
            poll_fn(|cx| {
                if let Some(call) = seated.seat.called(cx.waker()) {
                    answer_call(call, worker, seated)?;
                }
                let handed = poll_hand_on(cx, stream, worker, seated, http, feed);
                // Whether it is the client or the script that is waited for.
                let phase = if http.rest.is_empty() { Phase::Body } else { Phase::Script };
                if handed.is_pending() && seated.seat.phase() != phase {
                    seated.seat.enter(phase, worker.clock.ticks());
                }
                handed
            })
            .await?;
        }
        self.feed = None;
        if self.seated.seat.phase() == Phase::Body {
            self.enter(Phase::Script);
        }
        Ok(())
    }

    /// Waits for the next piece of a script's output.
    pub(super) async fn next_of_script(
        &mut self,
        output: &mut Output,
        cut: &'static str,
    ) -> Result<(), (Broken, &'static str)> {
        self.waited = Waited::Yes;
        self.enter(Phase::Script);
        let worker = self.worker.clone();
        match self.unless_left(output.next_piece(&worker)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err((Broken::Gone, cut)),
            Err(broken) => Err((broken, output::CLIENT_CLOSED)),
        }
    }
}

/// Hands on what has come of a body, and reads more, until all of it is through. Errors: the client's end
/// of the connection.
pub(super) fn poll_hand_on(
    cx: &mut Context<'_>,
    stream: &mut Stream,
    worker: &Worker,
    seated: &Seated,
    http: &mut Http1,
    feed: &mut Option<Feed>,
) -> Poll<Result<(), Broken>> {
    // Bounded by the runtime's budget, which every wait for a descriptor uses up.
    while http.left > 0 {
        let have = usize::try_from(http.left).unwrap_or(usize::MAX).min(http.rest.len());
        if have == 0 {
            feed.iter().for_each(Feed::pause);
            ready!(poll_receive(cx, stream, worker, seated, http))?;
            feed.iter().for_each(Feed::resume);
            continue;
        }
        let taken = match feed {
            Some(way) => match ready!(way.poll_write(cx, &http.rest[..have])) {
                Ok(n) => n,
                // It does not want more of it: the rest is thrown away.
                Err(_) => {
                    *feed = None;
                    0
                }
            },
            None => have,
        };
        http.rest.drain(..taken);
        http.left -= taken as u64;
    }
    if let Some(way) = feed {
        // Whoever does not want it knows its end.
        _ = ready!(way.poll_end(cx));
    }
    *feed = None;
    Poll::Ready(Ok(()))
}
