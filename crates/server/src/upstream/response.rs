//! The head that a script writes, as the head of a response: its fields, with those of the route; how long
//! the body is; and where it leads elsewhere, where to.

use std::path::{Path, PathBuf};

use script::response::variables;
use taipan_http::fields::is_name;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Persistence};
use taipan_http::status::Status;

use super::body::{TOO_LONG, UpstreamBody};
use super::head::UpstreamHead;
use super::transport::Received;
use super::{End, Handler, HandlerKind, Outcome, UpstreamExchange, Wanted};
use crate::buffer::append;
use crate::log;
use crate::response::{Body, Response};
use crate::response_head::HeadWriter;
use crate::spawner::Exit;

/// Bytes of output that are gathered behind a head whose length is not known, as long as they are there. More than
/// these are sent piece by piece.
const GATHER: usize = site::memory::ANSWER as usize;

/// A file that is sent in place of the body.
pub struct Sendfile {
    pub path: PathBuf,
    pub status: Status,
    /// The other fields of the head.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// What `head` leads to, behind which `rest` has come.
pub async fn of(
    exchange: UpstreamExchange,
    handler: &Handler,
    wanted: Wanted,
    head: &UpstreamHead,
    rest: &[u8],
) -> Outcome {
    if let HandlerKind::Authorizer(id) = handler.what
        && head.status == Status::OK
    {
        let text =
            |field: Field| Some((std::str::from_utf8(field.name).ok()?.to_owned(), field.value.to_vec()));
        let variables = variables(&head.fields).filter_map(text).collect();
        exchange.let_go(End::Later);
        return Outcome::Authorized(id, variables);
    }
    if head.is_local_redirect {
        let target = head
            .fields
            .value("location")
            .and_then(|to| std::str::from_utf8(to).ok())
            .unwrap_or("/")
            .to_owned();
        exchange.let_go(End::Later);
        return Outcome::InternalRedirect(target);
    }
    if let Some(path) = sendfile(head) {
        let fields = fields(head).map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        exchange.let_go(End::Later);
        return Outcome::Sendfile(Box::new(Sendfile { path, status: head.status, fields }));
    }
    let services = exchange.services.clone();
    let route = services.site.hosts.at(handler.host).routes.get(handler.route);
    let mut writer = HeadWriter::new(&services, Some(route), head.status);
    for (name, value) in fields(head) {
        writer = writer.field(name, value);
    }
    if wanted == Wanted::Head || !head.status.allows_body() {
        let writer = match head.framing {
            Framing::Sized(bytes) if head.status.allows_body() => writer.length(bytes),
            _ => writer,
        };
        // Content that only one side believes in would be read as the next answer.
        let stays = head.persistence == Persistence::KeepAlive && !head.framing.has_body() && rest.is_empty();
        exchange.let_go(End::Head(stays));
        return Outcome::Response(Response::from_head(writer.finish()));
    }
    let mut ready = rest.to_vec();
    match head.framing {
        Framing::Sized(bytes) if ready.len() as u64 >= bytes => {
            if ready.len() as u64 > bytes {
                log::warn(format_args!("{}: {} {TOO_LONG}", exchange.who, exchange.what));
            }
            exchange.through(head.persistence == Persistence::KeepAlive && ready.len() as u64 == bytes);
            ready.truncate(bytes as usize);
            Outcome::Response(Response::from_head(writer.length(bytes).finish_with(&ready)))
        }
        Framing::Sized(bytes) => {
            let content = UpstreamBody::new(exchange, head, ready);
            let body = Body::Sized(Box::new(content), bytes);
            Outcome::Response(Response { body, ..Response::from_head(writer.length(bytes).finish()) })
        }
        Framing::None if gather(&exchange, &mut ready) => match exchange.end().await {
            ended @ Some(Exit::Signal(_) | Exit::OutOfMemory | Exit::Lost) => {
                let UpstreamExchange { who, what, .. } = &exchange;
                let how = exchange.told(ended);
                log::error(format_args!("{who}: {what} has not ended its answer by itself{how}"));
                exchange.fail(Status::BAD_GATEWAY)
            }
            _ => {
                exchange.through(false);
                Outcome::Response(Response::from_head(writer.length(ready.len() as u64).finish_with(&ready)))
            }
        },
        Framing::None | Framing::Chunked => {
            let content = UpstreamBody::new(exchange, head, ready);
            let body = Body::Stream(Box::new(content));
            Outcome::Response(Response { body, ..Response::from_head(writer.finish()) })
        }
    }
}

/// Takes what is there already. Is that all, and can it be sent at once?
fn gather(exchange: &UpstreamExchange, ready: &mut Vec<u8>) -> bool {
    while ready.len() < GATHER {
        match exchange.read_at_once() {
            Some(Received::End) => return ready.len() <= GATHER,
            Some(Received::Bytes(more)) => append(ready, &more),
            None => return false,
        }
    }
    false
}

/// What is for the client, but for what the server itself says: `Date`, and `Server`, which the
/// configuration may conceal.
fn fields(head: &UpstreamHead) -> impl Iterator<Item = (&str, &[u8])> {
    head.fields.iter().filter_map(|field| {
        let own = ["date", "server", "x-sendfile", "x-accel-redirect"];
        let name = std::str::from_utf8(field.name).ok()?;
        (!own.iter().any(|own| is_name(field.name, own))).then_some((name, field.value))
    })
}

/// The file that is to be sent in place of the body.
fn sendfile(head: &UpstreamHead) -> Option<PathBuf> {
    let value = head.fields.value("x-sendfile").or_else(|| head.fields.value("x-accel-redirect"))?;
    Some(Path::new(std::str::from_utf8(value).ok()?).to_owned())
}
