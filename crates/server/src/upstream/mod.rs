//! Scripts: by CGI, one program for one request, which the spawner starts; or an application, which a pool has
//! a connection to. It is told of the request, and heard: the head that it writes becomes that of the response,
//! and what follows is its body, read only as fast as the client takes it.
//!
//! Knows nothing of the client's connection.

mod body;
pub mod concurrency;
mod forward;
mod head;
mod lifecycle;
pub mod request;
mod response;
pub mod spool;
mod transport;

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
use script::fastcgi::ProtocolStatus;
use site::upstream::{Protocol, Upstream, UpstreamId};
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use self::concurrency::ScriptPermit;
use self::head::{HeadParser, Step};
use self::lifecycle::{Lifecycle, Monitor, State};
use self::request::{Program, UpstreamRequest};
use self::spool::SpooledBody;
use self::transport::{ApplicationExchange, BodySource, Received, Transport};
use crate::pool;
use crate::pool::message::EndpointId;
use crate::request::body::{Refused, RequestBody};
use crate::response::Response;
use crate::services::Services;
use crate::spawner::{Exit, Spawner};
use crate::stats::Count;
use crate::{log, sys};

pub use body::UpstreamBody;
pub use forward::{Upstreams, forward};
use request::Wanted;
pub use request::{Handler, HandlerKind};
pub use response::Sendfile;

/// How long the end of a script's output is held back until it is known how the script has ended: one
/// that is killed has not said all.
const END_TIMEOUT: Duration = Duration::from_millis(100);
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
    File(SpooledBody),
}

/// A script that is asked.
pub struct UpstreamExchange {
    services: Rc<Services>,
    lifecycle: Rc<Lifecycle>,
    transport: Transport,
    timeouts: Timeouts,
    who: Rc<str>,
    /// `the script`, or `the application "app"`.
    what: Rc<str>,
    began: Instant,
    /// What hands the request's body on, as long as any of it is to come.
    pump: RefCell<Option<Pump>>,
}

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Until the server has taken the head of the request.
    connect: Duration,
    first_byte: Duration,
    idle: Duration,
    total: Duration,
}

/// The way of a request's body to what answers.
pub struct RequestBodyWriter {
    way: Way,
    lifecycle: Rc<Lifecycle>,
}

enum Way {
    /// To a script's standard input.
    Pipe(AsyncFd<OwnedFd>),
    Application(Rc<ApplicationExchange>),
}

impl RequestBodyWriter {
    /// Waits until more is taken. Errors: no more is wanted.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.way {
            Way::Pipe(pipe) => pipe.poll_write_ready(cx).map_ok(|_| ()),
            Way::Application(exchange) => exchange.poll_ready(cx),
        }
    }

    /// Hands on as much as is taken. Errors: no more is wanted.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let pipe = match &self.way {
            Way::Pipe(pipe) => pipe,
            Way::Application(exchange) => return exchange.poll_write(cx, bytes),
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
            Way::Application(exchange) => exchange.poll_end(cx),
        }
    }
}

impl Drop for RequestBodyWriter {
    fn drop(&mut self) {
        self.lifecycle.resume();
    }
}

/// Pulls a request's body, as fast as what answers takes it. Once that wants no more, the rest is thrown away.
pub struct Pump {
    body: RequestBody,
    limit: u64,
    writer: Option<RequestBodyWriter>,
    /// What has been read, and from where on it is still to be handed on.
    piece: Vec<u8>,
    at: usize,
}

impl Pump {
    fn new(body: RequestBody, limit: u64, writer: RequestBodyWriter) -> Pump {
        Pump { body, limit, writer: Some(writer), piece: Vec::new(), at: 0 }
    }

    /// Ready: all of the body has been read, or no more of it can be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Bounded by the runtime's budget, which every wait for a descriptor uses up.
        loop {
            let handed = ready!(self.poll_hand_on(cx));
            if handed.is_err() {
                self.writer = None;
                self.piece = Vec::new();
            }
            if let Some(writer) = &self.writer {
                // It is the client that is waited for.
                writer.lifecycle.pause();
            }
            let piece = ready!(self.body.poll_read(cx, self.limit));
            if let Some(writer) = &self.writer {
                writer.lifecycle.resume();
            }
            match (piece, &self.writer) {
                (Ok(Some(piece)), Some(_)) => (self.piece, self.at) = (piece, 0),
                (Ok(Some(_)), None) => {}
                (Ok(None), Some(writer)) => {
                    _ = ready!(writer.poll_end(cx));
                    return Poll::Ready(());
                }
                (Ok(None), None) | (Err(_), _) => return Poll::Ready(()),
            }
        }
    }

    /// Hands on what has been read, and waits until more is taken. Errors: no more is wanted.
    fn poll_hand_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &self.writer else { return Poll::Ready(Ok(())) };
        while self.at < self.piece.len() {
            self.at += ready!(writer.poll_write(cx, &self.piece[self.at..]))?;
        }
        writer.poll_ready(cx)
    }
}

