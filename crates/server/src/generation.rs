//! The serving process, called a generation: workers, the log thread, and a main thread that carries out the master's
//! commands. Each configuration has a process of its own. It inherits everything from the master, and needs no
//! privilege, configuration or address later.

mod begin;
mod commands;
mod inherited;
mod questions;
mod responses;
mod workers;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use site::maintenance::Maintenance;
use site::model::Site;
use site::named_files::FileId;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use self::inherited::{receive_inherited, unplaced};
use self::workers::{WorkerEvent, WorkerHandle, WorkerState};
use crate::acme::OpenChallenges;
use crate::files::beneath::Root;
use crate::files::roots::OpenRoots;
use crate::finding::Unusable;
use crate::log::{self, LineLimit, OpenSink};
use crate::main_thread::{MainThreadHandle, Question};
use crate::process::ipc::{self, Channel, GenerationEvent, MasterCommand, OwnedMessage, Rates, Received};
use crate::process::privilege::Identity;
use crate::process::supervisor::{RestartLimit, advice_on_descriptors};
use crate::stats::{Ledger, ProcessFiles, Sampler};
use crate::tls::{ClientTls, ServerTls, TlsSetup};
use crate::watch::Watch;
use crate::worker::{WorkerCommand, WorkerSockets};
use crate::{clock, sys};

/// How long stopped workers may take to write their last log lines.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The exit code that a shell reports for a program that SIGINT ended.
pub const INTERRUPTED: u8 = 130;
const FAILED: u8 = 1;

/// What a serving process inherits from the master.
pub struct GenerationSetup {
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
    /// The certificates of open TLS-ALPN-01 challenges, by name.
    pub challenges: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What becomes of the site if a root, the folder of its cache, or a file of its upstreams cannot be used.
    pub unusable: Unusable,
}

/// Serves until the master ends the process, and returns the exit code. The process must have one thread.
pub fn run(site: Site, setup: GenerationSetup) -> u8 {
    let master = setup.master.try_clone();
    match begin::begin(site, setup) {
        Ok(main) => main.run(),
        Err(lines) => {
            // The master may have ended.
            _ = master.and_then(|master| master.send(&GenerationEvent::Failed(lines)));
            FAILED
        }
    }
}

/// The main thread of a serving process.
struct MainThread {
    workers: Vec<WorkerHandle>,
    /// Workers send their events here.
    events: UnboundedReceiver<(usize, WorkerEvent)>,
    event_sender: UnboundedSender<(usize, WorkerEvent)>,
    /// Of workers.
    questions: UnboundedReceiver<Question>,
    main_thread: MainThreadHandle,
    sampler: Sampler,
    /// When the next point of the history is made. `None`: nothing happens, or another process makes them.
    next_sample: Option<tokio::time::Instant>,
    /// When what is seldom used is given back.
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
    /// One permit for each inherited connection that no worker has taken over yet.
    unplaced: Arc<Semaphore>,
    /// The worker that had the last inherited connection.
    last_placed: usize,
    /// Connections of the predecessor that were lost on their way.
    lost_handoffs: LineLimit,
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
        let main_thread = MainThreadHandle { questions: sender, rests, history };
        let sampler = Sampler::new(clock::wall() as u64, &ledger.sum());
        let unplaced = Arc::new(Semaphore::new(unplaced(&site)));
        MainThread {
            workers: Vec::new(),
            events,
            event_sender,
            questions,
            main_thread,
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
            acts: Arc::new(Semaphore::new(questions::MAX_ACTS)),
            refused_acts: LineLimit::default(),
            unplaced,
            last_placed: 0,
            lost_handoffs: LineLimit::default(),
            disconnecting: JoinSet::new(),
        }
    }

    fn run(mut self) -> u8 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().on_thread_park(sys::release_if_due).build();
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
        loop {
            let restart = self.workers.iter().filter_map(WorkerHandle::restart).min();
            tokio::select! {
                command = receive::<MasterCommand>(Some(&master)) => match whole(command)? {
                    None => {}
                    Some(Received::Message(MasterCommand::Stop)) => {
                        self.end_replacing();
                        self.send_to_all(|| WorkerCommand::Stop);
                        stopped = Some(tokio::time::Instant::now() + STOP_TIMEOUT);
                    }
                    Some(Received::Message(MasterCommand::Disconnect { number, selection })) => {
                        // What the predecessor has sent up to now is selected from, too.
                        self.place_all(predecessor.as_ref()).await;
                        self.disconnect(number, &selection);
                    }
                    Some(Received::Message(command)) => self.on_command(command),
                    // The master has ended, and nothing else could end this process.
                    Some(Received::End) => return Ok(FAILED),
                },
                (received, permit) = receive_inherited(predecessor.as_ref(), &self.unplaced), if predecessor.is_some() => {
                    let follow = self.on_inherited(received, permit).await;
                    predecessor = predecessor.filter(|_| follow);
                }
                Some((number, event)) = self.events.recv() => match event {
                    WorkerEvent::Serving => self.on_serving(number)?,
                    WorkerEvent::Left => self.workers[number].state = WorkerState::Gone,
                    WorkerEvent::Failed(why) => self.on_failure(number, &why)?,
                },
                Some(question) = self.questions.recv() => self.on_question(question),
                () = until(self.next_sample) => self.on_sample_due(),
                () = until(self.release) => {
                    self.release = None;
                    sys::release_when_parked();
                }
                () = until(restart) => self.restart()?,
                () = until(forget) => forget = self.forget_tickets(),
                () = until(stopped) => return Ok(INTERRUPTED),
            }
            let all_gone = self.workers.iter().all(|worker| worker.state == WorkerState::Gone);
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
}

/// `None`: it has come without its descriptors. What has asked for it sees that nothing comes.
fn whole<M>(received: io::Result<Received<M>>) -> io::Result<Option<Received<M>>> {
    match received {
        Err(error) if ipc::lacks_descriptors(&error) => {
            let advice = advice_on_descriptors(libc::EMFILE);
            log::error(format_args!("a command is not carried out: no descriptor is free for it{advice}"));
            Ok(None)
        }
        received => received.map(Some),
    }
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use site::listener::Protocols;

    use super::*;
    use crate::listen::Socket;
    use crate::peer::Family;
    use crate::stats::{CounterMemory, Values};

    /// With one worker that cannot start: its listener is a file.
    pub fn with_failing_worker(phase: Phase) -> (MainThread, Channel) {
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
            vec![Socket { fd: Arc::new(file.into()), family: Family::Tcp, protocols: Protocols::default() }];
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
