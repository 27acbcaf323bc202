//! What is remembered for further requests: answers of authorizers, and right credentials. It is found by a keyed hash
//! of what the requests have in common, so that no credentials stay in memory. Knows nothing of requests.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use site::authorizer::{MAX_ANSWER, MAX_ANSWERS};

/// Two hashes with secret keys of their own: 128 bits, for which no client can choose two inputs.
pub type Key = [u64; 2];
type Variables = Vec<(String, Vec<u8>)>;

#[derive(Default)]
pub struct Remembered {
    hashers: [RandomState; 2],
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    entries: HashMap<Key, Entry>,
    /// The entries, and those that newer ones have replaced, from the oldest to the newest.
    order: VecDeque<(Key, Instant)>,
}

struct Entry {
    variables: Variables,
    end: Instant,
}

impl Remembered {
    pub fn key(&self, bytes: &[u8]) -> Key {
        [self.hashers[0].hash_one(bytes), self.hashers[1].hash_one(bytes)]
    }

    pub fn get(&self, key: Key, now: Instant) -> Option<Variables> {
        let known = self.known.borrow();
        let entry = known.entries.get(&key).filter(|entry| entry.end > now)?;
        Some(entry.variables.clone())
    }

    /// The entry counts for `time`, or until newer ones need its place.
    pub fn insert(&self, key: Key, variables: Variables, now: Instant, time: Duration) {
        let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_ANSWER {
            return;
        }
        let Known { entries, order } = &mut *self.known.borrow_mut();
        while let Some((oldest, end)) = order.front().copied()
            && (end <= now || order.len() >= MAX_ANSWERS)
        {
            order.pop_front();
            if entries.get(&oldest).is_some_and(|entry| entry.end == end) {
                entries.remove(&oldest);
            }
        }
        let end = now + time;
        order.push_back((key, end));
        entries.insert(key, Entry { variables, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Key {
        [number, number]
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    const TIME: Duration = Duration::from_secs(10);

    #[test]
    fn forgets_entries_in_time_and_beyond_their_number() {
        let (remembered, start) = (Remembered::default(), Instant::now());
        let variables = || vec![("REMOTE_USER".to_owned(), b"ann".to_vec())];
        remembered.insert(at(0), variables(), start, TIME);
        assert_eq!(remembered.get(at(0), after(start, 9)), Some(variables()));
        assert_eq!(remembered.get(at(1), after(start, 9)), None);
        assert_eq!(remembered.get(at(0), after(start, 10)), None);
        for number in 0..2 * MAX_ANSWERS as u64 {
            remembered.insert(at(number), variables(), after(start, 10), TIME);
        }
        assert_eq!(remembered.known.borrow().entries.len(), MAX_ANSWERS);
        assert_eq!(remembered.get(at(0), after(start, 11)), None);
        assert!(remembered.get(at(2 * MAX_ANSWERS as u64 - 1), after(start, 11)).is_some());
    }

    #[test]
    fn the_end_of_an_entry_does_not_end_the_one_that_has_replaced_it() {
        let (remembered, start) = (Remembered::default(), Instant::now());
        remembered.insert(at(0), Vec::new(), start, Duration::from_secs(1));
        remembered.insert(at(0), Vec::new(), start, TIME);
        remembered.insert(at(1), Vec::new(), after(start, 2), TIME);
        assert!(remembered.get(at(0), after(start, 2)).is_some());
    }

    #[test]
    fn stores_no_entry_that_is_too_large() {
        let (remembered, start) = (Remembered::default(), Instant::now());
        remembered.insert(at(0), vec![("A".to_owned(), vec![b'x'; MAX_ANSWER])], start, TIME);
        assert_eq!(remembered.get(at(0), start), None);
        assert_ne!(remembered.key(b"a"), remembered.key(b"b"));
    }
}
