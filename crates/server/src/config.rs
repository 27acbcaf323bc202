//! Reads the files of a configuration for `site::config`, and those of other servers for `dialects`, which do no I/O
//! themselves.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dialects::{Conversion, Finding, Input, Severity};
use rustix::process::geteuid;
use site::config::{ConfigError, Configuration, MAX_FILE, Place, Source};
use site::model::Site;
use site::named_files::{FileId, FileIds, NamedFiles};
use site::route::Pattern;
use taipan_http::target::SafePath;

use crate::control::ConfigSource;
use crate::regular_file;
use crate::signature;

/// Folders in folders that certificates and keys may be in, and the entries of each.
const DEPTH_OF_KEYS: usize = 2;
const MAX_KEYS_IN_FOLDER: usize = 1000;

/// Reads a configuration of this program. Errors: every mistake in it, one line each.
pub fn load(path: &Path) -> Result<Site, Vec<ConfigError>> {
    read_own(path).map(|configuration| configuration.site)
}

/// Reads a configuration, with its warnings and the position of each value. Errors: as of `load`.
pub fn read(source: &ConfigSource) -> Result<Configuration, Vec<ConfigError>> {
    match source {
        ConfigSource::Own(path) => read_own(path),
        ConfigSource::Foreign(input) => read_foreign(input),
    }
}

fn read_own(path: &Path) -> Result<Configuration, Vec<ConfigError>> {
    finished(path, site::config::read(path, &Disk)?)
}

/// Reads the configuration of another server. Errors and warnings have the lines of its file.
fn read_foreign(input: &Input) -> Result<Configuration, Vec<ConfigError>> {
    let disk = RecordingDisk::default();
    let conversion = dialects::convert(input, &disk);
    let (errors, warnings): (Vec<&Finding>, Vec<&Finding>) =
        conversion.findings.iter().partition(|finding| finding.severity == Severity::Error);
    let of_finding = |finding: &Finding| ConfigError {
        file: conversion.file.clone(),
        line: finding.line,
        what: finding.what.clone(),
        what_to_do: finding.what_to_do.clone(),
    };
    if !errors.is_empty() {
        return Err(errors.into_iter().map(of_finding).collect());
    }
    let of_text = |error: ConfigError| match error.file == conversion.file {
        true => ConfigError { line: error.line.and_then(|line| conversion.origin(line)), ..error },
        false => error,
    };
    let read = site::config::read(&conversion.file, &Converted(&conversion));
    let mut configuration = read.map_err(|errors| errors.into_iter().map(of_text).collect::<Vec<_>>())?;
    configuration.places.renumber(&conversion.file, |line| conversion.origin(line));
    let own = std::mem::take(&mut configuration.warnings).into_iter().map(of_text);
    configuration.warnings = warnings.into_iter().map(of_finding).chain(own).collect();
    // Other servers ignore the account if another user than root starts them.
    if !geteuid().is_root() {
        configuration.site.keep_account();
    }
    let read = disk.read.into_inner();
    // Where there are only flags, the configuration is called as the program is, and a page may have this name.
    if !read.contains(&conversion.file) {
        configuration.places.unmark("include", &conversion.file);
    }
    for file in read {
        let place = Place { file: conversion.file.as_path().into(), line: None };
        configuration.places.mark("include", file, place);
    }
    finished(&conversion.file, configuration)
}

pub fn convert(input: &Input) -> Conversion {
    dialects::convert(input, &Disk)
}

/// The text of a conversion in place of the file, and the other files as they are.
struct Converted<'c>(&'c Conversion);

impl Source for Converted<'_> {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        if path == self.0.file { Ok(self.0.text.clone().into()) } else { Source::read(&Disk, path, limit) }
    }

    fn timezone(&self) -> Option<String> {
        Disk.timezone()
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        Disk.resolve(path)
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Disk.expand(pattern)
    }
}

fn finished(path: &Path, mut configuration: Configuration) -> Result<Configuration, Vec<ConfigError>> {
    if configuration.site.has_tokens() && !signature::IS_SUPPORTED {
        return Err(vec![ConfigError {
            file: path.to_owned(),
            line: None,
            what: "this program has been built without cryptography, so that no token could pass".to_owned(),
            what_to_do: "remove \"jwt\", or build it with the feature aws-lc".to_owned(),
        }]);
    }
    // Without a current folder, relative paths cannot be resolved at all.
    if let Ok(here) = std::env::current_dir() {
        configuration.site.anchor(&here);
        configuration.places.anchor(&here);
        mark_keys_beside(&mut configuration);
        configuration.hide_files(&Disk);
        let keys = configuration.places.values("certificate_key");
        let within = keys.flat_map(|(folder, _)| files_within(folder, DEPTH_OF_KEYS));
        let paths: Vec<PathBuf> = configuration.named_files().map(Path::to_owned).chain(within).collect();
        let files = file_ids(paths.iter().map(PathBuf::as_path));
        configuration.site.named_files = NamedFiles::new(paths, files);
    }
    Ok(configuration)
}

/// Marks the keys of certificates that stand beside them.
fn mark_keys_beside(configuration: &mut Configuration) {
    let certificates = configuration.site.hosts.iter().flat_map(|host| &host.tls.certificates);
    let beside: Vec<(PathBuf, Place)> = certificates
        .filter(|files| files.key.is_none())
        .filter_map(|files| Some((files, configuration.places.of(&["certificate"], &files.certificate)?)))
        .flat_map(|(files, place)| files.keys_beside().map(|key| (key, place.clone())))
        .filter(|(key, _)| key.is_file())
        .collect();
    beside.into_iter().for_each(|(key, place)| configuration.places.mark("certificate_key", key, place));
}

/// The files of a folder of certificates and keys. None for a file.
fn files_within(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_KEYS_IN_FOLDER);
    let below = |entry: std::fs::DirEntry| match entry.path() {
        path if depth > 1 && path.is_dir() => files_within(&path, depth - 1),
        path => vec![path],
    };
    entries.flat_map(below).collect()
}

/// The files that have these names now.
pub fn file_ids<'p>(paths: impl Iterator<Item = &'p Path>) -> FileIds {
    paths.filter_map(file_id).collect::<Vec<FileId>>().into()
}

/// `None`: there is no such file yet.
pub fn file_id(path: &Path) -> Option<FileId> {
    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()), found.ino()))
}

pub struct Disk;

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
            let has_wildcard = part.to_str().is_some_and(|p| p.contains(['*', '?']));
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
        match bytes.len() > MAX_FILE {
            true => Err(io::Error::other(format!("it has more than {} MiB", MAX_FILE >> 20))),
            false => Ok(bytes),
        }
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

/// The disk, and which files of it were read: those of a configuration are never served.
#[derive(Default)]
struct RecordingDisk {
    read: RefCell<Vec<PathBuf>>,
}

impl dialects::Disk for RecordingDisk {
    fn absolute(&self, path: &Path) -> PathBuf {
        Disk.absolute(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = dialects::Disk::read(&Disk, path)?;
        self.read.borrow_mut().push(path.to_owned());
        Ok(bytes)
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        Disk.folders(path)
    }

    fn names(&self, path: &Path) -> Vec<String> {
        Disk.names(path)
    }

    fn folders_of_any_name(&self, path: &Path) -> Vec<PathBuf> {
        Disk.folders_of_any_name(path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        Disk.real(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        Disk.is_folder(path)
    }

    fn is_file(&self, path: &Path) -> bool {
        Disk.is_file(path)
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        dialects::Disk::expand(&Disk, pattern)
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
