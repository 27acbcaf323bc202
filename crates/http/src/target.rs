//! Where a request is directed: the four forms of a request target (RFC 9112 §3.2), and the one kind of
//! path that a file may be opened by. Knows nothing of files, nor of which paths exist.

use std::borrow::Cow;
use std::fmt;

use crate::fields::{host_and_port, is_authority, segment_len, target_len, target_path_len};
use crate::head::Method;
use crate::rule::rules;

/// A request target, taken apart and not yet decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`: the path begins with a slash.
    Origin { path: &'a str, query: Option<&'a str> },
    /// `http://authority/path?query`; the path is `/` where the target has none.
    Absolute { authority: &'a str, path: &'a str, query: Option<&'a str> },
    /// `host:port`, for CONNECT and nothing else.
    Authority(&'a str),
    /// `*`, for OPTIONS and nothing else.
    Asterisk,
}

/// By which a request is made (RFC 9110 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// The broken rule of RFC 9112 §3.2 or RFC 9110 §4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetError {
    /// A byte that no URI contains: a control, a space, `#`, `"`, `<`, `>`, or anything but ASCII.
    Byte,
    /// Not the form that this method takes.
    Form,
    /// An absolute form of neither http nor https.
    Scheme,
    /// An empty or malformed host, or a port above 65535.
    Authority,
    /// `user@host` (RFC 9110 §4.2.4).
    UserInfo,
}

/// A path beneath some root, decoded exactly once: UTF-8, no leading slash, no empty, `.` or `..`
/// segment, no backslash and no control character. Ends with a slash, or is empty (the root itself),
/// when a folder was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafePath<'a>(Cow<'a, str>);

/// Why a path is not safe. Every one is 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathError {
    /// Does not begin with a slash.
    NotAbsolute,
    /// `%` without two hexadecimal digits.
    Escape,
    /// `%2F`: a slash that is not a separator means different paths to different readers.
    EncodedSlash,
    /// `\` or `%5C`: a separator to some.
    Backslash,
    /// A control character, raw or encoded, NUL above all.
    Control,
    /// A raw byte beyond ASCII, or escapes that are not UTF-8 (overlong forms are not).
    NotUtf8,
    /// More `..` than segments before them.
    AboveRoot,
}

impl Scheme {
    /// In any case (RFC 3986 §3.1).
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

    /// The port of a URL that names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl<'a> Target<'a> {
    /// Takes `raw` apart in the form that `method` demands.
    pub fn parse(method: Method, raw: &'a str) -> Result<Target<'a>, TargetError> {
        match target_len(raw.as_bytes()) == raw.len() {
            true => Target::of_valid_bytes(method, raw, target_path_len(raw.as_bytes())),
            false => Err(TargetError::Byte),
        }
    }

    /// As `parse`, for a target whose bytes the head parser has already looked at, and so knows where
    /// the first question mark is, or else the end.
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

    /// The authority of the forms that have one: what a proxy is sent, and so hardly ever a server.
    #[cold]
    pub fn authority(&self) -> Option<&'a str> {
        match *self {
            Target::Absolute { authority, .. } | Target::Authority(authority) => Some(authority),
            Target::Origin { .. } | Target::Asterisk => None,
        }
    }

    /// The raw path; `None` for the forms that have none.
    pub fn path(&self) -> Option<&'a str> {
        match *self {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => Some(path),
            Target::Authority(_) | Target::Asterisk => None,
        }
    }

    /// The raw query, without its question mark; `Some("")` where there is nothing behind it.
    pub fn query(&self) -> Option<&'a str> {
        match *self {
            Target::Origin { query, .. } | Target::Absolute { query, .. } => query,
            Target::Authority(_) | Target::Asterisk => None,
        }
    }
}

