//! The logs. The master opens them with its own rights, and threads of the serving process write them: one the error
//! log, and one all others, so that a reader of the access log that has stopped holds back no error. The workers send
//! blocks of complete lines to these threads through bounded queues and never wait. If a queue is full, a block is
//! dropped and its lines are counted; the error log has the count.

pub mod access;
pub mod command;
mod daemon;
mod direct;
mod dropped;
mod end_reason;
mod line_limit;
pub mod recent;
mod sink;
pub mod stderr;
pub mod upstream;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Arguments;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use site::log_line;
use site::model::{ErrorFormat, ErrorLines, Level, Log, Sink, Site};

pub use command::LogCommand;
pub use dropped::were_dropped;
use dropped::{Dropped, Reports};
pub use end_reason::EndReason;
pub use line_limit::LineLimit;
pub use sink::{OpenSink, SharedLog};

use crate::finding::Unusable;
use crate::mutex::locked;
use crate::process::privileged_file;
use crate::process::supervisor::what_to_do;
use crate::{clock, encoder, terminal};

/// Empty blocks that are kept for reuse, so that a busy worker need not allocate.
const SPARE_BLOCKS: usize = 64;
/// Dropped lines are reported, and the log daemon is asked for, at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the end of the program waits for its logs.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits for the error log, when the others have taken that time.
const LAST_ERRORS_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of the stack of a log thread.
const STACK: usize = 128 * 1024;

/// Complete lines for one sink.
struct Block {
    sink: usize,
    lines: Vec<u8>,
    count: u64,
}

enum Message {
    Block(Block),
    /// Wakes the thread to take over a replaced sink.
    Wake,
    /// The thread responds when everything before this message is written.
    Flush(SyncSender<()>),
}

/// The index of the error log among the sinks.
const ERRORS: usize = 0;

