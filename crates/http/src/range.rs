//! Byte ranges (RFC 9110 §14): `select` evaluates `Range` for a size; the other functions write `Content-Range` and
//! the delimiters of `multipart/byteranges`. A request costs one pass over the field and one sort of its ranges.
//! Knows nothing of the bytes.

use std::fmt::Write as _;

use crate::fields::{digits, trim_ows};

/// Parts of one response. zsync asks for 20 ranges in a request, and gives up when it gets the whole file. 100 parts and
/// their heads take less memory than `taipan check` counts for the response of a connection.
pub const MAX_PARTS: usize = 100;

/// Ranges of one field. A field with more is ignored (RFC 9110 §14.2 allows it).
const MAX_RANGES: usize = 256;

/// Bytes `from` to `from + len - 1`: not empty, and within the representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    pub from: u64,
    pub len: u64,
}

/// The parts of the representation to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// 200: the field is ignored.
    Whole,
    /// 206 with `Content-Range`.
    One(ByteRange),
    /// 206 with `multipart/byteranges`: 2 to `MAX_PARTS` ranges, none adjacent to another.
    Many(Vec<ByteRange>),
    /// 416.
    Unsatisfiable,
}

impl ByteRange {
    /// The position after the last byte.
    pub const fn end(self) -> u64 {
        self.from.saturating_add(self.len)
    }
}

/// Evaluates the value of `Range` for a representation of `size` bytes.
///
/// A field with an unknown unit, bad syntax or too many ranges is ignored (§14.2). Ranges that overlap or are
/// adjacent become one, and the order is then ascending; otherwise the order is that of the request (§15.3.7.2). A
/// number beyond 64 bits counts as the largest. A suffix of an empty representation is satisfiable (§14.1.2), but no
/// `Content-Range` can express it, hence `Whole`.
pub fn select(value: &[u8], size: u64) -> Selection {
    let Some(set) = range_set(value) else { return Selection::Whole };
    let mut wanted = Wanted::None;
    let mut members = 0;
    for member in set.split(|&byte| byte == b',').map(trim_ows) {
        members += 1;
        if members > MAX_RANGES {
            return Selection::Whole;
        }
        match (member, range(member, size)) {
            // RFC 9110 §5.6.1.2: a recipient ignores empty members.
            (b"", _) => {}
            (_, Parsed::Ignore) => return Selection::Whole,
            (_, Parsed::Unsatisfiable) => wanted = wanted.and_unsatisfiable(),
            (_, Parsed::Range(range)) => wanted = wanted.and(range),
        }
    }
    match wanted {
        Wanted::None => Selection::Whole,
        Wanted::Unsatisfiable => Selection::Unsatisfiable,
        Wanted::One(range) => Selection::One(range),
        Wanted::Many(ranges) => coalesced(ranges),
    }
}

/// The value of `Content-Range` for one part of `size` bytes: `bytes 0-499/1234`.
pub fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.from, range.end().saturating_sub(1))
}

/// The value of `Content-Range` of a 416: `bytes */1234`.
pub fn unsatisfied(size: u64) -> String {
    format!("bytes */{size}")
}

/// The delimiter and the fields before the bytes of a part (§14.6). `content_type` is that of the representation.
pub fn part_head(boundary: &str, content_type: Option<&str>, range: ByteRange, size: u64) -> String {
    let mut head = format!("\r\n--{boundary}\r\n");
    if let Some(content_type) = content_type {
        // Writing to a `String` cannot fail.
        let _ = write!(head, "Content-Type: {content_type}\r\n");
    }
    let _ = write!(head, "Content-Range: {}\r\n\r\n", content_range(range, size));
    head
}

/// The delimiter after the last part.
pub fn closing(boundary: &str) -> String {
    format!("\r\n--{boundary}--\r\n")
}

/// The ranges so far. `One` avoids an allocation.
enum Wanted {
    None,
    /// Members, but no satisfiable one.
    Unsatisfiable,
    One(ByteRange),
    Many(Vec<ByteRange>),
}

enum Parsed {
    Range(ByteRange),
    Unsatisfiable,
    /// The whole field is ignored.
    Ignore,
}

impl Wanted {
    fn and_unsatisfiable(self) -> Wanted {
        match self {
            Wanted::None => Wanted::Unsatisfiable,
            wanted => wanted,
        }
    }

    fn and(self, range: ByteRange) -> Wanted {
        match self {
            Wanted::None | Wanted::Unsatisfiable => Wanted::One(range),
            Wanted::One(first) => Wanted::Many(vec![first, range]),
            Wanted::Many(mut ranges) => {
                ranges.push(range);
                Wanted::Many(ranges)
            }
        }
    }
}

