//! Parses the head of a CGI response (RFC 3875 §6), received in parts of any size: fields and an empty line, with a
//! status line before them if the script writes one. A field may go on in the next line. Knows nothing of the body.

use std::fmt;

use taipan_http::client::lines::{
    HeadLines, LineError, Position, Progress, final_status, status_code, status_line,
};
use taipan_http::client::section::FieldSection;
use taipan_http::fields::target_len;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Version};
use taipan_http::known::{KnownField, KnownFields};
use taipan_http::status::Status;

pub use taipan_http::client::lines::Limits;

/// A response head. `fields` has neither `Status` nor hop-by-hop fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub status: Status,
    /// `None`: the body ends with the output. `Chunked`: the output has the chunked coding.
    pub framing: Framing,
    pub fields: FieldSection,
    /// There was more than one `Content-Type`. The last one counts (RFC 9110 §8.3).
    pub repeats_type: bool,
}

/// The type of a CGI response (RFC 3875 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A response for the client.
    Document,
    /// A response for the client with `Location`, and with status 302 unless the script sets one. This includes a
    /// `Location` of a local path with other fields, which RFC 3875 §6.2.2 forbids: a cookie must reach the client.
    Redirect,
    /// The server responds as to a GET request of `Location`, a path with an optional query. The head has no other
    /// field.
    LocalRedirect,
}

/// Parses one head. `receive` consumes the parser, so that no input can follow the end.
#[derive(Debug)]
pub struct Parser {
    lines: HeadLines,
    status_line: Option<(Version, Status)>,
}

/// What a call of `receive` has led to.
#[derive(Debug)]
pub enum Step {
    /// The input is consumed and the head is not complete.
    More(Parser),
    /// The head and the number of consumed bytes of the last input. The body follows.
    Head(Head, usize),
    Rejected(ResponseError),
}

/// A broken rule and its position. `Display` writes it for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseError {
    pub cause: Cause,
    pub position: Position,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    Line(LineError),
    /// The first line is empty.
    NoField,
    /// `Location` is empty, or a path with characters that no request target has.
    Location,
}

impl From<LineError> for Cause {
    fn from(error: LineError) -> Cause {
        Cause::Line(error)
    }
}

/// A broken rule, and the index of the field that breaks it, if it is one field.
type Fault = (Cause, Option<usize>);

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser::over(FieldSection::default(), limits)
    }

    /// As `new`, in the memory of a section that is not needed any more.
    pub fn over(section: FieldSection, limits: Limits) -> Parser {
        Parser { lines: HeadLines::over(section, limits), status_line: None }
    }

    /// Parses up to the end of the head.
    pub fn receive(mut self, input: &[u8]) -> Step {
        let mut rest = input;
        // Bounded: each pass takes at least a byte.
        loop {
            let result = match self.lines.read_line(&mut rest) {
                Ok(Progress::NeedMore) => return Step::More(self),
                Ok(Progress::Line) => self.line(),
                Ok(Progress::End) => {
                    return match self.finish() {
                        Ok(head) => Step::Head(head, input.len() - rest.len()),
                        Err(error) => Step::Rejected(error),
                    };
                }
                // Scripts of the time of RFC 822 write fields on several lines.
                Err(LineError::Folded) => self.lines.unfold(),
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                return Step::Rejected(ResponseError {
                    cause: error.into(),
                    position: self.lines.position(),
                });
            }
        }
    }

    /// The error of an output that ends inside the head.
    pub fn end(self) -> ResponseError {
        ResponseError { cause: self.lines.error_at_end().into(), position: self.lines.position() }
    }

    /// A CGI response has no interim status.
    fn line(&mut self) -> Result<(), LineError> {
        let line = self.lines.line();
        if !(self.lines.is_first_line() && line.starts_with(b"HTTP/")) {
            self.lines.remove_space_before_colon();
            return self.lines.add_field();
        }
        let (version, code) = status_line(line)?;
        self.status_line = Some((version, final_status(code)?));
        self.lines.end_line();
        Ok(())
    }

    fn finish(&mut self) -> Result<Head, ResponseError> {
        let result = self.interpret().map_err(|(cause, field)| {
            let position =
                field.map_or_else(|| Position::new(1, b""), |field| self.lines.position_of_field(field));
            ResponseError { cause, position }
        });
        let (kind, status, framing) = result?;
        let mut fields = self.lines.take_section();
        match self.status_line {
            // What it says of a connection means nothing here.
            Some(_) => _ = fields.remove_hop_by_hop(),
            None => fields.remove_not_passed_on(),
        }
        fields.remove(KnownFields::EMPTY.with(KnownField::Status));
        let repeats_type = fields.keep_last(KnownField::ContentType);
        Ok(Head { kind, status, framing, fields, repeats_type })
    }

    /// RFC 3875 §6.2 and §6.3.
    fn interpret(&self) -> Result<(Kind, Status, Framing), Fault> {
        let fields = self.lines.section();
        if self.lines.is_first_line() {
            return Err((Cause::NoField, None));
        }
        let single =
            |known| fields.single(known).map_err(|second| (Cause::Line(LineError::Twice), Some(second)));
        let status = match (single(KnownField::Status)?, self.status_line) {
            (Some((at, _)), Some(_)) => return Err((Cause::Line(LineError::Twice), Some(at))),
            (Some((at, value)), None) => {
                let status = status_code(value).and_then(final_status);
                Some(status.map_err(|error| (Cause::Line(error), Some(at)))?)
            }
            (None, line) => line.map(|(_, status)| status),
        };
        let (kind, status) = match single(KnownField::Location)? {
            None => (Kind::Document, status.unwrap_or(Status::OK)),
            Some((at, b"")) => return Err((Cause::Location, Some(at))),
            Some((at, path)) if status.is_none() && fields.len() == 1 && is_local(path) => {
                if target_len(path) < path.len() {
                    return Err((Cause::Location, Some(at)));
                }
                (Kind::LocalRedirect, Status::OK)
            }
            Some(_) => (Kind::Redirect, status.unwrap_or(Status::FOUND)),
        };
        let version = self.status_line.map_or(Version::Http11, |(version, _)| version);
        let framing = fields.framing_of_output(version);
        let framing = framing.map_err(|error| (Cause::Line(LineError::Framing(error)), None))?;
        Ok((kind, status, framing))
    }
}

/// Whether `location` is a path of this server (RFC 3875 §6.3.2). `//host` is on another server, and only a client
/// can use a fragment.
fn is_local(location: &[u8]) -> bool {
    location.starts_with(b"/") && !location.starts_with(b"//") && !location.contains(&b'#')
}

/// The fields `Variable-NAME` of a FastCGI authorizer, without the prefix (FastCGI §6.3): variables for the
/// environment of the request.
pub fn variables(fields: &FieldSection) -> impl Iterator<Item = Field<'_>> {
    const PREFIX: &[u8] = b"variable-";
    fields.iter().filter_map(|field| {
        let (prefix, name) = field.name.split_at_checked(PREFIX.len())?;
        (prefix.eq_ignore_ascii_case(PREFIX) && !name.is_empty())
            .then_some(Field { name, value: field.value })
    })
}

/// `line 2: not a field: ...: "Hello\x00"`, always on one line.
impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let reason = match self.cause {
            Cause::Line(error) => return error.describe(&self.position, out),
            Cause::NoField => "its head has no field: write Content-Type, Status or Location first",
            Cause::Location => "Location is neither a URL nor a valid path",
        };
        self.position.describe(reason, out)
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests;
