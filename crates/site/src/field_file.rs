//! Files that have the fields of a response: as-is files, which are a whole response with status, fields and content;
//! and metafiles, which have further fields for another file. Both are as Apache's mod_asis and mod_cern_meta read
//! them.
//!
//! Knows nothing of where the files are.

use std::fmt;

use taipan_http::fields::{exact_digits, is_token, is_value, trim_ows};
use taipan_http::known::is_hop_by_hop;
use taipan_http::status::Status;

use crate::mistake;

/// Bytes of an as-is file.
pub const MAX_AS_IS: u64 = 1024 * 1024;
/// Bytes of a metafile, and of the fields of an as-is file.
pub const MAX_FIELDS_SIZE: u64 = 8 * 1024;
/// Fields of a file.
pub const MAX_FIELDS: usize = 64;

/// Fields that the server sets, beside those of a hop.
const OWN: [&str; 5] = ["accept-ranges", "content-length", "content-range", "date", "server"];
/// What a metafile does not say of its file, because the file does.
const OF_FILE: [&str; 7] = [
    "content-encoding",
    "etag",
    "last-modified",
    "location",
    "proxy-authenticate",
    "status",
    "www-authenticate",
];
/// Fields that a response has once.
const ONCE: [&str; 5] = ["content-type", "etag", "expires", "last-modified", "location"];

/// A field, as the file has it.
pub type Field<'a> = (&'a str, &'a [u8]);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsIs<'a> {
    pub status: Status,
    pub fields: Vec<Field<'a>>,
    pub content: &'a [u8],
}

/// What is wrong with a line.
pub type Mistake = mistake::Mistake<Problem>;

/// What is wrong with a line of a file of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    TooLong,
    TooMany,
    /// Not `Name: value`.
    NoField,
    Value,
    Own,
    OfFile,
    Twice,
    Status,
    /// There is no empty line behind the fields.
    NoEnd,
    /// The status has no content.
    Content,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::TooLong => "the fields take more than 8 KiB",
            Problem::TooMany => "more than 64 fields",
            Problem::NoField => "not a field; write \"Name: value\"",
            Problem::Value => "the value has a control character",
            Problem::Own => "only the server sets this field",
            Problem::OfFile => "a metafile cannot set this field",
            Problem::Twice => "a response has this field once",
            Problem::Status => "not the status of a whole response, from 200 to 599",
            Problem::NoEnd => "an empty line must follow the fields",
            Problem::Content => "a response with this status has no content",
        })
    }
}

/// Reads an as-is file: perhaps a status line, the fields, an empty line, and the content. The status may be in a field
/// `Status`, too. Without one it is 200, or 302 if there is a `Location`.
pub fn as_is(file: &[u8]) -> Result<AsIs<'_>, Mistake> {
    let mut lines = Lines::new(file);
    let (mut fields, mut status) = (Vec::new(), None);
    loop {
        let Some(line) = lines.next()? else { return Err(lines.mistake(Problem::NoEnd)) };
        match (line, status_line(line)) {
            (b"", _) => break,
            (_, Some(code)) if lines.number == 1 => status = Some(lines.status(code)?),
            (line, _) => match lines.field(line, &fields)? {
                ("Status", _) if status.is_some() => {
                    return Err(lines.mistake(Problem::Twice));
                }
                ("Status", value) => status = Some(lines.status(value)?),
                field => fields.push(field),
            },
        }
    }
    let has_location = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("location"));
    let status = status.unwrap_or(if has_location { Status::FOUND } else { Status::OK });
    let content = lines.rest;
    if !content.is_empty() && matches!(status.code(), 204 | 205) {
        return Err(lines.mistake(Problem::Content));
    }
    Ok(AsIs { status, fields, content })
}

/// Reads a metafile: fields, to its end or to an empty line.
pub fn metafile(file: &[u8]) -> Result<Vec<Field<'_>>, Mistake> {
    let mut lines = Lines::new(file);
    let mut fields = Vec::new();
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            break;
        }
        let field = lines.field(line, &fields)?;
        if OF_FILE.iter().any(|own| own.eq_ignore_ascii_case(field.0)) {
            return Err(lines.mistake(Problem::OfFile));
        }
        fields.push(field);
    }
    Ok(fields)
}

struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
    /// Bytes of the lines so far.
    taken: u64,
}

impl<'a> Lines<'a> {
    fn new(file: &'a [u8]) -> Lines<'a> {
        Lines { rest: file, number: 0, taken: 0 }
    }

    /// The next line, without its end, which is LF or CRLF. `None`: the file ends.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Mistake> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let most = (MAX_FIELDS_SIZE - self.taken) as usize;
        let within = &self.rest[..self.rest.len().min(most)];
        let (line, taken) = match within.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&within[..end], end + 1),
            None if within.len() == self.rest.len() => (within, within.len()),
            None => return Err(self.mistake(Problem::TooLong)),
        };
        self.rest = &self.rest[taken..];
        self.taken += taken as u64;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn field(&self, line: &'a [u8], before: &[Field<'_>]) -> Result<Field<'a>, Mistake> {
        let colon = line.iter().position(|byte| *byte == b':').ok_or(self.mistake(Problem::NoField))?;
        let (name, value) = (&line[..colon], trim_ows(&line[colon + 1..]));
        let name = std::str::from_utf8(name).ok().filter(|name| is_token(name.as_bytes()));
        let name = name.ok_or(self.mistake(Problem::NoField))?;
        let is_one_of = |names: &[&str]| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        if !is_value(value) {
            return Err(self.mistake(Problem::Value));
        }
        if is_hop_by_hop(name.as_bytes()) || is_one_of(&OWN) {
            return Err(self.mistake(Problem::Own));
        }
        if is_one_of(&ONCE) && before.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(self.mistake(Problem::Twice));
        }
        if before.len() >= MAX_FIELDS {
            return Err(self.mistake(Problem::TooMany));
        }
        // So that the caller need not compare without regard to case.
        Ok((if name.eq_ignore_ascii_case("status") { "Status" } else { name }, value))
    }

    /// `text` begins with a code.
    fn status(&self, text: &[u8]) -> Result<Status, Mistake> {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = exact_digits(code).filter(|_| code.len() == 3).and_then(|code| u16::try_from(code).ok());
        let status = code.and_then(Status::new);
        // A part, and what has not changed, are answers to a question of the request.
        let is_whole = |status: &Status| status.code() >= 200 && !matches!(status.code(), 206 | 304 | 416);
        status.filter(is_whole).ok_or(self.mistake(Problem::Status))
    }

    fn mistake(&self, problem: Problem) -> Mistake {
        // An empty file has a first line, too.
        Mistake { line: self.number.max(1), problem }
    }
}

