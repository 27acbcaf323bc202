//! Upstreams: a script, which is started for one request, or an application, to which a pool has connections. `forward`
//! sends a request to one and makes a response of what it sends back.
//!
//! The protocols stand side by side: `cgi`, `fastcgi`, `scgi` and `http` implement `Transport`. An `Exchange` sends the
//! request's body over one as fast as the upstream takes it, and reads the response as fast as the client takes that.
//!
//! Knows nothing of the client's connection.

pub mod request;

pub mod concurrency;
mod spool;

mod affinity;
mod exchange;
mod permission;
mod transport;

pub mod cgi;
pub mod direct;
mod fastcgi;
mod http;
mod http2;
mod scgi;

mod body;
mod head;
mod hedge;
pub mod idle_connections;
pub mod immediate;
mod interim;
mod response;
pub mod upgrade;
mod websocket_ping;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use script::environment::Additions;
use site::balance::Balance;
use site::forwarding::Bodies;
use site::log_line::StepKind;
use site::upstream::{Protocol, Upstream};
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use taipan_http::target::Scheme;
use tokio::time::Instant;

use self::affinity::{affinity, set_cookie};
use self::cgi::Stdin;
use self::cgi::headless::Headless;
use self::concurrency::ConcurrencyLimit;
use self::exchange::{Answered, BodySource, Exchange, Failure, Kind, NoResponse, Timeouts};
use self::fastcgi::FastCgi;
use self::head::HeadParser;
use self::hedge::Hedger;
use self::http::Http;
use self::http2::Http2;
use self::immediate::{Rest, SentRequest, SentRequests};
use self::interim::Interims;
use self::permission::BreakerPermit;
use self::request::{Message, Program, Repeats, UpstreamRequest};
use self::scgi::Scgi;
use self::spool::{SpoolReader, SpooledBody};
use self::transport::{Retry, Reuse, Sent, Transport};
use crate::log;
use crate::log::upstream::{AttemptLog, StepLog, UpstreamLog};
use crate::pool::breaker::Verdict;
use crate::pool::message::{EndpointId, Tried};
use crate::pool::selection::Affinity;
use crate::pool::{Checkout, Pool, PoolError};
use crate::request::Request;
use crate::request::body::{Length, Rejection, RequestBody};
use crate::response::{BodyStream, Response};
use crate::semaphore::Semaphore;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;

pub use self::request::{Form, Handler, HandlerKind};

/// A worker's access to all upstreams of its site.
pub struct Upstreams {
    pub services: Rc<Services>,
    /// Of scripts.
    pub concurrency: ConcurrencyLimit,
    /// `None`: the site has no scripts.
    pub spawner: Option<Rc<Spawner>>,
    /// In the order of the site's applications.
    pub pools: Vec<Rc<Pool>>,
    /// Permits of connections whose protocol is switched.
    pub upgrades: Semaphore,
    /// Fields that only authorizers set.
    pub asserted: Vec<String>,
    /// Memory for the bytes of a request that is sent at once.
    pub outgoing: Cell<Vec<u8>>,
    /// Those that were sent so.
    pub sent: SentRequests,
}

/// What an upstream's response leads to.
pub enum Outcome {
    Response(Response),
    /// Of a handler whose form is `Unrendered`.
    Unrendered(Box<Unrendered>),
    /// The server answers as if the request were a GET of this path, perhaps with a query.
    InternalRedirect(String),
    Sendfile(Box<Sendfile>),
    /// An authorizer lets the request pass.
    Authorized(Permission),
    /// There is no response. The error log has the reason.
    Failed(Status),
    /// The circuit breaker is open at least so long.
    Suspended(Duration),
    /// The request's body is malformed or too large.
    Rejected(Rejection),
}

/// A response as the upstream has sent it, without the fields of its connection, and without those of the route.
pub struct Unrendered {
    pub status: Status,
    pub fields: Vec<cache::Field>,
    pub content: Content,
}

/// The content of a response.
pub enum Content {
    /// None, in a response to HEAD or of a status without one. Perhaps with the length that the content would have.
    None(Option<u64>),
    Whole(Vec<u8>),
    /// Perhaps of this many bytes.
    Stream(Box<dyn BodyStream>, Option<u64>),
}

