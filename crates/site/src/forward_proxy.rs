//! The rules of the forward proxy: whose tunnels are opened and whose requests are forwarded, and where they may lead.
//!
//! Knows nothing of DNS: the caller passes each address that a name has.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use cache::settings::Settings;

use crate::endpoint::is_host_name;
use crate::network::Networks;
use crate::wildcard::Wildcard;

/// Clients, and destinations, of the configuration.
pub const MAX_ENTRIES: usize = 1024;
/// The ports of a configuration that names none.
pub const PORTS: [u16; 2] = [80, 443];
/// How long a connection to a destination may take to be made, by default.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of `[forward_proxy]`: which clients may reach which destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxy {
    pub clients: Networks,
    /// Destinations by name. They lead to public addresses only.
    pub names: Vec<Wildcard>,
    /// Destinations by address.
    pub networks: Networks,
    pub ports: Vec<u16>,
    /// For the resolution of the name, and for all of its addresses.
    pub connect_timeout: Duration,
    /// `None`: only tunnels are opened.
    pub http: Option<HttpForwarding>,
}

/// How requests by plain HTTP are forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpForwarding {
    /// From the end of the request to the end of the response head.
    pub first_byte: Duration,
    /// Without a byte of the response, while the client receives all of it.
    pub idle: Duration,
    /// How long a connection waits for another request to the same server. Zero: each request has its own.
    pub keep: Duration,
    /// The most such connections of a worker.
    pub idle_connections: usize,
    /// How responses are stored. `None`: they are not.
    pub cache: Option<Arc<Settings>>,
}

impl Default for HttpForwarding {
    fn default() -> HttpForwarding {
        HttpForwarding {
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            keep: Duration::from_secs(15),
            idle_connections: 64,
            cache: None,
        }
    }
}

impl ForwardProxy {
    /// Connections of a worker that wait for another request.
    pub fn idle_connections(&self) -> usize {
        self.http.as_ref().filter(|http| !http.keep.is_zero()).map_or(0, |http| http.idle_connections)
    }

    /// Whether responses for URLs are stored.
    pub fn stores_responses(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.cache.is_some())
    }
}

/// Where a tunnel is to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Address(IpAddr),
    /// Without a dot at its end.
    Name(String),
}

/// Why there is no tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyRejection {
    Client,
    Port,
    /// It is neither a name nor an address.
    Host,
    Destination,
    /// No entry names a network with this address.
    Address(IpAddr),
}

impl ForwardProxy {
    /// Reads `host:port`, and checks what can be known before the name is resolved. `client`: `None` is a Unix socket.
    pub fn check(&self, client: Option<IpAddr>, authority: &str) -> Result<(Host, u16), ProxyRejection> {
        if !self.clients.contains(client) {
            return Err(ProxyRejection::Client);
        }
        let (host, port) = authority.rsplit_once(':').ok_or(ProxyRejection::Host)?;
        let port = port.parse().ok().filter(|port| self.ports.contains(port)).ok_or(ProxyRejection::Port)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match inner.unwrap_or(host).parse::<IpAddr>() {
            Ok(ip) => Host::Address(ip.to_canonical()),
            Err(_) if inner.is_none() && is_host_name(host) => {
                Host::Name(host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase())
            }
            Err(_) => return Err(ProxyRejection::Host),
        };
        match host {
            Host::Address(ip) => self.check_address(&host, ip)?,
            // A network may have one of its addresses.
            Host::Name(_) if self.names_host(&host) || !self.networks.is_empty() => {}
            Host::Name(_) => return Err(ProxyRejection::Destination),
        }
        Ok((host, port))
    }

    /// Whether a tunnel to a host may use this address of it.
    pub fn check_address(&self, host: &Host, ip: IpAddr) -> Result<(), ProxyRejection> {
        let ip = ip.to_canonical();
        match self.networks.contains(Some(ip)) {
            true => Ok(()),
            false if !self.names_host(host) => Err(ProxyRejection::Destination),
            false if !is_public(ip) => Err(ProxyRejection::Address(ip)),
            false => Ok(()),
        }
    }

    /// Whether an address may be that of this machine itself: only if it is named as such.
    pub fn allows_own_address(&self, ip: IpAddr) -> bool {
        self.networks.contains(Some(ip.to_canonical()))
    }

