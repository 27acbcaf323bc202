//! What a worker and the pool of an application say to one another, and what the master says to the pool:
//! one message per datagram of a channel, with a descriptor beside it where there is one. All ends are the
//! same program, so that there is no version.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::PoolError;
use crate::ipc::{Decoder, Encoder, Message};

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
    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolEvent::Leased { number, lease, stream } => {
                let Lease { number: lease, endpoint, requests } = *lease;
                Encoder::new(b'L').u64(*number).u64(lease).u64(endpoint).u64(requests).fd(stream)
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
            PoolCommand::Join(fd) => Encoder::new(b'J').fd(fd),
            PoolCommand::Log(fd) => Encoder::new(b'O').fd(fd),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolCommand> {
        Some(match kind {
            b'J' => PoolCommand::Join(fields.fd()?),
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
                stream: fd(),
            },
            PoolEvent::Rejected { number: 4, why: PoolError::Failing },
            PoolEvent::Recall { endpoint: None },
            PoolEvent::Recall { endpoint: Some(2) },
        ]);
        check_codec([PoolCommand::Join(fd()), PoolCommand::Log(fd())]);
    }
}
