//! Request targets in their four forms (RFC 9112 §3.2), and `SafePath`, the only type of path that opens a file.
//! Knows nothing of files and of which paths exist.

mod link;
mod raw;

use std::borrow::Cow;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::digits::hex_byte;
use crate::fields::{host_and_port, is_authority, port_number, segment_len, target_len, target_path_len};
use crate::method::Method;
use crate::path_text;
use crate::rule::rules;

pub(crate) use self::link::escape;
pub use self::link::{encode_path, encode_segment, encoded_path, percent_encode, with_query};
pub use self::raw::{RawPath, has_dots_with_parameters, has_overlong_escapes, normalized};

/// The parts of a request target, not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`: the path begins with a slash.
    Origin { path: &'a str, query: Option<&'a str> },
    /// `http://authority/path?query`. An empty path becomes `/`.
    Absolute { authority: &'a str, path: &'a str, query: Option<&'a str> },
    /// `host:port`, for CONNECT only.
    Authority(&'a str),
    /// `*`, for OPTIONS only.
    Asterisk,
}

/// The scheme of the target URI (RFC 9110 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// The broken rule of RFC 9112 §3.2 or RFC 9110 §4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetError {
    /// A byte that no request target contains: a control character, a space, `#`, `"`, `<`, `>`, or not ASCII.
    Byte,
    /// A form that is not valid for the method.
    Form,
    /// A scheme other than http and https.
    Scheme,
    /// An empty or malformed host, or a port above 65535.
    Authority,
    /// `user@host` (RFC 9110 §4.2.4).
    UserInfo,
}

/// A path below some root, decoded exactly once, as a text of `path_text`. It has no leading slash, no empty, `.` or
/// `..` segment, no backslash and no control character. The path of a folder ends with a slash; that of the root is
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafePath<'a>(Cow<'a, str>);

/// Why a path is not safe. The status is always 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathError {
    /// Does not begin with a slash.
    NotAbsolute,
    /// `%` without two hexadecimal digits.
    Escape,
    /// `%2F`: some programs decode it to a separator.
    EncodedSlash,
    /// `\` or `%5C`: some programs take it for a separator.
    Backslash,
    /// A control character, raw or encoded.
    Control,
    /// A raw byte outside ASCII. Those of a request are percent-encoded before its head is parsed.
    NotAscii,
    /// An overlong form of an ASCII character, in a path for an application: some programs decode `%C0%AF` to a slash.
    Overlong,
    /// More `..` than segments before them.
    AboveRoot,
    /// A dot segment, plain or encoded, in a path that is passed on as it was sent.
    DotSegment,
    /// Two slashes at the beginning of such a path: some programs take what follows for a host.
    LeadingSlashes,
}

impl Scheme {
    /// Schemes are case-insensitive (RFC 3986 §3.1).
    pub fn from_bytes(bytes: &[u8]) -> Option<Scheme> {
        [Scheme::Http, Scheme::Https]
            .into_iter()
            .find(|one| bytes.eq_ignore_ascii_case(one.as_str().as_bytes()))
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of a URI that has none.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// The authority without its port, if that is the default one or empty (RFC 9110 §4.2.3).
    pub fn without_default_port(self, authority: &[u8]) -> &[u8] {
        let is_default = |port: &[u8]| port.is_empty() || port_number(port) == Some(self.default_port());
        // Nearly every other authority is told by its last byte.
        let last_digit = b'0' + (self.default_port() % 10) as u8;
        if !matches!(authority.last(), Some(&last) if last == b':' || last == last_digit) {
            return authority;
        }
        match authority.iter().rposition(|byte| *byte == b':') {
            Some(at) if is_default(&authority[at + 1..]) => &authority[..at],
            _ => authority,
        }
    }
}

impl<'a> Target<'a> {
    /// Parses `raw` in the form that `method` requires.
    pub fn parse(method: Method, raw: &'a str) -> Result<Target<'a>, TargetError> {
        match target_len(raw.as_bytes()) == raw.len() {
            true => Target::of_valid_bytes(method, raw, target_path_len(raw.as_bytes())),
            false => Err(TargetError::Byte),
        }
    }

    /// As `parse`. The head parser has checked the bytes and passes the position of the first question mark, or else
    /// of the end.
    #[inline]
    pub(crate) fn of_valid_bytes(
        method: Method,
        raw: &'a str,
        mark: usize,
    ) -> Result<Target<'a>, TargetError> {
        if raw.starts_with('/') && method != Method::Connect {
            let (path, query) = split_query(raw, mark);
            return Ok(Target::Origin { path, query });
        }
        match method {
            Method::Connect => authority_form(raw),
            Method::Options if raw == "*" => Ok(Target::Asterisk),
            _ => absolute_form(raw),
        }
    }

