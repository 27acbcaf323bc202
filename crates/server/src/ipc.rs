//! What the master and the serving processes say to one another: one message per datagram of a socket
//! pair, with descriptors beside it where they are needed.
//!
//! Knows what can be said, and nothing of what is done about it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Descriptors beside one message: at most those of a program that is to be started, 0, 1 and 2.
pub const MAX_DESCRIPTORS: usize = 3;
/// Bytes of one message: the reasons why a configuration cannot be served are the longest.
const MAX_MESSAGE: usize = 32 * 1024;

/// What came beside a message.
pub type Descriptors = ArrayVec<OwnedFd, MAX_DESCRIPTORS>;

/// One end of a pair.
pub struct Channel(OwnedFd);

/// A message, as it is sent.
pub trait Message: Sized {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>);
    /// `None`: it is none of ours.
    fn read(bytes: &[u8], fds: Descriptors) -> Option<Self>;
}

/// What came.
pub enum Received<M> {
    Message(M),
    /// The other end is closed.
    End,
}

impl Channel {
    /// Neither end blocks, and neither is inherited by programs.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel(one), Channel(other)))
    }

    /// The same end once more.
    pub fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel(self.0.try_clone()?))
    }

    /// Errors: `WouldBlock` when the other end has not read what was sent before.
    pub fn send(&self, message: &impl Message) -> io::Result<()> {
        let (bytes, fds) = message.write();
        self.send_bytes(&bytes[..bytes.len().min(MAX_MESSAGE)], &fds)
    }

    /// As `send`, for one that is written already. Errors: also `BrokenPipe` when the other end is closed.
    pub fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL.into());
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Errors: `WouldBlock` when there is nothing; `InvalidData` for what is no message.
    pub fn receive<M: Message>(&self) -> io::Result<Received<M>> {
        self.receive_in(&mut vec![0; MAX_MESSAGE])
    }

    /// As `receive`, of messages that are no longer than `buffer`.
    pub fn receive_in<M: Message>(&self, buffer: &mut [u8]) -> io::Result<Received<M>> {
        let Some((length, fds)) = self.receive_bytes(buffer)? else { return Ok(Received::End) };
        let message = M::read(&buffer[..length], fds);
        message.map(Received::Message).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// How many bytes came, and what beside them: fewer than were sent when this process has too many
    /// descriptors. `None`: the other end is closed. Errors: `WouldBlock` when there is nothing;
    /// `InvalidData` for more than `buffer` holds.
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Descriptors)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut beside, flags) {
                Err(Errno::INTR) => {}
                // Whoever is killed with unread messages resets.
                Err(Errno::CONNRESET) => return Ok(None),
                got => break got?,
            }
        };
        let mut fds = Descriptors::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more.take(MAX_DESCRIPTORS - fds.len()));
            }
        }
        match (got.bytes, got.flags.contains(ReturnFlags::TRUNC)) {
            (0, _) => Ok(None),
            (_, true) => Err(io::ErrorKind::InvalidData.into()),
            (length, false) => Ok(Some((length, fds))),
        }
    }

    /// As `send`, but waits until the other end has room. Errors: it has none in time.
    pub fn send_until(&self, message: &impl Message, until: Instant) -> io::Result<()> {
        loop {
            match self.send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, until)?
                }
                sent => return sent,
            }
        }
    }

    /// As `receive`, but waits until something comes. Errors: nothing has in time.
    pub fn receive_until<M: Message>(&self, until: Instant) -> io::Result<Received<M>> {
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

/// What is said over a channel in a runtime's loop: at once, or as soon as the channel has room.
pub struct SendQueue<M> {
    queue: RefCell<VecDeque<M>>,
    queued: Notify,
}

impl<M> Default for SendQueue<M> {
    fn default() -> SendQueue<M> {
        SendQueue { queue: RefCell::default(), queued: Notify::new() }
    }
}

impl<M: Message> SendQueue<M> {
    /// Whoever is not there is not told.
    pub fn send(&self, channel: &AsyncFd<Channel>, message: M) {
        let sent = match self.queue.borrow().is_empty() {
            true => channel.get_ref().send(&message),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.queue.borrow_mut().push_back(message);
            self.queued.notify_one();
        }
    }

    /// Until one of those that had no room is sent; to be called again and again.
    pub async fn send_queued(&self, channel: &AsyncFd<Channel>) {
        if self.queue.borrow().is_empty() {
            return self.queued.notified().await;
        }
        let send = |channel: &Channel| match self.queue.borrow().front() {
            Some(message) => channel.send(message),
            None => Ok(()),
        };
        _ = channel.async_io(Interest::WRITABLE, send).await;
        self.queue.borrow_mut().pop_front();
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

/// What the master tells a serving process.
pub enum MasterCommand {
    /// Accept no more, finish what runs, and end (SIGTERM).
    Leave,
    /// End (SIGINT).
    Stop,
    /// Another process serves from now on: connections between two requests go to it through this
    /// channel; finish what runs, and end.
    HandOver(OwnedFd),
    /// The log file that this sink is written to from now on.
    Log { sink: u32, file: OwnedFd },
    /// Write the statistics into this socket.
    Stats { form: Form, to: OwnedFd },
    /// Say whether every loop still turns.
    Ping,
}

/// How statistics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    #[default]
    Text,
    Json,
}

/// What a serving process tells the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenerationEvent {
    /// It accepts connections.
    Ready,
    /// It cannot serve: lines that say why.
    Failed(Vec<String>),
    /// The answer to a ping.
    Alive,
    /// It has heard that another process serves: no request comes to it any more.
    Retired,
}

/// A connection between two requests, on its way to the process that serves from now on. The first byte
/// is the version of this message: the two may be different programs.
pub struct InheritedConnection {
    pub fd: OwnedFd,
    pub requests: u32,
}

const INHERITED_VERSION: u8 = 1;

impl Message for MasterCommand {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        match self {
            MasterCommand::Leave => (vec![b'L'], Vec::new()),
            MasterCommand::Stop => (vec![b'S'], Vec::new()),
            MasterCommand::HandOver(successor) => (vec![b'H'], vec![successor.as_fd()]),
            MasterCommand::Log { sink, file } => {
                let [a, b, c, d] = sink.to_be_bytes();
                (vec![b'F', a, b, c, d], vec![file.as_fd()])
            }
            MasterCommand::Stats { form: Form::Text, to } => (vec![b'T'], vec![to.as_fd()]),
            MasterCommand::Stats { form: Form::Json, to } => (vec![b'J'], vec![to.as_fd()]),
            MasterCommand::Ping => (vec![b'P'], Vec::new()),
        }
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<MasterCommand> {
        Some(match bytes {
            b"L" => MasterCommand::Leave,
            b"S" => MasterCommand::Stop,
            b"H" => MasterCommand::HandOver(fds.pop()?),
            &[b'F', a, b, c, d] => {
                MasterCommand::Log { sink: u32::from_be_bytes([a, b, c, d]), file: fds.pop()? }
            }
            b"T" => MasterCommand::Stats { form: Form::Text, to: fds.pop()? },
            b"J" => MasterCommand::Stats { form: Form::Json, to: fds.pop()? },
            b"P" => MasterCommand::Ping,
            _ => return None,
        })
    }
}

impl Message for GenerationEvent {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        let bytes = match self {
            GenerationEvent::Ready => vec![b'R'],
            GenerationEvent::Failed(lines) => format!("F{}", lines.join("\n")).into_bytes(),
            GenerationEvent::Alive => vec![b'A'],
            GenerationEvent::Retired => vec![b'O'],
        };
        (bytes, Vec::new())
    }

    fn read(bytes: &[u8], _: Descriptors) -> Option<GenerationEvent> {
        Some(match bytes {
            b"R" => GenerationEvent::Ready,
            [b'F', text @ ..] => {
                GenerationEvent::Failed(String::from_utf8_lossy(text).lines().map(str::to_owned).collect())
            }
            b"A" => GenerationEvent::Alive,
            b"O" => GenerationEvent::Retired,
            _ => return None,
        })
    }
}

impl Message for InheritedConnection {
    fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        let mut bytes = vec![INHERITED_VERSION];
        bytes.extend_from_slice(&self.requests.to_be_bytes());
        (bytes, vec![self.fd.as_fd()])
    }

    fn read(bytes: &[u8], mut fds: Descriptors) -> Option<InheritedConnection> {
        let (&INHERITED_VERSION, requests) = bytes.split_first()? else { return None };
        Some(InheritedConnection { fd: fds.pop()?, requests: u32::from_be_bytes(requests.try_into().ok()?) })
    }
}
