//! The folder of certificates by ACME, which only the user of the master can read: for each certificate a file with the
//! chain and the key, one with the state, and one with a lock; and the key of the account. Several servers can share
//! it.
//!
//! Every file is replaced as a whole, so that a crash, a full disk or another server leaves the old one or the new one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, fsync, ftruncate, linkat, open, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::schedule::Time;
use crate::log;

/// Bytes of a file.
pub const MAX_FILE: u64 = 60 * 1024;
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// Bytes of a lock.
const MAX_LOCK: u64 = 256;
/// No lock lasts so long: one that does was written by a wrong clock.
const LONGEST_LOCK: Time = 3600;
/// A server that has a lock prolongs it several times within this time. If it does not, it has ended, whatever the clock
/// says that it has written the end by.
const LEFT_LOCK: Duration = Duration::from_secs(60);
/// The beginning of a temporary file's name. The folder may be one with other hidden files, such as a home.
const TEMPORARY: &str = ".taipan-new.";
/// A temporary file that is older was left by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// What to do for a look at the folder of another user.
pub const AS_OWNER: &str = "run this as root, or as the user who starts the server";

/// A folder that the environment names. A relative one counts for none (XDG Base Directory Specification).
pub fn folder_named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Creates the folder if nothing is there. Errors: with one thing to do.
pub fn make_folder(path: &Path) -> Result<(), String> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        // A file, which `Storage::open` rejects.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(|e| {
            format!("cannot create the folder of certificates, {}: {e}; make it", path.display())
        }),
    }
}

/// A folder, which is opened for each access: it may be moved, restored or mounted again meanwhile.
pub struct Storage {
    path: PathBuf,
    readers: Readers,
    /// Tells this process apart from others, also those in other containers.
    owner: String,
    /// The locks of other servers, by name: what they say, and since when.
    seen: RefCell<HashMap<String, (String, Instant)>>,
}

/// Who may have access to the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    User,
    All,
}

/// What a lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Taken,
    /// Another server has it, at most until this time.
    Busy(Time),
}

impl Storage {
    /// Opens a folder that is to be written to. Errors: with what to do.
    pub fn open(path: &Path) -> Result<Storage, String> {
        let fail = |why| format!("cannot open the folder of certificates, {}: {why}", path.display());
        let storage = Storage::existing(path).map_err(fail)?;
        storage.remove_what_was_left();
        Ok(storage)
    }

    /// Removes the temporary files of processes that were killed.
    fn remove_what_was_left(&self) {
        let is_left = |entry: &fs::DirEntry| {
            let written = entry.metadata().and_then(|found| found.modified()).ok();
            let age = written.and_then(|written| written.elapsed().ok());
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
                && age.is_some_and(|age| age > LEFT_BEHIND)
        };
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten().filter(is_left) {
            // One that stays does no harm.
            _ = fs::remove_file(entry.path());
        }
    }

    /// A folder that exists. Errors: why it cannot be opened, or other users have access to it; with what to do.
    pub fn existing(path: &Path) -> Result<Storage, String> {
        Storage::of(path, Readers::User)
    }

    /// As `existing`, for a reader alone: root looks at what the server of another user has.
    pub fn of_any_user(path: &Path) -> Result<Storage, String> {
        Storage::of(path, Readers::All)
    }

    fn of(path: &Path, readers: Readers) -> Result<Storage, String> {
        let random = RandomState::new().build_hasher().finish();
        let owner = format!("{}.{}.{random:016x}", hostname(), std::process::id());
        let storage = Storage { path: path.to_owned(), readers, owner, seen: RefCell::default() };
        storage.open_folder().map(|_| storage)
    }

