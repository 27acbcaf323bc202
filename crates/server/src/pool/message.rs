//! The messages between a worker, the pool of an application, and the master. All of them run the same program, so that
//! messages have no version.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use arrayvec::ArrayVec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::selection::Choice;
use crate::control::DrainChange;
use crate::log::{self, LogCommand};
use crate::process::ipc::{self, Channel, Decoder, Encoder, Message, Received};
use crate::process::supervisor::advice_on_descriptors;

/// An endpoint of an application: an address or a process. Never 0, which stands for none in a message.
pub type EndpointId = u64;

/// Endpoints that have failed a request. It goes to another one, if there is another.
pub type Tried = ArrayVec<EndpointId, MAX_TRIED>;

pub const MAX_TRIED: usize = 8;
/// Bytes of the name of an endpoint, and of the reason for its state, in a message.
const MAX_NAME: usize = 300;
const MAX_REASON: usize = 200;

/// From a worker to a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolRequest {
    /// Requests a connection.
    Acquire { number: u64, choice: Choice, tried: Tried },
    /// Takes back `Acquire`.
    Cancel { number: u64 },
    /// The response to `Recall` if no connection is idle. The worker returns the next one that is.
    NothingIdle,
    /// A connection is closed, after so many requests. It was idle for so long.
    Return { lease: u64, requests: u64, idle: Duration },
    /// A connection has another protocol now. It is a part of the load of its endpoint, and not of its capacity.
    Upgraded { lease: u64 },
    /// The endpoint of a lease could not be reached, or has not responded as it should.
    Failed { lease: u64, fault: Fault, reason: String },
}

/// What an endpoint has done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It had the request for itself, and has not responded in time. It may hang.
    Timeout,
    Other,
}

/// From a pool to a worker.
#[derive(Debug)]
pub enum PoolEvent {
    Leased {
        number: u64,
        lease: Lease,
        origin: EndpointOrigin,
        /// `None`: the worker had no free number for it.
        stream: Option<OwnedFd>,
    },
    Rejected {
        number: u64,
        why: PoolError,
    },
    /// Requests an idle connection back, because another worker waits. With an endpoint: one to that.
    Recall {
        endpoint: Option<EndpointId>,
    },
    /// Requests all idle connections to an endpoint back, because it takes no more requests.
    Retire {
        endpoint: EndpointId,
    },
    /// So many endpoints follow. The worker forgets those that it knows.
    Endpoints {
        count: u64,
    },
    Endpoint(EndpointNotice),
}

/// An endpoint as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointNotice {
    pub id: EndpointId,
    /// The address, or the process.
    pub name: String,
    pub share: Share,
    pub state: Availability,
    /// How long it has had this state.
    pub age: Duration,
    pub failures: u64,
    /// Of the last failure. Empty: there was none.
    pub reason: String,
}

/// How many of the requests an endpoint gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// 0 is the best. It has requests while no endpoint with a better one is up.
    pub priority: u16,
    /// Beside those with the same priority. At least 1.
    pub weight: u32,
}

impl Share {
    /// The share of an endpoint where all have the same.
    pub const EQUAL: Share = Share { priority: 0, weight: 1 };

    fn encode(self) -> u64 {
        u64::from(self.priority) << 32 | u64::from(self.weight)
    }

    fn decode(number: u64) -> Option<Share> {
        Some(Share { priority: (number >> 32).try_into().ok()?, weight: number as u32 })
    }
}

