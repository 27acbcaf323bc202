//! Patterns with wildcards. `*`, `?` and classes such as `[0-9]` match within a segment, and `**` matches slashes, too.

use taipan_http::target::SafePath;

use super::class::Class;
use super::pattern::{PatternError, check_segments};

/// What begins a glob for which `a` and `A` are the same letter.
pub const ANY_CASE: &str = "(?i)";
/// Characters of a glob, where a class is one: one less than a [`States`] has bits.
pub const MAX_GLOB: usize = 127;

/// Whether a text has wildcards or classes.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern with wildcards. `*` and `?` match within a segment, and `**` matches slashes, too. `**/` matches any
/// number of whole segments, even none. `/**` at the end matches the folder and everything below it. `[0-9]` matches
/// one of these characters, and `[0-9]+` one or more of them. `[[]` is a bracket.
///
/// All ways to match are followed at once: the cost is at most the length of the path times that of the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    subject: Subject,
    tokens: Box<[Token]>,
    classes: Box<[Class]>,
    /// What follows the last wildcard. A path with another end is excluded first, since that is quick.
    tail: Box<str>,
}

/// The part of a path that a glob is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Path,
    /// The last segment.
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// A letter of ASCII, in lower case, that stands for both.
    Letter(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `**`
    Any,
    /// `**/` between two segments. `Within` always follows it.
    Between,
    /// `**/` within a segment.
    Within,
    /// `/**` at the end, before its slash. `Any` always follows it.
    Below,
    /// A character of the class with this number.
    OneOf(u8),
    /// One or more of them.
    ManyOf(u8),
}

impl Token {
    fn ignore_case(&mut self) {
        if let Token::Char(own) = *self
            && own.is_ascii_alphabetic()
        {
            *self = Token::Letter(own.to_ascii_lowercase());
        }
    }

    /// How many tokens it leads forward without a character.
    fn skip(self) -> Option<usize> {
        match self {
            Token::Many | Token::Any => Some(1),
            Token::Between | Token::Below => Some(2),
            Token::Char(_) | Token::Letter(_) | Token::One | Token::Within => None,
            Token::OneOf(_) | Token::ManyOf(_) => None,
        }
    }

    /// Whether it is, or begins, a part of a path that has a number.
    fn is_wildcard(self) -> bool {
        matches!(
            self,
            Token::One | Token::Many | Token::Any | Token::Between | Token::OneOf(_) | Token::ManyOf(_)
        )
    }

    fn literal(&self) -> Option<char> {
        match self {
            Token::Char(own) => Some(*own),
            _ => None,
        }
    }
}

/// Bit `i`: the tokens before `i` match the characters so far. Bit `tokens.len()`: all tokens match.
type States = u128;

impl Glob {
    pub(super) fn parse(text: &str) -> Result<Glob, PatternError> {
        let any_case = text.strip_prefix(ANY_CASE);
        let pattern = any_case.unwrap_or(text);
        let (subject, body) = match pattern.strip_prefix('/') {
            Some(path) => (Subject::Path, path),
            None if pattern.contains('/') => return Err(PatternError::RelativeGlob),
            None => (Subject::Name, pattern),
        };
        if body.ends_with('/') {
            return Err(PatternError::GlobFolder);
        }
        let (mut tokens, classes) = tokens(body, any_case.is_some())?;
        // No class has a slash, so that each one is a separator.
        check_segments(body)?;
        if any_case.is_some() {
            tokens.iter_mut().for_each(Token::ignore_case);
        }
        let wildcards = tokens.iter().rposition(|token| token.literal().is_none()).map_or(0, |at| at + 1);
        let tail: String = tokens[wildcards..].iter().filter_map(Token::literal).collect();
        Ok(Glob {
            text: text.into(),
            subject,
            tokens: tokens.into(),
            classes: classes.into(),
            tail: tail.into(),
        })
    }

    /// As a configuration writes it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it may match a path below `prefix`. Only the text before the first wildcard is compared.
    pub(super) fn reaches(&self, prefix: &str) -> bool {
        let literal: String = self.tokens.iter().map_while(Token::literal).collect();
        self.subject == Subject::Name || literal.starts_with(prefix) || prefix.starts_with(&literal)
    }

    /// A text that matches, if each wildcard matches `x`.
    pub(super) fn example(&self) -> String {
        let part = |token: &Token| match *token {
            Token::Char(own) | Token::Letter(own) => Some(own),
            Token::One | Token::Many | Token::Any => Some('x'),
            Token::Below => Some('/'),
            Token::OneOf(class) | Token::ManyOf(class) => {
                self.classes.get(usize::from(class)).and_then(Class::example)
            }
            Token::Between | Token::Within => None,
        };
        self.tokens.iter().filter_map(part).collect()
    }

