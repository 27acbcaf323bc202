//! Files in codings with a dictionary (RFC 9842): what an entry has of them, and the dictionaries that clients may
//! have, which are earlier files.
//!
//! Knows nothing of encoders.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::Files;
use super::HostKey;
use super::encoded::Encoded;
use super::entry::Entry;
use super::table::Cost;

/// The SHA-256 of a dictionary.
pub type Hash = [u8; 32];

/// Deltas of one entry. The oldest is dropped for a new one.
const DELTAS: usize = 8;
/// Folders of which the last search is remembered.
const FOLDERS: usize = 256;
/// A folder is searched at most once in so many seconds.
const SEARCH_SECONDS: i64 = 10;

/// What was made of an entry, by dictionary and coding.
#[derive(Default)]
pub struct Deltas {
    made: RefCell<VecDeque<(Hash, Coding, Delta)>>,
    /// Whether the content of the entry is, or will be, a dictionary.
    pub is_remembered: Cell<bool>,
}

#[derive(Clone)]
pub enum Delta {
    Making,
    /// It would not be smaller, or there is no such dictionary.
    None,
    /// An entry with one representation.
    Ready(Rc<Entry>),
}

impl Deltas {
    pub fn get(&self, hash: &Hash, coding: Coding) -> Option<Delta> {
        let made = self.made.borrow();
        made.iter()
            .find(|(of, in_coding, _)| of == hash && *in_coding == coding)
            .map(|(.., delta)| delta.clone())
    }

    pub fn set(&self, hash: Hash, coding: Coding, delta: Delta) {
        self.remove(&hash, coding);
        let mut made = self.made.borrow_mut();
        if made.len() == DELTAS {
            made.pop_front();
        }
        made.push_back((hash, coding, delta));
    }

    pub fn remove(&self, hash: &Hash, coding: Coding) {
        self.made.borrow_mut().retain(|(of, in_coding, _)| of != hash || *in_coding != coding);
    }

    pub(super) fn cost(&self) -> Cost {
        let of_one = |made: &(Hash, Coding, Delta)| {
            let ready = if let (.., Delta::Ready(entry)) = made { entry.cost() } else { Cost::default() };
            ready + Cost::of_bytes(size_of_val(made))
        };
        self.made.borrow().iter().map(of_one).sum()
    }
}

/// The contents that were sent as dictionaries, the most recently used one first.
pub struct Dictionaries {
    contents: RefCell<VecDeque<(Hash, Arc<Vec<u8>>)>>,
    /// Bytes of all.
    limit: usize,
    /// The second of the last search of a folder, by host.
    searched: RefCell<HashMap<(HostKey, String), i64>>,
}

impl Dictionaries {
    pub fn new(limit: usize) -> Dictionaries {
        Dictionaries { contents: RefCell::default(), limit, searched: RefCell::default() }
    }

    pub fn get(&self, hash: &Hash) -> Option<Arc<Vec<u8>>> {
        let mut contents = self.contents.borrow_mut();
        let found = contents.iter().position(|(of, _)| of == hash)?;
        let dictionary = contents.remove(found)?;
        contents.push_front(dictionary.clone());
        Some(dictionary.1)
    }

    pub fn insert(&self, hash: Hash, content: Arc<Vec<u8>>) {
        if content.len() > self.limit || self.get(&hash).is_some() {
            return;
        }
        let mut contents = self.contents.borrow_mut();
        contents.push_front((hash, content));
        while contents.iter().map(|(_, content)| content.len()).sum::<usize>() > self.limit {
            contents.pop_back();
        }
    }

    /// Whether `folder` may be searched now. If so, it counts as searched.
    pub fn may_search(&self, host: HostKey, folder: &str, now: i64) -> bool {
        let mut searched = self.searched.borrow_mut();
        let is_recent = |second: &i64| (0..SEARCH_SECONDS).contains(&(now - second));
        if searched.len() >= FOLDERS {
            searched.retain(|_, second| is_recent(second));
        }
        let key = (host, folder.to_owned());
        let may = searched.len() < FOLDERS && !searched.get(&key).is_some_and(is_recent);
        if may {
            searched.insert(key, now);
        }
        may
    }
}

impl Files {
    /// Adds a delta of `entry`. `None`: there is none. Nothing happens if the file has changed.
    pub fn add_delta(
        &self,
        host: HostKey,
        path: &SafePath<'_>,
        entry: &Rc<Entry>,
        (hash, coding): (Hash, Coding),
        encoded: Option<Encoded>,
    ) {
        let Some(deltas) = &entry.deltas else { return };
        let delta = match encoded {
            None => Delta::None,
            Some(encoded) => {
                let route = self.services.route(host.host(), path);
                Delta::Ready(Rc::new(self.only_encoded(route, entry, coding, encoded)))
            }
        };
        deltas.set(hash, coding, delta);
        let Some(now) = self.cached(host, path.as_str()) else { return };
        if now.deltas.as_ref().is_some_and(|other| Rc::ptr_eq(other, deltas)) {
            self.insert(host, path, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_the_dictionary_that_was_used_least_recently() {
        let dictionaries = Dictionaries::new(100);
        let insert =
            |number: u8, bytes: usize| dictionaries.insert([number; 32], Arc::new(vec![number; bytes]));
        insert(1, 40);
        insert(2, 40);
        assert!(dictionaries.get(&[1; 32]).is_some());
        insert(3, 40);
        let known: Vec<bool> = (1..4).map(|number| dictionaries.get(&[number; 32]).is_some()).collect();
        assert_eq!(known, [true, false, true]);
        insert(4, 101);
        assert!(dictionaries.get(&[4; 32]).is_none() && dictionaries.get(&[3; 32]).is_some());
    }

    #[test]
    fn searches_a_folder_once_in_a_while() {
        let dictionaries = Dictionaries::new(100);
        assert!(dictionaries.may_search(HostKey::from(0), "a/", 100));
        assert!(!dictionaries.may_search(HostKey::from(0), "a/", 109));
        assert!(
            dictionaries.may_search(HostKey::from(1), "a/", 109)
                && dictionaries.may_search(HostKey::from(0), "b/", 109)
        );
        assert!(dictionaries.may_search(HostKey::from(0), "a/", 110));
        let many = (0..2 * FOLDERS)
            .filter(|n| dictionaries.may_search(HostKey::from(9), &n.to_string(), 110))
            .count();
        assert!(many < FOLDERS, "{many}");
        assert!(dictionaries.may_search(HostKey::from(9), "later", 200));
    }

    #[test]
    fn an_entry_has_a_bounded_number_of_deltas() {
        let deltas = Deltas::default();
        for number in 0..20 {
            deltas.set([number; 32], Coding::Dcz, Delta::None);
        }
        let known = (0..20).filter(|number| deltas.get(&[*number; 32], Coding::Dcz).is_some());
        assert_eq!(known.collect::<Vec<u8>>(), (12..20).collect::<Vec<_>>());
        assert!(deltas.get(&[19; 32], Coding::Dcb).is_none());
    }
}