/// What a script's head leads to.
pub enum Outcome {
    Response(Response),
    /// As if this had been asked with GET: a path, and perhaps a query.
    InternalRedirect(String),
    /// A file, with the other fields of the head.
    Sendfile(Box<response::Sendfile>),
    /// The request may pass, as this application says, with these variables for whoever answers it.
    Authorized(UpstreamId, Vec<(String, Vec<u8>)>),
    /// It has not answered. The error log says why.
    Failed(Status),
    /// The request's body is not one that it can have.
    Refused(Refused),
    /// Not a byte of an answer has come: another server may be asked. The error log does not say so yet.
    NoResponse(Status, NoResponse),
    /// As `NoResponse`: because others are on the connection. Nobody is to be blamed for that.
    CannotMultiplex(Status, NoResponse),
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
pub struct NoResponse {
    pub endpoint: Option<EndpointId>,
    /// On a connection that had been kept.
    pub kept: bool,
    pub why: String,
}

/// Why there is no more output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// It has taken too long.
    Late,
    /// It could not be read.
    Failed(io::ErrorKind),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Late => f.write_str("it has taken too long"),
            ReadError::Failed(kind) => write!(f, "its output cannot be read: {kind}"),
        }
    }
}

/// Starts a script. Also the end of the pipe that its input is written to. Errors: the status to answer
/// with.
async fn start(
    services: &Rc<Services>,
    spawner: &Rc<Spawner>,
    request: &UpstreamRequest,
    program: &Program,
    input: Input,
    permit: ScriptPermit,
) -> Result<(UpstreamExchange, Option<RequestBodyWriter>), Status> {
    let failed = |error: io::Error| {
        services.counts.add(Count::ScriptsFailed, 1);
        log::error(format_args!("{}: cannot start the script: {error}", request.who));
        match error.kind() {
            io::ErrorKind::InvalidInput => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => Status::SERVICE_UNAVAILABLE,
        }
    };
    let pipes = || -> io::Result<_> {
        let (stdin, writer, room) = match input {
            Input::File(SpooledBody { file, room, .. }) => (file.into(), None, Some(room)),
            // Whoever reads from it finds its end at once.
            Input::Nothing => (pipe_with(PipeFlags::CLOEXEC)?.0, None, None),
            Input::Pipe => {
                let (stdin, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                (stdin, Some(sys::watch(unblocked(writer)?, Interest::WRITABLE)?), None)
            }
        };
        let (stdout, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, complains) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdout = sys::watch(unblocked(stdout)?, Interest::READABLE)?;
        Ok((stdin, writer, room, stdout, writes, unblocked(stderr)?, complains))
    };
    let (stdin, writer, room, stdout, writes, stderr, complains) = pipes().map_err(failed)?;
    let arguments = program.arguments();
    let launched = spawner.start(&program.launch(&arguments), stdin, writes, complains).await;
    let started = launched.map_err(failed)?;
    services.counts.add(Count::Scripts, 1);
    let who = request.who.clone();
    let lifecycle = Lifecycle::new();
    let held = (permit, room);
    let monitor = Monitor {
        services: services.clone(),
        lifecycle: lifecycle.clone(),
        started,
        stderr,
        who: who.clone(),
        held,
    };
    tokio::task::spawn_local(monitor.run());
    let began = Instant::now();
    let writer = writer.map(|pipe| RequestBodyWriter { way: Way::Pipe(pipe), lifecycle: lifecycle.clone() });
    let timeouts = Timeouts::of_scripts(services);
    let transport = Transport::Script(stdout);
    let (what, pump) = (request.what.clone(), RefCell::default());
    Ok((
        UpstreamExchange {
            services: services.clone(),
            lifecycle,
            transport,
            timeouts,
            who,
            what,
            began,
            pump,
        },
        writer,
    ))
}

/// Asks an application. Also the way of the request's body, where that is still to come.
fn start_exchange(
    services: &Rc<Services>,
    application: &Upstream,
    way: pool::Checkout,
    request: &UpstreamRequest,
    content: BodySource,
) -> (UpstreamExchange, Option<RequestBodyWriter>) {
    let is_coming = matches!(content, BodySource::Coming);
    let exchange = ApplicationExchange::begin(services, application, way, request, content);
    services.counts.add(Count::Asked, 1);
    let (lifecycle, began) = (Lifecycle::new(), Instant::now());
    let (who, what) = (request.who.clone(), request.what.clone());
    let writer = is_coming
        .then(|| RequestBodyWriter { way: Way::Application(exchange.clone()), lifecycle: lifecycle.clone() });
    let transport = Transport::Application(exchange);
    let timeouts = Timeouts::of(application);
    let pump = RefCell::default();
    (
        UpstreamExchange {
            services: services.clone(),
            lifecycle,
            transport,
            timeouts,
            who,
            what,
            began,
            pump,
        },
        writer,
    )
}

impl Timeouts {
    fn of_scripts(services: &Services) -> Timeouts {
        let site::model::Scripts { first_byte, idle, .. } = services.site.scripts;
        // The watch sees to the whole.
        Timeouts { connect: first_byte, first_byte, idle, total: Duration::MAX }
    }

    fn of(application: &Upstream) -> Timeouts {
        let Upstream { connect, first_byte, idle, total, .. } = *application;
        Timeouts { connect, first_byte, idle, total }
    }
}

/// Our end of a pipe never waits. The script's does, as programs expect.
fn unblocked(end: OwnedFd) -> io::Result<OwnedFd> {
    // It is new, and has no other flag that this could take away.
    fcntl_setfl(&end, OFlags::NONBLOCK)?;
    Ok(end)
}

impl UpstreamExchange {
    /// With the request's body, of which at most `limit` bytes are read.
    fn with_body(
        self,
        body: &RequestBody,
        limit: u64,
        writer: Option<RequestBodyWriter>,
    ) -> UpstreamExchange {
        self.pump.replace(writer.map(|writer| Pump::new(body.clone(), limit, writer)));
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
    pub async fn outcome(self, handler: &Handler, wanted: Wanted) -> Outcome {
        let speaks_http = self.application().is_some_and(|exchange| exchange.protocol() == Protocol::Http);
        let mut parser = if speaks_http { HeadParser::http() } else { HeadParser::cgi() };
        loop {
            let bytes = match self.read(self.began, self.timeouts.first_byte).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return self.no_head(&parser.end()).await,
                Err(cut) => return self.fail_cut(cut),
            };
            match parser.receive(&bytes) {
                Step::More(more) => parser = more,
                Step::Head(head, used) => {
                    return response::of(self, handler, wanted, &head, &bytes[used..]).await;
                }
                Step::Rejected(error) => {
                    log::error(format_args!(
                        "{}: the answer of {} cannot be read: {error}",
                        self.who, self.what
                    ));
                    return self.fail(Status::BAD_GATEWAY);
                }
            }
        }
    }

    /// Some of its output, when there is some, within `timeout` of `from`; `None` at the end.
    async fn read(&self, from: Instant, timeout: Duration) -> Result<Option<Vec<u8>>, ReadError> {
        let until = self.until(from, timeout);
        // Others may have the output open when the script itself has ended.
        let last_words = match self.lifecycle.ended().filter(|_| self.application().is_none()) {
            Some(_) => (Instant::now() + LAST_WORDS).min(until),
            None => until,
        };
        let mut over = std::pin::pin!(tokio::time::sleep_until(last_words));
        loop {
            let change = self.lifecycle.change();
            if self.lifecycle.state() == State::Late {
                return Err(ReadError::Late);
            }
            tokio::select! {
                biased;
                read = self.receive() => match read {
                    Ok(Received::End) => return Ok(None),
                    Ok(Received::Bytes(bytes)) => return Ok(Some(bytes)),
                    Err(error) => return Err(ReadError::Failed(error.kind())),
                },
                () = self.send_all() => {}
                () = self.hand_body_on() => {}
                () = change => {
                    let last_words = (Instant::now() + LAST_WORDS).min(until);
                    over.as_mut().reset(last_words);
                }
                () = &mut over => match self.lifecycle.ended() {
                    Some(_) => return Ok(None),
                    None if self.until(from, timeout) > Instant::now() => {
                        over.as_mut().reset(self.until(from, timeout));
                    }
                    None => {
                        self.services.counts.add(Count::ScriptsLate, 1);
                        return Err(ReadError::Late);
                    }
                },
            }
        }
    }

    /// Until when something is to have come.
    fn until(&self, from: Instant, timeout: Duration) -> Instant {
        let timeout = match self.application() {
            Some(exchange) if !exchange.is_connected() => self.timeouts.connect.min(timeout),
            _ => timeout,
        };
        let until = self.lifecycle.until(from, timeout);
        self.began.checked_add(self.timeouts.total).map_or(until, |end| until.min(end))
    }

    /// As `read`, what is there at once. `None`: nothing.
    fn read_at_once(&self) -> Option<Received> {
        match &self.transport {
            Transport::Script(stdout) => {
                stdout.try_io(Interest::READABLE, |pipe| self.read_pipe(pipe)).ok().map(came)
            }
            Transport::Application(exchange) => exchange.receive_at_once(),
        }
    }

    async fn receive(&self) -> io::Result<Received> {
        match &self.transport {
            Transport::Script(stdout) => {
                stdout.async_io(Interest::READABLE, |pipe| self.read_pipe(pipe)).await.map(came)
            }
            Transport::Application(exchange) => exchange.receive().await,
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
        match &self.transport {
            Transport::Script(_) => std::future::pending().await,
            Transport::Application(exchange) => exchange.send_all().await,
        }
    }

    /// Does somebody else send what of the request is still to come?
    fn streams_body(&self) -> bool {
        self.application().is_some_and(|exchange| exchange.streams_body())
    }

    fn application(&self) -> Option<&Rc<ApplicationExchange>> {
        match &self.transport {
            Transport::Script(_) => None,
            Transport::Application(exchange) => Some(exchange),
        }
    }

    /// How the script has ended, once its output has.
    async fn end(&self) -> Option<Exit> {
        match &self.transport {
            Transport::Script(_) => self.lifecycle.end(END_TIMEOUT).await,
            Transport::Application(exchange) => exchange.ended(),
        }
    }

    /// It has ended, or closed its output, before its head was whole.
    async fn no_head(self, error: &str) -> Outcome {
        if let Some(ending) = self.application().map(|exchange| exchange.ending())
            && ending != ProtocolStatus::Complete
        {
            let status = match ending {
                ProtocolStatus::Overloaded => Status::SERVICE_UNAVAILABLE,
                _ => Status::BAD_GATEWAY,
            };
            return self.no_response(status, ending.to_string());
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
                self.no_response(Status::BAD_GATEWAY, why)
            }
        }
    }

    /// How a script has ended. An application has not.
    fn told(&self, ended: Option<Exit>) -> String {
        if self.application().is_some() { String::new() } else { told(ended) }
    }

    fn fail_cut(self, cut: ReadError) -> Outcome {
        match cut {
            // Another might take as long.
            ReadError::Late => {
                log::error(format_args!("{}: {} did not answer: {cut}", self.who, self.what));
                Outcome::Failed(Status::GATEWAY_TIMEOUT)
            }
            ReadError::Failed(_) => self.no_response(Status::BAD_GATEWAY, cut.to_string()),
        }
    }

    /// As `fail`, but where nothing has come, another server may know better.
    fn no_response(self, status: Status, why: String) -> Outcome {
        match self.application() {
            Some(exchange) if exchange.cannot_multiplex() => {
                let no_response =
                    NoResponse { endpoint: exchange.endpoint(), kept: exchange.was_used(), why };
                Outcome::CannotMultiplex(status, no_response)
            }
            Some(exchange) if !exchange.has_answered() || exchange.ending() == ProtocolStatus::Overloaded => {
                let no_response =
                    NoResponse { endpoint: exchange.endpoint(), kept: exchange.was_used(), why };
                if !no_response.kept {
                    exchange.blame();
                }
                Outcome::NoResponse(status, no_response)
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
        self.lifecycle.becomes(State::Through);
        if let (Some(exchange), End::Head(stays)) = (self.application(), end)
            && exchange.protocol() == Protocol::Http
        {
            return exchange.finish(stays);
        }
        tokio::task::spawn_local(async move {
            let mut left = UNWANTED;
            loop {
                let change = self.lifecycle.change();
                // The watch sees to it that it does end.
                if self.lifecycle.ended().is_some() {
                    break;
                }
                let until = self.until(Instant::now(), self.timeouts.idle);
                tokio::select! {
                    came = self.receive() => match came {
                        Ok(Received::Bytes(bytes)) => left = left.saturating_sub(bytes.len()),
                        Ok(Received::End) | Err(_) => break,
                    },
                    () = self.send_all(), if !self.streams_body() => {}
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
        self.lifecycle.becomes(State::Through);
        if let Some(exchange) = self.application() {
            exchange.finish(stays);
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
fn came(bytes: Vec<u8>) -> Received {
    if bytes.is_empty() { Received::End } else { Received::Bytes(bytes) }
}

impl Drop for UpstreamExchange {
    fn drop(&mut self) {
        // Nothing changes where all has been heard.
        self.lifecycle.becomes(State::Unwanted);
        if let Some(exchange) = self.application() {
            exchange.abort();
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
