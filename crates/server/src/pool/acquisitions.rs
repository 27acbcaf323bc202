//! The requests of one worker that wait for a connection, and the connections that it has requested from its pool. The
//! worker acquires a connection for each request that waits, but any connection may go to any of them: the first that
//! is free serves the first that waits. Pure: knows neither sockets nor clocks.

use std::collections::VecDeque;

use super::checkout::Sharing;
use super::message::{EndpointId, PoolRequest, Tried};
use super::selection::Choice;
use crate::admission::{AdmissionQueue, Ticket};

/// `G` is how a waiting request is granted its connection.
pub struct Acquisitions<G> {
    waiting: AdmissionQueue<Waiter<G>>,
    /// Acquisitions that the pool has neither leased nor rejected, the oldest first.
    requested: VecDeque<Ticket>,
}

struct Waiter<G> {
    choice: Choice,
    tried: Tried,
    sharing: Sharing,
    grant: G,
}

impl<G> Waiter<G> {
    /// Whether the pool has an acquisition for this request alone, because not every endpoint serves it.
    fn is_particular(&self) -> bool {
        self.choice != Choice::Any || !self.tried.is_empty()
    }

    fn takes(&self, endpoint: EndpointId) -> bool {
        let is_chosen = match self.choice {
            // The preferred one may be at capacity, and this one is free.
            Choice::Any | Choice::Prefer(_) => true,
            Choice::Only(only) => only == endpoint,
        };
        is_chosen && !self.tried.contains(&endpoint)
    }
}

impl<G> Acquisitions<G> {
    /// The pool, not the worker, limits how many wait.
    pub fn new() -> Acquisitions<G> {
        Acquisitions { waiting: AdmissionQueue::new(usize::MAX), requested: VecDeque::new() }
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a request, and also returns what to send to the pool.
    pub fn push(
        &mut self,
        choice: Choice,
        tried: Tried,
        sharing: Sharing,
        grant: G,
    ) -> (Ticket, Option<PoolRequest>) {
        let waiter = Waiter { choice, tried: tried.clone(), sharing, grant };
        // An earlier request may have left an acquisition behind. A particular one needs its own.
        let acquires = waiter.is_particular() || self.requested.len() <= self.waiting.len();
        let ticket = self.waiting.push(waiter);
        (ticket, acquires.then(|| self.acquire(ticket, choice, tried)))
    }

    /// Removes a request that waits no more. `None`: it had its connection.
    pub fn remove(&mut self, ticket: Ticket) -> Option<G> {
        self.waiting.remove(ticket).map(|waiter| waiter.grant)
    }

    /// The request that gets the connection which the pool gives for `ticket`.
    pub fn on_leased(&mut self, ticket: Ticket, endpoint: EndpointId) -> Option<G> {
        self.requested.retain(|requested| *requested != ticket);
        // The pool knows that this request has tried the endpoint, and has no other.
        let own = self.waiting.take(|own, waiter| own == ticket && waiter.is_particular());
        own.map(|waiter| waiter.grant).or_else(|| self.take_first(endpoint))
    }

    /// The request that fails because the pool rejects `ticket`, and what to send to the pool for another one.
    pub fn on_rejected(&mut self, ticket: Ticket) -> (Option<G>, Option<PoolRequest>) {
        self.requested.retain(|requested| *requested != ticket);
        let own = self.remove(ticket);
        if self.requested.len() >= self.waiting.len() {
            return (own, None);
        }
        // A later request has relied on this acquisition.
        let without = self.waiting.iter().find(|(ticket, _)| !self.requested.contains(ticket));
        let without = without.map(|(ticket, waiter)| (ticket, waiter.choice, waiter.tried.clone()));
        (own, without.map(|(ticket, choice, tried)| self.acquire(ticket, choice, tried)))
    }

    /// The first request that takes `endpoint`.
    pub fn take_first(&mut self, endpoint: EndpointId) -> Option<G> {
        self.waiting.take(|_, waiter| waiter.takes(endpoint)).map(|waiter| waiter.grant)
    }

    /// The first request that may share its connection, and for which `find` has a stream.
    pub fn take_sharing<S>(&mut self, find: impl Fn(Choice, &[EndpointId]) -> Option<S>) -> Option<(G, S)> {
        let found = self.waiting.iter().find_map(|(ticket, waiter)| {
            let shares = waiter.sharing != Sharing::No;
            Some((ticket, shares.then(|| find(waiter.choice, &waiter.tried))??))
        });
        let (ticket, stream) = found?;
        Some((self.remove(ticket)?, stream))
    }

    /// Does a request wait for another endpoint than this one? It gets this one when nothing else uses it.
    pub fn is_avoided(&self, endpoint: EndpointId) -> bool {
        self.waiting.iter().any(|(_, waiter)| waiter.tried.contains(&endpoint))
    }

    /// Acquisitions that no request needs: a connection of the worker itself was free sooner.
    pub fn surplus(&self) -> usize {
        self.requested.len().saturating_sub(self.waiting.len())
    }

    /// Takes back the latest acquisitions that no request needs, and returns what to send to the pool. A particular
    /// request keeps its own: it may get no other connection.
    pub fn cancel_surplus(&mut self) -> Vec<PoolRequest> {
        let mut cancelled = Vec::new();
        for at in (0..self.requested.len()).rev() {
            let needs = |(ticket, waiter): (Ticket, &Waiter<G>)| {
                ticket == self.requested[at] && waiter.is_particular()
            };
            if self.surplus() > 0 && !self.waiting.iter().any(needs) {
                cancelled.extend(self.requested.remove(at).map(|number| PoolRequest::Cancel { number }));
            }
        }
        cancelled
    }

    /// The pool has gone: dropping its grant fails each request.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    fn acquire(&mut self, number: Ticket, choice: Choice, tried: Tried) -> PoolRequest {
        self.requested.push_back(number);
        PoolRequest::Acquire { number, choice, tried }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a worker that acquires connections. Tickets are counted from 1, and each grant is its ticket.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        /// It has tried an endpoint.
        Push(Option<EndpointId>),
        Choose(Choice),
        Leave(Ticket),
        Leased(Ticket, EndpointId),
        Rejected(Ticket),
        /// A connection of the worker itself is free.
        Free(EndpointId),
        CancelSurplus,
    }
    use Event::*;

