//! The head of a request: its line and its fields, up to the empty line (RFC 9112 §2 to §5).
//!
//! One pass from the first byte to the last, and the first broken rule ends it. So what is refused
//! does not depend on how the bytes arrive: a beginning of a head is either not yet a head, or already
//! what the whole will be. Nothing is repaired: lines end with CRLF, one space separates, nothing is
//! folded. Knows nothing of bodies beyond how long they are, and allocates nothing.

use std::ops::BitOr;

use arrayvec::ArrayVec;

use crate::fields::{
    is_authority, is_name, list, target_len, target_path_len, text_len, token_len, trim_ows,
};
use crate::framing::{self, Framing, FramingError};
use crate::rule::rules;
use crate::status::Status;
use crate::target::{Scheme, Target, TargetError, escape};

/// The hard ceiling of `Limits::fields`.
pub const MAX_FIELDS: usize = 256;

/// The longest method that any registry knows has 17 characters.
const MAX_METHOD: usize = 32;

/// Empty lines that are passed over before a request line (RFC 9112 §2.2 asks for one at least).
const MAX_EMPTY_LINES: usize = 4;

/// How a TLS connection begins: a record of type handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// RFC 9110 §9.3 and RFC 5789. `Unknown` is every other token; `Head::token` has it as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Connect,
    Patch,
    Unknown,
}

/// What both sides understand. A 1.x above 1.1 is spoken as 1.1 (RFC 9110 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    Http10,
    Http11,
}

/// What the client wishes to become of the connection (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistence {
    Close,
    KeepAlive,
}

/// How much head is read before it is refused. A field limit above `MAX_FIELDS` is `MAX_FIELDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, from the first of the request line to the last of the empty line.
    pub head: usize,
    /// Field lines.
    pub fields: usize,
    /// Bytes of the request target.
    pub target: usize,
}

/// One field line. The name as sent, a token; the value without surrounding whitespace, free of
/// controls but for HTAB. It may hold bytes beyond ASCII, in no certain encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Room for the fields of one head, on the stack and not yet written to: `FieldStore::new()`.
pub type FieldStore<'a> = ArrayVec<Field<'a>, MAX_FIELDS>;

/// The set of those field names, of the ones that a server reads itself, that a head has. What is not
/// in it need not be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Names(u32);

/// A request head. Everything in it is borrowed from the bytes it was read from.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    pub method: Method,
    /// The method as sent.
    pub token: &'a str,
    /// The request target as sent.
    pub raw_target: &'a str,
    pub target: Target<'a>,
    /// That of the connection, which is plain, until a trusted proxy names another.
    pub scheme: Scheme,
    pub version: Version,
    pub fields: &'a [Field<'a>],
    pub names: Names,
    /// Host and port that are asked: of the target if it has them, else of `Host` (RFC 9112 §3.3).
    /// Valid in any case, so it is ASCII, and empty only for HTTP/1.0 without `Host`.
    pub authority: &'a [u8],
    pub persistence: Persistence,
    pub framing: Framing,
    /// A body will come, and its sender waits for `100 Continue` first (RFC 9110 §10.1.1).
    pub expects_continue: bool,
}

/// The broken rule. It stands at the first byte that breaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// The peer speaks TLS.
    TlsHandshake,
    /// The peer speaks HTTP/2 (RFC 9113 §3.4).
    Http2,
    /// The method is not a token.
    Method,
    /// A method longer than any there is.
    MethodTooLong,
    /// Not three parts with one space between them.
    RequestLine,
    TargetTooLong,
    Target(TargetError),
    /// Not `HTTP/` digit `.` digit.
    VersionSyntax,
    /// A version of HTTP, and not 1.x.
    Version,
    /// The name is not a token, or there is none.
    FieldName,
    /// Between name and colon (RFC 9112 §5.1).
    SpaceBeforeColon,
    /// A line that begins with a space or tab (RFC 9112 §2.2 and §5.2).
    Folded,
    /// A control character in a value, NUL above all.
    FieldValue,
    /// CR without LF.
    BareCr,
    /// LF without CR.
    BareLf,
    TooManyFields,
    TooLarge,
    HostMissing,
    HostTwice,
    /// Empty, malformed, with user information, or with a port above 65535.
    HostInvalid,
    Framing(FramingError),
    /// Anything but `100-continue` is expected.
    Expectation,
}

/// Reads the head at the start of `input`. `Ok(None)`: what is there may become one. The number is how
/// many bytes it takes up, with its empty line and with the empty lines before it.
pub fn parse<'a: 's, 's>(
    input: &'a [u8],
    store: &'s mut FieldStore<'a>,
    limits: &Limits,
) -> Result<Option<(Head<'s>, usize)>, HeadError> {
    let allowed = &input[..input.len().min(limits.head)];
    let mut cursor = Cursor { rest: allowed };
    match cursor.head(store, limits) {
        Ok(head) => Ok(Some((head, allowed.len() - cursor.rest.len()))),
        Err(Stop::Refused(HeadError::Version)) => Err(of_version(allowed)),
        Err(Stop::Refused(error)) => Err(error),
        Err(Stop::End) if input.len() >= limits.head => Err(HeadError::TooLarge),
        Err(Stop::End) => Ok(None),
    }
}

