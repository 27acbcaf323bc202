//! HPACK, the compression of field blocks (RFC 7541, whose sections the comments name). The decoder has the dynamic
//! table of one direction of a connection. The functions that write fields have none: the caller knows which fields
//! it has put into the peer's table.

mod discard;

use std::collections::VecDeque;

use crate::error::HpackError;
use crate::huffman;

pub(crate) use self::discard::Discarded;

/// The default of SETTINGS_HEADER_TABLE_SIZE, in bytes.
pub const TABLE_SIZE: usize = 4096;
/// Overhead of an entry (§4.1), and of a field in a header list (RFC 9113 §6.5.2), in bytes.
const OVERHEAD: usize = 32;
const STATIC_ENTRIES: usize = 61;
/// The index of the newest entry of the dynamic table (§2.3.3).
pub const FIRST_DYNAMIC: usize = STATIC_ENTRIES + 1;

/// Decodes the field blocks of one direction of a connection, in order.
#[derive(Debug)]
pub struct Decoder {
    blocks: BlockDecoder<()>,
    scratch: Vec<u8>,
}

/// As `Decoder`. The table has a value of type `T` for each entry: what the caller has found out about that field,
/// which is the same whenever it is used.
#[derive(Debug)]
pub(crate) struct BlockDecoder<T> {
    table: Table<T>,
    max_list: usize,
}

/// A name or a value.
#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Borrowed(&'a [u8]),
    /// From and to these positions of the scratch buffer.
    Scratch(usize, usize),
}

impl<'a> Text<'a> {
    fn get<'s>(self, scratch: &'s [u8]) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Text::Borrowed(bytes) => bytes,
            Text::Scratch(from, to) => &scratch[from..to],
        }
    }
}

/// Where a field is from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<T> {
    /// From the table, with what the caller has found out about it.
    Known(T),
    /// Name and value are those at this index of the static table.
    Static(usize),
    /// The name is that at this index of the static table.
    StaticName(usize),
    Literal,
}

impl Decoder {
    /// `max_table` is the announced SETTINGS_HEADER_TABLE_SIZE and `max_list` SETTINGS_MAX_HEADER_LIST_SIZE, in
    /// bytes.
    pub const fn new(max_table: usize, max_list: usize) -> Decoder {
        Decoder { blocks: BlockDecoder::new(max_table, max_list), scratch: Vec::new() }
    }

    /// Decodes a whole block and calls `field` with each name and value. After an error of `field`, and after a list
    /// that is too large, it decodes the rest without `field`, because later blocks need the table.
    pub fn decode<E: From<HpackError>>(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.blocks.decode(block, &mut self.scratch, |_, name, value| field(name, value))
    }
}

impl<T: Copy> BlockDecoder<T> {
    /// As `Decoder::new`.
    pub const fn new(max_table: usize, max_list: usize) -> BlockDecoder<T> {
        BlockDecoder { table: Table::new(max_table), max_list }
    }

    /// As `Decoder::decode`. `field` also gets where the field is from, and returns what the table keeps about it.
    /// `scratch` is for strings that cannot be borrowed from the block or the static table.
    pub fn decode<E: From<HpackError>>(
        &mut self,
        block: &[u8],
        scratch: &mut Vec<u8>,
        mut field: impl FnMut(Source<T>, &[u8], &[u8]) -> Result<T, E>,
    ) -> Result<(), E> {
        let BlockDecoder { table, max_list } = self;
        let mut rest = block;
        let (mut result, mut list) = (Ok(()), 0);
        let mut emit = |source: Source<T>, name: &[u8], value: &[u8]| {
            list += name.len() + value.len() + OVERHEAD;
            if list > *max_list && result.is_ok() {
                result = Err(HpackError::ListTooLarge.into());
            }
            if result.is_err() {
                return None;
            }
            match field(source, name, value) {
                Ok(found) => Some(found),
                Err(error) => {
                    result = Err(error);
                    None
                }
            }
        };
        // §4.2: a change of the table's size precedes all fields.
        while let Some(0x20..0x40) = rest.first() {
            table.resize(integer(&mut rest, 5).map_err(HpackError::at_end)?)?;
        }
        // Bounded: each pass takes at least a byte.
        while let Some(&first) = rest.first() {
            let bits = match first {
                0x80.. => {
                    let index = integer(&mut rest, 7).map_err(HpackError::at_end)?;
                    let (source, name, value) = table.get(index)?;
                    emit(source, name, value);
                    continue;
                }
                0x40.. => 6,
                0x20.. => return Err(HpackError::Malformed.into()),
                _ => 4,
            };
            scratch.clear();
            let (source, name) = name(&mut rest, bits, table, scratch).map_err(HpackError::at_end)?;
            let value = string(&mut rest, scratch).map_err(HpackError::at_end)?;
            let (name, value) = (name.get(scratch), value.get(scratch));
            let found = emit(source, name, value);
            if bits == 6 {
                table.insert(found, name, value);
            }
        }
        result
    }

