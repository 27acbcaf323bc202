//! Which endpoint of an application gets the next request, and how many processes are started or ended. Pure: the time
//! is handed in.

use std::cell::Cell;
use std::time::{Duration, Instant};

use site::upstream::Managed;

use super::health::EndpointHealth;
use crate::pool::message::{Availability, EndpointId, Share};
use crate::pool::selection::{Choice, effective_weight, load, next_in_turn};
use crate::process::supervisor::KillTimer;

/// How long an endpoint whose queue is full is no choice.
const BUSY: Duration = Duration::from_millis(10);

/// What the pool knows of an endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub id: EndpointId,
    /// The address, or the process.
    pub name: String,
    pub share: Share,
    pub health: EndpointHealth,
    /// Connections that workers have to it, without the upgraded ones.
    pub leases: usize,
    /// Connections to it that have another protocol: they take no capacity.
    pub upgraded: usize,
    /// Requests that it has had.
    pub requests: u64,
    /// Requests in a row to which it has not responded in time.
    pub timeouts: usize,
    pub state: EndpointState,
    pub startup: Startup,
    pub began: Instant,
    /// Since when it has no lease.
    pub unused: Instant,
    busy_until: Option<Instant>,
    /// What it has saved up for its next turn among those that are equally good.
    credit: Cell<i64>,
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
    pub fn new(id: EndpointId, name: String, share: Share, startup: Startup, now: Instant) -> Endpoint {
        Endpoint {
            id,
            name,
            share,
            health: EndpointHealth::new(now),
            leases: 0,
            upgraded: 0,
            requests: 0,
            timeouts: 0,
            state: EndpointState::Serving,
            startup,
            began: now,
            unused: now,
            busy_until: None,
            credit: Cell::new(0),
        }
    }

    pub fn is_serving(&self) -> bool {
        self.state == EndpointState::Serving
    }

    /// Its queue of connections is full.
    pub fn mark_busy(&mut self, now: Instant) {
        self.busy_until = Some(now + BUSY);
    }

    fn is_unused(&self) -> bool {
        self.leases == 0 && self.is_serving()
    }

    /// Whether it may ever serve a request that has chosen so.
    pub fn is_eligible(&self, choice: Choice, excluded: &[EndpointId]) -> bool {
        let is_chosen = match choice {
            Choice::Any | Choice::Prefer(_) => true,
            Choice::Only(only) => only == self.id,
        };
        let is_drained = self.health.state() == Availability::Draining;
        is_chosen && self.is_serving() && !is_drained && !excluded.contains(&self.id)
    }

    /// In thousandths: less while it starts slowly.
    fn weight(&self, wish: &Wish, now: Instant) -> i64 {
        let age = now.saturating_duration_since(self.health.since);
        effective_weight(self.share.weight, age, wish.slow_start)
    }

    /// How good a choice this endpoint is: the least is the best.
    fn rank(&self, wish: &Wish, now: Instant) -> impl Ord + use<> {
        let is_tried = wish.tried.contains(&self.id);
        let is_other = matches!(wish.choice, Choice::Prefer(preferred) if preferred != self.id);
        let load = load(self.leases + self.upgraded, self.weight(wish, now));
        (is_tried, self.health.down_until(), self.share.priority, is_other, load)
    }
}

/// What a request wants of its endpoint.
pub struct Wish<'a> {
    pub choice: Choice,
    /// Chosen only if there is no other.
    pub tried: &'a [EndpointId],
    pub excluded: &'a [EndpointId],
    pub slow_start: Duration,
}

/// The index of the endpoint with the fewest leases for its weight, of those that have fewer than `capacity`. Those with
/// equally few take turns. While an endpoint is up that the request has not tried, the request waits for its capacity
/// rather than go to one that has a worse priority, or that is down. Of those that are down, the one comes first that is
/// up again soonest; one that the request has tried comes last.
pub fn choose(endpoints: &[Endpoint], capacity: usize, wish: &Wish, now: Instant) -> Option<usize> {
    let is_up = |endpoint: &&Endpoint| {
        endpoint.is_eligible(wish.choice, wish.excluded)
            && endpoint.health.down_until().is_none()
            && !wish.tried.contains(&endpoint.id)
    };
    let best = endpoints.iter().filter(is_up).map(|endpoint| endpoint.share.priority).min();
    let is_busy = |endpoint: &Endpoint| endpoint.busy_until.is_some_and(|until| now < until);
    let waits = endpoints.iter().any(|endpoint| is_up(&endpoint) && !is_busy(endpoint));
    let can_serve = |endpoint: &Endpoint| {
        endpoint.is_eligible(wish.choice, wish.excluded)
            && best.is_none_or(|best| endpoint.share.priority <= best)
            && !(waits && endpoint.health.down_until().is_some())
            && endpoint.leases < capacity
            && !is_busy(endpoint)
    };
    let able = || endpoints.iter().enumerate().filter(|(_, endpoint)| can_serve(endpoint));
    let rank = |endpoint: &Endpoint| endpoint.rank(wish, now);
    let least = able().map(|(_, endpoint)| rank(endpoint)).min()?;
    let equal = able().filter(|(_, endpoint)| rank(endpoint) == least);
    next_in_turn(equal.map(|(at, endpoint)| (at, endpoint.weight(wish, now), &endpoint.credit)))
}

