//! The client's side of HTTP/1: the heads of interim responses (RFC 9110 §15.2) and of the final response (RFC 9112 §4
//! and §5), received in parts of any size; and the head of a request. Knows nothing of connections and of bodies beyond
//! their length.

pub mod lines;
pub mod request;
pub mod section;

use std::fmt;

use self::lines::{HeadLines, Limits, LineError, Position, Progress, final_status, status_line};
use self::section::FieldSection;
use crate::framing::Framing;
use crate::head::{Persistence, Version};
use crate::known::KnownField;
use crate::status::Status;
use crate::trailers;

/// The head of a final response. `fields` has no hop-by-hop fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: Status,
    /// `None`: the body ends with the connection.
    pub framing: Framing,
    /// Whether the connection stays open after this response (RFC 9112 §9.3).
    pub persistence: Persistence,
    pub fields: FieldSection,
    /// The protocol that a 101 switches to, or those that a 426 names, in a list.
    pub upgrade: Option<String>,
    /// The names of the fields that may follow the content, as `Trailer` announces them.
    pub trailer: Option<String>,
    /// There was more than one `Content-Type`. The last one counts (RFC 9110 §8.3).
    pub repeats_type: bool,
}

/// The head of an interim response, but for 101. `fields` has no hop-by-hop fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interim {
    pub status: Status,
    pub fields: FieldSection,
}

/// Parses the heads up to the final one. `receive` consumes the parser, so that no input can follow the end.
#[derive(Debug)]
pub struct Parser {
    lines: HeadLines,
    status_line: Option<(Version, u16)>,
    /// `Close` after an interim response that announces content: the server may send it, and interim responses have
    /// none.
    persistence: Persistence,
    /// Whether a 101 is an answer.
    may_switch: bool,
}

/// What a call of `receive` has led to.
#[derive(Debug)]
pub enum Step {
    /// The input is consumed and the head is not complete.
    More(Parser),
    /// An interim response, and the number of consumed bytes of the last input. The parser takes the rest of the input.
    Interim(Parser, Interim, usize),
    /// The head and the number of consumed bytes of the last input. The body follows.
    Head(Head, usize),
    Rejected(ResponseError),
}

