//! The folder of a cache: its mark, the folders beneath it, and their files by name. Each path is one component, and no
//! link is followed, so that nothing outside of the folder is read or removed.
//!
//! Knows nothing of what the files contain.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cache::store::name::{self, Name};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, accessat};
use rustix::io::{Errno, retry_on_intr};

use crate::disk::{Device, device_of};
use crate::files::beneath::Wait;
use crate::files::open::{Stamp, Stat, stat};
use crate::process::privilege::{advice_on_writing, shown, user_text};
use crate::sys::{self, calls};

/// The file that marks the folder as one of a cache. A folder without it must be empty.
const MARK: &str = "taipan-cache";
/// What is in it: the version of the names and of the files.
const VERSION: &str = "taipan cache 1\n";
/// What a new file system has.
const OF_THE_SYSTEM: &str = "lost+found";
/// The start of the name of a file that is being written.
const NEW: &str = "new-";

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// With NONBLOCK, a FIFO in place of a file does not wait for a writer.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub struct Folder {
    fd: OwnedFd,
    pub path: PathBuf,
    pub device: Device,
    /// Makes the names of new files differ from those of other processes.
    salt: u64,
    files: AtomicU64,
}

/// A file that has no name of an entry yet.
pub struct NewFile {
    pub fd: OwnedFd,
    shard: OwnedFd,
    name: String,
}

/// A name in one of the folders.
pub enum Listed {
    File {
        name: Name,
        length: u64,
        used: u64,
    },
    /// A file that was being written, at this time.
    New {
        modified: i64,
    },
    /// What no cache has made.
    Foreign,
}

impl Folder {
    /// Opens the folder, and marks it if it is empty. Errors: the reason, with what to do.
    pub fn open(path: &Path) -> Result<Folder, String> {
        let folder = Folder::examine(path)?;
        folder.mark().map_err(|errno| problem(path, &format!("its mark cannot be written: {errno}")))?;
        Ok(folder)
    }

    /// Opens the folder without a change. Errors: as of `open`.
    pub fn examine(path: &Path) -> Result<Folder, String> {
        let fail = |what: &str| problem(path, what);
        let fd = retry_on_intr(|| calls::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC));
        let user = rustix::process::geteuid();
        let fd = fd.map_err(|errno| match errno {
            Errno::NOENT => {
                fail(&format!("it does not exist; make it, owned by {}", user_text(user.as_raw())))
            }
            Errno::NOTDIR => fail("it is not a folder"),
            Errno::ACCESS => {
                let user = user_text(user.as_raw());
                fail(&format!("it cannot be opened: {errno}; let {user} enter it and the folders above it"))
            }
            errno => fail(&format!("it cannot be opened: {errno}")),
        })?;
        let found = calls::fstat(&fd).map_err(|errno| fail(&format!("it cannot be examined: {errno}")))?;
        if found.st_mode & Mode::WOTH.bits() != 0 {
            return Err(fail(
                "every user may write to it, and so plant responses; take that away with chmod o-w",
            ));
        }
        accessat(&fd, ".", Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(
            |errno| fail(&format!("it cannot be written: {errno}; {}", advice_on_writing(errno, path))),
        )?;
        let device = device_of(&found);
        let mut salt = [0; 8];
        _ = sys::random(&mut salt);
        let salt = u64::from_ne_bytes(salt);
        let folder = Folder { fd, path: path.to_owned(), device, salt, files: AtomicU64::new(0) };
        folder.check_mark().map_err(|what| fail(&what))?;
        folder.check_shards(user.as_raw()).map_err(|what| fail(&what))?;
        Ok(folder)
    }

    /// Errors: the folder has something else than files of a cache.
    fn check_mark(&self) -> Result<(), String> {
        match self.mark_text() {
            // A crash or a full disk may have left a part of the mark, which `mark` completes.
            Ok(text) if VERSION.as_bytes().starts_with(&text) => Ok(()),
            Ok(_) => Err(format!("its files are of another version ({MARK}); empty it")),
            Err(Errno::NOENT) => {
                match self.other_name().map_err(|errno| format!("it cannot be read: {errno}"))? {
                    None => Ok(()),
                    Some(name) => Err(format!(
                        "it has other files, such as \"{}\"; name an empty folder",
                        name.escape_ascii()
                    )),
                }
            }
            Err(errno) => Err(format!("its mark {MARK} cannot be read: {errno}")),
        }
    }

    /// Without the zeros that a crash may have left in place of its last bytes.
    fn mark_text(&self) -> Result<Vec<u8>, Errno> {
        let mark = retry_on_intr(|| calls::openat(&self.fd, MARK, FILE))?;
        let mut text = [0; 64];
        let n = retry_on_intr(|| calls::pread(&mark, &mut text, 0))?;
        let end = text[..n].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Ok(text[..end].to_vec())
    }

    /// A name in the folder that a cache has not made.
    fn other_name(&self) -> Result<Option<Vec<u8>>, Errno> {
        let mut names = retry_on_intr(|| calls::open_folder(&self.fd))?;
        while let Some(entry) = calls::next_entry(&mut names) {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if ![&b"."[..], b"..", OF_THE_SYSTEM.as_bytes()].contains(&name) {
                return Ok(Some(name.to_vec()));
            }
        }
        Ok(None)
    }

