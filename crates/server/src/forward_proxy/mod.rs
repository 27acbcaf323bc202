//! The forward proxy: a process that resolves the names of destinations, connects to them, and sends the connections to
//! workers, which cannot connect.
//!
//! This file is the worker's end. Knows nothing of HTTP.

pub mod message;

pub mod process;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use site::forward_proxy::Host;
use tokio::sync::oneshot;

use crate::process::ipc::{self, AsyncChannel, Channel, Received};
use message::{ConnectEvent, ConnectFailure, ConnectRequest, Connected, Failure};

/// The process should have answered before this. The worker waits a little longer than it.
const GRACE: Duration = Duration::from_secs(1);

/// The worker's end.
pub struct ForwardProxy {
    channel: AsyncChannel<ConnectRequest>,
    timeout: Duration,
    /// At most one for each tunnel that the worker may have.
    waiting: RefCell<HashMap<u64, oneshot::Sender<Result<Connected, ConnectFailure>>>>,
    next: Cell<u64>,
    is_lost: Cell<bool>,
}

impl ForwardProxy {
    /// Needs the worker's runtime, which also has to `run` it.
    pub fn new(channel: Channel, rules: &site::forward_proxy::ForwardProxy) -> io::Result<Rc<ForwardProxy>> {
        Ok(Rc::new(ForwardProxy {
            channel: AsyncChannel::new(channel)?,
            timeout: rules.connect_timeout + GRACE,
            waiting: RefCell::default(),
            next: Cell::new(0),
            is_lost: Cell::new(false),
        }))
    }

    pub async fn connect(&self, host: Host, port: u16) -> Result<Connected, ConnectFailure> {
        if self.is_lost.get() {
            return Err(lost());
        }
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, sender);
        let _waiting = WaitGuard { proxy: self, number };
        self.channel.send(ConnectRequest::Connect { number, port, host });
        match tokio::time::timeout(self.timeout, receiver).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(lost())),
            Err(_) => Err(ConnectFailure::new(Failure::TimedOut, "the forward proxy does not respond")),
        }
    }

    /// Receives what the process sends. Does not end, even if the process does: then the master replaces this one.
    pub async fn run(self: Rc<ForwardProxy>) -> io::Result<()> {
        loop {
            let ConnectEvent { number, result } = match self.channel.receive::<ConnectEvent>().await {
                Ok(Received::Message(event)) => event,
                // This process had no number left for the descriptor. What waited gets an error in time.
                Err(error) if ipc::lacks_descriptors(&error) => continue,
                Ok(Received::End) | Err(_) => break,
            };
            // What waited may have ended. Then the connection is closed.
            if let Some(waiting) = self.waiting.borrow_mut().remove(&number) {
                _ = waiting.send(result);
            }
        }
        self.is_lost.set(true);
        self.waiting.take();
        std::future::pending().await
    }
}

fn lost() -> ConnectFailure {
    ConnectFailure::new(Failure::Failed, "the process of the forward proxy has ended")
}

/// Takes a request back that waits no more.
struct WaitGuard<'a> {
    proxy: &'a ForwardProxy,
    number: u64,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if self.proxy.waiting.borrow_mut().remove(&self.number).is_some() {
            self.proxy.channel.send(ConnectRequest::Cancel { number: self.number });
        }
    }
}
