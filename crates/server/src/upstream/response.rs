//! The response to the client, made of the head of an upstream's response: its fields, with those of the route, and
//! its body; or an internal redirect, a file, or the decision of an authorizer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use script::response::variables;
use site::authorizer::{Subrequest, Verdict, may_be_remembered, verdict};
use site::model::LocalRedirects;
use taipan_http::client::section::ReceivedLine;
use taipan_http::date::LEN;
use taipan_http::fields::is_name;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Persistence};
use taipan_http::known::{KnownField, KnownFields};
use taipan_http::status::Status;

use super::body::{TOO_LONG, UpstreamBody};
use super::buffered_body::BufferedBody;
use super::exchange::UpstreamExchange;
use super::head::{Excess, UpstreamHead};
use super::request::{Form, Handler, HandlerKind, ReadAhead, Wanted};
use super::transport::ReadError;
use super::upgrade::{Upgrade, UpgradedConnection};
use super::websocket_ping::PingedConnection;
use super::{Content, Outcome, Permission, Sendfile, Unrendered};
use crate::buffer::append;
use crate::log;
use crate::log::upstream::AttemptLog;
use crate::response::{Body, BodyStream, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::spawner::Exit;
use crate::tasks::spawn_local;

/// A body without a length that is ready and has at most so many bytes is sent with its head. A larger one is streamed.
const READY_BODY: usize = site::memory::RESPONSE as usize;

/// With `no`, the upstream wants to write no faster than the client reads, as nginx has it.
const X_ACCEL_BUFFERING: &str = "x-accel-buffering";

/// The most bytes of a body that no client gets that are read so that its connection can have another request.
const DISCARDED: usize = 64 * 1024;

/// `received` follows the head.
pub async fn of(
    exchange: UpstreamExchange,
    handler: &Handler,
    wanted: Wanted,
    mut head: UpstreamHead,
    received: Vec<u8>,
) -> Outcome {
    match (&handler.kind, handler.subrequest()) {
        (_, Some(subrequest)) => match verdict(head.status) {
            Verdict::Pass => {
                let permission = permission(subrequest, &head);
                discard(exchange, wanted, &head, received);
                return Outcome::Authorized(permission);
            }
            Verdict::Deny => return of_client(exchange, handler, wanted, head, received).await,
            Verdict::Invalid => {
                return exchange.fail_because(format_args!(
                    "neither lets the request pass nor denies it: its status is {}",
                    head.status
                ));
            }
        },
        (HandlerKind::Authorizer(_), None) if head.status == Status::OK => {
            exchange.drain();
            return Outcome::Authorized(fastcgi_permission(&head));
        }
        _ => {}
    }
    if head.is_local_redirect && exchange.services.site.scripts.local_redirects == LocalRedirects::Sent {
        head.status = Status::FOUND;
    } else if head.is_local_redirect {
        let target = head
            .fields
            .values_of(KnownField::Location)
            .next()
            .and_then(|to| std::str::from_utf8(to).ok())
            .unwrap_or("/");
        exchange.drain();
        return Outcome::InternalRedirect(target.to_owned());
    }
    // A client would take the file for its next response where the status allows no content.
    let allows_content = head.status.allows_body() && head.status != Status::RESET_CONTENT;
    if let Some(path) = sendfile(&head).filter(|_| allows_content) {
        let fields = fields_beside_file(&exchange, handler, &head);
        leave_content(exchange, wanted, &head, received);
        return Outcome::Sendfile(Box::new(Sendfile { path, status: head.status, fields }));
    }
    of_client(exchange, handler, wanted, head, received).await
}

/// Of an authorizer that speaks HTTP.
fn permission(subrequest: &Subrequest, head: &UpstreamHead) -> Permission {
    let response_fields = subrequest.response_lines(head.fields.iter());
    let may_be_remembered =
        response_fields.is_empty() && may_be_remembered(head.fields.values("cache-control"));
    Permission { variables: subrequest.variables(head.fields.iter()), response_fields, may_be_remembered }
}

/// Of an authorizer that speaks FastCGI.
fn fastcgi_permission(head: &UpstreamHead) -> Permission {
    let text = |field: Field| Some((std::str::from_utf8(field.name).ok()?.to_owned(), field.value.to_vec()));
    let variables = variables(&head.fields).filter_map(text).collect();
    Permission { variables, response_fields: Vec::new(), may_be_remembered: false }
}

/// The response for the client.
async fn of_client(
    mut exchange: UpstreamExchange,
    handler: &Handler,
    wanted: Wanted,
    head: UpstreamHead,
    received: Vec<u8>,
) -> Outcome {
    if head.status == Status::SWITCHING_PROTOCOLS {
        let attempt = exchange.take_attempt();
        return switched(&exchange, handler, &head, received, attempt);
    }
    if exchange.request.upgrade.as_ref().is_some_and(Upgrade::is_by_connect) && head.status.is_successful() {
        let status = head.status;
        return exchange.fail_because(format_args!("has not switched the protocol: its status is {status}"));
    }
    let services = exchange.services.clone();
    let authority = exchange.request.authority.clone();
    let trailer = head.trailer.as_deref().filter(|_| exchange.request.response_trailers.is_some());
    // On the heap, because the internal redirects of a script nest.
    let content = match Box::pin(content(exchange, wanted, &head, received)).await {
        Ok(content) => content,
        Err(outcome) => return outcome,
    };
    let upgrade = handler.named_upgrades(&services, head.status, head.upgrade.as_deref());
    let upgrade = upgrade.as_deref().map(|names| [("Connection", "Upgrade"), ("Upgrade", names)]);
    let rewritten = rewritten(&services, handler, &authority);
    // Content with a length has no place for them by HTTP/1.1.
    let trailer = trailer.filter(|_| matches!(content, Content::Stream(_, None)));
    if handler.form == Form::Unrendered {
        let own = trailer.map(|names| ("Trailer", names)).into_iter().chain(upgrade.into_iter().flatten());
        let fields = unrendered_fields(&head, own, rewritten);
        return Outcome::Unrendered(Box::new(Unrendered { status: head.status, fields, content }), None);
    }
    let route = handler.route(&services);
    let writer = HeadWriter::dated(&services.site, &date(&services, &head), Some(route), head.status);
    let mut writer = write_fields(writer, &head, rewritten);
    writer = upgrade.into_iter().flatten().fold(writer, |writer, (name, value)| writer.field(name, value));
    Outcome::Response(content.respond(writer.optional("Trailer", trailer)))
}

/// What a field becomes where it may lead to the upstream itself. `None`: it stays. `authority`: the requested host.
fn rewritten<'r>(
    services: &'r Services,
    handler: &'r Handler,
    authority: &'r str,
) -> impl Fn(Option<KnownField>, &[u8]) -> Option<String> + 'r {
    move |known, value| {
        let known = known.filter(|known| REWRITTEN.has(*known) && !handler.is_authorizer())?;
        handler.response_field(services, known, value, authority)
    }
}

