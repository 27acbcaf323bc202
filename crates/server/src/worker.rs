//! A worker: the loop of one core. It builds the parts that connections need, runs them, and obeys the process's main
//! thread. Nothing here is shared with other workers.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use site::model::Site;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock;
use crate::connection::acceptor::accept;
use crate::connection::{Connections, idle};
use crate::disk::Closing;
use crate::exchange::Responder;
use crate::files::roots::OpenRoots;
use crate::ipc::{Channel, InheritedConnection};
use crate::listen::Socket;
use crate::log::access;
use crate::pool::Pool;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Snapshot;

/// Helper threads that have nothing to do end after this.
const HELPER_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a helper thread's stack.
const HELPER_STACK: usize = 256 * 1024;

/// What a worker is told.
pub enum WorkerCommand {
    /// Accept no more, finish what runs, and end.
    Leave,
    /// Give connections between two requests to another process, finish what runs, and end; say when no
    /// request can come here any more. Told again, it is yet another process from then on.
    HandOver { successor: Channel, closed: oneshot::Sender<()> },
    /// Take in a connection of an earlier process.
    Admit(InheritedConnection),
    /// Say what has been counted.
    Count(oneshot::Sender<Snapshot>),
    /// Say that the loop turns.
    Ping(oneshot::Sender<()>),
    /// End.
    Stop,
}

/// What a worker begins with.
pub struct Start {
    pub site: Site,
    pub sockets: Vec<Socket>,
    pub roots: OpenRoots,
    /// To what starts scripts, where there are any.
    pub spawner: Option<Channel>,
    /// To the pools of applications.
    pub pools: Vec<Channel>,
}

/// The loop. Tells `serving` when it accepts connections; returns when it has been told to leave and
/// everybody has left. Errors: it cannot go on.
pub fn run(
    start: Start,
    commands: UnboundedReceiver<WorkerCommand>,
    serving: impl FnOnce(),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(start.site.limits.disk_threads)
        .thread_keep_alive(HELPER_IDLE)
        .thread_stack_size(HELPER_STACK)
        .thread_name("disk")
        .build_local(Default::default())?;
    let done = runtime.block_on(work(start, commands, serving));
    // A helper that hangs on a dead disk must not keep the process.
    runtime.shutdown_background();
    done
}

async fn work(
    start: Start,
    commands: UnboundedReceiver<WorkerCommand>,
    serving: impl FnOnce(),
) -> io::Result<()> {
    let Start { site, sockets, roots, spawner, pools } = start;
    let (connections, closing) = build(site, roots, spawner, pools)?;
    live(connections, sockets, closing, commands, serving).await
}

/// The parts of a worker, within its runtime. Also the files that are to be closed, for `Disk::close_files`.
pub fn build(
    site: Site,
    roots: OpenRoots,
    spawner: Option<Channel>,
    pools: Vec<Channel>,
) -> io::Result<(Rc<Connections>, Closing)> {
    let (services, closing) = Services::new(site);
    let mut responder = Responder::of_files(services.clone(), roots);
    let upstreams = &mut responder.upstreams;
    upstreams.spawner = spawner.map(Spawner::new).transpose()?;
    let open = |(channel, application)| Pool::new(channel, application);
    let applications = &services.site.upstreams;
    upstreams.pools = pools.into_iter().zip(applications).map(open).collect::<io::Result<_>>()?;
    Ok((Rc::new(Connections::new(responder)?), closing))
}

async fn live(
    connections: Rc<Connections>,
    sockets: Vec<Socket>,
    closing: Closing,
    mut commands: UnboundedReceiver<WorkerCommand>,
    serving: impl FnOnce(),
) -> io::Result<()> {
    // What a worker cannot be without. A panic in one of them ends it.
    let mut tasks = JoinSet::new();
    for socket in sockets {
        tasks.spawn_local(accept(connections.clone(), socket.listen()?));
    }
    tasks.spawn_local(keep_time(connections.clone()));
    tasks.spawn_local(hand_over_lines(connections.clone()));
    tasks.spawn_local(idle::serve(connections.clone()));
    if let Some(spawner) = &connections.responder.upstreams.spawner {
        tasks.spawn_local(spawner.clone().listen());
    }
    for pool in &connections.responder.upstreams.pools {
        tasks.spawn_local(pool.clone().run());
    }
    let disk = connections.services.disk.clone();
    tasks.spawn_local(disk.close_files(closing));
    serving();
    let mut left: Pin<Box<dyn Future<Output = ()>>> = Box::pin(std::future::pending());
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(WorkerCommand::Leave) => left = Box::pin(connections.clone().leave()),
                Some(WorkerCommand::HandOver { successor, closed }) => {
                    connections.set_successor(successor);
                    if !connections.is_leaving() {
                        left = Box::pin(connections.clone().hand_over(closed));
                    }
                }
                Some(WorkerCommand::Admit(connection)) => connections.admit(connection),
                // Whoever has asked may have stopped waiting.
                Some(WorkerCommand::Count(answer)) => _ = answer.send(connections.snapshot()),
                Some(WorkerCommand::Ping(answer)) => _ = answer.send(()),
                Some(WorkerCommand::Stop) | None => return Ok(()),
            },
            () = &mut left => return Ok(()),
            Some(ended) = tasks.join_next() => ended.map_err(io::Error::other)??,
        }
    }
}

/// Looks at every deadline, a few times a second, as long as there is a connection.
async fn keep_time(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        if connections.table.is_empty() && connections.idle.is_empty() {
            connections.table.taken().await;
        }
        let due = Instant::now() + clock::TICK;
        tokio::time::sleep_until(due).await;
        connections.services.overload.on_tick(due.elapsed());
        connections.services.clock.tick();
        let now = connections.services.clock.ticks();
        if connections.is_full() {
            connections.table.measure(now);
        }
        connections.table.sweep(&connections.deadlines, now);
        if connections.acceptor.is_at_capacity() {
            connections.services.disk.shed(connections.services.site.limits.connections / 2);
        }
        connections.idle.sweep(&connections.deadlines, now, &connections.services.counts);
        connections.table.trim();
    }
}

async fn hand_over_lines(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        connections.services.access.begun().await;
        tokio::time::sleep(access::FLUSH_AFTER).await;
        connections.services.access.flush();
    }
}

#[cfg(test)]
mod faults;
