//! A program's output, collected line by line in a thread, so that the program never blocks on a full pipe.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The lines of one stream.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    collected: Mutex<Collected>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Collected {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    /// Collects from `stream` until it ends.
    pub fn of(stream: impl Read + Send + 'static) -> Lines {
        let shared = Arc::new(Shared { collected: Mutex::default(), more: Condvar::new() });
        let lines = Lines(shared.clone());
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            loop {
                let mut line = Vec::new();
                let read = stream.read_until(b'\n', &mut line);
                let mut collected = lines.lock();
                match read {
                    Ok(1..) => {
                        let text = String::from_utf8_lossy(&line);
                        collected.lines.push(text.strip_suffix('\n').unwrap_or(&text).to_owned());
                    }
                    _ => collected.ended = true,
                }
                let ended = collected.ended;
                drop(collected);
                lines.0.more.notify_all();
                if ended {
                    return;
                }
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

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.collected.lock().expect("no collector panics")
    }
}
