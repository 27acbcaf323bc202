//! Whether a response may be stored (RFC 9111 §3), and for which requests a stored one is used (§4).

use taipan_http::fields::{is_name, list};
use taipan_http::head::{Head, Method, Names};
use taipan_http::known::is_hop_by_hop;
use taipan_http::range::ByteRange;
use taipan_http::status::Status;

use crate::directives::{Applies, Directives, RequestDirectives};
use crate::fields::{Field, only, values};
use crate::freshness::{Directed, Explicit, Freshness, Stale, is_heuristic};
use crate::parts::content_range;
use crate::request::{self, ClientIdentity};
use crate::settings::{Cookies, Reload, Settings};
use crate::stored::{Stored, Times};
use crate::vary::{self, Variant};

/// What decides about the use of a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub freshness: Freshness,
    /// Whether requests with credentials, and those with cookies, may have it.
    shared: ClientIdentity,
}

/// What is done with a stored response that a request selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is sent.
    Fresh,
    /// It is sent, and a newer one is requested meanwhile (RFC 5861 §3).
    WhileRevalidating,
    /// It is stale, and the request allows that it is sent (`max-stale`).
    Stale,
    /// It has to be validated first.
    Validate(Why),
    /// The request may have only what is stored, and gets 504 (RFC 9111 §5.2.1.7).
    GatewayTimeout,
    /// It is not for this user.
    Bypass,
}

/// Why a stored response has to be validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Stale,
    /// The request demands it.
    Request,
}

impl Policy {
    /// What the fields of a response and the settings of its route say of its use.
    pub fn of(stored: &Stored, settings: &Settings) -> Policy {
        Policy::directed(stored, &Directed::of(&stored.fields, settings), settings)
    }

    fn directed(stored: &Stored, directed: &Directed, settings: &Settings) -> Policy {
        let shared = shared(&directed.directives, settings);
        Policy { freshness: Freshness::directed(stored, directed, settings), shared }
    }

    /// Whether requests of a user may have it.
    #[inline]
    pub fn is_for(&self, identity: ClientIdentity) -> bool {
        is_within(identity, self.shared)
    }

    /// What is done for a request that selects the response.
    #[inline]
    pub fn decide(
        &self,
        request: &RequestDirectives,
        identity: ClientIdentity,
        settings: &Settings,
        now: i64,
    ) -> Use {
        if !self.is_for(identity) {
            return Use::Bypass;
        }
        let validate = |why| match request.only_if_cached {
            true => Use::GatewayTimeout,
            false => Use::Validate(why),
        };
        let freshness = &self.freshness;
        if freshness.stale == Stale::AlwaysValidate {
            return validate(Why::Stale);
        }
        let left = freshness.left(now);
        if settings.reload == Reload::Allowed && demands_newer(request, freshness.age(now), left) {
            return validate(Why::Request);
        }
        if left > 0 {
            return Use::Fresh;
        }
        let allowed = request.max_stale.filter(|_| freshness.stale == Stale::Allowed);
        if allowed.is_some_and(|seconds| u64::try_from(-left).is_ok_and(|stale| stale <= seconds)) {
            return Use::Stale;
        }
        if freshness.serves_while_revalidating(now) {
            return Use::WhileRevalidating;
        }
        validate(Why::Stale)
    }
}

fn demands_newer(request: &RequestDirectives, age: i64, left: i64) -> bool {
    let exceeds = |limit: u64, value: i64| u64::try_from(value).is_ok_and(|value| value > limit);
    let is_too_old = request.max_age.is_some_and(|limit| limit == 0 || exceeds(limit, age));
    let is_too_short =
        request.min_fresh.is_some_and(|wanted| u64::try_from(left).map_or(true, |left| left < wanted));
    request.no_cache || is_too_old || is_too_short
}

/// What a later request may carry, and still get the response: credentials, cookies (RFC 9111 §3.5).
fn shared(directives: &Directives, settings: &Settings) -> ClientIdentity {
    let is_public = directives.public || directives.s_maxage.is_some();
    ClientIdentity {
        credentials: is_public || directives.must_revalidate,
        cookies: is_public || settings.cookies == Cookies::Ignored,
    }
}

fn is_within(identity: ClientIdentity, allowed: ClientIdentity) -> bool {
    (!identity.credentials || allowed.credentials) && (!identity.cookies || allowed.cookies)
}

