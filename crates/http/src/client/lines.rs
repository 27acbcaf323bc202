//! The lines of a response head, received in parts of any size.
//!
//! Lines end with LF or CRLF (RFC 9112 §2.2). The parser repairs nothing else. It reads from the first byte to the
//! last and stops at the first broken rule, so the result does not depend on the parts. Knows nothing of statuses.

use std::fmt;

use super::section::{FieldLine, FieldSection};
use crate::fields::{digits, text_len, token_len};
use crate::framing::FramingError;
use crate::head::Version;
use crate::known::KnownField;
use crate::status::Status;

/// Bytes of a line that an error quotes.
const QUOTED: usize = 60;

/// The parser rejects a larger head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the head with the empty line.
    pub head: usize,
    /// Bytes of a line, without LF or CRLF.
    pub line: usize,
    /// Field lines.
    pub fields: usize,
}

/// Reads lines. The caller takes each complete line as a field, or skips it.
#[derive(Debug)]
pub struct HeadLines {
    limits: Limits,
    section: FieldSection,
    /// The position of the current line in the bytes of the section.
    start: usize,
    /// Complete lines.
    count: usize,
    /// Bytes, also of interim responses before this head.
    size: usize,
    state: LineState,
}

/// The position in the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    Start,
    Within,
    /// After CR. LF must follow.
    Cr,
}

/// What a call of `read_line` has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The input is consumed.
    NeedMore,
    /// `line` is complete.
    Line,
    /// The empty line: the head is complete.
    End,
}

/// Bytes and fields for which a head that begins gets memory. Most have fewer.
const USUAL: (usize, usize) = (512, 16);

/// A line of the form `Name: value` and CRLF, as nearly all are: text without HTAB, and no other space around the value.
struct PlainLine {
    colon: usize,
    /// Bytes without CRLF.
    length: usize,
    known: Option<KnownField>,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineError {
    /// The input ends without a byte.
    Empty,
    /// The input ends inside the head.
    Incomplete,
    /// A line without a token and a colon.
    Malformed,
    /// A line that begins with a space or HTAB (RFC 9112 §5.2).
    Folded,
    /// A control character, or CR without LF.
    Control,
    /// A control character at the beginning of the response of a server.
    OtherProtocol,
    /// Not a status line (RFC 9112 §4).
    StatusLine,
    /// Not three digits and a reason phrase.
    Status,
    /// Below 200 or above 599: not a final status.
    StatusRange,
    /// A 101 that no request asks for, that does not name one protocol, or that has content (RFC 9110 §7.8).
    Switch,
    /// A second field of a name that allows one.
    Twice,
    /// The length of the body is ambiguous.
    Framing(FramingError),
    LineTooLong,
    TooManyFields,
    TooLarge,
}

/// The line with the broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The number of the line, from 1.
    pub line: usize,
    /// The beginning of the line, as far as it is received.
    pub text: Box<[u8]>,
}

impl Default for Limits {
    /// A head of 64 KiB, lines of 16 KiB, and 256 fields.
    fn default() -> Limits {
        Limits { head: 64 * 1024, line: 16 * 1024, fields: 256 }
    }
}

/// A value may have none of these.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

impl HeadLines {
    /// Lines of a head of which nothing has been received.
    pub fn new(limits: Limits) -> HeadLines {
        HeadLines::over(FieldSection::default(), limits)
    }

    /// As `new`, in the memory of a section that is not needed any more.
    pub fn over(mut section: FieldSection, limits: Limits) -> HeadLines {
        section.clear();
        HeadLines { limits, section, start: 0, count: 0, size: 0, state: LineState::Start }
    }

    /// Reads up to the end of a line. Removes the consumed bytes from `input`.
    pub fn read_line(&mut self, input: &mut &[u8]) -> Result<Progress, LineError> {
        match self.read_whole_line(input) {
            Some(progress) => Ok(progress),
            None => self.read_part_of_line(input),
        }
    }

