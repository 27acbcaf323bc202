//! A worker: the loop of one core. It builds the parts that connections need, runs them, and carries out the commands
//! of the main thread. Workers share nothing.

use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cache::store::purge::Purge;
use site::disconnect::Selection;
use site::model::Site;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock;
use crate::connection::acceptor::accept;
use crate::connection::{Connections, Disconnected, idle};
use crate::disk::Closing;
use crate::exchange::Responder;
use crate::files::roots::OpenRoots;
use crate::forward_proxy::ForwardProxy;
use crate::listen::Socket;
use crate::log::access;
use crate::main_thread::MainThreadHandle;
use crate::pool::Pool;
use crate::process::ipc::{Channel, InheritedConnection};
use crate::publishing::changes;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::{Block, Counts, RecentText, Snapshot};
use crate::tasks::spawn_into;
use crate::tls::{ClientTls, ServerTls};
use crate::watch::Watch;

/// The most requests that are shown at once as the last ones, over all workers; and those that each worker may show.
const RECENT: u64 = 64;
const RECENT_OF_EACH: u64 = 8;
/// How long a file that has been deleted stays open in a cache at most.
const DELETED_FOR: Duration = Duration::from_secs(60);
/// The parts of a cache that are looked through for such files, one at each tick.
const PARTS: usize = (DELETED_FOR.as_millis() / clock::TICK.as_millis()) as usize;

/// A command of the main thread.
pub enum WorkerCommand {
    /// Stop accepting, finish running requests, and end.
    Leave,
    /// Send idle connections to the successor, finish running requests, and end. The worker responds when no request
    /// can reach it any more. A second command names another successor.
    HandOver { successor: Channel, closed: oneshot::Sender<()> },
    /// Take over a connection of the predecessor, and give its permit back.
    Admit(InheritedConnection, Option<OwnedSemaphorePermit>),
    /// Send a snapshot of the statistics.
    Count(oneshot::Sender<Snapshot>),
    /// Remove the stored responses in memory that match, and send their number.
    Purge(Purge, oneshot::Sender<u64>),
    /// Send the requests from this number on.
    Recent(u64, oneshot::Sender<RecentText>),
    /// End the selected connections, and send how many there are.
    Disconnect(Arc<Selection>, oneshot::Sender<Disconnected>),
    /// These hosts are in maintenance from now on. The worker responds.
    Maintenance(Arc<Vec<(usize, u32)>>, oneshot::Sender<()>),
    /// Compare each file with the disk at its next request: other files are never served than before.
    ExpireFiles,
    /// Show requests to a watcher from now on, and respond.
    Watch(Arc<Watch>, oneshot::Sender<()>),
    /// Send the last requests, and those that run, as lines for `taipan top`.
    RecentLines(oneshot::Sender<String>),
    /// Respond, to show that the loop runs.
    Ping(oneshot::Sender<()>),
    /// End at once.
    Stop,
}

pub struct Start {
    pub site: Site,
    /// `None`: the site has no TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// For each application of the site.
    pub clients: Vec<Option<ClientTls>>,
    pub roots: OpenRoots,
    pub sockets: WorkerSockets,
    /// What the worker counts in.
    pub counts: Block,
    pub main_thread: MainThreadHandle,
    /// The hosts in maintenance, with the seconds after which clients may try again.
    pub maintenance: Vec<(usize, u32)>,
}

/// The sockets that a worker inherits.
#[derive(Default)]
pub struct WorkerSockets {
    pub listeners: Vec<Socket>,
    /// `None`: the site has no scripts.
    pub spawner: Option<Channel>,
    /// One for each application of the site.
    pub pools: Vec<Channel>,
    /// `None`: the site has no forward proxy.
    pub forward_proxy: Option<Channel>,
    /// `None`: the names of clients are not looked up.
    pub client_names: Option<Channel>,
}

impl WorkerSockets {
    pub fn try_clone(&self) -> io::Result<WorkerSockets> {
        Ok(WorkerSockets {
            listeners: self.listeners.clone(),
            spawner: self.spawner.as_ref().map(Channel::try_clone).transpose()?,
            pools: self.pools.iter().map(Channel::try_clone).collect::<io::Result<_>>()?,
            forward_proxy: self.forward_proxy.as_ref().map(Channel::try_clone).transpose()?,
            client_names: self.client_names.as_ref().map(Channel::try_clone).transpose()?,
        })
    }
}

