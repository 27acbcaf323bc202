//! A GET that is sent to an application at once, by a connection that is idle; and the response, if one read has all of
//! it. All else is left to `forward`, which goes on with the connection. Each protocol has a module, which says whether
//! a request is plain, writes it, and recognizes a whole response.

mod fastcgi;
mod http;

use std::borrow::Cow;
use std::cell::Cell;
use std::future::poll_fn;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use script::fastcgi::RequestId;
use site::balance::Balance;
use site::disconnect::ConnectionId;
use site::host::AddressGroup;
use site::model::{Route, Script};
use site::plan::UpstreamPlan;
use site::route::RouteId;
use site::upstream::{Protocol, Upstream};
use taipan_http::head::{Field, Head, Method, Persistence};
use taipan_http::known::KnownField;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

use super::Upstreams;
use super::head::UpstreamHead;
use super::response::{leads_elsewhere, lines};
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
use crate::services::Services;
use crate::stats::Count;
use crate::trace::Trace;

/// Bytes of the status line and of the fields that this server adds to most responses.
const OWN_BYTES: usize = 256;

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
    pub planned: &'a UpstreamPlan,
    /// `None`: requests have no trace.
    pub trace: Option<Trace>,
}

/// A request that has been sent.
pub struct SentRequest {
    upstreams: Rc<Upstreams>,
    host: usize,
    route: RouteId,
    /// `None`: the driver has it, or it is in its pool again.
    connection: Option<PooledConnection>,
    /// The ID of the request on its connection. `None`: the connection speaks HTTP.
    fastcgi: Option<RequestId>,
    /// What the connection has not taken at once.
    unsent: Vec<u8>,
    /// Bytes of the response. Empty: the connection may have ended.
    received: Vec<u8>,
    /// By `clock::micros`.
    began: u64,
    /// `None`: nothing shows the upstream.
    log: Option<(Rc<UpstreamLog>, AttemptLog)>,
    /// `None`: requests have no trace.
    pub trace: Option<Trace>,
    running: Running,
    /// `None`: nothing is due before the driver goes on.
    timer: Option<Pin<Box<Sleep>>>,
}

/// What the driver goes on with.
pub struct Rest {
    pub connection: PooledConnection,
    pub fastcgi: Option<RequestId>,
    pub unsent: Vec<u8>,
    pub received: Vec<u8>,
    pub began: Instant,
    pub attempt: Option<AttemptLog>,
}

/// A response of which one read has all.
struct WholeResponse<'a> {
    head: UpstreamHead,
    /// Empty where the status has none.
    content: Cow<'a, [u8]>,
    persistence: Persistence,
}

/// A whole response, and its route.
pub struct Answer {
    pub response: Response,
    pub host: usize,
    pub route: RouteId,
}

impl SentRequest {
    /// Sends the request by a connection that is idle. `None`: it needs the driver, and the application has none of it.
    pub fn send(upstreams: &Rc<Upstreams>, outgoing: &Outgoing<'_>) -> Option<Box<SentRequest>> {
        let services = &upstreams.services;
        let &Outgoing { head, client, host, planned, trace, .. } = outgoing;
        let route = services.site.hosts.at(host).routes.get(planned.route);
        let (script, upstream_id) = (route.script.as_ref()?, route.upstream()?);
        let upstream = services.site.upstreams.get(upstream_id)?;
        if !upstreams.asserted.is_empty() || !is_plain(upstream, script, route, outgoing) {
            return None;
        }
        let pool = upstreams.pools.get(upstream_id)?;
        let began = clock::micros();
        let mut connection = pool.take_ready(Choice::Any, &[], Check::Events, began)?;
        let Some((fastcgi, bytes)) = write(services, upstream, script, outgoing, &mut connection) else {
            connection.release(began);
            return None;
        };
        let log = services.access.names_upstreams(host).then(|| {
            let log = Rc::new(UpstreamLog::of_trace(services.access.sends_spans_of(trace)));
            let attempt = log.begin_at(began, pool.name(), upstream.protocol);
            attempt.on_endpoint(connection.endpoint_address());
            (log, attempt)
        });
        let parent = log.as_ref().and_then(|(_, attempt)| attempt.parent());
        let bytes = match parent {
            Some(parent) => parent.written(&bytes),
            None => bytes,
        };
        let unsent = send_at_once(&connection, bytes)?;
        services.counts.add(Count::UpstreamRequests, 1);
        log.iter().for_each(|(_, attempt)| attempt.on_idle_connection());
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
        Some(Box::new(SentRequest {
            upstreams: upstreams.clone(),
            host,
            route: planned.route,
            connection: Some(connection),
            fastcgi,
            unsent,
            received: Vec::new(),
            began,
            log,
            trace,
            running,
            timer: None,
        }))
    }