    /// The authority of the forms that have one. Only clients of a proxy send them, hence `cold`.
    #[cold]
    pub fn authority(&self) -> Option<&'a str> {
        match *self {
            Target::Absolute { authority, .. } | Target::Authority(authority) => Some(authority),
            Target::Origin { .. } | Target::Asterisk => None,
        }
    }

    /// The raw path; `None` in authority and asterisk form.
    pub fn path(&self) -> Option<&'a str> {
        match *self {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => Some(path),
            Target::Authority(_) | Target::Asterisk => None,
        }
    }

    /// The raw query without its question mark; `Some("")` if nothing follows the question mark.
    pub fn query(&self) -> Option<&'a str> {
        match *self {
            Target::Origin { query, .. } | Target::Absolute { query, .. } => query,
            Target::Authority(_) | Target::Asterisk => None,
        }
    }
}

impl<'a> SafePath<'a> {
    /// Parses the raw path of a target, such as `/a%20b/../c`. Borrows a path that needs no change.
    ///
    /// Resolves dot segments after decoding, because `%2e` is `.` (RFC 3986 §6.2.2.2), and removes empty segments. A
    /// path that ends with a dot segment is a folder. Decodes once: `%252e` becomes the three characters `%2e`.
    pub fn parse(path: &'a str) -> Result<SafePath<'a>, PathError> {
        let path = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        match is_plain(path.as_bytes()) {
            true => Ok(SafePath(Cow::Borrowed(path))),
            false => resolve(&decode(path)?).map(|path| SafePath(Cow::Owned(path))),
        }
    }

    /// Of a path that is decoded already, such as one of the configuration. It begins with a slash. Parts of two paths
    /// that make UTF-8 together become it.
    pub fn from_decoded(path: &str) -> Result<SafePath<'static>, PathError> {
        let mut encoded = String::with_capacity(path.len());
        encode_path(path, &mut encoded);
        SafePath::parse(&encoded).map(SafePath::into_owned)
    }

