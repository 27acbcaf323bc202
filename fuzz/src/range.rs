//! Byte ranges. Every part is within the size, no two parts touch, and together they are the requested bytes.

use taipan_http::range::{ByteRange, MAX_PARTS, Selection, content_range, part_head, select, unsatisfied};

use crate::cuts::{first_line, number};

/// Up to this size every byte is checked.
const MAP: u64 = 256;

/// The first line is the size, the rest the value of `Range`.
pub fn range(data: &[u8]) {
    let (size, value) = first_line(data);
    let size: u64 = number(size);
    let selection = select(value, size);
    let ranges = match &selection {
        Selection::Whole | Selection::Unsatisfiable => &[][..],
        Selection::One(range) => std::slice::from_ref(range),
        Selection::Many(ranges) => ranges,
    };
    match &selection {
        Selection::Many(_) => assert!((2..=MAX_PARTS).contains(&ranges.len())),
        Selection::Unsatisfiable => assert_eq!(unsatisfied(size), format!("bytes */{size}")),
        Selection::Whole | Selection::One(_) => {}
    }
    let mut ascending = ranges.to_vec();
    ascending.sort_by_key(|range| range.from);
    assert!(ascending.windows(2).all(|pair| pair[0].end() < pair[1].from), "no two parts touch");
    for range in ranges {
        part(*range, size);
    }
    if size <= MAP {
        as_requested(&selection, ranges, value, size);
    }
}

fn part(range: ByteRange, size: u64) {
    assert!(range.len > 0 && range.from.checked_add(range.len).is_some_and(|end| end <= size));
    let text = content_range(range, size);
    let (ends, whole) = text.strip_prefix("bytes ").and_then(|text| text.split_once('/')).unwrap_or_default();
    let (first, last) = ends.split_once('-').unwrap_or_default();
    assert_eq!([first, last, whole].map(str::parse), [Ok(range.from), Ok(range.end() - 1), Ok(size)]);
    // A request for this part has the same part.
    assert_eq!(select(format!("bytes={ends}").as_bytes(), size), Selection::One(range));
    let head = part_head("b0und", None, range, size);
    assert!(head.starts_with("\r\n--b0und\r\n") && head.ends_with("\r\n\r\n"));
}

fn as_requested(selection: &Selection, ranges: &[ByteRange], value: &[u8], size: u64) {
    let Some(members) = members(value) else {
        assert_eq!(*selection, Selection::Whole);
        return;
    };
    let wanted = |at: u64, (first, last): (Option<u64>, Option<u64>)| match (first, last) {
        (Some(first), last) => first <= at && last.is_none_or(|last| at <= last),
        (None, suffix) => suffix.is_some_and(|suffix| at >= size.saturating_sub(suffix)),
    };
    let requested = |at: &u64| members.iter().any(|member| wanted(*at, *member));
    let sent = |at: &u64| ranges.iter().any(|range| range.from <= *at && *at < range.end());
    match selection {
        // Too many ranges, even if they are empty, or all of an empty file.
        Selection::Whole => assert!(value.split(|byte| *byte == b',').count() > MAX_PARTS || size == 0),
        _ => assert!((0..size).all(|at| requested(&at) == sent(&at))),
    }
}

/// The first and the last byte of each requested range. `None`: not a set of ranges.
fn members(value: &[u8]) -> Option<Vec<(Option<u64>, Option<u64>)>> {
    let value = std::str::from_utf8(value).ok()?;
    let (unit, set) = value.split_once('=')?;
    let all: Option<Vec<_>> = set
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
        .map(member)
        .collect();
    all.filter(|all| unit.eq_ignore_ascii_case("bytes") && !all.is_empty())
}

fn member(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (first, last) = text.split_once('-')?;
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let position = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX));
    let (from, to) = (position(first), position(last));
    let ordered = from.is_none_or(|from| to.is_none_or(|to| from <= to));
    let valid = all_digits(first) && all_digits(last) && (from.is_some() || to.is_some()) && ordered;
    valid.then_some((from, to))
}
