//! Reads the files of a configuration for `site::config`, which does no I/O itself.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use site::config::{ConfigError, Configuration, MAX_FILE, Source};
use site::model::Site;
use site::route::Pattern;
use taipan_http::target::SafePath;

use crate::signature;

/// Reads a configuration. Errors: every mistake in it, one line each.
pub fn load(path: &Path) -> Result<Site, Vec<ConfigError>> {
    read(path).map(|configuration| configuration.site)
}

/// Like `load`, and also returns the warnings and the position of each value.
pub fn read(path: &Path) -> Result<Configuration, Vec<ConfigError>> {
    let mut configuration = site::config::read(path, &Disk)?;
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
        configuration.hide_files();
    }
    Ok(configuration)
}

struct Disk;

impl Source for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(MAX_FILE as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    }

    fn read_bytes(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
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
        found.retain(|f| f.exists());
        found.sort();
        Ok(found)
    }
}

/// The entries of one folder that match the pattern. Hidden files match only a pattern that begins with a dot. A missing
/// folder counts as empty.
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
