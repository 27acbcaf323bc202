//! What a script writes to its error stream: line by line into the error log, each with whom it is about.
//! So many lines in a second and so many bytes of a line are written; what is left out is said.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use site::model::Scripts;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::{log, sys};

/// Bytes that are read at once.
const READ: usize = 4096;
/// Reads at one go: a script that writes without end is not waited for.
const READS: usize = 16;

/// The reading end, until it is closed.
pub struct Errors {
    pipe: Option<AsyncFd<OwnedFd>>,
    lines: Lines,
    who: Rc<str>,
}

impl Errors {
    /// Within the worker's runtime.
    pub fn new(pipe: OwnedFd, who: Rc<str>, limits: &Scripts) -> Errors {
        let lines = Lines::new(limits.stderr_line, limits.stderr_lines);
        Errors { pipe: sys::watch(pipe, Interest::READABLE).ok(), lines, who }
    }

    /// Waits until there is something, and logs it. Never ends when nothing can come any more.
    pub async fn take(&mut self) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
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

    /// Logs what is there: its writer has ended.
    pub fn take_all(&mut self) {
        let mut bytes = [0; READ];
        for _ in 0..READS {
            let Some(pipe) = &self.pipe else { break };
            match rustix::io::read(pipe.get_ref(), &mut bytes) {
                Ok(n) if n > 0 => self.log(&bytes[..n]),
                _ => break,
            }
        }
        self.finish();
    }

    fn close(&mut self) {
        self.pipe = None;
        self.finish();
    }

    fn log(&mut self, bytes: &[u8]) {
        let who = &self.who;
        self.lines.receive(bytes, Instant::now(), |line| log::error(format_args!("{who}: {line}")));
    }

    /// A last line without an end, and how many were left out.
    fn finish(&mut self) {
        let who = &self.who;
        self.lines.finish(|line| log::error(format_args!("{who}: {line}")));
    }
}

/// Bytes become lines, of limited length and number.
pub struct Lines {
    line: Vec<u8>,
    /// Bytes of the present line that were left out.
    cut: usize,
    longest: usize,
    per_second: u32,
    /// When the second began, and lines in it.
    second: Option<Instant>,
    count: u32,
    dropped: u64,
}

impl Lines {
    pub fn new(longest: usize, per_second: u32) -> Lines {
        Lines { line: Vec::new(), cut: 0, longest, per_second, second: None, count: 0, dropped: 0 }
    }

    pub fn receive(&mut self, bytes: &[u8], now: Instant, mut write: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = self.longest.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.cut += text.len() - room;
            if ends {
                self.end_line(now, &mut write);
            }
        }
    }

    pub fn finish(&mut self, mut write: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(Instant::now(), &mut write);
        }
        self.tell_dropped(&mut write);
    }

    fn end_line(&mut self, now: Instant, write: &mut impl FnMut(&str)) {
        let is_new = self.second.is_none_or(|began| now.duration_since(began).as_secs() > 0);
        if is_new {
            (self.second, self.count) = (Some(now), 0);
            self.tell_dropped(write);
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

    fn tell_dropped(&mut self, write: &mut impl FnMut(&str)) {
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

    /// What is written of pieces that come so many milliseconds after the start.
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
    fn lines_are_told_one_by_one_however_they_come() {
        check(&[(0, "a\nb\n")], &["a", "b"]);
        check(&[(0, "a"), (0, "b\r\nc"), (1, "")], &["ab", "c"]);
        check(&[(0, "\n\n")], &["", ""]);
        check(&[], &[]);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_left_out_and_counted() {
        check(&[(0, "0123456789\n")], &["0123456789"]);
        check(&[(0, "0123456789ab"), (0, "c\nd\n")], &["0123456789 [3 bytes more]", "d"]);
        check(&[(0, "1\n2\n3\n4\n5\n")], &["1", "2", "3", "[2 lines more]"]);
        check(&[(0, "1\n2\n3\n4\n"), (1000, "5\n")], &["1", "2", "3", "[1 lines more]", "5"]);
        check(&[(0, "1\n2\n3\n"), (999, "4\n"), (2500, "5\n")], &["1", "2", "3", "[1 lines more]", "5"]);
    }
}
