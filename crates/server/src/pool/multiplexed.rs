//! A connection that several requests are on at a time, as an application may offer it that speaks FastCGI.
//! A task of its own sends what they have to say, reads what is answered, and keeps for each of them what is
//! for it until that is taken.
//!
//! FastCGI has no way to let one request wait and not the others. Where too much has come that is not taken,
//! nothing more is read for anybody.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::net::{RecvFlags, recv};
use script::environment::Environment;
use script::fastcgi::client::{Client, ClientError, Event};
use script::fastcgi::{Multiplexing, Persistence, ProtocolStatus, RequestId, Role};
use site::memory;
use tokio::task::spawn_local;

use super::message::EndpointId;
use super::{Checkout, Pool, PooledConnection};
use crate::buffer::append;
use crate::services::Services;

/// Bytes of an answer that its client has not taken, and then nothing more is read.
const INBOX: usize = (memory::SHARED - memory::BUFFER - memory::SCRIPT) as usize;
/// Bytes that are to be sent, and then requests wait with more. One more piece may come to them.
const OUT: usize = memory::SCRIPT as usize;
/// Reads at one go.
const READS: usize = 16;

pub struct SharedConnection {
    endpoint: EndpointId,
    pool: Rc<Pool>,
    /// `None`: it is over.
    connection: RefCell<Option<PooledConnection>>,
    out: RefCell<Out>,
    /// Of requests that are under way and wanted.
    inboxes: RefCell<Vec<Rc<Inbox>>>,
    /// Those who have a share and have not said anything yet.
    unbegun: Cell<u16>,
    /// Had it been kept, and has nothing been said on it since?
    kept: Cell<bool>,
    /// The task of it.
    driver: RefCell<Option<Waker>>,
    /// Those who wait for room in `out`.
    writers: RefCell<Vec<Waker>>,
}

/// Whole records, from where they have been sent.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    sent: usize,
    /// That were sent before these.
    before: u64,
    /// Nobody takes any more.
    is_closed: bool,
}

/// One request's part of it. Dropping it aborts what has not ended.
pub struct FastCgiStream {
    shared: Rc<SharedConnection>,
    part: Part,
}

enum Part {
    /// It has its place, and has said nothing.
    Kept,
    Begun(Rc<Inbox>),
    /// The connection was over before it began.
    Lost,
}

struct Inbox {
    id: RequestId,
    /// Where its head ends, in bytes of all that is ever sent.
    head: u64,
    /// It was the first on a connection that had been kept.
    is_used: bool,
    heard: RefCell<StreamData>,
    has_answered: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

/// What has come for one request.
#[derive(Default)]
pub struct StreamData {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: Option<StreamEnd>,
}

#[derive(Clone, Copy)]
pub enum StreamEnd {
    /// With what a program would have exited with.
    Whole(ProtocolStatus, u32),
    /// The connection has broken, or this rule of FastCGI has been.
    Broken(Option<ClientError>),
}

impl SharedConnection {
    /// Asks the application what it can do, unless it has been asked on this connection.
    pub fn open(mut connection: PooledConnection, services: &Rc<Services>) -> FastCgiStream {
        let (endpoint, pool) = (connection.endpoint(), connection.pool.clone());
        let (mut out, kept) = (Out::default(), Cell::new(connection.is_used()));
        connection.records.get_or_insert_with(|| {
            let mut client = Client::new(pool.multiplex.get());
            client.set_concurrency(1);
            client.query_capabilities(&mut out.bytes);
            Box::new(client)
        });
        let shared = Rc::new(SharedConnection {
            endpoint,
            pool,
            connection: RefCell::new(Some(connection)),
            out: RefCell::new(out),
            inboxes: RefCell::default(),
            unbegun: Cell::new(0),
            kept,
            driver: RefCell::default(),
            writers: RefCell::default(),
        });
        let share = shared.share();
        shared.pool.shared.borrow_mut().push(shared.clone());
        let services = services.clone();
        spawn_local(async move { poll_fn(|cx| shared.poll(cx, &services)).await });
        share
    }

    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Can another request be on it?
    pub fn has_room(&self) -> bool {
        let Some(connection) = &*self.connection.borrow() else { return false };
        let Some(client) = &connection.records else { return false };
        let most = client.concurrent().min(self.pool.multiplex.get());
        let unbegun = self.unbegun.get();
        let left = connection.lease.requests.saturating_sub(connection.requests);
        client.running() + unbegun < most
            && u64::from(unbegun) < left
            && !connection.is_to_end()
            && !connection.is_wanted_back()
            && !self.pool.is_avoided(self.endpoint)
            && self.out.borrow().has_room()
    }

    /// Where there is room.
    pub fn share(self: &Rc<SharedConnection>) -> FastCgiStream {
        self.unbegun.set(self.unbegun.get() + 1);
        FastCgiStream { shared: self.clone(), part: Part::Kept }
    }