/// The head of a response as an upstream has sent it.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    pub status: Status,
    pub fields: &'a [Field],
    pub times: Times,
}

/// What is stored of a response to this request, with what decides about its use. `None`: it may not be stored.
pub fn store(
    head: &Head<'_>,
    identity: ClientIdentity,
    received: Received<'_>,
    settings: &Settings,
) -> Option<(Stored, Policy)> {
    let Received { status, fields, times } = received;
    if head.method != Method::Get || request::is_for_one_client(head) || is_about_range(head, status) {
        return None;
    }
    let directed = Directed::of(fields, settings);
    let directives = &directed.directives;
    if !is_storable(status, directives) || directives.private == Applies::Everywhere {
        return None;
    }
    let shared = shared(directives, settings);
    let sets_cookies = values(fields, "set-cookie").next().is_some();
    let cookies = identity.cookies || (sets_cookies && settings.cookies == Cookies::IfPublic);
    if !is_within(ClientIdentity { cookies, ..identity }, shared) {
        return None;
    }
    let variant = Variant::select(vary::selecting(fields, head.fields)?, head.fields);
    let fields =
        fields.iter().filter(|field| is_kept(&field.name, fields, directives, settings)).cloned().collect();
    let stored = Stored { status, fields, times, variant };
    let policy = Policy::directed(&stored, &directed, settings);
    is_worthwhile(&stored, &policy, directives).then_some((stored, policy))
}

/// A part of a response that may be stored.
pub struct StoredPart {
    /// As of the whole response.
    pub stored: Stored,
    pub policy: Policy,
    pub range: ByteRange,
    /// Bytes of the whole.
    pub size: u64,
}

/// As `store`, for a 206 whose body has `length` bytes. `None`: it may not be stored, or does not say what part it is.
pub fn store_part(
    head: &Head<'_>,
    identity: ClientIdentity,
    received: Received<'_>,
    length: u64,
    settings: &Settings,
) -> Option<StoredPart> {
    let Received { fields, times, .. } = received;
    let (range, size) = content_range(only(fields, "content-range")?, length)?;
    let of_whole: Vec<Field> =
        fields.iter().filter(|field| !field.name.eq_ignore_ascii_case("content-range")).cloned().collect();
    let whole = Received { status: Status::OK, fields: &of_whole, times };
    let (stored, policy) = store(head, identity, whole, settings)?;
    // Without a validation of its own, a part is used only while it is fresh.
    (policy.freshness.left(times.received) > 0).then_some(StoredPart { stored, policy, range, size })
}

/// Whether an answer that validates a response lets it be stored on. `stored` has its fields, and `identity` is that of
/// the request for it.
pub fn stays_stored(stored: &Stored, identity: ClientIdentity, settings: &Settings) -> bool {
    let directives = Directed::of(&stored.fields, settings).directives;
    is_storable(stored.status, &directives)
        && directives.private != Applies::Everywhere
        && is_within(identity, shared(&directives, settings))
}

/// The fields of an answer to a validation or to HEAD that may become those of a stored response. The others, such as
/// `Set-Cookie`, are for the client that it was requested for.
pub(crate) fn shared_fields<'f>(fields: &'f [Field], settings: &Settings) -> Vec<&'f Field> {
    let directives = Directed::of(fields, settings).directives;
    let is_public = shared(&directives, settings).cookies && settings.cookies == Cookies::IfPublic;
    let is_shared = |field: &&Field| {
        is_kept(&field.name, fields, &directives, settings)
            && (is_public || !field.name.eq_ignore_ascii_case("set-cookie"))
    };
    fields.iter().filter(is_shared).collect()
}

/// The fields of a response that were not stored with it, but are for the client that it was requested for.
pub fn unstored<'f>(fields: &'f [Field], stored: &'f Stored) -> impl Iterator<Item = &'f Field> {
    let is_stored = |field: &&Field| stored.fields.iter().any(|own| own.name == field.name);
    fields.iter().filter(move |field| !is_stored(field) && !is_of_connection(&field.name))
}

/// Whether an answer may be about the range that a request asks for: any but the whole response may be.
fn is_about_range(head: &Head<'_>, status: Status) -> bool {
    head.names.contains(Names::RANGE) && status != Status::OK
}

