//! The frames of HTTP/2 (RFC 9113 §4 and §6): their kinds, their flags, and the nine bytes before each.

/// What a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before the payload of each frame.
pub const HEADER: usize = 9;
/// Bytes of a payload, unless a SETTINGS frame allows more.
pub const MAX_FRAME: usize = 16_384;
/// Bytes of a flow-control window, unless a SETTINGS frame says otherwise.
pub const DEFAULT_WINDOW: u32 = 65_535;
/// The largest window there is.
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const PRIORITY: u8 = 32;

pub const CANCEL: u32 = 8;
pub const REFUSED_STREAM: u32 = 7;

/// What the bytes before a payload say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of the payload.
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Frame {
    pub fn parse(header: &[u8; HEADER]) -> Frame {
        let &[a, b, c, kind, flags, d, e, f, g] = header;
        Frame {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // The reserved bit is ignored (RFC 9113 §4.1).
            stream: u32::from_be_bytes([d & 0x7f, e, f, g]),
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the bytes before a payload.
pub fn put_frame(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut out = Vec::new();
        put_frame(&mut out, 0x0001_0203, HEADERS, END_HEADERS | END_STREAM, 0x7fff_fffe);
        let header: &[u8; HEADER] = out.as_slice().try_into().unwrap();
        let frame = Frame::parse(header);
        assert_eq!((frame.length, frame.kind, frame.stream), (0x0001_0203, HEADERS, 0x7fff_fffe));
        assert!(frame.has(END_STREAM) && frame.has(END_HEADERS) && !frame.has(PADDED));
    }

    #[test]
    fn ignores_the_reserved_bit_of_a_stream() {
        assert_eq!(Frame::parse(&[0, 0, 0, DATA, 0, 0x80, 0, 0, 1]).stream, 1);
    }
}
