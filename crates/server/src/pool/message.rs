//! What a worker and the pool of an application say to one another, and what the master says to the pool:
//! one message per datagram of a channel, with a descriptor beside it where there is one. All ends are the
//! same program, so that there is no version.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Refusal;
use crate::ipc::{Descriptors, Message};

/// A server of the application: an address, or a process.
pub type ServerId = u64;

/// What a worker asks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A connection to the server that has least to do, and not to `avoid` if there is another.
    Ask { number: u64, avoid: Option<ServerId> },
    /// Nobody waits for this one any more.
    Forget { number: u64 },
    /// All connections are in use; one of them will be given back.
    Busy,
    /// A connection is closed, after so many requests, and so long after the last of them.
    Return { lease: u64, requests: u64, idle: Duration, outcome: Outcome },
}

/// Was the server there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Served,
    /// It could not be reached, or has not answered.
    Failed,
}

/// What a pool says.
#[derive(Debug)]
pub enum Answer {
    Lease {
        number: u64,
        lease: Lease,
        stream: OwnedFd,
    },
    Refused {
        number: u64,
        why: Refusal,
    },
    /// Somebody else waits: a connection that is not in use is to be given back, of this server if one
    /// is named, and then none is to be kept.
    Recall {
        server: Option<ServerId>,
    },
}

/// A connection that a worker may use until it closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub number: u64,
    pub server: ServerId,
    /// After so many requests it has to be given back.
    pub requests: u64,
}

/// What the master says to a pool.
pub enum Order {
    /// The pool's end of a channel to a worker.
    Join(OwnedFd),
    /// The error log goes there from now on.
    Log(OwnedFd),
}

impl Message for Request {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        let bytes = match *self {
            Request::Ask { number, avoid } => words(b'A', &[number, avoid.unwrap_or(0)]),
            Request::Forget { number } => words(b'F', &[number]),
            Request::Busy => words(b'B', &[]),
            Request::Return { lease, requests, idle, outcome } => {
                let failed = u64::from(outcome == Outcome::Failed);
                words(b'R', &[lease, requests, idle.as_millis() as u64, failed])
            }
        };
        (bytes, Vec::new())
    }

    fn read(bytes: &[u8], _: Descriptors) -> Option<Request> {
        Some(match parse(bytes)? {
            (b'A', [number, avoid, ..]) => Request::Ask { number, avoid: (avoid != 0).then_some(avoid) },
            (b'F', [number, ..]) => Request::Forget { number },
            (b'B', _) => Request::Busy,
            (b'R', [lease, requests, idle, failed]) => {
                let outcome = if failed == 0 { Outcome::Served } else { Outcome::Failed };
                Request::Return { lease, requests, idle: Duration::from_millis(idle), outcome }
            }
            _ => return None,
        })
    }
}

impl Message for Answer {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        match self {
            Answer::Lease { number, lease, stream } => {
                let bytes = words(b'L', &[*number, lease.number, lease.server, lease.requests]);
                (bytes, vec![stream.as_fd()])
            }
            Answer::Refused { number, why } => (words(b'N', &[*number, why.number()]), Vec::new()),
            Answer::Recall { server } => (words(b'C', &[server.unwrap_or(0)]), Vec::new()),
        }
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<Answer> {
        Some(match parse(bytes)? {
            (b'L', [number, lease, server, requests]) => {
                Answer::Lease { number, lease: Lease { number: lease, server, requests }, stream: fds.pop()? }
            }
            (b'N', [number, why, ..]) => Answer::Refused { number, why: Refusal::of(why) },
            (b'C', [server, ..]) => Answer::Recall { server: (server != 0).then_some(server) },
            _ => return None,
        })
    }
}

impl Message for Order {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        match self {
            Order::Join(fd) => (words(b'J', &[]), vec![fd.as_fd()]),
            Order::Log(fd) => (words(b'O', &[]), vec![fd.as_fd()]),
        }
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<Order> {
        match parse(bytes)?.0 {
            b'J' => Some(Order::Join(fds.pop()?)),
            b'O' => Some(Order::Log(fds.pop()?)),
            _ => None,
        }
    }
}

fn words(tag: u8, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![tag];
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

/// Words that are not there are 0.
fn parse(bytes: &[u8]) -> Option<(u8, [u64; 4])> {
    let (tag, rest) = bytes.split_first()?;
    let mut words = [0; 4];
    let (chunks, []) = rest.as_chunks::<8>() else { return None };
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_ne_bytes(*chunk);
    }
    Some((*tag, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for request in [
            Request::Ask { number: 7, avoid: None },
            Request::Ask { number: u64::MAX, avoid: Some(3) },
            Request::Forget { number: 1 },
            Request::Busy,
            Request::Return { lease: 5, requests: 9, idle: Duration::ZERO, outcome: Outcome::Failed },
            Request::Return { lease: 5, requests: 0, idle: Duration::from_secs(7), outcome: Outcome::Served },
        ] {
            let (bytes, _) = request.write();
            assert_eq!(Request::read(&bytes, Descriptors::new()), Some(request));
            for end in 1..bytes.len() {
                // Cut within a word, or with words missing: never a panic.
                _ = Request::read(&bytes[..end], Descriptors::new());
            }
        }
        let why = Answer::Refused { number: 4, why: Refusal::Failing };
        let read = Answer::read(&why.write().0, Descriptors::new());
        assert!(matches!(read, Some(Answer::Refused { number: 4, why: Refusal::Failing })));
        assert!(Answer::read(b"L", Descriptors::new()).is_none(), "without its descriptor");
        assert!(Answer::read(b"", Descriptors::new()).is_none());
    }
}
