//! A worker: the loop of one core, and everything that its connections share with one another. Nothing
//! here is shared with other workers; they are told what to do by messages.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use http::status::Status;
use http::target::{SafePath, Scheme};
use site::memory;
use site::model::{Limits, Route, Site};
use tokio::io::Interest;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

use crate::channel::{Channel, Guest};
use crate::clock::{self, Clock, Ticks};
use crate::conn::client::Client;
use crate::conn::h1::{Http1, Next};
use crate::conn::lot::{self, Lot};
use crate::conn::output::Output;
use crate::conn::stream::{self, Family, Stream};
use crate::conn::task::{self, Task};
use crate::conn::{Deadlines, Peer, Phase, Seats};
use crate::disk::{Closing, Disk};
use crate::doors::{Doors, accept};
use crate::files::Files;
use crate::files::roots::OpenRoots;
use crate::listen::Socket;
use crate::load::{Load, Shedding};
use crate::log;
use crate::log::access::{self, AccessLogs, Records};
use crate::places::Place;
use crate::pool::Pool;
use crate::runner::Runner;
use crate::serve::cgi::turn::Turns;
use crate::serve::{Dated, Reply, fixed};
use crate::stats::{Count, Counts, Snapshot};
use crate::sys;

/// Helper threads that have nothing to do end after this.
const HELPER_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a helper thread's stack.
const HELPER_STACK: usize = 256 * 1024;
/// Why a request ends whose connection cannot have a task, for the log.
const NO_ROOM: &str = "server had no room";
/// How long connections wait for somebody who serves from now on, when the one who did has ended.
const HEIR_PATIENCE: Duration = Duration::from_secs(5);

pub struct Worker {
    pub site: Site,
    pub clock: Clock,
    pub deadlines: Deadlines,
    pub desk: RefCell<Desk>,
    pub files: Files,
    pub disk: Rc<Disk>,
    /// Who may run a script.
    pub turns: Turns,
    /// What starts scripts, where there are any.
    pub runner: Option<Rc<Runner>>,
    /// Of the applications of the site, in their order.
    pub pools: Vec<Rc<Pool>>,
    /// Has any request to be let pass by an application?
    pub authorizes: bool,
    pub lot: Lot,
    pub access: AccessLogs,
    pub counts: Counts,
    pub load: Load,
    pub doors: Doors,
    seats: Rc<Seats>,
    /// The answer for whom there is no room.
    no_room: Dated,
    going: Cell<Going>,
    /// Connections on their way to the process that serves from now on.
    guests: RefCell<VecDeque<Guest>>,
    guest: Notify,
    /// The process that they go to, until somebody has taken it up.
    heir: RefCell<Option<Channel>>,
    new_heir: Notify,
    boundaries: Cell<u64>,
}

/// What a worker is told.
pub enum Command {
    /// Accept no more, finish what runs, and end.
    Leave,
    /// Give connections between two requests to another process, finish what runs, and end; say when no
    /// request can come here any more. Told again, it is yet another process from then on.
    HandOver { heir: Channel, closed: oneshot::Sender<()> },
    /// Take in a connection of an earlier process.
    Admit(Guest),
    /// Say what has been counted.
    Count(oneshot::Sender<Snapshot>),
    /// Say that the loop turns.
    Ping(oneshot::Sender<()>),
    /// End.
    Stop,
}

/// How a worker goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    On,
    /// Every answer is its connection's last.
    Home,
    /// A connection that has been answered goes to another process.
    Elsewhere,
}

/// The buffers that the connections of a worker lend to one another.
pub struct Desk {
    pub buffer: Box<[u8]>,
    /// How much of it is for the input of one client.
    input: usize,
    out: Vec<u8>,
    records: Records,
}

