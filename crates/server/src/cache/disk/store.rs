//! The files of the cache, for all workers of a process: found, verified, written, evicted and removed. Its functions
//! wait for a disk, so they run on helper threads.
//!
//! Other processes may use the same folder at the same time, as after a reload. A file that one removes is a miss for
//! the others, and a walk finds those that others have written. Nothing here trusts a file: what does not have the key,
//! the length and the checksums that its head promises is removed, and was never there.

mod writing;

use std::fmt::Arguments;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cache::key::Key;
use cache::store::head::{self, BodyHasher, Head, HeadError, Seal};
use cache::store::index::{Index, Limits};
use cache::store::name::{self, Name};
use cache::store::purge::{Epoch, Purge};
use rustix::io::{Errno, retry_on_intr};
use site::model::CacheFiles;

pub use self::writing::NewEntry;
use super::folder::{Folder, Listed, Verdict};
use crate::cache::purges::SharedPurges;
use crate::clock;
use crate::files::open::Stamp;
use crate::log::{self, LineLimit};
use crate::mutex::locked;
use crate::process::privilege;
use crate::stats::StoredFiles;
use crate::sys::{calls, is_disk_full};

/// Bytes that are read at a time.
const CHUNK: usize = 256 * 1024;
/// The first read of a file: most heads, and many bodies, are shorter.
const FIRST_READ: usize = 16 * 1024;
/// Entries that one write may evict.
const EVICTIONS: usize = 256;
/// Entries that one write may evict because the file system is nearly full. Other programs may fill it.
const EVICTIONS_FOR_OTHERS: usize = 16;
/// A response that is in memory counts as used within so many microseconds. Files that were used since then do not make
/// room for it: otherwise, where more is used than the files can have, all of it would be written each minute.
const RECENT: u64 = 60_000_000;
/// A file that was being written and has not grown for so many seconds is left from a process that has ended.
const ABANDONED: i64 = 600;

pub struct Store {
    folder: Folder,
    limits: CacheFiles,
    index: Mutex<Index<Known>>,
    purges: Arc<SharedPurges>,
    /// The process has a successor, or ends: it writes no more.
    retired: AtomicBool,
    counts: Counts,
    errors: Mutex<LineLimit>,
}

/// What is known of a file.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// Its stamp when its body had the right checksum. `None`: it is still to be verified.
    verified: Option<Stamp>,
    /// When the request began that it responds to. The first epoch: unknown.
    since: Epoch,
    /// The file could not be removed. It is not used, its space is counted, and removing it is tried again.
    is_discarded: bool,
}

/// What has happened since the process began.
#[derive(Default)]
struct Counts {
    stored: AtomicU64,
    evicted: AtomicU64,
    failed: AtomicU64,
    damaged: AtomicU64,
    purged: AtomicU64,
}

/// What a purge has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Files.
    pub removed: u64,
    /// Files that cannot be removed, and folders that cannot be listed.
    pub failed: u64,
}

/// A verified file.
pub struct FoundFile {
    pub metadata: Vec<u8>,
    pub fd: OwnedFd,
    pub stamp: Stamp,
    /// Where the body begins.
    pub at: u64,
    pub length: u64,
    /// When it was requested, if this process has stored it.
    pub since: Epoch,
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// It is longer than the limits allow, or its head is.
    TooLong,
    /// Nothing more can be evicted, or the file system is nearly full.
    Full,
    /// The process has a successor.
    Retired,
    /// A purge has begun since.
    Purged,
    /// A call failed. The log has a line.
    Failed,
}

