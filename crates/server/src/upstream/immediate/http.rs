//! HTTP/1.1 for a request that is sent at once: whether the request is plain, its bytes, and a whole response.

use std::borrow::Cow;

use site::forwarding::Spelling;
use site::model::Script;
use site::upstream::Upstream;
use taipan_http::client::lines::Limits;
use taipan_http::client::section::FieldSection;
use taipan_http::client::{Head as ResponseHead, Parser, Step};
use taipan_http::framing::Framing;
use taipan_http::head::Head;

use super::{Outgoing, WholeResponse};
use crate::upstream::http_head::{ConnectionOption, ForwardedHead, goes_in_a_circle};
use crate::upstream::upgrade::Upgrade;

/// Whether a request needs only a connection.
pub fn is_plain(upstream: &Upstream, script: &Script, head: &Head<'_>) -> bool {
    // What a TLS session has taken may be sent later.
    upstream.tls.is_none()
        && !upstream.http2
        && Upgrade::requested(head, &script.forwarding).is_none()
        && !goes_in_a_circle(head)
}

/// Appends the whole request, which has no body.
pub fn write(upstream: &Upstream, script: &Script, outgoing: &Outgoing<'_>, out: &mut Vec<u8>) {
    let &Outgoing { head, client, arrival, .. } = outgoing;
    let forwarded = ForwardedHead {
        head,
        client,
        via: arrival.via,
        length: head.framing.empty_length(),
        upstream,
        forwarding: &script.forwarding,
        spelling: Spelling::Normalized,
        asserted: &[],
        connection: ConnectionOption::KeepAlive,
    };
    forwarded.write(out);
}

/// `None`: this is not all of a response. Its fields have the memory of `section`.
pub fn response(section: FieldSection, received: &[u8]) -> Option<WholeResponse<'_>> {
    let Step::Head(head, used) = Parser::over(section, Limits::default()).receive(received) else {
        return None;
    };
    let content = &received[used..];
    (is_whole(&head, content.len()) && !head.repeats_type).then(|| WholeResponse {
        persistence: head.persistence,
        head: head.into(),
        content: Cow::Borrowed(content),
    })
}

/// Whether the `received` bytes of a body are all of it.
fn is_whole(head: &ResponseHead, received: usize) -> bool {
    match head.framing {
        Framing::Sized(bytes) if head.status.allows_body() => received as u64 == bytes,
        framing => !head.status.allows_body() && !framing.has_body() && received == 0,
    }
}
