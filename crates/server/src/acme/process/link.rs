//! The requests of the process to the master, which are replied to in any order.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;

use tokio::sync::oneshot;

use crate::acme::message::{AcmeCommand, AcmeRequest, Reply, Wish};
use crate::process::ipc::{AsyncChannel, Channel, Received};

/// Sends requests to the master, and waits for the replies.
pub struct Link {
    channel: AsyncChannel<AcmeRequest>,
    /// `None`: the master receives no more.
    waiting: RefCell<Option<HashMap<u32, oneshot::Sender<Reply>>>>,
    last: Cell<u32>,
}

impl Link {
    /// Within a runtime.
    pub fn new(master: Channel) -> io::Result<Link> {
        let channel = AsyncChannel::new(master)?;
        Ok(Link { channel, waiting: RefCell::new(Some(HashMap::new())), last: Cell::new(0) })
    }

    pub async fn request(&self, certificate: u32, what: Wish) -> Reply {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let reply = self.waiting.borrow_mut().as_mut().map(|waiting| {
            let (sender, reply) = oneshot::channel();
            waiting.insert(number, sender);
            self.channel.send(AcmeRequest { number, certificate, what });
            reply
        });
        let reply = match reply {
            Some(reply) => reply.await.ok(),
            None => None,
        };
        reply.unwrap_or_else(|| Reply::Failed("the master does not respond".to_owned()))
    }

    /// Every request fails from now on, also those that wait.
    pub fn end(&self) {
        *self.waiting.borrow_mut() = None;
    }

    /// Receives replies, until the master has ended or needs this process no more. Errors: why there are no more.
    pub async fn receive(&self) -> Result<(), String> {
        loop {
            match self.channel.receive::<AcmeCommand>().await {
                Ok(Received::Message(AcmeCommand::Reply { number, reply })) => {
                    let waiting = self.waiting.borrow_mut().as_mut().and_then(|all| all.remove(&number));
                    // The task may have given up.
                    waiting.map(|waiting| waiting.send(reply));
                }
                Ok(Received::Message(AcmeCommand::Log(command))) => command.carry_out(),
                Ok(Received::End) => return Ok(()),
                Err(error) => return Err(format!("cannot receive: {error}")),
            }
        }
    }
}
