//! All addresses of a machine, for servers that listen on them where no address is given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::disk::Disk;

/// A machine without IPv6 has none of its addresses.
pub fn everywhere(disk: &dyn Disk) -> Vec<IpAddr> {
    let has_ipv6 = disk.is_file(Path::new("/proc/net/if_inet6"));
    let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    all.into_iter().filter(|address| address.is_ipv4() || has_ipv6).collect()
}
