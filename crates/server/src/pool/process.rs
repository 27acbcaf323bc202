//! The process of a pool: it carries out what the `balancer` decides. It starts and ends processes, connects to
//! endpoints, and sends the connections to workers.

mod application_process;
mod balancer;
mod endpoints;
mod health;
mod health_check;
mod resolution;
mod watched_names;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use site::address::Address;
use site::endpoint::Resolution;
use site::model::{NewPrivileges, Scripts, Site};
use site::upstream::{Endpoints, Upstream};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use self::application_process::{ApplicationProcess, ProcessStarter, connect_tcp, connect_unix};
use self::balancer::{Action, Balancer, ConnectError, FirstConnection, KillReason, RequestId, WorkerId};
use self::health_check::Subject;
use self::resolution::Found;
use self::watched_names::WatchedName;
use super::message::{
    Availability, EndpointId, EndpointNotice, EndpointOrigin, Lease, PoolCommand, PoolEvent, PoolRequest,
    Share,
};
use crate::control::{DrainChange, response_text};
use crate::log::LineLimit;
use crate::log::stderr::Errors;
use crate::process::child::{self, Privileges};
use crate::process::ipc::{AsyncChannel, Channel, Received};
use crate::process::privilege::Identity;
use crate::resolver::{SystemNames, alternative};
use crate::spawner::Exit;
use crate::spawner::groups;
use crate::spawner::launch::{Process, how_to_start};
use crate::tasks::spawn_local;
use crate::tls::{ClientReading, ClientTls};
use crate::{clock, log, resolver, sys};

/// Events of workers and processes that wait for the loop.
const EVENTS: usize = 64;

/// What the process of a pool starts with.
pub struct PoolSetup {
    pub upstream: Upstream,
    pub resolution: Resolution,
    pub scripts: Scripts,
    pub master: Channel,
    pub privileges: Privileges,
}

impl PoolSetup {
    /// For the application with this index in the site.
    pub fn of(site: &Site, index: usize, master: Channel, identity: Option<Identity>) -> PoolSetup {
        let mut inside = site.clone();
        site.chroot.iter().for_each(|folder| inside.enter(folder));
        let managed = site.upstreams[index].managed();
        let own = managed.map_or(NewPrivileges::None, |managed| managed.new_privileges);
        PoolSetup {
            upstream: inside.upstreams.swap_remove(index),
            resolution: inside.resolution,
            scripts: inside.scripts,
            master,
            privileges: Privileges::of(site, identity, own),
        }
    }
}

/// Runs until neither a worker nor the master needs the pool, and returns the exit code. To be called while there is
/// only one thread.
pub fn run(setup: PoolSetup) -> u8 {
    let what = setup.upstream.label();
    child::exit_code(&what, serve(setup))
}

fn serve(setup: PoolSetup) -> Result<(), String> {
    let PoolSetup { upstream, resolution, scripts, master, privileges } = setup;
    // A chroot hides its files.
    let names = upstream.has_names().then(SystemNames::read);
    let tls = upstream.checks_by_tls().then(|| ClientReading::of(std::slice::from_ref(&upstream)));
    let tls = tls.and_then(|reading| reading.upstreams.into_iter().next().flatten());
    privileges.assume()?;
    log::write_by_thread();
    let served = child::run_loop(async {
        let pool = PoolManager::new(Rc::new(upstream), scripts, tls)?;
        if let Some(names) = names {
            pool.resolve(resolution, names);
        }
        pool.run(master).await
    });
    log::flush();
    served
}

struct PoolManager {
    upstream: Rc<Upstream>,
    scripts: Scripts,
    /// The TLS of health checks. `None`: they have none.
    tls: Option<ClientTls>,
    balancer: Balancer,
    /// `None`: the endpoints are addresses.
    starter: Option<ProcessStarter>,
    targets: HashMap<EndpointId, Target>,
    /// Those that the log has as down.
    down: HashSet<EndpointId>,
    names: Vec<WatchedName>,
    workers: HashMap<WorkerId, Rc<WorkerConnection>>,
    events: Sender<Event>,
    received: Receiver<Event>,
    /// Of connections that this process has no descriptor for.
    lacks: LineLimit,
    /// Of connections that endpoints have not accepted.
    refusals: LineLimit,
}

