//! Folders with everything beneath them: reading their names, and copying them. All of it runs on helper threads, in
//! steps that are short enough for one.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use site::model::Symlinks;
use site::publishing::Sync;
use taipan_http::path_text;
use taipan_http::target::SafePath;

use super::failure::{Excess, Failure};
use super::store::{
    ATTEMPTS, Below, Found, Guard, NEW, OWN_FOLDER_MODE, OWN_PROPERTIES, Store, TRASH, UPLOADS, lock_new,
    open_or_make, parent, random_name, write_at, write_own,
};
use super::usage::{Reservation, cost};
use crate::disk::{Device, helpers};
use crate::files::beneath::{self, OpenError, Root, Wait};
use crate::files::open::stat;
use crate::sys::calls;

/// Names that are read in one step.
const NAMES_PER_STEP: usize = 1000;
/// Bytes that are copied in one step, and with one call.
pub(super) const BYTES_PER_STEP: usize = 8 * 1024 * 1024;
pub(super) const BYTES_PER_CALL: usize = 64 * 1024;
/// Files that are copied in one step.
const FILES_PER_STEP: usize = 64;

/// For reading the names of a folder.
pub(super) const LIST: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A link, a device and the like.
    Other,
}

impl Kind {
    pub fn of(found: Option<Found>) -> Kind {
        match found {
            Some(Found::File(_)) => Kind::File,
            Some(Found::Folder(_)) => Kind::Folder,
            Some(Found::Other) | None => Kind::Other,
        }
    }
}

/// Something beneath a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// As `Tree`. Errors: `Denied` for a name that no client can request, and for what is neither a file nor a folder,
    /// too.
    Whole,
    /// The tree, without what is in other file systems.
    Device,
}

/// Reads what is beneath a folder: folders before what is in them.
pub struct Scan {
    /// The folder. It is open: what is beneath it is found there, too, when it has another name.
    base: Root,
    path: Below,
    reach: Reach,
    folders: Vec<Below>,
    current: Option<(Below, Dir)>,
    /// That of the folder.
    device: Option<Device>,
}

impl Scan {
    /// `symlinks`: for the way to `folder`. No link beneath it is followed.
    pub fn begin(store: &Store, folder: &Below, reach: Reach, symlinks: Symlinks) -> Result<Scan, Failure> {
        // The folder may itself be a link, about which `symlinks` decides.
        let base = store.root.beneath_as(folder, symlinks, LIST.difference(OFlags::NOFOLLOW))?;
        Ok(Scan {
            base,
            path: folder.clone(),
            reach,
            folders: vec![folder.clone()],
            current: None,
            device: None,
        })
    }

    /// The folder whose members these are.
    pub fn into_base(self) -> Root {
        self.base
    }

