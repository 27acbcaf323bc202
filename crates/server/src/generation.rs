//! The serving process, called a generation: workers, the log thread, and a main thread that carries out the master's
//! commands. Each configuration has a process of its own. It inherits everything from the master, and needs no
//! privilege, configuration or address later.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cache::store::purge::Purge;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
use site::maintenance::Maintenance;
use site::model::{Sandbox, SignalSet, Sink, Site, Symlinks};
use site::named_files::FileId;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::acme::OpenChallenges;
use crate::cache::{disk, purges};
use crate::files::beneath::Root;
use crate::files::folders;
use crate::files::roots::OpenRoots;
use crate::ipc::{
    Channel, Form, GenerationEvent, InheritedConnection, MasterCommand, OwnedMessage, Rates, Received,
};
use crate::log::{self, LineLimit, OpenSink};
use crate::privilege::{self, Identity};
use crate::sandbox::{self, Confinement, Connects, Pipes, Reads, Writes};
use crate::stats::{Ledger, ProcessFiles, Question, Report, Reporter, Sampler};
use crate::supervisor::{self, RestartLimit};
use crate::tls::{ClientReading, ClientTls, ServerTls, TlsSetup};
use crate::watch::{self, MAX_WATCHERS, Watch};
use crate::worker::{self, Start, WorkerCommand, WorkerSockets};
use crate::{clock, connection, control, limits, publishing, sys, tasks};

/// How long stopped workers may take to write their last log lines.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a worker may take to respond to a command.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The most connections that the socket between two generations holds: fewer than its bytes.
const HANDOFFS_IN_CHANNEL: usize = 4096;
/// Acts of users of the page at the same time. A reload may take a while, and then it is one of them.
const MAX_ACTS: usize = 8;
/// Unused bytes that each worker's heap keeps: the buffers of a script's response are a few times 64 KiB.
const KEPT_HEAP: i32 = 1024 * 1024;
/// The exit code that a shell reports for a program that SIGINT ended.
pub const INTERRUPTED: u8 = 130;
const FAILED: u8 = 1;

/// Whether this process is to give back what its start needed as soon as the main thread has nothing to do.
static MUST_RELEASE: AtomicBool = AtomicBool::new(false);

/// What a serving process inherits from the master.
pub struct GenerationSetup {
    pub site: Site,
    /// `None`: the site has no TLS.
    pub tls: Option<TlsSetup>,
    /// The open folder of `taipan DIR`, which the serving user may be unable to reach by its path.
    pub folder: Option<Root>,
    pub workers: Vec<WorkerSockets>,
    pub sinks: Vec<OpenSink>,
    /// `None`: the process keeps its user.
    pub identity: Option<Identity>,
    pub master: Channel,
    /// The connections of the predecessor arrive here.
    pub predecessor: Option<Channel>,
    /// For the log: what the site has to do without, and why.
    pub warnings: Vec<String>,
    pub ledger: Ledger,
    pub maintenance: Maintenance,
}

/// Serves until the master ends the process, and returns the exit code. The process must have one thread.
pub fn run(setup: GenerationSetup) -> u8 {
    let master = setup.master.try_clone();
    match begin(setup) {
        Ok(main) => main.run(),
        Err(lines) => {
            // The master may have ended.
            _ = master.and_then(|master| master.send(&GenerationEvent::Failed(lines)));
            FAILED
        }
    }
}

