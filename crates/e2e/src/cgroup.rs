//! Control groups. Where a test can make none, or none with limits, `tests/run` leaves tests with `own_control_group` or
//! `limited_control_group` in their names out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{TIMEOUT, wait_until};

/// A test's own folder of control groups (version 2), delegated as by an administrator.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// With these controllers.
    pub fn new(name: &str, controllers: &[&str]) -> ControlGroup {
        let mounts = fs::read_to_string("/proc/mounts").expect("it can be read");
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).expect("version 2 is mounted");
        let path = Path::new(mount[1]).join(format!("taipan-test-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a group can be made");
        let group = ControlGroup(path);
        let has = fs::read_to_string(group.path().join("cgroup.controllers")).unwrap_or_default();
        let missing = controllers.iter().find(|wanted| !has.split_whitespace().any(|name| name == **wanted));
        assert_eq!(missing, None, "a controller of {}", mount[1]);
        group
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

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_until(TIMEOUT, || fs::remove_dir(&self.0).is_ok());
    }
}
