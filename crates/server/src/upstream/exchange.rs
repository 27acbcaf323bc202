//! One request to an upstream, from its body to the head of the response. The body is sent as fast as the upstream
//! takes it, while the response is read as fast as the client takes that.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use site::model::KilledOutput;
use site::upstream::Upstream;
use taipan_http::head::Persistence;
use taipan_http::rule::BODY_INCOMPLETE;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;
use tokio::time::{Instant, sleep_until};

use super::Outcome;
use super::head::{HeadParser, Step, UpstreamHead};
use super::interim::Interims;
use super::request::RequestInfo;
use super::transport::{Limit, ReadError, Retry, Transport};
use crate::log::upstream::{AttemptLog, StepLog};
use crate::log::{self, EndReason};
use crate::pool::message::Fault;
use crate::pool::{PooledConnection, Reuse};
use crate::request::body::{BodyError, Rejection, RequestBody};
use crate::services::Services;
use crate::spawner::Exit;
use crate::spawner::launch::how_to_start;
use crate::stats::Count;
use crate::tasks::spawn_local;

/// Bytes of an unneeded response that are read so that its connection can have another request.
const DRAIN_LIMIT: usize = 1024 * 1024;

const NOT_CONNECTED: &str = "it has not accepted the connection in time";

pub struct UpstreamExchange {
    pub services: Rc<Services>,
    transport: Box<dyn Transport>,
    pub kind: Kind,
    timeouts: Timeouts,
    pub request: RequestInfo,
    /// Whether the attempt has its time of connecting.
    is_connected: Cell<bool>,
    pub began: Instant,
    /// Since when the upstream has all of the body that has been received. `None`: it waits for the client.
    waiting_since: Cell<Option<Instant>>,
    sending: RefCell<Sending>,
}

/// What the upstream is, with its log.
pub enum Kind {
    /// The end of its process is a part of the response. `None`: it has no span.
    Script(Option<StepLog>),
    /// `None`: what it has switched to writes the log.
    Application(Option<AttemptLog>),
}

/// How far the request has been sent.
enum Sending {
    Body(Pump),
    /// The upstream takes no more of the body. Its last bytes are buffered.
    Flushing,
    Sent,
    /// The body cannot be read to its end. The upstream does not learn of an end: it would take the body for a whole
    /// one. With the reason, if the client is told.
    Broken(Option<Rejection>),
}

#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until the upstream has received the head of the request.
    pub connect: Duration,
    pub first_byte: Duration,
    pub idle: Duration,
    pub total: Duration,
}

/// The request's body.
pub enum BodySource {
    /// None, or the upstream has it as a file.
    Empty,
    /// At most so many bytes are read.
    Client(RequestBody, u64),
    Spool(RequestBody),
}

/// A request whose head has been buffered or sent.
pub struct Opened {
    pub transport: Box<dyn Transport>,
    /// Its body.
    pub source: BodySource,
    pub began: Instant,
}

/// Sends a request's body. When the upstream takes no more of it, the rest is discarded.
struct Pump {
    source: BodySource,
    is_open: bool,
    chunk: Vec<u8>,
    /// Bytes of the chunk.
    written: usize,
}

/// An exchange whose response has begun.
pub struct UpstreamResponse {
    pub exchange: UpstreamExchange,
    pub head: UpstreamHead,
    /// The bytes that have been received behind the head.
    pub received: Vec<u8>,
}

/// Why there is no head of a response.
pub enum Failure {
    /// The error log has the reason.
    Reported(Status),
    /// The request's body is malformed or too large.
    Rejected(Rejection),
    NoResponse(NoResponse),
}

/// The error log does not have the reason yet: the request may be repeated.
pub struct NoResponse {
    pub status: Status,
    pub why: String,
    pub retry: Retry,
}

impl NoResponse {
    /// Of an upstream whose endpoints had all failed before.
    pub fn with_all_down(self) -> NoResponse {
        let why = self.why + "; all of its endpoints are down";
        NoResponse { why, status: Status::SERVICE_UNAVAILABLE, ..self }
    }
}

impl Timeouts {
    fn of_scripts(services: &Services) -> Timeouts {
        let site::model::Scripts { first_byte, idle, .. } = services.site.scripts;
        // The monitor of a script has the total.
        Timeouts { connect: first_byte, first_byte, idle, total: Duration::MAX }
    }

