//! Field blocks over the limit of the connection: they change the table, and nothing is kept of them. They come in
//! parts, so that no part has to be larger than the longest field that the table takes.

use super::{BlockDecoder, FIRST_DYNAMIC, Table, integer, name, string, string_length};
use crate::error::HpackError;

/// Bytes of the Huffman code for a byte, rounded up: the longest has 30 bits.
const BYTES_PER_BYTE: usize = 4;

/// How far a block has been discarded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Discarded {
    /// Bytes of a string that are still to come.
    left: usize,
    /// A value follows, whose field is too long for the table.
    value_follows: bool,
    /// There was a field. No change of the table's size follows one (§4.2).
    has_fields: bool,
    /// The method was HEAD.
    pub is_head: bool,
}

impl Discarded {
    /// Whether it ends at the end of a field.
    pub const fn is_whole(&self) -> bool {
        self.left == 0 && !self.value_follows
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        self.has_fields = true;
        if name == b":method" {
            self.is_head = value == b"HEAD";
        }
    }
}

impl<T: Copy> BlockDecoder<T> {
    /// Takes a part of a block, and returns how many bytes it has taken. The next part begins with the others, of which
    /// there are at most four times as many as the table has.
    pub fn discard(
        &mut self,
        part: &[u8],
        scratch: &mut Vec<u8>,
        discarded: &mut Discarded,
    ) -> Result<usize, HpackError> {
        let longest = BYTES_PER_BYTE * self.table.max_limit;
        let mut rest = part;
        // Bounded: each pass takes at least a byte, or is the last.
        loop {
            let skipped = discarded.left.min(rest.len());
            discarded.left -= skipped;
            rest = &rest[skipped..];
            if rest.is_empty() {
                return Ok(part.len());
            }
            let before = rest;
            let taken = match discarded.value_follows {
                true => string_length(&mut rest).map(|(_, length)| {
                    discarded.left = length;
                    discarded.value_follows = false;
                }),
                false => discard_field(&mut self.table, &mut rest, scratch, discarded),
            };
            match taken {
                Ok(()) => {}
                Err(HpackError::Incomplete) if before.len() < longest => return Ok(part.len() - before.len()),
                Err(HpackError::Incomplete) => {
                    rest = before;
                    begin_long_field(&mut self.table, &mut rest, discarded)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Takes a field, or a change of the table's size.
fn discard_field<T: Copy>(
    table: &mut Table<T>,
    rest: &mut &[u8],
    scratch: &mut Vec<u8>,
    discarded: &mut Discarded,
) -> Result<(), HpackError> {
    let bits = match *rest.first().ok_or(HpackError::Incomplete)? {
        0x80.. => {
            let (_, name, value) = table.get(integer(rest, 7)?)?;
            discarded.note(name, value);
            return Ok(());
        }
        0x40.. => 6,
        0x20.. if discarded.has_fields => return Err(HpackError::Malformed),
        0x20.. => return table.resize(integer(rest, 5)?),
        _ => 4,
    };
    scratch.clear();
    let (_, name) = name(rest, bits, table, scratch)?;
    let value = string(rest, scratch)?;
    let (name, value) = (name.get(scratch), value.get(scratch));
    discarded.note(name, value);
    if bits == 6 {
        table.insert(None, name, value);
    }
    Ok(())
}

/// Takes the first bytes of a literal field that is too long for the table, which it empties if it is to be inserted
/// (§4.4).
fn begin_long_field<T: Copy>(
    table: &mut Table<T>,
    rest: &mut &[u8],
    discarded: &mut Discarded,
) -> Result<(), HpackError> {
    let is_inserted = rest.first().is_some_and(|first| first & 0x40 != 0);
    match integer(rest, if is_inserted { 6 } else { 4 })? {
        0 => discarded.left = string_length(rest)?.1,
        index @ FIRST_DYNAMIC.. => _ = table.get(index)?,
        _ => {}
    }
    if is_inserted {
        table.evict(table.limit + 1);
    }
    discarded.has_fields = true;
    discarded.value_follows = true;
    Ok(())
}
