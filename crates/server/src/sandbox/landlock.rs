//! Landlock (landlock(7)): beneath the given folders files can be read and folders listed. Nothing can be
//! written, made, removed, renamed or executed anywhere, no TCP port bound, and nothing connected to that
//! may not be. Descriptors that are open, such as those of logs, are as they were.
//!
//! A root is often looked up again by its name, for releases are switched by exchanging a link. So where
//! a link stands on the way to a root, the folder of its present target is opened, too: the next release
//! is put beside the last. Where the root itself is a link into a folder beside it, as in
//! `current -> releases/42/public`, the folder that the link stands in is. `/` is never opened for this.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Confinement, Connects, Reads};

/// The newest version that was tried. Of an older kernel's, all that it has is used.
const VERSION: ABI = ABI::V7;

/// How many processors there are, for the arenas of the allocator (glibc).
const ALWAYS: &str = "/sys/devices/system/cpu/online";

/// Restricts the thread. Gives the version in force. Errors: there is none; why, and what to do.
pub fn restrict(confinement: &Confinement<'_>) -> Result<u32, String> {
    let status = enforce(confinement).map_err(|error| format!("Landlock cannot be set up ({error})"))?;
    match status.landlock {
        LandlockStatus::NotImplemented => {
            Err("there is no Landlock here; it needs Linux 5.13 or later with \
             CONFIG_SECURITY_LANDLOCK, and a container's filter that lets it through"
                .to_owned())
        }
        LandlockStatus::NotEnabled => {
            Err("Landlock is turned off; add it to the kernel's parameter `lsm=`".to_owned())
        }
        LandlockStatus::Available { .. } if status.ruleset == RulesetStatus::NotEnforced => {
            Err("Landlock does nothing here".to_owned())
        }
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi.min(VERSION) as u32),
    }
}

fn enforce(confinement: &Confinement<'_>) -> Result<RestrictionStatus, RulesetError> {
    let mut paths: BTreeSet<PathBuf> = match &confinement.reads {
        Reads::Beneath(roots) => roots.iter().flat_map(|root| folders(root)).collect(),
        Reads::Everywhere => BTreeSet::from([PathBuf::from("/")]),
    };
    paths.insert(PathBuf::from(ALWAYS));
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(ports(confinement.connects))?
        .scope(scope(confinement.connects))?
        .create()?;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let open = confinement.open.iter().map(|folder| Ok::<_, RulesetError>(PathBeneath::new(folder, reading)));
    rules.add_rules(path_beneath_rules(paths, reading))?.add_rules(open)?.restrict_self()
}

/// What cannot be done with any port.
fn ports(connects: Connects) -> BitFlags<AccessNet> {
    match connects {
        Connects::Nowhere | Connects::Unix => AccessNet::BindTcp | AccessNet::ConnectTcp,
        Connects::Anywhere => AccessNet::BindTcp.into(),
    }
}

/// What cannot be reached outside.
fn scope(connects: Connects) -> BitFlags<Scope> {
    match connects {
        Connects::Nowhere => Scope::Signal | Scope::AbstractUnixSocket,
        Connects::Unix | Connects::Anywhere => Scope::Signal.into(),
    }
}

/// What a root needs to be read, now and after the next release. Nothing, if it is not there.
fn folders(root: &Path) -> BTreeSet<PathBuf> {
    let Some(path) = std::path::absolute(root).ok().filter(|path| path.exists()) else {
        return BTreeSet::new();
    };
    let mut folders = BTreeSet::new();
    for link in path.ancestors().filter(|step| step.is_symlink()) {
        let Ok(target) = link.canonicalize() else { continue };
        let beside = link.parent().filter(|_| link == path).and_then(|folder| folder.canonicalize().ok());
        let beside = beside.filter(|folder| target.starts_with(folder) && !is_top(folder));
        let folder = beside.or_else(|| target.parent().map(Path::to_owned));
        folders.extend(folder.filter(|folder| !is_top(folder)));
    }
    folders.insert(path);
    folders
}

fn is_top(folder: &Path) -> bool {
    folder.parent().is_none()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_opens_the_folder_of_its_next_target_and_no_more() {
        let home = std::env::temp_dir().canonicalize().unwrap().join(format!("links-{}", std::process::id()));
        for folder in ["plain", "app/releases/42/public", "data/www", "srv"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        for (target, link) in [
            ("releases/42", "app/current"),
            ("releases/42/public", "app/public"),
            ("../data/www", "srv/www"),
            ("www", "srv/again"),
            ("/", "srv/top"),
            ("/bin", "srv/bin"),
            ("nowhere", "srv/dangling"),
        ] {
            symlink(target, home.join(link)).unwrap();
        }
        let cases: &[(&str, &[&str])] = &[
            ("plain", &["plain"]),
            // Root and release in one folder.
            ("app/current", &["app", "app/current"]),
            ("app/public", &["app", "app/public"]),
            // A link on the way.
            ("app/current/public", &["app/current/public", "app/releases"]),
            // What stands beside the link has nothing to do with it.
            ("srv/www", &["data", "srv/www"]),
            // `srv/www` is exchanged, and `srv/again` itself; both are links of releases.
            ("srv/again", &["data", "srv/again"]),
            ("srv/top", &["srv/top"]),
            ("srv/dangling", &[]),
            ("missing", &[]),
        ];
        for (root, expected) in cases {
            let expected: BTreeSet<PathBuf> = expected.iter().map(|path| home.join(path)).collect();
            assert_eq!(folders(&home.join(root)), expected, "{root}");
        }
        fs::remove_dir_all(&home).unwrap();
    }
}
