//! A worker: the loop of one core, and everything that its connections share with one another. Nothing
//! here is shared with other workers; they are told what to do by messages.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use http::target::SafePath;
use site::model::{Route, Site};
use site::plan::{Plan, Scheme};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use crate::clock::{self, Clock};
use crate::conn::h1::Http1;
use crate::conn::lot::{self, Lot};
use crate::conn::output::Output;
use crate::conn::stream::{Family, Stream};
use crate::conn::task::{Start, Task};
use crate::conn::{Deadlines, Peer, Phase, Seats};
use crate::disk::Disk;
use crate::files::Files;
use crate::listen::{Listener, Socket};
use crate::log;
use crate::log::access::{self, AccessLogs, Records};
use crate::places::Places;

/// Bytes read at once; a head and what was pipelined behind it.
const READ: usize = 64 * 1024;
/// Helper threads that have nothing to do end after this.
const HELPER_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a helper thread's stack.
const HELPER_STACK: usize = 256 * 1024;
/// How long a listener rests when there is no descriptor or no memory for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

pub struct Worker {
    pub site: Site,
    pub clock: Clock,
    pub deadlines: Deadlines,
    pub desk: RefCell<Desk>,
    pub files: Files,
    pub disk: Disk,
    /// For answers that are made while they are sent.
    pub streams: Places,
    pub lot: Lot,
    pub access: AccessLogs,
    seats: Rc<Seats>,
    leaving: Cell<bool>,
    /// The second in which it was last said that there is no room.
    complained: Cell<i64>,
    boundaries: Cell<u64>,
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Accept no more, finish what runs, and end.
    Leave,
    /// End.
    Stop,
}

/// The buffers that the connections of a worker lend to one another.
pub struct Desk {
    pub buffer: Box<[u8]>,
    out: Vec<u8>,
    records: Records,
}

/// The loop. Returns when it has been told to leave and everybody has left.
pub fn run(site: Site, sockets: Vec<Socket>, commands: UnboundedReceiver<Command>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(site.limits.disk_threads)
        .thread_keep_alive(HELPER_IDLE)
        .thread_stack_size(HELPER_STACK)
        .thread_name("disk")
        .build_local(Default::default())?;
    let done = runtime.block_on(work(site, sockets, commands));
    // A helper that hangs on a dead disk must not keep the process.
    runtime.shutdown_background();
    done
}

async fn work(site: Site, sockets: Vec<Socket>, mut commands: UnboundedReceiver<Command>) -> io::Result<()> {
    let worker = Rc::new(Worker::new(site)?);
    let mut accepting = Vec::new();
    for socket in sockets {
        let listener = socket.listen()?;
        accepting.push(spawn_local(accept(worker.clone(), listener)));
    }
    spawn_local(keep_time(worker.clone()));
    spawn_local(hand_over_lines(worker.clone()));
    let lot = spawn_local(lot::serve(worker.clone()));
    let everything = async {
        if commands.recv().await == Some(Command::Leave) {
            accepting.iter().for_each(tokio::task::JoinHandle::abort);
            tokio::select! {
                () = worker.leave() => {}
                // The only other command, or a main thread that is gone.
                _ = commands.recv() => {}
            }
        }
    };
    tokio::select! {
        () = everything => Ok(()),
        // Without its lot a worker is none.
        error = lot => Err(error.unwrap_or_else(io::Error::other)),
    }
}

impl Worker {
    /// Within the worker's runtime.
    pub fn new(site: Site) -> io::Result<Worker> {
        let clock = Clock::start();
        Ok(Worker {
            deadlines: Deadlines::new(&site.timeouts, site.limits.min_rate),
            desk: RefCell::new(Desk::new(site.limits.head.head)),
            files: Files::new(&site, clock.now()),
            clock,
            disk: Disk::new(site.limits.disk_queue, site.limits.disk_threads, site.timeouts.disk),
            streams: Places::new(site.limits.streams),
            lot: Lot::open()?,
            access: AccessLogs::new(&site),
            seats: Seats::new(),
            leaving: Cell::new(false),
            complained: Cell::new(0),
            boundaries: Cell::new(clock::micros()),
            site,
        })
    }

    /// The route that a path ends at, after rewrites.
    pub fn route(&self, host: usize, path: &SafePath<'_>) -> &Route {
        match site::plan::plan(&self.site, host, path.clone(), None, b"", Scheme::Http) {
            Plan::Files(planned) => planned.route,
            Plan::Redirect { route, .. } | Plan::Status { route, .. } => route,
        }
    }

