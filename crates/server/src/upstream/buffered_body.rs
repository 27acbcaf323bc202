//! The body of an upstream's response, read ahead while the client takes nothing, so that the upstream is soon free for
//! other requests: a part into memory, and the rest, if the client stays behind and there is space for it, into a file.
//!
//! Nothing is delayed: what the client can take, it gets at once. When it has taken all that was read, the body passes as
//! it comes again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use taipan_http::trailers::Trailers;
use tokio::time::{Instant, sleep_until};

use super::body::UpstreamBody;
use super::exchange::UpstreamExchange;
use super::spool::{self, SpoolError, SpoolFile};
use crate::buffer::append;
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
/// Bytes in a second of a client that needs no file: writing and reading them would cost more than the upstream gains.
const FAST: u64 = 8 * 1024 * 1024;

/// What waits in a file, for the error log.
const A_RESPONSE: &str = "a response, which waits for its client";

pub struct BufferedBody {
    source: Source,
    /// What has been read ahead. `None`: the client keeps up.
    buffer: Option<Rc<Buffer>>,
    spawner: Option<Rc<Spawner>>,
    /// Whether the statistics have it: a client may fall behind again.
    is_counted: bool,
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
    /// Ready: the body has ended, or the client has caught up.
    source: Pin<Box<dyn Future<Output = Source>>>,
}

/// The fields behind a whole body. Errors: why it is incomplete.
type End = Result<Trailers, EndReason>;

/// The bytes that have been read, and that the client has not taken.
struct Buffer {
    services: Rc<Services>,
    spawner: Option<Rc<Spawner>>,
    client: Cell<Client>,
    /// Those in front of the others.
    memory: RefCell<Vec<u8>>,
    file: RefCell<Option<Rc<SpoolFile>>>,
    /// Those from `taken` to `stored` of the file.
    taken: Cell<u64>,
    stored: Cell<u64>,
    /// `false`: the disk or its bound has failed them, and the client has not taken all that is before.
    may_store: Cell<bool>,
    speed: Cell<Speed>,
    _permit: Permit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// It takes nothing.
    IsBehind,
    /// It waits for the next bytes.
    Waits,
}

/// What the client has taken since a time.
#[derive(Clone, Copy)]
struct Speed {
    since: Instant,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    File,
}

impl BufferedBody {
    /// `spawner`: it makes the file. `None`: all that is read ahead waits in memory.
    pub fn new(body: UpstreamBody, spawner: Option<Rc<Spawner>>) -> BufferedBody {
        BufferedBody { source: Source::Direct(body), buffer: None, spawner, is_counted: false }
    }

    /// Begins to read ahead, if as many responses may be.
    fn begin(&mut self) {
        let Source::Direct(body) = &self.source else { return };
        let exchange = body.exchange.clone();
        let Some(permit) = exchange.services.buffered_responses.take() else { return };
        let is_first = !std::mem::replace(&mut self.is_counted, true);
        exchange.services.counts.add(Count::ResponsesBuffered, u64::from(is_first));
        let buffer = Rc::new(Buffer::new(exchange.services.clone(), self.spawner.clone(), permit));
        self.buffer = Some(buffer.clone());
        self.source = match std::mem::replace(&mut self.source, Source::Ended(Ok(Trailers::new()))) {
            Source::Direct(body) => {
                Source::Ahead(Reading { exchange, source: Box::pin(read_into(buffer, body)) })
            }
            other => other,
        };
    }

    fn poll_source(&mut self, cx: &mut Context<'_>, client: Client) {
        let (Source::Ahead(reading), Some(buffer)) = (&mut self.source, &self.buffer) else { return };
        buffer.client.set(client);
        let Poll::Ready(source) = reading.source.as_mut().poll(cx) else { return };
        if let Source::Direct(_) = source {
            self.buffer = None;
        }
        self.source = source;
    }

    /// As `poll_source`, if the client has taken all that was read. Ready: there is something for it.
    fn poll_filled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.filled().is_none() {
            self.poll_source(cx, Client::Waits);
        }
        match self.filled().is_some() || !matches!(self.source, Source::Ahead(_)) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// The buffer, if it has bytes.
    fn filled(&self) -> Option<&Rc<Buffer>> {
        self.buffer.as_ref().filter(|buffer| !buffer.is_empty())
    }