    /// The next members: none at the end. Names that no client can request are left out.
    pub fn step(&mut self) -> Result<Vec<Member>, Failure> {
        let mut members = Vec::new();
        while members.len() < NAMES_PER_STEP {
            let Some((folder, dir)) = &mut self.current else {
                let Some(folder) = self.folders.pop() else { break };
                let below = below(&folder, &self.path)?;
                match beneath::open(&self.base, &below, Symlinks::Never, LIST, Wait::Allowed) {
                    Ok(fd) if self.enters(&fd)? => self.current = Some((folder, calls::open_folder(&fd)?)),
                    Ok(_) => {}
                    // It has been removed since.
                    Err(OpenError::Missing) => {}
                    // Another program has made a path that no client can request.
                    Err(OpenError::Local(Errno::NAMETOOLONG)) if self.reach == Reach::Device => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            };
            let Some(entry) = calls::next_entry(dir) else {
                self.current = None;
                continue;
            };
            let entry = entry?;
            let name =
                entry.file_name().to_str().ok().filter(|name| path_text::is_utf8(name)).unwrap_or_default();
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
        let stamp = stat(folder, Wait::Allowed)?.stamp;
        let is_same = *self.device.get_or_insert(stamp.device) == stamp.device;
        if !is_same && self.reach != Reach::Device { Err(Failure::Denied) } else { Ok(is_same) }
    }
}

fn kind_of(dir: &Dir, name: &str) -> Result<FileType, Failure> {
    Ok(calls::statx(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?.kind())
}

/// What a step has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// The folder that is copied.
pub struct CopiedFolder {
    pub store: Store,
    pub path: Below,
    /// What is at `path`, open.
    pub base: Root,
}

/// A copy of a folder, which has no name that clients know until it is whole.
pub struct FolderCopy {
    from: CopiedFolder,
    to: Store,
    new: LockedFolder,
    members: VecDeque<Member>,
    file: Option<FileCopy>,
    /// Folders of the copy that are not on the disk yet, beneath `new`.
    unsynced: Vec<String>,
    reservation: Reservation,
    /// As they count for a quota: of files that are whole, and of all.
    whole: u64,
    bytes: u64,
}

/// A file of a copied folder, of which `at` bytes are copied.
struct FileCopy {
    source: OwnedFd,
    target: OwnedFd,
    at: u64,
}

impl FolderCopy {
    /// `members`: those of `from` that are copied, folders before what is in them.
    pub fn begin(
        from: CopiedFolder,
        to: Store,
        members: Vec<Member>,
        reservation: Reservation,
    ) -> Result<FolderCopy, Failure> {
        let new = LockedFolder::new(&to, to.folder_mode())?;
        let unsynced = if to.settings.sync == Sync::Disk { vec![new.name.clone()] } else { Vec::new() };
        let members = members.into();
        let (file, whole, bytes) = (None, 0, 0);
        let mut copy = FolderCopy { from, to, new, members, file, unsynced, reservation, whole, bytes };
        copy.count(cost(0))?;
        copy.whole = copy.bytes;
        Ok(copy)
    }

    /// Reserves space. Errors: `NoSpace`.
    fn count(&mut self, bytes: u64) -> Result<(), Failure> {
        self.bytes = bytes;
        if self.reservation.grow_to(bytes) { Ok(()) } else { Err(Failure::NoSpace) }
    }

    /// Errors: `Busy` if the folder, or one in it, is no longer at its path. What is missing there is not a file that
    /// another client has removed.
    pub fn step(&mut self) -> Result<Progress, Failure> {
        let (mut bytes, mut files) = (0, 0);
        while bytes < BYTES_PER_STEP && files < FILES_PER_STEP {
            if let Some(file) = self.file.take() {
                bytes += self.copy_part(file)?;
                continue;
            }
            files += 1;
            if let Some(member) = self.members.pop_front() {
                self.add(&member)?;
            } else if let Some(folder) = self.unsynced.pop() {
                calls::sync(&beneath::open_folder(&self.new.folder, Path::new(&folder), LIST)?)?;
            } else {
                return self.check_base().map(|()| Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    /// Copies the next part of a file, or completes it. Returns the bytes of the part.
    fn copy_part(&mut self, mut file: FileCopy) -> Result<usize, Failure> {
        let mut buffer = vec![0; BYTES_PER_CALL];
        let read = retry_on_intr(|| calls::pread(&file.source, &mut buffer, file.at))?;
        if read == 0 {
            if self.to.settings.sync == Sync::Disk {
                calls::sync(&file.target)?;
            }
            self.whole = self.bytes;
            return Ok(0);
        }
        self.to.check_space(read as u64)?;
        write_at(&file.target, &buffer[..read], file.at)?;
        file.at += read as u64;
        self.count(self.whole + cost(file.at))?;
        self.file = Some(file);
        Ok(read)
    }

    /// Makes a folder of the copy, or begins with a file.
    fn add(&mut self, member: &Member) -> Result<(), Failure> {
        let relative = format!("{}/{}", self.new.name, relative(&member.path, &self.from.path));
        let (folder, name) = relative.rsplit_once('/').unwrap_or((&relative, ""));
        let folder = beneath::open_folder(&self.new.folder, Path::new(folder), OFlags::PATH)?;
        if member.kind != Kind::Other {
            self.count(self.whole + cost(0))?;
        }
        match member.kind {
            Kind::Folder => {
                self.check_folder(&member.path)?;
                calls::make_folder_with(&folder, name, self.to.folder_mode())?;
                self.whole = self.bytes;
                if self.to.settings.sync == Sync::Disk {
                    self.unsynced.push(relative);
                }
            }
            Kind::File => self.open(&member.path, &folder, name)?,
            Kind::Other => {}
        }
        Ok(())
    }

    /// Its bytes count as stored.
    pub fn settle(self) {
        self.reservation.store(self.bytes, 0);
    }

    fn open(&mut self, path: &Below, folder: &OwnedFd, name: &str) -> Result<(), Failure> {
        let below = below(path, &self.from.path)?;
        let source =
            match beneath::open(&self.from.base, &below, Symlinks::Never, beneath::READ, Wait::Allowed) {
                // It has been removed since.
                Err(OpenError::Missing) => return self.check_folder(&parent(path).ok_or(Failure::Denied)?),
                source => source?,
            };
        self.from.base.check_visible(&source)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = calls::create_with(folder, name, flags, self.to.file_mode())?;
        self.file = Some(FileCopy { source, target, at: 0 });
        Ok(())
    }

    /// Errors: `Busy` if no folder is at `path`.
    fn check_folder(&self, path: &SafePath<'_>) -> Result<(), Failure> {
        match self.from.base.beneath(&below(path, &self.from.path)?, Symlinks::Never) {
            Err(OpenError::Missing) => Err(Failure::Busy),
            found => Ok(found.map(drop)?),
        }
    }

    /// Errors: `Busy` if the folder has been moved, removed or replaced.
    fn check_base(&self) -> Result<(), Failure> {
        let CopiedFolder { store, path, base } = &self.from;
        match base.is_beneath(&store.root, path, Symlinks::Never)? {
            true => Ok(()),
            false => Err(Failure::Busy),
        }
    }

    /// Gives the copy its name, in place of what has that name now.
    pub fn commit(&mut self, path: &Below, replaced: Option<Found>) -> Result<(), Failure> {
        put_in_place(&self.to, &self.new.folder, &self.new.name, path, replaced)?;
        self.new.is_stored = true;
        Ok(())
    }
}

/// The most resources of a snapshot: it is taken in one job of a helper thread, and again under the guard.
pub const MAX_SNAPSHOT: usize = 20_000;

/// What is at a path, and beneath it.
pub type Snapshot = Vec<(String, Option<Found>)>;

/// Errors: `Denied` for what cannot be copied: links and the like, and names that are not UTF-8. `TooMany`.
pub fn snapshot(store: &Store, path: &Below) -> Result<Snapshot, Failure> {
    let found = store.find(path)?;
    let mut all = vec![(path.as_str().to_owned(), found)];
    if let Some(Found::Folder(_)) = found {
        let mut scan = Scan::begin(store, path, Reach::Whole, Symlinks::Never)?;
        loop {
            let members = scan.step()?;
            if members.is_empty() {
                break;
            }
            if all.len() + members.len() > MAX_SNAPSHOT {
                return Err(Failure::TooMany(Excess::Moved));
            }
            for member in members {
                all.push((member.path.as_str().to_owned(), store.find(&member.path)?));
            }
        }
    }
    sort::by(&mut all, |one, other| one.0.cmp(&other.0));
    Ok(all)
}

/// Resources whose properties are copied in one step.
const PROPERTIES_PER_STEP: usize = 64;

/// A copy of dead properties, which has no place until what has them is whole: a copy of files cannot fail for its
/// properties.
pub struct PropertyCopy {
    from: Store,
    base: Below,
    to: Store,
    new: LockedFolder,
    /// Resources whose properties are to be copied.
    left: VecDeque<Below>,
    bytes: u64,
}

impl PropertyCopy {
    /// For the properties of `base` and of `members` beneath it.
    pub fn begin(from: Store, base: Below, to: Store, members: &[Member]) -> Result<PropertyCopy, Failure> {
        let new = LockedFolder::new(&to, OWN_FOLDER_MODE)?;
        let members = members.iter().map(|member| member.path.clone());
        let left = [base.clone()].into_iter().chain(members).collect();
        Ok(PropertyCopy { from, base, to, new, left, bytes: 0 })
    }

    /// Errors: `NoSpace`.
    pub fn step(&mut self) -> Result<Progress, Failure> {
        for _ in 0..PROPERTIES_PER_STEP {
            let Some(path) = self.left.pop_front() else { return Ok(Progress::Done) };
            let properties = self.from.properties(&path)?;
            if properties.is_empty() {
                continue;
            }
            let text = properties.text();
            self.to.check_growth(text.len())?;
            self.new.write_properties(&below(&path, &self.base)?, text.as_bytes())?;
            self.bytes += text.len() as u64;
        }
        Ok(Progress::More)
    }

    /// Makes what could fail, before anything has its place.
    pub fn prepare(&self, guard: &Guard, path: &Below) -> Result<(), Failure> {
        if self.bytes > 0 { guard.make_properties_parent(path).map(drop) } else { Ok(()) }
    }

    /// Puts the properties in place of those of `path`.
    pub fn commit(&mut self, guard: &Guard, path: &Below) -> Result<(), Failure> {
        guard.discard_properties(path)?;
        if self.bytes > 0 {
            let (folder, name) = guard.make_properties_parent(path)?;
            calls::rename_between(&self.new.folder, &*self.new.name, &folder, &*name, RenameFlags::empty())?;
            self.new.is_stored = true;
        }
        Ok(())
    }
}

/// The part of `path` that is beneath `base`, without a slash in front.
fn relative<'p>(path: &'p SafePath<'_>, base: &Below) -> &'p str {
    path.as_str()[base.as_str().len()..].trim_start_matches('/')
}

/// As `relative`, as a path beneath `base`.
pub fn below(path: &SafePath<'_>, base: &Below) -> Result<Below, Failure> {
    SafePath::from_decoded(&["/", relative(path, base)].concat()).map_err(|_| Failure::Denied)
}

/// A folder that has no name that clients know. It is removed when it is dropped, unless it is stored.
struct LockedFolder {
    folder: Arc<OwnedFd>,
    name: String,
    /// So that another process of the server does not take it for one that a crash has left.
    _lock: OwnedFd,
    is_stored: bool,
}

impl LockedFolder {
    fn new(store: &Store, mode: Mode) -> Result<LockedFolder, Failure> {
        let folder = store.state_folder(NEW)?;
        for _ in 0..ATTEMPTS {
            let name = random_name()?;
            calls::make_folder_with(&folder, &*name, mode)?;
            let made = match calls::openat(&folder, &*name, LIST) {
                // Another process that cleans up has removed it.
                Err(Errno::NOENT) => continue,
                made => made?,
            };
            if lock_new(&folder, &name, &made)? {
                return Ok(LockedFolder { folder: folder.into(), name, _lock: made, is_stored: false });
            }
        }
        Err(Failure::Busy)
    }

    fn write_properties(&self, path: &Below, text: &[u8]) -> Result<(), Failure> {
        let mut folder = calls::openat(&self.folder, &*self.name, LIST)?;
        for name in path.segments() {
            folder = open_or_make(&folder, name)?;
        }
        write_own(&folder, OWN_PROPERTIES, text)
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        if self.is_stored {
            return;
        }
        let (folder, name) = (self.folder.clone(), std::mem::take(&mut self.name));
        let remove = move || _ = super::removal::remove(&folder, &name);
        // A worker's loop does not wait for the disk.
        helpers::run_aside(Box::new(remove));
    }
}

/// Renames `name` in `folder` to `path`, in place of what is there, which goes to the trash: a reader sees either.
pub fn put_in_place(
    store: &Store,
    folder: &OwnedFd,
    name: &str,
    path: &Below,
    replaced: Option<Found>,
) -> Result<(), Failure> {
    let (target, last) = store.folder_for(path)?;
    if let Some(Found::Other) = replaced {
        calls::unlink(&target, last)?;
    }
    if matches!(replaced, None | Some(Found::Other)) {
        calls::rename_between(folder, name, &target, last, RenameFlags::NOREPLACE)?;
        return store.sync_folder(&target);
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
    store.sync_folder(&target)
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

/// What lies beneath the root, as it counts for a quota, and the bytes of uploads that can be resumed.
pub fn count(store: &Store) -> Result<u64, Failure> {
    let root = SafePath::from_decoded("/").map_err(|_| Failure::Denied)?;
    let mut bytes = 0;
    let mut scan = Scan::begin(store, &root, Reach::Device, Symlinks::Never)?;
    loop {
        let members = scan.step()?;
        if members.is_empty() {
            break;
        }
        for member in members.iter().filter(|member| !is_own(member)) {
            match calls::statx(&store.root.fd, member.path.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if member.kind == Kind::File => bytes += cost(stat.size),
                Ok(_) => bytes += cost(0),
                // It has been removed since, or lies deeper than clients can reach.
                Err(_) => {}
            }
        }
    }
    let uploads = store.state_folder(UPLOADS)?;
    for name in names(&uploads)? {
        bytes += calls::statx(&uploads, &*name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.size);
    }
    Ok(bytes)
}

fn is_own(member: &Member) -> bool {
    member.path.segments().next().is_some_and(site::publishing::is_own_name)
}