    /// Gives up the memory of evicted entries.
    pub fn trim(&mut self) {
        self.table.compact();
        self.table.bytes.shrink_to_fit();
        self.table.entries.shrink_to_fit();
    }
}

/// Takes the name of a literal field: an index or a string (§6.2).
fn name<'a, T: Copy>(
    rest: &mut &'a [u8],
    bits: u32,
    table: &Table<T>,
    scratch: &mut Vec<u8>,
) -> Result<(Source<T>, Text<'a>), HpackError> {
    match integer(rest, bits)? {
        0 => Ok((Source::Literal, string(rest, scratch)?)),
        index @ 1..FIRST_DYNAMIC => {
            Ok((Source::StaticName(index), Text::Borrowed(STATIC[index - 1].0.as_bytes())))
        }
        // The entry may be evicted before its name is inserted again.
        index => {
            let name = table.get(index)?.1;
            scratch.extend_from_slice(name);
            Ok((Source::Literal, Text::Scratch(0, name.len())))
        }
    }
}

/// The dynamic table (§2.3.2). All names and values are in one buffer, from the oldest to the newest.
#[derive(Debug)]
struct Table<T> {
    bytes: Vec<u8>,
    /// From the newest to the oldest.
    entries: VecDeque<Entry<T>>,
    /// Bytes at the start of the buffer whose entries are evicted.
    evicted: usize,
    /// The sum of the sizes of the entries (§4.1).
    size: usize,
    /// The maximum size now (§4.2).
    limit: usize,
    /// The value of SETTINGS_HEADER_TABLE_SIZE, which bounds `limit`.
    max_limit: usize,
}

/// A field with its name and its value.
type Found<'a, T> = (Source<T>, &'a [u8], &'a [u8]);

#[derive(Debug, Clone, Copy)]
struct Entry<T> {
    start: u32,
    name: u16,
    value: u16,
    found: Option<T>,
}

impl<T: Copy> Entry<T> {
    const fn length(self) -> usize {
        self.name as usize + self.value as usize
    }
}

impl<T: Copy> Table<T> {
    const fn new(max_limit: usize) -> Table<T> {
        assert!(max_limit <= u16::MAX as usize, "lengths of names and values have 16 bits");
        Table {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            evicted: 0,
            size: 0,
            limit: max_limit,
            max_limit,
        }
    }

    /// The entry at an index of the static and the dynamic table (§2.3.3).
    fn get(&self, index: usize) -> Result<Found<'_, T>, HpackError> {
        if let Some(index) = index.checked_sub(FIRST_DYNAMIC) {
            let entry = self.entries.get(index).ok_or(HpackError::Malformed)?;
            let bytes = &self.bytes[entry.start as usize..][..entry.length()];
            let (name, value) = bytes.split_at(entry.name.into());
            return Ok((entry.found.map_or(Source::Literal, Source::Known), name, value));
        }
        let (name, value) = STATIC.get(index.wrapping_sub(1)).ok_or(HpackError::Malformed)?;
        Ok((Source::Static(index), name.as_bytes(), value.as_bytes()))
    }

    /// A field larger than the table empties it (§4.4).
    fn insert(&mut self, found: Option<T>, name: &[u8], value: &[u8]) {
        let length = name.len() + value.len();
        self.evict(length + OVERHEAD);
        if length + OVERHEAD > self.limit {
            return;
        }
        if self.bytes.len() + length > self.max_limit {
            self.compact();
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        let (name, value) = (name.len() as u16, value.len() as u16);
        self.entries.push_front(Entry { start, name, value, found });
        self.size += length + OVERHEAD;
    }

    fn resize(&mut self, limit: usize) -> Result<(), HpackError> {
        if limit > self.max_limit {
            return Err(HpackError::Malformed);
        }
        self.limit = limit;
        self.evict(0);
        Ok(())
    }

    /// Evicts the oldest entries until `bytes` more fit (§4.3 and §4.4).
    fn evict(&mut self, bytes: usize) {
        // Bounded by the table.
        while self.size + bytes > self.limit {
            let Some(entry) = self.entries.pop_back() else { break };
            self.size -= entry.length() + OVERHEAD;
            self.evicted += entry.length();
        }
    }

    /// Removes the bytes of evicted entries.
    fn compact(&mut self) {
        self.bytes.drain(..self.evicted);
        for entry in &mut self.entries {
            entry.start -= self.evicted as u32;
        }
        self.evicted = 0;
    }
}

