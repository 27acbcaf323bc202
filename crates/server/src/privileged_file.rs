//! Files that the program writes while it still is root: logs, the pid file, Unix sockets. What root opens by
//! its name, another user may have replaced by a link to any file of the system (CVE-2016-1247). So root
//! walks to a file folder by folder, by descriptor, and asks of each who can replace what is in it:
//!
//! - Root alone: links are followed, for root has made them.
//! - One other user, whom the folder belongs to: no link is followed from there on, and the file is opened
//!   with the rights of that user, who can reach nothing this way that was out of reach before.
//! - Everybody, with the sticky bit (`/tmp`): no link is followed, and only what is root's is opened.
//! - Others: the file is refused, with what to do.
//!
//! A process that is not root has no rights to lend, and opens files as the kernel does.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{self, Gid, Uid};
use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, Stat, accessat, fchmod, fchown, fstat, fstatfs, ftruncate, open,
    openat, readlinkat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{geteuid, getgroups};
use rustix::thread::set_thread_groups;

use crate::privilege;

/// As `path_resolution(7)`: more links than this are a loop.
const MAX_LINKS: usize = 40;
/// How often a file is looked for and made in turns, where another process removes and makes it meanwhile.
const ATTEMPTS: usize = 8;
/// To stand in, and to open from.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The mode of logs that are made: for their owner, and their folder's group to read.
const LOG_MODE: Mode = Mode::from_raw_mode(0o640);
const PID_FILE_MODE: Mode = Mode::from_raw_mode(0o644);
/// `st_uid` of a user who has no number here, and a group without rights (user_namespaces(7)).
const OVERFLOW: u32 = 65534;

/// Where a file is or is to be: its name, and its folder, opened.
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
    /// The kernel does not.
    Errno(Errno),
    /// Another user could have it replaced. A sentence that says who, where, and what to do.
    Unsafe(String),
}

/// Who can replace what is in a folder, and the folder itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trust {
    rights: Rights,
    entries: Entries,
}

/// With whose rights a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Those of the process.
    Own,
    /// Those of the user whom a folder on the way belongs to, without any group.
    Of(u32),
}

/// Who but the owner of a folder may put entries into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entries {
    OfOwner,
    /// Everybody may, but each entry stays its owner's (sticky).
    Shared,
    /// A group may, and may replace entries.
    OfGroup(u32),
}

/// Why a log at `path` could not be written if the program started now; `None`: it could. Makes nothing.
pub fn log_problem(path: &Path) -> Option<String> {
    let found = Location::of(path).and_then(|location| location.probe());
    found.err().map(|why| cannot_open_log(path, &why))
}

/// As `log_problem`, of a pid file.
pub fn pid_file_problem(path: &Path) -> Option<String> {
    let found = Location::of_root(path).and_then(|location| location.probe());
    found.err().map(|why| cannot_write_pid_file(path, &why))
}

/// Opens a log to append to it, and makes it where there is none. Errors: why not, and what to do.
pub fn open_log(path: &Path) -> Result<File, String> {
    let opened = Location::of(path).and_then(|location| location.open(OFlags::APPEND, LOG_MODE));
    opened.map(File::from).map_err(|why| cannot_open_log(path, &why))
}

/// Writes the number of this process. Errors: why not, and what to do.
pub fn write_pid_file(path: &Path) -> Result<(), String> {
    let write = || -> Result<(), Refusal> {
        let file = Location::of_root(path)?.open(OFlags::empty(), PID_FILE_MODE)?;
        ftruncate(&file, 0)?;
        let written = writeln!(File::from(file), "{}", std::process::id());
        Ok(written.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?)
    };
    write().map_err(|why| cannot_write_pid_file(path, &why))
}

/// Removes a pid file or a socket, where it still is where root may remove it.
pub fn remove(path: &Path) {
    // What cannot be removed stays behind, and is replaced by the next one of this name.
    _ = Location::of(path).map(|location| location.remove());
}

fn cannot_open_log(path: &Path, why: &Refusal) -> String {
    format!("cannot open the log {}: {why}", path.display())
}

fn cannot_write_pid_file(path: &Path, why: &Refusal) -> String {
    format!("cannot write the pid file {}: {why}", path.display())
}

impl Location {
    /// Where `path` leads. Errors: users could replace what is there, or a folder is missing.
    pub fn of(path: &Path) -> Result<Location, Refusal> {
        if geteuid().is_root() { walk(path) } else { Location::by_kernel(path) }
    }

    /// As `of`, where root alone can replace the file: what is in it is trusted by others.
    fn of_root(path: &Path) -> Result<Location, Refusal> {
        let location = Location::of(path)?;
        match location.trust.rights {
            Rights::Own => Ok(location),
            Rights::Of(user) => Err(Refusal::Unsafe(format!(
                "{} can replace it, and with it the number that signals are sent to; \
                 name a file in a folder of root's, as /run is",
                privilege::user_text(user)
            ))),
        }
    }

