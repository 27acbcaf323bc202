//! Messages between a worker and its spawner. Both are the same program, so there is no version.
//!
//! Knows what can be sent and how long it may be, and nothing of what is done about it.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use super::{Descendants, Exit, SpawnRequest, Streams};
use crate::process::ipc::{Channel, Decoder, Encoder, Message};

/// Bytes of the longest command: a start with an environment of 128 KiB, its arguments and paths.
pub const MAX_COMMAND: usize = 160 * 1024;
/// Bytes of the longest event.
pub const MAX_EVENT: usize = 64;

/// From a worker to its spawner.
#[derive(Debug)]
pub enum Command<'a> {
    /// A worker has started, and its numbers start here: terminate groups with lower numbers, which an earlier worker
    /// has started.
    Begin(u64),
    Start {
        number: u64,
        request: SpawnRequest<'a>,
        /// `None`: the spawner has no free descriptors for them.
        streams: Option<Streams>,
    },
    /// Terminate this group.
    Terminate(u64),
    /// Open a file without a name.
    OpenSpool(u64),
}

/// From a spawner to its worker.
#[derive(Debug)]
pub enum Event {
    /// A program runs. Sent only where the log has that.
    Started {
        number: u64,
        pid: u32,
    },
    Exited {
        number: u64,
        exit: Exit,
        descendants: Descendants,
    },
    SpoolOpened {
        number: u64,
        file: io::Result<OwnedFd>,
    },
}

impl Event {
    /// The number of the command to which this is the answer.
    pub fn number(&self) -> u64 {
        match self {
            Event::Started { number, .. }
            | Event::Exited { number, .. }
            | Event::SpoolOpened { number, .. } => *number,
        }
    }
}

/// Makes space for a whole command in the channel, as far as the kernel allows.
pub fn set_send_buffer(channel: &Channel) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(channel, 2 * MAX_COMMAND)?)
}

impl<'a> Message<'a> for Command<'a> {
    const MAX_BYTES: usize = MAX_COMMAND;

    fn encode(&self) -> Encoder<'_> {
        match self {
            Command::Begin(number) => Encoder::new(b'B').u64(*number),
            Command::Start { number, request, streams } => {
                let has_stdin = streams.as_ref().is_some_and(|streams| streams.stdin.is_some());
                let start = Encoder::new(if has_stdin { b'I' } else { b'S' }).u64(*number);
                let start = start
                    .string(request.program)
                    .string(request.folder)
                    .string(request.account)
                    .u32(request.arguments.len() as u32)
                    .bytes(request.arguments)
                    .bytes(request.environment);
                match streams {
                    Some(Streams { stdin, stdout, stderr }) => {
                        stdin.iter().fold(start, Encoder::fd).fd(stdout).fd(stderr)
                    }
                    None => start,
                }
            }
            Command::Terminate(number) => Encoder::new(b'T').u64(*number),
            Command::OpenSpool(number) => Encoder::new(b'F').u64(*number),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'a>) -> Option<Command<'a>> {
        let number = fields.u64()?;
        Some(match kind {
            b'B' => Command::Begin(number),
            b'I' | b'S' => {
                let request = spawn_request(fields)?;
                let stdin = if kind == b'I' { fields.fd() } else { None };
                let streams = match (fields.fd(), fields.fd()) {
                    (Some(stdout), Some(stderr)) => Some(Streams { stdin, stdout, stderr }),
                    _ => None,
                };
                Command::Start { number, request, streams }
            }
            b'T' => Command::Terminate(number),
            b'F' => Command::OpenSpool(number),
            _ => return None,
        })
    }
}

fn spawn_request<'a>(fields: &mut Decoder<'a>) -> Option<SpawnRequest<'a>> {
    let (program, folder, account) = (fields.string()?, fields.string()?, fields.string()?);
    let length = fields.u32()?;
    let (arguments, environment) = (fields.bytes(length as usize)?, fields.rest());
    let is_block = |bytes: &[u8]| bytes.last().is_none_or(|last| *last == 0);
    let request = SpawnRequest { program, arguments, environment, folder, account };
    (is_block(arguments) && is_block(environment)).then_some(request)
}

