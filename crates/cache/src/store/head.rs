//! The head of a file: whose response it has, and the checksums that show when a byte of it is not what was written.
//!
//! The file is a prefix of `PREFIX` bytes, the key, the tags, the metadata, and the body. The prefix has a magic number
//! with the version of the format, the checksum of the rest of the head, the length and the checksum of the body, and
//! the lengths of the other parts. Numbers are in network byte order.
//!
//! Knows nothing of what the metadata mean.

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::Hasher;

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"taipanC\x01";
const CHECKSUM: usize = MAGIC.len();
const BODY_LENGTH: usize = CHECKSUM + 16;
const BODY_CHECKSUM: usize = BODY_LENGTH + 8;
const PARTS: usize = BODY_CHECKSUM + 16;
/// Bytes in front of the key.
pub const PREFIX: usize = PARTS + 3 * 4;

/// Bytes of the longest head.
pub const LONGEST: usize = 128 * 1024;

/// What a stored response is found by, and purged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'a> {
    /// The text of its key.
    pub key: &'a [u8],
    /// Separated by spaces.
    pub tags: &'a [u8],
}

/// How the body must be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    pub length: u64,
    pub checksum: u128,
}

/// A head that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    pub label: Label<'a>,
    pub metadata: &'a [u8],
    pub seal: Seal,
    /// Bytes of the head: where the body begins.
    pub length: usize,
}

/// Why the bytes are no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// They may be the start of one that is so long.
    Incomplete(usize),
    /// The file is of another program, or of another version of this one.
    Foreign,
    /// A byte is not what was written.
    Damaged,
}

/// The checksum of a body that arrives in parts.
#[derive(Clone, Default)]
pub struct BodyHasher {
    hasher: Hasher,
    length: u64,
}

impl BodyHasher {
    /// The next bytes of the body.
    pub fn write(&mut self, part: &[u8]) {
        self.hasher.write(part);
        self.length += part.len() as u64;
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The length and the checksum of what has been written so far.
    pub fn seal(&self) -> Seal {
        Seal { length: self.length, checksum: self.hasher.finish_128() }
    }
}

/// The bytes of the head. Its length does not depend on the seal. `None`: it would be too long.
pub fn write(label: Label<'_>, metadata: &[u8], seal: Seal) -> Option<Vec<u8>> {
    let parts = [label.key, label.tags, metadata];
    let length = parts.iter().try_fold(PREFIX, |sum, part| sum.checked_add(part.len()))?;
    if length > LONGEST {
        return None;
    }
    let mut head = Vec::with_capacity(length);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&[0; 16]);
    head.extend_from_slice(&seal.length.to_be_bytes());
    head.extend_from_slice(&seal.checksum.to_be_bytes());
    parts.iter().for_each(|part| head.extend_from_slice(&(part.len() as u32).to_be_bytes()));
    parts.iter().for_each(|part| head.extend_from_slice(part));
    let checksum = XxHash3_128::oneshot(&head[BODY_LENGTH..]);
    head[CHECKSUM..BODY_LENGTH].copy_from_slice(&checksum.to_be_bytes());
    Some(head)
}

/// Reads the head at the start of a file. `bytes` may have a part of the body behind it.
pub fn read(bytes: &[u8]) -> Result<Head<'_>, HeadError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(HeadError::Foreign);
    }
    if bytes.len() < PREFIX {
        return Err(HeadError::Incomplete(PREFIX));
    }
    let part = |n: usize| u32::from_be_bytes(array(bytes, PARTS + 4 * n)) as usize;
    let [key, tags, metadata] = [part(0), part(1), part(2)];
    let length = [key, tags, metadata].iter().try_fold(PREFIX, |sum, n| sum.checked_add(*n));
    let length = length.filter(|length| *length <= LONGEST).ok_or(HeadError::Damaged)?;
    let head = bytes.get(..length).ok_or(HeadError::Incomplete(length))?;
    if XxHash3_128::oneshot(&head[BODY_LENGTH..]) != u128::from_be_bytes(array(head, CHECKSUM)) {
        return Err(HeadError::Damaged);
    }
    let (key, rest) = head[PREFIX..].split_at(key);
    let (tags, metadata) = rest.split_at(tags);
    let seal = Seal {
        length: u64::from_be_bytes(array(head, BODY_LENGTH)),
        checksum: u128::from_be_bytes(array(head, BODY_CHECKSUM)),
    };
    Ok(Head { label: Label { key, tags }, metadata, seal, length })
}

/// `N` of the bytes of a prefix, from `at`.
fn array<const N: usize>(prefix: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&prefix[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label<'_> = Label { key: b"http://a/ b", tags: b"x y" };

    fn seal(parts: &[&[u8]]) -> Seal {
        let mut hasher = BodyHasher::default();
        parts.iter().for_each(|part| hasher.write(part));
        hasher.seal()
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let long = vec![b'k'; 60_000];
        for label in [LABEL, Label { key: b"", tags: b"" }, Label { key: &long, tags: &[0xff, 0] }] {
            for metadata in [&b""[..], b"\0metadata", &long] {
                let seal = seal(&[b"body"]);
                let mut bytes = write(label, metadata, seal).unwrap();
                let length = bytes.len();
                bytes.extend_from_slice(b"body");
                assert_eq!(read(&bytes), Ok(Head { label, metadata, seal, length }));
            }
        }
    }

    #[test]
    fn a_body_has_one_checksum_however_it_is_cut() {
        let body: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let whole = seal(&[&body]);
        for at in [0, 1, 255, 256, 1024, 65_536, 99_999] {
            assert_eq!(seal(&[&body[..at], &body[at..]]), whole, "{at}");
        }
        assert_eq!(whole.checksum, XxHash3_128::oneshot(&body));
        assert_ne!(seal(&[&body[1..]]), whole);
    }

    #[test]
    fn every_changed_bit_of_a_head_is_found() {
        let good = write(LABEL, b"metadata", seal(&[b"body"])).unwrap();
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(read(&bad).is_err(), "bit {at}");
        }
        for cut in 0..good.len() {
            assert!(matches!(read(&good[..cut]), Err(HeadError::Incomplete(n)) if n > cut), "{cut} bytes");
        }
    }

    #[test]
    fn rejects_files_that_do_not_begin_with_a_whole_head() {
        let too_long = [&MAGIC[..], &[0; PARTS - 8], &[0xff; 12]].concat();
        let zeros = [&MAGIC[..], &[0; PREFIX - 8]].concat();
        for (bytes, expected) in [
            (&b"GIF89a"[..], HeadError::Foreign),
            (b"taipanC\x02", HeadError::Foreign),
            (&[0; 4096], HeadError::Foreign),
            (b"taipanC", HeadError::Incomplete(PREFIX)),
            (b"", HeadError::Incomplete(PREFIX)),
            (&too_long, HeadError::Damaged),
            (&zeros, HeadError::Damaged),
        ] {
            assert_eq!(read(bytes), Err(expected), "{}", bytes.escape_ascii());
        }
        assert_eq!(write(Label { key: &vec![0; LONGEST], tags: b"" }, b"", seal(&[])), None);
    }
}