impl Store {
    pub fn new(folder: Folder, limits: CacheFiles, purges: Arc<SharedPurges>) -> Store {
        let index = Index::new(Limits { bytes: limits.bytes, entries: limits.entries });
        Store {
            folder,
            limits,
            index: Mutex::new(index),
            purges,
            retired: AtomicBool::new(false),
            counts: Counts::default(),
            errors: Mutex::default(),
        }
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// From now on, nothing is written: the successor has the folder.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether there may be files of the resource. Never waits.
    pub fn may_have(&self, resource: u128) -> bool {
        self.index.try_lock().map_or(true, |index| index.has(resource))
    }

    /// Counts a file as used, which has `length` bytes. Whether it is to be written again: it is gone, and what is used as
    /// much need not make room for it. Never waits: a use that is not counted only makes the file seem older.
    pub fn count_use(&self, name: Name, length: u64) -> bool {
        let Ok(mut index) = self.index.try_lock() else { return false };
        let now = clock::wall_micros();
        index.used(name, now).is_none() && index.has_space_unused_since(now.saturating_sub(RECENT), length)
    }

    pub fn stats(&self) -> StoredFiles {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (bytes, entries) = {
            let index = self.index();
            (index.bytes(), index.entries() as u64)
        };
        let Counts { stored, evicted, failed, damaged, purged } = &self.counts;
        StoredFiles {
            bytes,
            entries,
            stored: get(stored),
            evicted: get(evicted),
            failed: get(failed),
            damaged: get(damaged),
            purged: get(purged),
        }
    }

    /// The verified files of a key.
    pub fn find(&self, key: &Key) -> Vec<FoundFile> {
        let names = self.index().variants(key.resource());
        names.into_iter().filter_map(|name| self.open(name, key)).collect()
    }

    fn open(&self, name: Name, key: &Key) -> Option<FoundFile> {
        match self.verify(name, key) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                self.index().remove(name);
                None
            }
            Err(Errno::ILSEQ | Errno::INVAL | Errno::LOOP) => {
                add(&self.counts.damaged);
                if self.discard(name).is_ok() {
                    self.log(|| format!("{} is damaged, and is removed", self.shown(name)));
                }
                None
            }
            Err(errno) => {
                self.fail(format_args!("{} cannot be read: {errno}", self.shown(name)));
                None
            }
        }
    }

    /// `None`: it has another key, or has been or is about to be removed. Errors: `ILSEQ` for a file that is not what was
    /// written.
    fn verify(&self, name: Name, key: &Key) -> Result<Option<FoundFile>, Errno> {
        let (fd, stamp) = self.folder.read(name)?;
        let (bytes, head) = read_head(&fd)?;
        let head = head_of(&bytes, head)?;
        if head.label.key != key.text().as_bytes() {
            return Ok(None);
        }
        let Some(known) = self.index().used(name, clock::wall_micros()).copied() else { return Ok(None) };
        if known.is_discarded || self.purges.forbid_using(known.since, &head.label) {
            return Ok(None);
        }
        let (at, seal) = (head.length as u64, head.seal);
        if at.checked_add(seal.length) != Some(stamp.size) {
            return Err(Errno::ILSEQ);
        }
        if known.verified != Some(stamp) {
            verify_body(&fd, &bytes, at, seal)?;
            if let Some(known) = self.index().get_mut(name) {
                known.verified = Some(stamp);
            }
        }
        let (metadata, since) = (head.metadata.to_vec(), known.since);
        Ok(Some(FoundFile { metadata, fd, stamp, at, length: seal.length, since }))
    }

    /// Writes the file of a response again, with other metadata. Errors: as of `write`, or there is none.
    pub fn update(self: &Arc<Store>, entry: NewEntry) -> Result<(), NotStored> {
        let found = self.open(entry.name, &entry.key).ok_or(NotStored::Failed)?;
        let mut writing = self.write(entry, Some(found.length))?;
        writing.write_from(&found.fd, found.at, found.length)?;
        writing.finish()
    }

    /// Removes all files of a resource.
    pub fn remove(&self, resource: u128) {
        let names = self.index().variants(resource);
        names.into_iter().for_each(|name| self.remove_variant(name));
    }

    /// Removes one variant of a key.
    pub fn remove_variant(&self, name: Name) {
        // The log has a line of what fails.
        _ = self.discard(name);
    }

    /// Removes what matches a purge that has begun.
    pub fn purge(&self, purge: &Purge, begun: Epoch) -> Purged {
        let mut purged = Purged::default();
        (0..name::SHARDS).for_each(|shard| self.purge_shard(shard as u8, purge, begun, &mut purged));
        self.purges.end(begun);
        self.counts.purged.fetch_add(purged.removed, Ordering::Relaxed);
        purged
    }

    fn purge_shard(&self, shard: u8, purge: &Purge, begun: Epoch, purged: &mut Purged) {
        let mut names = Vec::new();
        let listed = self.folder.list(shard, |listed| {
            if let Listed::File { name, .. } = listed {
                names.push(name);
            }
            Verdict::Keep
        });
        if let Err(errno) = listed {
            purged.failed += 1;
            self.fail(format_args!(
                "a part of {} cannot be listed: {errno}",
                privilege::shown(&self.folder.path)
            ));
        }
        names.into_iter().for_each(|name| purged.add(self.purge_file(name, purge, begun)));
    }

    /// Whether it has removed a file that matches. A file that cannot be read is removed, too: it might be what was
    /// meant. Errors: as of `discard`.
    fn purge_file(&self, name: Name, purge: &Purge, begun: Epoch) -> Result<bool, Errno> {
        let read = || -> Result<bool, Errno> {
            let (fd, _) = self.folder.read(name)?;
            let (bytes, head) = read_head(&fd)?;
            Ok(purge.matches(&head_of(&bytes, head)?.label))
        };
        let is_later = |known: &Known| known.since > begun;
        match read() {
            Ok(true) if !self.index().get(name).is_some_and(is_later) => self.discard(name),
            Ok(_) | Err(Errno::NOENT) => Ok(false),
            Err(_) => self.discard(name).map(|_| false),
        }
    }

    /// Compares the index with the folder, removes what processes that have ended have left, and evicts what is too
    /// much.
    pub fn walk(&self) {
        self.index().begin_walk();
        let now = clock::wall();
        let mut is_complete = true;
        for shard in 0..name::SHARDS {
            let listed = self.folder.list(shard as u8, |listed| match listed {
                Listed::File { name, length, used } => {
                    let surplus = self.index().seen(name, length, used, Known::default);
                    let is_discarded = self.index().get(name).is_some_and(|known| known.is_discarded);
                    surplus.into_iter().chain(is_discarded.then_some(name)).for_each(|name| {
                        // What cannot be removed is an entry again.
                        _ = self.discard(name);
                    });
                    Verdict::Keep
                }
                Listed::New { modified } if modified + ABANDONED < now => Verdict::Remove,
                Listed::New { .. } | Listed::Foreign => Verdict::Keep,
            });
            if let Err(errno) = listed {
                is_complete = false;
                self.fail(format_args!(
                    "a part of {} cannot be listed: {errno}",
                    privilege::shown(&self.folder.path)
                ));
            }
        }
        if is_complete {
            self.index().end_walk();
        }
        if !self.retired.load(Ordering::Relaxed) {
            while self.index().is_over() && self.evict() {}
        }
    }

    /// `false`: there is nothing to evict, or it cannot be removed.
    fn evict(&self) -> bool {
        let victim = self.index().victim();
        let is_evicted = victim.is_some_and(|name| self.discard(name).is_ok());
        if is_evicted {
            add(&self.counts.evicted);
        }
        is_evicted
    }

    /// Removes a file. `false`: it was not there. Errors: it is still there, as a discarded entry; the log has a line.
    fn discard(&self, name: Name) -> Result<bool, Errno> {
        // The lock is not held while the disk is waited for.
        let bytes = self.index().remove(name).unwrap_or(0);
        match self.folder.remove(name) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => {
                self.fail(format_args!("{} cannot be removed: {errno}", self.shown(name)));
                let discarded = || Known { is_discarded: true, ..Known::default() };
                self.index().seen(name, bytes, 0, discarded);
                Err(errno)
            }
        }
    }

    /// Makes space for `bytes` more, and for one more entry.
    fn make_space(&self, bytes: u64) -> Result<(), NotStored> {
        for _ in 0..EVICTIONS_FOR_OTHERS {
            let free = self.folder.free_space().unwrap_or(u64::MAX);
            if free.saturating_sub(bytes) >= self.limits.min_free {
                break;
            }
            self.evict();
        }
        let free = self.folder.free_space().unwrap_or(u64::MAX);
        if free.saturating_sub(bytes) < self.limits.min_free {
            self.fail(format_args!(
                "the cache stores no more: {} has {free} bytes free, and `min_free` keeps {}; free space there, or set it \
                 lower",
                privilege::shown(&self.folder.path),
                self.limits.min_free
            ));
            return Err(NotStored::Full);
        }
        for _ in 0..EVICTIONS {
            {
                let mut index = self.index();
                if !index.is_full() && index.reserve(bytes) {
                    return Ok(());
                }
            }
            if !self.evict() {
                break;
            }
        }
        Err(NotStored::Full)
    }

    /// `missing`: the bytes that were still to be written.
    fn not_written(&self, errno: Errno, missing: u64) -> NotStored {
        let is_full = is_disk_full(errno);
        let advice = match errno {
            _ if is_full => "; free space there, or set `bytes` of `[cache_files]` lower",
            // The folder itself is gone: those within it are made again.
            Errno::NOENT => "; make the folder, and reload",
            _ => "",
        };
        self.fail(format_args!(
            "the cache cannot write to {}: {errno}{advice}",
            privilege::shown(&self.folder.path)
        ));
        if is_full {
            // For the next response. Where files or a quota are at an end, one eviction suffices.
            let enough = self.index().bytes().saturating_sub(missing.max(1));
            for _ in 0..EVICTIONS_FOR_OTHERS {
                if self.index().bytes() <= enough || !self.evict() {
                    break;
                }
            }
        }
        NotStored::Failed
    }

    fn fail(&self, what: Arguments<'_>) {
        add(&self.counts.failed);
        self.log(|| what.to_string());
    }

    fn log(&self, what: impl FnOnce() -> String) {
        let limit = locked(&self.errors);
        if let Some(omitted) = limit.admit(clock::wall()) {
            log::error(format_args!("{}{omitted}", what()));
        }
    }

    fn shown(&self, name: Name) -> String {
        format!("{}/{}/{}", privilege::shown(&self.folder.path), name::folder(name.shard()), name.file())
    }

    fn index(&self) -> MutexGuard<'_, Index<Known>> {
        // A panic in between leaves it as it was, or with a wrong sum that the next walk replaces.
        locked(&self.index)
    }
}

