//! Upstreams: a script, which is started for one request, or an application, to which a pool has connections. `forward`
//! sends a request to one and makes a response of what it sends back.
//!
//! The protocols stand side by side: `cgi`, `fastcgi`, `scgi` and `http` implement `Transport`. An `UpstreamExchange`
//! sends the request's body over one as fast as the upstream takes it, and reads the response as fast as the client
//! takes that.
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
mod retries;
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
use self::exchange::{BodySource, Failure, Kind, NoResponse, Timeouts, UpstreamExchange, UpstreamResponse};
use self::fastcgi::FastCgi;
use self::head::HeadParser;
use self::hedge::Hedger;
use self::http::Http;
use self::http2::Http2;
use self::immediate::{Rest, SentRequest, SentRequests, Wire};
use self::interim::Interims;
use self::permission::BreakerPermit;
use self::request::{Message, Program, Repeats, UpstreamRequest};
use self::retries::{Avoid, Decision, Replay, Retries};
use self::scgi::Scgi;
use self::spool::{SpoolReader, SpooledBody};
use self::transport::Transport;
use crate::log;
use crate::log::upstream::{AttemptLog, StepLog, UpstreamLog};
use crate::pool::breaker::Verdict;
use crate::pool::message::{EndpointId, Tried};
use crate::pool::selection::Affinity;
use crate::pool::{Checkout, Pool, PoolError, Reuse};
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
    /// Of a handler whose form is `Unrendered`. Perhaps with a `Set-Cookie` of this server's own, for this client alone: it
    /// leads to the endpoint that has responded.
    Unrendered(Box<Unrendered>, Option<String>),
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

/// A request to a script or an application.
pub struct ForwardedRequest<'a> {
    pub request: Request<'a>,
    pub handler: &'a Handler,
    /// Added to those of the handler's route.
    pub variables: &'a Additions,
    pub body: RequestBody,
    /// Gets the attempts at an application.
    pub log: &'a Rc<UpstreamLog>,
    /// The first of them, if the request has been sent.
    pub sent: Option<SentRequest>,
}

/// Has a script or an application respond.
pub async fn forward(upstreams: &Upstreams, forwarded: ForwardedRequest<'_>) -> Outcome {
    try_forward(upstreams, forwarded).await.unwrap_or_else(|failed| failed)
}

async fn try_forward(upstreams: &Upstreams, forwarded: ForwardedRequest<'_>) -> Result<Outcome, Outcome> {
    let ForwardedRequest { request, handler, variables, ref body, log, sent } = forwarded;
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
            let request = &request;
            let application =
                Application { services, upstream, pool, request, log, affinity, breaker, interims };
            let body = ForwardedBody::of(body, spooled, handler.max_body);
            let forwarded = forward_to_application(&application, handler, body, sent).await;
            let (outcome, endpoint) = forwarded.inspect_err(|outcome| application.on_failed(outcome))?;
            application.on_failed(&outcome);
            Ok(application.with_cookie(outcome, endpoint, head.scheme))
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
        UpstreamExchange::new(services, script, Kind::Script, timeouts, request, source, Instant::now());
    exchange.step = step;
    let interims = Interims::dropped();
    let response = exchange.receive_response(&interims).await;
    match receive(response, handler, request, None).await {
        Err(failure) => Err(report(services, &request.label, &request.upstream_name, &failure).into()),
        Ok(outcome) => Ok(outcome),
    }
}

/// An application, and the request that it gets.
struct Application<'a> {
    services: &'a Rc<Services>,
    upstream: &'a Upstream,
    pool: &'a Rc<Pool>,
    request: &'a UpstreamRequest,
    log: &'a Rc<UpstreamLog>,
    /// What in the request decides its endpoint.
    affinity: Affinity,
    breaker: BreakerPermit,
    interims: Interims<'a>,
}

/// The body of a request to an application, for each of its attempts.
enum ForwardedBody {
    None,
    /// At most so many bytes are read. What has been read cannot be sent again.
    Client(RequestBody, u64),
    Spooled(Rc<SpooledBody>),
}

impl ForwardedBody {
    /// `spooled`: the whole of `body`, if that has been received. Else at most `limit` bytes are read.
    fn of(body: &RequestBody, spooled: Option<SpooledBody>, limit: u64) -> ForwardedBody {
        match (spooled, body.length()) {
            (Some(spooled), _) => ForwardedBody::Spooled(Rc::new(spooled)),
            (None, Length::None) => ForwardedBody::None,
            (None, _) => ForwardedBody::Client(body.clone(), limit),
        }
    }

    fn source(&self, services: &Rc<Services>) -> BodySource {
        match self {
            ForwardedBody::None => BodySource::Empty,
            ForwardedBody::Client(body, limit) => BodySource::Client(body.clone(), *limit),
            ForwardedBody::Spooled(spooled) => BodySource::Spool(SpoolReader::open(services, spooled)),
        }
    }

