//! The error log of a process that writes no other log. The master writes at once. A process that requests wait for
//! has a thread, from its first line on, so that they do not wait for the disk of the log, too.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use site::model::Level;

use super::dropped::{Dropped, report_dropped};
use super::{OpenSink, STACK, SharedLog, level_now, locked};

/// Lines that wait for the thread. Further ones are dropped, and it says how many.
const WAITING: u64 = 256;

static LOG: Mutex<Option<DirectLog>> = Mutex::new(None);
/// Lines that the thread has yet to write.
static QUEUED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

struct DirectLog {
    level: Level,
    to: To,
}

enum To {
    Sink(OpenSink),
    /// The next line starts the thread.
    Threaded(OpenSink),
    Thread(Sender<Message>),
}

enum Message {
    Begin(OpenSink),
    Lines(Vec<u8>),
    Replace(OwnedFd),
    MoveTo(SharedLog),
    Flush(SyncSender<()>),
}

pub fn set(sink: OpenSink, level: Level) {
    *locked(&LOG) = Some(DirectLog { level, to: To::Sink(sink) });
}

pub fn clear() {
    *locked(&LOG) = None;
}

/// From now on a thread writes. To be called when the process needs no longer to have only one.
pub fn use_thread() {
    let mut log = locked(&LOG);
    if let Some(DirectLog { level, to: To::Sink(sink) }) = log.take_if(|log| matches!(log.to, To::Sink(_))) {
        *log = Some(DirectLog { level, to: To::Threaded(sink) });
    }
}

/// `false`: there is no log yet.
pub fn write(level: Level, least: Level, lines: impl FnOnce() -> Vec<u8>) -> bool {
    let mut log = locked(&LOG);
    let Some(log) = &mut *log else { return false };
    if level > level_now(log.level).max(least) {
        return true;
    }
    log.start();
    match &mut log.to {
        To::Sink(sink) | To::Threaded(sink) => sink.write_unless_full(&lines()),
        To::Thread(_) if QUEUED.load(Ordering::Relaxed) >= WAITING => {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        To::Thread(queue) => {
            QUEUED.fetch_add(1, Ordering::Relaxed);
            // The thread does not end.
            _ = queue.send(Message::Lines(lines()));
        }
    }
    true
}

pub fn replace(to: OwnedFd) {
    match locked(&LOG).as_mut().map(|log| &mut log.to) {
        Some(To::Sink(sink) | To::Threaded(sink)) => sink.replace(to),
        Some(To::Thread(queue)) => _ = queue.send(Message::Replace(to)),
        None => {}
    }
}

/// Writes to this error log from now on, with this level.
pub fn move_to(to: SharedLog, level: Level) {
    if let Some(log) = &mut *locked(&LOG) {
        log.level = level;
        match &mut log.to {
            To::Sink(sink) | To::Threaded(sink) => sink.move_to(to),
            To::Thread(queue) => _ = queue.send(Message::MoveTo(to)),
        }
    }
}

/// Waits until everything that was written so far has been, but no longer than `timeout`.
pub fn flush(timeout: Duration) {
    let queue = match &*locked(&LOG) {
        Some(DirectLog { to: To::Thread(queue), .. }) => queue.clone(),
        _ => return,
    };
    let (done, wait) = sync_channel(1);
    _ = queue.send(Message::Flush(done));
    _ = wait.recv_timeout(timeout);
}

impl DirectLog {
    /// Starts the thread, if there is to be one. Without it, lines are written at once.
    fn start(&mut self) {
        if !matches!(self.to, To::Threaded(_)) {
            return;
        }
        let (queue, messages) = channel();
        let started = thread::Builder::new().name("errors".into()).stack_size(STACK);
        if started.spawn(move || write_all(&messages)).is_err() {
            return;
        }
        if let To::Threaded(sink) = std::mem::replace(&mut self.to, To::Thread(queue.clone())) {
            _ = queue.send(Message::Begin(sink));
        }
    }
}

fn write_all(messages: &Receiver<Message>) {
    let Ok(Message::Begin(mut sink)) = messages.recv() else { return };
    for message in messages {
        match message {
            Message::Begin(other) => sink = other,
            Message::Lines(lines) => {
                sink.write(&lines);
                QUEUED.fetch_sub(1, Ordering::Relaxed);
                let lines = DROPPED.load(Ordering::Relaxed);
                let dropped = (lines > 0).then(|| Dropped { lines, why: Dropped::too_slow(sink.sink()) });
                if lines + sink.lost() > 0 && report_dropped(&mut sink, dropped.iter().collect()) {
                    DROPPED.fetch_sub(lines, Ordering::Relaxed);
                }
            }
            Message::Replace(to) => sink.replace(to),
            Message::MoveTo(to) => sink.move_to(to),
            // The caller may have given up.
            Message::Flush(done) => _ = done.send(()),
        }
    }
}
