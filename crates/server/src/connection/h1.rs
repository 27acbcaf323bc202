//! HTTP/1.x without a socket: it parses requests from bytes, and gathers the responses of the fast path for one write.
//!
//! Owns no buffer between two requests: the input is the caller's.

pub mod body;

use std::net::SocketAddr;
use std::rc::Rc;

use site::disconnect::ConnectionId;
use site::proxies::Via;
use taipan_http::head::{self, FieldStore, Head, HeadError, Method, OwnedHead, Version};
use taipan_http::rule::{BODY_INCOMPLETE, PLAINTEXT, Rule};
use taipan_http::status::Status;
use taipan_http::target::{Scheme, TargetError};

use super::batch::{Batch, connection_line};
use super::client;
use super::output::{Output, Persistence};
use crate::connection::Connections;
use crate::connection::client::Client;
use crate::content::fixed;
use crate::destination::DestinationId;
use crate::exchange::{self, Sending, Unfinished};
use crate::log::EndReason;
use crate::log::access::LoggedRequest;
use crate::peer::Peer;
use crate::request::Arrival;
use crate::response::Response;
use crate::services::{ScratchInput, Services};
use crate::tls_facts::TlsState;
use crate::upstream::immediate::SentRequest;

/// The state of HTTP/1.x on one connection.
pub struct Http1 {
    peer: Peer,
    /// The scheme of requests that do not come by a trusted proxy.
    scheme: Scheme,
    /// Of the present input.
    pub tls: TlsState,
    /// Where the connection was made to.
    pub destination: DestinationId,
    /// `None`: it has no task.
    pub connection: Option<ConnectionId>,
    /// The client of the present request, and how it came: from the peer, unless that is a trusted proxy.
    pub client: Peer,
    pub via: Via,
    /// Responses so far.
    pub requests: u32,
    /// When the first byte of the present request came.
    pub began: u64,
    /// The head of the request that waits for its response. Empty: none does. Its memory is used again.
    current: Option<Rc<OwnedHead>>,
}

/// The result of `Http1::answer`.
pub struct Answered {
    /// What is not used up of the input.
    pub rest: ScratchInput,
    pub next: Next,
}

/// What the connection does next.
pub enum Next {
    /// It reads more: the input is no whole request.
    Read,
    /// It sends the output.
    Send,
    /// It responds to the current request in a task, because that has to wait, or has a body.
    Respond,
    /// It awaits the response of an application, which has the current request.
    Receive(SentRequest),
}

/// Whether all of a request has been read when its response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Complete,
    /// What makes the response reads it on meanwhile. The rest is dropped behind the response.
    Continues,
    Unread,
}

/// One step through the input.
enum Step {
    /// The response to a request of so many bytes is in the batch.
    Answered(usize),
    /// A request whose head has so many bytes is the current one.
    Begun(usize, Next),
    /// The input is not used: it is no whole request, or the request has to wait, and so first the batch is sent.
    Stop,
}

impl Http1 {
    pub fn new(client: &Client, requests: u32, scheme: Scheme) -> Http1 {
        let peer = client.peer();
        Http1 {
            peer,
            scheme,
            tls: TlsState::default(),
            client: peer,
            via: Via::Nothing,
            destination: client.destination(),
            connection: None,
            requests,
            began: 0,
            current: None,
        }
    }

    /// Answers as many requests of the input as fit into one write, in `output`, which is empty. `local` finds the local
    /// address of the socket.
    #[inline]
    pub fn answer(
        &mut self,
        connections: &Connections,
        input: ScratchInput,
        local: &dyn Fn() -> Option<SocketAddr>,
        output: &mut Output,
    ) -> Answered {
        connections.services.clock.read();
        let scratch = &mut *connections.services.scratch.borrow_mut();
        let mut batch = Batch::new(&connections.services, scratch.lend(), output);
        let (mut rest, mut next) = (input, Next::Read);
        while !rest.is_empty() && batch.accepts_more() {
            match self.step(connections, scratch.input(rest), local, &mut batch) {
                Step::Answered(bytes) => rest = rest.behind(bytes),
                Step::Begun(bytes, begun) => {
                    (rest, next) = (rest.behind(bytes), begun);
                    break;
                }
                Step::Stop => break,
            }
        }
        if batch.is_empty() {
            scratch.take_back(batch.cancel());
            return Answered { rest, next };
        }
        batch.finish();
        Answered { rest, next: Next::Send }
    }

