//! A table of bounded cost that evicts the least recently used entry. The caller sets the cost of each entry, in bytes
//! of memory and in descriptors, and the limits of all entries together.
//!
//! Knows nothing of files.

use std::hash::BuildHasher;
use std::iter::Sum;
use std::ops::{Add, Sub};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;

use super::HostKey;

/// What entries take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    pub bytes: usize,
    pub descriptors: usize,
}

impl Cost {
    /// Of what has no descriptor.
    pub fn of_bytes(bytes: usize) -> Cost {
        Cost { bytes, descriptors: 0 }
    }

    fn exceeds(self, limits: Limits) -> bool {
        self.descriptors > limits.descriptors || self.bytes > limits.bytes
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { bytes: self.bytes + other.bytes, descriptors: self.descriptors + other.descriptors }
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost { bytes: self.bytes - other.bytes, descriptors: self.descriptors - other.descriptors }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}

/// The most that all entries together may be and take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub entries: usize,
    pub descriptors: usize,
    pub bytes: usize,
}

/// Entries by host and path.
pub struct Table<V> {
    index: HashTable<usize>,
    hasher: RandomState,
    slots: Slab<Slot<V>>,
    /// The ends of a linked list of the slots, in order of use.
    newest: usize,
    oldest: usize,
    cost: Cost,
    limits: Limits,
    /// The slot that the next sweep begins with.
    next_swept: usize,
}

struct Slot<V> {
    host: HostKey,
    path: Box<str>,
    value: V,
    cost: Cost,
    newer: usize,
    older: usize,
}

const NO_SLOT: usize = usize::MAX;

impl<V> Table<V> {
    pub fn new(limits: Limits) -> Table<V> {
        Table {
            index: HashTable::new(),
            hasher: RandomState::default(),
            slots: Slab::new(),
            newest: NO_SLOT,
            oldest: NO_SLOT,
            cost: Cost::default(),
            limits,
            next_swept: 0,
        }
    }

    /// Makes the entry the most recently used one.
    #[inline]
    pub fn get(&mut self, host: HostKey, path: &str) -> Option<&mut V> {
        let slot = self.find(host, path)?;
        if slot != self.newest {
            self.unlink(slot);
            self.link_newest(slot);
        }
        Some(&mut self.slots[slot].value)
    }

    /// Replaces the entry of the same key, and then evicts entries until the rest is within the limits. An entry that
    /// alone exceeds them is not inserted. `cost`: of the value, beside its own size.
    pub fn insert(&mut self, host: HostKey, path: &str, value: V, cost: Cost) {
        self.remove(host, path);
        let cost = cost + Cost::of_bytes(path.len() + size_of::<Slot<V>>());
        if cost.exceeds(self.limits) || self.limits.entries == 0 {
            return;
        }
        let hash = self.hash(host, path);
        let slot = Slot { host, path: path.into(), value, cost, newer: NO_SLOT, older: NO_SLOT };
        let slot = self.slots.insert(slot);
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, slot, |&s| hash_of(hasher, slots[s].host, &slots[s].path));
        self.link_newest(slot);
        self.cost = self.cost + cost;
        while self.cost.exceeds(self.limits) || self.slots.len() > self.limits.entries {
            self.evict(self.oldest);
        }
    }

    pub fn remove(&mut self, host: HostKey, path: &str) {
        if let Some(slot) = self.find(host, path) {
            self.evict(slot);
        }
    }

    /// Removes the entries for which `is_kept` does not hold. What it changes of the others has the cost that it had,
    /// until it is inserted again.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&str, &mut V) -> bool) {
        let removed: Vec<usize> = self
            .slots
            .iter_mut()
            .filter_map(|(slot, entry)| (!is_kept(&entry.path, &mut entry.value)).then_some(slot))
            .collect();
        for slot in removed {
            self.evict(slot);
        }
    }

    /// Removes the entries for which `is_kept` does not hold, of one of so many parts of the table. As many calls in a row
    /// have all parts.
    pub fn sweep(&mut self, parts: usize, mut is_kept: impl FnMut(&str, &V) -> bool) {
        let end = self.slots.capacity();
        for _ in 0..end.div_ceil(parts) {
            let slot = self.next_swept;
            self.next_swept = if slot + 1 < end { slot + 1 } else { 0 };
            if self.slots.get(slot).is_some_and(|entry| !is_kept(&entry.path, &entry.value)) {
                self.evict(slot);
            }
        }
    }

    pub fn has_descriptors(&self) -> bool {
        self.cost.descriptors > 0
    }

    #[inline]
    fn find(&self, host: HostKey, path: &str) -> Option<usize> {
        // As where all requests are passed on.
        if self.index.is_empty() {
            return None;
        }
        let same = |&slot: &usize| {
            let slot = &self.slots[slot];
            slot.host == host && *slot.path == *path
        };
        self.index.find(self.hash(host, path), same).copied()
    }

    #[inline]
    fn hash(&self, host: HostKey, path: &str) -> u64 {
        hash_of(&self.hasher, host, path)
    }

    fn evict(&mut self, slot: usize) {
        let hash = self.hash(self.slots[slot].host, &self.slots[slot].path);
        if let Ok(found) = self.index.find_entry(hash, |&s| s == slot) {
            found.remove();
        }
        self.unlink(slot);
        self.cost = self.cost - self.slots.remove(slot).cost;
    }

    fn link_newest(&mut self, slot: usize) {
        self.slots[slot].older = self.newest;
        self.slots[slot].newer = NO_SLOT;
        match self.newest {
            NO_SLOT => self.oldest = slot,
            newest => self.slots[newest].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: usize) {
        let (newer, older) = (self.slots[slot].newer, self.slots[slot].older);
        match newer {
            NO_SLOT => self.newest = older,
            newer => self.slots[newer].older = older,
        }
        match older {
            NO_SLOT => self.oldest = newer,
            older => self.slots[older].newer = newer,
        }
    }
}

