//! A semaphore that never waits: it counts the permits that are held, and refuses more than its limit.

use std::cell::Cell;
use std::rc::Rc;

pub struct Semaphore {
    taken: Rc<Cell<usize>>,
    limit: usize,
}

/// Dropping it returns it to its semaphore.
pub struct Permit(Rc<Cell<usize>>);

impl Semaphore {
    pub fn new(limit: usize) -> Semaphore {
        Semaphore { taken: Rc::default(), limit }
    }

    /// Permits that are held.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// `None`: all permits are held.
    pub fn take(&self) -> Option<Permit> {
        let taken = self.taken.get();
        (taken < self.limit).then(|| {
            self.taken.set(taken + 1);
            Permit(self.taken.clone())
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
