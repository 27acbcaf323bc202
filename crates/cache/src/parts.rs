//! Parts of a body whose size is known: what of it is there, what is missing, and how parts become a whole (RFC 9111
//! §3.3 and §3.4). Knows nothing of what the parts belong to.

use taipan_http::etag::is_entity_tag;
use taipan_http::fields::digits;
use taipan_http::range::ByteRange;

use crate::fields::{Field, only};

/// Bytes of a body, in separate parts in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    size: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

/// Separate parts of one body.
const MOST: usize = 64;

impl Parts {
    /// `None`: the bytes are no part of so many bytes.
    pub fn new(size: u64, from: u64, bytes: Vec<u8>) -> Option<Parts> {
        let end = from.checked_add(bytes.len() as u64)?;
        (!bytes.is_empty() && end <= size).then(|| Parts { size, parts: vec![(from, bytes)] })
    }

    /// Bytes of the whole body.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are there.
    pub fn stored(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// With another part. `None`: they are parts of different bodies, or too many, or have more than `most` bytes.
    pub fn with(&self, other: &Parts, most: u64) -> Option<Parts> {
        let mut all = self.clone();
        for (from, bytes) in &other.parts {
            all.add(*from, bytes);
        }
        let fits = self.size == other.size && all.parts.len() <= MOST && all.stored() <= most;
        fits.then_some(all)
    }

    /// Parts that overlap or are adjacent become one.
    fn add(&mut self, from: u64, bytes: &[u8]) {
        let end_of = |from: u64, bytes: &[u8]| from + bytes.len() as u64;
        let (touching, mut others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.parts)
            .into_iter()
            .partition(|(other, known)| *other <= end_of(from, bytes) && from <= end_of(*other, known));
        let first = touching.iter().map(|(other, _)| *other).chain([from]).min().unwrap_or(from);
        let ends = touching.iter().map(|(other, known)| end_of(*other, known));
        let last = ends.chain([end_of(from, bytes)]).max().unwrap_or(first);
        let mut merged = vec![0; (last - first) as usize];
        for (other, known) in touching.iter().map(|(from, known)| (*from, &known[..])).chain([(from, bytes)])
        {
            let at = (other - first) as usize;
            merged[at..at + known.len()].copy_from_slice(known);
        }
        others.push((first, merged));
        sort::by_key(&mut others, |(from, _)| *from);
        self.parts = others;
    }

    /// The bytes of a range, if all of them are there.
    pub fn get(&self, ByteRange { from, len }: ByteRange) -> Option<&[u8]> {
        self.parts.iter().find_map(|(first, bytes)| {
            let start = usize::try_from(from.checked_sub(*first)?).ok()?;
            bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
        })
    }

    /// What is missing, if it is one range.
    pub fn missing(&self) -> Option<ByteRange> {
        let starts = self.parts.iter().map(|(from, _)| *from).chain([self.size]);
        let ends = [0].into_iter().chain(self.parts.iter().map(|(from, bytes)| from + bytes.len() as u64));
        let mut gaps = ends.zip(starts).filter(|(end, start)| end < start);
        let (from, end) = gaps.next()?;
        gaps.next().is_none().then_some(ByteRange { from, len: end - from })
    }

    /// The whole body, if nothing is missing.
    pub fn whole(&self) -> Option<&[u8]> {
        self.get(ByteRange { from: 0, len: self.size })
    }
}

/// The value of `Range` for the missing bytes of a body of `size` bytes.
pub fn range(missing: ByteRange, size: u64) -> String {
    match missing.end() == size {
        true => format!("bytes={}-", missing.from),
        false => format!("bytes={}-{}", missing.from, missing.end() - 1),
    }
}

/// The range that `Content-Range` names, and the size of the whole. `None`: it names none, or not these `length` bytes.
pub fn content_range(value: &[u8], length: u64) -> Option<(ByteRange, u64)> {
    let value = std::str::from_utf8(value).ok()?;
    let (unit, rest) = value.split_once(' ')?;
    let (range, size) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| digits(text.as_bytes()).filter(|number| *number < u64::MAX);
    let (from, last, size) = (number(first)?, number(last)?, number(size)?);
    let len = last.checked_sub(from)? + 1;
    (unit.eq_ignore_ascii_case("bytes") && last < size && len == length)
        .then_some((ByteRange { from, len }, size))
}

/// The strong validator by which parts can be combined.
pub fn strong_etag(fields: &[Field]) -> Option<&[u8]> {
    only(fields, "etag").filter(|tag| is_entity_tag(tag) && !tag.starts_with(b"W/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &[u8] = b"0123456789";

    fn part(from: usize, end: usize) -> Parts {
        Parts::new(10, from as u64, WHOLE[from..end].to_vec()).unwrap()
    }

    #[test]
    fn parts_become_a_whole() {
        let first = part(0, 3);
        assert_eq!(first.missing(), Some(ByteRange { from: 3, len: 7 }));
        let both = first.with(&part(6, 10), 100).unwrap();
        assert_eq!((both.stored(), both.missing()), (7, Some(ByteRange { from: 3, len: 3 })));
        assert_eq!(
            (both.get(ByteRange { from: 7, len: 2 }), both.get(ByteRange { from: 2, len: 2 })),
            (Some(&b"78"[..]), None)
        );
        assert_eq!(both.whole(), None);
        let all = both.with(&part(2, 7), 100).unwrap();
        assert_eq!((all.whole(), all.missing()), (Some(WHOLE), None));
        assert_eq!(part(4, 5).missing(), None);
        assert_eq!(first.with(&part(6, 10), 6), None);
        assert_eq!(first.with(&Parts::new(11, 6, b"6".to_vec()).unwrap(), 100), None);
        assert_eq!(Parts::new(10, 8, b"890".to_vec()), None);
        assert_eq!(Parts::new(10, u64::MAX, b"8".to_vec()), None);
        assert_eq!(Parts::new(10, 8, Vec::new()), None);
    }

    #[test]
    fn a_range_and_a_length_have_to_agree() {
        let check = |value: &str, length, expected: Option<(u64, u64, u64)>| {
            let expected = expected.map(|(from, len, size)| (ByteRange { from, len }, size));
            assert_eq!(content_range(value.as_bytes(), length), expected, "{value} {length}");
        };
        check("bytes 0-4/10", 5, Some((0, 5, 10)));
        check("BYTES 5-9/10", 5, Some((5, 5, 10)));
        check("bytes 4-9/10", 5, None);
        check("bytes 5-4/10", 0, None);
        check("bytes 5-10/10", 6, None);
        check("bytes 0-4/*", 5, None);
        check("bytes */10", 5, None);
        check("items 0-4/10", 5, None);
        check("bytes 0-4", 5, None);
        check("bytes +0-4/10", 5, None);
        check("bytes 0-18446744073709551615/18446744073709551615", 5, None);
        assert_eq!(range(ByteRange { from: 5, len: 5 }, 10), "bytes=5-");
        assert_eq!(range(ByteRange { from: 5, len: 4 }, 10), "bytes=5-8");
    }

    proptest! {
        #[test]
        fn in_any_order_and_however_they_overlap_they_are_the_same_bytes(cuts in prop::collection::vec((0usize..10, 1usize..6), 1..12)) {
            let mut all: Option<Parts> = None;
            let mut known = [false; 10];
            for (from, len) in cuts {
                let end = (from + len).min(10);
                known[from..end].fill(true);
                all = Some(match all {
                    Some(parts) => parts.with(&part(from, end), 10).unwrap(),
                    None => part(from, end),
                });
            }
            let all = all.unwrap();
            prop_assert_eq!(all.stored(), known.iter().filter(|known| **known).count() as u64);
            for from in 0..10usize {
                for end in from + 1..=10 {
                    let range = ByteRange { from: from as u64, len: (end - from) as u64 };
                    let expected = known[from..end].iter().all(|known| *known).then_some(&WHOLE[from..end]);
                    prop_assert_eq!(all.get(range), expected);
                }
            }
        }
    }
}
