//! Who of an application's endpoints is asked next, and who may end. Pure: the time is handed in.

use std::time::{Duration, Instant};

use super::message::EndpointId;

/// How long a endpoint that could not be reached is left alone, where there is another.
const DOWN: Duration = Duration::from_secs(1);
/// How long one is whose queue is full.
const FULL: Duration = Duration::from_millis(10);

/// What is known of a endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub id: EndpointId,
    /// Connections that workers have to it.
    pub leases: usize,
    /// That it has had.
    pub requests: u64,
    pub standing: Standing,
    /// Since when nobody has had a connection to it.
    pub unused: Instant,
    down: Option<Instant>,
    full: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Serves,
    /// It gets no new connection, and ends when those that there are have ended.
    Retires,
    /// It has been told to end.
    Ends,
}

impl Endpoint {
    pub fn new(id: EndpointId, now: Instant) -> Endpoint {
        let standing = Standing::Serves;
        Endpoint { id, leases: 0, requests: 0, standing, unused: now, down: None, full: None }
    }

    pub fn serves(&self) -> bool {
        self.standing == Standing::Serves
    }

    /// It could not be reached.
    pub fn fails(&mut self, now: Instant) {
        self.down = Some(now + DOWN);
    }

    /// It has more to do already than it can queue.
    pub fn is_full(&mut self, now: Instant) {
        self.full = Some(now + FULL);
    }

    pub fn is_unused(&self) -> bool {
        self.leases == 0 && self.serves()
    }

    fn rank(&self, avoid: Option<EndpointId>, now: Instant) -> (bool, bool, usize, u64) {
        let is_down = self.down.is_some_and(|until| now < until);
        (Some(self.id) == avoid, is_down, self.leases, self.requests)
    }
}

/// The place of the one that has least to do, of those that can take `most` at a time and were not
/// `tried`; `avoid`, and whoever could not be reached a moment ago, only if there is nobody else.
pub fn choose(
    endpoints: &[Endpoint],
    most: usize,
    avoid: Option<EndpointId>,
    tried: &[EndpointId],
    now: Instant,
) -> Option<usize> {
    let can = |endpoint: &Endpoint| {
        endpoint.serves()
            && endpoint.leases < most
            && !tried.contains(&endpoint.id)
            && endpoint.full.is_none_or(|until| now >= until)
    };
    let able = endpoints.iter().enumerate().filter(|(_, endpoint)| can(endpoint));
    able.min_by_key(|(_, endpoint)| endpoint.rank(avoid, now)).map(|(at, _)| at)
}

/// When a endpoint whose queue is full is to be tried again.
pub fn next_try(endpoints: &[Endpoint], now: Instant) -> Option<Instant> {
    endpoints.iter().filter_map(|endpoint| endpoint.full).filter(|until| *until > now).min()
}

/// How many more are to be started, of at least and at most so many, with so many `spare` ones.
pub fn lacking(endpoints: &[Endpoint], (least, most): (usize, usize), spare: usize) -> usize {
    let serving = endpoints.iter().filter(|endpoint| endpoint.serves()).count();
    let unused = endpoints.iter().filter(|endpoint| endpoint.is_unused()).count();
    let wanted = least.saturating_sub(serving).max(spare.saturating_sub(unused));
    wanted.min(most.saturating_sub(serving))
}

/// The place of one that nobody has needed for `patience`, beyond those that are to be there; or when there
/// will be one.
pub fn superfluous(
    endpoints: &[Endpoint],
    least: usize,
    spare: usize,
    patience: Duration,
    now: Instant,
) -> Result<usize, Option<Instant>> {
    let serving = endpoints.iter().filter(|endpoint| endpoint.serves()).count();
    let unused = || endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.is_unused());
    if serving <= least || unused().count() <= spare {
        return Err(None);
    }
    match unused().min_by_key(|(_, endpoint)| endpoint.unused) {
        Some((at, endpoint)) if endpoint.unused + patience <= now => Ok(at),
        other => Err(other.map(|(_, endpoint)| endpoint.unused + patience)),
    }
}

/// How long nothing is started after so many failures in a row; the first one may be by chance.
pub fn back_off(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(30);
    match failures {
        0 | 1 => Duration::ZERO,
        more => FIRST.saturating_mul(1 << (more - 2).min(16)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(leases: &[usize], now: Instant) -> Vec<Endpoint> {
        let endpoint =
            |(at, leases): (usize, &usize)| Endpoint { leases: *leases, ..Endpoint::new(at as u64 + 1, now) };
        leases.iter().enumerate().map(endpoint).collect()
    }

    #[test]
    fn whoever_has_least_to_do_is_next() {
        let now = Instant::now();
        let check = |leases: &[usize], avoid, tried: &[u64], expected| {
            assert_eq!(choose(&endpoints(leases, now), 2, avoid, tried, now), expected, "{leases:?}");
        };
        check(&[], None, &[], None);
        check(&[1, 0, 1], None, &[], Some(1));
        check(&[2, 2], None, &[], None);
        check(&[0, 1], Some(1), &[], Some(1));
        check(&[0, 2], Some(1), &[], Some(0));
        check(&[0, 1], None, &[1], Some(1));
        check(&[0, 2], None, &[1], None);
        let mut three = endpoints(&[0, 0, 0], now);
        three[0].fails(now);
        three[1].standing = Standing::Retires;
        assert_eq!(choose(&three, 1, None, &[], now), Some(2));
        three[2].is_full(now);
        assert_eq!(choose(&three, 1, None, &[], now), Some(0), "down is better than full");
        assert_eq!(next_try(&three, now), Some(now + FULL));
        assert_eq!(choose(&three, 1, None, &[], now + FULL), Some(2));
        three[2].leases = 1;
        assert_eq!(choose(&three, 2, None, &[], now + DOWN), Some(0), "it counts again");
    }

    #[test]
    fn as_many_are_started_as_are_to_be_there() {
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
    fn whoever_is_not_needed_ends_the_longest_unused_first() {
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let mut three = endpoints(&[0, 0, 1], now);
        three[0].unused = now + Duration::from_secs(1);
        let check = |least, spare, at, expected| {
            assert_eq!(superfluous(&three, least, spare, Duration::from_secs(60), at), expected);
        };
        check(3, 0, later, Err(None));
        check(1, 2, later, Err(None));
        check(1, 0, now, Err(Some(later)));
        check(1, 0, later, Ok(1));
        check(1, 1, later, Ok(1));
    }

    #[test]
    fn whoever_fails_again_and_again_is_started_ever_more_seldom() {
        let pauses: Vec<u128> = [1, 2, 3, 10, 11, 99].map(|n| back_off(n).as_millis()).to_vec();
        assert_eq!(pauses, [0, 100, 200, 25_600, 30_000, 30_000]);
    }
}
