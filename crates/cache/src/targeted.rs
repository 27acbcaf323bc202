//! Targeted fields such as `CDN-Cache-Control`: a dictionary of structured fields (RFC 9213 §2.1, RFC 9651).

use crate::directives::Directives;

/// The directives of the lines of a targeted field. `None`: it is empty or malformed, and does not count.
pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Directives> {
    let text = lines.collect::<Vec<_>>().join(&b", "[..]);
    let mut members: Vec<(&[u8], Value<'_>)> = Vec::new();
    let mut parser = Parser(&text);
    parser.skip(|byte| byte == b' ');
    while !parser.0.is_empty() {
        let (key, value) = parser.member()?;
        // The last one of a key counts.
        members.retain(|(other, _)| *other != key);
        members.push((key, value));
        parser.skip(is_ows);
        if parser.0.is_empty() {
            break;
        }
        parser.expect(b',')?;
        parser.skip(is_ows);
        // A comma at the end.
        (!parser.0.is_empty()).then_some(())?;
    }
    if members.is_empty() {
        return None;
    }
    let mut found = Directives::default();
    for (key, value) in members {
        let key_is_time = TIMES.iter().any(|time| time.as_bytes() == key);
        match value {
            // A value of another type does not count.
            Value::Integer(number) if key_is_time => {
                found.add(key, Some(number.max(0).to_string().as_bytes()));
            }
            Value::True if !key_is_time => found.add(key, None),
            Value::Text(text) if !key_is_time && FIELDS.iter().any(|name| name.as_bytes() == key) => {
                found.add(key, Some(text));
            }
            _ => {}
        }
    }
    Some(found)
}

const TIMES: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];
const FIELDS: [&str; 2] = ["no-cache", "private"];

enum Value<'a> {
    Integer(i64),
    True,
    /// Of a string without escapes, or a token.
    Text(&'a [u8]),
    Other,
}

struct Parser<'a>(&'a [u8]);

fn is_ows(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// `-` with up to 15 digits and a decimal point.
const LONGEST_NUMBER: usize = 17;
/// Members of one inner list.
const MOST_INNER: usize = 1024;

impl<'a> Parser<'a> {
    fn skip(&mut self, is: impl Fn(u8) -> bool) {
        self.take_while(is);
    }

    fn take_while(&mut self, is: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn member(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        let key = self.key()?;
        let value = match self.0.first() {
            Some(b'=') => {
                self.expect(b'=')?;
                match self.0.first()? {
                    b'(' => self.inner_list()?,
                    _ => self.bare_item()?,
                }
            }
            _ => Value::True,
        };
        self.parameters()?;
        Some((key, value))
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let is_first = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'*';
        self.0.first().filter(|byte| is_first(byte))?;
        let is_rest =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
        Some(self.take_while(is_rest))
    }

    fn parameters(&mut self) -> Option<()> {
        // Bounded: each pass takes at least a byte.
        while self.0.first() == Some(&b';') {
            self.expect(b';')?;
            self.skip(|byte| byte == b' ');
            self.key()?;
            if self.0.first() == Some(&b'=') {
                self.expect(b'=')?;
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn inner_list(&mut self) -> Option<Value<'a>> {
        self.expect(b'(')?;
        for _ in 0..MOST_INNER {
            self.skip(|byte| byte == b' ');
            if self.0.first()? == &b')' {
                self.expect(b')')?;
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            matches!(self.0.first()?, b' ' | b')').then_some(())?;
        }
        None
    }

    fn bare_item(&mut self) -> Option<Value<'a>> {
        match self.0.first()? {
            b'"' => self.string(),
            b'?' => {
                self.expect(b'?')?;
                let value = if self.expect(b'1').is_some() {
                    Value::True
                } else {
                    self.expect(b'0')?;
                    Value::Other
                };
                Some(value)
            }
            b':' => {
                self.expect(b':')?;
                self.skip(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.expect(b':')?;
                Some(Value::Other)
            }
            b'@' => {
                self.expect(b'@')?;
                self.number()?;
                Some(Value::Other)
            }
            b'-' | b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || *byte == b'*' => {
                let is_token =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                Some(Value::Text(self.take_while(is_token)))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let start = self.0;
        _ = self.expect(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.expect(b'.').is_some() {
            let decimals = self.take_while(|byte| byte.is_ascii_digit());
            let fits = (1..=12).contains(&digits.len()) && (1..=3).contains(&decimals.len());
            return fits.then_some(Value::Other);
        }
        let text = &start[..start.len() - self.0.len()];
        let fits = (1..=15).contains(&digits.len()) && text.len() < LONGEST_NUMBER;
        let number = std::str::from_utf8(text).ok()?.parse().ok()?;
        fits.then_some(Value::Integer(number))
    }

    fn string(&mut self) -> Option<Value<'a>> {
        self.expect(b'"')?;
        let start = self.0;
        let mut escapes = false;
        loop {
            let plain = self.take_while(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
            _ = plain;
            match self.0 {
                [b'"', rest @ ..] => {
                    let text = &start[..start.len() - self.0.len()];
                    self.0 = rest;
                    return Some(if escapes { Value::Other } else { Value::Text(text) });
                }
                [b'\\', b'"' | b'\\', rest @ ..] => {
                    self.0 = rest;
                    escapes = true;
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::Applies;

    fn of(lines: &[&str]) -> Option<Directives> {
        parse(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn reads_a_dictionary() {
        let found =
            of(&["max-age=60, must-revalidate;x=\"y\", ext=(1 \"b\";c d), no-store=?0", "public"]).unwrap();
        assert_eq!(
            (found.max_age, found.must_revalidate, found.public, found.no_store),
            (Some(60), true, true, false)
        );
        assert_eq!(of(&["max-age=60, max-age=5"]).unwrap().max_age, Some(5));
        assert_eq!(
            of(&["private=\"Set-Cookie\""]).unwrap().private,
            Applies::Fields(vec!["set-cookie".to_owned()])
        );
        assert_eq!(of(&["max-age=-5"]).unwrap().max_age, Some(0));
        assert_eq!(of(&["no-store"]).map(|found| found.no_store), Some(true));
        assert_eq!(of(&["a=:aGk=:, b=@1, c=1.5, no-cache=?1"]).unwrap().no_cache, Applies::Everywhere);
    }

    #[test]
    fn a_value_of_another_type_does_not_count() {
        for line in ["max-age=\"60\"", "max-age=6.5", "max-age", "max-age=a", "max-age=(60)"] {
            assert_eq!(of(&[line]).unwrap().max_age, None, "{line}");
        }
        assert!(!of(&["no-store=1"]).unwrap().no_store);
    }

    #[test]
    fn a_malformed_or_empty_field_does_not_count() {
        for line in [
            "",
            " ",
            "max-age=60,",
            "Max-Age=60",
            "max-age=",
            "max-age=60 public",
            "a=\"b",
            "a=?2",
            "a=(1",
            "a=(1\"b\")",
            "a=1234567890123456",
            "a=1.2345",
            "a=--1",
            "a=é",
            ",",
            "a;",
            "a=:b",
            "a =1",
        ] {
            assert_eq!(of(&[line]), None, "{line}");
        }
        assert_eq!(of(&[]), None);
    }
}
