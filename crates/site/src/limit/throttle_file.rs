//! The throttle files of thttpd(8): a pattern and bytes per second in each line, `max` or `min-max`.
//!
//! Differs from thttpd in the minimum, which it compares the wrong way round.

use std::fmt;

/// Characters of one alternative of a pattern: one less than a [`States`] has bits.
const MAX_ALTERNATIVE: usize = 127;

/// The most alternatives of a file whose lines are compared with each other: the time grows with their square.
const MAX_COMPARED: usize = 2000;

/// A line that has a pattern and a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The first is 1.
    pub number: u32,
    pub pattern: ThrottlePattern,
    /// Bytes per second; 0 without one.
    pub min: u64,
    pub max: u64,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineError {
    /// There is no number of bytes.
    NoRate,
    Zero,
    /// The minimum is above the maximum.
    Inverted,
    PatternTooLong,
    /// Text behind the rate, which thttpd ignores.
    Trailing,
}

impl LineError {
    /// What is wrong, and what to do.
    pub fn sentence(self) -> (&'static str, &'static str) {
        match self {
            LineError::NoRate => {
                ("this line has no rate", "write a pattern, spaces, and bytes per second: \"**.iso 50000\"")
            }
            LineError::Zero => ("the rate is 0", "write at least 1; to forbid a path, use return = 403"),
            LineError::Inverted => ("the minimum is above the maximum", "write min-max: \"1000-50000\""),
            LineError::PatternTooLong => {
                ("an alternative of this pattern has more than 127 characters", "shorten it")
            }
            LineError::Trailing => {
                ("there is text behind the rate", "write one number, or two with a dash between them")
            }
        }
    }
}

/// Reads the lines of a file. A line with an error is left out, and reported with its number.
pub fn parse(text: &str) -> (Vec<Line>, Vec<(u32, LineError)>) {
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        match parse_line(number, line) {
            Ok(line) => lines.push(line),
            Err(error) => errors.push((number, error)),
        }
    }
    (lines, errors)
}

/// The numbers of lines that limit nothing, because `most` lines before each match the same paths. Two paths stand for
/// all that an alternative matches: the shortest, and one in which its wildcards stand for something. Empty for a file
/// with more than 2000 alternatives, which would take too long.
pub fn superseded(lines: &[Line], most: usize) -> Vec<u32> {
    if lines.iter().map(|line| line.pattern.alternatives.len()).sum::<usize>() > MAX_COMPARED {
        return Vec::new();
    }
    let is_superseded = |at: usize, line: &Line| {
        let is_found = |path: &[u8]| {
            lines[..at].iter().filter(|earlier| earlier.pattern.matches(path)).nth(most - 1).is_some()
        };
        line.pattern.examples().all(|path| is_found(&path))
    };
    lines
        .iter()
        .enumerate()
        .filter(|(at, line)| is_superseded(*at, line))
        .map(|(_, line)| line.number)
        .collect()
}

fn parse_line(number: u32, line: &str) -> Result<Line, LineError> {
    let mut words = line.split_ascii_whitespace();
    let (Some(pattern), Some(rate)) = (words.next(), words.next()) else { return Err(LineError::NoRate) };
    if words.next().is_some() {
        return Err(LineError::Trailing);
    }
    let (min, max) = match rate.split_once('-') {
        None => (0, bytes(rate)?),
        Some((min, max)) => (bytes(min)?, bytes(max)?),
    };
    match (min, max) {
        (_, 0) => Err(LineError::Zero),
        _ if min > max => Err(LineError::Inverted),
        _ => Ok(Line { number, pattern: ThrottlePattern::parse(pattern)?, min, max }),
    }
}

fn bytes(digits: &str) -> Result<u64, LineError> {
    match digits.find(|c: char| !c.is_ascii_digit()) {
        None => digits.parse().map_err(|_| LineError::NoRate),
        Some(0) => Err(LineError::NoRate),
        Some(_) => Err(LineError::Trailing),
    }
}

