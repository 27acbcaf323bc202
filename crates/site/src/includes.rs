//! Which files and responses are pages, whose directives the server carries out.
//!
//! Knows nothing of directives.

use std::fmt;

use ssi::scan::Languages;

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

#[cfg(test)]
mod tests {
    use super::*;

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
