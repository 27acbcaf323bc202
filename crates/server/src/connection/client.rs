//! The client of a connection, and how many connections each client has.
//!
//! Connections are counted only where the configuration limits them. All workers then share the table of counts. It is
//! used when a connection begins and ends, and never for a request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, OnceLock};

use site::model::Site;
use site::proxies::{Proxies, Via};
use taipan_http::head::Head;

use crate::destination::{Destination, DestinationId};
use crate::mutex::locked;
use crate::peer::{CompactPeer, Peer, counted_address};

/// The client of a request, and how it came: from the peer, unless that is a trusted proxy. Then scheme and host of the
/// head are set as the proxy reports them.
#[inline]
pub fn origin(site: &Site, peer: Peer, head: &mut Head<'_>) -> (Peer, Via) {
    if site.trusted_proxies.is_empty() || peer == Peer::Unknown {
        return (peer, Via::Nothing);
    }
    match site.trusted_proxies.origin(peer.ip(), head) {
        None => (peer, Via::Nothing),
        Some(origin) => {
            (head.scheme, head.authority) = (origin.scheme, origin.authority);
            (origin.client.map_or(peer, Peer::from), Via::TrustedProxy)
        }
    }
}

/// The peer of a connection, counted until it is released or this is dropped.
#[derive(Debug)]
pub struct Client {
    peer: CompactPeer,
    destination: Destination,
    is_counted: bool,
}

/// The connections of each client.
struct ConnectionCounts {
    limit: usize,
    /// Their connections are not counted: they are those of many clients.
    proxies: Proxies,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

static COUNTS: OnceLock<ConnectionCounts> = OnceLock::new();

/// Limits the connections of each client of this process, once. 0: no limit.
pub fn limit_connections(limit: usize, proxies: &Proxies) {
    if limit > 0 {
        _ = COUNTS.set(ConnectionCounts { limit, proxies: proxies.clone(), connections: Mutex::default() });
    }
}

impl Client {
    /// Errors: it has as many connections as the limit allows.
    pub fn admit(peer: Peer, destination: Destination) -> Result<Client, Destination> {
        let is_admitted = match (COUNTS.get(), peer.ip()) {
            (Some(counts), Some(ip)) => counts.increment(ip, counts.limit),
            _ => true,
        };
        // Made only then, because dropping it decrements the count.
        match is_admitted {
            true => Ok(Client { peer: peer.into(), destination, is_counted: true }),
            false => Err(destination),
        }
    }

    /// A client that was admitted before, also above the limit.
    pub fn known(peer: Peer, destination: Destination) -> Client {
        if let (Some(counts), Some(ip)) = (COUNTS.get(), peer.ip()) {
            counts.increment(ip, usize::MAX);
        }
        Client { peer: peer.into(), destination, is_counted: true }
    }

    /// Counts its connection no more: it is rejected, and the number of these is limited by itself.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.is_counted)
            && let (Some(counts), Some(ip)) = (COUNTS.get(), self.peer().ip())
        {
            counts.decrement(ip);
        }
    }

    pub fn peer(&self) -> Peer {
        self.peer.into()
    }

    /// Where its connection was made to.
    pub fn destination(&self) -> DestinationId {
        self.destination.id()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.release();
    }
}

impl ConnectionCounts {
    fn increment(&self, ip: IpAddr, limit: usize) -> bool {
        if self.proxies.trust(Some(ip)) {
            return true;
        }
        let mut connections = locked(&self.connections);
        let count = connections.entry(counted_address(ip)).or_default();
        let is_below = *count < limit;
        *count += usize::from(is_below);
        is_below
    }

    fn decrement(&self, ip: IpAddr) {
        if self.proxies.trust(Some(ip)) {
            return;
        }
        let mut connections = locked(&self.connections);
        let ip = counted_address(ip);
        if let Some(count) = connections.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use site::network::Network;

    use super::*;

    #[test]
    fn limits_each_client_and_counts_connections_that_end() {
        let proxies = Proxies::new([Network::parse("10.0.0.0/8").unwrap()]);
        let counts = ConnectionCounts { limit: 2, proxies, connections: Mutex::default() };
        let increment = |ip: &str| counts.increment(ip.parse().unwrap(), counts.limit);
        assert!(increment("192.0.2.1") && increment("192.0.2.1") && !increment("192.0.2.1"));
        assert!(increment("192.0.2.2"), "another one");
        assert!((0..9).all(|_| increment("10.0.0.1")), "a proxy");
        counts.decrement("10.0.0.1".parse().unwrap());
        assert!(increment("2001:db8::1") && increment("2001:db8::2") && !increment("2001:db8:0:0:ffff::3"));
        assert!(increment("2001:db8:0:1::1"), "another 64 bits");
        counts.decrement("192.0.2.1".parse().unwrap());
        assert!(increment("192.0.2.1") && !increment("192.0.2.1"));
        for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::9", "2001:db8::9", "2001:db8:0:1::1"] {
            counts.decrement(ip.parse().unwrap());
        }
        assert!(counts.connections.lock().unwrap().is_empty());
    }
}
