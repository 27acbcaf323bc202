//! The pieces that field values are made of (RFC 9110 §5): tokens, optional whitespace, lists, and the
//! host with its port (RFC 3986 §3.2). Knows nothing of what any one field means.

use std::net::Ipv6Addr;

/// Longest host that can be the name of anything: DNS names end at 253 bytes, plus a final dot.
const MAX_HOST: usize = 255;

/// One `list` walks all lines of a field: the members of a comma-separated list, without their
/// surrounding whitespace, without the empty ones (RFC 9110 §5.6.1.2). A comma within a quoted string
/// separates nothing. A quote that never closes reaches to the end of its line.
#[derive(Debug, Clone)]
pub struct List<'a, Lines> {
    lines: Lines,
    rest: &'a [u8],
}

/// The members of a list field; `values` are the values of its lines, in order.
pub fn list<'a, Lines>(values: Lines) -> List<'a, Lines::IntoIter>
where
    Lines: IntoIterator<Item = &'a [u8]>,
{
    List { lines: values.into_iter(), rest: b"" }
}

impl<'a, Lines: Iterator<Item = &'a [u8]>> Iterator for List<'a, Lines> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // Bounded: every turn uses up a line, or at least one byte of it.
        loop {
            if self.rest.is_empty() {
                self.rest = self.lines.next()?;
            }
            let (member, rest) = match unquoted(self.rest, b',') {
                Some(comma) => (&self.rest[..comma], &self.rest[comma + 1..]),
                None => (self.rest, &b""[..]),
            };
            self.rest = rest;
            match trim_ows(member) {
                b"" => continue,
                member => return Some(member),
            }
        }
    }
}

/// Where `wanted` first stands outside a quoted string (RFC 9110 §5.6.4).
pub fn unquoted(bytes: &[u8], wanted: u8) -> Option<usize> {
    #[derive(Clone, Copy)]
    enum Within {
        Text,
        Quotes,
        Escape,
    }
    let mut within = Within::Text;
    bytes.iter().position(|&byte| {
        let found = matches!(within, Within::Text) && byte == wanted;
        within = match (within, byte) {
            (Within::Text, b'"') => Within::Quotes,
            (Within::Text, _) | (Within::Quotes, b'"') => Within::Text,
            (Within::Quotes, b'\\') => Within::Escape,
            (Within::Quotes | Within::Escape, _) => Within::Quotes,
        };
        found
    })
}

/// RFC 9110 §5.6.2; never empty.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_len(bytes) == bytes.len()
}

/// How many bytes at the start can be part of a token.
pub fn token_len(bytes: &[u8]) -> usize {
    span(bytes, TOKEN)
}

/// How many bytes at the start may stand in a request target: visible ASCII, without `"`, `<`, `>` and
/// `#`, which no URI contains (RFC 3986 §2, appendix C). ``\ ^ ` { | }`` are let through although
/// RFC 3986 lacks them too: browsers send them raw in a query, as the URL standard of WHATWG says.
pub fn target_len(bytes: &[u8]) -> usize {
    span(bytes, TARGET)
}

/// How many bytes at the start are neither a control nor DEL: field content, but for HTAB (RFC 9110
/// §5.5). Eight at a time, as values are most of what a head consists of.
pub fn text_len(bytes: &[u8]) -> usize {
    let mut words = bytes.chunks_exact(8);
    let mut len = 0;
    for word in words.by_ref() {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let stops = controls(u64::from_le_bytes(eight));
        if stops != 0 {
            return len + (stops.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    let tail = words.remainder();
    len + tail.iter().position(u8::is_ascii_control).unwrap_or(tail.len())
}

/// Without the spaces and tabs at both ends (RFC 9110 §5.6.3).
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A weight in thousandths: `0`, `0.5`, `1.000` (RFC 9110 §12.4.2). `None`: not a weight.
pub fn weight(value: &[u8]) -> Option<u16> {
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * 1000;
    for (digit, unit) in digits.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths += u16::from(digit - b'0') * unit;
    }
    (thousandths <= 1000).then_some(thousandths)
}

/// `1*DIGIT` and nothing else, as in `Content-Length` and ranges. `None`: not digits only, or none.
/// What is greater than `u64` can say is `u64::MAX`: callers to whom that matters use `exact_digits`.
pub fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let times_ten = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(bytes.iter().fold(0, times_ten))
}

/// As `digits`; also `None` when the number does not fit.
pub fn exact_digits(bytes: &[u8]) -> Option<u64> {
    let number = digits(bytes)?;
    match number {
        u64::MAX => std::str::from_utf8(bytes).ok()?.parse().ok(),
        number => Some(number),
    }
}

/// A host as RFC 3986 §3.2.2 has it, without port: a registered name or IPv4 address, or `[IPv6]`.
/// Never empty: RFC 9110 §4.2.1 has a URI with an empty host refused. Narrower than RFC 3986 in three
/// points that nobody uses and that are read in different ways: no `IPvFuture`, no zone, 255 bytes.
pub fn is_host(host: &str) -> bool {
    let bytes = host.as_bytes();
    match bytes {
        [] => false,
        [b'[', ..] => host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        _ => bytes.len() <= MAX_HOST && (span(bytes, HOST) == bytes.len() || is_escaped_host(bytes)),
    }
}

/// `host [":" port]` (RFC 9110 §7.2); the port may be empty (RFC 3986 §3.2.3), its number is at most
/// 65535. `user@` is refused (RFC 9110 §4.2.4).
pub fn is_authority(authority: &str) -> bool {
    let (host, port) = split_port(authority);
    is_host(host) && port.is_none_or(|port| port.is_empty() || port_number(port).is_some())
}

/// The two parts of an authority; the host keeps its case and its brackets. Of what `is_authority`
/// refuses, the first part is everything up to the last colon.
pub fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let (host, port) = split_port(authority);
    (host, port.and_then(port_number))
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // The last colon of `[::1]` is within the brackets.
    match authority.bytes().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority.as_bytes()[at] == b':' => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    }
}

