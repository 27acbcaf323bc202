//! The field list of a request or of its trailers: all names and values in one buffer, which is reused. Checks each
//! field, and which pseudo-fields there are (RFC 9113 §8). Knows nothing of HPACK and of streams.

use taipan_http::fields::{is_lowercase_name, is_token, is_value};
use taipan_http::framing::{self, Framing};
use taipan_http::head::{self, Body, Field, FieldStore, Head, HeadError, Limits, Names, Parts, Version};

use crate::error::HpackError;
use crate::hpack::{BlockDecoder, Discarded, Source};
use crate::priority::Priority;

/// A decoded field section. It has the fields without the pseudo-fields, in order, but with one `cookie` at most.
#[derive(Debug, Clone, Default)]
pub struct FieldList {
    bytes: Vec<u8>,
    fields: Vec<Entry>,
    pseudo: [Option<Entry>; PSEUDO],
    names: Names,
    /// Fields that were appended, without pseudo-fields and crumbs.
    count: usize,
    /// Crumbs: browsers send each cookie as one.
    cookies: usize,
    section: Section,
    /// Whether a body follows.
    body: Option<Body>,
    /// For the decoder of HPACK.
    scratch: Vec<u8>,
}

/// A field section of a request (RFC 9113 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Section {
    #[default]
    Head,
    Trailers,
}

/// Where a field is in the buffer.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    name: u32,
    value: u32,
}

/// Crumbs of a cookie, which count as one field. Browsers keep 180 cookies of a site.
const MAX_CRUMBS: usize = 256;

const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
const PROTOCOL: usize = 4;
const PSEUDO: usize = 5;

/// The rule that makes a request malformed (RFC 9113 §8.1.1). The stream is reset with PROTOCOL_ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Not a token, or with an upper-case letter (§8.2.1).
    Name,
    /// A control character, or whitespace at an end (§8.2.1).
    Value,
    /// `connection`, `proxy-connection`, `keep-alive`, `transfer-encoding` or `upgrade` (§8.2.2).
    ConnectionSpecific,
    /// `te` with something other than `trailers` (§8.2.2).
    Te,
    /// A pseudo-field that requests do not have, or any in trailers (§8.3).
    UnknownPseudo,
    PseudoTwice,
    /// Behind another field (§8.3).
    PseudoAfterField,
    /// Without `:method`, `:scheme` or `:path`, or CONNECT without `:authority` (§8.3.1).
    PseudoMissing,
    /// `:path` is empty (§8.3.1), or `:method` is not a token.
    PseudoValue,
    /// CONNECT with `:scheme` or `:path` (§8.5), or another method with `:protocol` (RFC 8441 §4).
    Connect,
    /// `host` differs from `:authority` (§8.3.1).
    HostDiffers,
    /// The body is longer or shorter than `content-length` (§8.1.1).
    Length,
}

impl Malformed {
    /// One sentence without a full stop, for the log.
    pub const fn sentence(self) -> &'static str {
        match self {
            Malformed::Name => "a field name is not a token in lower case",
            Malformed::Value => "a field value has a control character, or whitespace at an end",
            Malformed::ConnectionSpecific => {
                "there is a field that HTTP/2 does not allow, such as Connection"
            }
            Malformed::Te => "the TE field has something other than trailers",
            Malformed::UnknownPseudo => "there is a pseudo-field that is not allowed there",
            Malformed::PseudoTwice => "there is a pseudo-field twice",
            Malformed::PseudoAfterField => "there is a pseudo-field behind another field",
            Malformed::PseudoMissing => "a pseudo-field is missing",
            Malformed::PseudoValue => "a pseudo-field has a value that is not valid",
            Malformed::Connect => "a CONNECT request has the wrong pseudo-fields",
            Malformed::HostDiffers => "the Host field differs from the authority",
            Malformed::Length => "the body does not have the length of Content-Length",
        }
    }
}

/// Why a field section is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionError {
    Hpack(HpackError),
    Malformed(Malformed),
    /// More fields than the limit.
    TooMany,
}

impl From<HpackError> for SectionError {
    fn from(error: HpackError) -> SectionError {
        SectionError::Hpack(error)
    }
}

impl From<Malformed> for SectionError {
    fn from(error: Malformed) -> SectionError {
        SectionError::Malformed(error)
    }
}

/// Whether requests may have `:protocol`: whether the server has sent SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendedConnect {
    Unknown,
    Announced,
}

