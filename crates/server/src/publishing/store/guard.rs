//! The permission to change names in a published root, which one request has at a time, and what it may do with it. All
//! of it runs on helper threads.

use std::os::fd::OwnedFd;

use dav::locks::{Locks, Touch};
use dav::properties;
use dav::request::Change;
use rustix::fs::{FlockOperation, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{
    Below, Expected, FOLDER, Found, OWN_FILE, OWN_MODE, OWN_PROPERTIES, PROPERTIES, PROPERTIES_IN_TRASH,
    Store, TRASH, Terms, find_in, lock_file, open_or_make, parent, random_name, replace, without_slash,
};
use crate::clock;
use crate::publishing::failure::{Excess, Failure};
use crate::sys::calls;

/// The process that has a lock on this file may change names.
const LOCK: &str = "lock";

/// The permission to change names in a root.
pub struct Guard {
    /// The root, with its settings.
    pub store: Store,
    state: OwnedFd,
    _lock: OwnedFd,
}

impl Store {
    /// Waits until no other request changes names.
    pub fn guard(&self) -> Result<Guard, Failure> {
        let state = self.state()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OWN_FILE;
        let lock = retry_on_intr(|| calls::create_with(&state, LOCK, flags, OWN_MODE))?;
        retry_on_intr(|| calls::lock_file(&lock, FlockOperation::LockExclusive))?;
        Ok(Guard { store: self.clone(), state, _lock: lock })
    }
}

impl Guard {
    pub fn locks(&self, now: i64) -> Result<Locks, Failure> {
        lock_file::read(&self.store.root, &self.state, now)
    }

    pub fn write_locks(&self, locks: &Locks) -> Result<(), Failure> {
        lock_file::write(&self.store.root, &self.state, locks)
    }

    /// Errors: `terms` do not allow the request to touch `path`. Returns what is there.
    pub fn check(&self, terms: &Terms, path: &Below, touch: Touch) -> Result<Option<Found>, Failure> {
        self.check_as(terms, path, |_| touch)
    }

    /// As `check`, for a file that is written: its content changes, or its name comes.
    pub fn check_write(&self, terms: &Terms, path: &Below) -> Result<Option<Found>, Failure> {
        self.check_as(terms, path, |found| match found {
            Some(_) => Touch::Content,
            None => Touch::Name,
        })
    }

    fn check_as(
        &self,
        terms: &Terms,
        path: &Below,
        touch: impl FnOnce(Option<Found>) -> Touch,
    ) -> Result<Option<Found>, Failure> {
        let (locks, found) = self.check_terms(terms, path)?;
        self.check_locks(&locks, terms, path, touch(found))?;
        Ok(found)
    }

    /// As `check`, without regard to locks of others. Returns all locks, too.
    pub fn check_terms(&self, terms: &Terms, path: &Below) -> Result<(Locks, Option<Found>), Failure> {
        let locks = self.locks(clock::wall())?;
        let found = self.store.find(path)?;
        terms.check_field(&self.store, &locks, path)?;
        let is_expected = match (terms.expected, found) {
            (Expected::Anything, _) | (Expected::Nothing, None) => true,
            (Expected::File(seen), Some(Found::File(stamp))) => seen == stamp,
            _ => false,
        };
        if is_expected { Ok((locks, found)) } else { Err(Failure::Precondition) }
    }

    /// As `check`, for locks alone: those of a destination.
    pub fn check_destination(&self, terms: &Terms, path: &Below, touch: Touch) -> Result<(), Failure> {
        self.check_locks(&self.locks(clock::wall())?, terms, path, touch)
    }

    /// Errors: `Locked`, if one of `locks` keeps the request from touching `path`.
    pub fn check_locks(
        &self,
        locks: &Locks,
        terms: &Terms,
        path: &Below,
        touch: Touch,
    ) -> Result<(), Failure> {
        match locks.blocking(path.as_str(), touch, &terms.holder) {
            Some(lock) => Err(Failure::Locked(self.store.member(&lock.path)?)),
            None => Ok(()),
        }
    }

    /// The folders that lead to `path` and are missing. Errors: `Locked`, if one would be in a folder with a lock.
    pub fn check_folders(&self, terms: &Terms, path: &Below) -> Result<Vec<Below>, Failure> {
        let missing = self.store.missing_folders(path)?;
        if let Some(outermost) = missing.first() {
            // The paths of locks have no slash at their end.
            let outermost = without_slash(outermost)?;
            self.check_locks(&self.locks(clock::wall())?, terms, &outermost, Touch::Name)?;
        }
        Ok(missing)
    }

    /// Makes the folders that lead to `path` and are missing, if `reserve` finds space for so many. Errors: `Locked`,
    /// if one would be in a folder with a lock.
    pub fn make_folders(
        &self,
        terms: &Terms,
        path: &Below,
        reserve: impl FnOnce(u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let missing = self.check_folders(terms, path)?;
        let Some(outermost) = missing.first() else { return Ok(()) };
        reserve(missing.len() as u64)?;
        let (mut parent, _) = self.store.folder_of(outermost)?;
        for folder in &missing {
            match calls::make_folder_with(&parent, folder.name(), self.store.folder_mode()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            parent = calls::openat(&parent, folder.name(), FOLDER)?;
        }
        Ok(())
    }

    /// Forgets the locks of what has been removed.
    pub fn remove_locks(&self, path: &Below) -> Result<(), Failure> {
        let mut locks = self.locks(clock::wall())?;
        if locks.remove_tree(path.as_str()) { self.write_locks(&locks) } else { Ok(()) }
    }

    /// Changes the dead properties of `path`. Errors: `TooMany`, `NoSpace`.
    pub fn change_properties(&self, path: &Below, changes: &[Change]) -> Result<(), Failure> {
        let mut all = self.store.properties(path)?;
        let before = all.text().len();
        changes.iter().for_each(|change| all.apply(change));
        let text = all.text();
        if text.len() > properties::MAX_BYTES || all.count() > properties::MAX_COUNT {
            return Err(Failure::TooMany(Excess::Properties));
        }
        // What becomes smaller is stored on a full disk too.
        if text.len() > before {
            self.store.check_growth(text.len())?;
        }
        self.write_properties(path, &text)
    }

    fn write_properties(&self, path: &Below, text: &str) -> Result<(), Failure> {
        let mut folder = open_or_make(&self.state, PROPERTIES)?;
        for name in path.segments() {
            folder = open_or_make(&folder, name)?;
        }
        replace(&self.state, &folder, OWN_PROPERTIES, text.as_bytes()).map(drop)
    }

    /// Moves everything at `path` into the trash. A link and the like is removed at once.
    pub fn discard(&self, path: &Below) -> Result<(), Failure> {
        let (folder, name) = self.store.folder_of(path)?;
        match find_in(&folder, name)? {
            None => return Err(Failure::Missing),
            Some(Found::Other) => calls::unlink(&folder, name)?,
            Some(Found::File(_) | Found::Folder(_)) => {
                let (trash, discarded) = (open_or_make(&self.state, TRASH)?, random_name()?);
                calls::rename_between(&folder, name, &trash, &*discarded, RenameFlags::NOREPLACE)?;
            }
        }
        self.store.sync_folder(&folder)?;
        self.discard_properties(path)
    }

    /// Moves the properties of `path` and of all beneath it into the trash.
    pub fn discard_properties(&self, path: &Below) -> Result<(), Failure> {
        let Some((folder, name)) = self.properties_parent(path)? else { return Ok(()) };
        let trash = open_or_make(&self.state, TRASH)?;
        let discarded = [PROPERTIES_IN_TRASH, &random_name()?].concat();
        match calls::rename_between(&folder, &*name, &trash, &*discarded, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves the properties of `from` and of all beneath it, in place of those of `to`.
    pub fn move_properties(&self, from: &Below, to: &Below) -> Result<(), Failure> {
        self.discard_properties(to)?;
        let Some((folder, name)) = self.properties_parent(from)? else { return Ok(()) };
        if self.store.properties_folder(from)?.is_none() {
            return Ok(());
        }
        let (target, last) = self.make_properties_parent(to)?;
        Ok(calls::rename_between(&folder, &*name, &target, &*last, RenameFlags::empty())?)
    }

    /// Makes the folder that the properties of `path` are in. Returns it, and their name there.
    pub fn make_properties_parent(&self, path: &Below) -> Result<(OwnedFd, String), Failure> {
        let mut folder = open_or_make(&self.state, PROPERTIES)?;
        let segments: Vec<&str> = path.segments().collect();
        let (last, folders) = segments.split_last().ok_or(Failure::Denied)?;
        for segment in folders {
            folder = open_or_make(&folder, segment)?;
        }
        Ok((folder, (*last).to_owned()))
    }

    fn properties_parent(&self, path: &Below) -> Result<Option<(OwnedFd, String)>, Failure> {
        let Some(parent) = parent(path) else { return Ok(None) };
        let folder = self.store.properties_folder(&parent.into_owned())?;
        Ok(folder.map(|folder| (folder, path.name().to_owned())))
    }
}