fn port_number(port: &str) -> Option<u16> {
    // `u16::from_str` would take a sign.
    (port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())).then(|| port.parse().ok()).flatten()
}

fn is_escaped_host(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        bytes = match bytes {
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if CLASSES[usize::from(*byte)] & HOST != 0 => rest,
            _ => return false,
        };
    }
    true
}

/// The top bit of every byte below 0x20 or equal to 0x7F. Exact up to and including the first of them,
/// which is all that is asked: a borrow disturbs only the bytes above.
const fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES * 0x80;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let deletes = word ^ (ONES * 0x7f);
    let is_delete = deletes.wrapping_sub(ONES) & !deletes;
    (below_space | is_delete) & TOPS
}

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const TARGET: u8 = 4;

fn span(bytes: &[u8], class: u8) -> usize {
    bytes.iter().position(|&byte| CLASSES[usize::from(byte)] & class == 0).unwrap_or(bytes.len())
}

/// Which classes each byte belongs to.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let mark = byte as u8;
        if mark.is_ascii_alphanumeric() {
            classes[byte] = TOKEN | HOST;
        }
        if mark.is_ascii_graphic() && !matches!(mark, b'"' | b'<' | b'>' | b'#') {
            classes[byte] |= TARGET;
        }
        byte += 1;
    }
    classes = with(classes, b"!#$%&'*+-.^_`|~", TOKEN);
    // RFC 3986 §2.3 and §2.2: unreserved and sub-delims.
    with(classes, b"-._~!$&'()*+,;=", HOST)
};

