//! A GET that is sent to an application at once, by a connection that is idle; and the response, if one read has all of
//! it. All else is left to `forward`, which goes on with the connection. What differs between protocols is in a module of
//! each: whether a request is plain, its bytes, and whether bytes are a whole response.

mod http;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use site::balance::Balance;
use site::disconnect::ConnectionId;
use site::model::{Route, Script};
use site::proxies::Via;
use site::route::RouteId;
use site::upstream::{Protocol, Upstream};
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Head, Method, Persistence};
use taipan_http::known::KnownField;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::Upstreams;
use super::head::UpstreamHead;
use super::response::{fields, leads_elsewhere};
use crate::clock;
use crate::destination::DestinationId;
use crate::log::access::LoggedRequest;
use crate::log::recent::Running;
use crate::log::upstream::{AttemptLog, UpstreamLog};
use crate::peer::Peer;
use crate::pool::PooledConnection;
use crate::pool::selection::Choice;
use crate::response::{RequestOrigin, Response};
use crate::response_head::HeadWriter;
use crate::stats::Count;
use crate::trace::Trace;

/// Bytes of the status line and of the fields that this server adds to most responses.
const OWN_BYTES: usize = 256;

/// A request that has been sent.
pub struct SentRequest {
    upstreams: Rc<Upstreams>,
    host: usize,
    route: RouteId,
    /// `None`: the driver has it, or it is in its pool again.
    connection: Option<PooledConnection>,
    /// Bytes of the response. Empty: the connection may have ended.
    received: Vec<u8>,
    began: Instant,
    /// `None`: nothing shows the upstream.
    log: Option<(Rc<UpstreamLog>, AttemptLog)>,
    /// `None`: requests have no trace.
    pub trace: Option<Trace>,
    running: Running,
}

/// What the driver goes on with.
pub struct Rest {
    pub connection: PooledConnection,
    pub received: Vec<u8>,
    pub began: Instant,
    pub attempt: Option<AttemptLog>,
}

/// A response of which one read has all.
struct WholeResponse<'a> {
    head: UpstreamHead,
    content: &'a [u8],
    /// Of the content. `None`: the status has none.
    length: Option<u64>,
    persistence: Persistence,
}

/// A whole response, and its route.
pub struct Answer {
    pub response: Response,
    pub host: usize,
    pub route: RouteId,
}

