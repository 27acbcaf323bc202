//! The body of an upstream's response, read ahead while the client takes nothing, so that the upstream is soon free for
//! other requests: a part into memory, and the rest, if the client stays behind, into a file.
//!
//! Nothing is delayed: what the client can take, it gets at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use taipan_http::trailers::Trailers;
use tokio::time::{Instant, sleep_until};

use super::body::UpstreamBody;
use super::exchange::UpstreamExchange;
use super::spool::{self, SpoolError, SpoolFile};
use crate::log::EndReason;
use crate::response::{BodyStream, NextChunk};
use crate::semaphore::Permit;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;

/// Bytes that wait in memory.
const MEMORY: usize = site::memory::READ_AHEAD as usize;
/// Bytes that are read at once from a file.
const READ_SIZE: u64 = site::memory::RESPONSE;
/// How long a client may be behind before the rest waits in a file: what is sent so soon costs no writing.
const FILE_AFTER: Duration = Duration::from_secs(1);

/// What waits in a file, for the error log.
const A_RESPONSE: &str = "a response, which waits for its client";

pub struct BufferedBody {
    /// `None`: it is read ahead.
    direct: Option<UpstreamBody>,
    ahead: Option<Ahead>,
    spawner: Rc<Spawner>,
}

/// A body that is read ahead.
struct Ahead {
    buffer: Rc<Buffer>,
    /// `None`: it has been read, up to `end`.
    reading: Option<Reading>,
    end: End,
    _permit: Permit,
}

struct Reading {
    exchange: Rc<UpstreamExchange>,
    end: Pin<Box<dyn Future<Output = End>>>,
}

/// The fields behind a whole body. Errors: why it is incomplete.
type End = Result<Trailers, EndReason>;

/// The bytes that have been read, and that the client has not taken.
struct Buffer {
    services: Rc<Services>,
    spawner: Rc<Spawner>,
    /// Those in front of the others.
    memory: RefCell<Vec<u8>>,
    file: RefCell<Option<Rc<SpoolFile>>>,
    /// Those from `taken` to `stored` of the file.
    taken: Cell<u64>,
    stored: Cell<u64>,
    /// `false`: the disk or its bound has failed them, and the client has not taken all that is before.
    may_store: Cell<bool>,
    /// The time from which on they may wait in a file.
    file_from: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    File,
}

impl BufferedBody {
    /// `spawner`: it makes the files.
    pub fn new(body: UpstreamBody, spawner: Rc<Spawner>) -> BufferedBody {
        BufferedBody { direct: Some(body), ahead: None, spawner }
    }
}

impl BodyStream for BufferedBody {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        match (&mut self.direct, &mut self.ahead) {
            (Some(body), _) => body.next(services),
            (None, Some(ahead)) => Box::pin(ahead.next()),
            (None, None) => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn abort_reason(&self) -> EndReason {
        let of_ahead = self.ahead.as_ref().and_then(|ahead| ahead.end.as_ref().err().copied());
        let of_direct = || self.direct.as_ref().map(BodyStream::abort_reason);
        of_ahead.or_else(of_direct).unwrap_or(EndReason::NotMade)
    }

    fn has_more(&mut self) -> bool {
        match (&mut self.direct, &self.ahead) {
            (Some(body), _) => body.has_more(),
            (None, Some(ahead)) => ahead.reading.is_none() || !ahead.buffer.is_empty(),
            (None, None) => true,
        }
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        self.direct.as_mut().map(BodyStream::take_buffered).unwrap_or_default()
    }

    fn take_trailers(&mut self) -> Trailers {
        let of_ahead = self.ahead.as_mut().and_then(|ahead| ahead.end.as_mut().ok());
        let of_direct = self.direct.as_mut().map(BodyStream::take_trailers);
        of_direct.or(of_ahead.map(std::mem::take)).unwrap_or_default()
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let reading = self.ahead.as_ref().and_then(|ahead| ahead.reading.as_ref());
        match (&mut self.direct, reading) {
            (Some(body), _) => body.poll_request_body(cx),
            (None, Some(reading)) => reading.exchange.poll_send(cx),
            (None, None) => Poll::Ready(()),
        }
    }

    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(body) = &self.direct
            && let Some(permit) = body.exchange.services.buffered_responses.take()
        {
            let body = self.direct.take();
            self.ahead = body.map(|body| Ahead::begin(body, &self.spawner, permit));
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.poll(cx);
        }
    }
}

