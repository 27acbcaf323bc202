//! Errors of a configuration: where, what, and what to do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Errors that are reported of one configuration.
pub const MAX_ERRORS: usize = 100;

/// Prints as `site.toml:14: unknown key "lisen"; did you mean "listen"?`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// The first line is 1. `None`: the whole file.
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

/// A line of a file, or the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<Path>,
    pub line: Option<u32>,
}

impl Place {
    /// The folder in which relative paths at this place begin.
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

/// A path for an error message, escaped so that it stays on one line.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// The places of values that only the running system can check: paths, accounts, addresses.
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<(&'static str, PathBuf), Place>);

impl Places {
    /// The place where one of `keys` has this value. A path is joined with the folder of its file.
    pub fn of(&self, keys: &[&'static str], value: impl AsRef<Path>) -> Option<&Place> {
        keys.iter().find_map(|key| self.0.get(&(*key, value.as_ref().to_owned())))
    }

    /// Records that one of the values of `key` is this.
    pub fn mark(&mut self, key: &'static str, value: impl AsRef<Path>, place: Place) {
        self.0.entry((key, value.as_ref().to_owned())).or_insert(place);
    }

    /// Forgets one of the values of `key`.
    pub fn unmark(&mut self, key: &'static str, value: &Path) {
        self.0.remove(&(key, value.to_owned()));
    }

    pub fn values(&self, key: &str) -> impl Iterator<Item = (&Path, &Place)> {
        let all = self.0.iter().filter(move |((own, _), _)| *own == key);
        all.map(|((_, path), place)| (path.as_path(), place))
    }

    /// Gives the places within `file` other lines.
    pub fn renumber(&mut self, file: &Path, line: impl Fn(u32) -> Option<u32>) {
        for place in self.0.values_mut().filter(|place| *place.file == *file) {
            place.line = place.line.and_then(&line);
        }
    }

    /// Makes relative paths absolute.
    pub fn anchor(&mut self, folder: &Path) {
        let anchored = self.0.iter().map(|((key, path), place)| ((*key, folder.join(path)), place.clone()));
        let anchored: Vec<_> = anchored.collect();
        self.0.extend(anchored);
    }
}

/// Collects errors, warnings and places.
#[derive(Debug, Default)]
pub struct Errors {
    errors: RefCell<Vec<ConfigError>>,
    warnings: RefCell<Vec<ConfigError>>,
    places: RefCell<Places>,
}

impl Errors {
    /// Adds an error once, even if its section is read several times.
    pub fn add(&self, place: &Place, what: impl Into<String>, what_to_do: impl Into<String>) {
        add_once(&self.errors, place, what.into(), what_to_do.into());
    }

    /// Adds a warning, which does not prevent serving.
    pub fn warn(&self, place: &Place, what: impl Into<String>, what_to_do: impl Into<String>) {
        add_once(&self.warnings, place, what.into(), what_to_do.into());
    }

    /// Records the place of a value, if it is the first.
    pub fn mark(&self, key: &'static str, value: impl AsRef<Path>, place: &Place) {
        self.places.borrow_mut().mark(key, value, place.clone());
    }

    /// The recorded place of a value.
    pub fn place_of(&self, keys: &[&'static str], value: impl AsRef<Path>) -> Option<Place> {
        self.places.borrow().of(keys, value).cloned()
    }

    /// Whether an error of this line was added.
    pub fn is_reported(&self, place: &Place) -> bool {
        let of_line = |error: &ConfigError| *error.file == *place.file && error.line == place.line;
        self.errors.borrow().iter().any(of_line)
    }

    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub fn count(&self) -> usize {
        self.errors.borrow().len()
    }

    pub fn into_warnings_and_places(self) -> (Vec<ConfigError>, Places) {
        (self.warnings.into_inner(), self.places.into_inner())
    }

    /// File by file in the order of the first error in each, and there by line.
    pub fn into_sorted(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        let files: Vec<PathBuf> = errors.iter().map(|error| error.file.clone()).collect();
        sort::by_key(&mut errors, |error| (files.iter().position(|file| *file == error.file), error.line));
        errors
    }
}

fn add_once(found: &RefCell<Vec<ConfigError>>, place: &Place, what: String, what_to_do: String) {
    let mut found = found.borrow_mut();
    let error = ConfigError { file: place.file.to_path_buf(), line: place.line, what, what_to_do };
    if found.len() < MAX_ERRORS && !found.contains(&error) {
        found.push(error);
    }
}
