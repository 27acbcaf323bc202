//! The files that a configuration names, such as those of passwords and keys, by what they are rather than by their names: a
//! link to one of them is the same file.
//!
//! Knows nothing of how they are found.

use std::fmt;

/// A file: the major and minor number of its device, and its inode (stat(2)).
pub type FileId = (u32, u32, u64);

/// Files that are never served.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NamedFiles(Box<[FileId]>);

impl NamedFiles {
    pub fn new(mut files: Vec<FileId>) -> NamedFiles {
        files.sort_unstable();
        files.dedup();
        NamedFiles(files.into())
    }

    pub fn has(&self, device: (u32, u32), inode: u64) -> bool {
        self.0.binary_search(&(device.0, device.1, inode)).is_ok()
    }
}

/// There may be thousands of them.
impl fmt::Debug for NamedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} named files", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_file_by_device_and_inode() {
        let files = NamedFiles::new(vec![(8, 2, 7), (8, 1, 5), (8, 1, 5), (8, 1, 4)]);
        for (device, inode, expected) in [
            ((8, 1), 4, true),
            ((8, 1), 5, true),
            ((8, 2), 7, true),
            ((8, 2), 5, false),
            ((9, 1), 5, false),
            ((8, 1), 6, false),
        ] {
            assert_eq!(files.has(device, inode), expected, "{device:?} {inode}");
        }
        assert!(!NamedFiles::default().has((0, 0), 0));
    }
}
