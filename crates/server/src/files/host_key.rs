//! Whose files the entries of a cache are. Knows nothing of hosts.

use std::hash::{Hash, Hasher};

/// A host of the site, and the folder of a name in it: with `$host` in its root, each name has files of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostKey {
    host: u32,
    /// 0: the host has the same files for every name.
    pub folder: u32,
}

impl HostKey {
    /// The index of the host.
    pub fn host(self) -> usize {
        self.host as usize
    }

    pub fn with_folder(self, folder: u32) -> HostKey {
        HostKey { folder, ..self }
    }
}

impl From<usize> for HostKey {
    fn from(host: usize) -> HostKey {
        HostKey { host: host as u32, folder: 0 }
    }
}

/// As one number, which costs less than two.
impl Hash for HostKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.folder) << 32 | u64::from(self.host));
    }
}
