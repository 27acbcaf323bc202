//! A GET that is sent to an application at once, by a connection that is idle; and the response, if one read has all of
//! it. All else is left to `forward`, which goes on with the connection. Each protocol has a module, which says whether
//! a request is plain, writes it, and recognizes a whole response.

mod fastcgi;
mod http;

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use script::fastcgi::RequestId;
use site::authorizer::is_same_name;
use site::balance::Balance;
use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::memory;
use site::model::{Route, Script};
use site::plan::UpstreamPlan;
use site::route::RouteId;
use site::upstream::{Protocol, Upstream};
use slab::Slab;
use taipan_http::client::section::FieldSection;
use taipan_http::head::{Head, Method, Persistence};
use taipan_http::status::Status;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

use super::Upstreams;
use super::head::UpstreamHead;
use super::response::{date, leads_elsewhere, write_fields};
use crate::clock;
use crate::destination::DestinationId;
use crate::log::access::LoggedRequest;
use crate::log::recent::Running;
use crate::log::upstream::{AttemptLog, UpstreamLog};
use crate::peer::Peer;
use crate::pool::selection::Choice;
use crate::pool::{Check, PooledConnection};
use crate::request::Arrival;
use crate::response::{RequestOrigin, Response};
use crate::response_head::HeadWriter;
use crate::services::{ResponseBuffers, Services, SpareHead};
use crate::stats::Count;
use crate::trace::{ParentOf, Trace};

/// Bytes of the status line and of the fields that this server adds to most responses.
const OWN_BYTES: usize = 256;

/// The number of the attempt by which a request is sent at once.
const FIRST_ATTEMPT: u32 = 0;

/// A table for more requests is not kept when the last of them has ended.
const KEPT_REQUESTS: usize = 128;

const _: () = assert!(KEPT_REQUESTS * size_of::<(usize, Outstanding)>() <= memory::KEPT_TABLE as usize);

/// A request that may be sent to an application.
#[derive(Clone)]
pub struct Outgoing<'a> {
    pub head: &'a Head<'a>,
    pub client: Peer,
    /// The hosts that its connection may have.
    pub group: AddressGroup,
    pub arrival: Arrival<'a>,
    pub host: usize,
    /// The folder of the host's name, if it has one.
    pub folder: Option<Rc<Path>>,
    pub planned: &'a UpstreamPlan<'a, 'a>,
    /// `None`: requests have no trace.
    pub trace: Option<Trace>,
}

/// A request that has been sent. It is in the table of its worker until this is dropped.
pub struct SentRequest {
    upstreams: Rc<Upstreams>,
    key: usize,
}

/// The requests of a worker that have been sent. In a table, their memory is used again at once: as allocations, more
/// than a few at the same time are slow.
#[derive(Default)]
pub struct SentRequests(RefCell<Slab<Outstanding>>);

/// A request whose response is awaited.
struct Outstanding {
    host: usize,
    route: RouteId,
    /// `None`: the driver has it, or it is in its pool again.
    connection: Option<Box<PooledConnection>>,
    wire: Wire,
    /// What the connection has not taken at once.
    unsent: Vec<u8>,
    /// Bytes of the response. Empty: the connection may have ended.
    received: Vec<u8>,
    /// By `clock::micros`.
    began: u64,
    /// `None`: requests have no trace.
    trace: Option<Trace>,
    running: Running,
    /// `None`: nothing is due before the driver goes on.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The protocol of a connection, and how a request is found on it.
#[derive(Clone, Copy)]
pub enum Wire {
    Http,
    FastCgi(RequestId),
}

/// What the driver goes on with.
pub struct Rest {
    pub connection: Box<PooledConnection>,
    pub wire: Wire,
    pub unsent: Vec<u8>,
    pub received: Vec<u8>,
    pub began: Instant,
    pub attempt: AttemptLog,
}

/// A response of which one read has all.
struct WholeResponse<'a> {
    head: UpstreamHead,
    /// Empty where the status has none.
    content: Cow<'a, [u8]>,
    persistence: Persistence,
}

