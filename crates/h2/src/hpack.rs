//! Heads of HTTP/2, compressed by HPACK (RFC 7541). Reading keeps the dynamic table of one direction of a
//! connection; writing leaves the table to the caller, who knows which fields come again.

use std::collections::VecDeque;

use super::huffman;

/// Bytes that a table may hold until a SETTINGS frame says otherwise, in either direction.
pub const TABLE_SIZE: usize = 4096;
/// What an entry costs beyond its bytes (§4.1).
const ENTRY: usize = 32;
const STATIC_ENTRIES: usize = 61;
/// The index of the newest entry of the dynamic table (§2.3.3).
pub const FIRST_DYNAMIC: usize = STATIC_ENTRIES + 1;

/// A head that cannot be read; the connection is lost with it (§2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHead;

#[derive(Debug, Clone)]
struct Entry {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Entry {
    fn cost(&self) -> usize {
        self.name.len() + self.value.len() + ENTRY
    }
}

/// Reads the heads of one direction of a connection, in the order in which they come.
#[derive(Debug)]
pub struct Decoder {
    table: VecDeque<Entry>,
    size: usize,
    /// Bytes that the table may hold now, and at most.
    limit: usize,
    ceiling: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// With a table of at most `ceiling` bytes, as SETTINGS_HEADER_TABLE_SIZE announced it.
    pub const fn new(ceiling: usize) -> Decoder {
        Decoder {
            table: VecDeque::new(),
            size: 0,
            limit: ceiling,
            ceiling,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Reads a whole head, and gives each name and value to `field`, which may refuse the head. All of it is
    /// read even so, as far as it can be, for the table must stay right.
    pub fn decode<E: From<BadHead>>(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = block;
        let mut result = Ok(());
        let mut note = |name: &[u8], value: &[u8]| {
            if result.is_ok() {
                result = field(name, value);
            }
        };
        // Bounded by the block: each pass takes a byte at least.
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => {
                    let (name, value) = self.known(integer(&mut rest, 7)?)?;
                    note(name, value);
                }
                0x40.. => {
                    self.literal(&mut rest, 6)?;
                    note(&self.name, &self.value);
                    self.insert();
                }
                0x20.. => {
                    let limit = integer(&mut rest, 5)?;
                    if limit > self.ceiling {
                        return Err(BadHead.into());
                    }
                    self.limit = limit;
                    self.evict(0);
                }
                _ => {
                    self.literal(&mut rest, 4)?;
                    note(&self.name, &self.value);
                }
            }
        }
        result
    }

    /// A name, as an index or as text, and a value: both are in `self` then.
    fn literal(&mut self, rest: &mut &[u8], bits: u32) -> Result<(), BadHead> {
        match integer(rest, bits)? {
            0 => string(rest, &mut self.name)?,
            index => {
                let mut own = std::mem::take(&mut self.name);
                own.clear();
                own.extend_from_slice(self.known(index)?.0);
                self.name = own;
            }
        }
        string(rest, &mut self.value)
    }

    fn known(&self, index: usize) -> Result<(&[u8], &[u8]), BadHead> {
        if let Some(index) = index.checked_sub(FIRST_DYNAMIC) {
            let entry = self.table.get(index).ok_or(BadHead)?;
            return Ok((&entry.name, &entry.value));
        }
        let (name, value) = STATIC.get(index.wrapping_sub(1)).ok_or(BadHead)?;
        Ok((name.as_bytes(), value.as_bytes()))
    }

    /// Takes the field at hand into the table, if it fits (§4.4).
    fn insert(&mut self) {
        let entry = Entry { name: self.name.clone(), value: self.value.clone() };
        self.evict(entry.cost());
        if entry.cost() <= self.limit {
            self.size += entry.cost();
            self.table.push_front(entry);
        }
    }

    fn evict(&mut self, room: usize) {
        // Bounded by the table.
        while self.size + room > self.limit {
            let Some(entry) = self.table.pop_back() else { break };
            self.size -= entry.cost();
        }
    }
}

/// What becomes of a field in the peer's table (§6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// It becomes the newest entry.
    Incremental,
    /// It is not put there.
    Without,
}

impl Indexing {
    /// The first bits, and how many bits of the first byte are left for an index.
    const fn prefix(self) -> (u8, u32) {
        match self {
            Indexing::Incremental => (0x40, 6),
            Indexing::Without => (0x00, 4),
        }
    }
}

/// A field that stands at `index` of a table, name and value.
pub fn put_indexed(out: &mut Vec<u8>, index: usize) {
    put_integer(out, 0x80, 7, index);
}

