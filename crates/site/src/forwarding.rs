//! How the requests of a route are sent to an upstream that speaks HTTP: the path, the host, further fields, and what
//! its redirects become. Knows nothing of connections.

use std::borrow::Cow;
use std::ops::Range;

use taipan_http::digits::write_number;
use taipan_http::fields::{digits, host_and_port, trim_ows};
use taipan_http::head::{Head, Method};
use taipan_http::known::KnownField;
use taipan_http::target::{PathError, RawPath, SafePath, Scheme, encoded_path, normalized};

use crate::address::{Address, without_brackets};
use crate::endpoint::EndpointAddress;
use crate::model::HeaderRule;
use crate::route::{Pattern, RouteId, Routes};
use crate::upstream::{Endpoints, Upstream};

/// How a request is changed for an upstream that speaks HTTP, and its response for the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Protocols that a client may ask for with `Upgrade`.
    pub upgrades: Vec<String>,
    /// How the path is spelled.
    pub spelling: Spelling,
    /// `None`: the upstream gets the requested path.
    pub path: Option<Replacement>,
    /// `None`: the upstream gets the requested host.
    pub host: Option<String>,
    /// Fields of the request that are set or removed.
    pub fields: Vec<HeaderRule>,
    pub bodies: Bodies,
    pub trailers: PassedTrailers,
}

/// When an upstream gets the body of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bodies {
    /// As it comes, if it has a length or the upstream speaks HTTP/2; else when all of it is there.
    #[default]
    Sized,
    /// As it comes.
    Streamed,
    /// When all of it is there.
    Buffered,
}

/// Which messages keep the fields behind their content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PassedTrailers {
    #[default]
    All,
    Responses,
    None,
}

impl PassedTrailers {
    pub fn pass_in_requests(self) -> bool {
        self == PassedTrailers::All
    }

    pub fn pass_in_responses(self) -> bool {
        self != PassedTrailers::None
    }
}

/// How an upstream gets a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spelling {
    /// As routes and rules read it: without empty and dot segments, and without encoded slashes.
    #[default]
    Normalized,
    /// As the client has sent it, which is a `RawPath`.
    Raw,
}

/// The request stays as it came.
pub static UNCHANGED: Forwarding = Forwarding {
    upgrades: Vec::new(),
    spelling: Spelling::Normalized,
    path: None,
    host: None,
    fields: Vec::new(),
    bodies: Bodies::Sized,
    trailers: PassedTrailers::All,
};

/// A path that its route passes on as it was sent, as routes and rules read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawReading<'a> {
    /// To programs that take an encoded slash for a slash.
    pub path: SafePath<'a>,
    /// The route of both readings.
    pub route: RouteId,
    /// To other programs, if they read another path. Rules must let both pass.
    pub segments: Option<SafePath<'static>>,
}