    async fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|cx| self.poll_filled(cx)).await;
        if let Some(buffer) = self.filled().cloned() {
            match buffer.take().await {
                Some(bytes) => return Ok(Some(bytes)),
                None => self.source = Source::Ended(Err(EndReason::Unreadable)),
            }
        }
        match &mut self.source {
            Source::Direct(body) => body.next_bytes().await,
            Source::Ended(Err(why)) => Err(io::Error::other(why.text())),
            Source::Ahead(_) | Source::Ended(Ok(_)) => Ok(None),
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
            Source::Ahead(reading) => reading.exchange.abort_reason(),
            Source::Ended(Err(why)) => *why,
            Source::Ended(Ok(_)) => EndReason::NotMade,
        }
    }

    fn has_more(&mut self) -> bool {
        let is_filled = self.poll_filled(&mut Context::from_waker(Waker::noop())).is_ready();
        match &mut self.source {
            Source::Direct(body) => body.has_more(),
            Source::Ahead(_) | Source::Ended(_) => is_filled,
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
        self.poll_source(cx, Client::IsBehind);
    }
}

/// Reads the body as fast as it comes, while there is room for it, until the client waits for more.
async fn read_into(buffer: Rc<Buffer>, mut body: UpstreamBody) -> Source {
    loop {
        match buffer.unless_awaited(body.next_bytes()).await {
            Some(Ok(Some(bytes))) => buffer.put(bytes, body.left()).await,
            Some(Ok(None)) => return Source::Ended(Ok(body.take_trailers())),
            Some(Err(_)) => return Source::Ended(Err(body.abort_reason())),
            None => return Source::Direct(body),
        }
    }
}

impl Buffer {
    fn new(services: Rc<Services>, spawner: Option<Rc<Spawner>>, permit: Permit) -> Buffer {
        Buffer {
            services,
            spawner,
            client: Cell::new(Client::IsBehind),
            memory: RefCell::default(),
            file: RefCell::default(),
            taken: Cell::default(),
            stored: Cell::default(),
            may_store: Cell::new(true),
            speed: Cell::new(Speed::begin()),
            _permit: permit,
        }
    }

    fn is_empty(&self) -> bool {
        self.memory.borrow().is_empty() && !self.is_in_file()
    }

    fn is_in_file(&self) -> bool {
        self.taken.get() < self.stored.get()
    }

