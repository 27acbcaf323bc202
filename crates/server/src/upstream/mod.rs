//! Scripts: by CGI, one program for one request, which the spawner starts; or an application, which a pool has
//! a connection to. It is told of the request, and heard: the head that it writes becomes that of the response,
//! and what follows is its body, read only as fast as the client takes it.
//!
//! Knows nothing of the client's connection.

mod ask;
pub mod collected;
mod content;
mod course;
mod line;
pub mod order;
mod reply;
pub mod turn;

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use script::fastcgi::Ending;
use script::reply::{Limits, Parser, Step};
use site::application::{Application, ApplicationId, Protocol};
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use self::collected::Collected;
use self::course::{Course, State, Watch};
use self::line::{Came, Line, Speech};
use self::order::{Order, Program};
use self::turn::Turn;
use crate::pool;
use crate::pool::message::ServerId;
use crate::request::body::{Refused, RequestBody};
use crate::response::Response;
use crate::services::Services;
use crate::spawner::{Exit, Spawner};
use crate::stats::Count;
use crate::{log, sys};

pub use ask::{Upstreams, ask};
pub use content::Content;
use order::Wanted;
pub use order::{Run, What};
pub use reply::Sendfile;

/// How long the end of a script's output is held back until it is known how the script has ended: one
/// that is killed has not said all.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// Bytes of an answer that nobody wants, which are read so that its connection can have another request.
const UNWANTED: usize = 1024 * 1024;
/// How long its last words are waited for, when it has ended and others have its output open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where a script's standard input comes from.
pub enum Input {
    Nothing,
    /// From a body, as it comes.
    Pipe,
    /// From a file that has it already.
    File(Collected),
}

/// A script that is asked.
pub struct Conversation {
    services: Rc<Services>,
    course: Rc<Course>,
    line: Line,
    patience: Patience,
    who: Rc<str>,
    /// `the script`, or `the application "app"`.
    what: Rc<str>,
    began: Instant,
    /// What hands the request's body on, as long as any of it is to come.
    pump: RefCell<Option<Pump>>,
}

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until the server has taken the head of the request.
    connect: Duration,
    first_byte: Duration,
    idle: Duration,
    total: Duration,
}

/// The way of a request's body to what answers.
pub struct Feed {
    way: Way,
    course: Rc<Course>,
}

enum Way {
    /// To a script's standard input.
    Pipe(AsyncFd<OwnedFd>),
    Application(Rc<Speech>),
}

impl Feed {
    /// Waits until more is taken. Errors: no more is wanted.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.way {
            Way::Pipe(pipe) => pipe.poll_write_ready(cx).map_ok(|_| ()),
            Way::Application(speech) => speech.poll_ready(cx),
        }
    }

    /// Hands on as much as is taken. Errors: no more is wanted.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let pipe = match &self.way {
            Way::Pipe(pipe) => pipe,
            Way::Application(speech) => return speech.poll_write(cx, bytes),
        };
        loop {
            let mut ready = ready!(pipe.poll_write_ready(cx))?;
            match ready.try_io(|pipe| Ok(rustix::io::write(pipe, bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    /// There is no more of it.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.way {
            // Its end is the end of the pipe, which is closed with this.
            Way::Pipe(_) => Poll::Ready(Ok(())),
            Way::Application(speech) => speech.poll_end(cx),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.course.resume();
    }
}

/// Pulls a request's body, as fast as what answers takes it. Once that wants no more, the rest is thrown away.
pub struct Pump {
    body: RequestBody,
    limit: u64,
    feed: Option<Feed>,
    /// What has been read, and from where on it is still to be handed on.
    piece: Vec<u8>,
    at: usize,
}

impl Pump {
    fn new(body: RequestBody, limit: u64, feed: Feed) -> Pump {
        Pump { body, limit, feed: Some(feed), piece: Vec::new(), at: 0 }
    }

    /// Ready: all of the body has been read, or no more of it can be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Bounded by the runtime's budget, which every wait for a descriptor uses up.
        loop {
            let handed = ready!(self.poll_hand_on(cx));
            if handed.is_err() {
                self.feed = None;
                self.piece = Vec::new();
            }
            if let Some(feed) = &self.feed {
                // It is the client that is waited for.
                feed.course.pause();
            }
            let piece = ready!(self.body.poll_read(cx, self.limit));
            if let Some(feed) = &self.feed {
                feed.course.resume();
            }
            match (piece, &self.feed) {
                (Ok(Some(piece)), Some(_)) => (self.piece, self.at) = (piece, 0),
                (Ok(Some(_)), None) => {}
                (Ok(None), Some(feed)) => {
                    _ = ready!(feed.poll_end(cx));
                    return Poll::Ready(());
                }
                (Ok(None), None) | (Err(_), _) => return Poll::Ready(()),
            }
        }
    }

    /// Hands on what has been read, and waits until more is taken. Errors: no more is wanted.
    fn poll_hand_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(feed) = &self.feed else { return Poll::Ready(Ok(())) };
        while self.at < self.piece.len() {
            self.at += ready!(feed.poll_write(cx, &self.piece[self.at..]))?;
        }
        feed.poll_ready(cx)
    }
}

