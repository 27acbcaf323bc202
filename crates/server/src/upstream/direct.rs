//! A request of a forward proxy: it goes to the server of its URL as it is, on a new connection or on one that was
//! kept. Knows neither rules nor names.

use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use taipan_http::client::request::passes_of;
use taipan_http::fields::is_name;
use taipan_http::head::{Head, Method, Names, Persistence};
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use tokio::time::Instant;

use super::exchange::{
    BodySource, Failure, NoResponse, Opened, Timeouts, UpstreamExchange, UpstreamResponse,
};
use super::http::Http;
use super::http_head::direct_head;
use super::idle_connections::OriginConnection;
use super::interim::Interims;
use super::request::{Form, RequestInfo, Wanted, label};
use super::response::{content, date};
use super::transport::Retry;
use super::{Outcome, Unrendered, report};
use crate::log;
use crate::log::upstream::AttemptLog;
use crate::request::body::{Length, RequestBody};
use crate::request::{ConnectionInfo, Request};
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::sys;

/// RFC 9110 §15.5.8.
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;
/// This server in `Via`. No other server has the name, so a request that passes this one again is recognized.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; 4];
    match sys::random(&mut bytes) {
        Ok(()) => format!("taipan-{:08x}", u32::from_ne_bytes(bytes)),
        Err(_) => format!("taipan-{}", std::process::id()),
    }
});

/// An attempt at the server of a URL.
pub struct OriginAttempt {
    pub connection: Box<OriginConnection>,
    pub log: AttemptLog,
    /// In messages.
    pub name: Rc<str>,
    pub first_byte: Duration,
    pub idle: Duration,
}

/// The connection was kept, and its server has closed it meanwhile. A new one may do better.
pub struct Stale;

/// Whether this server has forwarded the request before (RFC 9110 §7.6.3).
pub fn has_passed(head: &Head<'_>) -> bool {
    passes_of(head, &NAME) > 0
}

/// Whether a request may have a connection that was kept: if it can be sent again when that turns out to be closed, and
/// the server cannot take another client for this one because of the connection, as those with NTLM do.
pub fn may_have_kept(head: &Head<'_>) -> bool {
    matches!(head.method, Method::Get | Method::Head | Method::Options)
        && !head.framing.has_body()
        && !head.names.contains(Names::AUTHORIZATION)
}

/// Sends a request, and makes the client's response from the server's.
pub async fn forward(
    services: &Rc<Services>,
    request: Request<'_>,
    body: &RequestBody,
    form: Form,
    to: OriginAttempt,
) -> Result<Outcome, Stale> {
    let Request { head, connection: ConnectionInfo { client, .. }, .. } = request;
    let max_body = services.site.limits.body;
    let (length, source) = match body.length() {
        Length::None => (head.framing.empty_length().map_or(Length::None, Length::Sized), BodySource::Empty),
        Length::Sized(bytes) if bytes > max_body => {
            return Ok((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        length => (length, BodySource::Client(body.clone(), max_body)),
    };
    let OriginAttempt { mut connection, log, name, first_byte, idle } = to;
    // A connection with credentials is for no other request.
    connection.idle_connections.take_if(|_| head.names.contains(Names::AUTHORIZATION));
    let next = match connection.idle_connections {
        Some(_) => Persistence::KeepAlive,
        None => Persistence::Close,
    };
    let transport = Http::direct(services, connection, direct_head(head, &NAME, length, next), length);
    let info =
        RequestInfo { label: label(head, client).into(), upstream_name: name, ..RequestInfo::default() };
    let timeouts = Timeouts { connect: first_byte, first_byte, idle, total: Duration::MAX };
    let opened = Opened { transport: Box::new(transport), source, began: Instant::now() };
    let exchange = UpstreamExchange::with_application(services, &info, opened, timeouts, Some(log));
    let wanted = if head.method == Method::Head { Wanted::Head } else { Wanted::All };
    match exchange.receive_response(&Interims::dropped()).await {
        Ok(response) => Ok(respond(services, response, wanted, form).await),
        Err(Failure::Reported(status)) => Ok(Outcome::Failed(status)),
        Err(Failure::Rejected(rejection)) => Ok(Outcome::Rejected(rejection)),
        Err(Failure::NoResponse(NoResponse { retry: Retry::Anew, .. })) => Err(Stale),
        Err(Failure::NoResponse(failure)) => {
            Ok(Outcome::Failed(report(services, &info.label, &info.upstream_name, &failure)))
        }
    }
}

/// Makes the client's response from the server's.
async fn respond(services: &Services, response: UpstreamResponse, wanted: Wanted, form: Form) -> Outcome {
    let UpstreamResponse { exchange, head, received } = response;
    // It would ask the client for a password of this proxy.
    if head.status.code() == PROXY_AUTHENTICATION_REQUIRED {
        let RequestInfo { label, upstream_name, .. } = &exchange.request;
        log::warn(format_args!("{label}: {upstream_name} has responded with the status 407 of a proxy"));
        return Outcome::Failed(Status::BAD_GATEWAY);
    }
    let content = match Box::pin(content(exchange, wanted, &head, received)).await {
        Ok(content) => content,
        Err(outcome) => return outcome,
    };
    let via = format!("1.1 {}", *NAME);
    if form == Form::Unrendered {
        let field = |name: &str, value: &[u8]| cache::Field { name: name.into(), value: value.into() };
        let received = head.fields.iter().filter(|received| !is_name(received.name, "server"));
        let received =
            received.map(|received| field(&String::from_utf8_lossy(received.name), received.value));
        let fields = received.chain([field("Via", via.as_bytes())]).collect();
        return Outcome::Unrendered(Box::new(Unrendered { status: head.status, fields, content }), None);
    }
    let mut writer = HeadWriter::dated(&services.site, &date(services, &head), None, head.status);
    for field in head.fields.iter() {
        // They are there already.
        let is_own = ["date", "server"].iter().any(|own| is_name(field.name, own));
        if let (false, Ok(name)) = (is_own, std::str::from_utf8(field.name)) {
            writer = writer.field(name, field.value);
        }
    }
    Outcome::Response(content.respond(writer.field("Via", via)))
}
