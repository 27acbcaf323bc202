//! The serving process: workers, the log thread, and a main thread that does what the master orders. Each
//! configuration has a process of its own, which begins with what the master gives it and never asks for
//! more: no privilege, no configuration, no address.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use site::model::{Sandbox, Sink, Site, Symlinks};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::files::beneath::Root;
use crate::files::roots::OpenRoots;
use crate::ipc::{Channel, Form, GenerationEvent, InheritedConnection, MasterCommand, Received};
use crate::listen::Socket;
use crate::log::{self, OpenSink};
use crate::privilege::{self, Identity};
use crate::sandbox::{self, Confinement, Connects, Demand, Pipes, Reads};
use crate::stats::Report;
use crate::supervisor::{self, RestartLimit};
use crate::worker::{self, Start, WorkerCommand};
use crate::{connection, sys};

/// How long a worker that is told to stop may take to write its last log lines.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// How long a worker may take to answer a question.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of each worker's heap that stay with it: a piece of an answer of a script is a few times 64 KiB.
const KEPT_HEAP: i32 = 1024 * 1024;
/// As a shell says of a program that SIGINT ended.
pub const INTERRUPTED: u8 = 130;
const FAILED: u8 = 1;

/// What a serving process begins with.
pub struct Beginning {
    pub site: Site,
    /// That of `taipan DIR`: the user that serves may have no way to it.
    pub folder: Option<Root>,
    /// Of each worker.
    pub sockets: Vec<Vec<Socket>>,
    pub sinks: Vec<OpenSink>,
    /// `None`: it stays who it is.
    pub identity: Option<Identity>,
    pub master: Channel,
    /// Where the connections of an earlier process come from.
    pub predecessor: Option<Channel>,
    /// To what starts scripts, of each worker; none where there are no scripts.
    pub spawners: Vec<Channel>,
    /// To the pools of applications, of each worker.
    pub pools: Vec<Vec<Channel>>,
    /// What scripts have to do without, and why.
    pub complaint: Option<String>,
}

/// Serves until it is told to end, and gives the exit code. To be called while there is one thread only.
pub fn run(beginning: Beginning) -> u8 {
    let master = beginning.master.try_clone();
    match begin(beginning) {
        Ok(workers) => workers.run(),
        Err(lines) => {
            // A master that is gone need not be told.
            _ = master.and_then(|master| master.send(&GenerationEvent::Failed(lines)));
            FAILED
        }
    }
}

/// Gives up what is not needed, and starts everybody.
fn begin(beginning: Beginning) -> Result<Workers, Vec<String>> {
    let line = |text: String| vec![text];
    let Beginning {
        mut site,
        folder,
        sockets,
        sinks,
        identity,
        master,
        predecessor,
        spawners,
        pools,
        complaint,
    } = beginning;
    // What scripts may have is shared out among so many.
    site.workers = NonZeroUsize::new(sockets.len());
    if let Some(folder) = site.chroot.clone() {
        privilege::chroot(&folder).map_err(line)?;
        site.enter(&folder);
    }
    identity.map_or(Ok(()), |identity| identity.assume()).map_err(line)?;
    // Scripts may be the same user, and might trace it or read its memory. What the master has been set to is not
    // what the kernel has made of it when the user was changed (fs.suid_dumpable).
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| line(format!("cannot be closed to other processes: {e}")))?;
    let roots = OpenRoots::with(&site, folder);
    let problems: Vec<String> = roots.problems().into_iter().map(|(_, why)| why).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    // Nearly all that can go wrong has not, and afterwards this cannot be done.
    for socket in sockets.iter().flatten() {
        socket.open().map_err(|e| line(format!("cannot listen: {e}")))?;
    }
    let active = sandbox::apply(&confinement(&site, &roots), demand(site.sandbox)).map_err(line)?;
    log::start(&site.log, sinks).map_err(line)?;
    if site.sandbox != Sandbox::Off {
        active.missing.iter().for_each(|what| log::warn(format_args!("sandbox: {what}")));
    }
    complaint.iter().for_each(|what| log::warn(format_args!("{what}")));
    for root in roots.silent() {
        let root = root.display();
        log::warn(format_args!("the root {root} does not answer; it is tried again when it is asked for"));
    }
    log_panics();
    sys::keep_heap(KEPT_HEAP);
    connection::client::limit_connections(site.limits.connections_per_client, &site.trusted_proxies);
    let (tell, told) = unbounded_channel();
    let mut workers = Workers {
        workers: Vec::new(),
        tell,
        told,
        master,
        predecessor,
        successor: None,
        site,
        roots,
        began: Instant::now(),
        phase: Phase::Starting,
        restart_limit: RestartLimit::of_servers(),
    };
    let (mut spawners, mut pools) = (spawners.into_iter(), pools.into_iter());
    for sockets in sockets {
        let pools = pools.next().unwrap_or_default();
        workers
            .spawn(sockets, spawners.next(), pools)
            .map_err(|e| line(format!("cannot start a worker: {e}")))?;
    }
    Ok(workers)
}

