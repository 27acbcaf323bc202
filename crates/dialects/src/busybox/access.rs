//! The addresses of `A:` and `D:`: `172.20.` and `10.0.0.0/25` and `10.0.0.0/255.255.255.128`.

use std::net::Ipv4Addr;

/// The network in the usual form. `None`: it is none, and busybox then denies everything.
pub fn network(text: &str) -> Option<String> {
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
    let kept = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
    Some(format!("{}/{bits}", Ipv4Addr::from(u32::from(octets) & kept)))
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
            assert_eq!(network(text).as_deref(), expected, "{text}");
        }
    }
}