/// The part after `bytes=`. Range units are case-insensitive (§14.1).
fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// `first-`, `first-last` or `-length` (§14.1.1).
fn range(spec: &[u8], size: u64) -> Parsed {
    let Some(dash) = spec.iter().position(|&byte| byte == b'-') else { return Parsed::Ignore };
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    match (first, digits(first), last, digits(last)) {
        (b"", _, _, Some(0)) => Parsed::Unsatisfiable,
        (b"", _, _, Some(_)) if size == 0 => Parsed::Ignore,
        (b"", _, _, Some(suffix)) => {
            let len = suffix.min(size);
            Parsed::Range(ByteRange { from: size - len, len })
        }
        (_, Some(first), b"", _) => between(first, u64::MAX, size),
        (_, Some(first), _, Some(last)) if first <= last => between(first, last, size),
        _ => Parsed::Ignore,
    }
}

fn between(first: u64, last: u64, size: u64) -> Parsed {
    if first >= size {
        return Parsed::Unsatisfiable;
    }
    Parsed::Range(ByteRange { from: first, len: last.min(size - 1) - first + 1 })
}

fn coalesced(requested: Vec<ByteRange>) -> Selection {
    let mut ascending = requested.clone();
    ascending.sort_unstable_by_key(|range| range.from);
    ascending.dedup_by(|next, before| {
        let is_adjacent = next.from <= before.end();
        if is_adjacent {
            before.len = before.end().max(next.end()) - before.from;
        }
        is_adjacent
    });
    match *ascending {
        [range] => Selection::One(range),
        _ if ascending.len() > MAX_PARTS => Selection::Whole,
        _ if ascending.len() < requested.len() => Selection::Many(ascending),
        _ => Selection::Many(requested),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `whole`, `none`, or the ranges as `from+len`.
    fn shown(selection: &Selection) -> String {
        let one = |range: &ByteRange| format!("{}+{}", range.from, range.len);
        match selection {
            Selection::Whole => "whole".into(),
            Selection::Unsatisfiable => "none".into(),
            Selection::One(range) => one(range),
            Selection::Many(ranges) => ranges.iter().map(one).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn selects_ranges() {
        let check = |value: &str, size: u64, expected: &str| {
            assert_eq!(shown(&select(value.as_bytes(), size)), expected, "{value} of {size}");
        };
        check("bytes=0-499", 1000, "0+500");
        check("bytes=500-999", 1000, "500+500");
        check("bytes=0-0", 1000, "0+1");
        check("bytes=0-", 1000, "0+1000");
        check("bytes=999-", 1000, "999+1");
        check("bytes=500-99999", 1000, "500+500");
        check("bytes=-1", 1000, "999+1");
        check("bytes=-500", 1000, "500+500");
        check("bytes=-5000", 1000, "0+1000");
        check("Bytes=0-1", 1000, "0+2");
        check("bytes=1-99999999999999999999999", 1000, "1+999");
        check("bytes=-99999999999999999999999", 1000, "0+1000");
        check("bytes=0-18446744073709551615", u64::MAX, "0+18446744073709551615");

        check("bytes=1000-", 1000, "none");
        check("bytes=1000-2000", 1000, "none");
        check("bytes=99999999999999999999999-", 1000, "none");
        check("bytes=-0", 1000, "none");
        check("bytes=-0,1000-", 1000, "none");
        check("bytes=0-", 0, "none");
        check("bytes=0-0", 0, "none");
        check("bytes=-0", 0, "none");
        check("bytes=-5", 0, "whole");
        check("bytes=-5,0-", 0, "whole");

        check("bytes=0-0,-1", 1000, "0+1 999+1");
        check("bytes=500-600,601-999", 1000, "500+500");
        check("bytes=500-700,601-999", 1000, "500+500");
        check("bytes=0-9,20-29,10-19", 1000, "0+30");
        check("bytes=20-29,0-9", 1000, "20+10 0+10");
        check("bytes=20-29,0-9,5-9", 1000, "0+10 20+10");
        check("bytes=0-99,10-20,50-60", 1000, "0+100");
        check("bytes=0-0,0-0", 1000, "0+1");
        check("bytes=0-1,1000-,2000-3000", 1000, "0+2");
        check("bytes=5000-,-0,1-2", 1000, "1+2");
        check("bytes= 0-1 ,\t5-6", 1000, "0+2 5+2");
        check("bytes=,0-1,,5-6,", 1000, "0+2 5+2");

        for ignored in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= ",
            "bytes 0-1",
            "bytes =0-1",
            "byte=0-1",
            "seconds=0-1",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=--1",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=0x1-2",
            "bytes=1 -2",
            "bytes=1- 2",
            "bytes=0-1;2-3",
            "bytes=0-1,a",
            "bytes=0-1,2-1",
            "bytes=1000-,x",
            "bytes=0-1-2",
            "bytes=\"0-1\"",
            "bytes=*",
            "bytes=0.5-1",
            "0-1",
            "=0-1",
        ] {
            check(ignored, 1000, "whole");
        }
    }

    #[test]
    fn ignores_fields_with_too_many_ranges() {
        let set = |count: u64, step: u64| {
            let ranges: Vec<_> = (0..count).map(|at| format!("{}-{}", at * step, at * step)).collect();
            format!("bytes={}", ranges.join(","))
        };
        let parts = |value: &str| match select(value.as_bytes(), 1 << 40) {
            Selection::Many(ranges) => ranges.len(),
            Selection::One(_) => 1,
            Selection::Whole | Selection::Unsatisfiable => 0,
        };
        assert_eq!(parts(&set(MAX_PARTS as u64, 2)), MAX_PARTS);
        assert_eq!(parts(&set(MAX_PARTS as u64 + 1, 2)), 0);
        assert_eq!(parts(&set(MAX_RANGES as u64, 1)), 1);
        assert_eq!(parts(&set(MAX_RANGES as u64 + 1, 1)), 0);
        assert_eq!(parts(&format!("bytes={}", "0-,".repeat(5000))), 0);
        assert_eq!(parts(&format!("bytes={}", ",".repeat(5000))), 0);
    }

    #[test]
    fn writes_the_fields_of_parts() {
        let range = ByteRange { from: 5, len: 10 };
        assert_eq!(content_range(range, 100), "bytes 5-14/100");
        assert_eq!(unsatisfied(100), "bytes */100");
        assert_eq!(
            part_head("B", Some("text/plain"), range, 100),
            "\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-14/100\r\n\r\n"
        );
        assert_eq!(part_head("B", None, range, 100), "\r\n--B\r\nContent-Range: bytes 5-14/100\r\n\r\n");
        assert_eq!(closing("B"), "\r\n--B--\r\n");
    }

    /// A map of the requested bytes. `None`: the field is ignored.
    fn naive(specs: &[(Option<u64>, Option<u64>)], size: u64) -> Option<Vec<bool>> {
        let mut bytes = vec![false; size as usize];
        for spec in specs {
            let wanted = |at: u64| match *spec {
                (Some(first), Some(last)) => first <= at && at <= last,
                (Some(first), None) => first <= at,
                (None, Some(suffix)) => at + suffix >= size,
                (None, None) => false,
            };
            match *spec {
                (None, None) => return None,
                (Some(first), Some(last)) if first > last => return None,
                (None, Some(suffix)) if suffix > 0 && size == 0 => return None,
                _ => {}
            }
            (0..size).filter(|at| wanted(*at)).for_each(|at| bytes[at as usize] = true);
        }
        Some(bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn agrees_with_a_map_of_bytes(
            specs in prop::collection::vec(
                (prop::option::weighted(0.8, 0..50u64), prop::option::weighted(0.8, 0..60u64)),
                1..9,
            ),
            size in 0..50u64,
        ) {
            let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
            let spec = |(first, last): &(_, _)| format!("{}-{}", number(*first), number(*last));
            let value: Vec<_> = specs.iter().map(spec).collect();
            let selection = select(format!("bytes={}", value.join(",")).as_bytes(), size);
            let ranges = match &selection {
                Selection::Whole => {
                    prop_assert_eq!(naive(&specs, size), None);
                    return Ok(());
                }
                Selection::Unsatisfiable => vec![],
                Selection::One(range) => vec![*range],
                Selection::Many(ranges) => ranges.clone(),
            };
            let mut selected = vec![0; size as usize];
            for range in &ranges {
                prop_assert!(range.len > 0 && range.end() <= size);
                (range.from..range.end()).for_each(|at| selected[at as usize] += 1);
            }
            // Each requested byte is selected once.
            prop_assert!(selected.iter().all(|times| *times <= 1));
            let map: Vec<_> = selected.iter().map(|times| *times == 1).collect();
            prop_assert_eq!(Some(map.clone()), naive(&specs, size));
            // No two parts are adjacent: each is one run of bytes.
            let runs = map.iter().enumerate().filter(|(at, set)| **set && (*at == 0 || !map[at - 1])).count();
            prop_assert_eq!(ranges.len(), runs);
        }

        #[test]
        fn accepts_or_ignores_any_value(
            value in prop::collection::vec(prop::sample::select(b"bytes=0123456789-, \t\xff".to_vec()), 0..60),
            size: u64,
        ) {
            let mut bytes = b"bytes=".to_vec();
            bytes.extend_from_slice(&value);
            let _ = (select(&value, size), select(&bytes, size));
        }
    }
}
