//! The names of addresses, and addresses that have none, for a time. The number of entries is bounded: what was not
//! looked for lately is forgotten first. Knows nothing of DNS.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// Two generations. When the recent one is full, it replaces the older one.
pub struct NameCache {
    recent: HashMap<IpAddr, Entry>,
    older: HashMap<IpAddr, Entry>,
    /// Entries of one generation.
    most: usize,
}

struct Entry {
    /// `None`: the address has no name, or its name is being asked for.
    name: Option<Rc<str>>,
    /// In microseconds of the same clock as `now`.
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Known(Option<Rc<str>>),
    /// It is not known, or no longer.
    Unknown,
}

impl NameCache {
    pub fn new(entries: usize) -> NameCache {
        NameCache { recent: HashMap::new(), older: HashMap::new(), most: (entries / 2).max(1) }
    }

    pub fn find(&mut self, address: IpAddr, now: u64) -> Found {
        if let Some(entry) = self.recent.get(&address) {
            return entry.found(now);
        }
        let Some(entry) = self.older.remove(&address) else { return Found::Unknown };
        let found = entry.found(now);
        if found != Found::Unknown {
            self.put(address, entry);
        }
        found
    }

    pub fn insert(&mut self, address: IpAddr, name: Option<Rc<str>>, until: u64) {
        self.older.remove(&address);
        self.put(address, Entry { name, until });
    }

    fn put(&mut self, address: IpAddr, entry: Entry) {
        if self.recent.len() >= self.most && !self.recent.contains_key(&address) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(address, entry);
    }
}

impl Entry {
    fn found(&self, now: u64) -> Found {
        if now < self.until { Found::Known(self.name.clone()) } else { Found::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn forgets_after_a_time() {
        let mut names = NameCache::new(10);
        names.insert(address(1), Some("a.example".into()), 100);
        names.insert(address(2), None, 100);
        assert_eq!(names.find(address(1), 99), Found::Known(Some("a.example".into())));
        assert_eq!(names.find(address(2), 99), Found::Known(None));
        assert_eq!(names.find(address(1), 100), Found::Unknown);
        assert_eq!(names.find(address(3), 0), Found::Unknown);
    }

    #[test]
    fn remembers_no_more_than_its_entries_and_the_last_ones() {
        let mut names = NameCache::new(100);
        names.insert(address(0), None, u64::MAX);
        for number in 1..100_000 {
            names.insert(address(number), None, u64::MAX);
            // What is looked for stays.
            assert_eq!(names.find(address(0), 0), Found::Known(None), "{number}");
            assert!(names.recent.len() + names.older.len() <= 100, "{number}");
        }
        assert_eq!(names.find(address(99_999), 0), Found::Known(None));
        assert_eq!(names.find(address(1), 0), Found::Unknown);
    }
}
