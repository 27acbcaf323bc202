//! Messages between the processes of the program: one message is one datagram of a socket pair, with descriptors
//! beside it. Here are the socket, the one encoding of all messages, and a queue for an event loop.
//!
//! Knows the messages between the master and the generations. The messages of other processes are
//! in the modules of these.

mod generation;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::CStr;
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
use site::model::Level;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::sys;

pub use generation::{
    Form, GenerationEvent, InheritedConnection, MAX_NAMED_FILES, MasterCommand, Rates, Syntax,
};

/// Descriptors beside one message: at most the three standard streams of a program.
pub const MAX_DESCRIPTORS: usize = 3;
/// How long a channel is left alone when its socket does not report that it takes messages again.
pub const RETRY: Duration = Duration::from_millis(10);
/// What an administrator can do about `has_too_many_in_flight`.
pub const TOO_MANY_IN_FLIGHT: &str = "more descriptors of this user are on their way between processes than \
                                      `ulimit -Hn` (LimitNOFILE in a unit) allows";

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
    bytes: Vec<u8>,
    fds: ArrayVec<BorrowedFd<'a>, MAX_DESCRIPTORS>,
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

    pub fn bytes(mut self, bytes: &[u8]) -> Encoder<'a> {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// With its NUL.
    pub fn string(self, string: &CStr) -> Encoder<'a> {
        self.bytes(string.to_bytes_with_nul())
    }

    /// A level of the error log, for a time.
    pub fn level(self, level: Level, time: Duration) -> Encoder<'a> {
        self.u32(level as u32).u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
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

    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(bytes)
    }

    pub fn level(&mut self) -> Option<(Level, Duration)> {
        let level = match self.u32()? {
            0 => Level::Error,
            1 => Level::Warn,
            2 => Level::Info,
            3 => Level::Debug,
            _ => return None,
        };
        Some((level, Duration::from_millis(self.u64()?)))
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

fn decode<'a, M: Message<'a>>(bytes: &'a [u8], fds: ArrayVec<OwnedFd, MAX_DESCRIPTORS>) -> Option<M> {
    let (kind, bytes) = bytes.split_first()?;
    let mut fields = Decoder { bytes, fds: fds.into_iter() };
    let message = M::decode(*kind, &mut fields)?;
    (fields.bytes.is_empty() && fields.fds.len() == 0).then_some(message)
}

/// Whether the kernel sends no descriptor at this moment, because more of this user are on their way between processes
/// than RLIMIT_NOFILE allows (unix(7), ETOOMANYREFS). No socket reports when that changes.
pub fn has_too_many_in_flight(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::TOOMANYREFS)
}

/// Whether a message can be sent later.
fn is_for_now(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || has_too_many_in_flight(error)
}

/// One end of a pair.
pub struct Channel(OwnedFd);

pub enum Received<M> {
    Message(M),
    /// The other end is closed.
    End,
}

/// Overwrites what the compiler could leave, since nothing reads it.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
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

    /// Errors: `WouldBlock` when the channel is full; those of `has_too_many_in_flight`; `BrokenPipe` when the other end
    /// is closed; `InvalidInput` when the message is too long.
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

    /// Errors: `WouldBlock` when there is no message; `InvalidData` when it cannot be decoded.
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

/// A channel in a runtime's loop. It is watched for messages only: to be woken whenever the other end has received
/// one would cost a turn of the loop for each message.
pub struct AsyncChannel<M> {
    channel: AsyncFd<Channel>,
    /// Messages that found the channel full.
    queue: RefCell<VecDeque<M>>,
    queued: Notify,
}