impl Ahead {
    fn begin(body: UpstreamBody, spawner: &Rc<Spawner>, permit: Permit) -> Ahead {
        let exchange = body.exchange.clone();
        exchange.services.counts.add(Count::ResponsesBuffered, 1);
        let buffer = Rc::new(Buffer {
            services: exchange.services.clone(),
            spawner: spawner.clone(),
            memory: RefCell::default(),
            file: RefCell::default(),
            taken: Cell::default(),
            stored: Cell::default(),
            may_store: Cell::new(true),
            file_from: Instant::now() + FILE_AFTER,
        });
        let reading = Reading { exchange, end: Box::pin(read_into(buffer.clone(), body)) };
        Ahead { buffer, reading: Some(reading), end: Ok(Trailers::new()), _permit: permit }
    }

    /// Reads on.
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(reading) = &mut self.reading
            && let Poll::Ready(end) = reading.end.as_mut().poll(cx)
        {
            (self.end, self.reading) = (end, None);
        }
    }

    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|cx| {
            if self.buffer.is_empty() {
                self.poll(cx);
            }
            match self.reading.is_none() || !self.buffer.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        if !self.buffer.is_empty() {
            let taken = self.buffer.take().await;
            if taken.is_none() {
                (self.end, self.reading) = (Err(EndReason::Unreadable), None);
                spool::report_unreadable(&self.buffer.services, A_RESPONSE);
            }
            return taken.map(Some).ok_or_else(|| io::ErrorKind::Other.into());
        }
        match &self.end {
            Ok(_) => Ok(None),
            Err(_) => Err(io::ErrorKind::Other.into()),
        }
    }
}

/// Reads the body as fast as it comes, while there is room for it.
async fn read_into(buffer: Rc<Buffer>, mut body: UpstreamBody) -> End {
    loop {
        match body.next_bytes().await {
            Ok(Some(bytes)) => buffer.put(bytes).await,
            Ok(None) => return Ok(body.take_trailers()),
            Err(_) => return Err(body.abort_reason()),
        }
    }
}

impl Buffer {
    fn is_empty(&self) -> bool {
        self.memory.borrow().is_empty() && !self.is_in_file()
    }

    fn is_in_file(&self) -> bool {
        self.taken.get() < self.stored.get()
    }

    /// Adds bytes behind the others, as soon as they have a place.
    async fn put(&self, mut bytes: Vec<u8>) {
        while self.place(bytes.len()).await == Place::File {
            match self.store(bytes).await {
                Ok(()) => return,
                Err(unstored) => bytes = unstored,
            }
        }
        let mut memory = self.memory.borrow_mut();
        match memory.is_empty() {
            true => *memory = bytes,
            false => memory.extend_from_slice(&bytes),
        }
    }

    /// Waits for a place for so many bytes.
    async fn place(&self, bytes: usize) -> Place {
        let mut timer = pin!(sleep_until(self.file_from));
        poll_fn(|cx| {
            let in_memory = self.memory.borrow().len();
            if in_memory == 0 && !self.is_in_file() && !self.may_store.replace(true) {
                // Its disk may still be writing.
                self.file.take();
            }
            let fits = in_memory == 0 || in_memory + bytes <= MEMORY;
            if fits && !self.is_in_file() {
                return Poll::Ready(Place::Memory);
            }
            if self.may_store.get() && timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Place::File);
            }
            Poll::Pending
        })
        .await
    }

    /// Writes bytes to the file, or returns them.
    async fn store(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let bytes = Arc::new(bytes);
        self.try_store(bytes.clone()).await.map_err(|error| {
            spool::report(&self.services, A_RESPONSE, &error);
            self.may_store.set(false);
            Arc::unwrap_or_clone(bytes)
        })
    }

    async fn try_store(&self, bytes: Arc<Vec<u8>>) -> Result<(), SpoolError> {
        let open = self.file.borrow().clone();
        let file = match open {
            Some(file) => file,
            None => {
                let file = Rc::new(SpoolFile::open(&self.services, &self.spawner).await?);
                self.file.replace(Some(file.clone()));
                file
            }
        };
        if !self.is_in_file() {
            self.taken.set(0);
            self.stored.set(0);
        }
        let (at, length) = (self.stored.get(), bytes.len() as u64);
        // The other half is for the bodies of requests.
        file.write(bytes, at, self.services.site.scripts.spool_bytes / 2).await?;
        self.stored.set(at + length);
        Ok(())
    }

    /// Takes the bytes in front of the others. `None`: they cannot be read.
    async fn take(&self) -> Option<Vec<u8>> {
        let in_memory = self.memory.take();
        let file = self.file.borrow().clone();
        match (in_memory.is_empty(), file) {
            (true, Some(file)) => {
                let (at, left) = (self.taken.get(), self.stored.get() - self.taken.get());
                let bytes = file.read(at, left.min(READ_SIZE) as usize).await?;
                self.taken.set(at + bytes.len() as u64);
                Some(bytes)
            }
            _ => Some(in_memory),
        }
    }
}