    fn names_host(&self, host: &Host) -> bool {
        let text = host.to_string();
        self.names.iter().any(|name| name.matches(text.as_bytes()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(ip) => ip.fmt(out),
            Host::Name(name) => name.fmt(out),
        }
    }
}

impl fmt::Display for ProxyRejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyRejection::Client => out.write_str("the client is not within \"clients\""),
            ProxyRejection::Port => out.write_str("the port is not one of \"ports\""),
            ProxyRejection::Host => out.write_str("it is neither a name nor an address"),
            ProxyRejection::Destination => out.write_str("it is not within \"destinations\""),
            ProxyRejection::Address(ip) => {
                write!(out, "{ip} is not a public address, and no network of \"destinations\" has it")
            }
        }
    }
}

/// Whether an address belongs to the internet, and to one host there (the registries of RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = match (a, b, c) {
        // "This network", shared addresses (RFC 6598), protocol assignments, benchmarks (RFC 2544).
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) => true,
        // The anycast relays of 6to4; multicast, and what is reserved.
        (192, 88, 99) | (224.., ..) => true,
        _ => false,
    };
    !(is_special || ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_documentation())
}

/// Only global unicast addresses, and those whose IPv4 address is public.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Protocol assignments with Teredo, and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    fn networks(texts: &[&str]) -> Networks {
        Networks::new(texts.iter().map(|text| Network::parse(text).unwrap()))
    }

    fn proxy(names: &[&str], destinations: &[&str]) -> ForwardProxy {
        ForwardProxy {
            clients: networks(&["10.0.0.0/8"]),
            names: names.iter().filter_map(|text| Wildcard::new(text)).collect(),
            networks: networks(destinations),
            ports: PORTS.to_vec(),
            connect_timeout: CONNECT_TIMEOUT,
            http: None,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for text in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1", "2606:4700::1", "64:ff9b::101:101"]
        {
            assert!(is_public(ip(text)), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(ip(text)), "{text}");
        }
    }

    #[test]
    fn checks_client_port_and_host_before_the_name_is_resolved() {
        let proxy = proxy(&["*.example.org", "1.1.1.*", "2606:*", "localhost"], &[]);
        let client = Some(ip("10.1.1.1"));
        for (authority, expected) in [
            ("a.example.org:443", None),
            ("A.Example.ORG.:80", None),
            ("1.1.1.1:443", None),
            ("[2606:4700::1]:443", None),
            // Its addresses are checked later.
            ("localhost:80", None),
            ("example.org:443", Some(ProxyRejection::Destination)),
            ("a.example.org.evil.test:443", Some(ProxyRejection::Destination)),
            ("a.example.org:22", Some(ProxyRejection::Port)),
            ("a.example.org:65979", Some(ProxyRejection::Port)),
            ("a.example.org:", Some(ProxyRejection::Port)),
            ("127.0.0.1:80", Some(ProxyRejection::Destination)),
            ("127.1:80", Some(ProxyRejection::Host)),
            ("2130706433:80", Some(ProxyRejection::Host)),
            ("0x7f000001:80", Some(ProxyRejection::Host)),
            ("[::1]:80", Some(ProxyRejection::Destination)),
            ("[localhost]:80", Some(ProxyRejection::Host)),
            ("a.example.org", Some(ProxyRejection::Host)),
        ] {
            assert_eq!(proxy.check(client, authority).err(), expected, "{authority}");
        }
        for client in [Some(ip("11.0.0.1")), None] {
            assert_eq!(proxy.check(client, "a.example.org:443"), Err(ProxyRejection::Client));
        }
    }

    #[test]
    fn an_address_that_is_not_public_has_to_be_within_a_network() {
        let all = proxy(&["*"], &[]);
        let some = proxy(&["*"], &["127.0.0.2", "192.168.0.0/16"]);
        let networks_alone = proxy(&[], &["127.0.0.2"]);
        let host = Host::Name("a.test".to_owned());
        for (address, of_all, of_some, of_networks) in [
            ("1.1.1.1", None, None, Some(ProxyRejection::Destination)),
            ("127.0.0.2", Some(ProxyRejection::Address(ip("127.0.0.2"))), None, None),
            ("::ffff:127.0.0.2", Some(ProxyRejection::Address(ip("127.0.0.2"))), None, None),
            (
                "127.0.0.1",
                Some(ProxyRejection::Address(ip("127.0.0.1"))),
                Some(ProxyRejection::Address(ip("127.0.0.1"))),
                Some(ProxyRejection::Destination),
            ),
        ] {
            let found =
                [&all, &some, &networks_alone].map(|proxy| proxy.check_address(&host, ip(address)).err());
            assert_eq!(found, [of_all, of_some, of_networks], "{address}");
        }
    }
}