/// Whether the status and the directives allow it.
fn is_storable(status: Status, directives: &Directives) -> bool {
    match status.code() {
        // Interim responses, parts, and answers to conditions are no responses of their own.
        ..200 | 206 | 304 => return false,
        // What one client has sent too slowly, or in fields that do not select a response.
        408 | 412 | 416 | 417 | 431 => return false,
        _ => {}
    }
    // RFC 9111 §5.2.2.3.
    match directives.must_understand {
        true => is_understood(status),
        false => !directives.no_store,
    }
}

/// Whether it can be used at all without being requested again as a whole.
fn is_worthwhile(stored: &Stored, policy: &Policy, directives: &Directives) -> bool {
    let freshness = &policy.freshness;
    let is_allowed = freshness.explicit == Explicit::Yes || directives.public || is_heuristic(stored.status);
    let has_validator = |name| values(&stored.fields, name).next().is_some();
    let can_validate =
        stored.status == Status::OK && (has_validator("etag") || has_validator("last-modified"));
    let is_used = freshness.end() > stored.times.received && freshness.stale != Stale::AlwaysValidate;
    is_allowed && (is_used || can_validate)
}

/// Statuses whose caching the server knows (RFC 9110 §15).
fn is_understood(status: Status) -> bool {
    is_heuristic(status)
        || matches!(status.code(), 201 | 202 | 302 | 303 | 307 | 400..=403 | 406 | 407 | 409 | 411 | 413 | 415 | 421 | 422 | 426 | 429 | 451 | 500 | 502..=505)
}

/// Whether a field is stored. `all` are the fields of the response.
fn is_kept(name: &str, all: &[Field], directives: &Directives, settings: &Settings) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let is_nominated = || list(values(all, "connection")).any(|nominated| is_name(nominated, name));
    let is_cookie = is("set-cookie") && settings.cookies == Cookies::Ignored;
    !is_of_connection(name)
        && !directives.no_cache.names(name)
        && !directives.private.names(name)
        && !is_cookie
        && !is_nominated()
}

