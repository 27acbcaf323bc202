//! What a stored response is found by: the URL, as far as it counts, the mapping of the URL, and the upstream that has
//! answered.

use std::fmt;
use std::hash::{Hash, Hasher};

use taipan_http::digits::percent_decoded;
use taipan_http::target::Scheme;
use twox_hash::XxHash3_128;

use crate::settings::{Query, Settings};

/// The canonical text, and hashes of it. Two keys are the same if their texts are: clients choose most of the text, so
/// a hash alone decides nothing.
///
/// The text is `SCHEME://AUTHORITY/PATH?QUERY MAPPING UPSTREAM`, with a fourth part if the path was sent in another
/// spelling. None of the parts before `UPSTREAM` has a space.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    text: Box<str>,
    hash: u128,
    resource: u128,
}

/// The parts of a key.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pub scheme: Scheme,
    pub authority: &'a [u8],
    /// As sent.
    pub raw_path: &'a str,
    /// Normalized.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub mapping: Mapping,
    /// What would answer the request, in words that stay the same after a restart.
    pub upstream: &'a str,
}

/// What of the configuration decides which request an upstream gets for a URL, as 16 hexadecimal digits that stay the
/// same after a restart. The same URL at two addresses of the server may have two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping([u8; 16]);

impl Mapping {
    /// No configuration counts.
    pub const NONE: Mapping = Mapping([b'0'; 16]);

    /// `text` names all that counts.
    pub fn of(text: &str) -> Mapping {
        let hash = XxHash3_128::oneshot(text.as_bytes()) as u64;
        Mapping(std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at) & 15) as usize]))
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Parts<'_> {
    /// Appends the canonical text.
    pub fn write(&self, settings: &Settings, out: &mut String) {
        out.push_str(self.scheme.as_str());
        out.push_str("://");
        let start = out.len();
        out.push_str(&String::from_utf8_lossy(self.scheme.without_default_port(self.authority)));
        out[start..].make_ascii_lowercase();
        out.push_str(self.path);
        if let Some(query) = self.query {
            let end = out.len();
            out.push('?');
            settings.query.write(query, out);
            // A page without parameters, and one whose parameters do not count, are the same.
            if out.len() == end + 1 && settings.query != Query::All {
                out.truncate(end);
            }
        }
        out.push(' ');
        out.push_str(self.mapping.as_str());
        out.push(' ');
        out.push_str(self.upstream);
        if self.raw_path != self.path {
            out.push(' ');
            out.push_str(self.raw_path);
        }
    }
}

impl Key {
    /// `text` is what [`Parts::write`] writes.
    pub fn new(text: &str) -> Key {
        let end = text.match_indices(' ').nth(1).map_or(text.len(), |(at, _)| at);
        let resource: Vec<u8> = percent_decoded(&text.as_bytes()[..end]).collect();
        let [hash, resource] = [text.as_bytes(), &resource].map(XxHash3_128::oneshot);
        Key { text: text.into(), hash, resource }
    }

    /// The canonical text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// 128 bits, which stand for the text.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// 128 bits, which stand for the URL and its mapping, in the names of files, too. A change of the resource is one
    /// of all spellings of the URL (RFC 9110 §4.2.3), and of whatever has answered.
    pub fn resource(&self) -> u128 {
        self.resource
    }
}

/// The URL in the text of a key: `SCHEME://AUTHORITY/PATH?QUERY`.
pub fn url(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b' ').next().unwrap_or_default()
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.text, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts {
        scheme: Scheme::Https,
        authority: b"Example.org",
        raw_path: "/a/b",
        path: "/a/b",
        query: None,
        mapping: Mapping(*b"000000000000001f"),
        upstream: "http://127.0.0.1:3000",
    };

    fn text(parts: &Parts<'_>) -> String {
        let mut out = String::new();
        parts.write(&Settings::default(), &mut out);
        out
    }

    #[test]
    fn a_key_has_all_that_tells_two_resources_apart() {
        assert_eq!(text(&PARTS), "https://example.org/a/b 000000000000001f http://127.0.0.1:3000");
        assert_eq!(
            text(&Parts { query: Some(""), ..PARTS }),
            "https://example.org/a/b? 000000000000001f http://127.0.0.1:3000"
        );
        for (scheme, authority, expected) in [
            (Scheme::Https, "example.org:443", "https://example.org/a/b"),
            (Scheme::Https, "example.org:", "https://example.org/a/b"),
            (Scheme::Https, "example.org:80", "https://example.org:80/a/b"),
            (Scheme::Http, "example.org:80", "http://example.org/a/b"),
            (Scheme::Http, "example.org:8080", "http://example.org:8080/a/b"),
            (Scheme::Http, "[::80]", "http://[::80]/a/b"),
            (Scheme::Http, "[::1]:80", "http://[::1]/a/b"),
        ] {
            let text = text(&Parts { scheme, authority: authority.as_bytes(), ..PARTS });
            assert_eq!(url(text.as_bytes()), expected.as_bytes(), "{authority}");
        }
        let filtered = Settings { query: Query::Without(vec!["b".to_owned()]), ..Settings::default() };
        let with = |query| {
            let mut out = String::new();
            Parts { query, ..PARTS }.write(&filtered, &mut out);
            out
        };
        assert_eq!(
            [with(None), with(Some("")), with(Some("b=1"))],
            [text(&PARTS), text(&PARTS), text(&PARTS)]
        );
        assert_eq!(
            with(Some("b=1&a=2")),
            "https://example.org/a/b?a=2 000000000000001f http://127.0.0.1:3000"
        );
        let raw = Parts { raw_path: "/a%2fb", query: Some("x=1"), ..PARTS };
        assert_eq!(text(&raw), "https://example.org/a/b?x=1 000000000000001f http://127.0.0.1:3000 /a%2fb");
        let key = Key::new(&text(&raw));
        assert_eq!(url(key.text().as_bytes()), b"https://example.org/a/b?x=1");
        assert_eq!(key, Key::new(key.text()));
    }

    #[test]
    fn the_spellings_of_a_url_are_one_resource() {
        let key = |parts: &Parts<'_>| Key::new(&text(parts));
        let plain = key(&PARTS);
        for (raw_path, path) in [("/%61/b", "/%61/b"), ("/a/./b", "/a/b"), ("/%61//b", "/%61/b")] {
            let spelled = key(&Parts { raw_path, path, ..PARTS });
            assert_ne!((&plain, plain.hash()), (&spelled, spelled.hash()));
            assert_eq!(plain.resource(), spelled.resource(), "{raw_path}");
        }
        assert_eq!(plain.resource(), key(&Parts { upstream: "cgi:/a b", ..PARTS }).resource());
        for other in [
            Parts { path: "/a", raw_path: "/a", ..PARTS },
            Parts { query: Some(""), ..PARTS },
            Parts { mapping: Mapping(*b"0000000000000001"), ..PARTS },
        ] {
            assert_ne!(plain.resource(), key(&other).resource(), "{other:?}");
        }
        for short in ["", " ", "a", "a ", "a b", "  ", "%", "%4"] {
            Key::new(short).resource();
        }
    }

    #[test]
    fn a_mapping_of_the_same_text_is_the_same() {
        let (one, other) = (Mapping::of("one"), Mapping::of("other"));
        assert_eq!(one, Mapping::of("one"));
        assert_ne!(text(&Parts { mapping: one, ..PARTS }), text(&Parts { mapping: other, ..PARTS }));
    }
}