    /// Puts a response of `Responder::respond` into `output`, which is empty.
    pub fn put_response(
        &mut self,
        connections: &Connections,
        head: &Head<'_>,
        response: Response,
        reading: Reading,
        output: &mut Output,
    ) {
        let mut batch = Batch::lent(&connections.services, output);
        let persistence = self.persistence(connections, head, &response, reading);
        self.push(&connections.services, response, Some(head), persistence, &mut batch);
        batch.finish();
    }

    /// Rejects the request at the start of `input` with `response`, if it is whole. The connection closes.
    pub fn reject_next(
        &mut self,
        connections: &Connections,
        input: &[u8],
        response: &Response,
    ) -> Option<Output> {
        let services = &connections.services;
        let escaped = head::escape_target(input);
        let input = escaped.as_ref().map_or(input, |(escaped, _)| escaped);
        let mut store = FieldStore::new();
        let parsed = head::parse(input, &mut store, &services.site.limits.head).transpose()?;
        let mut output = Output::default();
        let mut batch = Batch::lent(services, &mut output);
        match parsed {
            Ok((mut head, _)) => {
                self.find_client(services, &mut head);
                let response = again(response);
                let response = if head.method == Method::Head { response.without_body() } else { response };
                self.push(services, response, Some(&head), Persistence::LingeringClose, &mut batch);
            }
            Err(error) => self.reject_head(connections, error, input, &mut batch),
        }
        batch.finish();
        Some(output)
    }

    /// Rejects what a client sends without TLS where TLS is expected.
    pub fn reject_plaintext(&mut self, connections: &Connections, input: &[u8]) -> Output {
        connections.services.clock.read();
        self.began = connections.services.turn();
        let response = fixed::rejection(&connections.services, None, Status::BAD_REQUEST, Some(PLAINTEXT));
        let output = self.reject_next(connections, input, &response);
        output.unwrap_or_else(|| self.reject_unread(&connections.services, input, &response))
    }

    /// Rejects an incomplete request with `response`. One that has not begun has no line in the log.
    pub fn reject_unread(&mut self, services: &Services, input: &[u8], response: &Response) -> Output {
        services.clock.read();
        self.reset_client();
        let mut output = Output::default();
        let mut batch = Batch::lent(services, &mut output);
        let response = again(response);
        let response = if begins_as_head(input) { response.without_body() } else { response };
        self.push(services, response, None, Persistence::LingeringClose, &mut batch);
        if input.is_empty() {
            services.access.forget(batch.records());
            batch.records().clear();
        }
        batch.finish();
        output
    }

    /// The response to a request that took too long. `None`: no request had begun.
    pub fn time_out(
        &mut self,
        services: &Services,
        input: &[u8],
        status: Status,
        why: EndReason,
    ) -> Option<Output> {
        let mut output = Output::default();
        let mut batch = self.incomplete(services, input, status, None, &mut output)?;
        batch.records().end_early(why);
        batch.finish();
        Some(output)
    }

    /// The response to the current request, whose body has broken off. `None`: it has one.
    pub fn reject_incomplete(&mut self, services: &Services) -> Option<Output> {
        let (status, rule) = (Status::BAD_REQUEST, Some(BODY_INCOMPLETE));
        let mut output = Output::default();
        self.incomplete(services, b"", status, rule, &mut output)?.finish();
        Some(output)
    }

    /// Writes the log line of a request that ended before it was whole, or answered. The `status` is only logged.
    pub fn log_aborted(&mut self, services: &Services, input: &[u8], status: Status, why: EndReason) {
        let mut output = Output::default();
        if let Some(batch) = self.incomplete(services, input, status, None, &mut output) {
            let buffers = batch.cancel();
            services.access.write_unsent(&services.counts, &buffers.records, why);
            services.scratch.borrow_mut().take_back(buffers);
        }
    }