/// Whether an endpoint may have requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    Up,
    /// It has failed. It is tried when no other is up.
    Down,
    /// The administrator takes it out of service.
    Draining,
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
pub struct EndpointOrigin {
    /// The index of the configured address. A process has none, and 0.
    pub index: usize,
    /// The address of the endpoint, if the configured one is a name.
    pub resolved: Option<SocketAddr>,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolError {
    QueueFull,
    /// No connection was free within `wait`.
    TimedOut,
    /// The application does not start, or ends again and again.
    Failing,
    /// Nothing listens at its addresses.
    Unreachable,
    /// Its name has no address.
    Unresolved,
    /// All of its endpoints were out of service before, and the least bad one has failed again.
    AllDown,
    /// The process of the pool has ended.
    Lost,
    /// The worker has no free number for the connection, or no memory.
    NoDescriptor,
    /// The files for its connections cannot be used.
    NoSettings,
}

/// From the master to a pool.
pub enum PoolCommand {
    /// The pool's end of a channel to a new worker.
    AddWorker(OwnedFd),
    Log(LogCommand),
    /// Take an endpoint out of service, or put it back, and write the response of the control socket.
    Drain {
        change: DrainChange,
        endpoint: String,
        to: OwnedFd,
    },
}

impl PoolCommand {
    /// The next one. `None`: there will be no other, because the master needs the process no more, or because the channel of
    /// a worker is lost. Then another process takes this one's place when the master learns that its channel is closed.
    pub async fn receive(master: &AsyncFd<Channel>) -> Option<PoolCommand> {
        match master.async_io(Interest::READABLE, Channel::receive).await {
            Ok(Received::Message(command)) => Some(command),
            Err(error) if ipc::lacks_descriptors(&error) => {
                let advice = advice_on_descriptors(libc::EMFILE);
                log::error(format_args!(
                    "this process has no descriptor for another worker, and is replaced{advice}"
                ));
                None
            }
            Ok(Received::End) | Err(_) => None,
        }
    }
}

impl PoolError {
    const ALL: [PoolError; 9] = [
        PoolError::QueueFull,
        PoolError::TimedOut,
        PoolError::Failing,
        PoolError::Unreachable,
        PoolError::Unresolved,
        PoolError::AllDown,
        PoolError::Lost,
        PoolError::NoDescriptor,
        PoolError::NoSettings,
    ];

    fn number(self) -> u64 {
        self as u64
    }

    fn of(number: u64) -> PoolError {
        PoolError::ALL.into_iter().find(|error| error.number() == number).unwrap_or(PoolError::Lost)
    }

    pub fn why(self) -> &'static str {
        match self {
            PoolError::QueueFull => "too many requests wait for it",
            PoolError::TimedOut => {
                "none of its connections was free in time (\"connections\", \"wait\"): it is slow, or clients take \
                 their responses slowly"
            }
            PoolError::Failing => "its processes end again and again",
            PoolError::AllDown => "all of its endpoints are down or drained",
            PoolError::Unreachable => "nothing listens at its address",
            PoolError::Unresolved => "its name cannot be resolved",
            PoolError::Lost => "the process that manages it has ended",
            PoolError::NoDescriptor => {
                "no descriptor is free for a connection to it; raise `ulimit -Hn` (LimitNOFILE in a unit)"
            }
            PoolError::NoSettings => {
                "its certificate, key or authority cannot be used, as taipan check says in detail"
            }
        }
    }
}

/// The start of a text, at most `most` bytes.
fn start(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(most)]
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

