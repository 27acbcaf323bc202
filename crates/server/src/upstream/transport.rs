//! The line to whoever answers: a script's standard output, or a connection to an application, over which
//! the request goes, too. What comes of it is the same: bytes of an answer, and an end.
//!
//! Knows nothing of what is in an answer.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use script::fastcgi::client::{Client, Event};
use script::fastcgi::record::MAX_CONTENT;
use script::fastcgi::{Persistence, ProtocolStatus, RequestId};
use site::upstream::{Protocol, Upstream};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::request::{Call, UpstreamRequest};
use super::spool::SpooledBody;
use crate::disk::Work;
use crate::log;
use crate::log::stderr::Lines;
use crate::pool::message::EndpointId;
use crate::pool::multiplexed::{FastCgiStream, StreamData, StreamEnd};
use crate::pool::{Checkout, PooledConnection};
use crate::services::Services;
use crate::spawner::Exit;

/// Bytes of a spooled body that are read at once.
const PIECE: usize = site::memory::SCRIPT as usize;
/// Reads at one go: an application that says nothing but what is for the log is not waited for.
const READS: usize = 16;
/// How long the end of an answer is waited for that has been read, on a connection that others are on.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Where an answer comes from.
pub enum Transport {
    Script(AsyncFd<OwnedFd>),
    Application(Rc<ApplicationExchange>),
}

/// What has come.
pub enum Received {
    /// Never empty.
    Bytes(Vec<u8>),
    End,
}

/// One request to an application, and its answer.
pub struct ApplicationExchange {
    services: Rc<Services>,
    way: RefCell<Option<Checkout>>,
    state: RefCell<State>,
    who: Rc<str>,
    /// Has anything of the answer come?
    answered: Cell<bool>,
    /// Has all of the request's head left?
    connected: Cell<bool>,
}

struct State {
    protocol: Protocol,
    /// With FastCGI, on a connection of its own.
    id: Option<RequestId>,
    /// What is to be sent on that, and how much of it has been.
    out: Vec<u8>,
    sent: usize,
    body: Body,
    /// How the answer has ended, as far as that can be known.
    ended: Option<Exit>,
    ending: ProtocolStatus,
    errors: Lines,
}

/// In the buffer, behind what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadRoom {
    Left,
    None,
}

/// Of a request.
enum Body {
    /// Somebody has it, and sends it.
    Coming,
    /// It has been spooled: at so many bytes, and so many more.
    File(Rc<SpooledBody>, u64, u64),
    Sent,
}

/// Where the body of a request comes from.
pub enum BodySource {
    Nothing,
    Coming,
    File(Rc<SpooledBody>),
}

impl ApplicationExchange {
    /// Says what comes before the body. Nothing of it has been sent yet.
    pub fn begin(
        services: &Rc<Services>,
        application: &Upstream,
        mut way: Checkout,
        request: &UpstreamRequest,
        content: BodySource,
    ) -> Rc<ApplicationExchange> {
        let (mut out, mut id) = (Vec::new(), None);
        match &request.call {
            Call::Records(environment) => {
                way = way.share(services);
                let is_empty = matches!(content, BodySource::Nothing);
                match &mut way {
                    Checkout::Exclusive(connection) => {
                        let client = connection.fastcgi.get_or_insert_with(|| Box::new(Client::new(1)));
                        let keep = if application.keep.is_zero() {
                            Persistence::Close
                        } else {
                            Persistence::KeepAlive
                        };
                        id = client.begin(request.role, keep, environment, &mut out);
                        if let Some(id) = id.filter(|_| is_empty) {
                            client.end_stdin(id, &mut out);
                        }
                    }
                    Checkout::Multiplexed(stream) => {
                        stream.begin(request.role, environment);
                        if is_empty {
                            stream.end_stdin();
                        }
                    }
                }
            }
            Call::Head(bytes) => out.extend_from_slice(bytes),
            Call::Program(_) => {}
        }
        let body = match content {
            BodySource::Nothing => Body::Sent,
            BodySource::Coming => Body::Coming,
            BodySource::File(spooled) => Body::File(spooled.clone(), 0, spooled.length),
        };
        let limits = &services.site.scripts;
        let errors = Lines::new(limits.stderr_line, limits.stderr_lines);
        let (protocol, ended, ending) = (application.protocol, None, ProtocolStatus::Complete);
        let state = State { protocol, id, out, sent: 0, body, ended, ending, errors };
        Rc::new(ApplicationExchange {
            services: services.clone(),
            way: RefCell::new(Some(way)),
            state: RefCell::new(state),
            who: request.who.clone(),
            answered: Cell::new(false),
            connected: Cell::new(false),
        })
    }

