//! Landlock (landlock(7)): the process can read files and list folders beneath the given folders. It cannot execute any
//! file, nor write, create, remove or rename one but in the folder of `Writes`, bind a TCP port, or connect where
//! `Connects` does not allow it. Open descriptors, such as those of logs, are not affected.
//!
//! A root's name is resolved again and again, because releases are switched by replacing a link. So if a component of
//! the path is a link, the folder of its present target is readable, too: the next release will lie beside it. If the
//! root itself is a link into a folder beside it, as in `current -> releases/42/public`, the folder that contains the
//! link is readable. `/` is never made readable for this reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};

use super::{Confinement, Connects, MAX_PORTS, Reads, Writes};

/// The newest version that was tested. With an older kernel, everything that it supports is used.
const VERSION: ABI = ABI::V7;

/// The allocator of glibc reads the number of processors here.
const ALWAYS: &str = "/sys/devices/system/cpu/online";

/// Restricts the thread. Returns the version in force. Errors: why there is none, with what to do.
pub fn restrict(confinement: &Confinement<'_>) -> Result<u32, String> {
    let status = enforce(confinement).map_err(|error| match error {
        RulesetError::HandleAccesses(_) if !confinement.publishes.is_empty() => {
            "there is no Landlock for files that clients publish; it needs Linux 5.19 or later with \
             CONFIG_SECURITY_LANDLOCK"
                .to_owned()
        }
        error => format!("Landlock cannot be set up ({error})"),
    })?;
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
    let mut rules = Ruleset::default();
    if !confinement.publishes.is_empty() {
        // Without this right, nothing could be renamed from one folder to another (Linux 5.13 to 5.18).
        rules = rules.set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::Refer)?;
    }
    let rules = rules
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
        .scope(scope(confinement.connects))?
        .create()?;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let open = confinement.open.iter().map(|folder| Ok::<_, RulesetError>(PathBeneath::new(folder, reading)));
    let rules = rules.add_rules(path_beneath_rules(paths, reading))?.add_rules(open)?;
    let written = match confinement.writes {
        Writes::Beneath(folder) => vec![folder],
        Writes::Nowhere => Vec::new(),
    };
    // A file is renamed within its folder, which needs no right of its own.
    let writing = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::RemoveFile;
    let rules = rules.add_rules(path_beneath_rules(written, reading | writing))?;
    let publishing = writing | AccessFs::RemoveDir | AccessFs::Refer | AccessFs::Truncate;
    let rules = rules.add_rules(path_beneath_rules(&confinement.publishes, reading | publishing))?;
    rules.add_rules(open_ports(confinement.connects))?.restrict_self()
}

/// The ports that can be connected to all the same.
fn open_ports(connects: Connects) -> impl Iterator<Item = Result<NetPort, RulesetError>> {
    let ports = match connects {
        Connects::Ports(ports) => ports,
        Connects::Nowhere | Connects::Unix => [0; MAX_PORTS],
    };
    ports.into_iter().filter(|port| *port != 0).map(|port| Ok(NetPort::new(port, AccessNet::ConnectTcp)))
}

/// The objects outside the sandbox that cannot be reached.
fn scope(connects: Connects) -> BitFlags<Scope> {
    match connects {
        Connects::Nowhere | Connects::Ports(_) => Scope::Signal | Scope::AbstractUnixSocket,
        Connects::Unix => Scope::Signal.into(),
    }
}

/// The folders that must be readable for a root, now and after the next release. None for a missing root.
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
    fn a_link_makes_the_folder_of_its_next_target_readable_and_no_more() {
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
            // The link and its target are in one folder.
            ("app/current", &["app", "app/current"]),
            ("app/public", &["app", "app/public"]),
            // A component is a link.
            ("app/current/public", &["app/current/public", "app/releases"]),
            // Files beside the link are unrelated.
            ("srv/www", &["data", "srv/www"]),
            // Both `srv/www` and `srv/again` may be replaced.
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
