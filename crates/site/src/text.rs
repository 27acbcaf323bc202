//! How untrusted text, numbers and times are spelled in pages, JSON documents and logs. Everything is
//! appended to a buffer; nothing is allocated.
//!
//! Knows nothing of what the text means.

use taipan_http::date;
use taipan_http::digits::write_number;

/// `2026-11-20T07:49:41Z`
pub const RFC3339_LEN: usize = 20;

/// `text` for HTML, both between tags and inside a quoted attribute.
pub fn html(text: &str, out: &mut Vec<u8>) {
    runs(text.as_bytes(), &HTML, out, |byte, out| {
        out.extend_from_slice(match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            _ => b"&#39;",
        });
    });
}

/// `text` as a JSON string with its quotes, in ASCII alone: no terminal and no reader of lines can be
/// fooled by it. What is not UTF-8 becomes U+FFFD.
pub fn json(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    // Nearly always all of it.
    let plain = text.iter().position(|&byte| JSON[usize::from(byte)]).unwrap_or(text.len());
    out.extend_from_slice(&text[..plain]);
    for chunk in text[plain..].utf8_chunks() {
        json_chars(chunk.valid(), out);
        if !chunk.invalid().is_empty() {
            json_unit(0xFFFD, out);
        }
    }
    out.push(b'"');
}

/// `text` for the inside of a quoted field of the common log format: `"`, `\`, controls and what is not
/// ASCII become `\xHH`.
pub fn quoted(text: &[u8], out: &mut Vec<u8>) {
    runs(text, &QUOTED, out, escape_byte);
}

/// `text` for a field of the common log format that ends at a space: as [`quoted`], and a space is
/// escaped too.
pub fn word(text: &[u8], out: &mut Vec<u8>) {
    runs(text, &WORD, out, escape_byte);
}

