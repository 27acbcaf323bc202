//! What of a request counts for the cache.

use taipan_http::fields::{is_name, list, trim_ows};
use taipan_http::head::{Field, Head, Method, Names};
use taipan_http::known::is_hop_by_hop;
use taipan_http::target::Scheme;

use crate::directives::RequestDirectives;
use crate::settings::Settings;

/// Whether the cache may answer a request, and store its answer (RFC 9111 §3 and §4). A request with a body is left
/// out, and so is one that switches the protocol.
pub fn is_eligible(head: &Head<'_>) -> bool {
    let is_read = matches!(head.method, Method::Get | Method::Head);
    is_read && !head.framing.has_body() && !head.names.intersects(OTHERS)
}

const OTHERS: Names = Names::UPGRADE.union(Names::IF_MATCH).union(Names::IF_UNMODIFIED_SINCE);

/// The directives of a request.
#[inline]
pub fn directives(head: &Head<'_>) -> RequestDirectives {
    if !head.names.intersects(DIRECTIVES) {
        return RequestDirectives::default();
    }
    RequestDirectives::parse(head.values("cache-control"), head.values("pragma"))
}

const DIRECTIVES: Names = Names::CACHE_CONTROL.union(Names::PRAGMA);

/// What makes an answer one for a single user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    pub credentials: bool,
    pub cookies: bool,
}

impl ClientIdentity {
    pub const ALL: [ClientIdentity; 4] = [
        ClientIdentity { credentials: false, cookies: false },
        ClientIdentity { credentials: false, cookies: true },
        ClientIdentity { credentials: true, cookies: false },
        ClientIdentity { credentials: true, cookies: true },
    ];

    /// By `Authorization` and `Cookie`.
    #[inline]
    pub fn of(head: &Head<'_>, settings: &Settings) -> ClientIdentity {
        ClientIdentity {
            credentials: head.names.contains(Names::AUTHORIZATION),
            cookies: head.names.contains(Names::COOKIE) && has_cookies_of_others(head, settings),
        }
    }
}

/// Whether a request with cookies has another one than that of the server itself, as `endpoint=4d9e`.
fn has_cookies_of_others(head: &Head<'_>, settings: &Settings) -> bool {
    let Some(name) = &settings.endpoint_cookie else { return true };
    let value = |pair| trim_ows(pair).strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    let is_own =
        |pair| value(pair).is_some_and(|value| value.len() == 4 && value.iter().all(u8::is_ascii_hexdigit));
    !head.values("cookie").flat_map(|field| field.split(|byte| *byte == b';')).all(is_own)
}

/// Whether the answer is for the client alone: it says so, or the answer may be to another request than its own.
pub fn is_for_one_client(head: &Head<'_>) -> bool {
    directives(head).no_store || is_altered(head)
}

/// Whether the upstream may respond to another request than the one that would find the stored response: `Connection`
/// takes a field away that it would have had (RFC 9110 §7.6.1), a field names another method, path or host, or the host
/// is not spelled as in the key.
fn is_altered(head: &Head<'_>) -> bool {
    let is_taken = |option: &[u8]| {
        // An upstream never has these from a client.
        let is_of_connection = || is_hop_by_hop(option) || is_name(option, "http2-settings");
        head.fields.iter().any(|field| field.name.eq_ignore_ascii_case(option)) && !is_of_connection()
    };
    head.names.contains(Names::CONNECTION) && list(head.values("connection")).any(is_taken)
        || head.fields.iter().any(|field| OVERRIDES.iter().any(|known| is_name(field.name, known)))
        || !is_canonical(head.authority)
}

/// Whether the authority is in lower case, and has no port that a URL of either scheme can do without.
fn is_canonical(authority: &[u8]) -> bool {
    let is_shortest = |scheme: Scheme| scheme.without_default_port(authority).len() == authority.len();
    is_shortest(Scheme::Http) && is_shortest(Scheme::Https) && !authority.iter().any(u8::is_ascii_uppercase)
}

/// Fields by which programs take a request for one with another method, path or host. A trusted proxy may pass them on
/// from a client. Fields that proxies themselves send, such as `X-Original-Host`, are not listed: nothing behind such a
/// proxy would be stored.
const OVERRIDES: [&str; 7] = [
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// The lines of a field of a request. `name` is in lower case.
pub fn lines<'a, 'n>(
    fields: &'a [Field<'a>],
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, 'n> {
    fields.iter().filter(move |field| is_name(field.name, name)).map(|field| field.value)
}
