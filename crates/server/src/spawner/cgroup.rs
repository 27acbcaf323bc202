//! Control groups of scripts (cgroups(7), version 2), one for each script that runs. A control group limits all
//! processes of a script together, and contains also those that have left the process group.
//!
//! The master makes the groups once, and they are used again for one script after another. The spawner has only
//! open descriptors of them: the kernel checks the permissions of the process that opened a file, not of the one
//! that writes. So if root made the groups, a script cannot change its own limits, although it may run as the same
//! user as the spawner.
//!
//! Knows nothing of process groups and of programs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::wait::waitpid;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, statfs};
use rustix::io::{pread, write};
use site::model::{ControlGroups, Scripts};

use crate::{clock, sys};

/// Where version 2 is mounted. A configuration may name another folder.
const MOUNT: &str = "/sys/fs/cgroup";
/// `statfs(2)`: CGROUP2_SUPER_MAGIC.
const MAGIC: u64 = 0x6367_7270;
/// The name of the group with the program's own processes, beside the groups of scripts.
const OWN: &str = "taipan";
/// The start of the name of a folder with the groups of one spawner.
const PREFIX: &str = "scripts.";
/// The most bytes that are read from a file of a group.
const SMALL: usize = 1024;
/// How often, and at what interval, `remove` tries to remove a group: killed processes take a moment to end.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// Units of 16 bytes. The child of `try_to_enter` makes one system call.
const STACK: usize = 16 * 1024 / 16;

/// One group. It is empty, or contains one script with all processes that it has started.
pub struct Cgroup {
    procs: OwnedFd,
    kill: OwnedFd,
    events: OwnedFd,
    /// `memory.events`, where the kernel counts how often the limit was reached. `None`: memory has no limit.
    memory_events: Option<OwnedFd>,
    /// The count at the last call of `was_full`.
    full: u64,
    /// Locked as long as a process has one of its groups open, so that `sweep` does not remove it.
    _folder: Arc<File>,
}

/// Why the folder that the configuration names cannot be used.
pub fn problem(scripts: &Scripts) -> Option<String> {
    let folder = scripts.cgroups.as_ref()?.folder.as_ref()?;
    is_cgroup(folder).err()
}

/// The folder in which groups are made. If it is that of the program's own group, this process moves to a group
/// beneath it: the kernel limits no groups in a folder that has processes itself (cgroups(7), "no internal
/// processes"). Errors: why no groups can be made.
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

/// Makes `count` empty groups in `folder`. Errors: why no groups can be made.
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
        remove_groups(&path);
    }
    made
}

/// Removes the groups of spawners that have ended, and kills the processes that are left in them.
pub fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let path = entry.path();
        let Ok(opened) = File::open(&path) else { continue };
        if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_groups(&path);
        }
    }
}

/// Removes the groups of a spawner, and kills the processes in them.
fn remove_groups(path: &Path) {
    _ = set(path, "cgroup.kill", "1");
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.for_each(|entry| remove(&entry.path()));
    remove(path);
}

impl Cgroup {
    fn make(path: &Path, wanted: &ControlGroups, folder: &Arc<File>) -> Result<Cgroup, String> {
        make_folder(path)?;
        if let Some(bytes) = wanted.memory {
            set(path, "memory.max", &bytes.to_string())?;
            // The kernel kills all processes of a script: with some of them missing, it would be in an unknown state.
            set(path, "memory.oom.group", "1")?;
            // The file is missing if the kernel has no swap.
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

    /// Moves the calling process into the group. Allocates nothing.
    pub fn enter(&self) -> rustix::io::Result<()> {
        write(&self.procs, b"0").map(drop)
    }

    /// Kills all processes of the group, and those that they start meanwhile.
    pub fn kill(&self) {
        // Fails only if the group was removed.
        _ = write(&self.kill, b"1");
    }

    pub fn has_processes(&self) -> bool {
        count(&self.events, "populated ") != Some(0)
    }

    /// Whether the processes of the group have reached the memory limit since the last call.
    pub fn was_full(&mut self) -> bool {
        let full = self.memory_events.as_ref().and_then(|events| count(events, "oom ")).unwrap_or(self.full);
        std::mem::replace(&mut self.full, full) != full
    }
}

/// The number in that line of the file which begins with `name`.
fn count(file: &OwnedFd, name: &str) -> Option<u64> {
    let mut bytes = [0; SMALL];
    let length = pread(file, &mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
}

/// Moves a child into the group, so that the start fails if that is not permitted, and not each script.
fn try_to_enter(group: &Cgroup) -> io::Result<()> {
    let mut entered = Ok(());
    let mut child = || entered = group.enter();
    let pid = sys::clone_until_exec(&mut vec![0; STACK], &mut child)?;
    waitpid(pid, None)?;
    Ok(entered?)
}

fn is_cgroup(folder: &Path) -> Result<(), String> {
    let found = statfs(folder).map_err(|error| {
        let why = cannot("use the control group", folder, error.into());
        format!("{why}; make it beneath /sys/fs/cgroup, or write cgroup = \"auto\"")
    })?;
    match found.f_type as u64 {
        MAGIC => Ok(()),
        _ => Err(format!("{} is not a control group (version 2)", folder.display())),
    }
}

/// Enables this controller for the groups in `folder`.
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

/// Removes the folder of a group. Waits up to 100 ms for killed processes to end.
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
