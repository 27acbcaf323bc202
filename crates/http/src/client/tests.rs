//! Response heads as upstreams send them, and the result of parsing each.

use proptest::prelude::*;

use super::*;
use crate::head::Field;
use crate::known::KnownFields;

fn summary(head: &Head, used: usize) -> String {
    let fields: Vec<_> =
        head.fields.iter().map(|field| String::from_utf8_lossy(field.name).into_owned()).collect();
    format!("{} {:?} {:?} [{}] {used}", head.status.code(), head.framing, head.persistence, fields.join(" "))
}

fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    read_within(Limits::default(), parts)
}

fn read_within<'a>(limits: Limits, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    read_by(Parser::new(limits), parts)
}

fn read_by<'a>(mut parser: Parser, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut used = 0;
    let mut interim = String::new();
    for part in parts {
        let mut rest = part;
        // Every turn takes an interim response, or is the last.
        parser = loop {
            match parser.receive(rest) {
                Step::More(parser) => break parser,
                Step::Interim(next, Interim { status, fields }, len) => {
                    let names: Vec<_> =
                        fields.iter().map(|field| String::from_utf8_lossy(field.name).into_owned()).collect();
                    interim += &format!("{} [{}], ", status.code(), names.join(" "));
                    parser = next;
                    rest = &rest[len..];
                }
                Step::Head(head, len) => {
                    return interim + &summary(&head, used + part.len() - rest.len() + len);
                }
                Step::Rejected(error) => return interim + &error.to_string(),
            }
        };
        used += part.len();
    }
    interim + "more"
}

#[test]
fn reads_the_final_response() {
    for (input, expected) in [
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", "200 None KeepAlive [A] 25"),
        ("HTTP/1.1 200\nContent-Length: 005\n\nhello", "200 Sized(5) KeepAlive [] 34"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 Chunked KeepAlive [] 47"),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nX: y\r\n\r\n", "200 None Close [] 47"),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nA: b\r\n\r\n", "200 None Close [A] 49"),
        ("HTTP/1.1 200 OK\r\nStatus: 404\r\nStatus: x\r\n\r\n", "200 None KeepAlive [Status Status] 43"),
        ("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", "302 None KeepAlive [Location] 36"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "100 [], more"),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\nA: b\r\n\r\n",
            "103 [Link], 204 None KeepAlive [A] 62",
        ),
        // Content of an interim response would be taken for the final response.
        (
            "HTTP/1.1 103 A\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
            "103 [], 204 None Close [] 56",
        ),
        (
            "HTTP/1.1 102 A\r\nConnection: X\r\nX: y\r\nTE: a\r\nZ: a\r\n\r\nHTTP/1.1 200\r\n\r\n",
            "102 [Z], 200 None KeepAlive [] 68",
        ),
        (
            "HTTP/1.1 100 A\r\nTransfer-Encoding: x\r\n\r\nHTTP/1.1 103 B\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
            "100 [], 103 [], 204 None Close [] 77",
        ),
    ] {
        assert_eq!(read([input.as_bytes()]), expected, "{input:?}");
        assert_eq!(read(input.as_bytes().chunks(1)), expected, "{input:?}");
    }
}

#[test]
fn a_426_keeps_the_protocols_that_it_names() {
    for (head, expected) in [
        ("426 No\r\nUpgrade: a/1, b\r\nupgrade: c\r\nConnection: Upgrade", Some("a/1, b, c")),
        ("426 No", None),
        ("200 OK\r\nUpgrade: h2c", None),
    ] {
        let input = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        let Step::Head(head, _) = Parser::new(Limits::default()).receive(input.as_bytes()) else {
            panic!("{input:?} is rejected");
        };
        assert_eq!(head.upgrade.as_deref(), expected, "{input:?}");
        assert!(head.fields.is_empty(), "{input:?}");
    }
}

#[test]
fn a_head_has_at_most_256_fields() {
    let head = |fields: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(fields));
    let parse = |fields| match Parser::new(Limits::default()).receive(head(fields).as_bytes()) {
        Step::Head(head, _) => Ok(head.fields.len()),
        Step::Rejected(error) => Err(error.cause),
        step => panic!("{step:?}"),
    };
    assert_eq!(parse(256), Ok(256));
    assert_eq!(parse(257), Err(LineError::TooManyFields));
}

#[test]
fn the_last_content_type_counts() {
    for (fields, expected, repeats) in [
        ("Content-Type: a\r\n", &["a"], false),
        ("Content-Type: a\r\nX: y\r\ncontent-type: a\r\n", &["a"], true),
        ("Content-Type: a\r\nContent-Type: b\r\nContent-Type: c\r\n", &["c"], true),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let Step::Head(head, _) = Parser::new(Limits::default()).receive(head.as_bytes()) else {
            panic!("{fields:?} is rejected");
        };
        let found: Vec<&str> = head.fields.values("content-type").flat_map(std::str::from_utf8).collect();
        assert_eq!((&found[..], head.repeats_type), (&expected[..], repeats), "{fields:?}");
    }
}

