//! A worker's choice among the endpoints of an upstream, where something else than the number of connections decides
//! it. Pure: the time and the random number are handed in. Each worker makes it of the same table, so that the same key
//! leads to the same endpoint in each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use site::balance::Balance;
use twox_hash::XxHash3_128;

use super::message::{Availability, EndpointId, EndpointNotice, Share};

/// Digits of the value of a sticky cookie. So few reveal nothing of the address, which is hashed.
const TOKEN_BITS: u32 = 16;

/// What a worker knows of an endpoint.
pub struct EndpointEntry {
    pub id: EndpointId,
    /// The address, or the process.
    pub name: Rc<str>,
    pub state: Cell<Availability>,
    /// Since when it has this state.
    pub since: Cell<Instant>,
    pub share: Cell<Share>,
    /// Requests of this worker at the moment, and since the worker began.
    pub in_flight: Cell<usize>,
    pub requests: Cell<u64>,
    /// How many requests and health checks have failed, over all workers.
    pub failures: Cell<u64>,
    /// Why the last one has failed. Empty: none has.
    pub reason: RefCell<Rc<str>>,
    hash: u64,
    token: u16,
    /// What it has saved up for its next turn, with smooth weighted round robin.
    credit: Cell<i64>,
}

/// The endpoints of an upstream at one time, for one choice.
pub struct Candidates<'a> {
    pub entries: &'a [Rc<EndpointEntry>],
    /// For how long an endpoint that has come up gets fewer requests.
    pub slow_start: Duration,
    pub now: Instant,
}

/// The part of a request that selects its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    Nothing,
    /// A hash of the part that is configured.
    Key(u64),
    /// The value of the cookie.
    Token(u16),
}

/// The endpoints that a request may go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The pool chooses.
    #[default]
    Any,
    /// This one, unless it is at capacity or cannot be reached.
    Prefer(EndpointId),
    Only(EndpointId),
}

impl Choice {
    /// Whether an endpoint is the chosen one.
    pub fn is(self, endpoint: EndpointId) -> bool {
        match self {
            Choice::Any => true,
            Choice::Prefer(chosen) | Choice::Only(chosen) => chosen == endpoint,
        }
    }
}

impl Affinity {
    pub fn of_key(bytes: &[u8]) -> Affinity {
        Affinity::Key(hash(bytes))
    }

    /// Of the value of a cookie that this server has set.
    pub fn of_token(value: &[u8]) -> Affinity {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() == TOKEN_BITS as usize / 4);
        let token = text.and_then(|text| u16::from_str_radix(text, 16).ok());
        token.map_or(Affinity::Nothing, Affinity::Token)
    }
}

impl EndpointEntry {
    /// `others` are those that the table has already.
    pub fn new(notice: &EndpointNotice, others: &[Rc<EndpointEntry>], now: Instant) -> EndpointEntry {
        let hash = hash(notice.name.as_bytes());
        let mut token = hash as u16;
        // Bounded: there are more tokens than endpoints.
        while others.iter().any(|other| other.token == token) {
            token = token.wrapping_add(1);
        }
        EndpointEntry {
            id: notice.id,
            name: notice.name.as_str().into(),
            state: Cell::new(notice.state),
            since: Cell::new(now.checked_sub(notice.age).unwrap_or(now)),
            share: Cell::new(notice.share),
            in_flight: Cell::new(0),
            requests: Cell::new(0),
            failures: Cell::new(notice.failures),
            reason: RefCell::new(notice.reason.as_str().into()),
            hash,
            token,
            credit: Cell::new(0),
        }
    }

    /// The value of the cookie that leads to this endpoint.
    pub fn token(&self) -> String {
        format!("{:04x}", self.token)
    }

    /// Takes over what the pool says. The name of an endpoint stays.
    pub fn set(&self, notice: &EndpointNotice, now: Instant) {
        self.state.set(notice.state);
        self.share.set(notice.share);
        self.since.set(now.checked_sub(notice.age).unwrap_or(now));
        self.failures.set(notice.failures);
        *self.reason.borrow_mut() = notice.reason.as_str().into();
    }

    fn load(&self, weight: i64) -> u128 {
        load(self.in_flight.get(), weight)
    }

