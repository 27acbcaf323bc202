//! One end of a socket pair, over which messages go as datagrams. Knows no event loop.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::message::{Encoder, MAX_DESCRIPTORS, Message, OwnedMessage, decode};
use crate::sys;

/// How long a channel is left alone when its socket does not report that it takes messages again.
pub const RETRY: Duration = Duration::from_millis(10);
/// What an administrator can do about `has_too_many_in_flight`.
pub const TOO_MANY_IN_FLIGHT: &str = "more descriptors of this user are on their way between processes than \
                                      `ulimit -Hn` (LimitNOFILE in a unit) allows";

/// One end of a pair.
pub struct Channel(OwnedFd);

pub enum Received<M> {
    Message(M),
    /// The other end is closed.
    End,
}

impl Channel {
    /// Neither end blocks, and programs inherit neither.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel(one), Channel(other)))
    }

    /// A second descriptor of the same end.
    pub fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel(self.0.try_clone()?))
    }

    /// Errors: `WouldBlock` when the channel is full; those of `has_too_many_in_flight`; `BrokenPipe` when the other
    /// end is closed; `InvalidInput` when the message is too long.
    pub fn send<'a, M: Message<'a>>(&self, message: &M) -> io::Result<()> {
        let Encoder { mut bytes, fds } = message.encode();
        if bytes.len() > M::MAX_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL.into());
        }
        let sent = loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                // It was closed with unread messages.
                Err(Errno::CONNRESET) => break Err(Errno::PIPE),
                sent => break sent,
            }
        };
        if M::IS_SECRET {
            wipe(&mut bytes);
        }
        Ok(sent.map(drop)?)
    }

    /// Errors: `WouldBlock` when there is no message; `InvalidData` when it cannot be decoded, as `lacks_descriptors` says.
    pub fn receive<M: OwnedMessage>(&self) -> io::Result<Received<M>> {
        let mut buffer = vec![0; <M as Message<'_>>::MAX_BYTES];
        let received = self.receive_in(&mut buffer);
        if <M as Message<'_>>::IS_SECRET {
            wipe(&mut buffer);
        }
        received
    }

    /// As `receive`, into a buffer that holds the longest message. Some of the descriptors are missing when this
    /// process has no free numbers for them.
    pub fn receive_in<'a, M: Message<'a>>(&self, buffer: &'a mut [u8]) -> io::Result<Received<M>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut beside, flags) {
                Err(Errno::INTR) => {}
                // The other end was closed before it had received all messages.
                Err(Errno::CONNRESET) => return Ok(Received::End),
                got => break got?,
            }
        };
        let mut fds = ArrayVec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more.take(MAX_DESCRIPTORS - fds.len()));
            }
        }
        if got.bytes == 0 {
            return Ok(Received::End);
        }
        let is_whole = !got.flags.contains(ReturnFlags::TRUNC);
        let message = decode(&buffer[..got.bytes], fds).filter(|_| is_whole);
        message.map(Received::Message).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the other end is closed.
    pub fn is_closed(&self) -> bool {
        let mut ends = [PollFd::new(&self.0, PollFlags::empty())];
        let polled = poll(&mut ends, Some(&Timespec::default()));
        polled.is_ok() && ends[0].revents().contains(PollFlags::HUP)
    }

    /// As `send`, but waits while the message can be sent later. Errors: also `TimedOut`.
    pub fn send_until<'a>(&self, message: &impl Message<'a>, until: Instant) -> io::Result<()> {
        loop {
            match self.send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, until)?
                }
                Err(error) if has_too_many_in_flight(&error) && Instant::now() < until => {
                    std::thread::sleep(RETRY);
                }
                sent => return sent,
            }
        }
    }

    /// As `receive`, but waits for a message. Errors: also `TimedOut`.
    pub fn receive_until<M: OwnedMessage>(&self, until: Instant) -> io::Result<Received<M>> {
        loop {
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN, until)?,
                received => return received,
            }
        }
    }

    fn wait(&self, what: PollFlags, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.0, what)], Some(&left)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl sys::OwnsFd for Channel {}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

/// Whether the kernel sends no descriptor at this moment, because more of this user are on their way between processes
/// than RLIMIT_NOFILE allows (unix(7), ETOOMANYREFS). No socket reports when that changes.
pub fn has_too_many_in_flight(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::TOOMANYREFS)
}

/// Whether a message is lost because this process had no free numbers for its descriptors. Others follow it: both ends run
/// the same program, so that nothing else makes a message unreadable.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// Whether a message can be sent later.
pub(super) fn is_for_now(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || has_too_many_in_flight(error)
}

/// Overwrites what the compiler could leave, since nothing reads it.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
}