/// Gives up privileges and starts the threads.
fn begin(setup: GenerationSetup) -> Result<MainThread, Vec<String>> {
    let line = |text: String| vec![text];
    let GenerationSetup {
        mut site,
        tls,
        folder,
        workers,
        sinks,
        identity,
        master,
        predecessor,
        warnings,
        ledger,
        maintenance,
    } = setup;
    // The limits of scripts are shared by the workers.
    site.workers = NonZeroUsize::new(workers.len());
    let (challenges, answered) = OpenChallenges::of(&site);
    let tls = tls.map(|setup| ServerTls::begin(&site, setup, answered)).transpose()?.map(Arc::new);
    let clients = ClientReading::read(&site).into_settings()?;
    let process = ProcessFiles::open();
    if let Some(folder) = site.chroot.clone() {
        privilege::chroot(&folder).map_err(line)?;
        site.enter(&folder);
    }
    identity.map_or(Ok(()), |identity| identity.assume()).map_err(line)?;
    // Scripts may have the same user, and could trace the process or read its memory. The kernel resets the attribute
    // to fs.suid_dumpable when the user changes.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| line(format!("cannot forbid tracing: {e}")))?;
    folders::read_accounts(&site);
    let roots = OpenRoots::with(&site, folder);
    let problems: Vec<String> = roots.problems().into_iter().map(|(_, why)| why).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let files = site.cache_files.as_ref().map(disk::open).transpose().map_err(line)?;
    if !site.published_roots().is_empty() {
        // What clients publish has the mode that its route says; all other files have a mode of their own.
        umask(Mode::empty());
    }
    // As late as possible, because a failure after this loses clients; the sandbox forbids it later.
    for socket in workers.iter().flat_map(|worker| &worker.listeners) {
        socket.listen(site.limits.backlog).map_err(|e| line(format!("cannot listen: {e}")))?;
    }
    let active = sandbox::apply(&confinement(&site, &roots), site.sandbox).map_err(line)?;
    log::start(&site.log, sinks).map_err(line)?;
    if site.sandbox != Sandbox::Off {
        active.missing.iter().for_each(|what| log::warn(format_args!("sandbox: {what}")));
    }
    let tls_warning = tls.as_ref().and_then(|tls| tls.warning());
    let warnings = warnings.iter().map(String::as_str).chain(tls_warning);
    warnings.for_each(|what| log::warn(format_args!("{what}")));
    for root in roots.unresponsive() {
        let root = root.display();
        log::warn(format_args!("the root {root} does not respond; the next request tries again"));
    }
    log_panics();
    sys::keep_heap(KEPT_HEAP);
    connection::client::limit_connections(site.limits.connections_per_client, &site.trusted_proxies);
    limits::begin(&site);
    connection::handshake_rate::limit_handshakes(site.tls.handshakes_per_client, &site.trusted_proxies);
    files
        .map_or(Ok(()), disk::begin)
        .map_err(|e| line(format!("cannot start the thread of the cache: {e}")))?;
    publishing::clean_up(&site, &roots);
    let main = MainThread::new(master, predecessor, site, roots, ledger);
    let mut main = MainThread { tls, clients, challenges, process, maintenance, ..main };
    for sockets in workers {
        main.spawn(sockets).map_err(|e| line(format!("cannot start a worker: {e}")))?;
    }
    Ok(main)
}

/// What serving needs.
fn confinement<'a>(site: &'a Site, roots: &'a OpenRoots) -> Confinement<'a> {
    let routes = || site.hosts.iter().flat_map(|host| host.routes.iter());
    let leads_out = routes().any(|r| matches!(r.files.symlinks, Symlinks::Follow | Symlinks::Owner));
    // A root that hangs cannot be opened for the rule, but its parent can.
    let unresponsive: Vec<&Path> = roots.unresponsive().collect();
    let reach =
        |root: &'a Path| if unresponsive.contains(&root) { root.parent().unwrap_or(root) } else { root };
    let reads = match leads_out {
        true => Reads::Everywhere,
        false => Reads::Beneath(site.roots().into_iter().map(reach).collect()),
    };
    let mut sinks = site.sinks().into_iter();
    // The log thread reconnects to a restarted log daemon.
    let connects = if sinks.any(|s| *s == Sink::Syslog) { Connects::Unix } else { Connects::Nowhere };
    let pipes = if site.has_scripts() { Pipes::Made } else { Pipes::None };
    let writes = site.cache_files.as_ref().map_or(Writes::Nowhere, |files| Writes::Beneath(&files.folder));
    let publishes = site.published_roots().into_iter().map(reach).collect();
    Confinement { reads, open: roots.preopened(), connects, pipes, writes, publishes }
}

