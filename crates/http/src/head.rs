//! Parses the head of a request: the request line and the fields, up to the empty line (RFC 9112 §2 to §5).
//!
//! The parser reads from the first byte to the last and stops at the first broken rule. So the result does not depend
//! on how the bytes arrive: the parser of a partial head either needs more bytes or already returns the result of the
//! whole head. It repairs nothing: lines end with CRLF, single spaces separate, and folding is an error. Of bodies it
//! knows only the length. It does not allocate.

mod owned;
mod parts;

use std::ops::BitOr;

use arrayvec::ArrayVec;

pub use crate::method::{Method, is_safe};
pub use crate::version::Version;
pub use owned::OwnedHead;
pub use parts::{Body, Parts, from_parts};

use crate::fields::{
    is_authority, is_name, list, target_len, target_path_len, text_len, token_len, trim_ows,
};
use crate::framing::{self, Framing, FramingError};
use crate::rule::rules;
use crate::status::Status;
use crate::target::{Scheme, Target, TargetError, escape};

/// The upper bound of `Limits::fields`.
pub const MAX_FIELDS: usize = 256;

/// The longest registered method, `UPDATEREDIRECTREF`, has 17 characters.
const MAX_METHOD: usize = 32;

/// Empty lines that the parser skips before a request line (RFC 9112 §2.2 recommends at least one).
const MAX_EMPTY_LINES: usize = 4;

/// The first byte of a TLS connection: the type of a handshake record (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// Whether the connection stays open after the response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistence {
    Close,
    KeepAlive,
}

/// The parser rejects a larger head. A field limit above `MAX_FIELDS` counts as `MAX_FIELDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, from the request line to the empty line, both included.
    pub head: usize,
    /// Field lines.
    pub fields: usize,
    /// Bytes of the request target.
    pub target: usize,
}

/// A field line. The name is a token, as sent. The value has no surrounding whitespace and no control characters
/// except HTAB. It may have bytes outside ASCII, of no known encoding (RFC 9110 §5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Storage for the fields of one head, on the stack. `FieldStore::new()` does not initialize it.
pub type FieldStore<'a> = ArrayVec<Field<'a>, MAX_FIELDS>;

/// A set of field names that the server itself reads. With it, no search is needed to find that a head lacks a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Names(u32);

/// A request head. It borrows from the input of `parse`.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    pub method: Method,
    /// The method as sent.
    pub token: &'a str,
    /// The request target as sent.
    pub raw_target: &'a str,
    pub target: Target<'a>,
    /// `parse` sets `Http`. The caller changes it if a trusted proxy names another scheme.
    pub scheme: Scheme,
    /// It was received before the TLS handshake was complete, so that an attacker may have sent it again (RFC 8470).
    /// The caller sets it.
    pub is_early: bool,
    pub version: Version,
    pub fields: &'a [Field<'a>],
    pub names: Names,
    /// Host and port: of the target if it has an authority, else of `Host` (RFC 9112 §3.3). Always a valid authority,
    /// and so ASCII; empty only for HTTP/1.0 without `Host`.
    pub authority: &'a [u8],
    pub persistence: Persistence,
    pub framing: Framing,
    /// The request has a body, and the client waits for `100 Continue` before it sends it (RFC 9110 §10.1.1).
    pub expects_continue: bool,
}

/// The first rule that the head breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// A TLS handshake.
    TlsHandshake,
    /// The preface of HTTP/2 (RFC 9113 §3.4).
    Http2,
    /// The method is not a token.
    Method,
    /// More than 32 characters.
    MethodTooLong,
    /// Not three parts with single spaces between them.
    RequestLine,
    TargetTooLong,
    Target(TargetError),
    /// Not `HTTP/` digit `.` digit.
    VersionSyntax,
    /// A version of HTTP other than 1.x.
    Version,
    /// The name is empty or not a token.
    FieldName,
    /// Whitespace between name and colon (RFC 9112 §5.1).
    SpaceBeforeColon,
    /// A line that begins with a space or HTAB (RFC 9112 §2.2 and §5.2).
    Folded,
    /// A control character in a value (RFC 9110 §5.5).
    FieldValue,
    /// CR without LF.
    BareCr,
    /// LF without CR.
    BareLf,
    TooManyFields,
    TooLarge,
    HostMissing,
    HostTwice,
    /// Empty or malformed, with user information, or with a port above 65535.
    HostInvalid,
    Framing(FramingError),
    /// An expectation other than `100-continue`.
    Expectation,
}