/// What follows the version of a status line.
fn status_line(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"HTTP/")?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    Some(trim_ows(&rest[space..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &[Field<'_>]) -> String {
        let one = |(name, value): &Field<'_>| format!("{name}={};", String::from_utf8_lossy(value));
        fields.iter().map(one).collect()
    }

    #[test]
    fn reads_as_is_files() {
        for (file, expected) in [
            ("\n", "200 "),
            ("\nbody", "200 body"),
            ("Content-Type: text/plain\n\nbody\n", "200 Content-Type=text/plain;body\n"),
            ("Status: 404 Not here\r\nA: b\r\n\r\nx", "404 A=b;x"),
            ("status:410\n\n", "410 "),
            ("HTTP/1.0 403 No\nA: b\n\nx", "403 A=b;x"),
            ("HTTP/2 200\n\nx", "200 x"),
            ("Location: /x\n\n", "302 Location=/x;"),
            ("Location: /x\nStatus: 301 Moved\n\n", "301 Location=/x;"),
            ("Set-Cookie: a\nSet-Cookie: b\n\n", "200 Set-Cookie=a;Set-Cookie=b;"),
            ("A:\n\n", "200 A=;"),
            ("Status: 204\n\n", "204 "),
            (
                "Status: 401\nWWW-Authenticate: Basic realm=\"a\"\n\n",
                "401 WWW-Authenticate=Basic realm=\"a\";",
            ),
            ("Status: 599\n\n", "599 "),
            // Mistakes.
            ("", "line 1: an empty line must follow the fields"),
            ("A: b\n", "line 1: an empty line must follow the fields"),
            ("A b\n\n", "line 1: not a field; write \"Name: value\""),
            (" A: b\n\n", "line 1: not a field; write \"Name: value\""),
            ("A : b\n\n", "line 1: not a field; write \"Name: value\""),
            ("A: b\n c\n\n", "line 2: not a field; write \"Name: value\""),
            ("A: b\rc\n\n", "line 1: the value has a control character"),
            ("A: b\0\n\n", "line 1: the value has a control character"),
            ("Content-Length: 5\n\nhello", "line 1: only the server sets this field"),
            ("transfer-encoding: chunked\n\n", "line 1: only the server sets this field"),
            ("A: b\nConnection: close\n\n", "line 2: only the server sets this field"),
            ("Content-Range: bytes 0-1/2\n\n", "line 1: only the server sets this field"),
            ("Location: /a\nlocation: /b\n\n", "line 2: a response has this field once"),
            ("Status: 200\nStatus: 404\n\n", "line 2: a response has this field once"),
            ("HTTP/1.1 200 OK\nStatus: 404\n\n", "line 2: a response has this field once"),
            ("Status: 100\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: 101\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: 206\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: 304\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: 600\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: 0200\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("Status: x\n\n", "line 1: not the status of a whole response, from 200 to 599"),
            ("A: b\nHTTP/1.0 200 OK\n\n", "line 2: not a field; write \"Name: value\""),
            ("Status: 204\n\nx", "line 2: a response with this status has no content"),
        ] {
            let read = match as_is(file.as_bytes()) {
                Ok(AsIs { status, fields, content }) => {
                    format!("{} {}{}", status.code(), shown(&fields), String::from_utf8_lossy(content))
                }
                Err(mistake) => mistake.to_string(),
            };
            assert_eq!(read, expected, "{file:?}");
        }
    }

    #[test]
    fn reads_metafiles() {
        for (file, expected) in [
            ("", ""),
            ("Expires: Thu, 01 Jan 2026 00:00:00 GMT", "Expires=Thu, 01 Jan 2026 00:00:00 GMT;"),
            ("A: b\r\nC: d\r\n", "A=b;C=d;"),
            ("A: b\n\nnot read", "A=b;"),
            ("Content-Type: text/x\n", "Content-Type=text/x;"),
            ("Status: 404\n", "line 1: a metafile cannot set this field"),
            ("Last-Modified: x\n", "line 1: a metafile cannot set this field"),
            ("Location: /x\n", "line 1: a metafile cannot set this field"),
            ("WWW-Authenticate: x\n", "line 1: a metafile cannot set this field"),
            ("Content-Encoding: gzip\n", "line 1: a metafile cannot set this field"),
            ("Trailer: x\n", "line 1: only the server sets this field"),
            ("x\n", "line 1: not a field; write \"Name: value\""),
        ] {
            let read = metafile(file.as_bytes()).map_or_else(|mistake| mistake.to_string(), |f| shown(&f));
            assert_eq!(read, expected, "{file:?}");
        }
    }

    #[test]
    fn has_limits() {
        let size = |bytes: usize| format!("A: {}\n\nx", "b".repeat(bytes));
        let most = MAX_FIELDS_SIZE as usize - "A: \n\n".len();
        assert!(as_is(size(most).as_bytes()).is_ok());
        assert_eq!(as_is(size(most + 1).as_bytes()).unwrap_err().problem, Problem::TooLong);
        let fields = |count: usize| format!("{}\n", "A: b\n".repeat(count));
        assert!(metafile(fields(MAX_FIELDS).as_bytes()).is_ok());
        assert_eq!(metafile(fields(MAX_FIELDS + 1).as_bytes()).unwrap_err().problem, Problem::TooMany);
        let large = format!("\n{}", "x".repeat(100_000));
        assert_eq!(as_is(large.as_bytes()).unwrap().content.len(), 100_000);
    }
}
