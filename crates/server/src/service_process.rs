//! The frame of a process that answers questions of workers: it gives up privileges, and runs a loop until neither a
//! worker nor the master needs it. Does not know the questions.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use site::endpoint::Resolution;
use site::model::{NewPrivileges, Site};
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::pool::message::PoolCommand;
use crate::process::child::{self, Privileges};
use crate::process::ipc::Channel;
use crate::process::privilege::Identity;
use crate::resolver::SystemNames;
use crate::tasks::spawn_local;
use crate::{log, sys};

/// What the process starts with.
pub struct ServiceSetup {
    pub resolution: Resolution,
    pub master: Channel,
    pub privileges: Privileges,
}

impl ServiceSetup {
    pub fn of(site: &Site, master: Channel, identity: Option<Identity>) -> ServiceSetup {
        ServiceSetup {
            resolution: site.resolution.clone(),
            master,
            privileges: Privileges::of(site, identity, NewPrivileges::None),
        }
    }
}

/// What the process does for workers.
pub trait WorkerService: 'static {
    /// Answers one worker, until it closes the channel.
    fn serve_worker(self: Rc<Self>, channel: Channel) -> impl Future<Output = ()>;
}

/// Runs until neither a worker nor the master needs the process, and returns the exit code. To be called while there is
/// only one thread. `make` is called within the runtime; `what` begins the message of a failure.
pub fn run<S: WorkerService>(
    what: &str,
    setup: ServiceSetup,
    make: impl FnOnce(&Resolution, SystemNames) -> S,
) -> u8 {
    child::exit_code(what, serve(setup, make))
}

fn serve<S: WorkerService>(
    setup: ServiceSetup,
    make: impl FnOnce(&Resolution, SystemNames) -> S,
) -> Result<(), String> {
    let ServiceSetup { resolution, master, privileges } = setup;
    // A chroot hides its files.
    let names = SystemNames::read();
    privileges.assume()?;
    log::write_by_thread();
    let served = child::run_loop(async { answer_workers(Rc::new(make(&resolution, names)), master).await });
    log::flush();
    served
}

/// The workers that have a channel.
#[derive(Default)]
struct Workers {
    count: Cell<usize>,
    /// Notified when a worker has closed its channel.
    left: Notify,
}

async fn answer_workers<S: WorkerService>(service: Rc<S>, master: Channel) -> io::Result<()> {
    let workers = Rc::<Workers>::default();
    let master = sys::watch(master, Interest::READABLE)?;
    while let Some(command) = PoolCommand::receive(&master).await {
        match command {
            PoolCommand::AddWorker(channel) => {
                let (service, workers) = (service.clone(), workers.clone());
                workers.count.update(|count| count + 1);
                spawn_local(async move {
                    service.serve_worker(channel.into()).await;
                    workers.count.update(|count| count - 1);
                    workers.left.notify_one();
                });
            }
            PoolCommand::Log(command) => command.carry_out(),
            // It has no endpoints.
            PoolCommand::Drain { .. } => {}
        }
    }
    while workers.count.get() > 0 {
        workers.left.notified().await;
    }
    Ok(())
}
