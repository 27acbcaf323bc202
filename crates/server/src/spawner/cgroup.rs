//! Control groups of scripts (cgroups(7), version 2), one for each that runs: what all its processes may
//! have together, and who they are, also those that have left their process group.
//!
//! They are made once, by who has the privilege, and used again and again. The spawner has but descriptors:
//! the kernel asks who has opened them. So where root has made them, a script, which is the same user as the
//! spawner, cannot change its own limits.
//!
//! Knows nothing of process groups, and nothing of what a program is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, statfs};
use rustix::io::{pread, write};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use site::model::{ControlGroups, Scripts};

use crate::{clock, sys};

/// Where version 2 is, unless a configuration names a folder.
const MOUNT: &str = "/sys/fs/cgroup";
/// `statfs(2)`: CGROUP2_SUPER_MAGIC.
const MAGIC: u64 = 0x6367_7270;
/// The group of the program's own processes, beside those of scripts.
const OWN: &str = "taipan";
/// Of a folder with the groups of one spawner.
const PREFIX: &str = "scripts.";
/// Bytes of a file that is read here.
const SMALL: usize = 1024;
/// How often, and how far apart, it is tried to remove a group whose processes have been killed.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// Units of 16 bytes. What runs there makes one system call.
const STACK: usize = 16 * 1024 / 16;

/// One group. Nobody is in it, or one script with all that it has started.
pub struct Cgroup {
    procs: OwnedFd,
    kill: OwnedFd,
    events: OwnedFd,
    /// Where the kernel counts what happens to its memory; `None`: that has no limit.
    memory_events: Option<OwnedFd>,
    /// How often it was full before.
    full: u64,
    /// Locked for as long as anybody has one of its groups.
    _folder: Arc<File>,
}

/// What is wrong with a folder that a configuration names.
pub fn problem(scripts: &Scripts) -> Option<String> {
    let folder = scripts.cgroups.as_ref()?.folder.as_ref()?;
    is_cgroup(folder).err()
}

/// The folder that groups are made in; if it is that of the program's own group, this process moves to one
/// beneath it, for the kernel limits no group beside processes. Errors: why there can be none.
pub fn place(wanted: &ControlGroups) -> Result<PathBuf, String> {
    if let Some(folder) = &wanted.folder {
        return Ok(folder.clone());
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let folder = Path::new(MOUNT).join(own.ok_or("this system has none of version 2")?);
    is_cgroup(&folder)?;
    if folder.ends_with(OWN) {
        return Ok(folder.parent().unwrap_or(&folder).to_owned());
    }
    let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let this = std::process::id().to_string();
    if inside.lines().any(|process| process != this) {
        let folder = folder.display();
        return Err(format!(
            "{folder} has other processes in it; start the program in a unit with Delegate=yes"
        ));
    }
    let own = folder.join(OWN);
    if !own.exists() {
        make_folder(&own)?;
    }
    set(&own, "cgroup.procs", "0")?;
    Ok(folder)
}

/// So many groups in `folder`, which nobody is in. Errors: why there can be none.
pub fn make(folder: &Path, wanted: &ControlGroups, count: usize) -> Result<Vec<Cgroup>, String> {
    sweep(folder);
    let controllers = [("memory", wanted.memory), ("pids", wanted.tasks)];
    let controllers = || controllers.iter().filter(|(_, limit)| limit.is_some()).map(|(name, _)| *name);
    controllers().try_for_each(|name| enable(folder, name))?;
    let path = folder.join(format!("{PREFIX}{:x}", clock::micros()));
    make_folder(&path)?;
    let made = (|| {
        let opened = File::open(&path).map_err(|e| cannot("open", &path, e))?;
        flock(&opened, FlockOperation::LockShared).map_err(|e| cannot("lock", &path, e.into()))?;
        let opened = Arc::new(opened);
        controllers().try_for_each(|name| enable(&path, name))?;
        let groups = (0..count).map(|number| Cgroup::make(&path.join(number.to_string()), wanted, &opened));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        groups.first().map_or(Ok(()), |group| try_to_enter(group).map_err(|e| cannot("enter", &path, e)))?;
        Ok(groups)
    })();
    if made.is_err() {
        sweep(folder);
    }
    made
}

/// Removes the groups of spawners that have ended, and whoever is still in them.
pub fn sweep(folder: &Path) {
    let all = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in
        all(folder).filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    {
        let path = entry.path();
        let Ok(opened) = File::open(&path) else { continue };
        if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
            _ = set(&path, "cgroup.kill", "1");
            let folders = all(&path).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.for_each(|entry| remove(&entry.path()));
            remove(&path);
        }
    }
}