/// A field whose name stands at `index` of a table.
pub fn put_value(out: &mut Vec<u8>, indexing: Indexing, index: usize, value: &[u8]) {
    let (kind, bits) = indexing.prefix();
    put_integer(out, kind, bits, index);
    put_text(out, value);
}

/// A field whose name is written out, in lower case as RFC 9113 §8.2 wants it.
pub fn put_field(out: &mut Vec<u8>, indexing: Indexing, name: &[u8], value: &[u8]) {
    let (kind, bits) = indexing.prefix();
    put_integer(out, kind, bits, 0);
    put_text(out, name);
    put_text(out, value);
}

/// From now on the peer's table holds at most so many bytes (§6.3).
pub fn put_table_size(out: &mut Vec<u8>, size: usize) {
    put_integer(out, 0x20, 5, size);
}

fn put_text(out: &mut Vec<u8>, value: &[u8]) {
    put_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// §5.1
fn put_integer(out: &mut Vec<u8>, kind: u8, bits: u32, number: usize) {
    let most = (1usize << bits) - 1;
    if number < most {
        out.push(kind | number as u8);
        return;
    }
    out.push(kind | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// §5.1, up to four bytes behind the first.
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, BadHead> {
    let (&first, mut after) = rest.split_first().ok_or(BadHead)?;
    let most = (1usize << bits) - 1;
    let mut number = usize::from(first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let (&byte, behind) = after.split_first().ok_or(BadHead)?;
            after = behind;
            number += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return Err(BadHead);
            }
        }
    }
    *rest = after;
    Ok(number)
}

/// §5.2
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), BadHead> {
    let coded = rest.first().ok_or(BadHead)? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(BadHead)?;
    *rest = after;
    out.clear();
    match coded {
        true => huffman::decode(bytes, out).map_err(|_| BadHead),
        false => {
            out.extend_from_slice(bytes);
            Ok(())
        }
    }
}

/// Appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); STATIC_ENTRIES] = [
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

    /// The fields of a head, a line each.
    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<String, BadHead> {
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

    /// RFC 7541, C.6: three responses with Huffman codes, in a table of 256 bytes.
    #[test]
    fn reads_the_responses_of_the_rfc() {
        let mut decoder = Decoder::new(256);
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
            assert_eq!(decoder.size, size, "{block}");
        }
        assert_eq!(decoder.table.len(), 3);
    }

    #[test]
    fn reads_what_it_writes() {
        let mut block = Vec::new();
        put_indexed(&mut block, 8);
        put_value(&mut block, Indexing::Incremental, 28, b"12");
        put_field(&mut block, Indexing::Incremental, b"x-a", b"b");
        put_field(&mut block, Indexing::Without, b"x-c", b"d");
        let mut decoder = Decoder::new(TABLE_SIZE);
        assert_eq!(read(&mut decoder, &block).unwrap(), ":status=200\ncontent-length=12\nx-a=b\nx-c=d\n");
        let mut again = Vec::new();
        put_indexed(&mut again, FIRST_DYNAMIC);
        put_indexed(&mut again, FIRST_DYNAMIC + 1);
        assert_eq!(read(&mut decoder, &again).unwrap(), "x-a=b\ncontent-length=12\n");
        let mut smaller = Vec::new();
        put_table_size(&mut smaller, 0);
        put_indexed(&mut smaller, FIRST_DYNAMIC);
        assert_eq!(read(&mut decoder, &smaller), Err(BadHead), "the table is empty");
    }

    #[test]
    fn keeps_the_table_right_where_a_field_is_refused() {
        let mut block = Vec::new();
        put_field(&mut block, Indexing::Incremental, b"x-a", b"b");
        put_field(&mut block, Indexing::Incremental, b"x-c", b"d");
        let mut decoder = Decoder::new(TABLE_SIZE);
        assert_eq!(decoder.decode(&block, |_, _| Err(BadHead)), Err(BadHead));
        assert_eq!(read(&mut decoder, &[0x80 | 63, 0x80 | 62]).unwrap(), "x-a=b\nx-c=d\n");
    }

    #[test]
    fn refuses_what_cannot_be_read() {
        for block in
            ["80", "be", "ff", "ffffffffff7f", "48", "4883", "48 01", "48 03 6178", "3fffff7f", "0082"]
        {
            assert_eq!(read(&mut Decoder::new(TABLE_SIZE), &hex(block)), Err(BadHead), "{block}");
        }
    }

    #[test]
    fn integers_are_read_as_they_are_written() {
        for number in [0, 1, 30, 31, 62, 127, 128, 1337, 70_000] {
            for bits in [4, 5, 6, 7] {
                let mut out = Vec::new();
                put_integer(&mut out, 0, bits, number);
                assert_eq!(integer(&mut out.as_slice(), bits), Ok(number));
            }
        }
    }
}