    /// What has answered, or should have.
    pub fn endpoint(&self) -> Option<EndpointId> {
        self.way.borrow().as_ref().map(Checkout::endpoint)
    }

    /// Has its connection had a request before? Then its server may have closed it since.
    pub fn was_used(&self) -> bool {
        self.way.borrow().as_ref().is_some_and(Checkout::is_reused)
    }

    /// Does somebody hand the body on as it comes?
    pub fn streams_body(&self) -> bool {
        matches!(self.state.borrow().body, Body::Coming)
    }

    /// Has any byte of the answer come?
    pub fn has_answered(&self) -> bool {
        self.answered.get()
    }

    /// Has the server taken the head of the request?
    pub fn is_connected(&self) -> bool {
        match &*self.way.borrow() {
            Some(Checkout::Multiplexed(stream)) => stream.is_connected(),
            _ => self.connected.get(),
        }
    }

    /// Has the application refused it because there are others on the connection?
    pub fn cannot_multiplex(&self) -> bool {
        let is_shared = matches!(&*self.way.borrow(), Some(Checkout::Multiplexed(_)));
        is_shared && self.ending() == ProtocolStatus::CannotMultiplex
    }

    pub fn protocol(&self) -> Protocol {
        self.state.borrow().protocol
    }

    /// How the answer has ended, if it has.
    pub fn ended(&self) -> Option<Exit> {
        self.state.borrow().ended
    }

    /// What the application says of the request itself.
    pub fn ending(&self) -> ProtocolStatus {
        self.state.borrow().ending
    }

    /// The server could not be reached, or has not answered.
    pub fn blame(&self) {
        // Where others are on it, that is known already.
        if let Some(Checkout::Exclusive(connection)) = &mut *self.way.borrow_mut() {
            connection.mark_failed();
        }
    }

    /// The answer is over; with HTTP, whoever has read it knows whether the connection can have another.
    pub fn finish(self: &Rc<ApplicationExchange>, stays: bool) {
        let connection = match self.way.take() {
            Some(Checkout::Exclusive(connection)) => connection,
            Some(Checkout::Multiplexed(stream)) if self.ended().is_none() => {
                let end = self.clone().hear_end(stream);
                spawn_local(end);
                return;
            }
            Some(Checkout::Multiplexed(_)) | None => return,
        };
        let state = self.state.borrow();
        let all_sent = state.sent == state.out.len() && matches!(state.body, Body::Sent);
        let is_whole = match state.protocol {
            Protocol::FastCgi => state.ended.is_some_and(|ended| matches!(ended, Exit::Code(_))),
            Protocol::Scgi => false,
            Protocol::Http => stays,
        };
        if all_sent && is_whole { connection.finish() } else { connection.close() }
    }

