//! Which waiting request gets a connection to which endpoint, and which is rejected.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Action, Balancer, RequestId, Waiter, WorkerId};
use crate::pool::PoolError;
use crate::pool::message::{Availability, EndpointId, Lease};
use crate::pool::process::endpoints::{Endpoint, Wish, choose};
use crate::pool::selection::Choice;

/// How long a request waits for an idle connection of another worker, before a process is started for it.
const RECALL_TIMEOUT: Duration = Duration::from_millis(200);
/// How often idle connections are recalled from the other workers.
pub(super) const RECALL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a request is kept away from the process that has just failed it: the process may be about to end.
const AVOID: Duration = Duration::from_millis(100);
/// After this many failures in a row, no request waits for a process to start.
const FAILING: usize = 3;

/// What becomes of a request that waits.
enum Verdict {
    /// It gets a connection to the endpoint with this index.
    Serve(usize),
    Reject(PoolError),
}

impl Balancer {
    /// Serves the first request that an endpoint can serve, or rejects one that none ever can.
    pub(super) fn serve(&mut self, now: Instant) {
        if self.queue.is_empty() {
            return;
        }
        let verdict = self.queue.iter().find_map(|(_, waiter)| {
            let excluded = self.excluded(waiter, now);
            let verdict = self.verdict(waiter, &excluded, now)?;
            Some((waiter.request, verdict))
        });
        match verdict {
            None => self.provide(now),
            Some((request, Verdict::Reject(why))) => {
                let waiter = self.queue.take(|_, waiter| waiter.request == request);
                self.reject(waiter, why);
            }
            Some((request, Verdict::Serve(at))) => self.lease(request, at),
        }
    }

    /// `None`: it waits.
    fn verdict(&self, waiter: &Waiter, excluded: &[EndpointId], now: Instant) -> Option<Verdict> {
        let Waiter { choice, ref tried, .. } = *waiter;
        let slow_start = self.upstream.health.slow_start;
        let wish = Wish { choice, tried, excluded, slow_start };
        if let Some(at) = choose(&self.endpoints, self.capacity(), &wish, now) {
            return Some(Verdict::Serve(at));
        }
        let is_hopeless = self.upstream.managed().is_none()
            && self.endpoints.iter().any(Endpoint::is_serving)
            && !self.endpoints.iter().any(|endpoint| endpoint.is_eligible(choice, excluded));
        is_hopeless.then(|| {
            let was_down = |endpoint: &Endpoint| {
                endpoint.health.state() != Availability::Up && endpoint.health.since < waiter.since
            };
            let were_down = self.endpoints.len() > 1 && self.endpoints.iter().all(was_down);
            Verdict::Reject(if were_down { PoolError::AllDown } else { PoolError::Unreachable })
        })
    }

    /// Endpoints that a request cannot have.
    fn excluded(&self, waiter: &Waiter, now: Instant) -> Vec<EndpointId> {
        let is_avoiding = self.upstream.managed().is_some() && now < waiter.since + AVOID;
        let tried = if is_avoiding { &waiter.tried[..] } else { &[] };
        waiter.unreachable.iter().chain(tried).copied().collect()
    }

    fn lease(&mut self, request: RequestId, at: usize) {
        let number = self.new_id();
        let endpoint = &self.endpoints[at];
        let limit = self.upstream.managed().and_then(|managed| managed.requests).unwrap_or(u64::MAX);
        let left = limit.saturating_sub(endpoint.requests).div_ceil(self.capacity() as u64).max(1);
        let lease = Lease { number, endpoint: endpoint.id, requests: left };
        self.actions.push_back(Action::Connect { request, lease });
    }

    /// No endpoint can serve a request now.
    fn provide(&mut self, now: Instant) {
        let count = self.endpoints.iter().filter(|endpoint| endpoint.is_serving()).count();
        let max = self.upstream.managed().map(|managed| managed.max_processes);
        match max {
            // An idle connection of another worker is there sooner than another process.
            Some(_) if count > 0 && self.recall_idle(now) => {}
            Some(max) if count < max && self.restarts.pause(now).is_none() => {
                self.actions.push_back(Action::Start);
            }
            Some(_) if count == 0 && self.restarts.ends() >= FAILING => self.reject_first(PoolError::Failing),
            Some(_) => {}
            None if count == 0 && self.unresolved > 0 => {}
            None if count == 0 => self.reject_first(PoolError::Unresolved),
            None => _ = self.recall_idle(now),
        }
    }

    /// Recalls idle connections from the other workers, for the first of the requests that wait for the same endpoint.
    /// Returns whether one for the first of all may still come in time.
    fn recall_idle(&mut self, now: Instant) -> bool {
        let mut recalled = BTreeSet::new();
        for waiter in self.queue.iter_mut() {
            let endpoint = match waiter.choice {
                Choice::Only(endpoint) => Some(endpoint),
                Choice::Any | Choice::Prefer(_) => None,
            };
            let is_first = recalled.insert(endpoint);
            if is_first && waiter.recalled.is_none_or(|at| at + RECALL_INTERVAL <= now) {
                let others: BTreeSet<WorkerId> = self.leases.values().map(|leased| leased.worker).collect();
                waiter.recalled = Some(now);
                waiter.recalled_from =
                    others.into_iter().filter(|other| *other != waiter.request.worker).collect();
                let recall = |worker: &WorkerId| Action::Recall { worker: *worker, endpoint };
                self.actions.extend(waiter.recalled_from.iter().map(recall));
            }
        }
        let first = self.queue.first_mut();
        first.is_some_and(|first| !first.recalled_from.is_empty() && now < first.since + RECALL_TIMEOUT)
    }

    fn reject_first(&mut self, why: PoolError) {
        let first = self.queue.take(|_, _| true);
        self.reject(first, why);
    }

    pub(super) fn reject_excess(&mut self) {
        let last = self.queue.take_excess();
        self.reject(last, PoolError::QueueFull);
    }

    fn reject(&mut self, waiter: Option<Waiter>, why: PoolError) {
        self.actions.extend(waiter.map(|waiter| Action::Reject { request: waiter.request, why }));
    }
}