/// What a script's head leads to.
pub enum Outcome {
    Response(Response),
    /// As if this had been asked with GET: a path, and perhaps a query.
    Elsewhere(String),
    /// A file, with the other fields of the head.
    Sendfile(Box<reply::Sendfile>),
    /// The request may pass, as this application says, with these variables for whoever answers it.
    Allowed(ApplicationId, Vec<(String, Vec<u8>)>),
    /// It has not answered. The error log says why.
    Failed(Status),
    /// The request's body is not one that it can have.
    Refused(Refused),
    /// Not a byte of an answer has come: another server may be asked. The error log does not say so yet.
    Unanswered(Status, Unanswered),
    /// As `Unanswered`: because others are on the connection. Nobody is to be blamed for that.
    Crowded(Status, Unanswered),
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Outcome {
        Outcome::Failed(status)
    }
}

impl From<Refused> for Outcome {
    fn from(refused: Refused) -> Outcome {
        Outcome::Refused(refused)
    }
}

/// Who has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    pub server: Option<ServerId>,
    /// On a connection that had been kept.
    pub kept: bool,
    pub why: String,
}

/// Why there is no more output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It has taken too long.
    Late,
    /// It could not be read.
    Failed(io::ErrorKind),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Late => f.write_str("it has taken too long"),
            Cut::Failed(kind) => write!(f, "its output cannot be read: {kind}"),
        }
    }
}

/// Starts a script. Also the end of the pipe that its input is written to. Errors: the status to answer
/// with.
async fn start(
    services: &Rc<Services>,
    spawner: &Rc<Spawner>,
    order: &Order,
    program: &Program,
    input: Input,
    turn: Turn,
) -> Result<(Conversation, Option<Feed>), Status> {
    let failed = |error: io::Error| {
        services.counts.add(Count::ScriptsFailed, 1);
        log::error(format_args!("{}: cannot start the script: {error}", order.who));
        match error.kind() {
            io::ErrorKind::InvalidInput => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => Status::SERVICE_UNAVAILABLE,
        }
    };
    let pipes = || -> io::Result<_> {
        let (stdin, feed, room) = match input {
            Input::File(Collected { file, room, .. }) => (file.into(), None, Some(room)),
            // Whoever reads from it finds its end at once.
            Input::Nothing => (pipe_with(PipeFlags::CLOEXEC)?.0, None, None),
            Input::Pipe => {
                let (stdin, feed) = pipe_with(PipeFlags::CLOEXEC)?;
                (stdin, Some(sys::watch(unblocked(feed)?, Interest::WRITABLE)?), None)
            }
        };
        let (stdout, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, complains) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdout = sys::watch(unblocked(stdout)?, Interest::READABLE)?;
        Ok((stdin, feed, room, stdout, writes, unblocked(stderr)?, complains))
    };
    let (stdin, feed, room, stdout, writes, stderr, complains) = pipes().map_err(failed)?;
    let arguments = program.arguments();
    let launched = spawner.start(&program.launch(&arguments), stdin, writes, complains).await;
    let started = launched.map_err(failed)?;
    services.counts.add(Count::Scripts, 1);
    let who = order.who.clone();
    let course = Course::new();
    let held = (turn, room);
    let watch =
        Watch { services: services.clone(), course: course.clone(), started, stderr, who: who.clone(), held };
    tokio::task::spawn_local(watch.run());
    let began = Instant::now();
    let feed = feed.map(|pipe| Feed { way: Way::Pipe(pipe), course: course.clone() });
    let patience = Patience::of_scripts(services);
    let line = Line::Script(stdout);
    let (what, pump) = (order.what.clone(), RefCell::default());
    Ok((Conversation { services: services.clone(), course, line, patience, who, what, began, pump }, feed))
}