/// A pattern: alternatives with `|` between them. `?` matches any byte, `*` any bytes without a slash, `**` any bytes.
/// Paths have no slash in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottlePattern {
    text: String,
    alternatives: Vec<Vec<Token>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    One,
    Many,
    Any,
}

/// Bit `i`: the tokens before `i` match the bytes so far. Bit `tokens.len()`: all tokens match.
type States = u128;

impl ThrottlePattern {
    /// Slashes in front of an alternative are left out.
    pub fn parse(text: &str) -> Result<ThrottlePattern, LineError> {
        let alternatives: Vec<Vec<Token>> = text.split('|').map(tokens).collect();
        match alternatives.iter().any(|tokens| tokens.len() > MAX_ALTERNATIVE) {
            true => Err(LineError::PatternTooLong),
            false => Ok(ThrottlePattern { text: text.to_owned(), alternatives }),
        }
    }

    /// Two paths that match, for each alternative. Its wildcards stand for bytes that are in no pattern.
    fn examples(&self) -> impl Iterator<Item = Vec<u8>> {
        let path = |tokens: &[Token], [any, many]: [&'static [u8]; 2]| {
            let mut path = Vec::new();
            for token in tokens {
                match token {
                    Token::Byte(byte) => path.push(*byte),
                    Token::One => path.push(1),
                    Token::Many => path.extend(many),
                    Token::Any => path.extend(any),
                }
            }
            path
        };
        let wildcards: [[&[u8]; 2]; 2] = [[b"", b""], [b"\x01/\x01", b"\x01"]];
        self.alternatives.iter().flat_map(move |tokens| wildcards.map(|wildcards| path(tokens, wildcards)))
    }

    /// `path` has no slash in front.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.alternatives.iter().any(|tokens| matches_alternative(tokens, path))
    }
}

/// As the file has it.
impl fmt::Display for ThrottlePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn tokens(alternative: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut bytes = alternative.trim_start_matches('/').bytes().peekable();
    while let Some(byte) = bytes.next() {
        let token = match byte {
            b'?' => Token::One,
            b'*' if bytes.next_if_eq(&b'*').is_some() => Token::Any,
            b'*' => Token::Many,
            other => Token::Byte(other),
        };
        tokens.push(token);
    }
    tokens
}

/// All ways to match are followed at once: the cost is at most the length of the path times that of the pattern.
fn matches_alternative(tokens: &[Token], path: &[u8]) -> bool {
    // Most paths differ in a byte at an end, which is quickly seen.
    let differs = |token: Option<&Token>, byte: Option<&u8>| match (token, byte) {
        (Some(Token::Byte(own)), Some(byte)) => own != byte,
        (Some(Token::Byte(_)), None) => true,
        _ => false,
    };
    if differs(tokens.first(), path.first()) || differs(tokens.last(), path.last()) {
        return false;
    }
    let mut states = with_skipped(tokens, 1);
    for &byte in path {
        states = with_skipped(tokens, step(tokens, states, byte));
        if states == 0 {
            return false;
        }
    }
    states >> tokens.len() & 1 == 1
}

/// The states after `byte`.
fn step(tokens: &[Token], mut states: States, byte: u8) -> States {
    let mut after = 0;
    while states != 0 {
        let at = states.trailing_zeros() as usize;
        states &= states - 1;
        after |= match tokens.get(at) {
            Some(Token::Byte(own)) if *own == byte => 1 << (at + 1),
            Some(Token::One) => 1 << (at + 1),
            Some(Token::Many) if byte != b'/' => 1 << at,
            Some(Token::Any) => 1 << at,
            _ => 0,
        };
    }
    after
}

