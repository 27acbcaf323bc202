//! Authorizers: applications that allow or deny a request. What an authorizer that speaks HTTP is asked, what its
//! status means, and which answers may count again. Knows nothing of connections and of time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use taipan_http::fields::list;
use taipan_http::head::{Field, Head, Method};
use taipan_http::status::Status;

use crate::template::Template;
use crate::upstream::UpstreamId;

/// The field that names the user, by default.
pub const USER: &str = "Remote-User";
/// Fields that an authorizer may set.
pub const MAX_FIELDS: usize = 32;
/// Bytes of the key by which an answer is found again. A request with a longer one is asked anew.
pub const MAX_KEY: usize = 16 * 1024;
/// Answers that one worker remembers.
pub const MAX_ANSWERS: usize = 1024;
/// Bytes of the fields of an answer that is remembered.
pub const MAX_ANSWER: usize = 4 * 1024;

/// An application that is asked whether a request may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorizer {
    pub upstream: UpstreamId,
    /// `None`: it speaks FastCGI, where the role says what is asked.
    pub subrequest: Option<Arc<Subrequest>>,
}

/// The request that asks an authorizer that speaks HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subrequest {
    /// A path, perhaps with a query. `None`: those of the request.
    pub target: Option<String>,
    pub method: SubrequestMethod,
    /// The fields of its answer that scripts and applications receive.
    pub fields: Vec<String>,
    /// The one of them that names the user.
    pub user: String,
    /// The fields of its answer that are added to the response to the client.
    pub response_fields: Vec<String>,
    /// Where clients are redirected in place of a 401.
    pub login: Option<Template>,
    /// How long an answer that lets a request pass counts for requests with the same key. Zero: once.
    pub cache: Duration,
    pub cache_key: Vec<KeyPart>,
}

/// The method of a subrequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubrequestMethod {
    Get,
    /// That of the request.
    Original,
}

/// A part of a request by which answers are remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    Method,
    Scheme,
    Host,
    Path,
    Query,
    /// The address of the client.
    Client,
    /// All values of a field.
    Field(String),
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// The client gets the answer.
    Deny,
    /// The answer is neither: an error of the authorizer.
    Invalid,
}

impl Default for Subrequest {
    fn default() -> Subrequest {
        Subrequest {
            target: None,
            method: SubrequestMethod::Get,
            fields: Vec::new(),
            user: USER.to_owned(),
            response_fields: Vec::new(),
            login: None,
            cache: Duration::ZERO,
            cache_key: KeyPart::defaults(),
        }
    }
}

impl Subrequest {
    /// The method of the subrequest. Programs answer OPTIONS and TRACE by themselves, so that every request would pass.
    pub fn token<'a>(&self, head: &Head<'a>) -> &'a str {
        match (self.method, head.method) {
            (SubrequestMethod::Get, _) | (_, Method::Options | Method::Trace | Method::Connect) => "GET",
            (SubrequestMethod::Original, _) => head.token,
        }
    }

    /// The lines of an answer that are added to the response to the client.
    pub fn response_lines<'a>(&self, fields: impl Iterator<Item = Field<'a>>) -> Vec<(String, String)> {
        let line = |Field { name, value }: Field<'_>| {
            let own = self.response_fields.iter().find(|own| own.as_bytes().eq_ignore_ascii_case(name))?;
            Some((own.clone(), std::str::from_utf8(value).ok()?.to_owned()))
        };
        fields.filter_map(line).collect()
    }

    /// The variables of scripts and applications that an answer sets. Several lines of a field become one.
    pub fn variables<'a>(&self, fields: impl Iterator<Item = Field<'a>> + Clone) -> Vec<(String, Vec<u8>)> {
        let mut variables = Vec::new();
        for name in &self.fields {
            let values = fields.clone().filter(|field| is_same_name(field.name, name));
            let values: Vec<&[u8]> =
                values.map(|field| field.value).filter(|value| !value.is_empty()).collect();
            if values.is_empty() {
                continue;
            }
            let value = values.join(&b", "[..]);
            if is_same_name(name.as_bytes(), &self.user) {
                variables.push(("REMOTE_USER".to_owned(), value.clone()));
            }
            variables.push((variable(name), value));
        }
        variables
    }
}

