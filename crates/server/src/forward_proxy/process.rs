//! The process of the forward proxy. It checks each address after it has resolved the name, and connects to that very
//! address, so that no second answer of DNS can lead elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::thread::CapabilitySet;
use site::endpoint::{EndpointAddress, Resolution};
use site::forward_proxy::{ForwardProxy, Host};
use site::model::Site;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::message::{ConnectEvent, ConnectFailure, ConnectRequest, Failure};
use crate::ipc::{AsyncChannel, Channel, Received};
use crate::names::{Resolver, SystemNames};
use crate::pool::message::PoolCommand;
use crate::privilege::Identity;
use crate::spawner::process::{Privileges, settle_in};
use crate::{log, sys, terminal};

const FAILED: u8 = 1;
/// Connections that are being made at the same time, for all workers.
const MAX_CONNECTING: usize = 512;

/// What the process starts with.
pub struct ForwardProxySetup {
    pub rules: ForwardProxy,
    pub resolution: Resolution,
    pub master: Channel,
    pub chroot: Option<PathBuf>,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub privileges: Privileges,
}

impl ForwardProxySetup {
    pub fn of(
        site: &Site,
        rules: ForwardProxy,
        master: Channel,
        identity: Option<Identity>,
    ) -> ForwardProxySetup {
        ForwardProxySetup {
            rules,
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
pub fn run(setup: ForwardProxySetup) -> u8 {
    match serve(setup) {
        Ok(()) => 0,
        Err(why) => {
            terminal::err(format_args!("taipan: forward proxy: {why}"));
            FAILED
        }
    }
}

fn serve(setup: ForwardProxySetup) -> Result<(), String> {
    let ForwardProxySetup { rules, resolution, master, chroot, identity, privileges } = setup;
    let failed = |what: &'static str| move |e: io::Error| format!("cannot {what}: {e}");
    // A chroot hides its files.
    let names = SystemNames::read();
    settle_in(chroot, identity, privileges, CapabilitySet::empty())?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(Default::default()).map_err(failed("run"))?;
    let serve = async {
        let resolver = Resolver::new(&resolution, names);
        let process =
            Process { rules, resolver, connecting: Cell::new(0), workers: Cell::new(0), left: Notify::new() };
        Rc::new(process).run(master).await
    };
    runtime.block_on(serve).map_err(failed("go on"))
}

struct Process {
    rules: ForwardProxy,
    /// Errors: why no name can be resolved.
    resolver: Result<Resolver, String>,
    connecting: Cell<usize>,
    workers: Cell<usize>,
    /// Notified when a worker has closed its channel.
    left: Notify,
}

struct Worker {
    /// It queues at most an event for each request of the worker.
    channel: AsyncChannel<ConnectEvent>,
    attempts: RefCell<HashMap<u64, AbortHandle>>,
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
        let Ok(channel) = AsyncChannel::new(Channel::from(channel)) else { return };
        let worker = Rc::new(Worker { channel, attempts: RefCell::default() });
        self.workers.update(|count| count + 1);
        let process = self.clone();
        spawn_local(async move {
            while let Ok(Received::Message(request)) = worker.channel.receive::<ConnectRequest>().await {
                process.on_request(&worker, request);
            }
            worker.attempts.take().values().for_each(AbortHandle::abort);
            process.workers.update(|count| count - 1);
            process.left.notify_one();
        });
    }

    fn on_request(self: &Rc<Process>, worker: &Rc<Worker>, request: ConnectRequest) {
        let (number, port, host) = match request {
            ConnectRequest::Connect { number, port, host } => (number, port, host),
            ConnectRequest::Cancel { number } => {
                if let Some(attempt) = worker.attempts.borrow_mut().remove(&number) {
                    attempt.abort();
                }
                return;
            }
        };
        if self.connecting.get() >= MAX_CONNECTING {
            let failure = ConnectFailure::new(Failure::Busy, "too many connections are being made");
            return worker.channel.send(ConnectEvent::Failed { number, failure });
        }
        self.connecting.update(|count| count + 1);
        let connecting = Connecting(self.clone());
        let of_task = worker.clone();
        let attempt = spawn_local(async move {
            let connected = connecting.0.connect_in_time(&host, port).await;
            of_task.attempts.borrow_mut().remove(&number);
            of_task.channel.send(match connected {
                Ok((stream, address)) => ConnectEvent::Connected { number, address, stream },
                Err(failure) => ConnectEvent::Failed { number, failure },
            });
        });
        worker.attempts.borrow_mut().insert(number, attempt.abort_handle());
    }

    async fn connect_in_time(&self, host: &Host, port: u16) -> Result<(OwnedFd, SocketAddr), ConnectFailure> {
        let connected = tokio::time::timeout(self.rules.connect_timeout, self.connect(host, port)).await;
        connected
            .unwrap_or_else(|_| Err(ConnectFailure::new(Failure::TimedOut, "there is no connection in time")))
    }

    /// Tries the addresses that are allowed, one after the other.
    async fn connect(&self, host: &Host, port: u16) -> Result<(OwnedFd, SocketAddr), ConnectFailure> {
        let addresses = self.addresses(host, port).await?;
        let (mut refusal, mut failed) = (None, None);
        for address in addresses {
            if let Err(why) = self.rules.check_address(host, address.ip()) {
                refusal = Some(ConnectFailure::new(Failure::Refused, why.to_string()));
                continue;
            }
            match open(address).await {
                Ok((_, own)) if own == address.ip() && !self.rules.allows_own_address(own) => {
                    let why = format!("{own} is this machine, and no network of \"destinations\" has it");
                    refusal = Some(ConnectFailure::new(Failure::Refused, why));
                }
                Ok((stream, _)) => return Ok((stream, address)),
                Err(error) => {
                    failed = Some(ConnectFailure::new(Failure::Failed, format!("{address}: {error}")));
                }
            }
        }
        Err(failed.or(refusal).unwrap_or_else(|| ConnectFailure::new(Failure::Failed, "it has no addresses")))
    }

    async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, ConnectFailure> {
        let name = match host {
            Host::Address(ip) => return Ok(vec![SocketAddr::new(*ip, port)]),
            Host::Name(name) => name.clone(),
        };
        let failed =
            |why: &str| ConnectFailure::new(Failure::Failed, format!("it cannot be resolved: {why}"));
        let resolver = self.resolver.as_ref().map_err(|why| failed(why))?;
        let resolved = resolver.resolve(&EndpointAddress::Host { name, port }).await;
        Ok(resolved.map_err(|why| failed(&why))?.addresses().collect())
    }
}

/// Does not block the loop. Returns also the own address of the connection, which is that of the destination if that is this
/// machine.
async fn open(address: SocketAddr) -> io::Result<(OwnedFd, IpAddr)> {
    let stream = TcpStream::connect(address).await?;
    // Fails only if the connection has ended already.
    _ = stream.set_nodelay(true);
    let own = stream.local_addr()?.ip();
    Ok((stream.into_std()?.into(), own))
}

/// One connection that is being made.
struct Connecting(Rc<Process>);

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.connecting.update(|count| count - 1);
    }
}