impl<M: Message<'static>> AsyncChannel<M> {
    /// Within a runtime.
    pub fn new(channel: Channel) -> io::Result<AsyncChannel<M>> {
        let channel = sys::watch(channel, Interest::READABLE)?;
        Ok(AsyncChannel { channel, queue: RefCell::default(), queued: Notify::new() })
    }

    pub fn get_ref(&self) -> &Channel {
        self.channel.get_ref()
    }

    /// Sends a message now, or as soon as the kernel takes it, which needs a running `receive`. A closed channel is not
    /// an error here.
    pub fn send(&self, message: M) {
        let sent = match self.queue.borrow().is_empty() {
            true => self.get_ref().send(&message),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        if sent.is_err_and(|error| is_for_now(&error)) {
            self.queue.borrow_mut().push_back(message);
            self.queued.notify_one();
        }
    }

    /// Waits while the message can be sent later. Errors: the others of `Channel::send`.
    pub async fn send_unqueued<'a>(&self, message: &impl Message<'a>) -> io::Result<()> {
        loop {
            match self.get_ref().send(message) {
                Err(error) if is_for_now(&error) => self.takes_again(&error).await,
                sent => return sent,
            }
        }
    }

    /// The next message. Sends queued messages in the meantime. It is safe to drop this before it is ready.
    pub async fn receive<R: OwnedMessage>(&self) -> io::Result<Received<R>> {
        self.receive_in(&mut vec![0; <R as Message<'_>>::MAX_BYTES]).await
    }

    /// As `receive`, into a buffer that holds the longest message.
    pub async fn receive_in<R: OwnedMessage>(&self, buffer: &mut [u8]) -> io::Result<Received<R>> {
        tokio::select! {
            received = self.channel.async_io(Interest::READABLE, |channel| channel.receive_in(buffer)) => received,
            never = self.send_queued() => match never {},
        }
    }

    async fn send_queued(&self) -> std::convert::Infallible {
        loop {
            let sent = self.queue.borrow().front().map(|message| self.get_ref().send(message));
            match sent {
                None => self.queued.notified().await,
                Some(Err(error)) if is_for_now(&error) => self.takes_again(&error).await,
                Some(_) => _ = self.queue.borrow_mut().pop_front(),
            }
        }
    }

    /// Waits until a message that could not be sent for this reason may be sent.
    async fn takes_again(&self, error: &io::Error) {
        match has_too_many_in_flight(error) {
            true => tokio::time::sleep(RETRY).await,
            false => self.writable().await,
        }
    }

    /// By a descriptor of its own, which is watched until then.
    async fn writable(&self) {
        match self.get_ref().try_clone().and_then(|channel| sys::watch(channel, Interest::WRITABLE)) {
            Ok(channel) => _ = channel.writable().await,
            Err(_) => tokio::time::sleep(RETRY).await,
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

#[cfg(test)]
pub mod tests {
    use site::listener::Protocols;

    use super::*;

    fn encoded<'a>(message: &impl Message<'a>) -> (Vec<u8>, ArrayVec<OwnedFd, MAX_DESCRIPTORS>) {
        let Encoder { bytes, fds } = message.encode();
        (bytes, fds.iter().map(|fd| fd.try_clone_to_owned().expect("a number is free")).collect())
    }

    /// Sends each message, and receives the same. Bytes that are changed are refused, or decode to a message that is
    /// encoded as these bytes; a message without its descriptors is refused.
    pub fn check_codec<M: OwnedMessage>(messages: impl IntoIterator<Item = M>) {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        for message in messages {
            let (bytes, fds) = encoded(&message);
            one.send(&message).expect("it is sent");
            let Ok(Received::Message(received)) = other.receive::<M>() else { panic!("refused: {bytes:?}") };
            let again = encoded(&received);
            assert_eq!((&again.0, again.1.len()), (&bytes, fds.len()));
            let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
            let longer = [bytes.clone(), vec![0]].concat();
            let of_other_kinds = (0..=u8::MAX).map(|kind| [&[kind], &bytes[1..]].concat());
            for changed in cut.chain([longer]).chain(of_other_kinds) {
                let fds = || (0..fds.len()).map(|_| null()).collect();
                if let Some(message) = decode::<M>(&changed, fds()) {
                    assert_eq!(encoded(&message).0, changed);
                }
            }
            if !fds.is_empty() {
                assert!(decode::<M>(&bytes, ArrayVec::new()).is_none(), "{bytes:?} without its descriptors");
            }
            let more = fds.into_iter().chain([null()]).take(MAX_DESCRIPTORS).collect::<ArrayVec<_, _>>();
            if more.len() > again.1.len() {
                assert!(decode::<M>(&bytes, more).is_none(), "{bytes:?} with a descriptor too many");
            }
        }
    }

    #[test]
    fn refuses_a_message_that_is_too_long() {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let failed = GenerationEvent::Failed(vec!["x".repeat(100_000)]);
        one.send(&failed).expect("the text is cut");
        let received = other.receive_in::<GenerationEvent>(&mut [0; 100]);
        assert_eq!(received.err().map(|error| error.kind()), Some(io::ErrorKind::InvalidData));
    }

    #[test]
    fn a_channel_that_was_closed_with_unread_messages_is_closed() {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let failed = GenerationEvent::Failed(vec!["x".to_owned()]);
        one.send(&failed).expect("there is space");
        drop(other);
        assert_eq!(one.send(&failed).map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn sends_queued_messages_in_order_when_the_channel_has_space() {
        const MESSAGES: u32 = 2000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it is made");
        runtime.block_on(async {
            let (one, other) = Channel::pair().expect("a pair can be made");
            let sender = AsyncChannel::<InheritedConnection>::new(one).expect("it can be watched");
            let receiver = AsyncChannel::<MasterCommand>::new(other).expect("it can be watched");
            let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
            for requests in 0..MESSAGES {
                sender.send(InheritedConnection {
                    fd: null(),
                    protocols: Protocols::default(),
                    client: None,
                    destination: None,
                    requests,
                });
            }
            let receive = async {
                for expected in 0..MESSAGES {
                    let received = receiver.receive::<InheritedConnection>().await;
                    let Ok(Received::Message(connection)) = received else { panic!("{expected} is missing") };
                    assert_eq!(connection.requests, expected);
                }
            };
            tokio::select! {
                () = receive => {}
                _ = sender.receive::<MasterCommand>() => panic!("nothing was sent to it"),
            }
        });
    }
}
