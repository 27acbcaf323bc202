//! Files that the program writes while it still is root: logs, the pid file, Unix sockets. Another user may have
//! replaced such a file by a link to any file of the system (CVE-2016-1247). So root walks to a file folder by folder,
//! by descriptor. What it does next depends on which users can replace entries of the folder:
//!
//! - Only root: links are followed, because root has made them.
//! - One other user, the folder's owner: no link is followed from there on. The file is opened with the rights of that
//!   user, so the user gains no access to other files.
//! - Every user, with the sticky bit (`/tmp`): no link is followed, and only a file that root owns is opened.
//! - Others: the file is rejected, and the error says what to do.
//!
//! A process that is not root opens files by their path.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{self, Gid, Uid};
use rustix::fs::{
    Access, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, accessat, fchmod, fchown, flock,
    fstat, fstatfs, open, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, pread, retry_on_intr, write};
use rustix::process::{geteuid, getgroups};
use rustix::thread::set_thread_groups;

use crate::process::privilege;

mod pid_file;

pub use pid_file::{Holder, PidFile};

/// More links than this are a loop (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// How often opening and creating a file are tried in turns, while another process removes and creates it.
const ATTEMPTS: usize = 8;
/// For folders that files are opened from.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The mode of new logs: the owner writes them, and the folder's group reads them.
const LOG_MODE: Mode = Mode::from_raw_mode(0o640);
/// The `st_uid` of users without a number in this namespace, and a group without rights (user_namespaces(7)).
const OVERFLOW: u32 = 65534;

/// The place of a file that may not exist yet: its name, and its open folder.
#[derive(Debug)]
pub struct Location {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    trust: Trust,
    /// `NOFOLLOW`, unless the kernel may follow links.
    links: OFlags,
}

/// Why a file is not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel's error.
    Errno(Errno),
    /// Another user can replace the file. The sentence names the user and the folder, and says what to do.
    Unsafe(String),
}

/// Which users can replace a folder, and its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trust {
    rights: Rights,
    entries: Entries,
}

/// The rights that a file is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Those of the process.
    Own,
    /// Those of the user that owns a folder on the way, without any group.
    Of(u32),
}

/// Which users can create entries in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entries {
    /// Only the folder's owner.
    OfOwner,
    /// Every user, but only the owner of an entry can replace it (the sticky bit).
    Shared,
    /// Also the members of a group, who can replace entries.
    OfGroup(u32),
}

/// Why a log could not be written, with what to do.
#[derive(Debug, PartialEq, Eq)]
pub enum LogProblem {
    Refused(String),
    /// It is a FIFO without a reader; there may be one when the program starts.
    Unread(String),
}

/// Why a log at `path` could not be written if the program started now. `None`: it could. Creates nothing.
pub fn log_problem(path: &Path) -> Option<LogProblem> {
    let found = Location::of(path).and_then(|location| location.probe());
    let why = found.err()?;
    let text = cannot_open_log(path, &why);
    Some(if why == Refusal::Errno(Errno::NXIO) {
        LogProblem::Unread(text)
    } else {
        LogProblem::Refused(text)
    })
}

/// Like `log_problem`, for a pid file.
pub fn pid_file_problem(path: &Path) -> Option<String> {
    let found = Location::of_root(path).and_then(|location| location.probe());
    found.err().map(|why| cannot_write_pid_file(path, &why))
}

/// Opens a log to append to it, and creates it if it is missing. Errors: the reason, with what to do.
pub fn open_log(path: &Path) -> Result<File, String> {
    let opened = Location::of(path).and_then(|location| {
        let file = location.open(OFlags::APPEND, LOG_MODE)?;
        location.end_cut_line(&file);
        Ok(file)
    });
    opened.map(File::from).map_err(|why| cannot_open_log(path, &why))
}

/// Removes a socket.
pub fn remove(path: &Path) {
    // A file that cannot be removed stays, and the next start replaces it.
    _ = Location::of(path).map(|location| location.remove());
}

