//! What a reader asks the disk for: files that the configuration names, and the folders whose names are part of it.

use std::io;
use std::path::{Path, PathBuf};

pub trait Disk {
    /// A path from the folder that the program was started in.
    fn absolute(&self, path: &Path) -> PathBuf;

    /// The folder that a file is in, in which the relative paths of most configurations begin.
    fn folder_of(&self, file: &Path) -> PathBuf {
        self.absolute(file).parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// Errors: it cannot be read, or has more than 1 MiB.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names of the entries of a folder that are folders, in ascending order. Empty if there is no such folder.
    fn folders(&self, path: &Path) -> Vec<String>;

    /// The names of all entries of a folder, in ascending order. Empty if there is no such folder.
    fn names(&self, path: &Path) -> Vec<String> {
        self.folders(path)
    }

    /// The folders of a folder, also those whose names are not UTF-8.
    fn folders_of_any_name(&self, path: &Path) -> Vec<PathBuf> {
        self.folders(path).into_iter().map(|name| path.join(name)).collect()
    }

    /// Where it is without links; the path itself, where that cannot be found out.
    fn real(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn is_folder(&self, path: &Path) -> bool;

    fn is_file(&self, path: &Path) -> bool;

    /// The files of a pattern with `*` and `?` in its last part or before, in ascending order. Errors: a folder cannot
    /// be read.
    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(if self.is_file(pattern) { vec![pattern.to_owned()] } else { Vec::new() })
    }
}
