//! A log file that is rotated: before it gets too large, and at certain times. The lines of a block stay together as
//! far as the size allows.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, flock};
use site::model::Sink;
use site::rotation::Rotation;

use crate::log::{self, OpenSink};
use crate::mutex::locked;
use crate::process::privileged_file::{Location, open_log};

/// After a rotation that has failed, the next one waits for so long.
const RETRY: Duration = Duration::from_secs(10);
/// Lines that could not be written are reported at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Held while names of rotated files change.
pub type Names = Arc<Mutex<()>>;

/// The thread that finishes rotated files.
#[derive(Clone)]
pub struct Finishing {
    /// Gets the path of a log when there is something to compress or to remove.
    pub paths: Sender<PathBuf>,
    pub names: Names,
}

pub struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    sink: OpenSink,
    /// The file that `sink` writes to. `None`: it could not be opened.
    file: Option<File>,
    size: u64,
    /// Devices and FIFOs are not rotated.
    is_regular: bool,
    /// When it is rotated next, in seconds since 1970.
    due: Option<i64>,
    /// After a failure, no rotation is tried before.
    not_before: Option<Instant>,
    reported: Option<Instant>,
    /// Counts the lines that could not be written, of all loggers.
    dropped: &'static AtomicU64,
    /// How many of those that are not reported yet it has.
    counted: u64,
    finishing: Finishing,
}

impl RotatedFile {
    pub fn open(
        path: PathBuf,
        rotation: Rotation,
        now: i64,
        finishing: Finishing,
        dropped: &'static AtomicU64,
    ) -> RotatedFile {
        // Replaced at once.
        let sink = OpenSink::unopened(&Sink::File(path.clone()));
        let mut file = RotatedFile {
            path,
            rotation,
            sink,
            file: None,
            size: 0,
            is_regular: true,
            due: None,
            not_before: None,
            reported: None,
            dropped,
            counted: 0,
            finishing,
        };
        if let Err(why) = file.begin(now) {
            log::error(format_args!("{why}"));
        }
        // What an earlier process has left.
        _ = file.finishing.paths.send(file.path.clone());
        file
    }

    /// When it is rotated next, in seconds since 1970, if a time matters.
    pub fn due(&self) -> Option<i64> {
        self.due.filter(|_| self.size > 0 && self.not_before.is_none())
    }

    /// Writes whole lines.
    pub fn write(&mut self, mut lines: &[u8], now: i64) {
        self.rotate_if_due(now);
        if self.file.is_none() {
            self.retry(|file| file.begin(now));
        }
        while !lines.is_empty() {
            let fits = self.fitting(lines);
            if fits == 0 && self.size > 0 && self.may_try() {
                self.measure();
                // It still has space if a full disk has not taken earlier lines.
                if self.size > 0 && self.fitting(lines) == 0 {
                    self.rotate(now);
                }
                continue;
            }
            // One line alone may be larger than a file; and without a rotation, the file grows.
            let first = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| at + 1);
            let taken = if fits == 0 && self.size > 0 { lines.len() } else { fits.max(first) };
            let (now_written, rest) = lines.split_at(taken);
            self.sink.write(now_written);
            self.size += taken as u64;
            lines = rest;
        }
        self.report_lost();
    }

    pub fn rotate_if_due(&mut self, now: i64) {
        self.due = self.due.map(|due| self.rotation.corrected(due, now));
        if self.due().is_some_and(|due| due <= now) && self.may_try() {
            self.measure();
            // An empty file would take the place of one with lines.
            if self.size > 0 {
                self.rotate(now);
            }
        }
    }

    /// Another program has renamed the file.
    pub fn reopen(&mut self, now: i64) {
        if !self.is_at_its_path()
            && let Err(why) = self.begin(now)
        {
            log::error(format_args!("{why}; the server continues to write to the old file"));
        }
    }

    /// Bytes of whole lines that the file takes before it is too large.
    fn fitting(&self, lines: &[u8]) -> usize {
        let Some(most) = self.rotation.size.filter(|_| self.is_regular) else { return lines.len() };
        let most = most.saturating_sub(self.size).min(lines.len() as u64) as usize;
        lines[..most].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    /// Measures the size of the file: a write may have failed.
    fn measure(&mut self) {
        if let Some(Ok(found)) = self.file.as_ref().map(rustix::fs::fstat) {
            self.size = found.st_size as u64;
        }
    }

    fn may_try(&self) -> bool {
        self.not_before.is_none_or(|at| at <= Instant::now())
    }

    fn retry(&mut self, work: impl FnOnce(&mut RotatedFile) -> Result<(), String>) {
        if !self.may_try() {
            return;
        }
        match work(self) {
            Ok(()) => self.not_before = None,
            Err(why) => {
                self.not_before = Some(Instant::now() + RETRY);
                log::error(format_args!("{why}; it is tried again in {} s", RETRY.as_secs()));
            }
        }
    }

    fn rotate(&mut self, now: i64) {
        self.retry(|file| {
            // Another process has done it: one that leaves, or logrotate.
            if file.is_at_its_path() {
                file.rename(now).map_err(|why| format!("cannot rotate {}: {why}", file.path.display()))?;
            }
            file.begin(now)?;
            if file.size > 0 && file.rotation.size.is_some_and(|most| file.size >= most) {
                return Err(format!("{} is as large as before", file.path.display()));
            }
            // Fails only if the thread has ended.
            _ = file.finishing.paths.send(file.path.clone());
            Ok(())
        });
    }

    fn rename(&self, now: i64) -> Result<(), String> {
        let _held = locked(&self.finishing.names);
        let location = Location::of(&self.path).map_err(|why| why.to_string())?;
        let base = location.name().to_string_lossy().into_owned();
        let all: Vec<String> = location
            .entries()
            .map_err(|errno| errno.to_string())?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        for (from, to) in self.rotation.shifts(&base, &all) {
            location
                .rename_entry(OsStr::new(&from), OsStr::new(&to))
                .map_err(|errno| format!("{from}: {errno}"))?;
        }
        let to = OsString::from(self.rotation.name(&base, now, &all));
        location.rename_entry(location.name(), &to).map_err(|errno| errno.to_string())
    }

    /// Opens the file at the path.
    fn begin(&mut self, now: i64) -> Result<(), String> {
        let file = open_log(&self.path)?;
        // Says to other processes that a rotated file is still written.
        _ = flock(&file, FlockOperation::NonBlockingLockShared);
        let found = rustix::fs::fstat(&file).map_err(|errno| format!("{}: {errno}", self.path.display()))?;
        let copy = file.try_clone().map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.size = found.st_size as u64;
        self.is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        // A file of yesterday is due at once.
        let since = if self.size > 0 { found.st_mtime.min(now) } else { now };
        self.due = self.rotation.next(since).filter(|_| self.is_regular);
        self.sink.replace(copy.into());
        self.file = Some(file);
        Ok(())
    }

    /// Whether the path still leads to the file that is written.
    fn is_at_its_path(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let (Ok(own), Ok(found)) = (rustix::fs::fstat(file), rustix::fs::stat(&self.path)) else {
            return false;
        };
        (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)
    }

    fn report_lost(&mut self) {
        let lost = self.sink.lost();
        self.dropped.fetch_add(lost.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = lost;
        if lost == 0 || self.reported.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return;
        }
        self.reported = Some(Instant::now());
        self.sink.subtract_lost(lost);
        self.counted = 0;
        log::error(format_args!("{}: {}", log::were_dropped(lost, "log line"), self.sink.why_lost()));
    }
}