    /// Reads a line that is whole in the input, as nearly all are: text without HTAB, and CRLF. `None`: it is another
    /// one, and nothing is read.
    #[inline]
    fn read_whole_line(&mut self, input: &mut &[u8]) -> Option<Progress> {
        let length = text_len(input);
        let (text, rest) = input.split_at(length);
        let rest = rest.strip_prefix(b"\r\n")?;
        let size = self.size + length + b"\r\n".len();
        let is_usual = self.state == LineState::Start
            && text.first() != Some(&b' ')
            && length <= self.limits.line
            && size <= self.limits.head;
        if !is_usual {
            return None;
        }
        self.append(text);
        (self.size, *input) = (size, rest);
        Some(if text.is_empty() { Progress::End } else { Progress::Line })
    }

    /// Reads plain lines that are whole as fields, and copies them all at once. `read_line` reads the first other line.
    pub fn read_plain_fields(&mut self, input: &mut &[u8]) {
        if self.state != LineState::Start {
            return;
        }
        let (bytes, before, mut at) = (*input, self.section.bytes.len(), 0);
        let room = self.limits.head.saturating_sub(self.size);
        while self.section.lines.len() < self.limits.fields
            && let Some(line) = PlainLine::first(&bytes[at..])
            && line.length <= self.limits.line
            && at + line.size() <= room
        {
            self.section.push(line.at(before + at));
            self.count += 1;
            at += line.size();
        }
        self.size += at;
        self.section.bytes.extend_from_slice(&bytes[..at]);
        self.start = self.section.bytes.len();
        *input = &bytes[at..];
    }

    fn read_part_of_line(&mut self, input: &mut &[u8]) -> Result<Progress, LineError> {
        while let Some(&first) = input.first() {
            let is_text = match self.state {
                LineState::Start => !first.is_ascii_control() && first != b' ',
                LineState::Within => !first.is_ascii_control(),
                LineState::Cr => false,
            };
            // The text of the line at once, as nothing in it has to be looked at.
            if is_text {
                self.state = LineState::Within;
                self.read_text(input)?;
                continue;
            }
            let (byte, rest) = (first, &input[1..]);
            *input = rest;
            self.size += 1;
            if self.size > self.limits.head {
                return Err(LineError::TooLarge);
            }
            match (self.state, byte) {
                (LineState::Start | LineState::Cr, b'\n') if self.line().is_empty() => {
                    return Ok(Progress::End);
                }
                (LineState::Within | LineState::Cr, b'\n') => {
                    self.state = LineState::Start;
                    return Ok(Progress::Line);
                }
                (LineState::Cr, _) => return Err(LineError::Control),
                (_, b'\r') => self.state = LineState::Cr,
                (LineState::Start, b' ' | b'\t') => return Err(LineError::Folded),
                (_, byte) if is_control(byte) => return Err(LineError::Control),
                _ if self.line().len() >= self.limits.line => return Err(LineError::LineTooLong),
                (_, byte) => {
                    self.section.bytes.push(byte);
                    self.state = LineState::Within;
                }
            }
        }
        Ok(Progress::NeedMore)
    }

    /// Adds the bytes in front of the next control character to the current line. Errors: a limit, where it is reached.
    fn read_text(&mut self, input: &mut &[u8]) -> Result<(), LineError> {
        let length = text_len(input);
        let of_head = self.limits.head - self.size.min(self.limits.head);
        let of_line = self.limits.line - self.line().len().min(self.limits.line);
        let (text, rest) = input.split_at(length.min(of_head).min(of_line));
        self.append(text);
        self.size += text.len();
        *input = rest;
        if text.len() == length {
            return Ok(());
        }
        // The byte beyond the limit counts, too.
        self.size += 1;
        *input = &rest[1..];
        Err(if of_head <= of_line { LineError::TooLarge } else { LineError::LineTooLong })
    }

