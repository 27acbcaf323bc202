//! A root in which clients publish: what is at a path, and the files of the server's own. All of it runs on helper
//! threads.

mod guard;
mod lock_file;
mod terms;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dav::locks::Locks;
use dav::properties::Properties;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use site::model::Symlinks;
use site::publishing::{Publishing, STATE_FOLDER, Sync};
use taipan_http::target::SafePath;

pub use guard::Guard;
pub use terms::{Expected, Named, Tag, Terms};

use super::failure::Failure;
use super::tree::{Kind, Member};
use super::usage;
use crate::files::beneath::{self, Root, Wait};
use crate::files::open::{Stamp, Stat, stat};
use crate::sys::{self, calls};

/// For a folder that others are opened in.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// For a file of the server's own.
const OWN_FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
/// Only this user may read what is the server's own.
const OWN_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
pub const OWN_FOLDER_MODE: Mode = Mode::RWXU;

/// In the state folder: files that are being written, what is being removed, uploads that can be resumed, and
/// properties.
pub const NEW: &str = "new";
pub const TRASH: &str = "trash";
pub const UPLOADS: &str = "uploads";
const PROPERTIES: &str = "properties";
/// The properties of a resource lie in a folder with its path, beneath `PROPERTIES`, in a file of this name.
pub const OWN_PROPERTIES: &str = ".taipan-properties";
/// The start of the names of properties in the trash.
pub const PROPERTIES_IN_TRASH: &str = "properties-";
/// Bytes of a file of the server's own. A longer one is not of the server.
const MAX_OWN: u64 = 16 * 1024 * 1024;

/// Bytes of a path beneath a root. In the folders of the server's own it is longer, and the system takes 4095
/// (PATH_MAX).
const MAX_PATH: usize = 4000;
/// Bytes of one name (NAME_MAX).
const MAX_NAME: usize = 255;
/// How often a file or folder of the server's own is made anew, if another process takes it for one that a crash has
/// left.
pub const ATTEMPTS: usize = 64;

/// The path of a resource beneath a root, without a slash at its ends.
pub type Below = SafePath<'static>;

#[derive(Clone)]
pub struct Store {
    pub root: Root,
    pub settings: Arc<Publishing>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    File(Stamp),
    Folder(Stamp),
    /// A link, a device and the like.
    Other,
}

/// Errors: `TooLong` for a path that is longer than the system takes.
pub fn check_length(path: &SafePath<'_>) -> Result<(), Failure> {
    let fits = path.as_str().len() <= MAX_PATH && path.segments().all(|name| name.len() <= MAX_NAME);
    if fits { Ok(()) } else { Err(Failure::TooLong) }
}