struct Logs {
    errors: Writer,
    /// `None`: one thread writes all logs.
    others: Option<Writer>,
    sinks: Vec<Sink>,
    /// The index of the sink of what scripts write to standard error.
    scripts: usize,
    level: Level,
    /// Lines that were dropped and are not reported yet, by their sinks, but for those that the error log itself did
    /// not take.
    dropped: Mutex<BTreeMap<usize, Dropped>>,
    /// All of them, for the statistics.
    dropped_ever: &'static AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

/// A thread that writes to some of the sinks.
struct Writer {
    queue: SyncSender<Message>,
    /// New files and sockets for its sinks.
    replaced: Mutex<Vec<(usize, OwnedFd)>>,
    /// They are closed when all of these are in use, here and in the other thread.
    awaiting: Mutex<Vec<Arc<OwnedFd>>>,
}

/// What a thread writes to.
struct OwnSinks {
    /// The number of the first of them.
    first: usize,
    sinks: Vec<OpenSink>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();
/// A level in place of the configured one, as its number and one more, and until when, of `clock::micros`. A forked
/// process has them, too.
static CHANGED_LEVEL: AtomicU64 = AtomicU64::new(0);
static CHANGED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// How lines of the error log are written. A forked process has it, too.
static ERROR_LINES: Mutex<ErrorLines> = Mutex::new(ErrorLines { format: ErrorFormat::Taipan, zone: None });

/// Opens every log of a site; the error log is the first. Errors: the log that cannot be opened, and why. With
/// `Unusable::LeftOut`, the error log says it, and such a log has no lines until it is opened again.
pub fn open(site: &Site, unusable: Unusable) -> Result<Vec<OpenSink>, String> {
    write_as(&site.log.errors);
    let coding = site.log.rotation.as_ref().and_then(|rotation| rotation.compress);
    if let Some(coding) = coding.filter(|coding| !encoder::encodes(*coding)) {
        let coding = coding.as_str();
        return Err(format!(
            "this build cannot compress rotated logs in {coding}; add compress = \"none\" to rotate"
        ));
    }
    let open = |sink: &Sink| {
        let opened = match site.log.has_logger(sink) {
            true => by_logger(sink),
            false => OpenSink::open(sink),
        };
        opened.or_else(|why| match unusable {
            Unusable::Rejected => Err(why),
            Unusable::LeftOut => {
                error(format_args!("{why}; lines for it are lost until the server opens its logs again"));
                Ok(OpenSink::unopened(sink))
            }
        })
    };
    site.sinks().into_iter().map(open).collect()
}

/// Errors: the logger could not write there.
fn by_logger(sink: &Sink) -> Result<OpenSink, String> {
    match sink {
        // The logger opens it later, and this tells whether it can.
        Sink::File(path) => drop(privileged_file::open_log(path)?),
        Sink::Command(words) => command_problem(words).map_or(Ok(()), Err)?,
        Sink::Stdout | Sink::Stderr | Sink::Syslog | Sink::Tcp(_) | Sink::Collector(_) => {}
    }
    Ok(OpenSink::unopened(sink))
}

/// Why a command that reads a log cannot be executed.
pub fn command_problem(words: &[String]) -> Option<String> {
    let program = words.first()?;
    let error = access(program.as_str(), Access::EXEC_OK).err()?;
    Some(format!("the command of a log, {program}, cannot be executed ({error}); install it"))
}

/// Sets the sink and the level of the error log in a process that writes no other log.
pub fn write_to(sink: OpenSink, level: Level) {
    direct::set(sink, level);
}

/// Such a process does not wait for the error log from now on. To be called when it may have more than one thread.
pub fn write_by_thread() {
    direct::use_thread();
}

fn write_as(lines: &ErrorLines) {
    *locked(&ERROR_LINES) = lines.clone();
}

/// A line of the error log.
fn error_line(level: Level, text: &str) -> Vec<u8> {
    let mut line = Vec::new();
    let lines = locked(&ERROR_LINES);
    log_line::error_line(&lines, level, clock::wall(), text, &mut line);
    line
}

/// Starts the threads that write the logs. Lines that are dropped are counted in `dropped_ever`. `on_lost_daemon` asks
/// for a connection to the log daemon, which this process cannot reach; `replace` receives it.
pub fn start(
    log: &Log,
    open: Vec<OpenSink>,
    dropped_ever: &'static AtomicU64,
    on_lost_daemon: impl Fn() + Send + 'static,
) -> Result<(), String> {
    write_as(&log.errors);
    direct::clear();
    let index_of = |wanted: &Sink| open.iter().position(|sink| sink.sink() == wanted);
    let sinks: Vec<Sink> = open.iter().map(|sink| sink.sink().clone()).collect();
    let scripts = log.scripts.as_ref().and_then(index_of).unwrap_or(ERRORS);
    let mut errors = open;
    // Two threads would tear the lines of one pipe.
    let is_shared =
        errors.split_first().is_some_and(|(own, rest)| rest.iter().any(|sink| sink.has_stream_of(own)));
    let of_errors = if is_shared { errors.len() } else { errors.len().min(ERRORS + 1) };
    let others = errors.split_off(of_errors);
    let on_lost_daemon = Arc::new(Mutex::new(on_lost_daemon));
    let start = |name: &str, first: usize, sinks: Vec<OpenSink>| {
        let (queue, receiver) = sync_channel(log.queue);
        let (mut own, on_lost_daemon) = (OwnSinks { first, sinks }, on_lost_daemon.clone());
        let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK);
        let spawned = thread.spawn(move || own.write(&receiver, || locked(&on_lost_daemon)()));
        spawned.map_err(|e| format!("cannot start the log thread: {e}{}", what_to_do(&e)))?;
        Ok::<_, String>(Writer { queue, replaced: Mutex::default(), awaiting: Mutex::default() })
    };
    let logs = Logs {
        errors: start("errors", ERRORS, errors)?,
        others: if others.is_empty() { None } else { Some(start("log", ERRORS + 1, others)?) },
        sinks,
        scripts,
        level: log.level,
        dropped: Mutex::default(),
        dropped_ever,
        spare: Mutex::default(),
    };
    _ = LOGS.set(logs);
    Ok(())
}

/// Has a level in place of the configured one for a time.
pub fn change_level(level: Level, time: Duration) {
    let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    CHANGED_UNTIL.store(clock::micros().saturating_add(time), Ordering::Relaxed);
    CHANGED_LEVEL.store(level as u64 + 1, Ordering::Relaxed);
}

/// The level that counts where this one is configured.
fn level_now(configured: Level) -> Level {
    let changed = (CHANGED_LEVEL.load(Ordering::Relaxed) as usize).checked_sub(1);
    match changed.and_then(|at| Level::NAMES.get(at)) {
        Some((_, level)) if clock::micros() < CHANGED_UNTIL.load(Ordering::Relaxed) => *level,
        _ => configured,
    }
}

/// Whether messages of this level are written.
fn is_written(level: Level) -> bool {
    LOGS.get().is_some_and(|logs| level <= level_now(logs.level))
}

/// What an administrator does, or has asked for by a key of its own. It is written at every level.
pub fn audit(text: Arguments<'_>) {
    write_message(Level::Info, Level::Info, text);
}

pub fn error(text: Arguments<'_>) {
    message(Level::Error, text);
}

pub fn warn(text: Arguments<'_>) {
    message(Level::Warn, text);
}

pub fn info(text: Arguments<'_>) {
    message(Level::Info, text);
}

/// A line of the standard error of a script.
pub fn script(text: Arguments<'_>) {
    match LOGS.get() {
        Some(logs) if logs.scripts != ERRORS => {
            let lines = error_line(Level::Error, &text.to_string());
            logs.send(Block { sink: logs.scripts, lines, count: 1 });
        }
        // As the script has written it.
        _ => write_lines(Level::Error, Level::Error, || error_line(Level::Error, &text.to_string())),
    }
}

fn message(level: Level, text: Arguments<'_>) {
    write_message(level, Level::Error, text);
}

fn write_message(level: Level, least: Level, text: Arguments<'_>) {
    write_lines(level, least, || error_line(level, &terminal::plain(&text.to_string())));
}

/// `least` is written where a higher level is configured, too. Before the logs are open, the text goes to standard
/// error.
fn write_lines(level: Level, least: Level, lines: impl Fn() -> Vec<u8>) {
    match LOGS.get() {
        Some(logs) if level > level_now(logs.level).max(least) => {}
        Some(logs) => logs.send(Block { sink: ERRORS, lines: lines(), count: 1 }),
        None if direct::write(level, least, &lines) => {}
        None => _ = io::Write::write_all(&mut io::stderr(), &lines()),
    }
}

/// Replaces the file of a sink after a rotation, or its connection to the log daemon. A process without a log thread
/// has one sink.
pub fn replace(sink: usize, to: OwnedFd) {
    match LOGS.get() {
        Some(logs) => {
            let writer = logs.writer(sink);
            locked(&writer.replaced).push((sink, to));
            writer.wake();
        }
        None => direct::replace(to),
    }
}

/// Closes the descriptor when no line goes to a file that was replaced before.
pub fn close_when_replaced(done: OwnedFd) {
    if let Some(logs) = LOGS.get() {
        let done = Arc::new(done);
        for writer in logs.writers() {
            locked(&writer.awaiting).push(done.clone());
            writer.wake();
        }
    }
}

/// Waits until everything that was sent so far is written, but not for long: the reader of a log may have stopped.
pub fn flush() {
    let Some(logs) = LOGS.get() else { return direct::flush(LAST_ERRORS_TIMEOUT) };
    let until = Instant::now() + FLUSH_TIMEOUT;
    // The error log comes last: it reports what the others did not take.
    if logs.others.as_ref().is_some_and(|others| !others.flush(until)) {
        error(format_args!(
            "the last lines of a log may be lost: its disk or its reader has not taken them within {} s",
            FLUSH_TIMEOUT.as_secs()
        ));
    }
    logs.errors.flush(until.max(Instant::now() + LAST_ERRORS_TIMEOUT));
}

impl Writer {
    fn wake(&self) {
        // If the queue is full, the thread is awake.
        _ = self.queue.try_send(Message::Wake);
    }

