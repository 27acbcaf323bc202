//! Tables of heads and their results.

use proptest::prelude::*;
use taipan_http::framing::FramingError;

use super::*;

const SMALL: Limits = Limits { head: 80, line: 30, fields: 4 };

/// The head as text with its length, or the error.
type Outcome = Result<(String, usize), Option<ResponseError>>;

/// Parses a head that arrives in these parts. `Err(None)`: the head is not complete.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let (mut parser, mut used) = (Parser::new(limits), 0);
    for piece in pieces {
        parser = match parser.receive(piece) {
            Step::More(parser) => parser,
            Step::Head(head, len) => return Ok((summary(&head), used + len)),
            Step::Rejected(error) => return Err(Some(error)),
        };
        used += piece.len();
    }
    Err(None)
}

fn summary(head: &Head) -> String {
    let kind = match head.kind {
        Kind::Document => "",
        Kind::Redirect => "redirect ",
        Kind::LocalRedirect => "local ",
    };
    let fields: Vec<_> = head
        .fields
        .iter()
        .map(|field| {
            format!("{}={}", String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value))
        })
        .collect();
    format!("{kind}{} {:?} [{}]", head.status.code(), head.framing, fields.join(", "))
}

#[track_caller]
fn check(head: &str, expected: &str) {
    let (found, used) = read([head.as_bytes()], Limits::default()).expect("a head");
    assert_eq!((found.as_str(), used), (expected, head.len()), "{head:?}");
    // With the other line ending, and with a body.
    let other = if head.contains('\r') { head.replace('\r', "") } else { head.replace('\n', "\r\n") };
    let len = other.len();
    let other = other + "body\n\n";
    assert_eq!(read([other.as_bytes()], Limits::default()), Ok((expected.to_owned(), len)), "{other:?}");
}

#[track_caller]
fn reject(head: &str, cause: impl Into<Cause>) {
    let cause = cause.into();
    let found = read([head.as_bytes()], SMALL).expect_err("no head");
    assert_eq!(found.map(|error| error.cause), Some(cause), "{head:?}");
}

#[test]
fn parses_documents() {
    check("Content-Type: text/plain\n\n", "200 None [Content-Type=text/plain]");
    check("content-type:text/plain\n\n", "200 None [content-type=text/plain]");
    check("X: 1\r\nStatus: 404 Not Found\r\nY:\r\n\r\n", "404 None [X=1, Y=]");
    check("Content-Type : a/b\nStatus\t : 404\n\n", "404 None [Content-Type=a/b]");
    check("Status: 404\n\n", "404 None []");
    check("Status: 599 \n\n", "599 None []");
    check("STATUS:\t200\tO:K\n\n", "200 None []");
    check("X: é\t\u{a0} \n\n", "200 None [X=é\t\u{a0}]");
    check("Set-Cookie: a\nSet-Cookie: b\n\n", "200 None [Set-Cookie=a, Set-Cookie=b]");
    check("Content-Type: a/b\nContent-Length: 07\n\n", "200 Sized(7) [Content-Type=a/b]");
    check("Transfer-Encoding: Chunked\n\n", "200 Chunked []");
}

#[test]
fn a_field_may_go_on_in_the_next_line() {
    check("X: a\n b\n\tc\nY: d\n\n", "200 None [X=a b c, Y=d]");
    check("X: a \n b\n \nY: d\n\n", "200 None [X=a b, Y=d]");
    check("Content-Type:\n a/b;\n c=d\n\n", "200 None [Content-Type=a/b; c=d]");
    check("Status: 404\n Not Found\n\n", "404 None []");
    check("X: a\nLocation: http://b.example/\n\n", "redirect 302 None [X=a, Location=http://b.example/]");
    check("HTTP/1.1 200 OK\nX: a\n b\n\n", "200 None [X=a b]");
    reject("Content-Length: 1\n 2\n\n", LineError::Framing(FramingError::LengthSyntax));
    reject("Location: /a\n b\n\n", Cause::Location);
    reject("X: 45678901234567890\n 2345678901234567890\n", LineError::LineTooLong);
    reject("Status: 200\nStatus:\n 200\n\n", LineError::Twice);
    reject("HTTP/1.1 200 OK\n X: y\n\n", LineError::Folded);
    reject(&format!("X: a\n{}", " \n".repeat(40)), LineError::TooLarge);
}

#[test]
fn what_says_nothing_more_of_the_length_is_harmless() {
    check("X: a\nContent-Length: 5\nContent-Length: 5\n\n", "200 Sized(5) [X=a]");
    check("X: a\nTransfer-Encoding: Identity\n\n", "200 None [X=a]");
    check("Content-Length: 5\nTransfer-Encoding: identity\n\n", "200 Sized(5) []");
}

#[test]
fn removes_fields_of_the_hop() {
    check(
        "Connection: close, X\nKeep-Alive: 1\nProxy-Connection: a\nTE: b\nTrailer: c\nUpgrade: d\nX: y\n\n",
        "200 None [X=y]",
    );
}

