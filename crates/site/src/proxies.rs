//! The trusted proxies, and the origin of a request by the fields that they send.
//!
//! Knows nothing of connections: the caller passes the address of the peer.

use std::fmt;
use std::net::IpAddr;

use taipan_http::forwarded::{self, Forwarded};
use taipan_http::head::Head;
use taipan_http::target::Scheme;

/// Proxies of a site.
pub const MAX_PROXIES: usize = 1024;
/// Every peer of a Unix socket.
const UNIX: &str = "unix";

/// The trusted proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(Vec<Proxy>);

/// As a configuration writes it: `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32`, or `unix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// An address, and the number of its first bits that count.
    Network(IpAddr, u8),
    /// Every peer on a Unix socket that the server listens on.
    Unix,
}

/// Why a text is not a proxy. The message says what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyError {
    Syntax,
    /// More bits than an address has, or not a number.
    Prefix,
    /// Bits behind the prefix are set. The network is the probable meaning.
    HostBits(IpAddr, u8),
    /// An IPv4-mapped IPv6 address. The server sees such clients as IPv4.
    Mapped,
}

/// Whether a trusted proxy has forwarded a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The peer is the client, or a proxy that is not trusted.
    Nothing,
    TrustedProxy,
}

/// The origin of a request that a trusted proxy has forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// `None`: the proxy names no client, and is the client itself. The port may be unknown.
    pub client: Option<(IpAddr, Option<u16>)>,
    pub scheme: Scheme,
    pub authority: &'a [u8],
}

impl Proxies {
    pub fn new(proxies: Vec<Proxy>) -> Proxies {
        Proxies(proxies)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the peer of a connection is trusted. `None` is a peer on a Unix socket.
    pub fn trust(&self, peer: Option<IpAddr>) -> bool {
        self.0.iter().any(|proxy| match (proxy, peer) {
            (Proxy::Network(network, prefix), Some(address)) => first_bits_equal(*network, address, *prefix),
            (Proxy::Unix, None) => true,
            (Proxy::Network(..), None) | (Proxy::Unix, Some(_)) => false,
        })
    }

    /// The origin of a request from this peer. `None`: the peer is not trusted, or its fields contradict each other.
    ///
    /// `X-Forwarded-For`, `-Proto` and `-Host` decide, or else `Forwarded` (RFC 7239). A proxy writes one kind, and may
    /// pass on the other kind from its client. If a request has both, they must agree.
    pub fn origin<'a>(&self, peer: Option<IpAddr>, head: &Head<'a>) -> Option<Origin<'a>> {
        if !self.trust(peer) {
            return None;
        }
        let trusts = |address| self.trust(Some(address));
        let of = |said: Forwarded<'a>| Origin {
            client: said.client,
            scheme: said.scheme.unwrap_or(head.scheme),
            authority: said.host.unwrap_or(head.authority),
        };
        match (forwarded::x_forwarded(head, trusts), forwarded::forwarded(head, trusts)) {
            (None, None) => Some(of(Forwarded::default())),
            (Some(said), None) | (None, Some(said)) => Some(of(said)),
            (Some(said), Some(other)) => {
                let origin = of(said);
                let address = |client: Option<(IpAddr, _)>| client.map(|(address, _)| address);
                let agrees = address(other.client) == address(origin.client)
                    && other.scheme.is_none_or(|scheme| scheme == origin.scheme)
                    && other.host.is_none_or(|host| host.eq_ignore_ascii_case(origin.authority));
                agrees.then_some(origin)
            }
        }
    }
}

impl Proxy {
    pub fn parse(text: &str) -> Result<Proxy, ProxyError> {
        if text == UNIX {
            return Ok(Proxy::Unix);
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ProxyError::Syntax)?;
        if address != address.to_canonical() {
            return Err(ProxyError::Mapped);
        }
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().unwrap_or(u8::MAX)
            }
            Some(_) => u8::MAX,
        };
        if prefix > bits {
            return Err(ProxyError::Prefix);
        }
        let network = first_bits(address, prefix);
        if network != address {
            return Err(ProxyError::HostBits(network, prefix));
        }
        Ok(Proxy::Network(network, prefix))
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Syntax => f.write_str(
                "write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are \
                 not resolved",
            ),
            ProxyError::Prefix => f.write_str("write a number behind the slash: at most 32 for IPv4, 128 for IPv6"),
            ProxyError::HostBits(network, prefix) => {
                write!(f, "write \"{network}/{prefix}\", or the address alone")
            }
            ProxyError::Mapped => f.write_str("write it as an IPv4 address"),
        }
    }
}

fn first_bits_equal(network: IpAddr, address: IpAddr, prefix: u8) -> bool {
    network.is_ipv4() == address.is_ipv4() && first_bits(address, prefix) == network
}