    fn is_up(&self) -> bool {
        self.state.get() == Availability::Up
    }

    /// Whether it is up, and none is with a better priority than `best`, the best one of those that are.
    pub fn has_requests(&self, best: Option<u16>) -> bool {
        self.is_up() && best.is_none_or(|best| self.share.get().priority <= best)
    }
}

impl Candidates<'_> {
    /// Chooses for one request, among the endpoints that are up and not `tried`. `Any`: there is none, or the pool is to
    /// choose. `random` is any number.
    pub fn choose(&self, balance: &Balance, affinity: Affinity, tried: &[EndpointId], random: u64) -> Choice {
        let best = best_priority(self.entries, tried);
        let up =
            || self.entries.iter().filter(|entry| entry.has_requests(best) && !tried.contains(&entry.id));
        let weight = |entry: &EndpointEntry| self.weight(entry);
        let chosen = match (balance, affinity) {
            (Balance::Least, _) => return Choice::Any,
            (Balance::Hash(_), Affinity::Key(key)) => {
                return rendezvous(up(), key).map_or(Choice::Any, |entry| Choice::Only(entry.id));
            }
            (Balance::Sticky(_), Affinity::Token(token)) => match up().find(|entry| entry.token == token) {
                Some(entry) => return Choice::Only(entry.id),
                None => least(up(), weight),
            },
            (Balance::Hash(_) | Balance::Sticky(_), _) => least(up(), weight),
            (Balance::RoundRobin, _) => in_turn(up(), weight),
            (Balance::Random, _) => {
                let first = at_weight(up(), weight, random & u64::from(u32::MAX));
                let others = || up().filter(|entry| first.is_none_or(|first| first.id != entry.id));
                let both = first.into_iter().chain(at_weight(others(), weight, random >> 32));
                both.map(|entry| &**entry).min_by_key(|entry| entry.load(weight(entry)))
            }
        };
        chosen.map_or(Choice::Any, |entry| Choice::Prefer(entry.id))
    }

    /// The endpoint with the fewest requests for its weight that is not `first`, of those that get requests.
    pub fn other_than(&self, first: EndpointId) -> Option<EndpointId> {
        let best = best_priority(self.entries, &[]);
        let others = self.entries.iter().filter(|entry| entry.has_requests(best) && entry.id != first);
        least(others, |entry| self.weight(entry)).map(|entry| entry.id)
    }

    /// In thousandths: less while the endpoint starts slowly.
    fn weight(&self, entry: &EndpointEntry) -> i64 {
        let age = self.now.saturating_duration_since(entry.since.get());
        effective_weight(entry.share.get().weight, age, self.slow_start)
    }
}

/// A weight in thousandths, of an endpoint that has been up for `age`. It grows from a tenth.
pub fn effective_weight(weight: u32, age: Duration, slow_start: Duration) -> i64 {
    let full = i64::from(weight) * 1000;
    if age >= slow_start {
        return full;
    }
    let share = age.as_millis() as i64 * full / slow_start.as_millis().max(1) as i64;
    share.max(full / 10)
}

/// The number of requests of an endpoint for its weight, which is in thousandths. The least is the best.
pub fn load(requests: usize, weight: i64) -> u128 {
    requests as u128 * 1_000_000_000_000 / weight.max(1) as u128
}

/// The best priority of the endpoints that are up and not `tried`. `None`: there is none.
pub fn best_priority(entries: &[Rc<EndpointEntry>], tried: &[EndpointId]) -> Option<u16> {
    let up = entries.iter().filter(|entry| entry.is_up() && !tried.contains(&entry.id));
    up.map(|entry| entry.share.get().priority).min()
}

/// Highest random weight: when an endpoint is added or leaves, only the keys move that it gets or had. The weight is
/// the configured one: keys do not move while an endpoint starts slowly.
fn rendezvous<'a>(
    entries: impl Iterator<Item = &'a Rc<EndpointEntry>>,
    key: u64,
) -> Option<&'a EndpointEntry> {
    let score = |entry: &EndpointEntry| {
        let mixed = hash(&[key.to_ne_bytes(), entry.hash.to_ne_bytes()].concat());
        // Above 0 and below 1.
        let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -f64::from(entry.share.get().weight) / uniform.ln()
    };
    entries.map(|entry| &**entry).max_by(|a, b| score(a).total_cmp(&score(b)))
}