    /// Of a path on a disk, relative to the root.
    pub fn from_path(path: &Path) -> Result<SafePath<'static>, PathError> {
        SafePath::from_decoded(&["/", &path_text::of_bytes(path.as_os_str().as_bytes())].concat())
    }

    /// Relative to the root: `a/b.html`, `a/`, or empty. To be compared and cut, and not to open a file.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As in a target: percent-encoded, with a slash in front.
    pub fn encoded(&self) -> String {
        encoded_path(&self.0)
    }

    /// As on a disk, relative to the root.
    pub fn to_path(&self) -> Cow<'_, Path> {
        path_text::to_path(&self.0)
    }

    /// As on a disk.
    pub fn beneath(&self, root: &Path) -> PathBuf {
        root.join(self.to_path())
    }

    /// Whether it is empty, or ends with a slash.
    pub fn is_folder(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }

    /// The last segment, also of a folder; empty for the root.
    pub fn name(&self) -> &str {
        let path = self.0.strip_suffix('/').unwrap_or(&self.0);
        path.rfind('/').map_or(path, |slash| &path[slash + 1..])
    }

    /// The part of the name after its last dot; `None` if it is empty or if the dot is the first character.
    pub fn extension(&self) -> Option<&str> {
        let (stem, extension) = self.name().rsplit_once('.')?;
        (!stem.is_empty() && !extension.is_empty()).then_some(extension)
    }

    /// Whether a segment begins with a dot, except a first segment `.well-known` (RFC 8615).
    pub fn is_hidden(&self) -> bool {
        let mut segments = self.segments();
        segments.next().is_some_and(|first| first.starts_with('.') && first != ".well-known")
            || segments.any(|segment| segment.starts_with('.'))
    }

    /// The segments from the root down; none is empty.
    pub fn segments(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The path of `name` in this folder. A path that is not a folder is taken for one. `None` if `name` is not a
    /// safe segment.
    pub fn join(&self, name: &str) -> Option<SafePath<'static>> {
        let slash = if self.is_folder() { "" } else { "/" };
        is_segment(name).then(|| SafePath(Cow::Owned([&self.0, slash, name].concat())))
    }

    /// The path with `suffix` appended: `logo.svg.gz`. `None` for a folder, and if `suffix` cannot be part of a
    /// segment.
    pub fn with_suffix(&self, suffix: &str) -> Option<SafePath<'static>> {
        (!self.is_folder() && is_within_segment(suffix))
            .then(|| SafePath(Cow::Owned([&self.0, suffix].concat())))
    }

    /// The path of `name` in the folder of this file. `None` for a folder, and if `name` is not a safe segment.
    pub fn sibling(&self, name: &str) -> Option<SafePath<'static>> {
        let folder = self.0.rfind('/').map_or("", |slash| &self.0[..=slash]);
        (!self.is_folder() && is_segment(name)).then(|| SafePath(Cow::Owned([folder, name].concat())))
    }

    /// The same path with a slash at its end.
    pub fn as_folder(&self) -> SafePath<'static> {
        let slash = if self.is_folder() { "" } else { "/" };
        SafePath(Cow::Owned([&self.0, slash].concat()))
    }

    /// The folder of the first `count` segments; `None` if there are fewer, or if the last of them is a file.
    pub fn first_segments(&self, count: usize) -> Option<SafePath<'_>> {
        let end = match count {
            0 => 0,
            _ => self.0.match_indices('/').nth(count - 1)?.0 + 1,
        };
        Some(SafePath(Cow::Borrowed(&self.0[..end])))
    }

    /// The path without its first `count` segments; `None` if it has fewer. A folder stays a folder.
    pub fn skip_segments(&self, count: usize) -> Option<SafePath<'_>> {
        let mut path = &*self.0;
        for _ in 0..count {
            path = match path.split_once('/') {
                Some((_, rest)) => rest,
                None if path.is_empty() => return None,
                None => "",
            };
        }
        Some(SafePath(Cow::Borrowed(path)))
    }

    pub fn borrowed(&self) -> SafePath<'_> {
        SafePath(Cow::Borrowed(&self.0))
    }

    pub fn into_owned(self) -> SafePath<'static> {
        SafePath(Cow::Owned(self.0.into_owned()))
    }
}

/// With a leading slash, for administrators.
impl fmt::Display for SafePath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "/{}", path_text::escaped(&self.0))
    }
}

rules! {
    TargetError {
        TargetError::Byte => "target-byte" "the address has a character that must be percent-encoded",
        TargetError::Form => "target-form" "the method does not allow this form of target",
        TargetError::Scheme => "target-scheme" "the scheme of the target is neither http nor https",
        TargetError::Authority => "target-host" "the host or the port in the target is malformed",
        TargetError::UserInfo => "target-user" "there is a user name in the target",
    }
}

rules! {
    PathError {
        PathError::NotAbsolute => "path-relative" "the path does not begin with a slash",
        PathError::Escape => "path-escape" "a % in the path is not followed by two hexadecimal digits",
        PathError::EncodedSlash => "path-slash" "there is an encoded slash in the path",
        PathError::Backslash => "path-backslash" "there is a backslash in the path",
        PathError::Control => "path-control" "there is a control character in the path",
        PathError::NotAscii => "path-ascii" "a character of the path must be percent-encoded",
        PathError::Overlong => "path-overlong" "the path, which an application gets, has an overlong form of a character",
        PathError::AboveRoot => "path-above-root" "the path leads above the root",
        PathError::DotSegment => "path-dots" "there is a dot segment in a path that is passed on as it was sent",
        PathError::LeadingSlashes => "path-slashes" "the path begins with two slashes, and is passed on as it was sent",
    }
}

