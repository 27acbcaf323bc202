//! What is wrong with the head of a script's reply, in the words in which an administrator finds it in
//! the log.

use std::fmt;

use taipan_http::framing::FramingError;

/// Bytes of a line that an error quotes.
const QUOTED: usize = 60;

/// A broken rule, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseError {
    pub cause: Cause,
    /// From 1.
    pub line: usize,
    /// How that line begins, as far as it has come.
    pub text: Box<[u8]>,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The script has ended without a word.
    Nothing,
    /// It has ended within its head.
    Half,
    /// The empty line comes first.
    NoField,
    /// A line without a colon, or with something before it that is no token.
    Malformed,
    /// A line that begins with a space or tab.
    Folded,
    /// A control character, or CR without LF.
    Control,
    /// Not three digits and a reason.
    Status,
    /// Below 200 or above 599: not how a reply can end.
    StatusRange,
    /// Begins with `HTTP/` and is no status line.
    StatusLine,
    /// `Location` is empty, or a path of this server that no request could ask.
    Location,
    /// One of the fields that there can be one of: `Status` (or a status line), `Location`,
    /// `Content-Type`.
    Twice,
    /// How long the body is cannot be said.
    Framing(FramingError),
    LineTooLong,
    TooManyFields,
    TooLarge,
}

impl ResponseError {
    pub(super) fn new(cause: Cause, line: usize, text: &[u8]) -> ResponseError {
        ResponseError { cause, line, text: text[..text.len().min(QUOTED)].into() }
    }
}

impl Cause {
    const fn reason(self) -> &'static str {
        match self {
            Cause::Nothing => "it ended without writing anything",
            Cause::Half => "it ended before the empty line that ends its head",
            Cause::NoField => "its head has no field: write Content-Type, Status or Location first",
            Cause::Malformed => "not a field: write \"Name: value\" lines and an empty line before the body",
            Cause::Folded => "a field cannot be continued on the next line",
            Cause::Control => "control character in the head; is this the body, without a head before it?",
            Cause::Status => "the status is not three digits and a reason, as \"404 Not Found\"",
            Cause::StatusRange => "the status is not within 200 and 599",
            Cause::StatusLine => "malformed status line: write \"HTTP/1.1 200 OK\", or \"Status: 200 OK\"",
            Cause::Location => "Location is neither a URL nor a path that can be asked for",
            Cause::Twice => "a second field where there can be only one",
            // What it is, `Display` of it says.
            Cause::Framing(_) => "",
            Cause::LineTooLong => "a line of the head is too long",
            Cause::TooManyFields => "too many fields in the head",
            Cause::TooLarge => "the head is too large",
        }
    }
}

/// `line 2: not a field: ...: "Hello\x00"`, on one line whatever the script wrote.
impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.cause {
            Cause::Nothing => return out.write_str(self.cause.reason()),
            Cause::Framing(error) => return write!(out, "in its head: {error}"),
            cause => write!(out, "line {}: {}", self.line, cause.reason())?,
        }
        match &*self.text {
            b"" => Ok(()),
            text => write!(out, ": \"{}\"", text.escape_ascii()),
        }
    }
}

impl std::error::Error for ResponseError {}
