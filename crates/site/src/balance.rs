//! Which endpoint of an upstream a request goes to, as a configuration says it: the kind, and what of a request
//! decides. Knows neither the endpoints nor their states.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use taipan_http::fields::{is_name, is_token, trim_ows};
use taipan_http::head::Head;

/// The cookie of `sticky` without a name.
const COOKIE: &str = "endpoint";

/// Which endpoint of an upstream gets a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Balance {
    /// The fewest requests at the time.
    #[default]
    Least,
    /// One after the other.
    RoundRobin,
    /// The one with fewer requests of two that chance selects.
    Random,
    /// Always the same for the same part of the request.
    Hash(HashKey),
    /// The one that the cookie of this name says, which the server sets.
    Sticky(String),
}

/// When a request is sent to a second endpoint, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hedging {
    /// Without the head of a response, from the start of the request.
    pub after: Duration,
    /// The most such requests, per 100 requests at the same time.
    pub budget: u8,
}

impl Hedging {
    /// The budget where the configuration names none.
    pub const BUDGET: u8 = 10;
}

/// The part of a request that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    Client,
    Path,
    Field(String),
    Cookie(String),
}

impl Balance {
    /// Whether requests with the same part belong to the same endpoint.
    pub fn has_affinity(&self) -> bool {
        matches!(self, Balance::Hash(_) | Balance::Sticky(_))
    }

    /// Errors say what to write instead.
    pub fn parse(text: &str) -> Result<Balance, &'static str> {
        let words: Vec<&str> = text.split(' ').collect();
        let is_name = |name: &&str| is_token(name.as_bytes());
        Ok(match words[..] {
            ["least"] => Balance::Least,
            ["round_robin"] => Balance::RoundRobin,
            ["random"] => Balance::Random,
            ["sticky"] => Balance::Sticky(COOKIE.to_owned()),
            ["sticky", name] if is_name(&name) => Balance::Sticky(name.to_owned()),
            ["hash", "client"] => Balance::Hash(HashKey::Client),
            ["hash", "path"] => Balance::Hash(HashKey::Path),
            ["hash", "field", name] if is_name(&name) => Balance::Hash(HashKey::Field(name.to_owned())),
            ["hash", "cookie", name] if is_name(&name) => Balance::Hash(HashKey::Cookie(name.to_owned())),
            ["hash", ..] => {
                return Err("write what is hashed: \"hash client\", \"hash path\", \"hash field NAME\" or \
                            \"hash cookie NAME\"");
            }
            _ => {
                return Err("write \"least\", \"round_robin\", \"random\", \"hash client\", \"hash path\", \
                            \"hash field NAME\", \"hash cookie NAME\", \"sticky\" or \"sticky COOKIE\"");
            }
        })
    }
}

impl HashKey {
    /// The bytes of this part of a request. `path`: that for the upstream. Without a field or a cookie of the name, the
    /// client decides.
    pub fn bytes<'a>(
        &self,
        head: &Head<'a>,
        path: impl FnOnce() -> Option<String>,
        client: Option<IpAddr>,
    ) -> Cow<'a, [u8]> {
        let found = match self {
            HashKey::Client => None,
            HashKey::Path => path().map(|path| Cow::Owned(path.into_bytes())),
            HashKey::Field(name) => field(head, name).map(Cow::Borrowed),
            HashKey::Cookie(name) => cookie(head, name).map(Cow::Borrowed),
        };
        match (found, client) {
            (Some(found), _) => found,
            (None, Some(IpAddr::V4(ip))) => ip.octets().to_vec().into(),
            (None, Some(IpAddr::V6(ip))) => ip.octets().to_vec().into(),
            (None, None) => Vec::new().into(),
        }
    }
}

/// The value of the first cookie of this name (RFC 6265 §4.2.1).
pub fn cookie<'a>(head: &Head<'a>, name: &str) -> Option<&'a [u8]> {
    head.values("cookie").flat_map(|value| value.split(|byte| *byte == b';')).find_map(|pair| {
        let (own, value) = trim_ows(pair).split_at_checked(name.len())?;
        value.strip_prefix(b"=").filter(|_| own == name.as_bytes())
    })
}

fn field<'a>(head: &Head<'a>, name: &str) -> Option<&'a [u8]> {
    head.fields.iter().find(|field| is_name(field.name, name)).map(|field| field.value)
}

/// As the configuration writes it.
impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balance::Least => f.write_str("least"),
            Balance::RoundRobin => f.write_str("round_robin"),
            Balance::Random => f.write_str("random"),
            Balance::Hash(HashKey::Client) => f.write_str("hash client"),
            Balance::Hash(HashKey::Path) => f.write_str("hash path"),
            Balance::Hash(HashKey::Field(name)) => write!(f, "hash field {name}"),
            Balance::Hash(HashKey::Cookie(name)) => write!(f, "hash cookie {name}"),
            Balance::Sticky(name) => write!(f, "sticky {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    #[test]
    fn finds_the_part_of_a_request_that_decides() {
        let request =
            b"GET /a?b HTTP/1.1\r\nHost: a\r\nX-User: ann\r\nCookie: sid2=1; sid=2\r\nCookie: sid=3\r\n\r\n";
        let mut store = FieldStore::new();
        let (head, _) = parse(request, &mut store, &Limits::default()).unwrap().unwrap();
        let check = |text: &str, client: Option<&str>, expected: &[u8]| {
            let Ok(Balance::Hash(key)) = Balance::parse(text) else { panic!("{text}") };
            let client = client.map(|ip| ip.parse().unwrap());
            assert_eq!(&*key.bytes(&head, || Some("/p".to_owned()), client), expected, "{text}");
        };
        check("hash path", None, b"/p");
        check("hash field x-user", None, b"ann");
        check("hash cookie sid", None, b"2");
        check("hash cookie sid2", None, b"1");
        check("hash cookie si", Some("1.2.3.4"), &[1, 2, 3, 4]);
        check("hash field x-other", None, b"");
        check("hash client", Some("::1"), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn reads_what_it_writes_and_rejects_the_rest() {
        for text in [
            "least",
            "round_robin",
            "random",
            "hash client",
            "hash path",
            "hash field X-User",
            "hash cookie session",
            "sticky node",
        ] {
            assert_eq!(Balance::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Balance::parse("sticky"), Balance::parse("sticky endpoint"));
        for text in
            ["", "hash", "hash  client", "hash field", "hash field a:b", "sticky a b", "sticky ;", "ip_hash"]
        {
            assert!(Balance::parse(text).is_err(), "{text}");
        }
    }
}