    pub fn of(upstream: &Upstream) -> Timeouts {
        let Upstream { connect, first_byte, idle, total, .. } = *upstream;
        Timeouts { connect, first_byte, idle, total }
    }
}

impl Pump {
    /// Ready: all of the body has been read.
    fn poll(&mut self, cx: &mut Context<'_>, exchange: &UpstreamExchange) -> Poll<Result<(), BodyError>> {
        let transport = &*exchange.transport;
        // Bounded by the runtime's budget, which every wait for a descriptor uses.
        loop {
            if self.is_open && ready!(self.poll_write(cx, exchange)).is_err() {
                self.is_open = false;
                self.chunk = Vec::new();
                self.written = 0;
                transport.abandon_body();
            }
            if self.is_open {
                exchange.waiting_since.set(None);
            }
            let chunk = ready!(self.source.poll_read(cx))?;
            exchange.resume();
            match chunk {
                Some(chunk) if self.is_open => (self.chunk, self.written) = (chunk, 0),
                Some(_) => {}
                None => {
                    if self.is_open {
                        let trailers = exchange.request.trailers.passed(self.source.take_trailers());
                        if !trailers.is_empty() {
                            transport.put_trailers(trailers);
                        }
                        _ = ready!(transport.poll_end_body(cx));
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Writes the chunk, and waits until more of the body can be written.
    fn poll_write(&mut self, cx: &mut Context<'_>, exchange: &UpstreamExchange) -> Poll<io::Result<()>> {
        let transport = &*exchange.transport;
        while self.written < self.chunk.len() {
            let written = ready!(transport.poll_write(cx, &self.chunk[self.written..]))?;
            self.written += written;
            if let Some(attempt) = exchange.attempt() {
                attempt.add_sent(written);
            }
        }
        transport.poll_ready(cx)
    }
}

impl BodySource {
    fn take_trailers(&self) -> Trailers {
        match self {
            BodySource::Client(body, _) => body.take_trailers(),
            BodySource::Empty | BodySource::Spool(_) => Trailers::new(),
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        match self {
            BodySource::Empty => Poll::Ready(Ok(None)),
            BodySource::Client(body, limit) => body.poll_read(cx, *limit),
            BodySource::Spool(body) => body.poll_read(cx, u64::MAX),
        }
    }
}

impl UpstreamExchange {
    pub fn with_script(
        services: &Rc<Services>,
        request: &RequestInfo,
        opened: Opened,
        log: Option<StepLog>,
    ) -> UpstreamExchange {
        UpstreamExchange::new(services, request, opened, Kind::Script(log), Timeouts::of_scripts(services))
    }

    pub fn with_application(
        services: &Rc<Services>,
        request: &RequestInfo,
        opened: Opened,
        timeouts: Timeouts,
        log: Option<AttemptLog>,
    ) -> UpstreamExchange {
        UpstreamExchange::new(services, request, opened, Kind::Application(log), timeouts)
    }

    fn new(
        services: &Rc<Services>,
        request: &RequestInfo,
        opened: Opened,
        kind: Kind,
        timeouts: Timeouts,
    ) -> UpstreamExchange {
        let Opened { transport, source, began } = opened;
        let sending = match source {
            BodySource::Empty => {
                // An error is that of the first read, too.
                _ = transport.poll_end_body(&mut Context::from_waker(Waker::noop()));
                Sending::Flushing
            }
            source => Sending::Body(Pump { source, is_open: true, chunk: Vec::new(), written: 0 }),
        };
        UpstreamExchange {
            services: services.clone(),
            transport,
            kind,
            timeouts,
            request: request.clone(),
            is_connected: Cell::new(false),
            began,
            waiting_since: Cell::new(Some(began)),
            sending: RefCell::new(sending),
        }
    }

    pub async fn receive_response(self, interims: &Interims<'_>) -> Result<UpstreamResponse, Failure> {
        let received = self.receive_head(interims).await;
        received.map(|(head, received)| UpstreamResponse { exchange: self, head, received })
    }

    /// The head of the response, and the bytes that have been received behind it.
    pub async fn receive_head(&self, interims: &Interims<'_>) -> Result<(UpstreamHead, Vec<u8>), Failure> {
        let mut parser = self.transport.head_parser();
        loop {
            let mut bytes = match self.read(self.began, Limit::FirstByte).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Err(self.no_head(parser).await),
                Err(error) => return Err(self.on_failed_read(&error)),
            };
            let mut step = parser.receive(&bytes);
            while let Step::Interim(more, interim, used) = step {
                interims.pass(&interim);
                bytes.drain(..used);
                step = more.receive(&bytes);
            }
            match step {
                Step::More(more) | Step::Interim(more, ..) => parser = more,
                Step::Head(head, used) => {
                    bytes.drain(..used);
                    self.on_head(&head, bytes.len());
                    return Ok((head, bytes));
                }
                Step::Rejected(error) => {
                    self.report_failure(Fault::Other, &error.to_string());
                    let RequestInfo { label, upstream_name, .. } = &self.request;
                    log::error(format_args!(
                        "{label}: the response of {upstream_name} cannot be read: {error}"
                    ));
                    return Err(self.fail(Status::BAD_GATEWAY));
                }
            }
        }
    }

    /// The next bytes of the body, never none; `None` at the end.
    pub async fn read_body(&self) -> Result<Option<Vec<u8>>, ReadError> {
        let read = self.read(Instant::now(), Limit::Idle).await;
        self.count_received(&read);
        read
    }

    /// As `read_body`, without waiting. `None`: nothing has been received.
    pub fn read_ready(&self) -> Option<Result<Option<Vec<u8>>, ReadError>> {
        match self.transport.poll_read(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => {
                self.count_received(&read);
                Some(read)
            }
            Poll::Pending => None,
        }
    }

    fn count_received(&self, read: &Result<Option<Vec<u8>>, ReadError>) {
        if let (Some(attempt), Ok(Some(bytes))) = (self.attempt(), read) {
            attempt.add_received(bytes.len());
        }
    }

    /// Sends the part of the request's body that has been received. Ready: the upstream takes no more of it.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut sending = self.sending.borrow_mut();
        match &mut *sending {
            Sending::Body(pump) => {
                *sending = match ready!(pump.poll(cx, self)) {
                    Ok(()) => Sending::Flushing,
                    Err(BodyError::Cut) => {
                        self.transport.abandon_body();
                        Sending::Flushing
                    }
                    Err(BodyError::Rejected(rejection)) => Sending::Broken(Some(rejection)),
                    Err(BodyError::Broken) => Sending::Broken(None),
                };
                self.resume();
            }
            Sending::Flushing if self.transport.poll_ready(cx).is_ready() => *sending = Sending::Sent,
            Sending::Flushing | Sending::Sent | Sending::Broken(_) => {}
        }
        Poll::Ready(())
    }

    /// Whether the body of the request has broken off.
    pub fn lacks_body(&self) -> bool {
        matches!(*self.sending.borrow(), Sending::Broken(_))
    }

    /// Why a body is incomplete, for the log.
    pub fn abort_reason(&self) -> EndReason {
        match self.kind {
            _ if self.lacks_body() => EndReason::ClientClosed,
            Kind::Application(_) => EndReason::ApplicationEnded,
            Kind::Script(_) => EndReason::ScriptEnded,
        }
    }

    /// `None`: it is a script, or what the application has switched to writes the log.
    pub fn attempt(&self) -> Option<&AttemptLog> {
        match &self.kind {
            Kind::Application(log) => log.as_ref(),
            Kind::Script(_) => None,
        }
    }

    pub fn take_attempt(&mut self) -> Option<AttemptLog> {
        match &mut self.kind {
            Kind::Application(log) => log.take(),
            Kind::Script(_) => None,
        }
    }

    /// As `Transport::has_whole_output`.
    pub fn has_whole_output(&self) -> bool {
        self.transport.has_whole_output()
    }

    pub fn warn_of_body(&self) {
        log::warn(format_args!("{}: the body of the request has broken off", self.request.label));
    }

    /// The fields behind the response, once, at its end.
    pub fn trailers(&self) -> Trailers {
        self.transport.trailers()
    }

    pub fn has_trailers(&self) -> bool {
        self.transport.has_trailers()
    }

    /// How the upstream has ended its response, behind the end of the output.
    pub async fn exit(&self) -> Option<Exit> {
        poll_fn(|cx| self.transport.poll_exit(cx)).await
    }

    /// The connection, where the upstream has switched its protocol. This ends the exchange.
    pub fn take_connection(&self) -> Option<Box<PooledConnection>> {
        self.transport.take_connection()
    }

    /// The endpoint has not responded as it should.
    pub fn report_failure(&self, fault: Fault, reason: &str) {
        self.transport.report_failure(fault, reason);
    }

    /// No more of the response is read. With `KeepAlive` all of it has been.
    pub fn finish(&self, persistence: Persistence) {
        self.transport.finish(persistence);
    }

    /// Reads the rest of the response in the background: a script may go on, and a connection may be reused.
    pub fn drain(self) {
        let limit = match self.kind {
            Kind::Script(_) => {
                self.finish(Persistence::Close);
                Limit::Total
            }
            Kind::Application(_) => Limit::Idle,
        };
        self.keep_body();
        spawn_local(async move {
            let mut left = DRAIN_LIMIT;
            while let Ok(Some(bytes)) = self.read_within(Instant::now(), limit).await {
                left = left.saturating_sub(bytes.len());
                if left == 0 && matches!(self.kind, Kind::Application(_)) {
                    return;
                }
            }
            self.finish(Persistence::Close);
        });
    }

    /// Sends no more of the client's body: the rest is for the response that the client gets.
    pub fn keep_body(&self) {
        let mut sending = self.sending.borrow_mut();
        if matches!(&*sending, Sending::Body(Pump { source: BodySource::Client(..), .. })) {
            *sending = Sending::Flushing;
            self.transport.abandon_body();
        }
    }

    async fn read(&self, from: Instant, limit: Limit) -> Result<Option<Vec<u8>>, ReadError> {
        let read = self.read_within(from, limit).await;
        if matches!(read, Err(ReadError::Timeout(_))) {
            self.services.counts.add(Count::ScriptsTimeout, 1);
        }
        read
    }

    async fn read_within(&self, from: Instant, limit: Limit) -> Result<Option<Vec<u8>>, ReadError> {
        let timeout = match limit {
            Limit::FirstByte => self.timeouts.first_byte,
            Limit::Idle => self.timeouts.idle,
            Limit::Total => self.timeouts.total,
        };
        let mut timer = pin!(sleep_until(self.deadline(from, timeout)));
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.transport.poll_read(cx) {
                self.note_connection();
                return Poll::Ready(read);
            }
            _ = self.poll_send(cx);
            self.note_connection();
            if self.lacks_body() {
                return Poll::Ready(Err(ReadError::Failed(io::ErrorKind::UnexpectedEof)));
            }
            // Twice at most: the deadline moves while the upstream waits for the client.
            while timer.as_mut().poll(cx).is_ready() {
                let deadline = self.deadline(from, timeout);
                if deadline <= Instant::now() {
                    let end = self.began.checked_add(self.timeouts.total);
                    let is_over = end.is_some_and(|end| end <= Instant::now());
                    return Poll::Ready(Err(ReadError::Timeout(if is_over { Limit::Total } else { limit })));
                }
                timer.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }

    fn note_connection(&self) {
        if !self.is_connected.get() && self.transport.is_connected() {
            self.is_connected.set(true);
            self.attempt().into_iter().for_each(AttemptLog::on_connection);
        }
    }

    /// The time at which `timeout` ends that began at `from`.
    fn deadline(&self, from: Instant, timeout: Duration) -> Instant {
        let timeout =
            if self.transport.is_connected() { timeout } else { self.timeouts.connect.min(timeout) };
        let began = self.waiting_since.get().map_or_else(Instant::now, |since| since.max(from));
        let far = || Instant::now() + Duration::from_secs(86400);
        let deadline = began.checked_add(timeout).unwrap_or_else(far);
        self.began.checked_add(self.timeouts.total).map_or(deadline, |end| deadline.min(end))
    }

    fn resume(&self) {
        if self.waiting_since.get().is_none() {
            self.waiting_since.set(Some(Instant::now()));
        }
    }

    /// `received`: bytes behind the head.
    fn on_head(&self, head: &UpstreamHead, received: usize) {
        match &self.kind {
            Kind::Script(Some(step)) => step.on_head(head.status),
            Kind::Application(Some(attempt)) => {
                attempt.on_head(head.status);
                attempt.add_received(received);
            }
            Kind::Script(None) | Kind::Application(None) => {}
        }
        if head.repeats_type {
            log::warn(format_args!(
                "{}: {} has sent Content-Type more than once; the last one counts",
                self.request.label, self.request.upstream_name
            ));
        }
    }

    /// The head could not be read.
    fn on_failed_read(&self, error: &ReadError) -> Failure {
        // The fault is the client's, and not the endpoint's.
        if let Sending::Broken(Some(rejection)) = *self.sending.borrow() {
            return Failure::Rejected(rejection);
        }
        match error {
            // The upstream has done nothing wrong, and no other could have the body.
            ReadError::Failed(_) if self.lacks_body() => {
                self.warn_of_body();
                Failure::Rejected((Status::BAD_REQUEST, BODY_INCOMPLETE))
            }
            ReadError::Failed(_) | ReadError::Broken(_) => {
                self.no_response(Status::BAD_GATEWAY, Fault::Other, error.to_string())
            }
            // Another endpoint might take as long.
            ReadError::Timeout(_) if !self.transport.is_connected() => {
                self.no_response(Status::GATEWAY_TIMEOUT, Fault::Timeout, NOT_CONNECTED.to_owned())
            }
            ReadError::Timeout(_) | ReadError::Expired => {
                // Within `total`, a client may be slow with its body.
                let waits_for_client = self.waiting_since.get().is_none();
                let fault = if waits_for_client { Fault::Other } else { Fault::Timeout };
                self.report_failure(fault, &error.to_string());
                let RequestInfo { label, upstream_name, .. } = &self.request;
                log::error(format_args!("{label}: {upstream_name} did not respond: {error}"));
                Failure::Reported(Status::GATEWAY_TIMEOUT)
            }
        }
    }

    /// The output has ended within the head.
    async fn no_head(&self, parser: HeadParser) -> Failure {
        if let Some((status, why)) = self.transport.rejection() {
            return self.no_response(status, Fault::Other, why);
        }
        match self.exit().await {
            Some(Exit::NotStarted(errno)) => {
                let (reason, what_to_do) = (io::Error::from_raw_os_error(errno), how_to_start(errno));
                log::error(format_args!(
                    "{}: cannot start the script: {reason}{what_to_do}",
                    self.request.label
                ));
                self.fail(match errno {
                    libc::EACCES | libc::EPERM => Status::FORBIDDEN,
                    libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE => Status::SERVICE_UNAVAILABLE,
                    _ => Status::BAD_GATEWAY,
                })
            }
            exit => {
                let why = format!("{}{}", parser.end(), self.describe(exit));
                self.no_response(Status::BAD_GATEWAY, Fault::Other, why)
            }
        }
    }

    fn no_response(&self, status: Status, fault: Fault, why: String) -> Failure {
        let retry = self.transport.retry();
        // A reused connection may have been closed in the meantime, and a request alone may be rejected.
        if matches!(retry, Retry::AtAnother { connection: Reuse::New, .. } | Retry::Never) {
            self.report_failure(fault, &why);
        }
        Failure::NoResponse(NoResponse { status, why, retry })
    }

    /// The upstream has failed. `what`: the rest of a sentence of which it is the subject.
    pub fn fail_because(&self, what: fmt::Arguments<'_>) -> Outcome {
        log::error(format_args!("{}: {} {what}", self.request.label, self.request.upstream_name));
        self.services.counts.add(Count::ScriptsFailed, 1);
        Outcome::Failed(Status::BAD_GATEWAY)
    }

    fn fail(&self, status: Status) -> Failure {
        self.services.counts.add(Count::ScriptsFailed, 1);
        Failure::Reported(status)
    }

    /// Whether the output of a script that a signal has ended is the whole response: not where the client has broken off
    /// its body. The error log names the script.
    pub fn takes_killed_output(&self) -> bool {
        let is_whole = self.services.site.scripts.killed_output == KilledOutput::Whole && !self.lacks_body();
        if is_whole {
            log::warn(format_args!(
                "{}: {} was ended by a signal behind its output",
                self.request.label, self.request.upstream_name
            ));
        }
        is_whole
    }

    /// `, exit status 3`, where a script has exited so.
    pub fn describe(&self, exit: Option<Exit>) -> String {
        match exit.filter(|_| matches!(self.kind, Kind::Script(_))) {
            Some(Exit::Code(0) | Exit::NotStarted(_)) | None => String::new(),
            Some(exit) => format!(", {exit}"),
        }
    }
}
