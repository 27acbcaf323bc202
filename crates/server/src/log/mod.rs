//! The logs. The master opens them with its own rights, and a thread of the serving process writes them. The workers
//! send blocks of complete lines to that thread through a bounded queue and never wait. If the queue is full, a block
//! is dropped and its lines are counted; the log thread writes the count.

pub mod access;
pub mod command;
mod daemon;
mod end_reason;
mod line_limit;
pub mod recent;
mod sink;
pub mod stderr;
pub mod upstream;

use std::fmt::Arguments;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Access, access};
use site::log_line;
use site::model::{ErrorFormat, ErrorLines, Level, Log, Sink, Site};

pub use command::LogCommand;
pub use end_reason::EndReason;
pub use line_limit::{LineLimit, Omitted};
pub use sink::{OpenSink, SharedLog};

use crate::finding::Unusable;
use crate::process::privileged_file;
use crate::process::supervisor::what_to_do;
use crate::{clock, encoder, terminal};

/// Empty blocks that are kept for reuse, so that a busy worker need not allocate.
const SPARE_BLOCKS: usize = 64;
/// Dropped lines are reported, and the log daemon is asked for, at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the end of the program waits for its logs.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

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
    queue: SyncSender<Message>,
    sinks: Vec<Sink>,
    /// The index of the sink of what scripts write to standard error.
    scripts: usize,
    level: Level,
    /// Dropped lines that are not reported yet.
    dropped: AtomicU64,
    /// All of them, for the statistics.
    dropped_ever: &'static AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
    /// New files and sockets for sinks.
    replaced: Mutex<Vec<(usize, OwnedFd)>>,
    /// They are closed when all of these are in use.
    awaiting: Mutex<Vec<OwnedFd>>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();
/// A level in place of the configured one, as its number and one more, and until when, of `clock::micros`. A forked
/// process has them, too.
static CHANGED_LEVEL: AtomicU64 = AtomicU64::new(0);
static CHANGED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// How lines of the error log are written. A forked process has it, too.
static ERROR_LINES: Mutex<ErrorLines> = Mutex::new(ErrorLines { format: ErrorFormat::Taipan, zone: None });
/// The error log of a process without a log thread.
static DIRECT: Mutex<Option<(OpenSink, Level)>> = Mutex::new(None);

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

/// Sets the sink and the level of the error log in a process without a log thread.
pub fn write_to(sink: OpenSink, level: Level) {
    *DIRECT.lock().unwrap_or_else(PoisonError::into_inner) = Some((sink, level));
}

fn write_as(lines: &ErrorLines) {
    *ERROR_LINES.lock().unwrap_or_else(PoisonError::into_inner) = lines.clone();
}

/// A line of the error log.
fn error_line(level: Level, text: &str) -> Vec<u8> {
    let mut line = Vec::new();
    let lines = ERROR_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    log_line::error_line(&lines, level, now(), text, &mut line);
    line
}

/// Starts the thread that writes the logs. Lines that are dropped are counted in `dropped_ever`. `on_lost_daemon` asks
/// for a connection to the log daemon, which this process cannot reach; `replace` receives it.
pub fn start(
    log: &Log,
    open: Vec<OpenSink>,
    dropped_ever: &'static AtomicU64,
    on_lost_daemon: impl Fn() + Send + 'static,
) -> Result<(), String> {
    write_as(&log.errors);
    *DIRECT.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let (queue, receiver) = sync_channel(log.queue);
    let index_of = |wanted: &Sink| open.iter().position(|sink| sink.sink() == wanted);
    let logs = Logs {
        queue,
        sinks: open.iter().map(|sink| sink.sink().clone()).collect(),
        scripts: log.scripts.as_ref().and_then(index_of).unwrap_or(ERRORS),
        level: log.level,
        dropped: AtomicU64::new(0),
        dropped_ever,
        spare: Mutex::new(Vec::new()),
        replaced: Mutex::new(Vec::new()),
        awaiting: Mutex::new(Vec::new()),
    };
    let spawned = std::thread::Builder::new()
        .name("log".into())
        .stack_size(128 * 1024)
        .spawn(move || write(&receiver, open, on_lost_daemon));
    spawned.map_err(|e| format!("cannot start the log thread: {e}{}", what_to_do(&e)))?;
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
    let changed = match CHANGED_LEVEL.load(Ordering::Relaxed) {
        0 => return configured,
        1 => Level::Error,
        2 => Level::Warn,
        3 => Level::Info,
        _ => Level::Debug,
    };
    if clock::micros() < CHANGED_UNTIL.load(Ordering::Relaxed) { changed } else { configured }
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
        None => match &mut *DIRECT.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((_, most)) if level > level_now(*most).max(least) => {}
            Some((sink, _)) => sink.write_unless_full(&lines()),
            None => _ = io::Write::write_all(&mut io::stderr(), &lines()),
        },
    }
}

