//! The lines of a response head, received in parts of any size, and the field section that they form.
//!
//! Lines end with LF or CRLF (RFC 9112 §2.2). The parser repairs nothing else. It reads from the first byte to the
//! last and stops at the first broken rule, so the result does not depend on the parts. Knows nothing of statuses.

use std::fmt;

use crate::fields::{digits, is_name, text_len, token_len, trim_ows};
use crate::framing::{self, Framing, FramingError};
use crate::head::{Field, Persistence, Version};
use crate::known::{KnownField, KnownFields, NOT_PASSED_ON};
use crate::status::Status;
use crate::write::field_line;

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

/// Fields in the order of their lines. A name is a token; a value has no control character except HTAB.
#[derive(Debug, Clone, Default)]
pub struct FieldSection {
    /// The lines. A plain one is followed by its CRLF.
    bytes: Vec<u8>,
    lines: Vec<FieldLine>,
    /// Of all lines that are not removed.
    known: KnownFields,
    /// Those of `known` with more than one line.
    repeated: KnownFields,
    /// Their lines stay, and are passed over.
    removed: KnownFields,
}

/// A line of a field section, with the kind of its field.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedLine<'a> {
    line: &'a FieldLine,
    bytes: &'a [u8],
}

/// Bytes and fields for which a head that begins gets memory. Most have fewer.
const USUAL: (usize, usize) = (512, 16);

/// The position of a field in the bytes of its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FieldLine {
    start: u32,
    colon: u32,
    /// Of the value, without the spaces around it.
    value: (u32, u32),
    known: Option<KnownField>,
    /// Its bytes are `Name: value` and CRLF.
    is_plain: bool,
}

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
    /// A head of 64 KiB, lines of 16 KiB, and 100 fields.
    fn default() -> Limits {
        Limits { head: 64 * 1024, line: 16 * 1024, fields: 100 }
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

impl PartialEq for FieldSection {
    fn eq(&self, other: &FieldSection) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FieldSection {}

impl FieldSection {
    fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        (self.known, self.repeated, self.removed) =
            (KnownFields::EMPTY, KnownFields::EMPTY, KnownFields::EMPTY);
    }

    #[inline]
    fn push(&mut self, line: FieldLine) {
        if let Some(known) = line.known {
            match self.known.has(known) {
                true => self.repeated = self.repeated.with(known),
                false => self.known = self.known.with(known),
            }
        }
        self.lines.push(line);
    }

    /// Bytes that it has from the allocator.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<FieldLine>()
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        self.lines().map(ReceivedLine::field)
    }

    pub fn len(&self) -> usize {
        self.lines().count()
    }

    pub fn is_empty(&self) -> bool {
        self.lines().next().is_none()
    }

    /// The values of all fields of this name, in order. `name` as for `fields::is_name`.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &[u8]> + Clone {
        self.iter().filter(move |field| is_name(field.name, name)).map(|field| field.value)
    }

    /// The value of the first field of this name.
    pub fn value(&self, name: &'static str) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// The lines in order.
    pub fn lines(&self) -> impl Iterator<Item = ReceivedLine<'_>> + Clone {
        self.lines_without(KnownFields::EMPTY)
    }

    /// The lines of all fields but those of `without`.
    pub fn lines_without(&self, without: KnownFields) -> impl Iterator<Item = ReceivedLine<'_>> + Clone {
        let without = self.removed.union(without);
        let lines = self.lines.iter().filter(move |line| !line.is_of(without));
        lines.map(|line| ReceivedLine { line, bytes: &self.bytes })
    }

    /// Appends the lines of all fields but those of `without`.
    pub fn write(&self, without: KnownFields, out: &mut Vec<u8>) {
        let without = self.removed.union(without);
        // Plain lines that follow one another are copied together.
        let mut plain = 0..0;
        for line in self.lines.iter().filter(|line| !line.is_of(without)) {
            let start = line.start as usize;
            if !line.is_plain || start != plain.end {
                out.extend_from_slice(&self.bytes[plain]);
                plain = start..start;
            }
            match line.is_plain {
                true => plain.end = line.value.1 as usize + b"\r\n".len(),
                false => {
                    let Field { name, value } = line.field(&self.bytes);
                    field_line(name, value, out);
                }
            }
        }
        out.extend_from_slice(&self.bytes[plain]);
    }

    /// The values of all fields of this kind, in order.
    pub fn values_of(&self, known: KnownField) -> impl Iterator<Item = &[u8]> + Clone {
        let most = match (self.known.has(known), self.repeated.has(known)) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => usize::MAX,
        };
        let lines = self.lines.iter().filter(move |line| line.known == Some(known)).take(most);
        lines.map(|line| line.field(&self.bytes).value)
    }

    /// The known fields that are in it.
    pub const fn known_fields(&self) -> KnownFields {
        self.known
    }

    /// The index and the value of the only field of this kind. Errors: the index of a second one.
    pub fn single(&self, known: KnownField) -> Result<Option<(usize, &[u8])>, usize> {
        if let Some(second) = self.second(known) {
            return Err(second);
        }
        if !self.known.has(known) {
            return Ok(None);
        }
        let first = self.lines.iter().enumerate().find(|(_, line)| line.known == Some(known));
        Ok(first.map(|(at, line)| (at, line.field(&self.bytes).value)))
    }

    /// The index of the second field of this kind.
    pub fn second(&self, known: KnownField) -> Option<usize> {
        if !self.repeated.has(known) {
            return None;
        }
        let mut lines = self.lines.iter().enumerate().filter(|(_, line)| line.known == Some(known));
        lines.nth(1).map(|(at, _)| at)
    }

    /// The framing that these fields announce. A length may have leading zeros, which programs print with a fixed
    /// width. They are an error in a request, where another parser could read an octal number.
    pub fn framing(&self, version: Version) -> Result<Framing, FramingError> {
        let lengths = self.values_of(KnownField::ContentLength).map(without_zeros);
        framing::of(version, lengths, self.values_of(KnownField::TransferEncoding))
    }

    /// The options of `Connection`.
    fn connection_options(&self) -> impl Iterator<Item = &[u8]> {
        self.values_of(KnownField::Connection)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(trim_ows)
    }

    /// Removes the fields `NOT_PASSED_ON`.
    pub fn remove_not_passed_on(&mut self) {
        self.remove(NOT_PASSED_ON);
    }

    /// Removes the fields `NOT_PASSED_ON`, and those that `Connection` names (RFC 9110 §7.6.1). Returns what its options
    /// say of the connection (RFC 9112 §9.3): `KeepAlive`, unless one of them is `close`.
    pub fn remove_hop_by_hop(&mut self) -> Persistence {
        // The only option in most heads. They need no list.
        if self.values_of(KnownField::Connection).all(|value| is_name(value, "keep-alive")) {
            self.remove_not_passed_on();
            return Persistence::KeepAlive;
        }
        let closes = self.connection_options().any(|option| is_name(option, "close"));
        let options = self.connection_options().filter(|option| !NOT_PASSED_ON.has_name(option));
        let options: Vec<Vec<u8>> = options.map(<[u8]>::to_vec).collect();
        if !options.is_empty() {
            let is_option = |name: &[u8]| options.iter().any(|option| option.eq_ignore_ascii_case(name));
            self.lines.retain(|line| !is_option(line.field(&self.bytes).name));
            self.known = self.lines().filter_map(ReceivedLine::known).collect();
        }
        self.remove_not_passed_on();
        if closes { Persistence::Close } else { Persistence::KeepAlive }
    }

    /// Removes all fields of these kinds.
    pub fn remove(&mut self, fields: KnownFields) {
        self.removed = self.removed.union(fields);
        self.known = self.known.without(fields);
    }

    /// Removes all fields of this kind but the last. `false`: there were no others.
    pub fn keep_last(&mut self, known: KnownField) -> bool {
        if !self.repeated.has(known) {
            return false;
        }
        let mut others = self.values_of(known).count().saturating_sub(1);
        self.lines.retain(|line| {
            let is_other = others > 0 && line.known == Some(known);
            others -= usize::from(is_other);
            !is_other
        });
        true
    }
}

