//! What a worker and its spawner say to one another: one message per datagram of a channel, with
//! descriptors beside it. Both ends are the same program, so that there is no version.
//!
//! Knows what can be said and how large it may be, and nothing of what is done about it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;

use super::{Descendants, Exit, SpawnRequest};
use crate::ipc::{Channel, Descriptors, MAX_DESCRIPTORS, Message};

/// Bytes of the longest request: a start with an environment of 128 KiB, its arguments and paths.
pub const MAX_REQUEST: usize = 160 * 1024;
/// Bytes of the longest answer.
pub const MAX_ANSWER: usize = 16;

/// What a worker asks of its spawner, but for a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A worker begins, with this number: whatever has a lower one was asked by one before it, and is
    /// to end.
    Begin(u64),
    /// End this group.
    End(u64),
    /// Open a file without a name.
    Spool(u64),
}

/// What came from a worker.
#[derive(Debug)]
pub enum Heard<'a> {
    Request(Request),
    Start {
        number: u64,
        wanted: Wanted<'a>,
        fds: [OwnedFd; MAX_DESCRIPTORS],
    },
    /// A start whose descriptors did not come: this process has too many.
    Bare(u64),
}

/// A `SpawnRequest`, as it stands in a message.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub program: &'a CStr,
    pub folder: &'a CStr,
    pub account: &'a CStr,
    /// Strings, each with its NUL.
    pub arguments: &'a [u8],
    pub environment: &'a [u8],
}

/// What a spawner says.
#[derive(Debug)]
pub enum Answer {
    Ended { number: u64, how: Exit, rest: Descendants },
    Spooled { number: u64, file: io::Result<OwnedFd> },
}

impl Answer {
    pub fn number(&self) -> u64 {
        match self {
            Answer::Ended { number, .. } | Answer::Spooled { number, .. } => *number,
        }
    }
}

/// Has the kernel take a whole request at once, if it may.
pub fn make_room(channel: &Channel) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(channel, 2 * MAX_REQUEST)?)
}

impl Message for Request {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        let (tag, number) = match self {
            Request::Begin(number) => (b'B', number),
            Request::End(number) => (b'E', number),
            Request::Spool(number) => (b'F', number),
        };
        (head(tag, *number).to_vec(), Vec::new())
    }

    fn read(bytes: &[u8], _: Descriptors) -> Option<Request> {
        let (tag, number, _) = parts(bytes)?;
        Some(match tag {
            b'B' => Request::Begin(number),
            b'E' => Request::End(number),
            b'F' => Request::Spool(number),
            _ => return None,
        })
    }
}

/// The message that asks for a start; its descriptors go with it. Errors: it would be too long.
pub fn start(number: u64, launch: &SpawnRequest<'_>) -> io::Result<Vec<u8>> {
    let strings = [launch.program, launch.folder, launch.account];
    let paths: usize = strings.iter().map(|string| string.count_bytes()).sum();
    let mut bytes = Vec::with_capacity(256 + paths + launch.environment.len());
    bytes.extend_from_slice(&head(b'S', number));
    bytes.extend_from_slice(&(launch.arguments.len() as u32).to_ne_bytes());
    strings.iter().for_each(|string| bytes.extend_from_slice(string.to_bytes_with_nul()));
    launch.arguments.iter().for_each(|argument| bytes.extend_from_slice(argument.to_bytes_with_nul()));
    bytes.extend_from_slice(launch.environment);
    match bytes.len() {
        0..=MAX_REQUEST => Ok(bytes),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Message for Answer {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        let mut fds = Vec::new();
        let (tag, value) = match self {
            Answer::Ended { how, rest, .. } => {
                let rest = i32::from(*rest == Descendants::Alive);
                let (tag, value) = match how {
                    Exit::Code(code) => (b'x', i32::from(*code)),
                    Exit::Signal(signal) => (b'k', *signal),
                    Exit::OutOfMemory => (b'm', 0),
                    Exit::NotStarted(error) => (b'n', *error),
                    Exit::Lost => (b'l', 0),
                };
                (tag, value << 1 | rest)
            }
            Answer::Spooled { file: Ok(file), .. } => {
                fds.push(file.as_fd());
                (b'f', 0)
            }
            Answer::Spooled { file: Err(error), .. } => (b'e', error.raw_os_error().unwrap_or(libc::EIO)),
        };
        let bytes = [&head(tag, self.number())[..], &value.to_ne_bytes()].concat();
        (bytes, fds)
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<Answer> {
        let (tag, number, value) = parts(bytes)?;
        let value = i32::from_ne_bytes(value.try_into().ok()?);
        let rest = if value & 1 == 0 { Descendants::None } else { Descendants::Alive };
        let ended = |how| Answer::Ended { number, how, rest };
        Some(match tag {
            b'x' => ended(Exit::Code((value >> 1) as u8)),
            b'k' => ended(Exit::Signal(value >> 1)),
            b'm' => ended(Exit::OutOfMemory),
            b'n' => ended(Exit::NotStarted(value >> 1)),
            b'l' => ended(Exit::Lost),
            b'f' => Answer::Spooled { number, file: Ok(fds.pop()?) },
            b'e' => Answer::Spooled { number, file: Err(io::Error::from_raw_os_error(value)) },
            _ => return None,
        })
    }
}

/// The next request, which stands in `buffer`; `None`: the other end is closed. Errors: `WouldBlock` when
/// there is none; `InvalidData` for what is none.
pub fn receive_request<'a>(channel: &Channel, buffer: &'a mut [u8]) -> io::Result<Option<Heard<'a>>> {
    let Some((length, fds)) = channel.receive_bytes(buffer)? else { return Ok(None) };
    let heard = read_request(&buffer[..length], fds);
    heard.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn read_request(bytes: &[u8], fds: Descriptors) -> Option<Heard<'_>> {
    match parts(bytes)? {
        (b'S', number, rest) => Some(match fds.into_inner() {
            Ok(fds) => Heard::Start { number, wanted: wanted(rest)?, fds },
            Err(_) => Heard::Bare(number),
        }),
        _ => Request::read(bytes, fds).map(Heard::Request),
    }
}

fn wanted(bytes: &[u8]) -> Option<Wanted<'_>> {
    let (count, bytes) = bytes.split_first_chunk()?;
    let (program, bytes) = string(bytes)?;
    let (folder, bytes) = string(bytes)?;
    let (account, strings) = string(bytes)?;
    let mut environment = strings;
    // Each takes a byte at least, and there are no more than those of a message.
    for _ in 0..u32::from_ne_bytes(*count) {
        environment = string(environment)?.1;
    }
    let arguments = &strings[..strings.len() - environment.len()];
    let ends = environment.last().is_none_or(|last| *last == 0);
    ends.then_some(Wanted { program, folder, account, arguments, environment })
}

fn string(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    let string = CStr::from_bytes_until_nul(bytes).ok()?;
    Some((string, &bytes[string.count_bytes() + 1..]))
}

/// The strings of `bytes`, of which each has its NUL.
pub fn strings(bytes: &[u8]) -> impl Iterator<Item = &CStr> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (first, behind) = string(rest)?;
        rest = behind;
        Some(first)
    })
}

fn head(tag: u8, number: u64) -> [u8; 9] {
    let mut head = [tag; 9];
    head[1..].copy_from_slice(&number.to_ne_bytes());
    head
}

fn parts(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (tag, bytes) = bytes.split_first()?;
    let (number, bytes) = bytes.split_first_chunk()?;
    Some((*tag, u64::from_ne_bytes(*number), bytes))
}