    pub fn matches(&self, path: &SafePath) -> bool {
        self.matches_text(self.subject_of(path.as_str()))
    }

    /// The part of a path that is compared.
    fn subject_of<'p>(&self, path: &'p str) -> &'p str {
        let path = path.strip_suffix('/').unwrap_or(path);
        match self.subject {
            Subject::Path => path,
            Subject::Name => path.rsplit('/').next().unwrap_or(path),
        }
    }

    pub(super) fn wildcards(&self) -> usize {
        // `Between` and `Within`, and `Below` and `Any`, are one.
        self.tokens.iter().filter(|token| token.is_wildcard()).count()
    }

    /// As [`Pattern::captures`]. `**/` has no slash at its end, and `**` at the end has that of a folder.
    pub(super) fn captures<'p>(&self, path: &'p str) -> Vec<&'p str> {
        let text = self.subject_of(path);
        let characters: Vec<(usize, char)> = text.char_indices().collect();
        let fitting = self.fitting(&characters);
        let fits = |token: usize, at: usize| fitting.get(at).is_some_and(|states| states >> token & 1 == 1);
        if !fits(0, 0) {
            return Vec::new();
        }
        let mut found = Vec::with_capacity(self.wildcards());
        let mut at = 0;
        for (token, kind) in self.tokens.iter().enumerate() {
            let begin = at;
            let next = |at: usize| characters.get(at).map(|(_, character)| *character);
            match kind {
                Token::Char(_) | Token::Letter(_) | Token::One | Token::OneOf(_) => at += 1,
                Token::ManyOf(_) => {
                    at += 1;
                    while fits(token, at) {
                        at += 1;
                    }
                }
                Token::Many => {
                    while next(at).is_some_and(|character| character != '/') && fits(token, at + 1) {
                        at += 1;
                    }
                }
                Token::Any => {
                    while fits(token, at + 1) {
                        at += 1;
                    }
                }
                Token::Between => {
                    let segment = |at| characters.iter().skip(at).position(|(_, c)| *c == '/');
                    while let Some(length) = segment(at).filter(|length| fits(token, at + length + 1)) {
                        at += length + 1;
                    }
                }
                Token::Below => at += usize::from(next(at).is_some()),
                Token::Within => {}
            }
            if kind.is_wildcard() {
                found.push((begin, at, *kind));
            }
        }
        // The text is the end of the path, apart from a slash.
        let begin = path.strip_suffix('/').unwrap_or(path).len() - text.len();
        let offset = |at: usize| begin + characters.get(at).map_or(text.len(), |(offset, _)| *offset);
        let is_last = |at: usize| at + 1 == found.len() && self.tokens.last() == Some(&Token::Any);
        let part = |(at, &(first, end, kind)): (usize, &(usize, usize, Token))| match kind {
            Token::Between => path[offset(first)..offset(end)].trim_end_matches('/'),
            _ if is_last(at) && end > first => &path[offset(first)..],
            _ => &path[offset(first)..offset(end)],
        };
        found.iter().enumerate().map(part).collect()
    }

    /// For each place in a text, and for its end, the tokens from which on the glob matches the rest of it.
    fn fitting(&self, characters: &[(usize, char)]) -> Vec<States> {
        let mut all = vec![0; characters.len() + 1];
        let mut after: States = 0;
        for at in (0..=characters.len()).rev() {
            let next = characters.get(at).map(|(_, character)| *character);
            let mut states: States = if next.is_none() { 1 << self.tokens.len() } else { 0 };
            // Each token leads forward, apart from `Within`, which needs a character.
            for token in (0..self.tokens.len()).rev() {
                let one = 1 << token;
                let leads = next.is_some_and(|character| self.step(one, character) & after != 0);
                let skips = self.tokens[token].skip().is_some_and(|skip| states >> (token + skip) & 1 == 1);
                if leads || skips {
                    states |= one;
                }
            }
            (all[at], after) = (states, states);
        }
        all
    }

    fn matches_text(&self, text: &str) -> bool {
        if !text.ends_with(&*self.tail) {
            return false;
        }
        let mut states = self.with_skipped(1);
        for character in text.chars() {
            states = self.with_skipped(self.step(states, character));
            if states == 0 {
                return false;
            }
        }
        states >> self.tokens.len() & 1 == 1
    }

    /// The states after `character`.
    fn step(&self, states: States, character: char) -> States {
        let slash = character == '/';
        each(states).fold(0, |after, at| {
            let next = match self.tokens.get(at) {
                Some(Token::Char(own)) if *own == character => at + 1,
                Some(Token::Letter(own)) if *own == character.to_ascii_lowercase() => at + 1,
                Some(Token::One | Token::Between) if !slash => at + 1,
                Some(Token::Many | Token::Within) if !slash => at,
                Some(Token::Any) => at,
                Some(Token::Within) => at - 1,
                Some(Token::Below) if slash => at + 1,
                Some(Token::OneOf(class)) if self.has(*class, character) => at + 1,
                Some(Token::ManyOf(class)) if self.has(*class, character) => return after | 0b11 << at,
                _ => return after,
            };
            after | 1 << next
        })
    }

    fn has(&self, class: u8, character: char) -> bool {
        self.classes.get(usize::from(class)).is_some_and(|class| class.has(character))
    }

    /// `states`, and those that tokens without a character lead to. Each leads forward, so one pass finds all.
    fn with_skipped(&self, states: States) -> States {
        let mut all = states;
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(skip) = token.skip() else { continue };
            if all >> at & 1 == 1 {
                all |= 1 << (at + skip);
            }
        }
        all
    }
}