    #[inline]
    fn step(
        &mut self,
        connections: &Connections,
        input: &[u8],
        local: &dyn Fn() -> Option<SocketAddr>,
        batch: &mut Batch<'_>,
    ) -> Step {
        let mut store = FieldStore::new();
        match head::parse(input, &mut store, &connections.services.site.limits.head) {
            Ok(None) => Step::Stop,
            Err(error) => self.step_escaped(connections, error, input, local, batch),
            Ok(Some((mut head, used))) => {
                self.find_client(&connections.services, &mut head);
                self.request(connections, &head, used, local, batch)
            }
        }
    }

    /// A request whose head is parsed, and has `length` bytes.
    // As a function of its own it costs every request a copy of what it returns.
    #[inline(always)]
    fn request(
        &mut self,
        connections: &Connections,
        head: &Head<'_>,
        length: usize,
        local: &dyn Fn() -> Option<SocketAddr>,
        batch: &mut Batch<'_>,
    ) -> Step {
        if head.framing.has_body() {
            return self.begin(head, length, Next::Respond, batch);
        }
        let local = || self.destination.address().or_else(local);
        let tls = self.tls.logged.as_deref();
        let arrival = Arrival { via: self.via, scheme: self.scheme, tls, local: &local };
        let sending = if batch.is_empty() { Sending::Yes(arrival) } else { Sending::No };
        match connections.responder.fast(head, self.client, self.destination, self.began, sending) {
            Ok(response) => {
                let persistence = self.persistence(connections, head, &response, Reading::Complete);
                self.push(&connections.services, response, Some(head), persistence, batch);
                Step::Answered(length)
            }
            Err(Unfinished::Waits) => self.begin(head, length, Next::Respond, batch),
            Err(Unfinished::Sent(sent)) => self.begin(head, length, Next::Receive(sent), batch),
        }
    }

    /// The request waits for its response. Behind others, it is parsed again when they are sent.
    fn begin(&mut self, head: &Head<'_>, length: usize, next: Next, batch: &Batch<'_>) -> Step {
        if !batch.is_empty() {
            return Step::Stop;
        }
        Rc::make_mut(self.current.get_or_insert_default()).set(head);
        Step::Begun(length, next)
    }

    /// The head of the request that waits for its response.
    pub fn current(&self) -> Option<Rc<OwnedHead>> {
        self.current.clone().filter(|head| !head.is_empty())
    }

    /// The request that waited has its response.
    pub fn finish_current(&mut self) {
        if let Some(head) = &mut self.current {
            Rc::make_mut(head).clear();
        }
    }

    /// Takes a step through input whose target holds bytes that have to be percent-encoded, as some clients send it.
    /// They are encoded here. Any other input is rejected.
    #[cold]
    #[inline(never)]
    fn step_escaped(
        &mut self,
        connections: &Connections,
        error: HeadError,
        input: &[u8],
        local: &dyn Fn() -> Option<SocketAddr>,
        batch: &mut Batch<'_>,
    ) -> Step {
        let escaped = match error {
            HeadError::Target(TargetError::Byte) => head::escape_target(input),
            _ => None,
        };
        let error = match &escaped {
            None => error,
            Some((escaped, longer)) => {
                let mut store = FieldStore::new();
                match head::parse(escaped, &mut store, &connections.services.site.limits.head) {
                    Ok(None) => return Step::Stop,
                    Ok(Some((mut head, used))) => {
                        self.find_client(&connections.services, &mut head);
                        return self.request(connections, &head, used - longer, local, batch);
                    }
                    Err(error) => error,
                }
            }
        };
        self.reject_head(connections, error, input, batch);
        Step::Answered(input.len())
    }