    /// What is left of the exchange. `None`: nothing, as the response was whole.
    pub fn into_rest(mut self: Box<SentRequest>) -> Option<Rest> {
        let connection = self.connection.take()?;
        let (unsent, received) = (std::mem::take(&mut self.unsent), std::mem::take(&mut self.received));
        let attempt = self.log.take().map(|(_, attempt)| attempt);
        let age = Duration::from_micros(clock::micros().saturating_sub(self.began));
        let now = Instant::now();
        let began = now.checked_sub(age).unwrap_or(now);
        Some(Rest { connection, fastcgi: self.fastcgi, unsent, received, began, attempt })
    }

    /// The request came by this connection.
    pub fn connect(&self, connection: Option<ConnectionId>) {
        self.running.connect(connection);
    }

    /// What the log has of the upstream.
    pub fn log(&self) -> Option<&Rc<UpstreamLog>> {
        self.log.as_ref().map(|(log, _)| log)
    }

    fn route(&self) -> &Route {
        self.upstreams.services.site.hosts.at(self.host).routes.get(self.route)
    }

    /// The response. `None`: there is none yet, or more to it, and the driver goes on. The caller polls for less than
    /// two ticks.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let Some(connection) = self.connection.as_ref().filter(|_| self.unsent.is_empty()) else {
            return Poll::Ready(None);
        };
        let mut scratch = self.upstreams.services.scratch.borrow_mut();
        let (space, head) = scratch.space_and_head();
        let Poll::Ready(received) = connection.stream.poll_read(cx, space) else {
            drop(scratch);
            return self.poll_deadline(cx).map(|()| None);
        };
        // The driver meets an error again.
        let received = &space[..received.unwrap_or(0)];
        let now = clock::micros();
        let Some((response, persistence)) = self.respond(received, std::mem::take(head), now) else {
            let received = received.to_vec();
            drop(scratch);
            self.received = received;
            return Poll::Ready(None);
        };
        drop(scratch);
        if persistence == Persistence::KeepAlive
            && let Some(mut connection) = self.connection.take()
        {
            if let Some(id) = self.fastcgi {
                fastcgi::end(&mut connection, id);
            }
            connection.finish(now);
        }
        Poll::Ready(Some(Answer { response, host: self.host, route: self.route }))
    }

    /// Ready when a timeout or a second endpoint is due, which is for the driver. There is a timer only if that may be
    /// before the caller stops polling.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(upstream) = self.upstream() else { return Poll::Ready(()) };
        let hedge_after = upstream.hedging.as_ref().map_or(Duration::MAX, |hedging| hedging.after);
        let wait = upstream.first_byte.min(upstream.total).min(hedge_after);
        if wait > 2 * clock::TICK {
            return Poll::Pending;
        }
        // Begun by the first poll, right after the request was sent.
        self.timer.get_or_insert_with(|| Box::pin(sleep(wait))).as_mut().poll(cx)
    }

    fn upstream(&self) -> Option<&Upstream> {
        self.upstreams.services.site.upstreams.get(self.route().upstream()?)
    }

    /// The response for the client, made in `buffer`. `now`: by `clock::micros`. `None`: `received` is not a whole
    /// response, or means more than a response to the client.
    fn respond(&self, received: &[u8], mut buffer: Vec<u8>, now: u64) -> Option<(Response, Persistence)> {
        let services = &self.upstreams.services;
        let WholeResponse { head, content, persistence } = match self.fastcgi {
            Some(id) => fastcgi::response(self.connection.as_ref()?, id, received)?,
            None => http::response(received)?,
        };
        let route = self.route();
        let upstream = services.site.upstreams.get(route.upstream()?)?;
        let has_failed = upstream.health.failure_status.contains(head.status);
        if has_failed || leads_elsewhere(&head) {
            return None;
        }
        let forwarding = &route.script.as_ref()?.forwarding;
        buffer.reserve(received.len() + OWN_BYTES);
        let mut writer = HeadWriter::over(buffer, services, Some(route), head.status);
        for line in lines(&head) {
            let field = line.field();
            let cookie = match line.known() {
                Some(known @ KnownField::SetCookie) if self.fastcgi.is_none() => {
                    let value = std::str::from_utf8(field.value).ok()?;
                    forwarding.response_field(known, value, upstream, "")
                }
                _ => None,
            };
            writer = match (cookie, line.as_received()) {
                (Some(value), _) => writer.received(Field { value: value.as_bytes(), ..field }),
                (None, Some(line)) => writer.received_line(field, line),
                (None, None) => writer.received(field),
            };
        }
        if let Some((_, attempt)) = &self.log {
            attempt.on_response(head.status, content.len(), now);
        }
        if head.status.allows_body() {
            writer = writer.length(content.len() as u64);
        }
        let (upstream, trace) = (self.log().cloned(), self.trace);
        let has_origin = upstream.is_some() || trace.is_some();
        let origin = has_origin
            .then(|| Box::new(RequestOrigin { user: None, upstream, trace, watched: Cell::default() }));
        let response = Response { origin, ..Response::from_head(writer.finish_with(&content)) };
        Some((response, persistence))
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        // It has had a request.
        if let Some(mut connection) = self.connection.take() {
            // Within a record, no other can be sent. Closing the connection has the same effect.
            if let Some(id) = self.fastcgi.filter(|_| self.unsent.is_empty()) {
                let record = fastcgi::abort(&mut connection, id);
                _ = connection.stream.poll_send(&mut Context::from_waker(Waker::noop()), &record, &mut 0);
            }
            connection.close();
        }
    }
}

