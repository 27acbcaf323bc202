//! Opens a path beneath a root, and nothing outside of it: with `openat2(2)`, or with a walk from component to
//! component. The walk is for kernels without `openat2` and for rules that inspect each link.
//!
//! Every path that a client requests is opened here. Takes no string that was not a `SafePath`.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, OFlags, ResolveFlags, accessat};
use rustix::io::{Errno, retry_on_intr};
use site::authentication::FOLDER_FILE;
use site::model::Symlinks;
use taipan_http::path_text;
use taipan_http::target::SafePath;

use super::hidden_files::HiddenFiles;
use crate::disk::{Device, device_of};
use crate::sys::calls;

/// More links than this are a loop, as in path_resolution(7).
const MAX_LINKS: usize = 40;
/// The limit of folders that a walk has open. The target of a single link may name two thousand.
const MAX_FOLDERS: usize = 256;
/// How often `openat2` is called again after EAGAIN (a rename crossed its path) or EINTR.
const ATTEMPTS: usize = 8;
/// For a folder from which other paths are opened.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// For reading. With NONBLOCK, opening a FIFO does not wait for a writer.
pub const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A folder that files are served from.
#[derive(Debug, Clone)]
pub struct Root {
    pub fd: Arc<OwnedFd>,
    /// Without links, so that an absolute link that leads back beneath the root is recognised.
    pub path: Arc<PathBuf>,
    pub device: Device,
    inode: u64,
    /// Files that are never served.
    hidden: HiddenFiles,
}

impl Root {
    pub fn open(path: &Path) -> std::io::Result<Root> {
        let fd = retry_on_intr(|| calls::open(path, FOLDER))?;
        let stat = retry_on_intr(|| calls::fstat(&fd))?;
        let device = device_of(&stat);
        let path = Arc::new(path.canonicalize()?);
        Ok(Root { fd: Arc::new(fd), path, device, inode: stat.st_ino, hidden: HiddenFiles::default() })
    }

    /// Whether `path` leads to this folder, as far as the kernel has that in memory: `false` may mean that it has not.
    /// Never waits for a disk.
    pub fn is_at(&self, path: &Path) -> bool {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = calls::openat2(CWD, path, FOLDER, ResolveFlags::CACHED)
            .and_then(|folder| calls::statx(&folder, "", flags));
        found.is_ok_and(|found| (found.device, found.inode) == (self.device, self.inode))
    }

    /// The same folder, beneath which these files are never served.
    pub fn hiding(self, hidden: &HiddenFiles) -> Root {
        Root { hidden: hidden.clone(), ..self }
    }

    /// Whether a file is never served, by whatever name.
    pub fn hides(&self, device: Device, inode: u64) -> bool {
        self.hidden.has(device, inode)
    }

    /// Errors: `Denied` for a file that is never served.
    pub fn check_visible(&self, file: &OwnedFd) -> Result<(), OpenError> {
        let stat = retry_on_intr(|| calls::fstat(file))?;
        if self.hides(device_of(&stat), stat.st_ino) { Err(OpenError::Denied) } else { Ok(()) }
    }

