//! Folders with everything beneath them: reading their names, copying and removing them. All of it runs on helper threads, in
//! steps that are short enough for one.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, RenameFlags, ResolveFlags};
use rustix::io::{Errno, retry_on_intr};
use site::model::Symlinks;
use site::publishing::Sync;
use taipan_http::target::SafePath;

use super::failure::Failure;
use super::store::{Below, Found, Guard, NEW, Store, TRASH, UPLOADS, random_name, write_at};
use super::usage::{self, Reservation};
use crate::disk::Device;
use crate::files::beneath::{self, Wait};
use crate::files::open::stat;
use crate::log;
use crate::sys::calls;

/// Names that are read in one step.
const NAMES_PER_STEP: usize = 1000;
/// Bytes that are copied in one step, and with one call.
const BYTES_PER_STEP: usize = 8 * 1024 * 1024;
const BYTES_PER_CALL: usize = 64 * 1024;
/// Files that are copied in one step.
const FILES_PER_STEP: usize = 64;

/// For reading the names of a folder.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// In the folders of the server's own.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A link, a device and the like.
    Other,
}

/// Something beneath a folder.
#[derive(Debug, Clone)]
pub struct Member {
    pub path: Below,
    pub kind: Kind,
}

/// How far a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Names,
    /// The tree. Errors: `Denied` if another file system is mounted in it.
    Tree,
    /// As `Tree`. Errors: `Denied` for a name that no client can request, and for what is neither a file nor a folder, too.
    Whole,
    /// The tree, without what is in other file systems.
    Device,
}

/// Reads what is beneath a folder: folders before what is in them.
pub struct Scan {
    reach: Reach,
    symlinks: Symlinks,
    folders: Vec<Below>,
    current: Option<(Below, Dir)>,
    /// That of the folder.
    device: Option<Device>,
}

impl Scan {
    /// `symlinks`: for the way to `folder`. No link beneath it is followed.
    pub fn new(folder: &Below, reach: Reach, symlinks: Symlinks) -> Scan {
        Scan { reach, symlinks, folders: vec![folder.clone()], current: None, device: None }
    }

    /// The next members: none at the end. Names that no client can request are left out.
    pub fn step(&mut self, store: &Store) -> Result<Vec<Member>, Failure> {
        let mut members = Vec::new();
        while members.len() < NAMES_PER_STEP {
            let Some((folder, dir)) = &mut self.current else {
                let Some(folder) = self.folders.pop() else { break };
                match beneath::open(&store.root, &folder, self.symlinks, LIST, Wait::Allowed) {
                    Ok(fd) if self.enters(&fd)? => self.current = Some((folder, calls::open_folder(&fd)?)),
                    Ok(_) => {}
                    // It has been removed since.
                    Err(beneath::OpenError::Missing) if !members.is_empty() => {}
                    Err(error) => return Err(error.into()),
                }
                self.symlinks = Symlinks::Never;
                continue;
            };
            let Some(entry) = calls::next_entry(dir) else {
                self.current = None;
                continue;
            };
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if name == "." || name == ".." {
                continue;
            }
            let Some(path) = folder.as_folder().join(name).filter(|_| !name.is_empty()) else {
                match self.reach {
                    Reach::Whole => return Err(Failure::Denied),
                    Reach::Names | Reach::Tree | Reach::Device => continue,
                }
            };
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(dir, name)?,
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                _ if self.reach == Reach::Whole => return Err(Failure::Denied),
                _ => Kind::Other,
            };
            if kind == Kind::Folder && self.reach != Reach::Names {
                self.folders.push(path.clone());
            }
            members.push(Member { path, kind });
        }
        Ok(members)
    }

    /// Whether the scan is for what is in a folder. Errors: see `Reach::Tree`.
    fn enters(&mut self, folder: &OwnedFd) -> Result<bool, Failure> {
        if self.reach == Reach::Names {
            return Ok(true);
        }
        let (_, stamp) = stat(folder, Wait::Allowed)?;
        let is_same = *self.device.get_or_insert(stamp.device) == stamp.device;
        if !is_same && self.reach != Reach::Device { Err(Failure::Denied) } else { Ok(is_same) }
    }
}

