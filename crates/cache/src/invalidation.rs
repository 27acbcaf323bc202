//! What a request changes beside the resource that it names (RFC 9111 §4.4).

use taipan_http::head::Head;
use taipan_http::status::Status;
use taipan_http::target::Scheme;

use crate::fields::{Field, values};

/// Whether the answer to a request says that a stored response may be wrong.
pub fn invalidates(request: &Head<'_>, status: Status) -> bool {
    !request.is_safe() && matches!(status.code(), 200..=399)
}

/// The paths, with their queries, that `Location` and `Content-Location` name at the same origin. `path` is that of the
/// request.
pub fn others(fields: &[Field], scheme: Scheme, authority: &str, path: &str) -> Vec<String> {
    let named = values(fields, "location").chain(values(fields, "content-location"));
    let target = |value| at_origin(std::str::from_utf8(value).ok()?, scheme, authority, path);
    named.filter_map(|value| Some(without_dots(target(value)?))).collect()
}

/// The path and query of a reference, if it leads to the same origin.
fn at_origin(reference: &str, scheme: Scheme, authority: &str, path: &str) -> Option<String> {
    let reference = reference.split('#').next()?;
    let after_scheme = match reference.split_once("://") {
        Some((other, rest)) if !other.contains(['/', '?']) => {
            (Scheme::from_bytes(other.as_bytes()) == Some(scheme)).then_some(())?;
            Some(rest)
        }
        _ => reference.strip_prefix("//"),
    };
    if let Some(rest) = after_scheme {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (other, target) = rest.split_at(end);
        let [other, own] = [other, authority].map(|one| scheme.without_default_port(one.as_bytes()));
        return other.eq_ignore_ascii_case(own).then(|| match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        });
    }
    if reference.starts_with('/') {
        return Some(reference.to_owned());
    }
    match reference.as_bytes().first()? {
        b'?' => Some(format!("{path}{reference}")),
        _ => {
            let folder = &path[..=path.rfind('/')?];
            Some(format!("{folder}{reference}"))
        }
    }
}

/// A path and query as clients request it: without dot segments in the path (RFC 3986 §5.2.4).
fn without_dots(target: String) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let (mut kept, mut names_folder) = (Vec::new(), false);
    for segment in path.split('/').skip(1) {
        names_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            segment => kept.push(segment),
        }
    }
    if names_folder {
        kept.push("");
    }
    ["/", &kept.join("/"), query].concat()
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    #[test]
    fn a_reference_counts_if_it_leads_to_the_same_origin() {
        let check = |reference: &str, expected: Option<&str>| {
            for authority in ["example.org", "example.org:443"] {
                let found = at_origin(reference, Scheme::Https, authority, "/a/b");
                assert_eq!(found.as_deref(), expected, "{reference} {authority}");
            }
        };
        check("/c?d=1#e", Some("/c?d=1"));
        check("c", Some("/a/c"));
        check("?x", Some("/a/b?x"));
        check("https://EXAMPLE.org/c", Some("/c"));
        check("https://example.org", Some("/"));
        check("https://example.org?x", Some("/?x"));
        check("https://example.org:443/c", Some("/c"));
        check("//example.org/c", Some("/c"));
        check("//example.org:80/c", None);
        check("//example.net/c", None);
        check("http://example.org/c", None);
        check("https://example.org:8443/c", None);
        check("/c?to=https://example.net/", Some("/c?to=https://example.net/"));
        check("", None);
    }

    #[test]
    fn a_path_is_the_one_that_a_client_requests() {
        let check =
            |target: &str, expected| assert_eq!(without_dots(target.to_owned()), expected, "{target}");
        check("/a/b", "/a/b");
        check("/a/../b?c=/../d", "/b?c=/../d");
        check("/a/./b/", "/a/b/");
        check("/a/b/..", "/a/");
        check("/a/.", "/a/");
        check("/../a", "/a");
        check("/..", "/");
        check("/a//..//.b/..c", "/a//.b/..c");
        check("/", "/");
    }

    #[test]
    fn only_a_method_that_changes_something_invalidates_and_only_if_it_succeeds() {
        let check = |method, status, expected| {
            let input = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut space = FieldStore::new();
            let (request, _) = parse(input.as_bytes(), &mut space, &Limits::default()).unwrap().unwrap();
            assert_eq!(invalidates(&request, Status::new(status).unwrap()), expected, "{method} {status}");
        };
        check("POST", 200, true);
        check("DELETE", 303, true);
        check("MKCOL", 201, true);
        check("PURGE", 200, true);
        check("PUT", 404, false);
        check("POST", 500, false);
        for method in ["GET", "OPTIONS", "PROPFIND", "QUERY", "REPORT", "SEARCH"] {
            check(method, 200, false);
        }
    }
}
