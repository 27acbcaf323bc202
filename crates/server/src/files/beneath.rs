//! Opens what a path names beneath a root, and nothing else: `openat2(2)` where the kernel has it, a walk
//! one component at a time where it has not, and where a rule needs a look at each link.
//!
//! The only door to the file system for anything that a client asked for. Takes no string that was not a
//! `SafePath`.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use http::target::SafePath;
use rustix::fs::{AtFlags, FileType, OFlags, ResolveFlags};
use rustix::io::{Errno, retry_on_intr};
use site::model::Symlinks;

use crate::disk::Device;
use crate::sys::calls;

/// As `path_resolution(7)`: more links than this are a loop.
const MAX_LINKS: usize = 40;
/// `openat2` says EAGAIN when a rename elsewhere crossed its path, and any file system that it was interrupted;
/// it is asked again this often.
const RACES: usize = 8;
/// To stand in, and to open from.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder that files are served from.
#[derive(Debug, Clone)]
pub struct Root {
    pub fd: Arc<OwnedFd>,
    /// Where it really is, to recognise absolute links that lead back into it.
    pub path: Arc<PathBuf>,
    pub device: Device,
    inode: u64,
}

impl Root {
    pub fn open(path: &Path) -> std::io::Result<Root> {
        let fd = retry_on_intr(|| calls::open(path, FOLDER))?;
        let stat = retry_on_intr(|| calls::fstat(&fd))?;
        let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let path = Arc::new(path.canonicalize()?);
        Ok(Root { fd: Arc::new(fd), path, device, inode: stat.st_ino })
    }

    /// Is it the same folder, at the same place?
    pub fn is(&self, other: &Root) -> bool {
        (self.device, self.inode) == (other.device, other.inode) && self.path == other.path
    }
}

/// May the call wait for a disk?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Only what the kernel has in memory; anything else is `OpenError::WouldWait`.
    Never,
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    Missing,
    Denied,
    WouldWait,
    /// Neither the client's nor the file's fault: no descriptors, no memory, a broken disk.
    Local(Errno),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> OpenError {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => OpenError::Missing,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => OpenError::Denied,
            errno => OpenError::Local(errno),
        }
    }
}

/// Opens `path` beneath `root` with `flags`, as far as `symlinks` lets links be followed.
pub fn open(
    root: &Root,
    path: &SafePath<'_>,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, OpenError> {
    let name = match path.as_str().trim_end_matches('/') {
        "" => ".",
        name => name,
    };
    let flags = flags | OFlags::CLOEXEC;
    match open_at_once(root, name, symlinks, flags, wait) {
        // Absolute links may still lead back beneath the root, and owners must be compared link by link.
        Err(Errno::XDEV) if symlinks == Symlinks::Beneath => walk(root, name, symlinks, flags, wait),
        Err(Errno::LOOP) if symlinks == Symlinks::Owner => walk(root, name, symlinks, flags, wait),
        Err(Errno::NOSYS) => walk(root, name, symlinks, flags, wait),
        Err(Errno::AGAIN | Errno::INVAL) if wait == Wait::Never => Err(OpenError::WouldWait),
        Err(errno) => Err(errno.into()),
        Ok(fd) => Ok(fd),
    }
}

