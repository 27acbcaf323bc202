//! The disk side of configuration: reads the files that `site::config` asks for.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use site::config::{ConfigError, Configuration, MAX_FILE, Source};
use site::model::Site;
use site::route::Pattern;
use taipan_http::target::SafePath;

/// Reads a configuration completely. Errors: all that is wrong with it, one line each.
pub fn load(path: &Path) -> Result<Site, Vec<ConfigError>> {
    read(path).map(|configuration| configuration.site)
}

/// As `load`, with warnings, and where everything stands.
pub fn read(path: &Path) -> Result<Configuration, Vec<ConfigError>> {
    let mut configuration = site::config::read(path, &Disk)?;
    // Where there is no present folder, relative paths lead nowhere in any case.
    if let Ok(here) = std::env::current_dir() {
        configuration.site.anchor(&here);
        configuration.places.anchor(&here);
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

    /// One folder after the other, as deep as the pattern has components.
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

/// What matches in one folder; hidden files only if the pattern says so. A folder that is not there has
/// nothing in it.
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

/// As a route's pattern without a slash matches a last segment.
fn matches(pattern: &str, name: &str) -> bool {
    let path = SafePath::parse("/").ok().and_then(|root| root.join(name));
    let pattern = Pattern::parse(pattern).ok();
    path.zip(pattern).is_some_and(|(path, pattern)| pattern.matches(&path))
}