/// A file that is sent in place of the body.
pub struct Sendfile {
    pub path: PathBuf,
    pub status: Status,
    /// The other fields of the head.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// The answer of an authorizer that lets a request pass.
pub struct Permission {
    /// Added to the environment of scripts and applications.
    pub variables: Vec<(String, Vec<u8>)>,
    /// Added to the response to the client.
    pub response_fields: Vec<(String, String)>,
    /// Whether the answer itself allows that it counts again.
    pub may_be_remembered: bool,
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Outcome {
        Outcome::Failed(status)
    }
}

impl From<Rejection> for Outcome {
    fn from(rejection: Rejection) -> Outcome {
        Outcome::Rejected(rejection)
    }
}

/// Has a script or an application answer `request`. `variables` are added to those of its route. `log` gets the
/// attempts at an application. `sent`: the first of them, if the request has been sent.
pub async fn forward(
    upstreams: &Upstreams,
    request: Request<'_>,
    handler: &Handler,
    variables: &Additions,
    body: RequestBody,
    log: &Rc<UpstreamLog>,
    sent: Option<SentRequest>,
) -> Outcome {
    try_forward(upstreams, request, handler, variables, &body, log, sent)
        .await
        .unwrap_or_else(|failed| failed)
}

async fn try_forward(
    upstreams: &Upstreams,
    request: Request<'_>,
    handler: &Handler,
    variables: &Additions,
    body: &RequestBody,
    log: &Rc<UpstreamLog>,
    sent: Option<SentRequest>,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let bodies = bodies(services, handler);
    let (spooled, length) = match body.length() {
        Length::Unknown if bodies == Some(Bodies::Streamed) => (None, None),
        Length::Sized(bytes) if bytes > handler.max_body => {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        Length::Sized(bytes) if bodies != Some(Bodies::Buffered) => (None, Some(bytes)),
        // CGI, FastCGI and SCGI have the length before the body.
        Length::Unknown | Length::Sized(_) => {
            let spawner = upstreams.spawner.as_ref().ok_or(Status::LENGTH_REQUIRED)?;
            let spooled = spool::receive(services, spawner, body, handler.max_body).await?;
            let length = spooled.length;
            (Some(spooled), Some(length))
        }
        Length::None => (None, None),
    };
    let Request { head, connection, interim } = request;
    let mut request = handler.request(services, head, connection, length, variables, &upstreams.asserted)?;
    request.is_open_ended = spooled.is_none() && body.length() == Length::Unknown;
    if let Some(upgrade) = &mut request.upgrade {
        upgrade.permit = Some(Rc::new(upstreams.upgrades.take().ok_or_else(|| {
            services.counts.add(Count::UpgradesRejected, 1);
            log::error(format_args!("{}: too many connections are upgraded; see `upgraded`", request.label));
            Status::SERVICE_UNAVAILABLE
        })?));
    }
    match &request.message {
        Message::Program(program) => {
            forward_to_script(upstreams, handler, &request, program, body, spooled, log).await
        }
        _ => {
            let id = handler.upstream(services).ok_or(Status::SERVICE_UNAVAILABLE)?;
            let found = services.site.upstreams.get(id).zip(upstreams.pools.get(id));
            let (upstream, pool) = found.ok_or(Status::SERVICE_UNAVAILABLE)?;
            let affinity = affinity(&upstream.balance, head, connection.client);
            let breaker = BreakerPermit::take(services, pool).map_err(Outcome::Suspended)?;
            let interims = Interims::new(services, handler, interim);
            let sent = Cell::new(sent);
            let application = Application { upstream, pool, affinity, breaker, interims, sent };
            let forwarded =
                forward_to_application(services, &application, handler, &request, body, spooled, log).await;
            let (outcome, endpoint) = forwarded.inspect_err(|outcome| application.on_failed(outcome))?;
            application.on_failed(&outcome);
            Ok(match outcome {
                Outcome::Response(response) => {
                    Outcome::Response(application.with_cookie(response, endpoint, head.scheme))
                }
                outcome => outcome,
            })
        }
    }
}

/// How an upstream that speaks HTTP, which can do without the length, gets a body. `None`: it speaks another protocol.
fn bodies(services: &Services, handler: &Handler) -> Option<Bodies> {
    let upstream = handler.upstream(services).and_then(|id| services.site.upstreams.get(id));
    let upstream = upstream.filter(|upstream| upstream.protocol == Protocol::Http)?;
    let script = services.site.hosts.at(handler.host).routes.get(handler.route).script.as_ref();
    Some(match script.map_or(Bodies::Sized, |script| script.forwarding.bodies) {
        Bodies::Sized if upstream.http2 => Bodies::Streamed,
        bodies => bodies,
    })
}

async fn forward_to_script(
    upstreams: &Upstreams,
    handler: &Handler,
    request: &UpstreamRequest,
    program: &Program,
    body: &RequestBody,
    spooled: Option<SpooledBody>,
    log: &Rc<UpstreamLog>,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let spawner = upstreams.spawner.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
    let (route, processes) = (handler.route(services), handler.processes(services));
    let permit = upstreams.concurrency.take(route, processes).await.map_err(|_| {
        services.counts.add(Count::ScriptsRejected, 1);
        Status::SERVICE_UNAVAILABLE
    })?;
    let (stdin, source) = match (spooled, body.length()) {
        (Some(spooled), _) => (Stdin::Spooled(spooled), BodySource::Empty),
        (None, Length::None) => (Stdin::Empty, BodySource::Empty),
        (None, _) => (Stdin::Pipe, BodySource::Client(body.clone(), handler.max_body)),
    };
    let step = log.begin_step(|| StepKind::Script(handler.name().into()));
    let as_part = step.as_ref().and_then(StepLog::parent).map(|parent| program.as_part(&parent));
    let program = as_part.as_ref().unwrap_or(program);
    let script = cgi::start(services, spawner, request, program, stdin, permit).await?;
    let timeouts = Timeouts::of_scripts(services);
    let script: Box<dyn Transport> = match handler.kind {
        HandlerKind::Lister { .. } => {
            let types = &services.site.hosts.at(handler.host).routes.get(handler.route).files.types;
            Box::new(Headless::new(script, types.lookup("index.html")))
        }
        _ => Box::new(script),
    };
    let mut exchange =
        Exchange::new(services, script, Kind::Script, timeouts, request, source, Instant::now());
    exchange.step = step;
    let interims = Interims::dropped();
    let answered = exchange.receive_answer(&interims).await;
    match receive(answered, handler, request, None).await {
        Err(failure) => Err(report(services, &request.label, &request.upstream_name, &failure).into()),
        Ok(outcome) => Ok(outcome),
    }
}

/// An application that a request is sent to, and what in the request decides its endpoint.
struct Application<'a> {
    upstream: &'a Upstream,
    pool: &'a Rc<Pool>,
    affinity: Affinity,
    breaker: BreakerPermit,
    interims: Interims<'a>,
    /// The first attempt, if the request has been sent.
    sent: Cell<Option<SentRequest>>,
}

impl Application<'_> {
    fn on_failed(&self, outcome: &Outcome) {
        // Other statuses are the client's fault.
        if let Outcome::Failed(status) = outcome
            && status.code() >= 500
        {
            self.breaker.set(Verdict::Failure);
        }
    }

