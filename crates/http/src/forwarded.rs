//! What proxies say of the requests that they pass on: who has made one, by which scheme, and of which host. Anyone
//! can send such a field, so it counts only from a proxy that is trusted. Knows nothing of which those are.

use crate::fields::is_name;

/// The fields that are read from a trusted proxy (RFC 7239, and those that were there before it).
const READ: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// What else programs have been seen to believe, beside everything that begins with [`PREFIX`].
const CLAIMS: [&str; 28] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "proxy-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-host",
    "x-http-host-override",
    "x-original-for",
    "x-original-host",
    "x-original-prefix",
    "x-original-proto",
    "x-original-uri",
    "x-original-url",
    "x-originating-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-url-scheme",
];
const PREFIX: &[u8] = b"x-forwarded";

/// Whether the field is one of the four that are read from a trusted proxy. What it says is told in other words
/// then, and never passed on as it came.
pub fn is_read(name: &[u8]) -> bool {
    READ.iter().any(|known| is_name(name, known))
}

/// Whether the field says on whose behalf a request is made, or what another server was asked: an address, a scheme,
/// a host, a port or a path that a program would take for what this server has found out.
pub fn is_claim(name: &[u8]) -> bool {
    let begins =
        name.split_at_checked(PREFIX.len()).is_some_and(|(start, _)| start.eq_ignore_ascii_case(PREFIX));
    begins || CLAIMS.iter().any(|known| is_name(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_known_in_any_case() {
        for (name, claims, is_read_here) in [
            ("Forwarded", true, true),
            ("X-FORWARDED-FOR", true, true),
            ("x-forwarded-proto", true, true),
            ("X-Forwarded-Host", true, true),
            ("X-Forwarded-Port", true, false),
            ("X-Forwarded-Prefix", true, false),
            ("X-Forwarded", true, false),
            ("X-Real-IP", true, false),
            ("X-Original-URL", true, false),
            ("X-Rewrite-Url", true, false),
            ("CF-Connecting-IP", true, false),
            ("Via", false, false),
            ("Host", false, false),
            ("X-Forward", false, false),
            ("X-Original-Filename", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (is_claim(name.as_bytes()), is_read(name.as_bytes())),
                (claims, is_read_here),
                "{name}"
            );
        }
        for name in READ.iter().chain(&CLAIMS) {
            assert!(is_claim(name.to_uppercase().as_bytes()), "{name}");
        }
    }
}
