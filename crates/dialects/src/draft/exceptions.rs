//! What is excepted from a denial: a path, and not the folder of its name.

use crate::brackets::{self, is_glob, is_wildcard};
use crate::document::Value;
use crate::tree::Place;

use super::Scope;

/// A rule that excepts the path `/a` excepts the folder `/a/`, too, which the other server denies. So another rule
/// denies it. Returns the patterns whose folders no rule can deny.
pub fn except_no_folders(rules: &mut Vec<Scope>) -> Vec<(Place, String)> {
    let mut globs = Vec::new();
    let mut all = Vec::new();
    for rule in rules.drain(..) {
        let (of_globs, of_paths): (Vec<_>, Vec<_>) =
            with_open_folders(denied(&rule)).into_iter().partition(|path| is_glob(path));
        globs.extend(of_globs.into_iter().map(|glob| (rule.place(), glob.to_owned())));
        let folders: Vec<String> = of_paths.iter().map(|path| format!("{path}/.")).collect();
        let mut further = rule.clone();
        further.set(&rule.place(), "path", folders.clone());
        all.push(rule);
        all.extend(Some(further).filter(|_| !folders.is_empty()));
    }
    *rules = all;
    globs
}

/// The patterns of what a rule denies.
fn denied(rule: &Scope) -> &[String] {
    let paths = rule.get("path").filter(|_| rule.text("then") == Some("deny"));
    paths.map(Value::texts).unwrap_or_default()
}

/// What these patterns except that may be a folder, unless another one is for the folders of its name.
fn with_open_folders(patterns: &[String]) -> Vec<&str> {
    let excepted: Vec<&str> = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).collect();
    let parsed = |path: &str| brackets::parse(path).ok();
    let is_open = |path: &str| {
        let example = parsed(path).and_then(|pattern| pattern.example());
        let Some(folder) = example.map(|path| path.as_folder()) else { return false };
        let others = excepted.iter().filter(|other| **other != path);
        !others.filter_map(|other| parsed(other)).any(|pattern| pattern.matches(&folder))
    };
    let may_be_folder = |path: &str| match is_glob(path) {
        true => takes_folders(path),
        false => !path.ends_with(['/', '.']),
    };
    excepted.iter().copied().filter(|path| may_be_folder(path) && is_open(path)).collect()
}

/// Whether the paths of a pattern may be folders: a glob is for `/a/`, too, where its expression is for `/a` alone. What
/// is named as a file, such as `*.css`, hardly is one.
pub fn takes_folders(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or(pattern);
    let end = name.rsplit(is_wildcard).next().unwrap_or(name);
    !pattern.ends_with("**") && !end.contains('.')
}