/// Runs the loop. Calls `on_serving` when the worker accepts connections. Returns after a command to leave, when all
/// connections have ended. Errors: the worker cannot continue.
pub fn run(
    start: Start,
    commands: UnboundedReceiver<WorkerCommand>,
    on_serving: impl FnOnce(),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_unpark(clock::count_turn)
        .build_local(Default::default())?;
    runtime.block_on(work(start, commands, on_serving))
}

async fn work(
    start: Start,
    commands: UnboundedReceiver<WorkerCommand>,
    on_serving: impl FnOnce(),
) -> io::Result<()> {
    let Start { site, tls, clients, roots, sockets, counts, main_thread, maintenance } = start;
    let WorkerSockets { listeners, spawner, pools, forward_proxy, client_names } = sockets;
    let pools = pools.into_iter().zip(clients).collect();
    let services = Services::counting(site, tls, Counts::over(counts), Some(main_thread));
    let (connections, closing) = build(services, roots, spawner, pools, forward_proxy)?;
    connections.responder.set_maintenance(maintenance);
    if let Some(channel) = client_names {
        connections.services.client_names.open(channel)?;
    }
    serve(connections, listeners, closing, commands, on_serving).await
}

/// Builds the parts of a worker. Must be called within its runtime. Also returns the queue of files to close, for
/// `Disk::close_files`.
pub fn build(
    (services, closing): (Rc<Services>, Closing),
    roots: OpenRoots,
    spawner: Option<Channel>,
    pools: Vec<(Channel, Option<ClientTls>)>,
    forward_proxy: Option<Channel>,
) -> io::Result<(Rc<Connections>, Closing)> {
    let log = &services.site.log;
    let reports = log.script_starts.then_some(log.errors.format);
    let spawner = spawner.map(|channel| Spawner::new(channel, reports)).transpose()?;
    let open = |((channel, tls), application)| Pool::new(channel, application, tls);
    let pools = pools.into_iter().zip(&services.site.upstreams).map(open).collect::<io::Result<_>>()?;
    let rules = services.site.forward_proxy.as_ref();
    let open = |(channel, rules)| ForwardProxy::new(channel, rules);
    let forward_proxy = forward_proxy.zip(rules).map(open).transpose()?;
    let responder = Responder::new(services.clone(), roots, spawner, pools, forward_proxy);
    Ok((Rc::new(Connections::new(responder)?), closing))
}

/// Starts the tasks of a worker. A panic in one of them ends the worker.
fn start_tasks(
    connections: &Rc<Connections>,
    listeners: Vec<Socket>,
    closing: Closing,
) -> io::Result<JoinSet<io::Result<()>>> {
    let mut tasks = JoinSet::new();
    for socket in listeners {
        tasks.spawn_local(accept(connections.clone(), socket.into_listener()?));
    }
    spawn_into(&mut tasks, run_ticks(connections.clone()));
    spawn_into(&mut tasks, flush_access_logs(connections.clone()));
    tasks.spawn_local(idle::serve(connections.clone()));
    if let Some(spawner) = &connections.responder.upstreams.spawner {
        spawn_into(&mut tasks, spawner.clone().receive_events());
    }
    for pool in &connections.responder.upstreams.pools {
        spawn_into(&mut tasks, pool.clone().run());
    }
    if let Some(forward_proxy) = &connections.responder.forward_proxy {
        spawn_into(&mut tasks, forward_proxy.clone().run());
    }
    spawn_into(&mut tasks, connections.services.client_names.clone().run());
    if !connections.services.site.published_roots().is_empty() {
        spawn_into(&mut tasks, changes::subscribe().receive(connections.responder.files.clone()));
    }
    spawn_into(&mut tasks, connections.services.disk.clone().close_files(closing));
    Ok(tasks)
}