/// A whole response, and its route.
pub struct RoutedResponse {
    pub response: Response,
    pub host: usize,
    pub route: RouteId,
}

impl SentRequest {
    /// Sends the request by a connection that is idle. `None`: it needs the driver, and the application has none of it.
    pub fn send(upstreams: &Rc<Upstreams>, outgoing: &Outgoing<'_>) -> Option<SentRequest> {
        let services = &upstreams.services;
        let &Outgoing { head, client, host, planned, trace, .. } = outgoing;
        let route = services.site.hosts.at(host).routes.get(planned.route);
        let (script, upstream_id) = (route.script.as_ref()?, route.upstream()?);
        let upstream = services.site.upstreams.get(upstream_id)?;
        if has_asserted(upstreams, head) || !is_plain(upstream, script, route, outgoing) {
            return None;
        }
        let pool = upstreams.pools.get(upstream_id)?;
        let mut connection = pool.take_ready(Choice::Any, &[], Check::Events)?;
        let mut bytes = upstreams.outgoing.take();
        bytes.clear();
        let wire = if upstream.protocol == Protocol::FastCgi {
            fastcgi::write(services, script, outgoing, &mut connection, &mut bytes).map(Wire::FastCgi)
        } else {
            http::write(upstream, script, outgoing, &mut bytes);
            Some(Wire::Http)
        };
        let Some(wire) = wire else {
            // It cannot be sent.
            connection.release();
            return None;
        };
        if let Some(ids) = services.access.sends_spans_of(trace) {
            bytes = ParentOf::new(ids, FIRST_ATTEMPT).written(&bytes);
        }
        let began = clock::micros();
        let unsent = send_at_once(&connection, &bytes)?;
        // What one large request has needed is not kept.
        if bytes.capacity() <= memory::KEPT_REQUEST as usize {
            upstreams.outgoing.set(bytes);
        }
        services.counts.add(Count::UpstreamRequests, 1);
        let running = services.access.recent.run(&LoggedRequest {
            client,
            // It is still idle.
            connection: None,
            head: Some(head),
            host,
            destination: DestinationId::default(),
            time: services.clock.now(),
            began,
            tls: None,
        });
        let key = upstreams.sent.0.borrow_mut().insert(Outstanding {
            host,
            route: planned.route,
            connection: Some(connection),
            wire,
            unsent,
            received: Vec::new(),
            began,
            trace,
            running,
            timer: timer(upstream),
        });
        Some(SentRequest { upstreams: upstreams.clone(), key })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Outstanding, &Upstreams) -> T) -> T {
        act(&mut self.upstreams.sent.0.borrow_mut()[self.key], &self.upstreams)
    }

    /// What is left of the exchange, with its attempt in `log`. `None`: nothing, as the response was whole.
    pub fn into_rest(self, log: &Rc<UpstreamLog>) -> Option<Rest> {
        self.with(|request, upstreams| request.take_rest(upstreams, log))
    }

    /// The request came by this connection.
    pub fn connect(&self, connection: Option<ConnectionId>) {
        self.with(|request, _| request.running.connect(connection));
    }

    /// `None`: requests have no trace.
    pub fn trace(&self) -> Option<Trace> {
        self.with(|request, _| request.trace)
    }

    /// For the attempts of the request. The first is that by which it was sent.
    pub fn upstream_log(&self) -> UpstreamLog {
        self.with(|request, upstreams| request.upstream_log(&upstreams.services))
    }

    /// The response. `None`: there is none yet, or more to it, and the driver goes on. The caller polls for less than
    /// three ticks.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<RoutedResponse>> {
        self.with(|request, upstreams| request.poll_receive(upstreams, cx))
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        let mut requests = self.upstreams.sent.0.borrow_mut();
        let request = requests.try_remove(self.key);
        if requests.is_empty() && requests.capacity() > KEPT_REQUESTS {
            *requests = Slab::new();
        }
        drop(requests);
        drop(request);
    }
}

