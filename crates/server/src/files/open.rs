//! Open files that are being sent, and what of them is in memory.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use super::look::{self, Stamp};
use crate::disk::Disk;

/// A file that stays open for as long as it is being sent.
pub struct OpenFile {
    pub fd: Arc<OwnedFd>,
    /// What it was when its head was written.
    pub stamp: Stamp,
    warm: Cell<Warm>,
    disk: Rc<Disk>,
}

/// A run of bytes that was found to be in memory in this second.
#[derive(Clone, Copy, Default)]
struct Warm {
    second: i64,
    from: u64,
    to: u64,
}

impl OpenFile {
    pub fn new(fd: OwnedFd, stamp: Stamp, disk: Rc<Disk>) -> OpenFile {
        OpenFile { fd: Arc::new(fd), stamp, warm: Cell::default(), disk }
    }

    /// Can the bytes from `at` to `end` be sent without waiting for a disk? The kernel is asked once a
    /// second, and about the first and the last byte: it reads ahead, and forgets, in long runs.
    pub fn is_in_memory(&self, at: u64, end: u64, now: i64) -> bool {
        let mut warm = self.warm.get();
        if warm.second != now || !(warm.from..=warm.to).contains(&at) {
            if !look::is_in_memory(&self.fd, at) {
                return false;
            }
            warm = Warm { second: now, from: at, to: at };
        }
        if end > warm.to {
            if !look::is_in_memory(&self.fd, end - 1) {
                return false;
            }
            warm.to = end;
        }
        self.warm.set(warm);
        true
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Where there is no disk of this machine's behind a file, closing may wait for another machine, or
        // for a program.
        if self.stamp.device.0 == 0 {
            self.disk.close(self.stamp.device, self.fd.clone());
        }
    }
}
