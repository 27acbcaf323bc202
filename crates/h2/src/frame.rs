//! Frames of HTTP/2 (RFC 9113 §4 and §6): types, flags and headers, the parameters of SETTINGS, and the functions
//! that write frames. Knows nothing of the order of frames: see `decoder`.

use crate::error::{ErrorCode, FrameError};

/// The first bytes of a client (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame header (§4.1).
pub const HEADER_LEN: usize = 9;
/// The largest payload, in bytes, unless SETTINGS_MAX_FRAME_SIZE allows more (§4.2).
pub const MAX_PAYLOAD: usize = 16_384;
/// The initial flow-control window, in bytes (§6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;
/// The largest flow-control window, in bytes (§6.9.1).
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// RFC 9218 §7.1.
pub const PRIORITY_UPDATE: u8 = 0x10;

pub const END_STREAM: u8 = 0x01;
pub const ACK: u8 = 0x01;
pub const END_HEADERS: u8 = 0x04;
pub const PADDED: u8 = 0x08;
pub const PRIORITY_FLAG: u8 = 0x20;

/// The flag END_STREAM of HEADERS and DATA (§5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStream {
    /// More follows on the stream.
    Unset,
    /// The request or the response ends with this frame.
    Set,
}

impl EndStream {
    pub const fn when(is_last: bool) -> EndStream {
        if is_last { EndStream::Set } else { EndStream::Unset }
    }

    pub const fn is_set(self) -> bool {
        matches!(self, EndStream::Set)
    }

    /// The flags of the frame.
    pub const fn flags(self) -> u8 {
        match self {
            EndStream::Unset => 0,
            EndStream::Set => END_STREAM,
        }
    }
}

/// The first nine bytes of a frame (§4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header of any values; `check` says what is wrong with them.
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> FrameHeader {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes;
        FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // §4.1: the reserved bit is ignored.
            stream: u32::from_be_bytes([d & 0x7f, e, f, g]),
        }
    }

    /// Whether it has this flag. What a flag means depends on the type of the frame.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks length and stream by the type of the frame.
    pub const fn check(&self) -> Result<(), FrameError> {
        let length_is_valid = match self.kind {
            PRIORITY => self.length == 5,
            RST_STREAM | WINDOW_UPDATE => self.length == 4,
            PING => self.length == 8,
            GOAWAY => self.length >= 8,
            PRIORITY_UPDATE => self.length >= 4,
            SETTINGS if self.has(ACK) => self.length == 0,
            SETTINGS => self.length.is_multiple_of(6),
            _ => true,
        };
        let stream_is_valid = match self.kind {
            DATA | HEADERS | PRIORITY | RST_STREAM | CONTINUATION => self.stream != 0,
            SETTINGS | PING | GOAWAY | PRIORITY_UPDATE => self.stream == 0,
            _ => true,
        };
        match (self.length <= MAX_PAYLOAD, length_is_valid, stream_is_valid) {
            (false, _, _) => Err(FrameError::TooLarge),
            (_, false, _) => Err(FrameError::Length),
            (_, _, false) => Err(FrameError::Stream),
            _ => Ok(()),
        }
    }
}

/// The parameters of a SETTINGS frame (§6.5.2); `None` for those that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Of several values, the smallest: the peer has evicted entries by it (RFC 7541 §4.2).
    pub header_table_size: Option<u32>,
    pub enable_push: Option<u32>,
    pub max_concurrent_streams: Option<u32>,
    pub initial_window_size: Option<u32>,
    pub max_frame_size: Option<u32>,
    pub max_header_list_size: Option<u32>,
    /// RFC 8441 §3.
    pub enable_connect_protocol: Option<u32>,
    /// RFC 9218 §2.1.
    pub no_rfc7540_priorities: Option<u32>,
}

