//! The head that a script writes (RFC 3875 §6), from bytes cut anywhere: fields and an empty line, or a
//! whole reply head with its status line, as `nph-` scripts write it, and whoever speaks HTTP has to.
//!
//! Lines end with LF or CRLF, and a field may have any place in the head. Nothing else is repaired: one
//! pass from the first byte to the last, and the first broken rule ends it, so that what is refused does
//! not depend on how the bytes arrive. Knows nothing of what the body is.

mod error;
mod head;

pub use error::{Cause, ResponseError};
pub use head::{Head, Kind};

use head::Lines;

/// How much head is read before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, from the first to the last of the empty line.
    pub head: usize,
    /// Bytes of one line, without its end.
    pub line: usize,
    /// Field lines.
    pub fields: usize,
}

/// Reads one head. It is handed on from step to step, so that nothing can be read behind the end.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    manner: Manner,
    lines: Lines,
    line: Line,
    /// Bytes so far.
    size: usize,
}

/// What has to stand in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Manner {
    /// Fields, or a status line and fields.
    Cgi,
    /// A status line and fields. What is only on the way to the answer (RFC 9110 §15.2) is passed over.
    Http,
}

/// What has become of a head.
#[derive(Debug)]
pub enum Step {
    /// All input is used up, and more will come.
    More(Parser),
    /// So many bytes of the last input belonged to it. What follows is the body.
    Head(Head, usize),
    Refused(ResponseError),
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Start,
    Within,
    /// Only LF can follow.
    Cr,
}

impl Default for Limits {
    /// 64 KiB, 16 KiB and 100 fields.
    fn default() -> Limits {
        Limits { head: 64 * 1024, line: 16 * 1024, fields: 100 }
    }
}

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser { limits, manner: Manner::Cgi, lines: Lines::default(), line: Line::Start, size: 0 }
    }

    /// For the head of an HTTP/1.x answer (RFC 9112 §4).
    pub fn http(limits: Limits) -> Parser {
        Parser { manner: Manner::Http, ..Parser::new(limits) }
    }

    /// Reads on.
    pub fn receive(mut self, input: &[u8]) -> Step {
        for (at, &byte) in input.iter().enumerate() {
            match self.byte(byte) {
                Ok(Progress::Within) => {}
                Ok(Progress::End) if self.manner == Manner::Http && self.lines.is_interim() => {
                    // Its bytes count on: there is a limit to them, too.
                    (self.lines, self.line) = (self.lines.behind_interim(), Line::Start);
                }
                Ok(Progress::End) => {
                    return match self.lines.finish(self.manner) {
                        Ok(head) => Step::Head(head, at + 1),
                        Err(error) => Step::Refused(error),
                    };
                }
                Err(cause) => return Step::Refused(self.lines.error(cause)),
            }
        }
        Step::More(self)
    }

    /// What it means that nothing more comes.
    pub fn end(self) -> ResponseError {
        match self.size {
            0 => self.lines.error(Cause::Nothing),
            _ => self.lines.error(Cause::Half),
        }
    }

    fn byte(&mut self, byte: u8) -> Result<Progress, Cause> {
        self.size += 1;
        if self.size > self.limits.head {
            return Err(Cause::TooLarge);
        }
        match (self.line, byte) {
            (Line::Start | Line::Cr, b'\n') if self.lines.line().is_empty() => return Ok(Progress::End),
            (Line::Within | Line::Cr, b'\n') => {
                self.lines.end_line(self.manner, self.limits.fields)?;
                self.line = Line::Start;
            }
            (Line::Cr, _) => return Err(Cause::Control),
            (_, b'\r') => self.line = Line::Cr,
            // RFC 3875 §6.3 has no continued lines.
            (Line::Start, b' ' | b'\t') => return Err(Cause::Folded),
            (_, byte) if byte.is_ascii_control() && byte != b'\t' => return Err(Cause::Control),
            _ if self.lines.line().len() >= self.limits.line => return Err(Cause::LineTooLong),
            (_, byte) => {
                self.lines.push(byte);
                self.line = Line::Within;
            }
        }
        Ok(Progress::Within)
    }
}

enum Progress {
    Within,
    End,
}

#[cfg(test)]
mod tests;