/// The fewest requests for its weight. Those with equally few take turns: of the requests of before, an endpoint that
/// has come up had fewer, and it makes up for none of them.
fn least<'a>(
    entries: impl Iterator<Item = &'a Rc<EndpointEntry>> + Clone,
    weight: impl Fn(&EndpointEntry) -> i64,
) -> Option<&'a EndpointEntry> {
    let load = |entry: &EndpointEntry| entry.load(weight(entry));
    let least = entries.clone().map(|entry| load(entry)).min()?;
    in_turn(entries.filter(|entry| load(entry) == least), &weight)
}

fn in_turn<'a>(
    entries: impl Iterator<Item = &'a Rc<EndpointEntry>>,
    weight: impl Fn(&EndpointEntry) -> i64,
) -> Option<&'a EndpointEntry> {
    next_in_turn(entries.map(|entry| (&**entry, weight(entry), &entry.credit)))
}

/// Smooth weighted round robin: each of the candidates saves up its weight, and the richest pays for all.
pub fn next_in_turn<'c, T>(candidates: impl Iterator<Item = (T, i64, &'c Cell<i64>)>) -> Option<T> {
    let mut total = 0;
    let mut richest: Option<(T, &Cell<i64>)> = None;
    for (candidate, weight, credit) in candidates {
        total += weight;
        credit.set(credit.get() + weight);
        if richest.as_ref().is_none_or(|(_, most)| credit.get() > most.get()) {
            richest = Some((candidate, credit));
        }
    }
    richest.map(|(candidate, credit)| {
        credit.set(credit.get() - total);
        candidate
    })
}

/// The one that a random number of 32 bits hits, each in proportion to its weight.
fn at_weight<'a>(
    entries: impl Iterator<Item = &'a Rc<EndpointEntry>> + Clone,
    weight: impl Fn(&EndpointEntry) -> i64,
    random: u64,
) -> Option<&'a Rc<EndpointEntry>> {
    let total: i64 = entries.clone().map(|entry| weight(entry)).sum();
    let mut left = ((random as i128 * i128::from(total)) >> 32) as i64;
    entries.into_iter().find(|entry| {
        left -= weight(entry);
        left < 0
    })
}

fn hash(bytes: &[u8]) -> u64 {
    XxHash3_128::oneshot(bytes) as u64
}

#[cfg(test)]
mod tests {
    use site::balance::HashKey;

    use super::*;

    const NO: Duration = Duration::ZERO;

    /// Endpoints 1, 2, 3 … with these weights.
    fn table(weights: &[u32], now: Instant) -> Vec<Rc<EndpointEntry>> {
        let mut entries = Vec::new();
        for (at, weight) in weights.iter().enumerate() {
            let notice = EndpointNotice {
                id: at as u64 + 1,
                name: format!("10.0.0.{at}:80"),
                share: Share { priority: 0, weight: *weight },
                state: Availability::Up,
                age: NO,
                failures: 0,
                reason: String::new(),
            };
            let entry = Rc::new(EndpointEntry::new(&notice, &entries, now));
            entries.push(entry);
        }
        entries
    }