impl<'a> SafePath<'a> {
    /// Of the raw path of a target, `/a%20b/../c`. What needs no decoding is borrowed.
    ///
    /// Dot segments are resolved after decoding, for `%2e` is `.` (RFC 3986 §6.2.2.2); empty segments
    /// are merged; a dot segment at the end makes a folder. Nothing is ever decoded twice: `%252e`
    /// becomes the three characters `%2e`.
    pub fn parse(path: &'a str) -> Result<SafePath<'a>, PathError> {
        let path = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        match is_plain(path.as_bytes()) {
            true => Ok(SafePath(Cow::Borrowed(path))),
            false => resolve(&decode(path)?).map(|path| SafePath(Cow::Owned(path))),
        }
    }

    /// Relative to the root: `a/b.html`, `a/`, or empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_folder(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }

    /// The last segment, of a folder too; empty for the root.
    pub fn name(&self) -> &str {
        let path = self.0.strip_suffix('/').unwrap_or(&self.0);
        path.rfind('/').map_or(path, |slash| &path[slash + 1..])
    }

    /// What follows the last dot of the name; `None` if that is nothing, or if nothing precedes it.
    pub fn extension(&self) -> Option<&str> {
        let (stem, extension) = self.name().rsplit_once('.')?;
        (!stem.is_empty() && !extension.is_empty()).then_some(extension)
    }

    /// Whether any segment begins with a dot, but for `.well-known` as the first (RFC 8615).
    pub fn is_hidden(&self) -> bool {
        let mut segments = self.segments();
        segments.next().is_some_and(|first| first.starts_with('.') && first != ".well-known")
            || segments.any(|segment| segment.starts_with('.'))
    }

    /// From the root downwards; never an empty one.
    pub fn segments(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// `name` within this folder (a path that is none is taken for one). `None` if `name` is not one
    /// safe segment.
    pub fn join(&self, name: &str) -> Option<SafePath<'static>> {
        let slash = if self.is_folder() { "" } else { "/" };
        is_segment(name).then(|| SafePath(Cow::Owned([&self.0, slash, name].concat())))
    }

    /// The file beside this one whose name is longer by `suffix`, as `logo.svg.gz` to `.gz`. `None` for
    /// a folder, and if `suffix` could not be part of a segment.
    pub fn with_suffix(&self, suffix: &str) -> Option<SafePath<'static>> {
        (!self.is_folder() && is_within_segment(suffix))
            .then(|| SafePath(Cow::Owned([&self.0, suffix].concat())))
    }

    /// The same path, asked as a folder.
    pub fn as_folder(&self) -> SafePath<'static> {
        let slash = if self.is_folder() { "" } else { "/" };
        SafePath(Cow::Owned([&self.0, slash].concat()))
    }

    /// The folder that the first `count` segments name; `None` if there are fewer.
    pub fn first_segments(&self, count: usize) -> Option<SafePath<'_>> {
        let end = match count {
            0 => 0,
            _ => self.0.match_indices('/').nth(count - 1)?.0 + 1,
        };
        Some(SafePath(Cow::Borrowed(&self.0[..end])))
    }

    /// The path beneath its first `count` segments; `None` if it has fewer. A folder stays a folder.
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

    pub fn into_owned(self) -> SafePath<'static> {
        SafePath(Cow::Owned(self.0.into_owned()))
    }
}

impl AsRef<str> for SafePath<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// With the leading slash that it has not.
impl fmt::Display for SafePath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "/{}", self.0)
    }
}

/// Appends a decoded path as it stands in a link or in `Location`: unreserved characters, sub-delims,
/// `:`, `@` and `/` stay (RFC 3986 §3.3), the rest is encoded. Leading slashes become one, or none if
/// `out` already ends with one: `//host` would lead to another site.
pub fn encode_path(decoded: &str, out: &mut String) {
    let path = decoded.trim_start_matches('/');
    if path.len() < decoded.len() && !out.ends_with('/') {
        out.push('/');
    }
    encode(path, |byte| byte == b'/' || is_pchar(byte), out);
}

/// Appends one segment: as `encode_path`, with `/` encoded too.
pub fn encode_segment(decoded: &str, out: &mut String) {
    encode(decoded, is_pchar, out);
}