/// What a worker begins with.
pub struct Start {
    pub site: Site,
    pub sockets: Vec<Socket>,
    pub roots: OpenRoots,
    /// To what starts scripts, where there are any.
    pub runner: Option<Channel>,
    /// To the pools of applications.
    pub pools: Vec<Channel>,
}

/// The loop. Tells `serving` when it accepts connections; returns when it has been told to leave and
/// everybody has left. Errors: it cannot go on.
pub fn run(start: Start, commands: UnboundedReceiver<Command>, serving: impl FnOnce()) -> io::Result<()> {
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

async fn work(start: Start, commands: UnboundedReceiver<Command>, serving: impl FnOnce()) -> io::Result<()> {
    let Start { site, sockets, roots, runner, pools } = start;
    let (mut worker, closing) = Worker::new(site, roots)?;
    worker.runner = runner.map(Runner::new).transpose()?;
    let open = |(channel, application)| Pool::new(channel, application);
    worker.pools = pools.into_iter().zip(&worker.site.applications).map(open).collect::<io::Result<_>>()?;
    live(Rc::new(worker), sockets, closing, commands, serving).await
}

async fn live(
    worker: Rc<Worker>,
    sockets: Vec<Socket>,
    closing: Closing,
    mut commands: UnboundedReceiver<Command>,
    serving: impl FnOnce(),
) -> io::Result<()> {
    // What a worker cannot be without. A panic in one of them ends it.
    let mut tasks = JoinSet::new();
    for socket in sockets {
        tasks.spawn_local(accept(worker.clone(), socket.listen()?));
    }
    tasks.spawn_local(keep_time(worker.clone()));
    tasks.spawn_local(hand_over_lines(worker.clone()));
    tasks.spawn_local(lot::serve(worker.clone()));
    if let Some(runner) = &worker.runner {
        tasks.spawn_local(runner.clone().listen());
    }
    for pool in &worker.pools {
        tasks.spawn_local(pool.clone().listen());
    }
    let disk = worker.disk.clone();
    tasks.spawn_local(disk.close_files(closing));
    serving();
    let mut left: Pin<Box<dyn Future<Output = ()>>> = Box::pin(std::future::pending());
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Leave) => left = Box::pin(worker.clone().leave()),
                Some(Command::HandOver { heir, closed }) => {
                    worker.name_heir(heir);
                    if !worker.is_leaving() {
                        left = Box::pin(worker.clone().hand_over(closed));
                    }
                }
                Some(Command::Admit(guest)) => worker.admit(guest),
                // Whoever has asked may have stopped waiting.
                Some(Command::Count(answer)) => _ = answer.send(worker.snapshot()),
                Some(Command::Ping(answer)) => _ = answer.send(()),
                Some(Command::Stop) | None => return Ok(()),
            },
            () = &mut left => return Ok(()),
            Some(ended) = tasks.join_next() => ended.map_err(io::Error::other)??,
        }
    }
}

impl Worker {
    /// Within the worker's runtime. Also the files that are to be closed, for `Disk::close_files`.
    pub fn new(site: Site, roots: OpenRoots) -> io::Result<(Worker, Closing)> {
        let clock = Clock::start();
        let limits = &site.limits;
        let (disk, closing) = Disk::new(limits, site.timeouts.disk);
        let no_room = Dated::new(fixed::no_room(&site, &clock), &clock);
        let worker = Worker {
            deadlines: Deadlines::new(&site.timeouts, site.limits.min_rate),
            desk: RefCell::new(Desk::new(limits)),
            files: Files::new(&site, roots, clock.now()),
            clock,
            disk: Rc::new(disk),
            turns: Turns::new(&site),
            runner: None,
            pools: Vec::new(),
            authorizes: site.has_authorizers(),
            lot: Lot::open()?,
            access: AccessLogs::new(&site),
            counts: Counts::new(),
            load: Load::new(site.timeouts.delay),
            doors: Doors::new(&site),
            seats: Seats::new(),
            no_room,
            going: Cell::new(Going::On),
            guests: RefCell::default(),
            guest: Notify::new(),
            heir: RefCell::default(),
            new_heir: Notify::new(),
            boundaries: Cell::new(clock::micros()),
            site,
        };
        Ok((worker, closing))
    }

