//! SCGI requests: a netstring of all variables, followed by the body. A connection carries one request; its end is
//! the end of the response, whose head `crate::response` parses.

use std::fmt;

use crate::environment::Environment;

/// Digits of the length of a netstring, which is so below 10 MB.
const MAX_DIGITS: usize = 7;

const LENGTH: &[u8] = b"CONTENT_LENGTH";
const VERSION: &[u8] = b"SCGI";

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// Bytes of the body.
    pub body: u64,
    /// All names and values in order, including CONTENT_LENGTH and SCGI.
    pub variables: Vec<(&'a [u8], &'a [u8])>,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScgiError {
    /// Not digits and a colon, or a leading zero.
    Length,
    TooLarge,
    /// No comma after the variables.
    Comma,
    /// Not names and values that each end with NUL, or an empty name.
    Variables,
    Twice,
    /// `CONTENT_LENGTH` is not the first, or not a number.
    ContentLength,
    /// No variable `SCGI` of value 1.
    Version,
}

/// Appends the request without its body, which has `body` bytes.
pub fn encode(environment: &Environment, body: u64, out: &mut Vec<u8>) {
    let body = body.to_string();
    let first = [(LENGTH, body.as_bytes()), (VERSION, b"1")];
    // Names must be unique, and the protocol sets these two.
    let rest = environment.iter().filter(|(name, _)| !matches!(*name, LENGTH | VERSION));
    let variables = first.into_iter().chain(rest);
    let len: usize = variables.clone().map(|(name, value)| name.len() + value.len() + 2).sum();
    out.reserve(len + MAX_DIGITS + 2);
    out.extend_from_slice(len.to_string().as_bytes());
    out.push(b':');
    for (name, value) in variables {
        for text in [name, value] {
            out.extend_from_slice(text);
            out.push(0);
        }
    }
    out.push(b',');
}

/// Parses the request at the start of `input` and returns it with its length in bytes; the body follows. `Ok(None)`:
/// the input is the beginning of a request. The netstring may have `limit` bytes.
pub fn parse(input: &[u8], limit: usize) -> Result<Option<(Request<'_>, usize)>, ScgiError> {
    let digits = input.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
    let len = match (digits, input.get(digits)) {
        (0.., _) if digits > 1 && input[0] == b'0' => return Err(ScgiError::Length),
        (0..=MAX_DIGITS, None) => return Ok(None),
        (1..=MAX_DIGITS, Some(b':')) => number(&input[..digits]).ok_or(ScgiError::Length)?,
        (0..=MAX_DIGITS, Some(_)) => return Err(ScgiError::Length),
        _ => return Err(ScgiError::TooLarge),
    };
    let start = digits + 1;
    let end = match usize::try_from(len) {
        Ok(len) if len <= limit => start + len,
        _ => return Err(ScgiError::TooLarge),
    };
    match input.get(end) {
        None => Ok(None),
        Some(b',') => Ok(Some((request(&input[start..end])?, end + 1))),
        Some(_) => Err(ScgiError::Comma),
    }
}

fn request(text: &[u8]) -> Result<Request<'_>, ScgiError> {
    let text = text.strip_suffix(b"\0").ok_or(ScgiError::Variables)?;
    let mut parts = text.split(|&byte| byte == 0);
    let mut variables = Vec::new();
    while let Some(name) = parts.next() {
        match parts.next() {
            Some(value) if !name.is_empty() => variables.push((name, value)),
            _ => return Err(ScgiError::Variables),
        }
    }
    let mut names: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ScgiError::Twice);
    }
    let body = match variables.first() {
        Some((name, value)) if *name == LENGTH => number(value),
        _ => None,
    };
    let body = body.ok_or(ScgiError::ContentLength)?;
    match variables.contains(&(VERSION, b"1")) {
        true => Ok(Request { body, variables }),
        false => Err(ScgiError::Version),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    taipan_http::fields::exact_digits(digits)
}

