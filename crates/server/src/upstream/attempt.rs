//! An attempt at a request to an application: the request is sent to one endpoint, by the protocol of its connection.

use std::rc::Rc;

use taipan_http::status::Status;
use tokio::time::Instant;

use super::Outcome;
use super::application::Application;
use super::exchange::{BodySource, Opened, Timeouts, UpstreamExchange};
use super::fastcgi::FastCgi;
use super::head::HeadParser;
use super::http::Http;
use super::http2::Http2;
use super::immediate::{Rest, Wire};
use super::request::{Message, UpstreamRequest};
use super::retries::Retries;
use super::scgi::Scgi;
use super::transport::{Connection, Transport};
use crate::log;
use crate::log::upstream::AttemptLog;
use crate::pool::message::EndpointId;
use crate::pool::{Checkout, Sharing};
use crate::stats::Count;

/// A request that an endpoint has, or soon has.
pub struct Attempt {
    endpoint: EndpointId,
    /// As in `EndpointNames::in_messages`.
    endpoint_name: Option<Rc<str>>,
    transport: Box<dyn Transport>,
    began: Instant,
    log: AttemptLog,
}

impl Attempt {
    pub async fn begin(application: &Application<'_>, retries: &Retries) -> Result<Attempt, Outcome> {
        let &Application { pool, request, affinity, .. } = application;
        let log = application.log.begin(pool.name(), application.upstream.protocol);
        let sharing = match request.sharing() {
            Sharing::No => Sharing::No,
            Sharing::Allowed | Sharing::Announced => retries.sharing(),
        };
        let checkout = pool.check_out(affinity, retries.tried(), sharing).await;
        let checkout = checkout.map_err(|error| application.rejected(error))?;
        Ok(Attempt::of(application, checkout, sharing, log)?)
    }

    /// Sends the request to the endpoint of `checkout`.
    pub fn of(
        application: &Application<'_>,
        checkout: Checkout,
        sharing: Sharing,
        log: AttemptLog,
    ) -> Result<Attempt, Status> {
        let &Application { services, request, .. } = application;
        let names = checkout.endpoint_names();
        log.on_endpoint(&names.in_log);
        let (endpoint, endpoint_name) = (checkout.endpoint(), names.in_messages.clone());
        let message = log.parent().map(|parent| request.message.as_part(&parent));
        let message = message.as_ref().unwrap_or(&request.message);
        let transport = open(application, checkout, sharing, message)?;
        services.counts.add(Count::UpstreamRequests, 1);
        Ok(Attempt { endpoint, endpoint_name, transport, began: Instant::now(), log })
    }

    pub fn resume(application: &Application<'_>, rest: Rest) -> Attempt {
        let &Application { services, request, .. } = application;
        let Rest { connection, wire, unsent, received, began, attempt } = rest;
        let (endpoint, endpoint_name) =
            (connection.endpoint(), connection.endpoint_names().in_messages.clone());
        let connection = Connection::begun(services, connection, unsent, received);
        let transport: Box<dyn Transport> = match wire {
            Wire::FastCgi(id) => Box::new(FastCgi::begun(services, connection, id, &request.info.label)),
            Wire::Http => Box::new(Http::begun(connection)),
        };
        Attempt { endpoint, endpoint_name, transport, began, log: attempt }
    }

    /// Goes on with the request's body, which is `source`.
    pub fn exchange(
        self,
        application: &Application<'_>,
        source: BodySource,
    ) -> (EndpointId, UpstreamExchange) {
        let Attempt { endpoint, endpoint_name, transport, began, log } = self;
        let &Application { services, upstream, request, .. } = application;
        let opened = Opened { transport, source, began };
        let timeouts = Timeouts::of(upstream);
        let mut exchange =
            UpstreamExchange::with_application(services, &request.info, opened, timeouts, Some(log));
        if let Some(name) = endpoint_name {
            exchange.request.upstream_name = name;
        }
        (endpoint, exchange)
    }
}

/// Writes the head of the request to a connection.
fn open(
    application: &Application<'_>,
    checkout: Checkout,
    sharing: Sharing,
    message: &Message,
) -> Result<Box<dyn Transport>, Status> {
    let &Application { services, upstream, request, .. } = application;
    Ok(match (message, checkout) {
        (Message::FastCgi(role, environment), checkout) => {
            Box::new(FastCgi::new(services, upstream, checkout, *role, environment, &request.info.label))
        }
        (Message::Scgi(head), Checkout::Exclusive(connection)) => {
            Box::new(Scgi::new(services, connection, head))
        }
        (Message::Http(head), Checkout::Exclusive(connection))
            if upstream.http2 && request.info.upgrade.is_none() && connection.is_unused() =>
        {
            let begun = Http2::begin(services, connection, sharing, &request.http2(head, upstream));
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
                    request.info.trailers.announced.as_deref(),
                )));
            }
            if request.info.upgrade.is_some() && upstream.http2 && connection.is_unused() {
                connection.offer_http1();
            }
            let parser =
                if request.info.upgrade.is_some() { HeadParser::http_upgrading } else { HeadParser::http };
            Box::new(Http::new(services, connection, head, parser))
        }
        // Only FastCGI connections are multiplexed, and a program has no connection.
        (Message::Scgi(_) | Message::Http(_) | Message::Program(_), _) => {
            return Err(Status::SERVICE_UNAVAILABLE);
        }
    })
}

fn unsendable(request: &UpstreamRequest, why: &str) -> Status {
    log::error(format_args!(
        "{}: cannot forward to {}: {why}",
        request.info.label, request.info.upstream_name
    ));
    Status::BAD_REQUEST
}