    /// Lists the results: the requests that get a connection or fail, and the messages to the pool.
    fn run(events: &[Event]) -> Vec<String> {
        let (mut acquisitions, mut pushed) = (Acquisitions::new(), 0);
        let mut on = |event| -> (Option<Ticket>, Vec<PoolRequest>) {
            match event {
                Push(_) | Choose(_) => {
                    pushed += 1;
                    let (choice, tried) = match event {
                        Choose(choice) => (choice, Tried::new()),
                        Push(tried) => (Choice::Any, tried.into_iter().collect()),
                        _ => unreachable!(),
                    };
                    let (ticket, request) = acquisitions.push(choice, tried, Sharing::Allowed, pushed);
                    assert_eq!(ticket, pushed);
                    (None, request.into_iter().collect())
                }
                Leave(ticket) => {
                    assert_eq!(acquisitions.remove(ticket), Some(ticket));
                    (None, Vec::new())
                }
                Leased(ticket, endpoint) => (acquisitions.on_leased(ticket, endpoint), Vec::new()),
                Rejected(ticket) => {
                    let (grant, request) = acquisitions.on_rejected(ticket);
                    (grant, request.into_iter().collect())
                }
                Free(endpoint) => (acquisitions.take_first(endpoint), Vec::new()),
                CancelSurplus => (None, acquisitions.cancel_surplus()),
            }
        };
        let text = |request: PoolRequest| match request {
            PoolRequest::Acquire { number, choice: Choice::Any, tried } => match tried.first() {
                None => format!("acquire {number}"),
                Some(endpoint) => format!("acquire {number} but {endpoint}"),
            },
            PoolRequest::Acquire { number, choice: Choice::Prefer(endpoint), .. } => {
                format!("acquire {number} with {endpoint}")
            }
            PoolRequest::Acquire { number, choice: Choice::Only(endpoint), .. } => {
                format!("acquire {number} of {endpoint}")
            }
            PoolRequest::Cancel { number } => format!("cancel {number}"),
            other => format!("{other:?}"),
        };
        let mut found = Vec::new();
        for event in events {
            let (grant, requests) = on(*event);
            found.extend(grant.map(|ticket| format!("to {ticket}")));
            found.extend(requests.into_iter().map(text));
        }
        found
    }