#[inline]
fn hash_of(hasher: &RandomState, host: HostKey, path: &str) -> u64 {
    hasher.hash_one((host, path))
}

#[cfg(test)]
mod tests {
    use super::HostKey;
    use super::*;

    const FILE: Cost = Cost { bytes: 10, descriptors: 1 };

    fn table(entries: usize, descriptors: usize, bytes: usize) -> Table<&'static str> {
        Table::new(Limits { entries, descriptors, bytes })
    }

    fn keys(table: &Table<&'static str>, among: &[&'static str]) -> Vec<&'static str> {
        among.iter().copied().filter(|k| table.find(HostKey::from(0), k).is_some()).collect()
    }

    #[test]
    fn evicts_the_least_recently_used_entry() {
        let mut t = table(3, 100, 1 << 20);
        for k in ["a", "b", "c"] {
            t.insert(HostKey::from(0), k, k, Cost::default());
        }
        assert_eq!(t.get(HostKey::from(0), "a"), Some(&mut "a"));
        t.insert(HostKey::from(0), "d", "d", Cost::default());
        assert_eq!(keys(&t, &["a", "b", "c", "d"]), ["a", "c", "d"]);
        let mut none = table(0, 100, 1 << 20);
        none.insert(HostKey::from(0), "a", "a", Cost::default());
        assert_eq!(keys(&none, &["a"]), [""; 0]);
    }

    #[test]
    fn evicts_entries_that_exceed_the_limit_of_descriptors_or_bytes() {
        let mut t = table(100, 2, 1 << 20);
        for k in ["a", "b", "c"] {
            t.insert(HostKey::from(0), k, k, FILE);
        }
        assert_eq!(keys(&t, &["a", "b", "c"]), ["b", "c"]);
        let mut t = table(100, 100, 1000);
        t.insert(HostKey::from(0), "a", "a", Cost::of_bytes(600));
        t.insert(HostKey::from(0), "b", "b", Cost::of_bytes(600));
        assert_eq!(keys(&t, &["a", "b"]), ["b"]);
        t.insert(HostKey::from(0), "huge", "huge", Cost::of_bytes(10_000));
        assert_eq!(keys(&t, &["b", "huge"]), ["b"]);
    }

    #[test]
    fn keeps_the_entries_that_are_to_be_kept() {
        let mut t = table(10, 10, 1 << 20);
        for k in ["a", "b", "c"] {
            t.insert(HostKey::from(0), k, k, FILE);
        }
        t.retain(|path, value| path == "b" && *value == "b");
        assert_eq!(
            (keys(&t, &["a", "b", "c"]), t.cost.descriptors, t.newest, t.oldest),
            (vec!["b"], 1, 1, 1)
        );
    }

    #[test]
    fn a_sweep_reaches_all_entries_in_its_parts() {
        let mut t = table(10, 10, 1 << 20);
        for k in ["a", "b", "c", "d", "e"] {
            t.insert(HostKey::from(0), k, k, FILE);
        }
        for _ in 0..3 {
            t.sweep(3, |path, value| path == *value && matches!(path, "b" | "d"));
        }
        assert_eq!((keys(&t, &["a", "b", "c", "d", "e"]), t.cost.descriptors), (vec!["b", "d"], 2));
        t.sweep(1, |_, _| false);
        assert!(t.slots.is_empty() && !t.has_descriptors());
        t.sweep(1, |_, _| false);
    }

    #[test]
    fn replaces_an_entry_of_the_same_host_only() {
        let mut t = table(10, 10, 1 << 20);
        t.insert(HostKey::from(0), "a", "zero", FILE);
        t.insert(HostKey::from(1), "a", "one", FILE);
        t.insert(HostKey::from(0), "a", "again", FILE);
        assert_eq!(
            (t.get(HostKey::from(0), "a").copied(), t.get(HostKey::from(1), "a").copied()),
            (Some("again"), Some("one"))
        );
        assert_eq!(t.slots.len(), 2);
        t.remove(HostKey::from(0), "a");
        t.remove(HostKey::from(1), "a");
        assert_eq!((t.slots.len(), t.cost, t.newest, t.oldest), (0, Cost::default(), NO_SLOT, NO_SLOT));
    }
}
