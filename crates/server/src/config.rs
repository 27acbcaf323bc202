//! Reads the files of a configuration for `site::config`, and those of other servers for `dialects`, which do no I/O
//! themselves.

mod disk;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dialects::{Conversion, Finding, Input, Severity};
use rustix::process::geteuid;
use site::config::{ConfigError, Configuration, Place, Source};
use site::model::Site;
use site::named_files::{FileId, FileIds, NamedFiles};

pub use self::disk::Disk;
use crate::control::ConfigSource;
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
    finished(path, site::config::read(path, &Disk::default())?)
}

/// Reads the configuration of another server. Errors and warnings have the lines of its file.
fn read_foreign(input: &Input) -> Result<Configuration, Vec<ConfigError>> {
    let disk = Disk::default();
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
    let converted = Converted { conversion: &conversion, disk: Disk::default() };
    let read = site::config::read(&conversion.file, &converted);
    let mut configuration = read.map_err(|errors| errors.into_iter().map(of_text).collect::<Vec<_>>())?;
    configuration.places.renumber(&conversion.file, |line| conversion.origin(line));
    let own = std::mem::take(&mut configuration.warnings).into_iter().map(of_text);
    configuration.warnings = warnings.into_iter().map(of_finding).chain(own).collect();
    // Other servers ignore the account if another user than root starts them.
    if !geteuid().is_root() {
        configuration.site.keep_account();
    }
    let read = disk.into_read();
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
    dialects::convert(input, &Disk::default())
}

/// The text of a conversion in place of the file, and the other files as they are.
struct Converted<'c> {
    conversion: &'c Conversion,
    disk: Disk,
}

impl Source for Converted<'_> {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        if path == self.conversion.file {
            Ok(self.conversion.text.clone().into())
        } else {
            Source::read(&self.disk, path, limit)
        }
    }

    fn timezone(&self) -> Option<String> {
        self.disk.timezone()
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.disk.resolve(path)
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Source::expand(&self.disk, pattern)
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
        configuration.hide_files(&Disk::default());
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
