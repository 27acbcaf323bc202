//! The messages between the programs of an upgrade. The two may be different versions, so their format must not change.
//! A version may have kinds of messages that another one does not know, and goes on without.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use site::disconnect;

use crate::master::sockets::SocketOrigin;
use crate::process::ipc::{Decoder, Encoder, Message};

/// From the old program to the new one.
pub enum Handoff {
    /// A listening socket, with its configured address.
    Socket {
        wanted: String,
        origin: SocketOrigin,
        fd: Arc<OwnedFd>,
    },
    /// The control socket.
    Control(OwnedFd),
    /// A pipe with the secrets of session tickets.
    Tickets(OwnedFd),
    /// Memory that generations of the old program and of earlier ones count in.
    Counters(OwnedFd),
    /// The memory of the history.
    History(OwnedFd),
    /// What an administrator has switched: the line of a request to the control socket.
    Act(String),
    /// The certificate, in PEM with its key behind it, of a TLS-ALPN-01 challenge for the name that is open.
    Challenge {
        name: Vec<u8>,
        pem: Vec<u8>,
    },
    End,
    Unknown(Unknown),
}

/// A message of another version, without its descriptors.
#[derive(Debug)]
pub struct Unknown {
    pub kind: u8,
    bytes: Vec<u8>,
}

impl Unknown {
    fn encode(&self) -> Encoder<'_> {
        Encoder::new(self.kind).bytes(&self.bytes)
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Unknown {
        while fields.fd().is_some() {}
        Unknown { kind, bytes: fields.rest().to_vec() }
    }
}

/// From the new program to the old one.
#[derive(Debug)]
pub enum SuccessorCommand {
    /// It serves, and receives connections through this channel.
    TakeOver(OwnedFd),
    /// End the selected connections, and then send `Disconnected`. The text of a `Selection`.
    Disconnect {
        number: u32,
        selection: String,
    },
    Unknown(Unknown),
}

/// From the old program, when it only finishes requests, to the new one: it has carried out the `Disconnect` with
/// this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected {
    pub number: u32,
    pub connections: u64,
    pub streams: u64,
    /// Workers that do not respond.
    pub silent: u32,
}

impl Disconnected {
    /// The response to a selection that this program cannot read, as one of another version: nothing has ended, and it
    /// may have more.
    pub const fn unreadable(number: u32) -> Disconnected {
        Disconnected { number, connections: 0, streams: 0, silent: 1 }
    }
}

impl Message<'_> for Handoff {
    const MAX_BYTES: usize = 4096;

    fn encode(&self) -> Encoder<'_> {
        match self {
            Handoff::Socket { wanted, origin, fd } => {
                let kind = match origin {
                    SocketOrigin::Configured => b'S',
                    SocketOrigin::Passed => b'P',
                };
                Encoder::new(kind).bytes(wanted.as_bytes()).fd(fd)
            }
            Handoff::Control(fd) => Encoder::new(b'C').fd(fd),
            Handoff::Tickets(fd) => Encoder::new(b'K').fd(fd),
            Handoff::Counters(fd) => Encoder::new(b'N').fd(fd),
            Handoff::History(fd) => Encoder::new(b'Y').fd(fd),
            Handoff::Act(line) => Encoder::new(b'A').bytes(line.as_bytes()),
            Handoff::Challenge { name, pem } => {
                Encoder::new(b'L').u32(name.len() as u32).bytes(name).bytes(pem)
            }
            Handoff::End => Encoder::new(b'E'),
            Handoff::Unknown(unknown) => unknown.encode(),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Handoff> {
        let origin = match kind {
            b'S' => SocketOrigin::Configured,
            b'P' => SocketOrigin::Passed,
            b'C' => return Some(Handoff::Control(fields.fd()?)),
            b'K' => return Some(Handoff::Tickets(fields.fd()?)),
            b'N' => return Some(Handoff::Counters(fields.fd()?)),
            b'Y' => return Some(Handoff::History(fields.fd()?)),
            b'A' => return Some(Handoff::Act(String::from_utf8(fields.rest().to_vec()).ok()?)),
            b'L' => {
                let length = fields.u32()?;
                let name = fields.bytes(length.try_into().ok()?)?.to_vec();
                return Some(Handoff::Challenge { name, pem: fields.rest().to_vec() });
            }
            b'E' => return Some(Handoff::End),
            kind => return Some(Handoff::Unknown(Unknown::decode(kind, fields))),
        };
        let wanted = String::from_utf8(fields.rest().to_vec()).ok()?;
        Some(Handoff::Socket { wanted, origin, fd: Arc::new(fields.fd()?) })
    }
}

impl Message<'_> for SuccessorCommand {
    const MAX_BYTES: usize = 64 + disconnect::LONGEST;

    fn encode(&self) -> Encoder<'_> {
        match self {
            SuccessorCommand::TakeOver(handoff) => Encoder::new(b'T').fd(handoff),
            SuccessorCommand::Disconnect { number, selection } => {
                Encoder::new(b'D').u32(*number).bytes(selection.as_bytes())
            }
            SuccessorCommand::Unknown(unknown) => unknown.encode(),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<SuccessorCommand> {
        Some(match kind {
            b'T' => SuccessorCommand::TakeOver(fields.fd()?),
            b'D' => SuccessorCommand::Disconnect {
                number: fields.u32()?,
                selection: String::from_utf8(fields.rest().to_vec()).ok()?,
            },
            kind => SuccessorCommand::Unknown(Unknown::decode(kind, fields)),
        })
    }
}

impl Message<'_> for Disconnected {
    fn encode(&self) -> Encoder<'_> {
        let Disconnected { number, connections, streams, silent } = *self;
        Encoder::new(b'D').u32(number).u64(connections).u64(streams).u32(silent)
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Disconnected> {
        (kind == b'D').then_some(())?;
        let (number, connections) = (fields.u32()?, fields.u64()?);
        Some(Disconnected { number, connections, streams: fields.u64()?, silent: fields.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        check_codec([Handoff::Challenge { name: b"a.example".to_vec(), pem: b"pem".to_vec() }]);
        let selections = ["connection 1a2b", "client 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"];
        check_codec(
            selections.map(|text| SuccessorCommand::Disconnect { number: 7, selection: text.to_owned() }),
        );
        check_codec([SuccessorCommand::TakeOver(File::open("/dev/null").expect("it is there").into())]);
        check_codec([Disconnected { number: 7, connections: 1, streams: 2, silent: 3 }]);
    }
}
