//! A program's output, collected line by line. A thread keeps the pipe empty, so that the program never blocks on it. A
//! test that looks at the lines collects what is in the pipe first, so that it does not depend on how late the thread
//! is.

use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The most reads for one look at the lines: a program that writes without end does not hold up the test.
const READS: usize = 256;

/// The lines of one stream.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    collected: Mutex<Collected>,
    more: Condvar,
}

struct Collected {
    stream: Box<dyn Stream>,
    lines: Vec<String>,
    /// The beginning of a line that is not complete.
    partial: Vec<u8>,
    ended: bool,
}

/// The end of a pipe that a program writes to.
trait Stream: Read + AsFd + Send {}

impl<S: Read + AsFd + Send> Stream for S {}

impl Lines {
    /// Collects from `stream` until it ends.
    pub fn of(stream: impl Read + AsFd + Send + 'static) -> Lines {
        let descriptor = stream.as_fd().try_clone_to_owned().expect("there is a descriptor left");
        let stream = Box::new(stream);
        let collected = Collected { stream, lines: Vec::new(), partial: Vec::new(), ended: false };
        let shared = Arc::new(Shared { collected: Mutex::new(collected), more: Condvar::new() });
        let lines = Lines(shared.clone());
        thread::spawn(move || {
            while !lines.lock().ended {
                is_readable(descriptor.as_fd(), None);
            }
        });
        Lines(shared)
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        self.lock().lines.join("\n")
    }

    pub fn all(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// Waits until `find` finds something in all lines so far. `None`: not in time, or the stream has ended.
    pub fn wait_for<T>(&self, timeout: Duration, find: impl Fn(&[String]) -> Option<T>) -> Option<T> {
        let until = Instant::now() + timeout;
        let mut collected = self.lock();
        loop {
            let found = find(&collected.lines);
            let left = until.saturating_duration_since(Instant::now());
            if found.is_some() || collected.ended || left.is_zero() {
                return found;
            }
            collected = self.0.more.wait_timeout(collected, left).expect("no collector panics").0;
        }
    }

    /// Waits until the stream ends; `false` if it does not in time.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let collected = self.lock();
        let waited = self.0.more.wait_timeout_while(collected, timeout, |collected| !collected.ended);
        waited.expect("no collector panics").0.ended
    }

    /// The lines with all that the program has written up to now.
    fn lock(&self) -> MutexGuard<'_, Collected> {
        let mut collected = self.0.collected.lock().expect("no collector panics");
        if collected.collect() {
            self.0.more.notify_all();
        }
        collected
    }
}

impl Collected {
    /// Reads what is in the pipe, without waiting. Returns whether there was something, or the end.
    fn collect(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        let mut is_more = false;
        for _ in 0..READS {
            if self.ended || !is_readable(self.stream.as_fd(), Some(Duration::ZERO)) {
                break;
            }
            is_more = true;
            match self.stream.read(&mut buffer) {
                Ok(read @ 1..) => self.add(&buffer[..read]),
                _ => self.end(),
            }
        }
        is_more
    }

    fn add(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        self.lines.extend(whole[..end].split(|byte| *byte == b'\n').map(text));
    }

    fn end(&mut self) {
        self.ended = true;
        if !self.partial.is_empty() {
            self.lines.push(text(&std::mem::take(&mut self.partial)));
        }
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").field("lines", &self.lines).field("ended", &self.ended).finish()
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Waits until there is something to read, or the end of the stream. `timeout`: `None` waits for as long as it takes.
fn is_readable(stream: BorrowedFd<'_>, timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(|time| Timespec::try_from(time).expect("it is short"));
    let mut polled = [PollFd::new(&stream, PollFlags::IN)];
    loop {
        match poll(&mut polled, timeout.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(errno) => panic!("cannot poll the output of a program: {errno}"),
        }
    }
}
