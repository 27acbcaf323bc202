//! What the lines of a reply head say, taken together (RFC 3875 §6.2 and §6.3).

use taipan_http::fields::{digits, is_name, target_len, token_len, trim_ows};
use taipan_http::framing::{self, Framing};
use taipan_http::head::{Field, Version};
use taipan_http::status::Status;

use super::{Cause, Manner, ResponseError};

/// For the next hop and not for the client (RFC 9110 §7.6.1): the server writes its own.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// A head. What it says of framing and status is not among its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub status: Status,
    /// `None`: the body ends where the output does. A body that is `Chunked` has that coding in it.
    pub framing: Framing,
    /// Of the status line, if there is one.
    pub version: Option<Version>,
    interim: Interim,
    bytes: Vec<u8>,
    fields: Vec<Place>,
}

/// What has come before the head, on the way to it (RFC 9110 §15.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
enum Interim {
    #[default]
    Sound,
    /// A response that has no content has announced some. Its sender may think that it has sent it.
    Misframed,
}

/// RFC 3875 §6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It goes to the client, with what follows it.
    Document,
    /// As `Document`; `Location` leads the client elsewhere, with the status 302 if the script has said
    /// none. A path with more than itself in the head is such a one: RFC 3875 §6.2.2 forbids fields
    /// beside it, and a cookie that is set there must reach the client.
    Redirect,
    /// The server is to answer as if `Location`, a path and perhaps a query, had been asked with GET.
    /// There is nothing else in the head.
    LocalRedirect,
}

/// A field in the bytes of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    start: usize,
    colon: usize,
    end: usize,
}

impl Head {
    /// What is for the client, in the order of the script. A name is a token; a value has no control but
    /// HTAB.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let usual = |field: &Field| {
            !is_name(field.name, "status")
                && !HOP_BY_HOP.iter().any(|name| is_name(field.name, name))
                // Whoever speaks HTTP may name more of them (RFC 9110 §7.6.1).
                && (self.version.is_none()
                    || !self.connection().any(|option| option.eq_ignore_ascii_case(field.name)))
        };
        all(&self.bytes, &self.fields).filter(usual)
    }

    /// The value of the first field with this name.
    pub fn value(&self, name: &'static str) -> Option<&[u8]> {
        self.fields().find(|field| is_name(field.name, name)).map(|field| field.value)
    }

    /// Whether its sender waits for another request on the same connection (RFC 9112 §9.3).
    pub fn persists(&self) -> bool {
        self.version == Some(Version::Http11)
            && self.interim == Interim::Sound
            && !self.connection().any(|option| option.eq_ignore_ascii_case(b"close"))
    }

    /// Whether any content is announced. Where none can come, as after HEAD, its sender may send it all the same.
    pub fn announces_content(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Sized(0))
    }

    /// The options of `Connection`, which name fields, too.
    fn connection(&self) -> impl Iterator<Item = &[u8]> {
        let named = all(&self.bytes, &self.fields).filter(|field| is_name(field.name, "connection"));
        named.flat_map(|field| field.value.split(|byte| *byte == b',')).map(trim_ows)
    }

    /// What a FastCGI authorizer adds to the environment of the request that it lets pass: the fields
    /// `Variable-NAME` (FastCGI §6.3). None of them is for the client.
    pub fn variables(&self) -> impl Iterator<Item = Field<'_>> {
        const PREFIX: &[u8] = b"variable-";
        self.fields().filter_map(|field| {
            let (prefix, name) = field.name.split_at_checked(PREFIX.len())?;
            (prefix.eq_ignore_ascii_case(PREFIX) && !name.is_empty())
                .then_some(Field { name, value: field.value })
        })
    }
}

/// A broken rule, and the number of the field that breaks it if it is one alone.
type Fault = (Cause, Option<usize>);

/// The lines so far: those that are complete are known to be fields.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the present line begins in `bytes`.
    start: usize,
    /// Complete lines.
    count: usize,
    status_line: Option<(Version, u16)>,
    fields: Vec<Place>,
    interim: Interim,
}

