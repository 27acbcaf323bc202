//! A channel in an event loop, with a queue for the messages that the kernel does not take at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::channel::{Channel, RETRY, Received, has_too_many_in_flight, is_for_now};
use super::message::{Message, OwnedMessage};
use crate::sys;

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
