//! A request to an application: its attempts, one after another, and what the pool and the breaker learn of them.

use std::fmt;
use std::rc::Rc;

use site::balance::Balance;
use site::upstream::Upstream;
use taipan_http::status::Status;
use taipan_http::target::Scheme;

use super::affinity::set_cookie;
use super::attempt::Attempt;
use super::exchange::BodySource;
use super::hedge::Hedger;
use super::immediate::SentRequest;
use super::interim::Interims;
use super::outgoing_body::OutgoingBody;
use super::permission::BreakerPermit;
use super::repeatable_body::{KeptBytes, RepeatableBody};
use super::request::{Handler, Repeats, UpstreamRequest};
use super::retries::{Avoid, Decision, Replay, Retries};
use super::spool::SpoolFile;
use super::spooled_body::SpoolReader;
use super::transport::Retry;
use super::{Outcome, receive, report};
use crate::log;
use crate::log::upstream::UpstreamLog;
use crate::pool::breaker::Verdict;
use crate::pool::message::EndpointId;
use crate::pool::selection::Affinity;
use crate::pool::{Pool, PoolError};
use crate::request::body::RequestBody;
use crate::services::Services;
use crate::stats::Count;

/// An application, and the request that it gets.
pub struct Application<'a> {
    pub services: &'a Rc<Services>,
    pub upstream: &'a Upstream,
    pub pool: &'a Rc<Pool>,
    pub request: &'a UpstreamRequest,
    pub log: &'a Rc<UpstreamLog>,
    /// What in the request decides its endpoint.
    pub affinity: Affinity,
    pub breaker: BreakerPermit,
    pub interims: Interims<'a>,
}

/// The body of a request to an application, for each of its attempts.
pub enum ForwardedBody {
    None,
    /// At most so many bytes are read.
    Client(RepeatableBody, u64),
    Spooled(Rc<SpoolFile>),
}

impl ForwardedBody {
    /// At most `limit` bytes are read of a body that has not been received. `kept`: those of the worker.
    pub fn of(body: OutgoingBody, limit: u64, kept: &KeptBytes) -> ForwardedBody {
        match body {
            OutgoingBody::None | OutgoingBody::Client(RequestBody::None) => ForwardedBody::None,
            OutgoingBody::Client(RequestBody::Stream(body)) => {
                ForwardedBody::Client(RepeatableBody::new(body, kept), limit)
            }
            OutgoingBody::Spooled(spooled) => ForwardedBody::Spooled(Rc::new(spooled)),
        }
    }

    pub fn source(&self, services: &Rc<Services>) -> BodySource {
        match self {
            ForwardedBody::None => BodySource::Empty,
            ForwardedBody::Client(body, limit) => BodySource::Client(body.reader(), *limit),
            ForwardedBody::Spooled(spooled) => BodySource::Spool(SpoolReader::open(services, spooled)),
        }
    }

    /// Of a request with this body, as far as it has been read by now.
    pub fn replay(&self, repeats: Repeats) -> Replay {
        match self {
            ForwardedBody::Client(body, _) if !body.is_whole() => Replay::Never,
            ForwardedBody::None | ForwardedBody::Client(..) | ForwardedBody::Spooled(_) => match repeats {
                Repeats::AtOnce | Repeats::Later => Replay::Always,
                Repeats::No => Replay::Unprocessed,
            },
        }
    }
}

