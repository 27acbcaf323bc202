//! The addresses of `A:` and `D:`: `172.20.` and `10.0.0.0/25` and `10.0.0.0/255.255.255.128`.

use std::net::Ipv4Addr;

/// A network of IPv4.
pub struct Network {
    /// In the usual form, without bits behind the mask.
    pub text: String,
    /// There are none as given either. In busybox, no client is in another one.
    pub is_exact: bool,
    /// It has the address 0.0.0.0, which clients by IPv6 have in busybox.
    has_zero: bool,
}

impl Network {
    /// The networks that are denied. One that was to be denied is, whichever its bits behind the mask are.
    pub fn denied(self) -> Vec<String> {
        let ipv6 = self.has_zero.then(|| "::/0".to_owned());
        std::iter::once(self.text).chain(ipv6).collect()
    }
}

/// Reads a network. `None`: it is none, and busybox then denies everything.
pub fn network(text: &str) -> Option<Network> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    let (octets, count) = octets(address)?;
    let bits = match mask {
        None => 8 * count,
        Some(mask) if mask.contains('.') => {
            let mask = u32::from(mask.parse::<Ipv4Addr>().ok()?);
            let bits = mask.leading_ones();
            (mask.count_ones() == bits).then_some(bits)?
        }
        Some(mask) => mask.parse().ok().filter(|bits| *bits <= 32)?,
    };
    let (address, mask) = (u32::from(octets), if bits == 0 { 0 } else { u32::MAX << (32 - bits) });
    let kept = address & mask;
    let text = format!("{}/{bits}", Ipv4Addr::from(kept));
    Some(Network { text, is_exact: kept == address, has_zero: kept == 0 })
}

/// The octets that are given, and their number; the others are 0.
fn octets(text: &str) -> Option<(Ipv4Addr, u32)> {
    let parts: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(&parts) {
        *octet = part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))?;
    }
    Some((octets.into(), parts.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_prefixes_and_masks() {
        for (text, expected) in [
            ("172.20.", Some("172.20.0.0/16")),
            ("172.20", Some("172.20.0.0/16")),
            ("10", Some("10.0.0.0/8")),
            ("10.0.0.0/25", Some("10.0.0.0/25")),
            ("10.0.0.200/255.255.255.128", Some("10.0.0.128/25")),
            ("127.0.0.1", Some("127.0.0.1/32")),
            ("1.2.3.4/0", Some("0.0.0.0/0")),
            ("10.0.0.0/255.0.255.0", None),
            ("1.2.3.4.5", None),
            ("1.2.3.256", None),
            ("10.0.0.0/33", None),
            ("example.org", None),
            ("+1.2.3.4", None),
            ("", None),
        ] {
            assert_eq!(network(text).map(|network| network.text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_network_with_zero_has_the_clients_by_ipv6() {
        for (text, expected) in [("0.0.0.0/0", 2), ("0/0", 2), ("0.0.0.0/8", 2), ("10.", 1), ("0.1.", 1)] {
            assert_eq!(network(text).map_or(0, |network| network.denied().len()), expected, "{text}");
        }
    }
}
