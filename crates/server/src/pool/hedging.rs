//! Hedges: requests that have a second endpoint while their first is silent. A worker has few of them at a time, so
//! that they do not double the load of endpoints that are slow because they are busy. Knows nothing of responses.

use std::rc::Rc;

use super::message::{EndpointId, Tried};
use super::selection::Choice;
use super::{Checkout, Pool, PoolError, Sharing};

/// A hedge, until it is decided which endpoint has responded.
pub struct Hedge {
    pool: Rc<Pool>,
    endpoint: EndpointId,
}

/// Why a request has no hedge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHedge {
    /// No other endpoint is up.
    NoEndpoint,
    /// There are as many hedges as there may be, or requests wait for connections.
    OverBudget,
}

impl Pool {
    /// Begins a hedge of a request that `first` has. `budget`: hedges per 100 requests at the same time.
    pub fn hedge(self: &Rc<Pool>, first: EndpointId, budget: u8) -> Result<Hedge, NoHedge> {
        let table = self.table.borrow();
        let running: usize = table.entries().iter().map(|entry| entry.in_flight.get()).sum();
        if self.waiting() > 0 || self.hedges.get() >= most(running, budget) {
            return Err(NoHedge::OverBudget);
        }
        // The endpoint that is chosen has had its turn.
        let endpoint = self.candidates(&table).other_than(first).ok_or(NoHedge::NoEndpoint)?;
        self.hedges.update(|count| count + 1);
        Ok(Hedge { pool: self.clone(), endpoint })
    }
}

impl Hedge {
    pub async fn check_out(&self, sharing: Sharing) -> Result<Checkout, PoolError> {
        self.pool.check_out_of(Choice::Only(self.endpoint), &Tried::new(), sharing).await
    }
}

impl Drop for Hedge {
    fn drop(&mut self) {
        self.pool.hedges.update(|count| count - 1);
    }
}

/// Hedges at a time, of `running` requests. A worker with few requests may have one.
fn most(running: usize, budget: u8) -> usize {
    (running.saturating_mul(budget.into()) / 100).max(1)
}

#[cfg(test)]
mod tests {
    use super::most;

    #[test]
    fn hedges_are_a_part_of_the_requests() {
        for (running, budget, expected) in [
            (0, 10, 1),
            (1, 100, 1),
            (19, 10, 1),
            (20, 10, 2),
            (200, 10, 20),
            (7, 100, 7),
            (usize::MAX, 1, usize::MAX / 100),
        ] {
            assert_eq!(most(running, budget), expected, "{running} at {budget}");
        }
    }
}
