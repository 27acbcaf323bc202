//! The chroot of a process, and how its messages name paths and users, which it cannot look up in there.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process;

use super::Identity;

/// Makes `folder` the root of the file system and the current folder. Called before root is given up and after
/// everything outside the folder has been opened; then the process becomes `identity`, if there is one. Errors: the
/// reason, with what to do.
pub fn chroot(folder: &Path, identity: Option<&Identity>) -> Result<(), String> {
    let user = identity.map_or_else(process::geteuid, |identity| identity.credentials().user).as_raw();
    let outside = Outside { folder: folder.to_owned(), user, user_text: user_text(user) };
    let entered =
        process::chdir(folder).and_then(|()| process::chroot(".")).and_then(|()| process::chdir("/"));
    entered.map_err(|errno| cannot_enter(folder, errno))?;
    // A process has one chroot.
    _ = OUTSIDE.set(outside);
    Ok(())
}

/// What a process in a chroot cannot look up there, for its messages.
struct Outside {
    folder: PathBuf,
    user: u32,
    user_text: String,
}

static OUTSIDE: OnceLock<Outside> = OnceLock::new();

/// A path of this process, for a message: in a chroot, as it is outside.
pub fn shown(path: &Path) -> impl Display {
    fmt::from_fn(move |text| match (OUTSIDE.get(), path.strip_prefix("/")) {
        // The root of the chroot has no slash at its end.
        (Some(outside), Ok(inside)) => outside.folder.join(inside).components().as_path().display().fmt(text),
        _ => path.display().fmt(text),
    })
}

/// Why this folder can be no root of the file system. `None`: root can make it one. Changes nothing.
pub fn chroot_problem(folder: &Path) -> Option<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::empty()).err().map(|errno| cannot_enter(folder, errno))
}

fn cannot_enter(folder: &Path, errno: Errno) -> String {
    let fail = |what: &dyn Display| format!("the chroot {} cannot be entered: {what}", folder.display());
    match errno {
        Errno::NOENT => fail(&"it does not exist; create it, or remove `chroot`"),
        Errno::NOTDIR => fail(&"it is not a folder; name the folder that it is in"),
        Errno::PERM => fail(&"only root may; start as root, or remove `chroot`"),
        errno => fail(&errno),
    }
}

/// A user, for a message. Does not use the system's libraries for names, which would stay in memory.
pub fn user_text(user: u32) -> String {
    match OUTSIDE.get() {
        Some(outside) if outside.user == user => outside.user_text.clone(),
        _ => named("user", "/etc/passwd", user),
    }
}

/// A group, for a message.
pub fn group_text(group: u32) -> String {
    named("group", "/etc/group", group)
}

/// What lets this process write to a folder where that has failed with `errno`.
pub fn advice_on_writing(errno: Errno, folder: &Path) -> String {
    let folder = shown(folder);
    match errno {
        Errno::ROFS => {
            format!("if systemd has started the server, name {folder} in ReadWritePaths= of the unit")
        }
        _ => format!("{} must own {folder}, or may write to it", user_text(process::geteuid().as_raw())),
    }
}

fn named(what: &str, file: &str, number: u32) -> String {
    let entries = std::fs::read_to_string(file).unwrap_or_default();
    let name = entries.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    name.map_or_else(|| format!("{what} {number}"), |name| format!("{what} \"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chroot_errors_say_what_to_do() {
        for (folder, part) in [("/no/such/folder", "create it"), ("/proc/self/status", "it is not a folder")]
        {
            let error = chroot(Path::new(folder), None).unwrap_err();
            assert!(error.contains(folder) && error.contains(part), "{error}");
        }
    }
}
