//! The syntax of field values (RFC 9110 §5.6): tokens, optional whitespace, lists and numbers, and the authority (RFC
//! 3986 §3.2). Knows nothing of the meaning of a field.

use std::net::Ipv6Addr;

/// Bytes of a host. A DNS name has at most 253, and a final dot (RFC 1035 §2.3.4).
const MAX_HOST: usize = 255;

/// Iterates over the members of a comma-separated list in all lines of a field, without surrounding whitespace and
/// without empty members (RFC 9110 §5.6.1.2). A comma in a quoted string does not separate. An unclosed quote extends
/// to the end of its line.
#[derive(Debug, Clone)]
pub struct List<'a, Lines> {
    lines: Lines,
    rest: &'a [u8],
}

/// The members of a list field. `values` are the values of its lines, in order.
pub fn list<'a, Lines>(values: Lines) -> List<'a, Lines::IntoIter>
where
    Lines: IntoIterator<Item = &'a [u8]>,
{
    List { lines: values.into_iter(), rest: b"" }
}

impl<'a, Lines: Iterator<Item = &'a [u8]>> Iterator for List<'a, Lines> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // Bounded: each pass takes a line or at least a byte of it.
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

/// The position of the first `wanted` outside a quoted string (RFC 9110 §5.6.4).
pub fn unquoted(bytes: &[u8], wanted: u8) -> Option<usize> {
    // The fast path: most lists have no quotes.
    let first = bytes.iter().position(|&byte| byte == wanted || byte == b'"')?;
    match bytes[first] == wanted {
        true => Some(first),
        false => unquoted_from(first, bytes, wanted),
    }
}

/// As `unquoted`. Before `first` there is neither a quote nor `wanted`.
fn unquoted_from(first: usize, bytes: &[u8], wanted: u8) -> Option<usize> {
    #[derive(Clone, Copy)]
    enum Within {
        Text,
        Quotes,
        Escape,
    }
    let mut within = Within::Text;
    let found = bytes[first..].iter().position(|&byte| {
        let found = matches!(within, Within::Text) && byte == wanted;
        within = match (within, byte) {
            (Within::Text, b'"') => Within::Quotes,
            (Within::Text, _) | (Within::Quotes, b'"') => Within::Text,
            (Within::Quotes, b'\\') => Within::Escape,
            (Within::Quotes | Within::Escape, _) => Within::Quotes,
        };
        found
    })?;
    Some(first + found)
}

/// RFC 9110 §5.6.2. An empty string is not a token.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_len(bytes) == bytes.len()
}

/// A field name of HTTP/2: a token without upper-case letters (RFC 9113 §8.2).
pub fn is_lowercase_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && span(bytes, LOWERCASE) == bytes.len()
}

/// Whether no program takes this field name for another one: letters, digits and hyphens only.
pub fn is_plain_name(bytes: &[u8]) -> bool {
    span(bytes, PLAIN) == bytes.len()
}

/// A field value: no control characters but HTAB, and no whitespace at its ends (RFC 9110 §5.5, RFC 9113 §8.2.1).
pub fn is_value(bytes: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let mut len = text_len(bytes);
    // Bounded: each pass takes at least a byte.
    while let Some(b'\t') = bytes.get(len) {
        len += 1 + text_len(&bytes[len + 1..]);
    }
    len == bytes.len() && !blank(bytes.first()) && !blank(bytes.last())
}

/// Compares `name` with `known` without regard to case. `known` has letters, digits and hyphens only. The comparison is
/// by words of eight bytes, because the parser makes it for every field of every head.
#[inline]
pub fn is_name(name: &[u8], known: &str) -> bool {
    let known = known.as_bytes();
    // Of letters, digits and hyphens, only letters have bit 6. Bit 5 of a letter is its case.
    let case = |known: u64| (known >> 1) & (ONES * 0x20);
    let same = |bytes: u64, known: u64| (bytes ^ known) & !case(known) == 0;
    let same_words =
        |bytes: &[u8; 8], known: &[u8; 8]| same(u64::from_le_bytes(*bytes), u64::from_le_bytes(*known));
    if name.len() != known.len() {
        return false;
    }
    match (name.last_chunk(), known.last_chunk()) {
        // The last word may overlap the one before it.
        (Some(end), Some(known_end)) => {
            let words = name.as_chunks().0.iter().zip(known.as_chunks().0);
            same_words(end, known_end) && words.into_iter().all(|(bytes, known)| same_words(bytes, known))
        }
        _ => name.iter().zip(known).all(|(byte, known)| same((*byte).into(), (*known).into())),
    }
}

/// The number of leading token characters.
pub fn token_len(bytes: &[u8]) -> usize {
    span(bytes, TOKEN)
}

/// The number of leading characters of a request target: visible ASCII without `"`, `<`, `>` and `#` (RFC 3986 §2 and
/// appendix C). ``\ ^ ` { | }`` count, although they are not URI characters: browsers send them raw in a query
/// (WHATWG URL standard).
pub fn target_len(bytes: &[u8]) -> usize {
    span(bytes, TARGET)
}

/// As `target_len`, up to the first question mark.
pub(crate) fn target_path_len(bytes: &[u8]) -> usize {
    span(bytes, TARGET_PATH)
}

/// The number of leading characters of a path segment that need no decoding: printable ASCII without `/`, `\` and
/// `%`.
pub(crate) fn segment_len(bytes: &[u8]) -> usize {
    span(bytes, SEGMENT)
}

/// The number of leading bytes that are not control characters: field content except HTAB (RFC 9110 §5.5). Checks
/// eight bytes at a time, because most of a head is values.
pub fn text_len(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    let mut len = 0;
    for word in words {
        let stops = controls(u64::from_le_bytes(*word));
        if stops != 0 {
            return len + (stops.trailing_zeros() / 8) as usize;
        }
        len += word.len();
    }
    len + tail.iter().position(u8::is_ascii_control).unwrap_or(tail.len())
}