fn kind_of(dir: &Dir, name: &str) -> Result<FileType, Failure> {
    let stat = calls::statx(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.stx_mode.into()))
}

/// What a step has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// A copy of a folder, which has no name that clients know until it is whole.
pub struct Copy {
    from: Store,
    /// The folder that is copied.
    base: Below,
    to: Store,
    new: OwnedFd,
    name: String,
    /// So that another process of the server does not take it for one that a crash has left.
    _lock: OwnedFd,
    members: VecDeque<Member>,
    file: Option<(OwnedFd, OwnedFd, u64)>,
    /// Folders of the copy that are not on the disk yet, beneath `new`.
    unsynced: Vec<String>,
    /// `None`: the copy is stored.
    reservation: Option<Reservation>,
    bytes: u64,
    is_stored: bool,
}

impl Copy {
    /// `members`: those of `base` that are copied, folders before what is in them.
    pub fn begin(
        from: Store,
        base: Below,
        to: Store,
        members: Vec<Member>,
        reservation: Reservation,
    ) -> Result<Copy, Failure> {
        let (new, name) = (to.state_folder(NEW)?, random_name()?);
        calls::make_folder_with(&new, &*name, to.folder_mode())?;
        let lock = calls::openat(&new, &*name, LIST)?;
        calls::lock_file(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        let unsynced = if to.settings.sync == Sync::Disk { vec![name.clone()] } else { Vec::new() };
        let (members, reservation) = (members.into(), Some(reservation));
        Ok(Copy {
            _lock: lock,
            from,
            base,
            to,
            new,
            name,
            members,
            file: None,
            unsynced,
            reservation,
            bytes: 0,
            is_stored: false,
        })
    }

    pub fn step(&mut self) -> Result<Progress, Failure> {
        let (mut bytes, mut files) = (0, 0);
        while bytes < BYTES_PER_STEP && files < FILES_PER_STEP {
            if let Some((source, target, at)) = &mut self.file {
                let mut buffer = vec![0; BYTES_PER_CALL];
                let read = retry_on_intr(|| calls::pread(&*source, &mut buffer, *at))?;
                if read == 0 {
                    if self.to.settings.sync == Sync::Disk {
                        calls::sync(&*target)?;
                    }
                    self.file = None;
                    continue;
                }
                self.bytes += read as u64;
                if !self.reservation.as_mut().is_none_or(|own| own.grow_to(self.bytes)) {
                    return Err(Failure::NoSpace);
                }
                self.to.check_space(read as u64)?;
                write_at(target, &buffer[..read], *at)?;
                *at += read as u64;
                bytes += read;
                continue;
            }
            files += 1;
            let Some(member) = self.members.pop_front() else {
                let Some(folder) = self.unsynced.pop() else { return Ok(Progress::Done) };
                calls::sync(&calls::openat2(&self.new, &*folder, LIST, INSIDE)?)?;
                continue;
            };
            let relative = &member.path.as_str()[self.base.as_str().len()..];
            let relative = format!("{}/{}", self.name, relative.trim_start_matches('/'));
            let (folder, name) = relative.rsplit_once('/').unwrap_or((&relative, ""));
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = calls::openat2(&self.new, folder, flags, INSIDE)?;
            match member.kind {
                Kind::Folder => {
                    calls::make_folder_with(&folder, name, self.to.folder_mode())?;
                    if self.to.settings.sync == Sync::Disk {
                        self.unsynced.push(relative);
                    }
                }
                Kind::File => self.open(&member.path, &folder, name)?,
                Kind::Other => {}
            }
        }
        Ok(Progress::More)
    }

    /// Its bytes count as stored.
    pub fn settle(mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.store(self.bytes, 0);
        }
    }