impl Store {
    /// Opens the folder that `path` is in. Errors: `Missing`; `Denied` for a link, or another file system.
    pub fn folder_of<'p>(&self, path: &'p Below) -> Result<(OwnedFd, &'p str), Failure> {
        let folder = parent(path).ok_or(Failure::Denied)?;
        Ok((self.open_folder(&folder)?, path.name()))
    }

    /// As `folder_of`, of a path that may not exist yet. Errors: `NoFolder` if the folder is missing.
    pub fn folder_for<'p>(&self, path: &'p Below) -> Result<(OwnedFd, &'p str), Failure> {
        self.folder_of(path).map_err(|failure| match failure {
            Failure::Missing => Failure::NoFolder,
            failure => failure,
        })
    }

    pub fn open_folder(&self, path: &SafePath<'_>) -> Result<OwnedFd, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = beneath::open(&self.root, path, Symlinks::Never, flags, Wait::Allowed)?;
        let stamp = stat(&folder, Wait::Allowed)?.stamp;
        if stamp.device != self.root.device {
            return Err(Failure::Denied);
        }
        Ok(folder)
    }

    /// What is at `path`. `None`: nothing.
    pub fn find(&self, path: &Below) -> Result<Option<Found>, Failure> {
        if path.as_str().is_empty() {
            let stamp = stat(&self.root.fd, Wait::Allowed)?.stamp;
            return Ok(Some(Found::Folder(stamp)));
        }
        let (folder, name) = match self.folder_of(path) {
            Err(Failure::Missing) => return Ok(None),
            folder => folder?,
        };
        find_in(&folder, name)
    }

    /// What is at a path that a lock has.
    pub fn member(&self, path: &str) -> Result<Member, Failure> {
        let path = SafePath::from_decoded(&["/", path].concat()).map_err(|_| Failure::Denied)?;
        let kind = Kind::of(self.find(&path).unwrap_or(None));
        Ok(Member { path, kind })
    }

    /// The folders that lead to `path` and are missing, each in the one before, with a slash at its end. A path may
    /// have two thousand, and a missing folder has none that is there, so the first is found by halves.
    pub fn missing_folders(&self, path: &Below) -> Result<Vec<Below>, Failure> {
        let folder = |count| path.first_segments(count).map(SafePath::into_owned).ok_or(Failure::Denied);
        // So many are there, and one more than `last` is not looked for.
        let (mut there, mut last) = (0, path.segments().count().saturating_sub(1));
        let all = last;
        while there < last {
            let middle = (there + last).div_ceil(2);
            match self.find(&folder(middle)?)? {
                Some(_) => there = middle,
                None => last = middle - 1,
            }
        }
        (there + 1..=all).map(folder).collect()
    }

    /// Opens the folder of the server's own files. It is made if it is missing.
    pub fn state(&self) -> Result<OwnedFd, Failure> {
        open_or_make(&self.root.fd, STATE_FOLDER)
    }

    /// Opens a folder in that of the server's own files.
    pub fn state_folder(&self, name: &str) -> Result<OwnedFd, Failure> {
        open_or_make(&self.state()?, name)
    }

    /// The locks at this time, without the permission to change them.
    pub fn locks(&self, now: i64) -> Result<Locks, Failure> {
        match calls::openat(&self.root.fd, STATE_FOLDER, FOLDER) {
            Ok(state) => lock_file::read(&self.root, &state, now),
            Err(Errno::NOENT) => Ok(Locks::default()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The dead properties of what is at `path`.
    pub fn properties(&self, path: &Below) -> Result<Properties, Failure> {
        let Some(folder) = self.properties_folder(path)? else { return Ok(Properties::default()) };
        Ok(Properties::parse(&read_text(&folder, OWN_PROPERTIES)?.unwrap_or_default()))
    }

    /// `None`: there is none.
    fn properties_folder(&self, path: &Below) -> Result<Option<OwnedFd>, Failure> {
        let mut folder = match calls::openat(&self.root.fd, STATE_FOLDER, FOLDER) {
            Ok(state) => state,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        for name in [PROPERTIES].into_iter().chain(path.segments()) {
            folder = match calls::openat(&folder, name, FOLDER) {
                Ok(folder) => folder,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some(folder))
    }

    pub fn file_mode(&self) -> Mode {
        Mode::from_raw_mode(0o666 & !self.settings.umask)
    }

    pub fn folder_mode(&self) -> Mode {
        Mode::from_raw_mode(0o777 & !self.settings.umask)
    }

    /// Writes what was changed in a folder to the disk, if the settings demand it.
    pub fn sync_folder(&self, folder: &OwnedFd) -> Result<(), Failure> {
        if self.settings.sync == Sync::Disk {
            // The folder was opened with O_PATH.
            let open = calls::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
            calls::sync(&open)?;
        }
        Ok(())
    }

    /// Errors: the file system has no space for properties of so many bytes, or the quota is full.
    pub fn check_growth(&self, bytes: usize) -> Result<(), Failure> {
        let used = usage::used(&self.root.path).saturating_add(bytes as u64);
        if self.settings.quota.is_some_and(|quota| used > quota) {
            return Err(Failure::NoSpace);
        }
        self.check_space(bytes as u64)
    }

    /// Errors: the file system has no space for so many bytes more.
    pub fn check_space(&self, bytes: u64) -> Result<(), Failure> {
        // A file system that does not say is asked by writing.
        let free = calls::free_space(&self.root.fd).unwrap_or(u64::MAX);
        match free >= bytes.saturating_add(self.settings.min_free) {
            true => Ok(()),
            false => Err(Failure::NoSpace),
        }
    }
}

/// What was found counts so much for a quota, if it is a file.
pub fn cost_of_file(found: Option<Found>) -> u64 {
    match found {
        Some(Found::File(stamp)) => usage::cost(stamp.size),
        Some(Found::Folder(_) | Found::Other) | None => 0,
    }
}

/// The folder that `path` is in. `None`: it is the root.
pub fn parent(path: &Below) -> Option<SafePath<'_>> {
    path.first_segments(path.segments().count().checked_sub(1)?)
}

pub fn without_slash(path: &Below) -> Result<Below, Failure> {
    let path = ["/", path.as_str().trim_end_matches('/')].concat();
    SafePath::from_decoded(&path).map_err(|_| Failure::Denied)
}

/// What a name in a folder stands for. Does not follow links, and mounts nothing.
pub fn find_in(folder: &OwnedFd, name: &str) -> Result<Option<Found>, Failure> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = match retry_on_intr(|| calls::statx(folder, name, flags)) {
        Err(Errno::NOENT) => return Ok(None),
        found => found?,
    };
    let Stat { kind, stamp, .. } = Stat::of(&found);
    Ok(Some(match kind {
        FileType::RegularFile => Found::File(stamp),
        FileType::Directory => Found::Folder(stamp),
        _ => Found::Other,
    }))
}

pub fn open_or_make(folder: impl AsFd, name: &str) -> Result<OwnedFd, Failure> {
    match calls::openat(&folder, name, FOLDER) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    match calls::make_folder(&folder, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(calls::openat(&folder, name, FOLDER)?),
        Err(errno) => Err(errno.into()),
    }
}

/// The text of a small file of the server's own. `None`: there is no such file.
pub fn read_text(folder: &OwnedFd, name: &str) -> Result<Option<String>, Failure> {
    match open_own(folder, name)? {
        Some((file, stamp)) => read_whole(&file, &stamp),
        None => Ok(None),
    }
}

/// Opens a small file of the server's own. `None`: there is no such file.
fn open_own(folder: &OwnedFd, name: &str) -> Result<Option<(OwnedFd, Stamp)>, Failure> {
    let file = match calls::openat(folder, name, OFlags::RDONLY | OFlags::NONBLOCK | OWN_FILE) {
        Err(Errno::NOENT) => return Ok(None),
        file => file?,
    };
    let Stat { kind, stamp, .. } = stat(&file, Wait::Allowed)?;
    let is_own = kind == FileType::RegularFile && stamp.size <= MAX_OWN;
    Ok(is_own.then_some((file, stamp)))
}

/// `None`: the file has become shorter.
fn read_whole(file: &OwnedFd, stamp: &Stamp) -> Result<Option<String>, Failure> {
    let bytes = crate::files::open::read(file, 0, stamp.size as usize, Wait::Allowed)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Writes a small file of the server's own, so that a reader sees the old or the new one. Returns the new one. `state`:
/// the folder of all such files.
pub fn replace(state: &OwnedFd, folder: &OwnedFd, name: &str, bytes: &[u8]) -> Result<OwnedFd, Failure> {
    let new = open_or_make(state, NEW)?;
    let (file, own) = create_locked(&new, OWN_MODE)?;
    let written = write_at(&file, bytes, 0)
        .and_then(|()| Ok(calls::rename_between(&new, &*own, folder, name, RenameFlags::empty())?));
    if written.is_err() {
        _ = calls::unlink(&new, &*own);
    }
    written.map(|()| file)
}

/// Makes a small file of the server's own where nothing reads it yet.
pub fn write_own(folder: &OwnedFd, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OWN_FILE;
    write_at(&calls::create_with(folder, name, flags, OWN_MODE)?, bytes, 0)
}

/// Makes a file with a new name, and with a lock, so that another process of the server does not take it for one that a
/// crash has left.
pub fn create_locked(folder: &OwnedFd, mode: Mode) -> Result<(OwnedFd, String), Failure> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OWN_FILE;
    for _ in 0..ATTEMPTS {
        let name = random_name()?;
        let file = calls::create_with(folder, &*name, flags, mode)?;
        if lock_new(folder, &name, &file)? {
            return Ok((file, name));
        }
    }
    Err(Failure::Busy)
}

/// Locks what has just been made with this name. `false`: another process that cleans up has taken it for what a crash
/// has left, and removes it.
pub fn lock_new(folder: &OwnedFd, name: &str, made: &OwnedFd) -> Result<bool, Failure> {
    match calls::lock_file(made, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(calls::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

pub fn write_at(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| calls::pwrite(file, bytes, at))?;
        (bytes, at) = (&bytes[written..], at + written as u64);
    }
    Ok(())
}

/// A name that nothing has yet.
pub fn random_name() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    sys::random(&mut bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A URL that no other lock has (RFC 4918 §6.5).
pub fn lock_token() -> Result<String, Failure> {
    let hex = random_name()?;
    // The digits that say that a UUID is random (RFC 9562 §5.4).
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..]);
    Ok(format!("urn:uuid:{a}-{b}-4{c}-8{d}-{e}"))
}
