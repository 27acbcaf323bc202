//! HTTP/1.x without a socket: bytes become requests, requests become answers. What has come is handed in,
//! what is to be done about it is handed out.
//!
//! Between two requests it owns no buffer: only half a request (`rest`), or a request that waits for its
//! body or for a disk, owns memory.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use http::chunked::{self, Event};
use http::framing::Framing;
use http::head::{self, FieldStore, Head, HeadError, Method, Persistence, Version};
use http::status::Status;

use super::Peer;
use super::output::{self, Batch, Manner, Output};
use crate::exchange::{self, Answer, Trust};
use crate::files::{Fetch, Fetched};
use crate::log::access::Asked;
use crate::serve::Reply;
use crate::worker::Worker;

/// Where a connection stands in its present request.
pub struct Http1 {
    peer: Peer,
    /// Requests answered so far.
    pub requests: u32,
    /// When the first byte of the request at hand came.
    pub began: u64,
    /// Input that has not been used up.
    pub rest: Vec<u8>,
    /// A request whose body is being read and thrown away.
    held: Option<Held>,
    /// What has been looked up for the request at hand.
    pub fetched: Vec<Fetched>,
    /// The reply to the request at hand, when it took a while.
    pub made: Option<Reply>,
}

/// What is to be done after looking at the input.
pub enum Next {
    /// Read more: what is there is no whole request.
    Read(Part),
    Send(Output),
    /// Wait, put the result into `fetched`, and go on from `rest`.
    Fetch(Fetch),
    /// Wait, put the result into `made`, and go on from `rest`.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
}

/// What part of a request is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    All,
    Head,
    Body,
}

/// A request with a body that nobody wants.
struct Held {
    head: Vec<u8>,
    body: Unwanted,
    /// Bytes of content that are read; more is 413.
    limit: u64,
}

/// How much of the body is still to come.
enum Unwanted {
    Sized(u64),
    Chunked { decoder: Box<chunked::Decoder>, seen: u64 },
    Done,
}

enum Progress {
    More,
    Through,
}

/// One step through the input.
enum Taken {
    /// So many bytes.
    Some(usize),
    /// So many bytes, and there is nothing whole behind them.
    Partial(usize, Part),
    /// So many bytes, and the request behind them has to wait.
    Paused(Next, usize),
}

impl Http1 {
    pub fn new(peer: Peer, requests: u32) -> Http1 {
        Http1 { peer, requests, began: 0, rest: Vec::new(), held: None, fetched: Vec::new(), made: None }
    }