    /// Of a request with this body, as far as it has been read by now.
    fn replay(&self, repeats: Repeats) -> Replay {
        match self {
            ForwardedBody::Client(body, _) if body.is_unread() => Replay::Unprocessed,
            ForwardedBody::Client(..) => Replay::Never,
            ForwardedBody::None | ForwardedBody::Spooled(_) => match repeats {
                Repeats::AtOnce | Repeats::Later => Replay::Always,
                Repeats::No => Replay::Unprocessed,
            },
        }
    }
}

impl Application<'_> {
    /// There is no connection. Gives the status of the response.
    fn rejected(&self, error: PoolError) -> Status {
        let Application { services, upstream, request, .. } = self;
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

    fn on_failed(&self, outcome: &Outcome) {
        // Other statuses are the client's fault.
        if let Outcome::Failed(status) = outcome
            && status.code() >= 500
        {
            self.breaker.set(Verdict::Failure);
        }
    }

    /// Adds the cookie that leads the client to the endpoint that has responded, unless the client has it.
    fn with_cookie(&self, outcome: Outcome, endpoint: EndpointId, scheme: Scheme) -> Outcome {
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
    async fn begin(application: &Application<'_>, tried: &Tried) -> Result<Attempt, Outcome> {
        let &Application { pool, request, affinity, .. } = application;
        let log = application.log.begin(pool.name(), application.upstream.protocol);
        let checkout = pool.check_out(affinity, tried, request.sharing()).await;
        let checkout = checkout.map_err(|error| application.rejected(error))?;
        Ok(Attempt::of(application, checkout, log)?)
    }

    /// Sends the request to the endpoint of `checkout`.
    fn of(application: &Application<'_>, checkout: Checkout, log: AttemptLog) -> Result<Attempt, Status> {
        let &Application { services, upstream, request, .. } = application;
        log.on_endpoint(checkout.endpoint_address());
        let (endpoint, endpoint_name) = (checkout.endpoint(), checkout.endpoint_name());
        let message = log.parent().map(|parent| request.message.as_part(&parent));
        let message = message.as_ref().unwrap_or(&request.message);
        let transport = open(services, upstream, checkout, request, message)?;
        services.counts.add(Count::UpstreamRequests, 1);
        Ok(Attempt { endpoint, endpoint_name, transport, began: Instant::now(), log })
    }

    fn resume(application: &Application<'_>, rest: Rest) -> Attempt {
        let &Application { services, request, .. } = application;
        let Rest { connection, wire, unsent, received, began, attempt } = rest;
        let (endpoint, endpoint_name) = (connection.endpoint(), connection.endpoint_name());
        let transport: Box<dyn Transport> = match wire {
            Wire::FastCgi(id) => {
                Box::new(FastCgi::begun(services, connection, id, unsent, received, &request.label))
            }
            Wire::Http => Box::new(Http::begun(services, connection, unsent, received)),
        };
        Attempt { endpoint, endpoint_name, transport, began, log: attempt }
    }

    /// Goes on with the request's body, which is `source`.
    fn exchange(self, application: &Application<'_>, source: BodySource) -> (EndpointId, UpstreamExchange) {
        let Attempt { endpoint, endpoint_name, transport, began, log } = self;
        let &Application { services, upstream, request, .. } = application;
        let (kind, timeouts) = (Kind::Application, Timeouts::of(upstream));
        let mut exchange = UpstreamExchange::new(services, transport, kind, timeouts, request, source, began);
        if let Some(name) = endpoint_name {
            exchange.upstream_name = name;
        }
        exchange.attempt = Some(log);
        (endpoint, exchange)
    }
}

/// Repeats a request that has had no response, where that is safe. `sent`: the first attempt, if it has been sent.
/// Returns also the endpoint that has responded.
async fn forward_to_application(
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
            None => Attempt::begin(application, retries.tried()).await?,
        };
        let (endpoint, exchange) = attempt.exchange(application, body.source(services));
        let upstream_name = exchange.upstream_name.clone();
        let (endpoint, response) = match hedger.take() {
            Some(hedger) => Box::pin(hedger.receive_head(exchange, endpoint)).await,
            None => (endpoint, exchange.receive_response(&application.interims).await),
        };
        let failure = match receive(response, handler, request, Some(application)).await {
            Ok(outcome) => return Ok((outcome, endpoint)),
            Err(failure) => failure,
        };
        match retries.decide(failure.retry, body.replay(request.repeats)) {
            Decision::Repeat => {}
            Decision::RepeatAndWarn => log::warn(format_args!(
                "{}: {upstream_name} sent nothing on a new connection ({}); the request is repeated",
                request.label, failure.why
            )),
            Decision::GiveUp => {
                let failure = if was_out { failure.with_all_down() } else { failure };
                return Err(report(services, &request.label, &upstream_name, &failure).into());
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
            if upstream.http2 && request.upgrade.is_none() && connection.reuse() == Reuse::New =>
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
            if request.upgrade.is_some() && upstream.http2 && connection.reuse() == Reuse::New {
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
    response: Result<UpstreamResponse, Failure>,
    handler: &Handler,
    request: &UpstreamRequest,
    application: Option<&Application<'_>>,
) -> Result<Outcome, NoResponse> {
    match response {
        Ok(UpstreamResponse { exchange, head, received }) => {
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

#[cfg(test)]
mod tests;