/// The main thread of a serving process.
struct MainThread {
    workers: Vec<WorkerHandle>,
    /// Workers send their events here.
    events: UnboundedReceiver<(usize, WorkerEvent)>,
    event_sender: UnboundedSender<(usize, WorkerEvent)>,
    /// Of workers.
    questions: UnboundedReceiver<Question>,
    reporter: Reporter,
    sampler: Sampler,
    /// When the next point of the history is made. `None`: nothing happens, or another process makes them.
    next_sample: Option<tokio::time::Instant>,
    /// When what the start needed is given back.
    release: Option<tokio::time::Instant>,
    master: Channel,
    predecessor: Option<Channel>,
    /// Receives this process's connections when another process serves.
    successor: Option<AsyncFd<Channel>>,
    site: Site,
    tls: Option<Arc<ServerTls>>,
    /// For each application of the site.
    clients: Vec<Option<ClientTls>>,
    challenges: Arc<OpenChallenges>,
    roots: OpenRoots,
    began: Instant,
    phase: Phase,
    restart_limit: RestartLimit,
    /// The rates that were received, until the last message of them is.
    rates: Vec<Rates>,
    /// The named files that were received, until the last message of them is.
    named_files: Vec<FileId>,
    ledger: Ledger,
    watches: Vec<Arc<Watch>>,
    /// `None`: there is no /proc.
    process: Option<ProcessFiles>,
    maintenance: Maintenance,
    /// Of users of the page.
    acts: Arc<Semaphore>,
    refused_acts: LineLimit,
    /// The tasks that tell the master what has ended. Each takes no longer than `RESPONSE_TIMEOUT`.
    disconnecting: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not all workers serve yet. A worker that fails ends the process, and the configuration is rejected.
    Starting,
    Serving,
    /// Failed workers are no longer replaced.
    Leaving,
}

struct WorkerHandle {
    commands: UnboundedSender<WorkerCommand>,
    /// For the worker's replacement.
    sockets: WorkerSockets,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Serving,
    /// The worker has failed and is replaced at this time.
    Failed(tokio::time::Instant),
    Gone,
}

enum WorkerEvent {
    Serving,
    Left,
    /// The worker panicked, or cannot continue.
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

impl MainThread {
    fn new(
        master: Channel,
        predecessor: Option<Channel>,
        site: Site,
        roots: OpenRoots,
        ledger: Ledger,
    ) -> MainThread {
        let (event_sender, events) = unbounded_channel();
        let (sender, questions) = unbounded_channel();
        let (rests, history) = (Arc::default(), ledger.history.clone());
        let reporter = Reporter { questions: sender, rests, history };
        let sampler = Sampler::new(clock::wall() as u64, &ledger.sum());
        MainThread {
            workers: Vec::new(),
            events,
            event_sender,
            questions,
            reporter,
            sampler,
            next_sample: None,
            release: None,
            master,
            predecessor,
            successor: None,
            site,
            tls: None,
            clients: Vec::new(),
            challenges: Arc::default(),
            roots,
            began: Instant::now(),
            phase: Phase::Starting,
            restart_limit: RestartLimit::of_servers(),
            rates: Vec::new(),
            named_files: Vec::new(),
            ledger,
            watches: Vec::new(),
            process: None,
            maintenance: Maintenance::default(),
            acts: Arc::new(Semaphore::new(MAX_ACTS)),
            refused_acts: LineLimit::default(),
            disconnecting: JoinSet::new(),
        }
    }

    fn spawn(&mut self, sockets: WorkerSockets) -> io::Result<()> {
        let commands = self.start_worker(self.workers.len(), &sockets)?;
        self.workers.push(WorkerHandle { commands, sockets, state: State::Starting });
        Ok(())
    }

    fn start_worker(
        &self,
        number: usize,
        sockets: &WorkerSockets,
    ) -> io::Result<UnboundedSender<WorkerCommand>> {
        let (commands, receiver) = unbounded_channel();
        let (site, tls, clients) = (self.site.clone(), self.tls.clone(), self.clients.clone());
        let (roots, sockets, counts) = (self.roots.clone(), sockets.try_clone()?, self.ledger.own[number]);
        let reporter = self.reporter.clone();
        let maintenance = self.maintenance.of(&site);
        let start = Start { site, tls, clients, roots, sockets, counts, reporter, maintenance };
        let events = self.event_sender.clone();
        let work = move || {
            let on_serving = || _ = events.send((number, WorkerEvent::Serving));
            let ended = catch_unwind(AssertUnwindSafe(|| worker::run(start, receiver, on_serving)));
            let event = match ended {
                Ok(Ok(())) => WorkerEvent::Left,
                Ok(Err(error)) => WorkerEvent::Failed(error.to_string()),
                Err(_) => WorkerEvent::Failed("it panicked".to_owned()),
            };
            _ = events.send((number, event));
        };
        std::thread::Builder::new().name(format!("worker {number}")).spawn(work)?;
        Ok(commands)
    }

