//! A request head that outlives the input it was parsed from.

use super::{Field, Framing, Head, Method, Names, Persistence, Scheme, Version};
use crate::target::Target;

/// A head with bytes of its own. Its memory can be used again.
#[derive(Debug, Clone)]
pub struct OwnedHead {
    /// The method as sent, and the request target.
    line: String,
    /// The authority, and the name and the value of each field.
    bytes: Vec<u8>,
    /// The lengths of the names and values.
    fields: Vec<(usize, usize)>,
    /// Bytes of the method.
    token: usize,
    /// Bytes of the authority.
    authority: usize,
    /// What else is known, without what is in this.
    facts: Head<'static>,
}

/// The facts of no head.
const NONE: Head<'static> = Head {
    method: Method::Unknown,
    token: "",
    raw_target: "",
    target: Target::Asterisk,
    scheme: Scheme::Http,
    is_early: false,
    version: Version::Http11,
    fields: &[],
    names: Names::NONE,
    authority: b"",
    persistence: Persistence::Close,
    framing: Framing::None,
    expects_continue: false,
};

impl Default for OwnedHead {
    /// Empty.
    fn default() -> OwnedHead {
        OwnedHead {
            line: String::new(),
            bytes: Vec::new(),
            fields: Vec::new(),
            token: 0,
            authority: 0,
            facts: NONE,
        }
    }
}

impl From<&Head<'_>> for OwnedHead {
    fn from(head: &Head<'_>) -> OwnedHead {
        let mut owned = OwnedHead::default();
        owned.set(head);
        owned
    }
}

impl OwnedHead {
    /// Takes the place of the head that this has been.
    pub fn set(&mut self, head: &Head<'_>) {
        self.clear();
        let &Head { token, raw_target, authority, method, version, .. } = head;
        self.line.reserve(token.len() + raw_target.len());
        self.line.push_str(token);
        self.line.push_str(raw_target);
        let fields = head.fields.iter().map(|field| field.name.len() + field.value.len());
        self.bytes.reserve(authority.len() + fields.sum::<usize>());
        self.bytes.extend_from_slice(authority);
        self.fields.reserve(head.fields.len());
        for Field { name, value } in head.fields {
            self.bytes.extend_from_slice(name);
            self.bytes.extend_from_slice(value);
            self.fields.push((name.len(), value.len()));
        }
        (self.token, self.authority) = (token.len(), authority.len());
        let &Head { scheme, is_early, names, persistence, framing, expects_continue, .. } = head;
        self.facts =
            Head { method, scheme, is_early, version, names, persistence, framing, expects_continue, ..NONE };
    }

    pub fn clear(&mut self) {
        self.line.clear();
        self.bytes.clear();
        self.fields.clear();
        (self.token, self.authority) = (0, 0);
    }

    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub fn authority(&self) -> &[u8] {
        &self.bytes[..self.authority]
    }

    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let mut rest = &self.bytes[self.authority..];
        self.fields.iter().map(move |&(name, value)| {
            let (name, behind) = rest.split_at(name);
            let (value, behind) = behind.split_at(value);
            rest = behind;
            Field { name, value }
        })
    }

    /// The head with these `fields`, which are those of `fields()`. `None`: it is empty.
    pub fn head<'h>(&'h self, fields: &'h [Field<'h>]) -> Option<Head<'h>> {
        let (token, raw_target) = self.line.split_at(self.token);
        let mark = raw_target.bytes().position(|byte| byte == b'?').unwrap_or(raw_target.len());
        let target = Target::of_valid_bytes(self.facts.method, raw_target, mark).ok()?;
        Some(Head { token, raw_target, target, authority: self.authority(), fields, ..self.facts })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FieldStore, Limits, parse};
    use super::*;

    fn parsed(input: &str, check: impl FnOnce(Head<'_>)) {
        let mut store = FieldStore::new();
        check(parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap().0);
    }

    #[test]
    fn is_the_head_that_was_parsed() {
        let mut owned = OwnedHead::default();
        for input in [
            "GET /a%20b?c=d?e HTTP/1.1\r\nHost: example.org:80\r\nAccept:\r\nIf-None-Match: \"x\"\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n",
            "PURGE /? HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\n",
            "GET http://example.org?q HTTP/1.1\r\nHost: other\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
            "OPTIONS * HTTP/1.0\r\n\r\n",
        ] {
            parsed(input, |head| {
                let head = Head { scheme: Scheme::Https, is_early: true, ..head };
                owned.set(&head);
                let fields: Vec<_> = owned.fields().collect();
                assert_eq!(format!("{:?}", owned.head(&fields).unwrap()), format!("{head:?}"), "{input}");
                assert_eq!(owned.authority(), head.authority);
            });
        }
    }

    #[test]
    fn has_the_authority_that_a_proxy_has_named() {
        parsed("GET / HTTP/1.1\r\nHost: inner\r\n\r\n", |head| {
            let owned = OwnedHead::from(&Head { authority: b"example.org", ..head });
            let fields: Vec<_> = owned.fields().collect();
            assert_eq!(owned.head(&fields).unwrap().authority, b"example.org");
            assert_eq!(fields[0].value, b"inner");
        });
    }

    #[test]
    fn nothing_is_left_of_a_head_that_was_cleared() {
        parsed("GET / HTTP/1.1\r\nHost: h\r\n\r\n", |head| {
            let mut owned = OwnedHead::from(&head);
            assert!(!owned.is_empty());
            owned.clear();
            assert!(owned.is_empty() && owned.fields().next().is_none() && owned.head(&[]).is_none());
        });
        assert!(OwnedHead::default().head(&[]).is_none());
    }
}