    /// Whether the connection stays open behind this response.
    #[inline]
    fn persistence(
        &self,
        connections: &Connections,
        head: &Head<'_>,
        response: &Response,
        reading: Reading,
    ) -> Persistence {
        let limit = connections.services.site.limits.requests;
        let last = limit != 0 && self.requests + 1 >= limit;
        let closes = last
            || reading == Reading::Unread
            || response.broken_rule.is_some()
            || connections.closes_connections()
            // What follows a rejected CONNECT may be meant for its destination, and no request (RFC 9931).
            || head.method == Method::Connect
            || (self.scheme == Scheme::Https && connections.services.mode.is_leaving())
            || (head.version == Version::Http10 && response.is_streamed());
        match (head.persistence, head.version) {
            _ if response.switches() => Persistence::Close,
            _ if closes => Persistence::LingeringClose,
            (head::Persistence::Close, _) => Persistence::Close,
            (head::Persistence::KeepAlive, Version::Http10) => Persistence::KeepAliveHttp10,
            (head::Persistence::KeepAlive, Version::Http11 | Version::Http2) => Persistence::KeepAlive,
        }
    }

    #[inline]
    fn push(
        &mut self,
        services: &Services,
        mut response: Response,
        head: Option<&Head<'_>>,
        persistence: Persistence,
        batch: &mut Batch<'_>,
    ) {
        response.settle();
        self.requests = self.requests.saturating_add(1);
        let version = head.map_or(Version::Http11, |h| h.version);
        let line = connection_line(&response, persistence, version);
        let request = LoggedRequest {
            connection: self.connection,
            tls: self.tls.logged.as_ref(),
            ..services.logged_request(head, self.client, self.destination, self.began)
        };
        services.record(batch.records(), &request, response.logged(line.len()));
        batch.push(response, persistence, version, line);
    }

    /// Rejects a malformed head. The connection closes, because the beginning of the next request is not known. A
    /// request that begins as HEAD does gets no content.
    fn reject_head(
        &mut self,
        connections: &Connections,
        error: HeadError,
        input: &[u8],
        batch: &mut Batch<'_>,
    ) {
        self.reset_client();
        if error == HeadError::TlsHandshake {
            connections.failures.log_unexpected_tls(self.peer);
        }
        let method = if begins_as_head(input) { Method::Head } else { Method::Unknown };
        let response =
            exchange::error_response(&connections.services, method, error.status(), Some(error.rule()));
        self.push(&connections.services, response, None, Persistence::LingeringClose, batch);
    }

    /// Finds the client of the present request, and sets scheme and host of its head, as a trusted proxy reports them.
    #[inline]
    fn find_client(&mut self, services: &Services, head: &mut Head<'_>) {
        (head.scheme, head.is_early) = (self.scheme, self.tls.is_early);
        (self.client, self.via) = client::origin(&services.site, self.peer, head);
    }

    /// The peer is the client. Earlier requests on the connection may have had others.
    fn reset_client(&mut self) {
        (self.client, self.via) = (self.peer, Via::Nothing);
    }

    /// The response to a request that is incomplete, or was aborted, in `output`.
    fn incomplete<'w>(
        &mut self,
        services: &'w Services,
        input: &[u8],
        status: Status,
        rule: Option<&'static Rule>,
        output: &'w mut Output,
    ) -> Option<Batch<'w>> {
        let current = self.current.take().filter(|head| !head.is_empty());
        // An empty line is no request (RFC 9112 §2.2).
        if current.is_none() && input.trim_ascii_start().is_empty() {
            return None;
        }
        services.clock.read();
        self.reset_client();
        let mut batch = Batch::lent(services, output);
        let mut store = FieldStore::new();
        let head = match &current {
            Some(head) => {
                store.extend(head.fields());
                head.head(&store)
            }
            None => {
                let parsed = head::parse(input, &mut store, &services.site.limits.head);
                parsed.ok().flatten().map(|(head, _)| head)
            }
        };
        let head = head.map(|mut head| {
            self.find_client(services, &mut head);
            head
        });
        let method = head.map_or(Method::Unknown, |h| h.method);
        let response = exchange::error_response(services, method, status, rule);
        self.push(services, response, head.as_ref(), Persistence::LingeringClose, &mut batch);
        Some(batch)
    }
}

/// Whether a request that cannot be read begins as HEAD does. Its response has no content.
fn begins_as_head(input: &[u8]) -> bool {
    input.trim_ascii_start().starts_with(b"HEAD ")
}

/// Another one of a response that has nothing behind its head.
fn again(response: &Response) -> Response {
    Response { broken_rule: response.broken_rule, ..Response::from_head(response.head.clone()) }
}