impl Message<'_> for Event {
    const MAX_BYTES: usize = MAX_EVENT;

    fn encode(&self) -> Encoder<'_> {
        let (kind, value) = match self {
            Event::Started { pid, .. } => (b's', *pid),
            Event::Exited { exit, .. } => match exit {
                Exit::Code(code) => (b'x', u32::from(*code)),
                Exit::Signal(signal) => (b'k', *signal as u32),
                Exit::OutOfMemory => (b'm', 0),
                Exit::NotStarted(errno) => (b'n', *errno as u32),
                Exit::Lost => (b'l', 0),
            },
            Event::SpoolOpened { file: Ok(_), .. } => (b'f', 0),
            Event::SpoolOpened { file: Err(error), .. } => {
                (b'e', error.raw_os_error().unwrap_or(libc::EIO) as u32)
            }
        };
        let event = Encoder::new(kind).u64(self.number()).u32(value);
        match self {
            Event::Exited { descendants, .. } => event.u32(match descendants {
                Descendants::None => 0,
                Descendants::Alive => 1,
                Descendants::Kept => 2,
            }),
            Event::SpoolOpened { file: Ok(file), .. } => event.fd(file),
            Event::Started { .. } | Event::SpoolOpened { file: Err(_), .. } => event,
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Event> {
        let (number, value) = (fields.u64()?, fields.u32()?);
        let exit = match (kind, value) {
            (b's', pid) => return Some(Event::Started { number, pid }),
            (b'x', _) => Exit::Code(value.try_into().ok()?),
            (b'k', _) => Exit::Signal(value as i32),
            (b'm', 0) => Exit::OutOfMemory,
            (b'n', _) => Exit::NotStarted(value as i32),
            (b'l', 0) => Exit::Lost,
            // Without a free number for it, it is as one that could not be opened.
            (b'f', 0) => {
                let file = fields.fd().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE));
                return Some(Event::SpoolOpened { number, file });
            }
            (b'e', _) => {
                let error = io::Error::from_raw_os_error(value as i32);
                return Some(Event::SpoolOpened { number, file: Err(error) });
            }
            _ => return None,
        };
        let descendants = match fields.u32()? {
            0 => Descendants::None,
            1 => Descendants::Alive,
            2 => Descendants::Kept,
            _ => return None,
        };
        Some(Event::Exited { number, exit, descendants })
    }
}

/// Strings, each with its NUL.
pub fn block<'a>(strings: impl IntoIterator<Item = &'a CStr>) -> Vec<u8> {
    strings.into_iter().flat_map(CStr::to_bytes_with_nul).copied().collect()
}

pub fn strings(mut block: &[u8]) -> impl Iterator<Item = &CStr> {
    std::iter::from_fn(move || {
        let first = CStr::from_bytes_until_nul(block).ok()?;
        block = &block[first.count_bytes() + 1..];
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::{check_codec, check_received};

    fn fd() -> OwnedFd {
        File::open("/dev/null").expect("it is there").into()
    }

    #[test]
    fn events_are_received_as_they_were_sent() {
        let exits = [Exit::Code(0), Exit::Code(255), Exit::Signal(9), Exit::OutOfMemory, Exit::Lost];
        for exit in exits.into_iter().chain([Exit::NotStarted(libc::ENOENT)]) {
            let exited = |descendants| Event::Exited { number: 7, exit, descendants };
            check_codec([Descendants::None, Descendants::Alive, Descendants::Kept].map(exited));
        }
        check_codec([Event::Started { number: 7, pid: 4711 }]);
        let failed = io::Error::from_raw_os_error(libc::ENOSPC);
        check_received([Ok(fd()), Err(failed)].map(|file| Event::SpoolOpened { number: u64::MAX, file }));
    }

    #[test]
    fn commands_are_received_as_they_were_sent() {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let mut buffer = vec![0; MAX_COMMAND];
        let request = SpawnRequest {
            program: c"/srv/a",
            arguments: b"a\0\0two words\0",
            environment: b"A=1\0B=\0",
            folder: c"/srv",
            account: c"",
        };
        let bare = SpawnRequest { arguments: b"", environment: b"", account: c"user:group", ..request };
        let streams = |stdin| Some(Streams { stdin, stdout: fd(), stderr: fd() });
        let mut check = |command: Command<'_>| {
            one.send(&command).expect("it is sent");
            let received = other.receive_in::<Command<'_>>(&mut buffer).expect("it is received");
            let crate::process::ipc::Received::Message(received) = received else { panic!("it is closed") };
            let (sent, received) = (command.encode(), received.encode());
            assert_eq!(format!("{sent:?}").split("fds").next(), format!("{received:?}").split("fds").next());
        };
        check(Command::Begin(1));
        check(Command::Start { number: 2, request, streams: streams(None) });
        check(Command::Start { number: 3, request: bare, streams: streams(Some(fd())) });
        check(Command::Start { number: 4, request, streams: None });
        check(Command::Terminate(5));
        check(Command::OpenSpool(6));
        for request in [
            SpawnRequest { arguments: b"no NUL", ..request },
            SpawnRequest { environment: b"A=1\0no NUL", ..request },
        ] {
            one.send(&Command::Start { number: 7, request, streams: None }).expect("it is sent");
            assert!(other.receive_in::<Command<'_>>(&mut buffer).is_err());
        }
    }

    #[test]
    fn a_block_has_the_strings_that_it_was_made_of() {
        let words = [c"a", c"", c"two words"];
        assert_eq!(strings(&block(words)).collect::<Vec<_>>(), words);
    }
}