/// Asks an application. Also the way of the request's body, where that is still to come.
fn converse(
    services: &Rc<Services>,
    application: &Application,
    way: pool::Way,
    order: &Order,
    content: line::Content,
) -> (Conversation, Option<Feed>) {
    let is_coming = matches!(content, line::Content::Coming);
    let speech = Speech::begin(services, application, way, order, content);
    services.counts.add(Count::Asked, 1);
    let (course, began) = (Course::new(), Instant::now());
    let (who, what) = (order.who.clone(), order.what.clone());
    let feed = is_coming.then(|| Feed { way: Way::Application(speech.clone()), course: course.clone() });
    let line = Line::Application(speech);
    let patience = Patience::of(application);
    let pump = RefCell::default();
    (Conversation { services: services.clone(), course, line, patience, who, what, began, pump }, feed)
}

impl Patience {
    fn of_scripts(services: &Services) -> Patience {
        let site::model::Scripts { first_byte, idle, .. } = services.site.scripts;
        // The watch sees to the whole.
        Patience { connect: first_byte, first_byte, idle, total: Duration::MAX }
    }

    fn of(application: &Application) -> Patience {
        let Application { connect, first_byte, idle, total, .. } = *application;
        Patience { connect, first_byte, idle, total }
    }
}

/// Our end of a pipe never waits. The script's does, as programs expect.
fn unblocked(end: OwnedFd) -> io::Result<OwnedFd> {
    // It is new, and has no other flag that this could take away.
    fcntl_setfl(&end, OFlags::NONBLOCK)?;
    Ok(end)
}

impl Conversation {
    /// With the request's body, of which at most `limit` bytes are read.
    fn fed_by(self, body: &RequestBody, limit: u64, feed: Option<Feed>) -> Conversation {
        self.pump.replace(feed.map(|feed| Pump::new(body.clone(), limit, feed)));
        self
    }

    /// Hands the request's body on. Ready: nothing takes any more of it.
    fn poll_request_body(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut pump = self.pump.borrow_mut();
        if let Some(under_way) = &mut *pump {
            ready!(under_way.poll(cx));
            *pump = None;
        }
        Poll::Ready(())
    }

    /// Does not end.
    async fn hand_body_on(&self) {
        poll_fn(|cx| self.poll_request_body(cx)).await;
        std::future::pending().await
    }

