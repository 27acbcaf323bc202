//! Where an endpoint of an upstream is: at the address of a socket, or at a name, whose addresses are endpoints.
//! Resolves no names and opens no socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::address::Address;

/// Bytes of a name, and of one of its labels (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The host of an endpoint that has no name.
pub const UNNAMED: &str = "localhost";

/// Where the endpoints of an upstream are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointAddress {
    Socket(Address),
    /// Each address of the name is an endpoint.
    Host {
        name: String,
        port: u16,
    },
    /// `_http._tcp.example.com`: each target of its SRV records (RFC 2782) is an endpoint.
    Service(String),
}

/// How names are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Servers to ask. Empty: those of the system.
    pub servers: Vec<SocketAddr>,
    pub family: Family,
    /// The bounds of how long addresses are used before they are resolved again.
    pub min_ttl: Duration,
    pub max_ttl: Duration,
    /// How long a server may take for an answer.
    pub timeout: Duration,
    /// How many names of clients a worker remembers. `None`: they are not looked up.
    pub client_names: Option<usize>,
}

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Those of IPv4; without any, those of IPv6.
    Ipv4First,
    Ipv6First,
    Ipv4,
    Ipv6,
    Both,
}

impl Family {
    pub const ALL: [(&str, Family); 5] = [
        ("ipv4_first", Family::Ipv4First),
        ("ipv6_first", Family::Ipv6First),
        ("ipv4", Family::Ipv4),
        ("ipv6", Family::Ipv6),
        ("both", Family::Both),
    ];
}

impl Default for Resolution {
    fn default() -> Resolution {
        Resolution {
            servers: Vec::new(),
            family: Family::Ipv4First,
            min_ttl: Duration::from_secs(5),
            max_ttl: Duration::from_secs(3600),
            timeout: Duration::from_secs(2),
            client_names: None,
        }
    }
}

impl EndpointAddress {
    /// Reads what [`Address::parse`] does, `app.example.com:3000` or `_http._tcp.example.com`. Where there is a default
    /// port, IP addresses and names need none. Errors say what to write instead.
    pub fn parse(text: &str, folder: &Path, port: Option<u16>) -> Result<EndpointAddress, String> {
        let ip = || text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).parse();
        match (port, ip()) {
            (Some(port), Ok(ip)) => {
                let ip: IpAddr = ip;
                return Address::parse(&SocketAddr::new(ip, port).to_string(), folder)
                    .map(EndpointAddress::Socket);
            }
            _ if text.parse().is_ok_and(|address: SocketAddr| address.port() == 0) => {
                return Err("nothing listens at port 0; write that of the application".to_owned());
            }
            _ if text.starts_with("unix:") || text.parse::<SocketAddr>().is_ok() => {
                return Address::parse(text, folder).map(EndpointAddress::Socket);
            }
            _ => {}
        }
        if text.starts_with('_') {
            return match is_service(text) {
                true => Ok(EndpointAddress::Service(text.to_ascii_lowercase())),
                false => Err("write a service as \"_http._tcp.example.com\", without a port".to_owned()),
            };
        }
        let (name, written) = text.rsplit_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        let port = match written {
            Some(written) => written.parse().ok().filter(|port| *port > 0),
            None if is_host_name(name) => {
                let missing = || format!("add a port: \"{name}:8080\"");
                return match port {
                    Some(port) => Ok(EndpointAddress::Host { name: name.to_ascii_lowercase(), port }),
                    None => Err(missing()),
                };
            }
            None => None,
        };
        match port {
            Some(port) if is_host_name(name) => {
                Ok(EndpointAddress::Host { name: name.to_ascii_lowercase(), port })
            }
            _ => Address::parse(text, folder).map(EndpointAddress::Socket),
        }
    }

    /// The path of a Unix socket.
    pub fn socket_path(&self) -> Option<&Path> {
        match self {
            EndpointAddress::Socket(Address::Unix(path)) => Some(path),
            _ => None,
        }
    }

    /// The name that the certificate of the endpoint is for. `None`: a Unix socket has none.
    pub fn certified_name(&self) -> Option<String> {
        match self {
            EndpointAddress::Socket(Address::Tcp(address)) => Some(address.ip().to_string()),
            EndpointAddress::Socket(Address::Unix(_)) => None,
            EndpointAddress::Host { name, .. } => Some(name.trim_end_matches('.').to_owned()),
            // RFC 6125 §6.2.1: the name that was asked for. Its targets are only what a server has answered.
            EndpointAddress::Service(name) => {
                let labels = name.trim_end_matches('.').split('.');
                Some(labels.skip_while(|label| label.starts_with('_')).collect::<Vec<_>>().join("."))
            }
        }
    }

    /// Host and port, as a URL has them. A Unix socket has no name.
    pub fn authority(&self) -> String {
        let port = match self {
            EndpointAddress::Socket(address) => address.port(),
            EndpointAddress::Host { port, .. } => Some(*port),
            EndpointAddress::Service(_) => None,
        };
        let host = match self.certified_name() {
            Some(ip) if ip.contains(':') => format!("[{ip}]"),
            Some(name) => name,
            None => UNNAMED.to_owned(),
        };
        match port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    pub fn socket(&self) -> Option<&Address> {
        match self {
            EndpointAddress::Socket(address) => Some(address),
            EndpointAddress::Host { .. } | EndpointAddress::Service(_) => None,
        }
    }

    /// Whether it has to be resolved.
    pub fn is_name(&self) -> bool {
        self.socket().is_none()
    }
}

