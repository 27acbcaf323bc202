//! The endpoints of an upstream as a worker knows them from the pool, with what the worker has counted for each. Knows
//! no connection.

use std::rc::Rc;
use std::time::Instant;

use super::message::{Availability, EndpointId, EndpointNotice, Share};
use super::selection::{EndpointEntry, best_priority};

#[derive(Default)]
pub struct EndpointTable {
    entries: Vec<Rc<EndpointEntry>>,
    /// The best priority of the endpoints that are up. `None`: none is up.
    best: Option<u16>,
    /// The pool lists all endpoints: so many more are still to come. `None`: it has not begun.
    missing: Option<u64>,
    /// The endpoints that it has listed so far.
    listed: Vec<EndpointId>,
}

impl EndpointTable {
    pub fn entries(&self) -> &[Rc<EndpointEntry>] {
        &self.entries
    }

    /// Whether the pool has listed all endpoints.
    pub fn is_complete(&self) -> bool {
        self.missing == Some(0)
    }

    /// Whether all endpoints are out of service, of several.
    pub fn are_all_out(&self) -> bool {
        self.entries.len() > 1 && self.entries.iter().all(|entry| entry.state.get() != Availability::Up)
    }

    /// Whether the endpoint gets requests: it is up, and none is with a better priority.
    pub fn has_requests(&self, entry: &EndpointEntry) -> bool {
        entry.has_requests(self.best)
    }

    /// The number of endpoints that get requests.
    pub fn with_requests(&self) -> usize {
        self.entries.iter().filter(|entry| self.has_requests(entry)).count()
    }

    /// The endpoints that get no requests.
    pub fn without_requests(&self) -> Vec<EndpointId> {
        self.entries.iter().filter(|entry| !self.has_requests(entry)).map(|entry| entry.id).collect()
    }

    pub fn on_list(&mut self, count: u64) {
        self.missing = Some(count);
        self.listed.clear();
        self.forget_unlisted();
    }

    pub fn on_notice(&mut self, notice: &EndpointNotice, now: Instant) {
        match self.entries.iter().find(|entry| entry.id == notice.id) {
            Some(entry) => entry.set(notice, now),
            None => self.entries.push(Rc::new(EndpointEntry::new(notice, &self.entries, now))),
        }
        if let Some(missing) = self.missing.filter(|missing| *missing > 0) {
            self.missing = Some(missing - 1);
            self.listed.push(notice.id);
            self.forget_unlisted();
        }
        self.best = best_priority(&self.entries, &[]);
    }

    /// The entry of this endpoint, also if the pool has not announced it.
    pub fn entry(&mut self, id: EndpointId, now: Instant) -> Rc<EndpointEntry> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.id == id) {
            return entry.clone();
        }
        let notice = EndpointNotice {
            id,
            name: String::new(),
            share: Share::EQUAL,
            state: Availability::Up,
            age: std::time::Duration::ZERO,
            failures: 0,
            reason: String::new(),
        };
        Rc::new(EndpointEntry::new(&notice, &self.entries, now))
    }

    fn forget_unlisted(&mut self) {
        if self.is_complete() {
            self.entries.retain(|entry| self.listed.contains(&entry.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_list_replaces_the_table_and_keeps_the_counts() {
        let now = Instant::now();
        let notice = |id, state| EndpointNotice {
            id,
            name: id.to_string(),
            share: Share::EQUAL,
            state,
            age: Duration::ZERO,
            failures: 0,
            reason: String::new(),
        };
        let mut table = EndpointTable::default();
        assert!(!table.is_complete());
        table.on_list(2);
        table.on_notice(&notice(1, Availability::Up), now);
        assert!(!table.is_complete());
        table.on_notice(&notice(2, Availability::Up), now);
        assert!(table.is_complete());
        table.entries()[1].requests.set(7);
        table.on_notice(&notice(1, Availability::Down), now);
        assert!(!table.are_all_out());
        table.on_list(2);
        table.on_notice(&notice(3, Availability::Draining), now);
        table.on_notice(&notice(2, Availability::Down), now);
        let found: Vec<_> = table.entries().iter().map(|entry| (entry.id, entry.requests.get())).collect();
        assert_eq!(found, [(2, 7), (3, 0)]);
        assert!(table.are_all_out());
        table.on_list(0);
        assert!(table.is_complete() && table.entries().is_empty());
    }
}