impl Purged {
    /// `removed`: whether a file was removed.
    fn add(&mut self, removed: Result<bool, Errno>) {
        match removed {
            Ok(removed) => self.removed += u64::from(removed),
            Err(_) => self.failed += 1,
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// The start of a file with its whole head, and the length of the head. Errors: `ILSEQ` for a file without one.
fn read_head(fd: &OwnedFd) -> Result<(Vec<u8>, usize), Errno> {
    let mut bytes = read_start(fd, FIRST_READ)?;
    let length = match head::read(&bytes) {
        Ok(head) => head.length,
        Err(HeadError::Incomplete(length)) => {
            bytes = read_start(fd, length)?;
            head::read(&bytes).map_err(|_| Errno::ILSEQ)?.length
        }
        Err(HeadError::Foreign | HeadError::Damaged) => return Err(Errno::ILSEQ),
    };
    Ok((bytes, length))
}

fn head_of(bytes: &[u8], length: usize) -> Result<Head<'_>, Errno> {
    head::read(bytes.get(..length).unwrap_or(bytes)).map_err(|_| Errno::ILSEQ)
}

/// At most `length` bytes from the start of a file: fewer only if it is shorter.
fn read_start(fd: &OwnedFd, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match retry_on_intr(|| calls::pread(fd, &mut bytes[filled..], filled as u64))? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Compares the body, which begins at `at`, with its checksum. `start` has the first bytes of the file. Errors: `ILSEQ`
/// for another body.
fn verify_body(fd: &OwnedFd, start: &[u8], at: u64, seal: Seal) -> Result<(), Errno> {
    let mut hasher = BodyHasher::default();
    let known = usize::try_from(at).ok().and_then(|at| start.get(at..)).unwrap_or_default();
    let known = &known[..known.len().min(usize::try_from(seal.length).unwrap_or(usize::MAX))];
    hasher.write(known);
    let mut buffer = vec![0; if (known.len() as u64) < seal.length { CHUNK } else { 0 }];
    while hasher.length() < seal.length {
        let missing = usize::try_from(seal.length - hasher.length()).unwrap_or(CHUNK).min(CHUNK);
        match retry_on_intr(|| calls::pread(fd, &mut buffer[..missing], at + hasher.length()))? {
            0 => return Err(Errno::ILSEQ),
            n => hasher.write(&buffer[..n]),
        }
    }
    if hasher.seal() == seal { Ok(()) } else { Err(Errno::ILSEQ) }
}

#[cfg(test)]
mod tests;
