//! Raw paths, for other programs that read them. A path that means another place to one of them is rejected, or is
//! written so that it means the same to all.

use std::borrow::Cow;

use super::{PathError, SafePath, is_plain, percent_encode};
use crate::digits::hex_byte;
use crate::path_text;

/// A path that is passed on as it was sent, in the two ways in which programs read it. It has no dot segments, also
/// none between encoded slashes or before a `;`, so that it leads to the same place whether a program resolves them or
/// not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPath<'a> {
    pub sent: &'a str,
    /// To a program that takes `%2F` for a slash, and several slashes for one.
    pub decoded: SafePath<'a>,
    /// To a program to which `%2F`, and each slash behind a slash, are characters of a segment. Each is `%2F` here.
    /// `None`: the path has none of them.
    pub segments: Option<SafePath<'static>>,
}

impl<'a> RawPath<'a> {
    /// Parses the raw path of a target. Both readings have passed the checks of `SafePath::parse`.
    pub fn parse(sent: &'a str) -> Result<RawPath<'a>, PathError> {
        if sent.bytes().any(|byte| byte == b'\\') {
            return Err(PathError::Backslash);
        }
        let path = sent.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        let mut segments = RawSegments(Some(path));
        if sent.len() > 1 && segments.clone().next().is_some_and(str::is_empty) {
            return Err(PathError::LeadingSlashes);
        }
        if segments.any(|segment| matches!(dots(without_parameters(segment)), Some(1 | 2))) {
            return Err(PathError::DotSegment);
        }
        if has_overlong_escapes(sent) {
            return Err(PathError::Overlong);
        }
        if !path.contains("//") && !RawSegments::has_encoded_slash(path) {
            return Ok(RawPath { sent, decoded: SafePath::parse(sent)?, segments: None });
        }
        let slashes = path.replace("%2F", "/").replace("%2f", "/");
        let decoded = SafePath::parse(&["/", &slashes].concat())?.into_owned();
        let (mut kept, mut before) = (String::from("/"), '/');
        for character in path.replace("%2F", "%252F").replace("%2f", "%252F").chars() {
            match (before, character) {
                ('/', '/') => kept.push_str("%252F"),
                _ => kept.push(character),
            }
            before = character;
        }
        Ok(RawPath { sent, decoded, segments: Some(SafePath::parse(&kept)?.into_owned()) })
    }
}

/// The parts of a raw path between slashes, raw or encoded.
#[derive(Clone)]
struct RawSegments<'a>(Option<&'a str>);

impl RawSegments<'_> {
    fn has_encoded_slash(path: &str) -> bool {
        path.as_bytes().windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2F"))
    }
}

impl<'a> Iterator for RawSegments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let path = self.0?;
        let at = |at: &usize| path.as_bytes()[*at] == b'/' || is_escape_of(&path.as_bytes()[*at..], b"%2F");
        match (0..path.len()).find(at) {
            None => self.0.take(),
            Some(at) => {
                let slash = if path.as_bytes()[at] == b'/' { 1 } else { 3 };
                self.0 = Some(&path[at + slash..]);
                Some(&path[..at])
            }
        }
    }
}

/// Removes empty and dot segments from the raw path of a target, for another program such as an application. That
/// program then finds the path of `SafePath::parse`, whether it resolves such segments or not. Escapes stay as sent.
/// `raw` is a path that `SafePath::parse` accepts.
pub fn normalized(raw: &str) -> Cow<'_, str> {
    let path = raw.strip_prefix('/').unwrap_or(raw);
    // Most paths are plain, and their test is the cheaper one.
    if is_plain(path.as_bytes()) || is_normal(path) {
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
                percent_encode(segment, |byte| byte.is_ascii(), &mut normalized);
                if segments.peek().is_some() {
                    normalized.push('/');
                }
            }
        }
    }
    Cow::Owned(normalized)
}

/// Whether a segment of a raw path is a dot segment to a program that removes what follows a `;`, as `..;x`. To others
/// it is not, so no path means the same to both.
pub fn has_dots_with_parameters(path: &str) -> bool {
    path.bytes().any(|byte| matches!(byte, b';' | b'%'))
        && path.split('/').any(|segment| {
            let name = without_parameters(segment);
            name.len() < segment.len() && matches!(dots(name), Some(1 | 2))
        })
}

/// Whether a raw path has an overlong form of an ASCII character, such as `%C0%AF`. Some applications decode it to a
/// slash, after the rules have seen two bytes.
pub fn has_overlong_escapes(path: &str) -> bool {
    path.as_bytes().windows(6).any(|pair| match *pair {
        [b'%', a, b, b'%', c, d] => match (hex_byte(&[a, b]), hex_byte(&[c, d])) {
            (Some(first), Some(second)) => path_text::begins_overlong(first, second),
            _ => false,
        },
        _ => false,
    })
}

/// Whether the raw path after the first slash is ASCII, without dot segments, and only its last segment may be empty.
fn is_normal(path: &str) -> bool {
    let mut segments = path.split('/');
    let last = segments.next_back().unwrap_or_default();
    path.is_ascii()
        && segments.all(|segment| !matches!(dots(segment), Some(0..=2)))
        && !matches!(dots(last), Some(1 | 2))
}

/// The number of dots, encoded or not, of a raw segment of dots; `None` if it has another character.
fn dots(mut segment: &str) -> Option<usize> {
    let mut count = 0;
    while !segment.is_empty() {
        let escape = segment.get(..3).filter(|escape| escape.eq_ignore_ascii_case("%2e"));
        segment = &segment[if escape.is_some() { 3 } else { segment.strip_prefix('.').map(|_| 1)? }..];
        count += 1;
    }
    Some(count)
}

fn is_escape_of(text: &[u8], escape: &[u8; 3]) -> bool {
    text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(escape))
}

/// The segment without what follows its first `;`, plain or encoded. Some programs, such as servlet containers, remove
/// that before they resolve dot segments.
fn without_parameters(segment: &str) -> &str {
    let bytes = segment.as_bytes();
    let end = (0..bytes.len()).find(|at| bytes[*at] == b';' || is_escape_of(&bytes[*at..], b"%3B"));
    &segment[..end.unwrap_or(segment.len())]
}
