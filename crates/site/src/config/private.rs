//! Hides the files that a configuration names, such as those of passwords, where they lie beneath a root that is
//! served.
//!
//! Compares paths alone, in folders that clients publish in also without links. The server compares the files themselves,
//! too: a link to such a file is another name of it.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::error::{ConfigError, Place};
use super::{Configuration, Source, shown};
use crate::folder::HostFolder;
use crate::model::{AccessLog, Action, NamedRoot};
use crate::sink::Sink;

/// Marks the files of the configuration itself, and of lists that it includes.
pub const READ: &str = "include";
/// Marks the folder of stored responses.
pub const STORED: &str = "cache_files";
/// Keys whose values are files, or folders of files, that are never served. A certificate without a key of its own may
/// have the key inside: it is marked as one.
const KEYS: [&str; 11] = [
    READ,
    "user_files",
    "group_files",
    "keys",
    "passwd",
    "throttle_file",
    STORED,
    "certificate_key",
    "ticket_key_file",
    "eab_key_file",
    "tls_certificate_key",
];
/// Keys whose values are files that may be read, and are never written by clients: a client that replaced one could act
/// as the server, or as its upstreams.
const NEVER_WRITTEN: [&str; 14] = [
    "certificate",
    "tls_certificate",
    "tls_ca",
    "ca",
    "client_ca",
    "client_crl",
    "command",
    "interpreter",
    "dns_command",
    "listing_program",
    "access",
    "access_log",
    "error",
    "pid_file",
];
const WHAT_TO_DO: &str = "move it elsewhere; requests for it get 404";

/// By root, the paths beneath it.
type Hidden = HashMap<PathBuf, Vec<SafePath<'static>>>;

impl Configuration {
    /// Hides the folders of metafiles in all routes, because a route for another pattern may have other keys.
    fn hide_metafiles(&mut self) {
        let routes = self.site.hosts.iter().flat_map(|host| host.routes.iter());
        let mut folders: Vec<String> =
            routes.filter_map(|route| Some(route.files.meta.as_ref()?.folder.clone())).collect();
        folders.sort();
        folders.dedup();
        if folders.is_empty() {
            return;
        }
        let folders: Arc<[String]> = folders.into();
        for (_, routes) in self.site.hosts.folders_and_routes_mut() {
            for route in routes.iter_mut() {
                Arc::make_mut(&mut route.files).meta_folders = folders.clone();
            }
        }
    }

    /// The files that are never served. Paths are absolute by now.
    pub fn named_files(&self) -> impl Iterator<Item = &Path> {
        self.named().map(|(path, _)| path)
    }

    /// Warnings about lines of these files, which change more often than the configuration itself.
    pub fn warnings_of_named_files(&self) -> impl Iterator<Item = &ConfigError> {
        let keys = KEYS.iter().filter(|key| **key != READ);
        let named: Vec<&Path> = keys.flat_map(|key| self.places.values(key)).map(|(path, _)| path).collect();
        let is_named = move |file: &Path| named.iter().any(|named| named.ends_with(file));
        self.warnings.iter().filter(move |warning| is_named(&warning.file))
    }

    fn named(&self) -> impl Iterator<Item = (&Path, &Place)> {
        KEYS.iter().flat_map(|key| self.places.values(key)).filter(|(path, _)| path.is_absolute())
    }

    fn has_logs_by_host(&self) -> bool {
        self.site.log.access.as_ref().is_some_and(AccessLog::is_by_host)
    }

    fn hide_from_publishers(&mut self, source: &dyn Source) {
        let values = NEVER_WRITTEN.iter().flat_map(|key| self.places.values(key));
        let mut files: Vec<NamedFile> = values
            .filter(|(path, _)| path.is_absolute())
            .map(|(path, place)| NamedFile::new(path, place, source))
            .collect();
        // The files of hosts that "access" in [log] names.
        if let Some((_, place)) = self.places.values("access").next().filter(|_| self.has_logs_by_host()) {
            let place = place.clone();
            let own = self.site.hosts.iter().filter_map(|host| match &host.access_log.as_ref()?.sink {
                Sink::File(path) => Some(NamedFile::new(path, &place, source)),
                _ => None,
            });
            files.extend(own);
        }
        for (_, routes) in self.site.hosts.folders_and_routes_mut() {
            for route in routes.iter_mut().filter(|route| route.publishes()) {
                let Some(roots) = route.root().map(|root| paths_of(root, source)) else { continue };
                let mut private = Vec::new();
                for file in &files {
                    let found: Vec<_> = roots.iter().flat_map(|root| file.below(root)).collect();
                    if found.is_empty() {
                        continue;
                    }
                    private.extend(found);
                    let what = format!("{} lies in a folder that clients publish in", shown(&file.paths[0]));
                    let what_to_do = "move it out of the folder; clients can neither read nor write it";
                    warn_once(&mut self.warnings, file.warning(what, what_to_do));
                }
                if !private.is_empty() {
                    Arc::make_mut(&mut route.files).private = private.into();
                }
            }
        }
    }

