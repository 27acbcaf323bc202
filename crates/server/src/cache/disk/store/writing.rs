//! A response is written: it takes space part by part, and is found when it is complete.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cache::key::Key;
use cache::store::head::{self, BodyHasher, Label, Seal};
use cache::store::index::space;
use cache::store::name::Name;
use cache::store::purge::Epoch;
use rustix::io::{Errno, retry_on_intr};

use super::{CHUNK, Known, NotStored, Store, add};
use crate::cache::disk::folder::NewFile;
use crate::clock;
use crate::sys::{calls, write_all_at};

/// A response that is to be written, without its body.
pub struct NewEntry {
    pub name: Name,
    pub key: Key,
    /// Separated by spaces.
    pub tags: Vec<u8>,
    pub metadata: Vec<u8>,
    /// When the request began that it responds to.
    pub since: Epoch,
}

impl NewEntry {
    fn label(&self) -> Label<'_> {
        Label { key: self.key.text().as_bytes(), tags: &self.tags }
    }

    fn head(&self, seal: Seal) -> Result<Vec<u8>, NotStored> {
        head::write(self.label(), &self.metadata, seal).ok_or(NotStored::TooLong)
    }
}

/// A response that is being written. Dropped before its end, it leaves nothing behind.
pub struct Writing {
    store: Arc<Store>,
    file: Option<NewFile>,
    entry: NewEntry,
    /// Bytes of the head.
    head: u64,
    hasher: BodyHasher,
    reserved: u64,
}

impl Store {
    /// Begins to write a response. `length`: of its body, if it is known.
    pub fn write(self: &Arc<Store>, entry: NewEntry, length: Option<u64>) -> Result<Writing, NotStored> {
        if self.retired.load(Ordering::Relaxed) {
            return Err(NotStored::Retired);
        }
        let (name, head) = (entry.name, entry.head(Seal { length: 0, checksum: 0 })?);
        let mut writing = Writing {
            store: self.clone(),
            file: None,
            entry,
            head: head.len() as u64,
            hasher: BodyHasher::default(),
            reserved: 0,
        };
        writing.reserve(length.unwrap_or(0))?;
        let file = self.folder.create(name).map_err(|errno| writing.failed(errno))?;
        let written = write_all_at(&file.fd, &head, 0);
        writing.file = Some(file);
        written.map_err(|errno| writing.failed(errno))?;
        Ok(writing)
    }
}

impl Writing {
    pub fn write(&mut self, part: &[u8]) -> Result<(), NotStored> {
        self.reserve(part.len() as u64)?;
        let store = self.store.clone();
        if store.retired.load(Ordering::Relaxed) {
            return Err(NotStored::Retired);
        }
        let at = self.head + self.hasher.length();
        let file = self.file.as_ref().ok_or(NotStored::Failed)?;
        write_all_at(&file.fd, part, at).map_err(|errno| self.failed(errno))?;
        self.hasher.write(part);
        Ok(())
    }

    /// Writes what `file` has from `at`, `length` bytes.
    pub fn write_from(&mut self, file: &OwnedFd, mut at: u64, mut length: u64) -> Result<(), NotStored> {
        let mut buffer = vec![0; CHUNK.min(usize::try_from(length).unwrap_or(CHUNK))];
        while length > 0 {
            let part = buffer.len().min(usize::try_from(length).unwrap_or(CHUNK));
            match retry_on_intr(|| calls::pread(file, &mut buffer[..part], at)) {
                Ok(n) if n > 0 => {
                    self.write(&buffer[..n])?;
                    (at, length) = (at + n as u64, length - n as u64);
                }
                // It has become shorter.
                Ok(_) => return Err(NotStored::Failed),
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        Ok(())
    }

    /// The body is complete: from now on, the entry is found.
    pub fn finish(mut self) -> Result<(), NotStored> {
        let store = self.store.clone();
        let (seal, length) = (self.hasher.seal(), self.head + self.hasher.length());
        let head = self.entry.head(seal)?;
        let file = self.file.as_ref().ok_or(NotStored::Failed)?;
        write_all_at(&file.fd, &head, 0).map_err(|errno| self.failed(errno))?;
        if store.retired.load(Ordering::Relaxed) {
            return Err(NotStored::Retired);
        }
        let is_purged = |entry: &NewEntry| store.purges.forbid_storing(entry.since, &entry.label());
        if is_purged(&self.entry) {
            return Err(NotStored::Purged);
        }
        let Some(file) = self.file.take() else { return Err(NotStored::Failed) };
        let stamp = file.keep(self.entry.name).map_err(|errno| self.failed(errno))?;
        // A purge that has begun since may have looked before the file had its name.
        let NewEntry { name, since, .. } = self.entry;
        if is_purged(&self.entry) {
            _ = store.discard(name);
            return Err(NotStored::Purged);
        }
        let known = Known { verified: Some(stamp), since, is_discarded: false };
        let surplus = store.index().insert(name, length, clock::wall_micros(), known);
        surplus.into_iter().for_each(|name| _ = store.discard(name));
        add(&store.counts.stored);
        Ok(())
    }

    fn failed(&self, errno: Errno) -> NotStored {
        self.store.not_written(errno, self.reserved.saturating_sub(self.head + self.hasher.length()))
    }

    /// Takes space for `more` bytes of the body.
    fn reserve(&mut self, more: u64) -> Result<(), NotStored> {
        let length = self.hasher.length().checked_add(more).ok_or(NotStored::TooLong)?;
        if length > self.store.limits.largest {
            return Err(NotStored::TooLong);
        }
        let missing = space(self.head + length).saturating_sub(self.reserved);
        if missing > 0 {
            self.store.make_space(missing)?;
            self.reserved += missing;
        }
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.discard();
        }
        self.store.index().release(self.reserved);
    }
}