/// Whether the peer inserts a literal field into its table (§6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// As its newest entry.
    Incremental,
    Without,
    /// And no intermediary does so, because the value is a secret (§7.1.3).
    Never,
}

impl Indexing {
    /// The first byte without the index, and the number of its bits for the index.
    const fn prefix(self) -> (u8, u32) {
        match self {
            Indexing::Incremental => (0x40, 6),
            Indexing::Without => (0x00, 4),
            Indexing::Never => (0x10, 4),
        }
    }
}

/// Appends the field at an index of the tables (§6.1).
pub fn write_indexed(out: &mut Vec<u8>, index: usize) {
    write_integer(out, 0x80, 7, index);
}

/// Appends a field whose name is at an index of the tables.
pub fn write_value(out: &mut Vec<u8>, indexing: Indexing, index: usize, value: &[u8]) {
    write_name_index(out, indexing, index);
    write_string(out, value);
}

/// Appends a field. The name is in lower case (RFC 9113 §8.2).
pub fn write_field(out: &mut Vec<u8>, indexing: Indexing, name: &[u8], value: &[u8]) {
    write_name_index(out, indexing, 0);
    write_string(out, name);
    write_string(out, value);
}

/// Appends the start of a literal field. Its value follows, and before that its name if the index is 0.
pub(crate) fn write_name_index(out: &mut Vec<u8>, indexing: Indexing, index: usize) {
    let (kind, bits) = indexing.prefix();
    write_integer(out, kind, bits, index);
}

/// The index of a name in the static table, without regard to case.
pub(crate) fn static_index(name: &[u8]) -> Option<usize> {
    let found = STATIC
        .iter()
        .position(|(known, _)| known.len() == name.len() && known.as_bytes().eq_ignore_ascii_case(name));
    found.map(|at| at + 1)
}

/// Appends a change of the maximum size of the peer's table, in bytes (§6.3). It precedes all fields of a block.
pub fn write_table_size(out: &mut Vec<u8>, size: usize) {
    write_integer(out, 0x20, 5, size);
}

/// Appends a string as it is.
pub(crate) fn write_string(out: &mut Vec<u8>, value: &[u8]) {
    write_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Appends a string in the Huffman code if that is shorter (§5.2).
pub(crate) fn write_short_string(out: &mut Vec<u8>, value: &[u8]) {
    match huffman::coded_len(value) {
        length if length < value.len() => {
            write_integer(out, 0x80, 7, length);
            huffman::encode(value, out);
        }
        _ => write_string(out, value),
    }
}

/// Appends an integer (§5.1).
fn write_integer(out: &mut Vec<u8>, kind: u8, bits: u32, number: usize) {
    let max = (1usize << bits) - 1;
    if number < max {
        out.push(kind | number as u8);
        return;
    }
    out.push(kind | max as u8);
    let mut rest = number - max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes an integer of at most five bytes (§5.1).
#[inline]
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, after) = rest.split_first().ok_or(HpackError::Incomplete)?;
    *rest = after;
    let max = (1usize << bits) - 1;
    match usize::from(first) & max {
        number if number < max => Ok(number),
        _ => long_integer(rest, max),
    }
}

/// Takes the bytes behind the first, which add to `number`.
fn long_integer(rest: &mut &[u8], mut number: usize) -> Result<usize, HpackError> {
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(HpackError::Incomplete)?;
        *rest = after;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(HpackError::Malformed)
}

/// Takes a string (§5.2).
fn string<'a>(rest: &mut &'a [u8], scratch: &mut Vec<u8>) -> Result<Text<'a>, HpackError> {
    let (coded, length) = string_length(rest)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(HpackError::Incomplete)?;
    *rest = after;
    if !coded {
        return Ok(Text::Borrowed(bytes));
    }
    let start = scratch.len();
    huffman::decode(bytes, scratch)?;
    Ok(Text::Scratch(start, scratch.len()))
}