impl fmt::Display for ScgiError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            ScgiError::Length => "the request does not begin with a length and a colon",
            ScgiError::TooLarge => "the variables are too large",
            ScgiError::Comma => "no comma after the variables",
            ScgiError::Variables => "the variables are not names and values that end with NUL",
            ScgiError::Twice => "a variable appears twice",
            ScgiError::ContentLength => "CONTENT_LENGTH is not the first variable, or not a number",
            ScgiError::Version => "no variable SCGI of value 1",
        })
    }
}

impl std::error::Error for ScgiError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::environment::Limits;

    const LIMIT: usize = 60;

    fn read(input: &[u8]) -> Result<Option<(u64, usize, usize)>, ScgiError> {
        let found = parse(input, LIMIT)?;
        Ok(found.map(|(request, used)| (request.body, request.variables.len(), used)))
    }

    #[test]
    fn parses_or_rejects_requests() {
        // `|` is NUL here.
        let check = |input: &str, expected| {
            assert_eq!(read(input.replace('|', "\0").as_bytes()), expected, "{input:?}");
        };
        check("24:CONTENT_LENGTH|0|SCGI|1|,", Ok(Some((0, 2, 28))));
        check("24:CONTENT_LENGTH|5|SCGI|1|,hello", Ok(Some((5, 2, 28))));
        check("29:CONTENT_LENGTH|5|A|b||SCGI|1|,", Err(ScgiError::Variables));
        check("28:CONTENT_LENGTH|5|A|b|SCGI|1|,", Ok(Some((5, 3, 32))));
        check("27:CONTENT_LENGTH|5|A||SCGI|1|,", Ok(Some((5, 3, 31))));
        check("", Ok(None));
        check("2", Ok(None));
        check("24:CONTENT", Ok(None));
        check("24:CONTENT_LENGTH|0|SCGI|1|", Ok(None));

        check(":", Err(ScgiError::Length));
        check("x", Err(ScgiError::Length));
        check("2x", Err(ScgiError::Length));
        check(" 2:", Err(ScgiError::Length));
        check("024:", Err(ScgiError::Length));
        check("02", Err(ScgiError::Length));
        check("61:", Err(ScgiError::TooLarge));
        check("12345678", Err(ScgiError::TooLarge));
        check("1234567:", Err(ScgiError::TooLarge));
        check("24:CONTENT_LENGTH|0|SCGI|1|;", Err(ScgiError::Comma));
        check("0:,", Err(ScgiError::Variables));
        check("1:|,", Err(ScgiError::Variables));
        check("1:A,", Err(ScgiError::Variables));
        check("2:A|,", Err(ScgiError::Variables));
        check("3:|A|,", Err(ScgiError::Variables));
        check("24:SCGI|1|CONTENT_LENGTH|0|,", Err(ScgiError::ContentLength));
        check("7:SCGI|1|,", Err(ScgiError::ContentLength));
        check("23:CONTENT_LENGTH||SCGI|1|,", Err(ScgiError::ContentLength));
        check("25:CONTENT_LENGTH|+1|SCGI|1|,", Err(ScgiError::ContentLength));
        check("24:CONTENT_LENGTH|0|SCGI|2|,", Err(ScgiError::Version));
        check("17:CONTENT_LENGTH|0|,", Err(ScgiError::Version));
        check("31:CONTENT_LENGTH|0|SCGI|1|SCGI|1|,", Err(ScgiError::Twice));
    }

    proptest! {
        #[test]
        fn parses_what_it_writes(
            variables in prop::collection::vec(("[A-Z_]{1,6}|CONTENT_LENGTH|SCGI", "[ -~]{0,8}"), 0..8),
            body: u64,
        ) {
            let pairs = variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let environment = Environment::received(pairs, Limits::default()).unwrap();
            let mut out = Vec::new();
            encode(&environment, body, &mut out);
            let len = out.len();
            out.extend_from_slice(b"body");
            let (request, used) = parse(&out, 1000).unwrap().unwrap();
            prop_assert_eq!((request.body, used), (body, len));
            prop_assert!(request.variables.len() >= 2);
            for (name, value) in environment.iter().filter(|(name, _)| !matches!(*name, LENGTH | VERSION)) {
                prop_assert!(request.variables.contains(&(name, value)));
            }
            for cut in 0..len {
                prop_assert_eq!(parse(&out[..cut], 1000), Ok(None));
            }
        }
    }
}
