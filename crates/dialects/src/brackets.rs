//! Patterns as the converters have them: with `*`, `**` and `?`, with one character for each [`Class`], and with brackets
//! that are characters. A configuration has `[0-9]` for a class, and `[[]` for a bracket.

use site::route::{Pattern, PatternError};

use crate::class::Class;

/// Whether a character of a pattern stands for others.
pub fn is_wildcard(c: char) -> bool {
    matches!(c, '*' | '?') || Class::of(c).is_some()
}

/// Whether it does, or ends a segment.
#[cfg(feature = "web")]
pub fn is_wildcard_or_slash(c: char) -> bool {
    c == '/' || is_wildcard(c)
}

/// Whether a pattern has wildcards.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(is_wildcard)
}

#[cfg(feature = "web")]
pub fn has_class(pattern: &str) -> bool {
    pattern.contains(|c| Class::of(c).is_some())
}

pub fn parse(pattern: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(&written(pattern))
}

/// As a configuration has it.
pub fn written(pattern: &str) -> String {
    shown(&pattern.replace('[', "[[]"))
}

/// A text with patterns, for people.
pub fn shown(text: &str) -> String {
    let one = |c: char| Class::of(c).map_or_else(|| c.to_string(), Class::written);
    text.chars().map(one).collect()
}

/// A pattern whose letters are lower ones, and whose classes have both cases.
#[cfg(feature = "web")]
pub fn lowered(pattern: &str) -> String {
    let one = |c: char| Class::of(c).map_or(c.to_ascii_lowercase(), |class| class.in_any_case().character());
    pattern.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_is_a_character() {
        assert!(!is_glob("/a[b]"));
        for (pattern, expected) in [("/a[b]", "/a[[]b]"), ("/[0-9]+/", "/[[]0-9]+/"), ("/a]", "/a]")] {
            assert_eq!(written(pattern), expected);
            let parsed = parse(pattern).unwrap();
            assert!(matches!(parsed, Pattern::Exact(_) | Pattern::Prefix(_)), "{pattern}");
            assert_eq!(parsed.to_string(), expected);
        }
    }

    #[cfg(feature = "web")]
    #[test]
    fn a_class_is_a_wildcard() {
        let (class, _) = Class::read(&['\\', 'w']).unwrap();
        let pattern = format!("/a[{}", class.character());
        assert!(is_glob(&pattern) && has_class(&pattern));
        assert_eq!(parse(&pattern).unwrap().to_string(), "/a[[][0-9A-Za-z_]");
        assert_eq!(parse(&pattern).unwrap().wildcards(), 1);
    }
}