/// The bytes of the whole request, and its ID on its connection. `None`: the request cannot be sent.
fn write(
    services: &Services,
    upstream: &Upstream,
    script: &Script,
    outgoing: &Outgoing<'_>,
    connection: &mut PooledConnection,
) -> Option<(Option<RequestId>, Vec<u8>)> {
    let length = outgoing.head.framing.empty_length();
    if upstream.protocol == Protocol::FastCgi {
        let (id, records) = fastcgi::request(services, script, outgoing, length, connection)?;
        return Some((Some(id), records));
    }
    Some((None, http::request(script, outgoing, length)))
}

/// What the connection has not taken of `bytes`. `None`: it has failed.
fn send_at_once(connection: &PooledConnection, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let mut sent = 0;
    // One turn of the loop may send more requests than the runtime's budget of a task.
    let sending = unconstrained(poll_fn(|cx| connection.stream.poll_send(cx, &bytes, &mut sent)));
    if let Poll::Ready(Err(_)) = pin!(sending).poll(&mut Context::from_waker(Waker::noop())) {
        return None;
    }
    bytes.drain(..sent);
    Some(bytes)
}

/// Whether the request needs only a connection, and its response nothing but the route.
fn is_plain(upstream: &Upstream, script: &Script, route: &Route, outgoing: &Outgoing<'_>) -> bool {
    upstream.balance == Balance::Least
        && upstream.breaker.is_none()
        && route.cache().is_none()
        && route.jwt.is_none()
        && route.authorizers.is_empty()
        && outgoing.head.method == Method::Get
        && match upstream.protocol {
            Protocol::Http => http::is_plain(upstream, script, outgoing.head),
            Protocol::FastCgi => fastcgi::is_plain(upstream, outgoing),
            Protocol::Scgi => false,
        }
}
