//! The process that looks up the names of clients, by DNS. A name counts only if it has the address, too, because the
//! owner of an address can give it any name.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::client_names::message::{NameEvent, NameQuestion};
use crate::log;
use crate::process::ipc::{AsyncChannel, Channel, Received};
use crate::resolver::{Resolver, is_host_name};
use crate::service_process::{self, ServiceSetup, WorkerService};
use crate::tasks::spawn_local;

/// Names that are looked up at the same time, for all workers.
const MAX_LOOKUPS: usize = 64;
/// How long an address has no name that has none.
const NEGATIVE: Duration = Duration::from_secs(300);
/// How long it has none if no server has answered, or too much is being asked.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Runs the process, and returns its exit code. To be called while there is only one thread.
pub fn run(setup: ServiceSetup) -> u8 {
    service_process::run("names of clients", setup, |resolution, names| {
        let resolver = Resolver::new(resolution, names).inspect_err(|why| {
            log::warn(format_args!("clients have no names: {why}"));
        });
        let bounds = (resolution.min_ttl, resolution.max_ttl);
        NameLookup { resolver: resolver.ok(), bounds, lookups: Cell::new(0) }
    })
}

struct NameLookup {
    /// `None`: no DNS server is known.
    resolver: Option<Resolver>,
    /// The shortest and the longest time for which a name is used.
    bounds: (Duration, Duration),
    lookups: Cell<usize>,
}

impl WorkerService for NameLookup {
    async fn serve_worker(self: Rc<NameLookup>, channel: Channel) {
        // It queues at most an event for each question of the worker, which bounds them.
        let Ok(channel) = AsyncChannel::new(channel).map(Rc::new) else { return };
        while let Ok(Received::Message(NameQuestion(address))) = channel.receive::<NameQuestion>().await {
            self.on_question(&channel, address);
        }
    }
}

impl NameLookup {
    fn on_question(self: &Rc<NameLookup>, worker: &Rc<AsyncChannel<NameEvent>>, address: IpAddr) {
        if self.lookups.get() >= MAX_LOOKUPS {
            return worker.send(NameEvent { address, name: None, ttl: UNANSWERED });
        }
        self.lookups.update(|count| count + 1);
        let (lookup, worker) = (self.clone(), worker.clone());
        spawn_local(async move {
            let (name, ttl) = lookup.look_up(address).await;
            lookup.lookups.update(|count| count - 1);
            worker.send(NameEvent { address, name, ttl });
        });
    }

    async fn look_up(&self, address: IpAddr) -> (Option<String>, Duration) {
        let Some(resolver) = &self.resolver else { return (None, UNANSWERED) };
        let (shortest, longest) = self.bounds;
        match resolver.confirmed_name(address).await {
            Ok(Some((name, ttl))) if is_host_name(&name) => (Some(name), ttl.clamp(shortest, longest)),
            Ok(_) => (None, NEGATIVE.clamp(shortest, longest)),
            Err(_) => (None, UNANSWERED),
        }
    }
}