    #[inline]
    fn append(&mut self, text: &[u8]) {
        if self.section.bytes.capacity() < USUAL.0 {
            self.section.bytes.reserve(USUAL.0);
            self.section.lines.reserve(USUAL.1);
        }
        self.section.bytes.extend_from_slice(text);
    }

    /// The current line as far as it is received, without its end.
    pub fn line(&self) -> &[u8] {
        &self.section.bytes[self.start..]
    }

    /// No line is complete yet.
    pub fn is_first_line(&self) -> bool {
        self.count == 0
    }

    /// Adds the complete line to the section as a field.
    pub fn add_field(&mut self) -> Result<(), LineError> {
        let line = self.line();
        let colon = token_len(line);
        if colon == 0 || line.get(colon) != Some(&b':') {
            return Err(LineError::Malformed);
        }
        if self.section.lines.len() >= self.limits.fields {
            return Err(LineError::TooManyFields);
        }
        let field = FieldLine::of(self.start, line, colon);
        self.section.push(field);
        self.end_line();
        Ok(())
    }

    /// Continues the field before a line that begins with a space or HTAB, with a space in place of the end of its line,
    /// as a gateway may (RFC 9112 §5.2). To be called after `Folded`. Errors: there is no field before it.
    pub fn unfold(&mut self) -> Result<(), LineError> {
        let field = self.section.pop().ok_or(LineError::Folded)?;
        self.section.bytes.truncate(field.value.1 as usize);
        self.section.bytes.push(b' ');
        self.start = field.start as usize;
        self.state = LineState::Within;
        Ok(())
    }

    /// Removes the space between the name and the colon of the complete line, as a proxy must (RFC 9112 §5.1).
    pub fn remove_space_before_colon(&mut self) {
        let line = self.line();
        let name = token_len(line);
        let space = line[name..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if name > 0 && space > 0 && line.get(name + space) == Some(&b':') {
            let at = self.start + name;
            self.section.bytes.drain(at..at + space);
        }
    }

    /// Ends the complete line. The next one begins.
    pub fn end_line(&mut self) {
        self.start = self.section.bytes.len();
        self.count += 1;
    }

    /// Takes the fields of an interim response. Its bytes count towards the limit of the head.
    pub fn take_interim(&mut self) -> FieldSection {
        let section = self.take_section();
        *self = HeadLines { size: self.size, ..HeadLines::new(self.limits) };
        section
    }

    /// The fields so far, with those of one connection.
    pub fn section(&self) -> &FieldSection {
        &self.section
    }

    /// Takes the fields. The lines that follow are another head.
    pub fn take_section(&mut self) -> FieldSection {
        std::mem::take(&mut self.section)
    }

    /// The rule that the end of the input breaks.
    pub fn error_at_end(&self) -> LineError {
        if self.size == 0 { LineError::Empty } else { LineError::Incomplete }
    }

    /// The position of the current line.
    pub fn position(&self) -> Position {
        Position::new(self.count + 1, self.line())
    }

    /// The position of a field, by its index.
    pub fn position_of_field(&self, field: usize) -> Position {
        let FieldLine { start, value: (_, end), .. } = self.section.lines[field];
        let others = self.count - self.section.lines.len();
        Position::new(field + others + 1, &self.section.bytes[start as usize..end as usize])
    }
}

impl PlainLine {
    /// The first line of the input. `None`: it is another one, or not whole.
    #[inline]
    fn first(input: &[u8]) -> Option<PlainLine> {
        let colon = token_len(input);
        let (name, behind) = input.split_at(colon);
        let value = behind.strip_prefix(b": ").filter(|_| colon > 0)?;
        let text = text_len(value);
        let (value, behind) = value.split_at(text);
        // The value has no other space than this.
        let is_shown = |byte: Option<&u8>| byte != Some(&b' ');
        let is_plain =
            behind.first_chunk() == Some(b"\r\n") && is_shown(value.first()) && is_shown(value.last());
        let length = colon + b": ".len() + text;
        is_plain.then(|| PlainLine { colon, length, known: KnownField::of(name) })
    }