impl FieldList {
    pub const fn new() -> FieldList {
        FieldList {
            bytes: Vec::new(),
            fields: Vec::new(),
            pseudo: [None; PSEUDO],
            names: Names::NONE,
            count: 0,
            cookies: 0,
            section: Section::Head,
            body: None,
            scratch: Vec::new(),
        }
    }

    /// The fields without the pseudo-fields.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = Field<'_>> + Clone {
        self.fields.iter().map(|entry| self.field(entry))
    }

    /// The value of the first field of this name, which is in lower case.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|field| field.name == name.as_bytes()).map(|field| field.value)
    }

    /// The value of `:method` (RFC 9113 §8.3.1).
    pub fn method(&self) -> Option<&[u8]> {
        self.pseudo(METHOD)
    }

    /// The value of `:scheme`.
    pub fn scheme(&self) -> Option<&[u8]> {
        self.pseudo(SCHEME)
    }

    /// The value of `:authority`. `None`: there is none; `Host` may stand for it.
    pub fn authority(&self) -> Option<&[u8]> {
        self.pseudo(AUTHORITY)
    }

    /// The value of `:path`: the path and the query.
    pub fn path(&self) -> Option<&[u8]> {
        self.pseudo(PATH)
    }

    /// Of an extended CONNECT (RFC 8441 §4).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.pseudo(PROTOCOL)
    }

    /// The value of the field `Priority` (RFC 9218 §5). Without it, responses take turns: the client has asked for no
    /// order, and a download must not hold back the events of another stream.
    pub fn priority(&self) -> Priority {
        match self.names.contains(Names::PRIORITY) {
            true => self.value("priority").map_or(Priority::UNKNOWN, Priority::parse),
            false => Priority::UNKNOWN,
        }
    }

    /// The value of `content-length`; `None` also if it is not valid, for which `head` rejects the request.
    pub(crate) fn content_length(&self) -> Option<u64> {
        if !self.names.contains(Names::CONTENT_LENGTH) {
            return None;
        }
        let values = self.fields().filter(|field| field.name == b"content-length").map(|field| field.value);
        match framing::of(Version::Http2, values, []) {
            Ok(Framing::Sized(length)) => Some(length),
            _ => None,
        }
    }

    /// The request head, by the rules of HTTP/1.1. The names of its fields are in lower case. `limits.head` does not
    /// count: the list is within the limits of the connection.
    pub fn head<'a: 's, 's>(
        &'a self,
        store: &'s mut FieldStore<'a>,
        limits: &Limits,
    ) -> Result<Head<'s>, HeadError> {
        store.clear();
        // In HTTP/1.1, the authority is a field, too.
        let authority = usize::from(!self.names.contains(Names::HOST));
        if self.fields.len() + authority > limits.fields.min(head::MAX_FIELDS) {
            return Err(HeadError::TooManyFields);
        }
        store.extend(self.fields());
        let parts = Parts {
            method: self.method().unwrap_or_default(),
            scheme: self.scheme(),
            authority: self.authority(),
            path: self.path(),
            names: self.names,
            body: self.body.unwrap_or(Body::Absent),
        };
        head::from_parts(&parts, store, limits)
    }

    /// Decodes a field block and checks its fields, of which there are at most `max`, and the limit of the decoder.
    /// After an error that is not of HPACK, the list has the fields before it.
    pub(crate) fn decode(
        &mut self,
        decoder: &mut BlockDecoder<Class>,
        block: &[u8],
        max: usize,
        connect: ExtendedConnect,
    ) -> Result<(), SectionError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let decoded =
            decoder.decode(block, &mut scratch, |source, name, value| self.push(source, name, value, max));
        scratch.clear();
        self.scratch = scratch;
        decoded?;
        self.finish(connect).map_err(SectionError::Malformed)
    }

    /// Decodes a part of a field block for the table alone, and returns how many bytes it has taken.
    pub(crate) fn discard(
        &mut self,
        decoder: &mut BlockDecoder<Class>,
        part: &[u8],
        discarded: &mut Discarded,
    ) -> Result<usize, HpackError> {
        let taken = decoder.discard(part, &mut self.scratch, discarded);
        self.scratch.clear();
        taken
    }

    /// Appends what is known of a list that was discarded, to an empty list.
    pub(crate) fn note_discarded(&mut self, discarded: Discarded) {
        if discarded.is_head && self.section == Section::Head {
            _ = self.push_pseudo(METHOD, b"HEAD");
        }
    }

    /// Empties the list for another section.
    pub(crate) fn begin(&mut self, section: Section, body: Body) {
        self.bytes.clear();
        self.fields.clear();
        self.pseudo = [None; PSEUDO];
        self.names = Names::NONE;
        self.count = 0;
        self.cookies = 0;
        self.section = section;
        self.body = Some(body);
    }

    /// Appends a field. `max` limits the fields, without pseudo-fields and crumbs, which have limits of their own.
    fn push(
        &mut self,
        source: Source<Class>,
        name: &[u8],
        value: &[u8],
        max: usize,
    ) -> Result<Class, SectionError> {
        let class = match source {
            Source::Known(class) => class,
            Source::Static(index) => static_class(index),
            _ if !is_value(value) => return Err(Malformed::Value.into()),
            Source::StaticName(index) => static_class(index),
            Source::Literal => Class::of(name, value)?,
        };
        let names = match class {
            Class::Pseudo(at) => {
                self.push_pseudo(at.into(), value)?;
                return Ok(class);
            }
            Class::Field(names) => {
                self.count += 1;
                names
            }
            Class::Cookie => {
                self.cookies += 1;
                Names::COOKIE
            }
            Class::UnknownPseudo => return Err(Malformed::UnknownPseudo.into()),
            Class::ConnectionSpecific => return Err(Malformed::ConnectionSpecific.into()),
        };
        if self.count > max || self.cookies > MAX_CRUMBS {
            return Err(SectionError::TooMany);
        }
        self.names.insert(names);
        let start = self.bytes.len() as u32;
        self.fields.push(Entry { start, name: name.len() as u32, value: value.len() as u32 });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        Ok(class)
    }

    /// Appends the value of a pseudo-field.
    fn push_pseudo(&mut self, at: usize, value: &[u8]) -> Result<(), Malformed> {
        if self.section == Section::Trailers {
            return Err(Malformed::UnknownPseudo);
        }
        if !self.fields.is_empty() {
            return Err(Malformed::PseudoAfterField);
        }
        if self.pseudo[at].is_some() {
            return Err(Malformed::PseudoTwice);
        }
        self.pseudo[at] = Some(Entry { start: self.bytes.len() as u32, name: 0, value: value.len() as u32 });
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Checks which pseudo-fields there are, joins the crumbs of a cookie, and encodes the bytes of the path that no
    /// URI contains and that clients send all the same.
    fn finish(&mut self, connect: ExtendedConnect) -> Result<(), Malformed> {
        if self.cookies > 1 {
            self.join_cookies();
        }
        if self.section == Section::Trailers {
            return Ok(());
        }
        if let Some(path) = self.path().and_then(head::escape_path) {
            let start = self.bytes.len() as u32;
            self.pseudo[PATH] = Some(Entry { start, name: 0, value: path.len() as u32 });
            self.bytes.extend_from_slice(&path);
        }
        let method = self.method().ok_or(Malformed::PseudoMissing)?;
        let is_connect = method == b"CONNECT";
        let is_extended = self.protocol().is_some();
        if !is_token(method) || self.path().is_some_and(<[u8]>::is_empty) {
            return Err(Malformed::PseudoValue);
        }
        if is_extended && connect == ExtendedConnect::Unknown {
            return Err(Malformed::UnknownPseudo);
        }
        if is_extended && !is_connect {
            return Err(Malformed::Connect);
        }
        if is_connect && self.authority().is_none() {
            return Err(Malformed::PseudoMissing);
        }
        match (is_connect && !is_extended, self.scheme(), self.path()) {
            (true, None, None) | (false, Some(_), Some(_)) => {}
            (true, ..) => return Err(Malformed::Connect),
            (false, ..) => return Err(Malformed::PseudoMissing),
        }
        if !self.names.contains(Names::HOST) {
            return Ok(());
        }
        match (self.authority(), self.value("host")) {
            (Some(authority), Some(host)) if !self.are_same(authority, host) => Err(Malformed::HostDiffers),
            _ => Ok(()),
        }
    }

    /// Whether two authorities are equal after their normalization (RFC 3986 §6.2). A final dot of a name changes
    /// nothing.
    fn are_same(&self, one: &[u8], other: &[u8]) -> bool {
        let port = if self.scheme() == Some(b"http") { b"80".as_slice() } else { b"443" };
        let [(one, own), (other, others)] = [one, other].map(|authority| name_and_port(authority, port));
        one.eq_ignore_ascii_case(other) && own == others
    }

    /// RFC 9113 §8.2.3. The joined field is where the first crumb was.
    fn join_cookies(&mut self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"cookie");
        let mut first = true;
        for at in 0..self.fields.len() {
            let Entry { start, name, value } = self.fields[at];
            let (name, end) = ((start + name) as usize, (start + name + value) as usize);
            if &self.bytes[start as usize..name] == b"cookie" {
                if !std::mem::take(&mut first) {
                    self.bytes.extend_from_slice(b"; ");
                }
                self.bytes.extend_from_within(name..end);
            }
        }
        let joined = Entry {
            start: start as u32,
            name: b"cookie".len() as u32,
            value: (self.bytes.len() - start - b"cookie".len()) as u32,
        };
        let (mut joined, bytes) = (Some(joined), &self.bytes);
        self.fields.retain_mut(|entry| {
            if &bytes[entry.start as usize..(entry.start + entry.name) as usize] != b"cookie" {
                return true;
            }
            match joined.take() {
                Some(joined) => {
                    *entry = joined;
                    true
                }
                None => false,
            }
        });
    }

    fn pseudo(&self, at: usize) -> Option<&[u8]> {
        self.pseudo[at].as_ref().map(|entry| self.field(entry).value)
    }

    fn field(&self, entry: &Entry) -> Field<'_> {
        let (name, value) = self.bytes[entry.start as usize..].split_at(entry.name as usize);
        Field { name, value: &value[..entry.value as usize] }
    }
}

