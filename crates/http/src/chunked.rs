//! The chunked transfer coding (RFC 9112 §7.1), decoded and encoded. The decoder is a state machine over single
//! bytes, so the result does not depend on how the input is cut. It does not copy data. It checks the syntax of chunk
//! extensions and discards them, because the server knows none. It keeps trailer fields for a caller that passes them.
//! Knows nothing of heads and connections.

use crate::fields::is_token;
use crate::rule::rules;
use crate::status::Status;

/// Ends the data of a chunk.
pub const CRLF: &[u8] = b"\r\n";

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// 16 hexadecimal digits make 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// Bytes of a trailer section that is kept. Of a larger one, nothing is.
const MAX_KEPT: usize = 8 * 1024;

/// Limits of the bytes that are not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Bytes of a size line with its extensions, without CRLF.
    pub line: usize,
    /// Bytes of all extensions of a body. Without this limit a client could send one byte of data with each long
    /// extension.
    pub extensions: usize,
    /// Bytes of the whole trailer section.
    pub trailers: usize,
}

/// What the decoder found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed and the body is not complete.
    NeedMore,
    /// Data of the body, never empty. The rest of the input may have more.
    Data(&'a [u8]),
    /// The body is complete. The rest of the input belongs to the next message.
    End,
}

/// The broken rule of RFC 9112 §7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkError {
    /// Not hexadecimal digits.
    Size,
    /// More than 16 digits.
    SizeTooLarge,
    /// Not `";" token [ "=" ( token / quoted-string ) ]` (§7.1.1).
    Extension,
    /// No CRLF after the data: the data is longer or shorter than the size.
    DataEnd,
    /// A line does not end with CRLF.
    LineEnd,
    /// A malformed field in the trailer section.
    Trailer,
    LineTooLong,
    ExtensionsTooLarge,
    TrailersTooLarge,
}

/// Decodes one body. After an error or the end it returns the same again.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
    limits: ChunkLimits,
    /// The size as far as it is read; in `State::Data`, the bytes of data to come.
    size: u64,
    /// Bytes of this size line.
    line: usize,
    /// Bytes of all extensions so far.
    extensions: usize,
    /// Bytes of the trailer section so far.
    trailers: usize,
    /// The lines of the trailer section. `None`: they are discarded.
    kept: Option<Vec<u8>>,
    /// Whether spaces may stand in front of the end of a size line, as some servers write them.
    may_be_padded: bool,
}

impl Default for ChunkLimits {
    /// 4 KiB, 16 KiB and 8 KiB.
    fn default() -> ChunkLimits {
        ChunkLimits { line: 4 * 1024, extensions: 16 * 1024, trailers: MAX_KEPT }
    }
}

impl ChunkLimits {
    /// Of the body of a response, whose extensions are ignored, however many there are (§7.1.1).
    const OF_RESPONSES: ChunkLimits =
        ChunkLimits { line: 16 * 1024, extensions: usize::MAX, trailers: 64 * 1024 };
}

impl Decoder {
    /// A decoder at the start of a body. The trailer section is discarded.
    pub const fn new(limits: ChunkLimits) -> Decoder {
        let state = State::Size { digits: 0 };
        let may_be_padded = false;
        Decoder { state, limits, size: 0, line: 0, extensions: 0, trailers: 0, kept: None, may_be_padded }
    }

    /// As `new`, with the trailer section kept.
    pub fn keeping_trailers(limits: ChunkLimits) -> Decoder {
        Decoder { kept: Some(Vec::new()), ..Decoder::new(limits) }
    }

    /// Of a response, which has wider limits and may be padded: nothing but its own rest follows it. A trailer section of
    /// at most 8 KiB is kept.
    pub fn of_response() -> Decoder {
        Decoder { may_be_padded: true, ..Decoder::keeping_trailers(ChunkLimits::OF_RESPONSES) }
    }

