//! Places in something bounded: whoever holds one counts, and gives it back by letting it go.

use std::cell::Cell;
use std::rc::Rc;

pub struct Places {
    taken: Rc<Cell<usize>>,
    limit: usize,
}

/// Given back when dropped.
pub struct Place(Rc<Cell<usize>>);

impl Places {
    pub fn new(limit: usize) -> Places {
        Places { taken: Rc::default(), limit }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// `None`: all are taken.
    pub fn take(&self) -> Option<Place> {
        let taken = self.taken.get();
        (taken < self.limit).then(|| {
            self.taken.set(taken + 1);
            Place(self.taken.clone())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
