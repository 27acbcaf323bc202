//! Which responses are compressed, and in which codings.
//!
//! Knows nothing of how a coding is made.

use taipan_http::fields::{is_token, list};
use taipan_http::negotiate::Coding;

/// The rules of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressRules {
    /// In order of preference. Empty: nothing is compressed.
    pub codings: Codings,
    /// As `codings`, for what is compressed while it is sent.
    pub streamed: Codings,
    pub kept: Kept,
    pub types: Vec<TypePattern>,
    /// Bytes. A smaller response is not compressed.
    pub min: u64,
    /// Whether responses of scripts and applications are compressed, too.
    pub scripts: bool,
}

/// What the cache keeps of a compressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// A copy that is made once, with a strong level.
    Strong,
    /// A copy that is made once, with a quick level.
    Quick,
    /// Nothing: the file is compressed each time.
    Nothing,
}

/// Codings in order of preference, each at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Codings {
    /// `Identity` stands for nothing.
    places: [Coding; Codings::MOST],
}

/// Media types that gain by compression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypePattern {
    /// `text/html`, in lower case.
    Exact(String),
    /// `text/*`, by its part in front of the star.
    Family(String),
    /// `+xml`
    Suffix(String),
}

impl Codings {
    const MOST: usize = 3;

    /// Further codings, and those that are named twice, are left out.
    pub fn new(codings: impl IntoIterator<Item = Coding>) -> Codings {
        let mut all = Codings::default();
        codings.into_iter().for_each(|coding| all.add(coding));
        all
    }

    fn add(&mut self, coding: Coding) {
        if !self.contains(coding)
            && let Some(place) = self.places.iter_mut().find(|place| **place == Coding::Identity)
        {
            *place = coding;
        }
    }

    pub fn contains(&self, coding: Coding) -> bool {
        self.places.contains(&coding)
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = Coding> + '_ {
        self.places.iter().copied().filter(|coding| *coding != Coding::Identity)
    }

    /// Those for which `keep` holds.
    pub fn only(&self, keep: impl Fn(Coding) -> bool) -> Codings {
        Codings::new(self.iter().filter(|coding| keep(*coding)))
    }

    /// For `negotiate::choose`, which skips `Identity`.
    #[inline]
    pub fn as_slice(&self) -> &[Coding] {
        &self.places
    }
}

impl TypePattern {
    /// `type/subtype`, `type/*` or `+suffix`. `None`: it is none of them.
    pub fn parse(text: &str) -> Option<TypePattern> {
        let text = text.to_ascii_lowercase();
        if let Some(suffix) = text.strip_prefix('+') {
            return is_token(suffix.as_bytes()).then(|| TypePattern::Suffix(text.clone()));
        }
        let (family, subtype) = text.split_once('/')?;
        if !is_token(family.as_bytes()) || !is_token(subtype.as_bytes()) || family == "*" {
            return None;
        }
        Some(match subtype {
            "*" => TypePattern::Family(format!("{family}/")),
            _ => TypePattern::Exact(text),
        })
    }

    /// `media_type`: without parameters, in any case.
    pub(crate) fn matches(&self, media_type: &[u8]) -> bool {
        match self {
            TypePattern::Exact(text) => media_type.eq_ignore_ascii_case(text.as_bytes()),
            TypePattern::Family(start) => starts_with(media_type, start.as_bytes()),
            TypePattern::Suffix(end) => {
                let at = media_type.len().saturating_sub(end.len());
                media_type[at..].eq_ignore_ascii_case(end.as_bytes())
            }
        }
    }
}

fn starts_with(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|front| front.eq_ignore_ascii_case(start))
}

/// The types that gain, of those that the web uses.
const DEFAULT_TYPES: &[&str] = &[
    "text/*",
    "+json",
    "+xml",
    "+text",
    "application/json",
    "application/javascript",
    "application/ecmascript",
    "application/xml",
    "application/xml-dtd",
    "application/wasm",
    "application/x-ndjson",
    "application/sql",
    "application/rtf",
    "application/yaml",
    "application/toml",
    "application/n-triples",
    "application/n-quads",
    "application/trig",
    "application/x-tex",
    "application/x-latex",
    "application/postscript",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "font/collection",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
    "model/obj",
    "model/mtl",
    "model/stl",
    "model/step",
    "model/vrml",
    "model/iges",
];

/// Bytes of the smallest response that is compressed, by default.
const DEFAULT_MIN: u64 = 1024;

impl Default for CompressRules {
    fn default() -> CompressRules {
        CompressRules {
            codings: Codings::new([Coding::Br, Coding::Zstd, Coding::Gzip]),
            // With a quick level, zstd is better and several times as fast.
            streamed: Codings::new([Coding::Zstd, Coding::Br, Coding::Gzip]),
            kept: Kept::Strong,
            types: DEFAULT_TYPES.iter().filter_map(|text| TypePattern::parse(text)).collect(),
            min: DEFAULT_MIN,
            scripts: false,
        }
    }
}

