use proptest::prelude::*;

use super::*;

#[test]
fn splits_lists() {
    let check = |lines: &[&str], expected: &[&str]| {
        let members: Vec<_> = list(lines.iter().map(|line| line.as_bytes())).collect();
        let expected: Vec<_> = expected.iter().map(|member| member.as_bytes()).collect();
        assert_eq!(members, expected, "{lines:?}");
    };
    check(&[], &[]);
    check(&["", ",", " , ,\t"], &[]);
    check(&["a"], &["a"]);
    check(&["a,b", "c"], &["a", "b", "c"]);
    check(&[" a\t, b c ,,d "], &["a", "b c", "d"]);
    check(&[r#"a="x,y", b"#], &[r#"a="x,y""#, "b"]);
    check(&[r#"a="x\",y", b"#], &[r#"a="x\",y""#, "b"]);
    check(&[r#"a="x,y"#, "b"], &[r#"a="x,y"#, "b"]);
    check(&[r"a\,b"], &[r"a\", "b"]);
}

#[test]
fn recognizes_tokens() {
    for token in ["a", "GET", "x-y_z", "!#$%&'*+-.^_`|~09"] {
        assert!(is_token(token.as_bytes()), "{token}");
    }
    for other in ["", " ", "a b", "a:", "(a)", "a/b", "a,b", "\"a\"", "{a}", "é", "a\0", "[", "@", "\x7f"] {
        assert!(!is_token(other.as_bytes()), "{other}");
    }
}

#[test]
fn parses_weights() {
    let rows: &[(&str, Option<u16>)] = &[
        ("0", Some(0)),
        ("1", Some(1000)),
        ("0.", Some(0)),
        ("1.", Some(1000)),
        ("0.5", Some(500)),
        ("0.05", Some(50)),
        ("0.123", Some(123)),
        ("1.000", Some(1000)),
        ("1.001", None),
        ("0.1234", None),
        ("2", None),
        ("", None),
        (".5", None),
        ("-1", None),
        ("0,5", None),
        ("0.5x", None),
        ("00", None),
    ];
    for (text, expected) in rows {
        assert_eq!(weight(text.as_bytes()), *expected, "{text}");
    }
}

#[test]
fn parses_numbers() {
    let rows: &[(&str, Option<u64>, Option<u64>)] = &[
        ("0", Some(0), Some(0)),
        ("007", Some(7), Some(7)),
        ("18446744073709551615", Some(u64::MAX), Some(u64::MAX)),
        ("018446744073709551615", Some(u64::MAX), Some(u64::MAX)),
        ("18446744073709551616", Some(u64::MAX), None),
        ("99999999999999999999999999", Some(u64::MAX), None),
        ("", None, None),
        ("+1", None, None),
        ("-1", None, None),
        ("1 1", None, None),
        ("0x1", None, None),
        ("1_000", None, None),
        ("\u{661}", None, None),
    ];
    for (text, saturated, exact) in rows {
        assert_eq!(digits(text.as_bytes()), *saturated, "{text}");
        assert_eq!(exact_digits(text.as_bytes()), *exact, "{text}");
    }
}

#[test]
fn recognizes_and_splits_authorities() {
    let long = "a".repeat(256);
    let rows: &[(&str, bool, &str, Option<u16>)] = &[
        ("example.org", true, "example.org", None),
        ("example.org.", true, "example.org.", None),
        ("EXAMPLE.org:8080", true, "EXAMPLE.org", Some(8080)),
        ("example.org:", true, "example.org", None),
        ("example.org:0", true, "example.org", Some(0)),
        ("example.org:65535", true, "example.org", Some(65535)),
        ("example.org:00080", true, "example.org", Some(80)),
        ("127.0.0.1:80", true, "127.0.0.1", Some(80)),
        ("[::1]", true, "[::1]", None),
        ("[::1]:443", true, "[::1]", Some(443)),
        ("[2001:db8::ff00:42:8329]", true, "[2001:db8::ff00:42:8329]", None),
        ("[::ffff:1.2.3.4]:1", true, "[::ffff:1.2.3.4]", Some(1)),
        ("a_b", true, "a_b", None),
        ("a%20b", true, "a%20b", None),
        ("a!$&'()*+,;=~b", true, "a!$&'()*+,;=~b", None),
        ("", false, "", None),
        (":80", false, "", Some(80)),
        (":", false, "", None),
        ("a:65536", false, "a", None),
        ("a:99999", false, "a", None),
        ("a:000080", false, "a", None),
        ("a:+80", false, "a", None),
        ("a:8 0", false, "a", None),
        ("a:b", false, "a", None),
        ("a:80:90", false, "a:80", Some(90)),
        ("a b", false, "a b", None),
        ("a@b", false, "a@b", None),
        ("user:pw@b", false, "user", None),
        ("a/b", false, "a/b", None),
        ("a?b", false, "a?b", None),
        ("a#b", false, "a#b", None),
        ("a\\b", false, "a\\b", None),
        ("a%2", false, "a%2", None),
        ("a%zz", false, "a%zz", None),
        ("a<b", false, "a<b", None),
        ("a\tb", false, "a\tb", None),
        ("a\0", false, "a\0", None),
        ("é.org", false, "é.org", None),
        ("::1", false, ":", Some(1)),
        ("[::1", false, "[:", Some(1)),
        ("[::1]x", false, "[::1]x", None),
        ("[::1]:x", false, "[::1]", None),
        ("[fe80::1%25eth0]", false, "[fe80::1%25eth0]", None),
        ("[v1.x]", false, "[v1.x]", None),
        ("[]", false, "[]", None),
        ("[1.2.3.4]", false, "[1.2.3.4]", None),
        (&long, false, &long, None),
    ];
    for (text, valid, host, port) in rows {
        assert_eq!(is_authority(text.as_bytes()), *valid, "{text}");
        assert_eq!(host_and_port(text), (*host, *port), "{text}");
    }
}

#[test]
fn target_characters_are_those_of_uris() {
    for byte in 0..=255u8 {
        let expected = usize::from(byte.is_ascii_graphic() && !b"\"<>#".contains(&byte));
        assert_eq!(target_len(&[byte]), expected, "{byte:#x}");
        let expected = if byte == b'?' { 0 } else { expected };
        assert_eq!(target_path_len(&[byte]), expected, "{byte:#x}");
    }
}

#[test]
fn segment_characters_need_no_decoding() {
    for byte in 0..=255u8 {
        let expected = usize::from((b' '..=b'~').contains(&byte) && !b"/\\%".contains(&byte));
        assert_eq!(segment_len(&[byte]), expected, "{byte:#x}");
    }
}

proptest! {
    #[test]
    fn finds_the_first_control_character(bytes in prop::collection::vec(prop_oneof![
        8 => 0x20..0x7fu8, 2 => 0x80..=0xffu8, 1 => any::<u8>()
    ], 0..40)) {
        let naive = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
        prop_assert_eq!(text_len(&bytes), naive);
    }

    #[test]
    fn a_span_ends_at_the_first_byte_of_another_class(
        bytes in prop::collection::vec(prop_oneof![8 => b'a'..=b'z', 1 => any::<u8>()], 0..40),
    ) {
        for class in [TOKEN, HOST, TARGET, TARGET_PATH, SEGMENT] {
            let naive = bytes.iter().position(|byte| CLASSES[usize::from(*byte)] & class == 0);
            prop_assert_eq!(span(&bytes, class), naive.unwrap_or(bytes.len()));
        }
    }

    #[test]
    fn compares_names_as_the_standard_library(
        known in "[a-zA-Z0-9-]{1,20}",
        other in "[!#-'*+.0-9A-Z^-z|~-]{1,20}",
    ) {
        let (upper, lower) = (known.to_uppercase(), known.to_lowercase());
        for name in [upper, lower, known.replace('-', "_"), other.clone()] {
            prop_assert_eq!(is_name(name.as_bytes(), &known), name.eq_ignore_ascii_case(&known));
        }
        let at = known.len() / 2;
        let changed = format!("{}{}{}", &known[..at], &other[..1], &known[at + 1..]);
        prop_assert_eq!(is_name(changed.as_bytes(), &known), changed.eq_ignore_ascii_case(&known));
    }

    #[test]
    fn an_authority_is_a_host_and_an_optional_port(text in "[a%5:@.\\[\\]é]{0,12}|[a-c.]{1,3}:[0-9]{0,6}") {
        let (host, port) = split_port(&text);
        let port_is_valid = port.is_none_or(|port| port.is_empty() || host_and_port(&text).1.is_some());
        prop_assert_eq!(is_authority(text.as_bytes()), is_host(host) && port_is_valid);
    }

    #[test]
    fn skips_quoted_strings(text in r#"[ab,"\\]{0,12}"#) {
        let mut quoted = false;
        let mut escaped = false;
        let naive = text.bytes().position(|byte| {
            let found = byte == b',' && !quoted;
            (quoted, escaped) = match byte {
                _ if escaped => (quoted, false),
                b'"' => (!quoted, false),
                b'\\' => (quoted, quoted),
                _ => (quoted, false),
            };
            found
        });
        prop_assert_eq!(unquoted(text.as_bytes(), b','), naive);
    }

    #[test]
    fn splits_lists_without_quotes_at_commas(text in "[a-c, \t]{0,30}") {
        let trimmed = text.split(',').map(|member| member.trim_matches([' ', '\t']).as_bytes());
        let naive: Vec<_> = trimmed.filter(|member| !member.is_empty()).collect();
        prop_assert_eq!(list([text.as_bytes()]).collect::<Vec<_>>(), naive);
    }

    #[test]
    fn accepts_every_host_with_a_port(host in "[a-z0-9.-]{1,20}", port: u16) {
        let authority = format!("{host}:{port}");
        prop_assert!(is_authority(authority.as_bytes()));
        prop_assert_eq!(host_and_port(&authority), (&*host, Some(port)));
    }
}
