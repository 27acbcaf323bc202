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
    said: Mutex<Said>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    /// Collects from `stream` until it ends.
    pub fn of(stream: impl Read + Send + 'static) -> Lines {
        let shared = Arc::new(Shared { said: Mutex::default(), more: Condvar::new() });
        let lines = Lines(shared.clone());
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            loop {
                let mut line = Vec::new();
                let read = stream.read_until(b'\n', &mut line);
                let mut said = lines.lock();
                match read {
                    Ok(1..) => {
                        let text = String::from_utf8_lossy(&line);
                        said.lines.push(text.strip_suffix('\n').unwrap_or(&text).to_owned());
                    }
                    _ => said.ended = true,
                }
                let ended = said.ended;
                drop(said);
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
        let mut said = self.lock();
        loop {
            let found = find(&said.lines);
            let left = until.saturating_duration_since(Instant::now());
            if found.is_some() || said.ended || left.is_zero() {
                return found;
            }
            said = self.0.more.wait_timeout(said, left).expect("no collector panics").0;
        }
    }

    /// Waits until the stream ends; `false` if it does not in time.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let said = self.lock();
        let waited = self.0.more.wait_timeout_while(said, timeout, |said| !said.ended);
        waited.expect("no collector panics").0.ended
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().expect("no collector panics")
    }
}