    /// Hides the files in all routes, and in those that clients publish in, what they must not write. Paths are
    /// absolute by now.
    pub fn hide_files(&mut self, source: &dyn Source) {
        self.hide_metafiles();
        self.hide_from_publishers(source);
        let files: Vec<NamedFile> =
            self.named().map(|(path, place)| NamedFile::new(path, place, source)).collect();
        let beneath = by_folder(&files);
        let mut exposed: HashSet<PathBuf> = HashSet::new();
        let mut lists: HashMap<PathBuf, Arc<[SafePath<'static>]>> = HashMap::new();
        for (folder, routes) in self.site.hosts.folders_and_routes_mut() {
            for route in routes.iter_mut() {
                let private: Arc<[_]> = match (&route.action, folder) {
                    // What the server reads, it compares itself. What clients write has to be known by its path.
                    (Action::Files { root, .. }, _) if route.publishes() => {
                        let mut private = Vec::new();
                        for root in paths_of(root, source) {
                            let paths = beneath.get(&root).into_iter().flatten();
                            exposed.extend(paths.clone().map(|path| path.beneath(&root)));
                            private.extend(paths.cloned());
                        }
                        private.into()
                    }
                    (Action::Files { root, .. }, _) => {
                        let root = normalized(root);
                        let Some(paths) = beneath.get(&root) else { continue };
                        let list = lists.entry(root).or_insert_with_key(|root| {
                            exposed.extend(paths.iter().map(|path| path.beneath(root)));
                            paths.clone().into()
                        });
                        list.clone()
                    }
                    (Action::NamedFiles(NamedRoot::OfHost), Some(folder)) => {
                        let (paths, found) = of_names(folder, &files);
                        exposed.extend(found);
                        paths.into()
                    }
                    _ => continue,
                };
                // Most sites have no such file, and share these rules among their routes.
                if !private.is_empty() {
                    let rules = Arc::make_mut(&mut route.files);
                    rules.private = rules.private.iter().cloned().chain(private.iter().cloned()).collect();
                }
            }
        }
        for file in files.iter().filter(|file| file.paths.iter().any(|path| exposed.contains(path))) {
            let what = format!("{} lies beneath a folder that is served", shown(&file.paths[0]));
            warn_once(&mut self.warnings, file.warning(what, WHAT_TO_DO));
        }
    }
}

fn warn_once(warnings: &mut Vec<ConfigError>, warning: ConfigError) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

/// By each folder around a file, the path of the file beneath it.
fn by_folder(files: &[NamedFile]) -> Hidden {
    let mut beneath = Hidden::new();
    for path in files.iter().flat_map(|file| &file.paths) {
        for folder in path.ancestors().skip(1) {
            beneath.entry(folder.to_owned()).or_default().extend(below(path, folder));
        }
    }
    beneath
}

/// A file that the configuration names, with its precompressed copies, which have the same content.
struct NamedFile {
    paths: Vec<PathBuf>,
    place: Place,
}

impl NamedFile {
    fn new(path: &Path, place: &Place, source: &dyn Source) -> NamedFile {
        let mut paths = paths_of(path, source);
        let copy = |path: &PathBuf, coding: Coding| {
            let mut name = path.clone().into_os_string();
            name.push(coding.extension());
            PathBuf::from(name)
        };
        let codings = [Coding::Gzip, Coding::Br, Coding::Zstd];
        let copies = paths.iter().flat_map(|path| codings.map(|coding| copy(path, coding)));
        let copies: Vec<PathBuf> = copies.collect();
        paths.extend(copies);
        NamedFile { paths, place: place.clone() }
    }

    fn below(&self, folder: &Path) -> impl Iterator<Item = SafePath<'static>> {
        self.paths.iter().filter_map(move |path| below(path, folder))
    }

    fn warning(&self, what: String, what_to_do: &str) -> ConfigError {
        let Place { file, line } = &self.place;
        ConfigError { file: file.to_path_buf(), line: *line, what, what_to_do: what_to_do.to_owned() }
    }
}

/// The path as it is written, and the one without links, if it is another one.
fn paths_of(path: &Path, source: &dyn Source) -> Vec<PathBuf> {
    let mut paths = vec![normalized(path), source.resolve(path)];
    paths.dedup();
    paths
}

/// The files that lie beneath the folder of some name, and their paths there.
fn of_names(folder: &HostFolder, files: &[NamedFile]) -> (Vec<SafePath<'static>>, Vec<PathBuf>) {
    let found = files.iter().flat_map(|file| &file.paths).filter_map(|path| {
        // A file beside the folders is called as a name may be, and has no path beneath it.
        let root = folder.root_of(path).filter(|root| root != path)?;
        Some((below(path, &root)?, path.clone()))
    });
    found.unzip()
}

fn below(file: &Path, folder: &Path) -> Option<SafePath<'static>> {
    SafePath::from_path(file.strip_prefix(folder).ok()?).ok()
}

/// Without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = normalized.pop(),
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{Kind, Scope, described};

    #[test]
    fn hidden_files_are_values_of_keys_that_exist() {
        let keys = Scope::ALL.into_iter().flat_map(described);
        let names: HashSet<&str> =
            keys.filter(|key| !matches!(key.kind, Kind::Choice(_))).map(|key| key.name).collect();
        let marks = [READ, STORED];
        for key in KEYS.iter().chain(&NEVER_WRITTEN).filter(|key| !marks.contains(key)) {
            assert!(names.contains(key), "{key}");
        }
    }
}
