//! What the access log has of the upstreams that a request was sent to, and its spans of what was waited for beside
//! them. Knows nothing of their protocols.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use site::log_line::{Attempt, Step, StepKind, TraceIds};
use site::upstream::Protocol;
use smallvec::SmallVec;
use taipan_http::status::Status;

use crate::clock;
use crate::trace::ParentOf;

/// The attempts of one request that its log line names. There are no more, unless many endpoints fail.
const MAX_ATTEMPTS: usize = 16;

/// Its lookups and scripts that have spans.
const MAX_STEPS: usize = 16;

/// The attempts of one request, in their order, and what else was waited for.
#[derive(Debug, Default)]
pub struct UpstreamLog {
    /// Most requests have one.
    attempts: RefCell<SmallVec<[Attempt; 1]>>,
    steps: RefCell<Vec<Step>>,
    /// Attempts and steps that have begun.
    begun: Cell<u32>,
    /// The request in its trace. `None`: its spans are not sent.
    trace: Option<TraceIds>,
}

/// One attempt. It ends when this is dropped.
pub struct AttemptLog {
    log: Rc<UpstreamLog>,
    number: u32,
    /// Of `clock::micros`.
    began: u64,
}

/// One step. It ends when this is dropped.
pub struct StepLog {
    log: Rc<UpstreamLog>,
    number: u32,
    began: u64,
}

impl UpstreamLog {
    /// Of a request whose spans are sent.
    pub fn of_trace(trace: Option<TraceIds>) -> UpstreamLog {
        UpstreamLog { trace, ..UpstreamLog::default() }
    }

    /// Begins an attempt, which waits for a connection to an upstream that is `name` until its endpoint is known.
    pub fn begin(self: &Rc<UpstreamLog>, name: &Rc<str>, protocol: Protocol) -> AttemptLog {
        self.begin_at(clock::micros(), name, protocol)
    }

    /// As `begin`, at this time of `clock::micros`.
    pub fn begin_at(self: &Rc<UpstreamLog>, began: u64, name: &Rc<str>, protocol: Protocol) -> AttemptLog {
        let number = self.number();
        let mut attempts = self.attempts.borrow_mut();
        if attempts.len() < MAX_ATTEMPTS {
            attempts.push(Attempt { number, began, protocol, ..Attempt::new(name.clone()) });
        }
        AttemptLog { log: self.clone(), number, began }
    }

    /// Begins a step. `None`: it gets no span.
    pub fn begin_step(self: &Rc<UpstreamLog>, kind: impl FnOnce() -> StepKind) -> Option<StepLog> {
        self.trace?;
        let began = clock::micros();
        self.note_step(kind(), began)
    }

    /// A lookup that began at this time of `clock::micros` has ended.
    pub fn note_lookup(self: &Rc<UpstreamLog>, began: u64) {
        drop(self.note_step(StepKind::Lookup, began));
    }

    fn note_step(self: &Rc<UpstreamLog>, kind: StepKind, began: u64) -> Option<StepLog> {
        let mut steps = self.steps.borrow_mut();
        if steps.len() >= MAX_STEPS {
            return None;
        }
        let number = self.number();
        steps.push(Step { kind, number, began, micros: None, status: None });
        Some(StepLog { log: self.clone(), number, began })
    }

    fn number(&self) -> u32 {
        let number = self.begun.get();
        self.begun.set(number.wrapping_add(1));
        number
    }

    /// Reads the attempts. One that has not ended has lasted until now.
    pub fn with<T>(&self, read: impl FnOnce(&[Attempt]) -> T) -> T {
        read(&self.attempts.borrow())
    }

    /// As `with`, with the steps.
    pub fn with_steps<T>(&self, read: impl FnOnce(&[Attempt], &[Step]) -> T) -> T {
        read(&self.attempts.borrow(), &self.steps.borrow())
    }
}

impl AttemptLog {
    /// It is sent to this endpoint.
    pub fn on_endpoint(&self, address: &Rc<str>) {
        self.update(|attempt| attempt.address = address.clone());
    }

    /// The connection has taken the head of the request. The first call counts.
    pub fn on_connection(&self) {
        let micros = self.micros();
        self.update(|attempt| _ = attempt.connect_micros.get_or_insert(micros));
    }

    /// A connection that was idle has taken the head of the request, without waiting.
    pub fn on_idle_connection(&self) {
        self.update(|attempt| attempt.connect_micros = Some(0));
    }

    /// The whole response has come at once, with `received` bytes of the body.
    pub fn on_response(&self, status: Status, received: usize) {
        let micros = self.micros();
        self.update(|attempt| {
            (attempt.first_byte_micros, attempt.total_micros) = (Some(micros), Some(micros));
            (attempt.status, attempt.received) = (Some(status), received as u64);
        });
    }

    /// The head of the response has come.
    pub fn on_head(&self, status: Status) {
        let micros = self.micros();
        self.update(|attempt| {
            attempt.first_byte_micros = Some(micros);
            attempt.status = Some(status);
        });
    }

    /// Its response is that of the request: it is listed behind those that ran at the same time.
    pub fn on_chosen(&self) {
        let mut attempts = self.log.attempts.borrow_mut();
        if let Some(at) = attempts.iter().position(|attempt| attempt.number == self.number) {
            attempts[at..].rotate_left(1);
        }
    }