    /// Nobody wants the answer any more.
    pub fn abort(&self) {
        // Dropping a share aborts it.
        let Some(Checkout::Exclusive(mut connection)) = self.way.take() else { return };
        let state = self.state.borrow();
        // In the middle of a record nothing else can be said; the end of the connection says it, too.
        if let (Some(id), Some(client), true) =
            (state.id, &mut connection.fastcgi, state.out.is_empty() && self.connected.get())
        {
            let mut out = Vec::new();
            client.abort(id, &mut out);
            _ = connection.stream.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, &out)?));
        }
        connection.close();
    }

    /// Sends what is to be sent, and what there is of a spooled body, until all of it has left.
    pub async fn send_all(&self) {
        loop {
            if std::future::poll_fn(|cx| self.poll_flush(cx)).await.is_err() {
                // Whoever reads finds out what is the matter.
                return std::future::pending().await;
            }
            let Some((spooled, at, left)) = self.spooled() else { return std::future::pending().await };
            let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
            let file = spooled.file.try_clone();
            // It has been written by this machine, wherever that is kept.
            let read = move || file.and_then(|file| file.read_exact_at(&mut piece, at)).map(|()| piece);
            let piece = match self.services.disk.run((0, 0), Work::File, read).await {
                Ok(Ok(piece)) => piece,
                Ok(Err(_)) | Err(_) => {
                    log::error(format_args!("{}: the spooled body cannot be read", self.who));
                    return self.fail();
                }
            };
            self.push(&piece);
            let mut state = self.state.borrow_mut();
            let n = piece.len() as u64;
            if let Body::File(_, at, left) = &mut state.body {
                (*at, *left) = (*at + n, *left - n);
                if *left > 0 {
                    continue;
                }
            }
            drop(state);
            self.end_body();
        }
    }

    /// Waits until a piece of the body is taken. Errors: nothing of it is wanted any more.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.borrow().ended.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.poll_flush(cx)
    }

    /// A piece of the body, as far as it is taken at once. Errors: nothing of it is wanted any more.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx))?;
        let taken = &bytes[..bytes.len().min(MAX_CONTENT)];
        self.push(taken);
        // What has no room now goes first the next time.
        _ = self.poll_flush(cx)?;
        Poll::Ready(Ok(taken.len()))
    }

    /// The body has ended, and all of it is sent.
    pub fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.borrow().ended.is_none() {
            self.end_body();
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// What is left of a spooled body, and where.
    fn spooled(&self) -> Option<(Rc<SpooledBody>, u64, u64)> {
        match &self.state.borrow().body {
            Body::File(spooled, at, left) => Some((spooled.clone(), *at, *left)),
            Body::Coming | Body::Sent => None,
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.state.borrow_mut();
        let State { id, out, .. } = &mut *state;
        match (id, &*self.way.borrow()) {
            (_, Some(Checkout::Multiplexed(stream))) => stream.stdin(bytes),
            (Some(id), Some(Checkout::Exclusive(PooledConnection { fastcgi: Some(client), .. }))) => {
                client.stdin(*id, bytes, out);
            }
            (Some(_), _) => {}
            (None, _) => out.extend_from_slice(bytes),
        }
    }

    /// Once.
    fn end_body(&self) {
        let mut state = self.state.borrow_mut();
        if matches!(state.body, Body::Sent) {
            return;
        }
        state.body = Body::Sent;
        let State { id, out, .. } = &mut *state;
        match (id, &*self.way.borrow()) {
            (_, Some(Checkout::Multiplexed(stream))) => stream.end_stdin(),
            (Some(id), Some(Checkout::Exclusive(PooledConnection { fastcgi: Some(client), .. }))) => {
                client.end_stdin(*id, out);
            }
            _ => {}
        }
    }

    fn fail(&self) {
        self.state.borrow_mut().ended = Some(Exit::Lost);
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let way = self.way.borrow();
        let connection = match &*way {
            Some(Checkout::Exclusive(connection)) => connection,
            Some(Checkout::Multiplexed(stream)) => return stream.poll_writable(cx),
            None => return Poll::Ready(Ok(())),
        };
        let State { out, sent, .. } = &mut *self.state.borrow_mut();
        ready!(connection.poll_send(cx, out, sent))?;
        self.connected.set(true);
        out.clear();
        *sent = 0;
        Poll::Ready(Ok(()))
    }

    /// More of the answer.
    pub async fn receive(&self) -> io::Result<Received> {
        std::future::poll_fn(|cx| self.poll_receive(cx)).await
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        for _ in 0..READS {
            if self.state.borrow().ended.is_some() {
                return Poll::Ready(Ok(Received::End));
            }
            let way = self.way.borrow();
            let came = match &*way {
                None => return Poll::Ready(Ok(Received::End)),
                Some(Checkout::Multiplexed(stream)) => self.hear(ready!(stream.poll_receive(cx))),
                Some(Checkout::Exclusive(connection)) => {
                    let mut ready = ready!(connection.stream.poll_read_ready(cx))?;
                    let length = match ready.try_io(|fd| self.read(fd.get_ref())) {
                        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Ok(read) => {
                            let (length, room) = read?;
                            if room == ReadRoom::Left && length > 0 {
                                // That was all there is; what comes later is told of.
                                ready.clear_ready();
                            }
                            length
                        }
                        Err(_would_block) => continue,
                    };
                    drop(way);
                    self.take(length)?
                }
            };
            if let Some(came) = came {
                return Poll::Ready(Ok(came));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// What is there at once; `None`: nothing.
    pub fn receive_at_once(&self) -> Option<Received> {
        match self.poll_receive(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(came) => came.ok(),
            Poll::Pending => None,
        }
    }

    /// Into the services's buffer: nothing is held by those who wait.
    fn read(&self, fd: &OwnedFd) -> io::Result<(usize, ReadRoom)> {
        let scratch = &mut *self.services.scratch.borrow_mut();
        let space = scratch.space();
        let n = rustix::net::recv(fd, &mut *space, rustix::net::RecvFlags::DONTWAIT)?.0;
        let room = if n < space.len() { ReadRoom::Left } else { ReadRoom::None };
        Ok((n, room))
    }

    /// What so many bytes of the services's buffer are of the answer; none of them is the end of the connection.
    /// `None`: nothing.
    fn take(&self, length: usize) -> io::Result<Option<Received>> {
        let scratch = self.services.scratch.borrow();
        let bytes = &scratch.buffer[..length];
        let mut state = self.state.borrow_mut();
        self.answered.set(self.answered.get() || !bytes.is_empty());
        let mut way = self.way.borrow_mut();
        let Some(Checkout::Exclusive(PooledConnection { fastcgi: Some(client), .. })) = &mut *way else {
            if bytes.is_empty() {
                // It is the answer's end, unless whoever reads it knows better.
                state.ended = Some(Exit::Code(0));
                return Ok(Some(Received::End));
            }
            return Ok(Some(Received::Bytes(bytes.to_vec())));
        };
        if bytes.is_empty() {
            state.ended = Some(Exit::Lost);
            return Ok(Some(Received::End));
        }
        let (mut rest, mut heard) = (bytes, StreamData::default());
        loop {
            let (used, event) = client.receive(rest).map_err(|error| {
                log::error(format_args!("{}: {error}", self.who));
                state.ended = Some(Exit::Lost);
                io::Error::from(io::ErrorKind::InvalidData)
            })?;
            rest = &rest[used..];
            match event {
                Event::NeedMore => break,
                Event::Stdout(_, bytes) => {
                    // At once for all that has come.
                    heard.stdout.reserve(bytes.len() + rest.len());
                    heard.stdout.extend_from_slice(bytes);
                }
                Event::Stderr(_, bytes) => heard.stderr.extend_from_slice(bytes),
                Event::End(_, ending, code) => {
                    heard.end = Some(StreamEnd::Whole(ending, code));
                    // What comes behind it belongs to nothing, and there is no other request after that.
                    if !rest.is_empty() {
                        state.body = Body::Coming;
                    }
                    break;
                }
                Event::Capabilities(_) | Event::Unknown(_) => {}
            }
        }
        drop(state);
        Ok(self.hear(heard))
    }

    /// What has come in records. `None`: nothing of the answer.
    fn hear(&self, heard: StreamData) -> Option<Received> {
        let who = &self.who;
        let state = &mut *self.state.borrow_mut();
        let log = |line: &str| log::error(format_args!("{who}: {line}"));
        if !heard.stderr.is_empty() {
            state.errors.receive(&heard.stderr, Instant::now(), log);
        }
        match heard.end {
            Some(StreamEnd::Whole(ending, code)) => {
                state.ending = ending;
                // One that does not complete it has not said all.
                state.ended = Some(match ending {
                    ProtocolStatus::Complete => Exit::Code(code as u8),
                    _ => Exit::Lost,
                });
                state.errors.finish(log);
            }
            Some(StreamEnd::Broken(error)) => {
                error.iter().for_each(|error| log::error(format_args!("{who}: {error}")));
                state.ended = Some(Exit::Lost);
            }
            None => {}
        }
        let has_come = !heard.stdout.is_empty() || !heard.stderr.is_empty();
        let is_whole = matches!(heard.end, Some(StreamEnd::Whole(..)));
        self.answered.set(self.answered.get() || has_come || is_whole);
        match (heard.stdout.is_empty(), state.ended) {
            (false, _) => Some(Received::Bytes(heard.stdout)),
            (true, Some(_)) => Some(Received::End),
            (true, None) => None,
        }
    }

    /// Of an answer that has been read: what is behind it is for the log.
    async fn hear_end(self: Rc<ApplicationExchange>, stream: FastCgiStream) {
        let end = async {
            while self.ended().is_none() {
                self.hear(std::future::poll_fn(|cx| stream.poll_receive(cx)).await);
            }
        };
        _ = timeout(END_TIMEOUT, end).await;
    }
}