fn demand(sandbox: Sandbox) -> Demand {
    match sandbox {
        Sandbox::Off => Demand::Off,
        Sandbox::On => Demand::Preferred,
        Sandbox::Required => Demand::Required,
    }
}

/// What serving needs.
fn confinement<'a>(site: &'a Site, roots: &'a OpenRoots) -> Confinement<'a> {
    let routes = || site.hosts.iter().flat_map(|host| host.routes.iter());
    let leads_out = routes().any(|r| matches!(r.files.symlinks, Symlinks::Follow | Symlinks::Owner));
    // Of a root that does not answer, the folder that it is in does.
    let silent: Vec<&Path> = roots.silent().collect();
    let reach = |root: &'a Path| if silent.contains(&root) { root.parent().unwrap_or(root) } else { root };
    let reads = match leads_out {
        true => Reads::Everywhere,
        false => Reads::Beneath(site.roots().into_iter().map(reach).collect()),
    };
    let own = site.hosts.iter().filter_map(|host| host.access_log.as_ref());
    let mut sinks = own.chain(&site.log.access).map(|log| &log.sink).chain([&site.log.error]);
    // A log daemon that was restarted is connected to anew.
    let connects = if sinks.any(|s| *s == Sink::Syslog) { Connects::Unix } else { Connects::Nowhere };
    let pipes = if site.has_scripts() { Pipes::Made } else { Pipes::None };
    Confinement { reads, open: roots.given(), connects, pipes }
}

/// The workers of a process.
struct Workers {
    workers: Vec<WorkerHandle>,
    tell: UnboundedSender<(usize, WorkerEvent)>,
    told: UnboundedReceiver<(usize, WorkerEvent)>,
    master: Channel,
    predecessor: Option<Channel>,
    /// Where connections go, when another process serves.
    successor: Option<AsyncFd<Channel>>,
    site: Site,
    roots: OpenRoots,
    began: Instant,
    phase: Phase,
    restart_limit: RestartLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not all workers serve yet. One that fails ends the process: what has never been served is refused.
    Starting,
    Serving,
    /// No worker is started any more.
    Leaving,
}

struct WorkerHandle {
    commands: UnboundedSender<WorkerCommand>,
    /// For whoever takes its place.
    sockets: Vec<Socket>,
    spawner: Option<Channel>,
    pools: Vec<Channel>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Serving,
    /// It has failed; another one takes its place then.
    Failed(tokio::time::Instant),
    Gone,
}

/// What a worker says.
enum WorkerEvent {
    Serving,
    Left,
    /// It panicked, or cannot go on.
    Failed(String),
}

impl WorkerHandle {
    fn restart(&self) -> Option<tokio::time::Instant> {
        match self.state {
            State::Failed(at) => Some(at),
            State::Starting | State::Serving | State::Gone => None,
        }
    }
}

impl Workers {
    fn spawn(
        &mut self,
        sockets: Vec<Socket>,
        spawner: Option<Channel>,
        pools: Vec<Channel>,
    ) -> io::Result<()> {
        let number = self.workers.len();
        let commands = self.start_worker(number, &sockets, spawner.as_ref(), &pools)?;
        self.workers.push(WorkerHandle { commands, sockets, spawner, pools, state: State::Starting });
        Ok(())
    }