impl RawReading<'_> {
    /// Of the raw path of a request. `None`: its route takes a `SafePath`. Errors: it is not safe, or its readings lead
    /// to different routes.
    pub fn of<'a>(routes: &Routes, sent: &'a str) -> Result<Option<RawReading<'a>>, PathError> {
        let path = match SafePath::parse(sent) {
            Err(PathError::EncodedSlash) => RawPath::parse(sent)?.decoded,
            path => path?,
        };
        let id = routes.find(&path);
        let route = routes.get(id);
        if !route.passes_raw_paths() {
            // Only a path without encoded slashes is safe.
            return SafePath::parse(sent).map(|_| None);
        }
        let RawPath { decoded, segments, .. } = RawPath::parse(sent)?;
        if segments.as_ref().is_some_and(|segments| routes.find(segments) != id) {
            return Err(PathError::EncodedSlash);
        }
        if let Some(forwarding) = route.script.as_ref().map(|script| &script.forwarding) {
            // Without the prefix of the route, it may begin with two slashes.
            RawPath::parse(&forwarding.path(sent, forwarding.spelling))?;
        }
        Ok(Some(RawReading { path: decoded, route: id, segments }))
    }
}

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
pub enum Authority<'a> {
    /// As for [`EndpointAddress::parse`].
    Address(&'a str),
    /// A host name, or the name of an application.
    Name(&'a str),
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
    match path.is_empty() || is_plain && SafePath::parse(path).is_ok_and(|safe| safe.encoded() == path) {
        true => Ok(()),
        false => Err("write its path percent-encoded, without a query, empty segments, \".\" and \"..\""),
    }
}

impl Forwarding {
    /// The path for the upstream, where `sent` is the raw path of the request. A path that goes there as it was sent is
    /// a `RawPath`, and matches the pattern in both readings.
    pub fn path<'a>(&self, sent: &'a str, spelling: Spelling) -> Cow<'a, str> {
        let normalized = match spelling {
            Spelling::Normalized => normalized(sent),
            Spelling::Raw => Cow::Borrowed(sent),
        };
        let Some(Replacement { pattern, by }) = &self.path else { return normalized };
        let path = normalized.strip_prefix('/').unwrap_or(&normalized);
        let matches = match spelling {
            Spelling::Normalized => SafePath::parse(&normalized).is_ok_and(|path| pattern.matches(&path)),
            Spelling::Raw => RawPath::parse(sent).is_ok_and(|path| pattern.matches(&path.decoded)),
        };
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

    /// As `path`, in one spelling for all paths that are the same to the upstream. One that goes there as it was sent has
    /// its own.
    pub fn canonical_path(&self, sent: &str, spelling: Spelling) -> String {
        let path = self.path(sent, spelling);
        match (spelling, SafePath::parse(&path)) {
            (Spelling::Normalized, Ok(safe)) => safe.encoded(),
            _ => path.into_owned(),
        }
    }

    /// What a field of the response becomes, where it leads to the upstream itself. `None`: it stays.
    pub fn response_field(
        &self,
        field: KnownField,
        value: &str,
        upstream: &Upstream,
        requested_host: &str,
    ) -> Option<String> {
        match field {
            KnownField::Location | KnownField::ContentLocation => {
                self.location(value, upstream, requested_host)
            }
            KnownField::Refresh => self.refresh(value, upstream, requested_host),
            KnownField::SetCookie => self.cookie(value, upstream),
            _ => None,
        }
    }

    /// As `location`, of the URL in `5; url=/x`.
    fn refresh(&self, value: &str, upstream: &Upstream, requested_host: &str) -> Option<String> {
        let (delay, rest) = value.split_at(value.find([';', ','])?);
        let at = rest.find('=')?;
        let (before, url) = rest.split_at(at + 1);
        if !before[1..at].trim().eq_ignore_ascii_case("url") {
            return None;
        }
        let url = url.trim();
        let quote = ["\"", "'"].into_iter().find(|quote| url.starts_with(quote)).unwrap_or_default();
        let bare = url.strip_prefix(quote)?.strip_suffix(quote)?;
        let mapped = self.location(bare, upstream, requested_host)?;
        Some([delay, before, quote, &mapped, quote].concat())
    }

    /// A cookie for the host or the path of the upstream becomes one for those by which a client requests them. A
    /// cookie whose name begins with `__Host-` stays: its path is `/` (RFC 6265bis).
    fn cookie(&self, value: &str, upstream: &Upstream) -> Option<String> {
        if value.trim_start().get(..7).is_some_and(|start| start.eq_ignore_ascii_case("__Host-")) {
            return None;
        }
        let mut changed = false;
        let mut parts = Vec::new();
        for (at, part) in value.split(';').enumerate() {
            let (name, text) = part.split_once('=').unwrap_or((part, ""));
            let text = text.trim();
            let name = if at == 0 { "" } else { name.trim() };
            if name.eq_ignore_ascii_case("domain")
                && self.is_own_domain(text.trim_start_matches('.'), upstream)
            {
                changed = true;
                continue;
            }
            match self.cookie_path(text).filter(|_| name.eq_ignore_ascii_case("path")) {
                Some(path) => {
                    changed = true;
                    parts.push(Cow::Owned([" Path=", &path].concat()));
                }
                None => parts.push(Cow::Borrowed(part)),
            }
        }
        changed.then(|| parts.join(";"))
    }

    /// The path of a cookie may have no slash at its end.
    fn cookie_path(&self, path: &str) -> Option<String> {
        let Replacement { pattern, by } = self.path.as_ref()?;
        let prefix = match pattern {
            Pattern::Prefix(prefix) => prefix,
            Pattern::Exact(exact) => return (path == by).then(|| encoded_path(exact)),
            _ => return None,
        };
        let own = encoded_path(prefix);
        if !path.starts_with('/') || has_prefix(path, &own, by) {
            return None;
        }
        if path == "/" && by == "/" || path == by.trim_end_matches('/') {
            return Some(folder(&own).to_owned());
        }
        Some([&own, path.strip_prefix(by.as_str())?].concat())
    }

    /// What `Location` becomes where it leads to the upstream itself: the same place by this server. `None`: it stays.
    fn location(&self, value: &str, upstream: &Upstream, requested_host: &str) -> Option<String> {
        let (origin, path) = match authority_of(value) {
            Some((scheme, authority)) => {
                let path = authority.end;
                let authority = &value[authority];
                let is_own_scheme = scheme.is_none_or(|own| own.eq_ignore_ascii_case(upstream.scheme()));
                if authority.eq_ignore_ascii_case(requested_host) {
                    value.split_at(path)
                } else if is_own_scheme && self.is_own(authority, upstream) {
                    ("", &value[path..])
                } else {
                    return None;
                }
            }
            None if value.starts_with('/') => ("", value),
            None => return None,
        };
        let path = if path.starts_with('/') { Cow::Borrowed(path) } else { Cow::Owned(["/", path].concat()) };
        let path = self.unreplaced(&path)?;
        // Alone, it would lead to another host.
        let is_path = !(origin.is_empty() && names_host(&path));
        let mapped = [origin, &path].concat();
        (is_path && mapped != value).then_some(mapped)
    }

    /// The path by which a client requests what is at `path` of the upstream. `None`: this route does not lead there.
    fn unreplaced<'a>(&self, path: &'a str) -> Option<Cow<'a, str>> {
        let Some(Replacement { pattern, by }) = &self.path else { return Some(Cow::Borrowed(path)) };
        let (own, rest) = match pattern {
            Pattern::Prefix(prefix) => {
                let own = encoded_path(prefix);
                if has_prefix(path, &own, by) {
                    return Some(Cow::Borrowed(path));
                }
                match (path.strip_prefix(by.as_str()), behind_path(path, by.trim_end_matches('/'))) {
                    (Some(rest), _) => (own, rest),
                    (None, rest) => (folder(&own).to_owned(), rest?),
                }
            }
            // The rest of the upstream is for other routes.
            Pattern::Exact(exact) => match behind_path(path, by) {
                Some(rest) => (encoded_path(exact), rest),
                None => return Some(Cow::Borrowed(path)),
            },
            _ => return None,
        };
        Some(Cow::Owned(own + rest))
    }

    fn is_own(&self, authority: &str, upstream: &Upstream) -> bool {
        let is_host = self.host.as_ref().is_some_and(|host| host.eq_ignore_ascii_case(authority));
        let scheme = if upstream.tls.is_some() { Scheme::Https } else { Scheme::Http };
        is_host
            || addresses(upstream).any(|address| match address {
                EndpointAddress::Socket(Address::Tcp(own)) => {
                    own.to_string() == authority
                        || own.port() == scheme.default_port()
                            && own.ip().to_string() == without_brackets(authority)
                }
                EndpointAddress::Host { name, port } => {
                    address.to_string().eq_ignore_ascii_case(authority)
                        || *port == scheme.default_port() && name.eq_ignore_ascii_case(authority)
                }
                EndpointAddress::Socket(Address::Unix(_)) | EndpointAddress::Service(_) => false,
            })
    }

    /// As `is_own`, of the domain of a cookie, which has no port (RFC 6265 §4.1.2.3).
    fn is_own_domain(&self, domain: &str, upstream: &Upstream) -> bool {
        let host = self.host.as_ref().map(|host| host_and_port(host).0);
        host.is_some_and(|host| host.eq_ignore_ascii_case(domain))
            || addresses(upstream).any(|address| match address {
                EndpointAddress::Socket(Address::Tcp(own)) => {
                    own.ip().to_string() == without_brackets(domain)
                }
                EndpointAddress::Host { name, .. } => name.eq_ignore_ascii_case(domain),
                EndpointAddress::Socket(Address::Unix(_)) | EndpointAddress::Service(_) => false,
            })
    }

    /// Whether the client's own field of this name is left out.
    pub fn replaces(&self, name: &[u8]) -> bool {
        self.fields.iter().any(|rule| rule.replaces(name))
    }
}

