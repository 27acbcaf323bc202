//! Heads of HTTP/2, compressed by HPACK (RFC 7541): answers are read as far as they matter here, requests are
//! written. Remembers of the dynamic table only what can matter later.

use std::collections::VecDeque;

use super::huffman;
use crate::plan::ask::USER_AGENT;
use crate::plan::{Ask, Scheme, Target};

/// What the table may hold until a SETTINGS frame says otherwise, in either direction.
pub const TABLE_SIZE: usize = 4096;
/// What an entry costs beyond its bytes (§4.1).
const ENTRY: usize = 32;
const STATIC_ENTRIES: usize = 61;

/// A head that nobody can read; the connection is lost with it (§2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHead;

/// Of a head, what matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// None in trailers.
    pub status: Option<u16>,
    pub length: Option<u64>,
    pub server: Option<String>,
    /// Bytes of all names and values.
    pub plain_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Status,
    ContentLength,
    Server,
    Other,
}

#[derive(Debug, Clone)]
struct Entry {
    name: Name,
    name_length: usize,
    /// Empty for names that do not matter.
    value: Vec<u8>,
    value_length: usize,
}

/// A field, wherever it stands.
#[derive(Debug, Clone, Copy)]
struct Known<'t> {
    name: Name,
    name_length: usize,
    /// Empty for entries whose names do not matter.
    value: &'t [u8],
    value_length: usize,
}

impl Entry {
    fn with<'t>(&self, value: &'t [u8]) -> Known<'t> {
        Known { name: self.name, name_length: self.name_length, value, value_length: self.value_length }
    }
}

#[derive(Debug)]
pub struct Decoder {
    table: VecDeque<Entry>,
    size: usize,
    limit: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// How requests are written: what does not change from one to the next is put into the peer's table once.
#[derive(Debug)]
pub enum Encoder {
    Fresh,
    /// The table holds User-Agent, and behind it the authority.
    Filled,
    /// The peer wants a small table: it is emptied, and nothing is put there.
    Emptied,
    Without,
}

impl Decoder {
    pub const fn new() -> Decoder {
        Decoder { table: VecDeque::new(), size: 0, limit: TABLE_SIZE, name: Vec::new(), value: Vec::new() }
    }

    pub fn decode(&mut self, block: &[u8]) -> Result<Fields, BadHead> {
        let mut fields = Fields::default();
        let mut rest = block;
        // Bounded by the block: each pass takes a byte at least.
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    let known = self.known(index)?;
                    fields.note(known)?;
                }
                0x40.. => {
                    let entry = self.literal(&mut rest, 6)?;
                    fields.note(entry.with(&self.value))?;
                    self.insert(entry);
                }
                0x20.. => {
                    let limit = integer(&mut rest, 5)?;
                    if limit > TABLE_SIZE {
                        return Err(BadHead);
                    }
                    self.limit = limit;
                    self.evict(0);
                }
                _ => {
                    let entry = self.literal(&mut rest, 4)?;
                    fields.note(entry.with(&self.value))?;
                }
            }
        }
        Ok(fields)
    }

    /// A name, as an index or as text, and a value, which stays in `self.value`.
    fn literal(&mut self, rest: &mut &[u8], bits: u32) -> Result<Entry, BadHead> {
        let (name, name_length) = match integer(rest, bits)? {
            0 => {
                string(rest, &mut self.name)?;
                (name_of(&self.name), self.name.len())
            }
            index => {
                let known = self.known(index)?;
                (known.name, known.name_length)
            }
        };
        string(rest, &mut self.value)?;
        let value = if name == Name::Other { Vec::new() } else { self.value.clone() };
        Ok(Entry { name, name_length, value, value_length: self.value.len() })
    }

    fn known(&self, index: usize) -> Result<Known<'_>, BadHead> {
        if let Some(index) = index.checked_sub(STATIC_ENTRIES + 1) {
            let entry = self.table.get(index).ok_or(BadHead)?;
            return Ok(entry.with(&entry.value));
        }
        let (name, value) = *STATIC.get(index.wrapping_sub(1)).ok_or(BadHead)?;
        Ok(Known {
            name: name_of(name.as_bytes()),
            name_length: name.len(),
            value: value.as_bytes(),
            value_length: value.len(),
        })
    }

    fn insert(&mut self, entry: Entry) {
        let cost = entry.name_length + entry.value_length + ENTRY;
        self.evict(cost);
        if cost <= self.limit {
            self.size += cost;
            self.table.push_front(entry);
        }
    }

    fn evict(&mut self, room: usize) {
        // Bounded by the table.
        while self.size + room > self.limit {
            let Some(entry) = self.table.pop_back() else { break };
            self.size -= entry.name_length + entry.value_length + ENTRY;
        }
    }
}