fn cannot_open_log(path: &Path, why: &Refusal) -> String {
    format!("cannot open the log {}: {why}", path.display())
}

/// The folder that a file is in. `.` for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_write_pid_file(path: &Path, why: &Refusal) -> String {
    format!("cannot write the pid file {}: {why}", path.display())
}

impl Location {
    /// The place that `path` leads to. Errors: other users can replace the file, or a folder is missing.
    pub fn of(path: &Path) -> Result<Location, Refusal> {
        if geteuid().is_root() { walk(path) } else { Location::by_kernel(path) }
    }

    /// Like `of`, but rejects a file that other users can replace, because other programs trust its content.
    fn of_root(path: &Path) -> Result<Location, Refusal> {
        let location = Location::of(path)?;
        match location.trust.rights {
            Rights::Own => Ok(location),
            Rights::Of(user) => Err(Refusal::Unsafe(format!(
                "{} can replace it, and with it the process that signals are sent to; \
                 name a file in a folder that only root can change, such as /run",
                privilege::user_text(user)
            ))),
        }
    }

    fn by_kernel(path: &Path) -> Result<Location, Refusal> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let folder = retry_on_intr(|| open(folder_of(path), FOLDER, Mode::empty()))?;
        let trust = Trust { rights: Rights::Own, entries: Entries::OfOwner };
        Ok(Location { folder, name, path: path.to_owned(), trust, links: OFlags::empty() })
    }

    /// Opens the file for writing. A missing file is created with this mode and the folder's group.
    fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Refusal> {
        // NONBLOCK rejects a FIFO that no process reads, instead of waiting for a reader.
        let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | self.links;
        let make = if self.links.is_empty() { OFlags::CREATE } else { OFlags::CREATE | OFlags::EXCL };
        for _ in 0..ATTEMPTS {
            // First without O_CREAT, which the kernel forbids for files of other users (fs.protected_regular).
            let file = match self.with_rights(|| openat(&self.folder, &self.name, flags, Mode::empty())) {
                Err(Errno::NOENT) => {
                    match self.with_rights(|| openat(&self.folder, &self.name, flags | make, mode)) {
                        Err(Errno::EXIST) => continue,
                        Err(errno) => return Err(self.refused(errno)),
                        Ok(made) => self.give_away(made, mode)?,
                    }
                }
                Err(Errno::LOOP) if !self.links.is_empty() => return Err(self.is_a_link()),
                Err(errno) => return Err(self.refused(errno)),
                Ok(found) => found,
            };
            self.inspect(&fstat(&file)?)?;
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
            return Ok(file);
        }
        Err(Errno::EXIST.into())
    }

    /// Ends a line of a log that a full disk or a power failure has cut, so that the next one does not go on behind it.
    /// Not while another process writes to it: that one may be within a line.
    fn end_cut_line(&self, log: &OwnedFd) {
        let Ok(found) = fstat(log) else { return };
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_size == 0 || flock(log, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let mut last = [b'\n'];
        let read = self.open_entry(&self.name).map(|file| pread(&file, &mut last, found.st_size as u64 - 1));
        if matches!(read, Ok(Ok(1))) && last != *b"\n" {
            // The next start tries it again.
            _ = write(log, b"\n");
        }
        _ = flock(log, FlockOperation::Unlock);
    }

    /// Gives a file that root has created its mode, whatever the umask is, and the folder's group.
    fn give_away(&self, file: OwnedFd, mode: Mode) -> Result<OwnedFd, Refusal> {
        if geteuid().is_root() {
            fchmod(&file, mode)?;
            let group = fstat(&self.folder)?.st_gid;
            // Fails on file systems without owners.
            _ = fchown(&file, None, Some(rustix::fs::Gid::from_raw(group)));
        }
        Ok(file)
    }

    /// Rejects an opened file that another user could have put there.
    fn inspect(&self, found: &Stat) -> Result<(), Refusal> {
        let path = self.path.display();
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        if self.trust.is_roots_alone() || !geteuid().is_root() {
            return Ok(());
        }
        let owner = match self.trust.rights {
            Rights::Own => 0,
            Rights::Of(user) => user,
        };
        let refuse = |what: &str| {
            Err(Refusal::Unsafe(format!(
                "it {what}, in a folder where other users can put files; remove {path}"
            )))
        };
        match found {
            found if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                refuse("is not a file")
            }
            found if found.st_uid != owner && found.st_uid != 0 => {
                refuse(&format!("belongs to {}", privilege::user_text(found.st_uid)))
            }
            found if found.st_nlink != 1 => refuse("has another name as well (a hard link)"),
            _ => Ok(()),
        }
    }

    /// The kernel's error, and with which user's rights it came about.
    pub fn refused(&self, errno: Errno) -> Refusal {
        match (errno, self.trust.rights) {
            (Errno::ACCESS | Errno::PERM, Rights::Of(user)) => {
                let user = privilege::user_text(user);
                Refusal::Unsafe(format!(
                    "{user} has no permission, and files in a folder of {user} are opened with the rights of {user}; \
                     make root the folder's owner, or make {user} the owner of the file"
                ))
            }
            _ => Refusal::Errno(errno),
        }
    }

    fn is_a_link(&self) -> Refusal {
        Refusal::Unsafe(format!(
            "it is a link, and {} can have made it; remove it, or make root the folder's owner",
            self.trust.others()
        ))
    }

    /// Could the file be opened? Changes nothing.
    fn probe(&self) -> Result<(), Refusal> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.with_rights(|| openat(&self.folder, &self.name, flags | self.links, Mode::empty())) {
            Ok(file) => self.inspect(&fstat(&file)?),
            Err(Errno::LOOP) if !self.links.is_empty() => Err(self.is_a_link()),
            Err(Errno::NOENT) => self.could_make(),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    /// Could the user make a file in the folder? Changes nothing.
    pub fn could_make(&self) -> Result<(), Refusal> {
        accessat(&self.folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        // The call above checks the user of the process, not the one whose rights are used (faccessat2(2)).
        let mode = Mode::from_raw_mode(fstat(&self.folder)?.st_mode);
        match self.trust.rights {
            Rights::Of(_) if !mode.contains(Mode::WUSR | Mode::XUSR) => Err(self.refused(Errno::ACCESS)),
            Rights::Of(_) | Rights::Own => Ok(()),
        }
    }

    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The regular files in the folder whose names are UTF-8, with their sizes.
    pub fn entries(&self) -> Result<Vec<(String, u64)>, Errno> {
        let folder =
            openat(&self.folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut files = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let Ok(name) = entry?.file_name().to_owned().into_string() else { continue };
            let found = statat(&self.folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(found) = found
                && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            {
                files.push((name, found.st_size as u64));
            }
        }
        Ok(files)
    }

    /// Device and number of an entry of the folder.
    pub fn inode(&self, name: &OsStr) -> Result<(u64, u64), Errno> {
        let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_dev, found.st_ino))
    }

    pub fn rename_entry(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        self.with_rights(|| renameat(&self.folder, from, &self.folder, to))
    }

    pub fn remove_entry(&self, name: &OsStr) -> Result<(), Errno> {
        self.with_rights(|| unlinkat(&self.folder, name, AtFlags::empty()))
    }

    /// Opens an entry of the folder for reading.
    pub fn open_entry(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.with_rights(|| openat(&self.folder, name, flags, Mode::empty()))
    }

    /// Makes a file in the folder, with the mode and the group of a log.
    pub fn create_entry(&self, name: &OsStr) -> Result<OwnedFd, Refusal> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = self.with_rights(|| openat(&self.folder, name, flags, LOG_MODE));
        self.give_away(made.map_err(|errno| self.refused(errno))?, LOG_MODE)
    }

    pub fn remove(&self) -> Result<(), Errno> {
        self.with_rights(|| unlinkat(&self.folder, &self.name, AtFlags::empty()))
    }

    /// The type of the present file; links are not followed.
    pub fn kind(&self) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Runs `act` with the rights that fit the folder: root's rights only if no other user can replace the file.
    pub fn with_rights<T>(&self, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self.trust.rights {
            Rights::Own => act(),
            Rights::Of(user) => {
                let _restored_on_drop = UserRights::assume(user)?;
                act()
            }
        }
    }
}

