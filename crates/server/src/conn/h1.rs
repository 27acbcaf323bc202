//! HTTP/1.x without a socket: bytes become requests, requests become answers. What has come is handed in,
//! what is to be done about it is handed out.
//!
//! Between two requests it owns no buffer: only half a request (`rest`), or a request that waits for its
//! body or for a disk, owns memory.

mod body;
pub mod script;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use http::framing::Framing;
use http::head::{self, FieldStore, Head, HeadError, Method, Persistence, Version};
use http::rule::{BODY_TOO_LARGE, Rule};
use http::status::Status;
use http::target::TargetError;
use site::proxies::{Origin, Via};

pub use self::body::Progress;
use self::body::Rest;
use super::Peer;
use super::output::{self, Batch, Manner, Output};
use crate::buffer::append;
use crate::exchange::{self, Answer, Known, Led, Trust};
use crate::files::Fetch;
use crate::log::access::{Asked, Records};
use crate::serve::Reply;
use crate::serve::cgi::Run;
use crate::worker::Worker;

/// Where a connection stands in its present request.
pub struct Http1 {
    peer: Peer,
    /// Who has made the request at hand, and how it has come: from the peer, unless that is a trusted proxy.
    client: Peer,
    via: Via,
    /// Requests answered so far.
    pub requests: u32,
    /// When the first byte of the request at hand came.
    pub began: u64,
    /// Input that has not been used up.
    pub rest: Vec<u8>,
    /// Input behind the request whose answer is being sent: none of it is looked at before that is done.
    behind: Vec<u8>,
    /// A request whose body is being read and thrown away.
    held: Option<Held>,
    /// What has been found out for the request at hand.
    pub known: Known,
    /// The reply to the request at hand, when it took a while, or was known before the request was.
    pub made: Option<Made>,
    /// Bytes of the body at hand that a script is to have, or has left, and that are still to come.
    pub left: u64,
    /// The rule that the body at hand has broken, where a script was to have it.
    pub broken: Option<&'static Rule>,
}

/// What came of waiting for the answer to a request.
pub enum Made {
    Reply(Reply, Trust),
    /// What a script has led to.
    Led(Led),
}

/// What is to be done after looking at the input.
pub enum Next {
    /// Read more: what is there is no whole request.
    Read(Part),
    Send(Output),
    /// Wait, put the result into `known`, and go on from `rest`.
    Fetch(Fetch),
    /// Wait, put the result into `made`, and go on from `rest`.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
    /// Have a script run, which gets the body of the request, put what comes of it into `made`, and go
    /// on from `rest`.
    Run(Box<Run>),
}

/// What part of a request is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    All,
    Head,
    Body,
}

/// A request whose body is on its way.
struct Held {
    head: Vec<u8>,
    body: Body,
    /// Bytes of content that are read; more is 413.
    limit: u64,
    /// How often scripts have led elsewhere.
    led: usize,
}

enum Body {
    /// Nobody wants it: it is thrown away before the request is answered.
    Unwanted(Rest),
    /// A script gets it.
    Wanted(Rest),
    /// Whoever it was for has got it, or as much as it took: `Http1::left` is still to come.
    Passed,
}

/// Has all of a request been read when it is answered?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Through,
    Unread,
}

