//! Nonces of Digest: the server keeps no list of those that it gave out, but knows them by a MAC; and which requests it
//! had with one.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

const MAC_BYTES: usize = 16;

/// How much later than the latest request an earlier one may be: HTTP/2 may reorder that many.
const WINDOW: u32 = u128::BITS;

/// A nonce that this server made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce {
    /// When it was made, in seconds.
    pub time: i64,
    /// Distinguishes nonces of the same second. The caller may put in it which worker made the nonce.
    pub unique: u64,
}

/// What a nonce and its count (`nc`) mean for replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    First,
    /// The same request was here already: it is refused.
    Again,
    /// Whether it was here is no longer known: the client gets a new nonce, with `stale=true`.
    Forgotten,
}

/// The counts that were seen with each nonce. The number of nonces has a bound: the oldest are forgotten first, and
/// what is forgotten is stale.
#[derive(Debug, Clone)]
pub struct Uses {
    windows: BTreeMap<Nonce, Window>,
    most: usize,
    /// Neither this nonce nor one that was made before is taken, unless it has a window.
    forgotten: Option<Nonce>,
}

/// The greatest count, and which of those up to it were seen. Bit 0 is the greatest.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    greatest: u32,
    seen: u128,
}

impl Nonce {
    /// As text. The key is 32 random bytes of the server.
    pub fn sign(self, key: &[u8; 32]) -> String {
        BASE64_URL_SAFE_NO_PAD.encode([&self.bytes()[..], &self.mac(key)].concat())
    }

    /// `None`: this server did not make it, or had another key then.
    pub fn verify(text: &[u8], key: &[u8; 32]) -> Option<Self> {
        let mut bytes = [0; 16 + MAC_BYTES];
        let length = BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let (bytes, mac) = bytes[..length].split_first_chunk::<16>()?;
        let (time, unique) = bytes.split_first_chunk::<8>()?;
        let nonce =
            Self { time: i64::from_be_bytes(*time), unique: u64::from_be_bytes(unique.try_into().ok()?) };
        bool::from(nonce.mac(key).ct_eq(mac)).then_some(nonce)
    }

    /// Whether it may be used still. A nonce of the future is from before the clock was set back.
    pub fn is_fresh(self, now: i64, lifetime: i64) -> bool {
        (0..=lifetime).contains(&now.saturating_sub(self.time))
    }

    fn bytes(self) -> [u8; 16] {
        let (time, unique) = (self.time.to_be_bytes(), self.unique.to_be_bytes());
        std::array::from_fn(|at| if at < 8 { time[at] } else { unique[at - 8] })
    }

    fn mac(self, key: &[u8; 32]) -> [u8; MAC_BYTES] {
        // HMAC fills a shorter key with zeros to the size of a block.
        let block: [u8; 64] = std::array::from_fn(|at| key.get(at).copied().unwrap_or(0));
        let mac = Hmac::<Sha256>::new(&block.into()).chain_update(self.bytes()).finalize().into_bytes();
        std::array::from_fn(|at| mac[at])
    }
}

impl Uses {
    /// `most` nonces, each of some 80 bytes.
    pub fn new(most: usize) -> Self {
        Self { windows: BTreeMap::new(), most: most.max(1), forgotten: None }
    }

    /// Notes a use. The nonce is fresh and was verified, and so was the response: otherwise anyone could use up counts.
    pub fn note(&mut self, nonce: Nonce, count: u32) -> Use {
        if let Some(window) = self.windows.get_mut(&nonce) {
            return window.note(count);
        }
        if self.is_forgotten(nonce) {
            return Use::Forgotten;
        }
        while self.windows.len() >= self.most
            && let Some((oldest, _)) = self.windows.pop_first()
        {
            self.forgotten = Some(Nonce { time: oldest.time, unique: u64::MAX });
        }
        // It may itself be older than all others.
        if self.is_forgotten(nonce) {
            return Use::Forgotten;
        }
        self.windows.entry(nonce).or_default().note(count)
    }

    /// Forgets the nonces that are stale at `now` in any case. `last`: what distinguishes the nonce that was made last.
    pub fn expire(&mut self, now: i64, lifetime: i64, last: u64) {
        if self.forgotten.is_some_and(|forgotten| now < forgotten.time) {
            // The clock was set back. What is forgotten is of times that come again: only nonces from now on are taken.
            self.windows.clear();
            self.forgotten = Some(Nonce { time: now, unique: last });
            return;
        }
        let stale = Nonce { time: now.saturating_sub(lifetime), unique: 0 };
        self.windows = self.windows.split_off(&stale);
        self.forgotten =
            self.forgotten.max(Some(Nonce { time: stale.time.saturating_sub(1), unique: u64::MAX }));
    }

    fn is_forgotten(&self, nonce: Nonce) -> bool {
        self.forgotten.is_some_and(|forgotten| nonce <= forgotten)
    }
}