    /// Errors: as of `existing`.
    fn open_folder(&self) -> Result<OwnedFd, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&self.path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => "it is gone; put it there again".to_owned(),
            Errno::NOTDIR => "it is no folder; move it away".to_owned(),
            Errno::ACCESS => match self.readers {
                Readers::User => format!("{errno}; {}", self.chown()),
                Readers::All => format!("{errno}; {AS_OWNER}"),
            },
            errno => errno.to_string(),
        })?;
        if self.readers == Readers::All {
            return Ok(folder);
        }
        let found = fstat(&folder).map_err(|e| e.to_string())?;
        if found.st_uid != geteuid().as_raw() {
            return Err(format!("it belongs to another user; {}", self.chown()));
        }
        if found.st_mode & 0o077 != 0 {
            return Err(format!("other users have access to it; chmod 700 {}", self.path.display()));
        }
        Ok(folder)
    }

    /// What to do about a folder of another user, who has its files, too.
    fn chown(&self) -> String {
        format!("run: chown -R {} {}", geteuid().as_raw(), self.path.display())
    }

    /// For an access to a file.
    fn folder(&self) -> io::Result<OwnedFd> {
        self.open_folder().map_err(|why| io::Error::other(format!("the folder cannot be used: {why}")))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `None`: there is no such file.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        // A named pipe would otherwise be waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match openat(self.folder()?, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(io::Error::other("it is a symbolic link")),
            opened => File::from(opened?),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too long"));
        }
        Ok(Some(bytes))
    }

    /// Replaces the file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder()?;
        let temporary = self.write_temporary(&folder, bytes)?;
        let renamed = renameat(&folder, &temporary, &folder, name);
        finish(&folder, &temporary, renamed)
    }

    /// Creates the file. `false`: there is one already, which stays.
    pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let folder = self.folder()?;
        let temporary = self.write_temporary(&folder, bytes)?;
        let linked = linkat(&folder, &temporary, &folder, name, AtFlags::empty());
        let created = linked.is_ok();
        match linked {
            Err(Errno::EXIST) => finish(&folder, &temporary, Ok(()))?,
            linked => finish(&folder, &temporary, linked)?,
        }
        Ok(created)
    }

    /// Removes a file that exists.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.folder()?, name, AtFlags::empty())?)
    }

    /// There is one at a time.
    fn write_temporary(&self, folder: &OwnedFd, bytes: &[u8]) -> io::Result<String> {
        let temporary = format!("{TEMPORARY}{}", self.owner);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = File::from(openat(folder, &temporary, flags, PRIVATE)?);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if written.is_err() {
            _ = unlinkat(folder, &temporary, AtFlags::empty());
        }
        written.map(|()| temporary)
    }

    /// Takes the lock until `until`, or prolongs it. A lock that was not released ends at its time, or when its owner has
    /// not prolonged it for long.
    pub fn lock(&self, name: &str, now: Time, until: Time) -> io::Result<Lock> {
        let Some((file, text)) = self.open_lock(name, OFlags::CREATE)? else {
            return Ok(Lock::Busy(now + 1));
        };
        if let Some((other, end)) = parse_lock(&text)
            && other != self.owner
            && end > now
            && end <= now + LONGEST_LOCK
        {
            if !self.is_left(name, &text, Instant::now()) {
                return Ok(Lock::Busy(end));
            }
            log::warn(format_args!(
                "the lock {}/{name} of {other} ends in {} s, but was not prolonged for {} s, and is ignored; \
                 compare the clocks of the servers that share this folder",
                self.path.display(),
                end - now,
                LEFT_LOCK.as_secs()
            ));
        }
        self.seen.borrow_mut().remove(name);
        self.write_lock(file, until)?;
        Ok(Lock::Taken)
    }

    /// Releases a lock that this process has. If that fails, the lock ends at its time.
    pub fn unlock(&self, name: &str) {
        if let Ok(Some((file, text))) = self.open_lock(name, OFlags::empty())
            && parse_lock(&text).is_some_and(|(owner, _)| owner == self.owner)
        {
            _ = self.write_lock(file, 0);
        }
    }

    /// The file of the lock, which this process alone has until it closes it, and what it says. `None`: another one has
    /// it.
    fn open_lock(&self, name: &str, create: OFlags) -> io::Result<Option<(File, String)>> {
        let flags = OFlags::RDWR | create | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(openat(self.folder()?, name, flags, PRIVATE)?);
        // So that only one server at a time compares and writes. The lock itself is the content, because the kernel's
        // lock would not last if the connection to a network file system breaks. It ends with `file`.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            // A file system without locks.
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut text = String::new();
        // An unreadable lock is none.
        _ = (&file).take(MAX_LOCK).read_to_string(&mut text);
        Ok(Some((file, text)))
    }

    fn write_lock(&self, mut file: File, until: Time) -> io::Result<()> {
        ftruncate(&file, 0)?;
        io::Seek::rewind(&mut file)?;
        writeln!(file, "{} {until}", self.owner)?;
        file.sync_all()
    }

    /// Whether another server's lock has said the same for so long that this server has ended.
    fn is_left(&self, name: &str, text: &str, now: Instant) -> bool {
        let mut seen = self.seen.borrow_mut();
        let (same, since) = seen.entry(name.to_owned()).or_insert_with(|| (text.to_owned(), now));
        if same != text {
            (*same, *since) = (text.to_owned(), now);
        }
        now.saturating_duration_since(*since) >= LEFT_LOCK
    }
}

/// Removes the temporary file of a change.
fn finish(folder: &OwnedFd, temporary: &str, done: Result<(), Errno>) -> io::Result<()> {
    // After a rename, there is none.
    _ = unlinkat(folder, temporary, AtFlags::empty());
    done?;
    Ok(fsync(folder)?)
}

/// The owner and the end.
fn parse_lock(text: &str) -> Option<(&str, Time)> {
    let (owner, end) = text.trim_end().split_once(' ')?;
    Some((owner, end.parse().ok()?))
}