    /// Adds the cookie that leads the client to the endpoint that has responded, unless the client has it.
    fn with_cookie(&self, response: Response, endpoint: EndpointId, scheme: Scheme) -> Response {
        let Balance::Sticky(name) = &self.upstream.balance else { return response };
        match self.pool.token(endpoint) {
            Some(token) if self.affinity != Affinity::of_token(token.as_bytes()) => {
                response.with_fields(&[("Set-Cookie", &set_cookie(name, &token, scheme))])
            }
            _ => response,
        }
    }
}

/// A request that an endpoint has, or soon has.
struct Attempt {
    endpoint: EndpointId,
    /// In messages. `None`: the name of the application says enough.
    endpoint_name: Option<Rc<str>>,
    transport: Box<dyn Transport>,
    began: Instant,
    log: AttemptLog,
}

impl Attempt {
    async fn begin(
        services: &Rc<Services>,
        application: &Application<'_>,
        request: &UpstreamRequest,
        tried: &Tried,
        log: &Rc<UpstreamLog>,
    ) -> Result<Attempt, Outcome> {
        let &Application { upstream, pool, affinity, .. } = application;
        let log = log.begin(pool.name(), upstream.protocol);
        let checkout = pool.check_out(affinity, tried, request.sharing()).await;
        let checkout = checkout.map_err(|error| rejected(services, request, upstream, error))?;
        Ok(Attempt::of(services, application, request, checkout, log)?)
    }

