//! The trusted proxies, and the origin of a request by the fields that they send.
//!
//! Knows nothing of connections: the caller passes the address of the peer.

use std::net::IpAddr;

use taipan_http::forwarded::{self, Forwarded};
use taipan_http::head::Head;
use taipan_http::target::Scheme;

use crate::network::{Network, Networks};

/// Proxies of a site.
pub const MAX_PROXIES: usize = 1024;

/// The trusted proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(Networks);

/// Whether a trusted proxy has forwarded a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The peer is the client, or a proxy that is not trusted.
    Nothing,
    TrustedProxy,
}

/// The origin of a request that a trusted proxy has forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardedOrigin<'a> {
    /// `None`: the proxy names no client, and is the client itself. The port may be unknown.
    pub client: Option<(IpAddr, Option<u16>)>,
    pub scheme: Scheme,
    pub authority: &'a [u8],
}

impl Proxies {
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Proxies {
        Proxies(Networks::new(networks))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the peer of a connection is trusted. `None` is a peer on a Unix socket.
    pub fn trust(&self, peer: Option<IpAddr>) -> bool {
        self.0.contains(peer)
    }

    /// The origin of a request from this peer. `None`: the peer is not trusted, or its fields contradict each other.
    ///
    /// `X-Forwarded-For`, `-Proto` and `-Host` decide, or else `Forwarded` (RFC 7239). A proxy writes one kind, and may
    /// pass on the other kind from its client. If a request has both, they must agree.
    pub fn origin<'a>(&self, peer: Option<IpAddr>, head: &Head<'a>) -> Option<ForwardedOrigin<'a>> {
        if !self.trust(peer) {
            return None;
        }
        let trusts = |address| self.trust(Some(address));
        let of = |said: Forwarded<'a>| ForwardedOrigin {
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

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    fn proxies(texts: &[&str]) -> Proxies {
        Proxies::new(texts.iter().map(|text| Network::parse(text).unwrap()))
    }

    /// `192.0.2.1 https host`: the origin of a request with these lines, or `own`.
    fn origin(peer: &str, lines: &str) -> String {
        let peer = if peer == "unix" { None } else { Some(peer.parse().unwrap()) };
        let bytes = format!("GET / HTTP/1.1\r\nHost: own\r\n{lines}\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(bytes.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        match proxies(&["10.0.0.0/8", "unix"]).origin(peer, &head) {
            None => "own".to_owned(),
            Some(ForwardedOrigin { client, scheme, authority }) => {
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