/// `default`: the port of an authority that has none.
fn name_and_port<'a>(authority: &'a [u8], default: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let colon = authority.iter().rposition(|byte| *byte == b':');
    let is_port = |at: &usize| authority[at + 1..].iter().all(u8::is_ascii_digit);
    let (name, port) = match colon.filter(is_port) {
        Some(at) => (&authority[..at], &authority[at + 1..]),
        None => (authority, &[][..]),
    };
    (name.strip_suffix(b".").unwrap_or(name), if port.is_empty() { default } else { port })
}

/// What kind of field a valid name and value make. It is the same in every section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// By its position in `FieldList::pseudo`.
    Pseudo(u8),
    UnknownPseudo,
    ConnectionSpecific,
    Cookie,
    Field(Names),
}

impl Class {
    fn of(name: &[u8], value: &[u8]) -> Result<Class, Malformed> {
        Ok(match name {
            b":method" => Class::Pseudo(METHOD as u8),
            b":scheme" => Class::Pseudo(SCHEME as u8),
            b":authority" => Class::Pseudo(AUTHORITY as u8),
            b":path" => Class::Pseudo(PATH as u8),
            b":protocol" => Class::Pseudo(PROTOCOL as u8),
            [b':', ..] => Class::UnknownPseudo,
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                Class::ConnectionSpecific
            }
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => return Err(Malformed::Te),
            b"cookie" => Class::Cookie,
            name if is_lowercase_name(name) => Class::Field(Names::of(name)),
            _ => return Err(Malformed::Name),
        })
    }
}

/// The class of a field whose name is at this index of the static table of HPACK (RFC 7541 appendix A).
const fn static_class(index: usize) -> Class {
    Class::Field(match index {
        1 => return Class::Pseudo(AUTHORITY as u8),
        2 | 3 => return Class::Pseudo(METHOD as u8),
        4 | 5 => return Class::Pseudo(PATH as u8),
        6 | 7 => return Class::Pseudo(SCHEME as u8),
        8..=14 => return Class::UnknownPseudo,
        32 => return Class::Cookie,
        57 => return Class::ConnectionSpecific,
        16 => Names::ACCEPT_ENCODING,
        23 => Names::AUTHORIZATION,
        24 => Names::CACHE_CONTROL,
        28 => Names::CONTENT_LENGTH,
        35 => Names::EXPECT,
        38 => Names::HOST,
        39 => Names::IF_MATCH,
        40 => Names::IF_MODIFIED_SINCE,
        41 => Names::IF_NONE_MATCH,
        42 => Names::IF_RANGE,
        43 => Names::IF_UNMODIFIED_SINCE,
        50 => Names::RANGE,
        _ => Names::NONE,
    })
}

#[cfg(test)]
mod tests;
