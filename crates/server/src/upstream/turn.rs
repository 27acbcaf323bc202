//! Whose turn it is: so many scripts run at one time, of one route and of a worker, so many requests
//! wait for that, and none of them for long. Whoever stops waiting is out of the queue.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use site::model::Site;
use site::route::RouteId;
use tokio::sync::{self, OwnedSemaphorePermit};

use crate::semaphore::{Permit, Semaphore};

/// One worker's share of what may run, and of what may wait.
pub struct Turns {
    all: Arc<sync::Semaphore>,
    routes: RefCell<HashMap<(usize, RouteId), Arc<sync::Semaphore>>>,
    running: Semaphore,
    waiting: Semaphore,
    wait: Duration,
    workers: usize,
}

/// Leave for one script to run, given back when dropped.
pub struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_the_route: OwnedSemaphorePermit,
    _running: Option<Permit>,
}

/// Why there is no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTurn {
    /// As many wait already as may.
    Full,
    /// It has not come in time.
    Late,
}

impl Turns {
    pub fn new(site: &Site) -> Turns {
        let workers = site.workers.map_or(1, usize::from);
        let share = |of: usize| (of / workers).max(1);
        Turns {
            all: Arc::new(sync::Semaphore::new(share(site.scripts.processes))),
            routes: RefCell::default(),
            running: Semaphore::new(usize::MAX),
            // A site without a queue has none in any worker.
            waiting: Semaphore::new(site.scripts.queue.div_ceil(workers)),
            wait: site.scripts.wait,
            workers,
        }
    }

    /// Waits for a turn of a script of this route, of which `processes` may run over all workers.
    pub async fn take(&self, route: (usize, RouteId), processes: usize) -> Result<Turn, NoTurn> {
        let of_route = self.of_route(route, processes);
        if let Some(turn) = self.take_at_once(&of_route) {
            return Ok(turn);
        }
        let _place = self.waiting.take().ok_or(NoTurn::Full)?;
        let both = async {
            // The route's first: whoever waits for it must not keep others from running.
            let route = of_route.acquire_owned().await.map_err(|_| NoTurn::Late)?;
            let all = self.all.clone().acquire_owned().await.map_err(|_| NoTurn::Late)?;
            Ok(self.turn(route, all))
        };
        tokio::time::timeout(self.wait, both).await.unwrap_or(Err(NoTurn::Late))
    }

    /// Scripts that have a turn.
    pub fn running(&self) -> usize {
        self.running.taken()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    fn take_at_once(&self, of_route: &Arc<sync::Semaphore>) -> Option<Turn> {
        let route = of_route.clone().try_acquire_owned().ok()?;
        let all = self.all.clone().try_acquire_owned().ok()?;
        Some(self.turn(route, all))
    }

    fn turn(&self, of_the_route: OwnedSemaphorePermit, of_all: OwnedSemaphorePermit) -> Turn {
        Turn { _of_all: of_all, _of_the_route: of_the_route, _running: self.running.take() }
    }

    fn of_route(&self, route: (usize, RouteId), processes: usize) -> Arc<sync::Semaphore> {
        let new = || Arc::new(sync::Semaphore::new((processes / self.workers).max(1)));
        self.routes.borrow_mut().entry(route).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: (usize, RouteId) = (0, RouteId::FALLBACK);
    const OTHER: (usize, RouteId) = (1, RouteId::FALLBACK);

    fn turns(processes: usize, queue: usize, wait: Duration) -> Turns {
        let mut site = Site::folder("/".into(), Vec::new());
        (site.scripts.processes, site.scripts.queue, site.scripts.wait) = (processes, queue, wait);
        Turns::new(&site)
    }

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn as_many_run_as_may_and_as_many_wait_as_may() {
        block_on(async {
            let turns = turns(2, 1, Duration::from_secs(60));
            let first = turns.take(ROUTE, 2).await.ok();
            let second = turns.take(OTHER, 2).await.ok();
            assert_eq!((turns.running(), turns.waiting()), (2, 0));
            let mut third = Box::pin(turns.take(ROUTE, 2));
            tokio::select! { biased; _ = &mut third => panic!("a third"), () = std::future::ready(()) => {} }
            assert_eq!((turns.running(), turns.waiting()), (2, 1));
            assert_eq!(turns.take(ROUTE, 2).await.err(), Some(NoTurn::Full));
            drop(second);
            assert!(third.await.is_ok());
            drop(first);
        });
    }

    #[test]
    fn a_route_leaves_the_others_room() {
        block_on(async {
            let turns = turns(9, 9, Duration::ZERO);
            let _one = turns.take(ROUTE, 1).await.ok();
            assert_eq!(turns.take(ROUTE, 1).await.err(), Some(NoTurn::Late));
            assert!(turns.take(OTHER, 1).await.is_ok());
        });
    }

    #[test]
    fn whoever_stops_waiting_is_out_of_the_queue() {
        block_on(async {
            let turns = turns(1, 1, Duration::from_secs(60));
            let one = turns.take(ROUTE, 1).await.ok();
            {
                let mut waits = Box::pin(turns.take(ROUTE, 1));
                tokio::select! { biased; _ = &mut waits => panic!("one"), () = std::future::ready(()) => {} }
                assert_eq!(turns.waiting(), 1);
            }
            assert_eq!(turns.waiting(), 0);
            drop(one);
            assert!(turns.take(ROUTE, 1).await.is_ok());
        });
    }
}
