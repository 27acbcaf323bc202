//! Name-value pairs of FastCGI (§3.4): two lengths of one or four bytes each, then name and value.

use std::fmt;

/// The largest length of one byte.
const SHORT: u8 = 0x7f;

/// The top bit marks a length of four bytes.
const LONG: u32 = 1 << 31;

/// The input ends inside a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PairCut;

/// The pairs of a complete stream or record, in order. An error is the last item.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

/// Appends a pair. Name and value are shorter than 2 GiB.
#[inline]
pub fn encode(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode_lengths(name.len(), value.len(), out);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Appends the two lengths, which stand before the name and the value.
#[inline]
pub(crate) fn encode_lengths(name: usize, value: usize, out: &mut Vec<u8>) {
    if let (Ok(name @ 0..=SHORT), Ok(value @ 0..=SHORT)) = (u8::try_from(name), u8::try_from(value)) {
        out.extend_from_slice(&[name, value]);
        return;
    }
    for len in [name, value] {
        match u8::try_from(len) {
            Ok(len @ 0..=SHORT) => out.push(len),
            _ => out.extend_from_slice(&(len as u32 | LONG).to_be_bytes()),
        }
    }
}

/// Reads name-value pairs up to the end of `bytes`, or up to the first that is incomplete, which is an error.
pub const fn decode(bytes: &[u8]) -> Pairs<'_> {
    Pairs { rest: bytes }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), PairCut>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = pair(self.rest);
        self.rest = found.map_or(b"", |(_, _, rest)| rest);
        Some(found.map(|(name, value, _)| (name, value)).ok_or(PairCut))
    }
}

fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name_len, bytes) = length(bytes)?;
    let (value_len, bytes) = length(bytes)?;
    let (name, bytes) = bytes.split_at_checked(name_len)?;
    let (value, rest) = bytes.split_at_checked(value_len)?;
    Some((name, value, rest))
}

/// A length of four bytes may be below 128.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [len @ 0..=0x7f, rest @ ..] => Some((usize::from(*len), rest)),
        [a, b, c, d, rest @ ..] => {
            let len = u32::from_be_bytes([*a, *b, *c, *d]) & !LONG;
            Some((usize::try_from(len).ok()?, rest))
        }
        _ => None,
    }
}

impl fmt::Display for PairCut {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("the name-value pairs end inside a pair")
    }
}

impl std::error::Error for PairCut {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decodes_short_and_long_lengths() {
        type Pair<'a> = Result<(&'a [u8], &'a [u8]), PairCut>;
        let check = |bytes: &[u8], expected: &[Pair]| {
            assert_eq!(decode(bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
        };
        check(b"", &[]);
        check(b"\0\0", &[Ok((b"", b""))]);
        check(b"\x01\x02abc", &[Ok((b"a", b"bc"))]);
        check(b"\x01\0a\0\x01b", &[Ok((b"a", b"")), Ok((b"", b"b"))]);
        check(b"\x80\0\0\x01\x01ab", &[Ok((b"a", b"b"))]);
        check(b"\x01\x80\0\0\x02abc", &[Ok((b"a", b"bc"))]);
        let long = [&b"\x80\0\0\x80\0"[..], &[b'n'; 128]].concat();
        check(&long, &[Ok((&[b'n'; 128], b""))]);
    }

    #[test]
    fn reports_an_incomplete_pair_once() {
        for bytes in [
            &b"\x01"[..],
            b"\x01\x01",
            b"\x01\x01a",
            b"\x80\0\0\x01",
            b"\x80\0\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xffab",
            b"\x01\xff\xff\xff\xffab",
        ] {
            assert_eq!(decode(bytes).collect::<Vec<_>>(), [Err(PairCut)], "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn decodes_what_it_encodes(pairs in prop::collection::vec((0usize..300, 0usize..300), 0..5)) {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (vec![b'n'; *name], vec![b'v'; *value])).collect();
            let mut bytes = Vec::new();
            pairs.iter().for_each(|(name, value)| encode(name, value, &mut bytes));
            let found: Vec<_> = decode(&bytes).map(|pair| pair.map(|(name, value)| (name.to_vec(), value.to_vec()))).collect();
            prop_assert_eq!(found, pairs.into_iter().map(Ok).collect::<Vec<_>>());
        }
    }
}
