//! Records (§3.3): a header of eight bytes, content and padding. The decoder does not copy content. Knows nothing of
//! the order of records.

use std::fmt;

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;

/// The largest content of a record, in bytes.
pub const MAX_CONTENT: usize = 65_535;

const VERSION: u8 = 1;

/// The type of a record (§8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    BeginRequest,
    AbortRequest,
    EndRequest,
    Params,
    Stdin,
    Stdout,
    Stderr,
    Data,
    GetValues,
    GetValuesResult,
    UnknownType,
    Other(u8),
}

/// The header of a record. Its version is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    pub kind: Kind,
    /// 0 for the connection itself.
    pub id: u16,
    /// Bytes of content.
    pub content: u16,
    /// Bytes after the content, which the receiver discards.
    pub padding: u8,
}

/// What the decoder found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed.
    NeedMore,
    Start(Header),
    /// Part of the content, never empty.
    Content(Header, &'a [u8]),
    /// The record and its padding are complete.
    End(Header),
}

/// A record of a version other than 1: the peer uses another protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WrongVersion(pub u8);

/// Decodes a stream of records. After an error it returns the same error again.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The first bytes of a header, and how many.
    Header([u8; HEADER_LEN], usize),
    /// The bytes of content to come.
    Content(Header, usize),
    Padding(Header, usize),
    Rejected(WrongVersion),
}

impl Kind {
    pub const fn number(self) -> u8 {
        match self {
            Kind::BeginRequest => 1,
            Kind::AbortRequest => 2,
            Kind::EndRequest => 3,
            Kind::Params => 4,
            Kind::Stdin => 5,
            Kind::Stdout => 6,
            Kind::Stderr => 7,
            Kind::Data => 8,
            Kind::GetValues => 9,
            Kind::GetValuesResult => 10,
            Kind::UnknownType => 11,
            Kind::Other(number) => number,
        }
    }

    /// The type of this number, of which §8 has eleven.
    pub const fn of(number: u8) -> Kind {
        match number {
            1 => Kind::BeginRequest,
            2 => Kind::AbortRequest,
            3 => Kind::EndRequest,
            4 => Kind::Params,
            5 => Kind::Stdin,
            6 => Kind::Stdout,
            7 => Kind::Stderr,
            8 => Kind::Data,
            9 => Kind::GetValues,
            10 => Kind::GetValuesResult,
            11 => Kind::UnknownType,
            other => Kind::Other(other),
        }
    }
}

impl Header {
    /// The header of a record without padding.
    pub const fn new(kind: Kind, id: u16, content: u16) -> Header {
        Header { kind, id, content, padding: 0 }
    }

    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [id_high, id_low] = self.id.to_be_bytes();
        let [content_high, content_low] = self.content.to_be_bytes();
        [VERSION, self.kind.number(), id_high, id_low, content_high, content_low, self.padding, 0]
    }

    /// The caller has checked the version.
    const fn read(bytes: [u8; HEADER_LEN]) -> Header {
        let [_, kind, id_high, id_low, content_high, content_low, padding, _] = bytes;
        Header {
            kind: Kind::of(kind),
            id: u16::from_be_bytes([id_high, id_low]),
            content: u16::from_be_bytes([content_high, content_low]),
            padding,
        }
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { state: State::Header([0; HEADER_LEN], 0) }
    }
}

/// The header and the content of the first record, and the bytes behind it. `None`: the record is incomplete, or of
/// another version.
pub fn split(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let header = (header[0] == VERSION).then(|| Header::read(*header))?;
    let (content, rest) = rest.split_at_checked(usize::from(header.content))?;
    Some((header, content, rest.get(usize::from(header.padding)..)?))
}

impl Decoder {
    /// Reads up to the next event and returns it with the number of consumed bytes. The next call takes the rest of
    /// the input. The caller repeats it until `NeedMore`, because the end of a record may need no further byte.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), WrongVersion> {
        match self.state {
            State::Header(mut bytes, have) => {
                let len = input.len().min(HEADER_LEN - have);
                bytes[have..have + len].copy_from_slice(&input[..len]);
                let have = have + len;
                if have > 0 && bytes[0] != VERSION {
                    self.state = State::Rejected(WrongVersion(bytes[0]));
                    return Err(WrongVersion(bytes[0]));
                }
                if have < HEADER_LEN {
                    self.state = State::Header(bytes, have);
                    return Ok((len, Event::NeedMore));
                }
                let header = Header::read(bytes);
                self.state = State::Content(header, usize::from(header.content));
                Ok((len, Event::Start(header)))
            }
            State::Content(header, 0) => self.padding(header, usize::from(header.padding), input),
            State::Content(_, _) if input.is_empty() => Ok((0, Event::NeedMore)),
            State::Content(header, left) => {
                let len = input.len().min(left);
                self.state = State::Content(header, left - len);
                Ok((len, Event::Content(header, &input[..len])))
            }
            State::Padding(header, left) => self.padding(header, left, input),
            State::Rejected(error) => Err(error),
        }
    }

    /// The decoder is between two records.
    pub const fn is_between(&self) -> bool {
        matches!(self.state, State::Header(_, 0))
    }

    fn padding<'a>(
        &mut self,
        header: Header,
        left: usize,
        input: &[u8],
    ) -> Result<(usize, Event<'a>), WrongVersion> {
        let len = input.len().min(left);
        if len < left {
            self.state = State::Padding(header, left - len);
            return Ok((len, Event::NeedMore));
        }
        *self = Decoder::default();
        Ok((len, Event::End(header)))
    }
}