    /// Bytes of the request's body, or of the client behind a 101, that the connection has taken.
    pub fn add_sent(&self, bytes: usize) {
        self.update(|attempt| attempt.sent += bytes as u64);
    }

    /// Bytes of the response's body, in its framing, or of what follows a 101.
    pub fn add_received(&self, bytes: usize) {
        self.update(|attempt| attempt.received += bytes as u64);
    }

    /// What the upstream learns as the parent of what it does. `None`: the request is.
    pub fn parent(&self) -> Option<ParentOf> {
        Some(ParentOf::new(self.log.trace?, self.number))
    }

    fn micros(&self) -> u64 {
        clock::micros().saturating_sub(self.began)
    }

    fn update(&self, update: impl FnOnce(&mut Attempt)) {
        let mut attempts = self.log.attempts.borrow_mut();
        if let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.number == self.number) {
            update(attempt);
        }
    }
}

impl Drop for AttemptLog {
    fn drop(&mut self) {
        self.update(|attempt| _ = attempt.total_micros.get_or_insert_with(|| self.micros()));
    }
}

impl StepLog {
    /// The script has sent the head of its response.
    pub fn on_head(&self, status: Status) {
        self.update(|step| step.status = Some(status));
    }

    /// As [`AttemptLog::parent`].
    pub fn parent(&self) -> Option<ParentOf> {
        Some(ParentOf::new(self.log.trace?, self.number))
    }

    fn update(&self, update: impl FnOnce(&mut Step)) {
        let mut steps = self.log.steps.borrow_mut();
        if let Some(step) = steps.iter_mut().find(|step| step.number == self.number) {
            update(step);
        }
    }
}

impl Drop for StepLog {
    fn drop(&mut self) {
        let micros = clock::micros().saturating_sub(self.began);
        self.update(|step| step.micros = Some(micros));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_endpoint_in_order() {
        let log = Rc::new(UpstreamLog::default());
        let name: Rc<str> = "app".into();
        let first = log.begin(&name, Protocol::Http);
        first.on_endpoint(&"127.0.0.1:1".into());
        drop(first);
        let second = log.begin(&name, Protocol::Http);
        second.on_endpoint(&"127.0.0.1:2".into());
        second.on_connection();
        second.on_head(Status::OK);
        second.add_sent(3);
        second.add_received(4);
        second.add_received(5);
        log.with(|attempts| {
            let [first, second] = attempts else { panic!("{attempts:?}") };
            assert_eq!((&*first.address, first.status, first.connect_micros), ("127.0.0.1:1", None, None));
            assert!(first.total_micros.is_some());
            assert_eq!((&*second.address, second.status), ("127.0.0.1:2", Some(Status::OK)));
            assert_eq!((second.sent, second.received, second.total_micros), (3, 9, None));
            assert!(second.connect_micros <= second.first_byte_micros);
        });
    }

    #[test]
    fn the_attempt_that_was_chosen_is_the_last() {
        let log = Rc::new(UpstreamLog::default());
        let name: Rc<str> = "app".into();
        let attempts = ["a", "b", "c"].map(|address| {
            let attempt = log.begin(&name, Protocol::Http);
            attempt.on_endpoint(&address.into());
            attempt
        });
        attempts[1].on_chosen();
        attempts[2].add_sent(3);
        attempts[1].add_sent(2);
        attempts[0].add_sent(1);
        log.with(|attempts| {
            let found: Vec<_> = attempts.iter().map(|attempt| (&*attempt.address, attempt.sent)).collect();
            assert_eq!(found, [("a", 1), ("c", 3), ("b", 2)]);
        });
    }

    #[test]
    fn a_step_has_a_span_only_in_a_trace_that_is_sent() {
        let none = Rc::new(UpstreamLog::default());
        assert!(none.begin_step(|| StepKind::Lookup).is_none());
        let ids = TraceIds { trace: 1, span: 2 };
        let log = Rc::new(UpstreamLog::of_trace(Some(ids)));
        let attempt = log.begin(&"app".into(), Protocol::FastCgi);
        let script = log.begin_step(|| StepKind::Script("/a".into())).expect("it has a span");
        script.on_head(Status::OK);
        assert_eq!(attempt.parent(), Some(ParentOf::new(ids, 0)));
        assert_eq!(script.parent(), Some(ParentOf::new(ids, 1)));
        drop(script);
        log.with_steps(|attempts, steps| {
            assert_eq!((attempts.len(), attempts[0].number), (1, 0));
            assert_eq!((steps.len(), steps[0].number, steps[0].status), (1, 1, Some(Status::OK)));
            assert!(steps[0].micros.is_some());
        });
        for _ in 0..2 * MAX_STEPS {
            log.note_lookup(0);
        }
        assert_eq!(log.with_steps(|_, steps| steps.len()), MAX_STEPS);
    }

    #[test]
    fn keeps_a_bounded_number_of_attempts() {
        let log = Rc::new(UpstreamLog::default());
        for _ in 0..2 * MAX_ATTEMPTS {
            log.begin(&"app".into(), Protocol::Http).on_head(Status::OK);
        }
        assert_eq!(log.with(<[Attempt]>::len), MAX_ATTEMPTS);
    }
}
