//! Where requests go: a scheme, a name for the `Host` field, and an address. Parses URLs as far as a load
//! generator needs them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// With or without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// The address of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Any of these; connections use them in turn. Never empty.
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

/// One server of the URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub scheme: Scheme,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// As in the `Host` field: with the port if it is not the default of the scheme.
    pub authority: String,
    pub endpoint: Endpoint,
}

/// A parsed URL, before its host is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    pub host: String,
    pub port: u16,
    pub authority: String,
    /// Path and query, never empty.
    pub path: String,
}

impl Scheme {
    /// The default port.
    pub const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// As in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl Url {
    /// `http://` may be missing. A fragment is dropped, because it is never sent.
    ///
    /// Errors: what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some((other, _)) => return Err(format!("\"{text}\": {other} is neither http nor https")),
            None => (Scheme::Http, text),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("\"{text}\" has a character that must be percent-encoded in a URL"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!("\"{text}\": give a name and password as --header \"Authorization: …\""));
        }
        let (host, port) =
            split_port(authority).ok_or_else(|| format!("\"{text}\" has no host, or an invalid port"))?;
        let path = match path {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        let port = port.unwrap_or(scheme.port());
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == scheme.port() { bracketed } else { format!("{bracketed}:{port}") };
        Ok(Url { scheme, host: host.to_owned(), port, authority, path })
    }

    /// The full URL.
    pub fn text(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.authority, self.path)
    }

    /// Resolves the host.
    ///
    /// Errors: a sentence naming the host.
    pub fn target(&self) -> Result<Target, String> {
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| format!("cannot look up {}: {error}", self.host))?
            .collect();
        // Only the first address family of a name is used. Otherwise a server that listens on 127.0.0.1
        // alone would refuse half of the connections, those to ::1.
        let first = addresses.first().ok_or_else(|| format!("{} has no address", self.host))?;
        let endpoint =
            addresses.iter().filter(|address| address.is_ipv4() == first.is_ipv4()).copied().collect();
        Ok(self.target_at(Endpoint::Tcp(endpoint)))
    }

    /// The target, with its endpoint in place of a lookup.
    pub fn target_at(&self, endpoint: Endpoint) -> Target {
        Target {
            scheme: self.scheme,
            host: self.host.clone(),
            port: self.port,
            authority: self.authority.clone(),
            endpoint,
        }
    }
}

/// Host and port of an authority; `None` without a host or with an invalid port.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':').or(after.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = match port {
        "" => None,
        digits => Some(digits.parse().ok().filter(|&port| port > 0)?),
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, &str, u16, &str)>) {
        let found = Url::parse(text).ok();
        let found = found
            .as_ref()
            .map(|url| (url.authority.as_str(), url.host.as_str(), url.port, url.path.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn parses_host_port_and_path() {
        check("http://a.example/x?y#z", Some(("a.example", "a.example", 80, "/x?y")));
        check("https://a.example", Some(("a.example", "a.example", 443, "/")));
        check("127.0.0.1:8080/a", Some(("127.0.0.1:8080", "127.0.0.1", 8080, "/a")));
        check("http://a.example:80/", Some(("a.example", "a.example", 80, "/")));
        check("http://[::1]:8080/", Some(("[::1]:8080", "::1", 8080, "/")));
        check("http://[::1]", Some(("[::1]", "::1", 80, "/")));
        check("http://a?q", Some(("a", "a", 80, "/?q")));
    }

    #[test]
    fn rejects_invalid_urls() {
        for text in [
            "",
            "http://",
            "ftp://a/",
            "http://a b/",
            "http://a:x/",
            "http://a:0/",
            "http://u:p@a/",
            "http://[::1",
            "http://[::1]x/",
            "http://é/",
        ] {
            check(text, None);
        }
    }
}