    #[test]
    fn acquires_a_connection_for_each_request_that_waits_and_serves_the_first_one() {
        let check = |events: &[Event], expected: &[&str]| assert_eq!(run(events), expected, "{events:?}");
        check(&[Push(None), Leased(1, 7)], &["acquire 1", "to 1"]);
        check(&[Push(None), Push(None), Leased(2, 7)], &["acquire 1", "acquire 2", "to 1"]);
        // A later request takes over the acquisition of one that was served by a free connection, or has left.
        check(&[Push(None), Free(7), Push(None), Leased(1, 7)], &["acquire 1", "to 1", "to 2"]);
        check(&[Push(None), Leave(1), Push(None), Rejected(1)], &["acquire 1", "acquire 2"]);
        check(&[Push(None), Leave(1), CancelSurplus], &["acquire 1", "cancel 1"]);
        check(&[Push(None), CancelSurplus], &["acquire 1"]);
        check(&[Push(None), Push(None), Leave(1), CancelSurplus], &["acquire 1", "acquire 2", "cancel 2"]);
        check(&[Push(None), Rejected(1)], &["acquire 1", "to 1"]);
    }

    #[test]
    fn a_request_that_has_chosen_an_endpoint_gets_that() {
        let check = |events: &[Event], expected: &[&str]| assert_eq!(run(events), expected, "{events:?}");
        let (only, prefer) = (Choose(Choice::Only(7)), Choose(Choice::Prefer(7)));
        check(&[only, Free(8), Free(7)], &["acquire 1 of 7", "to 1"]);
        check(&[only, only, Leased(2, 7)], &["acquire 1 of 7", "acquire 2 of 7", "to 2"]);
        check(&[only, CancelSurplus, Rejected(1)], &["acquire 1 of 7", "to 1"]);
        // Any connection that is free is as good as one at capacity.
        check(&[prefer, Free(8)], &["acquire 1 with 7", "to 1"]);
        check(&[prefer, Leased(1, 8)], &["acquire 1 with 7", "to 1"]);
        // What an earlier one has left does not serve another choice.
        check(
            &[only, Free(7), only, CancelSurplus, Leased(2, 7)],
            &["acquire 1 of 7", "to 1", "acquire 2 of 7", "cancel 1", "to 2"],
        );
    }

    #[test]
    fn keeps_a_request_away_from_the_endpoint_that_it_avoids_unless_the_pool_has_no_other() {
        let check = |events: &[Event], expected: &[&str]| assert_eq!(run(events), expected, "{events:?}");
        let (avoiding, acquire) = (Push(Some(7)), "acquire 1 but 7");
        check(&[avoiding, Free(7), Free(8)], &[acquire, "to 1"]);
        check(&[avoiding, Leased(1, 7)], &[acquire, "to 1"]);
        // It acquires its own connection even if another acquisition is left, and keeps that.
        let second = [Push(None), Free(7), avoiding, CancelSurplus, Leased(2, 7)];
        check(&second, &["acquire 1", "to 1", "acquire 2 but 7", "cancel 1", "to 2"]);
        let third = [Push(None), Free(7), avoiding, Push(None), Rejected(1), Leased(2, 7)];
        check(&third, &["acquire 1", "to 1", "acquire 2 but 7", "acquire 3", "to 2"]);
    }
}