    /// A folder beneath this one, as a root of its own.
    pub fn beneath(&self, path: &SafePath<'_>, symlinks: Symlinks) -> Result<Root, OpenError> {
        self.beneath_as(path, symlinks, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// As `beneath`, opened with `flags`.
    pub fn beneath_as(
        &self,
        path: &SafePath<'_>,
        symlinks: Symlinks,
        flags: OFlags,
    ) -> Result<Root, OpenError> {
        let fd = open(self, path, symlinks, flags, Wait::Allowed)?;
        let stat = retry_on_intr(|| calls::fstat(&fd))?;
        let device = device_of(&stat);
        let path = path.beneath(&self.path);
        // Only for absolute links. Without it they lead out of the root.
        let path = Arc::new(path.canonicalize().unwrap_or(path));
        let hidden = self.hidden.clone();
        Ok(Root { fd: Arc::new(fd), path, device, inode: stat.st_ino, hidden })
    }

    /// Whether `path` beneath `root` leads to this folder.
    pub fn is_beneath(
        &self,
        root: &Root,
        path: &SafePath<'_>,
        symlinks: Symlinks,
    ) -> Result<bool, OpenError> {
        match root.beneath(path, symlinks) {
            Err(OpenError::Missing) => Ok(false),
            found => Ok(found?.is_same(self)),
        }
    }

    /// Errors: the user of this process may not open files in the folder.
    pub fn check_access(&self) -> std::io::Result<()> {
        Ok(accessat(&self.fd, ".", Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// Whether both are the same folder at the same path.
    pub fn is_same(&self, other: &Root) -> bool {
        (self.device, self.inode) == (other.device, other.inode) && self.path == other.path
    }
}

/// Whether a call may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// If the kernel cannot complete the call from memory, the call fails with `OpenError::WouldWait`.
    Never,
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    Missing,
    Denied,
    WouldWait,
    /// Caused neither by the client nor by the file: no descriptors, no memory, a broken disk.
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

/// Opens `path` beneath `root` with `flags`, following the links that `symlinks` allows.
pub fn open(
    root: &Root,
    path: &SafePath<'_>,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, OpenError> {
    let name = &*name_of(path);
    let flags = flags | OFlags::CLOEXEC;
    match (open_by_kernel(root, name, symlinks, flags, wait), wait) {
        (Ok(fd), _) => return Ok(fd),
        // The kernel does not have the path in memory, or does not know RESOLVE_CACHED.
        (Err(Errno::AGAIN | Errno::INVAL), Wait::Never) => return Err(OpenError::WouldWait),
        // An absolute link may lead back beneath the root.
        (Err(Errno::XDEV), _) if symlinks == Symlinks::Beneath => {}
        // The owner of each link is compared, or the folder that it leads to.
        (Err(Errno::LOOP), _) if symlinks == Symlinks::Owner || is_guarded(symlinks) => {}
        // Renames interrupted every attempt. They do not interrupt a walk.
        (Err(Errno::AGAIN | Errno::NOSYS), _) => {}
        (Err(errno), _) => return Err(errno.into()),
    }
    match wait {
        Wait::Never => Err(OpenError::WouldWait),
        Wait::Allowed => open_by_walk(root, name, symlinks, flags),
    }
}

/// Opens `path` for reading, from memory, with one call, and only on the device of `root`. Errors: after `Denied` and
/// `Local`, `open` may succeed.
pub fn open_on_device(root: &Root, path: &SafePath<'_>, symlinks: Symlinks) -> Result<OwnedFd, OpenError> {
    let resolve = resolve_flags(symlinks) | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
    match calls::openat2(&root.fd, &*name_of(path), READ | OFlags::CLOEXEC, resolve) {
        Err(Errno::AGAIN | Errno::INVAL) => Err(OpenError::WouldWait),
        result => Ok(result?),
    }
}

/// Opens a folder beneath another one, by a path of names that the server has made or read there. Links, and what is
/// mounted there, are no way to it.
pub fn open_folder(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    const INSIDE: ResolveFlags =
        ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match calls::openat2(folder, path, flags, INSIDE) {
        Err(Errno::NOSYS) => {}
        result => return result,
    }
    let device = calls::fstat(folder)?.st_dev;
    let mut opened = calls::duplicate(folder)?;
    let mut names = path.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return Err(Errno::XDEV) };
        let how = if names.peek().is_none() { flags } else { FOLDER | OFlags::NOFOLLOW };
        opened = retry_on_intr(|| calls::openat(&opened, name, how))?;
        if calls::fstat(&opened)?.st_dev != device {
            return Err(Errno::XDEV);
        }
    }
    Ok(opened)
}

fn name_of<'a>(path: &'a SafePath<'_>) -> Cow<'a, Path> {
    match path.as_str().trim_end_matches('/') {
        "" => Cow::Borrowed(Path::new(".")),
        name => path_text::to_path(name),
    }
}

fn resolve_flags(symlinks: Symlinks) -> ResolveFlags {
    let rule = match symlinks {
        Symlinks::Beneath => ResolveFlags::BENEATH,
        Symlinks::Owner | Symlinks::Guarded | Symlinks::GuardedTree | Symlinks::Never => {
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS
        }
        Symlinks::Follow => ResolveFlags::empty(),
    };
    rule | ResolveFlags::NO_MAGICLINKS
}

fn is_guarded(symlinks: Symlinks) -> bool {
    matches!(symlinks, Symlinks::Guarded | Symlinks::GuardedTree)
}

fn open_by_kernel(
    root: &Root,
    name: &Path,
    symlinks: Symlinks,
    flags: OFlags,
    wait: Wait,
) -> Result<OwnedFd, Errno> {
    let cached = if wait == Wait::Never { ResolveFlags::CACHED } else { ResolveFlags::empty() };
    let resolve = resolve_flags(symlinks) | cached;
    for _ in 0..ATTEMPTS {
        match calls::openat2(&root.fd, name, flags, resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == Wait::Allowed => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

fn open_by_walk(root: &Root, name: &Path, symlinks: Symlinks, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let mut walk = PathWalk::new(root, name, symlinks)?;
    loop {
        walk.note_folder()?;
        let Some(name) = walk.remaining.pop() else { break };
        if name.as_os_str() == ".." {
            walk.go_up()?;
        } else {
            let component = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = retry_on_intr(|| calls::openat(walk.folder(), &name, component))?;
            if kind(&fd)? == FileType::Symlink {
                walk.follow(&fd)?;
            } else if walk.remaining.is_empty() {
                return walk.open_last(&name, fd, flags);
            } else {
                walk.enter(fd)?;
            }
        }
        walk.compare_folder()?;
    }
    // The last component was `..` or a link, or the path is the root.
    walk.check_guards()?;
    Ok(retry_on_intr(|| calls::openat(walk.folder(), ".", flags))?)
}

/// A walk from folder to folder. One descriptor serves both to read a link and to get its owner, because the file may
/// be replaced between two calls that use its name.
struct PathWalk<'a> {
    root: &'a Root,
    symlinks: Symlinks,
    /// Components, last one first.
    remaining: Vec<PathBuf>,
    /// The folders that were entered, from `start` on.
    folders: Vec<OwnedFd>,
    start: OwnedFd,
    links: usize,
    /// With `Symlinks::Owner`: the links whose targets have not been reached yet.
    pending: Vec<PendingLink>,
    /// The number of components of the path itself, without those of links, that the walk has not come to.
    own: usize,
    /// With `Symlinks::Guarded`: the folder whose password file decides about the path. With `Symlinks::GuardedTree`:
    /// the last folder on the path that has one.
    guard: Option<Identity>,
}

/// Device and inode of a folder.
type Identity = (u64, u64);

struct PendingLink {
    owner: u32,
    /// The number of remaining components when the walk is at the target.
    remaining: usize,
}

impl PathWalk<'_> {
    fn new<'a>(root: &'a Root, name: &Path, symlinks: Symlinks) -> Result<PathWalk<'a>, OpenError> {
        let start = calls::duplicate(&root.fd)?;
        let remaining = components(name);
        let (folders, pending, own) = (Vec::new(), Vec::new(), remaining.len());
        Ok(PathWalk { root, symlinks, remaining, folders, start, links: 0, pending, own, guard: None })
    }

    fn folder(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.start.as_fd(), AsFd::as_fd)
    }

    fn is_confined(&self) -> bool {
        matches!(self.symlinks, Symlinks::Beneath | Symlinks::Never) || is_guarded(self.symlinks)
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

    /// Where the walk has come to a folder that the path names: by these folders, users were asked for a password.
    fn note_folder(&mut self) -> Result<(), OpenError> {
        if !is_guarded(self.symlinks) || self.remaining.len() > self.own {
            return Ok(());
        }
        self.own = self.remaining.len().saturating_sub(1);
        if self.symlinks == Symlinks::Guarded || has_password_file(self.folder()) {
            self.guard = Some(identity(self.folder())?);
        }
        Ok(())
    }

    /// Errors: a link has led to `found` in another folder, which has a password file.
    fn check_guard(&self, found: &OwnedFd) -> Result<(), OpenError> {
        let is_folder = || Ok::<bool, OpenError>(kind(found)? == FileType::Directory);
        match self.symlinks {
            // Its own password file has been asked for.
            Symlinks::Guarded if is_folder()? => Ok(()),
            Symlinks::GuardedTree if is_folder()? && has_password_file(found.as_fd()) => Ok(()),
            _ => self.check_guards(),
        }
    }

    /// As `check_guard`, for the folder that the walk is in.
    fn check_guards(&self) -> Result<(), OpenError> {
        let around = match self.symlinks {
            Symlinks::Guarded => 1,
            Symlinks::GuardedTree => usize::MAX,
            _ => return Ok(()),
        };
        let mut folders = self.folders.iter().rev().map(AsFd::as_fd).chain([self.start.as_fd()]).take(around);
        match folders.find(|folder| has_password_file(*folder)) {
            Some(folder) if Some(identity(folder)?) != self.guard => Err(OpenError::Denied),
            _ => Ok(()),
        }
    }

    /// Continues at the target of the link. A confined walk follows an absolute link only if it leads beneath the root.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), OpenError> {
        self.links += 1;
        if self.links > MAX_LINKS || self.symlinks == Symlinks::Never {
            return Err(OpenError::Denied);
        }
        if self.symlinks == Symlinks::Owner {
            self.pending.push(PendingLink { owner: owner(link)?, remaining: self.remaining.len() });
        }
        let target = read_link(link)?;
        if !target.is_absolute() {
            self.remaining.extend(components(&target));
            return Ok(());
        }
        self.folders.clear();
        if self.is_confined() {
            let inside = target.strip_prefix(&*self.root.path).map_err(|_| OpenError::Denied)?;
            self.start = calls::duplicate(&self.root.fd)?;
            self.remaining.extend(components(inside));
        } else {
            self.start = retry_on_intr(|| calls::open("/", FOLDER))?;
            self.remaining.extend(components(&target));
        }
        Ok(())
    }

    /// Compares the owner of the folder with those of the links that lead to it.
    fn compare_folder(&mut self) -> Result<(), OpenError> {
        if self.pending.last().is_some_and(|link| link.remaining >= self.remaining.len()) {
            self.compare_owners(self.folder())?;
            self.pending.retain(|link| link.remaining < self.remaining.len());
        }
        Ok(())
    }

    /// Errors: `target` has another owner than one of the links that lead to it.
    fn compare_owners(&self, target: impl AsFd) -> Result<(), OpenError> {
        let mut links = self.pending.iter().filter(|link| link.remaining >= self.remaining.len()).peekable();
        if links.peek().is_none() {
            return Ok(());
        }
        let owner = owner(target)?;
        if links.any(|link| link.owner != owner) { Err(OpenError::Denied) } else { Ok(()) }
    }

    /// Opens the last component, which `found` shows not to be a link. Opening it by its name may open another file,
    /// which has replaced it since, so the owner of the opened file is compared, too.
    fn open_last(&self, name: &Path, found: OwnedFd, flags: OFlags) -> Result<OwnedFd, OpenError> {
        self.compare_owners(&found)?;
        self.check_guard(&found)?;
        if flags.contains(OFlags::PATH) {
            return Ok(found);
        }
        let opened = retry_on_intr(|| calls::openat(self.folder(), name, flags | OFlags::NOFOLLOW))?;
        self.compare_owners(&opened)?;
        Ok(opened)
    }
}

fn owner(fd: impl AsFd) -> Result<u32, Errno> {
    Ok(retry_on_intr(|| calls::fstat(&fd))?.st_uid)
}

/// Whether the folder at a path may have one, or a link in its place that leads to nothing. Waits for the disk.
pub fn may_have_password_file(root: &Root, folder: &SafePath<'_>, symlinks: Symlinks) -> bool {
    match open(root, folder, symlinks, OFlags::PATH | OFlags::DIRECTORY, Wait::Allowed) {
        Ok(folder) => has_password_file(folder.as_fd()),
        Err(error) => error != OpenError::Missing,
    }
}

/// Whether there may be one.
fn has_password_file(folder: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    !matches!(retry_on_intr(|| calls::openat(folder, FOLDER_FILE, flags)), Err(Errno::NOENT))
}

fn identity(fd: impl AsFd) -> Result<Identity, Errno> {
    let stat = retry_on_intr(|| calls::fstat(&fd))?;
    Ok((stat.st_dev, stat.st_ino))
}

fn kind(fd: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(retry_on_intr(|| calls::fstat(fd))?.st_mode))
}

/// The components of a path, last one first, without `.` and the leading slash.
fn components(path: &Path) -> Vec<PathBuf> {
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
