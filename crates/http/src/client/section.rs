//! The field section of a response head that was received: its lines as they came, and where the fields are in them.

use crate::fields::{is_name, trim_ows};
use crate::framing::{self, Framing, FramingError};
use crate::head::{Field, Persistence, Version};
use crate::known::{KnownField, KnownFields, NOT_PASSED_ON};
use crate::write::field_line;

/// Fields in the order of their lines. A name is a token; a value has no control character except HTAB.
#[derive(Debug, Clone, Default)]
pub struct FieldSection {
    /// The lines. A plain one is followed by its CRLF.
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Vec<FieldLine>,
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

/// The position of a field in the bytes of its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldLine {
    pub(super) start: u32,
    pub(super) colon: u32,
    /// Of the value, without the spaces around it.
    pub(super) value: (u32, u32),
    pub(super) known: Option<KnownField>,
    /// Its bytes are `Name: value` and CRLF.
    pub(super) is_plain: bool,
}

impl PartialEq for FieldSection {
    fn eq(&self, other: &FieldSection) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FieldSection {}

impl FieldSection {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        (self.known, self.repeated, self.removed) =
            (KnownFields::EMPTY, KnownFields::EMPTY, KnownFields::EMPTY);
    }

    #[inline]
    pub(super) fn push(&mut self, line: FieldLine) {
        if let Some(known) = line.known {
            match self.known.has(known) {
                true => self.repeated = self.repeated.with(known),
                false => self.known = self.known.with(known),
            }
        }
        self.lines.push(line);
    }

    /// Takes the last line back, but not its bytes.
    pub(super) fn pop(&mut self) -> Option<FieldLine> {
        let line = self.lines.pop()?;
        if let Some(known) = line.known {
            let own = KnownFields::EMPTY.with(known);
            let others = self.lines.iter().filter(|other| other.known == Some(known)).take(2).count();
            if others < 2 {
                self.repeated = self.repeated.without(own);
            }
            if others < 1 {
                self.known = self.known.without(own);
            }
        }
        Some(line)
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

    /// As `framing`, for a head that nothing but the end of the output can follow: no other response begins where a
    /// wrong length ends. Equal lengths are one, and the coding `identity` is none (RFC 2616 §3.6).
    pub fn framing_of_output(&self, version: Version) -> Result<Framing, FramingError> {
        let mut last = None;
        let lengths = self.values_of(KnownField::ContentLength).map(without_zeros);
        let lengths = lengths.filter(|length| last.replace(*length) != Some(*length));
        let codings = self.values_of(KnownField::TransferEncoding);
        framing::of(version, lengths, codings.filter(|coding| !is_name(coding, "identity")))
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
    pub(super) fn of(start: usize, line: &[u8], colon: usize) -> FieldLine {
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

impl<'a> ReceivedLine<'a> {
    /// `None`: the field does not decide how a message is received, checked or passed on.
    pub fn known(self) -> Option<KnownField> {
        self.line.known
    }

    pub fn field(self) -> Field<'a> {
        self.line.field(self.bytes)
    }
}

fn without_zeros(length: &[u8]) -> &[u8] {
    let zeros = length.iter().take_while(|digit| **digit == b'0').count();
    &length[zeros.min(length.len().saturating_sub(1))..]
}
