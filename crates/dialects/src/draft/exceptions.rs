//! What is excepted from a denial: a path, and not the folder of its name.

use site::route::Pattern;

use crate::brackets::{self, is_glob, is_wildcard};
use crate::document::Value;
use crate::tree::Place;

use super::Scope;

/// A rule that excepts the path `/a` excepts the folder `/a/`, too, which the other server denies. So another rule
/// denies it. Returns the patterns whose folders no rule can deny.
pub fn except_no_folders(rules: &mut Vec<Scope>) -> Vec<(Place, String)> {
    let globs =
        |rule: &Scope| excepted_globs(denied(rule)).into_iter().map(|glob| (rule.place(), glob)).collect();
    let open = rules.iter().flat_map(|rule| -> Vec<_> { globs(rule) }).collect();
    let further = |rule: &Scope| {
        let folders = excepted_folders(denied(rule));
        let mut further = rule.clone();
        further.set(&rule.place(), "path", folders.clone());
        (!folders.is_empty()).then_some(further)
    };
    *rules = rules.iter().flat_map(|rule| std::iter::once(rule.clone()).chain(further(rule))).collect();
    open
}

/// The patterns of what a rule denies.
fn denied(rule: &Scope) -> &[String] {
    let paths = rule.get("path").filter(|_| rule.text("then") == Some("deny"));
    paths.map(Value::texts).unwrap_or_default()
}

/// The globs that these patterns except with the folders of such names, unless another one is for the folders.
fn excepted_globs(patterns: &[String]) -> Vec<String> {
    let excepted: Vec<&str> = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).collect();
    let is_open = |glob: &&&str| {
        let example = brackets::parse(glob).ok().and_then(|pattern| pattern.example());
        let Some(folder) = example.map(|path| path.as_folder()) else { return false };
        let others = excepted.iter().filter(|other| *other != *glob);
        let mut parsed = others.filter_map(|other| brackets::parse(other).ok());
        !parsed.any(|pattern| pattern.matches(&folder))
    };
    let globs = excepted.iter().filter(|path| is_glob(path) && takes_folders(path));
    globs.filter(is_open).map(|glob| (*glob).to_owned()).collect()
}

/// Whether the paths of a pattern may be folders: a glob is for `/a/`, too, where its expression is for `/a` alone. What
/// is named as a file, such as `*.css`, hardly is one.
pub fn takes_folders(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or(pattern);
    let end = name.rsplit(is_wildcard).next().unwrap_or(name);
    !pattern.ends_with("**") && !end.contains('.')
}

/// The folders of the paths that these patterns except, unless another one is for them.
fn excepted_folders(patterns: &[String]) -> Vec<String> {
    let excepted: Vec<&str> = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).collect();
    let parsed: Vec<Pattern> = excepted.iter().filter_map(|path| brackets::parse(path).ok()).collect();
    let folder = |path: &&&str| {
        let alone = format!("{path}/.");
        let folder = brackets::parse(&alone).ok().and_then(|pattern| pattern.example())?;
        (!parsed.iter().any(|pattern| pattern.matches(&folder))).then_some(alone)
    };
    let paths = excepted.iter().filter(|path| !is_glob(path) && !path.ends_with(['/', '.']));
    paths.filter_map(|path| folder(&path)).collect()
}