/// The raw path of a target for another reader, such as an application: whether that one resolves empty and dot
/// segments or not, it finds the path that `SafePath::parse` finds, for there are none any more. Escapes stay as
/// they were sent. `raw` is a path that `SafePath::parse` takes.
pub fn normalized(raw: &str) -> Cow<'_, str> {
    let path = raw.strip_prefix('/').unwrap_or(raw);
    if is_normal(path) {
        return Cow::Borrowed(raw);
    }
    let mut normalized = String::with_capacity(raw.len());
    normalized.push('/');
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        match dots(segment) {
            Some(0 | 1) => {}
            Some(2) => {
                let parent = normalized[..normalized.len() - 1].rfind('/').unwrap_or(0);
                normalized.truncate(parent + 1);
            }
            _ => {
                encode(segment, |byte| byte.is_ascii(), &mut normalized);
                if segments.peek().is_some() {
                    normalized.push('/');
                }
            }
        }
    }
    Cow::Owned(normalized)
}

rules! {
    TargetError {
        TargetError::Byte => "target-byte" "the address has a character that must be percent-encoded",
        TargetError::Form => "target-form" "the target is not of the form that the method takes",
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
        PathError::NotUtf8 => "path-utf8" "the path is not UTF-8",
        PathError::AboveRoot => "path-above-root" "the path leads above the root",
    }
}

impl PathError {
    pub const fn status(self) -> crate::status::Status {
        crate::status::Status::BAD_REQUEST
    }
}

/// At the question mark, if there is one at `mark`.
fn split_query(raw: &str, mark: usize) -> (&str, Option<&str>) {
    match raw.split_at_checked(mark) {
        Some((path, query)) => (path, query.strip_prefix('?')),
        None => (raw, None),
    }
}

/// The port is not optional here (RFC 9112 §3.2.3).
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

/// Whether the bytes behind the first slash are a safe path as they stand. Bounded: every turn takes one
/// segment.
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

/// Whether the raw path behind the first slash is ASCII, has no dot segment, and no empty one but the last.
fn is_normal(path: &str) -> bool {
    let mut segments = path.split('/');
    let last = segments.next_back().unwrap_or_default();
    path.is_ascii()
        && segments.all(|segment| !matches!(dots(segment), Some(0..=2)))
        && !matches!(dots(last), Some(1 | 2))
}

/// How many dots, encoded or not, a raw segment consists of; `None` if there is anything else in it.
fn dots(mut segment: &str) -> Option<usize> {
    let mut count = 0;
    while !segment.is_empty() {
        let escape = segment.get(..3).filter(|escape| escape.eq_ignore_ascii_case("%2e"));
        segment = &segment[if escape.is_some() { 3 } else { segment.strip_prefix('.').map(|_| 1)? }..];
        count += 1;
    }
    Some(count)
}

/// Each escape once. What comes out has only the separators that were raw slashes.
fn decode(path: &str) -> Result<String, PathError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => match escaped(bytes.next(), bytes.next()).ok_or(PathError::Escape)? {
                b'/' => return Err(PathError::EncodedSlash),
                byte => byte,
            },
            0x80.. => return Err(PathError::NotUtf8),
            byte => byte,
        });
    }
    let decoded = String::from_utf8(decoded).map_err(|_| PathError::NotUtf8)?;
    match decoded.chars().find_map(forbidden) {
        Some(error) => Err(error),
        None => Ok(decoded),
    }
}

fn escaped(high: Option<u8>, low: Option<u8>) -> Option<u8> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    Some(nibble(high?)? << 4 | nibble(low?)?)
}

/// What must never be in a name: to some readers a separator, the end of it, or a command.
fn forbidden(character: char) -> Option<PathError> {
    match character {
        '\\' => Some(PathError::Backslash),
        character if character.is_control() => Some(PathError::Control),
        _ => None,
    }
}

/// Takes out empty and dot segments (RFC 3986 §5.2.4, but for its forgiving `..` at the root).
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

/// RFC 3986 §3.3, without the escapes.
fn is_pchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

fn encode(text: &str, stays: impl Fn(u8) -> bool, out: &mut String) {
    for byte in text.bytes() {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            out.extend(escape(byte).map(char::from));
        }
    }
}

