//! The concurrency limit of scripts: how many run at a time, of one route and of a worker. Requests beyond it wait in a
//! queue, each for a limited time. A route at its limit does not keep the scripts of others from running.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use site::model::Site;
use tokio::sync::oneshot;

use super::request::RouteOfHost;
use crate::admission::{AdmissionQueue, Ticket};

/// One worker's part of the limits.
pub struct ConcurrencyLimit {
    state: Rc<RefCell<State>>,
    wait: Duration,
    workers: usize,
}

struct State {
    limit: usize,
    running: usize,
    /// Scripts that run, of each route that has any.
    routes: HashMap<RouteOfHost, usize>,
    queue: AdmissionQueue<Waiter>,
}

struct Waiter {
    route: RouteOfHost,
    route_limit: usize,
    grant: oneshot::Sender<ScriptPermit>,
}

/// Permits one script to run, until it is dropped.
pub struct ScriptPermit {
    state: Rc<RefCell<State>>,
    route: RouteOfHost,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPermit {
    QueueFull,
    TimedOut,
}

impl ConcurrencyLimit {
    pub fn new(site: &Site) -> ConcurrencyLimit {
        let workers = site.workers.map_or(1, usize::from);
        let state = State {
            limit: (site.scripts.processes / workers).max(1),
            running: 0,
            routes: HashMap::new(),
            // Without a queue in the site, no worker has one.
            queue: AdmissionQueue::new(site.scripts.queue.div_ceil(workers)),
        };
        ConcurrencyLimit { state: Rc::new(RefCell::new(state)), wait: site.scripts.wait, workers }
    }

    /// Waits for a permit for a script of this route, of which `processes` may run in all workers.
    pub async fn take(&self, route: RouteOfHost, processes: usize) -> Result<ScriptPermit, NoPermit> {
        let (grant, granted) = oneshot::channel();
        let waiter = Waiter { route, route_limit: (processes / self.workers).max(1), grant };
        let ticket = self.state.borrow_mut().queue.push(waiter);
        let _waiting = WaitGuard { limit: self, ticket };
        admit(&self.state);
        // The others fit into the queue before, so that the excess is this request.
        if self.state.borrow_mut().queue.take_excess().is_some() {
            return Err(NoPermit::QueueFull);
        }
        let granted = tokio::time::timeout(self.wait, granted).await;
        granted.ok().and_then(Result::ok).ok_or(NoPermit::TimedOut)
    }

    /// Scripts that have a permit.
    pub fn running(&self) -> usize {
        self.state.borrow().running
    }

    /// Requests that wait for a permit.
    pub fn waiting(&self) -> usize {
        self.state.borrow().queue.len()
    }
}

impl State {
    /// Takes the first request out of the queue whose script may run.
    fn admit(&mut self) -> Option<Waiter> {
        if self.running >= self.limit {
            return None;
        }
        let may_run = |_, waiter: &Waiter| {
            self.routes.get(&waiter.route).is_none_or(|running| *running < waiter.route_limit)
        };
        let waiter = self.queue.take(may_run)?;
        self.running += 1;
        *self.routes.entry(waiter.route).or_default() += 1;
        Some(waiter)
    }

    fn release(&mut self, route: RouteOfHost) {
        self.running -= 1;
        if let Some(running) = self.routes.get_mut(&route) {
            *running -= 1;
        }
        self.routes.retain(|_, running| *running > 0);
    }
}

fn admit(state: &Rc<RefCell<State>>) {
    loop {
        let Some(Waiter { route, grant, .. }) = state.borrow_mut().admit() else { return };
        // If the request waits no more, this drops the permit.
        _ = grant.send(ScriptPermit { state: state.clone(), route });
    }
}

impl Drop for ScriptPermit {
    fn drop(&mut self) {
        self.state.borrow_mut().release(self.route);
        admit(&self.state);
    }
}

/// Removes a request that waits no more.
struct WaitGuard<'a> {
    limit: &'a ConcurrencyLimit,
    ticket: Ticket,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        _ = self.limit.state.borrow_mut().queue.remove(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use site::route::RouteId;

    use super::*;

    const ROUTE: RouteOfHost = RouteOfHost { host: 0, route: RouteId::DEFAULT };
    const OTHER: RouteOfHost = RouteOfHost { host: 1, route: RouteId::DEFAULT };

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
    fn limits_the_scripts_that_run_and_the_requests_that_wait() {
        block_on(async {
            let concurrency = concurrency(2, 1, Duration::from_secs(60));
            let first = concurrency.take(ROUTE, 2).await.ok();
            let second = concurrency.take(OTHER, 2).await.ok();
            assert_eq!((concurrency.running(), concurrency.waiting()), (2, 0));
            let mut third = Box::pin(concurrency.take(ROUTE, 2));
            tokio::select! { biased; _ = &mut third => panic!("a third"), () = std::future::ready(()) => {} }
            assert_eq!((concurrency.running(), concurrency.waiting()), (2, 1));
            assert_eq!(concurrency.take(ROUTE, 2).await.err(), Some(NoPermit::QueueFull));
            drop(second);
            assert!(third.await.is_ok());
            drop(first);
        });
    }

    #[test]
    fn a_route_at_its_limit_leaves_permits_to_others() {
        block_on(async {
            let concurrency = concurrency(9, 9, Duration::ZERO);
            let _one = concurrency.take(ROUTE, 1).await.ok();
            assert_eq!(concurrency.take(ROUTE, 1).await.err(), Some(NoPermit::TimedOut));
            assert!(concurrency.take(OTHER, 1).await.is_ok());
        });
    }

    #[test]
    fn a_request_that_stops_waiting_leaves_the_queue() {
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
