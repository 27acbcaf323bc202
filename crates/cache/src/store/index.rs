//! What a folder of stored responses has, in memory: which variants of a resource, how many bytes, and which of them is
//! evicted next. The order is nearly that of the last use: what was used since it was queued is queued again.
//!
//! Knows nothing of files. Times are microseconds since 1970; a clock that jumps changes only the order of eviction.

use std::collections::{HashMap, VecDeque};

use super::name::Name;

/// The variants of one resource. One more replaces the one that was used longest ago.
const VARIANTS: usize = 16;
/// A file takes whole blocks of so many bytes.
const BLOCK: u64 = 4096;
/// Places in the queue of entries that are no longer there, before the queue is tidied.
const SPARE: usize = 64;

/// The most that a folder may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of all files, in whole blocks.
    pub bytes: u64,
    pub entries: usize,
}

/// `T`: what the caller remembers of a file.
#[derive(Debug)]
pub struct Index<T> {
    limits: Limits,
    slots: HashMap<u128, Vec<Slot<T>>>,
    /// From the next to be evicted to the last.
    queue: VecDeque<Place>,
    entries: usize,
    bytes: u64,
    /// For files that are being written.
    reserved: u64,
    tickets: u64,
    walk: u32,
}

#[derive(Debug)]
struct Slot<T> {
    variant: u64,
    bytes: u64,
    used: u64,
    /// Of its place in the queue. Other places with its name are of entries before it.
    ticket: u64,
    /// The walk that has seen it last.
    walk: u32,
    file: T,
}

#[derive(Debug)]
struct Place {
    name: Name,
    ticket: u64,
    /// The last use when the entry was queued.
    used: u64,
}