/// Takes what precedes the bytes of a string: whether they are in the Huffman code, and how many there are.
fn string_length(rest: &mut &[u8]) -> Result<(bool, usize), HpackError> {
    let coded = rest.first().ok_or(HpackError::Incomplete)? & 0x80 != 0;
    Ok((coded, integer(rest, 7)?))
}

/// The static table (appendix A).
#[rustfmt::skip]
pub(crate) const STATIC: [(&str, &str); STATIC_ENTRIES] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
    ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
    ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
    ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""),
    ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""),
    ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""),
    ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    }

    /// The fields of a block, a line each.
    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
        let mut lines = String::new();
        let line = |name: &[u8], value: &[u8]| {
            lines.extend([
                String::from_utf8_lossy(name),
                "=".into(),
                String::from_utf8_lossy(value),
                "\n".into(),
            ]);
            Ok(())
        };
        decoder.decode(block, line)?;
        Ok(lines)
    }

    /// Appendix C.6: three responses with Huffman codes, and a table of 256 bytes.
    #[test]
    fn decodes_the_responses_of_the_rfc() {
        let mut decoder = Decoder::new(256, usize::MAX);
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                     3d50 07";
        for (block, begins, size) in [
            (first, ":status=302\ncache-control=private\ndate=Mon, 21 Oct 2013 20:13:21 GMT\n", 222),
            ("4883 640e ffc1 c0bf", ":status=307\ncache-control=private\n", 222),
            (third, ":status=200\ncache-control=private\ndate=Mon, 21 Oct 2013 20:13:22 GMT\n", 215),
        ] {
            let found = read(&mut decoder, &hex(block)).unwrap();
            assert!(found.starts_with(begins), "{found}");
            assert_eq!(decoder.blocks.table.size, size, "{block}");
        }
        assert_eq!(decoder.blocks.table.entries.len(), 3);
    }

    #[test]
    fn decodes_what_it_writes() {
        let mut block = Vec::new();
        write_indexed(&mut block, 8);
        write_value(&mut block, Indexing::Incremental, 28, b"12");
        write_field(&mut block, Indexing::Incremental, b"x-a", b"b");
        write_field(&mut block, Indexing::Without, b"x-c", b"d");
        let mut decoder = Decoder::new(TABLE_SIZE, usize::MAX);
        assert_eq!(read(&mut decoder, &block).unwrap(), ":status=200\ncontent-length=12\nx-a=b\nx-c=d\n");
        let mut again = Vec::new();
        write_indexed(&mut again, FIRST_DYNAMIC);
        write_indexed(&mut again, FIRST_DYNAMIC + 1);
        assert_eq!(read(&mut decoder, &again).unwrap(), "x-a=b\ncontent-length=12\n");
        let mut smaller = Vec::new();
        write_table_size(&mut smaller, 0);
        write_indexed(&mut smaller, FIRST_DYNAMIC);
        assert_eq!(read(&mut decoder, &smaller), Err(HpackError::Malformed), "the table is empty");
    }

    #[test]
    fn keeps_the_table_valid_after_an_error() {
        let mut block = Vec::new();
        write_field(&mut block, Indexing::Incremental, b"x-a", b"b");
        write_field(&mut block, Indexing::Incremental, b"x-c", b"d");
        let mut decoder = Decoder::new(TABLE_SIZE, usize::MAX);
        assert_eq!(decoder.decode(&block, |_, _| Err(HpackError::Malformed)), Err(HpackError::Malformed));
        assert_eq!(read(&mut decoder, &[0x80 | 63, 0x80 | 62]).unwrap(), "x-a=b\nx-c=d\n");
    }

    /// The names and values of a full table move within its buffer, whose size is bounded.
    #[test]
    fn keeps_a_full_table_within_its_size() {
        let mut decoder = Decoder::new(256, usize::MAX);
        for round in 0..200usize {
            let (name, value) = (format!("x-{round}"), "v".repeat(round % 90));
            let mut block = Vec::new();
            write_field(&mut block, Indexing::Incremental, name.as_bytes(), value.as_bytes());
            write_indexed(&mut block, FIRST_DYNAMIC);
            let line = format!("{name}={value}\n");
            assert_eq!(read(&mut decoder, &block).unwrap(), line.repeat(2));
            let last = FIRST_DYNAMIC + decoder.blocks.table.entries.len() - 1;
            let mut oldest = Vec::new();
            // Evicts the entry whose name it has.
            write_value(&mut oldest, Indexing::Incremental, last, "w".repeat(100).as_bytes());
            let expected = read(&mut decoder, &oldest).unwrap();
            assert!(expected.starts_with("x-") && expected.ends_with("w\n"), "{expected}");
            assert_eq!(read(&mut decoder, &[0x80 | 62]).unwrap(), expected);
            assert!(decoder.blocks.table.size <= 256 && decoder.blocks.table.bytes.len() <= 256);
        }
        assert!(decoder.blocks.table.bytes.capacity() <= 512);
    }

    #[test]
    fn rejects_malformed_blocks() {
        for block in [
            "80",
            "be",
            "ff",
            "ffffffffff7f",
            "48",
            "4883",
            "48 01",
            "48 03 6178",
            "3fffff7f",
            "0082",
            "8220",
        ] {
            assert_eq!(
                read(&mut Decoder::new(TABLE_SIZE, usize::MAX), &hex(block)),
                Err(HpackError::Malformed),
                "{block}"
            );
        }
    }

    #[test]
    fn rejects_a_list_over_the_limit_and_keeps_the_table() {
        let mut block = Vec::new();
        write_field(&mut block, Indexing::Incremental, b"x-a", b"b");
        write_indexed(&mut block, FIRST_DYNAMIC);
        let mut decoder = Decoder::new(TABLE_SIZE, 2 * (3 + 1 + 32) - 1);
        let mut count = 0;
        let result = decoder.decode(&block, |_, _| {
            count += 1;
            Ok::<_, HpackError>(())
        });
        assert_eq!((result, count), (Err(HpackError::ListTooLarge), 1));
        assert_eq!(read(&mut decoder, &[0x80 | 62]).unwrap(), "x-a=b\n");
    }

    /// A block with fields of any length, some in the Huffman code.
    fn any_block(next: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut block = Vec::new();
        if next(3) == 0 {
            write_table_size(&mut block, next(TABLE_SIZE + 1));
        }
        for _ in 0..next(12) {
            let lengths = [0, 5, 40, 1000, 4050, 20_000];
            let indexing = [Indexing::Incremental, Indexing::Incremental, Indexing::Without, Indexing::Never];
            write_name_index(&mut block, indexing[next(4)], [0, 4][next(2)]);
            let has_name = block.last().is_some_and(|last| last & 0x0f == 0);
            for _ in 0..1 + usize::from(has_name) {
                let (byte, length) = ([b'a', b'0', 0xff][next(3)], lengths[next(lengths.len())]);
                match next(2) {
                    0 => write_string(&mut block, &vec![byte; length]),
                    _ => {
                        let text = vec![byte; length];
                        write_integer(&mut block, 0x80, 7, huffman::coded_len(&text));
                        huffman::encode(&text, &mut block);
                    }
                }
            }
        }
        block
    }

    #[test]
    fn a_discarded_block_changes_the_table_as_a_decoded_one() {
        let mut state = 7u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut decoders = [(); 2].map(|()| BlockDecoder::<()>::new(TABLE_SIZE, usize::MAX));
        let mut scratch = Vec::new();
        for round in 0..300 {
            let block = any_block(&mut next);
            let [whole, parts] = &mut decoders;
            whole.decode(&block, &mut scratch, |_, _, _| Ok::<(), HpackError>(())).unwrap();
            let (mut discarded, mut kept) = (Discarded::default(), Vec::new());
            let size = [1, 100, 16_384][next(3)].max(block.len() / 50).max(1);
            for part in block.chunks(size) {
                kept.extend_from_slice(part);
                let taken = parts.discard(&kept, &mut scratch, &mut discarded).unwrap();
                kept.drain(..taken);
                assert!(kept.len() < 4 * TABLE_SIZE, "{} bytes are kept", kept.len());
            }
            assert!(kept.is_empty() && discarded.is_whole(), "round {round}");
            let entries = |decoder: &BlockDecoder<()>| -> Vec<(Vec<u8>, Vec<u8>)> {
                let of = |index| {
                    decoder.table.get(FIRST_DYNAMIC + index).map(|(_, n, v)| (n.to_vec(), v.to_vec()))
                };
                (0..decoder.table.entries.len()).map(|index| of(index).unwrap()).collect()
            };
            assert_eq!(entries(whole), entries(parts), "round {round}");
        }
    }

    #[test]
    fn reads_the_integers_it_writes() {
        for number in [0, 1, 30, 31, 62, 127, 128, 1337, 70_000] {
            for bits in [4, 5, 6, 7] {
                let mut out = Vec::new();
                write_integer(&mut out, 0, bits, number);
                assert_eq!(integer(&mut out.as_slice(), bits), Ok(number));
            }
        }
    }
}