    /// The route that a path ends at, after rewrites.
    pub fn route(&self, host: usize, path: &SafePath<'_>) -> &Route {
        site::plan::plan(&self.site, host, path.clone(), None, b"", Scheme::Http).route()
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

    /// Is every answer its connection's last: because the worker leaves, or because others wait for room?
    #[inline]
    pub fn closes_connections(&self) -> bool {
        self.going.get() == Going::Home || self.doors.is_crowded()
    }

    /// Does the worker accept no more?
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.going.get() != Going::On
    }

    /// Is the loop so late that what may wait for a disk is refused? Counts it if so.
    pub fn sheds_cold(&self) -> bool {
        let sheds = self.load.shedding() >= Shedding::Cold;
        self.counts.add(Count::ShedCold, u64::from(sheds));
        sheds
    }

    /// Is it so late that everything is refused?
    #[inline]
    pub fn sheds_everything(&self) -> bool {
        let sheds = self.load.shedding() == Shedding::Everything;
        if sheds {
            self.counts.add(Count::ShedAll, 1);
        }
        sheds
    }

    /// Writes the log lines of an answer that has left, or failed, and takes its buffers back.
    #[inline]
    pub fn finish(&self, output: Output, ended: Option<&str>) {
        self.counts.add(Count::Bytes, output.sent());
        self.access.write(&output.records, output.sent(), ended);
        self.desk.borrow_mut().take_back(output.into_buffers());
    }

    /// A connection between two requests, which has been silent since then, goes to the lot, until the next
    /// one; or, when the worker leaves, to whoever serves from now on, if there is somebody.
    pub fn rest(&self, fd: OwnedFd, family: Family, client: Client, requests: u32, since: Ticks) {
        match self.going.get() {
            Going::On => {
                if let Err(error) = self.lot.admit(fd, family, client, requests, since) {
                    log::error(format_args!("cannot take a connection in: {error}"));
                }
                self.seats.wake_clock();
            }
            Going::Home => {}
            Going::Elsewhere => {
                self.guests.borrow_mut().push_back(Guest { fd, requests });
                self.guest.notify_one();
            }
        }
    }

    /// A connection that is over, but for what its client has yet to take.
    pub fn see_out(&self, fd: OwnedFd, family: Family, client: Client) {
        // Whoever leaves leaves that to the kernel; and so does who cannot take it in.
        if self.going.get() == Going::On {
            _ = self.lot.see_out(fd, family, client, self.clock.ticks());
            self.seats.wake_clock();
        }
    }

    /// A connection that an earlier process has begun with. Its clients are not turned away.
    fn admit(&self, guest: Guest) {
        let Some((family, peer)) = Peer::of(&guest.fd) else { return };
        self.counts.add(Count::Inherited, 1);
        if self.is_full() {
            self.evict();
        }
        self.rest(guest.fd, family, Client::known(peer), guest.requests, self.clock.ticks());
    }

    /// Gives a connection of the lot, which has to wait, a task of its own.
    pub fn give_task(
        self: &Rc<Worker>,
        fd: OwnedFd,
        family: Family,
        client: Client,
        mut http: Http1,
        input: Vec<u8>,
        start: task::Start,
    ) {
        if matches!(&start, task::Start::Next(Next::Send(output)) if output.ends_with_connection()) {
            stream::reset_when_closed(&fd);
        }
        match Stream::adopt(fd, family) {
            Ok(stream) => {
                let is_refused = matches!(&start, task::Start::Refusal(..));
                let phase = if is_refused { Phase::Refused } else { Phase::Idle };
                let seated = self.seats.take(phase, self.clock.ticks());
                if is_refused {
                    self.doors.refuses(&seated.seat);
                }
                let serving = Task::new(stream, client, self.clone(), seated, http, input).serve(start);
                debug_assert!(size_of_val(&serving) as u64 <= memory::TASK);
                spawn_local(serving);
            }
            Err(error) => {
                log::error(format_args!("cannot go on with a connection: {error}"));
                match start {
                    task::Start::Next(Next::Send(output)) => self.finish(output, Some(NO_ROOM)),
                    task::Start::Input | task::Start::Next(_) => {
                        http.break_off(self, &input, Status::SERVICE_UNAVAILABLE, NO_ROOM)
                    }
                    task::Start::Linger | task::Start::Refusal(..) => {}
                }
            }
        }
    }