    /// Errors: another user has made the files, as after a change of `user`.
    fn check_shards(&self, user: u32) -> Result<(), String> {
        for shard in 0..name::SHARDS {
            let Ok(fd) = self.shard(shard as u8) else { continue };
            let owner = calls::fstat(&fd).map_or(user, |found| found.st_uid);
            if owner != user {
                let (owner, user) = (user_text(owner), user_text(user));
                return Err(format!(
                    "its files belong to {owner}, and not to {user}; change their owner, or empty it"
                ));
            }
        }
        Ok(())
    }

    fn mark(&self) -> Result<(), Errno> {
        let mark = match calls::create(&self.fd, MARK) {
            // Another process has marked it, or it was marked.
            Err(Errno::EXIST) if self.mark_text()? == VERSION.as_bytes() => return Ok(()),
            Err(Errno::EXIST) => retry_on_intr(|| calls::openat(&self.fd, MARK, FILE | OFlags::WRONLY)),
            made => made,
        };
        sys::write_all_at(&mark?, VERSION.as_bytes(), 0)
    }

    fn shard(&self, shard: u8) -> Result<OwnedFd, Errno> {
        retry_on_intr(|| calls::openat(&self.fd, name::folder(shard).as_str(), FOLDER))
    }

    /// Opens a file for reading. Errors: it is not there, or it is not a file of this cache.
    pub fn read(&self, name: Name) -> Result<(OwnedFd, Stamp), Errno> {
        let shard = self.shard(name.shard())?;
        let fd = retry_on_intr(|| calls::openat(&shard, name.file().as_str(), FILE))?;
        let Stat { kind, stamp, .. } = stat(&fd, Wait::Allowed).map_err(|_| Errno::IO)?;
        match kind {
            FileType::RegularFile => Ok((fd, stamp)),
            _ => Err(Errno::INVAL),
        }
    }

    /// Makes a file in the folder of `name`, which `keep` gives that name.
    pub fn create(&self, name: Name) -> Result<NewFile, Errno> {
        let shard = match self.shard(name.shard()) {
            Err(Errno::NOENT) => {
                // An administrator may have emptied the folder: without its mark, the next start would refuse it.
                self.mark()?;
                match calls::make_folder(&self.fd, name::folder(name.shard()).as_str()) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                self.shard(name.shard())?
            }
            shard => shard?,
        };
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NEW}{:016x}-{number:x}", self.salt);
        let fd = retry_on_intr(|| calls::create(&shard, name.as_str()))?;
        Ok(NewFile { fd, shard, name })
    }

    /// Removes an entry, or whatever has its name. A folder stays.
    pub fn remove(&self, name: Name) -> Result<(), Errno> {
        let shard = self.shard(name.shard())?;
        calls::unlink(&shard, name.file().as_str())
    }

    /// The bytes that may still be written to the file system.
    pub fn free_space(&self) -> Result<u64, Errno> {
        retry_on_intr(|| calls::free_space(&self.fd))
    }

    /// Calls `each` with every name in a folder, and removes those for which it returns `Verdict::Remove`.
    pub fn list(&self, shard: u8, mut each: impl FnMut(Listed) -> Verdict) -> Result<(), Errno> {
        let folder = match self.shard(shard) {
            Err(Errno::NOENT) => return Ok(()),
            folder => folder?,
        };
        let mut names = retry_on_intr(|| calls::open_folder(&folder))?;
        while let Some(entry) = calls::next_entry(&mut names) {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let found = match retry_on_intr(|| calls::statx(&folder, name, flags)) {
                // It was removed meanwhile.
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            let is_file = found.kind() == FileType::RegularFile;
            let listed = match Name::parse(shard, name.to_bytes()) {
                Some(name) if is_file => {
                    let used = found.modified.max(found.accessed);
                    let used = u64::try_from(used.0).unwrap_or(0).saturating_mul(1_000_000)
                        + u64::from(used.1) / 1000;
                    Listed::File { name, length: found.size, used }
                }
                None if is_file && name.to_bytes().starts_with(NEW.as_bytes()) => {
                    Listed::New { modified: found.modified.0 }
                }
                _ => Listed::Foreign,
            };
            if each(listed) == Verdict::Remove {
                // It may have been removed meanwhile.
                _ = calls::unlink(&folder, name);
            }
        }
        Ok(())
    }
}

/// What becomes of a listed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    Remove,
}

impl NewFile {
    /// Gives the file the name of its entry. A file of that name is replaced; one that is open stays as it is.
    pub fn keep(self, name: Name) -> Result<Stamp, Errno> {
        let kept = retry_on_intr(|| calls::rename(&self.shard, self.name.as_str(), name.file().as_str()));
        if let Err(errno) = kept {
            self.discard();
            return Err(errno);
        }
        // Renaming has changed it.
        stat(&self.fd, Wait::Allowed).map(|found| found.stamp).map_err(|_| Errno::IO)
    }

    pub fn discard(self) {
        // What cannot be removed now, a later walk removes.
        _ = calls::unlink(&self.shard, self.name.as_str());
    }
}

fn problem(path: &Path, what: &str) -> String {
    format!("the folder {} of the cache: {what}", shown(path))
}
