//! Control groups, on systems where a test can make some.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{TIMEOUT, wait_until};

/// A test's own folder of control groups (version 2), delegated as by an administrator.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// With these controllers. `None`: this system does not allow it, and the reason is printed.
    pub fn new(name: &str, controllers: &[&str]) -> Option<ControlGroup> {
        let made = make(name, controllers);
        made.map_err(|why| println!("NOT SHOWN HERE, for want of a control group to write to: {why}")).ok()
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folders in it, without the kernel's files.
    pub fn folders(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(&self.0).unwrap().flatten().map(|entry| entry.path());
        all.filter(|path| path.is_dir()).collect()
    }
}

fn make(name: &str, controllers: &[&str]) -> Result<ControlGroup, String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).ok_or("there is no version 2")?;
    let path = Path::new(mount[1]).join(format!("taipan-test-{}-{name}", std::process::id()));
    fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let group = ControlGroup(path);
    let has = fs::read_to_string(group.path().join("cgroup.controllers")).unwrap_or_default();
    match controllers.iter().find(|controller| !has.split_whitespace().any(|name| name == **controller)) {
        None => Ok(group),
        Some(missing) => Err(format!("{} has no controller \"{missing}\"", mount[1])),
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_until(TIMEOUT, || fs::remove_dir(&self.0).is_ok());
    }
}
