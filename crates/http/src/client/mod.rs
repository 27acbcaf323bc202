//! The client's side of HTTP/1: the head of a response (RFC 9112 §4 and §5), received in parts of any size. Interim
//! responses (RFC 9110 §15.2) are skipped. Knows nothing of connections and of bodies beyond their length.

pub mod lines;

use std::fmt;

use self::lines::{
    FieldSection, HeadLines, Limits, LineError, Position, Progress, final_status, status_line,
};
use crate::framing::Framing;
use crate::head::{Persistence, Version};
use crate::status::Status;

/// The head of a final response. Its fields are those for the client: no hop-by-hop field is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: Status,
    /// `None`: the body ends where the connection does.
    pub framing: Framing,
    /// Whether the connection can have another request after this response (RFC 9112 §9.3).
    pub persistence: Persistence,
    pub fields: FieldSection,
}

/// Reads the head of one response. Each step returns the parser, so that nothing can be read behind the head.
#[derive(Debug)]
pub struct Parser {
    lines: HeadLines,
    status_line: Option<(Version, u16)>,
    /// An interim response that announces content makes it uncertain where the next response begins.
    persistence: Persistence,
}

#[derive(Debug)]
pub enum Step {
    /// All input is used up, and more will come.
    More(Parser),
    /// So many bytes of the last input belong to the head. The body follows.
    Head(Head, usize),
    Rejected(ResponseError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseError {
    pub cause: LineError,
    pub position: Position,
}

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser { lines: HeadLines::new(limits), status_line: None, persistence: Persistence::KeepAlive }
    }

    pub fn receive(mut self, input: &[u8]) -> Step {
        let mut rest = input;
        // Every turn uses up at least one byte.
        loop {
            let result = match self.lines.read(&mut rest) {
                Ok(Progress::NeedMore) => return Step::More(self),
                Ok(Progress::Line) => self.line(),
                Ok(Progress::End) if self.is_interim() => {
                    self.skip_interim();
                    Ok(())
                }
                Ok(Progress::End) => {
                    return match self.finish() {
                        Ok(head) => Step::Head(head, input.len() - rest.len()),
                        Err(error) => Step::Rejected(error),
                    };
                }
                Err(error) => Err(error),
            };
            if let Err(cause) = result {
                return Step::Rejected(ResponseError { cause, position: self.lines.position() });
            }
        }
    }

    /// The connection ends within the head.
    pub fn end(self) -> ResponseError {
        ResponseError { cause: self.lines.end(), position: self.lines.position() }
    }

    fn line(&mut self) -> Result<(), LineError> {
        if !self.lines.is_first() {
            return self.lines.take_field();
        }
        self.status_line = Some(status_line(self.lines.line())?);
        self.lines.skip();
        Ok(())
    }

    /// 101 is final: another protocol follows it.
    fn is_interim(&self) -> bool {
        matches!(self.status_line, Some((_, 100 | 102..=199)))
    }

    fn skip_interim(&mut self) {
        if !matches!(self.lines.section().framing(Version::Http11), Ok(Framing::None | Framing::Sized(0))) {
            self.persistence = Persistence::Close;
        }
        self.status_line = None;
        self.lines.restart();
    }

    fn finish(self) -> Result<Head, ResponseError> {
        let whole = |cause| ResponseError { cause, position: Position::new(1, b"") };
        let (version, code) = self.status_line.ok_or_else(|| whole(LineError::StatusLine))?;
        let status = final_status(code).map_err(whole)?;
        for name in ["content-type", "location"] {
            self.lines.section().single(name).map_err(|second| ResponseError {
                cause: LineError::Twice,
                position: self.lines.position_of(second),
            })?;
        }
        let mut fields = self.lines.into_section();
        let framing = fields.framing(version).map_err(|error| whole(LineError::Framing(error)))?;
        let closes = version == Version::Http10
            || fields.connection_options().any(|option| option.eq_ignore_ascii_case(b"close"));
        let persistence = if closes { Persistence::Close } else { self.persistence };
        fields.remove_connection_options();
        fields.remove_hop_by_hop();
        Ok(Head { status, framing, persistence, fields })
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.cause.describe(&self.position, out)
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests;