impl Trust {
    const ROOT: Trust = Trust { rights: Rights::Own, entries: Entries::OfOwner };

    fn is_roots_alone(&self) -> bool {
        *self == Trust::ROOT
    }

    /// The users, other than root, that can replace the file.
    fn others(&self) -> String {
        match (self.rights, self.entries) {
            (Rights::Of(user), _) => privilege::user_text(user),
            (Rights::Own, Entries::OfGroup(group)) => privilege::group_text(group),
            (Rights::Own, _) => "every user".to_owned(),
        }
    }

    /// The trust in the folder `here`, whose parent has the trust `self`.
    fn of_folder(&self, here: &Path, found: &Stat) -> Result<Trust, Refusal> {
        let (here, mode) = (here.display(), Mode::from_raw_mode(found.st_mode));
        let owner = if is_root(found.st_uid) { 0 } else { found.st_uid };
        let rights = match (self.rights, owner) {
            (rights, 0) => rights,
            (Rights::Own, user) if self.entries == Entries::OfOwner => Rights::Of(user),
            (Rights::Of(before), user) if before == user => self.rights,
            (_, user) => {
                let (user, others) = (privilege::user_text(user), self.others());
                return Err(Refusal::Unsafe(format!(
                    "{here} belongs to {user}, in a folder where {others} can replace it; \
                     make root the owner of {here}, or name another folder"
                )));
            }
        };
        let is_sticky = mode.contains(Mode::SVTX);
        let entries = match found.st_gid {
            _ if mode.contains(Mode::WOTH) && !is_sticky => {
                return Err(Refusal::Unsafe(format!(
                    "every user can replace what is in {here}; run `chmod o-w {here}`, or name another folder"
                )));
            }
            _ if mode.contains(Mode::WOTH) => Entries::Shared,
            0 => Entries::OfOwner,
            _ if mode.contains(Mode::WGRP) && is_sticky => Entries::Shared,
            group if mode.contains(Mode::WGRP) => Entries::OfGroup(group),
            _ => Entries::OfOwner,
        };
        Ok(Trust { rights, entries })
    }

