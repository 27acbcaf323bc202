//! How the requests of a route are sent to an upstream that speaks HTTP: the path, the host, further fields, and what its
//! redirects become. Knows nothing of connections.

use std::borrow::Cow;

use taipan_http::target::{SafePath, encode_path};

use crate::address::Address;
use crate::endpoint::EndpointAddress;
use crate::model::HeaderRule;
use crate::route::Pattern;
use crate::upstream::{Endpoints, Upstream};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Protocols that a client may ask for with `Upgrade`.
    pub upgrades: Vec<String>,
    /// `None`: the upstream gets the requested path.
    pub path: Option<Replacement>,
    /// `None`: the upstream gets the requested host.
    pub host: Option<String>,
    /// Fields of the request that are set or removed.
    pub fields: Vec<HeaderRule>,
}

/// The request stays as it came.
pub static UNCHANGED: Forwarding =
    Forwarding { upgrades: Vec::new(), path: None, host: None, fields: Vec::new() };

/// The path of the upstream that replaces the pattern of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// A prefix, or one path.
    pub pattern: Pattern,
    /// Percent-encoded. It ends with a slash where the pattern is a prefix.
    pub by: String,
}

/// The `http` or `https` URL of an upstream, as a configuration writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyUrl<'a> {
    pub scheme: Scheme,
    pub authority: Authority<'a>,
    /// Empty, or with a slash in front.
    pub path: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority<'a> {
    /// As for [`EndpointAddress::parse`].
    Address(&'a str),
    /// A host name, or the name of an application.
    Name(&'a str),
}

impl Scheme {
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl ProxyUrl<'_> {
    /// Reads `http://127.0.0.1:3000/path`, `http://unix:/run/app.sock:/path` or `http://name/path`. Errors say what to
    /// write instead.
    pub fn parse(text: &str) -> Result<ProxyUrl<'_>, &'static str> {
        let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https)];
        let known = schemes.iter().find_map(|(prefix, scheme)| Some((text.strip_prefix(prefix)?, *scheme)));
        let Some((rest, scheme)) = known else {
            return Err("begin it with http:// or https://, as in \"http://127.0.0.1:3000\"");
        };
        if rest.starts_with("unix:") {
            let (address, path) = match rest.find(":/").and_then(|_| rest[5..].find(':')) {
                Some(colon) => (&rest[..5 + colon], &rest[5 + colon + 1..]),
                None => (rest, ""),
            };
            check_path(path)?;
            return Ok(ProxyUrl { scheme, authority: Authority::Address(address), path });
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        check_path(path)?;
        let is_address = authority.starts_with('[')
            || authority.starts_with(|first: char| first.is_ascii_digit())
            || authority.starts_with('_')
            || authority.contains(':');
        match authority {
            "" => Err("name a host and a port: \"http://127.0.0.1:3000\""),
            _ if is_address => Ok(ProxyUrl { scheme, authority: Authority::Address(authority), path }),
            _ => Ok(ProxyUrl { scheme, authority: Authority::Name(authority), path }),
        }
    }
}

fn check_path(path: &str) -> Result<(), &'static str> {
    let is_plain = path.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'?' && byte != b'#');
    match path.is_empty() || is_plain && SafePath::parse(path).is_ok_and(|safe| encoded(&safe) == path) {
        true => Ok(()),
        false => Err("write its path percent-encoded, without a query, empty segments, \".\" and \"..\""),
    }
}

fn encoded(path: &SafePath<'_>) -> String {
    let mut encoded = String::from("/");
    encode_path(path.as_str(), &mut encoded);
    encoded
}