/// The addresses in the configuration. None of a pool whose processes are this server's own.
fn addresses(upstream: &Upstream) -> impl Iterator<Item = &EndpointAddress> {
    match &upstream.endpoints {
        Endpoints::External(external) => external.addresses.iter(),
        Endpoints::Managed(_) => [].iter(),
    }
}

/// The path of a folder without the slash at its end.
fn folder(path: &str) -> &str {
    path.strip_suffix('/').filter(|folder| !folder.is_empty()).unwrap_or("/")
}

/// The query and the fragment of a URL with this path. `None`: it has another one.
fn behind_path<'a>(url: &'a str, path: &str) -> Option<&'a str> {
    url.strip_prefix(path).filter(|rest| rest.is_empty() || rest.starts_with(['?', '#']))
}

/// Whether a path begins with the prefix by which a client requests it: an application that knows its prefix has written
/// it. Where it begins with the path that replaces this prefix, too, the longer of both decides.
fn has_prefix(path: &str, own: &str, by: &str) -> bool {
    let is_below = |folder: &str| {
        let rest = path.strip_prefix(folder.strip_suffix('/').unwrap_or(folder));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    };
    own != "/" && is_below(own) && !(by.len() > own.len() && is_below(by))
}

/// Whether a browser reads this as `//host/x`. It leaves out tabs, and takes a backslash for a slash (WHATWG URL, 4.4).
fn names_host(url: &str) -> bool {
    let mut read = url.chars().filter(|character| *character != '\t');
    let mut is_slash = || matches!(read.next(), Some('/' | '\\'));
    is_slash() && is_slash()
}