impl Settings {
    /// Parses a payload, whose length the caller has checked. Ignores unknown parameters.
    pub fn parse(payload: &[u8]) -> Result<Settings, FrameError> {
        let mut settings = Settings::default();
        for &[high, low, a, b, c, d] in payload.as_chunks().0 {
            let value = u32::from_be_bytes([a, b, c, d]);
            let (parameter, error) = match u16::from_be_bytes([high, low]) {
                1 => {
                    let smallest = settings.header_table_size.map_or(value, |other| other.min(value));
                    settings.header_table_size = Some(smallest);
                    continue;
                }
                2 => (&mut settings.enable_push, (value > 1).then_some(FrameError::Setting)),
                3 => (&mut settings.max_concurrent_streams, None),
                4 => {
                    let error = (value > MAX_WINDOW).then_some(FrameError::InitialWindow);
                    (&mut settings.initial_window_size, error)
                }
                5 => {
                    let is_valid = (MAX_PAYLOAD as u32..1 << 24).contains(&value);
                    (&mut settings.max_frame_size, (!is_valid).then_some(FrameError::Setting))
                }
                6 => (&mut settings.max_header_list_size, None),
                8 => (&mut settings.enable_connect_protocol, (value > 1).then_some(FrameError::Setting)),
                9 => (&mut settings.no_rfc7540_priorities, (value > 1).then_some(FrameError::Setting)),
                _ => continue,
            };
            match error {
                Some(error) => return Err(error),
                None => *parameter = Some(value),
            }
        }
        Ok(settings)
    }