    /// The value of `Cache-Control` for a path.
    pub fn cache_control(&self, host: usize, path: &SafePath<'_>) -> Option<&str> {
        let rules = &self.route(host, path).cache_control;
        rules.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, value)| value.as_str())
    }

    /// A time that is not later than now, as `Last-Modified` must be (RFC 9110 §8.8.2.1).
    pub fn past(&self, time: i64) -> i64 {
        time.min(self.clock.now())
    }

    /// A multipart boundary, another one each time.
    pub fn boundary(&self) -> String {
        let n = self.boundaries.get().wrapping_add(1);
        self.boundaries.set(n);
        format!("taipan-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// When the request at hand began, for the log; nobody looks at the clock for nothing.
    #[inline]
    pub fn access_time(&self) -> u64 {
        if self.access.is_on() { clock::micros() } else { 0 }
    }

    /// Has the worker been told to leave? Then every answer is its connection's last.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Writes the log lines of an answer that has left, or failed, and takes its buffers back.
    #[inline]
    pub fn finish(&self, output: Output, ended: Option<&str>) {
        self.access.write(&output.records, output.sent(), ended);
        self.desk.borrow_mut().take_back(output.into_buffers());
    }

    /// A new connection goes to the lot, where its first request is awaited.
    fn welcome(&self, fd: OwnedFd, family: Family, peer: Peer) {
        if let Err(error) = self.lot.admit(fd, family, peer, 0, self.clock.ticks()) {
            log::error(format_args!("cannot take a connection in: {error}"));
        }
        self.seats.wake_clock();
    }

    /// Gives a connection of the lot, which has to wait, a task of its own.
    pub fn give_task(self: &Rc<Worker>, fd: OwnedFd, family: Family, peer: Peer, http: Http1, start: Start) {
        match Stream::adopt(fd, family) {
            Ok(stream) => {
                let seated = self.seats.take(Phase::Idle, self.clock.ticks());
                spawn_local(Task::new(stream, peer, self.clone(), seated, http).serve(start));
            }
            Err(error) => log::error(format_args!("cannot go on with a connection: {error}")),
        }
    }

    /// Once a second at most: there may be a thousand clients at the door.
    fn complain(&self, error: &io::Error) {
        let now = self.clock.read();
        if self.complained.replace(now) != now {
            log::error(format_args!(
                "cannot accept a connection: {error}; those idle for longest are closed"
            ));
        }
    }

    fn connections(&self) -> usize {
        self.seats.len() + self.lot.len()
    }

    /// Waits until another connection may come. The one that has been silent longest makes room.
    async fn room(&self) {
        while self.connections() >= self.site.limits.connections {
            if !self.lot.evict(self.clock.ticks()) {
                self.seats.left().await;
            }
        }
    }

    async fn leave(&self) {
        self.leaving.set(true);
        self.lot.close_all();
        self.seats.send_idle_home();
        let everybody = async {
            while !self.seats.is_empty() {
                self.seats.left().await;
            }
        };
        if tokio::time::timeout(self.site.timeouts.shutdown, everybody).await.is_err() {
            log::warn(format_args!("not finished in time: connections: {}", self.seats.len()));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.access.flush();
    }
}

impl Desk {
    /// With room for two heads of the largest size.
    fn new(head: usize) -> Desk {
        Desk { buffer: vec![0; READ.max(2 * head)].into(), out: Vec::new(), records: Records::default() }
    }

    /// Where to read to: behind what is left of the input before.
    #[inline]
    pub fn space_behind(&mut self, rest: &[u8]) -> &mut [u8] {
        self.buffer[..rest.len()].copy_from_slice(rest);
        &mut self.buffer[rest.len()..]
    }

    #[inline]
    pub fn lend(&mut self) -> (Vec<u8>, Records) {
        (std::mem::take(&mut self.out), std::mem::take(&mut self.records))
    }

    #[inline]
    pub fn take_back(&mut self, (mut out, mut records): (Vec<u8>, Records)) {
        // Nothing of one client's is ever lent to another.
        out.clear();
        records.clear();
        // What one large answer needed is not kept for ever.
        if out.capacity() <= READ * 2 {
            self.out = out;
        }
        self.records = records;
    }
}

async fn accept(worker: Rc<Worker>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((fd, peer)) => {
                // One may wait here, the others wait in the kernel.
                worker.room().await;
                worker.welcome(fd, listener.family(), peer);
            }
            Err(error) => {
                // ECONNABORTED and the like are the peer's affair; the others are ours.
                let exhausted = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
                if error.raw_os_error().is_some_and(|e| exhausted.contains(&e)) {
                    worker.complain(&error);
                    if !worker.lot.evict(worker.clock.ticks()) {
                        tokio::time::sleep(ACCEPT_REST).await;
                    }
                }
            }
        }
    }
}

/// Looks at every deadline, a few times a second, as long as there is a connection.
async fn keep_time(worker: Rc<Worker>) {
    loop {
        if worker.connections() == 0 {
            worker.seats.taken().await;
        }
        tokio::time::sleep(clock::TICK).await;
        worker.clock.tick();
        let now = worker.clock.ticks();
        worker.seats.sweep(&worker.deadlines, now);
        worker.lot.sweep(&worker.deadlines, now);
        worker.seats.trim();
    }
}

async fn hand_over_lines(worker: Rc<Worker>) {
    loop {
        worker.access.begun().await;
        tokio::time::sleep(access::FLUSH_AFTER).await;
        worker.access.flush();
    }
}