    /// Awaits `made`. `None`: the client has taken all, and would wait for it, too.
    async fn unless_awaited<T>(&self, made: impl Future<Output = T>) -> Option<T> {
        let mut made = pin!(made);
        poll_fn(|cx| match made.as_mut().poll(cx) {
            Poll::Ready(made) => Poll::Ready(Some(made)),
            Poll::Pending if self.is_empty() && self.client.get() == Client::Waits => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Adds bytes behind the others, as soon as they have a place. `left`: so many follow, if that is known.
    async fn put(&self, mut bytes: Vec<u8>, left: Option<u64>) {
        // A part in a file would not free the upstream, and leave no space to others.
        let may_fit = left.unwrap_or(0).saturating_add(bytes.len() as u64) <= self.most();
        while self.place(bytes.len(), may_fit).await == Place::File {
            match self.store(bytes, left).await {
                Ok(()) => return,
                Err(unstored) => bytes = unstored,
            }
        }
        let mut memory = self.memory.borrow_mut();
        match memory.is_empty() {
            true => *memory = bytes,
            false => append(&mut memory, &bytes),
        }
    }

    /// Waits for a place for so many bytes. `may_fit`: a file may have them, and what follows.
    async fn place(&self, bytes: usize, may_fit: bool) -> Place {
        let mut timer = pin!(sleep_until(self.speed.get().since + FILE_AFTER));
        poll_fn(|cx| {
            if self.is_empty() && !self.may_store.replace(true) {
                // Its disk may still be writing.
                self.file.take();
            }
            if self.is_in_file() {
                return match self.may_store.get() {
                    true => Poll::Ready(Place::File),
                    false => Poll::Pending,
                };
            }
            let in_memory = self.memory.borrow().len();
            if in_memory == 0 || in_memory + bytes <= MEMORY {
                return Poll::Ready(Place::Memory);
            }
            // Twice at most: then the time is measured anew.
            while self.may_store.get() && may_fit && timer.as_mut().poll(cx).is_ready() {
                if !self.speed.get().is_fast(Instant::now()) {
                    return Poll::Ready(Place::File);
                }
                self.speed.set(Speed::begin());
                timer.as_mut().reset(self.speed.get().since + FILE_AFTER);
            }
            Poll::Pending
        })
        .await
    }

    /// Writes bytes to the file, or returns them. `left`: as in `put`; there has to be space for them.
    async fn store(&self, bytes: Vec<u8>, left: Option<u64>) -> Result<(), Vec<u8>> {
        let bytes = Arc::new(bytes);
        match self.unless_awaited(self.try_store(bytes.clone(), left)).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => spool::report(&self.services, A_RESPONSE, &error),
            // The client gets them at once, however long the disk takes.
            None => {}
        }
        self.may_store.set(false);
        if !self.is_in_file() {
            self.file.take();
        }
        self.speed.set(Speed::begin());
        Err(Arc::unwrap_or_clone(bytes))
    }

    async fn try_store(&self, bytes: Arc<Vec<u8>>, left: Option<u64>) -> Result<(), SpoolError> {
        let open = self.file.borrow().clone();
        let file = match open {
            Some(file) => file,
            None => {
                let spawner = self.spawner.as_ref().ok_or(SpoolError::TooLarge)?;
                let file = Rc::new(SpoolFile::open(&self.services, spawner).await?);
                self.file.replace(Some(file.clone()));
                file
            }
        };
        if !self.is_in_file() {
            self.taken.set(0);
            self.stored.set(0);
        }
        let (at, length) = (self.stored.get(), bytes.len() as u64);
        let needed = at.saturating_add(length);
        match left {
            Some(left) => file.reserve(needed.saturating_add(left), self.most())?,
            None => file.reserve_and_leave(needed, self.most())?,
        }
        file.write(bytes, at).await?;
        self.stored.set(at + length);
        Ok(())
    }

    /// Bytes of all files of responses. The other half is for the bodies of requests.
    fn most(&self) -> u64 {
        self.spawner.as_ref().map_or(0, |_| self.services.site.scripts.spool_bytes / 2)
    }

    /// Takes the bytes in front of the others. `None`: they cannot be read, and the error log says so.
    async fn take(&self) -> Option<Vec<u8>> {
        let in_memory = self.memory.take();
        let bytes = if in_memory.is_empty() { self.take_from_file().await? } else { in_memory };
        let Speed { since, bytes: before } = self.speed.get();
        self.speed.set(Speed { since, bytes: before + bytes.len() as u64 });
        Some(bytes)
    }

    async fn take_from_file(&self) -> Option<Vec<u8>> {
        let file = self.file.borrow().clone()?;
        let (at, left) = (self.taken.get(), self.stored.get() - self.taken.get());
        let read = file.read(at, left.min(READ_SIZE) as usize).await;
        match &read {
            Some(bytes) => self.taken.set(at + bytes.len() as u64),
            None => spool::report_unreadable(&self.services, A_RESPONSE),
        }
        read
    }
}

impl Speed {
    fn begin() -> Speed {
        Speed { since: Instant::now(), bytes: 0 }
    }

    fn is_fast(self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.since).as_secs().max(1);
        self.bytes >= FAST.saturating_mul(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_fast_by_what_it_has_taken_in_each_second() {
        let begun = Speed::begin();
        for (seconds, bytes, is_fast) in [
            (1, 0, false),
            (1, FAST - 1, false),
            (1, FAST, true),
            (2, FAST, false),
            (2, 2 * FAST, true),
            (u64::from(u32::MAX), 2 * FAST, false),
        ] {
            let now = begun.since + Duration::from_secs(seconds);
            assert_eq!(Speed { bytes, ..begun }.is_fast(now), is_fast, "{bytes} in {seconds} s");
        }
    }
}