/// The name of the specification.
impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Kind::BeginRequest => "FCGI_BEGIN_REQUEST",
            Kind::AbortRequest => "FCGI_ABORT_REQUEST",
            Kind::EndRequest => "FCGI_END_REQUEST",
            Kind::Params => "FCGI_PARAMS",
            Kind::Stdin => "FCGI_STDIN",
            Kind::Stdout => "FCGI_STDOUT",
            Kind::Stderr => "FCGI_STDERR",
            Kind::Data => "FCGI_DATA",
            Kind::GetValues => "FCGI_GET_VALUES",
            Kind::GetValuesResult => "FCGI_GET_VALUES_RESULT",
            Kind::UnknownType => "FCGI_UNKNOWN_TYPE",
            Kind::Other(number) => return write!(out, "type {number}"),
        })
    }
}

impl fmt::Display for WrongVersion {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "a record of version {}, which is not FastCGI 1", self.0)
    }
}

impl std::error::Error for WrongVersion {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kind, id and content of each complete record, and whether the input ends between records.
    type Outcome = (Vec<(Kind, u16, Vec<u8>)>, Result<bool, WrongVersion>);

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        let mut decoder = Decoder::default();
        let (mut records, mut content) = (Vec::new(), Vec::new());
        for mut piece in pieces {
            loop {
                match decoder.next(piece) {
                    Ok((used, event)) => {
                        piece = &piece[used..];
                        match event {
                            Event::NeedMore => break,
                            Event::Start(_) => content.clear(),
                            Event::Content(_, bytes) => content.extend_from_slice(bytes),
                            Event::End(header) => records.push((header.kind, header.id, content.clone())),
                        }
                    }
                    Err(error) => {
                        assert_eq!(decoder.next(b"\x01"), Err(error), "an error stays an error");
                        return (records, Err(error));
                    }
                }
            }
        }
        (records, Ok(decoder.is_between()))
    }

    #[test]
    fn reads_and_writes_headers() {
        let check = |bytes: [u8; 8], header: Header| {
            assert_eq!(Header::read(bytes), header);
            assert_eq!(header.to_bytes(), bytes);
        };
        check([1, 6, 0, 1, 0, 5, 3, 0], Header { kind: Kind::Stdout, id: 1, content: 5, padding: 3 });
        check(
            [1, 99, 255, 254, 255, 255, 255, 0],
            Header { kind: Kind::Other(99), id: 65534, content: 65535, padding: 255 },
        );
        for number in 0..=255 {
            assert_eq!(Kind::of(number).number(), number);
        }
    }

    #[test]
    fn decodes_records() {
        let check = |bytes: &[u8], records: &[(Kind, u16, &[u8])], end| {
            let records: Vec<_> =
                records.iter().map(|(kind, id, content)| (*kind, *id, content.to_vec())).collect();
            assert_eq!(read([bytes]), (records.clone(), end), "{bytes:?}");
            assert_eq!(read(bytes.chunks(1)), (records, end), "{bytes:?} byte by byte");
        };
        check(b"", &[], Ok(true));
        check(b"\x01", &[], Ok(false));
        check(b"\x01\x06\0\x01\0\x02\0\0hi", &[(Kind::Stdout, 1, b"hi")], Ok(true));
        check(b"\x01\x06\0\x01\0\0\0\0", &[(Kind::Stdout, 1, b"")], Ok(true));
        check(b"\x01\x06\0\x01\0\0\x02\0ab", &[(Kind::Stdout, 1, b"")], Ok(true));
        check(b"\x01\x06\0\x01\0\0\x02\0a", &[], Ok(false));
        check(b"\x01\x06\0\x01\0\x02\0\0h", &[], Ok(false));
        check(b"\x02\x06", &[], Err(WrongVersion(2)));
        check(b"HTTP/1.1", &[], Err(WrongVersion(b'H')));
        check(b"\x01\x06\0\x01\0\0\0\0\0", &[(Kind::Stdout, 1, b"")], Err(WrongVersion(0)));
        let padded = [&b"\x01\x07\x01\0\0\x01\xff\0x"[..], &[0xaa; 255], b"\x01"].concat();
        check(&padded, &[(Kind::Stderr, 256, b"x")], Ok(false));
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_cuts(
            records in prop::collection::vec((0u8..14, 0u16..3, prop::collection::vec(any::<u8>(), 0..9), 0u8..9), 0..6),
            noise: Option<Vec<u8>>,
            at in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut bytes = Vec::new();
            for (kind, id, content, padding) in &records {
                let header = Header { kind: Kind::of(*kind), id: *id, content: content.len() as u16, padding: *padding };
                bytes.extend(header.to_bytes());
                bytes.extend(content);
                bytes.extend(vec![0; usize::from(*padding)]);
            }
            bytes.extend(noise.unwrap_or_default());
            let whole = read([&*bytes]);
            prop_assert_eq!(&read(crate::cut(&bytes, &at)), &whole);
            prop_assert_eq!(&read(bytes.chunks(1)), &whole);
            prop_assert!(whole.0.len() >= records.len());
        }
    }
}