    /// Bytes with its end.
    fn size(&self) -> usize {
        self.length + b"\r\n".len()
    }

    /// The line at `start` of its section. The limit of a head keeps all positions within 32 bits.
    fn at(&self, start: usize) -> FieldLine {
        let PlainLine { colon, length, known } = *self;
        let value = (start + colon + b": ".len()) as u32;
        FieldLine {
            start: start as u32,
            colon: (start + colon) as u32,
            value: (value, (start + length) as u32),
            known,
            is_plain: true,
        }
    }
}

/// Parses `HTTP/1.1 200 OK` (RFC 9112 §4).
pub fn status_line(line: &[u8]) -> Result<(Version, u16), LineError> {
    let (version, rest) = line.split_at_checked(b"HTTP/1.1 ".len()).ok_or(LineError::StatusLine)?;
    let version = match version {
        b"HTTP/1.0 " => Version::Http10,
        b"HTTP/1.1 " => Version::Http11,
        _ => return Err(LineError::StatusLine),
    };
    Ok((version, status_code(rest)?))
}

/// Parses `200` or `200 OK`. The reason phrase is ignored.
pub fn status_code(value: &[u8]) -> Result<u16, LineError> {
    let (code, rest) = value.split_at_checked(3).ok_or(LineError::Status)?;
    match digits(code) {
        Some(code) if matches!(rest, [] | [b' ' | b'\t', ..]) => Ok(code as u16),
        _ => Err(LineError::Status),
    }
}

/// The status of a final response.
pub fn final_status(code: u16) -> Result<Status, LineError> {
    Status::new(code).filter(|status| status.code() >= 200).ok_or(LineError::StatusRange)
}

impl Position {
    /// `line` counts from 1. Of `text`, only the beginning is kept.
    pub fn new(line: usize, text: &[u8]) -> Position {
        Position { line, text: text[..text.len().min(QUOTED)].into() }
    }

    /// `line 2: not a field: ...: "Hello\x00"`, always on one line.
    pub fn describe(&self, reason: &str, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "line {}: {reason}", self.line)?;
        match &*self.text {
            b"" => Ok(()),
            text => write!(out, ": \"{}\"", text.escape_ascii()),
        }
    }
}

impl LineError {
    /// Writes the error with its position, for the log.
    pub fn describe(self, position: &Position, out: &mut fmt::Formatter) -> fmt::Result {
        let reason = match self {
            LineError::Empty => return out.write_str("it ended without writing anything"),
            LineError::Framing(error) => return write!(out, "in its head: {error}"),
            LineError::Incomplete => "it ended before the empty line that ends its head",
            LineError::Malformed => {
                "not a field: write \"Name: value\" lines and an empty line before the body"
            }
            LineError::Folded => "a field cannot be continued on the next line",
            LineError::Control => {
                "control character in the head; is this the body, without a head before it?"
            }
            LineError::OtherProtocol => {
                "another protocol than HTTP/1.1, such as TLS (`https`) or HTTP/2 (`http2`)"
            }
            LineError::StatusLine => {
                "malformed status line: write \"HTTP/1.1 200 OK\", or \"Status: 200 OK\""
            }
            LineError::Status => "the status is not three digits and a reason, as \"404 Not Found\"",
            LineError::StatusRange => "the status is not within 200 and 599",
            LineError::Switch => {
                "a status of 101 needs a request for it, HTTP/1.1, one \"Upgrade\" field, and no content"
            }
            LineError::Twice => "a second field where there can be only one",
            LineError::LineTooLong => "a line of the head is too long",
            LineError::TooManyFields => "too many fields in the head",
            LineError::TooLarge => "the head is too large",
        };
        position.describe(reason, out)
    }
}
