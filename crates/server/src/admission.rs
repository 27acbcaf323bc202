//! A bounded first-in, first-out queue of waiters. Knows nothing of clocks, tasks and resources: its users keep the
//! deadline, and decide which waiter can be admitted.

use std::collections::VecDeque;

/// The number of a waiter. No other waiter of the same queue gets it again.
pub type Ticket = u64;

pub struct AdmissionQueue<W> {
    waiters: VecDeque<(Ticket, W)>,
    limit: usize,
    next: Ticket,
}

impl<W> AdmissionQueue<W> {
    pub fn new(limit: usize) -> AdmissionQueue<W> {
        AdmissionQueue { waiters: VecDeque::new(), limit, next: 1 }
    }

    /// Adds a waiter at the end, even beyond the limit: a queue of no length still admits what need not wait. The
    /// caller admits, and then takes the excess.
    pub fn push(&mut self, waiter: W) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.waiters.push_back((ticket, waiter));
        ticket
    }

    /// The last waiter, if there are more than the limit.
    pub fn take_excess(&mut self) -> Option<W> {
        if self.waiters.len() <= self.limit {
            return None;
        }
        self.waiters.pop_back().map(|(_, waiter)| waiter)
    }

    pub fn remove(&mut self, ticket: Ticket) -> Option<W> {
        self.take(|own, _| own == ticket)
    }

    /// The first waiter that fits.
    pub fn take(&mut self, mut fits: impl FnMut(Ticket, &W) -> bool) -> Option<W> {
        let at = self.waiters.iter().position(|(ticket, waiter)| fits(*ticket, waiter))?;
        self.waiters.remove(at).map(|(_, waiter)| waiter)
    }

    pub fn retain(&mut self, mut stays: impl FnMut(&W) -> bool) {
        self.waiters.retain(|(_, waiter)| stays(waiter));
    }

    pub fn first_mut(&mut self) -> Option<&mut W> {
        self.waiters.front_mut().map(|(_, waiter)| waiter)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &W)> {
        self.waiters.iter().map(|(ticket, waiter)| (*ticket, waiter))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.waiters.iter_mut().map(|(_, waiter)| waiter)
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub fn clear(&mut self) {
        self.waiters.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_the_first_that_fits_and_rejects_the_last_beyond_the_limit() {
        let mut queue = AdmissionQueue::new(2);
        let [one, two, _] = ["a", "b", "c"].map(|waiter| queue.push(waiter));
        assert_eq!(queue.take_excess(), Some("c"));
        assert_eq!(queue.take_excess(), None);
        assert_eq!(queue.take(|_, waiter| *waiter > "a"), Some("b"));
        assert_eq!(queue.remove(two), None, "it was admitted");
        assert_eq!(queue.push("d"), 4, "no ticket is given again");
        assert_eq!(queue.remove(one), Some("a"));
        assert_eq!((queue.len(), queue.first_mut()), (1, Some(&mut "d")));
    }
}
