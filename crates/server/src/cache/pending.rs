//! Collapsed forwarding: one request asks the upstream, and others for the same key wait for its response.
//!
//! Requests with credentials or cookies and those without do not wait for one another: often only the responses to the
//! latter are stored.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use cache::key::Key;
use cache::request::ClientIdentity;
use cache::vary::Variant;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock;

/// The requests that others wait for.
#[derive(Default)]
pub struct PendingRequests {
    by_key: RefCell<HashMap<PendingKey, Rc<Pending>>>,
    /// Keys whose responses are not stored, with the second in which that is forgotten.
    uncollapsed: RefCell<HashMap<Uncollapsed, i64>>,
}

/// The key, and whose requests wait for one another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PendingKey {
    key: Key,
    identity: ClientIdentity,
    /// Of the response that is validated, or that is awaited by what is known of others. Empty: nothing is known.
    variant: Variant,
}

/// A key without its text: clients choose how long that is.
type Uncollapsed = (u128, ClientIdentity);

struct Pending {
    /// Whether the upstream has responded, or has failed. Dropping it ends the wait of its receivers.
    is_settled: watch::Sender<bool>,
    /// The time of `clock::micros` at which it was sent.
    began: u64,
    pace: Pace,
}

/// Whether a response waits for its client: since when, by `clock::micros`. `None`: it waits for the upstream.
#[derive(Clone, Default)]
pub struct Pace(Rc<Cell<Option<u64>>>);

/// The part of a request among those for the same key.
pub enum Role {
    /// It asks the upstream, and others wait until this is dropped.
    Leader(Leader),
    /// As a leader, in place of one whose client does not take the response. No client must delay this one.
    Substitute(Leader),
    /// It waits.
    Follower(Follower),
    /// It asks the upstream for itself: too many wait already, or the response was not stored the last time.
    Alone,
}

/// Dropping it says that the response is stored, or is not going to be. Unless it is settled by then, the request was
/// abandoned, and one of its followers takes its place.
pub struct Leader {
    all: Rc<PendingRequests>,
    pending: Rc<Pending>,
    key: PendingKey,
}

pub struct Follower {
    is_settled: watch::Receiver<bool>,
    pace: Pace,
}

/// Seconds for which requests do not wait for a response that was not stored.
const UNCOLLAPSED_SECONDS: i64 = 30;
/// Such keys of one worker.
const MOST_UNCOLLAPSED: usize = 4096;
/// How long others wait for a client that takes nothing of a response that is there.
const STALLED: Duration = Duration::from_millis(250);

impl PendingKey {
    /// `text`: of the key of the cache.
    pub fn new(text: &str, identity: ClientIdentity, variant: Variant) -> PendingKey {
        PendingKey { key: Key::new(text), identity, variant }
    }

    /// `Key::resource`.
    pub fn resource(&self) -> u128 {
        self.key.resource()
    }

    fn without_text(&self) -> Uncollapsed {
        (self.key.hash(), self.identity)
    }
}

impl PendingRequests {
    /// `most`: followers of one leader. `is_valid`: whether the response to a request that began at this time of
    /// `clock::micros` may be used. If not, no further request waits for it.
    pub fn join(
        self: &Rc<PendingRequests>,
        key: PendingKey,
        most: usize,
        now: i64,
        is_valid: impl FnOnce(u64) -> bool,
    ) -> Role {
        // A clock that was set back must not let them last.
        let lasts = |end: &i64| (now + 1..=now + UNCOLLAPSED_SECONDS).contains(end);
        if self.uncollapsed.borrow().get(&key.without_text()).is_some_and(lasts) {
            return Role::Alone;
        }
        let by_key = self.by_key.borrow();
        match by_key.get(&key).filter(|pending| is_valid(pending.began)) {
            Some(pending) if pending.pace.is_stalled() => {
                drop(by_key);
                Role::Substitute(self.begin(key))
            }
            Some(pending) if pending.is_settled.receiver_count() < most => Role::Follower(Follower {
                is_settled: pending.is_settled.subscribe(),
                pace: pending.pace.clone(),
            }),
            Some(_) => Role::Alone,
            None => {
                drop(by_key);
                Role::Leader(self.begin(key))
            }
        }
    }