/// Whether a field is of the connection or of a proxy, and so not part of a stored response (RFC 9111 §3.1). The length
/// is that of the body.
fn is_of_connection(name: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "content-length",
        // What is stored has no trailers.
        "trailer",
    ];
    is_hop_by_hop(name.as_bytes()) || OTHERS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    const NOW: i64 = 1_772_323_200;

    fn stored(request: &str, status: u16, response: &str, settings: &Settings) -> Option<(Stored, Policy)> {
        stored_of_host("a", request, status, response, settings)
    }

    fn stored_of_host(
        host: &str,
        request: &str,
        status: u16,
        response: &str,
        settings: &Settings,
    ) -> Option<(Stored, Policy)> {
        let input = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{request}\r\n");
        let mut space = FieldStore::new();
        let head = parse(input.as_bytes(), &mut space, &Limits::default()).unwrap().unwrap().0;
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            Field { name: name.into(), value: value.as_bytes().into() }
        };
        let fields: Vec<Field> = response.split('\n').filter(|line| !line.is_empty()).map(field).collect();
        let times = Times { requested: NOW, received: NOW };
        let received = Received { status: Status::new(status).unwrap(), fields: &fields, times };
        store(&head, ClientIdentity::of(&head, settings), received, settings)
    }

    #[test]
    fn stores_what_may_be_stored() {
        let check = |request: &str, status: u16, response: &str, expected: bool| {
            let found = stored(request, status, response, &Settings::default());
            assert_eq!(found.is_some(), expected, "{request} {status} {response}");
        };
        for status in [200, 203, 204, 299, 301, 302, 307, 400, 404, 410, 500, 503, 599] {
            check("", status, "Cache-Control: max-age=60", true);
        }
        for status in [206, 304, 408, 412, 416, 417, 431] {
            check("", status, "Cache-Control: max-age=60", false);
        }
        for (status, expected) in [(200, true), (301, false), (400, false), (404, false), (503, false)] {
            check("Range: bytes=x\r\n", status, "Cache-Control: max-age=60, public", expected);
        }
        check("", 599, "Cache-Control: max-age=60, must-understand", false);
        check("", 200, "Cache-Control: max-age=60, must-understand, no-store", true);
        check("", 200, "Cache-Control: max-age=60\nVary: a, *", false);
        check("", 200, "ETag: \"a\"", true);
        check("", 404, "ETag: \"a\"", false);
        check("", 200, "Cache-Control: private=\"a\", max-age=60", true);
        check("Authorization: a\r\n", 200, "Cache-Control: max-age=60", false);
        check("Authorization: a\r\n", 200, "Cache-Control: max-age=60, must-revalidate", true);
        check("Cookie: a\r\n", 200, "Cache-Control: max-age=60, must-revalidate", false);
        check("Cookie: a\r\n", 200, "Cache-Control: max-age=60, public", true);
        check("", 200, "Cache-Control: max-age=60\nSet-Cookie: a", false);
        check("Cache-Control: no-store\r\n", 200, "Cache-Control: max-age=60", false);
        // The upstream has not seen the request that would have the response.
        for (request, expected) in [
            ("Connection: keep-alive\r\n", true),
            ("Connection: close, te\r\nTE: trailers\r\n", true),
            ("Connection: accept-language\r\n", true),
            ("Connection: close, ACCEPT-language\r\nAccept-Language: de\r\n", false),
            ("Connection: a\r\nConnection: b\r\nB: 1\r\n", false),
            ("X-HTTP-Method-Override: DELETE\r\n", false),
            ("X-HTTP-Method: POST\r\n", false),
            ("X-Method-Override: POST\r\n", false),
            ("X-Original-URL: /other\r\n", false),
            ("x-rewrite-url: /other\r\n", false),
            ("X-Host: other\r\n", false),
            ("X-HTTP-Host-Override: other\r\n", false),
            ("X-Original-Host: other\r\n", true),
        ] {
            check(request, 200, "Cache-Control: max-age=60", expected);
        }
        for (host, expected) in [
            ("h", true),
            ("h:8080", true),
            ("[::1]", true),
            ("h:80", false),
            ("h:443", false),
            ("h:00080", false),
            ("h:", false),
            ("[::1]:80", false),
            ("H", false),
        ] {
            let found = stored_of_host(host, "", 200, "Cache-Control: max-age=60", &Settings::default());
            assert_eq!(found.is_some(), expected, "{host}");
        }
    }

    #[test]
    fn leaves_out_fields_that_are_for_one_client() {
        let response =
            "Cache-Control: max-age=60, no-cache=\"a\", private=b\nA: 1\nB: 2\nC: 3\nConnection: c\nD: 4";
        let (stored, _) = stored("", 200, response, &Settings::default()).unwrap();
        let names: Vec<&str> = stored.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["Cache-Control", "D"]);
    }

    #[test]
    fn decides_by_age_user_and_request() {
        let allowed = Settings { reload: Reload::Allowed, ..Settings::default() };
        let check = |response: &str, request: &str, cookies: bool, after: i64, expected: Use| {
            let (_, policy) = stored("", 200, response, &allowed).unwrap();
            let request = RequestDirectives::parse([request.as_bytes()].into_iter(), [].into_iter());
            let identity = ClientIdentity { credentials: false, cookies };
            assert_eq!(
                policy.decide(&request, identity, &allowed, NOW + after),
                expected,
                "{response} {after}"
            );
        };
        let plain = "Cache-Control: max-age=60";
        check(plain, "", false, 59, Use::Fresh);
        check(plain, "", false, 60, Use::Validate(Why::Stale));
        check(plain, "", true, 0, Use::Bypass);
        check("Cache-Control: max-age=60, public", "", true, 0, Use::Fresh);
        check(plain, "no-cache", false, 0, Use::Validate(Why::Request));
        check(plain, "max-age=5", false, 6, Use::Validate(Why::Request));
        check(plain, "min-fresh=50", false, 11, Use::Validate(Why::Request));
        check(plain, "max-stale=5", false, 65, Use::Stale);
        check(plain, "max-stale=5", false, 66, Use::Validate(Why::Stale));
        check(plain, "only-if-cached", false, 60, Use::GatewayTimeout);
        check(
            "Cache-Control: max-age=60, must-revalidate",
            "max-stale",
            false,
            61,
            Use::Validate(Why::Stale),
        );
        check("Cache-Control: max-age=60, stale-while-revalidate=9", "", false, 68, Use::WhileRevalidating);
        check("Cache-Control: no-cache\nETag: \"a\"", "", false, 0, Use::Validate(Why::Stale));
    }
}