impl Outstanding {
    fn take_rest(&mut self, upstreams: &Upstreams, log: &Rc<UpstreamLog>) -> Option<Rest> {
        let attempt = self.attempt(upstreams, log)?;
        let connection = self.connection.take()?;
        let (unsent, received) = (std::mem::take(&mut self.unsent), std::mem::take(&mut self.received));
        let age = Duration::from_micros(clock::micros().saturating_sub(self.began));
        let now = Instant::now();
        let began = now.checked_sub(age).unwrap_or(now);
        Some(Rest { connection, wire: self.wire, unsent, received, began, attempt })
    }

    fn upstream_log(&self, services: &Services) -> UpstreamLog {
        UpstreamLog::of_trace(services.access.sends_spans_of(self.trace))
    }

    /// The attempt by which it was sent, in `log`. `None`: it has had its response.
    fn attempt(&self, upstreams: &Upstreams, log: &Rc<UpstreamLog>) -> Option<AttemptLog> {
        let address = &self.connection.as_ref()?.endpoint_names().in_log;
        let id = self.route(&upstreams.services).upstream()?;
        let name = upstreams.pools.get(id)?.name();
        let attempt = log.begin_at(self.began, name, self.upstream(&upstreams.services)?.protocol);
        attempt.on_endpoint(address);
        attempt.on_idle_connection();
        Some(attempt)
    }

    fn route<'a>(&self, services: &'a Services) -> &'a Route {
        services.site.hosts.at(self.host).routes.get(self.route)
    }

    fn poll_receive(&mut self, upstreams: &Upstreams, cx: &mut Context<'_>) -> Poll<Option<RoutedResponse>> {
        let Some(connection) = self.connection.as_ref().filter(|_| self.unsent.is_empty()) else {
            return Poll::Ready(None);
        };
        let mut scratch = upstreams.services.scratch.borrow_mut();
        let ResponseBuffers { space, head, section } = scratch.response_buffers();
        let Poll::Ready(received) = connection.stream.poll_read(cx, space) else {
            drop(scratch);
            return self.poll_deadline(cx).map(|()| None);
        };
        // Where there is an error, the driver meets the end: a response that has not begun.
        let received = &space[..received.unwrap_or(0)];
        let Some((response, persistence)) = self.respond(upstreams, received, std::mem::take(head), section)
        else {
            let received = received.to_vec();
            drop(scratch);
            self.received = received;
            return Poll::Ready(None);
        };
        drop(scratch);
        if persistence == Persistence::KeepAlive
            && let Some(mut connection) = self.connection.take()
        {
            if let Wire::FastCgi(id) = self.wire {
                fastcgi::end(&mut connection, id);
            }
            connection.finish();
        }
        Poll::Ready(Some(RoutedResponse { response, host: self.host, route: self.route }))
    }

    /// Ready when something is due that is for the driver.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.timer {
            None => Poll::Pending,
            Some(timer) => timer.as_mut().poll(cx),
        }
    }

    fn upstream<'a>(&self, services: &'a Services) -> Option<&'a Upstream> {
        services.site.upstreams.get(self.route(services).upstream()?)
    }

    /// The response for the client, made in the memory of `spare`. Its fields are read into `section`.
    /// `None`: `received` is not a whole response, or means more than a response to the client.
    fn respond(
        &self,
        upstreams: &Upstreams,
        received: &[u8],
        mut spare: SpareHead,
        section: &mut FieldSection,
    ) -> Option<(Response, Persistence)> {
        let services = &upstreams.services;
        let space = std::mem::take(section);
        let WholeResponse { head, content, persistence } = match self.wire {
            Wire::FastCgi(id) => fastcgi::response(self.connection.as_ref()?, id, space, received)?,
            Wire::Http => http::response(space, received)?,
        };
        let (route, upstream) = (self.route(services), self.upstream(services)?);
        let has_failed = upstream.health.failure_status.contains(head.status);
        let has_other_content = head.status == Status::RESET_CONTENT && !content.is_empty();
        if has_failed || has_other_content || leads_elsewhere(&head) {
            return None;
        }
        let forwarding = &route.script.as_ref()?.forwarding;
        let mut buffer = spare.take_buffer();
        buffer.reserve(received.len() + OWN_BYTES);
        let writer =
            HeadWriter::over(buffer, &services.site, &date(services, &head), Some(route), head.status);
        let mut writer = write_fields(writer, &head, |known, value| {
            let known = known.filter(|_| matches!(self.wire, Wire::Http))?;
            forwarding.response_field(known, std::str::from_utf8(value).ok()?, upstream, "")
        });
        if head.status.allows_body() {
            writer = writer.length(content.len() as u64);
        }
        let upstream = services.access.names_upstreams(self.host).then(|| {
            let log = Rc::new(self.upstream_log(services));
            if let Some(attempt) = self.attempt(upstreams, &log) {
                attempt.on_response(head.status, content.len());
            }
            log
        });
        let endpoint = match &self.connection {
            Some(connection) if upstream.is_none() && services.access.recent.is_on() => {
                Some(connection.endpoint_names().in_log.clone())
            }
            _ => None,
        };
        let trace = self.trace;
        let has_origin = upstream.is_some() || trace.is_some();
        let origin =
            has_origin.then(|| Box::new(RequestOrigin { upstream, trace, ..RequestOrigin::default() }));
        let head_and_content = spare.fill(writer.finish_with(&content));
        let response = Response { origin, endpoint, ..Response::from_head(head_and_content) };
        if head.fields.memory() <= memory::KEPT_FIELDS as usize {
            *section = head.fields;
        }
        Some((response, persistence))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // It has had a request.
        if let Some(mut connection) = self.connection.take() {
            // Within a record, no other can be sent. Closing the connection has the same effect.
            if let Wire::FastCgi(id) = self.wire
                && self.unsent.is_empty()
            {
                let record = fastcgi::abort(&mut connection, id);
                _ = connection.stream.poll_send(&mut Context::from_waker(Waker::noop()), &record, &mut 0);
            }
            connection.close();
        }
    }
}

