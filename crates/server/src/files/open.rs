//! Open files: what identifies their state, which of their bytes are in memory, and reading them.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use site::publishing::Publishing;

use super::beneath::{OpenError, Wait};
use crate::clock;
use crate::disk::resident::InMemory;
use crate::disk::{Device, Disk};
use crate::sys::{FileStatus, calls};

/// Microseconds for which a file need not be compared with its stamp again. Most file systems tell times by the tick of
/// the kernel, which is as long or longer, so that a stamp does not show every change within it.
const COMPARED_FOR: u64 = 1000;

const CHANGED: u64 = u64::MAX;

/// 1980-01-02, in nanoseconds since 1970. An earlier time of a file is none: images of file systems and packages that are
/// made to be reproducible give all files the same one, such as 0, 1, or the first day that a ZIP archive can express.
const FIRST_TIME: i128 = 315_619_200_000_000_000;

/// The state of a file or folder. When it changes, so does its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub device: Device,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i128,
    /// When the inode changed: its permissions, its owner or its number of links. Nanoseconds since 1970.
    pub changed: i128,
}

impl Stamp {
    pub fn modified_seconds(&self) -> i64 {
        self.modified.div_euclid(1_000_000_000) as i64
    }

    /// When the content may have changed last, in nanoseconds since 1970: the time of the inode stands in for a
    /// modification time that is none. `None`: that is none either, as in an image of squashfs. Then another file of the
    /// same size may have the same stamp in the next image.
    pub fn dated(&self) -> Option<i128> {
        [self.modified, self.changed].into_iter().find(|time| *time >= FIRST_TIME)
    }

    /// Whether an entity tag may be made of the stamp. Where clients publish, a tag has to be known without the content.
    pub fn makes_tag(&self, publishing: &Publishing) -> bool {
        self.dated().is_some() || publishing.writes()
    }

    /// The value of `Last-Modified`, in seconds since 1970.
    pub fn last_modified(&self) -> Option<i64> {
        self.dated().map(|time| time.div_euclid(1_000_000_000) as i64)
    }
}

/// A file that stays open while it is sent.
pub struct OpenFile {
    pub fd: Arc<OwnedFd>,
    /// Its stamp when the response head was written.
    pub stamp: Stamp,
    /// When it was last found to have this stamp, by `clock::micros`. 0: not lately. `CHANGED`: it had another one.
    compared_at: Cell<u64>,
    residence: Residence,
    disk: Rc<Disk>,
}

/// Bytes that are in memory if the first and the last of them are: as many as the kernel usually reads ahead.
const RUN: u64 = 128 * 1024;

/// Bytes of a file whose space takes a while to be freed.
pub const LARGE: u64 = 1024 * 1024;

/// Where the bytes of a file are.
enum Residence {
    /// On a disk. The kernel has those of this range in memory, too.
    Disk(Cell<InMemory>),
    /// Nowhere else: it has no name, and does not change (memfd_create(2)).
    Memory,
}

impl OpenFile {
    pub fn new(fd: OwnedFd, stamp: Stamp, disk: Rc<Disk>) -> OpenFile {
        OpenFile::compared(fd, stamp, 0, disk)
    }

    /// A file that had this stamp at `compared_at`, by `clock::micros`, or later.
    pub fn compared(fd: OwnedFd, stamp: Stamp, compared_at: u64, disk: Rc<Disk>) -> OpenFile {
        let in_memory = disk.resident.get(stamp.device, stamp.inode);
        let (compared_at, residence) = (Cell::new(compared_at), Residence::Disk(Cell::new(in_memory)));
        OpenFile { fd: Arc::new(fd), stamp, compared_at, residence, disk }
    }

    /// A file that exists only in memory.
    pub fn in_memory(fd: OwnedFd, stamp: Stamp, disk: Rc<Disk>) -> OpenFile {
        let (compared_at, residence) = (Cell::new(0), Residence::Memory);
        OpenFile { fd: Arc::new(fd), stamp, compared_at, residence, disk }
    }