impl Window {
    fn note(&mut self, count: u32) -> Use {
        let (shift, bit) = match count.checked_sub(self.greatest) {
            Some(more) => (more, 0),
            None => (0, self.greatest - count),
        };
        if count == 0 || bit >= WINDOW {
            return Use::Again;
        }
        self.seen = self.seen.checked_shl(shift).unwrap_or(0);
        self.greatest = self.greatest.max(count);
        if self.seen >> bit & 1 == 1 {
            return Use::Again;
        }
        self.seen |= 1 << bit;
        Use::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn nonce(time: i64, unique: u64) -> Nonce {
        Nonce { time, unique }
    }

    #[test]
    fn knows_its_own_nonces_and_no_other() {
        let own = nonce(1_700_000_000, 0x0102_0304_0506_0708);
        let text = own.sign(&KEY);
        assert_eq!(text.len(), 43);
        assert_eq!(Nonce::verify(text.as_bytes(), &KEY), Some(own));
        assert_eq!(Nonce::verify(text.as_bytes(), &[8; 32]), None);
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Nonce::verify(&other, &KEY), None, "{at}");
        }
        for end in 0..text.len() {
            assert_eq!(Nonce::verify(&text.as_bytes()[..end], &KEY), None);
        }
        for wrong in [format!("{text}A"), format!("{text}="), "x".repeat(100_000)] {
            assert_eq!(Nonce::verify(wrong.as_bytes(), &KEY), None);
        }
    }

    #[test]
    fn is_fresh_for_its_lifetime() {
        for (now, fresh) in [(999, false), (1000, true), (1300, true), (1301, false), (i64::MIN, false)] {
            assert_eq!(nonce(1000, 0).is_fresh(now, 300), fresh, "{now}");
        }
    }

    #[test]
    fn takes_each_count_once() {
        let table = [
            (1, Use::First),
            (1, Use::Again),
            (0, Use::Again),
            (3, Use::First),
            (2, Use::First),
            (2, Use::Again),
            (130, Use::First),
            (3, Use::Again),
            (2, Use::Again),
            (4, Use::First),
            (129, Use::First),
            (1 << 31, Use::First),
            (u32::MAX, Use::First),
            (u32::MAX, Use::Again),
            (u32::MAX - 127, Use::First),
            (u32::MAX - 128, Use::Again),
        ];
        let mut uses = Uses::new(10);
        for (count, expected) in table {
            assert_eq!(uses.note(nonce(5, 5), count), expected, "{count}");
        }
        assert_eq!(uses.note(nonce(5, 6), 1), Use::First);
    }

    #[test]
    fn a_nonce_whose_uses_are_forgotten_is_stale() {
        let mut uses = Uses::new(2);
        assert_eq!(uses.note(nonce(10, 0), 1), Use::First);
        assert_eq!(uses.note(nonce(11, 0), 1), Use::First);
        assert_eq!(uses.note(nonce(12, 0), 1), Use::First);
        assert_eq!(uses.note(nonce(10, 0), 1), Use::Forgotten);
        assert_eq!(uses.note(nonce(11, 0), 1), Use::Again);
        assert_eq!(uses.note(nonce(10, 9), 1), Use::Forgotten);
        uses.expire(313, 300, 0);
        assert_eq!(uses.note(nonce(12, 0), 1), Use::Forgotten);
        assert_eq!(uses.note(nonce(13, 0), 1), Use::First);
        assert_eq!(uses.windows.len(), 1);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_the_nonces_of_before_stale_and_no_later_ones() {
        let mut uses = Uses::new(10);
        assert_eq!(uses.note(nonce(1000, 1), 1), Use::First);
        uses.expire(5000, 300, 2);
        assert_eq!(uses.note(nonce(5000, 2), 1), Use::First);
        uses.expire(1001, 300, 3);
        for (again, expected) in [
            (nonce(1000, 1), Use::Forgotten),
            (nonce(1001, 3), Use::Forgotten),
            (nonce(1001, 4), Use::First),
            (nonce(1002, 5), Use::First),
        ] {
            assert_eq!(uses.note(again, 1), expected, "{again:?}");
        }
        uses.expire(1001, 300, 5);
        assert_eq!(uses.note(nonce(1001, 4), 1), Use::Again, "the second lasts");
        uses.expire(1002, 300, 5);
        assert_eq!(uses.note(nonce(1002, 5), 1), Use::Again);
    }

    #[test]
    fn never_takes_a_use_twice_within_its_bound() {
        let mut uses = Uses::new(3);
        let mut seen = std::collections::BTreeSet::new();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let used = (nonce((state >> 33) as i64 % 8, state >> 40 & 1), (state >> 50) as u32 % 200);
            if uses.note(used.0, used.1) == Use::First {
                assert!(seen.insert(used), "{used:?}");
            }
            assert!(uses.windows.len() <= 3);
        }
        assert!(seen.len() > 100);
    }
}