fn open_at_once(
    root: &Root,
    name: &str,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, Errno> {
    let rule = match symlinks {
        Symlinks::Beneath => ResolveFlags::BENEATH,
        Symlinks::Owner | Symlinks::Never => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Follow => ResolveFlags::empty(),
    };
    let cached = if wait == Wait::Never { ResolveFlags::CACHED } else { ResolveFlags::empty() };
    let resolve = rule | ResolveFlags::NO_MAGICLINKS | cached;
    for _ in 0..RACES {
        match calls::openat2(&root.fd, name, flags, resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == Wait::Allowed => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// `open`, one component at a time.
fn walk(
    root: &Root,
    name: &str,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, OpenError> {
    if wait == Wait::Never {
        return Err(OpenError::WouldWait);
    }
    let mut walk = Walk::begin(root, name, symlinks)?;
    while let Some(part) = walk.ahead.pop() {
        if part.as_os_str() == ".." {
            walk.go_up()?;
            continue;
        }
        let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| calls::openat(walk.here(), &part, step))?;
        if kind(&fd)? == FileType::Symlink {
            walk.follow(&fd, &part)?;
        } else if walk.ahead.is_empty() {
            return open_last(walk.here(), &part, fd, flags);
        } else {
            walk.folders.push(fd);
        }
    }
    // The path ended in a folder that was entered: by `..`, or because it is the root.
    Ok(retry_on_intr(|| calls::openat(walk.here(), ".", flags))?)
}

/// A walk from folder to folder.
struct Walk<'a> {
    root: &'a Root,
    symlinks: Symlinks,
    /// What is still to be walked, last component first.
    ahead: Vec<PathBuf>,
    /// The folders walked so far, from `start` on.
    folders: Vec<OwnedFd>,
    start: OwnedFd,
    links: usize,
}

impl Walk<'_> {
    fn begin<'a>(root: &'a Root, name: &str, symlinks: Symlinks) -> Result<Walk<'a>, OpenError> {
        let start = calls::duplicate(&root.fd)?;
        let ahead = parts(Path::new(name));
        Ok(Walk { root, symlinks, ahead, folders: Vec::new(), start, links: 0 })
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.start.as_fd(), AsFd::as_fd)
    }

    fn is_confined(&self) -> bool {
        matches!(self.symlinks, Symlinks::Beneath | Symlinks::Never)
    }

    fn go_up(&mut self) -> Result<(), OpenError> {
        if self.folders.pop().is_some() {
            return Ok(());
        }
        if self.is_confined() {
            return Err(OpenError::Denied);
        }
        self.start = retry_on_intr(|| calls::openat(&self.start, "..", FOLDER))?;
        Ok(())
    }

    /// Puts where the link leads in front of what is ahead. An absolute one begins anew, at the root if it
    /// leads beneath it.
    fn follow(&mut self, link: &OwnedFd, name: &Path) -> Result<(), OpenError> {
        self.links += 1;
        if self.links > MAX_LINKS || !may_follow(self.symlinks, self.here(), link, name)? {
            return Err(OpenError::Denied);
        }
        let target = read_link(link)?;
        if !target.is_absolute() {
            self.ahead.extend(parts(&target));
            return Ok(());
        }
        self.folders.clear();
        if self.is_confined() {
            let inside = target.strip_prefix(&*self.root.path).map_err(|_| OpenError::Denied)?;
            self.start = calls::duplicate(&self.root.fd)?;
            self.ahead.extend(parts(inside));
        } else {
            self.start = retry_on_intr(|| calls::open("/", FOLDER))?;
            self.ahead.extend(parts(&target));
        }
        Ok(())
    }
}

/// The last component, which `found` shows not to be a link: opened by name, unless it has been exchanged.
fn open_last(here: BorrowedFd<'_>, part: &Path, found: OwnedFd, flags: OFlags) -> Result<OwnedFd, OpenError> {
    if flags.contains(OFlags::PATH) {
        return Ok(found);
    }
    Ok(retry_on_intr(|| calls::openat(here, part, flags | OFlags::NOFOLLOW))?)
}

fn may_follow(symlinks: Symlinks, here: BorrowedFd<'_>, link: &OwnedFd, name: &Path) -> Result<bool, Errno> {
    Ok(match symlinks {
        Symlinks::Never => false,
        Symlinks::Beneath | Symlinks::Follow => true,
        Symlinks::Owner => {
            let target = retry_on_intr(|| calls::statat(here, name, AtFlags::empty()))?;
            retry_on_intr(|| calls::fstat(link))?.st_uid == target.st_uid
        }
    })
}

fn kind(fd: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(retry_on_intr(|| calls::fstat(fd))?.st_mode))
}

/// The components of a path, last one first; `.` and the leading slash are dropped.
fn parts(path: &Path) -> Vec<PathBuf> {
    let keep = |c: Component<'_>| match c {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(keep).collect()
}

fn read_link(link: &OwnedFd) -> Result<PathBuf, Errno> {
    Ok(PathBuf::from(OsString::from_vec(retry_on_intr(|| calls::readlink(link))?)))
}

#[cfg(test)]
mod tests;
