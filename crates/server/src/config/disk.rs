//! The disk, as the readers of configurations see it.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use site::config::{MAX_FILE, Source};
use site::route::{Pattern, is_glob};
use taipan_http::target::SafePath;

use crate::regular_file;

/// The disk, and which files of it a reader of another server's configuration has read.
#[derive(Default)]
pub struct Disk {
    read: RefCell<Vec<PathBuf>>,
}

impl Disk {
    /// They are never served: they are those of a configuration.
    pub fn into_read(self) -> Vec<PathBuf> {
        self.read.into_inner()
    }
}

impl Source for Disk {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        // The shell gives a pipe such a name: taipan check -c <(a program).
        let is_open = ["/dev/fd", "/dev/stdin", "/proc"].iter().any(|folder| path.starts_with(folder));
        let file = if is_open { std::fs::File::open(path)? } else { regular_file::open(path)? };
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn timezone(&self) -> Option<String> {
        std::env::var("TZ").ok().filter(|zone| !zone.is_empty())
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        let resolved = path.ancestors().find_map(|folder| {
            let rest = path.strip_prefix(folder).ok()?;
            Some(folder.canonicalize().ok()?.join(rest).components().collect())
        });
        resolved.unwrap_or_else(|| path.to_owned())
    }

    /// Expands the pattern component by component.
    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            let part = part.as_os_str();
            let has_wildcard = part.to_str().is_some_and(is_glob);
            if !has_wildcard {
                found.iter_mut().for_each(|f| f.push(part));
                continue;
            }
            let mut next = Vec::new();
            for folder in &found {
                next.extend(matching(folder, &part.to_string_lossy())?);
            }
            found = next;
        }
        // A link to nothing stays: its reader reports it.
        found.retain(|file| file.exists() || file.is_symlink());
        found.sort();
        Ok(found)
    }
}

impl dialects::Disk for Disk {
    fn absolute(&self, path: &Path) -> PathBuf {
        // Without a current folder, a relative path stays relative.
        let here = std::env::current_dir().unwrap_or_default();
        here.join(path.strip_prefix(".").unwrap_or(path)).components().collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // A pipe or a device does not keep the reader waiting.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_FILE {
            return Err(io::Error::other(format!("it has more than {} MiB", MAX_FILE >> 20)));
        }
        self.read.borrow_mut().push(path.to_owned());
        Ok(bytes)
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Source::expand(self, pattern)
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        let mut names = dialects::Disk::names(self, path);
        names.retain(|name| path.join(name).is_dir());
        names
    }

    fn names(&self, path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn folders_of_any_name(&self, path: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|entry| entry.is_dir()).collect();
        folders.sort();
        folders
    }

    fn real(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
}

/// The entries of one folder that match the pattern. Hidden files match only a pattern that begins with a dot. A
/// missing folder counts as empty.
fn matching(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let at = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match std::fs::read_dir(at) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if (!text.starts_with('.') || pattern.starts_with('.')) && matches(pattern, &text) {
            found.push(folder.join(name));
        }
    }
    Ok(found)
}

/// Matches as a route's pattern without a slash matches the last segment of a path.
fn matches(pattern: &str, name: &str) -> bool {
    let path = SafePath::parse("/").ok().and_then(|root| root.join(name));
    let pattern = Pattern::parse(pattern).ok();
    path.zip(pattern).is_some_and(|(path, pattern)| pattern.matches(&path))
}