/// When the next endpoint whose queue is full is a choice again.
pub fn next_retry(endpoints: &[Endpoint], now: Instant) -> Option<Instant> {
    endpoints.iter().filter_map(|endpoint| endpoint.busy_until).filter(|until| *until > now).min()
}

/// How many processes to start.
pub fn lacking(endpoints: &[Endpoint], managed: &Managed) -> usize {
    let &Managed { min_processes: min, max_processes: max, spare_processes: spare, .. } = managed;
    let serving = endpoints.iter().filter(|endpoint| endpoint.is_serving()).count();
    let unused = endpoints.iter().filter(|endpoint| endpoint.is_unused()).count();
    let wanted = min.saturating_sub(serving).max(spare.saturating_sub(unused));
    wanted.min(max.saturating_sub(serving))
}

/// The index of a process to end. Errors: when there will be one.
pub fn superfluous(
    endpoints: &[Endpoint],
    managed: &Managed,
    now: Instant,
) -> Result<usize, Option<Instant>> {
    let &Managed { min_processes: min, spare_processes: spare, unused: timeout, .. } = managed;
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

    const ANY: Wish = Wish { choice: Choice::Any, tried: &[], excluded: &[], slow_start: Duration::ZERO };

    fn fail(endpoint: &mut Endpoint, now: Instant) {
        endpoint.health.on_failure(&Default::default(), "reset", now);
        endpoint.health.update(now);
    }

    fn endpoints(leases: &[usize], now: Instant) -> Vec<Endpoint> {
        let endpoint = |(at, leases): (usize, &usize)| Endpoint {
            leases: *leases,
            ..Endpoint::new(at as u64 + 1, String::new(), Share::EQUAL, Startup::Accepted, now)
        };
        leases.iter().enumerate().map(endpoint).collect()
    }

    /// At most 4 processes, each of which ends after a minute.
    fn managed(min_processes: usize, spare_processes: usize) -> Managed {
        let unused = Duration::from_secs(60);
        let managed = Managed::new(Vec::new(), Default::default(), "/".into());
        Managed { min_processes, max_processes: 4, spare_processes, unused, ..managed }
    }

    #[test]
    fn chooses_the_endpoint_with_the_fewest_leases() {
        let now = Instant::now();
        let check = |leases: &[usize], tried: &[u64], excluded: &[u64], expected| {
            let wish = Wish { tried, excluded, ..ANY };
            assert_eq!(choose(&endpoints(leases, now), 2, &wish, now), expected, "{leases:?}");
        };
        check(&[], &[], &[], None);
        check(&[1, 0, 1], &[], &[], Some(1));
        check(&[2, 2], &[], &[], None);
        check(&[0, 1], &[1], &[], Some(1));
        check(&[0, 2], &[1], &[], Some(0));
        check(&[0, 1], &[], &[1], Some(1));
        check(&[0, 2], &[], &[1], None);
        let mut three = endpoints(&[0, 0, 0], now);
        fail(&mut three[0], now);
        three[1].state = EndpointState::Retiring;
        assert_eq!(choose(&three, 1, &ANY, now), Some(2));
        three[2].mark_busy(now);
        assert_eq!(choose(&three, 1, &ANY, now), Some(0), "better down than busy");
        assert_eq!(next_retry(&three, now), Some(now + BUSY));
        assert_eq!(choose(&three, 1, &ANY, now + BUSY), Some(2));
        three[2].leases = 1;
        let later = now + Duration::from_secs(1);
        three[0].health.update(later);
        assert_eq!(choose(&three, 2, &ANY, later), Some(0), "it is up again");
    }

    #[test]
    fn a_request_gets_the_endpoint_that_it_has_chosen() {
        let now = Instant::now();
        let mut three = endpoints(&[0, 1, 2], now);
        let choose = |three: &[Endpoint], choice| {
            super::choose(three, 2, &Wish { choice, ..ANY }, now).map(|at| at + 1)
        };
        assert_eq!(choose(&three, Choice::Prefer(2)), Some(2));
        assert_eq!(choose(&three, Choice::Only(2)), Some(2));
        // It is at capacity.
        assert_eq!(choose(&three, Choice::Prefer(3)), Some(1));
        assert_eq!(choose(&three, Choice::Only(3)), None);
        fail(&mut three[1], now);
        assert_eq!(choose(&three, Choice::Prefer(2)), Some(1));
        assert_eq!(choose(&three, Choice::Only(2)), Some(2));
        three[0].leases = 2;
        assert_eq!(choose(&three, Choice::Any), None, "it waits for one that is up");
        three[0].leases = 0;
        fail(&mut three[2], now + Duration::from_millis(1));
        three[0].health.set_draining(true);
        three[0].health.update(now);
        assert_eq!(choose(&three, Choice::Any), Some(2), "better down than drained");
        assert_eq!(choose(&three, Choice::Only(1)), None);
    }

    #[test]
    fn the_least_bad_of_those_that_are_down_is_up_soonest() {
        let now = Instant::now();
        let mut two = endpoints(&[0, 0], now);
        fail(&mut two[1], now);
        fail(&mut two[0], now + Duration::from_millis(1));
        assert_eq!(choose(&two, 1, &ANY, now), Some(1));
    }

    #[test]
    fn a_better_priority_has_all_requests_while_it_is_up() {
        let now = Instant::now();
        let mut three = endpoints(&[1, 0, 0], now);
        three[1].share.priority = 1;
        three[2].share.priority = 2;
        let choose = |three: &[Endpoint], tried| super::choose(three, 2, &Wish { tried, ..ANY }, now);
        assert_eq!(choose(&three, &[]), Some(0));
        three[0].leases = 2;
        assert_eq!(choose(&three, &[]), None, "it waits for its capacity");
        assert_eq!(choose(&three, &[1]), Some(1), "it has failed this request");
        three[0].leases = 1;
        fail(&mut three[0], now);
        assert_eq!(choose(&three, &[]), Some(1));
        three[1].health.set_draining(true);
        three[1].health.update(now);
        assert_eq!(choose(&three, &[]), Some(2));
        fail(&mut three[2], now + Duration::from_millis(1));
        assert_eq!(choose(&three, &[]), Some(0), "the least bad one");
    }

    #[test]
    fn weights_share_the_leases() {
        let now = Instant::now();
        let mut two = endpoints(&[0, 0], now);
        two[0].share.weight = 3;
        for _ in 0..8 {
            let at = choose(&two, 100, &ANY, now).unwrap();
            two[at].leases += 1;
        }
        assert_eq!((two[0].leases, two[1].leases), (6, 2));
        // The second one has had fewer requests, as one that was down.
        let mut unused = two.clone();
        (unused[0].requests, unused[0].leases, unused[1].leases) = (1000, 0, 0);
        let first = (0..8).filter(|_| choose(&unused, 100, &ANY, now) == Some(0)).count();
        assert_eq!(first, 6, "of equally good ones, each has its share");
        two[1].health.since = now + Duration::from_secs(9);
        let wish = Wish { slow_start: Duration::from_secs(10), ..ANY };
        two[1].leases = 1;
        assert_eq!(choose(&two, 100, &wish, now + Duration::from_secs(10)), Some(0), "it starts slowly");
        assert_eq!(choose(&two, 100, &wish, now + Duration::from_secs(19)), Some(1));
    }

    #[test]
    fn starts_as_many_processes_as_the_minimum_and_the_spare_ones_need() {
        let now = Instant::now();
        let check = |leases: &[usize], spare, expected| {
            assert_eq!(lacking(&endpoints(leases, now), &managed(2, spare)), expected, "{leases:?} {spare}");
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
            assert_eq!(superfluous(&three, &managed(min, spare), at), expected);
        };
        check(3, 0, later, Err(None));
        check(1, 2, later, Err(None));
        check(1, 0, now, Err(Some(later)));
        check(1, 0, later, Ok(1));
        check(1, 1, later, Ok(1));
    }
}
