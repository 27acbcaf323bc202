//! Validation: the request for it, and what its answer changes (RFC 9111 §4.3).

use taipan_http::date;
use taipan_http::status::Status;

use crate::fields::{Field, only, values};
use crate::policy::shared_fields;
use crate::settings::Settings;
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
    /// The answer is about the fields of the request, and says nothing of the stored response.
    Rejected,
}

/// By the status of the answer (RFC 9111 §4.3.3). Other errors of the server replace the stored response.
pub fn validated(status: Status) -> Validated {
    match status.code() {
        304 => Validated::NotModified,
        500 | 502 | 503 | 504 => Validated::Failed,
        _ if is_about_request(status) => Validated::Rejected,
        _ => Validated::Replaced,
    }
}

/// Whether any client can have such an answer by fields that do not select a response.
pub fn is_about_request(status: Status) -> bool {
    matches!(status.code(), 400 | 406 | 408 | 412..=417 | 431)
}

/// Whether a 304 with these fields is about the stored response: if both have an entity tag, it is the same one (RFC 9111
/// §4.3.4). Some servers weaken it in one of both responses.
pub fn confirms(stored: &Stored, fields: &[Field]) -> bool {
    let tag = |fields| only(fields, "etag").map(|tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag));
    match (tag(&stored.fields), tag(fields)) {
        (Some(own), Some(other)) => own == other,
        (None, _) | (_, None) => true,
    }
}

/// The fields that make a request conditional. Empty: the response has no validators.
pub fn conditions(stored: &Stored) -> Vec<(&'static str, &[u8])> {
    let etag = only(&stored.fields, "etag").map(|tag| ("If-None-Match", tag));
    let modified = only(&stored.fields, "last-modified");
    let modified = modified.filter(|value| date::parse(value, stored.times.received).is_some());
    etag.into_iter().chain(modified.map(|value| ("If-Modified-Since", value))).collect()
}

/// The stored response with the fields of a 304, or of a 200 to HEAD (RFC 9111 §3.2). `fields` are those of the
/// upstream.
pub fn freshened(stored: &Stored, fields: &[Field], times: Times, settings: &Settings) -> Stored {
    let is_of_content = |name: &str| OF_CONTENT.iter().any(|known| name.eq_ignore_ascii_case(known));
    let mut new = shared_fields(fields, settings);
    new.retain(|field| !is_of_content(&field.name));
    // The age of what was stored does not count any more.
    let is_replaced = |name: &str| {
        name.eq_ignore_ascii_case("age")
            || name.eq_ignore_ascii_case("date")
            || new.iter().any(|field| field.name.eq_ignore_ascii_case(name))
    };
    let kept = stored.fields.iter().filter(|field| !is_replaced(&field.name));
    let fields = kept.chain(new.iter().copied()).cloned().collect();
    Stored { fields, times, variant: stored.variant.clone(), ..*stored }
}

/// The fields of a 304 that are for the client alone whose request has validated the response.
pub fn for_one_client<'f>(fields: &'f [Field], settings: &Settings) -> impl Iterator<Item = &'f Field> {
    let is_shared = !shared_fields(fields, settings).iter().any(|field| is_cookie(field));
    fields.iter().filter(move |field| is_shared && is_cookie(field))
}

fn is_cookie(field: &Field) -> bool {
    field.name.eq_ignore_ascii_case("set-cookie")
}

/// Whether a 200 to HEAD is about the stored response, whose body has `length` bytes: its validators and its length are
/// the same (RFC 9111 §4.3.5). `announced`: its `Content-Length`.
pub fn describes(stored: &Stored, length: u64, fields: &[Field], announced: Option<u64>) -> bool {
    let is_same = |name: &str| {
        values(fields, name).next().is_none() || only(fields, name) == only(&stored.fields, name)
    };
    is_same("etag") && is_same("last-modified") && announced.is_none_or(|announced| announced == length)
}

