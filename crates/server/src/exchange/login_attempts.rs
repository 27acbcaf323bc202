//! Wrong passwords, by address and by user, and forged tokens, by address: after some of them, further ones have to
//! wait, each longer than the one before.
//!
//! All workers share the table, which is used only for credentials that were not right before. Its size is constant:
//! when it is full, the entry that has been quiet longest is forgotten.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::mutex::locked;
use crate::peer::counted_address;

/// The table has so many sets, and each name or address its place in one of them: 128 KiB in all.
const SETS: usize = 1024;
const WAYS: usize = 4;
/// Wrong passwords of an address that have no consequence. A user who mistypes has some more.
const FREE: u32 = 5;
/// The same for a name, from all addresses: anyone can fail with the name of another user.
const FREE_OF_USER: u32 = 20;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
const LONGEST_WAIT_OF_USER: Duration = Duration::from_secs(30);
/// Without a wrong password for so long, the earlier ones are forgotten.
const FORGET: Duration = Duration::from_mins(15);

/// Whose attempts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    Address(IpAddr),
    User(&'a str),
    /// The tokens of an address. Its passwords count apart: a right token says nothing of them.
    Tokens(IpAddr),
}

pub struct Attempts {
    hasher: RandomState,
    began: Instant,
    table: Mutex<Box<[[Entry; WAYS]]>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    subject: u64,
    failures: u32,
    /// When the last one was, and how long no further one is compared, since the table began.
    last: Duration,
    until: Duration,
}

static ATTEMPTS: LazyLock<Attempts> = LazyLock::new(Attempts::new);

/// The attempts of this process.
pub fn attempts() -> &'static Attempts {
    &ATTEMPTS
}

impl Attempts {
    fn new() -> Attempts {
        let table = Mutex::new(vec![[Entry::default(); WAYS]; SETS].into());
        Attempts { hasher: RandomState::new(), began: Instant::now(), table }
    }

    /// How long a subject has to wait. `None`: it may try now.
    pub fn wait(&self, subject: Subject<'_>) -> Option<Duration> {
        self.wait_at(subject, self.began.elapsed())
    }

    pub fn failed(&self, subject: Subject<'_>) {
        self.failed_at(subject, self.began.elapsed());
    }

    /// A right password: those before are forgotten.
    pub fn succeeded(&self, subject: Subject<'_>) {
        self.with(subject, |entry, _| *entry = Entry::default());
    }

    fn wait_at(&self, subject: Subject<'_>, now: Duration) -> Option<Duration> {
        let until = self.with(subject, |entry, is_known| is_known.then_some(entry.until));
        until?.checked_sub(now).filter(|wait| !wait.is_zero())
    }

    fn failed_at(&self, subject: Subject<'_>, now: Duration) {
        let (free, longest) = match subject {
            Subject::Address(_) | Subject::Tokens(_) => (FREE, LONGEST_WAIT),
            Subject::User(_) => (FREE_OF_USER, LONGEST_WAIT_OF_USER),
        };
        let hash = self.hash(subject);
        self.with(subject, |entry, is_known| {
            if !is_known || now.saturating_sub(entry.last) >= FORGET {
                *entry = Entry { subject: hash, ..Entry::default() };
            }
            entry.failures = entry.failures.saturating_add(1);
            entry.last = now;
            if let Some(beyond) = entry.failures.checked_sub(free + 1) {
                let wait = FIRST_WAIT.saturating_mul(1_u32.checked_shl(beyond).unwrap_or(u32::MAX));
                entry.until = now + wait.min(longest);
            }
        });
    }

    fn hash(&self, subject: Subject<'_>) -> u64 {
        match subject {
            Subject::Address(ip) => self.hasher.hash_one((0, counted_address(ip))),
            Subject::User(name) => self.hasher.hash_one((1, name)),
            Subject::Tokens(ip) => self.hasher.hash_one((2, counted_address(ip))),
        }
    }

    /// Calls `work` with the entry of a subject, or with the one that would be its own.
    fn with<T>(&self, subject: Subject<'_>, work: impl FnOnce(&mut Entry, bool) -> T) -> T {
        let hash = self.hash(subject);
        let mut table = locked(&self.table);
        let set = &mut table[hash as usize % SETS];
        let known = set.iter().position(|entry| entry.subject == hash && entry.failures > 0);
        let quietest = || (0..WAYS).min_by_key(|at| set[*at].last).unwrap_or_default();
        let at = known.unwrap_or_else(quietest);
        let mut scratch = set[at];
        let result = work(&mut scratch, known.is_some());
        // An entry of another subject is replaced only by a failure.
        if known.is_some() || scratch.subject == hash {
            set[at] = scratch;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(text: &str) -> Subject<'static> {
        Subject::Address(text.parse().expect("it is an address"))
    }

    #[test]
    fn waits_double_after_some_wrong_passwords() {
        let attempts = Attempts::new();
        let own = address("192.0.2.1");
        for number in 1..=FREE {
            attempts.failed_at(own, SECOND);
            assert_eq!(attempts.wait_at(own, SECOND), None, "{number}");
        }
        let mut waits = Vec::new();
        for _ in 0..12 {
            attempts.failed_at(own, SECOND);
            waits.push(attempts.wait_at(own, SECOND).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(attempts.wait_at(own, SECOND * 301), None, "it is over");
        assert_eq!(attempts.wait_at(address("192.0.2.2"), SECOND), None, "another client");
        attempts.failed_at(own, SECOND + FORGET);
        assert_eq!(attempts.wait_at(own, SECOND + FORGET), None, "the others are forgotten");
    }

    #[test]
    fn users_wait_later_and_shorter_and_a_right_password_ends_it() {
        let attempts = Attempts::new();
        let ann = Subject::User("ann");
        (0..FREE_OF_USER).for_each(|_| attempts.failed_at(ann, SECOND));
        assert_eq!(attempts.wait_at(ann, SECOND), None);
        (0..100).for_each(|_| attempts.failed_at(ann, SECOND));
        assert_eq!(attempts.wait_at(ann, SECOND), Some(LONGEST_WAIT_OF_USER));
        assert_eq!(attempts.wait_at(Subject::User("bob"), SECOND), None);
        attempts.succeeded(ann);
        assert_eq!(attempts.wait_at(ann, SECOND), None);
    }

    #[test]
    fn an_ipv6_client_counts_by_its_network_and_a_full_table_takes_new_clients() {
        let attempts = Attempts::new();
        (0..10).for_each(|_| attempts.failed_at(address("2001:db8::1"), SECOND));
        assert!(attempts.wait_at(address("2001:db8::ffff"), SECOND).is_some());
        assert!(attempts.wait_at(address("2001:db8:0:1::1"), SECOND).is_none());
        for number in 0..100_000_u32 {
            let [_, b, c, d] = number.to_be_bytes();
            let own = Subject::Address(IpAddr::from([11, b, c, d]));
            let now = SECOND * (2 + number);
            (0..=FREE).for_each(|_| attempts.failed_at(own, now));
            assert!(attempts.wait_at(own, now).is_some(), "client {number}");
        }
    }
}
