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
    source: Source,
    /// What has been read ahead. `None`: nothing has been.
    buffer: Option<Rc<Buffer>>,
    spawner: Rc<Spawner>,
}

/// What comes behind the buffer.
enum Source {
    /// The client takes what comes.
    Direct(UpstreamBody),
    Ahead(Reading),
    Ended(End),
}

/// A body that is read ahead.
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
    _permit: Permit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    File,
}

impl BufferedBody {
    /// `spawner`: it makes the files.
    pub fn new(body: UpstreamBody, spawner: Rc<Spawner>) -> BufferedBody {
        BufferedBody { source: Source::Direct(body), buffer: None, spawner }
    }

    /// Begins to read ahead, if as many responses may be.
    fn begin(&mut self) {
        let Source::Direct(body) = &self.source else { return };
        let Some(permit) = body.exchange.services.buffered_responses.take() else { return };
        let Source::Direct(body) = std::mem::replace(&mut self.source, Source::Ended(Ok(Trailers::new())))
        else {
            return;
        };
        let exchange = body.exchange.clone();
        exchange.services.counts.add(Count::ResponsesBuffered, 1);
        let buffer = Rc::new(Buffer::new(exchange.services.clone(), self.spawner.clone(), permit));
        self.buffer = Some(buffer.clone());
        self.source = Source::Ahead(Reading { exchange, end: Box::pin(read_into(buffer, body)) });
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) {
        if let Source::Ahead(reading) = &mut self.source
            && let Poll::Ready(end) = reading.end.as_mut().poll(cx)
        {
            self.source = Source::Ended(end);
        }
    }

    /// The buffer, if it has bytes.
    fn filled(&self) -> Option<&Rc<Buffer>> {
        self.buffer.as_ref().filter(|buffer| !buffer.is_empty())
    }

    async fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Source::Direct(body) = &mut self.source {
            return body.next_bytes().await;
        }
        poll_fn(|cx| {
            if self.filled().is_none() {
                self.poll_source(cx);
            }
            match self.filled().is_some() || matches!(self.source, Source::Ended(_)) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        if let Some(buffer) = self.filled().cloned() {
            match buffer.take().await {
                Some(bytes) => return Ok(Some(bytes)),
                None => self.source = Source::Ended(Err(EndReason::Unreadable)),
            }
        }
        match &self.source {
            Source::Ended(Err(why)) => Err(io::Error::other(why.text())),
            _ => Ok(None),
        }
    }
}

impl BodyStream for BufferedBody {
    fn next<'a>(&'a mut self, _: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_bytes())
    }

    fn abort_reason(&self) -> EndReason {
        match &self.source {
            Source::Direct(body) => body.abort_reason(),
            Source::Ended(Err(why)) => *why,
            Source::Ahead(_) | Source::Ended(Ok(_)) => EndReason::NotMade,
        }
    }

    fn has_more(&mut self) -> bool {
        match &mut self.source {
            Source::Direct(body) => body.has_more(),
            Source::Ahead(_) => self.filled().is_some(),
            Source::Ended(_) => true,
        }
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        match &mut self.source {
            Source::Direct(body) => body.take_buffered(),
            Source::Ahead(_) | Source::Ended(_) => Vec::new(),
        }
    }

    fn take_trailers(&mut self) -> Trailers {
        match &mut self.source {
            Source::Direct(body) => body.take_trailers(),
            Source::Ended(Ok(trailers)) => std::mem::take(trailers),
            Source::Ahead(_) | Source::Ended(Err(_)) => Trailers::new(),
        }
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Direct(body) => body.poll_request_body(cx),
            Source::Ahead(reading) => reading.exchange.poll_send(cx),
            Source::Ended(_) => Poll::Ready(()),
        }
    }

    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        self.begin();
        self.poll_source(cx);
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
    fn new(services: Rc<Services>, spawner: Rc<Spawner>, permit: Permit) -> Buffer {
        Buffer {
            services,
            spawner,
            memory: RefCell::default(),
            file: RefCell::default(),
            taken: Cell::default(),
            stored: Cell::default(),
            may_store: Cell::new(true),
            file_from: Instant::now() + FILE_AFTER,
            _permit: permit,
        }
    }

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

    /// Takes the bytes in front of the others. `None`: they cannot be read, and the error log says so.
    async fn take(&self) -> Option<Vec<u8>> {
        let in_memory = self.memory.take();
        let file = self.file.borrow().clone();
        let Some(file) = file.filter(|_| in_memory.is_empty()) else { return Some(in_memory) };
        let (at, left) = (self.taken.get(), self.stored.get() - self.taken.get());
        let read = file.read(at, left.min(READ_SIZE) as usize).await;
        match &read {
            Some(bytes) => self.taken.set(at + bytes.len() as u64),
            None => spool::report_unreadable(&self.services, A_RESPONSE),
        }
        read
    }
}
