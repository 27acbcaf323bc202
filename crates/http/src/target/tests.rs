use proptest::prelude::*;

use super::*;

#[test]
fn accepts_the_forms_of_each_method() {
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
fn resolves_or_rejects_paths() {
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

    // Not decoded twice.
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
    check("/é", Err(NotAscii));

    // Bytes that are not UTF-8 stay bytes: none of them is a dot, a slash or a control character.
    check("/B%FCcher/%c3%a4", Ok("B\u{10FEFC}cher/ä"));
    check("/%c3", Ok("\u{10FEC3}"));
    check("/%c3/%a4", Ok("\u{10FEC3}/\u{10FEA4}"));
    check("/%80%9b", Ok("\u{10FE80}\u{10FE9B}"));
    check("/a/%c0%ae%c0%ae/b", Ok("a/\u{10FEC0}\u{10FEAE}\u{10FEC0}\u{10FEAE}/b"));
    check("/%c0%af", Ok("\u{10FEC0}\u{10FEAF}"));
    check("/%c0%80", Ok("\u{10FEC0}\u{10FE80}"));
    check("/%e0%80%af", Ok("\u{10FEE0}\u{10FE80}\u{10FEAF}"));
    check("/%ed%a0%80", Ok("\u{10FEED}\u{10FEA0}\u{10FE80}"));
    check("/%f5%80%80%80", Ok("\u{10FEF5}\u{10FE80}\u{10FE80}\u{10FE80}"));
    check("/%f4%8f%bb%a4", Ok("\u{10FEF4}\u{10FE8F}\u{10FEBB}\u{10FEA4}"));
    check("/a/%e4/..", Ok("a/"));
    check("/%e4%2f", Err(EncodedSlash));
    // In Shift-JIS, a backslash is the second byte of some letters.
    check("/%95%5c", Err(Backslash));
    check("/%e4%00", Err(Control));
    for raw in ["", "a", "../a", "*", "http://a/", "%2fa", "\\a"] {
        check(raw, Err(NotAbsolute));
    }
}

#[test]
fn borrows_a_path_that_needs_no_change() {
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
fn removes_empty_and_dot_segments_of_a_raw_path() {
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
fn finds_name_extension_and_dotfiles() {
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
fn a_path_of_parts_is_the_one_that_its_bytes_have() {
    let path = SafePath::from_decoded("/b\u{10FEC3}\u{10FEA4}/\u{10FEC3}").unwrap();
    assert_eq!(path.as_str(), "bä/\u{10FEC3}");
    assert_eq!(path.beneath(Path::new("/srv")).into_os_string().into_encoded_bytes(), b"/srv/b\xC3\xA4/\xC3");
    assert_eq!(path.to_string(), "/bä/\\xC3");
}

#[test]
fn joins_only_one_safe_segment() {
    let joined =
        |raw: &str, name: &str| SafePath::parse(raw).unwrap().join(name).map(|path| path.0.into_owned());
    assert_eq!(joined("/", "index.html").as_deref(), Some("index.html"));
    assert_eq!(joined("/a/", "index.html").as_deref(), Some("a/index.html"));
    assert_eq!(joined("/a", "b").as_deref(), Some("a/b"));
    assert_eq!(joined("/a", "...").as_deref(), Some("a/..."));
    assert_eq!(joined("/%E4", &path_text::of_bytes(b"\xFC")).as_deref(), Some("\u{10FEE4}/\u{10FEFC}"));
    for bad in ["", ".", "..", "a/b", "/", "a\\b", "a\0", "a\n", "\u{85}"] {
        assert_eq!(joined("/a/", bad), None, "{bad:?}");
    }
}

#[test]
fn appends_suffixes_and_takes_segments() {
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
fn encodes_links() {
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
    check("", "/B\u{10FEFC}cher", "/B%FCcher");
    let mut out = String::new();
    encode_segment("a/b c&d'e", &mut out);
    assert_eq!(out, "a%2Fb%20c%26d%27e");
}

/// A simple parser with a list of segments. `None`: rejected.
fn naive(raw: &str) -> Option<String> {
    let mut segments: Vec<String> = Vec::new();
    let mut folder = true;
    for raw in raw.strip_prefix('/')?.split('/') {
        let mut bytes = Vec::new();
        let mut rest = raw;
        while !rest.is_empty() {
            let len = if rest.starts_with('%') {
                let pair = rest.get(1..3).filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(pair, 16).ok()?);
                3
            } else {
                bytes.push(rest.bytes().next().filter(u8::is_ascii)?);
                1
            };
            rest = &rest[len..];
        }
        let segment = path_text::of_vec(bytes);
        if segment.chars().any(|character| character.is_control() || character == '/' || character == '\\') {
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
    fn agrees_with_a_simple_parser(raw in raw_path()) {
        let found = SafePath::parse(&raw).ok().map(|path| path.0.into_owned());
        prop_assert_eq!(found, naive(&raw));
    }

    #[test]
    fn no_safe_path_has_a_dot_segment_or_a_control_character(raw in raw_path()) {
        if let Ok(path) = SafePath::parse(&raw) {
            let text = path.as_str();
            prop_assert!(!text.starts_with('/') && !text.contains("//") && !text.contains('\\'));
            prop_assert!(text.split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(!text.chars().any(char::is_control));
        }
    }

    #[test]
    fn parses_the_path_of_its_link(raw in raw_path()) {
        if let Ok(path) = SafePath::parse(&raw) {
            let mut link = String::from("/");
            encode_path(path.as_str(), &mut link);
            prop_assert!(!link.starts_with("//"));
            prop_assert_eq!(target_len(link.as_bytes()), link.len());
            prop_assert_eq!(SafePath::parse(&link).unwrap(), path);
        }
    }

    #[test]
    fn a_normalized_path_needs_no_resolution(raw in raw_path()) {
        if let Ok(path) = SafePath::parse(&raw) {
            let normal = normalized(&raw);
            prop_assert_eq!(decode(&normal[1..]).unwrap(), path.as_str());
            prop_assert_eq!(&*normalized(&normal), &*normal);
        }
    }

    #[test]
    fn accepts_or_rejects_any_text(raw: String, connect: bool) {
        let method = if connect { Method::Connect } else { Method::Options };
        let _ = Target::parse(method, &raw);
        let _ = SafePath::parse(&raw);
    }
}

#[test]
fn reads_a_raw_path_in_both_ways() {
    let check = |sent, decoded: &str, segments: Option<&str>| {
        let path = RawPath::parse(sent).unwrap();
        assert_eq!((path.sent, path.decoded.as_str()), (sent, decoded), "{sent}");
        assert_eq!(path.segments.as_ref().map(SafePath::as_str), segments, "{sent}");
    };
    check("/", "", None);
    check("/a%20b/c", "a b/c", None);
    check("/v2/a%2Fb/tags", "v2/a/b/tags", Some("v2/a%2Fb/tags"));
    check("/v2/a%2fb", "v2/a/b", Some("v2/a%2Fb"));
    check("/a%2F", "a/", Some("a%2F"));
    check("/a//b", "a/b", Some("a/%2Fb"));
    check("/a///b/", "a/b/", Some("a/%2F%2Fb/"));
    check("/a%252Fb", "a%2Fb", None);
    check("/a/...", "a/...", None);
    check("/a/.b;c", "a/.b;c", None);
    check("/B%FCcher", "B\u{10FEFC}cher", None);
    check("/%FC%2F%E4", "\u{10FEFC}/\u{10FEE4}", Some("\u{10FEFC}%2F\u{10FEE4}"));
}

#[test]
fn refuses_raw_paths_that_programs_read_differently() {
    let check = |sent: &str, error| assert_eq!(RawPath::parse(sent), Err(error), "{sent}");
    for dots in [".", "..", "%2e", "%2E", ".%2e", "%2E.", "%2e%2E", "..;x", ".;", "%2e.%3bx", "..%3Bx"] {
        for (before, behind) in [
            ("/", ""),
            ("/", "/"),
            ("/a/", "/b"),
            ("/a%2F", "%2Fb"),
            ("/a%2f", "/b"),
            ("/a/", "%2F"),
            ("/a//", "//b"),
        ] {
            check(&format!("{before}{dots}{behind}"), PathError::DotSegment);
        }
    }
    for (sent, error) in [
        ("a", PathError::NotAbsolute),
        ("//a", PathError::LeadingSlashes),
        ("/%2Fa", PathError::LeadingSlashes),
        ("//", PathError::LeadingSlashes),
        ("/a\\..", PathError::Backslash),
        ("/a%5C..", PathError::Backslash),
        ("/a%5c%2e%2e%2fb", PathError::Backslash),
        ("/a%2F%00", PathError::Control),
        ("/a%0d%0a", PathError::Control),
        ("/a%7F", PathError::Control),
        ("/a%C2%85", PathError::Control),
        ("/a%2", PathError::Escape),
        ("/a%C0%AF", PathError::Overlong),
        ("/a%2F%C0%AE/b", PathError::Overlong),
        ("/a//%c1%b0rivate", PathError::Overlong),
    ] {
        check(sent, error);
    }
}

#[test]
fn finds_dot_segments_with_parameters() {
    for (path, expected) in [
        ("/a/..;x/b", true),
        ("/.;", true),
        ("/%2E%2e%3Bx", true),
        ("/a;..", false),
        ("/..", false),
        ("/...;", false),
    ] {
        assert_eq!(has_dots_with_parameters(path), expected, "{path}");
    }
}

proptest! {
    /// What a program makes of a raw path is one of the two readings, whether it resolves dot segments or not.
    #[test]
    fn no_raw_path_leads_elsewhere(parts in proptest::collection::vec(proptest::sample::select(vec![
        "/", "%2F", "%2f", ".", "..", "%2e", "%2E", "a", "b", ";", "%3b", "//", "%5C", "%00", "%20",
    ]), 0..12)) {
        let sent = format!("/{}", parts.concat());
        let Ok(path) = RawPath::parse(&sent) else { return Ok(()) };
        let decode = |text: &str| text.replace("%2e", ".").replace("%2E", ".").replace("%20", " ").replace("%3b", ";");
        // A program that decodes all and then resolves dot segments and parameters.
        let all = decode(&sent.replace("%2F", "/").replace("%2f", "/"));
        let mut resolved: Vec<&str> = Vec::new();
        for segment in all.split('/') {
            match segment.split(';').next().unwrap_or_default() {
                "." => {}
                ".." => _ = resolved.pop(),
                _ if segment.is_empty() => {}
                _ => resolved.push(segment),
            }
        }
        let read: Vec<&str> = path.decoded.segments().collect();
        prop_assert_eq!(read, resolved, "{}", sent);
        // One that splits first.
        let split: Vec<String> =
            sent[1..].split('/').map(|segment| decode(&segment.replace("%2f", "%2F"))).collect();
        let segments = path.segments.unwrap_or(path.decoded);
        let kept: Vec<String> = segments.segments().map(str::to_owned).collect();
        if !sent.contains("//") {
            let split: Vec<String> = split.into_iter().filter(|segment| !segment.is_empty()).collect();
            prop_assert_eq!(kept, split, "{}", sent);
        }
    }
}

#[test]
fn finds_overlong_escapes() {
    for (path, expected) in [
        ("/a/%C0%AE%c0%ae/b", true),
        ("/%c1%B0rivate/", true),
        ("/%E0%80%AF", true),
        ("/%25%C0%AF", true),
        ("/%C0/%AF", false),
        ("/%C0a%AF", false),
        ("/%C3%A4/%FC", false),
        ("/%25C0%AF", false),
        ("/C0AF%C0", false),
    ] {
        assert_eq!(has_overlong_escapes(path), expected, "{path}");
    }
}