    /// Rejects the folder `here` for files if a group can replace its entries.
    fn for_files(self, here: &Path) -> Result<Trust, Refusal> {
        match self.entries {
            Entries::OfGroup(group) => {
                let (here, group) = (here.display(), privilege::group_text(group));
                Err(Refusal::Unsafe(format!(
                    "{group} can replace what is in {here}; run `chmod g-w {here}`, or name another folder"
                )))
            }
            Entries::OfOwner | Entries::Shared => Ok(self),
        }
    }
}

/// In a user namespace, the root of the outer one has no number, and its folders seem to belong to the overflow user.
fn is_root(user: u32) -> bool {
    user == 0 || (user == OVERFLOW && !has_all_users())
}

fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Walks to the folder of `path`, as root.
fn walk(path: &Path) -> Result<Location, Refusal> {
    let whole = std::path::absolute(path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOENT))?;
    let mut here = PathBuf::from("/");
    let mut folder = retry_on_intr(|| open("/", FOLDER, Mode::empty()))?;
    let mut trust = Trust::ROOT.of_folder(&here, &fstat(&folder)?)?;
    let mut ahead = parts(&whole);
    let mut links = 0;
    let mut follow = |ahead: &mut Vec<OsString>, target: &Path| {
        links += 1;
        ahead.extend(parts(target));
        if links > MAX_LINKS { Err(Errno::LOOP) } else { Ok(()) }
    };
    while let Some(name) = ahead.pop() {
        let is_last = ahead.is_empty();
        let target = match is_descriptor(&folder)? {
            // A link to an open file, such as the last one of /dev/stdout. Its text is no path.
            true if is_last => {
                return Ok(Location { folder, name, path: path.to_owned(), trust, links: OFlags::empty() });
            }
            _ => link(&folder, &name)?,
        };
        match target {
            Some(target) if trust.is_roots_alone() => {
                follow(&mut ahead, &target)?;
                if target.is_absolute() {
                    here = PathBuf::from("/");
                    folder = retry_on_intr(|| open("/", FOLDER, Mode::empty()))?;
                    trust = Trust::ROOT.of_folder(&here, &fstat(&folder)?)?;
                }
            }
            Some(_) if !is_last => {
                return Err(Refusal::Unsafe(format!(
                    "{} is a link, and {} can have made it; name the folder that the link points to",
                    here.join(&name).display(),
                    trust.others()
                )));
            }
            _ if is_last => {
                let trust = trust.for_files(&here)?;
                return Ok(Location { folder, name, path: path.to_owned(), trust, links: OFlags::NOFOLLOW });
            }
            _ => {
                folder = retry_on_intr(|| openat(&folder, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty()))?;
                here.push(&name);
                trust = trust.of_folder(&here, &fstat(&folder)?)?;
            }
        }
    }
    Err(Errno::ISDIR.into())
}

