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

use rustix::fs::{Access, AtFlags, FileType, OFlags, ResolveFlags, accessat};
use rustix::io::{Errno, retry_on_intr};
use site::model::Symlinks;
use taipan_http::target::SafePath;

use crate::disk::Device;
use crate::sys::calls;

/// As `path_resolution(7)`: more links than this are a loop.
const MAX_LINKS: usize = 40;
/// Folders that a walk holds open at once: the target of a link alone may name two thousand.
const MAX_FOLDERS: usize = 256;
/// `openat2` says EAGAIN when a rename elsewhere crossed its path, and any file system that it was interrupted;
/// it is asked again this often.
const RACES: usize = 8;
/// To stand in, and to open from.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// To read from. Opening a FIFO with NONBLOCK does not wait for its writer.
pub const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

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

    /// Errors: the user of this process may not reach what is in it.
    pub fn enter(&self) -> std::io::Result<()> {
        Ok(accessat(&self.fd, ".", Access::EXEC_OK, AtFlags::EACCESS)?)
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
    let name = name_of(path);
    let flags = flags | OFlags::CLOEXEC;
    match open_at_once(root, name, symlinks, flags, wait) {
        // Absolute links may still lead back beneath the root, and owners must be compared link by link.
        Err(Errno::XDEV) if symlinks == Symlinks::Beneath => walk(root, name, symlinks, flags, wait),
        Err(Errno::LOOP) if symlinks == Symlinks::Owner => walk(root, name, symlinks, flags, wait),
        Err(Errno::NOSYS) => walk(root, name, symlinks, flags, wait),
        // Renames went on all the time. A walk does not mind them.
        Err(Errno::AGAIN) if wait == Wait::Allowed => walk(root, name, symlinks, flags, wait),
        Err(Errno::AGAIN | Errno::INVAL) if wait == Wait::Never => Err(OpenError::WouldWait),
        Err(errno) => Err(errno.into()),
        Ok(fd) => Ok(fd),
    }
}

/// Opens `path` for reading as far as the kernel has it in memory, on the device of `root` and without following the
/// rule for links any further than one call can. Errors: `Missing` and `WouldWait` are certain; after any other, `open`
/// may succeed.
pub fn open_on_device(root: &Root, path: &SafePath<'_>, symlinks: Symlinks) -> Result<OwnedFd, OpenError> {
    let resolve = resolve_flags(symlinks) | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
    match calls::openat2(&root.fd, name_of(path), READ | OFlags::CLOEXEC, resolve) {
        Err(Errno::AGAIN | Errno::INVAL) => Err(OpenError::WouldWait),
        result => Ok(result?),
    }
}

fn name_of<'a>(path: &'a SafePath<'_>) -> &'a str {
    match path.as_str().trim_end_matches('/') {
        "" => ".",
        name => name,
    }
}

fn resolve_flags(symlinks: Symlinks) -> ResolveFlags {
    let rule = match symlinks {
        Symlinks::Beneath => ResolveFlags::BENEATH,
        Symlinks::Owner | Symlinks::Never => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Follow => ResolveFlags::empty(),
    };
    rule | ResolveFlags::NO_MAGICLINKS
}

fn open_at_once(
    root: &Root,
    name: &str,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, Errno> {
    let cached = if wait == Wait::Never { ResolveFlags::CACHED } else { ResolveFlags::empty() };
    let resolve = resolve_flags(symlinks) | cached;
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
        } else {
            let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = retry_on_intr(|| calls::openat(walk.here(), &part, step))?;
            if kind(&fd)? == FileType::Symlink {
                walk.follow(&fd)?;
            } else if walk.ahead.is_empty() {
                return walk.open_last(&part, fd, flags);
            } else {
                walk.enter(fd)?;
            }
        }
        walk.arrive()?;
    }
    // The path ended in a folder that was entered: by `..`, or because it is the root.
    Ok(retry_on_intr(|| calls::openat(walk.here(), ".", flags))?)
}

/// A walk from folder to folder. Nothing is looked at twice by its name, for it may have been exchanged in
/// between: a link is read, and its owner seen, by one descriptor.
struct Walk<'a> {
    root: &'a Root,
    symlinks: Symlinks,
    /// What is still to be walked, last component first.
    ahead: Vec<PathBuf>,
    /// The folders walked so far, from `start` on.
    folders: Vec<OwnedFd>,
    start: OwnedFd,
    links: usize,
    /// The links whose targets have not been reached yet, where those must have the same owner.
    pending: Vec<PendingLink>,
}

struct PendingLink {
    owner: u32,
    /// As many components are ahead when its target is reached.
    ahead: usize,
}

impl Walk<'_> {
    fn begin<'a>(root: &'a Root, name: &str, symlinks: Symlinks) -> Result<Walk<'a>, OpenError> {
        let start = calls::duplicate(&root.fd)?;
        let ahead = parts(Path::new(name));
        Ok(Walk { root, symlinks, ahead, folders: Vec::new(), start, links: 0, pending: Vec::new() })
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.start.as_fd(), AsFd::as_fd)
    }

    fn is_confined(&self) -> bool {
        matches!(self.symlinks, Symlinks::Beneath | Symlinks::Never)
    }

    fn enter(&mut self, folder: OwnedFd) -> Result<(), OpenError> {
        if self.folders.len() >= MAX_FOLDERS {
            return Err(OpenError::Denied);
        }
        self.folders.push(folder);
        Ok(())
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
    fn follow(&mut self, link: &OwnedFd) -> Result<(), OpenError> {
        self.links += 1;
        if self.links > MAX_LINKS || self.symlinks == Symlinks::Never {
            return Err(OpenError::Denied);
        }
        if self.symlinks == Symlinks::Owner {
            self.pending.push(PendingLink { owner: owner(link)?, ahead: self.ahead.len() });
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

    /// The folder here may be what links have led to.
    fn arrive(&mut self) -> Result<(), OpenError> {
        if self.pending.last().is_some_and(|link| link.ahead >= self.ahead.len()) {
            self.compare_owners(self.here())?;
            self.pending.retain(|link| link.ahead < self.ahead.len());
        }
        Ok(())
    }

    /// Does `reached` belong to the owners of all links that lead to it?
    fn compare_owners(&self, reached: impl AsFd) -> Result<(), OpenError> {
        let mut leading = self.pending.iter().filter(|link| link.ahead >= self.ahead.len()).peekable();
        if leading.peek().is_none() {
            return Ok(());
        }
        let owner = owner(reached)?;
        if leading.any(|link| link.owner != owner) { Err(OpenError::Denied) } else { Ok(()) }
    }

    /// The last component, which `found` shows not to be a link. It is opened by its name, and may have been
    /// exchanged for another file since: what counts is the owner of what was opened.
    fn open_last(&self, part: &Path, found: OwnedFd, flags: OFlags) -> Result<OwnedFd, OpenError> {
        self.compare_owners(&found)?;
        if flags.contains(OFlags::PATH) {
            return Ok(found);
        }
        let opened = retry_on_intr(|| calls::openat(self.here(), part, flags | OFlags::NOFOLLOW))?;
        self.compare_owners(&opened)?;
        Ok(opened)
    }
}

fn owner(fd: impl AsFd) -> Result<u32, Errno> {
    Ok(retry_on_intr(|| calls::fstat(&fd))?.st_uid)
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
