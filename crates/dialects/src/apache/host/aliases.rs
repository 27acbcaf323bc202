//! `Alias` and its like: prefixes of paths, each with the folder or the file that it leads to.

use std::path::Path;

use super::{Single, Site, Tree};
use crate::apache::paths;
use crate::draft::Draft;
use crate::regex::{self, Captured};
use crate::tree::{Directive, unconverted};

impl Site<'_> {
    pub(super) fn alias(&mut self, directive: &Directive, draft: &mut Draft) {
        let (from, to) = (directive.argument(0), directive.argument(1));
        if !directive.name.ends_with("match") {
            return self.alias_of(directive, from.to_owned(), to.to_owned(), draft);
        }
        let Some(all) = matches(from, to) else {
            return draft.error(&directive.place, unconverted(directive), "write an Alias");
        };
        for (from, to) in all {
            self.alias_of(directive, from, to, draft);
        }
    }

    fn alias_of(&mut self, directive: &Directive, from: String, to: String, draft: &mut Draft) {
        let place = directive.place.clone();
        let runs_scripts = directive.name.starts_with("script");
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

/// `AliasMatch`: prefixes, each with its folder. `None`: prefixes cannot say it.
fn matches(expression: &str, to: &str) -> Option<Vec<(String, String)>> {
    if let (Some(prefix), Some(folder)) = (regex::prefix(expression), to.strip_suffix("$1")) {
        return (!folder.contains('$')).then(|| vec![(prefix, folder.to_owned())]);
    }
    let (prefixes, paths): (Vec<_>, Vec<_>) =
        regex::captured(expression)?.into_iter().partition(|one| one.pattern.ends_with('/'));
    let folder = |one: &Captured| {
        let to = one.target(to)?;
        to.strip_suffix("${rest}").filter(|folder| !folder.contains('$')).map(str::to_owned)
    };
    let all: Option<Vec<_>> =
        prefixes.into_iter().map(|one| Some((one.pattern.clone(), folder(&one)?))).collect();
    // A prefix is for its folder alone, too.
    let is_within = |one: &Captured| {
        let pair = Some((format!("{}/", one.pattern), format!("{}/", one.target(to)?)));
        all.as_ref()?.iter().any(|own| Some(own) == pair.as_ref()).then_some(())
    };
    paths.iter().try_for_each(is_within)?;
    all.filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_with_a_rest_is_prefixes() {
        for (expression, to, expected) in [
            ("^/icons/(.*)$", "/srv/icons/$1", Some("/icons/ /srv/icons/")),
            ("^/(a|b)/(.*)$", "/srv/$1/$2", Some("/a/ /srv/a/, /b/ /srv/b/")),
            ("^/[ab]/(.*)", "/srv/$1", Some("/a/ /srv/, /b/ /srv/")),
            (
                "^/manual(?:/(?:de|en))?(/.*)?$",
                "/doc$1",
                Some("/manual/de/ /doc/, /manual/en/ /doc/, /manual/ /doc/"),
            ),
            ("^/a(/.*)?$", "/srv/x$1", Some("/a/ /srv/x/")),
            // The end of the target is not the rest, or the folder is another one.
            ("^/a/(.*)/b$", "/srv/$1", None),
            ("^/(a|b)/(.*)$", "/srv/$2/$1", None),
            ("^/a(?:/(.*))?$", "/srv/x$1", None),
            ("^/a$", "/srv/a", None),
            ("^/(.*)\\.gif$", "/srv/$1.gif", None),
            ("(?i)^/icons/(.*)$", "/srv/icons/$1", None),
            ("^/icons/([0-9]+)$", "/srv/$1", None),
        ] {
            let found = matches(expression, to).map(|all| {
                all.iter().map(|(from, to)| format!("{from} {to}")).collect::<Vec<_>>().join(", ")
            });
            assert_eq!(found.as_deref(), expected, "{expression}");
        }
    }
}
