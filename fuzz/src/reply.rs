//! Heads of replies that scripts write. However the bytes are cut, they say the same; a reader that looks
//! for lines agrees on where a head ends; what passes is fit for a client, and what does not, for a log.

use script::response::{Head, Kind, Limits, Parser, ResponseError, Step};
use taipan_http::fields::{is_name, is_token, text_len};

use crate::cuts::cuts;

/// So that inputs of few bytes meet them.
const SMALL: Limits = Limits { head: 100, line: 30, fields: 5 };

/// The bytes are what a script writes.
pub fn reply(data: &[u8]) {
    for limits in [SMALL, Limits::default()] {
        let whole = read([data], limits);
        assert_eq!(read(data.chunks(1), limits), whole, "byte by byte");
        let [a, b, c, d] = cuts(data);
        let pieces = [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]];
        assert_eq!(read(pieces, limits), whole, "cut at {a}, {b}, {c}, {d}");
        match whole {
            Outcome::Head(head, used) => {
                assert_eq!(by_lines(data), Some(used));
                assert!(used <= limits.head);
                fit_for_a_client(&head, limits);
            }
            Outcome::Refused(error) | Outcome::Unfinished(error) => fit_for_a_log(&error),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// What it would mean if nothing more came.
    Unfinished(ResponseError),
    /// So many bytes were the head.
    Head(Head, usize),
    Refused(ResponseError),
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let (mut parser, mut used) = (Parser::new(limits), 0);
    for piece in pieces {
        parser = match parser.receive(piece) {
            Step::More(parser) => parser,
            Step::Head(head, len) => return Outcome::Head(head, used + len),
            Step::Refused(error) => return Outcome::Refused(error),
        };
        used += piece.len();
    }
    Outcome::Unfinished(parser.end())
}

/// Where the first empty line ends.
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

fn fit_for_a_client(head: &Head, limits: Limits) {
    assert!((200..=599).contains(&head.status.code()));
    assert!(head.fields().count() <= limits.fields);
    for field in head.fields() {
        assert!(is_token(field.name));
        assert!(field.value.split(|&byte| byte == b'\t').all(|text| text_len(text) == text.len()));
        for name in ["status", "content-length", "transfer-encoding", "connection", "upgrade"] {
            assert!(!is_name(field.name, name), "{name}");
        }
    }
    let location = head.value("location");
    match head.kind {
        Kind::Document => assert_eq!(location, None),
        Kind::Redirect => assert!(location.is_some_and(|location| !location.is_empty())),
        Kind::LocalRedirect => {
            assert!(location.is_some_and(|path| path.starts_with(b"/") && !path.starts_with(b"//")));
            assert_eq!(head.fields().count(), 1);
        }
    }
}

fn fit_for_a_log(error: &ResponseError) {
    let line = error.to_string();
    assert!(!line.is_empty() && line.len() < 400 && line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
}
