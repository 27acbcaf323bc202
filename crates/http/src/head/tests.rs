use proptest::prelude::*;

use super::*;

fn read(input: &[u8], limits: &Limits) -> Result<Option<(String, usize)>, HeadError> {
    let mut store = FieldStore::new();
    let found = parse(input, &mut store, limits)?;
    Ok(found.map(|(head, used)| (format!("{head:?}"), used)))
}

/// The request line, the authority, the framing and the persistence, and whether more input follows.
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

/// A request with this line after its `Host` field.
fn post_with(line: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n")
}

#[test]
fn accepts_valid_heads() {
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.1 [h] None KeepAlive"));
    for lines in ["\r\n", "\r\n\r\n\r\n\r\n"] {
        let input = format!("{lines}GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        check(&input, Ok("GET / HTTP/1.1 [h] None KeepAlive"));
    }
    check("GET / HTTP/1.1\r\nhOsT:\t h:80 \t\r\n\r\nGET", Ok("GET / HTTP/1.1 [h:80] None KeepAlive rest"));
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
    check(&post_with("X: "), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
    check(&post_with("X: a\tb \"é\" {}"), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
    check(&post_with("!#$%&'*+-.^_`|~9: a"), Ok("POST / HTTP/1.1 [h] None KeepAlive"));
}

#[test]
fn needs_more_bytes_for_a_partial_head() {
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
fn rejects_malformed_request_lines() {
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
fn escapes_bytes_that_clients_send_raw() {
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
    // Not escaped in a path, which `parse` then rejects.
    check(b"/\"", None);
    check(b"/<\xe4?<", Some("/<%E4?%3C"));
    check(b"/?#\xe4", Some("/?#%E4"));
    check(b"/\0\xe4", None);
    // Not escaped in the authority.
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
fn rejects_malformed_fields() {
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
        check(&post_with(line), Err(error));
    }
    check("GET / HTTP/1.1\r\n Host: h\r\n\r\n", Err(Folded));
    check("GET / HTTP/1.1\r\nHost: h\n\r\n", Err(BareLf));
    check("GET / HTTP/1.1\r\nHost: h\r\n\n", Err(BareLf));
}

#[test]
fn requires_exactly_one_valid_host() {
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
    // The absolute target replaces `Host`, which must be valid all the same.
    check("GET http://a/ HTTP/1.1\r\nHost: u@b\r\n\r\n", Err(HostInvalid));
    check("GET http://a/ HTTP/1.1\r\n\r\n", Err(HostMissing));
    check("CONNECT a:1 HTTP/1.1\r\n\r\n", Err(HostMissing));
    check("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", Err(HostInvalid));
}

#[test]
fn rejects_ambiguous_framing() {
    use FramingError::*;
    let rejects = |lines: &str, error| check(&post_with(lines), Err(HeadError::Framing(error)));
    let accepts = |lines: &str, framing: &str| {
        check(&post_with(lines), Ok(&format!("POST / HTTP/1.1 [h] {framing} KeepAlive")));
    };
    accepts("Content-Length: 5", "Sized(5)");
    accepts("content-length:\t5 ", "Sized(5)");
    accepts("Transfer-Encoding: chunked", "Chunked");
    // Whitespace around a value is not part of it (RFC 9112 §5.1).
    accepts("transfer-ENCODING:\t \tChunked \t", "Chunked");
    accepts("Content-Length_: 5\r\nContent_Length: 6\r\nTransfer_Encoding: chunked", "None");

    rejects("Content-Length: 5\r\nTransfer-Encoding: chunked", LengthAndCoding);
    rejects("Transfer-Encoding: chunked\r\nContent-Length: 5", LengthAndCoding);
    rejects("Transfer-Encoding: identity\r\nContent-Length: 5", LengthAndCoding);
    rejects("Content-Length: 5\r\nContent-Length: 5", LengthTwice);
    rejects("Content-Length: 5\r\nX: y\r\ncontent-length: 6", LengthTwice);
    rejects("Content-Length: 5, 5", LengthTwice);
    rejects("Content-Length: 5,6", LengthTwice);
    rejects("Content-Length:", LengthSyntax);
    rejects("Content-Length: +1", LengthSyntax);
    rejects("Content-Length: -1", LengthSyntax);
    rejects("Content-Length: 0x1", LengthSyntax);
    rejects("Content-Length: 1 1", LengthSyntax);
    rejects("Content-Length: 1\t1", LengthSyntax);
    rejects("Content-Length: 00", LengthZeros);
    rejects("Content-Length: 05", LengthZeros);
    rejects("Content-Length: 018446744073709551616", LengthZeros);
    rejects("Content-Length: 18446744073709551616", LengthTooLarge);
    rejects("Transfer-Encoding: chunked, chunked", ChunkedTwice);
    rejects("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ChunkedTwice);
    rejects("Transfer-Encoding: xchunked", ChunkedNotLast);
    rejects("Transfer-Encoding: chunked\r\nTransfer-Encoding: x", ChunkedNotLast);
    rejects("Transfer-Encoding: chunked, identity", ChunkedNotLast);
    rejects("Transfer-Encoding: x, chunked", CodingUnknown);
    rejects("Transfer-Encoding: chunked;q=1", CodingSyntax);
    rejects("Transfer-Encoding: \"chunked\"", CodingSyntax);
    rejects("Transfer-Encoding:", CodingSyntax);
    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(HeadError::Framing(CodingOnHttp10)));
    check("POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n", Ok("POST / HTTP/1.0 [] Sized(5) Close"));
}

#[test]
fn persistence_follows_connection_and_version() {
    let persists = |version: &str, lines: &str| {
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
        assert_eq!((persists("1.1", lines), persists("1.0", lines)), (on_11, on_10), "{lines}");
    }
}

#[test]
fn accepts_100_continue_alone() {
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
fn rejects_a_head_at_the_first_byte_over_a_limit() {
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

    let left = 128 - line.len() - "X: \r\n\r\n".len();
    let full = format!("{line}X: {}\r\n\r\n", "a".repeat(left));
    assert_eq!(full.len(), 128);
    check(&full, Ok(true));
    check(&full[..127], Ok(false));
    check(&format!("{full}GET"), Ok(true));
    check(&format!("{line}X: {}\r\n\r\n", "a".repeat(left + 1)), Err(HeadError::TooLarge));
    check(&format!("{line}X: {}", "a".repeat(1000)), Err(HeadError::TooLarge));
    check("\r\n", Ok(false));
}

#[test]
fn stores_at_most_max_fields() {
    let limits = Limits { head: 1 << 20, fields: usize::MAX, target: 10 };
    let request = |fields: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a:\r\n".repeat(fields - 1));
    assert!(read(request(MAX_FIELDS).as_bytes(), &limits).unwrap().is_some());
    assert_eq!(read(request(MAX_FIELDS + 1).as_bytes(), &limits), Err(HeadError::TooManyFields));
    let none = Limits { head: 0, fields: 0, target: 0 };
    assert_eq!(read(b"", &none), Err(HeadError::TooLarge));
}

#[test]
fn finds_every_name_of_the_table_in_any_case() {
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
        assert_eq!(Names::of(unknown.as_bytes()), Names::NONE, "{unknown}");
    }
    assert!(all.contains(Names::CONDITIONAL));
    assert!(!Names::HOST.intersects(Names::CONDITIONAL) && !Names::IF_MATCH.contains(Names::CONDITIONAL));
}

#[test]
fn finds_values_by_name() {
    let mut store = FieldStore::new();
    let input = b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\na:  3 \r\nC:\r\n\r\n";
    let (head, _) = parse(input, &mut store, &Limits::default()).unwrap().unwrap();
    assert_eq!(head.values("a").collect::<Vec<_>>(), [b"1", b"3"]);
    assert_eq!((head.value("A"), head.only("A")), (Some(&b"1"[..]), None));
    assert_eq!((head.value("b"), head.only("b")), (Some(&b"2"[..]), Some(&b"2"[..])));
    assert_eq!((head.value("c"), head.only("d")), (Some(&b""[..]), None));
    assert_eq!(Names::of_fields(head.fields), head.names);
}

#[test]
fn methods_are_case_sensitive() {
    for token in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"] {
        assert_eq!(Method::from_bytes(token.as_bytes()).as_str(), token);
        assert_eq!(Method::from_bytes(token.to_lowercase().as_bytes()), Method::Unknown);
    }
}

#[test]
fn errors_have_their_status() {
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

/// Valid and invalid heads.
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

    /// The parser needs more bytes, or returns the head or the error of the whole input.
    #[test]
    fn a_prefix_is_partial_or_has_the_result_of_the_whole(input in request()) {
        for limits in [SMALL, Limits::default()] {
            let whole = read(&input, &limits);
            for end in 0..input.len() {
                let prefix = read(&input[..end], &limits);
                let same = prefix == Ok(None) || prefix == whole;
                prop_assert!(same, "{end} {prefix:?} {whole:?}");
            }
        }
    }

    #[test]
    fn a_prefix_of_noise_is_partial_or_has_the_result_of_the_whole(input: Vec<u8>) {
        let whole = read(&input, &SMALL);
        for end in 0..input.len() {
            let prefix = read(&input[..end], &SMALL);
            prop_assert!(prefix == Ok(None) || prefix == whole);
        }
    }

    /// httparse accepts every accepted head, and finds the same parts.
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
    fn any_line_is_one_field_or_rejected(name in "[ -~]{1,8}", value in "[ -~\t]{0,20}") {
        let input = post_with(&format!("{name}:{value}"));
        let mut store = FieldStore::new();
        if let Ok(Some((head, used))) = parse(input.as_bytes(), &mut store, &Limits::default()) {
            prop_assert_eq!(used, input.len());
            prop_assert_eq!(head.fields.len(), 2);
            // The name ends at the first colon.
            let (name, value) = input["POST / HTTP/1.1\r\nHost: h\r\n".len()..].split_once(':').unwrap();
            prop_assert_eq!(head.fields[1].name, name.as_bytes());
            let value = value.trim_matches(['\r', '\n']).trim_matches([' ', '\t']);
            prop_assert_eq!(head.fields[1].value, value.as_bytes());
        }
    }
}
