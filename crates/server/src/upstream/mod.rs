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
mod http_head;
mod scgi;

mod application;
mod attempt;
mod retries;

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
use site::forwarding::Bodies;
use site::log_line::StepKind;
use site::upstream::Protocol;
use taipan_http::path_text;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use tokio::time::Instant;

use self::affinity::affinity;
use self::application::{Application, ForwardedBody, forward_to_application};
use self::cgi::Stdin;
use self::cgi::headless::Headless;
use self::concurrency::ConcurrencyLimit;
use self::exchange::{BodySource, Failure, Kind, NoResponse, Timeouts, UpstreamExchange, UpstreamResponse};
use self::immediate::{SentRequest, SentRequests};
use self::interim::Interims;
use self::permission::BreakerPermit;
use self::request::{Message, Program, UpstreamRequest};
use self::spool::SpooledBody;
use self::transport::Transport;
use crate::log;
use crate::log::upstream::{StepLog, UpstreamLog};
use crate::pool::Pool;
use crate::pool::breaker::Verdict;
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
            if request.is_open_ended && upstream.http2 {
                body.converse();
            }
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
    let step = log.begin_step(|| StepKind::Script(path_text::escaped(&handler.name()).into()));
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

/// Gives the status of the response.
fn report(services: &Services, label: &str, upstream_name: &str, failure: &NoResponse) -> Status {
    log::error(format_args!("{label}: {upstream_name} did not respond: {}", failure.why));
    services.counts.add(Count::ScriptsFailed, 1);
    failure.status
}

#[cfg(test)]
mod tests;
