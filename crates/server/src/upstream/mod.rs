//! Upstreams: a script, which is started for one request, or an application, to which a pool has connections. `forward`
//! sends a request to one and makes a response of what it sends back.
//!
//! The protocols stand side by side: `cgi`, `fastcgi`, `scgi` and `http` implement `Transport`. An `UpstreamExchange`
//! sends the request's body over one as fast as the upstream takes it, and reads the response as fast as the client
//! takes that, or, within bounds, ahead of it.
//!
//! Knows nothing of the client's connection.

pub mod request;

pub mod concurrency;
mod outgoing_body;
mod repeatable_body;
mod spool;
mod spooled_body;

mod affinity;
mod exchange;
mod permission;
mod transport;

pub mod cgi;
pub mod direct;
mod fastcgi;
mod http;
mod http2;
pub mod http_head;
mod scgi;

mod application;
mod attempt;
mod retries;

mod body;
mod buffered_body;
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
use site::log_line::StepKind;
use taipan_http::path_text;
use taipan_http::status::Status;
use tokio::time::Instant;

use self::affinity::affinity;
use self::application::{Application, ForwardedBody, forward_to_application};
use self::cgi::Stdin;
use self::cgi::headless::Headless;
use self::concurrency::ConcurrencyLimit;
use self::exchange::{BodySource, Failure, NoResponse, Opened, UpstreamExchange, UpstreamResponse};
use self::immediate::{SentRequest, SentRequests};
use self::interim::Interims;
use self::outgoing_body::OutgoingBody;
use self::permission::BreakerPermit;
pub use self::repeatable_body::KeptBytes;
use self::request::{Message, Program, UpstreamRequest};
use self::transport::Transport;
use crate::log;
use crate::log::upstream::{StepLog, UpstreamLog};
use crate::pool::Pool;
use crate::pool::breaker::Verdict;
use crate::pool::message::Fault;
use crate::request::Request;
use crate::request::body::{Rejection, RequestBody};
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
    /// Of bodies of requests that may be sent again.
    pub kept: KeptBytes,
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
    let ForwardedRequest { request, handler, variables, body, log, sent } = forwarded;
    let services = &upstreams.services;
    let body = OutgoingBody::prepare(upstreams, handler, body).await?;
    let Request { head, connection, interim } = request;
    let mut request = handler.request(upstreams, request, body.length(), variables)?;
    if let Some(upgrade) = &mut request.info.upgrade {
        upgrade.permit = Some(Rc::new(upstreams.upgrades.take().ok_or_else(|| {
            services.counts.add(Count::UpgradesRejected, 1);
            log::error(format_args!(
                "{}: too many connections are upgraded; see `upgraded`",
                request.info.label
            ));
            Status::SERVICE_UNAVAILABLE
        })?));
    }
    match &request.message {
        Message::Program(program) => {
            forward_to_script(upstreams, handler, &request, program, body, log).await
        }
        _ => {
            let id = handler.upstream(services).ok_or(Status::SERVICE_UNAVAILABLE)?;
            let found = services.site.upstreams.get(id).zip(upstreams.pools.get(id));
            let (upstream, pool) = found.ok_or(Status::SERVICE_UNAVAILABLE)?;
            if let OutgoingBody::Client(body) = &body
                && request.is_open_ended
                && upstream.http2
            {
                body.converse();
            }
            let path = || handler.canonical_path(services, head);
            let affinity = affinity(&upstream.balance, head, path, connection.client);
            let breaker = BreakerPermit::take(services, pool).map_err(Outcome::Suspended)?;
            let interims = Interims::new(services, handler, interim);
            let request = &request;
            let application =
                Application { services, upstream, pool, request, log, affinity, breaker, interims };
            let body = ForwardedBody::of(body, handler.max_body, &upstreams.kept);
            let forwarded = forward_to_application(&application, handler, body, sent).await;
            let (outcome, endpoint) = forwarded?;
            if let Outcome::Failed(status) = outcome {
                application.on_failed(status);
            }
            Ok(application.with_cookie(outcome, endpoint, head.scheme))
        }
    }
}

async fn forward_to_script(
    upstreams: &Upstreams,
    handler: &Handler,
    request: &UpstreamRequest,
    program: &Program,
    body: OutgoingBody,
    log: &Rc<UpstreamLog>,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let spawner = upstreams.spawner.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
    let (route, processes) = (handler.limited_route(services), handler.processes(services));
    let permit = upstreams.concurrency.take(route, processes).await.map_err(|_| {
        services.counts.add(Count::ScriptsRejected, 1);
        Status::SERVICE_UNAVAILABLE
    })?;
    let (stdin, source) = match body {
        OutgoingBody::None => (Stdin::Empty, BodySource::Empty),
        OutgoingBody::Client(body) => (Stdin::Pipe, BodySource::Client(body, handler.max_body)),
        OutgoingBody::Spooled(spooled) => (Stdin::Spooled(spooled), BodySource::Empty),
    };
    let step = log.begin_step(|| StepKind::Script(path_text::escaped(&handler.name()).into()));
    let as_part = step.as_ref().and_then(StepLog::parent).map(|parent| program.as_part(&parent));
    let program = as_part.as_ref().unwrap_or(program);
    let script = cgi::start(services, spawner, request, program, stdin, permit).await?;
    let transport: Box<dyn Transport> = match handler.kind {
        HandlerKind::Lister { .. } => {
            let types = &handler.route(services).files.types;
            Box::new(Headless::new(script, types.lookup("index.html")))
        }
        _ => Box::new(script),
    };
    let opened = Opened { transport, source, began: Instant::now() };
    let exchange = UpstreamExchange::with_script(services, &request.info, opened, step);
    let interims = Interims::dropped();
    let response = exchange.receive_response(&interims).await;
    match receive(response, handler, request, None).await {
        Err(failure) => {
            Err(report(services, &request.info.label, &request.info.upstream_name, &failure).into())
        }
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
                    exchange.report_failure(Fault::Other, &format!("status {}", head.status.code()));
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
