//! Texts with wildcards, for values that are not paths: `*` stands for any characters, and `?` for one. Case does not
//! matter, unless `(?-i)` stands in front.
//!
//! Knows nothing of where the values come from.

use std::fmt;

/// Bytes of a pattern.
pub const MAX_WILDCARD: usize = 256;

/// In front of a pattern for which case counts.
pub const COUNTS_CASE: &str = "(?-i)";

/// A pattern for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard {
    /// In lower case, unless case counts.
    pattern: Box<[u8]>,
    counts_case: bool,
}

impl Wildcard {
    /// `None`: the text is longer than [`MAX_WILDCARD`].
    pub fn new(text: &str) -> Option<Wildcard> {
        let exact = text.strip_prefix(COUNTS_CASE);
        let pattern = exact.map_or_else(|| text.to_ascii_lowercase(), str::to_owned);
        let is_short = pattern.len() <= MAX_WILDCARD;
        is_short.then(|| Wildcard { pattern: pattern.into_bytes().into(), counts_case: exact.is_some() })
    }

    /// The cost is at most the length of the pattern times that of the value.
    pub fn matches(&self, value: &[u8]) -> bool {
        let pattern = &self.pattern;
        let (mut at, mut from) = (0, 0);
        // Behind the last `*`, and the first byte of the value that it does not stand for yet.
        let mut star: Option<(usize, usize)> = None;
        while from < value.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    at += 1;
                    star = Some((at, from));
                }
                Some(own) if *own == b'?' || *own == self.folded(value[from]) => {
                    at += 1;
                    from += 1;
                }
                _ => {
                    let Some((behind, first)) = star else { return false };
                    star = Some((behind, first + 1));
                    (at, from) = (behind, first + 1);
                }
            }
        }
        pattern[at..].iter().all(|own| *own == b'*')
    }

    fn folded(&self, byte: u8) -> u8 {
        if self.counts_case { byte } else { byte.to_ascii_lowercase() }
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = if self.counts_case { COUNTS_CASE } else { "" };
        write!(f, "{before}{}", String::from_utf8_lossy(&self.pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_any_text_and_one_character() {
        for (pattern, value, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything / at all", true),
            ("curl/*", "curl/8.1", true),
            ("curl/*", "Curl/", true),
            ("curl/*", "libcurl/8", false),
            ("*bot*", "Googlebot/2.1", true),
            ("*bot*", "BOT", true),
            ("*bot", "bots", false),
            ("?.example.org", "a.example.org", true),
            ("?.example.org", ".example.org", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("a**", "a", true),
            ("*a", "aaab", false),
            ("(?-i)Key-*", "Key-1", true),
            ("(?-i)Key-*", "key-1", false),
            ("(?-i)key", "KEY", false),
            ("(?-i)", "", true),
        ] {
            let pattern = Wildcard::new(pattern).expect("it is short");
            assert_eq!(pattern.matches(value.as_bytes()), expected, "{pattern} {value}");
        }
        assert!(Wildcard::new(&"x".repeat(MAX_WILDCARD + 1)).is_none());
    }

    #[test]
    fn many_wildcards_do_not_take_exponential_time() {
        let pattern = Wildcard::new(&"*a".repeat(MAX_WILDCARD / 2)).expect("it is short");
        assert!(!pattern.matches("ab".repeat(60).as_bytes()));
        assert!(!pattern.matches(&[b'b'; 8192]));
        assert!(pattern.matches("ab".repeat(200).trim_end_matches('b').as_bytes()));
    }
}