/// Fields that describe the bytes which are stored.
const OF_CONTENT: [&str; 4] = ["content-encoding", "content-md5", "content-range", "etag"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Cookies;
    use crate::vary::Variant;

    fn fields(lines: &[(&str, &str)]) -> Vec<Field> {
        lines
            .iter()
            .map(|(name, value)| Field { name: (*name).into(), value: value.as_bytes().into() })
            .collect()
    }

    fn stored(lines: &[(&str, &str)]) -> Stored {
        let times = Times { requested: 1, received: 1 };
        Stored { status: Status::OK, fields: fields(lines), times, variant: Variant::default() }
    }

    #[test]
    fn an_answer_changes_the_fields_that_are_for_all_users() {
        let check = |cookies, answer: &[(&str, &str)], expected: &[(&str, &str)], for_one: usize| {
            let settings = Settings { cookies, ..Settings::default() };
            let old = stored(&[("ETag", "\"a\""), ("A", "1"), ("Age", "9"), ("Content-Encoding", "gzip")]);
            let answer = fields(answer);
            let times = Times { requested: 5, received: 6 };
            let new = freshened(&old, &answer, times, &settings);
            assert_eq!((&new.fields, new.times), (&fields(expected), times), "{answer:?}");
            assert_eq!(for_one_client(&answer, &settings).count(), for_one, "{answer:?}");
        };
        let kept = [("ETag", "\"a\""), ("Content-Encoding", "gzip")];
        let with = |more: &[(&'static str, &'static str)]| [&kept[..], more].concat();
        let (public, ignored) = (Cookies::IfPublic, Cookies::Ignored);
        check(public, &[("A", "2"), ("B", "3")], &with(&[("A", "2"), ("B", "3")]), 0);
        check(
            public,
            &[("A", "2"), ("ETag", "\"b\""), ("Connection", "c"), ("C", "x")],
            &with(&[("A", "2")]),
            0,
        );
        check(public, &[("A", "2"), ("Set-Cookie", "s")], &with(&[("A", "2")]), 1);
        check(ignored, &[("A", "2"), ("Set-Cookie", "s")], &with(&[("A", "2")]), 1);
        let open = [("A", "2"), ("Cache-Control", "public"), ("Set-Cookie", "s")];
        check(public, &open, &with(&open), 0);
        check(ignored, &open, &with(&open[..2]), 1);
        let named = [("A", "2"), ("Cache-Control", "private=\"b\""), ("B", "3")];
        check(public, &named, &with(&named[..2]), 0);
    }

    #[test]
    fn a_304_confirms_what_has_its_entity_tag() {
        let check = |own: &[(&str, &str)], answer: &[(&str, &str)], expected| {
            assert_eq!(confirms(&stored(own), &fields(answer)), expected, "{own:?} {answer:?}");
        };
        let tag = |value| [("ETag", value)];
        check(&tag("\"a\""), &tag("\"a\""), true);
        check(&tag("\"a\""), &tag("\"b\""), false);
        check(&tag("W/\"a\""), &tag("\"a\""), true);
        check(&tag("\"a\""), &tag("W/\"a\""), true);
        check(&tag("W/\"a\""), &tag("W/\"b\""), false);
        check(&tag("\"a\""), &[], true);
        check(&[], &tag("\"a\""), true);
        check(&[], &[], true);
    }

    #[test]
    fn a_response_to_head_describes_a_stored_response_unless_a_field_differs() {
        let old = stored(&[("ETag", "\"a\""), ("Last-Modified", "Sun, 01 Mar 2026 00:00:00 GMT")]);
        let check = |answer: &[(&str, &str)], announced, expected| {
            assert_eq!(describes(&old, 5, &fields(answer), announced), expected, "{answer:?} {announced:?}");
        };
        check(&[], None, true);
        check(&[], Some(5), true);
        check(&[], Some(6), false);
        check(&[("ETag", "\"a\"")], Some(5), true);
        check(&[("ETag", "W/\"a\"")], None, false);
        check(&[("ETag", "\"b\"")], Some(5), false);
        check(&[("Last-Modified", "Sun, 01 Mar 2026 00:00:01 GMT")], Some(5), false);
    }
}