/// The numbers of the set bits, ascending.
fn each(mut states: States) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (states != 0).then(|| states.trailing_zeros() as usize)?;
        states &= states - 1;
        Some(at)
    })
}

/// The tokens of a text, and its classes. `**/` and `/**` have three characters and make two tokens.
fn tokens(mut text: &str, any_case: bool) -> Result<(Vec<Token>, Vec<Class>), PatternError> {
    let (mut tokens, mut classes) = (Vec::new(), Vec::new());
    let mut previous = '/';
    while let Some(first) = text.chars().next() {
        // There are no more classes than tokens.
        let number = u8::try_from(classes.len()).map_err(|_| PatternError::GlobTooLong)?;
        let mut class = Token::OneOf(number);
        let (taken, found): (&str, &[Token]) = match first {
            '/' if text == "/**" => (text, &[Token::Below, Token::Any]),
            '*' if previous == '/' && text.starts_with("**/") => ("**/", &[Token::Between, Token::Within]),
            '*' if text.starts_with("**") => ("**", &[Token::Any]),
            '*' => ("*", &[Token::Many]),
            '?' => ("?", &[Token::One]),
            '{' | '}' => return Err(PatternError::Alternatives),
            '[' => {
                let (found, behind) = Class::parse(&text[1..], any_case)?;
                let rest = behind.strip_prefix('+');
                match (rest, found.only()) {
                    (None, Some(only)) => class = Token::Char(only),
                    (None, None) => classes.push(found),
                    (Some(_), _) => {
                        class = Token::ManyOf(number);
                        classes.push(found);
                    }
                }
                (&text[..text.len() - rest.unwrap_or(behind).len()], std::slice::from_ref(&class))
            }
            other => (&text[..other.len_utf8()], &[Token::Char(other)]),
        };
        tokens.extend_from_slice(found);
        if tokens.len() > MAX_GLOB {
            return Err(PatternError::GlobTooLong);
        }
        previous = taken.chars().next_back().unwrap_or(first);
        text = &text[taken.len()..];
    }
    Ok((tokens, classes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::route::pattern::Pattern;

    fn path(text: &str) -> SafePath<'static> {
        SafePath::parse(text).unwrap().into_owned()
    }

    #[test]
    fn matches_globs_without_backtracking() {
        let began = Instant::now();
        let with_classes = "[a-z]+".repeat(60);
        for pattern in [
            "/a*a*a*a*a*a*a*a*a*a*b",
            "/**a**a**a**a**a**c**b",
            "/**/a/**/a/**/a/**/c/**/b",
            &format!("/{with_classes}[0-9]"),
            &format!("/{with_classes}"),
        ] {
            for unit in ["a", "a/"] {
                let long = path(&format!("/{}b", unit.repeat(8192 / unit.len())));
                let is_found = pattern == "/a*a*a*a*a*a*a*a*a*a*b" || pattern.ends_with('+');
                let expected = is_found && unit == "a";
                assert_eq!(Pattern::parse(pattern).unwrap().matches(&long), expected, "{pattern} {unit}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    /// The rules of a glob, with backtracking.
    fn naive(pattern: &[char], text: &[char], previous: char) -> bool {
        let after_star = |tail: &[char], crosses: fn(char) -> bool| {
            let stop = text.iter().position(|c| !crosses(*c)).unwrap_or(text.len());
            (0..=stop).any(|at| naive(tail, &text[at..], '*'))
        };
        match pattern {
            [] => text.is_empty(),
            ['/', '*', '*'] => text.is_empty() || text[0] == '/',
            ['*', '*', '/', tail @ ..] if previous == '/' => {
                let boundary = |at: &usize| *at == 0 || text[at - 1] == '/' && text[0] != '/';
                (0..=text.len()).filter(boundary).any(|at| naive(tail, &text[at..], '/'))
            }
            ['*', '*', tail @ ..] => after_star(tail, |_| true),
            ['*', tail @ ..] => after_star(tail, |c| c != '/'),
            ['[', begin @ ..] => {
                let end = begin.iter().position(|c| *c == ']').unwrap();
                let (class, tail) = (&begin[..end], &begin[end + 1..]);
                let excepted = class.strip_prefix(&['^']);
                let has = |c: &char| match (excepted, class) {
                    (Some(class), _) => !class.contains(c) && *c != '/',
                    (None, [first, '-', last]) => (first..=last).contains(&c),
                    (None, class) => class.contains(c),
                };
                let tail_behind_plus = tail.strip_prefix(&['+']);
                let stop = text.iter().position(|c| !has(c)).unwrap_or(text.len());
                let most = if tail_behind_plus.is_some() { stop } else { stop.min(1) };
                (1..=most).any(|at| naive(tail_behind_plus.unwrap_or(tail), &text[at..], ']'))
            }
            ['?', tail @ ..] => text.first().is_some_and(|c| *c != '/') && naive(tail, &text[1..], '?'),
            [own, tail @ ..] => text.first() == Some(own) && naive(tail, &text[1..], *own),
        }
    }

    /// Parts of a pattern, and the expressions for them.
    const PARTS: &[(&str, &str)] = &[
        ("[0-9]+", "([0-9]+)"),
        ("[ab]", "([ab])"),
        ("[a-z0-9]+", "([a-z0-9]+)"),
        ("[^a]+", "([^a/]+)"),
        ("*", "([^/]*)"),
        ("?", "([^/])"),
        ("a", "a"),
        ("/b", "/b"),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn matches_globs_as_the_naive_rules_do(
            pattern in "/(\\*\\*/|\\*\\*|\\*|\\?|a|b|b/|/|(\\[ab\\]|\\[b-c\\]|\\[\\^a\\])\\+?){0,5}[ab*?]{0,2}",
            text in "([abc]{1,2}/){0,3}[abc]{0,3}",
        ) {
            let Ok(Pattern::Glob(glob)) = Pattern::parse(&pattern) else { return Ok(()) };
            let subject = text.strip_suffix('/').unwrap_or(&text);
            let characters: Vec<char> = subject.chars().collect();
            let body: Vec<char> = pattern[1..].chars().collect();
            let matches = naive(&body, &characters, '/');
            prop_assert_eq!(glob.matches_text(subject), matches);
            prop_assert_eq!(glob.captures(&text).len(), if matches { glob.wildcards() } else { 0 });
        }

        #[test]
        fn finds_parts_that_expressions_find(
            parts in prop::collection::vec(prop::sample::select(PARTS), 1..6),
            text in "([ab0]{1,2}/){0,2}[ab0]{1,4}",
        ) {
            let pattern: String = parts.iter().map(|(pattern, _)| *pattern).collect();
            let expression: String = parts.iter().map(|(_, expression)| *expression).collect();
            prop_assume!(!pattern.contains("**"));
            let Ok(pattern) = Pattern::parse(&format!("/{pattern}")) else { return Ok(()) };
            prop_assume!(matches!(pattern, Pattern::Glob(_)));
            let expression = regex_lite::Regex::new(&format!("^(?:{expression})$")).unwrap();
            let expected = expression.captures(&text).map(|found| {
                (1..found.len()).map(|at| found.get(at).unwrap().as_str()).collect::<Vec<_>>()
            });
            let expected = expected.unwrap_or_default();
            prop_assert_eq!(pattern.matches(&path(&format!("/{text}"))), expression.is_match(&text));
            prop_assert_eq!(pattern.captures(&text), expected);
        }

        #[test]
        fn never_panics_on_a_pattern(text in "[/*?a.é\\[\\]+^-]{0,140}", subject in "[/a.é]{0,40}") {
            if let (Ok(pattern), Ok(path)) = (Pattern::parse(&text), SafePath::parse(&subject)) {
                pattern.matches(&path);
            }
        }
    }
}
