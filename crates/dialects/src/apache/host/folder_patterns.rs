//! `<DirectoryMatch>` and `<Directory ~>`: their expressions find names of files from the root of the disk, and not
//! paths of requests.

use std::collections::BTreeSet;
use std::path::Path;

use site::route::ANY_CASE;

use super::{Site, Tree, overlaps};
use crate::apache::context::{Context, Reading};
use crate::apache::paths;
use crate::brackets::{is_glob, is_wildcard, lowered};
use crate::class::Class;
use crate::draft::Draft;
use crate::tree::Directive;

/// A section, and the patterns of its files.
pub struct Section {
    patterns: Vec<String>,
    directive: Directive,
}

impl Site<'_> {
    /// `false`: no pattern can say which files it is for.
    pub(super) fn add_folder_patterns(&mut self, directive: &Directive) -> bool {
        let text = directive.arguments.last().map_or("", String::as_str);
        let patterns = paths::expression(text);
        let is_known = patterns.is_some();
        if let Some(patterns) = patterns {
            self.sections.push(Section { patterns, directive: directive.clone() });
        }
        is_known
    }

    /// Gives the folders and the paths of these sections what they say, when all aliases are known. They come after all
    /// other folders.
    pub(super) fn find_folder_patterns(&mut self, draft: &mut Draft) {
        // Apache has those of fewer slashes first.
        let slashes = |section: &Section| {
            section.directive.arguments.last().map_or(0, |expression| expression.matches('/').count())
        };
        sort::by_key(&mut self.sections, slashes);
        for Section { patterns, directive } in std::mem::take(&mut self.sections) {
            let place = directive.place.clone();
            let reading = Reading { path: self.world.path, overrides: None };
            let Some((folders, urls)) = self.of_patterns(&patterns) else {
                self.unknown(&directive, &reading, draft);
                continue;
            };
            let has_urls = !urls.is_empty();
            if has_urls {
                let found = self.patterns(urls, &directive, &reading, draft);
                self.matched.extend(found);
            }
            if folders.is_empty() {
                continue;
            }
            let children = self.without_redirects(directive.children(), draft);
            // What cannot be converted is reported once.
            let mut reported = Draft::default();
            let draft = if has_urls { &mut reported } else { &mut *draft };
            let context = Context::read_without_rewrites(&children, &place, &reading, draft);
            let within = |folder: &String| folders.iter().any(|outer| paths::below(folder, outer).is_some());
            let inner = self.folders.iter().map(|(folder, _)| folder.clone()).filter(within);
            let all: BTreeSet<String> = inner.chain(folders.iter().cloned()).collect();
            self.folders.extend(all.into_iter().map(|folder| (folder, context.clone())));
        }
    }

    /// The folders that patterns have as a whole, and the paths of requests that they have besides. `None`: some of
    /// these paths lead to files of an alias for which the patterns are not.
    fn of_patterns(&self, patterns: &[String]) -> Option<(BTreeSet<String>, Vec<String>)> {
        let (mut folders, mut urls) = (BTreeSet::new(), Vec::new());
        for pattern in patterns {
            if !pattern.trim_start_matches(ANY_CASE).starts_with('/') {
                // Names of files, in whichever folder.
                urls.push(pattern.clone());
                continue;
            }
            let mut others: Vec<(&Tree, Vec<String>)> = Vec::new();
            let mut has_whole = false;
            for tree in &self.trees {
                let name = format!("{}/", tree.folder.trim_end_matches('/'));
                let rest = behind(&name, pattern);
                if rest.iter().any(|rest| rest.trim_start_matches(ANY_CASE) == "**") {
                    folders.insert(tree.folder.clone());
                    has_whole = true;
                    continue;
                }
                let (inner, rest): (Vec<_>, Vec<_>) = rest.iter().partition(|rest| folder_of(rest).is_some());
                folders.extend(inner.iter().filter_map(|rest| Some(name.clone() + folder_of(rest)?)));
                others.push((tree, rest.into_iter().map(|rest| with_url(&tree.url, rest)).collect()));
            }
            if !(has_whole && self.is_of_disk(pattern)) {
                if others.iter().any(|(tree, patterns)| self.has_more(tree, patterns, &others)) {
                    return None;
                }
                urls.extend(others.into_iter().flat_map(|(_, patterns)| patterns));
            }
        }
        Some((folders, without_covered(urls)))
    }

    /// Whether patterns of a tree are for paths of a longer one, whose own patterns do not have them.
    fn has_more(&self, tree: &Tree, patterns: &[String], all: &[(&Tree, Vec<String>)]) -> bool {
        // Those that are missing have the section as a whole.
        let is_longer = |other: &&(&Tree, _)| other.0.url != tree.url && other.0.url.starts_with(&tree.url);
        all.iter().filter(is_longer).any(|(longer, own)| {
            let below = format!("{}**", longer.url);
            patterns.iter().any(|pattern| {
                let both = overlaps::common(pattern, &below);
                both.is_none_or(|both| !both.iter().all(|one| own.contains(one)))
            })
        })
    }

    /// Whether a pattern has the whole name of a folder, so that it is for no folder that only ends so.
    fn is_of_disk(&self, pattern: &str) -> bool {
        let name = pattern.strip_prefix("/**").unwrap_or(pattern).trim_end_matches(['*', '/']);
        !is_glob(name) && self.world.disk.is_folder(Path::new(name))
    }
}