impl Forwarding {
    /// The path for the upstream. `normalized` is the requested path without empty and dot segments, as it was encoded.
    pub fn path<'a>(&self, normalized: &'a str) -> Cow<'a, str> {
        let Some(Replacement { pattern, by }) = &self.path else { return Cow::Borrowed(normalized) };
        let path = normalized.trim_start_matches('/');
        let requested = SafePath::parse(normalized).ok();
        let matches = requested.is_some_and(|requested| pattern.matches(&requested));
        let rest = match pattern {
            Pattern::Exact(_) if matches => "",
            // Of the same segments, so that escapes stay as they were sent.
            Pattern::Prefix(prefix) if matches => {
                let segments = prefix.matches('/').count();
                let behind = path.splitn(segments + 1, '/').nth(segments);
                behind.unwrap_or_default()
            }
            // A fallback or a rewrite leads here from another path.
            _ => path,
        };
        match (by.ends_with('/'), rest.is_empty()) {
            (_, true) => Cow::Owned(by.clone()),
            (true, false) => Cow::Owned([by, rest].concat()),
            (false, false) => Cow::Owned([by, "/", rest].concat()),
        }
    }

    /// What `Location` becomes where it leads to the upstream itself: the same place by this server. `None`: it stays.
    pub fn location(&self, value: &str, upstream: &Upstream, requested_host: &str) -> Option<String> {
        let (origin, path) = match value.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                if authority.eq_ignore_ascii_case(requested_host) {
                    (&value[..value.len() - path.len()], path)
                } else if scheme.eq_ignore_ascii_case(upstream.scheme()) && self.is_own(authority, upstream) {
                    ("", path)
                } else {
                    return None;
                }
            }
            None if value.starts_with('/') && !value.starts_with("//") => ("", value),
            None => return None,
        };
        let path = if path.starts_with('/') { Cow::Borrowed(path) } else { Cow::Owned(["/", path].concat()) };
        let mapped = [origin, &self.unreplaced(&path)].concat();
        (mapped != value && !mapped.starts_with("//")).then_some(mapped)
    }

    /// The path by which a client requests what is at `path` of the upstream.
    fn unreplaced<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match &self.path {
            Some(Replacement { pattern: Pattern::Prefix(prefix), by })
                if let Some(rest) = path.strip_prefix(by) =>
            {
                let mut own = String::from("/");
                encode_path(prefix, &mut own);
                own.push_str(rest);
                Cow::Owned(own)
            }
            _ => Cow::Borrowed(path),
        }
    }

    fn is_own(&self, authority: &str, upstream: &Upstream) -> bool {
        let is_host = self.host.as_ref().is_some_and(|host| host.eq_ignore_ascii_case(authority));
        let scheme = if upstream.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let is_address = |address: &EndpointAddress| match address {
            EndpointAddress::Socket(Address::Tcp(own)) => {
                let bare = authority.trim_matches(['[', ']']);
                own.to_string() == authority
                    || own.port() == scheme.default_port() && own.ip().to_string() == bare
            }
            EndpointAddress::Host { name, port } => {
                address.to_string().eq_ignore_ascii_case(authority)
                    || *port == scheme.default_port() && name.eq_ignore_ascii_case(authority)
            }
            EndpointAddress::Socket(Address::Unix(_)) | EndpointAddress::Service(_) => false,
        };
        is_host
            || match &upstream.endpoints {
                Endpoints::External(external) => external.addresses.iter().any(is_address),
                Endpoints::Managed(_) => false,
            }
    }

    /// Whether the client's own field of this name is left out.
    pub fn replaces(&self, name: &[u8]) -> bool {
        self.fields
            .iter()
            .any(|rule| rule.name().len() == name.len() && name.eq_ignore_ascii_case(rule.name().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{External, Protocol};

    fn replacing(pattern: &str, by: &str) -> Forwarding {
        let pattern = Pattern::parse(pattern).unwrap();
        Forwarding { path: Some(Replacement { pattern, by: by.to_owned() }), ..Forwarding::default() }
    }

    #[test]
    fn reads_urls_of_upstreams() {
        let check = |text: &str, authority, path| {
            let scheme = if text.starts_with("https") { Scheme::Https } else { Scheme::Http };
            assert_eq!(ProxyUrl::parse(text), Ok(ProxyUrl { scheme, authority, path }), "{text}");
        };
        check("http://127.0.0.1:3000", Authority::Address("127.0.0.1:3000"), "");
        check("http://[::1]:3000/", Authority::Address("[::1]:3000"), "/");
        check("http://unix:/run/app.sock", Authority::Address("unix:/run/app.sock"), "");
        check("http://unix:/run/app.sock:/api/", Authority::Address("unix:/run/app.sock"), "/api/");
        check("http://app/a%20b/", Authority::Name("app"), "/a%20b/");
        check("http://localhost:3000", Authority::Address("localhost:3000"), "");
        check("https://app.internal/a/", Authority::Name("app.internal"), "/a/");
        check("http://_http._tcp.app/", Authority::Address("_http._tcp.app"), "/");
        for bad in [
            "",
            "127.0.0.1:3000",
            "ftp://127.0.0.1",
            "http://",
            "http:///a",
            "http://a/?b",
            "http://a/../b",
            "http://a//b",
            "http://a/b c",
            "http://a/%2f",
        ] {
            assert!(ProxyUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn replaces_the_pattern_of_the_route() {
        let check = |pattern, by, requested, expected| {
            assert_eq!(replacing(pattern, by).path(requested), expected, "{pattern} {by} {requested}");
        };
        check("/app/", "/", "/app/x/y", "/x/y");
        check("/app/", "/", "/app/", "/");
        check("/app/", "/", "/app", "/");
        check("/app/", "/api/", "/app/x%20y;z", "/api/x%20y;z");
        check("/a b/", "/", "/a%20b/c", "/c");
        check("/a/b/", "/", "/%61/b/c/", "/c/");
        check("/", "/api/", "/x", "/api/x");
        check("/", "/api/", "/", "/api/");
        check("/login", "/sso/in", "/login", "/sso/in");
        // By a fallback.
        check("/app/", "/", "/other", "/other");
        check("/app/", "/api/", "/other", "/api/other");
        assert_eq!(Forwarding::default().path("/x"), "/x");
    }

    #[test]
    fn rewrites_redirects_to_the_upstream_itself() {
        let named = EndpointAddress::Host { name: "app.internal".to_owned(), port: 80 };
        let addresses = vec![Address::Tcp("127.0.0.1:3000".parse().unwrap()).into(), named];
        let endpoints = Endpoints::External(External { addresses, connections: 1 });
        let upstream = Upstream::new("app".to_owned(), Protocol::Http, endpoints);
        let check = |forwarding: &Forwarding, value, expected: Option<&str>| {
            let found = forwarding.location(value, &upstream, "www.example");
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        let plain = Forwarding { host: Some("inner.example".to_owned()), ..Forwarding::default() };
        check(&plain, "http://127.0.0.1:3000/x?y#z", Some("/x?y#z"));
        check(&plain, "http://127.0.0.1:3000", Some("/"));
        check(&plain, "http://inner.example/x", Some("/x"));
        check(&plain, "http://app.internal/x", Some("/x"));
        check(&plain, "http://App.Internal:80/x", Some("/x"));
        check(&plain, "http://app.internal:81/x", None);
        check(&plain, "http://127.0.0.1:3000//evil", None);
        check(&plain, "http://127.0.0.1:3001/x", None);
        check(&plain, "https://127.0.0.1:3000/x", None);
        check(&plain, "https://www.example/x", None);
        check(&plain, "//other.example/x", None);
        check(&plain, "/x", None);
        check(&plain, "x", None);
        let mapped = replacing("/app/", "/api/");
        check(&mapped, "/api/login", Some("/app/login"));
        check(&mapped, "/other", None);
        check(&mapped, "https://www.example/api/x", Some("https://www.example/app/x"));
        check(&mapped, "http://127.0.0.1:3000/api/x", Some("/app/x"));
        check(&replacing("/app/", "/"), "/login", Some("/app/login"));
    }
}
