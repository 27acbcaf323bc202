//! Messages between the master and the process that gets certificates. The process names a certificate by its number,
//! so that the master alone knows names of files.

use zeroize::Zeroizing;

use super::schedule::Time;
use super::storage::MAX_FILE;
use crate::log::LogCommand;
use crate::process::ipc::{Decoder, Encoder, Message};

/// From the process to the master, which answers each with a reply of the same number.
pub struct AcmeRequest {
    pub number: u32,
    /// An index in the certificates that the process was started with.
    pub certificate: u32,
    pub what: Wish,
}

pub enum Wish {
    /// To see the stored chain.
    Read,
    /// To be the only one that orders, until this time.
    Lock(Time),
    Unlock,
    /// To store and serve this chain, with its key behind it.
    Store(Zeroizing<Vec<u8>>),
    /// To serve what another server has stored.
    Serve,
    /// To see the stored report, which another server may have changed.
    ReadReport,
    /// To store what `taipan certificates` shows. Only with the lock: another server's report would be lost.
    Report(Vec<u8>),
    /// To answer TLS-ALPN-01 challenges for the name with this certificate, in PEM with its key.
    Challenge {
        name: Vec<u8>,
        pem: Vec<u8>,
    },
    Withdraw {
        name: Vec<u8>,
    },
}

impl Wish {
    /// Whether another certificate is to be served when it has been fulfilled.
    pub fn changes_what_is_served(&self) -> bool {
        matches!(self, Wish::Store(_) | Wish::Serve)
    }
}

/// From the master to the process.
pub enum AcmeCommand {
    Reply { number: u32, reply: Reply },
    Log(LogCommand),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// Another server has the lock until this time.
    Busy(Time),
    /// Empty: there is no such file.
    Content(Vec<u8>),
    /// Why it could not be done.
    Failed(String),
}

impl From<Result<(), String>> for Reply {
    fn from(done: Result<(), String>) -> Reply {
        done.map_or_else(Reply::Failed, |()| Reply::Done)
    }
}

impl From<Result<Vec<u8>, String>> for Reply {
    fn from(read: Result<Vec<u8>, String>) -> Reply {
        read.map_or_else(Reply::Failed, Reply::Content)
    }
}

impl Message<'_> for AcmeRequest {
    const MAX_BYTES: usize = MAX_FILE as usize + 64;
    const IS_SECRET: bool = true;

    fn encode(&self) -> Encoder<'_> {
        let begin = |kind| Encoder::new(kind).u32(self.number).u32(self.certificate);
        match &self.what {
            Wish::Read => begin(b'R'),
            Wish::Lock(until) => begin(b'L').u64(*until),
            Wish::Unlock => begin(b'U'),
            Wish::Store(pem) => begin(b'S').bytes(pem),
            Wish::Serve => begin(b'N'),
            Wish::ReadReport => begin(b'P'),
            Wish::Report(text) => begin(b'T').bytes(text),
            Wish::Challenge { name, pem } => begin(b'C').u32(name.len() as u32).bytes(name).bytes(pem),
            Wish::Withdraw { name } => begin(b'W').bytes(name),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<AcmeRequest> {
        let (number, certificate) = (fields.u32()?, fields.u32()?);
        let what = match kind {
            b'R' => Wish::Read,
            b'L' => Wish::Lock(fields.u64()?),
            b'U' => Wish::Unlock,
            b'S' => Wish::Store(Zeroizing::new(fields.rest().to_vec())),
            b'N' => Wish::Serve,
            b'P' => Wish::ReadReport,
            b'T' => Wish::Report(fields.rest().to_vec()),
            b'C' => {
                let length = fields.u32()?;
                let name = fields.bytes(length.try_into().ok()?)?.to_vec();
                Wish::Challenge { name, pem: fields.rest().to_vec() }
            }
            b'W' => Wish::Withdraw { name: fields.rest().to_vec() },
            _ => return None,
        };
        Some(AcmeRequest { number, certificate, what })
    }
}

impl Message<'_> for AcmeCommand {
    const MAX_BYTES: usize = MAX_FILE as usize + 64;

    fn encode(&self) -> Encoder<'_> {
        match self {
            AcmeCommand::Log(command) => command.encode(),
            AcmeCommand::Reply { number, reply: Reply::Done } => Encoder::new(b'D').u32(*number),
            AcmeCommand::Reply { number, reply: Reply::Busy(until) } => {
                Encoder::new(b'B').u32(*number).u64(*until)
            }
            AcmeCommand::Reply { number, reply: Reply::Content(bytes) } => {
                Encoder::new(b'C').u32(*number).bytes(bytes)
            }
            AcmeCommand::Reply { number, reply: Reply::Failed(why) } => {
                Encoder::new(b'F').u32(*number).bytes(why.as_bytes())
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<AcmeCommand> {
        let mut reply = |reply: fn(&mut Decoder<'_>) -> Option<Reply>| {
            Some(AcmeCommand::Reply { number: fields.u32()?, reply: reply(fields)? })
        };
        match kind {
            b'D' => reply(|_| Some(Reply::Done)),
            b'B' => reply(|fields| fields.u64().map(Reply::Busy)),
            b'C' => reply(|fields| Some(Reply::Content(fields.rest().to_vec()))),
            b'F' => reply(|fields| Some(Reply::Failed(str::from_utf8(fields.rest()).ok()?.to_owned()))),
            _ => LogCommand::decode(kind, fields).map(AcmeCommand::Log),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::command;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let name = || b"example.org".to_vec();
        let wishes = [
            Wish::Read,
            Wish::Lock(0x0102_0304_0506),
            Wish::Unlock,
            Wish::Store(Zeroizing::new(b"pem".to_vec())),
            Wish::Serve,
            Wish::ReadReport,
            Wish::Report(b"due 1".to_vec()),
            Wish::Challenge { name: name(), pem: b"pem".to_vec() },
            Wish::Withdraw { name: name() },
        ];
        check_codec(wishes.map(|what| AcmeRequest { number: 7, certificate: 9, what }));
        let replies =
            [Reply::Done, Reply::Busy(77), Reply::Content(b"pem".to_vec()), Reply::Failed("why".to_owned())];
        check_codec(replies.map(|reply| AcmeCommand::Reply { number: 7, reply }));
        check_codec(command::tests::commands().map(AcmeCommand::Log));
    }
}
