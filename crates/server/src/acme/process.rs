//! The process that gets certificates. It has the key of the account, and connects to authorities. It has neither the
//! folder of certificates nor clients: what it gets, it gives to the master.

mod certificate;
mod link;

use std::cell::Cell;
use std::convert::Infallible;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::thread::CapabilitySet;
use rustls::RootCertStore;
use site::certificates::Certificates;
use site::model::Sandbox;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use self::certificate::CertificateTask;
use self::link::Link;
use super::Wanted;
use super::account::{AccountKey, Binding, uri};
use super::https::Client;
use super::order::AcmeClient;
use crate::log;
use crate::process::child;
use crate::process::ipc::Channel;
use crate::process::privilege::Identity;
use crate::process::sandbox::{self, Confinement, Connects, MAX_PORTS, Pipes, Reads, Writes};
use crate::tasks::spawn_into;

const FAILED: u8 = 1;
/// Certificates that are ordered at the same time.
const ORDERS: usize = 4;
/// How long the end of this process waits for programs that remove records.
pub const LONGEST_END: Duration = Duration::from_secs(5);
const DNS: u16 = 53;
const HTTPS: u16 = 443;
/// The files by which names are looked up (nsswitch.conf(5), resolv.conf(5), gai.conf(5)).
const RESOLVER: [&str; 6] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
];

/// What the process starts with.
pub struct AcmeSetup {
    pub certificates: Vec<Wanted>,
    pub settings: Certificates,
    pub master: Channel,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub sandbox: Sandbox,
}

/// What it reads with the rights of the master.
pub struct Secrets {
    pub key: AccountKey,
    pub binding: Option<Binding>,
    /// The authorities that servers are verified by.
    pub roots: RootCertStore,
}

/// Gets certificates until the master ends the process, and returns the exit code. The process must have one thread.
pub fn run(setup: AcmeSetup, secrets: Result<Secrets, String>) -> u8 {
    match secrets.and_then(|secrets| serve(setup, secrets)) {
        Ok(never) => match never {},
        Err(why) => {
            log::error(format_args!("no certificates are ordered: {why}"));
            FAILED
        }
    }
}

/// Errors: why the process ends. The end of the master ends it, too.
fn serve(setup: AcmeSetup, secrets: Secrets) -> Result<Infallible, String> {
    let AcmeSetup { certificates, settings, master, identity, sandbox } = setup;
    give_up(&settings, identity, sandbox)?;
    let Secrets { key, binding, roots } = secrets;
    let https = Client::new(roots, settings.timeout)?;
    let client = AcmeClient { settings, key, binding, https };
    let runtime = child::local_runtime().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let link = Link::new(master).map_err(|e| e.to_string())?;
        let orders = Semaphore::new(ORDERS);
        let shared = Rc::new(Shared { client, link, orders, ending: Ending::default() });
        let mut tasks = JoinSet::new();
        for (number, wanted) in certificates.into_iter().enumerate() {
            let task = CertificateTask::new(number as u32, wanted, shared.clone());
            spawn_into(&mut tasks, task.run());
        }
        let ended = tokio::select! {
            ended = shared.link.receive() => ended,
            // Without its task, a certificate would expire in silence. The master starts this process again.
            _ = tasks.join_next(), if !tasks.is_empty() => Err("a panic has ended a task".to_owned()),
        };
        shared.end_orders().await;
        // Programs that still run end with their tasks.
        tasks.shutdown().await;
        match ended {
            // At once: a lookup of a name may take long.
            Ok(()) => std::process::exit(0),
            Err(why) => Err(why),
        }
    })
}

/// A process that executes the program for DNS-01 has no filter of system calls: the program needs all of them.
fn give_up(settings: &Certificates, identity: Option<Identity>, sandbox: Sandbox) -> Result<(), String> {
    // Other processes of the same user could otherwise read the key.
    child::detach(identity)?;
    if !settings.dns_command.is_empty() {
        return match sandbox {
            Sandbox::Off => Ok(()),
            Sandbox::On | Sandbox::Required => {
                let given_up = sandbox::forbid_new_privileges()
                    .and_then(|()| sandbox::hold_only(CapabilitySet::empty()));
                given_up.map_err(|errno| format!("cannot give up privileges: {errno}"))
            }
        };
    }
    // The master ends this process by leaving it.
    SigSet::all().thread_block().map_err(|errno| format!("cannot block signals: {errno}"))?;
    let reads = Reads::Beneath(RESOLVER.iter().map(Path::new).collect());
    let connects = Connects::Ports(ports(&settings.authorities));
    let confinement = Confinement {
        reads,
        open: None,
        connects,
        pipes: Pipes::None,
        writes: Writes::Nowhere,
        publishes: Vec::new(),
    };
    // The generation reports what is missing on this machine.
    sandbox::apply(&confinement, sandbox).map(drop)
}

/// Those of the authorities, and of name servers.
fn ports(authorities: &[String]) -> [u16; MAX_PORTS] {
    let mut ports = [0; MAX_PORTS];
    let of_authority = |url: &String| uri(url).ok().map(|uri| uri.port_u16().unwrap_or(HTTPS));
    let all = [DNS].into_iter().chain(authorities.iter().filter_map(of_authority));
    ports.iter_mut().zip(all).for_each(|(slot, port)| *slot = port);
    ports
}

struct Shared {
    client: AcmeClient,
    link: Link,
    orders: Semaphore,
    ending: Ending,
}

impl Shared {
    /// Has the orders that run take back their challenges, and waits until they have.
    async fn end_orders(&self) {
        self.link.end();
        self.ending.begin();
        let all = self.orders.acquire_many(ORDERS as u32);
        if tokio::time::timeout(LONGEST_END, all).await.is_err() {
            log::warn(format_args!(
                "a record of dns-01 may stay: dns_command has not removed it within {} s, and is ended",
                LONGEST_END.as_secs()
            ));
        }
    }
}

/// Whether this process is to end.
#[derive(Default)]
struct Ending {
    has_begun: Cell<bool>,
    begun: Notify,
}

impl Ending {
    fn begin(&self) {
        self.has_begun.set(true);
        self.begun.notify_waiters();
    }

    async fn wait(&self) {
        let begun = self.begun.notified();
        if !self.has_begun.get() {
            begun.await;
        }
    }
}