impl Message<'_> for PoolRequest {
    const MAX_BYTES: usize = 256;

    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolRequest::Acquire { number, choice, tried } => {
                let (kind, endpoint) = match choice {
                    Choice::Any => (b'A', 0),
                    Choice::Prefer(endpoint) => (b'P', *endpoint),
                    Choice::Only(endpoint) => (b'O', *endpoint),
                };
                let start = Encoder::new(kind).u64(*number).u64(endpoint);
                tried.iter().fold(start, |encoder, endpoint| encoder.u64(*endpoint))
            }
            PoolRequest::Cancel { number } => Encoder::new(b'F').u64(*number),
            PoolRequest::NothingIdle => Encoder::new(b'B'),
            PoolRequest::Return { lease, requests, idle } => {
                Encoder::new(b'R').u64(*lease).u64(*requests).u64(idle.as_millis() as u64)
            }
            PoolRequest::Upgraded { lease } => Encoder::new(b'U').u64(*lease),
            PoolRequest::Failed { lease, fault, reason } => {
                let kind = match fault {
                    Fault::Timeout => b'T',
                    Fault::Other => b'X',
                };
                Encoder::new(kind).u64(*lease).bytes(start(reason, MAX_REASON))
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolRequest> {
        Some(match kind {
            b'A' | b'P' | b'O' => {
                let (number, endpoint) = (fields.u64()?, fields.u64()?);
                let choice = match (kind, endpoint) {
                    (b'A', 0) => Choice::Any,
                    (b'P', endpoint) => Choice::Prefer(endpoint),
                    (b'O', endpoint) => Choice::Only(endpoint),
                    _ => return None,
                };
                let mut tried = Tried::new();
                while let Some(endpoint) = fields.u64() {
                    tried.try_push(endpoint).ok()?;
                }
                PoolRequest::Acquire { number, choice, tried }
            }
            b'F' => PoolRequest::Cancel { number: fields.u64()? },
            b'B' => PoolRequest::NothingIdle,
            b'R' => {
                let (lease, requests, idle) = (fields.u64()?, fields.u64()?, fields.u64()?);
                PoolRequest::Return { lease, requests, idle: Duration::from_millis(idle) }
            }
            b'U' => PoolRequest::Upgraded { lease: fields.u64()? },
            b'T' | b'X' => {
                let fault = if kind == b'T' { Fault::Timeout } else { Fault::Other };
                PoolRequest::Failed { lease: fields.u64()?, fault, reason: text(fields.rest())? }
            }
            _ => return None,
        })
    }
}

impl Message<'_> for PoolEvent {
    const MAX_BYTES: usize = 640;

    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolEvent::Leased { number, lease, origin, stream } => {
                let Lease { number: lease, endpoint, requests } = *lease;
                let head = Encoder::new(b'L').u64(*number).u64(lease).u64(endpoint).u64(requests);
                let head = stream.iter().fold(head.u64(origin.index as u64), Encoder::fd);
                match origin.resolved {
                    Some(address) => head.bytes(address.to_string().as_bytes()),
                    None => head,
                }
            }
            PoolEvent::Rejected { number, why } => Encoder::new(b'N').u64(*number).u64(why.number()),
            PoolEvent::Recall { endpoint } => Encoder::new(b'C').u64(endpoint.unwrap_or(0)),
            PoolEvent::Retire { endpoint } => Encoder::new(b'D').u64(*endpoint),
            PoolEvent::Endpoints { count } => Encoder::new(b'S').u64(*count),
            PoolEvent::Endpoint(EndpointNotice { id, name, share, state, age, failures, reason }) => {
                let kind = match state {
                    Availability::Up => b'U',
                    Availability::Down => b'X',
                    Availability::Draining => b'G',
                };
                let name = start(name, MAX_NAME);
                let numbers = [*id, share.encode(), age.as_millis() as u64, *failures, name.len() as u64];
                let encoder = numbers.into_iter().fold(Encoder::new(kind), Encoder::u64);
                encoder.bytes(name).bytes(start(reason, MAX_REASON))
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolEvent> {
        Some(match kind {
            b'L' => PoolEvent::Leased {
                number: fields.u64()?,
                lease: Lease { number: fields.u64()?, endpoint: fields.u64()?, requests: fields.u64()? },
                origin: EndpointOrigin {
                    index: fields.u64()?.try_into().ok()?,
                    resolved: match fields.rest() {
                        [] => None,
                        text => Some(std::str::from_utf8(text).ok()?.parse().ok()?),
                    },
                },
                stream: fields.fd(),
            },
            b'N' => PoolEvent::Rejected { number: fields.u64()?, why: PoolError::of(fields.u64()?) },
            b'C' => {
                let endpoint = fields.u64()?;
                PoolEvent::Recall { endpoint: (endpoint != 0).then_some(endpoint) }
            }
            b'D' => PoolEvent::Retire { endpoint: fields.u64()? },
            b'S' => PoolEvent::Endpoints { count: fields.u64()? },
            b'U' | b'X' | b'G' => {
                let (id, share) = (fields.u64()?, Share::decode(fields.u64()?)?);
                let (age, failures) = (Duration::from_millis(fields.u64()?), fields.u64()?);
                let length = fields.u64()?.try_into().ok()?;
                let (name, reason) = (text(fields.bytes(length)?)?, text(fields.rest())?);
                let state = match kind {
                    b'U' => Availability::Up,
                    b'X' => Availability::Down,
                    _ => Availability::Draining,
                };
                PoolEvent::Endpoint(EndpointNotice { id, name, share, state, age, failures, reason })
            }
            _ => return None,
        })
    }
}