impl Lines {
    /// The present line, as far as it has come, without its end.
    pub(super) fn line(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn error(&self, cause: Cause) -> ResponseError {
        ResponseError::new(cause, self.count + 1, self.line())
    }

    /// The present line is complete. A script answers once, and has no answer on the way to that.
    pub(super) fn end_line(&mut self, manner: Manner, max_fields: usize) -> Result<(), Cause> {
        match self.line() {
            line if self.count == 0 && line.starts_with(b"HTTP/") => {
                let (version, code) = status_line(line)?;
                if manner == Manner::Cgi {
                    usable(code)?;
                }
                self.status_line = Some((version, code));
            }
            line => {
                let colon = token_len(line);
                if colon == 0 || line.get(colon) != Some(&b':') {
                    return Err(Cause::Malformed);
                }
                if self.fields.len() >= max_fields {
                    return Err(Cause::TooManyFields);
                }
                let (start, end) = (self.start, self.bytes.len());
                self.fields.push(Place { start, colon: start + colon, end });
            }
        }
        self.start = self.bytes.len();
        self.count += 1;
        Ok(())
    }

    /// Is it only on the way to the answer? 101 is another protocol from there on.
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.status_line, Some((_, 100 | 102..=199)))
    }

    /// For what comes behind these lines, which are an interim response and so have no content behind them.
    pub(super) fn behind_interim(&self) -> Lines {
        let interim = match self.framing() {
            Ok(Framing::None | Framing::Sized(0)) => self.interim,
            _ => Interim::Misframed,
        };
        Lines { interim, ..Lines::default() }
    }

    /// The empty line has come.
    pub(super) fn finish(self, manner: Manner) -> Result<Head, ResponseError> {
        match self.sense(manner) {
            Ok((kind, status, framing)) => {
                let version = self.status_line.map(|(version, _)| version);
                let interim = self.interim;
                Ok(Head { kind, status, framing, version, interim, bytes: self.bytes, fields: self.fields })
            }
            Err((cause, at)) => Err(self.error_at(cause, at)),
        }
    }

    /// What the lines mean together.
    fn sense(&self, manner: Manner) -> Result<(Kind, Status, Framing), Fault> {
        if self.count == 0 {
            return Err((Cause::NoField, None));
        }
        let line = match self.status_line {
            Some((_, code)) => Some(usable(code).map_err(|cause| (cause, None))?),
            None if manner == Manner::Http => return Err((Cause::StatusLine, None)),
            None => None,
        };
        // Over HTTP it is a field like others.
        let field = if manner == Manner::Http { None } else { self.single("status")? };
        let status = match (field, line) {
            (Some((at, _)), Some(_)) => return Err((Cause::Twice, Some(at))),
            (Some((at, value)), None) => Some(status(value).map_err(|cause| (cause, Some(at)))?),
            (None, line) => line,
        };
        self.single("content-type")?;
        let location = self.single("location")?;
        let (kind, status) = match location {
            None => (Kind::Document, status.unwrap_or(Status::OK)),
            Some((at, b"")) => return Err((Cause::Location, Some(at))),
            Some((at, path)) if status.is_none() && self.count == 1 && is_local(path) => {
                if target_len(path) < path.len() {
                    return Err((Cause::Location, Some(at)));
                }
                (Kind::LocalRedirect, Status::OK)
            }
            Some(_) => (Kind::Redirect, status.unwrap_or(Status::FOUND)),
        };
        Ok((kind, status, self.framing().map_err(|error| (Cause::Framing(error), None))?))
    }

    fn framing(&self) -> Result<Framing, framing::FramingError> {
        let version = self.status_line.map_or(Version::Http11, |(version, _)| version);
        let values = |name| {
            let named = move |field: &Field| is_name(field.name, name);
            all(&self.bytes, &self.fields).filter(named).map(|field| field.value)
        };
        framing::of(version, values("content-length").map(without_zeros), values("transfer-encoding"))
    }

    /// The number and the value of the field with this name, of which there can be one.
    fn single(&self, name: &'static str) -> Result<Option<(usize, &[u8])>, Fault> {
        let mut named =
            all(&self.bytes, &self.fields).enumerate().filter(|(_, field)| is_name(field.name, name));
        let first = named.next();
        match named.next() {
            Some((at, _)) => Err((Cause::Twice, Some(at))),
            None => Ok(first.map(|(at, field)| (at, field.value))),
        }
    }

    fn error_at(&self, cause: Cause, field: Option<usize>) -> ResponseError {
        match field.and_then(|at| Some((at, self.fields.get(at)?))) {
            Some((at, place)) => {
                let line = at + 1 + usize::from(self.status_line.is_some());
                ResponseError::new(cause, line, &self.bytes[place.start..place.end])
            }
            None => ResponseError::new(cause, 1, b""),
        }
    }
}

fn all<'a>(bytes: &'a [u8], fields: &'a [Place]) -> impl Iterator<Item = Field<'a>> + Clone {
    fields.iter().map(|place| Field {
        name: &bytes[place.start..place.colon],
        value: trim_ows(&bytes[place.colon + 1..place.end]),
    })
}

/// A path of this server (RFC 3875 §6.3.2). `//host` is another one's, and a fragment is the client's.
fn is_local(location: &[u8]) -> bool {
    location.starts_with(b"/") && !location.starts_with(b"//") && !location.contains(&b'#')
}

/// `200` or `200 OK`. What the reason says, is of no account.
fn status(value: &[u8]) -> Result<Status, Cause> {
    usable(code(value)?)
}

/// Of an answer: what is only on the way to one is not.
fn usable(code: u16) -> Result<Status, Cause> {
    Status::new(code).filter(|status| status.code() >= 200).ok_or(Cause::StatusRange)
}

fn code(value: &[u8]) -> Result<u16, Cause> {
    let (code, rest) = value.split_at_checked(3).ok_or(Cause::Status)?;
    match digits(code) {
        Some(code) if matches!(rest, [] | [b' ' | b'\t', ..]) => Ok(code as u16),
        _ => Err(Cause::Status),
    }
}

/// `HTTP/1.1 200 OK`.
fn status_line(line: &[u8]) -> Result<(Version, u16), Cause> {
    let (version, rest) = line.split_at_checked(b"HTTP/1.1 ".len()).ok_or(Cause::StatusLine)?;
    let version = match version {
        b"HTTP/1.0 " => Version::Http10,
        b"HTTP/1.1 " => Version::Http11,
        _ => return Err(Cause::StatusLine),
    };
    Ok((version, code(rest)?))
}

/// A length as programs print it with a fixed width. A request that has zeros in front is rejected; a script's
/// response can only be read in one way, for there is no other reader.
fn without_zeros(length: &[u8]) -> &[u8] {
    let zeros = length.iter().take_while(|digit| **digit == b'0').count();
    &length[zeros.min(length.len().saturating_sub(1))..]
}