/// `states`, and those behind wildcards that match nothing.
fn with_skipped(tokens: &[Token], states: States) -> States {
    tokens.iter().enumerate().fold(states, |all, (at, token)| match token {
        Token::Many | Token::Any => all | (all >> at & 1) << (at + 1),
        Token::Byte(_) | Token::One => all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_in_thttpd() {
        for (pattern, path, expected) in [
            ("**", "", true),
            ("**", "a/b/c.jpg", true),
            ("*", "a", true),
            ("*", "a/b", false),
            ("*", "", true),
            ("?", "a", true),
            ("?", "/", true),
            ("?", "", false),
            ("?", "ab", false),
            ("**.jpg", "a/b.jpg", true),
            ("**.jpg", "a/b.jpeg", false),
            ("*.jpg", "a/b.jpg", false),
            ("**.jpg|**.gif", "x.gif", true),
            ("**.jpg|/**.gif", "x.gif", true),
            ("/jef/**", "jef/a/b", true),
            ("jef/**", "jef/", true),
            ("jef/**", "jef", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abcbc", true),
            ("a*b*c", "aXb/c", false),
            ("a**b*c", "aX/bYc", true),
            ("*?*c", "a/c", true),
            ("**/x/*", "1/2/x/3", true),
            ("**/x/*", "1/2/x/3/4", false),
            ("***", "a/b", true),
            ("index.html", "index.html", true),
            ("index.html", "index.htm", false),
            ("a||b", "", true),
            ("a||b", "c", false),
            (
                "****************************************************x",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaay",
                false,
            ),
        ] {
            let parsed = ThrottlePattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn reads_the_lines_and_reports_the_bad_ones() {
        let text = "# thttpd's example\n\n/**  2000-100000 # min-max\n**.jpg|/**.gif\t50000\r\njef/** 20000\n\
                    nothing\n**.iso fast\n**.iso 0\n**.iso 0-0\n**.iso 5-2\n**.iso 50000 x\n**.iso 50000x\n\
                    **.iso 50000-\n**.iso -5\n**.iso 99999999999999999999\n   # only a comment\n#\n\
                    ok 18446744073709551615";
        let (lines, errors) = parse(text);
        let lines: Vec<_> =
            lines.iter().map(|line| (line.number, line.pattern.to_string(), line.min, line.max)).collect();
        assert_eq!(
            lines,
            [
                (3, "/**".to_owned(), 2000, 100_000),
                (4, "**.jpg|/**.gif".to_owned(), 0, 50_000),
                (5, "jef/**".to_owned(), 0, 20_000),
                (18, "ok".to_owned(), 0, u64::MAX),
            ]
        );
        use LineError::{Inverted, NoRate, Trailing, Zero};
        let expected = [
            (6, NoRate),
            (7, NoRate),
            (8, Zero),
            (9, Zero),
            (10, Inverted),
            (11, Trailing),
            (12, Trailing),
            (13, NoRate),
            (14, NoRate),
            (15, NoRate),
        ];
        assert_eq!(errors, expected);
        let long = format!("{} 5\n{} 5\n", "a".repeat(128), "a".repeat(127));
        let (lines, errors) = parse(&long);
        assert_eq!((lines.len(), errors), (1, vec![(1, LineError::PatternTooLong)]));
        assert_eq!(parse(""), (Vec::new(), Vec::new()));
        assert_eq!(parse("\u{feff}# \0\u{1}\n").0.len(), 0);
    }

    #[test]
    fn a_line_behind_others_that_match_its_paths_is_superseded() {
        for (text, expected) in [
            ("** 1\n** 2\n** 3\n", &[3][..]),
            ("a 1\na 1\nb 1\na 1\n", &[4]),
            ("** 1\na/** 1\na/b 1\na/** 1\n", &[3, 4]),
            ("**.jpg 1\n*.jpg 1\n**.jpg 1\n*.jpg 1\n", &[4]),
            ("a|b 1\na|c 1\na 1\nb 1\nb|a 1\n", &[3, 5]),
            ("? 1\n* 1\n?? 1\n?|x 1\n", &[4]),
            ("*x 1\nx* 1\n*x* 1\n", &[]),
        ] {
            assert_eq!(superseded(&parse(text).0, 2), expected, "{text}");
        }
        let alternatives = format!("{} 1\n", "a|".repeat(MAX_COMPARED));
        assert!(superseded(&parse(&alternatives.repeat(11)).0, 10).is_empty());
    }
}