/// The scheme and the place of the authority in `http://host/x` or `//host/x`. `None`: a path, or no URL by an authority.
fn authority_of(url: &str) -> Option<(Option<&str>, Range<usize>)> {
    let (scheme, start) = match url.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            (Some(scheme), scheme.len() + "://".len())
        }
        _ => (None, url.strip_prefix("//").map(|_| "//".len())?),
    };
    let length = url[start..].find(['/', '?', '#']).unwrap_or(url.len() - start);
    Some((scheme, start..start + length))
}

/// What is left of the forwards of a request that counts them (RFC 9110 §7.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwards {
    /// It has no limit, or one that is not a number.
    Unlimited,
    /// This server responds.
    None,
    /// The value for the upstream.
    Left(u64),
}

impl Forwards {
    /// As `Max-Forwards` says, which counts for OPTIONS. TRACE is not forwarded.
    pub fn of(head: &Head<'_>) -> Forwards {
        if head.method != Method::Options {
            return Forwards::Unlimited;
        }
        let mut values = head.values("max-forwards");
        let (Some(value), None) = (values.next(), values.next()) else { return Forwards::Unlimited };
        match digits(trim_ows(value)) {
            None => Forwards::Unlimited,
            Some(0) => Forwards::None,
            Some(number) => Forwards::Left(number - 1),
        }
    }