    fn start_worker(
        &self,
        number: usize,
        sockets: &[Socket],
        spawner: Option<&Channel>,
        pools: &[Channel],
    ) -> io::Result<UnboundedSender<WorkerCommand>> {
        let spawner = spawner.map(Channel::try_clone).transpose()?;
        let pools = pools.iter().map(Channel::try_clone).collect::<io::Result<Vec<_>>>()?;
        let sockets = sockets.iter().map(Socket::try_clone).collect::<io::Result<Vec<_>>>()?;
        let (commands, receiver) = unbounded_channel();
        let start = Start { site: self.site.clone(), sockets, roots: self.roots.clone(), spawner, pools };
        let tell = self.tell.clone();
        let work = move || {
            let serving = || _ = tell.send((number, WorkerEvent::Serving));
            let ended = catch_unwind(AssertUnwindSafe(|| worker::run(start, receiver, serving)));
            let told = match ended {
                Ok(Ok(())) => WorkerEvent::Left,
                Ok(Err(error)) => WorkerEvent::Failed(error.to_string()),
                Err(_) => WorkerEvent::Failed("it panicked".to_owned()),
            };
            _ = tell.send((number, told));
        };
        std::thread::Builder::new().name(format!("worker {number}")).spawn(work)?;
        Ok(commands)
    }

