//! The process of the forward proxy. It checks each address after it has resolved the name, and connects to that very
//! address, so that no second answer of DNS can lead elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use site::endpoint::EndpointAddress;
use site::forward_proxy::{ForwardProxy, Host};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::message::{ConnectEvent, ConnectFailure, ConnectRequest, Connected, Failure};
use crate::process::ipc::{AsyncChannel, Channel, Received};
use crate::resolver::{LastAddresses, Resolver, own_addresses};
use crate::service_process::{self, ServiceSetup, WorkerService};
use crate::tasks::spawn_local;

/// Connections that are being made at the same time, for all workers.
const MAX_CONNECTING: usize = 512;

/// Runs the process, and returns its exit code. To be called while there is only one thread.
pub fn run(rules: ForwardProxy, setup: ServiceSetup) -> u8 {
    service_process::run("forward proxy", setup, |resolution, names| {
        let resolver = Resolver::new(resolution, names);
        Connector { rules, resolver, connecting: Cell::new(0) }
    })
}

struct Connector {
    rules: ForwardProxy,
    /// Errors: why no name can be resolved.
    resolver: Result<Resolver, String>,
    connecting: Cell<usize>,
}

struct Worker {
    /// It queues at most an event for each request of the worker.
    channel: AsyncChannel<ConnectEvent>,
    attempts: RefCell<HashMap<u64, AbortHandle>>,
}

impl WorkerService for Connector {
    async fn serve_worker(self: Rc<Connector>, channel: Channel) {
        let Ok(channel) = AsyncChannel::new(channel) else { return };
        let worker = Rc::new(Worker { channel, attempts: RefCell::default() });
        while let Ok(Received::Message(request)) = worker.channel.receive::<ConnectRequest>().await {
            self.on_request(&worker, request);
        }
        worker.attempts.take().values().for_each(AbortHandle::abort);
    }
}

impl Connector {
    fn on_request(self: &Rc<Connector>, worker: &Rc<Worker>, request: ConnectRequest) {
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
            return worker.channel.send(ConnectEvent { number, result: Err(failure) });
        }
        self.connecting.update(|count| count + 1);
        let connecting = Connecting(self.clone());
        let of_task = worker.clone();
        let attempt = spawn_local(async move {
            let result = connecting.0.connect_in_time(&host, port).await;
            of_task.attempts.borrow_mut().remove(&number);
            of_task.channel.send(ConnectEvent { number, result });
        });
        worker.attempts.borrow_mut().insert(number, attempt.abort_handle());
    }

    async fn connect_in_time(&self, host: &Host, port: u16) -> Result<Connected, ConnectFailure> {
        let connected = tokio::time::timeout(self.rules.connect_timeout, self.connect(host, port)).await;
        connected
            .unwrap_or_else(|_| Err(ConnectFailure::new(Failure::TimedOut, "there is no connection in time")))
    }

    /// Tries the addresses that are allowed, one after the other.
    async fn connect(&self, host: &Host, port: u16) -> Result<Connected, ConnectFailure> {
        let addresses = self.addresses(host, port).await?;
        let (mut rejection, mut failed) = (None, None);
        for address in addresses {
            if let Err(why) = self.rules.check_address(host, address.ip()) {
                rejection = Some(ConnectFailure::new(Failure::Rejected, why.to_string()));
                continue;
            }
            match open(address).await {
                Ok((_, from)) if self.is_forbidden_own(address.ip(), from) => {
                    let own = address.ip().to_canonical();
                    let why = format!("{own} is this machine, and no network of \"destinations\" has it");
                    rejection = Some(ConnectFailure::new(Failure::Rejected, why));
                }
                Ok((stream, _)) => return Ok(Connected { stream, address }),
                Err(error) => {
                    failed = Some(ConnectFailure::new(Failure::Failed, format!("{address}: {error}")));
                }
            }
        }
        Err(failed
            .or(rejection)
            .unwrap_or_else(|| ConnectFailure::new(Failure::Failed, "it has no addresses")))
    }

    /// Whether a connection from the address `from` has reached this machine itself, which the rules do not name.
    fn is_forbidden_own(&self, ip: IpAddr, from: IpAddr) -> bool {
        // The kernel connects to the second IPv4 address of a network from the first.
        !self.rules.allows_own_address(ip) && (from == ip || is_own(ip.to_canonical()))
    }

    async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, ConnectFailure> {
        let name = match host {
            Host::Address(ip) => return Ok(vec![SocketAddr::new(*ip, port)]),
            Host::Name(name) => name.clone(),
        };
        let failed =
            |why: &str| ConnectFailure::new(Failure::Failed, format!("it cannot be resolved: {why}"));
        let resolver = self.resolver.as_ref().map_err(|why| failed(why))?;
        let address = EndpointAddress::Host { name, port };
        let resolved = resolver.resolve(&address, &mut LastAddresses::new()).await;
        Ok(resolved.map_err(|why| failed(&why))?.addresses().collect())
    }
}

/// Whether an interface of this machine has the address. The list of all addresses can take milliseconds, so the kernel
/// is asked first: nothing can be bound to the address of another machine.
fn is_own(ip: IpAddr) -> bool {
    let is_foreign =
        matches!(UdpSocket::bind((ip, 0)), Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable);
    !is_foreign && own_addresses().contains(&ip)
}

/// Connects without blocking the loop. Returns also the local address.
async fn open(address: SocketAddr) -> io::Result<(OwnedFd, IpAddr)> {
    let stream = TcpStream::connect(address).await?;
    // Fails only if the connection has ended already.
    _ = stream.set_nodelay(true);
    let own = stream.local_addr()?.ip();
    Ok((stream.into_std()?.into(), own))
}

/// One connection that is being made.
struct Connecting(Rc<Connector>);

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.connecting.update(|count| count - 1);
    }
}