/// HTTP/2 begins with what has the form of a request line (RFC 9113 §3.4).
#[cold]
fn of_version(input: &[u8]) -> HeadError {
    match input.trim_ascii_start().starts_with(b"PRI * HTTP/2.0") {
        true => HeadError::Http2,
        false => HeadError::Version,
    }
}

/// The same bytes with those percent-encoded that no URI contains and that clients send all the same:
/// beyond ASCII, and in a query `"`, `<` and `>`. The number is how much longer it is. `None`: there are
/// none of them in the request target, as far as that is here. What they stand in is still to be parsed.
pub fn escape_target(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let empty = input.chunks_exact(2).take(MAX_EMPTY_LINES).take_while(|line| line == b"\r\n").count() * 2;
    let start = empty + input[empty..].iter().position(|&byte| byte == b' ')? + 1;
    let target = &input[start..];
    let target =
        &target[..target.iter().position(|byte| matches!(byte, 0..=b' ' | 0x7F)).unwrap_or(target.len())];
    let path = match target {
        [b'/', ..] => 0,
        // The authority of an absolute target stays as it is.
        _ => {
            let authority = target.windows(3).position(|window| window == b"://")? + 3;
            authority + target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?'))?
        }
    };
    let query = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let is_raw =
        |at: usize, byte: u8| byte >= 0x80 && at >= path || at > query && matches!(byte, b'"' | b'<' | b'>');
    let mut escaped = input[..start].to_vec();
    for (at, &byte) in target.iter().enumerate() {
        match is_raw(at, byte) {
            true => escaped.extend_from_slice(&escape(byte)),
            false => escaped.push(byte),
        }
    }
    escaped.extend_from_slice(&input[start + target.len()..]);
    let longer = escaped.len() - input.len();
    (longer > 0).then_some((escaped, longer))
}

impl Default for Limits {
    /// 16 KiB, 100 fields, a target of 8 KiB.
    fn default() -> Limits {
        Limits { head: 16 * 1024, fields: 100, target: 8 * 1024 }
    }
}

impl Method {
    /// Methods are case-sensitive (RFC 9110 §9.1).
    const fn from_bytes(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            _ => Method::Unknown,
        }
    }

    /// Empty for `Unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Patch => "PATCH",
            Method::Unknown => "",
        }
    }
}

impl Version {
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

impl<'a> Head<'a> {
    /// The values of all lines with this name, in order. `name` as for `fields::is_name`.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let named = move |field: &&Field| is_name(field.name, name);
        self.fields.iter().filter(named).map(|field| field.value)
    }