/// A broken rule and its position. `Display` writes it for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseError {
    pub cause: LineError,
    pub position: Position,
}

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser::over(FieldSection::default(), limits)
    }

    /// As `new`, in the memory of a section that is not needed any more.
    pub fn over(section: FieldSection, limits: Limits) -> Parser {
        let (lines, persistence) = (HeadLines::over(section, limits), Persistence::KeepAlive);
        Parser { lines, status_line: None, persistence, may_switch: false }
    }

    /// For the response to a request with `Upgrade`.
    pub fn upgrading(limits: Limits) -> Parser {
        Parser { may_switch: true, ..Parser::new(limits) }
    }

    /// Parses up to the end of the next head.
    pub fn receive(mut self, input: &[u8]) -> Step {
        let mut rest = input;
        // Bounded: each pass takes at least a byte.
        loop {
            if !self.lines.is_first_line() {
                self.lines.read_plain_fields(&mut rest);
            }
            let result = match self.lines.read_line(&mut rest) {
                Ok(Progress::NeedMore) => return Step::More(self),
                Ok(Progress::Line) => self.line(),
                Ok(Progress::End) if self.is_interim() => match self.take_interim() {
                    Ok(interim) => return Step::Interim(self, interim, input.len() - rest.len()),
                    Err(error) => Err(error),
                },
                Ok(Progress::End) => {
                    return match self.finish() {
                        Ok(head) => Step::Head(head, input.len() - rest.len()),
                        Err(error) => Step::Rejected(error),
                    };
                }
                Err(error) => Err(error),
            };
            if let Err(cause) = result {
                let is_other = cause == LineError::Control && self.has_begun_with_control();
                let cause = if is_other { LineError::OtherProtocol } else { cause };
                return Step::Rejected(ResponseError { cause, position: self.lines.position() });
            }
        }
    }

    /// The error of a connection that ends inside the head.
    pub fn end(self) -> ResponseError {
        ResponseError { cause: self.lines.error_at_end(), position: self.lines.position() }
    }

    /// Whether there was nothing before a control character.
    fn has_begun_with_control(&self) -> bool {
        self.lines.is_first_line() && self.lines.line().is_empty()
    }

    fn line(&mut self) -> Result<(), LineError> {
        if !self.lines.is_first_line() {
            return self.lines.add_field();
        }
        self.status_line = Some(status_line(self.lines.line())?);
        self.lines.end_line();
        Ok(())
    }

    /// After 101 the connection has another protocol (RFC 9110 §15.2.2).
    fn is_interim(&self) -> bool {
        matches!(self.status_line, Some((_, 100 | 102..=199)))
    }

    fn take_interim(&mut self) -> Result<Interim, LineError> {
        let code = self.status_line.take().map_or(0, |(_, code)| code);
        let status = Status::new(code).ok_or(LineError::StatusRange)?;
        let mut fields = self.lines.take_interim();
        if !matches!(fields.framing(Version::Http11), Ok(Framing::None | Framing::Sized(0))) {
            self.persistence = Persistence::Close;
        }
        fields.remove_hop_by_hop();
        Ok(Interim { status, fields })
    }

    fn finish(&mut self) -> Result<Head, ResponseError> {
        let whole = |cause| ResponseError { cause, position: Position::new(1, b"") };
        let (version, code) = self.status_line.ok_or_else(|| whole(LineError::StatusLine))?;
        if code == Status::SWITCHING_PROTOCOLS.code() {
            return self.finish_switch(version);
        }
        let status = final_status(code).map_err(whole)?;
        if let Some(second) = self.lines.section().second(KnownField::Location) {
            let position = self.lines.position_of_field(second);
            return Err(ResponseError { cause: LineError::Twice, position });
        }
        let mut fields = self.lines.take_section();
        let repeats_type = fields.keep_last(KnownField::ContentType);
        let framing = fields.framing(version).map_err(|error| whole(LineError::Framing(error)))?;
        let trailer = match fields.known_fields().has(KnownField::Trailer) {
            true => trailers::announced(fields.values_of(KnownField::Trailer), |_| false),
            false => None,
        };
        let upgrade = match status {
            Status::UPGRADE_REQUIRED => list(fields.values_of(KnownField::Upgrade)),
            _ => None,
        };
        let persistence = match (version, fields.remove_hop_by_hop()) {
            (Version::Http10, _) | (_, Persistence::Close) => Persistence::Close,
            _ => self.persistence,
        };
        Ok(Head { status, framing, persistence, fields, upgrade, trailer, repeats_type })
    }

    /// The head of a 101, which has no content and names one protocol (RFC 9110 §7.8).
    fn finish_switch(&mut self, version: Version) -> Result<Head, ResponseError> {
        let whole = |cause| ResponseError { cause, position: Position::new(1, b"") };
        let may_switch = self.may_switch;
        let mut fields = self.lines.take_section();
        let framing = fields.framing(Version::Http11).map_err(|error| whole(LineError::Framing(error)))?;
        let upgrade = fields.single(KnownField::Upgrade).ok().flatten();
        let upgrade = upgrade.and_then(|(_, name)| String::from_utf8(name.to_vec()).ok());
        // Some servers announce that it has no content.
        let has_content = !matches!(framing, Framing::None | Framing::Sized(0));
        if !may_switch || version != Version::Http11 || has_content || upgrade.is_none() {
            return Err(whole(LineError::Switch));
        }
        fields.remove_hop_by_hop();
        let (status, framing, persistence) = (Status::SWITCHING_PROTOCOLS, Framing::None, Persistence::Close);
        Ok(Head { status, framing, persistence, fields, upgrade, trailer: None, repeats_type: false })
    }
}

/// The values of the lines of a field as one list. `None`: there is no line, or one is not text.
fn list<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let values: Option<Vec<&str>> = values.map(|value| std::str::from_utf8(value).ok()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.join(", "))
}

impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.cause.describe(&self.position, out)
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests;
