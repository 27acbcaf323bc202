//! The logs: a thread of their own writes them. Everybody else hands over blocks of whole lines through a
//! bounded queue and never waits: what finds the queue full is dropped and counted, and the count is
//! written as soon as there is room.

pub mod access;
mod sink;

use std::fmt::Arguments;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use site::log_line;
use site::model::{Level, Log, Sink};

use crate::privilege::Identity;
use sink::OpenSink;

/// Blocks kept for reuse, so that a busy worker need not allocate.
const SPARE_BLOCKS: usize = 64;
/// How often dropped lines are told of, at most.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the end of the program waits for its logs.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Whole lines for one sink.
struct Block {
    sink: usize,
    lines: Vec<u8>,
    count: u64,
}

enum Message {
    Block(Block),
    /// Look at what else is wanted.
    Wake,
    /// Everything before this is written when the answer comes.
    Flush(SyncSender<()>),
}

pub struct Logs {
    queue: SyncSender<Message>,
    sinks: Vec<Sink>,
    errors: usize,
    level: Level,
    dropped: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();
static REOPEN: AtomicBool = AtomicBool::new(false);

/// Opens every log and starts the thread that writes them. The files become `owner`'s, who will open them
/// again. Errors: a log that cannot be opened, by name.
pub fn start(log: &Log, access: impl Iterator<Item = Sink>, owner: Option<&Identity>) -> Result<(), String> {
    let mut sinks = vec![log.error.clone()];
    for sink in access {
        if !sinks.contains(&sink) {
            sinks.push(sink);
        }
    }
    let open = sinks.iter().map(OpenSink::open).collect::<Result<Vec<_>, String>>()?;
    if let Some(owner) = owner {
        open.iter().for_each(|sink| sink.give_to(owner));
    }
    let (queue, receiver) = sync_channel(log.queue);
    let logs = Logs {
        queue,
        sinks,
        errors: 0,
        level: log.level,
        dropped: AtomicU64::new(0),
        spare: Mutex::new(Vec::new()),
    };
    let spawned = std::thread::Builder::new()
        .name("log".into())
        .stack_size(128 * 1024)
        .spawn(move || write(&receiver, open));
    spawned.map_err(|e| format!("cannot start the log thread: {e}"))?;
    _ = LOGS.set(logs);
    Ok(())
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

/// Before the logs are open, and when they are gone, the text goes to standard error.
fn message(level: Level, text: Arguments<'_>) {
    let mut lines = Vec::new();
    log_line::error_line(level, now(), &text.to_string(), &mut lines);
    match LOGS.get() {
        Some(logs) if level > logs.level => {}
        Some(logs) => logs.send(Block { sink: logs.errors, lines, count: 1 }),
        None => _ = io::Write::write_all(&mut io::stderr(), &lines),
    }
}

/// Closes the log files and opens them anew under their names (SIGUSR1, after a rotation).
pub fn reopen() {
    REOPEN.store(true, Ordering::Relaxed);
    if let Some(logs) = LOGS.get() {
        // With a full queue the thread has something to wake up for already.
        _ = logs.queue.try_send(Message::Wake);
    }
}

/// Waits until everything handed over so far is written, but not for a reader that does not read.
pub fn flush() {
    let Some(logs) = LOGS.get() else { return };
    let until = Instant::now() + FLUSH_PATIENCE;
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
fn write(queue: &Receiver<Message>, mut sinks: Vec<OpenSink>) {
    let mut reported = SystemTime::UNIX_EPOCH;
    for message in queue {
        match message {
            Message::Block(block) => {
                sinks[block.sink].write(&block.lines);
                if let Some(logs) = LOGS.get() {
                    logs.recycle(block.lines);
                }
            }
            Message::Wake => {}
            Message::Flush(done) => _ = done.send(()),
        }
        if REOPEN.swap(false, Ordering::Relaxed) {
            sinks.iter_mut().for_each(OpenSink::reopen);
        }
        let lost = LOGS.get().map_or(0, |logs| logs.dropped.load(Ordering::Relaxed));
        let lost = lost + sinks.iter().map(OpenSink::lost).sum::<u64>();
        if lost > 0 && reported.elapsed().is_ok_and(|t| t >= REPORT_EVERY) {
            reported = SystemTime::now();
            report(&mut sinks, lost);
        }
    }
}

fn report(sinks: &mut [OpenSink], lost: u64) {
    if let Some(logs) = LOGS.get() {
        logs.dropped.store(0, Ordering::Relaxed);
    }
    sinks.iter_mut().for_each(OpenSink::forgive);
    let text = format!("{lost} log lines were dropped: the disk or the reader of a log is too slow, or full");
    let mut line = Vec::new();
    log_line::error_line(Level::Error, now(), &text, &mut line);
    sinks[0].write(&line);
}

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs() as i64)
}
