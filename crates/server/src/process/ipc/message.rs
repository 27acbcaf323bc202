//! The one encoding of all messages: a byte for the kind, then the fields, with descriptors beside them. Knows no
//! sockets.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use arrayvec::ArrayVec;
use site::model::Level;

/// Descriptors beside one message: at most the three standard streams of a program.
pub(super) const MAX_DESCRIPTORS: usize = 3;

/// A message. It may borrow from the buffer that it was received in.
pub trait Message<'a>: Sized {
    /// A longer message is neither sent nor received.
    const MAX_BYTES: usize = 64;
    /// Whether it has secrets, of which no copy stays in a buffer.
    const IS_SECRET: bool = false;

    fn encode(&self) -> Encoder<'_>;

    /// `None`: this is not such a message. Bytes and descriptors that are left over are also an error.
    fn decode(kind: u8, fields: &mut Decoder<'a>) -> Option<Self>;
}

/// A message that borrows nothing.
pub trait OwnedMessage: for<'a> Message<'a> {}

impl<M: for<'a> Message<'a>> OwnedMessage for M {}

/// Writes a message: a byte for its kind, then its fields, numbers in network byte order.
#[derive(Debug)]
pub struct Encoder<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) fds: ArrayVec<BorrowedFd<'a>, MAX_DESCRIPTORS>,
}

impl<'a> Encoder<'a> {
    pub fn new(kind: u8) -> Encoder<'a> {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(kind);
        Encoder { bytes, fds: ArrayVec::new() }
    }

    pub fn u32(self, number: u32) -> Encoder<'a> {
        self.bytes(&number.to_be_bytes())
    }

    pub fn u64(self, number: u64) -> Encoder<'a> {
        self.bytes(&number.to_be_bytes())
    }

    pub fn fact(self, fact: bool) -> Encoder<'a> {
        self.u32(fact.into())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Encoder<'a> {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// With its NUL.
    pub fn string(self, string: &CStr) -> Encoder<'a> {
        self.bytes(string.to_bytes_with_nul())
    }

    /// A level of the error log.
    pub fn level(self, level: Level) -> Encoder<'a> {
        self.u32(level as u32)
    }

    pub fn time(self, time: Duration) -> Encoder<'a> {
        self.u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// At most `MAX_DESCRIPTORS` of them.
    pub fn fd(mut self, fd: &'a impl AsFd) -> Encoder<'a> {
        self.fds.push(fd.as_fd());
        self
    }
}

/// Reads the fields of a message. `None`: there is no such field.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    fds: arrayvec::IntoIter<OwnedFd, MAX_DESCRIPTORS>,
}

impl<'a> Decoder<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*array)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn fact(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(bytes)
    }

    pub fn level(&mut self) -> Option<Level> {
        Some(match self.u32()? {
            0 => Level::Error,
            1 => Level::Warn,
            2 => Level::Info,
            3 => Level::Debug,
            _ => return None,
        })
    }

    pub fn time(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_millis)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub fn string(&mut self) -> Option<&'a CStr> {
        let string = CStr::from_bytes_until_nul(self.bytes).ok()?;
        self.bytes = &self.bytes[string.count_bytes() + 1..];
        Some(string)
    }

    pub fn fd(&mut self) -> Option<OwnedFd> {
        self.fds.next()
    }
}

/// `None`: these are not the bytes and descriptors of such a message.
pub(super) fn decode<'a, M: Message<'a>>(
    bytes: &'a [u8],
    fds: ArrayVec<OwnedFd, MAX_DESCRIPTORS>,
) -> Option<M> {
    let (kind, bytes) = bytes.split_first()?;
    let mut fields = Decoder { bytes, fds: fds.into_iter() };
    let message = M::decode(*kind, &mut fields)?;
    (fields.bytes.is_empty() && fields.fds.len() == 0).then_some(message)
}