    /// The bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        match self.residence {
            Residence::Disk(_) => 0,
            Residence::Memory => self.stamp.size as usize,
        }
    }

    /// How many of the bytes from `at` to `end` can be sent without waiting for a disk. Only the first byte and the last
    /// of each run are tested, once a second, because the kernel reads ahead and evicts in long runs.
    pub fn bytes_in_memory(&self, at: u64, end: u64, now: i64) -> u64 {
        let Residence::Disk(in_memory) = &self.residence else { return end - at };
        let mut range = in_memory.get();
        if range.second != now || !(range.from..=range.to).contains(&at) {
            if !is_in_memory(&self.fd, at) {
                return 0;
            }
            range = InMemory { second: now, from: at, to: at };
        }
        while range.to < end {
            let run = (range.to + RUN).min(end);
            if !is_in_memory(&self.fd, run - 1) {
                break;
            }
            range.to = run;
        }
        in_memory.set(range);
        range.to.min(end) - at
    }

    /// Whether the first `stamp.size` bytes are still those of the stamp. A file that only grew is unchanged.
    pub fn is_unchanged(&self) -> bool {
        let stamp = &self.stamp;
        if let Residence::Memory = self.residence {
            return true;
        }
        // The worker's loop calls this, so it must not wait for the disk.
        let is_unchanged = stat(&self.fd, Wait::Never).is_ok_and(|Stat { stamp: now, .. }| {
            now.size > stamp.size || (now.size == stamp.size && now.modified == stamp.modified)
        });
        if !is_unchanged {
            self.compared_at.set(CHANGED);
        }
        is_unchanged
    }

    /// Whether it has no name any more: it takes space on the disk only because it is open.
    pub fn is_deleted(&self) -> bool {
        // The worker's loop calls this, so it must not wait for the disk.
        matches!(self.residence, Residence::Disk(_))
            && status(&self.fd, Wait::Never).is_ok_and(|status| status.links == 0)
    }

    /// Whether it was last found to have another stamp.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.compared_at.get() == CHANGED
    }

    /// A lookup has found its stamp.
    pub fn confirm(&self) {
        self.compared_at.set(0);
    }

    /// As `is_unchanged`, but a comparison of a moment ago suffices: for bytes that are sent next. Bytes that were read
    /// earlier need `is_unchanged`.
    pub fn is_unchanged_lately(&self) -> bool {
        let (now, compared_at) = (clock::micros(), self.compared_at.get());
        if compared_at != CHANGED && now.saturating_sub(compared_at) < COMPARED_FOR {
            return true;
        }
        let is_unchanged = self.is_unchanged();
        if is_unchanged {
            self.compared_at.set(now);
        }
        is_unchanged
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let Residence::Disk(in_memory) = &self.residence else { return };
        let Stamp { device, inode, .. } = self.stamp;
        let in_memory = in_memory.get();
        if in_memory != InMemory::default() {
            self.disk.resident.set(device, inode, in_memory);
        }
        // The kernel frees the space of a large file while it closes it.
        if !is_on_disk(device) || (self.stamp.size >= LARGE && self.is_deleted()) {
            self.disk.close(device, self.fd.clone());
        }
    }
}

/// Whether the file system is on a disk of this machine. If it is not (its major number is 0), opening or closing a
/// file may wait for another machine or for a program.
pub fn is_on_disk(device: Device) -> bool {
    device.0 != 0
}

/// The flag of statx(2) for `wait`. With STATX_DONT_SYNC, a network file system responds from memory.
pub fn sync_flag(wait: Wait) -> AtFlags {
    match wait {
        Wait::Never => AtFlags::STATX_DONT_SYNC,
        Wait::Allowed => AtFlags::empty(),
    }
}

/// What statx(2) says of a file or folder.
pub struct Stat {
    pub kind: FileType,
    pub stamp: Stamp,
    /// By its owner, its group or others.
    pub is_executable: bool,
}

impl Stat {
    pub fn of(status: &FileStatus) -> Stat {
        let stamp = Stamp {
            device: status.device,
            inode: status.inode,
            size: status.size,
            modified: nanoseconds(status.modified),
            changed: nanoseconds(status.changed),
        };
        Stat { kind: status.kind(), stamp, is_executable: status.mode & 0o111 != 0 }
    }
}

pub fn stat(fd: &OwnedFd, wait: Wait) -> Result<Stat, OpenError> {
    Ok(Stat::of(&status(fd, wait)?))
}

fn status(fd: &OwnedFd, wait: Wait) -> Result<FileStatus, Errno> {
    retry_on_intr(|| calls::statx(fd, "", AtFlags::EMPTY_PATH | sync_flag(wait)))
}