    /// Sends the request to the endpoint of `checkout`.
    fn of(
        services: &Rc<Services>,
        application: &Application<'_>,
        request: &UpstreamRequest,
        checkout: Checkout,
        log: AttemptLog,
    ) -> Result<Attempt, Status> {
        log.on_endpoint(checkout.endpoint_address());
        let (endpoint, endpoint_name) = (checkout.endpoint(), checkout.endpoint_name());
        let message = log.parent().map(|parent| request.message.as_part(&parent));
        let message = message.as_ref().unwrap_or(&request.message);
        let transport = open(services, application.upstream, checkout, request, message)?;
        services.counts.add(Count::UpstreamRequests, 1);
        Ok(Attempt { endpoint, endpoint_name, transport, began: Instant::now(), log })
    }

    fn resume(services: &Rc<Services>, request: &UpstreamRequest, rest: Rest) -> Attempt {
        let Rest { connection, fastcgi, unsent, received, began, attempt } = rest;
        let (endpoint, endpoint_name) = (connection.endpoint(), connection.endpoint_name());
        let transport: Box<dyn Transport> = match fastcgi {
            Some(id) => Box::new(FastCgi::begun(services, connection, id, unsent, received, &request.label)),
            None => Box::new(Http::begun(services, connection, unsent, received)),
        };
        Attempt { endpoint, endpoint_name, transport, began, log: attempt }
    }
}

/// Repeats a request that has had no response, where that is safe. Returns also the endpoint that has responded.
async fn forward_to_application(
    services: &Rc<Services>,
    application: &Application<'_>,
    handler: &Handler,
    request: &UpstreamRequest,
    body: &RequestBody,
    spooled: Option<SpooledBody>,
    log: &Rc<UpstreamLog>,
) -> Result<(Outcome, EndpointId), Outcome> {
    let &Application { upstream, pool, ref interims, .. } = application;
    let spooled = spooled.map(Rc::new);
    // What has been read from the client cannot be sent again.
    let is_streamed = spooled.is_none() && body.length() != Length::None;
    let is_repeatable = !is_streamed && request.repeats != Repeats::No;
    let of_hedge = Interims::dropped();
    let hedger = Hedger::new(services, application, request, log, &of_hedge);
    let mut hedger = hedger.filter(|_| !is_streamed && spooled.is_none());
    let (mut tried, mut retries, mut was_alone) = (Tried::new(), upstream.retries, false);
    // A process that fails is replaced.
    let was_out = upstream.managed().is_none() && pool.are_all_out();
    // At most once for each reused connection, `retries` times for a new one, and once alone.
    loop {
        let attempt = match application.sent.take().and_then(|sent| sent.into_rest(log)) {
            Some(rest) => Attempt::resume(services, request, rest),
            None => Attempt::begin(services, application, request, &tried, log).await?,
        };
        let Attempt { endpoint, endpoint_name, transport, began, log: attempt } = attempt;
        let upstream_name = endpoint_name.unwrap_or_else(|| request.upstream_name.clone());
        let source = match &spooled {
            Some(spooled) => BodySource::Spool(SpoolReader::open(services, spooled)),
            None if is_streamed => BodySource::Client(body.clone(), handler.max_body),
            None => BodySource::Empty,
        };
        let (kind, timeouts) = (Kind::Application, Timeouts::of(upstream));
        let mut exchange = Exchange::new(services, transport, kind, timeouts, request, source, began);
        exchange.upstream_name = upstream_name.clone();
        exchange.attempt = Some(attempt);
        let (endpoint, answered) = match hedger.take() {
            Some(hedger) => Box::pin(hedger.receive_head(exchange, endpoint, began)).await,
            None => (endpoint, exchange.receive_answer(interims).await),
        };
        let failure = match receive(answered, handler, request, Some(application)).await {
            Ok(outcome) => return Ok((outcome, endpoint)),
            Err(failure) => failure,
        };
        match failure.retry {
            Retry::AtAnother { endpoint, connection, sent }
                if (is_repeatable || sent == Sent::Nothing && (spooled.is_some() || body.is_unread()))
                    && (retries > 0 || connection == Reuse::Reused) =>
            {
                // A reused connection may have been closed in the meantime. A new one has failed.
                if (connection == Reuse::New || upstream.balance == Balance::Least)
                    && !tried.contains(&endpoint)
                {
                    // Beyond its capacity there are more retries than endpoints are remembered.
                    _ = tried.try_push(endpoint);
                }
                if connection == Reuse::New {
                    retries -= 1;
                    let (label, why) = (&request.label, &failure.why);
                    log::warn(format_args!(
                        "{label}: {upstream_name} sent nothing on a new connection ({why}); the request is repeated"
                    ));
                }
            }
            // The application has not processed it.
            Retry::Alone if (spooled.is_some() || body.is_unread()) && !was_alone => was_alone = true,
            _ => {
                let out = was_out.then_some("; all of its endpoints are down");
                let failure = NoResponse { why: failure.why + out.unwrap_or_default(), ..failure };
                let status = report(services, &request.label, &upstream_name, &failure);
                return Err(if was_out { Status::SERVICE_UNAVAILABLE } else { status }.into());
            }
        }
    }
}