impl Cgroup {
    fn make(path: &Path, wanted: &ControlGroups, folder: &Arc<File>) -> Result<Cgroup, String> {
        make_folder(path)?;
        if let Some(bytes) = wanted.memory {
            set(path, "memory.max", &bytes.to_string())?;
            // A script of which some processes are missing does what nobody has thought of.
            set(path, "memory.oom.group", "1")?;
            // Not there where the kernel has no swap.
            _ = set(path, "memory.swap.max", "0");
        }
        if let Some(tasks) = wanted.tasks {
            set(path, "pids.max", &tasks.to_string())?;
        }
        let open = |name: &str, access| {
            let file = path.join(name);
            open(&file, access | OFlags::CLOEXEC, Mode::empty()).map_err(|e| cannot("open", &file, e.into()))
        };
        Ok(Cgroup {
            procs: open("cgroup.procs", OFlags::WRONLY)?,
            kill: open("cgroup.kill", OFlags::WRONLY)?,
            events: open("cgroup.events", OFlags::RDONLY)?,
            memory_events: wanted.memory.map(|_| open("memory.events", OFlags::RDONLY)).transpose()?,
            full: 0,
            _folder: folder.clone(),
        })
    }

    /// Puts the calling process into it. Allocates nothing.
    pub fn enter(&self) -> rustix::io::Result<()> {
        write(&self.procs, b"0").map(drop)
    }

    /// Kills all who are in it, and whoever they start meanwhile.
    pub fn kill(&self) {
        // Fails only when there is no such group any more.
        _ = write(&self.kill, b"1");
    }

    pub fn has_processes(&self) -> bool {
        count(&self.events, "populated ") != Some(0)
    }

    /// Have its processes wanted more memory than there is for them, since this was asked before?
    pub fn was_full(&mut self) -> bool {
        let full = self.memory_events.as_ref().and_then(|events| count(events, "oom ")).unwrap_or(self.full);
        std::mem::replace(&mut self.full, full) != full
    }
}

/// The number in the line of a file that begins with `name`.
fn count(file: &OwnedFd, name: &str) -> Option<u64> {
    let mut bytes = [0; SMALL];
    let length = pread(file, &mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
}

/// Nobody would be told by the first script why it cannot.
fn try_to_enter(group: &Cgroup) -> io::Result<()> {
    let mut entered = Ok(());
    let mut child = || entered = group.enter();
    let (_, process) = sys::clone_until_exec(&mut vec![0; STACK], &mut child)?;
    waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED)?;
    Ok(entered?)
}

fn is_cgroup(folder: &Path) -> Result<(), String> {
    let found = statfs(folder).map_err(|e| cannot("use", folder, e.into()))?;
    match found.f_type as u64 {
        MAGIC => Ok(()),
        _ => Err(format!("{} is not a control group (version 2)", folder.display())),
    }
}

/// Has the groups in `folder` be limited by this controller.
fn enable(folder: &Path, controller: &str) -> Result<(), String> {
    let has = |name| {
        let names = fs::read_to_string(folder.join(name)).unwrap_or_default();
        names.split_whitespace().any(|name| name == controller)
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        let folder = folder.display();
        return Err(format!("{folder} has no controller \"{controller}\"; delegate it, too"));
    }
    set(folder, "cgroup.subtree_control", &format!("+{controller}"))
}

fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir(path).map_err(|error| cannot("make", path, error))
}

fn set(folder: &Path, name: &str, value: &str) -> Result<(), String> {
    let path = folder.join(name);
    let written =
        File::options().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| cannot("write", &path, error))
}

/// Whoever was killed in it takes a moment to end.
fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
            _ => return,
        }
    }
}

fn cannot(what: &str, path: &Path, error: io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}
