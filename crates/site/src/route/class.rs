//! Classes of characters in globs: `[0-9]`, `[abc]`, `[^a-z]`.

use super::pattern::PatternError;

/// Ranges and single characters of a class.
const MAX_RANGES: usize = 32;

/// The characters of a class. It never has a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Their first and last characters.
    ranges: Vec<(char, char)>,
    /// It has all others instead.
    is_negated: bool,
    any_case: bool,
}

impl Class {
    /// Reads what follows `[`. The class, and what follows it.
    pub(super) fn parse(text: &str, any_case: bool) -> Result<(Class, &str), PatternError> {
        let negated = text.strip_prefix('^');
        let (inside, behind) = negated.unwrap_or(text).split_once(']').ok_or(PatternError::Class)?;
        if inside.contains('/') {
            return Err(PatternError::ClassSlash);
        }
        // Elsewhere `[!a]` is `[^a]`.
        if inside.is_empty() || inside.starts_with('!') {
            return Err(PatternError::Class);
        }
        let mut ranges = Vec::new();
        let mut rest = inside.chars();
        while let Some(first) = rest.next() {
            let behind = rest.as_str();
            let is_edge = behind.is_empty() || behind.len() + 1 == inside.len();
            let last = match first {
                '-' if is_edge => first,
                '-' => return Err(PatternError::Class),
                _ => behind.strip_prefix('-').and_then(|last| last.chars().next()).unwrap_or(first),
            };
            if last != first {
                rest = behind[1 + last.len_utf8()..].chars();
            }
            if first > last {
                return Err(PatternError::Class);
            }
            if (first..=last).contains(&'/') {
                return Err(PatternError::ClassSlash);
            }
            ranges.push((first, last));
        }
        if ranges.len() > MAX_RANGES {
            return Err(PatternError::ClassTooLong);
        }
        Ok((Class { ranges, is_negated: negated.is_some(), any_case }, behind))
    }

    /// Its only character, in the case in which it is written.
    pub(super) fn only(&self) -> Option<char> {
        match self.ranges[..] {
            [(first, last)] if first == last && !self.is_negated => Some(first),
            _ => None,
        }
    }

    pub(super) fn has(&self, character: char) -> bool {
        let lists = |c: char| self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
        let listed = match self.any_case {
            true => lists(character.to_ascii_lowercase()) || lists(character.to_ascii_uppercase()),
            false => lists(character),
        };
        listed != self.is_negated && character != '/'
    }

    /// One of its characters.
    pub(super) fn example(&self) -> Option<char> {
        match self.is_negated {
            true => ('!'..='~').rev().find(|c| self.has(*c)),
            false => self.ranges.first().map(|(first, _)| *first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_characters_of_its_ranges() {
        for (text, any_case, yes, no) in [
            ("0-9]", false, "059", "a/"),
            ("a-c_-]", false, "abc_-", "dA"),
            ("-a]", false, "-a", "b"),
            ("-]", false, "-", "a"),
            ("[]", false, "[", "a"),
            ("*?]", false, "*?", "a"),
            ("^a-c]", false, "dä0", "abc/"),
            ("a-c]", true, "aBC", "dD"),
            ("^a-c]", true, "dD", "aBC/"),
            ("Z-a]", true, "zZaA_", "bB"),
            ("ä-ü]", false, "äö", "a"),
            ("a^]", false, "a^", "b"),
        ] {
            let (class, behind) = Class::parse(text, any_case).unwrap();
            assert_eq!(behind, "", "{text}");
            assert!(yes.chars().all(|c| class.has(c)), "{text} {any_case}");
            assert!(!no.chars().any(|c| class.has(c)), "{text} {any_case}");
            assert!(class.example().is_some_and(|c| class.has(c)), "{text}");
        }
    }

    #[test]
    fn rejects_classes_that_may_be_mistakes() {
        for (text, expected) in [
            ("a", PatternError::Class),
            ("]", PatternError::Class),
            ("^]", PatternError::Class),
            ("!a]", PatternError::Class),
            ("9-0]", PatternError::Class),
            ("a-c-e]", PatternError::Class),
            ("--9]", PatternError::Class),
            ("a/b]", PatternError::ClassSlash),
            ("^/]", PatternError::ClassSlash),
            ("+-9]", PatternError::ClassSlash),
        ] {
            let found = Class::parse(text, false).map(|(_, behind)| behind);
            assert_eq!(found, Err(expected), "{text}");
        }
        let long: String = ('!'..='.').chain('0'..='Z').map(|c| c.to_string()).collect();
        let long = long.replace(['-', '!'], "");
        assert_eq!(Class::parse(&format!("{long}]"), false), Err(PatternError::ClassTooLong));
    }
}