/// Only characters that a file name can have.
fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("storage-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        path
    }

    fn files(path: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn storage(path: &Path) -> Storage {
        make_folder(path).unwrap();
        Storage::open(path).unwrap()
    }

    #[test]
    fn files_are_private_and_replaced_as_a_whole() {
        let path = folder("files").join("a/b");
        let storage = storage(&path);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(storage.read("x").unwrap(), None);
        storage.write("x", b"one").unwrap();
        storage.write("x", b"two").unwrap();
        assert_eq!(storage.read("x").unwrap().as_deref(), Some(&b"two"[..]));
        assert!(!storage.create("x", b"three").unwrap());
        assert!(storage.create("y", b"new").unwrap());
        assert_eq!(storage.read("x").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!((mode(&path), mode(&path.join("x"))), (0o700, 0o600));
        assert_eq!(files(&path), ["x", "y"], "no temporary file is left");
        fs::write(path.join("z"), vec![0; MAX_FILE as usize + 1]).unwrap();
        assert!(storage.read("z").is_err());
        fs::remove_dir_all(folder("files")).ok();
    }

    #[test]
    fn of_hidden_files_only_those_of_killed_processes_are_removed() {
        let path = folder("hidden");
        let storage = storage(&path);
        storage.write("a.example.pem", b"pem").unwrap();
        let temporary = storage.write_temporary(&storage.folder().unwrap(), b"half").unwrap();
        let old = std::time::SystemTime::now() - 2 * LEFT_BEHIND;
        for name in [".profile", ".a.example.pem.swp", "notes", &temporary] {
            fs::write(path.join(name), "").unwrap();
            File::open(path.join(name)).unwrap().set_modified(old).unwrap();
        }
        fs::write(path.join(".taipan-new.other.1.0"), "").unwrap();
        Storage::open(&path).unwrap();
        let expected = [".a.example.pem.swp", ".profile", ".taipan-new.other.1.0", "a.example.pem", "notes"];
        assert_eq!(files(&path), expected);
        let longest = format!("{}.pem", ["x".repeat(63), "y".repeat(63), "z".repeat(63)].join("."));
        storage.write(&longest, b"pem").unwrap();
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_folder_that_is_moved_away_and_put_back_is_used_again() {
        let path = folder("moved");
        let away = folder("away");
        let storage = storage(&path);
        storage.write("x", b"one").unwrap();
        fs::rename(&path, &away).unwrap();
        for error in
            [storage.write("x", b"two").err(), storage.read("x").err(), storage.lock("l", 1, 2).err()]
        {
            let why = error.expect("there is no folder").to_string();
            assert!(why.contains("it is gone; put it there again"), "{why}");
        }
        fs::rename(&away, &path).unwrap();
        assert_eq!(storage.read("x").unwrap().as_deref(), Some(&b"one"[..]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(storage.write("x", b"two").is_err());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_read_is_rejected() {
        let path = folder("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let why = Storage::open(&path).err().unwrap();
        assert!(why.contains("chmod 700"), "{why}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Storage::open(&path).is_ok());
        let file = path.join("file");
        fs::write(&file, "").unwrap();
        let why = make_folder(&file).and_then(|()| Storage::open(&file)).err().unwrap();
        assert!(why.contains("it is no folder; move it away"), "{why}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_lock_is_busy_for_others_until_its_time() {
        let path = folder("lock");
        let storage = storage(&path);
        assert_eq!(storage.lock("l", 100, 160).unwrap(), Lock::Taken);
        assert_eq!(storage.lock("l", 110, 170).unwrap(), Lock::Taken, "its owner prolongs it");
        let by_other = |end| fs::write(path.join("l"), format!("other/1 {end}\n")).unwrap();
        by_other(200);
        assert_eq!(storage.lock("l", 150, 210).unwrap(), Lock::Busy(200));
        storage.unlock("l");
        assert_eq!(storage.lock("l", 150, 210).unwrap(), Lock::Busy(200), "only its owner releases it");
        by_other(1_800_000_000);
        storage.unlock("l");
        let now = 1_799_999_990;
        assert_eq!(
            storage.lock("l", now, now + 30).unwrap(),
            Lock::Busy(1_800_000_000),
            "also with a real time"
        );
        by_other(200);
        assert_eq!(storage.lock("l", 200, 260).unwrap(), Lock::Taken, "it has expired");
        by_other(u64::MAX);
        assert_eq!(storage.lock("l", 150, 210).unwrap(), Lock::Taken, "a wrong clock does not lock for ever");
        storage.unlock("l");
        for rubbish in ["", "x", "other/1 x", "\u{fffd}", &"x".repeat(1000)] {
            fs::write(path.join("l"), rubbish).unwrap();
            assert_eq!(storage.lock("l", 150, 210).unwrap(), Lock::Taken, "{rubbish}");
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_lock_that_its_owner_does_not_prolong_is_left_whatever_the_clocks_say() {
        let path = folder("left");
        let storage = storage(&path);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rows = [
            (0, "other/1 3000", false),
            (59, "other/1 3000", false),
            // Prolonged.
            (60, "other/1 3010", false),
            (119, "other/1 3010", false),
            (120, "other/1 3010", true),
            (121, "other/2 3010", false),
        ];
        for (seconds, text, expected) in rows {
            assert_eq!(storage.is_left("l", text, at(seconds)), expected, "{seconds}: {text}");
        }
        assert!(!storage.is_left("m", "other/1 3010", at(300)), "another lock");
        fs::remove_dir_all(path).unwrap();
    }
}