/// What can be said about a request.
enum Answered {
    Reply(Reply, Trust),
    Wait(Next),
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
        let (rest, known) = (Vec::new(), Known::default());
        let (client, via) = (peer, Via::Nothing);
        let behind = Vec::new();
        Http1 {
            peer,
            client,
            via,
            requests,
            began: 0,
            rest,
            behind,
            held: None,
            known,
            made: None,
            left: 0,
            broken: None,
        }
    }

    /// For a connection whose one request is refused.
    pub fn refusal(peer: Peer, reply: Reply) -> Http1 {
        Http1 { made: Some(Made::Reply(reply, Trust::Lost)), ..Http1::new(peer, 0) }
    }

    /// Is there anything of a request that has not been answered?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.rest.is_empty() && self.held.is_none()
    }

    /// Bytes of input that have not been used up.
    pub fn unread(&self) -> usize {
        self.rest.len() + self.behind.len()
    }

    /// An answer is being sent: what came behind its request has to wait. But of the request's own body a script may
    /// still be taking what it needs.
    pub fn set_aside(&mut self) {
        if self.left == 0 {
            self.behind = std::mem::take(&mut self.rest);
        }
    }

    /// The answer was the last: what came behind its request is not looked at any more.
    pub fn forget_behind(&mut self) {
        self.behind = Vec::new();
    }

    /// The answer is sent. More may have come meanwhile.
    pub fn take_up(&mut self) {
        let came = std::mem::replace(&mut self.rest, std::mem::take(&mut self.behind));
        append(&mut self.rest, &came);
    }

    /// Answers as many requests from the first `have` bytes of the worker's buffer as fit into one write.
    #[inline]
    pub fn respond(&mut self, worker: &Rc<Worker>, have: usize) -> Next {
        worker.clock.read();
        // It is in the buffer; should an answer panic, the requests in it have had theirs.
        self.rest.clear();
        let desk = &mut *worker.desk.borrow_mut();
        let mut batch = Batch::new(worker, desk.lend());
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

    /// The answer to a request that took too long, with why; `None` if none had begun.
    pub fn time_out(&mut self, worker: &Rc<Worker>, status: Status, why: &'static str) -> Option<Output> {
        let mut batch = self.incomplete(worker, status)?;
        batch.records.end_early(why);
        Some(batch.finish())
    }

    /// Writes the log line of a request that broke off before it was whole, or answered. Nobody is sent its
    /// `status`.
    pub fn break_off(&mut self, worker: &Worker, status: Status, why: &str) {
        if let Some(batch) = self.incomplete(worker, status) {
            let (out, records) = batch.into_buffers();
            worker.access.write(&records, 0, Some(why));
            worker.desk.borrow_mut().take_back((out, records));
        }
    }

    /// Takes one step through the input: a head, a piece of an unwanted body, or a whole request.
    #[inline]
    fn take(&mut self, worker: &Rc<Worker>, input: &[u8], batch: &mut Batch<'_>) -> Taken {
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
            Err(error) => self.take_escaped(worker, error, input, batch),
            Ok(Some((mut head, used))) => {
                self.find_client(worker, &mut head);
                self.take_request(worker, &head, input, used, batch)
            }
        }
    }

    /// Takes a request whose head is the first `used` bytes of the input.
    // Always: as a function of its own it costs every request a copy of what it returns.
    #[inline(always)]
    fn take_request(
        &mut self,
        worker: &Rc<Worker>,
        head: &Head<'_>,
        input: &[u8],
        used: usize,
        batch: &mut Batch<'_>,
    ) -> Taken {
        match body_of(head) {
            None => match self.answer(worker, head, Reading::of(head), batch) {
                None => Taken::Some(used),
                Some(Next::Run(run)) if batch.is_empty() => self.pause_for(run, head, &input[..used]),
                Some(next) => Taken::Paused(next, 0),
            },
            Some(_) if !is_read_first(head) || exchange::may_run(worker, head) => {
                self.offer(worker, head, input, used, batch)
            }
            Some(body) => self.discard(worker, head, input, (used, body), batch),
        }
    }

    /// Takes a step through input that could not be read, if it can be once what clients send raw is
    /// percent-encoded; otherwise refuses it. From here on, the target is as if it had been sent so.
    #[cold]
    #[inline(never)]
    fn take_escaped(
        &mut self,
        worker: &Rc<Worker>,
        error: HeadError,
        input: &[u8],
        batch: &mut Batch<'_>,
    ) -> Taken {
        let escaped = match error {
            HeadError::Target(TargetError::Byte) => head::escape_target(input),
            _ => None,
        };
        let Some((escaped, longer)) = escaped else { return self.refuse_head(worker, error, input, batch) };
        let mut store = FieldStore::new();
        match head::parse(&escaped, &mut store, &worker.site.limits.head) {
            Ok(None) => Taken::Partial(0, Part::Head),
            Err(error) => self.refuse_head(worker, error, input, batch),
            // What is used up takes fewer bytes as it was sent, unless it is nothing.
            Ok(Some((mut head, used))) => {
                self.find_client(worker, &mut head);
                match self.take_request(worker, &head, &escaped, used, batch) {
                    Taken::Some(n) => Taken::Some(n.saturating_sub(longer)),
                    Taken::Partial(n, part) => Taken::Partial(n.saturating_sub(longer), part),
                    Taken::Paused(next, n) => Taken::Paused(next, n.saturating_sub(longer)),
                }
            }
        }
    }

    /// A request is answered when its body, which nobody wants, has been read and thrown away.
    fn discard(
        &mut self,
        worker: &Rc<Worker>,
        head: &Head<'_>,
        input: &[u8],
        (used, body): (usize, Rest),
        batch: &mut Batch,
    ) -> Taken {
        let limit = exchange::body_limit(worker, head);
        if matches!(body, Rest::Sized(bytes) if bytes > limit) {
            self.made = None;
            self.refuse(worker, (Status::CONTENT_TOO_LARGE, Some(BODY_TOO_LARGE)), Some(head), batch);
            return Taken::Some(input.len());
        }
        self.hold(&input[..used], Body::Unwanted(body), limit);
        Taken::Some(used)
    }

    /// Has a request with a body answered by a script, if there is one, which gets the body. An error is
    /// answered at once; where not all of the body is here, the connection closes over the rest of it.
    fn offer(
        &mut self,
        worker: &Rc<Worker>,
        head: &Head<'_>,
        input: &[u8],
        used: usize,
        batch: &mut Batch,
    ) -> Taken {
        match self.reply(worker, head) {
            Answered::Reply(reply, trust) => {
                let (is_error, mut body) = (reply.status().is_error(), Rest::of(head.framing));
                let limit = exchange::body_limit(worker, head);
                let is_allowed = !matches!(body, Rest::Sized(bytes) if bytes > limit);
                if is_error
                    && is_allowed
                    && let Ok((_, Progress::More)) = body.skip(&input[used..], limit)
                {
                    self.made = Some(Made::Reply(reply, trust));
                    // It is there, and so nothing is waited for.
                    self.answer(worker, head, Reading::Unread, batch);
                    return Taken::Some(input.len());
                }
                self.made = Some(Made::Reply(reply, trust));
                self.discard(worker, head, input, (used, Rest::of(head.framing)), batch)
            }
            Answered::Wait(Next::Run(run)) if batch.is_empty() => self.pause_for(run, head, &input[..used]),
            Answered::Wait(next) => Taken::Paused(next, 0),
        }
    }

    /// What has come before is answered: a script runs, and gets what is behind the head.
    fn pause_for(&mut self, run: Box<Run>, head: &Head<'_>, bytes: &[u8]) -> Taken {
        self.hold(bytes, Body::Wanted(Rest::of(head.framing)), run.max_body);
        Taken::Paused(Next::Run(run), bytes.len())
    }

    fn hold(&mut self, head: &[u8], body: Body, limit: u64) {
        self.held = Some(Held { head: head.to_vec(), body, limit, led: 0 });
    }

    /// Reads on in an unwanted body, and answers its request when it is through.
    fn take_held(
        &mut self,
        worker: &Rc<Worker>,
        held: &mut Held,
        input: &[u8],
        batch: &mut Batch<'_>,
    ) -> Taken {
        let used = match &mut held.body {
            Body::Unwanted(rest) => match rest.skip(input, held.limit) {
                Ok((n, Progress::More)) => return Taken::Partial(n, Part::Body),
                Ok((n, Progress::Through)) => n,
                Err((status, rule)) => {
                    self.made = None;
                    let mut store = FieldStore::new();
                    let head = parse_held(worker, self.peer, &held.head, &mut store);
                    self.refuse(worker, (status, Some(rule)), head.as_ref(), batch);
                    return Taken::Some(input.len());
                }
            },
            Body::Wanted(_) | Body::Passed => 0,
        };
        let reading = match &held.body {
            Body::Passed if self.left == 0 => Reading::Through,
            Body::Wanted(Rest::Done) => Reading::Through,
            Body::Wanted(_) | Body::Passed => Reading::Unread,
            Body::Unwanted(_) => {
                held.body = Body::Unwanted(Rest::Done);
                Reading::Through
            }
        };
        let mut store = FieldStore::new();
        let Some(head) = parse_held(worker, self.peer, &held.head, &mut store) else {
            return Taken::Some(input.len());
        };
        match self.answer(worker, &head, reading, batch) {
            None => Taken::Some(used),
            Some(next) => Taken::Paused(next, used),
        }
    }

    /// Answers one request into the batch, unless it has to wait.
    #[inline]
    fn answer(
        &mut self,
        worker: &Rc<Worker>,
        head: &Head<'_>,
        reading: Reading,
        batch: &mut Batch<'_>,
    ) -> Option<Next> {
        let (reply, trust) = match self.reply(worker, head) {
            Answered::Reply(reply, trust) => (reply, trust),
            // What cannot be answered at once goes alone: what came before it is sent first.
            Answered::Wait(next) => return Some(next),
        };
        let manner = self.manner(worker, head, &reply, trust, reading);
        self.push(worker, reply, Some(head), manner, batch);
        if trust == Trust::Lost {
            self.name_rule(head, batch);
        }
        None
    }

    /// Has the log say which rule the request has broken that was answered last.
    #[cold]
    fn name_rule(&mut self, head: &Head<'_>, batch: &mut Batch<'_>) {
        if let Some(rule) = self.broken.take().or_else(|| exchange::broken_rule(head)) {
            batch.records.name_rule(rule);
        }
    }

    /// Has one request answered, which has its line even if that panics.
    #[inline]
    fn ask(&self, worker: &Rc<Worker>, host: usize, head: &Head<'_>) -> (Answer, Trust) {
        let asked = Asked {
            client: self.client,
            head: Some(head),
            host,
            time: worker.clock.now(),
            began: self.began,
        };
        let unanswered = Unanswered { worker, asked };
        let answer = exchange::answer(worker, host, head, &self.known);
        std::mem::forget(unanswered);
        answer
    }

    /// The reply to a request, unless it has to wait.
    #[inline]
    fn reply(&mut self, worker: &Rc<Worker>, head: &Head<'_>) -> Answered {
        let host = worker.site.hosts.find(head.authority);
        let answer = match self.made.take() {
            Some(Made::Reply(reply, trust)) => (Answer::Now(reply), trust),
            Some(Made::Led(led)) => {
                let answer = led.answer(worker, head, &self.known);
                let trust = if self.broken.is_some() { Trust::Lost } else { Trust::Kept };
                if !matches!(answer, Answer::Now(_)) {
                    // It is asked again with what comes of it.
                    self.made = Some(Made::Led(led));
                }
                (answer, trust)
            }
            None => self.ask(worker, host, head),
        };
        match answer {
            (Answer::Now(reply), trust) => {
                self.known.forget();
                Answered::Reply(reply, trust)
            }
            (Answer::Fetch(fetch), _) => Answered::Wait(Next::Fetch(fetch)),
            (Answer::Later(reply), _) => Answered::Wait(Next::Later(reply)),
            (Answer::Run(run), _) => Answered::Wait(Next::Run(run)),
        }
    }

    /// How the connection goes on after this answer.
    #[inline]
    fn manner(
        &self,
        worker: &Worker,
        head: &Head<'_>,
        reply: &Reply,
        trust: Trust,
        reading: Reading,
    ) -> Manner {
        let limit = worker.site.limits.requests;
        let last = limit != 0 && self.requests + 1 >= limit;
        let closes = last
            || reading == Reading::Unread
            || trust == Trust::Lost
            || worker.closes_connections()
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
        batch: &mut Batch<'_>,
    ) {
        self.requests = self.requests.saturating_add(1);
        worker.counts.answered(reply.status());
        let version = head.map_or(Version::Http11, |h| h.version);
        let line = output::connection_line(&reply, manner, version);
        let host = head.map_or(0, |h| worker.site.hosts.find(h.authority));
        let asked = Asked { client: self.client, head, host, time: worker.clock.now(), began: self.began };
        worker.access.record(&mut batch.records, &asked, &reply, line.len());
        batch.push(reply, manner, version, line);
    }

    /// An answer after which the connection closes, for nobody knows where the next request would begin.
    fn refuse(
        &mut self,
        worker: &Worker,
        (status, rule): (Status, Option<&'static Rule>),
        head: Option<&Head<'_>>,
        batch: &mut Batch<'_>,
    ) {
        let method = head.map_or(Method::Unknown, |h| h.method);
        let reply = exchange::refuse(worker, method, status, rule);
        self.push(worker, reply, head, Manner::Close, batch);
        if let Some(rule) = rule {
            batch.records.name_rule(rule);
        }
    }

    /// As `refuse`, for a head that is none. Even so, one that begins as HEAD does gets no content.
    fn refuse_head(
        &mut self,
        worker: &Worker,
        error: HeadError,
        input: &[u8],
        batch: &mut Batch<'_>,
    ) -> Taken {
        self.is_from_its_peer();
        let is_head = input.trim_ascii_start().starts_with(b"HEAD ");
        let method = if is_head { Method::Head } else { Method::Unknown };
        let reply = exchange::refuse(worker, method, error.status(), Some(error.rule()));
        self.push(worker, reply, None, Manner::Close, batch);
        batch.records.name_rule(error.rule());
        Taken::Some(input.len())
    }

    /// Notes who has made the request at hand, and gives its head the scheme and the host that it was made with.
    #[inline]
    fn find_client(&mut self, worker: &Worker, head: &mut Head<'_>) {
        if worker.site.trusted_proxies.is_empty() {
            return;
        }
        self.is_from_its_peer();
        if let Some(origin) = origin(worker, self.peer, head) {
            self.via = Via::TrustedProxy;
            self.client = origin.client.map_or(self.peer, Peer::from);
        }
    }

    /// Nothing says of the request at hand that another has made it. Those before it on the connection may have had
    /// other clients.
    fn is_from_its_peer(&mut self) {
        (self.client, self.via) = (self.peer, Via::Nothing);
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

    /// The answer to a request of which only a part is here, or which was given up.
    fn incomplete<'w>(&mut self, worker: &'w Worker, status: Status) -> Option<Batch<'w>> {
        // An empty line that nothing follows is no request (RFC 9112 §2.2).
        if self.held.is_none() && self.rest.trim_ascii_start().is_empty() {
            return None;
        }
        worker.clock.read();
        if self.held.is_none() {
            self.is_from_its_peer();
        }
        let mut batch = Batch::new(worker, worker.desk.borrow_mut().lend());
        let rest = std::mem::take(&mut self.rest);
        let head = self.held.take().map_or(rest, |held| held.head);
        let mut store = FieldStore::new();
        let head = parse_held(worker, self.peer, &head, &mut store);
        self.refuse(worker, (status, None), head.as_ref(), &mut batch);
        Some(batch)
    }
}

