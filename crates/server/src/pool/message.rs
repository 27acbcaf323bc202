//! What a worker and the pool of an application say to one another, and what the master says to the pool:
//! one message per datagram of a channel, with a descriptor beside it where there is one. All ends are the
//! same program, so that there is no version.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::PoolError;
use crate::ipc::{Descriptors, Message};

/// A endpoint of the application: an address, or a process.
pub type EndpointId = u64;

/// What a worker asks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolRequest {
    /// A connection to the endpoint that has least to do, and not to `avoid` if there is another.
    Acquire { number: u64, avoid: Option<EndpointId> },
    /// Nobody waits for this one any more.
    Cancel { number: u64 },
    /// All connections are in use; one of them will be given back.
    NothingIdle,
    /// A connection is closed, after so many requests, and so long after the last of them.
    Return { lease: u64, requests: u64, idle: Duration, outcome: LeaseOutcome },
}

/// Was the endpoint there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    Served,
    /// It could not be reached, or has not answered.
    Failed,
}

/// What a pool says.
#[derive(Debug)]
pub enum PoolEvent {
    Leased {
        number: u64,
        lease: Lease,
        stream: OwnedFd,
    },
    Rejected {
        number: u64,
        why: PoolError,
    },
    /// Somebody else waits: a connection that is not in use is to be given back, of this endpoint if one
    /// is named, and then none is to be kept.
    Recall {
        endpoint: Option<EndpointId>,
    },
}

/// A connection that a worker may use until it closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub number: u64,
    pub endpoint: EndpointId,
    /// After so many requests it has to be given back.
    pub requests: u64,
}

/// What the master says to a pool.
pub enum PoolCommand {
    /// The pool's end of a channel to a worker.
    Join(OwnedFd),
    /// The error log goes there from now on.
    Log(OwnedFd),
}

impl Message for PoolRequest {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        let bytes = match *self {
            PoolRequest::Acquire { number, avoid } => words(b'A', &[number, avoid.unwrap_or(0)]),
            PoolRequest::Cancel { number } => words(b'F', &[number]),
            PoolRequest::NothingIdle => words(b'B', &[]),
            PoolRequest::Return { lease, requests, idle, outcome } => {
                let failed = u64::from(outcome == LeaseOutcome::Failed);
                words(b'R', &[lease, requests, idle.as_millis() as u64, failed])
            }
        };
        (bytes, Vec::new())
    }

    fn read(bytes: &[u8], _: Descriptors) -> Option<PoolRequest> {
        Some(match parse(bytes)? {
            (b'A', [number, avoid, ..]) => {
                PoolRequest::Acquire { number, avoid: (avoid != 0).then_some(avoid) }
            }
            (b'F', [number, ..]) => PoolRequest::Cancel { number },
            (b'B', _) => PoolRequest::NothingIdle,
            (b'R', [lease, requests, idle, failed]) => {
                let outcome = if failed == 0 { LeaseOutcome::Served } else { LeaseOutcome::Failed };
                PoolRequest::Return { lease, requests, idle: Duration::from_millis(idle), outcome }
            }
            _ => return None,
        })
    }
}

impl Message for PoolEvent {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        match self {
            PoolEvent::Leased { number, lease, stream } => {
                let bytes = words(b'L', &[*number, lease.number, lease.endpoint, lease.requests]);
                (bytes, vec![stream.as_fd()])
            }
            PoolEvent::Rejected { number, why } => (words(b'N', &[*number, why.number()]), Vec::new()),
            PoolEvent::Recall { endpoint } => (words(b'C', &[endpoint.unwrap_or(0)]), Vec::new()),
        }
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<PoolEvent> {
        Some(match parse(bytes)? {
            (b'L', [number, lease, endpoint, requests]) => PoolEvent::Leased {
                number,
                lease: Lease { number: lease, endpoint, requests },
                stream: fds.pop()?,
            },
            (b'N', [number, why, ..]) => PoolEvent::Rejected { number, why: PoolError::of(why) },
            (b'C', [endpoint, ..]) => PoolEvent::Recall { endpoint: (endpoint != 0).then_some(endpoint) },
            _ => return None,
        })
    }
}

impl Message for PoolCommand {
    fn write(&self) -> (Vec<u8>, Vec<std::os::fd::BorrowedFd<'_>>) {
        match self {
            PoolCommand::Join(fd) => (words(b'J', &[]), vec![fd.as_fd()]),
            PoolCommand::Log(fd) => (words(b'O', &[]), vec![fd.as_fd()]),
        }
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<PoolCommand> {
        match parse(bytes)?.0 {
            b'J' => Some(PoolCommand::Join(fds.pop()?)),
            b'O' => Some(PoolCommand::Log(fds.pop()?)),
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
            PoolRequest::Acquire { number: 7, avoid: None },
            PoolRequest::Acquire { number: u64::MAX, avoid: Some(3) },
            PoolRequest::Cancel { number: 1 },
            PoolRequest::NothingIdle,
            PoolRequest::Return {
                lease: 5,
                requests: 9,
                idle: Duration::ZERO,
                outcome: LeaseOutcome::Failed,
            },
            PoolRequest::Return {
                lease: 5,
                requests: 0,
                idle: Duration::from_secs(7),
                outcome: LeaseOutcome::Served,
            },
        ] {
            let (bytes, _) = request.write();
            assert_eq!(PoolRequest::read(&bytes, Descriptors::new()), Some(request));
            for end in 1..bytes.len() {
                // Cut within a word, or with words missing: never a panic.
                _ = PoolRequest::read(&bytes[..end], Descriptors::new());
            }
        }
        let why = PoolEvent::Rejected { number: 4, why: PoolError::Failing };
        let read = PoolEvent::read(&why.write().0, Descriptors::new());
        assert!(matches!(read, Some(PoolEvent::Rejected { number: 4, why: PoolError::Failing })));
        assert!(PoolEvent::read(b"L", Descriptors::new()).is_none(), "without its descriptor");
        assert!(PoolEvent::read(b"", Descriptors::new()).is_none());
    }
}
