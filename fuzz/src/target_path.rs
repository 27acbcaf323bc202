//! Request targets and safe paths. The parts of a target together are the target. A safe path stays beneath its root,
//! is that of a naive parser, and is the same after it is encoded and parsed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use taipan_http::fields::{host_and_port, is_authority, is_host, target_len};
use taipan_http::head::Method;
use taipan_http::path_text;
use taipan_http::target::{
    PathError, SafePath, Target, encode_path, encode_segment, has_overlong_escapes, normalized,
};

/// The bytes are a target, a path and a name.
pub fn target_path(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for method in [Method::Get, Method::Options, Method::Connect] {
        if let Ok(target) = Target::parse(method, &text) {
            parsed(&target, method, &text);
        }
    }
    authority(&text);
    path(&text);
    path(&format!("/{text}"));
    encoded(&path_text::of_bytes(data));
}

fn parsed(target: &Target, method: Method, text: &str) {
    assert_eq!(target_len(text.as_bytes()), text.len());
    match *target {
        Target::Origin { path, query } => {
            assert!(path.starts_with('/') && !path.contains('?') && method != Method::Connect);
            assert_eq!([path, &mark(query)].concat(), text);
        }
        Target::Absolute { authority, path, query } => {
            assert!(path.starts_with('/') && is_authority(authority.as_bytes()) && method != Method::Connect);
            let (scheme, rest) = text.split_once("://").unwrap_or_default();
            assert!(["http", "https"].contains(&&*scheme.to_ascii_lowercase()));
            let whole = [authority, path, &mark(query)].concat();
            assert!(rest == whole || rest == [authority, &mark(query)].concat());
        }
        Target::Authority(authority) => {
            assert!(is_authority(authority.as_bytes()) && method == Method::Connect)
        }
        Target::Asterisk => assert!(text == "*" && method == Method::Options),
    }
    if let Some(raw) = target.path() {
        path(raw);
    }
}

/// A host and a port.
fn authority(text: &str) {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, ""),
    };
    let digits = port.len() <= 5 && port.bytes().all(|digit| digit.is_ascii_digit());
    let number = port.parse().ok();
    let valid = is_host(host) && digits && (port.is_empty() || number.is_some());
    assert_eq!(is_authority(text.as_bytes()), valid, "{text:?}");
    if valid {
        assert_eq!(host_and_port(text), (host, number));
    }
}

fn mark(query: Option<&str>) -> String {
    query.map_or(String::new(), |query| format!("?{query}"))
}

fn path(raw: &str) {
    let found = SafePath::parse(raw);
    assert_eq!(found.as_ref().ok().map(SafePath::as_str), naive(raw).as_deref(), "{raw:?}");
    let Ok(safe) = found else { return };
    is_safe(&safe);
    // An application that resolves no dot segments receives the same path.
    let sent = normalized(raw);
    let segments = sent[1..].split('/').map(|segment| decoded(segment).expect("SafePath has decoded it"));
    assert_eq!(segments.collect::<Vec<_>>().join("/"), safe.as_str(), "{raw:?}");
    // Nothing is decoded twice. An encoded character is equal to the character.
    let mut again = String::from("/");
    encode_path(safe.as_str(), &mut again);
    assert_eq!(SafePath::parse(&again), Ok(safe.clone()));
    assert_eq!(
        Target::parse(Method::Get, &again),
        Ok(Target::Origin { path: &again, query: None }),
        "{again:?}"
    );
    let escape = |byte: u8| if byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") };
    let bytes = path_text::bytes(safe.as_str());
    let all: String = [&b"/"[..], &bytes].concat().into_iter().map(escape).collect();
    assert_eq!(SafePath::parse(&all), Ok(safe.clone()));
    // The file on a disk is beneath the root, and its path is that of the request.
    let parts: Vec<_> = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let file = safe.beneath(Path::new("/srv"));
    let below = file.strip_prefix("/srv").expect("it is beneath the root");
    assert_eq!(below.iter().map(OsStr::as_bytes).collect::<Vec<_>>(), parts, "{raw:?}");
    assert_eq!(SafePath::from_path(below).map(|path| path.as_folder()), Ok(safe.as_folder()));
    assert!(!has_overlong_escapes(&all) || path_text::is_overlong(safe.as_str()));

    let name = safe.name().to_owned();
    assert!(safe.segments().last().unwrap_or_default() == name);
    assert!(safe.extension().is_none_or(|extension| name.ends_with(&format!(".{extension}"))));
    is_safe(&safe.as_folder());
    assert!(safe.as_folder().is_folder());
    let count = safe.segments().count();
    for depth in [0, 1, count] {
        let below = safe.skip_segments(depth);
        assert!(below.is_some() || depth > count);
        below.iter().for_each(is_safe);
    }
    for name in [&name, ".", "..", "", raw, "a b", "%2e%2e", "..."] {
        safe.join(name).iter().for_each(is_safe);
        safe.with_suffix(name).iter().for_each(is_safe);
    }
}

/// No segment leads out of the root.
fn is_safe(path: &SafePath) {
    let text = path.as_str();
    assert!(!text.starts_with('/') && !text.contains("//") && !text.contains('\\'), "{text:?}");
    assert!(!text.contains(char::is_control));
    let normal = |part: Component| matches!(part, Component::Normal(_));
    assert!(Path::new(text).components().all(normal), "{text:?}");
    assert!(path.segments().all(|segment| !matches!(segment, "." | "..")));
    assert_eq!(path.is_folder(), text.is_empty() || text.ends_with('/'));
    let hidden =
        |(at, segment): (usize, &str)| segment.starts_with('.') && !(at == 0 && segment == ".well-known");
    assert_eq!(path.is_hidden(), path.segments().enumerate().any(hidden));
}

/// The path, by a simple parser.
fn naive(raw: &str) -> Option<String> {
    let mut segments: Vec<String> = Vec::new();
    let parts: Vec<&str> = raw.strip_prefix('/')?.split('/').collect();
    let mut ends_as_folder = true;
    for part in parts {
        let name = decoded(part)?;
        ends_as_folder = matches!(&*name, "" | "." | "..");
        match &*name {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            _ => segments.push(name),
        }
    }
    let slash = if ends_as_folder && !segments.is_empty() { "/" } else { "" };
    Some(segments.join("/") + slash)
}

fn decoded(segment: &str) -> Option<String> {
    let mut pieces = segment.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    let name = path_text::of_vec(bytes);
    let allowed = segment.is_ascii() && !name.contains(['/', '\\']) && !name.contains(char::is_control);
    allowed.then_some(name)
}

/// A link leads to its name, for any name.
fn encoded(text: &str) {
    let visible = |text: &str| text.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
    let mut link = String::new();
    encode_path(text, &mut link);
    assert!(visible(&link) && !link.starts_with("//"), "{link:?}");
    assert_eq!(link.starts_with('/'), text.starts_with('/'));
    let mut segment = String::from("/");
    encode_segment(text, &mut segment);
    assert!(visible(&segment) && !segment[1..].contains('/'));
    match SafePath::parse(&segment) {
        Ok(path) => assert!(path.as_str() == text || matches!(text, "." | "..")),
        Err(PathError::EncodedSlash) => assert!(text.contains('/')),
        Err(PathError::Backslash | PathError::Control) => {
            assert!(text.contains('\\') || text.contains(char::is_control));
        }
        Err(PathError::AboveRoot) => assert_eq!(text, ".."),
        Err(error) => panic!("{error:?} for {segment:?}"),
    }
}
