//! The paths that conditions on `url` and the keys of settings speak of, as patterns.

use crate::brackets::{has_class, is_glob, is_wildcard_or_slash};
use crate::draft::with_ends;
use crate::pattern;
use crate::regex;

pub(super) fn url_patterns(operator: &str, operand: &str) -> Option<Vec<String>> {
    match operator {
        "==" => Some(vec![pattern::alone(operand)]).filter(|_| !is_glob(operand)),
        "=^" => Some(beginnings(operand)),
        "=$" => Some(vec![format!("*{operand}")]).filter(|_| !operand.contains('/')),
        "=~" => regex::exact(operand).map(|path| vec![path]).or_else(|| regex::patterns(operand)),
        _ => None,
    }
}

/// The folder, and the file.
pub(super) fn prefixes(text: &str) -> Vec<String> {
    if text.ends_with('/') { vec![text.to_owned()] } else { vec![format!("{text}/"), text.to_owned()] }
}

/// lighttpd compares the beginnings of texts.
fn beginnings(text: &str) -> Vec<String> {
    let longer = pattern::longer_names(text);
    prefixes(text).into_iter().chain(longer).collect()
}

/// The paths that both patterns have. `None`: patterns cannot say it.
pub(super) fn meet(one: &str, other: &str) -> Option<Vec<String>> {
    let longer = |pattern: &str| pattern.strip_suffix("?*/**").map(str::to_owned);
    let covers = |outer: &str, inner: &str| match longer(outer) {
        Some(text) => inner
            .strip_prefix(&text)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(is_wildcard_or_slash)),
        None => outer.ends_with('/') && inner.starts_with(outer),
    };
    if one == other || one == "/" || covers(one, other) {
        return Some(vec![other.to_owned()]);
    }
    if other == "/" || covers(other, one) {
        return Some(vec![one.to_owned()]);
    }
    let (glob, path) = match (is_glob(one), is_glob(other)) {
        (false, false) => return Some(Vec::new()),
        (true, false) => (one, other),
        (false, true) => (other, one),
        (true, true) => return None,
    };
    match glob.strip_prefix('*').filter(|end| !is_glob(end) && !end.contains('/')) {
        _ if longer(glob).is_some() => Some(Vec::new()),
        _ if path.ends_with('/') => pattern::within(path, glob).map(|pattern| vec![pattern]),
        Some(end) if path.ends_with(end) => Some(vec![path.to_owned()]),
        Some(_) => Some(Vec::new()),
        None => None,
    }
}

/// The paths of some patterns within a block. `None`: patterns cannot say it.
pub(super) fn narrowed(paths: &[String], own: &[String]) -> Option<Vec<String>> {
    if paths.is_empty() {
        return Some(own.to_vec());
    }
    let all: Option<Vec<Vec<String>>> =
        paths.iter().flat_map(|path| own.iter().map(|own| meet(path, own))).collect();
    let mut all = all?.concat();
    all.dedup();
    Some(all)
}

/// The paths that begin with a text. No text is everything.
pub(super) fn begun(text: &str) -> Vec<String> {
    if matches!(text, "" | "/") { vec!["/".to_owned()] } else { beginnings(text) }
}

/// The paths with an ending, for a block or everywhere. `None`: patterns cannot say it.
pub(super) fn within(paths: &[String], ending: &str) -> Option<Vec<String>> {
    let pattern = format!("*{ending}");
    if paths.is_empty() {
        return Some(vec![pattern]);
    }
    let mut all = Vec::new();
    for path in paths {
        match path.ends_with('/') {
            true => all.push(pattern::within(path, &pattern)?),
            false if path.trim_end_matches("?*/**").contains('?') || has_class(path) => return None,
            false => all.extend(with_ends(path, ending)),
        }
    }
    (!all.is_empty()).then_some(all)
}