/// `%20`
pub(crate) fn escape(byte: u8) -> [u8; 3] {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_target_has_the_form_of_its_method() {
        use TargetError::*;
        let check = |method, raw: &'static str, expected: Result<Target<'static>, TargetError>| {
            assert_eq!(Target::parse(method, raw), expected, "{method:?} {raw}");
        };
        let origin = |path, query| Ok(Target::Origin { path, query });
        let absolute = |authority, path, query| Ok(Target::Absolute { authority, path, query });
        let get = Method::Get;

        check(get, "/", origin("/", None));
        check(get, "/a/b?c=d", origin("/a/b", Some("c=d")));
        check(get, "/?", origin("/", Some("")));
        check(get, "/a??b?", origin("/a", Some("?b?")));
        check(get, "//evil.example/x", origin("//evil.example/x", None));
        check(get, "/http://x", origin("/http://x", None));
        check(get, "/?q={a|b}^`\\", origin("/", Some("q={a|b}^`\\")));
        check(Method::Options, "/a", origin("/a", None));
        check(Method::Unknown, "/a", origin("/a", None));

        check(get, "http://a.example", absolute("a.example", "/", None));
        check(get, "HTTP://a.example:80/", absolute("a.example:80", "/", None));
        check(get, "https://[::1]:8/x?y", absolute("[::1]:8", "/x", Some("y")));
        check(get, "http://a?b/c", absolute("a", "/", Some("b/c")));
        check(get, "http://a:/", absolute("a:", "/", None));
        check(get, "http://a/?u=x@y", absolute("a", "/", Some("u=x@y")));
        check(get, "http://user@a/", Err(UserInfo));
        check(get, "http://user:pw@a/", Err(UserInfo));
        check(get, "http://@a/", Err(UserInfo));
        check(get, "http://", Err(Authority));
        check(get, "http:///x", Err(Authority));
        check(get, "http://?x", Err(Authority));
        check(get, "http://:80/", Err(Authority));
        check(get, "http://a:99999/", Err(Authority));
        check(get, "http://a:8x/", Err(Authority));
        check(get, "http://a\\b/", Err(Authority));
        check(get, "http://[::1/", Err(Authority));
        check(get, "ftp://a/", Err(Scheme));
        check(get, "file:///etc/passwd", Err(Scheme));
        check(get, "://a/", Err(Scheme));
        check(get, "http:/a", Err(Form));

        check(Method::Options, "*", Ok(Target::Asterisk));
        check(get, "*", Err(Form));
        check(Method::Head, "*", Err(Form));
        check(Method::Options, "*/", Err(Form));
        check(Method::Connect, "*", Err(Form));

        check(Method::Connect, "a.example:443", Ok(Target::Authority("a.example:443")));
        check(Method::Connect, "[::1]:443", Ok(Target::Authority("[::1]:443")));
        check(Method::Connect, "a.example", Err(Authority));
        check(Method::Connect, "a.example:", Err(Authority));
        check(Method::Connect, "a.example:99999", Err(Authority));
        check(Method::Connect, ":443", Err(Authority));
        check(Method::Connect, "u@a:443", Err(UserInfo));
        check(Method::Connect, "/", Err(Form));
        check(Method::Connect, "http://a:443/", Err(Form));
        check(get, "a.example:80", Err(Form));
        check(get, "a", Err(Form));
        check(get, "", Err(Form));
        check(get, "?x", Err(Form));
        check(get, "../x", Err(Form));
        check(get, "\\x", Err(Form));

        for raw in [
            "/a b", "/#", "/a#b", "/\"", "/<", "/>", "/\0", "/\r", "/\n", "/\t", "/\x1b", "/\x7f", "/é",
            "/\u{80}",
        ] {
            check(get, raw, Err(Byte));
        }
    }

    #[test]
    fn a_path_is_safe_or_refused() {
        use PathError::*;
        let check = |raw: &str, expected: Result<&str, PathError>| {
            let found = SafePath::parse(raw);
            assert_eq!(found.as_ref().map(SafePath::as_str).map_err(|error| *error), expected, "{raw}");
        };
        check("/", Ok(""));
        check("/a", Ok("a"));
        check("/a/b.css", Ok("a/b.css"));
        check("/a/", Ok("a/"));
        check("/.hidden/..x/...", Ok(".hidden/..x/..."));
        check("/a.", Ok("a."));
        check("/a..", Ok("a.."));
        check("/~u/a+b&c=d;e,f!@$'()*:", Ok("~u/a+b&c=d;e,f!@$'()*:"));

        check("/a%20b", Ok("a b"));
        check("/%61%2Eb", Ok("a.b"));
        check("/%c3%a9", Ok("é"));
        check("/%C3%A9/%e2%82%ac", Ok("é/€"));
        check("/a%3Fb%23c", Ok("a?b#c"));
        check("/a%25b", Ok("a%b"));
        check("/%2B+", Ok("++"));

        check("//", Ok(""));
        check("//a///b//", Ok("a/b/"));
        check("/./a/./b", Ok("a/b"));
        check("/.", Ok(""));
        check("/a/.", Ok("a/"));
        check("/a/b/..", Ok("a/"));
        check("/a/..", Ok(""));
        check("/a/../b", Ok("b"));
        check("/a/b/../../c/", Ok("c/"));
        check("/a/%2e%2e/b", Ok("b"));
        check("/a/.%2E/b", Ok("b"));
        check("/a/%2e/b", Ok("a/b"));
        check("/a/%2e", Ok("a/"));
        check("/a/%2e%2e", Ok(""));
        check("/a//../b", Ok("b"));

        // Decoded once.
        check("/%252e%252e/x", Ok("%2e%2e/x"));
        check("/%252e", Ok("%2e"));
        check("/%252f", Ok("%2f"));
        check("/%2500", Ok("%00"));
        check("/%255c", Ok("%5c"));

        check("/..", Err(AboveRoot));
        check("/../", Err(AboveRoot));
        check("/../etc/passwd", Err(AboveRoot));
        check("/a/../..", Err(AboveRoot));
        check("/a/../../b", Err(AboveRoot));
        check("/%2e%2e/", Err(AboveRoot));
        check("/%2E%2e", Err(AboveRoot));
        check("//..", Err(AboveRoot));
        check("/./..", Err(AboveRoot));
        check("/a/..//../a", Err(AboveRoot));

        check("/%2f", Err(EncodedSlash));
        check("/a%2Fb", Err(EncodedSlash));
        check("/..%2f..%2fetc", Err(EncodedSlash));
        check("/%5c", Err(Backslash));
        check("/..%5C..", Err(Backslash));
        check("/a\\b", Err(Backslash));
        check("/..\\..\\x", Err(Backslash));
        check("/%00", Err(Control));
        check("/a.html%00.jpg", Err(Control));
        check("/%0d%0aSet-Cookie:x", Err(Control));
        check("/%1b[31m", Err(Control));
        check("/%7f", Err(Control));
        check("/%c2%85", Err(Control));
        check("/a\tb", Err(Control));
        check("/a\0", Err(Control));
        check("/\x7f", Err(Control));

        for raw in ["/%", "/%2", "/%zz", "/%2g", "/%g2", "/%u002e", "/% 20", "/%+1", "/a%", "/%%", "/%é"] {
            check(raw, Err(Escape));
        }
        for raw in [
            "/%c0%af",
            "/%c0%ae%c0%ae/",
            "/%e0%80%af",
            "/%f0%80%80%af",
            "/%ff",
            "/%80",
            "/%ed%a0%80",
            "/é",
            "/%c3",
            "/%f5%80%80%80",
        ] {
            check(raw, Err(NotUtf8));
        }
        for raw in ["", "a", "../a", "*", "http://a/", "%2fa", "\\a"] {
            check(raw, Err(NotAbsolute));
        }
    }

    #[test]
    fn a_plain_path_is_borrowed() {
        for (raw, borrowed) in [
            ("/a/b.css", true),
            ("/", true),
            ("/.well-known/x", true),
            ("/a%20", false),
            ("//a", false),
            ("/a/.", false),
        ] {
            let SafePath(path) = SafePath::parse(raw).unwrap();
            assert_eq!(matches!(path, Cow::Borrowed(_)), borrowed, "{raw}");
        }
    }

    #[test]
    fn another_reader_is_told_of_no_empty_and_no_dot_segment() {
        let check = |raw: &str, expected: &str| assert_eq!(normalized(raw), expected, "{raw}");
        for raw in ["/", "/a", "/a/", "/a/...", "/a%2C/%7e;b=%3d/.x/x.", "/%252e%252e/", "/.%2e."] {
            assert!(matches!(normalized(raw), Cow::Borrowed(same) if same == raw), "{raw}");
        }
        check("/app/admin/secret/../../x", "/app/x");
        check("/app/admin/%2e%2E/.%2e/x%2c", "/x%2c");
        check("/a/./%2e/b", "/a/b");
        check("//a///b//", "/a/b/");
        check("/a/..", "/");
        check("/a/b/%2e%2e", "/a/");
        check("/a/.", "/a/");
        check("/..", "/");
        check("/é/a", "/%C3%A9/a");
    }

    #[test]
    fn the_parts_of_a_path() {
        // path, is it a folder, name, extension, hidden
        let rows = [
            ("/", true, "", None, false),
            ("/a", false, "a", None, false),
            ("/a/b.tar.gz", false, "b.tar.gz", Some("gz"), false),
            ("/a.d/", true, "a.d", Some("d"), false),
            ("/a.d/b", false, "b", None, false),
            ("/.x", false, ".x", None, true),
            ("/.x.y", false, ".x.y", Some("y"), true),
            ("/a.", false, "a.", None, false),
            ("/a/.git/b", false, "b", None, true),
            ("/%2egit/b", false, "b", None, true),
            ("/.well-known/acme", false, "acme", None, false),
            ("/.well-known/", true, ".well-known", None, false),
            ("/.well-known/.x", false, ".x", None, true),
            ("/a/.well-known/b", false, "b", None, true),
            ("/.well-knownx", false, ".well-knownx", None, true),
        ];
        for (raw, folder, name, extension, hidden) in rows {
            let path = SafePath::parse(raw).unwrap();
            assert_eq!(
                (path.is_folder(), path.name(), path.extension(), path.is_hidden()),
                (folder, name, extension, hidden),
                "{raw}"
            );
        }
    }

    #[test]
    fn only_one_safe_segment_is_joined() {
        let joined =
            |raw: &str, name: &str| SafePath::parse(raw).unwrap().join(name).map(|path| path.0.into_owned());
        assert_eq!(joined("/", "index.html").as_deref(), Some("index.html"));
        assert_eq!(joined("/a/", "index.html").as_deref(), Some("a/index.html"));
        assert_eq!(joined("/a", "b").as_deref(), Some("a/b"));
        assert_eq!(joined("/a", "...").as_deref(), Some("a/..."));
        for bad in ["", ".", "..", "a/b", "/", "a\\b", "a\0", "a\n", "\u{85}"] {
            assert_eq!(joined("/a/", bad), None, "{bad:?}");
        }
    }

    #[test]
    fn neighbours_folders_and_what_is_beneath() {
        let path = SafePath::parse("/a/b/c.svg").unwrap();
        assert_eq!(path.with_suffix(".gz").unwrap().as_str(), "a/b/c.svg.gz");
        assert_eq!(path.with_suffix("/x"), None);
        assert_eq!(path.with_suffix("\0"), None);
        assert_eq!(path.as_folder().as_str(), "a/b/c.svg/");
        assert_eq!(path.as_folder().with_suffix(".gz"), None);
        assert_eq!(SafePath::parse("/").unwrap().with_suffix(".gz"), None);
        assert_eq!(path.skip_segments(0).unwrap().as_str(), "a/b/c.svg");
        assert_eq!(path.skip_segments(2).unwrap().as_str(), "c.svg");
        assert_eq!(path.skip_segments(3).unwrap().as_str(), "");
        assert_eq!(path.skip_segments(4), None);
        let first = |count| path.first_segments(count).map(|path| path.as_str().to_owned());
        assert_eq!([0, 1, 2, 3].map(first), [Some("".into()), Some("a/".into()), Some("a/b/".into()), None]);
        assert_eq!(path.to_string(), "/a/b/c.svg");
    }

    #[test]
    fn a_link_has_only_uri_characters() {
        let check = |before: &str, decoded: &str, expected: &str| {
            let mut out = before.to_owned();
            encode_path(decoded, &mut out);
            assert_eq!(out, expected, "{before} {decoded}");
        };
        check("", "/a/b", "/a/b");
        check("", "a b", "a%20b");
        check("", "/a?b#c%d", "/a%3Fb%23c%25d");
        check("", "/é\"<>\\^`{|}\u{1}", "/%C3%A9%22%3C%3E%5C%5E%60%7B%7C%7D%01");
        check("", "/-._~!$&'()*+,;=:@", "/-._~!$&'()*+,;=:@");
        check("", "//evil.example/", "/evil.example/");
        check("", "///x//y", "/x//y");
        check("/", "/evil.example", "/evil.example");
        check("/", "//evil.example", "/evil.example");
        check("https://a", "/b", "https://a/b");
        let mut out = String::new();
        encode_segment("a/b c", &mut out);
        assert_eq!(out, "a%2Fb%20c");
    }

    /// Segment by segment, with a list for the way back. `None`: refused.
    fn naive(raw: &str) -> Option<String> {
        let mut segments: Vec<String> = Vec::new();
        let mut folder = true;
        for raw in raw.strip_prefix('/')?.split('/') {
            let mut bytes = Vec::new();
            let mut rest = raw;
            while !rest.is_empty() {
                let len = if rest.starts_with('%') {
                    let pair =
                        rest.get(1..3).filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                    bytes.push(u8::from_str_radix(pair, 16).ok()?);
                    3
                } else {
                    bytes.push(rest.bytes().next().filter(u8::is_ascii)?);
                    1
                };
                rest = &rest[len..];
            }
            let segment = String::from_utf8(bytes).ok()?;
            if segment
                .chars()
                .any(|character| character.is_control() || character == '/' || character == '\\')
            {
                return None;
            }
            folder = matches!(&*segment, "" | "." | "..");
            match &*segment {
                "" | "." => {}
                ".." => drop(segments.pop()?),
                _ => segments.push(segment),
            }
        }
        let slash = if folder && !segments.is_empty() { "/" } else { "" };
        Some(segments.join("/") + slash)
    }

    fn raw_path() -> impl Strategy<Value = String> {
        const PLAIN: [&str; 8] = ["/", ".", "..", "a", "b", "/../", "/./", "//"];
        const SPECIAL: [&str; 13] =
            ["%2e", "%2E", "%2f", "%5c", "%00", "%25", "%c3%a9", "%c0%af", "%", "%zz", "\\", "?", "\t"];
        let piece = prop_oneof![
            4 => prop::sample::select(PLAIN.to_vec()).prop_map(str::to_owned),
            2 => prop::sample::select(SPECIAL.to_vec()).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
            1 => any::<u8>().prop_map(|byte| format!("%{byte:02x}")),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn paths_agree_with_the_naive_reading(raw in raw_path()) {
            let found = SafePath::parse(&raw).ok().map(|path| path.0.into_owned());
            prop_assert_eq!(found, naive(&raw));
        }

        #[test]
        fn a_safe_path_is_safe(raw in raw_path()) {
            if let Ok(path) = SafePath::parse(&raw) {
                let text = path.as_str();
                prop_assert!(!text.starts_with('/') && !text.contains("//") && !text.contains('\\'));
                prop_assert!(text.split('/').all(|segment| segment != "." && segment != ".."));
                prop_assert!(!text.chars().any(char::is_control));
            }
        }

        #[test]
        fn a_path_comes_back_from_its_link(raw in raw_path()) {
            if let Ok(path) = SafePath::parse(&raw) {
                let mut link = String::from("/");
                encode_path(path.as_str(), &mut link);
                prop_assert!(!link.starts_with("//"));
                prop_assert_eq!(target_len(link.as_bytes()), link.len());
                prop_assert_eq!(SafePath::parse(&link).unwrap(), path);
            }
        }

        #[test]
        fn a_normalized_path_needs_no_resolving(raw in raw_path()) {
            if let Ok(path) = SafePath::parse(&raw) {
                let told = normalized(&raw);
                prop_assert_eq!(decode(&told[1..]).unwrap(), path.as_str());
                prop_assert_eq!(&*normalized(&told), &*told);
            }
        }

        #[test]
        fn any_text_as_a_target_is_read_or_refused(raw: String, connect: bool) {
            let method = if connect { Method::Connect } else { Method::Options };
            let _ = Target::parse(method, &raw);
            let _ = SafePath::parse(&raw);
        }
    }
}