/// Parses the head at the start of `input` and returns it with its length in bytes, which includes the empty lines
/// before and after it. `Ok(None)`: the input is the beginning of a head.
pub fn parse<'a: 's, 's>(
    input: &'a [u8],
    store: &'s mut FieldStore<'a>,
    limits: &Limits,
) -> Result<Option<(Head<'s>, usize)>, HeadError> {
    let allowed = &input[..input.len().min(limits.head)];
    let mut cursor = Cursor { rest: allowed };
    match cursor.head(store, limits) {
        Ok(head) => Ok(Some((head, allowed.len() - cursor.rest.len()))),
        Err(Stop::Rejected(HeadError::Version)) => Err(version_error(allowed)),
        Err(Stop::Rejected(error)) => Err(error),
        Err(Stop::End) if input.len() >= limits.head => Err(HeadError::TooLarge),
        Err(Stop::End) => Ok(None),
    }
}

/// The preface of HTTP/2 has the form of a request line (RFC 9113 §3.4).
#[cold]
fn version_error(input: &[u8]) -> HeadError {
    match input.trim_ascii_start().starts_with(b"PRI * HTTP/2.0") {
        true => HeadError::Http2,
        false => HeadError::Version,
    }
}

/// Percent-encodes the bytes of the request target that no URI contains and that clients send all the same: bytes
/// outside ASCII, and `"`, `<` and `>` in a query. Returns the changed input and how many bytes it is longer, or
/// `None` if there are no such bytes. Neither input nor result need be a valid head.
pub fn escape_target(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let empty = input.chunks_exact(2).take(MAX_EMPTY_LINES).take_while(|line| line == b"\r\n").count() * 2;
    let start = empty + input[empty..].iter().position(|&byte| byte == b' ')? + 1;
    let target = &input[start..];
    let target =
        &target[..target.iter().position(|byte| matches!(byte, 0..=b' ' | 0x7F)).unwrap_or(target.len())];
    let path = match target {
        [b'/', ..] => 0,
        // Bytes of the authority are not encoded.
        _ => {
            let authority = target.windows(3).position(|window| window == b"://")? + 3;
            authority + target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?'))?
        }
    };
    if is_escaped(&target[path..]) {
        return None;
    }
    let mut escaped = input[..start + path].to_vec();
    escape_into(&target[path..], &mut escaped);
    escaped.extend_from_slice(&input[start + target.len()..]);
    let longer = escaped.len() - input.len();
    Some((escaped, longer))
}

/// As `escape_target`, of the value of `:path` in HTTP/2.
pub fn escape_path(path: &[u8]) -> Option<Vec<u8>> {
    if is_escaped(path) {
        return None;
    }
    let mut escaped = Vec::new();
    escape_into(path, &mut escaped);
    Some(escaped)
}

/// `escape_into` would change nothing.
fn is_escaped(path: &[u8]) -> bool {
    let query = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
    path.is_ascii() && !path[query..].iter().any(|byte| matches!(byte, b'"' | b'<' | b'>'))
}

fn escape_into(path: &[u8], out: &mut Vec<u8>) {
    let query = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
    for (at, &byte) in path.iter().enumerate() {
        match byte >= 0x80 || at > query && matches!(byte, b'"' | b'<' | b'>') {
            true => out.extend_from_slice(&escape(byte)),
            false => out.push(byte),
        }
    }
}

impl Default for Limits {
    /// A head of 16 KiB, 100 fields, and a target of 8 KiB.
    fn default() -> Limits {
        Limits { head: 16 * 1024, fields: 100, target: 8 * 1024 }
    }
}

