//! What configurations of nginx, lighttpd, Apache and Caddy become, and that it can be read.

mod apache;
mod caddy;
mod lighttpd;
mod nginx;
mod several;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dialects::{Conversion, Disk, Severity, Web};

/// Files by their paths.
struct Files(BTreeMap<PathBuf, String>);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        Files(files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect())
    }
}

impl Disk for Files {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        let below = self.0.keys().filter_map(|file| file.parent()?.strip_prefix(path).ok());
        let first = below
            .filter_map(|rest| Some(rest.components().next()?.as_os_str().to_string_lossy().into_owned()));
        first.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn names(&self, path: &Path) -> Vec<String> {
        let below = self.0.keys().filter_map(|file| file.strip_prefix(path).ok()?.components().next());
        let names = below.map(|first| first.as_os_str().to_string_lossy().into_owned());
        names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file.parent() == Some(path))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let text = pattern.to_string_lossy();
        Ok(match text.split_once('*') {
            None => self.0.keys().filter(|path| *path == pattern).cloned().collect(),
            Some((before, after)) => {
                let matches = |path: &&PathBuf| {
                    let path = path.to_string_lossy();
                    path.starts_with(before) && path.ends_with(after)
                };
                self.0.keys().filter(matches).cloned().collect()
            }
        })
    }
}

/// The text of a conversion, and any other file.
struct Text<'t>(&'t Path, &'t str);

impl site::config::Source for Text<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(if path == self.0 { self.1.into() } else { Vec::new() })
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A conversion that can be read.
fn converted(web: Web, file: &str, files: &[(&str, &str)]) -> Conversion {
    let conversion = web.convert(Path::new(file), &Files::new(files));
    let read = site::config::read(&conversion.file, &Text(&conversion.file, &conversion.text));
    if let Err(errors) = read
        && !conversion.is_refused()
    {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}", errors.join("\n"), conversion.text);
    }
    conversion
}

/// Rows: a configuration, and lines that it becomes.
fn check(web: Web, rows: &[(&str, &[&str])]) {
    for (text, expected) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        assert!(!conversion.is_refused(), "{text}\n{}", conversion.text);
        let mut lines = conversion.text.lines();
        for wanted in *expected {
            assert!(lines.any(|line| line == *wanted), "{wanted}\nis not in order in\n{}", conversion.text);
        }
    }
}

/// Rows: a configuration, and lines that it does not become.
fn lacks(web: Web, rows: &[(&str, &[&str])]) {
    for (text, unwanted) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        for line in *unwanted {
            assert!(conversion.text.lines().all(|own| own != *line), "{line}\nis in\n{}", conversion.text);
        }
    }
}

/// Rows: a configuration, and the line and a part of what is said about it.
fn refuse(web: Web, rows: &[(&str, u32, &str)]) {
    for (text, line, part) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        let found = conversion.findings.iter().any(|finding| {
            finding.severity == Severity::Error && finding.line == Some(*line) && finding.what.contains(part)
        });
        assert!(found, "{text}\n{:#?}", conversion.findings);
    }
}
