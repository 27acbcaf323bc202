//! Reads a configuration: TOML files become a [`Site`], or errors that say where, what, and what to do.
//!
//! `toml` parses a file into a tree, into which the files that it includes are merged. `build` reads the sections of
//! the tree by the table of [`keys`], and builds a complete site: `hosts`, their `routes`, and the `actions` of these.
//!
//! Opens no file: see [`Source`].

mod access;
mod account;
mod actions;
mod alternates;
mod authentication;
mod authorizers;
mod build;
mod cache;
mod certificates;
mod cors;
mod definitions;
mod error;
mod fields;
mod files;
mod folders;
mod forward_proxy;
mod health;
mod hosts;
mod jwt;
mod keys;
mod limits;
mod listeners;
mod log;
mod private;
mod proxies;
mod published;
mod publishing;
mod routes;
mod scripts;
mod section;
mod settings;
mod switches;
mod tls;
mod toml;
mod tracing;
mod upstreams;
mod value;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::{ConfigError, MAX_ERRORS, Place, Places};
pub use fields::{media_type, own_field};
pub use keys::{manual, renewed};
pub use value::duration;

use self::toml::{Entry, Node, Table, Value};
use crate::model::Site;
use crate::route::is_glob;
use crate::utf8;
use error::{Errors, shown};

/// Bytes of a file.
pub const MAX_FILE: usize = 1024 * 1024;
/// Files of a configuration.
pub const MAX_FILES: usize = 1000;
/// Levels of included files below the first file.
pub const MAX_DEPTH: usize = 8;

/// A key whose files are read with the configuration.
const ADDRESS_FILE: &str = "address_file";

/// The files of a configuration.
pub trait Source {
    /// The bytes of a file. At most `limit` + 1 need be read.
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;

    /// The time zone of this process (`TZ`). `None`: that of the machine.
    fn timezone(&self) -> Option<String> {
        None
    }

    /// The path without links, as they are now. What does not exist keeps its name.
    fn resolve(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// The files whose path matches a pattern with `*` or `?`, in ascending order, possibly none.
    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
}

/// A valid configuration, and what is to be said of it.
pub struct Configuration {
    pub site: Site,
    /// Probable mistakes that do not prevent serving.
    pub warnings: Vec<ConfigError>,
    pub places: Places,
}

/// Reads the configuration that begins in `path`. Errors: all errors, at most [`MAX_ERRORS`], by file and line. If a
/// file is not valid TOML, only errors of syntax.
pub fn load(path: &Path, source: &dyn Source) -> Result<Site, Vec<ConfigError>> {
    read(path, source).map(|configuration| configuration.site)
}

/// As [`load`], with warnings and places.
pub fn read(path: &Path, source: &dyn Source) -> Result<Configuration, Vec<ConfigError>> {
    let errors = Errors::default();
    let file: Arc<Path> = Arc::from(path);
    let start = Place { file: file.clone(), line: None };
    let mut loader = Loader { source, errors: &errors, open: Vec::new(), files: 0 };
    let tree = loader.file(&file, &start);
    let site = match tree {
        Some(tree) if errors.is_empty() => build::site(&tree, source, &errors),
        _ => None,
    };
    let site = site.map(|mut site| {
        authentication::read_files(&mut site, source, &errors);
        jwt::read_keys(&mut site, source, &errors);
        site
    });
    match site {
        Some(site) if errors.is_empty() => {
            let (warnings, places) = errors.into_warnings_and_places();
            Ok(Configuration { site, warnings, places })
        }
        _ => Err(errors.into_sorted()),
    }
}

struct Loader<'l> {
    source: &'l dyn Source,
    errors: &'l Errors,
    /// The files from the first one to the one that includes the next, without links.
    open: Vec<PathBuf>,
    files: usize,
}