    /// The value of the first line with this name.
    pub fn value(&self, name: &'static str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The value of the only line with this name. `None` also if there are several, for a field that is
    /// not a list then has no value that all readers agree on (RFC 9110 §5.3).
    pub fn only(&self, name: &'static str) -> Option<&'a [u8]> {
        let mut values = self.values(name);
        let value = values.next();
        values.next().is_none().then_some(value).flatten()
    }
}

/// Every name that has a bit, once: constants and look-up come from this one table, which is sorted by
/// length, as the length of a name tells most of them apart.
macro_rules! names {
    ($($len:literal { $($bit:literal $name:ident $text:literal)* })*) => {
        impl Names {
            $($(pub const $name: Names = Names(1 << $bit);)*)*

            /// The set with this one name; the empty set if it has no bit.
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
    6 { 3 ACCEPT "accept" 4 EXPECT "expect" 5 COOKIE "cookie" 6 ORIGIN "origin" }
    7 { 7 TRAILER "trailer" 8 UPGRADE "upgrade" 9 REFERER "referer" }
    8 { 10 IF_MATCH "if-match" 11 IF_RANGE "if-range" }
    9 { 12 FORWARDED "forwarded" }
    10 { 13 CONNECTION "connection" 14 USER_AGENT "user-agent" }
    12 { 15 CONTENT_TYPE "content-type" }
    13 { 16 IF_NONE_MATCH "if-none-match" 17 AUTHORIZATION "authorization" }
    14 { 18 CONTENT_LENGTH "content-length" }
    15 { 19 ACCEPT_ENCODING "accept-encoding" 20 X_FORWARDED_FOR "x-forwarded-for" }
    17 { 21 IF_MODIFIED_SINCE "if-modified-since" 22 TRANSFER_ENCODING "transfer-encoding" }
    19 { 23 IF_UNMODIFIED_SINCE "if-unmodified-since" }
}

impl Names {
    pub const NONE: Names = Names(0);

    /// The five preconditions of RFC 9110 §13.1.
    pub const CONDITIONAL: Names = Names(
        Names::IF_MATCH.0
            | Names::IF_NONE_MATCH.0
            | Names::IF_MODIFIED_SINCE.0
            | Names::IF_UNMODIFIED_SINCE.0
            | Names::IF_RANGE.0,
    );

    /// All of `other` are in this set.
    pub const fn contains(self, other: Names) -> bool {
        self.0 & other.0 == other.0
    }

    /// At least one of `other` is in this set.
    pub const fn intersects(self, other: Names) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
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

/// The names of fields that did not come through `parse`.
impl<'a> FromIterator<Field<'a>> for Names {
    fn from_iter<Fields: IntoIterator<Item = Field<'a>>>(fields: Fields) -> Names {
        fields.into_iter().fold(Names::NONE, |names, field| names | Names::of(field.name))
    }
}

impl HeadError {
    pub const fn status(self) -> Status {
        match self {
            HeadError::TargetTooLong => Status::URI_TOO_LONG,
            HeadError::TooManyFields | HeadError::TooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            HeadError::Version | HeadError::Http2 => Status::HTTP_VERSION_NOT_SUPPORTED,
            HeadError::Expectation => Status::EXPECTATION_FAILED,
            // RFC 9112 §3: longer than any that is implemented.
            HeadError::MethodTooLong => Status::NOT_IMPLEMENTED,
            HeadError::Framing(error) => error.status(),
            HeadError::TlsHandshake
            | HeadError::Method
            | HeadError::RequestLine
            | HeadError::Target(_)
            | HeadError::VersionSyntax
            | HeadError::FieldName
            | HeadError::SpaceBeforeColon
            | HeadError::Folded
            | HeadError::FieldValue
            | HeadError::BareCr
            | HeadError::BareLf
            | HeadError::HostMissing
            | HeadError::HostTwice
            | HeadError::HostInvalid => Status::BAD_REQUEST,
        }
    }
}

rules! {
    HeadError {
        HeadError::TlsHandshake => "tls" "the client speaks TLS (https), and this port speaks plain HTTP",
        HeadError::Http2 => "http2" "the client speaks HTTP/2, and this port speaks HTTP/1.1",
        HeadError::Method => "method" "the request does not begin with a method",
        HeadError::MethodTooLong => "method-too-long" "the method is longer than any there is",
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

/// Why reading stopped short of a head.
enum Stop {
    /// The bytes have come to their end.
    End,
    Refused(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Stop {
        Stop::Refused(error)
    }
}

/// Reads on from the start of `rest`; where that is empty, every read is `Stop::End`.
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
        // All of the line is ASCII by now. To be told so once is cheaper than once for each part.
        let line = std::str::from_utf8(&line[..line.len() - self.rest.len()])
            .map_err(|_| HeadError::Target(TargetError::Byte))?;
        let (token, behind) = line.split_at(token.len());
        let raw_target = &behind[1..=target.len()];
        let target = Target::of_valid_bytes(method, raw_target, mark).map_err(HeadError::Target)?;
        Ok(RequestLine { method, token, raw_target, target, version })
    }

    /// With the space behind it.
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

    /// With the space behind it, and the place of its first question mark, or else of its end.
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

    /// RFC 9112 §2.3, with the end of its line; the letters are case-sensitive.
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

    /// All field lines and the empty line behind them, and the value of `Host`. Every turn but the last
    /// takes one place in the store, so there are at most `max` + 1.
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

    /// RFC 9112 §5.1, with its colon.
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

    /// RFC 9110 §5.5, with the end of its line.
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

    /// CRLF and nothing else: whoever takes a bare LF for the end of a line sees other lines than
    /// whoever does not (RFC 9112 §2.2 only allows it).
    fn line_end(&mut self, otherwise: HeadError) -> Result<(), Stop> {
        match *self.rest {
            [b'\r', b'\n', ref rest @ ..] => {
                self.rest = rest;
                Ok(())
            }
            [] | [b'\r'] => Err(Stop::End),
            [b'\r', ..] => Err(HeadError::BareCr.into()),
            [b'\n', ..] => Err(HeadError::BareLf.into()),
            _ => Err(otherwise.into()),
        }
    }

    /// For what nearly everyone sends: takes all of it in one look, or nothing.
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

/// RFC 9112 §3.2 and §3.3. An empty `Host` is valid where the target has no authority, yet a target of
/// http has one, and RFC 9110 §4.2.1 has an empty one refused. An absolute target makes `Host` of no
/// account (§3.2.2), but not its validity.
fn authority<'a>(
    target: Target<'a>,
    version: Version,
    host: Option<&'a [u8]>,
) -> Result<&'a [u8], HeadError> {
    let host = match (host, version) {
        (Some(host), _) if is_authority(host) => host,
        (Some(_), _) => return Err(HeadError::HostInvalid),
        (None, Version::Http10) => b"",
        (None, Version::Http11) => return Err(HeadError::HostMissing),
    };
    Ok(match target {
        Target::Origin { .. } => host,
        _ => target.authority().map_or(host, str::as_bytes),
    })
}

/// RFC 9112 §9.3: `close` wins, then the version decides.
fn persistence(head: &Head) -> Persistence {
    let (mut close, mut keep_alive) = (false, head.version == Version::Http11);
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

/// RFC 9110 §10.1.1: of no account on HTTP/1.0, and with no body to wait for.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(input: &[u8], limits: &Limits) -> Result<Option<(String, usize)>, HeadError> {
        let mut store = FieldStore::new();
        let found = parse(input, &mut store, limits)?;
        Ok(found.map(|(head, used)| (format!("{head:?}"), used)))
    }

    /// The request line, the authority, the framing and what becomes of the connection.
    fn summary(input: &[u8]) -> Result<String, HeadError> {
        let mut store = FieldStore::new();
        let Some((head, used)) = parse(input, &mut store, &Limits::default())? else {
            return Ok("partial".into());
        };
        let Head { token, raw_target, version, authority, persistence, framing, .. } = head;
        let wait = if head.expects_continue { " wait" } else { "" };
        let rest = if used < input.len() { " rest" } else { "" };
        let (version, authority) = (version.as_str(), std::str::from_utf8(authority).unwrap());
        Ok(format!("{token} {raw_target} {version} [{authority}] {framing:?} {persistence:?}{wait}{rest}"))
    }

    fn check(input: &str, expected: Result<&str, HeadError>) {
        assert_eq!(summary(input.as_bytes()).as_deref().map_err(|error| *error), expected, "{input:?}");
    }

    /// A request of one more line.
    fn with(line: &str) -> String {
        format!("POST / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n")
    }

    #[test]
    fn accepted_heads() {
        check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.1 [h] None KeepAlive"));
        for lines in ["\r\n", "\r\n\r\n\r\n\r\n"] {
            let input = format!("{lines}GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            check(&input, Ok("GET / HTTP/1.1 [h] None KeepAlive"));
        }
        check(
            "GET / HTTP/1.1\r\nhOsT:\t h:80 \t\r\n\r\nGET",
            Ok("GET / HTTP/1.1 [h:80] None KeepAlive rest"),
        );
        check("GET / HTTP/1.1\r\nHost:h\r\n\r\n\r\n", Ok("GET / HTTP/1.1 [h] None KeepAlive rest"));
        check("GET / HTTP/1.0\r\n\r\n", Ok("GET / HTTP/1.0 [] None Close"));
        check("GET / HTTP/1.0\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.0 [h] None Close"));
        check("GET / HTTP/1.2\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.1 [h] None KeepAlive"));
        check("GET / HTTP/1.9\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.1 [h] None KeepAlive"));
        check("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", Ok("BREW / HTTP/1.1 [h] None KeepAlive"));
        check("get / HTTP/1.1\r\nHost: h\r\n\r\n", Ok("get / HTTP/1.1 [h] None KeepAlive"));
        check("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", Ok("OPTIONS * HTTP/1.1 [h] None KeepAlive"));
        check("CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", Ok("CONNECT a:1 HTTP/1.1 [a:1] None KeepAlive"));
        check("GET http://a/ HTTP/1.1\r\nHost: h\r\n\r\n", Ok("GET http://a/ HTTP/1.1 [a] None KeepAlive"));
        check("GET http://a/ HTTP/1.0\r\n\r\n", Ok("GET http://a/ HTTP/1.0 [a] None Close"));
        check(&with("X: "), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
        check(&with("X: a\tb \"é\" {}"), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
        check(&with("!#$%&'*+-.^_`|~9: a"), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
    }

    #[test]
    fn partial_heads() {
        for input in [
            "",
            "\r",
            "\r\n",
            "\r\n\r\n\r\n\r\n",
            "G",
            "GET",
            "GET ",
            "GET /",
            "GET / ",
            "GET / HTTP",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHos",
            "GET / HTTP/1.1\r\nHost:",
            "GET / HTTP/1.1\r\nHost: h\r",
            "GET / HTTP/1.1\r\nHost: h\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n\r",
        ] {
            check(input, Ok("partial"));
        }
    }

    #[test]
    fn refused_request_lines() {
        use HeadError::*;
        check("\x16\x03\x01\x02\0\x01", Err(TlsHandshake));
        check("\x16", Err(TlsHandshake));
        check("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", Err(RequestLine));
        check("\nGET / HTTP/1.1\r\n", Err(RequestLine));
        check("\rGET / HTTP/1.1\r\n", Err(BareCr));
        check(" GET / HTTP/1.1\r\n", Err(Method));
        check("\0", Err(Method));
        check("é", Err(Method));
        check("SSH-2.0-OpenSSH_9.6\r\n", Err(RequestLine));
        check("GET\t/ HTTP/1.1\r\n", Err(Method));
        check("G(T / HTTP/1.1\r\n", Err(Method));
        check("GET\r\n", Err(RequestLine));
        check("GET\n", Err(RequestLine));
        check(&"A".repeat(33), Err(MethodTooLong));
        check(&"A".repeat(32), Ok("partial"));

        check("GET  / HTTP/1.1\r\n", Err(RequestLine));
        check("GET \r\n", Err(RequestLine));
        check("GET /\r\n", Err(RequestLine));
        check("GET /\n", Err(RequestLine));
        check("GET /  HTTP/1.1\r\n", Err(VersionSyntax));
        check("GET /\tHTTP/1.1\r\n", Err(Target(TargetError::Byte)));
        check("GET /a b HTTP/1.1\r\n", Err(VersionSyntax));
        check("GET /\0", Err(Target(TargetError::Byte)));
        check("GET /é", Err(Target(TargetError::Byte)));
        check("GET /\u{80}", Err(Target(TargetError::Byte)));
        check("GET /#", Err(Target(TargetError::Byte)));
        check("GET /\x7f", Err(Target(TargetError::Byte)));
        check("GET /\x1b[0m HTTP/1.1\r\n", Err(Target(TargetError::Byte)));
        check("GET * HTTP/1.1\r\n", Err(Target(TargetError::Form)));
        check("GET a:80 HTTP/1.1\r\n", Err(Target(TargetError::Form)));
        check("CONNECT /a HTTP/1.1\r\n", Err(Target(TargetError::Form)));
        check("GET http://u@a/ HTTP/1.1\r\n", Err(Target(TargetError::UserInfo)));
        check("GET http:///a HTTP/1.1\r\n", Err(Target(TargetError::Authority)));
        check("GET http://a:99999/ HTTP/1.1\r\n", Err(Target(TargetError::Authority)));
        check("GET gopher://a/ HTTP/1.1\r\n", Err(Target(TargetError::Scheme)));

        check("GET / http/1.1\r\n", Err(VersionSyntax));
        check("GET / HTTP/1\r\n", Err(VersionSyntax));
        check("GET / HTTP/1.\r\n", Err(VersionSyntax));
        check("GET / HTTP/1.10\r\n", Err(VersionSyntax));
        check("GET / HTTP/11.1\r\n", Err(VersionSyntax));
        check("GET / HTTP/1,1\r\n", Err(VersionSyntax));
        check("GET / HTTP/+1.1\r\n", Err(VersionSyntax));
        check("GET / HTTP /1.1\r\n", Err(VersionSyntax));
        check("GET / HTTPS/1.1\r\n", Err(VersionSyntax));
        check("GET / ICY/1.1\r\n", Err(VersionSyntax));
        check("GET / HTTP/1.1 \r\n", Err(VersionSyntax));
        check("GET / HTTP/1.1\t\r\n", Err(VersionSyntax));
        check("GET / HTTP/1.1\n", Err(BareLf));
        check("GET / HTTP/1.1\r\r\n", Err(BareCr));
        check("GET / HTTP/1.1\rHost: h\r\n", Err(BareCr));
        check("GET / HTTP/0.9\r\n", Err(Version));
        check("GET / HTTP/2.0\r\n", Err(Version));
        check("GET / HTTP/3.0\r\n", Err(Version));
        check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(Http2));
        check("PRI / HTTP/2.0\r\n", Err(Version));
    }

    #[test]
    fn what_clients_send_raw_is_escaped() {
        let check = |target: &[u8], expected: Option<&str>| {
            let line = |target: &[u8]| [b"\r\nGET ", target, b" HTTP/1.1\r\nHost: \xe9?\"\r\n\r\n"].concat();
            let input = line(target);
            let expected = expected.map(|target| {
                let escaped = line(target.as_bytes());
                let longer = escaped.len() - input.len();
                (escaped, longer)
            });
            assert_eq!(escape_target(&input), expected, "{target:?}");
        };
        check(b"/a?b", None);
        check("/\u{e4}".as_bytes(), Some("/%C3%A4"));
        check("/\u{e4}?\u{e4}".as_bytes(), Some("/%C3%A4?%C3%A4"));
        check(b"/\x80\xff", Some("/%80%FF"));
        check(b"/?q=\xe4", Some("/?q=%E4"));
        check(b"/?a=\"b\"<c>", Some("/?a=%22b%22%3Cc%3E"));
        check(b"/?a?\"", Some("/?a?%22"));
        check(b"/?%22%C3%A4", None);
        // In a path these stay what no path has.
        check(b"/\"", None);
        check(b"/<\xe4?<", Some("/<%E4?%3C"));
        check(b"/?#\xe4", Some("/?#%E4"));
        check(b"/\0\xe4", None);
        // The authority is not part of it.
        check(b"http://h\xe4/", None);
        check(b"http://h/\xe4?<", Some("http://h/%E4?%3C"));
        check(b"http://h?\xe4", Some("http://h?%E4"));
        check(b"http://h", None);
        check(b"h\xe4:80", None);
        check(b"\xe4", None);
        assert_eq!(escape_target("\u{e4} / HTTP/1.1".as_bytes()), None);
        assert_eq!(escape_target(b"GET /\xe4"), Some((b"GET /%E4".to_vec(), 2)));
        assert_eq!(escape_target(b""), None);
        assert_eq!(escape_target(b"GET"), None);
    }

    #[test]
    fn refused_fields() {
        use HeadError::*;
        for (line, error) in [
            (" X: a", Folded),
            ("\tX: a", Folded),
            ("X: a\r\n b", Folded),
            ("X: a\r\n\tb", Folded),
            ("X : a", SpaceBeforeColon),
            ("X\t: a", SpaceBeforeColon),
            ("Content-Length : 5", SpaceBeforeColon),
            ("Transfer-Encoding : chunked", SpaceBeforeColon),
            ("X Y: a", SpaceBeforeColon),
            (": a", FieldName),
            ("X", FieldName),
            ("X\0: a", FieldName),
            ("X\x7f: a", FieldName),
            ("(X): a", FieldName),
            ("X/Y: a", FieldName),
            ("X\"Y: a", FieldName),
            ("Hé: a", FieldName),
            ("X\rY: a", FieldName),
            ("X\n: a", BareLf),
            ("X: a\nY: b", BareLf),
            ("X: a\n\n", BareLf),
            ("\nX: a", BareLf),
            ("X: a\rY: b", BareCr),
            ("X: a\r\rY: b", BareCr),
            ("X: a\r", BareCr),
            ("X: a\r\n\rY: b", BareCr),
            ("X: a\0", FieldValue),
            ("X: \x01", FieldValue),
            ("X: \x0b", FieldValue),
            ("X: \x1b[31m", FieldValue),
            ("X: \x7f", FieldValue),
            ("Transfer-Encoding: \x0bchunked", FieldValue),
            ("Transfer-Encoding: chunked\0", FieldValue),
        ] {
            check(&with(line), Err(error));
        }
        check("GET / HTTP/1.1\r\n Host: h\r\n\r\n", Err(Folded));
        check("GET / HTTP/1.1\r\nHost: h\n\r\n", Err(BareLf));
        check("GET / HTTP/1.1\r\nHost: h\r\n\n", Err(BareLf));
    }

    #[test]
    fn host_stands_exactly_once_and_is_valid() {
        use HeadError::*;
        let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n");
        check(&get(""), Err(HostMissing));
        check(&get("X: a\r\n"), Err(HostMissing));
        check(&get("Host: a\r\nHost: a\r\n"), Err(HostTwice));
        check(&get("Host: a\r\nX: y\r\nhOST: b\r\n"), Err(HostTwice));
        check(&get("Host: [::1]:8080\r\n"), Ok("GET / HTTP/1.1 [[::1]:8080] None KeepAlive"));
        for host in [
            "", " ", "a b", "a, b", "a/b", "u@a", "a:99999", "a:x", ":80", "[::1", "a\\b", "é", "a#b",
            "http://a", "a<b>",
        ] {
            check(&get(&format!("Host: {host}\r\n")), Err(HostInvalid));
        }
        assert_eq!(summary(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n"), Err(HostInvalid));
        check("GET / HTTP/1.0\r\nHost:\r\n\r\n", Err(HostInvalid));
        check("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Err(HostTwice));
        // Of no account, and yet it must be valid.
        check("GET http://a/ HTTP/1.1\r\nHost: u@b\r\n\r\n", Err(HostInvalid));
        check("GET http://a/ HTTP/1.1\r\n\r\n", Err(HostMissing));
        check("CONNECT a:1 HTTP/1.1\r\n\r\n", Err(HostMissing));
        check("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", Err(HostInvalid));
    }

    #[test]
    fn nothing_is_smuggled() {
        use FramingError::*;
        let refused = |lines: &str, error| check(&with(lines), Err(HeadError::Framing(error)));
        let accepted = |lines: &str, framing: &str| {
            check(&with(lines), Ok(&format!("POST / HTTP/1.1 [h] {framing} KeepAlive")));
        };
        accepted("Content-Length: 5", "Sized(5)");
        accepted("content-length:\t5 ", "Sized(5)");
        accepted("Transfer-Encoding: chunked", "Chunked");
        // Whitespace around a value is no part of it (RFC 9112 §5.1).
        accepted("transfer-ENCODING:\t \tChunked \t", "Chunked");
        accepted("Content-Length_: 5\r\nContent_Length: 6\r\nTransfer_Encoding: chunked", "None");

        refused("Content-Length: 5\r\nTransfer-Encoding: chunked", LengthAndCoding);
        refused("Transfer-Encoding: chunked\r\nContent-Length: 5", LengthAndCoding);
        refused("Transfer-Encoding: identity\r\nContent-Length: 5", LengthAndCoding);
        refused("Content-Length: 5\r\nContent-Length: 5", LengthTwice);
        refused("Content-Length: 5\r\nX: y\r\ncontent-length: 6", LengthTwice);
        refused("Content-Length: 5, 5", LengthTwice);
        refused("Content-Length: 5,6", LengthTwice);
        refused("Content-Length:", LengthSyntax);
        refused("Content-Length: +1", LengthSyntax);
        refused("Content-Length: -1", LengthSyntax);
        refused("Content-Length: 0x1", LengthSyntax);
        refused("Content-Length: 1 1", LengthSyntax);
        refused("Content-Length: 1\t1", LengthSyntax);
        refused("Content-Length: 00", LengthZeros);
        refused("Content-Length: 05", LengthZeros);
        refused("Content-Length: 018446744073709551616", LengthZeros);
        refused("Content-Length: 18446744073709551616", LengthTooLarge);
        refused("Transfer-Encoding: chunked, chunked", ChunkedTwice);
        refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ChunkedTwice);
        refused("Transfer-Encoding: xchunked", ChunkedNotLast);
        refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: x", ChunkedNotLast);
        refused("Transfer-Encoding: chunked, identity", ChunkedNotLast);
        refused("Transfer-Encoding: x, chunked", CodingUnknown);
        refused("Transfer-Encoding: chunked;q=1", CodingSyntax);
        refused("Transfer-Encoding: \"chunked\"", CodingSyntax);
        refused("Transfer-Encoding:", CodingSyntax);
        check(
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(HeadError::Framing(CodingOnHttp10)),
        );
        check("POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n", Ok("POST / HTTP/1.0 [] Sized(5) Close"));
    }

    #[test]
    fn who_keeps_the_connection() {
        let kept = |version: &str, lines: &str| {
            let input = format!("GET / HTTP/{version}\r\nHost: h\r\n{lines}\r\n");
            let mut store = FieldStore::new();
            parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap().0.persistence
                == Persistence::KeepAlive
        };
        for (lines, on_11, on_10) in [
            ("", true, false),
            ("Connection: close\r\n", false, false),
            ("Connection: CLOSE\r\n", false, false),
            ("Connection: keep-alive\r\n", true, true),
            ("Connection: Keep-Alive, Upgrade\r\n", true, true),
            ("Connection: upgrade\r\n", true, false),
            ("Connection: keep-alive, close\r\n", false, false),
            ("Connection: keep-alive\r\nConnection: close\r\n", false, false),
            ("Connection: x-close\r\n", true, false),
            ("Connection: ,, close\r\n", false, false),
            ("Connection: \r\n", true, false),
            ("Proxy-Connection: close\r\nKeep-Alive: 5\r\n", true, false),
        ] {
            assert_eq!((kept("1.1", lines), kept("1.0", lines)), (on_11, on_10), "{lines}");
        }
    }

    #[test]
    fn expectations() {
        let post = |lines: &str| format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        check(
            &post("Expect: 100-Continue\r\nContent-Length: 5\r\n"),
            Ok("POST / HTTP/1.1 [h] Sized(5) KeepAlive wait"),
        );
        check(
            &post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"),
            Ok("POST / HTTP/1.1 [h] Chunked KeepAlive wait"),
        );
        check(&post("Expect: 100-continue\r\n"), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
        check(
            &post("Expect: 100-continue\r\nContent-Length: 0\r\n"),
            Ok("POST / HTTP/1.1 [h] Sized(0) KeepAlive"),
        );
        check(&post("Expect: 200-ok\r\n"), Err(HeadError::Expectation));
        check(&post("Expect: 100-continue, x\r\nContent-Length: 5\r\n"), Err(HeadError::Expectation));
        check(&post("Expect: 100-continue\r\nExpect: x=\"a,b\"\r\n"), Err(HeadError::Expectation));
        check(
            "POST / HTTP/1.0\r\nExpect: x\r\nContent-Length: 5\r\n\r\n",
            Ok("POST / HTTP/1.0 [] Sized(5) Close"),
        );
    }

    #[test]
    fn limits_are_met_while_reading() {
        let limits = Limits { head: 128, fields: 3, target: 10 };
        let check = |input: &str, expected: Result<bool, HeadError>| {
            assert_eq!(read(input.as_bytes(), &limits).map(|found| found.is_some()), expected, "{input:?}");
        };
        check("GET /234567890", Ok(false));
        check("GET /2345678901", Err(HeadError::TargetTooLong));
        check(&format!("GET /{}", "a".repeat(1000)), Err(HeadError::TargetTooLong));
        check("GET /234567890 HTTP/1.1\r\nHost: h\r\n\r\n", Ok(true));

        let line = "GET / HTTP/1.1\r\nHost: h\r\n";
        check(&format!("{line}A: a\r\nB: b\r\n"), Ok(false));
        check(&format!("{line}A: a\r\nB: b\r\n\r\n"), Ok(true));
        check(&format!("{line}A: a\r\nB: b\r\nC"), Err(HeadError::TooManyFields));

        let room = 128 - line.len() - "X: \r\n\r\n".len();
        let full = format!("{line}X: {}\r\n\r\n", "a".repeat(room));
        assert_eq!(full.len(), 128);
        check(&full, Ok(true));
        check(&full[..127], Ok(false));
        check(&format!("{full}GET"), Ok(true));
        check(&format!("{line}X: {}\r\n\r\n", "a".repeat(room + 1)), Err(HeadError::TooLarge));
        check(&format!("{line}X: {}", "a".repeat(1000)), Err(HeadError::TooLarge));
        check("\r\n", Ok(false));
    }

    #[test]
    fn no_limit_exceeds_the_store() {
        let limits = Limits { head: 1 << 20, fields: usize::MAX, target: 10 };
        let request =
            |fields: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a:\r\n".repeat(fields - 1));
        assert!(read(request(MAX_FIELDS).as_bytes(), &limits).unwrap().is_some());
        assert_eq!(read(request(MAX_FIELDS + 1).as_bytes(), &limits), Err(HeadError::TooManyFields));
        let none = Limits { head: 0, fields: 0, target: 0 };
        assert_eq!(read(b"", &none), Err(HeadError::TooLarge));
    }

    #[test]
    fn every_known_name_is_found_in_any_case() {
        let mut all = Names::NONE;
        for (len, bit, text) in NAMED {
            assert_eq!(text.len(), *len, "{text}");
            assert_eq!(Names::of(text.as_bytes()), Names(1 << bit), "{text}");
            assert_eq!(Names::of(text.to_ascii_uppercase().as_bytes()), Names(1 << bit), "{text}");
            assert!(!all.intersects(Names(1 << bit)), "{text}");
            all.insert(Names(1 << bit));
            assert_eq!(
                Names::of(text.replace('-', "_").as_bytes()),
                if text.contains('-') { Names::NONE } else { Names(1 << bit) }
            );
        }
        for unknown in ["", "x", "hosts", "hose", "content-lengtj", "x-forwarded-host"] {
            assert!(Names::of(unknown.as_bytes()).is_empty(), "{unknown}");
        }
        assert!(all.contains(Names::CONDITIONAL));
        assert!(!Names::HOST.intersects(Names::CONDITIONAL) && !Names::IF_MATCH.contains(Names::CONDITIONAL));
    }

    #[test]
    fn values_are_found_by_name() {
        let mut store = FieldStore::new();
        let input = b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\na:  3 \r\nC:\r\n\r\n";
        let (head, _) = parse(input, &mut store, &Limits::default()).unwrap().unwrap();
        assert_eq!(head.values("a").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!((head.value("A"), head.only("A")), (Some(&b"1"[..]), None));
        assert_eq!((head.value("b"), head.only("b")), (Some(&b"2"[..]), Some(&b"2"[..])));
        assert_eq!((head.value("c"), head.only("d")), (Some(&b""[..]), None));
        assert_eq!(head.fields.iter().copied().collect::<Names>(), head.names);
    }

    #[test]
    fn methods_are_their_tokens() {
        for token in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"] {
            assert_eq!(Method::from_bytes(token.as_bytes()).as_str(), token);
            assert_eq!(Method::from_bytes(token.to_lowercase().as_bytes()), Method::Unknown);
        }
    }

    #[test]
    fn every_refusal_is_an_error_status() {
        let rows = [
            (HeadError::TargetTooLong, 414),
            (HeadError::TooManyFields, 431),
            (HeadError::TooLarge, 431),
            (HeadError::Version, 505),
            (HeadError::Http2, 505),
            (HeadError::VersionSyntax, 400),
            (HeadError::Expectation, 417),
            (HeadError::MethodTooLong, 501),
            (HeadError::HostMissing, 400),
            (HeadError::BareLf, 400),
            (HeadError::Target(TargetError::UserInfo), 400),
            (HeadError::Framing(FramingError::LengthAndCoding), 400),
            (HeadError::Framing(FramingError::CodingUnknown), 501),
        ];
        for (error, code) in rows {
            assert_eq!(error.status().code(), code, "{error}");
        }
    }

    /// Pieces that make heads, good and bad ones.
    fn request() -> impl Strategy<Value = Vec<u8>> {
        let line = prop::sample::select(vec![
            "GET / HTTP/1.1\r\n",
            "POST /a?b HTTP/1.1\r\n",
            "GET http://a/ HTTP/1.0\r\n",
            "\r\nOPTIONS * HTTP/1.2\r\n",
            "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n",
        ]);
        let field = prop::sample::select(vec![
            "Host: h\r\n",
            "Host: h:80\r\n",
            "Content-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Connection: close\r\n",
            "Expect: 100-continue\r\n",
            "A:\tb \t \r\n",
            "A-long-name: and a longer value, with \"quotes\"\tand tabs\r\n",
            "A : b\r\n",
            " folded\r\n",
            "A: b\n",
        ]);
        let change = (any::<prop::sample::Index>(), prop::sample::select(b"\r\n\0 \t:a/\x7f\xff".to_vec()));
        let fields = prop_oneof![Just(vec!["Host: h\r\n"]), prop::collection::vec(field, 0..6),];
        (line, fields, prop::collection::vec(change, 0..2), "[a\r\n]{0,4}").prop_map(
            |(line, fields, changes, rest)| {
                let mut bytes = format!("{line}{}\r\n{rest}", fields.concat()).into_bytes();
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes
            },
        )
    }

    const SMALL: Limits = Limits { head: 150, fields: 4, target: 32 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The law of the beginning: it is not yet a head, or already says what the whole says, whether
        /// that is a head or an error.
        #[test]
        fn a_beginning_says_nothing_or_the_same(input in request()) {
            for limits in [SMALL, Limits::default()] {
                let whole = read(&input, &limits);
                for end in 0..input.len() {
                    let beginning = read(&input[..end], &limits);
                    let lawful = beginning == Ok(None) || beginning == whole;
                    prop_assert!(lawful, "{end} {beginning:?} {whole:?}");
                }
            }
        }

        #[test]
        fn a_beginning_of_noise_says_nothing_or_the_same(input: Vec<u8>) {
            let whole = read(&input, &SMALL);
            for end in 0..input.len() {
                let beginning = read(&input[..end], &SMALL);
                prop_assert!(beginning == Ok(None) || beginning == whole);
            }
        }

        /// What is accepted here is accepted by httparse, with the same parts.
        #[test]
        fn accepted_heads_agree_with_httparse(input in request()) {
            let mut store = FieldStore::new();
            if let Ok(Some((head, used))) = parse(&input, &mut store, &Limits::default())
                && !input[..used].windows(8).any(|window| window == b"HTTP/1.2")
            {
                let mut fields = [httparse::EMPTY_HEADER; 32];
                let mut request = httparse::Request::new(&mut fields);
                prop_assert_eq!(request.parse(&input), Ok(httparse::Status::Complete(used)));
                prop_assert_eq!(request.method, Some(head.token));
                prop_assert_eq!(request.path, Some(head.raw_target));
                prop_assert_eq!(request.version, Some(head.version as u8));
                let theirs = request.headers.iter().map(|field| (field.name.as_bytes(), field.value));
                let theirs: Vec<_> = theirs.collect();
                let ours: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
                prop_assert_eq!(ours, theirs);
            }
        }

        #[test]
        fn one_line_of_anything_is_one_field_or_refused(name in "[ -~]{1,8}", value in "[ -~\t]{0,20}") {
            let input = with(&format!("{name}:{value}"));
            let mut store = FieldStore::new();
            if let Ok(Some((head, used))) = parse(input.as_bytes(), &mut store, &Limits::default()) {
                prop_assert_eq!(used, input.len());
                prop_assert_eq!(head.fields.len(), 2);
                // A colon in the name ends it sooner.
                let (name, value) = input["POST / HTTP/1.1\r\nHost: h\r\n".len()..].split_once(':').unwrap();
                prop_assert_eq!(head.fields[1].name, name.as_bytes());
                let value = value.trim_matches(['\r', '\n']).trim_matches([' ', '\t']);
                prop_assert_eq!(head.fields[1].value, value.as_bytes());
            }
        }
    }
}