impl Message<'_> for PoolCommand {
    const MAX_BYTES: usize = 512;

    fn encode(&self) -> Encoder<'_> {
        match self {
            PoolCommand::AddWorker(fd) => Encoder::new(b'J').fd(fd),
            PoolCommand::Log(command) => command.encode(),
            PoolCommand::Drain { change, endpoint, to } => {
                let kind = match change {
                    DrainChange::Drain => b'D',
                    DrainChange::Undrain => b'U',
                };
                Encoder::new(kind).bytes(endpoint.as_bytes()).fd(to)
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<PoolCommand> {
        Some(match kind {
            b'J' => PoolCommand::AddWorker(fields.fd()?),
            b'D' | b'U' => {
                let change = if kind == b'D' { DrainChange::Drain } else { DrainChange::Undrain };
                PoolCommand::Drain { change, endpoint: text(fields.rest())?, to: fields.fd()? }
            }
            _ => PoolCommand::Log(LogCommand::decode(kind, fields)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::log::command;
    use crate::process::ipc::tests::{check_codec, check_received};

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let fd = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
        let returned =
            |seconds| PoolRequest::Return { lease: 5, requests: 9, idle: Duration::from_secs(seconds) };
        let acquire = |number, choice, tried: &[EndpointId]| PoolRequest::Acquire {
            number,
            choice,
            tried: tried.iter().copied().collect(),
        };
        let failed = |fault| PoolRequest::Failed { lease: 3, fault, reason: "it does not work".to_owned() };
        check_codec([
            acquire(7, Choice::Any, &[]),
            acquire(u64::MAX, Choice::Any, &[3]),
            acquire(8, Choice::Prefer(1), &[1, 2, 3, 4, 5, 6, 7, 8]),
            acquire(9, Choice::Only(u64::MAX), &[]),
            PoolRequest::Cancel { number: 1 },
            PoolRequest::NothingIdle,
            returned(0),
            returned(7),
            PoolRequest::Upgraded { lease: 3 },
            failed(Fault::Timeout),
            failed(Fault::Other),
        ]);
        check_received([
            PoolEvent::Leased {
                number: 4,
                lease: Lease { number: 5, endpoint: 6, requests: 7 },
                origin: EndpointOrigin { index: 0, resolved: None },
                stream: Some(fd()),
            },
            PoolEvent::Leased {
                number: 4,
                lease: Lease { number: 5, endpoint: 6, requests: u64::MAX },
                origin: EndpointOrigin {
                    index: 3,
                    resolved: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().ok(),
                },
                stream: Some(fd()),
            },
            PoolEvent::Rejected { number: 4, why: PoolError::Failing },
            PoolEvent::Recall { endpoint: None },
            PoolEvent::Recall { endpoint: Some(2) },
            PoolEvent::Retire { endpoint: 2 },
            PoolEvent::Endpoints { count: 3 },
        ]);
        check_codec([Availability::Up, Availability::Down, Availability::Draining].map(|state| {
            PoolEvent::Endpoint(EndpointNotice {
                id: 4,
                name: "10.0.0.1:80".to_owned(),
                share: Share { priority: 2, weight: 3 },
                state,
                age: Duration::from_millis(5),
                failures: 7,
                reason: "Connection refused".to_owned(),
            })
        }));
        check_codec([PoolCommand::AddWorker(fd())]);
        check_codec(command::tests::commands().map(PoolCommand::Log));
        let drain = |change| PoolCommand::Drain { change, endpoint: "10.0.0.1:80".to_owned(), to: fd() };
        check_codec([drain(DrainChange::Drain), drain(DrainChange::Undrain)]);
    }
}
