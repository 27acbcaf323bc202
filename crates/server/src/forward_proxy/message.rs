//! The messages between a worker and the process of the forward proxy. Both run the same program, so that messages have
//! no version.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use site::forward_proxy::Host;

use crate::process::ipc::{Decoder, Encoder, Message};

/// Bytes of a text in a message.
const MAX_TEXT: usize = 300;

/// From a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectRequest {
    Connect {
        number: u64,
        port: u16,
        host: Host,
    },
    /// Takes back `Connect`.
    Cancel {
        number: u64,
    },
}

/// To a worker: what has become of `Connect`.
#[derive(Debug)]
pub struct ConnectEvent {
    pub number: u64,
    pub result: Result<Connected, ConnectFailure>,
}

/// A connection to a destination, at the address of it that has responded.
#[derive(Debug)]
pub struct Connected {
    pub stream: OwnedFd,
    pub address: SocketAddr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectFailure {
    pub failure: Failure,
    /// The end of a sentence.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No address of the destination is allowed.
    Rejected,
    /// The name cannot be resolved, or nothing responds.
    Failed,
    TimedOut,
    /// Too many connections are being made.
    Busy,
}

impl ConnectFailure {
    pub fn new(failure: Failure, why: impl Into<String>) -> ConnectFailure {
        ConnectFailure { failure, why: why.into() }
    }
}

impl Failure {
    const ALL: [(u8, Failure); 4] = [
        (b'R', Failure::Rejected),
        (b'F', Failure::Failed),
        (b'T', Failure::TimedOut),
        (b'B', Failure::Busy),
    ];
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

impl Message<'_> for ConnectRequest {
    const MAX_BYTES: usize = 320;

    fn encode(&self) -> Encoder<'_> {
        match self {
            ConnectRequest::Connect { number, port, host } => {
                let kind = if matches!(host, Host::Name(_)) { b'N' } else { b'A' };
                Encoder::new(kind).u64(*number).u32(u32::from(*port)).bytes(host.to_string().as_bytes())
            }
            ConnectRequest::Cancel { number } => Encoder::new(b'C').u64(*number),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<ConnectRequest> {
        let number = fields.u64()?;
        if kind == b'C' {
            return Some(ConnectRequest::Cancel { number });
        }
        let (port, host) = (fields.u32()?.try_into().ok()?, text(fields.rest())?);
        let host = match kind {
            b'N' => Host::Name(host.to_owned()),
            b'A' => Host::Address(host.parse().ok()?),
            _ => return None,
        };
        Some(ConnectRequest::Connect { number, port, host })
    }
}

impl Message<'_> for ConnectEvent {
    const MAX_BYTES: usize = 320;

    fn encode(&self) -> Encoder<'_> {
        match &self.result {
            Ok(Connected { stream, address }) => {
                Encoder::new(b'C').u64(self.number).bytes(address.to_string().as_bytes()).fd(stream)
            }
            Err(ConnectFailure { failure, why }) => {
                let kind =
                    Failure::ALL.iter().find(|(_, own)| own == failure).map_or(b'F', |(kind, _)| *kind);
                let why = &why.as_bytes()[..why.floor_char_boundary(MAX_TEXT)];
                Encoder::new(kind).u64(self.number).bytes(why)
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<ConnectEvent> {
        let (number, rest) = (fields.u64()?, text(fields.rest())?);
        if kind == b'C' {
            let (address, stream) = (rest.parse().ok()?, fields.fd()?);
            return Some(ConnectEvent { number, result: Ok(Connected { stream, address }) });
        }
        let (_, failure) = *Failure::ALL.iter().find(|(own, _)| *own == kind)?;
        Some(ConnectEvent { number, result: Err(ConnectFailure::new(failure, rest)) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let hosts = [
            Host::Name(format!("{}.example", "a".repeat(245))),
            Host::Address([127, 0, 0, 1].into()),
            Host::Address([0xffff; 8].into()),
        ];
        check_codec(hosts.map(|host| ConnectRequest::Connect { number: u64::MAX, port: u16::MAX, host }));
        check_codec([ConnectRequest::Cancel { number: 7 }]);
        let stream = File::open("/dev/null").expect("it is there").into();
        let address = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().expect("it is an address");
        check_codec([ConnectEvent { number: 4, result: Ok(Connected { stream, address }) }]);
        check_codec(Failure::ALL.map(|(_, failure)| ConnectEvent {
            number: 5,
            result: Err(ConnectFailure::new(failure, "127.0.0.1:1: Connection refused")),
        }));
    }
}