impl FieldLine {
    /// `line`, without its end, is at `start` in its section, and its name ends at `colon`. The limit of a head keeps
    /// all positions within 32 bits.
    fn of(start: usize, line: &[u8], colon: usize) -> FieldLine {
        let behind = &line[colon + 1..];
        let spaces = behind.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let value = trim_ows(&behind[spaces..]).len();
        let from = start + colon + 1 + spaces;
        FieldLine {
            start: start as u32,
            colon: (start + colon) as u32,
            value: (from as u32, (from + value) as u32),
            known: KnownField::of(&line[..colon]),
            is_plain: false,
        }
    }

    fn is_of(&self, fields: KnownFields) -> bool {
        self.known.is_some_and(|known| fields.has(known))
    }

    fn field<'a>(&self, bytes: &'a [u8]) -> Field<'a> {
        let (start, end) = self.value;
        let name = &bytes[self.start as usize..self.colon as usize];
        Field { name, value: &bytes[start as usize..end as usize] }
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

impl<'a> ReceivedLine<'a> {
    /// `None`: the field does not decide how a message is received, checked or passed on.
    pub fn known(self) -> Option<KnownField> {
        self.line.known
    }

    pub fn field(self) -> Field<'a> {
        self.line.field(self.bytes)
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

fn without_zeros(length: &[u8]) -> &[u8] {
    let zeros = length.iter().take_while(|digit| **digit == b'0').count();
    &length[zeros.min(length.len().saturating_sub(1))..]
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