    fn candidates(entries: &[Rc<EndpointEntry>], now: Instant) -> Candidates<'_> {
        Candidates { entries, slow_start: NO, now }
    }

    fn set(entry: &EndpointEntry, state: Availability) {
        entry.state.set(state);
    }

    /// The endpoints of so many choices, where nothing of a request decides.
    fn chosen(entries: &[Rc<EndpointEntry>], balance: &Balance, count: u64, now: Instant) -> Vec<EndpointId> {
        let one = |number: u64| {
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            match candidates(entries, now).choose(balance, Affinity::Nothing, &[], random) {
                Choice::Prefer(id) | Choice::Only(id) => id,
                Choice::Any => 0,
            }
        };
        (0..count).map(one).collect()
    }

    fn key_choice(entries: &[Rc<EndpointEntry>], key: u64) -> Choice {
        let affinity = Affinity::of_key(&key.to_be_bytes());
        candidates(entries, Instant::now()).choose(&Balance::Hash(HashKey::Client), affinity, &[], 0)
    }

    #[test]
    fn takes_turns_by_weight_and_leaves_out_what_is_not_up() {
        let now = Instant::now();
        let entries = table(&[3, 1, 2], now);
        let balance = Balance::RoundRobin;
        assert_eq!(chosen(&entries, &balance, 6, now), [1, 3, 1, 2, 3, 1]);
        set(&entries[0], Availability::Draining);
        assert_eq!(chosen(&entries, &balance, 3, now).iter().filter(|id| **id == 1).count(), 0);
        entries.iter().for_each(|entry| set(entry, Availability::Down));
        assert_eq!(chosen(&entries, &balance, 1, now), [0], "the pool finds the least bad one");
        let choice = candidates(&table(&[1], now), now).choose(&balance, Affinity::Nothing, &[1], 0);
        assert_eq!(choice, Choice::Any, "tried");
    }

    #[test]
    fn random_takes_the_less_busy_one_of_two() {
        let now = Instant::now();
        let entries = table(&[1, 1, 1], now);
        let share = |id| {
            let all = chosen(&entries, &Balance::Random, 3000, now);
            all.into_iter().filter(|chosen| *chosen == id).count()
        };
        entries[0].in_flight.set(5);
        entries[1].in_flight.set(1);
        assert_eq!(share(1), 0, "each other one is less busy");
        assert!((900..1100).contains(&share(2)), "{}", share(2));
        let heavy = table(&[1, 8], now);
        // The busier one for its weight loses, even if it has fewer requests.
        heavy[0].in_flight.set(1);
        heavy[1].in_flight.set(4);
        assert_eq!(chosen(&heavy, &Balance::Random, 9, now), [2; 9]);
    }

    #[test]
    fn of_equally_busy_endpoints_one_that_comes_back_has_its_share() {
        let now = Instant::now();
        let balance = Balance::Sticky("node".to_owned());
        let entries = table(&[1, 2, 1], now);
        assert_eq!(chosen(&entries, &balance, 4, now), [2, 1, 3, 2]);
        set(&entries[2], Availability::Down);
        for id in chosen(&entries, &balance, 300, now) {
            entries[id as usize - 1].requests.update(|count| count + 1);
        }
        set(&entries[2], Availability::Up);
        let back = chosen(&entries, &balance, 40, now);
        assert_eq!(back.iter().filter(|id| **id == 3).count(), 10, "{back:?}");
    }

    #[test]
    fn the_same_key_stays_at_its_endpoint_while_others_come_and_go() {
        let now = Instant::now();
        let (one_worker, other_worker) = (table(&[1, 1, 1, 1], now), table(&[1, 1, 1, 1], now));
        let before: Vec<Choice> = (0..4000).map(|key| key_choice(&one_worker, key)).collect();
        let other: Vec<Choice> = (0..4000).map(|key| key_choice(&other_worker, key)).collect();
        assert_eq!(before, other);
        for id in 1..=4 {
            let share = before.iter().filter(|choice| **choice == Choice::Only(id)).count();
            assert!((850..1150).contains(&share), "{id}: {share}");
        }
        set(&one_worker[2], Availability::Down);
        for (key, before) in before.iter().enumerate() {
            let now = key_choice(&one_worker, key as u64);
            assert_eq!(now == *before, *before != Choice::Only(3), "{key}");
        }
        let more = table(&[1, 1, 1, 1, 1], now);
        let moved = |(key, before): &(usize, &Choice)| key_choice(&more, *key as u64) != **before;
        let moved: Vec<usize> = before.iter().enumerate().filter(moved).map(|(key, _)| key).collect();
        assert!((650..950).contains(&moved.len()), "a fifth moves: {}", moved.len());
        assert!(moved.iter().all(|key| key_choice(&more, *key as u64) == Choice::Only(5)));
    }

    #[test]
    fn a_heavy_endpoint_has_more_keys() {
        let entries = table(&[3, 1], Instant::now());
        let share = (0..4000).filter(|key| key_choice(&entries, *key) == Choice::Only(1)).count();
        assert!((2850..3150).contains(&share), "{share}");
    }

    #[test]
    fn a_hedge_has_the_least_busy_other_endpoint_that_is_up() {
        let now = Instant::now();
        let entries = table(&[1, 1, 1], now);
        entries[1].in_flight.set(1);
        let candidates = candidates(&entries, now);
        assert_eq!(candidates.other_than(1), Some(3));
        assert_eq!(candidates.other_than(3), Some(1));
        set(&entries[2], Availability::Down);
        assert_eq!(candidates.other_than(1), Some(2));
        set(&entries[1], Availability::Draining);
        assert_eq!(candidates.other_than(1), None);
    }

    #[test]
    fn a_cookie_leads_to_its_endpoint_as_long_as_that_is_up() {
        let now = Instant::now();
        let entries = table(&[1, 1, 1], now);
        let balance = Balance::Sticky("node".to_owned());
        let choice = |token: &str, tried: &[EndpointId]| {
            candidates(&entries, now).choose(&balance, Affinity::of_token(token.as_bytes()), tried, 0)
        };
        for entry in &entries {
            assert_eq!(choice(&entry.token(), &[]), Choice::Only(entry.id));
        }
        entries[0].in_flight.set(1);
        for (forged, expected) in [("", 2), ("zzzz", 3), ("00000", 2), ("+123", 3)] {
            assert_eq!(choice(forged, &[]), Choice::Prefer(expected), "{forged}");
        }
        assert_eq!(choice(&entries[1].token(), &[2]), Choice::Prefer(3), "it has failed");
        set(&entries[1], Availability::Draining);
        assert_eq!(choice(&entries[1].token(), &[]), Choice::Prefer(3));
    }

    #[test]
    fn a_better_priority_has_all_requests_while_it_is_up() {
        let now = Instant::now();
        let entries = table(&[1, 1, 1], now);
        let prioritized = |at: usize, priority| entries[at].share.set(Share { priority, weight: 1 });
        prioritized(1, 1);
        prioritized(2, 2);
        let candidates = candidates(&entries, now);
        let round_robin =
            |tried: &[EndpointId]| candidates.choose(&Balance::RoundRobin, Affinity::Nothing, tried, 0);
        assert_eq!([round_robin(&[]), round_robin(&[])], [Choice::Prefer(1); 2]);
        assert_eq!(round_robin(&[1]), Choice::Prefer(2), "it has failed this request");
        assert_eq!(candidates.other_than(1), None, "the others are spare ones");
        prioritized(1, 0);
        assert_eq!(candidates.other_than(1), Some(2));
        prioritized(1, 1);
        let keys: Vec<Choice> = (0..50).map(|key| key_choice(&entries, key)).collect();
        assert!(keys.iter().all(|choice| *choice == Choice::Only(1)), "{keys:?}");
        set(&entries[0], Availability::Down);
        assert_eq!(round_robin(&[]), Choice::Prefer(2));
        set(&entries[1], Availability::Draining);
        assert_eq!(round_robin(&[]), Choice::Prefer(3));
        assert_eq!(best_priority(&entries, &[]), Some(2));
        assert_eq!(best_priority(&entries, &[3]), None);
    }

    #[test]
    fn an_endpoint_starts_slowly() {
        let slow = Duration::from_secs(10);
        for (age, expected) in [(0, 400), (1, 400), (5, 2000), (10, 4000), (99, 4000)] {
            assert_eq!(effective_weight(4, Duration::from_secs(age), slow), expected, "{age}");
        }
        assert_eq!(effective_weight(1, NO, NO), 1000);
        let now = Instant::now();
        let entries = table(&[1, 1], now);
        entries[1].since.set(now + slow);
        let later = now + slow + Duration::from_secs(1);
        let later = Candidates { slow_start: slow, ..candidates(&entries, later) };
        let turns = (0..11).map(|_| later.choose(&Balance::RoundRobin, Affinity::Nothing, &[], 0));
        assert_eq!(turns.filter(|choice| *choice == Choice::Prefer(2)).count(), 1);
    }
}
