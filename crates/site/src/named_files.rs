//! The files that a configuration names, such as those of passwords and keys, by what they are rather than by their names: a
//! link to one of them is the same file.
//!
//! Knows nothing of how they are found.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// A file: the major and minor number of its device, and its inode (stat(2)).
pub type FileId = (u32, u32, u64);

/// Files that are never served. A file may be replaced by another one of the same name.
#[derive(Default)]
pub struct NamedFiles {
    paths: Box<[PathBuf]>,
    /// In order, each once.
    files: RwLock<Box<[FileId]>>,
}

impl NamedFiles {
    /// `files`: those that `paths` name now.
    pub fn new(paths: Vec<PathBuf>, files: Vec<FileId>) -> NamedFiles {
        NamedFiles { paths: paths.into(), files: RwLock::new(in_order(files)) }
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    pub fn has(&self, device: (u32, u32), inode: u64) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.binary_search(&(device.0, device.1, inode)).is_ok()
    }

    /// Whether these are the files.
    pub fn are(&self, files: &[FileId]) -> bool {
        *self.files.read().unwrap_or_else(PoisonError::into_inner) == in_order(files.to_vec())
    }

    /// From now on, the paths name these files.
    pub fn replace(&self, files: Vec<FileId>) {
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = in_order(files);
    }
}

fn in_order(mut files: Vec<FileId>) -> Box<[FileId]> {
    files.sort_unstable();
    files.dedup();
    files.into()
}

/// There may be thousands of them.
impl fmt::Debug for NamedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} named files", self.paths.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_file_by_device_and_inode() {
        let files = NamedFiles::new(Vec::new(), vec![(8, 2, 7), (8, 1, 5), (8, 1, 5), (8, 1, 4)]);
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

    #[test]
    fn knows_whether_other_files_have_the_names() {
        let files = NamedFiles::new(Vec::new(), vec![(8, 1, 5), (8, 1, 4)]);
        assert!(files.are(&[(8, 1, 4), (8, 1, 5), (8, 1, 4)]));
        assert!(!files.are(&[(8, 1, 4), (8, 1, 6)]));
        files.replace(vec![(8, 1, 6), (8, 1, 4)]);
        assert!(files.are(&[(8, 1, 4), (8, 1, 6)]));
        assert!(files.has((8, 1), 6) && !files.has((8, 1), 5));
    }
}