impl Application<'_> {
    /// There is no connection. Gives the status of the response.
    pub fn rejected(&self, error: PoolError) -> Status {
        let Application { services, upstream, request, .. } = self;
        let log = |omitted: &dyn fmt::Display| {
            let why = error.why();
            log::error(format_args!("{}: cannot forward to {upstream}: {why}{omitted}", request.info.label));
        };
        // Each further request is rejected, too.
        let limit = match error {
            PoolError::QueueFull | PoolError::TimedOut | PoolError::NoDescriptor => {
                Some(&self.pool.overflows)
            }
            PoolError::AllDown | PoolError::Unreachable | PoolError::Unresolved => Some(&self.pool.outages),
            _ => None,
        };
        match limit.map(|limit| limit.admit(services.clock.now())) {
            Some(None) => {}
            Some(Some(omitted)) => log(&omitted),
            None => log(&""),
        }
        let (count, status) = match error {
            PoolError::Unreachable | PoolError::Unresolved | PoolError::NoSettings => {
                (Count::ScriptsFailed, Status::BAD_GATEWAY)
            }
            PoolError::QueueFull
            | PoolError::AllDown
            | PoolError::TimedOut
            | PoolError::Failing
            | PoolError::Lost
            | PoolError::NoDescriptor => (Count::ScriptsRejected, Status::SERVICE_UNAVAILABLE),
        };
        services.counts.add(count, 1);
        self.breaker.set(match error {
            // As many requests at once as its limits forbid tell nothing of the application.
            PoolError::QueueFull | PoolError::Lost | PoolError::NoDescriptor | PoolError::NoSettings => {
                Verdict::Unknown
            }
            PoolError::TimedOut
            | PoolError::Failing
            | PoolError::Unreachable
            | PoolError::Unresolved
            | PoolError::AllDown => Verdict::Failure,
        });
        status
    }

    /// It has had the request, and the client gets this status.
    pub fn on_failed(&self, status: Status) {
        // Other statuses are the client's fault.
        if status.code() >= 500 {
            self.breaker.set(Verdict::Failure);
        }
    }

    /// Adds the cookie that leads the client to the endpoint that has responded, unless the client has it.
    pub fn with_cookie(&self, outcome: Outcome, endpoint: EndpointId, scheme: Scheme) -> Outcome {
        let Some(cookie) = self.cookie(endpoint, scheme) else { return outcome };
        match outcome {
            Outcome::Response(response) => {
                Outcome::Response(response.with_fields(&[("Set-Cookie", &cookie)]))
            }
            Outcome::Unrendered(response, _) => Outcome::Unrendered(response, Some(cookie)),
            Outcome::Sendfile(mut file) => {
                file.fields.push(("Set-Cookie".to_owned(), cookie.into_bytes()));
                Outcome::Sendfile(file)
            }
            outcome => outcome,
        }
    }

    /// `None`: the client has it, or is not kept at an endpoint.
    fn cookie(&self, endpoint: EndpointId, scheme: Scheme) -> Option<String> {
        let Balance::Sticky(name) = &self.upstream.balance else { return None };
        let token = self.pool.token(endpoint)?;
        (self.affinity != Affinity::of_token(token.as_bytes())).then(|| set_cookie(name, &token, scheme))
    }
}

/// Repeats a request that has had no response, where that is safe. `sent`: the first attempt, if it has been sent.
/// Returns also the endpoint that has responded.
pub async fn forward_to_application(
    application: &Application<'_>,
    handler: &Handler,
    body: ForwardedBody,
    mut sent: Option<SentRequest>,
) -> Result<(Outcome, EndpointId), Outcome> {
    let &Application { services, upstream, pool, request, log, .. } = application;
    let of_hedge = Interims::dropped();
    let hedger = Hedger::new(application, &of_hedge);
    let mut hedger = hedger.filter(|_| matches!(body, ForwardedBody::None));
    let avoid = if upstream.balance == Balance::Least { Avoid::All } else { Avoid::Failed };
    let mut retries = Retries::new(upstream.retries, avoid);
    // A process that fails is replaced.
    let was_out = upstream.managed().is_none() && pool.are_all_out();
    // Bounded by `retries`.
    loop {
        let attempt = match sent.take().and_then(|sent| sent.into_rest(log)) {
            Some(rest) => Attempt::resume(application, rest),
            None => Attempt::begin(application, &retries).await?,
        };
        let (endpoint, exchange) = attempt.exchange(application, body.source(services));
        let upstream_name = exchange.request.upstream_name.clone();
        let (endpoint, response) = match hedger.take() {
            Some(hedger) => Box::pin(hedger.receive_head(exchange, endpoint)).await,
            None => (endpoint, exchange.receive_response(&application.interims).await),
        };
        let failure = match receive(response, handler, request, Some(application)).await {
            Ok(outcome) => return Ok((outcome, endpoint)),
            Err(failure) => failure,
        };
        let retry = match failure.retry {
            Retry::Refused(endpoint) if !pool.has_other(endpoint, retries.tried()) => Retry::Alone,
            retry => retry,
        };
        match retries.decide(retry, body.replay(request.repeats)) {
            Decision::Repeat => {}
            Decision::RepeatAndWarn => log::warn(format_args!(
                "{}: {upstream_name} sent nothing on a new connection ({}); the request is repeated",
                request.info.label, failure.why
            )),
            Decision::GiveUp => {
                let failure = if was_out { failure.with_all_down() } else { failure };
                let status = report(services, &request.info.label, &upstream_name, &failure);
                application.on_failed(status);
                return Err(status.into());
            }
        }
    }
}