const fn with(mut classes: [u8; 256], members: &[u8], class: u8) -> [u8; 256] {
    let mut at = 0;
    while at < members.len() {
        classes[members[at] as usize] |= class;
        at += 1;
    }
    classes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_of_a_list() {
        let check = |lines: &[&str], expected: &[&str]| {
            let members: Vec<_> = list(lines.iter().map(|line| line.as_bytes())).collect();
            let expected: Vec<_> = expected.iter().map(|member| member.as_bytes()).collect();
            assert_eq!(members, expected, "{lines:?}");
        };
        check(&[], &[]);
        check(&["", ",", " , ,\t"], &[]);
        check(&["a"], &["a"]);
        check(&["a,b", "c"], &["a", "b", "c"]);
        check(&[" a\t, b c ,,d "], &["a", "b c", "d"]);
        check(&[r#"a="x,y", b"#], &[r#"a="x,y""#, "b"]);
        check(&[r#"a="x\",y", b"#], &[r#"a="x\",y""#, "b"]);
        check(&[r#"a="x,y"#, "b"], &[r#"a="x,y"#, "b"]);
        check(&[r"a\,b"], &[r"a\", "b"]);
    }

    #[test]
    fn tokens() {
        for token in ["a", "GET", "x-y_z", "!#$%&'*+-.^_`|~09"] {
            assert!(is_token(token.as_bytes()), "{token}");
        }
        for other in ["", " ", "a b", "a:", "(a)", "a/b", "a,b", "\"a\"", "{a}", "é", "a\0", "[", "@", "\x7f"]
        {
            assert!(!is_token(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn weights() {
        let rows: &[(&str, Option<u16>)] = &[
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.", Some(0)),
            ("1.", Some(1000)),
            ("0.5", Some(500)),
            ("0.05", Some(50)),
            ("0.123", Some(123)),
            ("1.000", Some(1000)),
            ("1.001", None),
            ("0.1234", None),
            ("2", None),
            ("", None),
            (".5", None),
            ("-1", None),
            ("0,5", None),
            ("0.5x", None),
            ("00", None),
        ];
        for (text, expected) in rows {
            assert_eq!(weight(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn numbers() {
        let rows: &[(&str, Option<u64>, Option<u64>)] = &[
            ("0", Some(0), Some(0)),
            ("007", Some(7), Some(7)),
            ("18446744073709551615", Some(u64::MAX), Some(u64::MAX)),
            ("018446744073709551615", Some(u64::MAX), Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX), None),
            ("99999999999999999999999999", Some(u64::MAX), None),
            ("", None, None),
            ("+1", None, None),
            ("-1", None, None),
            ("1 1", None, None),
            ("0x1", None, None),
            ("1_000", None, None),
            ("\u{661}", None, None),
        ];
        for (text, saturated, exact) in rows {
            assert_eq!(digits(text.as_bytes()), *saturated, "{text}");
            assert_eq!(exact_digits(text.as_bytes()), *exact, "{text}");
        }
    }

    #[test]
    fn authorities() {
        let long = "a".repeat(256);
        let rows: &[(&str, bool, &str, Option<u16>)] = &[
            ("example.org", true, "example.org", None),
            ("example.org.", true, "example.org.", None),
            ("EXAMPLE.org:8080", true, "EXAMPLE.org", Some(8080)),
            ("example.org:", true, "example.org", None),
            ("example.org:0", true, "example.org", Some(0)),
            ("example.org:65535", true, "example.org", Some(65535)),
            ("example.org:00080", true, "example.org", Some(80)),
            ("127.0.0.1:80", true, "127.0.0.1", Some(80)),
            ("[::1]", true, "[::1]", None),
            ("[::1]:443", true, "[::1]", Some(443)),
            ("[2001:db8::ff00:42:8329]", true, "[2001:db8::ff00:42:8329]", None),
            ("[::ffff:1.2.3.4]:1", true, "[::ffff:1.2.3.4]", Some(1)),
            ("a_b", true, "a_b", None),
            ("a%20b", true, "a%20b", None),
            ("a!$&'()*+,;=~b", true, "a!$&'()*+,;=~b", None),
            ("", false, "", None),
            (":80", false, "", Some(80)),
            (":", false, "", None),
            ("a:65536", false, "a", None),
            ("a:99999", false, "a", None),
            ("a:000080", false, "a", None),
            ("a:+80", false, "a", None),
            ("a:8 0", false, "a", None),
            ("a:b", false, "a", None),
            ("a:80:90", false, "a:80", Some(90)),
            ("a b", false, "a b", None),
            ("a@b", false, "a@b", None),
            ("user:pw@b", false, "user", None),
            ("a/b", false, "a/b", None),
            ("a?b", false, "a?b", None),
            ("a#b", false, "a#b", None),
            ("a\\b", false, "a\\b", None),
            ("a%2", false, "a%2", None),
            ("a%zz", false, "a%zz", None),
            ("a<b", false, "a<b", None),
            ("a\tb", false, "a\tb", None),
            ("a\0", false, "a\0", None),
            ("é.org", false, "é.org", None),
            ("::1", false, ":", Some(1)),
            ("[::1", false, "[:", Some(1)),
            ("[::1]x", false, "[::1]x", None),
            ("[::1]:x", false, "[::1]", None),
            ("[fe80::1%25eth0]", false, "[fe80::1%25eth0]", None),
            ("[v1.x]", false, "[v1.x]", None),
            ("[]", false, "[]", None),
            ("[1.2.3.4]", false, "[1.2.3.4]", None),
            (&long, false, &long, None),
        ];
        for (text, valid, host, port) in rows {
            assert_eq!(is_authority(text), *valid, "{text}");
            assert_eq!(host_and_port(text), (*host, *port), "{text}");
        }
    }

    #[test]
    fn targets_are_uri_characters() {
        for byte in 0..=255u8 {
            let expected = usize::from(byte.is_ascii_graphic() && !b"\"<>#".contains(&byte));
            assert_eq!(target_len(&[byte]), expected, "{byte:#x}");
        }
    }

    proptest! {
        #[test]
        fn eight_at_a_time_finds_the_first_control(bytes in prop::collection::vec(prop_oneof![
            8 => 0x20..0x7fu8, 2 => 0x80..=0xffu8, 1 => any::<u8>()
        ], 0..40)) {
            let naive = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
            prop_assert_eq!(text_len(&bytes), naive);
        }

        #[test]
        fn a_list_of_plain_members_is_split_at_commas(text in "[a-c, \t]{0,30}") {
            let trimmed = text.split(',').map(|member| member.trim_matches([' ', '\t']).as_bytes());
            let naive: Vec<_> = trimmed.filter(|member| !member.is_empty()).collect();
            prop_assert_eq!(list([text.as_bytes()]).collect::<Vec<_>>(), naive);
        }

        #[test]
        fn a_host_with_a_port_is_an_authority(host in "[a-z0-9.-]{1,20}", port: u16) {
            let authority = format!("{host}:{port}");
            prop_assert!(is_authority(&authority));
            prop_assert_eq!(host_and_port(&authority), (&*host, Some(port)));
        }
    }
}
