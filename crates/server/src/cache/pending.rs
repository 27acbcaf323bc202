//! Collapsed forwarding: one request asks the upstream, and others for the same key wait for its response.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::timeout;

use crate::clock;

/// The requests that others wait for.
#[derive(Default)]
pub struct Flights {
    by_key: RefCell<HashMap<Box<str>, Rc<Flight>>>,
    /// Keys whose responses are not stored, with the second in which that is forgotten.
    single: RefCell<HashMap<Box<str>, i64>>,
}

struct Flight {
    end: Arc<Notify>,
    waiting: Cell<usize>,
    is_settled: Cell<bool>,
    /// The time of `clock::micros` at which it was sent.
    began: u64,
}

/// What a request has to do.
pub enum Turn {
    /// It asks the upstream, and others wait until this is dropped.
    Lead(Leader),
    /// It waits.
    Wait(Waiting),
    /// It asks the upstream for itself: too many wait already, or the response was not stored the last time.
    Alone,
}

/// Dropping it says that the response is stored, or is not going to be. Unless it is settled by then, the request was
/// abandoned, and another one takes its place.
pub struct Leader {
    flights: Rc<Flights>,
    flight: Rc<Flight>,
    text: Box<str>,
}

pub struct Waiting {
    flight: Rc<Flight>,
    end: Pin<Box<OwnedNotified>>,
}

/// How a wait for another request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The upstream has responded to it, or has failed.
    Settled,
    /// Its client has disconnected before, or the response has broken off.
    Abandoned,
    /// It takes too long.
    TimedOut,
}

/// Seconds for which requests do not wait for a response that was not stored.
const SINGLE_SECONDS: i64 = 30;
/// Such keys of one worker.
const MOST_SINGLE: usize = 4096;

impl Flights {
    /// `is_valid`: whether the response to a request that began at this time of `clock::micros` may be used. If not, no
    /// further request waits for it.
    pub fn turn(
        flights: &Rc<Flights>,
        text: &str,
        waiting: usize,
        now: i64,
        is_valid: impl FnOnce(u64) -> bool,
    ) -> Turn {
        if flights.single.borrow().get(text).is_some_and(|end| *end > now) {
            return Turn::Alone;
        }
        let mut by_key = flights.by_key.borrow_mut();
        match by_key.get(text).filter(|flight| is_valid(flight.began)) {
            None => {
                let (end, waiting, is_settled) = Default::default();
                let flight = Rc::new(Flight { end, waiting, is_settled, began: clock::micros() });
                by_key.insert(text.into(), flight.clone());
                Turn::Lead(Leader { flights: flights.clone(), flight, text: text.into() })
            }
            Some(flight) if flight.waiting.get() < waiting => {
                flight.waiting.update(|waiting| waiting + 1);
                let end = Box::pin(flight.end.clone().notified_owned());
                Turn::Wait(Waiting { flight: flight.clone(), end })
            }
            Some(_) => Turn::Alone,
        }
    }

    pub fn do_not_collapse(&self, text: &str, now: i64) {
        let mut single = self.single.borrow_mut();
        if single.len() >= MOST_SINGLE {
            single.clear();
        }
        single.insert(text.into(), now + SINGLE_SECONDS);
    }
}

impl Waiting {
    /// Waits for the end of the other request, but not longer than this.
    pub async fn wait(mut self, longest: Duration) -> Waited {
        match timeout(longest, self.end.as_mut()).await {
            Ok(()) if self.flight.is_settled.get() => Waited::Settled,
            Ok(()) => Waited::Abandoned,
            Err(_) => Waited::TimedOut,
        }
    }
}

impl Leader {
    /// The upstream has responded, or has failed: the others need not take turns.
    pub fn settle(&self) {
        self.flight.is_settled.set(true);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.flight.waiting.update(|waiting| waiting - 1);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut by_key = self.flights.by_key.borrow_mut();
        if by_key.get(&self.text).is_some_and(|flight| Rc::ptr_eq(flight, &self.flight)) {
            by_key.remove(&self.text);
        }
        self.flight.end.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(flights: &Rc<Flights>, now: i64) -> Turn {
        Flights::turn(flights, "a", 1, now, |_| true)
    }

    #[test]
    fn one_request_leads_and_a_bounded_number_waits() {
        let flights = Rc::<Flights>::default();
        let Turn::Lead(leader) = turn(&flights, 0) else { panic!("it is the first one") };
        let Turn::Wait(waiting) = turn(&flights, 0) else { panic!("one may wait") };
        assert!(matches!(turn(&flights, 0), Turn::Alone));
        assert!(matches!(Flights::turn(&flights, "b", 1, 0, |_| true), Turn::Lead(_)));
        drop(waiting);
        assert!(matches!(turn(&flights, 0), Turn::Wait(_)));
        drop(leader);
        assert!(matches!(turn(&flights, 0), Turn::Lead(_)));
    }

    #[test]
    fn no_request_waits_for_what_was_invalidated() {
        let flights = Rc::<Flights>::default();
        let old = turn(&flights, 0);
        let Turn::Lead(new) = Flights::turn(&flights, "a", 1, 0, |_| false) else { panic!("it leads") };
        drop(old);
        assert!(
            matches!(turn(&flights, 0), Turn::Wait(_)),
            "the end of the old request does not end the new one"
        );
        drop(new);
        assert!(matches!(turn(&flights, 0), Turn::Lead(_)));
    }

    #[test]
    fn no_request_waits_for_what_was_not_stored() {
        let flights = Rc::<Flights>::default();
        flights.do_not_collapse("a", 5);
        assert!(matches!(turn(&flights, 5 + SINGLE_SECONDS - 1), Turn::Alone));
        assert!(matches!(turn(&flights, 5 + SINGLE_SECONDS), Turn::Lead(_)));
        for key in 0..3 * MOST_SINGLE {
            flights.do_not_collapse(&key.to_string(), 5);
        }
        assert!(flights.single.borrow().len() <= MOST_SINGLE);
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_the_other_request_ends_or_takes_too_long() {
        let flights = Rc::<Flights>::default();
        let leader = turn(&flights, 0);
        let Turn::Wait(waiting) = turn(&flights, 0) else { panic!("it may wait") };
        // The end precedes the wait.
        drop(leader);
        assert_eq!(waiting.wait(Duration::from_secs(3600)).await, Waited::Abandoned);
        let Turn::Lead(leader) = turn(&flights, 0) else { panic!("it takes its place") };
        let Turn::Wait(waiting) = turn(&flights, 0) else { panic!("it may wait") };
        leader.settle();
        drop(leader);
        assert_eq!(waiting.wait(Duration::from_secs(3600)).await, Waited::Settled);
        let _leader = turn(&flights, 0);
        let Turn::Wait(waiting) = turn(&flights, 0) else { panic!("it may wait") };
        assert_eq!(waiting.wait(Duration::from_millis(1)).await, Waited::TimedOut);
    }
}
