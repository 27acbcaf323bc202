//! What Boa, thttpd, BusyBox and uhttpd let their scripts do: they take nothing from them.

use std::path::Path;

use site::model::DEFAULT_SPOOL;

use crate::disk::Disk;
use crate::document::Keys;
use crate::finding::Findings;

/// What becomes of a server that would serve as root.
pub const IN_PLACE_OF_ROOT: &str =
    "here it serves as nobody, and only scripts run as root; for another account, change user in [scripts]";

/// The account that the other server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    Named,
    /// It stays root, and so do its scripts.
    Root,
}

impl Account {
    pub fn of(name: Option<&str>) -> Account {
        if name.is_some() { Account::Named } else { Account::Root }
    }
}

/// What these servers, Apache and lighttpd let their scripts do: keys of `[scripts]`.
pub const ALLOWED: [&str; 2] = ["background_jobs", "new_privileges"];

/// The longest time that can be set. For servers that let a script take as long as it likes, such as the stream of a
/// camera.
pub const ENDLESS: &str = "30d";
/// The largest body that can be allowed.
pub const NO_LIMIT: i64 = 1 << 40;
/// A body with a length goes to the script while it arrives. One without is stored before, which the other servers do
/// not: their devices may have little memory for it.
const STORED_BODIES: &str = "8MiB";
/// Where it is stored on a device, which may have no `/var/tmp`.
const STORED_IN: &str = "/tmp";

/// Sets in `[limits]` and `[scripts]` that bodies have no limit, such as new firmware.
pub fn take_any_body(limits: &mut Keys, scripts: &mut Keys, spool: Option<String>) {
    limits.explained(None, "body", NO_LIMIT, "A script gets a body of any length.");
    store_bodies(scripts, spool);
}

/// Sets in `[scripts]` where bodies without a length are stored.
pub fn store_bodies(scripts: &mut Keys, spool: Option<String>) {
    scripts.set(None, "spool_bytes", STORED_BODIES);
    if let Some(spool) = spool {
        scripts.set(None, "spool", spool);
    }
}

/// The folder for them, which scripts read from. `None`: the default, which the chroot has.
pub fn spool(chroot: Option<&str>, disk: &dyn Disk, findings: &mut Findings) -> Option<String> {
    let Some(chroot) = chroot else { return Some(STORED_IN.to_owned()) };
    let [own, usual] = [STORED_IN, DEFAULT_SPOOL].map(|folder| format!("{chroot}{folder}"));
    let is_there = |folder: &str| disk.is_folder(Path::new(folder));
    if is_there(&own) {
        return Some(own);
    }
    if is_there(&usual) {
        return None;
    }
    let what = format!("the chroot has no folder {own}, so that scripts get no bodies of unknown length");
    findings.warn(None, what, "make it with the mode 1777: such requests get 503");
    Some(own)
}

/// Sets in `[scripts]` what the other server allows.
pub fn allow_as_before(scripts: &mut Keys, account: Account) {
    if account == Account::Root {
        scripts.set(None, "user", "root");
    }
    ALLOWED.into_iter().for_each(|key| scripts.set(None, key, true));
    scripts.set(None, "killed_output", "whole");
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::*;

    /// A machine with this folder alone.
    struct Folder(&'static str);

    impl Disk for Folder {
        fn absolute(&self, path: &Path) -> PathBuf {
            path.to_owned()
        }

        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn folders(&self, _: &Path) -> Vec<String> {
            Vec::new()
        }

        fn is_folder(&self, path: &Path) -> bool {
            path == Path::new(self.0)
        }

        fn is_file(&self, _: &Path) -> bool {
            false
        }
    }

    #[test]
    fn bodies_are_stored_where_the_scripts_of_a_chroot_can_read_them() {
        for (there, expected, warnings) in
            [("/srv/tmp", Some("/srv/tmp"), 0), ("/srv/var/tmp", None, 0), ("/tmp", Some("/srv/tmp"), 1)]
        {
            let mut findings = Findings::default();
            let folder = spool(Some("/srv"), &Folder(there), &mut findings);
            let found = findings.into_sorted();
            assert_eq!((folder.as_deref(), found.len()), (expected, warnings), "{there}: {found:?}");
        }
    }
}
