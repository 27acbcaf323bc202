//! Which connections an administrator ends: one by its ID, or all of the clients in a network. Knows nothing of
//! sockets.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::network::{Network, Networks};

/// Bytes of the text of a selection.
pub const LONGEST: usize = 128;
const CONNECTION: &str = "connection ";
const CLIENT: &str = "client ";

/// The number that the kernel has for a socket (socket(7), SO_COOKIE). No later socket has the same one, and another
/// process that continues with the connection finds it again. Its text is that of `ss -e`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId(NonZeroU64);

impl ConnectionId {
    /// `None`: 0 is no number of a socket.
    pub fn new(number: u64) -> Option<ConnectionId> {
        NonZeroU64::new(number).map(ConnectionId)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for ConnectionId {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectionId, String> {
        let is_hex = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.and_then(ConnectionId::new).ok_or_else(|| {
            format!(
                "\"{}\" is no ID of a connection, such as 1a2b; taipan top shows them",
                text.escape_debug()
            )
        })
    }
}

/// The connections that are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    Connection(ConnectionId),
    Clients(Clients),
}

/// The clients in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients {
    network: Network,
    found: Networks,
}

impl Clients {
    /// Errors: what to write.
    pub fn parse(text: &str) -> Result<Clients, String> {
        let network = Network::parse(text).map_err(|error| format!("{}: {error}", text.escape_debug()))?;
        Ok(Clients { network, found: Networks::new([network]) })
    }

    /// As `Networks::contains`.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        self.found.contains(address)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::Connection(id) => write!(f, "{CONNECTION}{id}"),
            Selection::Clients(clients) => write!(f, "{CLIENT}{}", clients.network),
        }
    }
}

/// The reverse of `Display`.
impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Selection, String> {
        match (text.strip_prefix(CONNECTION), text.strip_prefix(CLIENT)) {
            (Some(id), _) => Ok(Selection::Connection(id.parse()?)),
            (_, Some(network)) => Ok(Selection::Clients(Clients::parse(network)?)),
            (None, None) => Err("name a connection, or a client".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_parsed_from_its_text() {
        for text in [
            "connection 1",
            "connection ffffffffffffffff",
            "client 192.0.2.7",
            "client 10.0.0.0/8",
            "client 0.0.0.0/0",
            "client 2001:db8::1",
            "client 2001:db8::/32",
            "client unix",
        ] {
            assert_eq!(text.parse::<Selection>().map(|selection| selection.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "1a2b",
            "connection",
            "connection ",
            "connection 0",
            "connection 0x1",
            "connection +1",
            "connection 1g",
            "connection 1 ",
            "connection 10000000000000000",
            "client",
            "client ",
            "client 10.0.0.1/8",
            "client 10.0.0.0/33",
            "client a.example",
            "client ::ffff:10.0.0.1",
            "client 10.0.0.1\n",
        ] {
            assert!(text.parse::<Selection>().is_err(), "{text:?}");
        }
        assert_eq!(
            "connection 00AB".parse::<Selection>().map(|all| all.to_string()),
            Ok("connection ab".into())
        );
    }

    #[test]
    fn clients_are_those_in_the_network() {
        let contains = |network: &str, address: &str| {
            Clients::parse(network).is_ok_and(|clients| clients.contains(address.parse().ok()))
        };
        assert!(contains("10.0.0.0/8", "10.1.2.3") && !contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("2001:db8::/32", "2001:db8::9") && !contains("0.0.0.0/0", "2001:db8::9"));
        assert!(Clients::parse("unix").is_ok_and(|clients| clients.contains(None)));
        assert!(Clients::parse("0.0.0.0/0").is_ok_and(|clients| !clients.contains(None)));
    }
}