    /// The field for the upstream.
    pub fn write(self, out: &mut Vec<u8>) {
        if let Forwards::Left(number) = self {
            out.extend_from_slice(b"Max-Forwards: ");
            write_number(number, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

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
            let path = replacing(pattern, by);
            let path = path.path(requested, Spelling::Normalized);
            assert_eq!(path, expected, "{pattern} {by} {requested}");
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
        assert_eq!(Forwarding::default().path("/x//../y%20", Spelling::Normalized), "/y%20");
    }

    #[test]
    fn passes_a_raw_path_as_it_was_sent() {
        let check = |pattern, by, requested, expected| {
            let path = replacing(pattern, by);
            let path = path.path(requested, Spelling::Raw);
            assert_eq!(path, expected, "{pattern} {by} {requested}");
        };
        assert_eq!(Forwarding::default().path("/v2/a%2Fb//c", Spelling::Raw), "/v2/a%2Fb//c");
        check("/app/", "/", "/app/a%2Fb", "/a%2Fb");
        check("/app/", "/v2/", "/%61pp/a%2fb//c/", "/v2/a%2fb//c/");
        check("/login", "/sso/in", "/login", "/sso/in");
    }

    #[test]
    fn one_path_has_one_spelling_unless_it_is_passed_as_it_was_sent() {
        let mapped = replacing("/app/", "/api/");
        for sent in ["/app/p1", "//app/p1", "/app/x/../p1", "/app/%701", "/%61pp//p1"] {
            assert_eq!(mapped.canonical_path(sent, Spelling::Normalized), "/api/p1", "{sent}");
        }
        assert_eq!(UNCHANGED.canonical_path("/a%2fb/%70", Spelling::Raw), "/a%2fb/%70");
    }

    #[test]
    fn rewrites_redirects_to_the_upstream_itself() {
        let named = EndpointAddress::Host { name: "app.internal".to_owned(), port: 80 };
        let addresses = vec![Address::Tcp("127.0.0.1:3000".parse().unwrap()).into(), named];
        let endpoints = Endpoints::External(External { addresses, connections: 1 });
        let upstream = Upstream::new("app".to_owned(), Protocol::Http, endpoints);
        let check = |forwarding: &Forwarding, value, expected: Option<&str>| {
            let found = forwarding.response_field(KnownField::Location, value, &upstream, "www.example");
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        let refresh = |forwarding: &Forwarding, value, expected: Option<&str>| {
            let found = forwarding.response_field(KnownField::Refresh, value, &upstream, "www.example");
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        let cookie = |forwarding: &Forwarding, value, expected: Option<&str>| {
            let found = forwarding.response_field(KnownField::SetCookie, value, &upstream, "www.example");
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
        check(&plain, "http://127.0.0.1:3000/\\evil", None);
        check(&plain, "http://127.0.0.1:3000/\t\\evil", None);
        check(&plain, "http://127.0.0.1:3000/a\\b", Some("/a\\b"));
        check(&plain, "http://127.0.0.1:3001/x", None);
        check(&plain, "https://127.0.0.1:3000/x", None);
        check(&plain, "https://www.example/x", None);
        check(&plain, "//other.example/x", None);
        check(&plain, "//127.0.0.1:3000/x", Some("/x"));
        check(&plain, "//inner.example//evil", None);
        check(&plain, "/x", None);
        check(&plain, "x", None);
        let mapped = replacing("/app/", "/api/");
        check(&mapped, "/api/login", Some("/app/login"));
        check(&mapped, "/other", None);
        // The folder without its slash, and what is not below it.
        check(&mapped, "/api", Some("/app"));
        check(&mapped, "http://127.0.0.1:3000/api?x", Some("/app?x"));
        check(&replacing("/", "/api/"), "/api#x", Some("/#x"));
        for value in ["/apis", "http://127.0.0.1:3000/other", "http://127.0.0.1:3000", "//app.internal/apis"]
        {
            check(&mapped, value, None);
        }
        check(&mapped, "http://127.0.0.1:3000/app/x", Some("/app/x"));
        check(&mapped, "https://www.example/api/x", Some("https://www.example/app/x"));
        check(&mapped, "http://127.0.0.1:3000/api/x", Some("/app/x"));
        check(&mapped, "//www.example/api/x", Some("//www.example/app/x"));
        check(&replacing("/app/", "/"), "/login", Some("/app/login"));
        let content = KnownField::ContentLocation;
        let found = mapped.response_field(content, "/api/x", &upstream, "www.example");
        assert_eq!(found.as_deref(), Some("/app/x"));
        check(
            &replacing("/app/", "/"),
            "/login?next=http://www.example/x",
            Some("/app/login?next=http://www.example/x"),
        );
        // An application that knows its prefix.
        for value in ["/app/login", "/app", "/app?x", "http://www.example/app/login", "//www.example/app/x"] {
            check(&replacing("/app/", "/"), value, None);
        }
        check(&replacing("/app/", "/"), "http://127.0.0.1:3000/app/x", Some("/app/x"));
        check(&replacing("/app/", "/"), "/apple", Some("/app/apple"));
        check(&replacing("/app/", "/app/v1/"), "/app/v1/x", Some("/app/x"));
        check(&replacing("/app/", "/app/v1/"), "/app/x", None);
        check(&replacing("/app/v1/", "/app/"), "/app/v1/x", None);
        // One path.
        let one = replacing("/log in", "/sso/in");
        check(&one, "/sso/in", Some("/log%20in"));
        check(&one, "http://127.0.0.1:3000/sso/in?again#form", Some("/log%20in?again#form"));
        for value in ["/sso/in/x", "/sso/into", "/sso", "/log%20in"] {
            check(&one, value, None);
        }
        check(&one, "http://127.0.0.1:3000/home", Some("/home"));
        cookie(&one, "a=b; Path=/sso/in", Some("a=b; Path=/log%20in"));
        cookie(&one, "a=b; Path=/sso", None);
        refresh(&replacing("/app/", "/"), "0; url=/app/login", None);
        refresh(&mapped, "5; url=/api/x", Some("5; url=/app/x"));
        refresh(&mapped, "0;URL='http://127.0.0.1:3000/api/x'", Some("0;URL='/app/x'"));
        refresh(&mapped, "0, url=\"/api/x\"", Some("0, url=\"/app/x\""));
        refresh(&mapped, "5", None);
        refresh(&mapped, "5; uri=/api/x", None);
        refresh(&mapped, "5; url=\"/api/x", None);
        refresh(&mapped, "5; url=https://other.example/api/x", None);
        cookie(&mapped, "a=/api/; Path=/api/; Secure", Some("a=/api/; Path=/app/; Secure"));
        cookie(&mapped, "a=b;path=/api", Some("a=b; Path=/app"));
        cookie(&mapped, "a=b; Path=/api/x/; HttpOnly", Some("a=b; Path=/app/x/; HttpOnly"));
        cookie(&mapped, "a=b; Path=/", None);
        cookie(&mapped, "Path=/api/", None);
        cookie(&mapped, "__Host-a=b; Path=/; Secure", None);
        cookie(&replacing("/app/", "/"), "a=b; Path=/", Some("a=b; Path=/app"));
        cookie(&replacing("/app/", "/"), "a=b; Path=/x", Some("a=b; Path=/app/x"));
        cookie(&replacing("/app/", "/"), "a=b; Path=/app/x", None);
        cookie(&replacing("/app/", "/app/v1/"), "a=b; Path=/app/v1", Some("a=b; Path=/app"));
        cookie(&replacing("/", "/api/"), "a=b; Path=/api/x", Some("a=b; Path=/x"));
        cookie(&replacing("/", "/api/"), "a=b; Path=/api", Some("a=b; Path=/"));
        cookie(&replacing("/app/", "/"), "__Host-a=b; Path=/", None);
        cookie(&plain, "a=b; Domain=inner.example; Path=/", Some("a=b; Path=/"));
        cookie(&plain, "a=b; domain=.INNER.example", Some("a=b"));
        cookie(&plain, "a=b; Domain=127.0.0.1", Some("a=b"));
        cookie(&plain, "a=b; Domain=app.internal", Some("a=b"));
        cookie(&plain, "a=b; Domain=127.0.0.1:3000", None);
        cookie(&plain, "a=b; Domain=www.example", None);
        let with_port = Forwarding { host: Some("inner.example:3000".to_owned()), ..Forwarding::default() };
        cookie(&with_port, "a=b; Domain=inner.example", Some("a=b"));
        cookie(&plain, "Domain=inner.example", None);
    }

    #[test]
    fn counts_forwards() {
        let of = |method: &str, values: &[&str]| {
            let lines: String = values.iter().map(|value| format!("Max-Forwards: {value}\r\n")).collect();
            let input = format!("{method} / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
            let mut store = FieldStore::new();
            let (head, _) = parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
            Forwards::of(&head)
        };
        let check = |values: &[&str], expected| assert_eq!(of("OPTIONS", values), expected, "{values:?}");
        check(&[], Forwards::Unlimited);
        check(&["0"], Forwards::None);
        check(&["00"], Forwards::None);
        check(&["7"], Forwards::Left(6));
        check(&["x"], Forwards::Unlimited);
        check(&["-1"], Forwards::Unlimited);
        check(&["1", "2"], Forwards::Unlimited);
        assert_eq!(of("GET", &["0"]), Forwards::Unlimited);
    }
}