    /// Hears the script's head, and makes the response of it. Dropping this ends the script.
    pub async fn outcome(self, run: &Run, wanted: Wanted) -> Outcome {
        let speaks_http = self.application().is_some_and(|speech| speech.protocol() == Protocol::Http);
        let mut parser =
            if speaks_http { Parser::http(Limits::default()) } else { Parser::new(Limits::default()) };
        loop {
            let bytes = match self.read(self.began, self.patience.first_byte).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return self.no_head(&parser.end()).await,
                Err(cut) => return self.fail_cut(cut),
            };
            match parser.receive(&bytes) {
                Step::More(more) => parser = more,
                Step::Head(head, used) => return reply::of(self, run, wanted, &head, &bytes[used..]).await,
                Step::Refused(error) => {
                    log::error(format_args!(
                        "{}: the answer of {} cannot be read: {error}",
                        self.who, self.what
                    ));
                    return self.fail(Status::BAD_GATEWAY);
                }
            }
        }
    }

    /// Some of its output, when there is some, within `patience` of `from`; `None` at the end.
    async fn read(&self, from: Instant, patience: Duration) -> Result<Option<Vec<u8>>, Cut> {
        let until = self.until(from, patience);
        // Others may have the output open when the script itself has ended.
        let last_words = match self.course.ended().filter(|_| self.application().is_none()) {
            Some(_) => (Instant::now() + LAST_WORDS).min(until),
            None => until,
        };
        let mut over = std::pin::pin!(tokio::time::sleep_until(last_words));
        loop {
            let change = self.course.change();
            if self.course.state() == State::Late {
                return Err(Cut::Late);
            }
            tokio::select! {
                biased;
                read = self.receive() => match read {
                    Ok(Came::End) => return Ok(None),
                    Ok(Came::Bytes(bytes)) => return Ok(Some(bytes)),
                    Err(error) => return Err(Cut::Failed(error.kind())),
                },
                () = self.send_all() => {}
                () = self.hand_body_on() => {}
                () = change => {
                    let last_words = (Instant::now() + LAST_WORDS).min(until);
                    over.as_mut().reset(last_words);
                }
                () = &mut over => match self.course.ended() {
                    Some(_) => return Ok(None),
                    None if self.until(from, patience) > Instant::now() => {
                        over.as_mut().reset(self.until(from, patience));
                    }
                    None => {
                        self.services.counts.add(Count::ScriptsLate, 1);
                        return Err(Cut::Late);
                    }
                },
            }
        }
    }

    /// Until when something is to have come.
    fn until(&self, from: Instant, patience: Duration) -> Instant {
        let patience = match self.application() {
            Some(speech) if !speech.is_connected() => self.patience.connect.min(patience),
            _ => patience,
        };
        let until = self.course.until(from, patience);
        self.began.checked_add(self.patience.total).map_or(until, |end| until.min(end))
    }

    /// As `read`, what is there at once. `None`: nothing.
    fn read_at_once(&self) -> Option<Came> {
        match &self.line {
            Line::Script(stdout) => {
                stdout.try_io(Interest::READABLE, |pipe| self.read_pipe(pipe)).ok().map(came)
            }
            Line::Application(speech) => speech.receive_at_once(),
        }
    }

    async fn receive(&self) -> io::Result<Came> {
        match &self.line {
            Line::Script(stdout) => {
                stdout.async_io(Interest::READABLE, |pipe| self.read_pipe(pipe)).await.map(came)
            }
            Line::Application(speech) => speech.receive().await,
        }
    }

    /// By way of the services's buffer: nothing is held by those who wait.
    fn read_pipe(&self, pipe: &OwnedFd) -> io::Result<Vec<u8>> {
        let scratch = &mut *self.services.scratch.borrow_mut();
        let space = scratch.space();
        let n = rustix::io::read(pipe, &mut *space)?;
        Ok(space[..n].to_vec())
    }

    /// What of the request is not on its way by itself; does not end.
    async fn send_all(&self) {
        match &self.line {
            Line::Script(_) => std::future::pending().await,
            Line::Application(speech) => speech.send_all().await,
        }
    }

    /// Does somebody else send what of the request is still to come?
    fn is_fed(&self) -> bool {
        self.application().is_some_and(|speech| speech.is_fed())
    }

    fn application(&self) -> Option<&Rc<Speech>> {
        match &self.line {
            Line::Script(_) => None,
            Line::Application(speech) => Some(speech),
        }
    }

    /// How the script has ended, once its output has.
    async fn end(&self) -> Option<Exit> {
        match &self.line {
            Line::Script(_) => self.course.end(END_PATIENCE).await,
            Line::Application(speech) => speech.ended(),
        }
    }

    /// It has ended, or closed its output, before its head was whole.
    async fn no_head(self, error: &script::reply::ReplyError) -> Outcome {
        if let Some(ending) = self.application().map(|speech| speech.ending())
            && ending != Ending::Complete
        {
            let status = match ending {
                Ending::Overloaded => Status::SERVICE_UNAVAILABLE,
                _ => Status::BAD_GATEWAY,
            };
            return self.unanswered(status, ending.to_string());
        }
        match self.end().await {
            Some(Exit::NotStarted(errno)) => {
                let reason = io::Error::from_raw_os_error(errno);
                log::error(format_args!("{}: cannot start the script: {reason}", self.who));
                self.fail(match errno {
                    libc::EACCES | libc::EPERM => Status::FORBIDDEN,
                    libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE => Status::SERVICE_UNAVAILABLE,
                    _ => Status::BAD_GATEWAY,
                })
            }
            ended => {
                let why = format!("{error}{}", self.told(ended));
                self.unanswered(Status::BAD_GATEWAY, why)
            }
        }
    }

    /// How a script has ended. An application has not.
    fn told(&self, ended: Option<Exit>) -> String {
        if self.application().is_some() { String::new() } else { told(ended) }
    }

    fn fail_cut(self, cut: Cut) -> Outcome {
        match cut {
            // Another might take as long.
            Cut::Late => {
                log::error(format_args!("{}: {} did not answer: {cut}", self.who, self.what));
                Outcome::Failed(Status::GATEWAY_TIMEOUT)
            }
            Cut::Failed(_) => self.unanswered(Status::BAD_GATEWAY, cut.to_string()),
        }
    }

    /// As `fail`, but where nothing has come, another server may know better.
    fn unanswered(self, status: Status, why: String) -> Outcome {
        match self.application() {
            Some(speech) if speech.is_crowded() => {
                let unanswered = Unanswered { server: speech.server(), kept: speech.was_used(), why };
                Outcome::Crowded(status, unanswered)
            }
            Some(speech) if !speech.has_answered() || speech.ending() == Ending::Overloaded => {
                let unanswered = Unanswered { server: speech.server(), kept: speech.was_used(), why };
                if !unanswered.kept {
                    speech.blame();
                }
                Outcome::Unanswered(status, unanswered)
            }
            _ => {
                log::error(format_args!("{}: {} did not answer: {why}", self.who, self.what));
                self.fail(status)
            }
        }
    }

    fn fail(self, status: Status) -> Outcome {
        self.services.counts.add(Count::ScriptsFailed, 1);
        Outcome::Failed(status)
    }

    /// Nothing more is wanted of it; it may finish what it does, and write what nobody reads.
    fn let_go(self, end: End) {
        self.pump.take();
        self.course.becomes(State::Through);
        if let (Some(speech), End::Head(stays)) = (self.application(), end)
            && speech.protocol() == Protocol::Http
        {
            return speech.finish(stays);
        }
        tokio::task::spawn_local(async move {
            let mut left = UNWANTED;
            loop {
                let change = self.course.change();
                // The watch sees to it that it does end.
                if self.course.ended().is_some() {
                    break;
                }
                let until = self.until(Instant::now(), self.patience.idle);
                tokio::select! {
                    came = self.receive() => match came {
                        Ok(Came::Bytes(bytes)) => left = left.saturating_sub(bytes.len()),
                        Ok(Came::End) | Err(_) => break,
                    },
                    () = self.send_all(), if !self.is_fed() => {}
                    () = change => {}
                    () = tokio::time::sleep_until(until), if self.application().is_some() => break,
                }
                if left == 0 && self.application().is_some() {
                    return;
                }
            }
            self.through(false);
        });
    }

    /// All its output that anybody wants has been read. `stays`: with HTTP, the connection can have another
    /// request.
    fn through(&self, stays: bool) {
        self.course.becomes(State::Through);
        if let Some(speech) = self.application() {
            speech.finish(stays);
        }
    }
}

/// Where an answer ends of which nothing more is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With its head. `true`: then the connection can have another request, with HTTP.
    Head(bool),
    Later,
}

/// Nothing is the end.
fn came(bytes: Vec<u8>) -> Came {
    if bytes.is_empty() { Came::End } else { Came::Bytes(bytes) }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Nothing changes where all has been heard.
        self.course.becomes(State::Unwanted);
        if let Some(speech) = self.application() {
            speech.abort();
        }
    }
}

/// `, exit status 3`, where that says anything.
fn told(ended: Option<Exit>) -> String {
    match ended {
        Some(Exit::Code(0)) | None => String::new(),
        Some(Exit::Code(code)) => format!(", exit status {code}"),
        Some(Exit::Signal(signal)) => format!(", ended by signal {signal}"),
        Some(Exit::OutOfMemory) => ", killed: it took more memory than `cgroup_memory`".to_owned(),
        Some(Exit::NotStarted(_)) => String::new(),
        Some(Exit::Lost) => ", and the spawner has gone".to_owned(),
    }
}

#[cfg(test)]
mod tests;