impl Fields {
    fn note(&mut self, field: Known<'_>) -> Result<(), BadHead> {
        let Known { name, name_length, value, value_length } = field;
        self.plain_bytes += (name_length + value_length) as u32;
        let text = || std::str::from_utf8(value).map_err(|_| BadHead);
        match name {
            Name::Other => {}
            Name::Status if value.len() == 3 => {
                self.status = Some(text()?.parse().ok().filter(|status| *status >= 100).ok_or(BadHead)?);
            }
            Name::Status => return Err(BadHead),
            Name::ContentLength => {
                let length =
                    value.iter().all(u8::is_ascii_digit).then(|| text()?.parse().map_err(|_| BadHead));
                self.length = Some(length.ok_or(BadHead)??);
            }
            Name::Server => self.server = Some(String::from_utf8_lossy(value).into_owned()),
        }
        Ok(())
    }
}

impl Encoder {
    /// Appends the head of a request.
    pub fn encode(&mut self, ask: &Ask, target: &Target, out: &mut Vec<u8>) {
        if let Encoder::Emptied = self {
            out.push(0x20);
            *self = Encoder::Without;
        }
        match ask.method.as_str() {
            "GET" => out.push(0x82),
            "POST" => out.push(0x83),
            method => literal(out, 0x00, 2, method.as_bytes()),
        }
        out.push(match target.scheme {
            Scheme::Http => 0x86,
            Scheme::Https => 0x87,
        });
        match ask.path.as_str() {
            "/" => out.push(0x84),
            path => literal(out, 0x00, 4, path.as_bytes()),
        }
        let host = own(ask, "host");
        let agent = own(ask, "user-agent");
        match (&self, host, agent) {
            (Encoder::Filled, None, None) => out.extend_from_slice(&[0x80 | 63, 0x80 | 62]),
            (Encoder::Fresh, None, None) => {
                literal(out, 0x40, 1, target.authority.as_bytes());
                literal(out, 0x40, 58, USER_AGENT.as_bytes());
                *self = Encoder::Filled;
            }
            _ => {
                literal(out, 0x00, 1, host.unwrap_or(&target.authority).as_bytes());
                literal(out, 0x00, 58, agent.unwrap_or(USER_AGENT).as_bytes());
            }
        }
        if ask.sends_length() && !ask.has_field("content-length") {
            literal(out, 0x00, 28, ask.body.len().to_string().as_bytes());
        }
        for (name, value) in &ask.fields {
            let name = name.to_ascii_lowercase();
            // RFC 9113 §8.2.2: what speaks of the connection has no place here.
            if !matches!(
                name.as_str(),
                "host" | "user-agent" | "connection" | "transfer-encoding" | "keep-alive"
            ) {
                out.push(0);
                text(out, name.as_bytes());
                text(out, value.as_bytes());
            }
        }
    }

    /// The peer's table may hold so much.
    pub fn limit(&mut self, size: u32) {
        if (size as usize) < TABLE_SIZE {
            *self = Encoder::Emptied;
        }
    }
}

fn own<'a>(ask: &'a Ask, wanted: &str) -> Option<&'a str> {
    ask.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
}

/// A field whose name stands at `index` of the static table.
fn literal(out: &mut Vec<u8>, kind: u8, index: usize, value: &[u8]) {
    let bits = if kind == 0x40 { 6 } else { 4 };
    put_integer(out, kind, bits, index);
    text(out, value);
}

fn text(out: &mut Vec<u8>, value: &[u8]) {
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

fn name_of(name: &[u8]) -> Name {
    match name {
        b":status" => Name::Status,
        b"content-length" => Name::ContentLength,
        b"server" => Name::Server,
        _ => Name::Other,
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

    /// RFC 7541, C.6: three answers with Huffman codes, in a table of 256 bytes.
    #[test]
    fn the_answers_of_the_rfc_are_read() {
        let mut decoder = Decoder::new();
        decoder.limit = 256;
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                     3d50 07";
        for (block, status, size) in [(first, 302, 222), ("4883 640e ffc1 c0bf", 307, 222), (third, 200, 215)]
        {
            let fields = decoder.decode(&hex(block)).unwrap();
            assert_eq!((fields.status, decoder.size), (Some(status), size), "{block}");
        }
        assert_eq!(decoder.table.len(), 3);
    }

    #[test]
    fn length_and_server_are_known_again_from_the_table() {
        let mut decoder = Decoder::new();
        let mut block = vec![0x88];
        literal(&mut block, 0x40, 28, b"12");
        literal(&mut block, 0x40, 54, b"taipan");
        let expected = Fields {
            status: Some(200),
            length: Some(12),
            server: Some("taipan".to_owned()),
            plain_bytes: 7 + 3 + 14 + 2 + 6 + 6,
        };
        assert_eq!(decoder.decode(&block), Ok(expected.clone()));
        assert_eq!(decoder.decode(&[0x88, 0x80 | 63, 0x80 | 62]), Ok(expected));
    }

    #[test]
    fn what_nobody_can_read_is_refused() {
        for block in [
            "80",
            "be",
            "ff",
            "ffffffffff7f",
            "48",
            "4883",
            "48 01 32",
            "48 03 617878",
            "5c 03 2d3132",
            "3fffff7f",
            "0082",
        ] {
            assert_eq!(Decoder::new().decode(&hex(block)), Err(BadHead), "{block}");
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