    /// Is there anything of a request that has not been answered?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.rest.is_empty() && self.held.is_none()
    }

    /// Answers as many requests from the first `have` bytes of the worker's buffer as fit into one write.
    #[inline]
    pub fn respond(&mut self, worker: &Rc<Worker>, have: usize) -> Next {
        worker.clock.read();
        let desk = &mut *worker.desk.borrow_mut();
        let (out, records) = desk.lend();
        let mut batch = Batch::new(out, records);
        let input = &desk.buffer[..have];
        let (mut used, mut next) = (0, Next::Read(Part::All));
        while batch.has_room() {
            match self.take(worker, &input[used..], &mut batch) {
                Taken::Some(n) => used += n,
                Taken::Partial(n, part) => {
                    used += n;
                    next = Next::Read(part);
                    break;
                }
                Taken::Paused(wait, n) => {
                    used += n;
                    next = wait;
                    break;
                }
            }
        }
        self.keep(&input[used..]);
        if !batch.is_empty() {
            // What was paused is asked again when this has been sent.
            return Next::Send(batch.finish());
        }
        desk.take_back(batch.into_buffers());
        next
    }

    /// 408 for the request that did not become whole in time; `None` if none had begun.
    pub fn time_out(&mut self, worker: &Rc<Worker>) -> Option<Output> {
        let mut batch = self.incomplete(worker, Status::REQUEST_TIMEOUT)?;
        batch.records.end_early("request too slow");
        Some(batch.finish())
    }

    /// Writes the log line of a request that broke off before it was whole.
    pub fn break_off(&mut self, worker: &Rc<Worker>, why: &str) {
        if let Some(batch) = self.incomplete(worker, Status::BAD_REQUEST) {
            let (out, records) = batch.into_buffers();
            worker.access.write(&records, 0, Some(why));
            worker.desk.borrow_mut().take_back((out, records));
        }
    }

    /// Takes one step through the input: a head, a piece of an unwanted body, or a whole request.
    #[inline]
    fn take(&mut self, worker: &Rc<Worker>, input: &[u8], batch: &mut Batch) -> Taken {
        if let Some(mut held) = self.held.take() {
            let taken = self.take_held(worker, &mut held, input, batch);
            if !matches!(taken, Taken::Some(_)) {
                self.held = Some(held);
            }
            return taken;
        }
        let mut store = FieldStore::new();
        match head::parse(input, &mut store, &worker.site.limits.head) {
            Ok(None) if input.is_empty() => Taken::Partial(0, Part::All),
            Ok(None) => Taken::Partial(0, Part::Head),
            Err(error) => self.refuse_head(worker, error, input, batch),
            Ok(Some((head, used))) => match body_of(worker, &head) {
                Ok(None) => match self.answer(worker, &head, batch) {
                    None => Taken::Some(used),
                    Some(next) => Taken::Paused(next, 0),
                },
                Ok(Some((body, limit))) => {
                    self.held = Some(Held { head: input[..used].to_vec(), body, limit });
                    Taken::Some(used)
                }
                Err(status) => {
                    self.refuse(worker, status, Some(&head), batch);
                    Taken::Some(input.len())
                }
            },
        }
    }

    /// Reads on in an unwanted body, and answers its request when it is through.
    fn take_held(&mut self, worker: &Rc<Worker>, held: &mut Held, input: &[u8], batch: &mut Batch) -> Taken {
        let used = match held.body.skip(input, held.limit) {
            Ok((n, Progress::More)) => return Taken::Partial(n, Part::Body),
            Ok((n, Progress::Through)) => n,
            Err(status) => {
                let mut store = FieldStore::new();
                let head = parse_held(worker, &held.head, &mut store);
                self.refuse(worker, status, head.as_ref(), batch);
                return Taken::Some(input.len());
            }
        };
        held.body = Unwanted::Done;
        let mut store = FieldStore::new();
        let Some(head) = parse_held(worker, &held.head, &mut store) else { return Taken::Some(input.len()) };
        match self.answer(worker, &head, batch) {
            None => Taken::Some(used),
            Some(next) => Taken::Paused(next, used),
        }
    }

    /// Answers one request into the batch, unless it has to wait.
    #[inline]
    fn answer(&mut self, worker: &Rc<Worker>, head: &Head<'_>, batch: &mut Batch) -> Option<Next> {
        let host = worker.site.hosts.find(head.authority);
        let (reply, trust) = match self.made.take() {
            Some(reply) => (reply, Trust::Kept),
            // What cannot be answered at once goes alone: what came before it is sent first.
            None => match exchange::answer(worker, host, head, &self.fetched) {
                (Answer::Now(reply), trust) => (reply, trust),
                (Answer::Fetch(fetch), _) => return Some(Next::Fetch(fetch)),
                (Answer::Later(reply), _) => return Some(Next::Later(reply)),
            },
        };
        self.fetched.clear();
        let manner = self.manner(worker, head, &reply, trust);
        self.push(worker, reply, Some(head), manner, batch);
        None
    }

    /// How the connection goes on after this answer.
    #[inline]
    fn manner(&self, worker: &Worker, head: &Head<'_>, reply: &Reply, trust: Trust) -> Manner {
        let limit = worker.site.limits.requests;
        let last = limit != 0 && self.requests + 1 >= limit;
        let unread = head.expects_continue && head.framing != Framing::None;
        let closes = last
            || unread
            || trust == Trust::Lost
            || worker.is_leaving()
            || (head.version == Version::Http10 && reply.is_streamed());
        match (head.persistence, head.version) {
            _ if closes => Manner::Close,
            (Persistence::Close, _) => Manner::Leave,
            (Persistence::KeepAlive, Version::Http10) => Manner::StayOld,
            (Persistence::KeepAlive, Version::Http11) => Manner::Stay,
        }
    }

    #[inline]
    fn push(
        &mut self,
        worker: &Worker,
        reply: Reply,
        head: Option<&Head<'_>>,
        manner: Manner,
        batch: &mut Batch,
    ) {
        self.requests = self.requests.saturating_add(1);
        let version = head.map_or(Version::Http11, |h| h.version);
        let line = output::connection_line(&reply, manner, version);
        let host = head.map_or(0, |h| worker.site.hosts.find(h.authority));
        let asked = Asked { peer: self.peer, head, host, time: worker.clock.now(), began: self.began };
        worker.access.record(&mut batch.records, &asked, &reply, line.len());
        batch.push(reply, manner, version, line);
    }

    /// An answer after which the connection closes, for nobody knows where the next request would begin.
    fn refuse(&mut self, worker: &Worker, status: Status, head: Option<&Head<'_>>, batch: &mut Batch) {
        let method = head.map_or(Method::Unknown, |h| h.method);
        let reply = exchange::refuse(worker, method, status);
        self.push(worker, reply, head, Manner::Close, batch);
    }

    /// As `refuse`, for a head that is none. Even so, one that begins as HEAD does gets no content.
    fn refuse_head(&mut self, worker: &Worker, error: HeadError, input: &[u8], batch: &mut Batch) -> Taken {
        let start = input.strip_prefix(b"\r\n").unwrap_or(input);
        let method = if start.starts_with(b"HEAD ") { Method::Head } else { Method::Unknown };
        let reply = exchange::refuse(worker, method, error.status());
        self.push(worker, reply, None, Manner::Close, batch);
        Taken::Some(input.len())
    }

    /// Keeps what was not used up.
    #[inline]
    fn keep(&mut self, left: &[u8]) {
        if left.is_empty() {
            if self.rest.capacity() > 0 {
                self.rest = Vec::new();
            }
            return;
        }
        self.rest.clear();
        self.rest.extend_from_slice(left);
    }

    /// The answer to a request of which only a part is here.
    fn incomplete(&mut self, worker: &Rc<Worker>, status: Status) -> Option<Batch> {
        // An empty line that nothing follows is no request (RFC 9112 §2.2).
        if self.held.is_none() && self.rest.trim_ascii_start().is_empty() {
            return None;
        }
        worker.clock.read();
        let (out, records) = worker.desk.borrow_mut().lend();
        let mut batch = Batch::new(out, records);
        let held = self.held.take();
        self.rest = Vec::new();
        let mut store = FieldStore::new();
        let head = held.as_ref().and_then(|h| parse_held(worker, &h.head, &mut store));
        self.refuse(worker, status, head.as_ref(), &mut batch);
        Some(batch)
    }
}