/// What an endpoint is.
enum Target {
    Address(Address, EndpointOrigin),
    Process(ApplicationProcess),
}

struct WorkerConnection {
    /// It queues at most an event for each request of the worker, and recalls.
    channel: AsyncChannel<PoolEvent>,
}

enum Event {
    Request(WorkerId, PoolRequest),
    WorkerGone(WorkerId),
    Exit(EndpointId, Exit),
    /// Of the name with this index in `names`.
    Resolved(usize, Found),
    /// A health check has ended. Errors: why it has failed.
    Checked(EndpointId, Result<(), String>),
}

impl PoolManager {
    /// Needs the runtime. Errors: no process of the application can be started at all.
    fn new(upstream: Rc<Upstream>, scripts: Scripts, tls: Option<ClientTls>) -> io::Result<PoolManager> {
        let (starter, addresses) = match &upstream.endpoints {
            Endpoints::Managed(managed) => {
                let starter = ProcessStarter::new(managed, &scripts.resources, &scripts.spool)?;
                (Some(starter), &[][..])
            }
            Endpoints::External(external) => (None, &external.addresses[..]),
        };
        let now = Instant::now();
        let mut balancer = Balancer::new(upstream.clone(), now);
        let (mut targets, mut names) = (HashMap::new(), Vec::new());
        for (index, address) in addresses.iter().enumerate() {
            let Some(socket) = address.socket() else {
                names.push(WatchedName::new(index, address.clone()));
                continue;
            };
            let origin = EndpointOrigin { index, resolved: None };
            let share =
                Share { priority: 0, weight: u32::from(upstream.weight(index)) * resolver::Target::WEIGHT };
            let id = balancer.add_address(socket.to_string(), share, now);
            targets.insert(id, Target::Address(socket.clone(), origin));
        }
        balancer.set_unresolved(names.len());
        let (events, received) = channel(EVENTS);
        let workers = HashMap::new();
        Ok(PoolManager {
            upstream,
            scripts,
            tls,
            balancer,
            starter,
            targets,
            down: HashSet::new(),
            names,
            workers,
            events,
            received,
            lacks: LineLimit::default(),
            refusals: LineLimit::default(),
        })
    }