/// A request that is being answered; dropped only when that panics.
struct Unanswered<'a> {
    worker: &'a Worker,
    asked: Asked<'a>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let reply = exchange::refuse(self.worker, Method::Unknown, Status::INTERNAL_SERVER_ERROR, None);
        let mut records = Records::default();
        self.worker.access.record(&mut records, &self.asked, &reply, 0);
        self.worker.access.write(&records, 0, Some(output::why_dropped()));
    }
}

/// A head that was whole before, and so is now; `None` for one that never was.
fn parse_held<'a: 's, 's>(
    worker: &Worker,
    peer: Peer,
    bytes: &'a [u8],
    store: &'s mut FieldStore<'a>,
) -> Option<Head<'s>> {
    let parsed = head::parse(bytes, store, &worker.site.limits.head);
    let (mut head, _) = parsed.ok().flatten()?;
    origin(worker, peer, &mut head);
    Some(head)
}

/// Gives a head the scheme and the host that a trusted proxy names. `None`: the request is its peer's own.
#[cold]
fn origin<'a>(worker: &Worker, peer: Peer, head: &mut Head<'a>) -> Option<Origin<'a>> {
    let origin = worker.site.trusted_proxies.origin(peer.ip(), head)?;
    (head.scheme, head.authority) = (origin.scheme, origin.authority);
    Some(origin)
}

/// Is a body that nobody wants read before its request is answered? Where the method alone is likely to be
/// refused, the answer comes first.
fn is_read_first(head: &Head<'_>) -> bool {
    matches!(head.method, Method::Get | Method::Head | Method::Options)
}

/// The body that comes behind a head without being asked for. With `Expect`
/// the client waits for leave to send it; it gets its answer instead, and the connection closes.
#[inline]
fn body_of(head: &Head<'_>) -> Option<Rest> {
    if head.expects_continue || !head.framing.has_body() { None } else { Some(Rest::of(head.framing)) }
}

impl Reading {
    #[inline]
    fn of(head: &Head<'_>) -> Reading {
        match head.expects_continue && head.framing != Framing::None {
            true => Reading::Unread,
            false => Reading::Through,
        }
    }
}