/// The space that a file of this length takes.
pub const fn space(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

impl<T> Index<T> {
    /// Of an empty folder.
    pub fn new(limits: Limits) -> Index<T> {
        Index {
            limits,
            slots: HashMap::new(),
            queue: VecDeque::new(),
            entries: 0,
            bytes: 0,
            reserved: 0,
            tickets: 0,
            walk: 0,
        }
    }

    /// Bytes of the files, in whole blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of files.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Whether there is any variant of the resource.
    pub fn has(&self, resource: u128) -> bool {
        self.slots.contains_key(&resource)
    }

    /// The variants of a resource, at most `VARIANTS`.
    pub fn variants(&self, resource: u128) -> Vec<Name> {
        let slots = self.slots.get(&resource).map_or(&[][..], |slots| slots);
        slots.iter().map(|slot| Name { resource, variant: slot.variant }).collect()
    }

    /// What is known of a file. It does not count as used.
    pub fn get(&self, name: Name) -> Option<&T> {
        self.slot(name).map(|slot| &slot.file)
    }

    /// As `get`.
    pub fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        self.slot_mut(name).map(|slot| &mut slot.file)
    }

    /// What is known of a file that is used now.
    pub fn used(&mut self, name: Name, now: u64) -> Option<&T> {
        let slot = self.slot_mut(name)?;
        slot.used = slot.used.max(now);
        Some(&slot.file)
    }

    /// Takes `bytes` for a file that is being written. `false`: there is not so much; evict something.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let taken = self.bytes.saturating_add(self.reserved).saturating_add(bytes);
        let has_space = taken <= self.limits.bytes;
        if has_space {
            self.reserved += bytes;
        }
        has_space
    }

    /// Gives back bytes that `reserve` has taken.
    pub fn release(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Whether there is no place for another entry.
    pub fn is_full(&self) -> bool {
        self.entries >= self.limits.entries
    }

    /// Whether a file of this length has space, or that of one which was not used since `time`.
    pub fn has_space_unused_since(&self, time: u64, length: u64) -> bool {
        let taken = self.bytes.saturating_add(self.reserved).saturating_add(space(length));
        let next = self.queue.front().and_then(|place| self.slot(place.name));
        !self.is_full() && taken <= self.limits.bytes || next.is_none_or(|slot| slot.used < time)
    }

    /// Whether there is more than the limits allow, as after a walk that has found unknown files.
    pub fn is_over(&self) -> bool {
        self.entries > self.limits.entries || self.bytes.saturating_add(self.reserved) > self.limits.bytes
    }

    /// Adds a file of `length` bytes, or replaces what is known of it. Returns a variant of the same resource that has
    /// to make room.
    pub fn insert(&mut self, name: Name, length: u64, used: u64, file: T) -> Option<Name> {
        let (bytes, walk) = (space(length), self.walk);
        let slots = self.slots.entry(name.resource).or_default();
        if let Some(slot) = slots.iter_mut().find(|slot| slot.variant == name.variant) {
            self.bytes = self.bytes - slot.bytes + bytes;
            *slot = Slot { bytes, used: slot.used.max(used), walk, file, ..*slot };
            return None;
        }
        let oldest = slots.iter().min_by_key(|slot| slot.used).filter(|_| slots.len() >= VARIANTS);
        let oldest = oldest.map(|slot| Name { resource: name.resource, variant: slot.variant });
        self.tickets += 1;
        let ticket = self.tickets;
        slots.push(Slot { variant: name.variant, bytes, used, ticket, walk, file });
        self.entries += 1;
        self.bytes += bytes;
        self.queue.push_back(Place { name, ticket, used });
        if let Some(oldest) = oldest {
            self.remove(oldest);
        }
        self.tidy();
        oldest
    }

    /// Returns the bytes that the file takes.
    pub fn remove(&mut self, name: Name) -> Option<u64> {
        let slots = self.slots.get_mut(&name.resource)?;
        let at = slots.iter().position(|slot| slot.variant == name.variant)?;
        let slot = slots.swap_remove(at);
        if slots.is_empty() {
            self.slots.remove(&name.resource);
        }
        self.entries -= 1;
        self.bytes -= slot.bytes;
        Some(slot.bytes)
    }

    /// The entry that was used longest ago, or nearly so. Until it is removed, it is queued again.
    pub fn victim(&mut self) -> Option<Name> {
        // An entry is queued again only if it was used since, so twice round is enough.
        for _ in 0..2 * self.queue.len() {
            let place = self.queue.pop_front()?;
            match self.slot(place.name).map(|slot| (slot.ticket == place.ticket, slot.used)) {
                Some((true, used)) if used > place.used => self.queue.push_back(Place { used, ..place }),
                Some((true, _)) => {
                    let name = place.name;
                    self.queue.push_back(place);
                    return Some(name);
                }
                Some((false, _)) | None => {}
            }
        }
        None
    }

    /// Begins to compare the index with the folder.
    pub fn begin_walk(&mut self) {
        self.walk += 1;
    }

    /// The walk has found a file. `unknown` makes what is remembered of one that the index did not have.
    pub fn seen(&mut self, name: Name, length: u64, used: u64, unknown: impl FnOnce() -> T) -> Option<Name> {
        let (walk, bytes) = (self.walk, space(length));
        if let Some(slot) = self.slot_mut(name) {
            slot.walk = walk;
            let before = std::mem::replace(&mut slot.bytes, bytes);
            self.bytes = self.bytes - before + bytes;
            return None;
        }
        self.insert(name, length, used, unknown())
    }

    /// Forgets what a complete walk has not seen, and puts the queue into the order of the last use.
    pub fn end_walk(&mut self) {
        let walk = self.walk;
        let lost: Vec<Name> =
            self.names().filter(|(_, slot)| slot.walk != walk).map(|(name, _)| name).collect();
        lost.into_iter().for_each(|name| _ = self.remove(name));
        let place = |(name, slot): (Name, &Slot<T>)| Place { name, ticket: slot.ticket, used: slot.used };
        let mut queue: Vec<Place> = self.names().map(place).collect();
        queue.sort_by_key(|place| (place.used, place.ticket));
        self.queue = queue.into();
    }

    fn slot(&self, name: Name) -> Option<&Slot<T>> {
        self.slots.get(&name.resource)?.iter().find(|slot| slot.variant == name.variant)
    }

    fn slot_mut(&mut self, name: Name) -> Option<&mut Slot<T>> {
        self.slots.get_mut(&name.resource)?.iter_mut().find(|slot| slot.variant == name.variant)
    }

    fn names(&self) -> impl Iterator<Item = (Name, &Slot<T>)> {
        self.slots.iter().flat_map(|(resource, slots)| {
            slots.iter().map(|slot| (Name { resource: *resource, variant: slot.variant }, slot))
        })
    }

    /// Drops the places of entries that are gone when they are most of the queue.
    fn tidy(&mut self) {
        if self.queue.len() > 2 * self.entries + SPARE {
            let queue = std::mem::take(&mut self.queue);
            let is_current =
                |place: &Place| self.slot(place.name).is_some_and(|slot| slot.ticket == place.ticket);
            self.queue = queue.into_iter().filter(is_current).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { bytes: 10 * BLOCK, entries: 5 };

    fn name(n: u64) -> Name {
        Name { resource: u128::from(n), variant: 0 }
    }

    fn evicted<T>(index: &mut Index<T>) -> Vec<u128> {
        std::iter::from_fn(|| evict(index)).map(|name| name.resource).collect()
    }

    fn evict<T>(index: &mut Index<T>) -> Option<Name> {
        let name = index.victim()?;
        assert!(index.remove(name).is_some());
        Some(name)
    }

    #[test]
    fn what_was_used_longest_ago_is_evicted_first() {
        let mut index = Index::new(LIMITS);
        (1..=4).for_each(|n| _ = index.insert(name(n), 1, n, ()));
        index.used(name(1), 10);
        index.used(name(2), 11);
        assert_eq!(evicted(&mut index), [3, 4, 1, 2]);
        assert_eq!((index.bytes(), index.entries()), (0, 0));
    }

    #[test]
    fn a_victim_that_is_not_removed_is_queued_again() {
        let mut index = Index::new(LIMITS);
        (1..=3).for_each(|n| _ = index.insert(name(n), 1, n, ()));
        let victims = [(); 5].map(|()| index.victim().map(|name| name.resource));
        assert_eq!(victims, [1, 2, 3, 1, 2].map(Some));
    }

    #[test]
    fn space_is_counted_in_blocks_and_with_what_is_being_written() {
        let mut index = Index::new(LIMITS);
        index.insert(name(1), 1, 1, ());
        index.insert(name(2), BLOCK + 1, 2, ());
        assert_eq!(index.bytes(), 3 * BLOCK);
        assert!(index.reserve(7 * BLOCK) && !index.reserve(1));
        index.release(BLOCK);
        assert!(index.reserve(BLOCK));
        // A file that replaces another one, in place of it.
        index.release(7 * BLOCK);
        index.insert(name(2), 3 * BLOCK, 3, ());
        assert_eq!((index.bytes(), index.entries()), (4 * BLOCK, 2));
        index.release(u64::MAX);
        assert!(!index.reserve(u64::MAX));
    }

    #[test]
    fn space_is_unused_if_it_is_free_or_the_next_victim_was_used_before() {
        let mut index = Index::new(LIMITS);
        index.insert(name(1), 1, 5, ());
        index.insert(name(2), 8 * BLOCK, 6, ());
        assert!(index.has_space_unused_since(0, BLOCK));
        assert!(!index.has_space_unused_since(5, BLOCK + 1) && index.has_space_unused_since(6, BLOCK + 1));
        index.used(name(1), 9);
        assert!(!index.has_space_unused_since(9, BLOCK + 1));
        assert!(index.reserve(BLOCK) && !index.has_space_unused_since(9, 1));
        index.release(BLOCK);
        (3..=5).for_each(|n| _ = index.insert(name(n), 0, 9, ()));
        assert!(index.is_full() && !index.has_space_unused_since(9, 1));
    }

    #[test]
    fn a_walk_finds_unknown_files_and_forgets_lost_ones() {
        let mut index = Index::new(LIMITS);
        index.insert(name(1), 1, 5, "lost");
        index.insert(name(2), 1, 9, "kept");
        index.begin_walk();
        index.seen(name(3), 2 * BLOCK, 7, || "found");
        index.seen(name(2), 2 * BLOCK, 8, || "found");
        index.insert(name(4), 1, 6, "new");
        index.end_walk();
        assert_eq!(
            [1, 2, 3, 4].map(|n| index.get(name(n)).copied()),
            [None, Some("kept"), Some("found"), Some("new")]
        );
        assert_eq!(index.bytes(), 5 * BLOCK);
        assert_eq!(evicted(&mut index), [4, 3, 2]);
    }

    #[test]
    fn a_resource_has_a_bounded_number_of_variants() {
        let mut index = Index::new(Limits { bytes: u64::MAX, entries: 1000 });
        let variant = |n| Name { resource: 1, variant: n };
        for n in 0..VARIANTS as u64 {
            assert_eq!(index.insert(variant(n), 1, n, ()), None);
        }
        index.used(variant(0), 100);
        assert_eq!(index.insert(variant(99), 1, 101, ()), Some(variant(1)));
        assert_eq!((index.variants(1).len(), index.entries()), (VARIANTS, VARIANTS));
        assert!(index.has(1) && !index.has(2) && index.variants(2).is_empty());
    }

    #[test]
    fn the_queue_stays_as_small_as_the_index() {
        let mut index = Index::new(LIMITS);
        for n in 0..10_000 {
            index.insert(name(n % 3), 1, n, ());
            index.remove(name((n + 1) % 3));
        }
        assert!(index.queue.len() <= 2 * index.entries() + SPARE + 1, "{}", index.queue.len());
    }

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_entries(steps in proptest::collection::vec((0..5u8, 0..8u64, 0..20_000u64), 0..200)) {
            let mut index = Index::new(LIMITS);
            for (now, (what, n, length)) in steps.into_iter().enumerate() {
                let name = Name { resource: u128::from(n / 2), variant: n % 2 };
                match what {
                    0 | 1 => _ = index.insert(name, length, now as u64, ()),
                    2 => _ = index.remove(name),
                    3 => _ = index.used(name, now as u64),
                    _ => _ = evict(&mut index),
                }
                let bytes: u64 = index.names().map(|(_, slot)| slot.bytes).sum();
                prop_assert_eq!((index.bytes(), index.entries()), (bytes, index.names().count()));
                let queued = index.names().filter(|(name, slot)| {
                    index.queue.iter().any(|place| place.name == *name && place.ticket == slot.ticket)
                });
                prop_assert_eq!(queued.count(), index.entries(), "every entry can be evicted");
            }
            let count = index.entries();
            prop_assert_eq!(evicted(&mut index).len(), count);
        }
    }
}