/// The target of a link. `None`: it is no link, or is missing.
fn link(folder: &OwnedFd, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
    match retry_on_intr(|| readlinkat(folder, name, Vec::new())) {
        Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether this is `/proc/self/fd`, or another folder in /proc, whose links are not defined by their text.
fn is_descriptor(folder: &OwnedFd) -> Result<bool, Errno> {
    const PROC: u64 = 0x9fa0;
    Ok(fstatfs(folder)?.f_type as u64 == PROC)
}

/// The components of a path, the last one first, without `.` and the leading slash.
fn parts(path: &Path) -> Vec<OsString> {
    let keep = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(keep).collect()
}

/// While this value lives, the calling thread opens files with the rights of another user (setfsuid(2)), without
/// capabilities and groups.
struct UserRights {
    groups: Vec<rustix::process::Gid>,
    group: Gid,
    user: Uid,
}

impl UserRights {
    fn assume(user: u32) -> Result<UserRights, Errno> {
        let groups = getgroups()?;
        set_thread_groups(&[])?;
        let group = unistd::setfsgid(Gid::from_raw(OVERFLOW));
        let rights = UserRights { groups, group, user: unistd::setfsuid(Uid::from_raw(user)) };
        // setfsuid returns no error. A call with an invalid number changes nothing and returns the present user.
        match unistd::setfsuid(Uid::from_raw(u32::MAX)).as_raw() {
            now if now == user => Ok(rights),
            _ => Err(Errno::PERM),
        }
    }
}

impl Drop for UserRights {
    fn drop(&mut self) {
        unistd::setfsuid(self.user);
        unistd::setfsgid(self.group);
        // Cannot fail: the same call has succeeded before.
        _ = set_thread_groups(&self.groups);
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Errno(errno)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Errno(Errno::NOENT) => out.write_str("its folder does not exist; create it first"),
            Refusal::Errno(Errno::ACCESS) => {
                out.write_str("no permission; change the owner or the mode of the file, or of its folder")
            }
            Refusal::Errno(Errno::NXIO) => {
                out.write_str("it is a FIFO that no process reads; start its reader first")
            }
            Refusal::Errno(Errno::ISDIR) => out.write_str("it is a folder; name a file in it"),
            Refusal::Errno(errno @ Errno::MFILE) => {
                write!(out, "{errno}; raise `ulimit -Hn` (LimitNOFILE)")
            }
            Refusal::Errno(errno) => write!(out, "{errno}"),
            Refusal::Unsafe(why) => out.write_str(why),
        }
    }
}
