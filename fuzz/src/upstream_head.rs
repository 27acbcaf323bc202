//! Response heads of upstreams, by CGI and by HTTP. The result does not depend on how the bytes are cut. A reader
//! that looks for lines agrees on where a head ends. What passes is fit for a client, and an error is fit for a log.

use script::response::{self as cgi, Kind};
use taipan_http::client::{self as http, lines::Limits, section::FieldSection};
use taipan_http::fields::{is_name, is_token, text_len};

use crate::cuts::cuts;

/// Small, so that short inputs reach them.
const SMALL: Limits = Limits { head: 100, line: 30, fields: 5 };

/// The bytes are those of an upstream.
pub fn upstream_head(data: &[u8]) {
    for limits in [SMALL, Limits::default()] {
        let cgi = check(data, |parts| read_cgi(parts, limits));
        if let Outcome::Head(head, used) = cgi {
            assert_eq!(by_lines(data), Some(used));
            assert!(used <= limits.head);
            assert!((200..=599).contains(&head.status.code()));
            fit_for_a_client(&head.fields, limits);
            assert_eq!(head.fields.value("status"), None);
            location_fits(&head);
        }
        let http = check(data, |parts| read_http(parts, limits));
        if let Outcome::Head(head, used) = http {
            assert!(used <= limits.head);
            assert!((200..=599).contains(&head.status.code()));
            fit_for_a_client(&head.fields, limits);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome<Head> {
    /// The error if nothing more comes.
    Unfinished(String),
    /// The length of the head.
    Head(Head, usize),
    Rejected(String),
}

/// Reads the data in one part, byte by byte, and in five parts.
fn check<Head: PartialEq + std::fmt::Debug>(
    data: &[u8],
    read: impl Fn(&[&[u8]]) -> Outcome<Head>,
) -> Outcome<Head> {
    let whole = read(&[data]);
    assert_eq!(read(&data.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    let [a, b, c, d] = cuts(data);
    let parts = [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]];
    assert_eq!(read(&parts), whole, "cut at {a}, {b}, {c}, {d}");
    if let Outcome::Unfinished(error) | Outcome::Rejected(error) = &whole {
        assert!(!error.is_empty() && error.len() < 400);
        assert!(error.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    }
    whole
}

fn read_cgi(parts: &[&[u8]], limits: Limits) -> Outcome<cgi::Head> {
    let (mut parser, mut used) = (cgi::Parser::new(limits), 0);
    for part in parts {
        parser = match parser.receive(part) {
            cgi::Step::More(parser) => parser,
            cgi::Step::Head(head, len) => return Outcome::Head(head, used + len),
            cgi::Step::Rejected(error) => return Outcome::Rejected(error.to_string()),
        };
        used += part.len();
    }
    Outcome::Unfinished(parser.end().to_string())
}

fn read_http(parts: &[&[u8]], limits: Limits) -> Outcome<http::Head> {
    let (mut parser, mut used) = (http::Parser::new(limits), 0);
    for part in parts {
        let mut rest = *part;
        // Every turn takes an interim response, or is the last.
        parser = loop {
            match parser.receive(rest) {
                http::Step::More(parser) => break parser,
                http::Step::Interim(next, http::Interim { status, fields }, len) => {
                    assert!(matches!(status.code(), 100 | 102..=199));
                    fit_for_a_client(&fields, limits);
                    (parser, rest) = (next, &rest[len..]);
                }
                http::Step::Head(head, len) => {
                    return Outcome::Head(head, used + part.len() - rest.len() + len);
                }
                http::Step::Rejected(error) => return Outcome::Rejected(error.to_string()),
            }
        };
        used += part.len();
    }
    Outcome::Unfinished(parser.end().to_string())
}

/// The end of the first empty line.
fn by_lines(data: &[u8]) -> Option<usize> {
    let mut start = 0;
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        start += line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return Some(start);
        }
    }
    None
}

fn fit_for_a_client(fields: &FieldSection, limits: Limits) {
    assert!(fields.len() <= limits.fields);
    for field in fields.iter() {
        assert!(is_token(field.name));
        assert!(field.value.split(|&byte| byte == b'\t').all(|text| text_len(text) == text.len()));
        for name in ["content-length", "transfer-encoding", "connection", "upgrade"] {
            assert!(!is_name(field.name, name), "{name}");
        }
    }
}

fn location_fits(head: &cgi::Head) {
    let location = head.fields.value("location");
    match head.kind {
        Kind::Document => assert_eq!(location, None),
        Kind::Redirect => assert!(location.is_some_and(|location| !location.is_empty())),
        Kind::LocalRedirect => {
            assert!(location.is_some_and(|path| path.starts_with(b"/") && !path.starts_with(b"//")));
            assert_eq!(head.fields.len(), 1);
        }
    }
}
