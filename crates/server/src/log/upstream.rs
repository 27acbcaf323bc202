//! What the access log has of the upstreams that a request was sent to. Knows nothing of their protocols.

use std::cell::RefCell;
use std::rc::Rc;

use site::log_line::Attempt;
use taipan_http::status::Status;

use crate::clock;

/// The attempts of one request that its log line names. There are no more, unless many endpoints fail.
const MAX_ATTEMPTS: usize = 16;

/// The attempts of one request, in their order.
#[derive(Debug, Default)]
pub struct UpstreamLog {
    attempts: RefCell<Vec<Attempt>>,
    /// The number of each, from 0 on in the order in which they began.
    numbers: RefCell<Vec<usize>>,
}

/// One attempt. It ends when this is dropped.
pub struct AttemptLog {
    log: Rc<UpstreamLog>,
    number: usize,
    /// Of `clock::micros`.
    began: u64,
}

impl UpstreamLog {
    /// Begins an attempt, which waits for a connection to an upstream that is `name` until its endpoint is known.
    pub fn begin(self: &Rc<UpstreamLog>, name: &Rc<str>) -> AttemptLog {
        let mut attempts = self.attempts.borrow_mut();
        let number = attempts.len();
        if number < MAX_ATTEMPTS {
            attempts.push(Attempt::new(name.clone()));
            self.numbers.borrow_mut().push(number);
        }
        AttemptLog { log: self.clone(), number, began: clock::micros() }
    }

    /// Reads the attempts. One that has not ended has lasted until now.
    pub fn with<T>(&self, read: impl FnOnce(&[Attempt]) -> T) -> T {
        read(&self.attempts.borrow())
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
        let mut numbers = self.log.numbers.borrow_mut();
        if let Some(at) = numbers.iter().position(|number| *number == self.number) {
            numbers[at..].rotate_left(1);
            self.log.attempts.borrow_mut()[at..].rotate_left(1);
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

    fn micros(&self) -> u64 {
        clock::micros().saturating_sub(self.began)
    }

    fn update(&self, update: impl FnOnce(&mut Attempt)) {
        let at = self.log.numbers.borrow().iter().position(|number| *number == self.number);
        if let Some(at) = at {
            update(&mut self.log.attempts.borrow_mut()[at]);
        }
    }
}

impl Drop for AttemptLog {
    fn drop(&mut self) {
        let micros = self.micros();
        self.update(|attempt| attempt.total_micros = Some(micros));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_endpoint_in_order() {
        let log = Rc::new(UpstreamLog::default());
        let name: Rc<str> = "app".into();
        let first = log.begin(&name);
        first.on_endpoint(&"127.0.0.1:1".into());
        drop(first);
        let second = log.begin(&name);
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
            let attempt = log.begin(&name);
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
    fn keeps_a_bounded_number_of_attempts() {
        let log = Rc::new(UpstreamLog::default());
        for _ in 0..2 * MAX_ATTEMPTS {
            log.begin(&"app".into()).on_head(Status::OK);
        }
        assert_eq!(log.with(<[Attempt]>::len), MAX_ATTEMPTS);
    }
}