    /// For a request in the background, also where no request waits for its response. `None`: another one leads.
    /// `is_valid` as for `join`.
    pub fn lead(
        self: &Rc<PendingRequests>,
        key: PendingKey,
        is_valid: impl FnOnce(u64) -> bool,
    ) -> Option<Leader> {
        let leads = |pending: &Rc<Pending>| is_valid(pending.began) && !pending.pace.is_stalled();
        let is_led = self.by_key.borrow().get(&key).is_some_and(leads);
        (!is_led).then(|| self.begin(key))
    }

    fn begin(self: &Rc<PendingRequests>, key: PendingKey) -> Leader {
        let (is_settled, pace) = (watch::Sender::new(false), Pace::default());
        let pending = Rc::new(Pending { is_settled, began: clock::micros(), pace });
        self.by_key.borrow_mut().insert(key.clone(), pending.clone());
        Leader { all: self.clone(), pending, key }
    }

    pub fn do_not_collapse(&self, key: &PendingKey, now: i64) {
        let mut uncollapsed = self.uncollapsed.borrow_mut();
        if uncollapsed.len() >= MOST_UNCOLLAPSED {
            uncollapsed.clear();
        }
        uncollapsed.insert(key.without_text(), now + UNCOLLAPSED_SECONDS);
    }

    /// A response is stored for the key whose text has this hash. Those for which `is_for` holds may have it, and wait
    /// again.
    pub fn collapse(&self, hash: u128, is_for: impl Fn(ClientIdentity) -> bool) {
        let mut uncollapsed = self.uncollapsed.borrow_mut();
        if uncollapsed.is_empty() {
            return;
        }
        for identity in ClientIdentity::ALL.into_iter().filter(|identity| is_for(*identity)) {
            uncollapsed.remove(&(hash, identity));
        }
    }
}

impl Pace {
    /// The response waits for its client from now on.
    pub fn on_client(&self) {
        self.0.set(Some(clock::micros()));
    }

    /// The response waits for the upstream.
    pub fn on_upstream(&self) {
        self.0.set(None);
    }

    fn is_stalled(&self) -> bool {
        let since = self.0.get();
        since.is_some_and(|since| u128::from(clock::micros().saturating_sub(since)) >= STALLED.as_micros())
    }
}

impl Follower {
    /// Waits for the end of the other request, but not longer than this. Returns whether another request has to take its
    /// place: its client has disconnected, or does not take the response, or the response has broken off.
    pub async fn wait(mut self, mut longest: Duration) -> bool {
        // Bounded by `longest`.
        while !longest.is_zero() {
            let step = longest.min(STALLED);
            longest -= step;
            if timeout(step, self.is_settled.wait_for(|_| false)).await.is_ok() {
                return !*self.is_settled.borrow();
            }
            if self.pace.is_stalled() {
                return true;
            }
        }
        false
    }
}

impl Leader {
    /// The upstream has responded, or has failed: no follower takes its place.
    pub fn settle(&self) {
        self.pending.is_settled.send_replace(true);
    }

    pub fn key(&self) -> PendingKey {
        self.key.clone()
    }

