//! Patterns as the converters have them: with `*`, `**` and `?`, and with brackets that are characters. A configuration
//! has `[[]` for a bracket, since `[ab]` is a class there.

use site::route::{Pattern, PatternError};

/// Whether a pattern has wildcards.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

pub fn parse(pattern: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(&written(pattern))
}

/// As a configuration has it.
pub fn written(pattern: &str) -> String {
    pattern.replace('[', "[[]")
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
}