/// Writes the head of the request to a connection.
fn open(
    services: &Rc<Services>,
    upstream: &Upstream,
    checkout: Checkout,
    request: &UpstreamRequest,
    message: &Message,
) -> Result<Box<dyn Transport>, Status> {
    Ok(match (message, checkout) {
        (Message::FastCgi(role, environment), checkout) => {
            Box::new(FastCgi::new(services, upstream, checkout, *role, environment, &request.label))
        }
        (Message::Scgi(head), Checkout::Exclusive(connection)) => {
            Box::new(Scgi::new(services, connection, head))
        }
        (Message::Http(head), Checkout::Exclusive(connection))
            if upstream.http2 && request.upgrade.is_none() && !connection.is_reused() =>
        {
            let begun = Http2::begin(services, connection, &request.http2(head, upstream));
            Box::new(begun.map_err(|why| unsendable(request, why))?)
        }
        (Message::Http(head), Checkout::Http2(stream)) => {
            let begun = Http2::on_stream(stream, &request.http2(head, upstream));
            Box::new(begun.map_err(|why| unsendable(request, why))?)
        }
        (Message::Http(head), Checkout::Exclusive(connection)) => {
            if request.is_open_ended {
                return Ok(Box::new(Http::chunked(
                    services,
                    connection,
                    head,
                    request.trailers.announced.as_deref(),
                )));
            }
            if request.upgrade.is_some() && upstream.http2 && !connection.is_reused() {
                connection.offer_http1();
            }
            let parser =
                if request.upgrade.is_some() { HeadParser::http_upgrading } else { HeadParser::http };
            Box::new(Http::new(services, connection, head, parser))
        }
        // Only FastCGI connections are multiplexed, and a program has no connection.
        (Message::Scgi(_) | Message::Http(_) | Message::Program(_), _) => {
            return Err(Status::SERVICE_UNAVAILABLE);
        }
    })
}

async fn receive(
    answered: Result<Answered, Failure>,
    handler: &Handler,
    request: &UpstreamRequest,
    application: Option<&Application<'_>>,
) -> Result<Outcome, NoResponse> {
    match answered {
        Ok(Answered { exchange, head, received }) => {
            if let Some(Application { upstream, breaker, .. }) = application {
                let is_failure = upstream.health.failure_status.contains(head.status);
                if is_failure {
                    exchange.report_failure(&format!("status {}", head.status.code()));
                }
                breaker.set(if is_failure { Verdict::Failure } else { Verdict::Success });
            }
            Ok(response::of(exchange, handler, request.wanted, head, received).await)
        }
        Err(Failure::Reported(status)) => Ok(Outcome::Failed(status)),
        Err(Failure::Rejected(rejection)) => Ok(Outcome::Rejected(rejection)),
        Err(Failure::NoResponse(failure)) => Err(failure),
    }
}

fn unsendable(request: &UpstreamRequest, why: &str) -> Status {
    log::error(format_args!("{}: cannot forward to {}: {why}", request.label, request.upstream_name));
    Status::BAD_REQUEST
}

/// Gives the status of the response.
fn report(services: &Services, label: &str, upstream_name: &str, failure: &NoResponse) -> Status {
    log::error(format_args!("{label}: {upstream_name} did not respond: {}", failure.why));
    services.counts.add(Count::ScriptsFailed, 1);
    failure.status
}

fn rejected(services: &Services, request: &UpstreamRequest, upstream: &Upstream, error: PoolError) -> Status {
    log::error(format_args!("{}: cannot forward to {upstream}: {}", request.label, error.why()));
    let (count, status) = match error {
        PoolError::Unreachable | PoolError::Unresolved => (Count::ScriptsFailed, Status::BAD_GATEWAY),
        PoolError::QueueFull
        | PoolError::AllDown
        | PoolError::TimedOut
        | PoolError::Failing
        | PoolError::Lost => (Count::ScriptsRejected, Status::SERVICE_UNAVAILABLE),
    };
    services.counts.add(count, 1);
    status
}

#[cfg(test)]
mod tests;
