//! Networks: IP addresses that have their first bits in common, and sets of them.
//!
//! Knows nothing of what a network is for.

use std::fmt;
use std::net::IpAddr;

/// As a configuration writes it: `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32`, or `unix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// An address, and the number of its first bits that count.
    Ip(IpAddr, u8),
    /// Every peer on a Unix socket that the server listens on.
    Unix,
}

/// Why a text is not a network. The message says what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkError {
    Syntax,
    /// More bits than an address has, or not a number.
    Prefix,
    /// Bits behind the prefix are set. The network is the probable meaning.
    HostBits(IpAddr, u8),
    /// An IPv4-mapped IPv6 address. The server sees such clients as IPv4.
    Mapped,
}

/// A set of networks. A search in it takes as many steps as the number of networks has bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// First and last address of each range, in ascending order. No two ranges have an address in common.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    has_unix: bool,
}

/// Every peer of a Unix socket.
const UNIX: &str = "unix";

impl Networks {
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Networks {
        let mut set = Networks::default();
        for network in networks {
            match network {
                Network::Unix => set.has_unix = true,
                Network::Ip(IpAddr::V4(first), prefix) => {
                    let first = first.to_bits();
                    set.v4.push((first, first | u32::MAX.checked_shr(prefix.into()).unwrap_or(0)));
                }
                Network::Ip(IpAddr::V6(first), prefix) => {
                    let first = first.to_bits();
                    set.v6.push((first, first | u128::MAX.checked_shr(prefix.into()).unwrap_or(0)));
                }
            }
        }
        merge(&mut set.v4);
        merge(&mut set.v6);
        set
    }

    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty() && !self.has_unix
    }

    /// `address` is not IPv4-mapped. `None` is a peer on a Unix socket.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        match address {
            None => self.has_unix,
            Some(IpAddr::V4(address)) => search(&self.v4, address.to_bits()),
            Some(IpAddr::V6(address)) => search(&self.v6, address.to_bits()),
        }
    }
}

/// Sorts ranges, and makes one of those that overlap.
fn merge<T: Ord + Copy>(ranges: &mut Vec<(T, T)>) {
    sort::by(ranges, Ord::cmp);
    ranges.dedup_by(|next, kept| {
        let overlaps = next.0 <= kept.1;
        if overlaps {
            kept.1 = kept.1.max(next.1);
        }
        overlaps
    });
}

fn search<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind.checked_sub(1).is_some_and(|at| address <= ranges[at].1)
}

impl Network {
    /// An address, a network such as `192.0.2.0/24`, whose address has no bits behind the prefix, or `unix`.
    pub fn parse(text: &str) -> Result<Network, NetworkError> {
        if text == UNIX {
            return Ok(Network::Unix);
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Syntax)?;
        if address != address.to_canonical() {
            return Err(NetworkError::Mapped);
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
            return Err(NetworkError::Prefix);
        }
        let network = first_bits(address, prefix);
        if network != address {
            return Err(NetworkError::HostBits(network, prefix));
        }
        Ok(Network::Ip(network, prefix))
    }
}

/// As `Network::parse` reads it.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::Unix => f.write_str(UNIX),
            Network::Ip(address, prefix) => match (address, prefix) {
                (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => write!(f, "{address}"),
                _ => write!(f, "{address}/{prefix}"),
            },
        }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::Syntax => f.write_str(
                "write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are \
                 not resolved",
            ),
            NetworkError::Prefix => {
                f.write_str("write a number behind the slash: at most 32 for IPv4, 128 for IPv6")
            }
            NetworkError::HostBits(network, prefix) => {
                write!(f, "write \"{network}/{prefix}\", or the address alone")
            }
            NetworkError::Mapped => f.write_str("write it as an IPv4 address"),
        }
    }
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
    use proptest::prelude::*;

    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        Networks::new(texts.iter().map(|text| Network::parse(text).unwrap()))
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let check = |network: &str, address: &str, expected| {
            let address = if address == "unix" { None } else { Some(address.parse().unwrap()) };
            assert_eq!(networks(&[network]).contains(address), expected, "{network} {address:?}");
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
        assert!(!networks(&[]).contains(None) && networks(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_contains(
            parts in proptest::collection::vec((any::<u32>(), 0..=32_u8), 0..20),
            probes in proptest::collection::vec(any::<u32>(), 20),
        ) {
            let of = |bits: u32, prefix| Network::Ip(first_bits(IpAddr::V4(bits.into()), prefix), prefix);
            let set = Networks::new(parts.iter().map(|&(bits, prefix)| of(bits, prefix)));
            // The neighbours of each network, too.
            let near = parts.iter().flat_map(|&(bits, _)| [bits, bits.wrapping_add(1), bits.wrapping_sub(1)]);
            for bits in probes.into_iter().chain(near) {
                let address = IpAddr::V4(bits.into());
                let expected = parts.iter().any(|&(own, prefix)| {
                    first_bits(address, prefix) == first_bits(IpAddr::V4(own.into()), prefix)
                });
                prop_assert_eq!(set.contains(Some(address)), expected);
            }
        }
    }

    #[test]
    fn rejects_invalid_networks() {
        let check =
            |text: &str, expected: NetworkError| assert_eq!(Network::parse(text), Err(expected), "{text}");
        for text in
            ["", "x", "localhost", "10.0.0", "10.0.0.0.0", "10.0.0.0:80", "[::1]", "UNIX", "unix:/x", " ::1"]
        {
            check(text, NetworkError::Syntax);
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
            check(text, NetworkError::Prefix);
        }
        check("10.0.0.1/8", NetworkError::HostBits("10.0.0.0".parse().unwrap(), 8));
        check("2001:db8::1/64", NetworkError::HostBits("2001:db8::".parse().unwrap(), 64));
        check("::ffff:10.0.0.1", NetworkError::Mapped);
        check("::ffff:10.0.0.0/104", NetworkError::Mapped);
    }
}