impl<'a> Head<'a> {
    /// Whether the request only reads (RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        is_safe(self.token)
    }

    /// The values of all fields of this name, in order. `name` as for `fields::is_name`.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let named = move |field: &&Field| is_name(field.name, name);
        self.fields.iter().filter(named).map(|field| field.value)
    }

    /// The value of the first field of this name.
    pub fn value(&self, name: &'static str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The value of a field that is not a list. `None` also if there are several: recipients disagree about which of
    /// them counts (RFC 9110 §5.3).
    pub fn only(&self, name: &'static str) -> Option<&'a [u8]> {
        let mut values = self.values(name);
        let value = values.next();
        values.next().is_none().then_some(value).flatten()
    }

    /// The fields, except those with these names. `names` as for `fields::is_name`.
    pub fn fields_without(&self, names: &[&'static str]) -> Vec<Field<'a>> {
        let is_other = |field: &&Field<'_>| !names.iter().any(|name| is_name(field.name, name));
        self.fields.iter().filter(is_other).copied().collect()
    }

    /// The same head with other fields. What the fields have decided stays.
    pub fn with_fields<'h>(&self, fields: &'h [Field<'h>]) -> Head<'h>
    where
        'a: 'h,
    {
        Head { fields, names: Names::of_fields(fields), ..*self }
    }

    /// The same head for another target. `None`: it is not one.
    pub fn with_target<'h>(&self, raw_target: &'h str) -> Option<Head<'h>>
    where
        'a: 'h,
    {
        Some(Head { raw_target, target: Target::parse(self.method, raw_target).ok()?, ..*self })
    }

    /// The head of a GET for the same, with other fields and without a body.
    pub fn as_get<'h>(&self, fields: &'h [Field<'h>]) -> Head<'h>
    where
        'a: 'h,
    {
        Head {
            method: Method::Get,
            token: "GET",
            is_early: false,
            persistence: Persistence::KeepAlive,
            framing: Framing::None,
            expects_continue: false,
            ..self.with_fields(fields)
        }
    }
}

/// Generates the constants and `of` from one table. The table is grouped by length, because most names differ in
/// length.
macro_rules! names {
    ($($len:literal { $($bit:literal $name:ident $text:literal)* })*) => {
        impl Names {
            $($(pub const $name: Names = Names(1 << $bit);)*)*

            /// The set of this one name; empty if the name is not in the table.
            pub fn of(name: &[u8]) -> Names {
                match name.len() {
                    $($len => {
                        $(if is_name(name, $text) { return Names::$name; })*
                        Names::NONE
                    })*
                    _ => Names::NONE,
                }
            }
        }

        #[cfg(test)]
        const NAMED: &[(usize, u32, &str)] = &[$($(($len, $bit, $text)),*),*];
    };
}

names! {
    2 { 0 TE "te" }
    4 { 1 HOST "host" }
    5 { 2 RANGE "range" }
    6 { 3 EXPECT "expect" 4 COOKIE "cookie" 5 ORIGIN "origin" 6 PRAGMA "pragma" }
    7 { 7 UPGRADE "upgrade" }
    8 { 8 IF_MATCH "if-match" 9 IF_RANGE "if-range" 10 PRIORITY "priority" }
    9 { 11 FORWARDED "forwarded" }
    10 { 12 CONNECTION "connection" }
    13 { 13 IF_NONE_MATCH "if-none-match" 14 AUTHORIZATION "authorization" 15 CACHE_CONTROL "cache-control" }
    14 { 16 CONTENT_LENGTH "content-length" }
    15 { 17 ACCEPT_ENCODING "accept-encoding" }
    17 { 18 IF_MODIFIED_SINCE "if-modified-since" 19 TRANSFER_ENCODING "transfer-encoding" }
    19 { 20 IF_UNMODIFIED_SINCE "if-unmodified-since" }
}

impl Names {
    pub const NONE: Names = Names(0);

    pub fn of_fields(fields: &[Field<'_>]) -> Names {
        fields.iter().fold(Names::NONE, |names, field| names | Names::of(field.name))
    }

    /// The five preconditions of RFC 9110 §13.1.
    pub const CONDITIONAL: Names = Names(
        Names::IF_MATCH.0
            | Names::IF_NONE_MATCH.0
            | Names::IF_MODIFIED_SINCE.0
            | Names::IF_UNMODIFIED_SINCE.0
            | Names::IF_RANGE.0,
    );

    /// This set has all names of `other`.
    pub const fn contains(self, other: Names) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set has at least one name of `other`.
    pub const fn intersects(self, other: Names) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn union(self, other: Names) -> Names {
        Names(self.0 | other.0)
    }

    pub fn insert(&mut self, other: Names) {
        self.0 |= other.0;
    }
}

impl BitOr for Names {
    type Output = Names;

    fn bitor(self, other: Names) -> Names {
        Names(self.0 | other.0)
    }
}

impl HeadError {
    pub const fn status(self) -> Status {
        match self {
            HeadError::TargetTooLong => Status::URI_TOO_LONG,
            HeadError::TooManyFields | HeadError::TooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            HeadError::Version | HeadError::Http2 => Status::HTTP_VERSION_NOT_SUPPORTED,
            HeadError::Expectation => Status::EXPECTATION_FAILED,
            // RFC 9112 §3: a method that is longer than any that the server implements.
            HeadError::MethodTooLong => Status::NOT_IMPLEMENTED,
            HeadError::Framing(error) => error.status(),
            _ => Status::BAD_REQUEST,
        }
    }
}

rules! {
    HeadError {
        HeadError::TlsHandshake => "tls" "the client speaks TLS (https), and this port speaks plain HTTP",
        HeadError::Http2 => "http2" "the client speaks HTTP/2, and this port speaks HTTP/1.1",
        HeadError::Method => "method" "the request does not begin with a method",
        HeadError::MethodTooLong => "method-too-long" "the method is longer than 32 characters",
        HeadError::RequestLine => "request-line"
            "the first line is not a method, a target and a version with one space between them",
        HeadError::TargetTooLong => "target-too-long" "the address is longer than this server reads",
        HeadError::VersionSyntax => "version-syntax" "the first line does not end with a version of HTTP",
        HeadError::Version => "version" "the version of HTTP is neither 1.0 nor 1.1",
        HeadError::FieldName => "field-name" "a header line does not begin with a name and a colon",
        HeadError::SpaceBeforeColon => "field-space" "there is a space before the colon of a header field",
        HeadError::Folded => "field-folded" "a header field is continued on a second line",
        HeadError::FieldValue => "field-value" "there is a control character in a header field",
        HeadError::BareCr => "bare-cr" "there is a CR without an LF behind it",
        HeadError::BareLf => "bare-lf" "there is an LF without a CR before it",
        HeadError::TooManyFields => "too-many-fields" "there are more header fields than this server reads",
        HeadError::TooLarge => "head-too-large" "the header is longer than this server reads",
        HeadError::HostMissing => "host-missing" "an HTTP/1.1 request needs a Host field",
        HeadError::HostTwice => "host-twice" "there is more than one Host field",
        HeadError::HostInvalid => "host-invalid" "the Host field is not a host with or without a port",
        HeadError::Expectation => "expectation" "the Expect field has something other than 100-continue",
    }
    HeadError::Target(error) => error.rule(),
    HeadError::Framing(error) => error.rule(),
}

/// Why the parser stopped before the end of the head.
enum Stop {
    /// The end of the input.
    End,
    Rejected(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Stop {
        Stop::Rejected(error)
    }
}

/// Takes bytes from the start of `rest`. If that is empty, every method returns `Stop::End`.
struct Cursor<'a> {
    rest: &'a [u8],
}

struct RequestLine<'a> {
    method: Method,
    token: &'a str,
    raw_target: &'a str,
    target: Target<'a>,
    version: Version,
}

impl<'a> Cursor<'a> {
    fn head<'s>(&mut self, store: &'s mut FieldStore<'a>, limits: &Limits) -> Result<Head<'s>, Stop>
    where
        'a: 's,
    {
        for _ in 0..MAX_EMPTY_LINES {
            if self.peek()? != b'\r' {
                break;
            }
            self.line_end(HeadError::RequestLine)?;
        }
        let line = self.request_line(limits.target)?;
        let (names, host) = self.fields(store, limits.fields.min(MAX_FIELDS))?;
        let RequestLine { method, token, raw_target, target, version } = line;
        let mut head = Head {
            method,
            token,
            raw_target,
            target,
            scheme: Scheme::Http,
            is_early: false,
            version,
            fields: store,
            names,
            authority: authority(target, version, host)?,
            persistence: Persistence::KeepAlive,
            framing: Framing::None,
            expects_continue: false,
        };
        head.persistence = persistence(&head);
        if names.intersects(Names::CONTENT_LENGTH | Names::TRANSFER_ENCODING) {
            let (lengths, codings) = (head.values("content-length"), head.values("transfer-encoding"));
            head.framing = framing::of(version, lengths, codings).map_err(HeadError::Framing)?;
        }
        head.expects_continue = expects_continue(&head)?;
        Ok(head)
    }

    /// RFC 9112 §3.
    fn request_line(&mut self, max_target: usize) -> Result<RequestLine<'a>, Stop> {
        let line = self.rest;
        let (method, token) = self.method()?;
        let (target, mark) = self.target(max_target)?;
        let version = self.version()?;
        // The bytes are known to be ASCII. One check of the whole line is cheaper than one of each part.
        let line = std::str::from_utf8(&line[..line.len() - self.rest.len()])
            .map_err(|_| HeadError::Target(TargetError::Byte))?;
        let (token, behind) = line.split_at(token.len());
        let raw_target = &behind[1..=target.len()];
        let target = Target::of_valid_bytes(method, raw_target, mark).map_err(HeadError::Target)?;
        Ok(RequestLine { method, token, raw_target, target, version })
    }

    /// Takes the method and the space after it.
    fn method(&mut self) -> Result<(Method, &'a [u8]), Stop> {
        if self.skip(b"GET ") {
            return Ok((Method::Get, b"GET"));
        }
        let token = self.take(token_len(&self.rest[..self.rest.len().min(MAX_METHOD + 1)]));
        if token.len() > MAX_METHOD {
            return Err(HeadError::MethodTooLong.into());
        }
        match (token.len(), self.next()?) {
            (1.., b' ') => Ok((Method::from_bytes(token), token)),
            (_, b'\r' | b'\n') => Err(HeadError::RequestLine.into()),
            (0, TLS_HANDSHAKE) => Err(HeadError::TlsHandshake.into()),
            _ => Err(HeadError::Method.into()),
        }
    }

    /// Takes the target and the space after it. Also returns the position of the first question mark, or else of the
    /// end.
    fn target(&mut self, max: usize) -> Result<(&'a [u8], usize), Stop> {
        let mark = target_path_len(self.rest);
        let target = match self.rest.get(mark) {
            Some(b'?') => self.take(mark + target_len(&self.rest[mark..])),
            _ => self.take(mark),
        };
        if target.len() > max {
            return Err(HeadError::TargetTooLong.into());
        }
        match (target.len(), self.next()?) {
            (1.., b' ') => Ok((target, mark)),
            (_, b' ' | b'\r' | b'\n') => Err(HeadError::RequestLine.into()),
            _ => Err(HeadError::Target(TargetError::Byte).into()),
        }
    }

    /// Takes the version, which is case-sensitive (RFC 9112 §2.3), and the end of the line.
    fn version(&mut self) -> Result<Version, Stop> {
        if self.skip(b"HTTP/1.1\r\n") {
            return Ok(Version::Http11);
        }
        for letter in b"HTTP/" {
            self.expect(*letter, HeadError::VersionSyntax)?;
        }
        let major = self.digit()?;
        self.expect(b'.', HeadError::VersionSyntax)?;
        let minor = self.digit()?;
        let version = match (major, minor) {
            (b'1', b'0') => Version::Http10,
            (b'1', _) => Version::Http11,
            _ => return Err(HeadError::Version.into()),
        };
        self.line_end(HeadError::VersionSyntax)?;
        Ok(version)
    }

    fn digit(&mut self) -> Result<u8, Stop> {
        match self.next()? {
            digit @ b'0'..=b'9' => Ok(digit),
            _ => Err(HeadError::VersionSyntax.into()),
        }
    }

    /// Takes all field lines and the empty line. Also returns the value of `Host`. Bounded: each pass but the last
    /// stores a field, and the store has at most `max`.
    fn fields(&mut self, store: &mut FieldStore<'a>, max: usize) -> Result<(Names, Option<&'a [u8]>), Stop> {
        let (mut names, mut host) = (Names::NONE, None);
        store.clear();
        while self.peek()? != b'\r' {
            if store.len() >= max {
                return Err(HeadError::TooManyFields.into());
            }
            let field = Field { name: self.field_name()?, value: self.field_value()? };
            let name = Names::of(field.name);
            if name == Names::HOST && host.replace(field.value).is_some() {
                return Err(HeadError::HostTwice.into());
            }
            names.insert(name);
            store.try_push(field).map_err(|_| HeadError::TooManyFields)?;
        }
        self.line_end(HeadError::FieldValue)?;
        Ok((names, host))
    }

    /// Takes the name and the colon (RFC 9112 §5.1).
    fn field_name(&mut self) -> Result<&'a [u8], Stop> {
        let name = self.take(token_len(self.rest));
        match (name.len(), self.next()?) {
            (1.., b':') => Ok(name),
            (0, b' ' | b'\t') => Err(HeadError::Folded.into()),
            (_, b' ' | b'\t') => Err(HeadError::SpaceBeforeColon.into()),
            (_, b'\n') => Err(HeadError::BareLf.into()),
            _ => Err(HeadError::FieldName.into()),
        }
    }

    /// Takes the value (RFC 9110 §5.5) and the end of the line.
    fn field_value(&mut self) -> Result<&'a [u8], Stop> {
        let line = self.rest;
        let mut len = text_len(line);
        while let Some(b'\t') = line.get(len) {
            len += 1 + text_len(&line[len + 1..]);
        }
        let value = self.take(len);
        self.line_end(HeadError::FieldValue)?;
        Ok(trim_ows(value))
    }

    /// Takes CRLF. RFC 9112 §2.2 allows a recipient to accept a bare LF, but recipients that do not would then see
    /// other lines.
    fn line_end(&mut self, error: HeadError) -> Result<(), Stop> {
        match *self.rest {
            [b'\r', b'\n', ref rest @ ..] => {
                self.rest = rest;
                Ok(())
            }
            [] | [b'\r'] => Err(Stop::End),
            [b'\r', ..] => Err(HeadError::BareCr.into()),
            [b'\n', ..] => Err(HeadError::BareLf.into()),
            _ => Err(error.into()),
        }
    }

    /// Takes `usual` if the input begins with it: the fast path for what most clients send.
    fn skip(&mut self, usual: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(usual);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: u8, error: HeadError) -> Result<(), Stop> {
        if self.next()? == wanted { Ok(()) } else { Err(error.into()) }
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.rest.first().copied().ok_or(Stop::End)
    }

    fn next(&mut self) -> Result<u8, Stop> {
        let (byte, rest) = self.rest.split_first().ok_or(Stop::End)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }
}

/// RFC 9112 §3.2 and §3.3. An empty `Host` is an error: a target URI of scheme http has an authority, and RFC 9110
/// §4.2.1 rejects an empty one. An absolute target replaces `Host` (§3.2.2), which must be valid all the same.
fn authority<'a>(
    target: Target<'a>,
    version: Version,
    host: Option<&'a [u8]>,
) -> Result<&'a [u8], HeadError> {
    let host = match (host, version) {
        (Some(host), _) if is_authority(host) => host,
        (Some(_), _) => return Err(HeadError::HostInvalid),
        (None, Version::Http10) => b"",
        (None, Version::Http11 | Version::Http2) => return Err(HeadError::HostMissing),
    };
    Ok(match target {
        Target::Origin { .. } => host,
        _ => target.authority().map_or(host, str::as_bytes),
    })
}

/// RFC 9112 §9.3: `close` takes precedence over `keep-alive`; without either, the version decides.
fn persistence(head: &Head) -> Persistence {
    let (mut close, mut keep_alive) = (false, head.version != Version::Http10);
    if head.names.contains(Names::CONNECTION) {
        for option in list(head.values("connection")) {
            close |= option.eq_ignore_ascii_case(b"close");
            keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    match (close, keep_alive) {
        (false, true) => Persistence::KeepAlive,
        _ => Persistence::Close,
    }
}

/// RFC 9110 §10.1.1: a server ignores the field of an HTTP/1.0 request, and `100-continue` without a body.
fn expects_continue(head: &Head) -> Result<bool, HeadError> {
    if head.version == Version::Http10 || !head.names.contains(Names::EXPECT) {
        return Ok(false);
    }
    match list(head.values("expect")).all(|member| member.eq_ignore_ascii_case(b"100-continue")) {
        true => Ok(head.framing.has_body()),
        false => Err(HeadError::Expectation),
    }
}

#[cfg(test)]
mod tests;
