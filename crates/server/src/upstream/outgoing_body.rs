//! The body of a request, made ready for its upstream: sent while it is received, or received to its end first where
//! the upstream has to know the length before.

use site::forwarding::Bodies;
use site::upstream::Protocol;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;

use super::request::Handler;
use super::spool::SpoolFile;
use super::{Outcome, Upstreams, spooled_body};
use crate::request::body::{Length, RequestBody};
use crate::services::Services;

pub enum OutgoingBody {
    None,
    /// It is sent while it is received.
    Client(RequestBody),
    /// It has been received to its end.
    Spooled(SpoolFile),
}

impl OutgoingBody {
    /// Receives the body, if the handler's upstream has to know a length that the client has not sent. Errors: it is too
    /// large or malformed, or there is no space for it.
    pub async fn prepare(
        upstreams: &Upstreams,
        handler: &Handler,
        body: RequestBody,
    ) -> Result<OutgoingBody, Outcome> {
        let bodies = bodies(&upstreams.services, handler);
        match body.length() {
            Length::None => Ok(OutgoingBody::None),
            Length::Unknown if bodies == Some(Bodies::Streamed) => Ok(OutgoingBody::Client(body)),
            Length::Sized(bytes) if bytes > handler.max_body => {
                Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into())
            }
            Length::Sized(_) if bodies != Some(Bodies::Buffered) => Ok(OutgoingBody::Client(body)),
            // CGI, FastCGI and SCGI have the length before the body.
            Length::Unknown | Length::Sized(_) => {
                let spawner = upstreams.spawner.as_ref().ok_or(Status::LENGTH_REQUIRED)?;
                let spooled =
                    spooled_body::receive(&upstreams.services, spawner, &body, handler.max_body).await?;
                Ok(OutgoingBody::Spooled(spooled))
            }
        }
    }

    /// As the upstream gets it.
    pub fn length(&self) -> Length {
        match self {
            OutgoingBody::None => Length::None,
            OutgoingBody::Client(body) => body.length(),
            OutgoingBody::Spooled(spooled) => Length::Sized(spooled.length()),
        }
    }
}

/// How an upstream that speaks HTTP, which can do without the length, gets a body. `None`: it speaks another protocol.
fn bodies(services: &Services, handler: &Handler) -> Option<Bodies> {
    let upstream = handler.upstream(services).and_then(|id| services.site.upstreams.get(id));
    let upstream = upstream.filter(|upstream| upstream.protocol == Protocol::Http)?;
    let script = handler.route(services).script.as_ref();
    Some(match script.map_or(Bodies::Sized, |script| script.forwarding.bodies) {
        Bodies::Sized if upstream.http2 => Bodies::Streamed,
        bodies => bodies,
    })
}