/// The fields for the client beside a file that is sent in place of the content.
fn fields_beside_file(
    exchange: &UpstreamExchange,
    handler: &Handler,
    head: &UpstreamHead,
) -> Vec<(String, Vec<u8>)> {
    let rewritten = rewritten(&exchange.services, handler, &exchange.request.authority);
    let field = |line: ReceivedLine<'_>| {
        let Field { name, value } = line.field();
        let value = rewritten(line.known(), value).map_or_else(|| value.to_vec(), String::into_bytes);
        (String::from_utf8_lossy(name).into_owned(), value)
    };
    lines(head).map(field).collect()
}

/// The fields of a response that others finish: `Date`, those of this server, and those of the upstream, some of which
/// are `rewritten`.
fn unrendered_fields<'f>(
    head: &'f UpstreamHead,
    own: impl Iterator<Item = (&'f str, &'f str)>,
    rewritten: impl Fn(Option<KnownField>, &[u8]) -> Option<String>,
) -> Vec<cache::Field> {
    let date = head.fields.values_of(KnownField::Date).next();
    let date = date.map(|value| (Some(KnownField::Date), Field { name: b"Date", value }));
    let own = own.map(|(name, value)| (None, Field { name: name.as_bytes(), value: value.as_bytes() }));
    let of_upstream = lines(head).map(|line| (line.known(), line.field()));
    let field = |(known, Field { name, value }): (Option<KnownField>, Field)| {
        let value = rewritten(known, value).map_or_else(|| value.into(), |value| value.into_bytes().into());
        cache::Field { name: String::from_utf8_lossy(name).into(), value }
    };
    date.into_iter().chain(own).chain(of_upstream).map(field).collect()
}