impl From<Address> for EndpointAddress {
    fn from(address: Address) -> EndpointAddress {
        EndpointAddress::Socket(address)
    }
}

/// As a configuration writes it.
impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddress::Socket(address) => address.fmt(f),
            EndpointAddress::Host { name, port } => write!(f, "{name}:{port}"),
            EndpointAddress::Service(name) => f.write_str(name),
        }
    }
}

/// Whether it can be the name of a host. One that ends with a number is meant as an IP address.
pub fn is_host_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_number = |label: &str| {
        label.bytes().all(|byte| byte.is_ascii_digit())
            || label.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"))
    };
    text.len() <= MAX_NAME
        && text.split('.').all(|label| is_label(label) && !label.starts_with('_'))
        && text.rsplit('.').next().is_some_and(|last| !is_number(last))
}

fn is_service(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let labels: Vec<&str> = text.split('.').collect();
    let marked = labels.iter().take_while(|label| label.starts_with('_')).count();
    text.len() <= MAX_NAME && marked == 2 && labels.len() > 2 && labels.iter().all(|label| is_label(label))
}

/// Letters, digits and dashes; and underscores, which names of containers have.
fn is_label(label: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(is_plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `socket`, `host` or `service`, and how it is written; or what the error says.
    fn check(text: &str, port: Option<u16>, expected: &str) {
        let found = match EndpointAddress::parse(text, Path::new("/etc"), port) {
            Ok(address @ EndpointAddress::Socket(_)) => format!("socket {address}"),
            Ok(address @ EndpointAddress::Host { .. }) => format!("host {address}"),
            Ok(address @ EndpointAddress::Service(_)) => format!("service {address}"),
            Err(error) => error,
        };
        match expected.strip_prefix('~') {
            Some(part) => assert!(found.contains(part), "{text}: {found}"),
            None => assert_eq!(found, expected, "{text}"),
        }
    }

    #[test]
    fn reads_sockets_names_and_services() {
        check("127.0.0.1:3000", Some(80), "socket 127.0.0.1:3000");
        check("127.0.0.1", Some(80), "socket 127.0.0.1:80");
        check("[::1]", Some(443), "socket [::1]:443");
        check("::1", Some(443), "socket [::1]:443");
        check("unix:app", None, "socket unix:/etc/app");
        check("App.Internal:3000", None, "host app.internal:3000");
        check("app.internal", Some(443), "host app.internal:443");
        check("my_app-1:80", None, "host my_app-1:80");
        check("localhost:80", None, "host localhost:80");
        check("app.internal.:80", None, "host app.internal.:80");
        check("_http._tcp.app.internal", Some(80), "service _http._tcp.app.internal");
        check("_Http._TCP.a", None, "service _http._tcp.a");
        check("app.internal", None, "~add a port: \"app.internal:8080\"");
        check("_http._tcp.app.internal:80", None, "~without a port");
        check("_http.app.internal", None, "~write a service as");
        check("_http._tcp", None, "~write a service as");
        check("127.0.0.1", None, "~add a port");
        check("127.0.0.1:0", None, "~nothing listens at port 0");
        check("[::1]:0", Some(80), "~nothing listens at port 0");
        for bad in [
            "",
            ":80",
            "a..b:80",
            "-a:80",
            "a-:80",
            "a b:80",
            "10.0.0:80",
            "1.2.3.4.5:80",
            "a.0x7f:80",
            "a:0",
            "a:70000",
            "a:b",
            "a/b:80",
            "ä:80",
            "*.a:80",
        ] {
            check(bad, Some(80), "~ ");
            assert!(EndpointAddress::parse(bad, Path::new("/"), Some(80)).is_err(), "{bad}");
        }
        assert!(is_host_name(&format!("{}.a", "x".repeat(63))) && !is_host_name(&"x".repeat(64)));
        assert!(!is_host_name(
            &["x".repeat(50), "y".repeat(50), "z".repeat(50), "a".repeat(60), "b".repeat(50)].join(".")
        ));
    }

    #[test]
    fn a_certificate_is_for_the_name_that_was_asked_for() {
        for (text, name) in [
            ("app.internal.:3000", Some("app.internal")),
            ("10.0.0.1:3000", Some("10.0.0.1")),
            ("[::1]:3000", Some("::1")),
            ("_http._tcp.app.internal", Some("app.internal")),
            ("unix:/run/app", None),
        ] {
            let address = EndpointAddress::parse(text, Path::new("/"), None).unwrap();
            assert_eq!(address.certified_name().as_deref(), name, "{text}");
        }
    }

    #[test]
    fn every_address_has_an_authority() {
        for (text, authority) in [
            ("app.internal.:3000", "app.internal:3000"),
            ("10.0.0.1:3000", "10.0.0.1:3000"),
            ("[::1]:3000", "[::1]:3000"),
            ("_http._tcp.app.internal", "app.internal"),
            ("unix:/run/app", "localhost"),
        ] {
            let address = EndpointAddress::parse(text, Path::new("/"), None).unwrap();
            assert_eq!(address.authority(), authority, "{text}");
        }
    }
}