    async fn run(mut self, master: Channel) -> io::Result<()> {
        let mut master = Some(sys::watch(master, Interest::READABLE)?);
        loop {
            let now = Instant::now();
            // Bounded: each action ends a wait, starts or ends a process, or marks an endpoint.
            while let Some(action) = self.balancer.next(now) {
                self.perform(action);
            }
            if self.balancer.is_over() {
                return Ok(());
            }
            let deadline = self.balancer.deadline(now);
            let command = async {
                match &master {
                    Some(master) => PoolCommand::receive(master).await,
                    None => std::future::pending().await,
                }
            };
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = command => match command {
                    Some(PoolCommand::AddWorker(channel)) => self.add_worker(channel),
                    Some(PoolCommand::Log(command)) => command.carry_out(),
                    Some(PoolCommand::Drain { change, endpoint, to }) => self.drain(change, &endpoint, to),
                    None => {
                        master = None;
                        self.balancer.on_master_gone();
                    }
                },
                Some(event) = self.received.recv() => self.on_event(event),
                () = due => {}
            }
        }
    }

    fn drain(&mut self, change: DrainChange, endpoint: &str, to: OwnedFd) {
        let now = Instant::now();
        let is_draining = change == DrainChange::Drain;
        let result = match self.balancer.set_draining(endpoint, is_draining, now) {
            true if is_draining => Ok(format!("{endpoint} gets no more requests")),
            true => Ok(format!("{endpoint} gets requests again")),
            false => {
                let names: Vec<String> = self.balancer.notices(now).map(|notice| notice.name).collect();
                let endpoint = endpoint.escape_debug();
                Err(format!("{} has no endpoint \"{endpoint}\", but {}", self.upstream, names.join(", ")))
            }
        };
        // The client may have given up waiting.
        _ = UnixStream::from(to).write_all(response_text(result).as_bytes());
    }

    fn add_worker(&mut self, channel: OwnedFd) {
        let Ok(channel) = AsyncChannel::new(Channel::from(channel)) else { return };
        let id = self.balancer.add_worker();
        let worker = Rc::new(WorkerConnection { channel });
        self.workers.insert(id, worker.clone());
        let events = self.events.clone();
        spawn_local(async move { receive_requests(id, &worker, &events).await });
    }

    fn on_event(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Request(worker, request) => {
                if matches!(request, PoolRequest::Failed { .. }) {
                    self.doubt_names();
                }
                self.balancer.on_request(worker, request, now);
            }
            Event::WorkerGone(worker) => {
                self.workers.remove(&worker);
                self.balancer.on_worker_gone(worker, now);
            }
            Event::Exit(id, exit) => self.on_exit(id, exit, now),
            Event::Resolved(at, Ok(addresses)) => self.on_resolved(at, &addresses, now),
            Event::Resolved(at, Err(why)) => self.on_unresolved(at, &why),
            Event::Checked(id, found) => {
                let found = found.as_ref().copied().map_err(String::as_str);
                self.balancer.on_checked(id, found, now);
            }
        }
    }

    fn on_exit(&mut self, id: EndpointId, exit: Exit, now: Instant) {
        self.check_startup(id, now);
        let pause = self.balancer.on_exit(id, exit, now);
        let Some(Target::Process(process)) = self.targets.remove(&id) else { return };
        // The process may have left others of its group behind.
        process.signal(libc::SIGKILL);
        let Some(pause) = pause else { return };
        let how = match exit {
            Exit::Code(code) => format!("exit status {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::OutOfMemory | Exit::NotStarted(_) | Exit::Lost => "the cause is unknown".to_owned(),
        };
        let (pid, age) = (process.process.pid, process.began.elapsed().as_secs_f64());
        self.log_failure(&format_args!("process {pid} has ended after {age:.1} s: {how}"), pause);
    }

    fn perform(&mut self, action: Action) {
        let now = Instant::now();
        match action {
            Action::Connect { request, lease } => self.connect(request, lease, now),
            Action::Reject { request: RequestId { worker, number }, why } => {
                self.send(worker, PoolEvent::Rejected { number, why });
            }
            Action::Recall { worker, endpoint } => self.send(worker, PoolEvent::Recall { endpoint }),
            Action::Retire { worker, endpoint } => self.send(worker, PoolEvent::Retire { endpoint }),
            Action::Announce(id) => self.announce(id, now),
            Action::Introduce(worker) => self.introduce(worker, now),
            Action::CheckHealth(id) => self.check_health(id),
            Action::Start => self.start(now),
            Action::CheckStartup(id) => self.check_startup(id, now),
            Action::CheckMemory(id) => {
                if let Some(bytes) = self.process(id).and_then(ApplicationProcess::memory) {
                    self.balancer.on_memory(id, bytes);
                }
            }
            Action::ReportHang(id) => self.report(
                id,
                format_args!(
                    "has not responded in time to as many requests in a row as it has at a time \
                     (`concurrent`), and is replaced"
                ),
            ),
            Action::Terminate(id) => self.signal(id, libc::SIGTERM),
            Action::Kill(id, KillReason::Grace) => self.signal(id, libc::SIGKILL),
            Action::Kill(id, KillReason::NotAccepting) => {
                let timeout = self.upstream.managed().map_or(0.0, |managed| managed.start.as_secs_f64());
                let what = format_args!("has not accepted a connection in {timeout:.1} s, and is killed");
                self.report(id, what);
                self.signal(id, libc::SIGKILL);
            }
        }
    }

    /// Writes to the error log what a process has done. `what`: the rest of the sentence.
    fn report(&self, id: EndpointId, what: std::fmt::Arguments<'_>) {
        if let Some(process) = self.process(id) {
            let (label, pid) = (self.upstream.label(), process.process.pid);
            log::error(format_args!("{label}: process {pid} {what}"));
        }
    }

    fn connect(&mut self, request: RequestId, lease: Lease, now: Instant) {
        let origin = match self.targets.get(&lease.endpoint) {
            Some(Target::Address(_, origin)) => *origin,
            Some(Target::Process(_)) | None => EndpointOrigin { index: 0, resolved: None },
        };
        match self.open(lease.endpoint) {
            Ok(stream) => {
                self.balancer.on_connected(request, lease, now);
                let RequestId { worker, number } = request;
                self.send(worker, PoolEvent::Leased { number, lease, origin, stream: Some(stream) });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.balancer.on_connect_failed(request, lease.endpoint, &ConnectError::Busy, now);
            }
            // The endpoint has no part in it, and the request waits.
            Err(error) if is_own_lack(&error) => {
                self.balancer.on_connect_failed(request, lease.endpoint, &ConnectError::Busy, now);
                if let Some(omitted) = self.lacks.admit(clock::wall()) {
                    log::error(format_args!(
                        "{}: requests wait, because this process cannot connect: {error}; raise \
                         `ulimit -Hn` (LimitNOFILE in a unit){omitted}",
                        self.upstream.label()
                    ));
                }
            }
            Err(error) => {
                let reason = ConnectError::Unreachable(error.to_string());
                self.balancer.on_connect_failed(request, lease.endpoint, &reason, now);
                self.doubt_names();
                // Without another endpoint, each further request fails, too.
                let Some(omitted) = self.refusals.admit(clock::wall()) else { return };
                let target = match self.targets.get(&lease.endpoint) {
                    Some(Target::Address(address, _)) => address.to_string(),
                    Some(Target::Process(process)) => format!("process {}", process.process.pid),
                    None => return,
                };
                let label = self.upstream.label();
                log::error(format_args!("{label}: cannot connect to {target}: {error}{omitted}"));
            }
        }
    }

    fn connect_tcp(&self, address: SocketAddr, origin: EndpointOrigin) -> io::Result<OwnedFd> {
        let other = self.names.iter().find(|name| name.index == origin.index);
        let other = other.and_then(|name| alternative(&name.address, address));
        match (connect_tcp(address), other) {
            (Err(_), Some(other)) => connect_tcp(other),
            (connected, _) => connected,
        }
    }

    /// A connection that may still be in progress.
    fn open(&self, id: EndpointId) -> io::Result<OwnedFd> {
        match self.targets.get(&id) {
            Some(Target::Address(Address::Unix(path), _)) => connect_unix(path),
            Some(Target::Address(Address::Tcp(address), origin)) => self.connect_tcp(*address, *origin),
            Some(Target::Process(process)) => process.connect(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn check_health(&self, id: EndpointId) {
        let address = match self.targets.get(&id) {
            Some(Target::Address(_, origin)) => origin.index,
            Some(Target::Process(_)) | None => 0,
        };
        let (socket, upstream, events) = (self.open(id), self.upstream.clone(), self.events.clone());
        let tls = self.tls.clone();
        spawn_local(async move {
            let Some(checks) = &upstream.health.checks else { return };
            let subject = Subject { upstream: &upstream, address, tls: tls.as_ref() };
            let found = subject.check(socket, checks).await;
            // Fails only when the pool ends.
            _ = events.send(Event::Checked(id, found)).await;
        });
    }

    /// Tells all workers how an endpoint is now.
    fn announce(&mut self, id: EndpointId, now: Instant) {
        let notice = self.balancer.notices(now).find(|notice| notice.id == id);
        if let Some(notice) = notice {
            self.log_state(&notice);
            for worker in self.workers.keys() {
                self.send(*worker, PoolEvent::Endpoint(notice.clone()));
            }
        }
    }

    /// Logs that an address is out of service, or no longer. It is neither with each failure of a request.
    fn log_state(&mut self, notice: &EndpointNotice) {
        let EndpointNotice { id, name, state, reason, .. } = notice;
        self.down.retain(|id| self.targets.contains_key(id));
        match state {
            Availability::Down if self.down.insert(*id) => {
                log::warn(format_args!("{}: {name} is down: {reason}", self.upstream));
            }
            Availability::Up if self.down.remove(id) => {
                log::warn(format_args!("{}: {name} is used again", self.upstream));
            }
            Availability::Up | Availability::Down | Availability::Draining => {}
        }
    }

    /// Tells a worker, or all of them, which endpoints there are.
    fn introduce(&self, worker: Option<WorkerId>, now: Instant) {
        let workers = self.workers.keys().filter(|id| worker.is_none_or(|worker| worker == **id));
        for id in workers {
            let count = self.balancer.notices(now).count() as u64;
            self.send(*id, PoolEvent::Endpoints { count });
            self.balancer.notices(now).for_each(|notice| self.send(*id, PoolEvent::Endpoint(notice)));
        }
    }

    fn start(&mut self, now: Instant) {
        let started = self.starter.as_mut().map(|starter| {
            let (process, output) = starter.start()?;
            let watched = process.watch()?;
            io::Result::Ok((process, output, watched))
        });
        match started {
            None => {}
            Some(Ok((process, output, watched))) => {
                let pid = process.process.pid;
                let id = self.balancer.on_started(format!("process {pid}"), now);
                self.targets.insert(id, Target::Process(process));
                let who = format!("{}, process {pid}", self.upstream.label()).into();
                let errors = Errors::new(output, who, &self.scripts);
                let events = self.events.clone();
                spawn_local(async move { watch(id, watched, errors, &events).await });
            }
            Some(Err(error)) => {
                let pause = self.balancer.on_start_failed(now);
                let program = self.upstream.managed().and_then(|managed| managed.command.first());
                let program = program.map_or("", String::as_str);
                // Once: it is tried again and again.
                let errno = error.raw_os_error().filter(|_| pause.is_zero());
                let what_to_do = errno.map_or("", how_to_start);
                self.log_failure(&format_args!("cannot start {program}: {error}{what_to_do}"), pause);
            }
        }
    }

    fn check_startup(&mut self, id: EndpointId, now: Instant) {
        let Some(process) = self.process(id) else { return };
        let found = match process.has_unaccepted() {
            true => FirstConnection::Waiting,
            false => FirstConnection::Accepted,
        };
        self.balancer.on_startup_checked(id, found, now);
    }

    fn process(&self, id: EndpointId) -> Option<&ApplicationProcess> {
        match self.targets.get(&id) {
            Some(Target::Process(process)) => Some(process),
            Some(Target::Address(..)) | None => None,
        }
    }

    fn signal(&self, id: EndpointId, signal: libc::c_int) {
        self.process(id).into_iter().for_each(|process| process.signal(signal));
    }

    fn send(&self, worker: WorkerId, event: PoolEvent) {
        if let Some(worker) = self.workers.get(&worker) {
            worker.channel.send(event);
        }
    }

    fn log_failure(&self, what: &dyn std::fmt::Display, pause: Duration) {
        let label = self.upstream.label();
        if pause.is_zero() {
            log::error(format_args!("{label}: {what}"));
        } else {
            let pause = pause.as_secs_f64();
            log::error(format_args!("{label}: {what}; nothing is started for {pause:.1} s"));
        }
    }
}

async fn receive_requests(id: WorkerId, worker: &WorkerConnection, events: &Sender<Event>) {
    loop {
        let event = match worker.channel.receive().await {
            Ok(Received::Message(request)) => Event::Request(id, request),
            Ok(Received::End) | Err(_) => Event::WorkerGone(id),
        };
        let is_last = matches!(event, Event::WorkerGone(_));
        // Fails only when the pool ends.
        if events.send(event).await.is_err() || is_last {
            return;
        }
    }
}

/// Logs what a process writes until the process has ended, and reaps it.
async fn watch(id: EndpointId, process: AsyncFd<Rc<Process>>, mut errors: Errors, events: &Sender<Event>) {
    loop {
        tokio::select! {
            ready = process.readable() => {
                ready.into_iter().for_each(|mut ready| ready.clear_ready());
                if let Some(exit) = groups::wait(process.get_ref()) {
                    errors.take_all();
                    // Fails only when the pool ends.
                    _ = events.send(Event::Exit(id, exit)).await;
                    return;
                }
            }
            () = errors.take() => {}
        }
    }
}

/// Whether this process lacks a descriptor or memory for a connection.
fn is_own_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}
