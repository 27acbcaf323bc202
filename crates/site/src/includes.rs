//! Which files and responses are pages, whose directives the server carries out.
//!
//! Knows nothing of directives.

use std::fmt;

use ssi::scan::Languages;
use taipan_http::fields::{is_name, list};

use crate::compress::TypePattern;

/// The rules of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Includes {
    /// None: there are no pages.
    pub languages: Languages,
    /// The ends of the names of files that are pages.
    pub suffixes: Vec<String>,
    /// The media types of the responses of scripts and upstreams that are pages.
    pub types: Vec<TypePattern>,
}

/// Bytes of the largest page that is parsed once. A larger one is searched for directives each time.
pub const MAX_PARSED: u64 = 256 * 1024;

/// The limits of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncludeLimits {
    /// Directives that include something, or ask for a size or a time.
    pub count: usize,
    /// Pages within pages.
    pub depth: usize,
    /// What is made or included.
    pub bytes: u64,
}

impl Default for Includes {
    fn default() -> Includes {
        Includes {
            languages: Languages::default(),
            suffixes: vec![".shtml".to_owned()],
            types: vec![TypePattern::Exact("text/html".to_owned())],
        }
    }
}

impl Default for IncludeLimits {
    fn default() -> IncludeLimits {
        IncludeLimits { count: 256, depth: 8, bytes: 16 * 1024 * 1024 }
    }
}

/// The names of the languages.
impl fmt::Display for Includes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match (self.languages.ssi, self.languages.esi) {
            (true, true) => "ssi and esi",
            (true, false) => "ssi",
            (false, true) => "esi",
            (false, false) => "off",
        })
    }
}

impl Includes {
    pub fn are_on(&self) -> bool {
        self.languages != Languages::default()
    }

    /// Whether a file of this name is a page.
    pub fn cover_file(&self, name: &str) -> bool {
        self.are_on() && self.suffixes.iter().any(|suffix| name.ends_with(suffix.as_str()))
    }

    /// Whether the responses of scripts and upstreams may be pages.
    pub fn cover_responses(&self) -> bool {
        self.are_on() && !self.types.is_empty()
    }

    /// Whether a response with this `Content-Type` is a page.
    pub fn cover_type(&self, content_type: &[u8]) -> bool {
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.cover_responses() && self.types.iter().any(|pattern| pattern.matches(media_type))
    }
}

/// A value of `Cache-Control` by which no cache shares a response, and that of a client may store it as before.
pub fn private(cache_control: &str) -> String {
    let mut out = "private".to_owned();
    for directive in list([cache_control.as_bytes()]) {
        let shared = ["public", "private", "s-maxage", "proxy-revalidate"];
        if !shared.iter().any(|own| starts_with_word(directive, own)) {
            out.push_str(", ");
            out.push_str(&String::from_utf8_lossy(directive));
        }
    }
    out
}

/// Whether a field of a response says that other clients get, or may get, another one.
pub fn is_for_client(name: &str, value: &[u8]) -> bool {
    let personal = ["private", "no-store", "no-cache"];
    match name.to_ascii_lowercase().as_str() {
        "set-cookie" => true,
        "cache-control" => {
            list([value]).any(|member| personal.iter().any(|own| starts_with_word(member, own)))
        }
        "vary" => list([value]).any(|member| !is_name(member, "accept-encoding")),
        _ => false,
    }
}

/// Whether a directive, perhaps with an argument, has this name.
fn starts_with_word(directive: &[u8], name: &str) -> bool {
    directive.split(|byte| *byte == b'=').next().is_some_and(|own| is_name(own.trim_ascii_end(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_pages_from_being_shared() {
        for (value, expected) in [
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage = 60, no-cache", "private, no-cache"),
            ("PRIVATE, no-store", "private, no-store"),
            ("private=\"set-cookie, x\", max-age=1", "private, max-age=1"),
            ("", "private"),
        ] {
            assert_eq!(private(value), expected, "{value}");
        }
        for (name, value, expected) in [
            ("Set-Cookie", "a=b", true),
            ("Cache-Control", "max-age=1, private", true),
            ("cache-control", "no-cache=\"x\"", true),
            ("cache-control", "public, max-age=1", false),
            ("Vary", "Accept-Encoding", false),
            ("vary", "accept-encoding, Cookie", true),
            ("vary", "*", true),
            ("x-other", "private", false),
        ] {
            assert_eq!(is_for_client(name, value.as_bytes()), expected, "{name}: {value}");
        }
    }

    #[test]
    fn knows_pages() {
        let off = Includes::default();
        assert!(!off.cover_file("a.shtml") && !off.cover_type(b"text/html"));
        let on = Includes { languages: Languages { ssi: true, esi: false }, ..off };
        assert!(on.cover_file("a.shtml") && !on.cover_file("a.html") && !on.cover_file("a.shtml.gz"));
        assert!(on.cover_type(b"Text/HTML ; charset=utf-8") && !on.cover_type(b"text/plain"));
        assert!(!Includes { types: Vec::new(), ..on }.cover_type(b"text/html"));
    }
}
