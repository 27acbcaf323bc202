//! DER (X.690), as far as public keys need it: elements with a tag and a length.

/// The tags of elements (X.690 §8.1.2).
const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OBJECT: u8 = 0x06;
pub const SEQUENCE: u8 = 0x30;

/// What is left of an element's content.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The content of the one element that the bytes are.
    pub fn only(bytes: &'a [u8], tag: u8) -> Option<Self> {
        let mut reader = Self(bytes);
        let content = reader.take(tag)?;
        reader.0.is_empty().then_some(Self(content))
    }

    /// The content of the next element, if it has this tag.
    pub fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let rest = self.0.strip_prefix(&[tag])?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // The length is in as few bytes as it needs: one, or two. Keys have fewer than 65536 bytes.
            0x81 => {
                (rest.first().map(|&byte| usize::from(byte)).filter(|&length| length >= 0x80)?, &rest[1..])
            }
            0x82 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes(*bytes)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }

    /// The content of the next element, if it is a SEQUENCE.
    pub fn sequence(&mut self) -> Option<Self> {
        self.take(SEQUENCE).map(Self)
    }

    /// A positive integer, without the zero that makes it positive.
    pub fn positive(&mut self) -> Option<&'a [u8]> {
        match self.take(INTEGER)? {
            [0, rest @ ..] if rest.first().is_some_and(|&byte| byte >= 0x80) => Some(rest),
            integer @ [1..=0x7f, ..] => Some(integer),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_elements_and_nothing_else() {
        let table: [(&[u8], Option<&[u8]>); 9] = [
            (&[0x30, 2, 5, 6], Some(&[5, 6])),
            (&[0x30, 0], Some(&[])),
            (&[0x30, 2, 5], None),
            (&[0x30, 1, 5, 6], None),
            (&[0x31, 0], None),
            (&[0x30, 0x80, 0, 0], None),
            (&[0x30, 0x81, 1, 5], None),
            (&[0x30, 0x83, 0, 0, 1, 5], None),
            (&[0x30], None),
        ];
        for (bytes, expected) in table {
            assert_eq!(Reader::only(bytes, SEQUENCE).map(|reader| reader.0), expected, "{bytes:?}");
        }
        let long = [&[0x30, 0x81, 0x80][..], &[7; 128]].concat();
        assert_eq!(Reader::only(&long, SEQUENCE).map(|reader| reader.0.len()), Some(128));
        let longer = [&[0x30, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(Reader::only(&longer, SEQUENCE).map(|reader| reader.0.len()), Some(256));
        for cut in [0, 1, 2, 3, 200] {
            assert!(Reader::only(&longer[..cut], SEQUENCE).is_none());
        }
        for (bytes, expected) in
            [(&[2, 1, 5][..], Some(&[5_u8][..])), (&[2, 2, 0, 0x80], Some(&[0x80])), (&[2, 1, 0x80], None)]
        {
            assert_eq!(Reader(bytes).positive(), expected);
        }
        assert!(Reader(&[2, 2, 0, 5]).positive().is_none() && Reader(&[2, 0]).positive().is_none());
    }
}