    /// The lines of the trailer section, once, at the end of the body.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        match (self.state, &mut self.kept) {
            (State::Done, Some(kept)) => std::mem::take(kept),
            _ => Vec::new(),
        }
    }

    /// Reads up to the next event and returns it with the number of consumed bytes. The next call takes the rest of
    /// the input.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), ChunkError> {
        for (at, &byte) in input.iter().enumerate() {
            match self.state {
                State::Data => {
                    let rest = &input[at..];
                    let len = usize::try_from(self.size).map_or(rest.len(), |size| size.min(rest.len()));
                    return Ok((at + len, Event::Data(self.take_data(&rest[..len]))));
                }
                State::Done => return Ok((at, Event::End)),
                State::Rejected(error) => return Err(error),
                state => {
                    self.state = self.step(state, byte).unwrap_or_else(State::Rejected);
                }
            }
        }
        match self.state {
            State::Done => Ok((input.len(), Event::End)),
            State::Rejected(error) => Err(error),
            _ => Ok((input.len(), Event::NeedMore)),
        }
    }

    /// Bytes of data that are missing from the current chunk; 0 between chunks.
    pub const fn pending(&self) -> u64 {
        match self.state {
            State::Data => self.size,
            _ => 0,
        }
    }

    fn take_data<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        self.size -= data.len() as u64;
        if self.size == 0 {
            self.state = State::DataCr;
        }
        data
    }

    /// Takes a byte that is not data.
    fn step(&mut self, state: State, byte: u8) -> Result<State, ChunkError> {
        self.count(state, byte)?;
        let next = match (state, byte) {
            (State::SizeSpace | State::ExtensionNameSpace | State::ValueSpace, b'\r')
                if self.may_be_padded =>
            {
                State::SizeLf
            }
            _ => state.next(byte)?,
        };
        match next {
            State::Size { digits: 0 } => {
                (self.size, self.line) = (0, 0);
                Ok(State::Size { digits: 0 })
            }
            State::Size { digits } => {
                let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Size)?;
                self.size = self.size << 4 | u64::from(digit);
                Ok(State::Size { digits })
            }
            State::Data if self.size == 0 => Ok(State::TrailerStart),
            next => Ok(next),
        }
    }

    fn count(&mut self, state: State, byte: u8) -> Result<(), ChunkError> {
        match state.section() {
            Section::Uncounted => Ok(()),
            Section::SizeLine if byte == b'\r' => Ok(()),
            Section::SizeLine => {
                self.line += 1;
                let is_of_extension = !matches!(state, State::Size { .. }) || byte == b';';
                self.extensions = self.extensions.saturating_add(usize::from(is_of_extension));
                match (self.line > self.limits.line, self.extensions > self.limits.extensions) {
                    (true, _) => Err(ChunkError::LineTooLong),
                    (_, true) => Err(ChunkError::ExtensionsTooLarge),
                    _ => Ok(()),
                }
            }
            Section::Trailers => {
                self.trailers += 1;
                if self.trailers > self.limits.trailers {
                    return Err(ChunkError::TrailersTooLarge);
                }
                if self.trailers > MAX_KEPT {
                    self.kept = None;
                }
                self.kept.iter_mut().for_each(|kept| kept.push(byte));
                Ok(())
            }
        }
    }
}

/// Appends a chunk with this data (RFC 9112 §7.1). Without any, it would be the last chunk, `LAST_CHUNK`, and nothing is
/// appended.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    write_size_line(data.len(), out);
    out.extend_from_slice(data);
    out.extend_from_slice(CRLF);
}

fn write_size_line(len: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (4 * digit) & 15]);
    }
    out.extend_from_slice(CRLF);
}

impl ChunkError {
    /// 431 for a trailer section that is too large (RFC 6585 §5), else 400.
    pub const fn status(self) -> Status {
        match self {
            ChunkError::TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => Status::BAD_REQUEST,
        }
    }
}

rules! {
    ChunkError {
        ChunkError::Size => "chunk-size" "the size of a chunk is not a hexadecimal number",
        ChunkError::SizeTooLarge => "chunk-size-too-large" "the size of a chunk has more than 16 digits",
        ChunkError::Extension => "chunk-extension" "an extension of a chunk is malformed",
        ChunkError::DataEnd => "chunk-data" "the data of a chunk is longer or shorter than its size",
        ChunkError::LineEnd => "chunk-line" "a line of a chunked body does not end with CRLF",
        ChunkError::Trailer => "trailer" "a trailer field is malformed",
        ChunkError::LineTooLong => "chunk-line-too-long" "the size line of a chunk is too long",
        ChunkError::ExtensionsTooLarge => "chunk-extensions-too-large" "the chunks have too many extensions",
        ChunkError::TrailersTooLarge => "trailers-too-large" "the trailer fields are too large",
    }
}