impl CompressRules {
    /// Whether content of this type and with so many bytes gains.
    pub fn gains(&self, content_type: &[u8], size: u64) -> bool {
        self.cover(content_type) && self.is_enough(Some(size))
    }

    /// Whether content of this type gains, if there is enough of it.
    pub fn cover(&self, content_type: &[u8]) -> bool {
        let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
        let media_type = content_type[..end].trim_ascii_end();
        !self.codings.is_empty() && self.types.iter().any(|pattern| pattern.matches(media_type))
    }

    /// Whether content with so many bytes may gain, which no content never does. `None`: that is not known.
    pub fn is_enough(&self, size: Option<u64>) -> bool {
        size.is_none_or(|size| size > 0 && size >= self.min)
    }
}

/// Whether a value of `Cache-Control` forbids another coding (RFC 9111 §5.2.2.6).
pub fn forbids_transform(cache_control: &[u8]) -> bool {
    list([cache_control]).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// The hash in `Available-Dictionary`, a byte sequence of 32 bytes (RFC 9842 §2.2, RFC 8941 §3.3.5).
pub fn available_dictionary(value: &[u8]) -> Option<[u8; 32]> {
    let inner = value.strip_prefix(b":")?.strip_suffix(b"=:")?;
    if inner.len() != 43 {
        return None;
    }
    let mut bits: u64 = 0;
    let mut hash = Vec::with_capacity(33);
    for (at, byte) in inner.iter().enumerate() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u64::from(digit);
        // Four digits are three bytes.
        if at % 4 == 3 {
            hash.extend_from_slice(&bits.to_be_bytes()[5..]);
            bits = 0;
        }
    }
    // The last three digits are two bytes and two bits of padding.
    hash.extend_from_slice(&(bits >> 2).to_be_bytes()[6..]);
    hash.try_into().ok()
}

/// The end of the entity tag of a file that the server has compressed.
pub const fn tag_suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::Identity => "",
        Coding::Gzip => "-gzip",
        Coding::Zstd => "-zstd",
        Coding::Br => "-br",
        Coding::Dcb => "-dcb",
        Coding::Dcz => "-dcz",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compresses_types_that_gain_from_a_least_size() {
        let rules = CompressRules::default();
        for (content_type, gains) in [
            ("text/html", true),
            ("TEXT/CSS; charset=utf-8", true),
            ("text/html ;charset=utf-8", true),
            ("text", false),
            ("application/json", true),
            ("application/ld+json", true),
            ("image/svg+xml", true),
            ("image/svg+xml;x=y", true),
            ("application/wasm", true),
            ("application/octet-stream", false),
            ("image/png", false),
            ("video/mp4", false),
            ("application/zip", false),
            ("font/woff2", false),
            ("json", false),
            ("", false),
        ] {
            assert_eq!(rules.cover(content_type.as_bytes()), gains, "{content_type}");
        }
        assert!(rules.gains(b"text/html", 1024));
        assert!(!rules.gains(b"text/html", 1023));
        let all = CompressRules { min: 0, ..rules };
        assert!(all.gains(b"text/html", 1));
        assert!(!all.gains(b"text/html", 0));
        let off = CompressRules { codings: Codings::default(), ..all };
        assert!(!off.cover(b"text/html"));
    }

    #[test]
    fn reads_patterns_of_types() {
        assert_eq!(TypePattern::parse("Text/*"), Some(TypePattern::Family("text/".to_owned())));
        assert_eq!(TypePattern::parse("a/B"), Some(TypePattern::Exact("a/b".to_owned())));
        assert_eq!(TypePattern::parse("+xml"), Some(TypePattern::Suffix("+xml".to_owned())));
        for bad in ["", "text", "*/*", "a/", "/b", "a/b; c=d", "+", "a b/c", "*"] {
            assert_eq!(TypePattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn codings_have_an_order_and_no_duplicates() {
        let codings = Codings::new([Coding::Zstd, Coding::Gzip, Coding::Zstd, Coding::Identity]);
        assert_eq!(codings.iter().collect::<Vec<_>>(), [Coding::Zstd, Coding::Gzip]);
        assert!(codings.contains(Coding::Gzip) && !codings.contains(Coding::Br));
        assert_eq!(codings.only(|coding| coding != Coding::Zstd).iter().collect::<Vec<_>>(), [Coding::Gzip]);
        assert!(Codings::default().is_empty());
    }

    #[test]
    fn reads_the_hash_of_a_dictionary() {
        // The SHA-256 of nothing.
        let hash =
            available_dictionary(b":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:").expect("it is one");
        assert_eq!((&hash[..3], &hash[29..]), (&[0xe3, 0xb0, 0xc4][..], &[0x52, 0xb8, 0x55][..]));
        for bad in ["", "::", ":=:", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", ":47DEQpj8HBSa=:"] {
            assert_eq!(available_dictionary(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(available_dictionary(b":47DEQpj8HBSa*/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"), None);
    }

    #[test]
    fn respects_no_transform() {
        assert!(forbids_transform(b"max-age=1, No-Transform"));
        assert!(!forbids_transform(b"max-age=1, private=\"no-transform\""));
        assert!(!forbids_transform(b""));
    }
}
