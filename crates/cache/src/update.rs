//! Validation: the request for it, and what its answer changes (RFC 9111 §4.3).

use taipan_http::date;
use taipan_http::status::Status;

use crate::fields::{Field, only};
use crate::policy::CONNECTION;
use crate::stored::{Stored, Times};

/// What the upstream has answered to the request that validates a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validated {
    /// The stored response is still right.
    NotModified,
    /// The answer replaces it.
    Replaced,
    /// The upstream has failed. The stored response may be used, if it says so (RFC 5861 §4).
    Failed,
}

pub fn validated(status: Status) -> Validated {
    match status.code() {
        304 => Validated::NotModified,
        500 | 502 | 503 | 504 => Validated::Failed,
        _ => Validated::Replaced,
    }
}

/// The fields that make a request conditional. Empty: the response has no validators.
pub fn conditions(stored: &Stored) -> Vec<(&'static str, &[u8])> {
    let etag = only(&stored.fields, "etag").map(|tag| ("If-None-Match", tag));
    let modified = only(&stored.fields, "last-modified");
    let modified = modified.filter(|value| date::parse(value, stored.times.received).is_some());
    etag.into_iter().chain(modified.map(|value| ("If-Modified-Since", value))).collect()
}

/// The stored response with the fields of a 304 (RFC 9111 §3.2). `fields` are those of the upstream.
pub fn freshened(stored: &Stored, fields: &[Field], times: Times) -> Stored {
    let is_new = |name: &str| {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        !CONNECTION.iter().any(|known| is(known)) && !OF_CONTENT.iter().any(|known| is(known))
    };
    // The age of what was stored does not count any more.
    let is_replaced = |name: &str| {
        name.eq_ignore_ascii_case("age")
            || name.eq_ignore_ascii_case("date")
            || (is_new(name) && fields.iter().any(|field| field.name.eq_ignore_ascii_case(name)))
    };
    let kept = stored.fields.iter().filter(|field| !is_replaced(&field.name));
    let new = fields.iter().filter(|field| is_new(&field.name));
    Stored { fields: kept.chain(new).cloned().collect(), times, variant: stored.variant.clone(), ..*stored }
}

/// Fields that describe the bytes which are stored.
const OF_CONTENT: [&str; 4] = ["content-encoding", "content-md5", "content-range", "etag"];
