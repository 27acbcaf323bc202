//! Writes untrusted text, numbers and times into pages, JSON documents and logs. Every function but `counted` appends
//! to a buffer.

use taipan_http::date;
use taipan_http::digits::write_number;

/// `2026-11-20T07:49:41Z`
pub const RFC3339_LEN: usize = 20;

/// `1 file`, `2 files`: a number with its noun, whose plural has an "s".
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

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

/// `text` as a JSON string with its quotes, in ASCII alone, so that terminals and line readers are safe. Invalid UTF-8
/// becomes U+FFFD.
pub fn json(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    // Most strings need no escapes.
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

/// As [`json`], as a string of its own.
pub fn json_string(text: &str) -> String {
    let mut out = Vec::new();
    json(text.as_bytes(), &mut out);
    // It is ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

/// `text` inside a quoted field of the common log format: `"`, `\`, controls and non-ASCII bytes become `\xHH`.
pub fn quoted(text: &[u8], out: &mut Vec<u8>) {
    runs(text, &QUOTED, out, escape_byte);
}

/// `text` for a field of the common log format that ends at a space: as [`quoted`], with spaces escaped.
pub fn word(text: &[u8], out: &mut Vec<u8>) {
    runs(text, &WORD, out, escape_byte);
}

/// `text` on one line for people: controls, line separators and characters that change the direction of writing become
/// `\u{h}`, and so does a `\` in front of `u{`, which would look like one of them.
pub fn line(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    let is_escaped = |rest: &str, at: usize, char| breaks_line(char) || rest[at..].starts_with("\\u{");
    while let Some((at, char)) = rest.char_indices().find(|(at, char)| is_escaped(rest, *at, *char)) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        out.extend_from_slice(b"\\u{");
        hex(u32::from(char), out);
        out.push(b'}');
        rest = &tail[char.len_utf8()..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// A target without the values of its query, which may be secrets.
pub fn without_values(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let name = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        // It may be a value without a name.
        None if pair.is_empty() => String::new(),
        None => "…".to_owned(),
    };
    let names: Vec<String> = query.split('&').map(name).collect();
    format!("{path}?{}", names.join("&"))
}

/// Whether `char` changes the direction of the text around it: embeddings, overrides and isolates (UAX #9, section 2).
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

/// A time in seconds since 1970, as UTC (RFC 3339). A time outside of the years 0 to 9999 becomes their first or last
/// second.
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

/// The last digits of `value`, as many as fit into `out`.
pub(crate) fn digits(value: u32, out: &mut [u8]) {
    let mut rest = value;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes that need an escape.
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

/// `table`, and all bytes before `first` or after `~`.
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

/// Copies `text`, and writes every byte of `table` by `escape`.
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
        // All bytes before `at` are ASCII, so a character begins there.
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
    char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') || turns_direction(char)
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
    fn one_is_singular() {
        for (number, expected) in [(0, "0 failures"), (1, "1 failure"), (2, "2 failures")] {
            assert_eq!(counted(number, "failure"), expected);
        }
    }

    #[test]
    fn html_escapes_text_and_attributes() {
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
    fn line_escapes_line_breaks_and_direction() {
        for (text, expected) in [
            ("site.toml:14: \"lisen\" é", "site.toml:14: \"lisen\" é"),
            ("a\nb\r\u{1b}[2J", "a\\u{a}b\\u{d}\\u{1b}[2J"),
            ("\u{9b}\u{2028}\u{202e}\0", "\\u{9b}\\u{2028}\\u{202e}\\u{0}"),
            ("App\\User \\xff \\u \\", "App\\User \\xff \\u \\"),
            ("a\\u{a}b", "a\\u{5c}u{a}b"),
        ] {
            check(|out| line(text, out), expected);
        }
    }

    #[test]
    fn seconds_have_six_decimals() {
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

    #[test]
    fn values_of_queries_are_not_shown() {
        for (target, expected) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?q=secret", "/a?q=…"),
            ("/a?q=secret&token=x=y&&flag", "/a?q=…&token=…&&…"),
            ("/a?b?c=d", "/a?b?c=…"),
        ] {
            assert_eq!(without_values(target), expected);
        }
    }
}