#[test]
fn rejects_malformed_responses() {
    let status_line = "malformed status line: write \"HTTP/1.1 200 OK\", or \"Status: 200 OK\"";
    for (input, expected) in [
        ("A: b\r\n\r\n", format!("line 1: {status_line}: \"A: b\"")),
        ("HTTP/2 200\r\n\r\n", format!("line 1: {status_line}: \"HTTP/2 200\"")),
        ("\r\n", format!("line 1: {status_line}")),
        // TLS and HTTP/2, and a byte that does not belong there.
        (
            "\x15\x03\x01",
            "line 1: another protocol than HTTP/1.1, such as TLS (`https`) or HTTP/2 (`http2`)".into(),
        ),
        (
            "\0\0\x12\x04",
            "line 1: another protocol than HTTP/1.1, such as TLS (`https`) or HTTP/2 (`http2`)".into(),
        ),
        (
            "HTTP/1.1\0",
            "line 1: control character in the head; is this the body, without a head before it?: \"HTTP/1.1\"".into(),
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "line 1: a status of 101 needs a request for it, HTTP/1.1, one \"Upgrade\" field, and no content"
                .into(),
        ),
        (
            "HTTP/1.1 200 OK\r\nX: y\r\nLocation: a\r\nLocation: b\r\n\r\n",
            "line 4: a second field where there can be only one: \"Location: b\"".into(),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "in its head: there is more than one Content-Length".into(),
        ),
    ] {
        assert_eq!(read([input.as_bytes()]), expected, "{input:?}");
    }
    let incomplete = Parser::new(Limits::default()).end();
    assert_eq!(incomplete.cause, LineError::Empty);
}

#[test]
fn a_response_that_switches_the_protocol_has_no_content() {
    for (fields, protocol) in [
        ("Upgrade: websocket\r\n", Some("websocket")),
        ("Upgrade: websocket\r\nContent-Length: 0\r\n", Some("websocket")),
        ("Upgrade: websocket\r\nContent-Length: 1\r\n", None),
        ("Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n", None),
        ("", None),
    ] {
        let head = format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n");
        let found = match Parser::upgrading(Limits::default()).receive(head.as_bytes()) {
            Step::Head(head, _) => head.upgrade,
            Step::Rejected(error) => {
                assert_eq!(error.cause, LineError::Switch, "{fields:?}");
                None
            }
            step => panic!("{step:?}"),
        };
        assert_eq!(found.as_deref(), protocol, "{fields:?}");
    }
}

/// Valid and invalid heads.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 404 X\n",
        "HTTP/1.1 103 X\r\n\r\n",
        "HTTP/1.1 101 X\r\n",
        "Content-Length: 5\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "\r\n",
        "\r",
        ":",
        " ",
        "\0",
        "X",
    ]);
    prop::collection::vec(part, 0..7).prop_map(|parts| (parts.concat() + "\r\nbody").into_bytes())
}

/// The final head. `None`: there is none.
fn final_head<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Option<Head> {
    let mut parser = Parser::new(Limits::default());
    for part in parts {
        parser = match parser.receive(part) {
            Step::More(parser) => parser,
            Step::Head(head, _) => return Some(head),
            Step::Interim(..) | Step::Rejected(_) => return None,
        };
    }
    None
}

proptest! {
    #[test]
    fn parts_do_not_change_the_fields(
        fields in prop::collection::vec("[A-Za-z-]{1,20}:[ \t]{0,2}[ -~\t]{0,20}\r?\n", 0..5),
        at in any::<prop::sample::Index>(),
    ) {
        let input = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields.concat()).into_bytes();
        let (start, end) = input.split_at(at.index(input.len()));
        let whole = final_head([&*input]);
        prop_assert_eq!(final_head([start, end]), whole.clone());
        prop_assert_eq!(final_head(input.chunks(1)), whole);
    }

    #[test]
    fn writes_each_field_as_a_line(
        fields in prop::collection::vec("(Location|Date|Upgrade|[A-Za-z-]{1,20}):[ \t]{0,2}[ -~\t]{0,20}\r?\n", 0..9),
        at in any::<prop::sample::Index>(),
    ) {
        let input = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields.concat()).into_bytes();
        let (start, end) = input.split_at(at.index(input.len()));
        let Some(head) = final_head([start, end]) else { return Ok(()) };
        for without in [KnownFields::EMPTY, KnownFields::EMPTY.with(KnownField::Location)] {
            let mut expected = Vec::new();
            for line in head.fields.lines_without(without) {
                let Field { name, value } = line.field();
                expected.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
            let mut written = Vec::new();
            head.fields.write(without, &mut written);
            prop_assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }

    #[test]
    fn parts_do_not_change_the_result(input in input(), at in any::<prop::sample::Index>()) {
        let (start, end) = input.split_at(at.index(input.len()));
        prop_assert_eq!(read([start, end]), read([&*input]));
        prop_assert_eq!(read(input.chunks(1)), read([&*input]));
    }

    #[test]
    fn the_memory_of_an_earlier_head_does_not_change_the_result(earlier in input(), input in input()) {
        let section = final_head([&*earlier]).map(|head| head.fields).unwrap_or_default();
        let parser = Parser::over(section, Limits::default());
        prop_assert_eq!(read_by(parser, [&*input]), read([&*input]));
    }

    #[test]
    fn a_limit_is_the_same_for_lines_that_come_in_parts(
        input in input(),
        (head, line, fields) in (0..90usize, 0..30usize, 0..4usize),
    ) {
        let limits = Limits { head, line, fields };
        prop_assert_eq!(read_within(limits, input.chunks(1)), read_within(limits, [&*input]));
    }
}
