//! A file that is being written. It has no name that clients know until it is whole.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use site::publishing::Sync;

use super::failure::Failure;
use super::store::{Below, Found, Guard, NEW, Store, Terms, UPLOADS, create_locked, write_at};
use super::tree::{BYTES_PER_CALL, BYTES_PER_STEP, Progress, put_in_place};
use super::usage::{Reservation, cost};
use crate::disk::helpers;
use crate::files::beneath::Wait;
use crate::files::open::{Stamp, stat};
use crate::sys::calls;

pub struct NewFile {
    fd: OwnedFd,
    /// Shared with the helper that removes the file: to do so must not need another descriptor.
    folder: Arc<OwnedFd>,
    name: String,
    pub length: u64,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is removed when it is dropped.
    Temporary,
    /// It stays as it is, so that the upload can be resumed.
    Kept,
    Stored,
}

/// What has become of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    pub stamp: Stamp,
    /// What was there before.
    pub replaced: Option<Found>,
}

impl NewFile {
    pub fn create(store: &Store) -> Result<NewFile, Failure> {
        let folder = store.state_folder(NEW)?;
        let (fd, name) = create_locked(&folder, store.file_mode())?;
        Ok(NewFile { fd, folder: folder.into(), name, length: 0, fate: Fate::Temporary })
    }

    /// The file of an upload that can be resumed.
    pub fn create_upload(store: &Store, token: &str) -> Result<NewFile, Failure> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        NewFile::upload(store, token, flags)
    }

    /// As `create_upload`, for one that exists. Errors: `Busy`, `Missing`.
    pub fn open_upload(store: &Store, token: &str) -> Result<NewFile, Failure> {
        NewFile::upload(store, token, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC)
    }

    fn upload(store: &Store, token: &str, flags: OFlags) -> Result<NewFile, Failure> {
        let (folder, name) = (store.state_folder(UPLOADS)?, token.to_owned());
        let fd = calls::create_with(&folder, &*name, flags, store.file_mode())?;
        match calls::lock_file(&fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(Failure::Busy),
            locked => locked?,
        }
        let stamp = stat(&fd, Wait::Allowed)?.stamp;
        Ok(NewFile { fd, folder: folder.into(), name, length: stamp.size, fate: Fate::Kept })
    }

    pub fn write(&mut self, store: &Store, bytes: &[u8]) -> Result<(), Failure> {
        store.check_space(bytes.len() as u64)?;
        write_at(&self.fd, bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Copies a part of an open file, from where this one ends. When all is copied, the disk has it, if it is to be
    /// synchronized.
    pub fn copy_step(
        &mut self,
        store: &Store,
        source: &OwnedFd,
        reservation: &mut Reservation,
    ) -> Result<Progress, Failure> {
        let mut buffer = vec![0; BYTES_PER_CALL];
        let end = self.length + BYTES_PER_STEP as u64;
        while self.length < end {
            let read = retry_on_intr(|| calls::pread(source, &mut buffer, self.length))?;
            if !reservation.grow_to(cost(self.length + read as u64)) {
                return Err(Failure::NoSpace);
            }
            match read {
                0 if store.settings.sync == Sync::Disk => return self.sync().map(|()| Progress::Done),
                0 => return Ok(Progress::Done),
                _ => self.write(store, &buffer[..read])?,
            }
        }
        Ok(Progress::More)
    }

    /// Returns when the disk has what was written.
    pub fn sync(&self) -> Result<(), Failure> {
        Ok(calls::sync(&self.fd)?)
    }

    /// Gives the file its name in place of what has that name now.
    pub fn commit(mut self, guard: &Guard, terms: &Terms, path: &Below) -> Result<Stored, Failure> {
        let replaced = guard.check_write(terms, path)?;
        self.take_place(&guard.store, path, replaced)
    }

    /// As `commit`, for a copy: the terms have been checked.
    pub fn take_place(
        &mut self,
        store: &Store,
        path: &Below,
        replaced: Option<Found>,
    ) -> Result<Stored, Failure> {
        if let Some(Found::Folder(_)) = replaced {
            return Err(Failure::Exists);
        }
        let (folder, name) = store.folder_for(path)?;
        calls::rename_between(&*self.folder, &*self.name, &folder, name, RenameFlags::empty())?;
        self.fate = Fate::Stored;
        store.sync_folder(&folder)?;
        let stamp = stat(&self.fd, Wait::Allowed)?.stamp;
        Ok(Stored { stamp, replaced })
    }

    /// As `take_place`, in place of a folder.
    pub fn replace_folder(
        &mut self,
        store: &Store,
        path: &Below,
        replaced: Option<Found>,
    ) -> Result<(), Failure> {
        put_in_place(store, &self.folder, &self.name, path, replaced)?;
        self.fate = Fate::Stored;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.fate != Fate::Temporary {
            return;
        }
        let (folder, name) = (self.folder.clone(), std::mem::take(&mut self.name));
        let remove = move || _ = calls::unlink(&*folder, &*name);
        // A worker's loop does not wait for the disk.
        helpers::run_aside(Box::new(remove));
    }
}
