//! The most frequent of many names, in bounded memory: when the table is full, the rare half of it is forgotten, and
//! what may be missing from a count is known.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// What is counted of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub requests: u64,
    pub bytes: u64,
    pub micros: u64,
    pub longest: u64,
}

impl Count {
    pub fn add(&mut self, bytes: u64, micros: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.micros = self.micros.saturating_add(micros);
        self.longest = self.longest.max(micros);
    }
}

#[derive(Debug)]
pub struct Top {
    names: HashMap<Box<[u8]>, Count, RandomState>,
    limit: usize,
    /// A count can be too low by this many requests.
    missing: u64,
}

/// Bytes of a name that count. Longer ones are cut.
pub const MAX_NAME: usize = 512;

impl Top {
    /// For at most so many names at the same time.
    pub fn new(limit: usize) -> Top {
        Top { names: HashMap::default(), limit, missing: 0 }
    }

    pub fn add(&mut self, name: &[u8], bytes: u64, micros: u64) {
        let name = &name[..name.len().min(MAX_NAME)];
        match self.names.get_mut(name) {
            Some(count) => count.add(bytes, micros),
            None => {
                if self.names.len() >= self.limit {
                    self.forget();
                }
                self.names.entry(name.into()).or_default().add(bytes, micros);
            }
        }
    }

    /// The names with the most requests, the first one first. Equal ones are in the order of their names.
    pub fn most(&self, count: usize) -> Vec<(&[u8], Count)> {
        let mut all: Vec<(&[u8], Count)> = self.names.iter().map(|(name, count)| (&**name, *count)).collect();
        sort::by(&mut all, |(one, count), (other, than)| {
            than.requests.cmp(&count.requests).then(one.cmp(other))
        });
        all.truncate(count);
        all
    }

    /// Different names, and whether there were more.
    pub fn names(&self) -> (usize, bool) {
        (self.names.len(), self.missing > 0)
    }

    /// A count can be too low by this many requests.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.names.values().map(|count| count.requests).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        let mut left = self.limit / 2;
        // Of those that are equal to the median, only as many stay as there is space for.
        self.names.retain(|_, count| {
            let stays = count.requests > median || (count.requests == median && left > 0);
            left = left.saturating_sub(usize::from(stays));
            stays
        });
        self.missing += median;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_exactly_while_the_names_fit() {
        let mut top = Top::new(10);
        for (name, bytes) in [("a", 5), ("b", 1), ("a", 7), ("c", 0), ("a", 1), ("b", 2)] {
            top.add(name.as_bytes(), bytes, bytes * 10);
        }
        let found = top.most(2);
        let count = |requests, bytes, micros, longest| Count { requests, bytes, micros, longest };
        assert_eq!(found, [(&b"a"[..], count(3, 13, 130, 70)), (&b"b"[..], count(2, 3, 30, 20))]);
        assert_eq!((top.names(), top.missing()), ((3, false), 0));
    }

    #[test]
    fn keeps_the_frequent_names_in_bounded_memory() {
        let mut top = Top::new(100);
        for number in 0..100_000_u32 {
            top.add(number.to_string().as_bytes(), 1, 1);
            if number % 10 == 0 {
                top.add(b"frequent", 1, 1);
            }
            assert!(top.names().0 <= 100);
        }
        let [(name, count)] = top.most(1)[..] else { panic!() };
        assert_eq!(name, b"frequent");
        assert!(
            count.requests <= 10_000 && count.requests + top.missing() >= 10_000,
            "{count:?} {}",
            top.missing()
        );
    }

    #[test]
    fn cuts_a_long_name() {
        let mut top = Top::new(2);
        top.add(&[b'x'; 5000], 1, 1);
        assert_eq!(top.most(1)[0].0.len(), MAX_NAME);
    }
}
