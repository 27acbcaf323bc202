//! Idle connections that are on their way to another process, and the channel to it. Does not wait for a connection to
//! be sent: `leaving` does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use tokio::sync::Notify;

use crate::process::ipc::{Channel, InheritedConnection};

#[derive(Default)]
pub struct Handoffs {
    queue: RefCell<VecDeque<InheritedConnection>>,
    added: Notify,
    /// The process that they go to, until `take_successor`.
    successor: RefCell<Option<Channel>>,
    successor_set: Notify,
}

impl Handoffs {
    pub fn add(&self, connection: InheritedConnection) {
        self.queue.borrow_mut().push_back(connection);
        self.added.notify_one();
    }

    /// Waits until a connection is added.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Sends the first connection, and leaves it in the queue. Errors: as `Channel::send`.
    pub fn send_first(&self, successor: &Channel) -> io::Result<()> {
        self.queue.borrow().front().map_or(Ok(()), |connection| successor.send(connection))
    }

    /// Removes the first connection. `false`: there is none.
    pub fn remove_first(&self) -> bool {
        self.queue.borrow_mut().pop_front().is_some()
    }

    /// Closes those that are selected. Returns how many.
    pub fn disconnect(&self, is_selected: impl Fn(&InheritedConnection) -> bool) -> u64 {
        let mut queue = self.queue.borrow_mut();
        let before = queue.len();
        queue.retain(|connection| !is_selected(connection));
        (before - queue.len()) as u64
    }

    pub fn set_successor(&self, successor: Channel) {
        *self.successor.borrow_mut() = Some(successor);
        self.successor_set.notify_one();
    }

    /// Waits until there is a successor that is not taken.
    pub async fn wait_for_successor(&self) {
        while self.successor.borrow().is_none() {
            self.successor_set.notified().await;
        }
    }

    pub fn take_successor(&self) -> Option<Channel> {
        self.successor.borrow_mut().take()
    }
}
