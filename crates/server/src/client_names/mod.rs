//! The names of clients, for access logs and scripts. A process of its own asks for them, because a worker cannot
//! connect. Nothing waits for a name: a client has none until it is known.
//!
//! This file is the worker's end.

mod cache;
pub mod message;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::clock;
use crate::process::ipc::{AsyncChannel, Channel, Received};
use cache::{Found, NameCache};
use message::{NameEvent, NameQuestion};

/// Questions of a worker that have no answer yet.
const MAX_ASKED: usize = 256;
/// An address is not asked again for this time, if no answer comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The worker's end. Without a channel, no client has a name.
pub struct ClientNames {
    channel: OnceCell<AsyncChannel<NameQuestion>>,
    cache: RefCell<NameCache>,
    asked: Cell<usize>,
    is_lost: Cell<bool>,
}

impl ClientNames {
    /// `entries` bounds what is remembered.
    pub fn new(entries: usize) -> ClientNames {
        ClientNames {
            channel: OnceCell::new(),
            cache: RefCell::new(NameCache::new(entries)),
            asked: Cell::new(0),
            is_lost: Cell::new(false),
        }
    }

    /// Names are looked up from now on. Needs the worker's runtime, which also has to `run` it.
    pub fn open(&self, channel: Channel) -> io::Result<()> {
        // There is one process for each generation.
        _ = self.channel.set(AsyncChannel::new(channel)?);
        Ok(())
    }

    /// The name of a client, if it is known. If not, it is asked for.
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<Rc<str>> {
        let channel = self.channel.get()?;
        let found = self.cache.borrow_mut().find(address, clock::micros());
        match found {
            Found::Known(name) => name,
            Found::Unknown => {
                self.ask(channel, address);
                None
            }
        }
    }

    fn ask(&self, channel: &AsyncChannel<NameQuestion>, address: IpAddr) {
        if self.is_lost.get() || self.asked.get() >= MAX_ASKED {
            return;
        }
        self.asked.update(|asked| asked + 1);
        self.insert(address, None, PATIENCE);
        channel.send(NameQuestion(address));
    }

    fn insert(&self, address: IpAddr, name: Option<&str>, ttl: Duration) {
        let ttl = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        let until = clock::micros().saturating_add(ttl);
        self.cache.borrow_mut().insert(address, name.map(Rc::from), until);
    }

    /// Receives the names. Does not end, even if the process does: then the master replaces this one.
    pub async fn run(self: Rc<ClientNames>) -> io::Result<()> {
        let Some(channel) = self.channel.get() else { return std::future::pending().await };
        while let Ok(Received::Message(event)) = channel.receive::<NameEvent>().await {
            self.asked.update(|asked| asked.saturating_sub(1));
            self.insert(event.address, event.name.as_deref(), event.ttl);
        }
        self.is_lost.set(true);
        std::future::pending().await
    }
}
