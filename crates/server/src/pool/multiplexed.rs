//! A FastCGI connection that several requests share, each as a stream. One task sends what the streams write, reads
//! what the application sends, and buffers it for each stream until the stream takes it.
//!
//! FastCGI has no flow control for one stream. When a stream has buffered too much, nothing more is read for any of
//! them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use script::environment::Environment;
use script::fastcgi::client::{Client, ClientError, Event};
use script::fastcgi::{Multiplexing, Persistence, ProtocolStatus, RequestId, Role};
use site::memory;

use super::message::{EndpointId, Fault};
use super::names::EndpointNames;
use super::{Checkout, Pool, PooledConnection, Reuse};
use crate::buffer::append;
use crate::services::Services;
use crate::tasks::spawn_local;

/// Bytes that one stream buffers of a response. Nothing more is read then.
const MAX_RECEIVED: usize = (memory::MULTIPLEXED - memory::BUFFER - memory::SCRIPT) as usize;
/// Bytes that wait to be sent. No stream may write more then; what is written at once can exceed it.
const MAX_UNSENT: usize = memory::SCRIPT as usize;
const READS_PER_TURN: usize = 16;

pub struct SharedConnection {
    endpoint: EndpointId,
    endpoint_names: EndpointNames,
    pool: Rc<Pool>,
    /// `None`: the connection has ended.
    connection: RefCell<Option<Box<PooledConnection>>>,
    unsent: RefCell<Unsent>,
    /// Open streams that a request waits for.
    inboxes: RefCell<Vec<Rc<Inbox>>>,
    /// Streams whose request is still to be sent.
    reserved: Cell<u16>,
    /// That of the next request on it. Behind the first one, the connection is known to be open.
    reuse: Cell<Reuse>,
    /// Wakes the task that sends and receives.
    task: RefCell<Option<Waker>>,
    /// Streams that wait until they may write.
    writers: RefCell<Vec<Waker>>,
}

/// Whole records that are to be sent.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes sent before the first of `bytes`.
    before: u64,
    /// The application receives no more.
    is_closed: bool,
}

/// One request on the connection. Dropping it aborts the request if it has not ended.
pub struct FastCgiStream {
    connection: Rc<SharedConnection>,
    state: StreamState,
}

enum StreamState {
    Reserved,
    Open(Rc<Inbox>),
    /// The connection ended before the request was sent.
    Lost,
}

struct Inbox {
    id: RequestId,
    /// Where the head of the request ends, in bytes since the connection was opened.
    head_end: u64,
    reuse: Reuse,
    received: RefCell<StreamData>,
    has_response: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

/// What the application has sent for one stream.
#[derive(Default)]
pub struct StreamData {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The output has ended, perhaps before the request.
    pub is_output_whole: bool,
    pub end: Option<StreamEnd>,
}

#[derive(Clone, Copy)]
pub enum StreamEnd {
    /// The response is whole. The number is the status that a program would have exited with.
    Whole(ProtocolStatus, u32),
    /// The connection broke, or the application broke this rule of FastCGI.
    Broken(Option<ClientError>),
}

impl SharedConnection {
    /// Queries the capabilities of the application, once per connection.
    pub fn open(mut connection: Box<PooledConnection>, services: &Rc<Services>) -> FastCgiStream {
        let (endpoint, pool) = (connection.endpoint(), connection.pool.clone());
        let endpoint_names = connection.endpoint_names().clone();
        let (mut unsent, reuse) = (Unsent::default(), Cell::new(connection.reuse()));
        connection.fastcgi.get_or_insert_with(|| {
            let mut client = Client::new(pool.multiplex.get());
            client.set_concurrency(1);
            client.query_capabilities(&mut unsent.bytes);
            Box::new(client)
        });
        let shared = Rc::new(SharedConnection {
            endpoint,
            endpoint_names,
            pool,
            connection: RefCell::new(Some(connection)),
            unsent: RefCell::new(unsent),
            inboxes: RefCell::default(),
            reserved: Cell::new(0),
            reuse,
            task: RefCell::default(),
            writers: RefCell::default(),
        });
        let stream = shared.reserve();
        shared.pool.shared.borrow_mut().push(shared.clone());
        let services = services.clone();
        spawn_local(async move { poll_fn(|cx| shared.poll(cx, &services)).await });
        stream
    }

    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Whether it can take another request.
    pub fn has_capacity(&self) -> bool {
        let Some(connection) = &*self.connection.borrow() else { return false };
        let Some(client) = &connection.fastcgi else { return false };
        let limit = client.concurrent().min(self.pool.multiplex.get());
        let reserved = self.reserved.get();
        let left = connection.lease.requests.saturating_sub(connection.requests);
        client.running() + reserved < limit
            && u64::from(reserved) < left
            && !connection.is_spent()
            && !connection.is_recalled()
            && !self.pool.acquisitions.borrow().is_avoided(self.endpoint)
            && self.unsent.borrow().has_space()
            && !self.is_held_up()
    }

