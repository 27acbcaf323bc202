//! The concurrency limit of scripts: so many scripts run at one time, of one route and of a worker, so many requests
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
pub struct ConcurrencyLimit {
    all: Arc<sync::Semaphore>,
    routes: RefCell<HashMap<(usize, RouteId), Arc<sync::Semaphore>>>,
    running: Semaphore,
    waiting: Semaphore,
    wait: Duration,
    workers: usize,
}

/// Leave for one script to run, given back when dropped.
pub struct ScriptPermit {
    _of_all: OwnedSemaphorePermit,
    _of_the_route: OwnedSemaphorePermit,
    _running: Option<Permit>,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPermit {
    /// As many wait already as may.
    Full,
    /// It has not come in time.
    Late,
}

impl ConcurrencyLimit {
    pub fn new(site: &Site) -> ConcurrencyLimit {
        let workers = site.workers.map_or(1, usize::from);
        let share = |of: usize| (of / workers).max(1);
        ConcurrencyLimit {
            all: Arc::new(sync::Semaphore::new(share(site.scripts.processes))),
            routes: RefCell::default(),
            running: Semaphore::new(usize::MAX),
            // A site without a queue has none in any worker.
            waiting: Semaphore::new(site.scripts.queue.div_ceil(workers)),
            wait: site.scripts.wait,
            workers,
        }
    }

    /// Waits for a permit of a script of this route, of which `processes` may run over all workers.
    pub async fn take(&self, route: (usize, RouteId), processes: usize) -> Result<ScriptPermit, NoPermit> {
        let of_route = self.of_route(route, processes);
        if let Some(permit) = self.take_at_once(&of_route) {
            return Ok(permit);
        }
        let _place = self.waiting.take().ok_or(NoPermit::Full)?;
        let both = async {
            // The route's first: whoever waits for it must not keep others from running.
            let route = of_route.acquire_owned().await.map_err(|_| NoPermit::Late)?;
            let all = self.all.clone().acquire_owned().await.map_err(|_| NoPermit::Late)?;
            Ok(self.permit(route, all))
        };
        tokio::time::timeout(self.wait, both).await.unwrap_or(Err(NoPermit::Late))
    }

    /// Scripts that have a permit.
    pub fn running(&self) -> usize {
        self.running.taken()
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    fn take_at_once(&self, of_route: &Arc<sync::Semaphore>) -> Option<ScriptPermit> {
        let route = of_route.clone().try_acquire_owned().ok()?;
        let all = self.all.clone().try_acquire_owned().ok()?;
        Some(self.permit(route, all))
    }

    fn permit(&self, of_the_route: OwnedSemaphorePermit, of_all: OwnedSemaphorePermit) -> ScriptPermit {
        ScriptPermit { _of_all: of_all, _of_the_route: of_the_route, _running: self.running.take() }
    }

    fn of_route(&self, route: (usize, RouteId), processes: usize) -> Arc<sync::Semaphore> {
        let new = || Arc::new(sync::Semaphore::new((processes / self.workers).max(1)));
        self.routes.borrow_mut().entry(route).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: (usize, RouteId) = (0, RouteId::DEFAULT);
    const OTHER: (usize, RouteId) = (1, RouteId::DEFAULT);

    fn concurrency(processes: usize, queue: usize, wait: Duration) -> ConcurrencyLimit {
        let mut site = Site::folder("/".into(), Vec::new());
        (site.scripts.processes, site.scripts.queue, site.scripts.wait) = (processes, queue, wait);
        ConcurrencyLimit::new(&site)
    }

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn as_many_run_as_may_and_as_many_wait_as_may() {
        block_on(async {
            let concurrency = concurrency(2, 1, Duration::from_secs(60));
            let first = concurrency.take(ROUTE, 2).await.ok();
            let second = concurrency.take(OTHER, 2).await.ok();
            assert_eq!((concurrency.running(), concurrency.waiting()), (2, 0));
            let mut third = Box::pin(concurrency.take(ROUTE, 2));
            tokio::select! { biased; _ = &mut third => panic!("a third"), () = std::future::ready(()) => {} }
            assert_eq!((concurrency.running(), concurrency.waiting()), (2, 1));
            assert_eq!(concurrency.take(ROUTE, 2).await.err(), Some(NoPermit::Full));
            drop(second);
            assert!(third.await.is_ok());
            drop(first);
        });
    }

    #[test]
    fn a_route_leaves_the_others_room() {
        block_on(async {
            let concurrency = concurrency(9, 9, Duration::ZERO);
            let _one = concurrency.take(ROUTE, 1).await.ok();
            assert_eq!(concurrency.take(ROUTE, 1).await.err(), Some(NoPermit::Late));
            assert!(concurrency.take(OTHER, 1).await.is_ok());
        });
    }

    #[test]
    fn whoever_stops_waiting_is_out_of_the_queue() {
        block_on(async {
            let concurrency = concurrency(1, 1, Duration::from_secs(60));
            let one = concurrency.take(ROUTE, 1).await.ok();
            {
                let mut waits = Box::pin(concurrency.take(ROUTE, 1));
                tokio::select! { biased; _ = &mut waits => panic!("one"), () = std::future::ready(()) => {} }
                assert_eq!(concurrency.waiting(), 1);
            }
            assert_eq!(concurrency.waiting(), 0);
            drop(one);
            assert!(concurrency.take(ROUTE, 1).await.is_ok());
        });
    }
}