async fn serve(
    connections: Rc<Connections>,
    listeners: Vec<Socket>,
    closing: Closing,
    mut commands: UnboundedReceiver<WorkerCommand>,
    on_serving: impl FnOnce(),
) -> io::Result<()> {
    let mut tasks = start_tasks(&connections, listeners, closing)?;
    let workers = connections.services.site.workers.map_or(1, NonZeroUsize::get) as u64;
    let recent = RECENT.div_ceil(workers).max(RECENT_OF_EACH);
    on_serving();
    let mut left: Pin<Box<dyn Future<Output = ()>>> = Box::pin(std::future::pending());
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(WorkerCommand::Leave) => left = Box::pin(connections.clone().leave()),
                Some(WorkerCommand::HandOver { successor, closed }) => {
                    connections.handoffs.set_successor(successor);
                    if !connections.services.mode.is_leaving() {
                        left = Box::pin(connections.clone().hand_off(closed));
                    }
                }
                Some(WorkerCommand::Stop) | None => return Ok(()),
                Some(command) => on_command(&connections, command, recent),
            },
            () = &mut left => return Ok(()),
            Some(ended) = tasks.join_next() => ended.map_err(io::Error::other)??,
        }
    }
}

/// Carries out a command after which the worker goes on as before. `recent`: how many requests it shows.
fn on_command(connections: &Rc<Connections>, command: WorkerCommand, recent: u64) {
    let Services { access, .. } = &*connections.services;
    match command {
        WorkerCommand::Admit(connection, permit) => {
            connections.inherit(connection);
            drop(permit);
        }
        WorkerCommand::Count(response) => respond(response, connections.snapshot()),
        WorkerCommand::Purge(purge, removed) => respond(removed, connections.responder.cache.purge(&purge)),
        WorkerCommand::Recent(from, response) => respond(response, access.recent.text(from, recent)),
        WorkerCommand::Disconnect(selection, response) => {
            respond(response, connections.disconnect(&selection));
        }
        WorkerCommand::Maintenance(hosts, switched) => {
            connections.responder.set_maintenance(hosts.to_vec());
            respond(switched, ());
        }
        WorkerCommand::ExpireFiles => connections.responder.files.expire(),
        WorkerCommand::Watch(watch, begun) => {
            access.watches.add(watch);
            respond(begun, ());
        }
        WorkerCommand::RecentLines(response) => respond(response, access.recent.lines(recent)),
        WorkerCommand::Ping(response) => respond(response, ()),
        // `serve` itself takes them.
        WorkerCommand::Leave | WorkerCommand::HandOver { .. } | WorkerCommand::Stop => {}
    }
}

/// Responds to the main thread, which may have given up waiting.
fn respond<T>(to: oneshot::Sender<T>, value: T) {
    _ = to.send(value);
}

/// Checks every deadline, a few times a second, as long as there is a connection.
async fn run_ticks(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        if connections.table.is_empty() && connections.idle.is_empty() {
            connections.services.counts.set_present(0, 0);
            rest(&connections).await;
            connections.on_activity();
        }
        let due = Instant::now() + clock::TICK;
        tokio::time::sleep_until(due).await;
        connections.services.overload.on_tick(due.elapsed(), || connections.requests());
        connections.services.clock.tick();
        let now = connections.services.clock.ticks();
        if connections.is_full() {
            connections.table.measure(now);
        }
        connections.table.sweep(&connections.deadlines, now);
        connections.stream_table.sweep(&connections.deadlines, now);
        if connections.acceptor.is_at_capacity() {
            connections.services.disk.shed(connections.services.site.limits.connections / 2);
        }
        connections.idle.sweep(&connections, now);
        connections.close_unused();
        connections.table.trim();
        connections.responder.sweep_caches(PARTS);
        connections.count_present();
    }
}

/// Waits for a connection. Files that are deleted meanwhile are closed.
async fn rest(connections: &Connections) {
    loop {
        let pause = if connections.responder.has_open_files() { DELETED_FOR } else { Duration::MAX };
        if tokio::time::timeout(pause, connections.table.added()).await.is_ok() {
            return;
        }
        connections.responder.sweep_caches(1);
    }
}

async fn flush_access_logs(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        connections.services.access.begun().await;
        tokio::time::sleep(access::FLUSH_AFTER).await;
        connections.services.access.flush();
    }
}

#[cfg(test)]
mod faults;