    /// Nothing is read, for the client of one stream is behind: a new request would wait for it.
    fn is_held_up(&self) -> bool {
        self.inboxes.borrow().iter().any(|inbox| inbox.received.borrow().is_full())
    }

    /// A stream for one request. Only where there is capacity.
    pub fn reserve(self: &Rc<SharedConnection>) -> FastCgiStream {
        self.reserved.set(self.reserved.get() + 1);
        FastCgiStream { connection: self.clone(), state: StreamState::Reserved }
    }

    /// Ready when the connection has ended.
    fn poll(self: &Rc<SharedConnection>, cx: &mut Context<'_>, services: &Services) -> Poll<()> {
        *self.task.borrow_mut() = Some(cx.waker().clone());
        self.poll_send(cx);
        if let Err(error) = self.poll_read(cx, services) {
            self.fail(error);
        }
        self.settle();
        if self.connection.borrow().is_some() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn poll_send(&self, cx: &mut Context<'_>) {
        let Some(connection) = &*self.connection.borrow() else { return };
        let unsent = &mut *self.unsent.borrow_mut();
        match connection.stream.poll_send(cx, &unsent.bytes, &mut unsent.sent) {
            Poll::Ready(Ok(())) => unsent.drop_sent(),
            Poll::Ready(Err(_)) => {
                // Reading finds the cause.
                unsent.is_closed = true;
                unsent.sent = unsent.bytes.len();
                unsent.drop_sent();
            }
            Poll::Pending if unsent.sent >= MAX_UNSENT => unsent.drop_sent(),
            Poll::Pending => {}
        }
        if unsent.has_space() || unsent.is_closed {
            self.wake_writers();
        }
    }

    /// Errors: the end of the connection, with the rule that the application broke.
    fn poll_read(&self, cx: &mut Context<'_>, services: &Services) -> Result<(), Option<ClientError>> {
        for _ in 0..READS_PER_TURN {
            if self.is_held_up() {
                return Ok(());
            }
            let mut connection = self.connection.borrow_mut();
            let Some(PooledConnection { stream, fastcgi: Some(client), .. }) = connection.as_deref_mut()
            else {
                return Ok(());
            };
            let scratch = &mut *services.scratch.borrow_mut();
            let space = scratch.space();
            match stream.poll_read(cx, space) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0) | Err(_)) => return Err(None),
                Poll::Ready(Ok(n)) => self.receive(client, &space[..n])?,
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn receive(&self, client: &mut Client, mut bytes: &[u8]) -> Result<(), ClientError> {
        loop {
            let (used, event) = client.receive(bytes)?;
            bytes = &bytes[used..];
            let (id, stdout, stderr, end) = match event {
                Event::NeedMore => return Ok(()),
                Event::Stdout(id, piece) => (id, piece, &[][..], None),
                Event::Stderr(id, piece) => (id, &[][..], piece, None),
                Event::End(id, status, code) => {
                    if status == ProtocolStatus::CannotMultiplex {
                        self.pool.multiplex.set(1);
                    }
                    (id, &[][..], &[][..], Some(StreamEnd::Whole(status, code)))
                }
                Event::Capabilities(found) if found.multiplexing == Some(Multiplexing::Yes) => {
                    client.set_concurrency(found.requests.map_or(u16::MAX, |limit| limit.min(1024) as u16));
                    continue;
                }
                // The application cannot multiplex on other connections either.
                Event::Capabilities(_) | Event::Unknown(_) => {
                    self.pool.multiplex.set(1);
                    continue;
                }
            };
            let mut inboxes = self.inboxes.borrow_mut();
            // An aborted stream has no inbox.
            let Some(at) = inboxes.iter().position(|inbox| inbox.id == id) else { continue };
            let mut received = inboxes[at].received.borrow_mut();
            append(&mut received.stdout, stdout);
            append(&mut received.stderr, stderr);
            received.end = end;
            drop(received);
            inboxes[at].has_response.set(true);
            inboxes[at].wake();
            if end.is_some() {
                inboxes.swap_remove(at);
                // The stream may wait to write the rest of its body, which is not wanted any more.
                self.wake_writers();
            }
        }
    }

    /// The connection has ended, with all its streams.
    fn fail(&self, error: Option<ClientError>) {
        let Some(connection) = self.connection.take() else { return };
        for inbox in self.inboxes.take() {
            if !inbox.has_response.get() && inbox.reuse == Reuse::New {
                connection.report_failure(Fault::Other, "it has closed the connection");
            }
            let mut received = inbox.received.borrow_mut();
            received.is_output_whole =
                connection.fastcgi.as_ref().is_some_and(|client| client.has_whole_output(inbox.id));
            received.end = Some(StreamEnd::Broken(error));
            drop(received);
            inbox.wake();
        }
        self.wake_writers();
        self.remove_from_pool();
    }

    /// Gives free streams to requests that wait. Without any stream, the connection ends.
    fn settle(self: &Rc<SharedConnection>) {
        // Each turn takes a request out of the queue.
        while self.has_capacity() {
            let first = self.pool.acquisitions.borrow_mut().take_first(self.endpoint);
            let Some(grant) = first else { break };
            self.pool.on_fewer_waiting();
            // If the request waits no more, this drops the stream.
            _ = grant.send(Ok(Checkout::Multiplexed(self.reserve())));
        }
        if self.reserved.get() > 0 || !self.inboxes.borrow().is_empty() {
            return;
        }
        let mut slot = self.connection.borrow_mut();
        let Some(PooledConnection { fastcgi: Some(client), .. }) = slot.as_deref() else { return };
        let mut unsent = self.unsent.borrow_mut();
        let is_reusable = client.closed().is_ok() && !unsent.is_closed;
        if is_reusable && !unsent.bytes.is_empty() {
            return;
        }
        let Some(connection) = slot.take() else { return };
        drop(slot);
        self.remove_from_pool();
        self.wake_task();
        if is_reusable {
            return connection.release();
        }
        // The records that abort the streams are sent if that works at once. Otherwise closing the connection aborts
        // them.
        let Unsent { bytes, sent, .. } = &mut *unsent;
        _ = connection.stream.poll_send(&mut Context::from_waker(Waker::noop()), bytes, sent);
    }

    fn remove_from_pool(&self) {
        self.pool.shared.borrow_mut().retain(|other| !std::ptr::eq(&**other, self));
    }

    fn wake_task(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    fn wake_writers(&self) {
        self.writers.take().into_iter().for_each(Waker::wake);
    }
}

impl Unsent {
    fn has_space(&self) -> bool {
        self.bytes.len() - self.sent < MAX_UNSENT && !self.is_closed
    }

    fn drop_sent(&mut self) {
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

    fn has_ended(&self) -> bool {
        self.received.borrow().end.is_some()
    }
}

impl StreamData {
    /// The connection has ended.
    pub fn broken() -> StreamData {
        StreamData { end: Some(StreamEnd::Broken(None)), ..StreamData::default() }
    }

    fn is_full(&self) -> bool {
        self.stdout.len() + self.stderr.len() >= MAX_RECEIVED
    }

    fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.end.is_none()
    }
}

impl FastCgiStream {
    pub fn endpoint(&self) -> EndpointId {
        self.connection.endpoint
    }

    pub fn endpoint_names(&self) -> &EndpointNames {
        &self.connection.endpoint_names
    }

    /// Only the first request on a connection that was kept reuses it.
    pub fn reuse(&self) -> Reuse {
        match &self.state {
            StreamState::Open(inbox) => inbox.reuse,
            StreamState::Reserved | StreamState::Lost => Reuse::New,
        }
    }

    /// Sends the request, without its body. To be called once.
    pub fn begin(&mut self, role: Role, environment: &Environment) {
        let shared = &*self.connection;
        shared.reserved.set(shared.reserved.get() - 1);
        let unsent = &mut *shared.unsent.borrow_mut();
        let mut id = None;
        if let Some(connection) = &mut *shared.connection.borrow_mut()
            && let Some(client) = &mut connection.fastcgi
        {
            // Without FCGI_KEEP_CONN the application would close the connection under the other streams.
            id = client.begin(role, Persistence::KeepAlive, environment, &mut unsent.bytes);
            if id.is_some() {
                connection.count_request();
            }
        }
        let head_end = unsent.before + unsent.bytes.len() as u64;
        self.state = match id {
            Some(id) => {
                let inbox = Rc::new(Inbox {
                    id,
                    head_end,
                    reuse: shared.reuse.take(),
                    received: RefCell::default(),
                    has_response: Cell::default(),
                    reader: RefCell::default(),
                });
                shared.inboxes.borrow_mut().push(inbox.clone());
                StreamState::Open(inbox)
            }
            None => StreamState::Lost,
        };
        shared.wake_task();
    }

    /// Whether all of the head has been sent.
    pub fn is_connected(&self) -> bool {
        let unsent = self.connection.unsent.borrow();
        let sent = unsent.before + unsent.sent as u64;
        matches!(&self.state, StreamState::Open(inbox) if inbox.head_end <= sent)
    }

    /// Ready when more of the body may be written. Errors: the application wants no more of it.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.running().is_none() || self.connection.unsent.borrow().is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.connection.unsent.borrow().has_space() {
            return Poll::Ready(Ok(()));
        }
        self.connection.writers.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// Sends a piece of the body.
    pub fn stdin(&self, bytes: &[u8]) {
        self.write(|client, id, out| client.stdin(id, bytes, out));
    }

    /// Sends the end of the body.
    pub fn end_stdin(&self) {
        self.write(|client, id, out| client.end_stdin(id, out));
    }

    /// Whether the application has ended its output, although it has not ended the request.
    pub fn has_whole_output(&self) -> bool {
        let connection = self.connection.connection.borrow();
        let client = connection.as_deref().and_then(|connection| connection.fastcgi.as_ref());
        self.running().zip(client).is_some_and(|(inbox, client)| client.has_whole_output(inbox.id))
    }

    /// Takes all that the application has sent.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<StreamData> {
        let StreamState::Open(inbox) = &self.state else {
            return Poll::Ready(StreamData::broken());
        };
        let received = &mut *inbox.received.borrow_mut();
        if received.is_empty() {
            *inbox.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if received.is_full() {
            self.connection.wake_task();
        }
        let end = received.end;
        Poll::Ready(std::mem::replace(received, StreamData { end, ..StreamData::default() }))
    }

    /// The request, until it has ended.
    fn running(&self) -> Option<&Rc<Inbox>> {
        match &self.state {
            StreamState::Open(inbox) if !inbox.has_ended() => Some(inbox),
            StreamState::Reserved | StreamState::Open(_) | StreamState::Lost => None,
        }
    }

    fn write(&self, records: impl FnOnce(&mut Client, RequestId, &mut Vec<u8>)) {
        let unsent = &mut *self.connection.unsent.borrow_mut();
        if let Some(inbox) = self.running()
            && let Some(PooledConnection { fastcgi: Some(client), .. }) =
                self.connection.connection.borrow_mut().as_deref_mut()
            && !unsent.is_closed
        {
            records(client, inbox.id, &mut unsent.bytes);
            self.connection.wake_task();
        }
    }
}

impl Drop for FastCgiStream {
    fn drop(&mut self) {
        let shared = &self.connection;
        self.write(|client, id, out| client.abort(id, out));
        match &self.state {
            StreamState::Reserved => shared.reserved.set(shared.reserved.get() - 1),
            StreamState::Open(inbox) => {
                shared.inboxes.borrow_mut().retain(|other| !Rc::ptr_eq(other, inbox));
                // A full inbox kept the task from reading.
                shared.wake_task();
            }
            StreamState::Lost => {}
        }
        shared.settle();
    }
}