#[test]
fn parses_redirects() {
    check("Location: http://b.example/x\n\n", "redirect 302 None [Location=http://b.example/x]");
    check("Location: http://b.example/\nX: y\n\n", "redirect 302 None [Location=http://b.example/, X=y]");
    check("Location: x:y\nStatus: 301 Moved\n\n", "redirect 301 None [Location=x:y]");
    check("Location: /x?y=%20\n\n", "local 200 None [Location=/x?y=%20]");
    check("Status: 303 See Other\nLocation: /x\n\n", "redirect 303 None [Location=/x]");
    check("HTTP/1.1 303 See Other\nLocation: /x\n\n", "redirect 303 None [Location=/x]");
    check("Set-Cookie: a=b\nLocation: /x\n\n", "redirect 302 None [Set-Cookie=a=b, Location=/x]");
    check("Location: //b.example/x\n\n", "redirect 302 None [Location=//b.example/x]");
    check("Location: /x#y\n\n", "redirect 302 None [Location=/x#y]");
    check("Location: ../x\n\n", "redirect 302 None [Location=../x]");
    check("Status: 201 Created\nLocation: /x y\n\n", "redirect 201 None [Location=/x y]");
}

#[test]
fn parses_status_lines() {
    check("HTTP/1.1 200 OK\r\n\r\n", "200 None []");
    check("HTTP/1.0 404 \r\nX: y\r\n\r\n", "404 None [X=y]");
    check("HTTP/1.1 200\nContent-Length: 1\n\n", "200 Sized(1) []");
}

#[test]
fn the_last_content_type_counts() {
    let repeats_type = |head: &str| match Parser::new(Limits::default()).receive(head.as_bytes()) {
        Step::Head(head, _) => head.repeats_type,
        step => panic!("{step:?}"),
    };
    for (head, expected, repeats) in [
        ("Content-Type: a\nX: y\n\n", "200 None [Content-Type=a, X=y]", false),
        ("Content-Type: a\nX: y\nContent-type: a\n\n", "200 None [X=y, Content-type=a]", true),
        (
            "Content-Type: a\nContent-Type: b\nContent-Type: c\nX: y\n\n",
            "200 None [Content-Type=c, X=y]",
            true,
        ),
    ] {
        check(head, expected);
        assert_eq!(repeats_type(head), repeats, "{head}");
    }
}

#[test]
fn rejects_malformed_lines() {
    reject("\n", Cause::NoField);
    reject("\r\nHello", Cause::NoField);
    reject("Hello\n", LineError::Malformed);
    reject("<html>: x\n", LineError::Malformed);
    reject(": x\n", LineError::Malformed);
    reject("X y: z\n", LineError::Malformed);
    reject(" : y\n", LineError::Folded);
    reject("Content Type: x\n", LineError::Malformed);
    reject("é: y\n", LineError::Malformed);
    reject("X: y\nHello\n", LineError::Malformed);
    reject("X: y\nHTTP/1.1 200 OK\n", LineError::Malformed);
    reject(" X: y\n", LineError::Folded);
    reject("\x7fELF", LineError::Control);
    reject("X: \0\n", LineError::Control);
    reject("X: y\rz\n", LineError::Control);
    reject("X: y\r\r\n", LineError::Control);
    reject("\rX", LineError::Control);
}

#[test]
fn rejects_malformed_and_repeated_values() {
    for status in ["", "20", "OK", "2000", "20x", "+20", "200OK", "0200 OK", "-20 x"] {
        reject(&format!("Status: {status}\n\n"), LineError::Status);
    }
    for status in ["000", "099", "100", "101", "199", "600", "999"] {
        reject(&format!("Status: {status}\n\n"), LineError::StatusRange);
        reject(&format!("HTTP/1.1 {status}\n\n"), LineError::StatusRange);
    }
    for line in ["HTTP/", "HTTP/1.1", "HTTP/2.0 200 OK", "HTTP/1.2 200", "HTTP/1.1  200", "HTTP/1.1:200"] {
        let cause = if line == "HTTP/1.1  200" { LineError::Status } else { LineError::StatusLine };
        reject(&format!("{line}\n\n"), cause);
    }
    reject("Status: 200\nstatus: 200\n\n", LineError::Twice);
    reject("HTTP/1.1 200 OK\nStatus: 200\n\n", LineError::Twice);
    reject("Location: /a\nLocation: /a\n\n", LineError::Twice);
    reject("Location:\n\n", Cause::Location);
    reject("Location: /a b\n\n", Cause::Location);
    reject("Location: /é\n\n", Cause::Location);
    reject("Content-Length: -1\n\n", LineError::Framing(FramingError::LengthSyntax));
    reject("Content-Length: 1, 1\n\n", LineError::Framing(FramingError::LengthTwice));
    reject("Content-Length: 1\nContent-Length: 2\n\n", LineError::Framing(FramingError::LengthTwice));
    reject("Transfer-Encoding: x,identity\n\n", LineError::Framing(FramingError::ChunkedNotLast));
    reject("Transfer-Encoding: gzip\n\n", LineError::Framing(FramingError::ChunkedNotLast));
    reject(
        "Content-Length: 1\nTE: a\nTransfer-Encoding: chunked\n\n",
        LineError::Framing(FramingError::LengthAndCoding),
    );
    reject("HTTP/1.0 200\nTransfer-Encoding: chunked\n\n", LineError::Framing(FramingError::CodingOnHttp10));
}