    /// Ready when the connection is over.
    fn poll(self: &Rc<SharedConnection>, cx: &mut Context<'_>, services: &Services) -> Poll<()> {
        *self.driver.borrow_mut() = Some(cx.waker().clone());
        self.poll_send(cx);
        if let Err(error) = self.poll_read(cx, services) {
            self.breaks(error);
        }
        self.settle();
        if self.connection.borrow().is_some() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn poll_send(&self, cx: &mut Context<'_>) {
        let Some(connection) = &*self.connection.borrow() else { return };
        let out = &mut *self.out.borrow_mut();
        match connection.poll_send(cx, &out.bytes, &mut out.sent) {
            Poll::Ready(Ok(())) => out.forget_sent(),
            Poll::Ready(Err(_)) => {
                // Whoever reads finds out what is the matter.
                out.is_closed = true;
                out.sent = out.bytes.len();
                out.forget_sent();
            }
            Poll::Pending if out.sent >= OUT => out.forget_sent(),
            Poll::Pending => {}
        }
        if out.has_room() || out.is_closed {
            self.writers.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Errors: the end of the connection, and whose fault that is.
    fn poll_read(&self, cx: &mut Context<'_>, services: &Services) -> Result<(), Option<ClientError>> {
        for _ in 0..READS {
            if self.inboxes.borrow().iter().any(|inbox| inbox.heard.borrow().is_full()) {
                return Ok(());
            }
            let mut place = self.connection.borrow_mut();
            let Some(PooledConnection { stream, records: Some(client), .. }) = &mut *place else {
                return Ok(());
            };
            let Poll::Ready(ready) = stream.poll_read_ready(cx) else { return Ok(()) };
            let scratch = &mut *services.scratch.borrow_mut();
            let space = scratch.space();
            let read = ready.map(|mut ready| {
                let read = ready.try_io(|fd| Ok(recv(fd.get_ref(), &mut *space, RecvFlags::DONTWAIT)?.0));
                if matches!(read, Ok(Ok(n)) if 0 < n && n < space.len()) {
                    // That was all there is; what comes later is told of.
                    ready.clear_ready();
                }
                read
            });
            match read {
                Ok(Ok(Ok(0))) | Err(_) => return Err(None),
                Ok(Ok(Ok(n))) => self.hear(client, &space[..n])?,
                Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Ok(Err(_))) => return Err(None),
                Ok(Err(_would_block)) => {}
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn hear(&self, client: &mut Client, mut bytes: &[u8]) -> Result<(), ClientError> {
        loop {
            let (used, event) = client.receive(bytes)?;
            bytes = &bytes[used..];
            let (id, stdout, stderr, end) = match event {
                Event::NeedMore => return Ok(()),
                Event::Stdout(id, piece) => (id, piece, &[][..], None),
                Event::Stderr(id, piece) => (id, &[][..], piece, None),
                Event::End(id, ending, code) => {
                    if ending == ProtocolStatus::CannotMultiplex {
                        self.pool.multiplex.set(1);
                    }
                    (id, &[][..], &[][..], Some(StreamEnd::Whole(ending, code)))
                }
                Event::Capabilities(found) if found.multiplexing == Some(Multiplexing::Yes) => {
                    client.set_concurrency(found.requests.map_or(u16::MAX, |most| most.min(1024) as u16));
                    continue;
                }
                // It need not be asked again.
                Event::Capabilities(_) | Event::Unknown(_) => {
                    self.pool.multiplex.set(1);
                    continue;
                }
            };
            let mut inboxes = self.inboxes.borrow_mut();
            // Who has left is not told.
            let Some(at) = inboxes.iter().position(|inbox| inbox.id == id) else { continue };
            let mut heard = inboxes[at].heard.borrow_mut();
            append(&mut heard.stdout, stdout);
            append(&mut heard.stderr, stderr);
            heard.end = end;
            drop(heard);
            inboxes[at].has_answered.set(true);
            inboxes[at].wake();
            if end.is_some() {
                inboxes.swap_remove(at);
                // What is left of its body is not wanted.
                self.writers.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    fn breaks(&self, error: Option<ClientError>) {
        let Some(mut connection) = self.connection.take() else { return };
        for inbox in self.inboxes.take() {
            if !inbox.has_answered.get() && !inbox.is_used {
                connection.has_failed();
            }
            inbox.heard.borrow_mut().end = Some(StreamEnd::Broken(error));
            inbox.wake();
        }
        self.writers.take().into_iter().for_each(Waker::wake);
        self.leave();
    }

    /// Gives those who wait what room there is. Where nobody is on it any more, it is over.
    fn settle(self: &Rc<SharedConnection>) {
        // Bounded by those who wait.
        while self.has_room() {
            let Some(waiting) = self.pool.take_first(self.endpoint) else { break };
            self.pool.look_at_surplus();
            // Whoever has left gives it back.
            _ = waiting.tell.send(Ok(Checkout::Multiplexed(self.share())));
        }
        if self.unbegun.get() > 0 || !self.inboxes.borrow().is_empty() {
            return;
        }
        let mut place = self.connection.borrow_mut();
        let Some(PooledConnection { records: Some(client), .. }) = &*place else { return };
        let mut out = self.out.borrow_mut();
        let stays = client.closed().is_ok() && !out.is_closed;
        if stays && !out.bytes.is_empty() {
            return;
        }
        let Some(connection) = place.take() else { return };
        drop(place);
        self.leave();
        self.wake();
        if stays {
            return connection.rest();
        }
        // All have left. That is said, if it can be at once; the end of the connection says it, too.
        let Out { bytes, sent, .. } = &mut *out;
        _ = connection.poll_send(&mut Context::from_waker(Waker::noop()), bytes, sent);
    }

    fn leave(&self) {
        self.pool.shared.borrow_mut().retain(|other| !std::ptr::eq(&**other, self));
    }

    fn wake(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }
}

impl Out {
    fn has_room(&self) -> bool {
        self.bytes.len() - self.sent < OUT && !self.is_closed
    }

    fn forget_sent(&mut self) {
        self.bytes.drain(..self.sent);
        self.before += self.sent as u64;
        self.sent = 0;
    }
}

impl Inbox {
    fn wake(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn is_over(&self) -> bool {
        self.heard.borrow().end.is_some()
    }
}

impl StreamData {
    fn is_full(&self) -> bool {
        self.stdout.len() + self.stderr.len() >= INBOX
    }

    fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.end.is_none()
    }
}

impl FastCgiStream {
    pub fn endpoint(&self) -> EndpointId {
        self.shared.endpoint
    }

    /// Is it the first on a connection that had been kept, which its endpoint may have closed meanwhile?
    pub fn is_used(&self) -> bool {
        matches!(&self.part, Part::Begun(inbox) if inbox.is_used)
    }

    /// Says all but the body, once.
    pub fn begin(&mut self, role: Role, environment: &Environment) {
        let shared = &*self.shared;
        shared.unbegun.set(shared.unbegun.get() - 1);
        let out = &mut *shared.out.borrow_mut();
        let mut id = None;
        if let Some(connection) = &mut *shared.connection.borrow_mut()
            && let Some(client) = &mut connection.records
        {
            // Whether it stays is not the application's business, which would close it under others.
            id = client.begin(role, Persistence::KeepAlive, environment, &mut out.bytes);
            connection.requests += u64::from(id.is_some());
        }
        let head = out.before + out.bytes.len() as u64;
        self.part = match id {
            Some(id) => {
                let inbox = Rc::new(Inbox {
                    id,
                    head,
                    is_used: shared.kept.take(),
                    heard: RefCell::default(),
                    has_answered: Cell::default(),
                    reader: RefCell::default(),
                });
                shared.inboxes.borrow_mut().push(inbox.clone());
                Part::Begun(inbox)
            }
            None => Part::Lost,
        };
        shared.wake();
    }

    /// Has all of the head left?
    pub fn is_connected(&self) -> bool {
        let out = self.shared.out.borrow();
        matches!(&self.part, Part::Begun(inbox) if inbox.head <= out.before + out.sent as u64)
    }

    /// Until more of the body has room. Errors: nothing of it is wanted any more.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.running().is_none() || self.shared.out.borrow().is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.shared.out.borrow().has_room() {
            return Poll::Ready(Ok(()));
        }
        self.shared.writers.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// A piece of the body.
    pub fn stdin(&self, bytes: &[u8]) {
        self.say(|client, id, out| client.stdin(id, bytes, out));
    }

    /// The body has ended.
    pub fn end_stdin(&self) {
        self.say(|client, id, out| client.end_stdin(id, out));
    }

    /// All that has come.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<StreamData> {
        let Part::Begun(inbox) = &self.part else {
            return Poll::Ready(StreamData { end: Some(StreamEnd::Broken(None)), ..StreamData::default() });
        };
        let heard = &mut *inbox.heard.borrow_mut();
        if heard.is_empty() {
            *inbox.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if heard.is_full() {
            self.shared.wake();
        }
        let end = heard.end;
        Poll::Ready(std::mem::replace(heard, StreamData { end, ..StreamData::default() }))
    }

    /// The request, until it has ended.
    fn running(&self) -> Option<&Rc<Inbox>> {
        match &self.part {
            Part::Begun(inbox) if !inbox.is_over() => Some(inbox),
            Part::Kept | Part::Begun(_) | Part::Lost => None,
        }
    }

    fn say(&self, what: impl FnOnce(&mut Client, RequestId, &mut Vec<u8>)) {
        let out = &mut *self.shared.out.borrow_mut();
        if let Some(inbox) = self.running()
            && let Some(PooledConnection { records: Some(client), .. }) =
                &mut *self.shared.connection.borrow_mut()
            && !out.is_closed
        {
            what(client, inbox.id, &mut out.bytes);
            self.shared.wake();
        }
    }
}

impl Drop for FastCgiStream {
    fn drop(&mut self) {
        let shared = &self.shared;
        self.say(|client, id, out| client.abort(id, out));
        match &self.part {
            Part::Kept => shared.unbegun.set(shared.unbegun.get() - 1),
            Part::Begun(inbox) => {
                shared.inboxes.borrow_mut().retain(|other| !Rc::ptr_eq(other, inbox));
                // It may have been what kept the others from being read.
                shared.wake();
            }
            Part::Lost => {}
        }
        shared.settle();
    }
}
