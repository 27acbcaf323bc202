//! The addresses that a server listens on: all of a machine where none is given, or those of a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::disk::Disk;

pub fn everywhere(disk: &dyn Disk) -> Vec<IpAddr> {
    let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    all.into_iter().filter(|address| can_have(address, disk)).collect()
}

/// A machine without IPv6 has none of its addresses.
fn can_have(address: &IpAddr, disk: &dyn Disk) -> bool {
    address.is_ipv4() || disk.is_file(Path::new("/proc/net/if_inet6"))
}

/// An address, or those of a name in /etc/hosts that the machine can have: the network may not be there yet when a device
/// starts.
pub fn addresses_of(host: &str, disk: &dyn Disk) -> Vec<IpAddr> {
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    let text = disk.read(Path::new("/etc/hosts")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut found: Vec<IpAddr> = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next().and_then(|word| word.parse().ok());
        if let Some(address) = address.filter(|_| words.any(|name| name.eq_ignore_ascii_case(host)))
            && !found.contains(&address)
            && can_have(&address, disk)
        {
            found.push(address);
        }
    }
    found
}
