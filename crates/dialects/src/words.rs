//! Lines, words and numbers, as old servers read them.

use site::utf8::{self, NotUtf8};

/// The lines of a file with their numbers, from 1, without what ends them. A comment line that is not UTF-8 becomes an
/// empty one. Errors: the place of the first character of the line that is not UTF-8.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (u32, Result<&str, NotUtf8>)> {
    numbered(bytes).map(|(number, line)| {
        let text = match utf8::text(line) {
            Err(_) if line.trim_ascii_start().starts_with(b"#") => Ok(""),
            Err(error) => Err(NotUtf8 { line: number, ..error }),
            text => text,
        };
        (number, text)
    })
}

/// As `lines`, of a file in which every number sign begins a comment, and without the comments.
pub fn lines_without_comments(bytes: &[u8]) -> impl Iterator<Item = (u32, Result<&str, NotUtf8>)> {
    numbered(bytes).map(|(number, line)| {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        (number, utf8::text(line).map_err(|error| NotUtf8 { line: number, ..error }))
    })
}

/// The first character that is not UTF-8 and not in a comment. A comment may follow something on its line.
pub fn not_utf8(bytes: &[u8]) -> Option<NotUtf8> {
    numbered(bytes).find_map(|(number, line)| {
        let error = utf8::text(without_comment(line)).err()?;
        Some(NotUtf8 { line: number, ..error })
    })
}

/// The lines of a file with their numbers, from 1, without what ends them.
fn numbered(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let lines = bytes.split(|byte| *byte == b'\n');
    (1..).zip(lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)))
}

/// The part of a line in front of its comment, which a number sign begins at the start of a word and outside of quotes.
fn without_comment(line: &[u8]) -> &[u8] {
    let (mut quote, mut before) = (None, b' ');
    let end = line.iter().position(|byte| {
        let begins_word = before.is_ascii_whitespace() || b";{}".contains(&before);
        let is_comment = quote.is_none() && *byte == b'#' && begins_word;
        quote = match (quote, *byte) {
            (None, byte @ (b'"' | b'\'')) => Some(byte),
            (Some(open), byte) if byte == open => None,
            (quote, _) => quote,
        };
        before = *byte;
        is_comment
    });
    &line[..end.unwrap_or(line.len())]
}

/// The first word of a text, and the rest without spaces around it. A word in double quotes may have spaces.
pub fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('"')
        && let Some((word, rest)) = quoted.split_once('"')
    {
        return (word, rest.trim_start());
    }
    match text.find(char::is_whitespace) {
        Some(end) => (&text[..end], text[end..].trim_start()),
        None => (text, ""),
    }
}

/// A text without the double quotes around it.
pub fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// Seconds of `1 week 2 days`, the words of a time.
#[cfg(feature = "web")]
pub fn seconds<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<u64> {
    let mut total: u64 = 0;
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let factor = match words.next()?.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 86_400,
            "week" => 604_800,
            "month" => 2_592_000,
            "year" => 31_536_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    Some(total)
}

/// As strtol(3) with base 0: `0x50` is hexadecimal, `0120` octal.
pub fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    let is_number = digits.bytes().next().is_some_and(|byte| byte.is_ascii_hexdigit());
    let number = i64::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
    Some(sign * number)
}

/// Bytes of a word that is compared with those that are known.
const MAX_COMPARED: usize = 64;

/// The known word that is most like this one, if one is.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_COMPARED {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let most = 1 + word.len() / 4;
    let length = word.chars().count();
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &word);
    // Each character that one of two words has more is a difference. Lengths are quick to compare.
    let similar = known.filter(|known| known.chars().count().abs_diff(length) <= most);
    let (least, nearest) = similar.map(|known| (distance(known), known)).min_by_key(|(found, _)| *found)?;
    (least <= most).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_as_strtol_does() {
        for (text, expected) in [
            ("80", Some(80)),
            ("0x50", Some(80)),
            ("0X1F", Some(31)),
            ("0120", Some(80)),
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("0x", None),
            ("0x-5", None),
            ("08", None),
            ("80 ", None),
            ("eighty", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn splits_words_and_removes_quotes() {
        for (text, expected) in [
            ("a  b c", ("a", "b c")),
            ("\ta\tb", ("a", "b")),
            ("\"a b\" c", ("a b", "c")),
            ("\"a b", ("\"a", "b")),
            ("a", ("a", "")),
            ("", ("", "")),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
        assert_eq!(unquoted("\"a b\" "), "a b");
        assert_eq!(unquoted("\""), "\"");
    }

    #[test]
    fn finds_the_nearest_word_of_a_mistake_only() {
        let known = || ["DocumentRoot", "Port"].into_iter();
        assert_eq!(nearest("documentrot", known()), Some("DocumentRoot"));
        assert_eq!(nearest("Prot", known()), Some("Port"));
        assert_eq!(nearest("Nothing", known()), None);
        assert_eq!(nearest(&"Port".repeat(1_000_000), known()), None);
    }
}