    /// Appends a SETTINGS frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let parameters = [
            (1u16, self.header_table_size),
            (2, self.enable_push),
            (3, self.max_concurrent_streams),
            (4, self.initial_window_size),
            (5, self.max_frame_size),
            (6, self.max_header_list_size),
            (8, self.enable_connect_protocol),
            (9, self.no_rfc7540_priorities),
        ];
        let present = parameters.into_iter().filter_map(|(id, value)| Some((id, value?)));
        write_header(out, 6 * present.clone().count(), SETTINGS, 0, 0);
        for (id, value) in present {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Appends a frame.
pub fn write_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    write_header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends a frame header. The caller appends `length` bytes of payload.
pub fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends WINDOW_UPDATE; stream 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_frame(out, WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_frame(out, RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

/// Appends GOAWAY (§6.8).
pub fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    write_header(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends the field block that `encode` writes as HEADERS, with as many CONTINUATION frames as it needs. `flags` is
/// `END_STREAM` or 0.
pub fn write_headers(out: &mut Vec<u8>, stream: u32, flags: u8, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write_header(out, 0, HEADERS, flags | END_HEADERS, stream);
    encode(out);
    let length = out.len() - start - HEADER_LEN;
    if length <= MAX_PAYLOAD {
        out[start..start + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        return;
    }
    let block = out.split_off(start + HEADER_LEN);
    out.truncate(start);
    let last = block.len().div_ceil(MAX_PAYLOAD) - 1;
    for (index, fragment) in block.chunks(MAX_PAYLOAD).enumerate() {
        let (kind, flags) = if index == 0 { (HEADERS, flags) } else { (CONTINUATION, 0) };
        let end = if index == last { END_HEADERS } else { 0 };
        write_frame(out, kind, flags | end, stream, fragment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_headers_it_writes() {
        let mut out = Vec::new();
        write_header(&mut out, 0x0001_0203, HEADERS, END_HEADERS | END_STREAM, 0x7fff_fffe);
        let header = FrameHeader::parse(out.as_slice().try_into().unwrap());
        assert_eq!((header.length, header.kind, header.stream), (0x0001_0203, HEADERS, 0x7fff_fffe));
        assert!(header.has(END_STREAM) && header.has(END_HEADERS) && !header.has(PADDED));
    }

    #[test]
    fn ignores_the_reserved_bit_of_a_stream() {
        assert_eq!(FrameHeader::parse(&[0, 0, 0, DATA, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn checks_length_and_stream_by_type() {
        use FrameError::{Length, Stream, TooLarge};
        for (kind, flags, length, stream, expected) in [
            (DATA, 0, 0, 1, Ok(())),
            (DATA, 0, MAX_PAYLOAD, 1, Ok(())),
            (DATA, 0, MAX_PAYLOAD + 1, 1, Err(TooLarge)),
            (DATA, 0, 5, 0, Err(Stream)),
            (HEADERS, 0, 5, 0, Err(Stream)),
            (PRIORITY, 0, 5, 1, Ok(())),
            (PRIORITY, 0, 4, 1, Err(Length)),
            (PRIORITY, 0, 5, 0, Err(Stream)),
            (RST_STREAM, 0, 4, 1, Ok(())),
            (RST_STREAM, 0, 5, 1, Err(Length)),
            (RST_STREAM, 0, 4, 0, Err(Stream)),
            (SETTINGS, 0, 12, 0, Ok(())),
            (SETTINGS, 0, 7, 0, Err(Length)),
            (SETTINGS, ACK, 6, 0, Err(Length)),
            (SETTINGS, 0, 6, 1, Err(Stream)),
            (PING, 0, 8, 0, Ok(())),
            (PING, ACK, 7, 0, Err(Length)),
            (PING, 0, 8, 1, Err(Stream)),
            (GOAWAY, 0, 8, 0, Ok(())),
            (GOAWAY, 0, 7, 0, Err(Length)),
            (GOAWAY, 0, 9, 1, Err(Stream)),
            (WINDOW_UPDATE, 0, 4, 0, Ok(())),
            (WINDOW_UPDATE, 0, 4, 9, Ok(())),
            (WINDOW_UPDATE, 0, 8, 0, Err(Length)),
            (CONTINUATION, 0, 4, 0, Err(Stream)),
            (0xbe, 0, 4, 0, Ok(())),
            (0xbe, 0, MAX_PAYLOAD + 1, 7, Err(TooLarge)),
        ] {
            let header = FrameHeader { length, kind, flags, stream };
            assert_eq!(header.check(), expected, "{header:?}");
        }
    }

    #[test]
    fn parses_settings() {
        let check = |parameters: &[(u16, u32)], expected: Result<Settings, FrameError>| {
            let bytes =
                |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
            let payload: Vec<u8> = parameters.iter().flat_map(bytes).collect();
            assert_eq!(Settings::parse(&payload), expected, "{parameters:?}");
            if let Ok(settings) = expected {
                let mut out = Vec::new();
                settings.write(&mut out);
                assert_eq!(Settings::parse(&out[HEADER_LEN..]), Ok(settings));
                assert_eq!(usize::from(out[2]), out.len() - HEADER_LEN);
            }
        };
        let none = Settings::default();
        check(&[], Ok(none));
        check(
            &[(1, 0), (3, 7)],
            Ok(Settings { header_table_size: Some(0), max_concurrent_streams: Some(7), ..none }),
        );
        check(&[(1, 0), (1, 4096)], Ok(Settings { header_table_size: Some(0), ..none }));
        check(
            &[(2, 1), (6, u32::MAX)],
            Ok(Settings { enable_push: Some(1), max_header_list_size: Some(u32::MAX), ..none }),
        );
        check(&[(2, 2)], Err(FrameError::Setting));
        check(&[(4, MAX_WINDOW), (4, 5)], Ok(Settings { initial_window_size: Some(5), ..none }));
        check(&[(4, MAX_WINDOW + 1)], Err(FrameError::InitialWindow));
        check(&[(5, 16_384)], Ok(Settings { max_frame_size: Some(16_384), ..none }));
        check(&[(5, 16_383)], Err(FrameError::Setting));
        check(&[(5, 1 << 24)], Err(FrameError::Setting));
        check(
            &[(8, 1), (9, 1)],
            Ok(Settings { enable_connect_protocol: Some(1), no_rfc7540_priorities: Some(1), ..none }),
        );
        check(&[(8, 2)], Err(FrameError::Setting));
        check(&[(9, 2)], Err(FrameError::Setting));
        check(&[(7, 1), (0xffff, 9)], Ok(none));
    }

    #[test]
    fn splits_a_large_field_block() {
        for (length, expected) in [
            (0, &[(0, HEADERS, END_HEADERS | END_STREAM)][..]),
            (MAX_PAYLOAD, &[(MAX_PAYLOAD, HEADERS, END_HEADERS | END_STREAM)]),
            (MAX_PAYLOAD + 1, &[(MAX_PAYLOAD, HEADERS, END_STREAM), (1, CONTINUATION, END_HEADERS)]),
            (
                2 * MAX_PAYLOAD + 1,
                &[
                    (MAX_PAYLOAD, HEADERS, END_STREAM),
                    (MAX_PAYLOAD, CONTINUATION, 0),
                    (1, CONTINUATION, END_HEADERS),
                ],
            ),
        ] {
            let mut out = b"before".to_vec();
            write_headers(&mut out, 3, END_STREAM, |out| out.resize(out.len() + length, 7));
            let (mut rest, mut found) = (&out[6..], Vec::new());
            while let Some((header, after)) = rest.split_first_chunk() {
                let FrameHeader { length, kind, flags, stream } = FrameHeader::parse(header);
                assert_eq!(stream, 3);
                found.push((length, kind, flags));
                rest = &after[length..];
            }
            assert_eq!(found, expected, "{length}");
        }
    }
}