    fn open(&mut self, path: &Below, folder: &OwnedFd, name: &str) -> Result<(), Failure> {
        let source = match beneath::open(&self.from.root, path, Symlinks::Never, beneath::READ, Wait::Allowed)
        {
            // It has been removed since.
            Err(beneath::OpenError::Missing) => return Ok(()),
            source => source?,
        };
        self.from.root.check_visible(&source)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = calls::create_with(folder, name, flags, self.to.file_mode())?;
        self.file = Some((source, target, 0));
        Ok(())
    }

    /// Gives the copy its name, in place of what has that name now. Returns its name in the trash.
    pub fn commit(
        &mut self,
        guard: &Guard,
        path: &Below,
        replaced: Option<Found>,
    ) -> Result<Option<String>, Failure> {
        let discarded = put_in_place(&self.to, &self.new, &self.name, path, replaced)?;
        self.is_stored = true;
        guard.discard_properties(&self.to, path)?;
        Ok(discarded)
    }
}

/// The most resources of a snapshot: it is taken in one job of a helper thread, and again under the guard.
const MAX_SNAPSHOT: usize = 100_000;

/// What is at a path, and beneath it.
pub type Snapshot = Vec<(String, Option<Found>)>;

/// Errors: `Denied` for what cannot be copied: links and the like, and names that are not UTF-8. `TooMany`.
pub fn snapshot(store: &Store, path: &Below) -> Result<Snapshot, Failure> {
    let found = store.find(path)?;
    let mut all = vec![(path.as_str().to_owned(), found)];
    if let Some(Found::Folder(_)) = found {
        let mut scan = Scan::new(path, Reach::Whole, Symlinks::Never);
        loop {
            let members = scan.step(store)?;
            if members.is_empty() {
                break;
            }
            if all.len() + members.len() > MAX_SNAPSHOT {
                return Err(Failure::TooMany);
            }
            for member in members {
                all.push((member.path.as_str().to_owned(), store.find(&member.path)?));
            }
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

/// Copies the dead properties of all that is beneath a folder.
pub fn copy_properties(
    from: &Store,
    base: &Below,
    to: &Store,
    guard: &Guard,
    target: &Below,
) -> Result<(), Failure> {
    let mut folders = vec![base.clone()];
    while let Some(folder) = folders.pop() {
        for name in from.names_with_properties(&folder)? {
            let Some(path) = folder.as_folder().join(&name) else { continue };
            let relative = &path.as_str()[base.as_str().len()..];
            let copy = SafePath::from_decoded(
                &["/", target.as_str(), "/", relative.trim_start_matches('/')].concat(),
            );
            let copy = copy.map_err(|_| Failure::Denied)?;
            if to.find(&copy)?.is_some() {
                guard.copy_properties(&from.properties(&path)?, &copy)?;
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// Renames `name` in `folder` to `path`, in place of what is there, which goes to the trash: a reader sees either. Returns its
/// name there.
pub fn put_in_place(
    store: &Store,
    folder: &OwnedFd,
    name: &str,
    path: &Below,
    replaced: Option<Found>,
) -> Result<Option<String>, Failure> {
    let (target, last) = store.folder_of(path).map_err(|failure| match failure {
        Failure::Missing => Failure::NoFolder,
        failure => failure,
    })?;
    if let Some(Found::Other) = replaced {
        calls::unlink(&target, last)?;
    }
    if matches!(replaced, None | Some(Found::Other)) {
        calls::rename_between(folder, name, &target, last, RenameFlags::NOREPLACE)?;
        store.sync_folder(&target)?;
        return Ok(None);
    }
    let (trash, discarded) = (store.state_folder(TRASH)?, random_name()?);
    match calls::rename_between(folder, name, &target, last, RenameFlags::EXCHANGE) {
        Ok(()) => calls::rename_between(folder, name, &trash, &*discarded, RenameFlags::NOREPLACE)?,
        // Not every file system can exchange names: for a moment, there is nothing.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            calls::rename_between(&target, last, &trash, &*discarded, RenameFlags::NOREPLACE)?;
            calls::rename_between(folder, name, &target, last, RenameFlags::NOREPLACE)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    store.sync_folder(&target)?;
    Ok(Some(discarded))
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.is_stored {
            return;
        }
        let (Ok(folder), name) = (calls::duplicate(&self.new), std::mem::take(&mut self.name)) else {
            return;
        };
        let remove = move || _ = remove(&folder, &name);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(remove),
            Err(_) => remove(),
        }
    }
}

/// Removes what is in the trash under this name.
pub fn empty_trash(store: &Store, name: &str) {
    match store.state_folder(TRASH).and_then(|trash| remove(&trash, name)) {
        Ok(bytes) => usage::removed(&store.root.path, bytes),
        Err(failure) => {
            let root = store.root.path.display();
            log::warn(format_args!(
                "cannot remove everything that clients have deleted in {root}: {failure:?}"
            ));
        }
    }
}

/// Removes a name, and everything beneath it. Returns the bytes of the files.
pub fn remove(folder: &OwnedFd, name: &str) -> Result<u64, Failure> {
    let size = |folder: &OwnedFd, name: &str| {
        calls::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.stx_size)
    };
    let mut bytes = size(folder, name);
    match calls::unlink(folder, name) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        Ok(()) => return Ok(bytes),
        Err(Errno::NOENT) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    }
    bytes = 0;
    // Folders before what is in them.
    let mut folders = vec![name.as_bytes().to_owned()];
    let mut at = 0;
    while let Some(path) = folders.get(at).cloned() {
        at += 1;
        let fd = calls::openat2(folder, &*path, LIST, INSIDE)?;
        let mut dir = calls::open_folder(&fd)?;
        while let Some(entry) = calls::next_entry(&mut dir) {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let length = calls::statx(&fd, name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.stx_size);
            match calls::unlink(&fd, name) {
                Ok(()) => bytes += length,
                Err(Errno::ISDIR | Errno::PERM) => folders.push([&*path, b"/", name.to_bytes()].concat()),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    for path in folders.iter().rev() {
        calls::remove_folder(folder, &**path)?;
    }
    Ok(bytes)
}

/// Removes what a crash has left behind: files that were being written, and the trash. Errors: the folder of the server's own
/// files cannot be made.
pub fn clean(store: &Store) -> Result<(), Failure> {
    let new = store.state_folder(NEW)?;
    for name in names(&new)? {
        // One that another process is writing has a lock.
        let file = calls::openat(
            &new,
            &*name,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        );
        let is_used = file.is_ok_and(|file| {
            calls::lock_file(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
                == Err(Errno::WOULDBLOCK)
        });
        if !is_used {
            remove(&new, &name)?;
        }
    }
    let trash = store.state_folder(TRASH)?;
    for name in names(&trash)? {
        remove(&trash, &name)?;
    }
    Ok(())
}

pub fn names(folder: &OwnedFd) -> Result<Vec<String>, Failure> {
    let fd = calls::openat(folder, ".", LIST)?;
    let (mut dir, mut names) = (calls::open_folder(&fd)?, Vec::new());
    while let Some(entry) = calls::next_entry(&mut dir) {
        if let Ok(name) = entry?.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The bytes of all files beneath the root, and of uploads that can be resumed.
pub fn count(store: &Store) -> Result<u64, Failure> {
    let root = SafePath::from_decoded("/").map_err(|_| Failure::Denied)?;
    let mut bytes = 0;
    let mut scan = Scan::new(&root, Reach::Device, Symlinks::Never);
    loop {
        let members = scan.step(store)?;
        if members.is_empty() {
            break;
        }
        for member in members.iter().filter(|member| member.kind == Kind::File && !is_own(member)) {
            if let Ok(stat) = calls::statx(&store.root.fd, member.path.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                bytes += stat.stx_size;
            }
        }
    }
    let uploads = store.state_folder(UPLOADS)?;
    for name in names(&uploads)? {
        bytes += calls::statx(&uploads, &*name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.stx_size);
    }
    Ok(bytes)
}

fn is_own(member: &Member) -> bool {
    member.path.segments().next().is_some_and(site::publishing::is_own_name)
}
