//! The process that looks up the names of clients, by DNS. A name counts only if it has the address, too, because the owner
//! of an address can give it any name.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rustix::thread::CapabilitySet;
use site::endpoint::Resolution;
use site::model::Site;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::client_names::message::{NameEvent, NameQuestion};
use crate::ipc::{AsyncChannel, Channel, Received};
use crate::names::{Resolver, SystemNames};
use crate::pool::message::PoolCommand;
use crate::privilege::Identity;
use crate::spawner::process::{Privileges, settle_in};
use crate::{log, sys, terminal};

const FAILED: u8 = 1;
/// Names that are looked up at the same time, for all workers.
const MAX_LOOKUPS: usize = 64;
/// How long an address has no name that has none.
const NEGATIVE: Duration = Duration::from_secs(300);
/// How long it has none if no server has answered, or too much is being asked.
const UNANSWERED: Duration = Duration::from_secs(30);

/// What the process starts with.
pub struct NameLookupSetup {
    pub resolution: Resolution,
    pub master: Channel,
    pub chroot: Option<PathBuf>,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub privileges: Privileges,
}

impl NameLookupSetup {
    pub fn of(site: &Site, master: Channel, identity: Option<Identity>) -> NameLookupSetup {
        NameLookupSetup {
            resolution: site.resolution.clone(),
            master,
            chroot: site.chroot.clone(),
            identity,
            privileges: Privileges::of(site),
        }
    }
}

/// Runs until neither a worker nor the master needs the process, and returns the exit code. To be called while there is
/// only one thread.
pub fn run(setup: NameLookupSetup) -> u8 {
    match serve(setup) {
        Ok(()) => 0,
        Err(why) => {
            terminal::err(format_args!("taipan: names of clients: {why}"));
            FAILED
        }
    }
}

fn serve(setup: NameLookupSetup) -> Result<(), String> {
    let NameLookupSetup { resolution, master, chroot, identity, privileges } = setup;
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    // A chroot hides its files.
    let names = SystemNames::read();
    settle_in(chroot, identity, privileges, CapabilitySet::empty())?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(Default::default()).map_err(failed("run"))?;
    let serve = async {
        let resolver = Resolver::new(&resolution, names).inspect_err(|why| {
            log::warn(format_args!("clients have no names: {why}"));
        });
        let process = Process {
            resolver: resolver.ok(),
            bounds: (resolution.min_ttl, resolution.max_ttl),
            lookups: Cell::new(0),
            workers: Cell::new(0),
            left: Notify::new(),
        };
        Rc::new(process).run(master).await
    };
    runtime.block_on(serve).map_err(failed("go on"))
}

struct Process {
    /// `None`: no DNS server is known.
    resolver: Option<Resolver>,
    /// The shortest and the longest time for which a name is used.
    bounds: (Duration, Duration),
    lookups: Cell<usize>,
    workers: Cell<usize>,
    /// Notified when a worker has closed its channel.
    left: Notify,
}

impl Process {
    async fn run(self: Rc<Process>, master: Channel) -> io::Result<()> {
        let master = sys::watch(master, Interest::READABLE)?;
        // Ends with the master, or as soon as the master needs the process no more.
        while let Ok(Received::Message(command)) =
            master.async_io(Interest::READABLE, Channel::receive::<PoolCommand>).await
        {
            match command {
                PoolCommand::AddWorker(channel) => self.add_worker(channel),
                PoolCommand::Log(file) => log::replace(0, file),
                // It has no endpoints.
                PoolCommand::Drain { .. } => {}
            }
        }
        while self.workers.get() > 0 {
            self.left.notified().await;
        }
        Ok(())
    }

    fn add_worker(self: &Rc<Process>, channel: OwnedFd) {
        // It queues at most an event for each question of the worker, which bounds them.
        let Ok(channel) = AsyncChannel::<NameEvent>::new(Channel::from(channel)) else { return };
        let channel = Rc::new(channel);
        self.workers.update(|count| count + 1);
        let process = self.clone();
        spawn_local(async move {
            while let Ok(Received::Message(NameQuestion(address))) = channel.receive::<NameQuestion>().await {
                process.on_question(&channel, address);
            }
            process.workers.update(|count| count - 1);
            process.left.notify_one();
        });
    }

    fn on_question(self: &Rc<Process>, worker: &Rc<AsyncChannel<NameEvent>>, address: IpAddr) {
        if self.lookups.get() >= MAX_LOOKUPS {
            return worker.send(NameEvent { address, name: None, ttl: UNANSWERED });
        }
        self.lookups.update(|count| count + 1);
        let (process, worker) = (self.clone(), worker.clone());
        spawn_local(async move {
            let (name, ttl) = process.look_up(address).await;
            process.lookups.update(|count| count - 1);
            worker.send(NameEvent { address, name, ttl });
        });
    }

    async fn look_up(&self, address: IpAddr) -> (Option<String>, Duration) {
        let Some(resolver) = &self.resolver else { return (None, UNANSWERED) };
        let (shortest, longest) = self.bounds;
        match resolver.confirmed_name(address).await {
            Ok(Some((name, ttl))) if is_name(&name) => (Some(name), ttl.clamp(shortest, longest)),
            Ok(_) => (None, NEGATIVE.clamp(shortest, longest)),
            Err(_) => (None, UNANSWERED),
        }
    }
}

/// Whether the name has no character that a log or a script could take for something else.
fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_of_name)
}