/// `length` bytes from `at`. `None`: the file has become shorter.
pub fn read(fd: &OwnedFd, at: u64, length: usize, wait: Wait) -> Result<Option<Vec<u8>>, OpenError> {
    let flags = if wait == Wait::Never { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match calls::preadv2(fd, &mut bytes[filled..], at + filled as u64, flags) {
            Ok(0) => return Ok(None),
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if wait == Wait::Never => return Err(OpenError::WouldWait),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Some(bytes))
}

/// Reads the bytes at `at` that are in memory, at most as many as `buffer` has. 0 at the end of the file. `None`: none
/// is in memory, or it cannot be read.
pub fn read_cached(fd: &OwnedFd, at: u64, buffer: &mut [u8]) -> Option<usize> {
    retry_on_intr(|| calls::preadv2(fd, &mut *buffer, at, ReadWriteFlags::NOWAIT)).ok()
}

/// Whether the byte at `at` is in memory. `false` also where the file system does not support the question.
fn is_in_memory(fd: &OwnedFd, at: u64) -> bool {
    let mut byte = [0; 1];
    let read = retry_on_intr(|| calls::preadv2(fd, &mut byte, at, ReadWriteFlags::NOWAIT));
    !matches!(read, Err(Errno::AGAIN | Errno::OPNOTSUPP))
}

fn nanoseconds((seconds, nanos): (i64, u32)) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    use rustix::fs::{Advice, fadvise};
    use site::model::Limits;
    use site::publishing::Mode;

    use super::*;

    #[test]
    fn the_stamp_of_a_file_without_times_makes_a_tag_only_where_clients_publish() {
        let undated = Stamp { device: (0, 1), inode: 1, size: 1, modified: 0, changed: 0 };
        let dated = Stamp { changed: FIRST_TIME, ..undated };
        for (mode, of_undated) in [(Mode::Off, false), (Mode::ReadOnly, false), (Mode::WebDav, true)] {
            let publishing = Publishing { mode, ..Publishing::default() };
            assert_eq!(undated.makes_tag(&publishing), of_undated, "{mode:?}");
            assert!(dated.makes_tag(&publishing), "{mode:?}");
        }
    }

    #[test]
    fn finds_a_change_also_of_a_file_that_was_compared_a_moment_ago() {
        let path = std::env::temp_dir().join(format!("taipan-open-{}", std::process::id()));
        fs::write(&path, "one").unwrap();
        let (disk, _closing) = Disk::new(&Limits::default(), Duration::from_secs(1));
        let fd = OwnedFd::from(File::open(&path).unwrap());
        let Stat { stamp, .. } = stat(&fd, Wait::Never).unwrap();
        let file = OpenFile::compared(fd, stamp, clock::micros(), Rc::new(disk));
        let before = clock::micros();
        assert!(file.is_unchanged() && file.is_unchanged_lately());
        fs::write(&path, "12").unwrap();
        assert!(!file.is_unchanged(), "shorter");
        while file.is_unchanged_lately() {
            assert!(clock::micros() - before < 10_000_000, "never found");
            std::thread::yield_now();
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn counts_the_bytes_in_front_of_a_gap() {
        const TMPFS: i64 = 0x0102_1994;
        let path = std::env::temp_dir().join(format!("taipan-gap-{}", std::process::id()));
        fs::write(&path, vec![1; 4 * RUN as usize]).unwrap();
        let written = File::open(&path).unwrap();
        written.sync_all().unwrap();
        // Only the first run gets into memory.
        for advice in [Advice::DontNeed, Advice::Random] {
            fadvise(&written, 0, None, advice).unwrap();
        }
        for at in [0, RUN - 1] {
            written.read_exact_at(&mut [0], at).unwrap();
        }
        let (disk, _closing) = Disk::new(&Limits::default(), Duration::from_secs(1));
        let fd = OwnedFd::from(written);
        let kind = rustix::fs::fstatfs(&fd).unwrap().f_type as i64;
        let expected = match calls::preadv2(&fd, &mut [0], 0, ReadWriteFlags::NOWAIT) {
            // The file system does not support the question.
            Err(Errno::OPNOTSUPP) => 0,
            // It has no other place for the bytes.
            _ if kind == TMPFS => 4 * RUN,
            _ => RUN,
        };
        let Stat { stamp, .. } = stat(&fd, Wait::Never).unwrap();
        let file = OpenFile::new(fd, stamp, Rc::new(disk));
        assert_eq!(file.bytes_in_memory(0, 4 * RUN, 1), expected);
        fs::remove_file(&path).unwrap();
    }
}