/// What remains of a pattern behind a text that names begin with. Nothing: none of its names begin with it.
fn behind(text: &str, pattern: &str) -> BTreeSet<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        let rest = behind(&text.to_ascii_lowercase(), &lowered(pattern));
        return rest.into_iter().map(|rest| format!("{ANY_CASE}{rest}")).collect();
    }
    // A pattern with a slash at its end is for what is below.
    let whole = if pattern.ends_with('/') { format!("{pattern}**") } else { pattern.to_owned() };
    let mut open = BTreeSet::new();
    add(&mut open, &whole);
    for c in text.chars() {
        let mut next = BTreeSet::new();
        for rest in open {
            let one = rest.chars().next();
            if let Some((class, own)) = one.and_then(|own| Some((Class::of(own)?, own))) {
                if class.has(c) {
                    add(&mut next, &rest[own.len_utf8()..]);
                    next.extend(class.is_many().then_some(rest));
                }
                continue;
            }
            match one {
                Some('*') if rest.starts_with("**") || c != '/' => add(&mut next, rest),
                Some('?') if c != '/' => add(&mut next, &rest[1..]),
                Some(own) if own == c && !matches!(own, '*' | '?') => add(&mut next, &rest[own.len_utf8()..]),
                _ => {}
            }
        }
        open = next;
    }
    let is_below = |rest: &&str| !rest.is_empty() && !rest.starts_with('/');
    open.into_iter().filter(is_below).map(str::to_owned).collect()
}

/// Adds a rest of a pattern, and what is behind wildcards that find nothing.
fn add<'p>(open: &mut BTreeSet<&'p str>, rest: &'p str) {
    if !open.insert(rest) {
        return;
    }
    if let Some(behind) = rest.strip_prefix("/**").filter(|behind| behind.starts_with('/')) {
        add(open, behind);
    }
    if rest.starts_with('*') {
        add(open, rest.trim_start_matches('*'));
    }
}

/// The folder that the rest of a pattern is for, with all that is below it.
fn folder_of(rest: &str) -> Option<&str> {
    let folder = rest.strip_suffix("/**").unwrap_or(rest);
    (folder != rest && !folder.contains(|c| c == '(' || is_wildcard(c))).then_some(folder)
}

/// The pattern of requests for what remains behind the folder of an alias.
fn with_url(url: &str, rest: &str) -> String {
    let (case, rest) = rest.strip_prefix(ANY_CASE).map_or(("", rest), |rest| (ANY_CASE, rest));
    let whole = format!("{case}{url}{rest}");
    match whole.strip_suffix("/**") {
        // A prefix.
        Some(prefix) if !is_glob(prefix) => format!("{prefix}/"),
        _ => whole,
    }
}

/// Without patterns whose paths another one has.
fn without_covered(urls: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for url in &urls {
        let inner = |outer: &String| {
            let rest = outer.strip_prefix("/**").filter(|rest| rest.starts_with('/'));
            outer != url && rest.is_some_and(|rest| url.ends_with(rest))
        };
        if !kept.contains(url) && !urls.iter().any(inner) {
            kept.push(url.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_remains_of_a_pattern_behind_a_folder() {
        for (folder, pattern, expected) in [
            ("/usr/share/x/", "/**/usr/share/x**", vec!["**", "**/usr/share/x**", "usr/share/x**"]),
            ("/usr/share/xy/", "/usr/share/x**", vec!["**"]),
            ("/usr/share/y/", "/usr/share/x**", vec![]),
            ("/srv/www/", "/srv/*/private/", vec!["private/**"]),
            ("/srv/www/a/", "/srv/*/private/", vec![]),
            ("/srv/www/", "/**/www/pri**", vec!["**/www/pri**", "pri**", "www/pri**"]),
            ("/srv/www/", "/s?v/www", vec![]),
            ("/srv/www/", "(?i)/SRV/w*/A.txt", vec!["(?i)a.txt"]),
        ] {
            let found = behind(folder, pattern);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{folder} {pattern}");
        }
    }

    #[test]
    fn leaves_out_patterns_whose_paths_another_one_has() {
        let all = ["/**/.git**", "/.git**", "/a/**/.git**", "/a/b/"].map(str::to_owned).to_vec();
        assert_eq!(without_covered(all), ["/**/.git**", "/a/b/"]);
        assert_eq!([with_url("/a/", "b/**"), with_url("/", "**/b/**")], ["/a/b/", "/**/b/**"]);
    }
}
