//! The address of a socket, as a configuration writes it: one that the server listens on, or one of an upstream.
//!
//! Resolves no names and opens no socket.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Bytes of a Unix socket's path: `sun_path` (unix(7)) without its last NUL.
const MAX_UNIX_PATH: usize = 107;

/// What a socket is bound to, or connects to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `unix:PATH`; a relative path begins in `folder`. Errors say what to
    /// write instead.
    pub fn parse(text: &str, folder: &Path) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let joined = folder.join(path);
            let error = match joined.as_os_str().len() {
                _ if path.contains('\0') => "a socket path cannot contain a NUL byte",
                _ if path.is_empty() => "write the path of the socket, e.g. \"unix:/run/taipan.sock\"",
                ..=MAX_UNIX_PATH => return Ok(Address::Unix(joined)),
                _ => "the path of a socket has at most 107 bytes",
            };
            return Err(error.to_owned());
        }
        match text.parse::<SocketAddr>() {
            Ok(SocketAddr::V6(v6)) if let Some(v4) = v6.ip().to_ipv4_mapped() => {
                Err(format!("write it as an IPv4 address: \"{v4}:{}\"", v6.port()))
            }
            Ok(address) => Ok(Address::Tcp(address)),
            Err(_) => Err(suggestion(text)),
        }
    }

    /// Whether a connection to `other` would reach this address as well. An IPv6 listener accepts IPv6 alone.
    pub fn covers(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Tcp(wide), Address::Tcp(narrow)) => {
                let same = wide.port() == narrow.port() && wide.is_ipv4() == narrow.is_ipv4();
                // The kernel chooses another port for each socket that is bound to port 0.
                wide.ip().is_unspecified() && same && wide.port() != 0
            }
            _ => false,
        }
    }

    /// Whether one program cannot listen on both.
    pub fn overlaps(&self, other: &Address) -> bool {
        let is_chosen = matches!(self, Address::Tcp(address) if address.port() == 0);
        self.covers(other) || other.covers(self) || self == other && !is_chosen
    }

    /// `None`: a Unix socket has none.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }

    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Address::Tcp(_) => None,
            Address::Unix(path) => Some(path),
        }
    }
}

/// A host without the brackets that an IPv6 address has in a URL.
pub fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// As a configuration writes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What to write in place of a text that is not an address.
pub fn suggestion(text: &str) -> String {
    if text.starts_with('/') {
        return format!("write \"unix:{}\" for a Unix socket", text.escape_debug());
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().unwrap_or(rest);
        return match rest.parse::<SocketAddr>() {
            Ok(address) => format!("leave out \"{}://\": write \"{address}\"", scheme.escape_debug()),
            Err(_) => {
                "leave out the scheme; write an IP address and a port, e.g. \"127.0.0.1:8080\"".to_owned()
            }
        };
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    // An IPv6 address and a port without brackets, such as ::1:8080, may be an address, too.
    if let (Ok(ip), Ok(port @ 10..)) = (host.parse::<Ipv6Addr>(), port.parse::<u16>()) {
        return format!(
            "an IPv6 address has brackets in front of a port: \"{}\"",
            SocketAddr::new(ip.into(), port)
        );
    }
    if let Ok(ip) = without_brackets(text).parse::<IpAddr>() {
        return format!("add a port: \"{}\"", SocketAddr::new(ip, 8080));
    }
    if port.parse::<u16>().is_err() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("there is no port {port}; the highest is 65535");
    }
    let port = port.parse::<u16>().map_or("PORT".to_owned(), |port| port.to_string());
    match host {
        "" | "*" if text.parse::<u16>().is_ok() || text.contains(':') => format!(
            "write \"127.0.0.1:{port}\" for this machine only, \"0.0.0.0:{port}\" for all of IPv4, or \
             \"[::]:{port}\" for all of IPv6"
        ),
        "localhost" => {
            format!("names are not resolved; write \"127.0.0.1:{port}\" or \"[::1]:{port}\"")
        }
        _ => "write an IP address and a port, e.g. \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:PATH\""
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ip_addresses_and_unix_sockets() {
        let folder = Path::new("/etc/taipan");
        for good in ["127.0.0.1:80", "[::]:8080", "0.0.0.0:0"] {
            assert_eq!(Address::parse(good, folder), Ok(Address::Tcp(good.parse().unwrap())));
        }
        assert_eq!(Address::parse("unix:/run/x", folder), Ok(Address::Unix(PathBuf::from("/run/x"))));
        assert_eq!(Address::parse("unix:x", folder), Ok(Address::Unix(PathBuf::from("/etc/taipan/x"))));
        for (bad, written) in [
            ("8080", "\"127.0.0.1:8080\" for this machine only"),
            (":80", "\"0.0.0.0:80\" for all of IPv4"),
            ("localhost:80", "\"127.0.0.1:80\" or \"[::1]:80\""),
            ("1.2.3.4", "add a port: \"1.2.3.4:8080\""),
            ("::1", "add a port: \"[::1]:8080\""),
            ("http://127.0.0.1:9000/app", "leave out \"http://\": write \"127.0.0.1:9000\""),
            ("http://localhost:9000", "leave out the scheme"),
            ("/run/x.sock", "write \"unix:/run/x.sock\""),
            ("[::ffff:1.2.3.4]:80", "as an IPv4 address: \"1.2.3.4:80\""),
            ("1.2.3.4:70000", "there is no port 70000; the highest is 65535"),
            ("1.2.3.4:8o", "write an IP address and a port"),
            ("::1:8080", "has brackets in front of a port: \"[::1]:8080\""),
            (":::8080", "has brackets in front of a port: \"[::]:8080\""),
            ("2001:db8::7:443", "has brackets in front of a port: \"[2001:db8::7]:443\""),
            ("2001:db8::7", "add a port: \"[2001:db8::7]:8080\""),
        ] {
            let error = Address::parse(bad, folder).expect_err(bad);
            assert!(error.contains(written), "{bad}: {error}");
        }
        for bad in [":80", "*:80", "localhost:80", "80", "1.2.3.4", "1.2.3.4:70000", "", "example.org:80"] {
            assert!(Address::parse(bad, folder).is_err(), "{bad}");
        }
        assert!(Address::parse(&format!("unix:/{}", "x".repeat(107)), folder).is_err());
    }
}