impl PathError {
    /// A path that breaks a rule is an error of the client.
    pub const fn status(self) -> crate::status::Status {
        crate::status::Status::BAD_REQUEST
    }
}

/// Splits at the question mark, if there is one at `mark`.
fn split_query(raw: &str, mark: usize) -> (&str, Option<&str>) {
    match raw.split_at_checked(mark) {
        Some((path, query)) => (path, query.strip_prefix('?')),
        None => (raw, None),
    }
}

/// `host:port`; the port is required (RFC 9112 §3.2.3).
#[cold]
fn authority_form(raw: &str) -> Result<Target<'_>, TargetError> {
    match raw {
        _ if raw.contains('/') || raw == "*" => Err(TargetError::Form),
        _ if raw.contains('@') => Err(TargetError::UserInfo),
        _ if !is_authority(raw.as_bytes()) || host_and_port(raw).1.is_none() => Err(TargetError::Authority),
        _ => Ok(Target::Authority(raw)),
    }
}

#[cold]
fn absolute_form(raw: &str) -> Result<Target<'_>, TargetError> {
    let (scheme, rest) = raw.split_once("://").ok_or(TargetError::Form)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(TargetError::Scheme);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if authority.contains('@') {
        return Err(TargetError::UserInfo);
    }
    if !is_authority(authority.as_bytes()) {
        return Err(TargetError::Authority);
    }
    match split_query(rest, target_path_len(rest.as_bytes())) {
        ("", query) => Ok(Target::Absolute { authority, path: "/", query }),
        (path, query) => Ok(Target::Absolute { authority, path, query }),
    }
}

/// Whether the path after the first slash is a safe path without change. Bounded: each pass takes a segment.
fn is_plain(mut path: &[u8]) -> bool {
    loop {
        match path.split_at(segment_len(path)) {
            (b"." | b"..", _) | (b"", [b'/', ..]) => return false,
            (_, []) => return true,
            (_, [b'/', rest @ ..]) => path = rest,
            _ => return false,
        }
    }
}

/// Decodes each escape once. All slashes of the result were raw slashes.
fn decode(path: &str) -> Result<String, PathError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [byte, behind @ ..] = rest {
        rest = behind;
        decoded.push(match byte {
            b'%' => match hex_byte(behind).ok_or(PathError::Escape)? {
                b'/' => return Err(PathError::EncodedSlash),
                byte => {
                    rest = &behind[2..];
                    byte
                }
            },
            0x80.. => return Err(PathError::NotAscii),
            byte => *byte,
        });
    }
    let decoded = path_text::of_vec(decoded);
    match decoded.chars().find_map(forbidden) {
        Some(error) => Err(error),
        None => Ok(decoded),
    }
}

/// Characters that no name may have: some program takes them for a separator, an end or a command.
fn forbidden(character: char) -> Option<PathError> {
    match character {
        '\\' => Some(PathError::Backslash),
        character if character.is_control() => Some(PathError::Control),
        _ => None,
    }
}

/// Removes empty and dot segments (RFC 3986 §5.2.4). Unlike there, `..` at the root is an error.
fn resolve(decoded: &str) -> Result<String, PathError> {
    let mut resolved = String::with_capacity(decoded.len());
    let mut segments = decoded.split('/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "" | "." => {}
            ".." => {
                let folder = resolved.strip_suffix('/').ok_or(PathError::AboveRoot)?;
                let parent = folder.rfind('/').map_or(0, |slash| slash + 1);
                resolved.truncate(parent);
            }
            name => {
                resolved.push_str(name);
                if segments.peek().is_some() {
                    resolved.push('/');
                }
            }
        }
    }
    Ok(resolved)
}

fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && is_within_segment(name)
}

fn is_within_segment(text: &str) -> bool {
    text.chars().all(|character| character != '/' && forbidden(character).is_none())
}

#[cfg(test)]
mod tests;
