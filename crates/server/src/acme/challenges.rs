//! The certificates with which a generation answers TLS-ALPN-01 challenges (RFC 8737).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use rustls::sign::CertifiedKey;
use site::certificates::Challenge;
use site::model::Site;

use super::stored::unchecked;
use crate::mutex::locked;
use crate::tls::Challenges;

/// Open challenges. Each is for a name of a certificate that is being ordered.
const MAX_CHALLENGES: usize = 1000;

/// All workers share it, and read it only in a handshake of a challenge.
#[derive(Default)]
pub struct OpenChallenges(Mutex<HashMap<String, Arc<CertifiedKey>>>);

impl OpenChallenges {
    /// Answers those that are open already, by name: also where an order that has begun under another configuration is
    /// finished. Also as handshakes see it. `None`: the site has no such challenges.
    pub fn of(
        site: &Site,
        already: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> (Arc<OpenChallenges>, Option<Arc<dyn Challenges>>) {
        let open = Arc::new(OpenChallenges::default());
        already.iter().for_each(|(name, pem)| open.set(name, pem));
        let is_tried = site.certificates.challenges.contains(&Challenge::TlsAlpn);
        let has_some = !already.is_empty() || is_tried && site.hosts.iter().any(|host| host.tls.acme);
        let answered = has_some.then(|| open.clone() as Arc<dyn Challenges>);
        (open, answered)
    }

    /// Answers with this certificate, in PEM with its key behind it, or no more if it is empty.
    pub fn set(&self, name: &[u8], pem: &[u8]) {
        let Ok(name) = str::from_utf8(name) else { return };
        let (mut open, name) = (locked(&self.0), name.to_ascii_lowercase());
        open.remove(&name);
        // The library knows the critical extension of a challenge only as an unknown one, and would reject it.
        if let Ok(certified) = unchecked(pem)
            && open.len() < MAX_CHALLENGES
        {
            open.insert(name, Arc::new(certified));
        }
    }
}

impl Challenges for OpenChallenges {
    fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        locked(&self.0).get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::issue;
    use super::*;

    #[test]
    fn a_challenge_is_answered_until_it_is_withdrawn() {
        let open = OpenChallenges::default();
        let pem = issue::challenge("a.example", &[7; 32]).unwrap().pem();
        open.set(b"A.example", pem.as_bytes());
        assert!(open.certificate("a.example").is_some() && open.certificate("b.example").is_none());
        open.set(b"a.example", b"");
        assert!(open.certificate("a.example").is_none());
        open.set(b"a.example", b"no certificate");
        open.set(b"\xff", pem.as_bytes());
        assert!(open.certificate("a.example").is_none());
    }

    #[test]
    fn challenges_are_bounded_and_the_last_one_is_answered_again() {
        let open = OpenChallenges::default();
        let pem = issue::challenge("a.example", &[7; 32]).unwrap().pem();
        let name = |number: usize| format!("{number}.example");
        (0..=MAX_CHALLENGES).for_each(|number| open.set(name(number).as_bytes(), pem.as_bytes()));
        assert!(open.certificate(&name(MAX_CHALLENGES)).is_none());
        open.set(name(7).as_bytes(), pem.as_bytes());
        assert!(open.certificate(&name(7)).is_some());
    }
}