    /// Tells the followers for what the response waits.
    pub fn pace(&self) -> Pace {
        self.pending.pace.clone()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut by_key = self.all.by_key.borrow_mut();
        if by_key.get(&self.key).is_some_and(|pending| Rc::ptr_eq(pending, &self.pending)) {
            by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIES: ClientIdentity = ClientIdentity { credentials: false, cookies: true };

    fn key(text: &str) -> PendingKey {
        PendingKey::new(text, ClientIdentity::default(), Variant::default())
    }

    fn join(all: &Rc<PendingRequests>, now: i64) -> Role {
        all.join(key("a"), 1, now, |_| true)
    }

    #[test]
    fn one_request_leads_and_a_bounded_number_waits() {
        let all = Rc::<PendingRequests>::default();
        let Role::Leader(leader) = join(&all, 0) else { panic!("it is the first one") };
        let Role::Follower(follower) = join(&all, 0) else { panic!("one may wait") };
        assert!(matches!(join(&all, 0), Role::Alone));
        assert!(matches!(all.join(key("b"), 1, 0, |_| true), Role::Leader(_)));
        let of_user = PendingKey::new("a", COOKIES, Variant::default());
        assert!(matches!(all.join(of_user, 1, 0, |_| true), Role::Leader(_)));
        let of_variant = PendingKey { variant: Variant(vec![("a".into(), None)]), ..key("a") };
        assert!(matches!(all.join(of_variant, 1, 0, |_| true), Role::Leader(_)));
        drop(follower);
        assert!(matches!(join(&all, 0), Role::Follower(_)));
        drop(leader);
        assert!(matches!(join(&all, 0), Role::Leader(_)));
    }

    #[test]
    fn no_request_waits_for_what_was_invalidated() {
        let all = Rc::<PendingRequests>::default();
        let old = join(&all, 0);
        let Role::Leader(new) = all.join(key("a"), 1, 0, |_| false) else { panic!("it leads") };
        drop(old);
        assert!(
            matches!(join(&all, 0), Role::Follower(_)),
            "the end of the old request does not end the new one"
        );
        drop(new);
        assert!(matches!(join(&all, 0), Role::Leader(_)));
    }

    #[test]
    fn no_request_waits_for_what_was_not_stored() {
        let all = Rc::<PendingRequests>::default();
        all.do_not_collapse(&key("a"), 5);
        assert!(matches!(join(&all, 5 + UNCOLLAPSED_SECONDS - 1), Role::Alone));
        assert!(matches!(join(&all, 5 + UNCOLLAPSED_SECONDS), Role::Leader(_)));
        assert!(matches!(join(&all, 4), Role::Leader(_)), "the clock was set back");
        all.do_not_collapse(&PendingKey::new("a", COOKIES, Variant::default()), 5);
        all.collapse(Key::new("a").hash(), |identity| identity == ClientIdentity::default());
        assert!(matches!(join(&all, 5), Role::Leader(_)), "one was stored");
        assert!(matches!(
            all.join(PendingKey::new("a", COOKIES, Variant::default()), 1, 5, |_| true),
            Role::Alone
        ));
        for number in 0..3 * MOST_UNCOLLAPSED {
            all.do_not_collapse(&key(&number.to_string()), 5);
        }
        assert!(all.uncollapsed.borrow().len() <= MOST_UNCOLLAPSED);
    }

    #[test]
    fn one_request_in_the_background_leads_also_where_none_waits() {
        let all = Rc::<PendingRequests>::default();
        all.do_not_collapse(&key("a"), 5);
        let leader = all.lead(key("a"), |_| true);
        assert!(leader.is_some() && all.lead(key("a"), |_| true).is_none());
        assert!(all.lead(key("a"), |_| false).is_some(), "what was invalidated leads none");
        drop(leader);
        let leader = all.lead(key("a"), |_| true).expect("none leads");
        leader.pace().on_client();
        assert!(all.lead(key("a"), |_| true).is_none(), "it has just begun to wait");
    }

    #[tokio::test]
    async fn a_follower_goes_on_when_the_other_request_ends_or_takes_too_long() {
        let long = Duration::from_secs(3600);
        let all = Rc::<PendingRequests>::default();
        let leader = join(&all, 0);
        let Role::Follower(follower) = join(&all, 0) else { panic!("it may wait") };
        // The end precedes the wait.
        drop(leader);
        assert!(follower.wait(long).await, "it was abandoned");
        let Role::Leader(leader) = join(&all, 0) else { panic!("it takes its place") };
        let Role::Follower(follower) = join(&all, 0) else { panic!("it may wait") };
        leader.settle();
        drop(leader);
        assert!(!follower.wait(long).await, "it was settled");
        let Role::Leader(leader) = join(&all, 0) else { panic!("it is the first one") };
        let Role::Follower(follower) = join(&all, 0) else { panic!("it may wait") };
        assert!(!follower.wait(Duration::from_millis(1)).await, "it takes too long");
        leader.pace().on_client();
        let Role::Follower(follower) = join(&all, 0) else { panic!("it may wait") };
        assert!(follower.wait(long).await, "the client takes nothing");
        let Role::Substitute(substitute) = join(&all, 0) else { panic!("it takes its place") };
        assert!(matches!(join(&all, 0), Role::Follower(_)));
        drop(leader);
        assert!(matches!(join(&all, 0), Role::Follower(_)));
        drop(substitute);
        assert!(matches!(join(&all, 0), Role::Leader(_)));
    }
}
