//! The states of files, by which a change of one is noticed. Knows nothing of what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The states of files, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileStamps(BTreeMap<PathBuf, Option<Stamp>>);

/// Device, inode, size, and time of the last change in nanoseconds.
type Stamp = (u64, u64, u64, i128);

impl FileStamps {
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p Path>) -> FileStamps {
        FileStamps(paths.into_iter().map(|path| (path.to_owned(), stamp(path))).collect())
    }

    /// Whether a file is not as it was.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }

    /// The states of the same files now.
    pub fn renewed(&self) -> FileStamps {
        FileStamps::of(self.0.keys().map(PathBuf::as_path))
    }

    pub fn extend(&mut self, other: FileStamps) {
        self.0.extend(other.0);
    }

    pub fn add(&mut self, path: &Path) {
        self.0.insert(path.to_owned(), stamp(path));
    }
}

/// `None`: there is no such file.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let time = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.dev(), found.ino(), found.size(), time))
}