/// The element of the grammar that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    /// Whitespace after the size; an extension must follow.
    SizeSpace,
    ExtensionStart,
    ExtensionName,
    /// Whitespace after the name; `=` or the next extension must follow.
    ExtensionNameSpace,
    ValueStart,
    ValueToken,
    ValueQuoted,
    ValueEscape,
    ValueQuotedEnd,
    /// Whitespace after the value; the next extension must follow.
    ValueSpace,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
    Rejected(ChunkError),
}

/// The limit that a byte counts towards.
enum Section {
    SizeLine,
    Trailers,
    Uncounted,
}

impl State {
    /// RFC 9112 §7.1 and §7.1.1 as a table. A recipient must accept "bad whitespace" around `;` and `=` (RFC 9110
    /// §5.6.3). The grammar has none before the size and before CRLF.
    fn next(self, byte: u8) -> Result<State, ChunkError> {
        use State::*;
        Ok(match (self, byte) {
            (Size { digits: MAX_SIZE_DIGITS }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                return Err(ChunkError::SizeTooLarge);
            }
            (Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => Size { digits: digits + 1 },
            (Size { digits: 0 }, _) => return Err(ChunkError::Size),

            (Size { .. } | ExtensionName | ValueToken | ValueQuotedEnd, b'\r') => SizeLf,
            (Size { .. } | SizeSpace, b' ' | b'\t') => SizeSpace,
            (Size { .. } | SizeSpace, b';') => ExtensionStart,

            (ExtensionStart, b' ' | b'\t') => ExtensionStart,
            (ExtensionStart | ExtensionName, byte) if is_token(&[byte]) => ExtensionName,
            (ExtensionName | ExtensionNameSpace, b' ' | b'\t') => ExtensionNameSpace,
            (ExtensionName | ExtensionNameSpace, b'=') => ValueStart,
            (ExtensionName | ExtensionNameSpace, b';') => ExtensionStart,

            (ValueStart, b' ' | b'\t') => ValueStart,
            (ValueStart, b'"') => ValueQuoted,
            (ValueStart | ValueToken, byte) if is_token(&[byte]) => ValueToken,
            (ValueQuoted, b'"') => ValueQuotedEnd,
            (ValueQuoted, b'\\') => ValueEscape,
            (ValueQuoted | ValueEscape, byte) if is_text(byte) => ValueQuoted,
            (ValueToken | ValueQuotedEnd | ValueSpace, b' ' | b'\t') => ValueSpace,
            (ValueToken | ValueQuotedEnd | ValueSpace, b';') => ExtensionStart,

            (SizeLf, b'\n') => Data,
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => Size { digits: 0 },

            (TrailerStart, b'\r') => EndLf,
            (TrailerStart | TrailerName, byte) if is_token(&[byte]) => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, b'\r') => TrailerLf,
            (TrailerValue, byte) if is_text(byte) => TrailerValue,
            (TrailerLf, b'\n') => TrailerStart,
            (EndLf, b'\n') => Done,

            (state, byte) => return Err(state.error(byte)),
        })
    }

    /// The rule that `byte` breaks if no row of the table accepts it.
    const fn error(self, byte: u8) -> ChunkError {
        use State::*;
        match (self, byte) {
            (Rejected(error), _) => error,
            (Data | DataCr | DataLf | Done, _) => ChunkError::DataEnd,
            (SizeLf | TrailerLf | EndLf, _) | (_, b'\n') => ChunkError::LineEnd,
            (Size { .. } | SizeSpace, _) => ChunkError::Size,
            (TrailerStart | TrailerName | TrailerValue, _) => ChunkError::Trailer,
            _ => ChunkError::Extension,
        }
    }

    const fn section(self) -> Section {
        use State::*;
        match self {
            SizeLf | Data | DataCr | DataLf | Done | Rejected(_) => Section::Uncounted,
            TrailerStart | TrailerName | TrailerValue | TrailerLf | EndLf => Section::Trailers,
            _ => Section::SizeLine,
        }
    }
}

/// Field content and quoted text: no control character except HTAB.
const fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests;
