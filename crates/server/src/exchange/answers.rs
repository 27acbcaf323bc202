//! The answers of authorizers, and right credentials, that count for further requests. They are found by a keyed hash
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
pub struct Answers {
    hashers: [RandomState; 2],
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    answers: HashMap<Key, Answer>,
    /// The answers, and those that newer ones have replaced, from the oldest to the newest.
    order: VecDeque<(Key, Instant)>,
}

struct Answer {
    variables: Variables,
    end: Instant,
}

impl Answers {
    pub fn key(&self, bytes: &[u8]) -> Key {
        [self.hashers[0].hash_one(bytes), self.hashers[1].hash_one(bytes)]
    }

    pub fn get(&self, key: Key, now: Instant) -> Option<Variables> {
        let known = self.known.borrow();
        let answer = known.answers.get(&key).filter(|answer| answer.end > now)?;
        Some(answer.variables.clone())
    }

    /// The answer counts for `time`, or until newer ones need its place.
    pub fn insert(&self, key: Key, variables: Variables, now: Instant, time: Duration) {
        let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_ANSWER {
            return;
        }
        let Known { answers, order } = &mut *self.known.borrow_mut();
        while let Some((oldest, end)) = order.front().copied()
            && (end <= now || order.len() >= MAX_ANSWERS)
        {
            order.pop_front();
            if answers.get(&oldest).is_some_and(|answer| answer.end == end) {
                answers.remove(&oldest);
            }
        }
        let end = now + time;
        order.push_back((key, end));
        answers.insert(key, Answer { variables, end });
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
    fn forgets_answers_in_time_and_beyond_their_number() {
        let (answers, start) = (Answers::default(), Instant::now());
        let variables = || vec![("REMOTE_USER".to_owned(), b"ann".to_vec())];
        answers.insert(at(0), variables(), start, TIME);
        assert_eq!(answers.get(at(0), after(start, 9)), Some(variables()));
        assert_eq!(answers.get(at(1), after(start, 9)), None);
        assert_eq!(answers.get(at(0), after(start, 10)), None);
        for number in 0..2 * MAX_ANSWERS as u64 {
            answers.insert(at(number), variables(), after(start, 10), TIME);
        }
        assert_eq!(answers.known.borrow().answers.len(), MAX_ANSWERS);
        assert_eq!(answers.get(at(0), after(start, 11)), None);
        assert!(answers.get(at(2 * MAX_ANSWERS as u64 - 1), after(start, 11)).is_some());
    }

    #[test]
    fn the_end_of_an_answer_does_not_end_the_one_that_has_replaced_it() {
        let (answers, start) = (Answers::default(), Instant::now());
        answers.insert(at(0), Vec::new(), start, Duration::from_secs(1));
        answers.insert(at(0), Vec::new(), start, TIME);
        answers.insert(at(1), Vec::new(), after(start, 2), TIME);
        assert!(answers.get(at(0), after(start, 2)).is_some());
    }

    #[test]
    fn stores_no_answer_that_is_too_large() {
        let (answers, start) = (Answers::default(), Instant::now());
        answers.insert(at(0), vec![("A".to_owned(), vec![b'x'; MAX_ANSWER])], start, TIME);
        assert_eq!(answers.get(at(0), start), None);
        assert_ne!(answers.key(b"a"), answers.key(b"b"));
    }
}