    fn run(mut self) -> u8 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let code = runtime.and_then(|runtime| runtime.block_on(self.work()));
        log::flush();
        code.unwrap_or_else(|error| {
            _ = self.master.send(&GenerationEvent::Failed(vec![format!("cannot go on: {error}")]));
            FAILED
        })
    }

    async fn work(&mut self) -> io::Result<u8> {
        let master = sys::watch(self.master.try_clone()?, Interest::READABLE)?;
        let mut predecessor =
            self.predecessor.take().map(|a| sys::watch(a, Interest::READABLE)).transpose()?;
        let mut stopped = None;
        let mut next = 0;
        loop {
            let restart = self.workers.iter().filter_map(WorkerHandle::restart).min();
            tokio::select! {
                command = receive::<MasterCommand>(Some(&master)) => match command? {
                    Received::Message(MasterCommand::Stop) => {
                        self.start_no_more();
                        self.send_to_all(|| WorkerCommand::Stop);
                        stopped = Some(tokio::time::Instant::now() + STOP_PATIENCE);
                    }
                    Received::Message(command) => self.on_command(command),
                    // Without its master nobody could tell it to end.
                    Received::End => return Ok(FAILED),
                },
                connection = receive::<InheritedConnection>(predecessor.as_ref()), if predecessor.is_some() => match connection {
                    Ok(Received::Message(connection)) => {
                        next = self.serving_after(next);
                        self.place(connection, next).await;
                    }
                    Ok(Received::End) | Err(_) => predecessor = None,
                },
                Some((number, told)) = self.told.recv() => {
                    match told {
                        WorkerEvent::Serving => self.serving(number)?,
                        WorkerEvent::Left => self.workers[number].state = State::Gone,
                        WorkerEvent::Failed(why) => self.failed(number, &why)?,
                    }
                }
                () = until(restart) => self.restart()?,
                () = until(stopped) => return Ok(INTERRUPTED),
            }
            let everybody_left = self.workers.iter().all(|m| m.state == State::Gone);
            // Earlier processes may not have heard yet that there is another one to send connections to.
            let is_needed = self.successor.is_some() && predecessor.is_some();
            if everybody_left && !is_needed {
                return Ok(if stopped.is_some() { INTERRUPTED } else { 0 });
            }
        }
    }

    /// Gives a connection of an earlier process to a worker, or to whoever serves from now on.
    async fn place(&self, connection: InheritedConnection, worker: usize) {
        let Some(successor) = &self.successor else {
            _ = self.workers[worker].commands.send(WorkerCommand::Admit(connection));
            return;
        };
        // A successor that has ended takes nobody any more.
        _ = successor.async_io(Interest::WRITABLE, |successor| successor.send(&connection)).await;
    }

    /// The next worker in turn, of those that serve.
    fn serving_after(&self, last: usize) -> usize {
        let count = self.workers.len();
        let mut others = (1..=count).map(|step| (last + step) % count);
        others.find(|at| self.workers[*at].state == State::Serving).unwrap_or(last)
    }

    fn serving(&mut self, number: usize) -> io::Result<()> {
        self.workers[number].state = State::Serving;
        if self.phase != Phase::Starting || self.workers.iter().any(|m| m.state == State::Starting) {
            return Ok(());
        }
        self.phase = Phase::Serving;
        self.master.send(&GenerationEvent::Ready)
    }

    /// A worker that panics outside of a connection, or cannot go on, is replaced, however often: its
    /// connections are lost, but not those of the others. Errors: nothing has been served yet.
    fn failed(&mut self, number: usize, why: &str) -> io::Result<()> {
        let what = format!("worker {number} has ended: {why}");
        self.workers[number].state = match self.phase {
            Phase::Starting => return Err(io::Error::other(what)),
            Phase::Serving => {
                let pause = self.restart_limit.count(Instant::now());
                log::error(format_args!("{what}; another one takes its place {}", supervisor::text(pause)));
                State::Failed(tokio::time::Instant::now() + pause)
            }
            Phase::Leaving => {
                log::error(format_args!("{what}"));
                State::Gone
            }
        };
        Ok(())
    }

    /// Starts workers in the place of those whose time it is.
    fn restart(&mut self) -> io::Result<()> {
        let now = tokio::time::Instant::now();
        for number in 0..self.workers.len() {
            let WorkerHandle { sockets, spawner, pools, .. } = &self.workers[number];
            if self.workers[number].restart().is_none_or(|at| at > now) {
                continue;
            }
            match self.start_worker(number, sockets, spawner.as_ref(), pools) {
                Ok(commands) => {
                    self.workers[number].commands = commands;
                    self.workers[number].state = State::Serving;
                }
                Err(error) => self.failed(number, &format!("cannot be started ({error})"))?,
            }
        }
        Ok(())
    }

    fn start_no_more(&mut self) {
        self.phase = Phase::Leaving;
        for worker in self.workers.iter_mut().filter(|worker| worker.restart().is_some()) {
            worker.state = State::Gone;
        }
    }

    fn on_command(&mut self, command: MasterCommand) {
        match command {
            MasterCommand::Leave => {
                self.close_spares();
                self.successor = None;
                self.send_to_all(|| WorkerCommand::Leave);
            }
            MasterCommand::HandOver(successor) => {
                self.close_spares();
                let successor = Channel::from(successor);
                let answers = self.ask(|closed| match successor.try_clone() {
                    Ok(successor) => WorkerCommand::HandOver { successor, closed },
                    Err(_) => WorkerCommand::Leave,
                });
                // Should that fail, connections go to the workers, which send them on.
                self.successor = sys::watch(successor, Interest::WRITABLE).ok();
                self.send_to_master(answers, |_| Some(GenerationEvent::Retired));
            }
            MasterCommand::Stop => self.send_to_all(|| WorkerCommand::Stop),
            MasterCommand::Log { sink, file } => log::replace(sink as usize, file),
            MasterCommand::Stats { form, to } => self.report(form, to.into()),
            MasterCommand::Ping => self.ping(),
        }
    }

    fn send_to_all(&self, command: impl Fn() -> WorkerCommand) {
        for worker in &self.workers {
            // A worker that has ended needs to be told nothing.
            _ = worker.commands.send(command());
        }
    }

    /// A listener is closed only when nobody has its socket any more, and a script ends with its worker
    /// only when nobody else has the channel.
    fn close_spares(&mut self) {
        self.start_no_more();
        for worker in &mut self.workers {
            worker.sockets.clear();
            worker.spawner = None;
            worker.pools.clear();
        }
    }

    /// Asks every worker, and writes what they say.
    fn report(&self, form: Form, to: std::os::unix::net::UnixStream) {
        let answers = self.ask(WorkerCommand::Count);
        let uptime = self.began.elapsed();
        tokio::spawn(async move {
            let report = Report {
                process: std::process::id(),
                uptime,
                dropped_lines: log::dropped(),
                workers: in_time(answers).await,
            };
            // Whoever has asked is a program on this machine; the text is less than its socket takes.
            _ = io::Write::write_all(&mut &to, report.write(form).as_bytes());
        });
    }

    fn ping(&self) {
        let answers = self.ask(WorkerCommand::Ping);
        self.send_to_master(answers, |answers| {
            answers.iter().all(Option::is_some).then_some(GenerationEvent::Alive)
        });
    }

    /// Sends the news that there are when everybody has answered, or has not in time.
    fn send_to_master(
        &self,
        answers: Vec<oneshot::Receiver<()>>,
        news: impl FnOnce(Vec<Option<()>>) -> Option<GenerationEvent> + Send + 'static,
    ) {
        let Ok(master) = self.master.try_clone() else { return };
        tokio::spawn(async move {
            if let Some(news) = news(in_time(answers).await) {
                // A master that is gone need not be told.
                _ = master.send(&news);
            }
        });
    }

    fn ask<T>(&self, command: impl Fn(oneshot::Sender<T>) -> WorkerCommand) -> Vec<oneshot::Receiver<T>> {
        let ask = |worker: &WorkerHandle| {
            let (answer, answered) = oneshot::channel();
            _ = worker.commands.send(command(answer));
            answered
        };
        self.workers.iter().map(ask).collect()
    }
}

