//! The files that a configuration names, such as those of passwords and keys, by what they are rather than by their
//! names: a link to one of them is the same file.
//!
//! Knows nothing of how they are found.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file: the major and minor number of its device, and its inode (stat(2)).
pub type FileId = (u32, u32, u64);

/// Files that are never served.
#[derive(Clone, Default)]
pub struct NamedFiles {
    paths: Arc<[PathBuf]>,
    files: FileIds,
}

impl NamedFiles {
    /// `files`: those that `paths` name now.
    pub fn new(paths: Vec<PathBuf>, files: FileIds) -> NamedFiles {
        NamedFiles { paths: paths.into(), files }
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    pub const fn files(&self) -> &FileIds {
        &self.files
    }

    /// The paths name these files now: a file may be replaced by another one of the same name.
    pub fn replace(&mut self, files: FileIds) {
        self.files = files;
    }
}

/// A set of files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FileIds {
    /// In order, each once.
    sorted: Arc<[FileId]>,
}

impl FileIds {
    pub fn has(&self, device: (u32, u32), inode: u64) -> bool {
        self.sorted.binary_search(&(device.0, device.1, inode)).is_ok()
    }

    pub fn as_slice(&self) -> &[FileId] {
        &self.sorted
    }
}

impl From<Vec<FileId>> for FileIds {
    fn from(mut files: Vec<FileId>) -> FileIds {
        sort::by(&mut files, Ord::cmp);
        files.dedup();
        FileIds { sorted: files.into() }
    }
}

/// There may be thousands of them.
impl fmt::Debug for NamedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} named files", self.paths.len())
    }
}

impl fmt::Debug for FileIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files", self.sorted.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_file_by_device_and_inode() {
        let files = FileIds::from(vec![(8, 2, 7), (8, 1, 5), (8, 1, 5), (8, 1, 4)]);
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
        assert!(!FileIds::default().has((0, 0), 0));
    }

    #[test]
    fn compares_sets_and_not_orders() {
        let files = FileIds::from(vec![(8, 1, 5), (8, 1, 4)]);
        assert!(files == FileIds::from(vec![(8, 1, 4), (8, 1, 5), (8, 1, 4)]));
        assert!(files != FileIds::from(vec![(8, 1, 4), (8, 1, 6)]));
    }
}
