//! The bodies of responses (RFC 4918 §14), written part by part.

use std::fmt::Write;

use taipan_http::status::Status;

use crate::locks::{Extent, Lock, Scope};
use crate::xml::{Name, escape};

/// The media type of these bodies.
pub const CONTENT_TYPE: &str = "application/xml; charset=\"utf-8\"";
pub const BEGIN: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
pub const END: &str = "</D:multistatus>\n";
/// The element `supportedlock` with its content.
pub const SUPPORTED_LOCKS: &str = "<D:supportedlock>\
    <D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
    <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
    </D:supportedlock>";

/// Properties of one resource with one status.
pub struct PropStat {
    pub status: Status,
    /// Elements, one after the other.
    pub elements: String,
    /// The precondition that the change of these properties has broken.
    pub error: Option<&'static str>,
}

/// The properties of a resource. `href` is an encoded path.
pub fn properties(href: &str, stats: &[PropStat], out: &mut String) {
    out.push_str("<D:response>");
    write_href(href, out);
    for PropStat { status, elements, error } in stats.iter().filter(|stat| !stat.elements.is_empty()) {
        let _ = write!(out, "<D:propstat><D:prop>{elements}</D:prop><D:status>HTTP/1.1 {status}</D:status>");
        if let Some(error) = error {
            let _ = write!(out, "<D:error><D:{error}/></D:error>");
        }
        out.push_str("</D:propstat>");
    }
    out.push_str("</D:response>\n");
}

/// The status of a whole resource.
pub fn status(href: &str, status: Status, out: &mut String) {
    out.push_str("<D:response>");
    write_href(href, out);
    let _ = writeln!(out, "<D:status>HTTP/1.1 {status}</D:status></D:response>");
}

/// The body of an error with the precondition that the request has broken, such as `propfind-finite-depth`. `href`: the
/// resource that it is about.
pub fn error(precondition: &str, href: Option<&str>) -> String {
    let mut out =
        format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:{precondition}>");
    href.into_iter().for_each(|href| write_href(href, &mut out));
    let _ = writeln!(out, "</D:{precondition}></D:error>");
    out
}

/// The body of a response to `LOCK`.
pub fn lock_response(lock: &Lock, href: &str, now: i64) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\">".to_owned();
    lock_discovery([(lock, href)].into_iter(), now, &mut out);
    out.push_str("</D:prop>\n");
    out
}

/// The locks on a resource, each with the encoded path of what it was made for.
pub fn lock_discovery<'l>(locks: impl Iterator<Item = (&'l Lock, &'l str)>, now: i64, out: &mut String) {
    out.push_str("<D:lockdiscovery>");
    for (lock, href) in locks {
        let scope = match lock.scope {
            Scope::Exclusive => "exclusive",
            Scope::Shared => "shared",
        };
        let depth = match lock.extent {
            Extent::Resource => "0",
            Extent::Tree => "infinity",
        };
        let _ = write!(
            out,
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>{}\
             <D:timeout>Second-{}</D:timeout><D:locktoken><D:href>",
            lock.owner,
            (lock.expires - now).max(0)
        );
        escape(&lock.token, out);
        out.push_str("</D:href></D:locktoken><D:lockroot>");
        write_href(href, out);
        out.push_str("</D:lockroot></D:activelock>");
    }
    out.push_str("</D:lockdiscovery>");
}

/// An empty element of any name.
pub fn empty(name: &Name, out: &mut String) {
    match name.namespace.as_str() {
        crate::request::DAV => _ = write!(out, "<D:{}/>", name.local),
        namespace => {
            let _ = write!(out, "<{} xmlns=\"", name.local);
            escape(namespace, out);
            out.push_str("\"/>");
        }
    }
}

/// An element of RFC 4918 with a text.
pub fn text(local: &str, value: &str, out: &mut String) {
    let _ = write!(out, "<D:{local}>");
    escape(value, out);
    let _ = write!(out, "</D:{local}>");
}

fn write_href(href: &str, out: &mut String) {
    out.push_str("<D:href>");
    escape(href, out);
    out.push_str("</D:href>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::DAV;
    use crate::xml;

    #[test]
    fn all_bodies_are_well_formed() {
        let lock = Lock {
            token: "urn:uuid:<&>".into(),
            path: String::new(),
            extent: Extent::Tree,
            scope: Scope::Shared,
            owner: "<owner xmlns=\"DAV:\">ann</owner>".into(),
            user: String::new(),
            expires: 110,
        };
        let mut elements = String::new();
        empty(&Name::new("u&v", "a"), &mut elements);
        empty(&Name::new("", "b"), &mut elements);
        text("getetag", "\"<1>\"", &mut elements);
        elements.push_str(SUPPORTED_LOCKS);
        lock_discovery([(&lock, "/a/")].into_iter(), 100, &mut elements);
        let mut out = BEGIN.to_owned();
        status("/a/<b>", Status::LOCKED, &mut out);
        let ok = PropStat { status: Status::OK, elements, error: None };
        let none = PropStat { status: Status::NOT_FOUND, elements: String::new(), error: None };
        properties("/a/&", &[ok, none], &mut out);
        out.push_str(END);
        let root = xml::parse(out.as_bytes()).unwrap();
        let responses: Vec<_> = root.elements().filter(|own| own.name.is(DAV, "response")).collect();
        let [locked, response] = responses[..] else { panic!("{out}") };
        assert!(locked.first(DAV, "status").is_some(), "{out}");
        assert_eq!(response.elements().filter(|own| own.name.is(DAV, "propstat")).count(), 1);
        let texts = [error("lock-token-submitted", Some("/a")), lock_response(&lock, "/", 100)];
        for text in texts {
            assert!(xml::parse(text.as_bytes()).is_ok(), "{text}");
        }
        assert!(lock_response(&lock, "/", 100).contains("<D:timeout>Second-10</D:timeout>"));
    }
}
