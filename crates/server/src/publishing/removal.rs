//! Removing names with everything beneath them, in steps that are short enough for a helper thread: what clients have
//! deleted, and what a crash has left behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, FlockOperation, OFlags, RenameFlags};
use rustix::io::Errno;

use super::failure::Failure;
use super::store::{NEW, PROPERTIES_IN_TRASH, Store, TRASH, random_name};
use super::tree::{LIST, Progress, names};
use super::usage::{self, cost};
use crate::files::beneath;
use crate::log;
use crate::mutex::locked;
use crate::process::privilege::shown;
use crate::sys::calls;

/// Names that are removed in one step.
const NAMES_PER_STEP: usize = 1000;
/// Bytes of a path. What lies deeper than the system takes paths becomes a folder of its own first.
const MAX_PATH: usize = 3000;
/// For a lock on what may have been left.
const LEFT: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The removal of one name.
struct Removal<'f> {
    folder: &'f OwnedFd,
    /// Folders that have to be emptied, an outer one before those in it. Beneath `folder`.
    folders: Vec<Vec<u8>>,
    /// What has been removed, as it counts for a quota.
    bytes: u64,
}

impl<'f> Removal<'f> {
    fn begin(folder: &'f OwnedFd, name: &str) -> Result<Removal<'f>, Failure> {
        let mut removal = Removal { folder, folders: Vec::new(), bytes: 0 };
        match unlink(folder, name.as_bytes())? {
            Some(bytes) => removal.bytes = bytes,
            None => removal.folders.push(name.as_bytes().to_owned()),
        }
        Ok(removal)
    }

    fn step(&mut self) -> Result<Progress, Failure> {
        let mut removed = 0;
        while removed < NAMES_PER_STEP {
            let Some(path) = self.folders.last().cloned() else { return Ok(Progress::Done) };
            match self.empty(&path, &mut removed)? {
                Emptied::Partly => return Ok(Progress::More),
                // What is left of the outer folder is read again: it has become shorter.
                Emptied::UpTo(inner) => self.folders.push([&*path, b"/", &*inner].concat()),
                Emptied::Wholly => {
                    match calls::remove_folder(self.folder, &*path) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    (self.bytes, removed) = (self.bytes + cost(0), removed + 1);
                    self.folders.pop();
                }
            }
        }
        Ok(Progress::More)
    }

    /// Removes the files of a folder, up to the first folder in it.
    fn empty(&mut self, path: &[u8], removed: &mut usize) -> Result<Emptied, Failure> {
        let fd = match beneath::open_folder(self.folder, Path::new(OsStr::from_bytes(path)), LIST) {
            Err(Errno::NOENT) => return Ok(Emptied::Wholly),
            fd => fd?,
        };
        let mut dir = calls::open_folder(&fd)?;
        while let Some(entry) = calls::next_entry(&mut dir) {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match unlink(&fd, name)? {
                Some(bytes) => (self.bytes, *removed) = (self.bytes + bytes, *removed + 1),
                None if path.len() + name.len() > MAX_PATH => {
                    let outermost = random_name()?;
                    calls::rename_between(&fd, name, self.folder, &*outermost, RenameFlags::NOREPLACE)?;
                    self.folders.insert(0, outermost.into_bytes());
                    *removed += 1;
                }
                None => return Ok(Emptied::UpTo(name.to_owned())),
            }
            if *removed >= NAMES_PER_STEP {
                return Ok(Emptied::Partly);
            }
        }
        Ok(Emptied::Wholly)
    }
}

/// How much of a folder has been removed.
enum Emptied {
    Wholly,
    Partly,
    /// All before this folder.
    UpTo(Vec<u8>),
}

/// Removes a file. Returns what it counted for a quota. `None`: it is a folder.
fn unlink(folder: &OwnedFd, name: &[u8]) -> Result<Option<u64>, Failure> {
    let length = calls::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.size);
    match calls::unlink(folder, name) {
        Ok(()) => Ok(Some(cost(length))),
        Err(Errno::NOENT) => Ok(Some(0)),
        Err(Errno::ISDIR | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a name, and everything beneath it. Returns what it counted for a quota.
pub fn remove(folder: &OwnedFd, name: &str) -> Result<u64, Failure> {
    let mut removal = Removal::begin(folder, name)?;
    while removal.step()? == Progress::More {}
    Ok(removal.bytes)
}

/// The roots whose trash this process empties, and whether something has been discarded since its names were read.
static RUNNING: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<PathBuf, bool>> {
    locked(&RUNNING)
}

/// What clients have deleted, while it is removed. There is one for a root, so that many requests do not remove the
/// same.
pub struct Emptying {
    store: Store,
    trash: OwnedFd,
    names: Vec<String>,
    /// Of the last name.
    folders: Option<Vec<Vec<u8>>>,
    is_running: bool,
}

impl Emptying {
    /// `None`: another one goes on with what has been discarded now.
    pub fn begin(store: &Store) -> Result<Option<Emptying>, Failure> {
        let trash = store.state_folder(TRASH)?;
        // The one that runs already reads the names again.
        if running().insert(store.root.path.to_path_buf(), true).is_some() {
            return Ok(None);
        }
        Ok(Some(Emptying { store: store.clone(), trash, names: Vec::new(), folders: None, is_running: true }))
    }

    /// Reads the names, if there may be new ones. `false`: that was all.
    fn read_names(&mut self) -> bool {
        let mut running = running();
        match running.get_mut(&**self.store.root.path) {
            Some(has_more) if *has_more => *has_more = false,
            _ => {
                running.remove(&**self.store.root.path);
                self.is_running = false;
                return false;
            }
        }
        drop(running);
        self.names = names(&self.trash).unwrap_or_default();
        true
    }

    pub fn step(&mut self) -> Progress {
        let Some(name) = self.names.last() else {
            return if self.read_names() { Progress::More } else { Progress::Done };
        };
        let begun = match self.folders.take() {
            None => Removal::begin(&self.trash, name),
            Some(folders) => Ok(Removal { folder: &self.trash, folders, bytes: 0 }),
        };
        let stepped = begun.and_then(|mut removal| removal.step().map(|progress| (removal, progress)));
        match stepped {
            Ok((Removal { folders, bytes, .. }, progress)) => {
                // Properties do not count for a quota.
                if !name.starts_with(PROPERTIES_IN_TRASH) {
                    usage::removed(&self.store.root.path, bytes);
                }
                match progress {
                    Progress::More => self.folders = Some(folders),
                    Progress::Done => _ = self.names.pop(),
                }
            }
            Err(failure) => {
                let root = shown(&self.store.root.path);
                log::warn(format_args!(
                    "cannot remove everything that clients have deleted in {root}: {failure}"
                ));
                self.names.pop();
            }
        }
        Progress::More
    }
}

impl Drop for Emptying {
    fn drop(&mut self) {
        if self.is_running {
            running().remove(&**self.store.root.path);
        }
    }
}

/// Removes what a crash has left behind: files that were being written, and the trash. What cannot be removed is left
/// out. Errors: the folder of the server's own files cannot be made, or the first that was left out.
pub fn clean(store: &Store) -> Result<(), Failure> {
    let (new, trash) = (store.state_folder(NEW)?, store.state_folder(TRASH)?);
    let mut result = Ok(());
    for name in names(&new)? {
        // Until it is removed, the lock tells the process that has just made it to make another one.
        let (_file, locked) = match calls::openat(&new, &*name, LEFT) {
            Ok(file) => {
                let locked = calls::lock_file(&file, FlockOperation::NonBlockingLockExclusive);
                (Some(file), locked)
            }
            Err(_) => (None, Ok(())),
        };
        // Another process is writing it.
        if locked != Err(Errno::WOULDBLOCK) {
            result = result.and(remove(&new, &name).map(drop));
        }
    }
    for name in names(&trash)? {
        result = result.and(remove(&trash, &name).map(drop));
    }
    result
}
