//! What the master says about the error log to its processes without a log thread, such as a pool. It is part of their
//! messages, with its own kinds: `E`, `O` and `S`.

use std::time::Duration;

use site::model::Level;

use super::SharedLog;
use crate::process::ipc::{Decoder, Encoder, Message};

pub enum LogCommand {
    /// Write to this log from now on, with the level that is configured for it.
    MoveTo { log: SharedLog, level: Level },
    /// Have this level for a time.
    ChangeLevel { level: Level, time: Duration },
}

impl LogCommand {
    pub fn carry_out(self) {
        match self {
            LogCommand::MoveTo { log, level } => super::direct::move_to(log, level),
            LogCommand::ChangeLevel { level, time } => super::change_level(level, time),
        }
    }
}

impl Message<'_> for LogCommand {
    fn encode(&self) -> Encoder<'_> {
        match self {
            LogCommand::MoveTo { log: SharedLog::File(file), level } => {
                Encoder::new(b'O').level(*level).fd(file)
            }
            LogCommand::MoveTo { log: SharedLog::Daemon(socket), level } => {
                Encoder::new(b'S').level(*level).fd(socket)
            }
            LogCommand::ChangeLevel { level, time } => Encoder::new(b'E').level(*level).time(*time),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<LogCommand> {
        Some(match kind {
            b'O' => LogCommand::MoveTo { level: fields.level()?, log: SharedLog::File(fields.fd()?) },
            b'S' => LogCommand::MoveTo { level: fields.level()?, log: SharedLog::Daemon(fields.fd()?) },
            b'E' => LogCommand::ChangeLevel { level: fields.level()?, time: fields.time()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::check_codec;

    /// One of each kind.
    pub fn commands() -> [LogCommand; 3] {
        let fd = || File::open("/dev/null").expect("it is there").into();
        let move_to = |log| LogCommand::MoveTo { log, level: Level::Warn };
        [
            move_to(SharedLog::File(fd())),
            move_to(SharedLog::Daemon(fd())),
            LogCommand::ChangeLevel { level: Level::Info, time: Duration::from_secs(600) },
        ]
    }

    #[test]
    fn messages_are_received_as_they_were_sent() {
        check_codec(commands());
    }
}
