//! Locations that expressions take all paths from. nginx tries the expressions of a server before the prefixes, and the
//! first one that matches counts. An expression such as `^/a/` becomes a prefix, to which longer ones would be added.

use crate::brackets::is_glob;
use crate::draft::Draft;
use crate::regex;
use crate::tree::Directive;

use super::location::with_slash;
use super::order::prefix_of;

/// An expression, and a folder whose paths it has.
#[derive(Clone)]
struct Taken {
    folder: String,
    any_case: bool,
    by: String,
}

impl Taken {
    fn has(&self, path: &str) -> bool {
        match self.any_case {
            true => path.to_lowercase().starts_with(&self.folder.to_lowercase()),
            false => path.starts_with(&self.folder),
        }
    }
}

/// The block without the locations that have no path left.
pub fn without_preceded(block: Vec<Directive>, draft: &mut Draft) -> Vec<Directive> {
    of_block(block, &[], draft)
}

fn of_block(block: Vec<Directive>, outer: &[Taken], draft: &mut Draft) -> Vec<Directive> {
    let block = without_expressions(block, draft);
    let all: Vec<Taken> = outer.iter().cloned().chain(block.iter().flat_map(taken)).collect();
    let mut kept = Vec::new();
    for child in block {
        let prefix = prefix_of(&child).filter(|_| child.name == "location" && child.arguments.len() == 1);
        let by = prefix.and_then(|prefix| all.iter().find(|taken| taken.has(prefix)));
        if let Some(Taken { by, .. }) = by {
            kept.extend(leave_out(child, by, draft));
            continue;
        }
        // What is within another kind of location is asked for before the expressions around it.
        let around: &[Taken] = if prefix.is_some() { &all } else { &[] };
        let block = child.block.clone().map(|block| of_block(block, around, draft));
        kept.push(Directive { block, ..child });
    }
    kept
}

/// Without expressions all of whose paths an earlier one has, or a prefix with `^~`.
fn without_expressions(block: Vec<Directive>, draft: &mut Draft) -> Vec<Directive> {
    let prefixes: Vec<Directive> = block
        .iter()
        .filter(|child| child.name == "location" && prefix_of(child).is_some())
        .cloned()
        .collect();
    let mut before: Vec<Taken> = Vec::new();
    let mut kept = Vec::new();
    for child in block {
        let by = expression(&child).and_then(|all| {
            let is_any = child.argument(0) == "~*";
            let first = before.iter().find(|one| {
                (one.any_case || !is_any) && all.iter().all(|path| path.starts_with('/') && one.has(path))
            });
            first.map(|one| one.by.clone()).or_else(|| kept_from(&all, is_any, &prefixes))
        });
        match by {
            Some(by) => kept.extend(leave_out(child, &by, draft)),
            _ => {
                before.extend(taken(&child));
                kept.push(child);
            }
        }
    }
    kept
}

/// The prefix with `^~` that has all these paths, if no longer one has some of them.
fn kept_from(all: &[String], any_case: bool, prefixes: &[Directive]) -> Option<String> {
    let [path] = all else { return None };
    let texts = || prefixes.iter().filter_map(|child| Some((child, prefix_of(child)?)));
    let (child, text) =
        texts().filter(|(_, text)| path.starts_with(text)).max_by_key(|(_, text)| text.len())?;
    let is_alone = !texts().any(|(_, other)| other.len() > text.len() && other.starts_with(text));
    (child.argument(0) == "^~" && is_alone && !any_case).then(|| child.text())
}

/// The patterns of an expression that says them exactly.
fn expression(child: &Directive) -> Option<Vec<String>> {
    let is_expression = child.name == "location" && matches!(child.argument(0), "~" | "~*");
    is_expression.then(|| regex::patterns(&with_slash(child.argument(1)))).flatten()
}

fn taken(child: &Directive) -> Vec<Taken> {
    let folders = expression(child).unwrap_or_default().into_iter();
    let folders = folders.filter(|path| path.starts_with('/') && path.ends_with('/') && !is_glob(path));
    folders.map(|folder| Taken { folder, any_case: child.argument(0) == "~*", by: child.text() }).collect()
}

/// Reports a location that has no path. `None`: nothing within it has one either. What is denied there otherwise is for
/// what is within it, too.
fn leave_out(child: Directive, by: &str, draft: &mut Draft) -> Option<Directive> {
    let what = format!("{by} has all paths of {}", child.text());
    if !has_own_paths(child.children()) {
        draft.note(&child.place, what, "it has no effect");
        return None;
    }
    let what = format!("{what}, but not of what is within it");
    draft.error(&child.place, what, "write each location in the server; until then, all of it is denied");
    let mut block = child.block.unwrap_or_default();
    block.retain(|inner| inner.name == "location");
    let (name, arguments) = ("deny".to_owned(), vec!["all".to_owned()]);
    block.push(Directive { name, arguments, block: None, place: child.place.clone() });
    Some(Directive { block: Some(block), ..child })
}

/// Whether a block has locations that precede expressions around it.
fn has_own_paths(block: &[Directive]) -> bool {
    let mut locations = block.iter().filter(|inner| inner.name == "location");
    locations.any(|inner| inner.arguments.len() > 1 || has_own_paths(inner.children()))
}
