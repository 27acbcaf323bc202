//! How often each client may begin a TLS handshake, which costs the server much more than the client.
//!
//! Handshakes are counted only where the configuration limits them. All workers then share the table, which is used
//! when a connection is accepted. Its size is constant: when it is full, the client that has been quiet longest is
//! forgotten.

use std::hash::BuildHasher;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use foldhash::fast::RandomState;
use site::proxies::Proxies;

use crate::mutex::locked;
use crate::peer::{Peer, counted_address};

/// The table has so many sets, and a client has its place in one of them: 64 KiB in all.
const SETS: usize = 1024;
const WAYS: usize = 4;
/// As many handshakes as one second allows may come at once.
const BURST: u64 = 1_000_000;

struct HandshakeRates {
    /// Microseconds between two handshakes of a client.
    interval: u64,
    /// Their handshakes are not counted: they are those of many clients.
    proxies: Proxies,
    hasher: RandomState,
    began: Instant,
    table: Mutex<Box<[Set]>>,
}

type Set = [Entry; WAYS];

/// The generic cell rate algorithm (ITU-T I.371): a handshake moves `due` on by the interval, and `due` may be ahead of
/// the present by a burst.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    client: u64,
    /// In microseconds.
    due: u64,
}

static RATES: OnceLock<HandshakeRates> = OnceLock::new();

/// Limits the handshakes per second of each client of this process, once. 0: no limit.
pub fn limit_handshakes(rate: u32, proxies: &Proxies) {
    if rate > 0 {
        _ = RATES.set(HandshakeRates::new(rate, proxies));
    }
}

/// Whether a client may begin a handshake now.
pub fn admits(peer: Peer) -> bool {
    RATES.get().is_none_or(|rates| rates.admit(peer, rates.began.elapsed().as_micros() as u64))
}

impl HandshakeRates {
    fn new(rate: u32, proxies: &Proxies) -> HandshakeRates {
        HandshakeRates {
            interval: BURST / u64::from(rate),
            proxies: proxies.clone(),
            hasher: RandomState::default(),
            began: Instant::now(),
            table: Mutex::new(vec![Set::default(); SETS].into()),
        }
    }

    fn admit(&self, peer: Peer, now: u64) -> bool {
        let Some(ip) = peer.ip().filter(|ip| !self.proxies.trust(Some(*ip))) else { return true };
        let client = self.hasher.hash_one(counted_address(ip));
        let mut table = locked(&self.table);
        let set = &mut table[client as usize % SETS];
        let known = set.iter().position(|entry| entry.client == client);
        let quietest = || (0..WAYS).min_by_key(|at| set[*at].due).unwrap_or_default();
        let at = known.unwrap_or_else(quietest);
        let due = known.map_or(now, |at| set[at].due.max(now)) + self.interval;
        let is_admitted = due <= now + BURST;
        if is_admitted {
            set[at] = Entry { client, due };
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use site::network::Network;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn peer(ip: &str) -> Peer {
        Peer::from((ip.parse().expect("it is an address"), None))
    }

    fn rates(rate: u32) -> HandshakeRates {
        HandshakeRates::new(rate, &Proxies::new([Network::parse("10.0.0.0/8").expect("it is one")]))
    }

    #[test]
    fn a_client_has_a_burst_and_then_its_rate() {
        let rates = rates(4);
        let admitted = |ip: &str, now: u64| (0..100).filter(|_| rates.admit(peer(ip), now)).count();
        for (ip, now, expected) in [
            ("192.0.2.1", 0, 4),
            ("192.0.2.1", 0, 0),
            ("192.0.2.2", 0, 4),
            ("192.0.2.1", SECOND / 4 - 1, 0),
            ("192.0.2.1", SECOND / 4, 1),
            ("192.0.2.1", SECOND, 3),
            ("192.0.2.1", 100 * SECOND, 4),
            ("2001:db8::1", 0, 4),
            ("2001:db8::2", 0, 0),
            ("2001:db8:0:1::", 0, 4),
            ("10.0.0.1", 0, 100),
        ] {
            assert_eq!(admitted(ip, now), expected, "{ip} at {now}");
        }
    }

    #[test]
    fn the_highest_rate_is_counted_and_a_full_table_admits_new_clients() {
        let rates = rates(100_000);
        assert_eq!((0..200_000).filter(|_| rates.admit(peer("192.0.2.1"), 0)).count(), 100_000);
        let rates = self::rates(1);
        for number in 0..100_000_u32 {
            let [_, b, c, d] = number.to_be_bytes();
            assert!(rates.admit(peer(&format!("11.{b}.{c}.{d}")), u64::from(number)), "client {number}");
        }
        assert!(!rates.admit(peer("11.1.134.159"), 100_000), "the last one is known");
    }
}
