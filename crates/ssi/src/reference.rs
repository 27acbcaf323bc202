//! What a page includes: a path relative to it, resolved to a path of its host.

use taipan_http::target::{encode_segment, percent_encode};

/// What an attribute names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The path of a file, decoded, in the folder of the page or below it.
    File(String),
    /// A path of the host, encoded, perhaps with a query.
    Virtual(String),
}

/// Why a reference leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// It is empty, has a control character, or a fragment.
    Malformed,
    /// It names another host.
    OtherHost,
    /// `file` leads out of the folder of the page.
    Outside,
}

impl Reference {
    pub fn text(&self) -> &str {
        match self {
            Reference::File(text) | Reference::Virtual(text) => text,
        }
    }

    /// The path with its query. `page` is the path of the page, encoded, without a query. Dot segments of `Virtual`
    /// stay: the server resolves them as those of any request.
    pub fn resolve(&self, page: &str) -> Result<String, Unresolved> {
        let folder = &page[..page.rfind('/').map_or(0, |slash| slash + 1)];
        match self {
            Reference::File(path) => resolve_file(path, folder),
            Reference::Virtual(target) => resolve_virtual(target, page, folder),
        }
    }
}

fn resolve_file(path: &str, folder: &str) -> Result<String, Unresolved> {
    if path.is_empty() || path.chars().any(char::is_control) {
        return Err(Unresolved::Malformed);
    }
    let is_outside = |segment: &str| segment == ".." || segment.contains('\\');
    if path.starts_with('/') || path.split('/').any(is_outside) {
        return Err(Unresolved::Outside);
    }
    let mut out = folder.to_owned();
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        encode_segment(segment, &mut out);
    }
    Ok(out)
}

fn resolve_virtual(target: &str, page: &str, folder: &str) -> Result<String, Unresolved> {
    if target.is_empty() || target.contains('#') || target.chars().any(char::is_control) {
        return Err(Unresolved::Malformed);
    }
    let first = target.split(['/', '?']).next().unwrap_or_default();
    if target.starts_with("//") || first.contains(':') {
        return Err(Unresolved::OtherHost);
    }
    let mut out = match target.as_bytes()[0] {
        b'/' => String::new(),
        b'?' => page.to_owned(),
        _ => folder.to_owned(),
    };
    // Escapes stay. What may not stand in a target is escaped.
    percent_encode(target, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte), &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_references() {
        let check = |reference: Reference, expected: Result<&str, Unresolved>| {
            assert_eq!(reference.resolve("/a%20b/page.shtml"), expected.map(str::to_owned), "{reference:?}");
        };
        let file = |path: &str| Reference::File(path.to_owned());
        let path = |path: &str| Reference::Virtual(path.to_owned());
        check(file("x.html"), Ok("/a%20b/x.html"));
        check(file("d/x y%20?#.html"), Ok("/a%20b/d/x%20y%2520%3F%23.html"));
        check(file("./x"), Ok("/a%20b/./x"));
        check(file("..x/x..y"), Ok("/a%20b/..x/x..y"));
        for outside in ["..", "../x", "d/../../x", "/etc/passwd", "d/..", "..\\x", "d\\x", "x/../y"] {
            check(file(outside), Err(Unresolved::Outside));
        }
        check(file(""), Err(Unresolved::Malformed));
        check(file("a\0"), Err(Unresolved::Malformed));
        check(path("/x.html"), Ok("/x.html"));
        check(path("x.html?a=b c&d=\"é"), Ok("/a%20b/x.html?a=b%20c&d=%22%C3%A9"));
        check(path("../x%20y"), Ok("/a%20b/../x%20y"));
        check(path("?q"), Ok("/a%20b/page.shtml?q"));
        check(path("/x?u=http://e"), Ok("/x?u=http://e"));
        check(path("x?u:v"), Ok("/a%20b/x?u:v"));
        for other in ["//example.org/x", "http://example.org/", "data:x", "c:x/y"] {
            check(path(other), Err(Unresolved::OtherHost));
        }
        for malformed in ["", "#a", "/a#b", "/a\r\nHost: b", "/a\tb"] {
            check(path(malformed), Err(Unresolved::Malformed));
        }
        assert_eq!(path("x").resolve("/"), Ok("/x".to_owned()));
        assert_eq!(path("x").resolve("/d/"), Ok("/d/x".to_owned()));
    }
}