    fn by_kernel(path: &Path) -> Result<Location, Refusal> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = retry_on_intr(|| open(parent.unwrap_or(Path::new(".")), FOLDER, Mode::empty()))?;
        let trust = Trust { rights: Rights::Own, entries: Entries::OfOwner };
        Ok(Location { folder, name, path: path.to_owned(), trust, links: OFlags::empty() })
    }

    /// Opens the file for writing; makes it, with this mode and the folder's group, where there is none.
    fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Refusal> {
        // A FIFO that no process reads is refused: waiting for a reader would be waiting for ever.
        let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | self.links;
        let make = if self.links.is_empty() { OFlags::CREATE } else { OFlags::CREATE | OFlags::EXCL };
        for _ in 0..ATTEMPTS {
            // Without O_CREAT first: the kernel forbids it for files of others (fs.protected_regular).
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

    /// A file that root has made gets the mode it is to have, whatever the umask is, and the group that reads
    /// what is in its folder.
    fn give_away(&self, file: OwnedFd, mode: Mode) -> Result<OwnedFd, Refusal> {
        if geteuid().is_root() {
            fchmod(&file, mode)?;
            let group = fstat(&self.folder)?.st_gid;
            // File systems without owners have no groups, either.
            _ = fchown(&file, None, Some(rustix::fs::Gid::from_raw(group)));
        }
        Ok(file)
    }

    /// Is what was opened what it was to be? In a folder of root's it is.
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

    /// What the kernel says, and with whose rights it was asked.
    pub fn refused(&self, errno: Errno) -> Refusal {
        match (errno, self.trust.rights) {
            (Errno::ACCESS | Errno::PERM, Rights::Of(user)) => {
                let user = privilege::user_text(user);
                Refusal::Unsafe(format!(
                    "{user} has no permission, whose rights are taken since the folder is not root's; \
                     make the folder root's, or give {user} what is in it"
                ))
            }
            _ => Refusal::Errno(errno),
        }
    }

    fn is_a_link(&self) -> Refusal {
        Refusal::Unsafe(format!(
            "it is a link, and {} can have made it; remove it, or make the folder root's",
            self.trust.others()
        ))
    }

    /// Could it be opened? Leaves everything as it is.
    fn probe(&self) -> Result<(), Refusal> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.with_rights(|| openat(&self.folder, &self.name, flags | self.links, Mode::empty())) {
            Ok(file) => self.inspect(&fstat(&file)?),
            Err(Errno::LOOP) if !self.links.is_empty() => Err(self.is_a_link()),
            Err(Errno::NOENT) => self.could_make(),
            // There is no reader yet; there may be one then.
            Err(Errno::NXIO) => Ok(()),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    fn could_make(&self) -> Result<(), Refusal> {
        accessat(&self.folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        // What was asked above is asked for the user of the process (faccessat2(2)).
        let mode = Mode::from_raw_mode(fstat(&self.folder)?.st_mode);
        match self.trust.rights {
            Rights::Of(_) if !mode.contains(Mode::WUSR | Mode::XUSR) => Err(self.refused(Errno::ACCESS)),
            Rights::Of(_) | Rights::Own => Ok(()),
        }
    }

    pub fn remove(&self) -> Result<(), Errno> {
        self.with_rights(|| unlinkat(&self.folder, &self.name, AtFlags::empty()))
    }

    /// What is there now, a link for itself.
    pub fn kind(&self) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Does something with the rights that the folder asks for: those of root only where root alone can
    /// replace what is there.
    pub fn with_rights<T>(&self, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self.trust.rights {
            Rights::Own => act(),
            Rights::Of(user) => {
                let _until_then = Lent::to(user)?;
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

    /// Who but root can replace something.
    fn others(&self) -> String {
        match (self.rights, self.entries) {
            (Rights::Of(user), _) => privilege::user_text(user),
            (Rights::Own, Entries::OfGroup(group)) => privilege::group_text(group),
            (Rights::Own, _) => "every user".to_owned(),
        }
    }

    /// Of the folder `here`, in one that is trusted as this says.
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
                     make {here} root's, or name another folder"
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

    /// A file is in this folder itself, which is `here`.
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

/// In a user namespace, root of outside has no number: its folders seem to be those of the overflow user.
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
            // A link to what is open already, such as /dev/stdout in the end: by its text it leads nowhere.
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
                    "{} is a link, and {} can have made it; name the folder that it leads to",
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

/// Where the link of this name leads; `None`: it is none, or is not there.
fn link(folder: &OwnedFd, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
    match retry_on_intr(|| readlinkat(folder, name, Vec::new())) {
        Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Is it `/proc/self/fd`, or another folder of links that are more than their text?
fn is_descriptor(folder: &OwnedFd) -> Result<bool, Errno> {
    const PROC: u64 = 0x9fa0;
    Ok(fstatfs(folder)?.f_type as u64 == PROC)
}

/// The components of a path, last one first; `.` and the leading slash are dropped.
fn parts(path: &Path) -> Vec<OsString> {
    let keep = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(keep).collect()
}

/// The rights of another user for files, until it is dropped (setfsuid(2)): no capability counts, and no
/// group. For the calling thread.
struct Lent {
    groups: Vec<rustix::process::Gid>,
    group: Gid,
    user: Uid,
}

impl Lent {
    fn to(user: u32) -> Result<Lent, Errno> {
        let groups = getgroups()?;
        set_thread_groups(&[])?;
        let group = unistd::setfsgid(Gid::from_raw(OVERFLOW));
        let lent = Lent { groups, group, user: unistd::setfsuid(Uid::from_raw(user)) };
        // It tells of no error; a number that is no user's changes nothing, and says what it is.
        match unistd::setfsuid(Uid::from_raw(u32::MAX)).as_raw() {
            now if now == user => Ok(lent),
            _ => Err(Errno::PERM),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        unistd::setfsuid(self.user);
        unistd::setfsgid(self.group);
        // The same call has succeeded with fewer of them.
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
            Refusal::Errno(Errno::NXIO) => out.write_str("it is a FIFO that no process reads"),
            Refusal::Errno(errno) => write!(out, "{errno}"),
            Refusal::Unsafe(why) => out.write_str(why),
        }
    }
}
