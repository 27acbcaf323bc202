//! Trailer fields (RFC 9110 §6.5): which of them a proxy passes behind a message. Knows nothing of how a message
//! carries them.

use crate::fields::{is_name, trim_ows};
use crate::forwarded;

/// Fields of one trailer section. If there are more, none is passed.
pub const MOST: usize = 64;
/// Bytes of their names and values.
pub const MOST_BYTES: usize = 8 * 1024;

/// Names in lower case, and values.
pub type Trailers = Vec<(String, Vec<u8>)>;

/// Fields that mean nothing behind the content, or must be known before it (RFC 9110 §6.5.1): framing, routing,
/// modifiers of requests, authentication, control data of responses, and the format of the content.
const OF_HEADS: [&str; 52] = [
    "accept-ranges",
    "age",
    "allow",
    "alt-svc",
    "authorization",
    "cache-control",
    "cdn-cache-control",
    "clear-site-data",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-security-policy",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "expires",
    "host",
    "http2-settings",
    "keep-alive",
    "link",
    "location",
    "max-forwards",
    "pragma",
    "priority",
    "proxy",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "surrogate-control",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-accel-redirect",
    "x-content-type-options",
    "x-http-method-override",
    "x-sendfile",
];

/// Beginnings of the names of such fields.
const FAMILIES: [&str; 7] =
    ["access-control-", "if-", "proxy-", "sec-", "x-accel-", "x-forwarded-", "x-original-"];

/// Whether a field of this name may be behind the content.
pub fn is_allowed(name: &[u8]) -> bool {
    let is_of_family =
        |family: &&str| name.split_at_checked(family.len()).is_some_and(|(start, _)| is_name(start, family));
    !OF_HEADS.iter().any(|own| is_name(name, own))
        && !FAMILIES.iter().any(is_of_family)
        && !forwarded::is_claim(name)
        // Programs take it for the same name with a hyphen.
        && !name.contains(&b'_')
}

/// The fields that are passed, of all that were received. `is_withheld` names further ones that are not.
pub fn passed<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    is_withheld: impl Fn(&[u8]) -> bool,
) -> Trailers {
    let (mut passed, mut count, mut bytes) = (Trailers::new(), 0, 0);
    for (name, value) in fields {
        (count, bytes) = (count + 1, bytes + name.len() + value.len());
        if count > MOST || bytes > MOST_BYTES {
            return Trailers::new();
        }
        if let Ok(text) = std::str::from_utf8(name)
            && is_allowed(name)
            && !is_withheld(name)
        {
            passed.push((text.to_ascii_lowercase(), value.to_vec()));
        }
    }
    passed
}

/// The fields of a section that `chunked::Decoder` has kept.
pub fn lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    section.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..at], trim_ows(&line[at + 1..])))
    })
}

/// The names of a `Trailer` field that may follow. `None`: there are none.
pub fn announced<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    is_withheld: impl Fn(&[u8]) -> bool,
) -> Option<String> {
    let names = values.flat_map(|value| value.split(|byte| *byte == b',')).map(trim_ows);
    let names = names.filter(|name| crate::fields::is_token(name) && is_allowed(name) && !is_withheld(name));
    let names: Vec<&str> = names.filter_map(|name| std::str::from_utf8(name).ok()).take(MOST + 1).collect();
    let bytes: usize = names.iter().map(|name| name.len()).sum();
    (!names.is_empty() && names.len() <= MOST && bytes <= MOST_BYTES).then(|| names.join(", "))
}

/// Appends the last chunk of a chunked body, with these fields behind it.
pub fn write_last_chunk(trailers: &Trailers, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(section: &str, expected: &str) {
        let passed = passed(lines(section.as_bytes()), |name| is_name(name, "x-user"));
        let mut out = Vec::new();
        write_last_chunk(&passed, &mut out);
        let found = String::from_utf8(out).unwrap();
        assert_eq!(found, format!("0\r\n{expected}\r\n"), "{section:?}");
    }

    #[test]
    fn passes_what_may_be_behind_the_content() {
        check("", "");
        check("Grpc-Status: 0\r\nX:\r\n", "grpc-status: 0\r\nx: \r\n");
        check(
            "Content-Digest: sha-256=:x=:\r\nETag: \"a\"\r\n",
            "content-digest: sha-256=:x=:\r\netag: \"a\"\r\n",
        );
        check("Server-Timing:  db;dur=5 \r\n", "server-timing: db;dur=5\r\n");
    }

    #[test]
    fn drops_what_must_be_known_before_the_content() {
        for name in [
            "Content-Length",
            "Transfer-Encoding",
            "Trailer",
            "TE",
            "Connection",
            "Upgrade",
            "Host",
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "WWW-Authenticate",
            "Content-Type",
            "Content-Encoding",
            "Content-Range",
            "If-Match",
            "Range",
            "Cache-Control",
            "Age",
            "Expires",
            "Vary",
            "Location",
            "Via",
            "Forwarded",
            "X-Forwarded-For",
            "X-Real-IP",
            "Max-Forwards",
            "Expect",
            "X_User",
            "x-user",
            "X-Sendfile",
            "Sec-WebSocket-Key",
            "Access-Control-Allow-Origin",
        ] {
            check(&format!("{name}: 1\r\nA: b\r\n"), "a: b\r\n");
        }
    }

    #[test]
    fn drops_all_of_too_many_or_too_large_fields() {
        check(&"a: b\r\n".repeat(MOST), &"a: b\r\n".repeat(MOST));
        check(&"a: b\r\n".repeat(MOST + 1), "");
        check(
            &format!("a: {}\r\n", "b".repeat(MOST_BYTES - 1)),
            &format!("a: {}\r\n", "b".repeat(MOST_BYTES - 1)),
        );
        check(&format!("a: {}\r\n", "b".repeat(MOST_BYTES)), "");
    }

    #[test]
    fn announces_what_may_follow() {
        let check = |value: &str, expected: Option<&str>| {
            let found = announced([value.as_bytes()].into_iter(), |name| is_name(name, "x-user"));
            assert_eq!(found.as_deref(), expected, "{value:?}");
        };
        check("X-Sum, Content-Length,x-user , b", Some("X-Sum, b"));
        check("Host", None);
        check("", None);
        check("a b, \"c\"", None);
    }
}