    /// Gives a connection for which there is no room a task, too, in which it is told so.
    pub fn refuse(self: &Rc<Worker>, fd: OwnedFd, family: Family, place: Place) {
        let Some((_, peer)) = Peer::of(&fd) else { return };
        let reply = Reply::block(self.no_room.at(&self.clock));
        let mut http = Http1::new(peer, 0);
        http.began = self.access_time();
        let start = task::Start::Refusal(place, reply);
        self.give_task(fd, family, Client::known(peer), http, Vec::new(), start);
    }

    /// Closes the connection that has been silent longest. `false`: none has been silent long enough.
    pub fn evict(&self) -> bool {
        let evicted = self.lot.evict(self.clock.ticks());
        self.counts.add(Count::Evicted, u64::from(evicted));
        evicted
    }

    /// Has the connection with the slowest client leave, which takes it a turn of the loop. `false`: none is slower
    /// than the least rate.
    pub fn evict_slowest(&self) -> bool {
        self.seats.evict_slowest(&self.deadlines, self.clock.ticks())
    }

    /// Are all connections taken?
    pub fn is_full(&self) -> bool {
        self.connections() >= self.site.limits.connections
    }

    /// Those that count against the limit.
    pub fn connections(&self) -> usize {
        self.seats.len() + self.lot.len() - self.doors.refusals()
    }

    /// A place has become free, if somebody waits for one.
    #[inline]
    pub fn freed(&self) {
        if self.doors.is_crowded() {
            self.left();
        }
    }

    /// Waits until a place may have become free.
    pub async fn a_place(&self) {
        self.seats.left().await;
    }

    /// Somebody has left, or a door is closed.
    pub fn left(&self) {
        self.seats.tell_left();
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.counts.snapshot();
        snapshot.idle = self.seats.idle() as u64;
        snapshot.active = self.seats.len() as u64 - snapshot.idle;
        snapshot.parked = self.lot.len() as u64;
        snapshot.scripts_running = self.turns.running() as u64;
        snapshot.scripts_waiting = self.turns.waiting() as u64;
        snapshot.delay = self.load.delay();
        snapshot.queues = self.disk.queues();
        snapshot
    }

    async fn leave(self: Rc<Worker>) {
        self.go(Going::Home);
        self.lot.close_all();
        self.seats.send_idle_home();
        self.finish_within(self.site.timeouts.shutdown).await;
    }

    fn name_heir(&self, heir: Channel) {
        *self.heir.borrow_mut() = Some(heir);
        self.new_heir.notify_one();
    }

    async fn hand_over(self: Rc<Worker>, closed: oneshot::Sender<()>) {
        self.go(Going::Elsewhere);
        for (fd, family, client, requests) in self.lot.take_all() {
            self.rest(fd, family, client, requests, self.clock.ticks());
        }
        self.seats.send_idle_home();
        let doors = async {
            while self.doors.are_open() {
                self.seats.left().await;
            }
            // Whoever has asked may have stopped waiting.
            _ = closed.send(());
        };
        let everybody = async {
            tokio::select! {
                () = self.finish_within(self.site.timeouts.reload) => {}
                // Nobody is there to hand anything over to: those who are idle are closed.
                () = self.see_off() => self.clone().leave().await,
            }
        };
        tokio::join!(doors, everybody);
    }