/// Replaces the file of a sink after a rotation, or its connection to the log daemon. A process without a log thread
/// has one sink.
pub fn replace(sink: usize, to: OwnedFd) {
    match LOGS.get() {
        Some(logs) => {
            logs.replaced.lock().unwrap_or_else(PoisonError::into_inner).push((sink, to));
            // If the queue is full, the thread is awake.
            _ = logs.queue.try_send(Message::Wake);
        }
        None => {
            if let Some((sink, _)) = &mut *DIRECT.lock().unwrap_or_else(PoisonError::into_inner) {
                sink.replace(to);
            }
        }
    }
}

/// Closes the descriptor when no line goes to a file that was replaced before.
pub fn close_when_replaced(done: OwnedFd) {
    if let Some(logs) = LOGS.get() {
        logs.awaiting.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        // If the queue is full, the thread is awake.
        _ = logs.queue.try_send(Message::Wake);
    }
}

/// Has a process without a log thread write to this error log from now on, with this level.
fn move_to(log: SharedLog, level: Level) {
    if let Some((sink, most)) = &mut *DIRECT.lock().unwrap_or_else(PoisonError::into_inner) {
        sink.move_to(log);
        *most = level;
    }
}

/// Waits until everything that was sent so far is written, but not for long: the reader of a log may have stopped.
pub fn flush() {
    let Some(logs) = LOGS.get() else { return };
    let until = Instant::now() + FLUSH_TIMEOUT;
    let (done, wait) = sync_channel(1);
    let mut flush = Message::Flush(done);
    while let Err(TrySendError::Full(again)) = logs.queue.try_send(flush) {
        if Instant::now() >= until {
            return;
        }
        flush = again;
        std::thread::sleep(Duration::from_millis(10));
    }
    _ = wait.recv_timeout(until.saturating_duration_since(Instant::now()));
}

impl Logs {
    fn send(&self, block: Block) {
        match self.queue.try_send(Message::Block(block)) {
            Ok(()) => {}
            Err(
                TrySendError::Full(Message::Block(block)) | TrySendError::Disconnected(Message::Block(block)),
            ) => {
                self.dropped.fetch_add(block.count, Ordering::Relaxed);
                self.dropped_ever.fetch_add(block.count, Ordering::Relaxed);
                self.recycle(block.lines);
            }
            Err(_) => {}
        }
    }

    fn recycle(&self, mut lines: Vec<u8>) {
        lines.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_BLOCKS {
            spare.push(lines);
        }
    }

    fn spare(&self) -> Vec<u8> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

/// The log thread.
fn write(queue: &Receiver<Message>, mut sinks: Vec<OpenSink>, on_lost_daemon: impl Fn()) {
    let mut asked: Option<Instant> = None;
    let mut reported: Option<Instant> = None;
    let mut has_unreported = false;
    // Of those that could not be written and are not reported yet.
    let mut counted = 0;
    loop {
        let message = match has_unreported {
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
                let sink = &mut sinks[block.sink];
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
        // Those that come later may wait for files that come later, too.
        let awaiting = std::mem::take(&mut *logs.awaiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (sink, to) in logs.replaced.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(sink) = sinks.get_mut(sink) {
                sink.replace(to);
            }
        }
        drop(awaiting);
        let dropped = logs.dropped.load(Ordering::Relaxed);
        let lost = sinks.iter().map(OpenSink::lost).sum::<u64>();
        // Now: the error log may be on the same full disk, and have no report for long.
        logs.dropped_ever.fetch_add(lost.saturating_sub(counted), Ordering::Relaxed);
        counted = lost;
        has_unreported = dropped + lost > 0;
        // Behind a flush, the process may end.
        let is_due = flushed.is_some() || reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if has_unreported && is_due {
            reported = Some(Instant::now());
            report(&mut sinks, dropped, lost);
            counted = sinks.iter().map(OpenSink::lost).sum();
            has_unreported = false;
        }
        // The caller may have given up.
        _ = flushed.map(|done| done.send(()));
    }
}

/// Reports `dropped` lines, for which the queue was full, and `lost` lines, which could not be written.
fn report(sinks: &mut [OpenSink], dropped: u64, lost: u64) {
    let all = dropped + lost;
    let text =
        format!("{all} log lines were dropped: the disk or the reader of a log is too slow, full or gone");
    let line = error_line(Level::Error, &text);
    let errors = &mut sinks[ERRORS];
    let before = errors.lost();
    errors.write(&line);
    if errors.lost() > before {
        // Reported later; the report's own line does not count.
        return errors.subtract_lost(1);
    }
    sinks.iter_mut().for_each(|sink| sink.subtract_lost(sink.lost()));
    if let Some(logs) = LOGS.get() {
        logs.dropped.fetch_sub(dropped, Ordering::Relaxed);
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs() as i64)
}