/// Removes spaces and tabs at both ends (RFC 9110 §5.6.3).
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Parses a weight such as `0`, `0.5` or `1.000` into thousandths (RFC 9110 §12.4.2).
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

/// Parses `1*DIGIT`, as in `Content-Length` and ranges. A number beyond 64 bits becomes `u64::MAX`; see also
/// `exact_digits`.
pub fn digits(bytes: &[u8]) -> Option<u64> {
    let append = |number: u64, digit: &u8| match digit {
        b'0'..=b'9' => Some(number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
        _ => None,
    };
    bytes.iter().try_fold(0, append).filter(|_| !bytes.is_empty())
}

/// As `digits`, but `None` for a number beyond 64 bits.
pub fn exact_digits(bytes: &[u8]) -> Option<u64> {
    let number = digits(bytes)?;
    match number {
        u64::MAX => std::str::from_utf8(bytes).ok()?.parse().ok(),
        number => Some(number),
    }
}

/// A host without port (RFC 3986 §3.2.2): a registered name, an IPv4 address or `[IPv6]`, not empty
/// (RFC 9110 §4.2.1). Narrower than RFC 3986, as programs disagree about the rest: no `IPvFuture`, no zone, at most
/// 255 bytes.
pub fn is_host(host: &str) -> bool {
    match host.as_bytes() {
        [] => false,
        [b'[', ..] => host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        name => name.len() <= MAX_HOST && is_escaped_host(name),
    }
}

/// `host [":" port]` (RFC 9110 §7.2). The port may be empty (RFC 3986 §3.2.3) and is at most 65535. User information
/// is an error (RFC 9110 §4.2.4).
pub fn is_authority(authority: &[u8]) -> bool {
    let (name, rest) = authority.split_at(span(authority, HOST));
    match (name.len(), rest) {
        (1..=MAX_HOST, []) => true,
        (1..=MAX_HOST, [b':', port @ ..]) => is_port(port),
        _ => std::str::from_utf8(authority).is_ok_and(is_unusual_authority),
    }
}

/// The authorities with brackets or escapes.
#[cold]
fn is_unusual_authority(authority: &str) -> bool {
    let (host, port) = split_port(authority);
    is_host(host) && port.is_none_or(|port| is_port(port.as_bytes()))
}

/// Splits an authority. The host keeps its case and its brackets. If `is_authority` is false, the first part is
/// everything before the last colon.
pub fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let (host, port) = split_port(authority);
    (host, port.and_then(|port| port_number(port.as_bytes())))
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // The last colon of `[::1]` is inside the brackets.
    match authority.bytes().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority.as_bytes()[at] == b':' => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    }
}

fn is_port(port: &[u8]) -> bool {
    port.is_empty() || port_number(port).is_some()
}

/// At most five digits.
pub(crate) fn port_number(port: &[u8]) -> Option<u16> {
    if !(1..=5).contains(&port.len()) {
        return None;
    }
    let mut number = 0;
    for byte in port {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u32::from(byte - b'0');
    }
    u16::try_from(number).ok()
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

/// Sets the top bit of every byte that is below 0x20 or equal to 0x7F. The result is exact up to the first such byte,
/// which is enough: a borrow changes only the bytes above it.
const fn controls(word: u64) -> u64 {
    const TOPS: u64 = ONES * 0x80;
    let below_space = word.wrapping_sub(ONES * 0x20);
    // Adding one carries into the eighth bit, and no further, if the lower seven are set.
    let is_delete = (word & !TOPS) + ONES;
    (below_space | is_delete) & !word & TOPS
}

/// Eight bytes of value 1.
const ONES: u64 = u64::MAX / 255;

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const TARGET: u8 = 4;
const TARGET_PATH: u8 = 8;
const SEGMENT: u8 = 16;
const LOWERCASE: u8 = 32;
const PLAIN: u8 = 64;

/// The number of leading bytes of `class`. The inner loop over eight bytes is unrolled. Never inlined: after a system
/// call the caches are cold, and one shared copy of the code costs less than the calls.
#[inline(never)]
fn span(bytes: &[u8], class: u8) -> usize {
    let (eights, tail) = bytes.as_chunks::<8>();
    let mut len = 0;
    for eight in eights {
        if let Some(at) = first_outside(eight, class) {
            return len + at;
        }
        len += eight.len();
    }
    len + first_outside(tail, class).unwrap_or(tail.len())
}

#[inline(always)]
fn first_outside(bytes: &[u8], class: u8) -> Option<usize> {
    bytes.iter().position(|&byte| CLASSES[usize::from(byte)] & class == 0)
}

/// The classes of each byte.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let mark = byte as u8;
        if mark.is_ascii_alphanumeric() {
            classes[byte] = TOKEN | HOST | PLAIN;
        }
        if mark.is_ascii_lowercase() || mark.is_ascii_digit() {
            classes[byte] |= LOWERCASE;
        }
        if mark.is_ascii_graphic() && !matches!(mark, b'"' | b'<' | b'>' | b'#') {
            classes[byte] |= TARGET;
        }
        if classes[byte] & TARGET != 0 && mark != b'?' {
            classes[byte] |= TARGET_PATH;
        }
        if matches!(mark, b' '..=b'~') && !matches!(mark, b'/' | b'\\' | b'%') {
            classes[byte] |= SEGMENT;
        }
        byte += 1;
    }
    classes = with(classes, b"!#$%&'*+-.^_`|~", TOKEN | LOWERCASE);
    classes = with(classes, b"-", PLAIN);
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
mod tests;