/// The content of the response, as far as it is there. Errors: what the response leads to without it.
pub(super) async fn content(
    exchange: UpstreamExchange,
    wanted: Wanted,
    head: &UpstreamHead,
    received: Vec<u8>,
) -> Result<Content, Outcome> {
    if wanted == Wanted::Head || !head.status.allows_body() {
        return Ok(no_content(exchange, head, &received));
    }
    // RFC 9110 §15.3.6: a 205 has no content, but a length.
    if head.status == Status::RESET_CONTENT {
        leave_content(exchange, wanted, head, received);
        return Ok(Content::Whole(Vec::new()));
    }
    let mut body = received;
    Ok(match head.framing {
        Framing::Sized(length) if body.len() as u64 >= length => {
            if body.len() as u64 > length {
                log::warn(format_args!(
                    "{}: {} {TOO_LONG}",
                    exchange.request.label, exchange.request.upstream_name
                ));
                exchange.finish(Persistence::Close);
            } else {
                exchange.finish(head.persistence);
            }
            body.truncate(length as usize);
            Content::Whole(body)
        }
        Framing::Sized(length) => {
            Content::Stream(stream(head, UpstreamBody::new(exchange, head, body)), Some(length))
        }
        Framing::None => match read_ready(&exchange, &mut body) {
            Some(Ok(())) if body.len() <= READY_BODY && !exchange.has_trailers() => {
                let exit = exchange.exit().await;
                let is_whole = match exit {
                    Some(Exit::Signal(_)) => exchange.takes_killed_output(),
                    Some(Exit::OutOfMemory | Exit::Lost) => false,
                    Some(Exit::Code(_) | Exit::NotStarted(_)) | None => true,
                };
                if !is_whole {
                    let how = exchange.describe(exit);
                    return Err(exchange.fail_because(format_args!("did not complete its response{how}")));
                }
                exchange.finish(head.persistence);
                Content::Whole(body)
            }
            end => Content::Stream(stream(head, UpstreamBody::new(exchange, head, body).ending(end)), None),
        },
        Framing::Chunked => Content::Stream(stream(head, UpstreamBody::new(exchange, head, body)), None),
    })
}

/// A body that is read ahead of a slow client, unless the route or the upstream forbids it.
fn stream(head: &UpstreamHead, body: UpstreamBody) -> Box<dyn BodyStream> {
    let is_forbidden =
        head.fields.value(X_ACCEL_BUFFERING).is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
    match body.exchange.request.read_ahead.clone() {
        ReadAhead::InMemory if !is_forbidden => Box::new(BufferedBody::new(body, None)),
        ReadAhead::InFile(spawner) if !is_forbidden => Box::new(BufferedBody::new(body, Some(spawner))),
        _ => Box::new(body),
    }
}

/// The content of a response that must have none. Ends the exchange, or leaves it to be drained.
fn no_content(exchange: UpstreamExchange, head: &UpstreamHead, received: &[u8]) -> Content {
    let length = match head.framing {
        // As in the response to GET, in `content`.
        _ if head.status == Status::RESET_CONTENT => Some(0),
        Framing::Sized(bytes) if head.status.allows_body() => Some(bytes),
        _ => None,
    };
    match head.excess {
        Excess::Ignored => exchange.drain(),
        Excess::Malformed if head.framing.has_body() || !received.is_empty() => {
            exchange.finish(Persistence::Close);
        }
        Excess::Malformed => exchange.finish(head.persistence),
    }
    Content::None(length)
}

impl Content {
    /// The response with this content, whose other fields have been written.
    pub fn respond(self, writer: HeadWriter<'_>) -> Response {
        match self {
            Content::None(length) => {
                let writer = length.into_iter().fold(writer, HeadWriter::length);
                Response::from_head(writer.finish())
            }
            Content::Whole(body) => Response::from_head(writer.finish_whole(&body)),
            Content::Stream(stream, Some(length)) => {
                let body = Body::Sized(stream, length);
                Response { body, ..Response::from_head(writer.length(length).finish()) }
            }
            Content::Stream(stream, None) => {
                Response { body: Body::Stream(stream), ..Response::from_head(writer.finish()) }
            }
        }
    }
}

/// The upstream has switched the protocol. It must be the one that the client has asked for.
fn switched(
    exchange: &UpstreamExchange,
    handler: &Handler,
    head: &UpstreamHead,
    received: Vec<u8>,
    attempt: Option<AttemptLog>,
) -> Outcome {
    let services = &exchange.services;
    let fail = |why: &str| exchange.fail_because(format_args!("cannot switch the protocol: {why}"));
    let is_same = |upgrade: &&Upgrade| {
        head.upgrade.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(&upgrade.protocol))
    };
    let Some(upgrade) = exchange.request.upgrade.as_ref().filter(is_same) else {
        return fail("it is not the one that the request asks for");
    };
    if !upgrade.is_accepted(head.fields.value("sec-websocket-accept")) {
        return fail("it has not accepted the key");
    }
    let upstream = handler.upstream(services).and_then(|id| services.site.upstreams.get(id));
    let is_managed = upstream.is_some_and(|upstream| upstream.managed().is_some());
    let Some(connection) = exchange.take_connection() else {
        return fail("it has answered before the end of the request");
    };
    let tunnel = UpgradedConnection::new(connection, received, is_managed, upgrade.permit.clone(), attempt);
    let route = handler.route(services);
    let status = if upgrade.is_by_connect() { Status::OK } else { head.status };
    let mut writer = HeadWriter::new(services, Some(route), status);
    let rewritten = rewritten(services, handler, &exchange.request.authority);
    for line in lines(head) {
        let field = line.field();
        let is_of_key = upgrade.key().is_some() && is_name(field.name, "sec-websocket-accept");
        if !is_of_key {
            let value = rewritten(line.known(), field.value);
            let value = value.as_deref().map_or(field.value, str::as_bytes);
            writer = writer.received(Field { value, ..field });
        }
    }
    let writer = match upgrade.is_by_connect() {
        true => writer,
        false => writer.field("Connection", "Upgrade").field("Upgrade", &*upgrade.protocol),
    };
    let ping = services.site.timeouts.websocket_ping;
    let body = Body::Tunnel(match upgrade.is_websocket() && !ping.is_zero() {
        true => Box::new(PingedConnection::new(tunnel, ping)),
        false => Box::new(tunnel),
    });
    Outcome::Response(Response { body, ..Response::from_head(writer.finish()) })
}