/// Until the first timeout of a request, or until a second endpoint gets it. `None`: not before the caller of
/// `poll_receive` stops polling.
fn timer(upstream: &Upstream) -> Option<Pin<Box<Sleep>>> {
    let hedge_after = upstream.hedging.as_ref().map_or(Duration::MAX, |hedging| hedging.after);
    let due = upstream.first_byte.min(upstream.total).min(hedge_after);
    (due <= 3 * clock::TICK).then(|| Box::pin(sleep(due)))
}

/// What the connection has not taken of `bytes`. `None`: it has failed.
fn send_at_once(connection: &PooledConnection, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut sent = 0;
    // One turn of the loop may send more requests than the runtime's budget of a task.
    let sending = unconstrained(poll_fn(|cx| connection.stream.poll_send(cx, bytes, &mut sent)));
    if let Poll::Ready(Err(_)) = pin!(sending).poll(&mut Context::from_waker(Waker::noop())) {
        return None;
    }
    Some(bytes[sent..].to_vec())
}

/// Whether the client has sent a field that only passwords, authorizers and tokens set. Nothing has set one for a
/// request of the fast path.
fn has_asserted(upstreams: &Upstreams, head: &Head<'_>) -> bool {
    let mut asserted = upstreams.asserted.iter();
    asserted.any(|name| head.fields.iter().any(|field| is_same_name(field.name, name)))
}

/// Whether the request needs only a connection, and its response nothing but the route.
fn is_plain(upstream: &Upstream, script: &Script, route: &Route, outgoing: &Outgoing<'_>) -> bool {
    upstream.balance == Balance::Least
        && upstream.breaker.is_none()
        && route.cache().is_none()
        && route.jwts.is_empty()
        && route.authorizers.is_empty()
        && outgoing.head.method == Method::Get
        && match upstream.protocol {
            Protocol::Http => http::is_plain(upstream, script, outgoing.head),
            Protocol::FastCgi => fastcgi::is_plain(upstream, outgoing),
            Protocol::Scgi => false,
        }
}
