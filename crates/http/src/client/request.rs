//! Writes the head of a request that is passed on to another server: the request line, the client's fields, and `Via`.
//! Knows nothing of routes and connections.

use crate::fields::{is_name, trim_ows};
use crate::head::{Head, Names, Version};
use crate::known::NOT_PASSED_ON_IN_REQUESTS;
use crate::write::field_line;

/// Appends the request line (RFC 9112 §3), and `Host`.
pub fn write_line(method: &str, path: &str, query: Option<&str>, host: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
}

/// Appends the client's fields that `passes` selects by name, without those that are for this hop alone, or that the
/// next server gets from this one. The next server learns of an early request, whatever the client says (RFC 8470
/// §5.1).
pub fn write_fields(head: &Head<'_>, passes: &dyn Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let is_own = |name: &[u8]| NOT_PASSED_ON_IN_REQUESTS.has_name(name);
    // Empty for most clients, so that it needs no memory.
    let options: Vec<&[u8]> = match head.names.contains(Names::CONNECTION) {
        true => {
            let options = head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
            options.map(trim_ows).filter(|option| !is_own(option)).collect()
        }
        false => Vec::new(),
    };
    let is_option = |name: &[u8]| options.iter().any(|option| option.eq_ignore_ascii_case(name));
    let is_replaced = |name: &[u8]| head.is_early && is_name(name, "early-data");
    for field in head.fields {
        let name = field.name;
        if !is_own(name) && !is_option(name) && !is_replaced(name) && passes(name) {
            field_line(name, field.value, out);
        }
    }
    if head.is_early {
        out.extend_from_slice(b"Early-Data: 1\r\n");
    }
}

/// Appends `Via` (RFC 9110 §7.6.3), behind those of other proxies. `version`: by which the request has come.
pub fn write_via(version: Version, own: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Via: ");
    out.extend_from_slice(version.number().as_bytes());
    out.push(b' ');
    out.extend_from_slice(own.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// How often the proxy with the name `own` has passed a request on.
pub fn passes_of(head: &Head<'_>, own: &str) -> usize {
    let hops = head.values("via").flat_map(|value| value.split(|byte| *byte == b','));
    let names = hops.filter_map(|hop| {
        let words = trim_ows(hop).split(|byte| matches!(byte, b' ' | b'\t'));
        words.filter(|word| !word.is_empty()).nth(1)
    });
    names.filter(|name| *name == own.as_bytes()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{FieldStore, Limits, parse};

    #[test]
    fn passes_on_the_fields_that_are_not_for_this_hop() {
        let input = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Own\r\nX-Own: a\r\nTE: b\r\nproxy: c\r\n\
            Expect: 100-continue\r\nContent-Length: 1\r\nX-Left: d\r\nAccept:\r\naccept:  e \r\n\r\n";
        let mut store = FieldStore::new();
        let (head, _) = parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let mut out = Vec::new();
        write_fields(&head, &|name| name != b"X-Left", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "Accept: \r\naccept: e\r\n");
    }

    #[test]
    fn says_that_a_request_is_early_whatever_the_client_says() {
        for (sent, late, early) in [
            ("", "", "Early-Data: 1\r\n"),
            ("early-data: 1\r\n", "early-data: 1\r\n", "Early-Data: 1\r\n"),
            ("early-data: 0\r\n", "early-data: 0\r\n", "Early-Data: 1\r\n"),
            ("early-data: 1\r\nEarly-Data: a\r\n", "early-data: 1\r\nearly-data: a\r\n", "Early-Data: 1\r\n"),
            ("Connection: early-data\r\nearly-data: 0\r\n", "", "Early-Data: 1\r\n"),
        ] {
            let input = format!("GET / HTTP/1.1\r\nHost: h\r\n{sent}\r\n");
            let mut store = FieldStore::new();
            let (mut head, _) = parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
            for (is_early, expected) in [(false, late), (true, early)] {
                head.is_early = is_early;
                let mut out = Vec::new();
                write_fields(&head, &|_| true, &mut out);
                assert_eq!(
                    String::from_utf8(out).unwrap().to_lowercase(),
                    expected.to_lowercase(),
                    "{sent} {is_early}"
                );
            }
        }
    }

    #[test]
    fn writes_the_request_line_and_names_the_host_and_itself() {
        let mut out = Vec::new();
        write_line("PURGE", "/a%20b", Some(""), b"h:1", &mut out);
        write_line("GET", "*", None, b"", &mut out);
        write_via(Version::Http10, "taipan", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "PURGE /a%20b? HTTP/1.1\r\nHost: h:1\r\nGET * HTTP/1.1\r\nHost: \r\nVia: 1.0 taipan\r\n"
        );
    }

    #[test]
    fn counts_the_passes_of_a_proxy() {
        let input = "GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 own, 1.1 own-2 (own),2\town\r\nX-Via: 1.1 own\r\n\
            Via: own, , HTTP/1.1  own (a)\r\n\r\n";
        let mut store = FieldStore::new();
        let (head, _) = parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        assert_eq!(passes_of(&head, "own"), 3);
        assert_eq!(passes_of(&head, "other"), 0);
    }
}