    fn go(&self, going: Going) {
        self.going.set(going);
        self.doors.close();
    }

    async fn finish_within(&self, time: Duration) {
        let everybody = async {
            while !self.seats.is_empty() || !self.guests.borrow().is_empty() || self.doors.are_open() {
                self.seats.left().await;
            }
        };
        if tokio::time::timeout(time, everybody).await.is_err() {
            log::warn(format_args!("not finished in time: connections: {}", self.seats.len()));
        }
    }

    /// Sends those who rest to the process that serves from now on, or to the one that serves after it.
    /// Ends when there is none.
    async fn see_off(&self) {
        while tokio::time::timeout(HEIR_PATIENCE, self.heir_comes()).await.is_ok() {
            let Some(heir) = self.heir.borrow_mut().take() else { continue };
            tokio::select! {
                // It has ended. If it has been replaced, there is another one soon.
                _ = self.send_guests(heir) => {}
                () = self.heir_comes() => {}
            }
        }
    }

    async fn heir_comes(&self) {
        while self.heir.borrow().is_none() {
            self.new_heir.notified().await;
        }
    }

    /// Ends only with an error.
    async fn send_guests(&self, heir: Channel) -> io::Result<Infallible> {
        let heir = sys::watch(heir, Interest::WRITABLE)?;
        loop {
            if self.guests.borrow().is_empty() {
                self.seats.tell_left();
                self.guest.notified().await;
                continue;
            }
            // It is among the guests until it is sent: nobody may think that everybody has left.
            let send = |heir: &Channel| self.guests.borrow().front().map_or(Ok(()), |guest| heir.send(guest));
            heir.async_io(Interest::WRITABLE, send).await?;
            self.guests.borrow_mut().pop_front();
            self.counts.add(Count::HandedOver, 1);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.access.flush();
    }
}

impl Desk {
    fn new(limits: &Limits) -> Desk {
        let input = memory::input(limits) as usize;
        let buffer = vec![0; memory::buffer(limits) as usize].into();
        Desk { buffer, input, out: Vec::new(), records: Records::default() }
    }

    /// Where to read a client's input to: behind what is left of the input before. With that, it is as much as a
    /// connection may keep.
    #[inline]
    pub fn space_behind(&mut self, rest: &[u8]) -> &mut [u8] {
        self.buffer[..rest.len()].copy_from_slice(rest);
        &mut self.buffer[rest.len()..self.input]
    }

    /// Where to read to what a script says.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[..memory::BUFFER as usize]
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
        if out.capacity() <= 2 * memory::BATCH as usize {
            self.out = out;
        }
        self.records = records;
    }
}

/// Looks at every deadline, a few times a second, as long as there is a connection.
async fn keep_time(worker: Rc<Worker>) -> io::Result<()> {
    loop {
        if worker.seats.is_empty() && worker.lot.is_empty() {
            worker.seats.taken().await;
        }
        let due = Instant::now() + clock::TICK;
        tokio::time::sleep_until(due).await;
        worker.load.ticked(due.elapsed());
        worker.clock.tick();
        let now = worker.clock.ticks();
        if worker.is_full() {
            worker.seats.measure(now);
        }
        worker.seats.sweep(&worker.deadlines, now);
        if worker.doors.is_crowded() {
            worker.disk.shed(worker.site.limits.connections / 2);
        }
        worker.lot.sweep(&worker.deadlines, now, &worker.counts);
        worker.seats.trim();
    }
}

async fn hand_over_lines(worker: Rc<Worker>) -> io::Result<()> {
    loop {
        worker.access.begun().await;
        tokio::time::sleep(access::FLUSH_AFTER).await;
        worker.access.flush();
    }
}

#[cfg(test)]
mod faults;
