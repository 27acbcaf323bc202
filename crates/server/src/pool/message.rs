//! The messages between a worker, the pool of an application, and the master. All of them run the same program, so that
//! messages have no version.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::PoolError;
use crate::ipc::{Decoder, Encoder, Message};

/// An endpoint of an application: an address or a process. Never 0, which stands for none in a message.
pub type EndpointId = u64;

/// From a worker to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolRequest {
    /// Requests a connection to the endpoint with the fewest requests, but not to `avoid` if there is another.
    Acquire { number: u64, avoid: Option<EndpointId> },
    /// Takes back `Acquire`.
    Cancel { number: u64 },
    /// The response to `Recall` if no connection is idle. The worker returns the next one that is.
    NothingIdle,
    /// A connection is closed, after so many requests. It was idle for so long.
    Return { lease: u64, requests: u64, idle: Duration, outcome: LeaseOutcome },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    Served,
    /// The endpoint could not be reached, or has not responded.
    Failed,
}

/// From a pool to a worker.
#[derive(Debug)]
pub enum PoolEvent {
    Leased {
        number: u64,
        lease: Lease,
        origin: Origin,
        stream: OwnedFd,
    },
    Rejected {
        number: u64,
        why: PoolError,
    },
    /// Requests an idle connection back, because another worker waits. With an endpoint: requests all idle connections
    /// to it, because it takes no more requests.
    Recall {
        endpoint: Option<EndpointId>,
    },
}

/// A connection that a worker may use until it closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub number: u64,
    pub endpoint: EndpointId,
    /// The most requests that it may have.
    pub requests: u64,
}

/// Which of the configured addresses an endpoint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The index of the configured address. A process has none, and 0.
    pub index: usize,
    /// The address of the endpoint, if the configured one is a name.
    pub resolved: Option<SocketAddr>,
}

/// From the master to a pool.
pub enum PoolCommand {
    /// The pool's end of a channel to a new worker.
    AddWorker(OwnedFd),
    /// The error log from now on.
    Log(OwnedFd),
}

impl Message<'_> for PoolRequest {
    fn encode(&self) -> Encoder<'_> {
        match *self {
            PoolRequest::Acquire { number, avoid } => Encoder::new(b'A').u64(number).u64(avoid.unwrap_or(0)),
            PoolRequest::Cancel { number } => Encoder::new(b'F').u64(number),
            PoolRequest::NothingIdle => Encoder::new(b'B'),
            PoolRequest::Return { lease, requests, idle, outcome } => {
                let kind = match outcome {
                    LeaseOutcome::Served => b'R',
                    LeaseOutcome::Failed => b'X',
                };
                Encoder::new(kind).u64(lease).u64(requests).u64(idle.as_millis() as u64)
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolRequest> {
        let outcome = match kind {
            b'A' => {
                let (number, avoid) = (fields.u64()?, fields.u64()?);
                return Some(PoolRequest::Acquire { number, avoid: (avoid != 0).then_some(avoid) });
            }
            b'F' => return Some(PoolRequest::Cancel { number: fields.u64()? }),
            b'B' => return Some(PoolRequest::NothingIdle),
            b'R' => LeaseOutcome::Served,
            b'X' => LeaseOutcome::Failed,
            _ => return None,
        };
        let (lease, requests, idle) = (fields.u64()?, fields.u64()?, fields.u64()?);
        Some(PoolRequest::Return { lease, requests, idle: Duration::from_millis(idle), outcome })
    }
}

impl Message<'_> for PoolEvent {
    // With the text of an IPv6 address.
    const MAX_BYTES: usize = 128;

    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolEvent::Leased { number, lease, origin, stream } => {
                let Lease { number: lease, endpoint, requests } = *lease;
                let head = Encoder::new(b'L').u64(*number).u64(lease).u64(endpoint).u64(requests);
                let head = head.u64(origin.index as u64).fd(stream);
                match origin.resolved {
                    Some(address) => head.bytes(address.to_string().as_bytes()),
                    None => head,
                }
            }
            PoolEvent::Rejected { number, why } => Encoder::new(b'N').u64(*number).u64(why.number()),
            PoolEvent::Recall { endpoint } => Encoder::new(b'C').u64(endpoint.unwrap_or(0)),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolEvent> {
        Some(match kind {
            b'L' => PoolEvent::Leased {
                number: fields.u64()?,
                lease: Lease { number: fields.u64()?, endpoint: fields.u64()?, requests: fields.u64()? },
                origin: Origin {
                    index: fields.u64()?.try_into().ok()?,
                    resolved: match fields.rest() {
                        [] => None,
                        text => Some(std::str::from_utf8(text).ok()?.parse().ok()?),
                    },
                },
                stream: fields.fd()?,
            },
            b'N' => PoolEvent::Rejected { number: fields.u64()?, why: PoolError::of(fields.u64()?) },
            b'C' => {
                let endpoint = fields.u64()?;
                PoolEvent::Recall { endpoint: (endpoint != 0).then_some(endpoint) }
            }
            _ => return None,
        })
    }
}

impl Message<'_> for PoolCommand {
    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolCommand::AddWorker(fd) => Encoder::new(b'J').fd(fd),
            PoolCommand::Log(fd) => Encoder::new(b'O').fd(fd),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolCommand> {
        Some(match kind {
            b'J' => PoolCommand::AddWorker(fields.fd()?),
            b'O' => PoolCommand::Log(fields.fd()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let fd = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
        let returned = |seconds, outcome| PoolRequest::Return {
            lease: 5,
            requests: 9,
            idle: Duration::from_secs(seconds),
            outcome,
        };
        check_codec([
            PoolRequest::Acquire { number: 7, avoid: None },
            PoolRequest::Acquire { number: u64::MAX, avoid: Some(3) },
            PoolRequest::Cancel { number: 1 },
            PoolRequest::NothingIdle,
            returned(0, LeaseOutcome::Failed),
            returned(7, LeaseOutcome::Served),
        ]);
        check_codec([
            PoolEvent::Leased {
                number: 4,
                lease: Lease { number: 5, endpoint: 6, requests: 7 },
                origin: Origin { index: 0, resolved: None },
                stream: fd(),
            },
            PoolEvent::Leased {
                number: 4,
                lease: Lease { number: 5, endpoint: 6, requests: u64::MAX },
                origin: Origin {
                    index: 3,
                    resolved: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().ok(),
                },
                stream: fd(),
            },
            PoolEvent::Rejected { number: 4, why: PoolError::Failing },
            PoolEvent::Recall { endpoint: None },
            PoolEvent::Recall { endpoint: Some(2) },
        ]);
        check_codec([PoolCommand::AddWorker(fd()), PoolCommand::Log(fd())]);
    }
}