/// `text` for one line that people read: as it is, but for `\`, controls, line separators and the
/// characters that turn the direction of writing, which become `\u{h}`.
pub fn line(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find(breaks_line) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut chars = tail.chars();
        if let Some(char) = chars.next() {
            out.extend_from_slice(b"\\u{");
            hex(u32::from(char), out);
            out.push(b'}');
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Whether `char` makes the text around it run in another direction than it would by itself: the
/// embeddings, overrides and isolates of Unicode (UAX #9, section 2).
pub fn turns_direction(char: char) -> bool {
    matches!(char, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Seconds with six decimals, from microseconds: `0.000123`.
pub fn seconds(micros: u64, out: &mut Vec<u8>) {
    write_number(micros / 1_000_000, out);
    let mut decimals = *b".000000";
    let mut rest = micros % 1_000_000;
    for digit in decimals[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&decimals);
}

/// A time in seconds since 1970, as UTC (RFC 3339); one outside of the years 0 to 9999 becomes the first
/// or the last second of them.
pub fn rfc3339(time: i64) -> [u8; RFC3339_LEN] {
    let civil = date::civil(time);
    let mut text = *b"0000-00-00T00:00:00Z";
    digits(civil.year.into(), &mut text[..4]);
    digits(civil.month.into(), &mut text[5..7]);
    digits(civil.day.into(), &mut text[8..10]);
    digits(civil.hour.into(), &mut text[11..13]);
    digits(civil.minute.into(), &mut text[14..16]);
    digits(civil.second.into(), &mut text[17..19]);
    text
}

/// The last digits of `value`, as many as there is room for.
pub(crate) fn digits(value: u32, room: &mut [u8]) {
    let mut rest = value;
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes that must not be written as they are.
type Unsafe = [bool; 256];

const HTML: Unsafe = special(b"&<>\"'");
const QUOTED: Unsafe = with_others(special(b"\"\\"), b' ');
const WORD: Unsafe = with_others(special(b"\"\\"), b'!');
const JSON: Unsafe = with_others(special(b"\"\\"), b' ');

const fn special(bytes: &[u8]) -> Unsafe {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

/// `table`, and everything before `first` or after `~`.
const fn with_others(mut table: Unsafe, first: u8) -> Unsafe {
    let mut byte = 0;
    while byte < table.len() {
        if byte < first as usize || byte > b'~' as usize {
            table[byte] = true;
        }
        byte += 1;
    }
    table
}

/// Copies `text`, with `escape` in place of every byte that `table` names.
fn runs(text: &[u8], table: &Unsafe, out: &mut Vec<u8>, escape: impl Fn(u8, &mut Vec<u8>)) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| table[usize::from(byte)]) {
        out.extend_from_slice(&rest[..at]);
        escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
    out.extend_from_slice(&[b'\\', b'x', high, low]);
}

fn json_chars(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| JSON[usize::from(byte)]) {
        // The bytes before `at` are ASCII, so that a character begins there.
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut chars = tail.chars();
        match chars.next() {
            Some(char @ ('"' | '\\')) => out.extend_from_slice(&[b'\\', char as u8]),
            Some(char) => char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| json_unit(unit, out)),
            None => {}
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn json_unit(unit: u16, out: &mut Vec<u8>) {
    let digit = |shift: u16| DIGITS[usize::from(unit >> shift & 15)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

fn hex(value: u32, out: &mut Vec<u8>) {
    let places = (32 - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..places).rev() {
        out.push(DIGITS[(value >> (4 * place) & 15) as usize]);
    }
}

fn breaks_line(char: char) -> bool {
    char.is_control() || matches!(char, '\\' | '\u{2028}' | '\u{2029}') || turns_direction(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = b">".to_vec();
        write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!(">{expected}"));
    }

    #[test]
    fn html_is_inert_in_text_and_attributes() {
        for (text, expected) in [
            ("", ""),
            ("plain é 日本", "plain é 日本"),
            ("<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
            ("a\"b&amp;", "a&quot;b&amp;amp;"),
        ] {
            check(|out| html(text, out), expected);
        }
    }

    #[test]
    fn json_strings_are_ascii() {
        for (text, expected) in [
            (&b""[..], r#""""#),
            (b"plain", r#""plain""#),
            (b"a\"b\\c/", r#""a\"b\\c/""#),
            (b"\0\n\r\t\x1b\x7f", r#""\u0000\u000a\u000d\u0009\u001b\u007f""#),
            ("é\u{2028}\u{9b}😀".as_bytes(), r#""\u00e9\u2028\u009b\ud83d\ude00""#),
            (b"a\xffb\xe6\x97", r#""a\ufffdb\ufffd""#),
        ] {
            check(|out| json(text, out), expected);
        }
    }

    #[test]
    fn log_fields_are_one_line_of_ascii() {
        for (text, in_quotes, alone) in [
            (&b"plain"[..], "plain", "plain"),
            (b"a b", "a b", "a\\x20b"),
            (b"a\"b\\c", "a\\x22b\\x5cc", "a\\x22b\\x5cc"),
            (b"\r\n\x1b[2J\x7f", "\\x0d\\x0a\\x1b[2J\\x7f", "\\x0d\\x0a\\x1b[2J\\x7f"),
            (b"\xc3\xa9\xff", "\\xc3\\xa9\\xff", "\\xc3\\xa9\\xff"),
        ] {
            check(|out| quoted(text, out), in_quotes);
            check(|out| word(text, out), alone);
        }
    }

    #[test]
    fn lines_for_people_stay_lines() {
        for (text, expected) in [
            ("site.toml:14: \"lisen\" é", "site.toml:14: \"lisen\" é"),
            ("a\nb\r\u{1b}[2J", "a\\u{a}b\\u{d}\\u{1b}[2J"),
            ("\u{9b}\u{2028}\u{202e}\0\\", "\\u{9b}\\u{2028}\\u{202e}\\u{0}\\u{5c}"),
        ] {
            check(|out| line(text, out), expected);
        }
    }

    #[test]
    fn microseconds_are_seconds() {
        for (micros, expected) in [
            (0, "0.000000"),
            (123, "0.000123"),
            (61_000_001, "61.000001"),
            (u64::MAX, "18446744073709.551615"),
        ] {
            check(|out| seconds(micros, out), expected);
        }
    }

    #[test]
    fn times_are_utc_and_clamped() {
        for (time, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_795_160_981, "2026-11-20T07:49:41Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (i64::MIN, "0000-01-01T00:00:00Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            check(|out| out.extend_from_slice(&rfc3339(time)), expected);
        }
    }
}
