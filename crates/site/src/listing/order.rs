//! The order of the entries, and the first names of a large folder.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Entry, EntryKind, value_of};

/// The first names of a folder, in natural order.
#[derive(Debug)]
pub struct FirstNames {
    limit: usize,
    /// The last name is on top.
    names: BinaryHeap<NaturalName>,
    seen: u64,
}

/// The order of files. Folders are always before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOrder {
    pub key: SortKey,
    pub direction: Direction,
}

/// What entries of a listing are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    #[default]
    Name,
    Size,
    Date,
}

/// Whether the least entry comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Ascending,
    Descending,
}

impl FirstNames {
    /// Keeps at most `limit` names.
    pub fn new(limit: usize) -> FirstNames {
        FirstNames { limit, names: BinaryHeap::new(), seen: 0 }
    }

    /// Counts a name, and keeps it if it is among the first.
    pub fn add(&mut self, name: &str) {
        self.seen += 1;
        if self.names.len() < self.limit {
            self.names.push(NaturalName(name.to_owned()));
        } else if let Some(mut last) = self.names.peek_mut()
            && natural(name, &last.0).is_lt()
        {
            *last = NaturalName(name.to_owned());
        }
    }

    /// The number of all names that were added.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// In any order.
    pub fn into_names(self) -> impl ExactSizeIterator<Item = String> {
        self.names.into_vec().into_iter().map(|name| name.0)
    }
}

/// A name that is compared in natural order.
#[derive(Debug, PartialEq, Eq)]
struct NaturalName(String);

impl Ord for NaturalName {
    fn cmp(&self, other: &NaturalName) -> Ordering {
        natural(&self.0, &other.0)
    }
}

impl PartialOrd for NaturalName {
    fn partial_cmp(&self, other: &NaturalName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SortOrder {
    /// From `sort=name|size|date` and `order=asc|desc` in a query. Unknown values count as absent.
    pub fn from_query(query: Option<&str>) -> SortOrder {
        let key = match value_of(query, "sort") {
            Some("size") => SortKey::Size,
            Some("date") => SortKey::Date,
            _ => SortKey::Name,
        };
        let direction = match value_of(query, "order") {
            Some("asc") => Direction::Ascending,
            Some("desc") => Direction::Descending,
            _ => key.first_direction(),
        };
        SortOrder { key, direction }
    }
}

impl SortKey {
    pub(super) const fn word(self) -> &'static str {
        match self {
            SortKey::Name => "name",
            SortKey::Size => "size",
            SortKey::Date => "date",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            SortKey::Name => "Name",
            SortKey::Size => "Size",
            SortKey::Date => "Modified (UTC)",
        }
    }

    /// The largest and the newest are usually wanted first.
    pub(super) const fn first_direction(self) -> Direction {
        match self {
            SortKey::Name => Direction::Ascending,
            SortKey::Size | SortKey::Date => Direction::Descending,
        }
    }
}

impl Direction {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        }
    }

    pub(super) const fn aria_sort(self) -> &'static str {
        match self {
            Direction::Ascending => "ascending",
            Direction::Descending => "descending",
        }
    }

    pub(super) const fn reversed(self) -> Direction {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

pub(super) fn sort(entries: &mut [Entry], order: SortOrder) {
    let directed = |ordering: Ordering| match order.direction {
        Direction::Ascending => ordering,
        Direction::Descending => ordering.reverse(),
    };
    let after_folders = |entry: &Entry| entry.kind != EntryKind::Folder;
    sort::by(entries, |a, b| {
        let chosen = match order.key {
            SortKey::Name => natural(&a.name, &b.name),
            SortKey::Size => a.shown_size().cmp(&b.shown_size()),
            SortKey::Date => a.modified.cmp(&b.modified),
        };
        after_folders(a).cmp(&after_folders(b)).then(directed(chosen)).then_with(|| natural(&a.name, &b.name))
    });
}

impl Entry {
    fn shown_size(&self) -> u64 {
        match self.kind {
            EntryKind::File => self.size,
            EntryKind::Folder | EntryKind::Other => 0,
        }
    }
}

/// Natural order: `a2` before `A10`. Names that differ only in case or leading zeros are compared by their bytes, so
/// that the order is total.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    // Each iteration removes at least one character from both.
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        let ordering = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (x, y);
            (x, left) = split_number(left);
            (y, right) = split_number(right);
            x.len().cmp(&y.len()).then(x.cmp(y))
        } else {
            left = &left[x.len_utf8()..];
            right = &right[y.len_utf8()..];
            x.to_lowercase().cmp(y.to_lowercase())
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
}

/// The digits at the start of `text`, without leading zeros, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keeps_the_first_names_of_any_order() {
        let names = ["b10", "a", "B9", "z", "c", "a", "b1"];
        for (limit, expected) in [
            (0, vec![]),
            (1, vec!["a"]),
            (3, vec!["a", "a", "b1"]),
            (5, vec!["a", "a", "b1", "B9", "b10"]),
            (9, vec!["a", "a", "b1", "B9", "b10", "c", "z"]),
        ] {
            for start in 0..names.len() {
                let mut first = FirstNames::new(limit);
                names.iter().cycle().skip(start).take(names.len()).for_each(|name| first.add(name));
                assert_eq!(first.seen(), 7);
                let mut found: Vec<String> = first.into_names().collect();
                found.sort_by(|a, b| natural(a, b));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn sorts_names_in_natural_order() {
        let sorted = [
            "",
            "0",
            "00",
            "01",
            "1",
            "2",
            "10",
            "18446744073709551617",
            "A1b",
            "a01c",
            "A2",
            "a10",
            "a10b",
            "ab",
            "É",
            "é",
        ];
        for (at, a) in sorted.iter().enumerate() {
            for b in &sorted[at + 1..] {
                assert_eq!(natural(a, b), Ordering::Less, "{a} {b}");
                assert_eq!(natural(b, a), Ordering::Greater, "{b} {a}");
            }
        }
    }

    proptest! {
        #[test]
        fn orders_names_totally(mut names in prop::collection::vec("[aA0-2é.]{0,6}", 0..12)) {
            names.sort_by(|a, b| natural(a, b));
            for (at, a) in names.iter().enumerate() {
                for b in &names[at..] {
                    prop_assert_eq!(natural(a, b).is_eq(), a == b);
                    prop_assert!(natural(a, b).is_le());
                    prop_assert!(natural(b, a).is_ge());
                }
            }
        }
    }
}