/// `None` for a worker that does not answer.
async fn in_time<T>(answers: Vec<oneshot::Receiver<T>>) -> Vec<Option<T>> {
    let until = tokio::time::Instant::now() + ANSWER_PATIENCE;
    let mut all = Vec::with_capacity(answers.len());
    for answer in answers {
        all.push(tokio::time::timeout_at(until, answer).await.ok().and_then(Result::ok));
    }
    all
}

/// Never, without a channel.
async fn receive<M: crate::ipc::Message>(from: Option<&AsyncFd<Channel>>) -> io::Result<Received<M>> {
    match from {
        Some(channel) => channel.async_io(Interest::READABLE, Channel::receive).await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// A panic ends one connection. It is logged with its place.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let what = panic.payload().downcast_ref::<&str>().copied();
        let what = what.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
        log::error(format_args!("panic at {place}: {}; one connection ends", what.unwrap_or("no message")));
    }));
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Workers that cannot start: what they are to listen on is a file.
    fn workers(phase: Phase) -> (Workers, Channel) {
        let (master, far_end) = Channel::pair().unwrap();
        let site = Site::folder(std::env::temp_dir(), Vec::new());
        let roots = OpenRoots::of(&site);
        let (tell, told) = unbounded_channel();
        let workers = Workers {
            workers: Vec::new(),
            tell,
            told,
            master,
            predecessor: None,
            successor: None,
            site,
            roots,
            began: Instant::now(),
            phase,
            restart_limit: RestartLimit::of_servers(),
        };
        (workers, far_end)
    }

    fn spawn(workers: &mut Workers) {
        let file = File::open("/proc/self/status").unwrap();
        workers.spawn(vec![Socket::Tcp(file.into())], None, Vec::new()).unwrap();
    }

    #[test]
    fn a_worker_that_fails_is_replaced_until_the_process_is_to_leave() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut workers, far_end) = workers(Phase::Serving);
            spawn(&mut workers);
            // At once, after 0.5 s and after 1 s more.
            let going = tokio::time::timeout(Duration::from_millis(2500), workers.work()).await;
            assert!(going.is_err(), "it goes on: {going:?}");
            assert!(workers.workers[0].restart().is_some(), "{:?}", workers.workers[0].state);
            assert_eq!(workers.restart_limit.count(Instant::now()), Duration::from_secs(4));
            far_end.send(&MasterCommand::Leave).unwrap();
            assert_eq!(workers.work().await.unwrap(), 0);
        });
    }

    #[test]
    fn a_worker_that_fails_before_anything_is_served_ends_the_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut workers, _far_end) = workers(Phase::Starting);
            spawn(&mut workers);
            assert!(workers.work().await.unwrap_err().to_string().contains("worker 0 has ended"));
        });
    }
}
