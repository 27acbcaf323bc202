//! Which endpoint of an application gets the next request, and how many processes are started or ended. Pure: the time
//! is handed in.

use std::time::{Duration, Instant};

use super::message::EndpointId;
use crate::supervisor::KillTimer;

/// How long an endpoint that could not be reached is the last choice.
const UNREACHABLE: Duration = Duration::from_secs(1);
/// How long an endpoint whose queue is full is no choice.
const BUSY: Duration = Duration::from_millis(10);

/// What the pool knows of an endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub id: EndpointId,
    /// Connections that workers have to it.
    pub leases: usize,
    /// Requests that it has had.
    pub requests: u64,
    pub state: EndpointState,
    pub startup: Startup,
    pub began: Instant,
    /// Since when it has no lease.
    pub unused: Instant,
    unreachable_until: Option<Instant>,
    busy_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    Serving,
    /// It gets no new lease, and is terminated when its last lease is returned.
    Retiring,
    Terminating(KillTimer),
}

/// Does a process accept connections? An address does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Startup {
    NotConnected,
    /// It has had a connection since then, and is checked next at that time.
    Connected {
        since: Instant,
        next_check: Instant,
    },
    Accepted,
}

impl Endpoint {
    pub fn new(id: EndpointId, startup: Startup, now: Instant) -> Endpoint {
        Endpoint {
            id,
            leases: 0,
            requests: 0,
            state: EndpointState::Serving,
            startup,
            began: now,
            unused: now,
            unreachable_until: None,
            busy_until: None,
        }
    }

    pub fn is_serving(&self) -> bool {
        self.state == EndpointState::Serving
    }

    pub fn mark_unreachable(&mut self, now: Instant) {
        self.unreachable_until = Some(now + UNREACHABLE);
    }

    /// Its queue of connections is full.
    pub fn mark_busy(&mut self, now: Instant) {
        self.busy_until = Some(now + BUSY);
    }

    fn is_unused(&self) -> bool {
        self.leases == 0 && self.is_serving()
    }

    fn rank(&self, avoid: Option<EndpointId>, now: Instant) -> (bool, bool, usize, u64) {
        let is_unreachable = self.unreachable_until.is_some_and(|until| now < until);
        (Some(self.id) == avoid, is_unreachable, self.leases, self.requests)
    }
}

/// The index of the endpoint with the fewest leases, of those that have fewer than `capacity` and are not `excluded`.
/// The one to `avoid`, and those that could not be reached, are the last choice.
pub fn choose(
    endpoints: &[Endpoint],
    capacity: usize,
    avoid: Option<EndpointId>,
    excluded: &[EndpointId],
    now: Instant,
) -> Option<usize> {
    let can_serve = |endpoint: &Endpoint| {
        endpoint.is_serving()
            && endpoint.leases < capacity
            && !excluded.contains(&endpoint.id)
            && endpoint.busy_until.is_none_or(|until| now >= until)
    };
    let able = endpoints.iter().enumerate().filter(|(_, endpoint)| can_serve(endpoint));
    able.min_by_key(|(_, endpoint)| endpoint.rank(avoid, now)).map(|(at, _)| at)
}

/// When the next endpoint whose queue is full is a choice again.
pub fn next_retry(endpoints: &[Endpoint], now: Instant) -> Option<Instant> {
    endpoints.iter().filter_map(|endpoint| endpoint.busy_until).filter(|until| *until > now).min()
}

/// How many processes to start, of at least `min` and at most `max`, with so many `spare` ones.
pub fn lacking(endpoints: &[Endpoint], (min, max): (usize, usize), spare: usize) -> usize {
    let serving = endpoints.iter().filter(|endpoint| endpoint.is_serving()).count();
    let unused = endpoints.iter().filter(|endpoint| endpoint.is_unused()).count();
    let wanted = min.saturating_sub(serving).max(spare.saturating_sub(unused));
    wanted.min(max.saturating_sub(serving))
}

/// The index of a process that was unused for `timeout`, beyond `min` and `spare` ones. Errors: when there will be one.
pub fn superfluous(
    endpoints: &[Endpoint],
    min: usize,
    spare: usize,
    timeout: Duration,
    now: Instant,
) -> Result<usize, Option<Instant>> {
    let serving = endpoints.iter().filter(|endpoint| endpoint.is_serving()).count();
    let unused = || endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.is_unused());
    if serving <= min || unused().count() <= spare {
        return Err(None);
    }
    match unused().min_by_key(|(_, endpoint)| endpoint.unused) {
        Some((at, endpoint)) if endpoint.unused + timeout <= now => Ok(at),
        other => Err(other.map(|(_, endpoint)| endpoint.unused + timeout)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(leases: &[usize], now: Instant) -> Vec<Endpoint> {
        let endpoint = |(at, leases): (usize, &usize)| Endpoint {
            leases: *leases,
            ..Endpoint::new(at as u64 + 1, Startup::Accepted, now)
        };
        leases.iter().enumerate().map(endpoint).collect()
    }

    #[test]
    fn chooses_the_endpoint_with_the_fewest_leases() {
        let now = Instant::now();
        let check = |leases: &[usize], avoid, excluded: &[u64], expected| {
            assert_eq!(choose(&endpoints(leases, now), 2, avoid, excluded, now), expected, "{leases:?}");
        };
        check(&[], None, &[], None);
        check(&[1, 0, 1], None, &[], Some(1));
        check(&[2, 2], None, &[], None);
        check(&[0, 1], Some(1), &[], Some(1));
        check(&[0, 2], Some(1), &[], Some(0));
        check(&[0, 1], None, &[1], Some(1));
        check(&[0, 2], None, &[1], None);
        let mut three = endpoints(&[0, 0, 0], now);
        three[0].mark_unreachable(now);
        three[1].state = EndpointState::Retiring;
        assert_eq!(choose(&three, 1, None, &[], now), Some(2));
        three[2].mark_busy(now);
        assert_eq!(choose(&three, 1, None, &[], now), Some(0), "better unreachable than busy");
        assert_eq!(next_retry(&three, now), Some(now + BUSY));
        assert_eq!(choose(&three, 1, None, &[], now + BUSY), Some(2));
        three[2].leases = 1;
        assert_eq!(choose(&three, 2, None, &[], now + UNREACHABLE), Some(0), "it may be reachable again");
    }

    #[test]
    fn starts_as_many_processes_as_the_minimum_and_the_spare_ones_need() {
        let now = Instant::now();
        let check = |leases: &[usize], spare, expected| {
            assert_eq!(lacking(&endpoints(leases, now), (2, 4), spare), expected, "{leases:?} {spare}");
        };
        check(&[], 0, 2);
        check(&[1], 0, 1);
        check(&[1, 1], 0, 0);
        check(&[1, 1], 1, 1);
        check(&[1, 1, 1], 3, 1);
        check(&[0, 0], 1, 0);
    }

    #[test]
    fn ends_the_process_that_was_unused_longest() {
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let mut three = endpoints(&[0, 0, 1], now);
        three[0].unused = now + Duration::from_secs(1);
        let check = |min, spare, at, expected| {
            assert_eq!(superfluous(&three, min, spare, Duration::from_secs(60), at), expected);
        };
        check(3, 0, later, Err(None));
        check(1, 2, later, Err(None));
        check(1, 0, now, Err(Some(later)));
        check(1, 0, later, Ok(1));
        check(1, 1, later, Ok(1));
    }
}
