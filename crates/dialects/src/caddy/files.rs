//! Files: their folder, how they are sent, and what is looked for.

use crate::draft::Host;
use crate::tree::{Directive, unconverted};

use super::matchers::Matched;
use super::site::{Hidden, Site, Way};
use super::tried::{Tried, tried};

impl Site<'_> {
    pub(super) fn root(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, .. } = matched;
        let (place, folder) = (&child.place, matched.argument());
        let is_name = |part: &str| matches!(part, "{host}" | "{http.request.host}");
        let is_known = |part: &str| !part.contains('{') || is_name(part) && paths.is_empty();
        if !folder.split('/').all(is_known) {
            let what_to_do = "write a folder; see $host in root, which the root of some paths has not";
            return self.draft.error(place, unconverted(child), what_to_do);
        }
        let parts: Vec<&str> =
            folder.split('/').map(|part| if is_name(part) { "$host" } else { part }).collect();
        let root = self.folder.join(parts.join("/")).to_string_lossy().into_owned();
        let key = if way.strips { "alias" } else { "root" };
        self.each(paths, place, host, |scope| scope.set(place, key, root.as_str()));
    }

    pub(super) fn file_server(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, .. } = matched;
        let place = &child.place;
        // Elsewhere, what responds for all paths precedes it.
        if way.block.is_some() || way.is_in_order {
            self.of_files.extend(paths.iter().filter(|path| !path.ends_with('/')).cloned());
        }
        let of_paths = (way.block, paths.to_vec());
        if self.served.contains(&of_paths) {
            self.draft.error(place, "a file_server is for these paths already", "decide for one of them");
        }
        self.served.push(of_paths);
        self.serves_files |= paths.is_empty();
        // The last one counts.
        let last = child.children().iter().rfind(|option| option.name == "hide");
        for option in child.children() {
            match option.name.as_str() {
                "hide" if last.is_some_and(|last| !std::ptr::eq(last, option)) => {}
                "browse" => self.each(paths, place, host, |scope| scope.set(place, "listing", true)),
                "index" => {
                    self.each(paths, place, host, |scope| scope.set(place, "index", option.arguments.clone()))
                }
                "precompressed" => {
                    let all: Vec<String> = match option.arguments.is_empty() {
                        true => ["br", "zstd", "gzip"].map(str::to_owned).to_vec(),
                        false => option.arguments.clone(),
                    };
                    self.each(paths, place, host, |scope| scope.set(place, "precompressed", all.clone()));
                }
                "hide" => {
                    let (paths, option) = (paths.to_vec(), option.clone());
                    self.hidden.push(Hidden { paths, option, strips: way.strips });
                }
                _ => self.draft.error(&option.place, unconverted(option), "see [[rule]] and root"),
            }
        }
        match matched.argument() {
            "browse" => self.each(paths, place, host, |scope| scope.set(place, "listing", true)),
            // Makes the routes of the paths.
            _ => self.each(paths, place, host, |_| {}),
        }
    }

    pub(super) fn try_files(&mut self, child: &Directive, way: &Way, host: &mut Host) {
        let place = &child.place;
        let Some(found) = tried(&child.arguments) else {
            let what_to_do =
                "write {path}, {path}.html, {path}/ and {path}/index.html, and a file at the end";
            return self.draft.error(place, unconverted(child), what_to_do);
        };
        let Tried { suffixes, target, is_path_first, has_folders, has_bare_folders, is_status } = found;
        let leaves_folders = !has_folders && (target.is_some() || is_status);
        // What is found in a folder is its index file, and not its listing.
        let lists_none = !has_bare_folders && (target.is_some() || is_status);
        self.leaves_folders |= lists_none && way.paths.is_empty();
        if suffixes.is_empty() && target.is_none() && !leaves_folders {
            return;
        }
        if way.strips {
            return self.draft.error(place, unconverted(child), "write it in the root of the files");
        }
        if !suffixes.is_empty() && !is_path_first {
            let what =
                format!("{}: a file of the path itself precedes those with an extension", child.text());
            self.draft.warn(place, what, "nothing to do, unless there are files with both names");
        }
        if let Some(path) = target.as_ref().filter(|_| has_bare_folders) {
            let what =
                format!("{path} responds for folders without an index file, too, which are 404 in Caddy");
            self.draft.warn(place, what, "nothing to do, unless they have to be 404");
        }
        self.each(&way.paths, place, host, |scope| {
            if !suffixes.is_empty() {
                scope.set(place, "try_suffixes", suffixes.clone());
            }
            if let Some(path) = &target {
                scope.set(place, "fallback", path.as_str());
                scope.set(place, "fallback_for", "all");
            }
            // A folder is none of the files that are tried.
            if leaves_folders {
                scope.set(place, "index", Vec::<String>::new());
            }
        });
    }
}
