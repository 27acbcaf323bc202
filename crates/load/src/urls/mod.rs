//! The sources of a run's requests: arguments, a file of URLs, or an access log. Each source becomes a list of
//! entries. Nothing here resolves hosts or sends.

pub mod list;

pub mod log;

pub mod pattern;

use std::collections::BTreeMap;
use std::path::Path;

/// One request of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// An absolute URL, or a path on the server of the base URL.
    pub url: String,
    pub method: Option<String>,
    pub body: Option<Vec<u8>>,
    /// The media type of the body, if the source has one.
    pub content_type: Option<String>,
    pub weight: u32,
    /// Seconds since 1970, from a log.
    pub at: Option<i64>,
}

/// The values of `$(NAME)`.
pub type Variables = BTreeMap<String, String>;

/// Files and environment variables, which tests replace.
pub trait Environment {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>>;
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The files and the environment of this process.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Environment for System {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl Entry {
    /// GET without a body.
    pub fn get(url: String) -> Entry {
        Entry { url, method: None, body: None, content_type: None, weight: 1, at: None }
    }
}