impl KeyPart {
    /// A part of the request, or the name of a field.
    pub fn parse(text: &str) -> KeyPart {
        match text {
            "method" => KeyPart::Method,
            "scheme" => KeyPart::Scheme,
            "host" => KeyPart::Host,
            "path" => KeyPart::Path,
            "query" => KeyPart::Query,
            "client" => KeyPart::Client,
            name => KeyPart::Field(name.to_owned()),
        }
    }

    /// Everything that usual authorizers decide by.
    pub fn defaults() -> Vec<KeyPart> {
        let names = ["Cookie", "Authorization", "method", "scheme", "host", "path", "query", "client"];
        names.into_iter().map(KeyPart::parse).collect()
    }

    /// Whether it differs between clients.
    pub fn identifies_client(&self) -> bool {
        matches!(self, KeyPart::Client | KeyPart::Field(_))
    }
}

/// A redirect leads to a page where the client can log in.
pub fn verdict(status: Status) -> Verdict {
    match status.code() {
        200..=299 => Verdict::Pass,
        401 | 403 | 301 | 302 | 303 | 307 | 308 => Verdict::Deny,
        _ => Verdict::Invalid,
    }
}

/// What tells requests with different answers apart: each part with its length in front, so that no two requests with
/// different parts have the same key. `None`: it is too large.
pub fn key(authorizer: &Authorizer, head: &Head<'_>, client: Option<IpAddr>) -> Option<Vec<u8>> {
    let subrequest = authorizer.subrequest.as_ref()?;
    let mut key = authorizer.upstream.to_le_bytes().to_vec();
    let mut add = |bytes: &[u8]| {
        key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        key.extend_from_slice(bytes);
    };
    add(subrequest.target.as_deref().unwrap_or_default().as_bytes());
    add(&[subrequest.method as u8, subrequest.fields.len() as u8]);
    subrequest.fields.iter().for_each(|name| add(name.as_bytes()));
    for part in &subrequest.cache_key {
        match part {
            KeyPart::Method => add(head.token.as_bytes()),
            KeyPart::Scheme => add(head.scheme.as_str().as_bytes()),
            KeyPart::Host => add(&head.authority.to_ascii_lowercase()),
            KeyPart::Path => add(head.target.path().unwrap_or_default().as_bytes()),
            // An empty query is not the same as none.
            KeyPart::Query => match head.target.query() {
                Some(query) => add(&[b"?", query.as_bytes()].concat()),
                None => add(b""),
            },
            KeyPart::Client => add(client.map(|client| client.to_string()).unwrap_or_default().as_bytes()),
            KeyPart::Field(name) => {
                let own = head.fields.iter().filter(|field| is_same_name(field.name, name));
                let values: Vec<&[u8]> = own.map(|field| field.value).collect();
                add(&(values.len() as u64).to_le_bytes());
                values.into_iter().for_each(&mut add);
            }
        }
    }
    (key.len() <= MAX_KEY).then_some(key)
}

/// Whether the answer itself allows that it counts again (RFC 9111 §5.2.2).
pub fn may_be_remembered<'a>(cache_control: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let forbids = |directive: &[u8]| {
        ["no-store", "no-cache"].iter().any(|word| {
            let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
            name.eq_ignore_ascii_case(word.as_bytes())
        })
    };
    !list(cache_control).any(forbids)
}

/// Whether programs may take one name of a field for the other: they ignore case, and many take `_` for `-`.
pub fn is_same_name(one: &[u8], other: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().zip(other.bytes()).all(|(one, other)| fold(*one) == fold(other))
}