#[test]
fn rejects_one_byte_over_a_limit() {
    let line = |len: usize| format!("X: {}\n\n", "y".repeat(len - 3));
    let check = |head: String, expected: Option<LineError>| {
        let found = read([head.as_bytes()], SMALL);
        assert_eq!(found.err().flatten().map(|error| error.cause), expected.map(Cause::Line), "{head:?}");
    };
    check(line(SMALL.line), None);
    check(line(SMALL.line).replace('\n', "\r\n"), None);
    check(line(SMALL.line + 1), Some(LineError::LineTooLong));
    check("x".repeat(SMALL.line + 1), Some(LineError::LineTooLong));
    check("A:\n".repeat(SMALL.fields) + "\n", None);
    check("A:\n".repeat(SMALL.fields + 1), Some(LineError::TooManyFields));
    let full = "A: 45678901234567890123456\n".repeat(2) + "A: 456789012345678901234";
    check(format!("{full}\n\n"), None);
    check(format!("{full}6\n\n"), Some(LineError::TooLarge));
}

#[test]
fn distinguishes_an_incomplete_head_from_no_output() {
    let check = |start: &str, expected| {
        let Step::More(parser) = Parser::new(SMALL).receive(start.as_bytes()) else { panic!("{start:?}") };
        assert_eq!(parser.end().cause, Cause::Line(expected), "{start:?}");
    };
    check("", LineError::Empty);
    check("X", LineError::Incomplete);
    check("X: y\n", LineError::Incomplete);
    check("X: y\r\n\r", LineError::Incomplete);
}

#[test]
fn errors_name_the_line_and_the_rule() {
    let check = |head: &str, expected: &str| {
        let Err(Some(error)) = read([head.as_bytes()], Limits::default()) else { panic!("{head:?}") };
        assert_eq!(error.to_string(), expected);
    };
    check(
        "Content-Type: text/plain\nHello \"you\"\n",
        "line 2: not a field: write \"Name: value\" lines and an empty line before the body: \
         \"Hello \\\"you\\\"\"",
    );
    check("\x1b[2J\n", "line 1: control character in the head; is this the body, without a head before it?");
    check(
        "HTTP/1.1 200 OK\nA: b\nStatus: 200\n\n",
        "line 3: a second field where there can be only one: \"Status: 200\"",
    );
    check("Content-Length: 5x\n\n", "in its head: Content-Length is not a number");
    let long = format!("{}\n", "é".repeat(100));
    let Err(Some(error)) = read([long.as_bytes()], Limits::default()) else { panic!() };
    let text = error.to_string();
    assert!(text.is_ascii() && text.len() < 350, "{text}");
    let nothing = Parser::new(SMALL).end();
    assert_eq!(nothing.to_string(), "it ended without writing anything");
}

#[test]
fn finds_the_variables_of_an_authorizer() {
    let Step::Head(head, _) =
        Parser::new(SMALL).receive(b"Status: 200\nVariable-A: b\nvariable-C_D: e\nVariable-: x\n\n")
    else {
        panic!("no head")
    };
    let found: Vec<_> = variables(&head.fields).map(|field| (field.name, field.value)).collect();
    assert_eq!(found, [(&b"A"[..], &b"b"[..]), (b"C_D", b"e")]);
    assert_eq!(head.fields.value("variable-a"), Some(&b"b"[..]));
}

/// Valid and invalid heads.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "Content-Type: a/b\n",
        "Status: 404 X\r\n",
        " y\n",
        "Status: 99\n",
        "Location: /x\n",
        "Location: http://x/\r\n",
        "Content-Length: 5\n",
        "HTTP/1.1 200 OK\r\n",
        "X-Y: zzzzzzzzzzzzzzzzzzz\n",
        "X-Y: zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\n",
        "\n",
        "\r\n",
        "\r",
        ":",
        " ",
        "\0",
        "X",
    ]);
    prop::collection::vec(piece, 0..7).prop_map(|pieces| (pieces.concat() + "\r\nbody").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_result_does_not_depend_on_the_cuts(head in head(), at in prop::collection::vec(any::<prop::sample::Index>(), 0..5)) {
        for limits in [SMALL, Limits::default()] {
            let whole = read([&*head], limits);
            prop_assert_eq!(&read(crate::cut(&head, &at), limits), &whole);
            prop_assert_eq!(&read(head.chunks(1), limits), &whole);
        }
    }

    #[test]
    fn the_result_of_noise_does_not_depend_on_the_cuts(head: Vec<u8>) {
        prop_assert_eq!(read([&*head], SMALL), read(head.chunks(1), SMALL));
    }
}
