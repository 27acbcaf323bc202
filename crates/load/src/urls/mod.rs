//! Where the requests of a run are known from: arguments, a file of URLs, or an access log. Each source
//! becomes a list of entries; nothing here is looked up or sent.

pub mod list;

pub mod log;

use std::collections::BTreeMap;
use std::path::Path;

/// One request, as a source names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Absolute, or from `/` on: then of the base URL's server.
    pub url: String,
    pub method: Option<String>,
    pub body: Option<Vec<u8>>,
    /// What kind of body that is, if the source says so.
    pub content_type: Option<String>,
    pub weight: u32,
    /// Seconds since 1970, of a log.
    pub at: Option<i64>,
}

/// Names and their values, for `$(NAME)`.
pub type Variables = BTreeMap<String, String>;

/// What reading a source needs from outside.
pub trait Environment {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>>;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// Files and environment of this process.
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
    pub fn get(url: String) -> Entry {
        Entry { url, method: None, body: None, content_type: None, weight: 1, at: None }
    }
}