    fn run(mut self) -> u8 {
        let release = || {
            if MUST_RELEASE.swap(false, Ordering::Relaxed) {
                sys::release_start();
            }
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().on_thread_park(release).build();
        let code = runtime.and_then(|runtime| runtime.block_on(self.work()));
        log::flush();
        code.unwrap_or_else(|error| {
            _ = self.master.send(&GenerationEvent::Failed(vec![format!("cannot continue: {error}")]));
            FAILED
        })
    }

    async fn work(&mut self) -> io::Result<u8> {
        let master = sys::watch(self.master.try_clone()?, Interest::READABLE)?;
        let mut predecessor =
            self.predecessor.take().map(|p| sys::watch(p, Interest::READABLE)).transpose()?;
        let mut stopped = None;
        let mut forget = self.forget_tickets();
        let mut next = 0;
        loop {
            let restart = self.workers.iter().filter_map(WorkerHandle::restart).min();
            tokio::select! {
                command = receive::<MasterCommand>(Some(&master)) => match command? {
                    Received::Message(MasterCommand::Stop) => {
                        self.end_replacing();
                        self.send_to_all(|| WorkerCommand::Stop);
                        stopped = Some(tokio::time::Instant::now() + STOP_TIMEOUT);
                    }
                    Received::Message(MasterCommand::Disconnect { number, selection }) => {
                        // What the predecessor has sent up to now is selected from, too.
                        for _ in 0..HANDOFFS_IN_CHANNEL {
                            let received = predecessor.as_ref().map(|channel| channel.get_ref().receive());
                            let Some(Ok(Received::Message(connection))) = received else { break };
                            next = self.next_serving(next);
                            self.place(connection, next).await;
                        }
                        self.disconnect(number, &selection);
                    }
                    Received::Message(command) => self.on_command(command),
                    // The master has ended, and nothing else could end this process.
                    Received::End => return Ok(FAILED),
                },
                received = receive::<InheritedConnection>(predecessor.as_ref()), if predecessor.is_some() => {
                    match received {
                        Ok(Received::Message(connection)) => {
                            next = self.next_serving(next);
                            self.place(connection, next).await;
                        }
                        Ok(Received::End) | Err(_) => predecessor = None,
                    }
                }
                Some((number, event)) = self.events.recv() => match event {
                    WorkerEvent::Serving => self.on_serving(number)?,
                    WorkerEvent::Left => self.workers[number].state = State::Gone,
                    WorkerEvent::Failed(why) => self.on_failure(number, &why)?,
                },
                Some(question) = self.questions.recv() => self.on_question(question),
                () = until(self.next_sample) => self.sample(),
                () = until(self.release) => {
                    self.release = None;
                    // Done when this thread parks: code that ran afterwards would map the program again.
                    MUST_RELEASE.store(true, Ordering::Relaxed);
                }
                () = until(restart) => self.restart()?,
                () = until(forget) => forget = self.forget_tickets(),
                () = until(stopped) => return Ok(INTERRUPTED),
            }
            let all_gone = self.workers.iter().all(|worker| worker.state == State::Gone);
            // The predecessor may still send connections here, which this process passes on to its successor.
            let must_pass_on = self.successor.is_some() && predecessor.is_some();
            if all_gone && !must_pass_on {
                // The end of its last connection may be the end of this process, and is counted.
                while self.disconnecting.join_next().await.is_some() {}
                return Ok(if stopped.is_some() { INTERRUPTED } else { 0 });
            }
        }
    }

    /// Forgets the keys of old session tickets. Returns when there are others to forget.
    fn forget_tickets(&self) -> Option<tokio::time::Instant> {
        let after = self.tls.as_ref()?.forget_tickets()?;
        Some(tokio::time::Instant::now() + after)
    }

    /// Gives an inherited connection to a worker, or to the successor.
    async fn place(&self, connection: InheritedConnection, worker: usize) {
        let Some(successor) = &self.successor else {
            _ = self.workers[worker].commands.send(WorkerCommand::Admit(connection));
            return;
        };
        // If the successor has ended, the connection is closed.
        _ = successor.async_io(Interest::WRITABLE, |successor| successor.send(&connection)).await;
    }

    /// The next serving worker, round robin.
    fn next_serving(&self, last: usize) -> usize {
        let count = self.workers.len();
        let mut others = (1..=count).map(|step| (last + step) % count);
        others.find(|at| self.workers[*at].state == State::Serving).unwrap_or(last)
    }

    fn on_serving(&mut self, number: usize) -> io::Result<()> {
        self.workers[number].state = State::Serving;
        if self.phase != Phase::Starting || self.workers.iter().any(|w| w.state == State::Starting) {
            return Ok(());
        }
        self.phase = Phase::Serving;
        self.sample();
        self.release = Some(tokio::time::Instant::now() + sys::RELEASE_AFTER);
        self.master.send(&GenerationEvent::Ready)
    }

    /// A worker has panicked outside of a connection, or cannot continue. Its connections are lost, those of other
    /// workers are not. Errors: the process has not served yet.
    fn on_failure(&mut self, number: usize, why: &str) -> io::Result<()> {
        let what = format!("worker {number} has ended: {why}");
        self.workers[number].state = match self.phase {
            Phase::Starting => return Err(io::Error::other(what)),
            Phase::Serving => {
                let pause = self.restart_limit.count(Instant::now());
                log::error(format_args!("{what}; it is replaced {}", supervisor::text(pause)));
                State::Failed(tokio::time::Instant::now() + pause)
            }
            Phase::Leaving => {
                log::error(format_args!("{what}"));
                State::Gone
            }
        };
        Ok(())
    }

    /// Replaces the failed workers whose pause has passed.
    fn restart(&mut self) -> io::Result<()> {
        let now = tokio::time::Instant::now();
        for number in 0..self.workers.len() {
            if self.workers[number].restart().is_none_or(|at| at > now) {
                continue;
            }
            match self.start_worker(number, &self.workers[number].sockets) {
                Ok(commands) => {
                    for watch in &self.watches {
                        _ = commands.send(WorkerCommand::Watch(watch.clone(), oneshot::channel().0));
                    }
                    self.workers[number].commands = commands;
                    self.workers[number].state = State::Serving;
                }
                Err(error) => self.on_failure(number, &format!("cannot be started ({error})"))?,
            }
        }
        Ok(())
    }

    fn end_replacing(&mut self) {
        self.phase = Phase::Leaving;
        self.next_sample = None;
        self.end_watches();
        for worker in self.workers.iter_mut().filter(|worker| worker.restart().is_some()) {
            worker.state = State::Gone;
        }
    }

    fn on_command(&mut self, command: MasterCommand) {
        match command {
            MasterCommand::Leave => {
                disk::retire();
                self.close_sockets();
                self.successor = None;
                self.send_to_all(|| WorkerCommand::Leave);
            }
            MasterCommand::HandOver(successor) => {
                disk::retire();
                self.close_sockets();
                let successor = Channel::from(successor);
                let responses = self.request(|closed| match successor.try_clone() {
                    Ok(successor) => WorkerCommand::HandOver { successor, closed },
                    Err(_) => WorkerCommand::Leave,
                });
                // Without this watch, inherited connections go to the workers, which pass them on.
                self.successor = sys::watch(successor, Interest::WRITABLE).ok();
                self.report_to_master(responses, |_| Some(GenerationEvent::Retired));
            }
            MasterCommand::Stop => self.send_to_all(|| WorkerCommand::Stop),
            MasterCommand::Log { sink, file } => log::replace(sink as usize, file),
            MasterCommand::Stats { form: Form::Live, to } => self.report_live(to),
            MasterCommand::Stats { form, to } => self.report_stats(move |report| {
                tasks::spawn(send_text(to, report.write(form)));
            }),
            MasterCommand::LogStats => {
                let signals = self.site.signals;
                self.report_stats(move |report| match signals {
                    SignalSet::Boa => log::info(format_args!("{}", report.boa_line())),
                    _ => report.write(Form::Text).lines().for_each(|line| log::info(format_args!("{line}"))),
                });
            }
            MasterCommand::Challenge { number, name, pem } => {
                self.challenges.set(&name, &pem);
                // The master may have ended.
                _ = self.master.send(&GenerationEvent::ChallengeSet(number));
            }
            MasterCommand::Rates { follows, rates } => {
                self.rates.extend(rates);
                if !follows {
                    limits::change_rates(&std::mem::take(&mut self.rates));
                }
            }
            MasterCommand::NamedFiles { follows, files } => {
                self.named_files.extend(files);
                if !follows {
                    self.roots.hidden_files().replace(std::mem::take(&mut self.named_files).into());
                    self.send_to_all(|| WorkerCommand::ExpireFiles);
                }
            }
            MasterCommand::Purge { number, purge } => {
                if let Some(purge) = std::str::from_utf8(&purge).ok().and_then(|text| text.parse().ok()) {
                    self.purge(number, purge);
                }
            }
            MasterCommand::Level { level, time } => log::change_level(level, time),
            MasterCommand::Maintenance(hosts) => {
                self.maintenance = Maintenance::from_text(&String::from_utf8_lossy(&hosts));
                let hosts = Arc::new(self.maintenance.of(&self.site));
                self.send_to_all(|| WorkerCommand::Maintenance(hosts.clone()));
            }
            // `work` has carried it out.
            MasterCommand::Disconnect { .. } => {}
            MasterCommand::Watch { filter, to } => self.watch(&filter, to),
            MasterCommand::Ping => self.ping(),
        }
    }

    fn send_to_all(&self, command: impl Fn() -> WorkerCommand) {
        for worker in &self.workers {
            // Fails if the worker has ended.
            _ = worker.commands.send(command());
        }
    }

    /// Closes the copies for replaced workers: a listener closes only with its last descriptor, and so does the channel
    /// of a worker's scripts.
    fn close_sockets(&mut self) {
        self.end_replacing();
        self.workers.iter_mut().for_each(|worker| worker.sockets = WorkerSockets::default());
    }

    fn report_stats(&self, write: impl FnOnce(Report) + Send + 'static) {
        let responses = self.request(WorkerCommand::Count);
        let uptime = self.began.elapsed();
        let ledger = self.ledger.clone();
        let usage = self.process.as_ref().and_then(ProcessFiles::usage);
        let validities = self.tls.as_ref().map_or_else(Vec::new, |tls| tls.validities().to_vec());
        tasks::spawn(async move {
            let workers = in_time(responses).await;
            let report = Report {
                since: ledger.since,
                counts: ledger.sum(),
                process: std::process::id(),
                uptime,
                dropped_lines: log::dropped(),
                files: disk::stats(),
                workers,
                zones: ledger.zones(),
                earlier: ledger.running(),
                usage,
                validities,
                now: clock::wall(),
            };
            write(report);
        });
    }

    /// The statistics with the requests of now, for `taipan top`.
    fn report_live(&self, to: OwnedFd) {
        let requests = self.request(WorkerCommand::RecentLines);
        self.report_stats(move |report| {
            tasks::spawn(async move { send_text(to, report.live(&in_time(requests).await)).await });
        });
    }

    fn on_question(&mut self, question: Question) {
        match question {
            // Its client may have closed the connection.
            Question::Report(to) => self.report_stats(|report| _ = to.send(report)),
            Question::Recent(from, to) => {
                let mut number = from.into_iter();
                let responses =
                    self.request_each(|response| WorkerCommand::Recent(number.next().unwrap_or(0), response));
                tasks::spawn(async move { to.send(in_time(responses).await) });
            }
            Question::Act(text, to) => {
                let Ok(permit) = self.acts.clone().try_acquire_owned() else {
                    if let Some(omitted) = self.refused_acts.admit(clock::wall()) {
                        let (who, _) =
                            text.split_at(text.iter().position(|byte| *byte == b'\n').unwrap_or(0));
                        let who = String::from_utf8_lossy(who).escape_debug().to_string();
                        log::warn(format_args!("page, {who}: refused, {MAX_ACTS} acts are running{omitted}"));
                    }
                    _ = to.send(None);
                    return;
                };
                let Ok((ours, theirs)) = UnixStream::pair() else { return };
                if self.master.send(&GenerationEvent::Act { text, to: theirs.into() }).is_ok() {
                    tasks::spawn(async move {
                        let response = control::response_from(ours).await;
                        drop(permit);
                        // Its client may have closed the connection.
                        _ = to.send(Some(response));
                    });
                }
            }
            Question::Activity if self.phase == Phase::Serving => {
                self.sample();
                self.go_on_sampling();
            }
            Question::Activity => {}
        }
    }

    /// Makes the points of the history that are due, until nothing happens any more.
    fn sample(&mut self) {
        let Some(history) = &self.reporter.history else { return };
        let now = clock::wall_micros();
        // First: what happens from here on is noticed.
        self.reporter.rests.store(true, Ordering::SeqCst);
        let is_busy = self.sampler.sample(now / 1_000_000, &self.ledger.moment(), history);
        self.next_sample = None;
        if is_busy {
            self.go_on_sampling();
        }
    }

    /// Makes the next point at the end of this second. A connection that begins counts as present only at the next tick
    /// of its worker.
    fn go_on_sampling(&mut self) {
        self.reporter.rests.store(false, Ordering::SeqCst);
        let rest = Duration::from_micros(1_000_000 - clock::wall_micros() % 1_000_000);
        self.next_sample = Some(tokio::time::Instant::now() + rest);
    }

    /// Removes what matches from the memory of the workers, and from the files.
    fn purge(&self, number: u32, purge: Purge) {
        let Ok(master) = self.master.try_clone() else { return };
        // First: what was requested before is not stored from now on.
        let begun = purges::shared().begin(purge.clone());
        let workers = self.request(|removed| WorkerCommand::Purge(purge.clone(), removed));
        let files = disk::purge(purge, begun);
        tasks::spawn(async move {
            let in_memory = in_time(workers).await.into_iter().flatten().sum();
            // Dropped if there are too many at once: then there is no response, and the client tries again.
            if let Ok(files) = files.await {
                // The master may have ended.
                _ = master.send(&GenerationEvent::Purged { number, in_memory, files });
            }
        });
    }

    /// Ends the selected connections.
    fn disconnect(&mut self, number: u32, selection: &[u8]) {
        let Ok(master) = self.master.try_clone() else { return };
        let selection = std::str::from_utf8(selection).ok().and_then(|text| text.parse().ok());
        let Some(selection) = selection.map(Arc::new) else {
            // The master waits no longer than it has to. It may have ended.
            _ = master.send(&GenerationEvent::Disconnected { number, connections: 0, streams: 0, silent: 1 });
            return;
        };
        let responses = self.request(|ended| WorkerCommand::Disconnect(Arc::clone(&selection), ended));
        while self.disconnecting.try_join_next().is_some() {}
        self.disconnecting.spawn(async move {
            let until = tokio::time::Instant::now() + RESPONSE_TIMEOUT;
            let (mut connections, mut streams, mut silent) = (0, 0, 0);
            for response in responses {
                match tokio::time::timeout_at(until, response).await {
                    Ok(Ok(ended)) => {
                        connections += ended.connections;
                        streams += ended.streams;
                    }
                    // The worker has ended, with its connections.
                    Ok(Err(_)) => {}
                    Err(_) => silent += 1,
                }
            }
            // The master may have ended.
            _ = master.send(&GenerationEvent::Disconnected { number, connections, streams, silent });
        });
    }

    /// Shows requests to a watcher. It is refused if there are too many.
    fn watch(&mut self, filter: &[u8], to: OwnedFd) {
        self.watches.retain(|watch| watch.is_open());
        let filter = std::str::from_utf8(filter).map_err(|error| error.to_string());
        let filter = filter.and_then(str::parse).and_then(|filter| match self.watches.len() {
            MAX_WATCHERS.. => Err(format!("there are {MAX_WATCHERS} watchers already; end one of them")),
            _ => Ok(filter),
        });
        let to = UnixStream::from(to);
        // The text is smaller than the socket's buffer; the watcher may have closed it.
        let respond = move |response: Result<String, String>| {
            _ = io::Write::write_all(&mut &to, control::response_text(response).as_bytes());
            to
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(why) => return drop(respond(Err(why))),
        };
        let (watch, events) = Watch::new(filter);
        let begun = self.request(|begun| WorkerCommand::Watch(watch.clone(), begun));
        self.watches.push(watch.clone());
        let site = self.site.clone();
        tasks::spawn(async move {
            in_time(begun).await;
            let to = respond(Ok(format!("# watching process {}", std::process::id())));
            watch::stream::run(to, watch, events, site).await;
        });
    }

    /// Has the watchers go to the process that serves now.
    fn end_watches(&mut self) {
        self.watches.drain(..).for_each(|watch| watch.end());
    }

    fn ping(&self) {
        let responses = self.request(WorkerCommand::Ping);
        self.report_to_master(responses, |responses| {
            responses.iter().all(Option::is_some).then_some(GenerationEvent::Alive)
        });
    }

    /// Sends the event that `event` makes of the workers' responses, when all have responded or the time has passed.
    fn report_to_master(
        &self,
        responses: Vec<oneshot::Receiver<()>>,
        event: impl FnOnce(Vec<Option<()>>) -> Option<GenerationEvent> + Send + 'static,
    ) {
        let Ok(master) = self.master.try_clone() else { return };
        tasks::spawn(async move {
            if let Some(event) = event(in_time(responses).await) {
                // The master may have ended.
                _ = master.send(&event);
            }
        });
    }

    /// Sends a command with a place for the response to every worker.
    fn request<T>(&self, command: impl Fn(oneshot::Sender<T>) -> WorkerCommand) -> Vec<oneshot::Receiver<T>> {
        self.request_each(command)
    }

    /// As `request`, in the order of the workers.
    fn request_each<T>(
        &self,
        mut command: impl FnMut(oneshot::Sender<T>) -> WorkerCommand,
    ) -> Vec<oneshot::Receiver<T>> {
        let request = |worker: &WorkerHandle| {
            let (sender, response) = oneshot::channel();
            _ = worker.commands.send(command(sender));
            response
        };
        self.workers.iter().map(request).collect()
    }
}

/// Writes a response to a client of the control socket, which may have closed it. It has so much time to read it.
async fn send_text(to: OwnedFd, text: String) {
    let Ok(to) = sys::watch(to, Interest::WRITABLE) else { return };
    let write = async {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written = to.async_io(Interest::WRITABLE, |to| Ok(rustix::io::write(to, rest)?)).await?;
            rest = &rest[written..];
        }
        io::Result::Ok(())
    };
    _ = tokio::time::timeout(RESPONSE_TIMEOUT, write).await;
}

/// `None` for a worker that does not respond.
async fn in_time<T>(responses: Vec<oneshot::Receiver<T>>) -> Vec<Option<T>> {
    let until = tokio::time::Instant::now() + RESPONSE_TIMEOUT;
    let mut all = Vec::with_capacity(responses.len());
    for response in responses {
        all.push(tokio::time::timeout_at(until, response).await.ok().and_then(Result::ok));
    }
    all
}

/// Pending for ever without a channel.
async fn receive<M: OwnedMessage>(from: Option<&AsyncFd<Channel>>) -> io::Result<Received<M>> {
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

/// Logs the position of a panic, which ends one connection, or this process in a build that does not unwind.
fn log_panics() {
    const ENDS: &str = if cfg!(panic = "abort") { "this process ends" } else { "one connection ends" };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let what = panic.payload().downcast_ref::<&str>().copied();
        let what = what.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
        log::error(format_args!("panic at {place}: {}; {ENDS}", what.unwrap_or("no message")));
        if cfg!(panic = "abort") {
            log::flush();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use site::listener::Protocols;

    use super::*;
    use crate::listen::Socket;
    use crate::peer::Family;
    use crate::stats::{CounterMemory, Values};

    /// With one worker that cannot start: its listener is a file.
    fn with_failing_worker(phase: Phase) -> (MainThread, Channel) {
        let (master, far_end) = Channel::pair().unwrap();
        let site = Site::folder(std::env::temp_dir(), Vec::new());
        let roots = OpenRoots::of(&site);
        let memory = CounterMemory::create(1, 0, &[]).unwrap();
        let ledger = Ledger {
            since: 0,
            past: Values::default(),
            past_zones: Arc::default(),
            earlier: Arc::new([]),
            own: memory.into_blocks(),
            zones: Arc::new([]),
            history: None,
        };
        let mut main = MainThread { phase, ..MainThread::new(master, None, site, roots, ledger) };
        let file = File::open("/proc/self/status").unwrap();
        let listeners =
            vec![Socket { fd: file.into(), family: Family::Tcp, protocols: Protocols::default() }];
        main.spawn(WorkerSockets { listeners, ..WorkerSockets::default() }).unwrap();
        (main, far_end)
    }

    #[test]
    fn replaces_a_failed_worker_until_the_process_leaves() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut main, far_end) = with_failing_worker(Phase::Serving);
            // At once, after 0.5 s and after 1 s more.
            let running = tokio::time::timeout(Duration::from_millis(2500), main.work()).await;
            assert!(running.is_err(), "it continues: {running:?}");
            assert!(main.workers[0].restart().is_some(), "{:?}", main.workers[0].state);
            assert_eq!(main.restart_limit.count(Instant::now()), Duration::from_secs(4));
            far_end.send(&MasterCommand::Leave).unwrap();
            assert_eq!(main.work().await.unwrap(), 0);
        });
    }

    #[test]
    fn a_worker_that_fails_before_serving_ends_the_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut main, _far_end) = with_failing_worker(Phase::Starting);
            assert!(main.work().await.unwrap_err().to_string().contains("worker 0 has ended"));
        });
    }
}
