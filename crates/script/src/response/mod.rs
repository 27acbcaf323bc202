//! The head of a script's response (RFC 3875 §6), received in parts of any size: fields and an empty line, or an HTTP
//! response head with its status line, as `nph-` scripts write it. Knows nothing of the body.

use std::fmt;

use taipan_http::client::lines::{
    FieldSection, HeadLines, LineError, Position, Progress, final_status, status_code, status_line,
};
use taipan_http::fields::{is_name, target_len};
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Version};
use taipan_http::status::Status;

pub use taipan_http::client::lines::Limits;

/// The head of a response. Its fields are those for the client: neither `Status` nor a hop-by-hop field is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub status: Status,
    /// `None`: the body ends where the output does. A body that is `Chunked` has that coding in it.
    pub framing: Framing,
    pub fields: FieldSection,
}

/// RFC 3875 §6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It goes to the client, with the body that follows it.
    Document,
    /// As `Document`; `Location` redirects the client, with the status 302 if the script has given none. RFC 3875
    /// §6.2.2 forbids other fields beside a path. With other fields it is a client redirect, because a cookie that
    /// is set there must reach the client.
    Redirect,
    /// The server answers as if the request were a GET of `Location`, a path and perhaps a query. The head has no
    /// other field.
    LocalRedirect,
}

/// Reads one head. Each step returns the parser, so that nothing can be read behind the head.
#[derive(Debug)]
pub struct Parser {
    lines: HeadLines,
    status_line: Option<(Version, Status)>,
}

#[derive(Debug)]
pub enum Step {
    /// All input is used up, and more will come.
    More(Parser),
    /// So many bytes of the last input belong to the head. The body follows.
    Head(Head, usize),
    Rejected(ResponseError),
}

/// A broken rule, in the words in which an administrator finds it in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseError {
    pub cause: Cause,
    pub position: Position,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    Line(LineError),
    /// The empty line comes first.
    NoField,
    /// `Location` is empty, or a path of this server that no request can have.
    Location,
}

impl From<LineError> for Cause {
    fn from(error: LineError) -> Cause {
        Cause::Line(error)
    }
}

/// A broken rule, and the number of the field that breaks it if it is a single one.
type Fault = (Cause, Option<usize>);

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser { lines: HeadLines::new(limits), status_line: None }
    }

    pub fn receive(mut self, input: &[u8]) -> Step {
        let mut rest = input;
        // Every turn uses up at least one byte.
        loop {
            let result = match self.lines.read(&mut rest) {
                Ok(Progress::NeedMore) => return Step::More(self),
                Ok(Progress::Line) => self.line(),
                Ok(Progress::End) => {
                    return match self.finish() {
                        Ok(head) => Step::Head(head, input.len() - rest.len()),
                        Err(error) => Step::Rejected(error),
                    };
                }
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

    /// The output ends within the head.
    pub fn end(self) -> ResponseError {
        ResponseError { cause: self.lines.end().into(), position: self.lines.position() }
    }

    /// A script sends no interim response.
    fn line(&mut self) -> Result<(), LineError> {
        let line = self.lines.line();
        if !(self.lines.is_first() && line.starts_with(b"HTTP/")) {
            return self.lines.take_field();
        }
        let (version, code) = status_line(line)?;
        self.status_line = Some((version, final_status(code)?));
        self.lines.skip();
        Ok(())
    }

    fn finish(self) -> Result<Head, ResponseError> {
        let result = self.interpret().map_err(|(cause, field)| {
            let position = field.map_or_else(|| Position::new(1, b""), |field| self.lines.position_of(field));
            ResponseError { cause, position }
        });
        let (kind, status, framing) = result?;
        let mut fields = self.lines.into_section();
        if self.status_line.is_some() {
            fields.remove_connection_options();
        }
        fields.remove_hop_by_hop();
        fields.retain(|field| !is_name(field.name, "status"));
        Ok(Head { kind, status, framing, fields })
    }

    /// RFC 3875 §6.2 and §6.3.
    fn interpret(&self) -> Result<(Kind, Status, Framing), Fault> {
        let fields = self.lines.section();
        if self.lines.is_first() {
            return Err((Cause::NoField, None));
        }
        let single =
            |name| fields.single(name).map_err(|second| (Cause::Line(LineError::Twice), Some(second)));
        let status = match (single("status")?, self.status_line) {
            (Some((at, _)), Some(_)) => return Err((Cause::Line(LineError::Twice), Some(at))),
            (Some((at, value)), None) => {
                let status = status_code(value).and_then(final_status);
                Some(status.map_err(|error| (Cause::Line(error), Some(at)))?)
            }
            (None, line) => line.map(|(_, status)| status),
        };
        single("content-type")?;
        let (kind, status) = match single("location")? {
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
        let framing =
            fields.framing(version).map_err(|error| (Cause::Line(LineError::Framing(error)), None))?;
        Ok((kind, status, framing))
    }
}

/// A path of this server (RFC 3875 §6.3.2). `//host` is another server, and a fragment is for the client.
fn is_local(location: &[u8]) -> bool {
    location.starts_with(b"/") && !location.starts_with(b"//") && !location.contains(&b'#')
}

/// The variables that a FastCGI authorizer adds to the environment of the request that it lets pass: the fields
/// `Variable-NAME` (FastCGI §6.3). None of them is for the client.
pub fn variables(fields: &FieldSection) -> impl Iterator<Item = Field<'_>> {
    const PREFIX: &[u8] = b"variable-";
    fields.iter().filter_map(|field| {
        let (prefix, name) = field.name.split_at_checked(PREFIX.len())?;
        (prefix.eq_ignore_ascii_case(PREFIX) && !name.is_empty())
            .then_some(Field { name, value: field.value })
    })
}

/// `line 2: not a field: ...: "Hello\x00"`, on one line whatever the script wrote.
impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let reason = match self.cause {
            Cause::Line(error) => return error.describe(&self.position, out),
            Cause::NoField => "its head has no field: write Content-Type, Status or Location first",
            Cause::Location => "Location is neither a URL nor a path that can be asked for",
        };
        self.position.describe(reason, out)
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests;