/// The client gets no content of the upstream.
fn leave_content(exchange: UpstreamExchange, wanted: Wanted, head: &UpstreamHead, received: Vec<u8>) {
    match head.excess {
        Excess::Ignored => exchange.drain(),
        Excess::Malformed => {
            exchange.keep_body();
            discard(exchange, wanted, head, received);
        }
    }
}

/// Reads the body in the background, so that the connection can have another request.
fn discard(exchange: UpstreamExchange, wanted: Wanted, head: &UpstreamHead, received: Vec<u8>) {
    let has_body = wanted == Wanted::All && head.status.allows_body();
    if !has_body || head.framing == Framing::Sized(0) {
        let is_clean = received.is_empty() && !(head.framing.has_body() && wanted == Wanted::All);
        return exchange.finish(if is_clean { head.persistence } else { Persistence::Close });
    }
    let services = exchange.services.clone();
    let mut body = UpstreamBody::new(exchange, head, received);
    spawn_local(async move {
        let mut left = DISCARDED;
        while let Ok(Some(bytes)) = body.next(&services).await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                return;
            }
        }
    });
}

/// Reads on without waiting, as much as a small body has. `None`: the end has not been read.
fn read_ready(exchange: &UpstreamExchange, body: &mut Vec<u8>) -> Option<Result<(), ReadError>> {
    while body.len() < READY_BODY {
        match exchange.read_ready()? {
            Ok(Some(more)) => append(body, &more),
            Ok(None) => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}

/// Fields that may lead to the upstream itself.
const REWRITTEN: KnownFields = LEADS_ELSEWHERE.with(KnownField::SetCookie);
/// Fields with a URL.
const LEADS_ELSEWHERE: KnownFields =
    KnownFields::EMPTY.with(KnownField::Location).with(KnownField::ContentLocation).with(KnownField::Refresh);
/// Fields with the file that is sent in place of the body.
const SENDFILE: KnownFields = KnownFields::EMPTY.with(KnownField::XAccelRedirect).with(KnownField::XSendfile);
/// Fields for this server, and those with which every head begins; the configuration may conceal `Server`.
const OWN: KnownFields = SENDFILE.with(KnownField::Date).with(KnownField::Server);

/// That of the upstream, if it has one.
pub fn date(services: &Services, head: &UpstreamHead) -> [u8; LEN] {
    services.clock.date_of(head.fields.values_of(KnownField::Date).next())
}

/// Whether the response means more than its fields and its body.
pub fn leads_elsewhere(head: &UpstreamHead) -> bool {
    let known = head.fields.known_fields();
    known.has_any_of(LEADS_ELSEWHERE) || known.has_any_of(SENDFILE) || head.upgrade.is_some()
}

/// The lines of the fields for the client.
pub fn lines(head: &UpstreamHead) -> impl Iterator<Item = ReceivedLine<'_>> {
    head.fields.lines_without(OWN)
}

/// Writes the fields for the client. `rewritten`: the value in place of that of a field.
pub fn write_fields<'a>(
    mut writer: HeadWriter<'a>,
    head: &UpstreamHead,
    rewritten: impl Fn(Option<KnownField>, &[u8]) -> Option<String>,
) -> HeadWriter<'a> {
    if !head.fields.known_fields().has_any_of(REWRITTEN) {
        return writer.received_section(&head.fields, OWN);
    }
    for line in lines(head) {
        let field = line.field();
        let rewritten = rewritten(line.known(), field.value);
        let value = rewritten.as_deref().map_or(field.value, str::as_bytes);
        writer = writer.received(Field { value, ..field });
    }
    writer
}

/// The file that is sent in place of the body.
fn sendfile(head: &UpstreamHead) -> Option<PathBuf> {
    let [first, second] = [KnownField::XSendfile, KnownField::XAccelRedirect];
    let value = head.fields.values_of(first).chain(head.fields.values_of(second)).next()?;
    Some(Path::new(OsStr::from_bytes(value)).to_owned())
}