/// A head that was whole before, and so is now.
fn parse_held<'a: 's, 's>(
    worker: &Worker,
    bytes: &'a [u8],
    store: &'s mut FieldStore<'a>,
) -> Option<Head<'s>> {
    let parsed = head::parse(bytes, store, &worker.site.limits.head);
    parsed.ok().flatten().map(|(head, _)| head)
}

/// The body that must be read before the request is answered, and how much of it may come. With `Expect`
/// the client waits for leave to send it; it gets its answer instead, and the connection closes.
fn body_of(worker: &Worker, head: &Head<'_>) -> Result<Option<(Unwanted, u64)>, Status> {
    if head.expects_continue || !head.framing.has_body() {
        return Ok(None);
    }
    let limit = exchange::body_limit(worker, head);
    match head.framing {
        Framing::Sized(n) if n > limit => Err(Status::CONTENT_TOO_LARGE),
        Framing::Sized(n) => Ok(Some((Unwanted::Sized(n), limit))),
        Framing::Chunked => Ok(Some((Unwanted::chunked(), limit))),
        Framing::None => Ok(None),
    }
}

impl Unwanted {
    fn chunked() -> Unwanted {
        Unwanted::Chunked {
            decoder: Box::new(chunked::Decoder::new(chunked::ChunkLimits::default())),
            seen: 0,
        }
    }

    /// Throws away what of `input` belongs to the body, and says how much that was. Errors: the status
    /// of the answer to a body that is malformed, or larger than `limit`.
    fn skip(&mut self, input: &[u8], limit: u64) -> Result<(usize, Progress), Status> {
        match self {
            Unwanted::Done => Ok((0, Progress::Through)),
            Unwanted::Sized(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= n as u64;
                Ok((n, if *left == 0 { Progress::Through } else { Progress::More }))
            }
            Unwanted::Chunked { decoder, seen } => {
                let mut used = 0;
                loop {
                    let (n, event) = decoder.next(&input[used..]).map_err(|e| e.status())?;
                    used += n;
                    match event {
                        Event::NeedMore => return Ok((used, Progress::More)),
                        Event::End => return Ok((used, Progress::Through)),
                        Event::Data(data) => *seen += data.len() as u64,
                    }
                    if *seen > limit {
                        return Err(Status::CONTENT_TOO_LARGE);
                    }
                }
            }
        }
    }
}
