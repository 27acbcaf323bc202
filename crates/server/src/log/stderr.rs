//! The error stream of a script: each line goes to the error log, with the name of its source. Lines per second and
//! bytes per line are limited; the log says how much was left out.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use site::model::Scripts;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::{log, sys};

/// Bytes of one read.
const READ: usize = 4096;
/// A script that ends sooner has its errors read once, at its end: watching the pipe costs more than that read.
const WATCH_DELAY: Duration = Duration::from_millis(50);
/// Reads in `take_all`: a descendant of the script may still write.
const READS: usize = 16;

/// The reading end of an error stream.
pub struct Errors {
    pipe: Pipe,
    started: Instant,
    lines: Lines,
    source: Rc<str>,
}

enum Pipe {
    Unwatched(OwnedFd),
    Watched(AsyncFd<OwnedFd>),
    Closed,
}

impl Errors {
    pub fn new(pipe: OwnedFd, source: Rc<str>, limits: &Scripts) -> Errors {
        let lines = Lines::new(limits.stderr_line, limits.stderr_lines);
        Errors { pipe: Pipe::Unwatched(pipe), started: Instant::now(), lines, source }
    }

    /// Waits for output and logs it, within the worker's runtime. After the end of the stream, the future is pending
    /// for ever.
    pub async fn take(&mut self) {
        if let Pipe::Unwatched(_) = &self.pipe {
            sleep_until(self.started + WATCH_DELAY).await;
            self.watch();
        }
        let Pipe::Watched(pipe) = &self.pipe else { return std::future::pending().await };
        match pipe.readable().await {
            Ok(mut ready) => {
                let mut bytes = [0; READ];
                match ready.try_io(|pipe| Ok(rustix::io::read(pipe, &mut bytes)?)) {
                    Ok(Ok(n)) if n > 0 => self.log(&bytes[..n]),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(_) => self.close(),
                    Err(_) => {}
                }
            }
            Err(_) => self.close(),
        }
    }

    /// Logs the remaining output of a script that has ended.
    pub fn take_all(&mut self) {
        let mut bytes = [0; READ];
        for _ in 0..READS {
            let pipe = match &self.pipe {
                Pipe::Unwatched(pipe) => pipe,
                Pipe::Watched(pipe) => pipe.get_ref(),
                Pipe::Closed => break,
            };
            match rustix::io::read(pipe, &mut bytes) {
                Ok(n) if n > 0 => self.log(&bytes[..n]),
                _ => break,
            }
        }
        self.finish();
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.pipe, Pipe::Closed)
    }

    fn watch(&mut self) {
        if let Pipe::Unwatched(pipe) = std::mem::replace(&mut self.pipe, Pipe::Closed)
            && let Ok(pipe) = sys::watch(pipe, Interest::READABLE)
        {
            self.pipe = Pipe::Watched(pipe);
        }
    }

    fn close(&mut self) {
        self.pipe = Pipe::Closed;
        self.finish();
    }

    fn log(&mut self, bytes: &[u8]) {
        let source = &self.source;
        self.lines.receive(bytes, Instant::now(), |line| log::script(format_args!("{source}: {line}")));
    }

    /// Logs a last line without a line end, and the number of dropped lines.
    fn finish(&mut self) {
        let source = &self.source;
        self.lines.finish(|line| log::script(format_args!("{source}: {line}")));
    }
}

/// Splits bytes into lines of limited length and rate.
pub struct Lines {
    line: Vec<u8>,
    /// Bytes of the current line that were left out.
    cut: usize,
    max_length: usize,
    per_second: u32,
    /// The start of the current second, and the lines in it.
    second: Option<Instant>,
    count: u32,
    dropped: u64,
}

impl Lines {
    pub fn new(max_length: usize, per_second: u32) -> Lines {
        Lines { line: Vec::new(), cut: 0, max_length, per_second, second: None, count: 0, dropped: 0 }
    }

    pub fn receive(&mut self, bytes: &[u8], now: Instant, mut write: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let taken = self.max_length.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..taken]);
            self.cut += text.len() - taken;
            if ends {
                self.end_line(now, &mut write);
            }
        }
    }

    pub fn finish(&mut self, mut write: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(Instant::now(), &mut write);
        }
        self.report_dropped(&mut write);
    }

    fn end_line(&mut self, now: Instant, write: &mut impl FnMut(&str)) {
        let is_new = self.second.is_none_or(|began| now.duration_since(began).as_secs() > 0);
        if is_new {
            (self.second, self.count) = (Some(now), 0);
            self.report_dropped(write);
        }
        let line = std::mem::take(&mut self.line);
        let cut = std::mem::take(&mut self.cut);
        if self.count >= self.per_second {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
        match cut {
            0 => write(&line),
            cut => write(&format!("{line} [{cut} bytes more]")),
        }
    }

    fn report_dropped(&mut self, write: &mut impl FnMut(&str)) {
        match std::mem::take(&mut self.dropped) {
            0 => {}
            dropped => write(&format!("[{dropped} lines more]")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Checks the lines that are written of pieces, each with its time in milliseconds.
    fn check(pieces: &[(u64, &str)], expected: &[&str]) {
        let start = Instant::now();
        let mut lines = Lines::new(10, 3);
        let mut found = Vec::new();
        for (at, piece) in pieces {
            let now = start + Duration::from_millis(*at);
            lines.receive(piece.as_bytes(), now, |line| found.push(line.to_owned()));
        }
        lines.finish(|line| found.push(line.to_owned()));
        assert_eq!(found, expected, "{pieces:?}");
    }

    #[test]
    fn writes_lines_however_they_are_cut() {
        check(&[(0, "a\nb\n")], &["a", "b"]);
        check(&[(0, "a"), (0, "b\r\nc"), (1, "")], &["ab", "c"]);
        check(&[(0, "\n\n")], &["", ""]);
        check(&[], &[]);
    }

    #[test]
    fn drops_and_counts_long_lines_and_excess_lines() {
        check(&[(0, "0123456789\n")], &["0123456789"]);
        check(&[(0, "0123456789ab"), (0, "c\nd\n")], &["0123456789 [3 bytes more]", "d"]);
        check(&[(0, "1\n2\n3\n4\n5\n")], &["1", "2", "3", "[2 lines more]"]);
        check(&[(0, "1\n2\n3\n4\n"), (1000, "5\n")], &["1", "2", "3", "[1 lines more]", "5"]);
        check(&[(0, "1\n2\n3\n"), (999, "4\n"), (2500, "5\n")], &["1", "2", "3", "[1 lines more]", "5"]);
    }
}