/// The address with all but its first bits cleared.
fn first_bits(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    fn proxies(texts: &[&str]) -> Proxies {
        Proxies::new(texts.iter().map(|text| Proxy::parse(text).unwrap()).collect())
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let check = |network: &str, address: &str, expected| {
            let address = if address == "unix" { None } else { Some(address.parse().unwrap()) };
            assert_eq!(proxies(&[network]).trust(address), expected, "{network} {address:?}");
        };
        check("10.0.0.0/8", "10.0.0.0", true);
        check("10.0.0.0/8", "10.255.255.255", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("10.0.0.0/8", "9.255.255.255", false);
        check("192.0.2.128/25", "192.0.2.127", false);
        check("192.0.2.128/25", "192.0.2.128", true);
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1/32", "192.0.2.1", true);
        check("0.0.0.0/0", "255.0.0.1", true);
        check("0.0.0.0/0", "::1", false);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("2001:db8::/32", "2001:db9::", false);
        check("2001:db8::8/125", "2001:db8::f", true);
        check("2001:db8::8/125", "2001:db8::10", false);
        check("::1", "::1", true);
        check("::/0", "2001:db8::1", true);
        check("::/0", "10.0.0.1", false);
        check("unix", "unix", true);
        check("unix", "127.0.0.1", false);
        check("127.0.0.1", "unix", false);
        assert!(!proxies(&[]).trust(None) && proxies(&[]).is_empty());
    }

    #[test]
    fn rejects_invalid_networks() {
        let check =
            |text: &str, expected: ProxyError| assert_eq!(Proxy::parse(text), Err(expected), "{text}");
        for text in
            ["", "x", "localhost", "10.0.0", "10.0.0.0.0", "10.0.0.0:80", "[::1]", "UNIX", "unix:/x", " ::1"]
        {
            check(text, ProxyError::Syntax);
        }
        for text in [
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "::/129",
            "::/8/8",
            "::/999",
        ] {
            check(text, ProxyError::Prefix);
        }
        check("10.0.0.1/8", ProxyError::HostBits("10.0.0.0".parse().unwrap(), 8));
        check("2001:db8::1/64", ProxyError::HostBits("2001:db8::".parse().unwrap(), 64));
        check("::ffff:10.0.0.1", ProxyError::Mapped);
        check("::ffff:10.0.0.0/104", ProxyError::Mapped);
    }

    /// `192.0.2.1 https host`: the origin of a request with these lines, or `own`.
    fn origin(peer: &str, lines: &str) -> String {
        let peer = if peer == "unix" { None } else { Some(peer.parse().unwrap()) };
        let bytes = format!("GET / HTTP/1.1\r\nHost: own\r\n{lines}\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(bytes.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        match proxies(&["10.0.0.0/8", "unix"]).origin(peer, &head) {
            None => "own".to_owned(),
            Some(Origin { client, scheme, authority }) => {
                let client = client.map_or("peer".to_owned(), |(address, _)| address.to_string());
                format!("{client} {} {}", scheme.as_str(), std::str::from_utf8(authority).unwrap())
            }
        }
    }

    #[test]
    fn only_a_trusted_peer_decides_the_origin() {
        let lines = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\n";
        for (peer, expected) in [
            ("10.1.2.3", "192.0.2.1 https a"),
            ("unix", "192.0.2.1 https a"),
            ("11.0.0.1", "own"),
            ("::1", "own"),
        ] {
            assert_eq!(origin(peer, lines), expected, "{peer}");
        }
        assert_eq!(origin("10.0.0.1", ""), "peer http own");
        assert_eq!(origin("10.0.0.1", "X-Forwarded-For: x\r\nX-Forwarded-Proto: x\r\n"), "peer http own");
        assert_eq!(origin("unix", "X-Forwarded-Proto: https\r\n"), "peer https own");
        assert_eq!(origin("unix", "Forwarded: for=192.0.2.1;proto=https;host=b\r\n"), "192.0.2.1 https b");
    }

    #[test]
    fn ignores_fields_that_contradict_each_other() {
        let x = "X-Forwarded-For: 192.0.2.1, 10.0.0.9\r\nX-Forwarded-Proto: https\r\n";
        for (forwarded, expected) in [
            ("for=192.0.2.1;proto=https", "192.0.2.1 https own"),
            ("for=\"192.0.2.1:80\"", "192.0.2.1 https own"),
            ("for=192.0.2.1;host=OWN, for=10.0.0.9", "192.0.2.1 https own"),
            // The client has sent one of the two kinds.
            ("for=192.0.2.2", "own"),
            ("for=192.0.2.1;proto=http", "own"),
            ("for=192.0.2.1;host=other", "own"),
            ("for=unknown", "own"),
            ("proto=https", "own"),
            ("for=\"x", "own"),
        ] {
            assert_eq!(
                origin("10.0.0.1", &format!("{x}Forwarded: {forwarded}\r\n")),
                expected,
                "{forwarded}"
            );
        }
        let of_a_client = "X-Forwarded-Host: evil\r\nForwarded: for=192.0.2.1;host=a\r\n";
        assert_eq!(origin("10.0.0.1", of_a_client), "own");
        let of_a_client = "X-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1\r\n";
        assert_eq!(origin("10.0.0.1", of_a_client), "own");
    }
}