    /// Waits until everything that was sent so far is written. `false`: it is not until then.
    fn flush(&self, until: Instant) -> bool {
        let (done, wait) = sync_channel(1);
        let mut flush = Message::Flush(done);
        while let Err(TrySendError::Full(again)) = self.queue.try_send(flush) {
            if Instant::now() >= until {
                return false;
            }
            flush = again;
            std::thread::sleep(Duration::from_millis(10));
        }
        wait.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

impl Logs {
    fn writers(&self) -> impl Iterator<Item = &Writer> {
        [&self.errors].into_iter().chain(&self.others)
    }

    /// The thread that writes to a sink.
    fn writer(&self, sink: usize) -> &Writer {
        self.others.as_ref().filter(|_| sink != ERRORS).unwrap_or(&self.errors)
    }

    fn send(&self, block: Block) {
        match self.writer(block.sink).queue.try_send(Message::Block(block)) {
            Ok(()) => {}
            Err(
                TrySendError::Full(Message::Block(block)) | TrySendError::Disconnected(Message::Block(block)),
            ) => {
                self.note_dropped(block.sink, block.count, || Dropped::too_slow(&self.sinks[block.sink]));
                self.recycle(block.lines);
            }
            Err(_) => {}
        }
    }

    fn note_dropped(&self, sink: usize, lines: u64, why: impl FnOnce() -> String) {
        self.dropped_ever.fetch_add(lines, Ordering::Relaxed);
        let mut dropped = locked(&self.dropped);
        let is_first = dropped.is_empty();
        match dropped.entry(sink) {
            Entry::Occupied(mut known) => known.get_mut().lines += lines,
            Entry::Vacant(new) => _ = new.insert(Dropped { lines, why: why() }),
        }
        drop(dropped);
        if is_first {
            self.errors.wake();
        }
    }

    fn recycle(&self, mut lines: Vec<u8>) {
        lines.clear();
        let mut spare = locked(&self.spare);
        if spare.len() < SPARE_BLOCKS {
            spare.push(lines);
        }
    }

    fn spare(&self) -> Vec<u8> {
        locked(&self.spare).pop().unwrap_or_default()
    }
}

impl OwnSinks {
    /// What a log thread does.
    fn write(&mut self, queue: &Receiver<Message>, on_lost_daemon: impl Fn()) {
        let mut asked: Option<Instant> = None;
        let mut reports = Reports::default();
        loop {
            let message = match reports.has_more {
                true => match queue.recv_timeout(REPORT_EVERY) {
                    Err(RecvTimeoutError::Disconnected) => return,
                    received => received.unwrap_or(Message::Wake),
                },
                false => match queue.recv() {
                    Ok(message) => message,
                    Err(_) => return,
                },
            };
            let mut flushed = None;
            match message {
                Message::Block(block) => {
                    let sink = &mut self.sinks[block.sink - self.first];
                    sink.write(&block.lines);
                    if sink.lacks_daemon() && asked.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                        asked = Some(Instant::now());
                        on_lost_daemon();
                    }
                    if let Some(logs) = LOGS.get() {
                        logs.recycle(block.lines);
                    }
                }
                Message::Wake => {}
                Message::Flush(done) => flushed = Some(done),
            }
            let Some(logs) = LOGS.get() else { continue };
            self.take_replaced(logs);
            if flushed.is_some() {
                self.sinks.iter_mut().for_each(OpenSink::lose_kept);
            }
            self.note_lost(logs);
            if self.first == ERRORS {
                match flushed {
                    Some(_) => reports.finish(logs, &mut self.sinks[ERRORS]),
                    None => reports.update(logs, &mut self.sinks[ERRORS]),
                }
            }
            // The caller may have given up.
            _ = flushed.map(|done| done.send(()));
        }
    }

    fn take_replaced(&mut self, logs: &Logs) {
        let writer = logs.writer(self.first);
        // Those that come later may wait for files that come later, too.
        let awaiting = std::mem::take(&mut *locked(&writer.awaiting));
        for (sink, to) in locked(&writer.replaced).drain(..) {
            if let Some(sink) = self.sinks.get_mut(sink - self.first) {
                sink.replace(to);
            }
        }
        drop(awaiting);
    }

    /// Has the error log report the lines that the others did not take.
    fn note_lost(&mut self, logs: &Logs) {
        let others = (self.first..).zip(&mut self.sinks).filter(|(number, _)| *number != ERRORS);
        for (number, sink) in others.filter(|(_, sink)| sink.lost() > 0) {
            logs.note_dropped(number, sink.lost(), || sink.why_lost());
            sink.subtract_lost(sink.lost());
        }
    }
}
