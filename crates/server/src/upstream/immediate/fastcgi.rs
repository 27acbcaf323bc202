//! FastCGI for a request that is sent at once: whether the request is plain, its records, and a whole response.

use std::borrow::Cow;

use script::fastcgi::client::Client;
use script::fastcgi::{Persistence, RequestId, Role};
use script::response::{Limits, Parser, Step};
use site::forwarding::Spelling;
use site::memory;
use site::model::Script;
use site::upstream::Upstream;
use taipan_http::client::section::FieldSection;
use taipan_http::framing::Framing;
use taipan_http::head;
use taipan_http::target::Scheme;

use super::{Outgoing, WholeResponse};
use crate::pool::PooledConnection;
use crate::request::{Arrival, ConnectionInfo};
use crate::services::Services;
use crate::upstream::head::UpstreamHead;
use crate::upstream::request::{Form, Handler, HandlerKind};

/// Whether a request needs only a connection of its own. Its variables have the facts of its TLS, if it has any. For
/// which hosts the certificate of a client counts, only the driver knows.
pub fn is_plain(upstream: &Upstream, outgoing: &Outgoing<'_>) -> bool {
    let Arrival { scheme, tls, .. } = outgoing.arrival;
    upstream.tls.is_none()
        && upstream.multiplex <= 1
        && (scheme == Scheme::Http || tls.is_some_and(|tls| tls.client.is_none()))
}

/// Appends the records of the whole request, which has no body. Returns its ID. `None`: the request cannot be sent.
pub fn write(
    services: &Services,
    script: &Script,
    outgoing: &Outgoing<'_>,
    connection: &mut PooledConnection,
    out: &mut Vec<u8>,
) -> Option<RequestId> {
    let &Outgoing { head, client, group, arrival, host, ref folder, planned, .. } = outgoing;
    let (name, path_info) = planned.script_name_and_path_info();
    let handler = Handler {
        host,
        folder: folder.clone(),
        route: planned.route,
        kind: HandlerKind::Application { name, path_info },
        query: None,
        max_body: 0,
        spelling: Spelling::Normalized,
        form: Form::Response,
    };
    let Arrival { via, tls, local, .. } = arrival;
    let connected = ConnectionInfo { id: None, client, group, via, local: local(), tls };
    let length = head.framing.empty_length();
    let environment = handler.environment(services, head, connected, length, &script.environment).ok()?;
    let client = connection.fastcgi.get_or_insert_with(|| Box::new(Client::new(1)));
    let id = client.begin(Role::Responder, Persistence::KeepAlive, &environment, out)?;
    client.end_stdin(id, out);
    Some(id)
}

/// `None`: this is not all of a response. Its fields have the memory of `section`.
pub fn response<'a>(
    connection: &PooledConnection,
    id: RequestId,
    section: FieldSection,
    received: &'a [u8],
) -> Option<WholeResponse<'a>> {
    let output = connection.fastcgi.as_ref()?.whole(id, received)?;
    let Step::Head(head, used) = Parser::over(section, Limits::default()).receive(&output) else {
        return None;
    };
    let head = UpstreamHead::from(head);
    let received = output.len() - used;
    let content = match output {
        // A script may write content all the same.
        _ if !head.status.allows_body() => Cow::Borrowed(&[][..]),
        Cow::Borrowed(output) => Cow::Borrowed(&output[used..]),
        Cow::Owned(mut output) => Cow::Owned(output.split_off(used)),
    };
    (is_whole(&head, received) && !head.is_local_redirect && !head.repeats_type).then_some(WholeResponse {
        head,
        content,
        persistence: head::Persistence::KeepAlive,
    })
}

/// The response of this request has been read.
pub fn end(connection: &mut PooledConnection, id: RequestId) {
    if let Some(client) = &mut connection.fastcgi {
        client.end_whole(id);
    }
}

/// The record that tells the application to stop.
pub fn abort(connection: &mut PooledConnection, id: RequestId) -> Vec<u8> {
    let mut record = Vec::new();
    if let Some(client) = &mut connection.fastcgi {
        client.abort(id, &mut record);
    }
    record
}

/// Whether the `received` bytes of a body are all of it, and few.
fn is_whole(head: &UpstreamHead, received: usize) -> bool {
    let received = received as u64;
    match head.framing {
        Framing::None | Framing::Sized(_) if !head.status.allows_body() => true,
        Framing::Sized(bytes) => received == bytes,
        Framing::None => received <= memory::RESPONSE,
        Framing::Chunked => false,
    }
}
