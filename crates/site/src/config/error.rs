//! What is wrong with a configuration: where, what, and what to do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Errors reported of one configuration; more are left out.
pub const MAX_ERRORS: usize = 100;

/// Prints as `site.toml:14: unknown key "lisen"; did you mean "listen"?`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// Counted from 1. `None`: the file as a whole.
    pub line: Option<u32>,
    pub what: String,
    pub what_to_do: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}; {}", self.what, self.what_to_do)
    }
}

impl std::error::Error for ConfigError {}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<Path>,
    pub line: Option<u32>,
}

impl Place {
    /// The folder that relative paths at this place begin in.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.file))?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// A path within an error: on one line, whatever is in it.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// Where those values of a configuration stand of which only the machine knows whether they are good: paths,
/// accounts, addresses.
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<(&'static str, PathBuf), Place>);

impl Places {
    /// Where one of `keys` has this value; paths as they are joined with the folder of their file.
    pub fn of(&self, keys: &[&'static str], value: impl AsRef<Path>) -> Option<&Place> {
        keys.iter().find_map(|key| self.0.get(&(*key, value.as_ref().to_owned())))
    }

    /// Makes relative paths absolute.
    pub fn anchor(&mut self, folder: &Path) {
        let anchored = self.0.iter().map(|((key, path), place)| ((*key, folder.join(path)), place.clone()));
        let anchored: Vec<_> = anchored.collect();
        self.0.extend(anchored);
    }
}

/// The errors found so far, and what else is found on the way.
#[derive(Debug, Default)]
pub struct Errors {
    errors: RefCell<Vec<ConfigError>>,
    /// What may be meant, and probably is not.
    warnings: RefCell<Vec<ConfigError>>,
    places: RefCell<Places>,
}

impl Errors {
    /// A section that counts in several places is read for each, and its errors are reported once.
    pub fn add(&self, place: &Place, what: impl Into<String>, what_to_do: impl Into<String>) {
        keep(&self.errors, place, what.into(), what_to_do.into());
    }

    /// As `add`, of what does not keep the configuration from being served.
    pub fn warn(&self, place: &Place, what: impl Into<String>, what_to_do: impl Into<String>) {
        keep(&self.warnings, place, what.into(), what_to_do.into());
    }

    /// Remembers where a value stands; the first place counts.
    pub fn mark(&self, key: &'static str, value: impl AsRef<Path>, place: &Place) {
        let mut places = self.places.borrow_mut();
        places.0.entry((key, value.as_ref().to_owned())).or_insert_with(|| place.clone());
    }

    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// The warnings, and the places of all values.
    pub fn into_found(self) -> (Vec<ConfigError>, Places) {
        (self.warnings.into_inner(), self.places.into_inner())
    }

    /// File by file in the order of the first error in each, and there by line.
    pub fn into_sorted(self) -> Vec<ConfigError> {
        let errors = self.errors.into_inner();
        let mut files: Vec<&PathBuf> = Vec::new();
        for error in &errors {
            if !files.contains(&&error.file) {
                files.push(&error.file);
            }
        }
        let rank = |error: &ConfigError| files.iter().position(|file| **file == error.file);
        let mut ranked: Vec<_> = errors.iter().map(|error| ((rank(error), error.line), error)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, error)| error.clone()).collect()
    }
}

fn keep(found: &RefCell<Vec<ConfigError>>, place: &Place, what: String, what_to_do: String) {
    let mut found = found.borrow_mut();
    let error = ConfigError { file: place.file.to_path_buf(), line: place.line, what, what_to_do };
    if found.len() < MAX_ERRORS && !found.contains(&error) {
        found.push(error);
    }
}
