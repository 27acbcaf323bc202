//! Who is at the other end of a connection, and how many connections each of them has.
//!
//! Connections are counted by address only where the configuration limits them. The table is then the one
//! thing that workers share: it is looked at when a connection comes and when it goes, and never for a
//! request.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, OnceLock, PoisonError};

use site::proxies::Proxies;

use crate::peer::Peer;

/// A peer for as long as its connection lasts; it is counted from its making to its end.
#[derive(Debug)]
pub struct Client(Peer);

/// Connections by client.
struct Census {
    limit: usize,
    /// Their connections are those of many clients, and not counted.
    proxies: Proxies,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

static CENSUS: OnceLock<Census> = OnceLock::new();

/// Limits the connections of each client of this process, once. 0: no limit.
pub fn limit_connections(limit: usize, proxies: &Proxies) {
    if limit > 0 {
        _ = CENSUS.set(Census { limit, proxies: proxies.clone(), connections: Mutex::default() });
    }
}

impl Client {
    /// `None`: it has as many connections as it may.
    pub fn admit(peer: Peer) -> Option<Client> {
        let is_welcome = match (CENSUS.get(), peer.ip()) {
            (Some(census), Some(ip)) => census.enter(ip, census.limit),
            _ => true,
        };
        // Made only then: one that is dropped counts as one that leaves.
        is_welcome.then(|| Client(peer))
    }

    /// Whoever has been let in already, however many connections there are.
    pub fn known(peer: Peer) -> Client {
        if let (Some(census), Some(ip)) = (CENSUS.get(), peer.ip()) {
            census.enter(ip, usize::MAX);
        }
        Client(peer)
    }

    pub fn peer(&self) -> Peer {
        self.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let (Some(census), Some(ip)) = (CENSUS.get(), self.0.ip()) {
            census.leave(ip);
        }
    }
}

impl Census {
    fn enter(&self, ip: IpAddr, limit: usize) -> bool {
        if self.proxies.trust(Some(ip)) {
            return true;
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = connections.entry(customer(ip)).or_default();
        let has_room = *count < limit;
        *count += usize::from(has_room);
        has_room
    }

    fn leave(&self, ip: IpAddr) {
        if self.proxies.trust(Some(ip)) {
            return;
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let ip = customer(ip);
        if let Some(count) = connections.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&ip);
            }
        }
    }
}

/// What one customer has: an IPv4 address, or 64 bits of an IPv6 address.
fn customer(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use site::proxies::Proxy;

    use super::*;

    #[test]
    fn each_customer_has_a_limit_and_a_place_that_is_given_back_counts_again() {
        let proxies = Proxies::new(vec![Proxy::parse("10.0.0.0/8").unwrap()]);
        let census = Census { limit: 2, proxies, connections: Mutex::default() };
        let enter = |ip: &str| census.enter(ip.parse().unwrap(), census.limit);
        assert!(enter("192.0.2.1") && enter("192.0.2.1") && !enter("192.0.2.1"));
        assert!(enter("192.0.2.2"), "another one");
        assert!((0..9).all(|_| enter("10.0.0.1")), "a proxy");
        census.leave("10.0.0.1".parse().unwrap());
        assert!(enter("2001:db8::1") && enter("2001:db8::2") && !enter("2001:db8:0:0:ffff::3"));
        assert!(enter("2001:db8:0:1::1"), "another 64 bits");
        census.leave("192.0.2.1".parse().unwrap());
        assert!(enter("192.0.2.1") && !enter("192.0.2.1"));
        for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::9", "2001:db8::9", "2001:db8:0:1::1"] {
            census.leave(ip.parse().unwrap());
        }
        assert!(census.connections.lock().unwrap().is_empty());
    }
}