impl SentRequest {
    /// Sends the request of `head` to the application of a route. `None`: it needs more than one write to a connection
    /// that is idle. Nothing that the application could act on has been sent then.
    pub fn send(
        upstreams: &Rc<Upstreams>,
        head: &Head<'_>,
        (client, via): (Peer, Via),
        host: usize,
        id: RouteId,
        trace: Option<Trace>,
    ) -> Option<Box<SentRequest>> {
        let services = &upstreams.services;
        let route = services.site.hosts.at(host).routes.get(id);
        let (script, upstream_id) = (route.script.as_ref()?, route.upstream()?);
        let upstream = services.site.upstreams.get(upstream_id)?;
        if !upstreams.asserted.is_empty() || !is_plain(upstream, script, route, head) {
            return None;
        }
        let pool = upstreams.pools.get(upstream_id)?;
        let connection = pool.take_ready(Choice::Any, &[])?;
        let began = clock::micros();
        let log = services.access.names_upstreams(host).then(|| {
            let log = Rc::new(UpstreamLog::of_trace(services.access.sends_spans_of(trace)));
            let attempt = log.begin_at(began, pool.name(), Protocol::Http);
            attempt.on_endpoint(connection.endpoint_address());
            (log, attempt)
        });
        let length = (head.framing == Framing::Sized(0)).then_some(0);
        let bytes = http::request(script, head, (client, via), length);
        let parent = log.as_ref().and_then(|(_, attempt)| attempt.parent());
        let bytes = match parent {
            Some(parent) => parent.written(&bytes),
            None => bytes,
        };
        // One turn of the loop may send more requests than the runtime's budget of a task.
        let mut sent = pin!(unconstrained(poll_fn(|cx| connection.poll_send(cx, &bytes, &mut 0))));
        if !matches!(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))) {
            return None;
        }
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
            route: id,
            connection: Some(connection),
            received: Vec::new(),
            began: Instant::now(),
            log,
            trace,
            running,
        }))
    }

    /// What is left of the exchange. `None`: nothing, as the response was whole.
    pub fn into_rest(mut self: Box<SentRequest>) -> Option<Rest> {
        let connection = self.connection.take()?;
        let (received, attempt) = (std::mem::take(&mut self.received), self.log.take());
        Some(Rest { connection, received, began: self.began, attempt: attempt.map(|(_, attempt)| attempt) })
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

    /// The response. Errors: there is none yet, or there is more to it.
    pub async fn receive(mut self: Box<SentRequest>) -> Result<Answer, Box<SentRequest>> {
        let services = self.upstreams.services.clone();
        let mut timer = pin!(sleep_until(self.deadline()));
        let response = poll_fn(|cx| {
            let scratch = &mut *services.scratch.borrow_mut();
            let (space, head) = scratch.space_and_head();
            let Some(connection) = &self.connection else { return Poll::Ready(None) };
            match connection.stream.poll_read(cx, space) {
                // The driver meets an error again.
                Poll::Ready(received) => {
                    let received = &space[..received.unwrap_or(0)];
                    Poll::Ready(self.respond(received, std::mem::take(head)).or_else(|| {
                        self.received = received.to_vec();
                        None
                    }))
                }
                Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
            }
        })
        .await;
        match response {
            Some((response, persistence)) => {
                if persistence == Persistence::KeepAlive
                    && let Some(connection) = self.connection.take()
                {
                    connection.finish();
                }
                Ok(Answer { response, host: self.host, route: self.route })
            }
            None => Err(self),
        }
    }

    fn deadline(&self) -> Instant {
        let upstream = self.route().upstream().and_then(|id| self.upstreams.services.site.upstreams.get(id));
        let wait = upstream.map_or(Duration::ZERO, |upstream| {
            let hedge_after = upstream.hedging.as_ref().map_or(Duration::MAX, |hedging| hedging.after);
            upstream.first_byte.min(upstream.total).min(hedge_after)
        });
        self.began.checked_add(wait).unwrap_or(self.began)
    }

    /// Made in `buffer`. `None`: this is not a whole response, or one that means more than a response to the client.
    fn respond(&self, received: &[u8], mut buffer: Vec<u8>) -> Option<(Response, Persistence)> {
        let services = &self.upstreams.services;
        let WholeResponse { head, content, length, persistence } = http::response(received)?;
        let route = self.route();
        let upstream = services.site.upstreams.get(route.upstream()?)?;
        let has_failed = upstream.health.failure_status.contains(head.status);
        if has_failed || leads_elsewhere(&head) {
            return None;
        }
        let forwarding = &route.script.as_ref()?.forwarding;
        buffer.reserve(received.len() + OWN_BYTES);
        let mut writer = HeadWriter::over(buffer, services, Some(route), head.status);
        for (known, field) in fields(&head) {
            let cookie = match known {
                Some(known @ KnownField::SetCookie) => {
                    let value = std::str::from_utf8(field.value).ok()?;
                    forwarding.response_field(known, value, upstream, "")
                }
                _ => None,
            };
            let value = cookie.as_deref().map_or(field.value, str::as_bytes);
            writer = writer.received(Field { value, ..field });
        }
        if let Some((_, attempt)) = &self.log {
            attempt.on_response(head.status, content.len());
        }
        let writer = length.into_iter().fold(writer, HeadWriter::length);
        let (upstream, trace) = (self.log().cloned(), self.trace);
        let has_origin = upstream.is_some() || trace.is_some();
        let origin = has_origin
            .then(|| Box::new(RequestOrigin { user: None, upstream, trace, watched: Cell::default() }));
        let response = Response { origin, ..Response::from_head(writer.finish_with(content)) };
        Some((response, persistence))
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        // It has had a request.
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }
}

/// Whether the request needs only a connection, and its response nothing but the route.
fn is_plain(upstream: &Upstream, script: &Script, route: &Route, head: &Head<'_>) -> bool {
    upstream.balance == Balance::Least
        && upstream.breaker.is_none()
        && route.cache().is_none()
        && route.jwt.is_none()
        && route.authorizers.is_empty()
        && head.method == Method::Get
        && upstream.protocol == Protocol::Http
        && http::is_plain(upstream, script, head)
}