/// The variable of a field: `HTTP_REMOTE_USER` of `Remote-User`.
pub fn variable(name: &str) -> String {
    let letter = |byte: u8| if byte == b'-' { '_' } else { char::from(byte.to_ascii_uppercase()) };
    ["HTTP_", &name.bytes().map(letter).collect::<String>()].concat()
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    fn key_of(request: &str, client: &str, parts: &[&str]) -> Vec<u8> {
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let cache_key = parts.iter().map(|part| KeyPart::parse(part)).collect();
        let subrequest = Some(Arc::new(Subrequest { cache_key, ..Subrequest::default() }));
        key(&Authorizer { upstream: 0, subrequest }, &head, client.parse().ok()).unwrap()
    }

    #[test]
    fn tells_requests_apart_by_the_parts_of_the_key() {
        let base = "GET /a?q HTTP/1.1\r\nHost: h\r\nCookie: s=1\r\n\r\n";
        let check = |other: &str, client: &str, parts: &[&str], is_same: bool| {
            let found = key_of(base, "::1", parts) == key_of(other, client, parts);
            assert_eq!(found, is_same, "{other} {client} {parts:?}");
        };
        let defaults = ["Cookie", "Authorization", "method", "scheme", "host", "path", "query", "client"];
        assert_eq!(KeyPart::defaults().len(), defaults.len());
        check(base, "::1", &defaults, true);
        check(&base.replace("GET", "PUT"), "::1", &defaults, false);
        check(&base.replace("/a", "/b"), "::1", &defaults, false);
        check(&base.replace("?q", ""), "::1", &defaults, false);
        check(&base.replace("?q", "?"), "::1", &defaults, false);
        check(&base.replace("t: h", "t: i"), "::1", &defaults, false);
        check(&base.replace("t: h", "t: H"), "::1", &defaults, true);
        check(&base.replace("s=1", "s=2"), "::1", &defaults, false);
        check(&base.replace("Cookie: s=1", "Authorization: s=1"), "::1", &defaults, false);
        check(&base.replace("Cookie", "X-Other"), "::1", &defaults, false);
        check(base, "::2", &defaults, false);
        check(&base.replace("/a", "/b"), "::2", &["Cookie"], true);
        check(&base.replace("s=1", "s=1\r\nCookie: s=2"), "::1", &["Cookie"], false);
        check(&base.replace("Cookie: s=1", "A: b"), "::1", &["A", "B"], false);
    }

    #[test]
    fn a_value_of_one_field_is_never_that_of_another() {
        let one = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
        let other = "GET / HTTP/1.1\r\nHost: h\r\nC: b\r\n\r\n";
        assert_ne!(key_of(one, "", &["A", "C"]), key_of(other, "", &["A", "C"]));
    }

    #[test]
    fn only_statuses_with_a_meaning_let_pass_or_deny() {
        for (code, expected) in [
            (200, Verdict::Pass),
            (202, Verdict::Pass),
            (204, Verdict::Pass),
            (401, Verdict::Deny),
            (403, Verdict::Deny),
            (302, Verdict::Deny),
            (307, Verdict::Deny),
            (304, Verdict::Invalid),
            (300, Verdict::Invalid),
            (404, Verdict::Invalid),
            (429, Verdict::Invalid),
            (500, Verdict::Invalid),
        ] {
            assert_eq!(Status::new(code).map(verdict), Some(expected), "{code}");
        }
    }

    #[test]
    fn names_are_the_same_in_every_spelling() {
        for other in ["Remote-User", "REMOTE_USER", "remote_user", "remote-User"] {
            assert!(is_same_name(other.as_bytes(), "Remote-User"), "{other}");
            assert_eq!(variable(other), "HTTP_REMOTE_USER");
        }
        for other in ["Remote-Users", "Remote.User", "RemoteUser", ""] {
            assert!(!is_same_name(other.as_bytes(), "Remote-User"), "{other}");
        }
    }

    #[test]
    fn an_answer_can_forbid_that_it_is_remembered() {
        for (value, expected) in [
            ("", true),
            ("max-age=60, public", true),
            ("private", true),
            ("No-Store", false),
            ("max-age=1, no-cache=\"x\"", false),
        ] {
            assert_eq!(may_be_remembered([value.as_bytes()]), expected, "{value}");
        }
    }
}
