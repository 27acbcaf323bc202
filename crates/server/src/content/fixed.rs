//! Responses that need no file: redirects and errors with a short built-in page, and the response to OPTIONS.

use site::decide::ALLOW;
use site::error_page::{self, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use site::model::{Route, Site};
use site::published::Text;
use taipan_http::response::ResponseHead;
use taipan_http::rule::Rule;
use taipan_http::status::Status;

use crate::clock::Clock;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::services::Services;

/// A status with its built-in page.
pub fn status(services: &Services, route: Option<&Route>, status: Status) -> Response {
    rejection(services, route, status, None)
}

/// As `status`, with the rule that the request has broken.
pub fn rejection(
    services: &Services,
    route: Option<&Route>,
    status: Status,
    rule: Option<&'static Rule>,
) -> Response {
    let head = error_head(services, route, status);
    Response { broken_rule: rule, ..finish(head, status, || error_page::error(status, rule)) }
}

/// With the fields that the status requires.
pub fn error_head<'a>(services: &Services, route: Option<&'a Route>, status: Status) -> HeadWriter<'a> {
    let head = HeadWriter::new(services, route, status);
    match status {
        Status::METHOD_NOT_ALLOWED => head.field("Allow", route.map_or(ALLOW, Route::allow)),
        Status::SERVICE_UNAVAILABLE => head.field("Retry-After", "1"),
        _ => head,
    }
}

/// The response to a request that may be repeated later, as `fields` say, with the built-in page.
pub fn limited(
    services: &Services,
    route: &Route,
    status: Status,
    fields: &[(&'static str, String)],
) -> Response {
    let head = HeadWriter::new(services, Some(route), status);
    let head = fields.iter().fold(head, |head, (name, value)| head.field(name, value));
    finish(head, status, || error_page::error(status, None))
}

/// The response to the one request of a connection for which there is no capacity.
pub fn at_capacity(site: &Site, clock: &Clock) -> ResponseHead {
    let status = Status::SERVICE_UNAVAILABLE;
    let head = HeadWriter::for_site(site, clock, None, status).field("Retry-After", "1");
    with_page(head, &error_page::error(status, None))
}

/// A redirect, with a page for clients that do not follow it.
pub fn redirect(services: &Services, route: Option<&Route>, status: Status, location: &str) -> Response {
    let head = HeadWriter::new(services, route, status).field("Location", location);
    finish(head, status, || error_page::redirect(status, location))
}

/// A text of one line, which no cache keeps.
pub fn text(services: &Services, text: &str) -> Response {
    let head = HeadWriter::new(services, None, Status::OK);
    let head = head.field("Content-Type", "text/plain").field("Cache-Control", "no-store");
    Response::from_head(head.finish_whole(text.as_bytes()))
}

/// A text that holds only now, which no cache keeps.
pub fn unstored(
    services: &Services,
    route: &Route,
    status: Status,
    media_type: &str,
    text: &str,
) -> Response {
    let head = HeadWriter::new(services, Some(route), status)
        .field("Content-Type", media_type)
        .field("Cache-Control", "no-store");
    Response::from_head(head.finish_whole(text.as_bytes()))
}

/// A text of the configuration.
pub fn published(services: &Services, route: &Route, text: &Text, cache_control: Option<&str>) -> Response {
    let head = HeadWriter::new(services, Some(route), Status::OK)
        .field("Content-Type", text.content_type())
        .optional("Cache-Control", cache_control);
    Response::from_head(head.finish_whole(text.body.as_bytes()))
}

/// The response to OPTIONS, with the methods that are allowed.
pub fn options(services: &Services, route: Option<&Route>, allow: &'static str) -> Response {
    let head = HeadWriter::new(services, route, Status::NO_CONTENT);
    Response::from_head(head.field("Allow", allow).finish())
}

/// 416 (RFC 9110 §15.5.17). `size`: bytes of the representation.
pub fn unsatisfiable(services: &Services, route: Option<&Route>, size: u64) -> Response {
    let status = Status::RANGE_NOT_SATISFIABLE;
    let head = HeadWriter::new(services, route, status);
    let head = head.field("Content-Range", taipan_http::range::unsatisfied(size));
    finish(head, status, || error_page::error(status, None))
}

fn finish(head: HeadWriter<'_>, status: Status, page: impl FnOnce() -> String) -> Response {
    match status.allows_body() {
        true => Response::from_head(with_page(head, &page())),
        false => Response::from_head(head.finish()),
    }
}

fn with_page(head: HeadWriter<'_>, page: &str) -> ResponseHead {
    let head = head.field("Content-Type", CONTENT_TYPE).policy(CONTENT_SECURITY_POLICY);
    head.finish_whole(page.as_bytes())
}
