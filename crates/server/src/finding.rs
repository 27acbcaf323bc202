//! What is wrong with a configuration and its files, as `taipan check` shows it and a start meets it. Plain data.

use std::path::{Path, PathBuf};

/// A problem that a start would meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub severity: Severity,
    /// The keys that cause it. With the value, they determine its position in the file.
    pub keys: &'static [&'static str],
    pub value: PathBuf,
    /// With what to do.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program would not start, or could not serve.
    Error,
    /// The problem may be absent when another user starts the program, or later; or only clients notice it.
    Warning,
}

/// What becomes of a site with a file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is not served.
    Rejected,
    /// It is served without the file: a process that has served it is replaced, and what else it serves goes on.
    LeftOut,
}

impl Finding {
    pub fn error(keys: &'static [&'static str], value: impl AsRef<Path>, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, keys, value: value.as_ref().to_owned(), text: text.into() }
    }

    pub fn warning(
        keys: &'static [&'static str],
        value: impl AsRef<Path>,
        text: impl Into<String>,
    ) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(keys, value, text) }
    }
}
