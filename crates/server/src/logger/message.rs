//! The messages from the master to a logger.

use std::os::fd::OwnedFd;

use crate::process::ipc::{Decoder, Encoder, Message};

pub enum LoggerCommand {
    /// Lines for the target with this index come out of a pipe.
    Writer { target: u32, pipe: OwnedFd },
    /// Files are opened again, because another program has renamed them.
    Reopen,
    /// Close this when all commands before it have been carried out.
    Done(OwnedFd),
}

impl Message<'_> for LoggerCommand {
    fn encode(&self) -> Encoder<'_> {
        match self {
            LoggerCommand::Writer { target, pipe } => Encoder::new(b'W').u32(*target).fd(pipe),
            LoggerCommand::Reopen => Encoder::new(b'O'),
            LoggerCommand::Done(done) => Encoder::new(b'D').fd(done),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<LoggerCommand> {
        Some(match kind {
            b'W' => LoggerCommand::Writer { target: fields.u32()?, pipe: fields.fd()? },
            b'O' => LoggerCommand::Reopen,
            b'D' => LoggerCommand::Done(fields.fd()?),
            _ => return None,
        })
    }
}