impl Loader<'_> {
    /// The tree of a file and of its included files. `place` names the file.
    fn file(&mut self, file: &Arc<Path>, place: &Place) -> Option<Table> {
        if let Some(what) = self.include_error(file) {
            self.errors.add(place, what, "remove this include");
            return None;
        }
        let text = self.text(file, place)?;
        let mut tree = toml::parse(&text, file, self.errors);
        self.read_address_files(&mut tree);
        if let Some(include) = tree.take("include") {
            self.open.push(self.source.resolve(file));
            self.include(&include, &mut tree);
            self.open.pop();
        }
        Some(tree)
    }

    /// Replaces the paths in `address_file` by the lines of these files.
    fn read_address_files(&mut self, table: &mut Table) {
        for entry in &mut table.entries {
            if entry.key == ADDRESS_FILE {
                let texts = std::mem::replace(&mut entry.node.value, Value::Array(Vec::new()));
                entry.node.value = self.lines_of_files(entry.node.place.clone(), texts);
                continue;
            }
            let nodes = match &mut entry.node.value {
                Value::Table(table) => {
                    self.read_address_files(table);
                    continue;
                }
                Value::Array(nodes) => nodes,
                _ => continue,
            };
            for node in nodes {
                if let Value::Table(table) = &mut node.value {
                    self.read_address_files(table);
                }
            }
        }
    }

    /// The lines of files, without comments. A value that is no path stays, and its reader reports it.
    fn lines_of_files(&mut self, place: Place, paths: Value) -> Value {
        let paths = match paths {
            Value::Array(nodes) => nodes,
            value => vec![Node { place, value }],
        };
        let mut lines = Vec::new();
        for path in paths {
            match &path.value {
                Value::Text(name) if !name.is_empty() => lines.extend(self.lines(name, &path.place)),
                _ => lines.push(path),
            }
        }
        Value::Array(lines)
    }

    fn lines(&mut self, name: &str, place: &Place) -> Vec<Node> {
        let file: Arc<Path> = Arc::from(place.folder().join(name));
        let Some(text) = self.text(&file, place) else { return Vec::new() };
        let mut nodes = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let place = Place { file: file.clone(), line: Some(number) };
                nodes.push(Node { place, value: Value::Text(line.to_owned()) });
            }
        }
        nodes
    }

    /// The text of a file. `None`: after an error.
    fn text(&mut self, file: &Path, place: &Place) -> Option<String> {
        self.files += 1;
        self.errors.mark(private::READ, file, place);
        read_text(file, place, self.source, self.errors)
    }

    fn include_error(&self, file: &Arc<Path>) -> Option<String> {
        if self.open.contains(&self.source.resolve(file)) {
            return Some(format!("{} includes itself", shown(file)));
        }
        if self.open.len() > MAX_DEPTH {
            return Some(format!("files include files more than {MAX_DEPTH} levels deep"));
        }
        (self.files >= MAX_FILES).then(|| format!("there are more than {MAX_FILES} files"))
    }

    fn include(&mut self, include: &Entry, tree: &mut Table) {
        let nodes = match &include.node.value {
            Value::Array(nodes) => &nodes[..],
            _ => std::slice::from_ref(&include.node),
        };
        for node in nodes {
            for path in self.included(node) {
                if let Some(more) = self.file(&Arc::from(path), &node.place) {
                    tree.merge(more, self.errors);
                }
            }
        }
    }

    /// The files that one value of `include` names.
    fn included(&self, node: &Node) -> Vec<PathBuf> {
        let pattern = match section::text(node) {
            Some(text) if !text.is_empty() => text,
            _ => {
                let what = format!("\"include\" cannot be {}", node.value.kind());
                self.errors.add(&node.place, what, "expected a path, or an array of paths");
                return Vec::new();
            }
        };
        let path = node.place.folder().join(pattern);
        if !is_glob(pattern) {
            return vec![path];
        }
        match self.source.expand(&path) {
            Ok(files) => {
                if files.is_empty() {
                    let what = format!("no file matches {}, so nothing is included", shown(&path));
                    self.errors.warn(&node.place, what, "check the pattern, or remove it");
                }
                files
            }
            Err(error) => {
                let what = format!("{} cannot be searched: {error}", shown(&path));
                self.errors.add(&node.place, what, "check the folder and its permissions");
                Vec::new()
            }
        }
    }
}

/// The bytes of a file: the one at `place`, or one that the line there names. `None`: after an error.
fn read_file(file: &Path, place: &Place, source: &dyn Source, errors: &Errors) -> Option<Vec<u8>> {
    let subject = || if *place.file == *file { "it".to_owned() } else { shown(file).to_string() };
    match source.read(file, MAX_FILE) {
        Ok(bytes) if bytes.len() <= MAX_FILE => Some(bytes),
        Ok(_) => {
            let what = format!("{} is larger than 1 MiB", subject());
            errors.add(place, what, "make it shorter, or split it");
            None
        }
        Err(error) => {
            let what = format!("{} cannot be read: {error}", subject());
            match error.kind() == io::ErrorKind::IsADirectory && *place.file == *file {
                true => errors.add(place, what, format!("to serve it, run `taipan {}`", shown(file))),
                false => errors.add(place, what, "check its path and its permissions"),
            }
            None
        }
    }
}

/// As [`read_file`], for a text.
fn read_text(file: &Path, place: &Place, source: &dyn Source, errors: &Errors) -> Option<String> {
    let bytes = read_file(file, place, source, errors)?;
    match utf8::text(&bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) => {
            let place = Place { file: Arc::from(file), line: Some(error.line) };
            errors.add(&place, error.to_string(), utf8::WHAT_TO_DO);
            None
        }
    }
}

#[cfg(test)]
pub use tests::of_text;

#[cfg(test)]
mod tests;
