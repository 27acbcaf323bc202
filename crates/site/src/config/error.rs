//! What is wrong with a configuration: where, what, and what to do.

use std::cell::RefCell;
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

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Errors(RefCell<Vec<ConfigError>>);

impl Errors {
    /// A section that counts in several places is read for each, and its errors are reported once.
    pub fn add(&self, place: &Place, what: impl Into<String>, what_to_do: impl Into<String>) {
        let mut errors = self.0.borrow_mut();
        let error = ConfigError {
            file: place.file.to_path_buf(),
            line: place.line,
            what: what.into(),
            what_to_do: what_to_do.into(),
        };
        if errors.len() < MAX_ERRORS && !errors.contains(&error) {
            errors.push(error);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// File by file in the order of the first error in each, and there by line.
    pub fn into_sorted(self) -> Vec<ConfigError> {
        let errors = self.0.into_inner();
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
