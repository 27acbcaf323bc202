//! `Alias` and its like: prefixes of paths, each with the folder or the file that it leads to.

use std::path::Path;

use super::{Single, Site, Tree};
use crate::apache::paths;
use crate::draft::Draft;
use crate::regex;
use crate::tree::{Directive, unconverted};

impl Site<'_> {
    pub(super) fn alias(&mut self, directive: &Directive, draft: &mut Draft) {
        let (from, to) = (directive.argument(0), directive.argument(1));
        let place = directive.place.clone();
        let runs_scripts = directive.name.starts_with("script");
        let (from, to) = match directive.name.ends_with("match") {
            true => match (regex::prefix(from), to.strip_suffix("$1")) {
                (Some(from), Some(to)) if !to.contains('$') => (from, to.to_owned()),
                _ => return draft.error(&place, unconverted(directive), "write an Alias"),
            },
            false => (from.to_owned(), to.to_owned()),
        };
        if to.is_empty() {
            return draft.error(&place, unconverted(directive), "write the path and the folder");
        }
        let folder = paths::folder(&(self.world.path)(&to)).to_owned();
        if self.world.disk.is_file(Path::new(&folder)) {
            let is_file = !runs_scripts && folder.len() > from.len() && folder.ends_with(&from);
            // What is behind the path must be what is behind the program.
            let is_program = runs_scripts && from.len() > 1 && from.ends_with('/') == to.ends_with('/');
            return match is_file || is_program {
                true => self.singles.push(Single { url: from, file: folder, place, is_program }),
                false => {
                    let what_to_do = match runs_scripts {
                        true => "end both the path and the program with a slash, or neither of them",
                        false => "an alias is for a folder; write that of the file",
                    };
                    draft.error(&place, unconverted(directive), what_to_do)
                }
            };
        }
        if from != "/"
            && from.ends_with('/')
            && !to.ends_with('/')
            && self.world.disk.is_folder(Path::new(&folder))
        {
            let what_to_do =
                "end both the path and the folder with a slash: Apache looks beside the folder here";
            return draft.error(&place, unconverted(directive), what_to_do);
        }
        let url = paths::prefix(&from);
        if url == "/" && !self.has_root_alias {
            self.has_root_alias = true;
            self.trees.retain(|tree| tree.url != "/");
        }
        // The first one counts.
        if !self.trees.iter().any(|tree| tree.url == url) {
            self.trees.push(Tree { url, folder, runs_scripts, place });
        }
    }
}
